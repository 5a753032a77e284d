"""Run-time checks inside compiled programs: an error is a value that the program returns.

`checkify(f)` gives a function that returns `(error, f's result)`: the checks that `f` asks for with
`check`, and, if asked for, of NaNs, divisions by zero and indices out of bounds. It traces `f` and
walks the program: each equation that can fail adds its outcome to an `Error`, which loops carry and
branches return. The first failure wins.

An `Error` holds a slot for each kind of failure (its exception class and the types of what its
message shows): whether it happened, which check it was, and the values to show.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, lax, tree
from .. import numpy as jnp
from ..api.arguments import ShapeDtypeStruct
from ..control.call import bind_call, jit_p
from ..control.cond import cond_p
from ..control.custom import custom_jvp_call_p, custom_vjp_call_p
from ..control.remat import remat_p
from ..control.scan import scan_p
from ..control.while_loop import while_p
from ..core import effects as fx
from ..core.avals import ShapedArray, typeof
from ..core.build import close_jaxpr, fun_source_info, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, Literal, convert_constvars, eval_jaxpr
from ..core.primitive import No, Primitive
from ..core.source import current as current_source
from ..core.source import using as using_source
from ..core.symbolic import Zero
from ..primitives import index as index_primitives
from ..primitives.elementwise import div_p, rem_p
from ..tree_util import register_pytree_node

__all__ = [
    "Error",
    "ErrorCategory",
    "JaxRuntimeError",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "init_error",
    "nan_checks",
    "user_checks",
]


class JaxRuntimeError(ValueError):
    """A check failed: `Error.throw` raises it."""


class JaxException(Exception):
    """The base of what `Error.get_exception` returns; one class for each category of checks."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.where = where

    def __str__(self) -> str:
        return str(self.args[0])


class FailedCheckError(JaxException):
    """A `check` of the program's failed."""


class NaNError(JaxException):
    """An operation made a NaN."""


class DivisionByZeroError(JaxException):
    """A divisor was zero."""


class OOBError(JaxException):
    """An index was out of bounds."""


