"""`grad`, `vjp`, `jvp` and `linearize`. Jacobians are made of them in jacobians.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, tree
from ..control.common import check_results, leaf_place
from ..core.avals import ShapedArray, typeof
from ..core.build import array_of, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr
from ..core.naming import fun_source_info
from ..core.refs import is_ref, ref_places
from ..core.source import take_names, transformed
from ..core.symbolic import Zero
from ..core.trace import current_trace, use_trace
from ..core.tracebacks import boundary
from ..primitives.common import as_array
from ..primitives.layout import as_varying
from ..runtime.array import ArrayImpl, make_array
from ..transforms.jvp import JVPTrace, jvp_flat
from ..transforms.linearize import linearize_flat
from ..transforms.partial_eval import dce_closed
from . import recording
from .arguments import abstractify, check_callable, debug_info
from .jit import jit
from .linear import VJP, VJPStatic, as_result, linearized, places, transposed


def _flat(
    fun: Callable[..., Any], in_tree: Any, out: dict[str, Any], name: str, has_aux: bool
) -> Callable[..., list[Any]]:
    """`fun` of positional trees as a function of leaves. With `has_aux` the auxiliary leaves follow
    the others.
    """

    def flat(*leaves: Any) -> list[Any]:
        with transformed("jvp"):
            result = fun(*tree.unflatten(in_tree, leaves))
        aux_leaves: list[Any] = []
        if has_aux:
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise TypeError(
                    "expected function with aux output to return a two-element tuple, but got "
                    f"type {type(result)} with value {result!r}. Fix: return (output, aux), or "
                    "leave out has_aux."
                )
            result, aux = result
            aux_leaves, out["aux_tree"] = tree.flatten(aux)
        results, out["tree"] = tree.flatten(result)
        check_results(results, out["tree"], fun, name)
        out["count"] = len(results)
        return [*results, *aux_leaves]

    return flat


@boundary
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Any] = ()
) -> Any:
    """(fun(*primals), vjp function): the vjp function maps a cotangent of the output to a tuple of
    cotangents of the primals.

    With `has_aux`, `fun` returns (output, aux) and aux comes back third.

    `reduce_axes` is JAX's past: NotImplementedError for any.

    >>> y, f_vjp = pb.vjp(jnp.sin, 0.5); f_vjp(1.0)
    (Array(0.87758255, dtype=float32, weak_type=True),)
    """
    _no_reduce_axes(reduce_axes, "vjp")
    return _vjp(fun, primals, has_aux, None)


def _no_reduce_axes(reduce_axes: Any, name: str) -> None:
    if reduce_axes:
        raise NotImplementedError(
            f"reduce_axes argument to {name} is deprecated. Fix: lax.psum(gradient, axis_name)."
        )


def _vjp(
    fun: Callable[..., Any], primals: Any, has_aux: bool, recorded: recording.Recording | None
) -> Any:
    """`vjp`; with `recorded`, the trace in which `fun` has run already (it gives its result)."""
    check_callable(fun)
    leaves, in_tree = tree.flatten(primals)
    for x in leaves:
        _check_input(x, "vjp")
    ref_places(
        leaves,
        lambda: f"{fun_source_info(fun)} for vjp",
        lambda: debug_info("vjp", fun, primals, {}).arg_names,
    )
    given, leaves = leaves, [_as_operand(x) for x in leaves]
    out: dict[str, Any] = {}
    flat = _flat(fun, in_tree, out, "vjp", has_aux)
    if recorded is not None:
        outs, zeros, jaxpr, residuals = recorded.finish(flat(*leaves))
    else:
        outs, zeros, jaxpr, residuals = _linearize_with_aux(flat, leaves, out, has_aux)
    n = out["count"]
    in_avals, out_avals = [typeof(x) for x in leaves], [typeof(x) for x in outs[:n]]
    kept = places(residuals, leaves)
    static = VJPStatic(fun, in_tree, out["tree"], in_avals, out_avals, zeros[:n], jaxpr, kept)
    pullback = VJP(static, residuals)
    given = [as_array(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in given]
    outs = _as_given(outs, leaves, given)
    result = tree.unflatten(out["tree"], outs[:n])
    return (
        (result, pullback, tree.unflatten(out["aux_tree"], outs[n:]))
        if has_aux
        else (result, pullback)
    )


def _linearize_with_aux(flat: Any, leaves: Any, out: dict[str, Any], has_aux: bool) -> Any:
    if not has_aux:
        return linearize_flat(flat, leaves)
    aux: list[Any] = []

    def main(*xs: Any) -> list[Any]:
        results = flat(*xs)
        aux[:] = results[out["count"] :]
        # Auxiliary results that are arrays leave the trace by it; their tangents are dropped.
        kept = [_stop(x) for x in aux if _is_array(x)]
        return [*results[: out["count"]], *kept]

    outs, zeros, jaxpr, residuals = linearize_flat(main, leaves)
    n = out["count"]
    arrays = iter(outs[n:])
    final = [next(arrays) if _is_array(x) else x for x in aux]
    return [*outs[:n], *final], zeros[:n], jaxpr, residuals


def _is_array(x: Any) -> bool:
    try:
        typeof(x)
    except TypeError:
        return False
    return True


def _as_operand(x: Any) -> Any:
    """Numbers are arrays inside a function that is differentiated."""
    return as_array(x) if type(x) in (bool, int, float, complex) else x


def _as_given(outs: Sequence[Any], operands: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """What a function hands on of its operands comes back as it was given: numbers as numbers."""
    numbers = {id(x): number for x, number in zip(operands, given, strict=True) if x is not number}
    return [numbers.get(id(x), x) for x in outs] if numbers else list(outs)


def _stop(x: Any) -> Any:
    """The primal of a value that is being differentiated here; derivatives taken outside go on
    through it.
    """
    trace = current_trace()
    return trace.split(x)[0] if isinstance(trace, JVPTrace) else x


def _check_input(x: Any, name: str) -> None:
    try:
        typeof(x)
    except TypeError:
        raise TypeError(
            f"Argument '{x}' of type {type(x)} is not a valid JAX type. Fix: pass arrays or "
            f"numbers to {name}."
        ) from None


def chosen_argnums(argnums: int | Sequence[int]) -> tuple[tuple[int, ...], bool]:
    if isinstance(argnums, int):
        return (argnums,), True
    try:
        nums = tuple(argnums)
    except TypeError:
        raise TypeError(f"argnums must be an int or a sequence of ints, got {argnums!r}") from None
    if not all(isinstance(k, int) for k in nums):
        raise TypeError(f"argnums must be an int or a sequence of ints, got {argnums!r}")
    return nums, False


def _refuse_repeated(argnums: Any, positions: Sequence[int]) -> None:
    """Two derivatives with respect to one argument: each call has one value of it."""
    if len(set(positions)) != len(positions):
        raise TypeError(
            f"argnums={argnums!r} names an argument twice. Fix: name each argument once."
        )


def of_arguments(
    fun: Any, argnums: Any, args: Any, kwargs: Any, name: str
) -> tuple[Any, tuple[Any, ...], bool]:
    """`fun` of the arguments at `argnums` only; their values; whether there is just one."""
    nums, single = chosen_argnums(argnums)
    n = len(args)
    wrong = next((k for k in nums if not -n <= k < n), None)
    if wrong is not None and (wrong < 0 or name in ("jacfwd", "jacrev")):
        raise ValueError(
            "Positional argument indices, e.g. for `static_argnums`, must have value greater than "
            f"or equal to -len(args) and less than len(args), but got value {wrong} for len(args) "
            f"== {n}. Fix: number the positional arguments of {name} from 0."
        )
    if wrong is not None:
        raise TypeError(
            f"differentiating with respect to argnums={argnums} requires at least "
            f"{max(nums) + 1} positional arguments to be passed by the caller, "
            f"but got only {n} positional arguments. Fix: pass them by position, or lower argnums."
        )
    where = [k % n for k in nums]
    _refuse_repeated(argnums, where)

    def of_chosen(*chosen: Any) -> Any:
        full = list(args)
        for k, x in zip(where, chosen, strict=True):
            full[k] = x
        return fun(*full, **kwargs)

    of_chosen.__wrapped__ = fun  # type: ignore[attr-defined]
    return of_chosen, tuple(args[k] for k in where), single


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """A function that gives (fun(...), gradient with respect to the arguments at `argnums`).

    `fun` must return a real scalar (or, with `has_aux`, a pair of one and anything).

    `holomorphic`: of complex arguments and results; `allow_int`: integer arguments have
    gradients of dtype float0; `reduce_axes` is JAX's past: NotImplementedError for any.

    >>> pb.value_and_grad(lambda x: x ** 2)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))

    Raises TypeError if the output is not a scalar or an input is not inexact.
    """
    _no_reduce_axes(reduce_axes, "value_and_grad")
    return _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "value_and_grad")


def _value_and_grad(
    fun: Any, argnums: Any, has_aux: bool, holomorphic: bool, allow_int: bool, name: str
) -> Callable[..., Any]:
    check_callable(fun)
    nums, single = chosen_argnums(argnums)

    @named_derivative(fun, "Value of {}, and its gradient", argnums)
    def value_and_grad_f(*args: Any, **kwargs: Any) -> Any:
        trace = None if has_aux or holomorphic else recording.start()
        inputs = _recorded_inputs(trace, args, nums) if trace is not None else None
        if trace is not None and inputs is not None:
            result = _run_recorded(trace, fun, inputs[0], kwargs)
            program = recording.known(trace, result, _compiled_gradient)
            if program is not None:
                primals, constants = [x._primal for x in trace.inputs], trace.constants
                trace.invalidate()
                value, cotangents = program(primals, constants)
                return value, inputs[1](cotangents, single)
            chosen = tuple(args[k] for k in nums)
            value, pull = _vjp(lambda *_: result, chosen, False, trace)
        else:
            of_chosen, chosen, _ = of_arguments(fun, argnums, args, kwargs, name)
            check_grad_inputs(chosen, holomorphic, allow_int, name)
            if has_aux:
                value, pull, aux = vjp(of_chosen, *chosen, has_aux=True)
            else:
                value, pull = vjp(of_chosen, *chosen)
        _check_scalar(value, name)
        aval = typeof(value)
        _check_grad_output(aval, holomorphic, name)
        grads = pull(_one(aval))
        result = grads[0] if single else grads
        return ((value, aux), result) if has_aux else (value, result)

    return value_and_grad_f


def _compiled_gradient(fun: Callable[..., Any]) -> Any:
    return jit(_value_and_grad(fun, 0, False, False, False, "grad"))


def _is_recordable(x: Any) -> bool:
    return type(x) is ArrayImpl and not x._state & 3 and x.aval.dtype.kind == "f"


def _recorded_inputs(trace: recording.Recording, args: Any, nums: Sequence[int]) -> Any:
    """The arguments with values to be written down in the place of those that are differentiated,
    and how gradients are arranged; None if these arguments are not for it."""
    n = len(args)
    full = list(args)
    trees: list[Any] = []
    for k in nums:
        if not -n <= k < n:
            return None
        x = full[k]
        if _is_recordable(x):
            full[k] = trace.input(x)
            trees.append(None)
            continue
        leaves, structure = tree.flatten(x)
        if not leaves or not all(map(_is_recordable, leaves)):
            return None
        full[k] = tree.unflatten(structure, [trace.input(leaf) for leaf in leaves])
        trees.append(structure)

    def arranged(cotangents: list[Any], single: bool) -> Any:
        if trees == [None]:
            return cotangents[0] if single else (cotangents[0],)
        rest = iter(cotangents)

        def take(t: Any) -> Any:
            return tree.unflatten(t, [next(rest) for _ in range(t.num_leaves)])

        grads = [next(rest) if t is None else take(t) for t in trees]
        return grads[0] if single else tuple(grads)

    return full, arranged


def _run_recorded(trace: recording.Recording, fun: Any, args: Any, kwargs: Any) -> Any:
    try:
        with use_trace(trace):
            return fun(*args, **kwargs)
    except BaseException:
        trace.invalidate()
        raise


def _one(aval: Any) -> Any:
    # A weakly typed one keeps the gradient's type as weak as the function's.
    one = np.ones((), aval.dtype)
    made = array_of(one, lambda x: make_array(x, ShapedArray((), aval.dtype, aval.weak_type)))
    return as_varying(made, aval)


def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(forward, backward) of `fun`: `forward(*args)` gives (output, residuals) (with `has_aux`,
    (output, residuals, aux)), `backward(residuals, cotangent)` the cotangents of the arguments at
    `argnums`. Both are jitted unless told otherwise.

    >>> fwd, bwd = pb.fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> out, res = fwd(2.0, 3.0)
    >>> bwd(res, 1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_callable(fun)

    def forward(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen, _ = of_arguments(fun, argnums, args, kwargs, "fwd_and_bwd")
        return vjp(of_chosen, *chosen, has_aux=has_aux)

    def backward(residuals: VJP, ct: Any) -> Any:
        cts = residuals(ct)
        return cts[0] if isinstance(argnums, int) else cts

    return (jit(forward), jit(backward)) if jitted else (forward, backward)


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """The gradient of a function of arrays that returns a scalar. See `value_and_grad`.

    `fun`: gives a number, with `has_aux` a pair of it and anything; `argnums`: which
    arguments, an int or several; `holomorphic`: of complex arguments and results;
    `allow_int`: integer arguments have gradients of dtype float0; `reduce_axes` is JAX's
    past: NotImplementedError for any.

    >>> pb.grad(jnp.tanh)(0.2)
    Array(0.961043, dtype=float32, weak_type=True)
    """
    _no_reduce_axes(reduce_axes, "grad")
    both = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "grad")

    @named_derivative(fun, "Gradient of {}", argnums)
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        value, g = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return grad_f


def named_derivative(
    fun: Any, what: str, argnums: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a derivative of a function the function's names, and says what it is."""
    many = "" if isinstance(argnums, int) else "s"
    about = f"{what} with respect to positional argument{many} {argnums}."
    named = take_names(fun, about=about)
    return lambda wrapped: named(boundary(wrapped))


