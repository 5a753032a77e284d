"""Kernels written for Triton beside JAX's interpreter, and the slices that kernels index with."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as jpl
from jax.experimental.pallas import triton as jplt

import pullback as pb
import pullback.numpy as pnp
from pullback.experimental import pallas as ppl
from pullback.experimental.pallas import triton as pplt

SIDES = [(jax, jnp, jpl, jplt), (pb, pnp, ppl, pplt)]
X = np.arange(24, dtype="f").reshape(8, 3)


def called(side: Any, kernel: Any, out: Any, *args: Any) -> Any:
    j, n, pl, _ = side
    shapes = [j.ShapeDtypeStruct(shape, n.float32) for shape in out]
    return [np.asarray(x) for x in pl.pallas_call(kernel, shapes, interpret=True)(*args)]


def masked(side: Any) -> Any:
    """A product whose last block of rows is not whole."""
    _, n, pl, plt = side

    def kernel(x: Any, y: Any, o: Any) -> None:
        o[...] = n.full(8, 7.0)
        row = n.arange(8) < 6
        left = plt.load(x, mask=row, other=0.0)
        right = plt.load(y.at[pl.ds(0, 8)])
        plt.store(o.at[pl.ds(0, 8)], left * right, mask=row)

    return called(side, kernel, [(8,)], X[:, 0], X[:, 1])


def updated(name: str, side: Any) -> Any:
    """What an atomic update leaves and returns."""
    _, _, pl, plt = side

    def kernel(x: Any, o: Any, old: Any) -> None:
        o[...] = x[...] - 9
        old[...] = getattr(plt, name)(o, (pl.ds(1, 3),), x[2:5])

    return called(side, kernel, [(8,), (3,)], X[:, 0])


def of_matrices(side: Any) -> Any:
    _, _, _, plt = side

    def kernel(x: Any, o: Any) -> None:
        o[...] = plt.dot(x[...], x[...], trans_a=True)

    return called(side, kernel, [(3, 3)], X)


def test_kernels_give_what_they_give_under_jax() -> None:
    programs = [masked, of_matrices]
    for program in programs:
        for a, b in zip(*map(program, SIDES), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6)
    for name in ("atomic_add", "atomic_max", "atomic_min"):
        for a, b in zip(*(updated(name, side) for side in SIDES), strict=True):
            np.testing.assert_array_equal(b, a, err_msg=name)


def test_atomic_updates_take_turns() -> None:
    """JAX's interpreter refuses arrays of positions: the histogram is NumPy's."""
    places, mask = np.array([0, 3, 3, 1, 3, 9]), np.array([1, 1, 1, 0, 1, 1], bool)
    ref = pb.new_ref(pnp.zeros(4, int))
    before = pplt.atomic_add(ref, pnp.asarray(places), 1, mask=pnp.asarray(mask))
    np.testing.assert_array_equal(ref[...], np.bincount(places[mask & (places < 4)], minlength=4))
    np.testing.assert_array_equal(before, [0, 0, 1, 0, 2, 0])
    for name, want in {"and": 4, "or": 15, "xor": 13}.items():
        ref = pb.new_ref(pnp.array([12]))
        getattr(pplt, f"atomic_{name}")(ref, pnp.array([0, 0]), pnp.array([6, 7]))
        assert ref[0] == want
    ref = pb.new_ref(pnp.arange(3))
    assert pplt.atomic_cas(ref.at[1], 1, 7) == 1 and pplt.atomic_cas(ref.at[1], 1, 8) == 7
    assert ref[...].tolist() == [0, 7, 2]
    with pytest.raises(ValueError, match="must be scalar"):
        pplt.atomic_cas(ref, 1, 7)


def test_hints_and_parameters() -> None:
    pplt.debug_barrier()
    assert repr(pplt.CompilerParams(num_warps=4)) == repr(jplt.CompilerParams(num_warps=4))
    assert isinstance(pplt.CompilerParams(), ppl.CompilerParams)
    assert pplt.max_contiguous(X, 3) is X
    np.testing.assert_allclose(pplt.approx_tanh(pnp.asarray(X)), np.tanh(X), rtol=1e-6)
    for plt, n in ((jplt, jnp), (pplt, pnp)):
        with pytest.raises(TypeError, match="approx_tanh does not accept int32 arrays"):
            plt.approx_tanh(n.arange(3))


def slices(j: Any, n: Any) -> list[Any]:
    """Functions of an array and a number that index by `ds`."""
    ds = j.ds
    return [
        lambda x, i: x[ds(1, 3)],
        lambda x, i: x[ds(6, 4)],
        lambda x, i: x[ds(i, 4)],
        lambda x, i: x[ds(1, 3, 2)],
        lambda x, i: x[ds(i, 2), 1],
        lambda x, i: x[ds(-2, 2)],
        lambda x, i: x[None, ds(i, 4), ..., ::-1],
        lambda x, i: x[ds(i, 2), n.array([0, 2])],
        lambda x, i: x.at[ds(i, 2)].set(0),
        lambda x, i: x.at[ds(i, 4)].add(1.0),
        lambda x, i: x.at[ds(1, 3, 2)].add(1.0),
    ]


@pytest.mark.parametrize("k", range(11))
def test_arrays_take_slices_of_traced_starts(k: int) -> None:
    values, programs = [], []
    for j, n in ((jax, jnp), (pb, pnp)):
        f, args = slices(j, n)[k], (n.asarray(X), n.int32(6))
        programs.append(str(j.make_jaxpr(f)(*args)))
        values.append([np.asarray(f(*args)), np.asarray(j.jit(f)(*args))])
    np.testing.assert_array_equal(values[1], values[0])
    assert programs[1] == programs[0]


def test_references_refuse_slices_that_leave_them() -> None:
    for j, n in ((jax, jnp), (pb, pnp)):
        ref = j.new_ref(n.asarray(X))
        for s, error in (
            (j.ds(6, 4), ValueError),
            (j.ds(n.int32(6), 9), ValueError),
            ((slice(None), j.ds(2, 3)), ValueError),
            (j.ds(-2, 2), TypeError),
            (j.ds(0, 4, 3), TypeError),
        ):
            with pytest.raises(error):
                ref[s]
        with pytest.raises(ValueError, match="Out of bound slice: start=6, size=4, stride=1, dim"):
            ref[j.ds(6, 4)] = n.zeros((4, 3))
