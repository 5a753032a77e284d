"""Calls of every public function of numpy, scipy, nn, image and ops, from `sweep/*.txt`.

A template is an expression with alternatives `{a|b}`, optional parts `?{...}`, and tokens: `$num`
is an array of a numeric dtype and of the case's shape, `$num~` one of a shape that broadcasts with
it, `$num[3,4]` one of that shape, `$num<0,1>` one of elements between bounds; `$ax`, `$axs`, `$kd`,
`$dt`, `$mask` are values of keyword arguments. A few of each are bad on purpose. A line
`abs cbrt: jnp.@($num)` is a template for each name. `  # ` starts a comment.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pathlib
import random
import re
import types
import zlib
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from recorded_answers import Answer, answer, compare, near_values

FOLDER = pathlib.Path(__file__).parent / "sweep"

DTYPES = {
    "b1": np.bool_,
    "i1": np.int8,
    "u1": np.uint8,
    "i2": np.int16,
    "i4": np.int32,
    "u4": np.uint32,
    "f2": np.float16,
    "bf": ml_dtypes.bfloat16,
    "f4": np.float32,
    "c8": np.complex64,
    "i8": np.int64,
    "u8": np.uint64,
    "f8": np.float64,
    "c16": np.complex128,
}
WIDE = ("i8", "u8", "f8", "c16")  # under x64 only

# The dtypes of a token, some more likely than others.
KINDS = {
    "any": "b1 i1 u1 i4 i4 u4 f2 bf f4 f4 f4 c8 i8 f8 f8 c16",
    "num": "i1 u1 i4 i4 u4 f2 bf f4 f4 f4 c8 i8 f8 f8 c16",
    "real": "b1 i1 u1 i4 i4 u4 f2 bf f4 f4 f4 i8 f8 f8",
    "int": "i1 u1 i2 i4 i4 i4 u4 i8 i8 u8",
    "bint": "b1 i1 u1 i4 i4 i4 u4 i8 i8 u8",
    "i": "i4",
    "flt": "f2 bf f4 f4 f4 f4 f8 f8 f8",
    "f": "f4 f4 f8 f8",
    "inex": "f2 bf f4 f4 f4 c8 f8 f8 c16",
    "fc": "f4 f4 c8 f8 f8 c16",
    "c": "c8 c16",
    "bool": "b1",
    "u1": "u1",
}
SHAPES = [(), (1,), (3,), (4,), (2, 3), (2, 3), (3, 1), (0,), (2, 0), (2, 3, 4), (1, 1), (3, 3)]
# What arrays may be replaced with: numbers of Python and NumPy, and what is no array at all.
SCALARS = {
    "any": "2 -1 0.5 True 1j np.float32(1.5) np.int8(3) np.ones(3)",
    "num": "2 -1 0.5 1j np.float32(1.5) np.int8(3)",
    "real": "2 -1 0.5 True np.float32(1.5) np.int8(3)",
    "int": "2 -1 np.int8(3)",
    "bint": "2 True np.int8(3)",
    "flt": "0.5 2 np.float32(1.5)",
    "inex": "0.5 1j 2",
    "bool": "True False",
}
BAD = ["[1, 2]", "None", "'abc'", "object()", "(1.0, 2.0)"]
RATES = {"scalar": 0.07, "bad": 0.025}

TOKEN = re.compile(
    r"\$(?P<name>[a-z0-9]+)(?P<broadcast>~)?(?:\[(?P<shape>[\d,\s]*)\])?(?:<(?P<range>[^>]*)>)?"
)


def array(kind: str, *shape: int, lo: float = 0.0, hi: float = 0.0, s: int = 0) -> np.ndarray[Any]:
    """Elements that the arguments determine: around 0, or between `lo` and `hi`."""
    dtype = np.dtype(DTYPES[kind])
    rng = np.random.default_rng(zlib.crc32(repr((kind, shape, lo, hi, s)).encode()))
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) > 0.5)
    if dtype.kind in "iu":
        low, high = (lo, hi) if hi > lo else (-5 if dtype.kind == "i" else 0, 7)
        return np.asarray(rng.integers(int(low), int(high), shape, endpoint=True), dtype)
    if hi > lo:
        values = rng.uniform(lo, hi, shape)
    else:
        values = 2 * rng.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * (rng.standard_normal(shape))
    return np.asarray(values).astype(dtype)


EDGES = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 3.0, -2.5, 1e30, -1e-30)


MODULES = [
    *("numpy", "numpy.linalg", "numpy.fft", "nn", "nn.initializers", "image", "ops", "scipy"),
    *(f"scipy.{m}" for m in ("cluster.vq", "fft", "integrate", "interpolate", "linalg", "ndimage")),
    *(f"scipy.{m}" for m in ("optimize", "signal", "sparse.linalg", "spatial.transform")),
    *(f"scipy.{m}" for m in ("special", "stats")),
    *("random", "tree", "tree_util", "dtypes", "flatten_util"),
    *(f"experimental.{m}" for m in ("jet", "ode", "sparse", "sparse.linalg")),
    *("example_libraries.optimizers", "example_libraries.stax"),
]


def environment(root: str) -> dict[str, Any]:
    """What the names in an expression stand for; `root` is "jax" or "pullback"."""
    for module in MODULES:
        importlib.import_module(f"{root}.{module}")
    lib = importlib.import_module(root)
    jnp = lib.numpy

    def maker(kind: str) -> Any:
        return lambda *shape, **kw: jnp.asarray(array(kind, *shape, **kw))

    names = {kind: maker(kind) for kind in DTYPES}
    return {
        **names,
        "E": lambda kind: jnp.asarray(np.array(EDGES).astype(DTYPES[kind])),
        "nans": lambda x: jnp.where(jnp.asarray(array("b1", *x.shape, s=9)), x, jnp.nan),
        "srt": lambda x: jnp.sort(x),
        "spd": lambda x: x @ jnp.conj(jnp.swapaxes(x, -1, -2)) + 3 * jnp.eye(x.shape[-1]),
        "herm": lambda x: x + jnp.conj(jnp.swapaxes(x, -1, -2)),
        "T": lambda x: jnp.swapaxes(x, -1, -2),
        "holes": lambda x: jnp.where(jnp.asarray(array("b1", *jnp.shape(x), s=9)), x, 0),
        "host": lambda x: np.asarray(x),
        "weak": lambda v: jnp.asarray(v),
        "jnp": jnp,
        "np": np,
        "dataclasses": dataclasses,
        "jax": lib,
        "nn": lib.nn,
        "init": lib.nn.initializers,
        "image": lib.image,
        "ops": lib.ops,
        "lax": lib.lax,
        "sp": lib.scipy,
        **{name: getattr(lib.experimental, name) for name in ("jet", "ode", "sparse")},
        **{name: getattr(lib.example_libraries, name) for name in ("optimizers", "stax")},
        "flatten_util": lib.flatten_util,
        "dtypes": lib.dtypes,
        "key": lib.random.key(0),
    }


@dataclasses.dataclass(frozen=True)
class Template:
    """One line of a file: `name` is the function it is about."""

    family: str
    text: str


@functools.cache
def templates() -> tuple[Template, ...]:
    return tuple(
        Template(path.stem, text)
        for path in sorted(FOLDER.glob("*.txt"))
        for text in lines(path.read_text())
    )


def lines(text: str) -> Iterator[str]:
    """The templates in a file's text."""
    for line in text.splitlines():
        line = line.split("  # ")[0].strip()
        if not line or line.startswith("#"):
            continue
        head, colon, rest = line.partition(": ")
        if colon and "@" in rest and re.fullmatch(r"[\w. ]+", head):
            yield from (rest.replace("@", name) for name in head.split())
        else:
            yield line