ErrorCategory = type[JaxException]
user_checks: frozenset[ErrorCategory] = frozenset({FailedCheckError})
nan_checks: frozenset[ErrorCategory] = frozenset({NaNError})
index_checks: frozenset[ErrorCategory] = frozenset({OOBError})
div_checks: frozenset[ErrorCategory] = frozenset({DivisionByZeroError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks

_codes = itertools.count()


class Kind:
    """What errors have in common that share a slot: the exception and the types of its values."""

    __slots__ = ("avals", "error_type")

    def __init__(self, error_type: ErrorCategory, avals: tuple[Any, ...]) -> None:
        self.error_type, self.avals = error_type, avals

    def _key(self) -> tuple[Any, ...]:
        return (self.error_type.__name__, *((a.shape, str(a.dtype)) for a in self.avals))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kind) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __lt__(self, other: Kind) -> bool:
        return repr(self._key()) < repr(other._key())

    def __repr__(self) -> str:
        return f"ErrorEffect(error_type={self.error_type}, shape_dtypes={self.avals})"


class Failure:
    """One place of a program that can fail: how to make its exception from the values it kept."""

    __slots__ = ("code", "kind", "make", "where")

    def __init__(self, kind: Kind, make: Callable[[Sequence[Any]], str], where: str) -> None:
        self.code, self.kind, self.make, self.where = next(_codes), kind, make, where

    def exception(self, payload: Sequence[Any]) -> JaxException:
        return self.kind.error_type(self.make(payload), self.where)


class Error:
    """Whether checks failed: a pytree that a checkified function returns, with its result.

    `get()` gives the first failure's message or None, `get_exception()` the exception or None,
    `throw()` raises JaxRuntimeError if there was one. Under `vmap` an error has an axis; `get`
    then lists the failures with their index.
    """

    def __init__(
        self,
        _pred: dict[Kind, Any],
        _code: dict[Kind, Any],
        _metadata: dict[int, Failure],
        _payload: dict[Kind, list[Any]],
    ) -> None:
        self._pred, self._code = _pred, _code
        self._metadata, self._payload = _metadata, _payload

    def __repr__(self) -> str:
        return (
            f"Error(_pred={self._pred}, _code={self._code}, "
            f"_metadata={self._metadata}, _payload={self._payload})"
        )

    # --- what users read ---
    def get(self) -> str | None:
        """The message of the first failure, or None; of a batch, one line for each element."""
        shape = next((np.shape(p) for p in self._pred.values()), ())
        if not shape:
            found = self.get_exception()
            return None if found is None else str(found)
        lines = []
        for index in np.ndindex(*shape):
            found = self._exception_at(index)
            if found is not None:
                lines.append(f"at mapped index {', '.join(map(str, index))}: {found}")
        return "\n".join(lines) or None

    def get_exception(self) -> JaxException | None:
        """The exception of the first failure (of a batch: of its first element that failed)."""
        shape = next((np.shape(p) for p in self._pred.values()), ())
        for index in np.ndindex(*shape):
            found = self._exception_at(index)
            if found is not None:
                return found
        return None

    def throw(self) -> None:
        """Raises JaxRuntimeError with the message if a check failed."""
        check_error(self)

    def _exception_at(self, index: tuple[int, ...]) -> JaxException | None:
        failed = {
            int(np.asarray(self._code[k])[index]): k
            for k, pred in self._pred.items()
            if np.asarray(pred)[index]
        }
        if not failed:
            return None
        code = min(failed)
        payload = [np.asarray(p)[index] for p in self._payload[failed[code]]]
        return self._metadata[code].exception(payload)

    # --- what the walk does with it ---
    def record(self, failed: Any, failure: Failure, payload: Sequence[Any]) -> Error:
        """With one more outcome; an earlier failure of the kind keeps its slot."""
        kind = failure.kind
        metadata = {**self._metadata, failure.code: failure}
        code = jnp.asarray(failure.code, np.int32)
        kept = [jnp.asarray(p, a.dtype) for p, a in zip(payload, kind.avals, strict=True)]
        if kind in self._pred:
            before = self._pred[kind]
            code = jnp.where(before, self._code[kind], code)
            olds = self._payload[kind]
            kept = [jnp.where(before, old, new) for old, new in zip(olds, kept, strict=True)]
            failed = before | failed
        return Error(
            {**self._pred, kind: failed},
            {**self._code, kind: code},
            metadata,
            {**self._payload, kind: kept},
        )

    def with_kinds(self, kinds: Sequence[Kind]) -> Error:
        """With a slot, of no failure, for each of these kinds."""
        pred, code, payload = dict(self._pred), dict(self._code), dict(self._payload)
        for kind in kinds:
            if kind not in pred:
                pred[kind] = jnp.asarray(False)
                code[kind] = jnp.asarray(-1, np.int32)
                payload[kind] = [jnp.zeros(a.shape, a.dtype) for a in kind.avals]
        return Error(pred, code, self._metadata, payload)

    def with_metadata(self, metadata: dict[int, Failure]) -> Error:
        return Error(self._pred, self._code, {**self._metadata, **metadata}, self._payload)

    def kinds(self) -> list[Kind]:
        return sorted(self._pred)

    def leaves(self) -> list[Any]:
        """The arrays, slot by slot in the order of `kinds`."""
        return [x for k in self.kinds() for x in (self._pred[k], self._code[k], *self._payload[k])]

    def replace_leaves(self, leaves: Sequence[Any]) -> Error:
        """The error whose arrays are `leaves`, in the order of `leaves()`."""
        return _from_leaves(self.kinds(), leaves, self._metadata)


def _from_leaves(kinds: Sequence[Kind], leaves: Sequence[Any], metadata: Any) -> Error:
    it = iter(leaves)
    pred, code, payload = {}, {}, {}
    for kind in kinds:
        pred[kind], code[kind] = next(it), next(it)
        payload[kind] = [next(it) for _ in kind.avals]
    return Error(pred, code, dict(metadata), payload)


class _Structure:
    """What of an error is not arrays. Two traces of one program are one structure."""

    __slots__ = ("kinds", "metadata")

    def __init__(self, error: Error) -> None:
        self.kinds, self.metadata = tuple(error.kinds()), error._metadata

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Structure)
            and self.kinds == other.kinds
            and self.metadata.keys() == other.metadata.keys()
        )

    def __hash__(self) -> int:
        return hash((self.kinds, tuple(self.metadata)))


