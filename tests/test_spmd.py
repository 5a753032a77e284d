"""pmap, shard_map and smap: on one device as real JAX, on larger meshes as NumPy cuts blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import sharding as pb_sharding
from pullback.errors import DuplicateSpecError

BOTH = [(jax, jnp, jax.sharding), (pb, pnp, pb_sharding)]


def mesh_of(j: Any, s: Any) -> Any:
    return j.make_mesh((1, 1), ("i", "j"), axis_types=(s.AxisType.Auto,) * 2)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "psum": lambda j, P, m, x: j.shard_map(
        lambda a: j.lax.psum(a, "i"), mesh=m, in_specs=P("i", "j"), out_specs=P(None, "j"))(x),
    "two arguments": lambda j, P, m, x: j.shard_map(
        lambda a, b: a @ b, mesh=m, in_specs=(P("i"), P(None, "j")), out_specs=P("i", "j"))(x, x.T),
    "grad": lambda j, P, m, x: j.grad(lambda x: j.shard_map(
        lambda a: j.lax.psum((a**2).sum(), ("i", "j")),
        mesh=m, in_specs=P("i", "j"), out_specs=P())(x))(x),
    "jit": lambda j, P, m, x: j.jit(j.shard_map(
        lambda a: j.lax.all_gather(a, "i", tiled=True),
        mesh=m, in_specs=P("i"), out_specs=P(None), check_vma=False))(x),
    "trees": lambda j, P, m, x: j.shard_map(
        lambda d: {"y": d["a"] + d["b"].sum()},
        mesh=m, in_specs=({"a": P("i"), "b": P()},), out_specs={"y": P("i")},
    )({"a": x, "b": x})["y"],
    "index": lambda j, P, m, x: j.shard_map(
        lambda a: a + j.lax.axis_index("i"),
        mesh=m, in_specs=P(("i", "j")), out_specs=P(("i", "j")))(x),
    "pmap": lambda j, P, m, x: j.pmap(
        lambda x, k: j.lax.psum(x * k, "q"), axis_name="q", static_broadcasted_argnums=1
    )(x[:1], 2),
    "pmap, one whole": lambda j, P, m, x: j.pmap(
        lambda p, x: p * x, in_axes=(None, 0))(x[0], x[1:2]),
    "grad of pmap": lambda j, P, m, x: j.grad(
        lambda w: j.pmap(lambda x: (w * x).sum())(x[:1]).sum())(2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_jax(name: str) -> None:
    results = [
        PROGRAMS[name](j, s.PartitionSpec, mesh_of(j, s), n.arange(24.0).reshape(4, 6))
        for j, n, s in BOTH
    ]
    np.testing.assert_allclose(np.asarray(results[1]), np.asarray(results[0]), rtol=1e-6)


P = pb_sharding.PartitionSpec
MESH = pb_sharding.AbstractMesh((2, 3), ("i", "j"))


def blocks(f: Any, in_specs: Any, out_specs: Any, **options: Any) -> Any:
    """Jitted: what runs at once needs the mesh's devices."""
    return pb.jit(pb.shard_map(f, mesh=MESH, in_specs=in_specs, out_specs=out_specs, **options))


def test_blocks_of_larger_meshes() -> None:
    x = np.arange(48.0, dtype=np.float32).reshape(4, 12)
    out = blocks(lambda a: pb.lax.psum(a, "i"), P("i", "j"), P(None, "j"))(x)
    np.testing.assert_array_equal(out, x[:2] + x[2:])
    out = blocks(lambda a: a * 1 + pb.lax.axis_index("j"), P("j", "i"), P("j", "i"))(x.T)
    np.testing.assert_array_equal(out, x.T + np.repeat(np.arange(3), 4)[:, None])
    out = blocks(lambda a: a.sum(keepdims=True), P(("i", "j")), P(("i", "j")))(x.T)
    np.testing.assert_array_equal(out[:, 0], x.T.reshape(6, 8).sum(1))
    shifted = blocks(
        lambda a: pb.lax.ppermute(a, "j", [(0, 1), (1, 2), (2, 0)]), P(None, "j"), P(None, "j")
    )(x)
    np.testing.assert_array_equal(shifted, np.roll(x, 4, 1))
    gathered = blocks(
        lambda a: pb.lax.all_gather(a, "i", tiled=True), P("i"), P(), check_vma=False
    )(x)
    np.testing.assert_array_equal(gathered, x)
    grad = pb.grad(lambda x: blocks(lambda a: pb.lax.psum((a**3).sum(), ("i", "j")), P("i", "j"),
                                    P())(x))(x)  # fmt: skip
    np.testing.assert_allclose(grad, 3 * x**2, rtol=1e-6)
    with pb.set_mesh(pb.make_mesh((1,), ("q",))):
        out = pb.smap(lambda a: a * 2, in_axes=0, out_axes=0, axis_name="q")(x)
    np.testing.assert_array_equal(out, x * 2)


