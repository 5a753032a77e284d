"""How far rounding may move a program's results: JAX's own program, evaluated again with noise of
the size of rounding in every operation that rounds (stochastic arithmetic, after Vignes 1993).

What is exact (copies, comparisons, integers, floor) gets no noise. Sums and products of arrays,
and factorisations, get it on their operands: their errors are as large as those, whatever cancels.
"""

from __future__ import annotations

import jax
import jax.extend.core
import ml_dtypes
import numpy as np

# Noise in units of rounding (half the distance of two floats): one rounding, ...
ROUNDED = {
    "add",
    "sub",
    "mul",
    "div",
    "sqrt",
    "square",
    "add_any",
    "integer_pow",
    "convert_element_type",
}
# ... functions, whose implementations differ by some, and ...
FUNCTIONS = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e", "bessel_i1e", "cbrt",
    "cos", "cosh", "digamma", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "igamma",
    "igamma_grad_a", "igammac", "lgamma", "log", "log1p", "logistic", "nextafter", "polygamma",
    "pow", "random_gamma", "regularized_incomplete_beta", "rem", "rsqrt", "sin", "sinh", "tan",
    "tanh", "zeta", "abs", "cumlogsumexp", "cumprod", "reduce_prod",
}  # fmt: skip
# ... what adds many products: noise on the operands, at the scale of each element, ...
SUMS = {
    "conv_general_dilated", "cumsum", "dot_general", "reduce_sum", "reduce_window_sum",
    "scatter-add", "scatter_add", "scatter-mul", "scatter_mul", "scatter-sub", "reduce_window",
    "reduce", "reduce_and",
}  # fmt: skip
# ... and what works on whole arrays: at the scale of the largest.
WHOLE = {
    "cholesky", "custom_linear_solve", "eig", "eigh", "fft", "geqrf", "hessenberg",
    "householder_product", "lu", "qr", "schur", "svd", "symmetric_product", "triangular_solve",
    "tridiagonal", "tridiagonal_solve",
}  # fmt: skip
UNITS = {**dict.fromkeys(ROUNDED, 1), **dict.fromkeys(FUNCTIONS, 8)}


def _is_float(x):
    d = np.dtype(x.dtype) if isinstance(x.dtype, np.dtype) else None
    return d is not None and (d.kind in "fc" or d.name.startswith(("bfloat", "float8")))


