"""Who interprets `bind` now: a trace, held by context, one context per thread. Tracers are the
values that traces hand out.

The base trace evaluates; the runtime installs it. A transformation makes a trace whose parent is
the trace it met, runs the user's function under it, and invalidates it at the end: a tracer that
survives is recognised by its dead trace.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import CellType, FunctionType, ModuleType
from typing import Any

from .. import config, errors
from . import source


class Trace:
    """An interpreter of primitives. Subclasses give `process_primitive` and, where they do better,
    the other `process_*`.

    >>> from pullback.extend import core
    >>> isinstance(core.current_trace(), pb.core.Trace)
    True
    """

    __slots__ = ("__weakref__", "_alive", "parent_trace")

    # A quiet trace lets native calls of its thread go on: they leave its tracers to it.
    quiet = False

    def __init__(self, parent_trace: Trace | None = None) -> None:
        # A library's subclass may have set its parent before it calls this.
        if parent_trace is not None or not hasattr(self, "parent_trace"):
            self.parent_trace = parent_trace
        self._alive = True

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define process_primitive")

    def full_raise(self, x: Any) -> Any:
        """A value as this trace takes it: any value, as it is."""
        return x

    def stage_value(self, val: Any) -> Any:
        """A known value as a value of this trace; a trace that makes tracers of all values
        overrides it.
        """
        return val

    def invalidate(self) -> None:
        """No tracer of this trace may be used from now on."""
        self._alive = False

    def is_valid(self) -> bool:
        return self._alive

    @property
    def main(self) -> Any:
        """What tells this trace's tracers from others': JAX's traces of one transformation share
        a mark, here each transformation has one trace.
        """
        return self

    tag = main

    def __repr__(self) -> str:
        return type(self).__name__


class aval_property:
    """A property of an aval's class that tracers of it have: `fget(tracer)`.

    >>> from pullback.experimental import hijax
    >>> class Length(hijax.HiType):
    ...     unit = hijax.aval_property(lambda tracer: 'metre')
    >>> Length.unit.fget(None)
    'metre'
    """

    __slots__ = ("fget",)

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget


class aval_method:
    """A method of an aval's class that tracers of it have: `fun(tracer, ...)`.

    >>> from pullback.experimental import hijax
    >>> class Length(hijax.HiType):
    ...     double = hijax.aval_method(lambda tracer: tracer + tracer)
    >>> type(Length.double).__name__
    'aval_method'
    """

    __slots__ = ("fun",)

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun


# What arrays in memory have, and traced ones have not: a property, or a method.
_OF_BUFFERS = frozenset(
    {
        "addressable_shards",
        "committed",
        "global_shards",
        "is_fully_addressable",
        "is_fully_replicated",
        "traceback",
    }
)
_CALLS_OF_BUFFERS = frozenset(
    {
        "addressable_data",
        "delete",
        "devices",
        "is_deleted",
        "on_device_size_in_bytes",
        "unsafe_buffer_pointer",
    }
)


def _refuse_call(tracer: Tracer, name: str, *args: Any) -> Any:
    raise errors.ConcretizationTypeError(
        tracer, f"The {name}() method of arrays in memory was called on a traced array."
    )


class Tracer:
    """A value under a trace, of the type `aval`. Upper layers fill in the operators and array
    methods.

    >>> kinds = []
    >>> _ = pb.jit(lambda x: kinds.append(isinstance(x, pb.core.Tracer)) or x)(1)
    >>> kinds
    [True]
    """

    __slots__ = ("__weakref__", "_trace", "aval")
    __array_priority__ = 1000
    aval: Any

    def __init__(self, trace: Trace, aval: Any = None) -> None:
        self._trace = trace
        if aval is not None:  # else the subclass has it, or works it out
            self.aval = aval

    def __getattr__(self, name: str) -> Any:
        """What the class of the aval says that its tracers have."""
        if name not in ("aval", "_trace") and not name.startswith("__"):
            held = getattr(self.aval, name, None)
            if type(held) is aval_property:
                return held.fget(self)
            if type(held) is aval_method:
                return functools.partial(held.fun, self)
            if self.aval.is_high and hasattr(self.aval, name):
                return held
        if name in _OF_BUFFERS:
            raise errors.ConcretizationTypeError(
                self, f"The {name} attribute of arrays in memory was asked of a traced array."
            )
        if name in _CALLS_OF_BUFFERS:
            return functools.partial(_refuse_call, self, name)
        if name in ("block_until_ready", "copy_to_host_async"):
            raise AttributeError(
                f"The '{name}' method is not available on {errors.describe(self)}."
            )
        if name == "sharding":
            raise AttributeError(
                "The 'sharding' attribute is not available on traced array with shape "
                f"{self.aval.str_short()}. To query sharding information on tracers, use "
                "`jax.typeof(x)`."
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")

    # --- what Python may not ask of a traced value ---
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise errors.TracerArrayConversionError(self)

    def __setitem__(self, index: Any, value: Any) -> None:
        write = getattr(self.aval, "_setitem", None)  # a type that can be written: a reference
        if write is not None:
            write(self, index, value)
            return
        raise TypeError(
            "JAX arrays are immutable and do not support in-place item assignment. Instead of "
            "x[idx] = y, use x = x.at[idx].set(y) or another .at[] method."
        )

    def __index__(self) -> int:
        self._check_integer_scalar()
        raise errors.TracerIntegerConversionError(self)

    def _check_integer_scalar(self) -> None:
        return None

    def __bool__(self) -> bool:
        if getattr(self.aval, "size", 1) == 0:
            raise ValueError(
                "The truth value of an empty array is ambiguous. Use `array.size > 0` to check "
                "that an array is not empty."
            )
        if getattr(self.aval, "shape", ()) != () and getattr(self.aval, "size", 1) != 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() "
                "or a.all()"
            )
        raise errors.TracerBoolConversionError(self)

    def __int__(self) -> int:
        raise _conversion_error(self, "int")

    def __float__(self) -> float:
        raise _conversion_error(self, "float")

    def __complex__(self) -> complex:
        raise _conversion_error(self, "complex")

    def __hash__(self) -> int:
        raise TypeError(
            f"unhashable type: '{type(self).__name__}'. A traced value has no number yet, so it "
            "cannot be in a set, a key of a dict, or an argument of a cached function. Fix: look "
            "it up in an array (`table[i]`) or with `lax.switch`, or make the argument static with "
            "`static_argnums`."
        )

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        raise TypeError(
            f"unsupported format string passed to {type(self).__name__}.__format__: a traced value "
            f"has no digits yet. Fix: `jax.debug.print('{{x:{spec}}}', x=x)` prints it when the "
            "program runs."
        )

    __iter__: Any  # the numpy layer's

    def __reversed__(self) -> Iterator[Any]:
        return reversed(list[Any](iter(self)))  # type: ignore[no-any-return]

    def __len__(self) -> int:
        own = getattr(self.aval, "_len", None)
        if own is not None:
            return own(self)  # type: ignore[no-any-return]
        if not self.aval.shape:
            raise TypeError("len() of unsized object")
        return self.aval.shape[0]  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        raise errors.ConcretizationTypeError(
            self, f"The tolist() method was called on {errors.describe(self)}."
        )

    def tobytes(self, order: str = "C") -> bytes:
        raise errors.ConcretizationTypeError(
            self, f"The tobytes() method was called on {errors.describe(self)}."
        )

    def item(self, *args: Any) -> Any:
        raise errors.ConcretizationTypeError(
            self, "The item() method was called on a traced array."
        )

    def __reduce__(self) -> Any:
        raise errors.ConcretizationTypeError(self, "A traced array was pickled.")

    def _leak_msg(self) -> str:
        """The line that says where a tracer was made, for the error of one that escaped."""
        return ""

    def _origin_msg(self) -> str:
        return ""

    def full_lower(self) -> Any:
        return self

    def settled(self) -> Any:
        """The array that it is, if it is one that nothing transforms after all."""
        return self

    def is_concrete(self) -> bool:
        return False

    def to_concrete_value(self) -> Any:
        """The value that it stands for, if Python may know it."""
        return None

    def __repr__(self) -> str:
        return f"Traced<{self.aval.str_short(short_dtypes=True)}>with<{type(self._trace).__name__}>"


class _Context(threading.local):
    trace: Trace | None = None
    axis_env: tuple[tuple[Any, int], ...] = ()
    mesh: Any = None
    named_mesh: Any = None
    checked: frozenset[Any] = frozenset()


_context = _Context()
_base: list[Trace] = []
# Called with +1 when a thread enters a trace that is not the base one, -1 when it leaves: native
# fast paths watch the sum.
depth_hooks: list[Callable[[int], None]] = []


class _Unset(Trace):
    """The base before a runtime has installed its own: says so."""

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        raise RuntimeError(
            "internal error in pullback: no runtime is installed to evaluate primitives"
        )


_base.append(_Unset())


def install_base(trace: Trace) -> None:
    """Called once, by the runtime: `trace` evaluates what no transformation has claimed."""
    _base[0] = trace


def base_trace() -> Trace:
    return _base[0]


def current_trace() -> Trace:
    """The trace that `bind` asks in this thread."""
    return _context.trace or _base[0]


def trace_state_clean() -> bool:
    """Is nothing being traced in this thread?"""
    return _context.trace is None


class use_trace:
    """`with use_trace(t):` makes `t` the current trace of this thread."""

    __slots__ = ("before", "delta", "trace")

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def __enter__(self) -> Trace:
        self.before = _context.trace
        trace = self.trace if self.trace is not _base[0] else None
        _context.trace = trace
        before = self.before
        self.delta = (trace is not None and not trace.quiet) - (
            before is not None and not before.quiet
        )
        if self.delta:
            for hook in depth_hooks:
                hook(self.delta)
        return self.trace

    def __exit__(self, *exc: Any) -> None:
        _context.trace = self.before
        if self.delta:
            for hook in depth_hooks:
                hook(-self.delta)


def eval_context() -> use_trace:
    """Evaluate at once whatever is bound inside (`ensure_compile_time_eval`, callbacks).

    >>> @pb.jit
    ... def f(x):
    ...     with pb.core.eval_context():
    ...         n = int(jnp.add(1, 2))
    ...     return x * n
    >>> f(2)
    Array(6, dtype=int32, weak_type=True)
    """
    return use_trace(_base[0])


# --- named axes: (name, size) pairs of enclosing vmaps, pmaps and shard_maps ---
def axis_env() -> tuple[tuple[Any, int], ...]:
    return _context.axis_env


@contextlib.contextmanager
def extend_axis_env(pairs: Sequence[tuple[Any, int]], only: bool = False) -> Iterator[None]:
    """These named axes, besides those of enclosing transformations unless they are the `only`
    ones."""
    before = _context.axis_env
    held = () if only else before
    _context.axis_env = (*held, *((n, s) for n, s in pairs if n is not None))
    try:
        yield
    finally:
        _context.axis_env = before


def trace_context() -> tuple[Any, ...]:
    """Everything besides a function and its arguments that a trace depends on: part of every cache
    key.
    """
    return (
        config.trace_values(),
        _context.axis_env,
        _context.mesh,
        _context.named_mesh,
        _context.checked,
    )


def set_mesh_of_traces(mesh: Any, named: Any) -> None:
    """What traces of this thread depend on besides: the mesh in force (None: none is), and the one
    whose axes may be `named` besides."""
    _context.mesh, _context.named_mesh = mesh, named


def mesh_of_traces() -> Any:
    """The abstract mesh in force in this thread; None if none is."""
    return _context.mesh


def checked_axes() -> frozenset[Any]:
    """The manual axes of a mesh over which types say whether values vary: those of enclosing
    `shard_map`s that check it."""
    return _context.checked


@contextlib.contextmanager
def manual_axes(
    pairs: Sequence[tuple[Any, int]], checked: bool, mesh: Any = None
) -> Iterator[None]:
    """In the body of a `shard_map`: these named axes, and whether types say what varies over
    them."""
    before, mesh_before = _context.checked, _context.mesh
    names = frozenset(name for name, _ in pairs)
    _context.checked = before | names if checked else before - names
    _context.mesh = mesh_before if mesh is None else mesh
    try:
        with extend_axis_env(pairs):
            yield
    finally:
        _context.checked, _context.mesh = before, mesh_before


def axis_size(name: Any, caller: str = "") -> int:
    """The size of a named axis; NameError, for `caller`, if no enclosing transformation binds
    it, TypeError for what is no name."""
    if type(name).__hash__ is None:
        raise TypeError(f"the name of an axis must be hashable, got {name!r}")
    for n, size in reversed(_context.axis_env):
        if n == name:
            return int(size)
    raise NameError(
        f"Found an unbound axis name: {name}. To fix this, please call {caller or 'it'} under "
        f"`jax.shard_map`, or run the function under `vmap(f, axis_name={name!r})`."
    )


class empty_context:
    """An empty trace context for the duration: callbacks and worker threads start from it."""

    __slots__ = ("axis_env", "trace")

    def __enter__(self) -> None:
        self.trace, self.axis_env = _context.trace, _context.axis_env
        _context.trace, _context.axis_env = None, ()

    def __exit__(self, *exc: Any) -> None:
        _context.trace, _context.axis_env = self.trace, self.axis_env


def _conversion_error(tracer: Tracer, name: str) -> TypeError:
    ndim = len(getattr(tracer.aval, "shape", ()))
    if ndim:
        return TypeError(
            f"Only scalar arrays can be converted to Python scalars; got arr.ndim={ndim}. "
            f"Fix: take one element, x[0], or use x.astype({name})."
        )
    return errors.ConcretizationTypeError(
        tracer,
        f"The problem arose with the `{name}` function. If trying to convert the data type of a "
        f"value, try using `x.astype({name})` or `jnp.array(x, {name})` instead.",
    )


def valueless_error(x: Any) -> TypeError:
    """What to raise for an operand that has a type, but no value of its own: what it says itself,
    or what is to be said of a ShapeDtypeStruct.
    """
    why_not = x.has_no_value
    if isinstance(why_not, str):
        return TypeError(why_not)
    return TypeError(
        "A ShapeDtypeStruct does not have a value and cannot be used as a constant in a "
        "JAX function. Fix: pass an array, or call jax.eval_shape, which needs types only."
    )


def escaped_tracer_error(tracer: Tracer, detail: str = "") -> errors.UnexpectedTracerError:
    """The error for a tracer whose trace has ended."""
    return errors.UnexpectedTracerError(
        "Encountered an unexpected tracer. A function transformed by Pullback had a side effect, "
        "allowing for a reference to an intermediate "
        f"value with type {tracer.aval.str_short()} to escape the scope of the "
        f"transformation.\n{tracer._leak_msg()}{detail}"
        f"The leaked value was used at {source.user_summary()}.\n"
        "Fix: return the value from the function instead of storing it in a list, a global or an "
        "attribute; "
        "set jax_check_tracer_leaks to find where it leaks."
    )


def check_live(x: Any) -> None:
    """Raises UnexpectedTracerError if `x` is a tracer of a finished trace."""
    if isinstance(x, Tracer) and not x._trace.is_valid():
        raise escaped_tracer_error(x)


def check_leaks(trace: Trace) -> None:
    """With the flag check_tracer_leaks, an Exception if something still holds a tracer of a trace
    that has ended.
    """
    if not config.check_tracer_leaks.get():
        return
    # Nobody but who asks, this function and the next call: no tracer can be left. The heap is not
    # searched then, which takes long.
    if hasattr(sys, "getrefcount") and sys.getrefcount(trace) <= 3:
        return
    gc.collect()
    leaked = [x for x in gc.get_objects() if isinstance(x, Tracer) and x._trace is trace]
    if leaked:
        chain = "\n".join(_referrers(leaked[0], leaked))
        raise Exception(
            f"Leaked trace {trace}. Leaked tracer(s):\n\n{leaked[0]}\n{leaked[0]._leak_msg()}"
            f"{chain}\n"
            "Fix: return the value instead of storing it in a list, a global or an attribute."
        )


def _referrers(tracer: Tracer, leaked: list[Tracer]) -> Iterator[str]:
    """Lines that lead from a tracer to what keeps it alive."""
    held: Any = tracer
    seen = {id(leaked), id(held)}
    for _ in range(10):
        holder, how = _holder_of(held, seen)
        if not how:
            return
        yield (
            f"<{type(held).__name__} {id(held)}> is referred to by <{type(holder).__name__} "
            f"{id(holder)}>{how}"
        )
        held = holder


def _holder_of(held: Any, seen: set[int]) -> tuple[Any, str]:
    """Somebody who holds an object and was not `seen`, and how. A loop: what is in a comprehension
    is held by it."""
    found = gc.get_referrers(held)
    for holder in found:
        if id(holder) not in seen:
            seen.add(id(holder))
            if isinstance(holder, CellType):
                holder = _function_of(holder)
            how = _holds(holder, held)
            if how:
                return holder, how
    return None, ""


def _function_of(cell: CellType) -> Any:
    """A function that closes over the cell."""
    for closure in gc.get_referrers(cell):
        if isinstance(closure, tuple):
            for function in gc.get_referrers(closure):
                if isinstance(function, FunctionType) and function.__closure__ is closure:
                    return function
    return None


def _holds(holder: Any, held: Any) -> str:
    """How an object holds another one, as messages say it; empty for what is of no interest:
    frames, modules, what is in the middle of its own work."""
    if isinstance(holder, FunctionType):
        names = holder.__code__.co_freevars
        cells = zip(names, holder.__closure__ or (), strict=False)
        name = next((n for n, c in cells if _content(c) is held), "")
        return f" ({holder.__name__})" + (f" closed-over variable {name}" if name else "")
    if isinstance(holder, dict):
        key = next((k for k, v in holder.items() if v is held), None)
        return "" if "__builtins__" in holder else f"[{key!r}]"
    if isinstance(holder, (list, tuple)):
        return f"[{next((k for k, v in enumerate(holder) if v is held), '?')}]"
    if hasattr(holder, "__dict__") and not isinstance(holder, (ModuleType, Trace)):
        field = next((n for n, v in vars(holder).items() if v is held), None)
        return f".{field}" if field else " in its attributes"
    return ""


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # of a variable that has no value yet
        return None
