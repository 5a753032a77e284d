"""The pytree engine: flattening, unflattening, and `PyTreeDef`. What counts as a node: `registry`.

A tree's structure is held as nested plain tuples, so that equality and hashing run in C::

    node = None                        a leaf
         | (type, data, children)      children: a tuple of nodes

`data` is None for None, tuples, lists and named tuples, the sorted keys for a dict, and whatever
the flatten function returned for a registered class. `flatten_raw` returns such a node; `PyTreeDef`
is the public wrapper around one.

Why not a C++ pytree library: on this representation plain Python flattens faster than optree (0.4
against 0.9 us for three floats, 25 against 38 us for 50 two-entry dicts); it rebuilds two to three
times slower (0.4 against 0.2 us), but `compile_unflatten` faster (0.1 us). It costs no import time
and gives the semantics wanted here, which optree does not offer: deque and struct sequences are
leaves, dicts come back in key order, unsortable keys are an error, and a dict is not
interchangeable with an OrderedDict.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from types import NoneType
from typing import Any

from pullback.tree import proto
from pullback.tree.keys import FlattenedIndexKey, GetAttrKey
from pullback.tree.registry import (
    LEAF,
    Node,
    Registration,
    checked_pair,
    dataclass_fields,
    entries,
    flatten_other,
    flatteners,
    is_namedtuple,
    one_level,
    one_level_with_keys,
    register,
)

__all__ = [
    "PyTreeDef", "PyTreeRegistry", "build", "compile_unflatten", "count_leaves", "count_nodes",
    "default_registry", "flatten", "flatten_leaves", "flatten_raw", "flatten_up_to",
    "flatten_with_path", "unflatten", "unflatten_raw",
]  # fmt: skip


def _says_leaf(answer: Any) -> bool:
    if answer is None or answer is False:
        return False
    if answer is True:
        return True
    # NumPy's bool is no bool, but means one
    if type(answer).__name__ in ("bool", "bool_") and type(answer).__module__ == "numpy":
        return bool(answer)
    raise ValueError(f"is_leaf must return True or False, got {answer!r}")


def _flatten_until(tree: Any, is_leaf: Callable[[Any], bool], leaves: list[Any]) -> Node:
    level = None if _says_leaf(is_leaf(tree)) else one_level(tree)
    if level is None:
        leaves.append(tree)
        return LEAF
    cls, data, children = level
    return (cls, data, tuple([_flatten_until(x, is_leaf, leaves) for x in children]))


def flatten_raw(tree: Any) -> tuple[list[Any], Node]:
    """Leaves and raw structure: the hot path.

    The node is a plain nested tuple, a cache key as it stands. Hashing it raises TypeError when a
    registered class has unhashable static data; `PyTreeDef(node, len(leaves))` always hashes.
    """
    leaves: list[Any] = []
    handler = flatteners.get(type(tree), flatten_other)
    if handler is None:
        return [tree], None
    return leaves, handler(tree, leaves)


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], PyTreeDef]:
    """Leaves of `tree` in order, and its structure."""
    if is_leaf is None:
        leaves, node = flatten_raw(tree)
    else:
        _check_predicate(is_leaf)
        leaves = []
        node = _flatten_until(tree, is_leaf, leaves)
    return leaves, PyTreeDef(node, len(leaves))


def flatten_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Leaves only."""
    if is_leaf is None:
        return flatten_raw(tree)[0]
    return flatten(tree, is_leaf)[0]


def _check_predicate(is_leaf: Any) -> None:
    if not callable(is_leaf):
        raise TypeError(f"is_leaf must be a function of one node, got {type(is_leaf).__name__}")


def flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[tuple[Any, ...], Any]], PyTreeDef]:
    """`(key path, leaf)` pairs in leaf order, and the structure."""
    if is_leaf is not None:
        _check_predicate(is_leaf)
    out: list[tuple[tuple[Any, ...], Any]] = []
    says_leaf = is_leaf
    if is_leaf is not None and not is_leaf_takes_path:
        says_leaf = lambda path, x: is_leaf(x)
    node = _flatten_with_path((), tree, says_leaf, out)
    return out, PyTreeDef(node, len(out))


def _flatten_with_path(
    path: tuple[Any, ...], x: Any, is_leaf: Callable[..., bool] | None, out: list[Any]
) -> Node:
    # Not a closure: one that calls itself is a reference cycle, which keeps the leaves alive.
    known = is_leaf is not None and _says_leaf(is_leaf(path, x))
    level = None if known else one_level_with_keys(x)
    if level is None:
        out.append((path, x))
        return LEAF
    cls, data, pairs = level
    kids = [_flatten_with_path((*path, key), child, is_leaf, out) for key, child in pairs]
    return (cls, data, tuple(kids))


