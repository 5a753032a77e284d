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
    return pb.shard_map(f, mesh=MESH, in_specs=in_specs, out_specs=out_specs, **options)


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
    with pytest.raises(ValueError, match="does not divide it evenly"):
        blocks(lambda a: a, P(None, "j"), P())(x)
    with pytest.raises(ValueError, match="refers to 'z'"):
        blocks(lambda a: a, P("z"), P())(x)
    with pytest.raises(ValueError, match="out_specs refers to 'z'"):
        blocks(lambda a: a, P(), P("z"))(x)
    with pytest.raises(ValueError, match="duplicate entries for `i`"):
        blocks(lambda a: a, P("i", "i"), P())(x)
    with pytest.raises(ValueError, match="entry of out_specs which is too long"):
        blocks(lambda a: a.sum(), P("i"), P("i"))(x)
    with pytest.raises(ValueError, match="does not vary over the mesh axis 'i'"):
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