class Draw:
    """One case of a template: its expression, drawn with a generator."""

    def __init__(self, rng: random.Random, x64: bool) -> None:
        self.rng = rng
        self.x64 = x64
        self.shape = rng.choice(SHAPES)
        self.arrays = 0

    def expression(self, text: str) -> str:
        text = TOKEN.sub(self._token, self._alternatives(text))
        return text.replace("(, ", "(")  # an empty alternative before optional arguments

    def _alternatives(self, text: str) -> str:
        """Picks one of each `{a|b}`, the inner ones first; `?{a}` half the time."""
        while match := re.search(r"(\??)\{([^{}]*)\}", text):
            chosen = self.rng.choice(match[2].split("|"))
            if match[1] and self.rng.random() < 0.5:
                chosen = ""
            text = text[: match.start()] + chosen + text[match.end() :]
        return text

    def _token(self, match: re.Match[str]) -> str:
        name = match["name"]
        if name in KINDS:
            return self._array(match)
        return str(getattr(self, f"_{name}")())

    def _array(self, match: re.Match[str]) -> str:
        name = match["name"]
        luck = self.rng.random()
        if luck < RATES["bad"]:
            return self.rng.choice(BAD)
        if luck < RATES["bad"] + RATES["scalar"] and match["shape"] is None:
            if not match["range"] and name in SCALARS:
                return self.rng.choice(SCALARS[name].split())
        kinds = [k for k in KINDS[name].split() if self.x64 or k not in WIDE]
        kind = self.rng.choice(kinds)
        shape = self.shape
        if match["shape"] is not None:
            shape = tuple(int(n) for n in match["shape"].split(",") if n.strip())
        elif match["broadcast"]:
            shape = self._broadcast(shape)
        self.arrays += 1
        parts = [str(n) for n in shape]
        if match["range"]:
            low, high = match["range"].split(",")
            if kind != "b1":
                parts += [f"lo={low}", f"hi={high}"]
        if self.arrays > 1:
            parts.append(f"s={self.arrays}")
        return f"{kind}({', '.join(parts)})"

    def _broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        luck = self.rng.random()
        if luck < 0.4:
            return shape
        if luck < 0.05 + 0.4:
            return (5,)  # hardly ever fits
        shape = shape[self.rng.randint(0, len(shape)) :]
        return tuple(1 if self.rng.random() < 0.3 else n for n in shape)

    def _ax(self) -> Any:
        n = len(self.shape)
        luck = self.rng.random()
        if luck < 0.08:
            return self.rng.choice([n, -n - 1, 1.5, "'a'", "(0, 0)"])
        if luck < 0.3 or not n:
            return None
        return self.rng.randint(-n, n - 1)

    def _axi(self) -> Any:
        n = len(self.shape)
        if self.rng.random() < 0.08 or not n:
            return self.rng.choice([0, n, -n - 1, 1.5, None, "'a'"])
        return self.rng.randint(-n, n - 1)

    def _axs(self) -> Any:
        n = len(self.shape)
        if self.rng.random() < 0.6:
            return self._ax()
        axes = self.rng.sample(range(n), self.rng.randint(0, n))
        return tuple(a - n if self.rng.random() < 0.3 else a for a in axes)

    def _kd(self) -> bool:
        return self.rng.random() < 0.5

    def _dt(self) -> str:
        if self.rng.random() < 0.06:
            return self.rng.choice(["'nonsense'", "3", "object", "str"])
        names = "None 'float32' 'float32' 'bfloat16' 'float16' 'int32' 'int8' 'uint8' 'complex64' "
        names += "bool int float complex jnp.float32 np.int16"
        return self.rng.choice(names.split())

    def _mask(self) -> str:
        if self.rng.random() < 0.1:
            return self.rng.choice(["None", "True", "False", "1.0", "f4(3)", "[True]"])
        return f"b1({', '.join(map(str, self._broadcast(self.shape)))})"

    def _key(self) -> str:
        if self.rng.random() < 0.08:
            return self.rng.choice(["3", "None", "f4(2)", "i4(2)", "jax.random.split(key)", "'a'"])
        keys = ["key", "key", "jax.random.PRNGKey(1)", "jax.random.key(-5)"]
        keys += [f"jax.random.key(2, impl='{name}')" for name in ("rbg", "unsafe_rbg")]
        return self.rng.choice(keys)

    def _shape(self) -> str:
        if self.rng.random() < 0.06:
            return self.rng.choice(["-1", "(2, -3)", "1.5", "'a'", "(2, None)"])
        return repr(self.rng.choice([*SHAPES, 3, 0]))

    def _small(self) -> str:
        return self.rng.choice(["-2", "-1", "0", "1", "2", "3"])