def _check_scalar(x: Any, name: str) -> None:
    message = "Gradient only defined for scalar-output functions. Output "
    try:
        aval = typeof(x)
    except TypeError:
        raise TypeError(
            f"{message}was {x}. Fix: return one number, such as a sum or a mean; return other "
            "values with has_aux=True."
        ) from None
    if not isinstance(aval, ShapedArray) or aval.shape != ():
        raise TypeError(
            f"{message}had shape: {aval.shape}. Fix: reduce it, such as with .sum() or .mean(), or "
            "use jacrev."
        )


def check_grad_inputs(chosen: Any, holomorphic: bool, allow_int: bool, name: str) -> None:
    """TypeError, with its path, for a leaf that there is no gradient with respect to."""
    leaves, structure = tree.flatten(chosen)
    for k, x in enumerate(leaves):
        try:
            _check_grad_input(x, holomorphic, allow_int, name)
        except TypeError as e:
            where = leaf_place(structure, k, "what is differentiated, ") if len(leaves) > 1 else ""
            raise TypeError(f"{e}{where}") from None


def _check_grad_input(x: Any, holomorphic: bool, allow_int: bool, name: str) -> None:
    if is_ref(x):
        raise ValueError(
            f"{name} cannot differentiate with respect to a mutable array reference "
            f"({typeof(x)}). Fix: take its value as the argument, and make the reference inside "
            "with new_ref."
        )
    try:
        aval = typeof(x)
    except TypeError:
        raise TypeError(
            f"Argument '{x}' of type {type(x)} is not a valid JAX type. Fix: pass {name} arrays or "
            "floats to differentiate with respect to, and name them in argnums."
        ) from None
    if aval.is_high:  # a library's own type says itself what its tangents are
        return
    dtype = aval.dtype
    if holomorphic and not dtypes.is_complex(dtype):
        raise TypeError(
            f"{name} with holomorphic=True requires inputs with complex dtype, but got "
            f"{dtype_name(dtype)}."
        )
    if dtypes.is_extended(dtype) or dtypes.is_integer(dtype) or dtypes.is_bool(dtype):
        if not allow_int:
            raise TypeError(
                f"{name} requires real- or complex-valued inputs (input dtype that is a sub-dtype "
                f"of np.inexact), but got {dtype_name(dtype)}. "
                "If you want to use Boolean- or integer-valued inputs, use vjp or set allow_int to "
                "True."
            )
    elif not dtypes.is_inexact(dtype):
        raise TypeError(
            f"{name} requires numerical-valued inputs (input dtype that is a sub-dtype of np.bool_ "
            f"or np.number), but got {dtype_name(dtype)}."
        )


