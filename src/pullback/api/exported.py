"""Programs that outlive their process: `export`, what it gives, and calls of it.

An exported program is a jaxpr whose sizes may have names. A call says what they are: the program of
these sizes is made, and compiled, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config, dtypes, tree
from ..control.call import UNSPECIFIED, call_params, jit_p
from ..control.custom_vjp import custom_vjp
from ..core.avals import ShapedArray, typeof
from ..core.build import is_staged
from ..core.dim_programs import check_names, of_sizes, size_of, sizes_from
from ..core.dims import DimExpr
from ..core.effects import ordered_effects
from ..core.jaxpr import ClosedJaxpr
from ..core.trace import Tracer
from ..lazy_imports import lazy_module
from ..runtime.commitment import devices_of, held, name_shardings
from ..runtime.devices import default_backend
from ..runtime.meshes import get_mesh
from ..runtime.shardings import NamedSharding
from ..runtime.stub import JitFunction
from ..transforms.partial_eval import dce_closed
from .arguments import ShapeDtypeStruct, other_structure
from .asked import asked_or_typed
from .derivatives import vjp
from .jit import jit

bytes_of: Any = lazy_module("pullback.api.export_bytes")
modules: Any = lazy_module("pullback.backends.xla.module")
xla_stage: Any = lazy_module("pullback.backends.xla.stage")

CALLING_CONVENTION = 10


class DisabledSafetyCheck:
    """A check that `export` leaves out.

    >>> from pullback import export
    >>> export.DisabledSafetyCheck.custom_call("my_function")
    custom_call:my_function
    """

    __slots__ = ("_impl",)

    def __init__(self, _impl: str) -> None:
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """That a program is called on a platform that it was exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """That foreign code of the name `target_name` is known to stay as it is."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The name of the foreign code that this is about, if it is about any."""
        head, _, name = self._impl.partition(":")
        return name if head == "custom_call" else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __repr__(self) -> str:
        return self._impl


