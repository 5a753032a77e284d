"""The examples of seed 002: a long introduction to JAX, from arrays to composed transformations.

Its random values predate a change in how JAX splits keys (jax_threefry_partitionable); those
below are what the oracle's release gives for the same keys.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import pullback as jax
import pullback.numpy as jnp

from seedlib import jaxpr_equal, prints, refuses, shows

SEED = 0x123456789


def keys():
    """The document's keys, in the order in which it splits them off."""
    key = jax.random.PRNGKey(SEED)
    out = {}
    key, out["uniform"] = jax.random.split(key)
    out["reused"] = key
    key, *out["four"] = jax.random.split(key, 5)
    key, out["W"], out["b"], out["x"] = jax.random.split(key, 4)
    key, out["x44"], out["mask"] = jax.random.split(key, 3)
    key, *out["layers"] = jax.random.split(key, 3)
    key, out["input"] = jax.random.split(key)
    return out


# --- Almost NumPy ---------------------------------------------------------------------------------


def test_arrays_from_lists():
    L = [0, 1, 2, 3]
    x_np = np.array(L, dtype=np.int32)
    x_jnp = jnp.array(L, dtype=jnp.int32)
    shows((x_np, x_jnp), "(array([0, 1, 2, 3], dtype=int32), Array([0, 1, 2, 3], dtype=int32))")


@pytest.fixture
def x1():
    return jnp.array([0, 1, 2, 3], dtype=jnp.int32) * 2


@pytest.fixture
def x2():
    return jnp.array([0, 1, 2, 3], dtype=jnp.int32) + 1


def test_arithmetic(x1, x2):
    x3 = x1 + x2
    shows(
        (x1, x2, x3),
        "(Array([0, 2, 4, 6], dtype=int32), Array([1, 2, 3, 4], dtype=int32), "
        "Array([ 1, 4, 7, 10], dtype=int32))",
    )


def test_dot_and_outer(x1, x2):
    shows(
        (jnp.dot(x1, x2), jnp.outer(x1, x2)),
        """(Array(40, dtype=int32),
        Array([[ 0, 0, 0, 0], [ 2, 4, 6, 8], [ 4, 8, 12, 16], [ 6, 12, 18, 24]], dtype=int32))""",
    )


def test_numpy_random_has_state():
    random_np = np.random.random((5,))
    assert random_np.shape == (5,) and not np.array_equal(random_np, np.random.random((5,)))


def test_key_of_a_long_seed():
    shows(jax.random.PRNGKey(SEED), "Array([0, 591751049], dtype=uint32)")


def test_uniform():
    value = jax.random.uniform(keys()["uniform"], (5,))
    shows(value, "Array([0.8827039, 0.88709354, 0.4278561, 0.92221344, 0.96814275], dtype=float32)")


def test_same_key_same_values():
    key = keys()["reused"]
    shows(
        (jax.random.normal(key, (2,)), jax.random.normal(key, (2,))),
        "(Array([0.75991493, -1.7237941], dtype=float32), "
        "Array([0.75991493, -1.7237941], dtype=float32))",
    )


def test_split_into_many():
    shows(
        [jax.random.normal(s, (2, 2)) for s in keys()["four"]],
        """[
        Array([[0.55193925, 0.02727376], [-0.5196624, -1.719974]], dtype=float32),
        Array([[-0.7936197, -0.3196936], [-1.7288808, -0.03343979]], dtype=float32),
        Array([[-1.3943045, -0.8397348], [-1.167635, -0.7231452]], dtype=float32),
        Array([[-0.63718694, -2.05882], [2.0945106, -1.459506]], dtype=float32)]""",
    )


def test_no_item_assignment(x1):
    with refuses(TypeError, "immutable", "item assignment", "x.at[idx].set(y)"):
        x1[0] = 5


def test_at_add(x1):
    x1_p999 = x1.at[0].add(999)
    shows((x1, x1_p999), "(Array([0, 2, 4, 6], dtype=int32), Array([999, 2, 4, 6], dtype=int32))")


def test_augmented_assignment_makes_a_new_array(x1):
    before = x1
    x1 += 5
    shows((before, x1), "(Array([0, 2, 4, 6], dtype=int32), Array([5, 7, 9, 11], dtype=int32))")


def test_lists_are_refused():
    with refuses(TypeError, "sum requires ndarray or scalar arguments", "list", "position 0"):
        jnp.sum([1, 2, 3])


def test_out_of_bounds_reads_are_clamped(x1):
    shows(
        (x1[0], x1[-1], x1[10000]),
        "(Array(0, dtype=int32), Array(6, dtype=int32), Array(6, dtype=int32))",
    )