class _Noise:
    """Evaluates jaxprs with noise: `draw(shape)` gives numbers between -1 and 1."""

    def __init__(self, draw):
        self.draw = draw

    def on(self, x, units, whole=False):
        """`x` with each element moved by up to so many units of rounding, up or down."""
        if not hasattr(x, "shape"):  # a literal, exact as it stands
            return x
        if not _is_float(x) or not x.size:
            return x
        real = np.dtype(x.dtype)
        real = (
            np.dtype("float32" if real == "complex64" else "float64") if real.kind == "c" else real
        )
        eps = float(ml_dtypes.finfo(real).eps) * units / 2
        u = self.draw(x.shape) * eps
        if np.dtype(x.dtype).kind == "c":
            u = u + 1j * self.draw(x.shape) * eps
        wide = {"float64": "float64", "complex64": "complex64", "complex128": "complex128"}.get(
            np.dtype(x.dtype).name, "float32"
        )
        y = jax.numpy.asarray(x).astype(wide)
        if wide == "float32":  # by whole distances of floats: half of one moves few numbers
            u = jax.numpy.round(u / (eps or 1) * units) * float(ml_dtypes.finfo(real).eps)
        if whole:
            return (y + jax.numpy.max(abs(y)) * u.astype(wide)).astype(x.dtype)
        return jax.numpy.where(jax.numpy.isfinite(y), y + y * u.astype(wide), y).astype(x.dtype)

    def run(self, jaxpr, consts, args):
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))
        for eqn in jaxpr.eqns:
            ins = [v.val if isinstance(v, jax.extend.core.Literal) else env[v] for v in eqn.invars]
            env.update(zip(eqn.outvars, self.equation(eqn, ins), strict=True))
        return [v.val if isinstance(v, jax.extend.core.Literal) else env[v] for v in jaxpr.outvars]

    def closed(self, closed):
        if isinstance(closed, jax.extend.core.ClosedJaxpr):
            return lambda *args: self.run(closed.jaxpr, closed.consts, args)
        return lambda *args: self.run(closed, [], args)

    def equation(self, eqn, ins):
        name, params = eqn.primitive.name, eqn.params
        if name in ("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"):
            return self.closed(params.get("jaxpr") or params.get("call_jaxpr"))(*ins)
        if name in ("custom_jvp_call", "custom_vjp_call"):
            return self.closed(params.get("call_jaxpr") or params.get("fun_jaxpr"))(*ins)
        if name == "cond":
            return jax.lax.switch(ins[0], list(map(self.closed, params["branches"])), *ins[1:])
        if name == "while":
            return self.loop(params, ins)
        if name == "scan":
            return self.scan(params, ins)
        if name == "mul" and np.dtype(ins[0].dtype).kind == "c":
            return [self.complex_product(*ins)]
        if name == "conv_general_dilated":
            ins, params = padded(ins, params)
        if name in SUMS | WHOLE:
            ins = [self.on(x, 8 if name in WHOLE else 2, name in WHOLE) for x in ins]
        outs = eqn.primitive.bind(*ins, **eqn.primitive.get_bind_params(params))
        outs = outs if eqn.primitive.multiple_results else [outs]
        units = 1 if name in SUMS | WHOLE else UNITS.get(name, 0)
        if name == "convert_element_type" and not _is_float(ins[0]):
            units = 0
        return [self.on(x, units) if units else x for x in outs]

    def complex_product(self, x, y):
        """Every product of parts rounded by itself, as NumPy does and XLA does not (it fuses one of
        two into their sum): beyond the largest number the sum is NaN, not an infinity."""
        a, b, c, d = (
            part(jax.numpy.asarray(z)) for z in (x, y) for part in (jax.lax.real, jax.lax.imag)
        )
        ac, bd, ad, bc = (self.on(p * q, 1) for p, q in ((a, c), (b, d), (a, d), (b, c)))
        return jax.lax.complex(self.on(ac - bd, 1), self.on(ad + bc, 1))

    def loop(self, params, ins):
        n, m = params["cond_nconsts"], params["body_nconsts"]
        cond, body = self.closed(params["cond_jaxpr"]), self.closed(params["body_jaxpr"])

        def step(carry):
            going = cond(*ins[:n], *carry)[0]
            new = body(*ins[n : n + m], *carry)
            if not going.ndim:
                return new
            # A batch of loops: those that have ended stay as they are.
            return [
                jax.lax.select(
                    jax.lax.broadcast_in_dim(going, x.shape, tuple(range(going.ndim))), x, y
                )
                for x, y in zip(new, carry, strict=True)
            ]

        return jax.lax.while_loop(
            lambda s: jax.numpy.any(cond(*ins[:n], *s)[0]), step, list(ins[n + m :])
        )

    def scan(self, params, ins):
        n, m = params["num_consts"], params["num_carry"]
        body = self.closed(params["jaxpr"])

        def step(carry, xs):
            outs = body(*ins[:n], *carry, *xs)
            return outs[:m], outs[m:]

        how = {"length": params["length"], "reverse": params["reverse"]}
        carry, ys = jax.lax.scan(step, ins[n : n + m], ins[n + m :], **how)
        return [*carry, *ys]


def padded(ins, params):
    """A convolution whose padding is zeros of its operand: as in most of XLA's, they are multiplied
    like other numbers; in some shapes XLA leaves them out, which shows beside NaN."""
    lhs, rhs = ins
    config = [(0, 0, 0)] * lhs.ndim
    spatial = params["dimension_numbers"].lhs_spec[2:]
    for axis, (low, high), d in zip(
        spatial, params["padding"], params["lhs_dilation"], strict=True
    ):
        config[axis] = (low, high, d - 1)
    lhs = jax.lax.pad(lhs, np.zeros((), lhs.dtype), config)
    n = len(spatial)
    return [lhs, rhs], params | {"padding": ((0, 0),) * n, "lhs_dilation": (1,) * n}


def noisy_results(f, args, seeds):
    """The flat results of `f` under the noise of each seed. The numbers are arguments of one
    program: XLA takes minutes for a large one, and compiles it once."""
    closed = jax.make_jaxpr(f)(*args)
    leaves = jax.tree_util.tree_leaves(args)
    shapes = []

    def blank(shape):
        shapes.append(shape)
        return np.zeros(shape, "float32")

    jax.eval_shape(_Noise(blank).closed(closed), *leaves)

    def noisy(numbers, *xs):
        left = iter(numbers)
        return _Noise(lambda shape: next(left)).closed(closed)(*xs)

    run = jax.jit(noisy)
    return [run(_numbers(seed, shapes), *leaves) for seed in seeds]


def _numbers(seed, shapes):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes]
