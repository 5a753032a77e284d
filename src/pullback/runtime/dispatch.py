"""Evaluating primitives: the base trace. An operation, or a jitted program, is compiled once for
its operands' types and then run.

Operands are converted to arrays of canonical dtype; results are Arrays. Programs remember their
executables.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import config, dtypes, errors
from ..backends import interface, llvm
from ..control import key_reuse
from ..control.call import jit_p
from ..control.expand import expand
from ..control.extras import Token, create_token_p
from ..core import dims, effects as fx
from ..core.avals import AbstractToken, high_types, typeof
from ..core.high import held_programs
from ..core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, eval_jaxpr
from ..core.refs import holds_refs, ref_effect
from ..core.source import current as current_source
from ..core.trace import (
    Trace,
    Tracer,
    escaped_tracer_error,
    install_base,
    use_trace,
    valueless_error,
)
from ..lazy_imports import lazy_module
from ..primitives import common, keys
from ..transforms.partial_eval import dce_closed
from . import array as array_module, donation
from .captured import warn_of_constants
from .commitment import commit, results_lie
from .options import in_force, memory_limit_of
from .partitioning import divided
from .shardings import SingleDeviceSharding, default_sharding

# Traced values and keys are arrays to users: isinstance(x, Array) holds for them.
array_module.register_array_class(Tracer)
array_module.register_array_class(keys.PRNGKeyArray)

array_module.set_one_device(SingleDeviceSharding)

# The compiler, and what runs its programs: half as large as all the rest.
native: Any = lazy_module("pullback.runtime.executable")

_operations: dict[Any, Any] = {}
_executables: weakref.WeakSet[Any] = weakref.WeakSet()


class EvalTrace(Trace):
    """Computes. The bottom of every stack of traces."""

    __slots__ = ()

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        holds_keys = False
        for x in tracers:
            if isinstance(x, Tracer):
                with use_trace(owner(tracers)):
                    return primitive.bind(*tracers, **params)
            if x.__class__ is keys.PRNGKeyArray:
                holds_keys = True
        watched = (holds_keys or primitive is jit_p) and config.debug_key_reuse.get()
        if not watched:
            return self.compute(primitive, tracers, params)
        after = key_reuse.watched(primitive, tracers, params)
        with config.debug_key_reuse(False):  # what it consists of was followed
            outs = self.compute(primitive, tracers, params)
        after(outs if primitive.multiple_results else [outs])
        return outs

    def compute(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]) -> Any:
        """What an operation on values gives."""
        if primitive is jit_p:
            if ref_effect in params["jaxpr"].effects:
                return jit_p.rules["discharge"](tracers, params)
            if params["jaxpr"].jaxpr.is_high:
                return jit_p.rules["lower"](tracers, params)
            params = divided(params, tracers)
            donated = params["donated_invars"]
            if True in donated:
                donated = donation.honoured(params, tracers)
            options = params["compiler_options_kvs"]
            program = executable(params["jaxpr"], donated, memory_limit_of(options))
            asked = params["in_shardings"], params["out_shardings"]
            try:
                if options:
                    with in_force(options):
                        return run(program, tracers, donated, *asked)
                return run(program, tracers, donated, *asked)
            except FloatingPointError as fault:
                found = _explained(params["jaxpr"], tracers, donated, fault)
                raise found from found.__cause__
        if "discharge" in primitive.rules and holds_refs(primitive, params):
            return primitive.rules["discharge"](tracers, params)
        if high_types and any(j.is_high for j, _ in held_programs(primitive, params)):
            return primitive.rules["lower"](tracers, params)
        impl = primitive.rules.get("impl")
        if impl is not None:
            out = impl(*tracers, **params)
            if out is not NotImplemented:
                return out
        elif not primitive.has_rule("abstract_eval"):
            primitive.rule("impl")  # raises: there is no way to evaluate it
        return apply(primitive, tracers, params)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool
    ) -> Any:
        if any(isinstance(x, Tracer) for x in tracers):
            with use_trace(owner(tracers)):
                return primitive.bind(*tracers, subfuns=(fun, jvp), symbolic_zeros=symbolic_zeros)
        return fun(*tracers)

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
        if any(isinstance(x, Tracer) for x in tracers):
            with use_trace(owner(tracers)):
                return primitive.bind(
                    *tracers,
                    subfuns=(fun, fwd, bwd),
                    out_trees=out_trees,
                    symbolic_zeros=symbolic_zeros,
                )
        return fun(*tracers)


def owner(args: Sequence[Any]) -> Trace:
    """The innermost trace of the traced values among operands: under `ensure_compile_time_eval`
    operations on them are its own. UnexpectedTracerError if one of the traces is over.
    """
    found: Trace | None = None
    deepest = -1
    for x in args:
        if not isinstance(x, Tracer):
            continue
        if not x._trace.is_valid():
            raise escaped_tracer_error(x)
        depth, trace = 0, x._trace.parent_trace
        while trace is not None:
            depth, trace = depth + 1, trace.parent_trace
        if depth > deepest:
            found, deepest = x._trace, depth
    assert found is not None
    return found


def apply(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """One operation on concrete values, through a program of one equation."""
    avals = tuple(typeof(x) for x in args)
    try:
        key: Any = (
            primitive,
            avals,
            tuple(sorted(params.items())) if params else (),
            config.trace_values(),
        )
        found = _operations.get(key)
    except TypeError:
        key = found = None
    if found is None:
        found = executable(one_equation(primitive, avals, params))
        if key is not None:
            _operations[key] = found
    outs = run(found, args)
    return outs if primitive.multiple_results else outs[0]


def one_equation(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> ClosedJaxpr:
    """The program that applies one primitive to its arguments."""
    out_avals, effects = primitive.abstract_eval(*avals, **params)
    outs = [Var(a) for a in (out_avals if primitive.multiple_results else [out_avals])]
    ins = [Var(a) for a in avals]
    eqn = JaxprEqn(ins, outs, primitive, params, effects, current_source())
    return ClosedJaxpr(Jaxpr([], ins, outs, [eqn], effects), [])


def executable(
    closed: ClosedJaxpr, donated: Sequence[bool] = (), memory_limit: int | None = None
) -> Any:
    """The compiled form of a program (for calls that donate those arguments, in so many bytes);
    compiled at the first request, and remembered by the program."""
    which: Any = ("executable", tuple(donated)) if any(donated) else "executable"
    if memory_limit is not None:
        which = "executable", tuple(donated), memory_limit
    found = closed.derived.get(which)
    if found is None:
        for effect in closed.effects:
            if hasattr(effect, "not_lowered"):  # an effect that some transformation takes away
                raise effect.not_lowered()
        warn_of_constants(closed)
        arrays = _without_tokens(closed)
        given = donated
        if arrays is not closed:
            named = zip(donated, closed.jaxpr.invars, strict=False)
            given = [d for d, v in named if not _is_token(v)]
        found = interface.compile_program(physical(arrays), given, memory_limit)
        if any(keys.is_key_aval(a) for a in arrays.out_avals):
            found = KeyedProgram(found, arrays.out_avals)
        if arrays is not closed:
            found = TokenProgram(found, closed.out_avals)
        found.source, found.flow = closed.jaxpr, None  # type: ignore[union-attr]
        closed.derived[which] = found
        _executables.add(found)
    return found


def physical(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program as backends compile it: its calls expanded, its keys as their words. What nothing
    needs has gone before that: no seed is refused that makes no key."""
    traced = closed.derived.get("trace seconds", 0.0)
    closed = expand(closed)
    if keys.has_keys(closed.jaxpr):
        closed = dce_closed(closed, [True] * len(closed.jaxpr.outvars), True)[0]
    closed = keys.lower_keys(closed)
    closed.derived["trace seconds"] = traced
    return closed


