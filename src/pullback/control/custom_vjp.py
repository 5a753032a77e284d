"""Functions with a reverse derivative of their own: `custom_vjp`, and its primitives.

Differentiating one runs its forward function in the enclosing trace and stages `custom_lin`: an
opaque linear call that only transposition opens, by calling the backward function.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import dtypes, tree
from ..core.avals import typematch, typeof
from ..core.jaxpr import JaxprEqn, jaxpr_as_fun
from ..core.primitive import Primitive
from ..core.refs import check_not_returned, is_ref, ref_identity
from ..core.symbolic import SymbolicZero, UndefinedPrimal, Zero, instantiate_zeros
from ..core.tracebacks import boundary
from ..core.wrapped import WrappedFun
from ..errors import ForwardDerivativeError
from .common import ArgumentRefs, leaf_names, shown_types
from .custom import (
    CustomCallPrimitive,
    CustomDerivative,
    RuleTrees,
    _tree_map,
    arrays_of,
    assemble,
    by_trace,
    call_abstract_eval,
    drop_outputs,
    name_of,
    names_of_leaves,
    shape_and_dtype,
    trace_primal,
)
from .remat_opt import forward_or_primal


class custom_vjp(CustomDerivative):
    """A function with its own reverse derivative.

    `defvjp(fwd, bwd)`: `fwd(*args)` returns (output, residuals); `bwd(*nondiff, residuals,
    cotangent)` returns a tuple with one cotangent an argument, None for zero.

    >>> @pb.custom_vjp
    ... def f(x): return x ** 2
    >>> f.defvjp(lambda x: (x ** 2, x), lambda x, ct: (2 * x * ct,))
    >>> pb.grad(f)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """

    _kind = "custom_vjp"

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Any = (), nondiff_argnames: Any = ()
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False
        self.optimize_remat = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Sets the rules. With `symbolic_zeros`, `fwd` gets CustomVJPPrimal(value, perturbed) and
        `bwd` may get SymbolicZero.
        """
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros, self.optimize_remat = symbolic_zeros, optimize_remat

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = name_of(self.fun)
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"No VJP defined for custom_vjp function {name} using defvjp. Fix: call "
                f"{name}.defvjp(fwd, bwd)."
            )
        static, dynamic, n = self._split_args(args, kwargs)
        leaves, in_tree = tree.flatten(tuple(dynamic))
        others = [k for k in range(n) if k not in static]
        ArgumentRefs(self.fun, in_tree, leaves, "custom_vjp", _placed_at(others))
        flat = _FlatVJP(self, static, n, in_tree, [typeof(x) for x in leaves])
        outs = custom_vjp_call_p.bind(
            *leaves,
            subfuns=(flat.run, flat.forward, flat.backward),
            out_trees=lambda: flat.held,
            symbolic_zeros=self.symbolic_zeros,
        )
        return tree.unflatten(flat.held.out_tree, outs)


class CustomVJPPrimal:
    """An argument of a forward rule with symbolic zeros: its value, and whether it is being
    differentiated.

    >>> @pb.custom_vjp
    ... def f(x, y):
    ...     return x * y
    >>> def forward(x, y):
    ...     print(x.perturbed, y.perturbed)
    ...     return x.value * y.value, y.value
    >>> f.defvjp(forward, lambda y, ct: (ct * y, None), symbolic_zeros=True)
    >>> pb.grad(f)(2.0, 3.0)
    True False
    Array(3., dtype=float32, weak_type=True)
    """

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed


def _placed_at(positions: Sequence[int]) -> Callable[..., Any]:
    """Says that arguments are those at these positions, as `names_of_arguments` takes it."""
    return lambda *given: (dict(zip(positions, given, strict=True)), {})


