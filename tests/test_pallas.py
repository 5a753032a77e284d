"""Kernels over blocks of arrays beside JAX's interpreter: values, programs, batches, derivatives,
errors; and what is ours: gradients, and one native program however many steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as jpl

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.experimental import checkify, pallas as ppl
from pullback.extend import pallas as extend_pallas

Program = Callable[[Any, Any, Any], Any]
THEIRS, OURS = (jax, jnp, jpl), (pb, pnp, ppl)


def copy_kernel(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...]


def call(side: Any, kernel: Any, out: Any, *args: Any, **options: Any) -> Any:
    """One kernel, interpreted by JAX."""
    j, _, pl = side
    shape = out if isinstance(out, (list, dict, tuple)) and not _is_type(out) else _of(j, out)
    return pl.pallas_call(kernel, shape, interpret=True, **options)(*args)


def _is_type(out: Any) -> bool:
    return isinstance(out, tuple) and len(out) == 2 and isinstance(out[0], tuple)


def _of(j: Any, out: Any) -> Any:
    return j.ShapeDtypeStruct(*out) if _is_type(out) else out


def same(program: Program) -> None:
    expected, got = program(*THEIRS), program(*OURS)
    want, have = jax.tree.leaves(expected), pb.tree.leaves(got)
    assert len(want) == len(have)
    for a, b in zip(want, have, strict=True):
        np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=2e-6, atol=1e-6)
        assert np.asarray(a).dtype == np.asarray(b).dtype


# --- values ---
def padded(j: Any, np_: Any, pl: Any) -> Any:
    """What sticks out of the array: inputs hold NaN or the least integer there, outputs drop it."""
    side, out = (j, np_, pl), []
    for dtype in (np.float32, np.int32, np.uint8, np.bool_):
        x = np_.asarray(np.arange(7), dtype)
        ins, outs = pl.BlockSpec((3,), lambda i: i), pl.BlockSpec((4,), lambda i: (i,))
        wide = pl.BlockSpec((3,), lambda i: (i,))
        out.append(
            call(side, copy_kernel, ((9,), dtype), x, grid=3, in_specs=[ins], out_specs=wide)
        )

        def first(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = np_.broadcast_to(x_ref[0], (4,))

        out.append(call(side, first, ((10,), dtype), x, grid=3, in_specs=[ins], out_specs=outs))
    x = np_.arange(30.0).reshape(5, 6)
    block = pl.BlockSpec((2, 4), lambda i, k: (i, k))
    out.append(
        call(side, copy_kernel, ((5, 6), np.float32), x, grid=(3, 2), in_specs=[block],
             out_specs=block)
    )  # fmt: skip
    return out


def placed(j: Any, np_: Any, pl: Any) -> Any:
    """Blocks before the array, behind it, and those that never come; a later step wins."""
    side, x, out = (j, np_, pl), np_.arange(8.0), []
    plain = pl.BlockSpec((2,), lambda i: i)
    for index_map in (lambda i: i + 3, lambda i: i - 1, lambda i: 0, lambda i: 3 - i):
        moved = pl.BlockSpec((2,), index_map)
        for ins, outs in ((moved, plain), (plain, moved)):
            out.append(
                call(side, copy_kernel, ((8,), np.float32), x, grid=4, in_specs=[ins],
                     out_specs=outs)
            )  # fmt: skip
    return out


def kinds_of_axes(j: Any, np_: Any, pl: Any) -> Any:
    side, x, out = (j, np_, pl), np_.arange(8.0), []
    rows = pl.BlockSpec((None, 4), lambda i: (i, 0))
    dims = (pl.Element(4), 2), (pl.Element(4, (2, 2)), 4), (pl.Element(4), 3), (pl.Element(4), -1)
    for dim, step in (*dims, (pl.Element(4, (1, 2)), -1)):
        spec = pl.BlockSpec((dim,), lambda i, step=step: (i * step,))
        out.append(
            call(side, copy_kernel, ((3, 4), np.float32), x, grid=3, in_specs=[spec],
                 out_specs=rows)
        )  # fmt: skip
    back = pl.BlockSpec((pl.Element(4, (2, 2)),), lambda i: (i * 4,))
    ones = np_.ones((3, 4))
    out.append(
        call(side, copy_kernel, ((8,), np.float32), ones, grid=3, in_specs=[rows], out_specs=back)
    )
    ins = pl.BlockSpec((pl.Squeezed(),), lambda i: 7 - i)
    outs = pl.BlockSpec((pl.squeezed,), lambda i: i)
    out.append(
        call(side, copy_kernel, ((8,), np.float32), x, grid=8, in_specs=[ins], out_specs=outs)
    )
    whole = pl.BlockSpec(memory_space=pl.ANY)
    out.append(call(side, copy_kernel, x, x, grid=2, in_specs=[whole], out_specs=pl.no_block_spec))
    return out


def matmul(j: Any, np_: Any, pl: Any) -> Any:
    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, acc_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            acc_ref[...] = np_.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...] @ y_ref[...]

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            o_ref[...] = acc_ref[...]

    rng = np.random.default_rng(0)
    x, y = (np_.asarray(rng.normal(size=s), np.float32) for s in ((8, 12), (12, 4)))
    spec = pl.GridSpec(
        grid=(2, 2, 3),
        in_specs=[
            pl.BlockSpec((4, 4), lambda i, k, m: (i, m)),
            pl.BlockSpec((4, 2), lambda i, k, m: (m, k)),
        ],
        out_specs=pl.BlockSpec((4, 2), lambda i, k, m: (i, k)),
        scratch_shapes=[pl.ANY((4, 2), np.float32)],
    )
    return call((j, np_, pl), kernel, ((8, 4), np.float32), x, y, grid_spec=spec)


def loops(j: Any, np_: Any, pl: Any) -> Any:
    """Loops and branches that ask for the place, and references written in both."""

    def kernel(x_ref: Any, o_ref: Any, n_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o_ref[...] = np_.zeros(6)

        @pl.loop(0, 6, step=2)
        def _(i: Any) -> None:
            o_ref[i] += x_ref[i] * pl.program_id(0)

        n_ref[pl.program_id(0)] = pl.loop(0, 4, init_carry=np.int32(0))(
            lambda i, c: c + i * pl.num_programs(0)
        )
        total = j.lax.while_loop(
            lambda c: c < 5 + pl.program_id(0), lambda c: c + 2 + pl.program_id(0), 0
        )

        @pl.when(total % 2 == 0)
        def _() -> None:
            o_ref[pl.ds(pl.program_id(0), 2)] = x_ref[pl.ds(4, 2)]

    return call(
        (j, np_, pl), kernel, [j.ShapeDtypeStruct((6,), np.float32),
                               j.ShapeDtypeStruct((3,), np.int32)],
        np_.arange(6.0), grid=(3,),
    )  # fmt: skip


def lent_memory(j: Any, np_: Any, pl: Any) -> Any:
    """Memory that nothing was written to, that keeps its content, and that goes after use."""

    def kernel(x_ref: Any, o_ref: Any, *, count_ref: Any, floats_ref: Any) -> None:
        def scoped(a_ref: Any, b_ref: Any) -> Any:
            a_ref[...] = x_ref[...]
            return a_ref[...] + np_.where(np_.isnan(b_ref[...]), 1.0, 2.0)

        value = pl.run_scoped(scoped, pl.ANY((2,), np.float32), b_ref=pl.ANY((2,), np.float32))
        count_ref[0] = np_.where(count_ref[0] < 0, 1, count_ref[0] + 1)
        o_ref[...] = value + count_ref[0] + floats_ref[0]

    block = pl.BlockSpec((2,), lambda i: i)
    scratch = {"count_ref": pl.ANY((1,), np.int32), "floats_ref": pl.ANY((1,), np.float32)}
    return call(
        (j, np_, pl), kernel, ((6,), np.float32), np_.arange(6.0), grid=3, in_specs=[block],
        out_specs=block, scratch_shapes=scratch,
    )  # fmt: skip


def aliased(j: Any, np_: Any, pl: Any) -> Any:
    """Outputs start with what inputs hold; what a kernel writes into inputs stays with it."""
    side, x = (j, np_, pl), np_.arange(4.0)

    def add(x_ref: Any, o_ref: Any) -> None:
        x_ref[...] = x_ref[...] + 1
        o_ref[0] = x_ref[0] + o_ref[0]

    return [
        call(side, add, x, x, grid=3, input_output_aliases={0: 0}),
        call(side, add, x, x, grid=3),
        x,
    ]


def trees(j: Any, np_: Any, pl: Any) -> Any:
    side, x = (j, np_, pl), np_.arange(3.0)

    def kernel(d: Any, o: Any) -> None:
        o["y"][...] = d["a"][...] + d["b"][0][...]

    def nothing(*refs: Any) -> None:
        pass

    return [
        call(side, kernel, {"y": j.ShapeDtypeStruct((3,), np.float32)}, {"a": x, "b": (x,)}),
        call(side, lambda o_ref: o_ref.__setitem__(..., np_.ones(2)), ((2,), np.float32)),
        call(side, copy_kernel, ((), np.float32), 3.0),
        call(side, nothing, ((2,), np.int8), x, grid=(0,)),
    ]


def sized_at_run_time(j: Any, np_: Any, pl: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    block = pl.BlockSpec((2,), lambda i: i)

    @j.jit
    def run(n: Any, x: Any) -> Any:
        return call(
            (j, np_, pl), kernel, ((8,), np.float32), x, grid=(n,), in_specs=[block],
            out_specs=block,
        )  # fmt: skip

    x = np_.arange(8.0)
    sizes = np_.array([1, 3])
    return run(3, x), run(0, x), j.vmap(run, (0, None))(sizes, x)


def named_axes(j: Any, np_: Any, pl: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        i, k = j.lax.axis_index("i"), j.lax.axis_index("k")

        @pl.when(i > 0)
        def _() -> None:
            o_ref[i, k] = x_ref[i, k] * j.lax.axis_index("k")

    x = np_.ones((2, 3))
    return j.vmap(
        lambda x: call((j, np_, pl), kernel, ((2, 3), np.float32), x, grid=(("i", 2), ("k", 3)))
    )(x[None])


def batched(j: Any, np_: Any, pl: Any) -> Any:
    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * y_ref[...] + pl.program_id(0)

    block = pl.BlockSpec((2,), lambda i: i)

    def f(x: Any, y: Any) -> Any:
        return call(
            (j, np_, pl), kernel, ((5,), np.float32), x, y, grid=3, in_specs=[block, block],
            out_specs=block,
        )  # fmt: skip

    def inplace(x: Any, y: Any) -> Any:
        return call((j, np_, pl), lambda a, b, o: None, x, x, y, input_output_aliases={0: 0})

    x, y = np_.arange(10.0).reshape(2, 5), np_.arange(5.0)
    return [
        j.vmap(f, (0, None))(x, y),
        j.jit(j.vmap(f, (1, 1), out_axes=1))(x.T, 2 * x.T),
        j.vmap(j.vmap(f, (None, 0)), (0, None))(x, x),
        j.vmap(inplace, (None, 0))(y, x),
    ]


def tangents(j: Any, np_: Any, pl: Any) -> Any:
    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = np_.sin(x_ref[...]) * y_ref[...]

    block = pl.BlockSpec((2,), lambda i: i)

    def f(x: Any, y: Any) -> Any:
        return call(
            (j, np_, pl), kernel, ((4,), np.float32), x, y, grid=2, in_specs=[block, block],
            out_specs=block,
        )  # fmt: skip

    x = np_.arange(4.0)
    return j.jvp(f, (x, x), (x, x + 1)), j.jvp(lambda x: f(x, x[::-1]), (x,), (x,))


@pytest.mark.parametrize(
    "program",
    [
        padded, placed, kinds_of_axes, matmul, lent_memory, aliased, trees,
        sized_at_run_time, batched, tangents,
    ],
    ids=lambda program: program.__name__,
)  # fmt: skip
def test_as_jax(program: Program) -> None:
    same(program)


def test_place_in_loops_and_by_name() -> None:
    """JAX's interpreter refuses both."""
    got = loops(*OURS)
    want = np.zeros(6)
    for place in range(3):
        want[0:6:2] += np.arange(6.0)[0:6:2] * place
        total = 0
        while total < 5 + place:
            total += 2 + place
        if total % 2 == 0:
            want[place : place + 2] = [4, 5]
    np.testing.assert_array_equal(np.asarray(got[0]), want)
    np.testing.assert_array_equal(np.asarray(got[1]), [18, 18, 18])
    np.testing.assert_array_equal(np.asarray(named_axes(*OURS))[0], [[np.nan] * 3, [0, 1, 2]])


