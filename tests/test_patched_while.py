"""Loops of unknown length in code from stencils: the bits of LLVM's code, and what happens when a
run lasts longer than it was given."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import lax
from pullback.backends.llvm.compiler import CompiledKernel
from pullback.backends.llvm.driver import Plan
from pullback.backends.llvm.patch_while import Whiles, begins_again
from pullback.backends.llvm.stencil_text import is_rare
from pullback.backends.llvm.stencils import Stencils, provided
from pullback.backends.llvm.target import host_target
from pullback.loops import pipeline
from pullback.loops.canon import waits
from pullback.loops.plan import KernelStep
from pullback.runtime.executable import reference_rule

pytestmark = pytest.mark.skipif(
    provided(host_target()) is None, reason="no stencils on this machine"
)
X = np.linspace(0.3, 1.7, 60, dtype=np.float32)
LONG = 30_000_000


def swapped(x: Any) -> Any:
    """Carries that change places."""
    body = lambda c: (c[1], c[0] * 0.75, c[2] + 1)
    return lax.while_loop(lambda c: c[2] < 7, body, (x, jnp.cos(x), 0))


def nested(x: Any) -> Any:
    def body(c: Any) -> Any:
        n, y = c
        k, y = lax.while_loop(lambda d: d[0] < n, lambda d: (d[0] + 1, jnp.sin(d[1])), (0, y))
        return n + 1, jnp.where(k > 2, y * 1.5, y)

    return lax.while_loop(lambda c: (c[0] < 6) & (c[1].sum() > 0), body, (0, x))


def in_a_scan(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        out = lax.while_loop(lambda d: d[0] < v, lambda d: (d[0] * 1.5, d[1] + 1), (c, 0))
        return jnp.minimum(out[0], 0.5), out

    return lax.scan(step, jnp.float32(0.1), x)


def of_each(x: Any) -> Any:
    one = lambda v: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] * c[0] + 0.5, c[1] + 1), (v, 0)
    )
    return pb.vmap(one)(x)


def in_branches(x: Any) -> Any:
    def body(c: Any) -> Any:
        k, y = c
        return k + 1, lax.cond(k % 2 == 0, lambda y: y.at[k].set(0.0), lambda y: y[::-1] * 1.25, y)

    return lax.while_loop(lambda c: c[0] < 9, body, (0, x))


def gradients(x: Any) -> Any:
    def solve(A: Any, b: Any) -> Any:
        def body(c: Any) -> Any:
            x, r, p, k = c
            step = (r @ r) / (p @ A @ p)
            s = r - step * (A @ p)
            return x + step * p, s, s + (s @ s) / (r @ r) * p, k + 1

        go_on = lambda c: (c[1] @ c[1] > 1e-8) & (c[3] < 50)
        return lax.while_loop(go_on, body, (jnp.zeros_like(b), b, b, 0))

    return solve(jnp.eye(60) * 2 + jnp.outer(x, x) / 60, x)


def nothing_to_do(x: Any) -> Any:
    return lax.while_loop(lambda c: c.sum() < 0, lambda c: c + 1, x)


PROGRAMS = [swapped, nested, in_a_scan, of_each, in_branches, gradients, nothing_to_do]


def kernels_of(f: Any, *args: Any) -> list[Any]:
    return pipeline.compile_jaxpr(pb.make_jaxpr(f)(*args), reference_rule).kernels


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_bits_of_good_code(
    program: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    results = []
    for tier in ("1", "0"):
        monkeypatch.setenv("PULLBACK_TIER", tier)
        monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path / tier))
        results.append(pb.tree.leaves(pb.jit(lambda x: program(x))(X * 1.5)))
    for x, y in zip(*results, strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def counting(n: Any, x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 0.5 + 1), (0, x))


def test_first_code_gives_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A short run needs no LLVM; a long one begins again with good code, whose result it is."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    given_up = []
    real = Plan.finishes
    monkeypatch.setattr(Plan, "finishes", lambda *a: real(*a) and not given_up.append(a[1]))

    def counted_first(n: Any) -> Any:  # a kernel that no other test has
        body = lambda c: (c[0] + 1, jnp.arctan(c[1]) * 0.5 + 1)
        return lax.while_loop(lambda c: c[0] < n, body, (0, jnp.float32(1.25)))

    f = pb.jit(counted_first)
    value = np.asarray(f(300)[1])
    (kernel,) = pb.explain_compile("counted_first").programs[-1].kernels
    assert kernel.origin == "stencils" and not given_up
    for n in (LONG, 5, LONG, 300):
        count, last = f(n)
        assert int(count) == n
    assert len(given_up) == 1 and np.asarray(last).tobytes() == value.tobytes()


def test_a_long_first_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Without a call before: the way of Python, and of programs with steps before and behind."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    seen = []

    def told(x: Any) -> Any:
        seen.append(float(x))
        return np.float32(x)

    def f(n: Any, x: Any) -> Any:
        like = pb.ShapeDtypeStruct((), np.float32)
        x = pb.pure_callback(told, like, x)
        n, x = counting(n, x)
        return n, pb.pure_callback(told, like, x + 1)

    for _ in range(2):
        n, x = pb.jit(lambda n, x: f(n, x))(LONG, np.float32(1.5))
        assert int(n) == LONG and float(x) == 3
    assert seen == [1.5, 3.0] * 2
    compiled = pb.jit(lambda n: counting(n, np.float32(1.75))).lower(1).compile()
    assert int(compiled(LONG)[0]) == LONG


def test_usual_stencils_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """What every batched loop asks, whether any element goes on, needs no stencils that a machine
    has only later."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    asked = []
    real = Stencils.find
    monkeypatch.setattr(Stencils, "find", lambda *a: asked.append(a[1]) or real(*a))

    def of_each_first(x: Any) -> Any:
        body = lambda c: (c[0] * 1.25 + 0.5, c[1] + 1)
        return pb.vmap(lambda v: lax.while_loop(lambda c: c[0] < 3, body, (v, 0)))(x)

    pb.jit(of_each_first)(X)
    (kernel,) = pb.explain_compile("of_each_first").programs[-1].kernels
    assert kernel.origin == "stencils"
    assert asked and not [key for key in asked if is_rare(key, host_target())]


