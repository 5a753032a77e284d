"""Differences from JAX that the test suites of libraries have shown (quax, optax, chex, distrax,
flax, haiku, numpyro); each made small.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from typing import Any

import jax
import jax._src.api_util as their_api_util
import jax._src.dtypes as their_dtypes
import jax._src.public_test_util as theirs
import jax.experimental.checkify
import jax.experimental.shard_map
import numpy as np
import pytest

import pullback
import pullback.experimental.checkify
import pullback.experimental.shard_map
import pullback.jax_compat.modules._src.api_util as our_api_util
import pullback.jax_compat.modules._src.array as our_array
import pullback.jax_compat.modules._src.dtypes as our_dtypes
import pullback.jax_compat.modules._src.public_test_util as ours
import pullback.jax_compat.modules._src.typing as our_typing
import pullback.scipy.fft
from pullback import jax_compat
from pullback.jax_compat.modules._src.tree_util import prefix_errors

I = np.arange(4, dtype="int32").reshape(2, 2)
F = np.ones((2, 2), "float32")


def of(m: Any) -> dict[str, Any]:
    """The cases, as functions of nothing."""
    jnp, lax = m.numpy, m.lax
    i, f = jnp.asarray(I), jnp.asarray(F)
    h, c, b = f.astype(jnp.bfloat16), f.astype(jnp.complex64), f > 0
    matrix = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4)).astype("f"))
    places = jnp.array([1.5, 2, 11, 20, -1, -20, np.nan])
    cases: dict[str, Any] = {
        "canonical None": lambda: str(m.dtypes.canonicalize_dtype(None)),
        "iscomplexobj type": lambda: [
            jnp.iscomplexobj(jnp.float32),
            jnp.iscomplexobj(jnp.complex64),
        ],
        "isrealobj type": lambda: jnp.isrealobj(jnp.bfloat16),
        "unravel_index of floats": lambda: jnp.unravel_index(places, (3, 4)),
        "qdwh's steps": lambda: lax.linalg.qdwh(matrix)[2:],
        "qdwh's most steps": lambda: lax.linalg.qdwh(matrix, max_iterations=1)[2:],
        "setdiff1d": lambda: jnp.setdiff1d(jnp.array([3, 1, 3, 2]), jnp.array([2, 4]), size=3),
        "setxor1d": lambda: jnp.setxor1d(jnp.array([3, 1, 3, 2]), jnp.array([2, 4]), size=4),
        "poly": lambda: jnp.poly(jnp.array([1.0, 2.0, 4.0])),
        "inner of bools": lambda: jnp.inner(True, b),
        "einsum of int and bfloat16": lambda: jnp.einsum("ij,jk", i, h),
    }
    # Products keep their operands' dtypes.
    for name in ("matmul", "dot", "inner", "vdot", "vecdot", "tensordot"):
        for k, (x, y) in enumerate(
            [(i, h), (f, c), (b, i), (i, f), (b, b), (i, i.astype("uint8"))]
        ):
            cases[f"{name} {k}"] = lambda g=name, x=x, y=y: getattr(jnp, g)(x, y)
            cases[f"{name} {k} as text"] = lambda g=name, x=x, y=y: re.sub(
                r"\s+", " ", str(m.make_jaxpr(getattr(jnp, g))(x, y))
            )
    return cases


THEIRS, OURS = of(jax), of(pullback)


@pytest.mark.parametrize("name", OURS)
def test_equal(name: str) -> None:
    want, got = (
        m.tree_util.tree_leaves(of_[name]()) for m, of_ in ((jax, THEIRS), (pullback, OURS))
    )
    assert len(want) == len(got)
    for w, g in zip(want, got, strict=True):
        if isinstance(w, str):
            assert g == w
            continue
        assert getattr(g, "dtype", type(g)) == getattr(w, "dtype", type(w))
        assert getattr(g, "weak_type", None) == getattr(w, "weak_type", None)
        np.testing.assert_allclose(
            np.asarray(g).astype(np.complex128), np.asarray(w).astype(np.complex128), rtol=1e-5
        )


def test_derivatives_of_mixed_products() -> None:
    def both(m: Any) -> list[Any]:
        i, f = m.numpy.asarray(I), m.numpy.asarray(F)
        return [
            m.grad(lambda x: (i @ x).sum())(f),
            m.jvp(lambda x: x @ i, (f,), (f,))[1],
            m.vmap(m.numpy.matmul)(m.numpy.stack([i, i]), m.numpy.stack([f, f])),
            m.linear_transpose(lambda x: i @ x, f)(f)[0],
        ]

    for got, want in zip(both(pullback), both(jax), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


def custom_vjp(m: Any, back: Any, arg: Any, residuals: Any = lambda a: None) -> Any:
    """The gradient of the sum of a tree's leaves, by the rule `back(residuals, cotangent)`."""

    @m.custom_vjp
    def f(a: Any) -> Any:
        return sum(m.tree.leaves(a))

    f.defvjp(lambda a: (f(a), residuals(a)), back)
    return m.grad(f)(arg)


