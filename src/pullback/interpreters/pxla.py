"""Programs over meshes of devices: the mesh that is in force, and how shards become arrays."""

from ..sharding import Mesh as Mesh
from ..sharding import _local


class _ThreadResources:
    @property
    def env(self) -> "_ThreadResources":
        return self

    @property
    def physical_mesh(self) -> Mesh:
        return _local.stack[-1] if _local.stack else Mesh.__new__(Mesh)


thread_resources = _ThreadResources()
