"""What types say of meshes: over which axes of explicit type an array lies, and over which manual
axes a value varies (in the body of a `shard_map` that checks it).

A primitive's `abstract_eval` knows shapes. What is said here is added to its results by the rules
in `primitives/explicit.py`, one for each family, and only once a type has said something: until
then `said` is false, and nothing of this runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ShardingTypeError
from .avals import ManualAxisType, ShapedArray, no_manual_axes, said

__all__ = ["Parts", "laid", "names_in", "parts_of", "rules", "said", "said_by", "typed", "whole"]

# For each axis of an array: None, the name of a mesh axis, or a tuple of names.
Parts = tuple[Any, ...]

# Filled by primitives/explicit: what adds to the types of results.
rules: list[Callable[[], Any]] = []
# Filled by primitives/manual: makes the operands of an operation vary alike.
# Filled by the collectives: `(x, axes)` gives what varies over these axes besides.
match_varying: list[Callable[[Any, Any], Any]] = []
# Filled by primitives/sharding: `(x, sharding)` gives the array laid out anew.
lay_anew: list[Callable[[Any, Any], Any]] = []
match_operands: list[Callable[[Any, Sequence[Any]], Sequence[Any]]] = []


def whole(ndim: int) -> Parts:
    return (None,) * ndim


def names_in(part: Any) -> tuple[Any, ...]:
    """The mesh axes of one entry of a spec."""
    return part if type(part) is tuple else () if part is None else (part,)


def parts_of(aval: Any) -> Parts:
    """How an array of this type lies over explicit axes."""
    sharding = getattr(aval, "_sharding", None)
    return whole(len(getattr(aval, "shape", ()))) if sharding is None else tuple(sharding.spec)


def said_by(avals: Sequence[Any]) -> Any:
    """A sharding that one of the types has; None if none has any."""
    for a in avals:
        found = getattr(a, "_sharding", None)
        if found is not None:
            return found
    return None


def typed(aval: Any, like: Any, parts: Parts, unreduced: Any = (), reduced: Any = ()) -> Any:
    """The type, lying so over the mesh of the sharding `like`."""
    spec = type(like.spec)(*parts, unreduced=frozenset(unreduced), reduced=frozenset(reduced))
    return aval.update(sharding=like.update(spec=spec))


def laid(primitive: Any, avals: Sequence[Any], params: dict[str, Any], out: Any) -> Any:
    """`out`, the types of a primitive's results, with what follows from its operands' types and the
    layout that its parameters ask for. ShardingTypeError if that does not go together."""
    for a in avals:
        if type(a) is ShapedArray and (
            a._sharding is not None
            or a.manual_axis_type is not no_manual_axes
            or a._memory_space is not None
        ):
            break
    else:
        asked = params.get("sharding", params.get("out_sharding", params.get("dst_sharding")))
        if asked is None and primitive.name not in _ALONE:
            return out
    return rules[0]()(primitive, avals, params, out)


# What says something of meshes although no operand does.
_ALONE = frozenset(("axis_index", "device_put", "pvary"))


def varying(axes: Any) -> ManualAxisType:
    """The type of what varies over these manual axes."""
    return ManualAxisType(varying=axes) if axes else no_manual_axes


def check_legal(name: str, avals: Sequence[Any], out: Any, parts: Parts) -> None:
    """ShardingTypeError if a result would lie twice over one mesh axis."""
    names = [n for part in parts for n in names_in(part)]
    if len(set(names)) != len(names):
        ins = ", ".join(a.str_short(True) for a in avals)
        shape = ",".join(
            f"{n}@{part}" if part is not None else str(n)
            for n, part in zip(out.shape, parts, strict=True)
        )
        kind = out.str_short(True).split("[")[0]
        raise ShardingTypeError(
            f"{name} operation with inputs: {ins} produces an illegally sharded result: "
            f"{kind}[{shape}]. Fix: jax.reshard one of the operands first."
        )
