"""`jax.experimental.key_reuse._core`: which of its keys a function consumes, and which keys it
gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ....api.staging import make_jaxpr
from ....control import key_reuse as _checks
from ....control.expand import register_inline
from ....core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from ....core.primitive import ALL, Primitive
from ....errors import KeyReuseError as KeyReuseError
from ....primitives.keys import is_key_aval
from .hashable_array import HashableArray


class _End:
    """A place among the arguments or results, with the mask of the keys that are meant."""

    idx: int
    mask: Any

    def __init__(self, idx: int, mask: Any = True) -> None:
        every = np.array(mask, bool)
        every.flags.writeable = False
        whole = every.all() or not every.any()
        self.__dict__.update(idx=idx, mask=bool(every.all()) if whole else every)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ValueError(f"{type(self).__name__} is immutable")

    def _key(self) -> Any:
        mask = np.asarray(self.mask)
        return type(self), self.idx, mask.shape, mask.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _End) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        mask = "" if self.mask is True else f", {self.mask}"
        return f"{type(self).__name__}({self.idx}{mask})"


class Sink(_End):
    """An argument whose keys are consumed."""


class Source(_End):
    """A result whose keys are new."""


class Forward(NamedTuple):
    """A result whose keys are those of an argument."""

    in_idx: int
    out_idx: int

    def __repr__(self) -> str:
        return f"Forward({self.in_idx}, {self.out_idx})"


_ORDER = Sink, Source, Forward  # in which signatures are printed


def _places(said: Any) -> tuple[int, ...]:
    return tuple(said) if isinstance(said, Forward) else (said.idx,)


class KeyReuseSignature:
    """What a function does with keys: the sinks, sources and forwards, in any order."""

    def __init__(self, *args: Any) -> None:
        self.sinks = frozenset(a for a in args if isinstance(a, Sink))
        self.sources = frozenset(a for a in args if isinstance(a, Source))
        self.forwards = frozenset(a for a in args if isinstance(a, Forward))
        self._args = args

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyReuseSignature) and (
            (self.sinks, self.sources, self.forwards)
            == (other.sinks, other.sources, other.forwards)
        )

    def __hash__(self) -> int:
        return hash((self.sinks, self.sources, self.forwards))

    def __repr__(self) -> str:
        ordered = sorted(self._args, key=lambda a: (_ORDER.index(type(a)), *_places(a)))
        return f"KeyReuseSignature({', '.join(map(repr, ordered))})"


class DynamicKeyReuseSignature(NamedTuple):
    """A signature that depends on an equation's parameters."""

    signature: Callable[[JaxprEqn], KeyReuseSignature]


# --- what functions assert of keys ---
def _identity(name: str) -> Primitive:
    p = Primitive(
        name,
        abstract_eval=lambda x, **_: x,
        batch=lambda args, dims, **params: (p.bind(*args, **params), dims[0]),
        register=False,
    )
    p.def_impl(lambda x, **_: x)
    register_inline(p, lambda x, **_: x)
    return p


consume_p = _identity("consume")
assert_consumed_value_p = _identity("assert_consumed_value")


def _consume(flow: Any, params: Any, ins: Any, avals: Any) -> Any:
    for k, cells in enumerate(ins):
        flow.consume("consume", k, cells)
    return list(ins)


def _assert(flow: Any, params: Any, ins: Any, avals: Any) -> Any:
    wanted = params["value"].val
    if not np.array_equal(np.broadcast_to(wanted, ins[0].shape), _checks._used(ins[0])):
        said = "consumed" if np.all(wanted) else ("not consumed" if not np.any(wanted) else wanted)
        raise AssertionError(f"Expected key to be {said} in assert_consumed_value")
    return list(ins)


_checks._HOLDERS["consume"] = _consume
_checks._HOLDERS["assert_consumed_value"] = _assert


def consume(key: Any) -> Any:
    """The key, which is consumed."""
    return consume_p.bind(key)


def assert_consumed(key: Any, value: Any = True) -> None:
    """AssertionError in `check_key_reuse` unless the key is consumed, or those of a mask are."""
    assert_consumed_value_p.bind(key, value=HashableArray(value))


