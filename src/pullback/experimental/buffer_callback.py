"""Functions that write their results into the memory of arrays while a program runs."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..control.expand import register_inline
from ..core import effects as fx
from ..core.primitive import No, Primitive
from ..primitives.callback import (
    batch_by_method,
    check_method,
    io_callback,
    pure_callback,
    result_avals_of,
)
from ..primitives.common import as_array

__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]


class ExecutionStage(enum.Enum):
    """Where in its life a program calls a function.

    >>> from pullback.experimental.buffer_callback import ExecutionStage
    >>> ExecutionStage.EXECUTE.name
    'EXECUTE'
    """

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3

    __repr__ = enum.Enum.__str__


class ExecutionContext:
    """What a function is told of the program that calls it: the `stage`, and the `stream` of a GPU
    (RuntimeError: there is none).

    >>> from pullback.experimental.buffer_callback import ExecutionContext
    >>> ExecutionContext().stage.name
    'EXECUTE'
    """

    stage = ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        raise RuntimeError("an execution context on CPUs has no stream")


class Buffer:
    """The memory of an array: `np.asarray(buffer)` is an array over it, which may be written to if
    `writeable`.

    >>> from pullback.experimental.buffer_callback import Buffer
    >>> Buffer(np.zeros(3)).shape
    (3,)
    """

    __slots__ = ("_host",)

    def __init__(self, host: np.ndarray[Any, Any]) -> None:
        self._host = host

    shape = property(lambda self: self._host.shape)
    ndim = property(lambda self: self._host.ndim)
    dtype = property(lambda self: self._host.dtype)
    writeable = property(lambda self: self._host.flags.writeable)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        found = self._host if dtype is None else self._host.astype(dtype, copy=False)
        return found.copy() if copy else found

    def __dlpack__(self, **options: Any) -> Any:
        return self._host.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._host.__dlpack_device__()


class BufferCallbackEffect(fx.Effect):
    """The effect of a call that must not be dropped."""

    __slots__ = ()

    def __str__(self) -> str:
        return "BufferCallback"


_EFFECT = BufferCallbackEffect()
for _kind in (fx.lowerable_effects, fx.control_flow_allowed_effects):
    _kind.add_type(BufferCallbackEffect)


def _types(*avals: Any, result_avals: Any, has_side_effect: bool, **_: Any) -> Any:
    return list(result_avals), frozenset({_EFFECT} if has_side_effect else ())


def _jvp(primals: Any, tangents: Any, **_: Any) -> Any:
    raise ValueError(
        "Buffer callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks while "
        "taking gradients."
    )


def _run(
    *args: Any, callback: Any, in_tree: Any, out_tree: Any, result_avals: Any,
    has_side_effect: bool, input_output_aliases: Any, **_: Any,
) -> list[Any]:  # fmt: skip
    """The call as one of Python that allocates the results and has the function fill them."""
    shared = {out: k for k, out in input_output_aliases}

    def filled(*operands: Any) -> list[np.ndarray[Any, Any]]:
        ins = [np.asarray(x) for x in operands]
        outs = [
            np.array(ins[shared[k]]) if k in shared else np.empty(a.shape, a.dtype)
            for k, a in enumerate(result_avals)
        ]
        for k, out in shared.items():
            ins[out] = outs[k]
        for x in ins:
            x.flags.writeable &= any(x is out for out in outs)
        operands_of, named = tree.unflatten(in_tree, list(map(Buffer, ins)))
        callback(
            ExecutionContext(), tree.unflatten(out_tree, list(map(Buffer, outs))),
            *operands_of, **named,
        )  # fmt: skip
        return outs

    call: Callable[..., Any] = io_callback if has_side_effect else pure_callback
    return call(filled, list(result_avals), *args)  # type: ignore[no-any-return]


buffer_callback_p: Primitive = Primitive(
    "buffer_callback",
    abstract_eval=_types,
    jvp=_jvp,
    transpose=No.NOT_LINEAR,
    batch=batch_by_method(lambda: buffer_callback_p),
    multiple_results=True,
    effectful=True,
    register=False,
    impl=_run,
)
register_inline(buffer_callback_p, _run)


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: object,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: dict[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable[..., Any]:
    """The function of arrays that calls `callback(context, results, *arguments)` when the program
    runs, which writes into the results' memory: arguments and results are `Buffer`s, and the
    results have the types that `result_shape_dtypes` says.

    `has_side_effect`: the call must not be dropped. `vmap_method` is as for `pure_callback`.
    `input_output_aliases`: arguments whose memory (a copy of it) is that of a result.
    `command_buffer_compatible` is for GPUs. ValueError for other methods.

    >>> from pullback.experimental.buffer_callback import buffer_callback
    >>> def doubled(context, out, x):
    ...     np.asarray(out)[...] = 2 * np.asarray(x)
    >>> buffer_callback(doubled, pb.ShapeDtypeStruct((3,), jnp.float32))(jnp.ones(3))
    Array([2., 2., 2.], dtype=float32)
    """
    check_method(vmap_method)
    avals, out_tree = result_avals_of(result_shape_dtypes)

    def called(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten((args, kwargs))
        outs = buffer_callback_p.bind(
            *map(as_array, leaves),
            callback=callback,
            in_tree=in_tree,
            out_tree=out_tree,
            result_avals=avals,
            has_side_effect=has_side_effect,
            vmap_method=vmap_method,
            input_output_aliases=tuple((input_output_aliases or {}).items()),
            command_buffer_compatible=command_buffer_compatible,
        )
        return tree.unflatten(out_tree, outs)

    return called
