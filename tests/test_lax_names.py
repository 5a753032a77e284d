"""The public names of lax and of what extends the package, with JAX's parameters; and what the
rarer ones do: exchanges of unequal parts, sends, select_and_scatter, forward rules, live arrays.
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
from collections import OrderedDict
from types import FrameType
from typing import Any

import numpy as np
import oracle_flags  # noqa: F401
import pytest

# isort: split
import jax
from jax import lax as jlax
from jax.extend.core import primitives as jprimitives

import pullback as pb
import pullback.numpy as jnp
from pullback import lax
from pullback.extend import core, source_info_util
from pullback.extend.core import primitives
from pullback.extend.linear_util import WrappedFun
from pullback.interpreters import ad, batching, mlir, partial_eval

OF_XLA = {"ifrt_proxy", "annotations"}  # names that mean something of XLA's alone
MODULES = ("lax", "lax.linalg", "custom_derivatives", "custom_batching", "ad_checkpoint")
FUNCTIONS = {
    "interpreters.ad": "add_tangents defbilinear defjvp defjvp2 deflinear deflinear2 "
    "get_primitive_transpose instantiate_zeros is_undefined_primal jvp linearize zeros_like_aval",
    "interpreters.batching": "bdim_at_front defbroadcasting defreducer defvectorized "
    "register_vmappable unregister_vmappable",
    "interpreters.mlir": "core_call_lowering lower_fun register_lowering",
    "interpreters.partial_eval": "dce_jaxpr dce_jaxpr_call_rule dce_jaxpr_closed_call_rule "
    "dce_jaxpr_consts trace_to_jaxpr_dynamic trace_to_jaxpr_nounits",
    "interpreters.xla": "apply_primitive",
    "extend.backend": "backend_xla_version backends clear_backends get_compile_options "
    "get_default_device get_backend register_backend_cache register_backend_factory",
    "extend.linear_util": "cache merge_linear_aux wrap_init",
    "extend.random": "define_prng_impl random_seed seed_with_impl",
    "extend.source_info_util": "current new_name_stack new_source_info summarize",
    "api_util": "argnums_partial donation_vector flatten_axes rebase_donate_argnums "
    "shaped_abstractify",
    "core": "eval_jaxpr max_dim min_dim ensure_compile_time_eval",
    "extend.core": "call_impl check_jaxpr concrete_or_error find_top_trace "
    "get_opaque_trace_state mapped_aval new_jaxpr_eqn primal_dtype_to_tangent_dtype "
    "unmapped_aval valid_jaxtype",
}


def parameters(f: Any) -> list[tuple[str, str, str]] | None:
    """Names, kinds and defaults; a default without a value of its own by its type."""
    try:
        found = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return None

    def shown(x: Any) -> str:
        if type(x) is object or "object at" in repr(x):
            return type(x).__name__
        return getattr(x, "__name__", repr(x)) if callable(x) else repr(x)

    return [(p.name, p.kind.name, shown(p.default)) for p in found]


@pytest.mark.parametrize("module", MODULES)
def test_signatures(module: str) -> None:
    ours, theirs = (importlib.import_module(f"{root}.{module}") for root in ("pullback", "jax"))
    names = [n for n in dir(theirs) if not n.startswith("_") and n != "DotDimensionNumbers"]
    names = [n for n in names if inspect.isfunction(getattr(theirs, n))]
    assert names
    wrong = [n for n in names if parameters(getattr(ours, n)) != parameters(getattr(theirs, n))]
    assert not wrong


@pytest.mark.parametrize("module", FUNCTIONS)
def test_signatures_of_what_extends(module: str) -> None:
    ours, theirs = (importlib.import_module(f"{root}.{module}") for root in ("pullback", "jax"))
    for name in FUNCTIONS[module].split():
        want = parameters(getattr(theirs, name))
        assert parameters(getattr(ours, name)) == want, name


EXTENDING = (
    "core extend.core extend.backend extend.linear_util extend.random extend.source_info_util "
    "interpreters.ad interpreters.batching interpreters.mlir interpreters.partial_eval "
    "interpreters.xla"
).split()
# What tracing makes, and users only look at.
MADE_BY_TRACING = set("DynamicJaxprTracer JaxprTracer SourceInfo ShapedArray".split())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("module", EXTENDING)
def test_calls_of_jax_are_calls_here(module: str) -> None:
    """Functions and classes have JAX's parameters: ours may have defaults where JAX has none, and
    more parameters that have some."""
    ours, theirs = (importlib.import_module(f"{root}.{module}") for root in ("pullback", "jax"))
    for name in {n for n in dir(theirs) if not n.startswith("_")} - MADE_BY_TRACING - OF_XLA:
        value = getattr(theirs, name)
        if not (
            inspect.isfunction(value) or (inspect.isclass(value) and value.__module__[0] == "j")
        ):
            continue
        have = {p[0]: p for p in parameters(getattr(ours, name)) or ()}
        for wanted in parameters(value) or ():
            if wanted[0] in ("args", "kwargs"):
                continue
            assert wanted[0] in have, (name, wanted)
            _, kind, default = have.pop(wanted[0])
            assert kind == wanted[1], (name, wanted)
            assert default == wanted[2] or wanted[2] == "_empty", (name, wanted, default)
        more = [p for p in have.values() if p[2] == "_empty" and "VAR" not in p[1]]
        assert not more, (name, more)


@pytest.mark.parametrize("module", ["numpy", "lax", "nn", "random"])
def test_plain_functions(module: str) -> None:
    """`inspect.isfunction` says what it says of JAX's: libraries look for functions by it. Aliases
    that are one object here (`degrees` is `rad2deg`) are what JAX's first is."""
    ours, theirs = (importlib.import_module(f"{root}.{module}") for root in ("pullback", "jax"))
    names = [n for n in dir(theirs) if not n.startswith("_") and hasattr(ours, n)]
    names = [n for n in names if isinstance(getattr(ours, n), pb.stages.Wrapped)]
    wrong = [
        n
        for n in names
        if inspect.isfunction(getattr(ours, n)) != inspect.isfunction(getattr(theirs, n))
    ]
    assert len(names) > 10 and set(wrong) <= {"degrees", "radians"}
    for n in names:
        f: Any = getattr(ours, n)
        if inspect.isfunction(f):  # pickled by name
            assert getattr(importlib.import_module(f.__module__), f.__qualname__) is f


