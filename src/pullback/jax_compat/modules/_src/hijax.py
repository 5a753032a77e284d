"""`jax._src.hijax`: values of types of a library's own, and those that JAX's tests have ready: a
box whose content changes, and a log."""

from __future__ import annotations

from typing import Any

from .... import tree
from ....control.custom_vjp import custom_vjp
from ....core import effects as _fx
from ....core.avals import typeof
from ....core.high import AvalQDD, cur_qdd
from ....core.trace import aval_method
from ....experimental.hijax import (
    AbstractValue as Ty,
    HiPrimitive,
    HiPspec as HiPspec,
    HiType as HiType,
    MutableHiType,
    ShapedArray as ShapedArray,
    VJPHiPrimitive as VJPHiPrimitive,
    Zero as Zero,
    instantiate_zeros as instantiate_zeros,
    register_hitype as register_hitype,
)
from ....records import record

__all__ = ["HiPrimitive", "HiType", "MappingSpec", "MutableHiType", "Ty"]


class MappingSpec:
    """How a library's values are mapped: the base class of what says it."""


class BoxEffect(_fx.Effect):
    """The effect of reading boxes and writing to them."""

    __slots__ = ()


box_effect = BoxEffect()
_fx.control_flow_allowed_effects.add_type(BoxEffect)
_fx.lowerable_effects.add_type(BoxEffect)


@record(eq=True)
class BoxTypeState:
    """What is in a box: the types of its leaves, and their structure."""

    leaf_avals: tuple[Any, ...]
    treedef: Any

    def to_tangent_qdd(self) -> BoxTypeState:
        return BoxTypeState(tuple(a.to_tangent_aval() for a in self.leaf_avals), self.treedef)

    def normalize(self) -> BoxTypeState:
        return BoxTypeState(tuple(a.normalize() for a in self.leaf_avals), self.treedef)


class _Changing(MutableHiType):
    """The type of values that change; all of a class are of one type."""

    has_qdd = True

    def __hash__(self) -> int:
        return hash(type(self))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def lo_ty_qdd(self, state: Any, /) -> list[Any]:
        return [lo for a in state.leaf_avals for lo in (a.lo_ty() if a.is_high else [a])]

    def to_tangent_aval(self) -> Any:
        return type(self)()


class BoxTy(_Changing):
    """The type of boxes."""

    get = aval_method(lambda box: box_get(box))
    set = aval_method(lambda box, val: box_set(box, val))

    def new_from_loval(self, state: Any, /, *vals: Any) -> Box:
        return Box(tree.unflatten(state.treedef, vals))

    def read_loval(self, state: Any, box: Any, /) -> list[Any]:
        return list(tree.leaves(box_get(box)))

    def update_from_loval(self, state: Any, box: Any, /, *vals: Any) -> None:
        box_set(box, tree.unflatten(state.treedef, vals))


class Box:
    """A place for a tree of arrays, which changes."""

    def __init__(self, init_val: Any = None) -> None:
        self._val = init_val

    def __new__(cls, init_val: Any = None) -> Any:  # in programs, an operation makes it
        made = new_box_p.bind(treedef=tree.structure(None))
        if not isinstance(made, Box):
            box_set(made, init_val)
        return made

    @classmethod
    def _new(cls, init_val: Any) -> Box:
        made = object.__new__(cls)
        made._val = init_val
        return made

    def get(self) -> Any:
        return box_get(self)

    def set(self, val: Any) -> None:
        box_set(self, val)

    def cur_qdd(self) -> BoxTypeState:
        leaves, treedef = tree.flatten(self._val)
        return BoxTypeState(tuple(map(typeof, leaves)), treedef)

    type_state = cur_qdd
    ty = property(lambda self: BoxTy())


register_hitype(Box, lambda _: BoxTy())
_NO_DERIVATIVE = "can't differentiate Box.set operation, did you forget jax.lax.stop_gradient?"


class NewBox(HiPrimitive):
    """Makes a box."""

    def is_high(self, *avals: Any, treedef: Any) -> bool:
        return True

    def abstract_eval(self, *avals: Any, treedef: Any) -> Any:
        return AvalQDD(BoxTy(), BoxTypeState((), treedef)), {box_effect}

    def to_lojax(self, *leaves: Any, treedef: Any) -> Any:
        return Box._new(tree.unflatten(treedef, leaves))

    impl = to_lojax

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        assert not primals and not tangents
        return new_box_p.bind(**params), Zero(BoxTy())


