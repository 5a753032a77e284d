"""Values of a library's own types in programs (`experimental.hijax`), beside real JAX: a box whose
content changes, also in its structure, and a quantised array that never changes.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import jax.experimental.hijax
import numpy as np
import pytest

import pullback
import pullback.experimental.hijax

LIBRARIES = {"jax": jax, "pullback": pullback}


def box_library(jx: Any) -> Any:
    """A box: a reference to a tree of arrays, made, read and set by primitives."""
    hj = jx.experimental.hijax

    @dataclasses.dataclass(frozen=True)
    class State:
        avals: tuple[Any, ...]
        treedef: Any

        def to_tangent_qdd(self) -> Any:
            return State(tuple(a.to_tangent_aval() for a in self.avals), self.treedef)

        def normalize(self) -> Any:
            return self

    class Box:
        def __init__(self, content: Any) -> None:
            self.leaves, self.treedef = jx.tree.flatten(content)

        def cur_qdd(self) -> Any:
            return State(tuple(map(jx.typeof, self.leaves)), self.treedef)

        def get(self) -> Any:
            return get(self)

        def set(self, content: Any) -> None:
            put(self, content)

    class BoxType(hj.MutableHiType):
        has_qdd = True

        def __eq__(self, other: object) -> bool:
            return isinstance(other, BoxType)

        def __hash__(self) -> int:
            return hash(BoxType)

        def str_short(self, short_dtypes: bool = False, **_: Any) -> str:
            return "Box"

        __repr__ = str_short

        def lo_ty_qdd(self, state: Any) -> list[Any]:
            return list(state.avals)

        def new_from_loval(self, state: Any, *arrays: Any) -> Any:
            return Box(jx.tree.unflatten(state.treedef, arrays))

        def read_loval(self, state: Any, box: Any) -> list[Any]:
            return list(jx.tree.leaves(get(box)))

        def update_from_loval(self, state: Any, box: Any, *arrays: Any) -> None:
            put(box, jx.tree.unflatten(state.treedef, arrays))

        def to_tangent_aval(self) -> Any:
            return BoxType()

        get = hj.aval_method(lambda box: get(box))
        set = hj.aval_method(lambda box, content: put(box, content))
        copy = hj.aval_method(lambda box, **how: ("a copy", how))
        label = "of the type"

    hj.register_hitype(Box, lambda box: BoxType())

    class Put(hj.HiPrimitive):
        multiple_results = True

        def is_high(self, *avals: Any, treedef: Any) -> bool:
            return True

        def abstract_eval(self, box: Any, *avals: Any, treedef: Any) -> Any:
            box.mutable_qdd.update(State(avals, treedef))
            return [], set()

        def to_lojax(self, box: Any, *leaves: Any, treedef: Any) -> Any:
            box.leaves, box.treedef = list(leaves), treedef
            return []

        impl = to_lojax

        def jvp(self, primals: Any, tangents: Any, *, treedef: Any) -> Any:
            raise AssertionError("only what has no tangent is put into boxes here")

    class Get(hj.HiPrimitive):
        multiple_results = True

        def is_high(self, *avals: Any, avals_out: Any) -> bool:
            return True

        def abstract_eval(self, box: Any, *, avals_out: Any) -> Any:
            return list(avals_out), set()

        def to_lojax(self, box: Any, *, avals_out: Any) -> Any:
            return list(box.leaves)

        impl = to_lojax

    put_p, get_p = Put("box_put"), Get("box_get")

    def put(box: Any, content: Any) -> None:
        leaves, treedef = jx.tree.flatten(content)
        put_p.bind(box, *leaves, treedef=treedef)

    def get(box: Any) -> Any:
        state = jx.experimental.cur_qdd(box)
        return jx.tree.unflatten(state.treedef, get_p.bind(box, avals_out=state.avals))

    return Box


@pytest.fixture(scope="module", params=list(LIBRARIES))
def lib(request: Any) -> Any:
    jx = LIBRARIES[request.param]
    return SimpleNamespace(jx=jx, Box=box_library(jx), np=jx.numpy, lax=jx.lax)


def test_box_is_set_in_jit(lib: Any) -> None:
    box = lib.Box(lib.np.float32(1))

    @lib.jx.jit
    def f(box: Any, x: Any) -> Any:
        box.set(box.get() + x)
        return box.get() * 2

    assert f(box, lib.np.float32(4)) == 10
    assert f(box, lib.np.float32(4)) == 18
    assert box.get() == 9


def test_box_takes_another_structure(lib: Any) -> None:
    box = lib.Box({})
    f = lib.jx.jit(lambda box, x: box.set({**box.get(), f"n{len(box.get())}": x}))
    f(box, lib.np.float32(4))
    f(box, lib.np.arange(3))
    assert sorted(box.get()) == ["n0", "n1"]
    np.testing.assert_array_equal(box.get()["n1"], [0, 1, 2])


def test_box_of_a_jit_in_a_jit(lib: Any) -> None:
    box = lib.Box(lib.np.float32(1))
    inner = lib.jx.jit(lambda box, x: box.set((box.get(), x)))

    @lib.jx.jit
    def outer(x: Any) -> Any:
        inner(box, x)
        return box.get()[0] + box.get()[1]

    assert outer(lib.np.float32(2)) == 3
    assert [float(x) for x in box.get()] == [1, 2]


def test_box_in_a_scan(lib: Any) -> None:
    box = lib.Box(lib.np.float32(3))

    def body(c: Any, x: Any) -> Any:
        box.set(box.get() + x)
        return c * 2, box.get()

    for run in (lib.lax.scan, lib.jx.jit(lib.lax.scan, static_argnums=0)):
        box.set(lib.np.float32(3))
        c, ys = run(body, lib.np.float32(1), lib.np.arange(4, dtype="float32"))
        assert c == 16
        np.testing.assert_array_equal(ys, [3, 4, 6, 9])
        assert box.get() == 9


def test_box_beside_a_gradient(lib: Any) -> None:
    box = lib.Box(lib.np.float32(3))

    def f(x: Any) -> Any:
        box.set(lib.lax.stop_gradient(x * 3))
        return x**2 + box.get()

    assert lib.jx.grad(f)(lib.np.float32(4)) == 8
    assert box.get() == 12
    assert lib.jx.jit(lib.jx.grad(f))(lib.np.float32(5)) == 10
    assert box.get() == 15


def test_box_in_loops_and_branches() -> None:
    """JAX 0.10.2 has no such loops."""
    jnp, lax = pullback.numpy, pullback.lax
    box = box_library(pullback)(jnp.float32(0))

    @pullback.jit
    def f(n: Any) -> Any:
        def body(k: Any) -> Any:
            box.set(lax.cond(k % 2 == 0, lambda: box.get() + 1, lambda: box.get() + 10))
            return k + 1

        return lax.while_loop(lambda k: (k < n) & (box.get() < 30), body, 0)

    assert f(3) == 3
    assert box.get() == 12
    assert f(100) == 4  # 12 -> 13 -> 23 -> 24 -> 34
    assert box.get() == 34
    lax.cond(True, lambda: box.set(jnp.float32(5)), lambda: box.set(jnp.float32(6)))
    assert box.get() == 5


def test_state_of_a_loop_keeps_its_type() -> None:
    jnp, lax = pullback.numpy, pullback.lax
    box = box_library(pullback)(jnp.float32(0))
    with pytest.raises(TypeError, match="changes the type of the state"):
        lax.scan(lambda c, _: (c, box.set((box.get(), c))), 0.0, length=2)
    with pytest.raises(TypeError, match="close over it in the body"):
        lax.scan(lambda c, _: (c, None), box, length=2)


def test_methods_of_the_type(lib: Any) -> None:
    """A traced value of a library's type has its type's methods, not arrays'."""
    seen = []

    @lib.jx.jit
    def f(box: Any) -> Any:
        seen.append((box.copy(deep=True), box.label, isinstance(box, lib.jx.core.Tracer)))
        return box.get()

    assert f(lib.Box(lib.np.float32(3))) == 3
    assert seen == [(("a copy", {"deep": True}), "of the type", True)]