def test_text_is_jaxs() -> None:
    def program(j: Any, np_: Any, pl: Any) -> str:
        def kernel(x_ref: Any, o_ref: Any, s_ref: Any) -> None:
            s_ref[...] = x_ref[...] * pl.program_id(0)

            @pl.when(pl.program_id(0) == 0)
            def _() -> None:
                o_ref[...] = pl.run_scoped(lambda r: r[...] + s_ref[...], pl.ANY((2,), np.float32))

        block = pl.BlockSpec((2,), lambda i, k: i)
        f = pl.pallas_call(
            kernel, j.ShapeDtypeStruct((5,), np.float32), grid=(3, 2), in_specs=[block],
            out_specs=block, name="named", metadata={"a": "b"}, interpret=True,
            cost_estimate=pl.CostEstimate(1, 2, 3), scratch_shapes=[pl.ANY((2,), np.float32)],
        )  # fmt: skip
        x = np_.zeros((4, 5))
        dynamic = pl.pallas_call(copy_kernel, x, grid=(2, 3))
        return f"{j.make_jaxpr(j.vmap(j.jit(f)))(x)}\n{j.make_jaxpr(dynamic)(x)}"

    assert program(*OURS) == program(*THEIRS)


# --- errors ---
def refuse(**options: Any) -> Program:
    def program(j: Any, np_: Any, pl: Any) -> Any:
        made = {k: v(pl) if callable(v) else v for k, v in options.items()}
        kernel, out = made.pop("kernel", copy_kernel), made.pop("out", ((8,), np.float32))
        return call((j, np_, pl), kernel, out, np_.arange(8.0), **made)

    return program


