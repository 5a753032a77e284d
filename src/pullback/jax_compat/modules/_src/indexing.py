"""`jax._src.indexing`: parts of arrays as a start and a size."""

from __future__ import annotations

from ....control.ref_places import RefSlice as Slice, ds as ds

dslice = ds

__all__ = ["Slice", "ds", "dslice"]
