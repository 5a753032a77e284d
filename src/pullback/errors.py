"""Every exception that a user can see, under the names that JAX users catch.

Message text is built when the error is raised, never before. Each message says what was wrong, on
which line of the user's code the value was made, and what to write instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class JAXTypeError(TypeError):
    """A value had the wrong type for what was asked of it.

    >>> issubclass(pb.errors.JAXTypeError, TypeError)
    True
    """


class JAXIndexError(IndexError):
    """An index was not valid for the array that it indexes.

    >>> issubclass(pb.errors.JAXIndexError, IndexError)
    True
    """


class AxisError(ValueError, IndexError):
    """An axis that an array does not have: both a ValueError and an IndexError, as NumPy's."""


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where Python needs the number itself.

    >>> pb.jit(lambda x: jnp.arange(x))(3)
    Traceback (most recent call last):
        ...
    pullback.errors.ConcretizationTypeError: ...
    """

    def __init__(self, tracer: Any = None, context: str = "") -> None:
        if isinstance(tracer, str):
            super().__init__(tracer)
            return
        super().__init__(
            "Abstract tracer value encountered where concrete value is expected: "
            f"{describe(tracer)}.\n"
            f"{context}{origin(tracer)}\n"
            "Fix: keep the value inside lax/numpy operations, or make the argument static "
            "(`jit(f, static_argnums=...)` or `static_argnames=...`)."
        )


class TracerBoolConversionError(ConcretizationTypeError):
    """`bool()` of a traced value, as in `if x > 0:`.

    >>> pb.jit(lambda x: 1 if x > 0 else 2)(3)
    Traceback (most recent call last):
        ...
    pullback.errors.TracerBoolConversionError: ...
    """

    def __init__(self, tracer: Any) -> None:
        JAXTypeError.__init__(
            self,
            f"Attempted boolean conversion of {describe(tracer)}.{origin(tracer)}\n"
            "A traced value stands for every value of its type, so Python cannot branch on it.\n"
            "Fix: write `jnp.where(cond, a, b)` or `lax.cond(cond, f, g, *operands)` instead of "
            "`if`, `lax.while_loop` instead of `while`,"
            " `&`, `|`, `~` instead of `and`, `or`, `not`; or make the argument static with "
            "`static_argnums`.",
        )


class TracerIntegerConversionError(JAXTypeError):
    """A traced value was used as a Python integer (a list index, a size, `range`).

    >>> pb.jit(lambda x: [10, 20][x])(1)
    Traceback (most recent call last):
        ...
    pullback.errors.TracerIntegerConversionError: ...
    """

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            f"The __index__() method was called on {describe(tracer)}.{origin(tracer)}\n"
            "Fix: index a jnp array instead of a list, use `lax.fori_loop` instead of `range`, or "
            "make the argument static "
            "with `static_argnums`."
        )


class TracerArrayConversionError(JAXTypeError):
    """A traced value was given to NumPy.

    >>> pb.jit(lambda x: np.sin(x))(1.0)
    Traceback (most recent call last):
        ...
    pullback.errors.TracerArrayConversionError: ...
    """

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            "The numpy.ndarray conversion method __array__() was called on "
            f"{describe(tracer)}.{origin(tracer)}\n"
            "Fix: use the function of the same name from `jax.numpy` (`pullback.numpy`) instead of "
            "`numpy`, or make the argument static."
        )


class NonConcreteBooleanIndexError(JAXIndexError):
    """A boolean mask that is traced was used as an index: the size of the result would depend on
    data.

    >>> pb.jit(lambda x: x[x > 0])(jnp.array([1, -1]))
    Traceback (most recent call last):
        ...
    pullback.errors.NonConcreteBooleanIndexError: ...
    """

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            f"Array boolean indices must be concrete; got {type_text(tracer)}.{origin(tracer)}\n"
            "Fix: `jnp.where(mask, x, 0)` keeps the shape; `x.at[mask].set(v)` assigns under a "
            "mask; "
            "`jnp.nonzero(mask, size=n)` gives a fixed number of indices."
        )


class UnexpectedTracerError(JAXTypeError):
    """A tracer was used after the transformation that made it had finished.

    >>> leaked = []
    >>> _ = pb.jit(lambda x: leaked.append(x) or x)(1)
    >>> jnp.add(leaked[0], 1)
    Traceback (most recent call last):
        ...
    pullback.errors.UnexpectedTracerError: ...
    """


class KeyReuseError(JAXTypeError):
    """A PRNG key was consumed twice.

    >>> key = random.key(0)
    >>> with pb.debug_key_reuse(True):
    ...     try:
    ...         random.normal(key), random.normal(key)
    ...     except pb.errors.KeyReuseError:
    ...         print("used twice")
    used twice
    """


class IndivisibleError(ValueError):
    """The axis of an array cannot be divided over the axes of a mesh as a sharding says.

    >>> mesh = pb.sharding.AbstractMesh((2,), ("i",))
    >>> pb.NamedSharding(mesh, pb.P("i")).shard_shape((3,))
    Traceback (most recent call last):
        ...
    pullback.errors.IndivisibleError: ...
    """


class DuplicateSpecError(Exception):
    """A spec names one axis of a mesh for two axes of an array.

    >>> mesh = pb.make_mesh((1,), ("i",))
    >>> pb.NamedSharding(mesh, pb.P("i", "i"))
    Traceback (most recent call last):
        ...
    pullback.errors.DuplicateSpecError: ...
    """


class ShardingTypeError(Exception):
    """Arrays lie over mesh axes of explicit type in ways that do not go together, or a result could
    lie in more than one way.

    >>> mesh = pb.make_mesh((1, 1), ("i", "j"))
    >>> x = pb.reshard(jnp.ones((2, 2)), pb.NamedSharding(mesh, pb.P("i", "j")))
    >>> jnp.add(x, x.T)
    Traceback (most recent call last):
        ...
    pullback.errors.ShardingTypeError: ...
    """


class JaxRuntimeError(RuntimeError):
    """A computation failed while it ran.

    >>> x = jnp.zeros(3)
    >>> x.delete()
    >>> x.block_until_ready()
    Traceback (most recent call last):
        ...
    pullback.errors.JaxRuntimeError: ...
    """


class OutOfMemoryError(JaxRuntimeError, MemoryError):
    """There is not enough memory for an array or a computation: a `JaxRuntimeError`, as in JAX, and
    a `MemoryError`, as everywhere else in Python.

    >>> try:
    ...     jnp.zeros((2**31, 2**31)).block_until_ready()
    ... except MemoryError as e:
    ...     print(e)
    RESOURCE_EXHAUSTED: Out of memory allocating 18446744073709551616 bytes. Fix: ...
    """

    @classmethod
    def allocating(cls, nbytes: int, where: str = "") -> OutOfMemoryError:
        """The error for a request of `nbytes` bytes; `where` says who asked, if that helps."""
        return cls(
            f"RESOURCE_EXHAUSTED: Out of memory allocating {nbytes} bytes{where}. Fix: smaller "
            "shapes or dtypes, parts one after the other (`lax.map` with batch_size), donated "
            "arguments, or `checkpoint` under `grad`; `jit(f).lower(...).compile()."
            "memory_analysis()` tells a computation's need before it runs."
        )


class JaxprTypeError(TypeError):
    """A jaxpr broke the grammar: an internal error, or a wrong custom rule.

    >>> issubclass(pb.errors.JaxprTypeError, TypeError)
    True
    """


class InconclusiveDimensionOperation(Exception):
    """A comparison of symbolic sizes that has no one answer.

    >>> pb.errors.InconclusiveDimensionOperation is pb.core.InconclusiveDimensionOperation
    True
    """


class UnexpectedDimVar(Exception):
    """A program to be exported has a size with a name that no argument's shape has.

    >>> pb.errors.UnexpectedDimVar.__bases__
    (<class 'Exception'>,)
    """


class TypePromotionError(ValueError):
    """Two dtypes have no common type under the promotion rules in force.

    >>> with pb.numpy_dtype_promotion("strict"):
    ...     try:
    ...         jnp.arange(3) + jnp.arange(3.0)
    ...     except pb.dtypes.TypePromotionError:
    ...         print("int32 and float32")
    int32 and float32
    """


class MissingRuleError(NotImplementedError):
    """A primitive has no rule for a transformation, and why."""


class ForwardDerivativeError(TypeError, NotImplementedError):
    """The forward derivative of a function that has only a backward rule was asked for.

    Evaluating such a derivative is a TypeError, differentiating it again has no rule: it is both.
    """


def incompatible_shapes(shapes: Sequence[tuple[Any, ...]]) -> ValueError:
    """The error for shapes that do not broadcast to one."""
    fix = "sizes are compared from the last axis, and must be equal or 1; x[:, None] adds an axis"
    if len({*shapes}) == 2:
        low, high = sorted({*map(tuple, shapes)}, key=len)
        if low and len(low) < len(high) and high[: len(low)] == low:
            axes = ", ".join([":"] * len(low) + ["None"] * (len(high) - len(low)))
            fix = f"x[{axes}], where x is the operand of shape {low}; {fix.split(';')[0]}"
        elif len(low) == len(high) and low == high[::-1]:
            fix = f"x.T, where x is one of them; {fix.split(';')[0]}"
    return ValueError(f"Incompatible shapes for broadcasting: shapes={list(shapes)}. Fix: {fix}.")


def describe(tracer: Any) -> str:
    """The type of a tracer, as users know it: `traced array with shape float32[3]`."""
    text = type_text(tracer)
    return f"traced array with shape {text}" if text != repr(tracer) else text


def type_text(tracer: Any) -> str:
    """The type of a tracer in short: `float32[3]`."""
    aval: Any = getattr(tracer, "aval", None)
    return aval.str_short() if hasattr(aval, "str_short") else repr(tracer)


def origin(tracer: Any) -> str:
    """Where a tracer came from, as a sentence that starts on a new line (empty if unknown)."""
    where = getattr(tracer, "_origin_msg", None)
    text = where() if callable(where) else ""
    trace = getattr(tracer, "_trace", None)
    if trace is not None and not trace.is_valid():
        text += (
            "\nThat function has returned since: the value was kept in a list, a global or an "
            "attribute, where it stands for no number. Fix that first: return it from the function."
        )
    return f"\n{text}" if text else ""
