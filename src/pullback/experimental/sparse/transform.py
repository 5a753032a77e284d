"""Functions of dense arrays applied to sparse ones: `sparsify`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ... import lax, numpy as jnp, tree
from ...control.call import jit_p
from ...control.while_loop import one_predicate
from ...core.avals import typeof
from ...core.build import trace_to_jaxpr
from ...core.jaxpr import ClosedJaxpr, Literal
from ...core.trace import Trace, Tracer, current_trace, use_trace
from ...extend import linear_util as lu
from .api import todense_p
from .base import is_sparse, no_quotient, no_rule
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
from .bcoo.arithmetic import add_dense
from .bcsr import BCSR, bcsr_broadcast_in_dim, bcsr_concatenate
from .spvalues import (
    SparsifyEnv,
    SparsifyValue,
    arrays_to_spvalues,
    is_spvalue,
    spvalues_to_arrays,
    spvalues_to_avals,
)

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
    return add_dense(sparse, dense)


@_rule("sub")
def _sub(x: Any, y: Any, **_: Any) -> Any:
    return _add(x, -y)


@_rule("mul")
def _mul(x: Any, y: Any, **_: Any) -> Any:
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        if x.indices is y.indices and x.data.ndim == y.data.ndim and x.unique_indices:
            return x._with_data(x.data * y.data)
        return bcoo_multiply_sparse(x, y)
    x, y = (x, y) if isinstance(x, BCOO) else (y, x)
    return x._with_data(bcoo_multiply_dense(x, y))


@_rule("div")
def _div(x: Any, y: Any, **_: Any) -> Any:
    if isinstance(y, BCOO):
        raise no_quotient()
    return x._with_data(bcoo_multiply_dense(x, 1 / y))


@_rule("integer_pow")
def _integer_pow(x: Any, *, y: int) -> Any:
    if y < 1:
        raise NotImplementedError(
            f"sparsify: integer_pow with the power {y}, which is below 1, of a sparse array. Fix: "
            "call todense() before it."
        )
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


def _alike(xs: Sequence[Any]) -> list[BCOO]:
    """Sparse and dense arrays as sparse ones of one layout."""
    first = next(x for x in xs if isinstance(x, BCOO))
    axes = {"n_batch": first.n_batch, "n_dense": first.n_dense}
    mats = [x if isinstance(x, BCOO) else BCOO.fromdense(x, **axes) for x in xs]
    if any((x.n_batch, x.n_dense) != tuple(axes.values()) for x in mats):
        mats = [x.update_layout(n_batch=0, n_dense=0) for x in mats]
    return mats


@_rule("concatenate")
def _concatenate(*xs: Any, dimension: int) -> Any:
    mats = _alike(xs)
    return bcoo_concatenate(mats, dimension=dimension)


@_rule("stack")
def _stack(*xs: Any, axis: int) -> Any:
    kept = tuple(k if k < axis else k + 1 for k in range(xs[0].ndim))
    shape = (*xs[0].shape[:axis], 1, *xs[0].shape[axis:])
    mats = _alike(xs)
    wide = [bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=kept) for x in mats]
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


def _while(args: list[Any], **params: Any) -> list[Any]:
    args, params = one_predicate(args, params)
    cond, body, start = params["cond_jaxpr"], params["body_jaxpr"], params["cond_nconsts"]
    end = start + params["body_nconsts"]
    cond_consts, body_consts, init = args[:start], args[start:end], args[end:]
    return list(
        lax.while_loop(
            lambda c: _evaluate(cond, [*cond_consts, *c])[0],
            lambda c: _evaluate(body, [*body_consts, *c]),
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
    if any(map(is_sparse, xs)):
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


class _OwnRule:
    """A rule of ours as those are called that users put beside it."""

    def __init__(self, primitive: Any) -> None:
        self.primitive = primitive

    def __call__(
        self, spenv: SparsifyEnv, *spvalues: SparsifyValue, **params: Any
    ) -> tuple[SparsifyValue, ...]:
        args = list(spvalues_to_arrays(spenv, spvalues))
        return tuple(arrays_to_spvalues(spenv, _by_own_rule(self.primitive, params, args)))


def _own_rules(names: Iterable[str]) -> dict[Any, Callable[..., Any]]:
    found: list[Any] = [jit_p, todense_p]
    found += [p for n in sorted(names) if (p := getattr(lax, n.removesuffix("_p") + "_p", None))]
    return {p: _OwnRule(p) for p in found}


def _apply(p: Any, params: dict[str, Any], args: list[Any]) -> list[Any]:
    """The results of a primitive, whose operands may be sparse."""
    if not any(map(is_sparse, args)):
        out = p.bind(*args, **params)
        return list(out) if p.multiple_results else [out]
    rules = sparse_rules_bcsr if any(isinstance(x, BCSR) for x in args) else sparse_rules_bcoo
    rule = rules.get(p)
    if rule is None or isinstance(rule, _OwnRule):
        return _by_own_rule(p, params, args)
    spenv = SparsifyEnv()
    outs = rule(spenv, *arrays_to_spvalues(spenv, tuple(args)), **params)
    return list(spvalues_to_arrays(spenv, tuple(outs)))


def _by_own_rule(p: Any, params: dict[str, Any], args: list[Any]) -> list[Any]:
    name = p.name
    if p is todense_p:
        return [x.todense() if is_sparse(x) else x for x in args]
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
        raise no_rule(name)
    return [rule(*args, **params)]


# Rules by primitive, as users extend them: rule(spenv, *spvalues, **params) -> spvalues. The second
# table's are asked where an operand is a BCSR array.
sparse_rules_bcoo = _own_rules([*_POINTWISE, *_rules, *_HOLDERS])
sparse_rules_bcsr = _own_rules([*_POINTWISE, *_BY_ROWS, "dot_general"])


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
        return self._spvalue.aval if is_sparse(self._spvalue) else typeof(self._spvalue)

    def __repr__(self) -> str:
        return f"SparseTracer<{self.aval.str_short()}>"


class SparseTrace(Trace):
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
    trace = SparseTrace(current_trace())
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
        leaves, structure = tree.flatten((args, kwargs), is_leaf=is_sparse)
        for x in leaves:
            if is_sparse(x) and not isinstance(x, BCOO | BCSR):
                raise NotImplementedError(
                    f"sparsify: no rules for {type(x).__name__} arrays. Fix: use BCOO or BCSR."
                )
        dynamic = [k for k, x in enumerate(leaves) if is_sparse(x) or hasattr(x, "dtype")]
        if use_tracer:
            return _traced(f, structure, leaves, dynamic)
        avals = [x.aval if is_sparse(x) else typeof(x) for x in (leaves[k] for k in dynamic)]
        store: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            full = list(leaves)
            for k, v in zip(dynamic, values, strict=True):
                full[k] = v
            a, kw = tree.unflatten(structure, full)
            outs, out_tree = tree.flatten(f(*a, **kw), is_leaf=is_sparse)
            store.append(out_tree)
            return [x if isinstance(x, Tracer) else jnp.asarray(x) for x in outs]

        jaxpr, consts = trace_to_jaxpr(flat, avals)
        outs = _evaluate(ClosedJaxpr(jaxpr, consts), [leaves[k] for k in dynamic])
        return tree.unflatten(store[-1], outs)

    return wrapped


def eval_sparse(
    jaxpr: Any, consts: Sequence[Any], spvalues: Sequence[SparsifyValue], spenv: SparsifyEnv
) -> list[SparsifyValue]:
    """The results of a program, whose operations act on what is stored.

    `jaxpr`: a Jaxpr; `consts`: its constants; `spvalues`: its operands, of `spenv`. Raises
    NotImplementedError for an operation that has no sparse form.

    >>> from pullback.experimental.sparse import transform
    >>> env = transform.SparsifyEnv()
    >>> closed = pb.make_jaxpr(lambda x: 2 * x)(jnp.ones(2))
    >>> out = transform.eval_sparse(closed.jaxpr, closed.consts, [env.dense(jnp.ones(2))], env)
    >>> transform.spvalues_to_arrays(env, out)
    [Array([2., 2.], dtype=float32)]
    """
    args = spvalues_to_arrays(spenv, list(spvalues))
    outs = _evaluate(ClosedJaxpr(jaxpr, tuple(consts)), args)
    return list(arrays_to_spvalues(spenv, outs))


def sparsify_raw(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, written for dense arrays, as a function of a SparsifyEnv and SparsifyValues, which
    returns SparsifyValues and the structure of the results.

    >>> from pullback.experimental.sparse import transform
    >>> env = transform.SparsifyEnv()
    >>> out, structure = transform.sparsify_raw(lambda x: 2 * x)(env, env.dense(jnp.ones(2)))
    >>> transform.spvalues_to_arrays(env, out)
    [Array([2., 2.], dtype=float32)]

    Raises NotImplementedError for an operation that has no sparse form.
    """

    def wrapped(
        spenv: SparsifyEnv, *spvalues: SparsifyValue, **params: Any
    ) -> tuple[list[SparsifyValue], Any]:
        leaves, in_tree = tree.flatten(spvalues, is_leaf=is_spvalue)
        store: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            outs, out_tree = tree.flatten(f(*tree.unflatten(in_tree, values), **params))
            store.append(out_tree)
            return [x if isinstance(x, Tracer) else jnp.asarray(x) for x in outs]

        jaxpr, consts = trace_to_jaxpr(flat, spvalues_to_avals(spenv, leaves))
        return eval_sparse(jaxpr, consts, leaves, spenv), store[-1]

    return wrapped


