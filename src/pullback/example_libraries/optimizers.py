"""Optimisers of pytrees of parameters, as triples (init, update, get_params).

>>> init, update, get_params = sgd(0.1)
>>> state = init(params)
>>> state = update(step, gradients, state)
>>> params = get_params(state)

A step size is a number or a schedule, a function of the step. Every optimiser here is one of
arrays, made one of pytrees by `optimizer`; the rules are those of the papers that their docstrings
name.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import tree as pytrees
from ..numpy import (
    abs as absolute,
    array,
    floor,
    isrealobj,
    maximum,
    minimum,
    sqrt,
    square,
    sum as total,
    vdot,
    where,
    zeros,
    zeros_like,
)

Schedule = Callable[[Any], Any]


class Optimizer(NamedTuple):
    """The three functions of an optimiser.

    >>> from pullback.example_libraries import optimizers
    >>> opt = optimizers.sgd(0.5)
    >>> opt.params_fn(opt.update_fn(0, 2., opt.init_fn(3.)))
    2.0
    """

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


OptimizerState = namedtuple("OptimizerState", ["packed_state", "tree_def", "subtree_defs"])
OptimizerState.__doc__ = """What an optimiser remembers: the leaves of each array's own state
(`packed_state`), the structure of the parameters (`tree_def`), and those of the states
(`subtree_defs`). A pytree.

