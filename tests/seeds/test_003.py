"""The examples of seed 003: tensors, an image filtered, devices, differences from NumPy."""

from __future__ import annotations

import copy
import importlib
import os
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import scipy.signal

import pullback as jax
import pullback.numpy as jnp
from pullback import lax
from pullback.scipy.signal import convolve2d

from seedlib import refuses, shows

# --- An image as an array -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def img():
    """As large as the document's photograph: 667 rows, 500 columns, 3 colours."""
    return np.random.RandomState(3).randint(0, 256, (667, 500, 3)).astype(np.uint8)


@pytest.mark.parametrize("namespace", [np, jnp], ids=["numpy", "pullback"])
def test_image_s_attributes(img, namespace):
    img = namespace.asarray(img)
    assert img.ndim == 3
    assert img.shape == (667, 500, 3)
    assert img.dtype == np.dtype("uint8")
    assert img.size == 1000500
    assert img.nbytes == 1000500
    ca = img.astype(np.float32)
    assert ca.nbytes == 4002000


def test_image_sliced_flipped_rotated(img):
    image = jnp.asarray(img)
    cat_face = image[80:220, 190:330, 1]
    assert cat_face.shape == (140, 140)
    np.testing.assert_array_equal(cat_face, img[80:220, 190:330, 1])
    np.testing.assert_array_equal(image[:, ::-1, :], img[:, ::-1, :])
    np.testing.assert_array_equal(jnp.flip(image, 1), np.flip(img, 1))
    np.testing.assert_array_equal(
        jnp.rot90(image, k=2, axes=(0, 1)), np.rot90(img, k=2, axes=(0, 1))
    )


# --- Filters --------------------------------------------------------------------------------------


def test_kernel_blur():
    kernel_blur = jnp.ones((5, 5))
    kernel_blur /= jnp.sum(kernel_blur)
    row = "[0.04, 0.04, 0.04, 0.04, 0.04]"
    shows(kernel_blur, f"Array([{', '.join([row] * 5)}], dtype=float32)")
    assert isinstance(kernel_blur, jax.Array)
    assert kernel_blur.dtype == jnp.float32


def gaussian_kernel(kernel_size, sigma=1.0, mu=0.0):
    """A Gaussian of the distance from the middle, on a square grid."""
    center = kernel_size // 2
    x, y = jnp.mgrid[-center : kernel_size - center, -center : kernel_size - center]
    d = jnp.sqrt(jnp.square(x) + jnp.square(y))
    scale = 1 / (2 * jnp.pi * jnp.square(sigma))
    return scale * jnp.exp(-jnp.square(d - mu) / (2 * jnp.square(sigma)))


def sharpening_kernel():
    return jnp.full((5, 5), -1.0, jnp.float32).at[2, 2].set(50.0)


def test_kernel_gauss():
    shows(
        gaussian_kernel(5),
        """Array(
      [[0.00291502, 0.01306424, 0.02153928, 0.01306424, 0.00291502],
       [0.01306424, 0.05854984, 0.09653235, 0.05854984, 0.01306424],
       [0.02153928, 0.09653235, 0.15915494, 0.09653235, 0.02153928],
       [0.01306424, 0.05854984, 0.09653235, 0.05854984, 0.01306424],
       [0.00291502, 0.01306424, 0.02153928, 0.01306424, 0.00291502]], dtype=float32)""",
    )


def test_kernel_sharpen():
    kernel = sharpening_kernel()
    kernel /= jnp.sum(kernel)
    row = "[-0.03846154, -0.03846154, -0.03846154, -0.03846154, -0.03846154]"
    middle = "[-0.03846154, -0.03846154, 1.923077, -0.03846154, -0.03846154]"
    shows(kernel, f"Array([{row}, {row}, {middle}, {row}, {row}], dtype=float32)")


def color_convolution(image, kernel):
    channels = []
    for i in range(3):
        filtered = convolve2d(image[:, :, i], kernel, mode="same")
        channels.append(jnp.clip(filtered, 0.0, 1.0))
    return jnp.stack(channels, axis=2)


