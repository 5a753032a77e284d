"""numpy.linalg, numpy.fft and polynomials beside real JAX: values, dtypes, error classes,
derivatives.
"""

import re
from typing import Any

import jax
import jax.scipy.linalg
import numpy as np
import pytest
from oracle_compare import same

import pullback
import pullback.scipy.linalg

rng = np.random.default_rng(1)
A = rng.normal(size=(4, 4)).astype("float32")
B = rng.normal(size=(3, 4, 4)).astype("float32")
S = A @ A.T + np.eye(4, dtype="float32")
T = rng.normal(size=(5, 3)).astype("float32")
v = rng.normal(size=4).astype("float32")
C = (A + 1j * rng.normal(size=(4, 4))).astype("complex64")

LINALG = {
    "solve": lambda L: L.solve(A, v),
    "solveb": lambda L: L.solve(B, A),
    "inv": lambda L: L.inv(B),
    "invc": lambda L: L.inv(C),
    "det": lambda L: L.det(B),
    "det3": lambda L: L.det(B[:, :3, :3]),
    "detc": lambda L: L.det(C),
    "slogdet": lambda L: L.slogdet(B),
    "slogdetc": lambda L: L.slogdet(C),
    "chol": lambda L: L.cholesky(S),
    "chol of one triangle": lambda L: [
        L.cholesky(np.tril(S) + 9 * np.triu(A, 1), upper=upper, symmetrize_input=False)
        for upper in (False, True)
    ],
    "cholu": lambda L: L.cholesky(S, upper=True),
    "eigvalsh": lambda L: L.eigvalsh(S),
    "svdvals": lambda L: L.svdvals(T),
    "svdh": lambda L: L.svd(S, hermitian=True)[1],
    "qr": lambda L: L.qr(T),
    "qrr": lambda L: L.qr(T, mode="r"),
    "qrc": lambda L: L.qr(T, mode="complete")[1],
    "norm": lambda L: L.norm(A),
    "normv": lambda L: [L.norm(v, o) for o in (None, 1, 2, 3, 0, np.inf, -np.inf, 0.5, -1)],
    "normm": lambda L: [
        L.norm(B, o, axis=(1, 2)) for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    ],
    "normk": lambda L: [
        L.norm(B, o, axis=(2, 0), keepdims=True) for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf)
    ],
    "normi": lambda L: L.norm(np.array([3, 4])),
    "lstsq": lambda L: L.lstsq(T, rng.normal(size=5).astype("float32") * 0 + 1),
    "lstsq2": lambda L: L.lstsq(T, np.ones((5, 2), "float32"), numpy_resid=True),
    "lstsqrc": lambda L: L.lstsq(T, np.ones((5, 2), "float32"), rcond=0.5),
    "pinv": lambda L: L.pinv(T),
    "pinvh": lambda L: L.pinv(S, hermitian=True),
    "pinvb": lambda L: L.pinv(B),
    "rank": lambda L: L.matrix_rank(B),
    "rank1": lambda L: L.matrix_rank(np.ones((3, 3), "float32")),
    "rankv": lambda L: L.matrix_rank(v),
    "mp": lambda L: [L.matrix_power(A, k) for k in (0, 1, 2, 5, -3)],
    "cond": lambda L: [L.cond(A, p) for p in (None, 2, -2, 1, "fro", np.inf)],
    "multi": lambda L: L.multi_dot([T, T.T, T, np.ones(3, "float32")]),
    "tinv": lambda L: L.tensorinv(rng.normal(size=1) * 0 + np.eye(24).reshape(4, 6, 8, 3)),
    "tsolve": lambda L: L.tensorsolve(np.eye(6).reshape(2, 3, 6) * 2, np.ones((2, 3))),
    "vn": lambda L: [
        L.vector_norm(B, axis=(0, 2)),
        L.vector_norm(B),
        L.vector_norm(np.zeros((1, 0, 3)), axis=(0,), ord=-np.inf, keepdims=True),
        L.vector_norm(B, axis=1, ord=1, keepdims=True),
    ],
    "mn": lambda L: L.matrix_norm(B),
    "cross": lambda L: L.cross(T, T[::-1]),
    "outer": lambda L: L.outer(v, v),
    "mt": lambda L: L.matrix_transpose(B),
    "vecdot": lambda L: L.vecdot(T, T),
    "td": lambda L: L.tensordot(T, T, axes=((0,), (0,))),
    "diag": lambda L: L.diagonal(B, offset=1),
    "trace": lambda L: L.trace(B),
    "eigv": lambda L: np.sort(np.abs(L.eigvals(A))),
    "e1": lambda L: L.solve(A, np.ones(3)),
    "e2": lambda L: L.inv(T),
    "e3": lambda L: L.det(T),
    "e4": lambda L: L.norm(A, "zz"),
    "e5": lambda L: L.norm(v, "fro"),
    "e6": lambda L: L.qr(T, mode="q"),
    "e7": lambda L: L.matrix_power(A, 1.5),
    "e8": lambda L: L.cond(v),
    "e9": lambda L: L.det([[1.0, 2], [3, 4]]),
    "e10": lambda L: L.eigh(A, UPLO="x"),
    "e11": lambda L: L.svd(v),
    "e12": lambda L: L.norm(B, 2),
    "e13": lambda L: L.lstsq(T, v),
    "e14": lambda L: L.multi_dot([T, T]),
    "e15": lambda L: L.slogdet(A, method="z"),
    "zero": lambda L: L.det(np.zeros((0, 0), "float32")),
    "sing": lambda L: L.slogdet(np.zeros((2, 2), "float32")),
    "int": lambda L: L.det(np.array([[1, 2], [3, 4]])),
    "intinv": lambda L: L.inv(np.array([[1, 2], [3, 4]])),
    "eigh": lambda L: np.abs(L.eigh(S).eigenvectors),
}
FFT = {
    "fft": lambda F: F.fft(A),
    "fftn": lambda F: F.fftn(B),
    "fft n": lambda F: F.fft(T, 7, 0),
    "fft cut": lambda F: F.fft(T, 2),
    "rfft": lambda F: F.rfft(T, axis=0),
    "irfft": lambda F: F.irfft(C),
    "irfft n": lambda F: F.irfft(C, 5),
    "hfft": lambda F: F.hfft(C, norm="ortho"),
    "ihfft": lambda F: F.ihfft(T, norm="forward"),
    "fft2": lambda F: F.fft2(B, norm="ortho"),
    "ifft2": lambda F: F.ifft2(B, s=(3, 5), axes=(0, 1)),
    "rfft2": lambda F: F.rfft2(B),
    "irfft2": lambda F: F.irfft2(C),
    "rfftn": lambda F: F.rfftn(B, norm="forward"),
    "irfftn": lambda F: F.irfftn(C),
    "ifftn": lambda F: F.ifftn(C),
    "ifft": lambda F: F.ifft(C),
    "int": lambda F: F.fft(np.arange(4)),
    "bf": lambda F: F.fft(np.arange(4).astype("bfloat16")),
    "freq": lambda F: [F.fftfreq(5), F.fftfreq(4, 0.5), F.rfftfreq(5), F.rfftfreq(4, d=2)],
    "shift": lambda F: [F.fftshift(T), F.ifftshift(T, 0), F.ifftshift(v), F.fftshift(T, (0, 1))],
    "e1": lambda F: F.rfft(C),
    "e2": lambda F: F.fft(T, 0),
    "e3": lambda F: F.fft(T, norm="x"),
    "e4": lambda F: F.fft(T, axis=5),
    "e5": lambda F: F.fftn(T, axes=(0, 0)),
    "e6": lambda F: F.fft2(T, axes=(0,)),
    "e7": lambda F: F.fftn(T, s=(2,), axes=(0, 1)),
    "e8": lambda F: F.fft([1, 2]),
    "e9": lambda F: F.fft(T, axis=(0, 1)),
    "e10": lambda F: F.fftfreq([3]),
}
POLYNOMIALS = {
    "polyval": lambda N: N.polyval(v, T),
    "polyval i": lambda N: N.polyval(np.array([1, 2]), 3),
    "add": lambda N: N.polyadd(v, v[:2]),
    "sub": lambda N: N.polysub(v[:2], v),
    "mul": lambda N: N.polymul(v, v[:2]),
    "div": lambda N: N.polydiv(v, v[:2]),
    "der": lambda N: [N.polyder(v), N.polyder(v, 2), N.polyder(v, 9)],
    "int": lambda N: [N.polyint(v), N.polyint(v, 2, np.array([1.0, 2.0]))],
    "poly": lambda N: N.poly(v),
    "polym": lambda N: N.poly(S),
    "polyfit": lambda N: N.polyfit(np.arange(5.0), T[:, 0], 2),
    "polyfitw": lambda N: N.polyfit(np.arange(5.0), T, 1, w=np.arange(5.0) + 1),
    "polyfitc": lambda N: N.polyfit(np.arange(5.0), T[:, 0], 1, cov=True),
    "polyfitf": lambda N: N.polyfit(np.arange(5.0), T[:, 0], 1, full=True)[:4],
    "roots": lambda N: np.sort(N.roots(np.array([1.0, -6, 11, -6, 0]))),
    "rootsz": lambda N: np.sort(
        np.asarray(N.roots(np.array([0.0, 1.0, -3, 2]), strip_zeros=False))
    ),
    "win": lambda N: [
        N.bartlett(5),
        N.blackman(5),
        N.hamming(5),
        N.hanning(5),
        N.kaiser(5, 2.0),
        N.hanning(1),
        N.hanning(0),
    ],
    "e": lambda N: N.polyder(v, -1),
    "e2": lambda N: N.polyfit(v, T, 2),
    "e3": lambda N: N.polyval([1, 2], 3),
    "roots1": lambda N: N.roots(np.array([2.0])),
}
GRADIENTS = {
    "det": lambda L: lambda a: L.det(a),
    "slogdet": lambda L: lambda a: L.slogdet(a)[1],
    "inv": lambda L: lambda a: L.inv(a).sum(),
    "solve": lambda L: lambda a: L.solve(a, v).sum(),
    "norm": lambda L: lambda a: L.norm(a),
    "pinv": lambda L: lambda a: L.pinv(a[:, :2]).sum(),
    "matrix_power": lambda L: lambda a: L.matrix_power(a, 3).sum(),
    "svd": lambda L: lambda a: L.svd(a, compute_uv=False).sum(),
    "eigvalsh": lambda L: lambda a: L.eigvalsh(a)[0],
}


