"""scipy's names beside real JAX: values, dtypes, error classes, and derivatives of special
functions and solvers.
"""

import subprocess
import sys
import warnings

import jax
import jax.scipy.cluster.vq
import jax.scipy.fft
import jax.scipy.integrate
import jax.scipy.interpolate
import jax.scipy.optimize
import jax.scipy.sparse.linalg
import jax.scipy.spatial.transform
import jax.scipy.stats
import numpy as np
import pytest
import scipy.fft
import scipy.signal
import scipy.special
from oracle_compare import same

import pullback
import pullback.scipy
from pullback.experimental.sparse import BCOO
from pullback.scipy.windows import window_of

XS = np.array([-3.7, -2, -1.2, -0.5, 0.1, 0.3, 0.5, 0.9, 1, 1.7, 2.5, 5, 12, 60], "float32")
U = np.linspace(0, 1, 11).astype("float32")
P, Q = np.array([1.5, 2, 3, 4.5, 8], "float32"), np.array([1.5, 0.3, 2, 9, 20], "float32")
Y = np.array([0.1, 0.5, 0.7, 0.9, 0.3], "float32")
UNARY = (
    "entr erf erfc erfinv expit logit gammaln loggamma gamma gammasgn digamma i0 i0e i1 i1e ndtr "
    "log_ndtr expi exp1 erfcx dawsn "
    "spence factorial fresnel sici"
).split()
BINARY = "xlogy xlog1py betaln beta rel_entr kl_div boxcox boxcox1p comb gammainc gammaincc zeta poch owens_t".split()  # noqa: E501


@pytest.mark.parametrize("name", UNARY)
def test_special_unary(name):
    same(lambda s: getattr(s, name)(XS), "scipy.special", 3e-4)


@pytest.mark.parametrize("name", BINARY)
def test_special_binary(name):
    same(lambda s: getattr(s, name)(P, Q), "scipy.special", 3e-4)


@pytest.mark.parametrize(
    "f",
    [
        lambda s: s.ndtri(U),
        lambda s: s.polygamma(1, P),
        lambda s: s.multigammaln(P + 3, 3),
        lambda s: s.betainc(P, Q, Y),
        lambda s: s.bernoulli(8),
        lambda s: s.expn(np.arange(5), P),
        lambda s: s.bessel_jn(P[3:], v=3),  # of smaller arguments JAX has NaN: see below
        lambda s: s.hyp1f1(P, Q, np.array([0.5, -2, 3, 20, -1], "float32")),
        lambda s: s.hyp2f1(P, Q, P + Q + 0.3, Y),
        lambda s: s.sph_harm_y(np.array([2, 3]), np.array([1, -2]), P[:2], Q[:2]),
        lambda s: s.wofz(np.array([1 + 1j, -2 - 0.5j, 3 + 0j], "complex64")),
        lambda s: s.softmax(XS),
        lambda s: s.log_softmax(XS),
        lambda s: s.gammaln(np.array([1, 2])),
        lambda s: s.erf([1.0]),
    ],
)
def test_special(f):
    same(f, "scipy.special", 1e-3)


@pytest.mark.parametrize(
    "name", "entr logit gammaln digamma i0 i1 ndtr ndtri log_ndtr expi erfcx dawsn spence".split()
)
def test_special_derivatives(name):
    want = jax.vmap(jax.grad(getattr(jax.scipy.special, name)))(Y)
    got = pullback.vmap(pullback.grad(getattr(pullback.scipy.special, name)))(Y)
    np.testing.assert_allclose(np.asarray(want), np.asarray(got), rtol=1e-3, atol=1e-3)


SHAPES = {
    "norm": (),
    "cauchy": (),
    "expon": (),
    "gumbel_l": (),
    "gumbel_r": (),
    "laplace": (),
    "logistic": (),
    "uniform": (),
    "beta": (2.0, 3.0),
    "chi2": (3.0,),
    "gamma": (2.5,),
    "pareto": (2.0,),
    "t": (4.0,),
    "truncnorm": (-1.0, 2.0),
    "bernoulli": (0.3,),
    "betabinom": (7.0, 2.0, 3.0),
    "binom": (7.0, 0.4),
    "geom": (0.3,),
    "nbinom": (4.0, 0.4),
    "poisson": (2.3,),
    "vonmises": (2.0,),
    "wrapcauchy": (0.5,),
    "gennorm": (1.5,),
}


