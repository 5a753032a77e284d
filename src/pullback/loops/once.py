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

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.core.jaxpr import Jaxpr, jaxprs_in_params

__all__ = ["once"]

COSTLY = frozenset(
    "dot_general conv_general_dilated cholesky triangular_solve lu qr eigh eig svd schur "
    "hessenberg tridiagonal geqrf householder_product ormqr symmetric_product cholesky_update "
    "tridiagonal_solve fft sort top_k threefry2x32 cumsum cumprod cummax cummin "
    "cumlogsumexp".split()
)
# Whose results are not to be taken for equal: barriers, memory of its own, numbers from outside.
APART = frozenset(
    "optimization_barrier copy copy_p rng_uniform remat checkpoint remat2 remat_opt".split()
)
SMALL = 64  # bytes of a literal that is compared


def once(jaxpr: Any, known: Callable[[str], bool]) -> Any:
    """A program without its repeated costly operations. `known` says of a primitive's name whether
    its results depend on its operands and parameters alone."""
    if sum(_costly(e) for e in jaxpr.eqns) < 2:
        return jaxpr
    places: dict[Any, int] = {}  # what tells an equation from others -> the first such equation
    numbers: dict[Any, tuple[int, int]] = {}  # of values: that equation, and which of its results
    instead: dict[Any, Any] = {}
    eqns: list[Any] = []
    for place, e in enumerate(jaxpr.eqns):
        key = _key(e, numbers) if not e.effects and known(e.primitive.name) else None
        if key is not None:
            first = places.setdefault(key, place)
            numbers.update((v, (first, k)) for k, v in enumerate(e.outvars))
            if first != place and _costly(e):
                instead.update(zip(e.outvars, jaxpr.eqns[first].outvars, strict=True))
                continue
        eqns.append(e)
    return _without(jaxpr, eqns, instead) if instead else jaxpr


def _costly(e: Any) -> bool:
    if e.primitive.name in COSTLY:
        return True
    inner = jaxprs_in_params(e.params) if e.primitive.name in ("jit", "closed_call") else ()
    return any(_costly(x) for program in inner for x in program.eqns)


def _key(e: Any, numbers: dict[Any, tuple[int, int]]) -> Any:
    """What tells an equation from others; None if that cannot be told."""
    if e.primitive.name in APART:
        return None
    params = tuple(sorted((name, _exactly(v)) for name, v in e.params.items()))
    operands = tuple(_number(v, numbers) for v in e.invars)
    results = tuple((getattr(v.aval, "dtype", None), v.aval.shape) for v in e.outvars)
    key = e.primitive, params, operands, results
    try:
        hash(key)
    except TypeError:  # a parameter without a hash
        return None
    return key


def _exactly(value: Any) -> Any:
    """A parameter with its type: 0.0 is not -0.0, and 1 not True."""
    return (type(value), value.hex() if isinstance(value, float) else value)


def _number(v: Any, numbers: dict[Any, tuple[int, int]]) -> Any:
    """What an operand is known by: a literal by its bits."""
    if not hasattr(v, "val"):
        return numbers.get(v, v)
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
