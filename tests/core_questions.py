"""Small questions that JAX's own tests ask of transformations and of private modules. The script
prints an answer a line; test_core_questions.py runs it on JAX and on Pullback.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import io
import re
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax._src.config
import jax.ad_checkpoint
import jax.export
import jax.numpy as jnp
import numpy as np

QUESTIONS: dict[str, Callable[[], Any]] = {}


def ask(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def keep(f: Callable[[], Any]) -> Callable[[], Any]:
        assert name not in QUESTIONS
        QUESTIONS[name] = f
        return f

    return keep


def fault(f: Callable[[], Any], words: str = "") -> str:
    """The class of JAX's that an error is of, and whether its message has these words."""
    try:
        found = f()
    except Exception as e:
        known = [c.__name__ for c in type(e).__mro__ if c.__module__ in ("builtins", "jax.errors")]
        return f"{known[0]} {re.search(words, str(e)) is not None}"
    return f"no fault: {found}"


# ---- references, memories, collectives


@ask("an array is frozen already")
def _() -> Any:
    x = jnp.ones(2)
    return jax.freeze(x) is x


@ask("types say their memory")
def _() -> Any:
    space = jax.memory.Space
    short = jax.core.ShapedArray((2,), np.dtype("float32"))
    long = jax.core.ShapedArray((2,), np.dtype("float32"), memory_space=space.Device)
    return short.memory_space, short == long, jax.typeof(jnp.ones(2)).memory_space


@ask("memory spaces in programs")
def _() -> Any:
    space = jax.memory.Space
    f = lambda x: jax.device_put(jnp.sin(jax.device_put(x, space.Host)), space.Device) * 2
    return jax.make_jaxpr(f)(jnp.ones(2))


@ask("a permutation of other axes")
def _() -> Any:
    f = jax.vmap(lambda x: jax.lax.ppermute(x, "i", [(0, 5)]), axis_name="i")
    return fault(lambda: f(jnp.arange(2.0)), "Permutation doesn't match the axis size!")


# ---- functions with rules of their own


@ask("structures of custom_vmap's operands")
def _() -> Any:
    def f(c: Any, x: Any) -> Any:
        @jax.custom_batching.custom_vmap
        def g(x: Any, y: Any) -> Any:
            return x * c, y

        g.def_vmap(lambda n, batched, x, y: ((x * c, y), batched))
        return g(x, {"a": x})

    def structures(*program: Any) -> Any:
        (eqn,) = (e for e in jax.make_jaxpr(*program)(2.0, 3.0).eqns if "vmap" in str(e.primitive))
        return eqn.params["in_tree"], eqn.params["out_tree"]

    return structures(f)


def _closing(kind: str, over: str) -> Any:
    """A function with a derivative of its own that closes over what is differentiated."""

    def f(x: Any) -> Any:
        if kind == "jvp":
            g = jax.custom_jvp(lambda y: x * y if over == "value" else 3.0 * y)
            g.defjvp(lambda p, t: (3.0 * p[0], t[0] * (x if over == "rule" else 5.0)))
        else:
            g = jax.custom_vjp(lambda y: x * y)
            g.defvjp(lambda y: (x * y, None), lambda _, ct: (ct * 5.0,))
        return g(1.0 if over == "value" else x)

    return f


for _kind, _over in (("jvp", "value"), ("jvp", "rule"), ("vjp", "value"), ("vjp", "rule")):

    @ask(f"custom_{_kind} closes over a differentiated value: {_over}")
    def _(kind: str = _kind, over: str = _over) -> Any:
        f = _closing(kind, over)
        return (
            fault(lambda: jax.jvp(f, (2.0,), (1.0,)), "unexpected tracer") if kind == "jvp" else "",
            fault(lambda: jax.linearize(f, 2.0)[1](1.0), "unexpected tracer")[:20],
            fault(lambda: jax.vmap(f)(jnp.ones(2)), "none")[:8],
        )


