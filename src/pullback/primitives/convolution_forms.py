"""Convolutions of special forms, by the general one: plain layouts, transposed, patches, local."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.avals import typeof
from .common import int_tuple, size_of
from .contract import canonicalize_precision, dot_general
from .convert import convert_element_type
from .convolution import (
    conv_dimension_numbers,
    conv_general_dilated,
    dilated,
    permuted,
    transpose_padding,
)
from .elementwise import add, eq
from .layout import broadcast, broadcasted_iota, reshape, rev, transpose

__all__ = [
    "conv",
    "conv_general_dilated_local",
    "conv_general_dilated_patches",
    "conv_transpose",
    "conv_with_general_padding",
]


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Convolution of (batch, features, spatial...) with (out features, in features, spatial...).

    `lhs`: (n, c, h, w...), `rhs`: (o, c, kh, kw...), of one dtype; `padding`: "SAME", "VALID" or
    "SAME_LOWER". Nothing is flipped: this is what signal processing calls correlation. Raises
    ValueError for shapes that do not fit.

    >>> x = jnp.arange(5.).reshape(1, 1, 5)
    >>> lax.conv(x, jnp.ones((1, 1, 2)), (1,), 'VALID')
    Array([[[1., 3., 5., 7.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """`conv` with explicit padding and dilations.

    `lhs`: (n, c, spatial...), `rhs`: (o, c, spatial...), of one dtype; `padding` holds a pair (low,
    high) for each spatial axis.

    >>> x = jnp.arange(3.).reshape(1, 1, 3)
    >>> lax.conv_with_general_padding(x, jnp.ones((1, 1, 2)), (1,), [(1, 0)], None, None)
    Array([[[0., 1., 3.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


_DEFAULT_NUMBERS = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Any:
    """The transposed ('fractionally strided') convolution; with `transpose_kernel` exactly the
    adjoint of `conv_general_dilated`.

    Channels are last unless `dimension_numbers` says otherwise. `use_consistent_padding`: explicit
    pads are those of the forward convolution.

    `lhs`: (batch, spatial..., in features), `rhs`: (spatial..., in features, out features) by
    default. Raises ValueError for shapes that do not fit.

    >>> x, kernel = jnp.array([1., 2.]).reshape(1, 2, 1), jnp.ones((2, 1, 1))
    >>> lax.conv_transpose(x, kernel, (2,), 'VALID').ravel()
    Array([1., 1., 2., 2.], dtype=float32)
    """
    xs, ws = typeof(lhs).shape, typeof(rhs).shape
    if len(xs) != len(ws) or len(xs) < 2:
        raise TypeError(
            f"conv_transpose needs lhs and rhs of equal rank, 2 or more; got ranks {len(xs)} and "
            f"{len(ws)}."
        )
    n = len(xs) - 2
    if dimension_numbers is None:
        if len(xs) not in _DEFAULT_NUMBERS:
            raise ValueError("No 4+ dimensional dimension_number defaults.")
        dimension_numbers = _DEFAULT_NUMBERS[len(xs)]
    specs = conv_dimension_numbers(xs, ws, dimension_numbers)
    kernel = permuted(ws, specs.rhs_spec)[2:]
    dilation = (1,) * n if rhs_dilation is None else int_tuple(rhs_dilation)
    wide = [dilated(k, d) for k, d in zip(kernel, dilation)]
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            raise ValueError(
                f"`padding` must be 'VALID' or 'SAME' (or explicit pads), got {padding!r}."
            )
        pads = [transpose_padding(k, s, padding) for k, s in zip(wide, strides)]
    elif use_consistent_padding:
        pads = [(k - 1 - lo, k - 1 - hi) for k, (lo, hi) in zip(wide, padding)]
    else:
        pads = [tuple(p) for p in padding]
    if transpose_kernel:
        for axis in specs.rhs_spec[2:]:
            rhs = rev(rhs, (axis,))
        order = list(range(len(ws)))
        o, i = specs.rhs_spec[:2]
        order[o], order[i] = i, o
        rhs = transpose(rhs, order)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * n,
        pads,
        strides,
        dilation,
        specs,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The patches that a convolution would read, as features: ordered by input feature, then
    position in the window.

    `lhs`: (batch, features, spatial...) by default; the other arguments are those of
    `lax.conv_general_dilated`.

    >>> x = jnp.arange(4.).reshape(1, 1, 4)
    >>> lax.conv_general_dilated_patches(x, (2,), (1,), 'VALID')
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    aval = typeof(lhs)
    window = int_tuple(filter_shape)
    if 0 in window:
        raise ValueError(
            f"conv_general_dilated_patches: a window without elements has no patches, got {window}."
        )
    specs = conv_dimension_numbers(aval.shape, (1, 1, *window), dimension_numbers)
    n, features = size_of(window), aval.shape[specs.lhs_spec[1]]
    row = add(broadcasted_iota("int32", (n, n), 0), np.int32(0))
    eye = convert_element_type(eq(row, broadcasted_iota("int32", (n, n), 1)), aval.dtype)
    rhs = reshape(broadcast(eye, (features,)), (features * n, 1, *window))
    order = [0] * len(specs.rhs_spec)
    for k, d in enumerate(specs.rhs_spec):
        order[d] = k
    return conv_general_dilated(
        lhs,
        transpose(rhs, order),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        specs,
        feature_group_count=features,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Any:
    """A convolution whose kernel depends on the position: rhs is (out features, in features *
    window, spatial...).

    `lhs` is laid out as for `lax.conv_general_dilated`, and so are the other arguments;
    `filter_shape` is that of the window.

    >>> x, kernel = jnp.arange(4.).reshape(1, 1, 4), jnp.ones((1, 2, 3))
    >>> lax.conv_general_dilated_local(x, kernel, (1,), 'VALID', (2,))
    Array([[[1., 3., 5.]]], dtype=float32)
    """
    pair = canonicalize_precision(precision)
    lhs_precision = pair[0] if type(pair) is tuple else pair
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        lhs_precision,
    )
    specs = conv_dimension_numbers(
        typeof(lhs).shape, (1, 1, *int_tuple(filter_shape)), dimension_numbers
    )
    _, (_, rc, *rs), (on, oc, *os) = specs  # patches are laid out as results are
    out = dot_general(patches, rhs, (((oc,), (rc,)), (tuple(os), tuple(rs))), precision=pair)
    order = [0] * len(specs.out_spec)
    # dot_general gives (spatial..., batch, out feature).
    for k, d in enumerate([*os, on, oc]):
        order[d] = k
    return transpose(out, order)
