"""Building jaxprs: a trace that writes an equation for each `bind`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config, dtypes
from . import effects as fx, source
from .avals import AbstractValue, ShapedArray, high_types, intern, plain_scalar, typeof
from .dims import DimExpr
from .explicit import match_operands, said
from .high import (
    AvalMutableQDD,
    AvalQDD,
    MutableQDD,
    cur_qdd,
    held_programs,
    is_high_value,
)
from .jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, Var
from .refs import AbstractRef, Ref, ref_effect
from .trace import (
    Trace,
    Tracer,
    check_leaks,
    check_live,
    checked_axes,
    current_trace,
    use_trace,
    valueless_error,
)

# How many functions were traced to jaxprs in this process; a second call of a jitted function must
# not raise it.
_counts = {"trace": 0}


def trace_count() -> int:
    """The number of user functions traced to jaxprs so far, in this process.

    >>> before = pullback.trace_count()
    >>> f = pullback.jit(lambda x: x + 1)
    >>> out = f(1.0), f(2.0)
    >>> pullback.trace_count() - before
    1
    """
    return _counts["trace"]


def count_trace() -> None:
    """A user's function is about to be traced for jit."""
    _counts["trace"] += 1


# Filled by primitives/dims: writes the equation whose result is the value of a symbolic size.
dim_value: list[Callable[..., Any]] = []


class JaxprTracer(Tracer):
    """A variable of a program under construction.

    >>> kinds = []
    >>> _ = pb.jit(lambda x: kinds.append(type(x).__name__) or x)(1)
    >>> kinds
    ['JaxprTracer']
    """

    __slots__ = ("_var", "source_info")

    def __init__(self, trace: JaxprTrace, var: Var | Literal, source_info: Any) -> None:
        self._trace = trace
        self._var, self.aval, self.source_info = var, var.aval, source_info

    @property
    def _debug_info(self) -> DebugInfo | None:
        """What is being traced, as tests of JAX read it."""
        return self._trace.debug_info  # type: ignore[attr-defined, no-any-return]

    def _origin_msg(self) -> str:
        trace: JaxprTrace = self._trace  # type: ignore[assignment]
        info = trace.debug_info
        said = []
        if info:
            said.append(
                "The error occurred while tracing the function "
                f"{info.func_src_info} for {info.traced_for}."
            )
        names = trace.arguments_behind(self._var)
        if names:
            several = "s" if len(names) > 1 else ""
            said.append(
                "This concrete value was not available in Python because it depends on the "
                f"value{several} of the argument{several} {_listed(names)}."
            )
        if self.source_info is not None:
            said.append(f"The value was made at {self.source_info.summary()}.")
        return " ".join(said)

    def _leak_msg(self) -> str:
        trace: JaxprTrace = self._trace  # type: ignore[assignment]
        info = trace.debug_info
        function = f"{info.func_src_info} traced for {info.traced_for}" if info else "unknown"
        names = trace.arguments_behind(self._var) if self.source_info is None else ()
        value = (
            f"The leaked value is its argument {_listed(names)}"
            if names
            else "The leaked intermediate value was created on line "
            f"{self.source_info.summary() if self.source_info else ''}"
        )
        return f"The function being traced when the value leaked was {function}. {value}.\n"

    def __repr__(self) -> str:
        return f"JitTracer({self.aval})"

    def _check_integer_scalar(self) -> None:
        if self.aval.shape != () or not dtypes.is_integer(self.aval.dtype):
            raise TypeError(
                "Only integer scalar arrays can be converted to a scalar index; got "
                f"{self.aval.str_short()}"
            )


