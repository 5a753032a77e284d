"""Primitives as classes: an operation on trees of values, its rules being the methods of its class.

An instance is one operation with its parameters; programs show it as an equation of
`call_hi_primitive`. In forward mode `jvp` runs. Under reverse mode the operation's equation is that
of `jvp` until its tangents are found to be unknown: then `vjp_fwd` runs, and what is linear in the
tangents is an equation whose transpose is `vjp_bwd`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..api.vmap import vmap
from ..control.custom_vjp import has_tangent
from ..control.expand import register_inline
from ..core.avals import typeof
from ..core.build import trace_to_jaxpr
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from ..core.trace import use_trace
from ..transforms.batch import batch_flat, matchaxis
from ..transforms.jvp import jvp_flat
from ..transforms.transpose import add_cotangents, backward_pass


class VJPHiPrimitive:
    """An operation whose rules are methods.

    A subclass sets in `__init__`, before it calls this class's: `in_avals`, a tuple of (trees of)
    types, one an argument; `out_aval`, the (tree of) types of the result; `params`, a dict whose
    entries become attributes. It defines `expand(*args)`, what the operation does, and of the
    other methods those whose transformation it is to support:

    * `vjp_fwd(nzs_in, *args) -> (result, residuals)` and `vjp_bwd_retval(residuals, ct)`, a tuple
      of one cotangent an argument, or `vjp_bwd(residuals, ct, *accumulators)`, which calls
      `accum(cotangent)` of those. `nzs_in` says which leaves of the arguments are differentiated.
    * `jvp(primals, tangents) -> (result, its tangent)`
    * `lin(nzs_in, *args) -> (result, residuals)` and `linearized(residuals, *tangents)`
    * `batch_dim_rule(axis_data, dims)`, the mapped axes of the result for those of the arguments,
      or `batch(axis_data, args, dims) -> (result, its mapped axes)`
    * `transpose(ct, *args)`, the linear arguments being accumulators

    Tangents and cotangents that are zero come as `Zero`. Raises AttributeError if `in_avals`,
    `out_aval` or `params` is not set, NotImplementedError where a method is needed that the
    subclass does not define.

    >>> from pullback.experimental import hijax
    >>> class Cube(hijax.VJPHiPrimitive):
    ...     def __init__(self, aval):
    ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
    ...         super().__init__()
    ...
    ...     expand = lambda self, x: x**3
    ...     vjp_fwd = lambda self, nzs_in, x: (self(x), x)
    ...     vjp_bwd_retval = lambda self, x, ct: (ct * 3 * x**2,)
    >>> pullback.grad(Cube(pullback.typeof(jnp.float32(2))))(jnp.float32(2))
    Array(12., dtype=float32)
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Any]
    effects: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(f"subclass __init__ should set `self.{name}`")
        self.in_avals_flat, self.in_tree = tree.flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = tree.flatten(self.out_aval)
        self.__dict__.update(self.params)

    def __call__(self, *args: Any) -> Any:
        leaves, in_tree = tree.flatten(args)
        if in_tree != self.in_tree:
            raise TypeError(
                f"{self} takes arguments of the structure {self.in_tree} (that of its in_avals), "
                f"but got {in_tree}. Fix: pass one value for each entry of in_avals."
            )
        return tree.unflatten(self.out_tree, call_p.bind(*leaves, _prim=self))

    # --- what subclasses define ---
    def expand(self, *args: Any) -> Any:
        raise self._missing("", "`expand`")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        raise self._missing("for grad support, ", "`vjp_fwd`")

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        cts = self.vjp_bwd_retval(res, outgrad)
        if not isinstance(cts, tuple) or len(cts) != len(arg_accums):
            raise ValueError(
                f"`vjp_bwd_retval` of {self} must return a tuple of one cotangent for each of the "
                f"{len(arg_accums)} arguments, but returned {cts!r}. Fix: return "
                f"({', '.join(f'ct{k}' for k in range(len(arg_accums)))},)."
            )
        for k, (accums, ct) in enumerate(zip(arg_accums, cts, strict=True)):
            wanted, found = tree.structure(accums), tree.structure(ct)
            if wanted != found:
                raise ValueError(
                    f"`vjp_bwd_retval` of {self} returned a cotangent of the structure {found} for "
                    f"argument {k}, whose structure is {wanted}. Fix: return Zero or an array for "
                    "each leaf."
                )
            tree.map(lambda accum, x: accum.accum(x), accums, ct)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        raise self._missing("for grad support, ", "`vjp_bwd` or `vjp_bwd_retval`")

    def jvp(self, primals: Any, tangents: Any) -> Any:
        raise self._missing("for jvp support, ", "`jvp`")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        raise self._missing("for linearize support, ", "`lin` and `linearized`")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        raise self._missing("for linearize support, ", "`lin` and `linearized`")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        raise self._missing("for transpose support, ", "`transpose`")

    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        out_dim = self.batch_dim_rule(axis_data, dims)
        return VmapOf(self, axis_data, dims, out_dim)(*args), out_dim

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        raise self._missing("for vmap support, ", "`batch` or `batch_dim_rule`")

    def check(self, *arg_tys: Any) -> None:
        """May raise for arguments of types that the operation does not take, when it is traced."""

    def _missing(self, what: str, names: str) -> NotImplementedError:
        return NotImplementedError(f"{what}subclass {type(self)} must implement {names}")

    def _has(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(VJPHiPrimitive, name)

    # --- one operation is another if they are of one class and have equal types and parameters ---
    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def _key(self) -> Any:
        params = tuple((k, self.params[k]) for k in sorted(self.params))
        types = tuple(self.in_avals_flat), self.in_tree, tuple(self.out_avals_flat), self.out_tree
        return type(self), types, params

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class Accumulator:
    """Where a backward rule puts the cotangent of an argument's leaf: `accum(ct)` adds it."""

    __slots__ = ("aval", "total")

    def __init__(self, aval: Any) -> None:
        self.aval, self.total = aval, None

    def accum(self, ct: Any) -> None:
        if ct is not None and type(ct) is not Zero:
            self.total = add_cotangents(self.total, ct)

    def freeze(self) -> Any:
        return Zero(self.aval) if self.total is None else self.total

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval})"