def test_out_of_bounds_writes_are_dropped(x1):
    shows(x1.at[10000].set(999), "Array([0, 2, 4, 6], dtype=int32)")


def test_matmul_equals_numpy(x1, x2):
    assert int((x1 @ x2).block_until_ready()) == int(np.asarray(x1) @ np.asarray(x2)) == 40


# --- Enter jit ------------------------------------------------------------------------------------


def fn(W, b, x):
    return x @ W + b


@pytest.fixture
def layer():
    k = keys()
    return (
        jax.random.normal(k["W"], (4, 2)),
        jax.random.uniform(k["b"], (2,)),
        jax.random.normal(k["x"], (4,)),
    )


def test_layer(layer):
    shows(fn(*layer).block_until_ready(), "Array([1.3984797, 0.5767148], dtype=float32)")
    shows(jax.jit(fn)(*layer).block_until_ready(), "Array([1.3984797, 0.5767148], dtype=float32)")


def test_layer_with_the_document_s_slip(layer):
    # There, W ends with a comma and so is a tuple; that it worked is long past.
    W, b, x = layer
    with refuses(TypeError, "unsupported operand type(s) for @", "tuple"):
        fn((W,), b, x)
    with refuses(TypeError, "unsupported operand type(s) for @", "tuple"):
        jax.jit(fn)((W,), b, x)


def test_layer_s_jaxpr(layer):
    jaxpr_equal(
        jax.make_jaxpr(fn)(*layer),
        """\
{ lambda ; a:f32[4,2] b:f32[2] c:f32[4]. let
    d:f32[2] = dot_general[
      dimension_numbers=(([0], [0]), ([], []))
      preferred_element_type=float32
    ] c a
    e:f32[2] = add d b
  in (e,) }""",
    )


def test_compiled_text(layer):
    text = jax.jit(fn).lower(*layer).compile().as_text()
    assert isinstance(text, str) and text.strip()


def stupid_fn(x):
    y = jnp.copy(x)
    for _ in range(1000):
        x = x * x
    return y


def test_dead_code_gives_the_right_value(layer):
    *_, x = layer
    expected = np.asarray(x)
    np.testing.assert_array_equal(jax.jit(stupid_fn)(x).block_until_ready(), expected)
    np.testing.assert_array_equal(stupid_fn(x).block_until_ready(), expected)


def test_dead_code_is_in_the_jaxpr():
    lines = str(jax.make_jaxpr(stupid_fn)(jnp.ones(4))).splitlines()
    assert sum(" = mul " in line for line in lines) == 1000
    assert " = copy " in lines[1]
    assert lines[-2].lstrip().startswith("_:f32[4] = mul ")
    assert lines[-1].strip() == "in (b,) }"


def test_dead_code_is_not_in_the_compiled_program():
    text = jax.jit(stupid_fn).lower(jnp.ones(4)).compile().as_text()
    assert "mul" not in text


# --- Static shapes --------------------------------------------------------------------------------


def create_filled(val, length):
    return jnp.full((length,), val)


def test_create_filled(capsys):
    print(create_filled(1.0, 5))
    print(create_filled(2, 2))
    prints(capsys, "[1. 1. 1. 1. 1.] [2 2]")


def test_create_filled_with_a_traced_length():
    with refuses(
        TypeError,
        "Shapes must be 1D sequences of concrete values of integer type",
        "int32[]",
        "static_argnums",
        "argument length",
    ):
        jax.jit(create_filled)(2, 5)


def test_create_filled_with_a_static_length(capsys):
    jit_create_filled = jax.jit(create_filled, static_argnums=(1,))
    print(jit_create_filled(2, 5))
    print(jit_create_filled(1.0, 10))
    prints(capsys, "[2 2 2 2 2] [1. 1. 1. 1. 1. 1. 1. 1. 1. 1.]")


def test_create_filled_jaxprs():
    make = jax.make_jaxpr(create_filled, static_argnums=(1,))
    jaxpr_equal(make(2, 5), "{ lambda ; a:i32[]. let b:i32[5] = broadcast_in_dim a in (b,) }")
    jaxpr_equal(make(1.6, 10), "{ lambda ; a:f32[]. let b:f32[10] = broadcast_in_dim a in (b,) }")


def mask_tensor(x, mask):
    x = x.at[mask].set(-100.0)
    return x


def mask_tensor_static(x, mask):
    x = ~mask * x - mask * 100.0
    return x