@pytest.mark.parametrize(
    "back",
    [
        lambda r, g: (g,),
        lambda r, g: ([g, None],),
        lambda r, g: ([g, g * 2],),
        lambda r, g: ([None, g * 2],),
        lambda r, g: (None,),
        lambda r, g: ([g],),
        lambda r, g: ((g, g),),
    ],
)
def test_one_cotangent_for_a_subtree(back: Any) -> None:
    def outcome(m: Any) -> Any:
        arg = [m.numpy.array(1.0), {"x": m.numpy.array(2.0), "y": m.numpy.array(3.0)}]
        try:
            return m.tree.map(float, custom_vjp(m, back, arg))
        except TypeError:
            return TypeError

    assert outcome(pullback) == outcome(jax)


@pytest.mark.parametrize("jit", [False, True])
def test_residuals_are_arrays_unless_given_as_numbers(jit: bool) -> None:
    def kinds(m: Any) -> list[Any]:
        seen: list[Any] = []

        def back(r: Any, g: Any) -> Any:
            seen.extend((isinstance(v, m.Array), isinstance(v, (int, float))) for v in r)
            return (g,)

        def run(x: Any) -> Any:
            return custom_vjp(m, back, x, lambda a: (a, m.numpy.cos(a), 2.0, 3, m.numpy.ones(2)))

        (m.jit(run) if jit else run)(m.numpy.array(1.0))
        return seen

    assert kinds(pullback) == kinds(jax)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_sharding_of_types(shape: tuple[int, ...]) -> None:
    ours, theirs = (m.typeof(m.numpy.ones(shape)) for m in (pullback, jax))
    assert repr(ours.sharding) == repr(theirs.sharding)
    assert ours.sharding.is_fully_replicated
    assert ours.update(sharding=ours.sharding) == ours
    assert pullback.core.ShapedArray(shape, np.float32).sharding == ours.sharding


def test_jitted_functions_are_recognised() -> None:
    assert type(pullback.jit(lambda x: x)).__name__ == type(jax.jit(lambda x: x)).__name__


def test_disable_jit_takes_its_argument_by_name() -> None:
    seen: list[bool] = []
    for disable in (True, False):
        with pullback.disable_jit(disable=disable):
            pullback.jit(lambda x: seen.append(isinstance(x, pullback.core.Tracer)))(1.0)
    assert seen == [False, True]
    with pytest.raises(TypeError, match="unexpected keyword argument 'x'"):
        pullback.disable_jit(x=1)  # type: ignore[call-arg]


def test_checks_show_arrays() -> None:
    def message(m: Any) -> str:
        checkify = m.experimental.checkify

        def f(x: Any) -> Any:
            checkify.check(x[0] > 0, "{} {:.2f} {!r}", x, x[0], {"a": x.sum()})
            return x

        return checkify.checkify(f)(m.numpy.array([-1.0, 2.0]))[0].get().split(" (`")[0]

    assert message(pullback) == message(jax)


def test_keys_that_differ() -> None:
    for m in (jax, pullback):
        with pytest.raises(ValueError, match=r"Dict key mismatch; expected keys: \['a', 'b'\]"):
            m.tree.structure({"a": 1, "b": 2}).flatten_up_to({"a": 1})


def test_weakly_started_carry_has_a_strong_cotangent() -> None:
    start, factors = pullback.numpy.asarray(1.5), np.arange(1.0, 5.0, dtype=np.float32)
    assert start.weak_type

    def f(x: Any) -> Any:
        return pullback.lax.scan(lambda c, y: (c * y, None), x, pullback.numpy.asarray(factors))[0]

    for grad in (pullback.grad(f), pullback.jit(pullback.grad(f))):
        found = grad(start)
        assert not found.weak_type  # as JAX's
        assert found == 24
    doubled = pullback.grad(
        lambda x: pullback.lax.scan(lambda c, _: (c * 2, None), x, None, length=2)[0]
    )
    assert doubled(start).weak_type


