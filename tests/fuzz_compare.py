"""Runs a random program on real JAX and on Pullback and says what differs: values, types, trees,
or the class of the error.
"""

from __future__ import annotations

import contextlib
import types
import warnings

import fuzz_programs
import jax
import jax.lax
import jax.numpy
import jax.random
import numpy as np

import pullback
import pullback.nn
import pullback.random

# (relative, absolute as a part of the largest element) for each floating type's width.
TOLERANCE = {
    "float8_e4m3fn": (1.3e-1, 7e-2),
    "float8_e5m2": (2.6e-1, 1.3e-1),
    "bfloat16": (2e-2, 1e-2),
    "float16": (2e-3, 2e-3),
    "float32": (1e-4, 2e-5),
    "complex64": (1e-4, 2e-5),
    "float64": (1e-9, 1e-10),
    "complex128": (1e-9, 1e-10),
}


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


def outcome(ns, program, jitted, nudge=0.0):
    """('ok', leaves, tree) or ('error', class names, text). `nudge` moves the floats among the
    arguments, relatively.
    """
    moved = ns.jax.tree_util.tree_map(lambda a: _nudged(a, nudge), program.args)
    try:
        with warnings.catch_warnings(), contextlib.ExitStack() as stack:
            warnings.simplefilter("ignore")
            if program.x64:
                stack.enter_context(ns.jax.enable_x64(True))
            args = ns.jax.tree_util.tree_map(ns.numpy.asarray, moved)
            f = program.build(ns)
            out = (ns.jax.jit(f) if jitted else f)(*args)
            leaves, tree = ns.jax.tree_util.tree_flatten(out)
            return "ok", [on_host(ns, x) for x in leaves], str(tree)
    except Exception as e:
        return "error", [c.__name__ for c in type(e).__mro__], str(e)[:300]


def _nudged(a, nudge):
    if not nudge or not fuzz_programs.floats(a):
        return a
    wide = "complex128" if a.dtype.kind == "c" else "float64"
    with np.errstate(all="ignore"):
        return (a.astype(wide) * (1 + nudge)).astype(a.dtype)


def difference(theirs, ours, slack=None, through="float32"):
    """What differs between two outcomes, or None. `slack` gives, for each result, how far it may
    move besides rounding; `through` is the narrowest float type that the program passes through."""
    if theirs[0] == "error" and cannot(theirs) and not broken(ours):
        return None
    if theirs[0] != ours[0]:
        return (
            f"real JAX: {theirs[:2] if theirs[0] == 'ok' else (theirs[1][0], theirs[2])}; ours: "
            f"{ours[:2] if ours[0] == 'ok' else (ours[1][0], ours[2])}"
        )
    if theirs[0] == "error":
        if theirs[1][0] in ours[1]:
            return None
        return f"real JAX raises {theirs[1][0], theirs[2]}, ours {ours[1][0], ours[2]}"
    if theirs[2] != ours[2]:
        return f"trees {theirs[2]} and {ours[2]}"
    for k, ((a, aw, ak), (b, bw, bk)) in enumerate(zip(theirs[1], ours[1], strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype or aw != bw or ak != bk:
            return f"output {k}: {a.dtype}{a.shape} weak={aw} against {b.dtype}{b.shape} weak={bw}"
        if not equal(a, b, 0.0 if slack is None else slack[k], through):
            return f"output {k}: {a} against {b}"
    return None


# What JAX says where it has no rule for something that has a meaning.
MISSING = (
    "gradient with respect to",
    "Reverse-mode differentiation does not work for lax.while_loop",
    # Mutable references that functions close over, in loops and backwards.
    "Triggering __jax_array__() during abstractification",
    "DynamicJaxprTracer has no attribute accum",
)


def cannot(outcome):
    """Whether JAX refuses not what is wrong, but what it has not got: Pullback may do more."""
    return outcome[1][0] == "NotImplementedError" or any(text in outcome[2] for text in MISSING)


def broken(outcome):
    """Whether Pullback failed as it never may: not with an error meant for the user."""
    if outcome[0] == "ok":
        return False
    meant = {"TypeError", "ValueError", "NotImplementedError"}.intersection(outcome[1])
    return not meant or "internal error" in outcome[2]


def equal(a, b, slack, through="float32"):
    """Integers, bits and keys exactly; floats up to the rounding of their type (and `slack`)."""
    if a.dtype.name not in TOLERANCE:
        return a.tobytes() == b.tobytes() or (np.any(slack) and np.all(np.abs(a - b) <= slack))
    rtol, atol = max(TOLERANCE[a.dtype.name], TOLERANCE[through])
    wide = "complex128" if a.dtype.kind == "c" else "float64"
    a, b = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(a[np.isfinite(a)]), initial=1e-2)
        return np.allclose(
            a, b, rtol=rtol, atol=atol * largest + np.max(slack, initial=0), equal_nan=True
        )


def sensitivity(ns, program, jitted):
    """How far JAX's own results move when the arguments move by a few units of rounding: an
    ill-conditioned program may differ as far. Rounding at the scale of the draw's largest result is
    allowed too, since the steps before a result that cancels were of that size (the slope of a
    saturated tanh, say, is only as exact as 1 - 1).
    """
    runs = [outcome(ns, program, jitted, nudge) for nudge in (0.0, 2e-6, -2e-6)]
    runs.append(outcome(ns, program, not jitted))
    if any(r[0] != "ok" for r in runs):
        return None
    floats = [x[0] for x in runs[0][1] if x[0].dtype.name in TOLERANCE]
    with np.errstate(all="ignore"):
        sizes = [np.abs(x[np.isfinite(x)]).astype("float64") for x in floats]
    scale = max((float(x.max()) for x in sizes if x.size), default=0.0)
    return [_movement([x[0] for x in leaves], scale) for leaves in zip(*(r[1] for r in runs))]


def _movement(arrays, scale):
    """How far the runs of one result lie apart, and the rounding of its type at a scale."""
    first = arrays[0]
    if first.dtype.names or not first.size:
        return 0.0
    rounding = TOLERANCE[first.dtype.name][1] * scale if first.dtype.name in TOLERANCE else 0.0
    wide = "complex128" if first.dtype.kind == "c" else "float64"
    with np.errstate(all="ignore"):
        moves = [np.nan_to_num(np.abs(x.astype(wide) - first.astype(wide))) for x in arrays[1:]]
    return 4 * np.max(moves) + rounding


def compare(theirs, ours, program):
    """What differs between JAX and Pullback on a program, or None."""
    return verdict(theirs, ours, program)[1]


def verdict(theirs, ours, program):
    """(how the comparison ended, what differs or None). It ends in "equal", "equal to rounding" (of
    an ill-conditioned program), "same error", "only ours works" or "differs".
    """
    jitted = program.mode != "eager"
    expected = outcome(theirs, program, jitted)
    found = outcome(ours, program, program.mode == "jit")
    through = next((t for t in TOLERANCE if t in narrowing(program.text)), "float32")
    text = difference(expected, found, None, through)
    if not text:
        if expected[0] == "ok":
            return "equal", None
        return ("same error" if found[0] == "error" else "only ours works"), None
    if expected[0] == found[0] == "ok":
        slack = sensitivity(theirs, program, jitted)
        if slack is not None and not difference(expected, found, slack, through):
            return "equal to rounding", None
    return "differs", text


def narrowing(text):
    """A program's text with the narrow types of operations whose names do not tell."""
    return text.replace("dot preferred", "bfloat16").replace("weak half", "float16")


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
