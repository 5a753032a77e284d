"""Families of calls that are alike but for what their arguments are, for `history_run.py`: numbers
of Python and NumPy, weak and strong arrays, dtypes, committed arrays, keywords, flags, jit.

A family is made of one template of `sweep_cases`, or of `history/templates.txt`: its calls are
drawn, then changed: an array becomes a number of the same or of another type, a keyword a position,
the function is jitted. With them come some of `history/events.txt`, which set flags.
Their answers must not depend on which of them came before.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import pathlib
import random
import re
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import sweep_cases
from sweep_cases import Template

FOLDER = pathlib.Path(__file__).parent / "history"


def _read(name: str) -> list[str]:
    lines = (FOLDER / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


EVENTS, NUMBERS = _read("events.txt"), _read("numbers.txt")
# Numbers that stand in a parameter's place.
PARAMETERS = (
    "0|1|-1|2|0.0|1.0|True|False|np.int32(1)|np.int64(0)|None|wk(1)|jnp.int32(0)|Sub(1)|2.5".split(
        "|"
    )
)

FLAGS: tuple[tuple[str, Any], ...] = (
    ("enable_x64", True), ("enable_x64", True), ("numpy_dtype_promotion", "strict"),
    ("numpy_rank_promotion", "raise"), ("numpy_rank_promotion", "warn"), ("debug_nans", True),
    ("debug_infs", True), ("default_matmul_precision", "highest"),
    ("default_matmul_precision", "bfloat16"), ("disable_jit", True), ("mesh", True),
    ("default_device", True), ("check_tracer_leaks", True), ("transfer_guard", "disallow"),
    ("default_prng_impl", "rbg"), ("enable_custom_prng", True), ("threefry_partitionable", False),
    ("enable_checks", True), ("legacy_prng_key", "error"), ("softmax_custom_jvp", False),
    ("allow_f16_reductions", False),
)  # fmt: skip

KINDS = set(sweep_cases.DTYPES)
# What is not determined, or is of no interest twice: addresses, empty memory.
LEFT = re.compile(
    r"\bempty|__hash__|hash\(|object\(\)|unsafe_buffer|__dlpack|np\.printoptions|set_printoptions|"
    r"__setitem__|jnp\.load|jnp\.save|iter\(|\.__array_namespace__|to_device|stages"
)


def templates() -> tuple[Template, ...]:
    """Those of the sweeps, and those above."""
    text = (FOLDER / "templates.txt").read_text()
    more = [Template("more", line) for line in sweep_cases.lines(text)]
    return (*sweep_cases.templates(), *more)


@dataclasses.dataclass
class Pair:
    """A container of the user's."""

    x: Any
    y: Any


class Sub(float):
    """A number of a class of the user's."""