@ask("zeros of other shapes from a bwd rule")
def _() -> Any:
    f = jax.custom_vjp(lambda x, y, z: (x, y, z))
    f.defvjp(
        lambda x, y, z: (f(x.value, y.value, z.value), None),
        lambda _, g: (g[1], g[0], g[2]),
        symbolic_zeros=True,
    )
    ones = [jnp.ones(k) for k in (1, 2, 3)]
    return fault(
        lambda: jax.grad(lambda *xs: f(*xs)[2].sum())(*ones), "Consider just returning a None here"
    )


@ask("arguments of custom functions by name")
def _() -> Any:
    def f(x: Any, y: Any, *, z: Any = None) -> Any:
        return x * y

    out = []
    for make in (jax.custom_jvp, jax.custom_vjp, jax.custom_batching.custom_vmap):
        g: Any = make(f)
        for rule in ("defjvp", "defvjp", "def_vmap"):
            if hasattr(g, rule):
                getattr(g, rule)(*[lambda *a: None] * (2 if rule == "defvjp" else 1))
        kind = make.__name__
        out += [
            fault(
                lambda g=g: g(0.5),
                rf"to the {kind}-decorated function f(.*)\nmissing a required argument: 'y'",
            ),
            fault(
                lambda g=g: g(0.5, 0.1, z=1.0),
                rf"to the {kind}-decorated function f(.*)\n"
                "The following keyword arguments could not be resolved to positions: z",
            ),
        ]
    return out


@ask("types of a jvp rule's results")
def _() -> Any:
    f = jax.custom_jvp(lambda x: x)
    out = []
    for rule, said in (
        (
            lambda p, t: ((p[0], p[0]), (t[0], jnp.reshape(t[0], (1,)))),
            r"but got:\n  primal .* with tangent .*1\], expecting tangent .*32\[\]",
        ),
        (
            lambda p, t: (p[0], jnp.reshape(t[0], (1,))),
            r"Expected float32\[\] \(tangent type of float32\[\]\) but got float32\[1\]",
        ),
    ):
        f.defjvp(rule)
        out.append(fault(lambda: jax.jvp(f, (1.0,), (1.0,)), said))
    return out


@ask("the primal result of a jvp rule in a loop")
def _() -> Any:
    f = jax.custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (jnp.zeros((3, *p[0].shape)), t[0]))

    def loop(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]

    said = "shapes/dtypes of:\n    float32\\[3\\]\nwhile the custom_jvp-decorated function"
    return fault(lambda: jax.jvp(loop, (jnp.float32(1),), (jnp.float32(1),)), said)


@ask("arguments of a converted closure")
def _() -> Any:
    _, pull = jax.vjp(lambda x, z: z * x, 2.0, 3.0)
    pure, aux = jax.closure_convert(pull, 2.0)
    pure(2.0, *aux)
    return fault(lambda: pure(2.0, aux), "The inputs to the closure produced by closure_convert")


@ask("references that come out or come twice")
def _() -> Any:
    twice = r"only one reference to a mutable array may be passed"

    def custom(fun: Any, fwd: Any) -> Any:
        f = jax.custom_vjp(fun)
        f.defvjp(fwd, lambda _, g: (g, None))
        return f

    out = custom(lambda x, ref: ref, lambda x, ref: (x, None))
    new = custom(lambda x, ref: x, lambda x, ref: (x, jax.new_ref(0.0)))
    a = jax.new_ref(jnp.zeros((3, 3)))
    before = jax.config.jax_mutable_array_checks
    jax.config.update("jax_mutable_array_checks", True)
    found = [
        fault(lambda: out(1.0, jax.new_ref(0.0)), "custom_vjp primal function"),
        fault(lambda: jax.jit(out)(1.0, jax.new_ref(0.0)), "custom_vjp primal function"),
        fault(lambda: jax.vjp(new, 1.0, jax.new_ref(0.0)), "custom_vjp fwd function"),
        fault(lambda: jax.vmap(lambda r, s: r[...])(a, a), twice),
    ]
    jax.config.update("jax_mutable_array_checks", before)
    return found