class BoxSet(HiPrimitive):
    """Puts a tree into a box."""

    multiple_results = True

    def is_high(self, *avals: Any, treedef: Any) -> bool:
        return True

    def abstract_eval(self, box: Any, *leaf_avals: Any, treedef: Any) -> Any:
        box.mutable_qdd.update(BoxTypeState(leaf_avals, treedef))
        return [], {box_effect}

    def to_lojax(self, box: Any, *leaves: Any, treedef: Any) -> Any:
        box._val = tree.unflatten(treedef, leaves)
        return []

    impl = to_lojax

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        if any(type(t) is not Zero for t in tangents[1:]):
            raise Exception(_NO_DERIVATIVE)
        box_set_p.bind(*primals, **params)
        return [], []


class BoxGet(HiPrimitive):
    """Reads what is in a box."""

    multiple_results = True

    def is_high(self, *avals: Any, **_: Any) -> bool:
        return True

    def abstract_eval(self, box: Any, *, avals: Any) -> Any:
        return list(avals), {box_effect}

    def to_lojax(self, box: Any, *, avals: Any) -> Any:
        return list(tree.leaves(box._val))

    impl = to_lojax

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        zeros = [Zero(a.to_tangent_aval()) for a in params["avals"]]
        return box_get_p.bind(*primals, **params), zeros


new_box_p, box_set_p, box_get_p = NewBox("new_box"), BoxSet("box_set"), BoxGet("box_get")


def new_box() -> Any:
    """An empty box."""
    return new_box_p.bind(treedef=tree.structure(None))


def box_set(box: Any, val: Any) -> None:
    """Puts a tree of arrays into a box."""
    leaves, treedef = tree.flatten(val)
    box_set_p.bind(box, *leaves, treedef=treedef)


def box_get(box: Any) -> Any:
    """What is in a box."""
    state = cur_qdd(box)
    return tree.unflatten(state.treedef, box_get_p.bind(box, avals=state.leaf_avals))


# --- logs: what is appended is kept in its order, under a key ---
class LogTy(_Changing):
    """The type of logs."""

    append = aval_method(lambda log, key, val: log_append(log, key, val))
    extend = aval_method(lambda log, dct: log_extend(log, dct))
    read = aval_method(lambda log: log_read(log))

    def new_from_loval(self, state: Any, /, *vals: Any) -> Log:
        return Log(tree.unflatten(state.treedef, vals))

    def read_loval(self, state: Any, log: Any, /) -> list[Any]:
        return list(log_read(log))

    def update_from_loval(self, state: Any, log: Any, /, *vals: Any) -> None:
        log_set_p.bind(log, *vals, treedef=state.treedef)


class Log:
    """Values by key, to which more are added."""

    def __init__(self, dct: dict[str, Any] | None = None) -> None:
        self._dct = dict(dct or {})

    def append(self, key: str, val: Any) -> None:
        log_append(self, key, val)

    def extend(self, dct: dict[str, Any]) -> None:
        log_extend(self, dct)

    def read(self) -> Any:
        return log_read(self)

    def cur_qdd(self) -> BoxTypeState:
        leaves, treedef = tree.flatten(self._dct)
        return BoxTypeState(tuple(map(typeof, leaves)), treedef)


register_hitype(Log, lambda _: LogTy())


class _LogSet(BoxSet):
    """Replaces what is in a log."""

    def to_lojax(self, box: Any, *leaves: Any, treedef: Any) -> Any:
        box._dct = dict(tree.unflatten(treedef, leaves))
        return []

    impl = to_lojax


class ReadLog(BoxGet):
    """Reads what is in a log."""

    def to_lojax(self, box: Any, *, avals: Any) -> Any:
        return list(tree.leaves(box._dct))

    impl = to_lojax


log_set_p, log_read_p = _LogSet("log_set"), ReadLog("log_read")


def new_log() -> Log:
    """An empty log."""
    return Log()


def log_read(log: Any) -> list[Any]:
    """The leaves of what is in a log, by key."""
    return list(log_read_p.bind(log, avals=cur_qdd(log).leaf_avals))


def log_extend(log: Any, dct: dict[str, Any]) -> None:
    """Adds values by key; lists of values under a key grow."""
    before = tree.unflatten(cur_qdd(log).treedef, log_read(log)) or {}
    leaves, treedef = tree.flatten({**before, **dct})
    log_set_p.bind(log, *leaves, treedef=treedef)


def log_append(log: Any, key: str, val: Any) -> None:
    """Adds a value under a key."""
    log_extend(log, {key: val})


class custom_vjp3(custom_vjp):
    """Functions with derivative rules of their own, for values of any type."""
