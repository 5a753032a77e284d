"""Small functions for kernels: control flow as decorators, arithmetic of sizes, checks, prints."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import config, dtypes, lax, numpy as jnp, tree
from ...api.jit import jit
from ...primitives.callback import debug_callback, debug_print as _debug_print
from ...primitives.common import as_array
from ..checkify import debug_check as _debug_check
from ..sparse.composed import composed

enable_debug_checks = config.pallas_enable_debug_checks
enable_poison_buffers = config.pallas_poison_buffers


# --- control flow ---
def when(condition: Any, /) -> Callable[[Callable[[], None]], None]:
    """A decorator: calls the function if the condition holds, in the kernel (`lax.cond`) if it is
    traced, else at once.

    >>> def kernel(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...]
    ...     @pl.when(x_ref[0] > 0)
    ...     def _():
    ...         o_ref[0] = 5.0
    >>> pl.pallas_call(kernel, jnp.zeros(2))(jnp.ones(2))
    Array([5., 1.], dtype=float32)

    Raises TypeError if the condition is no scalar, or if the function returns anything.
    """

    def decorate(f: Callable[[], None]) -> None:
        if isinstance(condition, bool):
            if condition:
                f()
        else:
            lax.cond(condition, f, lambda: None)

    return decorate


def loop(
    lower: Any, upper: Any, *, init_carry: Any = None, step: Any = 1, unroll: Any = None
) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: calls the function with lower, lower + step, ... below `upper`, in one loop of
    the kernel. With `init_carry`, the function takes and returns a carry, and the last one is the
    result.

    >>> def kernel(x_ref, o_ref):
    ...     @pl.loop(0, 3)
    ...     def _(i):
    ...         o_ref[i] = 2 * x_ref[i]
    >>> pl.pallas_call(kernel, jnp.zeros(3))(jnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)

    Raises TypeError if the function changes the carry's type, ZeroDivisionError for a step of 0.
    """

    def decorate(body: Callable[..., Any]) -> Any:
        def body_fun(index: Any, carry: Any) -> Any:
            i = lower + index * step
            return body(i) if init_carry is None else body(i, carry)

        return lax.fori_loop(0, cdiv(upper - lower, step), body_fun, init_carry, unroll=unroll)

    return decorate


# --- sizes ---
def cdiv(a: Any, b: Any) -> Any:
    """a / b rounded up, for ints; for traced integers (a + b - 1) / b as kernels compute it.

    >>> pl.cdiv(7, 2)
    4

    Raises ZeroDivisionError if b is the int 0.
    """
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return lax.div(a + (b - 1), b)