@ask("freed references in programs")
def _() -> Any:
    def f(x: Any) -> Any:
        ref = jax.new_ref(x)
        jax.free_ref(ref)
        return ref[...]

    return fault(lambda: jax.jit(f)(1.0))


@ask("what says nothing of a cotangent")
def _() -> Any:
    total = jax.new_ref(jnp.zeros(4))

    def run() -> Any:
        _, pull = jax.vjp(jax.jit(lambda x, i: x[i] ** 2), jnp.arange(4.0), 2)
        pull.with_refs(total, object())(1.0)

    return "+=" in str(jax.make_jaxpr(run)())


# ---- control flow, effects, callbacks


@ask("what cond, switch and while refuse")
def _() -> Any:
    lax, one = jax.lax, [lambda _: 2.0, lambda _: 3.0]
    return [
        fault(lambda: lax.cond(lambda x: True, *one, 1.0), "Pred type must be either boolean or"),
        fault(lambda: lax.cond("foo", *one, 1.0), "Pred must be a scalar, got foo of type <class"),
        fault(lambda: lax.cond((1.0, 1.0), *one, 1.0), r"Pred must be a scalar, got \(1.0, 1.0\)"),
        fault(lambda: lax.switch(lambda x: True, one, 1.0), "Index type must be an integer, got <"),
        fault(lambda: lax.switch("foo", one, 1.0), "Index type must be an integer, got foo"),
        fault(lambda: lax.switch((1.0, 1.0), one, 1.0), r"Branch index must be scalar, got \(1"),
        fault(
            lambda: lax.while_loop(lambda c: np.float32(1), lambda c: c, np.float32(0)),
            r"output type\(s\) \[ShapedArray\(float32\[\]\)\]",
        ),
    ]


def _same(value: Any) -> Any:
    return value


@ask("what callbacks return")
def _() -> Any:
    shape = jax.ShapeDtypeStruct
    out = []
    for value, type_ in (
        (np.ones(3, "f"), shape((), "float32")),
        (3, shape((), "float32")),
        (True, shape((), "float32")),
        (np.float16(1), shape((), "float32")),
        (3.0, shape((), "float32")),
        ((1.0, 1.0), shape((), "float32")),
        ((1.0, np.ones(2)), (shape((), "float32"), shape((), "float32"))),
    ):
        for call in (jax.pure_callback, jax.experimental.io_callback):
            said = r"Incorrect output \w+ for return value #\d: Expected: |Mismatched number of"
            run = jax.jit(functools.partial(call, functools.partial(_same, value), type_))
            out.append(fault(run, said))
    return out


@ask("effects that nobody lowers")
def _() -> Any:
    from jax._src import core, effects

    class Strange(effects.Effect):
        pass

    p = core.Primitive("strange")
    p.multiple_results = True
    p.def_effectful_abstract_eval(lambda: ([], {Strange()}))

    @jax.jit
    def f(x: Any) -> Any:
        p.bind()
        return x + 1.0

    return fault(lambda: f.lower(2.0), "Cannot lower jaxpr with effects")


@ask("tangents of integers do not compute")
def _() -> Any:
    x, said = jax.grad(lambda x: x + 0.0, allow_int=True)(1), "float0s do not support any operation"
    return [
        fault(lambda: x + jnp.zeros(()), said),
        fault(lambda: jax.lax.add(x, jnp.zeros(())), said),
        fault(lambda: jnp.sin(x), said),
        fault(lambda: jax.lax.sin(x), said),
    ]


@ask("what debug.print does not use")
def _() -> Any:
    return [
        fault(lambda: jax.debug.print("{x}", 3, x=1), r"Unused positional arguments to .*: \[3\]"),
        fault(lambda: jax.debug.print("{x}", x=1, y=2), r"Unused keyword arguments to .*: \['y'\]"),
    ]