def pair_library(jx: Any) -> Any:
    """Pairs of arrays, which never change, and operations on them."""
    hj, jnp = jx.experimental.hijax, jx.numpy

    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    @dataclasses.dataclass(frozen=True)
    class PairType(hj.HiType):  # type: ignore[misc]
        aval: Any

        def lo_ty(self) -> list[Any]:
            return [self.aval, self.aval]

        def lower_val(self, pair: Any) -> list[Any]:
            return [pair.a, pair.b]

        def raise_val(self, a: Any, b: Any) -> Any:
            return Pair(a, b)

        def to_tangent_aval(self) -> Any:
            return PairType(self.aval.to_tangent_aval())

        to_ct_aval = to_tangent_aval

        def vspace_zero(self) -> Any:
            return Pair(*[jnp.zeros(self.aval.shape, self.aval.dtype)] * 2)

        def vspace_add(self, p: Any, q: Any) -> Any:
            return add(p, q)

        def str_short(self, short_dtypes: bool = False, **_: Any) -> str:
            return f"Pair({self.aval.str_short()})"

        def dec_rank(self, size: Any, spec: Any) -> Any:
            return PairType(self.aval.update(shape=self.aval.shape[1:]))

        def inc_rank(self, size: Any, spec: Any) -> Any:
            return PairType(self.aval.update(shape=(size, *self.aval.shape)))

        def leading_axis_spec(self) -> Any:
            return 0

    hj.register_hitype(Pair, lambda pair: PairType(jx.typeof(pair.a)))

    class Linear(hj.VJPHiPrimitive):  # type: ignore[misc]
        def __init__(self, ins: Any, out: Any) -> None:
            self.in_avals, self.out_aval, self.params = ins, out, {}
            super().__init__()

        def vjp_fwd(self, nzs_in: Any, *args: Any) -> Any:
            return self(*args), None

        def jvp(self, primals: Any, tangents: Any) -> Any:
            return self(*primals), self(*map(hj.instantiate_zeros, tangents))

    class Make(Linear):
        def expand(self, a: Any, b: Any) -> Any:
            return Pair(a, b)

        def vjp_bwd_retval(self, res: Any, ct: Any) -> Any:
            return first(ct), second(ct)

    class First(Linear):
        def expand(self, pair: Any) -> Any:
            return pair.a

        def vjp_bwd_retval(self, res: Any, ct: Any) -> Any:
            return (make(ct, jnp.zeros_like(ct)),)

    class Second(Linear):
        def expand(self, pair: Any) -> Any:
            return pair.b

        def vjp_bwd_retval(self, res: Any, ct: Any) -> Any:
            return (make(jnp.zeros_like(ct), ct),)

    class Add(Linear):
        def expand(self, p: Any, q: Any) -> Any:
            return Pair(p.a + q.a, p.b + q.b)

        def vjp_bwd_retval(self, res: Any, ct: Any) -> Any:
            return ct, ct

    def make(a: Any, b: Any) -> Any:
        aval = jx.typeof(a)
        return Make((aval, aval), PairType(aval))(a, b)

    def first(pair: Any) -> Any:
        return First((jx.typeof(pair),), jx.typeof(pair).aval)(pair)

    def second(pair: Any) -> Any:
        return Second((jx.typeof(pair),), jx.typeof(pair).aval)(pair)

    def add(p: Any, q: Any) -> Any:
        return Add((jx.typeof(p),) * 2, jx.typeof(p))(p, q)

    def value(x: Any) -> Any:
        return [np.asarray(x.a), np.asarray(x.b)] if isinstance(x, Pair) else [np.asarray(x)]

    return SimpleNamespace(
        jx=jx, lax=jx.lax, make=make, first=first, second=second, add=add, Pair=Pair, value=value
    )


