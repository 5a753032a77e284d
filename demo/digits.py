"""(b) A small convolutional network learns handwritten digits from scratch.

Two 3x3 convolutions with 16 and 32 channels, the second at every other pixel, then one dense
layer: 9,930 numbers, fitted by Adam to the mean cross entropy. The data are scikit-learn's 1,797
digits of 8x8 pixels; one in five is held out and never trained on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from sklearn.datasets import load_digits

from .engine import Engine, wait

EPOCHS, BATCH = 24, 64
RATE, DECAY_1, DECAY_2, EPSILON = 4e-3, 0.9, 0.999, 1e-8
WANTED = 0.97


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images (n, 8, 8, 1) in [0, 1] and labels: to train on, then held out."""
    digits = load_digits()
    images = (digits.images[..., None] / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    cut = len(images) * 4 // 5
    images, labels = images[order], digits.target[order].astype(np.int32)
    return images[:cut], labels[:cut], images[cut:], labels[cut:]


def initial() -> dict[str, np.ndarray]:
    """He's initial values: variance two over the number of inputs."""
    random = np.random.default_rng(1)

    def draw(*shape: int) -> np.ndarray:
        scale = np.sqrt(2 / np.prod(shape[:-1]))
        return (scale * random.standard_normal(shape)).astype(np.float32)

    return {
        "conv1": draw(3, 3, 1, 16), "bias1": np.zeros(16, np.float32),
        "conv2": draw(3, 3, 16, 32), "bias2": np.zeros(32, np.float32),
        "dense": draw(4 * 4 * 32, 10) / 4, "bias3": np.zeros(10, np.float32),
    }  # fmt: skip


def batches() -> list[np.ndarray]:
    """The indices of every step: each epoch goes through the data once, in a new order."""
    random, count = np.random.default_rng(2), len(data()[0])
    steps = []
    for _ in range(EPOCHS):
        order = random.permutation(count)
        steps += [order[i : i + BATCH] for i in range(0, count - BATCH + 1, BATCH)]
    return steps


def run(engine: Engine, output: Path, progress: Callable[[float, str], None]) -> dict[str, Any]:
    jax, jnp = engine.jax, engine.jnp

    def logits(params: dict[str, Any], images: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        for layer, stride in (("1", 1), ("2", 2)):
            images = jax.lax.conv_general_dilated(
                images, params[f"conv{layer}"], (stride, stride), "SAME", dimension_numbers=layout
            )
            images = jax.nn.relu(images + params[f"bias{layer}"])
        flat = images.reshape(images.shape[0], -1)
        return flat @ params["dense"] + params["bias3"]

    def loss(params: dict[str, Any], images: Any, labels: Any) -> Any:
        chosen = jax.nn.log_softmax(logits(params, images)) * jax.nn.one_hot(labels, 10)
        return -chosen.sum(axis=1).mean()

    @jax.jit
    def step(params: Any, mean: Any, square: Any, count: Any, images: Any, labels: Any) -> Any:
        value, slope = jax.value_and_grad(loss)(params, images, labels)
        count = count + 1
        mean = jax.tree.map(lambda m, g: DECAY_1 * m + (1 - DECAY_1) * g, mean, slope)
        square = jax.tree.map(lambda s, g: DECAY_2 * s + (1 - DECAY_2) * g * g, square, slope)

        def moved(p: Any, m: Any, s: Any) -> Any:
            m, s = m / (1 - DECAY_1**count), s / (1 - DECAY_2**count)
            return p - RATE * m / (jnp.sqrt(s) + EPSILON)

        return jax.tree.map(moved, params, mean, square), mean, square, count, value

    def start() -> tuple[Any, ...]:
        params = jax.tree.map(jnp.asarray, initial())
        zeros = jax.tree.map(jnp.zeros_like, params)
        return params, zeros, jax.tree.map(jnp.zeros_like, params), jnp.float32(0)

    predict = jax.jit(lambda params, images: logits(params, images).argmax(axis=1))
    first, per_step, params, losses = train(step, start, progress)
    held_out = data()[2]
    guesses = np.asarray(predict(params, jnp.asarray(held_out)))
    save(guesses, output / f"digits_{engine.name}.png")
    return result(first, per_step, guesses, losses)


def train(
    step: Callable[..., Any], start: Callable[[], tuple[Any, ...]],
    progress: Callable[[float, str], None],
) -> tuple[float, float, Any, list[float]]:  # fmt: skip
    """Runs all steps; gives the first's seconds, the median of the others, parameters, losses."""
    images, labels, *_ = data()
    state, times, losses = start(), [], []
    steps = batches()
    for number, chosen in enumerate(steps):
        begin = time.perf_counter()
        *state, value = step(*state, images[chosen], labels[chosen])
        wait(value)
        times.append(time.perf_counter() - begin)
        if number % 50 == 0:
            losses.append(float(value))
            progress(0.95 * number / len(steps), f"step {number}: loss {losses[-1]:.3f}")
    losses.append(float(value))
    return times[0], sorted(times[1:])[len(times) // 2], state[0], losses


def result(first: float, step: float, guesses: np.ndarray, losses: list[float]) -> dict[str, Any]:
    accuracy = float((guesses == data()[3]).mean())
    note = f"{accuracy:.2%} of the held-out digits right, loss {losses[0]:.2f} -> {losses[-1]:.4f}"
    return {"first": first, "step": step, "note": note, "good": accuracy >= WANTED}


# The same network by hand in NumPy: what jit(value_and_grad) saves its user.


def patches(images: np.ndarray, stride: int) -> np.ndarray:
    """Every 3x3 neighbourhood, as (n, rows, columns, 9 * channels); zeros outside the image."""
    # Stride 2 over 8 pixels pads one row in all, and JAX's "SAME" puts it behind.
    before = 1 if stride == 1 else 0
    padded = np.pad(images, ((0, 0), (before, 1), (before, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    windows = windows[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
    return windows.reshape(*windows.shape[:3], -1)


def spread(slope: np.ndarray, shape: tuple[int, ...], stride: int) -> np.ndarray:
    """The transpose of `patches`: adds every neighbourhood's numbers back to their pixels."""
    count, rows, columns, channels = shape
    before = 1 if stride == 1 else 0
    out = np.zeros((count, rows + before + 1, columns + before + 1, channels), np.float32)
    parts = slope.reshape(*slope.shape[:3], 3, 3, channels)
    high, wide = slope.shape[1] * stride, slope.shape[2] * stride
    for i in range(3):
        for j in range(3):
            out[:, i : i + high : stride, j : j + wide : stride] += parts[:, :, :, i, j]
    return out[:, before : before + rows, before : before + columns]


def run_numpy(output: Path, progress: Callable[[float, str], None]) -> dict[str, Any]:
    def layers(params: dict[str, np.ndarray], images: np.ndarray) -> tuple[np.ndarray, ...]:
        p1 = patches(images, 1)
        h1 = np.maximum(p1 @ params["conv1"].reshape(-1, 16) + params["bias1"], 0)
        p2 = patches(h1, 2)
        h2 = np.maximum(p2 @ params["conv2"].reshape(-1, 32) + params["bias2"], 0)
        flat = h2.reshape(len(h2), -1)
        return p1, h1, p2, h2, flat, flat @ params["dense"] + params["bias3"]

    def slopes(
        params: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray
    ) -> tuple[float, dict[str, np.ndarray]]:
        p1, h1, p2, h2, flat, out = layers(params, images)
        shifted = out - out.max(axis=1, keepdims=True)
        chances = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        value = float(-np.log(chances[rows, labels]).mean())
        chances[rows, labels] -= 1
        d3 = chances / np.float32(len(labels))
        d2 = (d3 @ params["dense"].T).reshape(h2.shape) * (h2 > 0)
        flat2 = d2.reshape(-1, 32)
        d1 = spread(d2 @ params["conv2"].reshape(-1, 32).T, h1.shape, 2) * (h1 > 0)
        flat1 = d1.reshape(-1, 16)
        return value, {
            "conv1": (p1.reshape(-1, 9).T @ flat1).reshape(3, 3, 1, 16), "bias1": flat1.sum(0),
            "conv2": (p2.reshape(-1, 144).T @ flat2).reshape(3, 3, 16, 32), "bias2": flat2.sum(0),
            "dense": flat.T @ d3, "bias3": d3.sum(0),
        }  # fmt: skip

    def step(params: Any, mean: Any, square: Any, count: int, images: Any, labels: Any) -> Any:
        value, slope = slopes(params, images, labels)
        count += 1
        for name, g in slope.items():
            mean[name] = DECAY_1 * mean[name] + (1 - DECAY_1) * g
            square[name] = DECAY_2 * square[name] + (1 - DECAY_2) * g * g
            m = mean[name] / (1 - DECAY_1**count)
            root = np.sqrt(square[name] / (1 - DECAY_2**count)) + EPSILON
            params[name] = params[name] - RATE * m / root
        return params, mean, square, count, value

    def start() -> tuple[Any, ...]:
        params = initial()
        zeros = {name: np.zeros_like(p) for name, p in params.items()}
        return params, zeros, dict(zeros), 0

    first, per_step, params, losses = train(step, start, progress)
    guesses = layers(params, data()[2])[-1].argmax(axis=1)
    return result(first, per_step, guesses, losses)


def save(guesses: np.ndarray, path: Path) -> None:
    """Held-out digits with what the network took them for; wrong ones have a red number."""
    *_, images, labels = data()
    scale, side, cell = 6, 15, 64
    sheet = Image.new("RGB", (side * cell, 8 * cell), "white")
    draw = ImageDraw.Draw(sheet)
    wrong_first = np.argsort(guesses == labels, kind="stable")[: side * 8]
    for place, index in enumerate(wrong_first):
        left, top = place % side * cell, place // side * cell
        pixels = 255 - (images[index, :, :, 0] * 255).astype(np.uint8)
        sheet.paste(Image.fromarray(pixels.repeat(scale, 0).repeat(scale, 1)), (left + 2, top + 2))
        colour = "black" if guesses[index] == labels[index] else "red"
        draw.text((left + 54, top + 2), str(int(guesses[index])), fill=colour)
    sheet.save(path)
