"""The grammar of programs. Typed, in A-normal form, immutable.

ClosedJaxpr = Jaxpr × values of its constvars
Jaxpr       = { lambda constvars ; invars . let eqn* in (outvars) }
eqn         = outvars = primitive[params] invars
atom        = Var | Literal;   an outvar that nobody reads may be a DropVar
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .. import dtypes
from ..lazy_imports import lazy_module
from . import effects as fx, source
from .avals import typeof
from .high import var_type
from .trace import Trace, use_trace
from .tracebacks import replaying

# The printer knows the classes below; it is loaded when a program is printed.
_show: Any = lazy_module("pullback.core.show")


class Var:
    """A variable: its identity is the object, its type the aval. Of values that have a state,
    `initial_qdd` and `final_qdd` are its types when the program begins and ends.

    >>> from pullback.extend import core
    >>> core.Var(pb.typeof(1.0)).aval
    ShapedArray(float32[], weak_type=True)
    """

    __slots__ = ("aval", "final_qdd", "initial_qdd")
    # The types of the state when the program begins and ends, of values that have one.
    initial_qdd: Any
    final_qdd: Any

    def __init__(self, aval: Any, initial_qdd: Any = None, final_qdd: Any = None) -> None:
        self.aval = aval
        if initial_qdd is not None or final_qdd is not None:
            self.initial_qdd, self.final_qdd = initial_qdd, final_qdd

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class DropVar(Var):
    """A result that nobody reads; prints as `_`. Made as `Var` is (`initial_qdd`, `final_qdd`).

    >>> from pullback.extend import core
    >>> core.DropVar(pb.typeof(1.0))
    _
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class Literal:
    """A scalar constant inside an equation.

    >>> program = pb.make_jaxpr(lambda x: x + 2.0)(1.0)
    >>> program.eqns[0].invars[1].val
    2.0
    """

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: Any = None) -> None:
        self.val = val
        self.aval = typeof(val) if aval is None else aval

    def __repr__(self) -> str:
        return f"Literal({self.val})"


class JaxprEqn:
    """One application of a primitive. `effs`: its effects; `source_info` is the user's line.

    >>> program = pb.make_jaxpr(lambda x: x + 2.0)(1.0)
    >>> equation = program.eqns[0]
    >>> equation.primitive, len(equation.invars), equation.params
    (add, 2, {})
    """

    __slots__ = ("ctx", "effects", "invars", "outvars", "params", "primitive", "source_info")

    def __init__(
        self,
        invars: Sequence[Any],
        outvars: Sequence[Var],
        primitive: Any,
        params: dict[str, Any],
        effs: Any = fx.no_effects,
        source_info: Any = source.unknown,
        ctx: Any = None,
    ) -> None:
        self.invars, self.outvars = list(invars), list(outvars)
        self.primitive, self.params = primitive, params
        self.effects, self.source_info, self.ctx = effs, source_info, ctx

    def replace(self, **changes: Any) -> JaxprEqn:
        fields = {name: getattr(self, name) for name in self.__slots__} | changes
        return JaxprEqn(effs=fields.pop("effects"), **fields)

    def __repr__(self) -> str:
        return str(_show.show_eqn(self))


def new_jaxpr_eqn(
    invars: Any,
    outvars: Any,
    primitive: Any,
    params: Any,
    effects: Any,
    source_info: Any = None,
    ctx: Any = None,
) -> JaxprEqn:
    """An equation; its source is the user's current line unless one is given.

    >>> from pullback.extend import core
    >>> x, y = core.Var(pb.typeof(1.0)), core.Var(pb.typeof(1.0))
    >>> core.new_jaxpr_eqn([x], [y], lax.neg_p, {}, set()).primitive
    neg
    """
    return JaxprEqn(
        invars, outvars, primitive, params, effects, source_info or source.current(), ctx
    )


_Names = tuple[str, ...] | Callable[[], tuple[str, ...] | None] | None


