"""docs/map.md has a line for every file, and a file for every line."""

from __future__ import annotations

import re

import pytest

from tools import make_map


def listed() -> dict[str, str]:
    """The files that the page lists, with their lines."""
    found: dict[str, str] = {}
    folder = ""
    for line in make_map.MAP.read_text().splitlines():
        if line.startswith("## "):
            folder = "" if line == "## The top" else line[3:] + "/"
        elif match := re.fullmatch(r"\* `(.+?)`: (.*)", line):
            found[folder + match[1]] = match[2]
    return found


@pytest.fixture(scope="module")
def expected() -> set[str]:
    folders, _ = make_map.described()
    return {f"{folder}/{base}".lstrip("/") for folder, lines in folders.items() for base in lines}


def test_every_file_has_a_line(expected: set[str]) -> None:
    missing = sorted(expected - set(listed()))
    assert not missing, f"not in docs/map.md (make map): {missing}"


def test_every_line_has_a_file(expected: set[str]) -> None:
    stale = sorted(set(listed()) - expected)
    assert not stale, f"gone, but in docs/map.md (make map): {stale}"


def test_every_file_says_what_it_is() -> None:
    _, silent = make_map.described()
    assert not silent, f"a first line should say what these are: {silent}"
    empty = sorted(name for name, line in listed().items() if not line)
    assert not empty, f"lines of docs/map.md that say nothing: {empty}"
