"""Keys, and the helpers that every distribution uses."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config, dtypes
from ..api.eager import eager
from ..api.jit import jit
from ..core.avals import typeof
from ..errors import TypePromotionError
from ..numpy.util import promote_shapes
from ..primitives import keys as key_types, rng
from ..primitives.common import as_array, as_size, canonical_shape, requested_dtype
from ..primitives.convert import convert_element_type, convert_weak
from ..primitives.elementwise import div
from ..primitives.layout import broadcast_in_dim, broadcast_shapes, squeeze
from ..primitives.shape import slice as lax_slice

key_array = key_types.PRNGKeyArray


def static_jit(*names: str) -> Callable[[Callable[..., Any]], Any]:
    """jit with arguments that are part of the program."""
    return functools.partial(jit, static_argnames=names)


def default_impl() -> Any:
    """The generator of new keys (the flag jax_default_prng_impl)."""
    return key_types.find_impl(config.default_prng_impl.get())


def _resolve(impl: Any) -> Any:
    return default_impl() if impl is None else key_types.find_impl(impl)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """A PRNG key made from an integer.

    `seed`: an integer; `impl`: the generator, by default that of the flag
    `jax_default_prng_impl`.

    >>> random.key(0)
    Array((), dtype=key<fry>) overlaying:
    [0 0]
    """
    if dtype is not None and impl is not None:
        raise ValueError("key takes an impl or a dtype, not both")
    return _key("key", seed, impl if dtype is None else dtype)


def _key(name: str, seed: Any, impl: Any) -> Any:
    if hasattr(seed, "dtype") and dtypes.is_extended(seed.dtype):
        raise TypeError(f"{name} accepts a scalar seed, but was given a PRNG key.")
    if seed is None:
        raise ValueError(
            f"None is not a valid value for jnp.array: {name} takes an integer seed. "
            f"Fix: random.{name}(0)."
        )
    if isinstance(seed, (str, bytes)):
        raise TypeError(
            f"Value {seed!r} is not a valid JAX array type: {name} takes an integer seed."
        )
    shape = np.shape(seed) if not hasattr(seed, "aval") else seed.aval.shape
    if shape:
        raise TypeError(
            f"{name} accepts a scalar seed, but was given an array of shape {shape} != (). Use "
            "jax.vmap for batching"
        )
    return rng.random_seed(seed, _resolve(impl))


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """A key as a raw uint32 array (a typed key if jax_enable_custom_prng is set). Prefer `key`.

    `seed`: an integer; `impl`: the name of a generator. As `key`, but for its type.

    >>> random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    made = _key("PRNGKey", seed, impl)
    return made if config.enable_custom_prng.get() else rng.random_unwrap(made)


def is_key(x: Any) -> bool:
    return key_types.is_key_aval(getattr(x, "aval", None))


def check_key(name: str, value: Any, *, batched: bool = False) -> tuple[Any, bool]:
    """(typed key, was it raw). Raises TypeError or ValueError for what is not a single key."""
    if is_key(value):
        typed, raw = value, False
    else:
        _warn_legacy()
        typed, raw = rng.random_wrap(_as_words(value), impl=default_impl()), True
    shape = typeof(typed).shape if not raw else typeof(value).shape
    if (typeof(typed).ndim if raw else len(shape)) and not batched:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {shape} != (). Use "
            "jax.vmap for batching."
        )
    return typed, raw


def _warn_legacy() -> None:
    mode = config.legacy_prng_key.get()
    message = (
        "Legacy uint32 key array passed as key to jax.random function. Fix: make keys with "
        "jax.random.key."
    )
    if mode == "error":
        raise ValueError(message)
    if mode == "warn":
        warnings.warn(message, UserWarning, stacklevel=4)


def _as_words(value: Any) -> Any:
    return value.__jax_array__() if hasattr(value, "__jax_array__") else value


