"""Segment reductions, ravel_pytree, map and associative_scan beside real JAX."""

import jax.flatten_util
import jax.ops
import numpy as np
import pytest
from oracle_compare import same

import pullback
import pullback.flatten_util
import pullback.numpy

IDS = np.array([0, 1, 1, 2, 0])


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_segment(name, dtype):
    x = np.arange(15).reshape(5, 3).astype(dtype)
    for kwargs in (
        {},
        {"num_segments": 5},
        {"num_segments": 3, "bucket_size": 2},
        {"num_segments": 2, "mode": "clip"},
    ):
        same(lambda ops, kw=kwargs: getattr(ops, f"segment_{name}")(x, IDS, **kw), "ops")


@pytest.mark.parametrize(
    "f",
    [
        lambda ops: ops.segment_sum(np.ones((5, 3), "float32"), IDS[:3], 3),
        lambda ops: ops.segment_sum(np.ones(5, "float32"), IDS, -3),
        lambda ops: ops.segment_sum(np.ones(5, "float32"), IDS * 1.0, 3),
        lambda ops: ops.segment_sum([1.0, 2.0], [0, 1]),
        lambda ops: ops.segment_sum(np.ones(5, "float32"), np.array([0, -1, 7, 1, 1])),
    ],
)
def test_segment_edges(f):
    same(f, "ops")


TREES = [
    {"a": np.ones((2, 2), "float32"), "b": 3.0},
    [np.arange(3.0, dtype="float32"), np.arange(2)],
    [1.0, 2.0],
    [1.0, 2],
    [],
    np.ones((3, 1)),
]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_ravel(tree):
    same(lambda fu: fu.ravel_pytree(tree)[0], "flatten_util")
    flat, unravel = pullback.flatten_util.ravel_pytree(tree)
    assert jax.tree.structure(unravel(flat)) == jax.tree.structure(tree)


def test_unravel_checks_what_it_is_given():
    unravel = pullback.flatten_util.ravel_pytree([np.ones(2, "float32"), np.arange(2)])[1]
    with pytest.raises(TypeError):
        unravel(np.arange(4))
    with pytest.raises(ValueError):
        unravel(np.ones(3, "float32"))
    with pytest.raises(TypeError, match="key_data"):
        pullback.flatten_util.ravel_pytree([pullback.random.key(0)])


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(n, reverse):
    x = np.random.default_rng(n).normal(size=(2, n)).astype("float32")
    scan = pullback.lax.associative_scan
    got = scan(pullback.numpy.add, x, reverse=reverse, axis=1)
    want = np.cumsum(x[:, ::-1], 1)[:, ::-1] if reverse else np.cumsum(x, 1)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch_size", [None, 1, 2, 5, 7])
def test_map(batch_size):
    x = np.arange(10.0, dtype="float32").reshape(5, 2)
    got = pullback.lax.map(lambda v: (v * 2, v.sum()), x, batch_size=batch_size)
    np.testing.assert_array_equal(np.asarray(got[0]), x * 2)
    np.testing.assert_array_equal(np.asarray(got[1]), x.sum(1))


@pytest.mark.parametrize("name", ["negative", "add", "logaddexp", "subtract"])
def test_ufunc_at_counts_every_occurrence_and_nothing_beyond_the_ends(name: str) -> None:
    x, places = np.array([1.0, 2.0, 3.0], np.float32), np.array([0, 0, 5, -1, -9])
    rest = () if name == "negative" else (np.arange(5, dtype=np.float32),)
    found, want = (
        getattr(numpy, name).at(numpy.asarray(x), places, *rest, inplace=False)
        for numpy in (pullback.numpy, jax.numpy)
    )
    np.testing.assert_allclose(found, want, rtol=1e-6)
