"""Convolutions as networks and pictures need them."""

from __future__ import annotations

from typing import Any

import scipy.signal

from ..space import Space
from . import torch_peers
from .registry import Case, data, workload

NHWC = ("NHWC", "HWIO", "NHWC")


@workload("convolution", "3x3, 8 x 32 x 32 x 64 to 64", torch=torch_peers.plain)
def plain(space: Space) -> Case:
    x, w = space.array(data(8, 32, 32, 64)), space.array(data(3, 3, 64, 64, seed=1))
    convolve = lambda x, w: space.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=NHWC)  # fmt: skip
    return Case(convolve, (x, w))


@workload(
    "convolution",
    "depthwise 3x3, 4 x 64 x 64 x 64",
    source="jax#23713",
    torch=torch_peers.depthwise,
)
def depthwise(space: Space) -> Case:
    x, w = space.array(data(4, 64, 64, 64)), space.array(data(3, 3, 1, 64, seed=1))
    convolve = lambda x, w: space.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=NHWC, feature_group_count=64)  # fmt: skip
    return Case(convolve, (x, w))


@workload(
    "convolution",
    "transposed 4x4 stride 2, 4 x 32 x 32 x 32",
    source="jax#23783",
    torch=torch_peers.transposed,
)
def transposed(space: Space) -> Case:
    x, w = space.array(data(4, 32, 32, 32)), space.array(data(4, 4, 32, 32, seed=1))
    convolve = lambda x, w: space.lax.conv_general_dilated(
        x, w, (1, 1), ((2, 2), (2, 2)), lhs_dilation=(2, 2), dimension_numbers=NHWC)  # fmt: skip
    return Case(convolve, (x, w))


@workload("convolution", "gradient of a 3x3 by its filter", torch=torch_peers.weight_gradient)
def weight_gradient(space: Space) -> Case:
    x, w = space.array(data(8, 16, 16, 32)), space.array(data(3, 3, 32, 32, seed=1))

    def loss(w: Any, x: Any) -> Any:
        y = space.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC)
        return (y * y).sum()

    return Case(lambda w, x: space.jax.grad(loss)(w, x), (w, x))


@workload("convolution", "5x5 filter on a picture, 427 x 640", source="seed 003",
          numpy=lambda x, k: scipy.signal.convolve2d(x, k, mode="same"),
          torch=torch_peers.picture)  # fmt: skip
def picture(space: Space) -> Case:
    x, k = space.array(data(427, 640)), space.array(data(5, 5, seed=1))
    return Case(lambda x, k: space.jax.scipy.signal.convolve2d(x, k, mode="same"), (x, k))


@workload("convolution", "1-d, 100000 by 64", numpy=True, torch=torch_peers.one_d)
def one_d(space: Space) -> Case:
    x, k = space.array(data(100_000)), space.array(data(64, seed=1))
    return Case(lambda x, k: space.jnp.convolve(x, k), (x, k))
