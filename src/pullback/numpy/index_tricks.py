"""Objects that are indexed to write arrays and indices: r_, c_, s_, index_exp."""

from __future__ import annotations

from typing import Any

from .. import lax
from .creation import array
from .joining import concatenate
from .manipulation import atleast_1d
from .ranges import slice_as_range
from .util import ndim_of


class _IndexExpression:
    """`s_[...]` and `index_exp[...]`: an index, written as one.

    `index_exp` always gives a tuple.

    >>> jnp.s_[1:3, ..., 0]
    (slice(1, 3, None), Ellipsis, 0)
    >>> jnp.arange(6)[jnp.s_[::2]]
    Array([0, 2, 4], dtype=int32)
    """

    def __init__(self, as_tuple: bool) -> None:
        self.as_tuple = as_tuple

    def __getitem__(self, item: Any) -> Any:
        return (item,) if self.as_tuple and not isinstance(item, tuple) else item


index_exp = _IndexExpression(True)

s_ = _IndexExpression(False)


class _AxisConcat:
    """What `r_` and `c_` have in common: slices, numbers and arrays joined along an axis, each
    grown to `ndmin` axes first, its own ones at `trans1d`."""

    axis: int
    ndmin: int
    trans1d: int
    op_name: str

    def __repr__(self) -> str:
        return f"<jax.numpy.{self.op_name}>"

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: Any) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self.axis, self.ndmin, self.trans1d
        as_matrix = False
        if items and isinstance(items[0], str):
            axis, ndmin, trans1d, as_matrix = _directive(items.pop(0), axis, ndmin, trans1d)
        parts = [self._part(item, ndmin, trans1d) for item in items]
        out = concatenate(parts, axis)
        if as_matrix is not False and ndim_of(out) == 1:
            out = lax.expand_dims(out, (1 if as_matrix == "c" else 0,))  # type: ignore[comparison-overlap]
        return out

    def _part(self, item: Any, ndmin: int, trans1d: int) -> Any:
        if isinstance(item, str):
            raise ValueError("string directive must be placed at the beginning")
        if isinstance(item, slice):
            made = slice_as_range(item, self.op_name)
            given = 1
        else:
            made = array(item, copy=False)
            given = ndim_of(made)
        made = atleast_1d(made) if not ndim_of(made) else made
        if ndim_of(made) < ndmin:
            grown = lax.expand_dims(made, tuple(range(ndmin - ndim_of(made))))
            if trans1d != -1 and given < ndmin:
                order = list(range(ndmin))
                moved = order[ndmin - max(given, 1) :]
                rest = order[: ndmin - max(given, 1)]
                k = trans1d if trans1d >= 0 else trans1d + len(rest) + 1
                grown = lax.transpose(grown, (*rest[:k], *moved, *rest[k:]))
            made = grown
        return made


def _directive(text: str, axis: int, ndmin: int, trans1d: int) -> Any:
    if text in ("r", "c"):
        return axis, ndmin, trans1d, text
    try:
        values = [int(v) for v in text.split(",")]
    except ValueError:
        raise ValueError(f"could not understand directive {text!r}") from None
    if not 1 <= len(values) <= 3:
        raise ValueError(f"could not understand directive {text!r}")
    return (*values, *(axis, ndmin, trans1d)[len(values) :], False)


class RClass(_AxisConcat):
    """`r_[...]`: slices, numbers and arrays joined along the first axis.

    A leading text names another axis; a slice with a complex step is a number of points.

    >>> jnp.r_[0, 1:3, jnp.array([7, 8])]
    Array([0, 1, 2, 7, 8], dtype=int32)
    """

    axis, ndmin, trans1d, op_name = 0, 1, -1, "r_"


class CClass(_AxisConcat):
    """`c_[...]`: slices, numbers and arrays joined along the last axis, vectors being columns.

    >>> jnp.c_[jnp.array([1, 2]), jnp.array([3, 4])]
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """

    axis, ndmin, trans1d, op_name = -1, 2, 0, "c_"


r_ = RClass()

c_ = CClass()
