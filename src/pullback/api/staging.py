"""Looking at programs instead of running them: `make_jaxpr`, `eval_shape`; and smaller tools of the
same kind.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..core.build import trace_to_jaxpr
from ..core.jaxpr import eval_jaxpr
from ..core.source import extend_name_stack, take_names
from ..core.trace import Tracer, eval_context, extend_axis_env
from ..core.tracebacks import boundary
from ..runtime.commitment import types_lie
from ..runtime.stub import JitFunction
from . import programs
from .arguments import (
    ShapeDtypeStruct,
    abstractify,
    as_tuple,
    check_callable,
    checked_avals,
    flat_function,
)
from .jit import JitWrapped


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that gives the jaxpr of `fun` for its arguments' types (with `return_shape`, also
    the results' types).

    >>> pb.make_jaxpr(lambda x: jnp.sin(x) + 1)(2.0)
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = add b 1.0:f32[] in (c,) }
    """
    check_callable(fun)
    nums = as_tuple(static_argnums, "static_argnums")

    @take_names(fun)
    @boundary
    def jaxpr_of(*args: Any, **kwargs: Any) -> Any:
        n = len(args)
        fixed = {k % n: args[k] for k in nums if -n <= k < n}

        statics = tuple((k, type(x), x) for k, x in sorted(fixed.items()))
        dynamic = tuple(x for k, x in enumerate(args) if k not in fixed)
        leaves, in_tree = tree.flatten((dynamic, kwargs))
        avals = checked_avals(fun, leaves, args, kwargs)
        with extend_axis_env(axis_env or ()):
            program = programs.traced(fun, args, kwargs, statics, in_tree, avals)
        closed = program.whole
        if not return_shape:
            return closed
        shapes = [
            ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in closed.out_avals
        ]
        return closed, tree.unflatten(program.out_tree, shapes)

    for name in ("__name__", "__qualname__"):
        if hasattr(fun, name):
            setattr(jaxpr_of, name, f"make_jaxpr({getattr(fun, name)})")
    made: Callable[..., Any] = jaxpr_of
    return made


@boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of `fun(*args, **kwargs)`, without computing it. Arguments may be
    ShapeDtypeStructs.

    >>> a, b = pb.ShapeDtypeStruct((2, 3), jnp.float32), pb.ShapeDtypeStruct((3,), jnp.float32)
    >>> pb.eval_shape(jnp.dot, a, b)
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    check_callable(fun)
    slow = fun._slow if isinstance(fun, JitFunction) else None
    if isinstance(slow, JitWrapped):  # it knows which shardings it asks for
        return slow.eval_shape(*args, **kwargs)
    leaves, in_tree = tree.flatten((args, kwargs))
    avals = checked_avals(fun, leaves, args, kwargs)
    program = programs.traced(fun, args, kwargs, (), in_tree, avals)
    jaxpr = program.jaxpr
    return tree.unflatten(
        program.out_tree,
        [
            ShapeDtypeStruct(
                v.aval.shape,
                v.aval.dtype,
                weak_type=v.aval.weak_type,
                sharding=s,
                manual_axis_type=v.aval.manual_axis_type or None,
            )
            for v, s in zip(jaxpr.outvars, types_lie(jaxpr), strict=True)
        ],
    )


def ensure_compile_time_eval() -> Any:
    """`with ensure_compile_time_eval():` operations on known values run at once, even inside a
    traced function.

    >>> @pb.jit
    ... def f(x):
    ...     with pb.ensure_compile_time_eval():
    ...         n = int(jnp.ceil(jnp.sqrt(10.0)))
    ...     return x * n
    >>> f(1)
    Array(4, dtype=int32, weak_type=True)
    """
    return eval_context()


def named_scope(name: str) -> Any:
    """`with named_scope(name):` (or as a decorator) labels the operations made inside.

    >>> @pb.jit
    ... def f(x):
    ...     with pb.named_scope("doubled"):
    ...         return x * 2
    >>> f(3)
    Array(6, dtype=int32, weak_type=True)
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope name argument must be a string, got {type(name)}")
    return extend_name_stack(name)


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """`fun` under `named_scope(name)`.

    >>> double = pb.named_call(lambda x: x * 2, name="double")
    >>> double(3)
    6
    """
    check_callable(fun)
    label = str(name or getattr(fun, "__name__", "function"))

    @functools.wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(label):
            return fun(*args, **kwargs)

    return named


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """(a function of (*args, *consts), consts): `fun` with the traced values that it closes over
    made explicit arguments.

    >>> def slope(a):
    ...     g, consts = pb.closure_convert(lambda x: a * x, 1.0)
    ...     return g(3.0, *consts)
    >>> pb.grad(slope)(2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    leaves, in_tree = tree.flatten(example_args)
    out: dict[str, Any] = {}

    def call(*xs: Any) -> Any:
        return fun(*xs)

    whole = tree.structure((example_args, {}))
    jaxpr, consts = trace_to_jaxpr(
        flat_function(call, whole, out, "closure_convert"), [abstractify(x) for x in leaves]
    )
    is_hoisted = [isinstance(c, Tracer) for c in consts]
    hoisted = [c for c, h in zip(consts, is_hoisted, strict=True) if h]

    def converted(*args_and_consts: Any) -> Any:
        n = len(args_and_consts) - len(hoisted)
        args, given = args_and_consts[:n], iter(args_and_consts[n:])
        flat, args_tree = tree.flatten(tuple(args))
        if args_tree != in_tree:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the same Pytree "
                f"structure as the example arguments: it takes {in_tree}, got {args_tree}."
            )
        values = [next(given) if h else c for c, h in zip(consts, is_hoisted, strict=True)]
        return tree.unflatten(out["tree"], eval_jaxpr(jaxpr, values, *flat))

    return converted, hoisted