register_pytree_node(
    Error,
    lambda e: (e.leaves(), _Structure(e)),
    lambda s, leaves: _from_leaves(s.kinds, list(leaves), s.metadata),
)
init_error = Error({}, {}, {}, {})


# --- the primitive: (whether it failed, *values) -> nothing ---
class CheckEffect(fx.Effect):
    """The program has a check that nothing has turned into an `Error`."""

    def __str__(self) -> str:
        return "Check"

    refusal = (
        "Cannot abstractly evaluate a checkify.check which was not functionalized. This probably "
        "means you tried to stage (jit/scan/pmap/...) a `check` without functionalizing it "
        "through `checkify.checkify`. Fix: call checkify.checkify(f) and jit that; or use "
        "checkify.debug_check, which does nothing outside of checkify."
    )


_check_effect = CheckEffect()
for _set in (
    fx.control_flow_allowed_effects,
    fx.custom_derivatives_allowed_effects,
    fx.remat_allowed_effects,
    fx.vmap_allowed_effects,
):
    _set.add_type(CheckEffect)


def _check_impl(failed: Any, *payload: Any, failures: Any, debug: bool) -> list[Any]:
    error = failures(failed, payload)
    if not debug:
        check_error(error)
    return []


def _check_batch(args: Any, dims: Any, **params: Any) -> Any:
    """Fails if any element does; the last element that fails gives the values."""
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
    fronts = [
        jnp.broadcast_to(x, (size, *np.shape(x))) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(args, dims, strict=True)
    ]
    preds = [p if p.ndim == 1 else p.any(axis=tuple(range(1, p.ndim))) for p in fronts[:1]]
    last = size - 1 - jnp.argmax(preds[0][::-1])
    check_p.bind(preds[0].any(), *(x[last] for x in fronts[1:]), **params)
    return [], []


def _check_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    check_p.bind(*primals, **params)
    return [], []


check_p = Primitive(
    "check",
    abstract_eval=lambda *avals, **_: ([], frozenset({_check_effect})),
    jvp=_check_jvp,
    transpose=No.NOT_LINEAR,
    batch=_check_batch,
    multiple_results=True,
    effectful=True,
    impl=_check_impl,
)