def assert_unconsumed(key: Any) -> None:
    """AssertionError in `check_key_reuse` if the key is consumed."""
    assert_consumed(key, False)


# --- signatures ---
def jaxpr_type_signature(jaxpr: Jaxpr | ClosedJaxpr) -> KeyReuseSignature:
    """What a program does with its keys. KeyReuseError if it uses one twice."""
    jaxpr = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    ins = [
        _checks._fresh(np.zeros(v.aval.shape, bool)) if is_key_aval(v.aval) else None
        for v in jaxpr.invars
    ]
    flow = _checks._Flow()
    outs = flow.program(jaxpr, [None] * len(jaxpr.constvars), ins)
    found: list[Any] = [
        Sink(k, used)
        for k, cells in enumerate(ins)
        if cells is not None and (used := _checks._used(cells)).any()
    ]
    sources, forwards = [], []
    for j, cells in enumerate(outs):
        if cells is None:
            continue
        same = [k for k, given in enumerate(ins) if given is not None and _same(given, cells)]
        forwards += [Forward(k, j) for k in same]
        if not same and not _checks._used(cells).all():
            sources.append(Source(j, ~_checks._used(cells)))
    return KeyReuseSignature(*found, *sources, *forwards)


def _same(a: Any, b: Any) -> bool:
    return a.size == b.size and all(x is y for x, y in zip(a.flat, b.flat, strict=True))


get_jaxpr_type_signature = jaxpr_type_signature


def function_type_signature(fun: Callable[..., Any], *args: Any) -> KeyReuseSignature:
    """What a function does with its keys. KeyReuseError if it uses one twice."""
    return jaxpr_type_signature(make_jaxpr(fun)(*args).jaxpr)


def check_key_reuse(fun: Callable[..., Any], /, *args: Any) -> None:
    """KeyReuseError if a function uses a key twice; AssertionError if one is not as it asserts."""
    function_type_signature(fun, *args)


def check_key_reuse_jaxpr(jaxpr: Any) -> None:
    """KeyReuseError if a program uses a key twice."""
    jaxpr_type_signature(jaxpr)


def _of_equation(eqn: JaxprEqn) -> KeyReuseSignature:
    return jaxpr_type_signature(Jaxpr([], list(eqn.invars), list(eqn.outvars), [eqn], eqn.effects))


_FORWARD = KeyReuseSignature(Forward(0, 0))
_SIGNATURES = {
    "random_clone": KeyReuseSignature(Source(0)),
    "random_bits": KeyReuseSignature(Sink(0)),
    "random_fold_in": KeyReuseSignature(Source(0)),
    "random_seed": KeyReuseSignature(Source(0)),
    "random_split": KeyReuseSignature(Sink(0), Source(0)),
    "random_gamma": KeyReuseSignature(Sink(0)),
    **dict.fromkeys(
        "broadcast_in_dim copy stage convert_element_type reshape squeeze layout_constraint "
        "sharding_constraint reshard dynamic_slice gather".split(),
        _FORWARD,
    ),
    "random_wrap": KeyReuseSignature(Source(0)),
    "dynamic_update_slice": KeyReuseSignature(Sink(1), Forward(0, 0)),
    "scatter": KeyReuseSignature(Sink(2), Forward(0, 0)),
    **dict.fromkeys("random_unwrap debug_callback eq ne".split(), KeyReuseSignature()),
    **dict.fromkeys(
        "slice concatenate jit shard_map cond scan while remat2 device_put".split(),
        DynamicKeyReuseSignature(_of_equation),
    ),
}
key_reuse_signatures: dict[Any, Any] = {
    consume_p: KeyReuseSignature(Sink(0), Forward(0, 0)),
    assert_consumed_value_p: _FORWARD,
    **{ALL[name]: said for name, said in _SIGNATURES.items() if name in ALL},
}


def key_reuse_signature_from_eqn(eqn: JaxprEqn) -> KeyReuseSignature:
    """What an equation does with its keys."""
    known = key_reuse_signatures.get(eqn.primitive)
    return known if isinstance(known, KeyReuseSignature) else _of_equation(eqn)