class HighTracer(JaxprTracer):
    """A variable of a high-level type: it has no methods of arrays, but those of its type."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in ("aval", "source_info"):
            return super().__getattribute__(name)
        return self.__getattr__(name)


def _tracer(trace: JaxprTrace, var: Var | Literal, source_info: Any) -> JaxprTracer:
    kind = HighTracer if var.aval.is_high else JaxprTracer
    return kind(trace, var, source_info)


def _nearest_program(trace: Trace | None) -> JaxprTrace | None:
    while trace is not None and not isinstance(trace, JaxprTrace):
        trace = trace.parent_trace
    return trace


def _program_being_written() -> JaxprTrace | None:
    return _nearest_program(current_trace())


def is_staged() -> bool:
    """Does what this thread binds become part of a program, rather than being computed?"""
    return _program_being_written() is not None


def staged(x: Any, new: bool = False) -> Any:
    """An array as what this thread binds is: traced, if it becomes part of a program. One that is
    `new`, made by what is staged, is a literal if it is a number."""
    trace = _program_being_written()
    return x if trace is None or isinstance(x, Tracer) else trace.constant(x, new)


def array_of(x: Any, make: Callable[[Any], Any]) -> Any:
    """`make(x)`: the array of a number or of an array of NumPy's. A program that is being written
    remembers what it is of: numbers are literals, and an array of NumPy's is one constant however
    often it is mentioned."""
    trace = _program_being_written()
    return make(x) if trace is None else trace.array_of(x, make)


def mention(operands: Sequence[Any]) -> None:
    """Makes what a program closes over its constants in this order, before some are converted."""
    trace = current_trace()
    if isinstance(trace, JaxprTrace):
        for x in operands:
            if isinstance(x, Tracer) and x._trace is not trace:
                trace.atom(x)


def _bits(x: Any) -> Any:
    return np.ascontiguousarray(np.asarray(x)).reshape(-1).view(np.uint8)


class JaxprTrace(Trace):
    """Writes equations. Values that are not its own become literals (scalars) or constvars (arrays,
    tracers of outer traces).
    """

    __slots__ = (
        "const_ids",
        "consts",
        "constvars",
        "debug_info",
        "depth",
        "effects",
        "eqns",
        "invars",
        "is_high",
        "made",
        "numbers",
        "qdds",
    )

    def __init__(
        self, parent_trace: Trace | None = None, debug_info: DebugInfo | None = None
    ) -> None:
        super().__init__(parent_trace)
        self.eqns: list[JaxprEqn] = []
        self.invars: list[Var] = []
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        self.const_ids: dict[int, Var] = {}
        self.effects: set[Any] = set()
        self.debug_info = debug_info
        self.depth = len(source.name_stack())  # names around the program, which are not its own
        self.is_high = False
        self.qdds: dict[Var, MutableQDD] = {}  # of variables whose values have a state
        # What array_of made, by identity: of arrays of NumPy's (with those), and of numbers. Shared
        # by all programs that are written inside of one.
        around = _nearest_program(parent_trace)
        self.made: dict[int, tuple[Any, Any]] = around.made if around else {}
        self.numbers: dict[int, Any] = around.numbers if around else {}

    def new_arg(self, aval: AbstractValue) -> JaxprTracer:
        var = self._high_var(aval) if aval.is_high else Var(aval)
        self.invars.append(var)
        if type(aval) is AbstractRef:
            self.effects.add(ref_effect)
        return _tracer(self, var, None)

    def arguments_behind(self, var: Var | Literal) -> list[str]:
        """The names of the arguments that the value of `var` depends on."""
        if isinstance(var, Literal):
            return []
        wanted = {var}
        for eqn in reversed(self.eqns):
            if not wanted.isdisjoint(eqn.outvars):
                wanted.update(x for x in eqn.invars if isinstance(x, Var))
        names = self.debug_info.arg_names if self.debug_info else None
        return [
            names[k] if names and k < len(names) else f"number {k}"
            for k, v in enumerate(self.invars)
            if v in wanted
        ]

    def atom(self, x: Any) -> Var | Literal:
        """The variable or literal that stands for `x` in this program."""
        if isinstance(x, Tracer):
            if x._trace is self:
                return x._var  # type: ignore[no-any-return]
            check_live(x)
        elif x.__class__ in _NUMBERS:
            return Literal(x, _NUMBERS[x.__class__])
        elif high_types and type(x) in high_types:
            pass
        elif _is_scalar(x) or id(x) in self.numbers:
            return _literal(x)
        elif isinstance(x, DimExpr):
            return self.atom(dim_value[0](self, x))
        elif hasattr(x, "__jax_array__"):
            return self.atom(x.__jax_array__())
        var = self.const_ids.get(id(x))
        if var is None:
            aval = typeof(x)
            if aval.is_high:
                var = self._high_var(AvalQDD(aval, cur_qdd(x)) if aval.has_qdd else aval)
            else:
                # A program may mention a type without a value, as long as it does not run.
                if isinstance(getattr(x, "has_no_value", False), str):
                    raise valueless_error(x)
                var = Var(aval)
            self.const_ids[id(x)] = var
            self.constvars.append(var)
            self.consts.append(x)
        return var

    def _high_var(self, aval: Any) -> Var:
        """A variable of a high-level type; `aval` says its state, if it has any."""
        self.is_high = True
        if aval.__class__ is not AvalQDD:
            return Var(aval)
        var = Var(aval.aval)
        var.initial_qdd = var.final_qdd = aval.qdd
        self.qdds[var] = MutableQDD(aval.qdd)
        return var

    def state_of(self, x: Any) -> MutableQDD | None:
        """The holder of the state's type of a value that this program mentions."""
        if not self.qdds:
            return None
        mine = isinstance(x, JaxprTracer) and x._trace is self
        return self.qdds.get(x._var if mine else self.const_ids.get(id(x)))  # type: ignore[arg-type]

    def _operand_types(self, primitive: Any, atoms: Sequence[Any]) -> list[Any]:
        """What an operation's rule of types is told of its operands: those with a state come to
        primitives of high-level types with its holder."""
        if not self.qdds or "of_high_types" not in primitive.rules:
            return [a.aval for a in atoms]
        qdds = self.qdds
        return [
            AvalMutableQDD(a.aval, qdds[a]) if a.aval.has_qdd and a in qdds else a.aval
            for a in atoms
        ]

    def _hand_states_on(self, primitive: Any, atoms: Sequence[Any], params: dict[str, Any]) -> None:
        """The states that the programs of an operation leave its operands in are theirs now."""
        for jaxpr, first in held_programs(primitive, params):
            for v, a in zip(jaxpr.invars, atoms[first:], strict=False):
                if a in self.qdds:
                    self.qdds[a].update(v.final_qdd)

    def constant(self, x: Any, new: bool = False) -> JaxprTracer:
        """A known value as a tracer of this trace: a constant of the program, or a literal if it
        is a number or a `new` array of one."""
        atom = _literal(x) if new and _is_number_array(x) else self.atom(x)
        return _tracer(self, atom, source.current())

    def array_of(self, x: Any, make: Callable[[Any], Any]) -> Any:
        """See the function of this name."""
        out = make(x)
        if isinstance(x, np.ndarray) and x.shape:
            held = self.made.setdefault(id(x), (x, out))[1]
            return held if held is out or np.array_equal(_bits(held), _bits(out)) else out
        if _is_number_array(out):
            self.numbers[id(out)] = out
        return out

    def lift(self, x: Any) -> JaxprTracer:
        """`x` as a tracer of this trace."""
        if isinstance(x, JaxprTracer) and x._trace is self:
            return x
        atom = self.atom(x)
        if isinstance(atom, Literal):
            atom = self.const_ids[id(x)] = Var(atom.aval)
            self.constvars.append(atom)
            self.consts.append(x)
        return _tracer(self, atom, source.current())

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if not self._alive:
            raise RuntimeError("internal error in pullback: a finished trace was asked to trace")
        staging = primitive.rules.get("staging")
        if staging is not None:
            return staging(self, tracers, params)
        return self.emit(primitive, tracers, params, source.current(2))

    def emit(
        self,
        primitive: Any,
        tracers: Sequence[Any],
        params: dict[str, Any],
        source_info: Any = None,
    ) -> Any:
        """Writes one equation and returns its results."""
        if said[0] and checked_axes():
            tracers = match_operands[0](primitive, tracers)
        atom = self.atom
        atoms = [
            x._var if x.__class__ is JaxprTracer and x._trace is self else atom(x) for x in tracers
        ]
        if self.is_high:
            avals = self._operand_types(primitive, atoms)
        else:
            avals = [a.aval for a in atoms]
        out_avals, effects = primitive.abstract_eval(*avals, **params)
        multiple = primitive.multiple_results
        outvars = list(map(Var, out_avals)) if multiple else [Var(out_avals)]
        if high_types:
            outvars = [self._high_var(v.aval) if v.aval.is_high else v for v in outvars]
            if self.is_high:
                self._hand_states_on(primitive, atoms, params)
            elif any(j.is_high for j, _ in held_programs(primitive, params)):
                self.is_high = True
        info = source_info or source.current(2)
        if self.depth:
            info = source.inner(info, self.depth)
        self.eqns.append(
            JaxprEqn(atoms, outvars, primitive, params, effects or fx.no_effects, info)
        )
        if effects:
            self.effects.update(effects)
        if self.is_high:
            made = [_tracer(self, v, info) for v in outvars]
            return made if multiple else made[0]
        if multiple:
            return [JaxprTracer(self, v, info) for v in outvars]
        return JaxprTracer(self, outvars[0], info)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool
    ) -> Any:
        return primitive.rules["stage_call"](self, primitive, fun, jvp, tracers, symbolic_zeros)

    def process_custom_vjp_call(
        self,
        primitive: Any,
        fun: Any,
        fwd: Any,
        bwd: Any,
        tracers: Any,
        *,
        out_trees: Any,
        symbolic_zeros: bool,
    ) -> Any:
        return primitive.rules["stage_call"](
            self, primitive, fun, fwd, bwd, tracers, out_trees, symbolic_zeros
        )

    def finish(self, outs: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """The program whose results are `outs`, and the values of its constvars. The trace
        is over.
        """
        outvars = [self.atom(x) for x in outs]
        if self.constvars:
            self._drop_unused_constants(outvars)
        jaxpr = Jaxpr(
            self.constvars, self.invars, outvars, self.eqns, self.effects, self.debug_info,
            self.is_high,
        )  # fmt: skip
        for var, qdd in self.qdds.items():
            var.final_qdd = qdd.cur_val
        self.invalidate()
        return jaxpr, self.consts

    def _drop_unused_constants(self, outvars: Sequence[Var | Literal]) -> None:
        used = {id(x) for eqn in self.eqns for x in eqn.invars}
        used.update(map(id, outvars))
        if not all(id(v) in used for v in self.constvars):
            kept = [k for k, v in enumerate(self.constvars) if id(v) in used]
            self.constvars = [self.constvars[k] for k in kept]
            self.consts = [self.consts[k] for k in kept]


# NumPy's scalars whose type is the same whatever the flags say.
_NUMBERS: dict[type, Any] = {
    kind: intern(ShapedArray((), np.dtype(kind)))
    for kind in (np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32,
                 np.float16, np.float32, np.complex64)
}  # fmt: skip


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _is_scalar(x: Any) -> bool:
    """Is `x` a number that programs write out: of Python, of NumPy, or an array without axes of
    NumPy's? Arrays of ours, which a function closed over, are constants of the program instead."""
    if type(x) in (bool, int, float, complex):
        return True
    dtype = getattr(x, "dtype", None)
    if dtype is None and isinstance(x, (int, float, complex)):
        return True  # of a class derived from them, such as a member of an enum.IntEnum
    return _is_number_array(x) and not hasattr(x, "aval")


def _is_number_array(x: Any) -> bool:
    """Is `x` a concrete array, or number of NumPy's, without axes?"""
    dtype = getattr(x, "dtype", None)
    return (
        isinstance(dtype, np.dtype)
        and dtype.names is None
        and getattr(x, "shape", None) == ()
        and hasattr(x, "__array__")  # not so: references, types that stand for arrays
        and not isinstance(x, Tracer)
    )


def _literal(x: Any) -> Literal:
    aval = typeof(x)
    if not aval.weak_type and isinstance(x, np.generic) and x.dtype == aval.dtype:
        return Literal(x, aval)
    if type(x) in (bool, int, float, complex):
        return Literal(x, aval)
    if getattr(x, "dtype", None) is None:  # of a class derived from those
        return Literal(plain_scalar(x), aval)
    x = np.asarray(x).astype(aval.dtype, copy=False)[()]
    if aval.weak_type and typeof(x.item()) == aval:
        x = x.item()  # as weak, when the program is replayed, as it was
    return Literal(x, aval)


def trace_to_jaxpr(
    fun: Callable[..., Sequence[Any]], in_avals: Sequence[Any], debug_info: DebugInfo | None = None
) -> tuple[Jaxpr, list[Any]]:
    """Runs `fun` (flat values to flat values) on tracers of the given types: its program, and the
    values that it closed over.

    The closed-over values may be tracers of outer, live traces: whoever binds the program passes
    them as operands (`convert_constvars`), and caches keep such a program with `ClosedOver`.
    """
    if config.no_tracing.get() and debug_info is not None:
        raise RuntimeError(
            f"re-tracing function {debug_info.func_src_info} for `{debug_info.traced_for}`, but "
            "'no_tracing' is set. Fix: call it with such arguments before, or outside of the block."
        )
    with source.set_name_stack(()):
        trace = JaxprTrace(current_trace(), debug_info)
        args = [trace.new_arg(a) for a in in_avals]
        with use_trace(trace):
            outs = fun(*args)
    jaxpr, consts = trace.finish(outs)
    args.clear()
    del outs
    check_leaks(trace)
    return jaxpr, consts


def close_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any]) -> tuple[ClosedJaxpr, list[Any]]:
    """A closed jaxpr, and the operands that must be passed before its arguments: the closed-over
    tracers, references and high-level values, if there are any.
    """
    is_tracer = [isinstance(c, Tracer) or type(c) is Ref or is_high_value(c) for c in consts]
    if not any(is_tracer):
        return ClosedJaxpr(jaxpr, consts), []
    hoisted = [v for v, t in zip(jaxpr.constvars, is_tracer, strict=True) if t]
    kept = [v for v, t in zip(jaxpr.constvars, is_tracer, strict=True) if not t]
    closed = ClosedJaxpr(
        jaxpr.replace(constvars=kept, invars=[*hoisted, *jaxpr.invars]),
        [c for c, t in zip(consts, is_tracer, strict=True) if not t],
    )
    return closed, [c for c, t in zip(consts, is_tracer, strict=True) if t]
