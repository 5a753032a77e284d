"""Programs whose printed jaxprs are compared with JAX's. Each takes a namespace (`jax` or
`pullback`) and gives (function, arguments).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

PROGRAMS: dict[str, Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]]] = {}
V = np.arange(3, dtype=np.float32)
M = np.ones((3, 4), np.float32)
S = np.eye(3, dtype=np.float32)
I3 = np.arange(3, dtype=np.int32)


def chain(P: Any, n: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(n):
            x = P.lax.sin(x)
        return x

    return f


def add(name: str, make: Callable[[Any], Any], *args: Any) -> None:
    """`make(P)` is the function; `args` are its arguments."""
    PROGRAMS[name] = lambda P: (make(P), args)


# elementwise
for _n in (
    "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh digamma erf erf_inv erfc exp exp2 "
    "expm1 floor is_finite "
    "lgamma log log1p logistic neg round rsqrt sign sin sinh sqrt square tan tanh bessel_i0e "
    "bessel_i1e"
).split():
    add(f"lax.{_n}", lambda P, n=_n: lambda x: getattr(P.lax, n)(x), V)
for _n in "add sub mul div max min pow atan2 rem nextafter eq ne lt le gt ge igamma".split():
    add(f"lax.{_n}", lambda P, n=_n: lambda x: getattr(P.lax, n)(x, x), V)
for _n in "bitwise_and bitwise_or bitwise_xor shift_left shift_right_logical shift_right_arithmetic".split():  # noqa: E501
    add(f"lax.{_n}", lambda P, n=_n: lambda x: getattr(P.lax, n)(x, x), I3)
for _n in "bitwise_not clz population_count".split():
    add(f"lax.{_n}", lambda P, n=_n: lambda x: getattr(P.lax, n)(x), I3)
add("lax.clamp", lambda P: lambda x: P.lax.clamp(0.0, x, 1.0), V)
add("lax.integer_pow", lambda P: lambda x: P.lax.integer_pow(x, 3), V)
add("lax.convert", lambda P: lambda x: P.lax.convert_element_type(x, np.int32), V)
add("lax.bitcast", lambda P: lambda x: P.lax.bitcast_convert_type(x, np.int32), V)
add("lax.reduce_precision", lambda P: lambda x: P.lax.reduce_precision(x, 3, 4), V)
add("lax.select", lambda P: lambda x: P.lax.select(x > 0, x, x), V)
add("lax.complex", lambda P: lambda x: P.lax.conj(P.lax.complex(x, x)), V)
add(
    "lax.real",
    lambda P: lambda x: P.lax.real(P.lax.complex(x, x)) + P.lax.imag(P.lax.complex(x, x)),
    V,
)
add(
    "literals",
    lambda P: lambda x: (x + 1e-8, x + 1e20, x * float("inf"), x + 0.1, x + 123456789.0, x / 3),
    V,
)
add("integer literals", lambda P: lambda x: (x + 1, x * -5), I3)
add("python results", lambda P: lambda x: (x, 3.0, 2, True), V)
add(
    "numpy scalars",
    lambda P: lambda x: (x + np.float32(3), np.float32(2), np.int32(1), np.bool_(False)),
    V,
)
add("bfloat16", lambda P: lambda x: x.astype("bfloat16") * 2, V)
add("complex", lambda P: lambda x: x * (1 + 2j), V)
add("weak argument", lambda P: lambda x: x * 2 + 1, 3.0)
add("bool argument", lambda P: lambda x: x + 1, True)
add("identity", lambda P: lambda x: x, V)
add("no arguments", lambda P: lambda: ())
add("many arguments", lambda P: lambda *a: a, *[V] * 30)
add("concatenate 40", lambda P: lambda *a: P.lax.concatenate(a, 0), *[V] * 40)
add("two lines", lambda P: lambda x: P.lax.sin(x) * 2, V)
add("forty results", lambda P: lambda a: [a + float(i) for i in range(40)], 1.0)
add("unused", lambda P: lambda x: P.lax.top_k(x, 2)[0], V)
add("constant", lambda P: lambda x: x + V, V)
add("pytree", lambda P: lambda d: {"b": d["a"] + d["c"], "a": (d["a"],)}, {"a": V, "c": V})
for _k in (25, 26, 27, 60, 700):
    add(f"chain {_k}", lambda P, k=_k: chain(P, k), V)
# shapes
add("lax.broadcast_in_dim", lambda P: lambda x: P.lax.broadcast_in_dim(x, (3, 4), (0,)), V)
add("vmap of jit, last axis", lambda P: P.vmap(P.jit(lambda x: P.lax.sin(x) * 2), 1), M)
add("lax.broadcast", lambda P: lambda x: P.lax.broadcast(x, (2,)), V)
add("lax.full", lambda P: lambda x: P.lax.full((2, 3), 7.0) + x, V)
add("lax.rev", lambda P: lambda x: P.lax.rev(x, (0,)), V)
add("lax.squeeze", lambda P: lambda x: P.lax.squeeze(x, (0,)), V[None])
add("lax.expand_dims", lambda P: lambda x: P.lax.expand_dims(x, (0,)), V)
add("lax.transpose", lambda P: lambda x: P.lax.transpose(x, (1, 0)), M)
add("lax.reshape", lambda P: lambda x: P.lax.reshape(x, (4, 3)), M)
add("lax.slice", lambda P: lambda x: P.lax.slice(x, (0,), (2,)), V)
add("lax.slice strided", lambda P: lambda x: P.lax.slice(x, (0,), (3,), (2,)), V)
add("lax.slice_in_dim", lambda P: lambda x: P.lax.slice_in_dim(x, 0, 2, axis=1), M)
add("lax.index_in_dim", lambda P: lambda x: P.lax.index_in_dim(x, 1, axis=1), M)
add("lax.pad", lambda P: lambda x: P.lax.pad(x, 0.0, ((1, 1, 0),)), V)
add("lax.iota", lambda P: lambda: P.lax.iota(np.int32, 3))
add("lax.broadcasted_iota", lambda P: lambda: P.lax.broadcasted_iota(np.int32, (3, 4), 1))
add("lax.concatenate", lambda P: lambda x: P.lax.concatenate([x, x], 0), V)
add("lax.split", lambda P: lambda x: P.lax.split(x, (1, 2)), V)
for _n in "cumsum cumprod cummax cummin cumlogsumexp".split():
    add(f"lax.{_n}", lambda P, n=_n: lambda x: getattr(P.lax, n)(x), V)
for _n in "argmax argmin".split():
    add(f"lax.{_n}", lambda P, n=_n: lambda x: getattr(P.lax, n)(x, 0, np.int32), V)
add("lax.reduce_sum", lambda P: lambda x: P.lax.reduce(x, 0.0, P.lax.add, (0,)), V)
add("lax.reduce_max", lambda P: lambda x: P.lax.reduce(x, -np.inf, P.lax.max, (0,)), V)
add("lax.dot", lambda P: lambda x: P.lax.dot(x, x), S)
add(
    "lax.dot_general",
    lambda P: (
        lambda x: P.lax.dot_general(
            x, x, (((1,), (0,)), ((), ())), precision="highest", preferred_element_type=np.float32
        )
    ),
    S,
)
add(
    "lax.dot_general batch",
    lambda P: lambda x: P.lax.dot_general(x, x, (((2,), (1,)), ((0,), (0,)))),
    np.ones((2, 3, 3), np.float32),
)
add(
    "lax.conv",
    lambda P: lambda x: P.lax.conv(x, x, (1, 1), "SAME"),
    np.ones((1, 2, 3, 3), np.float32)[:, :1],
)
add(
    "lax.conv_general_dilated",
    lambda P: (
        lambda x, w: P.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
    ),
    np.ones((1, 8, 8, 3), np.float32),
    np.ones((3, 3, 3, 4), np.float32),
)
add(
    "reduce_window max",
    lambda P: lambda x: P.lax.reduce_window(x, -np.inf, P.lax.max, (2,), (1,), "SAME"),
    V,
)
add(
    "reduce_window sum",
    lambda P: lambda x: P.lax.reduce_window(x, 0.0, P.lax.add, (2,), (1,), "SAME"),
    V,
)
# indexing
add("lax.dynamic_slice", lambda P: lambda x, i: P.lax.dynamic_slice(x, (i,), (1,)), V, 1)
add("lax.dynamic_slice constant", lambda P: lambda x: P.lax.dynamic_slice(x, (1,), (1,)), V)
add("lax.dynamic_slice 2", lambda P: lambda x, i: P.lax.dynamic_slice(x, (i, 0), (1, 2)), M, 1)
add("lax.dynamic_update_slice", lambda P: lambda x: P.lax.dynamic_update_slice(x, x[:1], (1,)), V)
add("lax.dynamic_slice_in_dim", lambda P: lambda x, i: P.lax.dynamic_slice_in_dim(x, i, 2), M, 1)
add(
    "lax.dynamic_index_in_dim",
    lambda P: lambda x, i: P.lax.dynamic_index_in_dim(x, i, keepdims=False),
    M,
    1,
)
add(
    "lax.dynamic_update_index_in_dim",
    lambda P: lambda x, i: P.lax.dynamic_update_index_in_dim(x, x[0], i, 0),
    M,
    1,
)
add(
    "lax.dynamic_update_slice_in_dim",
    lambda P: lambda x, i: P.lax.dynamic_update_slice_in_dim(x, x[:1], i, 0),
    M,
    1,
)
add("x[i]", lambda P: lambda x, i: x[i], M, I3[:2])
add("x[scalar]", lambda P: lambda x, i: x[i], M, 1)
add("x[0]", lambda P: lambda x: x[0], M)
add("x[1:, 2]", lambda P: lambda x: x[1:, 2], M)
add("x[::-1]", lambda P: lambda x: x[::-1], M)
add("x.at.set", lambda P: lambda x, i: x.at[i].set(1.0), M, I3[:2])
add("x.at.add", lambda P: lambda x, i: x.at[i].add(1.0), M, I3[:2])
add("x.at.multiply", lambda P: lambda x, i: x.at[i].multiply(2.0), M, I3[:2])
add("x.at.min", lambda P: lambda x, i: x.at[i].min(2.0), M, I3[:2])
add("x.at.max", lambda P: lambda x, i: x.at[i].max(2.0), M, I3[:2])
add("x.at.get fill", lambda P: lambda x, i: x.at[i].get(mode="fill", fill_value=7.0), M, I3[:2])
add("lax.sort", lambda P: lambda x: P.lax.sort(x), V)
add("lax.sort 2", lambda P: lambda x: P.lax.sort((x, x), num_keys=2), V)
add("lax.top_k", lambda P: lambda x: P.lax.top_k(x, 2), V)
# jit
add("jit", lambda P: lambda x: P.jit(lambda y: y + 1)(x), V)


def _jit_twice(P: Any) -> Any:
    @P.jit
    def f(x: Any) -> Any:
        return P.lax.sin(x) * 2

    return lambda x: f(x) + f(x)


def _jit_chain(P: Any) -> Any:
    f = P.jit(chain(P, 1))
    return lambda x: f(f(x))


def _jit_nested(P: Any) -> Any:
    f = P.jit(chain(P, 1))
    g = P.jit(lambda x: f(x) + 1)
    return lambda x: f(g(g(x)))


def _jit_names(P: Any) -> Any:
    f1, f2 = P.jit(chain(P, 1)), P.jit(chain(P, 2))
    return lambda x: f1(f1(f2(f2(x))))


def _jit_inner(P: Any) -> Any:
    f = P.jit(chain(P, 1))
    return lambda x: P.jit(lambda y: f(y) + f(y))(x)


def _jit_dup(P: Any) -> Any:
    def dup(x: Any) -> Any:
        y = x + 1
        return y, y, x, 3.0

    return lambda x: P.jit(dup)(x)


def _jit_args(P: Any) -> Any:
    w = P.jit(lambda x, y, z: x + y * z)
    return lambda x: w(x, x, 1.0)


add("jit twice", _jit_twice, V)
add("jit chain", _jit_chain, V)
add("jit nested", _jit_nested, V)
add("jit names", _jit_names, V)
add("jit inner", _jit_inner, V)
add("jit results", _jit_dup, V)
add("jit arguments", _jit_args, V)
for _k in (9, 10, 11):
    add(f"jit {_k}", lambda P, k=_k: lambda x: P.jit(chain(P, k))(x), V)
add(
    "jit concatenate", lambda P: lambda *a: P.jit(lambda *b: P.lax.concatenate(b, 0))(*a), *[V] * 40
)
add(
    "jit many results",
    lambda P: lambda *a: P.jit(lambda *b: [P.lax.sin(x) for x in b])(*a),
    *[V] * 10,
)
add(
    "jit donate",
    lambda P: lambda x: P.jit(lambda y: y + 1, donate_argnums=0, keep_unused=True)(x),
    V,
)
add("jit inline", lambda P: lambda x: P.jit(lambda y: y + 1, inline=True)(x), V)
add("jit identity", lambda P: lambda x: P.jit(lambda y: y)(x), 1)
add("jit unused argument", lambda P: lambda x: P.jit(lambda y, z: y)(x, x * 2), V)
add("jit nothing", lambda P: lambda: P.jit(lambda: ())())
add("jit constant", lambda P: lambda x: P.jit(lambda y: y + V)(x), V)
# control flow
add("cond", lambda P: lambda x: P.lax.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, x), V)
add("cond long", lambda P: lambda x: P.lax.cond(x[0] > 0, chain(P, 12), chain(P, 11), x), V)
add("cond identity", lambda P: lambda x, y: P.lax.cond(x, lambda z: z, lambda z: z, y), True, 1)
add(
    "switch",
    lambda P: lambda x, i: P.lax.switch(i, [lambda y: y + 1, lambda y: y * 2, P.lax.sin], x),
    V,
    1,
)
add("scan", lambda P: lambda x: P.lax.scan(lambda c, y: (c + y, c * y), 0.0, x), V)
add(
    "scan reverse",
    lambda P: (
        lambda x: P.lax.scan(lambda c, y: (c + y, c * y), np.float32(0), x, reverse=True, unroll=2)
    ),
    V,
)
add("scan long", lambda P: lambda x: P.lax.scan(lambda c, y: (chain(P, 12)(c), y), x, M.T)[0], V)
add(
    "scan shared",
    lambda P: (lambda f: lambda x: P.lax.scan(lambda c, y: (f(c), f(y)), x, M.T)[0])(
        P.jit(chain(P, 1))
    ),
    V,
)
add(
    "grad scan, of what is the same in each step",
    lambda P: P.grad(
        lambda w: P.lax.scan(
            lambda c, y: (
                P.numpy.tanh(P.numpy.sin(w.T) @ c) + y + P.numpy.arange(3.0),
                None,
            ),
            P.numpy.ones(3, "float32"),
            V,
        )[0].sum()
    ),
    S,
)
add(
    "linearize scan",
    lambda P: (
        lambda x, y: P.linearize(
            lambda x, y: P.lax.scan(lambda c, a: (P.lax.sin(c) * y + a, c), y, x)[0], x, y
        )[1](x, y)
    ),
    V,
    np.float32(2),
)
add(
    "grad of a jit that hands arguments on",
    lambda P: P.grad(lambda x: sum(a.sum() for a in P.jit(lambda a: (P.lax.sin(a), a))(x))),
    V,
)
add(
    "grad of a jitted loop",
    lambda P: P.grad(
        P.jit(lambda x, y: P.lax.fori_loop(0, 3, lambda i, c: P.lax.sin(c) * y * i, x).sum()), 1
    ),
    V,
    np.float32(2),
)
add(
    "vmap pad, last axis",
    lambda P: P.vmap(lambda x, v: P.lax.pad(x, v, ((1, 1, 0), (0, -1, 1))), (2, 0), 2),
    np.ones((3, 4, 2), np.float32),
    np.ones(2, np.float32),
)
add(
    "vmap bitcast, last axis",
    lambda P: P.vmap(lambda x: P.lax.bitcast_convert_type(x, P.numpy.int32), 1, 1),
    M,
)
add(
    "scan xs none",
    lambda P: lambda x: P.lax.scan(lambda c, _: (c * 2, None), x, None, length=5)[0],
    V,
)
add(
    "while",
    lambda P: (
        lambda x: P.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))
    ),
    V,
)
add("while long", lambda P: lambda x: P.lax.while_loop(lambda c: c[0] < 1, chain(P, 12), x), V)
add(
    "while closure",
    lambda P: lambda x: P.lax.while_loop(lambda c: c[0] < x[0], lambda c: c * x, x),
    V,
)
_TO = lambda P: (
    lambda x: P.lax.while_loop(lambda c: c[0] < x, lambda c: (c[0] + 1, c[1] * x), (0.0, x))
)
add("while of lanes", lambda P: P.vmap(_TO(P)), V)
add("while of lanes, from one start", lambda P: lambda k: P.vmap(
    lambda x, k: P.lax.while_loop(lambda c: c[0] < k, lambda c: (c[0] + 1, c[1] * x), (0.0, x)),
    (None, 0))(2.0, k), V)  # fmt: skip
add("while of lanes, derivative", lambda P: lambda x: P.jvp(P.vmap(_TO(P)), (x,), (x,)), V)
add("fori", lambda P: lambda x: P.lax.fori_loop(0, 3, lambda i, c: c * 2, x), V)
add("fori dynamic", lambda P: lambda x, n: P.lax.fori_loop(0, n, lambda i, c: c * 2, x), V, 3)
add("checkpoint", lambda P: lambda x: P.checkpoint(lambda y: P.lax.sin(P.lax.sin(y)))(x), V)
# transformations
add("vmap", lambda P: P.vmap(lambda x: P.lax.sin(x) * 2), M)
add("vmap out_axes", lambda P: P.vmap(lambda x: P.lax.sin(x), in_axes=1, out_axes=1), M)
add(
    "vmap cond",
    lambda P: P.vmap(lambda k, x, y: P.lax.cond(k, lambda a, b: a * b, lambda a, b: a, x, y)),
    M[:, 0] > 0,
    M[:, 0],
    M[:, 1],
)
add(
    "vmap scan",
    lambda P: P.vmap(lambda x: P.lax.scan(lambda c, y: (c + y, c * y), np.float32(0), x)),
    M,
)
add("jvp", lambda P: lambda x: P.jvp(P.lax.sin, (x,), (x,)), V)
add("vjp", lambda P: lambda x: P.vjp(P.lax.sin, x)[1](x), V)
add("grad", lambda P: P.grad(lambda x: P.lax.sin(x).sum()), V)
add("grad jit", lambda P: P.grad(P.jit(lambda x: P.lax.sin(x).sum())), V)
add(
    "grad scan",
    lambda P: P.grad(lambda x: P.lax.scan(lambda c, y: (c * y, c), np.float32(1), x)[0]),
    V,
)
add("grad cond", lambda P: P.grad(lambda x: P.lax.cond(x > 0, P.lax.sin, P.lax.cos, x)), 1.0)
add("value_and_grad", lambda P: P.value_and_grad(lambda x: P.lax.exp(x).sum()), V)
add("jacfwd", lambda P: P.jacfwd(lambda x: P.lax.sin(x)), V)
add("linearize", lambda P: lambda x: P.linearize(P.lax.sin, x)[1](x), V)


def _custom_jvp(P: Any) -> Any:
    @P.custom_jvp
    def f(x: Any) -> Any:
        return P.lax.sin(x)

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        return f(*primals), tangents[0] * 2

    return f


def _custom_vjp(P: Any) -> Any:
    @P.custom_vjp
    def g(x: Any) -> Any:
        return P.lax.sin(x)

    def fwd(x: Any) -> Any:
        return P.lax.sin(x), x

    def bwd(r: Any, ct: Any) -> Any:
        return (ct * P.lax.cos(r),)

    g.defvjp(fwd, bwd)
    return g


add("custom_jvp", _custom_jvp, V)
add("custom_vjp", _custom_vjp, V)
add("grad custom_vjp", lambda P: (lambda g: P.grad(lambda x: g(x).sum()))(_custom_vjp(P)), V)
add("checkpoint of jit", lambda P: P.grad(P.checkpoint(
    P.jit(lambda y: P.lax.sin(P.lax.sin(y))))), 1.0)  # fmt: skip
add("checkpoint, pulled back", lambda P: lambda x: P.vjp(P.checkpoint(
    P.jit(lambda y: P.lax.sin(P.lax.sin(y)))), x)[1](1.0), 1.0)  # fmt: skip
add("map in batches", lambda P: lambda x: P.lax.map(P.lax.sin, x, batch_size=2), V)
# checkpoint: what a policy keeps, and which arguments have a barrier
for _n in ("everything_saveable", "nothing_saveable", "dots_saveable",
           "checkpoint_dots_with_no_batch_dims"):  # fmt: skip
    add(f"checkpoint {_n}", lambda P, n=_n: P.grad(P.checkpoint(
        lambda x: P.numpy.sin(P.lax.dot(P.numpy.sin(x), x)).sum(),
        policy=getattr(P.checkpoint_policies, n))), V)  # fmt: skip
add("checkpoint names", lambda P: P.checkpoint(
    P.numpy.sin, policy=P.checkpoint_policies.save_only_these_names("a")), V)  # fmt: skip
add("checkpoint any but names", lambda P: P.checkpoint(
    P.numpy.sin, policy=P.checkpoint_policies.save_any_names_but_these("a")), V)  # fmt: skip
add("checkpoint barriers", lambda P: P.grad(P.checkpoint(
    lambda x, y: P.numpy.sin(P.numpy.sin(x["a"]) * y).sum(),
    prevent_cse=({"a": True, "b": False}, False))), {"a": V, "b": V}, V)  # fmt: skip
# numpy and nn
for _n in "sin sum max mean cumsum flip ravel sort argsort square sign log1p".split():
    add(f"jnp.{_n}", lambda P, n=_n: lambda x: getattr(P.numpy, n)(x), M)
add("jnp.where", lambda P: lambda x: P.numpy.where(x > 0, x, 0.0), V)
add("jnp.clip", lambda P: lambda x: P.numpy.clip(x, 0, 1), V)
add("jnp.matmul", lambda P: lambda x: x @ x.T, M)
add("jnp.einsum", lambda P: lambda x: P.numpy.einsum("ij,kj->ik", x, x), M)
add("jnp.linspace", lambda P: lambda: P.numpy.arange(5))
add("jnp.stack", lambda P: lambda x: P.numpy.stack([x, x]), V)
for _k in (0, 1, -1):
    add(f"jnp.diag {_k}", lambda P, k=_k: lambda x: P.numpy.diag(x, k), V)
add("jnp.angle", lambda P: lambda x: P.numpy.angle(x * 1j), V)
add("jnp.linalg.norm", lambda P: lambda x: P.numpy.linalg.norm(x), V)
add("nn.relu", lambda P: lambda x: P.nn.relu(x), V)
add("nn.relu twice", lambda P: lambda x: P.nn.relu(x) + P.nn.relu(x + 1), V)
add("nn.softmax", lambda P: lambda x: P.nn.softmax(x), V)
add("nn.silu", lambda P: lambda x: P.nn.silu(x), V)
add("mlp", lambda P: lambda w, v, x: P.numpy.tanh(x @ w) @ v, S, M, V)
# numbers that are converted where a program mentions them
add("convert jvp", lambda P: lambda x: P.jvp(lambda v: x * v, (0.5,), (1.0,)), V)
add("convert twice", lambda P: lambda x: x * P.lax.convert_element_type(
    P.lax.convert_element_type(0.5, "float16"), "float32"), V)  # fmt: skip
add("convert weak", lambda P: lambda x: P.grad(lambda v: (x * v).sum())(0.5), V)
add("vmap of grad", lambda P: lambda c, x: P.vmap(
    lambda y: P.grad(lambda v: v * y + v * c)(0.5))(x), 2.0, V)  # fmt: skip
# what functions close over: arrays are constants, numbers of Python and NumPy literals
CLOSED = {
    "array": lambda P: P.numpy.float32(2),
    "weak array": lambda P: P.numpy.asarray(2.0),
    "integer array": lambda P: P.numpy.array(2),
    "NumPy number": lambda P: np.float64(2),
    "NumPy array": lambda P: np.arange(3.0),
    "NumPy integers": lambda P: np.arange(3),
}
for _n, _c in CLOSED.items():
    add(f"closed, {_n}", lambda P, c=_c: (lambda c: lambda x: x * c)(c(P)), V)
    add(f"closed and handed on, {_n}", lambda P, c=_c: (lambda c: lambda x: (x, c))(c(P)), V)
    add(f"closed, vmap, {_n}", lambda P, c=_c: (lambda c: P.vmap(lambda x: x * c))(c(P)), V)
    add(
        f"closed twice, {_n}",
        lambda P, c=_c: (lambda c: lambda x: x * c + P.numpy.sum(P.numpy.asarray(c)))(c(P)),
        V,
    )
    add(
        f"closed, jit, {_n}",
        lambda P, c=_c: (lambda c: lambda x: P.jit(lambda y: y * c)(x))(c(P)),
        V,
    )
    add(f"closed, loop, {_n}", lambda P, c=_c: (lambda c: lambda x: P.lax.fori_loop(
        0, 3, lambda i, k: k + x * c, x * c))(c(P)), V)  # fmt: skip
    add(f"closed, branches, {_n}", lambda P, c=_c: (lambda c: lambda x: P.lax.cond(
        x.sum() > 0, lambda x: x * c, lambda x: x + c, x))(c(P)), V)  # fmt: skip
    add(f"closed, gradient, {_n}", lambda P, c=_c: (lambda c: P.grad(lambda x: P.checkpoint(
        lambda y: P.numpy.sin(y * c))(x).sum()))(c(P)), V)  # fmt: skip
# indices keep their dtype until they are counted from the start
for _i in (np.int8(1), np.uint32(1), 1, np.array([1, 2], np.int8), np.array([1, 2], np.uint8)):
    _n = f"{type(_i).__name__} {getattr(_i, 'dtype', '')}"
    add(f"index {_n}", lambda P: lambda x, i: x[i], M, _i)
    add(f"index twice {_n}", lambda P: lambda x, i: x[i, i], M, _i)
    add(f"index and stride {_n}", lambda P: lambda x, i: x[i, ::2], M, _i)
    add(f"set at {_n}", lambda P: lambda x, i: x.at[i, -1].set(1.0), M, _i)
    add(f"take_along_axis {_n}", lambda P: lambda x, i: P.numpy.take_along_axis(
        x, P.numpy.broadcast_to(i, (3, 2)), 1), M, _i)  # fmt: skip
add("vmap of ranks", lambda P: P.vmap(lambda x, y: x * y, in_axes=(0, None)), V, V)
add("reshape of a number", lambda P: lambda x: P.lax.reshape(x, ()), 1.0)
add("random.uniform of one", lambda P: lambda s: P.random.uniform(P.random.key(s)), 3)
# linear algebra and fft
add("linalg.cholesky", lambda P: lambda x: P.lax.linalg.cholesky(x, symmetrize_input=False), S)
add("linalg.lu", lambda P: lambda x: P.lax.linalg.lu(x), S)
add("linalg.qr", lambda P: lambda x: P.lax.linalg.qr(x), S)
add("linalg.svd", lambda P: lambda x: P.lax.linalg.svd(x), S)
add("linalg.triangular_solve", lambda P: lambda x: P.lax.linalg.triangular_solve(x, x), S)
add("fft", lambda P: lambda x: P.lax.fft(P.lax.complex(x, x), "FFT", (3,)), V)
# random
add("random.key", lambda P: lambda: P.random.key(0))
add("random.split", lambda P: lambda s: P.random.split(P.random.key(s)), 3)
add("random.fold_in", lambda P: lambda s: P.random.fold_in(P.random.key(s), 5), 3)
add("random.bits", lambda P: lambda s: P.random.bits(P.random.key(s), (3,)), 3)
add("random.uniform", lambda P: lambda s: P.random.uniform(P.random.key(s), (3,)), 3)
add("random.normal", lambda P: lambda s: P.random.normal(P.random.key(s), (3,)), 3)
add("random.key_data raw", lambda P: P.random.key_data, np.array([0, 1], np.uint32))
add("one_hot", lambda P: lambda x: P.nn.one_hot(x, 4), np.arange(3))
add("random.normal raw", lambda P: lambda k: P.random.normal(k, (3,)), np.array([0, 1], np.uint32))
add("random.bernoulli", lambda P: lambda s: P.random.bernoulli(P.random.key(s), 0.3, (3,)), 3)
add("random.split raw", lambda P: lambda k: P.random.split(k), np.array([0, 1], np.uint32))


def add_random(name: str, **more: Any) -> None:
    """A distribution's program: static arguments by name, `args` of arrays."""
    args = more.pop("args", ())
    title = f"random.{name} {sorted(more.items())} of {len(args)}"
    add(
        title,
        lambda P: lambda s, *a: getattr(P.random, name)(P.random.key(s), *a, **more),
        3,
        *args,
    )