class Exported:
    """An exported program: call it (`.call`), or write it down (`.serialize`).

    `export` and `deserialize` make these. `in_avals` and `out_avals`: the types of arguments and
    results, flat, as `in_tree` and `out_tree` hold them; sizes may be symbolic. `fun_name`,
    `platforms`, `disabled_safety_checks`: as `export` was told. Those two functions give also
    `closed`, the program; `shardings`, those asked for arguments and results; `nr_devices`, on how
    many devices it runs; and `get_vjp`, which makes the reverse derivative.

    >>> from pullback import export
    >>> sizes = export.symbolic_shape("n")
    >>> exported = export.export(pb.jit(lambda x: x * 2))(pb.ShapeDtypeStruct(sizes, jnp.float32))
    >>> exported.out_avals
    (ShapedArray(float32[n]),)
    >>> exported.call(jnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        in_tree: Any,
        out_tree: Any,
        in_avals: Sequence[Any],
        out_avals: Sequence[Any],
        *,
        fun_name: str,
        platforms: Sequence[str],
        disabled_safety_checks: Sequence[DisabledSafetyCheck] = (),
        shardings: tuple[Sequence[Any], Sequence[Any]] = ((), ()),
        nr_devices: int = 1,
        get_vjp: Callable[[Exported], Exported] | None = None,
    ) -> None:
        """`closed` is on the arguments and results that are no float0."""
        self._closed, self._get_vjp = closed, get_vjp
        self._vjp: Exported | None = None
        self.in_tree, self.out_tree = in_tree, out_tree
        self.in_avals, self.out_avals = tuple(in_avals), tuple(out_avals)
        self.fun_name, self.platforms = fun_name, tuple(platforms)
        self.disabled_safety_checks = tuple(disabled_safety_checks)
        self.calling_convention_version = CALLING_CONVENTION
        self._in_named_shardings = _named(shardings[0], len(self.in_avals))
        self._out_named_shardings = _named(shardings[1], len(self.out_avals))
        self._has_named_shardings, self.nr_devices = True, nr_devices
        self._calls: dict[Any, Any] = {}  # by the sizes

    @property
    def ordered_effects(self) -> tuple[Any, ...]:
        return tuple(e for e in self._closed.effects if ordered_effects.contains(e))

    @property
    def unordered_effects(self) -> tuple[Any, ...]:
        return tuple(e for e in self._closed.effects if not ordered_effects.contains(e))

    @property
    def module_kept_var_idx(self) -> tuple[int, ...]:
        """The arguments that the program reads."""
        every = [True] * len(self._closed.out_avals)
        _, used = dce_closed(self._closed, every, [False] * len(self._closed.in_avals))
        rest = iter(used)
        kept = [a.dtype == dtypes.float0 or next(rest) for a in self.in_avals]
        return tuple(k for k, u in enumerate(kept) if u)

    @property
    def uses_global_constants(self) -> bool:
        sizes = [d for a in self.in_avals for d in a.shape]
        return len(self.platforms) > 1 or any(isinstance(d, DimExpr) for d in sizes)

    in_shardings_hlo = property(lambda self: self._in_named_shardings)
    out_shardings_hlo = property(lambda self: self._out_named_shardings)

    def in_shardings_jax(self, mesh: Any) -> tuple[Any, ...]:
        """The shardings that were asked for the arguments, over `mesh`; None where none was."""
        return tuple(s and NamedSharding(mesh, s.spec) for s in self._in_named_shardings)

    def out_shardings_jax(self, mesh: Any) -> tuple[Any, ...]:
        """The shardings that were asked for the results, over `mesh`; None where none was."""
        return tuple(s and NamedSharding(mesh, s.spec) for s in self._out_named_shardings)

    def _lowered(self) -> Any:
        params = call_params(self._closed, self.fun_name)
        made = xla_stage.lowered(self._closed, params, self.out_tree, self.platforms)
        return made.module

    def mlir_module(self) -> str:
        """The program as StableHLO, for its platforms. Needs jaxlib, and sizes that are numbers."""
        return str(modules.module_to_string(self._lowered(), True))

    @property
    def mlir_module_serialized(self) -> bytes:
        """`mlir_module` as bytes."""
        return bytes(modules.module_to_bytecode(self._lowered()))

    def has_vjp(self) -> bool:
        """Can calls be differentiated?"""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The program (arguments, cotangents of results) -> cotangents of arguments, all flat.
        ValueError if there is none: `serialize` writes none unless it is asked to."""
        if self._get_vjp is None:
            raise ValueError(
                "No VJP is available. Fix: exported.serialize(vjp_order=1) keeps the first one."
            )
        if self._vjp is None:
            self._vjp = self._get_vjp(self)
        return self._vjp

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The program as bytes, which `deserialize` reads, with so many reverse derivatives.

        >>> from pullback import export
        >>> blob = export.export(pb.jit(jnp.sin))(1.0).serialize(vjp_order=1)
        >>> pb.grad(export.deserialize(blob).call)(0.0)
        Array(1., dtype=float32, weak_type=True)

        NotImplementedError for a program that calls Python; ValueError for one of a library's own
        operations, and for arguments of classes that are not registered
        (`register_pytree_node_serialization`).
        """
        return bytearray(bytes_of.dumps(self, vjp_order))

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the program: with arrays, or in other functions' traces. ValueError for arguments
        of another structure, shape or dtype, and on a platform that it was not exported for."""
        leaves, in_tree = tree.flatten((args, kwargs))
        if in_tree != self.in_tree:
            raise ValueError(self._other_tree(in_tree))
        here = default_backend()
        if here not in self.platforms and DisabledSafetyCheck.platform() not in (
            self.disabled_safety_checks
        ):
            raise ValueError(
                f"Function '{self.fun_name}' was exported for platforms '{self.platforms}' but it "
                f"is used on '{(here,)}'. Fix: export(f, platforms=[{here!r}, ...])."
            )
        self._check_devices(leaves)
        shapes = self._shapes(leaves)
        wanted = [a.shape for a in self.in_avals]
        sizes = sizes_from(wanted, shapes, self._names()) if wanted != shapes else {}
        return tree.unflatten(self.out_tree, self._called(sizes)(*leaves))

    def _check_devices(self, leaves: Sequence[Any]) -> None:
        """ValueError if the program of several devices is called on another number of them. A
        program of one device runs anywhere; where traced values will be is not known."""
        if self.nr_devices == 1 or any(isinstance(x, Tracer) for x in leaves) or is_staged():
            return
        lies, mesh = held(leaves), get_mesh()
        found = [len(s.device_set) for s in lies or () if s is not None]
        here = found[0] if found else 1 if mesh.empty else mesh.size
        if here != self.nr_devices:
            raise ValueError(
                f"Function {self.fun_name} was exported for {self.nr_devices} devices and is "
                f"called in a context with {here} devices, which is not allowed. Fix: "
                "jax.device_put(x, sharding) on as many devices."
            )

    def _names(self) -> list[str]:
        """What messages call the arguments."""
        kept = tree.unflatten(self.in_tree, range(len(self.in_avals)))
        paths = (
            (where, path)
            for where, part in zip(("args", "kwargs"), kept, strict=True)
            for path, _ in tree.flatten_with_path(part)[0]
        )
        return [where + tree.keystr(path) for where, path in paths]

    def _shapes(self, leaves: Sequence[Any]) -> list[Any]:
        """The shapes of arguments, which have the right dtypes, ranks, and sizes without names."""
        found = [_type_of(x) for x in leaves]
        for k, (want, have) in enumerate(zip(self.in_avals, found, strict=True)):
            if want == have:
                continue
            if want.dtype != have.dtype:
                raise ValueError(
                    f"Dtype mismatch for {self._names()[k]}: expected {want.dtype.name} and called "
                    f"with {have.dtype.name}"
                )
            text = f"expected {want.shape} and called with {have.shape}"
            if len(want.shape) != len(have.shape):
                raise ValueError(f"Rank mismatch for {self._names()[k]}: {text}")
            for axis, (a, b) in enumerate(zip(want.shape, have.shape, strict=True)):
                if not isinstance(a, DimExpr) and a != b:
                    raise ValueError(
                        f"Shape mismatch for {self._names()[k]}.shape[{axis}] (expected same "
                        f"constant): {text}"
                    )
        return [a.shape for a in found]

    def _other_tree(self, in_tree: Any) -> str:
        """What is said of a call with another structure."""
        lines = [
            f"   - {where} is {have} in the invocation and {want} when exported, so {why}.\n"
            for where, want, have, why in other_structure(self.in_tree, in_tree)
        ]
        return (
            "The invocation args and kwargs must have the same pytree structure as when the "
            f"function '{self.fun_name}' was exported, but they have the following structural "
            f"differences:\n{''.join(lines)}"
        )

    def _called(self, sizes: dict[str, Any]) -> Any:
        """The function on leaves, for these sizes."""
        key = tuple(sizes.items())
        found = self._calls.get(key)
        if found is None:
            closed = of_sizes(self._closed, sizes) if sizes else self._closed
            found = _differentiable(self, closed, sizes)
            if not any(isinstance(d, DimExpr) for d in sizes.values()):
                self._calls[key] = found
        return found

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    def __repr__(self) -> str:
        names = (
            "fun_name in_tree in_avals out_tree out_avals nr_devices platforms ordered_effects "
            "unordered_effects disabled_safety_checks calling_convention_version "
            "module_kept_var_idx uses_global_constants"
        )
        return f"Exported({', '.join(f'{n}={getattr(self, n)!r}' for n in names.split())})"


