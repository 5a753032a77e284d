"""Every primitive that JAX has is there, with every rule that JAX's has, and each is executed by a
sample: the table of lax (lax_samples.py) and what stands here, for what lax has no function for.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import oracle_flags  # noqa: F401
import pytest
from lax_samples import DTYPES, SAMPLES

# isort: split
import jax.extend.core.primitives as jprimitives
import jax.interpreters.ad as jad
import jax.interpreters.batching as jbatching

import pullback as pb
import pullback.numpy as jnp
from pullback import lax, random
from pullback.control.expand import expand
from pullback.core.primitive import Primitive
from pullback.extend.core import primitives
from pullback.loops import pipeline
from pullback.loops.lower import program
from pullback.primitives.keys import lower_keys
from pullback.runtime.executable import reference_rule

KINDS = ("jvp", "transpose", "batch", "lowering")


class Why(enum.Enum):
    """The closed list of reasons why a rule of JAX's is not executed here."""

    AXIS = "a named axis is gone when a program is lowered: it became an axis of the arrays"
    WORDS = "keys are words when a program is lowered: the operation became one on words"
    HOST = "Python runs it, between kernels"
    DISCHARGED = "references are values when a program is lowered"
    NOTHING = "a token is nothing when a program is lowered"
    NO_TANGENTS = "no operand can have a tangent, so that nobody asks for it"
    NOT_COMPILED = "it is opaque until it is transposed, and evaluating it is refused"


_AXIS = "all_gather all_to_all axis_index pmax pmin ppermute psum ragged_all_to_all"
_KEYS = "random_bits random_seed random_split random_fold_in random_gamma"
_INTEGERS = (
    "and not or xor shift_left shift_right_arithmetic shift_right_logical random_bits random_seed "
    "random_split random_fold_in"
)
REASONS: dict[tuple[str, str], Why] = {
    **{(f"{n}_p", "lowering"): Why.AXIS for n in _AXIS.split()},
    **{(f"{n}_p", "lowering"): Why.WORDS for n in _KEYS.split()},
    **{(f"{n}_p", "jvp"): Why.NO_TANGENTS for n in _INTEGERS.split()},
    **{(f"{n}_p", "lowering"): Why.DISCHARGED for n in ("get", "swap")},
    ("rng_uniform_p", "lowering"): Why.HOST,
    **{(f"{n}_p", "lowering"): Why.NOTHING for n in ("after_all", "create_token")},
    ("custom_lin_p", "lowering"): Why.NOT_COMPILED,
}


def wanted() -> dict[str, set[str]]:
    """The rules that JAX's primitives have, by the primitives' public names."""

    found: dict[str, set[str]] = {}
    for name, p in vars(jprimitives).items():
        if not name.endswith("_p"):
            continue
        rules = {"lowering"}
        rules |= {"jvp"} if p in jad.primitive_jvps else set()
        rules |= {"transpose"} if p in jad.primitive_transposes else set()
        rules |= {"batch"} if p in jbatching.fancy_primitive_batchers else set()
        found[name] = rules
    return found


# --- what runs ---
F, G, U = (np.float32([0.3, 0.5, 0.7]) * k for k in (1, 2, 3))
MORE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def more(name: str, f: Callable[..., Any], *args: Any) -> None:
    MORE[name] = f, args


def _over(f: Callable[..., Any]) -> Callable[..., Any]:
    return pb.vmap(f, axis_name="i")


for _name in ("psum", "pmax", "pmin", "pmean"):
    more(_name, _over(lambda x, n=_name: getattr(lax, n)(x * x, "i")), F)
_CYCLE = [(0, 1), (1, 2)]
for _name, _f in (
    ("psum", lambda x: lax.psum(x, "i")),
    ("ppermute", lambda x: lax.ppermute(x, "i", _CYCLE)),
    ("all_gather", lambda x: lax.all_gather(x, "i")),
    ("all_to_all", lambda x: lax.all_to_all(x[None] * np.ones((3, 1), "f"), "i", 0, 0)),
):
    more(f"{_name} inside", _over(lambda x, f=_f: pb.vjp(f, x)[1](f(x))), F)
    more(f"{_name} forward", _over(lambda x, f=_f: pb.jvp(f, (x,), (x,))), F)
