"""Logarithms of probabilities near 0 and near 1."""

from __future__ import annotations

from typing import Any

from ... import numpy as jnp
from ...control.custom_jvp import custom_jvp


@custom_jvp
def log_probability(p: Any, q: Any) -> Any:
    """log p, where q = 1 - p is known as well as p: exact near 1, too. The derivative is by p
    alone: where that is 0, an infinite one of q would make it NaN.
    """
    low = ~(p > 0.5) | jnp.isnan(q)
    return jnp.where(low, jnp.log(jnp.where(low, p, 1)), jnp.log1p(0 - jnp.where(low, 0, q)))


log_probability.defjvps(lambda t, out, p, q: t / p, None)