def test_errors() -> None:
    x = pnp.ones((4, 5))
    with pytest.raises(ValueError, match="3 does not evenly divide 5"):
        blocks(lambda a: a, P(None, "j"), P())(x)
    with pytest.raises(ValueError, match="refers to 'z'"):
        blocks(lambda a: a, P("z"), P())(x)
    with pytest.raises(ValueError, match="out_specs refers to 'z'"):
        blocks(lambda a: a, P(), P("z"))(x)
    with pytest.raises(DuplicateSpecError, match="duplicate entries for `i`"):
        blocks(lambda a: a, P("i", "i"), P())(x)
    with pytest.raises(ValueError, match="an out_specs entry which is too long"):
        blocks(lambda a: a.sum(), P("i"), P("i"))(x)
    with pytest.raises(ValueError, match="possibly varying over"):
        blocks(lambda a: a, P("i"), P())(x)
    with pytest.raises(ValueError, match="mesh cannot be empty"):
        pb.shard_map(lambda a: a, in_specs=P(), out_specs=P())(x)
    with pytest.raises(ValueError, match="too long to be compatible"):
        blocks(lambda a: a, P(None, None, "i"), P())(x)
    for side in (jax, pb):
        with pytest.raises(ValueError):
            side.pmap(lambda x: x)(np.ones((5, 3)))
        with pytest.raises(ValueError, match="at least one argument with a mapped axis"):
            side.pmap(lambda: 1.0)()
        with pytest.raises(ValueError, match="at least one argument with a mapped axis"):
            side.pmap(lambda x: x)(3.0)


# What real JAX gives on four devices, for the groups in which instances see each other.
GROUPS = {"two": [[0, 2], [3, 1]], "one": [[1, 0, 3, 2]], "each": [[0], [1], [2], [3]]}
ROWS = np.arange(64, dtype=np.float32).reshape(4, 4, 4) ** 1.5


def _together(name: str, rows: Any, k: int) -> Any:
    """What instance k of a group has, whose members have `rows`."""
    n, parts = len(rows), [np.split(x, len(rows), 1) for x in rows]
    return {
        "psum": lambda: rows.sum(0),
        "pmean": lambda: rows.mean(0),
        "pmax": lambda: rows.max(0),
        "pmin": lambda: rows.min(0),
        "all_gather": lambda: rows,
        "all_gather tiled": lambda: np.concatenate(rows, 1),
        "psum_scatter tiled": lambda: np.split(rows.sum(0), n, 1)[k],
        "all_to_all tiled": lambda: np.concatenate([p[k] for p in parts], 0),
        "grad": lambda: 2 * n * rows.sum(0),
    }[name]()


EXCHANGES: dict[str, Callable[..., Any]] = {
    "psum": lambda x, a, g: pb.lax.psum(x, a, axis_index_groups=g),
    "pmean": lambda x, a, g: pb.lax.pmean(x, a, axis_index_groups=g),
    "pmax": lambda x, a, g: pb.lax.pmax(x, a, axis_index_groups=g),
    "pmin": lambda x, a, g: pb.lax.pmin(x, a, axis_index_groups=g),
    "all_gather": lambda x, a, g: pb.lax.all_gather(x, a, axis_index_groups=g),
    "all_gather tiled": lambda x, a, g: pb.lax.all_gather(
        x, a, axis_index_groups=g, axis=1, tiled=True
    ),
    "psum_scatter tiled": lambda x, a, g: pb.lax.psum_scatter(
        x, a, axis_index_groups=g, scatter_dimension=1, tiled=True
    ),
    "all_to_all tiled": lambda x, a, g: pb.lax.all_to_all(
        x, a, 1, 0, axis_index_groups=g, tiled=True
    ),
    "grad": lambda x, a, g: pb.grad(lambda x: (pb.lax.psum(x, a, axis_index_groups=g) ** 2).sum())(
        x
    ),
}


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("name", EXCHANGES)
def test_groups_of_instances(name: str, groups: str) -> None:
    found = GROUPS[groups]
    exchange = EXCHANGES[name]
    want: list[Any] = [None] * 4
    for group in found:
        for k, instance in enumerate(group):
            want[instance] = _together(name, ROWS[group], k)
    one = pb.vmap(lambda x: exchange(x, "i", found), axis_name="i")
    np.testing.assert_allclose(one(ROWS), want, rtol=1e-6)
    two = lambda x: exchange(x, ("i", "j"), found)  # numbered row-major over both
    both = pb.jit(pb.vmap(pb.vmap(two, axis_name="j"), axis_name="i"))(ROWS.reshape(2, 2, 4, 4))
    np.testing.assert_allclose(both, np.reshape(want, (2, 2, *np.shape(want)[1:])), rtol=1e-6)


def test_groups_of_several_sizes_and_wrong_ones() -> None:
    def mapped(f: Callable[..., Any]) -> Any:
        return pb.vmap(f, axis_name="i")(np.arange(4.0, dtype=np.float32))

    sizes = [[0], [1, 2, 3]]
    for op, want in (("psum", [0, 6, 6, 6]), ("pmax", [0, 3, 3, 3]), ("pmean", [0, 2, 2, 2])):
        exchange = getattr(pb.lax, op)
        out = mapped(lambda x, e=exchange: e(x, "i", axis_index_groups=sizes))
        assert out.tolist() == want
    for wrong in ([[0, 1], [1, 2]], [[0, 1]], [[0, 1], [2, 7]], []):
        with pytest.raises(ValueError, match="must cover all indices exactly once"):
            mapped(lambda x, w=wrong: pb.lax.psum(x, "i", axis_index_groups=w))
    with pytest.raises(ValueError, match="of one size"):
        mapped(lambda x: pb.lax.all_gather(x, "i", axis_index_groups=sizes))
