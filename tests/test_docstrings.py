"""Every public name is documented, and every example in its docstring is true."""

from __future__ import annotations

import csv
import doctest
import enum
import inspect
import math
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tools import api_reference
from tools.api_reference import docstring, dotted, every_name, public_names, value_of

# A number with a fraction, an exponent, or none of both: what is compared with a tolerance.
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# Examples of large modules run in parts, so that workers share them.
PART = 40

# Function -> the parameters that its docstring does not name yet.
NOT_NAMED = Path(__file__).parent / "data" / "parameters_not_named.csv"


class Checker(doctest.OutputChecker):
    """Output is the same up to white space and `...`; fractions may differ in their last digits,
    since processors round differently.
    """

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        wanted, gotten = NUMBER.findall(want), NUMBER.findall(got)
        if len(wanted) != len(gotten):
            return False
        if not all(_close(w, g) for w, g in zip(wanted, gotten, strict=True)):
            return False
        # A column of numbers is as wide as its widest: brackets may have blanks beside them.
        rest_want, rest_got = (re.sub(r"\s+", "", NUMBER.sub("#", s)) for s in (want, got))
        return super().check_output(rest_want, rest_got, optionflags)


def _close(want: str, got: str) -> bool:
    if re.fullmatch(r"[-+]?\d+", want):
        return want == got
    return math.isclose(float(want), float(got), rel_tol=1e-5, abs_tol=1e-6)


def namespace() -> dict[str, Any]:
    """What examples may use: the names of the reference's first page."""
    names: dict[str, Any] = {"__name__": "examples"}
    exec(api_reference.PREAMBLE, names)
    return names


def parts() -> list[Any]:
    """(module, its names from .. to ..), each a test."""
    return [
        pytest.param(module, names[k : k + PART], id=f"{module or 'pullback'}-{k // PART}")
        for module, names in public_names().items()
        for k in range(0, len(names), PART)
    ]


@pytest.mark.parametrize(("module", "names"), parts())
def test_examples_are_true(module: str, names: tuple[str, ...]) -> None:
    runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=FLAGS)
    parser = doctest.DocTestParser()
    said: list[str] = []
    for name in names:
        full = dotted(module, name)
        test = parser.get_doctest(docstring(module, name), namespace(), full, full, 0)
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


def test_every_name_has_a_docstring() -> None:
    bare = [
        dotted(module, name)
        for module, names in public_names().items()
        for name in names
        if not docstring(module, name)
    ]
    assert not bare, f"public names without a docstring: {bare}"


def test_every_name_has_an_example() -> None:
    """The list of names without an example only shrinks: new names come with one."""
    missing, listed = api_reference.without_example(), api_reference.listed()
    assert listed == sorted(listed)
    unlisted = sorted(set(missing) - set(listed))
    assert not unlisted, f"write an example (>>>) into the docstrings of {unlisted}"
    known = {dotted(m, n) for m, names in public_names().items() for n in names}
    assert not set(listed) - known, f"not public names: {sorted(set(listed) - known)}"
    done = sorted(set(listed) - set(missing))
    assert not done, f"these have examples now; run tools/api_reference.py --shrink: {done}"


@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        ("Array([0.8414710, 2.], dtype=float32)", "Array([0.841471, 2.], dtype=float32)", True),
        ("Array([0.84, 2.], dtype=float32)", "Array([0.841471, 2.], dtype=float32)", False),
        ("Array([1, 2], dtype=int32)", "Array([1, 3], dtype=int32)", False),
        ("Array([1., 2.], dtype=float32)", "Array([1., 2.], dtype=float64)", False),
        ("[[1. 2.]\n [3. 4.]]", "[[1. 2.]\n  [3. 4.]]", True),
        ("ValueError: ...", "ValueError: the shapes differ", True),
        ("1e-9", "2e-9", True),
    ],
)
def test_the_checker(want: str, got: str, same: bool) -> None:
    assert Checker().check_output(want, got, FLAGS) is same


def test_pages_have_every_name() -> None:
    pages = api_reference.pages()
    assert set(pages) == {"api/index.md", *map(api_reference.path_of, every_name())}
    for module, names in every_name().items():
        text = pages[api_reference.path_of(module)]
        functions = public_names().get(module, ())
        assert [n for n in functions if f"\n## `{n}`\n" not in text] == []
        others = [n for n in names if n not in functions]
        others = [n for n in others if not isinstance(value_of(module, n), ModuleType)]
        assert [n for n in others if f"\n* `{n}`" not in text] == []
        assert text.count("```") % 2 == 0


def test_every_page_is_in_the_navigation() -> None:
    text = (api_reference.ROOT / "mkdocs.yml").read_text()
    docs = api_reference.ROOT / "docs"
    pages = {p.relative_to(docs).as_posix() for p in docs.rglob("*.md")} | {"api/index.md"}
    assert {p for p in pages if f": {p}\n" not in text} == set()


def test_prose_is_escaped_and_examples_are_fenced() -> None:
    doc = "The *args of `f(*args)` in <angles>.\n\nUse:\n>>> 1 + 1\n2"
    assert api_reference.markdown(doc) == (
        "The \\*args of `f(*args)` in \\<angles>.\n\nUse:\n\n```pycon\n>>> 1 + 1\n2\n```"
    )


def parameters(module: str, name: str) -> list[str]:
    """The names that a caller may give; of a class, those of its constructor."""
    value = value_of(module, name)
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return []  # Python's own, which differ between its versions
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    gathered = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [
        p.name
        for p in signature.parameters.values()
        if p.kind not in gathered and p.name not in ("self", "cls") and not p.name.startswith("_")
    ]


def not_named() -> dict[str, str]:
    """Function -> the parameters that do not occur in its docstring, with blanks between."""
    found = {}
    for module, names in public_names().items():
        for name in names:
            words = set(re.findall(r"\w+", docstring(module, name) or ""))
            if missing := [p for p in parameters(module, name) if p not in words]:
                found[dotted(module, name)] = " ".join(missing)
    return found


def test_docstrings_name_parameters() -> None:
    """The list of parameters that are not named only shrinks: new ones come with a word."""
    with NOT_NAMED.open() as file:
        listed = {row["name"]: row["parameters"].split() for row in csv.DictReader(file)}
    found = {name: text.split() for name, text in not_named().items()}
    new = {n: [p for p in ps if p not in listed.get(n, ())] for n, ps in found.items()}
    new = {n: ps for n, ps in new.items() if ps}
    assert not new, f"name these parameters in the docstrings: {new}"
    if sys.version_info[:2] != (3, 11):
        return  # whose signatures `inspect` finds differs from Python to Python
    done = {n: [p for p in ps if p not in found.get(n, ())] for n, ps in listed.items()}
    done = {n: ps for n, ps in done.items() if ps}
    assert not done, f"these are named now; take them off {NOT_NAMED.name}: {done}"


def test_docstrings_of_the_most_used_functions_name_all() -> None:
    found = not_named()
    used = "array zeros ones arange asarray sum max mean reshape stack einsum dot take split sort"
    names = [f"numpy.{n}" for n in used.split()]
    names += ["vmap", "grad", "value_and_grad", "random.normal", "random.uniform", "lax.cond"]
    known = {dotted(module, n) for module, ns in public_names().items() for n in ns}
    assert known.issuperset(dotted("", n) for n in names)
    assert [n for n in names if dotted("", n) in found] == []
