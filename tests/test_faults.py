"""What users do wrong: the class of the error is JAX's, and the message names what was wrong, on
which line, and what to write instead. The tables are fault_table.py and fault_table_control.py."""

from __future__ import annotations

import re
import traceback
import warnings
from typing import Any

import fault_table_control
import jax
import jax.numpy
import numpy as np
import pytest
from fault_table import Fault, rows

import pullback
import pullback.lax
import pullback.numpy
import pullback.random
from pullback.core.tracebacks import JaxStackTraceBeforeTransformation

FILE = "user_program.py"
FIX = re.compile(
    r"\bFix:|\binstead\b|\bUse\b|\buse\b|\bmust\b|\bshould\b|\bTry\b|\bRevise\b|\bplease\b|\bPlease\b"
    r"|\bPass\b|\bexpected\b|\baccept|\bdefine\b"
)


def run(fault: Fault, library: Any) -> BaseException | None:
    """The error that a snippet raises in a library."""
    names = {"jax": library, "jnp": library.numpy, "lax": library.lax, "np": np}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of donated arrays that it cannot use
        try:
            exec(compile(fault.code, FILE, "exec"), names)
        except Exception as error:
            return error
    return None


def public_name(error: BaseException) -> str | None:
    """The error's name, if it is one of the public classes of jax.errors."""
    name = type(error).__name__
    return name if hasattr(jax.errors, name) else None


def builtin_class(error: BaseException) -> type:
    """The nearest of Python's own classes."""
    return next(c for c in type(error).__mro__ if c.__module__ == "builtins")


CONTROL = rows(fault_table_control.TEXT)


@pytest.mark.parametrize("fault", [*rows(), *CONTROL], ids=lambda f: f.name)
def test_fault(fault: Fault) -> None:
    expected = run(fault, jax)
    error = run(fault, pullback)
    assert expected is not None, "JAX accepts this"
    assert error is not None, f"accepted; JAX raises {expected!r}"
    shown = "".join(traceback.format_exception(error))
    if not isinstance(expected, AssertionError):  # where JAX asserts, we say what is wrong
        assert isinstance(error, builtin_class(expected)), f"JAX: {expected!r}\n{shown}"
    if public_name(expected):
        assert type(error).__name__ == public_name(expected), shown
    message = str(error)
    for word in fault.says:
        assert word in message, shown
    assert "internal error" not in message, shown
    assert fault.python or FIX.search(message), f"no fix in the message:\n{shown}"
    line = 1 + next(k for k, text in enumerate(fault.code.splitlines()) if "# fault" in text)
    if fault.line:
        assert f"{FILE}:{line}" in message, shown
    else:
        frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == FILE]
        assert frames[-1] == line, shown


def test_the_tables_are_large() -> None:
    for table, least in ((rows(), 60), (CONTROL, 80)):
        names = [fault.name for fault in table]
        assert len(names) == len(set(names)) >= least


# ---- the fix fits what was written

pb, jnp = pullback, pullback.numpy


def _kept() -> Any:
    kept: list[Any] = []
    pb.jit(lambda x: kept.append(x * 2))(1.0)
    return float(kept[0])


class _Model:
    """No pytree, and nothing that an array could hold."""


FIXES: dict[str, tuple[Any, str]] = {
    "rows": (lambda: jnp.ones((3, 4)) + jnp.ones(3), "Fix: x[:, None], where x is the operand of"),
    "stacks": (lambda: jnp.where(True, jnp.ones((3, 2)), jnp.ones((3, 2, 4))), "x[:, :, None]"),
    "transposed": (lambda: jnp.where(True, jnp.ones((3, 2)), jnp.ones((2, 3))), "Fix: x.T"),
    "lengths": (lambda: jnp.ones(3) + jnp.ones(4), "must be equal"),
    "format": (lambda: pb.jit(lambda x: f"{x:.2f}")(1.0), "jax.debug.print('{x:.2f}', x=x)"),
    "key of a dict": (lambda: pb.jit(lambda i: {0: 1.0}[i])(0), "lax.switch"),
    "static array": (
        lambda: pb.jit(lambda n: n, static_argnums=0)(jnp.ones(2)),
        "leave arrays out",
    ),
    "static dict": (lambda: pb.jit(lambda n: n, static_argnums=0)({"a": 1}), "sorted(x.items())"),
    "static set": (lambda: pb.jit(lambda n: n, static_argnums=0)({1}), "frozenset"),
    "method": (lambda: pb.jit(lambda self, x: x)(_Model(), 1.0), "make _Model a pytree"),
    "number for a key": (lambda: pb.random.normal(0, (3,)), "random.key(0)"),
    "at without set": (lambda: jnp.ones(3).at.__setitem__(0, 1.0), "x.at[idx].set(y)"),
    "kept": (_kept, "That function has returned since"),
}