@pytest.mark.parametrize("name", LINALG)
def test_linalg(name):
    same(LINALG[name], "numpy.linalg", 5e-4, weak=False)


@pytest.mark.parametrize("name", FFT)
def test_fft(name):
    same(FFT[name], "numpy.fft", 5e-4)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    same(POLYNOMIALS[name], "numpy", 3e-3)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    f = GRADIENTS[name]
    want = jax.grad(f(jax.numpy.linalg))(jax.numpy.asarray(A))
    got = pullback.grad(f(pullback.numpy.linalg))(pullback.numpy.asarray(A))
    np.testing.assert_allclose(np.asarray(want), np.asarray(got), rtol=2e-3, atol=2e-3)


def test_det_has_a_derivative_where_the_inverse_does_not_exist():
    singular = np.diag(np.array([1, 2, 3, 0], "float32"))
    got = pullback.grad(pullback.numpy.linalg.det)(singular)
    np.testing.assert_allclose(np.asarray(got), np.diag([0, 0, 0, 6.0]), atol=1e-5)


def test_determinants_whose_factors_leave_the_range() -> None:
    for m in (
        np.diag([1e30, 1e30, 1e-30, -1e-30]),
        np.diag([1e-30, 1e-30, 1e30, 1e30]),
        np.diag([1e30, 1e30, 1e-30, 1e-30]) * np.exp(0.3j),
        np.diag([1e30, 1e30, 1e30, 1e30]),
        np.diag([1.0, np.inf, 0.0, 1.0]),
        np.zeros((4, 4)),
        np.full((4, 4), np.nan),
    ):
        m = m.astype(np.complex64 if np.iscomplexobj(m) else np.float32)
        same(lambda P, m=m: P.linalg.det(m), "numpy", 1e-4)


