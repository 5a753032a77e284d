"""Calls that say something of their program beside it, under every transformation: notes for other
compilers, and memories in which results are to lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.avals import Space
from ..core.jaxpr import ClosedJaxpr, JaxprEqn
from ..core.primitive import Primitive
from ..transforms.partial_eval import dce_closed
from .call import UNSPECIFIED, call_params, jit_p, rules_of_calls
from .expand import register_inline


class _Mark:
    """What the transformed calls of one call are bound with."""

    __slots__ = ("meta", "primitive")

    def __init__(self, primitive: MarkedCall, meta: dict[str, Any]) -> None:
        self.primitive, self.meta = primitive, meta

    def again(self, jaxpr: ClosedJaxpr, args: Sequence[Any], outs: Sequence[Any] | None) -> Any:
        meta = self.primitive.meta_of(self.meta, jaxpr, outs)
        return self.primitive.bind(*args, jaxpr=jaxpr, **meta)


class MarkedCall(Primitive):
    """A call of the program `jaxpr` with other parameters, which stay with its derivatives and
    batches. It is evaluated as the call of a jitted function."""

    call_primitive = True

    def __init__(self, name: str) -> None:
        super().__init__(
            name,
            multiple_results=True,
            effectful=True,
            abstract_eval=self._types,
            dce=self._dce,
            impl=self._run,
            **rules_of_calls(self._jit),
        )
        register_inline(self, self._run)

    def _types(self, *avals: Any, jaxpr: ClosedJaxpr, **meta: Any) -> Any:
        return self.out_types(jaxpr, meta), jaxpr.effects

    def out_types(self, jaxpr: ClosedJaxpr, meta: dict[str, Any]) -> list[Any]:
        """The types of the results."""
        return list(jaxpr.out_avals)

    def outs_of(self, jaxpr: ClosedJaxpr, meta: dict[str, Any]) -> Any:
        """What is said of each result, if anything is."""
        return None

    def meta_of(self, meta: dict[str, Any], jaxpr: ClosedJaxpr, outs: Any) -> dict[str, Any]:
        """The parameters of a transformed call, whose results have `outs` said of them."""
        return meta

    def _jit(self, own: dict[str, Any]) -> dict[str, Any]:
        jaxpr, meta = own["jaxpr"], _meta(own)
        params = call_params(jaxpr, self.name, out_shardings=self.outs_of(jaxpr, meta))
        return {**params, "marked": _Mark(self, meta)}

    def _run(self, *args: Any, jaxpr: ClosedJaxpr, **meta: Any) -> Any:
        return jit_p.bind(*args, **call_params(jaxpr, self.name))

    def _dce(self, used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
        meta = _meta(eqn.params)
        outs = self.outs_of(eqn.params["jaxpr"], meta)
        closed, used_in = dce_closed(eqn.params["jaxpr"], used)
        kept = None if outs is None else [o for o, u in zip(outs, used, strict=True) if u]
        return eqn.replace(
            invars=[v for v, u in zip(eqn.invars, used_in, strict=True) if u],
            outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
            params={"jaxpr": closed, **self.meta_of(meta, closed, kept)},
            effects=closed.effects,
        )


def _meta(params: dict[str, Any]) -> dict[str, Any]:
    """What is said beside the program."""
    return {k: v for k, v in params.items() if k != "jaxpr"}


class Placed(MarkedCall):
    """A call that says in which memories its results lie (`out_spaces`)."""

    def out_types(self, jaxpr: ClosedJaxpr, meta: dict[str, Any]) -> list[Any]:
        return [
            a.update(memory_space=s)
            for a, s in zip(jaxpr.out_avals, meta["out_spaces"], strict=True)
        ]

    def outs_of(self, jaxpr: ClosedJaxpr, meta: dict[str, Any]) -> Any:
        return meta["out_spaces"]

    def meta_of(self, meta: dict[str, Any], jaxpr: ClosedJaxpr, outs: Any) -> dict[str, Any]:
        given = meta["out_spaces"] if outs is None else outs
        known = [Space.Device if s is UNSPECIFIED else s for s in given]
        rest = len(jaxpr.jaxpr.outvars) - len(known)
        return {"out_spaces": (*known, *[Space.Device] * rest)[: len(known) + rest]}


xla_metadata_call_p = MarkedCall("xla_metadata_call")
fused_p = Placed("fused_call")