MASKED = """Array([[-1.0000000e+02, -1.3415883e+00, -1.0000000e+02, -1.0000000e+02],
    [-1.4900625e-01, -5.8098603e-02, 1.0388380e+00, -1.0000000e+02],
    [-1.4255396e+00, -2.6653433e+00, -3.6703771e-01, -3.6226237e-01],
    [ 1.6335283e-01, 1.9940675e+00, -1.0000000e+02, -1.0000000e+02]], dtype=float32)"""


@pytest.fixture
def masked():
    k = keys()
    return jax.random.normal(k["x44"], (4, 4)), jax.random.uniform(k["mask"], (4, 4)) < 0.5


def test_mask_tensor(masked):
    shows(mask_tensor(*masked), MASKED)


def test_mask_tensor_jitted(masked):
    """JAX refuses it; the result's shape is known all the same, so that doing it is right too."""
    try:
        value = jax.jit(mask_tensor)(*masked)
    except jax.errors.NonConcreteBooleanIndexError as error:
        assert "bool[4,4]" in str(error)
    else:
        shows(value, MASKED)


def test_mask_tensor_rewritten(masked):
    shows(mask_tensor_static(*masked), MASKED)
    shows(jax.jit(mask_tensor_static)(*masked), MASKED)


def test_random_lengths():
    def cube(x):
        return x * x * x

    def random_shape_test(fn):
        length = random.randint(1, 1000)
        return fn(jnp.empty((length,)))

    jit_cube = jax.jit(cube)
    for _ in range(10):
        result = random_shape_test(jit_cube).block_until_ready()
        np.testing.assert_array_equal(result, np.zeros(result.shape))
    shows(jit_cube(jnp.array([0, 2, 4, 6])), "Array([0, 8, 64, 216], dtype=int32)")


# --- Purity and side effects ----------------------------------------------------------------------


def test_global_number(capsys):
    shift = -1.0
    x1 = jnp.array([0, 1, 2])
    x2 = jnp.array([0, -1, 0])
    x3 = jnp.array([0, 1, 2, 3])

    def fn(x):
        return x + shift

    print(fn(x1))
    shift = 1.0
    print(fn(x2))
    print(fn(x3))
    prints(capsys, "[-1. 0. 1.] [1. 0. 1.] [1. 2. 3. 4.]")

    shift = -1.0
    jit_fn = jax.jit(fn)
    print(jit_fn(x1))
    shift = 1.0
    print(jit_fn(x2))
    print(jit_fn(x3))
    prints(capsys, "[-1. 0. 1.] [-1. -2. -1.] [1. 2. 3. 4.]")


def test_print_while_tracing(capsys):
    def fn(x):
        print("called identity function")
        return x

    jit_fn = jax.jit(fn)
    print("called `jit_fn(0.5)`")
    _ = jit_fn(0.5)
    print("called `jit_fn(1.0)`")
    _ = jit_fn(1.0)
    print("called `jit_fn([-1, 1])`")
    _ = jit_fn(jnp.array([-1, 1]))
    prints(
        capsys,
        """called `jit_fn(0.5)`
        called identity function
        called `jit_fn(1.0)`
        called `jit_fn([-1, 1])`
        called identity function""",
    )


def test_global_array(capsys):
    b = jnp.array([1, 2, 3])

    def fn(x):
        return x + b

    jit_fn = jax.jit(fn)
    x = jnp.array([1, 2, 3])
    print(jit_fn(x))
    b = jnp.array([0, 0, 0])
    print(jit_fn(x))
    prints(capsys, "[2 4 6] [2 4 6]")


def test_python_branch_is_taken_while_tracing():
    config = dict(relu=False)

    @jax.jit
    def fn(W, x):
        y = x @ W
        if config["relu"]:
            y = jax.nn.relu(y)
        return y

    W, x = jnp.ones((2, 2)), jnp.ones((2,))
    jaxpr_equal(
        jax.make_jaxpr(fn)(W, x),
        """\
{ lambda ; a:f32[2,2] b:f32[2]. let
    c:f32[2] = jit[
      name=fn
      jaxpr={ lambda ; a:f32[2,2] b:f32[2]. let
          c:f32[2] = dot_general[
            dimension_numbers=(([0], [0]), ([], []))
            preferred_element_type=float32
          ] b a
        in (c,) }
    ] a b
  in (c,) }""",
    )


def test_closed_over_model_is_kept():
    model = {"w": jnp.arange(3.0)}

    def predict(x):
        return (model["w"] * x).sum()

    fn = jax.jit(lambda x: predict(x))
    shows(fn(jnp.ones(3)), "Array(3., dtype=float32)")
    model = None
    shows(fn(jnp.ones(3)), "Array(3., dtype=float32)")