@pytest.mark.parametrize("name", FIXES)
def test_the_fix_is_for_what_was_written(name: str) -> None:
    wrong, fix = FIXES[name]
    with pytest.raises((TypeError, ValueError)) as raised:
        wrong()
    assert fix in str(raised.value)


# ---- which frames of a traceback are left


def _wrong(*_: Any) -> Any:
    raise AssertionError("wrong")


def _nested(m: Any) -> Any:
    @m.jit
    def innermost(x):
        raise AssertionError("wrong")

    @m.jit
    def inbetween(x):
        return 1 + m.vmap(innermost)(x)

    return m.jit(lambda x: 2 + inbetween(x))(m.numpy.arange(2))


def _forward(m: Any) -> Any:
    f = m.custom_jvp(lambda x: x)
    f.defjvp(_wrong)
    return m.jvp(f, (1.0,), (1.0,))


def _wrong_backwards(m):
    f = m.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (_wrong(ct),))
    return f


_FAILING: dict[str, Any] = {
    "jit and vmap": _nested,
    "cond": lambda m: m.lax.cond(True, _wrong, lambda: (), *()),
    "scan": lambda m: m.lax.scan(_wrong, (), (), 3),
    "while": lambda m: m.lax.while_loop(lambda _: True, _wrong, ()),
    "map": lambda m: m.lax.map(_wrong, m.numpy.ones(3)),
    "root": lambda m: m.lax.custom_root(_wrong, 0.0, _wrong, _wrong),
    "associative": lambda m: m.lax.associative_scan(_wrong, m.numpy.ones(3)),
    "custom_jvp": _forward,
    "checkpoint": lambda m: m.checkpoint(_wrong)(1.0),
    "linearize": lambda m: m.linearize(_wrong, 1.0),
    "lower": lambda m: m.jit(_wrong).lower(1.0),
    "no array": lambda m: m.jit(lambda x: x)(object()),
    "backward rule": lambda m: m.grad(_wrong_backwards(m))(1.0),
}


@pytest.mark.parametrize("name", _FAILING)
@pytest.mark.parametrize("mode", ["quiet_remove_frames", "remove_frames", "tracebackhide"])
def test_frames_that_are_left(name: str, mode: str) -> None:
    seen = []
    for m, flag in (
        (jax, jax._src.config.traceback_filtering),
        (pullback, pullback.config.traceback_filtering),
    ):
        with flag(mode), pytest.raises((AssertionError, TypeError)) as caught:
            _FAILING[name](m)
        error = caught.value
        frames = [f for f, _ in traceback.walk_tb(error.__traceback__)]
        shown = [f.f_code.co_name for f in frames if "__tracebackhide__" not in f.f_locals]
        removed = any("For simplicity" in n for n in getattr(error, "__notes__", ()))
        seen.append((shown, type(error.__cause__).__name__, removed))
    assert seen[0] == seen[1]


def test_errors_of_transformed_operations_say_where_they_were_written() -> None:
    with pullback.debug_nans(True), pytest.raises(FloatingPointError) as caught:
        pullback.grad(pullback.numpy.linalg.norm)(np.zeros((3, 3), np.float32))
    cause = caught.value.__cause__
    assert isinstance(cause, JaxStackTraceBeforeTransformation) and __file__ in str(cause)


def test_nans_that_an_operation_did_not_make() -> None:
    """They came in an input, or are literals: the message says so, as JAX's does."""
    with pullback.debug_nans(True):
        for f, x, whence in (
            (lambda x: x * 3.0, np.nan, "input"),
            (lambda x: (pullback.numpy.nan, x + 2), 3, "literal"),
        ):
            said = f"the de-optimized function did not .*{whence}"
            with pytest.raises(FloatingPointError, match=said):
                pullback.jit(f)(x)


def test_nans_of_sharded_computations() -> None:
    sharded = pullback.shard_map(
        lambda x: 0.0 / x, mesh=pullback.make_mesh((1,), ("x",)),
        in_specs=pullback.P("x"), out_specs=pullback.P("x"),
    )  # fmt: skip
    said = r"Invalid value \(nan\) encountered in sharded computation"
    with pullback.debug_nans(True), pytest.raises(FloatingPointError, match=said):
        sharded(np.zeros(1))


def test_internal_faults_keep_their_frames() -> None:
    def fault(x):
        raise RuntimeError("internal error in pullback: none")

    with pullback.config.traceback_filtering("auto"), pytest.raises(RuntimeError) as caught:
        pullback.jit(fault)(1.0)
    assert len(list(traceback.walk_tb(caught.value.__traceback__))) > 3
