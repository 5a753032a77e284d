"""`vmap`: which axes of which arguments are mapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..core.avals import typeof
from ..core.explicit import parts_of, said, said_by
from ..core.naming import fun_source_info
from ..core.refs import ref_places
from ..core.source import take_names, transformed
from ..core.tracebacks import boundary
from ..primitives.shape import reduce_sum
from ..transforms.batch import AxisData, batch_flat, matchaxis
from . import vmappable
from .arguments import argument_name, check_callable, debug_info

# Pytrees whose static part knows their axes (sparse arrays with batch axes): for each type,
# (x, axis) -> x whose static part is that of its elements along the axis, and
# (element, axis, size) -> the whole again. Their arrays stay as they are.
mapped_types: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
) -> Callable[..., Any]:
    """`fun`, mapped over axes of its arguments and vectorised, not looped.

    `in_axes` is an int, None, or a pytree prefix of them for the positional arguments (keyword
    arguments are mapped over axis 0); `out_axes` the same for the results. `axis_name` lets
    collectives refer to the axis.

    `axis_size`: the size of the mapped axes, where no argument has one; `spmd_axis_name`: the
    axis of the mesh that they lie on; `sum_match`: results whose `out_axes` is None are summed
    over the axis, instead of refused, if they depend on it.

    >>> pb.vmap(jnp.dot)(jnp.ones((2, 3)), jnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)

    Raises ValueError if axes are out of range or the mapped sizes differ.
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or type(in_axes) in (int, tuple) or vmappable.is_spec(in_axes)):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments passed to the function, but got {in_axes}."
        )
    for which, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if any(_is_value(x) for x in tree.flatten(axes)[0]):
            raise _wrong_axis(which, axes)

    @boundary
    def vmap_f(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                "positional arguments passed to the function, "
                f"but got len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        if mapped_types:
            args, kwargs = _restated("vmap in_axes", 0, (args, kwargs), (in_axes, 0))
        # None where no type is registered, as nearly always.
        leaf = vmappable.is_registered if vmappable.registered else None
        leaves, in_tree = tree.flatten((args, kwargs), is_leaf=leaf)
        axes = tree.flatten_axes("vmap in_axes", in_tree, in_axes, kws=True)
        dims = [
            None if leaf is not None and leaf(x) else canonical_mapped(fun, k, x, a, args, kwargs)
            for k, (x, a) in enumerate(zip(leaves, axes, strict=True))
        ]
        ref_places(
            leaves,
            lambda: f"{fun_source_info(fun)} for vmap",
            lambda: debug_info("vmap", fun, args, kwargs).arg_names,
        )
        size = mapped_size(fun, leaves, dims, axis_size, args, kwargs)
        lies = _lying(leaves, dims)
        if lies is not None and spmd_axis_name is not None:
            raise ValueError(
                "Only one of spmd_axis_name or arrays sharded on `Explicit` mesh axis type is "
                f"allowed. Got spmd_axis_name={spmd_axis_name} and arrays sharded on {lies[1]}. "
                "Fix: leave spmd_axis_name out, the arrays say it."
            )
        axis = AxisData(axis_name, size, spmd_axis_name, lies)
        flat = _OnLeaves(fun, axis, in_tree, axes, out_axes, leaf)
        with transformed("vmap"):
            outs, found = batch_flat(flat, leaves, dims, axis)
        result = tree.unflatten(flat.out_tree, flat.placed(outs, found, sum_match))
        return _restated("vmap out_axes", 1, result, out_axes, size) if mapped_types else result

    about = "Vectorized version of {}: takes arguments with one more axis, over which it maps."
    take_names(fun, about=about)(vmap_f)
    return vmap_f


class _OnLeaves:
    """A mapped function as one of leaves. Once it was called it knows the structure of its results
    and the axes that are wanted for them."""

    def __init__(
        self, fun: Callable[..., Any], axis: AxisData, in_tree: Any, axes: Any, out_axes: Any,
        leaf: Callable[[Any], bool] | None,
    ) -> None:  # fmt: skip
        self.fun, self.axis, self.in_tree, self.axes = fun, axis, in_tree, axes
        self.out_axes, self.leaf = out_axes, leaf
        self.out_tree: Any = None
        self.wanted: Any = None

    def __call__(self, *xs: Any) -> Any:
        leaf = self.leaf
        if leaf is not None:
            xs = tuple(vmappable.elements(self.axis, xs, self.axes))
        args, kwargs = tree.unflatten(self.in_tree, xs)
        results, self.out_tree = tree.flatten(self.fun(*args, **kwargs), is_leaf=leaf)
        self.wanted = tree.flatten_axes("vmap out_axes", self.out_tree, self.out_axes)
        for x in results:
            if leaf is None or not leaf(x):
                _check_result(x)
        return results if leaf is None else vmappable.wholes(self.axis, results, self.wanted)

    def placed(self, outs: Sequence[Any], found: Sequence[Any], sum_match: bool) -> list[Any]:
        """The results, with their mapped axes where they are wanted."""
        return [
            x
            if self.leaf is not None and self.leaf(x)
            else _place(self.axis, x, d, w, self.out_tree, k, sum_match)
            for k, (x, d, w) in enumerate(zip(outs, found, self.wanted, strict=True))
        ]


def _lying(leaves: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """How the mapped axes lie over mesh axes of explicit type, as AxisData has it. ValueError if
    they lie differently."""
    if not said[0]:
        return None
    mapped = [
        (typeof(x), d) for x, d in zip(leaves, dims, strict=True) if d is not None and _has_axes(x)
    ]
    found = said_by([a for a, _ in mapped])
    if found is None:
        return None
    parts = [parts_of(a)[d] for a, d in mapped]
    for part in parts:
        if part != parts[0]:
            raise ValueError(
                "Mapped away dimension of inputs passed to vmap should be sharded the same. Got "
                f"inconsistent axis specs: {parts[0]} vs {part}. Fix: jax.reshard one of them."
            )
    return None if parts[0] is None else (found, parts[0])


def _has_axes(x: Any) -> bool:
    return hasattr(typeof(x), "shape")


def _restated(name: str, way: int, values: Any, axes: Any, *size: int) -> Any:
    """`values` with those of mapped_types as their elements (way 0) or made of them (way 1)."""
    leaves, structure = tree.flatten(values, is_leaf=lambda x: type(x) in mapped_types)
    if not any(type(x) in mapped_types for x in leaves):
        return values
    along = tree.flatten_axes(name, structure, axes)
    return tree.unflatten(
        structure,
        [
            mapped_types[type(x)][way](x, a, *size)
            if a is not None and type(x) in mapped_types
            else x
            for x, a in zip(leaves, along, strict=True)
        ],
    )


def _is_value(x: Any) -> bool:
    """A number or an array where an axis should stand."""
    return type(x) is not int and (isinstance(x, int | float | complex) or hasattr(x, "dtype"))


def _check_result(x: Any) -> None:
    try:
        typeof(x)
    except TypeError:
        raise TypeError(
            f"Output from batched function {x!r} with type {type(x)} is not a valid JAX type"
        ) from None


def canonical_mapped(fun: Any, k: int, x: Any, axis: Any, args: Any, kwargs: Any) -> int | None:
    """The mapped axis of a leaf, from the front."""
    if axis is None:
        return None
    if not isinstance(axis, int):
        raise _wrong_axis("in_axes", axis)
    shape = typeof(x).shape
    if not -len(shape) <= axis < len(shape):
        needed = axis + 1 if axis >= 0 else -axis
        raise ValueError(
            f"vmap was requested to map its argument along axis {axis}, which implies that its "
            f"rank should be at least {needed}, "
            f"but is only {len(shape)} (its shape is {shape}). It is argument "
            f"{argument_name(debug_info('vmap', fun, args, kwargs), k)}. "
            "Fix: in_axes=None passes it whole."
        )
    return axis % len(shape)


def _wrong_axis(which: str, axes: Any) -> TypeError:
    return TypeError(
        f"vmap {which} must be an int, None, or (nested) container with those types as leaves, but "
        f"got {axes!r}."
    )


def mapped_size(
    fun: Any, leaves: Any, dims: Any, axis_size: int | None, args: Any, kwargs: Any
) -> int:
    sizes = {typeof(x).shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None}
    if len(sizes) == 1 and axis_size in (None, next(iter(sizes))):
        return next(iter(sizes))  # type: ignore[no-any-return]
    if not sizes:
        if axis_size is None:
            raise ValueError(
                "vmap must have at least one non-None value in in_axes or axis_size must be "
                "specified"
                if leaves
                else "vmap wrapped function must be passed at least one argument containing an "
                f"array or axis_size must be specified, got empty *args={args} and "
                f"**kwargs={kwargs}"
            )
        return axis_size
    raise _inconsistent_sizes(fun, leaves, dims, axis_size, args, kwargs)


def _inconsistent_sizes(
    fun: Any, leaves: Any, dims: Any, axis_size: int | None, args: Any, kwargs: Any
) -> ValueError:
    """Says which sizes there are, the most frequent first, with an argument that has each."""
    info = debug_info("vmap", fun, args, kwargs)
    paths = [path for path, _ in tree.flatten_with_path(kwargs)[0]]
    by_size: dict[int, list[str]] = {}
    for k, (x, d) in enumerate(zip(leaves, dims, strict=True)):
        if d is None:
            continue
        keyword = k - (len(leaves) - len(paths))
        name = (
            f"argument {argument_name(info, k)}"
            if keyword < 0
            else f"kwargs{tree.keystr(paths[keyword])}"
        )
        aval = typeof(x)
        by_size.setdefault(aval.shape[d], []).append(
            f"axis {d} of {name} of type {aval.str_short()}"
        )
    lines = [] if axis_size is None else [f"  * the `axis_size` argument was {axis_size}"]
    many = "most"
    for size, axes in sorted(by_size.items(), key=lambda item: -len(item[1])):
        if len(axes) == 1:
            lines.append(f"  * one axis had size {size}: {axes[0]}")
        else:
            lines.append(f"  * {many} axes ({len(axes)} of them) had size {size}, e.g. {axes[0]}")
        many = "some"
    fix = (
        "mapped axes must be equally long; in_axes=None passes an argument whole."
        if len(by_size) > 1
        else "leave out axis_size."
    )
    return ValueError(
        "vmap got inconsistent sizes for array axes to be mapped:\n"
        + ";\n".join(lines)
        + f"\nFix: {fix}"
    )


def _place(
    axis: AxisData, x: Any, have: int | None, want: Any, out_tree: Any, k: int, sum_match: bool
) -> Any:
    """The k-th result, with its mapped axis where it is wanted; summed over it (`sum_match`) where
    none is."""
    if want is None:
        if have is not None and sum_match:
            return reduce_sum(x, (have,))
        if have is not None:
            fix = "Fix: give that output an axis in out_axes, or reduce over it in the function."
            if axis.name is not None:
                raise ValueError(
                    f"vmap has mapped output (axis_name={axis.name}) but out_axes is None. {fix}"
                )
            numbered = tree.unflatten(out_tree, range(out_tree.num_leaves))
            path = tree.keystr(tree.flatten_with_path(numbered)[0][k][0])
            raise ValueError(
                f"at vmap out_axes{path}, got axis spec None but output was batched on axis "
                f"{have}. {fix}"
            )
        return x
    if not isinstance(want, int):
        raise _wrong_axis("out_axes", want)
    ndim = len(typeof(x).shape) + (have is None)
    if not -ndim <= want < ndim:
        raise ValueError(
            f"axis {want} is out of bounds for array of dimension {ndim}: vmap out_axes does not "
            f"fit an output of rank {ndim - 1}. Fix: use an axis from {-ndim} to {ndim - 1}."
        )
    return matchaxis(axis.size, have, want % ndim, x, axis.lies)