@pytest.mark.parametrize("name", SHAPES)
def test_distribution(name):
    x = np.array([-2, -0.5, 0, 0.3, 0.8, 1, 2.5, 7], "float32")
    counts = np.arange(-1, 9).astype("float32")
    for f in getattr(pullback.scipy.stats, name).__all__:
        if f == "entropy":
            same(lambda m: m.poisson.entropy(P), "scipy.stats", 1e-3)
            continue
        points = (
            U
            if f in ("ppf", "isf")
            else counts
            if "pmf" in f or name in ("bernoulli", "poisson")
            else x
        )
        same(
            lambda m, f=f, points=points: getattr(getattr(m, name), f)(points, *SHAPES[name]),
            "scipy.stats",
            5e-4,
            weak=False,
        )


@pytest.mark.parametrize(
    "f",
    [
        lambda s: s.multivariate_normal.logpdf(
            XS[:8].reshape(4, 2), np.zeros(2, "float32"), np.array([[2, 0.5], [0.5, 1]], "float32")
        ),
        lambda s: s.multivariate_normal.logpdf(XS, 0.5, 2.0),
        lambda s: s.dirichlet.logpdf(np.array([0.2, 0.3, 0.5], "float32"), P[:3]),
        lambda s: s.multinomial.logpmf(np.array([1, 2]), 3, np.array([0.4, 0.6], "float32")),
        lambda s: s.mode(np.array([[1, 2], [1, 3], [2, 3]])),
        lambda s: [
            s.rankdata(np.array([3, 1, 2, 1.0, 3]), m)
            for m in ("average", "min", "max", "dense", "ordinal")
        ],
        lambda s: s.sem(XS),
        lambda s: s.gaussian_kde(XS).evaluate(P),
    ],
)
def test_statistics(f):
    same(f, "scipy.stats", 1e-3, weak=False)


rng = np.random.default_rng(0)
A = rng.normal(size=(4, 4)).astype("float32")
B = rng.normal(size=(4, 3)).astype("float32")
SP = (A @ A.T + np.eye(4)).astype("float32")
v = rng.normal(size=4).astype("float32")
LINALG = {
    "chol": lambda L: L.cholesky(SP),
    "choll": lambda L: L.cholesky(SP, lower=True),
    "chosolve": lambda L: [
        L.cho_solve(L.cho_factor(SP), v),
        L.cho_solve(L.cho_factor(SP, lower=True), B),
    ],
    "lu": lambda L: L.lu(A),
    "lul": lambda L: L.lu(B, permute_l=True),
    "lusolve": lambda L: [L.lu_solve(L.lu_factor(A), v, trans=t) for t in (0, 1, 2)],
    "st": lambda L: [
        L.solve_triangular(A, v, trans=t, lower=l) for t in (0, 1, "C") for l in (True, False)
    ],
    "solve": lambda L: [L.solve(SP, v, assume_a="pos"), L.solve(A, B)],
    "inv": lambda L: L.inv(A),
    "det": lambda L: L.det(A),
    "svd": lambda L: L.svd(B, compute_uv=False),
    "eigh": lambda L: L.eigh(SP, eigvals_only=True),
    "qr": lambda L: L.qr(B),
    "qre": lambda L: L.qr(B, mode="economic"),
    "qrr": lambda L: L.qr(B, mode="r"),
    "expm": lambda L: L.expm(A),
    "expmb": lambda L: L.expm(np.stack([A, A * 10, A * 0.1])),
    "expf": lambda L: L.expm_frechet(A, A.T),
    "bd": lambda L: L.block_diag(A, 1.0, v),
    "toep": lambda L: [L.toeplitz(v), L.toeplitz(v, B[:, 0])],
    "hankel": lambda L: [L.hankel(v), L.hankel(v, v)],
    "circ": lambda L: L.circulant(v),
    "comp": lambda L: L.companion(v),
    "fied": lambda L: [L.fiedler(v), L.fiedler_companion(v)],
    "leslie": lambda L: L.leslie(v, v[1:]),
    "leslie of integers": lambda L: L.leslie(np.arange(3), np.array([True, False])),
    "cm": lambda L: [L.convolution_matrix(v, 3, m) for m in ("full", "same", "valid")],
    "dft": lambda L: [L.dft(4), L.dft(3, "sqrtn")],
    "had": lambda L: L.hadamard(4),
    "hel": lambda L: [L.helmert(4), L.helmert(3, True)],
    "hil": lambda L: [L.hilbert(3), L.invhilbert(3)],
    "pas": lambda L: (
        [L.pascal(4, k) for k in (None, "lower", "upper")]
        + [L.invpascal(4, k) for k in (None, "lower", "upper")]
    ),
    "polar": lambda L: L.polar(A),
    "syl": lambda L: L.solve_sylvester(A, SP[:3, :3] + 5 * np.eye(3, dtype="float32"), B),
    "eightri": lambda L: L.eigh_tridiagonal(v, v[1:], eigvals_only=True),
    "e1": lambda L: L.lu_solve(L.lu_factor(A), v, trans=5),
    "e2": lambda L: L.solve(A, v, assume_a="zz"),
    "e3": lambda L: L.expm(B),
    "e4": lambda L: L.qr(A, mode="z"),
}


