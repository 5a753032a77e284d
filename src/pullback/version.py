"""The one place that holds the version."""

__version__ = "0.1.0"
__version_info__ = tuple(int(part) for part in __version__.split("."))
# The version of JAX whose names and behaviour these are.
JAX_VERSION = "0.10.2"