def environment() -> dict[str, Any]:
    """What the names in a call stand for; what is jitted is jitted once."""
    import enum
    import gc
    import threading

    import pullback.export
    from pullback import sharding

    with contextlib.suppress(ValueError):  # registered before
        pullback.tree_util.register_dataclass(Pair, ["x", "y"], [])
    names = sweep_cases.environment("pullback")
    jax, jnp = names["jax"], names["jnp"]
    where = jax.devices()[0]
    mesh = sharding.Mesh(np.array([where]), ("i",))
    explicit = jax.make_mesh((1,), ("i",), (sharding.AxisType.Explicit,))
    spec = sharding.PartitionSpec
    made: dict[Any, Any] = {}

    def once(kind: str, f: Any, make: Any, *options: Any) -> Any:
        key = kind, _name(f), options
        if key not in made:
            made[key] = make()
        return made[key]

    def contained(f: Any) -> Any:
        def of(parts: Any) -> Any:
            return f(*(parts.values() if isinstance(parts, dict) else parts))

        return jax.jit(of)

    def J(f: Any, **options: Any) -> Any:
        return once("J", f, lambda: jax.jit(f, **options), *sorted(options.items()))

    def within(context: Any, f: Any) -> Any:
        with context():
            return f()

    def in_thread(f: Any) -> Any:
        out: list[Any] = []
        thread = threading.Thread(target=lambda: out.append(f()))
        thread.start()
        thread.join()
        return out

    def total(f: Any) -> Any:
        return lambda *args, **kwargs: jnp.real(jnp.sum(jax.tree.leaves(f(*args, **kwargs))[0]))

    return {
        **names,
        "random": jax.random,
        "wk": lambda v: jnp.broadcast_to(2.5, v.shape) if _is_array(v) else jnp.asarray(v),
        "put": lambda x: jax.device_put(x, where),
        "putn": lambda x: jax.device_put(x, sharding.NamedSharding(mesh, spec())),
        "Sub": Sub,
        "Pair": Pair,
        "MESH": mesh,
        "EXPLICIT": explicit,
        "P": spec,
        "NS": sharding.NamedSharding(mesh, spec("i")),
        "within": within,
        "in_thread": in_thread,
        "collected": lambda: gc.collect() * None.__bool__(),
        "Color": enum.IntEnum("Color", "RED BLUE"),
        "J": J,
        "JL": lambda f: once("JL", f, lambda: jax.jit(lambda *a, **k: f(*a, **k))),
        "JC": lambda f: once("JC", f, lambda: contained(f)),
        "grad": lambda f: once("grad", f, lambda: jax.grad(f)),
        "vag": lambda f: once("vag", f, lambda: jax.value_and_grad(total(f))),
    }  # fmt: skip


def _is_array(v: Any) -> bool:
    return hasattr(v, "shape") and v.ndim > 0


def _name(f: Any) -> Any:
    code = getattr(f, "__code__", None)
    if getattr(f, "__name__", "") == "<lambda>" and code is not None:
        return code.co_code, code.co_consts, code.co_names
    return id(f)


