"""What the operands of native calls may be, as Python sees it: the same walk as
`native_operands.py`'s `pb_flat`, in the same order.

Operands are arrays (ours, and NumPy's that are contiguous), numbers (Python's and NumPy's), and
tuples, lists, dicts, named tuples and registered dataclasses of them. In eager functions some
numbers, strings, dtypes, slices and the like are part of a call's key.
"""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, MemberDescriptorType
from typing import Any

import numpy as np

from pullback.core.trace import Tracer
from pullback.forking import renewed
from pullback.lazy_imports import lazy_module
from pullback.primitives.keys import PRNGKeyArray
from pullback.records import record
from pullback.runtime import native_layout as L
from pullback.runtime.array import ArrayImpl
from pullback.runtime.memory import engine
from pullback.runtime.native import Native
from pullback.tree import registry as tree

__all__ = [
    "Policy", "conversion", "know", "learn", "leaves_of", "readable", "rebuilding", "replaced",
]  # fmt: skip

rng: Any = lazy_module("pullback.primitives.rng")

_PARAMETER = L.BY_VALUE | L.PARAMETERS
_NUMBERS = (bool, int, float, complex)
_STATIC = (str, type, np.dtype, enum.Enum, EllipsisType)
_MOST_TYPES = 4096


@record(eq=True)
class Policy:
    """How a function takes its operands: which positions are static (a mask, its last bit for all
    behind it), and which keywords are `named`: those that are operands of an eager function, those
    that are static in a jitted one (interned, as the names in calls are)."""

    statics: int = 0
    named: tuple[str, ...] = ()
    eager: bool = False

    def modes(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Iterator[tuple[str | None, Any, int | None]]:
        """(name if it is a keyword, argument, mode) for each; the mode of what is compared by
        identity is None."""
        operand = L.PARAMETERS if self.eager else 0
        for k, x in enumerate(args):
            if not self.eager:
                yield None, x, None if k < 64 and self.statics >> k & 1 else 0
            else:
                yield None, x, _PARAMETER if self.statics >> min(k, 63) & 1 else operand
        for name, x in kwargs.items():
            if self.eager:
                yield name, x, operand if name in self.named else _PARAMETER
            else:
                yield name, x, None if any(name is other for other in self.named) else 0


# --- types ---
_KEY_FIELDS = ("_base_array",), ("_impl",)  # of a key array: its words, and whose they are
_lock = renewed(threading.RLock())
_known: dict[type, Any] = {}  # type -> its information: (kind, block of words, names)


def _block(words: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(words))(*words)


def _plain_attributes(cls: type, names: Sequence[str]) -> bool:
    """Does reading these attributes run no Python, and give what the object itself holds?"""
    reads: Any = inspect.getattr_static(cls, "__getattribute__")
    if reads is not object.__getattribute__ or hasattr(cls, "__getattr__"):
        return False
    found = [inspect.getattr_static(cls, name, None) for name in names]
    return all(isinstance(a, MemberDescriptorType) or not hasattr(a, "__get__") for a in found)


def _information(x: Any) -> Any:
    """What the fast path is to know about objects like this one; None if it cannot take them."""
    cls = type(x)
    fields = _KEY_FIELDS if cls is PRNGKeyArray else tree.dataclass_fields(cls)
    if fields is not None:
        children, statics = fields
        names = (*children, *statics)
        if not _plain_attributes(cls, names):
            return None
        words = [L.T_FIELDS, len(children), len(statics), *map(id, names)]
        return L.T_FIELDS, _block(words), (children, statics)
    if tree.is_namedtuple(cls):
        return L.T_NAMED, _block([L.T_NAMED]), ()
    if isinstance(x, np.generic):
        d = x.dtype
        if d.kind in "biufc" and d.num < 256 and d.itemsize <= 16 and d.char not in "gG":
            doubles = {"d": 1, "D": 2}.get(d.char, 0)
            return L.T_NUMBER, _block([L.T_NUMBER, d.itemsize, doubles]), ()
        return None
    if isinstance(x, _STATIC) or getattr(cls, "_pb_static_operand", False):
        return L.T_STATIC, _block([L.T_STATIC]), ()
    return None


_tables: list[Any] = []  # all that ever were: the native side may still read an old one


def know(cls: type, information: Any) -> None:
    """Tells the native side about a type."""
    if not isinstance(engine, Native):
        return
    with _lock:
        _known[cls] = information
        size = 64
        while size < 3 * len(_known):
            size *= 2
        table = np.zeros((size, 2), np.uint64)
        for other, (_, block, _names) in _known.items():
            k = (id(other) >> 4) & (size - 1)
            while table[k, 0]:
                k = (k + 1) & (size - 1)
            table[k] = id(other), ctypes.addressof(block)
        _tables.append(table)
        set_word = engine.functions["set_word"]
        set_word(L.TYPES, 0)  # in between no type is known
        set_word(L.TYPES_MASK, size - 1)
        set_word(L.TYPES, int(table.__array_interface__["data"][0]))


def learn(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Looks through the operands of a call that the fast path did not know for types that it could
    know from now on. Were there any?"""
    new = False
    todo = [*args, *kwargs.values()]
    while todo:
        x = todo.pop()
        cls = type(x)
        if cls is tuple or cls is list:
            todo += x
        elif cls is dict:
            todo += x.values()
        elif cls is slice:
            todo += (x.start, x.stop, x.step)
        elif cls is ArrayImpl or cls in _NUMBERS or x is None or cls is np.ndarray:
            continue
        else:
            found = _known.get(cls)
            if found is None and len(_known) < _MOST_TYPES:
                found = _information(x)
                if found is not None:
                    know(cls, found)
                    new = True
            if found is not None and found[0] == L.T_NAMED:
                todo += x
            elif found is not None and found[0] == L.T_FIELDS:
                todo += [getattr(x, name, None) for names in found[2] for name in names]
    return new


def readable(args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """The operands of a call, with copies of the arrays of NumPy that native code cannot read where
    they lie (transposed, in steps, not aligned); None if there is no such array. To copy them takes
    less than a call through Python."""
    found: tuple[Any, Any] | None = _readable((args, kwargs), L.MAX_NESTING + 2)
    return found


def _readable(x: Any, depth: int) -> Any:
    """A copy of an operand; None if it needs none."""
    kind = type(x)
    if kind is np.ndarray:
        if x.dtype.isnative and not (x.flags.c_contiguous and x.flags.aligned):
            return np.array(x, order="C")
        return None
    if not depth or (kind is not dict and kind is not tuple and kind is not list):
        return None
    items = list(x.values()) if kind is dict else x
    made = [_readable(item, depth - 1) for item in items]
    if all(item is None for item in made):
        return None
    new = [old if copy is None else copy for old, copy in zip(items, made, strict=True)]
    return dict(zip(x, new, strict=True)) if kind is dict else kind(new)


# --- the walk ---
def _walk(x: Any, mode: int, leaves: list[Any], held: list[Any]) -> None:
    kind = type(x)
    if kind is ArrayImpl:
        leaves.append(x)
        held.append(x.aval)
        if x._lies_on is not None:
            held.append(x._lies_on)
    elif kind in _NUMBERS:
        (held if mode & L.BY_VALUE else leaves).append(x)
    elif kind is tuple or kind is list:
        for item in x:
            _walk(item, mode, leaves, held)
    elif kind is dict:
        for key, item in x.items():
            held.append(key)
            _walk(item, mode, leaves, held)
    elif kind is np.ndarray:
        leaves.append(x)
        held.append(x.dtype)
    elif kind is slice:
        for part in (x.start, x.stop, x.step):
            _walk(part, _PARAMETER, leaves, held)
    elif x is not None:
        number, _, names = _known[kind]
        held.append(kind)
        if number == L.T_NAMED:
            for item in x:
                _walk(item, mode, leaves, held)
        elif number == L.T_FIELDS:
            for name in names[0]:
                _walk(getattr(x, name), mode, leaves, held)
            for name in names[1]:
                _walk(getattr(x, name), _PARAMETER, leaves, held)
        elif number == L.T_STATIC:
            held.append(x)
        else:
            leaves.append(x)


def leaves_of(
    args: Sequence[Any], kwargs: dict[str, Any], policy: Policy
) -> tuple[list[Any], list[Any]]:
    """The leaves of a call that has a key, in native order, and the objects whose addresses the
    key holds."""
    leaves: list[Any] = []
    held: list[Any] = []
    for name, x, mode in policy.modes(args, kwargs):
        if name is not None:
            held.append(name)
        if mode is None:
            held.append(x)
        else:
            _walk(x, mode, leaves, held)
    return leaves, held


def _replaced(x: Any, mode: int, new: Callable[[Any], Any]) -> Any:
    kind = type(x)
    if kind in _NUMBERS:
        return x if mode & L.BY_VALUE else new(x)
    if kind is tuple or kind is list:
        return kind([_replaced(item, mode, new) for item in x])
    if kind is dict:
        return {key: _replaced(item, mode, new) for key, item in x.items()}
    if x is None:
        return x
    if kind is slice:
        return slice(*[_replaced(part, _PARAMETER, new) for part in (x.start, x.stop, x.step)])
    if kind is ArrayImpl or kind is np.ndarray or kind not in _known:
        return new(x)
    if kind is PRNGKeyArray:
        words = new(x._base_array)
        return rng.random_wrap(words, impl=x._impl) if isinstance(words, Tracer) else words
    number, _, names = _known[kind]
    if number == L.T_NAMED:
        return tuple.__new__(kind, [_replaced(item, mode, new) for item in x])
    if number == L.T_FIELDS:
        out = object.__new__(kind)
        for name in names[0]:
            object.__setattr__(out, name, _replaced(getattr(x, name), mode, new))
        for name in names[1]:
            object.__setattr__(out, name, getattr(x, name))
        return out
    return new(x) if number == L.T_NUMBER else x


def replaced(
    args: Sequence[Any],
    kwargs: dict[str, Any],
    policy: Policy,
    new: Callable[[Any], Any],
    static: Callable[[Any], Any] = lambda x: x,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with `new(leaf)` for each leaf in native order, and `static(x)` for what is
    compared by identity."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, x, mode in policy.modes(args, kwargs):
        value = static(x) if mode is None else _replaced(x, mode, new)
        if name is None:
            positional.append(value)
        else:
            named[name] = value
    return tuple(positional), named


_NARROW = {"f8": ("f4", L.CODE_ARRAY_F32), "c16": ("c8", L.CODE_ARRAY_C64)} | {
    wide: (narrow, L.CODE_ARRAY_I32) for wide, narrow in (("i8", "i4"), ("u8", "u4"))
}
_IN_CELLS = {L.CODE_ARRAY_F32: L.CODE_F32, L.CODE_ARRAY_C64: L.CODE_C64}


def conversion(x: Any, aval: Any) -> int | None:
    """How a leaf becomes an operand of that type; None if the fast path cannot do it."""
    if type(x) is not np.ndarray and not isinstance(x, np.generic):
        return L.CODE_RAW
    d = x.dtype
    if d == aval.dtype:
        return L.CODE_RAW
    narrow, code = _NARROW.get(d.str[1:], ("", 0))
    if not d.isnative or aval.dtype.str[1:] != narrow:
        return None
    return code if type(x) is np.ndarray else _IN_CELLS.get(code, L.CODE_RAW)


# --- results ---
def _object_new() -> int:
    """The C function behind object.__new__."""
    get = ctypes.pythonapi.PyType_GetSlot
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    return int(get(object, 65))  # Py_tp_new


def _generated(function: Any, cls: type) -> bool:
    """Did `dataclasses` write this method, for this class?"""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename == "<string>"


def _is_made_by_fields(cls: type, names: Sequence[str]) -> bool:
    """Does `cls(**fields)` set these attributes, in order, and nothing else?"""
    if not dataclasses.is_dataclass(cls) or "__dataclass_fields__" not in vars(cls):
        return False
    fields = dataclasses.fields(cls)
    frozen = cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return (
        len(fields) == len(cls.__dataclass_fields__)
        and sorted(f.name for f in fields) == sorted(names)
        and all(f.init for f in fields)
        and _generated(vars(cls).get("__init__"), cls)
        and not hasattr(cls, "__post_init__")
        and cls.__new__ is object.__new__
        and type(cls).__call__ is type.__call__
        and (cls.__setattr__ is object.__setattr__ or bool(frozen))
        and _plain_attributes(cls, names)
    )


def _is_made_by_items(cls: type) -> bool:
    """Is `cls(*items)` what `tuple.__new__(cls, items)` makes?"""
    code = getattr(cls.__new__, "__code__", None)
    return (
        tree.is_namedtuple(cls)
        and code is not None
        and code.co_names == ("_tuple_new",)
        and cls.__init__ is object.__init__  # type: ignore[misc]
        and type(cls).__call__ is type.__call__
    )


def rebuilding(x: Any) -> tuple[int, Any, list[Any], list[Any]] | None:
    """How results of this container's class are made: (instruction, its block of words, the objects
    that the block has addresses of, the container's parts; those in `Constant` are static). None
    for classes that make their objects themselves."""
    cls = type(x)
    if cls is KeyResult:
        return _rebuilt(
            PRNGKeyArray, ["_base_array", "_impl", "_cells", "aval"],
            [x.number, *map(Constant, (x.aval.dtype.impl, False, x.aval))],
        )  # fmt: skip
    if _is_made_by_items(cls):
        return L.P_NAMED, _block([id(cls), len(x)]), [cls], list(x)
    fields = tree.dataclass_fields(cls)
    if fields is None or not _is_made_by_fields(cls, (*fields[0], *fields[1])):
        return None
    names = [f.name for f in dataclasses.fields(cls)]
    parts = [getattr(x, n) if n in fields[0] else Constant(getattr(x, n)) for n in names]
    return _rebuilt(cls, names, parts)


def _rebuilt(
    cls: type, names: list[str], parts: list[Any]
) -> tuple[int, Any, list[Any], list[Any]]:
    """An object without `__init__`, its attributes set one by one."""
    words = [id(cls), len(names), _object_new(), id(()), *map(id, names)]
    return L.P_FIELDS, _block(words), [cls, (), *names], parts


@record
class KeyResult:
    """A result that is an array of keys of type `aval`: its words are output `number`."""

    number: int
    aval: Any


@record
class Constant:
    """A static part of a result."""

    value: Any
