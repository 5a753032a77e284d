"""`jax._src.traceback_util`: which files are internal, in tracebacks and in source locations."""

from ....interpreters.traceback_util import (
    UnfilteredStackTrace as UnfilteredStackTrace,
    _exclude_paths as _exclude_paths,
    api_boundary as api_boundary,
    include_frame as include_frame,
    register_exclusion as register_exclusion,
)
