"""The names of jitted functions in programs of public functions, beside JAX's:

    python tests/named_jits.py --draws 3 --only special
    python tests/named_jits.py --case 'jnp.unique(i4(5), size=4)'

Calls of the sample table (tests/sweep_cases.py) are traced with their arrays as arguments. What is
printed are names that JAX's program has, at any depth, and ours has not.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import oracle_flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

# Names that our programs do without: (what a call looks like, names, why).
CONSTANT = "the result does not depend on the arguments: a constant of the program"
WITHOUT = [
    (
        r"(tril|triu)_indices|kaiser|bernoulli\(|hadamard|helmert|invhilbert|pascal",
        "tril triu cumsum clip floor_divide remainder _where i0 cumprod block _binom",
        CONSTANT,
    ),
    (r"circulant|fiedler_companion|(insert|delete)\(",
     "remainder _where argsort clip cumsum floor_divide sort", "the indices are constants"),
    (r"spence|expn|exp1|expi|gumbel", "cumsum remainder polyval",
     "pieces are chosen by comparisons, not by counting them; other series"),
    (r"lpmn|sph_harm_y", "_pad _roll_static clip cumprod cumsum floor_divide remainder triu",
     "recurrences are written out, in arrays that are stacked"),
    (r"det\(|slogdet\(", "slogdet diagonal count_nonzero remainder _where",
     "the product of the factors' diagonal, without logarithms"),
    (r"expm(_frechet)?\(", "digitize searchsorted _searchsorted_scan_impl floor_divide",
     "orders are chosen by comparisons"),
    (r"funm", "rsf2csf _rsf2csf_2d eigvals norm isinf",
     "the Schur form is complex from the start; what is NaN has an infinite error, too"),
    (r"rsf2csf", "eigvals norm", "eigenvalues of 2 x 2 by their formula"),
    (r"solve_sylvester", "eigvals inv solve _solve _lu_solve _lu floor_divide remainder _where",
     "both methods solve triangular systems"),
    (r"polar\(|qdwh\(", "qdwh norm dynamic_index_in_dim _where", "both methods decompose"),
    (r"cond\(.*-2", "_where", "divisions by zero are infinite anyway"),
    (r"detrend|stft|welch|csd|Rotation|Slerp", "atleast_1d atleast_2d _linspace remainder _where",
     "shapes are known"),
    (r"convolve|correlate", "_flip", "nothing to turn round"),
    (r"\.(accumulate|reduceat)\(", "_where _take append", "native scans, not loops of elements"),
    (r"(unique|union1d|setxor1d|mode\()", "lexsort", "values alone are sorted, no permutation"),
    (r"histogram(2d|dd)", "diff", "widths are of densities alone"),
    (r"lcm", "floor_divide", "magnitudes are divided as they are"),
    (r"repeat\(|nancumsum|place\(|compress\(|percentile|pad\(|searchsorted\(",
     "_take _where clip floor_divide remainder argsort take_along_axis round "
     "_searchsorted_scan_impl _roll_static cumsum",
     "a shorter way; nothing to do for integers and for no elements"),
    (r"poisson\.entropy", "round", "it is a sum over integers"),
    (r"fft\..*axes=\(\)", "fft", "there is nothing to transform"),
    (r"segment_\w+\(.*bucket_size", "floor_divide _where", "sizes of buckets are known"),
    (r"qr_multiply", "triu", "both factors are made, and R has its zeros"),
    (r"gmres", "_cho_solve _cholesky _pad _solve",
     "small least squares are solved by singular values, not by squared equations"),
    (r"bcsr_sum_duplicates", "_csr_to_coo clip", "rows of elements are searched for"),
    (r"lax\.index_take", "remainder _where", "positions are wrapped by operations of lax"),
    (r"(extract|intersect1d)\(.*\b0\b", "argsort lexsort _unique_sorted_mask _where",
     "there is nothing to sort"),
    (r"multinomial|dot_product_attention", "clip tril", "compared, not made"),
]  # fmt: skip


class Calls(NamedTuple):
    """A jitted call in a program: its name, and the calls within."""

    name: str
    within: list[Any]


def _programs(value: Any) -> Iterator[Any]:
    if hasattr(value, "jaxpr") and hasattr(value.jaxpr, "eqns"):
        yield value.jaxpr
    elif hasattr(value, "eqns"):
        yield value
    elif isinstance(value, tuple | list):
        for x in value:
            yield from _programs(x)


def calls(jaxpr: Any) -> list[Calls]:
    """The jitted calls of a program; loops, branches and custom rules are looked into."""
    found: list[Calls] = []
    for eqn in jaxpr.eqns:
        parts = (calls(p) for key in sorted(eqn.params) for p in _programs(eqn.params[key]))
        inner = [c for part in parts for c in part]
        if eqn.primitive.name in ("jit", "pjit"):
            found.append(Calls(eqn.params["name"], inner))
        else:
            found += inner
    return found


def names(found: list[Calls]) -> set[str]:
    return {c.name for c in found}.union(*(names(c.within) for c in found))


def shown(found: list[Calls]) -> str:
    return " ".join(c.name + (f"({shown(c.within)})" if c.within else "") for c in found)


def _drawn(source: str, scope: dict[str, Any], make: Any) -> Any:
    """What an expression gives, its arrays being made by `make(kind, shape, options)`."""
    import sweep_cases

    def maker(kind: str) -> Any:
        return lambda *shape, **options: make(kind, shape, options)

    makers = {kind: maker(kind) for kind in sweep_cases.DTYPES}
    edges = {"E": lambda kind: make(kind, None, {})}
    return sweep_cases.plain(eval(source, {**scope, **makers, **edges}))


def arrays_of(source: str, scope: dict[str, Any], lib: Any) -> list[Any]:
    """The arrays of an expression, in the order in which they are made."""
    import numpy as np
    import sweep_cases

    made: list[Any] = []

    def make(kind: str, shape: Any, options: Any) -> Any:
        if shape is None:
            made.append(np.array(sweep_cases.EDGES).astype(sweep_cases.DTYPES[kind]))
        else:
            made.append(sweep_cases.array(kind, *shape, **options))
        return lib.numpy.asarray(made[-1])

    def run() -> list[Any]:
        _drawn(source, scope, make)
        return []

    lib.eval_shape(run)
    return made


def traced(source: str, scope: dict[str, Any], lib: Any, arrays: list[Any]) -> Any:
    """The program of an expression, as a function of its arrays."""
    import numpy as np

    def f(*args: Any) -> Any:
        left = iter(args)
        out = _drawn(source, scope, lambda kind, shape, options: next(left))
        leaves = lib.tree_util.tree_leaves(out)
        return [x for x in leaves if isinstance(x, lib.Array | np.ndarray)]

    return lib.make_jaxpr(f)(*arrays)


def missing(source: str, scopes: dict[str, Any], libs: dict[str, Any]) -> set[str] | None:
    """The names that ours is without and should have; None where JAX refuses the call."""
    try:
        arrays = arrays_of(source, scopes["jax"], libs["jax"])
        theirs = names(calls(traced(source, scopes["jax"], libs["jax"], arrays).jaxpr))
    except Exception:
        return None
    try:
        ours = names(calls(traced(source, scopes["pullback"], libs["pullback"], arrays).jaxpr))
    except Exception:
        if refused_by_both(source, scopes):
            return None
        raise
    excused = {n for text, some, _ in WITHOUT if re.search(text, source) for n in some.split()}
    return theirs - ours - excused


def refused_by_both(source: str, scopes: dict[str, Any]) -> bool:
    """Whether JAX refuses the call only when it is compiled, or gives what ours may refuse."""
    import sweep_cases

    wanted, got = (
        sweep_cases.evaluated(text, scopes[root])
        for text, root in ((sweep_cases.right(source), "jax"), (source, "pullback"))
    )
    return "error" in got and not sweep_cases.difference("", source, got, wanted)


def modules(x64: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what the names in expressions stand for, the libraries), by "pullback" and "jax"."""
    import importlib

    import sweep_cases

    libs = {root: importlib.import_module(root) for root in ("pullback", "jax")}
    for lib in libs.values():
        lib.config.update("jax_enable_x64", x64)
    return {root: sweep_cases.environment(root) for root in libs}, libs


