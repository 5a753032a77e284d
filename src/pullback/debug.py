"""Looking inside programs while they run: prints, callbacks, breakpoints, and pictures of
shardings.
"""

from __future__ import annotations

import cmd
import functools
import inspect
import itertools
import linecache
import pprint
import sys
import threading
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

    labels = [
        [f"{platform} {','.join(map(str, sorted(cells.get((r, c), []))))}" for c in columns]
        for r in rows
    ]
    widths = [max(width, *map(len, column)) for column in zip(*labels, strict=True)]

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * n for n in widths) + right

    lines = [rule("┌", "┬", "┐")]
    for k, row in enumerate(labels):
        for line in range(height):
            texts = row if line == (height - 1) // 2 else [""] * len(columns)
            padded = [
                (" " * ((n - len(t)) // 2) + t).ljust(n) for n, t in zip(widths, texts, strict=True)
            ]
            lines.append("│" + "│".join(padded) + "│")
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
class DebuggerFrame:
    # A frame of the user's as the debugger shows it: the function's lines from `start` on, the
    # place in them (`offset`), and the values of variables.

    def __init__(
        self, code: Any, line: int, variables: dict[str, Any], module: dict[str, Any]
    ) -> None:
        self.filename, self.lineno = code.co_filename, line
        self.locals, self.globals = variables, module
        if code.co_name == "<module>":
            text = "".join(linecache.getlines(code.co_filename))
        else:
            try:
                text = inspect.getsource(code)
            except (OSError, TypeError):
                text = ""
        self.source = text.split("\n")
        first = code.co_firstlineno or 1
        self.offset = line - first if 0 <= line - first < len(self.source) else None
        self.code_context = linecache.getline(code.co_filename, line)

    def listing(self, around: int) -> str:
        """Where it is, and so many lines around."""
        lines = [f"> {self.filename}({self.lineno})"]
        if self.offset is None:
            lines.append("<no source>")
        else:
            first = max(self.offset - around - 1, 0)
            for k, text in enumerate(self.source[first : self.offset + around + 1], first):
                lines.append(f"{'->  ' if k == self.offset else '    '}{text}")
        return "\n".join(lines)


class CliDebugger(cmd.Cmd):
    # Reads commands at a breakpoint: p EXPR, pp EXPR, l(ist), u(p), d(own), w(here), c(ontinue),
    # q(uit). The words are JAX's: programs drive it.

    prompt = "(jdb) "

    def __init__(
        self,
        frames: list[DebuggerFrame],
        thread_id: int | None = None,
        stdin: Any = None,
        stdout: Any = None,
        completekey: str = "tab",
    ) -> None:
        super().__init__(completekey, stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.frames, self.frame_index, self.thread_id = frames, 0, thread_id
        self.intro = "Entering jdb:"

    def current_frame(self) -> DebuggerFrame:
        return self.frames[self.frame_index]

    def evaluate(self, expr: str) -> Any:
        frame = self.current_frame()
        return eval(expr, {}, {**frame.globals, **frame.locals})

    def _say(self, text: Any) -> None:
        self.stdout.write(f"{text}\n")

    def default(self, line: str) -> None:
        """The value of an expression of this frame's variables."""
        try:
            self._say(repr(self.evaluate(line)))
        except Exception as e:
            self._say(f"*** {type(e).__name__}: {e}")

    def do_p(self, line: str) -> None:
        """p EXPR: the value of an expression of this frame's variables."""
        self.default(line)

    def do_pp(self, line: str) -> None:
        """pp EXPR: the value, over several lines if it is long."""
        try:
            self._say(pprint.pformat(self.evaluate(line)))
        except Exception as e:
            self._say(f"*** {type(e).__name__}: {e}")

    def print_context(self, num_lines: int = 2) -> None:
        self._say(self.current_frame().listing(num_lines))

    def do_list(self, line: str) -> None:
        """l(ist): the lines around."""
        self.print_context(5)

    def do_up(self, line: str) -> None:
        """u(p): to the caller."""
        if self.frame_index == len(self.frames) - 1:
            self._say("At topmost frame.")
        else:
            self.frame_index += 1
        self.print_context()

    def do_down(self, line: str) -> None:
        """d(own): to the called function."""
        if self.frame_index == 0:
            self._say("At bottommost frame.")
        else:
            self.frame_index -= 1
        self.print_context()

    def print_backtrace(self) -> None:
        lines = ["Traceback:"]
        for frame in reversed(self.frames):
            lines.append(f'  File "{frame.filename}", line {frame.lineno}')
            if frame.offset is None:
                lines.append("    <no source>")
            else:
                lines.append(f"    {frame.source[frame.offset].strip()}")
        self._say("\n".join(lines))

    def do_where(self, line: str) -> None:
        """w(here): all frames."""
        self.print_backtrace()

    def do_continue(self, line: str) -> bool:
        """c(ontinue): go on with the program."""
        return True

    def do_quit(self, line: str) -> None:
        """q(uit): end the program."""
        raise SystemExit(0)

    def do_EOF(self, line: str) -> None:
        """Ends the program: nobody gives commands any more."""
        raise SystemExit(0)

    def run(self) -> None:
        """Reads commands until the program goes on."""
        while True:
            try:
                return self.cmdloop()
            except KeyboardInterrupt:
                self._say("--KeyboardInterrupt--")

    do_l, do_u, do_d, do_w, do_bt, do_c, do_cont, do_q, do_exit = (
        do_list, do_up, do_down, do_where, do_where, do_continue, do_continue, do_quit, do_quit,
    )  # fmt: skip


Debugger = Callable[..., None]


def run_debugger(frames: list[DebuggerFrame], thread_id: int | None = None, **kwargs: Any) -> None:
    # Reads commands from the terminal, or from `stdin`.
    CliDebugger(frames, thread_id, **kwargs).run()


# By name, and how much it is preferred.
_debuggers: dict[str, tuple[int, Debugger]] = {"cli": (-1, run_debugger)}


def register_debugger(name: str, debugger: Debugger, priority: int) -> None:
    # Lets `breakpoint(backend=name)` call another debugger with the frames.
    if name in _debuggers:
        raise ValueError(f"Debugger with name {name!r} is already registered.")
    _debuggers[name] = priority, debugger


def get_debugger(backend: str | None = None) -> Debugger:
    # The debugger of a name; the most preferred one without.
    if backend is None:
        return max(_debuggers.values(), key=lambda found: found[0])[1]
    if backend not in _debuggers:
        raise ValueError(
            f"No debugger backend named {backend!r} is registered. Fix: backend='cli'."
        )
    return _debuggers[backend][1]


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
    debugger = get_debugger(backend)
    frames = [
        f
        for f in inspect.stack(context=0)[1:]
        if not filter_frames or not is_internal(f.frame.f_code)
    ]
    shots = []
    for info in itertools.islice(frames, num_frames):
        held = info.frame.f_locals.items()
        plain = (bool, int, float, complex)
        arrays = {k: v for k, v in held if is_valid_value(v) and not isinstance(v, plain)}
        others = {k: v for k, v in info.frame.f_locals.items() if k not in arrays}
        shots.append((info.frame.f_code, info.lineno, arrays, others, info.frame.f_globals))

    thread = threading.get_ident()
    streams = {k: v for k, v in (("stdin", stdin), ("stdout", stdout)) if v is not None}

    def stop(values: list[dict[str, Any]]) -> None:
        found = [
            DebuggerFrame(code, line, {**others, **arrays}, module)
            for (code, line, _, others, module), arrays in zip(shots, values, strict=True)
        ]
        debugger(found, thread, **streams, **kwargs)

    debug_callback(stop, [arrays for _, _, arrays, _, _ in shots], ordered=ordered)
    return token
