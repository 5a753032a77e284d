"""JAX's programs through the loop-nest compiler: every lowering, against JAX's values, on the
interpreter and as machine code.
"""

import jax
import numpy as np
import pytest
from jax import lax, numpy as jnp
from loops_oracle import check, compile_fun

rng = np.random.default_rng(0)


def f(*s):
    return rng.normal(size=s).astype(np.float32)


def ii(n, *s):
    return rng.integers(-n // 4, n + n // 4, s).astype(np.int32)


def softmax(x):
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def ln(x):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5)


def nbody(p):
    d = p[None] - p[:, None]
    r2 = (d**2).sum(-1) + 1e-3
    return (d * (r2**-1.5)[..., None]).sum(1)


ELEMENTWISE = {
    "add": (lambda x, y: x + y, f(5, 7), f(5, 7)),
    "selu": (lambda x: jax.nn.selu(x), f(1000)),
    "bcast": (lambda x, b: x * 2 + b, f(6, 40), f(40)),
    "sum0": (lambda x: x.sum(0), f(30, 40)),
    "sum1": (lambda x: x.sum(1), f(30, 40)),
    "suma": (lambda x: x.sum(), f(30, 40)),
    "mean": (lambda x: x.mean(), f(5000)),
    "big": (lambda x: (x * x).sum(), f(300000)),
    "softmax": (softmax, f(20, 50)),
    "ln": (ln, f(20, 50)),
    "nbody": (nbody, f(50, 3)),
    "colnorm": (lambda x: (x - x.mean(0)) / x.std(0), f(200, 10)),
    "softmax1": (softmax, f(100)),
    "softmaxbig": (softmax, f(100000)),
    "transp": (lambda x: x.T + 1, f(30, 40)),
    "resh": (lambda x: x.reshape(8, -1) * 2, f(16, 20)),
    "resh2": (lambda x: (x + 1).reshape(20, 4, 4).sum(1), f(16, 20)),
    "sl": (lambda x: x[1:] - x[:-1], f(100)),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 3)), constant_values=7.0), f(10, 20)),
    "ipad": (lambda x: lax.pad(x, 1.0, ((1, 2, 1), (-1, 3, 0))), f(10, 20)),
    "cat": (lambda x, y: jnp.concatenate([x, y * 2, x], 1), f(3, 5), f(3, 4)),
    "rev": (lambda x: x[::-1] * 2, f(30)),
    "iota": (lambda x: x + jnp.arange(40), f(40)),
    "argmax": (lambda x: x.argmax(1), f(30, 40)),
    "argmax0": (lambda x: (x.argmin(0), x.max(0)), f(30, 40)),
    "argmaxa": (lambda x: jnp.argmax(x), f(30, 40)),
    "cplx": (lambda x, y: (x + 1j * y) * jnp.exp(1j * x) / (y + 2j), f(30), f(30)),
    "csum": (lambda x: (x * (1 + 2j)).sum(0), f(30, 4)),
    "cabs": (lambda x, y: jnp.abs(x + 1j * y) + jnp.sqrt(x + 1j * y).real, f(30), f(30)),
    "bools": (lambda x: (x > 0) & (x < 1) | jnp.isnan(x), f(100)),
    "where": (lambda x: jnp.where(x > 0, x, 0), f(10, 10)),
    "anyall": (lambda x: ((x > 0).any(1), (x > -9).all()), f(10, 40)),
    "adam": (
        lambda p, g, m, v: (
            p - 0.1 * (m * 0.9 + g * 0.1) / (jnp.sqrt(v * 0.99 + g * g * 0.01) + 1e-8),
            m * 0.9 + g * 0.1,
            v * 0.99 + g * g * 0.01,
        ),
        f(30, 40),
        f(30, 40),
        f(30, 40),
        f(30, 40),
    ),
    "scalar": (lambda x: jnp.sin(x) * 2 + jnp.cos(x), np.float32(0.3)),
    "rep": (lambda x: [x := jnp.sin(x) * 1.01 + x.mean() for _ in range(20)][-1], f(1000)),
    "logsumexp": (lambda x: jax.scipy.special.logsumexp(x, axis=1), f(10, 300)),
    "var": (lambda x: x.var(), f(10, 300)),
    "tile": (lambda x: jnp.tile(x, (2, 3)), f(5, 6)),
    "repeat": (lambda x: jnp.repeat(x, 3, axis=1), f(5, 6)),
    "roll": (lambda x: jnp.roll(x, 3, axis=1), f(5, 6)),
    "gradsm": (jax.grad(lambda x: jnp.sum(softmax(x) ** 2)), f(10, 30)),
    "gradln": (jax.grad(lambda x: jnp.sum(ln(x) ** 3)), f(10, 30)),
    "three": (lambda x: x.sum((0, 2)), f(6, 30, 20)),
    "empty": (lambda x: (x.sum(0), x + 1), f(0, 4)),
    "bf": (lambda x: jnp.tanh(x.astype(jnp.bfloat16)).sum(), f(64)),
    "ints": (
        lambda x: (x // 7, x % 5, x**3, x << 2, lax.population_count(x)),
        rng.integers(-100, 100, (50,)).astype(np.int32),
    ),
    "f16": (lambda x: (x * 2).astype(jnp.float16) + 1, f(64)),
    "outer": (lambda x, y: jnp.exp(x)[:, None] * y[None], f(30), f(40)),
    "rbf": (
        lambda x, y: jnp.exp(-((x[:, None] - y[None]) ** 2).sum(-1)).sum(1),
        f(40, 3),
        f(50, 3),
    ),
    "stencil": (
        lambda x: x[1:-1, 1:-1] * 4 - x[2:, 1:-1] - x[:-2, 1:-1] - x[1:-1, 2:] - x[1:-1, :-2],
        f(20, 30),
    ),
}


