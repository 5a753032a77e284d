"""Programs as StableHLO: the text is JAX's, and libraries' rules are told what JAX tells them."""

from __future__ import annotations

import importlib
import itertools
import re
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import oracle_flags  # noqa: F401
import pytest

# isort: split
import jax.numpy

import pullback as pb
import pullback.numpy
from pullback.backends.xla.client import XlaExecutable

X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
TEXTS: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []


def text(fun: str, **options: Any) -> None:
    TEXTS.append((fun, eval(f"lambda jax, jnp, x, y: {fun}"), options))


text("jnp.sin(x) @ x.T + x.sum()")
text("(x, {'a': x * 2})")
text("x * 2")  # y is left out
text("x * 2", keep_unused=True)
text("x + y", donate_argnums=(0,))
text("jax.lax.while_loop(lambda c: c.sum() < 10, lambda c: c * 2, x)")
text("jax.lax.cond(x[0, 0] > 0, lambda x: x * 2, lambda x: x + 1, x)")
text("jax.lax.switch(x[0, 0].astype(int), [jnp.sin, jnp.cos, lambda x: x], x)")
text("jax.nn.softmax(x)")
text("jax.grad(lambda x: jnp.tanh(x @ x.T).sum())(x)")
text("jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.cos(x)))(x).sum())(x)")
text("jnp.sort(x)")
text("x[jnp.array([0, 2])]")
text("x.at[0].set(1.0)")
text("x.at[jnp.array([0, 5])].add(1.0, mode='drop')")
text("jax.vmap(lambda r: jnp.where(r > 0, r, 0.0))(x)")
text("jax.lax.conv(x[None, None], y[None, None], (1, 1), 'SAME')")
text("jax.lax.conv((x * 1j)[None, None], (y + 1j)[None, None], (1, 1), 'SAME')")
text("jnp.fft.rfft(x)")
text("jax.lax.top_k(x, 2)")
text("jnp.pad(x, 1)")
text("x.astype('bfloat16') ** 3")
text("jax.lax.dot(x, y.T, precision='highest')")
text("jax.lax.reduce(x, 0.0, lambda a, b: a + b * 2, (0,))")
text("(jnp.zeros((2, 0)), jnp.arange(3), jnp.eye(2, dtype=bool))")
text("jax.lax.associative_scan(jnp.add, x)")


@pytest.mark.parametrize("k", range(len(TEXTS)), ids=[t[0] for t in TEXTS])
def test_text_is_jaxs(k: int) -> None:
    _, f, options = TEXTS[k]
    want = jax.jit(lambda x, y: f(jax, jax.numpy, x, y), **options).lower(X, X).as_text()
    ours = pb.jit(lambda x, y: f(pb, pb.numpy, x, y), **options).lower(X, X)
    assert ours.as_text() == want


def test_dialects() -> None:
    lowered = pb.jit(lambda x: x + 1).lower(X)
    assert lowered.as_text("hlo").startswith("HloModule jit__lambda")
    assert type(lowered.compiler_ir("hlo")).__name__ == "XlaComputation"
    assert type(lowered.compiler_ir("stablehlo")).__name__ == "Module"
    assert "test_stablehlo.py" in lowered.as_text("stablehlo", debug_info=True)
    for ask in (lowered.as_text, lowered.compiler_ir):
        with pytest.raises(ValueError, match="unknown dialect: foo"):
            ask("foo")


def test_symbolic_sizes_are_refused() -> None:
    from pullback.backends.xla.client import lower
    from pullback.export import symbolic_shape

    rows = pb.ShapeDtypeStruct(symbolic_shape("n, 4"), "float32")
    closed = pb.make_jaxpr(lambda x: x + 1)(rows)
    with pytest.raises(TypeError, match="over symbolic sizes are not lowered"):
        lower(closed)


def test_donation_that_helps_nobody_warns() -> None:
    f = pb.jit(lambda x: x.sum(), donate_argnums=0)
    with pytest.warns(UserWarning, match=r"Some donated buffers were not usable: float32\[3,4\]"):
        lowered = f.lower(X)
    assert "tf.aliasing_output" not in lowered.as_text("stablehlo")  # said once