def dtype_name(d: Any) -> str:
    return getattr(d, "name", str(d))


def _check_grad_output(aval: Any, holomorphic: bool, name: str) -> None:
    d = aval.dtype
    if holomorphic:
        if not dtypes.is_complex(d):
            raise TypeError(
                f"{name} with holomorphic=True requires outputs with complex dtype, but got "
                f"{dtype_name(d)}."
            )
    elif dtypes.is_complex(d):
        raise TypeError(
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {dtype_name(d)}. "
            "For holomorphic differentiation, pass holomorphic=True. For differentiation of "
            "non-holomorphic functions involving complex outputs, use jax.vjp directly."
        )
    elif not dtypes.is_float(d):
        raise TypeError(
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {dtype_name(d)}. "
            "For differentiation of functions with integer outputs, use jax.vjp directly."
        )


@boundary
def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """(fun(*primals), its directional derivative along `tangents`). With `has_aux`, aux comes
    third.

    >>> pb.jvp(jnp.sin, (0.1,), (0.2,))
    (Array(0.09983342, dtype=float32, weak_type=True), Array(0.19900084, dtype=float32,
    weak_type=True))

    Raises TypeError unless primals and tangents are tuples or lists of matching structure and
    dtypes.
    """
    check_callable(fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must be tuples or lists; found "
            f"{type(primals).__name__} and {type(tangents).__name__}."
        )
    leaves, in_tree = tree.flatten(tuple(primals))
    dots, _ = tree.flatten(tuple(tangents))
    primal_tree, dot_tree = tree.structure(primals), tree.structure(tangents)
    if primal_tree != dot_tree:
        raise TypeError(
            "primal and tangent arguments to jax.jvp must have the same tree structure; primals "
            f"have tree structure {primal_tree} whereas tangents have tree structure {dot_tree}."
        )
    for k, (x, t) in enumerate(zip(leaves, dots, strict=True)):
        try:
            _check_tangent(x, t)
        except (TypeError, ValueError) as e:
            where = leaf_place(in_tree, k, "the primals") if len(leaves) > 1 else ""
            raise type(e)(f"{e}{where}") from None
    given, leaves = leaves, [_as_operand(x) for x in leaves]
    dots = [
        Zero.from_primal_value(x) if getattr(t, "dtype", None) == dtypes.float0 else t
        for x, t in zip(leaves, dots, strict=True)
    ]
    out: dict[str, Any] = {}
    flat = _flat(fun, in_tree, out, "jvp", has_aux)
    aux: list[Any] = []

    def main(*xs: Any) -> list[Any]:
        results = flat(*xs)
        aux[:] = [_stop(x) for x in results[out["count"] :]]
        return results[: out["count"]]

    outs, out_dots = jvp_flat(main, leaves, dots)
    outs, aux = _as_given(outs, leaves, given), _as_given(aux, leaves, given)
    pair = (
        tree.unflatten(out["tree"], outs),
        tree.unflatten(out["tree"], [as_result(t) for t in out_dots]),
    )
    return (*pair, tree.unflatten(out["aux_tree"], aux)) if has_aux else pair