>>> from pullback.example_libraries import optimizers
>>> init, update, get_params = optimizers.momentum(0.1, 0.9)
>>> len(init({'w': 1., 'b': 2.}).packed_state)
2
"""
pytrees.register_pytree_node(
    OptimizerState,
    lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
    lambda aux, children: OptimizerState(children[0], *aux),
)

# What an optimiser's functions are, for annotations.
InitFn = Callable[[Any], OptimizerState]
UpdateFn = Callable[[int, Any, OptimizerState], OptimizerState]
ParamsFn = Callable[[OptimizerState], Any]


class JoinPoint:
    """Marks, in an unpacked state, where the trees of an array's state begin.

    >>> from pullback.example_libraries import optimizers
    >>> state = optimizers.sgd(0.1)[0]({'w': 1.})
    >>> optimizers.unpack_optimizer_state(state)['w'].subtree
    1.0
    """

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Makes optimisers of pytrees from ones of arrays: `opt_maker(...)` gives (init, update,
    get_params) for one array, with any pytree as its state.

    >>> from pullback.example_libraries import optimizers
    >>> @optimizers.optimizer
    ... def descent(step):
    ...     return lambda x: x, lambda i, g, x: x - step * g, lambda x: x
    >>> init, update, get_params = descent(0.5)
    >>> get_params(update(0, {'w': 2.}, init({'w': 3.})))
    {'w': 2.0}
    """

    @functools.wraps(opt_maker)
    def tree_opt_maker(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(params: Any) -> OptimizerState:
            leaves, treedef = pytrees.flatten(params)
            flat = [pytrees.flatten(init(x)) for x in leaves]
            return OptimizerState(
                tuple(tuple(s) for s, _ in flat), treedef, tuple(d for _, d in flat)
            )

        def tree_update(step: Any, grads: Any, state: OptimizerState) -> OptimizerState:
            leaves, treedef = pytrees.flatten(grads)
            if treedef != state.tree_def:
                raise TypeError(
                    "optimizer update function was passed a gradient tree that did not match the "
                    "parameter tree structure with which it was initialized: parameter tree "
                    f"{state.tree_def} and grad tree {treedef}."
                )
            new = []
            for grad, packed, subtree in zip(
                leaves, state.packed_state, state.subtree_defs, strict=True
            ):
                flat, found = pytrees.flatten(
                    update(step, grad, pytrees.unflatten(subtree, packed))
                )
                if found != subtree:
                    raise TypeError(
                        "optimizer update function produced an output structure that did not match "
                        f"its input structure: input {subtree} and output {found}."
                    )
                new.append(tuple(flat))
            return OptimizerState(tuple(new), state.tree_def, state.subtree_defs)

        def tree_get_params(state: OptimizerState) -> Any:
            arrays = [
                get_params(pytrees.unflatten(d, s))
                for s, d in zip(state.packed_state, state.subtree_defs, strict=True)
            ]
            return pytrees.unflatten(state.tree_def, arrays)

        return Optimizer(tree_init, tree_update, tree_get_params)

    return tree_opt_maker


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The state as a pytree of the parameters' structure, with a JoinPoint for each array.

    >>> from pullback.example_libraries import optimizers
    >>> state = optimizers.sgd(0.1)[0]({'w': 1.})
    >>> list(optimizers.unpack_optimizer_state(state))
    ['w']
    """
    points = [
        JoinPoint(pytrees.unflatten(d, s))
        for s, d in zip(opt_state.packed_state, opt_state.subtree_defs, strict=True)
    ]
    return pytrees.unflatten(opt_state.tree_def, points)


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The inverse of `unpack_optimizer_state`.

    >>> from pullback.example_libraries import optimizers
    >>> state = optimizers.sgd(0.1)[0]({'w': 1.})
    >>> packed = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    >>> packed.tree_def == state.tree_def
    True
    """
    points, treedef = pytrees.flatten(marked_pytree, is_leaf=lambda x: isinstance(x, JoinPoint))
    flat = [pytrees.flatten(p.subtree) for p in points]
    return OptimizerState(tuple(tuple(s) for s, _ in flat), treedef, tuple(d for _, d in flat))


# --- schedules ---
def constant(step_size: Any) -> Schedule:
    """Always the same step size.

    A schedule is a function from the number of the step to its size.

    >>> from pullback.example_libraries import optimizers
    >>> optimizers.constant(0.1)(7)
    0.1
    """
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """`step_size * decay_rate ** (i / decay_steps)`.

    A schedule: a function from the number i of the step to its size.

    >>> from pullback.example_libraries import optimizers
    >>> optimizers.exponential_decay(1., 10, 0.5)(20)
    0.25
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """`step_size / (1 + decay_rate * i / decay_steps)`; with `staircase`, i / decay_steps is
    rounded down.

    A schedule: a function from the number i of the step to its size.

    >>> from pullback.example_libraries import optimizers
    >>> optimizers.inverse_time_decay(1., 10, 1.)(10)
    0.5
    """

    def schedule(i: Any) -> Any:
        passed = i / decay_steps
        return step_size / (1 + decay_rate * (floor(passed) if staircase else passed))

    return schedule


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0
) -> Schedule:
    """From `step_size` to `final_step_size` over `decay_steps`, as a power of what is left.

    A schedule: a function from the number of the step to its size.

    >>> from pullback.example_libraries import optimizers
    >>> optimizers.polynomial_decay(1., 10, 0.5)(5)
    Array(0.75, dtype=float32, weak_type=True)
    """

    def schedule(i: Any) -> Any:
        left = 1 - minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """`values[k]` after k of the boundaries. Raises ValueError unless there is one value more than
    boundaries.

    A schedule: a function from the number of the step to its size.

    >>> from pullback.example_libraries import optimizers
    >>> optimizers.piecewise_constant([10, 20], [1., 0.5, 0.25])(15)
    Array(0.5, dtype=float32)
    """
    edges, steps = array(boundaries), array(values)
    if not edges.ndim == steps.ndim == 1:
        raise ValueError("boundaries and values must be sequences")
    if edges.shape[0] != steps.shape[0] - 1:
        raise ValueError("boundaries length must be one shorter than values length")
    return lambda i: steps[total(i > edges)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule, of a number too. TypeError for anything else.

    >>> from pullback.example_libraries import optimizers
    >>> optimizers.make_schedule(0.1)(7)
    0.1
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule  # type: ignore[no-any-return]
    if getattr(scalar_or_schedule, "shape", ()) == () and hasattr(scalar_or_schedule, "__float__"):
        return constant(scalar_or_schedule)
    raise TypeError(
        "optimizers: a step size is a number or a function of the step, got "
        f"{type(scalar_or_schedule).__name__}"
    )


# --- optimisers of one array ---
@optimizer
def sgd(step_size: Any) -> Any:
    """Gradient descent: `x - step * g`.

    (init, update, get_params): `init(params)` makes a state, `update(i, gradients, state)` the next
    one, `get_params(state)` the parameters, any pytree of arrays. Step sizes are numbers or
    schedules.

    >>> from pullback.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sgd(0.5)
    >>> get_params(update(0, 2., init(3.)))
    2.0
    """
    schedule = make_schedule(step_size)
    return lambda x0: x0, lambda i, g, x: x - schedule(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent with momentum: `v = mass * v + g; x - step * v`.

    (init, update, get_params): `init(params)` makes a state, `update(i, gradients, state)` the next
    one, `get_params(state)` the parameters, any pytree of arrays. Step sizes are numbers or
    schedules.

    >>> from pullback.example_libraries import optimizers
    >>> init, update, get_params = optimizers.momentum(0.5, 0.9)
    >>> get_params(update(0, 2., init(3.)))
    Array(2., dtype=float32, weak_type=True)
    """
    schedule = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - schedule(i) * velocity, velocity

    return lambda x0: (x0, zeros_like(x0)), update, lambda state: state[0]


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Gradient descent with Nesterov's momentum: the step is `mass * v + g` with the new v.

    (init, update, get_params): `init(params)` makes a state, `update(i, gradients, state)` the next
    one, `get_params(state)` the parameters, any pytree of arrays. Step sizes are numbers or
    schedules.

    >>> from pullback.example_libraries import optimizers
    >>> init, update, get_params = optimizers.nesterov(0.5, 0.9)
    >>> get_params(update(0, 2., init(3.)))
    Array(1.1, dtype=float32, weak_type=True)
    """
    schedule = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - schedule(i) * (mass * velocity + g), velocity

    return lambda x0: (x0, zeros_like(x0)), update, lambda state: state[0]


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Adagrad (Duchi, Hazan and Singer 2011), with momentum.

    (init, update, get_params): `init(params)` makes a state, `update(i, gradients, state)` the next
    one, `get_params(state)` the parameters, any pytree of arrays. Step sizes are numbers or
    schedules.

    >>> from pullback.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adagrad(0.5)
    >>> get_params(update(0, 2., init(3.)))
    Array(2.95, dtype=float32, weak_type=True)
    """
    schedule = make_schedule(step_size)

    def init(x0: Any) -> Any:
        return x0, zeros_like(x0), zeros_like(x0)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, velocity = state
        squares = squares + square(g)
        scale = where(squares > 0, 1.0 / sqrt(squares), 0.0)
        velocity = (1.0 - momentum) * (g * scale) + momentum * velocity
        return x - schedule(i) * velocity, squares, velocity

    return init, update, lambda state: state[0]


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """RMSProp (Hinton's lecture 6e): steps over a running root mean square of gradients.

    (init, update, get_params): `init(params)` makes a state, `update(i, gradients, state)` the next
    one, `get_params(state)` the parameters, any pytree of arrays. Step sizes are numbers or
    schedules.

    >>> from pullback.example_libraries import optimizers
    >>> init, update, get_params = optimizers.rmsprop(0.5)
    >>> get_params(update(0, 2., init(3.)))
    Array(1.4188612, dtype=float32, weak_type=True)
    """
    schedule = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean = state
        mean = mean * gamma + square(g) * (1.0 - gamma)
        return x - schedule(i) * g / sqrt(mean + eps), mean

    return lambda x0: (x0, zeros_like(x0)), update, lambda state: state[0]


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Any:
    """RMSProp with momentum.

    (init, update, get_params): `init(params)` makes a state, `update(i, gradients, state)` the next
    one, `get_params(state)` the parameters, any pytree of arrays. Step sizes are numbers or
    schedules.

    >>> from pullback.example_libraries import optimizers
    >>> init, update, get_params = optimizers.rmsprop_momentum(0.5)
    >>> get_params(update(0, 2., init(3.)))
    Array(1.4188612, dtype=float32, weak_type=True)
    """
    schedule = make_schedule(step_size)

    def init(x0: Any) -> Any:
        return x0, zeros_like(x0), zeros_like(x0)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, velocity = state
        mean = mean * gamma + square(g) * (1.0 - gamma)
        velocity = momentum * velocity + schedule(i) * g / sqrt(mean + eps)
        return x - velocity, mean, velocity

    return init, update, lambda state: state[0]


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam (Kingma and Ba 2014): steps by bias-corrected running moments of the gradients.

    (init, update, get_params): `init(params)` makes a state, `update(i, gradients, state)` the next
    one, `get_params(state)` the parameters, any pytree of arrays. Step sizes are numbers or
    schedules.

    >>> from pullback.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adam(0.5)
    >>> get_params(update(0, 2., init(3.)))
    Array(2.5000033, dtype=float32)
    """
    schedule = make_schedule(step_size)

    def init(x0: Any) -> Any:
        return x0, zeros_like(x0), zeros_like(x0)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, first, second = state
        first = (1 - b1) * g + b1 * first
        second = (1 - b2) * array(square(g) if isrealobj(g) else g * g.conj()).real + b2 * second
        first_hat = first / (1 - array(b1, dtype=first.dtype) ** (i + 1))
        second_hat = second / (1 - array(b2, dtype=second.dtype) ** (i + 1))
        return x - schedule(i) * first_hat / (sqrt(second_hat) + eps), first, second

    return init, update, lambda state: state[0]


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """AdaMax (Kingma and Ba 2014, section 7.1): Adam with the infinity norm.

    (init, update, get_params): `init(params)` makes a state, `update(i, gradients, state)` the next
    one, `get_params(state)` the parameters, any pytree of arrays. Step sizes are numbers or
    schedules.

    >>> from pullback.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adamax(0.5)
    >>> get_params(update(0, 2., init(3.)))
    Array(2.5, dtype=float32)
    """
    schedule = make_schedule(step_size)

    def init(x0: Any) -> Any:
        return x0, zeros_like(x0), zeros_like(x0)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, first, largest = state
        first = (1 - b1) * g + b1 * first
        largest = maximum(b2 * largest, absolute(g))
        scale = schedule(i) / (1 - array(b1, dtype=first.dtype) ** (i + 1))
        return x - scale * first / (largest + eps), first, largest

    return init, update, lambda state: state[0]


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """SM3 (Anil, Gupta, Koren and Singer 2019): Adagrad with one accumulator an axis.

    (init, update, get_params): `init(params)` makes a state, `update(i, gradients, state)` the next
    one, `get_params(state)` the parameters, any pytree of arrays. Step sizes are numbers or
    schedules. Parameters are arrays of one axis or more.

    >>> from pullback.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sm3(0.5)
    >>> get_params(update(0, jnp.array([2.]), init(jnp.array([3.]))))
    Array([2.95], dtype=float32)
    """
    schedule = make_schedule(step_size)

    def along(n: int, axis: int, rank: int) -> tuple[int, ...]:
        return tuple(n if k == axis else 1 for k in range(rank))

    def init(x0: Any) -> Any:
        sums = [zeros(n, dtype=x0.dtype) for n in x0.shape]
        return x0, zeros_like(x0), sums if x0.ndim else [zeros((), dtype=x0.dtype)]

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity, sums = state
        rank = x.ndim
        placed = [v.reshape(along(v.size, k, rank)) if rank else v for k, v in enumerate(sums)]
        accumulated = functools.reduce(minimum, placed) + square(g)
        scale = where(accumulated > 0, 1.0 / sqrt(accumulated), 0.0)
        velocity = (1.0 - momentum) * (g * scale) + momentum * velocity
        new = [
            accumulated.max(tuple(a for a in range(rank) if a != k)) for k in range(max(rank, 1))
        ]
        return x - schedule(i) * velocity, velocity, new if rank else [accumulated]

    return init, update, lambda state: state[0]


# --- gradients ---
def l2_norm(tree: Any) -> Any:
    """The Euclidean norm of a pytree of arrays, as one vector.

    >>> from pullback.example_libraries import optimizers
    >>> optimizers.l2_norm([3., jnp.array([0., 4.])])
    Array(5., dtype=float32)
    """
    leaves = pytrees.flatten(tree)[0]
    return sqrt(sum(vdot(x, x) for x in leaves))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Gradients scaled down so that their norm is at most `max_norm`.

    `grad_tree`: a pytree of arrays, as is the result.

    >>> from pullback.example_libraries import optimizers
    >>> optimizers.clip_grads([jnp.array([3., 4.])], 1.)
    [Array([0.6, 0.8], dtype=float32)]
    """
    norm = l2_norm(grad_tree)
    return pytrees.tree_map(lambda g: where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)
