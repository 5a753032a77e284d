"""`jax._src.path`: paths of files."""

from pathlib import Path as Path