def rnn(h, xs, w):
    def step(h, x):
        h = jnp.tanh((w * h[None]).sum(1) + x)
        return h, h

    return lax.scan(step, h, xs)


STATEMENTS = {
    "sortscan": (
        lambda x: lax.scan(lambda c, a: (jnp.sort(c + a) * 0.5, jnp.argsort(a)[0]), x[0], x),
        f(20, 100),
    ),
    "sorthost": (lambda x: jnp.sort(x), f(3, 1000)),
    "sortdigits": (
        lambda x: (jnp.sort(x), jnp.argsort(x), jnp.lexsort((x, np.round(x)))),
        np.where(np.abs(f(200)) < 0.2, np.float32(-0.0), f(200)),
    ),
    "sortrows": (
        lambda x: (jnp.sort(x, axis=0), jnp.argsort(x.at[1, 3].set(jnp.nan), axis=0)),
        np.where(np.abs(f(9, 70)) < 0.2, np.float32(-0.0), f(9, 70)),
    ),
    "topn": (lambda x: lax.top_k(x.at[:, 3].set(jnp.nan), 3), f(5, 20)),
    "sort3": (lambda x, y: lax.sort((x, y), dimension=0, num_keys=1), np.round(f(30, 4)), f(30, 4)),
    "jvpmax": (
        lambda x, t: jax.jvp(
            lambda y: lax.reduce_window(y, -jnp.inf, lax.max, (2, 2), (2, 2), "SAME"), (x,), (t,)
        )[1],
        f(10, 9),
        f(10, 9),
    ),
    "stack": (lambda x, y: jnp.stack([x, y * 2], 1), f(5, 6), f(5, 6)),
    "hostloop": (lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.fft.fft(c).real * 0.1, x), f(8)),
    "gather": (lambda x, i: x[i], f(10, 4), ii(10, 7)),
    "gath2": (lambda x, i, j: x[i, j], f(10, 4), ii(10, 7), ii(4, 7)),
    "take": (lambda x, i: jnp.take(x, i, axis=1), f(10, 4), ii(4, 3, 2)),
    "takeclip": (lambda x, i: jnp.take(x, i, axis=0, mode="clip"), f(10, 4), ii(10, 5)),
    "along": (lambda x, i: jnp.take_along_axis(x, i, 1), f(10, 4), np.abs(ii(3, 10, 2))),
    "sset": (lambda x, i: x.at[i].set(1.0), f(10, 4), ii(10, 3)),
    "sadd": (lambda x, i, v: x.at[i].add(v), f(10, 4), ii(10, 30), f(30, 4)),
    "sadd1": (lambda x, i, v: x.at[i].add(v), f(10), ii(10, 300), f(300)),
    "smax": (lambda x, i, v: x.at[:, i].max(v), f(5, 10), ii(10, 8), f(8)),
    "smul": (lambda x, i, v: (x * 2).at[i].multiply(v), f(10), ii(10, 30), f(30)),
    "sett": (lambda x: x.at[1:3, 2].set(7.0).at[0].add(1.0), f(10, 4)),
    "gradg": (jax.grad(lambda x, i: (x[i] ** 2).sum()), f(10, 4), np.abs(ii(7, 7))),
    "ds": (lambda x, i: lax.dynamic_slice(x, (i, 0), (3, 4)), f(10, 4), np.int32(9)),
    "dus": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 1)), f(10, 4), f(3, 2), np.int32(9)),
    "sc1": (lambda x: lax.scan(lambda c, a: (c + a.sum(), a * c), 0.0, x), f(10, 4)),
    "scr": (
        lambda x: lax.scan(lambda c, a: (c * 0.5 + a, c), jnp.zeros(4), x, reverse=True),
        f(10, 4),
    ),
    "rnn": (rnn, f(8), f(20, 8), f(8, 8)),
    "gradrnn": (
        jax.grad(lambda h, x, w: (rnn(h, x, w)[1] ** 2).sum(), (0, 1, 2)),
        f(8),
        f(20, 8),
        f(8, 8) * 0.3,
    ),
    "wh": (
        lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
        f(10, 4),
    ),
    "whs": (
        lambda n: lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + jnp.sin(c[1])), (0, 0.5)
        )[1],
        np.int32(20),
    ),
    "whc": (lambda x: lax.while_loop(lambda c: (c**2).sum() > 1.0, lambda c: c * 0.9, x), f(10)),
    "fori": (
        lambda x: lax.fori_loop(0, 10, lambda i, x: x.at[i].set(x[i - 1] * 0.5 + i), x),
        f(10),
    ),
    "fib": (
        lambda n: lax.fori_loop(0, n, lambda i, ab: (ab[1], ab[0] + ab[1]), (0, 1)),
        np.int32(12),
    ),
    "swap": (
        lambda a, b: lax.fori_loop(0, 5, lambda i, ab: (ab[1], ab[0] + 1), (a, b)),
        f(6),
        f(6),
    ),
    "jacobi": (
        lambda x: lax.fori_loop(
            0,
            20,
            lambda i, x: x.at[1:-1, 1:-1].set(
                0.25 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])
            ),
            x,
        ),
        f(12, 14),
    ),
    "mandel": (
        lambda c: lax.fori_loop(0, 20, lambda i, z: z * z + c, c * 0),
        (np.tanh(f(8, 8)) * 0.3 + 1j * np.tanh(f(8, 8)) * 0.3).astype(np.complex64),
    ),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, lambda y: y * 2, lambda y: y + 1, x), f(10, 4)),
    "conds": (lambda x: lax.cond(x > 0, lambda y: jnp.sin(y), lambda y: y + 1, x), np.float32(0.3)),
    "switch": (
        lambda i, x: lax.switch(i, [lambda y: y * 2, lambda y: y.sum() * y, lambda y: y], x),
        np.int32(1),
        f(10),
    ),
    "nest": (
        lambda x: lax.scan(
            lambda c, a: lax.fori_loop(
                0, 3, lambda i, cc: (cc[0] + a * i, cc[1] + a.sum()), (c, 1.0)
            ),
            x[0],
            x,
        ),
        f(6, 5),
    ),
    "bisect": (
        lambda y: lax.fori_loop(
            0,
            30,
            lambda i, lh: (
                jnp.where(((lh[0] + lh[1]) / 2) ** 2 < y, (lh[0] + lh[1]) / 2, lh[0]),
                jnp.where(((lh[0] + lh[1]) / 2) ** 2 < y, lh[1], (lh[0] + lh[1]) / 2),
            ),
            (y * 0, y * 0 + 3),
        ),
        np.abs(f(20)),
    ),
    "vmapwh": (
        jax.vmap(lambda x: lax.while_loop(lambda c: c < 5.0, lambda c: c * 1.5 + 1, x)),
        f(10),
    ),
    "nonzero": (lambda x: jnp.nonzero(x > 0, size=10, fill_value=-1)[0], f(20)),
    "cumsum": (lambda x: jnp.cumsum(x, 0), f(30, 7)),
    "cumprod": (lambda x: jnp.cumprod(x), f(30)),
    "cmax": (lambda x: lax.cummax(x, axis=1, reverse=True), f(6, 40)),
    "clse": (lambda x: lax.cumlogsumexp(x, axis=0, reverse=True), f(30, 3)),
    "csbig": (lambda x: jnp.cumsum(x * 2), f(30000) * 0.01),
    "ccs": (lambda x: jnp.cumsum(x + 1j * x), f(30)),
    "sort": (lambda x: jnp.sort(x), f(10, 40)),
    "argsort": (lambda x: jnp.argsort(x, axis=0), f(10, 4)),
    "sort2": (lambda x, y: lax.sort((x, y), num_keys=2), np.round(f(50)), f(50)),
    "sortn": (lambda x: jnp.sort(x.at[3].set(jnp.nan)), f(40)),
    "topk": (lambda x: lax.top_k(x, 3), f(5, 20)),
    "sorti": (lambda x: jnp.argsort(x, descending=True), ii(10, 50)),
    "median": (lambda x: jnp.median(x, axis=1), f(5, 21)),
    "dot": (lambda x, y: x @ y, f(5, 7), f(7, 9)),
    "dotb": (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), f(3, 5, 7), f(3, 7, 9)),
    "dott": (lambda x, y: jnp.einsum("ji,kj->ik", x, y), f(5, 7), f(9, 5)),
    "mv": (lambda x, y: x @ y, f(30, 40), f(40)),
    "vv": (lambda x, y: x @ y, f(400), f(400)),
    "vm": (lambda x, y: y @ x, f(30, 40), f(30)),
    "mmbig": (lambda x, y: x @ y + 1, f(100, 130), f(130, 70)),
    "mmt": (lambda x: x @ x.T, f(40, 30)),
    "mlp": (jax.grad(lambda w, x: (jnp.tanh(x @ w) @ w.T).sum()), f(20, 20) * 0.2, f(10, 20)),
    "cdot": (lambda x: (x + 1j * x) @ (x.T - 2j), f(8, 9)),
    "idot": (lambda x: x @ x.T, ii(10, 6, 7)),
    "bfdot": (lambda x: x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16), f(6, 7)),
    "conv": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"),
        f(2, 3, 10, 9),
        f(4, 3, 3, 3),
    ),
    "conv2": (
        lambda x, k: lax.conv_general_dilated(
            x,
            k,
            (2, 1),
            ((1, 2), (0, 1)),
            lhs_dilation=(1, 2),
            rhs_dilation=(2, 1),
            feature_group_count=2,
        ),
        f(2, 4, 10, 9),
        f(6, 2, 3, 3),
    ),
    "convn": (
        lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        f(2, 10, 9, 3),
        f(3, 3, 3, 20),
    ),
    "gconv": (
        jax.grad(lambda k, x: (lax.conv_general_dilated(x, k, (2, 2), "SAME") ** 2).sum(), (0, 1)),
        f(4, 3, 3, 3),
        f(2, 3, 10, 9),
    ),
    "bgc": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "VALID", batch_group_count=2),
        f(4, 3, 10, 9),
        f(4, 3, 3, 3),
    ),
    "rw": (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID"), f(10, 4)),
    "rwm": (
        lambda x: lax.reduce_window(
            x, -jnp.inf, lax.max, (2, 3), (2, 1), "SAME", window_dilation=(1, 2)
        ),
        f(10, 9),
    ),
    "rwbig": (lambda x: lax.reduce_window(x, 0.0, lax.add, (7, 7), (1, 1), "SAME"), f(20, 24)),
    "grwm": (
        jax.grad(
            lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "SAME") ** 2).sum()
        ),
        f(10, 9),
    ),
    "grwa": (
        jax.grad(lambda x: (lax.reduce_window(x, 0.0, lax.add, (3, 3), (2, 2), "SAME") ** 2).sum()),
        f(10, 9),
    ),
    "gred": (lambda x: lax.reduce(x, 1.0, lambda a, b: a * b, (0,)), f(10, 4)),
    "gred2": (
        lambda x, y: lax.reduce(
            (x, y), (0.0, 0.0), lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (1,)
        ),
        f(10, 40),
        f(10, 40),
    ),
    "erfs": (
        lambda x: (
            jax.scipy.special.erf(x),
            lax.lgamma(jnp.abs(x) + 1),
            lax.digamma(jnp.abs(x) + 1),
        ),
        f(50),
    ),
    "fft": (lambda x: jnp.fft.fft(x), f(16)),
    "rp": (lambda x: lax.reduce_precision(x, 5, 10), f(50)),
    "ig": (lambda x: lax.igamma(x, x), np.abs(f(10)) + 1),
    "assoc": (lambda x: lax.associative_scan(lambda a, b: a * b + a, x), f(33)),
    "unique": (lambda x: jnp.unique(x, size=5), np.round(f(30))),
    "hist": (lambda x: jnp.histogram(x, bins=5)[0], f(100)),
    "interp": (lambda x, a, b: jnp.interp(x, a, b), f(10), np.sort(f(9)), f(9)),
    "logit": (lambda x: jax.nn.log_softmax(x), f(4, 30)),
    "turns": (lambda u: lax.fori_loop(0, 3, lambda _, u: jnp.roll(u, 1) + 0.5 * u, u), f(23, 29)),
    "box": (
        lambda u: lax.fori_loop(
            0, 3, lambda _, u: u.at[1:-1].add(0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])), u
        ),
        f(31, 33),
    ),
    "wave": (
        lambda u, v: lax.fori_loop(
            0, 3, lambda _, s: (s[0] - s[1] + 0.1 * jnp.roll(s[0], 1), s[0]), (u, v)
        ),
        f(600),
        f(600),
    ),
    "turnswhile": (
        lambda u: lax.while_loop(lambda u: u.max() < 50.0, lambda u: jnp.roll(u, 1) + u + 1, u),
        f(700),
    ),
    "extremes": (
        lambda u, k, w: lax.fori_loop(0, 2, lambda _, u: u.at[k].min(u[k[::-1]] + w), u),
        f(50),
        np.arange(300, dtype=np.int32) * 7 % 53,
        f(300),
    ),
}