# --- Conditionals and loops -----------------------------------------------------------------------


def fori_fn(x):
    y = jnp.copy(x)
    x = jax.lax.fori_loop(lower=0, upper=1000, body_fun=lambda i, x: x * x, init_val=x)
    return y


def test_fori_loop_jaxpr():
    jaxpr_equal(
        jax.make_jaxpr(fori_fn)(jnp.array([1.1, -1.1])),
        """\
{ lambda ; a:f32[2]. let
    b:f32[2] = copy a
    _:i32[] _:f32[2] = scan[
      jaxpr={ lambda ; c:i32[] d:f32[2]. let
          e:i32[] = add c 1:i32[]
          f:f32[2] = mul d d
        in (e, f) }
      length=1000
      num_carry=2
      num_consts=0
      reverse=False
      unroll=1
    ] 0:i32[] a
  in (b,) }""",
    )


def test_fori_loop_names_its_bounds_lower_and_upper():
    with refuses(TypeError, "fori_loop", "start"):
        jax.lax.fori_loop(start=0, stop=10, body_fun=lambda i, x: x, init_val=1)


def test_fori_loop_runs_and_its_dead_loop_is_dropped():
    x = jnp.array([1.1, -1.1])
    shows(jax.jit(fori_fn)(x), "Array([1.1, -1.1], dtype=float32)")
    assert "mul" not in jax.jit(fori_fn).lower(x).compile().as_text()


def while_fn(x):
    y = jnp.copy(x)
    x = jax.lax.while_loop(
        cond_fun=lambda ix: ix[0] < 1000,
        body_fun=lambda ix: (ix[0] + 1, ix[1] * ix[1]),
        init_val=(0, x),
    )
    return y


def test_while_loop_jaxpr():
    jaxpr_equal(
        jax.make_jaxpr(while_fn)(jnp.array([1.1, -1.1])),
        """\
{ lambda ; a:f32[2]. let
    b:f32[2] = copy a
    _:i32[] _:f32[2] = while[
      body_jaxpr={ lambda ; c:i32[] d:f32[2]. let
          e:i32[] = add c 1:i32[]
          f:f32[2] = mul d d
        in (e, f) }
      body_nconsts=0
      cond_jaxpr={ lambda ; g:i32[] h:f32[2]. let
          i:bool[] = lt g 1000:i32[]
        in (i,) }
      cond_nconsts=0
    ] 0:i32[] a
  in (b,) }""",
    )
    shows(jax.jit(while_fn)(jnp.array([1.1, -1.1])), "Array([1.1, -1.1], dtype=float32)")


@jax.jit
def cond_fn(x):
    pred = jnp.abs(x.max() - x.min()) <= 1.0
    return jax.lax.cond(pred, lambda x: x, lambda x: x / 2, x)


def test_cond(capsys):
    print(cond_fn(jnp.array([0.1, 0.2])))
    print(cond_fn(jnp.array([-0.5, 0.5])))
    print(cond_fn(jnp.array([1.0, -1.0])))
    prints(capsys, "[0.1 0.2] [-0.5 0.5] [ 0.5 -0.5]")


def test_cond_jaxpr():
    jaxpr_equal(
        jax.make_jaxpr(cond_fn)(jnp.array([1.0, -1.0])),
        """\
{ lambda ; a:f32[2]. let
    b:f32[2] = jit[
      name=cond_fn
      jaxpr={ lambda ; a:f32[2]. let
          c:f32[] = reduce_max[axes=(0,)] a
          d:f32[] = reduce_min[axes=(0,)] a
          e:f32[] = sub c d
          f:f32[] = abs e
          g:bool[] = le f 1.0:f32[]
          h:i32[] = convert_element_type[new_dtype=int32 weak_type=False] g
          b:f32[2] = cond[
            branches=(
              { lambda ; i:f32[2]. let j:f32[2] = div i 2.0:f32[] in (j,) }
              { lambda ; k:f32[2]. let  in (k,) }
            )
          ] h a
        in (b,) }
    ] a
  in (b,) }""",
    )


def test_switch():
    @jax.jit
    def is_even_fast(x):
        return jax.lax.switch(x, [lambda: True, lambda: False] * 10 + [lambda: True])

    shows(is_even_fast(123512), "Array(True, dtype=bool)")
    shows(is_even_fast(3), "Array(False, dtype=bool)")


# --- Pytrees --------------------------------------------------------------------------------------

dims = [784, 64, 10]


