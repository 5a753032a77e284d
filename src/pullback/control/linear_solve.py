"""`custom_linear_solve` and `custom_root`: solutions of equations whose derivatives follow from the
equation, not from the iteration.

If A x = b then A dx = db - dA x, and the transpose solves A^T y = ct: each derivative is one more
solve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..core.avals import typematch, typeof
from ..core.jaxpr import ClosedJaxpr, Jaxpr, Var, eval_jaxpr
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from ..core.tracebacks import boundary
from ..primitives.common import as_array
from ..primitives.convert import convert_element_type
from ..primitives.elementwise import neg, sub
from ..transforms.batch import batch_jaxpr, matchaxis
from ..transforms.jvp import jvp_flat
from ..transforms.transpose import transpose_jaxpr
from .common import trace_function
from .custom import custom_jvp

__all__ = ["custom_linear_solve", "custom_linear_solve_p", "custom_root"]


class _Programs:
    """The four programs of a solve; matvec and vecmat share their constants."""

    __slots__ = ("matvec", "solve", "transpose_solve", "vecmat")

    def __init__(self, matvec: Any, vecmat: Any, solve: Any, transpose_solve: Any) -> None:
        self.matvec, self.vecmat, self.solve, self.transpose_solve = (
            matvec,
            vecmat,
            solve,
            transpose_solve,
        )

    def transposed(self) -> _Programs:
        return _Programs(self.vecmat, self.matvec, self.transpose_solve, self.solve)

    def __repr__(self) -> str:
        return f"LinearSolveTuple(matvec={self.matvec}, solve={self.solve})"


def _call_program(programs: _Programs, lengths: Sequence[int]) -> ClosedJaxpr:
    """The solve as a program of all operands, for evaluation."""
    n_mv, n_solve, _ = lengths
    inner = programs.solve.jaxpr
    before = [Var(a) for a in programs.matvec.in_avals[:n_mv]]
    after = (
        [Var(a) for a in programs.transpose_solve.in_avals[: lengths[2]]]
        if programs.transpose_solve
        else []
    )
    invars = [*before, *inner.invars[:n_solve], *after, *inner.invars[n_solve:]]
    new: Jaxpr = inner.replace(invars=invars)
    return ClosedJaxpr(new, programs.solve.consts)


def _bind(
    programs: _Programs, lengths: tuple[int, int, int], num_x: int, args: Sequence[Any]
) -> list[Any]:
    outs: list[Any] = custom_linear_solve_p.bind(
        *args,
        const_lengths=lengths,
        jaxprs=programs,
        num_x=num_x,
        call_jaxpr=_call_program(programs, lengths),
    )
    return outs


def _split(
    args: Sequence[Any], lengths: Sequence[int]
) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    n1, n2, n3 = lengths[0], lengths[0] + lengths[1], sum(lengths)
    return list(args[:n1]), list(args[n1:n2]), list(args[n2:n3]), list(args[n3:])


def _abstract_eval(*avals: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
    return call_jaxpr.out_avals


def _jvp(
    primals: Any, tangents: Any, *, const_lengths: Any, jaxprs: _Programs, num_x: int, **params: Any
) -> Any:
    outs = _bind(jaxprs, const_lengths, num_x, primals)
    x = outs[:num_x]
    mv_consts = list(primals[: const_lengths[0]])
    mv_tangents = list(tangents[: const_lengths[0]])
    rhs = list(_split(tangents, const_lengths)[3])
    if any(type(t) is not Zero for t in mv_tangents):
        program = jaxprs.matvec

        def matvec_at_x(*consts: Any) -> list[Any]:
            found: list[Any] = eval_jaxpr(program.jaxpr, program.consts, *consts, *x)
            return found

        _, moved = jvp_flat(matvec_at_x, mv_consts, mv_tangents)
        rhs = [
            b if type(m) is Zero else neg(m) if type(b) is Zero else sub(b, m)
            for b, m in zip(rhs, moved, strict=True)
        ]
    zeros = [Zero(typeof(v).to_tangent_aval()) for v in outs]
    if all(type(t) is Zero for t in rhs):
        return outs, zeros
    consts = primals[: sum(const_lengths)]
    dots = _bind(jaxprs, const_lengths, num_x, [*consts, *(instantiate_zeros(t) for t in rhs)])
    return outs, [*dots[:num_x], *zeros[num_x:]]


def _transpose(
    cts: Any, *args: Any, const_lengths: Any, jaxprs: _Programs, num_x: int, **params: Any
) -> Any:
    if jaxprs.transpose_solve is None:
        raise TypeError(
            "transpose_solve required for backwards mode automatic differentiation of "
            "custom_linear_solve. "
            "Fix: pass transpose_solve, or symmetric=True."
        )
    mv, solve, tsolve, b = _split(args, const_lengths)
    avals = [v.aval if type(v) is UndefinedPrimal else typeof(v) for v in b]
    ct_b = [_of_dtype(instantiate_zeros(ct), a) for ct, a in zip(cts[:num_x], avals, strict=True)]
    lengths = (const_lengths[0], const_lengths[2], const_lengths[1])
    found = _bind(jaxprs.transposed(), lengths, num_x, [*mv, *tsolve, *solve, *ct_b])
    ct = [_of_dtype(x, a) for x, a in zip(found[: len(b)], avals, strict=True)]
    return [None] * sum(const_lengths) + ct


def _of_dtype(x: Any, aval: Any) -> Any:
    """A cotangent, in the dtype of what it is the cotangent of."""
    return x if typeof(x).dtype == aval.dtype else convert_element_type(x, aval.dtype)


def _batch(
    axis: Any,
    vals: Any,
    dims: Any,
    *,
    const_lengths: Any,
    jaxprs: _Programs,
    num_x: int,
    **params: Any,
) -> Any:
    if all(d is None for d in dims):
        return None
    n = sum(const_lengths)
    moved = [
        v if d is None else matchaxis(axis.size, d, 0, v)
        for v, d in zip(vals[:n], dims[:n], strict=True)
    ]
    b = [matchaxis(axis.size, d, 0, v) for v, d in zip(vals[n:], dims[n:], strict=True)]
    mv, solve, tsolve, _ = _split([d is not None for d in dims], const_lengths)

    def batched(program: Any, consts: Sequence[bool]) -> Any:
        return (
            None
            if program is None
            else batch_jaxpr(program, axis, [*consts, *(True for _ in b)], True)[0]
        )

    programs = _Programs(
        batched(jaxprs.matvec, mv),
        batched(jaxprs.vecmat, mv),
        batched(jaxprs.solve, solve),
        batched(jaxprs.transpose_solve, tsolve),
    )
    outs = _bind(programs, const_lengths, num_x, [*moved, *b])
    return outs, [0] * len(outs)


custom_linear_solve_p = Primitive(
    "custom_linear_solve",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
)


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
    t_consts: list[Any] = []
    solve_program, solve_consts, aux_tree = run("solve", solve, matvec)
    if transpose_solve is not None:
        if symmetric:
            vecmat, product = mv, matvec
        else:
            vecmat, product = _transposed(mv, n_mv, mv_consts, treedef)
        tsolve, t_consts, _ = run("transpose_solve", transpose_solve, product)
    programs = _Programs(mv, vecmat, solve_program, tsolve)
    lengths = (n_mv, len(solve_consts), len(t_consts))
    outs = _bind(programs, lengths, len(leaves), [*mv_consts, *solve_consts, *t_consts, *leaves])
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

    def linear(values: Sequence[Any], at: Sequence[Any]) -> Callable[[Any], Any]:
        """The derivative of f there, a linear function of trees like the guess."""

        def derivative(v: Any) -> Any:
            tangents = [as_array(t) for t in tree.leaves(v)]
            _check_tangents(tree.structure(v), tangents, treedef, avals)
            _, change = jvp_flat(lambda *y: residual(values, list(y)), at, tangents)
            return tree.unflatten(treedef, [instantiate_zeros(t) for t in change])

        return derivative

    def solution(guess: Any) -> Any:
        out = solve(lambda x: tree.unflatten(treedef, residual(consts, x)), guess)
        x, aux = _pair("solve", out) if has_aux else (out, ())
        _same_structure("solve", "initial_guess", treedef, tree.structure(x))
        return x, aux

    # What `solve` closes over, traced values too, becomes an operand that has no derivative.
    one = tree.structure((initial_guess,))
    solver, held, solved_tree = trace_function(solution, one, avals, "custom_root")

    @custom_jvp
    def root(values: Any, held: Any, guess: Any) -> Any:
        outs = eval_jaxpr(solver.jaxpr, solver.consts, *held, *tree.leaves(guess))
        return tree.unflatten(solved_tree, outs)

    @root.defjvp
    def root_jvp(primals: Any, tangents: Any) -> Any:
        values, held, guess = primals
        x, aux = root(values, held, guess)
        x_leaves = tree.leaves(x)
        _, moved = jvp_flat(lambda *c: residual(c, x), list(values), list(tangents[0]))

        rhs = tree.unflatten(treedef, [neg(instantiate_zeros(t)) for t in moved])
        dx = tangent_solve(linear(values, x_leaves), rhs)
        _same_structure("tangent_solve", "x", tree.structure(x), tree.structure(dx))
        zeros = tree.map(lambda v: instantiate_zeros(Zero(typeof(v).to_tangent_aval())), aux)
        return (x, aux), (dx, zeros)

    x, aux = root(list(consts), list(held), tree.unflatten(treedef, leaves))
    # What is wrong with `tangent_solve` is found now, not by the first derivative.
    _, _, dx_tree = trace_function(
        lambda v: tangent_solve(linear(consts, leaves), v),
        tree.structure((initial_guess,)),
        program.out_avals,
        "custom_root",
    )
    _same_structure("tangent_solve", "x", treedef, dx_tree)
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
