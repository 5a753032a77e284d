"""Einstein summation: a notation for products and sums over named axes, contracted pair by pair
through dot_general.
"""

from __future__ import annotations

import decimal
import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..api.placement import freely, lay_out
from ..core.avals import ShapedArray, typeof
from ..primitives.common import as_array, asked_layout
from ..primitives.contract import canonicalize_precision, dot_general
from ..primitives.convert import convert_weak
from ..primitives.elementwise import bitwise_and, eq, select
from ..primitives.layout import broadcast_in_dim, broadcasted_iota, reduce_sum, squeeze, transpose
from ..primitives.reductions import reduce_or
from ..primitives.shape import full_like
from .util import check_arraylike, unwrap, user_dtype

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


# --- the notation ---
def _symbol(k: int) -> str:
    """The k-th label: letters first, then characters beyond them."""
    return _LETTERS[k] if k < len(_LETTERS) else chr(k + 140)


def _from_lists(args: Sequence[Any]) -> tuple[str, list[Any]]:
    """The form einsum(x, [0, 1], y, [1, 2], [0, 2]) as subscripts and operands."""
    operands = [args[k] for k in range(0, len(args) - 1, 2)]
    subscripts = [args[k] for k in range(1, len(args), 2)]
    out = args[-1] if len(args) % 2 else None
    for s in [*subscripts, () if out is None else out]:
        if not isinstance(s, list | tuple):
            raise TypeError(
                "einsum takes a string of subscripts before its operands, or a list of labels "
                f"behind each, got {type(s).__name__}. Fix: einsum('ij,jk->ik', x, y)."
            )
    labels = {label for s in [*subscripts, out or ()] for label in s if label is not Ellipsis}
    if not labels <= set(labels):
        raise TypeError("einsum labels must be hashable")
    try:
        ordered = sorted(labels)
    except TypeError:
        raise TypeError(
            "For this input type lists must contain either Ellipsis or hashable and comparable "
            "object (e.g. int, str)."
        ) from None
    names = {label: _symbol(k) for k, label in enumerate(ordered)}

    def text(s: Any) -> str:
        return "".join("..." if label is Ellipsis else names[label] for label in s)

    joined = ",".join(text(s) for s in subscripts)
    return (joined if out is None else f"{joined}->{text(out)}"), operands


