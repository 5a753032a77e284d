"""A layout engine: documents of text that break where they do not fit on a line. Programs are
printed with it (show.py)."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, NamedTuple

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


class Link(NamedTuple):
    """An element `a` of HTML: a place's name, and another place."""

    anchor: str | None
    href: str | None


class OutputFormat(enum.Enum):
    """What colours become: ANSI codes in plain text, or elements of HTML."""

    TEXT = 0
    HTML = 1


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
        output_format: OutputFormat = OutputFormat.TEXT,
        separable_lines: bool = False,
    ) -> str:
        """The text. `source_map` is given, for each line, what `Sourced` documents cover: (first
        column, column after the last, source). With `separable_lines` colours end with each line
        and begin anew on the next.
        """
        lines = _Lines()
        _layout(self, lines, width)
        write = _Html if output_format is OutputFormat.HTML else _Ansi
        written = write(bool(use_color), source_map is not None)
        out = written.lines(lines.lines, annotation_prefix, separable_lines)
        if source_map is not None:
            source_map += written.spans
        return out

    def __add__(self, other: Any) -> Doc:
        return Concat([self, other]) if isinstance(other, Doc) else NotImplemented

    def __str__(self) -> str:
        return self.format()

    def __repr__(self) -> str:
        return "nil"


class Text(Doc):
    """Text that never breaks; `note` is a comment for the end of its line, `link` what HTML has
    around it: its anchor's name, and what it refers to."""

    __slots__ = ("color", "link", "note", "text")

    def __init__(
        self, s: str, color: str | None = None, note: str | None = None, link: Link | None = None
    ) -> None:
        self.text, self.color, self.note, self.link = s, color, note, link
        self.flat = len(s)

    def __repr__(self) -> str:
        names = {"annotation": self.note}
        if self.link is not None:
            names |= self.link._asdict()
        said = "".join(f', {k}="{v}"' for k, v in names.items() if v is not None)
        return f'text("{self.text}"{said})'


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
    """A line: pieces (text, colours, source, link) and comments. `width` is that of the text."""

    __slots__ = ("notes", "pieces", "width")

    def __init__(self, indent: int) -> None:
        self.pieces: list[tuple[str, State | None, Any, Link | None]] = []
        self.notes: list[str] = []
        self.width = indent
        if indent:
            self.pieces.append((" " * indent, None, None, None))


class _Lines:
    """Lines under construction."""

    def __init__(self) -> None:
        self.lines = [_Line(0)]

    def write(
        self, s: str, state: State, note: str | None, source: Any, link: Link | None = None
    ) -> None:
        line = self.lines[-1]
        if s:
            line.pieces.append((s, state, source, link))
            line.width += len(s)
        if note is not None:
            line.notes.append(note)


class _Ansi:
    """Writes lines, with ANSI codes for colours. `spans` are, line by line, the columns of what
    was written for each source; colours do not cross their ends."""

    def __init__(self, use_color: bool, sources: bool) -> None:
        self.use_color, self.sources = use_color, sources
        self.state = _PLAIN
        self.spans: list[list[tuple[int, int, Any]]] = []

    def change(self, want: State) -> str:
        """What brings the terminal to a state."""
        codes = [
            new or reset
            for new, old, reset in zip(want, self.state, _RESETS, strict=True)
            if new != old
        ]
        return f"\x1b[{';'.join(codes)}m"

    def piece(self, s: str, link: Link | None) -> str:
        return s

    def dim(self, s: str) -> str:
        """A comment."""
        return f"\x1b[2m{s}\x1b[22m"

    def to(self, want: State) -> str:
        # A colour that resets is none.
        want = tuple(  # type: ignore[assignment]
            None if c == reset else c for c, reset in zip(want, _RESETS, strict=True)
        )
        if not self.use_color or want == self.state:
            return ""
        change, self.state = self.change(want), want
        return change

    def lines(self, lines: list[_Line], prefix: str, separable: bool) -> str:
        column = max(line.width for line in lines)
        out = []
        for line in lines:
            body = self.line(line)
            if line.notes or separable or line is lines[-1]:
                body += self.to(_PLAIN)
            for k, note in enumerate(line.notes):
                said = " " * (column - (line.width if k == 0 else 0)) + prefix
                said = self.piece(said + note, None)
                body += ("" if k == 0 else "\n") + (self.dim(said) if self.use_color else said)
            out.append(body)
        return "\n".join(out)

    def line(self, line: _Line) -> str:
        body, spans = "", []
        at, start = None, 0
        for s, state, source, link in line.pieces:
            if self.sources and source is not at:
                body += self.to(_PLAIN)
                if at is not None:
                    spans.append((start, len(body), at))
                at, start = source, len(body)
            if state is not None:
                body += self.to(state)
            body += self.piece(s, link)
        if at is not None:
            body += self.to(_PLAIN)
            spans.append((start, len(body), at))
        self.spans.append(spans)
        return body


_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})


class _Html(_Ansi):
    """Writes lines, with elements `span` for colours."""

    def change(self, want: State) -> str:
        kinds = zip(("fg", "bg", "intensity"), want, strict=True)
        classes = " ".join(f"ansi-{kind}-{c}" for kind, c in kinds if c is not None)
        close = "" if self.state == _PLAIN else "</span>"
        return close + (f'<span class="{classes}">' if classes else "")

    def piece(self, s: str, link: Link | None) -> str:
        s = s.translate(_ESCAPES)
        if link is None:
            return s
        anchor = "" if link.anchor is None else f' id="{link.anchor.translate(_ESCAPES)}"'
        href = "" if link.href is None else f' href="{link.href.translate(_ESCAPES)}"'
        return f"<a{anchor}{href}>{s}</a>"

    def dim(self, s: str) -> str:
        return f'<span class="ansi-intensity-2">{s}</span>'


def _within(inner: State, outer: State) -> State:
    return tuple(i or o for i, o in zip(inner, outer, strict=True))  # type: ignore[return-value]


def _layout(doc: Doc, lines: _Lines, width: int) -> None:
    stack: list[tuple[int, bool, State, Any, Doc]] = [(0, False, _PLAIN, None, doc)]
    while stack:
        indent, flat, state, made_of, d = stack.pop()
        if isinstance(d, Text):
            lines.write(d.text, COLORS[d.color] if d.color else state, d.note, made_of, d.link)
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