# -- unflattening ------------------------------------------------------------------------------


def build(cls: type, data: Any, children: list[Any]) -> Any:
    """Put one node together again from its children."""
    if cls is tuple:
        return tuple(children)
    if cls is dict:
        return dict(zip(data, children, strict=True))
    if cls is list:
        return children
    entry = entries.get(cls)
    if entry is not None:
        return entry.from_iter(data, tuple(children))
    return cls(*children)  # a named tuple


def _unflatten(node: Node, leaves: Iterator[Any]) -> Any:
    cls, data, kids = node
    if not any(kids):  # leaves only: no list in between
        if cls is dict:
            return dict(zip(data, leaves))  # keys first: zip then takes no leaf too many
        if cls is tuple:
            return tuple(islice(leaves, len(kids)))
        return build(cls, data, list(islice(leaves, len(kids))))
    children = [next(leaves) if k is None else _unflatten(k, leaves) for k in kids]
    if cls is tuple:
        return tuple(children)
    if cls is list:
        return children
    return build(cls, data, children)


def unflatten_raw(node: Node, leaves: Iterable[Any]) -> Any:
    """Rebuild from a raw node; the caller vouches for the number of leaves."""
    if node is None:
        return next(iter(leaves))
    return _unflatten(node, iter(leaves))


def compile_unflatten(node: Node) -> Callable[[Sequence[Any]], Any]:
    """`unflatten_raw` for one structure as generated code, for callers that use it many times.

    The result takes a sequence of exactly the right number of leaves. Generating costs some 0.1 ms.
    """
    count = count_leaves(node)
    if count > 2000 or _depth(node) > 40:  # the parser's limits on nesting, and its time
        return lambda leaves: unflatten_raw(node, leaves)
    names = iter(range(count))
    env: dict[str, Any] = {"build": build}

    def constant(value: Any) -> str:
        name = f"c{len(env)}"
        env[name] = value
        return name

    def expression(node: Node) -> str:
        if node is None:
            return f"x{next(names)}"
        cls, data, kids = node
        parts = [expression(k) for k in kids]
        if cls is NoneType:
            return "None"
        if cls is dict:
            pairs = zip(map(constant, data), parts, strict=True)
            return "{" + ", ".join(f"{k}: {part}" for k, part in pairs) + "}"
        if cls is tuple:
            return "(" + "".join(f"{part}, " for part in parts) + ")"
        items = f"[{', '.join(parts)}]"
        return items if cls is list else f"build({constant(cls)}, {constant(data)}, {items})"

    body = expression(node)
    targets = ", ".join(f"x{i}" for i in range(count))
    exec(f"def rebuild(leaves):\n    [{targets}] = leaves\n    return {body}", env)
    return env["rebuild"]  # type: ignore[no-any-return]