@pytest.mark.parametrize("name", LINALG)
def test_linalg(name):
    same(LINALG[name], "scipy.linalg", 3e-3, weak=False)


x = rng.normal(size=(6, 7)).astype("float32")
k2 = rng.normal(size=(3, 2)).astype("float32")
s = rng.normal(size=300).astype("float32")
G = {}
for m in ("full", "same", "valid"):
    for n in ("convolve", "correlate", "convolve2d", "correlate2d", "fftconvolve"):
        G[n + m] = lambda G, n=n, m=m: getattr(G, n)(x, k2, m)
        G[n + m + "r"] = lambda G, n=n, m=m: getattr(G, n)(k2, x, m)
    G["c1" + m] = lambda G, m=m: [G.convolve(v, s[:9], m), G.correlate(v, s[:9], m, method="fft")]
G.update(
    {
        "det": lambda G: [
            G.detrend(x),
            G.detrend(x, axis=0, type="constant"),
            G.detrend(s, bp=[100]),
        ],
        "stft": lambda G: G.stft(s, nperseg=32),
        "stft2": lambda G: G.stft(x, nperseg=4, axis=0),
        "welch": lambda G: G.welch(s, nperseg=64),
        "csd": lambda G: G.csd(s, s[::-1].copy(), nperseg=64, average="median"),
        "istft": lambda G: G.istft(G.stft(s, nperseg=32)[2], nperseg=32),
        "istft of integers": lambda G: [
            G.istft(np.arange(9).reshape(3, 3).astype(d)) for d in ("uint8", "float16")
        ],
        "spec": lambda G: G.welch(
            s, fs=10.0, nperseg=50, noverlap=10, nfft=64, scaling="spectrum", detrend="linear"
        ),
        "ec": lambda G: G.convolve2d(x, k2, boundary="wrap"),
        "em": lambda G: G.convolve(x, k2, "z"),
    }
)


@pytest.mark.parametrize("name", G)
def test_signal(name):
    same(G[name], "scipy.signal", 1e-3)


def test_usual_windows_without_scipys():
    """Those that programs name most are SciPy's to the bit, whose import they spare the first
    call."""
    names = ("boxcar", "hann", "hamming", "blackman", "nuttall", "blackmanharris")
    for name in (*names, ("kaiser", 4.0), "triang"):
        for length in (1, 2, 3, 50, 256, 1001):
            want = scipy.signal.get_window(name, length)
            np.testing.assert_array_equal(window_of(name, length), want)
    code = """
import sys, numpy as np, pullback
pullback.scipy.signal.stft(np.ones(1000, np.float32))
assert "scipy.signal" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
@pytest.mark.parametrize("order", [0, 1])
def test_map_coordinates(mode, order):
    points = [np.linspace(-3, 9, 9), np.linspace(-4, 10, 9)]
    same(lambda n: n.map_coordinates(x, points, order, mode, 1.0), "scipy.ndimage", 1e-4)


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_operators_of_solvers(name):
    """Functions, arrays and sparse arrays; the solution is as weak as JAX's."""
    ours, theirs = (getattr(m.scipy.sparse.linalg, name) for m in (pullback, jax))
    for A, b in ((lambda x: x, 1.0), (lambda x: x * np.float32(2), 1.0), (np.eye(2), np.ones(2))):
        got, want = ours(A, b)[0], theirs(A, b)[0]
        assert got.aval.weak_type == want.aval.weak_type
        np.testing.assert_allclose(got, want, atol=1e-6)
    wrong = [(A, TypeError) for A in (None, [[1.0]], "a", 2.0)]
    for A, error in [*wrong, (np.zeros((1, 2)), ValueError)]:
        for solve in (ours, theirs):
            with pytest.raises(error, match="linear operator must be"):
                solve(A, np.ones(1))
    m = BCOO.fromdense(np.diag([2.0, 4.0]).astype("float32"))
    np.testing.assert_allclose(ours(m, np.ones(2))[0], [0.5, 0.25], rtol=1e-6)


