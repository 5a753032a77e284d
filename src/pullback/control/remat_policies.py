"""What `checkpoint` keeps instead of recomputing: policies, asked for each operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from ..records import record


class RecomputeType:
    """What a policy may answer: compute it again."""

    def __bool__(self) -> bool:
        return False


class SaveableType:
    """What a policy may answer: keep it."""


class Offloadable(NamedTuple):
    """What a policy may answer: keep it, moved from one memory to another meanwhile. There is one
    memory here, so that it is kept where it is.

    >>> pb.ad_checkpoint.Offloadable(src="device", dst="pinned_host").dst
    'pinned_host'
    """

    src: Any
    dst: Any


Recompute, Saveable = RecomputeType(), SaveableType()


def everything_saveable(*_: Any, **__: Any) -> bool:
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    return False


@record(eq=True)
class DotsSaveable:
    """Results of products are kept."""

    only_if_no_batch_dims: bool

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> bool:
        if self.only_if_no_batch_dims:
            return primitive.name == "dot_general" and not any(params["dimension_numbers"][1])
        return primitive.name in ("dot_general", "conv_general_dilated")


dots_saveable = DotsSaveable(False)
dots_with_no_batch_dims_saveable = DotsSaveable(True)


@record(eq=True)
class SaveOnlyTheseNames:
    """What has one of these names is kept."""

    saveable_names: frozenset[str]

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive.name == "name" and params["name"] in self.saveable_names


def save_only_these_names(*names_which_can_be_saved: str) -> Callable[..., bool]:
    return SaveOnlyTheseNames(frozenset(names_which_can_be_saved))


@record(eq=True)
class SaveAnyNamesButThese:
    """What has a name, and none of these, is kept."""

    names: frozenset[str]

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive.name == "name" and params["name"] not in self.names


def save_any_names_but_these(*names_not_to_save: str) -> Callable[..., bool]:
    return SaveAnyNamesButThese(frozenset(names_not_to_save))


def save_anything_except_these_names(*names_not_to_save: str) -> Callable[..., bool]:
    return lambda primitive, *_, **params: (
        not (primitive.name == "name" and params["name"] in names_not_to_save)
    )


def offload_dot_with_no_batch_dims(offload_src: Any, offload_dst: Any) -> Callable[..., Any]:
    def policy(primitive: Any, *_: Any, **params: Any) -> Any:
        if dots_with_no_batch_dims_saveable(primitive, **params):
            return Offloadable(offload_src, offload_dst)
        return Recompute

    return policy


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: Any,
    offload_dst: Any,
) -> Callable[..., Any]:
    saved, offloaded = set(names_which_can_be_saved), set(names_which_can_be_offloaded)
    if saved & offloaded:
        raise ValueError(
            "The names should be exclusive and should not intersect in `names_which_can_be_saved` "
            f"and `names_which_can_be_offloaded`. Got names_which_can_be_saved={saved}, "
            f"names_which_can_be_offloaded={offloaded} and the intersection={saved & offloaded}. "
            "Fix: give each name to one of them."
        )

    def policy(primitive: Any, *_: Any, **params: Any) -> Any:
        name = params["name"] if primitive.name == "name" else None
        if name in saved:
            return Saveable
        return Offloadable(offload_src, offload_dst) if name in offloaded else Recompute

    return policy


def save_from_both_policies(
    policy_1: Callable[..., bool], policy_2: Callable[..., bool]
) -> Callable[..., bool]:
    def policy(primitive: Any, *args: Any, **params: Any) -> bool:
        return policy_1(primitive, *args, **params) or policy_2(primitive, *args, **params)

    return policy


checkpoint_policies = SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
)