more("ppermute", _over(lambda x: lax.ppermute(x * x, "i", [(0, 1), (1, 2)])), F)
more("all_gather", _over(lambda x: lax.all_gather(x * x, "i")), F)
more("all_to_all", _over(lambda x: lax.all_to_all(x * x, "i", 0, 0)), np.eye(3, dtype="f"))
more("axis_index", _over(lambda x: lax.axis_index("i") * x), F)
_SPLIT = np.int32([[0, 1], [0, 1]])
more(
    "ragged_all_to_all",
    lambda x, y: _over(
        lambda x, y, i, s, o, r: lax.ragged_all_to_all(x, y, i, s, o, r, axis_name="i")
    )(x, y, _SPLIT, np.ones((2, 2), "i"), _SPLIT, np.ones((2, 2), "i")),
    np.ones((2, 3), "f"),
    np.ones((2, 4), "f"),
)
_TO = {"axis_name": "i"}
more(
    "ragged_all_to_all inside",
    lambda x, y: _over(
        lambda x, y: pb.vjp(
            lambda u, v: lax.ragged_all_to_all(u, v, *[_SPLIT[0]] * 4, **_TO), x, y
        )[1](y)
    )(x, y),
    np.ones((2, 3), "f"),
    np.ones((2, 4), "f"),
)
more(
    "keys", lambda x: random.uniform(random.split(random.fold_in(random.key(0), 3))[0], (3,)) * x, F
)
more("seeds", lambda s: random.bits(random.key(s)), np.uint32(3))
more(
    "folds", lambda s, n: random.key_data(random.split(random.fold_in(random.key(s), n), 2)),
    np.uint32(3), np.uint32(4),
)  # fmt: skip
more("bits of keys", lambda s: random.bits(random.wrap_key_data(s), (2,)), np.uint32([1, 2]))
more("gamma", lambda a: random.gamma(random.key(0), a), F)
more("threefry", lambda x: primitives.threefry2x32_p.bind(x, x, x, x), np.uint32([1, 2]))
more("rng_uniform", lambda a: lax.rng_uniform(a, a + 1, (2,)), np.float32(1))
more("jit", lambda x: pb.jit(lambda y: y * y)(x), F)
more("call", lambda x: pb.core.call(lambda y: [y * y], x), F)  # type: ignore[attr-defined]
more(
    "closed_call",
    lambda x: primitives.closed_call_p.bind(x, call_jaxpr=pb.make_jaxpr(lambda y: [y * y])(x)),
    F,
)
more("checkpoint", lambda x: pb.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x), F)
more("checkpoint_name", lambda x: pb.ad_checkpoint.checkpoint_name(x * x, "x"), F)
_jvp_function = pb.custom_jvp(jnp.sin)
_jvp_function.defjvp(lambda xs, ts: (jnp.sin(xs[0]), ts[0] * jnp.cos(xs[0])))
more("custom_jvp", lambda x: _jvp_function(x), F)
_vjp_function = pb.custom_vjp(jnp.sin)
_vjp_function.defvjp(lambda x: (jnp.sin(x), x), lambda r, ct: (ct * jnp.cos(r),))
more(
    "custom_vjp mapped",
    lambda x: pb.grad(lambda v: pb.vmap(lambda u: _vjp_function(u) ** 2)(v).sum())(x),
    F,
)
more(
    "custom_vjp, mapped derivative",
    lambda x: pb.vmap(pb.linearize(_vjp_function, x)[1])(x[None]),
    F,
)
more("reduce_window min", lambda x: lax.reduce_window(x, np.inf, lax.min, (2,), (1,), "VALID"), F)
more("custom_vjp", lambda x: _vjp_function(x), F)
more(
    "custom_linear_solve",
    lambda d, b: lax.custom_linear_solve(lambda x: d * x, b, lambda _, v: v / d, symmetric=True),
    F, G,
)  # fmt: skip
more("device_put", lambda x: pb.device_put(x * x), F)
more("copy", lambda x: jnp.array(x * x, copy=True), F)
more("add_jaxvals", lambda x: primitives.add_jaxvals_p.bind(x * x, x), F)
more("empty", lambda x: lax.empty((3,), np.float32) * 0 + x, F)
more("tokens", lambda x: lax.after_all(lax.create_token()) and x * x, F)
more("sharding", lambda x: primitives.sharding_constraint_p.bind(
    x * x, sharding=pb.sharding.SingleDeviceSharding(pb.devices()[0]), layout=None,
    context_mesh=None, unconstrained_dims=frozenset()), F)  # fmt: skip
