"""Portable modules: StableHLO in a form that other versions read, and sizes made known. Needs
jaxlib (`pip install pullback[xla]`).
"""

from __future__ import annotations

from typing import Any

from ..backends.xla.library import mlir_api as _jax
from ..backends.xla.sharding import lower_with_sharding_in_types as lower_with_sharding_in_types


def serialize_portable_artifact(
    mlir_module: Any, target: str, use_mixed_serialization: bool = False
) -> bytes:
    """A module as bytes that StableHLO of version `target`, and later ones, can read.

    `mlir_module`: a module, or its text or bytecode.

    >>> from pullback.extend import mlir
    >>> module = pb.jit(lambda x: x + 1).lower(1.0).compiler_ir("stablehlo")
    >>> artifact = mlir.serialize_portable_artifact(module, "1.0.0")
    >>> "stablehlo.add" in str(mlir.deserialize_portable_artifact(artifact, module.context))
    True
    """
    return bytes(
        _jax.mlir.serialize_portable_artifact(mlir_module, target, use_mixed_serialization)
    )


def deserialize_portable_artifact(mlir_module: bytes, context: Any = None) -> Any:
    """The module that `serialize_portable_artifact` wrote, in an MLIR context; its text if none is
    given.

    >>> from pullback.extend import mlir
    >>> module = pb.jit(lambda x: x * 2).lower(1.0).compiler_ir("stablehlo")
    >>> artifact = mlir.serialize_portable_artifact(module, "1.0.0")
    >>> type(mlir.deserialize_portable_artifact(artifact, module.context)).__name__
    'Module'
    """
    return _jax.mlir.deserialize_portable_artifact(mlir_module, context)


def hlo_to_stablehlo(computation: bytes) -> bytes:
    """A computation of XLA, as bytes of its protocol buffer, as StableHLO's bytecode.

    >>> from pullback.extend import mlir
    >>> computation = pb.jit(lambda x: x + 1).lower(1.0).compiler_ir("hlo")
    >>> mlir.hlo_to_stablehlo(computation.as_serialized_hlo_module_proto())[:4]
    b'ML\\xefR'
    """
    return bytes(_jax.mlir.hlo_to_stablehlo(computation))


def refine_polymorphic_shapes(
    mlir_module: bytes,
    enable_shape_assertions: bool = True,
    validate_static_shapes: bool = True,
    enable_shardy: bool = False,
) -> bytes:
    """A module with sizes that follow from those of its arguments, all of them made known: bytecode
    to bytecode. Checks its assertions about shapes, and that no size is left open, if asked to.

    >>> from pullback.extend import mlir
    >>> from pullback.interpreters.mlir import module_to_bytecode
    >>> module = pb.jit(lambda x: x + 1).lower(1.0).compiler_ir("stablehlo")
    >>> mlir.refine_polymorphic_shapes(module_to_bytecode(module))[:4]
    b'ML\\xefR'
    """
    return bytes(
        _jax.mlir.refine_polymorphic_shapes(
            mlir_module, enable_shape_assertions, validate_static_shapes, enable_shardy
        )
    )