def _parse(subscripts: str, shapes: Sequence[tuple[Any, ...]]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, ellipses replaced by labels of their own.
    Raises ValueError for bad subscripts.
    """
    text = subscripts.replace(" ", "")
    if ("-" in text or ">" in text) and (
        text.count("-") != 1 or text.count(">") != 1 or "->" not in text
    ):
        raise ValueError("Subscripts can only contain one '->'.")
    for ch in text.replace("...", "").replace("->", ""):
        if ch in ".":
            raise ValueError("Invalid Ellipses.")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            f"Number of einsum subscripts, {len(terms)}, must be equal to the number of operands, "
            f"{len(shapes)}."
        )
    used = set(text)
    fresh = (s for s in map(_symbol, itertools.count()) if s not in used)
    longest = 0
    for term, shape in zip(terms, shapes, strict=True):
        if term.count("...") > 1:
            raise ValueError("Invalid Ellipses.")
        if "..." in term:
            longest = max(longest, len(shape) - (len(term) - 3))
    # As many labels as any operand has axes are set aside; ellipses take the last of them.
    most = max(map(len, shapes), default=0)
    extra = "".join(itertools.islice(fresh, most))[most - longest :] if longest else ""
    expanded = []
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        n = len(shape) - (len(term) - 3)
        if "..." in term and n >= 0:
            term = term.replace("...", extra[longest - n :])
        if len(term) != len(shape) or "." in term:
            raise ValueError(
                f"Einstein sum subscript '{terms[k]}' does not contain the correct number of "
                f"indices for operand {k}."
            )
        expanded.append(term)
    counts = Counter("".join(expanded))
    if arrow:
        out = right.replace("...", extra)
    else:
        out = extra + "".join(sorted(s for s, n in counts.items() if n == 1 and s not in extra))
    for s in out:
        if out.count(s) > 1:
            raise ValueError(f"Output character '{s}' appeared more than once in the output.")
        if s not in counts:
            raise ValueError(f"Output character '{s}' did not appear in the input")
    return expanded, out


def _sizes(terms: Sequence[str], shapes: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """The size of each label; sizes of 1 broadcast. Raises ValueError if two differ."""
    sizes: dict[str, Any] = {}
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        for s, n in zip(term, shape, strict=True):
            known = sizes.get(s, 1)
            if type(known) is int and known == 1:
                sizes[s] = n
            elif known is not n and known != n and not (type(n) is int and n == 1):
                raise ValueError(
                    f"Size of label '{s}' for operand {k} ({n}) does not match previous terms "
                    f"({known}). "
                    "Fix: a label must have one size everywhere."
                )
    return sizes


# --- the order of contractions ---
_SEARCHES = (
    "auto", "auto-hq", "optimal", "greedy", "eager", "opportunistic", "dp", "dynamic-programming",
    "branch-all", "branch-2", "branch-1", "random-greedy", "random-greedy-128",
)  # fmt: skip


def _cost(
    a: frozenset[str], b: frozenset[str], keep: frozenset[str], sizes: dict[str, Any]
) -> tuple[int, frozenset[str]]:
    """(multiplications and additions, labels left) of contracting two operands."""
    joined = a | b
    left = joined & keep
    return math.prod(sizes[s] for s in joined) * (2 if joined - left else 1), left


def _optimal(
    terms: list[frozenset[str]], out: frozenset[str], sizes: dict[str, Any]
) -> list[tuple[int, ...]]:
    best: tuple[float, list[tuple[int, ...]]] = (math.inf, [])

    def search(rest: list[frozenset[str]], path: list[tuple[int, ...]], cost: float) -> None:
        nonlocal best
        if cost >= best[0]:
            return
        if len(rest) == 1:
            best = cost, path
            return
        for i, j in itertools.combinations(range(len(rest)), 2):
            others = [t for k, t in enumerate(rest) if k not in (i, j)]
            more, left = _cost(rest[i], rest[j], out.union(*others), sizes)
            search([*others, left], [*path, (i, j)], cost + more)

    search(terms, [], 0)
    return best[1]


def _greedy(
    terms: list[frozenset[str]], out: frozenset[str], sizes: dict[str, Any]
) -> list[tuple[int, ...]]:
    """Contracts the pair whose result is smallest beside its operands, again and again."""

    def size(t: frozenset[str]) -> int:
        return math.prod(sizes[s] for s in t)

    path: list[tuple[int, ...]] = []
    rest = list(terms)
    while len(rest) > 1:
        best: Any = None
        for i, j in itertools.combinations(range(len(rest)), 2):
            others = [t for k, t in enumerate(rest) if k not in (i, j)]
            cost, left = _cost(rest[i], rest[j], out.union(*others), sizes)
            # Pairs without a common label are outer products: last.
            score = (not rest[i] & rest[j], size(left) - size(rest[i]) - size(rest[j]), cost)
            if best is None or score < best[0]:
                best = score, i, j, [*others, left]
        path.append((best[1], best[2]))
        rest = best[3]
    return path


def _path(
    terms: Sequence[str], out: str, sizes: dict[str, Any], optimize: Any
) -> list[tuple[int, ...]]:
    """Which operands are contracted when: pairs of positions; each result goes to the end of the
    list.
    """
    n = len(terms)
    if isinstance(optimize, (list, tuple)) and not isinstance(optimize, str):  # type: ignore[unreachable]
        steps = optimize[1:] if optimize and optimize[0] == "einsum_path" else optimize
        return [tuple(operator.index(k) for k in step) for step in steps]
    if optimize is not None and not isinstance(optimize, bool | str):
        raise TypeError(
            f"einsum's optimize must be a bool, a name or a list of steps, got {optimize!r}"
        )
    if n < 3:
        return [tuple(range(n))]  # nothing to search for, whatever the search is called
    if isinstance(optimize, str) and optimize not in _SEARCHES:
        raise KeyError(
            f"Path optimizer '{optimize}' not found, valid options are {', '.join(_SEARCHES)}."
        )
    if optimize is False:
        return [(0, 1)] * (n - 1)  # the first two, as they come
    numbers = {s: size if type(size) is int else 64 for s, size in sizes.items()}
    labels = [frozenset(t) for t in terms]
    search = _greedy if optimize == "greedy" or n > 6 else _optimal
    return search(labels, frozenset(out), numbers)


class PathInfo:
    """What a contraction path costs; prints as a table.

    `contraction_list` has, for each step: the positions that are contracted, the labels that are
    summed, the step's subscripts, what is left afterwards, and the kind of product.
    """

    def __init__(
        self, terms: Sequence[str], out: str, path: list[tuple[int, ...]], shapes: Sequence[Any]
    ) -> None:
        self.input_subscripts, self.output_subscript = ",".join(terms), out
        self.eq = f"{self.input_subscripts}->{out}"
        self.path, self.shapes = path, list(shapes)
        self.size_dict = _sizes(terms, shapes)
        self.indices = frozenset("".join(terms))
        self.scale_list: list[int] = []
        self.size_list: list[int] = []
        self.contraction_list: list[Any] = []
        left, total = list(terms), 0
        for places in path:
            total += self._step(left, places)
        many = math.prod(self.size_dict[s] for s in self.indices)
        # Every operand is multiplied in, and added where a label is met twice.
        inner = sum(len(set(t)) for t in terms) > len(self.indices)
        self.naive_cost = decimal.Decimal(many * (max(1, len(terms) - 1) + inner))
        self.opt_cost = decimal.Decimal(total)
        self.speedup = self.naive_cost / self.opt_cost if total else decimal.Decimal(1)
        self.largest_intermediate = decimal.Decimal(max(self.size_list, default=1))

    def _step(self, terms: list[str], places: tuple[int, ...]) -> int:
        """Contracts `terms` in place; the step's cost."""
        order = tuple(sorted(places, reverse=True))
        popped = [terms.pop(k) for k in order]
        joined = frozenset("".join(popped))
        kept = joined & set(self.output_subscript).union(*terms)
        result = "".join(s for s in dict.fromkeys("".join(popped)) if s in kept)
        result = result if terms else self.output_subscript
        terms.append(result)
        step = f"{','.join(popped)}->{result}"
        product = _kind_of_product(popped, joined - kept, kept)
        rest = tuple(terms) if len(terms) <= 20 else None
        self.contraction_list.append((order, joined - kept, step, rest, product))
        self.scale_list.append(len(joined))
        self.size_list.append(math.prod(self.size_dict[s] for s in kept))
        factor = max(1, len(popped) - 1) + bool(joined - kept)
        cost: int = math.prod(self.size_dict[s] for s in joined) * factor
        return cost

    def __repr__(self) -> str:
        rule = "-" * 80
        lines = [
            f"  Complete contraction:  {self.eq}",
            f"         Naive scaling:  {len(self.indices)}",
            f"     Optimized scaling:  {max(self.scale_list, default=0)}",
            f"      Naive FLOP count:  {self.naive_cost:.3e}",
            f"  Optimized FLOP count:  {self.opt_cost:.3e}",
            f"   Theoretical speedup:  {self.speedup:.3e}",
            f"  Largest intermediate:  {self.largest_intermediate:.3e} elements",
            rule,
            f"scaling{'BLAS':>12}{'current':>23}{'remaining':>38}",
            rule,
        ]
        for scale, (_, _, step, rest, product) in zip(
            self.scale_list, self.contraction_list, strict=True
        ):
            left = "..." if rest is None else f"{','.join(rest)}->{self.output_subscript}"
            width = max(0, 56 - max(22, len(step)))
            lines.append(f"{scale:4d} {product or 0:>14} {step:>22}    {left:>{width}}")
        return "\n".join(lines)


def _kind_of_product(
    terms: Sequence[str], gone: frozenset[str], kept: frozenset[str]
) -> str | bool:
    """The library's product that a contraction of two operands is; False: none, it takes a loop."""
    if len(terms) != 2:
        return False
    a, b = terms
    both = set(a) & set(b)
    if len(set(a)) < len(a) or len(set(b)) < len(b) or gone != both or both & kept:
        return False
    if not gone:
        return "OUTER/EINSUM"
    if set(a) == set(b):
        return "DOT" if a == b else "DOT/EINSUM"
    n = len(gone)
    if {a[:n], a[-n:]} & {b[:n], b[-n:]}:
        return "GEMM"
    return "TDOT" if set(a) - gone and set(b) - gone else "GEMV/EINSUM"


# --- the contraction ---
class _Contraction:
    """Reduces operands to one, pair by pair."""

    def __init__(self, out: str, dtype: Any, precision: Any, dot: Callable[..., Any]) -> None:
        self.out, self.dtype, self.precision, self.dot = out, dtype, precision, dot
        self.lies: Any = None  # how the result of two operands is asked to lie, and its labels

    def _sum(self, x: Any, axes: Sequence[int]) -> Any:
        if not axes:
            return x
        return (reduce_or if dtypes.is_bool(typeof(x).dtype) else reduce_sum)(x, tuple(axes))

    def _sum_alone(self, x: Any, names: str, keep: Any) -> tuple[Any, str]:
        """Sums over labels that occur once, here only, and not in the result."""
        gone = [k for k, s in enumerate(names) if names.count(s) == 1 and s not in keep]
        return self._sum(x, gone), "".join(s for k, s in enumerate(names) if k not in gone)

    def _diagonals(self, x: Any, names: str, keep: Any) -> tuple[Any, str]:
        """Takes the diagonal over the axes of a repeated label: masks what is off it, and sums."""
        for s in dict.fromkeys(names):
            if names.count(s) == 1:
                continue
            axes = [k for k, name in enumerate(names) if name == s]
            x = select(_delta(typeof(x).shape, axes), x, full_like(x, 0))
            if s in keep:
                axes = axes[:-1]
            x = self._sum(x, axes)
            names = "".join(name for k, name in enumerate(names) if k not in axes)
        return x, names

    def one(self, x: Any, names: str, out: str) -> tuple[Any, str]:
        x = convert_weak(x, self.dtype, False) if typeof(x).dtype != self.dtype else x
        x, names = self._sum_alone(x, names, out)
        return self._diagonals(x, names, out)

    def pair(
        self, a: Any, a_names: str, b: Any, b_names: str, out: str, keep: set[str]
    ) -> tuple[Any, str]:
        """Contracts the later operand a with the earlier b."""
        a, a_names, b, b_names = _drop_ones(a, a_names, b, b_names)
        a, a_names = self._sum_alone(a, a_names, keep | set(b_names))
        b, b_names = self._sum_alone(b, b_names, keep | set(a_names))
        a, a_names = self._diagonals(a, a_names, keep | set(b_names))
        b, b_names = self._diagonals(b, b_names, keep | set(a_names))
        shared = set(a_names) & set(b_names)
        contracted = sorted(shared - keep)
        batch = [s for s in out if s in shared and s not in contracted]
        a_free = "".join(s for s in a_names if s not in shared)
        b_free = "".join(s for s in b_names if s not in shared)
        swapped = "".join(batch) + b_free + a_free == out
        if swapped:
            a, a_names, a_free, b, b_names, b_free = b, b_names, b_free, a, a_names, a_free

        def places(names: str, labels: Sequence[str]) -> list[int]:
            return [names.index(s) for s in labels]

        numbers = (
            (places(a_names, contracted), places(b_names, contracted)),
            (places(a_names, batch), places(b_names, batch)),
        )
        names, asked = "".join(batch) + a_free + b_free, {}
        if self.lies is not None and self.lies[0] is not None:
            lies, result = self.lies
            spec = [lies.spec[result.index(s)] if s in result else None for s in names]
            asked = {"out_sharding": lies.update(spec=lies.spec.update(partitions=spec))}
        product = self.dot(
            a, b, numbers, precision=self.precision, preferred_element_type=self.dtype, **asked
        )
        return product, names


def _drop_ones(a: Any, a_names: str, b: Any, b_names: str) -> tuple[Any, str, Any, str]:
    """Removes axes of size 1 whose label is larger in the other operand: there they broadcast."""

    def reduced(x: Any, names: str, y: Any, y_names: str) -> tuple[Any, str]:
        shape, other = typeof(x).shape, dict(zip(y_names, typeof(y).shape))
        gone = [
            k
            for k, s in enumerate(names)
            if type(shape[k]) is int
            and shape[k] == 1
            and s in other
            and not (type(other[s]) is int and other[s] == 1)
        ]
        return (squeeze(x, tuple(gone)) if gone else x), "".join(
            s for k, s in enumerate(names) if k not in gone
        )

    new_a = reduced(a, a_names, b, b_names)
    new_b = reduced(b, b_names, a, a_names)
    return *new_a, *new_b


def _delta(shape: tuple[Any, ...], axes: Sequence[int]) -> Any:
    """True where the indices along all of these axes are equal."""
    base = tuple(shape[k] for k in axes)
    places = [broadcasted_iota(np.uint32, base, k) for k in range(len(axes))]
    mask = functools.reduce(bitwise_and, [eq(p, q) for p, q in itertools.pairwise(places)])
    return mask if len(axes) == len(shape) else broadcast_in_dim(mask, shape, tuple(axes))


def _contract(
    operands: Sequence[Any],
    terms: Sequence[str],
    out: str,
    path: Sequence[tuple[int, ...]],
    how: _Contraction,
) -> Any:
    rest = list(zip(operands, terms, strict=True))
    for step, places in enumerate(path):
        popped = [rest.pop(k) for k in sorted(places, reverse=True)]
        last = step == len(path) - 1 and not rest
        keep = set(out).union(*(names for _, names in rest))
        while popped:
            if len(popped) == 1:
                (x, names), popped = popped[0], []
                final = out if last else "".join(s for s in dict.fromkeys(names) if s in keep)
                rest.append(how.one(x, names, final))
                break
            (a, a_names), (b, b_names) = popped[:2]
            more = set().union(*(names for _, names in popped[2:]))
            seen = "".join(dict.fromkeys(a_names + b_names))
            final = (
                out
                if last and not popped[2:]
                else "".join(s for s in seen if s in keep or s in more)
            )
            result = how.pair(a, a_names, b, b_names, final, keep | more)
            if not popped[2:]:
                rest.append(result)
                break
            popped = [result, *popped[2:]]
    (x, names) = rest[0] if len(rest) == 1 else (None, "")
    if len(rest) != 1:
        raise ValueError(
            f"the contraction path {list(path)} leaves {len(rest)} operands; it must contract all "
            "of them to one"
        )
    if names != out:
        x, names = how.one(x, names, out) if sorted(names) != sorted(out) else (x, names)
        if names != out:
            x = transpose(x, tuple(names.index(s) for s in out))
    return x


def _prepare(
    subscripts: Any, operands: Sequence[Any], lists: bool = False
) -> tuple[list[str], str, dict[str, Any], list[Any]]:
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists([subscripts, *operands])
    if lists:  # of which only the shape is asked
        operands = [np.asarray(x) if isinstance(x, list | tuple) else x for x in operands]
    check_arraylike("einsum", *operands)
    arrays = [unwrap(x) for x in operands]
    shapes = [typeof(x).shape for x in arrays]
    terms, out = _parse(subscripts, shapes)
    return terms, out, _sizes(terms, shapes), arrays


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Callable[..., Any] = dot_general,
    out_sharding: Any = None,
) -> Any:
    """Products of the operands, summed over every label that the result lacks: `einsum("ij,jk->ik",
    a, b)` is the matrix product.

    A label repeated in one operand takes a diagonal, "..." stands for axes that broadcast; without
    "->" the result has, in order, the labels that occur once. The other form is `einsum(a, [0, 1],
    b, [1, 2], [0, 2])`. `optimize` chooses the order of contractions, or gives it
    (False: from the left).

    `precision`: of the products; `preferred_element_type`: the dtype that they are summed in,
    and of the result; `out_sharding`: the sharding of the result. `out` must be None.

    >>> jnp.einsum("ij,j->i", jnp.eye(2), jnp.arange(2.))
    Array([0., 1.], dtype=float32)

    Raises ValueError for subscripts that do not fit the operands.
    """
    if out is not None:
        raise NotImplementedError(
            "The 'out' argument to jnp.einsum is not supported. Fix: use the returned value."
        )
    if not isinstance(subscripts, str) and not operands:
        raise TypeError("einsum needs subscripts and operands, or arrays with lists of labels")
    terms, result, sizes, arrays = _prepare(subscripts, operands)
    path = _path(terms, result, sizes, optimize)
    if any(len(step) > 2 for step in path):
        raise NotImplementedError(
            "jax.numpy.einsum does not support simultaneous contraction of 3 or more operands. "
            "Fix: contract two at a time, or leave optimize out."
        )
    precision = canonicalize_precision(precision)
    if preferred_element_type is None:
        dtype, weak = dtypes.result_type(*arrays, return_weak_type_flag=True)
    else:
        dtype, weak = user_dtype(preferred_element_type, "einsum"), False
    held = [as_array(x) for x in arrays]
    how = _Contraction(result, dtype, precision, _dot_general)
    if out_sharding is not None:
        if len(held) == 2:
            shape = [sizes[s] for s in result]
            how.lies = asked_layout("einsum", out_sharding, shape, True), result
        else:
            held = freely(out_sharding, *held)
    value = _contract(held, terms, result, path, how)
    if out_sharding is not None and (how.lies is None or how.lies[0] is not None):
        value = _lying(value, out_sharding)
    aval = typeof(value)
    return (
        value
        if aval.dtype == dtype and aval.weak_type == weak
        else convert_weak(value, dtype, weak)
    )