for _name in ("eq_to", "lt_to", "le_to"):
    more(_name, lambda x, y, n=_name: getattr(primitives, n + "_p").bind(x, y), F, G)
more("gathered extremes", lambda x: pb.jvp(lambda v: lax.reduce_window(
    v, -np.inf, lax.max, (2,), (1,), "VALID"), (x,), (x,)), np.float32([1, 3, 2]))  # fmt: skip
_KEEP = pb.make_jaxpr(lambda a, b: a >= b)(1.0, 1.0).jaxpr
_ADD = pb.make_jaxpr(lambda a, b: a + b)(1.0, 1.0).jaxpr
more("select_and_scatter", lambda x: primitives.select_and_scatter_p.bind(
    x, x[:2], np.float32(0), select_jaxpr=_KEEP, select_consts=(), scatter_jaxpr=_ADD,
    scatter_consts=(), window_dimensions=(2,), window_strides=(1,), padding=((0, 0),)),
    F)  # fmt: skip
_WINDOW = {"window_dimensions": (2,), "window_strides": (1,), "padding": ((0, 0),)}
_ONES = {"base_dilation": (1,), "window_dilation": (1,)}
more("select_and_gather_add", lambda t, x: primitives.select_and_gather_add_p.bind(
    t, x, select_prim=lax.ge_p, **_WINDOW, **_ONES), F, G)  # fmt: skip
more("select_and_scatter_add", lambda s, x: primitives.select_and_scatter_add_p.bind(
    s, x, select_prim=lax.ge_p, **_WINDOW), F[:2], G)  # fmt: skip


def _with_reference(x: Any) -> Any:
    ref = pb.new_ref(x)
    ref[...] = ref[...] * 2
    ref[...] += x
    return ref[...]


more("references", _with_reference, F)


class Recorder:
    """Wraps the rules of all primitives while a sample runs, and hears which are called."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def listen(self, monkeypatch: pytest.MonkeyPatch, names: dict[Primitive, str]) -> None:
        groups = {"jvp": "jvp", "transpose": "transpose", "fancy_transpose": "transpose"}
        groups |= {"batch": "batch", "axis_batch": "batch"}
        groups["inline"] = "lowering"  # what is lowered in its place
        for p, name in names.items():
            for kind, group in groups.items():
                rule = p.rules.get(kind)
                if callable(rule):
                    monkeypatch.setitem(p.rules, kind, self._heard(rule, name, group))
        by_name = {p.name: name for p, name in names.items()}
        add_eqn, host_node = program.add_eqn, program.host_node

        def heard_eqn(g: Any, eqn: Any, ins: Any) -> Any:
            self.host = False
            out = add_eqn(g, eqn, ins)
            if not self.host:
                self.seen.add((by_name.get(eqn.primitive.name, ""), "lowering"))
            self.host = False
            return out

        def heard_host(*args: Any) -> Any:
            self.host = True
            return host_node(*args)

        monkeypatch.setattr(program, "add_eqn", heard_eqn)
        monkeypatch.setattr(program, "host_node", heard_host)

    def _heard(self, rule: Any, name: str, kind: str) -> Any:
        def heard(*args: Any, **params: Any) -> Any:
            self.seen.add((name, kind))
            return rule(*args, **params)

        return heard


def _inexact(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc" or np.asarray(x).dtype.name == "bfloat16"


def run(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Traces a function under jvp, vjp and vmap of inexact and of all arguments, and lowers it."""

    def lowered(g: Callable[..., Any], *xs: Any) -> None:
        closed = lower_keys(expand(pb.make_jaxpr(g)(*xs)))
        pipeline.compile_jaxpr(closed, reference_rule)

    def quietly(g: Callable[[], Any]) -> None:
        """What a sample cannot do is another test's matter: here counts what was called."""
        try:
            g()
        except (TypeError, ValueError, NotImplementedError):
            pass

    quietly(lambda: lowered(f, *args))
    where = [k for k, x in enumerate(args) if _inexact(x)]

    def of_inexact(*some: Any) -> Any:
        given = dict(zip(where, some, strict=True))
        outs = pb.tree.leaves(f(*[given.get(k, x) for k, x in enumerate(args)]))
        return [x for x in outs if jnp.issubdtype(getattr(x, "dtype", bool), jnp.inexact)]

    def batched(xs: Any) -> Any:
        return pb.vmap(f)(*xs)

    some = tuple(args[k] for k in where)
    if some:
        quietly(lambda: pb.make_jaxpr(lambda xs: pb.jvp(of_inexact, xs, xs))(some))

        def back(xs: Any) -> Any:
            outs, f_vjp = pb.vjp(of_inexact, *xs)
            return f_vjp(outs)

        quietly(lambda: pb.make_jaxpr(back)(some))
        quietly(lambda: lowered(back, some))
        # Where a function is linear only together with others, its transpose alone is asked for.
        quietly(lambda: pb.make_jaxpr(lambda xs: pb.linear_transpose(of_inexact, *xs)(
            of_inexact(*xs)))(some))  # fmt: skip
    if args:
        quietly(lambda: pb.make_jaxpr(batched)([np.stack([x, x]) for x in args]))
        one = [np.stack([args[0]] * 2), *args[1:]]
        axes = (0, *([None] * (len(args) - 1)))
        quietly(lambda: pb.make_jaxpr(lambda xs: pb.vmap(f, in_axes=axes)(*xs))(one))