PAIRS: dict[str, Any] = {
    "eager": lambda o, p, x: o.add(p, o.make(x, x)),
    "jit": lambda o, p, x: o.jx.jit(lambda q: o.jx.jit(lambda r: o.add(r, q))(q))(p),
    "jit gives an array": lambda o, p, x: o.jx.jit(lambda q: o.first(q) * o.second(q))(p),
    "jit takes an array": lambda o, p, x: o.jx.jit(lambda a: o.make(a, a * 2))(x),
    "grad inside": lambda o, p, x: o.jx.grad(
        lambda a: o.first(o.add(o.make(a, a * a), o.make(a, a))) * a
    )(x),
    "grad": lambda o, p, x: o.jx.grad(lambda q: o.first(q) * o.second(q) ** 2)(p),
    "grad of jit": lambda o, p, x: o.jx.grad(o.jx.jit(lambda q: o.first(q) * o.second(q)))(p),
    "grad of a sum": lambda o, p, x: o.jx.grad(lambda q: o.first(q) ** 2 + o.second(q))(p),
    "grad of nothing": lambda o, p, x: o.jx.grad(lambda q, a: a * 1.0)(p, x),
    "vjp": lambda o, p, x: o.jx.vjp(lambda q: o.first(q) * o.second(q), p)[1](x)[0],
    "jvp": lambda o, p, x: o.jx.jvp(lambda q: o.first(q) * o.second(q), (p,), (p,))[1],
    "scan": lambda o, p, x: o.lax.scan(lambda q, _: (o.add(q, p), None), p, None, length=3)[0],
    "scan stacks": lambda o, p, x: o.lax.scan(
        lambda c, a: (c, o.make(a, c)), x, o.jx.numpy.arange(3.0)
    )[1],
    "cond": lambda o, p, x: o.lax.cond(x > 1, lambda q: o.add(q, q), lambda q: q, p),
    "while": lambda o, p, x: o.lax.while_loop(lambda q: o.first(q) < 9, lambda q: o.add(q, q), p),
}