# Modules all of whose names are there.
WHOLE = (
    "core extend.core extend.backend extend.linear_util extend.random extend.source_info_util "
    "interpreters.ad interpreters.batching interpreters.partial_eval interpreters.xla api_util ad"
).split()


@pytest.mark.parametrize("module", WHOLE)
def test_names(module: str) -> None:
    ours = importlib.import_module(f"pullback.{module}")
    theirs = jax.ad if module == "ad" else importlib.import_module(f"jax.{module}")
    names = [n for n, v in vars(theirs).items() if not n.startswith("_")]
    names = [n for n in names if not inspect.ismodule(getattr(theirs, n)) or n == "primitives"]
    missing = [n for n in names if not hasattr(ours, n) and n not in OF_XLA]
    assert not missing


@pytest.mark.parametrize("name", ["Index", "_UNSPECIFIED", "array_mapping_to_axis_resources"])
def test_names_that_jax_deprecates(name: str) -> None:
    pxla = importlib.import_module("pullback.interpreters.pxla")
    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated"):
        assert getattr(pxla, name) is not None
    with pytest.raises(AttributeError, match="was removed in JAX"):
        pxla.ShardingSpec  # noqa: B018


def test_axes_by_mesh_axis() -> None:
    found = []
    for root in ("pullback", "jax"):
        pxla = importlib.import_module(f"{root}.interpreters.pxla")
        with pytest.warns(DeprecationWarning):
            f = pxla.array_mapping_to_axis_resources
        cases = ({}, {"a": 1}, {"x": 0, "y": 0, "z": 2})
        found.append([tuple(f(OrderedDict(case))) for case in cases])
    assert found[0] == found[1]


@pytest.mark.parametrize("named", [False, True])
def test_calls_are_lowered_to_what_they_call(named: bool) -> None:
    """`mlir.core_call_lowering` as the rule of a primitive that holds a program."""
    call_p = core.Primitive("call_of_a_test")
    call_p.multiple_results = True
    call_p.def_abstract_eval(lambda *avals, call_jaxpr: call_jaxpr.out_avals)
    rule = functools.partial(mlir.core_call_lowering, name="it") if named else None
    mlir.register_lowering(call_p, rule or mlir.core_call_lowering)
    program = pb.make_jaxpr(lambda x: [jnp.sin(x) * 2])(1.0)

    def f(x: Any) -> Any:
        return call_p.bind(x, call_jaxpr=program)[0] + 1

    np.testing.assert_allclose(pb.jit(f)(0.5), np.sin(0.5) * 2 + 1, rtol=1e-6)
    np.testing.assert_allclose(f(0.5), np.sin(0.5) * 2 + 1, rtol=1e-6)