@ask("leaked traces")
def _() -> Any:
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x)
        return x

    with jax.checking_leaks():
        return [
            re.sub(r"\(.*| at .*", "", str(e).split(".")[0])
            for e in (_error(lambda: jax.jit(keep)(3)), _error(lambda: jax.vmap(keep)(jnp.ones(3))))
        ]


def _error(f: Callable[[], Any]) -> Exception:
    try:
        f()
    except Exception as e:
        return e
    raise AssertionError


# ---- symbolic sizes


@ask("symbolic sizes")
def _() -> Any:
    from jax import export

    shape = export.symbolic_shape
    (a,) = shape("a")
    mixed = jax.ShapeDtypeStruct((a,), np.dtype("float32"))
    wide = export.export(jax.jit(lambda x: jnp.pad(x, (1, x.shape[0]))))(mixed)
    return [
        [str(shape(text)) for text in ("1 + a + -1", "((a))", "a * -2", "(a, 3)")],
        fault(lambda: shape("..."), "in dimension 0: spec contains ... but no 'like' shape"),
        fault(lambda: a > 1, "comparison 'a' > '1' is inconclusive"),
        fault(lambda: a <= 5, "comparison 'a' <= '5' is inconclusive"),
        fault(lambda: a < 5, "comparison 'a' < '5' is inconclusive"),
        (a >= 1, a > 0, a + 1 > a, 0 < a, a <= a, a < a),
        jax.core.max_dim(a, 3) if hasattr(jax.core, "max_dim") else "max(a, 3)",
        fault(
            lambda: jax.eval_shape(lambda x: jnp.split(x, 2), mixed), "does not result in an equal"
        ),
        (wide.out_avals, wide.call(np.ones(3, "f"))),
    ]


@ask("flags by their names")
def _() -> Any:
    from jax._src import config

    with jax.default_matmul_precision("tensorfloat32"):
        return config._read("jax_default_matmul_precision"), config._read("jax_enable_x64")


# ---- programs that break the grammar, garbage


def _checked(jaxpr: Any) -> str:
    from jax._src import core

    try:
        core.check_jaxpr(jaxpr)
    except core.JaxprTypeError as e:
        lines = [x for x in str(e).split("\n") if "from source" not in x]
        return "|".join(re.sub(r"id=\d+", "id=", x) for x in lines[:8])
    return "no fault"


def _with(jaxpr: Any, primitive: str, **changes: Callable[[Any], Any]) -> Any:
    """A program in which the equations of one primitive are changed."""
    return jaxpr.replace(
        eqns=[
            e.replace(**{k: f(e) for k, f in changes.items()})
            if e.primitive.name == primitive
            else e
            for e in jaxpr.eqns
        ]
    )


@ask("faults of programs")
def _() -> Any:
    add = jax.make_jaxpr(lambda x: jnp.sin(jnp.cos(x)))(1.0).jaxpr
    call = jax.make_jaxpr(jax.jit(lambda x, y: x + 1))(1.0, 2.0).jaxpr
    cond = jax.make_jaxpr(lambda p, x: jax.lax.cond(p, jnp.sin, jnp.cos, x))(True, 1.0).jaxpr
    two = jax.make_jaxpr(lambda x: (x, x))(1.0)
    prints = jax.make_jaxpr(lambda x: jax.debug.print("{}", x))(1.0).jaxpr
    return [
        _checked(add),
        _checked(add.replace(eqns=add.eqns[1:])),
        _checked(add.replace(eqns=[*add.eqns, *add.eqns])),
        _checked(_with(call, "jit", invars=lambda _: [])),
        _checked(_with(cond, "cond", invars=lambda e: e.invars[:1])),
        _checked(_with(cond, "cond", invars=lambda e: [cond.invars[1], cond.invars[1]]))[:70],
        _checked(
            _with(
                cond,
                "cond",
                params=lambda e: {**e.params, "branches": (e.params["branches"][0], two)},
            )
        ),
        _checked(prints.replace(effects=set()))[:50],
    ]


