"""`checkify`: errors found while compiled programs run, as values.

    def f(x):
        check(x > 0, "x must be positive, got {}", x)
        return jnp.log(x)

    error, y = jit(checkify(f))(x)
    error.throw()

A `check` is an operation with an effect. `checkify(f)` traces `f` and runs its program with an
error state in mutable references: a check that fails, the first one of its sort, writes who it was
and the values for its message; asked to, so do NaNs, divisions by zero and positions out of bounds.
Of several sorts that failed, the one reported is, as in JAX, the one whose place comes first in the
program, and checks of the user's before all others. The references are discharged at once, so that
loops and branches carry the state.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from .. import dtypes, lax, tree
from ..control import shard_map
from ..control.call import call_params, jit_p
from ..control.cond import cond_p
from ..control.refs import RefCell, discharge_cells, get, set_ref
from ..control.remat import remat_p
from ..control.scan import scan_p
from ..control.shard_map import shard_map_p
from ..control.while_loop import one_predicate, while_p
from ..core import effects as fx
from ..core.avals import ShapedArray, typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, closed_without_consts, eval_jaxpr, jaxprs_in_params
from ..core.primitive import Primitive
from ..core.refs import AbstractRef
from ..core.source import current as current_source
from ..core.trace import Trace, current_trace, use_trace
from ..core.untyped import untyped
from ..primitives.common import as_array
from ..runtime.partition_spec import PartitionSpec
from ..transforms.batch import matchaxis

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

Out = TypeVar("Out")


class JaxException(Exception):
    """A kind of error that `checkify` can find."""


class FailedCheckError(JaxException):
    """A `check` whose predicate was false."""


class NaNError(JaxException):
    """An operation that gave NaN."""


class DivisionByZeroError(JaxException):
    """A division whose divisor was zero."""


class OOBError(JaxException):
    """A position beyond an array's ends."""


class JaxRuntimeError(ValueError):
    """What `Error.throw` raises.

    A ValueError.

    >>> from pullback.experimental import checkify
    >>> issubclass(checkify.JaxRuntimeError, ValueError)
    True
    """


