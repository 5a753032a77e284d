"""Interpolation on regular grids."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, numpy as jnp, tree_util
from ..core.avals import typeof
from ..numpy.util import check_arraylike, promote_dtypes_inexact

__all__ = ["RegularGridInterpolator"]


@tree_util.register_pytree_node_class
class RegularGridInterpolator:
    """A function of points on a regular grid: `points` has the coordinates along each axis,
    `values` their values.

    `method` "linear" or "nearest". Outside the grid: `fill_value`, or extrapolation if it is None;
    `bounds_error` is not possible.

    >>> from pullback.scipy.interpolate import RegularGridInterpolator
    >>> f = RegularGridInterpolator((jnp.array([0., 1.]),), jnp.array([0., 10.]))
    >>> f(jnp.array([[0.25]]))
    Array([2.5], dtype=float32)

    Raises ValueError for a grid or a fill value that does not fit the values,
    NotImplementedError for bounds_error=True.
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        if method not in ("linear", "nearest"):
            raise ValueError(f"method {method!r} is not defined")
        self.method, self.bounds_error = method, bounds_error
        if bounds_error:
            raise NotImplementedError(
                "RegularGridInterpolator: `bounds_error` takes no effect under JIT. Fix: "
                "bounds_error=False; points outside then get fill_value."
            )
        check_arraylike("RegularGridInterpolator", values, *points)
        if len(points) > np.ndim(values):
            raise ValueError(
                f"there are {len(points)} point arrays, but values has {np.ndim(values)} dimensions"
            )
        (values,) = promote_dtypes_inexact(values)
        self.values = jnp.asarray(values)
        if fill_value is not None:
            check_arraylike("RegularGridInterpolator", fill_value)
            fill_value = jnp.asarray(fill_value)
            kinds = [typeof(x).dtype for x in (fill_value, self.values)]
            if dtypes.is_complex(kinds[0]) and not dtypes.is_complex(kinds[1]):
                raise ValueError(
                    "fill_value must be either 'None' or of a type compatible with values: got "
                    f"{kinds[0].name} for values of {kinds[1].name}"
                )
        self.fill_value = fill_value
        self.grid = tuple(jnp.asarray(p) for p in points)  # integers add no width to results
        for k, p in enumerate(self.grid):
            if typeof(p).ndim != 1:
                raise ValueError(f"the points in dimension {k} must be 1-dimensional")
            if typeof(self.values).shape[k] != typeof(p).shape[0]:
                raise ValueError(
                    f"there are {typeof(p).shape[0]} points and {typeof(self.values).shape[k]} "
                    f"values in dimension {k}"
                )

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (self.grid, self.values, self.fill_value), (self.method, self.bounds_error)

    @classmethod
    def tree_unflatten(
        cls, aux_data: tuple[Any, ...], children: tuple[Any, ...]
    ) -> RegularGridInterpolator:
        out = object.__new__(cls)
        out.method, out.bounds_error = aux_data
        out.grid, out.values, out.fill_value = children
        return out

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """The values at the points xi (..., number of axes), or a tuple of coordinate arrays.

        A flat xi holds the coordinates of point after point: on two axes, (2,) is one point.
        """
        method = self.method if method is None else method
        if method not in ("linear", "nearest"):
            raise ValueError(f"method {method!r} is not defined")
        ndim = len(self.grid)
        if isinstance(xi, tuple):
            xi = jnp.stack(jnp.broadcast_arrays(*(jnp.asarray(x) for x in xi)), axis=-1)
        else:
            xi = jnp.asarray(xi)
            if typeof(xi).ndim == 1 and typeof(xi).shape[0] % ndim == 0:
                xi = jnp.reshape(xi, (-1, ndim))
        if typeof(xi).shape[-1] != ndim:
            raise ValueError(
                f"the requested sample points xi have dimension {typeof(xi).shape[-1]} but this "
                f"RegularGridInterpolator has dimension {ndim}"
            )
        shape = typeof(xi).shape
        flat = jnp.reshape(xi, (-1, ndim))
        result = self._evaluate(flat, method)
        if self.fill_value is not None:
            outside = jnp.zeros(typeof(flat).shape[:1], bool)
            for k, p in enumerate(self.grid):
                outside = outside | (flat[:, k] < p[0]) | (flat[:, k] > p[-1])
            outside = jnp.reshape(outside, typeof(outside).shape + (1,) * (typeof(result).ndim - 1))
            result = jnp.where(outside, self.fill_value, result)
        return jnp.reshape(result, (*shape[:-1], *typeof(self.values).shape[ndim:]))

    def _evaluate(self, xi: Any, method: str) -> Any:
        places, fractions = [], []
        for k, p in enumerate(self.grid):
            n = typeof(p).shape[0]
            x = xi[:, k]
            i = jnp.clip(jnp.searchsorted(p, x, side="right") - 1, 0, max(n - 2, 0))
            width = p[jnp.minimum(i + 1, n - 1)] - p[i]
            places.append(i)
            fractions.append(jnp.where(width == 0, 0, (x - p[i]) / jnp.where(width == 0, 1, width)))
        extra = (1,) * (typeof(self.values).ndim - len(self.grid))
        if method == "nearest":
            chosen = [jnp.where(f <= 0.5, i, i + 1) for i, f in zip(places, fractions, strict=True)]
            return self.values[tuple(chosen)]
        total: Any = 0.0
        for corner in itertools.product((0, 1), repeat=len(self.grid)):
            weight: Any = 1.0
            for bit, f in zip(corner, fractions, strict=True):
                weight = weight * (f if bit else 1 - f)
            values = self.values[tuple(i + bit for i, bit in zip(places, corner, strict=True))]
            total = total + values * jnp.reshape(weight, typeof(weight).shape + extra)
        return total
