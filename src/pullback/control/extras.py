"""Operations that mark programs: composites (a name for a computation), sinks (what must be
computed though nobody reads it), and tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import tree
from ..core import effects as fx
from ..core.avals import AbstractToken, abstract_token, register_typeof, typeof
from ..core.primitive import Primitive, name_operand
from ..core.symbolic import Zero
from ..core.trace import Tracer
from ..errors import UnexpectedTracerError
from .call import _CallPrimitive, call_params, jit_p
from .common import trace_function


class Token:
    """A value that orders effects; `buf` is what must be there before it is.

    >>> from pullback.extend import core
    >>> token = core.Token(jnp.zeros(()))
    >>> token.block_until_ready() is token
    True
    """

    def __init__(self, buf: Any = None) -> None:
        self._buf = buf

    def block_until_ready(self) -> Token:
        if hasattr(self._buf, "block_until_ready"):
            self._buf.block_until_ready()
        return self


register_typeof(Token, lambda x: abstract_token)


# --- composites ---
class _Composite(_CallPrimitive):
    """A call whose program is the parameter `jaxpr`."""

    def __init__(self) -> None:
        super().__init__("composite")
        for kind in ("jvp", "transpose", "axis_batch"):
            self.rules[kind] = self._as_jit(kind)
        self.rules["abstract_eval"] = lambda *avals, jaxpr, **_: (jaxpr.out_avals, jaxpr.effects)
        self.rules["impl"] = lambda *args, jaxpr, name, **_: jit_p.bind(
            *args, **call_params(jaxpr, name)
        )
        self.rules["partial_eval"] = lambda trace, unknown, tracers, params: jit_p.rule(
            "partial_eval"
        )(trace, unknown, tracers, call_params(params["jaxpr"], params["name"]))

    @staticmethod
    def _as_jit(kind: str) -> Any:
        def rule(*args: Any, jaxpr: Any, name: str, **params: Any) -> Any:
            return jit_p.rule(kind)(*args, **call_params(jaxpr, name))

        return rule


composite_p = _Composite()


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Any:
    """A function that does what `decomposition` does, and stands in programs under a name.

    Positional arguments are pytrees of arrays; keyword arguments are attributes, which must be
    static: UnexpectedTracerError if one is traced.

    >>> lax.composite(lambda x, *, k: x * k, "my.scale")(2.0, k=3.0)
    Array(6., dtype=float32, weak_type=True)
    """

    @functools.wraps(decomposition)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten(args)

        def positional(*xs: Any) -> Any:
            return decomposition(*xs, **kwargs)

        closed, consts, out_tree = trace_function(
            positional, in_tree, [typeof(x) for x in leaves], "composite"
        )
        flat = ((k, tree.flatten(v)) for k, v in kwargs.items())
        attributes = tuple((k, tuple(values), treedef) for k, (values, treedef) in flat)
        for k, values, _ in attributes:
            if any(isinstance(x, Tracer) for x in values):
                raise UnexpectedTracerError(
                    "Found a JAX Tracer as an attribute in the decomposition for the composite op "
                    f"'{name}': {k}. Attributes are part of the program, and must be known. Fix: "
                    "make it with NumPy, or pass it by position."
                )
        outs = composite_p.bind(
            *consts, *leaves, jaxpr=closed, name=name, version=version, attributes=attributes
        )
        return tree.unflatten(out_tree, outs)

    return call


# --- sinks ---
class SinkEffect(fx.Effect):
    """The value is needed."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SinkEffect)

    def __hash__(self) -> int:
        return hash(SinkEffect)

    def __repr__(self) -> str:
        return "NoDCE"


for _set in (
    fx.control_flow_allowed_effects,
    fx.custom_derivatives_allowed_effects,
    fx.lowerable_effects,
    fx.remat_allowed_effects,
    fx.vmap_allowed_effects,
):
    _set.add_type(SinkEffect)
_SINK = frozenset({SinkEffect()})


def _sink_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    dce_sink_p.bind(*primals, **params)
    return [], []


dce_sink_p: Primitive = Primitive(
    "dce_sink",
    multiple_results=True,
    effectful=True,
    abstract_eval=lambda x, **_: ([], _SINK),
    impl=lambda x, **_: [],
    jvp=_sink_jvp,
    batch=lambda args, dims, **params: (dce_sink_p.bind(*args, **params), []),
)


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keeps the computation of a pytree's arrays in programs though nobody reads them.

    `val`: a pytree of arrays; its leaves stay in the program. `prevent_mlir_dce` is for compilers
    that drop dead code later.

    >>> def f(x):
    ...     lax.dce_sink(jnp.sin(x))
    ...     return x
    >>> 'sin' in str(pullback.make_jaxpr(f)(1.))
    True
    """

    def keep(x: Any) -> None:
        name_operand("dce_sink", (x,))
        dce_sink_p.bind(x, prevent_mlir_dce=prevent_mlir_dce)

    tree.tree_map(keep, val)


# --- tokens ---
def _token_jvp(primals: Any, tangents: Any) -> Any:
    out = after_all_p.bind(*primals)
    return out, Zero(abstract_token)


create_token_p = Primitive(
    "create_token", abstract_eval=lambda *_: abstract_token, impl=lambda *_: Token()
)


def _after_all_aval(*avals: Any) -> AbstractToken:
    if any(type(a) is not AbstractToken for a in avals):
        raise TypeError(f"Arguments to after_all must be tokens, got {avals}")
    return abstract_token


after_all_p: Primitive = Primitive(
    "after_all",
    abstract_eval=_after_all_aval,
    impl=lambda *_: Token(),
    jvp=_token_jvp,
    batch=lambda args, dims: (after_all_p.bind(*args), None),
)


def create_token(_: Any = None) -> Any:
    """A token that waits for nothing.

    The argument is not used.

    >>> type(lax.create_token()).__name__
    'Token'
    """
    return create_token_p.bind()


def after_all(*operands: Any) -> Any:
    """A token that waits for all of these tokens. Raises TypeError for anything else.

    Tokens come from `lax.create_token`, and order effects.

    >>> type(lax.after_all(lax.create_token(), lax.create_token())).__name__
    'Token'
    """
    _after_all_aval(*map(typeof, operands))
    return after_all_p.bind(*operands)