def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """`num` new keys (an int or a shape) from a key.

    `key`: a single key: ValueError for an array of keys. The result has the shape (num,), or `num`.
    A key should be used once: split it first.

    >>> key, subkey = random.split(random.key(0))
    >>> random.split(key, (2, 3)).shape
    (2, 3)
    """
    typed, raw = check_key("split", key)
    shape = canonical_shape(num if isinstance(num, (tuple, list)) else (as_size(num, "num"),))
    out = rng.random_split(typed, shape)
    return rng.random_unwrap(out) if raw else out


def split_list(typed: Any, n: int) -> list[Any]:
    """`n` new typed keys, one by one."""
    many = rng.random_split(typed, (n,))
    return [squeeze(lax_slice(many, (k,), (k + 1,), (1,)), (0,)) for k in range(n)]


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and an integer of 32 bits.

    `key`: a single key; `data`: an integer scalar. Raises ValueError for an array of keys, and for
    None and text as data.

    >>> key = random.key(0)
    >>> random.fold_in(key, 1) == random.fold_in(key, 2)
    Array(False, dtype=bool)
    """
    if data is None or isinstance(data, str | bytes):
        raise ValueError(
            f"fold_in takes an integer, but data is {data!r}, no valid value for an array"
        )
    # Natively, integers of Python are int32: that a negative one has no place in uint32 is told
    # here.
    if type(data) is int:
        if not 0 <= data < 2**32:
            raise OverflowError(f"Python integer {data} out of bounds for uint32")
    elif isinstance(data, np.generic) and data.dtype.kind in "biufV":
        data = data.astype(np.uint32)  # NumPy's numbers wrap around
    elif isinstance(data, int | float | complex | np.generic):
        data = np.array(data, np.uint32)[()]  # OverflowError, or ValueError for NaN
    return _fold_in(key, data)


def _fold_in(key: Any, data: Any) -> Any:
    typed, raw = check_key("fold_in", key)
    shape = np.shape(data) if not hasattr(data, "aval") else data.aval.shape
    if shape:
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {shape} != (). Use "
            "jax.vmap for batching."
        )
    out = rng.random_fold_in(typed, data)
    return rng.random_unwrap(out) if raw else out


def unwatched(*_args: object, **_kwargs: object) -> bool:
    """Nobody counts how often keys are used: calls with them may become native."""
    return not config.debug_key_reuse.get()


_fold_in = eager(_fold_in, accepts=unwatched)


def key_data(keys: Any) -> Any:
    """The words of keys, as uint32.

    `keys`: typed keys of shape (...); the result is (..., words of a key), 2 for threefry.

    >>> random.key_data(random.key(7))
    Array([0, 7], dtype=uint32)
    """
    return rng.random_unwrap(check_key("key_data", keys, batched=True)[0])


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """The keys whose words are given.

    `key_bits_array`: uint32, (..., words of a key); the keys have shape (...). `impl`: the name of
    a generator. Raises TypeError for another shape or dtype.

    >>> random.wrap_key_data(jnp.array([0, 7], 'uint32')) == random.key(7)
    Array(True, dtype=bool)
    """
    return rng.random_wrap(
        _as_words(key_bits_array), impl=_resolve(impl if dtype is None else dtype)
    )


def key_impl(keys: Any) -> Any:
    """The name of the generator of keys (the generator itself, if it has no registered name).

    Raises TypeError for anything but keys.

    >>> random.key_impl(random.key(0))
    'threefry2x32'
    """
    typed, _ = check_key("key_impl", keys, batched=True)
    impl = typeof(typed).dtype.impl
    return impl.name if impl.name in key_types.prngs else impl


def key_dtype(impl_spec: Any = None) -> Any:
    """The dtype of keys of a generator.

    `impl_spec`: the name of a generator; the one in force by default.

    >>> random.key_dtype('rbg')
    key<rbg>
    """
    return key_types.key_dtype(_resolve(impl_spec))


def clone(key: Any) -> Any:
    """The same key, which may be consumed once more under jax_debug_key_reuse.

    >>> key = random.key(0)
    >>> random.clone(key) == key
    Array(True, dtype=bool)
    """
    if is_key(key):
        return rng.random_clone(key)
    if not _are_words(key):  # as in JAX any array is its own clone
        return as_array(key)
    return rng.random_unwrap(rng.random_clone(rng.random_wrap(key, impl=default_impl())))


def _are_words(value: Any) -> bool:
    """Is it an array of the words of raw keys?"""
    words, shape = default_impl().key_shape, np.shape(value)
    return getattr(value, "dtype", None) == np.uint32 and shape[len(shape) - len(words) :] == words


def consume(name: str, key: Any) -> Any:
    """The typed form of a single key that is about to be used up."""
    typed, _ = check_key(name, key)
    return typed


# --- shapes and dtypes of distributions ---
def float_dtype(name: str, dtype: Any) -> Any:
    """The float dtype asked for, or the default. Raises ValueError for another kind."""
    d = dtypes.default_float() if dtype is None else requested_dtype(dtype, name)
    if not dtypes.is_float(d):
        raise ValueError(f"dtype argument to `{name}` must be a float dtype, got {d}")
    return d


def result_shape(name: str, shape: Any, *params: Any) -> tuple[Any, ...]:
    """The shape asked for, which the parameters must broadcast to; or the parameters' own."""
    shapes = [typeof(p).shape for p in params]
    if shape is None:
        return broadcast_shapes(*shapes)
    shape = canonical_shape(shape)
    if any(type(n) is int and n < 0 for n in shape):
        raise TypeError(
            "Only non-negative indices are allowed when broadcasting static shapes, but got shape "
            f"{shape}."
        )
    for s in shapes:
        if s and broadcast_shapes(shape, s) != shape:
            raise ValueError(
                f"{name} parameters of shape {s} do not broadcast to shape {shape}. Fix: shape "
                "must be None or equal to the shape "
                "that the parameters broadcast to, perhaps with leading axes."
            )
    return shape  # type: ignore[no-any-return]