def _type_of(x: Any) -> Any:
    if getattr(x, "dtype", None) == dtypes.float0:
        return ShapedArray(np.shape(x), dtypes.float0)
    return typeof(x)


def _named(shardings: Sequence[Any], count: int) -> tuple[Any, ...]:
    found = [s if isinstance(s, NamedSharding) else None for s in shardings]
    return tuple(found or [None] * count)


def _run(
    closed: ClosedJaxpr, name: str, args: Sequence[Any], asked: Sequence[Any] = ()
) -> list[Any]:
    """`asked`: the shardings that were asked for the results, as far as any were."""
    outs = None
    if any(s is not None for s in asked):
        name_shardings()
        outs = [UNSPECIFIED if s is None else s for s in asked]
    params = call_params(closed, name, out_shardings=outs)
    return jit_p.bind(*args, **params)  # type: ignore[no-any-return]


def _differentiable(exported: Exported, closed: ClosedJaxpr, sizes: dict[str, Any]) -> Any:
    """A function on leaves, flat, for these sizes, whose reverse derivative is the exported one."""
    ins, outs = exported.in_avals, exported.out_avals
    asked = [
        s
        for s, a in zip(exported._out_named_shardings, outs, strict=True)
        if a.dtype != dtypes.float0
    ]

    def run(*leaves: Any) -> list[Any]:
        kept = [x for x, a in zip(leaves, ins, strict=True) if a.dtype != dtypes.float0]
        found = iter(_run(closed, exported.fun_name, kept, asked))
        return [
            np.zeros([size_of(d, sizes) for d in a.shape], dtypes.float0)
            if a.dtype == dtypes.float0
            else next(found)
            for a in outs
        ]

    if any(a.dtype == dtypes.float0 for a in (*ins, *outs)):
        return run  # a derivative of integers, which is called, and not differentiated again
    run.__name__ = exported.fun_name
    call = custom_vjp(jit(run))

    def backward(leaves: Any, cts: Any) -> tuple[Any, ...]:
        found = exported.vjp().call(*leaves, *cts)
        return tuple(None if _type_of(g).dtype == dtypes.float0 else g for g in found)

    call.defvjp(lambda *leaves: (run(*leaves), leaves), backward)
    return call


