"""Operators and elementary functions of the native back end: accuracy, special values, conversions,
on every level."""

from __future__ import annotations

import re

import numpy as np
import pytest
from llvm_kernels import elementwise

from pullback.backends.llvm import compile_kernel, emit_module, run_kernel, target_for
from pullback.backends.llvm.called import calls, mark
from pullback.backends.llvm.table import FUNCTIONS_CALLED
from pullback.backends.llvm.target import detect_level, host_target
from pullback.loops import zetas
from pullback.loops.ir import Const
from pullback.loops.ops import BITS, NARROW_FLOATS, SIGNED

scipy_special = pytest.importorskip("scipy.special")
ml_dtypes = pytest.importorskip("ml_dtypes")

LEVELS = {
    "avx512": ["avx512", "avx2", "sse2"],
    "avx2": ["avx2", "sse2"],
    "sse2": ["sse2"],
    "neon": ["neon"],
}
pytestmark = pytest.mark.skipif(detect_level() == "none", reason="no native code on this machine")
WIDE = np.longdouble
KINDS = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "bool": np.bool_,
    **{f"{s}{b}": np.dtype(f"{s}{b // 8}") for s in "iu" for b in (8, 16, 32, 64)},
    "i4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    **{n: getattr(ml_dtypes, n) for n in NARROW_FLOATS if n.startswith("float")},
}


@pytest.fixture(params=LEVELS.get(detect_level(), []))
def isa(request):
    return target_for(request.param)


def run(op, dtype, *xs, target, out=None, attrs=()):
    """One operator over arrays."""
    out = out or dtype
    result = np.zeros(len(xs[0]), KINDS[out])
    kernel = elementwise([(out, op, tuple(range(len(xs))), attrs)], [dtype] * len(xs), out)
    run_kernel(kernel, [*xs, result], [len(result)], target=target)
    return result


def ulps(got, want, dtype):
    """Largest distance from extended-precision values, in units of the last place."""
    info = np.finfo(dtype)
    want = np.asarray(want, WIDE)
    _, e = np.frexp(np.abs(want))
    unit = np.maximum(np.ldexp(WIDE(1), e - 1 - info.nmant), WIDE(info.smallest_subnormal))
    over = np.abs(want) > WIDE(info.max)
    error = np.abs(got.astype(WIDE) - want) / unit
    return float(np.max(np.where(over & np.isinf(got), 0, error), initial=0))


def log_uniform(rng, low, high, n=400):
    return np.exp(rng.uniform(np.log(low), np.log(high), n))


def signed(rng, x):
    return x * rng.choice([-1.0, 1.0], len(x))


# name: (reference in extended precision, samples(rng, tiny, huge, biggest exponent), ulp f32, ulp
# f64)
W = {
    "exp": (np.exp, lambda r, t, h, b: r.uniform(-b, b, 400), 1, 1),
    "exp2": (np.exp2, lambda r, t, h, b: r.uniform(-b, b, 400), 1, 1.2),
    "expm1": (
        np.expm1,
        lambda r, t, h, b: np.r_[r.uniform(-30, b, 400), signed(r, log_uniform(r, t, 1))],
        1,
        1.2,
    ),
    "log": (
        np.log,
        lambda r, t, h, b: np.r_[log_uniform(r, t, h), r.uniform(0.9, 1.1, 400)],
        1.2,
        1,
    ),
    "log1p": (
        np.log1p,
        lambda r, t, h, b: np.r_[r.uniform(-0.999, 3, 400), signed(r, log_uniform(r, t, 0.5))],
        2,  # JAX's function, to the bit: tests/test_random.py
        1.2,
    ),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), lambda r, t, h, b: r.uniform(-b, 40, 400), 2, 2),
    "sqrt": (np.sqrt, lambda r, t, h, b: log_uniform(r, t, h), 0.51, 0.51),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda r, t, h, b: log_uniform(r, t, h), 1.6, 1.6),
    "cbrt": (np.cbrt, lambda r, t, h, b: signed(r, log_uniform(r, t, h)), 0.6, 1),
    "sin": (
        np.sin,
        lambda r, t, h, b: np.r_[r.uniform(-100, 100, 400), signed(r, log_uniform(r, t, 1))],
        1.5,
        1,
    ),
    "cos": (np.cos, lambda r, t, h, b: r.uniform(-100, 100, 400), 1.5, 1),
    "tan": (
        np.tan,
        lambda r, t, h, b: np.r_[r.uniform(-100, 100, 400), signed(r, log_uniform(r, t, 1))],
        0.6,
        2,
    ),
    "asin": (np.arcsin, lambda r, t, h, b: r.uniform(-1, 1, 400), 2.5, 2),
    "acos": (np.arccos, lambda r, t, h, b: r.uniform(-1, 1, 400), 2, 2),
    "atan": (
        np.arctan,
        lambda r, t, h, b: np.r_[r.uniform(-4, 4, 400), signed(r, log_uniform(r, t, h))],
        2.6,
        1.5,
    ),
    "sinh": (np.sinh, lambda r, t, h, b: np.r_[r.uniform(-b, b, 400), r.uniform(-2, 2, 400)], 2, 2),
    "cosh": (np.cosh, lambda r, t, h, b: r.uniform(-b, b, 400), 2, 2),
    "tanh": (
        np.tanh,
        lambda r, t, h, b: np.r_[r.uniform(-10, 10, 400), signed(r, log_uniform(r, t, 1))],
        1.5,
        1.5,
    ),
    "asinh": (
        np.arcsinh,
        lambda r, t, h, b: np.r_[r.uniform(-9, 9, 400), signed(r, log_uniform(r, t, h))],
        0.6,
        2,
    ),
    "acosh": (
        np.arccosh,
        lambda r, t, h, b: np.r_[1 + log_uniform(r, 1e-6, 1e3), log_uniform(r, 1.5, h)],
        0.6,
        2,
    ),
    "atanh": (
        np.arctanh,
        lambda r, t, h, b: np.r_[r.uniform(-1, 1, 400), signed(r, log_uniform(r, t, 0.5))],
        0.6,
        2,
    ),
}