def reference_convolution(image, kernel):
    channels = [scipy.signal.convolve2d(image[:, :, i], kernel, mode="same") for i in range(3)]
    return np.clip(np.stack(channels, axis=2), 0.0, 1.0)


def test_image_denoised_and_sharpened(img):
    image = img[:120, :90].astype(np.float32) / 255
    noised = np.clip(image + np.random.RandomState(0).normal(0, 0.1, image.shape), 0, 1)
    noised = noised.astype(np.float32)
    sharpen = sharpening_kernel() / sharpening_kernel().sum()
    blurred = color_convolution(jnp.asarray(noised), gaussian_kernel(5))
    restored = color_convolution(blurred, sharpen)
    expected = reference_convolution(noised, np.asarray(gaussian_kernel(5)))
    np.testing.assert_allclose(blurred, expected, atol=1e-5)
    np.testing.assert_allclose(
        restored, reference_convolution(expected, np.asarray(sharpen)), atol=2e-5
    )
    sheet = jnp.vstack((jnp.hstack((image, noised)), jnp.hstack((restored, blurred))))
    assert sheet.shape == (240, 180, 3)
    as_bytes = (restored * 255).round().astype(jnp.uint8)
    assert as_bytes.dtype == jnp.uint8


# --- Arrays ---------------------------------------------------------------------------------------


def test_arrays_printed():
    shows(np.array([1, 42, 31337]), "array([    1,    42, 31337])")
    shows(jnp.array([1, 42, 31337]), "Array([    1,    42, 31337], dtype=int32)")


def test_sums():
    assert np.sum([1, 42, 31337]) == 31380
    with refuses(TypeError, "sum requires ndarray or scalar arguments", "list", "at position 0"):
        jnp.sum([1, 42, 31337])
    shows(jnp.sum(jnp.array([1, 42, 31337])), "Array(31380, dtype=int32)")


@pytest.fixture
def arr():
    return jnp.array([1, 42, 31337])


def test_attributes(arr):
    assert (arr.ndim, arr.shape, arr.size, arr.nbytes) == (1, (3,), 3, 12)
    shows(arr.dtype, "dtype('int32')")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_copies(arr, duplicate):
    other = duplicate(arr)
    assert isinstance(other, jax.Array)
    shows(other, "Array([    1,    42, 31337], dtype=int32)")


def test_pickle(arr):
    other = pickle.loads(pickle.dumps(arr))
    assert isinstance(other, jax.Array)
    shows(other, "Array([    1,    42, 31337], dtype=int32)")


# --- Devices --------------------------------------------------------------------------------------


def test_devices(arr):
    cpu = jax.devices("cpu")[0]
    shows(cpu, "CpuDevice(id=0)")
    assert jax.devices()[0] == cpu and jax.local_devices()[0] == cpu
    assert jax.device_count() == len(jax.devices()) == jax.local_device_count()
    assert jax.process_index() == 0
    assert arr.devices() == {cpu}


def test_devices_of_an_absent_platform():
    with refuses(RuntimeError, "gpu", "cpu"):
        jax.device_count("gpu")


def test_device_put_and_get(arr):
    arr_cpu = jax.device_put(arr, jax.devices("cpu")[0])
    assert arr_cpu.devices() == {jax.devices("cpu")[0]}
    assert arr.devices() == {jax.devices()[0]}
    arr_host = jax.device_get(arr)
    assert type(arr_host) is np.ndarray
    shows(arr_host, "array([    1,    42, 31337], dtype=int32)")
    shows(jax.device_put(arr, None), "Array([    1,    42, 31337], dtype=int32)")
    shows(arr + arr_cpu, "Array([    2,    84, 62674], dtype=int32)")


def test_default_device():
    with jax.default_device(jax.devices("cpu")[0]):
        assert jnp.ones(3).devices() == {jax.devices("cpu")[0]}


