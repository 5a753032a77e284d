"""Functions of dense arrays applied to sparse ones (`sparsify`), and derivatives with respect to
sparse arrays, which are sparse at the same places.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ... import lax, tree
from ... import numpy as jnp
from ...api.derivatives import jacfwd as dense_jacfwd
from ...api.derivatives import jacrev as dense_jacrev
from ...api.derivatives import value_and_grad as dense_value_and_grad
from ...control.call import jit_p
from ...core.avals import typeof
from ...core.build import trace_to_jaxpr
from ...core.jaxpr import ClosedJaxpr, Literal
from ...core.trace import Trace, Tracer, current_trace, use_trace
from .base import JAXSparse
from .bcoo import (
    BCOO,
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_transpose,
)
from .bcsr import BCSR, bcsr_broadcast_in_dim, bcsr_concatenate

_is_sparse = functools.partial(lambda x: isinstance(x, JAXSparse))

# --- sparsify ---
# Operations that act on the stored elements alone: f(0) = 0, and one element makes one element.
_POINTWISE = frozenset(
    "abs asin asinh atan atanh cbrt ceil convert_element_type copy copy_p erf expm1 floor imag "
    "is_finite log1p neg real round sign sin sinh sqrt square tan tanh".split()
) - {"is_finite"}
# Of these only linear ones may act on places that are stored twice.
_LINEAR = frozenset("neg convert_element_type copy copy_p real imag".split())

_rules: dict[str, Callable[..., Any]] = {}


def _rule(*names: str) -> Callable[[Any], Any]:
    def add(f: Any) -> Any:
        for n in names:
            _rules[n] = f
        return f

    return add


def _bcoo(x: Any) -> Any:
    return x.to_bcoo() if hasattr(x, "to_bcoo") else x


def _unique(x: Any) -> Any:
    """An array that stores each place once; whoever makes a BCSR array sees to that."""
    return (
        x
        if isinstance(x, BCSR) or x.unique_indices
        else x.sum_duplicates(nse=x.nse if x.n_batch else None)
    )


@_rule("add", "add_any")
def _add(x: Any, y: Any, **_: Any) -> Any:
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        same = x.indices is y.indices and x.data.shape == y.data.shape
        return x._with_data(x.data + y.data) if same else x + y
    dense, sparse = (y, x) if isinstance(x, BCOO) else (x, y)
    if jnp.shape(dense) != sparse.shape:
        raise NotImplementedError(
            "Addition between a sparse array X and a dense array Y is not implemented when the "
            "output shape is larger than Y.shape. This is to prevent silent densification of a "
            f"large sparse array; got X.shape={sparse.shape}, Y.shape={jnp.shape(dense)}. Fix: "
            "convert X with todense()."
        )
    return dense + sparse.todense()


@_rule("sub")
def _sub(x: Any, y: Any, **_: Any) -> Any:
    return _add(x, -y)


@_rule("mul")
def _mul(x: Any, y: Any, **_: Any) -> Any:
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        return bcoo_multiply_sparse(x, y)
    x, y = (x, y) if isinstance(x, BCOO) else (y, x)
    return x._with_data(bcoo_multiply_dense(x, y))


@_rule("div")
def _div(x: Any, y: Any, **_: Any) -> Any:
    if isinstance(y, BCOO):
        raise NotImplementedError("sparsify: division by a sparse array")
    return x._with_data(bcoo_multiply_dense(x, 1 / y))


@_rule("integer_pow")
def _integer_pow(x: Any, *, y: int) -> Any:
    if y < 1:
        raise NotImplementedError("sparsify: integer_pow with a power below 1 of a sparse array")
    x = x if y == 1 else _unique(x)
    return x._with_data(lax.integer_pow(x.data, y))


@_rule("dot_general")
def _dot(
    x: Any, y: Any, *, dimension_numbers: Any, preferred_element_type: Any = None, **_: Any
) -> Any:
    return bcoo_dot_general(
        x, y, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type
    )


@_rule("transpose")
def _transpose(x: Any, *, permutation: Any) -> Any:
    try:
        return bcoo_transpose(x, permutation=permutation)
    except NotImplementedError:
        return bcoo_transpose(x.update_layout(n_batch=0, n_dense=0), permutation=permutation)


@_rule("reduce_sum")
def _reduce_sum(x: Any, *, axes: Any, **_: Any) -> Any:
    out = bcoo_reduce_sum(x, axes=axes)
    return out if out.ndim else out.todense()


@_rule("broadcast_in_dim")
def _broadcast(x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    return bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=broadcast_dimensions)


@_rule("reshape")
def _reshape(x: Any, *, new_sizes: Any, dimensions: Any = None, **_: Any) -> Any:
    return bcoo_reshape(x, new_sizes=new_sizes, dimensions=dimensions)


@_rule("squeeze")
def _squeeze(x: Any, *, dimensions: Any) -> Any:
    return bcoo_squeeze(x, dimensions=dimensions)


@_rule("slice")
def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    return bcoo_slice(x, start_indices=start_indices, limit_indices=limit_indices, strides=strides)


@_rule("dynamic_slice")
def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Any) -> Any:
    return bcoo_dynamic_slice(x, starts, slice_sizes)


@_rule("gather")
def _gather(
    x: Any, starts: Any, *, dimension_numbers: Any, slice_sizes: Any, mode: Any = None, **_: Any
) -> Any:
    return bcoo_gather(x, starts, dimension_numbers, slice_sizes, mode=mode)


@_rule("conv_general_dilated")
def _conv(x: Any, y: Any, *, dimension_numbers: Any, **params: Any) -> Any:
    params.pop("precision", None)
    return bcoo_conv_general_dilated(x, y, dimension_numbers=dimension_numbers, **params)


@_rule("rev")
def _rev(x: Any, *, dimensions: Any) -> Any:
    return bcoo_rev(x, dimensions)


@_rule("concatenate")
def _concatenate(*xs: Any, dimension: int) -> Any:
    xs = tuple(x if isinstance(x, BCOO) else BCOO.fromdense(x) for x in xs)
    return bcoo_concatenate(xs, dimension=dimension)


@_rule("stack")
def _stack(*xs: Any, axis: int) -> Any:
    kept = tuple(k if k < axis else k + 1 for k in range(xs[0].ndim))
    shape = (*xs[0].shape[:axis], 1, *xs[0].shape[axis:])
    xs = tuple(x if isinstance(x, BCOO) else BCOO.fromdense(x) for x in xs)
    wide = [bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=kept) for x in xs]
    return bcoo_concatenate(wide, dimension=axis)


# What keeps arrays by rows as they are; everything else makes BCOO arrays of them.
_BY_ROWS: dict[str, Callable[..., Any]] = {
    "concatenate": lambda *xs, dimension: bcsr_concatenate(xs, dimension=dimension),
    "broadcast_in_dim": lambda x, *, shape, broadcast_dimensions, **_: bcsr_broadcast_in_dim(
        x, shape=shape, broadcast_dimensions=broadcast_dimensions
    ),
}


def _run(closed: Any) -> Callable[..., list[Any]]:
    return lambda *args: _evaluate(closed, args)


def _cond(args: list[Any], *, branches: Any, **_: Any) -> list[Any]:
    index, *operands = args
    return list(lax.switch(index, [_run(b) for b in branches], *operands))


def _while(
    args: list[Any],
    *,
    cond_jaxpr: Any,
    body_jaxpr: Any,
    cond_nconsts: int,
    body_nconsts: int,
    **_: Any,
) -> list[Any]:
    end = cond_nconsts + body_nconsts
    cond_consts, body_consts, init = args[:cond_nconsts], args[cond_nconsts:end], args[end:]
    return list(
        lax.while_loop(
            lambda c: _evaluate(cond_jaxpr, [*cond_consts, *c])[0],
            lambda c: _evaluate(body_jaxpr, [*body_consts, *c]),
            list(init),
        )
    )


def _scan(
    args: list[Any],
    *,
    jaxpr: Any,
    num_consts: int,
    num_carry: int,
    length: int,
    reverse: bool,
    unroll: Any,
    **_: Any,
) -> list[Any]:
    end = num_consts + num_carry
    consts, init, xs = args[:num_consts], args[num_consts:end], args[end:]
    if any(map(_is_sparse, xs)):
        raise NotImplementedError(
            "sparsify: scan along an axis of a sparse array. Fix: call todense() before it."
        )

    def body(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        outs = _evaluate(jaxpr, [*consts, *carry, *x])
        return outs[:num_carry], outs[num_carry:]

    carry, ys = lax.scan(body, list(init), list(xs), length=length, reverse=reverse, unroll=unroll)
    return [*carry, *ys]


# Loops and branches: what they hold is made sparse, too; sparse arrays are carried as pytrees.
_HOLDERS: dict[str, Callable[..., list[Any]]] = {"cond": _cond, "while": _while, "scan": _scan}


def _apply(p: Any, params: dict[str, Any], args: list[Any]) -> list[Any]:
    """The results of a primitive, some of whose operands are sparse."""
    name = p.name
    if not any(map(_is_sparse, args)):
        out = p.bind(*args, **params)
        return list(out) if p.multiple_results else [out]
    if p is jit_p or "call_jaxpr" in params:
        inner: Any = params.get("jaxpr", params.get("call_jaxpr"))
        closed = inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())
        return _evaluate(closed, args)
    if name in _HOLDERS:
        return _HOLDERS[name](args, **params)
    if name in _POINTWISE:
        (x,) = args
        x = x if name in _LINEAR else _unique(x)
        return [x._with_data(p.bind(x.data, **params))]
    if name in _BY_ROWS and all(isinstance(x, BCSR) for x in args):
        return [_BY_ROWS[name](*args, **params)]
    args = [_bcoo(x) for x in args]
    rule = _rules.get(name)
    if rule is None:
        raise NotImplementedError(
            f"sparsify: no rule for {name} of sparse arrays. Fix: call todense() before it."
        )
    return [rule(*args, **params)]


def _evaluate(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    jaxpr = closed.jaxpr
    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))

    def read(v: Any) -> Any:
        return v.val if isinstance(v, Literal) else env[v]

    for eqn in jaxpr.eqns:
        outs = _apply(eqn.primitive, eqn.params, [read(v) for v in eqn.invars])
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(v) for v in jaxpr.outvars]


class SparseTracer(Tracer):
    """A value, dense or sparse, in a function under `sparsify(f, use_tracer=True)`.

    >>> from pullback.experimental import sparse
    >>> kinds = []
    >>> f = sparse.sparsify(lambda m: kinds.append(type(m)) or 2 * m, use_tracer=True)
    >>> f(sparse.BCOO.fromdense(jnp.eye(2))), kinds[0] is sparse.SparseTracer
    (BCOO(float32[2, 2], nse=2), True)
    """

    __slots__ = ("_spvalue",)

    def __init__(self, trace: Trace, *, spvalue: Any) -> None:
        super().__init__(trace)
        self._spvalue = spvalue

    @property
    def aval(self) -> Any:
        return self._spvalue.aval if _is_sparse(self._spvalue) else typeof(self._spvalue)

    def __repr__(self) -> str:
        return f"SparseTracer<{self.aval.str_short()}>"


class _SparseTrace(Trace):
    """Runs a function, the operations of sparse values being those on what is stored."""

    __slots__ = ()

    def value(self, x: Any) -> Any:
        return x._spvalue if isinstance(x, SparseTracer) and x._trace is self else x

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        with use_trace(self.parent_trace):  # type: ignore[arg-type]
            outs = _apply(primitive, params, [self.value(x) for x in tracers])
        outs = [SparseTracer(self, spvalue=x) for x in outs]
        return outs if primitive.multiple_results else outs[0]

    # Derivatives are of the function with sparse operations: the rules see nothing of them.
    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool
    ) -> Any:
        with use_trace(self):
            return fun(*tracers)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, **options: Any
    ) -> Any:
        with use_trace(self):
            return fun(*tracers)


def _traced(
    f: Callable[..., Any], structure: Any, leaves: list[Any], dynamic: Sequence[int]
) -> Any:
    """f of the leaves, those at the places `dynamic` being tracers."""
    trace = _SparseTrace(current_trace())
    full = list(leaves)
    for k in dynamic:
        full[k] = SparseTracer(trace, spvalue=leaves[k])
    try:
        with use_trace(trace):
            args, kwargs = tree.unflatten(structure, full)
            outs = f(*args, **kwargs)
        return tree.map(lambda x: trace.value(x) if isinstance(x, Tracer) else jnp.asarray(x), outs)
    finally:
        trace.invalidate()


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """`f`, written for dense arrays, on sparse ones: its operations act on what is stored. With
    `use_tracer` it runs on SparseTracers, without it is traced as a whole first.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.eye(3))
    >>> sparse.sparsify(lambda m, x: (2 * m.T) @ x)(m, jnp.ones(3))
    Array([2., 2., 2.], dtype=float32)

    Raises NotImplementedError for an operation that has no sparse form.
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs), is_leaf=_is_sparse)
        for x in leaves:
            if _is_sparse(x) and not isinstance(x, BCOO | BCSR):
                raise NotImplementedError(
                    f"sparsify: no rules for {type(x).__name__} arrays. Fix: use BCOO or BCSR."
                )
        dynamic = [k for k, x in enumerate(leaves) if _is_sparse(x) or hasattr(x, "dtype")]
        if use_tracer:
            return _traced(f, structure, leaves, dynamic)
        avals = [x.aval if _is_sparse(x) else typeof(x) for x in (leaves[k] for k in dynamic)]
        store: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            full = list(leaves)
            for k, v in zip(dynamic, values, strict=True):
                full[k] = v
            a, kw = tree.unflatten(structure, full)
            outs, out_tree = tree.flatten(f(*a, **kw), is_leaf=_is_sparse)
            store.append(out_tree)
            return [x if isinstance(x, Tracer) else jnp.asarray(x) for x in outs]

        jaxpr, consts = trace_to_jaxpr(flat, avals)
        outs = _evaluate(ClosedJaxpr(jaxpr, consts), [leaves[k] for k in dynamic])
        return tree.unflatten(store[-1], outs)

    return wrapped


