"""Values share a buffer only where no read of the old one comes after a write of the new one."""

from __future__ import annotations

import numpy as np
import scipy.linalg

import pullback as pb
from pullback.loops.buffers import accesses, same_element
from pullback.loops.ir import Buf, Const, For, Load, Store, Var
from pullback.scipy.linalg import expm


def loop(order):
    """`for i: ...` with loads of `old` and stores to `new`, in the order of a string of l and s."""
    i, old, new = Var("i", "i64"), Buf("old", "f32", (8,), "in"), Buf("new", "f32", (8,), "out")
    body = []
    for letter in order:
        if letter == "l":
            body.append(Load(Var("x", "f32"), old, (i,)))
        else:
            body.append(Store(new, (i,), Const(0.0, "f32")))
    zero, one, n = (Const(v, "i64") for v in (0, 1, 8))
    found = accesses([For(i, zero, n, one, "vector", (), tuple(body))])
    return same_element(found[old], found[new])


def test_reads_come_first():
    assert loop("ls")
    assert loop("lls")
    assert not loop("lsl")
    assert not loop("sl")


def test_expm_of_a_batch():
    """Its selects read values that a later select of the same loop could have overwritten."""
    a = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    batch = np.stack([a, a * 10, a * 0.1])
    got = np.asarray(pb.jit(expm)(batch))
    for m, found in zip(batch, got, strict=True):
        want = scipy.linalg.expm(m.astype(np.float64))
        np.testing.assert_allclose(found, want, rtol=2e-3, atol=1e-3 * float(np.abs(want).max()))
