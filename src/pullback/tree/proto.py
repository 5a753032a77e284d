"""Structures as bytes: the protocol-buffer message that `PyTreeDef.serialize_using_proto` writes.

::

    message PyTreeDef { repeated Node nodes = 1; repeated string interned_strings = 2; }
    message Node      { uint32 arity = 1; Kind kind = 2; DictData dict_data = 3; }
    message DictData  { repeated uint32 string_ids = 1; }   // packed
    enum Kind         { LEAF = 1; LIST = 2; NONE = 3; TUPLE = 4; DICT = 5; }

Nodes are in post-order. Only None, lists, tuples and dicts with string keys can be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Any

Node = Any  # as in registry

_LEAF_KIND = 1
_KINDS = {list: 2, NoneType: 3, tuple: 4, dict: 5}
_TYPES = {kind: cls for cls, kind in _KINDS.items()}


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _block(field: int, payload: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(payload)) + payload


def dumps(node: Node) -> bytes:
    """A structure as bytes; ValueError when it holds registered classes or non-string keys."""
    strings: dict[str, int] = {}
    nodes: list[bytes] = []

    def write(node: Node) -> None:
        if node is None:
            nodes.append(_block(1, b"\x10" + _varint(_LEAF_KIND)))
            return
        cls, data, kids = node
        if cls not in _KINDS:
            raise ValueError(
                f"cannot serialize a PyTreeDef with a {cls.__name__} node: only None, tuples, "
                "lists and dicts with string keys have a byte form. Convert the node to one of "
                "these, or use pickle."
            )
        for kid in kids:
            write(kid)
        payload = b"\x08" + _varint(len(kids)) if kids else b""
        payload += b"\x10" + _varint(_KINDS[cls])
        if cls is dict and data:
            for key in data:
                if not isinstance(key, str):
                    raise ValueError(
                        f"cannot serialize a PyTreeDef with the dict key {key!r}: only strings can "
                        "be keys there. Use string keys, or pickle."
                    )
            ids = b"".join(_varint(strings.setdefault(key, len(strings))) for key in data)
            payload += _block(3, _block(1, ids))
        nodes.append(_block(1, payload))

    write(node)
    return b"".join(nodes) + b"".join(_block(2, s.encode()) for s in strings)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("not a serialized PyTreeDef: the data end inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        value, at = _read_varint(data, at)
        if tag & 7 == 0:
            yield tag >> 3, value
        elif tag & 7 == 2:
            if at + value > len(data):
                raise ValueError("not a serialized PyTreeDef: the data end inside a field")
            yield tag >> 3, data[at : at + value]
            at += value
        else:
            raise ValueError(f"not a serialized PyTreeDef: wire type {tag & 7}")


def _block_field(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("not a serialized PyTreeDef: a number where a message must stand")
    return value


def _string_ids(data: bytes) -> list[int]:
    ids: list[int] = []
    for number, value in _fields(data):
        if number != 1:
            continue
        if isinstance(value, int):
            ids.append(value)
            continue
        at = 0
        while at < len(value):
            string_id, at = _read_varint(value, at)
            ids.append(string_id)
    return ids


def loads(data: bytes) -> Node:
    """The inverse of `dumps`; ValueError for anything else."""
    if not isinstance(data, bytes):
        raise TypeError(f"deserialize_using_proto: data must be bytes, got {type(data).__name__}")
    top = [(number, _block_field(value)) for number, value in _fields(data)]
    strings = [value.decode() for number, value in top if number == 2]
    stack: list[Node] = []
    for number, block in top:
        if number != 1:
            continue
        fields = dict(_fields(block))
        arity, kind = fields.get(1, 0), fields.get(2, 0)
        if kind == _LEAF_KIND:
            stack.append(None)
            continue
        if kind not in _TYPES or not isinstance(arity, int) or arity > len(stack):
            raise ValueError(f"not a serialized PyTreeDef: node kind {kind}, arity {arity}")
        kids = tuple(stack[len(stack) - arity :])
        del stack[len(stack) - arity :]
        keys = None
        if _TYPES[kind] is dict:
            ids = _string_ids(_block_field(fields.get(3, b"")))
            if any(i >= len(strings) for i in ids):
                raise ValueError("not a serialized PyTreeDef: a dict key is missing")
            keys = tuple(strings[i] for i in ids)
            if len(keys) != arity:
                raise ValueError(f"not a serialized PyTreeDef: {len(keys)} keys, arity {arity}")
        stack.append((_TYPES[kind], keys, kids))
    if len(stack) != 1:
        raise ValueError(f"not a serialized PyTreeDef: {len(stack)} roots")
    return stack[0]
