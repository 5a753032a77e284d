"""Linear algebra on other platforms than CPUs: what StableHLO has itself, what CUDA's and ROCm's
solvers have, what XLA's compiler for TPUs has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import dtypes
from ....core.avals import ShapedArray
from ....primitives import linalg_factor as factor
from ....primitives.elementwise import conj, convert_element_type
from ....primitives.layout import transpose
from ....primitives.linalg_systems import triangle
from ....primitives.shape import slice_in_dim
from ..contexts import LoweringRuleContext
from ..library import hlo, ir
from ..lowering import rule as everywhere
from ..types import i32_attr, type_of
from .build import flag, full
from .linalg import (
    Call,
    _eigen,
    _permutation,
    _q_and_r,
    _singular_subset,
    _svd_avals,
    composed,
    custom_call,
    rule,
)

_GPUS = {"cuda": "cu", "rocm": "hip"}  # what names of their functions begin with
_JACOBI_SIZE = 1024  # svd: up to here rotations are faster than bidiagonal forms
_JACOBI_WHOLE = 32  # kernels for stacks of small matrices have square factors only
_MAGMA = {None: "auto", True: "on", False: "off"}
_EIG_MAGMA = {
    None: None,
    factor.EigImplementation.MAGMA: True,
    factor.EigImplementation.LAPACK: False,
}
_EIGH_KINDS = {None: 0, factor.EighImplementation.QR: 1, factor.EighImplementation.JACOBI: 2}


# --- what StableHLO has ---
@everywhere("cholesky", "library_cholesky")
def _cholesky(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    out = hlo.cholesky(x, lower=flag(True))
    return composed(ctx, lambda a: triangle(a), [out], ctx.avals_in)


@everywhere("triangular_solve")
def _triangular_solve(
    ctx: LoweringRuleContext, a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool,
    conjugate_a: bool, unit_diagonal: bool,
) -> list[Any]:  # fmt: skip
    if conjugate_a and not transpose_a and dtypes.is_complex(ctx.avals_in[0].dtype):
        real, imag = hlo.real(a), hlo.imag(a)
        a, conjugate_a = hlo.complex(real, hlo.negate(imag)), False
    turn = "NO_TRANSPOSE" if not transpose_a else "ADJOINT" if conjugate_a else "TRANSPOSE"
    return [
        hlo.triangular_solve(
            a, b, flag(left_side), flag(lower), flag(unit_diagonal), hlo.TransposeAttr.get(turn)
        )
    ]


# --- solvers of CUDA and ROCm ---
class Solver(Call):
    """Functions of a GPU's libraries for a stack of matrices."""

    def __init__(self, ctx: LoweringRuleContext, aval: Any) -> None:
        super().__init__(aval)
        (platform,) = ctx.platforms or ctx.module_context.platforms
        self.prefix = _GPUS[platform]

    def __call__(
        self, name: str, values: Sequence[Any], avals: Sequence[Any], outs: Sequence[Any],
        attributes: dict[str, Any] | None = None, in_place: Sequence[tuple[int, int]] = (),
        *, by_rows: bool = False,
    ) -> list[Any]:  # fmt: skip
        """One of the solver's functions."""
        target, attributes = f"solver_{name}_ffi", attributes or {}
        return self.call(target, values, avals, outs, attributes, in_place, by_rows=by_rows)

    def call(
        self, target: str, values: Sequence[Any], avals: Sequence[Any], outs: Sequence[Any],
        attributes: dict[str, Any], in_place: Sequence[tuple[int, int]] = (),
        *, by_rows: bool = False,
    ) -> list[Any]:  # fmt: skip
        """A function of any of the libraries."""
        return custom_call(
            f"{self.prefix}{target}", values, avals, outs, len(self.batch), attributes, in_place,
            by_rows=by_rows,
        )  # fmt: skip


