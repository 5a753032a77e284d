"""The loop IR: structured SSA over row-major buffers. Immutable; a pass returns a new program.

    kernel = Kernel(str name, Buf* params, Var* dims, Var* scalars, stmt* body)
    buf    = Buf(str name, str dtype, size* shape, str role)      -- role: in | out | inout | temp
    size   = int | Var(i64)                                       -- a Var must be one of the
           kernel's dims or a let of dims
    atom   = Var | Const(value, dtype)
    stmt   = Let(Var out, str op, atom* args, attrs)              -- pure; ops are listed in ops.py
           | Load(Var out, Buf buf, atom* index, atom? mask, atom? other)   -- other is the value
               where mask is false
           | Store(Buf buf, atom* index, atom value, atom? mask)
           | Update(Buf buf, atom* index, atom value, str|Region combine, atom? mask)  -- buf[i] =
           combine(buf[i], value)
           | For(Var index, atom lo, atom hi, atom step, str kind, Carry* carry, stmt* body, atom*
           yields, combine?)
           | While(Carry* carry, Region cond, Region body)        -- regions take the carries; cond
               yields one bool
           | If(atom pred, stmt* then, stmt* orelse, Var* outs, atom* then_yields, atom*
           else_yields)
           | Alloc(Buf buf, stmt* body)                           -- scratch that lives for the body
           | Turn(Buf* outs, atom turned, Buf* bufs)              -- until its block ends, both outs
               name these two buffers; in the other order where turned
           | Call(Var* outs, str name, (atom|Buf)* args, attrs)   -- through the context's function
               table; raise_if(bool), and prefetch(Buf, index), the memory of an element that will
               be written soon, are the emitter's own
    carry  = Carry(Var out, Var var, atom init)                   -- var inside the body, out after
           it
    Region = Region(Var* params, stmt* body, atom* yields)

Loop kinds: 'seq' runs in order; 'parallel' iterations are independent (Update excepted: it is
privatised or serialised), 'rows' are too, and stay on one thread; 'vector' iterations are
independent and run in lanes; 'reduce' is a vectorisable loop whose carries are combined by
`combine` (an op name per carry, or one n-ary Region over (acc..., new...)), in the order that
docs/contract.md fixes; 'scan' is the inclusive prefix form of 'reduce' (carries are readable in the
body after their update); 'unroll' is unrolled.

dtypes are strings: bool i4 i8 i16 i32 i64 u4 u8 u16 u32 u64 f16 bf16 f32 f64 and the float8/float4
names of ml_dtypes. Complex numbers do not exist here: lowering splits them in two reals, a complex
buffer is a real one with a last axis of 2. A narrow float Var holds a value already rounded to its
type; the emitter computes in f32 and rounds after each op.
"""

from __future__ import annotations

from typing import Any

from pullback.records import made, record


class Var:
    """A scalar SSA value (identity is the variable; the name is for printing)."""

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: str) -> None:
        self.name = name
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"%{self.name}"


@record
class Const:
    """A literal: a Python bool, int or float, with the dtype it has in the program. Equal literals
    are the same bits: 0.0 and -0.0 are not, NaN and NaN are."""

    value: bool | int | float
    dtype: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const) or self.dtype != other.dtype:
            return False
        v, w = self.value, other.value
        return (v == w and (v != 0 or str(v) == str(w))) or (v != v and w != w)

    def __hash__(self) -> int:
        return hash((self.value if self.value == self.value else None, self.dtype))


Atom = Var | Const
Size = int | Var


@record
class Buf:
    """A dense row-major buffer; `role` is in, out, inout or temp."""

    name: str
    dtype: str
    shape: tuple[Size, ...]
    role: str


@record
class Region:
    """A block with parameters: a combiner, a loop condition or a loop body."""

    params: tuple[Var, ...]
    body: tuple[Stmt, ...]
    yields: tuple[Atom, ...]


@record
class Carry:
    """A loop-carried value: `var` inside the body, `out` after the loop."""

    out: Var
    var: Var
    init: Atom


@record
class Let:
    out: Var
    op: str
    args: tuple[Atom, ...]
    attrs: tuple[tuple[str, Any], ...] = ()


@record
class Load:
    out: Var
    buf: Buf
    index: tuple[Atom, ...]
    mask: Atom | None = None
    other: Atom | None = None


@record
class Store:
    buf: Buf
    index: tuple[Atom, ...]
    value: Atom
    mask: Atom | None = None


@record
class Update:
    buf: Buf
    index: tuple[Atom, ...]
    value: Atom
    combine: str | Region
    mask: Atom | None = None


@record
class For:
    index: Var
    lo: Atom
    hi: Atom
    step: Atom
    kind: str
    carry: tuple[Carry, ...]
    body: tuple[Stmt, ...]
    yields: tuple[Atom, ...] = ()
    combine: tuple[str, ...] | Region | None = None


@record
class While:
    carry: tuple[Carry, ...]
    cond: Region
    body: Region


@record
class If:
    pred: Atom
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    outs: tuple[Var, ...] = ()
    then_yields: tuple[Atom, ...] = ()
    else_yields: tuple[Atom, ...] = ()


@record
class Alloc:
    buf: Buf
    body: tuple[Stmt, ...]


@record
class Turn:
    outs: tuple[Buf, Buf]
    turned: Atom
    bufs: tuple[Buf, Buf]


@record
class Call:
    outs: tuple[Var, ...]
    name: str
    args: tuple[Atom | Buf, ...]
    attrs: tuple[tuple[str, Any], ...] = ()


Stmt = Let | Load | Store | Update | For | While | If | Alloc | Turn | Call


@record
class Kernel:
    """One native function: `status kernel(ctx*, buffers*, dims*, scalars*)` in the order of params,
    dims, scalars.
    """

    name: str
    params: tuple[Buf, ...]
    dims: tuple[Var, ...]
    scalars: tuple[Var, ...]
    body: tuple[Stmt, ...]
    attrs: dict[str, Any] = made(default_factory=dict)
    written: dict[str, str] = made(default_factory=dict)  # its canonical text: see canon.py
