"""Runs a random program on real JAX and on Pullback and says what differs: values, types, trees,
or the class of the error.
"""

from __future__ import annotations

import contextlib
import functools
import re
import time
import types
import warnings

import fuzz_programs
import fuzz_rounding
import jax
import jax.lax
import jax.numpy
import jax.random
import numpy as np
from jax.interpreters import ad

import pullback
import pullback.nn
import pullback.random

# (relative, absolute as a part of the largest element) for each floating type: two or three
# roundings of a narrow type, a hundred of a wide one. What lies further apart must be explained by
# how far rounding moves JAX's own results (fuzz_rounding.py), element by element.
TOLERANCE = {
    "float8_e4m3fn": (1.3e-1, 7e-2),
    "float8_e5m2": (2.6e-1, 1.3e-1),
    "bfloat16": (1e-2, 4e-3),
    "float16": (2e-3, 5e-4),
    "float32": (1e-5, 1e-6),
    "complex64": (1e-5, 1e-6),
    "float64": (1e-12, 1e-13),
    "complex128": (1e-12, 1e-13),
}
SEEDS = range(6)  # of the noise


def namespaces():
    """(real JAX, Pullback), each with `.jax`, `.numpy`, `.lax`, `.random`."""
    theirs = types.SimpleNamespace(jax=jax, numpy=jax.numpy, lax=jax.lax, random=jax.random)
    ours = types.SimpleNamespace(
        jax=pullback, numpy=pullback.numpy, lax=pullback.lax, random=pullback.random
    )
    return theirs, ours


def on_host(ns, x):
    """A leaf as (array, weak type, is it an array of keys)."""
    if hasattr(x, "dtype") and not isinstance(x.dtype, np.dtype):
        return np.asarray(ns.random.key_data(x)), False, str(x.dtype)
    return np.asarray(x), bool(getattr(x, "weak_type", False)), ""


def outcome(ns, program, jitted):
    """('ok', leaves, tree) or ('error', class names, text)."""
    try:
        with circumstances(ns, program):
            args = ns.jax.tree_util.tree_map(ns.numpy.asarray, program.args)
            f = program.build(ns)
            out = (ns.jax.jit(f) if jitted else f)(*args)
            leaves, tree = ns.jax.tree_util.tree_flatten(out)
            return "ok", [on_host(ns, x) for x in leaves], str(tree)
    except Exception as e:
        return "error", [c.__name__ for c in type(e).__mro__], str(e)[:300]


@contextlib.contextmanager
def circumstances(ns, program):
    """Warnings and the width of numbers, while a program runs."""
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")
        if program.x64:
            stack.enter_context(ns.jax.enable_x64(True))
        yield


