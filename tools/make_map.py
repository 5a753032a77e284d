"""Writes docs/map.md: one line for every file, taken from what the file first says.

python3 tools/make_map.py            # or: make map
python3 tools/make_map.py --check    # says what is missing or stale; changes nothing
"""

from __future__ import annotations

import ast
import functools
import inspect
import io
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAP = ROOT / "docs" / "map.md"
INTRODUCTION = """# Map

One line for every file, by folder. `make map` writes this page from the files' own first lines;
`tests/test_map.py` keeps it true. The layers' order is in `tests/test_layers.py`.
"""

# Files whose format has no place for a description.
DESCRIBED = {
    ".ci/run": "What must pass before a merge: tests, lint, types.",
    ".gitignore": "What is not kept.",
    "CHANGELOG.md": "Notable changes, newest first.",
    "CONTRIBUTING.md": "What a change needs; one page.",
    "LICENSE": "Apache License 2.0.",
    "Makefile": "Targets that set themselves up: demo, test, fuzz, bench, lint, types.",
    "README.md": "What it is, why, and the first two commands.",
    "docs/map.md": "This page.",
    "pyproject.toml": "The build, the dependencies and the tools' settings.",
    "src/pullback/py.typed": "Says that the package has types.",
}
# Folders of data: one line for all files in them.
DATA = {
    "tests/data": "Facts that tests compare with.",
    "tests/golden": "Expected texts; `--regenerate` rewrites them.",
    "tests/history": "Templates of calls, numbers and events of histories.",
    "tests/sweep": "Templates of calls; calls that once differed, with JAX's answers.",
    "tests/numpy_expressions": "Expressions that are evaluated by Pullback and by JAX, one a line.",
}
LONGEST = 160
ORDER = ("", ".ci", "docs", "docs/decisions", "src/pullback")


def files() -> list[str]:
    """The project's files: those that git does not ignore, or without git, all."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        names = done.stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if not hidden(p)]
    return sorted(name for name in names if name and (ROOT / name).is_file())


def hidden(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(part.startswith(".") and part != ".ci" for part in parts) or "__pycache__" in parts


def summary(docstring: str) -> str:
    """The first paragraph, or its first sentence where that is long."""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return paragraph if len(paragraph) <= LONGEST else paragraph.split(". ")[0].rstrip(".") + "."


def docstring_of(text: str) -> str | None:
    """A module's docstring: its first statement alone is read, not all of the module."""
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            return inspect.cleandoc(ast.literal_eval(token.string))
        if token.type not in skipped:
            return None
    return None


def first_line(name: str) -> str | None:
    """What a file says of itself: its docstring, its title or its first comment."""
    if name in DESCRIBED:
        return DESCRIBED[name]
    text = (ROOT / name).read_text(errors="replace")
    if name.endswith(".py"):
        docstring = docstring_of(text)
        return summary(docstring) if docstring else None
    lines = (line.strip() for line in text.splitlines())
    for line in lines:
        if line.startswith("#") and not line.startswith("#!"):
            return line.lstrip("# ").rstrip()
    return None


@functools.cache
def described() -> tuple[dict[str, dict[str, str]], list[str]]:
    """Every folder's files with their lines, and the files that say nothing."""
    folders: dict[str, dict[str, str]] = {}
    silent = []
    for name in files():
        folder, _, base = name.rpartition("/")
        data = next((d for d in DATA if name.startswith(d + "/")), None)
        if data:
            folders.setdefault(data, {})["*"] = DATA[data]
            continue
        line = first_line(name)
        if line is None:
            silent.append(name)
        folders.setdefault(folder, {})[base] = line or ""
    return folders, silent


def page(folders: dict[str, dict[str, str]]) -> str:
    def place(folder: str) -> tuple[int, str]:
        return (ORDER.index(folder) if folder in ORDER else len(ORDER), folder)

    parts = [INTRODUCTION]
    for folder in sorted(folders, key=place):
        parts.append(f"\n## {folder or 'The top'}\n")
        parts += [f"* `{base}`: {line}" for base, line in sorted(folders[folder].items())]
    return "\n".join(parts) + "\n"


def main() -> int:
    folders, silent = described()
    text = page(folders)
    for name in silent:
        print(f"{name} does not say what it is: its first line should", file=sys.stderr)
    if "--check" in sys.argv[1:]:
        stale = not MAP.exists() or MAP.read_text() != text
        if stale:
            print("docs/map.md is stale: make map", file=sys.stderr)
        return 1 if stale or silent else 0
    MAP.write_text(text)
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
