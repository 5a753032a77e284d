"""Kernels over meshes: `core_map` and `kernel`. The processor is one: what a mesh would run beside
each other runs one after the other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import lax, tree
from ...control.refs import freeze, new_ref
from ...core.avals import ShapedArray
from ...core.refs import is_ref
from ...core.trace import current_trace, extend_axis_env, use_trace
from .ids import PlaceTrace
from .lower import nothing_yet, place_of
from .scoped import run_scoped
from .specs import CompilerParams, CostEstimate, as_tuples


def _axes_of(mesh: Any) -> dict[Any, int]:
    shape: Any = getattr(mesh, "shape", None)
    if not hasattr(shape, "items"):
        raise AttributeError(
            f"mesh: expected a mesh, whose `shape` maps names of axes to sizes, got {mesh!r} of "
            f"type {type(mesh)}. Fix: jax.make_mesh((1,), ('core',))."
        )
    return dict(shape.items())


def core_map(
    mesh: Any,
    *,
    compiler_params: Any | None = None,
    interpret: bool = False,
    debug: bool = False,
    cost_estimate: CostEstimate | None = None,
    name: str | None = None,
    metadata: dict[str, str] | None = None,
    scratch_shapes: Any = (),
) -> Callable[[Callable[..., None]], None]:
    """A decorator: runs the function at every place of a mesh, one after the other. It reads and
    writes references that it closes over; `lax.axis_index(name)` tells the place.

    scratch_shapes: memory that each run is lent, by position or (as a dict) by keyword. The other
    arguments are without meaning here.

    >>> class TwoCores:
    ...     shape = {"core": 2}
    >>> def body(refs):
    ...     @pl.core_map(TwoCores())
    ...     def _():
    ...         refs[pb.lax.axis_index("core")] = 1.0 + pb.lax.axis_index("core")
    >>> pl.run_state(body)(jnp.zeros(2))
    Array([1., 2.], dtype=float32)

    Raises AttributeError if `mesh` has no axes.
    """
    axes = _axes_of(mesh)
    names, sizes = tuple(axes), tuple(axes.values())
    scratch = as_tuples(scratch_shapes)

    def run(f: Callable[..., None]) -> None:
        def body(step: Any, _: None) -> None:
            place = [*place_of(step, sizes), *map(np.int32, sizes)]
            trace = PlaceTrace(current_trace(), place, names)
            with extend_axis_env(tuple(axes.items())), use_trace(trace):
                if isinstance(scratch, dict):
                    run_scoped(f, **scratch)
                else:
                    run_scoped(f, *scratch)

        lax.fori_loop(np.int32(0), np.int32(math.prod(sizes)), body, None)

    return run


def kernel(
    body: Any = None,
    out_type: object = (),
    *,
    mesh: Any,
    scratch_types: Any = (),
    compiler_params: CompilerParams | None = None,
    interpret: Any = False,
    cost_estimate: CostEstimate | None = None,
    debug: bool = False,
    name: str | None = None,
    metadata: dict[str, str] | None = None,
) -> Any:
    """A function of arrays that runs `body` at every place of a mesh, with references to its
    operands, its results and scratch memory. Without `body`, a decorator.

    out_type: a ShapeDtypeStruct or a tree of them. Operands that are references are handed on, and
    may be written. With sequences of bodies and meshes, they run one after the other. The other
    arguments are without meaning here.

    >>> class OneCore:
    ...     shape = {"core": 1}
    >>> @pl.kernel(out_type=pb.ShapeDtypeStruct((2,), jnp.float32), mesh=OneCore())
    ... def double(x_ref, o_ref):
    ...     o_ref[...] = 2 * x_ref[...]
    >>> double(jnp.arange(2.0))
    Array([0., 2.], dtype=float32)

    Raises AttributeError if `mesh` has no axes, ValueError if there is not a mesh for each body.
    """
    if body is None:
        return functools.partial(
            kernel, out_type=out_type, mesh=mesh, scratch_types=scratch_types,
            compiler_params=compiler_params, interpret=interpret, cost_estimate=cost_estimate,
            debug=debug, name=name, metadata=metadata,
        )  # fmt: skip
    several = isinstance(body, (list, tuple))
    bodies, meshes = (list(body), list(mesh)) if several else ([body], [mesh])
    if len(bodies) != len(meshes):
        raise ValueError(
            f"kernel: {len(bodies)} bodies and {len(meshes)} meshes. Fix: a mesh for each body."
        )
    scratch = list(scratch_types) if several else [scratch_types]
    for m in meshes:
        _axes_of(m)

    def wrapped(*operands: Any) -> Any:
        return _run(bodies, meshes, scratch, operands, out_type, debug)

    return wrapped


def _run(
    bodies: Sequence[Callable[..., None]],
    meshes: Sequence[Any],
    scratch: Sequence[Any],
    operands: Sequence[Any],
    out_type: Any,
    debug: bool,
) -> Any:
    shapes = as_tuples(out_type)
    leaves, out_tree = tree.flatten(shapes)
    outs = [new_ref(nothing_yet(ShapedArray(x.shape, x.dtype))) for x in leaves]
    made = tree.unflatten(out_tree, outs)
    given = made if isinstance(made, tuple) else (made,)
    ins = [x if is_ref(x) else tree.map(new_ref, x) for x in operands]
    for k, (body, mesh) in enumerate(zip(bodies, meshes, strict=True)):
        held = scratch[k] if k < len(scratch) else ()
        core_map(mesh, debug=debug, scratch_shapes=held)(functools.partial(body, *ins, *given))
    return tree.unflatten(out_tree, [freeze(r) for r in outs])
