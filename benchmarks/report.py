"""Tables, a JSON file and a plot of measured workloads."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from .limits import Limits
from .space import NEWEST

STAGES = ("trace", "lower", "compile", "run")
MOST = 20.0  # what a single ratio counts at most
RESAMPLES = 300

Results = dict[str, dict[str, dict[str, Any]]]  # workload, engine, figures


def seconds_text(value: float | None) -> str:
    """A duration with three digits."""
    if value is None:
        return ""
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if value * factor < 1000:
            return f"{value * factor:.3g} {unit}"
    return f"{value:.3g} s"


def ratio(figures: dict[str, dict[str, Any]], other: str, key: str = "steady") -> float | None:
    """How many times faster Pullback is than another engine; None if either has no figure."""
    ours, theirs = (figures.get(e, {}).get(key) for e in ("pullback", other))
    return theirs / ours if ours and theirs else None


def mean_ratio(results: Results, names: Iterable[str], other: str, key: str) -> float | None:
    """The geometric mean of the ratios of these workloads."""
    return geometric(ratio(results[n], other, key) for n in names)


def ratio_text(value: float | None) -> str:
    if value is None:
        return ""
    colour = "green" if value >= 1.05 else "red" if value < 0.95 else "yellow"
    return f"[{colour}]{value:.3g}x[/{colour}]"


def interval(figures: dict[str, dict[str, Any]], other: str) -> tuple[float, float] | None:
    """Where the ratio of steady times lies, at 95%: from processes, and blocks of calls in them,
    drawn again and again."""
    ours, theirs = (figures.get(e, {}).get("blocks") for e in ("pullback", other))
    if not ours or not theirs:
        return None
    random = np.random.default_rng(0)

    def medians(processes: list[list[float]]) -> np.ndarray:
        drawn = [
            np.concatenate([random.choice(processes[k], len(processes[k])) for k in picked])
            for picked in random.integers(0, len(processes), (RESAMPLES, len(processes)))
        ]
        return np.array([np.median(d) for d in drawn])

    low, high = np.quantile(medians(theirs) / medians(ours), [0.025, 0.975])
    return float(low), float(high)


def interval_text(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f"{bounds[0]:.3g}-{bounds[1]:.3g}"


def steady_table(
    results: Results, families: dict[str, list[str]], engines: list[str], bounds: Limits
) -> Table:
    """Steady times of all engines, the ratios to Pullback's, the interval of that to JAX's, and
    which part of the machine's limit Pullback reaches."""
    out = Table(title="Steady time a call")
    out.add_column("workload", overflow="fold", min_width=24)
    for engine in engines:
        out.add_column(engine, justify="right")
    others = [e for e in engines if e != "pullback"]
    for engine in others:
        out.add_column(f"/{engine}", justify="right")
    out.add_column("95% of /jax", justify="right")
    out.add_column("of limit", justify="right")
    for family, names in families.items():
        out.add_section()
        out.add_row(f"[bold]{family}")
        for name in names:
            out.add_row(*steady_row(name, results[name], engines, others, bounds))
        means = [ratio_text(mean_ratio(results, names, e, "steady")) for e in others]
        out.add_row("  [italic]geometric mean", *[""] * len(engines), *means, "", "")
    return out


def steady_row(
    name: str,
    figures: dict[str, dict[str, Any]],
    engines: list[str],
    others: list[str],
    bounds: Limits,
) -> list[str]:
    cells = []
    for engine in engines:
        mine = figures.get(engine, {})
        text = "[red]error" if "error" in mine else seconds_text(mine.get("steady"))
        cells.append(text + (" [red]differs" if mine.get("differs") else ""))
    ratios = [ratio_text(ratio(figures, e)) for e in others]
    mine = figures.get("pullback", {})
    part = ""
    if mine.get("bytes") and mine.get("steady"):
        part = f"{bounds.seconds(mine['bytes'], mine.get('flops', 0.0)) / mine['steady']:.0%}"
    return [f"  {name}", *cells, *ratios, interval_text(interval(figures, "jax")), part]


def first_table(results: Results, families: dict[str, list[str]]) -> Table:
    """The first call by its stages, ten calls, the first call of a new program where an earlier
    process has left the runtime on disk, and that of a program that it has left there too, beside
    JAX's first call and ten calls."""
    out = Table(title="The first call, ten calls, a new program's first call, and a warm start's")
    out.add_column("workload", overflow="fold", min_width=24)
    heads = "first", "jax's", "ratio", "ten", "jax's", "ratio", "new", "ratio", "warm", "ratio"
    for column in (*STAGES, *heads):
        out.add_column(column, justify="right")
    for family, names in families.items():
        out.add_section()
        out.add_row(f"[bold]{family}")
        for name in names:
            mine, theirs = (results[name].get(e, {}) for e in ("pullback", "jax"))
            cells = [seconds_text(mine.get(stage)) for stage in STAGES]
            for key in ("first", "ten"):
                cells += [seconds_text(mine.get(key)), seconds_text(theirs.get(key))]
                cells.append(ratio_text(ratio(results[name], "jax", key)))
            for key in ("new", "warm"):
                cells += [seconds_text(mine.get(key)), ratio_text(beside(results[name], key))]
            out.add_row(f"  {name}", *cells)
    return out