def _spec(*args: Any) -> Any:
    return lambda pl: [pl.BlockSpec(*args)]


X = np.arange(8.0, dtype=np.float32)
REFUSALS = {
    "kernel": lambda j, np_, pl: pl.pallas_call(3, X)(X),
    "returns": lambda j, np_, pl: pl.pallas_call(lambda x, o: x[...], X, interpret=True)(X),
    "captures": lambda j, np_, pl: pl.pallas_call(
        lambda x, o: o.__setitem__(..., x[...] + np_.asarray(X)), X, interpret=True
    )(X),
    "references": lambda j, np_, pl: pl.pallas_call(lambda x: None, X, interpret=True)(X),
    "out_shape": lambda j, np_, pl: pl.pallas_call(copy_kernel, 3, interpret=True)(X),
    "rank": refuse(grid=4, in_specs=_spec((2, 2), lambda i: (i, 0))),
    "index rank": refuse(grid=4, in_specs=_spec((2,), lambda i: (i, 0))),
    "index arguments": refuse(grid=4, in_specs=_spec((2,), lambda i, k: i)),
    "index dtype": refuse(grid=4, in_specs=_spec((2,), lambda i: i * 1.0)),
    "index constants": lambda j, np_, pl: refuse(
        grid=4, in_specs=_spec((2,), lambda i: np_.array([0, 1, 2, 3])[i])
    )(j, np_, pl),
    "specs": refuse(grid=4, in_specs=lambda pl: [pl.BlockSpec()] * 2),
    "spec": refuse(grid=4, in_specs=lambda pl: [3]),
    "in_specs": refuse(in_specs=lambda pl: pl.BlockSpec()),
    "out_specs": refuse(out_specs=lambda pl: [pl.BlockSpec()] * 2),
    "grid": refuse(grid=(2.5,)),
    "grid_spec": refuse(grid=2, grid_spec=lambda pl: pl.GridSpec(2)),
    "scratch": refuse(scratch_shapes=[3]),
    "alias in": refuse(input_output_aliases={1: 0}),
    "alias out": refuse(input_output_aliases={0: 2}),
    "alias type": refuse(input_output_aliases={0: 0}, out=((4,), np.float32)),
    "outside": lambda j, np_, pl: pl.program_id(0),
    "power": lambda j, np_, pl: pl.next_power_of_2(-1),
    "cdiv": lambda j, np_, pl: pl.cdiv(1, 0),
    "pred": lambda j, np_, pl: pl.when(np_.ones(2))(lambda: None),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_refusals_are_of_jaxs_classes(what: str) -> None:
    with pytest.raises(Exception) as want:
        REFUSALS[what](*THEIRS)
    with pytest.raises(type(want.value)) as got:
        REFUSALS[what](*OURS)
    assert "internal error" not in str(got.value)


def test_axis_of_the_grid() -> None:
    for side in (THEIRS, OURS):
        with pytest.raises(ValueError, match=r"Axis 1 is out of bounds for grid \(2,\)"):
            call(side, lambda x, o, pl=side[2]: pl.program_id(1), X, X, grid=2)


# --- small functions ---
def test_small_functions() -> None:
    def program(j: Any, np_: Any, pl: Any) -> Any:
        i = np_.int32(7)
        return [
            [pl.cdiv(a, b) for a, b in ((7, 2), (-7, 2), (8, 2))], pl.cdiv(i, 2), pl.cdiv(i, i),
            pl.align_to(7, 4), pl.align_to(i, 4), [pl.next_power_of_2(k) for k in range(10)],
            pl.strides_from_shape((2, 3, 4)), pl.broadcast_to(np_.float32(3), (2,)),
            pl.multiple_of(np_.arange(4), 2), pl.empty_like({"a": np_.ones(2)}),
            j.jit(pl.reciprocal)(np_.arange(3.0)), pl.empty((2,), np.float32),
            pl.run_state(lambda r: r[0].__setitem__(0, r[1][1]))((np_.arange(3.0), np_.ones(3))),
        ]  # fmt: skip

    same(program)


def test_costs_as_jax() -> None:
    def program(j: Any, np_: Any, pl: Any) -> Any:
        x, f = np_.ones((3, 4)), j.ShapeDtypeStruct((6,), np.float32)
        costs = [
            pl.estimate_cost(lambda a: np_.exp(a @ a.T) + 1, x),
            pl.estimate_cost(j.jit(j.nn.softmax), f),
            pl.estimate_cost(lambda a: (a**3, a**7, a / 2, np_.tanh(-a), np_.floor(a)), f),
            pl.estimate_cost(lambda a: j.lax.fori_loop(0, 5, lambda i, c: c * 2, a), f),
        ]
        return [(c.flops, c.transcendentals, c.bytes_accessed, c.to_json()) for c in costs]

    assert program(*OURS) == program(*THEIRS)


def test_deprecated_names_warn() -> None:
    for name in ("dot", "debug_checks_enabled"):
        for pl in (jpl, ppl):
            with pytest.warns(DeprecationWarning, match=f"jax.experimental.pallas.{name}"):
                getattr(pl, name)
    with pytest.warns(DeprecationWarning):
        ours, theirs = ppl.dot, jpl.dot
    a, b = np.ones((3, 2), np.int8), np.ones((4, 3), np.int8)
    want = theirs(jnp.asarray(a), jnp.asarray(b), True, True)
    got = ours(pnp.asarray(a), pnp.asarray(b), True, True)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    assert got.dtype == want.dtype


# --- what JAX lacks ---
def test_gradients() -> None:
    def kernel(x_ref: Any, o_ref: Any, acc_ref: Any) -> None:
        acc_ref[...] = pnp.sin(x_ref[...]) * (1 + ppl.program_id(0))
        o_ref[...] = acc_ref[...] ** 2

    block = ppl.BlockSpec((2,), lambda i: i)
    f = ppl.pallas_call(
        kernel, pnp.zeros(5), grid=3, in_specs=[block], out_specs=block,
        scratch_shapes=[ppl.ANY((2,), np.float32)],
    )  # fmt: skip
    scale = pnp.array([1.0, 1.0, 2.0, 2.0, 3.0])

    def g(x: Any) -> Any:
        return (pnp.sin(x) * scale) ** 2

    x = pnp.arange(5.0) / 3
    for grad in (pb.grad, lambda h: pb.jit(pb.grad(h)), lambda h: pb.grad(pb.jit(h))):
        want = grad(lambda x: (g(x) * x).sum())(x)
        got = grad(lambda x: (f(x) * x).sum())(x)
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=1e-6)
    hessian = pb.hessian(lambda x: f(x).sum())(x)
    np.testing.assert_allclose(
        np.asarray(hessian), np.asarray(pb.hessian(lambda x: g(x).sum())(x)), rtol=2e-4, atol=1e-5
    )


