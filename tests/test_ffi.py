"""Foreign code in programs, beside JAX: what is written, what is refused, and that it runs."""

from __future__ import annotations

import ctypes
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
from pullback import ffi

X = 4 * np.eye(3, dtype=np.float32) + 0.5
LOWER = np.uint8(ord("L"))
BOTH = (jax, pb)


@pytest.fixture(scope="module", autouse=True)
def _lapack() -> None:
    """JAX finds LAPACK when something of its own needs it."""
    jax.numpy.linalg.cholesky(np.eye(2)).block_until_ready()


def shape(module: Any, *sizes: int, dtype: str = "float32") -> Any:
    return module.ShapeDtypeStruct(sizes, dtype)


def cholesky(module: Any, **options: Any) -> Callable[..., Any]:
    outs = shape(module, 3, 3), shape(module, dtype="int32")
    layouts = {"input_layouts": [(1, 0)], "output_layouts": [(1, 0), ()]}
    call = module.ffi.ffi_call("lapack_spotrf_ffi", outs, **layouts, **options)
    return lambda x: call(x, uplo=LOWER)


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda m, x: cholesky(m)(x),
    "in place": lambda m, x: cholesky(m, input_output_aliases={0: 0})(x),
    "attributes": lambda m, x: m.ffi.ffi_call("foo", shape(m, 3), has_side_effect=True)(
        x, a=1, b=1.5, c="s", d=True, e=np.arange(3), f=(1, 2), g=np.float32(2), h={"k": 1}
    ),
    "list": lambda m, x: m.ffi.ffi_call("foo", [shape(m, 2), shape(m)])(x, x),
    "none": lambda m, x: m.ffi.ffi_call("foo", (), has_side_effect=True)(x) or x,
    "older": lambda m, x: m.ffi.ffi_call(
        "foo", shape(m, 3), custom_call_api_version=2, legacy_backend_config="text"
    )(x),
    "64 bits": lambda m, x: m.ffi.ffi_call("foo", shape(m, 3, dtype="float64"))(x),
    **{
        f"vmap {method}": lambda m, x, method=method: m.vmap(cholesky(m, vmap_method=method))(
            x[None] + x[:2, None, :1]
        )
        for method in ("expand_dims", "broadcast_all", "legacy_vectorized")
    },
}


@pytest.mark.parametrize("name", CASES)
def test_text_is_jaxs(name: str) -> None:
    ours, theirs = (m.jit(lambda x, m=m: CASES[name](m, x)).lower(X) for m in (pb, jax))
    assert ours.as_text("stablehlo") == theirs.as_text()


