"""`ffi_call`: a function of foreign code, as XLA calls it, in a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import effects as fx
from ..core.avals import AbstractToken, ShapedArray, typeof
from ..core.primitive import No, Primitive
from ..primitives.callback import batch_by_method, check_method
from ..primitives.common import as_array
from .expand import register_inline

__all__ = ["FfiEffect", "ffi_call", "ffi_call_p"]


class FfiEffect(fx.Effect):
    """The effect of a call that must not be dropped."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "FfiEffect()"


_EFFECT = FfiEffect()
fx.lowerable_effects.add_type(FfiEffect)
fx.control_flow_allowed_effects.add_type(FfiEffect)


def _abstract_eval(
    *avals: Any, result_avals: Sequence[Any], has_side_effect: bool, **params: Any
) -> Any:
    return list(result_avals), frozenset({_EFFECT} if has_side_effect else ())


def _jvp(primals: Any, tangents: Any, *, target_name: str, **params: Any) -> Any:
    raise ValueError(
        f"The FFI call to `{target_name}` cannot be differentiated. You can use `jax.custom_jvp` "
        "or `jax.custom_vjp` to add support."
    )


def _batched_layouts(parts: Sequence[Any], params: dict[str, Any]) -> dict[str, Any]:
    layouts = [
        _batched_layout(layout, typeof(x).ndim)
        for layout, x in zip(params["input_layouts"], parts, strict=True)
    ]
    return {
        "input_layouts": tuple(layouts),
        "output_layouts": tuple(_batched_layout(k, len(k) + 1) for k in params["output_layouts"]),
    }