@pytest.mark.parametrize("name", list(PAIRS))
def test_pairs(name: str) -> None:
    found = []
    for jx in LIBRARIES.values():
        o = pair_library(jx)
        x = jx.numpy.float32(2)
        found.append(o.value(PAIRS[name](o, o.Pair(x, jx.numpy.float32(5)), x)))
    want, got = found
    assert len(want) == len(got)
    for a, b in zip(want, got, strict=True):
        np.testing.assert_array_equal(a, b)


def test_pairs_beyond_jax() -> None:
    """What JAX 0.10.2 refuses: programs that it lowers before it differentiates them."""
    o = pair_library(pullback)
    x = pullback.numpy.float32(2)
    p = o.Pair(x, pullback.numpy.float32(5))
    f = lambda a: o.first(o.add(o.make(a, a * a), o.make(a, a))) * o.second(o.make(a, a * a))
    assert pullback.jit(pullback.grad(f))(x) == 24
    assert pullback.jit(lambda a: o.first(p) * a)(x) == 4
    looped = lambda q: o.first(o.lax.scan(lambda r, _: (o.add(r, q), None), q, None, length=3)[0])
    assert [float(v) for v in o.value(pullback.grad(looped)(p))] == [4, 0]
    ys = pullback.numpy.arange(3.0)
    total = o.lax.scan(lambda c, q: (c + o.first(q), None), x, o.Pair(ys, ys), length=3)[0]
    assert total == 5
    with pytest.raises(TypeError, match="has tangents of type"):
        pullback.jvp(o.first, (p,), (x,))