@pytest.fixture
def params():
    return [
        {"W": jax.random.normal(w_key, (out_dim, in_dim)), "b": jnp.zeros((out_dim,))}
        for w_key, in_dim, out_dim in zip(keys()["layers"], dims[:-1], dims[1:])
    ]


@jax.jit
def feed_forward(params, x):
    for p in params:
        x = jax.nn.tanh(p["W"] @ x + p["b"])
    return x


STRUCTURE = "PyTreeDef([{'W': *, 'b': *}, {'W': *, 'b': *}])"


def test_structure(params):
    shows(jax.tree_util.tree_structure(params), STRUCTURE)
    shows(
        jax.tree_util.tree_map(lambda leaf: str(leaf.shape), params),
        "[{'W': '(64, 784)', 'b': '(64,)'}, {'W': '(10, 64)', 'b': '(10,)'}]",
    )


def test_feed_forward(params):
    result = feed_forward(params, jax.random.normal(keys()["input"], (dims[0],)))
    expected = [
        0.5684842,
        -0.999739,
        1.0,
        -0.9595017,
        0.90584445,
        0.99999964,
        0.42488724,
        -0.97611463,
        -0.36365673,
        1.0,
    ]
    # 784 products of size one: the order of their sum moves the fifth digit.
    np.testing.assert_allclose(result, expected, rtol=2e-4)
    assert result.dtype == jnp.float32


# --- Transformations ------------------------------------------------------------------------------


def test_grad(capsys):
    def fn(x):
        return 2 * x  # derivative is 2 everywhere

    print(fn(5.0))
    print(jax.grad(fn)(5.0))
    print(jax.value_and_grad(fn)(5.0))
    prints(
        capsys,
        """10.0 2.0 (Array(10., dtype=float32, weak_type=True),
        Array(2., dtype=float32, weak_type=True))""",
    )


def test_gradients_have_the_parameters_structure(params):
    def dummy_loss_fn(params, x):
        y = feed_forward(params, x)
        return y.sum()

    grads = jax.grad(dummy_loss_fn)(params, jnp.zeros(dims[0]))
    shows(jax.tree_util.tree_structure(grads), STRUCTURE)


def test_gradients_of_several_arguments():
    def fn(x, y):
        return x * y**2

    shows(jax.grad(fn, argnums=1)(3.0, 2.0), "Array(12., dtype=float32, weak_type=True)")
    shows(
        jax.grad(fn, argnums=(0, 1))(3.0, 2.0),
        """(Array(4., dtype=float32, weak_type=True),
        Array(12., dtype=float32, weak_type=True))""",
    )


def test_second_derivative(capsys):
    def fn(x):
        return 2 * x**3

    x = 1.0
    grad_fn = jax.grad(fn)
    grad_grad_fn = jax.grad(grad_fn)
    print(f"d0x: {fn(x)}, d1x: {grad_fn(x)}, d2x: {grad_grad_fn(x)}")
    prints(capsys, "d0x: 2.0, d1x: 6.0, d2x: 12.0")


def test_auxiliary_output(params):
    def dummy_loss_fn(params, x):
        y = feed_forward(params, x)
        return y.sum(), y

    grad_loss_fn = jax.value_and_grad(dummy_loss_fn, has_aux=True)
    values, grads = grad_loss_fn(params, jnp.zeros(dims[0]))
    shows(
        (values, jax.tree_util.tree_structure(grads)),
        f"""((Array(0., dtype=float32),
        Array([0., 0., 0., 0., 0., 0., 0., 0., 0., 0.], dtype=float32)), {STRUCTURE})""",
    )


def test_jit_of_grad(params):
    loss = lambda params, x: feed_forward(params, x).sum()  # noqa: E731
    compiled = jax.jit(jax.grad(loss))(params, jnp.zeros(dims[0]))
    eager = jax.grad(loss)(params, jnp.zeros(dims[0]))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), compiled, eager)


def test_vmap(params):
    inputs = jax.random.normal(keys()["input"], (3, dims[0]))
    batched = jax.vmap(feed_forward, in_axes=(None, 0))(params, inputs)
    single = jnp.stack([feed_forward(params, x) for x in inputs])
    np.testing.assert_allclose(batched, single, rtol=2e-4, atol=1e-5)


def test_pmap(params):
    inputs = jnp.ones((jax.device_count(), dims[0]))
    spread = jax.pmap(feed_forward, in_axes=(None, 0))(params, inputs)
    np.testing.assert_allclose(spread[0], feed_forward(params, inputs[0]), rtol=2e-4, atol=1e-5)