class NullAccumulator(Accumulator):
    """That of a leaf whose cotangent nobody asks for."""

    __slots__ = ()

    def accum(self, ct: Any) -> None:
        return None


class VmapOf(VJPHiPrimitive):
    """An operation applied along a mapped axis: what `vmap` makes of one that says only where the
    axis of its result is."""

    def __init__(self, prim: VJPHiPrimitive, axis_data: Any, in_dims: Any, out_dim: Any) -> None:
        self._dims = _spread(in_dims, prim.in_avals), _spread(out_dim, prim.out_aval)
        size = axis_data.size
        grown = functools.partial(_grown, size=size)
        self.in_avals = tuple(
            tree.unflatten(prim.in_tree, list(map(grown, prim.in_avals_flat, self._dims[0])))
        )
        self.out_aval = tree.unflatten(
            prim.out_tree, list(map(grown, prim.out_avals_flat, self._dims[1]))
        )
        self.params = {
            "prim": prim,
            "axis_data": axis_data,
            "in_dims": in_dims,
            "out_dim": out_dim,
        }
        super().__init__()

    prim: VJPHiPrimitive
    axis_data: Any

    def _key(self) -> Any:
        data = self.axis_data
        flat = tuple(map(tuple, self._dims))
        return type(self), self.prim._key(), data.size, data.name, flat

    def _mapped(self, fun: Callable[..., Any], in_axes: Any, out_axes: Any) -> Any:
        return vmap(
            fun,
            in_axes=in_axes,
            out_axes=out_axes,
            axis_size=self.axis_data.size,
            axis_name=self.axis_data.name,
        )

    @property
    def _in_axes(self) -> list[Any]:
        return self._dims[0]

    def expand(self, *args: Any) -> Any:
        def flat(*leaves: Any) -> list[Any]:
            return tree.leaves(self.prim.expand(*tree.unflatten(self.prim.in_tree, leaves)))

        outs = self._mapped(flat, tuple(self._in_axes), self._dims[1])(*tree.leaves(args))
        return tree.unflatten(self.prim.out_tree, outs)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        ts = tree.leaves(tangents, is_leaf=_is_zero)
        nz = [type(t) is not Zero for t in ts]
        axes = self._in_axes
        flags: list[bool] = []

        def flat(leaves: Any, dots: Any) -> Any:
            rest = iter(dots)
            full = [
                next(rest) if n else Zero(a.to_tangent_aval())
                for n, a in zip(nz, self.prim.in_avals_flat, strict=True)
            ]
            unflatten = functools.partial(tree.unflatten, self.prim.in_tree)
            out, dot = self.prim.jvp(unflatten(leaves), unflatten(full))
            out_dots = tree.leaves(dot, is_leaf=_is_zero)
            flags[:] = [type(t) is not Zero for t in out_dots]
            return tree.leaves(out), [t for t in out_dots if type(t) is not Zero]

        given = [t for t, n in zip(ts, nz, strict=True) if n]
        moved = [a for a, n in zip(axes, nz, strict=True) if n]
        outs, dots = self._mapped(flat, (axes, moved), 0)(tree.leaves(primals), given)
        rest = iter(dots)
        full = [
            next(rest) if n else Zero(a.to_tangent_aval())
            for n, a in zip(flags, self.out_avals_flat, strict=True)
        ]
        unflatten = functools.partial(tree.unflatten, self.out_tree)
        place = lambda x, d: x if type(x) is Zero else _from_front(x, d)
        dims = self._dims[1]
        return unflatten(list(map(place, outs, dims))), unflatten(list(map(place, full, dims)))

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        def flat(leaves: Any) -> Any:
            out, res = self.prim.vjp_fwd(nzs_in, *tree.unflatten(self.prim.in_tree, leaves))
            return tree.leaves(out), res

        outs, res = self._mapped(flat, (self._in_axes,), (self._dims[1], 0))(tree.leaves(args))
        return tree.unflatten(self.out_tree, outs), res

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        cts = tree.leaves(outgrad, is_leaf=_is_zero)
        nz = [type(ct) is not Zero for ct in cts]
        accums = tree.leaves(arg_accums)
        zeros: list[bool] = []

        def flat(res: Any, given: Any) -> list[Any]:
            rest = iter(given)
            full = [
                next(rest) if n else Zero(a.to_ct_aval())
                for n, a in zip(nz, self.prim.out_avals_flat, strict=True)
            ]
            inner = [
                type(a)(aval.to_ct_aval())
                for a, aval in zip(accums, self.prim.in_avals_flat, strict=True)
            ]
            self.prim.vjp_bwd(
                res,
                tree.unflatten(self.prim.out_tree, full),
                *tree.unflatten(self.prim.in_tree, inner),
            )
            zeros[:] = [a.total is None for a in inner]
            return [a.total for a in inner if a.total is not None]

        dims = self._dims[1]
        out_axes = [d for d, n in zip(dims, nz, strict=True) if n]
        found = iter(
            self._mapped(flat, (0, out_axes), 0)(
                res, [ct for ct, n in zip(cts, nz, strict=True) if n]
            )
        )
        for accum, zero, d in zip(accums, zeros, self._in_axes, strict=True):
            if not zero:
                ct = next(found)
                accum.accum(ct.sum(0) if d is None else _from_front(ct, d))

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        """An axis more, in front of the one that is mapped already."""
        outer = _spread(dims, self.in_avals)
        inner = [
            d if d is None or i is None else d - (i < d)
            for d, i in zip(outer, self._in_axes, strict=True)
        ]
        found = self.prim.batch_dim_rule(axis_data, tuple(tree.unflatten(self.prim.in_tree, inner)))
        placed = [
            d if d is None or o is None else d + (o <= d)
            for d, o in zip(_spread(found, self.prim.out_aval), self._dims[1], strict=True)
        ]
        return tree.unflatten(self.out_tree, placed)