def test_shardings() -> None:
    mesh = pb.make_mesh((1,), ("rows",), (pb.sharding.AxisType.Auto,))
    rows = pb.sharding.NamedSharding(mesh, pb.sharding.PartitionSpec("rows"))
    f = pb.jit(lambda x: pb.lax.with_sharding_constraint(x + 1, rows), out_shardings=rows)
    made = f.lower(X).as_text("stablehlo")
    assert 'sdy.mesh @mesh = <["rows"=1]>' in made
    assert 'sdy.sharding_constraint %1 <@mesh, [{"rows"}, {}]>' in made
    np.testing.assert_array_equal(XlaExecutable(pb.make_jaxpr(f)(X))([X])[0], X + 1)


# --- libraries' rules ---
_numbers = itertools.count()


def library(jax: Any) -> dict[str, Any]:
    """The modules that libraries import."""
    root = jax.__name__
    names = "interpreters.mlir extend.core"
    found = {n.split(".")[-1]: importlib.import_module(f"{root}.{n}") for n in names.split()}
    return {**found, "jax": jax, "np": np}


def seen_by_rule(jax: Any) -> list[Any]:
    """What a rule of a library's is told, and what it can make of it."""
    with_ = library(jax)
    mlir, seen = with_["mlir"], list[Any]()
    hlo = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    scaled_p = with_["core"].Primitive(f"scaled{next(_numbers)}")
    scaled_p.def_abstract_eval(lambda x, *, by: x)

    def rule(ctx: Any, x: Any, *, by: float) -> Any:
        (aval,) = ctx.avals_in
        assert ctx.avals_out == [aval] or tuple(ctx.avals_out) == (aval,)
        module = ctx.module_context
        seen.extend(
            [str(aval), by, module.platforms, type(module).__name__, len(ctx.tokens_in.items())]
        )
        seen.append(str(mlir.aval_to_ir_type(module, aval)))
        factor = mlir.ir_constant(np.float32(by))
        shape = mlir.dense_int_array([])
        wide = hlo.broadcast_in_dim(mlir.aval_to_ir_type(module, aval), factor, shape)
        return [hlo.multiply(x, wide)]

    mlir.register_lowering(scaled_p, rule)
    f = jax.jit(lambda x: scaled_p.bind(x, by=3.0) + 1)
    seen.append(f.lower(X).as_text())
    return seen


def test_rules_are_told_the_same() -> None:
    assert seen_by_rule(pb) == seen_by_rule(jax)


def primitive(name: str = "own") -> Any:
    p = library(pb)["core"].Primitive(f"{name}{next(_numbers)}")
    p.def_abstract_eval(lambda x, **_: x)
    return p


def lowered(p: Any) -> str:
    return pb.jit(p.bind).lower(1.0).as_text("stablehlo")  # type: ignore[no-any-return]


def test_a_rule_for_a_platform_goes_first() -> None:
    mlir, p = library(pb)["mlir"], primitive()
    mlir.register_lowering(p, lambda ctx, x: [mlir.hlo.negate(x)])
    mlir.register_lowering(p, lambda ctx, x: [mlir.hlo.abs(x)], platform="cpu")
    mlir.register_lowering(p, lambda ctx, x: [mlir.hlo.sqrt(x)], platform="tpu")
    assert "abs" in lowered(p)


def test_rules_may_give_operations() -> None:
    mlir = library(pb)["mlir"]
    for give in (
        lambda op: op,
        lambda op: op.results,
        lambda op: op.result,
        lambda op: (op.result,),
    ):
        p = primitive()
        mlir.register_lowering(p, lambda ctx, x, give=give: give(mlir.hlo.NegOp(x)))
        assert "negate" in lowered(p)


def test_rules_apart_are_functions_of_the_module() -> None:
    mlir, p = library(pb)["mlir"], primitive("apart")
    mlir.register_lowering(p, lambda ctx, x, **_: [mlir.hlo.negate(x)], inline=False)
    f = pb.jit(lambda x: p.bind(p.bind(x, k=1), k=1) + p.bind(x, k=2))
    made = f.lower(1.0).as_text("stablehlo")
    assert made.count("stablehlo.negate") == 2 and made.count(f"call @{p.name}") == 3


