"""The sweep over lax's samples: `python tests/lax_sweep.py [--seed N] [--only NAMES] [--dtypes D]`
compares every sample in every dtype with real JAX (values, dtypes, weak types, shapes; eager and
jitted), its derivatives to second order with finite differences, and its batches over every
argument and axis with loops. tests/test_lax_sweep.py runs a few of them.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from typing import Any

import numpy as np
import oracle_flags  # noqa: F401
from lax_samples import DTYPES, SAMPLES, STORAGE, WIDE, Sample

# isort: split
import jax
import jax.numpy
from jax import lax as jlax

import pullback as pb
import pullback.numpy
from pullback import lax as plax
from pullback.test_util import check_grads

EPS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7, "complex64": 1.2e-7}
EPS |= {"float8_e4m3fn": 0.13, "float8_e5m2": 0.25, "float64": 2.3e-16, "complex128": 2.3e-16}


def leaves(x: Any) -> list[Any]:
    return list(pb.tree.leaves(x)) if not hasattr(x, "dtype") else [x]


def outcome(f: Any, *args: Any) -> tuple[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "value", jax.tree.leaves(f(*args))
        except Exception as e:
            return "error", e


def differs(got: Any, want: Any, tol: float) -> str | None:
    """What differs between two results, if anything does."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    if getattr(got, "weak_type", None) != getattr(want, "weak_type", None):
        return f"weak_type {got.weak_type}"
    a, b = np.asarray(got), np.asarray(want)
    if a.dtype.kind in "biu" or a.dtype.name in ("int4", "uint4"):
        return None if (a == b).all() else f"{a.ravel()[:6]}, not {b.ravel()[:6]}"
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    eps = EPS.get(want.dtype.name, 0.0) * tol * 64
    scale = np.max(np.abs(b[np.isfinite(b)]), initial=1e-3)
    with np.errstate(invalid="ignore"):
        close = np.isclose(a, b, rtol=eps, atol=eps * scale * 0.25, equal_nan=True)
    return None if close.all() else f"{a[~close][:4]}, not {b[~close][:4]}"


def arrays(m: Any, xs: list[Any]) -> list[Any]:
    return [m.numpy.asarray(x) for x in xs]


def check_values(s: Sample, dtype: str, seed: int) -> str | None:
    """The sample on arrays, eagerly and jitted, beside JAX."""
    xs = s.operands(seed, dtype)
    if s.only and dtype not in s.only:
        return None
    kind, want = outcome(jax.jit(lambda *a: s.call(jlax, *a)), *arrays(jax, xs))
    for how in ("eager", "jit"):
        f = lambda *a: s.call(plax, *a)
        got_kind, got = outcome(pb.jit(f) if how == "jit" else f, *arrays(pb, xs))
        if kind == "error" and got_kind == "value":
            # JAX stores these types; here they may be computed with. And what its compiler lacks,
            # as factorisations of half floats.
            lacks = (jax.errors.JaxRuntimeError, NotImplementedError)
            if dtype in STORAGE or isinstance(want, lacks):
                continue
        if kind != got_kind:
            shown = f"{type(want).__name__}: {str(want)[:90]}" if kind == "error" else "a value"
            mine = f"{type(got).__name__}: {str(got)[:200]}" if got_kind == "error" else "a value"
            return f"{how}: JAX {shown}; Pullback {mine}"
        if kind == "error":
            if "internal error" in str(got):
                return f"{how}: {str(got)[:200]}"
            continue
        if len(got) != len(want):
            return f"{how}: {len(got)} results, not {len(want)}"
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            wrong = differs(a, b, s.tol)
            if wrong is not None and s.truth is not None and dtype == "float64":
                wrong = differs(a, jax.numpy.asarray(s.truth(*xs)), s.tol)
            if wrong is not None:
                return f"{how}: result {k}: {wrong}"
    return None