ErrorCategory = type[JaxException]
user_checks = frozenset({FailedCheckError})
nan_checks = frozenset({NaNError})
index_checks = frozenset({OOBError})
div_checks = frozenset({DivisionByZeroError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


class CheckEffect(fx.Effect):
    """The program checks, and is not functionalised yet."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CheckEffect)

    def __hash__(self) -> int:
        return hash(CheckEffect)

    def __repr__(self) -> str:
        return "Check"

    def not_lowered(self) -> Exception:
        return ValueError(
            "Cannot abstractly evaluate a checkify.check which was not functionalized. This "
            "probably means you tried to stage (jit/scan/pmap/...) a `check` without "
            "functionalizing it through `checkify.checkify`. Fix: jit(checkify(f)); or, to leave "
            "the check out there, check(..., debug=True)."
        )


check_effect = CheckEffect()
for _set in (
    fx.control_flow_allowed_effects,
    fx.custom_derivatives_allowed_effects,
    fx.remat_allowed_effects,
    fx.vmap_allowed_effects,
):
    _set.add_type(CheckEffect)


@dataclasses.dataclass(frozen=True)
class Site:
    """Where an error can come from: its kind, its message, and the types of what goes into it.
    `mapped`: in how many `shard_map`s it is, whose devices that failed go into the message, too."""

    kind: ErrorCategory
    message: str
    args_tree: Any
    avals: tuple[Any, ...]
    source: str
    mapped: int = 0

    @property
    def sort(self) -> tuple[ErrorCategory, tuple[Any, ...]]:
        """Errors of one sort share their state: the first of them is kept."""
        return self.kind, (*_INDEX * self.mapped, *self.avals)

    def text(self, payload: Sequence[Any]) -> str:
        devices, payload = payload[: self.mapped], payload[self.mapped :]
        args, kwargs = tree.unflatten(self.args_tree, payload)
        line = self.message.format(*args, **kwargs)
        failed = " (`check` failed)" if self.kind is FailedCheckError else ""
        where = ",".join(str(int(d)) for d in devices)
        return f"{where and f'at mapped index {where}: '}{line}{failed}\nat {self.source}"


_NO_ARGS = tree.flatten(((), {}))[1]


def _shown(x: Any) -> Any:
    """A value to show: on the host, but for keys, which NumPy has not."""
    return x if dtypes.is_extended(typeof(x).dtype) else np.asarray(x)


class Error:
    """What `checkify` found: whether something failed, what, and the values for its message. A
    pytree.

    `get()` is the message, or None; of an error under vmap it has a line for each lane that failed.
    `throw()` raises JaxRuntimeError if there is one.

    >>> from pullback.experimental import checkify
    >>> error, out = checkify.checkify(jnp.log, errors=checkify.float_checks)(-1.0)
    >>> error.get() is None
    False
    """

    def __init__(
        self, failed: Any, code: Any, payloads: dict[Any, Any], sites: tuple[Site, ...]
    ) -> None:
        self._failed, self._code, self._payloads, self._sites = failed, code, payloads, sites

    def _found(self) -> Iterator[tuple[Site, str]]:
        """What failed, and its message; of an error under vmap once for each lane that did."""
        failed = np.asarray(self._failed)
        for where in zip(*np.nonzero(failed), strict=True) if failed.ndim else [()] * bool(failed):
            site = self._sites[int(np.asarray(self._code)[where])]
            payload = [as_array(_shown(x)[where]) for x in self._payloads.get(site.sort, ())]
            mapped = ",".join(map(str, map(int, where)))
            prefix = f"at mapped index {mapped}: " if where else ""
            yield site, prefix + site.text(payload)

    def get(self) -> str | None:
        """The message of the error, or None; of an error under vmap a message a lane."""
        return "\n".join(text for _, text in self._found()) or None

    def get_exception(self) -> JaxException | None:
        """The error as an exception, or None; of an error under vmap that of the first lane."""
        return next((site.kind(text) for site, text in self._found()), None)

    def throw(self) -> None:
        """Raises JaxRuntimeError if there was an error."""
        message = self.get()
        if message is not None:
            raise JaxRuntimeError(message)

    def __str__(self) -> str:
        return f"Error({(self.get() or 'None').splitlines()[0]})"

    __repr__ = __str__


tree.register_pytree_node(
    Error,
    lambda e: (
        (e._failed, e._code, tuple(e._payloads.values())),
        (tuple(e._payloads), e._sites),
    ),
    lambda aux, parts: Error(parts[0], parts[1], dict(zip(aux[0], parts[2], strict=True)), aux[1]),
)
init_error = Error(np.bool_(False), np.int32(0), {}, ())


# --- the primitive ---
def _check_aval(pred: Any, *args: Any, site: Site, debug: bool) -> Any:
    return [], frozenset() if debug else frozenset({check_effect})


def _check_impl(pred: Any, *args: Any, site: Site, debug: bool) -> Any:
    fine = np.asarray(pred)
    if not debug and not fine.all():
        lane = tuple(int(k) for k in np.argwhere(~fine)[-1])  # as of lanes that checkify finds
        args = tuple(x[lane] for x in args) if lane else args
        error = Error(np.bool_(True), np.int32(0), {site.sort: args}, (site,))
        error.throw()
    return []


def _check_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    check_p.bind(*primals, **params)
    return [], []


def _check_batch(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
    """Lanes are axes before the predicate's: one that fails is enough."""
    if all(d is None for d in dims):
        return None
    check_p.bind(
        *(matchaxis(axis.size, d, 0, x) for x, d in zip(args, dims, strict=True)), **params
    )
    return [], []


check_p = Primitive(
    "check",
    multiple_results=True,
    effectful=True,
    abstract_eval=_check_aval,
    impl=_check_impl,
    jvp=_check_jvp,
    axis_batch=_check_batch,
)


def _bind_check(pred: Any, msg: str, debug: bool, args: Any, kwargs: Any) -> None:
    aval = _aval_or_none(pred)
    if aval is None or aval.shape != () or aval.dtype != np.dtype(bool):
        raise TypeError(
            f"check takes a scalar pred as argument, got {pred}. Fix: reduce it with .all()."
        )
    if not isinstance(msg, str):
        raise TypeError(f"check takes a message with format fields, got {msg!r} of {type(msg)}")
    leaves, args_tree = tree.flatten((args, kwargs))
    for x in leaves:
        if _aval_or_none(x) is None:
            raise TypeError(
                "Formatting arguments to checkify.check need to be PyTrees of arrays, but got "
                f"{x!r} of type {type(x)}. Fix: write what is static into the message."
            )
    arrays = [as_array(x) for x in leaves]
    avals = tuple(typeof(x).strip_weak_type() for x in arrays)
    site = Site(FailedCheckError, msg, args_tree, avals, current_source().summary())
    site.message.format(*_stand_ins(args), **_stand_ins(kwargs))
    check_p.bind(pred, *arrays, site=site, debug=debug)


def _stand_ins(args: Any) -> Any:
    return tree.tree_map(lambda x: np.zeros(np.shape(x)), args)


def _aval_or_none(x: Any) -> Any:
    try:
        return typeof(x)
    except TypeError:
        return None


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """An error with the message `msg.format(*fmt_args, **fmt_kwargs)` if the scalar `pred` is
    false; the arguments are pytrees of arrays.

    Outside of transformations it raises JaxRuntimeError; in a function that is jitted it must be
    under `checkify` (with `debug`, it is left out elsewhere).

    >>> from pullback.experimental import checkify
    >>> def f(x):
    ...     checkify.check(x > 0, 'not positive: {}', x)
    ...     return jnp.log(x)
    >>> error, out = checkify.checkify(pullback.jit(f))(-1.0)
    >>> print(error.get().split(' (')[0])
    not positive: -1.0
    """
    _bind_check(pred, msg, debug, fmt_args, fmt_kwargs)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """`check` where `checkify` functionalises it, nothing elsewhere.

    Arguments as of `check`.

    >>> from pullback.experimental import checkify
    >>> f = lambda x: checkify.debug_check(x > 0, 'not positive') or x
    >>> pullback.jit(f)(-1.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    _bind_check(pred, msg, True, fmt_args, fmt_kwargs)


def check_error(error: Error) -> None:
    """Raises an error that `checkify` found; inside another `checkify`, it is found there.

    >>> from pullback.experimental import checkify
    >>> error, out = checkify.checkify(lambda x: checkify.check(x > 0, 'not positive'))(1.0)
    >>> checkify.check_error(error)
    """
    if not isinstance(error, Error):
        raise TypeError(
            f"check_error takes an Error as argument, got type {type(error)} instead. Fix: pass "
            "the first result of a function that checkify made."
        )
    if np.shape(error._failed):
        error = tree.tree_map(lambda x: x.reshape((-1, *x.shape[np.ndim(error._failed) :])), error)
        lane = _last(error._failed)
        error = tree.tree_map(lambda x: lax.dynamic_index_in_dim(x, lane, 0, False), error)
    for k, site in enumerate(error._sites):
        fine = lax.bitwise_not(lax.bitwise_and(error._failed, lax.eq(error._code, np.int32(k))))
        check_p.bind(fine, *error._payloads.get(site.sort, ()), site=site, debug=False)


def _last(failed: Any) -> Any:
    """Where the last of a vector of booleans is that is true."""
    n = typeof(failed).shape[0]
    return lax.sub(np.int32(n - 1), lax.argmax(lax.rev(failed, (0,)), 0, np.int32))


# --- functionalising ---
# The rank of a place is its number, of one that is no check of the user's with this added.
_AUTOMATIC = 1 << 30


class _State:
    """The references that hold an error while a program runs, and the sites met so far: for each
    sort of error whether one failed, its rank, and the values for its message.
    """

    def __init__(self, refs: Sequence[Any], sorts: Sequence[Any], sites: list[Site]) -> None:
        self.refs, self.sorts, self.sites = list(refs), list(sorts), sites
        self.held, at = {}, 0
        for sort in sorts:
            self.held[sort] = refs[at : at + 2 + len(sort[1])]
            at += 2 + len(sort[1])

    def record(self, fails: Any, site: Site, payload: Sequence[Any]) -> None:
        """Keeps the error if it is the first. `fails` and the payload may have axes of lanes."""
        if site not in self.sites:
            self.sites.append(site)
        lanes = typeof(fails).shape
        if lanes:
            flat = lax.reshape(fails, (int(np.prod(lanes)),))
            if not flat.shape[0]:
                return
            # As in JAX, of the lanes of a check the last is shown, of positions the first.
            lane = _last(flat) if site.kind is FailedCheckError else lax.argmax(flat, 0, np.int32)
            fails = lax.reduce_or(flat, (0,))
            payload = [
                lax.dynamic_index_in_dim(
                    lax.reshape(x, (flat.shape[0], *x.shape[len(lanes) :])), lane, 0, False
                )
                for x in payload
            ]
        failed, rank, *values = self.held[site.sort]
        before = get(failed)
        now = lax.bitwise_and(fails, lax.bitwise_not(before))
        set_ref(failed, ..., lax.bitwise_or(before, fails))
        own = self.sites.index(site) + (0 if site.kind is FailedCheckError else _AUTOMATIC)
        set_ref(rank, ..., lax.select(now, as_array(np.int32(own)), get(rank)))
        for ref, x in zip(values, payload, strict=True):
            chosen = lax.broadcast(now, typeof(x).shape)
            value = lax.convert_element_type(x, ref.aval.inner_aval.dtype)
            set_ref(ref, ..., lax.select(chosen, value, get(ref)))


def _sorts_of(jaxpr: Any, wanted: frozenset[ErrorCategory]) -> dict[Any, None]:
    """The sorts of errors that a program may find."""
    found: dict[Any, None] = {}

    def walk(jaxpr: Any, mapped: int) -> None:
        for kind, avals in _AUTOMATIC_SORTS:
            if kind in wanted:
                found[kind, (*_INDEX * mapped, *avals)] = None
        for eqn in jaxpr.eqns:
            if eqn.primitive is check_p and eqn.params["site"].kind in wanted:
                site = eqn.params["site"]
                found[dataclasses.replace(site, mapped=site.mapped + mapped).sort] = None
            for inner in jaxprs_in_params(eqn.params):
                walk(inner, mapped + (eqn.primitive is shard_map_p))

    walk(jaxpr, 0)
    return found


def _avals_of(sort: Any) -> tuple[Any, ...]:
    return ShapedArray((), np.dtype(bool)), _INDEX[0], *sort[1]


def _first_of(sorts: Sequence[Any], held: Sequence[Any], sites: Sequence[Site]) -> Error:
    """What was found, of the state that a program left."""
    values = iter(held)
    payloads: dict[Any, Any] = {}
    failed, rank = as_array(np.bool_(False)), as_array(np.int32(2 * _AUTOMATIC - 1))
    for sort in sorts:
        fails, own, *payload = [next(values) for _ in _avals_of(sort)]
        payloads[sort] = tuple(payload)
        failed = lax.bitwise_or(failed, fails)
        rank = lax.select(fails, lax.min(own, rank), rank)
    return Error(failed, lax.rem(rank, np.int32(_AUTOMATIC)), payloads, tuple(sites))


class CheckTrace(Trace):
    """Runs a program with its checks written into an error state."""

    __slots__ = ("errors", "state")

    def __init__(self, parent: Trace, state: _State, errors: frozenset[ErrorCategory]) -> None:
        super().__init__(parent)
        self.state, self.errors = state, errors

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        with use_trace(self.parent_trace):  # type: ignore[arg-type]
            if primitive is check_p:
                if params["site"].kind in self.errors:
                    fails = lax.bitwise_not(tracers[0])
                    self.state.record(fails, params["site"], tracers[1:])
                return []
            rule = _HOLDERS.get(primitive)
            if rule is not None and self._inside(params):
                return rule(self, tracers, params)
            return self._watched(primitive, tracers, params)

    def _inside(self, params: dict[str, Any]) -> bool:
        return bool(self.errors & automatic_checks) or any(
            check_effect in j.effects for j in jaxprs_in_params(params)
        )

    def _watched(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        where = current_source().summary()
        name = primitive.name
        if DivisionByZeroError in self.errors and name in ("div", "rem"):
            zero = lax.eq(args[1], lax.full_like(args[1], 0))
            self._found(zero, DivisionByZeroError, "division by zero", where)
        if OOBError in self.errors and name in _POSITIONS:
            _POSITIONS[name](self, args, params, where)
        out = primitive.bind(*args, **params)
        if NaNError in self.errors and name not in _NAN_IS_FINE:
            for x in out if primitive.multiple_results else [out]:
                aval = typeof(x)
                if isinstance(aval, ShapedArray) and dtypes.is_inexact(aval.dtype):
                    message = f"nan generated by primitive: {name}."
                    self._found(lax.ne(x, x), NaNError, message, where)
        return out

    def _found(self, fails: Any, kind: ErrorCategory, message: str, where: str) -> None:
        some = lax.reduce_or(fails, tuple(range(typeof(fails).ndim)))
        self.state.record(some, Site(kind, message, _NO_ARGS, (), where), ())

    def beyond(self, index: Any, last: int, size: int, axis: int, shape: Any, where: str) -> None:
        """Notes positions below 0 or above `last`."""
        index = lax.convert_element_type(index, np.int32)
        flat = lax.reshape(index, (int(np.prod(typeof(index).shape)),))
        low = lax.lt(flat, lax.full_like(flat, 0))
        fails = lax.bitwise_or(low, lax.gt(flat, lax.full_like(flat, last)))
        message = (
            f"out-of-bounds indexing for array of shape {tuple(shape)}: index {{}} is out of "
            f"bounds for axis {axis} with size {size}."
        )
        self.state.record(fails, Site(OOBError, message, _ONE_ARG, _INDEX, where), [flat])

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool
    ) -> Any:
        parent: Any = self.parent_trace
        with use_trace(parent):
            return parent.process_custom_jvp_call(
                primitive, fun, jvp, tracers, symbolic_zeros=symbolic_zeros
            )

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
        parent: Any = self.parent_trace
        with use_trace(parent):
            return parent.process_custom_vjp_call(
                primitive,
                fun,
                fwd,
                bwd,
                tracers,
                out_trees=out_trees,
                symbolic_zeros=symbolic_zeros,
            )


# Operations that move what they were given: the NaN was made before.
_NAN_IS_FINE = frozenset(
    "broadcast_in_dim concatenate copy custom_lin dynamic_slice dynamic_update_slice empty gather "
    "name optimization_barrier pad reshape rev scatter select_n slice sort split squeeze "
    "stop_gradient transpose".split()
)
_ONE_ARG = tree.flatten(((0,), {}))[1]
_INDEX = (ShapedArray((), np.dtype("int32")),)
_AUTOMATIC_SORTS = ((NaNError, ()), (DivisionByZeroError, ()), (OOBError, _INDEX))


def _slice_positions(trace: CheckTrace, args: Any, params: Any, where: str) -> None:
    shape = typeof(args[0]).shape
    starts = args[1:] if "slice_sizes" in params else args[2:]
    sizes = params["slice_sizes"] if "slice_sizes" in params else typeof(args[1]).shape
    for axis, (i, n, k) in enumerate(zip(starts, shape, sizes, strict=True)):
        trace.beyond(i, n - k, n, axis, shape, where)


def _gather_positions(trace: CheckTrace, args: Any, params: Any, where: str) -> None:
    shape, indices = typeof(args[0]).shape, args[1]
    numbers = params["dimension_numbers"]
    axes = getattr(numbers, "start_index_map", None)
    if axes is not None:
        sizes = params["slice_sizes"]
    else:
        axes = numbers.scatter_dims_to_operand_dims
        fixed = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        windows = iter(typeof(args[2]).shape[d] for d in numbers.update_window_dims)
        sizes = [1 if d in fixed else next(windows) for d in range(len(shape))]
    last = typeof(indices).ndim - 1
    for k, axis in enumerate(axes):
        part = lax.index_in_dim(indices, k, last, keepdims=False)
        trace.beyond(part, shape[axis] - sizes[axis], shape[axis], axis, shape, where)


_POSITIONS: dict[str, Callable[..., None]] = {
    "dynamic_slice": _slice_positions,
    "dynamic_update_slice": _slice_positions,
    "gather": _gather_positions,
    "scatter": _gather_positions,
    "scatter-add": _gather_positions,
    "scatter-sub": _gather_positions,
    "scatter-mul": _gather_positions,
    "scatter-min": _gather_positions,
    "scatter-max": _gather_positions,
}


def _checked(trace: CheckTrace, closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with the error state's references as its first arguments."""
    state, errors = trace.state, trace.errors
    n = len(state.refs)
    avals = [typeof(r) for r in state.refs]

    def fun(*args: Any) -> list[Any]:
        inner = _State(args[:n], state.sorts, state.sites)
        checking = CheckTrace(current_trace(), inner, errors)
        with use_trace(checking):
            return eval_jaxpr(closed.jaxpr, closed.consts, *args[n:])

    return close_jaxpr(*trace_to_jaxpr(fun, [*avals, *closed.in_avals], closed.jaxpr.debug_info))[0]


def _without_refs(closed: ClosedJaxpr, n: int) -> ClosedJaxpr:
    """A program that does not read its first n arguments, without them."""
    return closed.replace(jaxpr=closed.jaxpr.replace(invars=closed.jaxpr.invars[n:], effects=()))


def _check_jit(trace: CheckTrace, args: Any, params: Any) -> Any:
    new = _checked(trace, params["jaxpr"])
    return jit_p.bind(*trace.state.refs, *args, **call_params(new, params["name"], like=params))


def _check_remat(trace: CheckTrace, args: Any, params: Any) -> Any:
    new = _checked(trace, closed_without_consts(params["jaxpr"]))
    jaxpr = new.jaxpr
    flat = jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])
    return remat_p.bind(*new.consts, *trace.state.refs, *args, **{**params, "jaxpr": flat})


