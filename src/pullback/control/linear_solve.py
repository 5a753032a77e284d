"""`custom_linear_solve` and `custom_root`: solutions of equations whose derivatives follow from the
equation, not from the iteration.

If A x = b then A dx = db - dA x, and the transpose solves A^T y = ct: each derivative is one more
solve.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import tree
from ..core.avals import typematch, typeof
from ..core.jaxpr import ClosedJaxpr, eval_jaxpr
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from ..core.tracebacks import boundary
from ..primitives.common import as_array
from ..primitives.convert import convert_element_type
from ..primitives.elementwise import add_jaxvals, neg
from ..transforms.batch import batch_jaxpr, matchaxis
from ..transforms.jvp import jvp_flat
from ..transforms.linearize import linearize_flat
from ..transforms.transpose import transpose_jaxpr
from .common import trace_function
from .custom_jvp import custom_jvp
from .expand import announce

__all__ = ["custom_linear_solve", "custom_linear_solve_p", "custom_root"]


class _LinearSolveTuple(NamedTuple):
    """Something for each of the four programs of a solve: the program, or how many constants it
    has."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transpose(self) -> _LinearSolveTuple:
        return type(self)(self.vecmat, self.matvec, self.transpose_solve, self.solve)


def _bind(
    programs: _LinearSolveTuple, lengths: _LinearSolveTuple, args: Sequence[Any]
) -> list[Any]:
    announce(custom_linear_solve_p)
    outs: list[Any] = custom_linear_solve_p.bind(*args, const_lengths=lengths, jaxprs=programs)
    return outs


def split_constants(
    args: Sequence[Any], lengths: Sequence[int]
) -> tuple[_LinearSolveTuple, list[Any]]:
    """The constants of each program, and the right-hand side."""
    rest = iter(args)
    consts = _LinearSolveTuple(*(list(itertools.islice(rest, n)) for n in lengths))
    return consts, list(rest)


def _solved(*args: Any, const_lengths: Any, jaxprs: _LinearSolveTuple) -> list[Any]:
    """What the operation does, for those who compile it."""
    consts, b = split_constants(args, const_lengths)
    outs: list[Any] = eval_jaxpr(jaxprs.solve.jaxpr, jaxprs.solve.consts, *consts.solve, *b)
    return outs


def _abstract_eval(*avals: Any, const_lengths: Any, jaxprs: _LinearSolveTuple) -> Any:
    return jaxprs.solve.out_avals


def _jvp(primals: Any, tangents: Any, *, const_lengths: Any, jaxprs: _LinearSolveTuple) -> Any:
    outs = _bind(jaxprs, const_lengths, primals)
    dots, rhs = split_constants(tangents, const_lengths)
    x = outs[: len(rhs)]
    if any(type(t) is not Zero for t in dots.matvec):
        program = jaxprs.matvec

        def matvec_at_x(*consts: Any) -> list[Any]:
            found: list[Any] = eval_jaxpr(program.jaxpr, program.consts, *consts, *x)
            return found

        consts = split_constants(primals, const_lengths)[0]
        _, moved = jvp_flat(matvec_at_x, consts.matvec, dots.matvec)
        rhs = [
            b if type(m) is Zero else neg(m) if type(b) is Zero else add_jaxvals(b, neg(m))
            for b, m in zip(rhs, moved, strict=True)
        ]
    zeros = [Zero(typeof(v).to_tangent_aval()) for v in outs]
    if all(type(t) is Zero for t in rhs):
        return outs, zeros
    held = primals[: sum(const_lengths)]
    found = _bind(jaxprs, const_lengths, [*held, *(instantiate_zeros(t) for t in rhs)])
    return outs, [*found[: len(x)], *zeros[len(x) :]]


