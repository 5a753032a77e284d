"""Generators of random bits, and how to define more of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from ..primitives.keys import PRNGImpl, find_impl
from ..primitives.rng import (
    random_seed as _random_seed,
    rbg_prng_impl as rbg_prng_impl,
    threefry2x32_p as threefry2x32_p,
    threefry_2x32 as threefry_2x32,
    threefry_prng_impl as threefry_prng_impl,
    unsafe_rbg_prng_impl as unsafe_rbg_prng_impl,
)

__all__ = [
    "define_prng_impl",
    "random_seed",
    "rbg_prng_impl",
    "seed_with_impl",
    "threefry2x32_p",
    "threefry_2x32",
    "threefry_prng_impl",
    "unsafe_rbg_prng_impl",
]


def define_prng_impl(
    *,
    key_shape: tuple[int, ...],
    seed: Callable[..., Any],
    split: Callable[..., Any],
    random_bits: Callable[..., Any],
    fold_in: Callable[..., Any],
    name: str = "<unnamed>",
    tag: str = "?",
) -> Hashable:
    """A generator of random bits, which `random.key(seed, impl=...)` and its kin take.

    `seed(integer) -> key`, `split(key, shape) -> keys`, `random_bits(key, bit_width, shape) ->
    bits` and `fold_in(key, integer) -> key` work on keys as uint32 arrays of shape `key_shape`.

    >>> from pullback.extend.random import define_prng_impl
    >>> def split(key, shape):
    ...     numbers = jnp.arange(1, 1 + np.prod(shape), dtype=jnp.uint32)
    ...     return key + numbers.reshape(*shape, 1)
    >>> counter = define_prng_impl(
    ...     key_shape=(1,), seed=lambda n: jnp.asarray(n, jnp.uint32).reshape(1), split=split,
    ...     random_bits=lambda key, width, shape: jnp.full(shape, key[0]),
    ...     fold_in=lambda key, n: key + n, name="counter", tag="ctr")
    >>> random.split(random.key(7, impl=counter), 2).shape
    (2,)
    """
    return PRNGImpl(key_shape, seed, split, random_bits, fold_in, name=name, tag=tag)


def seed_with_impl(impl: Any, seed: int) -> Any:
    """A key of a generator, made from an integer.

    >>> pb.extend.random.seed_with_impl(pb.extend.random.threefry_prng_impl, 0)
    Array((), dtype=key<fry>) overlaying:
    [0 0]
    """
    return random_seed(seed, impl)


def random_seed(seeds: Any, impl: Any) -> Any:
    """Keys of a generator, one for each of `seeds`, integers of any shape.

    >>> from pullback.extend import random as generators
    >>> generators.random_seed(jnp.arange(3), generators.threefry_prng_impl).shape
    (3,)
    """
    return _random_seed(seeds, find_impl(impl))
