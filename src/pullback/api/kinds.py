"""What jitted and eager functions are to `inspect`, to pickles and to those who ask for a class.

Both are objects of one native type. JAX has two kinds: what it jits (`jnp.sin`, a user's function)
are objects of a type of their own, which know their signature; the rest (`jnp.sum`) are plain
functions. Libraries tell them apart, `inspect.getmembers(jnp, inspect.isfunction)`, and wrap what
they find; so a public function of the second kind says that its class is `FunctionType`, and has
the code, defaults and globals of the function that it stands for.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from ..control.custom_jvp import custom_jvp
from ..runtime import stub

__all__ = ["is_jitted", "make_public"]

# The public functions that JAX jits as they are, by module.
_JITTED = {
    "pullback.numpy": frozenset(
        "abs absolute acos acosh allclose angle append arccos arccosh arcsin arcsinh arctan "
        "arctan2 arctanh argpartition argsort around asin asinh atan atan2 atanh atleast_1d "
        "atleast_2d atleast_3d bitwise_count bitwise_invert bitwise_left_shift bitwise_not "
        "bitwise_right_shift block cbrt ceil clip conjugate convolve copysign corrcoef "
        "correlate cos cosh count_nonzero cov cross cumprod cumsum deg2rad diagonal diff digitize "
        "divmod dot ediff1d equal exp exp2 expm1 fabs float_power floor floor_divide fmax fmin "
        "fmod frexp gcd gradient greater greater_equal heaviside hypot i0 imag inner invert "
        "isclose iscomplex isfinite isinf isnan isreal kron lcm ldexp left_shift less less_equal "
        "lexsort log log10 log1p log2 logical_not matmul matvec median modf nan_to_num nancumprod "
        "nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum "
        "nanvar nextafter not_equal outer packbits partition percentile poly polyadd polyder "
        "polyfit polyint polysub polyval positive put_along_axis quantile rad2deg ravel real "
        "reciprocal remainder resize right_shift rint rollaxis rot90 round searchsorted sign "
        "signbit sin sinc sinh sort sort_complex spacing sqrt square swapaxes take_along_axis tan "
        "tanh trace trapezoid tril triu true_divide trunc unpackbits unstack unwrap vander vdot "
        "vecmat".split()
    ),
    "pullback.lax": frozenset("dynamic_index_in_dim dynamic_update_index_in_dim fft".split()),
    "pullback.nn": frozenset(
        "celu elu glu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log1mexp "
        "log_sigmoid log_softmax logmeanexp mish relu relu6 selu sigmoid silu soft_sign softplus "
        "sparse_plus sparse_sigmoid squareplus standardize swish tanh".split()
    ),
}
_PLAIN = "_plain"


def make_public(native: Any, name: str, module: str) -> Any:
    """Says of an eager function under which name it is public: there pickles look for it, and
    whether it is a plain function depends on JAX's own.

    The first name wins; a function with another `__name__` stays as it is.
    """
    own = native.__dict__
    if own.get("__qualname__") == name and _PLAIN not in own:
        own["__module__"] = module
        own[_PLAIN] = name not in _JITTED.get(module, ())
    return native


def is_jitted(native: Any) -> bool:
    """Is it a public function that JAX jits?"""
    return native.__dict__.get(_PLAIN) is False


def _function_of(native: Any) -> Any:
    """The Python function that a plain public function stands for; None for other objects."""
    return inspect.unwrap(native) if native.__dict__.get(_PLAIN) else None


def _class_of(native: Any) -> type:
    if native.__dict__.get(_PLAIN):
        return FunctionType
    rule = native.__dict__.get("__wrapped__")  # of jax.nn.relu: a function with a derivative rule
    return custom_jvp if type(rule) is custom_jvp else stub.JitFunction


def _signature_of(native: Any) -> inspect.Signature:
    """What `inspect` asks jitted functions for; plain functions have no such attribute."""
    given = native.__dict__.get("__signature__")  # by a library that documents functions anew
    if given is not None:
        return given  # type: ignore[no-any-return]
    fun = native.__dict__.get("__wrapped__")
    if fun is None or native.__dict__.get(_PLAIN):
        raise AttributeError(
            f"{type(native).__name__!r} object has no attribute '__signature__'",
            name="__signature__",
            obj=native,
        )
    return inspect.signature(fun)


def _set_signature(native: Any, signature: inspect.Signature | None) -> None:
    native.__dict__["__signature__"] = signature


def _forget_signature(native: Any) -> None:
    del native.__dict__["__signature__"]


def _of_function(name: str) -> property:
    """An attribute of plain functions, that of the function behind them."""

    def get(native: Any) -> Any:
        try:
            return getattr(_function_of(native), name)
        except AttributeError:
            raise AttributeError(
                f"{type(native).__name__!r} object has no attribute {name!r}", name=name, obj=native
            ) from None

    return property(get)


def _install() -> None:
    cls: Any = stub.JitFunction
    cls._class = property(_class_of)
    cls.__signature__ = property(_signature_of, _set_signature, _forget_signature)
    for name in ("__code__", "__defaults__", "__kwdefaults__", "__globals__", "__closure__"):
        setattr(cls, name, _of_function(name))


_install()