def test_transposed_systems_spread_no_nan() -> None:
    """Row exchanges move rows: they add no products of zeros with what is infinite."""
    a = np.array([[0, 2, 1], [1, 0, 3], [0, 0, 0]], np.float32)
    b = np.array([1, 2, 3], np.float32)
    for P in (pullback, jax):
        factors = P.scipy.linalg.lu_factor(a)
        x = P.scipy.linalg.lu_solve(factors, b, trans=1)
        np.testing.assert_array_equal(x, [np.nan, np.nan, -np.inf])
        (ct,) = P.vjp(lambda b, P=P: P.numpy.linalg.solve(a, b), b)[1](P.numpy.asarray(b))
        np.testing.assert_array_equal(ct, [np.nan, np.nan, -np.inf])


def test_factorisations_give_jaxs_containers_and_shapes() -> None:
    tall = np.arange(15, dtype=np.float32).reshape(5, 3) ** 2
    for P in (pullback, jax):
        L = P.lax.linalg
        assert all(type(f(S)) is list for f in (L.lu, L.hessenberg, L.tridiagonal))
        r, order = P.scipy.linalg.qr(tall, mode="r", pivoting=True)
        assert r.shape == (5, 3) and order.shape == (3,)
        same(lambda s: s.expm_frechet(A, S, method="blockEnlarge"), "scipy.linalg", 1e-3)