add_random("randint", shape=(3,), minval=0, maxval=10)
add_random("randint", shape=(3,), minval=0, maxval=10, dtype="uint8")
add("random.randint of arrays", lambda P: lambda s, a, b: P.random.randint(
    P.random.key(s), (3,), a, b), 3, np.arange(3, dtype=np.uint8), np.uint32(7))  # fmt: skip
add_random("choice", args=(V,), shape=(2,))
add_random("choice", args=(V,))
add_random("choice", args=(V,), p=np.float32([0.2, 0.3, 0.5]))
add_random("choice", args=(M,), shape=(2,), axis=1)
add_random("choice", args=(V,), shape=(2,), replace=False)
add_random("choice", args=(V,), shape=(2,), p=np.float32([0.2, 0.3, 0.5]))
add_random("choice", args=(V,), shape=(2,), p=np.float32([0.2, 0.3, 0.5]), replace=False)
add_random("permutation", args=(M,), axis=1)
add_random("maxwell", shape=(3,))
add_random("double_sided_maxwell", args=(V, V), shape=(3,))
add_random("multivariate_normal", args=(V, S))
add_random("multivariate_normal", args=(V, S), shape=(2,))
add_random("multivariate_normal", args=(V, S), method="eigh")
add_random("truncated_normal", lower=-1.0, upper=1.0, shape=(3,))
add_random("truncated_normal", args=(V, V + 1))
add_random("geometric", args=(V,))
add_random("wald", args=(V,))
add_random("triangular", args=(V, V, V))
add_random("triangular", left=0.0, mode=0.5, right=1.0)
add_random("generalized_normal", p=1.5, shape=(3,))
add_random("ball", d=3, shape=(2,))
add_random("gumbel", shape=(3,), mode="high")
add_random("bernoulli", args=(V,), mode="high")
# search in sorted arrays, and what is made of it
for _m in ("scan", "scan_unrolled", "sort"):
    for _x in (V, I3):
        add(f"searchsorted {_m} {_x.dtype}", lambda P, m=_m: lambda x: P.numpy.searchsorted(
            x, x, side="right", method=m), _x)  # fmt: skip
