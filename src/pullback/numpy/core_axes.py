"""Named core axes, as gufunc signatures write them: `(n,m),(m)->(n)`; and arguments whose shapes do
not fit them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from ..core.avals import typeof
from .util import shape_of

_NAME = r"\w+"
_DIMS = rf"(?:{_NAME}(?:,{_NAME})*,?)?"
_ARGUMENT = rf"\({_DIMS}\)"
_ARGUMENTS = rf"{_ARGUMENT}(?:,{_ARGUMENT})*"
_SIGNATURE = re.compile(rf"^{_ARGUMENTS}->{_ARGUMENTS}$")


def parse_signature(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """`(n,m),(m)->(n)` as the names of the core axes of inputs and outputs."""
    if not isinstance(signature, str):
        raise TypeError(f"a gufunc signature is text like '(n,m),(m)->(n)', got {signature!r}")
    text = signature.replace(" ", "")
    if not _SIGNATURE.match(text):
        raise ValueError(
            f"not a valid gufunc signature: {signature}. Fix: write it like '(n,m),(m)->(n)'."
        )
    left, right = text.split("->")
    return _side(left), _side(right)


def _side(text: str) -> list[tuple[str, ...]]:
    return [tuple(n for n in arg.split(",") if n) for arg in re.findall(r"\(([^)]*)\)", text)]


def sizes_of(
    args: Sequence[Any], core: Sequence[tuple[str, ...]], which: str
) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """The loop shape of each argument, and the size of each named axis. Raises ValueError if they
    disagree.
    """
    sizes: dict[str, Any] = {}
    loops = []
    for a, names in zip(args, core, strict=True):
        shape = shape_of(a)
        if len(shape) < len(names):
            raise ValueError(
                f"input with shape {shape} does not have enough dimensions for all core dimensions "
                f"{names} {which}"
            )
        own = shape[len(shape) - len(names) :]
        for name, n in zip(names, own, strict=True):
            if sizes.setdefault(name, n) != n:
                raise ValueError(
                    f"inconsistent size for core dimension {name!r}: {n} vs {sizes[name]} {which}"
                )
        loops.append(shape[: len(shape) - len(names)])
    return loops, sizes


def check_outputs(
    fun: Callable[..., Any], core_out: Sequence[tuple[str, ...]], sizes: dict[str, Any], which: str
) -> Callable[..., Any]:
    @functools.wraps(fun)
    def checked(*args: Any) -> Any:
        out = fun(*args)
        parts = out if isinstance(out, tuple) else (out,)
        if len(core_out) > 1 and not isinstance(out, tuple):
            raise TypeError(
                f"output must be a tuple when multiple outputs are expected, got: {out!r}\n{which}"
            )
        if len(parts) != len(core_out):
            raise TypeError(
                f"wrong number of output arguments: expected {len(core_out)}, got {len(parts)} "
                f"{which}"
            )
        for x, names in zip(parts, core_out, strict=True):
            shape = shape_of(x)
            if len(shape) != len(names):
                raise ValueError(
                    f"output shape {shape} does not match core dimensions {names} {which}"
                )
            for name, n in zip(names, shape, strict=True):
                if sizes.setdefault(name, n) != n:
                    raise ValueError(
                        f"inconsistent size for core dimension {name!r}: {n} vs {sizes[name]} "
                        f"{which}"
                    )
        return out

    return checked


def check_core(name: str, signature: str, *args: Any) -> None:
    """ValueError unless the core axes of the function's arguments are there and of the sizes that
    its signature ties."""
    core, _ = parse_signature(signature)
    sizes: dict[str, Any] = {}
    for a, names in zip(args, core, strict=True):
        own = shape_of(a)[-len(names) :]
        if len(own) < len(names) or any(
            sizes.setdefault(k, n) != n for k, n in zip(names, own, strict=True)
        ):
            given = ", ".join(typeof(x).str_short() for x in args)
            sizes_of(args, core, f"on vectorized function {name} with {signature=}: got {given}")