@pytest.mark.skipif(np.finfo(WIDE).nmant < 60, reason="needs extended precision")
@pytest.mark.parametrize("name", W)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_accuracy(isa, name, dtype):
    reference, samples, limit32, limit64 = W[name]
    kind = KINDS[dtype]
    ranges = (1e-37, 1e37, 87.0) if dtype == "f32" else (1e-300, 1e300, 708.0)
    x = samples(np.random.default_rng(3), *ranges).astype(kind)
    got = run(name, dtype, x, target=isa)
    assert ulps(got, reference(x.astype(WIDE)), kind) <= (limit32 if dtype == "f32" else limit64)


# mpmath's values, 40 digits, rounded: places where a sloppy reduction loses everything.
HUGE = [
    (1e22, -0.8522008497671888017, 0.5232147853951389455),
    (6381956970095103.0 * 2.0**797, 1.0, -4.6871659242546277e-19),
    (1.7976931348623157e308, 0.0049619547891840617905, -0.99998768942655993746),
    (1048576.0, 0.33049314002173467164, 0.94380839390131198401),
]


def test_huge_angles(isa):
    x = np.array([h[0] for h in HUGE] * 9)
    np.testing.assert_allclose(
        run("cos", "f64", x, target=isa), [h[2] for h in HUGE] * 9, rtol=1e-15
    )
    np.testing.assert_allclose(
        run("sin", "f64", x, target=isa), [h[1] for h in HUGE] * 9, rtol=1e-15
    )


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_quick_code_of_large_angles_has_the_bits_of_good_code(isa, name, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE", "0")
    r = np.random.default_rng(3)
    x = np.r_[log_uniform(r, 1.0, 1e9), log_uniform(r, 1e9, 3e38), np.inf, np.nan, 0.0, -0.0, 4096]
    x = signed(r, x).astype(np.float32)
    good, quick = np.zeros_like(x), np.zeros_like(x)
    steps = [("f32", "neg", (0,), ()), ("f32", name, (1,), ())]  # no other test's kernel
    kernel = elementwise(steps, ["f32"], "f32")
    run_kernel(kernel, [x, quick], [len(x)], target=isa, quick=True)
    assert compile_kernel(kernel, isa, quick=True).source is not None  # there is better code
    run_kernel(kernel, [x, good], [len(x)], target=isa)
    np.testing.assert_array_equal(quick.view(np.int32), good.view(np.int32))
    with np.errstate(invalid="ignore"):
        want = getattr(np, name)(-x.astype(np.float64))
    np.testing.assert_allclose(quick, want, rtol=3e-7)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS_CALLED)
