"""Calls with one argument that does not fit, made from the calls of `sweep/*.txt`: of another type,
rank or size, or traced where its value is needed.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator

BAD = [
    *("None", "'abc'", "1j", "True", "-1", "1.5", "10**30", "-2**70", "float('nan')"),
    *("()", "[]", "{}", "(1, 1)", "(0, 0, 0)", "(-9,)", "[1, [2, 3]]", "['a', 'b']", "[None]"),
    *("object()", "f4()", "f4(0)", "f4(2, 2)", "i4(2, 2)", "b1(3)", "b1()", "c8(2)", "i1()"),
    *("i4(3, 0, 2)", "bf(1, 1, 1, 1)", "np.ones(3)", "np.array(['a', 'b'])", "np.int64(7)"),
    *("np.array([1, 2], object)", "np.float64(0.5)", "jnp.float32", "key", "lambda x: x"),
    *("slice(None)", "Ellipsis", "np.arange(3)", "range(2)", "b'ab'", "np.str_('x')", "7", "-8"),
]


def places(tree: ast.expr) -> Iterator[tuple[ast.Call, int | ast.keyword]]:
    """The arguments of the library's functions, not those of the arrays that are made for them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "np":
                continue
            for k, argument in enumerate(node.args):
                if not isinstance(argument, ast.Starred):
                    yield node, k
            yield from ((node, keyword) for keyword in node.keywords if keyword.arg)


def worsened(source: str, rng: random.Random) -> str:
    """The expression with one argument replaced: with what is bad, or with a tracer of itself."""
    try:
        tree = ast.parse(source.strip(), mode="eval").body
    except SyntaxError:  # an empty alternative before optional arguments
        return source
    found = list(places(tree))
    if not found:
        return source
    call, place = rng.choice(found)
    old = call.args[place] if isinstance(place, int) else place.value
    traced = rng.random() < 0.15 and not isinstance(old, ast.Lambda)
    new = ast.Name("traced") if traced else ast.parse(rng.choice(BAD), mode="eval").body
    if isinstance(place, int):
        call.args[place] = new
    else:
        place.value = new
    text = ast.unparse(tree)
    return f"jax.jit(lambda traced: {text})({ast.unparse(old)})" if traced else text
