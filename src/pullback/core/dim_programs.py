"""Programs over symbolic sizes, as programs over the sizes that a call has."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..dtypes import default_int
from ..errors import UnexpectedDimVar
from .avals import ShapedArray
from .dims import Atom, DimExpr, bounds, max_dim, min_dim
from .jaxpr import ClosedJaxpr, Jaxpr, Literal

__all__ = ["check_names", "dims_of", "of_sizes", "size_of", "sizes_from"]

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max_dim,
    "min": min_dim,
}


def size_of(d: Any, sizes: Mapping[str, Any]) -> Any:
    """A size where the named ones are these: numbers, or sizes of another scope. KeyError for a
    name without one."""
    if not isinstance(d, DimExpr):
        return d
    total: Any = 0
    for monomial, c in d.terms:
        term: Any = c
        for atom, power in monomial:
            term = term * _factor(atom, sizes) ** power
        total = total + term
    return total


def _factor(atom: Atom, sizes: Mapping[str, Any]) -> Any:
    if not atom.args:
        return sizes[atom.name]
    a, b = (size_of(x, sizes) for x in atom.args)
    return _OPERATIONS[atom.name](a, b)


def dims_of(x: Any) -> set[str]:
    """The names in a size."""
    if not isinstance(x, DimExpr):
        return set()
    return {n for m, _ in x.terms for a, _ in m for n in _names_in(a)}


def _names_in(atom: Atom) -> set[str]:
    return {n for x in atom.args for n in dims_of(x)} if atom.args else {atom.name}


class _Sizes:
    """One replacement: programs that a program holds several times are made once."""

    def __init__(self, sizes: Mapping[str, Any]) -> None:
        self.sizes = sizes
        self.made: dict[int, tuple[Any, Any]] = {}  # by the identity of what is kept beside it

    def value(self, x: Any) -> Any:
        """A parameter."""
        if isinstance(x, DimExpr):
            return size_of(x, self.sizes)
        if type(x) in (tuple, list):
            return type(x)(map(self.value, x))
        if hasattr(x, "_make"):  # a tuple with names
            return x._make(map(self.value, x))
        if type(x) is dict:
            return {k: self.value(v) for k, v in x.items()}
        if isinstance(x, ClosedJaxpr):
            return self.once(x, lambda: ClosedJaxpr(self.value(x.jaxpr), x.consts))
        if isinstance(x, Jaxpr):
            return self.once(x, lambda: self.program(x))
        if isinstance(x, ShapedArray):
            return self.aval(x)
        held = getattr(type(x), "__slots__", ())
        parts = {name: getattr(x, name, None) for name in held} if type(held) is tuple else {}
        if any(isinstance(p, (Jaxpr, ClosedJaxpr)) for p in parts.values()):
            return self.once(x, lambda: type(x)(**{k: self.value(v) for k, v in parts.items()}))
        return x

    def once(self, x: Any, make: Callable[[], Any]) -> Any:
        if id(x) not in self.made:
            self.made[id(x)] = x, make()
        return self.made[id(x)][1]

    def aval(self, aval: Any) -> Any:
        shape = getattr(aval, "shape", ())
        if not any(isinstance(d, DimExpr) for d in shape):
            return aval
        return aval.update(shape=tuple(size_of(d, self.sizes) for d in shape))

    def program(self, jaxpr: Jaxpr) -> Jaxpr:
        env: dict[Any, Any] = {}

        def made(v: Any) -> Any:
            if type(v) is Literal:
                return v
            if v not in env:
                new = env[v] = type(v)(self.aval(v.aval))
                for name in ("initial_qdd", "final_qdd"):
                    if hasattr(v, name):
                        setattr(new, name, getattr(v, name))
            return env[v]

        eqns = []
        for eqn in jaxpr.eqns:
            params = {k: self.value(v) for k, v in eqn.params.items()}
            if eqn.primitive.name == "dim_as_value" and not isinstance(params["dim"], DimExpr):
                number = ShapedArray((), default_int(), weak_type=True)
                env[eqn.outvars[0]] = Literal(np.asarray(params["dim"], default_int())[()], number)
                continue
            outs = [made(v) for v in eqn.outvars]
            eqns.append(
                eqn.replace(invars=list(map(made, eqn.invars)), outvars=outs, params=params)
            )
        ends = [list(map(made, vs)) for vs in (jaxpr.constvars, jaxpr.invars, jaxpr.outvars)]
        return jaxpr.replace(constvars=ends[0], invars=ends[1], outvars=ends[2], eqns=eqns)


class _Names(_Sizes):
    """The names in a program."""

    def __init__(self) -> None:
        super().__init__({})
        self.found: set[str] = set()

    def value(self, x: Any) -> Any:
        if not isinstance(x, DimExpr):
            return super().value(x)
        self.found |= dims_of(x)
        return x

    def aval(self, aval: Any) -> Any:
        self.found.update(*map(dims_of, getattr(aval, "shape", ())))
        return aval


def check_names(closed: ClosedJaxpr, names: Sequence[str]) -> None:
    """Raises where the sizes of a program would not follow from its arguments' shapes: for a name
    that is in none of them, and for what cannot be solved. `names`: what to call the arguments.
    """
    shapes = [getattr(a, "shape", ()) for a in closed.in_avals]
    sizes_from(shapes, shapes, names)
    walk = _Names()
    walk.value(closed)
    bound: set[str] = set().union(*(dims_of(d) for shape in shapes for d in shape))
    for name in sorted(walk.found - bound):
        raise UnexpectedDimVar(
            f"Encountered dimension variable '{name}' that is not appearing in the shapes of the "
            "function arguments.\nThe following dimension variables are appearing in the shapes of "
            f"the function arguments: {sorted(bound)}. Fix: pass an argument with an axis of that "
            f"size; one of shape (0, {name}) takes no memory."
        )


_DOCS = "https://docs.jax.dev/en/latest/export/shape_poly.html"  # JAX's page, which says it all


def of_sizes(closed: ClosedJaxpr, sizes: Mapping[str, Any]) -> ClosedJaxpr:
    """The program where the named sizes are these."""
    return _Sizes(sizes).value(closed)  # type: ignore[no-any-return]


def sizes_from(
    wanted: Sequence[Sequence[Any]], given: Sequence[Sequence[Any]], names: Sequence[str]
) -> dict[str, Any]:
    """What the named sizes of the shapes `wanted` are, where the shapes are those `given`.

    `names`: what to call the arguments in messages. ValueError if no sizes fit, or if they do not
    follow from equations with one unknown each.
    """
    equations = [
        (f"{name}.shape[{k}]", want, have)
        for name, wants, haves in zip(names, wanted, given, strict=True)
        for k, (want, have) in enumerate(zip(wants, haves, strict=True))
        if isinstance(want, DimExpr)
    ]
    found: dict[str, Any] = {}
    how: list[str] = []

    def specs() -> str:
        return ",".join(
            f"{name}.shape = ({', '.join(map(str, s))}{',' * (len(s) == 1)})"
            for name, s in zip(names, wanted, strict=True)
            if any(isinstance(d, DimExpr) for d in s)
        )

    def wrong(text: str) -> ValueError:
        solved = "".join(f"{h}, " for h in how)
        return ValueError(
            f"Input shapes do not match {text} Using the following polymorphic shapes "
            f"specifications: {specs()}. Obtained dimension variables: {solved}. Please see {_DOCS}"
            "#shape-assertion-errors for more details. Fix: pass arrays of such shapes."
        )

    todo = list(equations)
    while todo:
        left = [e for e in todo if not _solve(e, found, how, wrong)]
        if len(left) == len(todo):
            unknown = {n for _, want, _ in left for n in dims_of(want)} - set(found)
            left_over = ", ".join(f"'{want}' for dimension size {w}" for w, want, _ in left)
            raise ValueError(
                f"Cannot solve for values of dimension variables {unknown}. We can only solve "
                "linear uni-variate constraints. Using the following polymorphic shapes "
                f"specifications: {specs()}. Unprocessed specifications: {left_over}. Please see "
                f"{_DOCS}#dimension-variables-must-be-solvable-from-the-input-shapes for more "
                "details. Fix: give an argument one axis of that size."
            )
        todo = left
    for _, want, _ in equations:
        _check_promises(getattr(want, "scope", None), found, wrong)
    return found


def _solve(equation: Any, found: dict[str, Any], how: list[str], wrong: Any) -> bool:
    """Uses an equation: whether it could be used, with what is known."""
    where, want, have = equation
    unknown = dims_of(want) - set(found)
    if not unknown:
        value = size_of(want, found)
        if value != have:
            raise wrong(
                "the polymorphic shapes specification. Found inconsistency between dimension size "
                f"{where} (= {have}) and the specification '{want}' (= {value})."
            )
        return True
    if len(unknown) > 1:
        return False
    (name,) = unknown
    rest: Any = 0
    factor = 0
    for monomial, c in want.terms:
        if name not in {n for a, _ in monomial for n in _names_in(a)}:
            rest = rest + size_of(DimExpr({monomial: c}) if monomial else c, found)
        elif len(monomial) == 1 and monomial[0][1] == 1 and not monomial[0][0].args:
            factor = c
        else:
            return False
    left = have - rest
    over = left % factor
    if not isinstance(over, int) or over != 0:
        raise wrong(
            "the polymorphic shapes specification. Division had remainder "
            f"{over} when computing the value of '{name}'."
        )
    found[name] = left // factor
    how.append(
        f"'{name}' = {found[name]} from specification '{want}' for dimension {where} (= {have})"
    )
    if bounds(found[name])[0] < 1:
        raise wrong(
            "the polymorphic shapes specification. Expected value >= 1 for dimension variable "
            f"'{name}'."
        )
    return True


def _check_promises(scope: Any, found: dict[str, Any], wrong: Any) -> None:
    """ValueError for sizes that the scope excludes."""
    if scope is None:
        return
    texts = getattr(scope, "_text", ())
    for promise in scope._promises:
        if dims_of(promise) <= set(found):
            value = size_of(promise, found)
            if bounds(value)[1] < 0:
                named = next((t for t in texts if all(n in t for n in dims_of(promise))), promise)
                raise wrong(
                    f"the symbolic shape constraint {named}. Expected '{promise}' to be greater or "
                    f"equal to 0, but found {value}. "
                )
