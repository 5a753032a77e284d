"""How far random numbers are from JAX's, eagerly and in a jit: writes docs/streams.md.

`python -m benchmarks.streams --record SECONDS` has real JAX draw what build/streams.jsonl does not
hold yet, in a process without the tests' flags, the most telling calls first; it may be stopped and
started again. `python -m benchmarks.streams` draws the same here, compares, and writes the page:
every sampler of tests/random_streams.py and some larger calls, with 3 keys, 3 shapes, all dtypes,
the three generators, typed and raw keys. Both sides are drawn on one machine: JAX's own numbers
depend on the processor, whose estimate of a reciprocal root some of them begin with.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.random_streams import FLOATS, KEYS, SAMPLERS, SHAPES, WIDE, Sampler, dtype_named

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "streams.md"
MADE = ROOT / "build" / "streams.jsonl"
GENERATORS = ("threefry2x32", "rbg", "unsafe_rbg")
NATIVE = ("float32", "float64")
P3 = np.array([0.2, 0.3, 0.5], np.float32)


def _vectors(n: int) -> Sampler:
    def draw(R: Any, key: Any, shape: Any, dtype: Any) -> Any:
        row = (np.arange(n) / n).astype(dtype_named(dtype))
        cov = 2 * np.eye(n, dtype=row.dtype) + np.outer(row, row)
        return R.multivariate_normal(key, row, cov, shape, dtype)

    return draw


# Calls whose roundings depend on sizes: more dimensions, rows of 4096 numbers and more, and
# parameters that are arrays. All but the vectors are drawn in one shape.
LARGER: dict[str, tuple[Sampler, tuple[str, ...]]] = {
    "ball, 20 dimensions": (lambda R, k, s, d: R.ball(k, 20, 1.5, (3,), d), FLOATS),
    "ball, 2-norm": (lambda R, k, s, d: R.ball(k, 3, 2, (3,), d), FLOATS),
    "dirichlet, 6000": (lambda R, k, s, d: R.dirichlet(k, P3 * 3, (2000,), d), FLOATS),
    "dirichlet, 20 a row": (
        lambda R, k, s, d: R.dirichlet(k, np.full(20, 0.7, np.float32), (5,), d),
        FLOATS,
    ),
    "maxwell, 6000": (lambda R, k, s, d: R.maxwell(k, (2000,), d), FLOATS),
    "orthogonal, 5": (lambda R, k, s, d: R.orthogonal(k, 5, (2,), d), (*NATIVE, "complex64")),
    "wald, array": (
        lambda R, k, s, d: R.wald(k, cast(P3, d)[:, None], (3, 5), d),
        FLOATS,
    ),
    "gamma, array": (lambda R, k, s, d: R.gamma(k, cast(P3, d)[:, None] * 4, (3, 5), d), FLOATS),
} | {f"multivariate_normal, {n}": (_vectors(n), NATIVE) for n in range(8, 17)}
EVERY = SAMPLERS | LARGER


def cast(x: Any, dtype: str) -> Any:
    return x.astype(dtype_named(dtype))


class Call(NamedTuple):
    sampler: str
    dtype: str
    generator: str
    shape: tuple[int, ...]
    jitted: bool
    raw: bool = False

    def __str__(self) -> str:
        how = ("jitted" if self.jitted else "eager") + (" raw" if self.raw else "")
        return f"{self.sampler}; {self.dtype}; {self.generator}; {self.shape}; {how}"

    def draws(self, pb: Any) -> list[Any]:
        """The numbers, or the class of the error, of each key; `pb`: JAX or Pullback."""
        random, drawn = pb.random, []

        def draw(key: Any) -> Any:
            return EVERY[self.sampler][0](random, key, self.shape, self.dtype or None)

        made = random.PRNGKey if self.raw else random.key
        with pb.enable_x64(self.dtype in WIDE), pb.default_prng_impl(self.generator):
            draw = pb.jit(draw) if self.jitted else draw
            for seed in KEYS:
                try:
                    drawn.append(np.asarray(draw(made(seed))))
                except Exception as error:
                    drawn.append(type(error).__name__)
        return drawn


def calls() -> Iterator[Call]:
    """All calls, the most telling first: what a stopped recording holds."""
    ways = [(g, jitted) for g in GENERATORS for jitted in (False, True)]
    first, others = (
        {n: d[:1] for n, (_, d) in EVERY.items()},
        {n: d[1:] for n, (_, d) in EVERY.items()},
    )
    for shapes, dtypes in (
        (SHAPES[-1:], first),
        (SHAPES[-1:], others),
        (SHAPES[:-1], first | others),
    ):
        for generator, jitted in ways:
            for name in EVERY:
                once = name in LARGER and not name.startswith("multivariate")
                for dtype in EVERY[name][1] if shapes == SHAPES[:-1] else dtypes[name]:
                    for shape in () if once and len(shapes) > 1 else shapes:
                        yield Call(name, dtype, generator, shape, jitted)
    for generator, jitted in ways:
        for name in EVERY:
            yield Call(name, EVERY[name][1][0], generator, SHAPES[-1], jitted, raw=True)


def recorded() -> dict[str, list[Any]]:
    """JAX's draws, by the names of their calls."""
    found = {}
    for line in MADE.read_text().splitlines() if MADE.exists() else ():
        name, draws = json.loads(line)
        found[name] = [
            d
            if isinstance(d, str)
            else np.frombuffer(base64.b64decode(d[2]), dtype_named(d[0])).reshape(d[1])
            for d in draws
        ]
    return found