add("searchsorted of one", lambda P: lambda x: P.numpy.searchsorted(x, 2.5), V)
add("digitize", lambda P: lambda x: P.numpy.digitize(x, x), V)
add("interp", lambda P: lambda x: P.numpy.interp(x, x, x), V)
add("histogram", lambda P: lambda x: P.numpy.histogram(x), V)
# what only indices of examples read may be the same places
add("vmap of dynamic_slice", lambda P: P.vmap(
    lambda x, i: P.lax.dynamic_slice(x, (i,), (1,)), in_axes=(None, 0)), V, I3)  # fmt: skip


def _levels(P: Any) -> Callable[[Any], Any]:
    """Long functions of one name at several depths."""
    f = [P.jit(chain(P, n)) for n in (11, 12, 13)]
    below = P.jit(lambda x: f[0](x))
    a, b = P.jit(lambda x: P.lax.cos(below(x))), P.jit(lambda x: f[1](x))
    c = P.jit(lambda x: f[2](x) + f[1](x))
    return lambda x: a(x) + b(x) * c(x)


add("functions of one name at several depths", _levels, 1.0)
# linear algebra and transforms of numpy and scipy
for _n in ("svd", "svdvals", "cond", "cholesky", "eigh", "det", "qr"):
    add(f"jnp.linalg.{_n}", lambda P, n=_n: lambda x: getattr(P.numpy.linalg, n)(x), S)