def beside(figures: dict[str, dict[str, Any]], key: str) -> float | None:
    """JAX's first call over ours with files of an earlier process: `new` or `warm`."""
    mine, first = figures.get("pullback", {}).get(key), figures.get("jax", {}).get("first")
    return first / mine if mine and first else None


def geometric(ratios: Iterable[float | None], most: float = math.inf) -> float | None:
    """The geometric mean of those that are there, each counted as `most` at most."""
    logs = [math.log(min(r, most)) for r in ratios if r]
    return math.exp(sum(logs) / len(logs)) if logs else None


def beside_the_faster(figures: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The figures with the faster JAX's as JAX's, each kind by itself, where two were measured."""
    one, other = figures.get("jax", {}), figures.get(NEWEST, {})
    if not ("steady" in one and "steady" in other):
        return figures
    best = dict(min(one, other, key=lambda f: f["steady"]))
    best.update({key: min(one[key], other[key]) for key in ("first", "ten")})
    return {**figures, "jax": best}


def summary(results: Results, families: dict[str, list[str]]) -> Table:
    """By family, and of all: the mean and the least of the steady ratios to JAX, how many
    workloads may be slower than JAX, and the means of the first call, ten calls, a new program's
    first call and a warm start's."""
    several = any(NEWEST in figures for figures in results.values())
    whom = "the faster of two JAX versions" if several else "JAX"
    results = {name: beside_the_faster(figures) for name, figures in results.items()}
    out = Table(title=f"Beside {whom}; steady ratios count {MOST:g} at most")
    for column in ("family", "steady", "least", "below 0.95", "first", "ten", "new", "warm"):
        out.add_column(column, justify="left" if column == "family" else "right")
    groups = {**families, "all": [n for names in families.values() for n in names]}
    for family, names in groups.items():
        steady = [ratio(results[n], "jax") for n in names]
        least = min((r for r in steady if r), default=None)
        lows = [found[0] for n in names if (found := interval(results[n], "jax")) is not None]
        first, ten = (mean_ratio(results, names, "jax", key) for key in ("first", "ten"))
        later = [geometric(beside(results[n], key) for n in names) for key in ("new", "warm")]
        out.add_row(
            family, ratio_text(geometric(steady, MOST)), ratio_text(least),
            str(sum(low < 0.95 for low in lows)), *map(ratio_text, (first, ten, *later)),
        )  # fmt: skip
    return out


MEASURED = "<!-- measured: what follows is written by `python -m benchmarks --page` -->"


def page(
    results: Results,
    families: dict[str, list[str]],
    engines: list[str],
    bounds: Limits,
    machine: dict[str, Any],
) -> str:
    """The tables as Markdown, and where they come from."""
    facts = ", ".join(f"{key} {value}" for key, value in machine.items())
    parts = [f"Measured: {facts}.", "", "## Summary", "", markdown(summary(results, families))]
    steady = steady_table(results, families, engines, bounds)
    parts += ["", "## Steady time of a call", "", markdown(steady)]
    if "pullback" in engines:
        parts += ["", "## First calls", "", markdown(first_table(results, families))]
    wrong = [
        f"* {name} on {engine}: {figures.get('error') or figures['differs']}"
        for name, found in results.items()
        for engine, figures in found.items()
        if "error" in figures or "differs" in figures
    ]
    if wrong:
        parts += ["", "## What failed, or differs from JAX's result", "", *wrong]
    return "\n".join(parts) + "\n"


def markdown(table: Table) -> str:
    """A table of the terminal as one of Markdown."""
    columns = [[Text.from_markup(str(cell)).plain for cell in c.cells] for c in table.columns]
    heads = [str(c.header) for c in table.columns]
    rules = [":--" if c.justify == "left" else "--:" for c in table.columns]
    rows = [heads, rules, *zip(*columns, strict=True)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)


def replace_measured(path: Path, text: str) -> None:
    """Renews what was measured in a page; what people wrote before it stays."""
    written = path.read_text().partition(MEASURED)[0] if path.exists() else ""
    path.write_text(f"{written}{MEASURED}\n\n{text}")


def plot(results: Results, families: dict[str, list[str]], path: Path) -> None:
    """Bars of the ratios to JAX, steady and first call, on a logarithmic axis."""
    # matplotlib costs a second to load: not before there is something to draw.
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    names = [n for group in families.values() for n in group if ratio(results[n], "jax")]
    if not names:
        return
    height = 1.5 + 0.3 * len(names)
    figure, panels = pyplot.subplots(1, 2, figsize=(13, height), sharey=True, layout="constrained")
    places = range(len(names), 0, -1)
    for axes, key, title in zip(panels, ("steady", "first"), ("steady time", "first call")):
        values = [ratio(results[n], "jax", key) or math.nan for n in names]
        colours = ["#2a7f62" if v >= 1 else "#b5473c" for v in values]
        axes.barh(list(places), [math.log10(v) for v in values], color=colours)
        for place, value in zip(places, values):
            if not math.isnan(value):
                axes.text(math.log10(value), place, f" {value:.3g}x ", va="center", fontsize=7,
                          ha="left" if value >= 1 else "right")  # fmt: skip
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_title(f"{title}: JAX's over Pullback's")
        axes.set_xlabel("powers of ten; right is faster than JAX")
        axes.margins(x=0.15, y=0.01)
    panels[0].set_yticks(list(places), names, fontsize=7)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
