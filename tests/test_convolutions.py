"""Convolutions of three spatial axes, and gradients by filters of few or lone features: beside JAX,
and what they become."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import numpy as jax_numpy

import pullback as pb
from pullback import numpy as jnp
from pullback.backends.reference import RULES
from pullback.loops import pipeline
from pullback.loops.show import show_kernel
from pullback.runtime.executable import reference_rule

assert RULES
RANDOM = np.random.default_rng(3)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def same(f, *arguments, tolerance=3e-5):
    """f(module, numpy) under both libraries, to a tolerance relative to the largest element."""
    want = jax.jit(lambda *a: f(jax, jax_numpy, *a))(*arguments)
    got = pb.jit(lambda *a: f(pb, jnp, *a))(*arguments)
    for w, g in zip(jax.tree.leaves(want), pb.tree_util.tree_leaves(got), strict=True):
        w, g = (np.asarray(v).astype(np.float64) for v in (w, g))
        assert w.shape == g.shape
        assert np.abs(w - g).max(initial=0.0) <= tolerance * np.abs(w).max(initial=1e-30)


def program(function, *arguments):
    return pipeline.compile_jaxpr(pb.make_jaxpr(function)(*arguments), reference_rule)


def temporaries(compiled):
    return sum(s.bytes for s in compiled.slots if s.role == "temp")


LAST, FIRST = ("NDHWC", "DHWIO", "NDHWC"), ("NCDHW", "OIDHW", "NCDHW")
SPACES = {
    "same": {"padding": "SAME"},
    "strided": {"padding": "SAME", "window_strides": (2, 1, 3)},
    "dilated": {"padding": "SAME", "rhs_dilation": (2, 1, 2)},
    "transposed": {"padding": ((1, 2), (0, 1), (-1, 3)), "lhs_dilation": (2, 1, 3)},
    "as it lies": {"padding": "VALID"},
}


@pytest.mark.parametrize("layout", [FIRST, LAST, ("NDHWC", "OIDHW", "NCDHW")], ids=str)
@pytest.mark.parametrize("name", SPACES)
def test_three_spatial_axes(layout, name):
    sizes = {"N": 2, "C": 5, "D": 6, "H": 7, "W": 9}
    x = numbers(*(sizes[c] for c in layout[0]))
    w = numbers(*({"O": 9, "I": 5, "D": 3, "H": 3, "W": 2}[c] for c in layout[1]))

    def f(module, np_, x, w):
        given = {"window_strides": (1, 1, 1), **SPACES[name]}
        y = module.lax.conv_general_dilated(x, w, dimension_numbers=layout, **given)
        return y, np_.maximum(y, 0) * 2

    same(f, x, w)
    square = lambda module, np_: lambda x, w: (f(module, np_, x, w)[0] ** 2).sum()
    same(lambda m, np_, x, w: m.grad(square(m, np_), (0, 1))(x, w), x, w, tolerance=1e-4)
    narrow = [v.astype(jnp.bfloat16) for v in (x, w)]
    same(f, *narrow, tolerance=2e-2)


@pytest.mark.parametrize("layout", [FIRST, LAST], ids=str)
def test_lines_of_planes_are_brought_near(layout):
    """Padding is not written out, and what a plane's windows read is multiplied by blocks."""
    sizes = {"N": 2, "C": 8, "D": 10, "H": 12, "W": 14}
    x = numbers(*(sizes[c] for c in layout[0]))
    w = numbers(*({"O": 16, "I": 8, "D": 3, "H": 3, "W": 3}[c] for c in layout[1]))
    f = lambda x, w: pb.lax.conv_general_dilated(x, w, (1, 1, 1), "SAME", dimension_numbers=layout)
    compiled = program(f, x, w)
    assert len(compiled.kernels) == 1
    assert temporaries(compiled) == 0
    assert "near" in show_kernel(compiled.kernels[0])


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(("channels", "features"), [(16, 3), (10, 1), (8, 2)])
@pytest.mark.parametrize("padding", ["SAME", "VALID", ((-1, 3), (2, 0))], ids=str)
def test_gradients_by_filters_of_few_features(layout, channels, features, padding):
    """The operand's features fill the lanes, rather than the few of the result."""
    numbering = layout, {"NHWC": "HWIO", "NCHW": "OIHW"}[layout], layout
    sizes = {"N": 3, "H": 30, "W": 24, "C": channels, "I": channels, "O": features}
    x = numbers(*(sizes[c] for c in layout))
    w = numbers(*({**sizes, "H": 3, "W": 5}[c] for c in numbering[1]))

    def gradient(module, x, w):
        f = lambda w: module.lax.conv_general_dilated(
            x, w, (1, 1), padding, dimension_numbers=numbering)  # fmt: skip
        return module.grad(lambda w: (f(w) ** 2).sum())(w)

    same(lambda module, _, x, w: gradient(module, x, w), x, w, tolerance=1e-4)
    closed = pb.make_jaxpr(lambda x, w: gradient(pb, x, w))(x, w)
    kernels = pipeline.compile_jaxpr(closed, reference_rule).kernels
    assert any("call tile_f32" in show_kernel(k) for k in kernels[1:])


