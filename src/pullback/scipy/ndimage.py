"""Interpolation in images."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes, lax, numpy as jnp
from ..api.jit import jit
from ..core.avals import typeof
from ..numpy.util import check_arraylike

__all__ = ["map_coordinates"]


def _mirror(index: Any, n: int) -> Any:
    """Reflection about the centres of the end points."""
    last = n - 1
    if last == 0:
        return jnp.zeros_like(index)
    return jnp.abs((index + last) % (2 * last) - last)


def _reflect(index: Any, n: int) -> Any:
    """Reflection about the edges: each end point counts twice."""
    return jnp.floor_divide(_mirror(2 * index + 1, 2 * n + 1), 2)


_EDGES: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda index, n: index,
    "nearest": lambda index, n: jnp.clip(index, 0, n - 1),
    "wrap": lambda index, n: index % n,
    "mirror": _mirror,
    "reflect": _reflect,
}


def _nearest(coordinate: Any) -> list[tuple[Any, Any]]:
    index = _round_half_away(coordinate).astype(jnp.int32)
    return [(index, None)]


def _round_half_away(x: Any) -> Any:
    if dtypes.is_integer(typeof(x).dtype):
        return x
    return lax.round(x)


def _linear(coordinate: Any) -> list[tuple[Any, Any]]:
    lower = jnp.floor(coordinate)
    upper_weight = coordinate - lower
    index = lower.astype(jnp.int32)
    return [(index, 1 - upper_weight), (index + 1, upper_weight)]


def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0
) -> Any:
    """The values of `input` at points between its elements: `coordinates` has one array for each
    axis, all of one shape.

    `order` 0 takes the nearest element, 1 interpolates linearly. `mode` says what lies outside:
    "constant" (cval), "nearest", "wrap", "mirror" or "reflect".

    Raises NotImplementedError for other orders and modes, ValueError unless there is one coordinate
    array for each axis.

    As `scipy.ndimage.map_coordinates`.

    >>> from pullback.scipy.ndimage import map_coordinates
    >>> map_coordinates(jnp.array([0., 10., 20.]), [jnp.array([0.5, 1.25])], order=1)
    Array([ 5. , 12.5], dtype=float32)
    """
    check_arraylike("map_coordinates", input)
    image, fill = jnp.asarray(input), jnp.asarray(cval, dtype=typeof(jnp.asarray(input)).dtype)
    if len(coordinates) != typeof(image).ndim:
        raise ValueError(
            f"coordinates must be a sequence of length input.ndim, but {len(coordinates)} != "
            f"{typeof(image).ndim}"
        )
    check_arraylike("map_coordinates", input, *coordinates)
    points = [jnp.asarray(c) for c in coordinates]
    if mode not in _EDGES:
        raise NotImplementedError(
            f"jax.scipy.ndimage.map_coordinates does not yet support mode {mode}. Currently "
            f"supported modes are {set(_EDGES)}."
        )
    if order not in (0, 1):
        raise NotImplementedError(
            f"jax.scipy.ndimage.map_coordinates currently requires order<=1, got order={order}. "
            "Fix: order=1 interpolates linearly, order=0 takes the nearest element."
        )
    return _map_coordinates(image, tuple(points), fill, order, mode)


@functools.partial(jit, static_argnums=(3, 4))
def _map_coordinates(image: Any, points: tuple[Any, ...], fill: Any, order: int, mode: str) -> Any:
    weights_of = _nearest if order == 0 else _linear
    edge = _EDGES[mode]
    per_axis = []
    for c, n in zip(points, typeof(image).shape, strict=True):
        nodes = []
        for index, weight in weights_of(c):
            inside = (index >= 0) & (index < n) if mode == "constant" else True
            nodes.append((edge(index, n), inside, weight))
        per_axis.append(nodes)
    terms = []
    for nodes in itertools.product(*per_axis):  # type: ignore[assignment]
        indices = tuple(
            jnp.clip(index, 0, n - 1)
            for (index, _, _), n in zip(nodes, typeof(image).shape, strict=True)
        )
        value = image[indices]
        masks = [inside for _, inside, _ in nodes if inside is not True]
        if masks:
            value = jnp.where(functools.reduce(operator.and_, masks), value, fill)
        weights = [w for _, _, w in nodes if w is not None]
        terms.append(functools.reduce(operator.mul, weights) * value if weights else value)
    total = functools.reduce(operator.add, terms)
    dtype = typeof(image).dtype
    if dtypes.is_integer(dtype) and not dtypes.is_integer(typeof(total).dtype):
        total = jnp.round(total)
    return total.astype(dtype)