def _check_scan(trace: CheckTrace, args: Any, params: Any) -> Any:
    refs = trace.state.refs
    new = {
        "jaxpr": _checked(trace, params["jaxpr"]),
        "num_consts": params["num_consts"] + len(refs),
    }
    return scan_p.bind(*refs, *args, **{**params, **new})


def _check_cond(trace: CheckTrace, args: Any, params: Any) -> Any:
    branches = tuple(_checked(trace, b) for b in params["branches"])
    return cond_p.bind(args[0], *trace.state.refs, *args[1:], **{**params, "branches": branches})


def _check_while(trace: CheckTrace, args: Any, params: Any) -> Any:
    """The condition is checked at the start of each step, and once more after the last."""
    args, params = one_predicate(args, params)
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_cc, n_bc = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts, init = args[:n_cc], args[n_cc : n_cc + n_bc], args[n_cc + n_bc :]
    checked_cond, checked_body = _checked(trace, cond), _checked(trace, body)
    refs = trace.state.refs
    n = len(refs)

    def step(*flat: Any) -> list[Any]:
        held, cc = flat[:n], flat[n : n + n_cc]
        bc, carry = flat[n + n_cc : n + n_cc + n_bc], flat[n + n_cc + n_bc :]
        eval_jaxpr(checked_cond.jaxpr, checked_cond.consts, *held, *cc, *carry)
        return eval_jaxpr(checked_body.jaxpr, checked_body.consts, *held, *bc, *carry)

    avals = [typeof(x) for x in (*refs, *cond_consts)] + list(body.in_avals)
    new_body = close_jaxpr(*trace_to_jaxpr(step, avals, body.jaxpr.debug_info))[0]
    silent = CheckTrace(current_trace(), trace.state, frozenset())
    plain = _without_refs(_checked(silent, cond), n)
    outs = while_p.bind(
        *cond_consts, *refs, *cond_consts, *body_consts, *init,
        **{**params, "cond_jaxpr": plain, "body_jaxpr": new_body, "body_nconsts": n + n_cc + n_bc},
    )  # fmt: skip
    eval_jaxpr(checked_cond.jaxpr, checked_cond.consts, *refs, *cond_consts, *outs)
    return outs


