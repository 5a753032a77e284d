"""Ordinary differential equations: `odeint`; the method is in scipy/runge_kutta.py."""

from ..scipy.runge_kutta import *  # noqa: F403
from ..scipy.runge_kutta import __all__ as __all__
