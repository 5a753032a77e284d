"""Loops: where users of JAX on CPUs complain most. Most of these are reduced from their reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..space import Space
from . import numba_loops, torch_peers
from .registry import Case, data, workload


@workload("loops", "scan with a 3x3 carry in float64, 2000", x64=True, source="jax#36799",
          numba=numba_loops.small_carry)  # fmt: skip
def small_carry(space: Space) -> Case:
    matrices = 0.5 * data(2000, 3, 3).astype(np.float64)

    def run(carry: Any, matrices: Any) -> Any:
        step = lambda c, m: (m @ c @ m.T + space.jnp.eye(3), c[0, 0])
        return space.lax.scan(step, carry, matrices)

    return Case(run, (space.array(np.eye(3)), space.array(matrices)))


@workload("loops", "gradient of a scan with 60 scalars, 614", source="jax#40150")
def many_scalars(space: Space) -> Case:
    jnp = space.jnp
    start = {f"s{i:02}": space.array(np.float32(0.01 * i)) for i in range(60)}

    def loss(state: Any, forcing: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            names = sorted(state)
            new = {n: 0.99 * state[n] + 0.01 * jnp.tanh(state[m] + x)
                   for n, m in zip(names, names[1:] + names[:1])}  # fmt: skip
            return new, new["s00"]

        _, outs = space.lax.scan(step, state, forcing)
        return (outs * outs).sum()

    return Case(space.jax.grad(loss), (start, space.array(data(614))))


def numpy_while(limit: float) -> float:
    x = np.float32(0)
    while x < limit:
        x = x + np.float32(1)
    return x


@workload("loops", "scalar while, 100000 rounds", source="jax#25190", numpy=numpy_while,
          numba=numba_loops.scalar_while)  # fmt: skip
def scalar_while(space: Space) -> Case:
    limit = np.float32(100_000)

    def run(limit: Any) -> Any:
        return space.lax.while_loop(lambda x: x < limit, lambda x: x + 1, space.jnp.float32(0))

    return Case(run, (limit,))


@workload("loops", "linearize through a scan of at-set, 200", source="jax#31282")
def linearize_updates(space: Space) -> Case:
    jnp = space.jnp

    def model(p: Any) -> Any:
        def step(buffer: Any, i: Any) -> Any:
            return buffer.at[i].set(jnp.sin(p[i % 8] + buffer[i - 1])), None

        return space.lax.scan(step, jnp.zeros(200), jnp.arange(1, 200))[0]

    def run(p: Any, t: Any) -> Any:
        value, push = space.jax.linearize(model, p)
        return value, push(t)

    return Case(run, (space.array(data(8)), space.array(data(8, seed=1))))


def numpy_heat(u: np.ndarray) -> np.ndarray:
    for _ in range(100):
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        u = u.copy()
        u[1:-1, 1:-1] += np.float32(0.1) * inner
    return u


@workload("loops", "heat equation, 128 x 128, 100 steps", numpy=numpy_heat,
          numba=numba_loops.heat, torch=torch_peers.heat)  # fmt: skip
def heat(space: Space) -> Case:
    def step(_: Any, u: Any) -> Any:
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        return u.at[1:-1, 1:-1].add(0.1 * inner)

    return Case(lambda u: space.lax.fori_loop(0, 100, step, u), (space.array(data(128, 128)),))


@workload("loops", "gradient of a recurrent network, 100 steps", torch=torch_peers.recurrent)
def recurrent(space: Space) -> Case:
    jnp = space.jnp

    def loss(w: Any, u: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(w @ h + u @ x)
            return h, h

        _, hs = space.lax.scan(step, jnp.zeros(32), xs)
        return (hs * hs).mean()

    args = (0.1 * data(32, 32), data(32, 8, seed=1), data(100, 8, seed=2))
    slope = lambda *args: space.jax.grad(loss, argnums=(0, 1))(*args)
    return Case(slope, tuple(map(space.array, args)))


@workload("loops", "vmapped while with a cond, 1000 starts", source="jax#2947",
          numba=numba_loops.collatz)  # fmt: skip
def collatz(space: Space) -> Case:
    def length(n: Any) -> Any:
        def step(state: Any) -> Any:
            n, count = state
            n = space.lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n)
            return n, count + 1

        return space.lax.while_loop(lambda s: s[0] > 1, step, (n, 0))[1]

    starts = np.arange(1, 1001, dtype=np.int32)
    return Case(lambda starts: space.jax.vmap(length)(starts), (space.array(starts),))


@workload("loops", "forward kinematics and its Jacobian, 24 joints", source="jax#26021")
def kinematics(space: Space) -> Case:
    jnp = space.jnp

    def tip(angles: Any) -> Any:
        def joint(pose: Any, angle: Any) -> Any:
            c, s = jnp.cos(angle), jnp.sin(angle)
            zero, one = jnp.zeros_like(c), jnp.ones_like(c)
            turn = jnp.stack([
                jnp.stack([c, -s, zero, c]), jnp.stack([s, c, zero, s]),
                jnp.stack([zero, zero, one, zero]), jnp.stack([zero, zero, zero, one]),
            ])  # fmt: skip
            return pose @ turn, None

        return space.lax.scan(joint, jnp.eye(4), angles)[0][:3, 3]

    return Case(space.jax.jacrev(tip), (space.array(data(24)),))


@workload("loops", "3-d finite differences and gradient, 64^3", source="jax#37465")
def regulariser(space: Space) -> Case:
    jnp = space.jnp

    def roughness(u: Any) -> Any:
        total = jnp.float32(0)
        for axis in range(3):
            total = total + (jnp.diff(u, axis=axis) ** 2).sum()
        return jnp.sqrt(total + 1e-6)

    return Case(space.jax.value_and_grad(roughness), (space.array(data(64, 64, 64)),))


@workload("loops", "Hamiltonian dynamics, 50 leapfrog steps", numba=numba_loops.leapfrog)
def leapfrog(space: Space) -> Case:
    jnp = space.jnp
    energy = lambda q: -(jnp.log1p(q * q).sum() + 0.5 * (q[1:] * q[:-1]).sum())

    def run(q: Any, p: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            q, p = state
            force = space.jax.grad(energy)
            p = p + 0.01 * force(q)
            q = q + 0.02 * p
            return q, p + 0.01 * force(q)

        return space.lax.fori_loop(0, 50, step, (q, p))

    return Case(run, (space.array(data(10)), space.array(data(10, seed=1))))


@workload("loops", "100 unrolled steps and gradient", source="jax#2777, jax#4924",
          torch=torch_peers.unrolled)  # fmt: skip
def unrolled(space: Space) -> Case:
    jnp = space.jnp

    def loss(x: Any, a: Any) -> Any:
        for _ in range(100):
            x = x + 0.05 * jnp.sin(a * x)
        return (x * x).sum()

    slope = lambda x, a: space.jax.grad(loss)(x, a)
    return Case(slope, (space.array(data(1000)), np.float32(1.5)))


@workload("loops", "mean of the last 64, 10000 steps", numba=numba_loops.running_mean)
def running_mean(space: Space) -> Case:
    def run(buffer: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            buffer, i = carry
            buffer = buffer.at[i % 64].set(x)
            return (buffer, i + 1), buffer.mean()

        return space.lax.scan(step, (buffer, 0), xs)[1]

    return Case(run, (space.array(np.zeros(64, np.float32)), space.array(data(10_000))))


@workload("loops", "powers in a loop, 10000 steps", numba=numba_loops.powers)
def powers(space: Space) -> Case:
    def run(x: Any, exponent: Any) -> Any:
        return space.lax.fori_loop(0, 10_000, lambda i, x: 0.1 + x**exponent, x)

    return Case(run, (np.float32(1.3), np.float32(0.7)))


@workload("loops", "error function in float64 in a loop, 10000 steps", x64=True)
def error_function(space: Space) -> Case:
    def run(x: Any) -> Any:
        return space.lax.fori_loop(0, 10_000, lambda i, x: 0.3 + space.lax.erf(x), x)

    return Case(run, (space.array(np.float64(0.5)),))