def test_every_primitive_has_its_name() -> None:
    missing = [n for n in vars(jprimitives) if n.endswith("_p") and not hasattr(primitives, n)]
    assert not missing


# --- ragged_all_to_all, psend and precv ---
def _ragged(seed: int) -> tuple[Any, ...]:
    """Random slices with gaps between them, and what each instance gets."""
    rng = np.random.default_rng(seed)
    n, each, length, room = 3, 2, 12, 40
    sizes = rng.integers(0, 3, (n, n * each)).astype(np.int32)
    starts = (np.cumsum(sizes, 1) - sizes).astype(np.int32)
    lands, received = np.zeros_like(sizes), np.zeros_like(sizes)
    operand = rng.normal(size=(n, length, 2)).astype(np.float32)
    output = rng.normal(size=(n, room, 2)).astype(np.float32)
    want = output.copy()
    for r in range(n):
        at = 0
        for p in range(n):
            for j in range(each):
                i, size = r * each + j, sizes[p, r * each + j]
                lands[p, i], received[r, p * each + j] = at, size
                want[r, at : at + size] = operand[p, starts[p, i] : starts[p, i] + size]
                at += size + 1
    return (operand, output, starts, sizes, lands, received), want


def test_ragged_all_to_all() -> None:
    def exchange(*args: Any) -> Any:
        return lax.ragged_all_to_all(*args, axis_name="i")

    f = pb.vmap(exchange, axis_name="i")
    args, want = _ragged(0)
    np.testing.assert_array_equal(pb.jit(f)(*args), want)
    # Another batch axis, outside and inside of the named one.
    many = [np.stack([a, b]) for a, b in zip(args, _ragged(1)[0], strict=True)]
    both = np.stack([want, _ragged(1)[1]])
    np.testing.assert_array_equal(pb.vmap(f)(*many), both)
    swapped = [np.swapaxes(a, 0, 1) for a in many]
    inner = pb.vmap(pb.vmap(exchange, axis_name="j"), axis_name="i")(*swapped)
    np.testing.assert_array_equal(np.swapaxes(inner, 0, 1), both)
    # Its transpose is its adjoint.
    rng = np.random.default_rng(2)
    dots = [rng.normal(size=a.shape).astype(np.float32) for a in args[:2]]
    _, dot = pb.jvp(lambda x, y: f(x, y, *args[2:]), args[:2], tuple(dots))
    ct = rng.normal(size=want.shape).astype(np.float32)
    back = pb.vjp(lambda x, y: f(x, y, *args[2:]), *args[:2])[1](jnp.array(ct))
    one, other = np.vdot(dot, ct), sum(np.vdot(a, b) for a, b in zip(back, dots, strict=True))
    np.testing.assert_allclose(one, other, rtol=1e-4)


def test_ragged_all_to_all_is_jaxs() -> None:
    args = [a[0] for a in _ragged(0)[0]]

    def shown(m: Any, library: Any) -> str:
        f = lambda *xs: library.ragged_all_to_all(*xs, axis_name="i")
        return str(m.make_jaxpr(f, axis_env=[("i", 3)])(*args))

    assert shown(pb, lax) == shown(jax, jlax)
    with pytest.raises(ValueError, match="send_sizes must be integer type"):
        pb.make_jaxpr(lambda *xs: lax.ragged_all_to_all(*xs, axis_name="i"), axis_env=[("i", 3)])(
            *args[:3], np.zeros(6), *args[4:]
        )


