"""Ahead-of-time stages of a jitted function: Traced -> Lowered -> Compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import tree
from ..control.call import jit_p
from ..core.avals import typematch, typeof
from ..core.effects import check_lowerable
from ..core.jaxpr import ClosedJaxpr
from ..core.refs import ref_effect
from ..core.trace import Tracer
from ..lazy_imports import lazy_module
from ..primitives.sharding import inspect_effect
from ..records import record
from ..runtime import dispatch
from ..runtime.captured import warn_of_constants
from ..runtime.commitment import Flow, check_as_asked, check_devices, devices_of, held, lie
from ..runtime.devices import default_device_or_first
from ..runtime.donation import donation
from ..runtime.layouts import Format, Layout
from ..runtime.options import checked, memory_limit_of, threads_of
from ..runtime.shardings import Sharding, SingleDeviceSharding, on_devices
from ..transforms.partial_eval import dce_closed
from .arguments import ShapeDtypeStruct, argument_name, other_structure
from .asked import asked_or_typed

costs: Any = lazy_module("pullback.control.cost")
modules: Any = lazy_module("pullback.backends.xla.module")
xla_stage: Any = lazy_module("pullback.backends.xla.stage")


def _compiled(call: Any) -> Any:
    """The executable of a traced call."""
    limit = memory_limit_of(call.params["compiler_options_kvs"])
    return dispatch.executable(call.closed, _donation(call).taken, limit)


def _donation(call: Any) -> Any:
    return donation(call.closed, call.params["donated_invars"], call.params["keep_unused"])


class ArgInfo:
    """The type of an argument, and whether its memory is donated.

    >>> lowered = pb.jit(lambda x: x + 1).lower(1.0)
    >>> args, kwargs = lowered.args_info
    >>> args[0].donated
    False
    """

    __slots__ = ("_aval", "donated")

    def __init__(self, aval: Any, donated: bool) -> None:
        self._aval, self.donated = aval, donated

    shape = property(lambda self: self._aval.shape)
    dtype = property(lambda self: self._aval.dtype)

    def __repr__(self) -> str:
        return f"ArgInfo(_aval={self._aval!r}, donated={self.donated})"


class Stage:
    """What the stages share: the types of arguments and results."""

    def __init__(self, call: Any, in_tree: Any, fun: Any, lies: Sequence[Any] = ()) -> None:
        self._call, self.in_tree, self._fun = call, in_tree, fun
        self._lies = list(lies)  # how the example arguments lie; None where that is open
        self._placed = self._lies  # as far as they must

    @property
    def out_tree(self) -> Any:
        return self._call.out_tree

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return self._call.closed  # type: ignore[no-any-return]

    @property
    def fun_name(self) -> str:
        return self._call.params["name"]  # type: ignore[no-any-return]

    @property
    def out_info(self) -> Any:
        infos = [
            ShapeDtypeStruct(
                a.shape,
                a.dtype,
                weak_type=a.weak_type,
                sharding=s if known(s) else on_devices(getattr(a, "_sharding", None)),
            )
            for a, s in zip(
                self._call.closed.out_avals, self._call.params["out_shardings"], strict=True
            )
        ]
        return tree.unflatten(self.out_tree, infos)

    @property
    def args_info(self) -> Any:
        n = len(self._call.consts)
        donated = self._call.params["donated_invars"][n:]
        infos = [
            ArgInfo(a, d) for a, d in zip(self._call.closed.in_avals[n:], donated, strict=True)
        ]
        return tree.unflatten(self.in_tree, infos)

    def _cost_analysis(self) -> dict[str, float]:
        closed = self._call.closed  # what nobody reads is not computed
        cost = costs.program_cost(dce_closed(closed, [True] * len(closed.out_avals))[0])
        memory = _compiled(self._call).memory_analysis()
        moved = memory.argument_size_in_bytes + memory.output_size_in_bytes
        counts = {"flops": cost.flops, "transcendentals": cost.transcendentals}
        return {**counts, "bytes accessed": float(moved)}

    in_avals = property(
        lambda self: tree.unflatten(
            self.in_tree, self._call.closed.in_avals[len(self._call.consts) :]
        )
    )
    donate_argnums = property(
        lambda self: tuple(k for k, d in enumerate(self._call.params["donated_invars"]) if d)
    )

    _no_kwargs = property(lambda self: False)

    # What tests of JAX read that is not public: a program without the constants that JAX hands to
    # programs as arguments, which ours hold.
    _inner = property(
        lambda self: _Inner(list(self._call.closed.in_avals[len(self._call.consts) :]))
    )


@record
class _Inner:
    """What a program takes."""

    in_avals: list[Any]
    const_args: tuple[Any, ...] = ()
    _kept_var_idx: Any = None


class Traced(Stage):
    """A traced function: `.jaxpr`, `.out_info`, `.lower()`.

    >>> traced = pb.jit(lambda x: x + 1).trace(jnp.zeros(3))
    >>> traced.jaxpr
    { lambda ; a:f32[3]. let b:f32[3] = add a 1.0:f32[] in (b,) }
    """

    def __init__(self, call: Any, in_tree: Any, examples: Sequence[Any], fun: Any) -> None:
        placed = [_where_put(x) for x in examples]
        lies = [p or getattr(x, "sharding", None) for p, x in zip(placed, examples, strict=True)]
        super().__init__(call, in_tree, fun, lies)
        self._placed = placed

    out_avals = property(lambda self: tree.unflatten(self.out_tree, self._call.closed.out_avals))

    def eval_shape(self) -> Any:
        return self.out_info

    def lower(self, *, lowering_platforms: Sequence[str] | None = None, **options: Any) -> Lowered:
        """The program on its way to a compiler; `lowering_platforms` are those for which
        `as_text()` writes it as StableHLO."""
        check_lowerable(self._call.closed.effects)
        params, n = self._call.params, len(self._call.consts)
        placed = [
            asked if known(asked) else given
            for asked, given in zip(params["in_shardings"][n:], self._placed, strict=True)
        ]
        if any(p is not None for p in placed):
            flow = Flow(self._call.closed.jaxpr)
            for k, (asked, given) in enumerate(
                zip(params["in_shardings"][n:], self._placed, strict=True), n
            ):
                if known(asked):
                    check_as_asked(flow, k, given, asked)
            check_devices(flow, [*[None] * n, *placed], params["out_shardings"])
        _donation(self._call)  # warns of what no result can use
        warn_of_constants(self._call.closed)
        lowered = Lowered(self._call, self.in_tree, self._fun, self._lies)
        lowered._placed = self._placed
        lowered._platforms = tuple(lowering_platforms or ("cpu",))
        if "gpu" in lowered._platforms:
            raise RuntimeError(
                "Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are "
                "present. Platforms present are: cpu. Fix: lowering_platforms=('cuda',)."
            )
        if lowered._platforms != ("cpu",):
            lowered._stablehlo()  # what a platform does not have is an error here
        return lowered


class Lowered(Stage):
    """A program on its way to a compiler: `.as_text()`, `.compile()`.

    >>> lowered = pb.jit(lambda x: x + 1).lower(jnp.zeros(3))
    >>> lowered.out_info.shape
    (3,)
    """

    _platforms: tuple[str, ...] = ("cpu",)
    _module: Any = None
    _lowering = property(lambda self: self._inner)

    @property
    def out_info(self) -> Any:
        return tree.map(lambda x: x.update(weak_type=False), super().out_info)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """What the xla backend makes of the program: StableHLO ("stablehlo", the default; with the
        user's lines if `debug_info`) or XLA's own form ("hlo"), which need jaxlib; or what our own
        compiler compiles, as loops ("loops"), or the jaxpr ("jaxpr"). ValueError for other
        dialects.

        >>> lowered = pb.jit(lambda x: x + 1).lower(jnp.zeros(3))
        >>> "stablehlo.add" in lowered.as_text()
        True
        >>> "for vector" in lowered.as_text("loops")
        True
        """
        if dialect == "jaxpr":
            return str(self._call.closed)
        if dialect in (None, "stablehlo"):
            return str(modules.module_to_string(self._stablehlo(), debug_info))
        if dialect == "hlo":
            return str(modules.to_computation(self._stablehlo()).as_hlo_text())
        return str(self.compiler_ir(dialect).as_text())

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The module of the xla backend (None or "stablehlo"), XLA's computation ("hlo"), or the
        native executable ("loops"). ValueError for other dialects."""
        if dialect in (None, "stablehlo"):
            return self._stablehlo()
        if dialect == "hlo":
            return modules.to_computation(self._stablehlo())
        if dialect != "loops":
            raise ValueError(
                f"unknown dialect: {dialect}. Fix: 'loops', 'jaxpr', 'stablehlo' or 'hlo'."
            )
        return _compiled(self._call)

    def _stablehlo(self) -> Any:
        if self._module is None:
            self._module = self._made()
        return self._module

    def _made(self) -> Any:
        call = self._call
        closed, params = call.closed, call.params
        placed = [*[None] * len(call.consts), *self._placed]
        ins = asked_or_typed(params["in_shardings"], closed.in_avals, placed)
        outs = asked_or_typed(params["out_shardings"], closed.out_avals)
        made = xla_stage.lowered(
            closed, params, self.out_tree, self._platforms, ins, outs,
            devices_of(closed.jaxpr, [*ins, *outs]),
        )  # fmt: skip
        return made.module

    def cost_analysis(self) -> dict[str, float]:
        """As `Compiled.cost_analysis`."""
        return self._cost_analysis()

    def compile(self, compiler_options: Any = None, **options: Any) -> Compiled:
        """The program as machine code. `compiler_options` are as those of `jit`, and go before
        them."""
        call = self._call
        asked = checked(compiler_options)
        threads_of(asked)  # raises for names that are no options
        if asked:
            params = {**call.params, "compiler_options_kvs": asked}
            call = type(call)(call.closed, call.consts, call.out_tree, params)
        _compiled(call)
        compiled = Compiled(call, self.in_tree, self._fun, self._lies)
        compiled._placed = self._placed
        if inspect_effect in call.closed.effects:
            compiled._results_lie()
        return compiled


class Compiled(Stage):
    """A compiled program for fixed argument types: call it, or ask what it is and what it costs.

    >>> compiled = pb.jit(lambda x: x + 1).lower(jnp.zeros(3)).compile()
    >>> compiled(jnp.arange(3.0))
    Array([1., 2., 3.], dtype=float32)
    """

    @property
    def _executable(self) -> Any:
        """What it takes of the arguments: those that are used, unless all were to be kept."""
        call, n = self._call, len(self._call.consts)
        avals = call.closed.in_avals[n:]
        used = Flow(call.closed.jaxpr).used >> n
        kept = [k for k in range(len(avals)) if call.params["keep_unused"] or used >> k & 1]
        return _Inner([avals[k] for k in kept], _kept_var_idx=set(kept))

    _params = property(lambda self: self._inner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten((args, kwargs))
        if in_tree != self.in_tree:
            raise TypeError(self._other_tree(in_tree))
        for x in leaves:
            if isinstance(x, Tracer):
                raise TypeError(
                    "Cannot apply JAX transformations to a function lowered and compiled for a "
                    "particular signature. Detected argument of Tracer type "
                    f"{type(x)}. Fix: transform the jitted function instead, then lower it."
                )
        n = len(self._call.consts)
        wanted, found = self._call.closed.in_avals[n:], [typeof(x) for x in leaves]
        if not all(map(typematch, found, wanted)):
            raise TypeError(self._other_types(wanted, found))
        if any(_where_put(x) is not None for x in leaves):
            self._check_places(leaves)
        params = self._call.params
        if any(p is not None for p in self._placed):
            # What is put nowhere lies as the arguments that it was compiled for.
            places = [*[None] * n, *self._placed]
            asked = zip(params["in_shardings"], places, strict=True)
            params = {**params, "in_shardings": tuple(s if known(s) else p or s for s, p in asked)}
        return tree.unflatten(self.out_tree, jit_p.bind(*self._call.consts, *leaves, **params))

    def _check_places(self, leaves: Sequence[Any]) -> None:
        """ValueError for arrays that were put elsewhere than the program was compiled for."""
        info, n = self._call.closed.jaxpr.debug_info, len(self._call.consts)
        used = Flow(self._call.closed.jaxpr).used >> n
        wrong = [
            f"Argument {argument_name(info, k)} with shape {typeof(x).str_short()}:\n"
            f"  Passed sharding: {put}\n  Required sharding: {want}"
            for k, (x, want) in enumerate(zip(leaves, self._arguments_lie(), strict=True))
            for put in (_where_put(x),)
            if put is not None and used >> k & 1
            if not (put is want or put.is_equivalent_to(want, len(x.shape)))
        ]
        if wrong:
            raise ValueError(
                "Computation was compiled for input shardings that disagree with the shardings of "
                f"arguments passed to it. Here are the {len(wrong)} mismatches:\n"
                + "\n".join(wrong)
                + "\nFix: jax.device_put(x, compiled.input_shardings...) puts an array there."
            )

    def _other_tree(self, in_tree: Any) -> str:
        """What is said of a call with another structure."""
        lines = [
            f"    * at {where}, compiled for {want} but now given {have}, so {why}"
            for where, want, have, why in other_structure(self.in_tree, in_tree)
        ]
        return (
            "Function compiled with input pytree does not match the input pytree it was called "
            f"with. There are {len(lines)} mismatches, including:\n"
            + "\n".join(lines)
            + "\nFix: pass arguments of the structure that `lower` was given, without those that "
            "are static."
        )

    def _other_types(self, wanted: Sequence[Any], found: Sequence[Any]) -> str:
        """What is said of a call with other types."""
        info = self._call.closed.jaxpr.debug_info
        lines = [
            f"Argument '{argument_name(info, k)}' compiled with {want.str_short()} and called with "
            f"{have.str_short()}"
            for k, (want, have) in enumerate(zip(wanted, found, strict=True))
            if not typematch(want, have)
        ]
        return (
            "Argument types differ from the types for which this computation was compiled. "
            "Perhaps you are calling the compiled executable with a different enable_x64 mode than "
            "when it was AOT compiled? The mismatches are:\n" + "\n".join(lines)
        )

    @property
    def out_info(self) -> Any:
        """The types of results, and how they lie."""
        infos = tree.leaves(super().out_info)
        lies = map(_format, self._call.closed.out_avals, self._results_lie())
        return tree.unflatten(
            self.out_tree,
            [x.update(sharding=f, weak_type=False) for x, f in zip(infos, lies, strict=True)],
        )

    def as_text(self) -> str:
        """The machine program: plan, kernels and their assembly."""
        return str(_compiled(self._call).as_text())

    def cost_analysis(self) -> dict[str, float]:
        """Operations of one run ("flops", where a product and its sum are two; "transcendentals")
        and the bytes of arguments and results ("bytes accessed"). Bodies of loops of unknown length
        count once, of branches the dearest one counts."""
        return self._cost_analysis()

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results and temporaries."""
        return _compiled(self._call).memory_analysis()

    def runtime_executable(self) -> Any:
        return _compiled(self._call)

    @property
    def input_shardings(self) -> Any:
        """Where arguments lie, as (positional, keyword) trees of shardings; None for an argument
        that is not used, and not kept."""
        return tree.unflatten(self.in_tree, self._arguments_lie())

    @property
    def output_shardings(self) -> Any:
        """Where results lie, as their tree of shardings."""
        return tree.unflatten(self.out_tree, self._results_lie())

    @property
    def input_formats(self) -> Any:
        """The layouts and shardings of arguments, as (positional, keyword) trees."""
        avals = self._call.closed.in_avals[len(self._call.consts) :]
        lie = self._arguments_lie()
        found = [
            Format(None, None) if s is None else _format(a, s)
            for a, s in zip(avals, lie, strict=True)
        ]
        return tree.unflatten(self.in_tree, found)

    @property
    def output_formats(self) -> Any:
        """The layouts and shardings of results."""
        found = map(_format, self._call.closed.out_avals, self._results_lie())
        return tree.unflatten(self.out_tree, list(found))

    def _arguments_lie(self) -> list[Any]:
        n = len(self._call.consts)
        asked = self._call.params["in_shardings"][n:]
        place = SingleDeviceSharding(default_device_or_first())
        return [
            None if not used else a if known(a) else given or place
            for a, given, used in zip(asked, self._lies, self._used()[n:], strict=True)
        ]

    def _used(self) -> list[bool]:
        """Which operands the program takes: all of them if it writes to references."""
        closed = self._call.closed
        if self._call.params["keep_unused"] or ref_effect in closed.effects:
            return [True] * len(closed.in_avals)
        return list(dce_closed(closed, [True] * len(closed.out_avals))[1])

    def _results_lie(self) -> list[Any]:
        params, consts = self._call.params, len(self._call.consts)
        given = [*[None] * consts, *self._placed]
        asked = params["in_shardings"], params["out_shardings"]
        found = lie(_compiled(self._call), given if any(self._placed) else None, len(given), *asked)
        place = SingleDeviceSharding(default_device_or_first())
        return found or [place] * len(self._call.closed.out_avals)


def _where_put(x: Any) -> Any:
    """The sharding that an array is committed to, or that a type has; None if there is none."""
    if isinstance(x, ShapeDtypeStruct):
        return x.sharding
    found = held([x])
    return None if found is None else found[0]


def _format(aval: Any, sharding: Any) -> Format:
    return Format(Layout(tuple(range(len(aval.shape))), ()), sharding)


def known(sharding: Any) -> bool:
    """Is this a sharding, and not one that was left open?"""
    return isinstance(sharding, Sharding)
