"""Composites, sinks, tokens, scaled products, user contexts, residuals listed: beside real JAX."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.ad_checkpoint
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_compare import refused, same

import pullback as pb
import pullback.ad_checkpoint
import pullback.export
import pullback.numpy as pnp

BOTH = [(jax, jnp), (pb, pnp)]


def texts(program: Any) -> tuple[str, str]:
    return tuple(str(program(*side)) for side in BOTH)  # type: ignore[return-value]


def test_composite() -> None:
    def scaled(j: Any, n: Any) -> Any:
        return j.lax.composite(lambda x, *, k: n.sin(x) * k, name="my.scale", version=2)

    expected, got = texts(lambda j, n: j.make_jaxpr(lambda x: scaled(j, n)(x, k=2.0))(1.0))
    assert expected == got
    f = scaled(pb, pnp)
    want = 2 * np.sin(1.0)
    for run in (lambda x: f(x, k=2.0), pb.jit(lambda x: f(x, k=2.0))):
        assert float(run(1.0)) == pytest.approx(want)
    # JAX has neither rule.
    assert float(pb.grad(lambda x: f(x, k=2.0))(1.0)) == pytest.approx(2 * np.cos(1.0))
    np.testing.assert_allclose(pb.vmap(lambda x: f(x, k=2.0))(pnp.ones(2)), [want] * 2, rtol=1e-6)


def test_traced_attributes_of_composites() -> None:
    for j, n in BOTH:
        with pytest.raises(j.errors.UnexpectedTracerError, match="as an attribute"):
            j.jit(lambda x: j.lax.composite(lambda x, *, k: x, "mine")(x, k=n.zeros(2)))(1.0)  # noqa: B023


def test_dce_sink() -> None:
    def program(j: Any, n: Any) -> Any:
        def f(x: Any) -> Any:
            j.lax.dce_sink(n.sin(x))
            return x

        values = [f(1.0), j.jit(f)(1.0), j.grad(f)(1.0), j.jit(j.vmap(f))(n.ones(2)).sum()]
        return str(j.make_jaxpr(f)(1.0)), [float(v) for v in values]

    assert program(jax, jnp) == program(pb, pnp)


def test_tokens() -> None:
    expected, got = texts(
        lambda j, n: j.make_jaxpr(lambda: j.lax.after_all(j.lax.create_token()))()
    )
    assert expected == got
    token = pb.lax.after_all(pb.lax.create_token(), pb.lax.create_token())
    made, x = pb.jit(lambda x: (pb.lax.after_all(pb.lax.create_token()), x + 1))(1.0)
    assert type(made) is type(token) and float(x) == 2
    with pytest.raises(TypeError, match="must be tokens"):
        pb.lax.after_all(1.0)


@pytest.mark.parametrize("batch", [False, True])
def test_scaled_dot(batch: bool) -> None:
    rng = np.random.default_rng(0)
    shapes = [(3, 4, 64), (3, 64, 5), (3, 4, 2), (3, 2, 5)]
    a, b, sa, sb = (rng.uniform(0.5, 2, s if batch else s[1:]).astype(np.float32) for s in shapes)
    numbers = (((2,), (1,)), ((0,), (0,))) if batch else None
    for out in (None, np.float32):
        found = [
            j.lax.scaled_dot(
                n.asarray(a, n.bfloat16), n.asarray(b, n.float8_e4m3fn),
                lhs_scale=n.asarray(sa, n.bfloat16), rhs_scale=n.asarray(sb, n.bfloat16),
                dimension_numbers=numbers, preferred_element_type=out,
            )
            for j, n in BOTH
        ]  # fmt: skip
        assert found[0].dtype == found[1].dtype and found[0].shape == found[1].shape
        np.testing.assert_allclose(*(np.asarray(x, np.float32) for x in found), rtol=2e-2)
    with pytest.raises(TypeError, match="must be divisible"):
        pb.lax.scaled_dot(pnp.ones((2, 6)), pnp.ones((6, 2)), lhs_scale=pnp.ones((2, 4)))


def test_user_context() -> None:
    def program(j: Any, n: Any) -> Any:
        context, traced = j.make_user_context(3), []

        @j.jit
        def f(x: Any) -> Any:
            traced.append(context.value)
            return x * context.value

        found = [float(f(1.0)), float(f(1.0))]
        with context(5):
            found += [float(f(1.0)), float(f(2.0))]
        return [*found, float(f(1.0)), traced]

    assert program(jax, jnp) == program(pb, pnp) == [3, 3, 5, 10, 3, [3, 5]]


def test_printed_residuals(capsys: pytest.CaptureFixture[str]) -> None:
    def program(j: Any, n: Any, module: Any) -> list[str]:
        def g(x: Any, y: Any) -> Any:
            z = n.sin(x)
            w = module.checkpoint_name(n.cos(z) * y, "w")
            return (w * n.array([1.0, 2.0])).sum() * n.exp(w)

        keep = j.checkpoint_policies.save_only_these_names("w")
        for f in (g, j.checkpoint(g), j.checkpoint(g, policy=keep)):
            module.print_saved_residuals(f, n.ones(2), 3.0)
        return capsys.readouterr().out.splitlines()

    assert program(pb, pnp, pullback.ad_checkpoint) == program(jax, jnp, jax.ad_checkpoint)


def test_loops_keep_what_their_backward_pass_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """As in JAX: zeros that a tangent starts from are made by the backward pass, and what only a
    tangent of nothing needed is not kept."""

    def program(j: Any, n: Any, module: Any) -> list[Any]:
        x, w = n.arange(3.0), n.ones((3, 3))

        def rnn(x: Any, w: Any) -> Any:
            step = lambda h, v: (n.tanh(w @ h + v), h)
            return j.lax.scan(step, n.ones(3), n.stack([x] * 4))[0].sum()

        def results(x: Any) -> Any:
            return j.lax.scan(lambda c, v: (n.sin(c * v), n.cos(v)), 1.0, x)[1].sum()

        kept = []
        for f, args in ((rnn, (x, w)), (results, (x,)), (lambda x: j.nn.logsumexp(x), (x,))):
            module.print_saved_residuals(f, *args)
            kept.append(capsys.readouterr().out.splitlines())
            made = j.make_jaxpr(lambda *a, f=f: j.vjp(f, *a)[1])(*args)
            kept.append(len(made.jaxpr.outvars))
        return kept

    assert program(pb, pnp, pullback.ad_checkpoint) == program(jax, jnp, jax.ad_checkpoint)


@pytest.mark.parametrize("name", ["reduce_and", "reduce_or", "reduce_xor"])
def test_bits_of_narrow_integers_reduced(name: str) -> None:
    """JAX has them of 8 bits and more; those of 4 it stores, and refuses."""
    x = np.array([[7, 3, 5], [6, 7, 2]])
    for dtype in ("int8", "uint8"):
        want, got = (
            [getattr(m.lax, name)(n.asarray(x, dtype), (k,)) for k in (0, 1)]
            for m, n in ((jax, jnp), (pb, pnp))
        )
        assert [(y.dtype, y.tolist()) for y in want] == [(y.dtype, y.tolist()) for y in got]
    for dtype in ("int4", "uint4"):
        for m, n in ((jax, jnp), (pb, pnp)):
            with pytest.raises(TypeError, match=f"requires operand dtype bool or int, got {dtype}"):
                getattr(m.lax, name)(n.asarray(x, dtype), (0,))


def test_offloading_policies() -> None:
    """There is one memory: what would be offloaded is kept."""

    def saved(policy: Any) -> list[str]:
        def f(x: Any) -> Any:
            y = pullback.ad_checkpoint.checkpoint_name(pnp.sin(x) @ x, "y")
            z = pullback.ad_checkpoint.checkpoint_name(pnp.cos(y), "z")
            return pnp.sin(z).sum()

        from_where = pullback.api.residuals.saved_residuals(
            pb.checkpoint(f, policy=policy), pnp.ones((2, 2))
        )
        return sorted(re.sub(" from /.*", "", origin) for _, origin in from_where)

    policies = pb.checkpoint_policies
    both = policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["y"], names_which_can_be_offloaded=["z"],
        offload_src="device", offload_dst="pinned_host",
    )  # fmt: skip
    assert saved(both) == ["from the argument x", "named 'y'", "named 'z'"]
    dots = policies.offload_dot_with_no_batch_dims("device", "pinned_host")
    assert saved(dots) == ["from the argument x", "output of dot_general"]
    assert saved(None) == ["from the argument x"]
    with pytest.raises(ValueError, match="exclusive"):
        policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["y"], names_which_can_be_offloaded=["y"],
            offload_src="device", offload_dst="pinned_host",
        )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "int32", "float32"])
@pytest.mark.parametrize("init", [0, np.float32(0), np.int32(0), 0.5, 1j])
def test_identities_of_other_dtypes(dtype: str, init: Any) -> None:
    """JAX takes any 0 as the initial value of lax.add, and refuses other values of other dtypes."""

    def results(L: Any) -> list[Any]:
        found: list[Any] = []
        x = np.ones(4, dtype)
        for call in (
            lambda: L.reduce(x, init, L.add, (0,)),
            lambda: L.reduce_window(x, init, L.add, (2,), (1,), "VALID"),
        ):
            try:
                out = call()
                found.append((str(out.dtype), np.asarray(out).tolist()))
            except TypeError:
                found.append(TypeError)
        return found

    assert results(pb.lax) == results(jax.lax)


def test_products_of_two_dtypes() -> None:
    """The product has one of the two dtypes, by XLA's order of them, not by the lattice."""
    names = ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32"]
    names += ["complex64", "float8_e4m3fn", "float8_e5m2", "int4"]
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 4, (2, 3)), rng.integers(0, 4, (3, 2))

    def product(L: Any, n: Any, a: str, b: str) -> Any:
        return L.dot_general(
            n.asarray(x).astype(a), n.asarray(y).astype(b), (((1,), (0,)), ((), ()))
        )

    for a in names:
        for b in names:
            got, want = product(pb.lax, pnp, a, b), product(jax.lax, jnp, a, b)
            assert str(got.dtype) == str(want.dtype), (a, b)
            np.testing.assert_array_equal(
                np.asarray(got).astype(complex), np.asarray(want).astype(complex), str((a, b))
            )


