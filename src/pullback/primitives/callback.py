"""Calls of Python from programs: pure_callback, io_callback, debug_callback and debug_print.

They run on the host, on the calling thread. Pure ones may be dropped, repeated or reordered; the
others have effects that keep them, and order them if they ask for it.
"""

from __future__ import annotations

import copy
import string
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, tree
from ..compile_log import LOGGERS
from ..core import effects as fx
from ..core.avals import ShapedArray, is_valid_value, typeof
from ..core.primitive import Primitive
from ..core.source import current as current_source
from ..core.symbolic import Zero
from ..core.trace import empty_context
from ..errors import JaxRuntimeError
from ..lazy_imports import lazy_module
from .builders import batch_size
from .common import array_maker
from .keys import PRNGKeyArray
from .layout import expand_dims, move_batch_front, squeeze
from .shape import concatenate, slice as lax_slice


class IOEffect(fx.Effect):
    """The effect of io_callback."""

    def __str__(self) -> str:
        return "IO"


class OrderedIOEffect(fx.Effect):
    """The effect of an ordered io_callback."""

    def __str__(self) -> str:
        return "OrderedIO"


class DebugEffect(fx.Effect):
    """The effect of debug_callback and debug_print.

    >>> program = pb.make_jaxpr(lambda x: pb.debug.print("{}", x))(1.0)
    >>> [type(effect).__name__ for effect in program.effects]
    ['DebugEffect']
    """

    def __str__(self) -> str:
        return "Debug"


class OrderedDebugEffect(fx.Effect):
    """The effect of their ordered forms.

    >>> program = pb.make_jaxpr(lambda x: pb.debug.print("{}", x, ordered=True))(1.0)
    >>> [type(effect).__name__ for effect in program.effects]
    ['OrderedDebugEffect']
    """

    def __str__(self) -> str:
        return "OrderedDebug"


io_effect, ordered_io_effect = IOEffect(), OrderedIOEffect()
debug_effect, ordered_debug_effect = DebugEffect(), OrderedDebugEffect()
for _kind in (IOEffect, OrderedIOEffect, DebugEffect, OrderedDebugEffect):
    fx.lowerable_effects.add_type(_kind)
    fx.control_flow_allowed_effects.add_type(_kind)
for _kind in (IOEffect, OrderedIOEffect):
    fx.lane_refused_effects.add_type(_kind)
for _kind in (DebugEffect, OrderedDebugEffect):
    fx.remat_allowed_effects.add_type(_kind)
    fx.custom_derivatives_allowed_effects.add_type(_kind)
for _kind in (OrderedIOEffect, OrderedDebugEffect):
    fx.ordered_effects.add_type(_kind)
fx.shardable_ordered_effects.add_type(OrderedIOEffect)

logging = lazy_module("logging")
METHODS = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
    None,
)


class FlatCallback:
    """A Python function of pytrees as one of leaves."""

    __slots__ = ("callback_func", "in_tree")

    def __init__(self, callback_func: Callable[..., Any], in_tree: Any) -> None:
        self.callback_func, self.in_tree = callback_func, in_tree

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = tree.unflatten(self.in_tree, leaves)
        return list(tree.leaves(self.callback_func(*args, **kwargs)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FlatCallback)
            and self.callback_func == other.callback_func
            and self.in_tree == other.in_tree
        )

    def __hash__(self) -> int:
        return hash((self.callback_func, self.in_tree))

    def __repr__(self) -> str:
        return f"_FlatCallback(callback_func={self.callback_func}, in_tree={self.in_tree})"


def call_python(
    name: str, callback: Callable[..., Any], arrays: Sequence[Any], avals: Sequence[Any]
) -> list[Any]:
    """Calls Python with arrays; the results as NumPy arrays of the promised types. Raises
    JaxRuntimeError for what goes wrong in it.
    """
    try:
        with empty_context():
            outs = callback(*(array_maker[0](x) for x in arrays))
    except Exception as e:
        # Who waits for results sees the error; who doesn't, as of effects, finds it in the log.
        logging.getLogger(LOGGERS["callback"]).exception("jax.%s failed", name)
        raise JaxRuntimeError(f"{name} failed: {type(e).__name__}: {e}") from e
    outs = [] if outs is None else list(outs)
    if len(outs) != len(avals):
        raise JaxRuntimeError(
            f"{name}: Mismatched number of outputs from callback. Expected: {len(avals)}, Actual: "
            f"{len(outs)}. Fix: return what result_shape_dtypes says."
        )
    return [_checked(name, k, x, a) for k, (x, a) in enumerate(zip(outs, avals, strict=True))]