def _check_shard_map(trace: CheckTrace, args: Any, params: Any) -> Any:
    """Each device has a state of its own; that of the first one that failed is kept."""
    sorts, sites = list(_sorts_of(params["jaxpr"], trace.errors)), list[Site]()
    avals, body = [a for sort in sorts for a in _avals_of(sort)], untyped(params["jaxpr"])

    def fun(*blocks: Any) -> list[Any]:
        def run(*cells: RefCell) -> list[Any]:
            checking = CheckTrace(current_trace(), _State(cells, sorts, sites), trace.errors)
            with use_trace(checking):
                return eval_jaxpr(body, (), *blocks)

        zeros = [lax.full(a.shape, 0, a.dtype) for a in avals]
        outs, held = discharge_cells(run, [AbstractRef(a) for a in avals], zeros)
        return [*outs, *(lax.expand_dims(x, (0,)) for x in held)]

    params = {**params, "check_vma": False}  # states may vary over any axis
    jaxpr, consts = shard_map.retraced(fun, [v.aval for v in body.invars], params)
    none, names = PartitionSpec(), PartitionSpec(tuple(shard_map.sizes_of(params)))
    outs = shard_map.bind(
        [*consts, *args], jaxpr, params, [*[none] * len(consts), *params["in_specs"]],
        [*params["out_specs"], *[names] * len(avals)],
    )  # fmt: skip
    n = len(params["out_specs"])
    _record_first_device(trace.state, sorts, sites, outs[n:])
    return outs[:n]


