"""`jax.tools.jax_to_ir`: a function as XLA's program, (bytes, text). Needs jaxlib."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import dtypes, jit
from ....api.arguments import ShapeDtypeStruct
from ....core.avals import ShapedArray

_DTYPES = {
    "pred": "bool", "s2": "int2", "s4": "int4", "s8": "int8", "s16": "int16", "s32": "int32",
    "s64": "int64", "u2": "uint2", "u4": "uint4", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64",
    "c64": "complex64", "c128": "complex128",
}  # fmt: skip


def parse_shape_str(s: str) -> ShapedArray:
    """The type that a text such as "f32[1,2]" says. ValueError for other texts."""
    kind, bracket, rest = s.partition("[")
    sizes = rest[:-1].split(",") if bracket and rest.endswith("]") else None
    if kind not in _DTYPES or sizes is None or not all(n.strip().isdigit() for n in sizes if n):
        raise ValueError(
            f'Invalid shape {s}. Valid example: "f32[1,2,3]". Note that dtype must be one of '
            f"{list(_DTYPES)}."
        )
    return ShapedArray(tuple(int(n) for n in sizes if n), dtypes.dtype(_DTYPES[kind]))


def jax_to_ir(
    fn: Callable[..., Any],
    input_shapes: Sequence[tuple[str, Any]],
    *,
    constants: dict[str, Any] | None = None,
    format: str,
) -> tuple[bytes, str]:
    """(the program as bytes, as text) of a function of arrays that are given by name, in the format
    "HLO". `constants` are arguments whose values are known. ValueError for one that is both.
    """
    known = constants or {}
    twice = set(known) & {name for name, _ in input_shapes}
    if twice:
        raise ValueError(
            f"Arguments appear both in `input_shapes` and `constants`: {sorted(twice)}"
        )
    assert format == "HLO", f"unknown format {format!r}. Fix: 'HLO'."
    names = [name for name, _ in input_shapes]

    @functools.wraps(fn)
    def ordered_wrapper(*args: Any) -> Any:
        return fn(**known, **dict(zip(names, args, strict=True)))

    ordered_wrapper.__name__ = "ordered_wrapper"
    avals = [ShapeDtypeStruct(np.shape(s), s.dtype) for _, s in input_shapes]
    computation = jit(ordered_wrapper).lower(*avals).compiler_ir("hlo")
    return bytes(computation.as_serialized_hlo_module_proto()), str(computation.as_hlo_text())


def jax_to_hlo(
    fn: Callable[..., Any],
    input_shapes: Sequence[tuple[str, Any]],
    constants: dict[str, Any] | None = None,
) -> tuple[bytes, str]:
    """`jax_to_ir` in the format "HLO"."""
    return jax_to_ir(fn, input_shapes, constants=constants, format="HLO")
