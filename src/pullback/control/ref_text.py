"""How uses of references are printed: `y <- r[0]`, `r[0] <- x` and `r[0] += x`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import tree
from ..core import show
from .ref_places import Indexer, RefSlice, Steps, is_whole


def _place_text(ref: Any, atoms: Sequence[str], treedef: Any) -> str:
    names = iter(atoms)
    place = tree.unflatten(treedef, [None] * treedef.num_leaves)
    if type(place) is Steps:
        return "".join(
            f"[{_index_text(t.indices, t.shape, names)}]" if type(t) is Indexer else repr(t)
            for t in place.transforms
        )
    shape = ref.aval.shape
    return "[...]" if is_whole(place, shape) else f"[{_index_text(place, shape, names)}]"


def _index_text(entries: Sequence[Any], shape: Sequence[int], names: Any) -> str:
    return ",".join(_entry_text(e, n, names) for e, n in zip(entries, shape, strict=True))


def _entry_text(e: Any, n: int, names: Any) -> str:
    if not isinstance(e, RefSlice):
        return next(names).split(":")[0]  # type: ignore[no-any-return]
    if type(e.start) is not int:
        start = next(names).split(":")[0]
        return f"{start}:{start}+{e.size}" + (f":{e.stride}" if e.stride != 1 else "")
    stop = e.start + (e.size - 1) * e.stride + 1
    text = f"{e.start or ''}:{stop if stop != n else ''}"
    return text + (f":{e.stride}" if e.stride != 1 else "")


def _show_get(eqn: Any, outs: Sequence[str], ins: Sequence[str]) -> str:
    return f"{outs[0]} <- {ins[0]}{_place_text(eqn.invars[0], ins[1:], eqn.params['tree'])}"


def _show_swap(eqn: Any, outs: Sequence[str], ins: Sequence[str]) -> str:
    place = f"{ins[0]}{_place_text(eqn.invars[0], ins[2:], eqn.params['tree'])}"
    if outs[0].startswith("_"):  # nobody reads it
        return f"{place} <- {ins[1]}"
    return f"{outs[0]}, {place} <- {place}, {ins[1]}"


def _show_add(eqn: Any, outs: Sequence[str], ins: Sequence[str]) -> str:
    return f"{ins[0]}{_place_text(eqn.invars[0], ins[2:], eqn.params['tree'])} += {ins[1]}"


show.line_rules.update(get=_show_get, swap=_show_swap, addupdate=_show_add)
