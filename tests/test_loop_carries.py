"""Random bodies of loops over several arrays: next values that read some of the carries, before and
after others take their places, against the same body in a Python loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback
from pullback import lax, numpy as jnp

SIZES = (1, 3, 7, 20, 40, 300, 1100)
OPERATIONS = {
    "add": lambda a, b: a + b * 0.5,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b * 0.5,
    "min": jnp.minimum,
    "where": lambda a, b: jnp.where(a > b, a, b * 0.5),
    "flip": lambda a, b: jnp.flip(a, -1) + b,
    "roll": lambda a, b: jnp.roll(a, 1, -1) - b,
    "mean": lambda a, b: a.mean(-1, keepdims=True) + b,
    "shift": lambda a, b: jnp.concatenate([a[..., 1:], b[..., :1]], -1),
    "set": lambda a, b: a.at[..., a.shape[-1] // 2].set(b[..., 0]),
    "cumsum": lambda a, b: jnp.cumsum(a * 0.1, -1) + b,
    "dot": lambda a, b: (a * b).sum() * 0.01 + a,
}


class Program:
    """A random body: operations on carries, a row, a constant and one another."""

    def __init__(self, rng: Any) -> None:
        lead = () if rng.rand() < 0.7 else (int(rng.choice([2, 5, 30])),)
        self.shape = (*lead, int(rng.choice(SIZES)))
        self.steps = int(rng.randint(1, 5))
        carries, count = int(rng.randint(2, 6)), int(rng.randint(3, 14))
        known = carries + 2  # the row and the constant
        names = list(OPERATIONS)
        self.operations = [
            (names[rng.randint(len(names))], rng.randint(known + k), rng.randint(known + k))
            for k in range(count)
        ]
        total = known + count
        low = [0 if rng.rand() < 0.25 else known for _ in range(carries)]
        self.next = [int(rng.randint(n, total)) for n in low]
        self.stacked = [int(rng.randint(total)) for _ in range(rng.randint(0, 3))]
        draw = lambda *shape: rng.randn(*shape).astype("f4")
        self.constant = draw(*self.shape)
        self.start = tuple(draw(*self.shape) for _ in range(carries))
        self.rows = draw(self.steps, *self.shape)

    def __call__(self, carry: Any, row: Any) -> Any:
        values = [*map(jnp.asarray, carry), jnp.asarray(row), jnp.asarray(self.constant)]
        for name, a, b in self.operations:
            values.append(OPERATIONS[name](values[a], values[b]))
        return tuple(values[k] for k in self.next), tuple(values[k] for k in self.stacked)


LOOPS = {
    "scan": lambda f, start, rows: lax.scan(f, start, rows),
    "fori_loop": lambda f, start, rows: lax.fori_loop(
        0, len(rows), lambda k, c: f(c, rows[k])[0], start
    ),
    "while_loop": lambda f, start, rows: lax.while_loop(
        lambda c: c[0] < len(rows), lambda c: (c[0] + 1, f(c[1], rows[c[0]])[0]), (0, start)
    )[1],
}


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", LOOPS)
def test_random_bodies(kind: str, seed: int) -> None:
    rng = np.random.RandomState(1000 + seed)
    for draw in range(30):
        body = Program(rng)
        loop = LOOPS[kind]
        rows = jnp.asarray(body.rows)
        got = pullback.jit(lambda start, body=body, rows=rows, loop=loop: loop(body, start, rows))(
            body.start
        )
        carry, stacks = body.start, []
        for row in body.rows:
            carry, out = body(carry, row)
            stacks.append(out)
        wanted = [*carry]
        if kind == "scan":
            wanted += [
                np.stack([np.asarray(x) for x in each]) for each in zip(*stacks, strict=True)
            ]
        for a, b in zip(pullback.tree.leaves(got), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-3, err_msg=f"{kind} {seed} {draw}")