def record(seconds: float) -> None:
    """Adds what JAX draws to the file, for as long as is given."""
    jax = importlib.import_module("jax")
    warnings.simplefilter("ignore")
    there, end = recorded(), time.monotonic() + seconds
    MADE.parent.mkdir(exist_ok=True)
    with MADE.open("a") as file:
        for k, call in enumerate(c for c in calls() if str(c) not in there):
            if time.monotonic() > end:
                print("not everything is recorded: go on with --record")
                return
            draws = [
                d
                if isinstance(d, str)
                else (d.dtype.name, d.shape, base64.b64encode(d.tobytes()).decode())
                for d in call.draws(jax)
            ]
            file.write(json.dumps([str(call), draws]) + "\n")
            file.flush()
            if k % 100 == 99:
                jax.clear_caches()


def ulps(got: Any, want: Any) -> float:
    """The largest distance in units in the last place of what is wanted; infinity for another
    type, shape, error, or integer."""
    if isinstance(got, str) or isinstance(want, str):
        return 0.0 if isinstance(got, str) and got == want else np.inf
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return np.inf
    if got.dtype.kind in "iub":
        return 0.0 if (got == want).all() else np.inf
    part = want.real.dtype
    got, want = (np.ascontiguousarray(x).ravel().view(part) for x in (got, want))
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(want)).astype(np.float64)
        apart = np.abs(got.astype(np.float64) - want.astype(np.float64)) / unit
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return float(np.max(np.where(same, 0, apart), initial=0))


def distances(options: argparse.Namespace) -> Iterator[tuple[Call, float, float | None]]:
    """(a call, how far ours is from JAX's, how far JAX's in a jit are from its own eager ones)."""
    pb, theirs = importlib.import_module("pullback"), recorded()
    for call in calls():
        if str(call) not in theirs or options.only not in str(call):
            continue
        got, wanted = call.draws(pb), theirs[str(call)]
        apart = max(map(ulps, got, wanted))
        eager = theirs.get(str(call._replace(jitted=False))) if call.jitted else None
        own = None if eager is None else max(map(ulps, wanted, eager))
        if apart > options.above:
            print(
                f"{call}: {apart:g}" + ("" if own is None else f" (JAX itself {own:g})"), flush=True
            )
        yield call, apart, own


def shown(x: float) -> str:
    return "other" if np.isinf(x) else f"{x:.0f}" if x == int(x) else f"{x:.1f}"


