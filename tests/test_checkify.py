"""checkify beside real JAX: which error comes first, and its message, under transformations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import eight_devices
import jax
import jax.numpy as jnp
import pytest
from jax.experimental import checkify as jax_checkify

import pullback as pb
import pullback.numpy as pnp
from pullback.experimental import checkify

BOTH = [(jax, jnp, jax_checkify), (pb, pnp, checkify)]


def message(error: Any) -> str:
    """What an error says, without where it was."""
    text = error.get() or "None"
    return text.splitlines()[0].split(" (`check`")[0].split(" By primitive")[0].strip()


def same(program: Callable[[Any, Any, Any], Any]) -> None:
    expected, got = (program(*side) for side in BOTH)
    assert got == expected


def everything(c: Any, n: Any) -> Callable[[Any, Any], Any]:
    def f(x: Any, i: Any) -> Any:
        z = n.sin(x[i]) + x[0] / (x[1] - 1.0)
        c.check(x[0] > 0, "x must be positive, got {v}", v=x[0])
        return n.log(z)

    return f


@pytest.mark.parametrize(
    "errors",
    [f"{kind}_checks" for kind in "user nan index div float automatic all".split()],
)
def test_the_first_error(errors: str) -> None:
    inputs = [
        ([1, 2, 3], 1),
        ([1, 2, 3], 7),
        ([-1, -2, -3], 0),
        ([1, 1, 1], 0),
        ([-1, 5, 3], 1),
    ]

    def program(j: Any, n: Any, c: Any) -> Any:
        found = []
        for run in (c.checkify(everything(c, n), errors=getattr(c, errors)),):
            jitted = j.jit(run)
            for x, i in inputs:
                error, _ = jitted(n.array(x, dtype=n.float32), i)
                # The place of an index error is JAX's; its text there goes on after the shape.
                found.append(message(error).split(" for array of shape")[0])
        return found

    same(program)


def in_loop(j: Any, n: Any, c: Any) -> Any:
    def body(k: Any, v: Any) -> Any:
        c.check(v < 5, "v too large: {}", v)
        return v + 3.0

    def f(steps: Any) -> Any:
        return j.lax.fori_loop(0, steps, body, 0.0)

    run = j.jit(c.checkify(f))
    return message(run(1)[0]), message(run(9)[0]), float(run(9)[1])


def in_while(j: Any, n: Any, c: Any) -> Any:
    def cond(v: Any) -> Any:
        c.check(v < 8, "cond saw {}", v)
        return v < 10

    def f(x: Any) -> Any:
        return j.lax.while_loop(cond, lambda v: v + x, 0.0)

    return [message(j.jit(c.checkify(f))(x)[0]) for x in (1.0, 12.0)]


def in_cond(j: Any, n: Any, c: Any) -> Any:
    def a(v: Any) -> Any:
        c.check(v > 0, "negative {}", v)
        return v

    run = c.checkify(lambda x: j.lax.cond(x < 3, a, lambda v: v * 2, x))
    return [(message(e), float(y)) for e, y in map(run, (4.0, 1.0, -4.0))]


def in_scan(j: Any, n: Any, c: Any) -> Any:
    def body(total: Any, x: Any) -> Any:
        c.check(x != 2, "two {} {n}", x, n=total)
        return total + x, x

    return message(j.jit(c.checkify(lambda xs: j.lax.scan(body, 0.0, xs)))(n.arange(4.0))[0])


def of_vmap(j: Any, n: Any, c: Any) -> Any:
    def f(x: Any) -> Any:
        c.check(x > 0, "bad {}", x)
        return x

    return message(j.vmap(c.checkify(f))(n.array([1.0, -1.0, 2.0]))[0])


def of_grad(j: Any, n: Any, c: Any) -> Any:
    def f(x: Any) -> Any:
        c.check(x > 0, "bad {}", x)
        return x * x

    inner = c.checkify(j.grad(f))(-3.0)
    outer = j.grad(lambda x: c.checkify(f)(x)[1])(-3.0)
    return message(inner[0]), float(inner[1]), float(outer)


def nested(j: Any, n: Any, c: Any) -> Any:
    f = everything(c, n)
    again = c.checkify(lambda x: c.check_error(c.checkify(f)(x, 0)[0]))
    x = n.arange(1.0, 4.0)
    kept = c.checkify(j.checkpoint(lambda x: f(x, 0)))
    return message(again(-x)[0]), message(again(x)[0]), message(kept(-x)[0])


def positions(j: Any, n: Any, c: Any) -> Any:
    x = n.arange(3.0)
    put = c.checkify(lambda x, i: x.at[i].set(1.0), errors=c.index_checks)
    cut = c.checkify(lambda x, i: j.lax.dynamic_slice(x, (i,), (2,)), errors=c.index_checks)
    whole = c.checkify(lambda a, b: a // b, errors=c.div_checks)
    return (
        [message(put(x, i)[0]) for i in (0, 9)],
        [message(cut(x, i)[0]) for i in (0, 2)],
        [message(whole(n.int32(3), n.int32(i))[0]) for i in (1, 0)],
    )


def debug(j: Any, n: Any, c: Any) -> Any:
    def f(x: Any) -> Any:
        c.debug_check(x > 0, "bad")
        return x

    return float(f(-1.0)), float(j.jit(f)(-1.0)), message(c.checkify(f)(-1.0)[0])


@pytest.mark.parametrize(
    "program",
    [in_loop, in_while, in_cond, in_scan, of_vmap, of_grad, nested, positions, debug],
    ids=lambda p: p.__name__,
)
def test_as_jax(program: Callable[[Any, Any, Any], Any]) -> None:
    same(program)


def test_vmap_inside_names_the_last_lane() -> None:
    """As JAX does, of checks; of positions beyond an array's ends it names the first."""

    def f(x: Any) -> Any:
        checkify.check(x > 0, "bad {}", x)
        return x

    lanes = pnp.array([[1.0, 2.0], [-1.0, -2.0]])
    error, _ = checkify.checkify(pb.vmap(pb.vmap(f)))(lanes)
    assert message(error) == "bad -2.0"
    with pytest.raises(checkify.JaxRuntimeError, match=r"bad -2.0 \("):
        pb.vmap(pb.vmap(f))(lanes)


