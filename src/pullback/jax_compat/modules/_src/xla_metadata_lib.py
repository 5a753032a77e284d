"""`jax._src.xla_metadata_lib`: the notes of the blocks of `set_xla_metadata` around a call."""

from __future__ import annotations

from typing import Any

from ....experimental.xla_metadata import current_notes


class XlaMetadata:
    """Notes, which are hashed and compared by what they say."""

    __slots__ = ("hash", "val")

    def __init__(self, val: dict[str, Any]) -> None:
        self.val = val
        self.hash = hash(tuple(sorted(val.items())))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, XlaMetadata) and self.val == other.val


def filter_nones(d: dict[str, Any]) -> dict[str, Any]:
    """Notes without those that are None."""
    return {k: v for k, v in d.items() if v is not None}


def update_metadata(a: Any, b: dict[str, Any]) -> XlaMetadata:
    """Notes with others over them; None takes one away."""
    below = {} if a is None else a.val
    return XlaMetadata(filter_nones({**below, **b}))


def current_xla_metadata() -> dict[str, Any] | None:
    """The notes here; None if there are none."""
    return current_notes() or None
