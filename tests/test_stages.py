"""The stages of ahead-of-time compilation, and the types that stand for arguments, beside JAX's."""

from __future__ import annotations

import pickle
import re
from typing import Any

import jax
import numpy as np
import pytest

import pullback as pb
from pullback.experimental.serialize_executable import serialize

X = np.arange(3, dtype=np.float32)


def _lowered() -> Any:
    return pb.jit(lambda x: x + 1).lower(X)


def test_dialects_by_default_are_jaxs() -> None:
    assert _lowered().as_text() == jax.jit(lambda x: x + 1).lower(X).as_text()
    assert type(_lowered().compiler_ir()).__name__ == "Module"
    assert "for vector" in _lowered().as_text("loops")


TRANSFORMED = {
    "jit": lambda m, f: m.jit(f)(X),
    "grad": lambda m, f: m.grad(lambda x: f(x).sum())(X),
    "vmap": lambda m, f: m.vmap(f)(np.stack([X, X])),
    "jvp": lambda m, f: m.jvp(f, (X,), (X,)),
    "eval_shape": lambda m, f: m.eval_shape(f, X),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_compiled_functions_are_not_transformed(name: str) -> None:
    said = []
    for m in (jax, pb):
        compiled = m.jit(lambda x: x + 1).lower(X).compile()
        with pytest.raises(TypeError) as e:
            TRANSFORMED[name](m, compiled)
        said.append(str(e.value).split("type <")[0])
    assert said[0] == said[1]


def test_what_compiled_functions_say_of_results() -> None:
    seen = [repr(m.jit(lambda x: x + 1).lower(X).compile().out_info) for m in (jax, pb)]
    assert seen[0] == seen[1]


def _struct(m: Any, **more: Any) -> Any:
    return m.ShapeDtypeStruct((2, 3), np.float32, **more)


def _on(m: Any) -> Any:
    return m.sharding.SingleDeviceSharding(m.devices()[0])


STRUCTS = {
    "like an array": lambda m: m.ShapeDtypeStruct.like(m.numpy.ones(3)),
    "like an array that was put": lambda m: m.ShapeDtypeStruct.like(
        m.device_put(np.ones(2, np.float32), m.devices()[0])
    ),
    "like a number": lambda m: m.ShapeDtypeStruct.like(3.0),
    "like a struct": lambda m: m.ShapeDtypeStruct.like(_struct(m, weak_type=True)),
    "like a key": lambda m: m.ShapeDtypeStruct.like(m.random.key(0)),
    "like a tracer": lambda m: m.eval_shape(m.ShapeDtypeStruct.like, X),
    "format": lambda m: _struct(m).format,
    "format of a sharding": lambda m: _struct(m, sharding=_on(m)).format,
    "manual axes": lambda m: _struct(m).manual_axis_type,
    "manual axes given": lambda m: _struct(
        m, manual_axis_type=m.sharding.ManualAxisType(varying={"i"})
    ),
    "a reference": lambda m: (_struct(m, is_ref=True), _struct(m).is_ref),
    "a reference's program": lambda m: m.make_jaxpr(lambda r: r[...])(_struct(m, is_ref=True)),
    "updated": lambda m: _struct(m, sharding=_on(m), is_ref=True).update(shape=(4,)),
    "equal": lambda m: (
        _struct(m) == _struct(m, is_ref=True),
        _struct(m) == _struct(m, weak_type=True),
        hash(_struct(m)) == hash(_struct(m)),
    ),
    "pickled": lambda m: pickle.loads(pickle.dumps(_struct(m, is_ref=True))),
}


@pytest.mark.parametrize("name", STRUCTS)
def test_structs_are_jaxs(name: str) -> None:
    assert repr(STRUCTS[name](pb)) == repr(STRUCTS[name](jax))


WRONG = {
    "like an object": lambda m: m.ShapeDtypeStruct.like(object()),
    "a number as sharding": lambda m: _struct(m, sharding=3),
    "manual axes that are none": lambda m: _struct(m, manual_axis_type=1),
    "a spec of more axes": lambda m: _struct(
        m,
        sharding=m.sharding.NamedSharding(
            m.make_mesh((1,), ("i",)), m.sharding.PartitionSpec("i", None, None)
        ),
    ),
    "assigned": lambda m: setattr(_struct(m), "shape", (3,)),
}


@pytest.mark.parametrize("name", WRONG)
def test_refusals_of_structs_are_jaxs(name: str) -> None:
    with pytest.raises(Exception) as theirs:
        WRONG[name](jax)
    with pytest.raises(theirs.type, match=re.escape(str(theirs.value).split(" or ")[0][:60])):
        WRONG[name](pb)


def test_platforms_are_known_when_lowered() -> None:
    """What a platform does not have is an error of `lower`, not of the text."""
    traced = pb.jit(lambda x: x + 1).trace(np.zeros(3, np.float32))
    assert "func.func" in traced.lower(lowering_platforms=()).as_text()
    lowered = traced.lower(lowering_platforms=("cuda",))
    assert lowered.compiler_ir() is lowered.compiler_ir()
    with pytest.raises(RuntimeError, match=r"'gpu'.*'cuda'"):
        traced.lower(lowering_platforms=("gpu",))
    schur = pb.jit(pb.lax.linalg.schur).trace(np.eye(3, dtype=np.float32))
    with pytest.raises(NotImplementedError, match="'schur' not found for platform cuda"):
        schur.lower(lowering_platforms=("cuda",))


def test_what_holds_a_reference_is_not_serialized() -> None:
    cell = pb.new_ref(0)

    def count(x):
        cell[...] += x

    compiled = pb.jit(count).lower(1).compile()
    with pytest.raises(ValueError, match="can't serialize with a closed-over mutable array ref"):
        serialize(compiled)


@pytest.mark.parametrize("lib", [pb, jax])
def test_arguments_that_are_not_used_lie_nowhere(lib):
    x = lib.numpy.arange(3.0)
    compile = lambda f, *a, **k: lib.jit(f, **k).lower(*a).compile()
    compiled = compile(lambda a, b, c: (a * 2, lib.numpy.sin(b))[0], x, x, {"c": x})
    (a, *rest), named = compiled.input_shardings
    assert a is not None and (rest, named) == ([None, {"c": None}], {})
    (a, b, _), _ = compiled.input_formats
    assert a.sharding is not None and (b.layout, b.sharding) == (None, None)
    kept = compile(lambda a, b: a, x, x, keep_unused=True).input_shardings[0]
    assert None not in kept
    called = compile(lambda a, b: lib.jit(lambda a, b: a * 2)(a, b), x, x)
    assert [s is None for s in called.input_shardings[0]] == [False, True]