def test_functions_that_quick_code_calls_have_the_bits_of_good_code(name, dtype):
    target = host_target()
    if not mark(target):
        pytest.skip("nothing is kept on disk")
    kind, r = KINDS[dtype], np.random.default_rng(5)
    info = np.finfo(kind)
    many = signed(r, log_uniform(r, float(info.tiny), float(info.max) / 4))
    with np.errstate(over="ignore"):
        x = np.r_[many, r.uniform(-9, 9, 200), r.uniform(-1, 1, 200), SPECIAL].astype(kind)
    xs = [x, r.permutation(x)] if name in ("pow", "atan2") else [x]
    quarter = Const(0.25, dtype)
    less = tuple((dtype, "sub", (k, quarter), ()) for k in range(len(xs)))  # no other test's kernel
    steps = [*less, (dtype, name, tuple(range(len(xs), 2 * len(xs))), ())]
    kernel = elementwise(steps, [dtype] * len(xs), dtype)
    assert calls(emit_module(kernel, target, brief=True)[0])
    assert not calls(emit_module(kernel, target)[0])
    quick, good = np.zeros_like(x), np.zeros_like(x)
    assert compile_kernel(kernel, target, quick=True).source is not None  # there is better code
    run_kernel(kernel, [*xs, quick], [len(x)], quick=True)
    run_kernel(kernel, [*xs, good], [len(x)])
    assert quick.tobytes() == good.tobytes()  # signs of NaN, too


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_negations_stay_where_they_are(dtype):
    """LLVM would move negations through other operations and into functions' bodies, here and not
    there, and the signs of NaN would show it: quick code that calls functions has the bits of good
    code, and products and differences those that IEEE 754 gives them."""
    kind, r = KINDS[dtype], np.random.default_rng(6)
    with np.errstate(over="ignore"):
        x = np.r_[r.normal(size=67), SPECIAL].astype(kind)
    x = np.r_[x, np.copysign(np.array([np.nan], kind), kind(-1)), -x]
    y = r.normal(size=len(x)).astype(kind)
    minus, nothing = Const(-1.0, dtype), Const(-0.0, dtype)
    half = Const(0.5, dtype)
    steps = [
        (dtype, "neg", (0,), ()),  # 2
        (dtype, "sub", (1, 2), ()),  # y - -x
        (dtype, "mul", (0, half), ()),
        (dtype, "neg", (4,), ()),  # -(x / 2)
        (dtype, "mul", (0, minus), ()),
        (dtype, "div", (0, minus), ()),
        (dtype, "sub", (nothing, 0), ()),
        (dtype, "mul", (2, 1), ()),
        (dtype, "neg", (9,), ()),  # -(-x y)
        (dtype, "sin", (2,), ()),
        (dtype, "exp", (5,), ()),
        (dtype, "neg", (12,), ()),
        (dtype, "fma", (2, 1, 1), ()),
    ]
    with np.errstate(all="ignore"):
        want = {2: -x, 3: y - -x, 5: -(x * kind(0.5)), 6: x * kind(-1), 7: x / kind(-1),
                8: kind(-0.0) - x, 10: x * y}  # fmt: skip
    for k, _ in enumerate(steps, 2):
        kernel = elementwise(steps[: k - 1], [dtype, dtype], dtype)
        quick, good = np.zeros_like(x), np.zeros_like(x)
        compile_kernel(kernel, host_target(), quick=True)
        run_kernel(kernel, [x, y, quick], [len(x)], quick=True)
        run_kernel(kernel, [x, y, good], [len(x)])
        assert quick.tobytes() == good.tobytes(), steps[k - 2]
        if k in want:
            np.testing.assert_array_equal(np.signbit(good), np.signbit(want[k]))


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    2.0,
    -2.0,
    0.5,
    -0.5,
    1e-45,
    -1e-45,
    88.7,
    89.0,
    -104.0,
    -150.0,
    3.0,
    -3.0,
    710.0,
    -746.0,
    1e300,
    5e-324,
]
EXACT = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "erf": scipy_special.erf,
    "erfc": scipy_special.erfc,
    "lgamma": scipy_special.gammaln,
}


def same(got, want, tolerance):
    close = np.abs(got - want) <= tolerance * np.abs(want) + np.finfo(got.dtype).smallest_subnormal
    exact = (got == want) & (np.signbit(got) == np.signbit(want))
    return exact | (np.isnan(got) & np.isnan(want)) | (close & (want != 0))


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_special_values(isa, name, dtype):
    kind = KINDS[dtype]
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL).astype(kind)
        want = EXACT[name](x.astype(np.float64)).astype(kind)
        got = run(name, dtype, x, target=isa)
        alone = np.r_[*(run(name, dtype, np.full(3, v), target=isa)[:1] for v in x)]
        wrong = ~same(got, want, np.finfo(kind).eps * 4)
    np.testing.assert_array_equal(alone, got)  # in a vector that holds nothing else
    np.testing.assert_array_equal(np.signbit(alone[got == 0]), np.signbit(got[got == 0]))
    assert not wrong.any(), [
        (float(a), float(g), float(w))
        for a, g, w in zip(x[wrong], got[wrong], want[wrong], strict=True)
    ]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", ["pow", "atan2", "rem"])