def test_select_and_scatter_of_truth_values() -> None:
    x, source = np.eye(6, dtype=bool), np.tri(5, dtype=bool)

    def scattered(L: Any) -> Any:
        return L.select_and_scatter_add_p.bind(
            source, x, select_prim=L.ge_p, window_dimensions=(2, 2), window_strides=(1, 1),
            padding=((0, 0), (0, 0)),
        )  # fmt: skip

    np.testing.assert_array_equal(scattered(pb.lax), scattered(jax.lax))


@pytest.mark.parametrize("n, k", [(7, 2), (1500, 1), (3000, 2), (3000, 50)])
def test_approximate_extremes_that_are_not_aggregated(n: int, k: int) -> None:
    """`aggregate_to_topk=False` gives all the candidates that a TPU's bins would leave."""
    x = np.random.default_rng(n).permutation(n).astype("f")

    def results(lib: Any) -> list[Any]:
        found = []
        for options in ({}, {"recall_target": 0.5}, {"reduction_input_size_override": 2 * n}):
            for f in (lib.lax.approx_max_k, lib.lax.approx_min_k):
                found += lib.jit(lambda y, f=f, o=options: f(y, k, aggregate_to_topk=False, **o))(x)
                rows = f(lib.numpy.asarray(x)[None], k, aggregate_to_topk=False, **options)
                found.append(rows[1].shape)
        return found

    for got, want in zip(results(pb), results(jax), strict=True):
        np.testing.assert_array_equal(got, want)


