"""Products and convolutions as whole programs: what they compute beside JAX in every layout, and
what they become: one kernel, nothing stored but the result."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import numpy as jax_numpy

import pullback as pb
from pullback import lax, numpy as jnp
from pullback.backends.reference import RULES
from pullback.loops import pipeline, run as loops_run, tiles
from pullback.loops.show import show_kernel
from pullback.runtime.executable import reference_rule

assert RULES
F32 = np.float32
RANDOM = np.random.default_rng(3)


def numbers(*shape, dtype="float32"):
    x = RANDOM.standard_normal(shape)
    if dtype.startswith("c"):
        x = x + 1j * RANDOM.standard_normal(shape)
    return (4 * x).astype(dtype)


def same(f, *arguments, tolerance=3e-5):
    """f(module, numpy) under both libraries, to a tolerance relative to the largest element."""
    want = jax.jit(lambda *a: f(jax, jax_numpy, *a))(*arguments)
    got = pb.jit(lambda *a: f(pb, jnp, *a))(*arguments)
    for w, g in zip(jax.tree.leaves(want), pb.tree_util.tree_leaves(got), strict=True):
        w, g = np.asarray(w), np.asarray(g)
        assert w.shape == g.shape and w.dtype == g.dtype
        w, g = (v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in (w, g))
        assert np.abs(w - g).max(initial=0.0) <= tolerance * np.abs(w).max(initial=1e-30)


# m, k, n: small, several panels, several blocks of the contracted index, few rows, few columns
SIZES = [(21, 20, 23), (37, 45, 71), (70, 2100, 66), (5, 300, 700), (300, 50, 5), (260, 300, 330)]


@pytest.mark.parametrize("m,k,n", SIZES)
@pytest.mark.parametrize("left,right", [("mk", "kn"), ("km", "kn"), ("mk", "nk"), ("km", "nk")])
def test_products_of_every_layout(m, k, n, left, right):
    size = {"m": m, "k": k, "n": n}
    a, b = numbers(*(size[c] for c in left)), numbers(*(size[c] for c in right))
    same(lambda _, np_, a, b: np_.einsum(f"{left},{right}->mn", a, b), a, b)


@pytest.mark.parametrize("m", [4, 7, 8, 13, 16, 17, 29])
@pytest.mark.parametrize(
    ("k", "n", "dtype"), [(500, 1024, F32), (200, 1000, F32), (130, 1024, "i4")]
)
def test_products_of_few_rows_read_the_other_operand_in_place(m, k, n, dtype):
    """Where its rows begin whole pages apart, few of them at a time."""
    a, b = numbers(m, k).astype(dtype), numbers(k, n).astype(dtype)
    same(lambda _, np_, a, b: a @ b, a, b)
    closed = pb.make_jaxpr(lambda a, b: a @ b)(a, b)
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    text = show_kernel(kernel)
    assert "alloc" not in text
    assert ("for seq" in text) is (b.itemsize * n % 4096 == 0)


@pytest.mark.parametrize(("m", "k", "n"), [(2, 300, 260), (3, 1100, 130), (4, 200, 700)])
def test_products_of_two_to_four_rows_compute_no_others(m, k, n):
    a, b = numbers(m, k), numbers(k, n)
    same(lambda _, np_, a, b: np_.tanh(a @ b / 50) + 1, a, b)
    same(lambda _, np_, a, b: a @ b, a.astype("i4"), b.astype("i4"))
    text = tiles_text(lambda a, b: a @ b, a, b)
    assert f"call flat_f32_{m}" in text and "alloc" not in text


@pytest.mark.parametrize(("n", "dtype"), [(2, F32), (3, "i4"), (5, F32), (8, F32), (8, "bfloat16")])
def test_products_of_few_columns_run_along_the_contracted_index(n, dtype):
    """Its lanes are busy, where those along the columns would mostly idle."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    for m, k, batch in [(300, 70, ()), (41, 2500, ()), (70, 130, (3,)), (30, 70, (9,))]:
        a, b = numbers(*batch, m, k).astype(kind), numbers(*batch, k, n).astype(kind)
        wide = kind if dtype != "bfloat16" else None  # its products are of words, or converted
        same(lambda _, np_, a, b: a @ b, a, b, tolerance=3e-5 if wide else 2e-2)
        if wide:
            same(lambda _, np_, a, b: np_.abs(a @ b)[..., ::2, :] + 1, a, b)
            turned = np.ascontiguousarray(np.swapaxes(b, -1, -2))
            same(lambda _, np_, a, b: a @ np_.swapaxes(b, -1, -2), a, turned)
            text = tiles_text(lambda a, b: a @ b, a, b)
            assert f"call dots_{'i32' if dtype == 'i4' else 'f32'}_{n}" in text