def test_sends_and_receipts() -> None:
    pairs = [(0, 1), (1, 2), (2, 0)]

    def f(x: Any) -> Any:
        token = lax.psend(x, "i", pairs)
        return lax.precv(token, pb.ShapeDtypeStruct((2,), np.float32), "i", pairs)

    x = jnp.arange(6.0).reshape(3, 2)
    want = [[4, 5], [0, 1], [2, 3]]
    np.testing.assert_array_equal(pb.vmap(f, axis_name="i")(x), want)
    np.testing.assert_array_equal(pb.jit(pb.vmap(pb.jit(f), axis_name="i"))(x), want)
    with pytest.raises(ValueError, match="no psend over the same axis made"):
        pb.vmap(
            lambda x: lax.precv(lax.create_token(), pb.ShapeDtypeStruct((), x.dtype), "i", pairs),
            axis_name="i",
        )(x[:, 0])
    with pytest.raises(ValueError, match="what was sent is float32"):
        pb.vmap(
            lambda x: lax.precv(
                lax.psend(x, "i", pairs), pb.ShapeDtypeStruct((3,), x.dtype), "i", pairs
            ),
            axis_name="i",
        )(x)


# --- select_and_scatter ---
@pytest.mark.parametrize("combine", ["sum", "other"])
def test_select_and_scatter(combine: str) -> None:
    rng = np.random.default_rng(0)
    operand = rng.integers(0, 4, (6, 5)).astype(np.float32)  # with ties
    source = rng.normal(size=(3, 5)).astype(np.float32)
    window = {
        "window_dimensions": (3, 2),
        "window_strides": (2, 1),
        "padding": ((1, 1), (0, 1)),
    }

    def run(m: Any, p: Any) -> Any:
        keep = m.make_jaxpr(lambda a, b: a >= b if combine == "sum" else a < b)(1.0, 1.0)
        add = m.make_jaxpr(lambda a, b: a + b if combine == "sum" else 2 * a - b)(1.0, 1.0)
        return lambda x, s: p.bind(
            x, s, np.float32(0.5), select_jaxpr=keep.jaxpr, select_consts=(),
            scatter_jaxpr=add.jaxpr, scatter_consts=(), **window,
        )  # fmt: skip

    ours = run(pb, primitives.select_and_scatter_p)
    want = jax.jit(run(jax, jprimitives.select_and_scatter_p))(operand, source)
    np.testing.assert_allclose(pb.jit(ours)(operand, source), want, rtol=1e-6)
    np.testing.assert_allclose(ours(operand, source), want, rtol=1e-6)
    batch = pb.vmap(ours)(np.stack([operand, operand[::-1]]), np.stack([source, source]))
    np.testing.assert_allclose(batch[0], want, rtol=1e-6)
    _, dot = pb.jvp(lambda s: ours(operand, s), (source,), (source,))
    np.testing.assert_allclose(dot, np.asarray(want) - ours(operand, 0 * source), rtol=1e-5)


# --- forward rules that are skipped where nobody reads their residuals ---
def test_optimize_remat() -> None:
    def build(m: Any, np_: Any) -> Any:
        @m.custom_vjp
        def f(x: Any) -> Any:
            return np_.sin(x) * 2

        f.defvjp(lambda x: (f(x), np_.cos(x)), lambda r, g: (g * r * 2,), optimize_remat=True)
        return f

    ours, theirs = build(pb, jnp), build(jax, jax.numpy)
    stacks = [
        lambda m, f: m.grad(f),
        lambda m, f: lambda x: m.vjp(f, x)[0],
        lambda m, f: lambda x: m.vjp(m.jit(f), x)[0],
        lambda m, f: m.grad(m.checkpoint(lambda x: f(f(x)))),
        lambda m, f: lambda x: m.vmap(lambda y: m.vjp(f, y)[0])(x[None]),
    ]
    at = np.float32(0.7)
    for stack in stacks:
        want = stack(jax, theirs)(at)
        for jit in (lambda g: g, pb.jit):
            np.testing.assert_allclose(jit(stack(pb, ours))(at), want, rtol=1e-6)
    # Second derivatives, where JAX has none.
    second = pb.grad(pb.grad(lambda x: ours(x) * x))(0.7)
    np.testing.assert_allclose(second, 4 * np.cos(0.7) - 1.4 * np.sin(0.7), rtol=1e-5)
    # Unused residuals: the rule is gone from the program.
    program = pb.make_jaxpr(lambda x: pb.vjp(ours, x)[0])(1.0).jaxpr
    small, _ = partial_eval.dce_jaxpr(program, [True])
    assert "remat_opt" in str(program) and "remat_opt" not in str(small) and "cos" not in str(small)


