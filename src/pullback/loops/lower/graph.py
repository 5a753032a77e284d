"""The graph between jaxprs and loop nests: every value is a function from an index to code that
computes its element.

    Node       one value. `at(b, idx)` emits the code of one element (complex: a pair of reals) into
    builder b
    Reduction  what a node of kind 'red' sums up: element function, identity, combiner, finish
    Opaque     statements that fill whole buffers: scatter, sort, cumulative sums, loops,
    contractions, host calls

A dependency is (node, axes): axes[k] is the axis of the consumer whose index is the dependency's
index along its axis k, or None
where the index is something else; axes = None is the identity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.loops.build import Builder, Index, i64
from pullback.loops.ir import Atom, Buf, Const
from pullback.loops.ops import storage_bytes
from pullback.records import made, record

__all__ = [
    "COMPLEX",
    "Graph",
    "Node",
    "Opaque",
    "OuterSlot",
    "Reduction",
    "RegisterSlot",
    "Slot",
    "combine_step",
    "ir_dtype",
    "level_at",
    "load_slot",
    "no_value",
    "part_dtype",
    "read",
    "red_index",
    "store_slot",
]

Axes = tuple[int | None, ...] | None
Value = Any  # an Atom, or a pair of them for complex

COMPLEX = {"c64": "f32", "c128": "f64"}
_NAMES = {
    "bool": "bool",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
    **{f"{p}int{2**n}": f"{s}{2**n}" for p, s in (("", "i"), ("u", "u")) for n in range(7)},
}
_known: dict[Any, str] = {}


def ir_dtype(dtype: Any) -> str:
    """The loop-IR name of a NumPy dtype; complex ones have names of their own here (c64, c128)."""
    found = _known.get(dtype)
    if found is None:
        name = np.dtype(dtype).name
        found = _known[dtype] = _NAMES.get(name, name)
    return found


def part_dtype(dtype: str) -> str:
    """The dtype of a value's components."""
    return COMPLEX.get(dtype, dtype)


class Slot:
    """A buffer of the plan or of a region. `number` is given when the plan is made."""

    __slots__ = ("alias", "bytes", "dtype", "name", "number", "role", "shape", "size", "value")

    def __init__(self, dtype: str, shape: tuple[int, ...], role: str, value: Any = None) -> None:
        self.dtype, self.shape, self.role, self.value = part_dtype(dtype), shape, role, value
        self.size = math.prod(shape) * (2 if dtype in COMPLEX else 1)
        self.bytes = self.size * storage_bytes(self.dtype)
        self.number = -1
        self.alias: Slot | None = None
        self.name = role

    def base(self, b: Builder) -> Index:
        """The element of the buffer at which this slot starts."""
        return 0

    def element(self, b: Builder, offset: Index) -> Index:
        """Where in the buffer an element of this slot is."""
        return b.add(offset, self.base(b))

    def buf(self, b: Builder) -> Buf:
        """The flat buffer of this slot in a kernel."""
        found = b.bound.get(self)
        if found is None:
            found = b.params.get(self)
        if found is None:
            size = b.dim(self.size)
            extent = size.value if hasattr(size, "value") else size
            found = b.params[self] = Buf(f"{self.role}{len(b.params)}", self.dtype, (extent,), "in")  # type: ignore[arg-type]
        return found


class RegisterSlot(Slot):
    """An array of a few elements that stays in registers: what reads and writes it is unrolled.
    Only in the body of a loop, between its statements of the outermost level. An element that has
    not been written is None: nothing reads it, though a place may be known only when it runs."""

    __slots__ = ("values",)

    def __init__(self, dtype: str, shape: tuple[int, ...]) -> None:
        super().__init__(dtype, shape, "temp")
        self.values: list[Any] = [None] * self.size

    def get(self, b: Builder, offset: Index) -> Atom:
        if isinstance(offset, int):
            return self.values[offset]  # type: ignore[no-any-return]
        place = b.atom(offset)
        written = [k for k in range(self.size) if self.values[k] is not None]
        value: Atom = self.values[written[0]]
        for k in written[1:]:
            here = b.let("eq", (place, b.dim(k)), "bool")
            value = b.select(here, self.values[k], value)
        return value

    def put(self, b: Builder, offset: Index, value: Atom, mask: Any) -> None:
        mask = b.both(mask, b.mask)
        if isinstance(offset, int):
            self._put(b, offset, value, mask)
            return
        place = b.atom(offset)
        for k in range(self.size):
            self._put(b, k, value, b.both(mask, b.let("eq", (place, b.dim(k)), "bool")))

    def _put(self, b: Builder, k: int, value: Atom, mask: Any) -> None:
        before = self.values[k]
        self.values[k] = value if before is None else b.select(mask, value, before)

    def buf(self, b: Builder) -> Buf:
        raise AssertionError("internal error in pullback: registers have no address")


