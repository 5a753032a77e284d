"""Random bits: key primitives, the block ciphers that make bits, and the generators built of them.

Bits are a pure function of a key and a position. threefry2x32 encrypts positions; rbg and
unsafe_rbg use the Philox generator.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config, dtypes
from ..core.avals import ShapedArray, typeof
from ..core.primitive import No, Primitive
from .builders import align_batch
from .common import (
    asked_layout,
    broadcast_dims,
    canonical_shape,
    check_nonnegative,
    requested_dtype,
    size_of,
    zero_of,
)
from .convert import bitcast_convert_type, convert_element_type
from .elementwise import (
    add,
    bitwise_or,
    bitwise_xor,
    mul,
    shift_left,
    shift_right_logical,
)
from .keys import (
    PRNGImpl,
    find_impl,
    is_key_aval,
    key_aval,
    physical_rules,
    register_prng,
)  # fmt: skip
from .layout import (
    broadcast_in_dim,
    broadcasted_iota,
    expand_dims,
    iota,
    iota_p,
    move_batch_front,
    reshape,
)  # fmt: skip
from .shape import concatenate, full, index_in_dim, key_filler, slice_in_dim

_U32, _U64 = np.dtype("uint32"), np.dtype("uint64")


def _no_tangents(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """The jvp rule of operations on bits: zero tangents."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = get().bind(*primals, **params)
        return (out, [zero_of(x) for x in out]) if get().multiple_results else (out, zero_of(out))

    return jvp