def test_batched_custom_functions_keep_their_names() -> None:
    @pullback.custom_vjp
    def f(x: Any) -> Any:
        return x * 2

    def f_fwd(x: Any) -> Any:
        return x * 2, x

    def f_bwd(res: Any, ct: Any) -> Any:
        return (ct * res,)

    f.defvjp(f_fwd, f_bwd)
    x = np.ones(2, np.float32)
    for g in (pullback.vmap(f), pullback.vmap(pullback.jit(f))):
        text = str(pullback.make_jaxpr(g)(x))
        assert all(s in text for s in ("name=f\n", "fwd=f_fwd\n", "bwd=f_bwd\n")), text
    text = str(
        pullback.make_jaxpr(pullback.vmap(pullback.vmap(pullback.nn.relu)))(
            np.ones((2, 2), np.float32)
        )
    )
    assert "custom_jvp_call[\n" in text
    assert text.count("name=relu\n") == 2


def test_traces_tell_their_tracers_apart() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(
            (x._trace.main, pullback.jvp(lambda y: seen.append(y._trace.main) or y * x, (x,), (x,)))
        )
        return x

    pullback.jvp(f, (1.0,), (1.0,))
    inner, (outer, _) = seen
    assert inner is not outer


def test_array_text_breaks_where_jax_breaks() -> None:
    assert repr(pullback.numpy.asarray(np.full(15, 10, np.int32))).endswith("10], dtype=int32)")
    assert repr(pullback.numpy.asarray(np.full(16, 10, np.int32))).endswith(
        "10],      dtype=int32)"
    )
    assert repr(pullback.numpy.full(27, 11)).endswith("11],      dtype=int32, weak_type=True)")
    assert repr(pullback.numpy.full(26, 11)).endswith("11], dtype=int32, weak_type=True)")


def test_private_prefix_errors() -> None:
    (make,) = prefix_errors((1, 2), (1, 2, 3))
    assert "in_axes" in str(make("in_axes"))
    assert prefix_errors((1, 2), (1, (2, 3))) == []


def test_jitted_functions_are_shown_by_what_they_wrap() -> None:
    def f(x: Any) -> Any:
        return x

    assert repr(pullback.jit(f)) == f"<PjitFunction of {f!r}>"
    assert re.match(r"<PjitFunction of <function sin at ", repr(pullback.numpy.sin))


def test_device_get_leaves_traced_values() -> None:
    def f(x: Any) -> Any:
        return pullback.device_get({"x": x})["x"] * 2

    assert pullback.jit(f)(1.5) == 3
    assert pullback.grad(f)(1.5) == 2


def test_name_stacks_are_paths_as_text() -> None:
    def f(x: Any) -> Any:
        with pullback.named_scope("outer"), pullback.named_scope("inner"):
            y = pullback.lax.sin(x)
        return pullback.lax.cos(y)

    eqns = pullback.make_jaxpr(f)(1.0).jaxpr.eqns
    assert [str(e.source_info.name_stack) for e in eqns] == ["outer/inner", ""]


def test_zeros_of_a_pytree() -> None:
    zero = pullback.custom_derivatives.zero_from_primal
    found = zero({"a": np.float32(2), "b": [np.ones(2, np.float32), np.arange(2)]})
    assert (found["a"], list(found["b"][0])) == (0, [0, 0])
    assert found["b"][1].dtype == pullback.dtypes.float0
    marks = zero((1.0, [2.0]), symbolic_zeros=True)
    assert type(marks[1][0]).__name__ == "SymbolicZero"


class Step(enum.IntEnum):
    FIRST = 1
    LAST = 2


class Meters(float):
    pass


