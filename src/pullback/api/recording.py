"""Gradients of Python functions that are called again and again: the function runs each time, its
operations do not.

While a function is differentiated eagerly, each public function that it calls, and each primitive,
is only written down: what it was, and which values it took. If the same list has been seen before,
its gradient is a compiled program, which is run on the arguments. The function's own Python runs at
every call, as ever; so whatever it does differently, another list comes of it.

Nothing else is different. As soon as anything asks for a value (a branch, a print, a rule of a
custom derivative, another transformation), what is on the list is done by the ordinary trace, of
which this one is a subclass, and the rest of the function goes the ordinary way.
"""

from __future__ import annotations

import enum
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from .. import dtypes, tree
from ..control.call import APART, call_params, jit_p
from ..control.remat import remat_p
from ..core.avals import intern, typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, eval_jaxpr, jaxprs_in_params
from ..core.refs import holds_refs
from ..core.symbolic import Zero
from ..core.trace import Tracer, base_trace, escaped_tracer_error, trace_state_clean, use_trace
from ..primitives.convert import convert_element_type_p
from ..runtime import dispatch, stub
from ..runtime.array import ArrayImpl
from ..runtime.commitment import Flow, held
from ..runtime.shardings import default_place
from ..transforms.jvp import JVPTracer
from ..transforms.linearize import LinearizeTrace, finish
from ..transforms.partial_eval import PartialEvalTrace

__all__ = ["LazyPair", "Recording", "start"]

SEEN = 3  # the call with a known list that has it compiled
REMEMBERED = 4096  # lists, and operations of one function
LONGEST = 500  # operations: longer lists are not compiled as one program

_NUMBERS = (bool, int, float, complex)
_STATIC = (str, type, np.dtype, enum.Enum, EllipsisType, bool, int, float, type(None))
_UNSET: Any = object()


class _Unrecordable(Exception):
    """This operation is not written down."""


class Operation:
    """An operation on values of certain types: its program, and how its results are arranged."""

    __slots__ = ("avals", "closed", "jitted", "masks", "single", "tree")

    def __init__(self, closed: ClosedJaxpr, out_tree: Any, jitted: bool = False) -> None:
        self.closed, self.tree, self.jitted = closed, out_tree, jitted
        self.avals = [intern(a) for a in closed.out_avals]
        self.single = tree.treedef_is_leaf(out_tree)
        # Its product with a mask selects; its derivatives, which are other calls, multiply.
        self.masks = _converts_masks(closed.jaxpr)


def _converts_masks(jaxpr: Any) -> bool:
    return any(
        (e.primitive is convert_element_type_p and dtypes.is_bool(e.invars[0].aval.dtype))
        or any(map(_converts_masks, jaxprs_in_params(e.params)))
        for e in jaxpr.eqns
    )


class LazyPair(JVPTracer):
    """A value on the list; asked for its primal or tangent, it has the list done."""

    __module__ = JVPTracer.__module__  # to those who ask what a value's type is, it is one of them
    __slots__ = ("_aval", "_primal", "_tangent", "index")

    def __init__(self, trace: Recording, aval: Any, primal: Any, index: int) -> None:
        self._trace = trace
        self._aval, self._primal, self.index = aval, primal, index
        self._tangent = _UNSET

    @property
    def aval(self) -> Any:
        return self._aval

    def _perform(self) -> None:
        trace: Any = self._trace
        if trace.live:
            trace.perform()
        if self._tangent is _UNSET or not trace.is_valid():
            raise escaped_tracer_error(self)

    @property
    def primal(self) -> Any:
        if self._tangent is _UNSET:
            self._perform()
        return self._primal

    @property
    def tangent(self) -> Any:
        if self._tangent is _UNSET:
            self._perform()
        return self._tangent

    # What does not depend on what is differentiated is an array, though it was written down as one
    # of the others.
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        if type(self.tangent) is Zero:
            return np.asarray(self.primal).__array__(*args, **kwargs)
        return super().__array__(*args, **kwargs)

    def __float__(self) -> float:
        return float(self.primal) if type(self.tangent) is Zero else super().__float__()

    def __complex__(self) -> complex:
        return complex(self.primal) if type(self.tangent) is Zero else super().__complex__()

    def __format__(self, spec: str) -> str:
        if type(self.tangent) is Zero:
            return format(self.primal, spec)
        return super().__format__(spec)

    def tolist(self) -> Any:
        return self.primal.tolist() if type(self.tangent) is Zero else super().tolist()

    def settled(self) -> Any:
        return self.primal if type(self.tangent) is Zero else self

    def full_lower(self) -> Any:
        return self if self._tangent is _UNSET else super().full_lower()

    def is_concrete(self) -> bool:
        return True

    def _origin_msg(self) -> str:
        return "" if self._tangent is _UNSET else super()._origin_msg()

    def _leak_msg(self) -> str:
        return "" if self._tangent is _UNSET else super()._leak_msg()


