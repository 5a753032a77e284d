"""`jax._src.logging_config`: which loggers tell what on the standard error."""

from __future__ import annotations

from ....logging_config import (
    _debug_handler as _debug_handler,
    _disable_all_debug_logging as _disable_all_debug_logging,
    _enable_debug_logging as _enable_debug_logging,
    logging_formatter as logging_formatter,
    update_debug_log_modules as update_debug_log_modules,
    update_logging_level_global as update_logging_level_global,
)
