"""Fourier transforms beside JAX: values, derivatives, batches, errors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback.loops import pipeline
from pullback.loops.show import show_kernel
from pullback.runtime.executable import reference_rule

RNG = np.random.default_rng(3)
SHAPES = {"FFT": (2, 3, 4), "IFFT": (2, 3, 4), "RFFT": (2, 3, 4), "IRFFT": (2, 3, 3)}


def operand(kind: str, odd: bool = False) -> Any:
    shape = SHAPES[kind]
    if odd and kind in ("FFT", "IFFT", "RFFT"):
        shape = (*shape[:-1], 5)
    x = RNG.normal(size=shape)
    return x.astype("f") if kind == "RFFT" else (x + 1j * RNG.normal(size=shape)).astype("F")


def close(x: Any, y: Any) -> None:
    x, y = np.asarray(x), np.asarray(y)
    assert (x.shape, x.dtype) == (y.shape, y.dtype)
    np.testing.assert_allclose(x, y, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("kind", SHAPES)
def test_transforms(kind: str, axes: int, odd: bool) -> None:
    x = operand(kind, odd)
    lengths = (3, 5 if odd else 4)[-axes:]

    def f(lib: Any) -> Any:
        return lambda v: lib.lax.fft(v, kind, lengths)

    want = f(jax)(jnp.asarray(x))
    close(f(pb)(pb.numpy.asarray(x)), want)
    close(pb.jit(f(pb))(x), want)
    stack = np.stack([x, 2 * x], 1)
    close(pb.vmap(f(pb), 1)(stack), jax.vmap(f(jax), 1)(stack))
    w = RNG.normal(size=want.shape).astype("f")

    def total(lib: Any) -> Any:
        return lambda v: (abs(f(lib)(v)) ** 2 * w).sum()

    close(pb.grad(total(pb))(x), jax.grad(total(jax))(x))
    close(pb.jit(pb.grad(total(pb)))(x), jax.grad(total(jax))(x))


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 1, 3, 8])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_numpy_fft(name: str, n: int | None, norm: str | None) -> None:
    x = RNG.normal(size=(2, 5)).astype("f")
    want = getattr(jnp.fft, name)(x, n, norm=norm)
    close(getattr(pb.numpy.fft, name)(x, n, norm=norm), want)


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "rfftn", "irfftn"])
def test_numpy_fft_of_several_axes(name: str) -> None:
    x = RNG.normal(size=(2, 3, 4)).astype("f")
    for options in ({}, {"s": (3, 6)}, {"axes": (0, 1)}):
        close(getattr(pb.numpy.fft, name)(x, **options), getattr(jnp.fft, name)(x, **options))


@pytest.mark.parametrize(("kind", "lengths"), [("FFT", (5,)), ("RFFT", (1, 1, 1, 1)), ("XX", (4,))])
def test_errors(kind: str, lengths: Any) -> None:
    x = np.ones((3, 4), "f")
    with pytest.raises(Exception) as want:
        jax.lax.fft(jnp.asarray(x), kind, lengths)
    with pytest.raises(want.type):
        pb.lax.fft(pb.numpy.asarray(x), kind, lengths)


# --- no axis, and the frequencies' dtypes ---
EDGES = {
    "fftn of a number": lambda m: m.fft.fftn(2),
    "ifftn of a number": lambda m: m.fft.ifftn(2.5),
    "rfftn of a number": lambda m: m.fft.rfftn(m.float32(2.5)),
    "irfftn of a number": lambda m: m.fft.irfftn(2.5),
    "fftn along no axis": lambda m: m.fft.fftn(m.ones((2, 3)), axes=()),
    "no axis and a bad norm": lambda m: m.fft.fftn(2.5, norm="foo"),
    "rfftfreq of integers": lambda m: m.fft.rfftfreq(5, dtype="uint8"),
    "rfftfreq of bools": lambda m: m.fft.rfftfreq(5, dtype=bool),
    "fftfreq of integers": lambda m: m.fft.fftfreq(5, dtype="int32"),
    "fftfreq without a distance": lambda m: m.fft.fftfreq(5, d=None),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges_of_transforms_are_jaxs(name: str) -> None:
    f = EDGES[name]
    try:
        want = f(jnp)
    except Exception as e:
        with pytest.raises(type(e)):
            f(pb.numpy)
    else:
        got = f(pb.numpy)
        assert (got.dtype, got.shape, got.weak_type) == (want.dtype, want.shape, want.weak_type)
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)


def test_frequencies_lie_where_they_are_told() -> None:
    assert pb.numpy.fft.fftfreq(5, device=pb.devices()[0]).committed
    with pytest.raises(ValueError, match="device_put"):
        pb.numpy.fft.rfftfreq(5, device="foo")


@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize("n", [3, 7, 13, 17, 19, 31, 34, 51, 97, 127, 131])
def test_inverses_of_real_numbers_of_any_length(n: int, rows: int) -> None:
    """Odd primes too, several rows at a time: only the first frequency has no imaginary part."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(rows, n // 2 + 1)) + 1j * rng.normal(size=(rows, n // 2 + 1))
    x = x.astype(np.complex64)
    found = np.asarray(pb.numpy.fft.irfft(x, n))
    np.testing.assert_allclose(found, np.fft.irfft(x, n), rtol=1e-4, atol=1e-5)
    across = np.asarray(pb.numpy.fft.irfft(x.T, n, axis=0))
    np.testing.assert_array_equal(across, found.T)


