"""Tables, a JSON file and a plot of measured workloads."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.table import Table

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
    logs = [math.log(r) for n in names if (r := ratio(results[n], other, key))]
    return math.exp(sum(logs) / len(logs)) if logs else None


def ratio_text(value: float | None) -> str:
    if value is None:
        return ""
    colour = "green" if value >= 1.05 else "red" if value < 0.95 else "yellow"
    return f"[{colour}]{value:.3g}x[/{colour}]"


def table(results: Results, families: dict[str, list[str]], engines: list[str]) -> Table:
    """Steady times of all engines and the ratios to Pullback's, then first calls."""
    out = Table(title="Steady time a call, and the first call (trace + lower + compile + run)")
    out.add_column("workload", overflow="fold", min_width=24)
    for engine in engines:
        out.add_column(engine, justify="right")
    others = [e for e in engines if e != "pullback"]
    for engine in others:
        out.add_column(f"/{engine}", justify="right")
    out.add_column("first", justify="right")
    out.add_column("jax's", justify="right")
    out.add_column("ratio", justify="right")
    for family, names in families.items():
        out.add_section()
        out.add_row(f"[bold]{family}")
        for name in names:
            out.add_row(*row(name, results[name], engines, others))
        means = [ratio_text(mean_ratio(results, names, e, "steady")) for e in others]
        first = ratio_text(mean_ratio(results, names, "jax", "first"))
        out.add_row("  [italic]geometric mean", *[""] * len(engines), *means, "", "", first)
    return out


def row(
    name: str, figures: dict[str, dict[str, Any]], engines: list[str], others: list[str]
) -> list[str]:
    cells = []
    for engine in engines:
        mine = figures.get(engine, {})
        text = "[red]error" if "error" in mine else seconds_text(mine.get("steady"))
        cells.append(text + (" [red]differs" if mine.get("differs") else ""))
    ratios = [ratio_text(ratio(figures, e)) for e in others]
    first = [seconds_text(figures.get(e, {}).get("first")) for e in ("pullback", "jax")]
    return [f"  {name}", *cells, *ratios, *first, ratio_text(ratio(figures, "jax", "first"))]


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