HOST = {"fft", "ig", "sorthost", "hostloop"}
LOOSE = {"bf", "f16", "bfdot"}
CASES = {**ELEMENTWISE, **STATEMENTS}


@pytest.mark.parametrize("name", CASES)
def test_program_equals_jax(name):
    """On the interpreter, and compiled."""
    fn, *args = CASES[name]
    rtol = 2e-2 if name in LOOSE else 1e-4
    check(fn, *args, host=name in HOST, native=(False, True), rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("name", ["softmax", "ln", "nbody", "gradsm", "rbf", "adam"])
def test_rows_fuse_into_one_kernel(name):
    fn, *args = CASES[name]
    program = compile_fun(fn, *args)
    assert len(program.kernels) == 1
    assert len(program.steps) == 2  # the kernel, the end: no buffer in between


def test_one_kernel_serves_all_lengths():
    keys = {
        compile_fun(softmax, f(rows, cols)).keys[0] for rows, cols in ((20, 50), (31, 77), (40, 60))
    }
    assert len(keys) == 1


def test_equal_blocks_share_a_kernel():
    program = compile_fun(
        lambda x: [x := jnp.sin(x) * 1.01 + x.mean() for _ in range(20)][-1], f(40000)
    )
    assert len(program.kernels) <= 4
    assert len(program.steps) > 40


def test_lowering_is_linear():
    def repeat(n):
        def g(x):
            for _ in range(n):
                x = jnp.sin(x) * 1.01 + x.mean()
            return x

        return g

    sizes = [sum(len(k) for k in compile_fun(repeat(n), f(1000)).keys) for n in (4, 8, 40)]
    assert sizes[2] <= 2 * sizes[0]
