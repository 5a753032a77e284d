"""What tracing costs, in calls of Python functions an equation: a measure that no load changes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.avals import ShapedArray
from pullback.core.primitive import Primitive
from pullback.loops import chains
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
