"""The public names, beside JAX's: what a module claims is JAX's, and what is not there yet is
listed.
"""

from __future__ import annotations

import csv
import importlib
import warnings
from functools import cache
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parent / "data"

# Modules whose names are listed under their own modules, or are tools.
PACKAGES = {"": {"experimental", "extend", "interpreters", "scipy", "version"}}


@cache
def wanted() -> dict[str, frozenset[str]]:
    """For each public module of JAX 0.10.2, by its name after `jax`: its names (modules and removed
    names left out).
    """
    found: dict[str, set[str]] = {}
    with (DATA / "public_api.csv").open() as file:
        for row in csv.DictReader(file):
            names = found.setdefault(row["module"].removeprefix("jax").removeprefix("."), set())
            names.add(row["name"])
    return {module: frozenset(names) for module, names in found.items()}


@cache
def own() -> dict[str, frozenset[str]]:
    """Names of ours beside JAX's, by module: counters and reports, the times of kernels, and what
    SciPy has and JAX leaves to others.
    """
    found: dict[str, set[str]] = {}
    with (DATA / "own_api.csv").open() as file:
        for row in csv.DictReader(file):
            found.setdefault(row["module"], set()).add(row["name"])
    return {module: frozenset(names) for module, names in found.items()}


@cache
def not_yet() -> dict[str, str]:
    """`module.name` to the capability that it needs, from the list beside the table."""
    with (DATA / "not_yet.csv").open() as file:
        return {row["name"]: row["needs"] for row in csv.DictReader(file)}


def dotted(module: str, name: str) -> str:
    return f"{module}.{name}" if module else name


def ours(module: str) -> object | None:
    full = dotted("pullback", module) if module else "pullback"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as e:
        if e.name and full.startswith(e.name):
            return None
        raise


def has(module: str, name: str) -> bool:
    found = ours(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that JAX deprecates
        return found is not None and hasattr(found, name)


@pytest.mark.parametrize(
    "name",
    "device_put_sharded lax.pvary ad_checkpoint.checkpoint ad_checkpoint.remat core.get_aval "
    "core.traverse_jaxpr_params".split(),
)
def test_removed_names_say_so(name: str) -> None:
    module, _, last = name.rpartition(".")
    theirs = importlib.import_module(dotted("jax", module).rstrip("."))
    with pytest.raises(AttributeError) as want:
        getattr(theirs, last)
    with pytest.raises(AttributeError) as got:
        getattr(ours(module), last)
    assert str(want.value).startswith(str(got.value))
    if not module:
        with pytest.raises(AttributeError) as got:
            getattr(importlib.import_module("pullback.jax_compat.modules.jax"), last)
        assert str(want.value).startswith(str(got.value))


@pytest.mark.parametrize("module", sorted(wanted()))
def test_names_are_there(module: str) -> None:
    missing = [n for n in sorted(wanted()[module]) if not has(module, n)]
    unlisted = [n for n in missing if dotted(module, n) not in not_yet()]
    assert not unlisted, f"names of jax.{module} that are neither there nor listed: {unlisted}"


@pytest.mark.parametrize("module", sorted(wanted()))
def test_claimed_names_are_jaxs(module: str) -> None:
    found = ours(module)
    if found is None:
        pytest.skip("not there yet")
    claimed = set(getattr(found, "__all__", ()))
    modules = {m.rpartition(".")[2] for m in wanted() if m.rpartition(".")[0] == module}
    mine = own().get(module, frozenset())
    extra = claimed - wanted()[module] - modules - mine - PACKAGES.get(module, set())
    assert not extra, (
        f"pullback.{module}.__all__ has names that jax.{module} lacks: {sorted(extra)}"
    )
    assert all(hasattr(found, n) or dotted(module, n) in not_yet() for n in claimed)


def test_what_dir_lists_can_be_looked_up() -> None:
    modules = [m for m in wanted() if ours(m) is not None]
    lists = {m: dir(ours(m)) for m in modules}
    absent = [dotted(m, n) for m, names in lists.items() for n in names if not has(m, n)]
    assert not absent, f"dir() lists names that are not there: {absent}"


def test_own_names_are_there() -> None:
    absent = [dotted(m, n) for m, names in own().items() for n in names if not has(m, n)]
    assert not absent, f"listed in tests/data/own_api.csv, but not there: {absent}"
    jaxs = [dotted(m, n) for m, names in own().items() for n in names & wanted().get(m, set())]
    assert not jaxs, f"listed in tests/data/own_api.csv, but JAX's: {jaxs}"


def test_the_list_is_sorted_and_only_shrinks() -> None:
    names = list(not_yet())
    assert names == sorted(names)
    there = [n for n in names if has(*n.rpartition(".")[::2])]
    assert not there, f"these are there now; take them off tests/data/not_yet.csv: {there}"
    known = {dotted(m, n) for m, names in wanted().items() for n in names}
    assert not set(names) - known, f"not names of JAX: {sorted(set(names) - known)}"


def test_coverage(record_property: pytest.FixtureRequest) -> None:
    """Reports, by module, how many of JAX's public names are there."""
    total = there = 0
    for module, names in sorted(wanted().items()):
        count = sum(has(module, n) for n in names)
        total, there = total + len(names), there + count
        print(f"{dotted('jax', module) if module else 'jax':40s} {count:4d} of {len(names)}")
    print(f"{'all':40s} {there:4d} of {total}")
    assert there > 0.9 * total
