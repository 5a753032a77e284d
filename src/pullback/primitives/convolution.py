"""Convolution, with strides, padding, dilation of both operands, feature groups and batch groups.
Its adjoints and batches are convolutions.

    out[n, o, p] = sum over i, k of lhs[n, g * I + i, p * stride + k * rhs_dilation - low] * rhs[o,
    i, k]

where lhs is dilated by lhs_dilation (zeros between elements), and g is the group of feature o.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..core.avals import ShapedArray, typeof
from ..core.dims import max_dim
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero
from .builders import add_tangents
from .common import (
    ANY,
    asked_layout,
    canonical_size,
    check_dtype,
    check_same_dtypes,
    int_tuple,
    requested_dtype,
)
from .contract import canonicalize_precision
from .convert import convert_element_type, convert_weak
from .layout import as_two_axes, reshape, rev

__all__ = [
    "ConvDimensionNumbers",
    "ConvGeneralDilatedDimensionNumbers",
    "conv_dimension_numbers",
    "conv_general_dilated",
    "conv_general_dilated_p",
    "conv_general_permutations",
    "conv_general_shape_tuple",
    "conv_shape_tuple",
    "conv_transpose_shape_tuple",
    "padtype_to_pads",
]


class ConvDimensionNumbers(NamedTuple):
    """Which axes mean what: (batch, feature, spatial...) of lhs and result, (out feature, in
    feature, spatial...) of rhs.

    >>> lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)).lhs_spec
    (0, 3, 1, 2)
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


ConvGeneralDilatedDimensionNumbers = Any


def dilated(n: Any, dilation: int) -> Any:
    """The size after `dilation - 1` zeros are put between elements."""
    return 0 if type(n) is int and n == 0 else 1 + dilation * (n - 1)


def _out_size(n: Any, k: Any, stride: int, pad: tuple[int, int]) -> Any:
    if not stride:
        raise ValueError("strides of a convolution must be positive, got 0.")
    total = n + pad[0] + pad[1] - k
    if type(total) is int:
        return max(0, total // stride + 1)
    return total // stride + 1


def padtype_to_pads(
    in_shape: Any, window_shape: Any, window_strides: Any, padding: Any
) -> list[tuple[int, int]]:
    """The (low, high) pads that 'VALID', 'SAME' or 'SAME_LOWER' mean; explicit pads pass. Raises
    RuntimeError for other strings.

    Sizes and strides are sequences of ints, one a spatial axis.

    >>> lax.padtype_to_pads((8,), (3,), (2,), 'SAME')
    [(0, 1)]
    """
    if not isinstance(padding, str):
        return [tuple(p) for p in padding]
    kind = padding.upper()
    if kind == "VALID":
        return [(0, 0)] * len(window_strides)
    if kind not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(
            f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding}."
        )
    pads = []
    for n, k, s in zip(in_shape, window_shape, window_strides):
        out = -(-n // s) if s else 1
        total = max_dim((out - 1) * s + k - n, 0)
        total = int(total) if isinstance(total, np.integer) else total  # symbolic ones stay
        small, large = total // 2, total - total // 2
        pads.append((small, large) if kind == "SAME" else (large, small))
    return pads


def conv_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, strides: Any, pads: Any, batch_group_count: int = 1
) -> tuple[Any, ...]:
    """The shape of a convolution of canonical operands: (batch, features, spatial...) and (out
    features, in features, spatial...).

    `pads`: pairs (low, high), or "SAME" or "VALID". ValueError for a stride of 0.

    >>> lax.conv_shape_tuple((1, 3, 8), (16, 3, 3), (1,), [(0, 0)])
    (1, 16, 6)
    """
    n = len(lhs_shape) - 2
    count = len(strides) if isinstance(pads, str) else len(pads)
    if count != n:
        raise TypeError(
            f"Wrong number of explicit pads for convolution: expected {n}, got {count}."
        )
    pads = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    spatial = (
        _out_size(n, k, s, p) for n, k, s, p in zip(lhs_shape[2:], rhs_shape[2:], strides, pads)
    )
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial)


