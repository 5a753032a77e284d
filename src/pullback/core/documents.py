"""A layout engine: documents of text that break where they do not fit on a line. Programs are
printed with it (show.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

WIDTH = 80
# Foreground, background and intensity as the numbers of ANSI codes; None is the terminal's own.
State = tuple[str | None, str | None, str | None]
_PLAIN: State = (None, None, None)
_RESETS = ("39", "49", "22")
COLORS: dict[str | None, State] = {
    None: _PLAIN,
    "keyword": ("34", None, "1"),
    "type": ("35", None, None),
}


class Doc:
    """A piece of text whose layout is not fixed. `flat` is its width on one line."""

    __slots__ = ("flat",)
    flat: int

    def format(
        self,
        width: int = WIDTH,
        *,
        use_color: bool | None = None,
        annotation_prefix: str = " # ",
        source_map: list[Any] | None = None,
    ) -> str:
        """The text. `source_map` is given, for each line, what `Sourced` documents cover: (first
        column, column after the last, source)."""
        lines = _Lines(bool(use_color))
        _layout(self, lines, width)
        if source_map is not None:
            source_map += lines.sources()
        return lines.finish(annotation_prefix)

    def __add__(self, other: Any) -> Doc:
        return Concat([self, other]) if isinstance(other, Doc) else NotImplemented

    def __str__(self) -> str:
        return self.format()

    def __repr__(self) -> str:
        return "nil"


class Text(Doc):
    """Text that never breaks; `note` is a comment for the end of its line."""

    __slots__ = ("color", "note", "text")

    def __init__(self, s: str, color: str | None = None, note: str | None = None) -> None:
        self.text, self.color, self.note = s, color, note
        self.flat = len(s)

    def __repr__(self) -> str:
        note = "" if self.note is None else f', annotation="{self.note}"'
        return f'text("{self.text}"{note})'


class Break(Doc):
    """A line break, or `text` in a group that is flat."""

    __slots__ = ("text",)

    def __init__(self, s: str = " ") -> None:
        self.text = s
        self.flat = len(s)

    def __repr__(self) -> str:
        return f'break("{self.text}")'


class Concat(Doc):
    """Documents one after the other."""

    __slots__ = ("docs",)

    def __init__(self, docs: Iterable[Doc]) -> None:
        self.docs = list(docs)
        self.flat = sum(d.flat for d in self.docs)

    def __repr__(self) -> str:
        return f"concat({', '.join(map(repr, self.docs))})"


class Group(Doc):
    """Its breaks are all spaces if it fits on the rest of the line, else all new lines."""

    __slots__ = ("doc",)

    def __init__(self, doc: Doc) -> None:
        self.doc = doc
        self.flat = doc.flat

    def __repr__(self) -> str:
        return f"group({self.doc!r})"


class Nest(Doc):
    """Its new lines are indented by `n` more."""

    __slots__ = ("doc", "n")

    def __init__(self, n: int, doc: Doc) -> None:
        self.n, self.doc = n, doc
        self.flat = doc.flat

    def __repr__(self) -> str:
        return f"nest({self.n}, {self.doc!r})"


class Colored(Doc):
    """A document in colours, which are numbers of ANSI codes; None leaves what is around it."""

    __slots__ = ("doc", "state")

    def __init__(self, doc: Doc, state: State) -> None:
        self.doc, self.state = doc, state
        self.flat = doc.flat

    def __repr__(self) -> str:
        return f"color({self.doc!r})"


class Sourced(Doc):
    """A document that was made of `source`, whatever that is."""

    __slots__ = ("doc", "source")

    def __init__(self, doc: Doc, source: Any) -> None:
        self.doc, self.source = doc, source
        self.flat = doc.flat

    def __repr__(self) -> str:
        return f"source({self.doc!r}, {self.source!r})"


def text(s: str, color: str | None = None) -> Doc:
    """Text in the colour of a keyword ("keyword"), of a type ("type") or in none."""
    return Text(s, color)


def join(sep: Doc, docs: Iterable[Doc]) -> Doc:
    """Documents with another between each two."""
    out: list[Doc] = []
    for d in docs:
        if out:
            out.append(sep)
        out.append(d)
    return Concat(out)


class _Line:
    __slots__ = ("body", "notes", "spans", "width")

    def __init__(self, indent: int) -> None:
        self.body, self.width = " " * indent, indent
        self.notes: list[str] = []
        self.spans: list[tuple[int, int, Any]] = []


class _Lines:
    """Lines under construction: their text (with colour codes), width, comments and sources."""

    def __init__(self, use_color: bool) -> None:
        self.use_color = use_color
        self.lines = [_Line(0)]
        self.state = _PLAIN

    def codes(self, want: State) -> str:
        """What brings the terminal to a state."""
        if not self.use_color or want == self.state:
            return ""
        codes = [
            new or reset
            for new, old, reset in zip(want, self.state, _RESETS, strict=True)
            if new != old
        ]
        self.state = want
        return f"\x1b[{';'.join(codes)}m"

    def write(self, s: str, state: State, note: str | None, source: Any) -> None:
        line = self.lines[-1]
        if s:
            line.body += self.codes(state) + s
        if source is not None and s:
            spans, end = line.spans, line.width + len(s)
            if spans and spans[-1][2] is source and spans[-1][1] == line.width:
                spans[-1] = (spans[-1][0], end, source)
            else:
                spans.append((line.width, end, source))
        line.width += len(s)
        if note is not None:
            line.notes.append(note)

    def sources(self) -> list[list[Any]]:
        return [line.spans for line in self.lines]

    def finish(self, prefix: str) -> str:
        column = max(line.width for line in self.lines)
        start, end = ("\x1b[2m", "\x1b[22m") if self.use_color else ("", "")
        out = []
        for line in self.lines:
            body = line.body
            for k, note in enumerate(line.notes):
                pad = " " * (column - (line.width if k == 0 else 0))
                body += ("" if k == 0 else "\n") + f"{pad}{start}{prefix}{note}{end}"
            out.append(body)
        return "\n".join(out) + self.codes(_PLAIN)


def _within(inner: State, outer: State) -> State:
    return tuple(i or o for i, o in zip(inner, outer, strict=True))  # type: ignore[return-value]


def _layout(doc: Doc, lines: _Lines, width: int) -> None:
    stack: list[tuple[int, bool, State, Any, Doc]] = [(0, False, _PLAIN, None, doc)]
    while stack:
        indent, flat, state, made_of, d = stack.pop()
        if isinstance(d, Text):
            lines.write(d.text, COLORS[d.color] if d.color else state, d.note, made_of)
        elif isinstance(d, Break):
            if flat:
                lines.write(d.text, state, None, made_of)
            else:
                lines.lines.append(_Line(indent))
        elif isinstance(d, Concat):
            stack.extend((indent, flat, state, made_of, x) for x in reversed(d.docs))
        elif isinstance(d, Nest):
            stack.append((indent + d.n, flat, state, made_of, d.doc))
        elif isinstance(d, Group):
            fits = flat or lines.lines[-1].width + d.flat <= width
            stack.append((indent, fits, state, made_of, d.doc))
        elif isinstance(d, Colored):
            stack.append((indent, flat, _within(d.state, state), made_of, d.doc))
        elif isinstance(d, Sourced):
            stack.append((indent, flat, state, d.source, d.doc))


def layout(doc: Doc, use_color: bool = False) -> str:
    """The text of a document."""
    return doc.format(use_color=use_color)
