"""Making classes pytree nodes, and `Partial`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from pullback.tree.engine import default_registry
from pullback.tree.keys import FlattenedIndexKey

Cls = TypeVar("Cls", bound=type)


def _check_type(function: str, nodetype: Any) -> None:
    if not isinstance(nodetype, type):
        raise TypeError(f"{function}: expected a class, got {nodetype!r}")


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make `nodetype` an interior node.

    `flatten_func(x)` returns `(children, aux_data)`, `unflatten_func(aux_data, children)` the
    inverse; `flatten_with_keys_func` returns `((key, child) pairs, aux_data)`. `aux_data` must be
    hashable and comparable. ValueError when the type is registered already.

    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> pb.tree_util.register_pytree_node(
    ...     Pair, lambda p: ((p.x, p.y), None), lambda _, children: Pair(*children))
    >>> tree.leaves(Pair(1, [2, 3]))
    [1, 2, 3]
    """
    _check_type("register_pytree_node", nodetype)
    default_registry.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_node_class(cls: Cls) -> Cls:
    """Class decorator: a node by its `tree_flatten` and classmethod `tree_unflatten`.

    >>> @pb.tree_util.register_pytree_node_class
    ... class Scaled:
    ...     def __init__(self, value, scale):
    ...         self.value, self.scale = value, scale
    ...     def tree_flatten(self):
    ...         return (self.value,), self.scale
    ...     @classmethod
    ...     def tree_unflatten(cls, scale, children):
    ...         return cls(*children, scale)
    >>> tree.map(lambda x: x + 1, Scaled(1, "m")).value
    2
    """
    _check_type("register_pytree_node_class", cls)
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Like `register_pytree_node`, with keys first; `flatten_func` is only the faster way.

    >>> class Box:
    ...     def __init__(self, inside):
    ...         self.inside = inside
    >>> key = pb.tree_util.GetAttrKey("inside")
    >>> pb.tree_util.register_pytree_with_keys(
    ...     Box, lambda b: (((key, b.inside),), None), lambda _, children: Box(*children))
    >>> pb.tree_util.keystr(tree.leaves_with_path(Box([7]))[0][0])
    '.inside[0]'
    """
    _check_type("register_pytree_with_keys", nodetype)
    if flatten_func is None:

        def flatten_func(x: Any) -> tuple[Iterable[Any], Any]:
            pairs, aux_data = flatten_with_keys(x)
            return [child for _, child in pairs], aux_data

    register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: Cls) -> Cls:
    """Class decorator: a node by its methods `tree_flatten_with_keys` and `tree_unflatten`.

    >>> @pb.tree_util.register_pytree_with_keys_class
    ... class Box:
    ...     def __init__(self, inside):
    ...         self.inside = inside
    ...     def tree_flatten_with_keys(self):
    ...         return ((pb.tree_util.GetAttrKey("inside"), self.inside),), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children):
    ...         return cls(*children)
    >>> tree.leaves_with_path(Box(7))
    [((GetAttrKey(name='inside'),), 7)]
    """
    _check_type("register_pytree_with_keys_class", cls)
    flatten_func = (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(
        cls,
        lambda x: x.tree_flatten_with_keys(),
        cls.tree_unflatten,  # type: ignore[attr-defined]
        flatten_func,
    )
    return cls


def register_dataclass(
    nodetype: Cls,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Cls:
    """Make a dataclass a node: `data_fields` are children, `meta_fields` static data.

    Without the two lists, fields whose metadata say `static=True` (see `tree.static`) are static
    and all others are children. Fields in `drop_fields` are left out and must have defaults.
    TypeError and ValueError when the lists do not fit the class.

    >>> from dataclasses import dataclass
    >>> @pb.tree_util.register_dataclass
    ... @dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> tree.map(lambda v: v * 10, Point(1, 2))
    Point(x=10, y=20)
    """
    if (data_fields is None) != (meta_fields is None):
        raise TypeError(
            "register_dataclass: data_fields and meta_fields must both be specified when either is "
            f"specified. Got data_fields={data_fields!r} meta_fields={meta_fields!r}."
        )
    is_dataclass = isinstance(nodetype, type) and dataclasses.is_dataclass(nodetype)
    if data_fields is None or meta_fields is None:
        if not is_dataclass:
            raise TypeError(
                "register_dataclass: data_fields and meta_fields are required when nodetype is not "
                f"a dataclass. Got nodetype={nodetype!r}."
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
        data_fields = [f.name for f in fields if f.name not in meta_fields]
    _check_type("register_dataclass", nodetype)
    both = set(data_fields) & set(meta_fields)
    if both:
        raise ValueError(
            f"data_fields and meta_fields must not overlap. Overlapping fields: {both}."
        )
    if is_dataclass:
        _check_fields(nodetype, {*data_fields, *meta_fields}, set(drop_fields))
    default_registry.register_dataclass_node(nodetype, data_fields, meta_fields)
    return nodetype


def _check_fields(nodetype: Any, listed: set[str], dropped: set[str]) -> None:
    present = {f.name for f in dataclasses.fields(nodetype) if f.init} - dropped
    missing, unexpected = present - listed, listed - present
    demand = (
        "data_fields and meta_fields must include all dataclass fields with ``init=True`` and only "
        "them."
    )
    if missing:
        demand += f" Missing fields: {missing}. Add them to drop_fields to suppress this error."
    if unexpected:
        demand += f" Unexpected fields: {unexpected}."
    if missing or unexpected:
        raise ValueError(demand)


def register_static(cls: Cls) -> Cls:
    """Class decorator: instances are nodes without leaves, kept whole in the structure.

    They must be hashable and comparable: under jit they are part of the compilation key.

    >>> @pb.tree_util.register_static
    ... class Mode(str):
    ...     pass
    >>> tree.leaves((1, Mode("train")))
    [1]
    """
    _check_type("register_static", cls)
    register_pytree_node(cls, lambda x: ((), x), lambda x, _: x, lambda x: ((), x))
    return cls


def static(**kwargs: Any) -> Any:
    """``dataclasses.field(**kwargs)`` marked static for `register_dataclass`.

    >>> from dataclasses import dataclass
    >>> @pb.tree_util.register_dataclass
    ... @dataclass
    ... class Layer:
    ...     weight: float
    ...     name: str = tree.static(default="dense")
    >>> tree.leaves(Layer(2.0))
    [2.0]
    """
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **kwargs)


class _WholeCallable:
    """Stands for a `functools.partial` that must not be merged into the Partial around it."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun

    func = property(lambda self: self.fun.func)
    args = property(lambda self: self.fun.args)
    keywords = property(lambda self: self.fun.keywords)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self.fun)

    def __eq__(self, other: object) -> bool:
        return bool(self.fun == (other.fun if isinstance(other, _WholeCallable) else other))

    def __repr__(self) -> str:
        return f"_WholeCallable({self.fun!r})"


class Partial(functools.partial):  # type: ignore[type-arg]
    """`functools.partial` that is a pytree: its arguments are children, its function static data.

    So it passes through jit, vmap and control flow as an argument. An inner partial stays whole:
    its arguments are static.

    >>> add_one = pb.tree_util.Partial(jnp.add, 1)
    >>> pb.jit(lambda f, x: f(x))(add_one, 2.0)
    Array(3., dtype=float32, weak_type=True)
    """

    # Where users find it, as pickles and, from Python 3.13 on, `repr` say.
    __module__ = "pullback.tree_util"

    def __new__(cls, func: Callable[..., Any], *args: Any, **kw: Any) -> Partial:
        if isinstance(func, functools.partial):
            func = _WholeCallable(func)
        return super().__new__(cls, func, *args, **kw)


def _partial_unflatten(func: Any, children: Any) -> Partial:
    args, keywords = children
    return Partial(func, *args, **keywords)


register_pytree_node(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    _partial_unflatten,
    lambda p: (
        ((FlattenedIndexKey(0), p.args), (FlattenedIndexKey(1), p.keywords)),
        p.func,
    ),
)