def test_raw_rules_serve_native_programs() -> None:
    """Without another implementation, XLA computes the operation between native kernels."""
    mlir, p = library(pb)["mlir"], primitive("raw")
    mlir.register_lowering(p, lambda ctx, x: [mlir.hlo.multiply(x, mlir.hlo.sine(x))])
    f = pb.jit(lambda x: pb.lax.fori_loop(0, 3, lambda i, c: p.bind(c) + 1, x))
    want = pb.jit(lambda x: pb.lax.fori_loop(0, 3, lambda i, c: c * pb.numpy.sin(c) + 1, x))(X)
    np.testing.assert_allclose(f(X), want, rtol=1e-5)
    assert isinstance(p.bind(X), pb.Array)
    mlir.register_lowering(p, lambda ctx, x: [mlir.hlo.negate(x)])
    np.testing.assert_array_equal(p.bind(X), -X)
    q = primitive("elsewhere")
    mlir.register_lowering(q, lambda ctx, x: [x], platform="tpu")
    with pytest.raises(NotImplementedError, match="def_impl"):
        pb.jit(q.bind)(X)


def test_rules_that_are_functions() -> None:
    mlir, p = library(pb)["mlir"], primitive()
    inner = mlir.lower_fun(lambda x, k: pb.numpy.sin(x) * k, multiple_results=False)

    def rule(ctx: Any, x: Any) -> Any:
        return inner(ctx, x, k=2.0)

    mlir.register_lowering(p, rule)
    assert "stablehlo.sine" in lowered(p) and "stablehlo.multiply" in lowered(p)
    q = primitive()
    mlir.register_lowering(q, mlir.lower_fun(lambda x: [pb.numpy.cos(x)], multiple_results=True))
    assert "stablehlo.cosine" in lowered(q)


def test_overridden_rules() -> None:
    mlir = library(pb)["mlir"]
    closed = pb.make_jaxpr(lambda x: pb.lax.neg(x))(1.0)
    parameters = mlir.LoweringParameters(
        override_lowering_rules=((pb.lax.neg_p, lambda ctx, x: [mlir.hlo.abs(x)]),)
    )
    found = mlir.lower_jaxpr_to_module(
        "m", closed, num_const_args=0, in_avals=closed.in_avals, ordered_effects=[],
        platforms=["cpu"], backend=None, axis_context=mlir.ShardingContext(1),
        donated_args=[False], lowering_parameters=parameters,
    )  # fmt: skip
    assert "stablehlo.abs" in mlir.module_to_string(found.module)


def test_several_platforms() -> None:
    """The program is told where it runs, and branches where the rules differ."""
    mlir, p = library(pb)["mlir"], primitive()
    mlir.register_lowering(p, lambda ctx, x: [mlir.hlo.negate(x)], platform="cpu")
    mlir.register_lowering(p, lambda ctx, x: [mlir.hlo.abs(x)], platform="tpu")
    closed = pb.make_jaxpr(lambda x: p.bind(x) + 1)(1.0)
    found = mlir.lower_jaxpr_to_module(
        "m", closed, num_const_args=0, in_avals=closed.in_avals, ordered_effects=[],
        platforms=["cpu", "tpu"], backend=None, axis_context=mlir.ShardingContext(1),
        donated_args=[False], lowering_parameters=mlir.LoweringParameters(),
    )  # fmt: skip
    made = mlir.module_to_string(found.module)
    assert found.shape_poly_state.has_platform_index_argument
    assert "@main(%arg0: tensor<i32>, %arg1: tensor<f32>)" in made
    assert '"stablehlo.case"(%arg0)' in made