def of_derived(m: Any, v: Any) -> list[Any]:
    """What programs do with numbers of classes derived from Python's."""
    jnp, lax = m.numpy, m.lax
    ones = jnp.ones(2, "int8")
    return [
        *(m.typeof(v), v * ones, jnp.add(v, 1), jnp.add(v, jnp.int8(1)), lax.add(v, v)),
        *(jnp.array(v), jnp.array([v, v]), jnp.array([v, 1.0]), jnp.array([v, jnp.float16(1)])),
        *(jnp.full(2, v), jnp.full_like(ones, v), jnp.where(True, v, v), jnp.stack([v, v])),
        *(jnp.result_type(v), jnp.asarray(v, "uint8"), m.device_put(v), jnp.sum(v)),
        *(m.jit(lambda x: x + 1)(v), m.vmap(lambda x: x * v)(jnp.ones(2))),
        *(lax.cond(v == 1, lambda x: x, lambda x: x * 2, v), jnp.zeros(3).at[1].set(v)),
        lax.while_loop(lambda c: c < 9, lambda c: c + v, v),
        m.make_jaxpr(lambda x: jnp.sin(x) * v)(1.0),
        m.make_jaxpr(lambda x: x + 1)(v),
    ]


@pytest.mark.parametrize("v", [Step.LAST, Meters(2.5)], ids=["IntEnum", "float"])
def test_numbers_of_derived_classes_are_numbers(v: Any) -> None:
    """rlax: an array of an enum's members; dm_env's steps are such."""
    assert [repr(x) for x in of_derived(pullback, v)] == [repr(x) for x in of_derived(jax, v)]


def test_members_of_an_enum_index_and_choose() -> None:
    jnp = pullback.numpy
    assert jnp.arange(3)[Step.LAST] == 2
    assert pullback.lax.switch(Step.FIRST, [lambda: 0, lambda: 10]) == 10
    assert (pullback.random.key_data(pullback.random.key(Step.LAST)) == np.array([0, 2])).all()
    trace = pullback.jit(lambda x: x)
    assert type(trace(np.float64(1.5))) is type(jnp.ones(1))
    assert not pullback.typeof(np.float64(1.5)).weak_type  # NumPy's scalars are no such numbers


def test_private_comparisons_with_tolerances() -> None:
    """tinygp's tests compare with these."""
    x = pullback.numpy.ones(3)
    ours.check_close({"a": x}, {"a": np.ones(3) + 2e-6})  # the tolerance of one, three times
    ours.check_close(x, x + 1e-4, atol=1e-4)
    ours.check_close(x, np.ones(3) + 1e-4, rtol={np.float32: 1e-4, np.float64: 1e-4})
    ours.check_close(x.astype("bfloat16"), x + 1e-2)
    for bad in (x + 1e-5, x[:2], 1.0, x.astype("int32") + 1):
        with pytest.raises(AssertionError):
            ours.check_close(x, bad)
    ours.check_close(np.arange(3), np.arange(3) + 1, atol=1)
    assert ours.tolerance(np.dtype("float32"), None) == theirs.tolerance(np.dtype("float32"), None)
    assert ours.default_tolerance() == theirs.default_tolerance()


def test_private_dtypes_beside_a_dtype() -> None:
    for name in ("to_inexact_dtype", "to_floating_dtype", "to_complex_dtype", "to_numeric_dtype"):
        for d in "bool int8 uint32 int64 uint64 float16 float32 float64 complex64".split():
            answers = [getattr(m, name)(np.dtype(d)) for m in (our_dtypes, their_dtypes)]
            assert answers[0] == answers[1], (name, d)


@pytest.mark.parametrize("given", [
    (None, None), ((0,), None), (None, ("b",)), ((1,), ("c",)), ((), ()), (0, "b"), (1, None),
    ((-1,), None), ((1, 0), None), (None, ("b", "a")), (None, "a"), (None, "zz"), (2, None),
])  # fmt: skip
def test_private_argnums_and_argnames(given: Any) -> None:
    """e3nn-jax asks for the positions of named parameters."""

    def f(a: Any, b: Any, *, c: Any) -> None: ...

    def g(a: Any, /, b: Any, *r: Any, c: Any, **k: Any) -> None: ...

    for fun in (f, g):
        signature = inspect.signature(fun)
        found = our_api_util.infer_argnums_and_argnames(signature, *given)
        assert found == their_api_util.infer_argnums_and_argnames(signature, *given)


def test_private_types() -> None:
    x = pullback.numpy.ones(2)
    assert isinstance(x, our_array.ArrayImpl) and isinstance(x, our_typing.Array)
    assert our_typing.DType is np.dtype