# --- what else extends the package ---
@pytest.mark.usefixtures("few_objects")
def test_live_arrays() -> None:
    x, held = jnp.arange(3), {"inner": (jnp.ones(2),)}
    live = pb.live_arrays()
    assert any(y is x for y in live) and any(y is held["inner"][0] for y in live)
    x.delete()
    assert not any(y is x for y in pb.live_arrays())
    with pytest.raises(RuntimeError, match="Unknown backend"):
        pb.live_arrays("gpu")


@pytest.mark.usefixtures("few_objects")
def test_live_arrays_leave_nothing_for_the_next_call() -> None:
    """Its own frame held the lists of a call, which the next call walked through."""
    gc.disable()
    try:
        pb.live_arrays()
        frames = [x for x in gc.get_objects() if type(x) is FrameType]
    finally:
        gc.enable()
    assert not any(f.f_code.co_name in ("live_arrays", "_locals") for f in frames)


def test_cotangents_into_references() -> None:
    def program(m: Any, np_: Any) -> list[Any]:
        total = m.new_ref(np_.ones(3))
        _, f_vjp = m.vjp(lambda x, y: np_.sin(x) * y, np_.ones(3), np_.full(3, 2.0))
        first = f_vjp.with_refs(total, m.ad.DontWant())(np_.ones(3))
        second = f_vjp.with_refs(total, m.ad.GradValue())(np_.ones(3))
        return [repr(first), repr(second[0]), second[1], total[...]]

    for a, b in zip(program(pb, jnp), program(jax, jax.numpy), strict=True):
        assert a == b if isinstance(a, str) else np.allclose(a, b)
    _, f_vjp = pb.vjp(lambda d: d["x"], {"x": 1.0})
    with pytest.raises(ValueError, match="Fix: give a reference"):
        f_vjp.with_refs(pb.ad.DontWant())
    with pytest.raises(TypeError, match="leaf 0 is 3"):
        f_vjp.with_refs({"x": 3.0})


def test_calls_and_checks_of_equations() -> None:
    core = pb.core  # type: ignore[attr-defined]
    assert float(core.call(lambda x: [x + 1], 1.0)[0]) == 2.0
    shown = str(pb.make_jaxpr(lambda x: core.call(lambda y: [y * x], 3.0))(2.0))
    assert "call[" in shown
    jaxpr = pb.make_jaxpr(jnp.sin)(1.0).jaxpr
    seen = []

    def typecheck(context: Any, x: Any, **params: Any) -> Any:
        seen.append(x)
        return core.ShapedArray((7,), x.aval.dtype), frozenset()

    core.custom_typechecks[lax.sin_p] = typecheck
    try:
        with pytest.raises(core.JaxprTypeError, match=r"typed as f32\[7\]"):
            core.check_jaxpr(jaxpr)
    finally:
        del core.custom_typechecks[lax.sin_p]
    core.check_jaxpr(jaxpr)
    assert seen == jaxpr.invars
    with pytest.raises(AttributeError):
        core.no_such_name  # noqa: B018


def test_functions_of_flat_functions() -> None:
    outs, dots = ad.jvp(lambda x: [x * 2, x * x], (3.0,), (1.0,))
    assert [float(v) for v in (*outs, *dots)] == [6, 9, 2, 6]
    outs, types, program, consts = ad.linearize(lambda x: [x * 2, x * x], (3.0,))
    got = pb.core.eval_jaxpr(program, consts, 1.0)  # type: ignore[attr-defined]
    assert [float(v) for v in got] == [2, 6] and len(types) == 2
    np.testing.assert_array_equal(batching.broadcast(jnp.ones(2), 3, 1, None), np.ones((2, 3)))
    x = jnp.ones(3)
    program = pb.make_jaxpr(lambda y: (x * 2, y * 3))(2.0).jaxpr
    small, consts, args = partial_eval.dce_jaxpr_consts(program, [False, True])
    assert (consts, args, len(small.eqns)) == ([False], [True], 1)


def test_names_of_sources() -> None:
    stack = source_info_util.new_name_stack("a").extend("b").transform("vmap")
    assert str(stack) == "a/b/vmap()" and len(stack) == 3

    def f(x: Any) -> Any:
        with source_info_util.set_name_stack(stack):
            y = jnp.sin(x)
        with source_info_util.reset_name_stack():
            return jnp.cos(y)

    with pb.named_scope("outer"):
        eqns = pb.make_jaxpr(f)(1.0).eqns
    assert [str(e.source_info.name_stack) for e in eqns] == ["a/b/vmap()", ""]
    assert "test_lax_names.py" in source_info_util.summarize(eqns[0].source_info)


