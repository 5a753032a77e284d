"""numpy against real JAX: `numpy_expressions/*.txt` on random inputs and edge values.

Compared: values, dtypes, weak types, shapes, and the classes of errors. Most of the time would be
JAX's compiles (30 ms a line), so its answers are kept in `numpy_expressions/answers.jsonl`; a run
asks JAX itself again for a 20th of the lines (`--fuzz-seed` picks them), `--regenerate` asks it
for all and rewrites the file.
"""

from __future__ import annotations

import functools
import importlib
import pathlib
from typing import Any

import numpy as np
import pytest
from recorded_answers import Answer, answer, failures, read, write

import pullback.numpy as ours

FOLDER = pathlib.Path(__file__).parent / "numpy_expressions"
ANSWERS = FOLDER / "answers.jsonl"
TABLES = ("indexing", "unary", "binary", "reductions", "shapes")
CHUNK = 120  # lines a test
EDGE = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 3.0, -2.5, 3e38], np.float32)

# Where we do more than JAX, or say the same with another class of error.
DIFFERENT = {
    "z[ix]": "an index into an empty axis is an IndexError",
    "jnp.average([1,2])": "a list is a TypeError naming the position",
    "jnp.nanmedian(z,axis=0)": "an empty axis is an IndexError",
}


def _inputs() -> dict[str, Any]:
    rng = np.random.default_rng(7)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "f": normal(3, 4),
        "v": normal(4),
        "i": rng.integers(-5, 6, (3, 4)).astype(np.int32),
        "b": rng.random((3, 4)) > 0.5,
        "c": (normal(3, 4) + 1j * normal(3, 4)).astype(np.complex64),
        "u": rng.integers(0, 9, (3, 4)).astype(np.uint8),
        "s": np.float32(1.5),
        "x3": normal(3, 4, 5),
        "k": np.int32(1),
        "ix": np.array([0, 2], np.int32),
        "iy": np.array([1, 3], np.int32),
        "m": np.array([True, False, True]),
        "e": EDGE,
        "z": np.zeros((0, 3), np.float32),
        "j": np.array([[3, 1], [-1, 2], [0, -3]], np.int32),
        "p": np.abs(normal(3, 4)),
        "sv": np.sort(normal(5)),
    }


@functools.cache
def environment(jnp: Any) -> dict[str, Any]:
    """What the names in an expression stand for."""
    values = {name: jnp.asarray(x) for name, x in _inputs().items()}
    return {**values, "h": values["v"].astype("bfloat16"), "w": 1.5, "n": 2, "jnp": jnp, "np": np}


def evaluated(source: str, jnp: Any) -> Answer:
    """What an expression gives."""
    return answer(lambda: eval(source, dict(environment(jnp))))


def lines(table: str) -> list[str]:
    """The expressions of a table that are to be the same."""
    return [s for s in (FOLDER / f"{table}.txt").read_text().splitlines() if s not in DIFFERENT]


@functools.cache
def recorded() -> dict[str, Answer]:
    """JAX's answers, by expression."""
    return read(ANSWERS)


CHUNKS = [
    pytest.param(table, k, id=f"{table}-{k // CHUNK}")
    for table in TABLES
    for k in range(0, len(lines(table)), CHUNK)
]


@pytest.mark.parametrize(("table", "start"), CHUNKS)
def test_as_jax(table: str, start: int) -> None:
    chunk = lines(table)[start : start + CHUNK]
    wrong = failures((s, evaluated(s, ours), recorded()[s]) for s in chunk)
    assert not wrong, wrong


@pytest.mark.parametrize("table", TABLES)
def test_recorded_answers(table: str, fuzz_seed: int) -> None:
    """A 20th of the recorded answers are what JAX says today."""
    oracle = importlib.import_module("jax.numpy")
    chunk = lines(table)[fuzz_seed % 20 :: 20]
    wrong = failures((s, evaluated(s, oracle), recorded()[s]) for s in chunk)
    assert not wrong, f"not what this JAX answers; --regenerate rewrites {ANSWERS.name}:\n{wrong}"


@pytest.fixture(scope="session", autouse=True)
def _regenerated(regenerate: bool) -> None:
    if not regenerate:
        return
    oracle = importlib.import_module("jax.numpy")
    write(ANSWERS, {s: evaluated(s, oracle) for table in TABLES for s in lines(table)})
