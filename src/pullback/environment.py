"""What a bug report should say about the machine."""

from __future__ import annotations

import os
import platform
import sys

import numpy as np

from .lazy_imports import lazy_module
from .runtime.devices import devices
from .version import JAX_VERSION, __version__

__all__ = ["print_environment_info"]

scipy = lazy_module("scipy")
llvmlite = lazy_module("llvmlite")
metadata = lazy_module("importlib.metadata")


def _version_of(package: str) -> str:
    try:
        return str(metadata.version(package))
    except metadata.PackageNotFoundError:
        return "not installed"


def print_environment_info(return_string: bool = False) -> str | None:
    """Prints (or returns) the versions of what Pullback runs on, and its devices.

    >>> info = pb.print_environment_info(return_string=True)
    >>> "numpy" in info
    True
    """
    settings = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(("JAX_", "PULLBACK_"))
    }
    lines = [
        f"pullback: {__version__}",
        f"jax:    {JAX_VERSION} (the version whose API this is)",
        f"jaxlib: {_version_of('jaxlib')}",
        f"numpy:  {np.__version__}",
        f"scipy:  {scipy.__version__}",
        f"llvmlite: {llvmlite.__version__}",
        f"python: {sys.version}",
        f"device info: {devices()[0].device_kind}-{len(devices())}, {len(devices())} local devices",
        "process_count: 1",
        f"platform: {platform.uname()}",
        *(f"{name}={value}" for name, value in settings.items()),
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    sys.stdout.write(text + "\n")
    return None
