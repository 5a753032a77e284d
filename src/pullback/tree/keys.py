"""Key-path entries: one hashable, immutable object per step from a tree's root to a leaf."""

from __future__ import annotations

from typing import Any


class _Key:
    """Shared behaviour: one read-only value, compared and hashed together with the class."""

    __slots__ = ("_value",)
    __match_args__: tuple[str, ...] = ()

    _value: Any

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._value == other._value)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__match_args__[0]}={self._value!r})"


class SequenceKey(_Key):
    """Position in a list or tuple; prints as ``[2]``.

    >>> pb.tree_util.keystr((pb.tree_util.SequenceKey(2),))
    '[2]'
    """

    __slots__ = ()
    __match_args__ = ("idx",)

    def __init__(self, idx: int) -> None:
        if not isinstance(idx, int):
            raise TypeError(f"SequenceKey: idx must be an int, got {type(idx).__name__}")
        self._value = idx

    @property
    def idx(self) -> int:
        return self._value  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return f"[{self._value!r}]"


class DictKey(_Key):
    """Key of a dict; prints as ``['name']``.

    >>> pb.tree_util.keystr((pb.tree_util.DictKey("name"),))
    "['name']"
    """

    __slots__ = ()
    __match_args__ = ("key",)

    def __init__(self, key: Any) -> None:
        self._value = key

    @property
    def key(self) -> Any:
        return self._value

    def __str__(self) -> str:
        return f"[{self._value!r}]"


class GetAttrKey(_Key):
    """Attribute of a named tuple, dataclass or registered class; prints as ``.name``.

    >>> pb.tree_util.keystr((pb.tree_util.GetAttrKey("name"),))
    '.name'
    """

    __slots__ = ()
    __match_args__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"GetAttrKey: name must be a str, got {type(name).__name__}")
        self._value = name

    @property
    def name(self) -> str:
        return self._value  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return f".{self._value}"


class FlattenedIndexKey(_Key):
    """Child number of a class registered without keys; prints as ``[<flat index 2>]``.

    >>> pb.tree_util.keystr((pb.tree_util.FlattenedIndexKey(2),))
    '[<flat index 2>]'
    """

    __slots__ = ()
    __match_args__ = ("key",)

    def __init__(self, key: int) -> None:
        if not isinstance(key, int):
            raise TypeError(f"FlattenedIndexKey: key must be an int, got {type(key).__name__}")
        self._value = key

    @property
    def key(self) -> int:
        return self._value  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return f"[<flat index {self._value}>]"


KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A key path as text.

    `simple=True` leaves out brackets, quotes and dots; `separator` goes between the entries.

    >>> path, leaf = tree.leaves_with_path({"w": [1.0]})[0]
    >>> pb.tree_util.keystr(path), pb.tree_util.keystr(path, simple=True, separator="/")
    ("['w'][0]", 'w/0')
    """
    if not simple:
        return separator.join(map(str, keys))
    return separator.join(str(k._value) if isinstance(k, _Key) else str(k) for k in keys)
