"""`explain_compile` and the progress of long compilations."""

from __future__ import annotations

import io
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import compile_log


def train_step_of_the_log(w: Any, x: Any) -> Any:
    return (jnp.tanh(x @ w) ** 2).sum()


def compiled(seed: int) -> None:
    w, x = np.full((40, 40), 0.5 + seed, np.float32), np.ones((32, 40), np.float32)
    pb.jit(pb.grad(lambda w: train_step_of_the_log(w, x) * seed)).lower(w).compile()


def test_where_the_time_went(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))

    def shifted(x: Any) -> Any:
        return jnp.cumsum(jnp.sin(x) * 3.5 - x.mean()).sum()

    x = np.ones(100, np.float32)
    pb.jit(shifted)(x)
    report = pb.explain_compile("shifted")
    program = report.programs[-1]
    assert program.equations >= 4 and program.kernels
    assert min(program.trace_seconds, program.lower_seconds, program.compile_seconds) > 0
    assert program.seconds >= program.lower_seconds
    made = [k for k in program.kernels if k.origin == "LLVM"]
    assert all(k.lines > 0 and k.llvm_seconds > 0 and k.text_seconds > 0 for k in made)
    again = pb.jit(lambda x: shifted(x))
    again(x)
    second = pb.explain_compile("<lambda>").programs[-1]
    assert second.count("LLVM") == 0 and second.count("process") == len(second.kernels)
    lines = str(report).splitlines()
    assert lines[0].split()[:3] == ["program", "equations", "trace"]
    assert any(line.startswith("shifted") for line in lines)
    assert "kernels of shifted:" in lines and repr(report) == str(report)
    assert program in pb.explain_compile().programs


def test_programs_with_keys_and_batched_calls_are_told() -> None:
    """What is compiled is another program than what was traced."""

    def drawn_of_the_log(keys: Any) -> Any:
        return pb.vmap(lambda key: pb.random.normal(key, (3,)))(keys)

    pb.jit(drawn_of_the_log)(pb.random.split(pb.random.PRNGKey(0), 4))
    assert pb.explain_compile("drawn_of_the_log").programs[-1].trace_seconds > 0
    assert any(p.name == "drawn_of_the_log" for p in pb.explain_compile().programs)


def test_eager_operations_are_left_out() -> None:
    x = jnp.ones(5)
    before = pb.explain_compile().programs  # entries end with their programs: compared one by one
    (x * 1.25 + 7).block_until_ready()
    assert all(any(p is q for q in before) for p in pb.explain_compile().programs)


def test_unknown_names() -> None:
    pb.jit(train_step_of_the_log)(np.ones((40, 40), np.float32), np.ones((32, 40), np.float32))
    with pytest.raises(ValueError, match="no program of the name 'nothing'"):
        pb.explain_compile("nothing")
    assert str(compile_log.CompileReport([])) == "nothing has been compiled"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_log, "PATIENCE", 0.0)
    monkeypatch.setattr(compile_log, "EVERY", 0.0)
    monkeypatch.delenv("PULLBACK_PROGRESS", raising=False)
    monkeypatch.setattr(sys, "stderr", Terminal())
    compiled(3)
    text = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "compiling <lambda>: " in text and " kernels, " in text
    assert text.endswith("\r") and not text.split("\r")[-2].strip(), "the line is taken away"
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("PULLBACK_PROGRESS", "False")
    compiled(4)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
    monkeypatch.delenv("PULLBACK_PROGRESS")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    compiled(5)
    assert sys.stderr.getvalue() == "", "no terminal"  # type: ignore[attr-defined]


def test_short_compilations_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    compiled(6)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_another_thread_may_be_importing_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module is there then, and not yet what is in it."""
    monkeypatch.setitem(sys.modules, "logging", ModuleType("logging"))
    assert float(pb.jit(lambda x: jnp.cos(x) * 0.4711)(0.0)) == np.float32(0.4711)