class DebugInfo:
    """What to call a program's parts in messages: the function, its arguments and its results.

    >>> pb.make_jaxpr(lambda x, y: x)(1, 2).jaxpr.debug_info.arg_names
    ('x', 'y')
    """

    __slots__ = ("_arg_names", "_result_paths", "func_src_info", "traced_for")

    def __init__(
        self,
        traced_for: str,
        func_src_info: str,
        arg_names: _Names = None,
        result_paths: _Names = None,
    ) -> None:
        self.traced_for, self.func_src_info = traced_for, func_src_info
        self._arg_names, self._result_paths = arg_names, result_paths

    @property
    def arg_names(self) -> tuple[str, ...] | None:
        if callable(self._arg_names):  # few are ever asked for
            self._arg_names = self._arg_names()
        return self._arg_names

    @property
    def result_paths(self) -> tuple[str, ...] | None:
        if callable(self._result_paths):
            self._result_paths = self._result_paths()
        return self._result_paths

    def set_names(self, arg_names: _Names, result_paths: _Names = None) -> None:
        """Gives the names, or what makes them when they are asked for."""
        self._arg_names, self._result_paths = arg_names, result_paths

    def set_result_paths(self, result_paths: _Names) -> None:
        """Gives those of the results only."""
        self._result_paths = result_paths

    def transformed(self) -> DebugInfo:
        """What a program made of this one is called: its arguments are others."""
        return DebugInfo(self.traced_for, self.func_src_info)

    @property
    def func_name(self) -> str:
        return self.func_src_info.split(" ")[0]

    @property
    def func_filename(self) -> str | None:
        """The file that the function is defined in, if that is known."""
        return self._defined_at()[0]

    @property
    def func_lineno(self) -> int | None:
        """The line that the function is defined on, if that is known."""
        return self._defined_at()[1]

    def _defined_at(self) -> tuple[str | None, int | None]:
        found = re.fullmatch(r".*? at (.*):(\d+)", self.func_src_info)
        return (found[1], int(found[2])) if found else (None, None)

    def replace_func_name(self, name: str) -> DebugInfo:
        rest = self.func_src_info.split(" ")[1:]
        return DebugInfo(
            self.traced_for, " ".join([name, *rest]), self._arg_names, self._result_paths
        )


class Jaxpr:
    """A program. Its constvars get their values from the ClosedJaxpr or the operation that holds
    it.

    >>> program = pb.make_jaxpr(lambda x: jnp.sin(x) * 2.0)(1.0).jaxpr
    >>> len(program.invars), [str(e.primitive) for e in program.eqns]
    (1, ['sin', 'mul'])
    """

    __slots__ = (
        "__weakref__",
        "constvars",
        "debug_info",
        "derived",
        "effects",
        "eqns",
        "invars",
        "is_high",
        "outvars",
    )

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Any],
        eqns: Sequence[JaxprEqn],
        effects: Any = fx.no_effects,
        debug_info: Any = None,
        is_high: bool = False,
    ) -> None:
        self.constvars, self.invars, self.outvars = list(constvars), list(invars), list(outvars)
        self.eqns, self.effects, self.debug_info = list(eqns), frozenset(effects), debug_info
        self.is_high = is_high
        self.derived: dict[Any, Any] = {}

    @property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.outvars]

    @property
    def transformed_info(self) -> DebugInfo | None:
        return self.debug_info.transformed() if self.debug_info else None

    def replace(self, **changes: Any) -> Jaxpr:
        names = ("constvars", "invars", "outvars", "eqns", "effects", "debug_info", "is_high")
        return Jaxpr(**{**{n: getattr(self, n) for n in names}, **changes})

    def __str__(self) -> str:
        return str(_show.show_jaxpr(self))

    __repr__ = __str__

    def pretty_print(self, **options: Any) -> str:
        return str(_show.show_jaxpr(self, **options))

    def _repr_pretty_(self, p: Any, cycle: bool) -> None:
        p.text(str(self))


class ClosedJaxpr:
    """A program and the values of its constvars. Remembers the programs derived from it
    (`derived`).

    >>> pb.make_jaxpr(lambda x: x * np.arange(2.0, dtype=np.float32))(1.0)
    { lambda a:f32[2]; b:f32[]. let
        c:f32[] = convert_element_type[new_dtype=float32 weak_type=False] b
        d:f32[2] = mul c a
      in (d,) }
    """

    __slots__ = ("__weakref__", "consts", "derived", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        if len(consts) != len(jaxpr.constvars):
            raise ValueError(f"{len(jaxpr.constvars)} constvars were given {len(consts)} values")
        self.jaxpr, self.consts = jaxpr, list(consts)
        self.derived: dict[Any, Any] = {}

    out_avals = property(lambda self: [v.aval for v in self.jaxpr.outvars])
    literals = property(lambda self: self.consts)

    @property
    def in_avals(self) -> list[Any]:
        """The types of the arguments; of high-level ones with the types of their states."""
        jaxpr = self.jaxpr
        return [var_type(v) for v in jaxpr.invars] if jaxpr.is_high else jaxpr.in_avals

    eqns = property(lambda self: self.jaxpr.eqns)
    effects = property(lambda self: self.jaxpr.effects)
    constvars = property(lambda self: self.jaxpr.constvars)
    invars = property(lambda self: self.jaxpr.invars)
    outvars = property(lambda self: self.jaxpr.outvars)
    debug_info = property(lambda self: self.jaxpr.debug_info)
    is_high = property(lambda self: self.jaxpr.is_high)

    def replace(
        self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Any] | None = None
    ) -> ClosedJaxpr:
        return ClosedJaxpr(jaxpr or self.jaxpr, self.consts if consts is None else consts)

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        return ClosedJaxpr(f(self.jaxpr), self.consts)

    def __str__(self) -> str:
        return str(_show.show_jaxpr(self.jaxpr))

    __repr__ = __str__

    def pretty_print(self, **options: Any) -> str:
        return str(_show.show_jaxpr(self.jaxpr, **options))

    def _repr_pretty_(self, p: Any, cycle: bool) -> None:
        p.text(str(self))


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs that an equation's parameters hold.

    >>> from pullback.extend import core
    >>> program = pb.make_jaxpr(pb.jit(lambda x: x + 1))(1.0)
    >>> len(list(core.jaxprs_in_params(program.eqns[0].params)))
    1
    """
    for val in params.values():
        for v in val if isinstance(val, (tuple, list)) else (val,):
            if isinstance(v, Jaxpr):
                yield v
            elif isinstance(v, ClosedJaxpr):
                yield v.jaxpr


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The jaxprs that a jaxpr's equations hold, one level down.

    >>> from pullback.extend import core
    >>> program = pb.make_jaxpr(pb.jit(lambda x: x + 1))(1.0)
    >>> len(list(core.subjaxprs(program.jaxpr)))
    1
    """
    inside: list[Jaxpr] | None = jaxpr.derived.get("inside")
    if inside is None:  # several passes over every program ask
        inside = [j for eqn in jaxpr.eqns if eqn.params for j in jaxprs_in_params(eqn.params)]
        jaxpr.derived["inside"] = inside
    return iter(inside)


