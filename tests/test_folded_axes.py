"""Pictures with a few channels: what is joined, padded, cut or mirrored along the axis before a
short last one is written in pieces of both axes together."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as jnp

SHAPES = [(4, 32, 32, 3), (3, 33, 31, 5), (5, 40, 29, 2), (3, 24, 24, 16), (2, 24, 70, 33)]
MOVES: dict[str, Any] = {
    "reflect": lambda m, x: m.pad(x, ((0, 0), (2, 1), (3, 2), (0, 0)), mode="reflect"),
    "edge": lambda m, x: m.pad(x, ((0, 0), (2, 1), (3, 2), (0, 0)), mode="edge"),
    "wrap": lambda m, x: m.pad(x, ((0, 0), (2, 1), (3, 2), (0, 0)), mode="wrap"),
    "constant": lambda m, x: m.pad(x, ((0, 0), (2, 1), (3, 2), (0, 0)), constant_values=7),
    "crop": lambda m, x: x[:, 1:, 3:-2] * 2,
    "flip": lambda m, x: x[:, :, ::-1],
    "every other": lambda m, x: x[:, :, 1::2] + 1,
    "difference": lambda m, x: x[:, :, 1:] - x[:, :, :-1],
    "concatenate": lambda m, x: m.concatenate([x, x[:, :, 2::-1] * 3, x[:, :, 5:]], 2),
    "roll": lambda m, x: m.roll(x, 5, 2) + m.roll(x, -1, 1),
    "by channel": lambda m, x: m.pad(x, ((0, 0), (0, 0), (2, 2), (0, 0))) * x[0, 0, 0],
    "by column": lambda m, x: m.roll(x, 3, 2) * x[0, :1, :, :1],
    "by places": lambda m, x: x[:, :, np.arange(x.shape[2] - 4) + 2] * 2,
}


def picture(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MOVES)
def test_values(name: str, shape: tuple[int, ...]) -> None:
    x, move = picture(shape), MOVES[name]
    assert np.array_equal(pb.jit(lambda x: move(jnp, x))(x), move(np, x))
    many = [x, x.astype(np.float16), x + 1j * x, (x > 0), (10 * x).astype(np.int8)]
    for y in many[1:] if name in ("reflect", "concatenate", "crop") else []:
        with np.errstate(all="ignore"):
            assert np.array_equal(pb.jit(lambda y: move(jnp, y))(y), move(np, y))


@pytest.mark.parametrize("name", ["reflect", "edge", "wrap", "constant", "roll", "concatenate"])
@pytest.mark.parametrize("shape", [(4, 32, 32, 3), (3, 24, 36, 10)])
def test_the_middle_of_a_row_is_copied_as_it_lies(name: str, shape: tuple[int, ...]) -> None:
    """One loop over columns and channels reads and writes neighbours, without conditions."""
    text = pb.jit(lambda x: MOVES[name](jnp, x)).lower(picture(shape)).as_text("loops")
    loops = re.findall(r"( *)for vector (%\w+) in .*\n((?:\1 +.*\n?)+)", text)
    plain = [
        body
        for _, index, body in loops
        if "idiv" not in body
        and " if " not in body
        and re.search(rf"add %\w+, {index}\n", body)
        and f"mul {index}," not in body
    ]
    assert plain, text


@pytest.mark.parametrize("name", ["by channel", "by column", "flip"])
def test_rows_that_would_be_divided_are_not_folded(name: str) -> None:
    text = pb.jit(lambda x: MOVES[name](jnp, x)).lower(picture((4, 32, 40, 3))).as_text("loops")
    assert "idiv" not in text and "irem" not in text