def operations(jx: Any) -> Any:
    """Operations as classes: (x, y) -> {"product": x * y, "scaled": (k * x,)}."""
    hj = jx.experimental.hijax
    calls: list[str] = []

    def plain(ct: Any, of: Any) -> Any:
        return 0 * of if type(ct) is hj.Zero else ct

    class Forward(hj.VJPHiPrimitive):
        def __init__(self, aval: Any, k: float) -> None:
            self.in_avals = (aval, aval)
            self.out_aval = {"product": aval, "scaled": (aval,)}
            self.params = {"k": k}
            super().__init__()

        def expand(self, x: Any, y: Any) -> Any:
            return {"product": x * y, "scaled": (x * self.k,)}

        def jvp(self, primals: Any, tangents: Any) -> Any:
            calls.append("jvp")
            (x, y), (dx, dy) = primals, map(plain, tangents, primals)
            return self(x, y), {"product": x * dy + y * dx, "scaled": (self.k * dx,)}

    class Reverse(Forward):
        def vjp_fwd(self, nzs_in: Any, x: Any, y: Any) -> Any:
            calls.append(f"vjp_fwd {nzs_in}")
            return self(x, y), (x, y)

        def vjp_bwd_retval(self, res: Any, ct: Any) -> Any:
            calls.append("vjp_bwd")
            x, y = res
            product, scaled = plain(ct["product"], x), plain(ct["scaled"][0], x)
            return product * y + scaled * self.k, product * x

    class Mapped(Reverse):
        def batch_dim_rule(self, axis_data: Any, dims: Any) -> Any:
            calls.append(f"batch_dim_rule {axis_data.size} {dims}")
            return {"product": 0, "scaled": (0,)}

    class Linear(Forward):
        def lin(self, nzs_in: Any, x: Any, y: Any) -> Any:
            calls.append(f"lin {nzs_in}")
            return self(x, y), (x, y)

        def linearized(self, res: Any, dx: Any, dy: Any) -> Any:
            x, y = res
            dx, dy = plain(dx, x), plain(dy, y)
            return {"product": x * dy + y * dx, "scaled": (self.k * dx,)}

    aval = jx.typeof(jx.numpy.float32(1))
    return SimpleNamespace(
        calls=calls, **{c.__name__: c(aval, 3.0) for c in (Forward, Reverse, Mapped, Linear)}
    )


def total(out: Any) -> Any:
    return out["product"] * 2 + out["scaled"][0]


