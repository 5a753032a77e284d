"""Is a key used twice? What the flag jax_debug_key_reuse has checked.

Each key of a key array has a cell, which says whether the key was consumed: random bits were drawn
from it, it was split, or it was cut out of its array. What moves keys hands on their cells, so that
a key is known wherever it goes. Operations are followed before they run, programs and their loops
and branches equation by equation; a loop's body consumes what each of its iterations would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.avals import typeof
from ..core.jaxpr import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params
from ..core.primitive import ALL
from ..errors import KeyReuseError
from ..primitives.keys import PRNGKeyArray, has_keys, is_key_aval

# The cells of a key array, as an array of objects; None of what holds no keys.
Cells = Any

# Operations that consume their keys; the keys they give are new.
_CONSUME = frozenset("random_bits random_split random_gamma select_n".split())
# Those that leave keys as good as they were; the keys they give are new.
_READ = frozenset("random_fold_in random_clone random_unwrap random_wrap eq ne".split())
# Those that refuse keys which are all consumed, but consume none.
_REFUSE = frozenset("transpose rev".split())
# Those that write keys into others: which argument they write. It is consumed, and stands in the
# result.
_WRITES = {"dynamic_update_slice": 1, "scatter": 2}
# Those that consume keys and give them anew, joined or in parts: what they give is to be used in
# place of what they took.
_JOINS = frozenset("concatenate stack split unstack".split())
# Those that move several arrays: each stays itself.
_EACH = frozenset(("optimization_barrier", "device_put"))
_FIX = "Fix: split the key and use each part once, or clone it."


class Cell:
    """Whether one key was consumed."""

    __slots__ = ("used",)

    def __init__(self, used: bool) -> None:
        self.used = used


def _fresh(used: Any) -> Cells:
    """New cells: used where the mask `used` is set."""
    cells = np.empty(np.shape(used), object)
    for k, value in enumerate(np.ravel(used)):
        cells.flat[k] = Cell(bool(value))
    return cells


def _used(cells: Cells) -> Any:
    """Which cells are used, as a mask; None of no cells."""
    if cells is None:
        return None
    return np.array([cell.used for cell in cells.flat], bool).reshape(cells.shape)


def cells_of(x: Any) -> Cells:
    """The cells of a key array; None of other values."""
    if not isinstance(x, PRNGKeyArray):
        return None
    if x._cells is False:
        x._cells = _fresh(np.zeros(x.shape, bool))
    return x._cells


def _cut(cells: Cells, p: Any) -> Cells:
    """The cells of a slice."""
    steps = p["strides"] or (1,) * cells.ndim
    at = zip(p["start_indices"], p["limit_indices"], steps, strict=True)
    return cells[(*(slice(*bounds) for bounds in at), ...)]


# --- operations that move keys: the same cells elsewhere ---
def _broadcast(ins: Sequence[Cells], p: Any, aval: Any) -> Cells:
    sizes, dims = [1] * aval.ndim, p["broadcast_dimensions"]
    for n, d in zip(ins[0].shape, dims, strict=True):
        sizes[d] = n
    order = sorted(range(len(dims)), key=dims.__getitem__)
    return np.broadcast_to(ins[0].transpose(order).reshape(sizes), aval.shape)


def _dynamic_slice(ins: Sequence[Cells], p: Any, aval: Any) -> Cells:
    """Keys of unknown places, unless they are all there are."""
    if ins[0].shape == aval.shape:
        return ins[0]
    return _fresh(np.full(aval.shape, bool(_used(ins[0]).all())))


_MOVES: dict[str, Callable[[Sequence[Cells], Any, Any], Cells]] = {
    "dynamic_slice": _dynamic_slice,
    "broadcast_in_dim": _broadcast,
    "transpose": lambda ins, p, _: ins[0].transpose(p["permutation"]),
    "rev": lambda ins, p, _: np.flip(ins[0], p["dimensions"]),
    "tile": lambda ins, p, _: np.tile(ins[0], p["reps"]),
    **dict.fromkeys(
        ("squeeze", "reshape", "copy", "copy_p"),
        lambda ins, p, aval: ins[0].reshape(aval.shape),
    ),
}
# Those whose results are, outside of programs, keys of their own, as those of calls are.
_COPIES = frozenset(("copy", "copy_p", "device_put"))


class _Flow:
    """Follows keys through operations, and remembers which cells it marks."""

    def __init__(self) -> None:
        self.marked: list[Cell] = []

    def consume(self, name: str, k: int, cells: Cells) -> None:
        self.refuse(name, k, cells)
        for cell in cells.flat:
            if not cell.used:  # a key may stand twice in an array
                cell.used = True
                self.marked.append(cell)

    def refuse(self, name: str, k: int, cells: Cells) -> None:
        if any(cell.used for cell in cells.flat):
            raise KeyReuseError(f"In {name}, argument {k} is already consumed. {_FIX}")

    def take_back(self) -> None:
        """Nothing was marked."""
        for cell in self.marked:
            cell.used = False
        self.marked = []

    @contextmanager
    def aside(self) -> Iterator[list[Cell]]:
        """What is marked inside is marked no more afterwards; gives those cells."""
        outer, self.marked = self.marked, []
        marked = self.marked
        try:
            yield marked
        finally:
            self.take_back()
            self.marked = outer

    def closed(self, closed: ClosedJaxpr, ins: Sequence[Cells]) -> list[Cells]:
        return self.program(closed.jaxpr, [cells_of(c) for c in closed.consts], ins)

    def program(self, jaxpr: Jaxpr, consts: Sequence[Cells], ins: Sequence[Cells]) -> list[Cells]:
        """The cells of a program's results."""
        env: dict[Any, Cells] = {}

        def read(v: Any) -> Cells:
            if isinstance(v, Literal):
                return cells_of(v.val)
            if is_key_aval(v.aval) and env.get(v) is None:
                env[v] = _fresh(np.zeros(v.aval.shape, bool))
            return env.get(v)

        env.update(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *ins), strict=True))
        for eqn in jaxpr.eqns:
            args = [read(v) for v in eqn.invars]
            if any(x is not None for x in args) or any(map(has_keys, jaxprs_in_params(eqn.params))):
                avals = [v.aval for v in eqn.outvars]
                outs = self.operation(eqn.primitive.name, eqn.params, args, avals)
                env.update(zip(eqn.outvars, outs, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def operation(
        self, name: str, params: dict[str, Any], ins: Sequence[Cells], avals: Sequence[Any]
    ) -> list[Cells]:
        """The cells of an operation's results of these types."""
        used = False
        if name in _CONSUME or name in _JOINS:
            for k, cells in enumerate(ins):
                if cells is not None:
                    self.consume(name, k, cells)
        elif name == "slice":
            self.consume(name, 0, _cut(ins[0], params))
        elif name in _WRITES:
            self.consume(name, _WRITES[name], ins[_WRITES[name]])
            return [ins[0]]
        elif name in _EACH:
            return list(ins)
        elif name in _HOLDERS:
            with _named(name, ins):
                return _HOLDERS[name](self, params, ins, avals)
        elif name in _MOVES:
            out = _MOVES[name](ins, params, avals[0])
            if name in _REFUSE and out.size and _used(out).all():
                self.refuse(name, 0, out)
            return [out]
        elif name not in _READ:
            held = [v for v in params.values() if isinstance(v, ClosedJaxpr | Jaxpr)]
            if len(held) == 1 and len(_jaxpr(held[0]).invars) == len(ins):
                with _named(name, ins):
                    return self._call(held[0], ins, bool(params.get("differentiated")))
            keyed = [(k, cells) for k, cells in enumerate(ins) if cells is not None]
            if name not in ALL:  # a library's: whatever it does with its keys
                for k, cells in keyed:
                    self.consume(name, k, cells)
            # Keys of unknown places: consumed if all keys were.
            known = [cell.used for _, cells in keyed for cell in cells.flat]
            used = bool(known) and all(known)
        return [_fresh(np.full(a.shape, used)) if is_key_aval(a) else None for a in avals]

    def _call(self, held: Any, ins: Sequence[Cells], again: bool) -> list[Cells]:
        closed = held if isinstance(held, ClosedJaxpr) else ClosedJaxpr(held, ())
        if not again:
            return self.closed(closed, ins)
        with self.aside():  # what a backward pass computes again, it does not use again
            return self.closed(closed, [None if x is None else _fresh(x != x) for x in ins])


@contextmanager
def _named(name: str, ins: Sequence[Cells]) -> Iterator[None]:
    """What an operation that holds programs refuses is said of it, if its keys were consumed."""
    before = [k for k, x in enumerate(ins) if x is not None and _used(x).any()]
    try:
        yield
    except KeyReuseError:
        if not before:
            raise
        raise KeyReuseError(
            f"In {name}, argument {before[0]} is already consumed. {_FIX}"
        ) from None


def _jaxpr(held: Any) -> Jaxpr:
    return held.jaxpr if isinstance(held, ClosedJaxpr) else held


# --- loops and branches ---
def _cond(flow: _Flow, params: Any, ins: Sequence[Cells], avals: Sequence[Any]) -> list[Cells]:
    """What one branch consumes is consumed."""
    found, marked = [], []
    for branch in params["branches"]:
        with flow.aside() as inside:
            outs = flow.closed(branch, ins[1:])
            found.append([(cells, _used(cells)) for cells in outs])
            marked += list(inside)
    for cell in marked:
        cell.used = True
    flow.marked += marked
    return [_merged(outs) for outs in zip(*found, strict=True)]


def _merged(outs: Sequence[tuple[Cells, Any]]) -> Cells:
    first, mask = outs[0]
    if first is None or all(_same(first, cells) for cells, _ in outs):
        return first
    return _fresh(np.logical_or.reduce([used for _, used in outs])) if mask is not None else None


def _same(a: Cells, b: Cells) -> bool:
    return a.shape == b.shape and all(x is y for x, y in zip(a.flat, b.flat, strict=True))


class _Body:
    """What one run of a loop's body does with keys of its own."""

    def __init__(self, flow: _Flow, closed: ClosedJaxpr) -> None:
        avals = [v.aval for v in closed.jaxpr.invars]
        self.ins = [_fresh(np.zeros(a.shape, bool)) if is_key_aval(a) else None for a in avals]
        fixed = [cells_of(c) for c in closed.consts]
        with flow.aside():
            self.outs = flow.closed(closed, self.ins)
            self.used = [_used(cells) for cells in self.ins]
            self.out_used = [_used(cells) for cells in self.outs]
            self.fixed_used = any(_used(c).any() for c in fixed if c is not None)

    def check(self, name: str, n_consts: int, n_carry: int) -> None:
        """KeyReuseError if a second run would use a key again."""
        consts = self.used[:n_consts]
        if self.fixed_used or any(u is not None and u.any() for u in consts):
            raise KeyReuseError(
                f"{name} body function leads to key reuse when repeatedly executed, because key "
                "constants are repeatedly consumed. Fix: fold_in the loop's index, or carry the "
                "key and split it."
            )
        carry = zip(self.used[n_consts : n_consts + n_carry], self.out_used, strict=False)
        if any(u is not None and (u & out).any() for u, out in carry):
            raise KeyReuseError(
                f"{name} body function leads to key reuse when repeatedly executed: it consumes a "
                "key of the carry and hands it on. Fix: split the key, and carry the other part."
            )


def _loop(
    flow: _Flow, name: str, body: _Body, n_consts: int, n_carry: int, ins: Sequence[Cells]
) -> list[Cells]:
    """The cells of what a loop carries, after it; its carried keys are consumed."""
    body.check(name, n_consts, n_carry)
    outs: list[Cells] = []
    for k in range(n_carry):
        cells, used = ins[n_consts + k], body.used[n_consts + k]
        if cells is None:
            outs.append(None)
            continue
        flow.consume(name, n_consts + k, cells[used])
        own = body.ins[n_consts + k]
        outs.append(cells if _same(own, body.outs[k]) else _fresh(body.out_used[k]))
    return outs


def _scan(flow: _Flow, params: Any, ins: Sequence[Cells], avals: Sequence[Any]) -> list[Cells]:
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    body = _Body(flow, params["jaxpr"])
    outs = _loop(flow, "scan", body, n_consts, n_carry, ins)
    first = n_consts + n_carry
    for k in range(first, len(ins)):
        if ins[k] is not None:
            rows = ins[k].reshape(ins[k].shape[0], math.prod(ins[k].shape[1:]))
            flow.consume("scan", k, rows[:, body.used[k].ravel()])
    for cells, used, aval in zip(
        body.outs[n_carry:], body.out_used[n_carry:], avals[n_carry:], strict=True
    ):
        if cells is None:
            outs.append(None)
            continue
        own = zip(body.ins[first:], ins[first:], strict=True)
        whole = [x for one, x in own if one is not None and _same(one, cells)]
        outs.append(whole[0] if whole else _fresh(np.broadcast_to(used, aval.shape)))
    return outs


def _while(flow: _Flow, params: Any, ins: Sequence[Cells], avals: Sequence[Any]) -> list[Cells]:
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond = _Body(flow, params["cond_jaxpr"])
    if cond.fixed_used or any(u is not None and u.any() for u in cond.used):
        raise KeyReuseError(
            "while_loop cond function leads to key reuse when repeatedly executed. Fix: draw in "
            "the body, and carry what was drawn."
        )
    body = _Body(flow, params["body_jaxpr"])
    return _loop(flow, "while_loop", body, n_body, len(ins) - n_cond - n_body, ins[n_cond:])


_HOLDERS: dict[str, Callable[..., list[Cells]]] = {"cond": _cond, "scan": _scan, "while": _while}


# --- what is checked ---
def check_program(closed: ClosedJaxpr) -> None:
    """KeyReuseError if a program uses a key twice, whatever its arguments are."""
    if has_keys(closed.jaxpr):
        flow = _Flow()
        try:
            flow.program(closed.jaxpr, [None] * len(closed.consts), [None] * len(closed.in_avals))
        finally:
            flow.take_back()


def watched(primitive: Any, args: Sequence[Any], params: Any) -> Callable[[Sequence[Any]], None]:
    """Marks what an operation on values consumes; gives what is to be called with its results.

    Raises KeyReuseError if the operation uses a key that was consumed before.
    """
    ins = [cells_of(x) for x in args]
    held = [v for v in params.values() if isinstance(v, ClosedJaxpr)]
    every = [*(cells_of(c) for closed in held for c in closed.consts), *ins]
    before = [k for k, cells in enumerate(every) if cells is not None and _used(cells).any()]
    avals, _ = primitive.abstract_eval(*map(typeof, args), **params)
    flow = _Flow()
    try:
        outs = flow.operation(
            primitive.name, params, ins, avals if primitive.multiple_results else [avals]
        )
    except KeyReuseError:
        if not before and primitive.name in _JOINS:  # one key twice: refused once it is used
            outs = [_fresh(np.ones(avals.shape, bool))]
            return lambda results: _mark(results, outs, True)
        flow.take_back()
        if not before:
            raise
        what = "jit-compiled function" if primitive.name == "jit" else primitive.name
        raise KeyReuseError(
            f"Previously-consumed key passed to {what} at index {before[0]}. {_FIX}"
        ) from None
    moved = primitive.name in _MOVES or primitive.name in _EACH
    copies = not moved or primitive.name in _COPIES
    return lambda results: _mark(results, outs, copies)


def _mark(results: Sequence[Any], outs: Sequence[Cells], copies: bool) -> None:
    for x, cells in zip(results, outs, strict=True):
        if isinstance(x, PRNGKeyArray) and cells is not None:
            x._cells = _fresh(_used(cells)) if copies else cells
