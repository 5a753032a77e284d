"""Programs that outlive their process (`export`, `deserialize`), and sizes with names: symbolic
shapes for them, for `eval_shape`, `make_jaxpr` and whatever else looks at types only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import tree
from .api.arguments import ShapeDtypeStruct
from .api.export_trees import (
    register_namedtuple_serialization as register_namedtuple_serialization,
    register_pytree_node_serialization as register_pytree_node_serialization,
)
from .api.exported import (
    CALLING_CONVENTION,
    DisabledSafetyCheck as DisabledSafetyCheck,
    Exported as Exported,
    default_export_platform as default_export_platform,
    deserialize as deserialize,
    export as export,
)
from .core.avals import typeof
from .core.dim_text import SymbolicScope, is_symbolic_dim, symbolic_shape
from .tree.prefix import broadcast_prefix, raise_prefix_error

__all__ = [
    "DisabledSafetyCheck",
    "Exported",
    "SymbolicScope",
    "default_export_platform",
    "deserialize",
    "export",
    "is_symbolic_dim",
    "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "symbolic_args_specs",
    "symbolic_shape",
]

# What programs for other platforms are called like; files of ours are of the newest kind.
maximum_supported_calling_convention_version = CALLING_CONVENTION
minimum_supported_calling_convention_version = CALLING_CONVENTION - 1


def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """`args` with a ShapeDtypeStruct for each leaf, of the shape that `shapes_specs` says.

    `args`: a pytree of arrays or of types. `shapes_specs`: a text as `symbolic_shape` takes it, for
    all of them, or a pytree of texts that is a prefix of `args`; None keeps shapes. All sizes are
    of one scope: `scope`, or a new one with these `constraints`. Raises ValueError for texts that
    do not fit the arguments' shapes, and for a pytree that is no prefix.

    >>> from pullback import export
    >>> export.symbolic_args_specs((np.ones((3, 4)), np.ones(3)), ("b, _", "b"))
    (ShapeDtypeStruct(shape=(b, 4), dtype=float32), ShapeDtypeStruct(shape=(b,), dtype=float32))
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError(
            "Cannot use both `scope` and `constraints`. Fix: give the constraints to SymbolicScope."
        )
    leaves, treedef = tree.flatten(args)

    def is_text(x: Any) -> bool:
        return x is None or isinstance(x, str)

    try:
        texts = broadcast_prefix(shapes_specs, args, is_leaf=is_text)
    except ValueError as e:
        raise_prefix_error(
            shapes_specs, args, is_text, "export.symbolic_args_specs shapes_specs", e
        )
    structs = [
        ShapeDtypeStruct(symbolic_shape(text, scope=scope, like=aval.shape), aval.dtype)
        for text, aval in zip(texts, map(_type_of, leaves), strict=True)
    ]
    return tree.unflatten(treedef, structs)


def _type_of(x: Any) -> Any:
    return x if isinstance(x, ShapeDtypeStruct) else typeof(x)