class Node:
    """One value of the program."""

    __slots__ = (
        "at",
        "breaks",
        "cost",
        "deps",
        "dtype",
        "equation",
        "kind",
        "live",
        "nest",
        "order",
        "origin",
        "out",
        "out_scratch",
        "own",
        "own_breaks",
        "padded",
        "parts",
        "period",
        "permuted",
        "ready",
        "red",
        "reshaped",
        "reuse",
        "root",
        "roots",
        "rows",
        "shape",
        "slot",
        "source",
        "spread",
        "stacked",
        "stored",
        "summed",
        "truth",
        "users",
        "wanted",
        "widened",
    )

    def __init__(self, shape: tuple[int, ...], dtype: str, kind: str) -> None:
        self.shape, self.dtype, self.kind = shape, dtype, kind
        self.at: Callable[[Builder, tuple[Index, ...]], Value] | None = None
        self.deps: list[tuple[Node, Axes]] = []
        self.origin: Node | None = None  # what a computed leaf reads in the surrounding program
        self.own = 1.0  # cost of an element beyond its operands
        self.cost = 1.0
        self.own_breaks: frozenset[int] = frozenset()
        self.period = 1  # of what the last index means: every so many elements are computed alike
        self.red: Reduction | None = None
        self.source: Opaque | None = None
        self.out = 0
        self.slot: Slot | None = None
        self.ready = False
        self.root = self.wanted = self.live = self.stored = False
        self.users = 0
        self.reuse = 1  # how often each element is read by a contraction
        self.nest: Any = None
        self.order = -1
        self.equation = -1
        self.roots: Any = None
        self.breaks: Any = None
        self.out_scratch: Slot | None = None
        self.permuted: Any = None  # (value, permutation), where that is all a value is
        self.spread: Any = None  # (value, its axes here), where a value is one, repeated
        self.rows: Any = None  # (value, axis, place), where a value is one's rows, picked
        self.reshaped: Node | None = None  # the value, where that is all it is
        self.truth: Node | None = None  # the booleans, where they as numbers are all a value is
        self.widened: Node | None = None  # the integers, where they in a wider dtype are all it is
        self.summed: Any = None  # (value, axes), of whose integers it is the sum
        self.parts: Sequence[Node] | None = None  # what it joins along its last axis
        self.stacked: Any = (
            None  # (values, axis), each of which is one element of it along the axis
        )
        self.padded: Any = None  # (value, configuration, filling), where that is all a value is

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class OuterSlot(Slot):
    """The buffer of a value of the surrounding program, which has it when the region is written."""

    __slots__ = ("source",)

    def __init__(self, source: Node) -> None:
        super().__init__(source.dtype, source.shape, "temp")
        self.source = source

    def buf(self, b: Builder) -> Any:
        assert self.source.slot is not None
        return self.source.slot.buf(b)

    def base(self, b: Builder) -> Index:
        assert self.source.slot is not None
        return self.source.slot.base(b)