class Recording(LinearizeTrace):
    """The trace that writes down (`live`), and the ordinary one afterwards."""

    __slots__ = ("calls", "config", "constants", "count", "inputs", "live", "shown", "steps")
    quiet = True

    def __init__(self, config: int) -> None:
        super().__init__(None)
        self.live = True
        self.config = config
        self.count = 0
        self.inputs: list[LazyPair] = []
        # (operation, references): a reference is the number of a value, or -1 for a constant
        self.steps: list[tuple[Operation, tuple[int, ...]]] = []
        self.shown: list[Any] = []  # the same as a key
        self.constants: list[Any] = []
        # what the ordinary trace is to do: (function, arguments, keywords, results)
        self.calls: list[tuple[Any, Any, Any, list[LazyPair]]] = []

    def input(self, x: Any) -> LazyPair:
        """An argument with respect to which the function is differentiated."""
        lazy = LazyPair(self, x.aval, x, self.count)
        self.count += 1
        self.inputs.append(lazy)
        return lazy

    def perform(self) -> None:
        """Does what is on the list, the ordinary way; from now on nothing is written down."""
        self.live = False
        self.parent_trace = pe = PartialEvalTrace(base_trace())
        for lazy in self.inputs:
            lazy._tangent = pe.new_unknown(lazy._aval.to_tangent_aval())
        calls, self.calls = self.calls, []
        with use_trace(self):
            for fun, args, kwargs, results in calls:
                outs = fun(*args, **kwargs)
                for lazy, x in zip(results, tree.flatten(outs)[0], strict=True):
                    lazy._primal, lazy._tangent = self.split(x)

    def invalidate(self) -> None:
        super().invalidate()
        self.live = False
        self.calls.clear()  # no cycles are left behind
        self.inputs = []

    def finish(self, outs: Sequence[Any]) -> Any:
        """What `linearize_flat` gives, the function having returned `outs`."""
        if self.live:
            self.perform()
        with use_trace(self):
            pairs = [self.split(x) for x in outs]
        self.invalidate()
        parent: Any = self.parent_trace
        return finish(parent, pairs)

    # --- writing down ---
    def note(
        self, operation: Operation, operands: Sequence[Any], fun: Any, args: Any, kwargs: Any
    ) -> list[LazyPair]:
        """One more operation; its results."""
        numbers = []
        for x in operands:
            if type(x) is LazyPair:
                numbers.append(x.index)
            else:
                numbers.append(-1)
                self.constants.append(x)
        n = self.count
        outs = []
        for aval in operation.avals:
            outs.append(LazyPair(self, aval, None, n))
            n += 1
        self.count = n
        references = tuple(numbers)
        self.steps.append((operation, references))
        self.shown.append((id(operation), references))
        self.calls.append((fun, args, kwargs, outs))
        return outs

    def call_with_values(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The result, as a one-tuple, of a function that is not written down and may have to see
        values, as sizes and masks are: what does not depend on what is differentiated comes to it
        as arrays. None if nothing does; it is then to be called as it is."""
        lazy = [x for x in _lazy_parts([*args, *kwargs.values()]) if x._trace is self]
        if self.live and any(not dtypes.is_inexact(x._aval.dtype) for x in lazy):
            self.perform()
        if self.live or not any(type(x.tangent) is Zero for x in lazy):
            return None
        args = [_with_values(x) for x in args]
        return (function.fun(*args, **{k: _with_values(x) for k, x in kwargs.items()}),)

    def record(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The result of a public function, as a one-tuple; None if it is not written down."""
        operands: list[Any] = []
        parts: list[Any] = [self.config]
        policy = function.policy
        statics = policy.statics
        try:
            k = 0
            for x in args:
                if type(x) is LazyPair and x._trace is self:
                    operands.append(x)
                    parts.append(id(x._aval))
                else:
                    static = bool(statics >> min(k, 63) & 1)
                    parts.append(_part(x, static, operands, self))
                k += 1
            if kwargs:
                for name, x in kwargs.items():
                    static = name not in policy.named
                    parts += (name, _part(x, static, operands, self))
            key = tuple(parts)
            found = function.operations.get(key)
        except (_Unrecordable, TypeError):
            return None
        if found is None:
            if not any(type(x) is LazyPair for x in operands):
                return None
            found = _operation(function, args, kwargs, operands)
            if len(function.operations) >= REMEMBERED:
                function.operations.clear()
            function.operations[key] = found
        if found is False:
            return None
        outs = self.note(found, operands, function.fun, args, kwargs)
        return (outs[0] if found.single else tree.unflatten(found.tree, outs),)

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if self.live:
            outs = self._primitive(primitive, tracers, params)
            if outs is not None:
                return outs if primitive.multiple_results else outs[0]
            self.perform()
        return super().process_primitive(primitive, tracers, params)

    # A function with rules of its own is not written down, even if no operand is on the list.
    def process_custom_jvp_call(self, *args: Any, **options: Any) -> Any:
        if self.live:
            self.perform()
        return super().process_custom_jvp_call(*args, **options)

    def process_custom_vjp_call(self, *args: Any, **options: Any) -> Any:
        if self.live:
            self.perform()
        return super().process_custom_vjp_call(*args, **options)

    def _primitive(self, primitive: Any, tracers: Any, params: dict[str, Any]) -> Any:
        """The results of a primitive, or None if it is not written down."""
        rules = primitive.rules
        if ("impl" in rules and primitive is not remat_p) or "always_jvp" in rules:
            return None
        if not any(type(x) is LazyPair for x in tracers):
            return None
        operands: list[Any] = []
        try:
            parts = [_part(x, False, operands, self) for x in tracers]
            key = (self.config, primitive, *parts, *sorted(params.items()))
            found = _primitives.get(key)
            if found is None:
                found = _program_of(primitive, [typeof(x) for x in operands], params)
                if len(_primitives) >= REMEMBERED:
                    _primitives.clear()
                _primitives[key] = found
        except Exception:  # the ordinary trace tells what is wrong
            return None
        if found is False:
            return None
        return self.note(found, operands, primitive.bind, tracers, params)


_primitives: dict[Any, Any] = {}


def _program_of(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> Any:
    if primitive is jit_p:
        if any(params["donated_invars"]):
            return False
        closed = params["jaxpr"]
    else:
        closed = dispatch.one_equation(primitive, avals, params)
    if "discharge" in primitive.rules and holds_refs(primitive, params):
        return False
    if closed.effects or not all(_plain(a) for a in (*avals, *closed.out_avals)):
        return False
    return Operation(closed, tree.structure([0] * len(closed.out_avals)), primitive is jit_p)


def _plain(aval: Any) -> bool:
    d = getattr(aval, "dtype", None)
    return isinstance(d, np.dtype) and d != dtypes.float0


def _part(x: Any, static: bool, operands: list[Any], trace: Recording) -> Any:
    """What stands for an argument in a key; operands are collected."""
    kind = type(x)
    if kind is LazyPair:
        if x._trace is not trace or x.index < 0:
            raise _Unrecordable
        operands.append(x)
        return id(x._aval)
    if kind is ArrayImpl:
        operands.append(x)
        return id(x.aval)
    if kind in _NUMBERS and not static:
        operands.append(x)
        return kind
    if kind is tuple or kind is list:
        return (kind, *[_part(item, static, operands, trace) for item in x])
    if kind is slice:
        parts = (x.start, x.stop, x.step)
        return (kind, *[_part(item, True, operands, trace) for item in parts])
    if isinstance(x, Tracer) or not isinstance(x, _STATIC):
        raise _Unrecordable
    return (kind, repr(x) if kind is float else x)  # 0.0 and -0.0 are equal


def _lazy_parts(x: Any) -> Iterator[LazyPair]:
    kind = type(x)
    if kind is LazyPair:
        yield x
    elif kind is slice:
        yield from _lazy_parts((x.start, x.stop, x.step))
    elif kind is tuple or kind is list:
        for part in x:
            yield from _lazy_parts(part)


def _with_values(x: Any) -> Any:
    kind = type(x)
    if kind is LazyPair:
        return x.settled()
    if kind is slice:
        return slice(*map(_with_values, (x.start, x.stop, x.step)))
    return kind(map(_with_values, x)) if kind is tuple or kind is list else x


def _replaced(x: Any, static: bool, new: Callable[[Any], Any]) -> Any:
    kind = type(x)
    if kind is LazyPair or kind is ArrayImpl or (kind in _NUMBERS and not static):
        return new(x)
    if kind is tuple or kind is list:
        return kind([_replaced(item, static, new) for item in x])
    if kind is slice:
        return slice(*[_replaced(item, True, new) for item in (x.start, x.stop, x.step)])
    return x


def _operation(function: Any, args: Any, kwargs: Any, operands: Sequence[Any]) -> Any:
    """A public function's program for arguments of these types; False if it has none."""
    out: list[Any] = []

    def flat(*tracers: Any) -> list[Any]:
        rest = iter(tracers)
        new = lambda _: next(rest)
        policy = function.policy
        args_ = [
            _replaced(x, bool(policy.statics >> min(k, 63) & 1), new) for k, x in enumerate(args)
        ]
        kwargs_ = {n: _replaced(x, n not in policy.named, new) for n, x in kwargs.items()}
        results, out_tree = tree.flatten(function.fun(*args_, **kwargs_))
        if not results or not all(isinstance(x, Tracer) for x in results):
            raise _Unrecordable
        out.append(out_tree)
        return results

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            jaxpr, consts = trace_to_jaxpr(flat, [typeof(x) for x in operands])
    except Exception:  # the call itself tells the user what is wrong
        return False
    closed, hoisted = close_jaxpr(jaxpr, consts)
    if hoisted or closed.effects or not all(_plain(a) for a in closed.out_avals):
        return False
    return Operation(closed, out[0])


# --- gradients ---
_seen: dict[Any, Any] = {}  # list -> how often it was seen, or its program


def start() -> Recording | None:
    """A recording, where one may be made: nothing is traced or debugged."""
    config = stub.native_config()
    return Recording(config) if config >= 0 and trace_state_clean() else None


def known(trace: Recording, out: Any, compile_: Callable[[Callable[..., Any]], Any]) -> Any:
    """The program of a recorded function that has returned `out`, if its list has been seen often
    enough, else None. `compile_` makes it, of a function of (inputs, constants)."""
    if type(out) is not LazyPair or not trace.live or out._trace is not trace:
        return None
    steps, aval = trace.steps, out._aval
    if aval.shape != () or not dtypes.is_float(aval.dtype) or len(steps) > LONGEST or not steps:
        return None
    n, at = len(trace.inputs), out.index
    key = (trace.config, at, *[id(x._aval) for x in trace.inputs], *trace.shown)
    found = _seen.get(key, 0)
    if type(found) is tuple:
        return found[0]
    if len(_seen) >= REMEMBERED:
        _seen.clear()
    _seen[key] = found + 1
    if found + 1 < SEEN:
        return None

    def replay(inputs: Sequence[Any], constants: Sequence[Any], apart: bool = False) -> Any:
        values, rest = list(inputs), iter(constants)
        assert len(values) == n
        for operation, numbers in steps:
            operands = [values[k] if k >= 0 else next(rest) for k in numbers]
            closed = operation.closed
            if operation.masks or (apart and operation.jitted):
                values += jit_p.bind(*operands, **call_params(closed, APART))
            else:
                values += eval_jaxpr(closed.jaxpr, closed.consts, *operands)
        return values[at]

    program = _Gradient(compile_(replay), compile_(functools.partial(replay, apart=True)))
    _seen[key] = (program, steps)  # the steps keep the operations whose addresses are in the key
    return program


class _Gradient:
    """The compiled program of a list. Where a program's argument is committed so are all its
    results; those of the list's operations, one by one, only where they follow from it."""

    __slots__ = ("apart", "follows", "program")

    def __init__(self, program: Any, apart: Any) -> None:
        self.program, self.apart = program, apart  # the latter calls what the list calls
        self.follows: list[int] | None = None

    def __call__(self, primals: Sequence[Any], constants: Sequence[Any]) -> Any:
        results = self.program(primals, constants)
        if results[0]._lies_on is not None:
            self._settle(primals, constants, [results[0], *results[1]])
        return results

    def _settle(self, primals: Any, constants: Any, results: Sequence[Any]) -> None:
        if self.follows is None:
            traced = self.apart.trace(primals, constants)
            self.follows = Flow(traced.jaxpr.jaxpr, apart=True).follows
        found = held([*primals, *constants]) or ()
        committed = sum(1 << k for k, s in enumerate(found) if s is not None)
        for x, follows in zip(results, self.follows, strict=True):
            if not follows & committed:
                x._lies_on = default_place()
