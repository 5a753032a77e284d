"""Which loggers tell what on the standard error: what the flags jax_debug_log_modules and
jax_logging_level set."""

from __future__ import annotations

import logging
import sys

logging_formatter = logging.Formatter("{levelname}:{asctime}:{name}:{lineno}: {message}", style="{")
_loggers = logging.getLogger("pullback"), logging.getLogger("jax")
_debug_handler = logging.StreamHandler(sys.stderr)
_debug_handler.setLevel(logging.DEBUG)
_debug_handler.setFormatter(logging_formatter)
_debug_enabled_loggers: list[tuple[logging.Logger, int]] = []
_nameToLevel = logging.getLevelNamesMapping()


def _enable_debug_logging(logger_name: str) -> None:
    """Has a logger tell all that it is told."""
    logger = logging.getLogger(logger_name)
    _debug_enabled_loggers.append((logger, logger.level))
    logger.addHandler(_debug_handler)
    logger.setLevel(logging.DEBUG)


def _disable_all_debug_logging() -> None:
    """Takes back what `_enable_debug_logging` did."""
    while _debug_enabled_loggers:
        logger, level = _debug_enabled_loggers.pop()
        logger.removeHandler(_debug_handler)
        logger.setLevel(level)


def update_debug_log_modules(module_names_str: str | None) -> None:
    """Has the loggers of modules, and no others, tell all: names between commas."""
    _disable_all_debug_logging()
    for name in (module_names_str or "").split(","):
        if name.strip():
            _enable_debug_logging(name.strip())


def update_logging_level_global(logging_level: str | None) -> None:
    """The level from which Pullback tells; None or "NOTSET" leaves it to others. ValueError for
    other names."""
    if logging_level is not None and logging_level not in _nameToLevel:
        raise ValueError(
            f'Attempting to set log level "{logging_level}" which isn\'t one of the supported: '
            f"{[name for name in _nameToLevel if name != 'NOTSET']}."
        )
    for logger in _loggers:
        logger.setLevel(_nameToLevel[logging_level or "NOTSET"])