def main() -> int:
    assert oracle_flags.FLAGS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=3, help="calls of each template")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="families, with commas between")
    parser.add_argument("--match", default="", help="templates that hold this regular expression")
    parser.add_argument("--x64", action="store_true", help="64-bit types are on")
    parser.add_argument("--case", default="", help="one expression alone")
    options = parser.parse_args()
    import sweep_cases

    warnings.simplefilter("ignore")
    sweep_cases.RATES.update(scalar=0.0, bad=0.0)
    scopes, libs = modules(options.x64)
    if options.case:
        arrays = arrays_of(options.case, scopes["jax"], libs["jax"])
        for root in libs:
            program = traced(options.case, scopes[root], libs[root], arrays)
            print(f"{root}: {shown(calls(program.jaxpr))}")
        return 0
    families = options.only.split(",") if options.only else None
    count = wrong = 0
    seen = set()
    for template in sweep_cases.templates():
        if families and template.family not in families:
            continue
        if not re.search(options.match, template.text):
            continue
        for number in range(options.draws):
            source = sweep_cases.draw(template, number, options.seed, options.x64)
            if source in seen:
                continue
            seen.add(source)
            try:
                lost = missing(source, scopes, libs)
            except Exception as error:
                lost = {f"{type(error).__name__}: {error}"[:200]}
            count += lost is not None
            if lost:
                wrong += 1
                print(f"{source}\n    {' '.join(sorted(lost))}", flush=True)
    print(f"{count} programs, {wrong} of them without a name of JAX's")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