class _Fixed:
    """The failures of one `check` or `check_error`: adds them to an error."""

    __slots__ = ("enabled", "kinds", "make")

    def __init__(self, kinds: Sequence[Kind], make: Callable[..., Error], enabled: Any) -> None:
        self.kinds, self.make, self.enabled = tuple(kinds), make, enabled

    def __call__(self, failed: Any, payload: Sequence[Any], error: Error = init_error) -> Error:
        return self.make(error, failed, payload)

    def __repr__(self) -> str:
        return f"checks of {[k.error_type.__name__ for k in self.kinds]}"


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Fails with `msg` if `pred`, a boolean scalar, is false.

    `msg` is a format string; `fmt_args` and `fmt_kwargs` are arrays (or pytrees of them) that it
    shows, with the values they have at run time. Outside of traced code a failed check raises
    JaxRuntimeError at once; traced code must be under `checkify`. With `debug` the check does
    nothing outside of `checkify`.

    >>> def f(x):
    ...     checkify.check(x > 0, "x must be positive, got {x}", x=x)
    ...     return jnp.log(x)
    >>> error, y = jax.jit(checkify.checkify(f))(-1.0)
    >>> error.get()
    'x must be positive, got -1.0 (`check` failed)'

    Raises TypeError if `pred` is not a boolean scalar, `msg` not a string, or a value to show not
    an array.
    """
    if not _is_boolean_scalar(pred):
        raise TypeError(
            f"check takes a scalar pred as argument, got {pred}. Fix: reduce it, with jnp.all."
        )
    if not isinstance(msg, str):
        raise TypeError(f"check takes a str message as argument, got {msg!r}.")
    for leaf in tree.leaves((fmt_args, fmt_kwargs)):
        if not isinstance(leaf, (np.ndarray, np.generic)) and not hasattr(leaf, "aval"):
            raise TypeError(
                "Formatting arguments to checkify.check need to be PyTrees of arrays, but got "
                f"{leaf!r} of type {type(leaf)}. Fix: jnp.asarray(value), or format it into msg."
            )
    leaves, structure = tree.flatten((fmt_args, fmt_kwargs))
    kind = Kind(FailedCheckError, tuple(_payload_type(x) for x in leaves))

    def message(payload: Sequence[Any]) -> str:
        args, kwargs = tree.unflatten(structure, payload)
        return f"{string.Formatter().vformat(msg, args, kwargs)} (`check` failed)"

    failure = Failure(kind, message, _where())

    def add(error: Error, failed: Any, payload: Sequence[Any]) -> Error:
        return error.record(failed, failure, payload)

    check_p.bind(
        jnp.logical_not(pred), *leaves, failures=_Fixed([kind], add, user_checks), debug=debug
    )


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """A `check` that does nothing outside of `checkify`."""
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Raises JaxRuntimeError if `error` holds a failure; in traced code, a `check` that fails with
    it.

    >>> error, y = checkify.checkify(f)(x)
    >>> checkify.check_error(error)

    Raises TypeError if `error` is not an `Error`.
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes an Error as argument, got {error!r}.")
    leaves = error.leaves()
    if not any(_is_tracer(x) for x in leaves):
        message = error.get()
        if message is not None:
            raise JaxRuntimeError(message) from error.get_exception()
        return
    kinds, metadata = error.kinds(), error._metadata

    def add(into: Error, failed: Any, payload: Sequence[Any]) -> Error:
        given = _from_leaves(kinds, payload, metadata)
        return _merge(into, given)

    failed = [jnp.any(error._pred[k]) for k in kinds]
    anything = jnp.stack(failed).any() if failed else jnp.asarray(False)
    enabled = frozenset(k.error_type for k in kinds)
    check_p.bind(anything, *leaves, failures=_Fixed(kinds, add, enabled), debug=False)


def _merge(into: Error, new: Error) -> Error:
    """`into` with the failures of `new`, where it has none of the kind."""
    out = into.with_metadata(new._metadata)
    for kind in new.kinds():
        if kind not in out._pred:
            pred, code, payload = new._pred[kind], new._code[kind], new._payload[kind]
        else:
            before = out._pred[kind]
            pred = before | new._pred[kind]
            code = jnp.where(before, out._code[kind], new._code[kind])
            olds = out._payload[kind]
            payload = [
                jnp.where(before, o, n) for o, n in zip(olds, new._payload[kind], strict=True)
            ]
        out = Error(
            {**out._pred, kind: pred},
            {**out._code, kind: code},
            out._metadata,
            {**out._payload, kind: payload},
        )
    return out


def _is_tracer(x: Any) -> bool:
    return hasattr(x, "_trace")


def _is_boolean_scalar(pred: Any) -> bool:
    if isinstance(pred, (bool, np.bool_)):
        return True
    aval = getattr(pred, "aval", pred)
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    return shape == () and dtype == np.dtype(bool)


def _payload_type(x: Any) -> Any:
    aval = typeof(x)
    return ShapeDtypeStruct(aval.shape, aval.dtype)


def _where() -> str:
    info = current_source()
    return info.summary() if info is not None else ""


# --- the walk ---
Enabled = frozenset[ErrorCategory]
Rule = Callable[[Error, Enabled, Sequence[Any], dict[str, Any]], tuple[Error, Any]]
error_checks: dict[Primitive, Rule] = {}


def checkify(
    f: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks
) -> Callable[..., tuple[Error, Any]]:
    """A function that calls `f` and returns `(Error, result)`; it may be jitted and vmapped.

    `errors` are the categories to check, which `|` joins: `user_checks` (calls of `check`; the
    default), `nan_checks`, `div_checks`, `float_checks` (both), `index_checks`,
    `automatic_checks` (these three) and `all_checks`. Checks of categories left out are dropped.

    >>> error, y = jax.jit(checkify.checkify(jnp.log, errors=checkify.nan_checks))(-1.0)
    >>> error.get()
    'nan generated by primitive: log.'

    Raises TypeError if `f` is not callable.
    """
    if not callable(f):
        raise TypeError(f"checkify takes a function, got {f!r} of type {type(f)}.")
    enabled = frozenset(errors)

    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        trees: list[Any] = []

        def flat() -> list[Any]:
            leaves, out_tree = tree.flatten(f(*args, **kwargs))
            trees.append(out_tree)
            return leaves

        info = DebugInfo("checkify", fun_source_info(f))
        jaxpr, consts = trace_to_jaxpr(flat, [], info)
        error, outs = _walk(jaxpr, consts, init_error, enabled, [])
        return error, tree.unflatten(trees[-1], outs)

    checked.__name__ = getattr(f, "__name__", "checked")
    checked.__wrapped__ = f  # type: ignore[attr-defined]
    return checked


def _walk(
    jaxpr: Jaxpr, consts: Sequence[Any], error: Error, enabled: Enabled, args: Sequence[Any]
) -> tuple[Error, list[Any]]:
    """Evaluates a program, equation by equation, with its checks."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(v: Any) -> Any:
        return v.val if type(v) is Literal else env[v]

    for eqn in jaxpr.eqns:
        with using_source(eqn.source_info):
            rule = error_checks.get(eqn.primitive, _by_default(eqn.primitive))
            error, out = rule(error, enabled, [read(v) for v in eqn.invars], eqn.params)
        outs = out if eqn.primitive.multiple_results else [out]
        env.update(zip(eqn.outvars, outs, strict=True))
    return error, [read(v) for v in jaxpr.outvars]


