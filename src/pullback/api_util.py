"""What wraps functions for transformations: arguments flattened, some fixed, names for messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .api.arguments import abstractify as _abstractify, debug_info as _debug_info
from .core.jaxpr import DebugInfo
from .extend import linear_util as lu
from .tree import flatten, flatten_axes as _flatten_axes, unflatten


def debug_info(
    traced_for: str,
    fun: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    result_paths_thunk: Any = None,
    sourceinfo: str | None = None,
    signature: Any = None,
) -> Any:
    """What to call a function, its arguments and its results in messages. Static arguments have no
    names.

    >>> info = pb.api_util.debug_info("jit", lambda x, y: x, (1, 2), {})
    >>> info.arg_names
    ('x', 'y')
    """
    n = len(args)
    static = {k % n for k in static_argnums if -n <= k < n}
    found = _debug_info(
        traced_for,
        fun,
        [None if k in static else x for k, x in enumerate(args)],
        {k: None if k in static_argnames else v for k, v in kwargs.items()},
    )
    paths = result_paths_thunk() if callable(result_paths_thunk) else result_paths_thunk
    return DebugInfo(traced_for, sourceinfo or found.func_src_info, found.arg_names, paths)


@lu.transformation_with_aux2
def flatten_fun(f: Any, store: Any, in_tree: Any, *args_flat: Any) -> Any:
    """A function of a tree (args, kwargs), as one of leaves; the results' tree is left behind.
    `use_eq_store` and `unk_names` as for `transformation_with_aux2`.

    >>> from pullback.extend import linear_util
    >>> f = linear_util.wrap_init(lambda x, *, y: {"sum": x + y})
    >>> leaves, in_tree = tree.flatten(((1,), {"y": 2}))
    >>> flat, out_tree = pb.api_util.flatten_fun(f, in_tree)
    >>> flat.call_wrapped(*leaves), out_tree()
    ([3], PyTreeDef({'sum': *}))
    """
    args, kwargs = unflatten(in_tree, args_flat)
    leaves, out_tree = flatten(f(*args, **kwargs))
    store.store(out_tree)
    return leaves


@lu.transformation_with_aux2
def flatten_fun_nokwargs(f: Any, store: Any, in_tree: Any, *args_flat: Any) -> Any:
    """A function of a tuple of trees, as one of leaves; the results' tree is left behind.
    `use_eq_store` and `unk_names` as for `transformation_with_aux2`.

    >>> from pullback.extend import linear_util
    >>> f = linear_util.wrap_init(lambda x, y: x + y["a"])
    >>> leaves, in_tree = tree.flatten((1, {"a": 2}))
    >>> flat, out_tree = pb.api_util.flatten_fun_nokwargs(f, in_tree)
    >>> flat.call_wrapped(*leaves), out_tree()
    ([3], PyTreeDef(*))
    """
    leaves, out_tree = flatten(f(*unflatten(in_tree, args_flat)))
    store.store(out_tree)
    return leaves


def flatten_axes(
    name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False
) -> list[Any]:
    """The axes of a tree's leaves, from a prefix of the tree. ValueError naming `name` if it is
    none. With `kws` the tree is (args, kwargs), and the prefix is one of args; keywords have 0.

    >>> structure = tree.structure((1, [2, 3]))
    >>> pb.api_util.flatten_axes("in_axes", structure, (0, None))
    [0, None, None]
    """
    return _flatten_axes(name, treedef, axis_tree, kws=kws)


def shaped_abstractify(x: Any) -> Any:
    """The type of an array, or of anything that has a shape and a dtype.

    >>> pb.api_util.shaped_abstractify(np.zeros((2, 3), np.float32))
    ShapedArray(float32[2,3])
    """
    return _abstractify(x)


def argnums_partial(
    f: Any, dyn_argnums: Any, args: Any, require_static_args_hashable: bool = True
) -> Any:
    """(`f` of the arguments at these positions only, those arguments).

    >>> from pullback.extend import linear_util
    >>> f = linear_util.wrap_init(lambda x, n: x * n)
    >>> g, dynamic = pb.api_util.argnums_partial(f, (0,), (5, 2))
    >>> g.call_wrapped(*dynamic)
    10
    """
    nums = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    nums = tuple(k % len(args) for k in nums)

    def transform(call: Any, *dynamic: Any, **kwargs: Any) -> Any:
        full = list(args)
        for k, x in zip(nums, dynamic, strict=True):
            full[k] = x
        return call(*full, **kwargs)

    return f.wrap(transform), tuple(args[k] for k in nums)


def safe_map(f: Any, *xs: Any) -> list[Any]:
    """`map` of sequences of equal length.

    >>> pb.api_util.safe_map(lambda x, y: x + y, [1, 2], [10, 20])
    [11, 22]
    """
    return [f(*group) for group in zip(*xs, strict=True)]


def rebase_donate_argnums(donate_argnums: Any, static_argnums: Any) -> tuple[int, ...]:
    """`donate_argnums` counted without the arguments at `static_argnums`.

    >>> pb.api_util.rebase_donate_argnums((2,), (0,))
    (1,)
    """
    return tuple(sorted(k - sum(s < k for s in static_argnums) for k in donate_argnums))


def donation_vector(
    donate_argnums: Any, donate_argnames: Any, in_tree: Any, kws: bool = True
) -> tuple[bool, ...]:
    """Whether each leaf of (args, kwargs) is donated.

    >>> pb.api_util.donation_vector((0,), (), tree.structure(((1, 2), {})))
    (True, False)
    """
    args, kwargs = unflatten(in_tree, range(in_tree.num_leaves))
    flags = [k in donate_argnums for k, a in enumerate(args) for _ in flatten(a)[0]]
    return tuple(
        flags + [k in donate_argnames for k in sorted(kwargs) for _ in flatten(kwargs[k])[0]]
    )