def draw(template: Template, number: int, seed: int, x64: bool) -> str:
    """The `number`th expression of a template."""
    key = f"{template.text} {number} {seed} {x64}"
    return Draw(random.Random(zlib.crc32(key.encode())), x64).expression(template.text)


def evaluated(source: str, names: dict[str, Any]) -> Answer:
    """What an expression gives."""
    return answer(lambda: plain(eval(source, dict(names))))


def plain(x: Any) -> Any:
    """Results with everything that can be compared as arrays, numbers and text."""
    if isinstance(x, dict):
        return [plain(v) for _, v in sorted(x.items())]
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    if isinstance(x, np.dtype | type):
        return getattr(x, "name", None) or x.__name__
    if hasattr(x, "tree_flatten"):  # a sparse array: what it holds, and what it says of that
        return [type(x).__name__, *plain(x.tree_flatten())]
    return x


# Families whose results are sums of products: near is said of the largest element.
SCALED = ("products", "linalg", "scipy_linalg", "signal", "nn")


# Where we do more than JAX on purpose, or say the same with another class of error: (what an
# expression looks like, what we answer: a value or these classes of errors, why). Only JAX's errors
# are excused, never its values.
MORE = [
    (r"order='?[CA]|array\(.*, 'C'", "value ValueError", "arrays are in C order: both are true"),
    (r"split\(", "value ValueError", "0 parts are a ValueError; cuts beyond the end as in NumPy"),
    (r"ravel_multi_index|unravel_index", "ValueError", "a ValueError where JAX asserts"),
    (r"jnp.ix_|mask_indices", "value", "masks, as in NumPy"),
    (
        r"(?=.*(linalg|fft|sp\.|orthogonal|cov|corrcoef|poly|roots)).*\b(f2|bf)\(",
        "value ValueError",
        "linear algebra and transforms of half floats",
    ),
    (
        r"linalg\.(funm|expm_frechet|eigh_tridiagonal|vector_norm|polar|slogdet.*'qr')",
        "value ValueError IndexError NotImplementedError",
        "mixed dtypes; complex numbers",
    ),
    (
        r"polyfit|setdiff1d.*size=0|unique.*size=0|histogram",
        "value TypeError ValueError NotImplementedError",
        "integers; nothing; strings",
    ),
    (r"vecdot|leslie|hilbert|pascal|helmert", "value ValueError", "where JAX indexes a tuple"),
    (
        r"quantile|percentile",
        "value NotImplementedError TypeError ValueError",
        "levels that are integers; what is said first",
    ),
    (
        r"\.(reduce|accumulate|reduceat)\(",
        "value NotImplementedError TypeError ValueError",
        "any dtype of the result; `out` is told of itself",
    ),
    (
        r"scaled_|sph_harm_y|bessel_jn|lpmn",
        "value TypeError ValueError",
        "what JAX has for GPUs only; scalars",
    ),
    (
        r"\.at\(.*b1\(|intersect1d|partition\(b1|fill_diagonal",
        "value IndexError TypeError ValueError",
        "masks; nothing; bools",
    ),
    (
        r"poly(add|sub|int)\(|linspace\(0|triu\(",
        "value TypeError ValueError",
        "nothing; one number of an axis; classes of errors",
    ),
    (
        r"zeta\(|schur\(b1|linalg\.lu\(|dctn\(f4\(0\)|correlate\(f4\(0\)",
        "value ValueError",
        "Riemann's; bools; stacks; nothing",
    ),
    (
        r"map_coordinates|minimize\(|gmres\(|norm\.isf",
        "value TypeError ValueError",
        "an array as cval; integers; shapes told first",
    ),
    (
        r"Rotation\.random|lu_solve|delta_orthogonal.*bfloat16",
        "value",
        "not in JAX; int64 pivots; halves",
    ),
    (
        r"scale_and_translate|correlate\(.*, -?1,|solve_triangular",
        "value TypeError ValueError",
        "told, not asserted or indexed",
    ),
    (
        r"norm\.ppf|(schur|hessenberg)\([iu]|identity\(0\)|(cg|bicgstab)\(",
        "value TypeError ValueError",
        "integers; nothing; several dtypes",
    ),
    (
        r"\.var\(|\.std\(|compress|extract|\[1\]|\[1, 2\]",
        "value NotImplementedError TypeError ValueError",
        "methods take what functions take",
    ),
    (r"\[(.*, ?)?np\.(True|False)_|at\[np\.(True|False)_", "value", "NumPy's bools are masks"),
    (
        r"setxor1d.*size=0|matrix_rank\(\w+\(.*\b0\b",
        "value",
        "nothing, whose rank is 0 as in NumPy",
    ),
    (r"fft\.i?dctn?\(", "value IndexError ValueError", "axes of no element"),
    (r"init\.normal\(.*-\d", "TypeError", "negative sizes, which MLIR refuses"),
    (r"from_dlpack\(host", "value", "arrays that may not be written"),
    (r"bc(oo|sr)_broadcast_in_dim", "value ValueError", "shapes that do not broadcast are told"),
    (
        r"signal\.(convolve|correlate)\(.*, (-?[\d.]+j?|True)[,)]",
        "value ValueError",
        "numbers of Python, which JAX asks for their axes",
    ),
    (r"reshape\(.*\(0, -1\)", "TypeError", "0 does not divide the size"),
    (
        r"object\(\)|'abc'|None|\(1\.0, 2\.0\)",
        "TypeError ValueError NotImplementedError IndexError",
        "what is no array is an error of another class",
    ),
]