@pytest.mark.parametrize("right", ["kn", "nk"])
@pytest.mark.parametrize(("m", "k", "n"), [(601, 5, 700), (700, 32, 513), (301, 5, 6001)])
def test_products_that_mostly_store_are_written_row_by_row(m, k, n, right):
    """A task has a dozen whole rows of a long C, not its columns from top to bottom."""
    a, b = numbers(m, k), numbers(*({"k": k, "n": n}[c] for c in right))
    same(lambda _, np_, a, b: np_.einsum(f"mk,{right}->mn", a, b), a, b)
    same(lambda _, np_, a, b: np_.maximum(np_.einsum(f"mk,{right}->mn", a, b) + 1, 0), a, b)
    closed = pb.make_jaxpr(lambda a, b: jnp.einsum(f"mk,{right}->mn", a, b))(a, b)
    compiled = pipeline.compile_jaxpr(closed, reference_rule)
    assert -(-m // 12) in {d for step in compiled.steps for d in getattr(step, "dims", ())}


def tiles_text(function, *arguments):
    """The only kernel of a program."""
    closed = pb.make_jaxpr(function)(*arguments)
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    return show_kernel(kernel)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32", "int8", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 37, 11, 16), (9, 20, 70, 3), (2, 64, 1, 80)])
def test_rows_around_a_contracted_axis_are_copied_whole(shape, dtype):
    """What lies outside of it is a batch: no element's place is divided out of a number."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x, w, c = (numbers(*s, dtype=dtype if dtype[0] == "c" else "float32").astype(kind)
               for s in (shape, (shape[1], 24), (24,)))  # fmt: skip

    def f(_, np_, x, w, c):
        return np_.einsum("bhwc,hk->bwck", x, w), np_.einsum("bhwc,hk->bwck", x, w) * c + 1

    same(f, x, w, c, tolerance=2e-2 if dtype == "bfloat16" else 3e-5)
    if dtype == "float32":
        closed = pb.make_jaxpr(lambda x, w: jnp.einsum("bhwc,hk->bwck", x, w))(x, w)
        for kernel in pipeline.compile_jaxpr(closed, reference_rule).kernels:
            assert "irem" not in show_kernel(kernel)


@pytest.mark.parametrize("m", [16, 32, 100])
@pytest.mark.parametrize("n", [1024, 1100])
def test_a_large_operand_is_read_once(m, n):
    """Each task has columns of its own, which it copies into panels where they are used often: as
    rows, by a function that fetches them ahead."""
    a, b = numbers(m, 1030), numbers(1030, n)
    same(lambda _, np_, a, b: a @ b, a, b)
    text = tiles_text(lambda a, b: a @ b, a, b)
    assert ("alloc" in text) is ("call pack_f32_2" in text) is (m > 32)
    assert "= @in" not in text  # nothing is copied element by element
    if m > 32:
        assert text.index("for parallel") < text.index("alloc")


@pytest.mark.parametrize("dtype", ["complex64", "int32", "int8", "uint16", "float16"])
def test_products_of_every_type(dtype):
    tolerance = 2e-3 if dtype == "float16" else 3e-5
    a, b = (np.abs(numbers(*s)).astype(dtype) for s in ((37, 45), (45, 71)))
    if dtype[0] == "c":
        a, b = numbers(37, 45, dtype=dtype), numbers(45, 71, dtype=dtype)
    same(lambda _, np_, a, b: a @ b, a, b, tolerance=tolerance)
    same(lambda _, np_, a, b: a.T @ b.T, b, a, tolerance=tolerance)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("m,k,n", [(8, 8, 16), (33, 67, 45), (64, 64, 70), (20, 4200, 30)])
def test_products_of_bytes_are_exact(dtype, m, k, n):
    info = np.iinfo(dtype)
    a, b = (RANDOM.integers(info.min, info.max + 1, s).astype(dtype) for s in ((m, k), (k, n)))
    wide = jnp.int32 if dtype == "int8" else jnp.uint32
    for swap_a, swap_b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        x, y = (np.ascontiguousarray(v.T) if s else v for v, s in ((a, swap_a), (b, swap_b)))
        dims = (((1 - swap_a,), (swap_b,)), ((), ()))
        for kind in (wide, None):
            product = lambda x, y: lax.dot_general(x, y, dims, preferred_element_type=kind)  # noqa: B023
            found = np.asarray(pb.jit(product)(x, y))
            want = (a.astype(np.int64) @ b.astype(np.int64)).astype(found.dtype)
            np.testing.assert_array_equal(found, want)


@pytest.fixture(params=["words", "numbers"])
def pairs(request, monkeypatch):
    """Products of bf16 numbers as products of words and not, whatever the machine does."""
    monkeypatch.setattr(tiles, "_pairs", [lambda: request.param == "words"])
    return request.param == "words"


@pytest.mark.parametrize("m,k,n", [(9, 9, 130), (33, 67, 45), (64, 64, 70), (20, 2300, 30)])
@pytest.mark.parametrize("result", [np.float32, None])
def test_products_of_bf16_numbers(m, k, n, result, pairs):
    """Their products are exact in f32 and summed there, in every layout; machine code and the
    interpreter alike."""
    a, b = (numbers(*s).astype(ml_dtypes.bfloat16) for s in ((m, k), (k, n)))
    want = a.astype(np.float64) @ b.astype(np.float64)
    bound = (2e-5 if result else 2**-8) * np.abs(want).max()
    for swap_a, swap_b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        x, y = (np.ascontiguousarray(v.T) if s else v for v, s in ((a, swap_a), (b, swap_b)))
        dims = (((1 - swap_a,), (swap_b,)), ((), ()))
        product = lambda x, y: lax.dot_general(x, y, dims, preferred_element_type=result)  # noqa: B023
        found = np.asarray(pb.jit(product)(x, y))
        assert found.dtype == (result or ml_dtypes.bfloat16)
        assert np.abs(found.astype(np.float64) - want).max() <= bound
        if k < 100:
            compiled = program(product, x, y)
            text = "".join(show_kernel(kernel) for kernel in compiled.kernels)
            assert ("tile_b16" in text) == pairs
            (slow,) = loops_run.run_program(compiled, [x, y])
            assert np.abs(slow.astype(np.float64) - want).max() <= bound


def test_products_of_bf16_numbers_in_batches_among_neighbours(pairs):
    f = lambda _, np_, a, b: np_.maximum(np_.einsum("bij,bjk->bik", a * 2, np_.exp(b)) + 1, 0)
    a, b = (numbers(*s).astype(ml_dtypes.bfloat16) / 4 for s in ((3, 20, 31), (3, 31, 40)))
    same(f, a, b, tolerance=2e-2)
    x, w = numbers(40, 33).astype(ml_dtypes.bfloat16), numbers(33, 50).astype(ml_dtypes.bfloat16)
    loss = lambda np_: lambda w: ((x @ w).astype("float32") ** 2).mean()
    same(lambda m, np_, w: m.grad(loss(np_))(w), w, tolerance=2e-2)


def test_products_of_bf16_numbers_at_the_edges(pairs):
    """Infinities, NaN and denormals are what they are in f32; threads make no difference."""
    a, b = numbers(70, 65).astype(ml_dtypes.bfloat16), numbers(65, 200).astype(ml_dtypes.bfloat16)
    a[3, 5], a[4, 6], a[60, 64], b[2, 7] = np.inf, np.nan, -np.inf, np.nan
    f = pb.jit(lambda a, b: lax.dot(a, b, preferred_element_type=jnp.float32))
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(np.asarray(f(a, b)), want, rtol=1e-4, atol=1e-3)
    tiny = (numbers(70, 65) * np.float32(1e-39)).astype(ml_dtypes.bfloat16)
    want = tiny.astype(np.float64) @ np.abs(b[:, 8:]).astype(np.float64)
    found = np.asarray(f(tiny, np.abs(b[:, 8:])))
    assert np.abs(want).max() > 0
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-42)
    big = numbers(300, 320).astype(ml_dtypes.bfloat16), numbers(320, 310).astype(ml_dtypes.bfloat16)
    bits = []
    for count in (1, 2, 7):
        with pb.num_threads(count):
            bits.append(np.asarray(f(*big)))
    np.testing.assert_array_equal(bits[0], bits[1])
    np.testing.assert_array_equal(bits[0], bits[2])


def test_a_product_of_bytes_reads_rows_in_place():
    a, b = np.zeros((200, 256), np.int8), np.zeros((256, 128), np.int8)
    f = lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32)
    text = "".join(show_kernel(k) for k in program(f, a, b).kernels)
    assert "tile_w8" in text and "rows" not in text


def test_batches_and_several_contracted_axes():
    same(lambda _, np_, a, b: a @ b, numbers(100, 8, 9), numbers(100, 9, 10))
    same(lambda _, np_, a, b: a @ b, numbers(3, 60, 50), numbers(3, 50, 70))
    both = ((1, 3), (2, 0))
    same(lambda _, np_, a, b: np_.tensordot(a, b, both), numbers(6, 7, 8, 9), numbers(9, 11, 7, 5))
    q, k = numbers(2, 30, 4, 16), numbers(2, 35, 4, 16)
    same(lambda _, np_, a, b: np_.einsum("bqhd,bkhd->bhqk", a, b), q, k)


def layer(module, np_, x, w, b):
    return module.nn.gelu(x @ w + b) * 2.0


def test_what_follows_a_product_joins_it():
    x, w, b, y = numbers(64, 100) / 40, numbers(100, 80), numbers(80), numbers(64, 80)
    same(layer, x, w, b)
    same(lambda _, np_, x, w, y: (x @ w) * np_.exp(y / 9) + y, x, w, y)
    same(lambda _, np_, x, w, b: (lambda h: (np_.maximum(h, 0), h > 0))(x @ w + b), x, w, b)
    # What depends on the whole result cannot join, what comes before the product can.
    same(lambda _, np_, x, w: (lambda h: h / h.sum())(x @ w), x, np.abs(w))
    loss = lambda np_: lambda w, b: (np_.tanh(x @ w + b) ** 2).sum()
    same(lambda m, np_, w, b: m.grad(loss(np_), (0, 1))(w, b), w, b)


def program(function, *arguments):
    return pipeline.compile_jaxpr(pb.make_jaxpr(function)(*arguments), reference_rule)


def temporaries(compiled) -> int:
    return sum(s.bytes for s in compiled.slots if s.role == "temp")


def test_a_layer_is_one_kernel_and_stores_its_result_only():
    compiled = program(
        lambda *a: layer(pb, jnp, *a), np.zeros((64, 100), F32), np.zeros((100, 80), F32),
        np.zeros(80, F32),
    )  # fmt: skip
    assert len(compiled.kernels) == 1
    assert temporaries(compiled) == 0


def test_operands_are_computed_where_they_are_packed():
    compiled = program(
        lambda x, w: jnp.exp(x).T @ (w + 1).T, np.zeros((300, 200), F32), np.zeros((250, 300), F32)
    )
    assert len(compiled.kernels) == 1
    assert temporaries(compiled) == 0


def test_costly_rows_of_few_numbers_are_computed_before_they_are_packed():
    """In full vectors; packing goes row by row. Cheap ones are not stored."""
    for cost, kernels in ((lambda np_, x: np_.exp(np_.sin(x)), 2), (lambda np_, x: x + 1, 1)):
        for n, count in ((4, kernels), (64, 1)):
            x, w = numbers(3000, n), numbers(n, n)
            f = lambda np_, x, w, cost=cost: cost(np_, x) @ w
            assert len(program(lambda x, w, f=f: f(jnp, x, w), x, w).kernels) == count
            same(lambda _, np_, x, w, f=f: f(np_, x, w), x, w)


NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
CONVOLUTIONS = {
    "same": ((2, 9, 10, 6), (3, 3, 6, 8), NHWC, {"padding": "SAME"}),
    "strided": ((2, 9, 10, 6), (3, 2, 6, 8), NHWC, {"window_strides": (2, 3)}),
    "dilated": ((2, 12, 13, 6), (3, 3, 6, 8), NHWC, {"rhs_dilation": (2, 3)}),
    "transposed": (
        (2, 7, 6, 6), (3, 2, 6, 8), NHWC,
        {"lhs_dilation": (3, 2), "padding": ((1, 2), (-1, 3))},
    ),
    "grouped": ((2, 9, 10, 8), (3, 3, 4, 16), NHWC, {"feature_group_count": 2}),
    "depthwise": (
        (2, 9, 20, 8), (3, 3, 1, 8), NHWC, {"feature_group_count": 8, "padding": "SAME"}
    ),
    "one by one": ((2, 9, 10, 8), (1, 1, 8, 12), NHWC, {}),
    "same first": ((2, 6, 9, 10), (8, 6, 3, 3), NCHW, {"padding": "SAME"}),
    "tall first": ((1, 5, 150, 20), (8, 5, 3, 3), NCHW, {}),
    "strided first": ((2, 6, 9, 10), (8, 6, 3, 3), NCHW, {"window_strides": (2, 1)}),
    "grouped first": ((2, 8, 9, 10), (16, 4, 3, 3), NCHW, {"feature_group_count": 2}),
    "one channel": ((1, 1, 30, 40), (1, 1, 5, 5), NCHW, {"padding": "SAME"}),
    "deep": ((2, 5, 5, 200), (3, 3, 200, 20), NHWC, {"padding": "SAME"}),
    "mixed": ((6, 9, 10, 2), (8, 3, 3, 6), ("CHWN", "OHWI", "NHWC"), {"padding": "SAME"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_and_their_gradients(name):
    x_shape, w_shape, spec, options = CONVOLUTIONS[name]
    x, w = numbers(*x_shape), numbers(*w_shape)

    def f(module, x, w):
        given = {"window_strides": (1, 1), "padding": "VALID", **options}
        return module.lax.conv_general_dilated(x, w, dimension_numbers=spec, **given)

    same(lambda module, _, x, w: f(module, x, w), x, w)
    square = lambda module: lambda x, w: (f(module, x, w) ** 2).sum()
    same(lambda module, _, x, w: module.grad(square(module), (0, 1))(x, w), x, w, tolerance=1e-4)


# What is copied block by block: lines of which the last block has fewer, several small images at
# once, all images and the features shared by threads, one axis, narrow types, other windows.
BLOCKS = {
    "lines left over": ((3, 37, 41, 5), (3, 3, 5, 9), NHWC, {"padding": "SAME"}),
    "lines left over first": ((3, 5, 37, 41), (9, 5, 3, 3), NCHW, {"padding": "SAME"}),
    "small images": ((40, 5, 5, 6), (3, 3, 6, 20), NHWC, {"padding": "SAME"}),
    "small images first": ((40, 18, 5, 5), (20, 18, 3, 3), NCHW, {"padding": "SAME"}),
    "features shared": ((3, 5, 5, 20), (3, 3, 20, 270), NHWC, {"padding": "SAME"}),
    "features shared first": ((3, 20, 5, 5), (270, 20, 3, 3), NCHW, {"padding": "SAME"}),
    "few positions shared": ((3, 20, 4, 3), (270, 20, 3, 3), NCHW, {"padding": "SAME"}),
    "one axis": ((2, 50, 6), (5, 6, 8), ("NWC", "WIO", "NWC"), {"padding": "SAME"}),
    "one axis first": ((2, 6, 50), (8, 6, 5), ("NCW", "OIW", "NCW"), {"padding": ((-2, 4),)}),
    "first to last": ((2, 6, 9, 10), (3, 3, 6, 8), ("NCHW", "HWIO", "NHWC"), {"padding": "SAME"}),
    "last to first": ((2, 9, 10, 6), (8, 6, 3, 3), ("NHWC", "OIHW", "NCHW"), {}),
    "cut": ((2, 12, 13, 6), (3, 3, 6, 8), NHWC, {"padding": ((-2, 1), (3, -4))}),
    "wide strides first": (
        (2, 5, 23, 25), (8, 5, 4, 4), NCHW,
        {"window_strides": (3, 4), "rhs_dilation": (2, 3), "padding": ((5, 2), (0, 7))},
    ),
    "transposed first": (
        (2, 6, 7, 6), (8, 6, 2, 1), NCHW,
        {"lhs_dilation": (3, 2), "padding": ((1, 2), (-1, 3))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_convolutions_whose_operand_is_brought_near(name):
    x_shape, w_shape, spec, options = BLOCKS[name]
    x, w = numbers(*x_shape), numbers(*w_shape)

    def f(module, np_, x, w):
        given = {"padding": "VALID", "window_strides": (1,) * (len(x_shape) - 2), **options}
        y = module.lax.conv_general_dilated(x, w, dimension_numbers=spec, **given)
        return y, np_.maximum(y, 0) * 2

    same(f, x, w)
    narrow = [v.astype(jnp.bfloat16) for v in (x, w)]
    same(f, *narrow, tolerance=2e-2)
    compiled = program(lambda x, w: f(pb, jnp, x, w)[1], x, w)
    assert temporaries(compiled) == 0


# Few output features: lanes run along positions.
LANES = {
    "one": ((2, 13, 17, 20), (3, 3, 20, 1), NHWC, {"padding": "SAME"}),
    "two first": ((2, 20, 37, 17), (2, 20, 3, 5), NCHW, {"padding": "SAME"}),
    "three by strides": (
        (2, 7, 9, 20), (4, 5, 20, 3), NHWC,
        {"lhs_dilation": (2, 3), "padding": ((1, 2), (3, -1))},
    ),
    "places without elements": (
        (2, 4, 5, 8), (1, 2, 8, 3), NHWC,
        {"lhs_dilation": (3, 3), "padding": ((4, 2), (3, -1))},
    ),
    "five": ((2, 13, 17, 20), (3, 3, 20, 5), NHWC, {"padding": ((-2, 1), (3, -4))}),
    "dilated": ((2, 20, 13, 17), (4, 20, 3, 2), NCHW, {"rhs_dilation": (2, 3)}),
    "deep": ((1, 6, 7, 300), (3, 3, 300, 3), NHWC, {"padding": "SAME"}),
    "a picture": ((2, 40, 50, 3), (5, 5, 3, 3), NHWC, {"padding": "SAME"}),
    "one axis": ((2, 100, 8), (7, 8, 1), ("NWC", "WIO", "NWC"), {"padding": "SAME"}),
    "one axis first": ((2, 8, 100), (2, 8, 5), ("NCW", "OIW", "NCW"), {"rhs_dilation": (3,)}),
    "batch last": ((6, 9, 10, 2), (3, 3, 3, 6), ("CHWN", "OHWI", "NHWC"), {"padding": "SAME"}),
}  # fmt: skip


@pytest.mark.parametrize("name", LANES)
def test_convolutions_with_few_features(name):
    x_shape, w_shape, spec, options = LANES[name]
    x, w = numbers(*x_shape), numbers(*w_shape)

    def f(module, np_, x, w):
        given = {"padding": "VALID", "window_strides": (1,) * (len(x_shape) - 2), **options}
        y = module.lax.conv_general_dilated(x, w, dimension_numbers=spec, **given)
        return y, np_.maximum(y, 0) * 2

    same(f, x, w)
    same(f, *[v.astype(jnp.bfloat16) for v in (x, w)], tolerance=2e-2)
    same(f, *[(4 * v).astype(np.int32) for v in (x, w)])
    compiled = program(lambda x, w: f(pb, jnp, x, w)[1], x, w)
    assert temporaries(compiled) == 0
    assert any("flat_f32" in str(k) or "tile_f32" in str(k) for k in compiled.kernels)


def test_a_gradient_by_few_channels_multiplies_no_zeros_and_keeps_numbers_apart():
    """Of a convolution with strides, by its input: features are rows, no zero stands between the
    cotangent's elements, and what is not a number stays where it belongs."""
    x, w = numbers(2, 20, 22, 3), numbers(7, 7, 3, 16)
    f = lambda module, x, w: module.lax.conv_general_dilated(
        x, w, (2, 2), "SAME", dimension_numbers=NHWC)  # fmt: skip
    ct = numbers(2, 10, 11, 16)
    ct[0, 4, 5, 3] = np.nan
    back = lambda module, _, ct, w: module.vjp(lambda x: f(module, x, w), x)[1](ct)[0]
    want = jax.jit(lambda ct, w: back(jax, None, ct, w))(ct, w)
    got = pb.jit(lambda ct, w: back(pb, None, ct, w))(ct, w)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-3)
    compiled = program(lambda ct, w: back(pb, jnp, ct, w), ct, w)
    assert temporaries(compiled) == 0
    assert any("flat_f32_3" in str(k) for k in compiled.kernels)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_result_in_a_donated_argument_is_made_once(groups):
    """Where blocks of lines overlapped, what followed the product was applied to them twice."""
    x, w, r = numbers(1, 8, 50, 50), numbers(8, 8 // groups, 3, 3), numbers(1, 8, 50, 50)

    def f(module, x, w, r):
        given = {"dimension_numbers": NCHW, "feature_group_count": groups}
        return module.lax.conv_general_dilated(x, w, (1, 1), "SAME", **given) * 0.5 + 3 * r

    want = np.asarray(jax.jit(lambda *a: f(jax, *a))(x, w, r))
    got = np.asarray(pb.jit(lambda *a: f(pb, *a), donate_argnums=2)(x, w, jnp.array(r)))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_a_convolution_with_its_activation_stores_its_result_only():
    def f(x, w, b):
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC)
        return jnp.maximum(y + b, 0)

    x, w = np.zeros((2, 9, 10, 8), F32), np.zeros((3, 3, 8, 16), F32)
    compiled = program(f, x, w, np.zeros(16, F32))
    assert len(compiled.kernels) == 1
    assert temporaries(compiled) == 0