def last_uses(jaxpr: Jaxpr) -> dict[Var, JaxprEqn | None]:
    """For each variable the last equation that reads it (None: it is an output)."""
    last: dict[Var, JaxprEqn | None] = {v: None for v in jaxpr.outvars if isinstance(v, Var)}
    for eqn in reversed(jaxpr.eqns):
        for v in eqn.invars:
            if isinstance(v, Var) and v not in last:
                last[v] = eqn
    return last


def eval_jaxpr(
    jaxpr: Jaxpr, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True
) -> list[Any]:
    """Applies a jaxpr to values, by binding each equation's primitive under the current trace;
    values die at their last use.

    Gives the list of results.

    >>> program = pb.make_jaxpr(lambda x: x * 2 + 1)(1.0)
    >>> pb.core.eval_jaxpr(program.jaxpr, program.consts, 3.0)
    [Array(7., dtype=float32, weak_type=True)]
    """
    env: dict[Var, Any] = {}

    def read(v: Any) -> Any:
        return v.val if type(v) is Literal else env[v]

    env.update(zip(jaxpr.constvars, consts, strict=True))
    if len(args) != len(jaxpr.invars):
        raise ValueError(f"the program takes {len(jaxpr.invars)} arguments, got {len(args)}")
    env.update(zip(jaxpr.invars, args, strict=True))
    last = last_uses(jaxpr)
    for eqn in jaxpr.eqns:
        operands = [read(v) for v in eqn.invars]
        params = eqn.primitive.get_bind_params(eqn.params)
        with replaying(eqn.source_info if propagate_source_info else None):
            out = eqn.primitive.bind(*operands, **params)
        if eqn.primitive.multiple_results:
            env.update(zip(eqn.outvars, out, strict=True))
        else:
            env[eqn.outvars[0]] = out
        for v in eqn.invars:
            if isinstance(v, Var) and last.get(v) is eqn:
                env.pop(v, None)
    return [read(v) for v in jaxpr.outvars]


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr, *args: Any) -> Callable[..., list[Any]]:
    """The function that a `closed_jaxpr` is, of its arguments behind `args`.

    >>> from pullback.extend import core
    >>> f = core.jaxpr_as_fun(pb.make_jaxpr(lambda x: x + 1)(1.0))
    >>> f(2.0)
    [Array(3., dtype=float32, weak_type=True)]
    """

    def fun(*rest: Any) -> list[Any]:
        return eval_jaxpr(closed_jaxpr.jaxpr, closed_jaxpr.consts, *args, *rest)

    if (info := closed_jaxpr.jaxpr.debug_info) is not None:
        fun.func_src_info = info.func_src_info  # type: ignore[attr-defined]
    return fun


def eval_under(trace: Trace, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """`eval_jaxpr` under a given trace."""
    with use_trace(trace):
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def convert_constvars(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with its constvars as leading arguments."""
    found = jaxpr.derived.get("convert_constvars")
    if found is None:
        found = (
            jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])
            if jaxpr.constvars
            else jaxpr
        )
        jaxpr.derived["convert_constvars"] = found
    return found


def closed_without_consts(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A ClosedJaxpr of a jaxpr that has no constvars."""
    found = jaxpr.derived.get("closed")
    if found is None:
        found = jaxpr.derived["closed"] = ClosedJaxpr(jaxpr, ())
    return found


# Types of Python and NumPy whose scalars may be written into equations as literals.
literalable_types: set[type] = {
    *(bool, int, float, complex, np.ndarray),
    *(np.dtype(code).type for code in "?bhilqBHILQefdFD"),
    *(getattr(ml_dtypes, name) for name in dtypes._BY_NAME if hasattr(ml_dtypes, name)),
}
