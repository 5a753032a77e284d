"""Looking inside programs while they run: prints, callbacks, breakpoints, and pictures of
shardings.
"""

from __future__ import annotations

import cmd
import functools
import inspect
import itertools
import linecache
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .control.expand import register_inline
from .core.avals import is_valid_value
from .core.source import is_internal
from .core.trace import Tracer
from .primitives.callback import (
    DebugEffect as DebugEffect,
    OrderedDebugEffect as OrderedDebugEffect,
    debug_callback,
    debug_print,
)
from .primitives.sharding import inspect_sharding_p
from .runtime.commitment import name_shardings
from .sharding import Sharding

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]


def callback(
    callback: Callable[..., None] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls a Python function with values of the program, each time the program gets there.

    `args` and `kwargs` are pytrees; arrays among them reach `callback` as Arrays. Calls may be
    reordered or, where the program's results do not depend on them, batched, unless `ordered`.
    Without `callback`: a decorator.

    >>> pb.jit(lambda x: (pb.debug.callback(lambda v: print("saw", v), x), x + 1)[1])(1.0)
    saw 1.0
    Array(2., dtype=float32, weak_type=True)

    TypeError if `callback` cannot be called; what it raises surfaces as the program's error.
    """
    if callback is None:
        return lambda fun: functools.partial(
            debug_callback, fun, ordered=ordered, partitioned=partitioned
        )
    debug_callback(callback, *args, ordered=ordered, partitioned=partitioned, **kwargs)
    return None


def print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> Any:
    """Prints values of the program as it runs; `fmt` has placeholders as in `str.format`.

    >>> pb.jit(lambda x: pb.debug.print("x = {}", x))(3.0)
    x = 3.0

    Raises ValueError for arguments that `fmt` does not use, IndexError or KeyError for placeholders
    without one.
    """
    options: dict[str, Any] = {
        "ordered": ordered, "partitioned": partitioned, "skip_format_check": skip_format_check,
        "_use_logging": _use_logging,
    }  # fmt: skip
    if fmt is None:
        return functools.partial(print, **options)
    debug_print(fmt, *args, **options, **kwargs)
    return None


log = functools.partial(print, _use_logging=True)
log.__doc__ = """`print`, whose lines go to the log `pullback.debug`, at level INFO.

    Raises what `print` raises.

    >>> pb.jit(lambda x: pb.debug.log("x = {}", x))(3.0)
    """


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Calls `callback` with the sharding of an array: at once, or when the program that computes it
    is compiled for arguments that lie so.

    >>> pb.debug.inspect_array_sharding(
    ...     jnp.zeros(3), callback=lambda sharding: print(sharding.num_devices))
    1
    """
    if not isinstance(value, Tracer):
        callback(value.sharding)
        return
    name_shardings()
    register_inline(inspect_sharding_p, inspect_sharding_p.rules["inline"])
    inspect_sharding_p.bind(value, callback=callback)


# --- pictures ---
def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Any = None,
) -> None:
    """Draws which devices hold which part of an array of one or two dimensions. ValueError for
    other shapes.

    >>> pb.debug.visualize_sharding((4,), jnp.zeros(4).sharding, use_color=False)
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    if len(shape) not in (1, 2):
        raise ValueError("`visualize_sharding` only works for shapes with 1 and 2 dimensions.")
    cells: dict[tuple[int, int], list[int]] = {}
    platform = "CPU"
    for device, index in sharding.devices_indices_map(tuple(shape)).items():
        starts = [s.start or 0 for s in index]
        cells.setdefault((starts[0] if len(shape) == 2 else 0, starts[-1]), []).append(device.id)
        platform = device.platform.upper()
    rows, columns = sorted({r for r, _ in cells}), sorted({c for _, c in cells})
    ratio = shape[1] / shape[0] if len(shape) == 2 else 1 / shape[0]
    # A character is about two and a half times as high as it is wide.
    total = int(10 * scale) * ratio * 2.5
    width = min(max(int(total / len(columns)), min_width), max_width) - 2
    height = max(int(10 * scale) // len(rows) - 1, 1) if len(shape) == 2 else 1

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * width for _ in columns) + right

    lines = [rule("┌", "┬", "┐")]
    for k, row in enumerate(rows):
        labels = [
            f"{platform} {','.join(map(str, sorted(cells.get((row, c), []))))}" for c in columns
        ]
        for line in range(height):
            texts = labels if line == (height - 1) // 2 else [""] * len(columns)
            padded = [" " * ((width - len(t)) // 2) + t for t in texts]
            lines.append("│" + "│".join(t.ljust(width) for t in padded) + "│")
        lines.append(rule("├", "┼", "┤") if k < len(rows) - 1 else rule("└", "┴", "┘"))
    sys.stdout.write("\n".join(lines) + "\n")


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Draws which devices hold which part of an array: at once, or when the program that computes
    it runs.

    >>> pb.debug.visualize_array_sharding(jnp.zeros(4), use_color=False)
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    shape = arr.shape
    inspect_array_sharding(arr, callback=lambda s: visualize_sharding(shape, s, **kwargs))


# --- breakpoints ---
class _Place:
    """A frame of the user's as the debugger shows it: where, and the values of its variables."""

    def __init__(
        self, code: Any, line: int, variables: dict[str, Any], module: dict[str, Any]
    ) -> None:
        self.code, self.line, self.variables, self.module = code, line, variables, module

    def __str__(self) -> str:
        return f'File "{self.code.co_filename}", line {self.line}, in {self.code.co_name}'

    def listing(self, around: int = 4) -> str:
        first = max(self.line - around, 1)
        lines = []
        for n in range(first, self.line + around + 1):
            text = linecache.getline(self.code.co_filename, n)
            if text:
                lines.append(f"{'->' if n == self.line else '  '} {n:4d} {text.rstrip()}")
        return "\n".join(lines)