def test_transposed_convolutions_write_no_zeros_between():
    x, w = np.zeros((2, 9, 10, 8), F32), np.zeros((4, 4, 8, 16), F32)
    compiled = program(
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), ((2, 2), (2, 2)), lhs_dilation=(2, 2), dimension_numbers=NHWC
        ),
        x, w,
    )  # fmt: skip
    assert temporaries(compiled) == 0


def energy(np_, p):
    d = p[:, None] - p[None]
    return (1 / np_.sqrt((d**2).sum(-1) + 0.01)).sum()


@pytest.mark.parametrize("n,c", [(40, 3), (17, 2), (33, 8)])
def test_gradient_of_pairs(n, c):
    same(
        lambda module, np_, p: module.grad(lambda p: energy(np_, p))(p), numbers(n, c),
        tolerance=3e-4,
    )  # fmt: skip


def test_gradient_of_pairs_stores_no_differences():
    compiled = program(pb.grad(lambda p: energy(jnp, p)), np.zeros((500, 3), F32))
    assert temporaries(compiled) <= 500 * 500 * 4 + 500 * 3 * 4


@pytest.mark.parametrize("stride", [2, 3, 5, 8, 9])
@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8"])
def test_strided_elements(stride, dtype):
    for n in (1, 5, 16, 17, 100):
        x = (RANDOM.standard_normal(n * stride + 3) * 50).astype(dtype)
        for start in (0, 1, 2):
            part = slice(start, start + n * stride, stride)
            got = pb.jit(lambda x, part=part: x[part] + x[part])(x)
            np.testing.assert_array_equal(np.asarray(got), x[part] + x[part])


