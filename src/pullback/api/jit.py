"""`jit`: which arguments are static, when a call must be traced, and what a traced call becomes."""

from __future__ import annotations

import copyreg
import functools
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import config, tree
from ..control.call import UNSPECIFIED, UnspecifiedValue, call_params, jit_p
from ..control.partitioned import holds_partitioned
from ..core.high import is_high_value
from ..core.jaxpr import ClosedJaxpr
from ..core.naming import fun_source_info, parameters_of
from ..core.refs import check_not_closed_over, name_of_argument, ref_effect, ref_places
from ..core.source import names_of
from ..core.trace import Tracer, trace_context
from ..core.tracebacks import boundary, filter_traceback
from ..runtime import dispatch, operands, options, stub
from ..runtime.commitment import name_shardings, results_lie, types_lie
from ..runtime.devices import local_devices
from ..runtime.donation import donation, on_several
from ..runtime.meshes import get_mesh
from ..runtime.operands import Policy
from . import asked, programs, stages
from .arguments import (
    ShapeDtypeStruct,
    as_names,
    as_tuple,
    check_callable,
    checked_avals,
    debug_info,
)

if TYPE_CHECKING:
    from .stages import Lowered, Traced


class NotSpecified:
    """The function of `jit(static_argnums=...)`, which is called to decorate one."""

    def __repr__(self) -> str:
        return "<not-specified>"


NOT_SPECIFIED = NotSpecified()


class JitInfo:
    """What `jit` was told: static and donated arguments by position and name, and options of the
    call.
    """

    def __init__(
        self,
        fun: Any,
        static_argnums: Any,
        static_argnames: Any,
        donate_argnums: Any,
        donate_argnames: Any,
        keep_unused: bool,
        inline: bool,
        in_shardings: Any = None,
        out_shardings: Any = None,
        compiler_options: Any = None,
        moves: bool = False,
    ) -> None:
        self.moves = moves  # arguments to the device of `out_shardings`
        self.compiler_options = options.checked(compiler_options)
        self.in_shardings = asked.checked(in_shardings, "in_shardings")
        self.out_shardings = asked.checked(out_shardings, "out_shardings")
        self.parameters = parameters_of(fun)
        nums, names = (
            as_tuple(static_argnums, "static_argnums"),
            as_names(static_argnames, "static_argnames"),
        )
        self.static_argnums, self.static_argnames = self._complete(
            fun, nums, names, static_argnums, static_argnames, "static"
        )
        nums, names = (
            as_tuple(donate_argnums, "donate_argnums"),
            as_names(donate_argnames, "donate_argnames"),
        )
        self.donate_argnums, self.donate_argnames = self._complete(
            fun, nums, names, donate_argnums, donate_argnames, "donate"
        )
        for kind, what in (("argnames", "names"), ("argnums", "numbers")):
            both = set(getattr(self, f"static_{kind}")) & set(getattr(self, f"donate_{kind}"))
            if both:
                raise ValueError(
                    f"static_{kind} and donate_{kind} cannot intersect. Argument "
                    f"{what} {both} appear in both static_{kind} and donate_{kind}. Fix: donate "
                    "arrays only; static arguments have no memory."
                )
        self.keep_unused, self.inline = keep_unused, inline

    def _complete(
        self,
        fun: Any,
        nums: tuple[int, ...],
        names: tuple[str, ...],
        given_nums: Any,
        given_names: Any,
        kind: str,
    ) -> Any:
        """Checks positions and names against the signature, and adds to each what the other
        implies.
        """
        parameters = self.parameters
        if parameters is None or (not nums and not names):
            return nums, names
        positional = parameters.positional
        for k in nums:
            if not parameters.var_positional and not -len(positional) <= k < len(positional):
                raise ValueError(
                    f"Jitted function has {kind}_argnums={nums}, but only accepts "
                    f"{len(positional)} positional arguments."
                )
        known = {*positional, *parameters.keyword_only}
        invalid = set(names) - known
        if invalid and not parameters.var_keyword:
            raise ValueError(
                f"Jitted function has invalid argnames {invalid} in {kind}_argnames. Function does "
                f"not take these args. Fix: use names among {sorted(known)}."
            )
        unnamed = {*positional[: parameters.positional_only], *parameters.rest} & set(names)
        if unnamed:
            raise ValueError(
                f"Jitted function has invalid argnames {unnamed} in {kind}_argnames. These are "
                f"positional-only. Fix: {kind}_argnums."
            )
        position = {name: k for k, name in enumerate(positional)}
        nums = tuple(
            [k % len(positional) if k < 0 and not parameters.var_positional else k for k in nums]
        )
        all_nums, all_names = nums, names
        if given_nums is None and not nums:
            all_nums = tuple(position[n] for n in names if n in position)
        if given_names is None and not names:
            all_names = tuple(
                positional[k] for k in nums if parameters.positional_only <= k < len(positional)
            )
        return tuple(sorted(set(all_nums))), tuple(sorted(set(all_names)))


