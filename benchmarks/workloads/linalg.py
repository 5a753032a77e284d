"""Linear algebra, small and batched first; and a transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..space import Space
from . import torch_peers
from .registry import Case, data, workload


def spd(count: int) -> np.ndarray:
    a = data(count, count)
    return (a @ a.T / count + np.eye(count)).astype(np.float32)


@workload("linalg", "86000 solves of 3x3", source="jax#36927",
          numpy=lambda a, b: np.linalg.solve(a, b[..., None])[..., 0],
          torch=lambda torch, a, b: torch.linalg.solve(a, b))  # fmt: skip
def solves(space: Space) -> Case:
    a = data(86_000, 3, 3) + 3 * np.eye(3, dtype=np.float32)
    solve = lambda a, b: space.jnp.linalg.solve(a, b[..., None])[..., 0]
    return Case(solve, (space.array(a), space.array(data(86_000, 3, seed=1))))


@workload(
    "linalg",
    "20000 inverses of 3x3 by cofactors",
    numpy=np.linalg.inv,
    torch=lambda torch, a: torch.linalg.inv(a),
)
def cofactors(space: Space) -> Case:
    jnp = space.jnp
    a = data(20_000, 3, 3) + 3 * np.eye(3, dtype=np.float32)

    def inverse(m: Any) -> Any:
        rows = [jnp.cross(m[1], m[2]), jnp.cross(m[2], m[0]), jnp.cross(m[0], m[1])]
        return jnp.stack(rows, axis=1) / (m[0] * rows[0]).sum()

    mapped = inverse if space.jax is None else space.jax.vmap(inverse)
    return Case(mapped, (space.array(a),))


@workload(
    "linalg",
    "Cholesky, 200",
    numpy=np.linalg.cholesky,
    torch=lambda torch, a: torch.linalg.cholesky(a),
)
def cholesky(space: Space) -> Case:
    return Case(lambda a: space.jnp.linalg.cholesky(a), (space.array(spd(200)),))


def numpy_power(a: np.ndarray, v: np.ndarray) -> np.ndarray:
    for _ in range(100):
        v = a @ v
        v = v / np.sqrt((v * v).sum())
    return v


@workload("linalg", "power iteration, 200, 100 rounds", numpy=numpy_power, torch=torch_peers.power)
def power(space: Space) -> Case:
    def run(a: Any, v: Any) -> Any:
        def step(_: Any, v: Any) -> Any:
            v = a @ v
            return v / space.jnp.sqrt((v * v).sum())

        return space.lax.fori_loop(0, 100, step, v)

    return Case(run, (space.array(spd(200)), space.array(data(200, low=0.5))))


@workload("linalg", "conjugate gradients, 200, 30 rounds", torch=torch_peers.conjugate_gradients)
def gradients(space: Space) -> Case:
    def solve(a: Any, b: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, r, p, rr = state
            ap = a @ p
            alpha = rr / (p @ ap)
            x, r = x + alpha * p, r - alpha * ap
            new = r @ r
            return x, r, r + new / rr * p, new

        start = (space.jnp.zeros_like(b), b, b, b @ b)
        return space.lax.fori_loop(0, 30, step, start)[0]

    # Eigenvalues far apart: else thirty rounds end in 0 / 0, where denormals count as 0.
    matrix = spd(200) + np.diag(np.linspace(0, 100, 200, dtype=np.float32))
    return Case(solve, (space.array(matrix), space.array(data(200))))


@workload("linalg", "3-d Fourier transform, 96^3", source="jax#25808",
          numpy=np.fft.fftn, tolerance=1e-2,
          torch=lambda torch, x: torch.fft.fftn(x))  # fmt: skip
def fft(space: Space) -> Case:
    return Case(lambda x: space.jnp.fft.fftn(x), (space.array(data(96, 96, 96)),))


@workload(
    "linalg",
    "1000 QR factorisations of 4x4",
    numpy=np.linalg.qr,
    torch=lambda torch, a: tuple(torch.linalg.qr(a)),
)
def small_qr(space: Space) -> Case:
    qr = lambda a: tuple(space.jnp.linalg.qr(a))
    return Case(qr, (space.array(data(1000, 4, 4) + 2 * np.eye(4, dtype=np.float32)),))


@workload(
    "linalg",
    "Fourier transforms of prime length, 1000 x 97",
    numpy=np.fft.fft,
    torch=lambda torch, x: torch.fft.fft(x),
)
def prime_fft(space: Space) -> Case:
    return Case(lambda x: space.jnp.fft.fft(x), (space.array(data(1000, 97)),))


@workload(
    "linalg",
    "real Fourier transform, 255 x 255",
    numpy=np.fft.rfft2,
    tolerance=1e-2,
    torch=lambda torch, x: torch.fft.rfft2(x),
)
def odd_rfft(space: Space) -> Case:
    return Case(lambda x: space.jnp.fft.rfft2(x), (space.array(data(255, 255)),))
