"""The primitives of arithmetic, layout, reductions and contractions against JAX: programs, types,
values, derivatives, batches, errors.
"""

from __future__ import annotations

import warnings
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax as jlax

from pullback import lax as plax
from pullback.backends.reference import eval_jaxpr_numpy, evaluate
from pullback.core import trace
from pullback.core.avals import typeof
from pullback.core.build import trace_to_jaxpr
from pullback.core.check import check_jaxpr
from pullback.core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from pullback.transforms.batch import AxisData, batch_flat, matchaxis
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.partial_eval import PartialEvalTrace
from pullback.transforms.transpose import backward_pass

pytestmark = pytest.mark.filterwarnings("ignore")


class _Eval(trace.Trace):
    """Evaluates by the reference rules."""

    def process_primitive(self, primitive: Any, tracers: Any, params: Any) -> Any:
        return evaluate(primitive, tracers, params)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool
    ) -> Any:
        return fun(*tracers)  # the rule of cumlogsumexp calls logaddexp


@pytest.fixture(autouse=True)
def _base() -> Any:
    before = trace.base_trace()
    trace.install_base(_Eval())
    yield
    trace.install_base(before)


R = np.random.default_rng(7)
F = R.standard_normal((2, 3)).astype("f4")
G = R.standard_normal((2, 3)).astype("f4")
U = R.uniform(0.1, 0.9, (2, 3)).astype("f4")
I = R.integers(-9, 9, (2, 3)).astype("i4")
J = R.integers(1, 9, (2, 3)).astype("i4")
N = R.integers(0, 9, (2, 3)).astype("u4")
B = R.integers(0, 2, (2, 3)).astype(bool)
C = (F + 1j * G).astype("c8")
D = (G - 1j * U).astype("c8")
H = F.astype(ml_dtypes.bfloat16)
S = np.float32(0.7)
X3 = R.standard_normal((4, 2, 3)).astype("f4")

T: dict[str, Any] = {}


def case(
    name: str, fn: Any, *args: Any, diff: bool | None = None, batch: bool = True, tol: float = 2e-5
) -> None:
    assert name not in T, name
    T[name] = (fn, args, diff, batch, tol)


for _n in "neg sign abs square integer_pow reciprocal".split():
    if _n != "integer_pow":
        case(f"{_n} f", lambda lax, x, n=_n: getattr(lax, n)(x), F)
        case(f"{_n} c", lambda lax, x, n=_n: getattr(lax, n)(x), C)
for _n in "neg sign abs square".split():
    case(f"{_n} i", lambda lax, x, n=_n: getattr(lax, n)(x), I)
case("abs c0", lambda lax, x: lax.abs(x), np.array([0, 3 + 4j], "c8"))
for _n in "floor ceil is_finite erf erfc cbrt bessel_i0e bessel_i1e".split():
    case(f"{_n}", lambda lax, x, n=_n: getattr(lax, n)(x), F)
for _n in "exp exp2 expm1 sin cos tan sinh cosh tanh asinh logistic atan asin acos".split():
    case(f"{_n}", lambda lax, x, n=_n: getattr(lax, n)(x), U)
    if _n != "exp2":
        case(f"{_n} c", lambda lax, x, n=_n: getattr(lax, n)(x), C * np.complex64(0.4), tol=1e-4)
for _n in "log log1p sqrt rsqrt atanh erf_inv".split():
    case(f"{_n}", lambda lax, x, n=_n: getattr(lax, n)(x), U)
for _n in "log sqrt rsqrt".split():
    case(f"{_n} c", lambda lax, x, n=_n: getattr(lax, n)(x), C)
case("acosh", lambda lax, x: lax.acosh(x), U + 1)
case("lgamma", lambda lax, x: lax.lgamma(x), U + 1, tol=1e-4)
case("digamma", lambda lax, x: lax.digamma(x), U + 1, tol=1e-4)
for _n in "round".split():
    case("round", lambda lax, x: lax.round(x), F * 3)
    case("round even", lambda lax, x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), F * 3)
for _k in (-3, -1, 0, 1, 2, 3, 7):
    case(f"integer_pow {_k}", lambda lax, x, k=_k: lax.integer_pow(x, k), U, tol=1e-4)
case("integer_pow i", lambda lax, x: lax.integer_pow(x, 3), I)
for _n in "add sub mul div max min".split():
    case(f"{_n} f", lambda lax, x, y, n=_n: getattr(lax, n)(x, y), F, G)
    case(f"{_n} s", lambda lax, x, y, n=_n: getattr(lax, n)(x, y), F, S)
    case(f"{_n} s0", lambda lax, x, y, n=_n: getattr(lax, n)(y, x), F, S)
    case(f"{_n} one", lambda lax, x, y, n=_n: getattr(lax, n)(x, y), F, G[:1])
    case(f"{_n} lit", lambda lax, x, n=_n: getattr(lax, n)(x, 2.0), F)
    case(f"{_n} bf", lambda lax, x, y, n=_n: getattr(lax, n)(x, y), H, H, tol=2e-2)
    case(f"{_n} i", lambda lax, x, y, n=_n: getattr(lax, n)(x, y), I, J)
    if _n not in ("max", "min"):
        case(f"{_n} c", lambda lax, x, y, n=_n: getattr(lax, n)(x, y), C, D, tol=1e-4)
case("max tie", lambda lax, x: lax.max(x, x), F)
case("rem", lambda lax, x, y: lax.rem(x, y), F * 5, U)
case("rem i", lambda lax, x, y: lax.rem(x, y), I, J)
case("pow", lambda lax, x, y: lax.pow(x, y), U, G, tol=1e-4)
case("pow lit", lambda lax, x: lax.pow(x, 2.5), U)
case("pow i", lambda lax, x, y: lax.pow(x, y), U, I, tol=1e-4)
case("pow wi", lambda lax, x: lax.pow(x, 2), F)
case("pow i0", lambda lax, x: lax.pow(x, np.array([0, 1, 2])), np.zeros(3, "f4"))
case("atan2", lambda lax, x, y: lax.atan2(x, y), F, G)
case("nextafter", lambda lax, x, y: lax.nextafter(x, y), F, G, diff=False)
case("complex", lambda lax, x, y: lax.complex(x, y), F, G)
case("real", lambda lax, x: lax.real(x), C)
case("imag", lambda lax, x: lax.imag(x), C)
case("conj", lambda lax, x: lax.conj(x), C)
case("conj f", lambda lax, x: lax.conj(x), F)
for _n in "bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic shift_right_logical mulhi".split():  # noqa: E501
    case(f"{_n} i", lambda lax, x, y, n=_n: getattr(lax, n)(x, y), I, J)
    case(f"{_n} u", lambda lax, x, y, n=_n: getattr(lax, n)(x, y), N, N)