def test_results_that_do_not_depend_on_the_batch() -> None:
    """So that the primal results of `jacfwd` are not batched."""
    block = ppl.BlockSpec((2,), lambda i: i)

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, p_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

        @ppl.when(ppl.program_id(0) > 0)
        def _() -> None:
            p_ref[...] = x_ref[...] * y_ref[...]

    f = ppl.pallas_call(kernel, [X, X], grid=4, in_specs=[block, block], out_specs=[block, block])
    got = pb.vmap(f, (None, 0), (None, 0))(X, np.stack([X, X + 1]))
    np.testing.assert_array_equal(np.asarray(got[0]), 2 * X)
    np.testing.assert_array_equal(np.asarray(got[1])[:, 2:], np.stack([X * X, X * (X + 1)])[:, 2:])
    double = ppl.pallas_call(lambda x, o: o.set(x[...] * 2), X)
    np.testing.assert_array_equal(np.asarray(pb.jacfwd(double)(X)), 2 * np.eye(8))


def test_custom_rules_ask_for_the_place() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        @pb.custom_jvp
        def g(v: Any) -> Any:
            return v * ppl.program_id(0)

        g.defjvp(lambda primals, tangents: (g(*primals), tangents[0] * (7 + ppl.program_id(0))))
        o_ref[...] = g(x_ref[...])

    primal, tangent = pb.jvp(ppl.pallas_call(kernel, X, grid=3), (X,), (X,))
    np.testing.assert_array_equal(np.asarray(primal), 2 * X)
    np.testing.assert_array_equal(np.asarray(tangent), 9 * X)