for _n in ("cholesky", "cho_factor", "schur"):
    add(f"scipy.linalg.{_n}", lambda P, n=_n: lambda x: getattr(P.scipy.linalg, n)(x), S)
add("jnp.cumulative_prod", lambda P: lambda x: P.numpy.cumulative_prod(x), V)
for _n in ("fft", "ifft", "irfft", "fft2", "ifftn", "hfft"):
    add(f"jnp.fft.{_n}", lambda P, n=_n: lambda x: getattr(P.numpy.fft, n)(x), M)
# functions made of others: which of them are named
for _n in "vstack hstack dstack column_stack sort_complex".split():
    add(f"jnp.{_n} of rows", lambda P, n=_n: lambda x: getattr(P.numpy, n)(x), M)
for _n in "nonzero argwhere flatnonzero where".split():
    add(f"jnp.{_n}", lambda P, n=_n: lambda x: getattr(P.numpy, n)(x, size=5, fill_value=7), M)
add("jnp.mask_indices", lambda P: lambda: P.numpy.mask_indices(3, P.numpy.tril, size=6))
add("jnp.concatenate of rows", lambda P: lambda x: P.numpy.concatenate(x, 1), M[None])
add("jnp.take that wraps", lambda P: lambda x, i: P.numpy.take(x, i, mode="wrap"), V, I3)
add("jnp.diagonal", lambda P: lambda x: (P.numpy.diagonal(x, 1), P.numpy.diagonal(x, -1)), S)
add("jnp.tile of more", lambda P: lambda x: P.numpy.tile(x, (2, 1)), V)
add("jnp.atleast_3d", lambda P: lambda x, y: P.numpy.atleast_3d(x, y), V, M)
add("jnp.fft.fft2 cut", lambda P: lambda x: P.numpy.fft.fft2(x, s=(2, 4)), M)
add("jnp.fft.irfft cut", lambda P: lambda x: P.numpy.fft.irfft(x, n=4), M)
add("jnp.fft.rfft of more", lambda P: lambda x: P.numpy.fft.rfft(x, n=6), V)


