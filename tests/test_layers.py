"""Reads the package's imports: layers, cycles, local imports, heavy packages, and never jax."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "pullback"

# From the bottom up: a module imports from its own layer and from those above it in this list.
LAYERS = (
    (
        "version",
        "errors",
        "config",
        "accepted_flags",
        "flag_examples",
        "forking",
        "garbage",
        "records",
        "removed",
        "lazy_imports",
        "formatting",
        "logging_config",
        "monitoring",
        "processor",
        "compile_log",
        "switches",
    ),
    ("dtypes", "tree", "tree_util"),
    ("core",),
    ("primitives",),
    ("transforms",),
    ("control",),
    ("loops",),
    ("backends",),
    ("runtime",),
    ("api",),
    ("lax",),
    ("flatten_util",),
    ("numpy", "scipy", "nn", "random", "image", "ops"),
    ("sharding", "debug", "profiler", "export", "experimental", "stages", "dlpack"),
    ("",),  # the package's own __init__
    ("jax_compat", "__main__"),
    ("testing",),
)
HEAVY = {"scipy", "llvmlite", "jaxlib", "matplotlib"}
FORBIDDEN = {"jax"}


def module_name(path: Path) -> str:
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def rank(name: str) -> int:
    """The index of a module's layer. Unknown top-level names stand with the public modules."""
    head = name.split(".")[0]
    for index, layer in enumerate(LAYERS):
        if head in layer:
            return index
    return next(i for i, layer in enumerate(LAYERS) if "sharding" in layer)


def only_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in (
        "TYPE_CHECKING", "typing.TYPE_CHECKING",
    )  # fmt: skip


# Where statements stand in statements: no expression has any.
BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def imports(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Every import statement that runs, and whether it stands inside a function."""
    for child in (x for name in BODIES for x in getattr(node, name, ())):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inside
        elif isinstance(child, ast.If) and only_for_types(child):
            for other in child.orelse:
                yield from imports(other, inside)
        else:
            local = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports(child, inside or local)


@functools.cache
def statements() -> list[tuple[str, ast.stmt, bool]]:
    """Every module's imports, and whether they stand inside a function. Read once, by the worker
    that runs these tests: each worker of a run imports this file."""
    return [
        (name, statement, inside)
        for name, path in MODULES.items()
        for statement, inside in imports(ast.parse(path.read_text(), str(path)))
    ]


def absolute(name: str, statement: ast.ImportFrom) -> str:
    """The full name of the module that a `from ... import` names, relative ones resolved."""
    if not statement.level:
        return statement.module or ""
    is_package = MODULES[name].name == "__init__.py"
    parts = ["pullback", *(name.split(".") if name else [])]
    base = parts[: len(parts) - statement.level + (1 if is_package else 0)]
    return ".".join([*base, *([statement.module] if statement.module else [])])


def targets(name: str, statement: ast.stmt) -> Iterator[str]:
    """The modules that a statement imports, as full names."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        base = absolute(name, statement)
        for alias in statement.names:
            inner = f"{base}.{alias.name}"
            known = inner.startswith("pullback.") and inner[len("pullback.") :] in MODULES
            yield inner if known else base


def own(target: str) -> str | None:
    """A module of ours, without the package's name; None for other packages."""
    if target == "pullback":
        return ""
    return target[len("pullback.") :] if target.startswith("pullback.") else None


def graph() -> dict[str, set[str]]:
    edges: dict[str, set[str]] = {name: set() for name in MODULES}
    for name, statement, _ in statements():
        edges[name] |= {m for t in targets(name, statement) if (m := own(t)) is not None}
    return edges


def where(name: str, statement: ast.stmt) -> str:
    return f"{MODULES[name]}:{statement.lineno}: {ast.unparse(statement)}"


def test_layers() -> None:
    wrong = [
        where(name, statement)
        for name, statement, _ in statements()
        for target in targets(name, statement)
        if (module := own(target)) is not None and rank(module) > rank(name)
    ]
    assert not wrong, "imports from a layer below:\n" + "\n".join(wrong)


def test_no_local_imports_of_our_own() -> None:
    wrong = [
        where(name, statement)
        for name, statement, inside in statements()
        if inside and any(own(t) is not None for t in targets(name, statement))
    ]
    assert not wrong, "imports inside functions:\n" + "\n".join(wrong)


def test_no_cycles() -> None:
    edges, done, path = graph(), set[str](), list[str]()

    def visit(name: str) -> None:
        if name in path:
            cycle = [*path[path.index(name) :], name]
            pytest.fail("modules import each other: " + " -> ".join(n or "pullback" for n in cycle))
        if name in done or name not in edges:
            return
        path.append(name)
        for other in sorted(edges[name] - {name}):
            visit(other)
        path.pop()
        done.add(name)

    for name in sorted(edges):
        visit(name)


def test_never_jax() -> None:
    wrong = [
        where(name, statement)
        for name, statement, _ in statements()
        if any(t.split(".")[0] in FORBIDDEN for t in targets(name, statement))
    ]
    assert not wrong, "the package imports jax:\n" + "\n".join(wrong)


def test_heavy_packages_are_lazy() -> None:
    """Only `testing`, which nothing imports but tests, may import them as it loads."""
    wrong = [
        where(name, statement)
        for name, statement, inside in statements()
        if rank(name) < rank("testing") and not inside
        if any(t.split(".")[0] in HEAVY for t in targets(name, statement))
    ]
    assert not wrong, "use pullback.lazy_imports.lazy_module:\n" + "\n".join(wrong)


def test_import_loads_nothing_heavy() -> None:
    names = sorted(HEAVY | FORBIDDEN)
    # A lazy stand-in is in sys.modules under no name: only what was really loaded is seen.
    program = f"import sys, pullback; print([n for n in {names} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_the_reader_sees_what_it_should() -> None:
    """Planted faults: the helpers above find each."""
    source = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pullback import api\n"
        "import pullback.core\ndef f():\n    from pullback.api import jit\n    import jax.numpy\n"
    )
    found = [(list(targets("errors", s)), inside) for s, inside in imports(ast.parse(source))]
    assert found[1] == (["pullback.core"], False)
    assert found[2][1] and found[2][0][0].startswith("pullback.api")
    assert found[3] == (["jax.numpy"], True)
    assert len(found) == 4
    assert rank("core.avals") > rank("errors")
