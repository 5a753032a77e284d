"""Donated arguments: which of them a program's results can use, and what is refused."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import errors
from ..core.jaxpr import ClosedJaxpr
from ..primitives.keys import physical_aval
from ..transforms.partial_eval import dce_closed
from .array import ArrayImpl
from .commitment import devices_of
from .shardings import NamedSharding, Sharding


class Donation:
    """What becomes of a call's arguments: those in whose memory results lie (`taken`), and those
    that the program needs at all (`used`)."""

    __slots__ = ("taken", "used")

    def __init__(self, taken: tuple[bool, ...], used: tuple[bool, ...]) -> None:
        self.taken, self.used = taken, used


def donation(closed: ClosedJaxpr, donated: Sequence[bool], keep_unused: bool = False) -> Donation:
    """Which donated arguments a program's results take; found once for a program, with a warning
    that names those that no result can.

    Results take arguments of their own type first, in order. Of the rest, one with as many
    elements as a result is meant for it, whatever it holds, and is taken if it has as many bytes.
    """
    key = "donation", tuple(donated), keep_unused
    found: Donation | None = closed.derived.get(key)
    if found is None:
        used = [True] * len(closed.in_avals)
        if not keep_unused:
            used = dce_closed(closed, [True] * len(closed.out_avals))[1]
        offered = [k for k, d in enumerate(donated) if d and used[k]]
        taken = _taken(offered, closed.in_avals, closed.out_avals)
        flags = tuple([k in taken for k in range(len(used))])
        found = closed.derived[key] = Donation(flags, tuple(used))
    return found


def _taken(offered: list[int], in_avals: Sequence[Any], out_avals: Sequence[Any]) -> set[int]:
    free: list[Any] = list(out_avals)
    taken: set[int] = set()

    def matched(fits: Callable[[Any, Any], bool]) -> list[tuple[int, Any]]:
        """The offered arguments, each with the first free result that it fits."""
        pairs = []
        for k in offered:
            at = next((j for j, a in enumerate(free) if fits(in_avals[k], a)), None)
            pairs.append((k, None if at is None else free.pop(at)))
        return pairs

    same = matched(lambda a, b: _type(a) == _type(b) is not None)
    taken.update(k for k, a in same if a is not None)
    offered = [k for k, a in same if a is None]
    alike = matched(lambda a, b: _elements(a) == _elements(b) is not None)
    for k, a in alike:
        if a is not None and _bytes(a) == _bytes(in_avals[k]):
            taken.add(k)
    unusable = [in_avals[k].str_short() for k, a in alike if a is None]
    if unusable:
        warnings.warn(
            f"Some donated buffers were not usable: {', '.join(unusable)}.\nNo result has so many "
            "elements: they are kept, as if they had not been donated. Fix: leave them out of "
            "donate_argnums and donate_argnames.",
            stacklevel=2,
        )
    return taken


def _type(aval: Any) -> Any:
    return (aval.shape, aval.dtype) if hasattr(aval, "dtype") else None


def _elements(aval: Any) -> int | None:
    return math.prod(aval.shape) if hasattr(aval, "dtype") else None


def _bytes(aval: Any) -> int:
    whole = physical_aval(aval)
    return int(math.prod(whole.shape) * whole.dtype.itemsize)


def honoured(params: dict[str, Any], args: Sequence[Any]) -> tuple[bool, ...]:
    """Which arguments of a call are given away. JaxRuntimeError if one of them is another argument
    too, whose values the program needs."""
    found = donation(params["jaxpr"], params["donated_invars"], params["keep_unused"])
    taken = found.taken
    if any(taken):
        if on_several(params, args):
            pairs = enumerate(zip(args, taken, strict=True))
            taken = tuple(t and _lies_as_a_result(params, k, x) for k, (x, t) in pairs)
        gone = {  # of what is no array of ours, each argument is a copy of its own
            id(x): k
            for k, (x, t) in enumerate(zip(args, taken, strict=True))
            if t and isinstance(x, ArrayImpl)
        }
        for k, (x, used) in enumerate(zip(args, found.used, strict=True)):
            first = gone.get(id(x), k)
            if first != k and used:
                raise errors.JaxRuntimeError(
                    "INVALID_ARGUMENT: Attempt to donate a buffer that the same call uses again: "
                    f"arguments number {min(first, k)} and {max(first, k)} are one array. Fix: "
                    "pass a copy (`x.copy()`), or do not donate it."
                )
    return taken


def on_several(params: dict[str, Any], args: Sequence[Any]) -> bool:
    """Does a call run on several devices?"""
    asked = [*params["in_shardings"], *params["out_shardings"]]
    lies = [*asked, *(getattr(x, "_lies_on", None) for x in args)]
    if any(isinstance(s, NamedSharding) and s.mesh.size > 1 for s in lies):
        return True
    closed: ClosedJaxpr = params["jaxpr"]
    count = closed.derived.get("devices")
    if count is None:
        count = closed.derived["devices"] = devices_of(closed.jaxpr, ())
    return bool(count > 1)


def _lies_as_a_result(params: dict[str, Any], k: int, x: Any) -> bool:
    """May a result take the memory of a donated argument, as far as shardings go: it is on several
    devices, as asked, and some result of its type is not asked to lie otherwise."""
    lies, closed = getattr(x, "_lies_on", None), params["jaxpr"]
    if lies is None:  # copied to several devices, the first copy is the argument itself
        lies = params["in_shardings"][k]
        if not (isinstance(lies, NamedSharding) and lies.is_fully_replicated):
            return False
    if not isinstance(lies, NamedSharding):
        return False
    wanted = zip(closed.out_avals, params["out_shardings"], strict=True)
    return any(
        not isinstance(s, Sharding) or s.is_equivalent_to(lies, len(a.shape))
        for a, s in wanted
        if _type(a) == _type(closed.in_avals[k])
    )
