"""Ordinary differential equations: `odeint`; the method is in scipy/runge_kutta.py."""

from collections.abc import Callable
from typing import Any

from .. import api_util as api_util  # libraries take it from here
from ..extend import linear_util as lu
from ..flatten_util import ravel_pytree
from ..scipy.runge_kutta import (
    abs2,
    fit_4th_order_polynomial,
    initial_step_size,
    interp_fit_dopri,
    mean_error_ratio,
    odeint,
    optimal_step_size,
    runge_kutta_step,
)


def ravel_first_arg(f: Callable[..., Any], unravel: Any, debug_info: Any) -> Callable[..., Any]:
    """`f` of a tree and other arguments, as a function of a vector and them: its result is a
    vector, too.

    unravel: makes the tree of the vector; debug_info: what to call `f` in messages, or None.

    >>> from pullback.experimental import ode
    >>> flat = ode.ravel_first_arg(lambda y, t: {"y": -t * y["y"]}, lambda v: {"y": v}, None)
    >>> flat(jnp.ones(2), 3.0)
    Array([-3., -3.], dtype=float32)
    """
    wrapped = ravel_first_arg_(lu.wrap_init(f, debug_info=debug_info), unravel)
    return wrapped.call_wrapped  # type: ignore[no-any-return]


@lu.transformation2
def ravel_first_arg_(f: Any, unravel: Any, y_flat: Any, *args: Any) -> Any:
    """`ravel_first_arg` for functions of `linear_util`.

    >>> from pullback.experimental import ode
    >>> from pullback.extend import linear_util
    >>> f = linear_util.wrap_init(lambda y, t: {"y": -t * y["y"]})
    >>> ode.ravel_first_arg_(f, lambda v: {"y": v}).call_wrapped(jnp.ones(2), 3.0)
    Array([-3., -3.], dtype=float32)
    """
    return ravel_pytree(f(unravel(y_flat), *args))[0]


__all__ = [
    "abs2",
    "fit_4th_order_polynomial",
    "initial_step_size",
    "interp_fit_dopri",
    "mean_error_ratio",
    "odeint",
    "optimal_step_size",
    "ravel_first_arg",
    "ravel_first_arg_",
    "runge_kutta_step",
]