def test_constraints_stand_in_programs() -> None:
    def program(m: Any) -> Any:
        mesh = m.make_mesh((1,), ("i",), axis_types=(m.sharding.AxisType.Auto,))
        wish = m.sharding.NamedSharding(mesh, m.sharding.PartitionSpec("i"))
        return m.make_jaxpr(lambda x: m.lax.with_sharding_constraint(x, wish))(np.ones(2))

    ours, theirs = program(pb).eqns, program(jax).eqns
    assert [str(e.primitive) for e in ours] == [str(e.primitive) for e in theirs]
    assert list(ours[0].params) == list(theirs[0].params) or set(ours[0].params) == set(
        theirs[0].params
    )
    mesh = pb.make_mesh((1,), ("i",), axis_types=(pb.sharding.AxisType.Auto,))
    wish = pb.sharding.NamedSharding(mesh, pb.sharding.PartitionSpec("i"))

    def loss(x: Any) -> Any:
        return (lax.with_sharding_constraint(x, wish) ** 2).sum()

    np.testing.assert_array_equal(pb.jit(pb.grad(loss))(np.ones(2, "f")), [2, 2])
    batched = pb.make_jaxpr(pb.vmap(lambda x: lax.with_sharding_constraint(x, wish)))(
        np.ones((3, 2))
    )
    assert "P(UNCONSTRAINED, 'i')" in str(batched)


@pytest.mark.parametrize("x,y", [("bfloat16", "bfloat16"), ("int8", "int8"), ("float32", "int8")])
def test_products_of_converted_operands(x: str, y: str) -> None:
    a = np.array([100, 3, -7])
    out = "int32" if x == "int8" else "float32"

    def program(m: Any, np_: Any) -> list[Any]:
        u, v = np_.asarray(a, x), np_.asarray(a[::-1], y)
        f = lambda p, q: m.lax.mul(p, q, out_dtype=out)
        results = [f(u, v), m.vmap(lambda p: f(p, v[0]))(u)]
        if x == "bfloat16":
            results += [m.grad(lambda p: f(p, v).sum())(u), m.jvp(lambda p: f(p, v), (u,), (u,))[1]]
        return results

    for got, want in zip(program(pb, jnp), program(jax, jax.numpy), strict=True):
        assert got.dtype == want.dtype and got.weak_type == want.weak_type
        np.testing.assert_array_equal(np.asarray(got, "f"), np.asarray(want, "f"))


def test_operand_by_name() -> None:
    for m in (jax, pb):
        assert float(m.lax.cond(True, lambda x: x, lambda x: x + 1, operand=3.0)) == 3
        assert m.lax.cond(True, lambda x: x, lambda x: x, operand=None) is None
        assert float(m.lax.switch(1, [lambda x: x, lambda x: x + 1], operand=3.0)) == 4
        for bad in (
            lambda m=m: m.lax.cond(True, lambda x: x, lambda x: x, 1.0, operand=3.0),
            lambda m=m: m.lax.switch(1, [lambda x: x], 1.0, operand=3.0),
            lambda m=m: m.lax.cond(True, lambda x: x, lambda x: x, other=3.0),
            lambda m=m: m.checkpoint(prevent_cse=False),
        ):
            with pytest.raises(TypeError):
                bad()
        with pytest.raises(NotImplementedError):
            m.checkpoint(lambda x: x, concrete=True)(1.0)
    static = pb.checkpoint(lambda x, flag: x * 2 if flag else x, static_argnames="flag")
    assert float(pb.grad(static)(1.0, flag=True)) == 2.0