def _is_zero(x: Any) -> bool:
    return type(x) is Zero


def _is_none(x: Any) -> bool:
    return x is None


def _spread(dims: Any, avals: Any) -> list[Any]:
    """One mapped axis for each leaf, of a tree of them that may end earlier."""
    out: list[Any] = []
    tree.map(lambda d, sub: out.extend([d] * len(tree.leaves(sub))), dims, avals, is_leaf=_is_none)
    return out


def _grown(aval: Any, d: int | None, size: int) -> Any:
    if d is None:
        return aval
    return aval.update(shape=(*aval.shape[:d], size, *aval.shape[d:]), sharding=None)


def _from_front(x: Any, d: int | None) -> Any:
    """An array whose mapped axis is in front, with it at `d`; without it if it is to have none."""
    if d is None:
        return x[0]
    axes = [*range(1, d + 1), 0, *range(d + 1, x.ndim)]
    return x if d == 0 else x.transpose(axes)


# --- the primitives ---
def _args_of(prim: VJPHiPrimitive, leaves: Sequence[Any]) -> Any:
    return tree.unflatten(prim.in_tree, leaves)


def _leaves_like(prim: VJPHiPrimitive, name: str, value: Any, treedef: Any, want: Any) -> list[Any]:
    """The leaves of what a rule returned; TypeError if its structure or types are not those that
    the class says."""
    leaves, found = tree.flatten(value, is_leaf=_is_zero)
    if found != treedef:
        raise TypeError(
            f"`{name}` of {prim} must return values of the structure {treedef}, but returned "
            f"{found}. Fix: return what out_aval says."
        )
    for x, aval in zip(leaves, want, strict=True):
        have: Any = x.aval if type(x) is Zero else typeof(x)
        same = have.shape == aval.shape and have.dtype == aval.dtype if not aval.is_high else True
        if not same:
            raise TypeError(
                f"`{name}` of {prim} must return a value of type {aval.str_short()}, but returned "
                f"{have.str_short()}. Fix: return what out_aval says."
            )
    return leaves


