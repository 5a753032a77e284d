"""What tracing costs, in calls of Python functions an equation: a measure that no load changes."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.backends.llvm import analysis
from pullback.core import naming
from pullback.core.avals import ShapedArray
from pullback.core.primitive import Primitive
from pullback.loops import chains, pipeline
from pullback.loops.ir import Const, For, Let, Var
from pullback.primitives import builders


def calls_of(function: Callable[[], Any]) -> int:
    """How many Python functions a call enters."""
    count = 0

    def watch(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def arithmetic(x: Any, w: Any) -> Any:
    for _ in range(40):
        x = pnp.sin(x) * 1.01 + 0.5 * x - x * x
    return x


def products(x: Any, w: Any) -> Any:
    for _ in range(40):
        x = pnp.tanh(x @ w)
    return x


def sums(x: Any, w: Any) -> Any:
    for _ in range(40):
        x = pnp.where(x > 0.5, x, -x) + x.sum(0)
    return x


# About one and a half times what was measured.
@pytest.mark.parametrize(
    "function, most",
    [(arithmetic, 42), (products, 70), (sums, 65), (pb.grad(lambda *a: products(*a).sum()), 105)],
)
def test_calls_an_equation(function: Callable[..., Any], most: int) -> None:
    x, w = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)
    pb.make_jaxpr(function)(x, w)
    programs: list[Any] = []
    count = calls_of(lambda: programs.append(pb.make_jaxpr(lambda *a: function(*a))(x, w)))
    assert count / len(programs[0].eqns) < most


def test_where_nothing_repeats_the_search_for_chains_is_a_glance() -> None:
    def function(x: Any) -> Any:
        names = ("sin", "cos", "tanh", "exp", "log1p", "sqrt", "square", "floor", "ceil", "abs")
        for k in np.random.default_rng(0).integers(0, 10, 200):
            x = getattr(pnp, names[k])(x)
        return x

    jaxpr = pb.make_jaxpr(function)(np.ones(3, np.float32)).jaxpr
    count = calls_of(lambda: chains.chains_of(jaxpr))
    assert count < 5 * len(jaxpr.eqns)


def test_remembered_types_are_forgotten_with_their_rule() -> None:
    p = Primitive("remembered", abstract_eval=lambda x: x, register=False)
    p.remember_types()
    x = ShapedArray((3,), np.dtype("float32"))
    assert p.abstract_eval(x)[0] == x
    assert p.abstract_eval(x)[0] is p.abstract_eval(x)[0]
    other = ShapedArray((), np.dtype("int32"))
    p.def_abstract_eval(lambda x: other)
    assert p.abstract_eval(x)[0] is other


def test_types_of_sums_of_cotangents_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    rules, asked = builders.add_any_p.rules, []
    rule = rules["abstract_eval"]
    monkeypatch.setitem(rules, "abstract_eval", lambda *a: asked.append(a) or rule(*a))
    branching = lambda x: sum((pnp.sin(x) * pnp.cos(x) for _ in range(9)), x).sum()
    program = pb.make_jaxpr(pb.grad(branching))(np.ones((3, 7, 1), np.float32))
    assert str(program).count("add_any") > 9 and len(asked) <= 1


def test_nothing_is_collected_while_a_function_is_traced() -> None:
    """Nor switched on for who had switched it off."""
    seen = []

    def f(x: Any) -> Any:
        seen.append(gc.isenabled())
        return x

    before = gc.isenabled()
    try:
        for enabled in (True, False):
            (gc.enable if enabled else gc.disable)()
            pb.make_jaxpr(lambda x: f(x))(1.0)  # functions of their own: f's traces are remembered
            pb.eval_shape(lambda x: f(x), 1.0)
            assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False] * 4


def lowered(function: Callable[..., Any], *args: Any) -> int:
    """Calls of Python functions while a program is lowered."""
    closed = pb.make_jaxpr(function)(*args)
    rule = lambda eqn: None
    return calls_of(lambda: pipeline.compile_jaxpr(closed, rule))


def test_results_are_met_once() -> None:
    """Of results and of what a nest computes, none is asked about all others."""
    few, many = ([np.ones(100, np.float32)] * n for n in (20, 80))
    double = lambda xs: [x * 2.0 for x in xs]
    assert lowered(double, many) < 4.4 * lowered(double, few)


def test_statements_are_gathered_by_a_call_a_block() -> None:
    body: tuple[Any, ...] = tuple(
        Let(Var(f"v{k}", "f32"), "neg", (Var("x", "f32"),)) for k in range(100)
    )
    for k in range(10):
        zero, one = Const(0, "i64"), Const(1, "i64")
        body = (For(Var(f"i{k}", "i64"), zero, one, one, "seq", (), body),)
    assert calls_of(lambda: analysis.walk(body)) < 50
    assert len(analysis.walk(body)) == 110


def test_names_of_arguments_are_made_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    paths = naming.leaf_paths
    monkeypatch.setattr(naming, "leaf_paths", lambda x: asked.append(x) or paths(x))
    jaxpr = pb.jit(lambda a, *, b: a["x"] + a["y"][0] + b).trace(
        {"x": 1.0, "y": [2.0]}, b=np.ones(2)
    ).jaxpr  # fmt: skip
    assert not asked
    assert jaxpr.jaxpr.debug_info.arg_names == ("a['x']", "a['y'][0]", "b")


class Checked:
    """A pytree that takes what is like an array only, or nothing but arrays."""

    def __init__(self, x: Any, strict: bool) -> None:
        if not isinstance(x, pb.Array) if strict else not x.shape:
            raise ValueError("no array")
        self.x, self.strict = x, strict


@pytest.mark.parametrize("strict, name", [(False, "c[<flat index 0>]"), (True, "number 0")])
def test_names_of_arguments_whose_class_refuses_others(strict: bool, name: str) -> None:
    with contextlib.suppress(ValueError):  # registered by the other case
        pb.tree_util.register_pytree_node(
            Checked, lambda c: ((c.x,), c.strict), lambda strict, c: Checked(*c, strict)
        )
    with pytest.raises(pb.errors.TracerBoolConversionError, match=re.escape(name)):
        pb.jit(lambda c: 1 if c.x[0] > 0 else 2)(Checked(pb.numpy.ones(2), strict))