class _FlatVJP:
    """One call of a custom_vjp function, on flat values."""

    def __init__(
        self,
        owner: custom_vjp,
        static: dict[int, Any],
        n: int,
        in_tree: Any,
        in_avals: Sequence[Any],
    ) -> None:
        self.owner, self.static, self.n = owner, static, n
        self.in_tree, self.in_avals = in_tree, in_avals
        self.held = RuleTrees()

        def run(*flat: Any) -> list[Any]:
            outs, self.held.out_tree = tree.flatten(owner.fun(*self._args(flat)))
            self.held.out_avals = [typeof(x) for x in outs]
            for x in outs:
                check_not_returned(x, lambda: f"custom_vjp primal function {name_of(owner.fun)}")
            return outs

        run.leaf_names = names_of_leaves(owner.fun, in_tree, static, n)  # type: ignore[attr-defined]

        def forward(*flat: Any) -> list[Any]:
            return self._forward(flat)

        def backward(*flat: Any) -> list[Any]:
            return self._backward(flat)

        run.__wrapped__ = owner.fun  # type: ignore[attr-defined]
        forward.__name__, backward.__name__ = name_of(owner.fwd), name_of(owner.bwd)
        self.run, self.forward, self.backward = map(WrappedFun, (run, forward, backward))
        if owner.optimize_remat:
            if owner.symbolic_zeros:
                raise NotImplementedError(
                    "custom_vjp: optimize_remat and symbolic_zeros cannot be used together. Fix: "
                    f"leave out one of them in {name_of(owner.fun)}.defvjp(...)."
                )
            self.forward.primal = run  # type: ignore[attr-defined]

    def _args(self, flat: Sequence[Any]) -> list[Any]:
        return assemble(self.static, tree.unflatten(self.in_tree, arrays_of(flat)), self.n)

    def _forward(self, flat: Sequence[Any]) -> list[Any]:
        """[outputs, residuals]. With symbolic zeros, each argument is followed by whether it is
        perturbed.
        """
        owner = self.owner
        if owner.symbolic_zeros:
            flat = [
                CustomVJPPrimal(x, bool(p))
                for x, p in zip(arrays_of(flat[::2]), flat[1::2], strict=True)
            ]
        pair = owner.fwd(*self._args(flat))  # type: ignore[misc]
        own = {ref_identity(x) for x in tree.leaves(flat) if is_ref(x)}
        for x in tree.leaves(pair):
            if is_ref(x) and ref_identity(x) not in own:
                check_not_returned(x, lambda: f"custom_vjp fwd function {name_of(owner.fwd)}")
        fun, fwd = name_of(owner.fun), name_of(owner.fwd)
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"Custom VJP fwd rule {fwd} for function {fun} must produce a pair (list or tuple "
                "of length two) where the first element represents the primal output "
                f"(equal to those of the custom_vjp-decorated function {fun}) and the second "
                "element represents residuals (i.e. values stored from the forward pass for use "
                "on the backward pass), "
                f"but instead of a pair the fwd rule {fwd} produced {pair}."
            )
        outs, out_tree = tree.flatten(pair[0])
        res, res_tree = tree.flatten(pair[1])
        self._check_outputs(outs, out_tree)
        self.held.out_tree, self.held.res_tree, self.held.num_residuals = (
            out_tree,
            res_tree,
            len(res),
        )
        self.held.numbers = [type(x) in (bool, int, float, complex) for x in res]
        return [*outs, *res]

    def _check_outputs(self, outs: Sequence[Any], out_tree: Any) -> None:
        """TypeError if the forward rule gives other outputs than the function did when it was
        traced."""
        held, owner = self.held, self.owner
        if held.out_tree is None or (held.out_tree == out_tree and not held.out_avals):
            return
        fun, fwd = name_of(owner.fun), name_of(owner.fwd)
        said = (
            f"Custom VJP fwd rule {fwd} for function {fun} must produce a pair (list or tuple of "
            "length two) where the first element represents the primal output (equal to the output "
            f"of the custom_vjp-decorated function {fun}) and the second element represents "
            "residuals (i.e. values stored from the forward pass for use on the backward pass), "
            "but instead the fwd rule output's first element had "
        )
        have = [typeof(x) for x in outs]
        rules, functions = shown_types(out_tree, have), shown_types(held.out_tree, held.out_avals)
        if held.out_tree != out_tree:
            raise TypeError(
                f"{said}container/pytree structure:\n    {rules}\nwhile the custom_vjp-decorated "
                f"function {fun} had output container/pytree structure:\n    {functions}.\nFix: "
                f"return in {fwd} what {fun} returns."
            )
        wrong = [
            f"at {name} {given.str_short()} for {wanted.str_short()}"
            for name, given, wanted in zip(
                leaf_names(out_tree, "output"), have, held.out_avals, strict=True
            )
            if not typematch(given, wanted)
        ]
        if wrong:
            raise TypeError(
                f"{said}shapes/dtypes of:\n    {rules}\nwhile the custom_vjp-decorated function "
                f"{fun} had output shapes/dtypes of:\n    {functions}\nFix: return in {fwd} what "
                f"{fun} returns ({'; '.join(wrong)})."
            )

    def _backward(self, flat: Sequence[Any]) -> list[Any]:
        """The cotangent of each flat argument; Zero where the rule gives None."""
        owner, held = self.owner, self.held
        leaves = flat[: held.num_residuals]
        arrays = arrays_of(leaves)  # a weak scalar is a number in programs, but no one's residual
        kept = [x if n else a for x, a, n in zip(leaves, arrays, held.numbers, strict=True)]
        res = tree.unflatten(held.res_tree, kept)
        ct = tree.unflatten(held.out_tree, arrays_of(flat[held.num_residuals :]))
        result = owner.bwd(*(self.static[k] for k in sorted(self.static)), res, ct)  # type: ignore[misc]
        if isinstance(result, list):
            result = tuple(result)
        leaves = self._match(result)
        return [
            self._check_ct(k, x, a)
            for k, (x, a) in enumerate(zip(leaves, self.in_avals, strict=True))
        ]

    def _match(self, result: Any) -> list[Any]:
        """The cotangents of the arguments' leaves. TypeError if the rule returned anything else."""

        def is_none(x: Any) -> bool:
            return x is None

        if isinstance(result, tuple):
            try:
                leaves = self.in_tree.flatten_up_to(result)
                if not any(type(x) in (tuple, list, dict) for x in leaves):
                    return leaves  # type: ignore[no-any-return]
            except ValueError:  # one cotangent (or None) may stand for all of a subtree's
                holder = tree.unflatten(self.in_tree, self.in_avals)
                cts, structure = tree.flatten(result, is_leaf=is_none)
                with contextlib.suppress(ValueError):
                    parts = structure.flatten_up_to(holder)
                    return [
                        ct
                        for ct, part in zip(cts, parts, strict=True)
                        for _ in tree.leaves(part)  # none where the argument itself has None
                    ]
        structure = tree.flatten(result)[1]
        raise TypeError(
            "Custom VJP bwd rule must produce an output with the same container (pytree) structure "
            "as the args tuple of the primal function, "
            "and in particular must produce a tuple of length equal to the number of arguments to "
            "the primal function, "
            f"but got bwd output structure {structure} for primal input structure {self.in_tree}. "
            f"Fix it in {name_of(self.owner.bwd)}."
        )

    def _check_ct(self, k: int, ct: Any, aval: Any) -> Any:
        """The cotangent that the rule gave for an argument. Its shape must be the argument's; its
        dtype need not be, as in JAX: what computes with it says so where it does not fit."""
        want = aval.to_ct_aval()
        if isinstance(ct, SymbolicZero) and shape_and_dtype(ct.aval) != shape_and_dtype(want):
            raise ValueError(
                "Custom VJP bwd rule produced a SymbolicZero with a shape/dtype that does not "
                "match the corresponding input tangent shape/dtype: at "
                f"{leaf_names(self.in_tree, 'output')[k]} the SymbolicZero had shape/dtype "
                f"{ct.aval.str_short()} while the corresponding input had shape/dtype "
                f"{want.str_short()}. Consider just returning a None here instead of a "
                "SymbolicZero object."
            )
        if ct is None or isinstance(ct, (SymbolicZero, Zero)):
            return Zero(want)
        have = typeof(ct)
        if getattr(want, "dtype", None) == dtypes.float0:
            return Zero(want)
        why = ""
        if getattr(have, "shape", None) != getattr(want, "shape", None):
            why = "the shapes do not match. Fix it"
        elif getattr(have, "vma", None) != getattr(want, "vma", None):
            why = (
                "the manual axis types do not match. Fix: lax.pcast(..., to='varying') or lax.psum"
            )
        if why:
            raise ValueError(
                "Custom VJP bwd rule must produce an output with the same type as the args tuple "
                f"of the primal function, but at {leaf_names(self.in_tree, 'output')[k]} "
                f"the bwd rule produced an output of type {have.str_short()} corresponding to an "
                f"input of type {want.str_short()}, so {why} in {name_of(self.owner.bwd)}."
            )
        return ct


