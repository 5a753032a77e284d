"""Programs over axes of no and of one element: kernels compute what the reference computes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import lax, numpy as jnp
from pullback.backends.reference import eval_jaxpr_numpy
from pullback.loops.pipeline import compile_jaxpr
from pullback.loops.run import run_program
from pullback.runtime.executable import NativeExecutable, reference_rule

Case = tuple[Callable[..., Any], list[tuple[int, ...]]]
CASES: dict[str, Callable[[int, int], Case]] = {}
F = np.float32


def case(name: str, f: Callable[..., Any], *shapes: Callable[[int, int], tuple[int, ...]]) -> None:
    """`f` over operands whose shapes are functions of two extents."""
    CASES[name] = lambda n, m: (f, [shape(n, m) for shape in shapes])


def one(n: int, m: int) -> tuple[int, ...]:
    return (n,)


def two(n: int, m: int) -> tuple[int, ...]:
    return (n, m)


def turned(n: int, m: int) -> tuple[int, ...]:
    return (m, n)


def three(n: int, m: int) -> tuple[int, ...]:
    return (n, 2, m)


case("elementwise", lambda x, y: jnp.sin(x) * y + 1, two, two)
case("broadcast", lambda x, y: x[:, None] + y[None, :], one, lambda n, m: (m,))
case("complex", lambda x, y: lax.complex(x, y) * 2j, two, two)
for _name in ("sum", "prod"):
    for _axis in (None, 0, 1):
        case(
            f"{_name} {_axis}",
            lambda x, r=_name, a=_axis: getattr(jnp, r)(x, axis=a),
            two,
        )
case("sum of three", lambda x: (x.sum((0, 2)), x.sum((0, 1)), x.sum(1)), three)
case("max with an identity", lambda x: jnp.max(x, axis=0, initial=-1.0), two)
case("any, all", lambda x: ((x > 0).any(0), (x > 0).all(1)), two)
case("mean, var", lambda x: (jnp.mean(x, 1), jnp.var(x, 0)), two)
case("logsumexp", lambda x: jnp.exp(x - x.sum(1, keepdims=True)).sum(0), two)
case("cumulative", lambda x: (jnp.cumsum(x, 0), lax.cummax(x, 1), lax.cumlogsumexp(x, 0)), two)
case("dot", lambda x, y: x @ y, two, turned)
case("dot, vectors", lambda x, y: jnp.dot(x, y), one, one)
case("outer", lambda x, y: jnp.outer(x, y), one, lambda n, m: (m,))
case("batched dot", lambda x, y: jnp.einsum("bij,bjk->bik", x, y), three, lambda n, m: (n, m, 3))
case("einsum", lambda x, y: jnp.einsum("ij,ij->i", x, y), two, two)
case("transpose", lambda x: x.T + 1, two)
case("ravel", lambda x: jnp.ravel(x) * 2, three)
case("concatenate", lambda x, y: jnp.concatenate([x, y], 1), two, lambda n, m: (n, 2))
case("stack", lambda x, y: jnp.stack([x, y]), two, two)
case("pad", lambda x: jnp.pad(x, ((1, 2), (0, 1))), two)
case("pad inside", lambda x: lax.pad(x, 1.0, ((1, 0, 2), (-1, 2, 1))), lambda n, m: (n, m + 1))
case("rev", lambda x: jnp.flip(x), two)
case("slice", lambda x: x[: max(0, x.shape[0] - 1)] * 2, two)
case("strided", lambda x: x[::2, ::-1], two)
case(
    "dynamic slice",
    lambda x, i: lax.dynamic_slice(x, (i.astype(int), 0), (x.shape[0] // 2, x.shape[1])),
    two,
    lambda n, m: (),
)
case(
    "dynamic update",
    lambda x, y: lax.dynamic_update_slice(x, y, (1, 0)),
    two,
    lambda n, m: (n // 2, m),
)
case("gather", lambda x: x[jnp.arange(4) % max(1, x.shape[0])] if x.shape[0] else x, two)
case("gather of none", lambda x: x[jnp.zeros((0, 2), int)] if x.shape[0] else x, two)
case("scatter", lambda x, y: x.at[jnp.arange(x.shape[0])].add(y), two, two)
case("scatter of none", lambda x: x.at[jnp.zeros((0,), int)].set(1.0), two)
case("where", lambda x, y: jnp.where(x > y, x, 0), two, two)
case("sort", lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1)), two)
case("sort with values", lambda x, y: lax.sort((x, y), dimension=0, num_keys=2), two, two)
case("top_k", lambda x: lax.top_k(x, min(2, x.shape[-1])), two)
case("argmax", lambda x: jnp.argmax(x + 1, 1) if x.shape[1] else x, two)
case("iota", lambda x: jnp.arange(x.shape[0])[:, None] + x, two)
case("eye", lambda x: jnp.tril(x) + jnp.eye(*x.shape), two)
case("window sum", lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 1), (1, 1), "SAME"), two)
case("window max", lambda x: lax.reduce_window(x, -1.0, lax.max, (2, 2), (1, 2), "VALID"), two)
case("reduce of two", lambda x, y: lax.reduce(
    (x, y), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)), two, two)  # fmt: skip
case("select_n", lambda x, y: lax.select_n(x > 0, x, y), two, two)
case("clamp", lambda x: lax.clamp(-0.5, x, 0.5), two)
case("convert", lambda x: (x.astype(int), x.astype(bool), x.astype("bfloat16")), two)
case("bits", lambda x: lax.bitcast_convert_type(x, np.int32), two)
case("bytes", lambda x: lax.bitcast_convert_type(x, np.uint8), two)
case("half bytes", lambda x: lax.bitcast_convert_type(x.astype(np.int16), jnp.int4), two)
case("complex extreme", lambda x: lax.reduce_max(lax.complex(x, -x), (0,)), two)
case("map", lambda x: lax.map(lambda r: jnp.sin(r).sum(), x), two)
case("scan", lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(x.shape[1:]), x), two)
case("scan of scalars", lambda x: lax.scan(lambda c, r: (c + r, c), 0.0, x), one)
case("while", lambda x: lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * 2, c[1] + 1), (x, 0)),
     two)  # fmt: skip
case("cond", lambda x: lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y + 1, x), two)
case("fori", lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + i, x), two)
case("cholesky", lambda x: jnp.linalg.cholesky(jnp.eye(x.shape[0]) * 2 + 0 * x[:, None]), one)
case("solve", lambda x, y: jnp.linalg.solve(jnp.eye(x.shape[0]), y), one, two)
case("fft", lambda x: jnp.fft.fft(x, axis=0) if x.shape[0] else x, two)
case("gradient", lambda x: pullback.grad(lambda y: (jnp.sin(y) * y.sum(0)).sum())(x), two)
case("jacobian", lambda x: pullback.jacrev(lambda y: y * y.sum())(x), one)
case("softmax", lambda x: pullback.nn.softmax(x, axis=0) if x.shape[0] else x, two)
case("norm", lambda x: jnp.linalg.norm(x, axis=1), two)
case("searchsorted", lambda x, y: jnp.searchsorted(x, y), one, lambda n, m: (m,))
case("unstack", lambda x: jnp.diff(x, axis=0), two)
case("take along", lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1), two)
case("split", lambda x: jnp.split(x, 1, axis=1), two)
case("tile", lambda x: jnp.tile(x, (2, 3)), two)
case("repeat", lambda x: jnp.repeat(x, 2, axis=0), two)
case("roll", lambda x: jnp.roll(x, 1, axis=0), two)
case("unsorted", lambda x: jnp.bincount(x.astype(int), length=3), one)
case("segment", lambda x: pullback.ops.segment_sum(x, jnp.zeros(x.shape[0], int), 2), two)


def values(shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(F) for shape in shapes]


def agree(got: Any, want: Any, name: str) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, (name, got.shape, want.shape)
    assert got.dtype == want.dtype or not got.size, (name, got.dtype, want.dtype)
    if want.dtype.kind in "fcV":
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(
            got.astype(wide), want.astype(wide), rtol=2e-5, atol=2e-5, err_msg=name
        )
    else:
        np.testing.assert_array_equal(got, want, err_msg=name)


def check(f: Callable[..., Any], args: Sequence[Any], name: str, native: bool) -> None:
    """A program's kernels, interpreted or as machine code, against the reference's NumPy."""
    closed = pullback.make_jaxpr(f)(*args)
    want = eval_jaxpr_numpy(closed.jaxpr, closed.consts, args)
    if native:
        arrays = [jnp.asarray(x) for x in args]
        got = NativeExecutable(closed)(arrays)
    else:
        got = run_program(compile_jaxpr(closed, reference_rule), args)
    assert len(got) == len(want)
    for x, y in zip(got, want, strict=True):
        agree(x, y, name)


SIZES = [p for p in itertools.product((0, 1, 3), repeat=2) if p != (3, 3)]


@pytest.mark.parametrize("name", CASES)
def test_empty_axes(name: str) -> None:
    for n, m in SIZES:
        f, shapes = CASES[name](n, m)
        check(f, values(shapes), f"{name} {n} {m}", native=(n, m) in ((0, 3), (1, 0), (1, 1)))


CONVOLUTIONS = [
    # batch, groups, batch groups, input features, output features, window, padding
    (1, 1, 1, 3, 4, "VALID"),
    (2, 1, 1, 3, 16, "SAME"),
    (2, 2, 1, 4, 4, ((1, 0), (0, 2))),
    (2, 1, 2, 3, 4, "VALID"),
    (0, 1, 1, 3, 4, "SAME"),
    (2, 1, 1, 0, 8, "VALID"),
    (1, 1, 1, 3, 0, "VALID"),
]


@pytest.mark.parametrize("spec", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("layout", [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")], ids=str)
def test_empty_convolutions(spec: Any, layout: tuple[str, str, str]) -> None:
    batch, groups, batch_groups, fin, fout, padding = spec
    for h, w, k, stride, dilate in [
        (0, 0, 1, 1, 1), (1, 1, 2, 1, 1), (0, 4, 2, 1, 1), (4, 1, 2, 2, 1), (3, 3, 0, 1, 1),
        (0, 0, 0, 1, 1), (1, 1, 1, 3, 2), (2, 2, 3, 2, 2), (0, 3, 3, 1, 2),
    ]:  # fmt: skip
        sizes = {"N": batch, "C": fin, "H": h, "W": w}
        taps = {"O": fout, "I": fin // groups, "H": k, "W": k}
        args = values([
            tuple(sizes[a] for a in layout[0]), tuple(taps[a] for a in layout[1])
        ])  # fmt: skip

        def f(x: Any, y: Any, stride: int = stride, dilate: int = dilate) -> Any:
            return lax.conv_general_dilated(
                x,
                y,
                (stride, stride),
                padding if dilate == 1 else ((0, 0), (1, 0)),
                lhs_dilation=(dilate, dilate),
                dimension_numbers=layout,
                feature_group_count=groups,
                batch_group_count=batch_groups,
            )

        check(f, args, f"{spec} {layout} {h} {w} {k}", native=(h, k) == (1, 2))