class _Debugger(cmd.Cmd):
    """Reads commands at a breakpoint: p EXPR, pp EXPR, l(ist), u(p), d(own), w(here), c(ontinue),
    q(uit).
    """

    prompt = "(pullback) "

    def __init__(self, places: list[_Place], stdin: Any = None, stdout: Any = None) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.places, self.at = places, 0

    def _say(self, text: Any) -> None:
        self.stdout.write(f"{text}\n")

    def do_p(self, line: str) -> None:
        """p EXPR: the value of an expression of this frame's variables."""
        place = self.places[self.at]
        try:
            self._say(repr(eval(line, {**place.module, **place.variables})))
        except Exception as e:
            self._say(f"*** {type(e).__name__}: {e}")

    do_pp = do_p

    def do_list(self, line: str) -> None:
        """l(ist): the lines around."""
        self._say(self.places[self.at].listing())

    def do_up(self, line: str) -> None:
        """u(p): to the caller."""
        self._move(1)

    def do_down(self, line: str) -> None:
        """d(own): to the called function."""
        self._move(-1)

    def _move(self, step: int) -> None:
        if 0 <= self.at + step < len(self.places):
            self.at += step
            self._say(self.places[self.at])
        else:
            self._say("There is no such frame.")

    def do_where(self, line: str) -> None:
        """w(here): all frames."""
        for k, place in enumerate(self.places):
            self._say(f"{'->' if k == self.at else '  '} {place}")

    def do_continue(self, line: str) -> bool:
        """c(ontinue): go on with the program."""
        return True

    def do_quit(self, line: str) -> None:
        """q(uit): end the program."""
        raise SystemExit(0)

    def do_EOF(self, line: str) -> bool:
        """Goes on with the program."""
        return True

    def emptyline(self) -> bool:
        return False

    do_l, do_u, do_d, do_w, do_bt, do_c, do_q = (
        do_list, do_up, do_down, do_where, do_where, do_continue, do_quit,
    )  # fmt: skip


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    stdin: Any = None,
    stdout: Any = None,
    **kwargs: Any,
) -> Any:
    r"""Stops the program here when it runs, and reads commands: the variables of the traced
    function have their values.

    ValueError for a `backend` other than "cli".

    >>> import io
    >>> @pb.jit
    ... def f(x):
    ...     y = x * 2
    ...     pb.debug.breakpoint(stdin=io.StringIO("p y\nc\n"), stdout=io.StringIO())
    ...     return y
    >>> f(1)
    Array(2, dtype=int32, weak_type=True)
    """
    if backend not in (None, "cli"):
        raise ValueError(
            f"No debugger backend named {backend!r} is registered. Fix: backend='cli'."
        )
    frames = [
        f
        for f in inspect.stack(context=0)[1:]
        if not filter_frames or not is_internal(f.frame.f_code)
    ]
    shots = []
    for info in itertools.islice(frames, num_frames):
        arrays = {k: v for k, v in info.frame.f_locals.items() if is_valid_value(v)}
        others = {k: v for k, v in info.frame.f_locals.items() if k not in arrays}
        shots.append((info.frame.f_code, info.lineno, arrays, others, info.frame.f_globals))

    def stop(values: list[dict[str, Any]]) -> None:
        places = [
            _Place(code, line, {**others, **arrays}, module)
            for (code, line, _, others, module), arrays in zip(shots, values, strict=True)
        ]
        _Debugger(places, stdin, stdout).cmdloop(f"Entering the debugger:\n{places[0]}")

    debug_callback(stop, [arrays for _, _, arrays, _, _ in shots], ordered=ordered)
    return token
