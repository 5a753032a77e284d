"""`jax._src.mesh`: meshes, and those in force."""

from __future__ import annotations

import numpy as np

from .... import sharding
from ....runtime import meshes
from ....runtime.meshes import AbstractMesh, Mesh, MeshBase as BaseMesh, named_mesh
from .searched import searched

__all__ = ["EMPTY_ENV", "BaseMesh", "ResourceEnv", "empty_abstract_mesh", "empty_concrete_mesh"]


class ResourceEnv:
    """The mesh of a `with mesh:` block."""

    def __init__(self, physical_mesh: Mesh) -> None:
        self.physical_mesh = physical_mesh

    def __repr__(self) -> str:
        return f"ResourceEnv(mesh={self.physical_mesh!r})"


class _Resources:
    """What this thread's `with mesh:` blocks say."""

    @property
    def env(self) -> ResourceEnv:
        return ResourceEnv(named_mesh())


thread_resources = _Resources()
empty_concrete_mesh = Mesh(np.empty((), object), ())
empty_abstract_mesh = AbstractMesh((), ())
EMPTY_ENV = ResourceEnv(empty_concrete_mesh)


def get_concrete_mesh() -> Mesh:
    """The mesh of devices that is in force; an empty one where there is none."""
    return meshes.get_mesh() if meshes.any_mesh_chosen() else empty_concrete_mesh


__getattr__ = searched("jax._src.mesh", sharding, meshes)