FAULTS: dict[str, Callable[[Any, Any], Any]] = {
    "method": lambda m, x: cholesky(m, vmap_method="foo")(x),
    "no method": lambda m, x: m.vmap(cholesky(m))(x[None]),
    "jvp": lambda m, x: m.jvp(cholesky(m), (x,), (x,)),
    "hash": lambda m, x: m.ffi.ffi_call("foo", shape(m))(x, a=[1, 2]),
    "config": lambda m, x: m.ffi.ffi_call("foo", shape(m), legacy_backend_config="a"),
    "old": lambda m, x: m.ffi.ffi_call("foo", shape(m), custom_call_api_version=2)(x, a=1),
    "layouts": lambda m, x: m.ffi.ffi_call("foo", shape(m), input_layouts=[None] * 2)(x),
    "alias in": lambda m, x: m.ffi.ffi_call("foo", shape(m), input_output_aliases={1: 0})(x),
    "alias out": lambda m, x: m.ffi.ffi_call("foo", shape(m), input_output_aliases={0: 1})(x),
    "alias type": lambda m, x: m.ffi.ffi_call("foo", shape(m), input_output_aliases={0: 0})(x),
    "no shape": lambda m, x: m.ffi.ffi_call("foo", 3)(x),
    "unknown": lambda m, x: m.ffi.ffi_call("no such function", shape(m))(x),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_jaxs(name: str) -> None:
    raised = []
    for m in BOTH:
        with pytest.raises(Exception) as error:
            FAULTS[name](m, m.numpy.asarray(X))
        raised.append(error)
    theirs, ours = raised
    assert ours.type.__name__ == theirs.type.__name__
    said = str(theirs.value)
    assert str(ours.value).startswith(said[:80])


def test_it_runs() -> None:
    want = np.linalg.cholesky(X)
    call = cholesky(pb, vmap_method="sequential")
    for f in (call, pb.jit(call)):
        factor, info = f(X)
        np.testing.assert_allclose(np.tril(factor), want, rtol=1e-6)
        assert info == 0 and isinstance(factor, pb.Array)
    factors, _ = pb.jit(pb.vmap(call))(np.stack([X, 4 * X]))
    np.testing.assert_allclose(np.tril(factors[1]), 2 * want, rtol=1e-6)
    stacked = cholesky(pb, vmap_method="broadcast_all")
    factors, _ = pb.vmap(stacked)(np.stack([X, 4 * X]))
    np.testing.assert_allclose(np.tril(factors[1]), 2 * want, rtol=1e-6)


def test_a_function_of_ones_own() -> None:
    """An older interface that ctypes can speak: void f(void* out, void** ins)."""
    seen = list[Any]()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    def triple(out: Any, ins: Any) -> None:
        x = np.ctypeslib.as_array((ctypes.c_float * 3).from_address(ins[0]))
        np.ctypeslib.as_array((ctypes.c_float * 3).from_address(out))[...] = 3 * x
        seen.append(x.copy())

    name = "test_ffi_triple"
    ffi.register_ffi_target(name, ffi.pycapsule(triple), api_version=0)
    call = ffi.ffi_call(name, shape(pb, 3), custom_call_api_version=1, has_side_effect=True)
    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(call(x), 3 * x)
    np.testing.assert_array_equal(pb.jit(lambda x: call(call(x) + 1))(x), 9 * x + 3)
    count = len(seen)
    pb.jit(lambda x: call(x) is None)(x)  # nobody reads the result, but the call has an effect
    assert len(seen) == count + 1
    loop = pb.jit(lambda x: pb.lax.fori_loop(0, 3, lambda i, c: call(c), x))
    np.testing.assert_array_equal(loop(x), 27 * x)

    @pb.custom_jvp
    def tripled(x: Any) -> Any:
        return call(x)

    tripled.defjvp(lambda primals, tangents: (tripled(*primals), 3 * tangents[0]))
    np.testing.assert_array_equal(pb.grad(lambda x: tripled(x).sum())(x), [3, 3, 3])


def test_registration() -> None:
    from jaxlib import lapack

    name, capsule, _ = lapack.registrations()["cpu"][0]
    ffi.register_ffi_target("test_ffi_" + name, capsule)
    ffi.register_ffi_target_as_batch_partitionable("test_ffi_" + name)
    for m in BOTH:
        with pytest.raises(Exception, match="Unsupported custom call target type"):
            m.ffi.register_ffi_target("test_ffi_bad", 3)
        with pytest.raises(Exception, match="INVALID_ARGUMENT"):
            m.ffi.register_ffi_type("test_ffi_bad", 3)
        with pytest.raises(ValueError, match="register_ffi_type_id is not supported"):
            m.ffi.register_ffi_type_id("test_ffi_bad", 3)
    assert ffi.include_dir() == jax.ffi.include_dir()


def test_rules_of_primitives() -> None:
    def lowered(m: Any) -> str:
        import importlib

        core = importlib.import_module(f"{m.__name__}.extend.core")
        mlir = importlib.import_module(f"{m.__name__}.interpreters.mlir")
        p = core.Primitive("foreign")
        p.def_abstract_eval(lambda x, *, by: x)
        rule = m.ffi.ffi_lowering("foo", operand_layouts=[(0, 1)], has_side_effect=True)
        mlir.register_lowering(p, rule)
        made = m.jit(lambda x: p.bind(x, by=2)).lower(X)
        return str(made.as_text() if m is jax else made.as_text("stablehlo"))

    assert lowered(pb) == lowered(jax)
