"""Linear algebra on other platforms than CPUs: what StableHLO has itself, what CUDA's and ROCm's
solvers have, what XLA's compiler for TPUs has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import dtypes
from ....primitives.linalg_systems import triangle
from ..contexts import LoweringRuleContext
from ..library import hlo, ir
from ..lowering import rule as everywhere
from ..types import i32_attr, type_of
from .build import flag, full
from .linalg import Call, _permutation, _q_and_r, composed, custom_call, rule

_GPUS = {"cuda": "cusolver", "rocm": "hipsolver"}


# --- what StableHLO has ---
@everywhere("cholesky")
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
    """A function of a GPU's solver for a stack of matrices."""

    def __init__(self, ctx: LoweringRuleContext, aval: Any) -> None:
        super().__init__(aval)
        (platform,) = ctx.platforms or ctx.module_context.platforms
        self.library = _GPUS[platform]

    def __call__(
        self, name: str, values: Sequence[Any], avals: Sequence[Any], outs: Sequence[Any],
        attributes: dict[str, Any] | None = None, in_place: Sequence[tuple[int, int]] = (),
    ) -> list[Any]:  # fmt: skip
        target, batch = f"{self.library}_{name}_ffi", len(self.batch)
        return custom_call(target, values, avals, outs, batch, attributes or {}, in_place)


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
    if pivoting:
        raise NotImplementedError(
            "qr with pivoting is not lowered for GPUs. Fix: pivoting=False, or compute it on a CPU."
        )
    (aval,) = ctx.avals_in
    run = Solver(ctx, aval)
    taus = run.aval(min(aval.shape[-2:]))
    packed, scales = run("geqrf", [x], [aval], [aval, taus], in_place=[(0, 0)])
    return _finished(ctx, [packed, scales], [aval, taus], full_matrices)


def _finished(
    ctx: LoweringRuleContext, values: Sequence[Any], avals: Sequence[Any], full_matrices: bool
) -> list[Any]:
    return composed(ctx, lambda packed, taus: _q_and_r(packed, taus, full_matrices), values, avals)


@rule("eigh", *_GPUS)
def _eigh_gpu(
    ctx: LoweringRuleContext, x: Any, *, lower: bool, subset_by_index: Any, **_: Any
) -> list[Any]:
    (aval,) = ctx.avals_in
    _whole(subset_by_index, aval.shape[-1])
    run = Solver(ctx, aval)
    values = run.aval(aval.shape[-1], dtype=ctx.avals_out[1].dtype)
    kind = ir.IntegerAttr.get(ir.IntegerType.get_unsigned(8), 0)
    options = {"algorithm": kind, "lower": flag(lower)}
    v, w, info = run("syevd", [x], [aval], [aval, values, run.info], options, in_place=[(0, 0)])
    return run.checked([v, w], [aval, values], info, "EQ")


def _whole(subset: Any, size: int) -> None:
    if subset is not None and tuple(subset) != (0, size):
        raise NotImplementedError("subset_by_index not supported on this platform")


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
