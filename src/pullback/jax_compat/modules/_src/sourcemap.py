"""`jax._src.sourcemap`: which places of generated text come from which places of sources, in the
format (version 3) that browsers' tools read."""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ....records import record

Segment = tuple[int, ...]
Mappings = Sequence[Sequence[Segment]]

VLQ_SIGN_MASK = 0x1
VLQ_MORE_MASK = 0x20
VLQ_VALUE_MASK = 0x1F
VLQ_VALUE_BITWIDTH = 5
VLQ_ALPHABET = list(
    (string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/").encode()
)


def make_vlq_decode_table() -> list[int | None]:
    """The value of each byte that is a digit."""
    table: list[int | None] = [None] * 256
    for value, byte in enumerate(VLQ_ALPHABET):
        table[byte] = value
    return table


VLQ_DECODE_TABLE = make_vlq_decode_table()


def encode_vlq(value: int) -> bytes:
    """A number as digits of five bits, the lowest first; its sign is the lowest bit."""
    rest = abs(value) << 1 | (value < 0)
    out = bytearray()
    while True:
        digit, rest = rest & VLQ_VALUE_MASK, rest >> VLQ_VALUE_BITWIDTH
        out.append(VLQ_ALPHABET[digit | (VLQ_MORE_MASK if rest else 0)])
        if not rest:
            return bytes(out)


def decode_vlq(enc: Iterable[int]) -> int:
    """The number that digits begin with. Raises StopIteration if they end before it does."""
    digits: Iterator[int] = iter(enc)
    value: int = 0
    shift = 0
    while True:
        digit: Any = VLQ_DECODE_TABLE[next(digits)]
        value |= (digit & VLQ_VALUE_MASK) << shift
        shift += VLQ_VALUE_BITWIDTH
        if not digit & VLQ_MORE_MASK:
            return -(value >> 1) if value & VLQ_SIGN_MASK else value >> 1


def encode_segment(seg: Segment) -> bytes:
    """The numbers of a segment as digits."""
    return b"".join(map(encode_vlq, seg))


def decode_segment(enc: Iterable[int]) -> Segment:
    """The numbers that digits stand for."""
    rest, out = list(enc), []
    digits = iter(rest)
    while digits.__length_hint__():  # type: ignore[attr-defined]
        out.append(decode_vlq(digits))
    return tuple(out)


def serialize_mappings(mappings: Mappings) -> str:
    """Segments, line by line, as text."""
    return ";".join(
        ",".join(encode_segment(seg).decode("ascii") for seg in group) for group in mappings
    )


def deserialize_mappings(mappings_str: str) -> Mappings:
    """The segments of text, line by line."""
    return [
        [decode_segment(seg.encode("ascii")) for seg in group.split(",") if seg]
        for group in mappings_str.split(";")
    ]


@record(eq=True)
class SourceMap:
    """A source map: the names of sources, their text, and the segments of each line."""

    version: int
    sources: Sequence[str]
    sources_content: Sequence[str]
    names: Sequence[str]
    mappings: Mappings

    @classmethod
    def from_json(cls, json_data: str) -> SourceMap:
        """The map of a file's text. Raises KeyError for entries that lack."""
        data = json.loads(json_data)
        return cls(
            version=data["version"],
            sources=data["sources"],
            sources_content=data["sourcesContent"],
            names=data["names"],
            mappings=deserialize_mappings(data["mappings"]),
        )

    def to_json(self) -> str:
        """The map as a file's text."""
        return json.dumps(
            {
                "version": self.version,
                "sources": self.sources,
                "sourcesContent": self.sources_content,
                "names": self.names,
                "mappings": serialize_mappings(self.mappings),
            }
        )


class MappingsGenerator:
    """Makes the mappings of segments that are given by absolute numbers: (column), (column, source,
    line, column there) or these with the number of a name."""

    def __init__(self) -> None:
        self._last = [0, 0, 0, 0, 0]
        self._mappings: list[list[Segment]] = []

    def new_group(self) -> None:
        """Begins a line."""
        self._last[0] = 0
        self._mappings.append([])

    def new_segment(self, *seg: int) -> None:
        """Adds a segment to the line. Raises IndexError for one of no numbers."""
        if not seg:
            raise IndexError("a segment has at least one number, its column")
        self._mappings[-1].append(tuple(a - b for a, b in zip(seg, self._last, strict=False)))
        self._last[: len(seg)] = seg

    def mappings(self) -> Mappings:
        """The segments so far."""
        return self._mappings
