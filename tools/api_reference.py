"""The API reference: the public names of every module, and their docstrings as pages of the site
(a hook of mkdocs: `make docs`); `python tools/api_reference.py --shrink` tidies the list of names
without an example.
"""

from __future__ import annotations

import csv
import functools
import importlib
import inspect
import re
import sys
import textwrap
import types
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "tests/data/public_api.csv"
WITHOUT_EXAMPLE = ROOT / "tests/data/no_example.csv"

# The names of the modules that libraries use (core, extend, interpreters, experimental, ...).
LIBRARY_NAMES = ROOT / "tests/data/library_api.csv"

# Names that JAX lacks.
OWN_NAMES = ROOT / "tests/data/own_api.csv"

# The class of arrays stands among the modules: its methods and properties are its names.
ARRAY = "Array"

# What examples may use without importing it.
PREAMBLE = """\
import numpy as np
import pullback
import pullback as pb
import pullback.numpy as jnp
from pullback import lax, nn, random, tree
from pullback.experimental import pallas as pl, sparse
"""


def module_of(name: str) -> Any:
    """The module `pullback.<name>`; the class of arrays under the name "Array"; None if there is
    no such module.
    """
    if name == ARRAY:
        return type(importlib.import_module("pullback.numpy").zeros(()))
    full = f"pullback.{name}" if name else "pullback"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as e:
        if e.name and full.startswith(e.name):
            return None
        raise


def _documented(value: Any) -> bool:
    """Is it a function or a class (or what is indexed as functions are called, as `jnp.r_` is),
    rather than a constant or a type for annotations?
    """
    if isinstance(value, types.ModuleType | types.GenericAlias | types.UnionType):
        return False
    if type(value).__module__.startswith("pullback.numpy."):
        return True
    return callable(value) and getattr(value, "__module__", "") != "typing"


@cache
def every_name() -> dict[str, tuple[str, ...]]:
    """Module (its name after `pullback.`) -> its public names that are there, sorted."""
    wanted: dict[str, set[str]] = {}
    for table in (NAMES, LIBRARY_NAMES, OWN_NAMES):
        with table.open() as file:
            for row in csv.DictReader(file):
                if row.get("kind", "").startswith("deprecated"):
                    continue  # it warns when it is looked at
                module = row["module"].removeprefix("jax").removeprefix(".")
                wanted.setdefault(module, set()).add(row["name"])
    wanted[ARRAY] = {n for n in dir(module_of(ARRAY)) if not n.startswith("_")}
    found: dict[str, tuple[str, ...]] = {}
    for module, names in sorted(wanted.items()):
        home = module_of(module)
        if home is None:
            continue
        there = [n for n in sorted(names) if hasattr(home, n)]
        if there:
            found[module] = tuple(there)
    return found


@cache
def public_names() -> dict[str, tuple[str, ...]]:
    """Module -> its public functions and classes, sorted."""
    found = {
        module: tuple(n for n in names if module == ARRAY or _documented(value_of(module, n)))
        for module, names in every_name().items()
    }
    return {module: names for module, names in found.items() if names}


def value_of(module: str, name: str) -> Any:
    """What the public name means; of the class of arrays, what the class itself holds."""
    return getattr(module_of(module), name)


def others(value: Any) -> str:
    """Whose object it is, shown under our name unchanged: NumPy's (or ml_dtypes'), jaxlib's; or
    nobody's but ours."""
    package = str(getattr(value, "__module__", "")).partition(".")[0]
    return {"numpy": "NumPy", "ml_dtypes": "NumPy", "jaxlib": "jaxlib"}.get(package, "")


def docstring(module: str, name: str) -> str:
    """The docstring of a public name, without its indentation; empty if there is none."""
    value = value_of(module, name)
    if owner := others(value):
        return f"{owner}'s own `{value.__name__}`, unchanged: see {owner}'s documentation."
    own = getattr(value, "__doc__", None)
    if isinstance(value, type | functools.partial):
        inherited = value.__base__ if isinstance(value, type) else type(value)
        if own == inherited.__doc__:
            return ""
    return inspect.cleandoc(own) if own else ""


def dotted(module: str, name: str) -> str:
    return f"{module}.{name}" if module else name


def without_example() -> list[str]:
    """The names that have no example, as `module.name`, sorted."""
    return sorted(
        dotted(module, name)
        for module, names in public_names().items()
        for name in names
        if not others(value_of(module, name)) and ">>> " not in docstring(module, name)
    )


def listed() -> list[str]:
    """The names that are listed as having no example yet."""
    with WITHOUT_EXAMPLE.open() as file:
        return [row["name"] for row in csv.DictReader(file)]


# --- pages ---
def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    # Annotations of the sources are for the type checker; readers want names and defaults.
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=signature.empty))
    return re.sub(r"<(?:function |class )?'?([\w.]+)[^<>]*>", r"\1", text)