def permuted(shape: Any, spec: Sequence[int]) -> tuple[Any, ...]:
    return tuple(shape[d] for d in spec)


def _unpermuted(shape: Any, spec: Sequence[int]) -> tuple[Any, ...]:
    out = [0] * len(spec)
    for n, d in zip(shape, spec):
        out[d] = n
    return tuple(out)


def conv_general_permutations(
    dimension_numbers: Any,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The axes of lhs, rhs and result, from three strings such as ('NHWC', 'HWIO', 'NHWC'). Raises
    TypeError if they do not fit.

    >>> lax.conv_general_permutations(('NHWC', 'HWIO', 'NHWC'))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    lhs, rhs, out = dimension_numbers
    for k, (spec, pair) in enumerate(((lhs, "NC"), (rhs, "OI"), (out, "NC"))):
        if len(set(spec)) != len(spec):
            raise TypeError(
                f"convolution dimension_numbers[{k}] cannot have duplicate characters, got {spec}."
            )
        if not set(pair) <= set(spec):
            raise TypeError(
                f"convolution dimension_numbers[{k}] must contain the characters '{pair[0]}' and "
                f"'{pair[1]}', got {spec}."
            )
    spatial = [c for c in rhs if c not in "OI"]
    for spec in (lhs, out):
        if {c for c in spec if c not in "NC"} != set(spatial):
            raise TypeError(
                "convolution dimension_numbers must each have the same set of spatial "
                f"characters, got {dimension_numbers}."
            )
    return (
        tuple(map(lhs.index, ["N", "C", *spatial])),
        tuple(map(rhs.index, ["O", "I", *spatial])),
        tuple(map(out.index, ["N", "C", *spatial])),
    )


def conv_dimension_numbers(
    lhs_shape: Any, rhs_shape: Any, dimension_numbers: Any
) -> ConvDimensionNumbers:
    """A `dimension_numbers` argument (None, three strings, or itself) as axes.

    `lhs_shape`, `rhs_shape`: shapes of one rank. Raises TypeError for ranks that differ and
    ValueError for strings that do not fit.

    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 16), ('NHWC', 'HWIO', 'NHWC'))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(
            f"convolution requires lhs and rhs ndim to be equal, got {len(lhs_shape)} and "
            f"{len(rhs_shape)}."
        )
    if dimension_numbers is None:
        axes = tuple(range(len(lhs_shape)))
        return ConvDimensionNumbers(axes, axes, axes)
    if not isinstance(dimension_numbers, (list, tuple)):
        raise TypeError(
            "convolution dimension_numbers must be tuple/list or None, got "
            f"{type(dimension_numbers)}."
        )
    if len(dimension_numbers) != 3:
        raise TypeError(
            "convolution dimension_numbers list/tuple must be length 3, got "
            f"{len(dimension_numbers)}."
        )
    if not all(isinstance(spec, str) for spec in dimension_numbers):
        raise TypeError(
            "convolution dimension_numbers elements must be strings, got "
            f"{tuple(map(type, dimension_numbers))}."
        )
    for k, spec in enumerate(dimension_numbers):
        if len(spec) != len(lhs_shape):
            raise TypeError(
                f"convolution dimension_numbers[{k}] must have len equal to the ndim of lhs and "
                f"rhs, got {len(spec)} for "
                f"lhs and rhs shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def conv_general_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> tuple[Any, ...]:
    """The shape of a convolution without dilation or groups.

    Shapes are tuples of ints, laid out as the strings say. Raises ValueError or TypeError for
    shapes that do not fit.

    >>> numbers = ('NHWC', 'HWIO', 'NHWC')
    >>> lax.conv_general_shape_tuple((1, 8, 8, 3), (3, 3, 3, 16), (1, 1), 'SAME', numbers)
    (1, 8, 8, 16)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shape = conv_shape_tuple(
        permuted(lhs_shape, lhs), permuted(rhs_shape, rhs), window_strides, padding
    )
    return _unpermuted(shape, out)


def conv_transpose_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> tuple[Any, ...]:
    """The shape of a transposed convolution.

    >>> numbers = ('NHC', 'HIO', 'NHC')
    >>> lax.conv_transpose_shape_tuple((1, 4, 3), (2, 3, 8), (2,), 'VALID', numbers)
    (1, 8, 8)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    x, w = permuted(lhs_shape, lhs), permuted(rhs_shape, rhs)
    if isinstance(padding, str):
        padding = [transpose_padding(k, s, padding) for k, s in zip(w[2:], window_strides)]
    sizes = (
        dilated(n, s) + sum(p) - k + 1 for n, k, s, p in zip(x[2:], w[2:], window_strides, padding)
    )
    return _unpermuted((x[0], w[0], *sizes), out)


def _check_groups(x: Sequence[Any], w: Sequence[Any], groups: int, batch_groups: int) -> None:
    name = "conv_general_dilated"
    for what, count in (("feature_group_count", groups), ("batch_group_count", batch_groups)):
        if count <= 0:
            raise ValueError(f"{name} {what} must be a positive integer, got {count}.")
    if x[1] % groups:
        raise ValueError(
            f"{name} feature_group_count must divide lhs feature dimension size, but {groups} "
            f"does not divide {x[1]}."
        )
    if x[1] // groups != w[1]:
        raise ValueError(
            f"{name} lhs feature dimension size divided by feature_group_count must equal the rhs "
            "input feature dimension size, "
            f"but {x[1]} // {groups} != {w[1]}."
        )
    if w[0] % groups:
        raise ValueError(
            f"{name} rhs output feature dimension size must be a multiple of feature_group_count, "
            f"but {w[0]} is not a multiple of {groups}."
        )
    if batch_groups > 1 and x[0] % batch_groups:
        raise ValueError(
            f"{name} batch_group_count must divide lhs batch dimension size, but {batch_groups} "
            f"does not divide {x[0]}."
        )
    if w[0] % batch_groups:
        raise ValueError(
            f"{name} rhs output feature dimension size must be a multiple of batch_group_count, "
            f"but {w[0]} is not a multiple of {batch_groups}."
        )
    if groups > 1 and batch_groups > 1:
        raise ValueError(
            "At most one of batch_group_count and feature_group_count may be > 1, "
            f"got batch_group_count={batch_groups} and feature_group_count={groups}."
        )


def _check_preferred(given: Any, preferred: Any) -> None:
    """Sums are kept in a type of the operands' kind (or a float for integers), sign and width."""
    if dtypes.is_bool(given):
        return

    def kind(d: Any) -> str:
        if dtypes.is_bool(d):
            return "boolean"
        if dtypes.is_complex(d):
            return "complex"
        return "floating" if dtypes.is_float(d) else "integral"

    if kind(preferred) != kind(given) and (kind(given), kind(preferred)) != (
        "integral",
        "floating",
    ):
        raise TypeError(
            "Input type is incompatible with `preferred_element_type`: a convolution of "
            f"{given} gives {kind(given)} results"
            + (" or floating ones" if kind(given) == "integral" else "")
            + f", not {preferred}."
        )
    if (
        kind(preferred) == "integral"
        and dtypes.is_signed(given)
        and not dtypes.is_signed(preferred)
    ):
        raise TypeError(
            "`preferred_element_type` must have the same signedness as the original type, "
            f"{given}; got {preferred}."
        )
    if preferred.itemsize < given.itemsize:
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, "
            f"{given}; got {preferred}."
        )


