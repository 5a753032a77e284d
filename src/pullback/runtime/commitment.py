"""What the shardings of arguments, and those that a call asks for, say about where results lie.

All devices of a process share its memory, so that none of this moves a byte: it is what
`x.committed` and `x.sharding` of results tell. A result is committed as soon as an argument is, or
a sharding was named; how it then lies follows from the program, read forwards once:

* what follows from no committed argument is replicated;
* on one device an array lies as the first argument does, if it has as many axes (where the axes go
  is without meaning, and JAX reports it so);
* on several devices, and on axes of explicit type, each operation says where its operands' axes go.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..control.call import UNSPECIFIED
from ..core.jaxpr import Jaxpr, Literal
from .shardings import (
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    get_mesh,
    interned,
    on_devices,
)
from .spreading import spec_of, spread, trimmed, type_sharding

__all__ = [
    "Flow",
    "check_devices",
    "commit",
    "held",
    "lie",
    "name_shardings",
    "results_lie",
    "types_lie",
]


class Flow:
    """What a program says about its results: which arguments it uses, which results are arguments
    themselves, which follow from which arguments; and the shardings that it names."""

    __slots__ = ("arg_ranks", "follows", "forwarded", "jaxpr", "named", "ranks", "used")

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr
        place = {v: k for k, v in enumerate(jaxpr.invars)}
        self.named: list[Sharding] = []
        bits = _bits(jaxpr, [1 << k for k in range(len(jaxpr.invars))], self.named)
        self.follows = bits
        self.forwarded = [-1 if type(v) is Literal else place.get(v, -1) for v in jaxpr.outvars]
        touched = 0
        for eqn in jaxpr.eqns:
            for v in eqn.invars:
                if type(v) is not Literal and v in place:
                    touched |= 1 << place[v]
        self.used = touched | _union(1 << k for k in self.forwarded if k >= 0)
        self.arg_ranks = [len(getattr(v.aval, "shape", ())) for v in jaxpr.invars]
        self.ranks = [len(getattr(v.aval, "shape", ())) for v in jaxpr.outvars]


def _union(words: Any) -> int:
    out = 0
    for w in words:
        out |= w
    return out


def _bits(jaxpr: Jaxpr, given: Sequence[int], named: list[Sharding]) -> list[int]:
    """For each result the set of arguments that it follows from, as bits."""
    known: dict[Any, int] = dict(zip(jaxpr.invars, given, strict=True))

    def read(v: Any) -> int:
        return 0 if type(v) is Literal else known.get(v, 0)

    for eqn in jaxpr.eqns:
        ins = [read(v) for v in eqn.invars]
        name = eqn.primitive.name
        if name == "sharding_constraint" and isinstance(eqn.params["sharding"], Sharding):
            named.append(eqn.params["sharding"])
        if name == "reshard":
            named.append(eqn.params["dst_sharding"])
        if name == "jit":
            asked = (*eqn.params["in_shardings"], *eqn.params["out_shardings"])
            named += [s for s in asked if isinstance(s, Sharding)]
            outs = _bits(eqn.params["jaxpr"].jaxpr, ins, named)
        else:
            outs = [_union(ins)] * len(eqn.outvars)
        known.update(zip(eqn.outvars, outs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _flow(program: Any) -> Flow | None:
    jaxpr = getattr(program, "source", None)
    if jaxpr is None:
        return None
    if program.flow is None:
        program.flow = Flow(jaxpr)
    return program.flow  # type: ignore[no-any-return]


def held(args: Sequence[Any]) -> list[Sharding | None] | None:
    """The shardings that arguments are committed to; None if none is."""
    found = [getattr(x, "_committed", None) for x in args]
    for k, s in enumerate(found):
        if s is True:  # a key array says so of its words
            found[k] = getattr(getattr(args[k], "_base_array", None), "_committed", None)
        elif s is False:
            found[k] = None
    return found if any(s is not None for s in found) else None


def results_lie(
    program: Any, args: Sequence[Any], ins: Sequence[Any] = (), outs: Sequence[Any] = ()
) -> list[Sharding] | None:
    """The shardings of a program's results for these arguments; None if they are not committed.

    `ins` and `outs`: the shardings that the call asks for (UNSPECIFIED where it does not).
    """
    return lie(program, held(args), len(args), ins, outs)


_named = [False]  # has any program named a sharding?


def name_shardings() -> None:
    """From now on programs are searched for shardings that they name."""
    _named[0] = True


def lie(
    program: Any,
    given: Sequence[Sharding | None] | None,
    n_args: int,
    ins: Sequence[Any] = (),
    outs: Sequence[Any] = (),
) -> list[Sharding] | None:
    """`results_lie` for arguments that are committed to the shardings `given`. ValueError if they
    are on different devices."""
    mesh = get_mesh()
    if given is None and mesh.empty and not _named[0]:
        return None
    asked = [s for s in (*ins, *outs) if isinstance(s, Sharding)]
    flow = _flow(program)
    if flow is None or (given is None and not asked and not flow.named and mesh.empty):
        return None
    lies = list(given or [None] * n_args)
    for k, s in enumerate(ins):
        if isinstance(s, Sharding):
            lies[k] = s
    check_devices(flow, lies, outs)
    found = _inferred(flow, lies, given, [*asked, *flow.named], mesh)
    if found is None:
        return None
    wanted = outs or [UNSPECIFIED] * len(found)
    return [
        interned(on_devices(s if isinstance(s, Sharding) else f))
        for s, f in zip(wanted, found, strict=True)
    ]


def check_devices(flow: Flow, lies: Sequence[Sharding | None], outs: Sequence[Any] = ()) -> None:
    """ValueError unless all that a program uses is on the same devices: its arguments, the
    shardings that are asked for its results, and those that it names itself.
    """
    first: Any = None
    places: Any = None
    for what, sharding in _placed(flow, lies, outs):
        own = _devices(sharding)
        if places is None:
            first, places = what, own
        elif own is not None and own != places:
            there, here = ([d.id for d in devices] for devices in (places, own))
            platform = own[0].platform.upper()
            raise ValueError(
                f"Received incompatible devices for jitted computation. Got {first()} with "
                f"device ids {there} on platform {platform} and {what()} with device ids {here} on "
                f"platform {platform}. Fix: jax.device_put(x, device) copies an array to where the "
                "others are."
            )


def _placed(
    flow: Flow, lies: Sequence[Sharding | None], outs: Sequence[Any]
) -> Iterator[tuple[Callable[[], str], Sharding]]:
    """What a call has to do with that is on devices, and a text for each."""
    for k, sharding in enumerate(lies):
        if sharding is not None and flow.used >> k & 1:
            yield functools.partial(_argument, flow, k), sharding
    for sharding in outs:
        if isinstance(sharding, Sharding):
            yield lambda: "explicit output sharding", sharding
    for sharding in flow.named:
        yield lambda: "sharding_constraint inside jit", sharding


def _argument(flow: Flow, k: int) -> str:
    info = flow.jaxpr.debug_info
    names = info.arg_names if info else None
    name = names[k] if names and k < len(names) else f"args[{k}]"
    fun = f" of {info.func_src_info.split(' at ')[0]}" if info else ""
    return f"argument {name}{fun} with shape {flow.jaxpr.invars[k].aval.str_short()} and"


def _devices(sharding: Sharding) -> tuple[Any, ...] | None:
    """The devices in their order; None for a mesh without devices."""
    if isinstance(sharding, NamedSharding):
        mesh = sharding.mesh
        return tuple(mesh.devices.flat) if isinstance(mesh, Mesh) else None
    return sharding._device_assignment  # type: ignore[no-any-return]


def types_lie(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Sharding | None]:
    """What the types of a program's results say about axes of explicit type."""
    found = [getattr(x, "_committed", None) or getattr(x, "sharding", None) for x in args]
    given = [s if isinstance(s, NamedSharding) and s.mesh.explicit_axes else None for s in found]
    known = any(s is not None for s in given)
    if not known and not _named[0]:
        return [None] * len(jaxpr.outvars)
    flow = Flow(jaxpr)
    outs = _inferred(flow, given, given if known else None, flow.named, get_mesh())
    if outs is None or not (known or flow.named):
        return [None] * len(jaxpr.outvars)
    return [type_sharding(s, n) for s, n in zip(outs, flow.ranks, strict=True)]