def test_checks_in_kernels() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        checkify.check(x_ref[0] < ppl.program_id(0) + 2, "too large: {}", x_ref[0])
        o_ref[...] = x_ref[...]

    f = checkify.checkify(ppl.pallas_call(kernel, X, grid=3))
    assert f(X)[0].get() is None
    assert "too large: 3.0" in f(X + 3)[0].get()


def test_debugging(capfd: pytest.CaptureFixture[str]) -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        ppl.debug_print("at {} of {}", ppl.program_id(0), x_ref[0])

    pb.block_until_ready(ppl.pallas_call(kernel, X, grid=2)(X))
    pb.effects_barrier()
    assert capfd.readouterr().out == "at 0 of 0.0\nat 1 of 0.0\n"
    ppl.pallas_call(copy_kernel, X, debug=True)(X)
    assert "Jaxpr of the kernel in pallas_call copy_kernel" in capfd.readouterr().out


def test_kernels_over_meshes() -> None:
    class Cores:
        shape = {"core": 3}

    @ppl.kernel(out_type=pb.ShapeDtypeStruct((3,), np.int32), mesh=Cores())
    def place(x_ref: Any, o_ref: Any) -> None:
        o_ref[lax.axis_index("core")] = x_ref[0] + lax.axis_index("core")

    for run in (place, pb.jit(place)):
        np.testing.assert_array_equal(np.asarray(run(pnp.array([5]))), [5, 6, 7])