def calls() -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    for s in SAMPLES.values():
        for dtype in ("float32", "int32", "complex64", "bool"):
            args = tuple(s.operands(0, dtype))
            f = lambda *xs, s=s: s.call(lax, *xs)
            try:
                pb.eval_shape(f, *args)
            except Exception:
                continue  # the dtype is refused
            yield f, args
            break
    yield from MORE.values()


def test_every_rule_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    want = wanted()
    names = {getattr(primitives, name): name for name in want}
    recorder = Recorder()
    recorder.listen(monkeypatch, names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for f, args in calls():
            run(f, args)
    every = {(name, kind) for name, kinds in want.items() for kind in kinds}
    missing = every - recorder.seen - set(REASONS)
    assert not missing, "\n".join(f"{n} {k}" for n, k in sorted(missing))
    needless = set(REASONS) & recorder.seen
    assert not needless, f"these are executed, and need no reason: {sorted(needless)}"
    assert set(REASONS) <= every


def test_every_rule_is_there() -> None:
    kinds = {"jvp": ("jvp",), "transpose": ("transpose", "fancy_transpose")}
    kinds["batch"] = ("batch", "axis_batch")
    missing = [
        (name, kind)
        for name, rules in wanted().items()
        for kind in rules & set(kinds)
        if not any(getattr(primitives, name).has_rule(k) for k in kinds[kind])
    ]
    assert not missing


def test_samples_cover_lax() -> None:
    """Every function of lax and lax.linalg that computes has a sample, or stands above."""
    sampled = {name.split()[0] for name in SAMPLES} | {name.split()[0] for name in MORE}
    assert set(DTYPES) >= {"bool", "bfloat16", "complex128", "uint64", "float8_e4m3fn", "int4"}
    elsewhere = set(
        "after_all create_token axis_size pbroadcast pcast pshuffle psum_scatter pswapaxes psend "
        "precv composite custom_gradient custom_root dce_sink dtype empty stage scaled_dot "
        "ragged_dot_general broadcast_shapes conv_dimension_numbers conv_general_permutations "
        "conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple padtype_to_pads "
        "reduce_window_shape_tuple shape_as_value with_sharding_constraint".split()
    )
    names = {
        n
        for m in (lax, lax.linalg)
        for n in dir(m)
        if not n.startswith("_") and not n.endswith("_p") and n[0].islower()
        and callable(getattr(m, n)) and n != "linalg"
    }  # fmt: skip
    assert not names - sampled - elsewhere, sorted(names - sampled - elsewhere)