class CustomVJPCallPrimitive(CustomCallPrimitive):
    protocol = "process_custom_vjp_call"

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        n, fwd, bwd = params["num_consts"], params["fwd_jaxpr_thunk"], params["bwd"]
        symbolic = params["symbolic_zeros"]

        def late_fwd(*args: Any) -> list[Any]:
            return fwd(*args[2 * n if symbolic else n :])  # type: ignore[no-any-return]

        def late_bwd(*args: Any) -> list[Any]:
            zeros = [Zero(a.to_ct_aval()) for a in params["call_jaxpr"].in_avals[:n]]
            return [*zeros, *bwd(*args)]

        late_fwd.__name__, late_bwd.__name__ = name_of(fwd), name_of(bwd)
        plain, forward = jaxpr_as_fun(params["call_jaxpr"]), WrappedFun(late_fwd)
        if hasattr(fwd, "primal"):
            forward.primal = plain  # type: ignore[attr-defined]
        return {
            "out_trees": params["out_trees"],
            "symbolic_zeros": symbolic,
            "subfuns": (WrappedFun(plain), forward, WrappedFun(late_bwd)),
        }


def _stage_vjp_call(
    trace: Any,
    primitive: Any,
    fun: Any,
    fwd: Any,
    bwd: Any,
    tracers: Any,
    out_trees: Any,
    symbolic_zeros: bool,
) -> Any:
    closed, consts = trace_primal(trace, fun, tracers, "custom_vjp")
    params = {
        "call_jaxpr": closed,
        "fwd_jaxpr_thunk": fwd,
        "bwd": bwd,
        "num_consts": len(consts),
        "out_trees": out_trees,
        "symbolic_zeros": symbolic_zeros,
    }
    return trace.emit(primitive, [*consts, *tracers], params)


