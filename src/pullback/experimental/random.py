"""A random generator with a state: each draw folds a counter into a key, and counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import numpy as jnp, random
from ..control.refs import new_ref
from ..core.refs import Ref
from ..core.trace import trace_state_clean
from ..primitives.keys import is_key_aval
from ..tree_util import register_dataclass


@dataclasses.dataclass(frozen=True)
class StatefulPRNG:
    """A key and a mutable counter, with draws as methods; `stateful_rng` makes them.

    `_base_key`: a typed key; `_counter`: a reference to an integer. A pytree: as an argument of a
    transformed function it counts on. Raises ValueError for what is not a typed key.

    >>> from pullback.experimental.random import stateful_rng
    >>> rng = stateful_rng(42)
    >>> rng.uniform(), rng.uniform()
    (Array(0.5302608, dtype=float32), Array(0.72766423, dtype=float32))
    """

    _base_key: Any
    _counter: Ref

    def __post_init__(self) -> None:
        aval = getattr(self._base_key, "aval", None)
        # Transformations build pytrees of what has no type; those are theirs.
        if isinstance(self._base_key, np.ndarray | int | float) or (
            aval is not None and not is_key_aval(aval)
        ):
            raise ValueError(
                f"Expected base_key to be a typed PRNG key; got {self._base_key}. Fix: "
                "random.key(seed)."
            )

    def key(self, shape: int | Sequence[int] = ()) -> Any:
        """A new key, or an array of new keys."""
        if self._base_key.shape:
            raise ValueError(
                "cannot operate on split stateful generator. Fix: map over it with vmap, or use "
                "spawn."
            )
        key = random.fold_in(self._base_key, self._counter[...])
        self._counter.addupdate(1)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return random.split(key, shape) if shape else key

    def random(self, size: int | Sequence[int] | None = None, dtype: Any = float) -> Any:
        """Uniform numbers from 0 (included) to 1."""
        return random.uniform(self.key(), _shape(size), dtype)

    def uniform(
        self,
        low: Any = 0,
        high: Any = 1,
        size: int | Sequence[int] | None = None,
        *,
        dtype: Any = float,
    ) -> Any:
        """Uniform numbers from `low` (included) to `high`; of the shape `size`, by default that to
        which the bounds broadcast.
        """
        key, shape = self.key(), _shape(size, low, high)
        return random.uniform(key, shape, dtype, minval=low, maxval=high)

    def normal(
        self,
        loc: Any = 0,
        scale: Any = 1,
        size: int | Sequence[int] | None = None,
        *,
        dtype: Any = float,
    ) -> Any:
        """Normal numbers of mean `loc` and standard deviation `scale`."""
        unit = random.normal(self.key(), _shape(size, loc, scale), dtype)
        return jnp.asarray(loc, unit.dtype) + jnp.asarray(scale, unit.dtype) * unit

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: int | Sequence[int] | None = None,
        *,
        dtype: Any = int,
    ) -> Any:
        """Integers from `low` (included) to `high`; from 0 to `low` if that is all there is."""
        low, high = (0, low) if high is None else (low, high)
        return random.randint(self.key(), _shape(size, low, high), low, high, dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Independent generators as one object, for `vmap`; `num`: how many, or their shape."""
        shape = (num,) if isinstance(num, int) else tuple(num)
        return StatefulPRNG(self.key(shape), new_ref(jnp.zeros(shape, int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """Independent generators, as a list."""
        return [StatefulPRNG(key, new_ref(0)) for key in self.key((n_children,))]


register_dataclass(StatefulPRNG, ["_base_key", "_counter"], [])


def _shape(size: int | Sequence[int] | None, *params: Any) -> tuple[int, ...]:
    if size is None:
        return jnp.broadcast_shapes(*map(jnp.shape, params))
    return (size,) if isinstance(size, int) else tuple(size)


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator that counts its draws, as `numpy.random.default_rng` makes one.

    `seed`: an integer; by default one of the operating system's. `impl`: the name of a generator of
    `random.key`. Raises TypeError for other seeds, and under transformations for none.

    >>> from pullback.experimental.random import stateful_rng
    >>> rng = stateful_rng(0)
    >>> draw = pb.jit(rng.integers, static_argnums=0)
    >>> draw(10), draw(10)
    (Array(2, dtype=int32), Array(8, dtype=int32))
    """
    if seed is None:
        if not trace_state_clean():
            raise TypeError(
                "When used within transformed code, jax.experimental.random.stateful_rng() "
                "requires an explicit seed to be set. Fix: stateful_rng(seed)."
            )
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))


__all__ = ["StatefulPRNG", "stateful_rng"]
