"""Why a function is traced: what `explain_cache_misses` has said of each trace that is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .. import config, tree
from ..core.naming import fun_source_info
from ..core.source import is_internal, user_summary
from ..lazy_imports import lazy_module

logging: Any = lazy_module("logging")

_places: set[str] = set()  # where the functions are defined of which something was said


def explain(fun: Any, key: Any, known: Sequence[Any], names: Sequence[str] | None) -> None:
    """Logs why `fun` is traced for the key (static arguments, structure, types, context), where
    `known` are those that it has been traced for. Nothing is said of functions of our own."""
    code = getattr(getattr(fun, "__wrapped__", fun), "__code__", None)
    if code is not None and is_internal(code):
        return
    about = fun_source_info(fun)
    lines = [f"TRACING CACHE MISS at {user_summary()}:"]
    if not known:
        lines.append(f"  never seen function:\n    {about} id={id(fun)}")
        if code is not None and about in _places:
            lines.append(
                "  but seen another function defined on the same line; if it is defined anew for "
                "each call, nothing of it can be remembered. Fix: define it once, outside."
            )
        _places.add(about)
    else:
        found = [(list(_differences(key, k, names)), _ranks_differ(key, k)) for k in known]
        told = min(found, key=lambda f: (len(f[0]), f[1]))[0]
        lines.append(f"  for {about}\n  it was traced for other keys only. The closest one has")
        lines += told or ["  the same values, but they are not equal to themselves"]
    logging.getLogger("pullback.tracing").warning("\n".join(lines))


def _differences(key: Any, other: Any, names: Sequence[str] | None) -> Iterator[str]:
    (statics, structure, avals, context), (statics_0, structure_0, avals_0, context_0) = key, other
    if statics != statics_0:
        yield (
            f"  different value of static args:\n  * now {_values(statics)} and before "
            f"{_values(statics_0)}"
        )
    if structure != structure_0:
        yield "  different input pytree:"
        yield from _of_structures(structure, structure_0)
    elif avals != avals_0:
        yield "  key with different input types:"
        yield from _of_types(avals, avals_0, names)
    if context != context_0:
        yield "  key with different tracing context:"
        yield from _of_contexts(context, context_0)


def _ranks_differ(key: Any, other: Any) -> int:
    """How many arguments have other numbers of axes."""
    ranks = ([len(getattr(a, "shape", ())) for a in k[2]] for k in (key, other))
    return sum(a != b for a, b in zip(*ranks, strict=False))


def _values(statics: Any) -> str:
    return ", ".join(f"{k}={x!r}" if isinstance(k, str) else repr(x) for k, _, x in statics)


def _of_structures(now: Any, before: Any) -> Iterator[str]:
    trees = (tree.unflatten(t, range(t.num_leaves)) for t in (before, now))
    for path, was, have, why in tree.equality_errors(*trees):
        yield f"  * at input path {tree.keystr(path)}, now {have} and before {was}, so {why}"


def _of_types(now: Any, before: Any, names: Sequence[str] | None) -> Iterator[str]:
    for k, (a, b) in enumerate(zip(now, before, strict=True)):
        if a == b:
            continue
        have, was = (x.str_short(short_dtypes=True) for x in (a, b))
        weak = getattr(a, "weak_type", False), getattr(b, "weak_type", False)
        where = names[k] if names and k < len(names) else f"number {k}"
        if weak[0] == weak[1]:
            yield f"  * at {where}, now {have} and before {was}"
            continue
        yield (
            f"  * at {where}, now {have}{{weak_type={weak[0]}}} and before "
            f"{was}{{weak_type={weak[1]}}}: Python's numbers are weak "
            "(https://docs.jax.dev/en/latest/type_promotion.html#weak-types)"
        )


def _of_contexts(now: Any, before: Any) -> Iterator[str]:
    for flag, a, b in zip(config.trace_flags(), now[0], before[0], strict=True):
        if a != b:
            yield f"  * {flag.name} differs: now {a} and before {b}"
    whats = (
        "axes in scope",
        "mesh in force",
        "mesh of `with mesh:`",
        "axes over which values are checked to vary",
    )
    for what, a, b in zip(whats, now[1:], before[1:], strict=True):
        if a != b:
            yield f"  * {what}: now {a} and before {b}"