def test_rows_of_indices() -> None:
    """Axes that only other machines' kernels have in JAX."""
    x = pnp.arange(12.0).reshape(6, 2)
    spec = ppl.BlockSpec((ppl.Indirect(2), 2), lambda i: (pnp.stack([i, 5 - i]), 0))
    plain = ppl.BlockSpec((2, 2), lambda i: (i, 0))
    got = ppl.pallas_call(copy_kernel, x, grid=3, in_specs=[spec], out_specs=plain)(x)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(x)[[0, 5, 1, 4, 2, 3]])
    back = ppl.pallas_call(copy_kernel, x, grid=3, in_specs=[plain], out_specs=spec)(got)
    np.testing.assert_array_equal(np.asarray(back), np.asarray(x))


def test_rules_of_other_compilers() -> None:
    class Params(ppl.CompilerParams):
        pass

    extend_pallas.register_lowering_rule(Params, lambda ctx, *values, **params: values, "tpu")
    got = ppl.pallas_call(copy_kernel, X, compiler_params=Params())(X)
    np.testing.assert_array_equal(np.asarray(got), X)
    with pytest.raises(TypeError, match="class"):
        extend_pallas.register_lowering_rule(Params(), lambda: None, "cpu")  # type: ignore[arg-type]
    program = pb.make_jaxpr(ppl.pallas_call(copy_kernel, X, grid=4))(X)
    mapping = program.jaxpr.eqns[0].params["grid_mapping"]
    assert isinstance(mapping, extend_pallas.GridMapping)
    theirs = jax.make_jaxpr(jpl.pallas_call(copy_kernel, X, grid=4))(X)
    wanted = theirs.jaxpr.eqns[0].params["grid_mapping"]
    for name in "grid grid_names vmapped_dims num_inputs num_outputs num_index_operands".split():
        assert getattr(mapping, name) == getattr(wanted, name)


def test_a_grid_is_a_loop() -> None:
    """However many steps, a kernel or two are compiled."""
    counts = []
    for n in (4, 64):
        block = ppl.BlockSpec((None, 8), lambda i: (i, 0))

        def kernel(x_ref: Any, o_ref: Any) -> None:
            e = pnp.exp(x_ref[...] - x_ref[...].max())
            o_ref[...] = e / e.sum()

        f = pb.jit(
            ppl.pallas_call(kernel, pb.ShapeDtypeStruct((n, 8), np.float32), grid=n,
                            in_specs=[block], out_specs=block)
        )  # fmt: skip
        x = pnp.asarray(np.random.default_rng(0).normal(size=(n, 8)), np.float32)
        before = pb.kernel_compile_count()
        got = f(x)
        counts.append(pb.kernel_compile_count() - before)
        np.testing.assert_allclose(np.asarray(got), np.asarray(pb.nn.softmax(x)), rtol=1e-6)
    assert max(counts) <= 2
