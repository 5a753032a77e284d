"""nn beside real JAX: values, dtypes, weak types."""

import jax.nn
import numpy as np
import pytest
from oracle_compare import same

import pullback

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
NAMES = (
    "relu relu6 sigmoid soft_sign softplus silu gelu elu celu selu leaky_relu glu hard_sigmoid "
    "hard_silu hard_tanh log_sigmoid "
    "log_softmax softmax logsumexp logmeanexp standardize squareplus mish sparse_plus "
    "sparse_sigmoid tanh identity"
).split()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_activation(name, dtype):
    same(lambda nn: getattr(nn, name)(X.astype(dtype)), "nn", 2e-2 if dtype == "bfloat16" else 2e-5)


@pytest.mark.parametrize(
    "f",
    [
        lambda nn: nn.gelu(X, approximate=False),
        lambda nn: nn.softmax(X, axis=(0, 1)),
        lambda nn: nn.softmax(X, where=X > 0),
        lambda nn: nn.log_softmax(X, where=X > 0),
        lambda nn: nn.logsumexp(X, b=X, axis=1),
        lambda nn: nn.logsumexp(X, b=X, axis=1, return_sign=True),
        lambda nn: nn.logsumexp(X, where=X > 0, axis=1, keepdims=True),
        lambda nn: nn.logmeanexp(X, where=X > 0, axis=1),
        lambda nn: nn.standardize(X, where=X > 0),
        lambda nn: nn.standardize(X, algorithm="stable"),
        lambda nn: nn.standardize(X, algorithm="other"),
        lambda nn: nn.one_hot(np.array([0, 2, -1, 5]), 3),
        lambda nn: nn.one_hot(np.array([[0], [1]]), 3, axis=0, dtype="int32"),
        lambda nn: nn.one_hot(np.array([1]), 3, axis=5),
        lambda nn: nn.log1mexp(np.abs(X) + 0.1),
        lambda nn: nn.glu(X[:, :3]),
        lambda nn: nn.softmax([1.0, 2.0]),
    ],
)
def test_forms_and_errors(f):
    same(f, "nn")


def _attention(**kwargs):
    rng = np.random.default_rng(1)
    q, k = (
        rng.normal(size=(2, 5, 4, 8)).astype("float32"),
        rng.normal(size=(2, 6, 2, 8)).astype("float32"),
    )
    return lambda nn: nn.dot_product_attention(q, k, k[::-1], **kwargs)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3, "return_residual": True},
        {"query_seq_lengths": np.array([3, 4]), "key_value_seq_lengths": np.array([2, 6])},
        {"local_window_size": (2, 1)},
        {"bias": np.linspace(0, 1, 120).reshape(1, 4, 5, 6).astype("float32")},
        {"mask": np.eye(5, 6, dtype=bool)[None, None] | np.eye(5, 6, 1, dtype=bool)},
        {"implementation": "other"},
    ],
    ids=str,
)
def test_attention(kwargs):
    same(_attention(**kwargs), "nn", 1e-4)


@pytest.mark.parametrize("x", [[1.0, 0.0], 2.0, np.float32(1)], ids=str)
def test_indices_of_one_hot_are_integers(x):
    for nn in (jax.nn, pullback.nn):
        with pytest.warns(DeprecationWarning, match="one_hot input should be integer-typed"):
            out = nn.one_hot(x, 3)
        np.testing.assert_array_equal(out, np.eye(3)[np.asarray(x, int)])


def test_namespace():
    import pullback.nn

    assert set(pullback.nn.__all__) >= {n for n in dir(jax.nn) if not n.startswith("_")}


@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3), (3, 3, 4, 4)])
def test_orthogonal_initializers(shape: tuple[int, ...]) -> None:
    names = ["orthogonal", "delta_orthogonal"] if len(shape) == 4 else ["orthogonal"]
    for name in names:
        ours = getattr(pullback.nn.initializers, name)()(pullback.random.key(0), shape)
        theirs = getattr(jax.nn.initializers, name)()(jax.random.key(0), shape)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "bool"])
@pytest.mark.parametrize("name", ["softplus", "mish", "log_sigmoid", "log1mexp"])
def test_activations_of_integers_are_typed_as_jaxs(name, dtype):
    """Weak types do not come from their own constants; negation is in the argument's type."""
    x = np.array([1, 0, 2, 1]).astype(dtype)
    try:
        want = getattr(jax.nn, name)(x)
    except TypeError:
        with pytest.raises(TypeError):
            getattr(pullback.nn, name)(x)
    else:
        got = getattr(pullback.nn, name)(x)
        assert (got.dtype, got.weak_type) == (want.dtype, want.weak_type)
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-3)


@pytest.mark.parametrize(
    "f",
    [
        lambda ones, a: a(ones(2, 4, 2, 3), ones(3, 5, 2, 3), ones(3, 5, 2, 3)),
        lambda ones, a: a(ones(2, 4, 2, 3), ones(5, 2, 3), ones(5, 2, 3)),
        lambda ones, a: a(ones(2, 4, 2, 3), ones(2, 5, 2, 3), ones(2, 6, 2, 3)),
        lambda ones, a: a(ones(2, 4, 2, 4), ones(2, 5, 2, 3), ones(2, 5, 2, 3)),
        lambda ones, a: a(ones(2, 4, 2, 3), ones(2, 5, 2, 3).astype("bfloat16"), ones(2, 5, 2, 3)),
        lambda ones, a: a(*[ones(2, 4, 2, 3)] * 3, query_seq_lengths=ones(2)),
        lambda ones, a: a(*[ones(2, 4, 2, 3)] * 3, key_value_seq_lengths=ones(3).astype("int32")),
        lambda ones, a: a(*[ones(2, 4, 2, 3)] * 3, key_value_seq_lengths=ones(2, 1)),
    ],
)
def test_attention_refuses_in_jaxs_words(f):
    def refusal(lib):
        with pytest.raises(ValueError) as info:
            f(lambda *shape: lib.numpy.ones(shape), lib.nn.dot_product_attention)
        return str(info.value)

    assert refusal(jax) == refusal(pullback)