def _linear_call(
    fwd: Any,
    bwd: Any,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    out_trees: Any,
    symbolic_zeros: bool,
) -> tuple[list[Any], list[Any]]:
    """Runs the forward rule and stages the linear call: (outputs, their tangents)."""
    if symbolic_zeros:
        flags = [
            x for p, t in zip(primals, tangents, strict=True) for x in (p, type(t) is not Zero)
        ]
        results = fwd(*flags)
    elif hasattr(fwd, "primal"):
        results = forward_or_primal(fwd, fwd.primal, primals, out_trees)
    else:
        results = fwd(*primals)
    n_res = out_trees().num_residuals
    outs, res = results[: len(results) - n_res], results[len(results) - n_res :]
    tangent_avals = [typeof(x).to_tangent_aval() for x in outs]
    real_out = [has_tangent(a) for a in tangent_avals]
    keep = [type(t) is not Zero and has_tangent(typeof(t)) for t in tangents]
    ins = [t for t, k in zip(tangents, keep, strict=True) if k]
    dots = iter(
        custom_lin_p.bind(
            *res,
            *ins,
            num_res=n_res,
            bwd=_Backward(bwd, tangent_avals, keep),
            in_zeros=[not k for k in keep],
            symbolic_zeros=symbolic_zeros,
        )
    )
    return list(outs), [
        next(dots) if r else Zero(a) for a, r in zip(tangent_avals, real_out, strict=True)
    ]


def has_tangent(aval: Any) -> bool:
    return getattr(aval, "dtype", None) != dtypes.float0


class _Backward:
    """A backward rule as a function of residuals and the cotangents of the outputs that have any,
    to those of such inputs.
    """

    def __init__(self, bwd: Any, out_avals: Sequence[Any], keep: Sequence[bool]) -> None:
        self.bwd, self.out_avals, self.keep = bwd, out_avals, keep
        self.__name__ = name_of(bwd)

    def real_avals(self) -> list[Any]:
        """The types of the outputs' tangents, of those that have one."""
        return [a for a in self.out_avals if has_tangent(a)]

    def __call__(self, res: Sequence[Any], cts: Sequence[Any], symbolic_zeros: bool) -> list[Any]:
        rest = iter(cts)
        full = []
        for a in self.out_avals:
            ct = next(rest) if has_tangent(a) else Zero(a)
            if type(ct) is Zero:
                ct = SymbolicZero(ct.aval) if symbolic_zeros else instantiate_zeros(ct)
            full.append(ct)
        return [ct for ct, k in zip(self.bwd(*res, *full), self.keep, strict=True) if k]


def _symbolic_zero(aval: Any) -> Any:
    return SymbolicZero(aval)


def _zeros(aval: Any) -> Any:
    return instantiate_zeros(Zero(aval))


