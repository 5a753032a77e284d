"""Names of `jax._src.lax.parallel`: collectives whose results are the same on all devices."""

from __future__ import annotations

from typing import Any

from .... import lax, numpy as jnp


def all_gather_invariant(x: Any, axis_name: Any, *, axis: int = 0, tiled: bool = False) -> Any:
    """The arrays of all devices along a mesh axis, as a result that does not vary."""
    return lax.all_gather(x, axis_name, axis=axis, tiled=tiled, to="invarying")


def all_gather_reduced(
    x: Any, axis_name: Any, *, axis: int = 0, tiled: bool = False, is_async: bool = False
) -> Any:
    """The arrays of all devices along a mesh axis, as a result whose cotangents are still to be
    summed."""
    return lax.all_gather(x, axis_name, axis=axis, tiled=tiled, to="reduced")


def vary_unreduced_cast(x: Any, axis_name: Any) -> Any:
    """The same array as the terms of a sum that is still to come."""
    return lax.pcast(x, axis_name, to="unreduced")


def unreduced_psum(x: Any, axis_name: Any, is_async: bool = False) -> Any:
    """The sum that was still to come."""
    return lax.psum(x, axis_name)


def unreduced_psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, tiled: bool = False,
    is_async: bool = False,
) -> Any:  # fmt: skip
    """The sum that was still to come, each device keeping its part."""
    return lax.psum_scatter(x, axis_name, scatter_dimension=scatter_dimension, tiled=tiled)


def pargmax(x: Any, axis_name: Any) -> Any:
    """Where along a named axis the largest values are: the first of equals."""
    return _first_where(x == lax.pmax(x, axis_name), axis_name)


def pargmin(x: Any, axis_name: Any) -> Any:
    """Where along a named axis the smallest values are: the first of equals."""
    return _first_where(x == lax.pmin(x, axis_name), axis_name)


def _first_where(here: Any, axis_name: Any) -> Any:
    return lax.pmin(jnp.where(here, lax.axis_index(axis_name), lax.axis_size(axis_name)), axis_name)