def difference(theirs, ours, runs=None):
    """What differs between two outcomes, or None. `runs` are JAX's results under noise, each a list
    of arrays: no element may lie further away than these show."""
    if (
        theirs[0] == "error"
        and cannot(theirs)
        and (ours[0] == "ok" or has_not_either(theirs, ours))
    ):
        return None
    if theirs[0] == ours[0] == "error" and fails(theirs) and meant(ours):
        return None
    if theirs[0] != ours[0]:
        return (
            f"real JAX: {theirs[:2] if theirs[0] == 'ok' else (theirs[1][0], theirs[2])}; ours: "
            f"{ours[:2] if ours[0] == 'ok' else (ours[1][0], ours[2])}"
        )
    if theirs[0] == "error":
        if theirs[1][0] in ours[1] and meant(ours):
            return None
        return f"real JAX raises {theirs[1][0], theirs[2]}, ours {ours[1][0], ours[2]}"
    if theirs[2] != ours[2]:
        return f"trees {theirs[2]} and {ours[2]}"
    for k, ((a, aw, ak), (b, bw, bk)) in enumerate(zip(theirs[1], ours[1], strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype or aw != bw or ak != bk:
            return f"output {k}: {a.dtype}{a.shape} weak={aw} against {b.dtype}{b.shape} weak={bw}"
        if not equal(a, b, None if runs is None else [r[k] for r in runs]):
            return f"output {k}: {a} against {b}"
    return None


# What JAX says, besides NotImplementedError, where it has not got something that has a meaning, and
# that Pullback has got.
MISSING = (
    "Betainc gradient with respect to a and b not supported",
    "Reverse-mode differentiation does not work for lax.while_loop",
    "Linearization failed to produce known values for all output primals",  # the same, inside vjp
    "integer modulo by zero",  # loops over batches of arrays of nothing
    # Mutable references that functions close over, in loops, backwards and under vmap.
    "Triggering __jax_array__() during abstractification",
    "DynamicJaxprTracer has no attribute accum",
    "object has no attribute 'accum'",
    "'Ref' object has no attribute",
    "Invalid integer data type 'V'",  # sums of integers of four bits
    # XLA's compiler stops at a check of its own: transforms of transposed operands in a loop.
    "INTERNAL: RET_CHECK failure",
    # Complex values that a checkpoint's policy keeps: JAX rounds what is kept, real numbers only.
    "reduce_precision does not accept dtype complex",
)

NOT_IMPLEMENTED = re.compile("Differentiation rule for '([a-z_0-9]+)' not implemented")

# Derivatives that both refuse, in these words.
REFUSED_BY_BOTH = ("polygamma gradient with respect to m", "scatter_apply JVP not implemented")

# The cotangents of a batch of references, whose batch axis JAX leaves where another value has it:
# what is written has the reference's sizes in another order.
SWAPPED = re.compile(r"Invalid shape for `swap`\. Ref shape: \((.*?)\)\. .*Value shape: \((.*?)\)")


def cannot(outcome):
    """Whether JAX refuses not what is wrong, but what it has not got: Pullback may do more."""
    if outcome[1][0] == "NotImplementedError" or any(text in outcome[2] for text in MISSING):
        return True
    shapes = SWAPPED.search(outcome[2])
    have, want = (shapes[k].split(", ") for k in (1, 2)) if shapes else ([], [])
    return have != want and sorted(have) == sorted(want)


def fails(outcome):
    """Whether JAX stops by a fault of its own, before what the draw is about."""
    four_bits = "Invalid integer data type 'V'" in outcome[2]  # the sum of integers of four bits
    return outcome[1][0] == "AssertionError" or four_bits


def meant(outcome):
    """Whether an error of Pullback's is meant for users."""
    return outcome[1][0] != "AssertionError" and "internal error" not in outcome[2]


def has_not_either(theirs, outcome):
    """Whether Pullback, past what JAX has not got, met what neither has: a derivative; or, past the
    gradients of betainc, or linearizations, which are refused before anything is computed, another
    fault."""
    if "Betainc gradient" in theirs[2] or "Linearization failed" in theirs[2]:
        return meant(outcome)
    if any(text in outcome[2] for text in REFUSED_BY_BOTH):
        return True
    found = NOT_IMPLEMENTED.match(outcome[2])
    return found is not None and found[1] not in {p.name for p in ad.primitive_jvps}


def equal(a, b, runs=None):
    """Integers, bits and keys exactly, floats up to some roundings. With `runs`, floats may lie
    three times as far apart as noise moves them, and other elements are free if it does."""
    if a.dtype.names:  # float0
        return True
    if a.dtype.name not in TOLERANCE:
        if runs is None:
            return a.tobytes() == b.tobytes()
        return bool(np.all((a == b) | np.any([r != a for r in runs], axis=0)))
    rtol, atol = TOLERANCE[a.dtype.name]
    wide = "complex128" if a.dtype.kind == "c" else "float64"
    a, b = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(a[np.isfinite(a)]), initial=1e-2)
        near = np.isclose(a, b, rtol=rtol, atol=atol * largest, equal_nan=True)
        if runs is None or np.all(near):
            return bool(np.all(near))
        moves = np.max([_distance(a, r.astype(wide)) for r in runs], axis=0)
        return bool(np.all(near | (_distance(a, b) <= 3 * moves)))


def _distance(a, b):
    """How far two arrays of floats lie apart; infinitely, where only one of them is a number."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.inf))


def under_noise(ns, program):
    """JAX's results with noise of the size of rounding in each operation: a list of arrays for each
    seed."""
    with circumstances(ns, program):
        args = ns.jax.tree_util.tree_map(ns.numpy.asarray, program.args)
        runs = fuzz_rounding.noisy_results(program.build(ns), args, SEEDS)
        return [[on_host(ns, x)[0] for x in run] for run in runs]


def compare(theirs, ours, program):
    """What differs between JAX and Pullback on a program, or None."""
    return verdict(theirs, ours, program)[1]


def verdict(theirs, ours, program):
    """(how the comparison ended, what differs or None). It ends in "equal", "equal to rounding" (of
    an ill-conditioned program), "equal to JAX by steps", "equal but for infinities", "same error",
    "only ours works" or "differs".
    """
    expected = outcome(theirs, program, program.mode != "eager")
    start = time.monotonic()
    found = outcome(ours, program, program.mode == "jit")
    seconds = time.monotonic() - start
    text = difference(expected, found)
    if text and program.mode == "mixed" and "error" in (expected[0], found[0]):
        # An error may come with jit alone, or without it alone: what no result needs is not
        # computed under jit, what is concrete is known without. JAX is asked in our mode.
        expected = outcome(theirs, program, False)
        text = difference(expected, found)
    if text and "error" == expected[0] == found[0]:
        with missing_derivative(expected):
            expected = outcome(theirs, program, program.mode == "jit")
        text = difference(expected, found)
    if not text:
        if expected[0] == "ok":
            return "equal", None
        if found[0] == "error":
            return "same error", None
        # Second derivatives of loops of loops are large programs: one compilation must do.
        return "only ours works", alone(ours, program, found) if seconds < 20 else None
    if expected[0] == found[0] == "ok":
        try:
            runs = under_noise(theirs, program)
        except Exception as e:
            return "differs", f"{text}\n    (not evaluated under noise: {type(e).__name__}: {e})"
        if not difference(expected, found, runs):
            return "equal to rounding", None
        if not difference(by_steps(theirs, program), found, runs):
            return "equal to JAX by steps", None
        if program.kind == "edges" and not difference(
            without_numbers(expected, found), found, runs
        ):
            return "equal but for infinities", None
    return "differs", text


@contextlib.contextmanager
def missing_derivative(outcome):
    """While JAX is asked again: a derivative that it has not got, of the right type if not value.
    Past it lies the fault that Pullback reports, which has the derivative."""
    named = NOT_IMPLEMENTED.match(outcome[2])
    primitive = getattr(jax.lax, f"{named[1]}_p", None) if named else None
    if primitive is None or primitive in ad.primitive_jvps:
        yield
        return

    def stand_in(primals, tangents, **params):
        out = primitive.bind(*primals, **params)
        known = [t for t in tangents if type(t) is not ad.Zero]
        return out, functools.reduce(jax.lax.add, known)

    ad.primitive_jvps[primitive] = stand_in
    try:
        yield
    finally:
        del ad.primitive_jvps[primitive]


def by_steps(ns, program):
    """JAX's outcome with jit disabled, where loops are Python's. Where it differs from the other
    one, JAX contradicts itself: second derivatives of frexp in a scan lack terms."""
    with ns.jax.disable_jit():
        return outcome(ns, program, False)


def without_numbers(theirs, ours):
    """JAX's outcome, with our infinities where it has NaN: beyond the largest number it multiplies
    infinities by denormal numbers, which it takes for zeros and Pullback does not."""

    def merged(a, b):
        if a.dtype.name not in TOLERANCE or a.shape != b.shape or a.dtype != b.dtype:
            return a
        wide = "complex128" if a.dtype.kind == "c" else "float64"
        return np.where(np.isnan(a.astype(wide)) & np.isinf(b.astype(wide)), b, a)

    leaves = [(merged(a, b), *rest) for (a, *rest), (b, *_) in zip(theirs[1], ours[1], strict=True)]
    return theirs[0], leaves, theirs[2]


def alone(ours, program, found):
    """What differs between a result that JAX does not have and the same computed in the other mode,
    jitted or eager: roughly, since nothing tells how far rounding moves it. Where the eager one has
    NaN the jitted one is free: compiled products with masks select (docs/numerics.md)."""
    jitted = program.mode == "jit"
    other = outcome(ours, program, not jitted)
    if other[0] == "error":
        return f"only ours works, but in one mode: {other[1][0], other[2]}"
    for (a, *_), (b, *_) in zip(found[1], other[1], strict=True):
        if a.dtype.name not in TOLERANCE:
            continue
        a, b = (x.astype("complex128") for x in (a, b))
        eager, compiled = (b, a) if jitted else (a, b)
        compiled[np.isnan(eager)] = eager[np.isnan(eager)]
        with np.errstate(all="ignore"):
            largest = np.max(np.abs(a[np.isfinite(a)]), initial=1e-2)
            if not np.allclose(a, b, rtol=2e-2, atol=1e-3 * largest, equal_nan=True):
                return f"only ours works, and jitted and eager results differ: {a} against {b}"
    return None


def draw(seed, number):
    """The program that (seed, number) names, whatever was drawn before it."""
    return fuzz_programs.draw(np.random.default_rng([seed, number]))


def check(seed, number):
    """What differs on one draw, with the program's text and how to run it again; or None."""
    return report(seed, number)["differs"]


def report(seed, number):
    """One draw as plain data: its number, cell and stack, how the comparison ended, and the text of
    a difference or None.
    """
    program = draw(seed, number)
    end, text = verdict(*namespaces(), program)
    again = f"python tests/fuzz_run.py --seed {seed} --only {number}"
    if text:
        text = f"draw {number} (seed {seed}): {program.text}\n    {text}\n    {again}"
    return {
        "draw": number,
        "cell": program.kind,
        "stack": program.stack,
        "end": end,
        "differs": text,
    }
