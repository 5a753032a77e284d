"""What rules are told: the module that is being written, the equation, the tokens of effects, the
mesh.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .library import hlo, ir, new_context


class _Fields:
    """Objects of named values: printed, compared and replaced by them."""

    def replace(self, **kw: Any) -> Any:
        """A copy in which the named fields have other values."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        unknown = kw.keys() - self.__dict__.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {sorted(unknown)}")
        other.__dict__.update(kw)
        return other

    def __repr__(self) -> str:
        fields = ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items())
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))


class SPMDAxisContext(_Fields):
    """A mesh over whose axes a program is written by hand.

    >>> from pullback.interpreters import mlir
    >>> mesh = pb.make_mesh((1,), ("x",))
    >>> mlir.SPMDAxisContext(mesh, frozenset({"x"})).manual_axes
    frozenset({'x'})
    """

    def __init__(self, mesh: Any, manual_axes: frozenset[Any] = frozenset()) -> None:
        self.mesh, self.manual_axes = mesh, manual_axes

    @property
    def axis_env(self) -> Any:
        return self.mesh.shape

    @property
    def unsafe_axis_env(self) -> Any:
        return self.mesh.shape

    def extend_manual(self, axes: frozenset[Any]) -> SPMDAxisContext:
        return SPMDAxisContext(self.mesh, self.manual_axes | axes)


class ShardingContext(_Fields):
    """How many devices a program is for, and which.

    >>> from pullback.interpreters import mlir
    >>> mlir.ShardingContext(1)
    ShardingContext(num_devices=1, device_assignment=None, abstract_mesh=None)
    """

    def __init__(
        self,
        num_devices: int,
        device_assignment: tuple[Any, ...] | None = None,
        abstract_mesh: Any = None,
    ) -> None:
        self.num_devices, self.device_assignment = num_devices, device_assignment
        self.abstract_mesh = abstract_mesh


AxisContext = SPMDAxisContext | ShardingContext


class LoweringParameters(_Fields):
    """Options of a lowering. `override_lowering_rules`: pairs (primitive, rule) that go before the
    registered ones.

    >>> from pullback.interpreters import mlir
    >>> mlir.LoweringParameters(for_export=True).for_export
    True
    """

    def __init__(
        self,
        override_lowering_rules: Any = None,
        global_constant_computation: bool = False,
        for_export: bool = False,
        export_ignore_forward_compatibility: bool = False,
        hoist_constants_as_args: bool = False,
    ) -> None:
        self.override_lowering_rules = override_lowering_rules
        self.global_constant_computation = global_constant_computation
        self.for_export = for_export
        self.export_ignore_forward_compatibility = export_ignore_forward_compatibility
        self.hoist_constants_as_args = hoist_constants_as_args


class ShapePolyLoweringState:
    """The symbolic sizes of a program, and whether it is told its platform as it runs.

    >>> from pullback.interpreters import mlir
    >>> mlir.ShapePolyLoweringState((), ("cpu", "tpu")).has_platform_index_argument
    True
    """

    def __init__(
        self, dim_vars: tuple[str, ...], lowering_platforms: tuple[str, ...] | None
    ) -> None:
        self.has_platform_index_argument = (
            lowering_platforms is not None and len(lowering_platforms) > 1
        )
        self.uses_dim_vars = bool(dim_vars)
        extra = ("_platform_index",) if self.has_platform_index_argument else ()
        self.dim_vars = (*extra, *dim_vars)


class LoweringResult(NamedTuple):
    """A lowered program: its module, what must live as long, its callbacks, its symbolic sizes.

    >>> from pullback.interpreters import mlir
    >>> mlir.LoweringResult._fields
    ('module', 'keepalive', 'host_callbacks', 'shape_poly_state')
    """

    module: Any
    keepalive: Any
    host_callbacks: list[Any]
    shape_poly_state: ShapePolyLoweringState


class TokenSet:
    """The tokens of ordered effects: each says what has happened so far.

    >>> from pullback.interpreters import mlir
    >>> mlir.TokenSet().effects()
    set()
    """

    def __init__(self, tokens: dict[Any, Any] | None = None) -> None:
        self._tokens: dict[Any, Any] = dict(tokens or {})

    def __len__(self) -> int:
        return len(self._tokens)

    def get(self, effect: Any) -> Any:
        """The token of an effect."""
        return self._tokens[effect]

    @classmethod
    def create(cls, effects: Sequence[Any]) -> TokenSet:
        """New tokens, made in the program that is being written."""
        return cls({e: hlo.create_token() for e in effects})

    def items(self) -> Any:
        return tuple(self._tokens.items())

    def effects(self) -> set[Any]:
        return set(self._tokens)

    def subset(self, effects: Sequence[Any]) -> TokenSet:
        """The tokens of some effects."""
        return TokenSet({e: self._tokens[e] for e in effects})

    def update_tokens(self, tokens: TokenSet) -> TokenSet:
        """These tokens, with the newer ones of `tokens`."""
        return TokenSet({**self._tokens, **tokens._tokens})