def _checked(name: str, k: int, x: Any, aval: Any) -> Any:
    x = np.asarray(x)
    if x.shape != aval.shape:
        raise JaxRuntimeError(
            f"{name}: Incorrect output shape for return value #{k}: Expected: {aval.shape}, "
            f"Actual: {x.shape}. Fix: return what result_shape_dtypes says."
        )
    if x.dtype != aval.dtype and dtypes.canonicalize_dtype(x.dtype) != aval.dtype:
        raise JaxRuntimeError(
            f"{name}: Incorrect output dtype for return value #{k}: Expected: {aval.dtype}, "
            f"Actual: {x.dtype}. Fix: return np.asarray(value, '{aval.dtype}')."
        )
    return x.astype(aval.dtype)


def result_avals_of(shapes: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    leaves, structure = tree.flatten(shapes)
    avals = []
    for s in leaves:
        if not (hasattr(s, "shape") and hasattr(s, "dtype")):
            raise TypeError(
                f"result_shape_dtypes must hold objects with a shape and a dtype, got {s!r}"
            )
        d = dtypes.dtype(s.dtype)
        if dtypes.canonicalize_dtype(d, allow_extended_dtype=True) != d:
            raise ValueError(
                "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is "
                f"disabled: got {d}."
            )
        avals.append(ShapedArray(s.shape, d))
    return tuple(avals), structure


def _one_by_one(
    p: Primitive, args: Any, dims: Any, n: int, params: dict[str, Any]
) -> tuple[list[Any], list[int]]:
    """Calls a callback for each of the `n` elements of a batch."""
    args = [x if d is None else move_batch_front(x, d) for x, d in zip(args, dims, strict=True)]
    rows = []
    for k in range(n):
        rows.append(
            p.bind(
                *(x if d is None else _element(x, k) for x, d in zip(args, dims, strict=True)),
                **params,
            )
        )
    outs = [
        concatenate([expand_dims(x, (0,)) for x in column], 0) for column in zip(*rows, strict=True)
    ]
    return outs, [0] * len(outs)


def _element(x: Any, k: int) -> Any:
    shape = typeof(x).shape
    return squeeze(
        lax_slice(x, (k, *(0,) * (len(shape) - 1)), (k + 1, *shape[1:]), (1,) * len(shape)), (0,)
    )


# The same with a loop in the program instead of one call an element.
_loops: Any = lazy_module("pullback.control.callbacks")


# --- pure_callback ---
def _pure_aval(
    *avals: Any, callback: Any, result_avals: Any, sharding: Any, vmap_method: Any
) -> list[Any]:
    return list(result_avals)


def _pure_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    raise ValueError(
        "Pure callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks while "
        "taking gradients."
    )


def _pure_transpose(cts: Any, *args: Any, **params: Any) -> Any:
    raise ValueError(
        "Pure callbacks do not support transpose. Please use `jax.custom_vjp` to use callbacks "
        "while taking gradients."
    )


def _no_more(parts: Sequence[Any], params: dict[str, Any]) -> dict[str, Any]:
    return {}


def batch_by_method(
    get: Callable[[], Primitive],
    more: Callable[[Sequence[Any], dict[str, Any]], dict[str, Any]] = _no_more,
) -> Callable[..., Any]:
    """The batch rule of calls of functions that say themselves how a batch is passed
    (`vmap_method`). `more(operands, parameters)`: what else changes in a call of a whole batch.
    """

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        p, method = get(), params["vmap_method"]
        if method is None:
            raise NotImplementedError(
                f"vmap is only supported for the {p.name} primitive when vmap_method is one of "
                "'sequential', 'sequential_unrolled', 'expand_dims', 'broadcast_all', or "
                "'legacy_vectorized'. Got vmap_method=None. Fix: "
                "pure_callback(..., vmap_method='sequential')."
            )
        if method in ("sequential", "sequential_unrolled"):
            unroll = method == "sequential_unrolled"
            return _loops.sequentially(p, args, dims, batch_size(args, dims), params, unroll)
        n, parts = batch_size(args, dims), _batched_operands(args, dims, method)
        avals = tuple(a.update(shape=(n, *a.shape)) for a in params["result_avals"])
        changed = {"result_avals": avals, **more(parts, params)}
        outs = p.bind(*parts, **{**params, **changed})
        return outs, [0] * len(outs)

    return batch


def check_method(vmap_method: Any) -> None:
    """ValueError for what says of no batch how it is passed."""
    if vmap_method not in METHODS:
        raise ValueError(
            f"vmap_method must be on of the allowed methods {list(METHODS)}, but got: {vmap_method}"
        )


def _batched_operands(args: Any, dims: Any, vmap_method: str) -> list[Any]:
    """The operands of a call of a whole batch: the batch leads; what has none gets an axis of size
    1, or is repeated, or stays as it is."""
    n = batch_size(args, dims)
    parts = []
    for x, d in zip(args, dims, strict=True):
        if d is not None:
            parts.append(move_batch_front(x, d))
        elif vmap_method == "legacy_vectorized":
            parts.append(x)
        else:
            lead = expand_dims(x, (0,))
            parts.append(lead if vmap_method == "expand_dims" else _repeat(lead, n))
    return parts


def _repeat(x: Any, n: int) -> Any:
    return x if n == 1 else concatenate([x] * n, 0)


pure_callback_p: Primitive = Primitive(
    "pure_callback",
    abstract_eval=_pure_aval,
    jvp=_pure_jvp,
    transpose=_pure_transpose,
    batch=batch_by_method(lambda: pure_callback_p),
    multiple_results=True,
)


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a Python function without side effects from a program; its results have the types that
    `result_shape_dtypes` says.

    `vmap_method` says how a batch is passed: "sequential" (one by one), "expand_dims" or
    "broadcast_all" (at once, with a leading axis).

    >>> shape = pb.ShapeDtypeStruct((3,), jnp.float32)
    >>> double = lambda x: np.asarray(x) * np.float32(2)
    >>> pb.jit(lambda x: pb.pure_callback(double, shape, x))(jnp.ones(3))
    Array([2., 2., 2.], dtype=float32)
    """
    check_method(vmap_method)
    if not callable(callback):
        raise TypeError(f"pure_callback expects a callable, got {callback!r}")
    leaves, in_tree = tree.flatten((args, kwargs))
    avals, out_tree = result_avals_of(result_shape_dtypes)
    outs = pure_callback_p.bind(
        *leaves,
        callback=FlatCallback(callback, in_tree),
        result_avals=avals,
        sharding=sharding,
        vmap_method=vmap_method,
    )
    return tree.unflatten(out_tree, outs)


# --- io_callback ---
def _io_aval(*avals: Any, callback: Any, result_avals: Any, sharding: Any, ordered: bool) -> Any:
    return list(result_avals), frozenset({ordered_io_effect if ordered else io_effect})


def _io_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    raise ValueError("IO callbacks do not support JVP.")


def _io_transpose(cts: Any, *args: Any, **params: Any) -> Any:
    raise ValueError("IO callbacks do not support transpose.")


def _called_for_none(axis: Any, dims: Sequence[Any]) -> bool:
    """Is a callback called once for a whole axis? No operand is mapped, and the elements of the
    axis are not devices, each of which calls."""
    return not axis.devices and all(d is None for d in dims)


def _io_batch(axis: Any, args: Any, dims: Any, *, ordered: bool, **params: Any) -> Any:
    if _called_for_none(axis, dims):
        return None
    if ordered and not axis.devices:
        raise ValueError("Cannot `vmap` ordered IO callback.")
    params["ordered"] = ordered
    return _loops.sequentially(io_callback_p, args, dims, axis.size, params)


io_callback_p = Primitive(
    "io_callback",
    abstract_eval=_io_aval,
    jvp=_io_jvp,
    transpose=_io_transpose,
    axis_batch=_io_batch,
    multiple_results=True,
    effectful=True,
)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls a Python function that may have side effects from a program, exactly once each time it
    is reached (in order, if `ordered`).

    `result_shape_dtypes`: a pytree of `ShapeDtypeStruct`, whose shapes and dtypes the callback's
    results have; None for no results. Raises ValueError under `vmap` if `ordered`, and for
    derivatives.

    >>> from pullback.experimental import io_callback
    >>> seen = []
    >>> out = pullback.jit(lambda x: io_callback(lambda v: seen.append(int(v)), None, x))(7)
    >>> pullback.effects_barrier()
    >>> seen
    [7]
    """
    if not callable(callback):
        raise TypeError(f"io_callback expects a callable, got {callback!r}")
    leaves, in_tree = tree.flatten((args, kwargs))
    avals, out_tree = result_avals_of(result_shape_dtypes)
    outs = io_callback_p.bind(
        *leaves,
        callback=FlatCallback(callback, in_tree),
        result_avals=avals,
        sharding=sharding,
        ordered=ordered,
    )
    return tree.unflatten(out_tree, outs)


# --- debug_callback and debug_print ---
def _debug_jvp(get: Callable[[], Primitive]) -> Callable[..., Any]:
    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        return get().bind(*primals, **params), []

    return jvp


def _debug_transpose(cts: Any, *args: Any, **params: Any) -> Any:
    return [Zero(x.aval.to_ct_aval()) if hasattr(x, "aval") else None for x in args]


def _debug_batch(get: Callable[[], Primitive]) -> Callable[..., Any]:
    def batch(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
        if _called_for_none(axis, dims):
            return None
        return _one_by_one(get(), args, dims, axis.size, params)

    return batch


def _debug_callback_aval(*avals: Any, callback: Any, effect: Any, partitioned: bool) -> Any:
    return [], frozenset({effect})


def _debug_callback_now(*args: Any, callback: Any, **_: Any) -> list[Any]:
    """A call outside of programs: what the callback raises goes to the caller as it is."""
    arrays = [x if isinstance(x, PRNGKeyArray) else array_maker[0](x) for x in args]
    with empty_context():
        callback(*arrays)
    return []


debug_callback_p: Primitive = Primitive(
    "debug_callback",
    impl=_debug_callback_now,
    abstract_eval=_debug_callback_aval,
    jvp=_debug_jvp(lambda: debug_callback_p),
    transpose=_debug_transpose,
    axis_batch=_debug_batch(lambda: debug_callback_p),
    multiple_results=True,
    effectful=True,
)


def _debug_print_aval(*avals: Any, ordered: bool, **params: Any) -> Any:
    return [], frozenset({ordered_debug_effect if ordered else debug_effect})


def _debug_print_now(*args: Any, **params: Any) -> Any:
    """Outside of programs keys are shown as keys; programs know only the numbers they are made of.
    All else takes its turn among the programs that run."""
    if not any(isinstance(x, PRNGKeyArray) for x in args):
        return NotImplemented
    print_now(*args, **params)
    return []


debug_print_p: Primitive = Primitive(
    "debug_print",
    impl=_debug_print_now,
    abstract_eval=_debug_print_aval,
    jvp=_debug_jvp(lambda: debug_print_p),
    transpose=_debug_transpose,
    axis_batch=_debug_batch(lambda: debug_print_p),
    multiple_results=True,
    effectful=True,
)


def _split_static(leaves: Sequence[Any]) -> tuple[list[Any], tuple[tuple[int, Any], ...]]:
    """The leaves that are arrays, and the positions and values of the others."""
    dynamic = [x for x in leaves if is_valid_value(x)]
    return dynamic, tuple((k, x) for k, x in enumerate(leaves) if not is_valid_value(x))


def _join_static(dynamic: Sequence[Any], static: Sequence[tuple[int, Any]]) -> list[Any]:
    rest, fixed = iter(dynamic), dict(static)
    return [fixed[k] if k in fixed else next(rest) for k in range(len(dynamic) + len(fixed))]


def debug_callback(
    callback: Callable[..., None],
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> None:
    """Calls a Python function for its side effects; under transformations it sees the values of the
    program as it runs.
    """
    if not callable(callback):
        raise TypeError(
            "first argument to jax.debug.callback must be callable, but got an object of type "
            f"{type(callback)}"
        )
    leaves, in_tree = tree.flatten((args, kwargs))
    dynamic, static = _split_static(leaves)

    def _flat_callback(*values: Any) -> list[Any]:
        a, kw = tree.unflatten(in_tree, _join_static(values, static))
        callback(*a, **kw)
        return []

    effect = ordered_debug_effect if ordered else debug_effect
    debug_callback_p.bind(*dynamic, callback=_flat_callback, effect=effect, partitioned=partitioned)


class _Formatter(string.Formatter):
    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        values = [x for k, x in enumerate(args) if k not in used_args]
        names = [k for k in kwargs if k not in used_args]
        for kind, unused in (("positional", values), ("keyword", names)):
            if unused:
                raise ValueError(
                    f"Unused {kind} arguments to `jax.debug.print`: {unused}. You may be "
                    "passing an f-string. Fix: a plain string with placeholders, '{x}'."
                )


_formatter = _Formatter()


def debug_print(
    fmt: str,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> None:
    """Prints values of a program as it runs: `fmt` has placeholders as in str.format.

    >>> from pullback.primitives.callback import debug_print
    >>> debug_print("x = {x}", x=3)
    x = 3
    """
    if not isinstance(fmt, str):
        raise TypeError(
            "first argument to jax.debug.print must be a string, but got an object of type "
            f"{type(fmt)}"
        )
    placeholders = any(field is not None for _, field, _, _ in string.Formatter().parse(fmt))
    if not skip_format_check:
        _formatter.vformat(fmt, [_Any(x) for x in args], {k: _Any(x) for k, x in kwargs.items()})
    leaves, in_tree = tree.flatten((args, kwargs))
    dynamic, static = _split_static(leaves)
    options = np.get_printoptions()
    debug_print_p.bind(
        *dynamic,
        fmt=fmt,
        ordered=ordered,
        partitioned=partitioned,
        in_tree=in_tree,
        static_args=static,
        np_printoptions=tuple(options.items()),
        has_placeholders=placeholders,
        logging_record=_record() if _use_logging else None,
    )


def _record() -> Any:
    """Where the user asked for a line in the log."""
    where = current_source()
    return logging.LogRecord(
        "pullback.debug", logging.INFO, where.file, where.line, "", (), None, where.function
    )


class _Any:
    """Formats in any way; shows what it stands for."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return repr(self._value)

    def __format__(self, spec: str) -> str:
        return ""

    def __getattr__(self, name: str) -> _Any:
        return self

    def __getitem__(self, index: Any) -> _Any:
        return self


def print_now(
    *arrays: Any,
    fmt: str,
    in_tree: Any,
    static_args: Any,
    np_printoptions: Any,
    has_placeholders: bool,
    logging_record: Any = None,
    **_: Any,
) -> None:
    """What debug_print does when the program reaches it. Values are Arrays, as users know them:
    `{!r}` and values inside of containers show it.
    """
    options = {k: v for k, v in np_printoptions if k != "override_repr"}
    with empty_context(), np.printoptions(**options):
        values = [x if isinstance(x, PRNGKeyArray) else array_maker[0](x) for x in arrays]
        args, kwargs = tree.unflatten(in_tree, _join_static(values, static_args))
        line = fmt.format(*args, **kwargs) if has_placeholders or args or kwargs else fmt
    if logging_record is None:
        sys.stdout.write(line + "\n")
        return
    logger = logging.getLogger(logging_record.name)
    if logger.isEnabledFor(logging.INFO):
        record = copy.copy(logging_record)
        record.msg = line
        logger.handle(record)
