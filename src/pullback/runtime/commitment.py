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
from ..core import effects as fx
from ..core.avals import intern
from ..core.explicit import names_in
from ..core.jaxpr import Jaxpr, JaxprEqn, Literal, jaxprs_in_params
from ..primitives.explicit import check_under
from ..primitives.sharding import inspect_effect
from .devices import default_device_or_first
from .meshes import Mesh, get_abstract_mesh, mesh_here
from .partition_spec import PartitionSpec
from .shardings import (
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    Space,
    Uncommitted,
    default_place,
    has_devices,
    interned,
    on_devices,
)
from .spreading import inspected, spec_of, spread, trimmed, type_sharding

__all__ = [
    "Flow",
    "check_as_asked",
    "check_devices",
    "check_stays",
    "commit",
    "devices_of",
    "held",
    "lie",
    "like",
    "name_shardings",
    "results_lie",
    "types_lie",
]


class Flow:
    """What a program says about its results: which arguments it uses, which results are arguments
    themselves, which follow from which arguments; and the shardings that it names. `apart`: of a
    call inside, each result follows from all that the call uses."""

    __slots__ = (
        "arg_ranks", "follows", "forwarded", "hosts", "inspected", "inspects", "jaxpr", "named",
        "namers", "ordered", "ranks", "used",
    )  # fmt: skip

    def __init__(self, jaxpr: Jaxpr, apart: bool = False) -> None:
        self.jaxpr = jaxpr
        place = {v: k for k, v in enumerate(jaxpr.invars)}
        # Does it tell how values in it lie, and for which arguments has it done so?
        self.inspects = inspect_effect in jaxpr.effects
        self.inspected: set[Any] = set()
        self.ordered = bool(fx.ordered_effects.filter_in(jaxpr.effects))
        # Are results in the host's memory?
        self.hosts = any(getattr(v.aval, "_memory_space", None) is not None for v in jaxpr.outvars)
        found: list[tuple[Sharding, JaxprEqn]] = []
        bits = _bits(jaxpr, [1 << k for k in range(len(jaxpr.invars))], found, apart)
        self.named = [s for s, _ in found]
        self.namers = [eqn for _, eqn in found]  # the equations that name them
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


