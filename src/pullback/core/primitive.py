"""A primitive is a name and its rules, all given in one block. The tables of rules stay open: other
libraries add to them.

Rule signatures (arrays are positional, metadata is keyword):
    abstract_eval(*avals, **params) -> aval | avals, or (…, effects) with `effectful=True`
    jvp(primals, tangents, **params) -> (out | outs, tangent | tangents); tangents may be `Zero`
    transpose(ct | cts, *args, **params) -> one cotangent (or None / Zero) per argument; linear
    arguments are `UndefinedPrimal` batch(args, dims, **params) -> (out | outs, dim | dims); a dim
    is an axis or `None` (not batched) partial_eval: see transforms/partial_eval (primitives that
    hold jaxprs)
    computable(*avals, **params) raises for what may be traced, as dead code, but not computed
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

from ..errors import MissingRuleError
from .avals import ShapedArray, intern, is_operand
from .explicit import laid, said
from .trace import current_trace, use_trace


class No(enum.Enum):
    """Why a primitive has no such rule."""

    NOT_LINEAR = "it is not linear in any operand"
    NOT_DIFFERENTIABLE = "its results do not depend smoothly on its operands"
    HOLDS_NO_ARRAYS = "it has no array operand"
    BY_TRACE = "the trace itself handles it"
    SIDE_EFFECT = "it has an effect that the transformation cannot order"
    UNDEFINED = "it was created without one; register it in the table of that rule"


RULES = (
    "abstract_eval",
    "jvp",
    "transpose",
    "batch",
    "partial_eval",
    "impl",
    "fancy_transpose",
    "axis_batch",
    "discharge",
    "computable",
)
ALL: dict[str, Primitive] = {}
_NO_EFFECTS: frozenset[Any] = frozenset()
_MOST_TYPES = 1024  # of a primitive


class Primitive:
    """An operation. `bind` applies it under the current trace.

    A primitive of this package is created with every rule; a library's may start empty and be
    filled through the tables (`interpreters.ad.primitive_jvps` and so on) and the `def_*` methods.

    >>> from pullback.extend import core
    >>> double_p = core.Primitive("example_double")
    >>> _ = double_p.def_impl(lambda x: x * 2), double_p.def_abstract_eval(lambda aval: aval)
    >>> pb.make_jaxpr(double_p.bind)(3.0)
    { lambda ; a:f32[]. let b:f32[] = example_double a in (b,) }
    """

    multiple_results = False
    call_primitive = False
    map_primitive = False

    def __init__(
        self,
        name: str,
        *,
        abstract_eval: Callable[..., Any] | No = No.UNDEFINED,
        jvp: Callable[..., Any] | No = No.UNDEFINED,
        transpose: Callable[..., Any] | No = No.UNDEFINED,
        batch: Callable[..., Any] | No = No.UNDEFINED,
        partial_eval: Callable[..., Any] | None = None,
        multiple_results: bool = False,
        effectful: bool = False,
        register: bool = True,
        **other_rules: Callable[..., Any],
    ) -> None:
        self.name = name
        if multiple_results:  # else what the class says, as a library's own may
            self.multiple_results = True
        self.effectful = effectful
        # What `abstract_eval` gave, where it depends on nothing but types and plain parameters.
        self.known_types: dict[Any, Any] | None = None
        self.rules: dict[str, Any] = {
            "abstract_eval": abstract_eval,
            "jvp": jvp,
            "transpose": transpose,
            "batch": batch,
            **other_rules,
        }
        if partial_eval is not None:
            self.rules["partial_eval"] = partial_eval
        if register and abstract_eval is not No.UNDEFINED:
            ALL.setdefault(name, self)

    def __repr__(self) -> str:
        return self.name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Applies the primitive to arrays or tracers, under the current trace."""
        try:
            return current_trace().process_primitive(self, args, params)
        except TypeError:
            name_operand(self.name, args)
            raise

    def bind_with_trace(self, trace: Any, args: Any, avals: Any, params: Any = None) -> Any:
        """`bind` under a given trace; the operands' types may be given before the parameters."""
        with use_trace(trace):
            return self._bind_parts(args, avals if params is None else params)

    def _bind_parts(self, args: Any, params: dict[str, Any]) -> Any:
        return self.bind(*args, **params)

    def rule(self, kind: str) -> Callable[..., Any]:
        """The rule of this kind; raises MissingRuleError (saying why, and where to add it) if there
        is none.
        """
        found = self.rules.get(kind, No.UNDEFINED)
        if isinstance(found, No):
            raise MissingRuleError(_explain(self.name, kind, found))
        return found  # type: ignore[no-any-return]

    def has_rule(self, kind: str) -> bool:
        return not isinstance(self.rules.get(kind, No.UNDEFINED), No)

    def abstract_eval(self, *avals: Any, **params: Any) -> tuple[Any, frozenset[Any]]:
        """(avals of the results, effects)."""
        known, found = self.known_types, None
        if known is not None:
            key = (avals, *params.items())
            try:
                found = known.get(key)
            except TypeError:  # a parameter that is not hashable
                known = None
        if found is None:
            if known is not None:
                _refuse_references(self.name, avals)
            out = self.rule("abstract_eval")(*avals, **params)
            if known is None:
                found = out if self.effectful else (out, _NO_EFFECTS)
            else:
                # One object for all equal types: to compare them costs nothing.
                if type(out) is ShapedArray and all(type(n) is int for n in out.shape):
                    out = intern(out)
                found = out, _NO_EFFECTS
                if len(known) >= _MOST_TYPES:
                    known.clear()
                known[key] = found
        if said[0]:  # types say something of meshes
            return laid(self, avals, params, found[0]), found[1]
        return found

    def check_computable(self, *avals: Any, **params: Any) -> None:
        """Raises if this cannot be computed on such operands. Asked by whoever computes, with or
        without elements, and not before: dead code may hold what it likes."""
        check = self.rules.get("computable")
        if check is not None:
            check(*avals, **params)

    def remember_types(self) -> None:
        """Keeps the results of `abstract_eval`: it depends on its arguments alone, which hold no
        programs and no functions."""
        self.known_types = {}

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """What `bind` takes, made of an equation's parameters; functions under `subfuns`."""
        return params

    # The registration methods that libraries call.
    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        self.rules["impl"] = impl
        return impl

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*avals: Any, **params: Any) -> Any:
            _check_params(self.name, params)
            out = rule(*avals, **params)
            if isinstance(out, (list, tuple)) is not bool(self.multiple_results):
                raise ValueError(
                    f"{self.name}.abstract_eval() method should return a tuple or a list iff "
                    f"{self.name}.multiple_results. Fix: it returned {out!r}."
                )
            return out

        self.known_types = None
        self.rules["abstract_eval"] = checked
        return rule

    def def_effectful_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*avals: Any, **params: Any) -> Any:
            _check_params(self.name, params)
            return rule(*avals, **params)

        self.rules["abstract_eval"] = checked
        self.effectful, self.known_types = True, None
        return rule

    def impl(self, *args: Any, **params: Any) -> Any:
        return self.rule("impl")(*args, **params)


