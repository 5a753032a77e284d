"""`jax._src.config`: the flags, as objects whose `value` is the one in force and which are called
for a block; and how libraries define more of them."""

from __future__ import annotations

import enum
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from .... import config as _flags
from ....config import (
    UserContext as UserContext,
    make_user_context as make_user_context,
    parse_flags_with_absl as parse_flags_with_absl,
    update as update,
)
from ....core.trace import trace_context as trace_context

logger = logging.getLogger("jax._src.config")
config = _flags
Config = type(_flags)


class NoDefault:
    """No value."""


no_default = NoDefault()


class State:
    """A flag. `state.value` is its value here and now; `with state(value): ...` sets it for a
    block."""

    def __init__(self, flag: _flags.Flag) -> None:
        self.flag, self.name, self.__doc__ = flag, flag.name, flag.doc
        self._name = flag.name

    def __bool__(self) -> bool:
        raise TypeError(
            f"bool() not supported for instances of type {type(self).__name__!r} (did you mean to "
            f"use '{type(self).__name__}.value' instead?)"
        )

    @property
    def value(self) -> Any:
        """The value in force in this thread."""
        return self.flag.get()

    def get_global(self) -> Any:
        """The process's value."""
        return self.flag.value

    def set_global(self, value: Any) -> None:
        """Sets the process's value."""
        self.flag.set_global(value)

    def get_local(self) -> Any:
        """This thread's own value; `no_default` if it has none."""
        return _flags._mine.values.get(self.flag, no_default)

    def __call__(self, value: Any = True) -> Any:
        return self.flag(value)


StateContextManager = _flags._Override
config_states: dict[str, State] = {}


class _Told(_flags.Flag):
    """A flag whose values somebody is told of."""

    on_global: Callable[[Any], None] | None = None
    on_local: Callable[[Any], None] | None = None

    def set_global(self, value: Any) -> None:
        super().set_global(value)
        if self.on_global is not None:
            self.on_global(self.value)

    def __call__(self, value: Any = True) -> Any:
        return _ToldBlock(self, self.parse(value))


class _ToldBlock(_flags._Override):
    def __enter__(self) -> None:
        super().__enter__()
        self._tell(self.value)

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._tell(None if self.before is _flags._ABSENT else self.before)

    def _tell(self, value: Any) -> None:
        if self.flag.on_local is not None:  # type: ignore[attr-defined]
            self.flag.on_local(value)  # type: ignore[attr-defined]


def _state(
    name: str, default: Any, help: str, check: Callable[[Any], Any],
    update_global_hook: Callable[[Any], None] | None = None,
    update_thread_local_hook: Callable[[Any], None] | None = None,
    include_in_jit_key: bool = False, include_in_trace_context: bool = False, **_: Any,
) -> State:  # fmt: skip
    """A new flag, whose values `check` accepts or refuses; variables of the environment are asked
    for its first value."""
    if name in _flags.FLAGS:
        raise Exception(f"Config option {name} already defined")
    in_context = include_in_jit_key or include_in_trace_context
    flag = _Told(name, default, check, help, in_context)
    flag.on_global, flag.on_local = update_global_hook, update_thread_local_hook
    _flags.define(flag)
    found = config_states[name] = State(flag)
    if update_global_hook is not None:
        update_global_hook(flag.value)
    return found


def _typed(
    kind: str, cls: type | tuple[type, ...], optional: bool, error: type = ValueError
) -> Any:
    def check(value: Any) -> Any:
        if (value is None and optional) or isinstance(value, cls):
            return value
        allowed = "None or of type" if optional else "of type"
        raise error(
            f"new {kind} config value must be {allowed} "
            f"{cls.__name__ if isinstance(cls, type) else cls[0].__name__}, got {value} of type "
            f"{type(value)}" + ("" if optional and cls is not str else ".")
        )

    return check


def _one_of(values: Sequence[Any], optional: bool, default: Any = no_default) -> Any:
    def check(value: Any) -> Any:
        value = getattr(value, "value", value)
        if (value is None and optional) or value in values:
            return value
        raise ValueError(
            f"new enum value must be {'None or ' if optional else ''}in {list(values)}, "
            f"got {value} of type {type(value)}."
        )

    return check


def _truth(value: Any) -> Any:
    return _flags._bool(value) if value is not None else value


def _read(name: str) -> Any:
    """The value of a flag that is in force."""
    return _flags.FLAGS[name].get()