def _bits(jaxpr: Jaxpr, given: Sequence[int], named: list[Any], apart: bool = False) -> list[int]:
    """For each result the set of arguments that it follows from, as bits. Shardings that equations
    name are added to `named`, with their equations."""
    known: dict[Any, int] = dict(zip(jaxpr.invars, given, strict=True))

    def read(v: Any) -> int:
        return 0 if type(v) is Literal else known.get(v, 0)

    for eqn in jaxpr.eqns:
        ins = [read(v) for v in eqn.invars]
        named += [(s, eqn) for s in _shardings_named(eqn)]
        if eqn.primitive.name == "jit":
            outs = _bits(eqn.params["jaxpr"].jaxpr, ins, named)
            if apart:
                outs = [_union(outs)] * len(outs)
        else:
            for inner in jaxprs_in_params(eqn.params):
                _bits(inner, [0] * len(inner.invars), named)
            outs = [_union(ins)] * len(eqn.outvars)
        known.update(zip(eqn.outvars, outs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _shardings_named(eqn: JaxprEqn) -> list[Sharding]:
    """The shardings that an equation says itself."""
    name, params = eqn.primitive.name, eqn.params
    found: list[Any] = []
    if name == "sharding_constraint":
        wish = params["sharding"]
        found += [wish] if isinstance(wish, Sharding) and has_devices(wish) else []
    elif name == "device_put":
        found += params["devices"]
    elif name == "shard_map" and isinstance(params["mesh"], Mesh):
        found.append(NamedSharding(params["mesh"], PartitionSpec()))
    elif name == "jit":
        found += (*params["in_shardings"], *params["out_shardings"])
    elif name in ("iota", "broadcast_in_dim", "reshape"):
        found.append(params["sharding"])
    found += [params.get(key) for key in ("dst_sharding", "out_sharding")]
    return [s for s in found if isinstance(s, Sharding)]


def devices_of(jaxpr: Jaxpr, shardings: Sequence[Any]) -> int:
    """On how many devices a program runs that names these shardings, and others inside."""
    for s in (*shardings, *Flow(jaxpr).named):
        if s is not None:
            return int(s.mesh.size if isinstance(s, NamedSharding) else s.num_devices)
    return 1


def _flow(program: Any) -> Flow | None:
    jaxpr = getattr(program, "source", None)
    if jaxpr is None:
        return None
    if program.flow is None:
        program.flow = Flow(jaxpr)
    return program.flow  # type: ignore[no-any-return]


def held(args: Sequence[Any]) -> list[Sharding | None] | None:
    """The shardings that arguments are committed to; None if none is."""
    found = [getattr(x, "_lies_on", None) for x in args]
    for k, s in enumerate(found):
        if s is True:  # a key array says so of its words
            found[k] = getattr(getattr(args[k], "_base_array", None), "_lies_on", None)
        elif s is False or type(s) is Uncommitted:
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
    mesh = mesh_here()
    if given is None and mesh.empty and not _named[0]:
        return _by_default(program)
    asked = [s for s in (*ins, *outs) if isinstance(s, Sharding)]
    flow = _flow(program)
    if flow is not None and flow.inspects:
        _inspect(flow, given, n_args, [*asked, *flow.named], ins, mesh)
    nothing = given is None and not asked and mesh.empty
    if flow is None or (nothing and not flow.named and not flow.hosts):
        return _by_default(program)
    lies = list(given or [None] * n_args)
    _check_concrete(asked, [*lies, *flow.named], mesh)
    for k, s in enumerate(ins):
        if isinstance(s, Sharding):
            check_as_asked(flow, k, lies[k], s)
            lies[k] = s
    check_devices(flow, lies, outs, mesh)
    _check_types(flow, given)
    for k, s in zip(flow.forwarded, outs):
        # What is asked for a result that is an argument says how the argument is used elsewhere.
        if k >= 0 and lies[k] is None and isinstance(s, NamedSharding) and s.mesh.size > 1:
            lies[k] = None if s.mesh.explicit_axes else s
    found = _inferred(flow, lies, given, [*asked, *flow.named], mesh)
    if found is None and not flow.hosts:
        return _by_default(program)
    if found is None:
        found = [SingleDeviceSharding(default_device_or_first())] * len(flow.ranks)
    wanted = outs or [UNSPECIFIED] * len(found)
    return [
        interned(on_devices(s if isinstance(s, Sharding) else _in_memory(f, v.aval), f))
        for s, f, v in zip(wanted, found, flow.jaxpr.outvars, strict=True)
    ]


def _check_concrete(asked: Sequence[Sharding], others: Sequence[Any], mesh: Mesh) -> None:
    """ValueError if a call asks for a mesh without devices, and nothing says which they are."""
    known = [s for s in (*asked, *others) if s is not None and has_devices(s)]
    if mesh.empty and not known and not all(map(has_devices, asked)):
        raise ValueError(
            "Only an AbstractMesh exists in a jitted computation: nothing says which devices it "
            "means. Fix: jax.set_mesh(mesh), arguments on a mesh, or lower(lowering_platforms=...)."
        )


def _check_types(flow: Flow, given: Sequence[Sharding | None] | None) -> None:
    """ValueError if an argument lies over axes that the compiler places, and an operation reads it
    under a mesh in force whose axes are of explicit type. (Types say the opposite themselves.)"""
    context = get_abstract_mesh()
    if given is None or not context.explicit_axes:
        return
    for v, s in zip(flow.jaxpr.invars, given, strict=True):
        if isinstance(s, NamedSharding) and not s.mesh.explicit_axes and s.mesh.size > 1:
            name = _first_to_read(flow.jaxpr, v)
            if name is not None:
                check_under(name, s.mesh.abstract_mesh, context)


def _first_to_read(jaxpr: Jaxpr, v: Any) -> str | None:
    """The primitive of the first equation that reads a variable, in a call if it is one."""
    for eqn in jaxpr.eqns:
        if v in eqn.invars:
            if eqn.primitive.name != "jit":
                return str(eqn.primitive.name)
            inner = eqn.params["jaxpr"].jaxpr
            return _first_to_read(inner, inner.invars[eqn.invars.index(v)])
    return None


def _by_default(program: Any) -> list[Any] | None:
    """Where results lie that nothing is said about; None if on the first device."""
    where = default_place()
    flow = None if where is None else _flow(program)
    return None if flow is None else [where] * len(flow.ranks)


def _in_memory(sharding: Sharding, aval: Any) -> Sharding:
    """A sharding in the memory that a type says."""
    kind = "pinned_host" if getattr(aval, "memory_space", None) is Space.Host else "device"
    return sharding if sharding.memory_kind in (kind, None) else sharding.with_memory_kind(kind)


def _inspect(
    flow: Flow, given: Any, n_args: int, asked: Sequence[Sharding], ins: Any, mesh: Mesh
) -> None:
    """Tells the user how values in a program lie, once for arguments that lie so."""
    lies = list(given or [None] * n_args)
    for k, s in enumerate(ins):
        lies[k] = s if isinstance(s, Sharding) else lies[k]
    key = tuple(map(id, map(interned, [s for s in lies if s is not None]))), mesh
    if key in flow.inspected:
        return
    flow.inspected.add(key)
    named = [s for s in (*lies, *asked) if isinstance(s, NamedSharding)]
    on = next((s.mesh for s in named if isinstance(s.mesh, Mesh)), mesh)
    specs = [spec_of(s, n) for s, n in zip(lies, flow.arg_ranks, strict=True)]
    for callback, spec in inspected(lambda: spread(flow.jaxpr, specs, on)):
        place = SingleDeviceSharding(default_device_or_first()) if on.empty else None
        callback(place or NamedSharding(on, trimmed(spec)))


def check_as_asked(flow: Flow, k: int, have: Sharding | None, asked: Sharding) -> None:
    """ValueError if an argument is committed to another sharding than the call asks for."""
    if have is None or have == asked or not flow.used >> k & 1:
        return
    if not have.is_equivalent_to(asked, flow.arg_ranks[k]):
        raise ValueError(
            "Sharding passed to jit does not match the sharding on the respective arg. Got jit "
            f"sharding: {asked},\narg sharding: {have} for arg type: "
            f"{flow.jaxpr.invars[k].aval.str_short()}, {_argument(flow, k)[:-4]}. Fix: "
            "jax.device_put(x, sharding) lays it out so."
        )


def check_devices(
    flow: Flow, lies: Sequence[Sharding | None], outs: Sequence[Any] = (), mesh: Mesh | None = None
) -> None:
    """ValueError unless all that a program uses is on the same devices: its arguments, the
    shardings that are asked for its results, those that it names itself, and the mesh in force.
    """
    first: Any = None
    places: Any = None
    for what, sharding in _placed(flow, lies, outs, mesh):
        if flow.ordered and sharding.num_devices > 1:
            fx.check_on_several_devices(flow.jaxpr.effects)
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
    flow: Flow, lies: Sequence[Sharding | None], outs: Sequence[Any], mesh: Mesh | None
) -> Iterator[tuple[Callable[[], str], Sharding]]:
    """What a call has to do with that is on devices, and a text for each."""
    for k, sharding in enumerate(lies):
        if sharding is not None and flow.used >> k & 1:
            yield functools.partial(_argument, flow, k), sharding
    if mesh is not None and not mesh.empty:
        yield lambda: "jit's context mesh", NamedSharding(mesh, PartitionSpec())
    for sharding in outs:
        if isinstance(sharding, Sharding):
            yield lambda: "explicit output sharding", sharding
    for sharding, eqn in zip(flow.named, flow.namers, strict=True):
        yield functools.partial(_named_by, eqn), sharding


def _named_by(eqn: JaxprEqn) -> str:
    return f"{eqn.primitive.name} inside jit"


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


def check_stays(x: Any, target: Sharding, what: str) -> None:
    """ValueError if an array is committed to other devices than those of `target`, or to them in
    another order: only `device_put` moves arrays."""
    have = (held([x]) or [None])[0]
    if have is None:
        return
    own, want = _devices(have), _devices(target)
    if own is not None and want is not None and own != want:
        raise ValueError(
            f"Received incompatible devices for jitted computation. Got argument {what} with shape "
            f"{x.aval.str_short()} and with device ids {[d.id for d in own]} on platform CPU and "
            f"sharding_constraint inside jit with device ids {[d.id for d in want]} on platform "
            "CPU. Fix: jax.device_put(x, sharding) moves an array."
        )


def types_lie(jaxpr: Jaxpr) -> list[Sharding | None]:
    """What the types of a program's results say about axes of explicit type."""
    explicit = bool(get_abstract_mesh().explicit_axes)
    avals = [v.aval for v in jaxpr.outvars]
    return [
        a.sharding if explicit and hasattr(a, "sharding") else getattr(a, "_sharding", None)
        for a in avals
    ]


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
    if explicit:
        typed = any(getattr(v.aval, "_sharding", None) is not None for v in flow.jaxpr.invars)
        made = [_as_typed(s, v.aval, typed) for s, v in zip(made, flow.jaxpr.outvars, strict=True)]
    return [_own(flow, lies, k) or s for k, s in enumerate(made)]


def _as_typed(sharding: NamedSharding, aval: Any, typed: bool) -> NamedSharding:
    """A sharding that says of axes of explicit type what the type of the result says; where the
    types of arguments say nothing (`typed`) nor does the result's, it stays as it is."""
    ndim = len(getattr(aval, "shape", ()))
    want, have = getattr(aval, "_sharding", None), type_sharding(sharding, ndim)
    if want == have or (want is None and not typed):
        return sharding
    if want is not None and want.mesh.shape_tuple != sharding.mesh.shape_tuple:
        return _on_axes_of(want, sharding)
    named = set(sharding.mesh.explicit_axes)
    said = [None] * ndim if want is None else want.spec
    parts = [  # what the compiler places stays
        (*names_in(p), *(n for n in names_in(q) if n not in named))
        for p, q in zip(said, spec_of(sharding, ndim), strict=True)
    ]
    sums = {} if want is None else {"unreduced": want.spec.unreduced, "reduced": want.spec.reduced}
    return sharding.update(spec=PartitionSpec(*parts, **sums))


def _on_axes_of(want: NamedSharding, sharding: NamedSharding) -> NamedSharding:
    """What a type says, whose mesh has other axes than that of a sharding, on its devices."""
    abstract, mesh = want.mesh, sharding.mesh
    if not isinstance(mesh, Mesh) or mesh.size != abstract.size:
        return want
    devices = mesh.devices.reshape(abstract.axis_sizes)
    return want.update(mesh=Mesh(devices, abstract.axis_names, abstract.axis_types))


def like(model: Any, aval: Any) -> Sharding | None:
    """How an array of a type lies that is made like another array; None if that says nothing."""
    where = getattr(model, "_lies_on", None)
    if not isinstance(where, Sharding) or aval.weak_type:
        return None
    return where if where.num_devices == 1 or aval.shape == model.shape else None


def commit(outs: Sequence[Any], shardings: Sequence[Any]) -> None:
    """Notes how results lie; their types say it of axes of explicit type."""
    for x, sharding in zip(outs, shardings, strict=True):
        array = getattr(x, "_base_array", x)
        if hasattr(array, "_lies_on"):  # a token has no place
            array._lies_on = sharding
            if type(sharding) is Uncommitted:
                continue
            aval = x.aval
            said = laid_out(aval, sharding)
            if said is aval:
                continue
            if array is x:
                x._aval = said
            else:
                x.aval = said


@functools.lru_cache(1024)
def laid_out(aval: Any, sharding: Sharding) -> Any:
    """The type of an array that lies so."""
    lies = type_sharding(sharding, len(aval.shape))
    space = Space.Host if sharding.memory_kind == "pinned_host" else Space.Device
    if lies == aval._sharding and space is aval.memory_space:
        return aval
    return intern(aval.update(sharding=lies, memory_space=space))
