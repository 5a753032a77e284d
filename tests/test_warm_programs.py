"""Programs on disk: a warm start lowers nothing, and gives the same bits; what cannot be told
completely is not kept."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import lax
from pullback.backends.llvm import aside, compiler, link, preload
from pullback.backends.llvm.target import host_target, target_for
from pullback.loops import pipeline
from pullback.loops.fingerprint import equations, fingerprint, source_stamp

SCRIPT = """
import sys
import numpy as np
import pullback as pb
import pullback.numpy as jnp
from pullback.loops import pipeline

if sys.argv[1] == "warm":
    def refuse(*args, **kwargs):
        raise AssertionError("lowered again")
    pipeline.compile_jaxpr = refuse

def loss(w, x):
    h = jnp.tanh(x @ w[0] + w[1])
    z = jnp.where(h > 0.3, h * 2.5, jnp.sin(h)) @ w[2]
    return jnp.log(jnp.exp(z - z.max(1, keepdims=True)).sum(1)).mean()

r = np.random.default_rng(0)
w = [r.normal(size=s).astype(np.float32) for s in ((50, 60), (60,), (60, 20))]
step = pb.jit(pb.value_and_grad(loss), donate_argnums=())
value, grads = step(w, r.normal(size=(40, 50)).astype(np.float32))
for x in [value, *grads]:
    print(np.asarray(x).tobytes().hex()[:4000])
if sys.argv[1] == "warm":
    assert pb.kernel_compile_count() == 0, pb.kernel_compile_count()
    (program,) = [p for p in pb.explain_compile().programs if p.equations > 5]
    assert program.count("disk") == len(program.kernels) > 2
"""


def run_script(mode: str, folder: Path) -> str:
    environment = {**os.environ, "PULLBACK_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, mode], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_warm_start_lowers_nothing(tmp_path: Path) -> None:
    cold = run_script("cold", tmp_path)
    assert run_script("warm", tmp_path) == cold
    for entry in tmp_path.glob("*.kernel"):  # a damaged entry is made anew
        if b"program" in entry.read_bytes()[:64]:
            raw = bytearray(entry.read_bytes())
            raw[-5] ^= 255
            entry.write_bytes(bytes(raw))
    assert run_script("cold", tmp_path) == cold


PRELOADED = """
import os, sys
import numpy as np
import pullback as pb
import pullback.numpy as jnp
from pullback.backends.llvm import aside, link, os_shim, preload

kind, x = sys.argv[1], jnp.asarray(np.linspace(0, 1, 50, dtype=np.float32))
threads = os_shim.sleep_kind() == "futex" and os_shim.cpu_count() > 1
assert len(preload._begun) == (kind != "first" and threads)
if kind == "fork":  # while the thread is at it
    pid = os.fork()
    if pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
name = {"first": "cos", "same": "cos", "other": "sin", "fork": "exp"}[kind]
out = pb.jit(lambda x: jnp.tanh(x) + getattr(jnp, name)(x))(x)
np.testing.assert_allclose(out, np.tanh(x) + getattr(np, name)(x), rtol=1e-5)
if kind == "other" and threads:  # compiled with what the thread has left
    (one,) = preload._begun
    assert link.loaded() and one.mapped() and one.compiler() is None
    machines = [m for c in link._idle for m in c.machines]
    assert machines.count((one.target.key, preload.LEVEL)) == 1, machines
