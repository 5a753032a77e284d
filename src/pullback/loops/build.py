"""Building statement lists: scopes, hoisting, common subexpressions.

A `Builder` holds a stack of open scopes (the kernel, then each loop). `let` puts an operation into
the outermost scope in which its operands exist, so loop-invariant code is hoisted by construction,
and remembers it there, so it is emitted once.

Indices are those of indices.py; integers of 17 and more become kernel `dims`, so that one kernel
serves all lengths.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.bounds import ALWAYS_NEVER, RANGED, narrowed, note_cut, once_round
from pullback.loops.identities import is_known, simpler
from pullback.loops.indices import Index, Indices, Ix, Leaf
from pullback.loops.ir import (
    Alloc,
    Atom,
    Buf,
    Call,
    Carry,
    Const,
    For,
    If,
    Kernel,
    Let,
    Load,
    Region,
    Stmt,
    Store,
    Update,
    Var,
    While,
)
from pullback.loops.ops import BOOL, INTS, limits, storage_bytes
from pullback.loops.ranges import BOUNDED, bounds_of, decided, result_bounds

__all__ = ["FALSE", "TRUE", "Builder", "Index", "Ix", "Scope", "i64", "kernel_of"]

HOIST_FROM = 17  # integers from here on are kernel arguments
LOOKED_BACK = 16  # statements
LONG = 1 << 21  # bytes of an operand that does not stay in a core's caches
OF_INDICES = {"div": "idiv", "rem": "irem"}
TRUE = Const(True, "bool")
FALSE = Const(False, "bool")


def i64(value: int) -> Const:
    """An i64 literal."""
    return Const(value, "i64")


class Scope:
    """An open block: its statements so far, what it remembers, and the scratch that its end
    releases."""

    __slots__ = ("allocs", "facts", "kind", "level", "memo", "stmts")

    def __init__(self, level: int, kind: str) -> None:
        self.level, self.kind = level, kind
        self.facts: dict[Var, Index] = {}  # what holds of integer atoms in this block only
        self.stmts: list[Stmt] = []
        self.memo: dict[Any, Any] = {}
        self.allocs: list[Buf] = []

    def body(self) -> tuple[Stmt, ...]:
        body = tuple(self.stmts)
        for buf in reversed(self.allocs):
            body = (Alloc(buf, body),)
        return body


class Builder(Indices):
    """Makes the body of one kernel."""

    def __init__(self, extents: frozenset[int] = frozenset()) -> None:
        super().__init__()
        self.scopes = [Scope(0, "kernel")]
        self.levels: dict[Var, int] = {}
        self.dims: dict[int, Var] = {}
        self.scalars: dict[tuple[Any, str], Var] = {}
        self.params: dict[Any, Buf] = {}
        self.bound: dict[Any, Buf] = {}  # slots that live in scratch of this kernel
        self.stored: set[Buf] = set()
        self.loaded: set[Buf] = set()
        self.mask: Atom | None = None
        self.region_level = 0  # loads may not be hoisted above this scope
        self.buf_levels: dict[Buf, int] = {}  # nor above the scope of their scratch
        self.extents = extents
        self.literal: set[int] = set()  # extents that stay literals all the same
        self.count = 0
        self.unrolling = False  # loops without carries become their iterations
        self.reduces = False  # whether there is a loop that combines elements in lanes
        # Integer atoms whose value is an index with bounds: everywhere, or in a block only.
        self.facts: dict[Var, Index] = {}
        self.ranges: dict[Atom, tuple[int, int]] = {}  # of other integers: least and greatest
        self._any_facts = False
        self._any_narrowed = False  # some of a block
        self._gaps: dict[Var, tuple[str, Ix]] = {}  # comparisons of an index with 0
        self.made: dict[Var, tuple[str, tuple[Atom, ...]]] = {}  # definitions of some atoms
        # Where conditions on a loop's variable change, for those that were asked for.
        self.cuts: dict[Leaf, set[int]] = {}

    # ---- names and constants

    def var(self, dtype: str, level: int, prefix: str = "v") -> Var:
        self.count += 1
        v = Var(f"{prefix}{self.count}", dtype)
        self.levels[v] = level
        return v

    def dim(self, value: int) -> Atom:
        """An i64 constant: literal when small, else a kernel argument."""
        if -HOIST_FROM < value < HOIST_FROM or value in self.literal:
            return i64(value)
        v = self.dims.get(value)
        if v is None:
            v = self.dims[value] = Var(f"d{len(self.dims)}", "i64")
            self.levels[v], self.facts[v] = 0, value
        return v

    def const(self, value: Any, dtype: str) -> Atom:
        """A literal; one that seems derived from an extent becomes a kernel argument."""
        if dtype == "bool":
            return Const(bool(value), "bool")
        if dtype[0] in "iu":
            value = int(value)
            hoist = value >= HOIST_FROM and not self.extents.isdisjoint(
                (value, value - 1, value + 1)
            )
        else:
            value = float(value)
            size = abs(value)
            whole = size if size >= 1 else 1 / size if size > 0 else 0.0
            hoist = whole >= HOIST_FROM and whole < 1e15 and self._extent_like(whole)
        if not hoist:
            return Const(value, dtype)
        return self._scalar(value, dtype)

    def number(self, value: Any, dtype: str) -> Atom:
        """A literal of the user's program. Floats become kernel arguments, so that programs which
        differ in a coefficient share kernels; powers of two, which simplify code, do not."""
        if dtype == "bool" or dtype[0] in "iu" or not math.isfinite(float(value)):
            return self.const(value, dtype)
        if abs(math.frexp(float(value))[0]) in (0.0, 0.5):
            return self.const(value, dtype)
        return self._scalar(float(value), dtype)

    def argument(self, key: Any, dtype: str) -> Var:
        """A number that is given with each call; `key` tells which."""
        return self._scalar(key, dtype)

    def _scalar(self, value: Any, dtype: str) -> Var:
        key = (value, dtype)
        v = self.scalars.get(key)
        if v is None:
            v = self.scalars[key] = Var(f"s{len(self.scalars)}", dtype)
            self.levels[v] = 0
            if type(value) is int:
                self.facts[v] = value
        return v

    def _extent_like(self, whole: float) -> bool:
        near = round(whole)
        return abs(whole - near) <= 1e-6 * whole and not self.extents.isdisjoint(
            (near, near - 1, near + 1)
        )

    # ---- statements

    def level_of(self, a: Any) -> int:
        return 0 if type(a) is Const else self.levels[a]

    @property
    def depth(self) -> int:
        return len(self.scopes) - 1

    @property
    def repeated(self) -> bool:
        """Whether what is emitted now is inside of a loop whose iterations run one by one."""
        return any(scope.kind in ("seq", "rows", "while") for scope in self.scopes)

    def let(
        self, op: str, args: Sequence[Atom], dtype: str, attrs: tuple[tuple[str, Any], ...] = ()
    ) -> Atom:
        """op(args), emitted at most once, as far out as it can be."""
        value = None
        known = self._any_facts or self.ranges
        if known and op in RANGED and dtype in _WHOLE and args[-1].dtype in INTS:
            value = self._ranged(op, args, dtype) if self._any_facts else None
            if value is None and self.ranges and op in ALWAYS_NEVER:
                value = decided(self, op, args)
            if type(value) is Const or type(value) is Var:
                return value
        key = (op, *args, dtype, attrs)
        level = 0
        for a in args:
            if type(a) is not Const:
                k = self.levels[a]  # type: ignore[index]
                if k > level:
                    level = k
        scope = self.scopes[level]
        found = scope.memo.get(key)
        if found is None:
            found = _fold(op, args)
            if found is None:
                less = simpler(op, tuple(args), dtype, self.made)
                found = self.let(*less) if isinstance(less, tuple) else less
            if found is None:
                self.count += 1
                found = Var(f"v{self.count}", dtype)
                if is_known(op, args, attrs):
                    self.made[found] = op, tuple(args)
                self.levels[found] = level
                if op in OF_INDICES and dtype == "i64" and known and self._in_order(*args):
                    op = OF_INDICES[op]
                scope.stmts.append(Let(found, op, tuple(args), attrs))
            scope.memo[key] = found
        if type(found) is Var:
            if value is not None:
                self._note(found, value)
            elif op in BOUNDED and dtype in INTS and found not in self.ranges:
                bounds = result_bounds(self, op, args, dtype)
                if bounds is not None:
                    self.ranges[found] = bounds
        return found

    # ---- what is known of integers

    def _in_order(self, x: Atom, y: Atom) -> bool:
        """Whether a dividend and a divisor are as those of indices are."""
        (least, most), (divisor, _) = bounds_of(self, x), bounds_of(self, y)
        return least >= 0 and most < 1 << 31 and divisor > 0

    def know(self, atom: Atom, x: Index) -> None:
        """From now on an integer atom is known to be this index; `x` fits its dtype."""
        if type(atom) is Var:
            self._any_facts = True
            narrow = narrowed(x)
            self._any_narrowed = self._any_narrowed or narrow
            place = self.scopes[-1].facts if narrow else self.facts
            place[atom] = x

    def is_counted(self, shape: Sequence[int], at: Callable[[Any, tuple[Index, ...]], Any]) -> bool:
        """Whether elements, computed from their indices alone, are indices themselves: in all of
        an array, or in pieces of it. For a builder that makes nothing else."""
        idx: list[Index] = []
        for n in shape:
            self.open("seq")
            idx.append(self.loop_index(0, max(0, n - 1)))
        value = at(self, tuple(idx))
        known = not isinstance(value, tuple) and self.known_index(value) is not None
        return known or any(self.cuts.values())

    def known_index(self, a: Atom) -> Index | None:
        """An integer atom as an index with bounds, where that is known."""
        if type(a) is Const:
            return int(a.value) if a.dtype[0] in "iu" else None
        if self._any_narrowed:
            for scope in reversed(self.scopes):
                if scope.facts and a in scope.facts:
                    return scope.facts[a]  # type: ignore[index]
        return self.facts.get(a)  # type: ignore[arg-type]

    def _note(self, atom: Var, value: tuple[str, Any]) -> None:
        how, what = value
        if how == "is":
            self.know(atom, what)
        else:
            self._gaps[atom] = how, what

    def _ranged(self, op: str, args: Sequence[Atom], dtype: str) -> Any:
        """What the bounds of indices say about an operation: its result in fewer operations, ("is",
        the index that it gives), or for a comparison that depends on the element (its name, what
        it compares with 0). None if nothing is known."""
        if op == "select":
            gap = self._gaps.get(args[0])  # type: ignore[arg-type]
            if gap is not None and None not in map(self.known_index, args[1:]):
                note_cut(self, *gap)
            return None
        values = [self.known_index(a) for a in args]
        if None in values:
            return None
        if op not in ALWAYS_NEVER and not any(isinstance(v, Ix) for v in values):
            return None
        if op == "rem" and once_round(*values):
            above = self.let("ge", args, "bool")
            return self.select(above, self.let("sub", args, dtype), args[0])
        result = RANGED[op](self, op, values)
        if result is None or type(result) is Const or type(result) is tuple:
            return result
        if dtype == "bool":
            return None
        low, high = (result, result) if isinstance(result, int) else (result.lo, result.hi)
        least, most = limits(dtype)
        return ("is", result) if least <= low and high <= most else None

    def load(self, buf: Buf, index: Atom, other: Atom | None = None) -> Var:
        """buf[index] under the current mask."""
        level = max(self.level_of(index), self.region_level, self.buf_levels.get(buf, 0))
        mask = self.mask
        if mask is not None:
            level = max(level, self.level_of(mask))
            if other is None:
                other = Const(
                    False if buf.dtype == "bool" else 0 if buf.dtype[0] in "iu" else 0.0, buf.dtype
                )
            level = max(level, self.level_of(other))
        if mask is None and level == self.depth and type(index) is Const:
            stored = self._just_stored(buf, index)
            if stored is not None:
                return stored  # type: ignore[return-value]
        v = self.var(buf.dtype, level)
        self.loaded.add(buf)
        self.scopes[level].stmts.append(
            Load(v, buf, (index,), mask, other if mask is not None else None)
        )
        return v

    def _just_stored(self, buf: Buf, index: Const) -> Atom | None:
        """What was stored in this block at a literal place of scratch, if nothing since could have
        changed it: a chain of steps need not wait for memory."""
        if buf.role != "temp":
            return None
        for s in self.scopes[-1].stmts[: -LOOKED_BACK - 1 : -1]:
            kind = type(s)
            if kind is Store and s.buf is buf:  # type: ignore[union-attr]
                same = s.mask is None and s.index == (index,)  # type: ignore[union-attr]
                return s.value if same else None  # type: ignore[union-attr]
            if kind is not Let and kind is not Load and kind is not Store:
                return None
        return None

    def store(self, buf: Buf, index: Atom, value: Atom, mask: Atom | None = None) -> None:
        self.stored.add(buf)
        mask = self.both(mask, self.mask)
        if mask == FALSE:
            return
        self.emit(Store(buf, (index,), value, None if mask == TRUE else mask))

    def update(
        self, buf: Buf, index: Atom, value: Atom, how: Any, mask: Atom | None = None
    ) -> None:
        self.stored.add(buf)
        self.loaded.add(buf)
        mask = self.both(mask, self.mask)
        if mask == FALSE:
            return
        self.emit(Update(buf, (index,), value, how, None if mask == TRUE else mask))

    def prefetch(self, buf: Buf, index: Atom) -> None:
        """Asks for the memory of an element that will be written soon; one past the end does no
        harm."""
        self.emit(Call((), "prefetch", (buf, index)))

    def emit(self, s: Stmt) -> None:
        self.scopes[-1].stmts.append(s)

    def scratch(self, dtype: str, size: int, name: str = "t") -> Buf:
        """Scratch that lives until the current scope closes."""
        self.count += 1
        d = self.dim(max(1, size))
        buf = Buf(f"{name}{self.count}", dtype, (d.value if isinstance(d, Const) else d,), "temp")  # type: ignore[arg-type]
        self.scopes[-1].allocs.append(buf)
        self.buf_levels[buf] = self.depth
        return buf

    # ---- loops

    def open(self, kind: str) -> Scope:
        scope = Scope(len(self.scopes), kind)
        self.scopes.append(scope)
        return scope

    def close(self) -> tuple[Stmt, ...]:
        return self.scopes.pop().body()

    def loop_index(self, lo: Index, extent_hi: int) -> Ix:
        """The variable of a loop that is about to run in the scope just opened."""
        v = self.var("i64", self.depth, "i")
        low = lo if isinstance(lo, int) else lo.lo
        ix = self.leaf_of(v, low, extent_hi)
        assert isinstance(ix, Ix)
        return ix

    def loop(
        self,
        extent: int,
        kind: str,
        body: Callable[[Index], Sequence[Atom]],
        carry: Sequence[tuple[Atom, Var]] = (),
        combine: Any = None,
        lo: Atom | None = None,
        hi: Atom | None = None,
        step: int = 1,
        first: int = 0,
    ) -> list[Var]:
        """for index in lo..hi: yields = body(index); the carries' results. The index is at least
        `first` and less than `extent`."""
        if (extent == 1 or self.unrolling) and not carry and lo is None and hi is None:
            for k in range(extent):
                body(k)
            return []
        self.open(kind)
        self.reduces = self.reduces or kind == "reduce"
        ix = self.loop_index(first, max(first, extent - 1))
        index = ix.terms[0][0].var if ix.terms else None
        if index is None:
            index = self.var("i64", self.depth, "i")
        for _, v in carry:
            self.levels[v] = self.depth
        yields = tuple(body(ix))
        stmts = self.close()
        outs = [self.var(v.dtype, self.depth) for _, v in carry]
        carries = tuple(Carry(o, v, init) for o, (init, v) in zip(outs, carry, strict=True))
        self.emit(
            For(
                index,
                lo if lo is not None else i64(0),
                hi if hi is not None else self.dim(extent),
                self.dim(step),
                kind,
                carries,
                stmts,
                yields,
                combine,
            )
        )
        return outs

    def at_level(self, level: int) -> list[Scope]:
        """Hides the scopes inside `level`; give the result to `restore`."""
        inner = self.scopes[level + 1 :]
        del self.scopes[level + 1 :]
        return inner

    def restore(self, inner: list[Scope]) -> None:
        self.scopes.extend(inner)

    def branch(
        self, pred: Atom, then: Callable[[], Sequence[Atom]], orelse: Callable[[], Sequence[Atom]]
    ) -> list[Atom]:
        """if pred: then() else: orelse(), with the values that both yield."""
        if isinstance(pred, Const):
            return list(then() if pred.value else orelse())
        sides = []
        for side in (then, orelse):
            self.open("if")
            yields = tuple(side())
            sides.append((self.close(), yields))
        if not sides[0][0] and not sides[1][0]:  # what is known on both sides is chosen
            return [self.select(pred, x, y) for x, y in zip(sides[0][1], sides[1][1], strict=True)]
        outs = tuple(self.var(a.dtype, self.depth) for a in sides[0][1])
        self.emit(If(pred, sides[0][0], sides[1][0], outs, sides[0][1], sides[1][1]))
        return list(outs)

    def while_loop(
        self,
        inits: Sequence[Atom],
        cond: Callable[[list[Atom]], Atom],
        body: Callable[[list[Atom]], Sequence[Atom]],
    ) -> list[Var]:
        """while cond(carry): carry = body(carry)."""
        regions = []
        for k, side in enumerate((cond, body)):
            self.open("while")
            params = tuple(self.var(a.dtype, self.depth, "c") for a in inits)
            result: Any = side(list(params))
            yields = (result,) if k == 0 else tuple(result)
            regions.append(Region(params, self.close(), yields))
        outs = [self.var(a.dtype, self.depth) for a in inits]
        own = [self.var(a.dtype, self.depth, "c") for a in inits]
        carries = tuple(Carry(o, v, a) for o, v, a in zip(outs, own, inits, strict=True))
        self.emit(While(carries, regions[0], regions[1]))
        return outs

    def region(self, dtypes: Sequence[str], body: Callable[[list[Atom]], Sequence[Atom]]) -> Region:
        """A combiner over (acc..., new...)."""
        self.open("region")
        params = tuple(self.var(d, self.depth, "p") for d in dtypes)
        saved, self.mask = self.mask, None
        yields = tuple(body(list(params)))
        self.mask = saved
        return Region(params, self.close(), yields)

    # ---- indices and atoms

    def leaf_of(self, atom: Atom, lo: int, hi: int) -> Index:
        """An i64 atom as an index with known bounds."""
        if isinstance(atom, Const):
            return int(atom.value)
        return self.leaf("var", atom, None, 0, self.levels[atom], lo, hi)

    def atom(self, x: Index) -> Atom:
        """The i64 value of an index; outer parts of the sum are computed in outer scopes."""
        if isinstance(x, int):
            return self.dim(x)
        memo = self.scopes[x.level].memo
        found = memo.get(x)
        if found is None:
            parts: list[tuple[int, Atom]] = []
            for leaf, c in x.terms:
                a = self._leaf_atom(leaf)
                parts.append(
                    (leaf.level, a if c == 1 else self.let("mul", (a, self.dim(c)), "i64"))
                )
            parts.sort(key=lambda p: p[0])
            acc: Atom | None = self.dim(x.const) if x.const else None
            for _, a in parts:
                acc = a if acc is None else self.let("add", (acc, a), "i64")
            assert acc is not None
            found = memo[x] = acc
        return found

    def _leaf_atom(self, leaf: Leaf) -> Atom:
        if leaf.kind == "var":
            return leaf.var  # type: ignore[no-any-return]
        op = "idiv" if leaf.kind == "div" else "irem"
        return self.let(op, (self.atom(leaf.base), self.dim(leaf.by)), "i64")

    # ---- conditions

    def in_range(self, x: Index, lo: int, hi: int) -> Atom:
        """lo <= x < hi, decided now where the bounds of x allow."""
        low, high = (x, x) if isinstance(x, int) else (x.lo, x.hi)
        if low >= lo and high < hi:
            return TRUE
        if high < lo or low >= hi:
            return FALSE
        if isinstance(x, Ix) and len(x.terms) == 1:
            leaf, c = x.terms[0]
            if c == 1 and leaf.kind == "div" and low >= x.const:  # of an index that is >= 0
                n = leaf.by
                return self.in_range(leaf.base, (lo - x.const) * n, (hi - x.const) * n)
            if c in (1, -1) and leaf.kind == "var":
                ends = (lo, hi) if c == 1 else (lo - 1, hi - 1)
                at = {c * (end - x.const) for end in ends}
                self.cuts.setdefault(leaf, set()).update(at)
        a = self.atom(x)
        left = TRUE if low >= lo else self.let("ge", (a, self.dim(lo)), "bool")
        right = TRUE if high < hi else self.let("lt", (a, self.dim(hi)), "bool")
        return self.both(left, right)

    def both(self, x: Atom | None, y: Atom | None) -> Atom:
        """x and y; None is true."""
        if x is None or x == TRUE or x == y:
            return TRUE if y is None else y
        if y is None or y == TRUE:
            return x
        if FALSE in (x, y):
            return FALSE
        return self.let("and", (x, y), "bool")

    def select(self, p: Atom, x: Atom, y: Atom) -> Atom:
        if isinstance(p, Const):
            return x if p.value else y
        return x if x is y else self.let("select", (p, x, y), x.dtype)

    def to_index(self, a: Atom, lo: int, hi: int) -> Index:
        """An integer atom clamped to lo..hi (inclusive) as an index."""
        if isinstance(a, Const):
            return min(max(int(a.value), lo), hi)
        if hi <= lo:
            return lo
        ix = self.known_index(a)
        if ix is not None:
            inside = RANGED["clamp"](self, "clamp", (lo, ix, hi))
            if inside is not None:
                return inside  # type: ignore[no-any-return]
        wide = a if a.dtype == "i64" else self.let("convert", (a,), "i64")
        least, most = bounds_of(self, a)
        if lo <= least and most <= hi:
            return self.leaf_of(wide, least, most)
        return self.leaf_of(self.let("clamp", (self.dim(lo), wide, self.dim(hi)), "i64"), lo, hi)


_WHOLE = frozenset((*INTS, *BOOL))
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


def _fold(op: str, args: Sequence[Atom]) -> Atom | None:
    """Trivial identities of integers and booleans; floats are left alone."""
    if op in ("add", "sub", "mul") and args[0].dtype == "i64":
        x, y = args
        if isinstance(y, Const):
            if (y.value == 0 and op != "mul") or (y.value == 1 and op == "mul"):
                return x
            if isinstance(x, Const):
                a, b = int(x.value), int(y.value)
                return i64(a + b if op == "add" else a - b if op == "sub" else a * b)
        if isinstance(x, Const) and (
            (x.value == 0 and op == "add") or (x.value == 1 and op == "mul")
        ):
            return y
    if op == "select" and isinstance(args[0], Const):
        return args[1] if args[0].value else args[2]
    if op in _COMPARED and all(type(a) is Const and a.dtype in _WHOLE for a in args):
        return Const(bool(_COMPARED[op](args[0].value, args[1].value)), "bool")  # type: ignore[union-attr]
    return None


def _long_operands(b: Builder) -> dict[str, Any]:
    """Operands (by number) that are too long for a core's caches, where a kernel reduces: such
    loops fetch ahead; and those whose elements a signed word does not count, or nobody does."""
    values = {var: value for value, var in b.dims.items()}

    def size(buf: Buf) -> float:
        return math.prod(d if isinstance(d, int) else values.get(d, math.inf) for d in buf.shape)

    sizes = [(k, buf, size(buf)) for k, buf in enumerate(b.params.values())]
    long = [
        k
        for k, buf, n in sizes
        if buf.role == "in" and LONG < n * storage_bytes(buf.dtype) < math.inf
    ]
    vast = [k for k, buf, n in sizes if n >= 1 << 31]
    found = {"streamed": long if b.reduces else [], "vast": vast}
    return {name: tuple(which) for name, which in found.items() if which}


def kernel_of(
    b: Builder, name: str, attrs: dict[str, Any] | None = None
) -> tuple[Kernel, list[Any], list[int], list[tuple[Any, str]]]:
    """Closes a builder: the kernel, and what to pass to it: the keys of its buffers, the dims and
    the scalars."""
    assert len(b.scopes) == 1, "internal error in pullback: a scope is still open"
    roles: dict[Buf, Buf] = {}
    for buf in b.params.values():
        role = "in" if buf not in b.stored else "inout" if buf in b.loaded else "out"
        object.__setattr__(buf, "role", role)
        roles[buf] = buf
    kernel = Kernel(
        name,
        tuple(b.params.values()),
        tuple(b.dims.values()),
        tuple(b.scalars.values()),
        b.close(),
        {**(attrs or {}), **_long_operands(b)},
    )
    return kernel, list(b.params), list(b.dims), list(b.scalars)