# --- derivatives ---
def _on_data(
    fun: Callable[..., Any], argnums: Any, args: Sequence[Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], list[Any]]:
    """(the function of the data of its sparse arguments, those arguments' data, the arguments)."""
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    chosen = [args[k] for k in nums]

    def inner(*data: Any, **kwargs: Any) -> Any:
        full = list(args)
        for k, x, d in zip(nums, chosen, data, strict=True):
            full[k] = _with(x, d)
        return fun(*full, **kwargs)

    return inner, tuple(_data(x) for x in chosen), chosen


def _data(x: Any) -> Any:
    return tree.map(lambda v: v.data if _is_sparse(v) else v, x, is_leaf=_is_sparse)


def _with(x: Any, data: Any) -> Any:
    return tree.map(
        lambda v, d: v._with_data(d) if _is_sparse(v) else d, x, data, is_leaf=_is_sparse
    )


def value_and_grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., tuple[Any, Any]]:
    """`value_and_grad`; gradients with respect to sparse arrays are sparse at the same places.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([2., 0.]))
    >>> value, slope = sparse.value_and_grad(lambda m: (m * m).sum())(m)
    >>> value, slope.data
    (Array(4., dtype=float32), Array([4.], dtype=float32))
    """

    @functools.wraps(fun)
    def wrapped(*args: Any, **kw: Any) -> tuple[Any, Any]:
        inner, data, chosen = _on_data(fun, argnums, args)
        count = tuple(range(len(data)))
        value, grads = dense_value_and_grad(inner, count, has_aux=has_aux, **kwargs)(*data, **kw)
        out = tuple(_with(x, g) for x, g in zip(chosen, grads, strict=True))
        return value, out[0] if isinstance(argnums, int) else out

    return wrapped


def grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`grad`; gradients with respect to sparse arrays are sparse at the same places.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.eye(2))
    >>> sparse.grad(lambda m: (m @ jnp.ones(2)).sum())(m).data
    Array([1., 1.], dtype=float32)
    """
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kw: Any) -> Any:
        value, grads = both(*args, **kw)
        return (grads, value[1]) if has_aux else grads

    return wrapped


def _jacobian(dense: Any, fun: Any, argnums: Any, has_aux: bool, kwargs: Any) -> Any:
    @functools.wraps(fun)
    def wrapped(*args: Any, **kw: Any) -> Any:
        inner, data, chosen = _on_data(fun, argnums, args)
        jac = dense(inner, tuple(range(len(data))), has_aux=has_aux, **kwargs)(*data, **kw)
        jac, aux = jac if has_aux else (jac, None)
        out = tuple(_jacobian_of(x, j) for x, j in zip(chosen, jac, strict=True))
        result = out[0] if isinstance(argnums, int) else out
        return (result, aux) if has_aux else result

    return wrapped


def _jacobian_of(x: Any, jac: Any) -> Any:
    """The derivatives by the data, (*out, nse), as an array that is sparse in the last axes."""
    if not isinstance(x, BCOO | BCSR):
        return jac
    if x.n_batch or x.n_dense:
        raise NotImplementedError("Jacobians by arrays with batch or dense axes")
    lead = (1,) * (jac.ndim - 1)
    shape = (*jac.shape[:-1], *x.shape)
    places = [jnp.broadcast_to(part, (*lead, *part.shape)) for part in x.tree_flatten()[0][1:]]
    return (
        BCOO((jac, *places), shape=shape)
        if isinstance(x, BCOO)
        else BCSR((jac, *places), shape=shape)
    )


def jacfwd(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`jacfwd`, sparse where the argument is.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([2., 0.]))
    >>> sparse.jacfwd(lambda m: (m * 3.).sum())(m).todense()
    Array([3., 0.], dtype=float32)
    """
    return _jacobian(dense_jacfwd, fun, argnums, has_aux, kwargs)  # type: ignore[no-any-return]


def jacrev(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`jacrev`, sparse where the argument is.

    Also called `jacrev`.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([2., 0.]))
    >>> sparse.jacobian(lambda m: (m * 3.).sum())(m).todense()
    Array([3., 0.], dtype=float32)
    """
    return _jacobian(dense_jacrev, fun, argnums, has_aux, kwargs)  # type: ignore[no-any-return]


jacobian = jacrev