def _depth(node: Node) -> int:
    return 0 if node is None else 1 + max(map(_depth, node[2]), default=0)


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of structure `treedef` with these leaves."""
    return treedef.unflatten(leaves)


# -- structure ---------------------------------------------------------------------------------


def count_leaves(node: Node) -> int:
    """Number of leaves below a node."""
    return 1 if node is None else sum(map(count_leaves, node[2]))


def count_nodes(node: Node) -> int:
    """Number of nodes, leaves and Nones included."""
    return 1 if node is None else 1 + sum(map(count_nodes, node[2]))


class _HashesItself(BaseException):
    """The hash of static data asks for the hash of the structure that holds the data."""


_HASH_DEPTH = 16  # of structures within the static data of structures, beyond which it is a circle
_hashing = threading.local()


def _without_data(node: Node) -> Node:
    if node is None:
        return None
    return (node[0], len(node[2]), tuple(map(_without_data, node[2])))


def _same_data(a: Any, b: Any, cls: type) -> bool:
    if a is b:
        return True
    try:
        return bool(a == b)
    except Exception as err:
        raise ValueError(
            "Exception raised while checking equality of metadata fields of pytree. Make sure that "
            "metadata fields are hashable and have simple equality semantics: comparing those of "
            f"two {cls.__name__} nodes raised {type(err).__name__}: {err}. Arrays belong among the "
            "children."
        ) from err


def _same_node(a: Node, b: Node) -> bool:
    """Equality node by node, for when the comparison in C raised: to say which data is at fault."""
    if a is None or b is None:
        return a is b
    return (
        a[0] is b[0]
        and len(a[2]) == len(b[2])
        and _same_data(a[1], b[1], a[0])
        and all(map(_same_node, a[2], b[2]))
    )


def show(node: Node) -> str:
    """The text inside ``PyTreeDef(...)``."""
    if node is None:
        return "*"
    cls, data, kids = node
    parts = list(map(show, kids))
    if cls is NoneType:
        return "None"
    if cls is tuple:
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    if cls is list:
        return f"[{', '.join(parts)}]"
    if cls is dict:
        return "{" + ", ".join(f"{k!r}: {p}" for k, p in zip(data, parts, strict=True)) + "}"
    name = f"{cls.__name__}[{data}]" if cls in entries else f"namedtuple[{cls.__name__}]"
    return f"CustomNode({name}, [{', '.join(parts)}])"


def _up_to(node: Node, tree: Any, out: list[Any]) -> None:
    if node is None:
        out.append(tree)
        return
    cls, data, kids = node
    if type(tree) is not cls:
        raise ValueError(_other_type(cls, tree))
    level = one_level(tree)
    assert level is not None
    _, found, children = level
    if cls is dict and found != data:
        raise ValueError(
            f"Dict key mismatch; expected keys: {list(data)}; present keys: {list(found)}."
        )
    if cls is not dict and not _same_data(data, found, cls):
        what = "custom dataclass" if dataclass_fields(cls) else "custom"
        raise ValueError(f"Mismatch {what} node data: {data!r} != {found!r}; value: {tree!r}.")
    if len(children) != len(kids):
        name = cls.__name__ if cls in (list, tuple) else ""
        what, value = (name.capitalize(), name) if name else ("Custom type", "value")
        raise ValueError(
            f"{what} arity mismatch: {len(children)} != {len(kids)}; {value}: {tree!r}."
        )
    for kid, child in zip(kids, children, strict=True):
        if kid is None:
            out.append(child)
        else:
            _up_to(kid, child, out)


def _other_type(cls: type, tree: Any) -> str:
    """What is wrong with a tree where a prefix has a node of type `cls`."""
    if cls is NoneType:
        hint = "None is a node without leaves, not a leaf: to keep it as one, pass is_leaf=lambda "
        return f"Expected None, got {tree!r}. {hint}x: x is None."
    if cls in (list, tuple, dict):
        return f"Expected {cls.__name__}, got {tree!r}."
    if cls in entries:
        return f"Custom node type mismatch: expected type: {cls}, value: {tree!r}."
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return f"Named tuple type mismatch: expected type: {cls}, tuple: {tree!r}."
    return f"Expected named tuple, got {tree!r}."


def _a(cls: type) -> str:
    return "None" if cls is NoneType else f"a {cls.__name__}"


def flatten_up_to(node: Node, tree: Any) -> list[Any]:
    """The subtrees of `tree` at the leaves of `node`; ValueError when `node` is no prefix of it."""
    out: list[Any] = []
    _up_to(node, tree, out)
    return out


def _walk(
    node: Node,
    f_node: Callable[[Any, Any], Any],
    f_leaf: Callable[[Any], Any] | None,
    leaves: Iterator[Any],
) -> Any:
    if node is None:
        leaf = next(leaves)
        return leaf if f_leaf is None else f_leaf(leaf)
    cls, data, kids = node
    if cls is dict:
        data = list(data)
    elif cls not in entries:  # a named tuple is known by its class
        data = cls
    return f_node(tuple([_walk(k, f_node, f_leaf, leaves) for k in kids]), data)


def _from_iterables(node: Node, x: Any) -> Any:
    if node is None:
        return x
    cls, data, kids = node
    children = [] if cls is NoneType else list(x)
    if len(children) != len(kids):
        raise ValueError(f"expected {len(kids)} children for {_a(cls)}, got {x!r}")
    built = [_from_iterables(k, c) for k, c in zip(kids, children, strict=True)]
    return build(cls, data, built)


class PyTreeDef:
    """The structure of a pytree: what is left when its leaves are taken out.

    Hashable, comparable and picklable. Made by `tree.structure` and `tree.flatten`.

    >>> tree.structure({"a": 1, "b": None})
    PyTreeDef({'a': *, 'b': None})
    """

    __slots__ = ("__weakref__", "_hash", "node", "num_leaves")

    def __init__(self, node: Node, num_leaves: int) -> None:
        self.node = node
        self.num_leaves = num_leaves

    @property
    def num_nodes(self) -> int:
        """Number of nodes, leaves and Nones included."""
        return count_nodes(self.node)

    def unflatten(self, leaves: Iterable[Any], /) -> Any:
        """The tree of this structure with these leaves; ValueError when their number differs."""
        if type(leaves) is not list:
            try:
                leaves = list(leaves)
            except TypeError as err:
                if isinstance(leaves, Iterable):
                    raise
                raise TypeError(
                    f"unflatten: leaves must be iterable, got {type(leaves).__name__}"
                ) from err
        given, expected = len(leaves), self.num_leaves
        if given != expected:
            size = "few" if given < expected else "many"
            raise ValueError(f"Too {size} leaves for PyTreeDef; expected {expected}, got {given}")
        node = self.node
        return leaves[0] if node is None else _unflatten(node, iter(leaves))

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of `tree` at this structure's leaves; ValueError when it is no prefix."""
        return flatten_up_to(self.node, tree)

    def children(self) -> list[PyTreeDef]:
        """The structures of the root's children."""
        kids = () if self.node is None else self.node[2]
        return [PyTreeDef(k, count_leaves(k)) for k in kids]

    def node_data(self) -> tuple[type, Any] | None:
        """The root's type and static data; None for a leaf."""
        if self.node is None:
            return None
        cls, data, _ = self.node
        return cls, list(data) if cls is dict else data

    @staticmethod
    def from_node_data_and_children(
        registry: PyTreeRegistry, node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """The inverse of `node_data` and `children`."""
        del registry  # there is one registry; the argument is part of the public signature
        return make_treedef(node_data, children)

    def compose(self, inner: PyTreeDef, /) -> PyTreeDef:
        """This structure with `inner` in the place of every leaf."""
        if not isinstance(inner, PyTreeDef):
            raise TypeError(f"compose: expected a PyTreeDef, got {type(inner).__name__}")
        return PyTreeDef(_compose(self.node, inner.node), self.num_leaves * inner.num_leaves)

    def is_prefix(self, other: PyTreeDef, /) -> bool:
        """Whether `other` is this structure with subtrees in the place of some leaves."""
        return _is_prefix(self.node, other.node)

    def walk(
        self,
        f_node: Callable[[Any, Any], Any],
        f_leaf: Callable[[Any], Any] | None,
        leaves: Iterable[Any],
        /,
    ) -> Any:
        """Fold bottom-up: `f_leaf(leaf)` at leaves, `f_node(children, node_data)` at nodes."""
        values = list(leaves)
        if len(values) != self.num_leaves:
            size = "few" if len(values) < self.num_leaves else "many"
            raise ValueError(
                f"Too {size} leaves for PyTreeDef; expected {self.num_leaves}, got {len(values)}"
            )
        return _walk(self.node, f_node, f_leaf, iter(values))

    def from_iterable_tree(self, tree: Any, /) -> Any:
        """Rebuild from a tree in which every node is an iterable of its children."""
        return _from_iterables(self.node, tree)

    def serialize_using_proto(self) -> bytes:
        """The structure as bytes; ValueError with registered classes or non-string dict keys."""
        return proto.dumps(self.node)

    @staticmethod
    def deserialize_using_proto(registry: PyTreeRegistry, data: bytes) -> PyTreeDef:
        """The inverse of `serialize_using_proto`."""
        del registry  # as in from_node_data_and_children
        node = proto.loads(data)
        return PyTreeDef(node, count_leaves(node))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        try:
            return bool(self.node == other.node)
        except Exception:
            return _same_node(self.node, other.node)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            pass
        depth = getattr(_hashing, "depth", 0)
        if depth > _HASH_DEPTH:
            raise _HashesItself
        _hashing.depth = depth + 1
        try:
            self._hash: int = hash(self.node)
        except _HashesItself:
            if depth:
                raise  # to the outermost, whose answer must not depend on where it is asked
            return hash(_without_data(self.node))
        except Exception:  # static data that cannot be hashed, whatever its method raises
            self._hash = hash(_without_data(self.node))
        finally:
            _hashing.depth = depth
        return self._hash

    def __repr__(self) -> str:
        return f"PyTreeDef({show(self.node)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PyTreeDef, (self.node, self.num_leaves)


def _compose(node: Node, inner: Node) -> Node:
    if node is None:
        return inner
    return (node[0], node[1], tuple([_compose(k, inner) for k in node[2]]))


def _is_prefix(a: Node, b: Node) -> bool:
    if a is None:
        return True
    return (
        b is not None
        and a[0] is b[0]
        and len(a[2]) == len(b[2])
        and _same_data(a[1], b[1], a[0])
        and all(map(_is_prefix, a[2], b[2]))
    )


def make_treedef(node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]) -> PyTreeDef:
    """A structure from its root's type, static data and child structures."""
    subtrees = list(children)
    for child in subtrees:
        if not isinstance(child, PyTreeDef):
            raise TypeError(f"children must be PyTreeDefs, got {type(child).__name__}")
    if node_data is None:
        if subtrees:
            raise ValueError(f"a leaf has no children, got {len(subtrees)}")
        return PyTreeDef(LEAF, 1)
    cls, data = node_data
    if cls not in entries and not (isinstance(cls, type) and is_namedtuple(cls)):
        raise ValueError(f"{cls!r} is not a registered pytree node type")
    if cls is dict:
        data = tuple(data)
        if len(data) != len(subtrees):
            raise ValueError(f"got {len(data)} dict keys for {len(subtrees)} children")
    if cls is NoneType and subtrees:
        raise ValueError(f"None has no children, got {len(subtrees)}")
    node = (cls, data, tuple([c.node for c in subtrees]))
    return PyTreeDef(node, sum(c.num_leaves for c in subtrees))