# Each operand's shape and, where it is repeated, the larger one and its axes there; contracted and
# batch axes. All batch axes of the result, the last ones or others are repeated, on either side.
ONE = ((1,), (1,)), ((0,), (0,))
TWO = ((2,), (2,)), ((0, 1), (0, 1))
SHARED = [
    (((5, 4),), ((4, 6), (5, 4, 6), (1, 2)), ONE),
    (((5, 3, 4),), ((4, 6), (5, 4, 6), (1, 2)), (((2,), (1,)), ((0,), (0,)))),
    (((16, 5, 8),), ((40, 16), (5, 40, 16), (1, 2)), (((0,), (2,)), ((1,), (0,)))),
    (((4, 6), (5, 4, 6), (1, 2)), ((5, 4),), ONE),
    (((4, 6), (5, 4, 6), (1, 2)), ((5, 4, 7),), ONE),
    (((5, 2, 4),), ((2, 4, 6), (5, 2, 4, 6), (1, 2, 3)), TWO),
    (((2, 5, 4),), ((2, 4, 6), (2, 5, 4, 6), (0, 2, 3)), TWO),
    (((5, 2, 4),), ((4, 6), (2, 5, 4, 6), (2, 3)), (((2,), (2,)), ((0, 1), (1, 0)))),
    (((4, 3, 5, 2),), ((6, 4, 7), (5, 2, 6, 4, 7), (2, 3, 4)), (((0,), (3,)), ((2, 3), (0, 1)))),
    (((4, 3, 5, 2),), ((4, 1, 7), (5, 2, 4, 6, 7), (2, 3, 4)), (((0,), (2,)), ((2, 3), (0, 1)))),
    (((4, 3), (5, 4, 3), (1, 2)), ((4, 2), (5, 4, 2), (1, 2)), ONE),
]


