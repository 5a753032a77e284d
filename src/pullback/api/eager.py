"""Public functions called outside of transformations: after a few calls with arguments of the same
types, a call is one native program.

The mechanism is one for all functions. A call that the native side does not know runs the function
as it is written, operation by operation; when the same types come again, the function is traced
with them once and entered. Numbers among the arguments are operands where the parameter takes an
array (`maximum(x, 0.5)`), and part of the program elsewhere (`sum(x, 1)`), as are strings, dtypes
and slices. What cannot be traced (it looks at values, its result is no array, it warns) stays as
it is.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

import numpy as np

from .. import tree
from ..control.custom_jvp import custom_jvp
from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.trace import Tracer, current_trace
from ..primitives.convert import copy_p
from ..runtime import dispatch, stub
from ..runtime.array import ArrayImpl
from ..runtime.commitment import held, results_lie
from ..runtime.operands import Policy, replaced
from .jit import JitWrapped, jit
from .kinds import is_jitted, make_public
from .recording import Recording

__all__ = ["eager", "install", "is_lone_integer", "made_eager", "methods"]

# Parameters whose Python numbers are operands, by name.
OPERANDS = frozenset(
    "x y x1 x2 a b arr condition fill_value min max a_min a_max value values".split()
)
# Functions that treat a Python number in such a place as a part of the program.
NUMBERS_ARE_STATIC = frozenset("power pow float_power left_shift right_shift integer_pow".split())
# Functions that look at the value of their second operand where it is one integer: an array of it
# is part of the program too, and such calls stay as they are.
LOOK_AT_INTEGERS = frozenset({"power", "pow"})
# Operands that other functions have as parts of the program, by function.
OPERANDS_OF = {
    "array": "object",
    "_fold_in": "data",
    "key": "seed",
    "PRNGKey": "seed",
    "dynamic_slice": "start_indices",
    "dynamic_update_slice": "start_indices",
    "dynamic_slice_in_dim": "start_index",
    "dynamic_update_slice_in_dim": "start_index",
}
# Functions that may return an argument itself, as JAX's do; what others return is another array.
ITSELF = frozenset(
    "view transpose reshape broadcast_to broadcast convert_element_type astype concatenate getitem "
    "T".split()
)
# Functions that convert NumPy's numbers to the dtype of their result as NumPy does: programs take
# them in 32 bits, and their floats saturate.
EXACT = frozenset("full full_like".split())
SECOND = 2  # the call with known types that makes a small program native
TENTH = 10  # and a large one: compiling it costs as much as many calls
SMALL = 4  # equations
MANY = 64  # programs of one function, in which numbers are static, before it stays as it is
REMEMBERED = 4096  # keys of one function

NEVER = -1


class _Refused(Exception):
    """This call cannot be one program."""


def _policy(fun: Callable[..., Any], name: str) -> Policy:
    """Which arguments' numbers are operands."""
    code = getattr(fun, "__code__", None)  # `inspect.signature` would cost the import 20 ms
    if code is None or name in NUMBERS_ARE_STATIC:
        return Policy(-1, (), True)
    count = code.co_argcount
    own = OPERANDS_OF.get(name)
    key = code.co_varnames[: count + code.co_kwonlyargcount], count, own
    found = _policies.get(key)
    if found is None:
        operands = OPERANDS if own is None else OPERANDS | {own}
        statics = -1
        for k, p in enumerate(key[0][: min(count, 62)]):
            if p in operands:
                statics &= ~(1 << k)
        found = Policy(statics, tuple([p for p in key[0] if p in operands]), True)
        _policies[key] = found
    return found


_policies: dict[Any, Policy] = {}


def is_lone_integer(x: Any) -> bool:
    """Is `x` one integer of ours or of NumPy's, with a dtype and a value?"""
    if type(x) is not ArrayImpl and not isinstance(x, np.integer | np.ndarray):
        return False
    return bool(x.ndim == 0 and x.dtype.kind in "iu")