# --- drawing ---
class _Changed(ast.NodeTransformer):
    """A call with some of its arguments replaced."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.outer = rng, True

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in KINDS:
            return ast.parse(self._array(ast.unparse(node), node), mode="eval").body
        if isinstance(node.func, ast.Name) and node.func.id in ("E", "wk", "put", "putn", "host"):
            return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) in (int, float, bool) and self.rng.random() < 0.25:
            choice = self.rng.choice(PARAMETERS if self.rng.random() < 0.5 else NUMBERS)
            return ast.parse(choice, mode="eval").body
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def _array(self, text: str, node: ast.Call) -> str:
        luck, rng = self.rng.random(), self.rng
        if luck < 0.3:
            return text
        if luck < 0.4:
            return f"host({text})"
        if luck < 0.55:
            assert isinstance(node.func, ast.Name)
            return rng.choice(sorted(KINDS)) + text[len(node.func.id) :]
        if luck < 0.65:
            return f"wk({text})"
        if luck < 0.7:
            return f"{rng.choice(('put', 'put', 'putn'))}({text})"
        if luck < 0.73:
            return f"host({text}).tolist()"
        if luck < 0.75:
            return f"host({text})[..., ::-1]" if node.args else f"host({text})"
        return rng.choice(NUMBERS)


def _keywords(tree: ast.Expression, names: dict[str, Any], rng: random.Random) -> None:
    """Gives some positional arguments by name, or the other way round."""
    call = tree.body
    if not isinstance(call, ast.Call) or rng.random() < 0.7:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function = eval(ast.unparse(call.func), dict(names))
            parameters = list(inspect.signature(function).parameters.values())
    except Exception:
        return
    plain = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(plain) < len(call.args) or any(isinstance(a, ast.Starred) for a in call.args):
        return
    first = rng.randint(0, len(call.args))
    for name, value in zip(plain[first:], call.args[first:]):
        call.keywords.append(ast.keyword(name, value))
    del call.args[first:]


def _wrapped(tree: ast.Expression, rng: random.Random) -> str:
    """The call, sometimes of the function jitted, in one way or another."""
    text, call = ast.unparse(tree), tree.body
    if not isinstance(call, ast.Call) or rng.random() < 0.75:
        return text
    if not isinstance(call.func, ast.Attribute) or not isinstance(
        call.func.value, ast.Name | ast.Attribute
    ):
        return text
    function = ast.unparse(call.func)
    args = [ast.unparse(a) for a in call.args]
    rest = ", ".join([*args, *(f"{k.arg}={ast.unparse(k.value)}" for k in call.keywords)])
    kind = rng.randrange(7)
    if kind == 0:
        return f"JL({function})({rest})"
    if kind == 1 and args:
        return f"J({function}, static_argnums={rng.randrange(len(args))})({rest})"
    if kind == 2 and call.keywords:
        return f"J({function}, static_argnames='{rng.choice(call.keywords).arg}')({rest})"
    if kind == 3 and args and not re.search(r"\bkey\b", rest):  # which all calls share
        return f"J({function}, donate_argnums={rng.randrange(len(args))})({rest})"
    if kind == 4 and args and not call.keywords:
        form = rng.choice(["[{}]", "({},)", "dict(enumerate([{}]))"])
        return f"JC({function})({form.format(', '.join(args))})"
    if kind == 5:
        return f"vag({function})({rest})"
    return f"J({function})({rest})"


Call = tuple[tuple[tuple[str, Any, bool], ...], str]  # (flags, expression)


def flags(rng: random.Random) -> tuple[tuple[str, Any, bool], ...]:
    """(name, value, for the whole process?) of those that a call is made under."""
    count = rng.choice((0, 0, 0, 0, 1, 1, 2))
    chosen = dict(rng.sample(FLAGS, count))
    return tuple((name, value, rng.random() < 0.3) for name, value in chosen.items())


def family(template: Template, seed: int, size: int, names: dict[str, Any]) -> list[Call]:
    """Calls that are alike, each different from the others."""
    rng = random.Random(zlib.crc32(f"{template.text} {seed}".encode()))
    found: dict[Call, None] = {}
    bases: list[str] = []
    for _ in range(6 * size):
        if len(bases) < 4:
            draw = sweep_cases.Draw(rng, rng.random() < 0.3)
            bases.append(draw.expression(template.text))
        try:
            tree = ast.parse(rng.choice(bases).strip(), mode="eval")
        except SyntaxError:
            bases.pop()
            continue
        tree = ast.fix_missing_locations(_Changed(rng).visit(tree))
        _keywords(tree, names, rng)
        text = _wrapped(tree, rng)
        if not LEFT.search(text) and _is_expression(text):
            found[flags(rng), text] = None
        if len(found) == size:
            break
    return [*found, *(((), text) for text in rng.sample(EVENTS, size // 4))]


def _is_expression(text: str) -> bool:
    """Whether Python takes it: no keyword stands twice."""
    try:
        compile(text, "<call>", "eval")
    except SyntaxError:
        return False
    return True


# --- evaluating ---
@contextlib.contextmanager
def under(chosen: tuple[tuple[str, Any, bool], ...], names: dict[str, Any]) -> Iterator[None]:
    """With flags in force, of this thread or of the process."""
    jax = names["jax"]
    with contextlib.ExitStack() as stack:
        for name, value, process in chosen:
            if name == "mesh":
                stack.enter_context(jax.make_mesh((1,), ("i",)))
            elif name == "default_device":
                stack.enter_context(jax.default_device(jax.devices()[0]))
            elif process:
                full = f"jax_{name}"
                stack.callback(jax.config.update, full, getattr(jax.config, full))
                jax.config.update(full, value)
            else:
                flag = getattr(jax, name, None)
                if flag is None:
                    from pullback import config

                    flag = config.FLAGS[f"jax_{name}"]
                stack.enter_context(flag(value))
        yield


class Prepared:
    """A call whose arguments can be made anew, or kept."""

    def __init__(self, text: str) -> None:
        body = ast.parse(text, mode="eval").body
        self.whole = not isinstance(body, ast.Call) or any(
            isinstance(a, ast.Starred) for a in body.args
        )
        # What is traced warns when it is traced, as JAX's does.
        self.traced = re.search(r"\b(J|JL|JC|vag|grad|jax\.\w+)\(", text) is not None
        self.code = compile(text, "<call>", "eval")
        if not self.whole:
            assert isinstance(body, ast.Call)
            call = ast.Expression(
                ast.Tuple(
                    [body.func, ast.List(body.args, ast.Load()),
                     ast.Dict([ast.Constant(k.arg) for k in body.keywords],
                              [k.value for k in body.keywords])],
                    ast.Load(),
                )
            )  # fmt: skip
            self.parts = compile(ast.fix_missing_locations(call), "<call>", "eval")

    def arguments(self, names: dict[str, Any]) -> Any:
        return None if self.whole else eval(self.parts, dict(names))

    def call(self, names: dict[str, Any], made: Any) -> Any:
        if made is None:
            return eval(self.code, dict(names))
        function, args, kwargs = made
        return function(*args, **kwargs)


def answered(
    prepared: Prepared, chosen: Any, names: dict[str, Any], kept: Any = None
) -> tuple[str, Any]:
    """What a call gives, as text; and its arguments, for the next time."""
    made = kept
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            with under(chosen, names):
                if made is None:
                    made = prepared.arguments(names)
                seen.clear()
                result = prepared.call(names, made)
            told = _told(result, _flat(made), names)
        except Exception as error:
            told = f"{type(error).__mro__[0].__name__}: {error}"
    told += "".join(
        f"\n{w.category.__name__}: {w.message}"
        for w in seen
        if not (prepared.traced or re.match("Casting |Following NumPy", str(w.message)))
    )
    told += f" {[k for k, x in enumerate(_flat(made)) if _deleted(x)]}"
    told = told.replace("LazyPair", "JVPTracer")  # the recorded gradient's tracer, the traced one's
    told = re.sub(r"\S+\.py:\d+:\d+ \([^)]*\)", "LINE", told)  # where it was traced first
    return re.sub(r"0x[0-9a-f]{6,}|pullback\.runtime\.array\.(?=ArrayImpl)", "", told), made


def _deleted(x: Any) -> bool:
    return hasattr(x, "is_deleted") and x.is_deleted()


def _flat(made: Any) -> list[Any]:
    return [] if made is None else [*made[1], *made[2].values()]


def _told(x: Any, arguments: list[Any], names: dict[str, Any]) -> str:
    if isinstance(x, tuple | list):
        inner = ", ".join(_told(y, arguments, names) for y in x)
        return f"{type(x).__name__}({inner})"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k}: {_told(y, arguments, names)}" for k, y in x.items()) + "}"
    same = [k for k, y in enumerate(arguments) if y is x and hasattr(x, "dtype")]
    kind = type(x).__name__
    if kind in ("Array", "ArrayImpl"):
        a = np.asarray(x)
        bits, few = a.tobytes().hex(), a.size < 9
        bits = bits if len(bits) < 200 else f"{a!r} {zlib.crc32(a.tobytes())}"
        return (
            f"{kind} {x.dtype.name}{x.shape} weak={x.weak_type} {bits} {a.tolist() if few else ''} "
            f"{'committed' if x.committed else 'free'} {x.sharding} {x.aval} is={same}"
        )
    if kind == "PRNGKeyArray":
        data = names["jax"].random.key_data(x)
        return f"key {x.dtype}{x.shape} {_told(data, [], names)}"
    if isinstance(x, np.ndarray | np.generic):
        return f"{kind} {x.dtype}{x.shape} {x.tobytes().hex()} is={same}"
    return f"{kind} {x!r}"