TEXTS = {
    "vector_norm": lambda L, x: L.vector_norm(x),
    "vector_norm of axes": lambda L, x: L.vector_norm(x, axis=(2, 0), keepdims=True),
    "vector_norm 3": lambda L, x: L.vector_norm(x, ord=3, keepdims=True),
    "norm 2.5": lambda L, x: L.norm(x[0, 0], ord=2.5),
    "matrix_rank": lambda L, x: L.matrix_rank(x),
    "matrix_power": lambda L, x: L.matrix_power(x @ x.mT, 5),
}


@pytest.mark.parametrize("name", TEXTS)
def test_programs_are_jaxs(name: str) -> None:
    x = np.ones((2, 3, 4), np.float32)
    texts = [
        str(P.make_jaxpr(lambda x, P=P: TEXTS[name](P.numpy.linalg, x))(x)) for P in (pullback, jax)
    ]
    assert texts[0] == re.sub(r"np\.int64\((\d+)\)", r"\1", texts[1])


M, HALF, STACK = np.ones((2, 3), np.float32), np.ones(3, np.float16), np.ones((2, 2, 2), np.float32)
NAMED = {
    "inv": lambda: pullback.numpy.linalg.inv(M),
    "det": lambda: pullback.numpy.linalg.det(M),
    "slogdet": lambda: pullback.numpy.linalg.slogdet(M),
    "solve": lambda: pullback.numpy.linalg.solve(M, M[0]),
    "lstsq": lambda: pullback.numpy.linalg.lstsq(M, np.ones(5, np.float32)),
    "lstsq ": lambda: pullback.numpy.linalg.lstsq(STACK, M),
    "matrix_power": lambda: pullback.numpy.linalg.matrix_power(M, 2),
    "cholesky": lambda: pullback.numpy.linalg.cholesky(M),
    "eigh": lambda: pullback.numpy.linalg.eigh(M),
    "pinv": lambda: pullback.numpy.linalg.pinv(HALF),
    "expm": lambda: pullback.scipy.linalg.expm(M),
}


@pytest.mark.parametrize("name", NAMED)
def test_refusals_name_function_shape_and_dtype(name: str) -> None:
    with pytest.raises((TypeError, ValueError)) as info:
        NAMED[name]()
    assert name.strip() in str(info.value)
    assert re.search(r"float(32|16)\[[\d,]+\]", str(info.value)), info.value


CORE = {
    "solve": lambda n, _: n.linalg.solve(n.ones((3, 3)), n.ones(4)),
    "solve of matrices": lambda n, _: n.linalg.solve(n.ones((2, 3, 3)), n.ones((2, 4, 2))),
    "solve of a scalar": lambda n, _: n.linalg.solve(n.ones((3, 3)), n.ones(())),
    "solve by no square": lambda n, _: n.linalg.solve(n.ones((3, 2)), n.ones((3, 2))),
    "stack of vectors": lambda n, _: n.linalg.solve(n.ones((2, 3, 3)), n.ones((2, 3))),
    "matvec": lambda n, _: n.matvec(n.ones((2, 3)), n.ones(4)),
    "matvec of vectors": lambda n, _: n.matvec(n.ones(3), n.ones(3)),
    "vecmat": lambda n, _: n.vecmat(n.ones(4), n.ones((3, 2))),
    "lu_solve": lambda n, s: s.linalg.lu_solve((n.ones((3, 3)), n.arange(3)), n.ones((4, 2))),
    "cho_solve": lambda n, s: s.linalg.cho_solve((n.ones((3, 3)), True), n.ones(4)),
    "solve_triangular": lambda n, s: s.linalg.solve_triangular(n.ones((3, 3)), n.ones(())),
}


@pytest.mark.parametrize("call", CORE.values(), ids=CORE)
def test_sizes_of_core_axes(call: Any) -> None:
    """Told in JAX's words, and by which function and shapes."""
    with pytest.raises(ValueError) as theirs:
        call(jax.numpy, jax.scipy)
    with pytest.raises(ValueError) as ours:
        call(pullback.numpy, pullback.scipy)
    words = str(theirs.value).partition(" on vectorized function")[0].partition("Prior")[0]
    assert str(ours.value).startswith(words)
