"""What the Python array API standard (2024.12) asks of a namespace, beside what the tables of
functions test: inspection, versions, special values of complex functions.
"""

from __future__ import annotations

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp

KINDS = {
    "bool": {"bool"},
    "signed integer": {"int8", "int16", "int32"},
    "unsigned integer": {"uint8", "uint16", "uint32"},
    "real floating": {"float32"},
    "complex floating": {"complex64"},
}
WIDE = {
    "signed integer": "int64",
    "unsigned integer": "uint64",
    "real floating": "float64",
    "complex floating": "complex128",
}


@pytest.mark.parametrize("x64", (False, True))
def test_inspection(x64: bool) -> None:
    with pullback.enable_x64(x64):
        info = jnp.__array_namespace_info__()
        for kind, names in KINDS.items():
            wanted = names | ({WIDE[kind]} if x64 and kind in WIDE else set())
            found = info.dtypes(kind=kind)
            assert set(found) == wanted
            assert all(found[n] == np.dtype(n) for n in wanted)
        every = set(info.dtypes())
        assert every == set(info.dtypes(kind=("bool", "numeric")))
        assert every == set().union(*(info.dtypes(kind=k) for k in KINDS))
        assert info.dtypes(kind="integral") == {
            **info.dtypes(kind="signed integer"),
            **info.dtypes(kind="unsigned integer"),
        }
        defaults = info.default_dtypes()
        assert defaults == {
            "real floating": jnp.ones(()).dtype,
            "complex floating": jnp.asarray(1j).dtype,
            "integral": jnp.asarray(1).dtype,
            "indexing": jnp.argmax(jnp.ones(2)).dtype,
        }
        assert set(info.capabilities()) == {
            "boolean indexing", "data-dependent shapes", "max dimensions",
        }  # fmt: skip
        assert info.default_device() in info.devices()
        for device in info.devices():
            assert info.dtypes(device=device) == info.dtypes()
            assert jnp.zeros(2, device=device).shape == (2,)
        with pytest.raises(KeyError):
            info.dtypes(kind="floating")
        with pytest.raises(ValueError, match="unsupported device"):
            info.default_dtypes(device="somewhere")


def test_versions() -> None:
    x = jnp.ones(2)
    assert jnp.__array_api_version__ == "2024.12"
    assert x.__array_namespace__() is jnp
    assert x.__array_namespace__(api_version="2024.12") is jnp
    with pytest.raises(ValueError, match=r"2024\.12"):
        x.__array_namespace__(api_version="2031.12")


PARTS = np.array([0.0, -0.0, 1, -1, 0.5, 2, -3, np.inf, -np.inf, np.nan])
COMPLEX = "acos acosh asin asinh atan atanh cos cosh exp log log1p sin sinh sqrt tan tanh".split()


def _same_part(got: np.ndarray, want: np.ndarray, signs: bool) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        close = np.isclose(got, want, rtol=1e-5, atol=1e-7, equal_nan=True)
    return close & (~signs | (want != 0) | (np.signbit(got) == np.signbit(want)))


@pytest.mark.parametrize("dtype", (np.complex64, np.complex128))
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_special_values(name: str, dtype: type) -> None:
    """NumPy's (C's annex G), signs of zeros too where the standard says them: not beside NaN."""
    z = np.empty((10, 10), dtype)
    z.real, z.imag = PARTS[:, None], PARTS[None, :]
    with np.errstate(all="ignore"), pullback.enable_x64(True):
        want = getattr(np, name)(z)
        got = np.asarray(getattr(jnp, name)(z))
    # Beside a NaN, of the operand or the result, C and XLA leave other signs and parts open.
    known = ~(np.isnan(z.real) | np.isnan(z.imag) | np.isnan(want.real) | np.isnan(want.imag))
    same = _same_part(got.real, want.real, known) & _same_part(got.imag, want.imag, known)
    if name in ("exp", "log1p", "sqrt"):  # of infinities XLA's parts, which JAX has
        same |= ~np.isfinite(z.real) | ~np.isfinite(z.imag)
    bad = known & ~same
    assert not bad.any(), [(z[k], got[k], want[k]) for k in zip(*np.nonzero(bad), strict=True)][:5]