def _vjp_of(exported: Exported) -> Exported:
    """The exported reverse derivative of a program that this process traced."""
    ins = exported.in_avals
    cts = [a.to_tangent_aval() for a in exported.out_avals]
    backs = [a.to_tangent_aval() for a in ins]
    closed = exported._closed
    # Of the arguments and results that the program has: float0 ones are left out.
    varies = [b.dtype != dtypes.float0 for b, a in zip(backs, ins) if a.dtype != dtypes.float0]
    answers = [
        c.dtype != dtypes.float0
        for c, a in zip(cts, exported.out_avals, strict=True)
        if a.dtype != dtypes.float0
    ]
    n = len(varies)

    def fun_vjp_jax(*leaves: Any) -> list[Any]:
        def floats(*given: Any) -> list[Any]:
            rest = iter(given)
            xs = [next(rest) if f else x for f, x in zip(varies, leaves[:n], strict=True)]
            outs = _run(closed, exported.fun_name, xs)
            return [x for x, f in zip(outs, answers, strict=True) if f]

        primals = [x for f, x in zip(varies, leaves[:n], strict=True) if f]
        return list(vjp(floats, *primals)[1](list(leaves[n:])))

    structs = [
        ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type)
        for a in (*ins, *cts)
        if a.dtype != dtypes.float0
    ]
    traced = jit(fun_vjp_jax).trace(*structs)
    every = [*ins, *cts]
    return Exported(
        traced.jaxpr,
        tree.structure((tuple(every), {}), is_leaf=lambda x: isinstance(x, ShapedArray)),
        tree.structure(tuple(backs), is_leaf=lambda x: isinstance(x, ShapedArray)),
        every,
        backs,
        fun_name="fun_vjp_jax",
        platforms=exported.platforms,
        disabled_safety_checks=exported.disabled_safety_checks,
        nr_devices=exported.nr_devices,
        get_vjp=_vjp_of,
    )


def _check_scopes(fun: Any, args: Any, kwargs: Any) -> None:
    """ValueError if the symbolic sizes of arguments were named in several scopes: no size of one is
    known to be one of another."""
    first: tuple[str, Any] | None = None
    for path, x in tree.flatten_with_path((args, kwargs))[0]:
        where = ("args", "kwargs")[path[0].idx] + tree.keystr(path[1:])
        for size in getattr(x, "shape", ()):
            if not isinstance(size, DimExpr):
                continue
            first = first or (where, size.scope)
            if size.scope is not first[1]:
                raise ValueError(
                    f"Invalid mixing of symbolic scopes when exporting {fun.__name__}.\nExpected "
                    f"current (from {first[0]}) scope {first[1]}\nand found for '{size}' ({where}) "
                    f"scope {size.scope}\nFix: name the sizes in one call of symbolic_shape, or "
                    "pass it `scope`."
                )


