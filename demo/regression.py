"""(c) A straight line fitted to noisy points by gradient descent, with its state made explicit."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .engine import Engine, wait

STEPS, RATE = 1000, 0.005
TRUE_WEIGHT, TRUE_BIAS, NOISE, COUNT = 2.0, -1.0, 0.5, 128


class Params(NamedTuple):
    """A line: y = weight * x + bias."""

    weight: Any
    bias: Any


def run(engine: Engine, output: Path, progress: Callable[[float, str], None]) -> dict[str, Any]:
    jax, jnp = engine.jax, engine.jnp
    key = jax.random.key(42)
    x_key, noise_key = jax.random.split(key)
    xs = jax.random.normal(x_key, (COUNT, 1))
    ys = xs * TRUE_WEIGHT + TRUE_BIAS + NOISE * jax.random.normal(noise_key, (COUNT, 1))

    def loss(params: Params) -> Any:
        return jnp.mean((params.weight * xs + params.bias - ys) ** 2)

    @jax.jit
    def update(params: Params) -> Params:
        return jax.tree.map(lambda p, g: p - RATE * g, params, jax.grad(loss)(params))

    weight_key, bias_key = jax.random.split(key)
    params = Params(jax.random.normal(weight_key, ()), jax.random.normal(bias_key, ()))
    first, step, params = descend(update, params, progress)
    save(np.asarray(xs), np.asarray(ys), params, output / f"regression_{engine.name}.png")
    return result(first, step, params)


def run_numpy(output: Path, progress: Callable[[float, str], None]) -> dict[str, Any]:
    random = np.random.default_rng(42)
    xs = random.standard_normal((COUNT, 1), np.float32)
    ys = xs * TRUE_WEIGHT + TRUE_BIAS + NOISE * random.standard_normal((COUNT, 1), np.float32)

    def update(params: Params) -> Params:
        error = 2 * (params.weight * xs + params.bias - ys) / COUNT
        return Params(params.weight - RATE * (error * xs).sum(), params.bias - RATE * error.sum())

    first, step, params = descend(update, Params(np.float32(0), np.float32(0)), progress)
    return result(first, step, params)


def descend(
    update: Callable[[Params], Params], params: Params, progress: Callable[[float, str], None]
) -> tuple[float, float, Params]:
    """All steps; gives the first's seconds, the median of the others, and the fitted line."""
    times = []
    for number in range(STEPS):
        start = time.perf_counter()
        params = update(params)
        wait(params)
        times.append(time.perf_counter() - start)
        if number % 250 == 0:
            progress(0.9 * number / STEPS, f"step {number}")
    return times[0], sorted(times[1:])[len(times) // 2], params


def result(first: float, step: float, params: Params) -> dict[str, Any]:
    weight, bias = float(params.weight), float(params.bias)
    good = abs(weight - TRUE_WEIGHT) < 0.15 and abs(bias - TRUE_BIAS) < 0.15
    note = f"y = {weight:.3f} x {bias:+.3f} (the truth: {TRUE_WEIGHT:g} x {TRUE_BIAS:+g})"
    return {"first": first, "step": step, "note": note, "good": good}


def save(xs: np.ndarray, ys: np.ndarray, params: Params, path: Path) -> None:
    # Loading pyplot takes longer than the whole fit: only after the clock has stopped.
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    axes.scatter(xs, ys, s=12, label="data")
    ends = np.array([xs.min(), xs.max()])
    line = float(params.weight) * ends + float(params.bias)
    axes.plot(ends, line, color="red", label="fitted line")
    axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
