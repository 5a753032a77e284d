"""Costly operations that a program does twice are done once.

    b = dot_general a a                       b = dot_general a a
    c = exp b                          ->     c = exp b
    d = dot_general a a                       e = mul b c
    e = mul d c

Every value gets a number: equal ones are of the same operation, parameters and operands' numbers.
Only what is costly is taken from the earlier equation. The rest is computed where it is read, and
what is read in one place need not be stored for another.

What a barrier gives, or a `checkpoint` that asks not to be merged, is a value of its own, so that
what is computed from it is computed again. So is what an operation with effects gives, and what
nothing is known of. Inner programs are seen to when they are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pullback.core.jaxpr import Jaxpr, jaxprs_in_params

__all__ = ["merged", "met_again", "once"]

COSTLY = frozenset(
    "dot_general conv_general_dilated cholesky triangular_solve lu qr eigh eig svd schur "
    "hessenberg tridiagonal geqrf householder_product ormqr symmetric_product cholesky_update "
    "tridiagonal_solve fft sort top_k threefry2x32 cumsum cumprod cummax cummin "
    "cumlogsumexp".split()
)
PRODUCTS = frozenset({"dot_general", "conv_general_dilated", "threefry2x32"})
OPENED = frozenset("jit closed_call custom_jvp_call custom_vjp_call".split())
# Whose results are not to be taken for equal: barriers, memory of its own, numbers from outside.
APART = frozenset(
    "optimization_barrier copy copy_p rng_uniform remat checkpoint remat2 remat_opt".split()
)
SMALL = 64  # bytes of a literal that is compared


def once(jaxpr: Any, known: Callable[[str], bool]) -> Any:
    """A program without its repeated costly operations. `known` says of a primitive's name whether
    its results depend on its operands and parameters alone."""
    costly = [_costly(e) or _picks(e) for e in jaxpr.eqns]
    return merged(jaxpr, known, costly) if sum(costly) > 1 else jaxpr


def merged(jaxpr: Any, known: Callable[[str], bool], chosen: Sequence[bool]) -> Any:
    """A program whose `chosen` equations take their results from earlier ones that are equal."""
    places: dict[Any, int] = {}  # what tells an equation from others -> the first such equation
    numbers: dict[Any, Any] = {}  # of values: that equation, and which of its results if several
    instead: dict[Any, Any] = {}
    eqns: list[Any] = []
    for place, e in enumerate(jaxpr.eqns):
        first = None
        if e.primitive.name == "stop_gradient" and not hasattr(e.invars[0], "val"):
            numbers[e.outvars[0]] = numbers.get(e.invars[0], e.invars[0])
            eqns.append(e)
            continue
        if not e.effects and e.primitive.name not in APART and known(e.primitive.name):
            first = _first(e, place, places, numbers, jaxpr.eqns)
        if first is not None:
            if len(e.outvars) == 1:
                numbers[e.outvars[0]] = first
            else:
                numbers.update((v, (first, k)) for k, v in enumerate(e.outvars))
            if first != place and chosen[place]:
                instead.update(zip(e.outvars, jaxpr.eqns[first].outvars, strict=True))
                continue
        eqns.append(e)
    return _without(jaxpr, eqns, instead) if instead else jaxpr


def _picks(e: Any) -> bool:
    """Whether an equation picks elements of rows. To read whole rows again may cost less than to
    store them."""
    return bool(e.primitive.name == "gather" and e.params["slice_sizes"][-1:] == (1,))


def _costly(e: Any) -> bool:
    if e.primitive.name in COSTLY:
        return True
    if e.primitive.name not in ("jit", "closed_call"):
        return False
    return any(_costly(x) for program in jaxprs_in_params(e.params) for x in program.eqns)


def met_again(jaxpr: Any) -> bool:
    """Whether a costly operation other than a product is met again, on operands of the same types,
    by another equation of a program of which one is a call: then they may be equal."""
    seen: set[Any] = set()
    again = False
    for e in jaxpr.eqns:
        mine = set(_met(e))
        again = again or not seen.isdisjoint(mine)
        seen |= mine
    return again


def _met(e: Any) -> Iterator[Any]:
    """The costly operations of an equation or of what it calls, and their operands' types."""
    name = e.primitive.name
    if name in COSTLY and name not in PRODUCTS:
        yield (name, *(v.aval for v in e.invars))
    elif name in OPENED:
        for program in jaxprs_in_params(e.params):
            for x in program.eqns:
                yield from _met(x)


def _first(
    e: Any, place: int, places: dict[Any, int], numbers: dict[Any, Any], eqns: list[Any]
) -> int | None:
    """The place of the first equation that is equal to the one at a place; None if that cannot be
    told."""
    operands = [_literal(v) if hasattr(v, "val") else numbers.get(v, v) for v in e.invars]
    key = e.primitive, tuple(e.params.items()), tuple(operands)
    try:
        first = places.setdefault(key, place)
    except TypeError:  # a parameter without a hash
        return None
    if first == place:
        return place
    # Equal parameters may still differ: 0.0 from -0.0, and 1 from True.
    pairs = zip(e.params.values(), eqns[first].params.values(), strict=True)
    return first if all(a is b or repr(a) == repr(b) for a, b in pairs) else None


def _literal(v: Any) -> Any:
    """What a literal is known by: its bits."""
    value = np.asarray(v.val)
    if value.dtype == object or value.nbytes > SMALL:
        return id(v.val), None  # of something that the program keeps
    return v.aval.dtype, value.dtype, value.shape, value.tobytes()


def _without(jaxpr: Jaxpr, eqns: list[Any], instead: dict[Any, Any]) -> Jaxpr:
    """The program with other variables in place of some, and without what nobody reads then."""

    def put(vs: Any) -> list[Any]:
        return [v if hasattr(v, "val") else instead.get(v, v) for v in vs]

    outvars, kept = put(jaxpr.outvars), []
    read = {v for v in outvars if not hasattr(v, "val")}
    for e in reversed(eqns):
        e = e.replace(invars=put(e.invars))
        if e.effects or any(v in read for v in e.outvars):
            kept.append(e)
            read.update(v for v in e.invars if not hasattr(v, "val"))
    return jaxpr.replace(eqns=kept[::-1], outvars=outvars)