for _n in "bitwise_and bitwise_or bitwise_xor eq ne lt le gt ge max min".split():
    case(f"{_n} b", lambda lax, x, y, n=_n: getattr(lax, n)(x, y), B, B[::-1].copy())
for _n in "bitwise_not population_count clz".split():
    case(_n, lambda lax, x, n=_n: getattr(lax, n)(x), I)
for _n in "eq ne lt le gt ge".split():
    case(f"{_n} f", lambda lax, x, y, n=_n: getattr(lax, n)(x, y), F, G)
    case(f"{_n} i", lambda lax, x, y, n=_n: getattr(lax, n)(x, y), I, J)
case("select", lambda lax, p, x, y: lax.select(p, x, y), B, F, G)
case("select s", lambda lax, p, x, y: lax.select(p, x, y), np.True_, F, G)
case("select_n i", lambda lax, p, *xs: lax.select_n(p, *xs), np.abs(I) % 3, F, G, U)
case("clamp", lambda lax, a, x, b: lax.clamp(a, x, b), F - 1, G, F + 1)
case("clamp lit", lambda lax, x: lax.clamp(-0.5, x, 0.5), F)
case("clamp s", lambda lax, a, x: lax.clamp(a, x, np.float32(0.5)), np.float32(-0.2), F, diff=False)
for _d in "float32 int32 bool complex64 bfloat16 float16 uint8 int8 int4 float8_e4m3fn".split():
    for _x, _l in ((F, "f"), (I, "i"), (B, "b"), (C, "c")):
        case(
            f"convert {_l} {_d}",
            lambda lax, x, d=_d: lax.convert_element_type(x, d),
            _x,
            diff=_d in ("float32", "complex64"),
        )
case("convert weak", lambda lax: lax.convert_element_type(1, float))
case("bitcast", lambda lax, x: lax.bitcast_convert_type(x, "int32"), F, diff=False)
case("bitcast narrow", lambda lax, x: lax.bitcast_convert_type(x, "uint8"), F, diff=False)
case(
    "bitcast wide",
    lambda lax, x: lax.bitcast_convert_type(x, "float32"),
    R.integers(0, 99, (2, 4)).astype("u1"),
)
case("reduce_precision", lambda lax, x: lax.reduce_precision(x, 5, 3), F)
case("stop_gradient", lambda lax, x: lax.mul(lax.stop_gradient(x), x), F)
case("barrier", lambda lax, x, y: lax.mul(*lax.optimization_barrier((x, y))), F, G)

# layout
case("broadcast", lambda lax, x: lax.broadcast(x, (4, 5)), F)
case("bid", lambda lax, x: lax.broadcast_in_dim(x, (2, 4, 3), (0, 2)), F)
case("bid one", lambda lax, x: lax.broadcast_in_dim(x, (4, 2, 5, 3), (1, 3)), F[:, :1])
case("bid same", lambda lax, x: lax.broadcast_in_dim(x, (2, 3), (0, 1)), F)
case("bid lit", lambda lax: lax.broadcast_in_dim(1.0, (2,), ()))
case("reshape", lambda lax, x: lax.reshape(x, (6,)), F)
case("reshape dims", lambda lax, x: lax.reshape(x, (6,), (1, 0)), F)
case("transpose", lambda lax, x: lax.transpose(x, (2, 0, 1)), X3)
case("squeeze", lambda lax, x: lax.squeeze(x, (-2,)), F[:1])
case("expand_dims", lambda lax, x: lax.expand_dims(x, (0, -1)), F)
case("rev", lambda lax, x: lax.rev(x, (1,)), F)
case("slice", lambda lax, x: lax.slice(x, (0, 1), (2, 3)), F)
case("slice strided", lambda lax, x: lax.slice(x, (1, 0, 0), (4, 2, 3), (2, 1, 2)), X3)
case("slice empty", lambda lax, x: lax.slice(x, (1, 0), (1, 3), (2, 1)), F)
case("slice_in_dim", lambda lax, x: lax.slice_in_dim(x, -2, None, axis=1), F)
case("index_in_dim", lambda lax, x: lax.index_in_dim(x, 1, 1, keepdims=False), F)
case("pad", lambda lax, x, v: lax.pad(x, v, ((1, 2, 1), (0, -1, 0))), F, S)
case("pad neg", lambda lax, x: lax.pad(x, 0.0, ((-1, 2, 2), (1, -1, 1))), X3[0])
case("pad lit", lambda lax, x: lax.pad(x, 0, ((1, 0, 0), (0, 0, 0))), I)
case("concatenate", lambda lax, x, y: lax.concatenate([x, y, x], 1), F, G)
case("split", lambda lax, x: lax.split(x, (1, 2), 1), F)
case("split part", lambda lax, x: lax.split(x, (1, 2), 1)[1], F)
case("stack", lambda lax, x, y: lax.stack([x, y], 1), F, G)
case("unstack", lambda lax, x: lax.unstack(x, 1)[1], F)
case("tile", lambda lax, x: lax.tile(x, (2, 3)), F)
case("iota", lambda lax: lax.iota("int32", 5))
case("iota f", lambda lax: lax.broadcasted_iota("bfloat16", (2, 300), 1))
case("iota wrap", lambda lax: lax.iota("int8", 300))
case("full", lambda lax: lax.full((2, 3), 1.5))
case("full i", lambda lax: lax.full(2, 1))
case("full d", lambda lax: lax.full((2,), 3, "float32"))
case("full tr", lambda lax, x: lax.full((2, 2), x, "int32"), S)
case("full_like", lambda lax, x: lax.full_like(x, 2), F)
case("full_like d", lambda lax, x: lax.full_like(x, 2.5, dtype="int32"), F)
case("collapse", lambda lax, x: lax.collapse(x, 1), X3)
case("empty dim", lambda lax, x: lax.add(x, x), F[:0])