def _outs(prim: VJPHiPrimitive, name: str, value: Any) -> list[Any]:
    return _leaves_like(prim, name, value, prim.out_tree, prim.out_avals_flat)


def _abstract_eval(*avals: Any, _prim: VJPHiPrimitive) -> Any:
    _prim.check(*_args_of(_prim, avals))
    return list(_prim.out_avals_flat), _prim.effects


def _expand(*leaves: Any, _prim: VJPHiPrimitive) -> list[Any]:
    return tree.leaves(_prim.expand(*_args_of(_prim, leaves)))


def _expand_checked(*leaves: Any, _prim: VJPHiPrimitive) -> list[Any]:
    return _outs(_prim, "expand", _prim.expand(*_args_of(_prim, leaves)))


def _batch(axis: Any, leaves: Any, dims: Any, *, _prim: VJPHiPrimitive) -> Any:
    if all(d is None for d in dims):
        return None
    given = tuple(tree.unflatten(_prim.in_tree, list(dims)))
    out, out_dims = _prim.batch(axis, tuple(_args_of(_prim, leaves)), given)
    return tree.leaves(out), _spread(out_dims, _prim.out_aval)


def _jvp(primals: Any, tangents: Any, *, _prim: VJPHiPrimitive) -> Any:
    nonzeros = tuple(type(t) is not Zero for t in tangents)
    given = [t for t in tangents if type(t) is not Zero]
    found = jvp_call_p.bind(*primals, *given, _prim=_prim, nonzeros=nonzeros)
    n = len(_prim.out_avals_flat)
    dots = iter(found[n:])
    zeros = [a.to_tangent_aval() for a in _prim.out_avals_flat]
    return found[:n], [next(dots) if has_tangent(a) else Zero(a) for a in zeros]


def _transpose(cts: Any, *leaves: Any, _prim: VJPHiPrimitive) -> Any:
    maybe = [Accumulator(x.aval.to_ct_aval()) if type(x) is UndefinedPrimal else x for x in leaves]
    _prim.transpose(tree.unflatten(_prim.out_tree, cts), *_args_of(_prim, maybe))
    return [a.freeze() if isinstance(a, Accumulator) else None for a in maybe]


call_p = Primitive(
    "call_hi_primitive",
    multiple_results=True,
    effectful=True,
    register=False,
    abstract_eval=_abstract_eval,
    impl=_expand,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
)
register_inline(call_p, _expand_checked)


# --- an operation with its tangents ---
def _jvp_types(*avals: Any, _prim: VJPHiPrimitive, nonzeros: Any) -> list[Any]:
    dots = [a.to_tangent_aval() for a in _prim.out_avals_flat]
    return [*_prim.out_avals_flat, *filter(has_tangent, dots)]