class EagerFunction:
    """What stands behind the native function: calls that it does not know yet."""

    def __init__(
        self, fun: Callable[..., Any], policy: Policy, accepts: Callable[..., bool] | None = None
    ) -> None:
        self.fun, self.policy, self.accepts = fun, policy, accepts
        self.first = SECOND if accepts is None else TENTH
        self.calls: dict[tuple[int, bytes], int] = {}  # by flags' values and operands
        self.operations: dict[Any, Any] = {}  # what recordings know of it
        self.programs: dict[tuple[int, bytes], Any] = {}  # traced, but too large to be compiled yet
        self.forwards = accepts is not None or fun.__name__ in ITSELF
        self.looks = fun.__name__ in LOOK_AT_INTEGERS
        self.function = stub.new_function(self, policy.statics, fun, policy.named, self.forwards)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any] | None:
        """Takes note of a call: its result in a tuple, or None. The native side then calls the
        function itself, so that no frame of ours lies between a user's line and what it warns
        of."""
        if self.accepts is not None and not self.accepts(*args, **kwargs):
            return None
        looks = self.looks and len(args) > 1 and is_lone_integer(args[1])
        trace = current_trace()
        if type(trace) is Recording:
            found = trace.record(self, args, kwargs) if trace.live and not looks else None
            return found or trace.call_with_values(self, args, kwargs)  # type: ignore[no-any-return]
        if not looks and stub.fast_path_open():
            key = stub.signature(self.function, args, kwargs)
            if key is not None:
                self._count(key, args, kwargs)
        return None

    def reduce(self) -> tuple[Any, ...]:
        """What pickles of the function hold."""
        return eager, (self.fun,)

    def __repr__(self) -> str:
        return f"<eager {self.fun!r}>"

    def _count(self, key: bytes, args: Any, kwargs: Any) -> None:
        calls, at = self.calls, (stub.config_key(), key)
        count = calls.get(at, 0)
        if count == NEVER:
            return
        if len(calls) >= REMEMBERED:
            calls.clear()
            self.programs.clear()
        calls[at] = count = count + 1
        if count == self.first or (count >= TENTH and at in self.programs):
            try:
                self._enter(at, args, kwargs, count)
            except Exception:  # the call itself tells the user what is wrong
                self.programs.pop(at, None)
                calls[at] = NEVER

    def _enter(self, at: tuple[int, bytes], args: Any, kwargs: Any, count: int) -> None:
        """Makes calls like this one native; at first only traces if the program is large."""
        found = self.programs.pop(at, None)
        if found is None:
            if stub.entry_count(self.function) >= MANY and self._has_values(args, kwargs):
                raise _Refused
            found = self._trace(args, kwargs)
            if len(found[0].jaxpr.eqns) > SMALL and count < TENTH:
                self.programs[at] = found
                return
        closed, out_tree = found
        program = dispatch.executable(closed)
        if (
            not program.nativable
            or program.has_host
            or len(program.plan_ins) != len(closed.in_avals)
        ):
            raise _Refused
        result = stub.result_of_call(out_tree, tree.unflatten, closed.out_avals)
        entry = stub.plan_entry(
            at[1],
            args,
            kwargs,
            program.plan,
            program.plan_ins,
            range(len(closed.in_avals)),
            program.consts,
            program.plan_outs,
            result,
            statics=self.policy,
            forwards=_forwarded(closed.jaxpr) if self.forwards else (),
            lie=functools.partial(self._lie, program, args, kwargs),
            in_avals=program.in_avals,
            release_gil=program.releases_gil,
            keep=(program,),
            on_error=program.raise_error,
        )
        if entry is None or not stub.add_entry(self.function, entry):
            raise _Refused

    def _lie(self, program: Any, args: Any, kwargs: Any, operands: list[Any]) -> Any:
        """How the results lie: as those of the function as it is written. Where that says more than
        that they are new arrays on the first device, it is asked: its operations may follow from
        arguments that its program does without."""
        if held(operands) is None and results_lie(program, operands) is None:
            return None
        results = tree.leaves(self.fun(*args, **kwargs))
        return [getattr(x, "_base_array", x)._lies_on for x in results]

    def _has_values(self, args: Any, kwargs: Any) -> bool:
        """Are numbers part of this call's key?"""
        _, held = stub.native_leaves(args, kwargs, self.policy)
        return any(type(x) in (int, float) for x in held)

    def _trace(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The program of a call, and the tree of its results."""
        leaves, _ = stub.native_leaves(args, kwargs, self.policy)
        if self.fun.__name__ in EXACT and any(
            isinstance(x, np.ndarray | np.generic) for x in leaves
        ):
            raise _Refused
        out: list[Any] = []

        def flat(*tracers: Any) -> list[Any]:
            # What is no array of ours yet is no result either.
            foreign = {
                id(t) for t, x in zip(tracers, leaves, strict=True) if type(x) is not ArrayImpl
            }
            rest = iter(tracers)
            args_, kwargs_ = replaced(args, kwargs, self.policy, lambda _: next(rest))
            results, out_tree = tree.flatten(self.fun(*args_, **kwargs_))
            if not results or not all(isinstance(x, Tracer | ArrayImpl) for x in results):
                raise _Refused
            out.append(out_tree)
            return [copy_p.bind(x) if id(x) in foreign else x for x in results]

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what warns must go on to warn
            jaxpr, consts = trace_to_jaxpr(flat, [typeof(x) for x in leaves])
        closed, hoisted = close_jaxpr(jaxpr, consts)
        if hoisted or closed.effects:
            raise _Refused
        return closed, out[0]


def _forwarded(jaxpr: Any) -> set[int]:
    """The numbers of the results that are arguments."""
    return {k for k, v in enumerate(jaxpr.outvars) if v in jaxpr.invars}


_made: dict[Any, Any] = {}


def eager(
    fun: Callable[..., Any],
    policy: Policy | None = None,
    accepts: Callable[..., bool] | None = None,
) -> Any:
    """`fun`, native when it is called outside of transformations with types that it has met.

    With `accepts`, calls for which it is false stay as they are, and the others become native when
    they have come often: what is quick already, and comes with many types.
    """
    found = _made.get(fun)
    if found is not None:
        return found
    name = getattr(fun, "__name__", "")
    native = _made[fun] = EagerFunction(fun, policy or _policy(fun, name), accepts).function
    native._eager = True
    stub.wraps(native, fun)
    return native


class _Ahead:
    """A method of jitted functions, and of the public ones that JAX jits: what `jit` of the
    function has. It is the type's: what wraps a function (`functools.wraps`) takes its attributes,
    and is not jitted itself.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, native: Any, owner: type) -> Any:
        if native is None:
            return self
        slow = native._slow
        if isinstance(slow, JitWrapped):
            return getattr(slow, self.name)
        if not is_jitted(native):
            raise AttributeError(
                f"{type(native).__name__!r} object has no attribute {self.name!r}",
                name=self.name,
                obj=native,
            )
        return functools.partial(_ahead, native, self.name)