@ask("a variable of another type")
def _() -> Any:
    jaxpr = jax.make_jaxpr(lambda x: jnp.sin(x) + jnp.cos(x))(jnp.float32(1)).jaxpr
    jaxpr.eqns[0].outvars[0].aval = jax.core.ShapedArray((2, 3), np.dtype("float32"))
    return _checked(jaxpr)


@ask("transformations leave nothing to the collector")
def _() -> Any:
    def f(x: Any) -> Any:
        return x.sum()

    x, jitted, out = jnp.zeros([]), jax.jit(f), []
    for run in (
        lambda: jax.linearize(f, x),
        lambda: jax.vjp(f, x)[1](1.0),
        lambda: jax.grad(f)(x),
        lambda: jax.jvp(f, (x,), (x,)),
        lambda: jitted(x),
    ):
        for _ in range(4):  # until it is compiled
            run()
        gc.collect()
        run()
        out.append(gc.collect())
    return out


# ---- functions with derivative rules


@ask("what is not used of a function with a rule is dropped")
def _() -> Any:
    f = jax.custom_jvp(lambda x, y: (jnp.sin(x), x + jnp.cos(y)))
    f.defjvp(lambda p, t: (f(*p), (2.0 * jnp.cos(p[0]) * t[0], 1.5 * t[0] - t[1])))
    from jax._src import core
    from jax._src.interpreters import partial_eval as pe

    jaxpr = jax.make_jaxpr(f)(0.1, -1.3).jaxpr
    out: list[Any] = []
    for used in ([True, True], [True, False], [False, True], [False, False]):
        smaller, used_in = pe.dce_jaxpr(jaxpr, used)
        inner = [e.params["call_jaxpr"].eqns for e in smaller.eqns]
        out.append((used_in, [[e.primitive.name for e in eqns] for eqns in inner]))
        if sum(used) == 1:
            g = core.jaxpr_as_fun(pe.close_jaxpr(smaller))
            tangents = [jax.jvp(g, (0.1, -1.3), t)[1][0] for t in ((1.0, 0.0), (0.0, 1.0))]
            out.append([round(float(t), 4) for t in tangents])
            out.append(round(float(jax.grad(lambda x, g=g: g(x, 1.0)[0])(0.1)), 4))
    return out


@ask("rules that give other outputs than their functions")
def _() -> Any:
    def loop(f: Any, x: Any) -> Any:
        return jax.lax.scan(lambda x, _: (f(x), None), x, None, length=1)[0]

    def primal(x: Any) -> Any:
        return x

    said = []
    for wrong in (lambda x: (x, x), lambda x: jnp.zeros((3, *x.shape))):

        def rule(p: Any, t: Any, wrong: Any = wrong) -> Any:
            return wrong(p[0]), wrong(t[0])

        def fwd(x: Any, wrong: Any = wrong) -> Any:
            return wrong(x), None

        f, g = jax.custom_jvp(primal), jax.custom_vjp(primal)
        f.defjvp(rule)
        g.defvjp(fwd, lambda _, ct: (ct,))
        for h in (f, g):
            try:
                jax.grad(lambda x, h=h: loop(h, x))(jnp.float32(1.0))
            except TypeError as e:
                said.append(str(e).partition("Fix")[0].strip().split("\n"))
    return said


@ask("prints in loops and branches of checkpointed functions")
def _() -> Any:
    policies, name = jax.checkpoint_policies, jax.ad_checkpoint.checkpoint_name

    def body(x: Any) -> Any:
        y = name(x + 1.0, "y")
        jax.debug.print("y {}", y)
        return jnp.sin(name(y * 2.0, "z"))

    def never(primitive: Any, *_: Any, **params: Any) -> bool:
        return params.get("name") != "y" if str(primitive) == "name" else True

    loops = [
        lambda x: jax.lax.cond(x > 0, body, lambda x: x, x),
        lambda x: jax.lax.scan(lambda c, _: (body(c), c), x, None, length=2)[0],
        lambda x: jax.lax.fori_loop(0, 2, lambda i, x: body(x), x),
    ]
    found = []
    for policy in (policies.everything_saveable, policies.nothing_saveable, never):
        for f in loops:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                jax.grad(jax.checkpoint(f, policy=policy))(2.0)
                jax.effects_barrier()
            found.append(out.getvalue().count("y"))
    return found