def _jvp_expand(*flat: Any, _prim: VJPHiPrimitive, nonzeros: Any) -> list[Any]:
    """Forward mode."""
    n = len(nonzeros)
    rest = iter(flat[n:])
    tangents = [
        next(rest) if nz else Zero(a.to_tangent_aval())
        for nz, a in zip(nonzeros, _prim.in_avals_flat, strict=True)
    ]
    pair = _prim.jvp(tuple(_args_of(_prim, flat[:n])), tuple(_args_of(_prim, tangents)))
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(
            f"`jvp` of {_prim} must return a pair (result, tangent), but returned {pair!r}."
        )
    outs = _outs(_prim, "jvp", pair[0])
    avals = [a.to_tangent_aval() for a in _prim.out_avals_flat]
    dots = _leaves_like(_prim, "jvp", pair[1], _prim.out_tree, avals)
    return [
        *outs,
        *(instantiate_zeros(t) for t, a in zip(dots, avals, strict=True) if has_tangent(a)),
    ]


def _jvp_batch(axis: Any, flat: Any, dims: Any, *, _prim: VJPHiPrimitive, nonzeros: Any) -> Any:
    """The mapped operation's own: its tangents are mapped as its values are."""
    if all(d is None for d in dims):
        return None
    n = len(nonzeros)
    rest = iter(zip(flat[n:], dims[n:], strict=True))
    tangents = [next(rest) if nz else None for nz in nonzeros]
    args = []
    for x, d, t in zip(flat[:n], dims[:n], tangents, strict=True):
        mapped = d is not None or (t is not None and t[1] is not None)
        args.append(
            (
                _to_front(x, d, axis.size) if mapped else x,
                None if t is None else _to_front(t[0], t[1], axis.size) if mapped else t[0],
                0 if mapped else None,
            )
        )
    in_dims = tuple(tree.unflatten(_prim.in_tree, [d for _, _, d in args]))
    if _prim._has("batch"):
        raise NotImplementedError(
            f"the derivative of {_prim} is mapped, and only `batch_dim_rule` says how. Fix: define "
            f"`batch_dim_rule` in {type(_prim)} rather than `batch`."
        )
    out_dim = _prim.batch_dim_rule(axis, in_dims)
    of = VmapOf(_prim, axis, in_dims, out_dim)
    outs = jvp_call_p.bind(
        *(x for x, _, _ in args), *(t for _, t, _ in args if t is not None),
        _prim=of, nonzeros=nonzeros,
    )  # fmt: skip
    dims_out = _spread(out_dim, _prim.out_aval)
    avals = [a.to_tangent_aval() for a in _prim.out_avals_flat]
    dot_dims = [d for d, a in zip(dims_out, avals, strict=True) if has_tangent(a)]
    return outs, [*dims_out, *dot_dims]


def _to_front(x: Any, d: int | None, size: int) -> Any:
    return matchaxis(size, d, 0, x)


def _partial_eval(
    trace: Any, unknown: Sequence[bool], flat: Sequence[Any], params: dict[str, Any]
) -> Any:
    """Tangents are unknown: the forward rule runs, and what is linear is written down."""
    prim, nonzeros = params["_prim"], params["nonzeros"]
    n, n_out = len(nonzeros), len(prim.out_avals_flat)
    if any(unknown[:n]):
        with use_trace(trace.staged):
            return jvp_call_p.bind(*flat, **params)
    args = tuple(_args_of(prim, flat[:n]))
    nzs = tuple(_args_of(prim, list(nonzeros)))
    outs, res, lin_res = None, None, None
    with use_trace(trace.parent_trace):
        if prim._has("vjp_fwd") or not prim._has("lin"):
            out, res = _pair(prim, "vjp_fwd", prim.vjp_fwd(nzs, *args))
            outs = _outs(prim, "vjp_fwd", out)
        if prim._has("lin"):
            out, lin_res = _pair(prim, "lin", prim.lin(nzs, *args))
            outs = outs or _outs(prim, "lin", out)
    held, treedef = tree.flatten((res, lin_res))
    with use_trace(trace.staged):
        dots = linear_p.bind(*held, *flat[n:], _prim=prim, nonzeros=nonzeros, residuals=treedef)
    assert outs is not None and len(outs) == n_out
    return [*outs, *dots]


def _pair(prim: VJPHiPrimitive, name: str, value: Any) -> Any:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(
            f"`{name}` of {prim} must return a pair (result, residuals), but returned {value!r}."
        )
    return value