def summary(found: list[tuple[Call, float, float | None]]) -> list[list[str]]:
    """A row for each sampler that is anywhere apart from JAX's."""
    rows = []
    for name in EVERY:
        mine = [f for f in found if f[0].sampler == name]
        if not any(apart for _, apart, _ in mine):
            continue
        row = [f"`{name}`"]
        for jitted in (False, True):
            some = [f for f in mine if f[0].jitted == jitted]
            worst = max((apart for _, apart, _ in some), default=0.0)
            where = {c.dtype for c, apart, _ in some if apart == worst} if worst else set()
            row += [shown(worst), ", ".join(sorted(where))]
        row.append(shown(max((own for _, _, own in mine if own is not None), default=0.0)))
        rows.append(row)
    return rows


PAGE_TEXT = """# Random streams beside JAX's

Made by `python -m benchmarks.streams`: calls of {samplers} samplers (some of them with several
parameters), each with 3 keys, drawn here and by JAX {jax} on one machine, compared in units in the
last place of JAX's number. "other" stands for another integer, type, shape or error. In a `jit`
the parameters are constants: JAX's compiler then computes with them beforehand, and rounds
otherwise than outside of one. The last column is how far its own numbers there are from its own
outside.

{drawn}

What is known of the rest: `multivariate_normal` and `orthogonal` of float16 and bfloat16 are errors
in JAX ("other"), whose LAPACK knows neither; rows of more than 4096 numbers in all (`dirichlet,
6000`) have their exponentials from a library that JAX's compiler calls, YNNPACK; and where all is
one number (`wald` of shape `()`, whose difference then magnifies it) that compiler multiplies
constants with each other beforehand, the 2 of a normal number's root too.

| sampler | eagerly | in | in a jit | in | JAX in a jit from JAX |
| --- | ---: | --- | ---: | --- | ---: |
{rows}

JAX's to the bit in all that was drawn are {exact}: {names}.
"""


def drawn(found: list[tuple[Call, float, float | None]]) -> str:
    """What has been drawn, of all calls there are."""
    every = list(calls())
    lines = [f"Of {len(every):,} calls {len(found):,} are recorded:", ""]
    for generator in GENERATORS:
        for jitted in (False, True):
            some = [[c for c in of if (c.generator, c.jitted) == (generator, jitted)]
                    for of in ([f[0] for f in found], every)]  # fmt: skip
            dtypes = ", ".join(sorted({c.dtype for c in some[0] if c.dtype})) or "none"
            how = "in a jit" if jitted else "eagerly"
            lines.append(f"* {generator}, {how}: {len(some[0])} of {len(some[1])} ({dtypes})")
    return "\n".join(lines)


def write(found: list[tuple[Call, float, float | None]]) -> None:
    rows = summary(found)
    apart = {row[0].strip("`") for row in rows}
    exact = [n for n in EVERY if n not in apart and any(c.sampler == n for c, _, _ in found)]
    text = PAGE_TEXT.format(
        samplers=len(apart) + len(exact), jax=importlib.import_module("jax").__version__,
        drawn=drawn(found), exact=len(exact), names=", ".join(f"`{n}`" for n in exact),
        rows="\n".join("| " + " | ".join(row) + " |" for row in rows),
    )  # fmt: skip
    PAGE.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=float, default=0, help="seconds that JAX may draw")
    parser.add_argument("--here", action="store_true", help="record in this very process")
    parser.add_argument("--only", default="", help="calls whose names hold this; no page")
    parser.add_argument("--above", type=float, default=2, help="print calls farther apart")
    options = parser.parse_args()
    if options.record and not options.here:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
        command = [sys.executable, "-m", "benchmarks.streams", "--here", "--record"]
        return subprocess.run([*command, str(options.record)], env=env, check=False).returncode
    if options.record:
        record(options.record)
        return 0
    found = list(distances(options))
    if not options.only:
        write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