def _record_first_device(
    state: _State, sorts: Sequence[Any], sites: Sequence[Site], held: Sequence[Any]
) -> None:
    """Keeps the error of the first device that has one of a sort. `held`: the states of all."""
    values = iter(held)
    for sort in sorts:
        fails, rank, *payload = [next(values) for _ in _avals_of(sort)]
        device = lax.argmax(fails, 0, np.int32)
        failed, own, *shown = [
            lax.dynamic_index_in_dim(x, device, 0, False) for x in (fails, rank, *payload)
        ]
        own = lax.rem(own, as_array(np.int32(_AUTOMATIC)))
        for k, site in enumerate(sites):
            if site.sort == sort:
                here = lax.bitwise_and(failed, lax.eq(own, as_array(np.int32(k))))
                outer = dataclasses.replace(site, mapped=site.mapped + 1)
                state.record(here, outer, [device, *shown])


_HOLDERS: dict[Primitive, Callable[..., Any]] = {
    jit_p: _check_jit,
    remat_p: _check_remat,
    scan_p: _check_scan,
    cond_p: _check_cond,
    while_p: _check_while,
    shard_map_p: _check_shard_map,
}


def check_inside(primitive: Primitive, meaning: Callable[..., Any]) -> None:
    """Checks in what a primitive holds are found in what it means: `meaning(*args, **params)`."""

    def rule(trace: CheckTrace, args: Any, params: Any) -> Any:
        with use_trace(trace):
            return meaning(*args, **params)

    _HOLDERS[primitive] = rule


