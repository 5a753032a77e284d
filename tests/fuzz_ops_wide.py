"""More operations for random programs: special functions, linear algebra, general convolutions and
reductions, weakly typed values, random distributions, callbacks; and cells of fuzz_programs. An
operation takes (ns, x), x an array of floats of any shape, and gives such an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Unary = tuple[str, Callable[[Any, Any], Any]]


def _inside(ns: Any, x: Any) -> Any:
    """Values in (-0.79, 0.82), away from 0."""
    return ns.lax.tanh(x) * 0.8 + 0.013


def special() -> list[Unary]:
    """Functions of the mathematics library, each inside its domain."""

    def positive(ns: Any, x: Any) -> Any:
        return ns.lax.abs(x) + 0.6

    def of(name: str, domain: Any) -> Unary:
        return name, lambda ns, x: getattr(ns.lax, name)(domain(ns, x))

    ops = [
        of("acosh", lambda ns, x: ns.lax.abs(x) + 1.3),
        of("bessel_i0e", _inside),
        of("bessel_i1e", _inside),
        of("digamma", positive),
        of("erf_inv", _inside),
        of("is_finite", _inside),
    ]
    return [(n, lambda ns, x, f=f: f(ns, x) * ns.numpy.float32(1)) for n, f in ops] + [
        ("igamma", lambda ns, x: ns.lax.igamma(positive(ns, x), positive(ns, x * 0.7))),
        ("igammac", lambda ns, x: ns.lax.igammac(positive(ns, x), positive(ns, x * 0.7))),
        ("zeta", lambda ns, x: ns.lax.zeta(positive(ns, x) + 1.5, x * 0 + 1.5)),
        ("polygamma", lambda ns, x: ns.lax.polygamma(x * 0 + 1.0, positive(ns, x) + 1)),
        ("betainc", lambda ns, x: ns.lax.betainc(
            ns.lax.full_like(x, 1.5), ns.lax.full_like(x, 2.5), ns.lax.logistic(x))),
        ("betainc of all", lambda ns, x: ns.lax.betainc(x * 0 + 1.5, x * 0 + 2, _inside(ns, x))),
        ("rem", lambda ns, x: ns.lax.rem(_inside(ns, x) + 0.007, x * 0 + 0.31)),
        ("reduce_precision", lambda ns, x: ns.lax.reduce_precision(_inside(ns, x), 8, 20)),
        ("barrier", lambda ns, x: ns.lax.optimization_barrier((x, x * 2))[1]),
        ("device_put", lambda ns, x: ns.jax.device_put(x)),
        ("remat nothing", lambda ns, x: ns.jax.checkpoint(
            lambda v: ns.lax.sin(v) * 2, policy=ns.jax.checkpoint_policies.nothing_saveable)(x)),
        ("mulhi", lambda ns, x: ns.lax.mulhi(
            (_inside(ns, x) * 9e4).astype("int32"), np.full(x.shape, 123456789, "int32")) + x),
        ("copy", lambda ns, x: ns.numpy.array(x, copy=True)),
        ("sinc", lambda ns, x: ns.numpy.sinc(_inside(ns, x))),
        ("i0", lambda ns, x: ns.numpy.i0(_inside(ns, x))),
        ("frexp", lambda ns, x: ns.numpy.frexp(_inside(ns, x))[0]),
        ("modf", lambda ns, x: sum(ns.numpy.modf(_inside(ns, x) * 3 + 0.007))),
        ("divmod", lambda ns, x: sum(ns.numpy.divmod(_inside(ns, x), 0.31))),
        ("ldexp", lambda ns, x: ns.numpy.ldexp(x, 2)),
        ("nan functions", lambda ns, x: ns.numpy.nansum(ns.numpy.where(x > 0.2, np.nan, x))),
        ("nanmax", lambda ns, x: ns.numpy.nanmax(x) if x.size else x),
        ("var", lambda ns, x: ns.numpy.var(x, -1) if x.ndim and x.shape[-1] else x),
        ("ptp", lambda ns, x: ns.numpy.ptp(x) if x.size else x),
        ("quantile", lambda ns, x: ns.numpy.quantile(x, 0.3) if x.size else x),
        ("select_n", lambda ns, x: ns.lax.select_n(x > 0.1037, x, x * x)),
        ("clamp", lambda ns, x: ns.lax.clamp(-0.513, x, 0.617)),
        ("piecewise", lambda ns, x: ns.numpy.piecewise(x, [x > 0.1037], [lambda v: v * 2, 0.3])),
        ("polyval", lambda ns, x: ns.numpy.polyval(ns.numpy.array([0.2, -0.5, 1.0]), x)),
        ("silu", lambda ns, x: ns.jax.nn.silu(x)),
        ("elu", lambda ns, x: ns.jax.nn.elu(x + 0.0137)),
        ("log_softmax", lambda ns, x: ns.jax.nn.log_softmax(x) if x.ndim and x.size else x),
        ("glu", lambda ns, x: ns.jax.nn.glu(ns.numpy.concatenate([x, x], -1)) if x.ndim else x),
    ]  # fmt: skip


def _square(ns: Any, x: Any) -> Any:
    """A well-conditioned 2x2 matrix made of the first elements."""
    flat = ns.numpy.concatenate([ns.lax.tanh(x.reshape(-1)), ns.numpy.ones(4, x.dtype)])[:4]
    return (flat.reshape(2, 2) * 0.4 + np.diag([2.0, 3.0]).astype("float32")).astype("float32")


def _spd(ns: Any, x: Any) -> Any:
    a = _square(ns, x)
    return a @ a.T + np.diag([0.5, 1.5]).astype("float32")


def linalg() -> list[Unary]:
    def solve(ns: Any, a: Any, b: Any, **how: Any) -> Any:
        return ns.lax.linalg.triangular_solve(a, b, left_side=True, **how)

    def svd(ns: Any, x: Any) -> Any:
        u, s, vt = ns.numpy.linalg.svd(_square(ns, x), full_matrices=False)
        return (u * s) @ vt + s.sum()

    def eigh(ns: Any, x: Any) -> Any:
        w, v = ns.numpy.linalg.eigh(_spd(ns, x))
        return (v * ns.lax.sqrt(w)) @ v.T

    def iterative(ns: Any, x: Any) -> Any:
        a = _spd(ns, x)
        b = ns.lax.tanh(a[0])
        run = lambda mv, v: ns.numpy.linalg.solve(a, v)
        return ns.lax.custom_linear_solve(lambda v: a @ v, b, run, run, symmetric=True)

    def root(ns: Any, x: Any) -> Any:
        y = ns.lax.tanh(x).sum() * 0.3 + 2.0

        def newton(f: Any, v: Any) -> Any:
            step = lambda _, u: u - f(u) / ns.jax.grad(f)(u)
            return ns.lax.fori_loop(0, 8, step, v)

        start = ns.numpy.float32(1.5)
        return ns.lax.custom_root(lambda v: v * v - y, start, newton, lambda g, v: v / g(1.0))

    return [
        ("cholesky", lambda ns, x: ns.numpy.linalg.cholesky(_spd(ns, x))),
        ("triangular_solve", lambda ns, x: solve(ns, _square(ns, x), _spd(ns, x), lower=True)),
        ("triangular_solve T", lambda ns, x: solve(
            ns, _square(ns, x), _spd(ns, x), lower=False, transpose_a=True, unit_diagonal=True)),
        ("inv", lambda ns, x: ns.numpy.linalg.inv(_square(ns, x))),
        ("det", lambda ns, x: ns.numpy.linalg.det(_square(ns, x))),
        ("slogdet", lambda ns, x: ns.numpy.linalg.slogdet(_square(ns, x))[1]),
        ("solve", lambda ns, x: ns.numpy.linalg.solve(_square(ns, x), _spd(ns, x))),
        ("qr", lambda ns, x: abs(ns.numpy.linalg.qr(_square(ns, x))[1])),
        ("svd", svd),
        ("eigh", eigh),
        ("eigvalsh", lambda ns, x: ns.numpy.linalg.eigvalsh(_spd(ns, x))),
        ("norm", lambda ns, x: ns.numpy.linalg.norm(x.reshape(-1) + 1.5) if x.size else x),
        ("matrix_power", lambda ns, x: ns.numpy.linalg.matrix_power(_square(ns, x) * 0.3, 3)),
        ("kron", lambda ns, x: ns.numpy.kron(x.reshape(-1)[:2], x.reshape(-1)[:2])),
        ("trace", lambda ns, x: ns.numpy.trace(_square(ns, x))),
        ("lu", lambda ns, x: ns.lax.linalg.lu(_square(ns, x))[0]),
        ("eigvals", lambda ns, x: ns.numpy.sort(ns.numpy.linalg.eigvals(_square(ns, x)).real)),
        ("symmetric_product", lambda ns, x: ns.lax.linalg.symmetric_product(
            _square(ns, x), _spd(ns, x), alpha=0.5, symmetrize_output=True)),
        ("schur", lambda ns, x: ns.numpy.diag(ns.lax.linalg.schur(_spd(ns, x))[0]).sum()),
        ("hessenberg", lambda ns, x: ns.lax.linalg.hessenberg(_square(ns, x))[0]),
        ("tridiagonal", lambda ns, x: ns.lax.linalg.tridiagonal(_spd(ns, x), lower=True)[1]),
        ("tridiagonal_solve", lambda ns, x: ns.lax.linalg.tridiagonal_solve(
            np.float32([0, 0.5]), _spd(ns, x)[0] + 2, np.float32([0.3, 0]), _square(ns, x))),
        ("custom_linear_solve", iterative),
        ("custom_root", root),
    ]  # fmt: skip


def general() -> list[Unary]:
    """Reductions, windows and convolutions in their general forms, and scatters seldom used."""

    def conv(groups: str) -> Any:
        def op(ns: Any, x: Any) -> Any:
            flat = ns.numpy.concatenate([x.reshape(-1), ns.numpy.ones(8, x.dtype)])[:8]
            signal = flat.reshape((2, 2, 2) if groups != "none" else (1, 2, 4))
            sizes = {"none": (1, 2, 2), "batch_group_count": (2, 2, 1)}.get(groups, (2, 1, 2))
            kernel = ns.lax.sin(flat[:4]).reshape(sizes)
            how = {groups: 2} if groups != "none" else {"window_strides": (2,)}
            strides = how.pop("window_strides", (1,))
            return ns.lax.conv_general_dilated(
                signal, kernel, strides, [(1, 1)], rhs_dilation=(1 + (groups == "none"),), **how
            ) * 0.3  # fmt: skip

        return op

    def transposed(ns: Any, x: Any) -> Any:
        flat = ns.numpy.concatenate([x.reshape(-1), ns.numpy.ones(4, x.dtype)])[:4]
        return ns.lax.conv_transpose(
            flat.reshape(1, 4, 1), ns.lax.sin(flat).reshape(4, 1, 1), (2,), "SAME",
            dimension_numbers=("NWC", "WIO", "NWC"),
        )  # fmt: skip

    def scatter(kind: str) -> Any:
        def op(ns: Any, x: Any) -> Any:
            if not x.ndim or not x.shape[0]:
                return x
            return getattr(x.at[ns.numpy.array([0, -1])], kind)(x[:1] * 0.5 + 0.7)

        return op

    def pair(ns: Any, x: Any) -> Any:
        def both(a: Any, b: Any) -> Any:
            larger = a[0] >= b[0]
            return ns.lax.select(larger, a[0], b[0]), ns.lax.select(larger, a[1], b[1])

        y = ns.lax.stop_gradient(x).reshape(-1).astype("float32")
        y = y + ns.numpy.arange(x.size, dtype="float32") * 0.37
        at = ns.lax.iota("int32", x.size)
        init = (np.float32(-np.inf), np.int32(-1))
        return ns.lax.reduce((y, at), init, both, (0,))[1] * 1.0 + x

    def window(ns: Any, x: Any) -> Any:
        if not x.ndim or not x.size:
            return x
        size = (1,) * (x.ndim - 1) + (2,)
        return ns.lax.reduce_window(
            x.astype("float32"), np.float32(np.inf), ns.lax.min, size, (1,) * x.ndim, "SAME"
        )

    def dot(ns: Any, x: Any) -> Any:
        y = ns.numpy.stack([x.reshape(-1)] * 2).astype("bfloat16")
        return ns.lax.dot_general(
            y, y, (((1,), (1,)), ((), ())), preferred_element_type="float32") * 0.2  # fmt: skip

    def batched(ns: Any, x: Any) -> Any:
        y = ns.numpy.stack([x.reshape(-1)] * 3) * 0.5
        return ns.numpy.einsum("bi,bj,b->ij", y[:, :3], y[:, :2], y.sum(1))

    return [
        ("conv strided", conv("none")),
        ("conv feature groups", conv("feature_group_count")),
        ("conv batch groups", conv("batch_group_count")),
        ("conv transposed", transposed),
        *((f"at {k}", scatter(k)) for k in ("min", "max", "subtract", "divide", "power")),
        ("at apply twice", lambda ns, x: x.at[np.array([0, 0])].apply(lambda v: v * 0.5)
            if x.ndim and x.shape[0] else x),
        ("reduce pair", pair),
        ("reduce_window min", window),
        ("cummin", lambda ns, x: ns.lax.cummin(x, 0) if x.ndim else x),
        ("cumsum reverse", lambda ns, x: ns.lax.cumsum(x, 0, reverse=True) if x.ndim else x),
        ("dot preferred", dot),
        ("einsum three", batched),
        ("reduce_and", lambda ns, x: ns.lax.reduce_and(x > 0.1037, tuple(range(x.ndim))) + x),
        ("reduce_xor", lambda ns, x: ns.lax.reduce_xor(x > 0.1037, tuple(range(x.ndim))) + x),
        ("sort two keys", lambda ns, x: ns.lax.sort(
            (ns.numpy.floor(x * 2), x, x * 2), dimension=-1, num_keys=2)[2] if x.ndim else x),
        ("lexsort", lambda ns, x: x[ns.numpy.lexsort((x, ns.numpy.floor(x)))]
            if x.ndim == 1 else x),
        ("rot90", lambda ns, x: ns.numpy.rot90(x) if x.ndim >= 2 else x),
        ("moveaxis", lambda ns, x: ns.numpy.moveaxis(x, 0, -1) if x.ndim else x),
        ("pad edge", lambda ns, x: ns.numpy.pad(x, 1, mode="edge") if x.ndim and x.size else x),
        ("pad reflect", lambda ns, x: ns.numpy.pad(x, ((1, 0),), mode="reflect")
            if x.ndim == 1 and x.size > 1 else x),
        ("gradient", lambda ns, x: ns.numpy.gradient(x.reshape(-1)) if x.size > 1 else x),
        ("diff", lambda ns, x: ns.numpy.diff(x.reshape(-1))),
        ("trapezoid", lambda ns, x: ns.numpy.trapezoid(x.reshape(-1))),
        ("vander", lambda ns, x: ns.numpy.vander(x.reshape(-1)[:3], 3)),
        ("meshgrid", lambda ns, x: ns.numpy.meshgrid(x.reshape(-1)[:2], x.reshape(-1)[:3])[1]),
        ("select list", lambda ns, x: ns.numpy.select([x > 0.5017, x > 0.1037], [x, x * 2], 0.1)),
        ("fft", lambda ns, x: ns.numpy.fft.fft(x.astype("float32")).imag
            if x.ndim and x.shape[-1] else x),
        ("irfft", lambda ns, x: ns.numpy.fft.irfft(x.astype("complex64"), n=3)
            if x.ndim and x.shape[-1] else x),
    ]  # fmt: skip


def weak() -> list[Unary]:
    """Values of weak type, alone and with others."""
    return [
        ("weak where", lambda ns, x: ns.numpy.where(x > 0.1037, 0.5, -0.25)),
        ("weak sum", lambda ns, x: ns.numpy.where(x > 0.1037, 2, 1).sum() * 0.5),
        ("weak half", lambda ns, x: ns.numpy.where(x > 0.1037, 0.5, 1.5)
            * x.astype("float16") + ns.numpy.where(x.sum() > 0.1037, 2, 3)),
        ("weak int8", lambda ns, x: ns.numpy.where(x > 0.1037, 3, 1) * ns.numpy.int8(2) + 0.5),
        ("weak complex", lambda ns, x: (ns.numpy.where(x > 0.1037, 1j, 0.5) * 2.0).real),
        ("weak scan", lambda ns, x: ns.lax.scan(lambda c, v: (c * 2, c + v.sum()), 0.5, x)[1]
            if x.ndim else x),
        ("weak fori", lambda ns, x: ns.lax.fori_loop(0, 3, lambda i, c: c * 0.5 + i, 1.0) + 0 * x),
        ("weak cond", lambda ns, x: ns.lax.cond(
            x.sum() > 0.1037, lambda: (1.0, 2), lambda: (0.5, 3))[0]),
        ("weak full_like", lambda ns, x: ns.lax.full_like(ns.numpy.where(x > 0.1037, 0.5, 1.5), 2)),
        ("weak broadcast", lambda ns, x: ns.lax.broadcast(0.75, (2,))),
        ("weak shift", lambda ns, x: ns.numpy.where(x > 0.1037, 3, 1) << ns.numpy.uint8(1)),
        ("weak mean", lambda ns, x: ns.numpy.mean(ns.numpy.where(x > 0.1037, 3, 1))
            if x.size else x),
    ]  # fmt: skip


def drawn() -> list[Unary]:
    """Random distributions; their keys are constants or made from values."""

    def key(ns: Any, x: Any) -> Any:
        return ns.random.fold_in(ns.random.key(3), (x.sum() * 7.03).astype("int32"))

    stop = lambda ns, x: ns.lax.stop_gradient(x)
    names = ("exponential", "gumbel", "laplace", "logistic", "cauchy", "rademacher", "normal")
    ops: list[Any] = [
        (n, lambda ns, x, n=n: getattr(ns.random, n)(key(ns, x), (2,)) * 0.25) for n in names
    ]
    return ops + [
        ("truncated_normal", lambda ns, x: ns.random.truncated_normal(
            key(ns, x), -1.0, 1.0 + abs(x.sum()), (2,))),
        ("permutation", lambda ns, x: ns.random.permutation(key(ns, x), x) if x.ndim else x),
        ("choice", lambda ns, x: ns.random.choice(key(ns, x), x.reshape(-1), (2,))
            if x.size else x),
        ("bernoulli", lambda ns, x: ns.random.bernoulli(key(ns, x), 0.4, x.shape) * x),
        ("categorical", lambda ns, x: ns.random.categorical(key(ns, x), stop(ns, x)) * 1.0
            if x.ndim and x.shape[-1] else x),
        ("randint", lambda ns, x: ns.random.randint(key(ns, x), (2,), -3, 9) * 0.1),
        ("bits", lambda ns, x: (ns.random.bits(key(ns, x), (2,), "uint16") >> 8) * 0.01),
        ("gamma", lambda ns, x: ns.random.gamma(key(ns, x), 1.3 + abs(x.sum()), (2,))),
        ("beta", lambda ns, x: ns.random.beta(key(ns, x), 1.5, 2.5, (2,))),
        ("dirichlet", lambda ns, x: ns.random.dirichlet(key(ns, x), ns.numpy.ones(3))),
        ("poisson", lambda ns, x: ns.random.poisson(key(ns, x), 2.5, (2,)) * 0.25),
        ("multivariate", lambda ns, x: ns.random.multivariate_normal(
            key(ns, x), ns.numpy.zeros(2), _spd(ns, x))),
        ("clone", lambda ns, x: ns.random.uniform(ns.random.clone(key(ns, x)), (2,)) + x.sum()),
    ]  # fmt: skip


def callbacks() -> list[Unary]:
    def host(how: str) -> Any:
        def op(ns: Any, x: Any) -> Any:
            y = ns.lax.stop_gradient(x).astype("float32")
            out = ns.jax.ShapeDtypeStruct(y.shape, np.float32)
            double = lambda v: np.asarray(v, np.float32) * np.float32(2)
            return ns.jax.pure_callback(double, out, y, vmap_method=how) + x

        return op

    return [(f"pure_callback {h}", host(h)) for h in ("sequential", "expand_dims", "broadcast_all")]


WIDE: list[Unary] = [
    *special(), *linalg(), *general(), *weak(), *drawn(), *callbacks(),
]  # fmt: skip


# --- cells: see fuzz_programs ---
def linear_transpose(ns: Any, f: Any, g: Any, c: float) -> Any:
    """The transpose of the derivative, twice."""
    jax = ns.jax

    def run(*xs: Any) -> Any:
        x = xs[0].astype("float32")
        y, push = jax.linearize(lambda v: f(v).astype("float32"), x)
        (back,) = jax.linear_transpose(push, x)(y)
        return back, jax.linear_transpose(jax.linear_transpose(push, x), y)((back,))

    return run


def collectives(ns: Any, f: Any, g: Any, c: float) -> Any:
    """Collectives over two named axes."""
    lax, jnp = ns.lax, ns.numpy

    def lane(k: Any, xs: Any) -> Any:
        y = (f(*xs) * (k + 1.5)).astype("float32")
        if c > 0.8:
            return lax.psum(y, ("i", "j")) * lax.axis_size("i")
        if c > 0.3:
            wide = jnp.stack([y, y * 2])
            return lax.all_to_all(wide, "i", 0, 0) + lax.axis_index("j")
        if c > -0.2:
            return lax.psum_scatter(jnp.stack([y, y * 0.5]), "i") - lax.pmin(
                lax.stop_gradient(y), "j"
            )
        if c > -0.8:
            wide = lax.all_gather(y, "j", axis=0, tiled=bool(y.ndim))
            return wide.sum() * lax.pmean(y, ("i", "j"))
        return lax.pshuffle(y, "i", [1, 0]) + lax.psum(1, "j")

    def run(*xs: Any) -> Any:
        inner = ns.jax.vmap(lane, in_axes=(0, None), axis_name="i")
        outer = ns.jax.vmap(lambda k: inner(k, xs), axis_name="j")
        return outer(jnp.arange(4.0).reshape(2, 2))

    return run


def symbolic_zeros(ns: Any, f: Any, g: Any, c: float) -> Any:
    """Custom rules that see which arguments are differentiated."""
    jax = ns.jax
    is_zero = lambda t: type(t).__name__ == "SymbolicZero"
    h = jax.custom_jvp(lambda a, b: ns.lax.sin(a) * b)

    def rule(p: Any, t: Any) -> Any:
        found = [v * k for v, k in zip(t, (2.0, 3.0)) if not is_zero(v)]
        return h(*p), sum(found) if found else p[0] * 0

    h.defjvp(rule, symbolic_zeros=True)
    k = jax.custom_vjp(lambda a, b: a * b)

    def forward(a: Any, b: Any) -> Any:
        return a.value * b.value, (a.value, b.value, a.perturbed, b.perturbed)

    def backward(kept: Any, ct: Any) -> Any:
        a, b, *_ = kept
        return (None, None) if is_zero(ct) else (ct * b * 2, ct * a * 3)

    if c < 0.4:
        forward_plain = lambda a, b: (a * b, (a, b))
        k.defvjp(forward_plain, lambda r, ct: (ct * r[1] * 2, None if c < 0 else ct * r[0]))
    else:
        flags = lambda a, b: (lambda y, r: (y, r[:2]))(*forward(a, b))
        k.defvjp(flags, backward, symbolic_zeros=True)

    def run(*xs: Any) -> Any:
        y = f(*xs).astype("float32").sum()
        return h(y, 0.5) + k(y, 2.0) * k(g(*xs).astype("float32").sum(), y)

    return run


def nested_control(ns: Any, f: Any, g: Any, c: float) -> Any:
    """A cond in a scan in a while: what is not differentiated may loop as it likes."""
    lax = ns.lax

    def run(*xs: Any) -> Any:
        y = ns.lax.tanh(f(*xs).astype("float32").sum())

        def step(carry: Any, i: Any) -> Any:
            count = lax.while_loop(lambda n: n < i + 2, lambda n: n + 1, 0)
            v = lax.cond(count % 2 == 0, lambda u: u * y, lambda u: lax.sin(u) + c, carry)
            return v, lax.switch(i, [lambda u: u, lax.cos, lambda u: u * 2], v) * count

        return lax.scan(step, y, ns.numpy.arange(3))

    return run


def callables(ns: Any, f: Any, g: Any, c: float) -> Any:
    """Functions that transformations return, called more than once and inside others."""
    jax = ns.jax

    def run(*xs: Any) -> Any:
        x = xs[0].astype("float32")
        y, pull = jax.vjp(lambda v: f(v).astype("float32"), x)
        if c > 0.5:
            return jax.vmap(pull)(ns.numpy.stack([y, y * 0.5]))
        if c > 0:
            return jax.jit(lambda ct: jax.jvp(lambda u: pull(u)[0], (ct,), (ct,)))(y)
        _, push = jax.linearize(lambda v: f(v).astype("float32"), x)
        return jax.vmap(push)(ns.numpy.stack([x, x * 0.5])), jax.jit(push)(x)

    return run


def ravelled(ns: Any, f: Any, g: Any, c: float) -> Any:
    """Pytrees with a Partial and None, through jit, cond and scan."""
    tree = ns.jax.tree_util

    def run(*xs: Any) -> Any:
        held = tree.Partial(lambda a, *bs: f(a, *bs), xs[0])
        state = {"p": held, "n": None, "l": [g(*xs), (xs[-1],)]}
        out = ns.jax.jit(lambda s: s["p"](*xs[1:]) + s["l"][0].sum())(state)
        picked = ns.lax.cond(out.sum() > c, lambda s: s, lambda s: tree.tree_map(_half, s), state)
        return tree.tree_map(lambda a: a, picked["l"]), out

    return run


def _half(a: Any) -> Any:
    return (a * 0.5).astype(a.dtype) if a.dtype != bool else a


def references(ns: Any, f: Any, g: Any, c: float) -> Any:
    """A mutable array, written in a straight line, in a loop, or in a jitted function."""

    def run(*xs: Any) -> Any:
        ref = ns.jax.new_ref(f(*xs).astype("float32"))
        ref[...] = ref[...] * 2 + 1
        if c > 0.5:
            ns.lax.fori_loop(0, 3, lambda i, _: ref.__setitem__(..., ref[...] * 0.5 + i), None)
        elif c > 0:
            ns.jax.jit(lambda v: ref.__setitem__(..., ns.lax.sin(ref[...]) * v))(2.0)
        elif c > -0.5:
            step = lambda s, v: (ref.__setitem__(..., ref[...] + v * s), (s * 0.5, s))[1]
            ns.lax.scan(step, 1.0, ns.numpy.arange(2.0))
        return ref[...] * g(*xs).astype("float32").sum()

    return run


WIDE_CELLS: dict[str, Any] = {
    "references": references,
    "linear_transpose": linear_transpose,
    "collectives": collectives,
    "symbolic_zeros": symbolic_zeros,
    "nested_control": nested_control,
    "callables": callables,
    "partials": ravelled,
}