def _check_params(name: str, params: dict[str, Any]) -> None:
    """TypeError for a parameter of a library's primitive that caches of programs cannot hold; JAX
    lets dicts pass.
    """
    for key, value in params.items():
        try:
            type(value) is dict or hash(value)
        except TypeError:
            raise TypeError(
                f"parameters of equations must have __hash__ and __eq__ methods; in a call of the "
                f"primitive {name}, {key} was not hashable: {value!r}. Fix: pass arrays as "
                "operands, and tuples in place of lists."
            ) from None


def _refuse_references(name: str, avals: Sequence[Any]) -> None:
    """ValueError if an operation on arrays is given a mutable reference."""
    for aval in avals:
        if aval.is_reference:
            raise ValueError(
                f"Attempting to pass a Ref {aval} to a primitive: {name} -- did you forget to "
                "unpack ([...]) the ref? Fix: read it first, ref[...]."
            )


def name_operand(name: str, args: tuple[Any, ...]) -> None:
    """TypeError for the first of the operands of a primitive that no array can hold."""
    for position, x in enumerate(args):
        if not is_operand(x):
            raise TypeError(
                f"Error interpreting argument to {name} as a JAX value. The problematic value is "
                f"of type {type(x)} and was passed to {name} at position {position}. Fix: pass "
                "arrays or numbers."
            ) from None


_TABLES = {
    "jvp": "interpreters.ad.primitive_jvps",
    "transpose": "interpreters.ad.primitive_transposes",
    "batch": "interpreters.batching.primitive_batchers",
}
_NAMES = {
    "jvp": "Differentiation rule",
    "transpose": "Transpose rule (for reverse-mode differentiation)",
    "batch": "Batching rule",
    "impl": "Evaluation rule",
    "abstract_eval": "Abstract evaluation",
}


def _explain(name: str, kind: str, why: No) -> str:
    title = _NAMES.get(kind, kind.replace("_", " ").capitalize() + " rule")
    where = _TABLES.get(kind)
    fix = f" Fix: {where}[primitive] = rule." if where and why is No.UNDEFINED else ""
    return f"{title} for '{name}' not implemented: {why.value}.{fix}"


class RuleTable(MutableMapping[Primitive, Callable[..., Any]]):
    """A mutable view of one kind of rule over all primitives, for libraries that register their
    own.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._held: dict[Primitive, None] = {}

    def __getitem__(self, p: Primitive) -> Callable[..., Any]:
        if not p.has_rule(self.kind):
            raise KeyError(p)
        return p.rule(self.kind)

    def __setitem__(self, p: Primitive, rule: Callable[..., Any]) -> None:
        p.rules[self.kind] = rule
        if self.kind == "abstract_eval":
            p.known_types = None
        self._held[p] = None

    def __delitem__(self, p: Primitive) -> None:
        p.rules[self.kind] = No.UNDEFINED
        self._held.pop(p, None)

    def __iter__(self) -> Iterator[Primitive]:
        seen = dict.fromkeys(p for p in ALL.values() if p.has_rule(self.kind))
        return iter({**seen, **{p: None for p in self._held if p.has_rule(self.kind)}})

    def __len__(self) -> int:
        return sum(1 for _ in self)
