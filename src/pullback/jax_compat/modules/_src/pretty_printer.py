"""`jax._src.pretty_printer`: documents of text that break where they do not fit on a line."""

from __future__ import annotations

import enum
import functools
import os
import sys
from collections.abc import Iterable
from typing import Any

from ....core.documents import (
    Break,
    Colored,
    Concat,
    Doc as Doc,
    Group,
    Link,
    Nest,
    OutputFormat as OutputFormat,
    Sourced,
    Text,
    join as join,
)


class Color(enum.IntEnum):
    """Colours of a terminal, as ANSI codes number them."""

    BLACK = 30
    RED = 31
    GREEN = 32
    YELLOW = 33
    BLUE = 34
    MAGENTA = 35
    CYAN = 36
    WHITE = 37
    RESET = 39


class Intensity(enum.IntEnum):
    """How bright text is, as ANSI codes number it."""

    NORMAL = 22
    DIM = 2
    BRIGHT = 1


def _can_use_color() -> bool:
    """Does the output take colours: a terminal, or a notebook's cell?"""
    if "google.colab" in sys.modules:
        return True
    stream = getattr(sys.stdout, "isatty", None)
    return bool(stream and stream()) and os.environ.get("TERM", "dumb") != "dumb"


CAN_USE_COLOR = _can_use_color()


def nil() -> Doc:
    """Nothing."""
    return Concat([])


def text(
    text: str, annotation: str | None = None, anchor: str | None = None, href: str | None = None
) -> Doc:
    """Text that never breaks, with a comment for the end of its line; in HTML it is the anchor of a
    name, and refers to another."""
    if not isinstance(text, str):
        raise TypeError(f"text() takes a str, not {type(text).__name__}")
    link = None if anchor is None and href is None else Link(anchor, href)
    return Text(text, None, annotation, link)


def concat(children: Iterable[Doc]) -> Doc:
    """Documents one after the other."""
    return Concat(children)


def brk(text: str = " ") -> Doc:
    """A new line; `text` instead where its group is on one line."""
    return Break(text)


def group(doc: Doc) -> Doc:
    """A document that is on one line if it fits."""
    return Group(doc)


def nest(n: int, doc: Doc) -> Doc:
    """A document whose new lines are indented by `n` more."""
    return Nest(n, doc)


def color(
    child: Doc,
    foreground: Color | None = None,
    background: Color | None = None,
    intensity: Intensity | None = None,
) -> Doc:
    """A document in colours."""
    back = None if background is None else str(int(background) + 10)
    front, bright = (None if c is None else str(int(c)) for c in (foreground, intensity))
    return Colored(child, (front, back, bright))


def source_map(doc: Doc, source: Any) -> Doc:
    """A document that was made of something, which `format(source_map=...)` tells."""
    return Sourced(doc, source)


keyword = functools.partial(color, intensity=Intensity.BRIGHT, foreground=Color.BLUE)
type_annotation = functools.partial(color, foreground=Color.MAGENTA)
