"""Committed arguments commit results, results keep shardings as JAX reports them on a CPU, and what
eager functions give back is never the argument itself where JAX's is not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import eight_devices
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import lax
from pullback.core.avals import said
from pullback.runtime import commitment
from pullback.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

P = PartitionSpec


def mesh() -> Mesh:
    return Mesh(np.array(pb.devices()[:1]).reshape(1, 1), ("x", "y"))


def named(*parts: Any) -> NamedSharding:
    return NamedSharding(mesh(), P(*parts))


def spec(x: Any) -> Any:
    s = x.sharding
    assert x.committed is isinstance(x._lies_on, pb.sharding.Sharding)
    return s.spec if isinstance(s, NamedSharding) else s


CALLS: dict[str, Callable[[Any], Any]] = {
    "operator": lambda x: x + 1,
    "function": jnp.sin,
    "row": lambda x: x[0],
    "jit": pb.jit(lambda x: 2 * x),
    "grad": pb.grad(lambda x: (x * x).sum()),
    "value_and_grad": lambda x: pb.value_and_grad(lambda y: (y * y).sum())(x)[0],
    "vmap": pb.vmap(lambda x: x * x),
    "loop": lambda x: lax.while_loop(lambda a: a[0] < 1, lambda a: a + 1, x),
    "cond": lambda x: lax.cond(True, lambda a: a, lambda a: a + 1, x),
    "copy": lambda x: x.copy(),
    "constant": pb.jit(lambda x: (x, jnp.ones(3)))
    and (lambda x: pb.jit(lambda y: (y, jnp.ones(3)))(x)[1]),
}


@pytest.mark.parametrize("name", CALLS)
def test_committed_arguments_commit_results(name: str) -> None:
    free = jnp.arange(3.0)
    placed = pb.device_put(free, pb.devices()[0])
    for _ in range(3):  # by Python, then natively
        assert CALLS[name](placed).committed and not CALLS[name](free).committed
        assert CALLS[name](placed).sharding == SingleDeviceSharding(pb.devices()[0])


def test_a_random_key_that_is_committed() -> None:
    key = pb.device_put(pb.random.key(0), named())
    assert key.sharding.spec == P() and pb.random.normal(key).committed
    assert not pb.random.normal(pb.random.key(0)).committed


def test_on_one_device_results_lie_as_the_first_argument() -> None:
    free = jnp.arange(8.0)
    x, y = pb.device_put(free, named("x")), pb.device_put(free, named("y"))
    a = pb.device_put(jnp.ones((8, 8)), named("x", "y"))
    alone = SingleDeviceSharding(pb.devices()[0])
    for _ in range(3):
        assert [spec(v) for v in (x + y, y + x, x + free, free + x)] == [
            P("x"), P("y"), P("x"), P(),
        ]  # fmt: skip
        assert [spec(v) for v in (a.T, a.sum(0), a @ a, x.sum(), a[0])] == [
            P("x", "y"), P(), P("x", "y"), P(), P(),
        ]  # fmt: skip
    both = pb.jit(lambda u, v: (u + 1, v + 1, jnp.zeros(8), v))
    assert [spec(v) for v in both(x, free)] == [P("x"), P(), P(), P()]
    assert [spec(v) for v in both(x, y)] == [P("x"), P("x"), P(), P("y")]
    assert spec(pb.jit(lambda u: jnp.zeros(8))(x)) == alone
    assert spec(pb.jit(lambda u, v: u * v)(pb.device_put(free, pb.devices()[0]), x)) == alone


def test_shardings_that_a_call_asks_for() -> None:
    free, x = jnp.arange(8.0), named("x")
    put = pb.device_put(free, named("y"))
    double = lambda a: 2 * a
    for _ in range(3):
        f = pb.jit(double, out_shardings=x)
        assert spec(f(free)) == P("x") and spec(f(put)) == P("x")
        assert spec(pb.jit(double, in_shardings=x)(put)) == P("x")
        assert spec(pb.jit(double, in_shardings=(x,))(free)) == P()
        tree = pb.jit(lambda a: {"a": a + 1, "b": (a + 2,)}, out_shardings={"a": x, "b": None})
        assert spec(tree(put)["a"]) == P("x") and spec(tree(put)["b"][0]) == P("y")
    compiled = pb.jit(double, out_shardings=x).lower(free).compile()
    assert compiled.output_shardings == x
    assert pb.jit(double, out_shardings=x).eval_shape(free).sharding == x
    with pytest.warns(DeprecationWarning, match="device argument on jit"):
        assert pb.jit(double, device=pb.devices()[0])(free).committed


def test_bad_shardings() -> None:
    free, x = jnp.arange(8.0), named("x")
    for what, message, error in (
        (lambda: pb.jit(lambda a: a, in_shardings=3), "expected to be PartitionSpec", TypeError),
        (lambda: pb.jit(lambda a: a, in_shardings=(x, x))(free), "wrong length", ValueError),
        (lambda: pb.jit(lambda a: a, in_shardings=x)(a=free), "support kwargs", ValueError),
        (lambda: pb.jit(lambda a: a, out_shardings=P("x"))(free), "non-empty mesh", RuntimeError),
        (
            lambda: pb.jit(lambda q: q, in_shardings=named("x", "y"))(free),
            r"path q is incompatible .* rank at least 2", ValueError,
        ),
        (
            lambda: pb.jit(lambda a: {"k": a}, out_shardings=named("x", "y"))(free),
            r"path result\['k'\] is incompatible", ValueError,
        ),
        (lambda: pb.device_put(free, named("x", "y")), "device_put args is incomp", ValueError),
        (lambda: pb.device_put(free, P("x")), "Please set a mesh", ValueError),
        (
            lambda: lax.with_sharding_constraint(free, named("x", "y")),
            "with_sharding_constraint arguments is incompatible", ValueError,
        ),
        (lambda: pb.jit(lambda a: a.sharding)(free), "use `jax.typeof", AttributeError),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            what()  # type: ignore[no-untyped-call]


def test_under_a_mesh_results_lie_on_it() -> None:
    free, grid = jnp.arange(8.0), mesh()
    double = pb.jit(lambda a: 2 * a)
    assert not double(free).committed
    with pb.set_mesh(grid):
        assert [spec(v) for v in (free + 1, jnp.sin(free), double(free))] == [P(), P(), P()]
        assert spec(pb.device_put(free, P("x"))) == P("x")
        assert spec(pb.jit(lambda a: 2 * a, out_shardings=P("x"))(free)) == P("x")
        seen = pb.jit(lambda a: (a, pb.sharding.get_abstract_mesh().axis_names)[0])(free)
        assert seen.committed
    assert not double(free).committed and not (free + 1).committed
    with pytest.warns(DeprecationWarning, match="set_mesh"):
        grid.__enter__()
    with contextlib.ExitStack() as stack:  # names axes, says nothing of results
        stack.push(grid)
        assert not double(free).committed and pb.sharding.get_abstract_mesh().empty


def test_constraints_commit_what_they_are_in() -> None:
    free = jnp.arange(8.0)
    put = pb.device_put(free, named("x"))
    f = pb.jit(lambda a: lax.with_sharding_constraint(2 * a, named("y")) + 1)
    assert spec(f(free)) == P() and spec(f(put)) == P("x")
    assert spec(lax.with_sharding_constraint(free, named("y"))) == P("y")


SAME_MEMORY: dict[str, Callable[[Any], Any]] = {
    "ravel": jnp.ravel,
    "squeeze": jnp.squeeze,
    "real": jnp.real,
    "conj": jnp.conj,
    "positive": jnp.positive,
    "swapaxes": lambda x: jnp.swapaxes(x, 0, 0),
    "moveaxis": lambda x: jnp.moveaxis(x, 0, 0),
    "flatten": lambda x: x.flatten(),
    "x.ravel": lambda x: x.ravel(),
    "x.conj": lambda x: x.conj(),
    "x.real": lambda x: x.real,
    "broadcast_in_dim": lambda x: lax.broadcast_in_dim(x, (3,), (0,)),
    "expand_dims": lambda x: lax.expand_dims(x, ()),
    "slice": lambda x: lax.slice(x, (0,), (3,)),
    "bitcast": lambda x: lax.bitcast_convert_type(x, jnp.float32),
    "roll": lambda x: jnp.roll(x, 0),
    "clip": lambda x: jnp.clip(x, None, None),
}


@pytest.mark.parametrize("name", SAME_MEMORY)
def test_what_does_nothing_gives_another_array(name: str) -> None:
    f, gone = SAME_MEMORY[name], pb.jit(lambda a: a + 1, donate_argnums=0)
    for _ in range(3):
        x = jnp.arange(3.0)
        y = f(x)
        assert y is not x
        gone(y)
        assert x.tolist() == [0, 1, 2]


def test_what_gives_the_argument_itself() -> None:
    x = jnp.arange(3.0)
    for _ in range(3):
        assert x.astype(jnp.float32) is x and jnp.reshape(x, (3,)) is x and x[:] is x
        assert jnp.asarray(x) is x and pb.device_put(x) is x and x.view(jnp.float32) is x


def test_transfers_from_the_host_are_guarded(caplog: pytest.LogCaptureFixture) -> None:
    x, host = jnp.arange(3.0), np.arange(3.0)
    double = pb.jit(lambda a: 2 * a)
    double(x), double(host), x + 1, jnp.sin(host)  # all native by now
    for guard in (pb.transfer_guard, pb.transfer_guard_host_to_device):
        with guard("disallow"):
            for what in (lambda: double(host), lambda: double(1.0), lambda: x + 1):
                with pytest.raises(pb.errors.JaxRuntimeError, match="Disallowed host-to-device"):
                    what()
            assert double(x).tolist() == [0, 2, 4] and pb.device_put(host).tolist() == [0, 1, 2]
            assert np.asarray(x).tolist() == [0, 1, 2]
        with guard("disallow_explicit"), pytest.raises(pb.errors.JaxRuntimeError):
            pb.device_put(host)
        caplog.clear()
        with guard("log"):
            double(host)
        assert "host-to-device transfer: aval=ShapedArray(float32[3])" in caplog.text
    for guard in (pb.transfer_guard_device_to_host, pb.transfer_guard_device_to_device):
        with guard("disallow"):
            assert double(host).tolist() == [0, 2, 4]
    pb.config.update("jax_transfer_guard", "disallow")
    try:
        with pytest.raises(pb.errors.JaxRuntimeError, match=r"Fix: jax\.device_put"):
            double(host)
    finally:
        pb.config.update("jax_transfer_guard", None)
    assert double(host).tolist() == [0, 2, 4]


@pytest.mark.parametrize("given", [lambda g: ((g,), g), lambda g: {"a": g}, lambda g: [g, [g]]])
def test_a_rule_that_returns_another_structure_is_told_which(given: Any) -> None:
    f = pb.custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, None), lambda _, g: given(g))
    with pytest.raises(TypeError, match=r"same container .* primal input structure .*\(\*, \*\)"):
        pb.grad(f)(2.0, 3.0)


def test_a_linear_solution_may_have_a_type_of_its_own() -> None:
    def solve(b: Any, dtype: Any) -> Any:
        return lax.custom_linear_solve(
            lambda x: 2 * x, b, lambda _, v: (v / 2).astype(dtype), lambda _, v: v / 2
        )

    x = lax.custom_linear_solve(lambda v: 2 * v, jnp.arange(3), lambda _, v: v / 2)
    assert x.dtype == jnp.float32 and x.tolist() == [0, 0.5, 1]
    half = lambda b: solve(b, jnp.float16).sum().astype(jnp.float32)
    assert pb.grad(half)(jnp.arange(3.0)).tolist() == [0.5] * 3


def test_what_is_like_an_array_lies_as_it_does() -> None:
    x = pb.device_put(jnp.arange(8.0), named("x"))
    for _ in range(3):
        assert spec(jnp.zeros_like(x)) == spec(jnp.full_like(x, 2)) == P("x")
        assert spec(lax.full_like(x, 2, shape=(4, 2))) == spec(jnp.ones_like(x, shape=())) == P("x")
        assert not jnp.ones_like(jnp.arange(8.0)).committed


def test_likenesses_lie_the_same_at_every_call() -> None:
    """As the model does, if it was put somewhere; else, and where arrays fill it, as what fills."""
    free = jnp.ones((2, 3))
    model = pb.device_put(free, pb.devices()[0])
    weak = pb.device_put(jnp.asarray(2.0), pb.devices()[0])
    for f in (jnp.full_like, lax.full_like):
        for given in ({}, {"dtype": "int32"}, {"shape": (2, 3)}, {"shape": (4,)}):
            for fill in (2, jnp.float32(2), np.array(2.0), weak):
                for _ in range(4):
                    assert f(model, fill, **given).committed
                    assert f(
                        fill_value=fill, **{"x" if f is lax.full_like else "a": model}
                    ).committed
                    assert f(free, fill, **given).committed == (fill is weak)
        for _ in range(4):
            assert f(weak, 3).weak_type and not f(weak, 3).committed
            assert f(weak, 3, dtype="float32").committed
    for _ in range(4):
        assert not jnp.full_like(model, jnp.ones(3)).committed
        assert jnp.full_like(free, model[0]).committed
        assert jnp.zeros_like(model, shape=(3,)).committed


CONSTANT: dict[str, tuple[bool, Callable[[Any], Any]]] = {
    "nothing and something": (True, lambda x: jnp.concatenate([x[:0], jnp.ones(2)])),
    "nothing of something": (True, lambda x: x[jnp.zeros(0, int)]),
    "nothing updated": (False, lambda x: jnp.ones(3).at[x[:0].astype(int)].set(1)),
    "sum of nothing": (True, lambda x: jnp.sum(x[:0])),
    "imaginary part": (False, jnp.imag),
    "finite integers": (False, lambda x: jnp.isfinite(x.astype(int))),
    "power of zero": (True, lambda x: jnp.power(x, 0)),
    "split": (True, lambda x: jnp.split(x, 3)[1]),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_results_that_do_not_depend_on_values_lie_the_same_at_every_call(name: str) -> None:
    """As in JAX; their programs may do without the argument, and give what is no new array."""
    committed, f = CONSTANT[name]
    put = pb.device_put(jnp.arange(3.0), pb.devices()[0])
    for _ in range(14):
        assert f(put).committed is committed and not f(jnp.arange(3.0)).committed
    ones = jnp.ones(2)
    for _ in range(4):
        assert jnp.concatenate([put[:0], ones]) is not ones and not ones.committed


def test_likenesses_on_several_devices_have_their_models_shape() -> None:
    program = """if True:
    import numpy as np, pullback as pb, pullback.numpy as jnp
    from pullback.sharding import Mesh, NamedSharding, PartitionSpec as P
    lies = NamedSharding(Mesh(np.array(pb.devices()), ("i",)), P("i"))
    x = pb.device_put(jnp.ones((8, 3)), lies)
    for _ in range(4):
        assert pb.lax.full_like(x, 2).sharding == jnp.zeros_like(x, shape=(8, 3)).sharding == lies
        assert not jnp.full_like(x, 2, shape=(16, 3)).committed
    """
    eight_devices.run("-c", program)


def test_results_of_shard_map_lie_as_their_specs_say() -> None:
    on, x = mesh(), jnp.arange(8.0)
    f = pb.shard_map(lambda a: 2 * a, mesh=on, in_specs=P("x"), out_specs=P("x"))
    assert f(x).sharding == NamedSharding(on, P("x"))


def test_a_mesh_without_devices_stands_for_the_one_in_force() -> None:
    on, x = mesh(), jnp.arange(8.0)
    with pb.set_mesh(on):
        wanted = NamedSharding(on.abstract_mesh, P("x"))
        assert pb.device_put(x, wanted).sharding == NamedSharding(on, P("x"))
        made = pb.jit(lambda a: 2 * a, out_shardings=wanted)(x)
        assert made.sharding == NamedSharding(on, P("x"))


# --- out_sharding: where the result of one function lies ---
_KEY, _X = pb.random.key(0), jnp.arange(6.0).reshape(2, 3)
MADE: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda o: jnp.zeros((2, 3), out_sharding=o),
    "ones_like": lambda o: jnp.ones_like(_X, out_sharding=o),
    "full": lambda o: jnp.full((2, 3), 7, out_sharding=o),
    "arange": lambda o: jnp.arange(3, out_sharding=o),
    "broadcast_to": lambda o: jnp.broadcast_to(_X, (2, 2, 3), out_sharding=o),
    "repeat": lambda o: jnp.repeat(_X, 2, out_sharding=o),
    "set": lambda o: _X.at[0].set(1.0, out_sharding=o),
    "normal": lambda o: pb.random.normal(_KEY, (2,), out_sharding=o),
    "gamma": lambda o: pb.random.gamma(_KEY, 2.0, (2,), out_sharding=o),
    "permutation": lambda o: pb.random.permutation(_KEY, _X, out_sharding=o),
    "initializer": lambda o: pb.nn.initializers.glorot_uniform()(_KEY, (2, 3), out_sharding=o),
    "lax.broadcast": lambda o: lax.broadcast(_X, (2,), out_sharding=o),
    "lax.broadcast_in_dim": lambda o: lax.broadcast_in_dim(_X, (2, 3, 2), (0, 1), out_sharding=o),
    "lax.iota": lambda o: lax.broadcasted_iota("int32", (2, 3), 0, out_sharding=o),
    "lax.empty": lambda o: lax.empty((2, 3), "float32", out_sharding=o),
}
FOLLOW: dict[str, Callable[[Any], Any]] = {
    "array": lambda o: jnp.array(_X, out_sharding=o),
    "dot": lambda o: jnp.dot(_X, _X.T, out_sharding=o),
    "tensordot": lambda o: jnp.tensordot(_X, _X.T, 1, out_sharding=o),
    "reshape": lambda o: jnp.reshape(_X, (3, 2), out_sharding=o),
    "flatten": lambda o: _X.flatten(out_sharding=o),
    "lax.reshape": lambda o: lax.reshape(_X, (3, 2), out_sharding=o),
    "lax.reduce_sum": lambda o: lax.reduce_sum(_X, (1,), out_sharding=o),
    "lax.reduce": lambda o: lax.reduce(_X, 0.0, lax.add, (1,), o),
    "lax.dot": lambda o: lax.dot(_X, _X.T, out_sharding=o),
    "lax.conv": lambda o: lax.conv_general_dilated(
        _X[None], _X[None], (1,), "VALID", out_sharding=o
    ),
}


@pytest.mark.parametrize("name", [*MADE, *FOLLOW])
def test_a_function_is_told_how_its_result_lies(name: str) -> None:
    """New arrays lie as they are told; products and reshaped arrays do under a mesh."""
    f = (MADE | FOLLOW)[name]
    mesh = pb.make_mesh((1,), ("x",))
    asked = pb.NamedSharding(mesh, P("x"))
    for _ in range(3):  # in Python, and as a native program
        lies = f(asked).sharding
        assert isinstance(lies, pb.NamedSharding) == (name in MADE)
    np.testing.assert_array_equal(f(asked), f(None))
    if name in MADE:
        assert lies.spec == P("x", *(None,) * (f(None).ndim - 1))
        assert pb.jit(lambda: f(asked))().sharding.spec == lies.spec
    with pb.set_mesh(mesh):
        assert f(P("x")).sharding.spec == P("x", *(None,) * (f(None).ndim - 1))
        with pytest.raises(ValueError, match="foo"):
            f(P("foo"))


@pytest.mark.parametrize("name", [*MADE, *FOLLOW])
def test_the_first_layout_that_is_asked_for_is_followed(name: str) -> None:
    """As in a process in which nothing has said how arrays lie."""
    f = (MADE | FOLLOW)[name]
    said[0] = commitment._named[0] = False
    with pb.set_mesh(pb.make_mesh((1,), ("x",))):
        assert f(P("x")).sharding.spec == P("x", *(None,) * (f(None).ndim - 1))


@pytest.mark.parametrize("name", [*MADE, *FOLLOW])
def test_an_out_sharding_that_is_none_is_refused(name: str) -> None:
    f = (MADE | FOLLOW)[name]
    device = pb.devices()[0]
    for bad in (3, device, pb.sharding.SingleDeviceSharding(device)):
        with pytest.raises(TypeError, match="only supports instances of `NamedSharding`"):
            f(bad)
    with pytest.raises(ValueError, match="not under a mesh context"):
        f(P())
    automatic = pb.sharding.Mesh(np.array([device]), ("x",))
    with pytest.raises(ValueError, match="Auto or Manual"):
        f(pb.NamedSharding(automatic, P("x")))


def test_a_result_lies_in_one_place() -> None:
    device = pb.devices()[0]
    with pytest.raises(ValueError, match="Only one of `device` or `out_sharding`"):
        jnp.zeros(2, device=device, out_sharding=P())
    assert jnp.arange(3, device=device).committed


def test_functions_that_take_a_device_lay_their_result_there() -> None:
    device = pb.devices()[0]
    made = {
        "eye": lambda **o: jnp.eye(3, **o),
        "linspace": lambda **o: jnp.linspace(0, 1, 3, **o),
        "linspace and its step": lambda **o: jnp.linspace(0, 1, 3, retstep=True, **o)[0],
        "zeros": lambda **o: jnp.zeros(3, **o),
        "arange": lambda **o: jnp.arange(3, **o),
    }
    for name, make in made.items():
        assert make(device=device).committed, name
        assert not make().committed, name
        with pytest.raises(ValueError, match="device"):
            make(device=3)
    text = str(
        pb.make_jaxpr(lambda: (jnp.eye(2, device=device), jnp.linspace(0, 1, 3, device=device)))()
    )
    assert "device_put" in text
    assert "sharding_constraint" in text


def _on(k: int) -> SingleDeviceSharding:
    """The whole on device k. There may be fewer: a device is where an array says that it is."""
    first = pb.devices()[0]
    return SingleDeviceSharding(first if k == 0 else type(first)(k, first.client))


ELSEWHERE: dict[str, Callable[[Any, Any], Any]] = {
    "operator": lambda a, b: a + b,
    "eager": lambda a, b: jnp.concatenate([a, b]),
    "primitive": lambda a, b: lax.add(a, b),
    "jit": lambda a, b: pb.jit(lambda x, y: x * y)(a, b),
    "grad": lambda a, b: pb.grad(lambda x: (x * b).sum())(a),
    "vmap": lambda a, b: pb.vmap(lambda x, y: x + y)(a, b),
    "index": lambda a, b: a[b.astype(int)],
    "scan": lambda a, b: lax.scan(lambda c, x: (c + x, c), a[0], b),
    "result": lambda a, b: pb.jit(lambda x: x * 2, out_shardings=b.sharding)(a),
    "lowered": lambda a, b: pb.jit(lambda x, y: x * y).lower(a, b),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_arrays_on_different_devices_are_refused(name: str) -> None:
    a, b = (pb.device_put(np.arange(4.0, dtype=np.float32), _on(k)) for k in (0, 1))
    with pytest.raises(ValueError, match=r"Received incompatible devices .* ids \[0\] .* \[1\] on"):
        ELSEWHERE[name](a, b)


def test_arrays_that_are_nowhere_in_particular_go_with_others() -> None:
    a, b = (pb.device_put(np.arange(4.0, dtype=np.float32), _on(k)) for k in (0, 1))
    free = jnp.arange(4.0)
    assert (b + free).sharding == b.sharding
    assert pb.jit(lambda x, y: x * 2)(a, b).sharding == a.sharding
    compiled = pb.jit(lambda x: x + 1).lower(a).compile()
    assert compiled(a).tolist() == compiled(free).tolist()
    with pytest.raises(ValueError, match="compiled for input shardings that disagree"):
        compiled(b)