def _transpose(cts: Any, *args: Any, const_lengths: Any, jaxprs: _LinearSolveTuple) -> Any:
    if jaxprs.transpose_solve is None:
        raise TypeError(
            "transpose_solve required for backwards mode automatic differentiation of "
            "custom_linear_solve. "
            "Fix: pass transpose_solve, or symmetric=True."
        )
    consts, b = split_constants(args, const_lengths)
    avals = [v.aval if type(v) is UndefinedPrimal else typeof(v) for v in b]
    ct_b = [_of_dtype(instantiate_zeros(ct), a) for ct, a in zip(cts[: len(b)], avals, strict=True)]
    held = itertools.chain(*consts.transpose())
    found = _bind(jaxprs.transpose(), const_lengths.transpose(), [*held, *ct_b])
    ct = [_of_dtype(x, a) for x, a in zip(found[: len(b)], avals, strict=True)]
    return [None] * sum(const_lengths) + ct


def _of_dtype(x: Any, aval: Any) -> Any:
    """A cotangent, in the dtype of what it is the cotangent of."""
    return x if typeof(x).dtype == aval.dtype else convert_element_type(x, aval.dtype)


def _batch(
    axis: Any, vals: Any, dims: Any, *, const_lengths: Any, jaxprs: _LinearSolveTuple
) -> Any:
    if all(d is None for d in dims):
        return None
    n = sum(const_lengths)
    moved = [
        v if d is None else matchaxis(axis.size, d, 0, v)
        for v, d in zip(vals[:n], dims[:n], strict=True)
    ]
    b = [matchaxis(axis.size, d, 0, v) for v, d in zip(vals[n:], dims[n:], strict=True)]
    mapped, _ = split_constants([d is not None for d in dims], const_lengths)
    every = [True] * len(b)
    programs = _LinearSolveTuple(
        *(
            None if program is None else batch_jaxpr(program, axis, [*consts, *every], True)[0]
            for program, consts in zip(jaxprs, mapped, strict=True)
        )
    )
    outs = _bind(programs, const_lengths, [*moved, *b])
    return outs, [0] * len(outs)


custom_linear_solve_p = Primitive(
    "custom_linear_solve",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
)
custom_linear_solve_p.rules["inline"] = _solved


def _same_structure(what: str, like: str, want_tree: Any, have_tree: Any) -> None:
    if want_tree != have_tree:
        raise TypeError(
            f"{what}() output pytree structure must match {like}, got {have_tree} and {want_tree}. "
            f"Fix: return a value of the structure of {like}."
        )


def _same_shapes(
    what: str, want_tree: Any, want: Sequence[Any], have_tree: Any, have: Sequence[Any]
) -> None:
    """ValueError or TypeError unless a function's results are like b."""
    shapes, found = [a.shape for a in want], [a.shape for a in have]
    if shapes != found:
        raise ValueError(
            f"{what}() output shapes must match b, got {found} and {shapes}: it returned "
            f"{_shown(have_tree, have)}, and b is {_shown(want_tree, want)}."
        )
    _same_structure(what, "b", want_tree, have_tree)
    if what != "matvec":  # a solution may have a type of its own
        return
    for a, b in zip(want, have, strict=True):
        if not typematch(a, b):
            raise TypeError(
                f"{what}() output types must match b, got {b.str_short()} for "
                f"{a.str_short()}. Fix: convert it with astype."
            )


def _shown(structure: Any, avals: Sequence[Any]) -> str:
    return str(tree.unflatten(structure, [a.str_short() for a in avals])).replace("'", "")


@boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Any, Any], Any],
    transpose_solve: Callable[[Any, Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The x with matvec(x) = b, found by `solve(matvec, b)`; its derivatives are solves of the same
    kind.

    `matvec` is linear; `transpose_solve(vecmat, b)` solves the transposed system (needed for
    reverse mode, unless `symmetric`). With `has_aux` the solvers return (x, anything), and so does
    this.

    Raises TypeError if what the functions return does not have the structure of b.

    >>> a = jnp.array([2., 4.])
    >>> solve = lambda matvec, b: b / a
    >>> lax.custom_linear_solve(lambda x: a * x, jnp.array([2., 2.]), solve, symmetric=True)
    Array([1. , 0.5], dtype=float32)
    """
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    leaves, treedef = tree.flatten(b)
    leaves = [as_array(v) for v in leaves]
    avals = [typeof(v) for v in leaves]
    one = tree.structure((b,))
    mv, mv_consts, mv_tree = trace_function(lambda v: matvec(v), one, avals, "custom_linear_solve")
    _same_shapes("matvec", treedef, avals, mv_tree, mv.out_avals)
    n_mv = len(mv_consts)

    def run(
        name: str, solver: Callable[[Any, Any], Any], product: Callable[[Any], Any]
    ) -> tuple[Any, list[Any], Any]:
        aux_trees: list[Any] = []

        def solved(v: Any) -> Any:
            out = solver(product, v)
            x, aux = _pair(name, out) if has_aux else (out, None)
            x_leaves, x_tree = tree.flatten(x)
            _same_shapes(name, treedef, avals, x_tree, [typeof(leaf) for leaf in x_leaves])
            aux_leaves, aux_tree = tree.flatten(aux)
            aux_trees.append(aux_tree)
            return [*x_leaves, *aux_leaves]

        program, consts, _ = trace_function(solved, one, avals, "custom_linear_solve")
        return program, consts, aux_trees[0]

    vecmat = tsolve = None
    vm_consts: list[Any] = []
    t_consts: list[Any] = []
    solve_program, solve_consts, aux_tree = run("solve", solve, matvec)
    if transpose_solve is not None:
        vm_consts = mv_consts
        if symmetric:
            vecmat, product = mv, matvec
        else:
            vecmat, product = _transposed(mv, n_mv, mv_consts, treedef)
        tsolve, t_consts, _ = run("transpose_solve", transpose_solve, product)
    programs = _LinearSolveTuple(mv, vecmat, solve_program, tsolve)
    held = _LinearSolveTuple(mv_consts, vm_consts, solve_consts, t_consts)
    outs = _bind(programs, _LinearSolveTuple(*map(len, held)), [*itertools.chain(*held), *leaves])
    x = tree.unflatten(treedef, outs[: len(leaves)])
    return (x, tree.unflatten(aux_tree, outs[len(leaves) :])) if has_aux else x


def _transposed(
    mv: ClosedJaxpr, n_consts: int, consts: Sequence[Any], treedef: Any
) -> tuple[ClosedJaxpr, Callable[[Any], Any]]:
    """The program of the transposed product, and it as a function of trees."""
    n = len(mv.in_avals) - n_consts
    raw, zeros = transpose_jaxpr(mv, [False] * n_consts + [True] * n, [False] * n)

    def whole(args: Any) -> list[Any]:
        outs = iter(eval_jaxpr(raw.jaxpr, raw.consts, *args))
        return [
            instantiate_zeros(Zero(a.to_ct_aval())) if z else next(outs)
            for a, z in zip(mv.in_avals[n_consts:], zeros, strict=True)
        ]

    program = trace_function(whole, tree.structure(([0] * (n_consts + n),)), mv.in_avals, "vecmat")[
        0
    ]

    def product(v: Any) -> Any:
        outs = eval_jaxpr(program.jaxpr, program.consts, *consts, *tree.leaves(v))
        return tree.unflatten(treedef, outs)

    return program, product


@boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Any, Any], Any],
    tangent_solve: Callable[[Any, Any], Any],
    has_aux: bool = False,
) -> Any:
    """The x with f(x) = 0, found by `solve(f, initial_guess)`; its derivative solves df/dx dx = -df
    by `tangent_solve(g, y)`, g linear.

    With `has_aux`, solve returns (x, anything), and so does this. Raises TypeError if f does not
    return the structure of its argument.

    >>> def newton(f, x):
    ...     for _ in range(6):
    ...         x = x - f(x) / pullback.grad(f)(x)
    ...     return x
    >>> root = lambda a: lax.custom_root(lambda x: x**2 - a, a, newton, lambda g, y: y / g(1.))
    >>> pullback.value_and_grad(root)(4.)
    (Array(2., dtype=float32, weak_type=True), Array(0.25, dtype=float32, weak_type=True))
    """
    leaves, treedef = tree.flatten(initial_guess)
    leaves = [as_array(v) for v in leaves]
    avals = [typeof(v) for v in leaves]
    program, consts, f_tree = trace_function(
        lambda v: f(v), tree.structure((initial_guess,)), avals, "custom_root"
    )
    _same_structure("f", "initial_guess", treedef, f_tree)

    def residual(values: Sequence[Any], x: Any) -> list[Any]:
        found: list[Any] = eval_jaxpr(program.jaxpr, program.consts, *values, *tree.leaves(x))
        return found

    def solution(guess: Any) -> Any:
        out = solve(lambda x: tree.unflatten(treedef, residual(consts, x)), guess)
        x, aux = _pair("solve", out) if has_aux else (out, ())
        _same_structure("solve", "initial_guess", treedef, tree.structure(x))
        return x, aux

    def moved(at: Any, rhs: Any) -> Any:
        """How far the root goes: the derivative of f there is a linear function of trees."""
        _, dots, linear, residuals = linearize_flat(
            lambda *y: residual(consts, list(y)), tree.leaves(at)
        )

        def derivative(v: Any) -> Any:
            tangents = [as_array(t) for t in tree.leaves(v)]
            _check_tangents(tree.structure(v), tangents, treedef, avals)
            outs = iter(eval_jaxpr(linear, residuals, *tangents))
            change = [next(outs) if z is None else instantiate_zeros(z) for z in dots]
            return tree.unflatten(treedef, change)

        dx = tangent_solve(derivative, rhs)
        _same_structure("tangent_solve", "x", treedef, tree.structure(dx))
        return dx

    # What `solve` and `tangent_solve` close over, traced values too, becomes operands without
    # derivatives.
    one, two = tree.structure((initial_guess,)), tree.structure((initial_guess, initial_guess))
    solver, s_consts, solved_tree = trace_function(solution, one, avals, "custom_root")
    mover, m_consts, _ = trace_function(
        moved, two, [*avals, *(a.to_tangent_aval() for a in program.out_avals)], "custom_root"
    )

    @custom_jvp
    def _custom_root(values: Any, s_consts: Any, m_consts: Any, guess: Any) -> Any:
        outs = eval_jaxpr(solver.jaxpr, solver.consts, *s_consts, *tree.leaves(guess))
        return tree.unflatten(solved_tree, outs)

    @_custom_root.defjvp
    def _root_jvp(primals: Any, tangents: Any) -> Any:
        values, _, m_consts, _ = primals
        x, aux = _custom_root(*primals)
        x_leaves = tree.leaves(x)
        _, change = jvp_flat(lambda *c: residual(c, x), list(values), list(tangents[0]))
        rhs = map(instantiate_zeros, change)
        dx = map(neg, eval_jaxpr(mover.jaxpr, mover.consts, *m_consts, *x_leaves, *rhs))
        zeros = tree.map(lambda v: instantiate_zeros(Zero(typeof(v).to_tangent_aval())), aux)
        return (x, aux), (tree.unflatten(treedef, list(dx)), zeros)

    guess = tree.unflatten(treedef, leaves)
    x, aux = _custom_root(list(consts), list(s_consts), list(m_consts), guess)
    return (x, aux) if has_aux else x


def _pair(what: str, out: Any) -> tuple[Any, Any]:
    """(x, aux) as a solver that has aux must return it."""
    if isinstance(out, tuple | list) and len(out) == 2:
        return out[0], out[1]
    raise ValueError(
        f"{what}() produced a pytree with structure {tree.structure(out)}, but a pytree tuple with "
        "auxiliary output was expected because has_aux was set to True. Fix: return (x, aux)."
    )


def _check_tangents(
    structure: Any, tangents: Sequence[Any], treedef: Any, avals: Sequence[Any]
) -> None:
    """ValueError unless these are tangents of values of that structure and those types."""
    wanted = [a.to_tangent_aval() for a in avals]
    if structure == treedef and all(
        typematch(typeof(t), want) for t, want in zip(tangents, wanted, strict=True)
    ):
        return
    raise ValueError(
        "linearized function called on tangent values inconsistent with the original primal "
        f"values: got {[typeof(t).str_short() for t in tangents]} for {structure}, but expected "
        f"{[a.str_short() for a in wanted]} for {treedef}. Fix: call it with a value like its "
        "argument, such as jnp.ones_like(y)."
    )