def sparsify_fun(wrapped_fun: Any, args: Sequence[Any]) -> list[Any]:
    """The results of a function of `linear_util`, which takes and returns arrays in lists, on dense
    and sparse arrays.

    `wrapped_fun`: as `extend.linear_util.wrap_init` makes it. Raises NotImplementedError for an
    operation that has no sparse form.

    >>> from pullback.experimental import sparse
    >>> from pullback.experimental.sparse import transform
    >>> from pullback.extend import linear_util
    >>> m = sparse.BCOO.fromdense(jnp.eye(2))
    >>> transform.sparsify_fun(linear_util.wrap_init(lambda x: [2 * x]), [m])
    [BCOO(float32[2, 2], nse=2)]
    """
    env = SparsifyEnv()
    values = arrays_to_spvalues(env, list(args))
    fun, out_values = sparsify_subtrace(wrapped_fun, None, env, values)
    fun.call_wrapped(*env._buffers)
    return list(spvalues_to_arrays(env, out_values()))


@lu.transformation_with_aux2
def sparsify_subtrace(
    f: Any, store: Any, tag: Any, spenv: SparsifyEnv, spvalues: Sequence[SparsifyValue], *bufs: Any
) -> list[Any]:
    """A function of arrays in lists, for dense ones, as one of the buffers of `spenv`, which gives
    all buffers there are in the end; the results' SparsifyValues are left behind.

    `tag`: whatever tells traces apart to their users; `spvalues`: the operands, of `spenv`.
    Raises NotImplementedError for an operation that has no sparse form.

    >>> from pullback.experimental import sparse
    >>> from pullback.experimental.sparse import transform
    >>> from pullback.extend import linear_util
    >>> env = transform.SparsifyEnv()
    >>> values = transform.arrays_to_spvalues(env, [sparse.BCOO.fromdense(jnp.eye(2))])
    >>> f = linear_util.wrap_init(lambda x: [2 * x])
    >>> doubled, out_values = transform.sparsify_subtrace(f, None, env, values)
    >>> buffers = doubled.call_wrapped(*env._buffers)
    >>> buffers[out_values()[0].data_ref]
    Array([2., 2.], dtype=float32)
    """
    args = spvalues_to_arrays(SparsifyEnv(bufs), list(spvalues))
    leaves, structure = tree.flatten((tuple(args), {}), is_leaf=is_sparse)
    outs = _traced(f, structure, leaves, range(len(leaves)))
    spenv._buffers[: len(bufs)] = bufs
    store.store(list(arrays_to_spvalues(spenv, list(outs))))
    return list(spenv._buffers)