# reductions
for _n in "sum prod max min".split():
    case(f"reduce_{_n} 0", lambda lax, x, n=_n: getattr(lax, f"reduce_{n}")(x, (0,)), X3, tol=1e-4)
    case(
        f"reduce_{_n} 02", lambda lax, x, n=_n: getattr(lax, f"reduce_{n}")(x, (2, 0)), X3, tol=1e-4
    )
    case(f"reduce_{_n} ()", lambda lax, x, n=_n: getattr(lax, f"reduce_{n}")(x, ()), F)
    case(f"reduce_{_n} i", lambda lax, x, n=_n: getattr(lax, f"reduce_{n}")(x, (1,)), I)
    case(
        f"reduce_{_n} empty",
        lambda lax, x, n=_n: getattr(lax, f"reduce_{n}")(x, (0,)),
        F[:0],
        diff=False,
    )
case("reduce_sum bf", lambda lax, x: lax.reduce_sum(x, (0,)), H, tol=2e-2)
case("reduce_prod zero", lambda lax, x: lax.reduce_prod(x, (0,)), np.array([2, 0, 3, 0.5, 4], "f4"))
case(
    "reduce_prod 2zero",
    lambda lax, x: lax.reduce_prod(x, (0,)),
    np.array([2, 0, 3, 0, 4, 1, 7], "f4"),
)
case("reduce_max ties", lambda lax, x: lax.reduce_max(x, (0, 1)), np.ones((2, 3), "f4"))
for _n in "and or xor".split():
    case(f"reduce_{_n} b", lambda lax, x, n=_n: getattr(lax, f"reduce_{n}")(x, (1,)), B)
    case(f"reduce_{_n} i", lambda lax, x, n=_n: getattr(lax, f"reduce_{n}")(x, (0,)), I)
case("argmax", lambda lax, x: lax.argmax(x, 1, "int32"), X3)
case("argmin", lambda lax, x: lax.argmin(x, 0, "uint8"), X3)
case("argmax nan", lambda lax, x: lax.argmax(x, 0, "int32"), np.array([1, np.nan, 3, np.nan], "f4"))
for _n in "cumsum cumprod cummax cummin cumlogsumexp".split():
    for _r in (False, True):
        case(
            f"{_n} {_r}",
            lambda lax, x, n=_n, r=_r: getattr(lax, n)(x, 0, reverse=r),
            R.standard_normal((7, 2)).astype("f4"),
            tol=1e-4,
        )
    case(f"{_n} 2", lambda lax, x, n=_n: getattr(lax, n)(x, 2), X3, tol=1e-4)
    if _n != "cumlogsumexp":
        case(f"{_n} i", lambda lax, x, n=_n: getattr(lax, n)(x, 1), I)
case("cummax tie", lambda lax, x: lax.cummax(x, 0), np.array([1, 1, 2, 2, 0, 2], "f4"))
case("cumsum one", lambda lax, x: lax.cumsum(x, 0), F[:1])

# reductions with a computation, and over windows
case("reduce add", lambda lax, x: lax.reduce(x, 0.0, lax.add, (0,)), X3, tol=1e-4)
case("reduce add int0", lambda lax, x: lax.reduce(x, 0, lax.add, (0, 2)), X3, tol=1e-4)
case("reduce max", lambda lax, x: lax.reduce(x, -np.inf, lax.max, (1,)), X3)
case("reduce min", lambda lax, x: lax.reduce(x, np.inf, lax.min, (1,)), X3)
case("reduce mul", lambda lax, x: lax.reduce(x, 1.0, lax.mul, (1,)), X3)
case("reduce and", lambda lax, x: lax.reduce(x, True, lax.bitwise_and, (1,)), B)
case("reduce or", lambda lax, x: lax.reduce(x, 0, lax.bitwise_or, (1,)), I)
case("reduce xor", lambda lax, x: lax.reduce(x, 0, lax.bitwise_xor, (1,)), I)
case(
    "reduce general",
    lambda lax, x: lax.reduce(x, 0.0, lambda a, b: lax.add(a, lax.add(b, lax.mul(a, b))), (0,)),
    X3,
    tol=1e-4,
)
case(
    "reduce general 02",
    lambda lax, x: lax.reduce(x, 0.0, lambda a, b: lax.add(a, lax.add(b, lax.mul(a, b))), (2, 0)),
    X3,
    tol=1e-4,
)
case(
    "reduce two",
    lambda lax, x, y: lax.reduce(
        (x, y), (0.0, 0), lambda a, b: (lax.add(a[0], b[0]), lax.bitwise_or(a[1], b[1])), (0,)
    ),
    F,
    I,
    diff=False,
)
_rw: dict[str, Any] = {
    "plain": ((2, 3), (1, 2), "VALID"),
    "same": ((2, 3), (2, 1), "SAME"),
    "pads": ((2, 2), (1, 3), [(1, 2), (0, 1)]),
    "dilated": ((2, 3), (1, 2), "SAME", (1, 2), (2, 1)),
}
X46 = R.permutation(24).astype("f4").reshape(4, 6)
for _n, _w in _rw.items():
    case(
        f"reduce_window sum {_n}", lambda lax, x, w=_w: lax.reduce_window(x, 0.0, lax.add, *w), X46
    )
    _d = _n != "dilated"
    case(
        f"reduce_window max {_n}",
        lambda lax, x, w=_w: lax.reduce_window(x, -np.inf, lax.max, *w),
        X46,
        diff=_d,
    )
    case(
        f"reduce_window min {_n}",
        lambda lax, x, w=_w: lax.reduce_window(x, np.inf, lax.min, *w),
        X46,
        diff=_d,
    )
    case(
        f"reduce_window mul {_n}",
        lambda lax, x, w=_w: lax.reduce_window(x, 1.0, lax.mul, *w),
        X46 / 12,
        diff=False,
    )
case(
    "reduce_window add init",
    lambda lax, x: lax.reduce_window(x, 1.0, lax.add, (2, 2)),
    X46,
    diff=False,
)
case("reduce_window int max", lambda lax, x: lax.reduce_window(x, -(2**31), lax.max, (2, 2)), I)