@rule("cholesky", *_GPUS)
def _cholesky_gpu(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    (aval,) = ctx.avals_in
    run = Solver(ctx, aval)
    out, info = run("potrf", [x], [aval], [aval, run.info], {"lower": flag(True)}, [(0, 0)])
    return composed(ctx, lambda a: triangle(a), run.checked([out], [aval], info, "EQ"), [aval])


@rule("lu", *_GPUS)
def _lu_gpu(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    (aval,), (_, pivots, _) = ctx.avals_in, ctx.avals_out
    run = Solver(ctx, aval)
    out, places, info = run("getrf", [x], [aval], [aval, pivots, run.info], in_place=[(0, 0)])
    places = hlo.subtract(places, full(1, pivots))
    (out,) = run.checked([out], [aval], info, "GE")
    (order,) = composed(ctx, lambda p: _permutation(p, aval.shape[-2]), [places], [pivots])
    return [out, places, order]


@rule("geqrf", *_GPUS)
def _geqrf_gpu(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    run = Solver(ctx, ctx.avals_in[0])
    return run("geqrf", [x], ctx.avals_in, ctx.avals_out, in_place=[(0, 0)])


@rule("householder_product", *_GPUS)
def _householder_gpu(ctx: LoweringRuleContext, a: Any, taus: Any) -> list[Any]:
    run = Solver(ctx, ctx.avals_in[0])
    return run("orgqr", [a, taus], ctx.avals_in, ctx.avals_out, in_place=[(0, 0)])


@rule("qr", *_GPUS)
def _qr_gpu(
    ctx: LoweringRuleContext, x: Any, *, pivoting: bool, full_matrices: bool, use_magma: Any
) -> list[Any]:
    (aval,) = ctx.avals_in
    run = Solver(ctx, aval)
    taus = run.aval(min(aval.shape[-2:]))
    if not pivoting:
        packed, scales = run("geqrf", [x], [aval], [aval, taus], in_place=[(0, 0)])
        return _finished(ctx, [packed, scales], [aval, taus], full_matrices)
    order = run.aval(aval.shape[-1], dtype=np.int32)
    packed, places, scales = run.call(
        "hybrid_geqp3", [x, full(0, order)], [aval, order], [aval, order, taus],
        _magma(use_magma), [(0, 0), (1, 1)],
    )  # fmt: skip
    factors = _finished(ctx, [packed, scales], [aval, taus], full_matrices)
    return [*factors, hlo.subtract(places, full(1, order))]


def _magma(use_magma: bool | None) -> dict[str, Any]:
    """Whether MAGMA's function is called; where it is not, LAPACK's on the host is."""
    return {"magma": ir.StringAttr.get(_MAGMA[use_magma])}


def _finished(
    ctx: LoweringRuleContext, values: Sequence[Any], avals: Sequence[Any], full_matrices: bool
) -> list[Any]:
    return composed(ctx, lambda packed, taus: _q_and_r(packed, taus, full_matrices), values, avals)


@rule("eigh", *_GPUS)
def _eigh_gpu(
    ctx: LoweringRuleContext, x: Any, *, lower: bool, subset_by_index: Any, algorithm: Any,
    **_: Any,
) -> list[Any]:  # fmt: skip
    if algorithm not in _EIGH_KINDS:
        raise NotImplementedError(
            f"eigh by {algorithm} is not lowered for GPUs. Fix: EighImplementation.QR, JACOBI."
        )
    (aval,) = ctx.avals_in
    _whole(subset_by_index, aval.shape[-1])
    run = Solver(ctx, aval)
    values = run.aval(aval.shape[-1], dtype=ctx.avals_out[1].dtype)
    kind = ir.IntegerAttr.get(ir.IntegerType.get_unsigned(8), _EIGH_KINDS[algorithm])
    options = {"algorithm": kind, "lower": flag(lower)}
    v, w, info = run("syevd", [x], [aval], [aval, values, run.info], options, in_place=[(0, 0)])
    return run.checked([v, w], [aval, values], info, "EQ")


def _whole(subset: Any, size: int) -> None:
    if subset is not None and tuple(subset) != (0, size):
        raise NotImplementedError(
            f"eigh: subset_by_index not supported on this platform, got {subset}. Fix: leave it "
            "out, and take the part of the results."
        )


@rule("ormqr", *_GPUS)
def _ormqr_gpu(
    ctx: LoweringRuleContext, a: Any, taus: Any, c: Any, *, left: bool, transpose: bool
) -> list[Any]:
    options = {"left": flag(left), "transpose": flag(transpose)}
    run = Solver(ctx, ctx.avals_in[0])
    return run("ormqr", [a, taus, c], ctx.avals_in, ctx.avals_out, options, [(0, 2)])


@rule("eig", *_GPUS)
def _eig_gpu(
    ctx: LoweringRuleContext, x: Any, *, compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool, implementation: Any, **_: Any,
) -> list[Any]:  # fmt: skip
    if implementation not in _EIG_MAGMA:
        raise NotImplementedError(
            f"eig by {implementation} is not lowered for GPUs. Fix: EigImplementation.LAPACK."
        )
    (aval,) = ctx.avals_in
    run = Solver(ctx, aval)
    wanted = [compute_left_eigenvectors, compute_right_eigenvectors]
    options = {"left": flag(wanted[0]), "right": flag(wanted[1])}
    options |= _magma(_EIG_MAGMA[implementation])
    target = "hybrid_eig_comp" if dtypes.is_complex(aval.dtype) else "hybrid_eig_real"
    return _eigen(ctx, run, wanted, lambda outs: run.call(target, [x], [aval], outs, options))


@rule("svd", *_GPUS)
def _svd_gpu(
    ctx: LoweringRuleContext, x: Any, *, full_matrices: bool, compute_uv: bool,
    subset_by_index: Any, algorithm: Any,
) -> list[Any]:  # fmt: skip
    (aval,) = ctx.avals_in
    run = Solver(ctx, aval)
    make = _by_bidiagonals if _is_bidiagonal(algorithm, aval.shape) else _by_rotations
    found, info = make(ctx, run, x, full_matrices, compute_uv, algorithm)
    size = min(aval.shape[-2:])
    avals = _svd_avals(run, aval, ctx.avals_out[0].dtype, full_matrices)
    avals = avals if compute_uv else avals[:1]
    found = run.checked(found, avals, info, "EQ")
    return _singular_subset(found, avals, subset_by_index, size)


def _is_bidiagonal(algorithm: Any, shape: Sequence[int]) -> bool:
    kinds = factor.SvdAlgorithm
    if algorithm in (None, kinds.DEFAULT):
        return max(shape[-2:]) > _JACOBI_SIZE
    return algorithm in (kinds.QR, kinds.DIVIDE_AND_CONQUER)


def _by_bidiagonals(
    ctx: LoweringRuleContext, run: Solver, x: Any, full_matrices: bool, compute_uv: bool,
    algorithm: Any,
) -> tuple[list[Any], Any]:  # fmt: skip
    """Singular values and vectors, and a report. `gesvd` takes no wide matrices: those are given by
    rows, as their transposes, whose factors are theirs in turn."""
    (aval,), dtype = ctx.avals_in, ctx.avals_out[0].dtype
    m, n = aval.shape[-2:]
    name = "gesdd" if algorithm is factor.SvdAlgorithm.DIVIDE_AND_CONQUER else "gesvd"
    if name == "gesdd" and run.prefix == "cu":
        raise NotImplementedError(
            "svd by SvdAlgorithm.DIVIDE_AND_CONQUER is only supported on ROCm's GPUs and on CPUs, "
            "not on CUDA's. Fix: algorithm=SvdAlgorithm.QR."
        )
    wide = m < n and name == "gesvd"
    values, *vectors = _svd_avals(run, aval, dtype, full_matrices)
    vectors = vectors[::-1] if wide else vectors
    vectors = vectors if compute_uv else [ShapedArray((), aval.dtype)] * 2
    options = {"compute_uv": flag(compute_uv), "full_matrices": flag(full_matrices)}
    options["transposed"] = flag(wide)
    _, s, first, second, info = run(
        name, [x], [aval], [aval, values, *vectors, run.info], options, [(0, 0)], by_rows=wide
    )
    u, vt = (second, first) if wide else (first, second)
    return [s, u, vt] if compute_uv else [s], info


def _by_rotations(
    ctx: LoweringRuleContext, run: Solver, x: Any, full_matrices: bool, compute_uv: bool,
    algorithm: Any,
) -> tuple[list[Any], Any]:  # fmt: skip
    """Singular values and vectors, and a report: by Jacobi's rotations, or by the polar factor.
    The functions give V, not its adjoint."""
    (aval,), dtype = ctx.avals_in, ctx.avals_out[0].dtype
    m, n = aval.shape[-2:]
    size, polar = min(m, n), algorithm is factor.SvdAlgorithm.POLAR
    whole = full_matrices or (size <= _JACOBI_WHOLE and not polar)
    values, u, vt = _svd_avals(run, aval, dtype, whole)
    v = run.aval(n, vt.shape[-2])
    options = {"compute_uv": flag(compute_uv), "full_matrices": flag(whole)}
    outs = [aval, values, u, v, run.info]
    _, s, left, right, info = run(
        "gesvdp" if polar else "gesvdj", [x], [aval], outs, options, [(0, 0)]
    )
    if not compute_uv:
        return [s], info

    def kept(left: Any, right: Any) -> tuple[Any, Any]:
        rank = len(aval.shape)
        turned = transpose(right, (*range(rank - 2), rank - 1, rank - 2))
        if dtypes.is_complex(aval.dtype):
            turned = convert_element_type(conj(turned), aval.dtype)
        if full_matrices:
            return left, turned
        return slice_in_dim(left, 0, size, axis=rank - 1), slice_in_dim(
            turned, 0, size, axis=rank - 2
        )

    return [s, *composed(ctx, kept, [left, right], [u, v])], info


@rule("tridiagonal", *_GPUS)
def _tridiagonal_gpu(ctx: LoweringRuleContext, x: Any, *, lower: bool) -> list[Any]:
    (aval,) = ctx.avals_in
    run = Solver(ctx, aval)
    outs = [*ctx.avals_out, run.info]
    *found, info = run("sytrd", [x], [aval], outs, {"lower": flag(lower)}, [(0, 0)])
    return run.checked(found, ctx.avals_out, info, "EQ")


@rule("tridiagonal_solve", *_GPUS)
def _tridiagonal_solve_gpu(
    ctx: LoweringRuleContext, dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool
) -> list[Any]:
    run = Solver(ctx, ctx.avals_in[3])
    target = "_tridiagonal_solve_perturbed" if perturb_singular else "sparse_gtsv2_ffi"
    same = [] if perturb_singular else [(0, 3)]
    return run.call(target, [dl, d, du, b], ctx.avals_in, ctx.avals_out, {}, same)


# --- what XLA's compiler for TPUs has ---
def _tpu_call(
    target: str, values: Sequence[Any], outs: Sequence[Any], config: str = "", version: int = 1
) -> list[Any]:
    more = {"api_version": i32_attr(version)} if version != 1 else {}
    op = hlo.CustomCallOp(
        [type_of(a) for a in outs], list(values), call_target_name=ir.StringAttr.get(target),
        backend_config=ir.StringAttr.get(config), **more,
    )  # fmt: skip
    return list(op.results)


@rule("lu", "tpu")
def _lu_tpu(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    return _tpu_call("LuDecomposition", [x], ctx.avals_out, version=2)


@rule("geqrf", "tpu")
def _geqrf_tpu(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    return _tpu_call("Qr", [x], ctx.avals_out)


@rule("householder_product", "tpu")
def _householder_tpu(ctx: LoweringRuleContext, a: Any, taus: Any) -> list[Any]:
    return _tpu_call("ProductOfElementaryHouseholderReflectors", [a, taus], ctx.avals_out)


@rule("qr", "tpu")
def _qr_tpu(
    ctx: LoweringRuleContext, x: Any, *, pivoting: bool, full_matrices: bool, use_magma: Any
) -> list[Any]:
    if pivoting:
        raise NotImplementedError(
            "qr with pivoting is not lowered for TPUs. Fix: pivoting=False, or compute it on a CPU."
        )
    (aval,) = ctx.avals_in
    taus = Call(aval).aval(min(aval.shape[-2:]))
    found = _tpu_call("Qr", [x], [aval, taus])
    return _finished(ctx, found, [aval, taus], full_matrices)


@rule("eigh", "tpu")
def _eigh_tpu(
    ctx: LoweringRuleContext, x: Any, *, lower: bool, sort_eigenvalues: bool,
    subset_by_index: Any, **_: Any,
) -> list[Any]:  # fmt: skip
    (aval,) = ctx.avals_in
    _whole(subset_by_index, aval.shape[-1])
    config = f"{int(lower)},{int(sort_eigenvalues)},100,1e-6"
    return _tpu_call("Eigh", [x], ctx.avals_out, config)
