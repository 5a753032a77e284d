"""Printed jaxprs are JAX's: the printer alone, on programs that JAX traced; and the whole of
tracing, on our own.
"""

from __future__ import annotations

import importlib
import operator
import re
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from jaxpr_programs import PROGRAMS, S, V

from pullback.core import show
from pullback.core.avals import ShapedArray
from pullback.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, Var
from pullback.core.source import SourceInfo


class _Prim:
    def __init__(self, name: str) -> None:
        self.name = name


class _Aval(ShapedArray):
    """An aval that prints as JAX's does."""

    __slots__ = ("short",)

    def __init__(self, aval: Any) -> None:
        super().__init__(
            (), np.dtype("float32") if str(aval.dtype).startswith("key") else aval.dtype
        )
        self.shape = aval.shape
        self.short = aval.str_short(short_dtypes=True).removeprefix("~")

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return self.short


class Converter:
    """Rebuilds a JAX program from our classes, with the same sharing."""

    def __init__(self) -> None:
        self.vars: dict[Any, Var] = {}
        self.jaxprs: dict[int, Jaxpr] = {}
        self.keep: list[Any] = []

    def atom(self, v: Any) -> Any:
        if hasattr(v, "val"):
            return Literal(v.val, _Aval(v.aval))
        if v not in self.vars:
            self.vars[v] = Var(_Aval(v.aval))
        return self.vars[v]

    def param(self, name: str, val: Any) -> Any:
        if hasattr(val, "jaxpr") and hasattr(val, "consts"):
            inner = self.jaxpr(val.jaxpr)
            return ClosedJaxpr(inner, [None] * len(inner.constvars))
        if hasattr(val, "eqns"):
            return self.jaxpr(val)
        if type(val) is tuple and val and all(hasattr(x, "eqns") for x in val):
            return tuple(self.param(name, x) for x in val)
        if hasattr(val, "_make"):  # a tuple with names
            return val._make(self.param(name, x) for x in val)
        return val

    def jaxpr(self, j: Any) -> Jaxpr:
        if id(j) not in self.jaxprs:
            self.keep.append(j)
            eqns = []
            for e in j.eqns:
                params = {k: self.param(k, v) for k, v in e.params.items()}
                text = str(e)
                if e.primitive.name == "convert_element_type":
                    params["sharding"] = None
                if e.primitive.name in ("custom_jvp_call", "custom_vjp_call"):
                    # These hold functions, whose names are found in JAX's own text.
                    for key, shown in (
                        ("jvp_jaxpr_fun", "jvp"),
                        ("fwd_jaxpr_thunk", "fwd"),
                        ("bwd", "bwd"),
                    ):
                        if key in params:
                            found = re.search(rf"\n *{shown}=(.*)", text)
                            params[key] = SimpleNamespace(__name__=found.group(1) if found else "?")
                    found = re.search(r"\[\n *name=(.*)", text)
                    params["name"] = found.group(1) if found else None
                eqns.append(
                    JaxprEqn(
                        [self.atom(v) for v in e.invars],
                        [self.atom(v) for v in e.outvars],
                        _Prim(e.primitive.name),
                        params,
                    )
                )
            self.jaxprs[id(j)] = Jaxpr(
                [self.atom(v) for v in j.constvars],
                [self.atom(v) for v in j.invars],
                [self.atom(v) for v in j.outvars],
                eqns,
                debug_info=DebugInfo("jit", "f at ?"),
            )
        return self.jaxprs[id(j)]


def _clean(text: str) -> str:
    return re.sub(r"np\.int64\((\d+)\)", r"\1", re.sub(r"0x[0-9a-f]{6,}", "0xXXXXXXXXXXXX", text))


@pytest.mark.parametrize("name", PROGRAMS)
def test_printer(name: str) -> None:
    """The printer gives exactly JAX's text for JAX's own program."""
    fun, args = PROGRAMS[name](jax)
    closed = jax.make_jaxpr(fun)(*args)
    ours = show.show_jaxpr(Converter().jaxpr(closed.jaxpr))
    assert _clean(ours) == _clean(str(closed))


def canonical(text: str) -> str:
    """A program's text with variables and hoisted names called by order of appearance, without
    regard to line breaks.
    """
    names: dict[str, str] = {}
    text = re.sub(r"\s+", " ", _clean(text)).replace("[ ", "[").replace(" ]", "]")

    def rename(m: re.Match[str]) -> str:
        return names.setdefault(m.group(0), f"v{len(names)}")

    return re.sub(r"\b[a-z]{1,3}(?=[: ,)\]}])(?<!let)(?<!in)(?![a-z_(=\[])", rename, text)