# contractions
A3, B3 = R.standard_normal((4, 2, 3)).astype("f4"), R.standard_normal((4, 3, 5)).astype("f4")
Y5 = R.standard_normal((5, 3, 2, 4)).astype("f4")
case(
    "dot mm", lambda lax, x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ()))), F, B3[0], tol=1e-4
)
case("dot T", lambda lax, x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ()))), F, G, tol=1e-4)
case(
    "dot batch",
    lambda lax, x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))),
    A3,
    B3,
    tol=1e-4,
)
case(
    "dot two",
    lambda lax, x, y: lax.dot_general(x, y, (((1, 2), (2, 1)), ((0,), (3,)))),
    A3,
    Y5,
    tol=1e-4,
)
case("dot outer", lambda lax, x, y: lax.dot_general(x, y, (((), ()), ((), ()))), F, G, tol=1e-4)
case("dot vec", lambda lax, x, y: lax.dot(x, y), F[0], G[1], tol=1e-4)
case("dot mv", lambda lax, x, y: lax.dot(x, y), F, G[1], tol=1e-4)
case("dot c", lambda lax, x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ()))), C, D, tol=1e-4)
case("dot i", lambda lax, x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ()))), I, J)
case(
    "dot i8",
    lambda lax, x, y: lax.dot_general(
        x, y, (((1,), (1,)), ((), ())), preferred_element_type="int32"
    ),
    I.astype("i1"),
    J.astype("i1"),
)
case("dot b", lambda lax, x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ()))), B, B)
case(
    "dot bf",
    lambda lax, x, y: lax.dot_general(
        x, y, (((1,), (1,)), ((), ())), preferred_element_type="float32"
    ),
    H,
    H,
    tol=1e-2,
)
case(
    "dot high",
    lambda lax, x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ())), precision="highest"),
    F,
    G,
    tol=1e-4,
)
case("batch_matmul", lambda lax, x, y: lax.batch_matmul(x, y), A3, B3, tol=1e-4)

# convolutions
L4, W4 = R.standard_normal((2, 4, 6, 7)).astype("f4"), R.standard_normal((6, 4, 3, 2)).astype("f4")
W2, L3, W3 = (
    W4[:, :2].copy(),
    R.standard_normal((4, 7, 2)).astype("f4"),
    R.standard_normal((3, 2, 4)).astype("f4"),
)


def conv_case(name: str, x: Any, w: Any, strides: Any, padding: Any, **kw: Any) -> None:
    case(
        f"conv {name}",
        lambda lax, x, w: lax.conv_general_dilated(x, w, strides, padding, **kw),
        x,
        w,
        tol=1e-4,
    )