def test_binary_functions(isa, name, dtype):
    kind, rng = KINDS[dtype], np.random.default_rng(5)
    with np.errstate(all="ignore"):
        s = np.array(SPECIAL).astype(kind)
        a, b = (v.ravel() for v in np.meshgrid(s, s))
        span = 80 if dtype == "f32" else 690
        big = np.exp(rng.uniform(-span, span, (2, 2000))).astype(kind)
        small = rng.uniform(-30, 30, (2, 2000)).astype(kind)
        a, b = (
            np.r_[a, big[0], small[0], big[0]].astype(kind),
            np.r_[b, big[1], small[1], small[1]].astype(kind),
        )
        reference = {"pow": np.power, "atan2": np.arctan2, "rem": np.fmod}[name]
        want = (
            reference(a, b)
            if dtype == "f64" or name == "rem"
            else reference(a.astype("f8"), b.astype("f8")).astype(kind)
        )
        got = run(name, dtype, a, b, target=isa)
        wrong = ~same(got, want, 0.0 if name == "rem" else np.finfo(kind).eps * 4)
    assert not wrong.any(), [(a[k], b[k], got[k], want[k]) for k in np.flatnonzero(wrong)[:5]]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_remainders_beside_multiples(isa, dtype):
    """Whole vectors of moderate quotients, whose last one or first one decides."""
    kind, rng = KINDS[dtype], np.random.default_rng(11)
    n = 4000
    y = (signed(rng, rng.uniform(0.1, 3, n)) * np.exp2(rng.integers(-9, 9, n))).astype(kind)
    whole = (y * rng.integers(0, 2**22 + 9, n)).astype(kind)
    for x in (whole, np.nextafter(whole, kind(0)), np.nextafter(whole, kind(np.inf)), whole * 3):
        got, want = run("rem", dtype, x, y, target=isa), np.fmod(x, y)
        assert same(got, want, 0.0).all()
    small = (y * np.finfo(kind).smallest_subnormal * 64).astype(kind)  # divisors without normals
    fine = np.where(small == 0, kind(1), small)
    got, want = run("rem", dtype, fine * 3, fine, target=isa), np.fmod(fine * 3, fine)
    assert same(got, want, 0.0).all()


FLOAT_STEP = re.compile(r"(fadd|fsub|fmul|fdiv) |call .*@llvm\.(fma|sqrt)")


def longest_chain(text):
    """How many operations on floats of a module wait for one another."""
    longest = {}
    for line in text.splitlines():
        if found := re.match(r"\s*(%[\w.]+) = (.*)", line):
            out, made = found.groups()
            before = max((longest.get(v, 0) for v in re.findall(r"%[\w.]+", made)), default=0)
            longest[out] = before + bool(FLOAT_STEP.match(made))
    return max(longest.values())


@pytest.mark.parametrize(
    ("name", "dtype", "most"),
    [("sin", "f32", 9), ("tanh", "f32", 12), ("pow", "f32", 13), ("exp", "f64", 12),
     ("sin", "f64", 11), ("atan", "f64", 10), ("tanh", "f64", 16), ("erf", "f64", 8),
     ("pow", "f64", 27)],
)  # fmt: skip
def test_few_steps_of_a_function_wait_for_one_another(name, dtype, most):
    """Loops that carry numbers take as long as these chains: polynomials are not evaluated one
    coefficient after the other."""
    count = 2 if name == "pow" else 1
    steps = [(dtype, name, tuple(range(count)))]
    kernel = elementwise(steps, [dtype] * count, dtype, "seq")
    text, _ = emit_module(kernel, target_for("avx2"))
    assert longest_chain(text) <= most


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    "name",
    ["pow", "log", "cbrt", "tan", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh",
     "atanh", "lgamma", "digamma", "exp", "sin", "erf"],
)  # fmt: skip
def test_numbers_one_by_one_and_in_lanes_have_the_same_bits(name, dtype, isa):
    """Of one number some functions are computed in two lanes, where its bits are integers of
    vector registers."""
    kind, r = KINDS[dtype], np.random.default_rng(7)
    wild = signed(r, log_uniform(r, float(np.finfo(kind).tiny), 1e30))[:200]
    with np.errstate(over="ignore"):
        x = np.r_[wild, r.uniform(-9, 9, 100), r.uniform(-1, 1, 100), SPECIAL].astype(kind)
    xs = [x, r.permutation(x)] if name in ("pow", "atan2") else [x]
    steps = [(dtype, name, tuple(range(len(xs))))]
    outs = []
    for how in ("seq", "vector"):
        kernel = elementwise(steps, [dtype] * len(xs), dtype, how)
        outs.append(np.zeros_like(x))
        run_kernel(kernel, [*xs, outs[-1]], [len(x)], target=isa)
        if how == "seq" and name == "pow":
            assert "<2 x i32>" in emit_module(kernel, isa)[0]
    np.testing.assert_array_equal(outs[0], outs[1])


