"""Ordinary differential equations: `odeint`; the method is in scipy/runge_kutta.py."""

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

__all__ = [
    "abs2",
    "fit_4th_order_polynomial",
    "initial_step_size",
    "interp_fit_dopri",
    "mean_error_ratio",
    "odeint",
    "optimal_step_size",
    "runge_kutta_step",
]