def test_bad_recall_targets() -> None:
    x = np.arange(300, dtype="f")
    for options in ({"recall_target": 1.5}, {"reduction_input_size_override": 3}):
        with pytest.raises(jax.errors.JaxRuntimeError):
            jax.lax.approx_max_k(x, 2, **options)
        with pytest.raises(pb.errors.JaxRuntimeError):
            pb.lax.approx_max_k(x, 2, **options)


@pytest.mark.parametrize("given", ["bool", "int8", "uint8", "int16", "float16", "complex64"])
def test_convolutions_keep_sums_in_types_that_hold_them(given: str) -> None:
    def results(lib: Any) -> list[str]:
        x = lib.ShapeDtypeStruct((1, 1, 2, 2), given)
        found = []
        for wanted in "bool int8 uint8 int16 int32 uint32 float16 float32 complex64".split():
            try:
                out = lib.eval_shape(
                    lambda x, w=wanted: lib.lax.conv(
                        x, x, (1, 1), "SAME", preferred_element_type=w
                    ),
                    x,
                )
                found.append(str(out.dtype))
            except TypeError:
                found.append("TypeError")
        return found

    assert results(pb) == results(jax)


@pytest.mark.parametrize("lower", [0, np.int8(0)])
@pytest.mark.parametrize("upper", [3, np.int8(3)])
def test_known_ranges_count_in_weak_integers(lower: Any, upper: Any) -> None:
    """Whatever dtypes the bounds have, as in JAX; traced bounds give theirs."""
    found = []
    for j, _ in BOTH:
        loop = lambda u, j=j: j.lax.fori_loop(lower, u, lambda i, a: a + i, 0)
        results = [loop(upper), j.jit(lambda loop=loop: loop(upper))()]
        if upper == 3 and type(upper) is int:
            results.append(j.jit(loop)(upper))
        found.append([(str(r.dtype), r.weak_type, int(r)) for r in results])
    assert found[0] == found[1]


