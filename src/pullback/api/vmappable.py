"""Types that say themselves how `vmap` maps them: what `batching.register_vmappable` keeps.

A value of such a type is one leaf. What `vmap` maps it over is a value of its spec type, and two
functions of the type's own take it to one element of the batch and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.avals import typeof
from ..core.trace import current_trace
from ..transforms.batch import AxisData, matchaxis

# Type -> (spec type, type of axis sizes, to_elt, from_elt, make_iota)
registered: dict[type, tuple[type, type, Any, Any, Any]] = {}
specs: dict[type, int] = {}  # spec type -> how many types have it


def register(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Callable[..., Any],
    from_elt: Callable[..., Any],
    make_iota: Callable[..., Any] | None,
) -> None:
    """Registers a type, in the place of what it was registered as before.

    >>> class Signal:
    ...     def __init__(self, samples):
    ...         self.samples = samples
    >>> from pullback.interpreters import batching
    >>> batching.register_vmappable(
    ...     Signal, int, int, lambda handler, x, spec: handler(x.samples, spec),
    ...     lambda handler, n, x, spec: Signal(handler(n, x, spec)), None)
    >>> batching.unregister_vmappable(Signal)
    """
    unregister(data_type)
    registered[data_type] = (spec_type, axis_size_type, to_elt, from_elt, make_iota)
    specs[spec_type] = specs.get(spec_type, 0) + 1


def unregister(data_type: type) -> None:
    """Forgets a type, if it is known.

    >>> class Unknown:
    ...     pass
    >>> pb.interpreters.batching.unregister_vmappable(Unknown)
    """
    if data_type in registered:
        spec = registered.pop(data_type)[0]
        specs[spec] -= 1
        if not specs[spec]:
            del specs[spec]


def is_registered(x: Any) -> bool:
    return type(x) in registered


def is_spec(axis: Any) -> bool:
    """Whether this says how a registered type is mapped. An int says it of arrays too, also where
    a type was registered with ints as its specs.
    """
    return type(axis) in specs and not isinstance(axis, int)


def elements(axis: AxisData, leaves: Sequence[Any], along: Sequence[Any]) -> list[Any]:
    """The leaves with those of registered types as one element of the batch; inside the trace."""
    trace: Any = current_trace()

    def element(x: Any, spec: Any) -> Any:
        _, _, to_elt, _, make_iota = registered[type(x)]

        def index() -> Any:
            if make_iota is None:
                raise TypeError(
                    f"{type(x).__name__} was registered without make_iota: there is no index"
                )
            return trace.join(make_iota(axis.size), 0)

        def part(value: Any, at: int) -> Any:
            return trace.join(value, at % len(typeof(value).shape))

        return to_elt(part, index, x, spec)

    return [
        element(x, spec) if is_registered(x) else x for x, spec in zip(leaves, along, strict=True)
    ]


def wholes(axis: AxisData, results: Sequence[Any], along: Sequence[Any]) -> list[Any]:
    """The results with those of registered types as whole batches; inside the trace.

    Raises ValueError for a spec of a result that is no value of a registered type.
    """
    trace: Any = current_trace()

    def stacked(size: int, x: Any, at: int) -> Any:
        value, found = trace.split(x)
        return matchaxis(size, found, at, value)

    out = []
    for x, spec in zip(results, along, strict=True):
        if is_registered(x):
            out.append(registered[type(x)][3](stacked, axis.size, x, spec))
            continue
        if is_spec(spec):
            raise ValueError(
                f"at vmap out_axes, got axis spec {spec} but output was batched on axis "
                f"{trace.split(x)[1]}. Fix: an int for results that are arrays."
            )
        out.append(x)
    return out