jvp_call_p = Primitive(
    "jvp_call_hi_primitive",
    multiple_results=True,
    register=False,
    abstract_eval=_jvp_types,
    impl=_jvp_expand,
    axis_batch=_jvp_batch,
    partial_eval=_partial_eval,
)
register_inline(jvp_call_p, _jvp_expand)


def _jvp_of_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """Its derivative is that of the operations of the rule."""
    return jvp_flat(lambda *xs: _jvp_expand(*xs, **params), primals, tangents)


jvp_call_p.rules["jvp"] = _jvp_of_jvp


# --- what is linear in the tangents ---
def _linear_types(*avals: Any, _prim: VJPHiPrimitive, **params: Any) -> list[Any]:
    return list(filter(has_tangent, (a.to_tangent_aval() for a in _prim.out_avals_flat)))


def _split_linear(flat: Sequence[Any], residuals: Any) -> tuple[Any, Sequence[Any]]:
    n = residuals.num_leaves
    return tree.unflatten(residuals, flat[:n]), flat[n:]


def _linear_expand(*flat: Any, _prim: VJPHiPrimitive, nonzeros: Any, residuals: Any) -> list[Any]:
    """The linear function at tangents, as `linearize` gives it."""
    (_, res), given = _split_linear(flat, residuals)
    rest = iter(given)
    tangents = [
        next(rest) if nz else Zero(a.to_tangent_aval())
        for nz, a in zip(nonzeros, _prim.in_avals_flat, strict=True)
    ]
    dot = _prim.linearized(res, *_args_of(_prim, tangents))
    avals = [a.to_tangent_aval() for a in _prim.out_avals_flat]
    dots = _leaves_like(_prim, "linearized", dot, _prim.out_tree, avals)
    return [instantiate_zeros(t) for t, a in zip(dots, avals, strict=True) if has_tangent(a)]


def _linear_transpose(
    cts: Any, *flat: Any, _prim: VJPHiPrimitive, nonzeros: Any, residuals: Any
) -> Any:
    (res, _), tangents = _split_linear(flat, residuals)
    none = [None] * residuals.num_leaves
    if not _prim._has("vjp_fwd"):
        params = {"_prim": _prim, "nonzeros": nonzeros, "residuals": residuals}
        held = flat[: residuals.num_leaves]
        jaxpr, consts = trace_to_jaxpr(
            lambda *ts: _linear_expand(*held, *ts, **params), [t.aval for t in tangents]
        )
        return none + backward_pass(jaxpr, consts, tangents, cts)
    rest = iter(cts)
    avals = [a.to_ct_aval() for a in _prim.out_avals_flat]
    full = [next(rest) if has_tangent(a) else Zero(a) for a in avals]
    accums = [
        (Accumulator if nz else NullAccumulator)(a.to_ct_aval())
        for nz, a in zip(nonzeros, _prim.in_avals_flat, strict=True)
    ]
    _prim.vjp_bwd(res, tree.unflatten(_prim.out_tree, full), *_args_of(_prim, accums))
    return none + [_checked(_prim, a) for a in accums if type(a) is Accumulator]


def _checked(prim: VJPHiPrimitive, accum: Accumulator) -> Any:
    ct = accum.freeze()
    if type(ct) is not Zero and getattr(typeof(ct), "shape", None) != getattr(
        accum.aval, "shape", None
    ):
        raise ValueError(
            f"`vjp_bwd` of {prim} gave a cotangent of type {typeof(ct).str_short()} for an "
            f"argument of type {accum.aval.str_short()}. Fix: give it the argument's shape."
        )
    return ct


def _linear_batch(axis: Any, flat: Any, dims: Any, **params: Any) -> Any:
    return batch_flat(lambda *xs: _linear_expand(*xs, **params), flat, dims, axis)


linear_p = Primitive(
    "linear_call_hi_primitive",
    multiple_results=True,
    register=False,
    abstract_eval=_linear_types,
    impl=_linear_expand,
    jvp=lambda primals, tangents, **params: jvp_flat(
        lambda *xs: _linear_expand(*xs, **params), primals, tangents
    ),
    transpose=_linear_transpose,
    axis_batch=_linear_batch,
)
register_inline(linear_p, _linear_expand)