def _check_tangent(x: Any, t: Any) -> None:
    want, have = typeof(x).to_tangent_aval(), typeof(t)
    if want.is_high or have.is_high:
        if want != have:
            raise TypeError(
                "primal and tangent arguments to jax.jvp do not match: a primal value of type "
                f"{typeof(x)} has tangents of type {want}, but got one of type {have}. Fix: pass "
                "a tangent of that type."
            )
        return
    if want.dtype != have.dtype:
        raise TypeError(
            "primal and tangent arguments to jax.jvp do not match; dtypes must be equal, or in "
            "case of int/bool primal dtype the tangent dtype must be float0."
            f"Got primal dtype {dtype_name(typeof(x).dtype)} and so expected tangent dtype "
            f"{'float0' if want.dtype == dtypes.float0 else want.dtype.name}, but got tangent "
            f"dtype {dtype_name(have.dtype)} instead."
        )
    if want.shape != have.shape:
        raise ValueError(
            "jvp called with different primal and tangent shapes;"
            f"Got primal shape {want.shape} and tangent shape as {have.shape}. "
            "Fix: a tangent must have its primal's shape."
        )


@boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(fun(*primals), the linear function of tangents at that point). With `has_aux`, aux comes
    third.

    >>> y, f_jvp = pb.linearize(jnp.sin, 0.5); f_jvp(1.0)
    Array(0.87758255, dtype=float32, weak_type=True)
    """
    check_callable(fun)
    leaves, in_tree = tree.flatten(primals)
    for x in leaves:
        _check_input(x, "linearize")
    given, leaves = leaves, [_as_operand(x) for x in leaves]
    out: dict[str, Any] = {}
    flat = _flat(fun, in_tree, out, "linearize", has_aux)
    outs, zeros, jaxpr, residuals = _linearize_with_aux(flat, leaves, out, has_aux)
    outs = _as_given(outs, leaves, given)
    n = out["count"]
    program, _ = dce_closed(ClosedJaxpr(jaxpr, residuals), [True] * len(jaxpr.outvars), True)
    in_avals = [typeof(x) for x in leaves]
    refs = [is_ref(x) for x in outs[:n]]
    linear = linearized(program, in_tree, in_avals, out["tree"], zeros[:n], refs)
    result = tree.unflatten(out["tree"], outs[:n])
    return (
        (result, linear, tree.unflatten(out["aux_tree"], outs[n:])) if has_aux else (result, linear)
    )


@boundary
def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()
) -> Callable[..., Any]:
    """The transpose of a function that is promised to be linear. `primals` (arrays or
    ShapeDtypeStructs) give its argument types.

    >>> pb.linear_transpose(lambda x: 2 * x, 1.0)(3.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun)
    _no_reduce_axes(reduce_axes, "linear_transpose")
    leaves, in_tree = tree.flatten(primals)
    avals = [abstractify(x) for x in leaves]
    out: dict[str, Any] = {}
    jaxpr, consts = trace_to_jaxpr(_flat(fun, in_tree, out, "linear_transpose", False), avals)
    kinds, out_kinds = [a.dtype for a in avals], [v.aval.dtype for v in jaxpr.outvars]
    if not any(
        all(map(fits, kinds + out_kinds)) for fits in (dtypes.is_inexact, dtypes.is_integer)
    ):
        raise TypeError(
            "linear_transpose only supports [float or complex] -> [float or complex], and "
            f"integer -> integer functions, but got {kinds} -> {out_kinds}. "
            "Fix: convert with .astype('float32')."
        )

    return transposed(fun, jaxpr, consts, in_tree, avals, out["tree"])


__all__ = [
    "grad",
    "jvp",
    "linear_transpose",
    "linearize",
    "value_and_grad",
    "vjp",
]