@record(frozen=False, weak=True)
class Reduction:
    """accs = combine over the reduced axes of element(idx); a node's value is
    finish(accs)[node.out].

    `shape` is the iteration space, `axes` the reduced ones; kept axes keep their order.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    dtypes: tuple[str, ...]
    element: Callable[[Builder, tuple[Index, ...]], Sequence[Atom]]
    init: Callable[[Builder], Sequence[Atom]]
    combine: Any  # tuple of operator names, or f(b, olds, news) -> accs
    finish: Callable[[Builder, Sequence[Atom]], Sequence[Value]]
    deps: list[tuple[Node, Axes]] = made(default_factory=list)
    nodes: list[Node] = made(default_factory=list)
    own: float = 1.0
    own_breaks: frozenset[int] = frozenset()
    in_order: bool = False  # by index, as unrolled ones: the number of rows decides which it is

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(k for k in range(len(self.shape)) if k not in self.axes)

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(self.shape[k] for k in self.axes)

    @property
    def count(self) -> int:
        return math.prod(self.extents)

    @property
    def lanes(self) -> bool:
        """Whether lanes run along a kept axis: the last axis of the operand is not a reduced
        one."""
        rank = len(self.shape)
        if not self.axes or max(self.axes) == rank - 1 or len(self.axes) == rank:
            return False
        return not self.small_tail

    @property
    def small_tail(self) -> int:
        """Number of trailing kept axes so small that each index gets accumulators of its own."""
        tail, total = 0, 1
        for k in reversed(range(len(self.shape))):
            if k in self.axes:
                return tail if tail and total <= 8 and self.count >= 16 else 0
            total *= self.shape[k]
            tail += 1
        return 0


@record(frozen=False, weak=True)
class Opaque:
    """Statements that fill the buffers of `outs` from `ins`.

    `modes[k]` says how input k is read: 'buffer' (it must be in memory), 'once' (elements are read
    about once each) or 'many'.
    `inplace` pairs (input, output) that may share a buffer when the input dies here. `emit(b,
    unit)` writes the statements;
    `host` instead is a Python callable on arrays. `heavy` is the work in scalar operations.
    """

    name: str
    ins: list[Node]
    modes: list[str]
    outs: list[Node] = made(default_factory=list)
    emit: Callable[[Builder, Opaque], None] | None = None
    host: Callable[..., Any] | None = None
    host_ins: Sequence[Any] = ()  # types of what Python takes and gives
    host_outs: Sequence[Any] = ()
    inplace: tuple[tuple[int, int], ...] = ()
    work: float = 0.0
    seconds: float = 0.0  # how long it takes; 0: as its work says
    updates: int = 0  # how many elements it writes in place, for those that write few
    numbers_first: bool = False  # operands that are numbers are read before anything is written
    fixed: Callable[[], bool] | None = None  # whether it writes the same places each time
    across: bool = False  # it reads its operand's buffer, and writes one that is equal elsewhere
    # Of an update of its first operand: the same one of another, made where a condition holds
    # (guarded.py): (graph, operand, condition, axes of the operand that the condition's are).
    under: Callable[[Graph, Node, Node, tuple[int, ...]], Node | None] | None = None
    equation: int = -1
    effect: bool = False
    holds_host: bool = False
    steps: Any = None  # builds plan steps itself (a loop whose body holds host or library steps)
    # Its steps themselves allocate its results, and give back `dying`, what it is the last to read.
    gradual: bool = False
    dying: list[Slot] = made(default_factory=list)
    reused: set[int] = made(
        default_factory=set
    )  # outputs that were given the buffer of their input
    live: bool = False
    index: int = -1
    # Pointwise values that follow may be computed by the operation itself (see epilogue.py):
    # `joined` is then its own result, which is no longer stored, and `last` what is stored.
    joins: bool = False
    joined: Node | None = None
    last: Any = None
    # Which of its operands a loop reads, which of its results it writes, a row a step.
    rows_in: range = range(0)
    rows_out: range = range(0)


def beside(op: Opaque, k: int) -> Opaque:
    """The operands that are read while operand k is updated: none where one element is written,
    after all that decides it has been read."""
    late = [] if op.updates == 1 else op.ins
    ins = [n for i, n in enumerate(late) if i != k and (n.shape or not op.numbers_first)]
    return Opaque("", ins, [])


class Graph:
    """Nodes in program order. Region bodies have graphs of their own."""

    def __init__(self, extents: set[int] | None = None, parent: Graph | None = None) -> None:
        self.nodes: list[Node] = []
        self.extents: set[int] = (
            parent.extents if parent is not None else extents if extents is not None else set()
        )
        self.equation = -1
        self.parent = parent
        self.effects: list[Opaque] = []
        self.options: Any = None if parent is None else parent.options
        self.repeats = False  # the body of a loop
        self.hoisted: list[Node] = []  # values that a body has asked its surroundings for
        # (operator, value, axes, dtype) -> the reduction: a mean and a variance ask for the same.
        self.reduced: dict[tuple[str, Node, tuple[int, ...], str], Node] = {}
        self._turned: dict[tuple[Node, tuple[int, ...]], Node] = {}

    def add(self, node: Node) -> Node:
        node.order = len(self.nodes)
        node.equation = self.equation
        self.nodes.append(node)
        return node

    def leaf(self, slot: Slot, shape: tuple[int, ...], dtype: str) -> Node:
        """A value that is in memory from the start."""
        node = self.add(Node(shape, dtype, "leaf"))
        node.slot, node.ready = slot, True
        return node

    def computed_leaf(
        self,
        shape: tuple[int, ...],
        dtype: str,
        at: Callable[[Builder, tuple[Index, ...]], Value],
        origin: Node | None = None,
    ) -> Node:
        """A value that the surrounding region provides: a loop carry, a row of a scanned array."""
        node = self.add(Node(shape, dtype, "leaf"))
        node.at, node.origin = at, origin
        return node

    def pointwise(
        self,
        shape: tuple[int, ...],
        dtype: str,
        deps: Sequence[tuple[Node, Axes]],
        at: Callable[[Builder, tuple[Index, ...]], Value],
        own: float = 1.0,
        breaks: frozenset[int] = frozenset(),
    ) -> Node:
        node = self.add(Node(shape, dtype, "pw"))
        node.deps, node.at, node.own, node.own_breaks = list(deps), at, own, breaks
        return node

    def turned(self, x: Node, order: tuple[int, ...]) -> Node | None:
        """In the body of a loop: an array from outside with its axes in another order, copied once
        before the loop. None for what is not from outside."""
        if self.parent is None or not isinstance(x.slot, OuterSlot):
            return None
        source, key = x.slot.source, (x.slot.source, order)
        if key not in self._turned:
            shape = tuple(x.shape[a] for a in order)
            copy = self.parent.turned(source, order)
            if copy is None:
                if not self.repeats:
                    return None
                place = {a: k for k, a in enumerate(order)}
                back = tuple(place[a] for a in range(len(order)))
                copy = self.parent.pointwise(
                    shape,
                    x.dtype,
                    [(source, back)],
                    lambda b, idx: read(source, b, tuple(idx[a] for a in back)),
                    breaks=frozenset(range(len(shape) - 1)),
                )
            self._turned[key] = self.leaf(OuterSlot(copy), shape, x.dtype)
            self.hoisted.append(copy)
        return self._turned[key]

    def reduction(self, red: Reduction, dtypes: Sequence[str], cheap: bool = False) -> list[Node]:
        """The results of a reduction. A short one is unrolled and counts as pointwise, unless its
        rows had better be read as they lie. `cheap`: an element costs next to nothing."""
        shape = tuple(red.shape[k] for k in red.kept)
        abreast = not callable(red.combine) and len(red.dtypes) == 1
        abreast = abreast and runs_abreast(red.shape, red.axes, [n for n, _ in red.deps], cheap)
        short = red.count <= 16 and not abreast and not _much_unrolled(red)
        red.in_order = abreast and red.count <= 16 and red.combine[0] in ("add", "mul")
        for k, dtype in enumerate(dtypes):
            node = self.add(Node(shape, dtype, "pw" if short else "red"))
            node.red, node.out = red, k
            kept = {axis: j for j, axis in enumerate(red.kept)}
            last = len(red.shape)
            for dep, axes in red.deps:
                own = axes if axes is not None else tuple(range(last))
                node.deps.append((dep, tuple(kept.get(a) if a is not None else None for a in own)))
            if short:
                node.at = _unrolled(red, k)
                node.own = red.own * red.count
                node.own_breaks = frozenset(
                    j
                    for j in range(len(shape) - 1)
                    if red.kept[j] + 1 != red.kept[j + 1] or red.kept[j] in red.own_breaks
                )
            red.nodes.append(node)
        return red.nodes

    def opaque(self, op: Opaque, outs: Sequence[tuple[tuple[int, ...], str]]) -> list[Node]:
        op.equation = self.equation
        if self.parent is not None:
            for x, mode in zip(op.ins, op.modes, strict=True):
                # A row of a scanned array, say, is computed where it is read, unless it must be
                # in memory.
                if mode == "buffer" and x.shape and x.kind == "leaf" and x.at and x.slot is None:
                    x.kind = "pw"
        for k, (shape, dtype) in enumerate(outs):
            node = self.add(Node(shape, dtype, "opq"))
            node.source, node.out = op, k
            op.outs.append(node)
        if op.effect:
            self.effects.append(op)
        return op.outs


MUCH = 200.0  # operations of a result; of what costs more the operands would be stored
LARGE = 1 << 14  # elements whose pass over memory takes longer than a loop does


def _much_unrolled(red: Reduction) -> bool:
    """Whether a short reduction of many elements computes so much for each result that it had
    better be a loop: unrolled it is too much for one value, and what it reads is stored (fuse.py
    counts as this does)."""
    if not red.axes or math.prod(red.shape) < LARGE or red.axes[-1] == len(red.shape) - 1:
        return False
    costs: dict[Node, float] = {}

    def cost(node: Node) -> float:
        if node.kind != "pw" or node.slot is not None or len(costs) > SEEN:
            return 1.0
        if node not in costs:
            costs[node] = 1.0
            repeat = node.red.count if node.red is not None else 1
            costs[node] = node.own + repeat * sum(cost(dep) for dep, _ in node.deps)
        return costs[node]

    whole = red.count * (red.own + sum(cost(dep) for dep, _ in red.deps))
    return whole > MUCH and len(costs) <= SEEN


# Lanes across rows read at a stride, which they do together up to this one; a row of so many
# elements fills most of a vector's lanes; and it takes so many rows.
WIDEST_STRIDE, FILLED, MANY_ROWS = 8, 12, 64


def runs_abreast(
    shape: tuple[int, ...], axes: tuple[int, ...], reads: list[Node], cheap: bool = False
) -> bool:
    """Whether short reductions are of rows that lie in memory one behind the other and are read
    once: they are left to run side by side, each in lanes (backends/llvm/abreast.py)."""
    last, n = len(shape) - 1, math.prod(shape[a] for a in axes)
    if not last or axes != (last,):
        return False
    if n < FILLED and not (cheap and n > WIDEST_STRIDE):
        return False
    space = math.prod(shape)
    if space < MANY_ROWS * n or shape[last - 1] <= WIDEST_STRIDE:
        return False
    return _largest_read(reads) >= space


def _largest_read(nodes: list[Node]) -> int:
    """The size of the largest array in memory, as far as one can tell, that values are made of."""
    largest, seen = 0, set(nodes)
    for node in nodes:
        if node.kind != "pw" or len(seen) > SEEN:
            largest = max(largest, node.size)
            continue
        new = [dep for dep, _ in node.deps if dep not in seen]
        seen.update(new)
        nodes += new
    return largest


SEEN = 64  # values that are looked at


def _unrolled(red: Reduction, out: int) -> Callable[[Builder, tuple[Index, ...]], Value]:
    """Every element of a short reduction, combined in index order."""

    def at(b: Builder, idx: tuple[Index, ...]) -> Value:
        key = ("red", red, idx, b.mask)
        memo = b.scopes[level_at(b, idx)].memo
        if key not in memo:
            accs = _positive_zeros(red, b) if red.count > 1 else None
            for flat in range(red.count):
                new = list(red.element(b, red_index(red, idx, b.unravel(flat, red.extents))))
                accs = new if accs is None else combine_step(b, red, accs, new)
            memo[key] = red.finish(b, accs if accs is not None else list(red.init(b)))
        return memo[key][out]

    return at


def _positive_zeros(red: Reduction, b: Builder) -> list[Atom] | None:
    """What sums begin with where -0 and -0 add up to +0, as in loops; None where that is nothing.
    A single element is no sum."""
    if callable(red.combine) or set(red.combine) != {"add"}:
        return None
    start = list(red.init(b))
    values = [x.value for x in start if isinstance(x, Const)]
    positive = [isinstance(v, float) and v == 0 and math.copysign(1, v) > 0 for v in values]
    return start if len(positive) == len(start) and all(positive) else None


def red_index(red: Reduction, kept: Sequence[Index], inner: Sequence[Index]) -> tuple[Index, ...]:
    """The full index of a reduction's iteration space."""
    outer, deep = iter(kept), iter(inner)
    return tuple(next(deep) if k in red.axes else next(outer) for k in range(len(red.shape)))


