"""Shapes, dtypes and random arrays for tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..... import config, dtypes as _dtypes

Random = np.random.RandomState
Factory = Callable[..., Any]


class ScalarShape:
    """Stands for the shape of a scalar that is no array."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, i: int) -> Any:
        raise IndexError(f"index {i} out of range.")


class _NumpyScalar(ScalarShape):
    pass


class _PythonScalar(ScalarShape):
    pass


NUMPY_SCALAR_SHAPE, PYTHON_SCALAR_SHAPE = _NumpyScalar(), _PythonScalar()


def dims_of(shape: Any) -> tuple[int, ...]:
    """A shape's sizes: none for the scalars."""
    if isinstance(shape, ScalarShape):
        return ()
    return (int(shape),) if np.ndim(shape) == 0 else tuple(shape)


def is_valid_shape(shape: Any, dtype: Any) -> bool:
    """Whether values of that shape and dtype can be: Python has scalars of four types only."""
    if shape is not PYTHON_SCALAR_SHAPE:
        return True
    kinds = (bool, int, float, complex)
    return np.dtype(dtype) in {np.dtype(d) for k in kinds for d in (k, _dtypes.dtype(k))}


def cast_to_shape(value: Any, shape: Any, dtype: Any) -> Any:
    """A NumPy array as an array, a NumPy scalar or a Python scalar, as the shape says."""
    if shape is NUMPY_SCALAR_SHAPE:
        return np.dtype(dtype).type(value)
    if shape is PYTHON_SCALAR_SHAPE:
        return _dtypes.scalar_type_of(dtype)(np.asarray(value).item())
    out = np.asarray(value, dtype=dtype)
    assert out.shape == dims_of(shape), (out.shape, shape)
    return out


def dtype_str(dtype: Any) -> str:
    """A dtype's name."""
    return dtype.name if isinstance(dtype, np.dtype) else np.dtype(dtype).name


def format_shape_dtype_string(shape: Any, dtype: Any) -> str:
    """As in `float32[2,3]`, for names of tests."""
    if isinstance(shape, (list, tuple)) and shape and isinstance(shape[0], (list, tuple)):
        pairs = zip(shape, [dtype] * len(shape), strict=True)
        return ",".join(format_shape_dtype_string(s, d) for s, d in pairs)
    if shape is NUMPY_SCALAR_SHAPE:
        return dtype_str(dtype)
    if shape is PYTHON_SCALAR_SHAPE:
        return "py" + dtype_str(dtype)
    if not isinstance(shape, (list, tuple)):
        return f"{dtype_str(dtype)}[{shape},]"
    return f"{dtype_str(dtype)}[{','.join(map(str, shape))}]"


class _Dtypes:
    """Groups of dtypes; those of 64 bits only where they are enabled."""

    def supported(self, dtypes: Sequence[Any]) -> list[Any]:
        """Those that there are as arrays now."""
        return [d for d in dtypes if np.dtype(d) == _dtypes.canonicalize_dtype(d)]

    @property
    def floating(self) -> list[Any]:
        return self.supported([np.float32, np.float64])

    @property
    def all_floating(self) -> list[Any]:
        return self.supported([_dtypes.bfloat16, np.float16, np.float32, np.float64])

    @property
    def custom_floats(self) -> list[Any]:
        return [_dtypes.bfloat16]

    @property
    def integer(self) -> list[Any]:
        return self.supported([np.int32, np.int64])

    @property
    def all_integer(self) -> list[Any]:
        return self.supported([np.int8, np.int16, np.int32, np.int64])

    @property
    def unsigned(self) -> list[Any]:
        return self.supported([np.uint32, np.uint64])

    @property
    def all_unsigned(self) -> list[Any]:
        return self.supported([np.uint8, np.uint16, np.uint32, np.uint64])

    @property
    def complex(self) -> list[Any]:
        return self.supported([np.complex64, np.complex128])

    @property
    def boolean(self) -> list[Any]:
        return self.supported([np.bool_])

    @property
    def inexact(self) -> list[Any]:
        return self.floating + self.complex

    @property
    def all_inexact(self) -> list[Any]:
        return self.all_floating + self.complex

    @property
    def numeric(self) -> list[Any]:
        return self.floating + self.integer + self.unsigned + self.complex

    @property
    def all(self) -> list[Any]:
        return (
            self.all_floating + self.all_integer + self.all_unsigned + self.complex + self.boolean
        )


dtypes = _Dtypes()


def supported_dtypes() -> set[Any]:
    """The types of elements that arrays have here."""
    kinds = {ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.bfloat16}
    return kinds | {d for d in dtypes.all if np.dtype(d) != ml_dtypes.bfloat16}