@pytest.mark.parametrize(
    ("name", "parts"), [("erf", 1), ("tanh", 1), ("lgamma", 2), ("digamma", 2)]
)
def test_vectors_go_without_what_no_number_needs(name, parts, isa):
    """Far from zero, below it: such parts stand behind branches."""
    branches = {
        op: emit_module(elementwise([("f64", op, (0,))], ["f64"], "f64"), isa)[0].count("br i1")
        for op in ("abs", name)
    }
    assert branches[name] >= branches["abs"] + parts


def test_cube_roots_divide_nothing(isa):
    for dtype in ("f32", "f64"):
        text, _ = emit_module(elementwise([(dtype, "cbrt", (0,))], [dtype], dtype), isa)
        assert "fdiv" not in text


@pytest.mark.parametrize(
    ("name", "dtype"), [("pow", "f32"), ("pow", "f64"), ("erf", "f64"), ("log", "f64")]
)
def test_functions_by_small_tables_divide_nothing(isa, name, dtype):
    """Rows of sixteen take the place of divisions: permutations of registers where lanes have
    such, else read where they lie; float64 logarithms where reading costs lanes little."""
    if name == "log" and not isa.masks:
        pytest.skip("lanes read one by one")
    count = 2 if name == "pow" else 1
    for how in ("seq", "vector"):
        kernel = elementwise([(dtype, name, tuple(range(count)))], [dtype] * count, dtype, how)
        text, _ = emit_module(kernel, isa)
        assert "fdiv" not in text
        assert ("vpermi2var" in text) or ("private constant" in text)


@pytest.mark.skipif(np.finfo(WIDE).nmant < 60, reason="needs extended precision")
@pytest.mark.parametrize("around", [0.02, 0.3])
def test_large_powers_of_numbers_near_one(isa, around):
    """The exponent is 700 times what the logarithm's error is, at places between two rows, too."""
    r = np.random.default_rng(17)
    edges = np.array([45 / 64 * 2 ** (k / 16) for k in range(9)] + [0.984375, 1.03125, 1.09375])
    x = np.r_[1 + r.uniform(-around, around, 3000), np.nextafter(edges, 0), edges]
    y = r.uniform(-1, 1, len(x)) * 690 / np.abs(np.log(np.where(x == 1, 2, x)))
    want = np.power(x.astype(WIDE), y.astype(WIDE))
    assert ulps(run("pow", "f64", x, y, target=isa), want, np.float64) <= (1.4 if isa.fma else 2)


def test_error_functions_join_at_the_ends_of_pieces(isa):
    """Pieces of 21/64, a near part below 1, and 1 itself from 5.9 on."""
    ends = np.r_[1.0, (np.arange(3, 19) + 0.5) * (21 / 64), 5.9, 6.0, 7.0, 1e300]
    x = np.r_[np.nextafter(ends, 0), ends, np.nextafter(ends, np.inf)]
    x = np.r_[x, -x]
    got = run("erf", "f64", x, target=isa)
    np.testing.assert_allclose(got, scipy_special.erf(x), rtol=3e-16)
    assert np.all(np.abs(got[np.abs(x) >= 5.95]) == 1)


def test_remainders_by_one_number_divide_once(isa):
    """By the reciprocal, outside of the loop."""
    kernel = elementwise([("f32", "rem", (0, Const(3.7, "f32")), ())], ["f32"], "f32", "seq")
    text, _ = emit_module(kernel, isa)
    divisions = [m.start() for m in re.finditer("fdiv <2 x float>", text)]
    loop = re.search(r"^b\d+:", text, re.M)
    assert loop is not None
    assert len(divisions) == isa.fma
    assert all(at < loop.start() for at in divisions)


