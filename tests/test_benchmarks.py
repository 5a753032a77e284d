"""The benchmarks' own machinery: what is measured is complete, and a difference does not pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as bench, limits, report, space, worker
from benchmarks.workloads import FAMILIES, REGISTRY

ROOT = Path(__file__).resolve().parent.parent
REPRODUCERS = (
    "jax#36799", "jax#40150", "jax#26021", "jax#25190", "jax#31282", "jax#37465", "jax#36927",
    "jax#28097", "jax#10434", "jax#23783", "jax#23713", "jax#27460", "jax#16905", "jax#25808",
    "jax#4924", "jax#2777", "xla#49131", "xla#16792", "jax#2947",
)  # fmt: skip


def test_every_family_and_reproducer_is_there() -> None:
    assert len(REGISTRY) >= 45
    assert {work.family for work in REGISTRY.values()} == set(FAMILIES)
    sources = {s.strip() for work in REGISTRY.values() for s in work.source.split(",")}
    assert not set(REPRODUCERS) - sources


def test_choice_by_family_and_by_name() -> None:
    assert set(bench.chosen("sorting")) == {"sorting"}
    assert bench.chosen("softmax") == {"reductions": ["softmax, 1000 x 1000"]}
    assert list(bench.chosen(None)) == list(FAMILIES)
    assert bench.chosen("no such thing") == {}


@pytest.mark.parametrize("name", ["softmax, 1000 x 1000", "scalar while, 100000 rounds"])
def test_a_worker_measures(name: str, tmp_path: Path) -> None:
    request = {"name": name, "engine": "numpy", "quick": True, "output": str(tmp_path / "o.npz")}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.worker", json.dumps(request)],
        capture_output=True, text=True, cwd=ROOT, timeout=240, check=True,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert answer["steady"] > 0 and answer["first"] > 0
    with np.load(tmp_path / "o.npz") as kept:
        assert kept.files


def test_products_are_measured() -> None:
    options = ["--sizes", "8", "--square", "--rounds", "1", "--dtypes", "float64"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.products", *options],
        capture_output=True, text=True, cwd=ROOT, timeout=240, check=True,
    )  # fmt: skip
    assert "8 x 8 x 8" in done.stdout and "1 of 1" in done.stdout and not done.stderr


def test_a_difference_is_found(tmp_path: Path) -> None:
    def keep(name: str, *arrays: np.ndarray) -> str:
        path = str(tmp_path / name)
        np.savez(path, *arrays)
        return path

    right = np.linspace(0, 1, 100)
    wrong, broken = right.copy(), right.copy()
    wrong[7] += 0.01
    broken[3] = np.nan
    same = keep("a.npz", right)
    assert bench.differ(same, keep("b.npz", right + 1e-6), 1e-3) is None
    assert "off by 0.01" in str(bench.differ(same, keep("c.npz", wrong), 1e-3))
    assert "finite" in str(bench.differ(same, keep("d.npz", broken), 1e-3))
    assert bench.differ(same, keep("e.npz", right[:50]), 1e-3) is not None
    assert bench.differ(same, keep("f.npz", right, right), 1e-3) is not None


def test_report_of_made_up_figures(tmp_path: Path) -> None:
    names = list(REGISTRY)[:3]
    figures = {"pullback": {"steady": 1e-6, "first": 1e-2}, "jax": {"steady": 8e-6, "first": 4e-2}}
    results: report.Results = dict.fromkeys(names, figures)
    assert report.ratio(figures, "jax") == pytest.approx(8)
    assert report.mean_ratio(results, names, "jax", "first") == pytest.approx(4)
    assert report.seconds_text(1.5e-5) == "15 us"
    families = {"dispatch": names}
    bounds = limits.Limits(1e10, 1e11)
    assert report.steady_table(results, families, ["pullback", "jax"], bounds).row_count == 5
    assert report.first_table(results, families).row_count == 4
    assert report.summary(results, families).row_count == 2
    page, engines = tmp_path / "page.md", ["pullback", "jax"]
    page.write_text(f"Why.\n\n{report.MEASURED}\n\nold figures")
    machine = {"processors": 2}
    report.replace_measured(page, report.page(results, families, engines, bounds, machine))
    text = page.read_text()
    assert text.startswith("Why.") and "processors 2" in text and "old" not in text
    row = next(line for line in text.splitlines() if line.startswith(f"|   {names[0]} |"))
    assert "8x" in row and "[" not in row
    pytest.importorskip("matplotlib")
    report.plot(results, families, tmp_path / "ratios.png")
    assert (tmp_path / "ratios.png").stat().st_size > 1000


def test_numbers_of_nested_results() -> None:
    found = space.numbers({"b": (np.ones(2), None), "a": [np.float32(3)]})
    assert [a.tolist() for a in found] == [3.0, [1.0, 1.0]]


def test_ratios_have_intervals() -> None:
    random = np.random.default_rng(0)
    ours = [list(1e-3 * (1 + 0.05 * random.standard_normal(15))) for _ in range(3)]
    figures = {"pullback": {"blocks": ours}, "jax": {"blocks": [[4 * t for t in p] for p in ours]}}
    low, high = report.interval(figures, "jax") or (0, 0)
    assert 3.7 < low < 4 < high < 4.3
    assert report.interval({"pullback": {"blocks": ours}}, "jax") is None


def test_the_faster_of_two_jax_versions_is_the_rival() -> None:
    old = {"steady": 2.0, "first": 1.0, "ten": 9.0, "blocks": [[2.0, 2.0]]}
    new = {"steady": 1.0, "first": 3.0, "ten": 8.0, "blocks": [[1.0, 1.0]]}
    ours = {"steady": 0.5}
    best = report.beside_the_faster({"pullback": ours, "jax": old, space.NEWEST: new})
    assert best["jax"] == {"steady": 1.0, "first": 1.0, "ten": 8.0, "blocks": [[1.0, 1.0]]}
    assert best["pullback"] == ours
    failed = {"pullback": ours, "jax": old, space.NEWEST: {"error": "exit 1"}}
    assert report.beside_the_faster(failed) == failed


def test_answers_of_several_processes_are_joined() -> None:
    answers = [{"steady": s, "first": 10 * s, "blocks": [s, s]} for s in (1.0, 5.0, 2.0)]
    both = bench.joined(answers)
    assert (both["steady"], both["first"]) == (2.0, 20.0)
    assert len(both["blocks"]) == 3
    assert bench.joined([answers[0], {"error": "exit 1"}]) == {"error": "exit 1"}


def test_a_limit_is_the_slower_of_two() -> None:
    bounds = limits.Limits(bandwidth=1e10, flops=1e11)
    assert bounds.seconds(1e7, 1e6) == pytest.approx(1e-3)
    assert bounds.seconds(1e3, 1e9) == pytest.approx(1e-2)


@pytest.mark.parametrize(
    "name", ["vmapped while with a cond, 1000 starts", "Hamiltonian dynamics, 50 leapfrog steps"]
)
def test_versions_for_numba_compute_the_same(name: str, tmp_path: Path) -> None:
    """As plain Python, which is what they are without Numba."""
    work = REGISTRY[name]
    ours = work.make(space.load("pullback"))
    theirs = work.make(space.load("numpy"))
    assert work.numba is not None
    worker.keep(ours.function(*ours.arguments), str(tmp_path / "a.npz"))
    worker.keep(work.numba(*theirs.arguments), str(tmp_path / "b.npz"))
    assert bench.differ(str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), 1e-3) is None
