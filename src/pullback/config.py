"""Every flag, in one table, with per-process values and per-thread overrides."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from .accepted_flags import ACCEPTED
from .lazy_imports import lazy_module


class _Overrides(dict["Flag", Any]):
    # The flags that one thread has values of its own for.

    __slots__ = ("__weakref__",)


class _Mine(threading.local):
    def __init__(self) -> None:
        self.values = _Overrides()
        _overrides_of[threading.get_ident()] = weakref.ref(self.values)


# By thread; what a thread overrides goes with it.
_overrides_of: dict[int, weakref.ref[_Overrides]] = {}
_mine = _Mine()
_ABSENT: Any = object()


class Flag:
    # A flag: `value` is the process's, `get()` the one in force in this thread; call it as a
    # context manager. A comment, since every flag has a docstring of its own.

    __slots__ = ("default", "doc", "in_context", "name", "parse", "value")

    def __init__(
        self, name: str, default: Any, parse: Callable[[Any], Any], doc: str, in_context: bool
    ) -> None:
        self.name, self.default, self.parse, self.doc = name, default, parse, doc
        self.in_context = in_context
        env = os.environ.get(
            name.upper(), os.environ.get(name.upper().replace("JAX_", "PULLBACK_", 1))
        )
        self.value = default if env is None else parse(env)

    def get(self) -> Any:
        return _mine.values.get(self, self.value)

    def set_global(self, value: Any) -> None:
        value = self.parse(value)
        if self in settled and value != self.value:
            raise RuntimeError(
                f"{self.name} config should be updated before backends are initialized, that is "
                "before there are arrays or anybody has asked for devices. Fix: set it first."
            )
        self.value = value
        _process_changed()

    __doc__ = property(lambda self: _described(self))

    def __call__(self, value: Any = True) -> contextlib.AbstractContextManager[None]:
        return _Override(self, self.parse(value))


class _Override(contextlib.ContextDecorator, contextlib.AbstractContextManager[None]):
    # `with flag(value):`, and a decorator of functions. A class: a generator costs a microsecond.

    def __init__(self, flag: Flag, value: Any) -> None:
        self.flag, self.value = flag, value

    def _recreate_cm(self) -> _Override:  # each call of a decorated function has its own
        return _Override(self.flag, self.value)

    def __enter__(self) -> None:
        mine = _mine.values
        self.before = mine.get(self.flag, _ABSENT)
        mine[self.flag] = self.value
        _bump()

    def __exit__(self, *exc: Any) -> None:
        if self.before is _ABSENT:
            _mine.values.pop(self.flag, None)
        else:
            _mine.values[self.flag] = self.before
        _bump()


def overrides() -> dict[int, dict[Flag, Any]]:
    """By thread, the flags whose values there are not the process's. The number of threads is none
    of them.
    """
    found = {}
    for thread, of in list(_overrides_of.items()):
        values = of()
        if values is None:
            _overrides_of.pop(thread, None)
        if not values:
            continue
        own = {flag: value for flag, value in list(values.items()) if value != flag.value}
        own.pop(num_threads, None)
        if own:
            found[thread] = own
    return found


# Called whenever a flag that tracing depends on may have changed: the runtime's native fast paths
# watch it.
on_change: list[Callable[[], None]] = []


def traces_changed() -> None:
    """Something else that traces and results depend on has changed: the mesh in force."""
    _bump()


process_epoch = 0  # how often the process's value of a flag has changed


def _process_changed() -> None:
    global process_epoch
    process_epoch += 1
    _bump()


def _bump() -> None:
    for callback in on_change:
        callback()


def _bool(value: Any) -> bool:
    if isinstance(value, str):
        lowered = value.lower()
        if lowered in ("1", "true", "yes", "on"):
            return True
        if lowered in ("0", "false", "no", "off", ""):
            return False
        raise ValueError(f"a flag that is true or false was set to {value!r}; write True or False")
    return bool(value)


def _same(value: Any) -> Any:
    return value


logging_config: Any = lazy_module("pullback.logging_config")


def _choice(*allowed: Any) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        value = getattr(value, "value", value)
        if value not in allowed:
            raise ValueError(
                f"new enum value must be in {list(allowed)}, got {value} of type {type(value)}."
            )
        return value

    return parse


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(
            f"new string config value must be of type str, got {value} of type {type(value)}."
        )
    return value


def _optional(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else parse(value)


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(
            "the number of threads (PULLBACK_NUM_THREADS, num_threads) must be a positive integer, "
            f"got {value!r}"
        )
    return value


_PLATFORMS = ("cpu", "gpu", "tpu", "cuda", "rocm", "metal", "xla_cpu")


def _device(value: Any) -> Any:
    if value is None or hasattr(value, "platform") or value in _PLATFORMS:
        return value
    raise ValueError(
        "default_device must be passed either a Device object (e.g. `jax.devices('cpu')[0]`) or "
        f"the name of a platform like 'cpu' or 'gpu', got: {value!r}"
    )


FLAGS: dict[str, Flag] = {}
settled: set[Flag] = set()  # those that have been acted upon, once and for all


class _Threads(Flag):
    # The number of threads: programs and results do not depend on it, so that fast paths go on
    # while it is overridden. Those who start threads listen to `on_threads`.

    __slots__ = ()

    __doc__ = property(lambda self: _described(self))

    def set_global(self, value: Any) -> None:
        self.value = self.parse(value)
        _tell_threads()

    @contextlib.contextmanager
    def __call__(self, value: Any = None) -> Iterator[None]:
        before = _mine.values.get(self)
        self._own(self.parse(value))
        try:
            yield
        finally:
            self._own(before)

    def _own(self, value: int | None) -> None:
        me = threading.get_ident()
        if value is None:
            _mine.values.pop(self, None)
            thread_counts.pop(me, None)
        else:
            _mine.values[self] = thread_counts[me] = value
        _tell_threads()


thread_counts: dict[int, int] = {}  # by thread, its own number of threads
on_threads: list[Callable[[], None]] = []  # called when a number of threads has changed


def _tell_threads() -> None:
    for callback in on_threads:
        callback()


noting = False  # has anybody ever asked for errors to be noted while programs run?


class _Noting(Flag):
    # What is done with an error that is found while a program runs: "ignore" or "raise", which
    # notes it for `raise_if_error`.

    __slots__ = ()

    __doc__ = property(lambda self: _described(self))

    def set_global(self, value: Any) -> None:
        super().set_global(value)
        _may_note(self.value)

    def __call__(self, value: Any = "raise") -> Any:
        _may_note(self.parse(value))
        return super().__call__(value)

    def on(self) -> bool:
        return bool(self.get() != "ignore")


def _may_note(value: Any) -> None:
    global noting
    noting = noting or value != "ignore"


class _Guarding(Flag):
    # Has the garbage collector watched from the first time that it is set.

    __slots__ = ()

    __doc__ = property(lambda self: _described(self))

    def set_global(self, value: Any) -> None:
        super().set_global(value)
        if self.value is not None:
            _garbage.watch()

    def __call__(self, value: Any = "log") -> Any:
        if self.parse(value) is not None:
            _garbage.watch()
        return super().__call__(value)


_garbage: Any = lazy_module("pullback.runtime.garbage_guard")


class _Disabling(Flag):
    # `disable_jit(disable=...)`: its argument has another name than the other flags'.

    __slots__ = ()

    __doc__ = property(lambda self: _described(self))

    def __call__(self, disable: Any = True) -> Any:
        return super().__call__(disable)


class _Logging(Flag):
    # A flag that loggers follow.

    __slots__ = ()

    __doc__ = property(lambda self: _described(self))

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.value != self.default:  # by the environment
            self._follow()

    def set_global(self, value: Any) -> None:
        super().set_global(value)
        self._follow()

    def _follow(self) -> None:
        if self.name == "jax_logging_level":
            logging_config.update_logging_level_global(self.value)
        else:
            logging_config.update_debug_log_modules(self.value)


def _flag(
    name: str,
    default: Any,
    parse: Callable[[Any], Any],
    doc: str,
    in_context: bool = False,
    kind: type[Flag] = Flag,
) -> Flag:
    FLAGS[name] = kind(name, default, parse, doc, in_context)
    return FLAGS[name]


flag_examples: Any = lazy_module("pullback.flag_examples")


def _described(flag: Flag) -> str:
    """The docstring of a flag."""
    short = flag.name.removeprefix("jax_").removeprefix("pullback_")
    example = flag_examples.EXAMPLES.get(short)
    if not (isinstance(example, str) and example.startswith(">>>")):
        example = f""">>> with pb.{short}({example!r}):
    ...     pb.{short}.get()
    {example!r}"""
    return f"""A flag: {flag.doc}. {flag.default!r} by default.

    `config.update("{flag.name}", value)` sets it for the process; as a context manager it holds
    for a block, in this thread. `get()` is the value in force.

    {example if short in flag_examples.EXAMPLES else ""}
    """


_GUARD = _choice(None, "allow", "log", "disallow", "log_explicit", "disallow_explicit")

# Flags that tracing depends on (in_context=True) are part of every cache key, through
# `trace_values`.
enable_x64 = _flag("jax_enable_x64", False, _bool, "64-bit types are the default", True)
numpy_rank_promotion = _flag(
    "jax_numpy_rank_promotion",
    "allow",
    _choice("allow", "warn", "raise"),
    "implicit rank promotion",
    True,
)
numpy_dtype_promotion = _flag(
    "jax_numpy_dtype_promotion",
    "standard",
    _choice("standard", "strict"),
    "implicit dtype promotion",
    True,
)
default_matmul_precision = _flag(
    "jax_default_matmul_precision",
    None,
    _same,
    "precision of dot and convolution when none is given",
    True,
)
disable_jit = _flag(
    "jax_disable_jit",
    False,
    _bool,
    "run jitted functions operation by operation, loops and branches in Python",
    True,
    _Disabling,
)
finite_degenerate_derivatives = _flag(
    "pullback_finite_degenerate_derivatives",
    False,
    _bool,
    "derivatives of eigenvectors and singular vectors leave out pairs of equal values",
    True,
)
debug_nans = _flag("jax_debug_nans", False, _bool, "raise at the operation that makes a NaN")
debug_infs = _flag("jax_debug_infs", False, _bool, "raise at the operation that makes an infinity")
check_tracer_leaks = _flag(
    "jax_check_tracer_leaks", False, _bool, "raise when a tracer outlives its trace"
)
enable_checks = _flag("jax_enable_checks", False, _bool, "check every intermediate program")
pallas_enable_debug_checks = _flag(
    "jax_pallas_enable_debug_checks", False, _bool, "kernels' debug checks are checks", True
)
pallas_poison_buffers = _flag(
    "jax_pallas_poison_buffers",
    False,
    _bool,
    "kernels' scratch memory holds NaN at first, as it always does here",
)
default_prng_impl = _flag(
    "jax_default_prng_impl",
    "threefry2x32",
    _choice("threefry2x32", "rbg", "unsafe_rbg", "philox2x32", "philox4x32", "threefry4x32"),
    "the PRNG of new keys",
    True,
)
enable_custom_prng = _flag("jax_enable_custom_prng", False, _bool, "PRNGKey makes typed keys", True)
threefry_partitionable = _flag(
    "jax_threefry_partitionable",
    True,
    _bool,
    "random bits that do not depend on how arrays are divided",
    True,
)
softmax_custom_jvp = _flag(
    "jax_softmax_custom_jvp", False, _bool, "softmax has its own derivative rule", True
)
default_device = _flag("jax_default_device", None, _device, "where new arrays go", True)
legacy_prng_key = _flag(
    "jax_legacy_prng_key", "allow", _choice("allow", "warn", "error"), "raw uint32 keys", True
)
debug_key_reuse = _flag("jax_debug_key_reuse", False, _bool, "raise when a key is used twice", True)
high_dynamic_range_gumbel = _flag(
    "jax_high_dynamic_range_gumbel", False, _bool, "sample Gumbel with more of the tail", True
)
random_seed_offset = _flag("jax_random_seed_offset", 0, int, "added to every seed", True)
use_direct_linearize = _flag(
    "jax_use_direct_linearize", True, _bool, "accepted; linearize is always direct", True
)
explicit_x64_dtypes = _flag(
    "jax_explicit_x64_dtypes", "warn", _same, "64-bit dtypes asked for with x64 off", True
)
num_threads = _flag(
    "pullback_num_threads",
    None,
    _count,
    "how many threads compute one call, the caller's included; None: as many as there are CPUs",
    kind=_Threads,
)
log_compiles = _flag("jax_log_compiles", False, _bool, "say what is compiled and how long it takes")
_flag(
    "jax_debug_log_modules",
    "",
    _string,
    "names between commas of loggers that tell all on the standard error",
    kind=_Logging,
)
_flag(
    "jax_logging_level",
    "NOTSET",
    _choice(None, "NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    "from which level loggers tell",
    kind=_Logging,
)
explain_cache_misses = _flag(
    "jax_explain_cache_misses", False, _bool, "say why a function is traced again"
)
no_tracing = _flag("jax_no_tracing", False, _bool, "raise when a function would be traced")
traceback_filtering = _flag(
    "jax_traceback_filtering", "auto", _same, "how internal frames are hidden"
)
transfer_guard = _flag("jax_transfer_guard", None, _GUARD, "all transfers")
transfer_guard_host_to_device = _flag(
    "jax_transfer_guard_host_to_device", None, _GUARD, "host to device"
)
transfer_guard_device_to_device = _flag(
    "jax_transfer_guard_device_to_device", None, _GUARD, "between devices"
)
transfer_guard_device_to_host = _flag(
    "jax_transfer_guard_device_to_host", None, _GUARD, "device to host"
)


def transfers_guarded() -> bool:
    """Does the process watch what comes from the host? Fast paths do not."""
    level = transfer_guard_host_to_device.value or transfer_guard.value
    return level not in (None, "allow")


while_tape_bytes = _flag(
    "pullback_while_tape_bytes",
    1 << 20,
    int,
    "memory for the carries that reverse mode through a while_loop keeps; longer loops compute "
    "parts of themselves again",
    True,
)
platforms = _flag("jax_platforms", None, _same, "the platforms to use, by preference")
platform_name = _flag("jax_platform_name", "", _same, "the platform to use")
num_cpu_devices = _flag("jax_num_cpu_devices", -1, int, "how many virtual CPU devices there are")
cpu_enable_async_dispatch = _flag(
    "jax_cpu_enable_async_dispatch", True, _bool, "calls may return before they end"
)
pprint_use_color = _flag("jax_pprint_use_color", True, _bool, "colours in printed programs")
compilation_cache_dir = _flag(
    "jax_compilation_cache_dir", None, _same, "where compiled code is kept"
)
enable_compilation_cache = _flag(
    "jax_enable_compilation_cache", True, _bool, "keep compiled code on disk"
)


def _noting_flag(what: str, said: str) -> Any:
    return _flag(
        f"jax_error_checking_behavior_{what}",
        "ignore",
        _choice("ignore", "raise"),
        f"whether {said} are noted while programs run, for raise_if_error: 'ignore' or 'raise'",
        True,
        _Noting,
    )


error_checking_behavior_nan = _noting_flag("nan", "results that are not numbers")
error_checking_behavior_divide = _noting_flag("divide", "divisors that are 0")
error_checking_behavior_oob = _noting_flag("oob", "indices out of bounds")
noting = any(f.value != "ignore" for f in FLAGS.values() if isinstance(f, _Noting))
no_execution = _flag("jax_no_execution", False, _bool, "refuse to run anything, in a block")
disallow_mesh_context_manager = _flag(
    "jax_disallow_mesh_context_manager", False, _bool, "refuse `with mesh:`"
)
log_checkpoint_residuals = _flag(
    "jax_log_checkpoint_residuals", False, _bool, "log what `checkpoint` keeps for derivatives"
)
array_garbage_collection_guard = _flag(
    "jax_array_garbage_collection_guard",
    None,
    _optional(_choice("allow", "log", "fatal")),
    "what happens where the garbage collector frees an array, which was in a cycle of references: "
    "'allow', 'log', or 'fatal', which ends the process",
    False,
    _Guarding,
)
captured_constants_warn_bytes = _flag(
    "jax_captured_constants_warn_bytes",
    2_000_000_000,
    int,
    "warn about closed-over constants above this size",
)
export_calling_convention_version = _flag(
    "jax_export_calling_convention_version",
    10,
    int,
    "the version of the calling convention that exported programs say they have",
)

for _name, _default in ACCEPTED.items():
    _flag(_name, _default, _same, "accepted for compatibility")

_TRACE_FLAGS = tuple(flag for flag in FLAGS.values() if flag.in_context)


class UserContext:
    """A value of the user's that traces depend on: functions that were jitted under another value
    are traced again.

    `context(value)` is a context manager; `context.value` is the value in force. Values must be
    hashable.
    """

    def __init__(self, default: Any) -> None:
        global _TRACE_FLAGS
        self._flag = Flag("pullback_user_context", default, _same, "the user's", True)
        _TRACE_FLAGS = (*_TRACE_FLAGS, self._flag)
        _process_changed()

    value = property(lambda self: self._flag.get())

    def get_global(self) -> Any:
        return self._flag.value

    def set_global(self, value: Any) -> None:
        self._flag.set_global(value)

    def __call__(self, value: Any) -> Any:
        return self._flag(value)


def make_user_context(default_value: Any = None) -> UserContext:
    """A value that jitted functions may read, and that is part of what their programs depend on.

    >>> scale = pb.make_user_context(1.0)
    >>> f = pb.jit(lambda x: x * scale.value)
    >>> with scale(2.0): f(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    return UserContext(default_value)


def define(flag: Flag) -> None:
    """Adds a flag of a library's. Raises ValueError if there is one of its name."""
    global _TRACE_FLAGS
    if flag.name in FLAGS:
        raise ValueError(f"Config option {flag.name} already defined")
    FLAGS[flag.name] = flag
    if flag.in_context:
        _TRACE_FLAGS = (*_TRACE_FLAGS, flag)
        _process_changed()


epoch = 0


def _advance() -> None:
    global epoch
    epoch += 1


on_change.append(_advance)


class _Values(threading.local):
    epoch = -1
    values: tuple[Any, ...] = ()


_values = _Values()


def global_trace_values(own: Mapping[Flag, Any] = MappingProxyType({})) -> tuple[Any, ...]:
    """The process's values of every flag that tracing depends on, but those that a thread has of
    its `own`.
    """
    return tuple(own.get(flag, flag.value) for flag in _TRACE_FLAGS)


def trace_flags() -> tuple[Flag, ...]:
    """The flags whose values `trace_values` gives."""
    return _TRACE_FLAGS


def trace_values() -> tuple[Any, ...]:
    """The values, in this thread, of every flag that tracing depends on; one tuple, so that it can
    be a key.
    """
    if _values.epoch != epoch:
        _values.epoch, _values.values = epoch, tuple(flag.get() for flag in _TRACE_FLAGS)
    return _values.values


# This module is what users know as `pullback.config`: `config.update(name, value)`, and every flag
# as an attribute.
def update(name: str, value: Any) -> None:
    """Sets a flag for the whole process. Raises AttributeError for a name that does not exist.

    >>> pullback.config.update("jax_enable_x64", True)
    """
    _known(name).set_global(value)


def read(name: str) -> Any:
    """The process-wide value of a flag."""
    return _known(name).value


def _known(name: str) -> Flag:
    if name not in FLAGS:
        raise AttributeError(
            f"Unrecognized config option: {name}. Fix: pullback.config.values lists the options."
        )
    return FLAGS[name]


absl_flags: Any = lazy_module("pullback.absl_flags")


def config_with_absl() -> None:
    """Makes every flag one of absl's, which has effect once the program's flags are read."""
    absl_flags.define()


def parse_flags_with_absl() -> None:
    """Reads the flags on the command line (`--jax_enable_x64=true`), and leaves others to the
    program. ImportError without absl.
    """
    absl_flags.parse()


class _Config(ModuleType):
    """This module's own class: flags are set by `update`, never by assignment."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FLAGS:
            raise AttributeError(
                f"config.{name} cannot be assigned. Fix: config.update({name!r}, {value!r})"
            )
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Config


def __getattr__(name: str) -> Any:
    if name in FLAGS:
        return FLAGS[name].get()
    if name == "x64_enabled":
        return bool(enable_x64.get())
    if name == "values":
        return {key: flag.get() for key, flag in FLAGS.items()}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