def test_remainders_of_lanes_are_found_at_once(isa):
    """By one division of whole vectors of float32 and fused products; the loop over pieces of
    quotients, in doubles, stands behind a branch."""
    kernel = elementwise([("f32", "rem", (0, 1), ())], ["f32", "f32"], "f32")
    text, _ = emit_module(kernel, isa)
    lanes = isa.lanes(4)
    assert (f"fdiv <{lanes} x float>" in text) == isa.fma == ("@llvm.fma" in text)


@pytest.mark.parametrize(
    ("name", "reference", "low", "high"),
    [
        ("erf", scipy_special.erf, -6, 6),
        ("erfc", scipy_special.erfc, -6, 25),
        ("erf_inv", scipy_special.erfinv, -1, 1),
        ("lgamma", scipy_special.gammaln, 0.01, 60),
        ("digamma", scipy_special.psi, 2, 60),
        ("lgamma", scipy_special.gammaln, -9.9, 0),
        ("bessel_i0e", scipy_special.i0e, -30, 30),
        ("bessel_i1e", scipy_special.i1e, -30, 30),
    ],
)
def test_special_functions(isa, name, reference, low, high):
    x = np.random.default_rng(7).uniform(low, high, 500)
    np.testing.assert_allclose(
        run(name, "f64", x, target=isa), reference(x), rtol=2e-13, atol=2e-14
    )
    y = x.astype("f4")
    if name == "erfc":
        y = y[y < 9]
    at = y.astype("f8")
    if name == "erf_inv":  # of the number whose square is the rounded one: JAX's function
        at = np.copysign(np.sqrt((y * y).astype("f8")), at)
    np.testing.assert_allclose(run(name, "f32", y, target=isa), reference(at), rtol=5e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("low", "high", "first", "last", "whole"),
    [(1.01, 12, 0.01, 20, False), (1.5, 40, 0.3, 100, False), (2, 12, -30, 30, True)],
)
def test_zeta(isa, low, high, first, last, whole):
    draw = np.random.default_rng(8)
    x, q = draw.uniform(low, high, 500), draw.uniform(first, last, 500)
    x = np.floor(x) if whole else x
    want = scipy_special.zeta(x, q)
    np.testing.assert_allclose(run("zeta", "f64", x, q, target=isa), want, rtol=2e-14, atol=1e-300)
    x, q = x.astype("f4"), q.astype("f4")
    want = scipy_special.zeta(x.astype("f8"), q.astype("f8"))
    some = (np.abs(want) < 1e38) & (np.abs(want) > 1e-37)
    got = run("zeta", "f32", x, q, target=isa)
    np.testing.assert_allclose(got[some], want[some], rtol=1.2e-7)


def test_polygamma(isa):
    draw = np.random.default_rng(9)
    m, x = np.floor(draw.uniform(0, 12, 500)), draw.uniform(0.1, 30, 500)
    want = scipy_special.polygamma(m.astype(int), x)
    np.testing.assert_allclose(run("polygamma", "f64", m, x, target=isa), want, rtol=2e-13)
    m, x = m.astype("f4"), x.astype("f4")
    want = scipy_special.polygamma(m.astype(int), x.astype("f8"))
    got = run("polygamma", "f32", m, x, target=isa)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["zeta", "polygamma"])
def test_edges_of_zeta(isa, name):
    some = [-3.0, -2.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 20.0, np.inf, np.nan]
    x, q = (v.ravel() for v in np.meshgrid([*some, -np.inf], [*some, 1e10, -np.inf, -2.25]))
    reference = {"zeta": zetas.zeta, "polygamma": zetas.polygamma}[name]
    for kind in ("f4", "f8"):
        with np.errstate(all="ignore"):
            want = reference(x.astype(kind), q.astype(kind))
        got = run(name, f"f{8 * int(kind[1])}", x.astype(kind), q.astype(kind), target=isa)
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-36)


