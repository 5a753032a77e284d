"""`jax._src.xla_transform`: functions that change programs between the passes of XLA, which are not
run here: they are kept by name, and called by nobody."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence


class PipelineStage(enum.IntEnum):
    """Between which passes."""

    PRE_SCHEDULER = 0
    POST_SCHEDULER = 1


_registered: dict[tuple[str, PipelineStage, str], Callable[[bytes], bytes | None]] = {}


def _platforms(platforms: Sequence[str] | str | None) -> list[str]:
    return [platforms] if isinstance(platforms, str) else list(platforms or ("cpu",))


def register_hlo_module_transformation(
    callback: Callable[[bytes], bytes | None],
    *,
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> None:
    """Keeps a function under a name. ValueError if there is one of that name."""
    for platform in _platforms(platforms):
        key = name, PipelineStage(stage), platform
        if key in _registered:
            raise ValueError(
                f"a transformation named {name!r} is registered for {platform} already"
            )
        _registered[key] = callback


def clear_hlo_module_transformation(
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> bool:
    """Forgets the function of a name; was there one?"""
    keys = [(name, PipelineStage(stage), platform) for platform in _platforms(platforms)]
    return sum(_registered.pop(key, None) is not None for key in keys) > 0
