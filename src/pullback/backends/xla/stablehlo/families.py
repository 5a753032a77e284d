"""Every family of rules: importing this enters them all."""

from __future__ import annotations

from . import (  # noqa: F401  (their rules enter themselves)
    callback,
    contract,
    control,
    convert,
    cumulative,
    dynamic_slice,
    elementwise,
    fft,
    foreign,
    index,
    linalg,
    linalg_devices,
    reductions,
    rng,
    shape,
    sort,
    special,
    windows,
)


def load() -> None:
    """The rules are there once this module is."""
