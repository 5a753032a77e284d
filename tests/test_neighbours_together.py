"""Elements that lanes compute several at a time: what is the same every few elements, axes shorter
than a vector, rows in pieces. What the loops look like, and that values do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import lax, numpy as jnp


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def loops(function: Any, *arguments: np.ndarray) -> str:
    text: str = pb.jit(function).lower(*arguments).as_text("loops")
    return text


def interleaved(np_: Any, *rows: Any) -> Any:
    return np_.stack(rows).T.reshape(-1)


def twice_interleaved(np_: Any, *rows: Any) -> Any:
    """Rows of columns of rows: indices of one axis are divided by 2 again and again."""
    x = np_.stack([rows[0], rows[-1]]).T
    for _ in range(2):
        x = np_.stack([x, x]).T.reshape(x.shape[-1], -1).T
    return x


@pytest.mark.parametrize("n", [63, 64, 127, 1366, 4097, 60_001])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_what_is_alike_every_few_elements(n: int, count: int) -> None:
    rows = [numbers(n) + k for k in range(count)]
    for function in (interleaved, twice_interleaved):
        for change in (lambda x: x * 2, lambda x: (x * 2)[1:-1], lambda x: (x * 2)[::-1]):
            ours = pb.jit(lambda *r, f=function, g=change: g(f(jnp, *r)))(*rows)
            assert np.array_equal(ours, change(function(np, *rows)))


def test_a_lane_computes_a_whole_period() -> None:
    def thinned(np_: Any, x: Any) -> Any:
        for _ in range(4):
            x = np_.stack([x, x]).T.reshape(x.shape[-1], -1)[::3].T
        return x

    x = numbers(120, 90)
    assert "irem" not in loops(lambda x: thinned(jnp, x), x)
    assert np.array_equal(pb.jit(lambda x: thinned(jnp, x))(x), thinned(np, x))


@pytest.mark.parametrize("shape", [(300, 125), (97, 61), (77, 30), (333, 1, 3), (100, 7, 3)])
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap", "symmetric"])
def test_padded_rows_that_fill_no_vector(shape: tuple[int, ...], mode: str) -> None:
    x = numbers(*shape)
    around = [(2, 1) if n > 2 else (0, 0) for n in shape]
    ours = pb.jit(lambda x: jnp.pad(x, around, mode=mode) * 2)(x)
    assert np.array_equal(ours, np.pad(x, around, mode=mode) * 2)


def test_padded_rows_are_read_without_conditions() -> None:
    """A loop for each piece of a row, inside which every element's source is known."""
    text = loops(lambda x: jnp.pad(x, 2, mode="edge"), numbers(93, 121))
    assert text.count("for vector") >= 3


def rotated(np_: Any, x: Any, c: Any, s: Any) -> Any:
    """Neighbours turned by angles, as in transformers."""
    a, b = x[..., ::2], x[..., 1::2]
    return np_.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)


@pytest.mark.parametrize("width", [3, 5, 12, 16, 20])
def test_pairs_along_axes_shorter_than_a_vector(width: int) -> None:
    x, c, s = numbers(3, 17, 5, 2 * width), numbers(17, 1, width), numbers(17, 1, width) + 1
    ours = pb.jit(lambda *a: rotated(jnp, *a))(x, c, s)
    assert np.allclose(ours, rotated(np, x, c, s), rtol=1e-6, atol=1e-6)


def test_pairs_are_written_where_they_belong() -> None:
    """One kernel, whose lanes run along the longer axis; what is reshaped is not copied."""
    x, c = numbers(3, 77, 5, 24), numbers(77, 1, 12)
    text = loops(lambda *a: rotated(jnp, *a), x, c, c)
    assert text.count("\nkernel ") == 1
    assert "in 0:i64..12:i64" in next(line for line in text.splitlines() if "vector" in line)


def test_a_sum_of_stacked_values_beside_a_loop() -> None:
    """Lattice Boltzmann: densities are summed over directions in the loop that sums velocities."""
    moves = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]])

    def step(np_: Any, f: Any) -> Any:
        f = np_.stack([np_.roll(f[k], tuple(moves[k].tolist()), (0, 1)) for k in range(9)])
        u = np_.einsum("qd,qxy->dxy", moves.astype(np.float32), f) / f.sum(0)
        return f * (1 + np_.einsum("qd,dxy->qxy", moves.astype(np.float32), u))

    f = 1 + 0.1 * numbers(9, 21, 23)
    ours = pb.jit(lambda f: lax.fori_loop(0, 2, lambda _, f: step(jnp, f), f))(f)
    assert np.allclose(ours, step(np, step(np, f)), rtol=1e-5)


def test_products_of_small_complex_matrices_are_loops() -> None:
    """Master equations: of 24 products a step, none is written out for all its rows."""
    a = np.diag(np.sqrt(np.arange(1, 16)), 1).astype(np.complex64)

    def slope(np_: Any, r: Any) -> Any:
        d = a.T
        return 0.1 * (a @ r @ d - 0.5 * (d @ a @ r + r @ d @ a)) - 1j * (d @ a @ r - r @ d @ a)

    def step(np_: Any, r: Any) -> Any:
        k1 = slope(np_, r)
        return r + 0.01 * slope(np_, r + 0.005 * k1)

    r = np.zeros((16, 16), np.complex64)
    r[3, 3] = r[2, 3] = 1
    program = lambda r: lax.fori_loop(0, 3, lambda _, r: step(jnp, r), r)
    expected = step(np, step(np, step(np, r)))
    assert np.allclose(pb.jit(program)(r), expected, rtol=1e-4, atol=1e-5)
    assert loops(program, r).count("\n") < 8000
