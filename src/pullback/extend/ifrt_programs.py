"""Programs and options for XLA's runtimes of other machines: jaxlib's, for libraries that pass them
on. Needs jaxlib (`pip install pullback[xla]`) when they are made.
"""

from __future__ import annotations

from ..backends.xla.library import ifrt_programs as ifrt_programs

__all__ = ["ifrt_programs"]
