"""What random programs are made of: operations on float arrays (other dtypes come and go inside
them), and the faults of the error cell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Unary = tuple[str, Callable[[Any, Any], Any]]
Binary = tuple[str, Callable[[Any, Any, Any], Any]]


def elementwise() -> list[Unary]:
    lax = [
        "sin",
        "cos",
        "tan",
        "tanh",
        "exp",
        "neg",
        "logistic",
        "erf",
        "abs",
        "floor",
        "sign",
        "square",
        "asinh",
        "atan",
        "expm1",
        "cbrt",
        "sinh",
        "cosh",
        "exp2",
        "round",
        "erfc",
        "asin",
        "acos",
        "atanh",
    ]
    # Values are kept off the kinks of the rounding functions and inside the domains of the others.
    ops: list[Any] = [
        (n, lambda ns, x, n=n: getattr(ns.lax, n)(ns.lax.tanh(x) * 0.8 + 0.013)) for n in lax
    ]
    return ops + [
        ("log1p", lambda ns, x: ns.lax.log1p(ns.lax.abs(x))),
        ("sqrt", lambda ns, x: ns.lax.sqrt(ns.lax.abs(x) + 0.5)),
        ("rsqrt", lambda ns, x: ns.lax.rsqrt(ns.lax.abs(x) + 0.5)),
        ("log", lambda ns, x: ns.lax.log(ns.lax.abs(x) + 0.5)),
        ("lgamma", lambda ns, x: ns.lax.lgamma(ns.lax.abs(x) + 0.6)),
        ("integer_pow", lambda ns, x: ns.lax.integer_pow(x, 3) * 0.1),
        ("pow", lambda ns, x: ns.lax.pow(ns.lax.abs(x) + 0.5, 1.5)),
        ("where", lambda ns, x: ns.numpy.where(x > 0.1, x, 2.0 * x)),
        ("clip", lambda ns, x: ns.numpy.clip(x, -0.7, 0.8)),
        ("stop", lambda ns, x: ns.lax.stop_gradient(x) + x),
        ("relu", lambda ns, x: ns.jax.nn.relu(x)),
        ("softplus", lambda ns, x: ns.jax.nn.softplus(x)),
        ("gelu", lambda ns, x: ns.jax.nn.gelu(x)),
        ("nan_to_num", lambda ns, x: ns.numpy.nan_to_num(x)),
        ("checkpoint", lambda ns, x: ns.jax.checkpoint(lambda v: ns.lax.sin(v) * v)(x)),
        ("isfinite", lambda ns, x: ns.numpy.isfinite(x) * x),
        ("python power", lambda ns, x: x**2 * 0.3),
        ("rdiv", lambda ns, x: 1.0 / (abs(x) + 1)),
    ]  # fmt: skip


def shapes() -> list[Unary]:
    return [
        ("sum", lambda ns, x: x.sum()),
        ("sum0", lambda ns, x: x.sum(0) if x.ndim else x),
        ("mean", lambda ns, x: x.mean() if x.size else x.sum()),
        ("max", lambda ns, x: x.max() if x.size else x.sum()),
        ("min keepdims", lambda ns, x: x.min(-1, keepdims=True) if x.ndim and x.shape[-1] else x),
        ("prod", lambda ns, x: (x * 0.5 + 1).prod()),
        (
            "std",
            lambda ns, x: (
                (x + ns.numpy.arange(x.size).reshape(x.shape)).std() if x.size else x.sum()
            ),
        ),
        ("cumsum", lambda ns, x: ns.numpy.cumsum(x, 0) if x.ndim else x),
        ("cumprod", lambda ns, x: ns.numpy.cumprod(x * 0.5 + 0.7, 0) if x.ndim else x),
        ("cummax", lambda ns, x: ns.lax.cummax(x, 0, reverse=True) if x.ndim else x),
        ("cumlogsumexp", lambda ns, x: ns.lax.cumlogsumexp(x, 0) if x.ndim else x),
        ("transpose", lambda ns, x: x.T),
        ("reshape", lambda ns, x: x.reshape(-1)),
        ("flip", lambda ns, x: ns.numpy.flip(x)),
        ("expand", lambda ns, x: x[None]),
        ("squeeze", lambda ns, x: x.squeeze()),
        ("swap", lambda ns, x: ns.numpy.swapaxes(x, 0, -1) if x.ndim else x),
        ("roll", lambda ns, x: ns.numpy.roll(x, 1)),
        ("tile", lambda ns, x: ns.numpy.tile(x, 2)),
        ("repeat", lambda ns, x: ns.numpy.repeat(x, 2, axis=0) if x.ndim else x),
        ("stack", lambda ns, x: ns.numpy.stack([x, x + 1], axis=-1)),
        ("concat", lambda ns, x: ns.numpy.concatenate([x, x * 2]) if x.ndim else x),
        (
            "split",
            lambda ns, x: ns.numpy.split(ns.numpy.concatenate([x, x]), 2)[1] if x.ndim else x,
        ),
        ("pad", lambda ns, x: ns.numpy.pad(x, 1) if x.ndim else x),
        (
            "lax pad",
            lambda ns, x: ns.lax.pad(x, np.dtype(x.dtype).type(0.5), [(1, -1, 1)] * x.ndim),
        ),
        ("slice", lambda ns, x: x[:1] if x.ndim else x),
        ("stride", lambda ns, x: x[::-2] if x.ndim else x),
        ("newaxis", lambda ns, x: x[..., None, :] if x.ndim else x),
        ("broadcast", lambda ns, x: ns.numpy.broadcast_to(x, (2, *x.shape))),
        ("triu", lambda ns, x: ns.numpy.triu(x) if x.ndim >= 2 else x),
        ("diag", lambda ns, x: ns.numpy.diag(x) if x.ndim in (1, 2) else x),
        ("outer", lambda ns, x: x.reshape(-1)[:, None] * x.reshape(-1)[None, :]),
        ("matmul", lambda ns, x: x.reshape(-1)[None, :] @ x.reshape(-1)[:, None]),
        ("softmax", lambda ns, x: ns.jax.nn.softmax(x) if x.ndim and x.size else x),
        ("logsumexp", lambda ns, x: ns.jax.nn.logsumexp(x) if x.size else x.sum()),
        (
            "standardize",
            lambda ns, x: ns.jax.nn.standardize(spread(ns, x)) if x.ndim and x.shape[-1] > 1 else x,
        ),
        ("unstack", lambda ns, x: sum(list(x), 0 * x.sum()) if x.ndim else x),
    ]


def spread(ns: Any, x: Any) -> Any:
    """`x` plus its own positions: no two elements are equal, so orders and maxima are unique."""
    return x + ns.numpy.arange(x.size, dtype="float32").reshape(x.shape) * 0.37


def whole(ns: Any, x: Any, dtype: str = "int32") -> Any:
    """Small integers made from floats, away from the edges of rounding."""
    return ns.numpy.floor(ns.lax.tanh(x) * 2.7 + 3.017).astype(dtype)


def indexing() -> list[Unary]:
    def first(f: Any, g: Any = None) -> Any:
        return lambda ns, x: f(ns, x) if x.ndim and x.shape[0] else x

    def at(mode: str | None, name: str) -> Any:
        def update(ns: Any, x: Any) -> Any:
            index = whole(ns, x.reshape(-1)) - 2  # some below zero, some past the end
            values = x.reshape(-1) * 0.5 + 0.8
            values = values.reshape((-1,) + (1,) * (x.ndim - 1))
            return getattr(x.at[index], name)(values, mode=mode)

        return update

    ops: list[Any] = [
        ("take", first(lambda ns, x: x[np.array([0, 0])])),
        ("take clip", first(lambda ns, x: ns.numpy.take(x, whole(ns, x) - 3, axis=0, mode="clip"))),
        (
            "take fill",
            first(
                lambda ns, x: ns.numpy.nan_to_num(
                    ns.numpy.take(x, whole(ns, x), axis=0, mode="fill")
                )
            ),
        ),
        ("take wrap", first(lambda ns, x: ns.numpy.take(x, whole(ns, x), mode="wrap"))),
        (
            "along",
            first(lambda ns, x: ns.numpy.take_along_axis(x, ns.numpy.argsort(spread(ns, x), 0), 0)),
        ),
        (
            "mask",
            first(
                lambda ns, x: ns.numpy.where(ns.numpy.arange(x.shape[0]) % 2 == 0, x.sum(), x.max())
            ),
        ),
        ("at", first(lambda ns, x: x.at[0].add(1.5))),
        ("at get", first(lambda ns, x: x.at[whole(ns, x.sum())].get(mode="clip"))),
        ("at slice", first(lambda ns, x: x.at[:1].mul(2.5))),
        ("at last", first(lambda ns, x: x.at[..., -1].set(0.3))),
        ("at max", first(lambda ns, x: x.at[:1].max(x.sum()))),
        ("at apply", first(lambda ns, x: x.at[0].apply(ns.lax.sin))),
        (
            "dynamic_slice",
            first(lambda ns, x: ns.lax.dynamic_slice_in_dim(x, whole(ns, x.sum()) - 2, 1)),
        ),
        (
            "dynamic_update",
            first(
                lambda ns, x: ns.lax.dynamic_update_slice_in_dim(
                    x, x[:1] * 2, whole(ns, x.sum()), 0
                )
            ),
        ),
        (
            "dynamic_index",
            first(
                lambda ns, x: ns.lax.dynamic_index_in_dim(x, whole(ns, x.sum()) - 3, keepdims=False)
            ),
        ),
        (
            "two arrays",
            lambda ns, x: x[whole(ns, x) - 3, whole(ns, x) * 0] if x.ndim == 2 and x.size else x,
        ),
        ("sort", lambda ns, x: ns.numpy.sort(x, 0) if x.ndim else x),
        ("sort last", lambda ns, x: ns.numpy.sort(spread(ns, x), descending=True) if x.ndim else x),
        (
            "sort pair",
            lambda ns, x: (
                ns.lax.sort((spread(ns, x), x * 2), dimension=0, num_keys=1)[1] if x.ndim else x
            ),
        ),
        ("argsort", lambda ns, x: ns.numpy.argsort(spread(ns, x)) * 1.0 + x if x.ndim else x),
        ("top_k", lambda ns, x: ns.lax.top_k(spread(ns, x), 1)[0] if x.ndim and x.shape[-1] else x),
        ("argmax", lambda ns, x: ns.numpy.argmax(spread(ns, x)) * 1.0 if x.size else x),
        (
            "argmin axis",
            lambda ns, x: (
                ns.numpy.argmin(spread(ns, x), -1) + x.sum() if x.ndim and x.shape[-1] else x
            ),
        ),
        ("one_hot", lambda ns, x: ns.jax.nn.one_hot(whole(ns, x), 3) * x.sum()),
        (
            "segment",
            lambda ns, x: (
                ns.jax.ops.segment_sum(x, whole(ns, x.sum()) + ns.numpy.arange(x.shape[0]), 4)
                if x.ndim
                else x
            ),
        ),
        (
            "searchsorted",
            lambda ns, x: ns.numpy.searchsorted(np.array([-1.01, 0.013, 1.02], "float32"), x) + x,
        ),
        ("median", lambda ns, x: ns.numpy.median(spread(ns, x)) if x.size else x),
    ]
    for mode in (None, "drop", "clip"):
        for name in ("add", "set", "multiply"):
            if name == "set" and mode == "clip":
                continue  # several values for one place: which stays is not defined
            ops.append((f"at {name} {mode}", first(at(mode, name))))
    return ops


def narrow(dtype: str) -> list[Unary]:
    def through(f: Any) -> Any:
        return lambda ns, x: f(ns, (x * 0.5).astype(dtype)).astype("float32")

    return [
        (f"{dtype} mul", through(lambda ns, y: y * y + 1)),
        (f"{dtype} sin", through(lambda ns, y: ns.lax.sin(y))),
        (f"{dtype} sum", through(lambda ns, y: y.sum())),
        (f"{dtype} max", through(lambda ns, y: y.max() if y.size else y)),
        (f"{dtype} div", through(lambda ns, y: y / (abs(y) + 2))),
        (f"{dtype} mixed", lambda ns, x: x.astype(dtype) * 0.5 + x),
    ]


def integers() -> list[Unary]:
    def through(f: Any, dtype: str) -> Any:
        return lambda ns, x: f(ns, whole(ns, x, dtype)) * 1.0 + x

    def wide(f: Any, dtype: str) -> Any:
        return lambda ns, x: f(ns, whole(ns, x, dtype)).astype("float32") * 0.25

    ops: list[Any] = []
    for dtype in ("int32", "uint8", "int8", "uint32", "int16"):
        ops += [
            (f"{dtype} //", through(lambda ns, i: i // 2, dtype)),
            (f"{dtype} %", through(lambda ns, i: (i + 3) % 4, dtype)),
            (f"{dtype} bits", through(lambda ns, i: (i ^ 5) & 7 | 1, dtype)),
            (f"{dtype} shift", through(lambda ns, i: (i << 1) + (i >> 1), dtype)),
            (f"{dtype} invert", wide(lambda ns, i: ~i >> 2, dtype)),
            (f"{dtype} sum", wide(lambda ns, i: i.sum(), dtype)),
            (f"{dtype} cumsum", wide(lambda ns, i: ns.numpy.cumsum(i), dtype)),
            (f"{dtype} max", wide(lambda ns, i: i.max() if i.size else i, dtype)),
            (
                f"{dtype} popcount",
                wide(lambda ns, i: ns.lax.population_count(i) + ns.lax.clz(i), dtype),
            ),
            (f"{dtype} pow", wide(lambda ns, i: i**2, dtype)),
            (f"{dtype} sort", wide(lambda ns, i: ns.numpy.sort(i) if i.ndim else i, dtype)),
            (f"{dtype} divide", wide(lambda ns, i: i / 3, dtype)),
            (f"{dtype} dot", wide(lambda ns, i: i.reshape(-1) @ i.reshape(-1), dtype)),
        ]
    return [
        *ops,
        ("bool any", lambda ns, x: (x > 0.313).any() * 2.0 + x),
        ("bool all", lambda ns, x: ns.numpy.logical_not((x > 0.313).all()) + x),
        ("bool xor", lambda ns, x: ((x > 0.313) ^ (x < 0.717)) * x),
        ("bool sum", lambda ns, x: (x > 0.313).sum() * 0.5 + x),
        ("count", lambda ns, x: ns.numpy.count_nonzero(x > 0.313) / 4 + x.sum()),
        (
            "bitcast",
            lambda ns, x: ns.lax.bitcast_convert_type(
                ns.lax.bitcast_convert_type(x, "int32") & -256, "float32"
            ),
        ),
    ]


def complexes() -> list[Unary]:
    def through(f: Any) -> Any:
        def op(ns: Any, x: Any) -> Any:
            y = f(ns, ns.lax.complex(x, x * 0.5 + 0.3))
            return y.real + y.imag * 0.5

        return op

    return [
        ("complex mul", through(lambda ns, z: z * z * 0.5)),
        ("complex exp", through(lambda ns, z: ns.lax.exp(z * 0.3))),
        ("complex div", through(lambda ns, z: z / (2.0 + 1j + z * z.conj()))),
        ("complex abs", lambda ns, x: abs(ns.lax.complex(x, x * 0.5 + 0.3))),
        ("complex conj", through(lambda ns, z: z.conj().sum() * 0.2)),
        ("complex dot", through(lambda ns, z: ns.numpy.vdot(z.reshape(-1), z.reshape(-1)) * 0.1)),
        ("complex sqrt", through(lambda ns, z: ns.numpy.sqrt(z + 2))),
        ("angle", lambda ns, x: ns.numpy.angle(ns.lax.complex(x, x * 0.5 + 0.3) + 3)),
        (
            "fft",
            lambda ns, x: (
                ns.numpy.fft.rfft(x.astype("float32")).real if x.ndim and x.shape[-1] else x
            ),
        ),
    ]


def windows() -> list[Unary]:
    def conv(ns: Any, x: Any) -> Any:
        signal = x.reshape(1, 1, -1)
        kernel = ns.lax.sin(x.reshape(-1)[:2]).reshape(1, 1, -1)
        return ns.lax.conv_general_dilated(
            signal, kernel, (1,), "SAME", lhs_dilation=(2,) if x.size > 3 else (1,)
        )

    def batched_dot(ns: Any, x: Any) -> Any:
        a, b = (
            ns.numpy.stack([x.reshape(-1)] * 2),
            ns.numpy.stack([x.reshape(-1) * 0.5, x.reshape(-1)]),
        )
        return ns.lax.dot_general(a, b, (((1,), (1,)), ((0,), (0,)))) * 0.3  # fmt: skip

    def pool(ns: Any, x: Any) -> Any:
        return ns.lax.reduce_window(
            spread(ns, x), -np.inf, ns.lax.max, (2,) * x.ndim, (1,) * x.ndim, "VALID"
        )

    return [
        ("conv", lambda ns, x: conv(ns, x) if x.size else x),
        (
            "convolve",
            lambda ns, x: (
                ns.numpy.convolve(x.reshape(-1), np.array([1.0, 0.5], "float32")) if x.size else x
            ),
        ),
        ("dot_general", batched_dot),
        ("einsum", lambda ns, x: ns.numpy.einsum("i,j->ij", x.reshape(-1)[:3], x.reshape(-1)[:2])),
        ("tensordot", lambda ns, x: ns.numpy.tensordot(x, x, axes=x.ndim) * 0.3),
        ("max_pool", lambda ns, x: pool(ns, x) if x.ndim and x.size else x),
        (
            "avg window",
            lambda ns, x: (
                ns.lax.reduce_window(x, 0.0, ns.lax.add, (2,) * x.ndim, (2,) * x.ndim, "SAME")
                if x.ndim and x.size
                else x
            ),
        ),
        ("map", lambda ns, x: ns.lax.map(lambda v: ns.lax.sin(v).sum(), x) if x.ndim else x),
        (
            "inner vmap",
            lambda ns, x: ns.jax.vmap(lambda v: v * v.sum())(x) if x.ndim and x.shape[0] else x,
        ),
        ("inner grad", lambda ns, x: ns.jax.grad(lambda v: (ns.lax.sin(v) * v).sum())(x)),
        (
            "associative",
            lambda ns, x: (
                ns.lax.associative_scan(lambda a, b: a * 0.5 + b, x) if x.ndim and x.shape[0] else x
            ),
        ),
        ("reduce", lambda ns, x: ns.lax.reduce(x, np.float32(0), ns.lax.add, tuple(range(x.ndim)))),
        (
            "interp",
            lambda ns, x: ns.numpy.interp(
                x, np.array([-1.01, 0.02, 1.03], "float32"), np.array([2.0, 1.0, 3.0], "float32")
            ),
        ),
    ]


UNARY: list[Unary] = [
    *elementwise(),
    *shapes(),
    *indexing(),
    *narrow("bfloat16"),
    *narrow("float16"),
    *complexes(),
    *windows(),
]
INTEGER: list[Unary] = integers()
BINARY: list[Binary] = [
    ("add", lambda ns, x, y: x + y),
    ("sub", lambda ns, x, y: x - y),
    ("mul", lambda ns, x, y: x * y),
    ("div", lambda ns, x, y: x / (ns.lax.abs(y) + 1)),
    ("maximum", lambda ns, x, y: ns.numpy.maximum(x, y)),
    ("minimum", lambda ns, x, y: ns.numpy.minimum(x, y)),
    ("atan2", lambda ns, x, y: ns.numpy.arctan2(x + 0.1, ns.lax.abs(y) + 1)),
    ("select", lambda ns, x, y: ns.numpy.where(x > y, x, y)),
    ("logaddexp", lambda ns, x, y: ns.numpy.logaddexp(x, y)),
    ("power", lambda ns, x, y: ns.numpy.power(ns.lax.abs(x) + 0.5, ns.lax.tanh(y))),
    ("hypot", lambda ns, x, y: ns.numpy.hypot(x + 2, y)),
    ("cond", lambda ns, x, y: ns.lax.cond(y.sum() > 0.1017, lambda v: v * 2, ns.lax.sin, x)),
    ("dot", lambda ns, x, y: x.reshape(-1)[:1] @ y.reshape(-1)[:1] if x.size and y.size else x),
    ("copysign", lambda ns, x, y: ns.numpy.copysign(x, y + 0.0137)),
    ("nextafter", lambda ns, x, y: ns.lax.stop_gradient(ns.numpy.nextafter(x, y)) + y),
    ("set", lambda ns, x, y: x.at[0].set(y.sum()) if x.ndim and x.shape[0] else x),
    ("concatenate", lambda ns, x, y: ns.numpy.concatenate([x.reshape(-1), y.reshape(-1)])),
]  # fmt: skip


# What is wrong, as a function of (ns, float array of at least one axis).
FAULTS: list[Unary] = [
    ("add shapes", lambda ns, x: x + ns.numpy.ones((7, 11))),
    ("lax.add dtypes", lambda ns, x: ns.lax.add(x, ns.lax.convert_element_type(x, np.int32))),
    ("lax.add shapes", lambda ns, x: ns.lax.add(x, ns.numpy.ones((7, 11)))),
    ("reshape", lambda ns, x: x.reshape(x.size + 1)),
    ("axis", lambda ns, x: x.sum(x.ndim + 1)),
    ("axis twice", lambda ns, x: x.sum((0, 0))),
    ("matmul", lambda ns, x: x.reshape(-1) @ ns.numpy.ones(x.size + 1)),
    ("concatenate ranks", lambda ns, x: ns.numpy.concatenate([x, x[None]])),
    ("concatenate none", lambda ns, x: ns.numpy.concatenate([])),
    (
        "concatenate sizes",
        lambda ns, x: ns.lax.concatenate([ns.numpy.ones((2, 3)), ns.numpy.ones((2, 4))], 0),
    ),
    ("stack shapes", lambda ns, x: ns.numpy.stack([x, x.reshape(-1)[:1][None, None, None]])),
    ("dynamic_slice indices", lambda ns, x: ns.lax.dynamic_slice(x, (0,) * (x.ndim + 1), x.shape)),
    (
        "dynamic_slice sizes",
        lambda ns, x: ns.lax.dynamic_slice(x, (0,) * x.ndim, tuple(n + 1 for n in x.shape)),
    ),
    (
        "scan carry",
        lambda ns, x: ns.lax.scan(lambda c, _: (c.astype("int32"), c), x, None, length=2),
    ),
    ("scan tree", lambda ns, x: ns.lax.scan(lambda c, _: ((c, c), c), x, None, length=2)),
    ("scan pair", lambda ns, x: ns.lax.scan(lambda c, _: c, x.sum(), None, length=2)),
    ("scan length", lambda ns, x: ns.lax.scan(lambda c, v: (c, v), 0.0, x, length=99)),
    ("cond branches", lambda ns, x: ns.lax.cond(x.sum() > 0, lambda v: v, lambda v: v[None], x)),
    ("cond trees", lambda ns, x: ns.lax.cond(x.sum() > 0, lambda v: v, lambda v: (v,), x)),
    ("cond pred", lambda ns, x: ns.lax.cond(x.reshape(-1)[:1] > 0, lambda v: v, lambda v: v, x)),
    (
        "while pred",
        lambda ns, x: ns.lax.while_loop(lambda v: v > 0, lambda v: v - 1, x.reshape(-1)),
    ),
    ("while carry", lambda ns, x: ns.lax.while_loop(lambda v: v.sum() > 9, lambda v: v[None], x)),
    ("grad of array", lambda ns, x: ns.jax.grad(lambda v: v * 2)(ns.numpy.ones(3))),
    ("grad of int", lambda ns, x: ns.jax.grad(lambda v: v * 2.0)(3)),
    ("grad to int", lambda ns, x: ns.jax.grad(lambda v: v.astype("int32").sum())(x)),
    ("grad argnums", lambda ns, x: ns.jax.grad(lambda v: v.sum(), argnums=3)(x)),
    ("grad aux", lambda ns, x: ns.jax.grad(lambda v: v.sum(), has_aux=True)(x)),
    (
        "reverse while",
        lambda ns, x: ns.jax.grad(lambda v: ns.lax.while_loop(lambda u: u < 3, lambda u: u + 1, v))(
            0.5
        ),
    ),
    ("bool", lambda ns, x: 1.0 if ns.jax.jit(lambda v: v if v.sum() > 0 else -v)(x) is None else x),
    ("float", lambda ns, x: ns.jax.jit(lambda v: v * float(v.sum()))(x)),
    ("int", lambda ns, x: ns.jax.jit(lambda v: v * int(v.sum()))(x)),
    ("range", lambda ns, x: ns.jax.jit(lambda v: v * len(range(v.astype("int32").sum())))(x)),
    ("asarray", lambda ns, x: ns.jax.jit(lambda v: np.asarray(v) + 1)(x)),
    ("numpy function", lambda ns, x: ns.jax.jit(lambda v: np.sin(v))(x)),
    ("shape from value", lambda ns, x: ns.jax.jit(lambda n: ns.numpy.zeros(n))(3)),
    ("reshape by value", lambda ns, x: ns.jax.jit(lambda n: ns.numpy.ones(6).reshape(n, 2))(3)),
    ("boolean mask", lambda ns, x: ns.jax.jit(lambda v: v[v > 0])(x)),
    ("nonzero", lambda ns, x: ns.jax.jit(lambda v: ns.numpy.nonzero(v))(x)),
    ("tolist", lambda ns, x: ns.jax.jit(lambda v: v.tolist())(x)),
    (
        "vmap sizes",
        lambda ns, x: ns.jax.vmap(lambda a, b: a.sum() + b.sum())(
            ns.numpy.ones((2, 3)), ns.numpy.ones((3, 2))
        ),
    ),
    ("vmap scalar", lambda ns, x: ns.jax.vmap(lambda a: a)(1.0)),
    ("vmap in_axes", lambda ns, x: ns.jax.vmap(lambda a: a, in_axes=(0, 0))(x)),
    ("vmap axis", lambda ns, x: ns.jax.vmap(lambda a: a, in_axes=9)(x)),
    ("vmap no axis", lambda ns, x: ns.jax.vmap(lambda a: a, in_axes=None)(x)),
    ("vmap out_axes", lambda ns, x: ns.jax.vmap(lambda a: a, out_axes=None)(ns.numpy.ones(3))),
    (
        "vmap out_axes tree",
        lambda ns, x: ns.jax.vmap(lambda a: a, out_axes=(0, 0))(ns.numpy.ones(3)),
    ),
    ("jvp shape", lambda ns, x: ns.jax.jvp(lambda v: v, (x,), (x[None],))),
    ("jvp dtype", lambda ns, x: ns.jax.jvp(lambda v: v, (x,), (x.astype("int32"),))),
    ("jvp tuple", lambda ns, x: ns.jax.jvp(lambda v: v, x, x)),
    ("jvp tree", lambda ns, x: ns.jax.jvp(lambda v: v, (x,), ((x, x),))),
    ("vjp tree", lambda ns, x: ns.jax.vjp(lambda v: v, x)[1]((x, x))),
    ("vjp shape", lambda ns, x: ns.jax.vjp(lambda v: v, x)[1](x[None])),
    ("vjp dtype", lambda ns, x: ns.jax.vjp(lambda v: v, x)[1](x.astype("bfloat16"))),
    ("linearize shape", lambda ns, x: ns.jax.linearize(lambda v: v, x)[1](x[None])),
    ("jit returns text", lambda ns, x: ns.jax.jit(lambda v: "text")(x)),
    ("jit takes text", lambda ns, x: ns.jax.jit(lambda v: x)("text")),
    ("jit of nothing", lambda ns, x: ns.jax.jit(3)(x)),
    ("unhashable static", lambda ns, x: ns.jax.jit(lambda v, s: v, static_argnums=1)(x, [1])),
    ("switch empty", lambda ns, x: ns.lax.switch(0, [], x)),
    ("switch float", lambda ns, x: ns.lax.switch(0.5, [lambda v: v, lambda v: v], x)),
    ("transpose", lambda ns, x: ns.lax.transpose(x, (0,) * (x.ndim + 1))),
    ("permutation", lambda ns, x: ns.numpy.transpose(ns.numpy.ones((2, 3)), (0, 0))),
    ("squeeze", lambda ns, x: ns.numpy.squeeze(ns.numpy.ones((2, 1)), 0)),
    ("broadcast_to", lambda ns, x: ns.numpy.broadcast_to(ns.numpy.ones(3), (2, 4))),
    (
        "einsum",
        lambda ns, x: ns.numpy.einsum("ij,jk->ik", ns.numpy.ones((2, 3)), ns.numpy.ones((2, 3))),
    ),
    ("too many indices", lambda ns, x: x[(0,) * (x.ndim + 1)]),
    ("float index", lambda ns, x: x[0.5]),
    ("text index", lambda ns, x: x["a"]),
    ("list index", lambda ns, x: x[[0, 0]]),
    ("assignment", lambda ns, x: x.__setitem__(0, 1.0)),
    ("iterate scalar", lambda ns, x: list(x.sum())),
    ("len of scalar", lambda ns, x: len(x.sum())),
    ("bits of floats", lambda ns, x: x & 1),
    ("shift of floats", lambda ns, x: x << 1),
    ("sort axis", lambda ns, x: ns.numpy.sort(x, axis=x.ndim)),
    ("argmax of none", lambda ns, x: ns.numpy.argmax(ns.numpy.zeros((0,)))),
    ("max of none", lambda ns, x: ns.numpy.max(ns.numpy.zeros((0, 2)), axis=0)),
    (
        "conv features",
        lambda ns, x: ns.lax.conv(ns.numpy.ones((1, 2, 4)), ns.numpy.ones((1, 3, 2)), (1,), "SAME"),
    ),
    (
        "conv ranks",
        lambda ns, x: ns.lax.conv(ns.numpy.ones((1, 2, 4)), ns.numpy.ones((1, 2)), (1,), "SAME"),
    ),
    (
        "dot_general dims",
        lambda ns, x: ns.lax.dot_general(
            ns.numpy.ones((2, 3)), ns.numpy.ones((2, 3)), (((1,), (0,)), ((), ()))
        ),
    ),
    ("select shapes", lambda ns, x: ns.lax.select(x > 0, x, x[None])),
    ("select dtype", lambda ns, x: ns.lax.select(x, x, x)),
    ("clamp shapes", lambda ns, x: ns.lax.clamp(ns.numpy.ones((9, 9)), x, x)),
    ("clamp dtypes", lambda ns, x: ns.lax.clamp(1, x, 2)),
    ("astype", lambda ns, x: x.astype("nonsense")),
    ("array of text", lambda ns, x: ns.numpy.array(["a", "b"])),
    ("array of objects", lambda ns, x: ns.numpy.asarray(object())),
    ("ragged", lambda ns, x: ns.numpy.array([[1.0, 2.0], [3.0]])),
    ("sin of text", lambda ns, x: ns.numpy.sin("a")),
    ("sin of list", lambda ns, x: ns.numpy.sin([1.0, 2.0])),
    ("sin of int", lambda ns, x: ns.lax.sin(1)),
    ("none", lambda ns, x: ns.numpy.add(x, None)),
    ("normal without key", lambda ns, x: ns.random.normal(x)),
    ("key of float", lambda ns, x: ns.random.key(0.5)),
    ("split twice", lambda ns, x: ns.random.normal(ns.random.split(ns.random.key(0), 2))),
    ("add keys", lambda ns, x: ns.random.key(0) + 1),
    ("axis name", lambda ns, x: ns.lax.psum(x, "nowhere")),
    ("rev axis", lambda ns, x: ns.lax.rev(x, (x.ndim,))),
    ("pad config", lambda ns, x: ns.lax.pad(x, 0.0, ())),
    ("iota", lambda ns, x: ns.lax.iota("bool_", 3) + ns.lax.iota("complex64", -1)),
    ("linspace", lambda ns, x: ns.numpy.linspace(0.0, 1.0, -3)),
    ("arange value", lambda ns, x: ns.jax.jit(lambda n: ns.numpy.arange(n))(3)),
    ("cumsum axis", lambda ns, x: ns.lax.cumsum(x, x.ndim)),
    ("top_k", lambda ns, x: ns.lax.top_k(x, x.size + 9)),
    ("fori types", lambda ns, x: ns.lax.fori_loop(0, 3, lambda i, v: v.astype("int32"), x)),
    ("custom_vjp without rule", lambda ns, x: ns.jax.grad(ns.jax.custom_vjp(lambda v: v.sum()))(x)),
    (
        "custom_jvp without rule",
        lambda ns, x: ns.jax.jvp(ns.jax.custom_jvp(lambda v: v), (x,), (x,)),
    ),
    ("linalg square", lambda ns, x: ns.numpy.linalg.inv(ns.numpy.ones((2, 3)))),
    ("split sections", lambda ns, x: ns.numpy.split(ns.numpy.ones(5), 2)),
    ("take mode", lambda ns, x: ns.numpy.take(x, 0, mode="nonsense")),
    ("at mode", lambda ns, x: x.at[0].set(1.0, mode="nonsense")),
    ("one_hot", lambda ns, x: ns.numpy.eye(2)[ns.numpy.array([0.5])]),
    ("hash", lambda ns, x: hash(x)),
    ("eval_shape", lambda ns, x: ns.jax.eval_shape(lambda v: v @ v, ns.numpy.ones((2, 3)))),
    ("tree_map", lambda ns, x: ns.jax.tree_util.tree_map(lambda a, b: a, (x, x), (x,))),
    ("device_put", lambda ns, x: ns.jax.device_put(object())),
    ("integer power", lambda ns, x: ns.lax.integer_pow(x, 0.5)),
    ("allow int", lambda ns, x: ns.jax.jacrev(lambda v: v)(3)),
    ("holomorphic", lambda ns, x: ns.jax.grad(lambda v: v.sum(), holomorphic=True)(x)),
    ("complex grad", lambda ns, x: ns.jax.grad(lambda v: (v * 1j).sum())(x)),
]