def test_incompatible_devices():
    # The document has a GPU beside its CPU; here a process asks for two CPU devices at its start.
    program = (
        "import sys; sys.path[:] = {path!r}; import pullback as jax;"
        "jax.config.update('jax_num_cpu_devices', 2);"
        "a, b = (jax.device_put(jax.numpy.ones(3), d) for d in jax.devices());\n"
        "try: a + b\nexcept ValueError as error: print(error)"
    )
    if os.environ.get("PULLBACK_SEEDS_ORACLE") == "jax":
        program = program.replace("import pullback as jax", "import jax, jax.numpy")
    done = subprocess.run(
        [sys.executable, "-c", program.format(path=sys.path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert "incompatible devices" in done.stdout


# --- Asynchronous dispatch ------------------------------------------------------------------------


def test_dot_of_a_large_matrix():
    a = jnp.array(range(1000000)).reshape((1000, 1000))
    assert a.devices() == {jax.devices()[0]}
    x = jnp.dot(a, a)
    shows(x.block_until_ready()[0, :3], "Array([2121018208, 2121517708, 2122017208], dtype=int32)")


def test_device_is_an_attribute_now(arr):
    assert arr.device == jax.devices()[0]
    with refuses(TypeError, "not callable"):
        arr.device()


def test_names_of_the_tpu_set_up_are_gone():
    with pytest.raises(ImportError):
        importlib.import_module("pullback.tools.colab_tpu")
    with pytest.raises(ImportError):
        importlib.import_module("pullback.lib.xla_bridge")


# --- Immutability ---------------------------------------------------------------------------------


def test_no_item_assignment():
    a_jnp, a_np = jnp.array(range(10)), np.array(range(10))
    shows((int(a_np[5]), a_jnp[5]), "(5, Array(5, dtype=int32))")
    a_np[5] = 100
    with refuses(TypeError, "immutable", "x = x.at[idx].set(y)"):
        a_jnp[5] = 100
    a_jnp = a_jnp.at[5].set(100)
    shows(a_jnp[5], "Array(100, dtype=int32)")


UPDATES = [
    ("set", (7.0,), lambda v: 7.0),
    ("add", (7.0,), lambda v: v + 7),
    ("subtract", (7.0,), lambda v: v - 7),
    ("multiply", (7.0,), lambda v: v * 7),
    ("divide", (7.0,), lambda v: v / 7),
    ("power", (3.0,), lambda v: v**3),
    ("min", (2.0,), lambda v: min(v, 2)),
    ("max", (2.0,), lambda v: max(v, 2)),
    ("apply", (jnp.sin,), np.sin),
]


@pytest.mark.parametrize("name, args, function", UPDATES, ids=[u[0] for u in UPDATES])
def test_table_of_updates(name, args, function):
    x = np.array([1.0, 3.0, 5.0], np.float32)
    expected = x.copy()
    expected[1] = function(x[1])
    original = jnp.asarray(x)
    updated = getattr(original.at[1], name)(*args)
    np.testing.assert_allclose(updated, expected, rtol=1e-6)
    np.testing.assert_array_equal(original, x)
    np.testing.assert_allclose(
        jax.jit(lambda x: getattr(x.at[1], name)(*args))(x), expected, rtol=1e-6
    )


def test_get():
    shows(jnp.array([1.0, 3.0, 5.0]).at[1].get(), "Array(3., dtype=float32)")


def test_out_of_bounds():
    a_jnp = jnp.array(range(10))
    shows(a_jnp[42], "Array(9, dtype=int32)")
    shows(a_jnp.at[42].get(mode="drop"), "Array(-2147483648, dtype=int32)")
    shows(a_jnp.at[42].get(mode="fill", fill_value=-1), "Array(-1, dtype=int32)")
    a_jnp = a_jnp.at[42].set(100)
    shows(a_jnp, "Array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], dtype=int32)")
    a_jnp = a_jnp.at[42].set(100, mode="clip")
    shows(a_jnp, "Array([  0,   1,   2,   3,   4,   5,   6,   7,   8, 100], dtype=int32)")


# --- Types ----------------------------------------------------------------------------------------


def test_float64_by_the_flag():
    enabled = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        x = jnp.array(range(10), dtype=jnp.float64)
        shows(x.dtype, "dtype('float64')")
        assert (x / 3).dtype == np.float64
    finally:
        jax.config.update("jax_enable_x64", enabled)


def test_float64_without_it():
    with pytest.warns(UserWarning, match="float64.*truncated to dtype float32"):
        x = jnp.array(range(10), dtype=jnp.float64)
    shows(x.dtype, "dtype('float32')")


def test_narrow_floats():
    xb16 = jnp.array(range(10), dtype=jnp.bfloat16)
    x16 = jnp.array(range(10), dtype=jnp.float16)
    assert xb16.dtype == ml_dtypes.bfloat16
    shows(xb16.dtype, "dtype(bfloat16)")
    assert xb16.nbytes == 20
    shows(x16.dtype, "dtype('float16')")
    shows(xb16 + x16, "Array([ 0.,  2.,  4.,  6.,  8., 10., 12., 14., 16., 18.], dtype=float32)")
    shows(xb16 + xb16, "Array([0, 2, 4, 6, 8, 10, 12, 14, 16, 18], dtype=bfloat16)")


def test_sparse_arrays():
    sparse = importlib.import_module("pullback.experimental.sparse")
    dense = jnp.array([[0.0, 1.0], [2.0, 0.0]])
    matrix = sparse.BCOO.fromdense(dense)
    np.testing.assert_array_equal(matrix @ jnp.ones(2), dense @ jnp.ones(2))
    assert matrix.nse == 2


# --- jax.numpy and jax.lax ------------------------------------------------------------------------


def random_augmentation(image, augmentations, rng_key):
    """Applies a random transformation to an image."""
    augmentation_index = jax.random.randint(
        key=rng_key, minval=0, maxval=len(augmentations), shape=()
    )
    augmented_image = lax.switch(augmentation_index, augmentations, image)
    return augmented_image


def augmentations():
    noise = 0.1 * jax.random.normal(jax.random.key(7), (6, 6, 3))
    return [
        lambda image: image + noise,
        lambda image: image[:, ::-1, :],
        lambda image: jnp.rot90(image),
        lambda image: jnp.clip(image * jnp.array([1.1, 0.9, 1.0]), 0.0, 1.0),
    ]


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_random_augmentation(transform):
    image = jax.random.uniform(jax.random.key(1), (6, 6, 3))
    apply = transform(lambda image, key: random_augmentation(image, augmentations(), key))
    chosen = set()
    for seed in range(12):
        key = jax.random.key(seed)
        index = int(jax.random.randint(key=key, minval=0, maxval=4, shape=()))
        chosen.add(index)
        np.testing.assert_allclose(apply(image, key), augmentations()[index](image), rtol=1e-6)
    assert chosen == {0, 1, 2, 3}


def test_control_flow_primitives():
    shows(
        lax.cond(True, lambda x: x + 1, lambda x: x - 1, 1), "Array(2, dtype=int32, weak_type=True)"
    )
    shows(
        lax.while_loop(lambda x: x < 5, lambda x: x + 2, 0), "Array(6, dtype=int32, weak_type=True)"
    )
    shows(lax.fori_loop(0, 4, lambda i, x: x + i, 0), "Array(6, dtype=int32, weak_type=True)")
    carry, ys = lax.scan(lambda c, x: (c + x, c * x), 0.0, jnp.arange(3.0))
    shows((carry, ys), "(Array(3., dtype=float32), Array([0., 0., 2.], dtype=float32))")
    shows(lax.map(lambda x: x * x, jnp.arange(3)), "Array([0, 1, 4], dtype=int32)")
    shows(lax.associative_scan(jnp.add, jnp.arange(4)), "Array([0, 1, 3, 6], dtype=int32)")


def test_promotion_of_jnp_and_lax():
    shows(jnp.add(42, 42.0), "Array(84., dtype=float32, weak_type=True)")
    shows(jnp.add(42.0, 42.0), "Array(84., dtype=float32, weak_type=True)")
    with refuses(TypeError, "lax.add", "same dtypes", "int32", "float32"):
        lax.add(42, 42.0)
    shows(lax.add(jnp.float32(42), 42.0), "Array(84., dtype=float32)")
