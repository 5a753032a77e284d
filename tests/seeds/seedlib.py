"""Compares what an example gives with what its document shows.

Floats in a shown text are compared to a relative 2e-5 (five printed digits), everything else in it
(shapes, dtypes, weak types, integers, punctuation) exactly; white space does not count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

FLOAT = re.compile(r"-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|\binf\b|\bnan\b)")
TOKEN = re.compile(r"\{ lambda|\{|\}|[A-Za-z_][A-Za-z_0-9]*|.", re.S)


def same_text(got: str, shown: str) -> None:
    """Asserts that two printed values agree, floats within printing precision."""
    assert _skeleton(got) == _skeleton(shown), f"\n got: {got}\nshown: {shown}"
    for a, b in zip(FLOAT.findall(got), FLOAT.findall(shown), strict=True):
        near = math.isclose(float(a), float(b), rel_tol=2e-5, abs_tol=2e-6)
        assert near or a == b, f"{a} is not {b}\n got: {got}\nshown: {shown}"


def _skeleton(text: str) -> str:
    return re.sub(r"\s+", "", FLOAT.sub("#", text))


def shows(value: Any, text: str) -> None:
    """Asserts that `repr(value)` is the text that the document shows."""
    same_text(repr(value), text)


def prints(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Asserts what was printed since the last look."""
    same_text(capsys.readouterr().out, text)


def refuses(error: type[BaseException], *words: str) -> Callable[..., Any]:
    """A context that expects an error of this class whose message holds all these words."""
    pattern = "".join(f"(?=.*{re.escape(word)})" for word in words)
    return pytest.raises(error, match=re.compile(pattern, re.S))


def jaxpr_equal(jaxpr: Any, shown: str) -> None:
    """Asserts that a jaxpr prints as shown, up to the names of its variables."""
    got = str(jaxpr)
    assert _renamed(got) == _renamed(shown), f"\n got: {got}\nshown: {shown}"


def _renamed(text: str) -> str:
    """The jaxpr's text with its variables numbered in order of binding, scopes kept apart."""
    scopes: list[dict[str, str]] = [{}]
    out: list[str] = []
    count = 0
    tokens = TOKEN.findall(text)
    for i, token in enumerate(tokens):
        following = tokens[i + 1] if i + 1 < len(tokens) else ""
        if token in ("{ lambda", "{"):
            scopes.append(dict(scopes[-1]))
        elif token == "}":
            scopes.pop()
        elif following == ":" and token.isidentifier():
            scopes[-1][token] = f"v{count}"
            count += 1
        previous = out[-1] if out else ""
        out.append(token if previous == "=" else scopes[-1].get(token, token))
    return re.sub(r"\s+", " ", "".join(out)).replace("[ ", "[").replace(" ]", "]")