class PyTreeRegistry:
    """The registry as an object. There is one, `default_registry`; its methods act on it."""

    def register_node(
        self,
        type: type,
        to_iterable: Callable[[Any], tuple[Iterable[Any], Any]],
        from_iterable: Callable[[Any, Any], Any],
        to_iterable_with_keys: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
    ) -> None:
        """Make `type` an interior node."""
        functions = {"flatten_func": to_iterable, "unflatten_func": from_iterable}
        if to_iterable_with_keys is not None:
            functions["flatten_with_keys_func"] = to_iterable_with_keys
        for what, function in functions.items():
            if not callable(function):
                raise TypeError(
                    f"register_pytree_node: incompatible function arguments: {what} of "
                    f"{type.__name__} must be a function, got {function!r}"
                )
        if to_iterable_with_keys is None:

            def to_iterable_with_keys(x: Any) -> tuple[Iterable[Any], Any]:
                children, data = checked_pair(to_iterable(x), type, "children")
                return [(FlattenedIndexKey(i), c) for i, c in enumerate(children)], data

        register(Registration(type, to_iterable, from_iterable, to_iterable_with_keys))

    def register_dataclass_node(
        self, type: type, data_fields: Sequence[str], meta_fields: Sequence[str], /
    ) -> None:
        """Make `type` a node whose children are the attributes `data_fields`."""
        data_names, meta_names = tuple(data_fields), tuple(meta_fields)

        def to_children(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            children = tuple([getattr(x, name) for name in data_names])
            return children, tuple([getattr(x, name) for name in meta_names])

        def to_pairs(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            pairs = tuple([(GetAttrKey(name), getattr(x, name)) for name in data_names])
            return pairs, tuple([getattr(x, name) for name in meta_names])

        def from_children(meta: tuple[Any, ...], children: tuple[Any, ...]) -> Any:
            fields = dict(zip(meta_names, meta, strict=True))
            fields.update(zip(data_names, children, strict=True))
            return type(**fields)

        entry = Registration(type, to_children, from_children, to_pairs)
        register(entry, (data_names, meta_names))

    def is_node(self, type: type) -> bool:
        """Whether instances of `type` are interior nodes."""
        return isinstance(type, _type) and (type in entries or is_namedtuple(type))

    def flatten(
        self, tree: Any, leaf_predicate: Callable[[Any], bool] | None = None
    ) -> tuple[list[Any], PyTreeDef]:
        """See `tree.flatten`."""
        return flatten(tree, leaf_predicate)

    def flatten_with_path(
        self, tree: Any, leaf_predicate: Callable[[Any, Any], bool] | None = None
    ) -> tuple[list[tuple[tuple[Any, ...], Any]], PyTreeDef]:
        """See `tree.flatten_with_path`; the predicate takes the path and the node."""
        return flatten_with_path(tree, leaf_predicate, True)

    def flatten_one_level(self, tree: Any) -> tuple[Iterable[Any], Any] | None:
        """Children and static data of the root; None for a leaf."""
        entry = entries.get(type(tree))
        if entry is not None:
            children, data = checked_pair(entry.to_iter(tree), entry.type, "children")
            return list(children), data
        return (list(tree), type(tree)) if is_namedtuple(type(tree)) else None

    def flatten_one_level_with_keys(self, tree: Any) -> tuple[Iterable[Any], Any] | None:
        """(key, child) pairs and static data of the root; None for a leaf."""
        entry = entries.get(type(tree))
        if entry is not None:
            return entry.to_pairs(tree)
        level = one_level_with_keys(tree)
        return None if level is None else (list(level[2]), level[0])


_type = type
default_registry = PyTreeRegistry()
