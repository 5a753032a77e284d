"""`jax._src.state.utils`: programs whose constants are references, and arrays whose bits are
read as another dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..... import dtypes
from .....control.refs import get as ref_get
from .....core.avals import typeof
from .....core.build import trace_to_jaxpr
from .....core.jaxpr import Jaxpr, eval_jaxpr
from .....core.refs import AbstractRef
from .....primitives.convert import bitcast_convert_type


def hoist_consts_to_refs(
    jaxpr: Jaxpr, *, index: int = 0, make_abstract_ref: Callable[[Any], Any] = AbstractRef
) -> Jaxpr:
    """A program without constants: they come as references among the arguments, from place `index`
    on, and are read first."""
    count = len(jaxpr.constvars)
    refs = [make_abstract_ref(v.aval) for v in jaxpr.constvars]
    args = [v.aval for v in jaxpr.invars]

    def hoisted(*xs: Any) -> Any:
        before, held, rest = xs[:index], xs[index : index + count], xs[index + count :]
        return eval_jaxpr(jaxpr, [ref_get(r, ...) for r in held], *before, *rest)

    found, consts = trace_to_jaxpr(hoisted, [*args[:index], *refs, *args[index:]])
    assert not consts
    return found


def _bits(dtype: Any) -> int:
    return dtypes.itemsize_bits(np.dtype(dtype))


def eval_bitcast_shape(x: Any, dtype: Any) -> tuple[int, ...]:
    """The shape of an array whose bits are read as another dtype: its second last axis is longer or
    shorter. ValueError where that is no whole number, and for fewer than two axes."""
    old, new, shape = _bits(typeof(x).dtype), _bits(dtype), typeof(x).shape
    if old == new:
        return tuple(shape)
    if len(shape) < 2:
        raise ValueError("Not implemented: bitcast 1D")
    if shape[-2] * old % new:
        raise ValueError(
            f"Bitcast from {typeof(x).dtype} to {np.dtype(dtype).name}: the second last axis, of "
            f"size {shape[-2]}, cannot hold the elements."
        )
    return (*shape[:-2], shape[-2] * old // new, shape[-1])


def bitcast(x: Any, dtype: Any) -> Any:
    """An array's bits read as another dtype."""
    old, new = _bits(typeof(x).dtype), _bits(dtype)
    if old == new:
        return bitcast_convert_type(x, dtype)
    *lead, m, n = x.shape
    if old < new:
        k = new // old
        grouped = x.reshape(*lead, m // k, k, n).swapaxes(-1, -2)
        return bitcast_convert_type(grouped, dtype)
    found = bitcast_convert_type(x, dtype).swapaxes(-1, -2)
    return found.reshape(*eval_bitcast_shape(x, dtype))
