"""Generated calls of every public function of numpy, scipy, nn, random, sparse and the smaller
libraries beside JAX's: a few; `make sweep` runs many.

`sweep/found.list` are calls that once differed. JAX's answers to those are kept in
`sweep/found.jsonl`; `--regenerate` asks it again.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import random
import re
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import jax
import pytest
import sweep_cases
from recorded_answers import Answer, failures, read, write
from test_public_api import own

import pullback
from pullback.api.eager import EagerFunction
from tools.api_reference import dotted, public_names

ROOTS = {
    *("numpy", "scipy", "nn", "image", "ops", "random", "tree", "tree_util", "flatten_util"),
    *("dtypes", "experimental.sparse", "experimental.ode", "experimental.jet"),
    "example_libraries",
}
FOUND = sweep_cases.FOLDER / "found.list"
ANSWERS = sweep_cases.FOLDER / "found.jsonl"
CHUNK = 40

# Classes, constants and dtypes are called in other ways, or not at all; files are not swept.
UNSWEPT = {
    *("numpy.savez", "numpy.save", "numpy.printoptions", "numpy.set_printoptions"),
    *("numpy.float6_e2m3fn", "numpy.float6_e3m2fn", "numpy.int1", "numpy.uint1", "numpy.fix"),
    *("numpy.dtype", "numpy.ndarray", "numpy.object_", "scipy.special.sph_harm"),
}
# Arguments that say where arrays lie, or that only JAX's own callers pass.
PLACES = {"out_sharding", "sharding", "device", "_dot_general"}
UNSWEPT_ARGUMENTS = {
    "numpy.array": {"args"},  # the old order of arguments, which JAX warns about
    "numpy.load": {"args"},
}


@functools.cache
def names(root: str) -> dict[str, Any]:
    return sweep_cases.environment(root)


@functools.cache
def expressions() -> tuple[str, ...]:
    return tuple(FOUND.read_text().splitlines())


@functools.cache
def recorded() -> dict[str, Answer]:
    return read(ANSWERS)


@pytest.mark.parametrize("start", range(0, len(expressions()), CHUNK))
def test_found(start: int) -> None:
    chunk = expressions()[start : start + CHUNK]
    ours = names("pullback")
    answers = ((s, sweep_cases.evaluated(s, ours), recorded()[s]) for s in chunk)
    wrong = failures(
        (a for a in answers if not is_scipys(*a)),
        tolerance=1e-4,
        scaled=True,
    )
    assert not wrong, wrong


def is_scipys(source: str, got: Answer, wanted: Answer) -> bool:
    """Whether values are SciPy's: JAX's `stats.uniform.cdf` of NaN is 0, and its incomplete gamma
    functions of infinite shapes are NaN."""
    of_scipy = source.startswith(tuple(f"sp.{family}." for family in sweep_cases.SCIPYS))
    return of_scipy and sweep_cases.as_scipy(source, got, wanted)


def test_found_is_what_jax_says(fuzz_seed: int) -> None:
    """A 20th of the recorded answers, asked for again."""
    jax = names("jax")
    chunk = expressions()[fuzz_seed % 20 :: 20]
    wrong = failures((s, sweep_cases.evaluated(s, jax), recorded()[s]) for s in chunk)
    assert not wrong, f"not what this JAX answers; --regenerate rewrites {ANSWERS.name}:\n{wrong}"


@pytest.fixture(scope="session", autouse=True)
def _regenerated(regenerate: bool) -> None:
    if regenerate:
        jax = names("jax")
        write(ANSWERS, {s: sweep_cases.evaluated(s, jax) for s in expressions()})


# Calls that once differed with 64-bit types on; f8 arrays are of 64 bits here.
WIDE = (
    "lax.linalg.eigh(i4(3, 3))",
    "sp.linalg.dft(-1, scale='sqrtn')",
    "lax.linalg.eigh(i1(3, 3))",
    "sp.stats.uniform.pdf(u4(3), 10**30)",
    "sp.stats.norm.pdf(i4(3), 2**40)",
    "sp.special.entr(10**30)",
    "jnp.trim_zeros(jnp.zeros(3), trim='x', axis=0)",
    "jnp.trim_zeros(jnp.zeros(3), trim='b')",
    "image.resize(f8(2, 3), (3, 5), 'cubic')",
    "image.resize(jnp.arange(6).reshape(2, 3), (3, 5), 'linear')",
    "image.scale_and_translate(jnp.arange(6).reshape(2, 3), (2, 4), (1,), f8(1), f8(1), 'linear')",
    "jnp.sum(b1(3), promote_integers=False)",
    "jnp.prod(b1(3), promote_integers=False)",
    "jnp.ix_(f4(0), i4(2))",
    "jnp.ldexp(u1(2), jnp.array([1, 2]))",
    "jnp.ldexp(1, i1(2))",
    "jnp.linalg.vector_norm(i4(3))",
    "jnp.linalg.vector_norm(i4(3), ord=1)",
    "jnp.intersect1d(i4(3), i4(3), size=4, fill_value=0.5)",
    "jnp.zeros((), sp.stats.norm.ppf(f4(3, lo=0, hi=1), loc=0.5).dtype)",
    "sp.stats.gaussian_kde(f4(6)).logpdf(f4(3))",
    "jnp.zeros((), sp.stats.norm.isf(f4(3, lo=0, hi=1)).dtype)",
    "jnp.angle(f4())",
    "jnp.polyfit(u1(6), f4(6, s=2), 2, rcond=1e-3)",
    "jnp.angle(jnp.float16(2), deg=True)",
    "sp.special.multigammaln(b1(3), 2)",
    "[i4(3).at[0].divide(2), b1(2).at[0].divide(i1()), i8(3).at[1].divide(2)]",
    "sp.signal.welch(f4(2, 32), nperseg=8, average='median')",
    "sp.signal.csd(f4(32), f4(32, s=2), nperseg=8, average='median')",
    "sp.interpolate.RegularGridInterpolator((jnp.arange(4), jnp.arange(5)), f4(4, 5))(f4(3, 2))",
    "sp.spatial.transform.Slerp.init(jnp.arange(3.), sp.spatial.transform.Rotation.from_rotvec("
    "f4(3, 3)))(jnp.array([0.5, 1.5])).as_quat()",
    "sp.fft.dctn(i1(2, 5), axes=())",
    "sp.signal.stft(f2(40), nperseg=16, return_onesided=False)",
    "sp.signal.welch(f4(40), nperseg=40, average='of one segment')",
    "sp.linalg.qr_multiply(f8(3, 3), u4(2, 3, 4, s=2), mode='left')",
    "sp.linalg.qr_multiply(f8(2, 3, 3), f8(4, 3))",
)


@pytest.mark.parametrize("call", WIDE)
def test_found_with_64_bit_types(call: str) -> None:
    with pullback.enable_x64(True), jax.enable_x64(True):
        got, want = (sweep_cases.evaluated(call, names(lib)) for lib in ("pullback", "jax"))
        assert "error" not in want
        assert not sweep_cases.difference("", call, got, want)


# --- the table is complete ---
def functions() -> Iterator[tuple[str, Any]]:
    """Every public function of the swept modules, with its name after `pullback.`."""
    for module, listed in sorted(public_names().items()):
        if not any(f"{module}.".startswith(f"{root}.") for root in ROOTS):
            continue
        home = importlib.import_module(f"pullback.{module}")
        for name in sorted(set(listed) - own().get(module, frozenset())):
            full = dotted(module, name)
            found = getattr(home, name, None)
            if full in UNSWEPT or not callable(found) or isinstance(found, type):
                continue
            yield full, found


SHORT = {
    "jnp": "numpy",
    "sp": "scipy",
    "init": "nn.initializers",
    **{name: f"experimental.{name}" for name in ("jet", "ode", "sparse")},
    **{name: f"example_libraries.{name}" for name in ("optimizers", "stax")},
}


# Families whose templates are about several functions each.
MANY_IN_ONE = {"experimental", "sparse", "tree"}


@functools.cache
def calls() -> dict[str, list[tuple[ast.Call, set[str]]]]:
    """A few calls that templates make, by function; each with the keywords of its template."""
    found: dict[str, list[tuple[ast.Call, set[str]]]] = {}
    for template in sweep_cases.templates():
        keywords = set(re.findall(r"(\w+)=", template.text))
        for number in range(60 if template.family in MANY_IN_ONE else 8):
            rng = random.Random(zlib.crc32(f"{template.text}{number}".encode()))
            source = sweep_cases.Draw(rng, False).expression(template.text.replace("?{", "{"))
            try:
                tree = ast.parse(source.strip(), mode="eval")
            except SyntaxError:  # an empty alternative before optional arguments
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and (name := _name(node.func)):
                    found.setdefault(name, []).append((node, keywords))
    return found


def _name(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([SHORT.get(node.id, node.id), *parts]).removeprefix("jax.")


def test_templates_are_expressions() -> None:
    """What is drawn can be parsed, but for methods of numbers (`2.sum()`). Braces are alternatives:
    a dict is written dict(a=1)."""
    wrong = []
    for template in sweep_cases.templates():
        source = sweep_cases.draw(template, 0, 3, False).strip()
        try:
            ast.parse(source, mode="eval")
        except SyntaxError:
            if not re.search(r"(^|[ (])-?\d+\.[a-z_]", source):
                wrong.append((template.text, source))
    assert not wrong, wrong


def passed(call: ast.Call, parameters: list[inspect.Parameter]) -> set[str]:
    """The parameters that a call gives by position."""
    places = [p.name for p in parameters if p.kind <= p.VAR_POSITIONAL]
    return {places[min(k, len(places) - 1)] for k in range(len(call.args) if places else 0)}


def test_every_function_and_keyword_is_swept() -> None:
    missing = []
    for full, function in functions():
        made = calls().get(full)
        if made is None:
            missing.append(full)
            continue
        parameters = list(inspect.signature(function).parameters.values())
        given = set().union(*(passed(call, parameters) | keywords for call, keywords in made))
        wanted_names = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
        left = wanted_names - given - PLACES - UNSWEPT_ARGUMENTS.get(full, set())
        missing += [f"{full}({name}=)" for name in sorted(left)]
    assert not missing, f"write templates in tests/sweep for {missing}"


# --- signatures and documentation ---
def described(function: Any) -> list[tuple[str, str, str]] | None:
    """(name, kind, default) of each parameter."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    found = []
    for p in parameters:
        default = "" if p.default is p.empty else repr(p.default).partition(" at 0x")[0]
        default = "unspecified" if "nspecified" in default else default
        found.append((p.name, p.kind.name, default.replace("jax.", "pullback.")))
    return found


