"""The linear functions that derivatives return: of `vjp`, `linearize` and `linear_transpose`. All
are pytrees of what they keep, so that jitted functions take and return them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes, tree
from ..control.common import leaf_place, pcast_hint, varies_more
from ..core.avals import typematch, typeof
from ..core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from ..core.naming import fun_source_info
from ..core.refs import AbstractRef, is_ref, is_ref_aval, operations
from ..core.source import transformed
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zero
from ..core.tracebacks import boundary
from ..primitives.common import as_array
from ..primitives.sharding import reshard_p
from ..records import record
from ..transforms.transpose import backward_pass
from ..tree import Partial


def as_result(x: Any) -> Any:
    """A tangent or cotangent as what users get: zeros are arrays, those of scalars too."""
    if type(x) is not Zero:
        return x
    aval: Any = x.aval
    if is_ref_aval(aval):
        zeros = as_result(Zero(aval.inner_aval))
        return zeros if aval.dtype == dtypes.float0 else operations["new"](zeros)
    zeros = instantiate_zero(aval)
    return zeros if aval.is_high or aval.dtype == dtypes.float0 else as_array(zeros)


def _lies_nowhere(have: Any, want: Any) -> bool:
    """Is a value of the type that is wanted, but for the mesh, of which nothing is said?"""
    lies = getattr(want, "_sharding", None)
    if lies is None or getattr(have, "_sharding", lies) is not None:
        return False
    return bool(typematch(have, want.update(sharding=None)))


@record(eq=True)
class GradValue:
    """Asks `VJP.with_refs` for a cotangent as a value."""


@record(eq=True)
class DontWant:
    """Tells `VJP.with_refs` that nobody needs a cotangent."""


@record(eq=True)
class GradRef:
    """Stands where a cotangent was added to a reference."""


@record(eq=True)
class DidntWant:
    """Stands where a cotangent was not asked for."""


def _deliver(wish: Any, ct: Any) -> Any:
    if isinstance(wish, GradValue):
        return ct
    if isinstance(wish, DontWant):
        return DidntWant()
    operations["addupdate"](wish, ..., ct)
    return GradRef()


class NotNeeded:
    """Stands for an argument that the backward pass does not need."""

    def __repr__(self) -> str:
        return "NotNeeded()"


NOT_NEEDED = NotNeeded()
tree.register_pytree_node(NotNeeded, lambda _: ((), None), lambda *_: NOT_NEEDED)


def places(residuals: Sequence[Any], operands: Sequence[Any]) -> tuple[int, ...]:
    """For each residual the operand that it is, or -1."""
    where = {id(x): k for k, x in enumerate(operands)}
    return tuple([where.get(id(r), -1) for r in residuals])


@record
class VJPStatic:
    """All of a VJP but its residuals; `places` says which of them are arguments."""

    fun: Any
    in_tree: Any
    out_tree: Any
    in_avals: Any
    out_avals: Any
    zeros: Any
    jaxpr: Jaxpr
    places: tuple[int, ...]

    def split(self, residuals: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The residuals as the arguments that they are, in their trees, and the others."""
        leaves: list[Any] = [NOT_NEEDED] * len(self.in_avals)
        for k, r in zip(self.places, residuals, strict=True):
            if k >= 0:
                leaves[k] = r
        opaque = [r for k, r in zip(self.places, residuals, strict=True) if k < 0]
        return list(tree.unflatten(self.in_tree, leaves)), opaque

    def joined(self, arguments: Sequence[Any], opaque: Sequence[Any]) -> list[Any]:
        """The residuals in their order."""
        leaves = self.in_tree.flatten_up_to(tuple(arguments))
        rest = iter(opaque)
        return [leaves[k] if k >= 0 else next(rest) for k in self.places]


