"""Passes of one's own in XLA's compiler. Needs jaxlib (`pip install pullback[xla]`)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

from ..backends.xla.library import xla_transforms as _transforms


class PipelineStage(enum.IntEnum):
    """When a pass runs: before XLA orders the operations, or after.

    >>> from pullback.extend import xla
    >>> xla.PipelineStage.PRE_SCHEDULER
    <PipelineStage.PRE_SCHEDULER: 0>
    """

    PRE_SCHEDULER = 0
    POST_SCHEDULER = 1


def _platforms(platforms: Sequence[str] | str | None) -> list[str]:
    """The platforms that a pass is for. ValueError for one that this process does not have."""
    if platforms is None:
        return ["cpu"]
    found = [platforms] if isinstance(platforms, str) else list(platforms)
    unknown = [p for p in found if p != "cpu"]
    if unknown:
        raise ValueError(f"the platform {unknown[0]!r} is not present. Fix: platforms='cpu'.")
    return found


def _checked(stage: PipelineStage) -> int:
    if not isinstance(stage, PipelineStage):
        raise TypeError(f"stage must be a PipelineStage enum, got {type(stage)}")
    return int(stage)


def register_hlo_module_transformation(
    callback: Callable[[bytes], bytes | None],
    *,
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> None:
    """Has XLA call `callback` on each module that it compiles: it is given the bytes of an
    HloModuleProto, and gives others in their place, or None. TypeError for a callback that cannot
    be called.

    >>> from pullback.extend import xla
    >>> xla.register_hlo_module_transformation(lambda module: None, name="look")
    >>> xla.clear_hlo_module_transformation("look")
    True
    """
    if not callable(callback):
        raise TypeError(f"callback must be a function of bytes, got {type(callback)}")
    when = _checked(stage)
    for _ in _platforms(platforms):
        _transforms.register_xla_transform(name, when, callback)


def clear_hlo_module_transformation(
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> bool:
    """Takes a pass away again: was it there?

    >>> from pullback.extend import xla
    >>> xla.clear_hlo_module_transformation("not there")
    False
    """
    when = _checked(stage)
    found = [_transforms.clear_xla_transform(name, when) for _ in _platforms(platforms)]
    return any(found)