# Over two axes at once: with JAX, or where it refuses, with NumPy. Instance (i, j) is 3 * i + j.
_WHOLE = np.arange(2 * 3 * 12 * 2, dtype=np.float32).reshape(2, 3, 12, 2)
TWO_AXES: dict[str, Any] = {
    "all_to_all": lambda m: lambda y: m.all_to_all(y[:6], ("i", "j"), 0, 1),
    "all_to_all tiled": lambda m: lambda y: m.all_to_all(y, ("i", "j"), 0, 1, tiled=True),
    "all_to_all along one": lambda m: lambda y: m.all_to_all(y, ("i", "j"), 0, 0, tiled=True),
    "all_to_all back": lambda m: lambda y: m.all_to_all(y.T, ("i", "j"), 1, 0, tiled=True),
    "axis_index": lambda m: lambda y: y[0] * m.axis_index(("i", "j")),
}
_FLAT = _WHOLE.reshape(6, 12, 2)
BY_NUMPY: dict[str, Any] = {
    "all_gather": (lambda y: lax.all_gather(y, ("i", "j")), np.stack([_FLAT] * 6)),
    "all_gather tiled": (
        lambda y: lax.all_gather(y, ("i", "j"), axis=1, tiled=True),
        np.stack([np.concatenate(list(_FLAT), 1)] * 6),
    ),
    "psum_scatter": (lambda y: lax.psum_scatter(y[:6], ("i", "j")), _FLAT[:, :6].sum(0)),
    "psum_scatter tiled": (
        lambda y: lax.psum_scatter(y, ("i", "j"), tiled=True),
        _FLAT.sum(0).reshape(6, 2, 2),
    ),
    "ppermute": (
        lambda y: lax.ppermute(y, ("i", "j"), [(0, 5), (1, 2), (2, 1), (5, 3)]),
        np.stack([0 * _FLAT[0], _FLAT[2], _FLAT[1], _FLAT[5], 0 * _FLAT[0], _FLAT[0]]),
    ),
    "pbroadcast": (lambda y: lax.pbroadcast(y, ("i", "j"), 4), np.stack([_FLAT[4]] * 6)),
}


@pytest.mark.parametrize("outer", "ij")
@pytest.mark.parametrize("name", [*TWO_AXES, *BY_NUMPY])
def test_exchanges_over_two_mapped_axes(name: str, outer: str) -> None:
    inner = "j" if outer == "i" else "i"
    x = _WHOLE if outer == "i" else _WHOLE.swapaxes(0, 1)

    def run(m: Any, f: Any) -> Any:
        each = m.vmap(m.vmap(f, axis_name=inner), axis_name=outer)
        back = m.vjp(each, x)[1]
        found = np.asarray(each(x))
        return found, np.asarray(
            back(np.cos(np.arange(found.size, dtype=np.float32)).reshape(found.shape))[0]
        )

    if name in TWO_AXES:
        ours, theirs = run(pb, TWO_AXES[name](lax)), run(jax, TWO_AXES[name](jlax))
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5, atol=1e-5)
        return
    found, slope = run(pb, BY_NUMPY[name][0])
    found = found if outer == "i" else found.swapaxes(0, 1)
    np.testing.assert_array_equal(found.reshape(6, *found.shape[2:]), BY_NUMPY[name][1])
    assert slope.shape == x.shape and np.isfinite(slope).all()


def test_objects_that_tracing_makes_are_made_as_jax_makes_them() -> None:
    """Libraries derive their own kinds of traced values, and write programs by hand."""

    class Noted(pb.core.Tracer):
        def __init__(self, trace: Any, aval: Any, note: str) -> None:
            super().__init__(trace, aval)
            self.note = note

    aval = pb.typeof(1.0)
    noted = Noted(core.current_trace(), aval, "mine")
    assert noted.aval is aval and noted.shape == () and noted.note == "mine"
    x = core.Var(aval, initial_qdd="begun", final_qdd=None)
    assert x.initial_qdd == "begun"
    info = source_info_util.current()
    eqn = core.JaxprEqn(
        invars=[x], outvars=[core.Var(aval)], primitive=lax.neg_p, params={}, effs=set(),
        source_info=info, ctx=None,
    )  # fmt: skip
    assert eqn.effects == set() and eqn.replace(effects={1}).effects == {1}
    assert eqn.replace(params={"a": 1}).params == {"a": 1}
    assert ad.JVPTrace(core.current_trace(), "mine").tag == "mine"
    twice = WrappedFun(lambda x: x, lambda x: 2 * x, (), (), (), None, None)
    outer = twice.wrap(lambda f, x: f(x) + 1)
    assert outer.call_wrapped(3) == 7 and outer.f is twice.f and len(outer.transforms) == 1
    with_keyword = WrappedFun(lambda x, y: x - y, params=(("y", 2),))
    assert with_keyword.wrap(lambda f, x: f(10 * x)).call_wrapped(1) == 8