# Where JAX's values are wrong: (what an expression looks like, what to ask JAX instead, why).
FAULTS = [
    (
        r"^(\w+\([^()]*\))\.(sum|prod)\((.*initial=.*)\)$",
        r"jnp.\2(\1, \3)",
        "methods forget the initial value",
    ),
    (r"multi_dot\(\[[^,]*\((\d, \d)?\)\]", "multi_dot([]", "one matrix alone is summed"),
    (
        r"vector_norm\(([biu]\d\([^()]*\))(?!.*ord=(?:-?jnp\.inf|1\b(?!\.)))",
        r"vector_norm(1.0 * \1",
        "norms of integers lose their fraction",
    ),
    (
        r"(logaddexp2\.reduce\()(\w+\([^()]*\))",
        r"\1jnp.logaddexp2(\2, \2) - 1",
        "float64 of int8",
    ),
    (r"(logical_(?:or|and|xor)\.outer\()(\d+)", r"\1jnp.int8(\2)", "a bool that is weak"),
    (
        r"(logical_(?:or|and|xor)\.outer\()([iu]\d\([^()]*\)), (?=[iu]\d\()",
        r"\1\2 != 0, ",
        "a bool that is weak",
    ),
    (
        r"(logical_(?:or|and|xor)\.reduce\(.*initial=)(\d[.\d]*)",
        r"\1bool(\2)",
        "or's and and's of bits, as 2 | 1 = 3, not of truth values",
    ),
    (
        r"linalg\.cholesky\((\w+\(3, 1\))",
        r"linalg.cholesky(f4(2, 3)",
        "the column plus its transpose, which is no matrix that was given",
    ),
    (
        r"cumulative_prod\(([biu][12]\([^()]*\))",
        r"cumulative_prod(jnp.sum(\1[..., None], -1)",
        "short integers keep their width, against the array API standard",
    ),
    (
        r"(take\(.*, )(True|b1\([^()]*\))(.*mode='wrap')",
        r"\1jnp.int32(\2)\3",
        "remainders of bools: each index is 0",
    ),
    (
        r"lax\.stop_gradient\((-?[\w.]+j?)\)$",
        r"lax.stop_gradient(jnp.asarray(\1))",
        "numbers come back as JAX's own kind of Python numbers",
    ),
    (r"(true_divide|divide)\((b1\([^()]*\)), 0\)", r"\1(1.0 * \2, 0)", "0 / 0 is 0"),
    (
        r"(bitwise_\w+\.accumulate\(\w+\()\d, 0(\).*float)",
        r"\g<1>2\2",
        "bits of floats, if there are none",
    ),
    (
        r"apply_along_axis\((lambda.*, )np\.ones\(3\)",
        r"apply_along_axis(\1jnp.ones(3)",
        "NumPy's arrays of one axis are given to the function as they are",
    ),
    (r"sp\.linalg\.helmert\(2\.5.*", "jnp.eye(2.5)", "half an order"),
    (r"eigh\((\w+)\((?:3, 1|1, 3)\)", r"eigh(\1(2, 3)", "rows and columns are added up to squares"),
]