REFUSED = {
    "complex predicate": lambda j, n: j.lax.cond(1j, lambda: 1.0, lambda: 2.0),
    "complex argmax": lambda j, n: j.lax.argmax(n.array([1j]), 0, np.int32),
    "complex in floats": lambda j, n: n.full(2, 1j, n.float32),
    "complex like ints": lambda j, n: n.full_like(n.arange(2), 1j),
    "bits": lambda j, n: j.lax.reduce_precision(n.ones(2), 5.0, 2),
    "boolean computation": lambda j, n: j.lax.reduce(n.ones(3), 0.0, lambda a, b: a > b, (0,)),
    "complex computation": lambda j, n: j.lax.reduce_window(
        n.ones(3), 0.0, lambda a, b: 1j * b, (2,), (1,), "VALID"
    ),
    "one pair": lambda j, n: j.lax.reduce_window(
        n.ones((2, 3)), 0.0, j.lax.add, (1, 2), (1, 1), [(0, 0)]
    ),
    "no window": lambda j, n: j.lax.conv_general_dilated_patches(
        n.ones((1, 1, 4, 4)), (0, 2), (1, 1), "VALID"
    ),
    "bits of a nibble": lambda j, n: j.lax.reduce_or(n.ones(2, "int4"), (0,)),
    "the size of a nibble": lambda j, n: j.lax.abs(n.ones(2, "int4")),
    "ranks of a convolution": lambda j, n: j.lax.conv_general_dilated(
        n.ones((1, 1, 1)),
        n.ones((1, 1, 1, 1)),
        (1,),
        [(0, 0)],
        dimension_numbers=j.lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2)),
    ),
    "sizes of groups": lambda j, n: j.lax.ragged_dot_general(
        n.ones((2, 11, 5)),
        n.ones((2, 5, 7)),
        n.ones((3, 3), int),
        j.lax.RaggedDotDimensionNumbers((((2,), (1,)), ((0,), (0,))), [2], []),
    ),
    "more than int32 counts": lambda j, n: j.eval_shape(
        lambda x: j.lax.top_k(x, 9), j.ShapeDtypeStruct((2**31 + 1,), np.dtype("float32"))
    ),
    "a start for each window": lambda j, n: j.lax.reduce_window(
        n.ones(3), n.zeros(1), j.lax.max, (1,), (1,), "VALID"
    ),
    "sizes, not shapes": lambda j, n: j.lax.broadcast_shapes(3, 2),
    "full(sharding=3)": lambda j, n: j.lax.full((2,), 1, sharding=3),
    "full_like(sharding=3)": lambda j, n: j.lax.full_like(n.ones(2), 1, sharding=3),
    "reduce(out_sharding=3)": lambda j, n: j.lax.reduce(n.ones(3), 0.0, j.lax.add, (0,), 3),
    "reduce max(out_sharding)": lambda j, n: j.lax.reduce(
        n.ones(3), -np.inf, j.lax.max, (0,), j.sharding.PartitionSpec()
    ),
}