def _bind(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    subfuns, params = primitive.get_bind_params(params)
    return primitive.bind(*subfuns, *args, **params)


def _by_default(primitive: Primitive) -> Rule:
    def rule(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
        out = _bind(primitive, args, params)
        return _check_nan(error, enabled, primitive, args, out), out

    return rule


# These make no NaN from numbers, whatever they move or choose.
_NAN_FREE = frozenset({"random_bits", "random_seed", "random_wrap", "random_unwrap", "iota"})


def _check_nan(error: Error, enabled: Enabled, primitive: Primitive, args: Any, out: Any) -> Error:
    if NaNError not in enabled or primitive.name in _NAN_FREE:
        return error
    outs = out if primitive.multiple_results else [out]
    found = [
        jnp.isnan(x).any()
        for x in outs
        if isinstance(typeof(x), ShapedArray) and dtypes.issubdtype(typeof(x).dtype, np.inexact)
    ]
    if not found:
        return error
    message = f"nan generated by primitive: {primitive.name}."
    failure = Failure(Kind(NaNError, ()), lambda _: message, _where())
    return error.record(jnp.stack(found).any() if len(found) > 1 else found[0], failure, ())


def _rule_of_check(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
    failures = params["failures"]
    if failures.enabled <= enabled or failures.enabled & enabled:
        error = failures(args[0], args[1:], error)
    return error, []


def _rule_of_division(primitive: Primitive, after: Rule) -> Rule:
    def rule(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
        if DivisionByZeroError in enabled:
            kind = Kind(DivisionByZeroError, ())
            failure = Failure(kind, lambda _: "division by zero", _where())
            error = error.record(jnp.any(jnp.asarray(args[1]) == 0), failure, ())
        return after(error, enabled, args, params)

    return rule


# --- indices ---
_OOB_PAYLOAD = tuple(ShapeDtypeStruct((), np.dtype("int32")) for _ in range(3))


def _record_bounds(error: Error, shape: Any, bad: Any, index: Any, axis: Any) -> Error:
    """Records the first `True` of `bad`, with the index and the axis at the same place."""
    if not bad.size:
        return error
    first = jnp.argmax(bad.ravel())
    sizes = np.asarray(shape, np.int32)

    def message(payload: Sequence[Any]) -> str:
        at, axis, size = map(int, payload)
        return (
            f"out-of-bounds indexing for array of shape {tuple(shape)}: index {at} is out of "
            f"bounds for axis {axis} with size {size}. "
        )

    axis = jnp.broadcast_to(axis, bad.shape).ravel()[first]
    payload = (index.ravel()[first], axis, jnp.asarray(sizes)[axis])
    failure = Failure(Kind(OOBError, _OOB_PAYLOAD), message, _where())
    return error.record(bad.any(), failure, payload)


def _check_starts(error: Error, shape: Any, indices: Any, axes: Any, windows: Any) -> Error:
    """`indices[..., k]` starts a window of `windows[k]` along `axes[k]` of an array."""
    if not axes:
        return error
    indices = jnp.asarray(indices)
    last = np.asarray([shape[a] - w for a, w in zip(axes, windows, strict=True)])
    bad = (indices < 0) | (indices > jnp.asarray(np.clip(last, -1, None), indices.dtype))
    return _record_bounds(error, shape, bad, indices, jnp.asarray(np.asarray(axes, np.int32)))


def _rule_of_gather(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
    operand, indices = args
    out = index_primitives.gather_p.bind(operand, indices, **params)
    if OOBError in enabled:
        axes = params["dimension_numbers"].start_index_map
        windows = [params["slice_sizes"][a] for a in axes]
        error = _check_starts(error, np.shape(operand), indices, axes, windows)
    return _check_nan(error, enabled, index_primitives.gather_p, args, out), out


def _rule_of_scatter(primitive: Primitive) -> Rule:
    def rule(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
        operand, indices, updates = args
        out = primitive.bind(operand, indices, updates, **params)
        if OOBError in enabled:
            numbers = params["dimension_numbers"]
            axes = numbers.scatter_dims_to_operand_dims
            skipped = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
            sizes = iter(np.shape(updates)[d] for d in numbers.update_window_dims)
            window = [1 if d in skipped else next(sizes) for d in range(np.ndim(operand))]
            windows = [window[a] for a in axes]
            error = _check_starts(error, np.shape(operand), indices, axes, windows)
        return _check_nan(error, enabled, primitive, args, out), out

    return rule


def _rule_of_dynamic(primitive: Primitive) -> Rule:
    """dynamic_slice(operand, *starts) and dynamic_update_slice(operand, update, *starts)."""

    def rule(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
        out = primitive.bind(*args, **params)
        if OOBError in enabled:
            shape = np.shape(args[0])
            updates = primitive is index_primitives.dynamic_update_slice_p
            starts = args[2:] if updates else args[1:]
            windows = np.shape(args[1]) if updates else params["slice_sizes"]
            if starts:
                stacked = jnp.stack([jnp.asarray(s, np.int32) for s in starts])
                axes = tuple(range(len(shape)))
                error = _check_starts(error, shape, stacked, axes, windows)
        return _check_nan(error, enabled, primitive, args, out), out

    return rule


# --- programs within programs ---
def _checked_jaxpr(
    closed: ClosedJaxpr, error: Error, enabled: Enabled, wanted: Sequence[Kind] = ()
) -> tuple[ClosedJaxpr, list[Any], Error]:
    """The program from (error's arrays, arguments) to (error's arrays, results), the constants
    that come first among its arguments, and an error like the one that it returns."""
    template: list[Error] = []
    n = len(error.leaves())

    def fun(*flat: Any) -> list[Any]:
        given = error.replace_leaves(flat[:n])
        new, outs = _walk(closed.jaxpr, closed.consts, given, enabled, flat[n:])
        new = new.with_kinds(wanted)
        template.append(new)
        return [*new.leaves(), *outs]

    avals = [*map(typeof, error.leaves()), *closed.in_avals]
    avals = [a.strip_weak_type() if k < n else a for k, a in enumerate(avals)]
    jaxpr, consts = trace_to_jaxpr(fun, avals, closed.jaxpr.debug_info)
    found = close_jaxpr(convert_constvars(jaxpr), [])[0]
    return found, list(consts), template[-1]


def _new_kinds(closed: ClosedJaxpr, error: Error, enabled: Enabled) -> list[Kind]:
    """The kinds that a program adds to an error's."""
    _, _, after = _checked_jaxpr(closed, error, enabled)
    return [k for k in after.kinds() if k not in error._pred]


def _result(template: Error, outs: Sequence[Any]) -> tuple[Error, list[Any]]:
    n = len(template.leaves())
    return template.replace_leaves(outs[:n]), list(outs[n:])


def _rule_of_jit(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
    closed, consts, after = _checked_jaxpr(params["jaxpr"], error, enabled)
    return _result(after, bind_call(closed, [*consts, *error.leaves(), *args], params))


def _rule_of_remat(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
    inner = close_jaxpr(params["jaxpr"], [])[0]
    closed, consts, after = _checked_jaxpr(inner, error, enabled)
    operands = [*consts, *error.leaves(), *args]
    return _result(after, remat_p.bind(*operands, **{**params, "jaxpr": closed.jaxpr}))


def _rule_of_cond(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
    branches = params["branches"]
    kinds = {k for b in branches for k in _new_kinds(b, error, enabled)}
    error = error.with_kinds(sorted(kinds))
    found = [_checked_jaxpr(b, error, enabled) for b in branches]
    all_consts = [c for _, consts, _ in found for c in consts]
    padded, start, after = [], 0, error
    for closed, consts, new in found:
        padded.append(_pad_constants(closed, start, len(consts), all_consts))
        start += len(consts)
        after = after.with_metadata(new._metadata)
    outs = cond_p.bind(
        args[0], *all_consts, *error.leaves(), *args[1:],
        **{**params, "branches": tuple(padded)},
    )  # fmt: skip
    return _result(after, outs)


def _pad_constants(
    closed: ClosedJaxpr, start: int, count: int, all_consts: Sequence[Any]
) -> ClosedJaxpr:
    """The branch with all branches' constants as its first arguments."""
    total = len(all_consts)

    def fun(*flat: Any) -> list[Any]:
        mine = flat[start : start + count]
        return eval_jaxpr(closed.jaxpr, closed.consts, *mine, *flat[total:])

    avals = [*map(typeof, all_consts), *closed.in_avals[count:]]
    return close_jaxpr(*trace_to_jaxpr(fun, avals, closed.jaxpr.debug_info))[0]


def _rule_of_scan(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
    closed: ClosedJaxpr = params["jaxpr"]
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    error = error.with_kinds(_new_kinds(closed, error, enabled))
    body, consts, after = _checked_jaxpr(closed, error, enabled)
    # (hoisted, error, consts, carry, xs) becomes (hoisted, consts, error, carry, xs).
    n_hoisted, n_error = len(consts), len(error.leaves())
    order = [
        *range(n_hoisted),
        *range(n_hoisted + n_error, n_hoisted + n_error + n_consts),
        *range(n_hoisted, n_hoisted + n_error),
        *range(n_hoisted + n_error + n_consts, len(body.jaxpr.invars)),
    ]
    body = body.replace(jaxpr=body.jaxpr.replace(invars=[body.jaxpr.invars[k] for k in order]))
    outs = scan_p.bind(
        *consts, *args[:n_consts], *error.leaves(), *args[n_consts:],
        **{**params, "jaxpr": body, "num_consts": n_hoisted + n_consts,
           "num_carry": n_error + n_carry},
    )  # fmt: skip
    return _result(error.with_metadata(after._metadata), outs)


def _rule_of_while(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
    """The condition runs at the end of the body, so that its checks are carried too."""
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_cc, n_bc = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts, init = args[:n_cc], args[n_cc : n_cc + n_bc], args[n_cc + n_bc :]
    kinds = {*_new_kinds(cond, error, enabled), *_new_kinds(body, error, enabled)}
    error = error.with_kinds(sorted(kinds))
    error, (pred,) = _walk(cond.jaxpr, cond.consts, error, enabled, [*cond_consts, *init])
    n_error = len(error.leaves())
    metadata: dict[int, Failure] = {}
    start = error

    def new_body(*flat: Any) -> list[Any]:
        given = start.replace_leaves(flat[1 : 1 + n_error])
        state = flat[1 + n_error :]
        new, outs = _walk(body.jaxpr, body.consts, given, enabled, [*body_consts, *state])
        new, (again,) = _walk(cond.jaxpr, cond.consts, new, enabled, [*cond_consts, *outs])
        metadata.update(new._metadata)
        return [again, *new.leaves(), *outs]

    carry = [pred, *error.leaves(), *init]
    avals = [typeof(x).strip_weak_type() for x in carry[: 1 + n_error]]
    avals = [*avals, *body.in_avals[n_bc:]]
    jaxpr, consts = trace_to_jaxpr(new_body, avals, body.jaxpr.debug_info)
    new_body_jaxpr = close_jaxpr(convert_constvars(jaxpr), [])[0]
    new_cond = close_jaxpr(*trace_to_jaxpr(lambda p, *_: [p], avals, cond.jaxpr.debug_info))[0]
    outs = while_p.bind(
        *consts, *carry,
        **{**params, "cond_nconsts": 0, "body_nconsts": len(consts), "cond_jaxpr": new_cond,
           "body_jaxpr": new_body_jaxpr},
    )  # fmt: skip
    return _result(error.with_metadata(metadata), outs[1:])


def _rule_of_custom(primitive: Primitive) -> Rule:
    """The call keeps its derivative rule; its checks are those of the function itself, walked
    beside it without derivatives."""

    def rule(error: Error, enabled: Enabled, args: Any, params: Any) -> tuple[Error, Any]:
        inner: ClosedJaxpr = params["call_jaxpr"]
        stopped = [_stop(x) for x in args]
        error, _ = _walk(inner.jaxpr, inner.consts, error, enabled, stopped)
        return error, _bind(primitive, args, params)

    return rule


def _stop(x: Any) -> Any:
    return x if isinstance(x, Zero) else lax.stop_gradient(x)


def _install() -> None:
    error_checks[check_p] = _rule_of_check
    for primitive in (div_p, rem_p):
        error_checks[primitive] = _rule_of_division(primitive, _by_default(primitive))
    error_checks[index_primitives.gather_p] = _rule_of_gather
    for name in ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min",
                 "scatter_max"):  # fmt: skip
        primitive = getattr(index_primitives, f"{name}_p")
        error_checks[primitive] = _rule_of_scatter(primitive)
    for primitive in (index_primitives.dynamic_slice_p, index_primitives.dynamic_update_slice_p):
        error_checks[primitive] = _rule_of_dynamic(primitive)
    error_checks[jit_p] = _rule_of_jit
    error_checks[remat_p] = _rule_of_remat
    error_checks[cond_p] = _rule_of_cond
    error_checks[scan_p] = _rule_of_scan
    error_checks[while_p] = _rule_of_while
    for primitive in (custom_jvp_call_p, custom_vjp_call_p):
        error_checks[primitive] = _rule_of_custom(primitive)


_install()
