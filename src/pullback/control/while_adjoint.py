"""The transpose of a loop as one operation, so that its derivatives are as large as the loop's.

Reverse mode through a loop is a program of nine loops (while_reverse.py). Differentiating those
would make a hundred of them, a thousand at the next order. But the derivative of a transposed loop
is a transposed loop again. Let the loop be linear in v, y = M(k) v, with k what it knows; its
transpose is A(k, c) = M(k)^T c. Then

* the loop that carries tangents as well, (v, w) -> (M v, M w + dM v) with dM = M'(k)[dk], has the
  transpose (c1, c2) -> (M^T c1 + dM^T c2, M^T c2). Its first part, for c1 = dc and c2 = c, is the
  tangent of A in the direction (dk, dc);
* transposed in dk, <u, dM^T c> = <dM u, c>: the tangent of the loop at (k, u), as far as it is
  linear in dk, transposed: the same body, other values being the linear ones;
* transposed in dc it is the loop itself, M u.

So every order of derivative is one such operation, on a body that is two or three times as long.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core import effects as fx
from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr, subjaxprs
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from ..primitives.common import as_array
from ..transforms.batch import batch_jaxpr, matchaxis
from ..transforms.jvp import jvp_flat, jvp_jaxpr_fixpoint
from .call import mentions_axis, move_to_front
from .common import chosen, permute, widen_cond
from .custom_vjp import custom_lin_p
from .expand import register_inline
from .while_lanes import masked
from .while_reverse import adjoint_of_loop, check_effects, split_loop

__all__ = ["set_loop", "transpose_while", "while_adjoint_p"]

_loop: list[Any] = []


def set_loop(primitive: Any, function: Callable[..., Any]) -> None:
    """Says what a loop is: the primitive, and the function that binds it."""
    _loop[:] = [primitive, function]


class _Widened:
    """A loop that carries tangents as well: which constants and carries have one."""

    __slots__ = ("body", "carry_nz", "cond", "const_nz", "given", "of")

    def __init__(
        self, of: dict[str, Any], const_nz: list[bool], carry_nz: list[bool], cond: Any, body: Any
    ) -> None:
        self.of, self.const_nz, self.carry_nz = of, const_nz, carry_nz
        self.cond, self.body, self.given = cond, body, of["cond_jaxpr"]

    def params(self, const_linear: Sequence[bool], carry_linear: Sequence[bool]) -> dict[str, Any]:
        """The parameters of its transpose, these values being the linear ones."""
        return {
            "cond_jaxpr": self.cond,
            "body_jaxpr": self.body,
            "cond_nconsts": self.of["cond_nconsts"],
            "body_nconsts": len(const_linear),
            "const_linear": tuple(const_linear),
            "carry_linear": tuple(carry_linear),
        }


def _widened(p: dict[str, Any], const_nz: list[bool], carry_nz: list[bool]) -> _Widened:
    body, cond, n_bc = p["body_jaxpr"], p["cond_jaxpr"], p["body_nconsts"]
    n_carry = len(carry_nz)
    key = "widened", tuple(const_nz), tuple(carry_nz), p["const_linear"], p["carry_linear"]
    found = body.derived.get(key)
    if found is not None and found.given is cond:
        return found  # type: ignore[no-any-return]
    jvp, nz = jvp_jaxpr_fixpoint(body, [*const_nz, *carry_nz], n_bc, n_carry)
    first, n_bd, n_cd = n_bc + n_carry, sum(const_nz), sum(nz)
    order = [
        *range(n_bc),
        *range(first, first + n_bd),
        *range(n_bc, first),
        *range(first + n_bd, first + n_bd + n_cd),
    ]
    jvp = permute(jvp, order, range(n_carry + n_cd))
    wide = widen_cond(cond, p["cond_nconsts"], jvp.out_avals)
    found = body.derived[key] = _Widened(p, const_nz, nz, wide, jvp)
    return found


def _merged(flags: Sequence[bool], where: Sequence[Any], elsewhere: Sequence[Any]) -> list[Any]:
    """One list of two: from `where` at the flags, from `elsewhere` at the others."""
    yes, no = iter(where), iter(elsewhere)
    return [next(yes) if flag else next(no) for flag in flags]


def _parts(args: Sequence[Any], p: dict[str, Any]) -> list[list[Any]]:
    """The operands: of the condition, known constants, known carries, cotangents."""
    n_cc = p["cond_nconsts"]
    n_bc = n_cc + p["const_linear"].count(False)
    n_start = n_bc + p["carry_linear"].count(False)
    return [
        list(args[:n_cc]), list(args[n_cc:n_bc]), list(args[n_bc:n_start]), list(args[n_start:]),
    ]  # fmt: skip


def _abstract_eval(*avals: Any, cond_jaxpr: Any, body_jaxpr: Any, **p: Any) -> Any:
    flags = [*p["const_linear"], *p["carry_linear"]]
    outs = [a.to_ct_aval() for a in chosen(body_jaxpr.in_avals, flags)]
    return outs, fx.join(cond_jaxpr.effects, body_jaxpr.effects)


def _run(*args: Any, **p: Any) -> list[Any]:
    cc, known, start, cts = _parts(args, p)
    flags = p["const_linear"], p["carry_linear"]
    return adjoint_of_loop(
        _loop[1], p["cond_jaxpr"], p["body_jaxpr"], *flags, cc, known, start, cts
    )


def _goes_one_way(jaxpr: Jaxpr) -> bool:
    """Does the body, linear as it is, hold functions whose users gave backward rules alone? What
    they are linear in cannot be carried forwards, so that the loop of tangents has no body."""
    found = jaxpr.derived.get("goes one way")
    if found is None:
        found = any(e.primitive is custom_lin_p for e in jaxpr.eqns) or any(
            map(_goes_one_way, subjaxprs(jaxpr))
        )
        jaxpr.derived["goes one way"] = found
    return bool(found)


def _given(t: Any) -> bool:
    return type(t) is not Zero


def _jvp(primals: Any, tangents: Any, **p: Any) -> Any:
    if _goes_one_way(p["body_jaxpr"].jaxpr):
        return jvp_flat(functools.partial(_run, **p), primals, tangents)
    outs = while_adjoint_p.bind(*primals, **p)
    cc, known, start, cts = _parts(primals, p)
    _, known_dot, start_dot, cts_dot = _parts(tangents, p)
    dc = [instantiate_zeros(t) for t in cts_dot]
    rest = {k: v for k, v in p.items() if k != "tangent_of"}
    if not any(map(_given, [*known_dot, *start_dot])):
        if not any(map(_given, cts_dot)):
            return outs, [Zero(typeof(x).to_tangent_aval()) for x in outs]
        return outs, while_adjoint_p.bind(*cc, *known, *start, *dc, **rest, tangent_of=None)
    const_linear, carry_linear = p["const_linear"], p["carry_linear"]
    wide = _widened(
        rest,
        _merged(const_linear, [True] * len(const_linear), list(map(_given, known_dot))),
        _merged(carry_linear, [True] * len(carry_linear), list(map(_given, start_dot))),
    )
    consts_dot = _merged(const_linear, [None] * len(const_linear), known_dot)
    carry_dot = _merged(carry_linear, [None] * len(carry_linear), start_dot)
    dk = [t for t in chosen(consts_dot, wide.const_nz) if t is not None]
    ds = [instantiate_zeros(t) for t in chosen(carry_dot, wide.carry_nz) if t is not None]
    linear = (
        [*const_linear, *chosen(const_linear, wide.const_nz)],
        [*carry_linear, *chosen(carry_linear, wide.carry_nz)],
    )
    found = while_adjoint_p.bind(
        *cc, *known, *dk, *start, *ds, *dc, *cts, **wide.params(*linear), tangent_of=wide
    )
    n, m = sum(const_linear), sum(carry_linear)
    return outs, [*found[:n], *found[2 * n : 2 * n + m]]


def _forward(p: dict[str, Any], cc: Any, known: Any, start: Any, u: Sequence[Any]) -> list[Any]:
    """The loop itself, from these linear values: its linear results."""
    n = sum(p["const_linear"])
    consts = _merged(p["const_linear"], u[:n], known)
    carry = _merged(p["carry_linear"], u[n:], start)
    outs = _loop[0].bind(
        *cc,
        *consts,
        *map(as_array, carry),
        cond_nconsts=p["cond_nconsts"],
        cond_jaxpr=p["cond_jaxpr"],
        body_nconsts=p["body_nconsts"],
        body_jaxpr=p["body_jaxpr"],
    )
    return chosen(outs, p["carry_linear"])


def _undefined(x: Any) -> bool:
    return type(x) is UndefinedPrimal


def _transpose(u: Any, *args: Any, tangent_of: Any, **p: Any) -> list[Any]:
    cc, known, start, cts = _parts(args, p)
    u = [instantiate_zeros(x) for x in u]
    if not any(map(_undefined, [*known, *start])):
        back = _forward(p, cc, known, start, u)
        back = [y if _undefined(x) else None for x, y in zip(cts, back, strict=True)]
        return [None] * (len(args) - len(cts)) + back
    of = tangent_of.of
    const_linear, carry_linear = of["const_linear"], of["carry_linear"]
    n, m = sum(const_linear), sum(carry_linear)
    first_u = [*u[:n], *u[2 * n : 2 * n + m]]
    n_known, n_start = const_linear.count(False), carry_linear.count(False)
    k, s = known[:n_known], start[:n_start]
    consts, carry = _merged(const_linear, first_u[:n], k), _merged(carry_linear, first_u[n:], s)
    zeros = [instantiate_zeros(Zero(a.to_ct_aval())) for a in tangent_of.body.in_avals]
    zeros = zeros[len(zeros) - sum(tangent_of.carry_nz) :]
    dot_linear = chosen(carry_linear, tangent_of.carry_nz)
    c = _merged(dot_linear, cts[m:], chosen(zeros, [not lin for lin in dot_linear]))
    n_bd, n_cd = sum(tangent_of.const_nz), sum(tangent_of.carry_nz)
    params = tangent_of.params(
        [False] * len(const_linear) + [True] * n_bd, [False] * len(carry_linear) + [True] * n_cd
    )
    found = while_adjoint_p.bind(*cc, *consts, *map(as_array, carry), *c, **params, tangent_of=None)
    const_dots = chosen(const_linear, tangent_of.const_nz)
    dk = [x for x, lin in zip(found[:n_bd], const_dots, strict=True) if not lin]
    ds = [x for x, lin in zip(found[n_bd:], dot_linear, strict=True) if not lin]
    outs = [None] * len(cc) + [None] * n_known + dk + [None] * n_start + ds
    if any(map(_undefined, cts[:m])):
        outs += _forward(of, cc, k, s, first_u)
    else:
        outs += [None] * m
    outs += [None] * m
    return [x if _undefined(a) else None for x, a in zip(outs, args, strict=True)]


def _batch(axis: Any, vals: Any, dims: Any, *, tangent_of: Any, **p: Any) -> Any:
    """The transposes of many loops are the transpose of the loop of many lanes: one operation
    still, whose derivatives do not grow. Linear values are mapped, each lane having cotangents of
    its own.
    """
    cond, body = p["cond_jaxpr"], p["body_jaxpr"]
    if mentions_axis(fx.join(cond.effects, body.effects), axis.name) or _goes_one_way(body.jaxpr):
        return _batch_program(axis, vals, dims, p)
    mapped = [d is not None for d in dims]
    if not any(mapped):
        return None
    cc_b, known_b, start_b, _ = _parts(mapped, p)
    n_cc, n_bc = p["cond_nconsts"], p["body_nconsts"]
    const_b = _merged(p["const_linear"], [True] * n_bc, known_b)
    carry_b = _merged(p["carry_linear"], [True] * len(p["carry_linear"]), start_b)
    while True:
        _, out_b = batch_jaxpr(body, axis, [*const_b, *carry_b], carry_b)
        _, (pred_b,) = batch_jaxpr(cond, axis, [*cc_b, *carry_b], False)
        joined = [pred_b or a or b for a, b in zip(carry_b, out_b, strict=True)]
        if joined == carry_b:
            break
        carry_b = joined
    many = _Lanes(axis, n_cc, cc_b, const_b, carry_b, pred_b)
    new = many.params(p)
    if tangent_of is not None:
        tangent_of = many.widened(tangent_of, new)
    cc, known, start, cts = _parts(vals, p)
    cc_d, known_d, start_d, cts_d = _parts(dims, p)
    wanted = chosen(carry_b, [not lin for lin in p["carry_linear"]])
    start = [
        matchaxis(axis.size, d, 0 if b else None, x)
        for x, d, b in zip(start, start_d, wanted, strict=True)
    ]
    cts = [matchaxis(axis.size, d, 0, x) for x, d in zip(cts, cts_d, strict=True)]
    cc, known = move_to_front(cc, cc_d), move_to_front(known, known_d)
    again = cc if pred_b else []
    outs = while_adjoint_p.bind(*cc, *again, *known, *start, *cts, **new, tangent_of=tangent_of)
    return outs, [0] * len(outs)


class _Lanes:
    """The lanes of a batch of loops: what is mapped, and whether they end at different times."""

    __slots__ = ("axis", "carry_b", "cc_b", "const_b", "n_cc", "pred_b")

    def __init__(
        self, axis: Any, n_cc: int, cc_b: Any, const_b: Any, carry_b: Any, pred_b: bool
    ) -> None:
        self.axis, self.n_cc, self.pred_b = axis, n_cc, pred_b
        self.cc_b, self.const_b, self.carry_b = cc_b, const_b, carry_b

    def _programs(self, cond: ClosedJaxpr, body: ClosedJaxpr, n_bc: int) -> Any:
        n_carry = len(body.out_avals)
        const_b, carry_b = self.const_b[:n_bc], self.carry_b[:n_carry]
        body = batch_jaxpr(body, self.axis, [*const_b, *carry_b], carry_b)[0]
        cond = batch_jaxpr(cond, self.axis, [*self.cc_b, *carry_b], False)[0]
        if self.pred_b:
            lane_axes = [(0,) if b else () for b in const_b]
            return masked(cond, body, self.n_cc, lane_axes, for_reverse=True)
        return cond, body

    def params(self, p: dict[str, Any]) -> dict[str, Any]:
        n_bc = len(p["const_linear"])
        cond, body = self._programs(p["cond_jaxpr"], p["body_jaxpr"], n_bc)
        more = self.n_cc if self.pred_b else 0
        return {
            "cond_jaxpr": cond,
            "body_jaxpr": body,
            "cond_nconsts": self.n_cc,
            "body_nconsts": more + n_bc,
            "const_linear": (*[False] * more, *p["const_linear"]),
            "carry_linear": p["carry_linear"],
        }

    def widened(self, wide: _Widened, new: dict[str, Any]) -> _Widened:
        more = self.n_cc if self.pred_b else 0
        const_nz = [*[False] * more, *wide.const_nz]
        of = self.params(wide.of)
        return _Widened(of, const_nz, wide.carry_nz, new["cond_jaxpr"], new["body_jaxpr"])


def _batch_program(axis: Any, vals: Any, dims: Any, p: dict[str, Any]) -> Any:
    """Where lanes meet inside the loop, or its body goes one way, it is its program."""
    avals = [typeof(v) for v in vals]
    avals = [
        a if d is None else a.update(shape=a.shape[:d] + a.shape[d + 1 :])
        for a, d in zip(avals, dims, strict=True)
    ]
    run = functools.partial(_run, **p)
    closed: ClosedJaxpr = close_jaxpr(*trace_to_jaxpr(run, avals))[0]
    batched, out_b = batch_jaxpr(closed, axis, [d is not None for d in dims])
    outs = eval_jaxpr(batched.jaxpr, batched.consts, *move_to_front(vals, dims))
    return outs, [0 if b else None for b in out_b]


while_adjoint_p = Primitive(
    "while_adjoint",
    multiple_results=True,
    effectful=True,
    abstract_eval=_abstract_eval,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
)
register_inline(while_adjoint_p, _run)


def transpose_while(cts: Sequence[Any], args: Sequence[Any], params: Any) -> list[Any]:
    """The cotangents of a loop's linear operands. What is linear in its body is undone one
    iteration after the other, the last first."""
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    check_effects(fx.join(cond.effects, body.effects))
    n_cc, n_bc = params["cond_nconsts"], params["body_nconsts"]
    cc, bc, init = args[:n_cc], args[n_cc : n_cc + n_bc], args[n_cc + n_bc :]
    const_linear = [type(x) is UndefinedPrimal for x in bc]
    linear = split_loop(body, const_linear, [type(x) is UndefinedPrimal for x in init])[2]
    start = [as_array(x) for x, lin in zip(init, linear, strict=True) if not lin]
    known = [x for x, lin in zip(bc, const_linear, strict=True) if not lin]
    given = [instantiate_zeros(ct) for ct, lin in zip(cts, linear, strict=True) if lin]
    found = while_adjoint_p.bind(
        *cc, *known, *start, *given,
        cond_jaxpr=cond, body_jaxpr=body, cond_nconsts=n_cc, body_nconsts=n_bc,
        const_linear=tuple(const_linear), carry_linear=tuple(linear), tangent_of=None,
    )  # fmt: skip
    n = sum(const_linear)
    out: list[Any] = [None] * n_cc
    out += _merged(const_linear, found[:n], [None] * n_bc)
    carries = _merged(linear, found[n:], [None] * len(init))
    out += [ct if type(x) is UndefinedPrimal else None for x, ct in zip(init, carries, strict=True)]
    return out