def combine_step(
    b: Builder, red: Reduction, old: Sequence[Atom], new: Sequence[Atom]
) -> list[Atom]:
    """One step of a reduction as plain code."""
    if callable(red.combine):
        return list(red.combine(b, list(old), list(new)))
    return [b.let(op, (x, y), x.dtype) for op, x, y in zip(red.combine, old, new, strict=True)]


def level_at(b: Builder, idx: Sequence[Index]) -> int:
    level = b.region_level
    for i in idx:
        if type(i) is not int and i.level > level:  # type: ignore[union-attr]
            level = i.level  # type: ignore[union-attr]
    if b.mask is not None:
        level = max(level, b.level_of(b.mask))
    return level


def no_value(dtype: str) -> Value:
    """Stands for an element of an array that has none."""
    part = part_dtype(dtype)
    zero = Const(False if part == "bool" else 0 if part[0] in "iu" else 0.0, part)
    return (zero, zero) if dtype in COMPLEX else zero


def read(node: Node, b: Builder, idx: tuple[Index, ...]) -> Value:
    """The element of a node at an index: loaded, remembered, or computed here."""
    key = (node, idx, b.mask)
    memo = b.scopes[level_at(b, idx)].memo
    found = memo.get(key)
    if found is None and b.mask is not None:
        found = _known_everywhere(node, b, idx)
    if found is None:
        if 0 in node.shape:
            found = no_value(node.dtype)  # inside a loop that never runs
        elif node.ready and node.slot is not None:
            found = load_slot(b, node.slot, node.shape, node.dtype, idx)
        elif node.kind == "red" and node.at is None:  # with it, the row's results are in scratch
            found = b.inline_reduction(node, idx)  # type: ignore[attr-defined]
        else:
            assert node.at is not None, (
                f"internal error in pullback: a {node.kind} value is read before it is made"
            )
            found = node.at(b, idx)
        memo[key] = found
    return found


