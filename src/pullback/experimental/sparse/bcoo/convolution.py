"""Convolutions of BCOO arrays: a product for every pair of stored elements that meet.

The result has two batch axes, of pictures and of features; a place of it holds room for each pair
of an element of one picture's channel and one of the kernel's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .... import lax, numpy as jnp
from ....api.staging import eval_shape
from ....core.avals import ShapedArray
from ....numpy.util import promotes_freely
from .dense import bcoo_fromdense
from .layout import bcoo_update_layout
from .shape import bcoo_transpose
from .storage import all_sparse, full, inside, is_bcoo, kept, make

if TYPE_CHECKING:
    from .array import BCOO


def bcoo_conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> BCOO:
    """`lax.conv_general_dilated` of two sparse arrays: a product for every pair of stored elements
    that meet. Any number of window axes, strides, dilations and groups.

    `lhs`, `rhs`: BCOO arrays of 2 + n axes and one dtype, as is the result, which has two batch
    axes; of a dense array each element is stored. Other arguments, and errors, as of
    `lax.conv_general_dilated`.

    >>> from pullback.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[[1., 0., 2.]]]), n_batch=2)
    >>> k = sparse.BCOO.fromdense(jnp.array([[[1., 1.]]]), n_batch=2)
    >>> sparse.bcoo_conv_general_dilated(x, k, window_strides=(1,), padding="VALID").todense()
    Array([[[1., 2.]]], dtype=float32)
    """
    lhs, rhs = (x if is_bcoo(x) else bcoo_fromdense(x, nse=jnp.size(x)) for x in (lhs, rhs))
    result = eval_shape(
        lambda x, y: lax.conv_general_dilated(
            x, y, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
            feature_group_count, batch_group_count, precision, preferred_element_type,
        ),
        *(ShapedArray(x.shape, x.dtype) for x in (lhs, rhs)),
    )  # fmt: skip
    axes = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    x, kernel = _by_channels(lhs, axes.lhs_spec), _by_channels(rhs, axes.rhs_spec)
    windows = _windows(
        x, kernel, result.shape, axes.out_spec, window_strides, padding, lhs_dilation, rhs_dilation
    )
    data, indices = _pairs(x, kernel, result.dtype, feature_group_count, batch_group_count, windows)
    shape = (*indices.shape[:2], *windows.outs)
    out = make(data, indices, shape)
    back = tuple(axes.out_spec.index(d) for d in range(out.ndim))
    if sorted(back[:2]) != [0, 1]:  # windows' axes first or in between
        out = all_sparse(out)
    return bcoo_transpose(out, permutation=back)


class _Windows(NamedTuple):
    """How places of the result are found, an element for each spatial axis."""

    outs: tuple[int, ...]
    strides: tuple[int, ...]
    lows: tuple[int, ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]


def _by_channels(mat: BCOO, spec: Sequence[int]) -> BCOO:
    """The array as (batch, features, space) or (out, in, space), the first two being batch axes."""
    if tuple(spec) != tuple(range(mat.ndim)):
        mat = bcoo_transpose(all_sparse(mat), permutation=spec)
    return bcoo_update_layout(mat, n_batch=2, n_dense=0, on_inefficient=None)


def _windows(
    x: BCOO,
    kernel: BCOO,
    shape: Sequence[int],
    out_spec: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
) -> _Windows:
    n = x.ndim - 2
    grown, spread = (tuple(d or (1,) * n) for d in (lhs_dilation, rhs_dilation))
    strides = tuple(window_strides)
    sizes = [max(0, (m - 1) * d + 1) for m, d in zip(x.shape[2:], grown, strict=True)]
    windows = [max(0, (m - 1) * d + 1) for m, d in zip(kernel.shape[2:], spread, strict=True)]
    pads = lax.padtype_to_pads(sizes, windows, strides, padding)
    outs = tuple(shape[d] for d in out_spec[2:])
    return _Windows(outs, strides, tuple(int(low) for low, _ in pads), grown, spread)


@promotes_freely
def _pairs(
    x: BCOO, kernel: BCOO, dtype: Any, groups: int, batch_groups: int, windows: _Windows
) -> tuple[Any, Any]:
    """(data, indices) of the result: (pictures, features, pairs)."""
    (values, at), (weights, offset) = full(x), full(kernel)
    ok, ok_kernel = inside(x, at), inside(kernel, offset)
    outs, ins = kernel.shape[:2]
    # The channel, and the pictures, that each of (out feature, in feature) reads.
    feature = np.arange(outs)
    channel = (feature // (outs // groups) * ins)[:, None] + np.arange(ins)
    pictures = x.shape[0] // batch_groups
    picture = (feature // (outs // batch_groups) * pictures)[None] + np.arange(pictures)[:, None]
    read = (picture[:, :, None], channel[None])  # (pictures, outs, ins)
    values, at, ok = values[read][..., None], at[read][..., None, :], ok[read][..., None]
    place, hits = _places(at, offset[None, :, :, None], windows)
    hits = hits & ok & ok_kernel[None, :, :, None]
    data = values.astype(dtype) * weights.astype(dtype)[None, :, :, None]
    data, indices = kept(hits, jnp.broadcast_to(data, hits.shape), place, windows.outs)
    nse = ins * x.nse * kernel.nse
    lead = (pictures, outs, nse)
    return data.reshape(lead), indices.reshape((*lead, len(windows.outs)))


@promotes_freely
def _places(at: Any, offset: Any, windows: _Windows) -> tuple[Any, Any]:
    """(the window that an element at `at` meets with the kernel's element at `offset`, whether
    there is one).
    """
    dtype = at.dtype
    outs, strides, lows, grown, spread = (jnp.array(v, dtype) for v in windows)
    start = at * grown + lows - offset.astype(dtype) * spread
    place = start // strides
    return place, ((start >= 0) & (start % strides == 0) & (place < outs)).all(-1)
