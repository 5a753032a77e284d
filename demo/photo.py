"""(a) A photograph is given noise, denoised by a Gaussian filter and sharpened again.

A filter is a small matrix that slides over the picture: every pixel becomes the sum of its
neighbours, each times the matrix's entry there (a convolution). The Gaussian weighs neighbours by
exp(-d^2/2s^2) / 2 pi s^2 at distance d, which averages noise away and blurs; the sharpening filter
takes the neighbours away from 50 times the middle and divides by the sum of its entries, which
brings edges back. Both are applied to one colour at a time, and vmap makes of that a function of
all three.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.signal
from PIL import Image
from sklearn.datasets import load_sample_image

from .engine import Engine, median_seconds, timed

NOISE = 0.1  # standard deviation, of a range of [0, 1]
SIZE = 5
REPEATS = 15


def photograph() -> np.ndarray:
    """scikit-learn's photograph of the Summer Palace: 427 x 640 x 3, float32 in [0, 1]."""
    return (load_sample_image("china.jpg") / np.float32(255)).astype(np.float32)


def gaussian(xp: Any, sigma: float = 1.0) -> Any:
    offsets = xp.arange(SIZE) - SIZE // 2
    squared = offsets[:, None] ** 2 + offsets[None, :] ** 2
    return (xp.exp(-squared / (2 * sigma**2)) / (2 * np.pi * sigma**2)).astype(np.float32)


def sharpening(xp: Any) -> Any:
    middle = xp.eye(SIZE)[SIZE // 2]
    kernel = 51.0 * middle[:, None] * middle[None, :] - 1.0
    return (kernel / kernel.sum()).astype(np.float32)


def restore_channel(xp: Any, convolve2d: Callable[..., Any], channel: Any) -> tuple[Any, Any]:
    """The denoised and the then sharpened channel of a picture, both within [0, 1]."""
    smooth = xp.clip(convolve2d(channel, gaussian(xp), mode="same"), 0.0, 1.0)
    sharp = xp.clip(convolve2d(smooth, sharpening(xp), mode="same"), 0.0, 1.0)
    return smooth, sharp


def psnr(picture: np.ndarray, original: np.ndarray) -> float:
    """Peak signal to noise ratio in decibels: higher is nearer to the original."""
    return float(-10 * np.log10(np.mean((np.asarray(picture) - original) ** 2)))


def run(engine: Engine, output: Path, progress: Callable[[float, str], None]) -> dict[str, Any]:
    jax, jnp = engine.jax, engine.jnp
    original = photograph()
    noise = NOISE * jax.random.normal(jax.random.key(3), original.shape)
    noised = jnp.clip(original + noise, 0.0, 1.0)
    progress(0.2, "photograph loaded, noise added")

    @jax.jit
    def restore(picture: Any) -> tuple[Any, Any]:
        channel = lambda c: restore_channel(jnp, engine.signal.convolve2d, c)
        return jax.vmap(channel, in_axes=2, out_axes=2)(picture)

    (smooth, sharp), first = timed(lambda: restore(noised))
    progress(0.5, "restored once")
    step = median_seconds(lambda: restore(noised), REPEATS)
    progress(0.8, "restored again and again")
    pictures = {"original": original, "noised": noised, "denoised": smooth, "sharpened": sharp}
    save(pictures, output, engine.name)
    return result(first, step, pictures, original)


def run_numpy(output: Path, progress: Callable[[float, str], None]) -> dict[str, Any]:
    """The same filters by NumPy and SciPy, channel by channel."""
    original = photograph()
    noise = NOISE * np.random.default_rng(3).standard_normal(original.shape, np.float32)
    noised = np.clip(original + noise, 0, 1)

    def restore(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        channels = [
            restore_channel(np, scipy.signal.convolve2d, picture[:, :, c]) for c in range(3)
        ]
        smooth, sharp = zip(*channels)
        return np.stack(smooth, axis=2), np.stack(sharp, axis=2)

    (smooth, sharp), first = timed(lambda: restore(noised))
    progress(0.5, "restored once")
    step = median_seconds(lambda: restore(noised), REPEATS // 3)
    pictures = {"original": original, "noised": noised, "denoised": smooth, "sharpened": sharp}
    return result(first, step, pictures, original)


def result(
    first: float, step: float, pictures: dict[str, Any], original: np.ndarray
) -> dict[str, Any]:
    quality = {name: psnr(p, original) for name, p in pictures.items() if name != "original"}
    note = ", ".join(f"{name} {value:.1f}" for name, value in quality.items())
    good = quality["denoised"] > quality["noised"]
    return {"first": first, "step": step, "note": f"PSNR in dB: {note}", "good": good}


def save(pictures: dict[str, Any], output: Path, engine: str) -> None:
    """Writes each picture, and all four side by side with the original at the top left."""
    as_bytes = {k: np.asarray(np.asarray(p) * 255 + 0.5, np.uint8) for k, p in pictures.items()}
    for name, pixels in as_bytes.items():
        Image.fromarray(pixels).save(output / f"photo_{name}_{engine}.png")
    top = np.hstack((as_bytes["original"], as_bytes["noised"]))
    bottom = np.hstack((as_bytes["sharpened"], as_bytes["denoised"]))
    Image.fromarray(np.vstack((top, bottom))).save(output / f"photo_{engine}.png")