def test_erf_inv_is_the_same_beside_the_tails(isa):
    """Vectors without large arguments go another way: what they give is that of vectors with one,
    to the bit, up to where the ways part and beyond."""
    edge = np.nextafter(np.sqrt(0.993).astype("f4"), np.arange(2, dtype="f4"))
    x = np.linspace(-0.997, 0.997, 960, dtype="f4")
    x[::160], x[1::160], x[2::160], x[3::160] = edge[0], -edge[1], 0.0, -0.0
    alone = run("erf_inv", "f32", x, target=isa)
    for large in (1.0, -1.0, np.nan, 2.0, np.inf, 0.9999):
        beside = np.stack((x, np.full_like(x, large)), 1).ravel()
        got = run("erf_inv", "f32", beside, target=isa).reshape(-1, 2)
        np.testing.assert_array_equal(got[:, 0].view("u4"), alone.view("u4"))
        at = np.sqrt(np.float64(np.float32(large) ** 2)) * np.sign(large)
        want = scipy_special.erfinv(at)
        np.testing.assert_allclose(got[:, 1], np.full(960, want), rtol=5e-7)


@pytest.mark.parametrize(
    "dtype",
    [
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float4_e2m1fn",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "bf16",
        "f16",
    ],
)
def test_narrow_floats_convert_exactly(isa, dtype):
    """Every code decodes as ml_dtypes says; every rounding case of random and halfway values
    encodes as it does."""
    kind, rng = np.dtype(KINDS[dtype]), np.random.default_rng(2)
    bits = BITS[dtype]
    codes = np.arange(1 << bits, dtype="u2" if bits == 16 else "u1").view(kind)
    with np.errstate(all="ignore"):
        want = codes.astype("f4")
    decoded = run("convert", dtype, codes, target=isa, out="f32")
    np.testing.assert_array_equal(decoded, want)
    want = want[~np.isnan(want)]
    finite = np.sort(want[np.isfinite(want)].astype("f8"))
    middle = (finite[1:] + finite[:-1]) / 2
    values = np.r_[
        want,
        middle.astype("f4"),
        np.nextafter(middle.astype("f4"), np.float32(0)),
        rng.normal(size=500) * 10,
        signed(rng, log_uniform(rng, 1e-44, 1e38)),
    ].astype("f4")
    values = values[~np.isnan(values)]
    with np.errstate(all="ignore"):
        expected = values.astype(kind)
    got = run("convert", "f32", values, target=isa, out=dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got.astype("f4"), expected.astype("f4"))
    assert np.isnan(
        run("convert", "f32", np.full(5, np.nan, "f4"), target=isa, out="bf16").astype("f4")
    ).all()


def test_double_to_narrow_rounds_once(isa):
    """1 + 2**-8 + tiny: through f32 it would tie to even and lose the tiny part."""
    x = np.array(
        [1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40, 1 + 2.0**-8, 1e300, -1e300, 1e-300, np.inf]
    )
    got = run("convert", "f64", x, target=isa, out="bf16").astype("f8")
    np.testing.assert_array_equal(got, [1 + 2.0**-7, 1, 1, np.inf, -np.inf, 0, np.inf])
    y = np.array([1 + 2.0**-11 + 2.0**-45, 1 + 2.0**-11 - 2.0**-45, 65520.0, 65519.99999])
    np.testing.assert_array_equal(
        run("convert", "f64", y, target=isa, out="f16").astype("f8"),
        [1 + 2.0**-10, 1, np.inf, 65504],
    )