def test_ordered_effects_need_tokens() -> None:
    mlir, p = library(pb)["mlir"], primitive()
    (ordered,) = pb.make_jaxpr(lambda x: pb.debug.print("", ordered=True))(1.0).effects
    p.def_effectful_abstract_eval(lambda x: (x, {ordered}))
    mlir.register_lowering(p, lambda ctx, x: [x])
    with pytest.raises(ValueError, match="must give the tokens of its ordered effects"):
        lowered(p)


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (
            None,
            NotImplementedError,
            "MLIR translation rule for primitive .* not found for platform",
        ),
        (lambda ctx, x: (x, x), ValueError, "gave 2 values, but the primitive has 1 result"),
        (lambda ctx, x: [3.0], ValueError, "gave 3.0, which is no value of MLIR"),
        (lambda ctx, x: None, ValueError, "gave None"),
    ],
)
def test_bad_rules(rule: Any, error: Any, message: str) -> None:
    p = primitive("bad")
    if rule is not None:
        library(pb)["mlir"].register_lowering(p, rule)
    with pytest.raises(error, match=message):
        lowered(p)


def test_results_of_another_type_are_refused() -> None:
    mlir, p = library(pb)["mlir"], primitive()
    mlir.register_lowering(p, lambda ctx, x: [mlir.ir_constant(np.int32(1))])
    with pytest.raises(ValueError, match="Cannot lower jaxpr with verifier errors"):
        lowered(p)


def test_attributes_are_jaxs() -> None:
    values = (
        1, 1.5, True, "text", (1, 2), {"a": 1, "b": [2.0]}, np.int32(3), np.float32(2),
        np.dtype("float32"), np.arange(3), np.ones((2, 2), np.float32), b"bytes",
    )  # fmt: skip
    ours, theirs = (library(m)["mlir"] for m in (pb, jax))
    with theirs.make_ir_context(), theirs.ir.Location.unknown():
        for v in values:
            assert str(ours.ir_attribute(v)) == str(theirs.ir_attribute(v)), v
        for bad in (None, object(), 1 + 2j):
            for mlir in (ours, theirs):
                with pytest.raises(TypeError):
                    mlir.ir_attribute(bad)
        for name in ("int4", "uint2", "bfloat16", "float8_e5m2", "complex128", "bool", "uint64"):
            dtype = jax.numpy.dtype(name)
            assert ours.dtype_to_ir_type(dtype) == theirs.dtype_to_ir_type(dtype)


def test_constants_are_jaxs() -> None:
    values = (
        np.arange(3), np.ones((2, 2), bool), np.broadcast_to(np.float32(3), (4, 5)),
        np.zeros((0, 3), np.float32), np.ones(2, jax.numpy.bfloat16), np.complex64(1 + 2j),
        np.asarray([1, -2]).astype(jax.numpy.int4), np.broadcast_to(np.arange(3), (2, 3)),
    )  # fmt: skip

    def module(mlir: Any) -> str:
        ir = mlir.ir
        with mlir.make_ir_context(), ir.Location.unknown():
            made = ir.Module.create()
            with ir.InsertionPoint(made.body):
                for v in values:
                    mlir.ir_constant(v)
            return str(made)

    assert module(library(pb)["mlir"]) == module(library(jax)["mlir"])


def test_own_types_of_constants() -> None:
    mlir = library(pb)["mlir"]

    class Feet:
        def __init__(self, n: float) -> None:
            self.n = n

    with mlir.make_ir_context(), mlir.ir.Location.unknown():
        with mlir.ir.InsertionPoint(mlir.ir.Module.create().body):
            with pytest.raises(TypeError, match="No constant handler for type"):
                mlir.ir_constant(Feet(1))
            mlir.register_constant_handler(
                Feet, lambda v, aval: mlir.ir_constant(np.float32(v.n / 3.28))
            )
            assert str(mlir.ir_constant(Feet(3.28)).type) == "tensor<f32>"


def test_modules_merge() -> None:
    mlir = library(pb)["mlir"]
    module = pb.jit(lambda x: pb.jit(pb.numpy.sin)(x) + 1).lower(1.0).compiler_ir("stablehlo")
    with module.context:
        other = mlir.ir.Module.parse(str(module))
    assert mlir.merge_mlir_modules(other, "main", module) == "main_0"
    other.operation.verify()
    assert str(other).count("stablehlo.add") == 2


