"""The programs of functions: traced once for each combination of argument types, for all that
look at them (`jit` whatever its options, `make_jaxpr`, `eval_shape`).
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .. import compile_log, config, tree
from ..control.key_reuse import check_program
from ..core.build import close_jaxpr, count_trace, trace_to_jaxpr
from ..core.closed_over import ClosedOver
from ..core.high import is_high_value
from ..core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr
from ..core.naming import fun_source_info, late_arg_names, result_names
from ..core.trace import Tracer, trace_context
from ..garbage import uncollected
from ..runtime.stub import Table
from . import misses
from .arguments import debug_info, flat_function

MOST_FUNCTIONS = 4096  # whose programs are remembered; a function may keep itself alive by them


class Program:
    """A traced function: its program, the values that it closed over, and the tree of its
    results.
    """

    def __init__(self, jaxpr: Jaxpr, consts: list[Any], out_tree: Any, seconds: float) -> None:
        self.jaxpr, self.consts, self.out_tree = jaxpr, consts, out_tree
        self.seconds = seconds

    @functools.cached_property
    def parts(self) -> tuple[ClosedJaxpr, list[Any]]:
        """The program with its constants, and the closed-over values that are operands of whoever
        calls it: tracers, references, high-level values."""
        closed, hoisted = close_jaxpr(self.jaxpr, self.consts)
        closed.derived["trace seconds"] = self.seconds
        return closed, hoisted

    @functools.cached_property
    def whole(self) -> ClosedJaxpr:
        """The program with all that it closed over."""
        closed, hoisted = self.parts
        return ClosedJaxpr(self.jaxpr, self.consts) if hoisted else closed

    def reusable(self) -> bool:
        """Does it close over nothing that will be something else the next time?"""
        return not any(isinstance(c, Tracer) or is_high_value(c) for c in self.consts)


class OpenProgram:
    """A program that closed over tracers, as it is remembered: for as long as these mean
    something, and the function would find the same ones.
    """

    __slots__ = ("_closed", "_consts", "_is_hoisted", "_program")

    def __init__(self, fun: Any, program: Program) -> None:
        self._consts = ClosedOver(fun, program.consts)
        self._closed, hoisted = program.parts
        self._is_hoisted = [any(c is h for h in hoisted) for c in program.consts]
        self._program = program.jaxpr, program.out_tree, program.seconds

    def program(self, fun: Any) -> Program | None:
        """The program, with what it closed over; None if it has to be traced anew."""
        consts = self._consts.values(fun)
        if consts is None:
            return None
        jaxpr, out_tree, seconds = self._program
        program = Program(jaxpr, consts, out_tree, seconds)
        hoisted = [c for c, h in zip(consts, self._is_hoisted, strict=True) if h]
        program.__dict__["parts"] = self._closed, hoisted
        return program


class Calls:
    """What `jit` made of one function's programs, for all that were jitted with the same options:
    the traced calls, their native entries, and the functions of the leaves of containers that
    Python opens, by structure.
    """

    __slots__ = ("by_leaves", "entries", "traced")

    def __init__(self) -> None:
        self.traced: dict[Any, Any] = {}
        self.by_leaves: dict[Any, Any] = {}
        self.entries = Table()

    def clear(self) -> None:
        self.traced.clear()
        self.by_leaves.clear()
        self.entries.clear()


class Known:
    """What is remembered of one function: its programs, and what `jit` made of them, by options."""

    __slots__ = ("calls", "programs")

    def __init__(self) -> None:
        self.programs: dict[Any, Program | OpenProgram] = {}
        self.calls: dict[Any, Calls] = {}

    def calls_of(self, options: Any) -> Calls:
        """What functions that are jitted with these options share; nothing if they have no hash."""
        try:
            found = self.calls.get(options)
            if found is None:
                found = self.calls[options] = Calls()
            return found
        except TypeError:
            return Calls()

    def clear(self) -> None:
        self.programs.clear()
        for calls in self.calls.values():
            calls.clear()


_known: weakref.WeakKeyDictionary[Any, Known] = weakref.WeakKeyDictionary()


def known_of(fun: Any) -> Known:
    """What is remembered of a function; of one that has no hash or no weak references, nothing."""
    try:
        found = _known.get(fun)
        if found is None:
            if len(_known) >= MOST_FUNCTIONS:
                _forget_oldest()
            found = _known[fun] = Known()
        return found
    except Exception:  # its __hash__ or __eq__ may be anything
        return Known()


def _forget_oldest() -> None:
    for fun in list(_known)[: MOST_FUNCTIONS // 2]:
        _known.pop(fun, None)


def clear() -> None:
    """Forgets every program."""
    for known in list(_known.values()):
        known.clear()


Statics = tuple[tuple[int | str, type, Any], ...]  # position or name, class, value


def traced(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    statics: Statics,
    in_tree: Any,
    avals: Sequence[Any],
    known: Known | None = None,
) -> Program:
    """The program of `fun` for arguments of which `statics` are part of it, and the others, with
    the structure `in_tree` as (positional, keyword) arguments, have the types `avals`.
    """
    known = known or known_of(fun)
    key = (statics, in_tree, tuple(avals), trace_context())
    try:
        held = known.programs.get(key)
        program = held.program(fun) if isinstance(held, OpenProgram) else held
    except Exception:  # of static arguments that cannot be hashed or compared
        key, program = None, None  # type: ignore[assignment]
    if program is None:
        if config.explain_cache_misses.get():
            names = _debug_info(fun, args, kwargs, *_parts(statics), in_tree, avals).arg_names
            misses.explain(fun, key, list(known.programs), names)
        program = trace(fun, args, kwargs, statics, in_tree, avals)
        if key is not None and not any(map(is_high_value, program.consts)):
            known.programs[key] = program if program.reusable() else OpenProgram(fun, program)
    return program


def trace(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    statics: Statics,
    in_tree: Any,
    avals: Sequence[Any],
) -> Program:
    """As `traced`, anew."""
    fixed, named = _parts(statics)
    n = len(args)

    def call(*dynamic: Any, **kw: Any) -> Any:
        rest = iter(dynamic)
        return fun(*(fixed[k] if k in fixed else next(rest) for k in range(n)), **kw, **named)

    call.__wrapped__ = fun  # type: ignore[attr-defined]
    out: dict[str, Any] = {}
    count_trace()
    start = time.perf_counter()
    info = _debug_info(fun, args, kwargs, fixed, named, in_tree, avals)
    with uncollected:
        jaxpr, consts = trace_to_jaxpr(flat_function(call, in_tree, out, "jit"), avals, info)
    info.set_result_paths(lambda: result_names(out["tree"]))
    program = Program(jaxpr, consts, out["tree"], time.perf_counter() - start)
    compile_log.note_trace(info.func_name, program.seconds)
    if config.debug_key_reuse.get():
        check_program(program.parts[0])
    return program


def _parts(statics: Statics) -> tuple[dict[int, Any], dict[str, Any]]:
    """Static arguments by position, and by name."""
    fixed = {k: x for k, _, x in statics if isinstance(k, int)}
    return fixed, {k: x for k, _, x in statics if isinstance(k, str)}


class _Static:
    """Stands for a static argument among names."""


def _debug_info(
    fun: Any, args: Any, kwargs: Any, fixed: Any, named: Any, in_tree: Any, avals: Sequence[Any]
) -> Any:
    if not fixed and not named:
        names = late_arg_names(fun, args, kwargs, in_tree, avals)
        return DebugInfo("jit", fun_source_info(fun), names)
    info = debug_info("jit", fun, args, kwargs)
    # Names of the dynamic leaves only: static arguments may be anything, so each is counted as its
    # leaves.
    holder = tuple(_Static() if k in fixed else x for k, x in enumerate(args))
    kw = {k: (_Static() if k in named else v) for k, v in kwargs.items()}
    standing = debug_info("jit", fun, holder, kw)
    flat = list(tree.flatten((holder, kw))[0])
    if standing.arg_names and len(standing.arg_names) == len(flat):
        pairs = zip(standing.arg_names, flat, strict=True)
        info.set_names(tuple([n for n, x in pairs if not isinstance(x, _Static)]))
    return info
