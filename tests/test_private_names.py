"""The private names of JAX that its own tests import and use: a table, `data/private_names.txt`, of
modules and names that are there under real JAX and here."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import pullback
from pullback.jax_compat.modules._src.literals import TypedNdArray
from pullback.jax_compat.modules._src.program_names import _maybe_perturbed, close_jaxpr
from pullback.jax_compat.modules._src.sharding_impls import canonicalize_sharding
from pullback.numpy.util import promote_dtypes_complex
from pullback.sharding import AxisType, NamedSharding, PartitionSpec

HERE = Path(__file__).resolve().parent
TABLE = HERE / "data" / "private_names.txt"


def missing() -> list[str]:
    """The modules and names of the table that are not there."""
    found = []
    for line in TABLE.read_text().splitlines():
        module, _, names = line.partition(":")
        try:
            loaded = importlib.import_module(module)
        except ImportError as error:
            found.append(f"{module}: {error}")
            continue
        found += [f"{module}.{n}" for n in names.split() if not _has(loaded, module, n)]
    return found


def _has(loaded: ModuleType, module: str, name: str) -> bool:
    try:  # a module within it may not have been imported yet
        return hasattr(loaded, name) or bool(importlib.import_module(f"{module}.{name}"))
    except ImportError:
        return False


def test_private_names_are_there() -> None:
    """In a process of their own: the names are those of `import jax`."""
    done = subprocess.run(
        [sys.executable, "-m", "pullback", "run", __file__],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(HERE.parent / "src")},
    )  # fmt: skip
    assert done.returncode == 0 and not done.stdout.strip(), done.stdout + done.stderr[-2000:]


def test_a_module_is_there_without_its_own_import() -> None:
    ask = "import pullback.experimental as e; print(e.compilation_cache.__name__)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True)
    assert done.stdout.strip().endswith("experimental.compilation_cache"), done.stderr[-2000:]


def test_names_that_mean_something_else_than_ours() -> None:
    program = pullback.make_jaxpr(lambda x: x * 2)(1.0).jaxpr
    assert close_jaxpr(program).jaxpr is program and not close_jaxpr(program).consts
    found = [_maybe_perturbed(1.0), _maybe_perturbed(pullback.numpy.ones(2))]

    def note(*xs: Any) -> Any:
        found.extend(map(_maybe_perturbed, xs))
        return xs[0]

    pullback.jvp(note, (1.0,), (1.0,))
    pullback.jit(note)(1.0, 2)
    pullback.vmap(note)(pullback.numpy.ones(2))
    assert found == [False, False, True, True, False, False]


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print("\n".join(missing()))


def test_asked_shardings_lie_over_abstract_meshes() -> None:
    """`canonicalize_sharding`, which jaxns calls."""
    mesh = pullback.make_mesh((1,), ("x",), axis_types=(AxisType.Explicit,))
    spec = PartitionSpec("x")
    want = NamedSharding(mesh.abstract_mesh, spec)
    assert canonicalize_sharding(None, "f") is None
    assert canonicalize_sharding(NamedSharding(mesh, spec), "f") == want
    with pullback.set_mesh(mesh):
        assert canonicalize_sharding(spec, "f") == want
    with pytest.raises(ValueError, match="not under a mesh context"):
        canonicalize_sharding(spec, "f")
    with pytest.raises(TypeError, match="`out_sharding` argument of f only supports"):
        canonicalize_sharding(3, "f")


def test_operands_promoted_to_complex() -> None:
    """`promote_dtypes_complex`, which s2fft calls, beside JAX's."""

    def seen(lib: Any, promote: Any) -> list[Any]:
        np_ = lib.numpy
        operands = (
            (1,),
            (True,),
            (True, 1),
            (1.0, np_.ones(2, np.int8)),
            (np_.ones(2, np.float16),),
            (np_.ones(2, np.int32), np_.ones(2, np.complex64)),
        )
        made = [promote(*xs) for xs in operands]
        with lib.enable_x64(True):
            operands = ((1,), (np.int64(3),), (np.ones(2),), (np_.ones(2, np.float32), 2j))
            made += [promote(*xs) for xs in operands]
        return [(x.dtype, x.weak_type, np.asarray(x).tolist()) for xs in made for x in xs]

    theirs = importlib.import_module("jax._src.numpy.util").promote_dtypes_complex
    assert seen(pullback, promote_dtypes_complex) == seen(jax, theirs)


def test_typed_arrays_stay_typed() -> None:
    """`TypedNdArray`: NumPy's arrays with a weakness that views, pickles and jnp keep, beside
    JAX's."""

    def seen(typed: Any, lib: Any) -> list[Any]:
        made = typed(np.eye(2, dtype=np.float32), lib.core.ShapedArray((2, 2), np.float32, True))
        plain = typed(np.zeros((0, 2)))
        return [
            *(repr(x) for x in (made, made[:1], made.T, plain)),
            *(str(x.aval) for x in (made, made.copy(), plain)),
            *(type(x).__name__ for x in (made.T, made + 1, made.val, made[0, 0])),
            lib.numpy.asarray(made).weak_type,
            lib.numpy.add(made, np.int8(1)).weak_type,
        ]

    theirs = importlib.import_module("jax._src.literals").TypedNdArray
    assert seen(TypedNdArray, pullback) == seen(theirs, jax)
    weak = TypedNdArray(np.ones(2), pullback.core.ShapedArray((2,), np.float64, True))
    assert pickle.loads(pickle.dumps(weak)).weak_type  # JAX's have no type after it