def num_float_bits(dtype: Any) -> int:
    """Bits of a floating-point number, or of a part of a complex one."""
    return int(_dtypes.finfo(_dtypes.canonicalize_dtype(dtype)).bits)


def to_default_dtype(arr: Any) -> Any:
    """As an array of the dtype that Python's numbers of its kind have."""
    arr = np.asarray(arr)
    names = {"i": "int64", "u": "uint64", "f": "float64", "c": "complex128", "b": "bool"}
    name = names.get(arr.dtype.kind)
    return arr if name is None else arr.astype(_dtypes.canonicalize_dtype(np.dtype(name)))


def with_jax_dtype_defaults(func: Callable[..., Any], use_defaults: bool = True) -> Any:
    """A function of NumPy's, its results in the default dtypes."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        if not use_defaults:
            return out
        if isinstance(out, (list, tuple)):
            return type(out)(map(to_default_dtype, out))
        return to_default_dtype(out)

    return wrapped


# ---- random arrays: each function takes a generator and gives one of (shape, dtype)


def _identity(x: Any) -> Any:
    return x


def _of(draw: Callable[..., Any], shape: Any, dtype: Any, scale: Any, post: Any) -> Any:
    """Numbers of a distribution, in the shape and dtype; both parts where it is complex."""
    sizes = dims_of(shape)
    values = np.asarray(scale * np.asarray(draw(*sizes)))
    if np.dtype(dtype).name.startswith("uint"):
        values = np.abs(values)
    if _dtypes.is_complex(np.dtype(dtype)):
        values = values + 1j * np.asarray(scale * np.asarray(draw(*sizes)))
    with np.errstate(invalid="ignore"):
        return cast_to_shape(np.asarray(post(values.astype(dtype)), dtype=dtype), shape, dtype)


def _factory(draw: Callable[..., Any], scale: Any, post: Any = _identity) -> Factory:
    return functools.partial(_of, draw, scale=scale, post=post)


def rand_default(rng: Random, scale: Any = 3) -> Factory:
    """Normal numbers."""
    return _factory(rng.randn, scale)


def rand_small(rng: Random) -> Factory:
    """Normal numbers around a thousandth."""
    return _factory(rng.randn, 1e-3)


def rand_nonzero(rng: Random) -> Factory:
    """Normal numbers, no zeros."""
    return _factory(rng.randn, 3, lambda x: np.where(x == 0, np.array(1, x.dtype), x))


def rand_not_small(rng: Random, offset: float = 10.0) -> Factory:
    """Numbers away from zero, of both signs."""
    return _factory(rng.randn, 3.0, lambda x: x + np.where(x > 0, offset, -offset).astype(x.dtype))


def rand_positive(rng: Random) -> Factory:
    """Numbers between one and three."""
    return _factory(rng.rand, 2, lambda x: x + np.array(1, x.dtype))


def rand_small_positive(rng: Random) -> Factory:
    """Positive numbers below 2e-5."""
    return _factory(rng.rand, 2e-5)


def rand_uniform(rng: Random, low: float = 0.0, high: float = 1.0) -> Factory:
    """Numbers from an interval."""
    assert low < high, (low, high)

    def make(shape: Any, dtype: Any) -> Any:
        post = lambda x: (x * (high - low) + low).astype(dtype)
        return _of(rng.rand, shape, dtype, 1.0, post)

    return make


def rand_fullrange(rng: Random, standardize_nans: bool = False) -> Factory:
    """Random bits."""

    def make(shape: Any, dtype: Any) -> Any:
        sizes, kind = dims_of(shape), np.dtype(dtype)
        count = int(np.prod(sizes, dtype=int)) * kind.itemsize
        values = np.frombuffer(rng.bytes(count), dtype=kind).reshape(sizes)
        if standardize_nans and _dtypes.is_inexact(kind):
            values = np.where(np.isnan(values), np.array(np.nan, kind), values)
        return cast_to_shape(values, shape, dtype)

    return make


def _some(
    base: Factory, rng: Random, specials: Sequence[float], both_signs: bool = False
) -> Factory:
    """With a tenth of the elements replaced by each special value, where the dtype has them. The
    places are drawn before the elements are. With `both_signs` half of them are negative, and the
    parts of complex numbers have them too."""

    def with_specials(shape: Any, dtype: Any) -> Any:
        kind = np.dtype(dtype)
        if both_signs and _dtypes.is_complex(kind):
            part = np.zeros((), kind).real.dtype
            re, im = (np.asarray(with_specials(dims_of(shape), part)) for _ in range(2))
            with np.errstate(invalid="ignore"):
                return cast_to_shape(re + np.array(1j, kind) * im, shape, kind)
        if not _dtypes.is_inexact(kind) or _dtypes.is_complex(kind):
            return base(shape, dtype)
        drawn = [rng.rand(*dims_of(shape)) for _ in specials]
        out = base(dims_of(shape), dtype)
        for u, value in zip(drawn, specials, strict=True):
            out = np.where(u < 0.1, np.array(value, kind), out)
            if both_signs:
                out = np.where(u < 0.05, np.array(-value, kind), out)
        return cast_to_shape(out, shape, dtype)

    return with_specials


def rand_some_inf(rng: Random) -> Factory:
    """Normal numbers and infinities."""
    return _some(rand_default(rng), rng, (np.inf, -np.inf))


def rand_some_nan(rng: Random) -> Factory:
    """Normal numbers and NaN."""
    return _some(rand_default(rng), rng, (np.nan,), both_signs=True)


def rand_some_inf_and_nan(rng: Random) -> Factory:
    """Normal numbers, infinities and NaN."""
    return _some(rand_default(rng), rng, (np.inf, -np.inf, np.nan))


def rand_some_equal(rng: Random) -> Factory:
    """Numbers of which some are alike."""

    def make(shape: Any, dtype: Any) -> Any:
        def post(x: Any) -> Any:
            if not x.size:
                return x
            return np.where(np.asarray(rng.rand(*x.shape) < 0.5), x.reshape(-1)[0], x)

        return _of(rng.randn, shape, dtype, 100.0, post)

    return make


def rand_some_zero(rng: Random) -> Factory:
    """Numbers and zeros."""
    base = rand_default(rng)

    def make(shape: Any, dtype: Any) -> Any:
        sizes = dims_of(shape)
        zeros = rng.rand(*sizes) < 0.5
        x = np.asarray(base(sizes, dtype))
        return cast_to_shape(np.where(zeros, np.array(0, x.dtype), x), shape, x.dtype)

    return make


def rand_int(rng: Random, low: int = 0, high: int | None = None) -> Factory:
    """Integers from a range: below `low` where it is the only bound, those of the dtype without
    any."""

    def make(shape: Any, dtype: Any) -> Any:
        kind, top = np.dtype(dtype), high
        if top is None and low == 0:
            if kind.kind not in "iu":
                raise ValueError(
                    "rand_int requires an explicit `high` value for non-integer types."
                )
            top = np.iinfo(kind).max
        drawn: Any = kind if kind.kind in "iu" else np.dtype(int)
        found = rng.randint(low, high=top, size=dims_of(shape), dtype=drawn)
        return np.asarray(found).astype(kind)

    return make


def rand_unique_int(rng: Random, high: int | None = None) -> Factory:
    """Integers that are all different."""

    def make(shape: Any, dtype: Any) -> Any:
        sizes = dims_of(shape)
        count = int(np.prod(sizes, dtype=int))
        values = np.arange(count if high is None else high, dtype=dtype)
        return rng.choice(values, size=sizes, replace=False)

    return make


def rand_indices_unique_along_axis(rng: Random) -> Callable[..., Any]:
    """Of (dim, shape, axis): indices of an axis of size `dim`, all different along an axis; some
    count from its end."""

    def make(dim: int, shape: Sequence[int], axis: int) -> Any:
        lines = [s for k, s in enumerate(shape) if k != axis % len(shape)]
        count = shape[axis]
        found = [rng.choice(dim, size=count, replace=False) for _ in range(int(np.prod(lines)))]
        table = np.moveaxis(np.array(found).reshape(*lines, count), -1, axis)
        return table - rng.choice([0, dim], size=table.shape)

    return make


def rand_bool(rng: Random) -> Factory:
    """Truth values, as numbers of the dtype."""
    return lambda shape, dtype: cast_to_shape(rng.rand(*dims_of(shape)) < 0.5, shape, dtype)


def complex_plane_sample(dtype: Any, size_re: int = 10, size_im: int | None = None) -> np.ndarray:
    """Complex numbers on a grid whose lines are logarithmic, with zeros and infinities of both
    signs: 2 * size + 3 values to an axis."""
    kind = np.dtype(dtype)
    part = np.finfo(kind).dtype
    info = np.finfo(part)

    def axis(size: int) -> np.ndarray:
        steps = np.geomspace(info.tiny, info.max, size).astype(part)
        return np.concatenate([[-np.inf], -steps[::-1], [0.0], steps, [np.inf]], dtype=part)

    re, im = axis(size_re), axis(size_re if size_im is None else size_im)
    out = np.zeros((len(im), len(re)), kind)
    out.real, out.imag = re[None, :], im[:, None]
    return out


def strict_promotion_if_dtypes_match(dtypes: Sequence[Any]) -> Any:
    """Strict promotion for operands of one dtype, the usual one for others."""
    alike = all(np.dtype(d) == np.dtype(dtypes[0]) for d in dtypes)
    return config.numpy_dtype_promotion("strict" if alike else "standard")