class Blocks:
    """Arrays of different shapes, as scico has them."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays

    @property
    def shape(self) -> Any:
        return tuple(a.shape for a in self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __getitem__(self, k: int) -> Any:
        return self.arrays[k]


@pytest.mark.parametrize("name", ["concatenate", "stack", "hstack", "vstack", "dstack"])
def test_any_container_of_arrays_is_joined(name: str) -> None:
    for m in (jax, pullback):
        jnp: Any = m.numpy
        x, y = jnp.arange(3.0), jnp.ones(3)
        want = getattr(jnp, name)([x, y])
        for container in (Blocks(x, y), {"a": x, "b": y}.values()):
            np.testing.assert_array_equal(getattr(jnp, name)(container), want)
        for bad in ((v for v in (x, y)), iter([x, y]), 3, None):
            with pytest.raises((TypeError, ValueError, IndexError)):
                getattr(jnp, name)(bad)


def test_mapped_outputs_that_should_not_be_are_named() -> None:
    """flax.nnx: which output it is, where it is a pytree."""
    cases: list[tuple[Any, dict[str, Any]]] = [
        (lambda x: {"a": x, "b": x}, {"out_axes": {"a": 0, "b": None}}),
        (lambda x: {"a": (1.0, x), "b": x}, {"out_axes": {"a": None, "b": 0}}),
        (lambda x: x, {"out_axes": None}),
        (lambda x: x, {"out_axes": None, "axis_name": "i"}),
    ]
    for f, options in cases:
        said = []
        for m in (jax, pullback):
            with pytest.raises(ValueError, match="vmap") as e:
                m.vmap(f, **options)(m.numpy.ones(3))
            said.append(str(e.value))
        assert said[1].startswith(said[0])


def test_callables_whose_names_are_no_text() -> None:
    """tinygp: modules of whose attributes every one is an array."""

    class Model:
        def __getattr__(self, name: str) -> Any:
            if name in ("__name__", "__qualname__", "__annotations__"):
                return 3
            raise AttributeError(name)

        def __call__(self, x: Any) -> Any:
            return x * x

    for m in (jax, pullback):
        x, f = m.numpy.arange(3.0), Model()
        assert m.vmap(f)(x).tolist() == m.jit(m.vmap(f))(x).tolist() == [0, 1, 4]
        assert m.grad(f)(3.0) == 6 and m.checkpoint(f)(3.0) == 9 and m.hessian(f)(3.0) == 2


def test_functions_can_be_given_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    """objax documents functions of numpy anew."""
    given = inspect.signature(lambda a, *, b=2: None)
    for m in (jax, pullback):
        f = m.numpy.pad
        before = inspect.signature(f)
        with monkeypatch.context() as patch:
            patch.setattr(f, "__signature__", given, raising=False)
            assert inspect.signature(f) == f.__signature__ == given
            assert f(m.numpy.ones(1), 1).tolist() == [0, 1, 0]
        assert inspect.signature(f) == before


def test_closed_programs_have_the_variables_of_theirs() -> None:
    for m in (jax, pullback):
        closed = m.make_jaxpr(lambda x, m=m: x + m.numpy.arange(3.0))(1.0)
        jaxpr = closed.jaxpr
        assert closed.invars == jaxpr.invars and closed.outvars == jaxpr.outvars
        assert closed.constvars == jaxpr.constvars and closed.is_high is jaxpr.is_high is False
        assert closed.debug_info is jaxpr.debug_info


def test_shardings_know_the_order_of_their_devices() -> None:
    """orbax reads the parts of an array in this order."""
    for m in (jax, pullback):
        devices: Any = tuple(m.devices()[:1])
        for sharding in (
            m.sharding.SingleDeviceSharding(devices[0]),
            m.NamedSharding(m.make_mesh((1,), ("i",)), m.P("i")),
        ):
            assert sharding._device_assignment == devices
            assert sharding._addressable_device_assignment == devices


@pytest.mark.parametrize(
    "axes",
    [
        lambda: (k for k in (0, 2)),
        lambda: range(0, 3, 2),
        lambda: np.array([0, 2]),
        lambda: {0: 0, 2: 0}.keys(),
    ],
)
def test_axes_are_any_iterable(axes: Any) -> None:
    jnp, nn, x = pullback.numpy, pullback.nn, np.arange(24, dtype="f").reshape(2, 3, 4)
    a = jnp.asarray(x)
    for name in "sum mean std ptp flip nanmax nanvar count_nonzero median".split():
        got, want = getattr(jnp, name)(a, axis=axes()), getattr(np, name)(x, axis=(0, 2))
        np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)
    norm = np.sqrt((x * x).sum((0, 2)))
    np.testing.assert_allclose(jnp.linalg.vector_norm(a, axis=axes()), norm, rtol=1e-6)
    for f in (nn.softmax, nn.logsumexp):
        np.testing.assert_array_equal(f(a, axis=axes()), f(a, axis=(0, 2)))
    places = pullback.scipy.fft.dctn(a, axes=axes()), pullback.scipy.fft.dctn(a, axes=(0, 2))
    np.testing.assert_array_equal(*places)


def test_one_axis_as_an_array_of_no_axes() -> None:
    jnp, x = pullback.numpy, np.arange(6, dtype="f").reshape(2, 3)
    for axis in (np.array(0), jnp.array(0), np.int64(0)):
        assert jnp.var(x, axis=axis).shape == jnp.ptp(x, axis=axis).shape == (3,)
        assert jnp.asarray(x).transpose(axis, 1).shape == (2, 3)
    assert jnp.asarray(x).transpose(range(2)).shape == (2, 3)


@pytest.mark.parametrize("name", "exp expm1 log log1p sqrt sin cos tan tanh logistic".split())
def test_elementary_primitives_bound_without_an_accuracy(name: str) -> None:
    p, f = getattr(pullback.lax, f"{name}_p"), getattr(pullback.lax, name)
    for order in (pullback.grad, lambda g: pullback.grad(pullback.grad(g))):
        assert order(p.bind)(0.3) == order(f)(0.3)
    want = str(jax.make_jaxpr(lambda x: getattr(jax.lax, f"{name}_p").bind(x))(0.3))
    assert str(pullback.make_jaxpr(p.bind)(0.3)) == want


def test_modules_that_jax_keeps_for_older_programs() -> None:
    old = pullback.experimental.shard_map.shard_map
    with pytest.deprecated_call():
        theirs = inspect.signature(jax.experimental.shard_map.shard_map)
    assert list(inspect.signature(old).parameters) == list(theirs.parameters)
    mesh, spec = pullback.make_mesh((1,), ("i",)), pullback.P("i")
    run = old(lambda x: 2 * x, mesh, spec, spec, check_rep=False)
    np.testing.assert_array_equal(run(F), 2 * F)
    assert importlib.import_module("pullback.jax_compat.modules.lib").__version__ == jax.__version__


def test_core_dimensions_that_are_numbers_are_names() -> None:
    for m in (jax, pullback):
        f = m.numpy.vectorize(lambda a, b: a.sum() + b.sum(), signature="(3),(2)->()")
        np.testing.assert_array_equal(f(np.ones((5, 4)), np.ones(3)), np.full(5, 7.0))
        with pytest.raises(ValueError, match="inconsistent size for core dimension '2'"):
            m.numpy.vectorize(lambda a, b: a, signature="(2),(2)->()")(np.ones(2), np.ones(3))


def test_private_core_has_the_maps_that_check_lengths() -> None:
    core = importlib.import_module("pullback.jax_compat.modules._src.core")
    util = importlib.import_module("pullback.jax_compat.modules._src.util")
    assert (core.safe_map, core.safe_zip) == (util.safe_map, util.safe_zip)
    for m in (core, jax._src.core):
        assert list(m.safe_zip([1, 2], [3, 4])) == [(1, 3), (2, 4)]
        with pytest.raises(ValueError):
            m.safe_map(max, [1, 2], [3])


def bind_params(m: Any) -> list[Any]:
    """What interpreters of programs find: `bind`'s parameters as one dict, functions among them
    with `call_wrapped` (Equinox's finalise_jaxpr runs rules' primal functions so).
    """

    @m.custom_jvp
    def f(x, y):
        return x * y

    f.defjvp(lambda p, t: (p[0] * p[1], t[0]))

    @m.custom_vjp
    def g(x, y):
        return x - y

    g.defvjp(lambda x, y: (x - y, y), lambda r, c: (c, c))
    found = []
    for fun in (f, g, m.numpy.sin, lambda x, y: m.lax.cond(x > 0, lambda: x, lambda: y)):
        operands = (3.0,) if fun is m.numpy.sin else (3.0, 2.0)
        eqn = m.make_jaxpr(fun)(*operands).jaxpr.eqns[-1]
        params = eqn.primitive.get_bind_params(eqn.params)
        found.append((type(params).__name__, sorted(params)))
        if "subfuns" in params:
            found.append([float(x) for x in params["subfuns"][0].call_wrapped(*operands)])
            found.append([float(x) for x in eqn.primitive.bind(*operands, **params)])
    return found


def test_bind_params_are_one_dict_with_functions_that_can_be_called():
    assert bind_params(pullback) == bind_params(jax)


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_keywords_after_a_parameter_that_keeps_its_default(kind):
    """ott-jax calls its logsumexp without `b`, but with `return_sign`, which comes after it."""

    def of(m: Any) -> list[float]:
        def f(x, a=2.0, b=3.0, s=1.0):
            return x * a + b * s

        g = getattr(m, kind)(f, nondiff_argnums=(1, 3))
        if kind == "custom_jvp":
            g.defjvp(lambda a, s, p, t: (f(p[0], a, p[1], s), t[0] * 7 * s))
        else:
            g.defvjp(
                lambda x, a, b, s: (f(x, a, b, s), None), lambda a, s, r, c: (c * 7 * s, c * a)
            )
        return [float(g(5.0, s=4.0)), float(m.grad(lambda x: g(x, s=4.0))(5.0))]

    assert of(pullback) == of(jax) == [22.0, 28.0]


def test_registry_entries_flatten_one_level() -> None:
    """As jaxlie reads them: children and static data of a node, and a node of them."""

    def outcome(m: Any, registry: Any) -> list[Any]:
        class Plain:
            def __init__(self, x: Any) -> None:
                self.x = x

        class Keyed(Plain):
            pass

        m.tree_util.register_pytree_node(Plain, lambda a: ((a.x,), 7), lambda _, c: Plain(*c))
        key = m.tree_util.GetAttrKey("x")
        m.tree_util.register_pytree_with_keys(
            Keyed, lambda a: (((key, a.x),), 8), lambda _, c: Keyed(*c)
        )
        found: list[Any] = []
        for node in ([1, 2], {"b": 1, "a": 2}, (1, 2), None):
            children, data = registry[type(node)].to_iter(node)
            found += [list(children), data, registry[type(node)].from_iter(data, children)]
        for node in (Plain(3), Keyed(3)):
            children, data = registry[type(node)].to_iter(node)
            found += [list(children), data, registry[type(node)].from_iter(data, (4,)).x]
        return found

    want = outcome(jax, importlib.import_module("jax._src.tree_util")._registry)
    ours_ = importlib.import_module("pullback.jax_compat.modules._src.tree_util")._registry
    assert outcome(pullback, ours_) == want


def test_tracers_that_linearize_have_their_class() -> None:
    """Awkward tells by `LinearizeTracer` which buffers are being differentiated."""

    def outcome(m: Any, ad: Any) -> list[bool]:
        seen: list[bool] = []

        def f(x: Any) -> Any:
            seen.append(isinstance(x, ad.LinearizeTracer))
            return x * x

        m.grad(f)(1.0)
        m.vjp(f, 1.0)
        m.linearize(f, 1.0)
        m.make_jaxpr(f)(1.0)
        m.vmap(f)(np.ones(2, "f"))
        return seen

    want = outcome(jax, importlib.import_module("jax._src.interpreters.ad"))
    found = importlib.import_module("pullback.jax_compat.modules._src.ad_names")
    assert outcome(pullback, found) == want == [True, True, True, False, False]
    assert "jax_compat.modules._src.ad_names" in jax_compat._SOURCES["_src.interpreters.ad"]


def test_types_of_arrays_are_arguments_where_only_their_shape_is_read() -> None:
    """NetKet gives a jitted function the types of its parameters."""

    def outcome(m: Any, **options: Any) -> list[Any]:
        kind, found = m.ShapeDtypeStruct((3,), np.dtype("f")), []
        for f in (lambda a, q: a + q["x"].shape[0], lambda a, q: a * q["x"], lambda a, q: q["x"]):
            jitted = m.jit(f, **options)
            for _ in range(2):
                try:
                    found.append(float(jitted(1.0, {"x": kind})))
                except TypeError as error:
                    found.append(str(error).split(" of shape")[0])
        return found

    assert outcome(pullback) == outcome(jax)
    assert outcome(pullback, keep_unused=True) == outcome(jax, keep_unused=True)