@ask("types of references as arguments")
def _() -> Any:
    from jax._src.state import discharge, types

    def f(x: Any, y: Any) -> Any:
        x[...] = 1.0
        return y[...]

    def g(cells: Any) -> None:
        cells[1][...] = cells[0][...] * 2

    class Later:
        pass

    cell = types.AbstractRef(jax.core.ShapedArray((), jnp.int32))
    types._ref_type_aval_mappings[Later] = lambda _: (cell, types.uninitialized)
    refs = [types.AbstractRef(jax.typeof(3.0)) for _ in range(2)]
    return jax.make_jaxpr(f)(*refs), discharge.run_state(g)((jnp.int32(2), Later()))


# ---- exported programs


@ask("derivatives of exported functions of integers")
def _() -> Any:
    f = lambda i, x: (2 * i.T, x.T * x.T)
    i, x = np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(3, 4)
    named = jax.export.symbolic_args_specs([i, x], shapes_specs=["2, a", "a, 4"])
    out = []
    for args in (named, (i, x)):
        exported = jax.export.export(jax.jit(f))(*args)
        back = jax.vjp(exported.call, i, x)[1]
        cts = np.ones((3, 2), jax.dtypes.float0), np.ones((4, 3), np.float32)
        found, again = jax.vjp(back, cts)
        second = exported.vjp().vjp()
        out.append((found[1], jax.tree.leaves(again(found))[1].dtype, len(second.out_avals)))
    return out


@ask("sizes that exported functions refuse")
def _() -> Any:
    made = {}
    out = []
    for named, shape in (
        ("3,a,a+8", (3, 4, 13)), ("3,4,6*a", (3, 4, 13)), ("3,4,a+1", (3, 4, 1)),
        ("(a+2*b, a, a+b+c)", (2, 2, 6)), ("(2*a+b, a, c*c)", (7, 2, 36)),
    ):  # fmt: skip
        spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape(named), np.float32)
        try:
            made[named] = jax.export.export(jax.jit(lambda x: 0.0))(spec)
            made[named].call(np.ones(shape, np.float32))
        except ValueError as e:
            out.append(str(e).partition(" for more details.")[0])
    inner = jax.export.export(jax.jit(jnp.sin))(
        jax.ShapeDtypeStruct(jax.export.symbolic_shape("a, a+b"), np.float32)
    )
    outer = jax.ShapeDtypeStruct(jax.export.symbolic_shape("4, c"), np.float32)
    words = "Expected value >= 1 for dimension variable 'b'"
    return out, fault(lambda: jax.export.export(jax.jit(inner.call))(outer), words)


@ask("what export refuses")
def _() -> Any:
    f = jax.jit(jnp.sin, donate_argnums=0)
    x = np.ones(2, np.float32)
    out = [fault(lambda: jax.export.export(f, platforms=["cpu", "other"])(x), "either all or no")]
    for version in (8, 9, 10, 11):
        with jax._src.config.jax_export_calling_convention_version(version):
            words = "is outside the range of supported versions"
            out.append(fault(lambda: jax.export.export(jnp.sin)(x).platforms, words))
    pair = collections.namedtuple("pair", "a b")
    register = jax.export.register_pytree_node_serialization
    codecs = {"serialize_auxdata": lambda x: b"", "deserialize_auxdata": lambda b: None}
    words = "If `from_children` is not present.*must call"
    return [*out, fault(lambda: register(pair, serialized_name="pair", **codecs), words)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, question in QUESTIONS.items():
        answer = str(question()).replace("\n", "\\n").replace("pullback", "jax")
        print(f"{name}: {answer}", flush=True)
