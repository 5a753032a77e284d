"""`jax._src.export`: programs that outlive their process, and symbolic sizes."""

from . import shape_poly as shape_poly