assert aside.settle(90.0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads that map are for Linux")
def test_the_library_is_mapped_while_the_package_is_imported(tmp_path: Path) -> None:
    """By a native thread, once, unless the import has LLVM compile the runtime; a fork waits for
    it; what the thread has compiled with is used on."""
    environment = {**os.environ, "PULLBACK_CACHE_DIR": str(tmp_path), "PULLBACK_STENCILS": "0"}
    for name in ("PULLBACK_CACHE", "PULLBACK_NATIVE"):
        environment.pop(name, None)
    for kind in ("first", "same", "other", "fork"):
        done = subprocess.run(
            [sys.executable, "-c", PRELOADED, kind], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(host_target().level == "neon", reason="levels of another architecture")
@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
def test_the_first_function_is_valid(level: str) -> None:
    """On every machine that we compile for, of those whose instructions this one has."""
    order = ["sse2", "avx2", "avx512"]
    if order.index(level) > order.index(host_target().level):
        pytest.skip(f"this machine has no {level}")
    text = preload._first_function(target_for(level))
    assert link.assemble(
        text.replace(target_for(level).triple, host_target().triple), host_target()
    )


def body(x: Any, y: Any, c: float = 2.5) -> Any:
    for k in range(8):
        x = jnp.sin(x) * c + jnp.cumsum(x, 0) - jnp.where(x > 0.25 * k, x, y)
    return x, x.sum(0)


def told(f: Any, *args: Any, donated: Any = ()) -> str | None:
    return fingerprint(pb.make_jaxpr(f)(*args), donated)


X = np.linspace(0, 1, 200, dtype=np.float32).reshape(20, 10)


def test_what_the_text_tells() -> None:
    text = told(body, X, X)
    assert text is not None and text == told(lambda p, q: body(p, q), X, X)
    others = [
        told(lambda x, y: body(x, y, 2.25), X, X),
        told(lambda x, y: body(y, x), X, X),
        told(body, X[:19], X[:19]),
        told(body, X.astype(np.float16), X),
        told(body, X, X, donated=(True, False)),
        told(lambda x, y: body(x, y)[::-1], X, X),
        told(lambda x, y: (lax.cumsum(x, 0), lax.cumsum(x, 1)), X, X),
        told(lambda x, y: (lax.cumsum(x, 0), lax.cumsum(x, 0, reverse=True)), X, X),
        told(lambda x, y: x * np.float32(0.0), X, X),
        told(lambda x, y: x * np.float32(-0.0), X, X),
    ]
    assert None not in others and len({text, *others}) == 1 + len(others)


def test_constants_are_told_by_value_or_stay_operands() -> None:
    one, two = jnp.float32(1.5) + 0, jnp.float32(2.5) + 0
    texts = {told(lambda x, c=c: x * c, X) for c in (one, two)}
    assert len(texts) == 2 and None not in texts
    big = np.arange(200, dtype=np.float32).reshape(20, 10)
    texts = {told(lambda x, c=c: x * c, X) for c in (jnp.asarray(big), jnp.asarray(big + 1))}
    assert len(texts) == 1 and None not in texts


def test_what_has_no_text() -> None:
    assert told(lambda x: pb.pure_callback(np.sin, x, x), X) is None
    assert told(lambda x: pb.debug.print("{}", x), X) is None
    key = pb.random.key(0)
    assert told(lambda k: pb.random.split(k), key) is None


def kept_programs(directory: Path) -> list[Path]:
    """The whole programs on disk. (Entries being written have another name, and go any moment.)"""
    return [p for p in directory.glob("*.kernel") if b"program" in p.read_bytes()[:64]]


def waits_for(condition: Any) -> bool:
    end = time.monotonic() + 90
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(condition())


def forget_kernels() -> None:
    """The process has none any more: what it has, from any test, does not go to a new directory."""
    compiler._live.clear()
    compiler._recent.clear()


def test_recalled_quick_code_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PULLBACK_TIER", raising=False)
    forget_kernels()
    first = [np.asarray(v) for v in pb.jit(lambda x, y: body(x, y, 1.75))(X, X)]
    assert aside.settle(90.0) and kept_programs(tmp_path)
    forget_kernels()
    count = pb.kernel_compile_count()
    monkeypatch.setattr(pipeline, "compile_jaxpr", lowered := Counted(pipeline.compile_jaxpr))
    f = pb.jit(lambda x, y: body(x, y, 1.75))
    again = f(X, X)
    assert pb.kernel_compile_count() == count and lowered.calls == 0
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    program = [p for p in pb.explain_compile().programs if p.equations > 5][-1]
    assert program.count("disk") == len(program.kernels)
    if any(k.quick for k in program.kernels):
        for _ in range(3000):
            f(X, X)
        assert waits_for(lambda: lowered.calls > 0), "good code needs the kernels"
        assert all(np.array_equal(a, b) for a, b in zip(first, f(X, X), strict=True))


class Counted:
    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.function(*args, **kwargs)


def test_closed_over_arrays_are_the_new_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    for scale in (1.0, 3.0):
        table = jnp.asarray(X * scale)
        out = pb.jit(lambda x, t=table: body(x, t, 1.375)[0])(X)
        want = pb.jit(lambda x, t: body(x, t, 1.375)[0])(X, table)
        np.testing.assert_array_equal(out, want)
        time.sleep(0.2)


def test_a_program_goes_where_its_kernels_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is written later, when the environment may name another directory."""
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(first))
    release = threading.Event()
    aside.aside(release.wait, 60.0)
    pb.jit(lambda x, y: body(x, y, 1.625))(X, X)
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(second))
    release.set()
    assert aside.settle(90.0)
    assert len(kept_programs(first)) == 1 and not kept_programs(second)


def test_what_was_done_aside_is_let_go() -> None:
    """A program and its constants die with their last user, not a second later."""
    value = np.zeros(3)
    watch = weakref.ref(value)
    aside.aside(np.sum, value)
    del value
    assert aside.settle(90.0) and watch() is None


def test_short_programs_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And found again by another function of the same equations."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    first = pb.jit(lambda x: jnp.sin(x) + 0.375)(X)
    assert aside.settle(90.0) and len(kept_programs(tmp_path)) == 1
    forget_kernels()
    monkeypatch.setattr(pipeline, "compile_jaxpr", lowered := Counted(pipeline.compile_jaxpr))
    again = pb.jit(lambda x: jnp.sin(x) + 0.375)(X)
    assert lowered.calls == 0 and np.array_equal(first, again)


def _sorted_alone(x: Any) -> Any:
    """Rows of some hundreds: NumPy sorts them."""
    return jnp.sort(jnp.sin(x).reshape(10, 300)) + 1


def _sorted_in_loops(x: Any) -> Any:
    """Complex numbers, which NumPy sorts wherever they are."""

    def step(total: Any, row: Any) -> Any:
        z = jnp.sort(row * 1j + 1)
        return total + z[0].real, z

    branch = lax.cond(x[0, 0] > 0, lambda x: jnp.sort(x[0] + 0j), lambda x: x[0] * 1j, x)
    return lax.scan(step, jnp.float32(0), x), branch


@pytest.mark.parametrize("function", [_sorted_alone, _sorted_in_loops])
def test_programs_with_steps_in_python_are_kept(
    function: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What Python does is found again as an equation of the new program, loops' and branches'
    too."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    forget_kernels()
    x = np.random.default_rng(0).normal(size=(60, 50)).astype(np.float32)
    first = pb.tree.leaves(pb.jit(lambda x: function(x))(x))
    assert aside.settle(90.0) and kept_programs(tmp_path)
    forget_kernels()
    monkeypatch.setattr(pipeline, "compile_jaxpr", lowered := Counted(pipeline.compile_jaxpr))
    again = pb.jit(lambda x: function(x))
    for value in (x, x[::-1].copy()):
        for a, b in zip(first, pb.tree.leaves(again(value)), strict=True):
            assert value is not x or np.array_equal(a, b)
    assert lowered.calls == 0
    program = again.lower(x).compiler_ir("loops")
    assert program.has_host
    assert [h.name for h in program.program.host] == [
        program.program.equations[h.equation].primitive.name for h in program.program.host
    ]


def test_equations_are_told_in_order() -> None:
    """Those of programs with equal texts are equal one by one, whatever order parameters have."""
    x = np.ones((3, 4), np.float32)

    def program(c: float) -> Any:
        step = lambda t, r: (t + r.sum() * c, jnp.sin(r))
        f = lambda x: lax.cond(x[0, 0] > c, jnp.cos, lambda x: lax.scan(step, c, x)[1], x)
        return pb.make_jaxpr(f)(x)

    names = [e.primitive.name for e in equations(program(2.0))]
    assert names == [e.primitive.name for e in equations(program(3.0))]
    assert {"cond", "scan", "cos", "sin", "reduce_sum"} <= set(names)


def test_a_missing_kernel_means_lowering(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    f = lambda x, y: body(x, y, 1.125)
    first = pb.jit(lambda x, y: f(x, y))(X, X)
    assert aside.settle(90.0) and kept_programs(tmp_path)
    forget_kernels()
    for p in set(tmp_path.glob("*.kernel")) - set(kept_programs(tmp_path)):
        p.unlink()
    again = pb.jit(lambda x, y: f(x, y))(X, X)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_programs_are_made_anew_when_what_a_primitive_computes_changes() -> None:
    """Of incomplete gamma functions it is written in control/special.py."""
    stamp = source_stamp()
    for name in ("special.py:", "while_loop.py:", "jvp.py:", "elementwise.py:", "fuse.py:"):
        assert name in stamp