def _inferred(
    flow: Flow,
    lies: Sequence[Sharding | None],
    given: Sequence[Sharding | None] | None,
    asked: Sequence[Sharding],
    mesh: Mesh,
) -> list[Sharding] | None:
    """How results lie that the call says nothing about."""
    used = [k for k in range(len(lies)) if flow.used >> k & 1]
    committed = [k for k in used if lies[k] is not None]
    lead = lies[committed[0]] if committed else asked[0] if asked else None
    if lead is None:
        if mesh.empty:
            return None
        lead = NamedSharding(mesh, PartitionSpec())
    if not isinstance(lead, NamedSharding):
        return [_own(flow, lies, k) or lead for k in range(len(flow.ranks))]
    meshes = [s.mesh for s in (*lies, *asked) if isinstance(s, NamedSharding)]
    on = next((m for m in [*meshes, mesh] if isinstance(m, Mesh) and not m.empty), lead.mesh)
    explicit = bool(on.explicit_axes)
    if on.size > 1 or explicit:
        return _spread(flow, lies, on, explicit)
    whole = NamedSharding(on, PartitionSpec())
    first = used[0] if used else -1
    ranked = given is not None and first >= 0 and given[first] is not None
    out: list[Any] = []
    for k, rank in enumerate(flow.ranks):
        own = _own(flow, lies, k)
        follows = any(flow.follows[k] >> c & 1 for c in committed)
        if own is not None:
            out.append(own)
        elif follows and ranked and flow.arg_ranks[first] == rank:
            out.append(lies[first])
        else:
            out.append(whole)
    return out


def _own(flow: Flow, lies: Sequence[Sharding | None], k: int) -> Sharding | None:
    """The sharding of a result that is an argument."""
    return lies[flow.forwarded[k]] if flow.forwarded[k] >= 0 else None


def _spread(
    flow: Flow, lies: Sequence[Sharding | None], mesh: Any, explicit: bool
) -> list[Sharding]:
    """How results lie on several devices, or on axes that types name."""
    ins = [spec_of(s, n) for s, n in zip(lies, flow.arg_ranks, strict=True)]
    outs = spread(flow.jaxpr, ins, mesh)
    made = [NamedSharding(mesh, PartitionSpec(*s) if explicit else trimmed(s)) for s in outs]
    return [_own(flow, lies, k) or s for k, s in enumerate(made)]


def commit(outs: Sequence[Any], shardings: Sequence[Sharding]) -> None:
    """Notes how results lie."""
    for x, sharding in zip(outs, shardings, strict=True):
        array = getattr(x, "_base_array", x)
        if hasattr(array, "_committed"):  # a token has no place
            array._committed = sharding