def _ahead(native: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Calls a method of `jit(fun)`, where what is no array is static."""
    fun = inspect.unwrap(native)
    code = fun.__code__
    names = code.co_varnames[: code.co_argcount]

    def static(name: str | None, x: Any) -> bool:
        return name not in OPERANDS and not all(hasattr(y, "shape") for y in tree.leaves(x))

    numbers = [k for k, x in enumerate(args) if static(names[k] if k < len(names) else None, x)]
    jitted = jit(
        fun, static_argnums=numbers, static_argnames=[k for k, x in kwargs.items() if static(k, x)]
    )
    return getattr(jitted, name)(*args, **kwargs)


for _name in ("lower", "trace", "eval_shape", "clear_cache", "_cache_size"):
    setattr(stub.JitFunction, _name, _Ahead(_name))


# Functions that are not worth it: their results are no arrays, or they look at values, take
# functions, or have a better way of their own.
_LEFT = frozenset(
    "array asarray copy from_dlpack frombuffer fromfile fromfunction fromiter fromstring "
    "frompyfunc load save savez vectorize apply_along_axis apply_over_axes piecewise "
    "broadcast_shapes "
    "can_cast dtype einsum_path finfo get_printoptions iinfo iscomplexobj isdtype isrealobj "
    "isscalar issubdtype ix_ ndim printoptions promote_types result_type set_printoptions shape "
    "size array_repr array_str mask_indices fill_diagonal place put empty empty_like "
    "nonzero flatnonzero argwhere unique unique_all unique_counts unique_inverse unique_values "
    "extract trim_zeros setdiff1d setxor1d union1d intersect1d roots "
    "stage stop_gradient optimization_barrier shape_as_value scatter_apply".split()
)


def made_eager(name: str, fun: Any, module: str) -> Any:
    """A public name's value in a module of arrays: eager if it is a function of ours that gains by
    it."""
    ours = str(getattr(fun, "__module__", "")).startswith("pullback.")
    if name not in _LEFT and ours and isinstance(fun, FunctionType | custom_jvp):
        return make_public(eager(fun), name, module)
    return fun


def install(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Makes the functions of a module of arrays eager, under their public names."""
    for name in names:
        if name in namespace:
            namespace[name] = made_eager(name, namespace[name], namespace["__name__"])


def methods(table: dict[str, Callable[..., Any]], left: Iterable[str] = ()) -> dict[str, Any]:
    """The functions of a table, eager but for those in `left`."""
    out = {}
    for name, fun in table.items():
        known = _LEFT | frozenset(left)
        out[name] = eager(fun) if name not in known and inspect.isfunction(fun) else fun
    return out
