"""The fuzzer's comparison is honest: planted errors are found, and only what rounding explains is
excused.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import pytest
from jax.interpreters import ad

pytest.importorskip("jax")

import fuzz_compare
import fuzz_heap
import fuzz_programs
import fuzz_rounding

from pullback.runtime import memory
from pullback.runtime.native import Native

X = np.array([0.3, -1.2, 2.5], "float32")


def compared(theirs: Any, ours: Any, x: Any = X, mode: str = "jit") -> tuple[str, str | None]:
    """The verdict on two functions of (namespace, array): one for JAX, one for Pullback."""
    spaces = fuzz_compare.namespaces()

    def build(ns: Any) -> Any:
        return lambda a: (theirs if ns is spaces[0] else ours)(ns, a)

    return fuzz_compare.verdict(*spaces, fuzz_programs.Program("planted", [x], build, mode=mode))


def cancelled(ns: Any, x: Any) -> Any:
    """`x` up to what is left of it beside 10000."""
    return ns.lax.optimization_barrier(x + 1e4) - 1e4


WRONG: dict[str, tuple[Any, Any]] = {
    "a relative error": (lambda ns, x: x * 2, lambda ns, x: x * 2.0002),
    "a small result beside a large one": (
        lambda ns, x: (x * 1e6, x[0] * 2),
        lambda ns, x: (x * 1e6, x[0] * 2.0002),
    ),
    "one element beside an ill-conditioned one": (
        lambda ns, x: ns.numpy.stack([cancelled(ns, x[0]), x[1]]),
        lambda ns, x: ns.numpy.stack([x[0], x[1] * 1.001]),
    ),
    "an integer": (lambda ns, x: x.argmax(), lambda ns, x: x.argmax() + 1),
    "a truth": (lambda ns, x: x > 0, lambda ns, x: x > 0.5),
    "a type": (lambda ns, x: x, lambda ns, x: x.astype("float16")),
    "weakness": (lambda ns, x: x.sum() * 0 + 1, lambda ns, x: 1.0),
    "a sign": (lambda ns, x: ns.lax.sin(x), lambda ns, x: -ns.lax.sin(x)),
    "not a number": (lambda ns, x: x / 2, lambda ns, x: ns.numpy.where(x > 0, x / 2, np.nan)),
    "a zero for a slope": (lambda ns, x: 1 - ns.lax.tanh(x) ** 2, lambda ns, x: x * 0),
    "more than cancellation explains": (
        cancelled,
        lambda ns, x: x + 0.05,
    ),
    "another error": (lambda ns, x: x.reshape(7), lambda ns, x: ns.numpy.linspace(0, 1, -3)),
    "an error where there is none": (lambda ns, x: x, lambda ns, x: x.reshape(7)),
    "no error": (lambda ns, x: x.reshape(7), lambda ns, x: x),
}


@pytest.mark.parametrize("name", WRONG)
def test_found(name: str) -> None:
    end, text = compared(*WRONG[name])
    assert end == "differs" and text


EXCUSED: dict[str, tuple[Any, Any]] = {
    "cancellation": (cancelled, lambda ns, x: x),
    "a saturated slope": (
        lambda ns, x: 1 - ns.lax.tanh(x + 9) ** 2,
        lambda ns, x: x * 0,
    ),
    "a sum that cancels, in a loop": (
        lambda ns, x: ns.lax.scan(lambda c, _: (c * 0.5 + (x - 1e4).sum() + 3e4, None), 0.0,
                                  None, length=3)[0],
        lambda ns, x: ns.lax.scan(lambda c, _: (c * 0.5 + x.sum(), None), 0.0,
                                  None, length=3)[0],
    ),
    "a discontinuity": (
        lambda ns, x: ns.numpy.floor((x * 10 / 3) * 0.3 + 0.7).astype("int32"),
        lambda ns, x: ns.numpy.floor((x * 10 / 3) * 0.3 + 0.6999).astype("int32"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXCUSED)
def test_excused(name: str) -> None:
    assert compared(*EXCUSED[name]) == ("equal to rounding", None)


def forward(ns: Any, x: Any) -> Any:
    """An error unless it is compiled, where nothing computes the derivative that there is not."""
    f = ns.jax.custom_vjp(lambda v: v * 2)
    f.defvjp(lambda v: (f(v), None), lambda _, ct: (ct,))
    return ns.jax.jvp(ns.jax.jit(f), (x,), (x,))[0]


def concrete(ns: Any, x: Any) -> Any:
    """An error if it is compiled, where the condition has no value."""
    return x * 2 if x[0] > 0 else x


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_noise_moves_numbers_of_every_width(name: str) -> None:
    """By the distance of two floats: products in another order differ by that, however their
    digits begin."""
    x = np.array([1.0, 1.01, 1.2, -1.7, 3e-4]).astype(name)
    moved = fuzz_rounding._Noise(lambda shape: np.full(shape, 0.8, "float32")).on(x, 1)
    assert (np.asarray(moved, x.dtype) != x).all()


def test_errors_of_one_mode() -> None:
    """Against a compiled oracle, an eager program may fail as eager JAX does."""
    assert compared(forward, forward, mode="mixed") == ("same error", None)
    assert compared(concrete, concrete, mode="mixed") == ("equal", None)
    for wrong in (lambda ns, x: ns.numpy.linspace(0, 1, -3), lambda ns, x: x * 3):
        assert compared(concrete, wrong, mode="mixed")[0] == "differs"
        assert compared(forward, wrong, mode="mixed")[0] == "differs"
    assert compared(lambda ns, x: x, forward, mode="mixed")[0] == "differs"


def refused(ns: Any, x: Any) -> Any:
    """JAX has no derivative of igamma_grad_a, and neither has one with respect to an order."""
    slope = ns.jax.grad(lambda v: ns.jax.scipy.special.gammainc(v, x).sum())
    return ns.jax.grad(lambda v: slope(v) + ns.lax.polygamma(v, 2.0))(x[0])


def test_another_fault_past_what_jax_has_not_got() -> None:
    assert compared(refused, refused) == ("same error", None)
    # With a derivative in the place of the missing one JAX raises a ValueError, and errors are
    # compared by their classes.
    assert compared(refused, lambda ns, x: ns.numpy.sin("x"))[0] == "differs"
    assert compared(refused, lambda ns, x: x)[0] == "only ours works"


def test_failed_checks_of_xla_are_no_answers() -> None:
    """XLA's compiler says so where it breaks down; what it says of wrong programs is an answer."""
    error = "error", ["JaxRuntimeError", "RuntimeError"], "INTERNAL: RET_CHECK failure (fft_thunk)"
    ours = "ok", [(np.ones(3, np.float32), False, "")], "*"
    assert fuzz_compare.difference(error, ours) is None
    assert fuzz_compare.difference((*error[:2], "INVALID_ARGUMENT: no"), ours) is not None