conv_case("valid", L4, W4, (1, 1), "VALID")
conv_case("same", L4, W4, (2, 1), "SAME")
conv_case("lower", L4, W4, (1, 2), "SAME_LOWER")
conv_case("dilated", L4, W4, (1, 2), [(2, 1), (0, 3)], lhs_dilation=(2, 3), rhs_dilation=(2, 1))
conv_case("negative", L4, W4, (1, 1), [(-1, 1), (2, -2)])
conv_case(
    "groups",
    L4,
    W2,
    (1, 2),
    [(1, 1), (2, 0)],
    feature_group_count=2,
    lhs_dilation=(2, 1),
    rhs_dilation=(1, 2),
)
conv_case("depthwise", L4, W4[:4, :1].copy(), (1, 1), "SAME", feature_group_count=4)
conv_case("batch groups", L4, W4, (1, 2), "SAME", batch_group_count=2)
conv_case("nwc", L3, W3, (2,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
conv_case("odd numbers", L4, W4, (1, 2), "SAME", dimension_numbers=("NCWH", "OIHW", "HNWC"))
conv_case(
    "nwc groups",
    L3,
    W3[:, :1].copy(),
    (1,),
    "VALID",
    dimension_numbers=("NWC", "WIO", "CWN"),
    feature_group_count=2,
)
conv_case(
    "nwc batch", L3, W3, (1,), "VALID", dimension_numbers=("NWC", "WIO", "NCW"), batch_group_count=2
)
conv_case("wide stride", L4, W4, (3, 4), [(5, 4), (0, 0)])
conv_case("empty", L4, W4, (1, 1), "VALID", rhs_dilation=(5, 5))
case(
    "conv i8",
    lambda lax, x, w: lax.conv_general_dilated(x, w, (1,), "SAME", preferred_element_type="int32"),
    I[None].astype("i1"),
    J[:, :, None][:2, :2].astype("i1").repeat(2, 2),
    batch=False,
)
case("conv 0d", lambda lax, x, w: lax.conv_general_dilated(x, w, (), []), F, G, tol=1e-4)
case("conv", lambda lax, x, w: lax.conv(x, w, (1, 1), "SAME"), L4, W4, tol=1e-4)
case(
    "conv padded",
    lambda lax, x, w: lax.conv_with_general_padding(x, w, (1, 1), ((1, 1), (0, 0)), (2, 1), (1, 1)),
    L4,
    W4,
    tol=1e-4,
)
for _p in ("SAME", "VALID", [(1, 2)]):
    for _s, _d, _k in ((2, 1, False), (3, 2, False), (5, 1, False), (2, 1, True)):
        case(
            f"conv_transpose {_p} {_s} {_d} {_k}",
            lambda lax, x, w, p=_p, s=_s, d=_d, k=_k: lax.conv_transpose(
                x, w, (s,), p, rhs_dilation=(d,), transpose_kernel=k
            ),
            L3,
            W3.swapaxes(1, 2).copy() if _k else W3,
            tol=1e-4,
        )
case(
    "conv_transpose consistent",
    lambda lax, x, w: lax.conv_transpose(x, w, (2,), [(1, 0)], use_consistent_padding=True),
    L3,
    W3,
    tol=1e-4,
)
case("conv patches", lambda lax, x: lax.conv_general_dilated_patches(x, (3, 2), (1, 2), "SAME"), L4)
case(
    "conv patches nhwc",
    lambda lax, x: lax.conv_general_dilated_patches(
        x, (3,), (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")
    ),
    L3,
)
case(
    "conv local",
    lambda lax, x, w: lax.conv_general_dilated_local(
        x, w, (1,), "VALID", (3,), dimension_numbers=("NWC", "WIO", "NWC")
    ),
    L3,
    R.standard_normal((5, 6, 4)).astype("f4"),
    tol=1e-4,
)


def _flat(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


def ours(fn: Any, args: Any) -> tuple[Any, list[Any]]:
    """The program of a function on the types of its arguments, and its results."""
    jaxpr, consts = trace_to_jaxpr(lambda *xs: _flat(fn(plax, *xs)), [typeof(x) for x in args])
    check_jaxpr(jaxpr)
    return jaxpr, eval_jaxpr_numpy(jaxpr, consts, args)


def _plain(v: Any) -> Any:
    if isinstance(v, np.dtype) or (hasattr(v, "name") and not isinstance(v, type)):
        return getattr(v, "name", v)
    if isinstance(v, (tuple, list)):
        return tuple(map(_plain, v))
    if isinstance(v, (np.integer, int)) and not isinstance(v, bool):
        return int(v)
    return v


def signature(jaxpr: Any) -> list[Any]:
    """Names, parameters, operand and result types of a program's equations."""
    skipped = ("jaxpr", "call_jaxpr", "computation")
    return [
        (
            eqn.primitive.name,
            {k: _plain(v) for k, v in eqn.params.items() if k not in skipped},
            [tuple(v.aval.shape) for v in eqn.invars],
            [(tuple(v.aval.shape), v.aval.dtype.name, bool(v.aval.weak_type)) for v in eqn.outvars],
        )
        for eqn in jaxpr.eqns
    ]


def close(got: Any, want: Any, tol: float) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, (
        got.dtype,
        want.dtype,
        got.shape,
        want.shape,
    )
    if got.dtype.kind in "biu" or got.dtype.name.startswith(("int", "uint")):
        np.testing.assert_array_equal(got, want)
        return
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=tol, atol=tol)


@pytest.mark.parametrize("name", T)
def test_program_and_values(name: str) -> None:
    fn, args, _, _, tol = T[name]
    jaxpr, outs = ours(fn, args)
    theirs = jax.make_jaxpr(lambda *xs: fn(jlax, *xs))(*args)
    assert signature(jaxpr) == signature(theirs.jaxpr)
    assert [v.aval.weak_type for v in jaxpr.outvars] == [
        v.aval.weak_type for v in theirs.jaxpr.outvars
    ]
    for got, want in zip(outs, _flat(fn(jlax, *args)), strict=True):
        close(got, want, tol)


def _differentiable(name: str) -> bool:
    _, args, diff, _, _ = T[name]
    inexact = [
        x
        for x in args
        if np.asarray(x).dtype.kind in "fc" or np.asarray(x).dtype == ml_dtypes.bfloat16
    ]
    return diff is not False and bool(inexact)


DIFF = [n for n in T if _differentiable(n)]


def _tangents(args: Any) -> list[Any]:
    r = np.random.default_rng(3)
    out = []
    for x in map(np.asarray, args):
        if x.dtype.kind == "c":
            out.append(
                (r.standard_normal(x.shape) + 1j * r.standard_normal(x.shape)).astype(x.dtype)
            )
        elif x.dtype.kind == "f" or x.dtype == ml_dtypes.bfloat16:
            out.append(r.standard_normal(x.shape).astype(x.dtype))
        else:
            out.append(np.zeros(x.shape, jax.dtypes.float0))
    return out


@pytest.mark.parametrize("name", DIFF)
def test_jvp(name: str) -> None:
    fn, args, _, _, tol = T[name]
    tangents = _tangents(args)
    mine = [
        Zero(typeof(x).to_tangent_aval()) if t.dtype == jax.dtypes.float0 else t
        for x, t in zip(args, tangents)
    ]
    outs, ts = jvp_flat(lambda *xs: _flat(fn(plax, *xs)), args, mine)
    ts = [instantiate_zeros(t) for t in ts]
    want, want_t = jax.jvp(lambda *xs: fn(jlax, *xs), args, tuple(tangents))
    for got, ref in zip([*outs, *ts], [*_flat(want), *_flat(want_t)], strict=True):
        if np.asarray(got).dtype.kind != "V" or np.asarray(got).dtype == ml_dtypes.bfloat16:
            close(got, ref, 10 * tol)


def vjp(fn: Any, args: Any, cts: Any) -> list[Any]:
    """Linearize by jvp under partial evaluation, then transpose."""
    is_float = [np.asarray(t).dtype != jax.dtypes.float0 for t in _tangents(args)]
    pe = PartialEvalTrace(trace.current_trace())
    unknown = [
        pe.new_unknown(typeof(x).to_tangent_aval()) if f else Zero(typeof(x).to_tangent_aval())
        for x, f in zip(args, is_float)
    ]
    with trace.use_trace(pe):
        _outs, ts = jvp_flat(lambda *xs: _flat(fn(plax, *xs)), args, unknown)
    live = [pe.is_unknown(t) for t in ts]
    jaxpr, consts = pe.finish([t for t, u in zip(ts, live) if u])
    ins = [UndefinedPrimal(v.aval) for v in jaxpr.invars]
    back = backward_pass(jaxpr, consts, ins, [ct for ct, u in zip(cts, live) if u])
    return [instantiate_zeros(ct) for ct in back]


@pytest.mark.parametrize("name", DIFF)
def test_vjp(name: str) -> None:
    fn, args, _, _, tol = T[name]
    want, pull = jax.vjp(lambda *xs: fn(jlax, *xs), *args)
    cts = [np.asarray(t) for t in _tangents(_flat(want))]
    theirs = pull(
        type(want)(map(jax.numpy.asarray, cts))
        if isinstance(want, (tuple, list))
        else cts[0]
        if cts[0].dtype.kind == "V" and cts[0].dtype != ml_dtypes.bfloat16
        else jax.numpy.asarray(cts[0])
    )
    refs = [t for t in theirs if t.dtype != jax.dtypes.float0]
    got = vjp(fn, args, cts)
    assert len(got) == len(refs)
    for g, r in zip(got, refs):
        close(g, r, 10 * tol)


@pytest.mark.parametrize("name", [n for n in T if T[n][1] and T[n][3]])
def test_batch(name: str) -> None:
    fn, args, _, _, tol = T[name]
    r = np.random.default_rng(5)
    args = [np.asarray(x) for x in args]
    stacks = [
        np.stack([x, np.flip(x), r.permutation(x.ravel()).reshape(x.shape)], -1) for x in args
    ]
    for mapped in {tuple(k == j for j in range(len(args))) for k in range(len(args))} | {
        (True,) * len(args)
    }:
        for dim in (0, -1):
            vals = [
                np.ascontiguousarray(np.moveaxis(s, -1, dim)) if m else x
                for s, x, m in zip(stacks, args, mapped)
            ]
            dims = [(0 if dim == 0 else x.ndim) if m else None for x, m in zip(args, mapped)]
            outs, out_dims = batch_flat(
                lambda *xs: _flat(fn(plax, *xs)), vals, dims, AxisData(None, 3)
            )
            outs = [matchaxis(3, d, 0, x) for x, d in zip(outs, out_dims)]
            want = [
                _flat(fn(jlax, *(s[..., k] if m else x for s, x, m in zip(stacks, args, mapped))))
                for k in range(3)
            ]
            for j, got in enumerate(outs):
                close(got, np.stack([np.asarray(w[j]) for w in want]), tol)


ERRORS: dict[str, Any] = {
    "add dtypes": lambda lax: lax.add(F, I),
    "add rank": lambda lax: lax.add(F, F[0]),
    "add shape": lambda lax: lax.add(F, F[:, :2]),
    "add bool": lambda lax: lax.add(B, B),
    "add str": lambda lax: lax.add(F, "a"),
    "add list": lambda lax: lax.add(F, [1.0]),
    "exp int": lambda lax: lax.exp(I),
    "real float": lambda lax: lax.real(F),
    "pow int": lambda lax: lax.pow(I, I),
    "integer_pow": lambda lax: lax.integer_pow(I, -1),
    "lt complex": lambda lax: lax.lt(C, C),
    "select shape": lambda lax: lax.select(B, F, S),
    "select dtype": lambda lax: lax.select(B, F, I),
    "select which": lambda lax: lax.select_n(F, F, F),
    "select 3": lambda lax: lax.select_n(B, F, F, F),
    "clamp": lambda lax: lax.clamp(0, F, 1),
    "clamp shape": lambda lax: lax.clamp(F[0], F, F),
    "convert none": lambda lax: lax.convert_element_type(F, None),
    "bitcast": lambda lax: lax.bitcast_convert_type(F, "bool"),
    "bitcast size": lambda lax: lax.bitcast_convert_type(np.ones((3, 3), "u1"), "float32"),
    "reduce_precision": lambda lax: lax.reduce_precision(F, -8, 7),
    "bid rank": lambda lax: lax.broadcast_in_dim(F, (2,), (0, 1)),
    "bid size": lambda lax: lax.broadcast_in_dim(F, (3, 3, 4), (0, 1)),
    "bid dims": lambda lax: lax.broadcast_in_dim(F, (2, 3, 4), (0,)),
    "bid dup": lambda lax: lax.broadcast_in_dim(F, (2, 3, 4), (0, 0)),
    "bid neg": lambda lax: lax.broadcast_in_dim(1.0, (-2,), ()),
    "reshape neg": lambda lax: lax.reshape(F, (-1,)),
    "reshape float": lambda lax: lax.reshape(F, (6.0,)),
    "transpose": lambda lax: lax.transpose(F, (0, 0)),
    "squeeze": lambda lax: lax.squeeze(F, (0,)),
    "squeeze oob": lambda lax: lax.squeeze(F, (5,)),
    "expand_dims": lambda lax: lax.expand_dims(F, (0, 0)),
    "rev": lambda lax: lax.rev(F, (0, 0)),
    "slice oob": lambda lax: lax.slice(F, (0, 0), (2, 4)),
    "slice order": lambda lax: lax.slice(F, (1, 0), (0, 3)),
    "slice len": lambda lax: lax.slice(F, (0,), (2, 3)),
    "index_in_dim": lambda lax: lax.index_in_dim(F, 7, 1),
    "pad dtype": lambda lax: lax.pad(F, 0, ((0, 0, 0), (0, 0, 0))),
    "pad neg": lambda lax: lax.pad(F, 0.0, ((-1, -2, 0), (0, 0, 0))),
    "pad interior": lambda lax: lax.pad(F, 0.0, ((0, 0, -1), (0, 0, 0))),
    "pad value": lambda lax: lax.pad(F, F, ((0, 0, 0), (0, 0, 0))),
    "concatenate 0": lambda lax: lax.concatenate([], 0),
    "concatenate rank": lambda lax: lax.concatenate([F, F[0]], 0),
    "concatenate shape": lambda lax: lax.concatenate([F, F[:, :2]], 0),
    "concatenate dim": lambda lax: lax.concatenate([F, F], 3),
    "concatenate dtype": lambda lax: lax.concatenate([F, I], 0),
    "iota bool": lambda lax: lax.iota(bool, 3),
    "iota neg": lambda lax: lax.iota("int32", -3),
    "iota dim": lambda lax: lax.broadcasted_iota("int32", (2, 3), 2),
    "split": lambda lax: lax.split(F, (1, 1), 1),
    "stack": lambda lax: lax.stack([F, F[0]]),
    "stack 0": lambda lax: lax.stack([]),
    "tile": lambda lax: lax.tile(F, (2,)),
    "full": lambda lax: lax.full((2,), F),
    "reduce_sum bool": lambda lax: lax.reduce_sum(B, (0,)),
    "reduce_sum dup": lambda lax: lax.reduce_sum(F, (0, 0)),
    "reduce_sum oob": lambda lax: lax.reduce_sum(F, (5,)),
    "reduce_and": lambda lax: lax.reduce_and(F, (0,)),
    "argmax axis": lambda lax: lax.argmax(F, 4, "int32"),
    "argmax empty": lambda lax: lax.argmax(F[:0], 0, "int32"),
    "argmax dtype": lambda lax: lax.argmax(F, 0, "float32"),
    "cumsum negative": lambda lax: lax.cumsum(F, -1),
    "cumsum axis": lambda lax: lax.cummax(F, 7),
    "cumsum bool": lambda lax: lax.cumsum(B),
    "reduce scalar": lambda lax: lax.reduce(F, F, lax.add, (0,)),
    "reduce tree": lambda lax: lax.reduce((F, F), (0.0,), lambda a, b: a, (0,)),
    "reduce_window rank": lambda lax: lax.reduce_window(F, 0.0, lax.add, (2,)),
    "reduce_window pad": lambda lax: lax.reduce_window(F, 0.0, lax.add, (2, 2), (1, 1), "FOO"),
    "reduce_window strides": lambda lax: lax.reduce_window(F, 0.0, lax.add, (2, 2), (1,)),
    "reduce_window negative": lambda lax: lax.reduce_window(F, 0.0, lax.add, (2, -2)),
    "dot size": lambda lax: lax.dot_general(F, F, (((1,), (0,)), ((), ()))),
    "dot dims": lambda lax: lax.dot_general(F, F, (((5,), (1,)), ((), ()))),
    "dot batch": lambda lax: lax.dot_general(F, F, (((1,), (1,)), ((0,), ()))),
    "dot distinct": lambda lax: lax.dot_general(F, F, (((1, 1), (1, 1)), ((), ()))),
    "dot disjoint": lambda lax: lax.dot_general(F, F, (((1,), (1,)), ((1,), (1,)))),
    "dot precision": lambda lax: lax.dot_general(F, F, (((1,), (1,)), ((), ())), precision="x"),
    "dot simple": lambda lax: lax.dot(F, F),
    "batch_matmul": lambda lax: lax.batch_matmul(F[0], F[0]),
    "conv features": lambda lax: lax.conv(L4, W2, (1, 1), "SAME"),
    "conv strides": lambda lax: lax.conv_general_dilated(L4, W4, (1,), [(0, 0), (0, 0)]),
    "conv pads": lambda lax: lax.conv_general_dilated(L4, W4, (1, 1), [(1, 1)]),
    "conv pad": lambda lax: lax.conv_general_dilated(L4, W4, (1, 1), 3),
    "conv padding": lambda lax: lax.conv(L4, W4, (1, 1), "FOO"),
    "conv groups": lambda lax: lax.conv_general_dilated(
        L4, W4, (1, 1), "SAME", feature_group_count=3
    ),
    "conv groups 0": lambda lax: lax.conv_general_dilated(
        L4, W4, (1, 1), "SAME", feature_group_count=0
    ),
    "conv batch groups": lambda lax: lax.conv_general_dilated(
        L4, W4, (1, 1), "SAME", batch_group_count=3
    ),
    "conv rank": lambda lax: lax.conv(L4[0], W4, (1, 1), "SAME"),
    "conv dtype": lambda lax: lax.conv(L4, W4.astype("i4"), (1, 1), "SAME"),
    "conv dilation": lambda lax: lax.conv_general_dilated(
        L4, W4, (1, 1), "SAME", rhs_dilation=(0, 1)
    ),
    "conv cut": lambda lax: lax.conv_general_dilated(L4, W4, (1, 1), [(-5, -5), (0, 0)]),
    "conv numbers": lambda lax: lax.conv_general_dilated(
        L4, W4, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCH")
    ),
    "conv numbers dup": lambda lax: lax.conv_general_dilated(
        L4, W4, (1, 1), "SAME", dimension_numbers=("NCHW", "OIXX", "NCHW")
    ),
    "conv numbers 2": lambda lax: lax.conv_general_dilated(
        L4, W4, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW")
    ),
    "conv precision": lambda lax: lax.conv_general_dilated(L4, W4, (1, 1), "SAME", precision="foo"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    fn = ERRORS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            # Traced, because JAX's eager slice is NumPy's.
            jax.make_jaxpr(lambda: fn(jlax))()
        with pytest.raises(theirs.type) as mine:
            fn(plax)
    if name not in ("add str", "add list", "stack 0", "concatenate 0"):
        assert str(mine.value).split()[:3] == str(theirs.value).split()[:3], (
            str(mine.value),
            str(theirs.value),
        )


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -1.5, 3e9, -3e9, 300, -129, 0.49999997], "f4"
)
EDGES: dict[str, Any] = {
    **{
        f"convert {d}": (lambda lax, d=d: lax.convert_element_type(SPECIAL, d))
        for d in "int32 uint32 int8 uint8 int16 bool int4 bfloat16 float16".split()
    },
    **{
        f"{n}": (lambda lax, n=n: getattr(lax, n)(SPECIAL[:, None], SPECIAL[None, :]))
        for n in "max min add sub mul div rem eq lt ge pow atan2".split()
    },
    **{
        f"{n}": (lambda lax, n=n: getattr(lax, n)(SPECIAL))
        for n in "sign round floor abs exp log sqrt tanh logistic erf sin expm1 log1p cbrt "
        "is_finite".split()
    },
    "div int": lambda lax: lax.div(np.int32([5, -5, 7, -7, -(2**31)]), np.int32([0, 0, 2, 2, -1])),
    "rem int": lambda lax: lax.rem(np.int32([5, -5, 7, -7, -(2**31)]), np.int32([0, 0, 2, 2, -1])),
    "div uint": lambda lax: lax.div(np.uint32([5, 7]), np.uint32([0, 2])),
    **{
        f"{n} {k}": (
            lambda lax, n=n, k=k: getattr(lax, n)(np.int32([-8, 8, 1]), np.full(3, k, "i4"))
        )
        for n in ("shift_left", "shift_right_arithmetic", "shift_right_logical")
        for k in (0, 31, 32, -1)
    },
    "select_n": lambda lax: lax.select_n(
        np.int32([-1, 0, 1, 2, 5]), *(np.full(5, k, "f4") for k in range(3))
    ),
    "reduce_precision": lambda lax: lax.reduce_precision(
        np.float32([1.06, 448, 480, 1e-3, 0.0019, np.nan, 65520, 1e-40]), 5, 3
    ),
    "integer_pow": lambda lax: lax.integer_pow(np.float32([0, np.inf, -np.inf, np.nan, 1e20]), -3),
    "reduce_max nan": lambda lax: lax.reduce_max(SPECIAL, (0,)),
    "argmin nan": lambda lax: lax.argmin(SPECIAL, 0, "int32"),
    "clamp": lambda lax: lax.clamp(
        np.float32([1, np.nan, 3]), np.float32([np.nan, 2, 2]), np.float32([2, 3, 1])
    ),
    "sum i8": lambda lax: lax.reduce_sum(np.full(300, 100, "i1"), (0,)),
    "dot i8": lambda lax: lax.dot_general(
        np.full((2, 300), 100, "i1"), np.full(300, 100, "i1"), (((1,), (0,)), ((), ()))
    ),
    "sign c": lambda lax: lax.sign(np.array([3 + 4j, 0, -2], "c8")),
    "max c": lambda lax: lax.max(
        np.array([1 + 2j, 3 - 1j], "c8"), np.array([1 + 3j, 2 + 9j], "c8")
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_edge_values(name: str) -> None:
    with np.errstate(all="ignore"):
        got, want = np.asarray(EDGES[name](plax)), np.asarray(EDGES[name](jlax))
    assert got.dtype == want.dtype
    if got.dtype.kind in "fc" or got.dtype == ml_dtypes.bfloat16:
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        got, want = got.astype(wide), want.astype(wide)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-30)
        if got.dtype.kind == "f":
            finite = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got)[finite], np.signbit(want)[finite])
    else:
        np.testing.assert_array_equal(got, want)


# --- collectives: under vmap, against JAX's vmap or a formula in NumPy ---
Z = R.standard_normal((4, 4, 3)).astype("f4")
COLLECTIVES: dict[str, Any] = {
    "psum": lambda lax, x: lax.psum(x, "i"),
    "psum tree": lambda lax, x: lax.psum((x, x), "i")[1],
    "psum const": lambda lax, x: lax.mul(x, np.float32(lax.psum(2, "i"))),
    "psum unmapped": lambda lax, x: lax.add(x, lax.psum(Z[0], "i")),
    "psum int": lambda lax, x: lax.psum(lax.convert_element_type(x, "int32"), "i"),
    "pmax": lambda lax, x: lax.pmax(x, "i"),
    "pmin": lambda lax, x: lax.pmin(x, "i"),
    "pmean": lambda lax, x: lax.pmean(x, "i"),
    "pmean int": lambda lax, x: lax.pmean(lax.convert_element_type(x, "int32"), "i"),
    "all_gather": lambda lax, x: lax.all_gather(x, "i"),
    "all_gather 1": lambda lax, x: lax.all_gather(x, "i", axis=1),
    "all_gather tiled": lambda lax, x: lax.all_gather(x, "i", axis=1, tiled=True),
    "axis_index": lambda lax, x: lax.add(
        x, lax.broadcast(lax.convert_element_type(lax.axis_index("i"), "float32"), (4, 3))
    ),
    "axis_size": lambda lax, x: lax.broadcast(x, (lax.axis_size("i"),)),
    "ppermute": lambda lax, x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 3), (3, 0)]),
    "pshuffle": lambda lax, x: lax.pshuffle(x, "i", [1, 0, 3, 2]),
    "all_to_all": lambda lax, x: lax.all_to_all(x, "i", 0, 0),
    "all_to_all 01": lambda lax, x: lax.all_to_all(x, "i", 0, 1),
    "all_to_all tiled": lambda lax, x: lax.all_to_all(x, "i", 0, 1, tiled=True),
    "pswapaxes": lambda lax, x: lax.pswapaxes(x, "i", 0),
    "psum_scatter": lambda lax, x: lax.psum_scatter(x, "i"),
    "psum_scatter tiled": lambda lax, x: lax.psum_scatter(x, "i", tiled=True),
}