def test_an_interpolator_is_a_pytree():
    grid, values = (np.arange(3.0), np.arange(4.0)), np.arange(12.0).reshape(3, 4)
    at = np.array([[0.5, 1.2], [5.0, 0.0]])
    for m in (pullback, jax):
        f = m.scipy.interpolate.RegularGridInterpolator(grid, values, fill_value=7.0)
        assert [np.shape(x) for x in m.tree.leaves(f)] == [(3,), (4,), (3, 4), ()]
        got = m.jit(lambda f, x: f(x))(f, at)
        np.testing.assert_allclose(got, [3.2, 7.0], rtol=1e-6)
        by_values = m.grad(lambda f: f(at).sum(), allow_int=True)(f).values
        np.testing.assert_allclose(np.sum(by_values), 1.0, rtol=1e-6)


@pytest.mark.parametrize("name", ["dctn", "idctn"])
def test_axes_of_transforms_are_named_once(name):
    for m in (pullback, jax):
        with pytest.raises(ValueError, match="repeated axis"):
            getattr(m.scipy.fft, name)(np.ones((3, 4)), axes=(0, 0))


def test_kernel_densities_are_of_real_points():
    for stats in (pullback.scipy.stats, jax.scipy.stats):
        with pytest.raises(NotImplementedError, match="does not support complex data"):
            stats.gaussian_kde(np.ones((2, 5)) + 1j)
        density = stats.gaussian_kde(np.arange(10.0).reshape(2, 5) ** 1.5)
        with pytest.raises(NotImplementedError, match="does not support complex coordinates"):
            density(np.ones((2, 2)) + 1j)


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_solvers(name):
    same(lambda s: getattr(s, name)(SP, v, tol=1e-6)[0], "scipy.sparse.linalg", 1e-3)

    def loss(solvers):
        return lambda a, b: getattr(solvers, name)(a, b, tol=1e-6)[0].sum()

    want = jax.grad(loss(jax.scipy.sparse.linalg), (0, 1))(SP, v)
    got = pullback.grad(loss(pullback.scipy.sparse.linalg), (0, 1))(SP, v)
    for a, b in zip(want, got, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("method", ["BFGS", "l-bfgs-experimental-do-not-rely-on-this"])
def test_minimize(method):
    jnp = pullback.numpy
    found = pullback.scipy.optimize.minimize(
        lambda z: jnp.sum(100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2),
        np.zeros(3, "float32"),
        method=method,
    )
    np.testing.assert_allclose(np.asarray(found.x), np.ones(3), atol=1e-2)


@pytest.mark.parametrize("name", ["dct", "idct"])
def test_cosine_transform(name):
    same(
        lambda f: [
            getattr(f, name)(x),
            getattr(f, name)(x, axis=0, norm="ortho"),
            getattr(f, name)(x, n=9),
        ],
        "scipy.fft",
        1e-4,
    )
    same(lambda f: getattr(f, name + "n")(x), "scipy.fft", 1e-4)


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_regular_grid(method):
    points = np.array([[0.5, 0.2], [4.9, 5.5], [9, 1]])
    same(
        lambda i: i.RegularGridInterpolator((np.arange(6.0), np.arange(7.0)), x, method=method)(
            points
        ),
        "scipy.interpolate",
        1e-4,
    )


@pytest.mark.parametrize("shape", [(2,), (4,), (0,), (1, 2), (2, 1, 2)])
def test_flat_points_of_a_grid(shape):
    same(
        lambda i: i.RegularGridInterpolator((np.arange(4.0), np.arange(5.0)), np.ones((4, 5)))(
            np.ones(shape)
        ),
        "scipy.interpolate",
        1e-6,
    )


@pytest.mark.parametrize("seq", ["xyz", "XYZ", "zxz", "ZYX", "zyx", "XYX"])
def test_rotation(seq):
    angles = np.random.default_rng(0).normal(size=(5, 3)).astype("float32") * 0.5
    same(lambda t: t.Rotation.from_euler(seq, angles).as_matrix(), "scipy.spatial.transform", 1e-4)
    same(lambda t: t.Rotation.from_rotvec(angles).as_euler(seq), "scipy.spatial.transform", 1e-3)


def test_legendre_functions() -> None:
    """Values and derivatives, at the ends too."""
    z = np.array([-1, -0.9, -0.3, 0, 0.2, 0.77, 1], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for n in (1, 4):
            want = jax.scipy.special.lpmn(n, n, z)
            for got, wanted in zip(pullback.scipy.special.lpmn(n, n, z), want, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)
            for normal in (True, False):
                np.testing.assert_allclose(
                    pullback.scipy.special.lpmn_values(n, n, z, normal),
                    jax.scipy.special.lpmn_values(n, n, z, normal),
                    rtol=1e-4,
                    atol=1e-4,
                )
    with pytest.raises(ValueError, match="1D"):
        pullback.scipy.special.lpmn(1, 1, 0.5)
    with pytest.raises(NotImplementedError, match="m!=n are not yet supported"):
        pullback.scipy.special.lpmn_values(1, 2, z, True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_legendre_functions_beyond_one_are_real_for_order_zero_alone() -> None:
    """The values are JAX's; so are the slopes, but for those of order 0, which it has as NaN."""
    z = np.array([-1.5, 0.5, 1.01, 3], np.float32)
    got, want = pullback.scipy.special.lpmn(3, 3, z), jax.scipy.special.lpmn(3, 3, z)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-6)
    for order in (1, 2, 3):
        slopes, wanted = (x[1][order, order:] for x in (got, want))
        np.testing.assert_allclose(slopes, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[1][0, 1], [1, 1, 1, 1], rtol=1e-6)
    same(lambda s: s.lpmn_values(3, 3, z, True), "scipy.special", 1e-5)
    same(lambda s: s.lpmn_values(3, 3, z, False), "scipy.special", 1e-5)


def test_bessel_jn_of_no_order() -> None:
    """The orders are 0 ... v; below -1 JAX's slices give anything."""
    same(lambda s: s.bessel_jn(P, v=-1), "scipy.special")
    with pytest.raises(ValueError, match=r"v=-2 must be -1 or larger"):
        pullback.scipy.special.bessel_jn(P, v=-2)


def test_bessel_jn_of_small_arguments() -> None:
    """JAX's recurrence overflows at 1 in float32, and gives NaN."""
    z = np.array([1e-30, 1e-6, 0.01, 0.5, 1, 3, 8, 20, -3, 0], np.float32)
    orders = np.arange(5)[:, None]
    got = pullback.scipy.special.bessel_jn(z, v=4)
    np.testing.assert_allclose(got, scipy.special.jv(orders, z), rtol=1e-5, atol=1e-6)
    ones = np.ones_like(z)
    _, slopes = pullback.jvp(lambda z: pullback.scipy.special.bessel_jn(z, v=4), (z,), (ones,))
    np.testing.assert_allclose(slopes, scipy.special.jvp(orders, z), rtol=1e-5, atol=1e-6)


def test_widths_of_special_functions_in_x64():
    """The dtypes of results whose arguments are narrower than the default."""
    found = []
    for root in (pullback, jax):
        lib, special = root.numpy, root.scipy.special
        with root.enable_x64(True):
            half, one = lib.ones(2, "float32"), lib.ones(2, "int32")
            results = [special.wofz(half), special.wofz(one), special.wofz(half.astype(float))]
            results += [special.owens_t(half, half), special.owens_t(one, 0.5)]
            results += [special.sph_harm_y(one, one, half, half)]
            found.append([(x.dtype.name, x.weak_type) for x in results])
    assert found[0] == found[1]


def test_cosine_transforms_of_complex_arrays_are_those_of_their_parts():
    x = np.array([[1 + 2j, 3 - 1j, 0.5j], [2, -1j, 4 + 4j]], np.complex64)
    for name in ("dct", "idct", "dctn", "idctn"):
        ours = getattr(pullback.scipy.fft, name)(x)
        np.testing.assert_allclose(ours, getattr(scipy.fft, name)(x), rtol=1e-5, atol=1e-5)


_EYE = np.eye(2, dtype=np.float32)
MATRICES = {
    "companion of a number": lambda m: m.companion(2.0),
    "fiedler_companion of a number": lambda m: m.fiedler_companion(2.0),
    "fiedler_companion of nothing": lambda m: m.fiedler_companion(np.zeros((2, 0))),
    "convolution_matrix of a number": lambda m: m.convolution_matrix(2.5, 3),
    "block_diag of a list": lambda m: m.block_diag([1.0, 2.0]),
    "block_diag of numbers": lambda m: m.block_diag(1.0, 2),
    "expm_frechet in an integer direction": lambda m: m.expm_frechet(_EYE, _EYE.astype(int)),
    "expm_frechet at an integer matrix": lambda m: m.expm_frechet(_EYE.astype(int), _EYE),
    "expm_frechet of lists": lambda m: m.expm_frechet(_EYE.tolist(), _EYE.tolist()),
    "pascal": lambda m: m.pascal(3),
}


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", MATRICES)
def test_edges_of_special_matrices_are_jaxs(name, x64):
    f = MATRICES[name]
    with jax.enable_x64(x64), pullback.enable_x64(x64):
        try:
            want = jax.tree.leaves(f(jax.scipy.linalg))
        except Exception as e:
            with pytest.raises(type(e)):
                f(pullback.scipy.linalg)
            return
        got = pullback.tree.leaves(f(pullback.scipy.linalg))
        kinds = [[(x.dtype, x.shape, x.weak_type) for x in xs] for xs in (got, want)]
    assert kinds[0] == kinds[1]
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5)


LISTED = [[4.0, 1.0], [1.0, 3.0]]


@pytest.mark.parametrize(
    "name", ("cholesky", "lu", "lu_factor", "svd", "qr", "eigh", "polar", "solve_triangular")
)
def test_factorisations_take_lists(name):
    """As JAX's do: nested lists of numbers; None is a bad value."""
    ours, theirs = getattr(pullback.scipy.linalg, name), getattr(jax.scipy.linalg, name)
    extra = (LISTED,) if name == "solve_triangular" else ()
    for got, want in zip(
        jax.tree.leaves(ours(LISTED, *extra)), jax.tree.leaves(theirs(LISTED, *extra)), strict=True
    ):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(np.abs(got), np.abs(want), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="None"):
        ours(None, *extra)


def test_sizes_of_known_matrices():
    """Whole floats where JAX takes them; what is no size is refused, where 2 rows were made."""
    ours, theirs = pullback.scipy.linalg, jax.scipy.linalg
    for name in ("invhilbert", "helmert", "pascal", "invpascal"):
        for n in (2.0, np.float32(3), 2):
            np.testing.assert_allclose(
                getattr(ours, name)(n), getattr(theirs, name)(n), rtol=1e-5, atol=1e-6
            )
        with pytest.raises(TypeError, match=r"n must be an integer, got 1\.5"):
            getattr(ours, name)(1.5)
    for n in (1.5, 2.0, -1):
        with pytest.raises(TypeError):
            theirs.hilbert(n)
        with pytest.raises(TypeError, match=f"got {n}"):
            ours.hilbert(n)


def test_functions_of_stacks_of_matrices():
    linalg = pullback.scipy.linalg
    stack = np.array([[[2, 1.0], [-1.5, 3]], [[1, 0.5], [0.2, 4]]], np.float32)
    for one in (
        lambda a: linalg.polar(a),
        lambda a: linalg.polar(a, side="left", method="svd"),
        lambda a: linalg.rsf2csf(*linalg.schur(a)),
        lambda a: linalg.solve_sylvester(a, stack[0], a),
    ):
        alone = [jax.tree.leaves(one(a)) for a in stack]
        for got, *wants in zip(jax.tree.leaves(one(stack)), *alone, strict=True):
            np.testing.assert_allclose(got, np.stack(wants), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_matrix_exponential_of_narrow_types(dtype):
    """The coefficients of its approximants are beyond float16's range."""
    a = pullback.numpy.array([[0.5, 1.0], [-1.0, 0.25]], dtype)
    got = pullback.scipy.linalg.expm(a)
    assert got.dtype == a.dtype
    want = pullback.scipy.linalg.expm(a.astype("float32"))
    np.testing.assert_allclose(got.astype("float32"), want, rtol=1e-2)


def test_functions_of_empty_matrices():
    empty = np.zeros((0, 0), np.float32)
    for name, args in (("expm", 1), ("hessenberg", 1), ("expm_frechet", 2)):
        got = getattr(pullback.scipy.linalg, name)(*[empty] * args)
        want = getattr(jax.scipy.linalg, name)(*[empty] * args)
        for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)


@pytest.mark.parametrize(
    "f",
    [
        lambda s: s.special.expn(np.float32([-2.5, -1, 0.5, 1.5, 60.5]), np.float32(1.5)),
        lambda s: s.special.expn(1.5, np.float32([0.5, 1, 1.25, 3, 60])),
        lambda s: s.special.expn(-1.0, np.float32([0, 0.5, 1.5])),
        lambda s: s.stats.binom.pmf(np.arange(-1, 6), 2.5, 0.3),
        lambda s: s.stats.binom.pmf(np.float32([3, 3.2, 3.9, 4]), 3, 0.3),
        lambda s: s.stats.binom.logpmf(3.6, 2.5, 0.3, loc=0.5),
    ],
)
def test_orders_and_counts_that_are_no_integers(f):
    same(f, "scipy", 1e-5)


def test_ranks_are_checked_without_a_trace() -> None:
    text = str(pullback.make_jaxpr(pullback.scipy.stats.norm.logpdf)(np.ones((2, 3)), np.ones(3)))
    assert text.count("broadcast_in_dim") == 1
    with pytest.raises(ValueError, match=r"\(2,\)"):
        pullback.scipy.stats.norm.logpdf(np.ones((2, 3)), np.ones(2))


@pytest.mark.parametrize("scale", [1.0, -1.0, 2.0])
def test_gamma_density_of_any_scale(scale):
    x = np.array([-1.0, 0.5, 2.0], "float32")
    same(
        lambda s: (s.gamma.pdf(x, 2.0, 0.0, scale), s.gamma.logpdf(x, 2.0, 0.3, scale)),
        "scipy.stats",
    )


@pytest.mark.parametrize("name", ["dctn", "idctn"])
@pytest.mark.parametrize(("s", "axes"), [((2,), (0, 1)), ((2, 3), (0,)), ((2, 5), (1, 0))])
def test_cosine_transforms_with_more_axes_than_sizes(name, s, axes):
    x = np.arange(12, dtype="float32").reshape(3, 4)
    same(lambda f: getattr(f, name)(x, s=s, axes=axes), "scipy.fft", 1e-4)


@pytest.mark.parametrize("name", ["dctn", "idctn"])
def test_cosine_transforms_along_no_axis_are_their_argument(name):
    """Whatever sizes are given; more sizes than axes are refused."""
    x = np.array([True, False])
    same(lambda f: getattr(f, name)(x, s=(0,), axes=()), "scipy.fft")
    for lib in (pullback, jax):
        with pytest.raises(ValueError, match=r"s must have at most x.ndim \(1\) elements, got 3"):
            getattr(lib.scipy.fft, name)(x, s=(1, 1, 1))


DENSITIES = (
    "norm.pdf norm.logpdf norm.cdf norm.sf expon.pdf expon.logpdf cauchy.pdf cauchy.logpdf "
    "cauchy.cdf cauchy.logcdf cauchy.sf cauchy.ppf cauchy.isf laplace.pdf laplace.logpdf "
    "logistic.pdf logistic.logpdf logistic.cdf logistic.sf logistic.ppf logistic.isf "
    "uniform.logpdf uniform.ppf t.pdf t.logpdf gumbel_l.sf gumbel_r.cdf gumbel_r.logcdf"
).split()


@pytest.mark.parametrize("name", DENSITIES)
def test_programs_of_densities_are_jaxs(name):
    """Their operations come in JAX's order, so that roundings agree as well."""
    family, f = name.split(".")
    args = (np.array([0.3, 0.6], "float32"), *((2.0,) if family == "t" else ()))
    ours, theirs = (
        str(P.make_jaxpr(getattr(getattr(P.scipy.stats, family), f))(*args))
        for P in (pullback, jax)
    )
    assert ours == theirs


def test_functions_that_jax_jits_are_calls_in_jaxprs():
    """One equation each, with JAX's names; `pdf` and `pmf` are what is made of them."""

    def names(lib, stats, linalg):
        x = np.ones((3, 3), np.float32)
        functions = [
            lambda: stats.truncnorm.logpdf(x, -1.0, 2.0),
            lambda: stats.truncnorm.pdf(x, -1.0, 2.0),
            lambda: stats.truncnorm.sf(x, -1.0, 2.0),
            lambda: stats.truncnorm.logcdf(x, -1.0, 2.0),
            lambda: stats.betabinom.pmf(x, 3, 1.0, 2.0),
            lambda: stats.poisson.entropy(x),
            lambda: linalg.svd(x),
            lambda: linalg.solve(x, x),
            lambda: linalg.solve(x, x, assume_a="pos"),
            lambda: lib.numpy.polyfit(x[0], x[0], 1),
        ]
        calls = [list(lib.make_jaxpr(f)().jaxpr.eqns) for f in functions]
        return [[e.params["name"] for e in eqns if e.primitive.name == "jit"] for eqns in calls]

    ours = names(pullback, pullback.scipy.stats, pullback.scipy.linalg)
    assert ours == names(jax, jax.scipy.stats, jax.scipy.linalg)


def _evaluations(lib, method, **options):
    """(the points at which `minimize` evaluates a function, the result)."""
    points = []
    jnp = lib.numpy

    def fun(x):
        lib.debug.callback(lambda v: points.append(np.asarray(v)), x)
        return jnp.sum((x - 1) ** 4 + jnp.arange(1, 4) * x**2)

    start = jnp.array([0.5, -3, 2])
    found = lib.scipy.optimize.minimize(fun, start, method=method, options=options)
    lib.effects_barrier()
    return points, found


@pytest.mark.parametrize("method", ["BFGS", "l-bfgs-experimental-do-not-rely-on-this"])
def test_line_searches_evaluate_each_point_once(method):
    """The end of a search was evaluated again: JAX counts, and makes, half as many calls."""
    points, found = _evaluations(pullback, method)
    assert len(points) == int(found.nfev) == int(found.njev)
    assert len(points) <= 1.25 * len(_evaluations(jax, method)[0])


def test_a_search_out_of_steps_keeps_the_best_point():
    """Its value and gradient are those of the point."""
    _, found = _evaluations(pullback, "BFGS", line_search_maxiter=1, maxiter=2)
    x = np.asarray(found.x, float)
    slope = 4 * (x - 1) ** 3 + 2 * np.arange(1, 4) * x
    np.testing.assert_allclose(found.jac, slope, rtol=1e-4, atol=1e-4)
    value = np.sum((x - 1) ** 4 + np.arange(1, 4) * x**2)
    np.testing.assert_allclose(found.fun, value, rtol=1e-5)


def test_hyp2f1_where_its_series_ends() -> None:
    """Polynomials (a or b of 0, -1, ...), powers of 1 - x, and c at which there is no value."""
    a = np.float32([0, 0, 1, 2, 0.5, -2, 1, 0, 0, 1])
    b = np.float32([1, 2, 1, -2, 1, 0.5, 1, 3, 1, 1])
    c = np.float32([1, -3, 1, 3, 0.5, 3, -1, 0, 0, 0])
    x = np.float32([1, 1.5, 1.5, -2, 1.5, 1, 0.5, 0, -2, 0.5])
    same(lambda s: s.hyp2f1(a, b, c, x), "scipy.special", 1e-5)
    # JAX has inf there.
    np.testing.assert_allclose(pullback.scipy.special.hyp2f1(-1.0, 3.0, 2.0, 1.5), -1.25)


def test_complex_gamma_at_and_beside_its_poles() -> None:
    special = pullback.scipy.special
    at = np.complex64([0, -1, -2, -30])
    for f in (special.gamma, special.loggamma):
        assert np.isnan(np.asarray(f(at)).real).all() and np.isnan(np.asarray(f(at)).imag).all()
    beside = np.complex64([-1 + 1e-6j, -2 - 1e-5j, -7 + 1e-4j])
    wanted = scipy.special.loggamma(beside.astype(complex))
    np.testing.assert_allclose(special.loggamma(beside), wanted, rtol=2e-6)


def test_special_functions_without_jit_and_where_infinities_are_looked_for() -> None:
    special = pullback.scipy.special
    with pullback.disable_jit():
        np.testing.assert_allclose(special.expi(np.float32(-0.5)), -0.559774, rtol=1e-5)
    with pullback.debug_infs(True):
        for f in (special.ndtri, pullback.jit(special.ndtri)):
            assert f(0.5) == 0
            with pytest.raises(FloatingPointError, match=r"invalid value \(inf\)"):
                f(1.0)
    with pytest.raises(ValueError, match="Argument `x` to sici must be real-valued"):
        special.sici(np.complex64(1))
