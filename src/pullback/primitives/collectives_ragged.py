"""Exchanges over named axes whose parts differ in size, and sends with their receipts: what
collectives_exchange.py has for parts of one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..core.avals import AbstractToken, ShapedArray, abstract_token, typeof
from ..core.primitive import No, Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from .builders import batch_size, full_batch
from .collectives import _effects, _groups, _names, _own, axis_size
from .collectives_exchange import _check_permutation, all_to_all, ppermute_p
from .common import zero_of
from .dynamic_slice import index_take
from .elementwise import add, bitwise_and, convert_element_type, div, ge, lt, mul, select, sub
from .layout import broadcast_in_dim, full_as, iota, reshape, transpose
from .reductions import reduce_max, reduce_or

__all__ = [
    "precv",
    "precv_p",
    "psend",
    "psend_p",
    "ragged_all_to_all",
    "ragged_all_to_all_p",
]

_INDICES = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")


def _refuse_groups(name: str, groups: Any) -> None:
    if groups is not None:
        raise NotImplementedError(
            f"axis_index_groups not supported in vmap collectives: {name} was given {groups}. "
            "Fix: reshape the mapped axis into two, and map each with its own axis_name."
        )


# --- all_to_all of slices of different lengths ---
def _ragged_aval(
    operand: Any, output: Any, *indices: Any, axis_name: Any, axis_index_groups: Any
) -> Any:
    size = axis_size(axis_name)
    for name, aval in zip(_INDICES, indices, strict=True):
        if not dtypes.is_integer(aval.dtype):
            raise ValueError(f"ragged_all_to_all {name} must be integer type.")
        if aval.ndim != 1 or aval.shape[0] == 0:
            raise ValueError(
                f"ragged_all_to_all {name} must be rank 1 with positive dimension size, but got "
                f"shape {aval.shape}"
            )
        if aval.shape != indices[0].shape:
            raise ValueError(
                f"ragged_all_to_all {name} must have the shape of input_offsets, "
                f"{indices[0].shape}, but got shape {aval.shape}"
            )
    if indices[0].shape[0] % size:
        raise ValueError(
            f"ragged_all_to_all has {indices[0].shape[0]} slices, which must be divisible by the "
            f"size of the axis {axis_name}, {size}."
        )
    if operand.dtype != output.dtype or operand.shape[1:] != output.shape[1:]:
        raise ValueError(
            "ragged_all_to_all operand and output must agree in dtype and in all but the leading "
            f"axis, but got {operand.str_short()} and {output.str_short()}"
        )
    return ShapedArray(output.shape, output.dtype), _effects(_names(axis_name))


def _ragged_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    out = ragged_all_to_all_p.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents[:2]):
        return out, zero_of(out)
    dots = map(instantiate_zeros, tangents[:2])
    return out, ragged_all_to_all_p.bind(*dots, *primals[2:], **params)


def _ragged_transpose(
    ct: Any, operand: Any, output: Any, *indices: Any, axis_name: Any, axis_index_groups: Any
) -> list[Any]:
    """What was received goes back where it came from; what was overwritten gets nothing."""
    rest = [None] * len(indices)
    linear = [type(x) is UndefinedPrimal for x in (operand, output)]
    if type(ct) is Zero:
        zeros = [Zero(x.aval) if k else None for x, k in zip((operand, output), linear)]
        return [*zeros, *rest]
    input_offsets, send_sizes, output_offsets, recv_sizes = indices

    def exchanged(x: Any) -> Any:
        return all_to_all(x, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True)

    lands = exchanged(output_offsets)
    to_operand = to_output = None
    if linear[0]:
        to_operand = ragged_all_to_all_p.bind(
            ct, instantiate_zeros(Zero(operand.aval)), lands, recv_sizes,
            exchanged(input_offsets), send_sizes, axis_name=axis_name,
            axis_index_groups=axis_index_groups,
        )  # fmt: skip
    if linear[1]:
        shape = typeof(ct).shape
        hit = reduce_or(_within(lands, recv_sizes, shape[0]), (0,))
        to_output = select(broadcast_in_dim(hit, shape, (0,)), full_as(ct, 0), ct)
    return [to_operand, to_output, *rest]


def _within(starts: Any, sizes: Any, n: int) -> Any:
    """For each slice (a row) and each of n positions: is it in the slice?"""
    at = iota(typeof(starts).dtype, n)
    shape = (typeof(starts).shape[0], n)
    at, low = broadcast_in_dim(at, shape, (1,)), broadcast_in_dim(starts, shape, (0,))
    high = broadcast_in_dim(
        add(starts, convert_element_type(sizes, typeof(starts).dtype)), shape, (0,)
    )
    return bitwise_and(ge(at, low), lt(at, high))


def _ragged_batch(
    axis: Any, args: Any, dims: Any, *, axis_name: Any, axis_index_groups: Any
) -> Any:
    if not _own(axis, axis_name):
        if all(d is None for d in dims):
            return None
        return _ragged_side_by_side(args, dims, axis_name, axis_index_groups), 0
    _refuse_groups("ragged_all_to_all", axis_index_groups)
    full = [full_batch(x, d, axis.size) for x, d in zip(args, dims)]
    return _ragged_exchange(*full), 0


def _ragged_side_by_side(args: Any, dims: Any, axis_name: Any, groups: Any) -> Any:
    """A batch over another axis: all its operands as one, the slices of each moved to its part."""
    size = batch_size(args, dims)
    operand, output, *indices = (full_batch(x, d, size) for x, d in zip(args, dims))
    lengths = [typeof(x).shape[1] for x in (operand, output)]

    def shifted(x: Any, length: int) -> Any:
        dtype, shape = typeof(x).dtype, typeof(x).shape
        steps = np.arange(size, dtype=np.int64) * length
        return add(x, broadcast_in_dim(steps.astype(dtype), shape, (0,)))

    indices[0] = shifted(indices[0], lengths[0])
    indices[2] = shifted(indices[2], lengths[1])
    flat = [reshape(transpose(x, (1, 0)), (typeof(x).size,)) for x in indices]
    joined = [
        reshape(x, (size * n, *typeof(x).shape[2:])) for x, n in zip((operand, output), lengths)
    ]
    out = ragged_all_to_all_p.bind(*joined, *flat, axis_name=axis_name, axis_index_groups=groups)
    return reshape(out, typeof(output).shape)


def _ragged_exchange(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
) -> Any:
    """All instances at once, on the leading axis. For each position of each receiver's output: the
    last slice that covers it, and the element of that slice.
    """
    size, slices = typeof(input_offsets).shape
    n, m = typeof(operand).shape[1], typeof(output).shape[1]
    each = slices // size

    def by_receiver(x: Any) -> Any:
        """(sender, receiver x slice) -> (receiver, sender x slice)."""
        x = reshape(convert_element_type(x, np.dtype("int32")), (size, size, each))
        return reshape(transpose(x, (1, 0, 2)), (size, slices))

    starts, sizes, sources = map(by_receiver, (output_offsets, send_sizes, input_offsets))
    grid = (size, slices, m)
    at = iota(np.dtype("int32"), m)
    at3, low = broadcast_in_dim(at, grid, (2,)), broadcast_in_dim(starts, grid, (0, 1))
    high = broadcast_in_dim(add(starts, sizes), grid, (0, 1))
    order = broadcast_in_dim(iota(np.dtype("int32"), slices), grid, (1,))
    covered = bitwise_and(ge(at3, low), lt(at3, high))
    which = reduce_max(select(covered, order, full_as(order, -1)), (1,))  # (receiver, position)
    hit = ge(which, full_as(which, 0))
    slot = select(hit, which, full_as(which, 0))
    row = broadcast_in_dim(iota(np.dtype("int32"), size), (size, m), (0,))
    sender = div(slot, np.int32(each))

    def of_slot(x: Any) -> Any:
        flat = reshape(x, (size * slices,))
        where = add(_times(row, slices), slot)
        return reshape(index_take(flat, (reshape(where, (size * m,)),), (0,)), (size, m))

    inner = add(of_slot(sources), sub(broadcast_in_dim(at, (size, m), (1,)), of_slot(starts)))
    place = add(_times(sender, n), inner)
    tail = typeof(operand).shape[2:]
    if n == 0:
        return output
    rows = reshape(operand, (size * n, *tail))
    safe = reshape(select(hit, place, full_as(place, 0)), (size * m,))
    got = reshape(index_take(rows, (safe,), (0,)), (size, m, *tail))
    return select(broadcast_in_dim(hit, (size, m, *tail), (0, 1)), got, output)


def _times(x: Any, k: int) -> Any:
    return mul(x, np.int32(k))


ragged_all_to_all_p: Primitive = Primitive(
    "ragged_all_to_all",
    abstract_eval=_ragged_aval,
    jvp=_ragged_jvp,
    transpose=_ragged_transpose,
    batch=No.BY_TRACE,
    axis_batch=_ragged_batch,
    effectful=True,
)


def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Any,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> Any:
    """Sends slices of the leading axis of `operand` to the instances of a named axis, which write
    what they get into `output`.

    Slice i of every instance, `operand[input_offsets[i]:][:send_sizes[i]]`, goes to instance
    `i // (K / size)`, which has it at `output_offsets[i]` of its result; all index arrays have
    shape (K,), and K is a multiple of the axis's size. `recv_sizes` are the sizes of what is
    received: `all_to_all(send_sizes)`. Returns an array like `output`. Raises ValueError for index
    arrays of other shapes or dtypes.

    >>> start, size, to = jnp.array([1]), jnp.array([2]), jnp.array([0])
    >>> def f(x, out):
    ...     return lax.ragged_all_to_all(x, out, start, size, to, size, axis_name='i')
    >>> mesh = pullback.sharding.Mesh(pullback.devices()[:1], ('i',))
    >>> spec = pullback.sharding.PartitionSpec('i')
    >>> g = pullback.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)
    >>> g(jnp.arange(4), jnp.zeros(3, 'int32'))
    Array([1, 2, 0], dtype=int32)
    """
    return ragged_all_to_all_p.bind(
        operand, output, input_offsets, send_sizes, output_offsets, recv_sizes,
        axis_name=_names(axis_name), axis_index_groups=_groups(axis_index_groups),
    )  # fmt: skip


# --- sends and receipts ---
def _psend_aval(x: Any, *, axis_name: Any, perm: Any) -> Any:
    _check_permutation(perm, axis_size(axis_name))
    return abstract_token, _effects(_names(axis_name))


def _psend_batch(axis: Any, args: Any, dims: Any, *, axis_name: Any, perm: Any) -> Any:
    """Where all instances are one batch, the token is what is on its way."""
    (x,), (d,) = args, dims
    if not _own(axis, axis_name):
        raise NotImplementedError(
            f"psend over {axis_name} cannot be vmapped over another axis. Fix: ppermute, which "
            "sends and receives at once."
        )
    return full_batch(x, d, axis.size), 0


psend_p: Primitive = Primitive(
    "psend",
    abstract_eval=_psend_aval,
    jvp=No.SIDE_EFFECT,
    transpose=No.SIDE_EFFECT,
    batch=No.BY_TRACE,
    axis_batch=_psend_batch,
    effectful=True,
)


def psend(x: Any, axis_name: Any, perm: Any) -> Any:
    """Sends an array from instance s to instance t of a named axis for each pair (s, t) of `perm`.

    Returns a token, which `precv` takes. Raises ValueError if `perm` names an instance twice, or
    one that does not exist.

    >>> mesh = pullback.sharding.Mesh(pullback.devices()[:1], ('i',))
    >>> def f(x):
    ...     token = lax.psend(x, 'i', [(0, 0)])
    ...     return lax.precv(token, pullback.ShapeDtypeStruct(x.shape, x.dtype), 'i', [(0, 0)])
    >>> spec = pullback.sharding.PartitionSpec('i')
    >>> pullback.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)(jnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    pairs = tuple((int(s), int(t)) for s, t in perm)
    return psend_p.bind(x, axis_name=_names(axis_name), perm=pairs)


def _precv_aval(token: Any, *, out_shape: Any, axis_name: Any, perm: Any) -> Any:
    sent = type(token) is not AbstractToken and getattr(token, "shape", None) is not None
    if not sent and type(token) is not AbstractToken:
        raise TypeError(f"precv takes the token of psend, got {token}.")
    _check_permutation(perm, axis_size(axis_name))
    return ShapedArray(out_shape.shape, out_shape.dtype), _effects(_names(axis_name))


def _precv_batch(
    axis: Any, args: Any, dims: Any, *, out_shape: Any, axis_name: Any, perm: Any
) -> Any:
    (x,), (d,) = args, dims
    if not _own(axis, axis_name):
        return None
    have = typeof(x)
    if d is None or type(have) is AbstractToken:
        raise ValueError(
            "precv was given a token that no psend over the same axis made, so that nothing can "
            "arrive. Fix: pass the token that psend returned."
        )
    shape = (*have.shape[:d], *have.shape[d + 1 :])
    if (shape, have.dtype) != (tuple(out_shape.shape), out_shape.dtype):
        raise ValueError(
            f"precv expects {out_shape.str_short()}, but what was sent is "
            f"{ShapedArray(shape, have.dtype).str_short()}. Fix: give out_shape of what is sent."
        )
    return ppermute_p.rule("axis_batch")(axis, (x,), (d,), axis_name=axis_name, perm=perm)


precv_p: Primitive = Primitive(
    "precv",
    abstract_eval=_precv_aval,
    jvp=No.SIDE_EFFECT,
    transpose=No.SIDE_EFFECT,
    batch=No.BY_TRACE,
    axis_batch=_precv_batch,
    effectful=True,
)


def precv(token: Any, out_shape: Any, axis_name: Any, perm: Any) -> Any:
    """The array of `out_shape` (a ShapeDtypeStruct) that `psend`, whose token this is, sent along
    the same pairs; zeros where nobody sends.

    >>> mesh = pullback.sharding.Mesh(pullback.devices()[:1], ('i',))
    >>> def f(x):
    ...     token = lax.psend(x, 'i', [(0, 0)])
    ...     return lax.precv(token, pullback.ShapeDtypeStruct(x.shape, x.dtype), 'i', [(0, 0)])
    >>> spec = pullback.sharding.PartitionSpec('i')
    >>> pullback.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)(jnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    pairs = tuple((int(s), int(t)) for s, t in perm)
    aval = ShapedArray(out_shape.shape, out_shape.dtype)
    return precv_p.bind(token, out_shape=aval, axis_name=_names(axis_name), perm=pairs)