def vmap_ours(fn: Any, x: Any, dim: int = 0) -> Any:
    def run(x: Any) -> list[Any]:
        outs, dims = batch_flat(lambda v: [fn(plax, v)], [x], [dim], AxisData("i", 4))
        return [matchaxis(4, d, 0, o) for o, d in zip(outs, dims)]

    return run(x)[0]


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(name: str) -> None:
    fn = COLLECTIVES[name]
    want = jax.vmap(lambda x: fn(jlax, x), axis_name="i")(Z)
    close(vmap_ours(fn, Z), want, 1e-5)
    close(vmap_ours(fn, np.ascontiguousarray(np.moveaxis(Z, 0, 2)), 2), want, 1e-5)
    # Linear maps: <A x, y> = <x, A' y>, with the derivative and its transpose of the mapped
    # function.
    if name in ("psum int", "pmean int"):
        return
    t, ct = _tangents([Z])[0], _tangents([want])[0]
    _, (out_t,) = jvp_flat(lambda x: [vmap_ours(fn, x)], [Z], [t])
    pe = PartialEvalTrace(trace.current_trace())
    unknown = pe.new_unknown(typeof(Z))
    with trace.use_trace(pe):
        _, (lin,) = jvp_flat(lambda x: [vmap_ours(fn, x)], [Z], [unknown])
    jaxpr, consts = pe.finish([lin])
    (back,) = backward_pass(jaxpr, consts, [UndefinedPrimal(typeof(Z))], [ct])
    np.testing.assert_allclose(np.sum(out_t * ct), np.sum(t * back), rtol=1e-3, atol=1e-3)