class TracedCall:
    """A traced program of a jitted function: the program, the values that it closed over, the tree
    of its results, and its parameters.
    """

    __slots__ = ("closed", "consts", "out_tree", "params")

    def __init__(
        self, closed: ClosedJaxpr, consts: list[Any], out_tree: Any, params: dict[str, Any]
    ) -> None:
        self.closed, self.consts, self.out_tree, self.params = closed, consts, out_tree, params


_UNNAMED = "<unnamed function>"
MOST_STRUCTURES = 64  # of one function's arguments, among those that Python opens


class JitWrapped:
    """A jitted function. Calling it runs the compiled program for the arguments' types, tracing and
    compiling at the first call with them.
    """

    def __init__(self, fun: Callable[..., Any], info: JitInfo) -> None:
        self._fun, self._info = fun, info
        self._policy = Policy(
            sum(1 << k for k in info.static_argnums if 0 <= k < 64),
            tuple(map(sys.intern, info.static_argnames)),
        )
        self._known = programs.known_of(fun)
        self._calls = self._known.calls_of(self._options())
        self._function: Callable[[], Any] = lambda: None

    def _options(self) -> Any:
        i = self._info
        return (
            i.static_argnums,
            i.static_argnames,
            i.donate_argnums,
            i.donate_argnames,
            i.keep_unused,
            i.inline,
            i.in_shardings,
            i.out_shardings,
            i.compiler_options,
            i.moves,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A call that the native fast path does not know: trace if need be, run, and make such
        calls native.
        """
        try:
            return self._called(args, kwargs)
        except Exception as error:
            filter_traceback(error)
            raise  # as it is now

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if config.disable_jit.get():
            return self._fun(*args, **kwargs)
        if self._info.moves:
            args, kwargs = asked.moved((args, kwargs), self._info.out_shardings)
        if self._calls.by_leaves:
            result = self._call_by_leaves(args, kwargs)
            if result is not None:
                return result
        is_open = stub.fast_path_open()
        if is_open:
            copied = operands.readable(args, kwargs)
            if copied is not None:
                return self.function(*copied[0], **copied[1])
        call, leaves, in_tree = self._infer(args, kwargs)
        leaves = _values(call, leaves, self._said(args, kwargs)[1])
        function, entry = self.function, None
        if is_open and self._nativable(call):
            key = stub.signature(function, args, kwargs)
            if key is not None:
                entry = native_entry(key, call, args, kwargs, self._policy)
            elif not self._info.static_argnums and not self._info.static_argnames:
                key = stub.signature(0, leaves, {})
                if key is not None:
                    function = self._function_of_leaves(in_tree)
                    entry = native_entry(key, call, tuple(leaves), {})
        outs = jit_p.bind(*call.consts, *leaves, **call.params)
        if entry is not None:
            stub.add_entry(function, entry)
        return tree.unflatten(call.out_tree, outs)

    # Containers that only Python can open (classes with flatten functions of their own) are opened,
    # and the call is that of a native function of the leaves, one for each structure.
    def _call_by_leaves(self, args: Any, kwargs: dict[str, Any]) -> Any:
        """The result of a call whose leaves have been met; None if they have not."""
        leaves, in_tree = tree.flatten((args, kwargs))
        try:
            function = self._calls.by_leaves.get(in_tree)
        except TypeError:  # a part of the structure has no hash
            return None
        return None if function is None else function(*leaves)

    def _function_of_leaves(self, in_tree: Any) -> Any:
        if len(self._calls.by_leaves) >= MOST_STRUCTURES:
            self._calls.by_leaves.clear()
        found = self._calls.by_leaves.get(in_tree)
        if found is None:
            found = self._calls.by_leaves[in_tree] = stub.new_function(lambda *_: None)
        return found

    def _nativable(self, call: TracedCall) -> bool:
        """Whether calls like this one can be native."""
        return (
            not call.consts
            and ref_effect not in call.closed.effects
            and not call.closed.jaxpr.is_high
            and max(self._info.static_argnums, default=0) < 64
        )

    @property
    def function(self) -> Any:
        """The callable that users hold: a native function in front of this object, which it keeps
        alive and not the other way round: what only it holds goes when it does."""
        return self._function() or self._new_function()

    def _new_function(self) -> Any:
        native = stub.new_function(self, self._policy.statics, named=self._policy.named)
        stub.wraps(native, self._fun)
        native.__dict__.update(_fun=self._fun, _info=self._info)
        self._calls.entries.serve(native)
        if not {"__name__", "__qualname__"} <= native.__dict__.keys():
            native.__name__, native.__qualname__ = names_of(self._fun)
        self._function = weakref.ref(native)
        return native

    def reduce(self) -> tuple[Any, ...]:
        """What pickles of the function hold."""
        return _rebuild, (self._fun, self._options())

    def __repr__(self) -> str:
        return f"<PjitFunction of {self._fun!r}>"

    # --- from arguments to a traced program ---
    def _split(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], Any, Any, dict[str, Any]]:
        """(key of the static arguments, dynamic positional arguments, dynamic keyword arguments,
        static keyword arguments).
        """
        info = self._info
        if not info.static_argnums and not info.static_argnames:
            return (), args, kwargs, {}
        n = len(args)
        fixed = {k % n if -n <= k < 0 else k for k in info.static_argnums if -n <= k < n}
        static_kw = {k: v for k, v in kwargs.items() if k in info.static_argnames}
        statics = [(k, args[k]) for k in sorted(fixed)] + sorted(static_kw.items())
        for _, x in statics:
            _check_hashable(x)
        dynamic = tuple(x for k, x in enumerate(args) if k not in fixed)
        return (
            tuple((k, type(x), x) for k, x in statics),
            dynamic,
            {k: v for k, v in kwargs.items() if k not in static_kw},
            static_kw,
        )

    def _infer(self, args: Any, kwargs: dict[str, Any]) -> tuple[TracedCall, list[Any], Any]:
        if kwargs and not _is_open(self._info.in_shardings):
            raise ValueError("pjit does not support kwargs when in_shardings is specified.")
        statics, dynamic, dynamic_kw, static_kw = self._split(args, kwargs)
        leaves, in_tree = tree.flatten((tuple(dynamic), dynamic_kw))
        leaves = [
            x.__jax_array__() if hasattr(x, "__jax_array__") and not is_high_value(x) else x
            for x in leaves
        ]
        avals = checked_avals(self._fun, leaves, args, kwargs)
        what, names = self._said(args, kwargs)
        refs = ref_places(leaves, what, names)
        key = (statics, in_tree, tuple(avals), trace_context())
        call = self._calls.traced.get(key) if not statics else self._compared(key)
        if call is None:
            call, reusable = self._call_of(args, kwargs, statics, static_kw, in_tree, avals)
            if reusable:
                self._calls.traced[key] = call
        if not _is_open(self._info.in_shardings):
            asked.check_memory(call.params["in_shardings"][len(call.consts) :], leaves)
        if refs:
            check_not_closed_over(refs, call.consts, what, names)
        return call, leaves, in_tree

    def _said(self, args: Any, kwargs: Any) -> tuple[Callable[[], str], Callable[[], Any]]:
        """How messages call the function, and the leaves of its arguments."""
        fun = self._fun
        return (
            lambda: f"{fun_source_info(fun)} for jit",
            lambda: debug_info("jit", fun, args, kwargs).arg_names,
        )

    def _compared(self, key: Any) -> TracedCall | None:
        """The call that was traced for a key with static arguments, which are compared here."""
        try:
            return self._calls.traced.get(key)
        except Exception as e:
            kinds = ", ".join(str(kind) for _, kind, _ in key[0])
            raise ValueError(
                "static arguments should be comparable using __eq__. The following error was "
                f"raised when comparing objects of types {kinds}: {type(e).__name__}: {e}. Fix: "
                "define __eq__ and __hash__ of that class, or do not mark the argument static."
            ) from e

    def _call_of(
        self, args: Any, kwargs: Any, statics: Any, static_kw: Any, in_tree: Any, avals: Any
    ) -> tuple[TracedCall, bool]:
        """The call for arguments of these types, and whether others may use it."""
        program = programs.traced(self._fun, args, kwargs, statics, in_tree, avals, self._known)
        fixed = {k: x for k, _, x in statics if isinstance(k, int)}
        closed, hoisted = program.parts
        donated = [False] * len(hoisted) + self._donated(args, kwargs, fixed, static_kw)
        params = call_params(
            closed,
            _name_of(self._fun),
            donated_invars=donated,
            keep_unused=self._info.keep_unused,
            inline=self._info.inline,
            **self._asked(args, kwargs, fixed, closed, len(hoisted), program.out_tree),
        )
        params["compiler_options_kvs"] = self._info.compiler_options
        mesh = get_mesh()
        params["ctx_mesh"] = None if mesh.empty else mesh
        return TracedCall(closed, hoisted, program.out_tree, params), program.reusable()

    def _asked(
        self, args: Any, kwargs: Any, fixed: Any, closed: ClosedJaxpr, hoisted: int, out_tree: Any
    ) -> dict[str, Any]:
        """The shardings that the call asks for, one for each operand and each result."""
        info = self._info
        if _is_open(info.in_shardings) and _is_open(info.out_shardings):
            return {}
        dynamic = [x for k, x in enumerate(args) if k not in fixed]
        in_avals, n_out = closed.in_avals[hoisted:], len(closed.out_avals)
        names = self._said(args, kwargs)[1]
        name = lambda k: name_of_argument(names, k)
        ins = asked.of_arguments(info.in_shardings, dynamic, in_avals, name)
        asked.check_fits(ins, in_avals, name, "pjit arguments")
        numbered: Callable[[], Any] = lambda: tree.flatten_with_path(
            tree.unflatten(out_tree, range(n_out))
        )[0]
        path = lambda k: "result" + tree.keystr(numbered()[k][0])
        outs = asked.of_results(info.out_shardings, out_tree, closed.out_avals, path)
        asked.check_fits(outs, closed.out_avals, path, "pjit outputs")
        name_shardings()
        return {"in_shardings": [UNSPECIFIED] * hoisted + ins, "out_shardings": outs}

    def _donated(self, args: Any, kwargs: Any, fixed: Any, static_kw: Any) -> list[bool]:
        info, n = self._info, len(args)
        given = {k % n if -n <= k < 0 else k for k in info.donate_argnums}
        flags: list[bool] = []
        for k, x in enumerate(args):
            if k not in fixed:
                flags += [k in given] * len(tree.flatten(x)[0])
        for k in sorted(kwargs):
            if k not in static_kw:
                flags += [k in info.donate_argnames] * len(tree.flatten(kwargs[k])[0])
        return flags

    # --- ahead of time ---
    @boundary
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The traced program for arguments of these types (arrays or ShapeDtypeStructs)."""
        call, leaves, in_tree = self._infer(args, kwargs)
        traced: Traced = stages.Traced(call, in_tree, leaves, self._fun)
        return traced

    @boundary
    def lower(self, *args: Any, lowering_platforms: Any = None, **kwargs: Any) -> Lowered:
        """The lowered program for arguments of these types; `.compile()` gives what runs."""
        return self.trace(*args, **kwargs).lower(lowering_platforms=lowering_platforms)

    @boundary
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the results for arguments of these types."""
        call, _, _ = self._infer(args, kwargs)
        inferred = types_lie(call.closed.jaxpr)
        asked = call.params["out_shardings"]
        return tree.unflatten(
            call.out_tree,
            [
                ShapeDtypeStruct(
                    a.shape,
                    a.dtype,
                    weak_type=a.weak_type,
                    sharding=s if stages.known(s) else t,
                    manual_axis_type=a.manual_axis_type or None,
                )
                for a, s, t in zip(call.closed.out_avals, asked, inferred, strict=True)
            ],
        )

    def clear_cache(self) -> None:
        """Forgets every traced program of this function."""
        self._calls.clear()
        self._known.programs.clear()

    def _cache_size(self) -> int:
        return len(self._calls.traced)


def _values(call: TracedCall, leaves: list[Any], names: Callable[[], Any]) -> list[Any]:
    """A call's arguments, with arrays for types: TypeError if the program uses a type."""
    types = [k for k, x in enumerate(leaves) if type(x) is ShapeDtypeStruct]
    if not types:
        return leaves
    jaxpr = call.closed.jaxpr
    used = {id(v) for v in (*jaxpr.outvars, *(v for e in jaxpr.eqns for v in e.invars))}
    given = jaxpr.invars[len(jaxpr.invars) - len(leaves) :]
    leaves = list(leaves)
    for k in types:
        if call.params["keep_unused"] or id(given[k]) in used:
            raise TypeError(
                f"Argument '{name_of_argument(names, k)}' of shape {given[k].aval.str_short()} of "
                f"type {type(leaves[k])} is not a valid JAX type. A ShapeDtypeStruct does not have "
                "a value. Fix: pass an array, or call jax.eval_shape, which needs types only."
            )
        leaves[k] = np.empty(leaves[k].shape, leaves[k].dtype)
    return leaves


def _is_open(shardings: Any) -> bool:
    """Does a call ask for no shardings at all?"""
    return shardings is None or isinstance(shardings, UnspecifiedValue)


def _check_hashable(x: Any) -> None:
    try:
        hash(x)
    except TypeError as e:
        if isinstance(x, Tracer):
            raise ValueError(
                "Non-hashable static arguments are not supported: a traced value "
                f"({x.aval.str_short()}) was passed as one. Fix: do not mark it static."
            ) from None
        raise ValueError(
            "Non-hashable static arguments are not supported. An error occurred while trying to "
            f"hash an object of type {type(x)}, {x}. The error was:\n"
            f"TypeError: {e}\nFix: {_instead_of_unhashable(x)}."
        ) from None


def _instead_of_unhashable(x: Any) -> str:
    """What to pass as a static argument in the place of `x`, which has no hash."""
    if hasattr(x, "dtype"):
        return "leave arrays out of static_argnums and static_argnames"
    if isinstance(x, dict):
        return "pass tuple(sorted(x.items())), or an object with __hash__ and __eq__"
    if isinstance(x, set):
        return "pass a frozenset instead of a set"
    return "pass a tuple instead of a list, or an object with __hash__ and __eq__"


def native_entry(
    key: bytes, call: TracedCall, args: Any, kwargs: Any, statics: int | Policy = 0
) -> Any:
    """The native entry of calls like this one; None if they cannot be native."""
    if holds_partitioned(call.closed.jaxpr):
        return None
    asked = call.params["compiler_options_kvs"]
    limit = options.memory_limit_of(asked)
    params = call.params
    donated = donation(call.closed, params["donated_invars"], params["keep_unused"]).taken
    if True in donated and on_several(params, tree.leaves((args, kwargs))):
        return None  # what is given away depends on how arguments lie
    program = dispatch.executable(call.closed, donated, limit)
    if not program.nativable or not program.settled():
        return None
    order = stub.leaf_order(lambda t: tree.flatten(t)[0], args, kwargs, statics)
    if len(order) != len(program.plan_ins):
        return None
    result = stub.result_of_call(call.out_tree, tree.unflatten, call.closed.out_avals)
    return stub.plan_entry(
        key,
        args,
        kwargs,
        program.plan,
        program.plan_ins,
        order,
        program.consts,
        program.plan_outs,
        result,
        statics=statics,
        donated=donated,
        lie=lambda args: results_lie(
            program, args, params["in_shardings"], params["out_shardings"]
        ),
        in_avals=program.in_avals,
        release_gil=program.releases_gil,
        threads=options.threads_of(asked),
        keep=(program,),
        on_error=program.raise_error,
        on_host=program.run_host if program.has_host else None,
    )


def _name_of(fun: Any) -> str:
    """What programs call a function: a partial is called as its function, an object has no name."""
    if isinstance(fun, functools.partial):
        fun = fun.func
    return str(getattr(fun, "__name__", None) or _UNNAMED)


def _rebuild(fun: Any, info: Any) -> Any:
    return JitWrapped(fun, JitInfo(fun, *info)).function


def _reduce(f: Any) -> tuple[Any, ...]:
    reduce = getattr(f._slow, "reduce", None)
    if reduce is not None:
        return reduce()  # type: ignore[no-any-return]
    # Without native code it may be a plain function, or what looks after its results.
    return _rebuild_plain, (getattr(f._slow, "plain", f._slow),)


def _rebuild_plain(fun: Any) -> Any:
    return fun


def _text(f: Any) -> str:
    if isinstance(f, FunctionType):  # a public function that JAX does not jit: api/kinds.py
        return f"<function {f.__qualname__} at {id(f):#x}>"
    try:
        return f"<PjitFunction of {f.__wrapped__!r}>"
    except Exception:  # of what it wraps, or because somebody took that away
        return "<PjitFunction>"


def _state(f: Any) -> dict[str, Any]:
    return {**f.__dict__, "function_name": names_of(getattr(f, "__wrapped__", f))[0]}


copyreg.pickle(stub.JitFunction, _reduce)
stub.JitFunction.__repr__ = _text
stub.JitFunction.__getstate__ = _state


def jit(
    fun: Callable[..., Any] | NotSpecified = NOT_SPECIFIED,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """`fun`, compiled: traced once for each combination of argument types and static values, then
    run as machine code.

    `fun` takes and returns pytrees of arrays; it must be pure. `static_argnums`/`static_argnames`
    mark arguments (hashable) that are part of the program; `donate_argnums`/`donate_argnames`
    arguments whose memory may be reused. `in_shardings` and `out_shardings` (a Sharding, a
    PartitionSpec for the mesh that `set_mesh` put in force, None, or a pytree prefix of them) say
    how positional arguments and results lie on devices. `compiler_options={"num_threads": n}` has
    calls of the function computed by n threads, wherever they are made; `{"memory_limit": n}` has
    values computed again rather than kept until arguments, results and temporaries take n bytes at
    most, and raises JaxRuntimeError if that cannot be. They are for the outermost jitted function:
    ValueError where one that has some is called in another, or differentiated in reverse.

    >>> @pb.jit
    ... def f(x): return jnp.sin(x) ** 2
    >>> f(1.0)
    Array(0.7080734, dtype=float32, weak_type=True)

    Raises TypeError for arguments that are not arrays, ValueError for unhashable static arguments.
    """
    given = {
        "in_shardings": in_shardings,
        "out_shardings": out_shardings,
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
        "keep_unused": keep_unused,
        "device": device,
        "backend": backend,
        "inline": inline,
        "compiler_options": compiler_options,
    }
    moves = device is not None or backend is not None
    if isinstance(fun, NotSpecified):
        return functools.partial(jit, **given)
    check_callable(fun)
    if device is not None and backend is not None:
        raise ValueError(
            f"can't specify both a device and a backend for jit, got {device=} and {backend=}."
        )
    if moves:
        warnings.warn(
            "backend and device argument on jit is deprecated. You can use `jax.device_put(..., "
            'jax.local_devices(backend="cpu")[0])` on the inputs to the jitted function to get the '
            "same behavior.",
            DeprecationWarning,
            stacklevel=2,
        )
        for name, asked_for in (("in", in_shardings), ("out", out_shardings)):
            if not _is_open(asked_for):
                raise ValueError(
                    f"If backend or device is specified on jit, then {name}_shardings should not "
                    "be specified."
                )
        chosen = device if device is not None else local_devices(backend=backend)[0]
        out_shardings = asked.device_sharding(chosen)
    info = JitInfo(
        fun, static_argnums, static_argnames, donate_argnums, donate_argnames, keep_unused, inline,
        in_shardings, out_shardings, compiler_options, moves,
    )  # fmt: skip
    return JitWrapped(fun, info).function


def clear_caches() -> None:
    """Forgets every traced and compiled program of the process.

    What is on disk stays there.

    >>> pb.clear_caches()
    """
    programs.clear()
    dispatch.clear_caches()
