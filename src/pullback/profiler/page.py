"""A kernel profile as one HTML page that needs nothing else: bars, tables, the user's lines."""

from __future__ import annotations

import html
import string
from typing import TYPE_CHECKING

from pullback.formatting import duration

if TYPE_CHECKING:
    from .kernels import KernelProfile, KernelTime, LineTime

__all__ = ["html_of"]

PAGE = string.Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>$name: time of kernels</title>
<style>
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; margin-bottom: 2em; }
th, td { text-align: right; padding: .2em .6em; border-bottom: 1px solid #8884; }
th { font-weight: 600; } .text { text-align: left; }
td.text { font-family: ui-monospace, monospace; font-size: 12px; word-break: break-word; }
.bar { background: linear-gradient(to right, #4a90d966 var(--part), transparent var(--part)); }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #dde; } }
</style></head><body>
<h1>$name</h1>
<p>$seconds a run; $inside of it in $count kernels. A kernel that only copies moves
$copy GB/s on this machine; bytes are counted once for each buffer that a kernel touches.</p>
<h2>Kernels, in the order of the plan</h2>
<table><tr><th class="text">kernel</th><th>calls</th><th>time</th><th>part</th><th>GB/s</th>
<th>of copy</th><th>Gop/s</th><th class="text">computes</th></tr>
$kernels
</table>
<h2>Lines of the program</h2>
<table><tr><th class="text">line</th><th>time</th><th>part</th><th class="text">source</th></tr>
$lines
</table></body></html>
""")


def html_of(profile: KernelProfile) -> str:
    """The page of a profile."""
    whole = sum(k.seconds for k in profile.kernels) or 1.0
    return PAGE.substitute(
        name=html.escape(profile.name),
        seconds=duration(profile.seconds),
        inside=duration(whole),
        count=len(profile.kernels),
        copy=f"{profile.copy_bandwidth / 1e9:.1f}",
        kernels="\n".join(_kernel(k, whole, profile.copy_bandwidth) for k in profile.kernels),
        lines="\n".join(_line(line, whole) for line in profile.lines),
    )


def _kernel(k: KernelTime, whole: float, copy: float) -> str:
    cells = [
        f"{k.calls:g}", duration(k.seconds), f"{k.seconds / whole:.1%}", f"{k.bandwidth / 1e9:.1f}",
        f"{k.bandwidth / copy:.0%}", f"{k.rate / 1e9:.1f}",
    ]  # fmt: skip
    return _row(k.name, cells, ", ".join(k.equations), k.seconds / whole)


def _line(line: LineTime, whole: float) -> str:
    part = line.seconds / whole
    return _row(line.line, [duration(line.seconds), f"{part:.1%}"], line.source, part)


def _row(first: str, cells: list[str], last: str, part: float) -> str:
    inner = "".join(f"<td>{cell}</td>" for cell in cells)
    return (
        f'<tr><td class="text bar" style="--part: {part:.1%}">{html.escape(first)}</td>{inner}'
        f'<td class="text">{html.escape(last)}</td></tr>'
    )