def check_derivatives(s: Sample, dtype: str, seed: int) -> str | None:
    """jvp and vjp beside JAX's; in 64 bits to second order beside finite differences."""
    if not s.order:
        return None
    xs = s.operands(seed, dtype)
    where = [k for k, a in enumerate(s.arrays) if a.diff]
    rng = np.random.default_rng(seed)

    def both(m: Any, lax: Any) -> Any:
        full = arrays(m, xs)

        def of(*some: Any) -> Any:
            given = dict(zip(where, some, strict=True))
            return s.call(lax, *[given.get(k, x) for k, x in enumerate(full)])

        primals = tuple(full[k] for k in where)
        dots = tuple(m.numpy.asarray(t) for t in tangents)
        _, dot = m.jvp(of, primals, dots)
        again, back = m.vjp(of, *primals)
        return dot, back(m.tree.map(lambda y: m.numpy.ones_like(y) * 0.5
        if m.numpy.issubdtype(y.dtype, m.numpy.inexact)
        else np.zeros(y.shape, m.dtypes.float0), again))  # fmt: skip

    tangents = [a.astype(DTYPES[dtype]) for a in (rng.uniform(-1, 1, xs[k].shape) for k in where)]
    kind, want = outcome(lambda: both(jax, jlax))
    got_kind, got = outcome(lambda: both(pb, plax))
    if kind == "value":
        if got_kind == "error":
            return f"derivative: {type(got).__name__}: {str(got)[:200]}"
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            if b.dtype != jax.dtypes.float0 and (wrong := differs(a, b, 8 * s.tol)) is not None:
                return f"derivative, result {k}: {wrong}"
    if dtype not in ("float64", "complex128") or got_kind == "error":
        return None

    def real(*some: Any) -> Any:
        given = dict(zip(where, some, strict=True))
        outs = leaves(s.call(plax, *[given.get(k, x) for k, x in enumerate(arrays(pb, xs))]))
        return [y for y in outs if pb.numpy.issubdtype(y.dtype, pb.numpy.inexact)]

    primals = tuple(pb.numpy.asarray(xs[k]) for k in where)
    try:
        check_grads(real, primals, s.order, modes=("fwd", "rev"), atol=2e-4, rtol=2e-4)
    except Exception as e:
        return f"finite differences: {type(e).__name__}: {str(e)[:300]}"
    return None


def check_batches(s: Sample, dtype: str, seed: int) -> str | None:
    """vmap over every argument and axis, and over all arguments at once, as a loop."""
    if not s.batch:
        return None
    f = lambda *a: s.call(plax, *a)
    rows = [arrays(pb, s.operands(seed + k, dtype)) for k in range(3)]
    if outcome(f, *rows[0])[0] == "error":
        return None
    n = len(s.arrays)
    plans: list[list[int | None]] = [
        [axis if k == j else None for k in range(n)]
        for j in range(n)
        for axis in range(rows[0][j].ndim + 1)
    ]
    if n > 1:
        plans.append([0] * n)
    for axes in plans:
        mixed = [
            [rows[r][k] if axes[k] is not None else rows[0][k] for k in range(n)] for r in range(3)
        ]
        ins = [
            rows[0][k] if axes[k] is None else
            pb.numpy.stack([rows[r][k] for r in range(3)], axes[k])
            for k in range(n)
        ]  # fmt: skip
        kind, got = outcome(pb.vmap(f, in_axes=tuple(axes)), *ins)
        if kind == "error":
            return f"vmap{axes}: {type(got).__name__}: {str(got)[:200]}"
        singles = [jax.tree.leaves(f(*m)) for m in mixed]
        for k, out in enumerate(got):
            want = np.stack([np.asarray(one[k]) for one in singles])
            if (wrong := differs(np.asarray(out), want, 4 * s.tol)) is not None:
                return f"vmap{axes}: result {k}: {wrong}"
    return None


CHECKS = {"values": check_values, "derivatives": check_derivatives, "batches": check_batches}


def checks(names: Any = None, dtypes: Any = None) -> list[tuple[str, str, str]]:
    """(check, sample, dtype) of all that there is to do: batches of a few dtypes, derivatives of
    inexact ones.
    """
    found = []
    for name, dtype in itertools.product(names or SAMPLES, dtypes or DTYPES):
        found.append(("values", name, dtype))
        inexact = DTYPES[dtype].kind in "fcV" and dtype not in STORAGE
        if inexact and SAMPLES[name].order:
            found.append(("derivatives", name, dtype))
        if dtype in ("float32", "int32", "complex64", "bool", "bfloat16"):
            found.append(("batches", name, dtype))
    return found


def run(check: str, name: str, dtype: str, seed: int) -> str | None:
    """What is wrong, if anything is."""
    wide = dtype in WIDE
    with jax.enable_x64(wide), pb.enable_x64(wide):
        return CHECKS[check](SAMPLES[name], dtype, seed)


def main() -> int:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="samples whose names start so, separated by ;")
    parser.add_argument("--dtypes", default="", help="separated by commas")
    parser.add_argument("--checks", default="values,derivatives,batches")
    given = parser.parse_args()
    starts = tuple(given.only.split(";"))
    names = [n for n in SAMPLES if n.startswith(starts)]
    todo = [
        c
        for c in checks(names, given.dtypes.split(",") if given.dtypes else None)
        if c[0] in given.checks
    ]
    print(f"seed {given.seed}: {len(todo)} checks of {len(names)} samples", flush=True)
    wrong = 0
    for k, (check, name, dtype) in enumerate(todo):
        if k % 150 == 149:  # programs of thousands of shapes are not to be kept
            jax.clear_caches()
            pb.clear_caches()
        try:
            found = run(check, name, dtype, given.seed)
        except Exception as e:
            found = f"the check itself: {type(e).__name__}: {str(e)[:200]}"
        if found is not None:
            wrong += 1
            print(f"{check} {name} {dtype}: {found}", flush=True)
    print(f"{wrong} of {len(todo)} checks failed")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