def right(source: str) -> str:
    """The expression whose value in JAX is what this one's should be."""
    for text, instead, _ in FAULTS:
        source = re.sub(text, instead, source)
    return source


# Errors from inside of JAX or its compiler, which say that it has no answer: ours is a value, or an
# error of a class that is meant for users.
INSIDE = re.compile(
    r"MLIRError|AssertionError|AttributeError|UnboundLocalError|RecursionError|JaxRuntimeError"
    r"|KeyError|Cannot lower jaxpr with verifier errors|safe_(zip|map)\(\)|zip\(\) argument|unpack"
    r"|unhashable type|tuple index out of range|INTERNAL|INVALID_ARGUMENT|Non-hashable static"
    r"|parsing an argument to a jitted computation|has no len\(\)|is not iterable"
    r"|ZeroDivisionError|name 'traced'"
)
FOR_USERS = {"TypeError", "ValueError", "IndexError", "NotImplementedError", "OverflowError"}
TRACED = {"ConcretizationTypeError", "TracerIntegerConversionError", "TracerArrayConversionError"}


def excused(source: str, got: Answer, wanted: Answer) -> bool:
    """Whether JAX's error need not be ours."""
    classes = set(got.get("error", ()))
    if INSIDE.search(f"{wanted['error'][0]}: {wanted.get('text', '')}"):
        return not classes or bool(classes & FOR_USERS)
    if classes & TRACED and set(wanted["error"]) & TRACED:
        return True
    said = classes or {"value"}
    return any(said & set(answers.split()) and re.search(text, source) for text, answers, _ in MORE)


