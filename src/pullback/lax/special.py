"""Incomplete gamma and beta functions: the user's forms of the primitives in control/special.py."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..control.special import (
    gamma_density,
    igamma_grad_a_p,
    igamma_p,
    igammac_p,
    regularized_incomplete_beta_p,
)
from ..core.avals import typeof
from ..primitives.common import as_array
from ..primitives.elementwise import div, neg


def _operands(name: str, *args: Any) -> list[Any]:
    """Operands as arrays, or Python floats. TypeError unless all are floats of one dtype."""
    arrays = [x if type(x) is float else as_array(x) for x in args]
    avals = [typeof(x) for x in arrays]
    for k, a in enumerate(avals):
        if not dtypes.is_float(a.dtype):
            raise TypeError(
                f"{name} does not accept dtype {a.dtype.name} at position {k}. Accepted dtypes at "
                f"position {k} are subtypes of floating."
            )
        if a.dtype != avals[0].dtype:
            raise TypeError(
                f"lax.{name} requires arguments to have the same dtypes, got "
                f"{', '.join(v.dtype.name for v in avals)}."
            )
    return arrays


def igamma(a: Any, x: Any) -> Any:
    """The regularised lower incomplete gamma function: the probability that a gamma(a) variable is
    below x. Elementwise, floats.

    >>> lax.igamma(1., 1.)
    Array(0.63212055, dtype=float32, weak_type=True)
    """
    return igamma_p.bind(*_operands("igamma", a, x))


def igammac(a: Any, x: Any) -> Any:
    """The regularised upper incomplete gamma function, 1 - igamma(a, x), without cancellation.

    The operands are floats of one dtype and one rank, with sizes that are equal or 1; a scalar
    joins any shape. Raises TypeError otherwise. As `scipy.special.gammaincc`.

    >>> lax.igammac(1., 2.).round(4)
    Array(0.1353, dtype=float32, weak_type=True)
    """
    return igammac_p.bind(*_operands("igammac", a, x))


def igamma_grad_a(a: Any, x: Any) -> Any:
    """The derivative of igamma with respect to a.

    The operands are floats of one dtype and one rank, with sizes that are equal or 1; a scalar
    joins any shape. Raises TypeError otherwise.

    >>> lax.igamma_grad_a(1., 1.).round(3)
    Array(-0.432, dtype=float32, weak_type=True)
    """
    return igamma_grad_a_p.bind(*_operands("igamma_grad_a", a, x))


def random_gamma_grad(*args: Any) -> Any:
    """The derivative of a gamma(a) sample x with respect to a: `random_gamma_grad(a, x)`.

    `a`, `x`: floats of one dtype and shape. Source: implicit reparameterisation, -(dP/da) / (dP/dx)
    of the distribution function P.

    >>> lax.random_gamma_grad(1., 1.).round(3)
    Array(1.174, dtype=float32, weak_type=True)
    """
    a, x = _operands("random_gamma_grad", *args)
    # Implicit differentiation of P(a, x(a)) = constant.
    return neg(div(igamma_grad_a_p.bind(a, x), gamma_density(a, x)))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function: the probability that a beta(a, b) variable is below
    x. Elementwise, floats.

    >>> lax.betainc(1., 1., 0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return regularized_incomplete_beta_p.bind(*_operands("regularized_incomplete_beta", a, b, x))


__all__ = ["betainc", "igamma", "igamma_grad_a", "igammac", "random_gamma_grad"]
