"""Elementary functions of arrays with as many digits as one likes, by mpmath."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_BITS = {"float16": 11, "float32": 24, "float64": 53, "longdouble": 64, "float128": 64}
_COMPLEX = {"complex64": "float32", "complex128": "float64"}
# Names of NumPy's that mpmath calls otherwise.
_OTHERWISE = {
    "abs": "absmin", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "log2": "log2", "logaddexp": "logaddexp",
}  # fmt: skip


class vectorize_with_mpmath(np.vectorize):
    """As `np.vectorize` for a function of mpmath's numbers: arrays are computed in the precision of
    their dtype and `extra_prec` or `extra_prec_multiplier` times as much more, then rounded.
    `mpmath` is the module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.mpmath = kwargs.pop("mpmath")
        self.extra_prec_multiplier = kwargs.pop("extra_prec_multiplier", 0)
        self.extra_prec = kwargs.pop("extra_prec", 0)
        super().__init__(*args, **kwargs)

    def get_context(self, x: Any) -> Any:
        """mpmath's context for the dtype of an array."""
        name = np.asarray(x).dtype.name
        bits = _BITS[_COMPLEX.get(name, name)]
        found = self.mpmath.mp.clone()
        found.prec = int(bits + bits * self.extra_prec_multiplier + self.extra_prec)
        return found

    def nptomp(self, x: Any) -> Any:
        """An array of mpmath's numbers."""
        context, x = self.get_context(x), np.asarray(x)
        out = np.empty(x.shape, object)
        for k, v in np.ndenumerate(x):
            if np.iscomplexobj(x):
                out[k] = context.mpc(self._one(context, v.real), self._one(context, v.imag))
            else:
                out[k] = self._one(context, v)
        return out

    def _one(self, context: Any, v: Any) -> Any:
        if np.isnan(v):
            return context.nan
        if np.isinf(v):
            return context.inf if v > 0 else context.ninf
        mantissa, exponent = np.frexp(np.float64(v) if v.dtype.itemsize < 8 else v)
        return context.ldexp(context.mpf(int(np.ldexp(mantissa, 64))), int(exponent) - 64)

    def mptonp(self, x: Any, dtype: Any) -> Any:
        """mpmath's numbers as an array."""
        kind = np.dtype(dtype)
        out = np.empty(np.shape(x), kind)
        for k, v in np.ndenumerate(np.asarray(x, object)):
            out[k] = complex(v) if kind.kind == "c" else self._round(v, kind)
        return out

    def _round(self, v: Any, kind: np.dtype[Any]) -> Any:
        v = getattr(v, "real", v)
        context = self.mpmath.mp.clone()
        context.prec = _BITS[kind.name]
        return kind.type(float(context.mpf(v)))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        wide = [self.nptomp(x) for x in args]
        dtype = np.result_type(*args)
        found = super().__call__(*wide, **kwargs)
        parts = found if isinstance(found, tuple) else (found,)
        real = all(not _is_complex(v) for p in parts for v in np.ravel(p))
        target = _COMPLEX.get(dtype.name, dtype.name) if real and dtype.kind == "c" else dtype
        if real and dtype.kind == "c" and not self._gives_real():
            target = dtype
        out = tuple(self.mptonp(p, target)[()] for p in parts)
        return out if isinstance(found, tuple) else out[0]

    def _gives_real(self) -> bool:
        return getattr(self.pyfunc, "__name__", "") in ("fabs", "absolute", "abs", "real", "imag")


def _is_complex(v: Any) -> bool:
    return hasattr(v, "_mpc_")


class numpy_with_mpmath:
    """Elementary functions under NumPy's names, computed by mpmath (`mpmath`, the module)."""

    _provides = (
        "abs absolute sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan "
        "sinh cosh tanh arcsinh arccosh arctanh square positive negative sign conjugate sinc "
        "normalize"
    ).split()

    def __init__(self, mpmath: Any, extra_prec_multiplier: Any = 0, extra_prec: int = 0) -> None:
        self.mpmath = mpmath
        for name in self._provides:
            fun = self._function(name)
            made = vectorize_with_mpmath(
                fun,
                mpmath=mpmath,
                extra_prec_multiplier=extra_prec_multiplier,
                extra_prec=extra_prec,
            )
            setattr(self, name, made)

    def _function(self, name: str) -> Callable[[Any], Any]:
        own: dict[str, Callable[[Any], Any]] = {
            "square": lambda x: x * x,
            "positive": lambda x: x,
            "negative": lambda x: -x,
            "exp2": lambda x: x.context.power(2, x),
            "log2": lambda x: x.context.log(x) / x.context.log(2),
            "log10": lambda x: x.context.log(x) / x.context.log(10),
            "absolute": lambda x: x.context.fabs(x),
            "abs": lambda x: x.context.fabs(x),
            "conjugate": lambda x: x.context.conj(x),
            "normalize": lambda x: x,
        }
        if name in own:
            fun = own[name]
        else:
            theirs = _OTHERWISE.get(name, name)

            def fun(x: Any) -> Any:
                return getattr(x.context, theirs)(x)

        fun.__name__ = name
        return fun

    def __iter__(self) -> Iterator[str]:
        return iter(self._provides)