def _pullback() -> Any:
    P = importlib.import_module("pullback")
    for part in ("numpy", "lax", "nn", "random"):
        importlib.import_module(f"pullback.{part}")
    return P


@pytest.mark.parametrize("name", PROGRAMS)
def test_tracing(name: str) -> None:
    """Tracing with Pullback and with JAX gives the same program, up to the names of variables."""
    P = _pullback()
    fun, args = PROGRAMS[name](jax)
    expected = str(jax.make_jaxpr(fun)(*args))
    fun, args = PROGRAMS[name](P)
    assert canonical(str(P.make_jaxpr(fun)(*args))) == canonical(expected)


def _called_jits(jaxpr: Any, depth: int) -> list[Any]:
    """The names of jitted functions in a program, and in those; custom rules are looked into."""
    found: list[Any] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "jit":
            found.append(eqn.params["name"])
            found += [_called_jits(eqn.params["jaxpr"].jaxpr, depth - 1)] if depth > 1 else []
        elif eqn.primitive.name == "custom_jvp_call":
            found += _called_jits(eqn.params["call_jaxpr"].jaxpr, depth)
    return found


# Functions whose programs are others than JAX's, and how deep the names in them are the same.
WITH_NAMES = {
    "numpy.linalg.inv": (2, S),
    "numpy.linalg.pinv": (1, S),
    "scipy.linalg.inv": (2, S),
    "scipy.special.expi": (1, V),
    "scipy.special.expn": (1, V, V),
    "scipy.special.hyp1f1": (1, V, V, V),
    "scipy.special.hyp2f1": (1, V, V, V, V),
    "scipy.special.sici": (1, V),
}


@pytest.mark.parametrize("name", WITH_NAMES)
def test_what_a_function_is_made_of_has_jaxs_names(name: str) -> None:
    depth, *args = WITH_NAMES[name]
    importlib.import_module("jax." + name.rpartition(".")[0])

    def named(P: Any) -> list[Any]:
        f = operator.attrgetter(name)(P)
        return _called_jits(P.make_jaxpr(f)(*args).jaxpr, depth)

    assert named(_pullback()) == named(jax)


def test_numbers_are_shown_as_they_were_written() -> None:
    """Python's numbers in full, those that have a dtype as they are in it."""

    def seen(m: Any) -> str:
        def f(x: Any, z: Any, h: Any) -> Any:
            y = m.numpy.where(x > 0.1, x * 1e-30, np.float32(0.3) - x)
            return m.jit(m.numpy.multiply)(y, 0.7), z * (0.1 + 0.2j), h * 0.1, 0.044715, x + 3

        return canonical(str(m.make_jaxpr(f)(1.0, np.complex64(1), np.float16(1))))

    assert seen(_pullback()) == seen(jax)


# Programs that count, and where the width of integers and levels shows.
WIDE = {
    "sums of bools": lambda m, x: m.numpy.sum(x > 0) + m.numpy.prod(x > 0),
    "sums of bools as floats": lambda m, x: m.numpy.sum(x > 0, dtype="float32"),
    "count_nonzero": lambda m, x: m.numpy.count_nonzero(x, axis=0),
    "mean of bools": lambda m, x: m.numpy.mean(x > 0, where=x < 1),
    "var where": lambda m, x: m.numpy.var(x, where=x < 1),
    "nanmean": lambda m, x: m.numpy.nanmean(x),
    "nanvar": lambda m, x: m.numpy.nanvar(x),
    "quantile": lambda m, x: m.numpy.quantile(x, 0.3, axis=1),
    "quantile nearest": lambda m, x: m.numpy.quantile(x, 0.3, axis=1, method="nearest"),
    "nanmedian": lambda m, x: m.numpy.nanmedian(x),
    "median of bools": lambda m, x: m.numpy.median(x > 0),
    "frexp": lambda m, x: m.numpy.frexp(x),
    "ldexp": lambda m, x: m.numpy.ldexp(x, 3),
    "trace": lambda m, x: m.numpy.trace(x),
    "tril": lambda m, x: m.numpy.tril(x),
    "eye": lambda m, x: m.numpy.eye(3, k=m.numpy.int32(1)),
    "tri": lambda m, x: m.numpy.tri(3, k=m.numpy.int8(1)),
    "cholesky": lambda m, x: m.lax.linalg.cholesky(x),
    "dynamic_slice": lambda m, x: m.lax.dynamic_slice(x, (1, 0), (1, 2)),
    "dynamic_update_slice": lambda m, x: m.lax.dynamic_update_slice(x, x[:1], (-1, 0)),
}


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("name", WIDE)
def test_tracing_with_64_bit_types(name: str, dtype: str) -> None:
    def seen(m: Any) -> str:
        with m.enable_x64(True):
            return canonical(str(m.make_jaxpr(lambda x: WIDE[name](m, x))(np.ones((3, 3), dtype))))

    assert seen(_pullback()) == seen(jax)