def test_error_object() -> None:
    def f(x: Any) -> Any:
        checkify.check(x > 0, "bad {}", x)
        return x

    error, _ = pb.jit(checkify.checkify(f))(-1.0)
    assert str(error) == "Error(bad -1.0 (`check` failed))" and "test_checkify.py" in error.get()
    assert isinstance(error.get_exception(), checkify.FailedCheckError)
    with pytest.raises(checkify.JaxRuntimeError, match=r"bad -1\.0"):
        error.throw()
    with pytest.raises(ValueError, match=r"bad -1\.0"):
        checkify.check_error(error)
    assert str(checkify.init_error) == "Error(None)" and checkify.init_error.throw() is None
    with pytest.raises(TypeError, match="check_error takes an Error as argument, got type"):
        checkify.check_error(3)


@pytest.mark.parametrize(
    "error, match, program",
    [
        (ValueError, "bad 3", lambda j, n, c: c.check(False, "bad {k}", k=n.int32(3))),
        (ValueError, "not functionalized", lambda j, n, c: j.jit(lambda x: c.check(x > 0, "a"))(1)),
        (TypeError, "scalar pred", lambda j, n, c: c.check(n.array([True, False]), "x")),
        (TypeError, "scalar pred", lambda j, n, c: c.check(1.5, "x")),
        (IndexError, "index 0 out of range", lambda j, n, c: c.check(False, "a {}")),
        (TypeError, "PyTrees of arrays", lambda j, n, c: c.check(False, "a {}", "s")),
    ],
)
def test_errors(error: type[BaseException], match: str, program: Callable[..., Any]) -> None:
    for side in BOTH:
        with pytest.raises(error, match=match):
            program(*side)


def test_arguments_that_are_no_arrays_stay_what_they_are() -> None:
    def f(x: Any, mode: str, n: int) -> Any:
        checkify.check(x > 0, "not positive")
        return pnp.ones(n) * (x if mode == "plain" else -x)

    error, y = checkify.checkify(f)(2.0, "plain", 3)
    assert error.get() is None and y.tolist() == [2.0] * 3


def test_messages_show_keys() -> None:
    error, _ = checkify.checkify(lambda k: checkify.check(False, "key {k}", k=k))(pb.random.key(0))
    assert error.get().startswith("key ")