class VJP:
    """The function that `vjp` returns: cotangents in, cotangents out.

    A pytree of what the backward pass needs: `args_res`, the arguments among that, each in its
    structure with `NotNeeded()` for the leaves that are not needed, and `opaque_residuals`. Both
    are lists whose elements may be replaced. `jaxpr` is the linear program.

    >>> x = jnp.array([1.0, 2.0])
    >>> _, f_vjp = pb.vjp(lambda x, y: x * jnp.sin(y), x, x)
    >>> f_vjp.args_res, len(f_vjp.opaque_residuals)
    ([Array([1., 2.], dtype=float32), NotNeeded()], 2)
    """

    __slots__ = ("__weakref__", "_args", "_opaque", "_residuals", "static")

    def __init__(self, static: VJPStatic, residuals: Any) -> None:
        self.static, self._residuals = static, residuals

    fun = property(lambda self: self.static.fun)
    in_tree = property(lambda self: self.static.in_tree)
    out_tree = property(lambda self: self.static.out_tree)
    jaxpr = property(lambda self: self.static.jaxpr)

    def _open(self) -> None:
        """What is kept as the two lists that users may change."""
        if self._residuals is not None:
            self._args, self._opaque = self.static.split(self._residuals)
            self._residuals = None

    @property
    def args_res(self) -> list[Any]:
        self._open()
        return self._args

    @args_res.setter
    def args_res(self, value: Any) -> None:
        self._open()
        self._args = value

    @property
    def opaque_residuals(self) -> list[Any]:
        self._open()
        return self._opaque

    @opaque_residuals.setter
    def opaque_residuals(self, value: Any) -> None:
        self._open()
        self._opaque = value

    def residuals(self) -> Sequence[Any]:
        if self._residuals is not None:
            return self._residuals  # type: ignore[no-any-return]
        return self.static.joined(self._args, self._opaque)

    def __repr__(self) -> str:
        return (
            f"VJP(fun={self.fun!r}, in_tree={self.in_tree}, out_tree={self.out_tree}, "
            f"args_res={self.args_res}, opaque_residuals={self.opaque_residuals})"
        )

    @boundary
    def __call__(self, ct: Any, /, *more: Any) -> Any:
        if more:
            raise TypeError(
                f"The function returned by `jax.vjp` applied to {fun_source_info(self.fun)} was "
                f"called with {1 + len(more)} arguments, but functions returned by `jax.vjp` must "
                "be called with a single argument corresponding to the single value returned by "
                "the function being differentiated (even if that returned value is a tuple or "
                "other container). Fix: pass one tuple, f_vjp((a, b))."
            )
        leaves, ct_tree = tree.flatten(ct)
        if ct_tree != self.static.out_tree:
            raise ValueError(self._structure_error(ct))
        for k, (x, aval) in enumerate(zip(leaves, self.static.out_avals, strict=True)):
            have, want = typeof(x), aval.to_ct_aval()
            if is_ref_aval(want):  # the cotangent of what it holds, in a reference or not
                want = want.inner_aval
                if is_ref_aval(have):
                    leaves[k], have = operations["get"](x, ...), have.inner_aval
            if not want.is_high and want.dtype == dtypes.float0 and have.shape == want.shape:
                leaves[k] = Zero(want)  # integers have no cotangents: any of the shape will do
            elif _lies_nowhere(have, want):  # it is to lie as the output does
                lies = want._sharding
                leaves[k] = reshard_p.bind(x, dst_sharding=lies, concrete_mesh=None)
            elif not typematch(have, want):
                raise ValueError(
                    "unexpected JAX type (e.g. shape/dtype) for argument to VJP function: got "
                    f"{have.str_short()}, but expected {want.str_short()} "
                    "because the corresponding output of the differentiated function had JAX type "
                    f"{aval.str_short()}{leaf_place(self.static.out_tree, k, 'the output')}. "
                    "Fix: pass a cotangent of the output's shape and dtype."
                )
        return tree.unflatten(self.static.in_tree, self.flat(leaves))

    def with_refs(self, *maybe_ct_refs: Any) -> Callable[[Any], Any]:
        """This function, with a say in what becomes of the cotangents: for each leaf of the
        arguments a reference, to which its cotangent is added; `ad.GradValue()`, for which it is
        returned as ever; or `ad.DontWant()`. Where nothing is returned stands `ad.GradRef()` or
        `ad.DidntWant()`.

        Raises ValueError if the structure is not that of the arguments.

        >>> _, f_vjp = vjp(lambda x, y: x * y, 3.0, 4.0)
        >>> total = new_ref(jnp.array(10.0))
        >>> f_vjp.with_refs(total, ad.DontWant())(1.0), total[...]
        ((GradRef(), DidntWant()), Array(14., dtype=float32))
        """
        wishes, structure = tree.flatten(maybe_ct_refs)
        if structure != self.static.in_tree:
            raise ValueError(
                f"with_refs was given {structure}, but the differentiated function "
                f"{fun_source_info(self.fun)} takes {self.in_tree}. Fix: give a reference, "
                "ad.GradValue() or ad.DontWant() for every array among the arguments."
            )
        for k, x in enumerate(wishes):
            if type(x) is object:  # what says nothing, as in JAX
                wishes[k] = GradValue()
            elif not isinstance(x, (GradValue, DontWant)) and not isinstance(
                typeof(x), AbstractRef
            ):
                raise TypeError(
                    f"with_refs takes references, ad.GradValue() and ad.DontWant(); leaf {k} is "
                    f"{x} of type {type(x)}."
                )

        def vjp_with_refs(ct: Any) -> Any:
            found = tree.flatten(self(ct))[0]
            return tree.unflatten(self.static.in_tree, list(map(_deliver, wishes, found)))

        return vjp_with_refs

    def flat(self, leaves: Sequence[Any]) -> list[Any]:
        cts = [ct for ct, z in zip(leaves, self.static.zeros, strict=True) if z is None]
        linear = [UndefinedPrimal(v.aval) for v in self.static.jaxpr.invars]
        with transformed("transpose"):
            found = backward_pass(self.static.jaxpr, self.residuals(), linear, cts)
        return [as_result(ct) for ct in found]

    def _structure_error(self, ct: Any) -> str:
        holder = tree.unflatten(self.static.out_tree, range(self.static.out_tree.num_leaves))
        lines = [
            f"  * out{tree.keystr(p)} was {a} in the original output, but {b} here, so {why}."
            for p, a, b, why in tree.equality_errors(holder, ct)
        ]
        return (
            "unexpected tree structure.\n\nThe argument to a VJP function returned by `jax.vjp` "
            "must match the pytree\n"
            f"structure of the differentiated function {fun_source_info(self.fun)}.\n\nBut the "
            "tree structures differ:\n" + "\n".join(lines)
        )


