"""What the first import on a machine compiles, and what is compiled when it is first asked for."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import linked_code  # noqa: F401 (it has every function in this process)
import numpy as np
import pytest
import scipy.special

import pullback as pb
import pullback.numpy as jnp
from pullback import lax
from pullback.backends.llvm import called, calledcode, emit_module, stencils
from pullback.backends.llvm.link import assemble
from pullback.backends.llvm.loader import LinkError, link_elf, load_image
from pullback.backends.llvm.stencil_text import batches, is_rare
from pullback.backends.llvm.table import FUNCTIONS_CALLED
from pullback.backends.llvm.target import host_target
from pullback.loops import pipeline
from pullback.loops.canon import canonical_text
from pullback.runtime.executable import reference_rule

HAVE = stencils.provided(host_target())


def run(program: str, directory: Path, **more: str) -> list[str]:
    """The lines that a program prints in a process of its own."""
    environment = {**os.environ, "PULLBACK_CACHE_DIR": str(directory), **more}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


RARE = """
import numpy as np
import pullback as pb
import pullback.numpy as jnp
from pullback.backends.llvm import calledcode, link
f = pb.jit(lambda x: pb.scipy.special.gammaln(x) + jnp.exp(x))
have = set(calledcode._have)
assert have == set(calledcode._names("float")), have
x = np.linspace(0.5, 3, 40, dtype=np.float32)
print(f(x)[39])
print(sorted(calledcode._have - have), link.loaded())
with pb.enable_x64(True):
    g = pb.jit(lambda x: jnp.sin(x) + jnp.arccosh(x + 1))
    print(g(x.astype(float))[39])
print(sorted(calledcode._have - have), [k.origin for p in pb.explain_compile().programs
                                        for k in p.kernels][-1:])
"""


def test_rare_functions_are_compiled_when_a_kernel_first_calls_them(tmp_path: Path) -> None:
    first = run(RARE, tmp_path)
    assert float(first[0]) == pytest.approx(scipy.special.gammaln(3) + np.exp(3), rel=1e-5)
    assert float(first[2]) == pytest.approx(np.sin(3) + np.arccosh(4), rel=1e-14)
    assert first[1].startswith("['lgamma_float']")
    assert first[3].startswith("['acosh_double', 'lgamma_float', 'sin_double']")
    # From disk: the functions' code with that of the kernels, through LLVM neither.
    second = run(RARE, tmp_path, PULLBACK_PRELOAD="0")
    assert second[0] == first[0]
    assert second[2] == first[2]
    assert second[1] == "['lgamma_float'] False"
    assert second[3] == "['acosh_double', 'lgamma_float', 'sin_double'] ['disk']"


@pytest.mark.parametrize("op", FUNCTIONS_CALLED)
def test_what_quick_code_calls_is_known_by_the_kernels_text(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code from disk finds its functions in the table: what the emitter calls was provided."""
    named = {"pow": jnp.power, "logistic": pb.nn.sigmoid, "lgamma": pb.scipy.special.gammaln}
    f = named.get(op) or getattr(lax, op)
    asked: set[str] = set()
    monkeypatch.setattr(called, "function_offset", lambda name: asked.add(name) or 0)
    with pb.enable_x64(True):
        for dtypes in (["f4"], ["f8"], [pb.dtypes.bfloat16], ["f4", "f8"]):
            count = 2 if op in ("pow", "atan2") else 1
            args = [[np.full(99, 0.5, d)] * count for d in dtypes]
            closed = pb.make_jaxpr(lambda args: [f(*a) for a in args])(args)
            (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
            asked.clear()
            emit_module(kernel, brief=True)
            known = set(calledcode.functions_of(canonical_text(kernel)))
            # Stencils call for single numbers, too, where LLVM writes bodies.
            assert known >= asked - set(calledcode._names("float")), dtypes
            assert {name.rpartition("_")[0] for name in known} <= {op}
            assert asked


F64 = """
import time
import pullback as pb
import pullback.numpy as jnp
from pullback.backends.llvm import aside, stencils, target
have = stencils.provided(target.host_target())
if have is not None:
    print(len(have.packed), have.complete)
    pb.config.update("jax_enable_x64", True)
    f = pb.jit(lambda x: x * x + 1)
    print(f(jnp.arange(20.0))[19])
    print(pb.explain_compile().programs[-1].kernels[-1].origin)
    aside.settle()
    print(have.complete)
    print(pb.jit(lambda x: x * x + 2)(jnp.arange(20.0))[19])
    print(pb.explain_compile().programs[-1].kernels[-1].origin)
"""


def test_stencils_of_doubles_are_compiled_when_they_are_first_asked_for(tmp_path: Path) -> None:
    """The program that asks first has LLVM's quick code; others, and processes, have stencils."""
    first = run(F64, tmp_path)
    if not first:
        pytest.skip("no stencils on this machine")
    assert first[0].endswith("False")
    assert first[1:] == ["362.0", "LLVM", "True", "363.0", "stencils"]
    (tmp_path / "more").mkdir()
    for path in tmp_path.glob("*.kernel"):  # but the kernels
        if path.stat().st_size > 20_000:
            path.rename(tmp_path / "more" / path.name)
    second = run(F64, tmp_path / "more")
    assert second[1:] == ["362.0", "stencils", "True", "363.0", "stencils"]


@pytest.mark.skipif(HAVE is None, reason="no stencils on this machine")
def test_stencils_that_do_the_same_are_compiled_once() -> None:
    """Integers of both signs are added and moved alike."""
    target = host_target()
    n = target.lanes(4)
    parts = batches(target, True)
    alike = [set(keys) for part in parts for keys in part.keys]
    assert sum(map(len, alike)) > 1.3 * len(alike)

    def same(*keys: object) -> bool:
        return any(set(keys) <= one for one in alike)

    assert same(("add", "i32", n), ("add", "u32", n))
    assert same(("load", "i32", n, True), ("load", "u32", n, True))
    assert same(("select", "i32", 1), ("select", "u32", 1))
    assert not same(("lt", "i32", n), ("lt", "u32", n))
    assert not same(("add", "f32", n), ("add", "i32", n))
    assert not same(("load", "f32", 1, False), ("load", "i64", 1, False))
    assert not any(is_rare(key, target) for one in alike for key in one)
    others = [key for part in batches(target, False) for keys in part.keys for key in keys]
    assert all(is_rare(key, target) for key in others)


ONE = """
@t = hidden constant [2 x i64] [i64 7, i64 9]
declare hidden i64 @two(i64)
define hidden i64 @three(i64 %x) {
 %p = getelementptr i64, ptr @t, i64 1
 %y = load i64, ptr %p
 %z = add i64 %x, %y
 ret i64 %z
}
define i64 @one(i64 %x) {
 %y = call i64 @two(i64 %x)
 ret i64 %y
}
"""
TWO = """
@t = external hidden constant [2 x i64]
declare hidden i64 @three(i64)
define i64 @two(i64 %x) {
 %y = load i64, ptr @t
 %z = mul i64 %x, %y
 %w = call i64 @three(i64 %z)
 ret i64 %w
}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="objects that our own loader links")
def test_objects_are_linked_to_each_other() -> None:
    one, two = (assemble(text, host_target(), 0) for text in (ONE, TWO))
    code = load_image(link_elf(one, two))
    assert set(code.symbols) == {"one", "two"}  # what is hidden is nobody else's
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.symbols["one"])(5) == 44
    with pytest.raises(LinkError, match=re.escape("'two'")):
        link_elf(one)
