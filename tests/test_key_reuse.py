"""Keys that are used twice, and keys that are not: eagerly, in programs, loops and branches. What
JAX 0.10.2 reports is reported, except where a comment says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pullback
import pullback.numpy as jnp
from pullback import lax, random

n = random.normal
bits = random.bits


def keys(shape: Any = 4) -> Any:
    return random.split(random.key(0), shape)


def key() -> Any:
    return random.key(0)


def both(*uses: Callable[[Any], Any]) -> Callable[[], None]:
    """Each of these uses of one array of keys, in turn."""

    def run() -> None:
        ks = keys()
        for use in uses:
            use(ks)

    return run


def steps(*uses: Callable[[Any], Any]) -> Callable[[], None]:
    """Each of these uses of one key, in turn."""

    def run() -> None:
        k = key()
        for use in uses:
            use(k)

    return run


def carried(k: Any, _: Any) -> tuple[Any, Any]:
    k, now = random.split(k)
    return k, n(now)


def closed_over() -> None:
    k = key()
    f = pullback.jit(lambda: n(k))
    f()
    f()


mapped = pullback.vmap(n)
split = random.split
three = jnp.arange(3)

REUSED = {
    "twice": steps(n, random.uniform),
    "split and use": steps(split, n),
    "use and split": steps(n, split),
    "in one program": steps(pullback.jit(lambda k: n(k) + n(k))),
    "in an inner program": steps(pullback.jit(lambda k: pullback.jit(n)(k) + pullback.jit(n)(k))),
    "split twice in a program": steps(pullback.jit(lambda k: (split(k), split(k)))),
    "before a program": steps(n, pullback.jit(n)),
    "after a program": steps(pullback.jit(n), n),
    "what a program hands on": steps(lambda k: n(pullback.jit(lambda k: (n(k), k))(k)[1])),
    "closed over by a program": closed_over,
    "a program that is only looked at": lambda: pullback.make_jaxpr(lambda k: n(k) + n(k))(key()),
    "a program that is only lowered": lambda: pullback.jit(lambda k: n(k) + n(k)).lower(key()),
    "a slice": both(lambda ks: n(ks[0]), lambda ks: n(ks[0])),
    "a slice and the whole": both(lambda ks: n(ks[0]), mapped),
    "the whole and a slice": both(mapped, lambda ks: ks[0]),
    "slices that overlap": both(lambda ks: mapped(ks[:2]), lambda ks: mapped(ks[1:])),
    "a slice, twice": both(lambda ks: ks[0], lambda ks: ks[0]),
    "a slice, then the whole": both(lambda ks: ks[0], mapped),
    "a slice that nobody uses, in a program": both(pullback.jit(lambda ks: (ks[0], mapped(ks)))),
    "written among others": steps(lambda k: keys().at[0].set(k), n),
    "used, then written": steps(n, lambda k: keys().at[0].set(k)),
    "written by dynamic_update_slice": steps(
        pullback.jit(lambda k: lax.dynamic_update_slice(keys(), k[None], (0,))), n
    ),
    "an element from the end": both(lambda ks: n(ks[-1]), lambda ks: n(ks[3])),
    "slices in a program": both(pullback.jit(lambda ks: n(ks[0]) + n(ks[0]))),
    "a slice that a program used": both(pullback.jit(lambda ks: n(ks[0])), lambda ks: n(ks[0])),
    "a matrix of keys": both(lambda ks: mapped(ks.reshape(2, 2)[0]), lambda ks: n(ks[1])),
    "transposed keys": both(lambda ks: mapped(ks.reshape(2, 2).T[0]), lambda ks: n(ks[2])),
    "joined keys": both(lambda ks: mapped(jnp.concatenate([ks, ks])), mapped),
    "used, then stacked": steps(n, lambda k: jnp.stack([k, random.key(1)])),
    "stacked, then used": steps(lambda k: jnp.stack([k, random.key(1)]), n),
    "stacked with itself": steps(lambda k: mapped(jnp.stack([k, k]))),
    "stacked with itself in a program": steps(pullback.jit(lambda k: jnp.stack([k, k]))),
    "tiled, and used": steps(lambda k: jnp.tile(k, 3), n, lambda k: mapped(jnp.tile(k, 3))),
    "split into parts, then used": both(lambda ks: jnp.split(ks, 2), mapped),
    "taken apart, then used": both(pullback.jit(lambda ks: (jnp.unstack(ks), mapped(ks)))),
    "one of several that were moved": steps(
        pullback.jit(lambda k: n(pullback.device_put((k, random.key(1)))[0]) + n(k))
    ),
    "behind a barrier": steps(lambda k: n(lax.optimization_barrier(k)), n),
    "selected keys": steps(lambda k: n(jnp.where(True, k, random.key(1))), n),
    "a branch": steps(lambda k: lax.cond(True, n, lambda k: 0.0, k), n),
    "any branch": steps(lambda k: lax.switch(1, [n, lambda k: 0.0], k), n),
    "before a branch": steps(n, lambda k: lax.cond(True, n, lambda k: 0.0, k)),
    "in a branch": steps(lambda k: lax.cond(True, lambda k: n(k) + n(k), lambda k: 0.0, k)),
    "what a branch gives": steps(
        lambda k: (lambda new: (n(new), n(new)))(
            lax.cond(True, lambda k: split(k)[0], random.clone, k)
        )
    ),
    "a constant of scan": steps(lambda k: lax.scan(lambda c, x: (c + n(k), None), 0.0, three)),
    "a carried key of scan": steps(lambda k: lax.scan(lambda c, x: (c, n(c)), k, three)),
    "an element of scan": both(lambda ks: lax.scan(lambda c, k: (c + n(k) + n(k), None), 0.0, ks)),
    "elements after scan": both(
        lambda ks: lax.scan(lambda c, k: (c + n(k), None), 0.0, ks), lambda ks: n(ks[2])
    ),
    "what scan began with": steps(lambda k: lax.scan(carried, k, three), n),
    "a constant of fori_loop": steps(lambda k: lax.fori_loop(0, 3, lambda i, c: c + n(k), 0.0)),
    "a constant of while_loop": steps(
        lambda k: lax.while_loop(lambda c: c < 3.0, lambda c: c + 1 + 0 * n(k), 0.0)
    ),
    "a carried key of while_loop": steps(
        lambda k: lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1 + 0 * n(c[1]), c[1]), (0.0, k)
        )
    ),
    "a loop's condition": steps(
        lambda k: lax.while_loop(lambda c: c + n(k) < -100, lambda c: c + 1, 0.0)
    ),
    "mapped": both(mapped, mapped),
    "in a mapped function": both(pullback.vmap(lambda k: n(k) + n(k))),
    "in a gradient": steps(lambda k: pullback.grad(lambda x: x * n(k) + n(k))(1.0)),
    "in a checkpoint": steps(pullback.checkpoint(lambda k: n(k) + n(k))),
    "after a checkpoint's gradient": steps(
        lambda k: pullback.grad(pullback.checkpoint(lambda x: jnp.sin(x) * n(k)))(1.0), n
    ),
    # JAX follows neither of these.
    "one key as two arguments": steps(lambda k: pullback.jit(lambda a, b: n(a) + n(b))(k, k)),
    "keys of axes of size 1": lambda: (lambda ks: (n(ks.squeeze()), n(ks[0])))(keys(1)),
}

FINE = {
    "fold_in": steps(lambda k: random.fold_in(k, 1), lambda k: random.fold_in(k, 1), n),
    "fold_in of a used key": steps(n, lambda k: random.fold_in(k, 1)),
    "a clone": steps(n, lambda k: n(random.clone(k))),
    "words": steps(random.key_data, n, random.key_data),
    "comparisons and texts": steps(n, lambda k: k == k, repr),
    "a copy": steps(lambda k: n(k.copy()), n),
    "a result": steps(lambda k: n(pullback.jit(lambda k: k)(k)), n),
    "parts": lambda: (lambda a, b: (n(a), n(b)))(*split(key())),
    "iteration": lambda: [n(k) for k in keys()],
    "elements": both(*[lambda ks, i=i: n(ks[i]) for i in range(4)]),
    "stacked keys": steps(
        lambda k: (lambda ks: (n(ks[0]), n(ks[1])))(jnp.stack([k, random.key(1)]))
    ),
    "stacked with itself, not used": steps(lambda k: jnp.stack([k, k])),
    "slices": both(lambda ks: mapped(ks[:2]), lambda ks: mapped(ks[2:])),
    "keys written among others": steps(lambda k: mapped(keys().at[0].set(k))),
    "elements of a matrix": lambda: (lambda ks: (n(ks[0, 0]), mapped(ks[1]), mapped(ks[0, 1:])))(
        keys((2, 3))
    ),
    "elements in a program": both(
        pullback.jit(lambda ks: n(ks[0]) + n(ks[1])), lambda ks: n(ks[2])
    ),
    # JAX takes these for the same.
    "elements at places that are values": both(
        pullback.jit(lambda ks: n(ks[three[1]]) + n(ks[three[2]]))
    ),
    "both branches": steps(lambda k: lax.cond(True, n, n, k)),
    "no branch": steps(lambda k: lax.cond(True, lambda k: 0.0, lambda k: 1.0, k), n),
    "folded in a loop": steps(
        lambda k: lax.fori_loop(0, 3, lambda i, c: c + n(random.fold_in(k, i)), 0.0)
    ),
    "split in a loop": steps(lambda k: n(lax.scan(carried, k, three)[0])),
    "what a loop hands through": steps(lambda k: lax.scan(lambda c, x: (c, x), k, three), n),
    "what a loop gives": steps(
        lambda k: mapped(lax.scan(lambda k, _: tuple(split(k)), k, three)[1])
    ),
    "split in while_loop": steps(
        lambda k: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, split(c[1])[0]), (0, k))
    ),
    "lax.map": both(lambda ks: lax.map(n, ks)),
    "closed over by vmap": steps(lambda k: pullback.vmap(lambda x: x + n(k))(three)),
    "gradients": steps(lambda k: pullback.grad(lambda x: x * n(k))(1.0)),
    "a checkpoint's gradient": steps(
        lambda k: pullback.grad(pullback.checkpoint(lambda x: jnp.sin(x) * n(k)))(1.0)
    ),
    "a program that is looked at": steps(pullback.make_jaxpr(n), n),
    "raw keys": lambda: (lambda k: (n(k), n(k)))(random.PRNGKey(0)),
}


@pytest.mark.parametrize("name", REUSED)
def test_reuse_is_reported(name: str) -> None:
    with pullback.debug_key_reuse(True):
        with pytest.raises(pullback.errors.KeyReuseError, match="Fix"):
            REUSED[name]()
    if "looked at" not in name and "lowered" not in name:
        REUSED[name]()  # nobody asked


@pytest.mark.parametrize("name", FINE)
def test_other_uses_are_not(name: str) -> None:
    with pullback.debug_key_reuse(True):
        FINE[name]()


def test_what_failed_consumes_nothing() -> None:
    with pullback.debug_key_reuse(True):
        a, b = split(random.key(0))
        n(b)
        with pytest.raises(pullback.errors.KeyReuseError, match="jit-compiled function at index 1"):
            pullback.jit(lambda a, b: n(a) + n(b))(a, b)
        n(a)


SAMPLERS: dict[str, tuple[Any, ...]] = {
    "ball": (3,), "beta": (1.0, 2.0), "binomial": (10, 0.3), "categorical": (jnp.zeros(4),),
    "choice": (5,), "dirichlet": (jnp.ones(3),), "double_sided_maxwell": (0.0, 1.0),
    "f": (2.0, 3.0), "gamma": (2.0,), "geometric": (0.3,), "multinomial": (10, jnp.ones(3) / 3),
    "multivariate_normal": (jnp.zeros(2), jnp.eye(2)), "orthogonal": (3,), "permutation": (5,),
    "poisson": (3.0,), "randint": ((3,), 0, 5), "t": (3.0,), "truncated_normal": (-1.0, 1.0),
    "wald": (1.0,),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_consume_their_key_once(name: str) -> None:
    def draw(k: Any) -> Any:
        return getattr(random, name)(k, *SAMPLERS[name])

    with pullback.debug_key_reuse(True):
        for how in (draw, pullback.jit(draw)):
            k = random.key(1)
            how(k)
            with pytest.raises(pullback.errors.KeyReuseError):
                bits(k)


def test_a_generator_with_a_state() -> None:
    """The draws are those of keys that the counter is folded into; values of JAX 0.10.2."""
    from pullback.experimental.random import StatefulPRNG, stateful_rng

    rng = stateful_rng(42)
    assert float(rng.uniform()) == pytest.approx(0.5302608)
    assert float(rng.uniform()) == pytest.approx(0.72766423)
    draw = pullback.jit(rng.uniform)
    assert float(draw()) == pytest.approx(0.6672406)
    assert float(draw()) == pytest.approx(0.3890121)
    assert random.key_data(rng.key()).tolist() == [2954079971, 3276725750]
    assert random.key_data(rng.key()).tolist() == [2765691542, 824333390]

    def folded(i: int) -> Any:
        return random.fold_in(random.key(42), i)

    assert (rng.key((2, 3)) == split(folded(6), (2, 3))).all()
    want = 1 + 3 * n(folded(7), (4,))
    assert (rng.normal(1, 3, 4) == want).all()
    assert (rng.integers(5, size=3) == random.randint(folded(8), (3,), 0, 5)).all()
    assert (rng.integers(2, 5, (3,)) == random.randint(folded(9), (3,), 2, 5)).all()
    assert rng.random((2, 2), "float16").dtype == jnp.float16
    assert rng.uniform(jnp.zeros(2), 5).shape == (2,)
    children = rng.split(3)
    assert pullback.vmap(lambda g: g.uniform())(children).shape == (3,)
    with pytest.raises(ValueError, match="split"):
        children.uniform()
    assert [float(g.uniform()) for g in rng.spawn(2)]
    assert pullback.jit(lambda g: g.uniform())(rng) != pullback.jit(lambda g: g.uniform())(rng)
    with pytest.raises(ValueError, match="typed"):
        StatefulPRNG(0, pullback.new_ref(0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="seed"):
        pullback.jit(lambda: stateful_rng().uniform())()


def test_the_error_is_a_type_error() -> None:
    assert [c.__name__ for c in pullback.errors.KeyReuseError.__mro__[:3]] == [
        "KeyReuseError",
        "JAXTypeError",
        "TypeError",
    ]