def test_collectives_beyond_jax() -> None:
    # A partial permutation leaves zeros; broadcast from one instance; nested axes.
    got = vmap_ours(lambda lax, x: lax.ppermute(x, "i", [(0, 2)]), Z)
    close(got, np.stack([0 * Z[0], 0 * Z[0], Z[0], 0 * Z[0]]), 0)
    close(vmap_ours(lambda lax, x: lax.pbroadcast(x, "i", 1), Z), np.stack([Z[1]] * 4), 0)

    def inner(lax: Any, x: Any) -> Any:
        outs, dims = batch_flat(lambda v: [lax.psum(v, ("i", "j"))], [x], [0], AxisData("j", 4))
        return matchaxis(4, dims[0], 0, outs[0])

    close(vmap_ours(inner, Z), np.broadcast_to(Z.sum((0, 1)), (4, 4, 3)), 1e-5)
    with pytest.raises(NameError):
        plax.psum(Z, "i")


# --- functions that are compositions here: values and derivatives against JAX ---
XR, WR, SIZES = (
    R.standard_normal((6, 3)).astype("f4"),
    R.standard_normal((3, 3, 4)).astype("f4"),
    np.int32([2, 0, 3]),
)


@pytest.mark.parametrize("fill", [[2, 0, 3], [1, 2, 3], [0, 0, 0]])
def test_ragged_dot(fill: Any) -> None:
    sizes = np.int32(fill)
    close(plax.ragged_dot(XR, WR, sizes), jlax.ragged_dot(XR, WR, sizes), 1e-4)

    def contracted(lax: Any, x: Any, y: Any) -> Any:
        numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
        return lax.ragged_dot_general(x, y, sizes, numbers)

    close(contracted(plax, XR, XR[:, :2].copy()), contracted(jlax, XR, XR[:, :2].copy()), 1e-4)
    want, pull = jax.vjp(lambda x, w: jlax.ragged_dot(x, w, sizes), XR, WR)
    ct = np.ones(want.shape, "f4")
    for got, ref in zip(
        vjp(lambda lax, x, w: lax.ragged_dot(x, w, sizes), [XR, WR], [ct]), pull(ct)
    ):
        close(got, ref, 1e-4)


def test_dilated_window_derivative() -> None:
    # JAX has no transpose for dilated windows; the derivative is checked by differences.
    def f(lax: Any, x: Any) -> Any:
        return lax.reduce_window(x, -np.inf, lax.max, (2, 3), (1, 2), "SAME", (1, 2), (2, 1))

    out = np.asarray(f(plax, X46))
    ct = np.random.default_rng(1).standard_normal(out.shape).astype("f4")
    (got,) = vjp(f, [X46], [ct])
    t = np.random.default_rng(2).standard_normal(X46.shape).astype("f4")
    step = (f(plax, X46 + 0.01 * t) - f(plax, X46 - 0.01 * t)) / 0.02
    finite = np.isfinite(step)
    np.testing.assert_allclose(
        np.sum(got * t), np.sum(np.where(finite, step, 0) * ct), rtol=1e-2, atol=1e-2
    )