@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_by_filters_of_features_apart_run_along_lines(stride):
    x, w = numbers(3, 8, 21, 30), numbers(8, 1, 3, 3)

    def gradient(module, x, w):
        f = lambda w: module.lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", feature_group_count=8)  # fmt: skip
        return module.grad(lambda w: (f(w) ** 2).sum())(w)

    same(lambda module, _, x, w: gradient(module, x, w), x, w, tolerance=1e-4)
    text = show_kernel(program(lambda x, w: gradient(pb, x, w), x, w).kernels[-1])
    if stride == 1:  # lanes are positions of a line, not images
        innermost = [line for line in text.splitlines() if "for reduce" in line]
        assert innermost
        assert not any("0:i64..3:i64" in line for line in innermost)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("window", [1, 3])
def test_gradients_by_filters_first_are_packed_from_where_they_lie(groups, window):
    """Cotangents of NCHW are contiguous along images' planes only: each plane is transposed into
    panels, and no place is found by dividing."""
    x, w = numbers(5, 8, 13, 12), numbers(20, 8 // groups, window, window)

    def gradient(module, x, ct):
        f = lambda w: module.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", feature_group_count=groups)  # fmt: skip
        return module.vjp(f, w)[1](ct)[0]

    ct = numbers(5, 20, 13, 12)
    same(lambda module, _, x, ct: gradient(module, x, ct), x, ct, tolerance=1e-4)
    compiled = program(lambda x, ct: gradient(pb, x, ct), x, ct)
    text = "".join(map(show_kernel, compiled.kernels))
    assert "call turn_f32(@in" in text
    assert "@read" not in text


@pytest.mark.parametrize(
    ("shape", "to", "name"),
    [
        ((23, 37), (1, 1, 23, 37), "reshape"),
        ((23, 37), (1, 1, 23, 37), "broadcast"),
        ((3, 5, 391), (3, 5, 17, 23), "reshape"),
        ((3 * 5 * 17, 23), (3, 5, 17, 23), "reshape"),
    ],
)
@pytest.mark.parametrize("source", ["argument", "convolution"])
def test_an_operand_in_another_shape_is_read_where_it_lies(shape, to, name, source):
    """No copy is made of what is in memory already; also in loops that write it in place, and
    where it is donated."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=to if source == "convolution" else shape).astype(np.float32)
    w = rng.normal(size=(to[1], to[1], 3, 3)).astype(np.float32)

    def step(jax, x, w):
        conv = lambda x: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")
        if source == "convolution":
            x = conv(x).reshape(shape)
        axes = tuple(range(len(to) - len(shape), len(to)))
        into = {
            "reshape": lambda: x.reshape(to),
            "broadcast": lambda: jax.lax.broadcast_in_dim(x, to, axes),
        }[name]()
        return conv(into)

    def loop(jax, x, w):
        body = lambda _, u: u + 0.01 * step(jax, u, w).reshape(u.shape)
        return jax.lax.fori_loop(0, 5, body, x)

    compiled = pipeline.compile_jaxpr(
        pb.make_jaxpr(lambda x, w: step(pb, x, w))(x, w), reference_rule
    )
    kernels = [kernel.name for kernel in compiled.kernels]
    assert all(n.startswith("conv") for n in kernels), kernels
    for f in (step, loop):
        want = jax.jit(lambda x, w, f=f: f(jax, x, w))(x, w)
        mine = lambda x, w, f=f: f(pb, x, w)
        for got in (pb.jit(mine)(x, w), pb.jit(mine, donate_argnums=0)(jnp.asarray(x) + 0, w)):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


def test_sizes_for_a_stride_of_zero_are_refused():
    for call in (
        lambda: pb.lax.conv_shape_tuple((1, 2, 5, 5), (3, 2, 3, 3), (0, 1), [(0, 0)] * 2),
        lambda: pb.lax.conv_shape_tuple((1, 2, 5, 5), (3, 2, 3, 3), (0, 1), "SAME"),
        lambda: pb.lax.conv_general_shape_tuple(
            (1, 2, 5, 5), (3, 2, 3, 3), (1, 0), "VALID", ("NCHW", "OIHW", "NCHW")
        ),
    ):
        with pytest.raises(ValueError, match="strides of a convolution must be positive, got 0"):
            call()