def _lying(value: Any, out_sharding: Any) -> Any:
    """The result of a contraction, laid out as asked if it does not lie so already."""
    lies = asked_layout("einsum", out_sharding, typeof(value).shape, True)
    if lies is None or type_of_layout(lies) == typeof(value)._sharding:
        return value
    return lay_out(value, "einsum", out_sharding, follows=True)


def type_of_layout(lies: Any) -> Any:
    return ShapedArray((0,) * len(lies.spec), np.float32, sharding=lies)._sharding


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: Any = "auto"
) -> tuple[list[tuple[int, ...]], Any]:
    """The order in which `einsum` would contract these operands, and what it costs (prints as a
    table); computes nothing.

    `subscripts`, `operands` and `optimize` as for `einsum`: "optimal", "greedy" and so on search,
    False contracts from the left, a list of positions is taken as it is. The order is one too:
    the positions that each step contracts; its result goes to the end of the list.

    >>> a, b, c = jnp.ones((2, 9)), jnp.ones((9, 9)), jnp.ones((9, 3))
    >>> jnp.einsum_path("ij,jk,kl->il", a, b, c)[0]
    [(0, 1), (0, 1)]
    """
    terms, out, sizes, arrays = _prepare(subscripts, operands, lists=True)
    path = _path(terms, out, sizes, optimize)
    return path, PathInfo(terms, out, path, [typeof(x).shape for x in arrays])


__all__ = ["einsum", "einsum_path"]