def check_safe(name: str, dtype: Any, *params: Any) -> None:
    """Raises TypePromotionError for a parameter that the distribution's dtype cannot hold."""
    for p in params:
        own = typeof(p).dtype
        if dtypes.result_type(p, dtype) != dtype:
            raise TypePromotionError(
                f"In arguments to {name}, cannot safely cast argument of type {own} to {dtype}"
            )


def as_dtype(x: Any, dtype: Any) -> Any:
    """A parameter in the distribution's dtype."""
    return convert_element_type(x, dtype)


def promoted(x: Any, y: Any) -> tuple[Any, Any]:
    """Two values in their common dtype and rank."""
    d = dtypes.result_type(x, y)
    x, y = convert_element_type(x, d), convert_element_type(y, d)
    x, y = promote_shapes("multiply", x, y)
    return x, y


def reciprocal(p: Any) -> Any:
    """1 / p, in p's own dtype if it is inexact."""
    p = as_array(p)
    if not dtypes.is_inexact(typeof(p).dtype):
        p = convert_weak(p, dtypes.default_float(), typeof(p).weak_type)
    aval = typeof(p)
    weak = aval.weak_type and aval.dtype == dtypes.default_float()
    return div(1.0 if weak else scalar(1, aval.dtype), p)


def spread(x: Any, shape: Sequence[Any]) -> Any:
    """A parameter broadcast to the shape of the result."""
    aval = typeof(x)
    shape = tuple(shape)
    if aval.shape == shape:
        return x
    first = len(shape) - aval.ndim
    return broadcast_in_dim(x, shape, tuple(range(first, len(shape))))


def spread_array(x: Any, shape: Sequence[Any]) -> Any:
    """As `spread`; a number stays one."""
    return spread(x, shape) if typeof(x).ndim else x


def scalar(value: Any, dtype: Any) -> Any:
    """A number of a dtype, as a literal."""
    return np.asarray(value).astype(dtype)[()]