@pytest.mark.parametrize("n", (None, 2))
@pytest.mark.parametrize("name", ("fft", "ifft", "rfft", "irfft"))
def test_no_axis_means_all_of_them(name: str, n: int | None) -> None:
    """Or, cut to n elements, the last one: as JAX's."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    got, want = (getattr(lib.numpy.fft, name)(x, n=n, axis=None) for lib in (pb, jax))
    close(got, want)


def test_a_half_of_a_list() -> None:
    """`ihfft`, alone, takes lists; None is a bad value of it."""
    close(pb.numpy.fft.ihfft([1.0, 2.0, 4.0]), jnp.fft.ihfft([1.0, 2.0, 4.0]))
    with pytest.raises(ValueError, match="None"):
        pb.numpy.fft.ihfft(None)


def test_dtypes_that_transforms_compute_in() -> None:
    """64-bit integers are computed in doubles, shorter ones in single precision; half precision is
    not transformed from real numbers."""
    for x64 in (False, True):
        for kind in ("FFT", "RFFT", "IRFFT"):
            for dtype in ("bool", "int8", "int32", "int64", "float32"):
                found = []
                for j in (jax, pb):
                    with j.enable_x64(x64):
                        x = j.numpy.ones(3 if kind == "IRFFT" else 4, dtype)
                        found.append(j.lax.fft(x, kind, (4,)).dtype)
                assert found[0] == found[1], (x64, kind, dtype, found)
    for j in (jax, pb):
        with pytest.raises(ValueError, match="RFFT input must be float32 or float64, got float16"):
            j.lax.fft(j.numpy.ones(4, "float16"), "RFFT", (4,))


def test_an_axis_that_is_brought_to_the_end_is_transformed_where_it_lies() -> None:
    """Nothing is transposed, and both parts of numbers are loaded and stored together."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(3, 96, 40)) + 1j * rng.normal(size=(3, 96, 40))).astype(np.complex64)
    f = pb.jit(lambda x: pb.numpy.fft.fft(x, axis=1))
    text = f.lower(x).as_text("loops")
    assert text.count("kernel ") == 1, text
    np.testing.assert_allclose(np.asarray(f(x)), np.fft.fft(x, axis=1), rtol=1e-4, atol=1e-4)
    over_two = pb.jit(lambda x: pb.numpy.fft.ifftn(x.transpose(1, 2, 0), axes=(0, 2)))
    want = np.fft.ifftn(x.transpose(1, 2, 0), axes=(0, 2))
    np.testing.assert_allclose(np.asarray(over_two(x)), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", (4, 8, 12, 16, 32, 64, 256))
def test_sines_and_cosines_have_jaxs_zeros(n: int) -> None:
    """Roots of unity are exact at quarter turns, so that what should cancel does."""
    t = np.arange(n)
    for x in (np.cos(2 * np.pi * t * (n // 4) / n), (-1.0) ** t, t == 1, np.ones(n)):
        x = np.round(x).astype(np.float32)
        for name in ("fft", "ifft", "rfft"):
            got, want = (np.asarray(getattr(f, name)(x)) for f in (pb.numpy.fft, jnp.fft))
            assert np.array_equal(got.real == 0, want.real == 0), name
            assert np.array_equal(got.imag == 0, want.imag == 0), name


def test_zeros_of_ihfft_have_jaxs_signs() -> None:
    for x in (np.ones(4), np.eye(4)[0], np.arange(6.0)):
        for norm in (None, "ortho", "forward"):
            got, want = (f.ihfft(x.astype(np.float32), norm=norm) for f in (pb.numpy.fft, jnp.fft))
            close(got, want)
            assert np.array_equal(np.signbit(got.imag), np.signbit(want.imag))


def test_frequencies_of_floats() -> None:
    for n in (4.0, np.float32(5), 0.0, 1.5, 2.5, 4.9, -3.0):
        for name in ("fftfreq", "rfftfreq"):
            close(*(getattr(f, name)(n) for f in (pb.numpy.fft, jnp.fft)))


def test_frequencies_of_real_rows_are_read_side_by_side() -> None:
    """Both operands of a frequency, k and n - k, are addresses without a clamp."""
    x = RNG.normal(size=(50, 256)).astype("f")
    closed = pb.make_jaxpr(lambda x: pb.numpy.abs(pb.numpy.fft.rfft(x)))(x)
    kernels = pipeline.compile_jaxpr(closed, reference_rule).kernels
    assert "clamp" not in "".join(map(show_kernel, kernels))
    close(pb.jit(lambda x: pb.numpy.abs(pb.numpy.fft.rfft(x)))(x), jnp.abs(jnp.fft.rfft(x)))


def test_masks_of_frequencies_select() -> None:
    """Frequencies are counted within the program, so that a mask of them is none of its constants:
    what has no value at frequency 0 is left out, as the reciprocal sums of Ewald do."""

    def f(m: Any, name: str, r: Any) -> Any:
        k = getattr(m.numpy.fft, name)(6, 0.5) ** 2
        return m.numpy.sum((k != 0) * (m.numpy.exp(-k) / k) * r)

    for name in ("fftfreq", "rfftfreq"):
        want = jax.jit(lambda r, name=name: f(jax, name, r))(2.0)
        got = pb.jit(lambda r, name=name: f(pb, name, r))(2.0)
        assert np.isfinite(want)
        np.testing.assert_allclose(got, want, rtol=1e-6)
        program = pb.make_jaxpr(lambda r, name=name: f(pb, name, r))(2.0)
        assert not program.consts


@pytest.mark.parametrize("n", (3, 6, 7, 12, 13, 100, 1000))
def test_wide_transforms_are_near_the_truth(n: int) -> None:
    """Roots of unity are rounded once: what they lose is lost in every stage."""
    x = RNG.normal(size=n) + 1j * RNG.normal(size=n)
    true = np.fft.fft(x.astype(np.clongdouble))
    if true.dtype != np.clongdouble or np.finfo(np.longdouble).nmant < 60:
        pytest.skip("no extended precision here")
    with pb.enable_x64(True):
        got = np.asarray(pb.numpy.fft.fft(x))
    wrong = np.linalg.norm((got - true).astype(complex)) / np.linalg.norm(x) / n**0.5
    assert wrong < (1.6 if n < 100 else 2.4) * 2.0**-53


@pytest.mark.parametrize("rows, threads", [(1, False), (32, False), (1000, True)])
def test_few_transforms_stay_on_one_thread(rows: int, threads: bool) -> None:
    """A transform of 256 numbers takes a tenth of a microsecond: what follows 32 of them would
    fetch half of their results from the other core's cache."""
    closed = pb.make_jaxpr(pb.numpy.fft.rfft)(np.zeros((rows, 256), np.float32))
    shown = [show_kernel(k) for k in pipeline.compile_jaxpr(closed, reference_rule).kernels]
    assert any("for parallel" in text for text in shown) == threads


@pytest.mark.parametrize("n", [2, 12, 32, 64, 100, 110])
def test_many_short_real_rows_are_one_pass(n: int) -> None:
    """Rows lie side by side in lanes; their first and last frequencies are real, as JAX's are."""
    x = np.random.default_rng(n).normal(size=(2, 20, n)).astype(np.float32)
    x[0, 0, 0] = np.inf
    got, expected = pb.jit(pb.numpy.fft.rfft)(x), np.asarray(jax.jit(jnp.fft.rfft)(x))
    assert not np.asarray(got)[..., [0, -1]].imag.any()
    np.testing.assert_allclose(np.asarray(got)[1], expected[1], rtol=1e-5, atol=1e-5 * n**0.5)
    closed = pb.make_jaxpr(pb.numpy.fft.rfft)(x)
    assert len(pipeline.compile_jaxpr(closed, reference_rule).kernels) == 1


@pytest.mark.parametrize(
    ("shape", "kind", "lengths", "said"),
    [
        ((14, 15), "fft", (4, 5, 6), "must have at least as many input dimensions as fft_lengths"),
        ((2, 14, 15), "irfft", (13, 15), "must be equal to all except the last fft_length, got"),
    ],
)
def test_lengths_that_do_not_fit_are_refused_in_jaxs_words(
    shape: tuple[int, ...], kind: str, lengths: tuple[int, ...], said: str
) -> None:
    for module in (pb.lax, jax.lax):
        with pytest.raises(ValueError, match=said):
            module.fft(np.ones(shape, np.complex64), kind, lengths)