def _known_everywhere(node: Node, b: Builder, idx: tuple[Index, ...]) -> Value:
    """What is read where a condition holds, if it was computed before without that condition."""
    mask, b.mask = b.mask, None
    found = b.scopes[level_at(b, idx)].memo.get((node, idx, None))
    b.mask = mask
    return found


def load_slot(
    b: Builder, slot: Slot, shape: Sequence[int], dtype: str, idx: Sequence[Index]
) -> Value:
    """One element from memory."""
    offset = b.ravel(idx, shape)
    if isinstance(slot, RegisterSlot):
        if dtype not in COMPLEX:
            return slot.get(b, offset)
        offset = b.mul(offset, 2)
        return slot.get(b, offset), slot.get(b, b.add(offset, 1))
    buf = slot.buf(b)
    if dtype not in COMPLEX:
        return b.load(buf, b.atom(slot.element(b, offset)))
    first = b.atom(b.add(b.mul(offset, 2), slot.base(b)))
    return b.load(buf, first), b.load(buf, _next(b, first))


def _next(b: Builder, first: Atom) -> Atom:
    """The place of an imaginary part: one from the real part's, whatever of that is an argument of
    the kernel, so that both are seen to be neighbours and move as one vector."""
    if isinstance(first, Const):
        return b.dim(int(first.value) + 1)
    return b.let("add", (first, i64(1)), "i64")


def store_slot(
    b: Builder,
    slot: Slot,
    shape: Sequence[int],
    dtype: str,
    idx: Sequence[Index],
    value: Value,
    mask: Any = None,
) -> None:
    """One element to memory."""
    offset = b.ravel(idx, shape)
    if isinstance(slot, RegisterSlot):
        if dtype not in COMPLEX:
            slot.put(b, offset, value, mask)
            return
        offset = b.mul(offset, 2)
        slot.put(b, offset, value[0], mask)
        slot.put(b, b.add(offset, 1), value[1], mask)
        return
    buf = slot.buf(b)
    if dtype not in COMPLEX:
        b.store(buf, b.atom(slot.element(b, offset)), value, mask)
        return
    first = b.atom(b.add(b.mul(offset, 2), slot.base(b)))
    b.store(buf, first, value[0], mask)
    b.store(buf, _next(b, first), value[1], mask)
