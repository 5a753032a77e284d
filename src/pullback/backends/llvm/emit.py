"""Kernel -> textual LLVM IR: statements, scalar control flow, scratch memory and errors. Loops are
in emit_loops.py.

One `Emitter` per function of the module. Its `lanes` and `width` say how many iterations of the
enclosing vector loop a
value stands for; `mask` which of them are active (None: all). The same methods emit scalar and
widened code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, Protocol

from pullback.backends.llvm import arith
from pullback.backends.llvm.access import (
    Index,
    Lin,
    index_binary,
    lane_pointers,
    load,
    load_rows,
    materialise,
    offset,
    scattered_briefly,
    store,
    store_pairs,
    store_rows,
)
from pullback.backends.llvm.ahead import FAR, Ahead, Step, fetch
from pullback.backends.llvm.beside import Total, follows, read_side_by_side, side_by_side, sum_of
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.byte_tables import NO_TABLES, Tables, look_up
from pullback.backends.llvm.convert import (
    from_memory,
    literal,
    memory_type,
    register_type,
    to_memory,
)
from pullback.backends.llvm.forwarded import NONE, write_around
from pullback.backends.llvm.library import emit_library_call
from pullback.backends.llvm.literals import BITS as TYPE_BITS
from pullback.backends.llvm.rows_anywhere import (
    Rows,
    fills,
    load_rows_at,
    store_whole,
    worth_turning,
)
from pullback.backends.llvm.short_index import Short, short_place, shorten
from pullback.backends.llvm.table import ERROR_CODE, ERROR_EQUATION, TABLE, function_offset
from pullback.backends.llvm.target import Target
from pullback.backends.llvm.together import ordered
from pullback.loops.ir import (
    Alloc,
    Atom,
    Buf,
    Call,
    Carry,
    Const,
    For,
    If,
    Let,
    Load,
    Region,
    Stmt,
    Store,
    Turn,
    Update,
    Var,
    While,
)  # fmt: skip
from pullback.loops.ops import BITS, SIGNED, storage_bytes
from pullback.loops.tiles import is_tile, panel_width
from pullback.records import made, record

__all__ = ["STACK_LIMIT", "Emitter", "Module"]

STACK_LIMIT = 64 << 10
PAST_END = 256  # bytes after scratch that lanes outside of their masks point at


class LoopRules(Protocol):
    """How loops are emitted; emit_loops.py has the implementation (two files, because of their
    length)."""

    def emit_for(self, e: Emitter, s: For) -> None:
        """A For of any kind."""

    def emit_while(self, e: Emitter, s: While) -> None:
        """A While."""


@record(eq=True, frozen=False)
class Module:
    """What the functions of one kernel share."""

    target: Target
    name: str
    declarations: dict[str, str] = made(default_factory=dict)
    functions: list[str] = made(default_factory=list)
    count: int = 0
    stack: int = 0
    attrs: dict[str, Any] = made(default_factory=dict)
    streamed: frozenset[Buf] = frozenset()  # operands that are too long for a core's caches
    short: frozenset[Buf] = frozenset()  # operands whose elements a signed word counts
    straight: bool = True  # nothing but straight vector loops: code generation level 0 does
    brief: bool = False  # the least code, for a first run: see tier.py
    calls: bool = False  # elementary functions, see called.py
    alone: bool = False  # no lanes: LLVM's quick path takes half as long for single numbers
    many: bool = False  # of its loops each has little to do: vectors side by side are more code
    between: Callable[[], None] | None = None  # called between two statements

    def text(self) -> str:
        head = f'target triple = "{self.target.triple}"\n'
        return head + "\n".join([*self.declarations.values(), *self.functions])


class Emitter:
    """Emits one function."""

    def __init__(self, module: Module, head: str, *, void: bool = False, loops: LoopRules) -> None:
        self.module = module
        self.target = module.target
        self.b = Builder(module.target, head, module.declarations, module.brief)
        self.b.calls = module.calls
        self.void = void
        self.loops = loops
        self.env: dict[Var, Index] = {}
        self.buffers: dict[Buf, Val] = {}
        self.lanes = 1
        self.width = 1
        self.mask: Val | None = None
        self.in_lanes = False  # inside a vector loop, even where it runs one iteration at a time
        self.depth = 0  # loops around
        self.parallel = False  # inside an outlined function or a loop that must stay serial
        self.heap: list[tuple[Val, Val]] = []  # scratch from ctx.alloc, innermost last
        self.exits: dict[tuple[Any, ...], str] = {}  # ways out of the function after errors
        self.ctx = Val(self.b, "ptr", 1, ("%ctx",))
        self.hot = False  # has loops of its own, not outlined ones
        self.ready: set[Buf] = set()  # scratch that was taken before the loop whose body has it
        self.sums: dict[Atom, Total] = {}  # of indices that are sums: their terms
        self.anywhere: dict[tuple[Atom, ...], Rows] = {}  # rows that lanes have loaded
        self.short: dict[Atom, Short] = {}  # the lower words of indices in lanes
        self.tables: Tables = NO_TABLES  # what the current loop looks up in registers
        self.kept: dict[Buf, tuple[Any, Val]] = {}  # what scratch was last given, and where
        self.pointers: list[Val] = []  # extra pointers of an outlined function
        self.ahead: Ahead = {}  # by loop, the buffers that are fetched a row ahead, and how far
        self.fetching: dict[Buf, Step] = {}  # of those, the current loop's
        self.forwarded = NONE  # arrays that the serial loop around writes to and reads in vectors
        self.streaming = False  # whether long operands are fetched by a fixed distance

    # ---- values

    def atom(self, a: Atom) -> Index:
        return literal(self.b, a) if type(a) is Const else self.env[a]  # type: ignore[index]

    def val(self, a: Atom) -> Val:
        v = literal(self.b, a) if type(a) is Const else self.env[a]  # type: ignore[index]
        return v if type(v) is Val else materialise(self.b, v)

    def index(self, a: Atom) -> Index:
        """An atom as an i64 index."""
        v = self.atom(a)
        if isinstance(v, Lin) or v.t == "i64":
            return v
        return self.b.cast("sext" if a.dtype in SIGNED else "zext", v, "i64")

    def scalar_index(self, a: Atom) -> Val | None:
        """The same, or None where lanes differ."""
        v = self.index(a)
        return v if isinstance(v, Val) and v.n == 1 and len(v.regs) == 1 else None

    def full(self, v: Val) -> Val:
        """A value in the shape of the current lanes."""
        if self.lanes == 1:
            return v
        regs = self.b.spread(v, self.lanes)
        return Val(self.b, v.t, self.lanes, tuple(regs[k % len(regs)] for k in range(self.width)))

    def uniform(self, v: Val) -> bool:
        return v.n == 1 and len(v.regs) == 1

    def place(self, buf: Buf, index: Sequence[Atom]) -> tuple[Val, Index]:
        return self.buffers[buf], offset(self.b, self.shape_of(buf), [self.index(i) for i in index])

    def with_mask(self, mask: Atom | None) -> Val | None:
        """The active lanes where a statement's own mask holds as well."""
        if mask is None:
            return self.mask
        own = self.val(mask)
        if own.c is True:
            return self.mask
        return own if self.mask is None else self.mask & own

    # ---- statements

    def statements(self, stmts: Iterable[Stmt]) -> None:
        waiting: Store | None = None  # the first of two parts that are stored side by side
        wide = self.lanes > 1 and self.mask is None
        rows = side_by_side(stmts, self.sums) if wide else {}  # type: ignore[arg-type]
        read = read_side_by_side(stmts, lambda: self.sums) if wide else {}  # type: ignore
        moved = {tuple(s.value for s in group) for group in rows.values()} if read else set()
        late: set[Store] = set()
        taken: set[Load] = set()
        between = self.module.between
        for s in ordered(stmts) if self.lanes == 1 else stmts:  # type: ignore[arg-type]
            kind = type(s)
            if between is not None:
                between()
            if rows and kind is Store and s in rows:
                late.add(s)
                if late.issuperset(rows[s]):
                    self.rows(rows[s])
                continue
            if isinstance(s, tuple):
                self.together(s)
                continue
            if kind is Let:
                self.define(s)  # type: ignore[arg-type]
                continue
            if waiting is not None:
                first, waiting = waiting, None
                if kind is Store and self.both_parts(first, s):  # type: ignore[arg-type]
                    continue
                self.statement(first)
            if kind is Load:
                if s not in taken:
                    taken |= self.row(read.get(s, ()), s, moved)  # type: ignore[arg-type]
            elif kind is Store and self.lanes > 1 and self.mask is None and s.mask is None:  # type: ignore[union-attr]
                waiting = s  # type: ignore[assignment]
            else:
                self.statement(s)
        if waiting is not None:
            self.statement(waiting)

    def together(self, lets: Sequence[Let]) -> None:
        """One function of many scalars, in lanes."""
        b, dtype = self.b, lets[0].out.dtype
        most = self.target.lanes(storage_bytes(dtype))
        for at in range(0, len(lets), most):
            part = lets[at : at + most]
            n = 1 << (len(part) - 1).bit_length()
            if n == 1:
                self.env[part[0].out] = self.let(part[0])
                continue
            operands = []
            for k in range(len(part[0].args)):
                values = [self.val(s.args[k]) for s in part]
                if all(v.regs == values[0].regs for v in values):
                    operands.append(values[0])
                    continue
                values += [values[0]] * (n - len(values))  # lanes that nobody asks for
                whole, t = "poison", values[0].t
                for lane, v in enumerate(values):
                    vt = f"<{n} x {t}>"
                    whole = b.impure_reg(f"insertelement {vt} {whole}, {t} {v.regs[0]}, i64 {lane}")
                operands.append(Val(b, t, n, (whole,)))
            s = part[0]
            found = arith.emit_op(b, s.op, dtype, s.args[-1].dtype, operands, s.attrs)
            for lane, one in enumerate(part):
                reg = found.regs[0]
                self.env[one.out] = Val(
                    b, found.t, 1, (b.extract(reg, found.t, n, lane) if found.n == n else reg,)
                )

    def both_parts(self, s: Store, other: Store) -> bool:
        """Stores a real and an imaginary part together, where that is what two statements do."""
        if other.buf is not s.buf or other.mask is not None or len(s.index) != 1:
            return False
        if not follows(other.index[0], s.index[0], self.sums):
            return False
        base, at = self.place(s.buf, s.index)
        if not isinstance(at, Lin) or at.stride.c != 2:
            return False
        self.kept.pop(s.buf, None)
        store_pairs(self.b, s.buf.dtype, base, at, self.val(s.value), self.val(other.value))
        return True

    def rows(self, group: Sequence[Store]) -> None:
        """Stores to neighbouring places: as vectors of memory, where they fill the stride."""
        first = group[0]
        base, at = self.place(first.buf, first.index)
        size = storage_bytes(first.buf.dtype)
        moved = self.anywhere.get(tuple(s.value for s in group))
        if moved is not None and fills(at, moved):
            self.kept.pop(first.buf, None)
            store_whole(self.b, first.buf.dtype, base, at.base, moved)
            return
        if (
            not isinstance(at, Lin)
            or at.n == 1
            or at.stride.c != len(group)
            or scattered_briefly(self.b, size, at.n)
        ):
            for s in group:
                self.statement(s)
            return
        self.kept.pop(first.buf, None)
        store_rows(self.b, first.buf.dtype, base, at, [self.val(s.value) for s in group])

    def row(self, group: Sequence[Load], s: Load, moved: Container[tuple[Atom, ...]]) -> set[Load]:
        """A load; with it those of neighbouring places, where they fill the stride: whole vectors
        of memory are taken apart. Or where each lane has a row of its own. Which were done.
        `moved`: what is stored side by side."""
        if group:
            base, at = self.place(s.buf, s.index)
            brief = scattered_briefly(self.b, storage_bytes(s.buf.dtype), at.n)
            if isinstance(at, Lin) and at.n >= 4 and at.stride.c == len(group) and not brief:
                begin = Lin(at.base - group.index(s), at.stride, at.n, at.width)
                values = load_rows(self.b, s.buf.dtype, base, begin, len(group))
                self.env.update(zip((one.out for one in group), values, strict=True))
                return set(group)
            outs = tuple(one.out for one in group)
            self.anywhere.pop(outs, None)
            if isinstance(at, Val) and worth_turning(self.b, at, outs, moved):
                rows = load_rows_at(self.b, s.buf.dtype, base, at, group.index(s), len(group))
                self.anywhere[outs] = rows
                self.env.update(zip(outs, rows.values, strict=True))
                return set(group)
        self.load(s)
        return {s}

    def statement(self, s: Stmt) -> None:
        if isinstance(s, Let):
            self.define(s)
        elif isinstance(s, Load):
            self.load(s)
        elif isinstance(s, Store):
            base, at = self.place(s.buf, s.index)
            value, mask = self.val(s.value), self.with_mask(s.mask)
            if not write_around(self, s.buf, base, at, value, mask):
                store(self.b, s.buf.dtype, base, at, value, mask)
            self.keep(s.buf, at, value, mask)
        elif isinstance(s, Update):
            self.update(s)
        elif isinstance(s, For):
            self.loops.emit_for(self, s)
        elif isinstance(s, While):
            self.loops.emit_while(self, s)
        elif isinstance(s, If):
            self.branch(s)
        elif isinstance(s, Alloc):
            self.alloc(s)
        elif isinstance(s, Turn):
            self.turn(s)
        elif isinstance(s, Call):
            self.call(s)
        else:
            raise AssertionError(f"internal error in pullback: no such statement {s!r}")

    def define(self, s: Let) -> None:
        """A value, unless nobody asks for it."""
        if self.lanes == 1 or s.out not in self.tables.indices:
            self.env[s.out] = self.let(s)

    def let(self, s: Let) -> Index:
        if self.lanes > 1 or self.short:
            shorten(self, s)
        if s.out.dtype == "i64" and s.op in ("add", "sub", "mul"):
            total = sum_of(s, self.sums)
            if total is not None:
                self.sums[s.out] = total
            args = [self.atom(a) for a in s.args]
            if isinstance(args[0], Lin) or isinstance(args[1], Lin):
                return index_binary(self.b, s.op, args[0], args[1])
        if s.op == "convert" and s.args[0].dtype == "i64" and BITS[s.out.dtype] in (8, 16, 32):
            source = self.atom(s.args[0])
            if isinstance(source, Lin) and s.out.dtype[0] in "iu":
                return materialise(self.b, source, register_type(s.out.dtype))
        dtype = s.args[-1].dtype
        return arith.emit_op(
            self.b, s.op, s.out.dtype, dtype, [self.val(a) for a in s.args], s.attrs
        )

    def keep(self, buf: Buf, at: Index, value: Val, mask: Val | None) -> None:
        """Remembers what a vector of scratch was given: memory would have to hand it on, which
        takes long where it was written under a mask."""
        self.kept.pop(buf, None)
        if buf.role == "temp" and isinstance(at, Lin) and buf.dtype in ("f32", "f64"):
            self.kept[buf] = (self.spot(at, mask), self.full(value))

    def spot(self, at: Lin, mask: Val | None) -> Any:
        """What tells whether a vector of memory is the same one, with no control flow between."""
        scope = self.b.scopes[-1]
        return scope, at.base.regs, at.stride.regs, at.n, at.width, mask and mask.regs

    def load(self, s: Load) -> None:
        if self.lanes > 1 and s.out in self.tables.places:
            self.env[s.out] = self.of_masked(s, look_up(self, s, self.tables.places[s.out]))
            return
        words = short_place(self, s.buf, s.index) if self.lanes > 1 else None
        base, at = words or self.place(s.buf, s.index)
        mask = self.with_mask(s.mask)
        if s.buf in self.kept and isinstance(at, Lin) and s.mask is None:
            spot, value = self.kept[s.buf]
            if spot == self.spot(at, mask):
                self.env[s.out] = value
                return
        value = load(self.b, s.buf.dtype, base, at, mask, None, outside=s.mask is not None)
        if isinstance(at, Lin) and at.n > 1 and at.stride.c == 1:
            size = storage_bytes(s.buf.dtype)
            if s.buf in self.fetching:
                step, always = self.fetching[s.buf]
                fetch(self.b, base, at, self.val(step), always, size)
            elif self.streaming and s.buf in self.module.streamed:
                fetch(self.b, base, at, self.b.lit(FAR // size, "i64"), True, size)
        self.env[s.out] = self.of_masked(s, value)

    def of_masked(self, s: Load, value: Val) -> Val:
        """What a load gives whose memory has a value: another where its mask does not hold."""
        if s.mask is None:
            return value
        zero = self.b.lit(0, register_type(s.buf.dtype))
        rest = zero if s.other is None else self.val(s.other)
        return self.b.select(self.val(s.mask), value, rest)

    def combine(
        self, how: str | Region, dtypes: Sequence[str], old: list[Val], new: list[Val]
    ) -> list[Val]:
        """One step of a reduction."""
        if isinstance(how, str):
            return [arith.combine(self.b, how, dtypes[0], old[0], new[0])]
        self.env.update(zip(how.params, [*old, *new], strict=True))
        self.statements(how.body)
        return [self.val(y) for y in how.yields]

    def update(self, s: Update) -> None:
        """buf[i] = combine(buf[i], value), one lane after the other."""
        b = self.b
        self.kept.pop(s.buf, None)
        base, at = self.place(s.buf, s.index)
        value, mask, dtype = self.val(s.value), self.with_mask(s.mask), s.buf.dtype
        if self.lanes == 1 or (
            isinstance(at, Val)
            and self.uniform(at)
            and self.uniform(value)
            and mask is None
            and self.lanes == 1
        ):
            old = load(b, dtype, base, at, mask, None)
            if s.combine in ("max", "min") and dtype == "i32":
                new = self.extreme(s.combine, old, value)
                store(b, dtype, base, at, new, mask)
                return
            new = self.combine(s.combine, [dtype], [old], [value])[0]
            if not write_around(self, s.buf, base, at, new, mask):
                store(b, dtype, base, at, new, mask)
            return
        if isinstance(at, Val) and self.uniform(at):
            at = Lin(at, b.lit(0, "i64"), self.lanes, self.width)
        value = self.full(value)
        mask = None if mask is None else self.full(mask)
        t, size = memory_type(dtype), storage_bytes(dtype)
        rows = lane_pointers(b, size, base, at, mask)
        lanes, width, active = self.lanes, self.width, self.mask
        self.lanes, self.width, self.mask = 1, 1, None
        for u, row in enumerate(rows):
            for lane, pointer in enumerate(row):
                one = Val(b, value.t, 1, (b.extract(value.regs[u], value.t, lanes, lane),))
                old = from_memory(b, dtype, b.load(t, pointer))
                new = self.combine(s.combine, [dtype], [old], [one])[0]
                b.store(to_memory(b, dtype, new), pointer)
        self.lanes, self.width, self.mask = lanes, width, active

    def extreme(self, op: str, x: Val, y: Val) -> Val:
        """The extreme of two integers, in a vector register: of plain ones LLVM makes a branch,
        which the processor foresees badly where values have no order."""
        b, n = self.b, 4
        wide = [Val(b, v.t, n, (b.impure_reg(
            f"insertelement <{n} x i32> zeroinitializer, i32 {v.regs[0]}, i64 0"),))
            for v in (x, y)]  # fmt: skip
        best = arith.combine(b, op, "i32", *wide)
        return Val(b, x.t, 1, (b.extract(best.regs[0], x.t, n, 0),))

    def branch(self, s: If) -> None:
        b = self.b
        pred = self.val(s.pred)
        if pred.c is not None:
            self.statements(s.then if pred.c else s.orelse)
            for out, y in zip(s.outs, s.then_yields if pred.c else s.else_yields, strict=True):
                self.env[out] = self.atom(y)
            return
        if self.uniform(pred):

            def side(body: Sequence[Stmt], yields: Sequence[Atom]) -> list[Val]:
                self.statements(body)
                return [self.val(y) for y in yields]

            orelse = (lambda: side(s.orelse, s.else_yields)) if s.orelse or s.outs else None
            outs = b.if_else(pred, lambda: side(s.then, s.then_yields), orelse)
            self.env.update(zip(s.outs, outs, strict=True))
            return
        outer = self.mask
        left = self._masked_side(pred if outer is None else outer & pred, s.then, s.then_yields)
        right = self._masked_side(
            ~pred if outer is None else outer & ~pred, s.orelse, s.else_yields
        )
        self.mask = outer
        for out, p, q in zip(s.outs, left, right, strict=True):
            self.env[out] = b.select(pred, p, q)

    def _masked_side(self, mask: Val, body: Sequence[Stmt], yields: Sequence[Atom]) -> list[Val]:
        """One side of a divergent If: skipped when no lane takes it."""
        b = self.b
        if all(isinstance(s, Let) for s in body):
            self.statements(body)
            return [self.full(self.val(y)) for y in yields]
        shapes = [register_type(y.dtype) for y in yields]

        def taken() -> list[Val]:
            self.mask = mask
            self.statements(body)
            return [self.full(self.val(y)) for y in yields]

        def skipped() -> list[Val]:
            return [self.full(b.lit(0, t)) for t in shapes]

        return b.if_else(b.any_lane(mask), taken, skipped if shapes else None)

    # ---- scratch

    def size_of(self, buf: Buf) -> Val:
        total = self.b.lit(storage_bytes(buf.dtype), "i64")
        for d in buf.shape:
            total = total * (self.b.lit(d, "i64") if isinstance(d, int) else self.val(d))
        return total

    def shape_of(self, buf: Buf) -> list[Val]:
        """The extents; looked up at every use, because one may be a Let of the kernel."""
        return [self.b.lit(d, "i64") if isinstance(d, int) else self.val(d) for d in buf.shape]

    @contextlib.contextmanager
    def scratch_of(self, body: Sequence[Stmt]) -> Iterator[None]:
        """Takes the scratch of a loop's body once, before the loop, where its size is known."""
        taken: list[tuple[Buf, Val, Val]] = []
        while len(body) == 1 and isinstance(body[0], Alloc) and self.lanes == 1:
            s = body[0]
            if any(d not in self.env for d in s.buf.shape if isinstance(d, Var)):
                break
            size = self.size_of(s.buf)
            if size.c is None:
                size = size + PAST_END
                pointer = self.buffers[s.buf] = self.take(size)
                self.ready.add(s.buf)
                taken.append((s.buf, pointer, size))
            body = s.body
        yield
        for buf, pointer, size in reversed(taken):
            self.ready.discard(buf)
            self.release(pointer, size)

    def alloc(self, s: Alloc) -> None:
        b = self.b
        if s.buf in self.ready:
            self.statements(s.body)
            return
        size = self.size_of(s.buf)
        if size.c is not None and self.module.stack + size.c <= STACK_LIMIT:
            self.module.stack += max(64, size.c)
            self.buffers[s.buf] = b.alloca(max(64, size.c))
            self.statements(s.body)
            return
        size = size + PAST_END
        pointer = self.take(size)
        self.buffers[s.buf] = pointer
        self.statements(s.body)
        self.release(pointer, size)

    def turn(self, s: Turn) -> None:
        turned = self.val(s.turned)
        first, second = (self.buffers[buf] for buf in s.bufs)
        pairs = ((second, first), (first, second))
        for out, (there, here) in zip(s.outs, pairs, strict=True):
            self.buffers[out] = self.b.select(turned, there, here)

    def take(self, size: Val) -> Val:
        """Scratch from ctx.alloc; out of memory leaves the kernel with code 2.

        Its last byte is written: a load or store whose lanes are all masked, behind the last
        element, costs hundreds of cycles where it points at a page that nobody has touched.
        """
        b = self.b
        f = b.load("ptr", self.ctx)
        pointer = b.impure(f"call ptr {f.regs[0]}(i64 {size.regs[0]})", "ptr")
        empty = Val(b, "ptr", 1, ("null",))
        self.fail_if(b.compare("eq", pointer, empty), 2)
        self.heap.append((pointer, size))
        b.store(b.lit(0, "i8"), b.gep(b.gep(pointer, size, 1), b.lit(-1, "i64")))
        return pointer

    def release(self, pointer: Val, size: Val) -> None:
        self.heap.pop()
        self._free(pointer, size)

    def _free(self, pointer: Val, size: Val) -> None:
        f = self.b.load("ptr", self.b.gep(self.ctx, 8))
        self.b.line(f"call void {f.regs[0]}(ptr {pointer.regs[0]}, i64 {size.regs[0]})")

    # ---- errors

    def fail_if(self, cond: Val, code: int, equation: int | None = None) -> None:
        """Leaves the function with an error when a scalar condition holds. Where the same scratch
        is to be freed before, by the same way."""
        b, fine = self.b, self.b.label()
        way = (code, equation, *(pointer.regs[0] for pointer, _ in self.heap))
        bad = self.exits.get(way)
        if bad is not None:
            b.branch_if(cond, bad, fine)
            b.at(fine)
            return
        bad = self.exits[way] = b.label()
        b.push(False)
        b.branch_if(cond, bad, fine)
        b.at(bad)
        b.store(b.lit(code, "i64"), b.gep(self.ctx, ERROR_CODE))
        if equation is not None:
            b.store(b.lit(equation, "i64"), b.gep(self.ctx, ERROR_EQUATION))
        self._leave(str(code))
        b.pop()
        b.at(fine)

    def _leave(self, status: str) -> None:
        for pointer, size in reversed(self.heap):
            self._free(pointer, size)
        self.b.line("ret void" if self.void else f"ret i32 {status}")

    def leave_if_failed(self) -> None:
        """After a parallel loop: has one of its chunks failed?"""
        b = self.b
        code = b.impure(
            f"load atomic i64, ptr {b.gep(self.ctx, ERROR_CODE).regs[0]} monotonic, align 8", "i64"
        )
        bad, fine = b.label(), b.label()
        b.push(False)
        b.branch_if(code.ne(0), bad, fine)
        b.at(bad)
        self._leave(b.cast("trunc", code, "i32").regs[0])
        b.pop()
        b.at(fine)

    def poll(self) -> None:
        """Leaves when the cancel word is set. Quick code runs for a moment only."""
        if self.module.brief:
            return
        b = self.b
        word = b.impure(f"load ptr, ptr {b.gep(self.ctx, 24).regs[0]}, align 8", "ptr")
        flag = b.impure(f"load atomic i32, ptr {word.regs[0]} monotonic, align 4", "i32")
        self.fail_if(flag.ne(0), 1)

    def check(self, count: Val, mask: int) -> None:
        """Lets the main thread look for signals, once in `mask + 1` counts; then leaves when the
        cancel word is set. For loops whose length nobody knows."""
        b = self.b
        due, rest = b.label(), b.label()
        b.push(False)
        b.branch_if((count & b.lit(mask, "i64")).eq(mask), due, rest)
        b.at(due)
        table = b.load("ptr", b.gep(self.ctx, TABLE))
        f = b.load("ptr", b.gep(table, function_offset("check")))
        b.line(f"call void {f.regs[0]}(ptr {self.ctx.regs[0]})")
        b.branch(rest)
        b.pop()
        b.at(rest)
        self.poll()

    # ---- calls

    def call(self, s: Call) -> None:
        """A library function of the context's table: i32 f(ctx*, arguments..., pointers to the
        results...)."""
        b = self.b
        if s.name == "prefetch":
            buf, at = s.args
            assert isinstance(buf, Buf) and not isinstance(at, Buf)
            place = b.gep(self.buffers[buf], self.val(at), storage_bytes(buf.dtype))
            b.prefetch(place, writes=True)
            return
        self.kept.clear()
        attrs = dict(s.attrs)
        if s.name == "raise_if":
            self.fail_if(self.val(s.args[0]), int(attrs.get("code", 4)), attrs.get("equation"))  # type: ignore[arg-type]
            return
        if "fortran" in attrs:
            emit_library_call(self, s, str(attrs["fortran"]))
            return
        table = b.load("ptr", b.gep(self.ctx, TABLE))
        function = b.load("ptr", b.gep(table, function_offset(s.name)))
        parts = ["ptr %ctx"]
        for a in s.args:
            if isinstance(a, Buf):
                parts.append(f"ptr {self.buffers[a].regs[0]}")
                continue
            v = self.val(a)
            if a.dtype == "i64":
                parts.append(f"i64 {v.regs[0]}")
                continue
            raw = to_memory(b, a.dtype, v)
            if TYPE_BITS[raw.t] < 32:
                raw = b.cast("sext" if a.dtype in SIGNED else "zext", raw, "i32")
            parts.append(f"{raw.t} {raw.regs[0]}")
        if is_tile(s.name) and (width := panel_width(s.name)):
            parts.append(f"i64 {width}")
        slots = [b.alloca(8, 8) for _ in s.outs]
        parts += [f"ptr {slot.regs[0]}" for slot in slots]
        status = b.impure(f"call i32 {function.regs[0]}({', '.join(parts)})", "i32")
        self.fail_if(status.ne(0), int(attrs.get("code", 4)), attrs.get("equation"))
        for out, slot in zip(s.outs, slots, strict=True):
            self.env[out] = from_memory(b, out.dtype, b.load(memory_type(out.dtype), slot))

    # ---- helpers of loops

    def bind_carries(self, carries: Sequence[Carry], values: Sequence[Val]) -> None:
        for c, v in zip(carries, values, strict=True):
            self.env[c.var] = v

    def bind_results(self, carries: Sequence[Carry], values: Sequence[Val]) -> None:
        for c, v in zip(carries, values, strict=True):
            self.env[c.out] = v
