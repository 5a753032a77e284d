"""Loops as users of Numba write them: plain Python over NumPy arrays, for `numba.njit`."""

from __future__ import annotations

import numpy as np


def small_carry(carry, matrices):  # type: ignore[no-untyped-def]
    """As `loops.small_carry`: products of 3 x 3 matrices."""
    seen = np.empty(len(matrices))
    for k in range(len(matrices)):
        seen[k] = carry[0, 0]
        new = np.eye(3)
        for i in range(3):
            for j in range(3):
                for p in range(3):
                    for q in range(3):
                        new[i, j] += matrices[k, i, p] * carry[p, q] * matrices[k, j, q]
        carry = new
    return carry, seen


def scalar_while(limit):  # type: ignore[no-untyped-def]
    """As `loops.scalar_while`."""
    x = np.float32(0)
    while x < limit:
        x += np.float32(1)
    return x


def heat(u):  # type: ignore[no-untyped-def]
    """As `loops.heat`: two arrays in turn."""
    old, new = u.copy(), u.copy()
    for _ in range(100):
        for i in range(1, old.shape[0] - 1):
            for j in range(1, old.shape[1] - 1):
                around = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
                new[i, j] = old[i, j] + np.float32(0.1) * (around - np.float32(4) * old[i, j])
        old, new = new, old
    return old


def collatz(starts):  # type: ignore[no-untyped-def]
    """As `loops.collatz`: one start after the other."""
    counts = np.empty_like(starts)
    for k in range(len(starts)):
        n, count = starts[k], 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        counts[k] = count
    return counts


def leapfrog(q, p):  # type: ignore[no-untyped-def]
    """As `loops.leapfrog`, the force derived by hand."""
    q, p = q.copy(), p.copy()

    def force(q):  # type: ignore[no-untyped-def]
        slope = np.float32(2) * q / (np.float32(1) + q * q)
        slope[:-1] += np.float32(0.5) * q[1:]
        slope[1:] += np.float32(0.5) * q[:-1]
        return -slope

    for _ in range(50):
        p += np.float32(0.01) * force(q)
        q += np.float32(0.02) * p
        p += np.float32(0.01) * force(q)
    return q, p


def ring(buffer, rows):  # type: ignore[no-untyped-def]
    """As `indexing.ring`: rows written around."""
    buffer = buffer.copy()
    for i in range(1000):
        buffer[i % 100] = rows[i]
    return buffer


def bodies(positions, masses):  # type: ignore[no-untyped-def]
    """As `pairwise.bodies`: every pair, nothing stored."""
    n = len(positions)
    forces = np.zeros_like(positions)
    for i in range(n):
        for j in range(n):
            square = np.float32(1e-3)
            for a in range(3):
                d = positions[i, a] - positions[j, a]
                square += d * d
            weight = masses[j] / (square * np.sqrt(square))
            for a in range(3):
                forces[i, a] += (positions[i, a] - positions[j, a]) * weight
    return forces


def running_mean(buffer, xs):  # type: ignore[no-untyped-def]
    """As `loops.running_mean`."""
    buffer = buffer.copy()
    means = np.empty_like(xs)
    for i in range(len(xs)):
        buffer[i % 64] = xs[i]
        means[i] = buffer.mean()
    return means


def powers(x, exponent):  # type: ignore[no-untyped-def]
    """As `loops.powers`."""
    for _ in range(10_000):
        x = np.float32(0.1) + x**exponent
    return x