def _is_token(v: Any) -> bool:
    return type(v.aval) is AbstractToken


def _without_tokens(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program without the tokens among its results, which nothing computes, and with tokens of
    its own in the place of those among its arguments."""
    jaxpr = closed.jaxpr
    if not any(map(_is_token, (*jaxpr.invars, *jaxpr.outvars, *jaxpr.constvars))):
        return closed
    made = [
        JaxprEqn([], [v], create_token_p, {}, fx.no_effects, current_source())
        for v in (*jaxpr.constvars, *jaxpr.invars)
        if _is_token(v)
    ]
    parts = jaxpr.constvars, jaxpr.invars, jaxpr.outvars
    constvars, invars, outvars = ([v for v in p if not _is_token(v)] for p in parts)
    consts = [c for c in closed.consts if type(c) is not Token]
    eqns = [*made, *jaxpr.eqns]
    without = jaxpr.replace(constvars=constvars, invars=invars, outvars=outvars, eqns=eqns)
    return ClosedJaxpr(without, consts)


class TokenProgram:
    """An executable whose program has tokens among its arguments or results."""

    __slots__ = ("__weakref__", "avals", "flow", "program", "source")
    nativable = False

    def __init__(self, program: Any, avals: Sequence[Any]) -> None:
        self.program, self.avals = program, avals

    def __call__(self, arrays: Sequence[Any], donated: Sequence[bool] = ()) -> list[Any]:
        kept = [k for k, x in enumerate(arrays) if type(x) is not Token]
        given = [donated[k] for k in kept] if donated else ()
        outs = iter(self.program([arrays[k] for k in kept], given))
        return [Token() if type(a) is AbstractToken else next(outs) for a in self.avals]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.program, name)


class KeyedProgram:
    """An executable some of whose results are the words of keys: gives key arrays."""

    __slots__ = ("__weakref__", "avals", "flow", "program", "source")

    def __init__(self, program: Any, avals: Sequence[Any]) -> None:
        self.program, self.avals = program, avals

    def __call__(self, arrays: Sequence[Any], donated: Sequence[bool] = ()) -> list[Any]:
        return keys.wrap_results(self.program(arrays, donated), self.avals)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.program, name)


def run(
    program: Any,
    args: Sequence[Any],
    donated: Sequence[bool] = (),
    ins: Sequence[Any] = (),
    outs_at: Sequence[Any] = (),
) -> list[Any]:
    """Runs an executable on any values of its argument types; checks for NaN and infinity if asked
    to. `ins` and `outs_at`: the shardings that the call asks for.
    """
    if config.no_execution.get():
        raise RuntimeError(
            f"JAX tried to execute function jit({program.name}), but the no_execution config "
            "option is set"
        )
    arrays = [x if type(x) is Token else to_array(x) for x in args]
    lie = results_lie(program, arrays, ins, outs_at)
    outs: list[Any] = program(arrays, donated)
    if lie is not None:
        commit(outs, lie)
    if config.debug_nans.get() or config.debug_infs.get():
        check_special(outs, program)
    return outs


def _guard_transfer(aval: Any, explicit: bool) -> None:
    """JaxRuntimeError, or a line in the log, for a value that comes from the host, if
    `transfer_guard` says so. `explicit`: by `device_put`. Devices and host share their memory, so
    that values that go the other way are not moved, and not guarded."""
    level = config.transfer_guard_host_to_device.get() or config.transfer_guard.get()
    if level is None or level == "allow" or (explicit and not level.endswith("_explicit")):
        return
    what = f"host-to-device transfer: aval={aval!r}, dst_sharding={default_sharding()}"
    if level.startswith("disallow"):
        raise errors.JaxRuntimeError(
            f"INVALID_ARGUMENT: Disallowed {what}. Fix: jax.device_put(x) moves it explicitly, or "
            "allow it with jax.transfer_guard('allow')."
        )
    logging.getLogger("pullback.transfers").warning(what)


logging: Any = lazy_module("logging")


def to_array(x: Any, explicit: bool = False) -> Any:
    """Any value that a primitive accepts, as an Array of canonical dtype. `explicit`: the user
    asked for it, as `device_put` does."""
    if isinstance(x, array_module.ArrayImpl):
        return x
    held = getattr(x, "__jax_array__", None)
    if held is not None:
        return to_array(held())
    physical = getattr(x, "_base_array", None)
    if physical is not None:
        return to_array(physical)
    return host_array(x, explicit)


def host_array(x: Any, explicit: bool = False) -> Any:
    """A number, or an array of NumPy's, as an Array."""
    aval = typeof(x)
    _guard_transfer(aval, explicit)
    if getattr(x, "has_no_value", False):
        raise valueless_error(x)
    return array_module.make_array(np.asarray(x, dtype=aval.dtype), aval)


_SPECIAL = (("nan", config.debug_nans, np.isnan), ("inf", config.debug_infs, np.isinf))


def check_special(outs: Sequence[Any], program: Any) -> None:
    """FloatingPointError if a result has a NaN (or an infinity) and the flag for it is set."""
    for x in outs:
        if not dtypes.is_inexact(x.dtype):
            continue
        values = np.asarray(x)
        for name, flag, bad in _SPECIAL:
            if flag.get() and bool(bad(values).any()):
                raise FloatingPointError(
                    f"invalid value ({name}) encountered in {program.name} at "
                    f"{current_source().summary()}. "
                    f"Fix: look at the operation on that line; unset jax_debug_{name}s to let it "
                    "pass."
                )


def _special(x: Any) -> bool:
    """Has a value what the flags look for?"""
    if not dtypes.is_inexact(typeof(x).dtype):
        return False
    values = np.asarray(x)
    return any(flag.get() and bool(bad(values).any()) for _, flag, bad in _SPECIAL)


def _explained(
    closed: ClosedJaxpr, args: Sequence[Any], donated: Sequence[bool], fault: FloatingPointError
) -> FloatingPointError:
    """The error of the first operation of a program whose result is not finite: it is run again,
    operation by operation, unless it cannot be run twice."""
    if any(donated) or closed.effects:
        return fault
    try:
        eval_jaxpr(closed.jaxpr, closed.consts, *args)
    except FloatingPointError as first:
        if any(map(_special, args)):
            first.args = (f"{first} {_NOT_MADE} came in an input.)",)
        return first
    fault.args = (f"{fault} {_NOT_MADE} is a literal or an input that it returns.)",)
    return fault


_NOT_MADE = "(Run by itself, the de-optimized function did not make it: it"


def clear_caches() -> None:
    """Forgets compiled operations."""
    _operations.clear()


def load_compiler() -> None:
    """Makes the runtime of what is compiled and imports the compiler: with the package, so that no
    first call waits for them. LLVM is loaded beside that; who looks up symbols meanwhile waits, as
    making the runtime would."""
    llvm.prepare()
    llvm.foresee_llvm()
    native.prepare()


def compile_native(
    closed: ClosedJaxpr, donated: Sequence[bool] = (), memory_limit: int | None = None
) -> Any:
    """The native executable of a program. UnexpectedDimVar for one whose results have sizes that
    no argument says."""
    for v in closed.jaxpr.outvars:
        for n in getattr(v.aval, "shape", ()):
            if type(n) is not int and isinstance(n, dims.DimExpr):
                raise errors.UnexpectedDimVar(
                    f"Encountered dimension variable '{n}' that is not appearing in the shapes of "
                    "the function arguments. Fix: use it within a function that is exported, or "
                    "whose types are asked for (jax.eval_shape), with arguments of such sizes."
                )
    return native.NativeExecutable(closed, donated, memory_limit)


interface.register_backend("native", compile_native, default=True)
common.array_maker[0] = to_array
install_base(EvalTrace())