def _divided(x: Any) -> Any:
    return 1 / x


def test_places_under_vmap_are_the_users() -> None:
    """Not the library that enters the package's own contexts."""
    error, _ = checkify.checkify(pb.vmap(_divided), errors=checkify.all_checks)(pnp.arange(3.0))
    assert "test_checkify.py" in error.get() and "contextlib" not in error.get()


def test_which_of_several_errors_is_told() -> None:
    """Of several sorts of errors JAX tells the one that stands first in the program, checks of the
    user's before all others, whenever it happened; of one sort the first that happened.
    """

    def program(j: Any, n: Any, c: Any) -> list[str]:
        def nan(x: Any, k: int) -> Any:
            return n.log(n.float32(k) - x - 0.5)

        def user(x: Any, k: int) -> Any:
            return c.check(x < k, f"user {k}") or 0.0

        def user_with(x: Any, k: int) -> Any:
            return c.check(x < k, "user {k} {x}", k=n.int32(k), x=x) or 0.0

        def zero(x: Any, k: int) -> Any:
            return 1.0 / (x - n.float32(k))

        def beyond(x: Any, k: int) -> Any:
            return n.arange(3.0)[n.where(x >= k, 9, 0)]

        told = []
        for steps in [
            ((nan, 1), (user, 3)),
            ((user, 3), (user_with, 1)),
            ((user_with, 2), (user, 1)),
            ((zero, 3), (nan, 1)),
            ((beyond, 2), (zero, 1)),
            ((zero, 1), (beyond, 1), (user, 4)),
        ]:

            def loop(x: Any, steps: Any = steps) -> Any:
                body = lambda i, total: total + sum(check(i, k) for check, k in steps)
                return j.lax.fori_loop(0, 5, body, x)

            told.append(message(j.jit(c.checkify(loop, errors=c.all_checks))(0.0)[0]))
        lanes = n.array([1, 5, 0, 7])
        over = j.vmap(lambda x: user_with(x, 4) * nan(x, 9))
        told.append(message(c.checkify(over, errors=c.all_checks)(lanes)[0]))
        mapped = j.vmap(c.checkify(lambda x: user_with(x, 4)))(lanes)[0].get()
        told += [line.split(" (`check`")[0] for line in mapped.splitlines() if "mapped" in line]
        again = c.checkify(
            lambda: c.check_error(j.vmap(c.checkify(lambda x: user(x, 4)))(lanes)[0])
        )
        return [*told, message(again()[0])]

    same(program)


ON_DEVICES = """
import jax, pullback, jax.experimental.checkify, pullback.experimental.checkify
told = []
for j in (jax, pullback):
    c, n, P = j.experimental.checkify, j.numpy, j.sharding.PartitionSpec
    mesh = j.make_mesh((8,), ("x",), axis_types=(j.sharding.AxisType.Auto,))

    def positive(x):
        c.check(n.all(x > 0), "must be positive: {x}", x=x[0])
        return x

    def cut(f, ins=P("x"), outs=P("x"), **kwargs):
        return j.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, **kwargs)

    a = n.arange(16.0) - 5
    for f, x in (
        (cut(positive), a),
        (cut(positive), a + 10),
        (cut(n.log), a),
        (cut(lambda x: j.lax.psum(n.log(x), "x"), outs=P()), a),
        (cut(positive, P(), P()), a),
        (cut(lambda x: 1 / x), a),
        (j.jit(cut(j.jit(positive))), a),
        (j.vmap(cut(positive)), n.stack([a + 10, a])),
        (j.pmap(n.log), a.reshape(8, 2)),
    ):
        for jit in (lambda f: f, j.jit):
            error, out = jit(c.checkify(f, errors=c.float_checks | c.user_checks))(x)
            line = (error.get() or "").splitlines()[:1]
            told.append((line and line[0].split(" at /")[0], out.tolist().__repr__()))
half = len(told) // 2
for theirs, ours in zip(told[:half], told[half:], strict=True):
    assert theirs == ours, (theirs, ours)
assert sum("mapped index" in str(line) for line, _ in told) > half
"""


def test_checks_in_blocks() -> None:
    """Of the devices of a shard_map the first one that failed is named, as in JAX."""
    eight_devices.run("-c", ON_DEVICES)