def align_to(a: Any, alignment: Any) -> Any:
    """The least multiple of `alignment` that is not below a.

    >>> pl.align_to(7, 4)
    8
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """The least power of two that is not below x; ValueError for negative numbers.

    >>> pl.next_power_of_2(5)
    8
    """
    if x < 0:
        raise ValueError("`next_power_of_2` requires a non-negative integer. Fix: pass a size.")
    return 1 << (x - 1).bit_length() if x else 1


def strides_from_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many elements apart neighbours along each axis are, in row-major order.

    >>> pl.strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    strides = [1]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * n)
    return tuple(reversed(strides)) if shape else ()


_multiple_of = composed("multiple_of", lambda x, *, values: as_array(x), ["values"])
_reciprocal = composed(
    "reciprocal", lambda x, *, approx, full_range: jnp.reciprocal(x), ["approx", "full_range"]
)
_broadcast_to = composed("broadcast_to", lambda a, *, shape: jnp.broadcast_to(a, shape), ["shape"])


def multiple_of(x: Any, values: Sequence[int] | int) -> Any:
    """`x`, of which the compiler is told that it is a multiple of `values`; it needs no telling
    here.

    >>> pl.multiple_of(8, 4)
    8
    """
    if isinstance(x, int):
        return x
    return _multiple_of.bind(x, values=(values,) if isinstance(values, int) else tuple(values))


# --- arrays ---
def broadcast_to(a: Any, shape: tuple[int, ...]) -> Any:
    """The array repeated to a shape, as `jnp.broadcast_to`.

    >>> pl.broadcast_to(jnp.ones(()), (2,))
    Array([1., 1.], dtype=float32)

    Raises ValueError if the shapes do not fit.
    """
    a = as_array(a)
    return a if a.shape == tuple(shape) else _broadcast_to.bind(a, shape=tuple(shape))


def empty_like(x: Any) -> Any:
    """Arrays of the shapes and dtypes of a tree of arrays or ShapeDtypeStructs, to be written
    before they are read (they are zeros).

    >>> pl.empty_like(jnp.ones(2))
    Array([0., 0.], dtype=float32)
    """
    return tree.map(lambda leaf: lax.empty(leaf.shape, leaf.dtype), x)


def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Any:
    """1 / x, element by element, exactly rounded whatever `approx` and `full_range` allow.

    >>> pl.reciprocal(jnp.array([2.0, 4.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    return _reciprocal.bind(x, approx=approx, full_range=full_range)


def dot(
    a: Any,
    b: Any,
    trans_a: bool = False,
    trans_b: bool = False,
    allow_tf32: bool | None = None,
    precision: Any = None,
) -> Any:
    """The product of two matrices, either of them transposed if asked, in float32 (int32 for
    integers). Deprecated: `a @ b` and `jnp.dot` do as well in a kernel.

    Raises ValueError for what is no matrix, or if both `allow_tf32` and `precision` are given.
    """
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError("`a` and `b` must be 2D arrays. Fix: jnp.matmul for stacks of matrices.")
    if allow_tf32 is not None:
        if precision is not None:
            raise ValueError(
                "Only one of allow_tf32 and precision can be specified. Fix: pass precision."
            )
        precision = lax.Precision.HIGH if allow_tf32 else lax.Precision.HIGHEST
    wide = np.int32 if dtypes.is_integer(a.dtype) else np.float32
    axes = ((0 if trans_a else 1,), (1 if trans_b else 0,))
    return lax.dot_general(a, b, (axes, ((), ())), precision=precision, preferred_element_type=wide)


# --- looking inside ---
def debug_print(fmt: str, *args: Any) -> None:
    """Prints values as the kernel runs; `fmt` has a `{}` for each.

    >>> def kernel(x_ref, o_ref):
    ...     pl.debug_print("step {}", pl.program_id(0))
    >>> _ = pl.pallas_call(kernel, jnp.zeros(2), grid=2)(jnp.ones(2))
    step 0
    step 1
    """
    _debug_print(fmt, *args)


def debug_check(condition: Any, message: str) -> None:
    """With `enable_debug_checks`, an error of `checkify` if the condition does not hold; else
    nothing.

    >>> pl.debug_check(False, "never seen")
    """
    if enable_debug_checks.get():
        _debug_check(condition, message.replace("{", "{{").replace("}", "}}"))


def debug_checks_enabled() -> bool:
    """Is `enable_debug_checks` set? Deprecated: read its `value`."""
    return bool(enable_debug_checks.get())


def delay(nanos: Any) -> None:
    """Sleeps for so many nanoseconds.

    >>> pl.delay(10)
    """
    debug_callback(_sleep, nanos)


def _sleep(nanos: Any) -> None:
    time.sleep(max(int(nanos), 0) * 1e-9)


def lower_as_mlir(
    f: Callable[..., Any],
    *args: Any,
    dynamic_shapes: bool = False,
    device: Any = None,
    static_argnames: Sequence[str] = (),
    platforms: Any = None,
    **kwargs: Any,
) -> str:
    """The program of a function of these arguments as StableHLO. Needs jaxlib.

    `dynamic_shapes`, `device` and `platforms` are without meaning here: there is one platform.

    >>> "stablehlo.multiply" in pl.lower_as_mlir(lambda x: 2 * x, jnp.ones(2))
    True
    """
    lowered = jit(f, static_argnames=tuple(static_argnames)).lower(*args, **kwargs)
    return lowered.as_text("stablehlo")  # type: ignore[no-any-return]


@contextlib.contextmanager
def pallas_export_experimental(dynamic_shapes: bool) -> Iterator[None]:
    """A block in which kernels are exported with dynamic shapes; nothing is different here, where
    each shape has a program of its own.

    >>> with pl.pallas_export_experimental(False):
    ...     pl.cdiv(3, 2)
    2
    """
    yield
