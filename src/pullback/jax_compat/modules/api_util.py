"""`jax.api_util`."""

from __future__ import annotations

from typing import Any

from ...api.arguments import abstractify as shaped_abstractify
from ...api.arguments import debug_info as _debug_info
from ...tree import flatten, flatten_axes, unflatten
from .extend import linear_util as lu


def debug_info(traced_for: str, fun: Any, args: Any, kwargs: Any, **options: Any) -> Any:
    return _debug_info(traced_for, fun, args, kwargs)


@lu.transformation_with_aux2
def flatten_fun(f: Any, store: Any, in_tree: Any, *args_flat: Any) -> Any:
    """A function of a tree (args, kwargs), as one of leaves; the results' tree is left behind."""
    args, kwargs = unflatten(in_tree, args_flat)
    leaves, out_tree = flatten(f(*args, **kwargs))
    store.store(out_tree)
    return leaves


@lu.transformation_with_aux2
def flatten_fun_nokwargs(f: Any, store: Any, in_tree: Any, *args_flat: Any) -> Any:
    """A function of a tuple of trees, as one of leaves; the results' tree is left behind."""
    leaves, out_tree = flatten(f(*unflatten(in_tree, args_flat)))
    store.store(out_tree)
    return leaves


def argnums_partial(
    f: Any, dyn_argnums: Any, args: Any, require_static_args_hashable: bool = True
) -> Any:
    """(`f` of the arguments at these positions only, those arguments)."""
    nums = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    nums = tuple(k % len(args) for k in nums)

    def transform(call: Any, *dynamic: Any, **kwargs: Any) -> Any:
        full = list(args)
        for k, x in zip(nums, dynamic, strict=True):
            full[k] = x
        return call(*full, **kwargs)

    return f.wrap(transform), tuple(args[k] for k in nums)


def safe_map(f: Any, *xs: Any) -> list[Any]:
    """`map` of sequences of equal length."""
    return [f(*group) for group in zip(*xs, strict=True)]


def rebase_donate_argnums(donate_argnums: Any, static_argnums: Any) -> tuple[int, ...]:
    return tuple(sorted(k - sum(s < k for s in static_argnums) for k in donate_argnums))


def donation_vector(
    donate_argnums: Any, donate_argnames: Any, in_tree: Any, kws: bool = True
) -> tuple[bool, ...]:
    """Whether each leaf of (args, kwargs) is donated."""
    args, kwargs = unflatten(in_tree, range(in_tree.num_leaves))
    flags = [k in donate_argnums for k, a in enumerate(args) for _ in flatten(a)[0]]
    return tuple(
        flags + [k in donate_argnames for k in sorted(kwargs) for _ in flatten(kwargs[k])[0]]
    )


__all__ = ["flatten_axes", "shaped_abstractify"]