class ModuleContext(_Fields):
    """The module that is being written, and what all of its functions share.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import mlir
    >>> where_p = core.Primitive("example_where")
    >>> _ = where_p.def_abstract_eval(lambda x: x)
    >>> def rule(ctx, x):
    ...     print(isinstance(ctx.module_context, mlir.ModuleContext), ctx.module_context.platforms)
    ...     return [x]
    >>> _ = mlir.register_lowering(where_p, rule)
    >>> text = pb.jit(where_p.bind).lower(1.0).as_text("stablehlo")
    True ('cpu',)
    """

    def __init__(
        self,
        *,
        platforms: Sequence[str],
        backend: Any,
        axis_context: Any,
        keepalives: list[Any],
        channel_iterator: Iterator[int],
        host_callbacks: list[Any],
        lowering_parameters: LoweringParameters,
        context: Any = None,
        module: Any = None,
        ip: Any = None,
        symbol_table: Any = None,
        lowering_cache: dict[Any, Any] | None = None,
        cached_primitive_lowerings: dict[Any, Any] | None = None,
        traceback_caches: Any = None,
        shape_poly_state: Any = None,
        all_default_mem_kind: bool = True,
        sharding_attr_cache: dict[Any, Any] | None = None,
        aval_to_ir_types_cache: dict[Any, Any] | None = None,
        pallas_lowering_cache: dict[Any, Any] | None = None,
    ) -> None:
        self.context = context or new_context()
        if module is None:
            with self.context, ir.Location.unknown():
                module = ir.Module.create()
        self.module = module
        self.ip = ip or ir.InsertionPoint(module.body)
        self.symbol_table = symbol_table or ir.SymbolTable(module.operation)
        self.platforms, self.backend, self.axis_context = platforms, backend, axis_context
        self.keepalives, self.channel_iterator = keepalives, channel_iterator
        self.host_callbacks, self.lowering_parameters = host_callbacks, lowering_parameters
        self.lowering_cache = {} if lowering_cache is None else lowering_cache
        self.cached_primitive_lowerings = (
            {} if cached_primitive_lowerings is None else cached_primitive_lowerings
        )
        self.traceback_caches = {} if traceback_caches is None else traceback_caches
        self.shape_poly_state = shape_poly_state or ShapePolyLoweringState((), tuple(platforms))
        self.all_default_mem_kind = all_default_mem_kind
        self.sharding_attr_cache = {} if sharding_attr_cache is None else sharding_attr_cache
        self.aval_to_ir_types_cache = (
            {} if aval_to_ir_types_cache is None else aval_to_ir_types_cache
        )
        self.pallas_lowering_cache = {} if pallas_lowering_cache is None else pallas_lowering_cache

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def axis_env(self) -> Any:
        return self.axis_context.axis_env

    def new_channel(self) -> int:
        """A number for a channel that nothing in the module has yet."""
        return next(self.channel_iterator)

    def get_backend(self, optional: bool = False) -> Any:
        """The client that the program is for. ValueError if there is none, unless `optional`."""
        if self.backend is None and not optional:
            raise ValueError(
                "the program is lowered for "
                f"{', '.join(self.platforms)} without a client. Fix: pass backend=..."
            )
        return self.backend

    def add_host_callback(self, host_callback: Any) -> None:
        self.host_callbacks.append(host_callback)

    def add_keepalive(self, keepalive: Any) -> None:
        self.keepalives.append(keepalive)


def module_context(
    platforms: Sequence[str] = ("cpu",),
    lowering_parameters: LoweringParameters | None = None,
    axis_context: Any = None,
    **fields: Any,
) -> ModuleContext:
    """A context for a new module."""
    return ModuleContext(
        platforms=tuple(platforms),
        backend=fields.pop("backend", None),
        axis_context=axis_context or ShardingContext(1),
        keepalives=[],
        channel_iterator=itertools.count(1),
        host_callbacks=[],
        lowering_parameters=lowering_parameters or LoweringParameters(),
        **fields,
    )


class LoweringRuleContext(_Fields):
    """What a lowering rule is told of its equation: the types of its operands and results, the
    module, the tokens of its ordered effects.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import mlir
    >>> twice_p = core.Primitive("example_twice")
    >>> _ = twice_p.def_abstract_eval(lambda x: x)
    >>> def rule(ctx, x):
    ...     print(ctx.primitive, *ctx.avals_in, *ctx.avals_out)
    ...     return [mlir.hlo.add(x, x)]
    >>> _ = mlir.register_lowering(twice_p, rule)
    >>> text = pb.jit(twice_p.bind).lower(jnp.ones(3)).as_text("stablehlo")
    example_twice float32[3] float32[3]
    """

    def __init__(
        self,
        module_context: ModuleContext,
        name_stack: Any,
        traceback: Any,
        primitive: Any,
        avals_in: Sequence[Any],
        avals_out: Any,
        tokens_in: TokenSet,
        tokens_out: TokenSet | None,
        const_lowering: dict[Any, Any],
        axis_size_env: dict[Any, Any] | None = None,
        dim_var_values: Sequence[Any] = (),
        jaxpr_eqn_ctx: Any = None,
        platforms: Sequence[str] | None = None,
    ) -> None:
        self.module_context, self.name_stack, self.traceback = module_context, name_stack, traceback
        self.primitive, self.avals_in, self.avals_out = primitive, avals_in, avals_out
        self.tokens_in, self.tokens_out = tokens_in, tokens_out
        self.const_lowering, self.axis_size_env = const_lowering, axis_size_env
        self.dim_var_values, self.jaxpr_eqn_ctx = dim_var_values, jaxpr_eqn_ctx
        self.platforms = platforms

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def set_tokens_out(self, tokens_out: TokenSet) -> None:
        """The tokens after the equation: a rule of an equation with ordered effects must give
        them."""
        if self.tokens_out is not None:
            raise ValueError("the tokens of this equation were given before")
        self.tokens_out = tokens_out

    def is_forward_compat(self) -> bool:
        """Is the program for older versions too?"""
        parameters = self.module_context.lowering_parameters
        return parameters.for_export and not parameters.export_ignore_forward_compatibility