def positional_only_names(parameters: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """What callers can see: nobody passes positional-only parameters by name."""
    return [("" if kind == "POSITIONAL_ONLY" else name, kind, d) for name, kind, d in parameters]


def test_signatures_are_jaxs() -> None:
    wrong = []
    for full, function in functions():
        module, _, name = full.rpartition(".")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            theirs = getattr(importlib.import_module(f"jax.{module}"), name)
        a, b = described(theirs), described(function)
        if a is not None and (b is None or positional_only_names(a) != positional_only_names(b)):
            wrong.append(f"{full}: {b} instead of {a}")
    assert not wrong, "\n".join(wrong)


def test_everything_is_documented() -> None:
    bare = [full for full, function in functions() if not inspect.getdoc(function)]
    assert not bare, bare


# --- some calls, beside JAX ---
def test_generated_calls(fuzz_seed: int) -> None:
    """One call of every 61st template; `make sweep` runs all."""
    wrong = []
    for template in sweep_cases.templates()[fuzz_seed % 61 :: 61]:
        source = sweep_cases.draw(template, 0, fuzz_seed, False)
        jax = sweep_cases.evaluated(sweep_cases.right(source), names("jax"))
        ours = sweep_cases.evaluated(source, names("pullback"))
        if different := sweep_cases.difference(template.family, source, ours, jax):
            wrong.append(f"{source}\n    {different[:300]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("start", range(4))
def test_native_calls_are_as_the_functions(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of a tenth of the templates, as the functions are written and after fourteen calls,
    when they may be native: the same bits, types and errors."""
    ours, wrong = names("pullback"), []
    for template in list(sweep_cases.templates())[start * 10 :: 40]:
        source = sweep_cases.draw(template, 0, 1, False)
        with monkeypatch.context() as patch:
            patch.setattr(EagerFunction, "_count", lambda *_: None)
            first = sweep_cases.evaluated(source, ours)
        for _ in range(14):
            last = sweep_cases.evaluated(source, ours)
        if first != last:
            wrong.append((source, first, last))
    assert not wrong, wrong
