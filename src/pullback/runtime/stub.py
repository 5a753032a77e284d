"""The native fast path of calls: jitted functions, operators and row reads, from an argument key
to a run plan.

For the layers above:

* `new_function(slow, statics=0)`: a JitFunction; `slow(*args, **kwargs)` does what no entry does.
  `statics` is a bit mask of positional arguments that are compared by identity and are no
  operands. Methods and attributes can be set on it.
* In `slow`, after the work is done: `key = signature(statics, args, kwargs)` (None: this call
  cannot be native), then `entry = plan_entry(key, ...)` and `add_entry(function, entry)`;
  `add_operator_entry(name, entry)` for operators.
* `leaf_order(flatten, args, kwargs, statics)`: for each leaf that `flatten((args, kwargs))` gives,
  its number in native order.
* `result_of(tree_of_numbers, unflatten)`: how outputs become the Python result.
* `Table().serve(function)`: a function whose entries are those of others that mean the same.
* `fast_path_open()`: may entries be added now (no trace, nothing to debug)?

An entry serves while the flags are what they were when it was made: `config_key()` numbers their
values. One thread may have values of its own, as in `with enable_x64():`; while two have, or a
trace is in progress in any thread, every call takes the slow way.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
import threading
import weakref
from array import array
from collections.abc import Callable, Collection, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from pullback import config
from pullback.backends import llvm
from pullback.core import avals, trace
from pullback.forking import renewed
from pullback.primitives import keys
from pullback.runtime import native_layout as L, operands
from pullback.runtime.array import ArrayImpl
from pullback.runtime.memory import alloc_address, engine, free_address
from pullback.runtime.meshes import any_mesh_in_force, meshes_of_main_thread
from pullback.runtime.native import Native
from pullback.runtime.operands import Policy

__all__ = [
    "Entry", "JitFunction", "Table", "add_entry", "add_operator_entry", "add_row_entry",
    "clear_entries", "clear_operator_entries",
    "config_key", "entry_count", "fast_path_open", "leaf_order", "make_entry", "native_leaves",
    "new_function", "plan_entry",
    "result_of", "signature",
]  # fmt: skip

JitFunction: Any = engine.JitFunction
_native = engine if isinstance(engine, Native) else None
_signature = engine.functions["signature"]
_COPIED_DICT = 6  # dicts of so many keys would grow while they are filled: another one is copied
_MAX_ENTRIES = 512  # of one function; 8 times as many of one operator
_lock = renewed(threading.RLock())


def new_function(
    slow: Callable[..., Any],
    statics: int = 0,
    plain: Callable[..., Any] | None = None,
    named: tuple[str, ...] = (),
    forwards: bool = False,
) -> Any:
    """A JitFunction in front of a Python function.

    `statics` marks the positions that are compared by identity, `named` are such keywords. With
    `plain`, an eager function: `plain` is called while something is traced, `statics` marks the
    positions whose numbers are part of the key, `named` are the keywords whose are not. What it
    returns is never an argument itself, but another array over its memory, unless it `forwards`.
    """
    if not callable(slow):
        raise TypeError(f"new_function: expected a callable, got {slow!r}")
    names = tuple(map(sys.intern, named)) or None
    return engine.functions["new_function"](slow, statics, plain, names, int(forwards))


def wraps(native: Any, fun: Callable[..., Any]) -> None:
    """Gives a JitFunction the name, the documentation and the annotations of what it stands for."""
    if type(fun) is FunctionType:  # what `update_wrapper` does, in half the time
        native.__dict__.update(
            fun.__dict__, __module__=fun.__module__, __name__=fun.__name__, __doc__=fun.__doc__,
            __qualname__=fun.__qualname__, __annotations__=fun.__annotations__, __wrapped__=fun,
        )  # fmt: skip
        return
    try:
        functools.update_wrapper(native, fun)
    except (AttributeError, TypeError):
        native.__wrapped__ = fun


def signature(of: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bytes | None:
    """The native key of a call, or None if one of its operands is nothing that the fast path
    knows. `of` is the function, or the mask of static positions of a jitted one (0 for operators).
    """
    key = _signature(of, *args, **kwargs)
    if key is None and _native is not None and operands.learn(args, kwargs):
        key = _signature(of, *args, **kwargs)
    return key  # type: ignore[no-any-return]


# --- keys ---
def _policy(of: int | Policy) -> Policy:
    return of if isinstance(of, Policy) else Policy(of)


def native_leaves(
    args: Sequence[Any], kwargs: dict[str, Any], statics: int | Policy = 0
) -> tuple[list[Any], list[Any]]:
    """The leaves of a call in native order, and the objects whose addresses its key holds."""
    return operands.leaves_of(args, kwargs, _policy(statics))


def leaf_order(
    flatten: Callable[[Any], list[Any]],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    statics: int | Policy = 0,
) -> list[int]:
    """For each leaf of `flatten((args, kwargs))`, static arguments replaced by None, its number in
    native order."""
    counter = iter(range(1 << 30))
    number = lambda _: next(counter)
    return flatten(operands.replaced(args, kwargs, _policy(statics), number, lambda _: None))


# --- results ---
Result = tuple[int, Any]
_UNKNOWN = object()  # a container of which nothing is known


def result_of(
    tree: Any, unflatten: Callable[[Any], Any] | None = None, out_avals: Sequence[Any] = ()
) -> Result:
    """How outputs become a result: `tree` has output numbers as leaves, `KeyResult`s for keys; for
    other containers `unflatten(tuple of outputs)`, those that are keys by `out_avals` made keys
    before."""
    if type(tree) is int and tree == 0:
        return L.RESULT_SINGLE, None
    for kind, code in ((tuple, L.RESULT_TUPLE), (list, L.RESULT_LIST)):
        if type(tree) is kind and all(type(x) is int and x == k for k, x in enumerate(tree)):
            return code, None
    words: list[int] = []
    held: list[Any] = []
    depth = _program(tree, words, held, 0)
    if depth is not None and depth < L.MAX_RESULT_STACK:
        return L.RESULT_PROGRAM, ([*words, L.P_END, 0], held)
    if unflatten is None:
        raise TypeError("result_of: the tree has containers that need an unflatten function")
    if any(map(keys.is_key_aval, out_avals)):
        plain = unflatten
        unflatten = lambda outs: plain(keys.wrap_results(outs, out_avals))
    return L.RESULT_CALL, unflatten


def result_of_call(
    out_tree: Any, unflatten: Callable[..., Any], out_avals: Sequence[Any]
) -> Result:
    """`result_of` for a tree structure and the types of its leaves."""
    leaves = [
        operands.KeyResult(k, aval) if keys.is_key_aval(aval) else k
        for k, aval in enumerate(out_avals)
    ]
    try:
        pattern = unflatten(out_tree, leaves)
    except Exception:  # a container of the user's that holds nothing but arrays, say
        pattern = _UNKNOWN
    return result_of(pattern, lambda outs: unflatten(out_tree, outs), out_avals)


def _program(tree: Any, words: list[int], held: list[Any], depth: int) -> int | None:
    """Appends the postfix program of a tree; the deepest stack it needs, or None if a container is
    unknown."""
    kind = type(tree)
    if kind is int:
        words += [L.P_LEAF, tree]
        return depth + 1
    if tree is None:
        held.append(tree)
        words += [L.P_CONST, id(tree)]
        return depth + 1
    if kind is operands.Constant:
        held.append(tree.value)
        words += [L.P_CONST, id(tree.value)]
        return depth + 1
    made = None
    if kind not in (tuple, list, dict):
        made = operands.rebuilding(tree)
        if made is None:
            return None
    items = made[3] if made else list(tree.values()) if kind is dict else tree
    deepest = depth + 1
    for k, item in enumerate(items):
        below = _program(item, words, held, depth + k)
        if below is None:
            return None
        deepest = max(deepest, below)
    if made is not None:
        instruction, block, objects, _ = made
        held += [block, *objects]
        words += [instruction, ctypes.addressof(block)]
    elif kind is dict:
        keys = tuple(tree)
        pattern = dict.fromkeys(keys) if len(keys) >= _COPIED_DICT else None
        block = (ctypes.c_int64 * 2)(id(keys), id(pattern) if pattern is not None else 0)
        held += [keys, pattern, block]
        words += [L.P_DICT, ctypes.addressof(block)]
    else:
        words += [L.P_TUPLE if kind is tuple else L.P_LIST, len(items)]
    return deepest


# --- entries ---
class Entry:
    """What runs when a key is met. Holds everything that the native side has only addresses of."""

    __slots__ = ("__weakref__", "address", "config", "keep", "on_error", "on_host", "plan", "words")

    def __init__(self, key: Sequence[int], keep: Sequence[Any]) -> None:
        self.keep: list[Any] = list(keep)
        self.words: list[int] = list(key)
        self.config = config_key()
        self.address = 0
        self.on_error: Callable[[int, int, int], Any] | None = None
        self.on_host: Callable[[int, int, int], Any] | None = None
        self.plan: llvm.Plan | None = None

    def block(self, words: Sequence[int]) -> int:
        """The address of words that live as long as the entry."""
        data = array("q", [_signed(w) for w in words] or [0])
        self.keep.append(data)
        return data.buffer_info()[0]

    def finish(self, fields: dict[int, int]) -> Entry:
        """Packs the native part."""
        packed = [0] * L.ENTRY_WORDS
        base = {
            L.E_OWNER: id(self), L.E_NKEYS: len(self.words), L.E_KEYS: self.block(self.words),
            L.E_CONFIG: self.config }  # fmt: skip
        for offset, word in (base | fields).items():
            packed[offset // 8] = word
        self.address = self.block(packed)
        return self


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 > 0 else word


# By number of threads (None: what is in force in the process). Entries have their addresses, so
# that they are never given up.
_contexts: dict[int | None, Any] = {}


def _shared_context(threads: int | None = None) -> int:
    """The address of the context block that runs on so many threads are given a copy of."""
    with _lock:
        if threads not in _contexts:
            _contexts[threads] = llvm.Context(alloc_address, free_address)
        for n, context in _contexts.items():
            context.reset(n or llvm.runtime().process_threads)
        _tell_thread_counts()
    return int(_contexts[threads].address)


def refresh_context() -> None:
    """After the number of threads has changed, of the process or of one thread."""
    if None in _contexts:
        _shared_context()


_thread_counts: list[Any] = []  # what the native side has the address of


def _tell_thread_counts() -> None:
    """Gives the native side the threads that have a number of threads of their own."""
    if _native is None:
        return
    counts = list(config.thread_counts.items())
    if not counts and not _thread_counts:
        return
    runtime = llvm.runtime()
    runtime.ensure_workers(max((n for _, n in counts), default=1))
    words = [len(counts), runtime.pool if runtime.workers else 0]
    words += [word for pair in counts for word in pair]
    block = (ctypes.c_int64 * len(words))(*map(_signed, words))
    _native.functions["set_word"](L.THREAD_COUNTS, ctypes.addressof(block) if counts else 0)
    _thread_counts[:] = [block] if counts else []


def make_entry(
    key: bytes,
    held: Sequence[Any],
    leaves: Sequence[tuple[int, int]],
    run: dict[int, int],
    slots: Sequence[int],
    outs: Sequence[tuple[int, int, int, Any]],
    result: Result,
    *,
    donated: Sequence[tuple[int, int]] = (),
    flags: int = 0,
    keep: Sequence[Any] = (),
    ctx: int = 0,
    committed: Sequence[Any] | None = None,
) -> Entry:
    """An entry from its parts.

    `leaves`: slot (or -1) and conversion code of each leaf in native order. `run`: the fields
    E_MODE, E_FN, E_PLAN, E_SCALARS, E_CLEANUP, E_SIZES. `slots`: the slot table's initial words.
    `outs`: (kind, slot or leaf or object's address, bytes, aval). `donated`: (leaf, bits).
    `committed`: the outputs' shardings, if they are committed.
    ValueError if it is too large for the native path.
    """
    (count,), words = (
        struct.unpack_from("<q", key),
        struct.unpack_from(f"<{len(key) // 8 - 1}Q", key, 8),
    )
    if count != len(leaves):
        raise ValueError(f"make_entry: the key has {count} leaves, {len(leaves)} were described")
    if len(slots) > L.MAX_SLOTS or len(outs) > L.MAX_LEAVES:
        raise ValueError("make_entry: too many slots or outputs for the native path")
    entry = Entry(words, [*held, *keep, *(aval for *_, aval in outs)])
    codes = [code for _, code in leaves]
    fields = dict(run)
    fields.setdefault(L.E_SIZES, -1)
    fields |= {
        L.E_NLEAVES: count, L.E_ARG_SLOTS: entry.block([slot for slot, _ in leaves]),
        L.E_ARG_CODES: entry.block(codes) if any(codes) else 0, L.E_CTX: ctx or _shared_context(),
        L.E_NSLOTS: len(slots), L.E_SLOTS: entry.block(slots), L.E_NOUTS: len(outs),
        L.E_OUTS: entry.block([w for kind, where, size, aval in outs for w in (where, size,
        id(aval), kind)]), L.E_FLAGS: flags, L.E_NDONATED: len(donated), L.E_DONATED:
        entry.block([w for pair in donated for w in pair]), }  # fmt: skip
    if committed is not None:
        entry.keep += committed
        shardings = [
            0 if s is None or kind == L.OUT_ARGUMENT else id(s)
            for s, (kind, *_) in zip(committed, outs, strict=True)
        ]
        fields[L.E_COMMITTED] = entry.block(shardings)
    kind, argument = result
    fields[L.E_RESULT] = kind
    if kind == L.RESULT_PROGRAM:
        program, objects = argument
        entry.keep += objects
        fields[L.E_RESULT_ARG] = entry.block(program)
    elif kind == L.RESULT_CALL:
        entry.keep.append(argument)
        fields[L.E_RESULT_ARG] = id(argument)
    elif kind == L.RESULT_SINGLE and len(outs) != 1:
        raise ValueError("make_entry: a single result needs exactly one output")
    return entry.finish(fields)


def plan_entry(
    key: bytes,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    plan: Any,
    ins: Sequence[int],
    order: Sequence[int],
    consts: Sequence[tuple[int, Any]],
    outs: Sequence[tuple[int, Any]],
    result: Result,
    *,
    statics: int | Policy = 0,
    donated: Sequence[bool] = (),
    forwards: Collection[int] = (),
    lie: Callable[[Sequence[Any]], Sequence[Any] | None] | None = None,
    scalar_codes: Sequence[int] = (),
    in_avals: Sequence[Any] = (),
    release_gil: bool = False,
    threads: int | None = None,
    keep: Sequence[Any] = (),
    on_error: Callable[[int, int, int], Any] | None = None,
    on_host: Callable[[int, Any], Any] | None = None,
) -> Entry | None:
    """The entry of a call that runs a plan; None if this call cannot be native.

    `ins`: the slots of the program's inputs; `order`: the number of each input's leaf in native
    order (`leaf_order`); `in_avals`: their types (empty: as the leaves are); `consts`: slots and
    Arrays; `outs`: slots and avals of the outputs, in
    the order of the result's leaves; `forwards`: the numbers of those that are an argument itself,
    not another array over its memory; `lie(arguments)`: the shardings of the outputs, None where
    they are not committed; `donated` and `scalar_codes` (CODE_F32 for a Python float
    whose slot takes a float32, ...) go with `ins`. `threads`: how many threads, whatever is in
    force where the call is. `on_error(pc, code, equation)` must raise;
    `on_host(number, slots)` does a host step.
    """
    if _native is None:
        return None
    leaves, held = native_leaves(args, kwargs, statics)
    where = dict(zip(ins, order, strict=True))
    if len(where) != len(ins):
        return None
    if in_avals:
        found = [operands.conversion(leaves[k], a) for k, a in zip(order, in_avals, strict=True)]
        if None in found:
            return None
        scalar_codes = found  # type: ignore[assignment]
    if any(d and type(leaves[k]) is not ArrayImpl for k, d in zip(order, donated, strict=False)):
        return None  # there is nothing to donate
    described = _describe_leaves(len(leaves), ins, order, scalar_codes)
    table = [0] * plan.slot_words
    const_at = dict(consts)
    for slot, constant in consts:
        table[slot] = constant._data
    gone = {slot: leaf for slot, leaf, d in zip(ins, order, donated, strict=False) if d}
    raw = [k for k, (_, code) in enumerate(described) if code == L.CODE_RAW]
    held_as = {k: leaves[k] for k in raw}  # whose memory or cell is of the argument's type
    rows = _describe_outputs(plan, outs, where, const_at, held_as, set(gone.values()), forwards)
    if rows is None:
        return None
    owned = set(plan.owned)
    taken = {slot for kind, slot, _, _ in rows if kind == L.OUT_DONATED}
    bits = [
        (leaf, L.DONATED_SWAPPED * (slot in owned) | L.DONATED_TAKEN * (slot in taken))
        for slot, leaf in gone.items()
    ]
    symbols = llvm.runtime().code.symbols
    run = {
        L.E_MODE: L.MODE_PLAN, L.E_FN: symbols["pb_drive"], L.E_CLEANUP: symbols["pb_cleanup"],
        L.E_PLAN: plan.head.value, L.E_SIZES: plan.slots,
    }  # fmt: skip
    converts = any(code >= L.CODE_ARRAY_F32 for code in scalar_codes)
    flags = (
        L.FLAG_RELEASE_GIL * release_gil
        | L.FLAG_HOLD * (on_host is not None)
        | L.FLAG_CONVERT * converts
        | L.FLAG_THREADS * (threads is not None)
    )
    keeping = [*keep, plan, *const_at.values()]
    try:
        entry = make_entry(
            key, held, described, run, table, rows, result, donated=bits, flags=flags, keep=keeping,
            committed=lie([leaves[k] for k in order]) if lie is not None else None,
            ctx=_shared_context(threads),
        )  # fmt: skip
    except ValueError:
        return None
    entry.on_error, entry.plan = on_error, plan
    if on_host is not None:
        entry.on_host = _host_step(plan, on_host)
    return entry


def _describe_leaves(
    count: int, ins: Sequence[int], order: Sequence[int], codes: Sequence[int]
) -> list[tuple[int, int]]:
    """Slot and code of every leaf; those that the program does not take have no slot."""
    described = [(-1, 0)] * count
    for k, (slot, leaf) in enumerate(zip(ins, order, strict=True)):
        described[leaf] = (slot, codes[k] if k < len(codes) else L.CODE_RAW)
    return described


def _host_step(plan: Any, on_host: Callable[[int, Any], Any]) -> Callable[[int, int, int], Any]:
    """What machine code calls for a host step: by the step's number, and the slots' address."""
    words = plan.slot_words
    return lambda pc, address, ctx: on_host(
        plan.steps[pc][1], (ctypes.c_int64 * words).from_address(address)
    )


def _describe_outputs(
    plan: Any,
    outs: Sequence[tuple[int, Any]],
    where: dict[int, int],
    consts: dict[int, Any],
    leaves: dict[int, Any],
    gone: set[int],
    forwards: Collection[int],
) -> list[tuple[int, int, int, Any]] | None:
    """The outputs' kinds; None if one is an argument whose memory (`leaves`) holds another type."""
    owned = set(plan.owned)
    first: dict[int, int] = {}
    rows: list[tuple[int, int, int, Any]] = []
    for number, (slot, aval) in enumerate(outs):
        nbytes = aval.size * aval.dtype.itemsize
        if slot in first:
            if outs[first[slot]][1] is not aval:
                return None
            rows.append((L.OUT_OF_OUTPUT, first[slot], nbytes, aval))
        elif slot in where:
            leaf = leaves.get(where[slot])
            if where[slot] in gone and type(leaf) is ArrayImpl and nbytes:
                rows.append((L.OUT_DONATED, slot, nbytes, aval))
                first[slot] = number
                continue
            if leaf is None or where[slot] in gone:
                return None
            if type(leaf) is ArrayImpl and leaf.aval is not aval:
                return None
            kind = L.OUT_ARGUMENT if number in forwards else L.OUT_OF_ARGUMENT
            rows.append((kind, where[slot], nbytes, aval))
        elif slot in consts:
            if consts[slot].aval is not aval:
                return None
            rows.append((L.OUT_OF_CONST, id(consts[slot]), nbytes, aval))
        else:
            rows.append((L.OUT_SWAPPED if slot in owned else L.OUT_ALLOCATE, slot, nbytes, aval))
        first.setdefault(slot, number)
    return rows


# --- tables ---
class Table:
    """The entries of one function or operator, and their hash table for the native side; or those
    of several functions that mean the same.

    The native side looks entries up with the GIL held, and never runs Python while it does: so an
    entry may be put into a free place of the table that is in use. What a new table replaces is
    kept in `retired` until the native side has been told.
    """

    def __init__(self, limit: int = _MAX_ENTRIES) -> None:
        self.entries: dict[tuple[int, tuple[int, ...]], Entry] = {}
        self.limit = limit
        self.data: Any = None
        self.mask = -1
        self.retired: list[Any] = []
        self.functions: weakref.WeakSet[Any] = weakref.WeakSet()

    def serve(self, function: Any) -> None:
        """Makes these the entries of one more function."""
        if _native is None:
            return
        with _lock:
            self.functions.add(function)
            self._tell(function)

    def tell(self) -> None:
        """Tells the native side of each function where the entries are."""
        for function in self.functions:
            self._tell(function)
        self.retired.clear()

    def _tell(self, function: Any) -> None:
        address = 0 if self.data is None else self.address
        engine.functions["set_table"](function, address, max(self.mask, 0), self)

    def clear(self) -> None:
        """Forgets every entry."""
        with _lock:
            self.retired += [self.entries, self.data]
            self.entries, self.data, self.mask = {}, None, -1
            self.tell()

    def add(self, entry: Entry) -> None:
        key = (entry.config, tuple(entry.words))
        replaced = self.entries.pop(key, None)
        self.entries[key] = entry
        if replaced is None and len(self.entries) <= min(self.limit, (self.mask + 1) // 2):
            self._put(entry)
            return
        self.retired += [self.data, replaced]
        if len(self.entries) > self.limit:
            self.retired += [self.entries.pop(old) for old in list(self.entries)[: self.limit // 2]]
        size = 8
        while size < 3 * len(self.entries):
            size *= 2
        self.data, self.mask = np.zeros((size, 2), np.uint64), size - 1
        for e in self.entries.values():
            self._put(e)

    def _put(self, entry: Entry) -> None:
        h = L.hash_words(entry.words)
        k = h & self.mask
        while self.data[k, 1]:
            k = (k + 1) & self.mask
        self.data[k] = h, entry.address

    @property
    def address(self) -> int:
        return int(self.data.__array_interface__["data"][0])


def add_entry(function: Any, entry: Entry | None) -> bool:
    """Makes calls with the entry's key native; False if the fast path is not for now."""
    if entry is None or _native is None or entry.config < 0:
        return False
    with _lock:
        table = function._entries
        if table is None:
            table = Table()
            table.serve(function)
        table.add(entry)
        if table.retired:
            table.tell()
    return True


def clear_entries(function: Any) -> None:
    """Forgets every entry of a function, and of those that share them."""
    if function._entries is not None:
        function._entries.clear()


def entry_count(function: Any) -> int:
    """How many argument types are native for a function."""
    return len(function._entries.entries) if function._entries is not None else 0


_operators: dict[str, Table] = {}


def _set_operator_table(name: str, table: Table | None) -> None:
    """Tells the native side; meanwhile the operator has no table, so every state is a valid one."""
    assert _native is not None
    where = L.OPERATORS + L.OPERATOR_BYTES * L.OPERATOR_INDEX[name]
    set_word = _native.functions["set_word"]
    set_word(where, 0)
    set_word(where + 16, 0)
    if table is not None:
        set_word(where + 8, table.mask)
        set_word(where, table.address)
        table.retired.clear()


def add_operator_entry(name: str, entry: Entry | None) -> bool:
    """The same for an operator (a name of `native_layout.OPERATOR_NAMES`)."""
    if entry is None or _native is None or entry.config < 0:
        return False
    with _lock:
        table = _operators.setdefault(name, Table(8 * _MAX_ENTRIES))
        table.add(entry)
        _set_operator_table(name, table)
    return True


def clear_operator_entries() -> None:
    """Forgets every operator's entries."""
    if _native is not None:
        with _lock:
            for name in list(_operators):
                _set_operator_table(name, None)
                del _operators[name]


def add_row_entry(
    aval: Any, row_aval: Any, committed: Any = None, row_committed: Any = None
) -> bool:
    """Makes `a[i]`, for arrays of that aval and sharding (None: not committed) and an int i in
    range, a native copy of one row."""
    if _native is None or not fast_path_open() or not aval.shape:
        return False
    words = [id(aval)] if committed is None else [id(aval), id(committed)]
    entry = Entry(words, [aval, row_aval, committed, row_committed])
    nbytes = row_aval.size * row_aval.dtype.itemsize
    where = 0 if row_committed is None else id(row_committed)
    entry.finish(
        {L.R_ROWS: aval.shape[0], L.R_BYTES: nbytes, L.R_AVAL: id(row_aval), L.R_COMMITTED: where}
    )
    return add_operator_entry("getitem", entry)


# --- when the fast path stands back ---
_configurations: dict[tuple[Any, ...], int] = {}
_DEBUGGING = (
    config.debug_nans,
    config.debug_infs,
    config.disable_jit,
    config.debug_key_reuse,
    config.check_tracer_leaks,
    config.no_execution,
)
# What only matters while programs are made: calls of those that are known do not ask.
_OF_THE_MAKING = (
    config.enable_checks,
    config.explain_cache_misses,
    config.log_compiles,
    config.no_tracing,
    config.traceback_filtering,
)

_NOTING = (
    config.error_checking_behavior_nan,
    config.error_checking_behavior_divide,
    config.error_checking_behavior_oob,
)


def _word(offset: int) -> Any:
    return _native.word(offset) if _native is not None else ctypes.c_int64(-1)


_shared_config, _own_config, _own_thread = map(_word, (L.CONFIG_KEY, L.OWN_CONFIG, L.OWN_THREAD))
_int_bits, _scalar_float = map(_word, (L.INT_BITS, L.SCALAR_FLOAT))


def config_key() -> int:
    """The number of the flags' values and of the mesh in force in this thread, negative while the
    fast path stands back."""
    mine = _own_thread.value == threading.get_ident()
    return int((_own_config if mine else _shared_config).value)


def native_config() -> int:
    """`config_key()` where no mesh is in force; negative with a mesh."""
    return -1 if any_mesh_in_force() else config_key()


@functools.lru_cache(256)
def _number(process: int, own: frozenset[tuple[config.Flag, Any]], meshes: Any) -> int:
    """The number of a thread's values: those of the process, which have changed so often, but
    `own`."""
    values = dict(own)
    debugging = any(values.get(flag, flag.value) for flag in _DEBUGGING)
    told = (*_DEBUGGING, *_OF_THE_MAKING)
    known = all(flag.in_context or flag in told for flag in values)
    if config.noting:
        debugging |= any(values.get(flag, flag.value) != "ignore" for flag in _NOTING)
    if debugging or config.transfers_guarded() or not known:
        return -1
    key = (*config.global_trace_values(values), meshes)
    return _configurations.setdefault(key, len(_configurations))


@functools.lru_cache(256)
def _numbers(
    process: int, owned: bool, meshes: Any, *own: tuple[config.Flag, Any]
) -> tuple[int, int, bool]:
    """The number of the process's values, that of the thread's that has `own` ones (-1: there is
    none), and whether Python's numbers are wide."""
    shared = _number(process, frozenset(), None)
    mine = _number(process, frozenset(own), meshes) if owned else -1
    wide = config.enable_x64.value
    if mine >= 0 and dict(own).get(config.enable_x64, wide) != wide:
        wide, shared = not wide, -1
    return shared, mine, wide


def fast_path_open() -> bool:
    """May entries be made and used now?"""
    return _native is not None and trace.trace_state_clean() and config_key() >= 0


def _configure() -> None:
    """After a flag has changed, or the mesh in force.

    One thread may have flags, or a mesh, of its own: it has a number of its own. Python's numbers
    have one type at a time on the native side: a thread for which they have the other one stands
    back."""
    if _native is None:
        return
    set_word = _native.functions["set_word"]
    with _lock:
        set_word(L.CONFIG_KEY, -1)
        set_word(L.OWN_CONFIG, -1)
        own, meshes = config.overrides(), None
        owners: Collection[int] = own
        if any_mesh_in_force():
            meshes = meshes_of_main_thread()
            owners = {*own, threading.main_thread().ident or 0}
        if len(owners) > 1 or (meshes is None and any_mesh_in_force()):
            set_word(L.OWN_THREAD, 0)
            return
        thread = next(iter(owners), 0)
        set_word(L.OWN_THREAD, thread)
        changed = own[thread].items() if thread in own else ()
        shared, mine, wide = _numbers(config.process_epoch, thread != 0, meshes, *changed)
        _set_scalars(wide)
        set_word(L.OWN_CONFIG, mine)
        set_word(L.CONFIG_KEY, shared)


def _set_scalars(wide: bool) -> None:
    """Tells the native side the types of Python's numbers, with or without x64."""
    assert _native is not None
    bits = 64 if wide else 32
    if _int_bits.value == bits and _scalar_float.value:
        return
    for offset, kind in (
        (L.SCALAR_FLOAT, float), (L.SCALAR_INT, int), (L.SCALAR_BOOL, bool),
        (L.SCALAR_COMPLEX, complex),
    ):  # fmt: skip
        _native.functions["set_object"](offset, avals.aval_of_numbers(kind, wide))
    _native.functions["set_word"](L.INT_BITS, bits)


def _on_error(entry: Entry, pc: int, code: int, equation: int) -> None:
    if entry.on_error is not None:
        entry.on_error(pc, code, equation)
    raise llvm.PlanError(code, equation, pc)


def _on_host(entry: Entry, pc: int, slots: int, ctx: int) -> None:
    """What a plan stops for and goes on after: a host step, a kernel without good code."""
    if entry.plan is not None and entry.plan.finishes(pc):
        return
    if entry.on_host is None:
        raise RuntimeError(
            "internal error in pullback: a plan with host steps was run without them"
        )
    entry.on_host(pc, slots, ctx)


def _serial_after_fork() -> None:
    """The child has no workers; the next entry that is made starts some. Of the parent's threads it
    has the one that forked."""
    me = threading.get_ident()
    for gone in [thread for thread in config.thread_counts if thread != me]:
        del config.thread_counts[gone]
    if not config.thread_counts and _native is not None:
        _native.functions["set_word"](L.THREAD_COUNTS, 0)
    for context in _contexts.values():
        context.forget_workers()


def _install() -> None:
    if _native is None:
        return
    add_word = _native.functions["add_word"]
    trace.depth_hooks.append(lambda delta: add_word(L.TRACE_DEPTH, delta))
    _native.functions["set_object"](L.ERROR_HOOK, _on_error)
    _native.functions["set_object"](L.HOST_HOOK, _on_host)
    config.on_change.append(_configure)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_serial_after_fork)
    config.on_threads.append(refresh_context)
    _configure()


_install()