def _selecting(fwd: Any, bwd: Any, used: Sequence[bool], zeros: Sequence[Any]) -> tuple[Any, Any]:
    """Rules for some of a function's outputs: the forward one gives these, and the cotangents of
    the others are `zeros` (of all outputs) to the backward one."""
    n, kept = len(used), [k for k, u in enumerate(used) if u]

    def forward(*args: Any) -> list[Any]:
        found = fwd(*args)
        return [*(found[k] for k in kept), *found[n:]]

    def backward(*args: Any) -> Any:
        res, cts = args[: len(args) - len(kept)], iter(args[len(args) - len(kept) :])
        full = (next(cts) if u else zero() for u, zero in zip(used, zeros, strict=True))
        return bwd(*res, *full)

    forward.__name__, backward.__name__ = name_of(fwd), name_of(bwd)
    if hasattr(fwd, "primal"):
        forward.primal = fwd.primal  # type: ignore[attr-defined]
    return forward, backward


def _dce(used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    """Drops outputs and their cotangents."""

    def rules() -> dict[str, Any]:
        params = eqn.params
        no_ct = _symbolic_zero if params["symbolic_zeros"] else _zeros
        zeros = [partial(no_ct, a.to_ct_aval()) for a in params["call_jaxpr"].out_avals]
        fwd, bwd = _selecting(params["fwd_jaxpr_thunk"], params["bwd"], used, zeros)
        return {"fwd_jaxpr_thunk": fwd, "bwd": bwd}

    return drop_outputs(used, eqn, rules)


custom_vjp_call_p = CustomVJPCallPrimitive(
    "custom_vjp_call",
    multiple_results=True,
    effectful=True,
    abstract_eval=call_abstract_eval,
    jvp=by_trace,
    transpose=by_trace,
    batch=by_trace,
    dce=_dce,
    stage_call=_stage_vjp_call,
    linear_call=_linear_call,
)

_FORWARD = (
    "can't apply forward-mode autodiff (jvp) to a custom_vjp function. Fix: use reverse "
    "mode (grad, vjp), or custom_jvp."
)


def _lin_forward(*args: Any, **params: Any) -> Any:
    raise ForwardDerivativeError(_FORWARD)


def _lin_transpose(
    cts: Any, *args: Any, num_res: int, bwd: Any, symbolic_zeros: bool, **params: Any
) -> Any:
    res, tangents = args[:num_res], args[num_res:]
    found = bwd(res, cts, symbolic_zeros)
    return [None] * num_res + [
        ct if type(t) is UndefinedPrimal else None for ct, t in zip(found, tangents, strict=True)
    ]


def _lin_batch(vals: Any, dims: Any, **params: Any) -> Any:
    """Whoever batches a linear call evaluates it, which is forward mode: refused here, as in JAX,
    even where nothing reads the result."""
    raise ForwardDerivativeError(_FORWARD)


custom_lin_p = Primitive(
    "custom_lin",
    multiple_results=True,
    abstract_eval=lambda *avals, bwd, **params: bwd.real_avals(),
    impl=_lin_forward,
    computable=_lin_forward,  # not even without elements
    # A derivative of the linear call would be the forward derivative that there is not.
    jvp=_lin_forward,
    transpose=_lin_transpose,
    batch=_lin_batch,
    acts_on_zeros=lambda params: True,
)


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values of a tree of CustomVJPPrimals.

    >>> from pullback.custom_derivatives import CustomVJPPrimal, custom_vjp_primal_tree_values
    >>> custom_vjp_primal_tree_values([CustomVJPPrimal(1.0, True), CustomVJPPrimal(2.0, False)])
    [1.0, 2.0]
    """

    def value(leaf: Any) -> Any:
        if not isinstance(leaf, CustomVJPPrimal):
            raise TypeError(f"unexpected leaf type: got {type(leaf)}, expected CustomVJPPrimal")
        return leaf.value

    return _tree_map(value, tree)


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of the leaves of a value.

    >>> pb.custom_derivatives.zero_from_primal({"a": jnp.ones(2)})
    {'a': Array([0., 0.], dtype=float32)}
    """

    def zero_of(leaf: Any) -> Any:
        zero = Zero.from_primal_value(leaf)
        return SymbolicZero(zero.aval) if symbolic_zeros else instantiate_zeros(zero)

    return _tree_map(zero_of, val)