PROGRAMS: dict[str, Any] = {
    "eager": lambda jx, o, x, y: o.Forward(x, y),
    "jit": lambda jx, o, x, y: jx.jit(o.Forward)(x, y),
    "jvp": lambda jx, o, x, y: jx.jvp(o.Forward, (x, y), (y, x)),
    "jvp of one": lambda jx, o, x, y: jx.jvp(lambda x: o.Forward(x, y), (x,), (y,)),
    "jvp of jit": lambda jx, o, x, y: jx.jvp(jx.jit(o.Forward), (x, y), (y, x)),
    "grad": lambda jx, o, x, y: jx.grad(lambda *a: total(o.Reverse(*a)), (0, 1))(x, y),
    "grad of one": lambda jx, o, x, y: jx.grad(lambda y: o.Reverse(x, y)["product"])(y),
    "grad of jit": lambda jx, o, x, y: jx.grad(jx.jit(lambda *a: total(o.Reverse(*a))), (0, 1))(
        x, y
    ),
    "grad in scan": lambda jx, o, x, y: jx.grad(
        lambda x, y: jx.lax.scan(lambda c, _: (total(o.Reverse(c, y)), c), x, None, length=3)[0],
        (0, 1),
    )(x, y),
    "linearize": lambda jx, o, x, y: jx.linearize(o.Linear, x, y)[1](y, x),
    "vmap": lambda jx, o, x, y: jx.vmap(o.Mapped, (0, None))(jx.numpy.arange(3.0), y),
    "vmap of grad": lambda jx, o, x, y: jx.vmap(
        jx.grad(lambda *a: total(o.Mapped(*a)), (0, 1)), (0, None)
    )(jx.numpy.arange(3.0), y),
    "grad of vmap": lambda jx, o, x, y: jx.grad(
        lambda v, y: jx.vmap(lambda x: total(o.Mapped(x, y)))(v).sum(), (0, 1)
    )(jx.numpy.arange(3.0), y),
    "jvp of vmap": lambda jx, o, x, y: jx.jvp(
        lambda v: jx.vmap(lambda x: total(o.Mapped(x, y)))(v),
        (jx.numpy.arange(3.0),),
        (jx.numpy.ones(3),),
    ),
    "vmap of vmap": lambda jx, o, x, y: jx.vmap(jx.vmap(o.Mapped, (0, None)), (None, 0))(
        jx.numpy.arange(3.0), jx.numpy.arange(2.0)
    ),
    "second derivative": lambda jx, o, x, y: jx.grad(
        jx.grad(lambda x: total(o.Reverse(x, y)) ** 2)
    )(x),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_operation_as_a_class(name: str) -> None:
    found = []
    for jx in LIBRARIES.values():
        o = operations(jx)
        out = PROGRAMS[name](jx, o, jx.numpy.float32(2), jx.numpy.float32(5))
        found.append((jx.tree.structure(out), jx.tree.leaves(out), o.calls))
    (want_tree, want, want_calls), (got_tree, got, got_calls) = found
    assert str(got_tree) == str(want_tree)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    if "vmap" not in name and "scan" not in name:
        assert got_calls == want_calls


REFUSED: dict[str, Any] = {
    "expand": lambda jx, p, x: jx.jit(p)(x),
    "vjp_fwd": lambda jx, p, x: jx.grad(p)(x),
    "jvp": lambda jx, p, x: jx.jvp(p, (x,), (x,)),
    "batch": lambda jx, p, x: jx.vmap(p)(jx.numpy.ones(2)),
    "transpose": lambda jx, p, x: jx.linear_transpose(p, x)(x),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_operation_without_a_method(name: str) -> None:
    texts = []
    for jx in LIBRARIES.values():
        base = jx.experimental.hijax.VJPHiPrimitive

        class Bare(base):  # type: ignore[misc]
            def __init__(self, aval: Any) -> None:
                self.in_avals, self.out_aval, self.params = (aval,), aval, {}
                super().__init__()

        x = jx.numpy.float32(2)
        with pytest.raises(NotImplementedError) as e:
            REFUSED[name](jx, Bare(jx.typeof(x)), x)
        texts.append(str(e.value))
    assert f"`{name}`" in texts[1]
    assert name == "transpose" or texts[0] == texts[1]
    for jx in LIBRARIES.values():
        base = jx.experimental.hijax.VJPHiPrimitive
        with pytest.raises(AttributeError, match=r"should set `self\.in_avals`"):
            type("Nothing", (base,), {})()


def test_operation_that_returns_something_else() -> None:
    base, x = pullback.experimental.hijax.VJPHiPrimitive, pullback.numpy.float32(2)

    class Wrong(base):  # type: ignore[misc]
        def __init__(self, aval: Any) -> None:
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x: Any) -> Any:
            return pullback.numpy.ones(3)

        def vjp_fwd(self, nzs_in: Any, x: Any) -> Any:
            return x, None

        def vjp_bwd_retval(self, res: Any, ct: Any) -> Any:
            return ct, ct

        def jvp(self, primals: Any, tangents: Any) -> Any:
            return primals

    wrong = Wrong(pullback.typeof(x))
    with pytest.raises(
        TypeError, match=r"`expand` of Wrong.*float32\[\], but returned float32\[3\]"
    ):
        pullback.jit(wrong)(x)
    with pytest.raises(ValueError, match="tuple of one cotangent for each of the 1 arguments"):
        pullback.grad(wrong)(x)
    with pytest.raises(TypeError, match="must return a pair"):
        pullback.jvp(wrong, (x,), (x,))
    with pytest.raises(TypeError, match="takes arguments of the structure"):
        wrong(x, x)