def checkify(
    f: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks
) -> Callable[..., tuple[Error, Any]]:
    """A function that gives (error, f(...)), where `error` says what failed, of the kinds in
    `errors` (`user_checks`, `nan_checks`, `index_checks`, `div_checks`, `float_checks`,
    `automatic_checks`, `all_checks`).

    >>> from pullback.experimental import checkify
    >>> error, _ = checkify.checkify(jnp.log, errors=checkify.nan_checks)(-1.0)
    >>> error.get().splitlines()[0]
    'nan generated by primitive: log.'
    """
    wanted = frozenset(errors)

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        out_trees: list[Any] = []

        def flat() -> list[Any]:
            # The arguments are closed over: those that are no arrays stay what they are.
            outs, out_tree = tree.flatten(f(*args, **kwargs))
            out_trees.append(out_tree)
            return outs

        jaxpr, consts = trace_to_jaxpr(flat, [])
        sorts = list(_sorts_of(jaxpr, wanted))
        sites: list[Site] = []
        avals = [aval for sort in sorts for aval in _avals_of(sort)]

        def run(*cells: RefCell) -> list[Any]:
            trace = CheckTrace(current_trace(), _State(cells, sorts, sites), wanted)
            with use_trace(trace):
                return eval_jaxpr(jaxpr, consts)

        zeros = [lax.full(a.shape, 0, a.dtype) for a in avals]
        outs, held = discharge_cells(run, [AbstractRef(a) for a in avals], zeros)
        error = _first_of(sorts, held, sites)
        return error, tree.unflatten(out_trees[0], outs)

    return checked
