"""`profiler.profile_kernels`: each kernel's time, and the user's lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import lax, numpy as jnp
from pullback.profiler import profile_kernels


def layers(ws: Any, x: Any) -> Any:
    for w in ws:
        x = jnp.tanh(x @ w)
    return jnp.exp(x - x.max(1, keepdims=True)).sum()


WS = [np.full((48, 48), 0.01 * k, np.float32) for k in (1, 2, 3)]
X = np.linspace(0, 1, 64 * 48, dtype=np.float32).reshape(64, 48)


def test_kernels_and_lines(tmp_path: Path) -> None:
    profile = profile_kernels(pb.grad(layers), WS, X, runs=3)
    assert profile.name == "layers" and profile.seconds > 0 and profile.copy_bandwidth > 0
    products = [k for k in profile.kernels if "dot_general" in k.equations]
    assert len(products) >= 6 and all(k.calls == 1 and k.bytes >= 3 * 48 * 48 for k in products)
    assert any("tanh" in k.equations for k in products), "what is fused into a kernel is told"
    place = f"{__file__}:{layers.__code__.co_firstlineno + 2} (layers)"
    line = next(x for x in profile.lines if x.line == place)
    assert line.source == "x = jnp.tanh(x @ w)"
    whole = sum(k.seconds for k in profile.kernels)
    assert sum(x.seconds for x in profile.lines) == pytest.approx(whole)
    text = str(profile)
    assert text.startswith("layers: ") and "x = jnp.tanh(x @ w)" in text
    profile.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "x = jnp.tanh(x @ w)" in page
    assert page.count("<tr>") == 2 + len(profile.kernels) + len(profile.lines)
    assert "http" not in page and "<script" not in page


def test_results_and_arguments_stay(capfd: pytest.CaptureFixture[str]) -> None:
    """Loops of the plan, host steps, static and donated arguments, keys, constants."""

    def noted(x: Any) -> Any:
        pb.debug.callback(lambda v: None, x.sum())
        return x * 2

    def f(x: Any, n: int, key: Any) -> Any:
        step = lambda c: (jnp.sort(noted(c[0]) * 0.5) + 1, c[1] + 1)
        x = lax.while_loop(lambda c: c[1] < n, step, (x, 0))[0]
        return x + pb.random.uniform(key, x.shape) * WS[1][0]

    x = jnp.asarray(X[0])
    jitted = pb.jit(f, static_argnums=1, donate_argnums=0)
    profile = profile_kernels(jitted, x, 4, pb.random.key(1), runs=2)
    assert not x.is_deleted() and profile.kernels
    assert {k.calls for k in profile.kernels} >= {1.0, 4.0}


def test_few_kernels() -> None:
    assert profile_kernels(lambda x: x, X).kernels == ()
    (kernel,) = profile_kernels(lambda: jnp.ones(3)).kernels
    assert kernel.equations == ("broadcast_in_dim",)


def test_bad_calls() -> None:
    with pytest.raises(ValueError, match="runs=0 is below 1"):
        profile_kernels(jnp.sin, 1.0, runs=0)
    ref = pb.new_ref(jnp.zeros(3))
    with pytest.raises(ValueError, match="mutable references"):
        profile_kernels(lambda r: r[...], ref)


def test_cost_analysis() -> None:
    """Counts as XLA gives them where an operation is one there too."""

    def cost(f: Any, *args: Any) -> tuple[float, float, float]:
        found = pb.jit(f).lower(*args).compile().cost_analysis()
        return found["flops"], found["transcendentals"], found["bytes accessed"]

    n = 64 * 48
    assert cost(lambda x: jnp.sin(x) + x, X) == (n, n, 8 * n)
    assert cost(lambda x: x @ x.T, X) == (2 * 64 * n, 0, 4 * (n + 64 * 64))
    assert cost(lambda x: (x.T * 2).sum(), X) == (2 * n - 1, 0, 4 * (n + 1))
    image, kernel = X[None, None], np.ones((4, 1, 3, 3), np.float32)
    flops, _, _ = cost(lambda x, k: lax.conv(x, k, (1, 1), "SAME"), image, kernel)
    assert flops == 2 * 9 * 4 * n
    steps = lambda x: lax.scan(lambda c, row: (c + row, jnp.exp(c)), x[0], x)
    assert cost(steps, X)[:2] == (n, n)
    # What flax's tables say of models: products of a power, three of a logistic, choices and
    # conversions count; what nobody reads does not.
    assert cost(lambda x: x**5, X)[0] == 3 * n and cost(lambda x: x**3, X)[0] == 2 * n
    assert cost(pb.nn.sigmoid, X)[:2] == (3 * n, n)
    assert cost(lambda x: jnp.where(x > 0, x, 0.0), X)[0] == 2 * n
    assert cost(lambda x: x.astype(jnp.int32), X)[0] == n
    assert cost(lambda x: x.max(axis=0), X)[0] == n - 48
    assert cost(lambda x: pb.vjp(pb.nn.relu, x)[1](x), X)[0] == 2 * n
    branches = lambda x: lax.cond(x[0, 0] > 0, lambda x: x * x + 1, jnp.tanh, x)
    assert cost(branches, X)[0] >= 2 * n