def _check_donation(donated: Sequence[bool], platforms: Sequence[str]) -> None:
    """NotImplementedError for a program that is given arguments on some of its platforms only."""
    taken = [p in ("cpu", "cuda", "rocm", "tpu", "neuron") for p in platforms]
    if any(donated) and any(taken) and not all(taken):
        raise NotImplementedError(
            "In multi-platform lowering either all or no lowering platforms should support "
            f"donation. Lowering for {tuple(platforms)} of which only "
            f"{tuple(p for p, t in zip(platforms, taken, strict=True) if t)} support donation. "
            "Fix: export without donate_argnums."
        )


def export(
    fun_jit: Any,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
    _override_lowering_rules: Any = None,
) -> Callable[..., Exported]:
    """A function that is called with the types of arguments (or with arguments) and gives
    `fun_jit`'s program for them.

    `platforms`: where the program may be called, ("cpu",) by default. `disabled_checks`: what not
    to insist on. ValueError unless `fun_jit` is a jitted function.

    >>> from pullback import export
    >>> blob = export.export(pb.jit(lambda x: x + 1))(jnp.zeros(3)).serialize()
    >>> export.deserialize(blob).call(jnp.arange(3.0))
    Array([1., 2., 3.], dtype=float32)
    """
    if not isinstance(fun_jit, JitFunction):
        raise ValueError(
            f"Function to be exported must be the result of `jit` but is: {fun_jit}. Fix: "
            "export(jax.jit(f))."
        )
    for check in disabled_checks:
        if not isinstance(check, DisabledSafetyCheck):
            raise TypeError(
                f"disabled_checks must hold DisabledSafetyCheck, got {check!r}. Fix: "
                "DisabledSafetyCheck.platform() or .custom_call(name)."
            )

    def do_export(*args: Any, **kwargs: Any) -> Exported:
        _check_scopes(fun_jit, args, kwargs)
        version = config.export_calling_convention_version.get()
        if not CALLING_CONVENTION - 1 <= version <= CALLING_CONVENTION:
            raise ValueError(
                f"The requested export calling convention version {version} is outside the range "
                f"of supported versions [{CALLING_CONVENTION - 1}..{CALLING_CONVENTION}]. Fix: "
                "leave jax_export_calling_convention_version as it is."
            )
        traced = fun_jit.trace(*args, **kwargs)
        if traced._call.consts:
            raise ValueError(
                f"export: the function {traced.fun_name} closes over values that another "
                "transformation traces. Fix: pass them as arguments, or export outside of it."
            )
        params = traced._call.params
        _check_donation(params["donated_invars"], platforms or ())
        ins = asked_or_typed(params["in_shardings"], traced.jaxpr.in_avals, traced._placed)
        outs = asked_or_typed(params["out_shardings"], traced.jaxpr.out_avals)
        exported = Exported(
            traced.jaxpr,
            traced.in_tree,
            traced.out_tree,
            traced.jaxpr.in_avals,
            traced.jaxpr.out_avals,
            fun_name=traced.fun_name,
            platforms=tuple(platforms or (default_export_platform(),)),
            disabled_safety_checks=disabled_checks,
            shardings=(ins, outs),
            nr_devices=devices_of(traced.jaxpr.jaxpr, [*ins, *outs, *traced._placed]),
            get_vjp=_vjp_of,
        )
        check_names(traced.jaxpr, exported._names())
        return exported

    return do_export


def default_export_platform() -> str:
    """The platform that `export` exports for unless it is told others.

    >>> pb.export.default_export_platform()
    'cpu'
    """
    return default_backend()


def deserialize(blob: Any) -> Exported:
    """The exported program that `Exported.serialize` wrote as `blob`, bytes or a bytearray.

    >>> from pullback import export
    >>> export.deserialize(export.export(pb.jit(jnp.sin))(0.0).serialize()).call(0.0)
    Array(0., dtype=float32, weak_type=True)

    ValueError for other bytes.
    """
    return bytes_of.loads(blob)  # type: ignore[no-any-return]