@pytest.mark.filterwarnings("ignore:Casting complex")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_in_jax(name: str) -> None:
    refused(REFUSED[name], BOTH)


def test_weak_types_that_end() -> None:
    for j, n in BOTH:
        assert not j.lax.reduce_and(n.asarray(2), ()).weak_type
        device = j.sharding.SingleDeviceSharding(j.devices()[0])
        assert not j.lax.full((2,), 1, sharding=device).weak_type
        assert j.lax.full((2,), 1).weak_type
        assert j.lax.broadcast_to_rank(n.ones((2, 3)), 0).shape == (2, 3)


def test_products_and_convolutions_of_booleans() -> None:
    """Sums of products are disjunctions of conjunctions; padding is False."""
    rng = np.random.default_rng(0)
    x, k = rng.random((1, 5, 2)) > 0.5, rng.random((3, 2, 2)) > 0.5
    a, b, sizes = rng.random((4, 3)) > 0.5, rng.random((2, 3, 2)) > 0.5, np.array([1, 2], np.int32)
    layout = ("NHC", "HIO", "NHC")
    for f in (
        lambda m: m.conv_transpose(x, k, (2,), "SAME"),
        lambda m: m.conv_general_dilated(x, k, (1,), [(1, 1)], dimension_numbers=layout),
        lambda m: m.ragged_dot(a, b, sizes),
    ):
        got, want = f(pb.lax), f(jax.lax)
        assert got.dtype == bool
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("part", ["real", "imag"])
def test_weak_types_of_parts_of_complex_numbers(part: str) -> None:
    def slope(j: Any) -> Any:
        return j.grad(lambda z: getattr(j.numpy, part)(z * z))(1.0 + 2.0j)

    assert not slope(jax).weak_type and not slope(pb).weak_type
    assert complex(slope(pb)) == complex(slope(jax))


def test_symmetrized_booleans_are_weak() -> None:
    for f in (lambda j, x: j.lax.linalg.cholesky(x), lambda j, x: j.lax.linalg.eigh(x)[1]):
        for dtype in (bool, "int8"):
            ours, theirs = (f(j, j.numpy.eye(3, dtype=dtype)) for j in (pb, jax))
            assert (ours.dtype, ours.weak_type) == (theirs.dtype, theirs.weak_type)


_SQUARE, _STACK = np.ones((2, 2), np.float32), np.ones((1, 2, 3), np.float32)
_SUMS, _FREE = (((0,), (0,)), ((), ())), (((1,), (1,)), ((), ()))


def _ragged(m: Any, x: Any, sizes: Any, *axes: Any) -> Any:
    numbers = m.lax.RaggedDotDimensionNumbers(*axes)
    return m.lax.ragged_dot_general(_SQUARE, x, np.array(sizes), numbers)


WRONG_PRODUCTS = {
    "sizes that are floats": lambda m: m.lax.ragged_dot(_SQUARE, _STACK, np.float32([2])),
    "a ragged axis that is none": lambda m: _ragged(m, _STACK, [2], _FREE, [5], [0]),
    "no ragged axis": lambda m: _ragged(m, _STACK, [2], _FREE, [], [0]),
    "a group axis that is none": lambda m: _ragged(m, _STACK, [2], _FREE, [0], [-1]),
    "a group axis that is summed": lambda m: _ragged(m, _STACK, [2], _FREE, [0], [1]),
    "groups of what is summed": lambda m: _ragged(m, _SQUARE, [1, 1], _SUMS, [0], [1]),
    "two group axes": lambda m: _ragged(m, _STACK, [2], _FREE, [0], [0, 2]),
    "a scale for each element": lambda m: m.lax.scaled_dot(_SQUARE, _SQUARE, lhs_scale=_SQUARE),
    "a scale for all rows": lambda m: m.lax.scaled_dot(_SQUARE, _SQUARE, lhs_scale=_SQUARE[:1, :1]),
    "an axis past the end": lambda m: m.lax.cumsum(_SQUARE, 2.0),
}


