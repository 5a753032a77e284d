"""Models as people train and run them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..space import Space
from . import torch_peers
from .registry import Case, data, workload


def mlp_parameters(space: Space, *sizes: int) -> list[dict[str, Any]]:
    return [
        {"w": space.array(data(i, o, seed=i) / np.float32(np.sqrt(i))), "b": space.array(data(o))}
        for i, o in itertools.pairwise(sizes)
    ]


def mlp(space: Space, params: list[dict[str, Any]], x: Any) -> Any:
    for layer in params[:-1]:
        x = space.jnp.maximum(x @ layer["w"] + layer["b"], 0)
    return x @ params[-1]["w"] + params[-1]["b"]


def cross_entropy(space: Space, logits: Any, labels: Any) -> Any:
    chances = space.jax.nn.log_softmax(logits)
    return -(chances * space.jax.nn.one_hot(labels, logits.shape[-1])).sum(-1).mean()


@workload("models", "MLP 784-512-512-10, step on 128", torch=torch_peers.mlp_step)
def mlp_step(space: Space) -> Case:
    labels = np.arange(128, dtype=np.int32) % 10

    def step(params: Any, x: Any, y: Any) -> Any:
        loss = lambda p: cross_entropy(space, mlp(space, p, x), y)
        value, slope = space.jax.value_and_grad(loss)(params)
        return space.jax.tree.map(lambda p, g: p - 0.1 * g, params, slope), value

    params = mlp_parameters(space, 784, 512, 512, 10)
    return Case(step, (params, space.array(data(128, 784)), space.array(labels)))


@workload("models", "MLP 8-16-16-1, one example", torch=torch_peers.mlp)
def small_mlp(space: Space) -> Case:
    params = mlp_parameters(space, 8, 16, 16, 1)
    return Case(lambda p, x: mlp(space, p, x), (params, space.array(data(8))))


@workload("models", "CNN on 8x8 digits, step on 64", torch=torch_peers.cnn_step)
def cnn_step(space: Space) -> Case:
    layout = ("NHWC", "HWIO", "NHWC")
    params = {
        "c1": space.array(data(3, 3, 1, 16)), "c2": space.array(data(3, 3, 16, 32) / 6),
        "d": space.array(data(512, 10) / 20),
    }  # fmt: skip

    def logits(p: Any, x: Any) -> Any:
        conv = space.lax.conv_general_dilated
        x = space.jax.nn.relu(conv(x, p["c1"], (1, 1), "SAME", dimension_numbers=layout))
        x = space.jax.nn.relu(conv(x, p["c2"], (2, 2), "SAME", dimension_numbers=layout))
        return x.reshape(x.shape[0], -1) @ p["d"]

    def step(p: Any, x: Any, y: Any) -> Any:
        loss = lambda p: cross_entropy(space, logits(p, x), y)
        value, slope = space.jax.value_and_grad(loss)(p)
        return space.jax.tree.map(lambda p, g: p - 0.1 * g, p, slope), value

    labels = np.arange(64, dtype=np.int32) % 10
    return Case(step, (params, space.array(data(64, 8, 8, 1)), space.array(labels)))


@workload("models", "attention, 2 x 4 heads x 256 x 32", torch=torch_peers.attention)
def attention(space: Space) -> Case:
    jnp = space.jnp

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(jnp.float32(q.shape[-1]))
        scores = jnp.where(jnp.tril(jnp.ones((256, 256), bool)), scores, -1e9)
        return jnp.einsum("bhqk,bhkd->bhqd", space.jax.nn.softmax(scores), v)

    return Case(attend, tuple(space.array(data(2, 4, 256, 32, seed=s)) for s in range(3)))


WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH = 128, 4, 6, 256, 64


def gpt_parameters(space: Space) -> dict[str, Any]:
    def weight(*shape: int, seed: int) -> Any:
        return space.array(data(*shape, seed=seed) / np.float32(np.sqrt(shape[0])))

    one, zero = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
    layers = [
        {
            "qkv": weight(WIDTH, 3 * WIDTH, seed=k), "out": weight(WIDTH, WIDTH, seed=k + 10),
            "up": weight(WIDTH, 4 * WIDTH, seed=k + 20),
            "down": weight(4 * WIDTH, WIDTH, seed=k + 30),
            "norm1": (space.array(one), space.array(zero)),
            "norm2": (space.array(one), space.array(zero)),
        }
        for k in range(LAYERS)
    ]  # fmt: skip
    embedding, places = weight(VOCABULARY, WIDTH, seed=50), weight(LENGTH, WIDTH, seed=51)
    norm = space.array(one), space.array(zero)
    return {"layers": layers, "embedding": embedding, "places": places, "norm": norm}


def gpt(space: Space, params: dict[str, Any], tokens: Any) -> Any:
    """Logits of a decoder whose layers are a Python loop, as users write it."""
    jnp, nn = space.jnp, space.jax.nn

    def norm(x: Any, scale: Any, bias: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        square = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * space.lax.rsqrt(square + 1e-5) * scale + bias

    def attend(layer: Any, x: Any) -> Any:
        b, t, _ = x.shape
        q, k, v = jnp.split((x @ layer["qkv"]).reshape(b, t, HEADS, -1), 3, axis=-1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH / HEADS)
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v)
        return mixed.reshape(b, t, -1) @ layer["out"]

    x = params["embedding"][tokens] + params["places"]
    for layer in params["layers"]:
        x = x + attend(layer, norm(x, *layer["norm1"]))
        x = x + nn.gelu(norm(x, *layer["norm2"]) @ layer["up"]) @ layer["down"]
    return norm(x, *params["norm"]) @ params["embedding"].T


@workload("models", "GPT of 6 layers, step on 8 x 64 tokens", torch=torch_peers.gpt_step(HEADS))
def gpt_step(space: Space) -> Case:
    def step(params: Any, tokens: Any, following: Any) -> Any:
        loss = lambda p: cross_entropy(space, gpt(space, p, tokens), following)
        value, slope = space.jax.value_and_grad(loss)(params)
        return space.jax.tree.map(lambda p, g: p - 0.1 * g, params, slope), value

    text = np.random.default_rng(0).integers(0, VOCABULARY, (8, LENGTH + 1), dtype=np.int32)
    given, following = space.array(text[:, :-1]), space.array(text[:, 1:])
    return Case(step, (gpt_parameters(space), given, following))


@workload("models", "logistic regression, Hessian, 1000 x 20", torch=torch_peers.hessian)
def hessian(space: Space) -> Case:
    jnp = space.jnp

    def loss(w: Any, x: Any, y: Any) -> Any:
        return jnp.logaddexp(0.0, -y * (x @ w)).mean()

    y = np.where(data(1000, seed=2) > 0, 1, -1).astype(np.float32)
    arguments = (data(20), data(1000, 20, seed=1), y)
    return Case(lambda *args: space.jax.hessian(loss)(*args), tuple(map(space.array, arguments)))


@workload("models", "Adam on 100 leaves of 1000", torch=torch_peers.adam)
def adam(space: Space) -> Case:
    leaves = [space.array(data(1000, seed=i)) for i in range(100)]

    def update(p: Any, m: Any, v: Any, g: Any) -> Any:
        tree = space.jax.tree
        m = tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        move = lambda p, m, v: p - 1e-3 * m / (space.jnp.sqrt(v) + 1e-8)
        return tree.map(move, p, m, v), m, v

    square = [leaf * leaf for leaf in leaves]
    return Case(update, (leaves, leaves, square, leaves))


@workload(
    "models", "Gaussian process, likelihood and gradient, 300", torch=torch_peers.gaussian_process
)
def gaussian_process(space: Space) -> Case:
    jnp = space.jnp

    def likelihood(log_scale: Any, x: Any, y: Any) -> Any:
        square = ((x[:, None] - x[None]) / jnp.exp(log_scale)) ** 2
        kernel = jnp.exp(-0.5 * square) + 0.1 * jnp.eye(len(x))
        lower = jnp.linalg.cholesky(kernel)
        alpha = space.jax.scipy.linalg.solve_triangular(lower, y, lower=True)
        return 0.5 * alpha @ alpha + jnp.log(jnp.diag(lower)).sum()

    arguments = (np.float32(0.0), data(300), data(300, seed=1))
    return Case(
        lambda *args: space.jax.value_and_grad(likelihood)(*args),
        tuple(map(space.array, arguments)),
    )