def _batch_front(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """The batch rule of operations that take leading axes of their one operand as they come."""

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        return get().bind(move_batch_front(args[0], dims[0]), **params), 0

    return batch


def _key_primitive(
    name: str, aval: Callable[..., Any], batch: Callable[..., Any] | None = None
) -> Primitive:
    p: Primitive
    p = Primitive(
        name,
        abstract_eval=aval,
        jvp=_no_tangents(lambda: p),
        transpose=No.NOT_LINEAR,
        batch=batch or _batch_front(lambda: p),
    )
    return p


def _check_keys(name: str, aval: Any) -> PRNGImpl:
    if not is_key_aval(aval):
        raise TypeError(
            f"{name} takes keys, got {aval.str_short()}. Fix: make them with random.key or "
            "random.wrap_key_data."
        )
    return aval.dtype.impl  # type: ignore[no-any-return]


# --- key primitives ---
# The flag jax_threefry_partitionable changes bits, and it is read where an operation is written: by
# the time a program is lowered, the block that set it may be over. It is a parameter where it is
# off.
def _order() -> dict[str, bool]:
    return {} if config.threefry_partitionable.get() else {"partitionable": False}


def _bits_aval(keys: Any, *, bit_width: int, shape: Any, partitionable: bool = True) -> ShapedArray:
    _check_keys("random_bits", keys)
    if bit_width not in (8, 16, 32, 64):
        raise TypeError(f"bit_width must be 8, 16, 32 or 64, got {bit_width}")
    return ShapedArray((*keys.shape, *shape), np.dtype(f"uint{bit_width}"))


def _seed_aval(seeds: Any, *, impl: PRNGImpl) -> ShapedArray:
    return key_aval(impl, seeds.shape)


def _split_aval(keys: Any, *, shape: Any, partitionable: bool = True) -> ShapedArray:
    return key_aval(_check_keys("random_split", keys), (*keys.shape, *shape))


def _fold_in_aval(keys: Any, data: Any) -> ShapedArray:
    impl = _check_keys("random_fold_in", keys)
    return key_aval(impl, broadcast_dims("random_fold_in", [keys.shape, data.shape]))


def _fold_in_batch(args: Any, dims: Any) -> Any:
    rank = max(typeof(x).ndim - (d is not None) for x, d in zip(args, dims, strict=True))
    return random_fold_in_p.bind(
        *(align_batch(x, d, rank) for x, d in zip(args, dims, strict=True))
    ), 0


def _wrap_aval(base: Any, *, impl: PRNGImpl) -> ShapedArray:
    _check_key_data(impl, base)
    return key_aval(impl, base.shape[: base.ndim - len(impl.key_shape)])


def _unwrap_aval(keys: Any) -> ShapedArray:
    impl = _check_keys("random_unwrap", keys)
    return ShapedArray((*keys.shape, *impl.key_shape), _U32)


def _clone_aval(keys: Any) -> ShapedArray:
    _check_keys("random_clone", keys)
    return keys  # type: ignore[no-any-return]


random_bits_p = _key_primitive("random_bits", _bits_aval)
random_seed_p = _key_primitive("random_seed", _seed_aval)
random_split_p = _key_primitive("random_split", _split_aval)
random_fold_in_p = _key_primitive("random_fold_in", _fold_in_aval, _fold_in_batch)
random_wrap_p = _key_primitive("random_wrap", _wrap_aval)
random_unwrap_p = _key_primitive("random_unwrap", _unwrap_aval)
random_clone_p = _key_primitive("random_clone", _clone_aval)


def _check_key_data(impl: PRNGImpl, data: Any) -> None:
    """Raises TypeError unless `data` can be the base array of keys."""
    what = "JAX encountered invalid PRNG key data: expected key_data"
    if not all(hasattr(data, name) for name in ("ndim", "shape", "dtype")):
        raise TypeError(
            f"{what} to have ndim, shape, and dtype attributes. Got {data}. Fix: the first "
            "argument is a key, such as random.key(0)."
        )
    if data.ndim < 1:
        raise TypeError(f"{what}.ndim >= 1; got ndim={data.ndim}")
    if tuple(data.shape[-len(impl.key_shape) :]) != impl.key_shape:
        raise TypeError(
            f"{what}.shape to end with {impl.key_shape}; got shape={tuple(data.shape)} for "
            f"impl={impl!r}"
        )
    if data.dtype not in (_U32, dtypes.float0):
        raise TypeError(f"{what}.dtype = uint32; got dtype={data.dtype}")


def random_bits(keys: Any, bit_width: int, shape: Any) -> Any:
    """Bits of `shape` for each key."""
    return random_bits_p.bind(keys, bit_width=bit_width, shape=tuple(shape), **_order())


def random_seed(seeds: Any, impl: Any) -> Any:
    """Keys made from integers: a Python integer beyond 32 bits keeps its low bits unless
    x64 is on.
    """
    impl = find_impl(impl)
    if isinstance(seeds, int):
        if not -(2**63) <= seeds < 2**63:
            raise OverflowError(
                f"Python int too large to convert to C long: seed {seeds} has more than 64 bits"
            )
        wide = np.int64(seeds + config.random_seed_offset.get())
        seeds = wide if dtypes.default_int() == np.int64 else wide.astype(np.int32)
    elif config.random_seed_offset.get():
        seeds = seeds + config.random_seed_offset.get()
    if (
        isinstance(seeds, np.ndarray | np.generic)
        and seeds.dtype.kind in "iu"
        and seeds.dtype.itemsize == 8
        and not config.enable_x64.get()
    ):
        seeds = seeds.astype(np.uint32 if seeds.dtype.kind == "u" else np.int32)
    if isinstance(seeds, np.ndarray) and seeds.ndim == 0:
        seeds = seeds[()]
    return random_seed_p.bind(seeds, impl=impl)


def _seed_physical(avals: Any, seeds: Any, *, impl: PRNGImpl) -> Any:
    # Only now, as in JAX: a program whose keys nobody reads may make them of anything.
    if not dtypes.is_integer(avals[0].dtype):
        raise TypeError(
            f"PRNG key seed must be an integer; got {avals[0].str_short()}. Fix: convert it, "
            "such as seed.astype('int32')."
        )
    return _over(impl, lambda seed: _stored(impl, impl.seed(seed)), (seeds,), (0,))


def random_split(keys: Any, shape: Any) -> Any:
    """`shape` new keys from each key."""
    return random_split_p.bind(keys, shape=tuple(shape), **_order())


def random_fold_in(keys: Any, data: Any) -> Any:
    """New keys, each from a key and a 32-bit integer."""
    if type(data) is int:
        if not 0 <= data < 2**32:
            raise OverflowError(f"Python integer {data} out of bounds for uint32")
        data = np.uint32(data)
    else:
        data = convert_element_type(data, _U32)
    return random_fold_in_p.bind(keys, data)


def random_wrap(base: Any, *, impl: Any) -> Any:
    """The keys whose words are `base`."""
    impl = find_impl(impl)
    _check_key_data(impl, getattr(base, "aval", base))
    return random_wrap_p.bind(base, impl=impl)


def _keys_of_number(shape: tuple[Any, ...], value: Any, dtype: Any) -> Any:
    words = full((*shape, *dtype.impl.key_shape), value, dtype.physical[1])
    return random_wrap(words, impl=dtype.impl)


key_filler[0] = _keys_of_number


def random_unwrap(keys: Any) -> Any:
    """The words of keys."""
    if not is_key_aval(typeof(keys)):
        raise TypeError(f"random_unwrap takes key array operand, got {type(keys)}")
    return random_unwrap_p.bind(keys)


def random_clone(keys: Any) -> Any:
    """The same keys, not yet consumed."""
    return random_clone_p.bind(keys)


# --- threefry ---
def _threefry_aval(*avals: Any) -> list[ShapedArray]:
    for k, a in enumerate(avals):
        if a.dtype != _U32:
            raise TypeError(
                f"Arguments to threefry2x32 must have uint32 type, got {a.dtype} at position {k}"
            )
    out = ShapedArray(broadcast_dims("threefry2x32", [a.shape for a in avals]), _U32)
    return [out, out]


def _threefry_batch(args: Any, dims: Any) -> Any:
    rank = max(typeof(x).ndim - (d is not None) for x, d in zip(args, dims, strict=True))
    return threefry2x32_p.bind(
        *(align_batch(x, d, rank) for x, d in zip(args, dims, strict=True))
    ), [0, 0]


threefry2x32_p: Primitive = Primitive(
    "threefry2x32",
    abstract_eval=_threefry_aval,
    jvp=_no_tangents(lambda: threefry2x32_p),
    transpose=No.NOT_LINEAR,
    batch=_threefry_batch,
    multiple_results=True,
)


def _zeros(shape: Any) -> Any:
    return broadcast_in_dim(np.uint32(0), shape, ())


def key_words(base: Any, ndim: int) -> list[Any]:
    """Each word of the keys of a base array, with `ndim` axes of size 1 behind the axes of the
    keys.
    """
    rank = typeof(base).ndim - 1
    out = [index_in_dim(base, k, rank, keepdims=False) for k in range(typeof(base).shape[-1])]
    return [expand_dims(w, tuple(range(rank, rank + ndim))) if rank and ndim else w for w in out]


def positions(shape: tuple[Any, ...], rank: int) -> tuple[Any, Any]:
    """High and low words of each element's position in an array, with `rank` axes of size 1 before
    it.
    """
    n = size_of(shape)
    full = (*(1,) * rank, *shape)
    if not shape:
        zero = _zeros(full) if rank else np.uint32(0)
        return zero, zero
    if type(n) is int and n > 2**32:
        # Positions of 64 bits, whether x64 is on or off.
        place = iota_p.bind(dtype=_U64, shape=(n,), dimension=0, sharding=None)
        place = reshape(place, full)
        words = bitcast_convert_type(place, _U32)
        return tuple(index_in_dim(words, k, len(full), keepdims=False) for k in (1, 0))
    low = reshape(iota(_U32, n), full) if len(full) > 1 else iota(_U32, n)
    return _zeros(full), low


def _threefry_blocks(base: Any, shape: tuple[Any, ...]) -> list[Any]:
    rank = typeof(base).ndim - 1
    k1, k2 = key_words(base, len(shape))
    high, low = positions(shape, rank)
    return threefry2x32_p.bind(k1, k2, high, low)  # type: ignore[no-any-return]


def _threefry_stream(base: Any, n: int) -> Any:
    """`n` words for each key: the cipher of the two halves of 0 ... n-1, the older order."""
    rank = typeof(base).ndim - 1
    half = (n + 1) // 2
    k1, k2 = key_words(base, 1)
    first = iota(_U32, half)
    second = add(first, np.uint32(half))
    if n % 2:
        second = concatenate([slice_in_dim(second, 0, half - 1), _zeros((1,))], 0)
    first, second = (reshape(x, (*(1,) * rank, half)) for x in (first, second))
    a, b = threefry2x32_p.bind(k1, k2, first, second)
    return slice_in_dim(concatenate([a, b], rank), 0, n, axis=rank)


def _threefry_bits(base: Any, bit_width: int, shape: Any) -> Any:
    keys = typeof(base).shape[:-1]
    out = np.dtype(f"uint{bit_width}")
    if config.threefry_partitionable.get():
        a, b = _threefry_blocks(base, shape)
        if bit_width == 64:
            a, b = convert_element_type(a, _U64), convert_element_type(b, _U64)
            return bitwise_or(shift_left(a, np.uint64(32)), b)
        bits = bitwise_xor(a, b)
        return bits if bit_width == 32 else convert_element_type(bits, out)
    n = size_of(shape)
    words = _threefry_stream(base, -(-bit_width * n // 32))
    if bit_width == 64:
        a, b = (
            convert_element_type(slice_in_dim(words, k * n, (k + 1) * n, axis=len(keys)), _U64)
            for k in (0, 1)
        )
        words = bitwise_or(shift_left(a, np.uint64(32)), b)
    elif bit_width < 32:
        per = 32 // bit_width
        total = typeof(words).shape[-1]
        words = expand_dims(words, (len(keys) + 1,))
        full = (*keys, total, per)
        shifts = mul(broadcasted_iota(_U32, full, len(keys) + 1), np.uint32(bit_width))
        words = shift_right_logical(broadcast_in_dim(words, full, tuple(range(len(full)))), shifts)
        words = convert_element_type(reshape(words, (*keys, total * per)), out)
        words = slice_in_dim(words, 0, n, axis=len(keys))
    return reshape(words, (*keys, *shape))


def _threefry_split(base: Any, shape: Any) -> Any:
    keys = typeof(base).shape[:-1]
    if config.threefry_partitionable.get():
        rank = len(keys) + len(shape)
        return concatenate([expand_dims(x, (rank,)) for x in _threefry_blocks(base, shape)], rank)
    return reshape(_threefry_stream(base, 2 * size_of(shape)), (*keys, *shape, 2))


def integer_words(seeds: Any) -> tuple[Any, Any]:
    """The words of an integer: high, low."""
    aval = typeof(seeds)
    low = convert_element_type(seeds, _U32)
    if dtypes.is_integer(aval.dtype) and aval.dtype.itemsize == 8:
        wide = convert_element_type(seeds, _U64)
        high = convert_element_type(shift_right_logical(wide, np.uint64(32)), _U32)
    else:
        high = _zeros(aval.shape)
    return high, low


def _threefry_seed(seeds: Any) -> Any:
    rank = typeof(seeds).ndim
    return concatenate([expand_dims(x, (rank,)) for x in integer_words(seeds)], rank)


def _threefry_fold_in(base: Any, data: Any) -> Any:
    """The cipher of an integer's words. Keys and integers have one shape, or one of the two has
    none.
    """
    k, x = key_words(base, 0), key_words(_threefry_seed(data), 0)
    a, b = threefry2x32_p.bind(*k, *x)
    rank = typeof(a).ndim
    return concatenate([expand_dims(a, (rank,)), expand_dims(b, (rank,))], rank)


# --- the Philox generator and the keys built on it ---
class RandomAlgorithm(enum.IntEnum):
    """The generators of rng_bit_generator.

    The `algorithm` of `lax.rng_bit_generator`.

    >>> lax.RandomAlgorithm.RNG_PHILOX.name
    'RNG_PHILOX'
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


def is_threefry(algorithm: Any) -> bool:
    return int(algorithm) == RandomAlgorithm.RNG_THREE_FRY


def halved_axis(shape: tuple[int, ...]) -> int:
    """The axis along which Threefry's pairs of words lie in turn, as XLA lays them: the first of
    even size, else the first of the largest, whose last word is then left out."""
    even = [k for k, n in enumerate(shape) if n % 2 == 0]
    return even[0] if even else shape.index(max(shape))


def _generator_aval(
    state: Any, *, shape: Any, dtype: Any, algorithm: Any, out_sharding: Any
) -> list[ShapedArray]:
    if state.dtype not in (_U32, _U64):
        raise TypeError(
            f"rng_bit_generator takes a key of dtype uint32 or uint64, got {state.dtype}"
        )
    words = state.size * (2 if state.dtype == _U64 else 1)
    if state.ndim != 1 or words not in (2, 4):
        raise TypeError(
            "rng_bit_generator takes a key of shape uint32[4] or uint64[2], got "
            f"{state.str_short()}"
        )
    check_nonnegative("rng_bit_generator", "shape", shape)
    return [state, ShapedArray(shape, dtype)]


def _generator_batch(
    args: Any, dims: Any, *, shape: Any, dtype: Any, algorithm: Any, out_sharding: Any
) -> Any:
    # As in JAX, one stream serves the whole batch: the first key's.
    keys = move_batch_front(args[0], dims[0])
    n = typeof(keys).shape[0]
    first = index_in_dim(keys, 0, 0, keepdims=False)
    after, bits = rng_bit_generator_p.bind(
        first, shape=(n, *shape), dtype=dtype, algorithm=algorithm, out_sharding=out_sharding
    )
    rest = slice_in_dim(keys, 1, n, axis=0)
    return [concatenate([expand_dims(after, (0,)), rest], 0), bits], [0, 0]


rng_bit_generator_p: Primitive = Primitive(
    "rng_bit_generator",
    abstract_eval=_generator_aval,
    jvp=_no_tangents(lambda: rng_bit_generator_p),
    transpose=No.NOT_LINEAR,
    batch=_generator_batch,
    multiple_results=True,
)


def rng_bit_generator(
    key: Any,
    shape: Any,
    dtype: Any = np.uint32,
    algorithm: Any = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> Any:
    """The next state, and bits of `shape`, of a generator whose state is `key` (uint32[4] or
    uint64[2]).

    Raises TypeError for a key of another shape or dtype. Bits of "default" are Philox's.

    >>> state, bits = lax.rng_bit_generator(jnp.arange(4, dtype='uint32'), (2,))
    >>> state.dtype, bits.shape
    (dtype('uint32'), (2,))
    """
    dt = requested_dtype(dtype, "rng_bit_generator")
    shape = canonical_shape(shape)
    if out_sharding is not None:
        out_sharding = asked_layout("rng_bit_generator", out_sharding, shape)
    if dt not in tuple(np.dtype(f"uint{n}") for n in (8, 16, 32, 64)):
        raise TypeError(f"rng_bit_generator: unsupported dtype {dt}")
    return tuple(
        rng_bit_generator_p.bind(
            key,
            shape=shape,
            dtype=dt,
            algorithm=RandomAlgorithm(int(algorithm)),
            out_sharding=out_sharding,
        )
    )


def _rng_uniform_aval(a: Any, b: Any, *, shape: Any) -> ShapedArray:
    if a.dtype != b.dtype:
        raise ValueError(
            f"Arguments to rng_uniform must have identical dtypes, got {a.dtype} and {b.dtype}."
        )
    if a.shape or b.shape:
        raise ValueError(
            f"Arguments to rng_uniform must be scalars; got shapes {a.shape} and {b.shape}."
        )
    check_nonnegative("rng_uniform", "shape", shape)
    return ShapedArray(shape, a.dtype)


rng_uniform_p = Primitive(
    "rng_uniform",
    abstract_eval=_rng_uniform_aval,
    jvp=No.NOT_DIFFERENTIABLE,
    transpose=No.NOT_LINEAR,
    batch=No.SIDE_EFFECT,
)


def rng_uniform(a: Any, b: Any, shape: Any) -> Any:
    """Uniform numbers of a hidden generator, in [a, b): not reproducible. Prefer random.uniform.

    `a`, `b`: scalars of one dtype, float or integer. Raises TypeError otherwise.

    >>> lax.rng_uniform(0., 1., (3,)).shape
    (3,)
    """
    return rng_uniform_p.bind(a, b, shape=canonical_shape(shape))


def _rbg_bits(base: Any, bit_width: int, shape: Any) -> Any:
    """As in JAX, a batch of keys draws from one stream: the first key's."""
    keys = typeof(base).shape[:-1]
    if size_of(keys) == 0:
        return broadcast_in_dim(np.dtype(f"uint{bit_width}").type(0), (*keys, *shape), ())
    first = reshape(slice_in_dim(reshape(base, (size_of(keys), 4)), 0, 1, axis=0), (4,))
    return rng_bit_generator(first, (*keys, *shape), np.dtype(f"uint{bit_width}"))[1]


def _halves(base: Any) -> Any:
    """Keys of four words as pairs of threefry keys."""
    return reshape(base, (*typeof(base).shape[:-1], 2, 2))


def _rbg_split(base: Any, shape: Any) -> Any:
    keys = typeof(base).shape[:-1]
    parts = [
        _threefry_split(index_in_dim(_halves(base), k, len(keys), keepdims=False), shape)
        for k in (0, 1)
    ]
    return concatenate(parts, len(keys) + len(shape))


def _rbg_fold_in(base: Any, data: Any) -> Any:
    rank = typeof(base).ndim - 1
    parts = [
        _threefry_fold_in(index_in_dim(_halves(base), k, rank, keepdims=False), data)
        for k in (0, 1)
    ]
    return concatenate(parts, typeof(parts[0]).ndim - 1)


def _rbg_seed(seeds: Any) -> Any:
    half = _threefry_seed(seeds)
    return concatenate([half, half], typeof(half).ndim - 1)


def _unsafe_split(base: Any, shape: Any) -> Any:
    keys = typeof(base).shape[:-1]
    n = size_of(shape)
    bits = _rbg_bits(base, 32, (10 * n, 4))
    return reshape(slice_in_dim(bits, 0, None, stride=10, axis=len(keys)), (*keys, *shape, 4))


def _unsafe_fold_in(base: Any, data: Any) -> Any:
    seed = _rbg_seed(data)
    bits = _rbg_bits(seed, 32, (10, 4))
    last = index_in_dim(bits, 9, typeof(bits).ndim - 2, keepdims=False)
    shape = max(typeof(base).shape, typeof(last).shape, key=len)
    last, base = (
        x if typeof(x).shape == shape else broadcast_in_dim(x, shape, (len(shape) - 1,))
        for x in (last, base)
    )
    return bitwise_xor(base, last)


threefry_prng_impl = PRNGImpl(
    (2,),
    _threefry_seed,
    _threefry_split,
    _threefry_bits,
    _threefry_fold_in,
    "threefry2x32",
    "fry",
    batched=True,
)
rbg_prng_impl = PRNGImpl(
    (4,), _rbg_seed, _rbg_split, _rbg_bits, _rbg_fold_in, "rbg", "rbg", batched=True
)
unsafe_rbg_prng_impl = PRNGImpl(
    (4,), _rbg_seed, _unsafe_split, _rbg_bits, _unsafe_fold_in, "unsafe_rbg", "urbg", batched=True
)
for _impl in (threefry_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl):
    register_prng(_impl)


def _over(impl: PRNGImpl, f: Callable[..., Any], args: Sequence[Any], cores: Sequence[int]) -> Any:
    """A generator's function on operands whose last `cores` axes belong to one call. A user's
    function is called key by key.
    """
    leads = [typeof(x).shape[: typeof(x).ndim - core] for x, core in zip(args, cores, strict=True)]
    lead = max(leads, key=len)
    if impl.batched or not lead:
        return f(*args)
    n = size_of(lead)
    flat = [
        reshape(x, (n, *typeof(x).shape[len(lead) :])) if own else x
        for x, own in zip(args, leads, strict=True)
    ]
    outs = [
        f(
            *(
                index_in_dim(x, k, 0, keepdims=False) if own else x
                for x, own in zip(flat, leads, strict=True)
            )
        )
        for k in range(n)
    ]
    joined = concatenate([expand_dims(x, (0,)) for x in outs], 0)
    return reshape(joined, (*lead, *typeof(joined).shape[1:]))


# The words of a key are stored along one axis, whatever shape its generator knows them by.
def _stored(impl: PRNGImpl, words: Any) -> Any:
    lead = typeof(words).shape[: typeof(words).ndim - len(impl.key_shape)]
    return words if len(impl.key_shape) == 1 else reshape(words, (*lead, impl.words))


def _as_known(impl: PRNGImpl, base: Any) -> Any:
    if len(impl.key_shape) == 1:
        return base
    return reshape(base, (*typeof(base).shape[:-1], *impl.key_shape))


def _bits_physical(
    avals: Any, base: Any, *, bit_width: int, shape: Any, partitionable: bool = True
) -> Any:
    impl = avals[0].dtype.impl

    def bits(key: Any) -> Any:
        with config.threefry_partitionable(partitionable):
            return impl.random_bits(_as_known(impl, key), bit_width, shape)

    return _over(impl, bits, (base,), (1,))


def _split_physical(avals: Any, base: Any, *, shape: Any, partitionable: bool = True) -> Any:
    impl = avals[0].dtype.impl

    def split(key: Any) -> Any:
        with config.threefry_partitionable(partitionable):
            return _stored(impl, impl.split(_as_known(impl, key), shape))

    return _over(impl, split, (base,), (1,))


def _fold_in_physical(avals: Any, base: Any, data: Any) -> Any:
    impl = avals[0].dtype.impl

    def fold_in(key: Any, data: Any) -> Any:
        return _stored(impl, impl.fold_in(_as_known(impl, key), data))

    return _over(impl, fold_in, (base, data), (1, 0))


physical_rules[random_bits_p] = _bits_physical
physical_rules[random_split_p] = _split_physical
physical_rules[random_fold_in_p] = _fold_in_physical
physical_rules[random_seed_p] = _seed_physical
physical_rules[random_wrap_p] = lambda avals, base, *, impl: _stored(impl, base)
physical_rules[random_unwrap_p] = lambda avals, base: _as_known(avals[0].dtype.impl, base)
physical_rules[random_clone_p] = lambda avals, base: base


def threefry_2x32(keypair: Sequence[Any], count: Any) -> Any:
    """The Threefry cipher of the halves of a flat array of counts, under a pair of key words.

    >>> from pullback.extend.random import threefry_2x32
    >>> threefry_2x32(jnp.zeros(2, jnp.uint32), jnp.zeros(2, jnp.uint32))
    Array([1797259609, 2579123966], dtype=uint32)
    """
    k1, k2 = keypair
    aval = typeof(count)
    if not typeof(k1).dtype == typeof(k2).dtype == aval.dtype == _U32:
        raise TypeError(
            "threefry_2x32 requires uint32 arguments, got "
            f"{[typeof(x).dtype.name for x in (k1, k2, count)]}"
        )
    n = aval.size
    flat = reshape(count, (n,))
    if n % 2:
        flat = concatenate([flat, _zeros((1,))], 0)
    half = (n + 1) // 2
    a, b = threefry2x32_p.bind(
        k1, k2, slice_in_dim(flat, 0, half), slice_in_dim(flat, half, 2 * half)
    )
    return reshape(slice_in_dim(concatenate([a, b], 0), 0, n), aval.shape)