def twice_refused(ns: Any, x: Any) -> Any:
    """Past the derivative that JAX has not got lies a dtype that has no promotion."""
    slope = ns.jax.grad(lambda v: ns.jax.scipy.special.gammainc(v, x[0]))
    return ns.jax.grad(slope)(x[1]) + x.astype("float8_e4m3fn")


def test_a_fault_behind_what_jax_has_not_got() -> None:
    assert compared(twice_refused, twice_refused) == ("same error", None)
    right = lambda ns, x: ns.jax.grad(lambda v: ns.numpy.sin(v[0]) + v[0])(x)
    assert compared(twice_refused, right)[0] == "only ours works"
    assert not ad_rules_of("igamma_grad_a")


def ad_rules_of(name: str) -> list[Any]:
    """What JAX knows of a primitive's derivatives: stand-ins are taken away again."""
    return [p for p in ad.primitive_jvps if p.name == name]


@pytest.mark.skipif(not isinstance(memory.engine, Native), reason="needs the native allocator")
@pytest.mark.parametrize("link", [0x0101010101010101, 72, None])
def test_a_free_block_that_is_written_to_is_found(link: int | None) -> None:
    """A link to nowhere, to an address that no block has, and of a block to itself."""
    assert fuzz_heap.fault() is None
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10.0)
    try:
        block = memory.alloc(64)
        assert block is not None
        memory.free(block, 64)
        word = ctypes.c_int64.from_address(block)
        before, word.value = word.value, block if link is None else link
        found = fuzz_heap.fault()
        word.value = before
    finally:
        sys.setswitchinterval(interval)
    assert found is not None and ("twice" in found) == (link is None)
    assert fuzz_heap.fault() is None


def test_writes_of_another_shape_are_faults() -> None:
    """Only those whose batch axis JAX has misplaced are not."""
    text = (
        "Invalid shape for `swap`. Ref shape: {}. Expected shape: {}. Value shape: {}. Transforms"
    )
    for value, excused in (((2, 2, 3), True), ((2, 3, 2), False), ((2, 3, 1), False)):
        error = ("error", ("ValueError",), text.format((2, 3, 2), (2, 3, 2), value))
        assert fuzz_compare.cannot(error) == excused