@pytest.mark.parametrize("case", range(len(SHARED)))
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_a_batch_of_products_with_one_operand(case, dtype):
    left, right, dims = SHARED[case]

    def product(m, np_, x, y):
        x, y = (
            m.lax.broadcast_in_dim(v, *how[1:]) if how[1:] else v
            for v, how in ((x, left), (y, right))
        )
        return m.lax.dot_general(x, y, dims)

    same(product, numbers(*left[0], dtype=dtype), numbers(*right[0], dtype=dtype))


def test_a_branch_of_lanes_multiplies_by_its_matrix_once():
    branch = lambda x, w: lax.cond(x[0] > 0, lambda w: x @ w, lambda w: x, w)
    x, w = np.zeros((200, 64), F32), np.zeros((64, 64), F32)
    kernels = [
        "".join(show_kernel(k) for k in program(f, x, w).kernels)
        for f in (pb.vmap(branch, in_axes=(0, None)), lambda x, w: x @ w)
    ]
    assert all(text.count("tile_") == kernels[1].count("tile_") for text in kernels)
    assert "tile_" in kernels[0]


def test_products_are_foreseen_before_there_is_a_kernel() -> None:
    """LLVM begins with the tile function while the program is still being lowered."""
    heard = []
    x = np.ones((32, 48), np.float32)
    closed = pb.make_jaxpr(lambda x: jnp.sin(x) @ x.T)(x)
    pipeline.compile_jaxpr(
        closed,
        reference_rule,
        ready=lambda kernel, cost, alone: heard.append(kernel.name),
        foresee=lambda kind, work: heard.append(kind),
    )
    assert heard[0] == "f32"
    assert len(heard) > 1


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(("c", "f", "groups"), [(8, 16, 2), (12, 12, 3), (16, 4, 1)])
def test_gradients_by_grouped_filters_are_products(layout, c, f, groups):
    """Their groups have images of their own, which are read where they lie."""
    pictures, filters = {"NHWC": ((3, 11, 9, c), (3, 3, c // groups, f)),
                         "NCHW": ((3, c, 11, 9), (f, c // groups, 3, 3))}[layout]  # fmt: skip
    numbering = layout, {"NHWC": "HWIO", "NCHW": "OIHW"}[layout], layout
    x, w = numbers(*pictures), numbers(*filters)

    def gradient(package, x, w):
        def loss(w):
            y = package.lax.conv_general_dilated(
                x, w, (1, 2), ((1, 1), (0, 1)), dimension_numbers=numbering,
                feature_group_count=groups,
            )  # fmt: skip
            return (y * y).sum()

        return package.grad(loss)(w)

    same(lambda package, _, x, w: gradient(package, x, w), x, w)
    closed = pb.make_jaxpr(lambda x, w: gradient(pb, x, w))(x, w)
    kernels = pipeline.compile_jaxpr(closed, reference_rule).kernels
    text = show_kernel(kernels[-1])
    assert "call tile_f32" in text or "call flat_f32" in text  # the latter for few features


# Products whose transposes alone are read: contracted and batch axes, permutation.
TURNED = {
    "scores": ((2, 20, 3, 32), (2, 24, 3, 1, 32), ((3,), (4,)), ((0, 2), (0, 2)), (0, 1, 4, 3, 2)),
    "values": ((2, 20, 3, 16), (2, 3, 1, 24, 20), ((1,), (4,)), ((0, 2), (0, 1)), (0, 4, 1, 3, 2)),
    "plain": ((24, 32), (32, 20), ((1,), (0,)), ((), ()), (1, 0)),
    "rows apart": ((24, 32), (32, 20, 5), ((1,), (0,)), ((), ()), (2, 1, 0)),
    "batch inside": ((3, 24, 32), (3, 32, 20), ((2,), (1,)), ((0,), (0,)), (2, 0, 1)),
    "batch last": ((3, 24, 32), (3, 32, 20), ((2,), (1,)), ((0,), (0,)), (2, 1, 0)),
    "mixed": ((4, 24, 32), (32, 20), ((2,), (0,)), ((), ()), (2, 0, 1)),
    "left halves": ((4, 24, 32), (32, 20), ((2,), (0,)), ((), ()), (0, 2, 1)),
    "one row": ((1, 32), (32, 20), ((1,), (0,)), ((), ()), (1, 0)),
}


@pytest.mark.parametrize("case", TURNED)
def test_transposes_of_products_are_products_of_the_transposes(case):
    left, right, contracted, batch, order = TURNED[case]
    x, y = numbers(*left), numbers(*right)

    def program(lax_, x, y):
        z = lax_.transpose(lax_.dot_general(x, y, (contracted, batch)), order)
        return z, z.sum(-1), z.max(-1)

    got = pb.jit(lambda x, y: program(lax, x, y))(x, y)
    for g, w in zip(got, program(jax.lax, x, y), strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=2e-5, atol=2e-3)


def test_softmax_of_turned_scores_walks_rows():
    """What einsum writes as keys . queries is computed in rows of keys, which softmax walks."""
    q = np.ones((2, 64, 4, 16), F32)
    f = lambda q: pb.nn.dot_product_attention(q, q, q)
    text = pb.jit(f).lower(q).as_text("loops")
    softmax = next(part for part in text.split("kernel ") if " exp " in part)
    walked = softmax[softmax.index("for reduce") :].split("yield")[0]
    assert "mul %i" not in walked


TENSOR_PRODUCTS = {
    "each with each": ("ijk,bi,bj->bk", (9, 9, 9), (300, 9), (300, 9)),
    "of unlike sizes": ("ijk,bi,bj->bk", (5, 16, 24), (300, 5), (300, 16)),
    "three": ("abck,za,zb,zc->zk", (4, 5, 6, 8), (200, 4), (200, 5), (200, 6)),
    "long": ("ijk,bi,bj->bk", (40, 37, 12), (130, 40), (130, 37)),
    "other operand": ("bi,bj,kij->kb", (200, 7), (200, 9), (11, 7, 9)),
}


@pytest.mark.parametrize("case", TENSOR_PRODUCTS)
def test_products_of_products_of_each_with_each(case):
    spec, *shapes = TENSOR_PRODUCTS[case]
    same(lambda m, np_, *a: np_.einsum(spec, *a), *(numbers(*s) for s in shapes))
    bf16 = [numbers(*s).astype(ml_dtypes.bfloat16) for s in shapes]
    same(lambda m, np_, *a: np_.einsum(spec, *a), *bf16, tolerance=3e-2)


def test_rows_of_a_product_are_computed_axis_by_axis():
    """No index is divided where a product's operand has several contracted axes."""
    shapes = TENSOR_PRODUCTS["each with each"][1:]
    f = pb.jit(lambda *a: jnp.einsum("ijk,bi,bj->bk", *a))
    text = f.lower(*(numbers(*s) for s in shapes)).as_text("loops")
    assert "tile_f32" in text and "idiv" not in text and "irem" not in text


@pytest.mark.parametrize("m,k,n", [(512, 300, 400), (205, 1030, 90), (1003, 90, 301)])
def test_a_transposed_left_operand_is_packed_in_strips(m, k, n):
    """Of as many rows as a tile has, which it reads from one end to the other; the sums are those
    of the operand as it is."""
    a, b = numbers(k, m), numbers(k, n)
    product = pb.jit(lambda a, b: a.T @ b)
    assert "12:i64, 1:i64," in product.lower(a, b).as_text("loops")  # strips: rows side by side
    np.testing.assert_array_equal(product(a, b), pb.jit(jnp.matmul)(a.T.copy(), b))