@pytest.mark.parametrize("name", WRONG_PRODUCTS)
def test_wrong_axes_are_refused_as_in_jax(name: str) -> None:
    with pytest.raises((TypeError, ValueError)) as theirs:
        WRONG_PRODUCTS[name](jax)
    with pytest.raises(theirs.type, match=re.escape(str(theirs.value)[:40])):
        WRONG_PRODUCTS[name](pb)


def test_axes_that_are_whole_floats() -> None:
    x = np.arange(4, dtype=np.float32)
    assert pb.lax.cumsum(x, 0.0).tolist() == jax.lax.cumsum(x, 0.0).tolist()


def test_broadcasts_come_from_an_instance() -> None:
    with pytest.raises(ValueError, match="source must be in"):
        pb.vmap(lambda x: pb.lax.pbroadcast(x, "i", 5), axis_name="i")(_SQUARE)


DRAWN = np.random.RandomState(5).randn(2, 4, 6, 5).astype(np.float32)
GROUPS = {
    # (lhs, rhs, sizes, contracting and batch axes, ragged axis, group axes)
    "rows": ((2, 4, 6, 5), (3, 4, 2, 5, 6), (4, 2, 3), ((3,), (3,), (1, 0), (1, 2)), 2, [0]),
    "free axes before": ((2, 4, 6, 5), (3, 4, 5), (2, 4, 3), ((3,), (2,), (), ()), 2, [0]),
    "sums of a batch": ((2, 6, 5), (2, 6, 4), (2, 3), ((1,), (1,), (0,), (0,)), 1, []),
    "sums inside of sums": ((2, 6, 5), (6, 2, 4), (2, 3), ((0, 1), (1, 0), (), ()), 1, []),
    "batch in a batch": ((2, 6, 5), (2, 6, 5), (2, 3), ((2,), (2,), (0, 1), (0, 1)), 1, []),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_groups_have_sizes_of_their_own_in_each_part(name: str) -> None:
    lhs, rhs, sizes, (lc, rc, lb, rb), axis, groups = GROUPS[name]
    rng = np.random.RandomState(1)
    x, y = (rng.randn(*shape).astype(np.float32) for shape in (lhs, rhs))
    counts = rng.randint(0, 3, sizes).astype(np.int32)

    def product(lax: Any) -> Any:
        numbers = lax.RaggedDotDimensionNumbers(((lc, rc), (lb, rb)), [axis], groups)
        return lax.ragged_dot_general(x, y, counts, numbers)

    same(product, "lax")


@pytest.mark.parametrize("mode", [None, "clip"])
def test_slices_that_nobody_reads_may_be_larger(mode: Any) -> None:
    """Without indices a slice does not have to lie in the operand; gradients gather so, too."""

    def program(lib: Any) -> Any:
        lax = lib.lax
        numbers = lax.GatherDimensionNumbers((1,), (), (0,))
        read = lambda x, i: lax.gather(x, i, numbers, (5,), mode=mode)
        x, none = np.zeros(3, np.float32), np.zeros((0, 1), np.int32)
        mapped = lib.vmap(read)(np.zeros((2, 0), np.float32), np.zeros((2, 0, 1), np.int32))
        return lib.jit(read)(x, none), lib.grad(lambda x: read(x, none).sum())(x), mapped

    same(program, "")


@pytest.mark.parametrize("layouts", [("CHN", "HOI", "HNC"), ("NHC", "HIO", "CNH")])
def test_local_convolutions_in_any_layout(layouts: Any) -> None:
    lhs, rhs, _ = layouts
    x = np.moveaxis(DRAWN[:, :, :, 0], range(3), [lhs.index(c) for c in "NCH"])
    y = np.random.RandomState(0).randn(3, 8, 5).astype(np.float32)
    y = np.moveaxis(y, range(3), [rhs.index(c) for c in "OIH"])
    same(
        lambda m: m.conv_general_dilated_local(
            x, y, (1,), "VALID", (2,), dimension_numbers=layouts
        ),
        "lax",
    )


def test_convolutions_without_space() -> None:
    x, y = DRAWN[0, :, :3, 0], DRAWN[0, :3, :2, 0]
    same(lambda m: m.conv_transpose(x, y, (), "SAME"), "lax")
    low, high = pb.lax.padtype_to_pads(*np.array([[8], [3], [2]]), "SAME")[0]
    assert type(low) is type(high) is int


def test_the_next_power_of_two() -> None:
    """JAX's answers of this dtype, which has nothing but powers of two, are not the next ones."""
    x, y = (
        pnp.array(v, "float8_e8m0fnu") for v in ([1, 2, 0.5, np.nan, 2**-126], [2, 1, 0.5, 1, 1])
    )
    assert (
        str(pb.lax.nextafter(x, y).astype("float32").tolist())
        == f"[2.0, 1.0, 0.5, nan, {2.0**-125}]"
    )


@pytest.mark.parametrize("shape", [(), (7,), (4, 3), (5, 3), (5, 7), (7, 2, 5), (3, 5, 5), (0, 3)])
def test_threefry_words_lie_as_in_xla(shape: Any) -> None:
    state = np.uint32([1, 2, 3, 4])
    bits = lambda m: [m.rng_bit_generator(state, shape, dtype, 1) for dtype in ("uint8", "uint32")]
    same(bits, "lax")


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("shape", [(), (7,), (8,), (5, 3), (0, 3), (3, 1001)])
@pytest.mark.parametrize("state", [[1, 2, 3, 4], [7, 2**32 - 1, 2**32 - 2, 2**32 - 1]])
def test_generators_count(dtype: str, shape: Any, state: Any) -> None:
    """Philox and Threefry, and the states after them; a counter that overflows carries."""

    def program(m: Any) -> Any:
        with m.enable_x64(True):
            words = np.uint32(state)
            states = [words, words.view(np.uint64)]
            draw = lambda s, how: m.lax.rng_bit_generator(s, shape, dtype, how)
            return [m.jit(draw, static_argnums=1)(s, how) for s in states for how in (0, 1)]

    same(program, "")


def test_generators_refuse_negative_sizes() -> None:
    """They asked for memory of so many bytes."""
    key = pb.random.key(0, impl="rbg")
    for draw in (
        lambda: pb.lax.rng_bit_generator(np.uint32([1, 2, 3, 4]), (2, -9)),
        lambda: pb.lax.rng_uniform(0.0, 1.0, (-3,)),
        lambda: pb.random.uniform(key, (-3,)),
    ):
        with pytest.raises(TypeError, match="shape must have every element be nonnegative"):
            draw()


def test_bits_in_loops_are_native() -> None:
    """A sampler that rejects drew each bit by a call into Python: 22 s for 10,000 gamma numbers."""
    key = pb.random.key(0, impl="rbg")
    draw = pb.jit(lambda key: pb.random.gamma(key, 2.0, (50,)))
    assert not draw.lower(key).compiler_ir("loops").plan.host


def test_a_permutation_is_pairs() -> None:
    with pytest.raises(ValueError, match="pairs"):
        pb.vmap(lambda x: pb.lax.ppermute(x, "i", [(0, 1, 2)]), axis_name="i")(_SQUARE)


@pytest.mark.parametrize("x64", [False, True])
def test_shapes_as_values(x64: bool) -> None:
    """Known sizes are int32; those with names are whatever they turn out to be."""

    def program(lib: Any) -> Any:
        with lib.enable_x64(x64):
            size = lib.ShapeDtypeStruct(lib.export.symbolic_shape("a, 3"), np.float32)
            value = lib.jit(lambda x: lib.lax.shape_as_value(x.shape))
            exported = lib.export.export(value)(size)
            found = exported.call(np.ones((2, 3), np.float32))
            return found, lib.lax.shape_as_value(()), lib.lax.shape_as_value((2, 3))

    same(program, "", weak=False)


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_complex_numbers_beside_sums(name: str) -> None:
    """One operation for each operand: complex extremes are none that runs in lanes (a KeyError)."""
    x = (np.arange(12).reshape(3, 4) % 5 - 1j * np.arange(12).reshape(3, 4)).astype(np.complex64)

    def both(lib: Any) -> Any:
        def combine(a: Any, b: Any) -> Any:
            return lib.lax.add(a[0], b[0]), getattr(lib.lax, name)(a[1], b[1])

        start = np.complex64(0), np.complex64(1)
        return lib.jit(lambda x: lib.lax.reduce((x, x), start, combine, (0,)))(x)

    for ours, jaxs in zip(both(pb), both(jax), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(jaxs))
