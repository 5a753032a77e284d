"""Random programs through the loop-nest compiler, against JAX: fusion must never show in a
value.
"""

import numpy as np
from jax import lax, numpy as jnp
from loops_oracle import check


def step(rng, pool):
    """One random operation on values of the pool; sizes stay small, values stay bounded."""
    x = pool[rng.integers(len(pool))]
    kind = rng.integers(16)
    rank = x.ndim
    axis = int(rng.integers(rank)) if rank else 0
    if kind == 0:
        return jnp.sin(x)
    if kind == 1:
        return jnp.tanh(x) * 2 + 0.5
    if kind == 2 and rank:
        return x.mean(axis, keepdims=bool(rng.integers(2)))
    if kind == 3 and rank:
        return x - x.max(axis, keepdims=True)
    if kind == 4 and rank:
        return jnp.tanh(x.sum(tuple(range(rank))))
    if kind == 5 and rank >= 2:
        return jnp.swapaxes(x, axis, (axis + 1) % rank)
    if kind == 6 and rank:
        return x.reshape(-1)
    if kind == 7 and rank and x.shape[axis] > 2:
        return lax.slice_in_dim(x, 1, x.shape[axis] - 1, axis=axis)
    if kind == 8 and rank:
        return jnp.concatenate([x, jnp.cos(x)], axis)[tuple(slice(0, 24) for _ in x.shape)]
    if kind == 9 and rank:
        return jnp.flip(x, axis)
    if kind == 10 and rank:
        return jnp.cumsum(x, axis) / x.shape[axis]
    if kind == 11 and rank and x.shape[axis]:
        i = rng.integers(0, x.shape[axis], 5)
        return jnp.take(x, jnp.asarray(i), axis=axis)
    if kind == 12 and rank and x.shape[0]:
        i = rng.integers(0, x.shape[0], 7)
        return x.at[jnp.asarray(i)].add(0.25)
    if kind == 13 and rank == 2 and max(x.shape) <= 40:
        return x @ x.T / max(1, x.shape[1])
    if kind == 14:
        y = pool[rng.integers(len(pool))]
        try:
            shape = np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return x * 0.5
        return jnp.where(x > y, x, y * 0.5) if np.prod(shape) < 4000 else x
    y = pool[rng.integers(len(pool))]
    if y.shape == x.shape:
        return x * y - x
    return jnp.exp(-jnp.abs(x))


def test_fuzz_programs(fuzz_draws, fuzz_seed):
    """On the interpreter, and compiled."""
    for draw in range(max(1, fuzz_draws // 50)):
        seed = fuzz_seed * 1_000_003 + draw
        shapes = np.random.default_rng(seed).integers(1, 20, (2, 2))
        rng = np.random.default_rng(seed + 1)
        args = [rng.normal(size=(shapes[0][0], shapes[0][1])).astype(np.float32)]
        args.append(rng.normal(size=(shapes[0][1],)).astype(np.float32))
        args.append(rng.normal(size=tuple(shapes[1])).astype(np.float32))

        def program(*xs, seed=seed):
            rng = np.random.default_rng(seed + 2)
            pool = list(xs)
            for _ in range(14):
                pool.append(step(rng, pool))
            return [pool[-1], pool[-2], pool[int(rng.integers(len(pool)))], pool[-5]]

        try:
            check(program, *args, rtol=2e-4, atol=2e-4, host=True, native=(False, True))
        except Exception as error:
            raise AssertionError(f"fuzz draw with seed {seed} failed") from error