def _reading(check: Callable[[Any], Any], parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    """A check of values that come as text from the environment, too."""

    def checked(value: Any) -> Any:
        return check(parse(value) if isinstance(value, str) else value)

    return checked


def bool_state(name: str, default: bool, help: str, **options: Any) -> State:
    """A flag that is true or false. TypeError for another default."""
    if not isinstance(default, bool):
        raise TypeError(
            f"Default value must be of type bool, got {default} of type {type(default).__name__}"
        )
    return _state(name, default, help, _truth, **options)


def enum_state(
    name: str, enum_values: Sequence[str], default: str, help: str, **options: Any
) -> State:
    """A flag whose value is one of several. ValueError for others."""
    if default not in enum_values:
        raise ValueError(f'Invalid value "{default}" for JAX flag {name}')
    return _state(name, default, help, _one_of(enum_values, False), **options)


def optional_enum_state(
    name: str, enum_values: Sequence[str], default: str | None, help: str, **options: Any
) -> State:
    """A flag whose value is one of several, or None. ValueError for others."""
    if default is not None and default not in enum_values:
        raise ValueError(f'Invalid value "{default}" for JAX flag {name}')
    return _state(name, default, help, _one_of(enum_values, True), **options)


def enum_class_state(name: str, enum_class: Any, default: Any, help: str, **options: Any) -> State:
    """A flag whose value is a member of a class. ValueError for others."""

    def check(value: Any) -> Any:
        try:
            return enum_class(value)
        except ValueError:
            allowed = [member.value for member in enum_class]
            raise ValueError(
                f"new enum value must be in {allowed}, got {value} of type {type(value)}."
            ) from None

    return _state(name, default, help, check, **options)


def int_state(name: str, default: int, help: str, **options: Any) -> State:
    """A flag that is a whole number. ValueError for anything else."""
    check = _typed("int", int, True)
    parsed = int(os.environ[name.upper()]) if name.upper() in os.environ else default
    return _from(parsed, _state(name, default, help, _lenient(check, name), **options), check)


def float_state(name: str, default: float, help: str, **options: Any) -> State:
    """A flag that is a number. ValueError for anything else."""
    check = _typed("float", (float, int), True)
    parsed = float(os.environ[name.upper()]) if name.upper() in os.environ else default
    return _from(parsed, _state(name, default, help, _lenient(check, name), **options), check)


def _lenient(check: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """`check`, but for the text that the environment gives first."""
    text = os.environ.get(name.upper())
    return lambda value: value if text is not None and value is text else check(value)


def _from(first: Any, state: State, check: Callable[[Any], Any]) -> State:
    state.flag.value, state.flag.parse = first, check
    return state


def string_state(name: str, default: str, help: str, **options: Any) -> State:
    """A flag that is text. TypeError for anything else."""
    if not isinstance(default, str):
        raise TypeError(f"Default value must be of type str, got {default} of type {type(default)}")
    return _state(name, default, help, _typed("string", str, False, TypeError), **options)


def optional_string_state(name: str, default: str | None, help: str, **options: Any) -> State:
    """A flag that is text or None. ValueError for anything else."""
    return _state(name, default, help, _typed("string", str, True), **options)


def string_or_object_state(
    name: str,
    default: Any,
    help: str,
    *,
    validator: Callable[[Any], Any] | None = None,
    **options: Any,
) -> State:
    """A flag that is anything that `validator` does not refuse."""

    def check(value: Any) -> Any:
        if validator is not None:
            validator(value)
        return value

    return _state(name, default, help, check, **options)


class Flag:
    """An option of the process, which has no value of a thread's own."""

    def __init__(self, name: str, default: Any) -> None:
        self._name, self.value = name, default
        flag = _Told(name, default, lambda value: value, "", False)
        flag.on_local, flag.on_global = None, self._set
        self.value = flag.value
        _flags.define(flag)

    def _set(self, value: Any) -> None:
        self.value = value

    def __bool__(self) -> bool:
        raise TypeError(
            "bool() not supported for instances of type 'Flag' (did you mean to use 'Flag.value' "
            "instead?)"
        )


def bool_flag(name: str, default: Any, *args: Any, **kwargs: Any) -> Flag:
    """An option of the process that is true or false."""
    return Flag(name, default)


int_flag = float_flag = string_flag = enum_flag = bool_flag


def bool_env(varname: str, default: bool) -> bool:
    """A variable of the environment as a truth value. ValueError for other words."""
    said = os.environ.get(varname, str(default))
    if said.lower() in ("y", "yes", "t", "true", "on", "1"):
        return True
    if said.lower() in ("n", "no", "f", "false", "off", "0"):
        return False
    raise ValueError(f"invalid truth value {said.lower()!r} for environment {varname!r}")


def int_env(varname: str, default: int) -> int:
    """A variable of the environment as a number. ValueError for others."""
    return int(os.environ.get(varname, str(default)))


class NumpyDtypePromotion(enum.StrEnum):
    """How operands of several dtypes are promoted."""

    STANDARD = enum.auto()
    STRICT = enum.auto()


class RuntimeTracebackMode(enum.StrEnum):
    """Which tracebacks the runtime is given."""

    OFF = enum.auto()
    ON = enum.auto()
    FULL = enum.auto()


class LegacyPrngKeyState(enum.StrEnum):
    """What happens where keys are arrays of numbers."""

    ALLOW = enum.auto()
    WARN = enum.auto()
    ERROR = enum.auto()


class ExplicitX64Mode(enum.StrEnum):
    """What happens where a dtype of 64 bits is asked for, and there is none."""

    WARN = enum.auto()
    ERROR = enum.auto()
    ALLOW = enum.auto()


def __getattr__(name: str) -> Any:
    for full in (f"jax_{name}", name, f"pullback_{name}"):
        if full in _flags.FLAGS:
            if full not in config_states:
                config_states[full] = State(_flags.FLAGS[full])
            return config_states[full]
    raise AttributeError(f"module 'jax._src.config' has no attribute {name!r}")