def test_what_cannot_begin_again() -> None:
    """A donated argument that is updated in place: who gives up has changed it already."""

    def f(x: Any) -> Any:
        body = lambda c: (c[0] + 1, c[1].at[c[0] % 60].multiply(1.5))
        return lax.while_loop(lambda c: c[0] < 3, body, (0, x))

    program = pipeline.compile_jaxpr(pb.make_jaxpr(f)(X), reference_rule, [True])
    (kernel,) = [k for k in program.kernels if "while" in k.name]
    assert any(p.role == "inout" for p in kernel.params)
    assert not begins_again(kernel)
    assert all(begins_again(k) for k in kernels_of(lambda x: of_each(x), X))
    g = pb.jit(f, donate_argnums=0)
    want = X.copy()
    want[:3] *= np.float32(1.5)
    np.testing.assert_array_equal(g(jnp.array(X))[1], want)


def test_no_better_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(CompiledKernel, "improved", lambda self, *_: self.address)
    body = lambda c: (c[0] + 1, jnp.tan(c[1]))  # which no other test has had compiled well
    f = pb.jit(lambda n: lax.while_loop(lambda c: c[0] < n, body, (0, jnp.float32(0.25))))
    for _ in range(2):  # the second by the native way
        assert int(f(4)[0]) == 4
        with pytest.raises(RuntimeError, match="better code for it could not be made"):
            f(LONG)


def test_the_budget_is_for_all_loops(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Loops inside of another one draw on the same: many short ones are one long one."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    budgets = []
    real = Whiles.budget
    monkeypatch.setattr(Whiles, "budget", lambda self: budgets.append(real(self)) or budgets[-1])

    def f(n: Any) -> Any:
        inner = lambda y: counting(7, y)[1]
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, inner(c[1])), (0, 1.0))

    count, value = pb.jit(f)(LONG // 10)
    assert int(count) == LONG // 10 and 1.9 < float(value) <= 2
    assert len(budgets) >= 2 and len(set(budgets)) == 1


def test_after_a_fork() -> None:
    """A child has none of the threads that compile."""
    code = f"""
import os, warnings
warnings.simplefilter("ignore")
import pullback as pb
from pullback import lax
f = pb.jit(lambda n: lax.while_loop(lambda c: c < n, lambda c: c + 1, 0))
assert int(f(3)) == 3
child = os.fork()
if not child:
    os._exit(0 if int(f({LONG})) == {LONG} else 1)
assert os.waitpid(child, 0)[1] == 0
assert int(f({LONG})) == {LONG}
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ), timeout=120)


def test_what_is_read_again_is_not_written_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Results of a scan whose steps have such loops do not lie in a donated argument that the scan
    goes through: it begins again."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))

    def f(n: Any, xs: Any) -> Any:
        body = lambda c: (c[0] + 1, jnp.abs(c[1]) + 1)
        one = lambda x: lax.while_loop(lambda c: c[0] < n, body, (0, x))[1]
        return lax.scan(lambda c, x: (c, one(x)), 0, xs)[1]

    again = pb.jit(f, donate_argnums=1)(100_000, jnp.array(X))
    want = pb.jit(f)(100_000, X)
    np.testing.assert_array_equal(again, want)


def test_temporaries_that_are_read_again_are_not_written_over() -> None:
    """The same of what is computed before the scan and read behind it."""

    def f(n: Any, xs: Any) -> Any:
        body = lambda c: (c[0] + 1, jnp.abs(c[1]) + 1)
        one = lambda x: lax.while_loop(lambda c: c[0] < n, body, (0, x))[1]
        ys = lax.scan(lambda c, x: (c, one(x)), 0, jnp.cumsum(xs))[1]
        return jnp.cumsum(ys[::-1])

    program = pipeline.compile_jaxpr(pb.make_jaxpr(f)(5, X), reference_rule)
    steps = [s for s in program.steps if isinstance(s, KernelStep)]
    assert any(waits(program.kernels[s.kernel]) for s in steps)
    for s in steps:
        assert len({*s.bufs}) == len(s.bufs) or not waits(program.kernels[s.kernel])