def _conv_aval(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> ShapedArray:
    if lhs.ndim != rhs.ndim:
        raise ValueError(
            "conv_general_dilated lhs and rhs must have the same number of dimensions, got "
            f"{lhs.shape} and {rhs.shape}."
        )
    specs = dimension_numbers
    x, w = permuted(lhs.shape, specs.lhs_spec), permuted(rhs.shape, specs.rhs_spec)
    _check_groups(x, w, feature_group_count, batch_group_count)
    n = len(x) - 2
    for what, given in (
        ("window_strides", window_strides),
        ("lhs_dilation", lhs_dilation),
        ("rhs_dilation", rhs_dilation),
    ):
        if len(given) != n:
            raise ValueError(
                f"conv_general_dilated window and {what} must have the same number of dimensions, "
                f"but got {n} and {len(given)}"
            )
        if any(v <= 0 for v in given):
            if what == "window_strides":
                raise ValueError(
                    f"conv_general_dilated window_strides must be positive, got {given}."
                )
            raise TypeError(f"All dilations must be positive, got {given}.")
    if len(padding) != n:
        raise TypeError(
            f"Wrong number of explicit pads for convolution: expected {n}, got {len(padding)}."
        )
    wide = tuple(dilated(m, d) for m, d in zip(x[2:], lhs_dilation))
    if any(type(m) is int and m + lo + hi < 0 for m, (lo, hi) in zip(wide, padding)):
        raise ValueError(
            "Negative padding is larger than the size of the corresponding dimension: "
            f"got padding={padding} for lhs_shape[2:]={wide}"
        )
    kernel = (dilated(k, d) for k, d in zip(w[2:], rhs_dilation))
    spatial = (_out_size(*a) for a in zip(wide, kernel, window_strides, padding))
    shape = _unpermuted((x[0] // batch_group_count, w[0], *spatial), specs.out_spec)
    check_same_dtypes("conv_general_dilated", (lhs, rhs))
    check_dtype("conv_general_dilated", lhs.dtype, ANY, 0)
    weak = lhs.weak_type and rhs.weak_type
    if preferred_element_type is not None and preferred_element_type != lhs.dtype:
        _check_preferred(lhs.dtype, preferred_element_type)
        return ShapedArray(shape, preferred_element_type)
    return ShapedArray(shape, lhs.dtype, weak)


def _conv_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    x, w = primals
    tx, tw = tangents
    out = conv_general_dilated_p.bind(x, w, **params)
    aval = typeof(out).to_tangent_aval()
    dx = Zero(aval) if type(tx) is Zero else conv_general_dilated_p.bind(tx, w, **params)
    dw = Zero(aval) if type(tw) is Zero else conv_general_dilated_p.bind(x, tw, **params)
    return out, add_tangents(dx, dw)


def _swap(spec: Sequence[int]) -> tuple[int, ...]:
    return (spec[1], spec[0], *spec[2:])


def _sizes(x: Any, w: Any, out: Any, params: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    """Per spatial axis the dilated sizes of lhs and rhs, and of the result (by the stride)."""
    specs = params["dimension_numbers"]
    return [
        (dilated(n, ld), dilated(k, rd), dilated(m, s))
        for n, k, m, ld, rd, s in zip(
            permuted(x, specs.lhs_spec)[2:],
            permuted(w, specs.rhs_spec)[2:],
            permuted(out, specs.out_spec)[2:],
            params["lhs_dilation"],
            params["rhs_dilation"],
            params["window_strides"],
        )
    ]


def _conv_transpose_rule(ct: Any, x: Any, w: Any, **params: Any) -> list[Any]:
    to_x = type(x) is UndefinedPrimal
    linear = x if to_x else w
    if type(ct) is Zero:
        zero = Zero(linear.aval)
        return [zero, None] if to_x else [None, zero]
    other = w if to_x else x
    out = (
        _transpose_lhs(ct, x.aval, other, params)
        if to_x
        else _transpose_rhs(ct, other, w.aval, params)
    )
    aval = linear.aval
    if typeof(out).dtype != aval.dtype:
        out = convert_weak(out, aval.dtype, aval.weak_type)
    return [out, None] if to_x else [None, out]


def _as_wide(x: Any, ct: Any) -> Any:
    """An operand in the dtype of the cotangent, which `preferred_element_type` made a wider one."""
    dtype = typeof(ct).dtype
    return x if typeof(x).dtype == dtype else convert_element_type(x, dtype)


def _transpose_lhs(ct: Any, aval: Any, w: Any, params: dict[str, Any]) -> Any:
    """ct with the kernel turned round, its features exchanged (within groups): strides and
    dilations of lhs change places.
    """
    specs, groups, batch_groups = (
        params[k] for k in ("dimension_numbers", "feature_group_count", "batch_group_count")
    )
    out_i, in_i = specs.rhs_spec[0], specs.rhs_spec[1]
    sizes = _sizes(aval.shape, typeof(w).shape, typeof(ct).shape, params)
    both = max(groups, batch_groups)
    if both > 1:
        w = _merge_axis(as_two_axes(w, out_i, both), out_i, in_i + (in_i > out_i))
    padding = []
    for (n, k, m), (low, _) in zip(sizes, params["padding"]):
        start = k - low - 1
        padding.append((start, n + k - 1 - m - start))
    out = conv_general_dilated_p.bind(
        ct,
        _as_wide(rev(w, specs.rhs_spec[2:]), ct),
        window_strides=params["lhs_dilation"],
        padding=tuple(padding),
        lhs_dilation=params["window_strides"],
        rhs_dilation=params["rhs_dilation"],
        dimension_numbers=ConvDimensionNumbers(
            specs.out_spec, _swap(specs.rhs_spec), specs.lhs_spec
        ),
        feature_group_count=both,
        batch_group_count=1,
        precision=params["precision"],
        preferred_element_type=params["preferred_element_type"],
        out_sharding=None,
    )
    if batch_groups > 1:
        # Features are (group, feature); the group belongs to the batch.
        n, c = specs.lhs_spec[:2]
        out = _merge_axis(as_two_axes(out, c, batch_groups), c, n + (n > c))
    return out


def _transpose_rhs(ct: Any, x: Any, aval: Any, params: dict[str, Any]) -> Any:
    """lhs with ct as the kernel: the batch is summed over, features are the batch; stride and rhs
    dilation change places.
    """
    specs, groups, batch_groups = (
        params[k] for k in ("dimension_numbers", "feature_group_count", "batch_group_count")
    )
    sizes = _sizes(typeof(x).shape, aval.shape, typeof(ct).shape, params)
    padding = tuple(
        (low, m + k - 1 - n - low) for (n, k, m), (low, _) in zip(sizes, params["padding"])
    )
    return conv_general_dilated_p.bind(
        _as_wide(x, ct),
        ct,
        window_strides=params["rhs_dilation"],
        padding=padding,
        lhs_dilation=params["lhs_dilation"],
        rhs_dilation=params["window_strides"],
        dimension_numbers=ConvDimensionNumbers(
            _swap(specs.lhs_spec), _swap(specs.out_spec), _swap(specs.rhs_spec)
        ),
        feature_group_count=batch_groups,
        batch_group_count=groups,
        precision=params["precision"],
        preferred_element_type=params["preferred_element_type"],
        out_sharding=None,
    )


def _merge_axis(x: Any, source: int, target: int) -> Any:
    """Moves axis `source` in front of axis `target` and makes one axis of both (the source is the
    slow one).
    """
    ndim = typeof(x).ndim
    order = [d for d in range(ndim) if d != source]
    at = order.index(target)
    order.insert(at, source)
    shape = [typeof(x).shape[d] for d in order]
    return reshape(x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]), order)


def _without(axis: int, dim: int) -> int:
    """Where an axis of an element is in the batch whose batch axis is `dim`."""
    return axis + (axis >= dim)


def _conv_batch(args: Any, dims: Any, **params: Any) -> Any:
    (x, w), (dx, dw) = args, dims
    specs, groups, batch_groups = (
        params[k] for k in ("dimension_numbers", "feature_group_count", "batch_group_count")
    )
    out_n, out_c = specs.out_spec[:2]
    if dx is not None and dw is not None:
        size = typeof(x).shape[dx]
        target = specs.lhs_spec[0] if batch_groups > 1 else specs.lhs_spec[1]
        x = _merge_axis(x, dx, _without(target, dx))
        w = _merge_axis(w, dw, _without(specs.rhs_spec[0], dw))
        name = "batch_group_count" if batch_groups > 1 else "feature_group_count"
        out = conv_general_dilated_p.bind(x, w, **{**params, name: params[name] * size})
        return as_two_axes(out, out_c, size), out_c
    if dx is not None:
        size = typeof(x).shape[dx]
        n = _without(specs.lhs_spec[0], dx)
        if batch_groups > 1:
            x = as_two_axes(x, n, batch_groups)
            inner, moved = n + 1, dx + (dx > n)
            x = _merge_axis(x, moved, inner)
            n = n - (moved < n)
            x = _merge_axis(x, n, n + 1)
        else:
            x = _merge_axis(x, dx, n)
        out = conv_general_dilated_p.bind(x, w, **params)
        return as_two_axes(out, out_n, size), out_n
    size = typeof(w).shape[dw]
    o = _without(specs.rhs_spec[0], dw)
    both = max(groups, batch_groups)
    if both == 1:
        out = conv_general_dilated_p.bind(x, _merge_axis(w, dw, o), **params)
        return as_two_axes(out, out_c, size), out_c
    # Features must stay ordered by group first: (group, batch, feature).
    w = as_two_axes(w, o, both)
    moved = dw + (dw > o)
    w = _merge_axis(w, moved, o + 1)
    o = o - (moved < o)
    out = conv_general_dilated_p.bind(x, _merge_axis(w, o, o + 1), **params)
    out = as_two_axes(as_two_axes(out, out_c, both), out_c + 1, size)
    return _merge_axis(out, out_c, out_c + 2), out_c


conv_general_dilated_p: Primitive = Primitive(
    "conv_general_dilated",
    abstract_eval=_conv_aval,
    jvp=_conv_jvp,
    transpose=_conv_transpose_rule,
    batch=_conv_batch,
)


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
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
) -> Any:
    """Convolution (correlation) of `lhs` with the kernel `rhs`.

    `padding` is 'SAME', 'VALID', 'SAME_LOWER' or (low, high) per spatial axis; `dimension_numbers`
    is None or three strings such as
    ('NHWC', 'HWIO', 'NHWC').

    >>> lax.conv_general_dilated(jnp.ones((1, 1, 5)), jnp.ones((1, 1, 3)), (1,), 'VALID')
    Array([[[3., 3., 3.]]], dtype=float32)

    Raises TypeError or ValueError, naming the argument, if the operands do not fit.
    """
    xs, ws = typeof(lhs).shape, typeof(rhs).shape
    specs = conv_dimension_numbers(xs, ws, dimension_numbers)
    n = len(xs) - 2
    strides = int_tuple(window_strides)
    lhs_dilation = (1,) * n if lhs_dilation is None else int_tuple(lhs_dilation)
    rhs_dilation = (1,) * n if rhs_dilation is None else int_tuple(rhs_dilation)
    if isinstance(padding, str):
        spatial, kernel = permuted(xs, specs.lhs_spec)[2:], permuted(ws, specs.rhs_spec)[2:]
        if any(d != 1 for d in lhs_dilation):
            raise ValueError(
                "String padding is not implemented for transposed convolution using this op. "
                "Please either exactly specify the required padding or use conv_transpose."
            )
        padding = padtype_to_pads(
            [dilated(m, d) for m, d in zip(spatial, lhs_dilation)],
            [dilated(k, d) for k, d in zip(kernel, rhs_dilation)],
            strides,
            padding,
        )
    try:
        padding = tuple((canonical_size(lo), canonical_size(hi)) for lo, hi in padding)
    except (ValueError, TypeError):
        raise ValueError(
            "padding argument to conv_general_dilated should be a string or a sequence of (low, "
            f"high) pairs, got {padding}"
        ) from None
    preferred = None
    if preferred_element_type is not None:
        preferred = requested_dtype(preferred_element_type, "conv_general_dilated")
    lies = out_sharding
    if lies is not None:
        lies = asked_layout("conv_general_dilated", out_sharding, typeof(lhs).shape, True)
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=strides,
        padding=padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=specs,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred,
        out_sharding=lies,
    )


def transpose_padding(k: int, s: int, padding: str) -> tuple[int, int]:
    """The pads of the dilated operand, so that 'SAME' gives s times the size and 'VALID' undoes a
    VALID convolution.
    """
    if padding == "SAME":
        total = k + s - 2
        low = k - 1 if s > k - 1 else -(-total // 2)
    elif padding == "VALID":
        total = k + s - 2 + max(k - s, 0)
        low = k - 1
    else:
        raise ValueError(f"Padding mode must be `SAME` or `VALID`, got {padding!r}.")
    return low, total - low