def test_options() -> None:
    """`pretty_print` without shapes, with sources, and with name stacks."""
    x = Var(ShapedArray((3,), np.dtype("float32")))
    y = Var(ShapedArray((3,), np.dtype("float32")))
    code = compile("f(\n  x)", "file.py", "eval")
    eqn = JaxprEqn(
        [x], [y], _Prim("sin"), {"accuracy": None}, frozenset(), SourceInfo(code, 0, ("foo", "bar"))
    )
    jaxpr = Jaxpr([], [x], [y], [eqn])
    assert str(jaxpr) == "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    assert jaxpr.pretty_print(print_shapes=False) == "{ lambda ; a. let b = sin a in (b,) }"
    noted = jaxpr.pretty_print(name_stack=True, source_info=True)
    line, second = noted.split("\n")
    assert line.startswith(str(jaxpr) + " # file.py:") and second.strip() == "# [foo/bar]"
    assert second.index("#") == line.index("#")
    assert repr(eqn) == "a:f32[3] = sin b"
    assert "\x1b[34;1mlambda \x1b[39;22m; a\x1b[35m:f32[3]\x1b[39m. " in jaxpr.pretty_print(
        use_color=True
    )
    assert jaxpr.pretty_print(custom_pp_eqn_rules=False) == (
        "{ lambda ; a:f32[3]. let b:f32[3] = sin[accuracy=None] a in (b,) }"
    )


def test_letters() -> None:
    assert [show.letters(k) for k in (0, 25, 26, 27, 676)] == ["a", "z", "ba", "bb", "baa"]


def _names(jaxpr: Any) -> list[tuple[str, str]]:
    """The primitives of a program and of those that it holds, each with its names as text."""
    found = []
    for eqn in jaxpr.eqns:
        found.append((eqn.primitive.name, str(eqn.source_info.name_stack)))
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                found += _names(inner) if hasattr(inner, "eqns") else []
    return found


def _scoped(P: Any, name: str, f: Any) -> Any:
    def g(*args: Any) -> Any:
        with P.named_scope(name):
            return f(*args)

    return g


# Of a library and a function of a vector in the scope "inner".
NAMED: dict[str, Any] = {
    "grad": lambda P, g: P.grad(g),
    "vmap": lambda P, g: P.vmap(g),
    "jvp": lambda P, g: lambda x: P.jvp(g, (x,), (x,)),
    "linearize": lambda P, g: lambda x: P.linearize(g, x)[1](x),
    "vjp": lambda P, g: lambda x: P.vjp(g, x)[1](P.numpy.float32(1)),
    "vmap of grad": lambda P, g: P.vmap(P.grad(g)),
    "grad of vmap": lambda P, g: P.grad(lambda x: P.vmap(g)(x).sum()),
    "grad of jit": lambda P, g: P.grad(P.jit(g)),
    "scope around": lambda P, g: _scoped(P, "outer", P.grad(_scoped(P, "middle", P.jit(g)))),
    "scope around vmap": lambda P, g: P.grad(lambda x: _scoped(P, "outer", P.vmap(g))(x).sum()),
    "scope around jit": lambda P, g: _scoped(P, "outer", P.jit(g)),
    "scan": lambda P, g: _scoped(P, "outer", P.grad(
        lambda x: P.lax.scan(lambda c, y: (g(y) + c, c), 0.0, x)[0])),
    "cond": lambda P, g: P.grad(lambda x: P.lax.cond(x.sum() > 0, g, g, x)),
    "while": lambda P, g: _scoped(P, "outer", lambda x: P.lax.while_loop(
        lambda c: g(c) < 3, lambda c: c + g(c), x)),
    "named_call": lambda P, g: P.grad(P.named_call(g, name="called")),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_names_of_scopes_and_transformations(name: str) -> None:
    """Equations carry the scopes and the transformations that they were made under."""
    texts = []
    for P in (jax, _pullback()):
        inner = _scoped(P, "inner", lambda x, P=P: P.numpy.sin(x).sum())
        texts.append(_names(P.make_jaxpr(NAMED[name](P, inner))(np.ones(3, np.float32)).jaxpr))
    assert texts[0] == texts[1]
