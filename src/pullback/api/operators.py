"""Array operators as native calls: an operator is a function jitted for the types of its operands,
and entered in the operator's own table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import config, tree
from ..control.call import jit_p
from ..core.avals import typeof
from ..runtime import array, stub
from .jit import JitInfo, JitWrapped, native_entry

_SCALARS = (bool, int, float, complex)


def native_operator(
    name: str, fun: Callable[..., Any], otherwise: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """What an operator of arrays does when its table has no entry: `fun`, compiled for these
    operands, which are entered.

    Operands that are no arrays or Python numbers (tracers, NumPy arrays, foreign objects) go to
    `otherwise` (`fun`, if it is not given) as they are.
    """
    written = otherwise or fun
    jitted = JitWrapped(fun, JitInfo(fun, None, None, None, None, False, False))

    def plainly(*operands: Any) -> Any:
        out = written(*operands)
        itself = type(out) is array.ArrayImpl and any(out is x for x in operands)
        return array.twin(out) if itself else out  # as the compiled operator's result

    def slow(*operands: Any) -> Any:
        if (
            config.disable_jit.get()
            or not stub.fast_path_open()
            or not all(map(_is_plain, operands))
        ):
            return plainly(*operands)
        call, leaves, _ = jitted._infer(operands, {})
        call.params["jaxpr"].derived["trace seconds"] = 0.0  # an operation, not a user's function
        if call.consts or not tree.treedef_is_leaf(call.out_tree):
            return plainly(*operands)
        key = stub.signature(0, operands, {})
        entry = native_entry(key, call, operands, {}) if key is not None else None
        (out,) = jit_p.bind(*leaves, **call.params)
        if entry is not None:
            stub.add_operator_entry(name, entry)
        return out

    slow.__name__ = name
    return slow


def native_getitem(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`a[i]`: for an int in range, a native copy of one row."""

    def slow(a: Any, index: Any) -> Any:
        out = fun(a, index)
        if (
            type(index) is int
            and type(a) is array.ArrayImpl
            and type(out) is array.ArrayImpl
            and not a.aval.weak_type
        ):
            stub.add_row_entry(a.aval, typeof(out), a._lies_on, out._lies_on)
        return out

    slow.__name__ = "getitem"
    return slow


def _is_plain(x: Any) -> bool:
    kind = type(x)
    return kind is array.ArrayImpl or kind in _SCALARS or kind is np.ndarray