# Operands whose sums and products are rounded to fewer bits, whatever the result's dtype.
NARROW = re.compile(r"\b(f2|bf|f4|c8)\(|np\.float32|'(float32|float16|bfloat16|complex64)'")


# Families whose names SciPy has, too.
SCIPYS = ("special", "stats")


@functools.cache
def scipys_environment() -> dict[str, Any]:
    """What the names in an expression stand for in SciPy, in double precision."""
    for module in ("scipy.special", "scipy.stats"):
        importlib.import_module(module)

    def wide(x: np.ndarray[Any]) -> np.ndarray[Any]:
        return x.astype(np.result_type(x.dtype if x.dtype.kind != "V" else "f8", "f8"))

    def bessel_jn(z: Any, *, v: Any, n_iter: int = 50) -> Any:
        return np.stack([special.jv(k, z) for k in range(v + 1)])

    special = importlib.import_module("scipy.special")
    special.bessel_jn = bessel_jn  # JAX's name; its own is NaN at small arguments

    def maker(kind: str) -> Any:
        exact = np.dtype(DTYPES[kind]).kind in "biu"
        return lambda *shape, **kw: (np.asarray if exact else wide)(array(kind, *shape, **kw))

    return {
        **{kind: maker(kind) for kind in DTYPES},
        "E": lambda kind: wide(np.array(EDGES).astype(DTYPES[kind])),
        "sp": importlib.import_module("scipy"),
        "jnp": np,
        "np": np,
        "jax": types.SimpleNamespace(jit=lambda f: f),
    }


def as_scipy(source: str, got: Answer, wanted: Answer) -> bool:
    """Whether values of JAX's types are those that SciPy computes in double precision."""
    if "entropy" in source:  # SciPy sums it without an end
        return False
    if "leaves" not in wanted or "leaves" not in got:
        return False
    if [a[:4] for a in got["leaves"]] != [b[:4] for b in wanted["leaves"]]:
        return False
    with np.errstate(all="ignore"):
        exact = answer(lambda: plain(eval(source, dict(scipys_environment()))))
    if len(exact.get("leaves", ())) != len(got["leaves"]):
        return False
    for mine, true in zip(got["leaves"], exact["leaves"], strict=True):
        if len(mine) < 5 or len(true) < 5 or mine[2] != true[2]:
            return False
    return near_values(got, exact, 1e-4 if NARROW.search(source) else 1e-9)


def difference(family: str, source: str, got: Answer, wanted: Answer) -> str:
    """How two answers differ, or nothing. Where JAX has other values than SciPy, those of SciPy are
    right: 0 for NaN, or what loops that ended too early leave."""
    if "error" in wanted and excused(source, got, wanted):
        return ""
    wide = any(len(x) > 1 and x[1] in ("float64", "complex128") for x in wanted.get("leaves", ()))
    wide = wide and not NARROW.search(source)
    try:
        compare(got, wanted, 1e-9 if wide else 1e-4, family in SCALED)
    except (AssertionError, ValueError) as error:
        if family in SCIPYS and as_scipy(source, got, wanted):
            return ""
        return str(error).strip() or "different"
    return ""
