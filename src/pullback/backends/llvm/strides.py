"""How far apart the elements lie that lanes of a loop read and write: side by side, at a stride,
anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pullback.backends.llvm.access import WIDEST_STRIDE
from pullback.backends.llvm.analysis import children, walk
from pullback.backends.llvm.byte_tables import NO_TABLES, Tables
from pullback.backends.llvm.target import Target
from pullback.loops.ir import Const, For, If, Let, Load, Store, Update, Var, While
from pullback.loops.ops import storage_bytes

__all__ = [
    "is_unit", "lane_by_lane", "lanes_apart", "one_by_one", "scattered_accesses",
    "scattered_inside",
]  # fmt: skip


def is_unit(s: For) -> bool:
    """Whether a loop's index goes up by one."""
    return isinstance(s.step, Const) and s.step.value == 1


def lane_by_lane(s: For, tables: Tables = NO_TABLES) -> bool:
    """Whether the body addresses memory other than by the index itself, uniformly, contiguously,
    or in tables that registers hold."""
    found = (
        x for x in scattered_accesses(s) if not (isinstance(x, Load) and x.out in tables.places)
    )
    return next(found, None) is not None


def lanes_apart(s: For, target: Target) -> bool:
    """The same, but for lanes at a small stride where masked vectors of memory have them, which
    shuffles pick out."""
    return any(
        not target.masks
        or step is None
        or abs(step) > WIDEST_STRIDE
        or storage_bytes(x.buf.dtype) < 4
        or isinstance(x, Update)
        for x, step in _strides(s)
    )


def scattered_inside(s: For) -> bool:
    """Whether loops inside of the body address memory so."""
    loops = (x for x in walk(s.body) if isinstance(x, (For, While)))
    inside = {id(x) for loop in loops for block in children(loop) for x in walk(block)}
    return any(id(x) in inside for x in scattered_accesses(s))


def scattered_accesses(s: For) -> Iterator[Load | Store | Update]:
    """The statements that address memory so, tables or not."""
    return (stmt for stmt, _ in _strides(s))


def one_by_one(s: For, tables: Tables) -> int:
    """How many loads of a body take its lanes one by one, of elements that no instruction
    gathers."""
    far = (x for x, step in _strides(s) if step is None or abs(step) > WIDEST_STRIDE)
    loads = (x for x in far if isinstance(x, Load) and x.out not in tables.places)
    return sum(1 for x in loads if storage_bytes(x.buf.dtype) < 4)


def _strides(s: For) -> Iterator[tuple[Load | Store | Update, int | None]]:
    """The same statements, with the distance of two lanes; None if it is not known."""
    linear: dict[object, int | None] = {s.index: 1}  # stride by the index; None: not linear

    def stride(a: object) -> int | None:
        return linear.get(a, 0) if isinstance(a, Var) else 0

    for stmt in walk(s.body):
        if isinstance(stmt, Let):
            parts = [stride(a) for a in stmt.args]
            if all(p == 0 for p in parts):
                linear[stmt.out] = 0
            elif None in parts or stmt.op not in ("add", "sub", "mul") or stmt.out.dtype != "i64":
                linear[stmt.out] = None
            elif stmt.op == "mul":
                x, y = stmt.args
                c = y if isinstance(y, Const) else x
                other = parts[0] if c is y else parts[1]
                linear[stmt.out] = int(c.value) * (other or 0) if isinstance(c, Const) else None
            else:
                linear[stmt.out] = (parts[0] or 0) + (parts[1] or 0) * (
                    1 if stmt.op == "add" else -1
                )
        elif isinstance(stmt, Load):
            linear[stmt.out] = (
                None if _offset_stride(stmt, stride) != 0 or stmt.mask is not None else 0
            )
        elif isinstance(stmt, (For, While)):
            for carry in stmt.carry:
                linear[carry.var] = linear[carry.out] = None
        elif isinstance(stmt, If):
            linear.update((o, None) for o in stmt.outs)
        if isinstance(stmt, Update):
            yield stmt, None
        elif isinstance(stmt, (Load, Store)):
            step = _offset_stride(stmt, stride)
            if step not in (0, 1, -1):
                yield stmt, step


def _offset_stride(s: Load | Store, stride: Callable[[object], int | None]) -> int | None:
    """By how much the element offset grows per lane; None when it is not a literal."""
    total: int | None = 0
    scale: int | None = 1
    for k in range(len(s.index) - 1, -1, -1):
        p = stride(s.index[k])
        if p != 0:
            total = None if p is None or scale is None or total is None else total + p * scale
        d = s.buf.shape[k]
        scale = scale * d if isinstance(d, int) and scale is not None else None
    return total
