"""Programs with values of high-level types, without them: a value becomes the arrays that it is
made of, and one whose state the program changes comes out as the arrays of its last state.

    { v:Box x. set_box v x; y = get_box v in (y,) }   becomes   { b x. in (x, x) }

Programs keep their high-level types as far as the one who computes: the primitives that hold
programs have a `lower` rule, which takes the operands apart, binds the program without them, and
puts the results together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.high import AvalQDD, is_high_value, typeof_now, var_type
from ..core.jaxpr import ClosedJaxpr, Var, closed_without_consts, eval_jaxpr
from ..core.trace import current_trace, use_trace
from .call import call_params, closed_call_p, jit_p
from .common import permute
from .cond import cond_p
from .custom_jvp import custom_jvp_call_p
from .custom_vjp import custom_vjp_call_p
from .expand import ExpandTrace
from .remat import hoist, remat_p
from .scan import scan_p, stacked
from .while_loop import one_predicate, while_p


def _arrays(aval: Any, x: Any) -> list[Any]:
    """The arrays that a value is made of."""
    if not aval.is_high:
        return [x]
    return list(aval.read_loval(x) if type(aval) is AvalQDD else aval.lower_val(x))


def _value(aval: Any, arrays: Iterator[Any]) -> Any:
    """The value of the next arrays."""
    if not aval.is_high:
        return next(arrays)
    held = [next(arrays) for _ in aval.lo_ty()]
    return aval.new_from_loval(*held) if type(aval) is AvalQDD else aval.raise_val(*held)


def _take_apart(args: Sequence[Any]) -> list[Any]:
    return [a for x in args for a in _arrays(typeof_now(x), x)]


def _put_together(avals: Sequence[Any], arrays: Iterator[Any]) -> list[Any]:
    return [_value(a, arrays) for a in avals]


class Lowered:
    """A program without high-level types: it takes the arrays of the arguments, and gives those of
    the results and then those of the last states of `written`, the arguments that it changes (whose
    types are then `finals`)."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        jaxpr = closed.jaxpr
        self.in_types = closed.in_avals
        self.out_types = [  # in their last states
            var_type(v, final=True) if isinstance(v, Var) else v.aval for v in jaxpr.outvars
        ]
        self.finals = [var_type(v, final=True) for v in jaxpr.invars]
        self.widths = [len(t.lo_ty()) if t.is_high else 1 for t in self.in_types]
        self.n_out = sum(len(t.lo_ty()) if t.is_high else 1 for t in self.out_types)
        self.written: list[int] = []

        def fun(*arrays: Any) -> list[Any]:
            with use_trace(ExpandTrace(current_trace())):
                rest = iter(arrays)
                args = _put_together(self.in_types, rest)
                outs = eval_jaxpr(jaxpr, closed.consts, *args)
                found = [
                    a for t, x in zip(self.out_types, outs, strict=True) for a in _arrays(t, x)
                ]
                return found + self._last_states(args, arrays)

        avals = [a for t in self.in_types for a in (t.lo_ty() if t.is_high else [t])]
        self.closed = close_jaxpr(*trace_to_jaxpr(fun, avals, jaxpr.debug_info))[0]

    def _last_states(self, args: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        states = []
        for k, (x, before, after) in enumerate(zip(args, self.in_types, self.finals, strict=True)):
            if type(after) is not AvalQDD:
                continue
            first = sum(self.widths[:k])
            held = _arrays(after, x)
            same = len(held) == self.widths[k] and before == after
            if same and all(a is b for a, b in zip(held, arrays[first:], strict=False)):
                continue
            self.written.append(k)
            states += held
        return states

    def places(self, k: int) -> range:
        """Where the arrays of argument k are among the arguments."""
        first = sum(self.widths[:k])
        return range(first, first + self.widths[k])

    def all_places(self, ks: Iterable[int]) -> list[int]:
        return [p for k in ks for p in self.places(k)]

    def finish(self, args: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """The results, of the arrays that the program gave; the arguments that it changes are in
        their last states."""
        found = _put_together(self.out_types, iter(outs[: self.n_out]))
        self.write_back(args, outs[self.n_out :])
        return found

    def write_back(self, args: Sequence[Any], arrays: Sequence[Any]) -> None:
        rest = iter(arrays)
        for k in self.written:
            final = self.finals[k]
            held = [next(rest) for _ in final.lo_ty()]
            final.aval.update_from_loval(final.qdd, args[k], *held)


def lowered(closed: ClosedJaxpr) -> Lowered:
    """The program without high-level types. Remembered."""
    found = closed.derived.get("lowered")
    if found is None:
        found = closed.derived["lowered"] = Lowered(closed)
    return found


def _lower_jit(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    low = lowered(params["jaxpr"])
    donated = [
        d for d, n in zip(params["donated_invars"], low.widths, strict=True) for _ in range(n)
    ]
    held = call_params(low.closed, params["name"], like=params, donated_invars=donated)
    return low.finish(args, jit_p.bind(*_take_apart(args), **held))


def _lower_closed_call(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    low = lowered(params["call_jaxpr"])
    return low.finish(args, closed_call_p.bind(*_take_apart(args), call_jaxpr=low.closed))


def _lower_remat(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    low = lowered(closed_without_consts(params["jaxpr"]))
    pure, consts = hoist(low.closed)
    outs = remat_p.bind(*consts, *_take_apart(args), **{**params, "jaxpr": pure.jaxpr})
    return low.finish(args, outs)


def _check_states(low: Lowered, name: str) -> None:
    """TypeError if a loop's body leaves a value in a state of another type."""
    for before, after in zip(low.in_types, low.finals, strict=True):
        if before != after and before.qdd.normalize() != after.qdd.normalize():
            raise TypeError(
                f"the body of a {name} changes the type of the state of a value of type "
                f"{before.aval} from {before.qdd} to {after.qdd}. Fix: give the value a state of "
                "that type before the loop."
            )


def _lower_scan(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """(consts, carry, xs), the written ones among consts being moved to the end of the carry."""
    closed: ClosedJaxpr = params["jaxpr"]
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    end = n_consts + n_carry
    low = lowered(closed)
    _check_states(low, "scan")
    fixed = low.all_places(k for k in range(n_consts) if k not in low.written)
    written, carry = low.all_places(low.written), low.all_places(range(n_consts, end))
    xs = low.all_places(range(end, len(args)))
    outs_at = [*range(len(carry)), *range(low.n_out, low.n_out + len(written))]
    outs_at += range(len(carry), low.n_out)
    ins_at = [*fixed, *carry, *written, *xs]
    values = [a for x, t in zip(args, low.in_types, strict=True) for a in _arrays_of(x, t)]
    outs = scan_p.bind(
        *(values[k] for k in ins_at),
        **{
            **params,
            "jaxpr": permute(low.closed, ins_at, outs_at),
            "num_consts": len(fixed),
            "num_carry": len(carry) + len(written),
        },
    )
    last = len(carry) + len(written)
    low.write_back(args, outs[len(carry) : last])
    rest = iter([*outs[: len(carry)], *outs[last:]])
    length = params["length"]
    return _put_together(
        [*low.out_types[:n_carry], *(stacked(t, length) for t in low.out_types[n_carry:])],
        rest,
    )


def _arrays_of(x: Any, inner: Any) -> list[Any]:
    return _arrays(typeof_now(x), x) if inner.is_high else [x]


def _identity(x: Any) -> Any:
    return id(getattr(x, "_var", x))


def _lower_while(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    args, params = one_predicate(args, params)
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_cc, n_bc = params["cond_nconsts"], params["body_nconsts"]
    low_cond, low = lowered(cond), lowered(body)
    _check_states(low, "while_loop")
    if low_cond.written:
        raise NotImplementedError(
            "a while_loop's cond_fun changes the state of a value. Fix: change it in body_fun."
        )
    cond_args, body_args, init = args[:n_cc], args[n_cc : n_cc + n_bc], args[n_cc + n_bc :]
    at = {_identity(body_args[k]): k for k in low.written}
    fixed = low.all_places(k for k in range(n_bc) if k not in low.written)
    written = low.all_places(low.written)
    carry = low.all_places(range(n_bc, len(low.in_types)))
    position = {p: len(carry) + k for k, p in enumerate(written)}
    # The condition reads from the carry what the body writes.
    sources = [at.get(_identity(x)) if is_high_value(x) else None for x in cond_args]
    kept = low_cond.all_places(k for k, s in enumerate(sources) if s is None)
    n_kept = len(kept)

    def new_cond(*flat: Any) -> list[Any]:
        rest, state = iter(flat[:n_kept]), flat[n_kept:]
        heads: list[Any] = []
        for k, s in enumerate(sources):
            if s is None:
                heads += [next(rest) for _ in low_cond.places(k)]
            else:
                heads += [state[position[p]] for p in low.places(s)]
        return eval_jaxpr(
            low_cond.closed.jaxpr, low_cond.closed.consts, *heads, *state[: len(carry)]
        )

    avals = low.closed.in_avals
    cond_avals = [low_cond.closed.in_avals[p] for p in kept]
    cond_avals += [avals[p] for p in (*carry, *written)]
    cond_jaxpr = close_jaxpr(*trace_to_jaxpr(new_cond, cond_avals, cond.jaxpr.debug_info))[0]
    ins_at = [*fixed, *carry, *written]
    cond_values, body_values = _take_apart(cond_args), _take_apart([*body_args, *init])
    outs = while_p.bind(
        *(cond_values[p] for p in kept), *(body_values[p] for p in ins_at),
        **{**params, "cond_nconsts": n_kept, "body_nconsts": len(fixed), "cond_jaxpr": cond_jaxpr,
           "body_jaxpr": permute(low.closed, ins_at, range(len(carry) + len(written)))},
    )  # fmt: skip
    low.write_back(body_args, outs[len(carry) :])
    return _put_together(low.out_types, iter(outs[: len(carry)]))


def _lower_cond(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    lows = [lowered(b) for b in params["branches"]]
    first, operands = lows[0], args[1:]
    for low in lows[1:]:
        if low.finals != first.finals:
            raise TypeError(
                "the branches of a cond leave a value in states of different types: "
                f"{first.finals} and {low.finals}. Fix: change it alike in all branches."
            )
    written = sorted({k for low in lows for k in low.written})
    branches = []
    for low in lows:
        jaxpr = low.closed.jaxpr
        rest = iter(jaxpr.outvars[low.n_out :])
        new = {k: [next(rest) for _ in low.finals[k].lo_ty()] for k in low.written}
        finals = [
            v for k in written for v in new.get(k) or [jaxpr.invars[p] for p in low.places(k)]
        ]
        outvars = [*jaxpr.outvars[: low.n_out], *finals]
        branches.append(low.closed.replace(jaxpr=jaxpr.replace(outvars=outvars)))
    outs = cond_p.bind(args[0], *_take_apart(operands), **{**params, "branches": tuple(branches)})
    found = _put_together(first.out_types, iter(outs[: first.n_out]))
    rest = iter(outs[first.n_out :])
    for k in written:
        final = first.finals[k]
        final.aval.update_from_loval(final.qdd, operands[k], *(next(rest) for _ in final.lo_ty()))
    return found


_NOWHERE = 1 << 30  # operands that a program reads and never changes

for _primitive, _lower, _held in (
    (jit_p, _lower_jit, lambda p: [(p["jaxpr"].jaxpr, 0)]),
    (closed_call_p, _lower_closed_call, lambda p: [(p["call_jaxpr"].jaxpr, 0)]),
    (remat_p, _lower_remat, lambda p: [(p["jaxpr"], 0)]),
    (scan_p, _lower_scan, lambda p: [(p["jaxpr"].jaxpr, 0)]),
    (cond_p, _lower_cond, lambda p: [(b.jaxpr, 1) for b in p["branches"]]),
    (custom_jvp_call_p, _lower_closed_call, lambda p: [(p["call_jaxpr"].jaxpr, 0)]),
    (custom_vjp_call_p, _lower_closed_call, lambda p: [(p["call_jaxpr"].jaxpr, 0)]),
    (
        while_p,
        _lower_while,
        lambda p: [
            (p["body_jaxpr"].jaxpr, p["cond_nconsts"]),
            (p["cond_jaxpr"].jaxpr, _NOWHERE),
        ],
    ),
):
    _primitive.rules["lower"] = _lower
    _primitive.rules["held_programs"] = _held