def test_tiles_are_jaxs() -> None:
    from jaxlib._hlo import HloSharding, OpSharding

    replicated = [OpSharding.Type.REPLICATED]
    tiles = (
        HloSharding.replicate(), HloSharding.iota_tile((2, 2)), HloSharding.iota_tile((4, 1)),
        HloSharding.iota_tile((2, 1, 2), subgroup_types=replicated),
        HloSharding.iota_tile((2, 2), reshape_dims=(2, 2), transpose_perm=(1, 0)),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (
            importlib.import_module(f"{m}.interpreters.pxla") for m in ("pullback", "jax")
        )
        for a in tiles:
            cuts = [m.op_sharding_to_indices(a, (4, 8), 4) for m in (ours, theirs)]
            assert cuts[0] == cuts[1]
            for b in tiles:
                equal = [m.are_hlo_shardings_equal(a, b) for m in (ours, theirs)]
                assert equal[0] == equal[1]


def test_mesh_computations() -> None:
    from pullback.interpreters import pxla

    lowered = pb.jit(lambda x, y: (x + 1, y * 2)).lower(X, np.arange(3)).compiler_ir("stablehlo")
    with pytest.warns(DeprecationWarning, match="MeshComputation"):
        computation = pxla.MeshComputation("f", lowered, [], [False] * 2, ["cpu"], (), None)
    outs = computation.compile().call(X, np.arange(3))
    np.testing.assert_array_equal(outs[0], X + 1)
    np.testing.assert_array_equal(outs[1], [0, 2, 4])
    with pytest.raises(TypeError, match="takes 2 arguments"):
        computation.compile().call(X)


def test_passes_of_ones_own() -> None:
    from pullback.extend import xla

    seen = list[int]()
    xla.register_hlo_module_transformation(lambda module: seen.append(len(module)), name="look")
    XlaExecutable(pb.make_jaxpr(lambda x: x * 3)(X))([X])
    assert xla.clear_hlo_module_transformation("look") and seen
    assert not xla.clear_hlo_module_transformation("look")
    with pytest.raises(TypeError, match="PipelineStage"):
        xla.clear_hlo_module_transformation("look", stage=0)


# --- other platforms ---
DEVICES: dict[str, Callable[..., Any]] = {
    "cholesky": lambda linalg, x: linalg.cholesky(x, symmetrize_input=False),
    "lu": lambda linalg, x: linalg.lu(x),
    "triangular_solve": lambda linalg, x: linalg.triangular_solve(x, x, left_side=True),
    "qr": lambda linalg, x: linalg.qr(x, full_matrices=False),
    "eigh": lambda linalg, x: linalg.eigh(x, symmetrize_input=False),
    "householder_product": lambda linalg, x: linalg.householder_product(x, x[..., 0]),
}
OWN = ("custom_call", "stablehlo.cholesky", "triangular_solve")


def _svd(shape: tuple[int, ...], algorithm: str | None, **options: Any) -> Callable[..., Any]:
    def call(linalg: Any, x: Any) -> Any:
        wide = jnp_of(linalg).zeros(shape, x.dtype) + x.reshape(-1)[0]
        kind = algorithm and getattr(linalg.SvdAlgorithm, algorithm)
        return linalg.svd(wide, algorithm=kind, **options)

    return call


def jnp_of(linalg: Any) -> Any:
    return pb.numpy if linalg is pb.lax.linalg else jax.numpy


# What CUDA's and ROCm's libraries have, and XLA's compiler for TPUs has not.
GPUS: dict[str, Callable[..., Any]] = {
    "qr pivoting": lambda linalg, x: linalg.qr(x, pivoting=True, full_matrices=False),
    "ormqr": lambda linalg, x: linalg.ormqr(x, x[..., 0], x, left=False, transpose=True),
    "eig": lambda linalg, x: linalg.eig(x),
    "eig complex": lambda linalg, x: linalg.eig(
        x * np.complex64(1j), implementation=linalg.EigImplementation.LAPACK
    ),
    "eigh jacobi": lambda linalg, x: linalg.eigh(
        x, symmetrize_input=False, implementation=linalg.EighImplementation.JACOBI
    ),
    "tridiagonal": lambda linalg, x: linalg.tridiagonal(x),
    "tridiagonal_solve": lambda linalg, x: linalg.tridiagonal_solve(x[0], x[0], x[0], x),
    "tridiagonal_solve perturbed": lambda linalg, x: linalg.tridiagonal_solve(
        x[0], x[0], x[0], x, perturb_singular=True
    ),
    "svd": _svd((2, 4, 3), None),
    "svd wide": _svd((3, 4), "JACOBI", full_matrices=False),
    "svd tall": _svd((40, 36), None, full_matrices=False),
    "svd values": _svd((3, 4), None, compute_uv=False),
    "svd large": _svd((3, 1025), None),
    "svd qr": _svd((2, 4, 3), "QR", full_matrices=False),
    "svd qr wide": _svd((2, 3, 4), "QR"),
    "svd qr values": _svd((2, 3, 4), "QR", compute_uv=False),
    "svd polar": _svd((2, 3, 4), "POLAR", full_matrices=False),
    "svd parts": _svd((2, 3, 4), "DIVIDE_AND_CONQUER"),
}


def _calls(m: Any, fun: Callable[..., Any], shape: tuple[int, ...], platform: str) -> Any:
    """The calls of libraries of a platform in a program of a square matrix, or the error."""
    f = m.jit(lambda x: fun(m.lax.linalg, x))
    traced = f.trace(np.ones(shape, np.float32))
    try:
        made = traced.lower(lowering_platforms=(platform,))
    except NotImplementedError as e:
        return type(e)
    text = made.as_text(*(("stablehlo",) if m is pb else ()))
    lines = [x for x in text.splitlines() if any(k in x for k in OWN)]
    lines = [re.sub(r", sdy.sharding_rule = .*?custom>", "", x.strip()) for x in lines]
    lines = [re.sub(r"%[\w#:]+", "%", x) for x in lines]
    return [x for x in lines if "pivots_to_permutation" not in x]


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("name", DEVICES)
def test_linear_algebra_of_devices(name: str, platform: str) -> None:
    """The calls of their libraries are JAX's; the permutation of `lu` we compute ourselves."""
    fun, shape = DEVICES[name], (5, 3, 3)
    assert _calls(pb, fun, shape, platform) == _calls(jax, fun, shape, platform)


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
@pytest.mark.parametrize("name", GPUS)
def test_linear_algebra_of_gpus(name: str, platform: str) -> None:
    """Decompositions that GPUs' solvers have, sparse solvers and hybrids with the host too."""
    want = _calls(jax, GPUS[name], (3, 3), platform)
    assert want and _calls(pb, GPUS[name], (3, 3), platform) == want


def test_what_stablehlo_has_is_right() -> None:
    """The rules of platforms without a library of ours, compiled for this CPU."""
    from pullback.backends.xla import client, lowering

    a = X[:, :3] @ X[:, :3].T + np.eye(3, dtype=np.float32)

    def f(a: Any) -> Any:
        low = pb.lax.linalg.cholesky(a)
        turned = pb.lax.linalg.triangular_solve(low, a, lower=True, transpose_a=True)
        return low, turned, pb.lax.linalg.triangular_solve(low, a, left_side=True, lower=True)

    closed = pb.make_jaxpr(f)(a)
    lowering.families.load()
    rules = {n: lowering.RULES[n] for n in ("cholesky", "triangular_solve")}
    overrides = tuple((getattr(pb.lax.linalg, f"{n}_p"), r) for n, r in rules.items())
    mlir = library(pb)["mlir"]
    found = mlir.lower_jaxpr_to_module(
        "m", closed, num_const_args=0, in_avals=closed.in_avals, ordered_effects=[],
        platforms=["cpu"], backend=None, axis_context=mlir.ShardingContext(1),
        donated_args=[False],
        lowering_parameters=mlir.LoweringParameters(override_lowering_rules=overrides),
    )  # fmt: skip
    assert "lapack" not in mlir.module_to_string(found.module)
    outs = client.LoadedModule(found.module, closed.out_avals)(a)
    for got, want in zip(outs, pb.jit(f)(a), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