def _batched_layout(layout: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """The layout of a stack: its axis is the slowest."""
    return layout if len(layout) == ndim else (*(d + 1 for d in layout), 0)


ffi_call_p: Primitive = Primitive(
    "ffi_call",
    abstract_eval=_abstract_eval,
    jvp=_jvp,
    transpose=No.NOT_LINEAR,
    batch=batch_by_method(lambda: ffi_call_p, _batched_layouts),
    multiple_results=True,
    effectful=True,
)
# The target `control_dep` of XLA's: one array is to be computed after another. Operations keep
# their order here, so that nothing is called.
order_p = Primitive("ffi_call", register=False, multiple_results=True, effectful=True)
order_p.rules.update(ffi_call_p.rules)
order_p.def_impl(lambda *arrays, **_: [])
register_inline(order_p, lambda *arrays, **_: [])


class Attribute:
    """An array or a dictionary as an attribute: hashed and compared by what it holds."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        if isinstance(value, np.ndarray):
            self.key: Any = (value.shape, value.dtype, value.tobytes())
        else:
            self.key = tuple((k, hashable(k, v)) for k, v in sorted(value.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attribute) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return repr(self.value)


def hashable(name: str, value: Any) -> Any:
    """An attribute as equations hold it. TypeError for one that cannot be hashed."""
    if isinstance(value, (np.ndarray, dict)):
        return Attribute(value)
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"Non-hashable keyword argument to ffi_call {name}: {value}. Fix: pass a tuple or a "
            "NumPy array."
        ) from None
    return value


def _result_aval(k: int, s: Any) -> Any:
    if isinstance(s, AbstractToken):
        return s
    if not (hasattr(s, "shape") and hasattr(s, "dtype")):
        raise ValueError(
            "All elements of result_shape_dtypes must have 'shape' and 'dtype' attributes. Got "
            f"{s} at position {k}."
        )
    return ShapedArray(tuple(s.shape), np.dtype(s.dtype))


def _layouts(what: str, given: Any, avals: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Layouts as XLA has them, the nearest axis first; the given ones have it last."""
    asked = [None] * len(avals) if given is None else list(given)
    if len(asked) != len(avals):
        raise ValueError(
            f"The number of {what} arguments ({len(avals)}) must equal the number of {what} "
            f"layouts ({len(asked)})."
        )
    found = []
    for layout, aval in zip(asked, avals, strict=True):
        order = getattr(layout, "major_to_minor", layout)
        axes = range(len(getattr(aval, "shape", ()))) if order is None else order
        found.append(tuple(int(d) for d in reversed(axes)))
        if sorted(found[-1]) != list(range(len(getattr(aval, "shape", ())))):
            raise ValueError(f"the {what} layout {layout} is no order of the axes of {aval}")
    return tuple(found)


def _aliases(
    given: dict[int, int] | None, ins: Sequence[Any], outs: Sequence[Any]
) -> tuple[tuple[int, int], ...]:
    """Pairs of an input and the output in its memory. ValueError for such as are not there, or
    differ in type."""
    for i, o in (given or {}).items():
        said = f"input_output_aliases contains the mapping '{i}:{o}'"
        if not 0 <= i < len(ins):
            raise ValueError(f"{said} with input index {i} outside the range [0, {len(ins)}).")
        if not 0 <= o < len(outs):
            raise ValueError(f"{said} with output index {o} outside the range [0, {len(outs)}).")
        a, b = ins[i], outs[o]
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ValueError(
                f"{said} referring to an input with abstract value {a} and an output with a "
                f"different abstract value {b}."
            )
    return tuple((given or {}).items())


def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: dict[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:
    """The function that calls a registered target of XLA's foreign function interface: arrays are
    positional, attributes keyword arguments. Needs jaxlib; native programs call it between their
    kernels.

    `result_shape_dtypes`: an object with a shape and a dtype, or a sequence of them. `vmap_method`
    is as that of `pure_callback`. Layouts are orders of axes, the slowest first. ValueError for
    layouts and aliases that do not fit.

    >>> shape = pb.ShapeDtypeStruct((2, 2), jnp.float32), pb.ShapeDtypeStruct((), jnp.int32)
    >>> call = pb.ffi.ffi_call("lapack_spotrf_ffi", shape, input_layouts=[(1, 0)],
    ...                        output_layouts=[(1, 0), ()])
    >>> call(4 * jnp.eye(2), uplo=np.uint8(ord("L")))
    (Array([[2., 0.],
           [0., 2.]], dtype=float32), Array(0, dtype=int32))
    """
    check_method(vmap_method)
    single = not isinstance(result_shape_dtypes, (list, tuple))
    shapes = [result_shape_dtypes] if single else list(result_shape_dtypes)
    outs = tuple(_result_aval(k, s) for k, s in enumerate(shapes))
    asked = [output_layouts] if single and output_layouts is not None else output_layouts
    result_layouts = _layouts("output", asked, outs)
    if custom_call_api_version >= 4 and legacy_backend_config is not None:
        raise ValueError(
            "The use of the legacy_backend_config parameter requires custom_call_api_version < 4; "
            f"got {custom_call_api_version}."
        )

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        arrays = [as_array(x) for x in args]
        avals = [typeof(x) for x in arrays]
        if kwargs and custom_call_api_version < 4:
            raise ValueError(
                "The use of ffi_call attributes requires a custom call API version of at least 4; "
                f"got api_version={custom_call_api_version}."
            )
        primitive = order_p if target_name == "control_dep" else ffi_call_p
        found = primitive.bind(
            *arrays,
            result_avals=outs,
            vmap_method=vmap_method,
            target_name=target_name,
            has_side_effect=has_side_effect,
            input_layouts=_layouts("input", input_layouts, avals),
            output_layouts=result_layouts,
            input_output_aliases=_aliases(input_output_aliases, avals, outs),
            custom_call_api_version=custom_call_api_version,
            legacy_backend_config=legacy_backend_config,
            attributes=tuple((k, hashable(k, v)) for k, v in kwargs.items()),
        )
        return found[0] if single else type(result_shape_dtypes)(found)

    return wrapped
