"""Every kind of code computes the same bits: random programs (fuzz_programs.py), on arrays that
fill some vectors and a part of one, compiled from stencils, quickly by LLVM, and well.

    python tests/fuzz_codes.py SEED COUNT        prints what differs
"""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any
from unittest import mock

import fuzz_programs
import fuzz_updates
import numpy as np

import pullback
import pullback.random

SHAPES = ((), (37,), (9, 70), (70,), (1, 70), (9, 1), (2, 33), (5, 17), (3, 130))
OURS = types.SimpleNamespace(
    jax=pullback, numpy=pullback.numpy, lax=pullback.lax, random=pullback.random
)


def bits(x: Any) -> bytes:
    """A leaf's bits; which NaN it is depends on what LLVM puts first."""
    if not isinstance(x.dtype, np.dtype):
        x = pullback.random.key_data(x)
    x = np.array(x)
    if x.dtype.kind in "fc":
        parts = x.reshape(-1).view(x.real.dtype)
        parts[np.isnan(parts)] = np.nan
    elif x.dtype.kind == "V" and x.dtype.names is None:  # a narrow float
        x = x.astype(np.float32)
        x[np.isnan(x)] = np.nan
    return x.tobytes()


def outcome(program: Any, kind: str) -> Any:
    """The bits of the results, or the class of the error."""
    with fuzz_updates.code(kind), pullback.enable_x64(program.x64), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            args = pullback.tree.map(pullback.numpy.asarray, program.args)
            out = pullback.jit(program.build(OURS))(*args)
            return [(x.dtype, x.shape, bits(x), x) for x in pullback.tree.leaves(out)]
        except Exception as error:
            return type(error).__name__


def difference(seed: int, number: int) -> str:
    """What differs, or nothing."""
    with mock.patch.object(fuzz_programs, "SHAPES", SHAPES):
        program = fuzz_programs.draw(np.random.default_rng([seed, number]))
    first, *others = (outcome(program, kind) for kind in fuzz_updates.KINDS)
    for kind, other in zip(fuzz_updates.KINDS[1:], others, strict=True):
        if isinstance(first, str) or isinstance(other, str):
            if first is not other and first != other:
                return f"{fuzz_updates.KINDS[0]}: {first}; {kind}: {other}"
            continue
        for k, (x, y) in enumerate(zip(first, other, strict=True)):
            if x[:3] != y[:3]:
                return f"output {k}, {fuzz_updates.KINDS[0]}: {x[3]}; {kind}: {y[3]}"
    return ""


def main(seed: int, count: int, start: int = 0) -> int:
    wrong = 0
    for number in range(start, start + count):
        found = difference(seed, number)
        if found:
            print(f"seed {seed} number {number}: {found[:800]}", flush=True)
        wrong += bool(found)
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