def _rebuilt(static: VJPStatic, children: Any) -> VJP:
    made = VJP(static, None)
    made._args, made._opaque = children
    return made


tree.register_pytree_node(VJP, lambda v: ((v.args_res, v.opaque_residuals), v.static), _rebuilt)


def linearized(
    program: ClosedJaxpr, in_tree: Any, in_avals: Any, out_tree: Any, zeros: Any, refs: Any
) -> Partial:
    """What `linearize` returns: the linear program as a function of trees of tangents. Its
    arguments are one, the values that the program keeps. `refs` says which results are
    references."""
    fun = functools.partial(_apply_linear, program.jaxpr, in_tree, in_avals, out_tree, zeros, refs)
    return Partial(fun, list(program.consts))


@boundary
def _apply_linear(
    jaxpr: Jaxpr,
    in_tree: Any,
    in_avals: Any,
    out_tree: Any,
    zeros: Any,
    refs: Sequence[bool],
    residuals: Sequence[Any],
    *tangents: Any,
) -> Any:
    leaves, dot_tree = tree.flatten(tangents)
    if dot_tree != in_tree:
        raise TypeError(
            f"expected {in_tree}, got {dot_tree}: the linearized function was called with "
            "tangents of another structure than the primals."
        )
    for k, (t, aval) in enumerate(zip(leaves, in_avals, strict=True)):
        want = aval.to_tangent_aval()
        if not typematch(typeof(t), want):
            raise ValueError(
                "linearized function called on tangent values inconsistent with the original "
                "primal values:\n"
                f"Got tangent aval {typeof(t).str_short()} for primal aval {aval.str_short()} "
                f"but expected {want.str_short()}."
                + pcast_hint(
                    [(varies_more(typeof(t), want), "the primal value passed to linearize")]
                )
                + " Fix: tangents must have the primals' shapes and dtypes"
                f"{leaf_place(in_tree, k, 'the arguments')}."
            )
    outs = eval_jaxpr(jaxpr, residuals, *leaves)
    # A derivative that is the same everywhere is a number in the program.
    handed_on = set(map(id, leaves))
    found = iter([y if id(y) in handed_on else as_array(y) for y in outs])
    results = [next(found) if z is None else as_result(z) for z in zeros]
    results = [
        operations["new"](y) if held and not is_ref(y) else y
        for y, held in zip(results, refs, strict=True)
    ]
    return tree.unflatten(out_tree, results)


def transposed(
    fun: Any, jaxpr: Jaxpr, consts: Sequence[Any], in_tree: Any, avals: Any, out_tree: Any
) -> Partial:
    """What `linear_transpose` returns, of the program of `fun`."""
    call = functools.partial(
        _apply_transposed, fun_source_info(fun), jaxpr, in_tree, avals, out_tree
    )
    return Partial(call, tuple(consts))


@boundary
def _apply_transposed(
    name: str, jaxpr: Jaxpr, in_tree: Any, avals: Any, out_tree: Any, consts: Any, ct: Any
) -> Any:
    cts, ct_tree = tree.flatten(ct)
    if ct_tree != out_tree:
        raise TypeError(
            f"cotangent tree does not match function output, expected {out_tree} but got {ct_tree}"
        )
    for x, v in zip(cts, jaxpr.outvars, strict=True):
        if not typematch(typeof(x), v.aval):
            raise TypeError(
                f"cotangent type does not match function output, expected {v.aval.str_short()} "
                f"but got {typeof(x).str_short()}"
            )
    try:
        with transformed("transpose"):
            found = backward_pass(jaxpr, consts, [UndefinedPrimal(a) for a in avals], cts)
    except TypeError as error:
        if "UndefinedPrimal" not in str(error):
            raise
        raise TypeError(
            f"linear_transpose: {name} is not linear in its arguments. "
            "Fix: transpose a linear function, or differentiate with vjp."
        ) from None
    return tree.unflatten(in_tree, [as_array(as_result(x)) for x in found])