@pytest.mark.parametrize("dest", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "i4", "u4"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_float_to_int_saturates(isa, source, dest):
    x = np.array(
        [
            np.nan,
            np.inf,
            -np.inf,
            3e9,
            -3e9,
            300.7,
            -300.7,
            -1.5,
            1e20,
            255.9,
            -0.5,
            2.0**31,
            2.0**63,
            -(2.0**63),
            7.9,
        ]
    )
    x = x.astype(KINDS[source])
    bits = BITS[dest]
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dest in SIGNED else (0, (1 << bits) - 1)
    )
    want = [0 if v != v else max(low, min(high, int(np.clip(v, -1e30, 1e30)))) for v in x.tolist()]
    got = run("convert", source, x, target=isa, out=dest)
    assert [int(v) for v in got] == want


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_integer_semantics(isa, dtype):
    """Division by zero, INT_MIN / -1, shifts past the width, high products, rotations, counts:
    against Python's integers."""
    bits, is_signed = BITS[dtype], dtype in SIGNED
    info, rng = np.iinfo(KINDS[dtype]), np.random.default_rng(1)
    edge = [info.min, info.max, 0, 1, info.max - 1, info.min + 1, *([-1] if is_signed else [3])]
    pairs = [(a, b) for a in edge for b in edge]
    small = rng.integers(0, 100, (60, 2)).tolist()
    a = np.array([p[0] for p in pairs] + [p[0] for p in small], dtype=KINDS[dtype])
    b = np.array([p[1] for p in pairs] + [p[1] for p in small], dtype=KINDS[dtype])

    def wrap(v):
        v &= (1 << bits) - 1
        return v - (1 << bits) if is_signed and v >> (bits - 1) else v

    def unsigned(v):
        return v & ((1 << bits) - 1)

    def quotient(x, y):
        return -1 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)

    def arithmetic(x, y):
        value = x if is_signed else x - (1 << bits) if x >> (bits - 1) else x
        return value >> min(unsigned(y), bits - 1)

    references = {
        "div": quotient,
        "rem": lambda x, y: x if y == 0 else x - quotient(x, y) * y,
        "shl": lambda x, y: 0 if unsigned(y) >= bits else x << unsigned(y),
        "shr_logical": lambda x, y: 0 if unsigned(y) >= bits else unsigned(x) >> unsigned(y),
        "shr_arith": arithmetic,
        "mulhi": lambda x, y: (x * y) >> bits,
        "rotl": lambda x, y: (
            unsigned(x) << unsigned(y) % bits | unsigned(x) >> (bits - unsigned(y) % bits)
        ),
        "add": lambda x, y: x + y,
        "mul": lambda x, y: x * y,
        "max": max,
    }
    for op, f in references.items():
        got = run(op, dtype, a, b, target=isa)
        want = [wrap(f(int(x), int(y))) for x, y in zip(a, b, strict=True)]
        assert [int(v) for v in got] == want, op
    counts = run("popcount", dtype, a, target=isa), run("clz", dtype, a, target=isa)
    assert [int(v) for v in counts[0]] == [unsigned(int(x)).bit_count() for x in a]
    assert [int(v) for v in counts[1]] == [bits - unsigned(int(x)).bit_length() for x in a]


def test_max_min_order_zeros_and_keep_nan(isa):
    x, y = np.array([0.0, -0.0, np.nan, 1.0, 2.0]), np.array([-0.0, 0.0, 1.0, np.nan, 3.0])
    high, low = run("max", "f64", x, y, target=isa), run("min", "f64", x, y, target=isa)
    assert not np.signbit(high[:2]).any() and np.signbit(low[:2]).all()
    assert np.isnan(high[2:4]).all() and np.isnan(low[2:4]).all() and high[4] == 3


def test_constants_are_rounded_to_their_dtype(isa):
    out = np.zeros(3, ml_dtypes.bfloat16)
    kernel = elementwise([("bf16", "add", (0, Const(1.00390626, "bf16")))], ["bf16"], "bf16")
    run_kernel(kernel, [np.zeros(3, ml_dtypes.bfloat16), out], [3], target=isa)
    np.testing.assert_array_equal(out.astype("f4"), np.full(3, 1.0078125, "f4"))


@pytest.mark.skipif(np.finfo(WIDE).nmant < 60, reason="needs extended precision")
@pytest.mark.parametrize(("dtype", "last"), [("f32", 150), ("f64", 1075)])
def test_exponentials_end_where_half_of_the_least_denormal_is_more(isa, dtype, last):
    """Denormals are kept down to the last; below, results are 0 without being computed."""
    kind = KINDS[dtype]
    log2 = np.log(WIDE(2))
    edge = kind(-last * log2)
    near = [edge, np.nextafter(edge, kind(0)), np.nextafter(edge, kind(-np.inf))]
    x = np.array([*near, *np.linspace(edge - 3, edge * 0.8, 400), -1e9, -1e37, -np.inf], kind)
    want = np.exp(x.astype(WIDE)).astype(kind)
    got = run("exp", dtype, x, target=isa)
    info = np.finfo(kind)
    assert (np.abs(got - want) <= info.smallest_subnormal + info.eps * want).all()
    np.testing.assert_array_equal(got[x < edge * (1 + 1e-5)], 0)
    y = np.array([-last - 1.0, -last, -last + 1, -1e9, -np.inf, -last + 0.75], kind)
    want = np.exp2(y.astype(WIDE)).astype(kind)
    np.testing.assert_array_equal(run("exp2", dtype, y, target=isa), want)


def test_logarithms_of_one_and_little_more_are_that_little(isa):
    x = np.array([2.0**-k for k in (29, 30, 31, 40, 63, 64, 75, 100, 126, 149)], np.float32)
    got = run("log1p", "f32", np.r_[x, -x], target=isa)
    want = np.log1p(np.r_[x, -x].astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(got, want)