def _prose(text: str) -> str:
    """Plain text as Markdown: what Markdown would read as emphasis or HTML is escaped, outside of
    `code`.
    """
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<\[\]\\])", r"\\\1", p) for p in parts)


def markdown(doc: str) -> str:
    """A docstring as Markdown: paragraphs, and blocks of code where an example or an indented
    block stands.
    """
    blocks = re.split(r"\n\s*\n", doc.strip("\n"))
    out = []
    for block in blocks:
        lines = block.split("\n")
        start = next((k for k, s in enumerate(lines) if s.lstrip().startswith(">>> ")), None)
        if start is not None:
            code = textwrap.dedent("\n".join(lines[start:]))
            if start:
                out.append(_prose("\n".join(lines[:start])))
            out.append(f"```pycon\n{code}\n```")
        elif all(line.startswith("    ") for line in lines):
            out.append(f"```text\n{textwrap.dedent(block)}\n```")
        else:
            out.append(_prose(block))
    return "\n\n".join(out)


def _counterpart(module: str, name: str) -> str:
    """The function of NumPy or SciPy that a function is modelled on, as a line; empty if there is
    none.
    """
    if module.partition(".")[0] not in ("numpy", "scipy"):
        return ""
    if others(value_of(module, name)) or isinstance(value_of(module, name), type):
        return ""
    try:
        home: Any = importlib.import_module(module.split(".")[0])
        for part in module.split(".")[1:]:
            home = getattr(home, part)
    except (ImportError, AttributeError):
        return ""
    return f"After `{module}.{name}`." if hasattr(home, name) else ""


def _others(module: str) -> list[str]:
    """Lines for the names of a module that are no functions and no classes."""
    lines = []
    for name in every_name()[module]:
        value = value_of(module, name)
        if name in public_names().get(module, ()) or isinstance(value, types.ModuleType):
            continue
        text = value.name if type(value).__name__.endswith("Primitive") else None
        if text is not None:
            lines.append(f"* `{name}`: the primitive `{text}`")
        elif type(value).__module__.startswith("pullback"):
            about = (inspect.getdoc(type(value)) or "").split("\n\n")[0]
            lines.append(f"* `{name}`: {_prose(' '.join(about.split()))}")
        elif isinstance(value, int | float | str | None):
            lines.append(f"* `{name}` = `{value!r}`")
        else:
            lines.append(f"* `{name}`: a `{type(value).__name__}`, for annotations and tables")
    return lines


def page(module: str) -> str:
    """The page of one module, as Markdown: every public name with signature and docstring."""
    title = f"pullback.{module}" if module else "pullback"
    home = module_of(module)
    lines = [f"# {title}", ""]
    about = inspect.getdoc(home) if module != ARRAY else (value_of("", "Array").__doc__ or "")
    lines += [markdown(inspect.cleandoc(about or "")), ""]
    for name in public_names().get(module, ()):
        value = value_of(module, name)
        lines += [f"## `{name}`", ""]
        signature = _signature(value)
        if signature:
            lines += [f"```python\n{name}{signature}\n```", ""]
        lines += [markdown(docstring(module, name)), "", _counterpart(module, name), ""]
    others = _others(module) if module != ARRAY else []
    return "\n".join([*lines, *(["## Other names", "", *others, ""] if others else [])])


def path_of(module: str) -> str:
    """Where in the site a module's page is."""
    return f"api/{module or 'pullback'}.md"


def index() -> str:
    """The first page of the reference: the modules, and what every example may use."""
    lines = ["# API reference", "", "Every example was run, and starts from these lines:", ""]
    lines += [f"```python\n{PREAMBLE}```", ""]
    for module, names in every_name().items():
        title = f"pullback.{module}" if module else "pullback"
        lines.append(f"* [`{title}`]({path_of(module).removeprefix('api/')}): {len(names)} names")
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Path in the site -> text, of the whole reference."""
    return {"api/index.md": index()} | {path_of(m): page(m) for m in every_name()}


# --- the hook ---
def on_config(config: Any) -> Any:
    """Puts the reference's pages where the navigation has "API reference"."""
    entries: list[Any] = ["api/index.md"]
    entries += [{f"pullback.{m}" if m else "pullback": path_of(m)} for m in every_name()]
    config.nav = [
        {"API reference": entries} if item == {"API reference": "api/index.md"} else item
        for item in config.nav
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages to the files of the site."""
    generated = importlib.import_module("mkdocs.structure.files").File.generated
    for path, text in pages().items():
        files.append(generated(config, path, content=text))
    return files


def shrink() -> int:
    """Takes the names that have examples now off the list; gives the number that is left."""
    missing = set(without_example())
    kept = [n for n in listed() if n in missing]
    WITHOUT_EXAMPLE.write_text("name\n" + "".join(f"{n}\n" for n in kept))
    return len(kept)


if __name__ == "__main__":
    if sys.argv[1:] == ["--shrink"]:
        print(shrink(), "names without an example")
    else:
        print(__doc__)