# what solves equations holds the programs of the equation and of the solvers
def _solve(P: Any, symmetric: bool, derived: Callable[..., Any]) -> Callable[[Any], Any]:
    def half(mv: Any, b: Any) -> Any:
        return b / 2.0

    def f(a: Any) -> Any:
        return P.lax.custom_linear_solve(
            lambda x: a @ x, a[0], half, None if symmetric else half, symmetric=symmetric
        )

    return derived(f)


for _s in (True, False):
    add(f"solve {_s}", lambda P, s=_s: _solve(P, s, lambda f: f), S)
    add(f"jvp of solve {_s}", lambda P, s=_s: _solve(P, s, lambda f: lambda x: P.jvp(
        f, (x,), (x,))), S)  # fmt: skip
    add(f"grad of solve {_s}", lambda P, s=_s: _solve(P, s, lambda f: P.grad(
        lambda x: f(x).sum())), S)  # fmt: skip


def _root(P: Any) -> Callable[[Any], Any]:
    return lambda a: P.lax.custom_root(
        lambda x: x**2 - a, a, lambda f, x: x, lambda g, y: y / g(1.0)
    )


add("root", _root, np.float32(2))
add("grad of root", lambda P: P.grad(_root(P)), np.float32(2))

# The one of two signals that slides, and the middle part alone
for _mode in ("full", "same", "valid"):
    for _k, (_a, _b) in enumerate(((V, V), (V[:2], V), (V, V[:2]))):
        for _n in ("convolve", "correlate"):
            add(f"signal.{_n} {_mode} {_k}", lambda P, n=_n, m=_mode: lambda x, y: getattr(
                P.scipy.signal, n)(x, y, m), _a, _b)  # fmt: skip
