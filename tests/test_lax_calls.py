"""Calls of lax and its transformations that once differed from JAX's: results, the words of errors,
and programs. Expressions are written as in sweep_cases.py.
"""

from __future__ import annotations

import functools
import itertools
import re
import warnings
from typing import Any

import oracle_flags  # noqa: F401

# isort: split
import jax
import pytest
import sweep_cases
from recorded_answers import compare

import pullback


@functools.cache
def names(root: str) -> dict[str, Any]:
    lib = pullback if root == "pullback" else jax
    struct = lib.ShapeDtypeStruct
    return sweep_cases.environment(root) | {
        "spec": lambda shape, dtype="float32": struct(shape, dtype),
        "GDN": lib.lax.GatherDimensionNumbers,
        "SDN": lib.lax.ScatterDimensionNumbers,
        "idx": lambda values: lib.numpy.asarray(values, "int32"),
    }


def error(source: str, root: str) -> tuple[list[str], str]:
    """The classes of an expression's error, and the first line of its words without the fix."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(source, dict(names(root)))
        except Exception as found:
            words = re.sub(r"np\.int64\((-?\d+)\)", r"\1", str(found).split("\n")[0])
            return [t.__name__ for t in type(found).__mro__], words
    raise AssertionError(f"{root}: {source} raised nothing")


VALUES = [
    # No spatial axes: a product of matrices.
    "lax.conv_general_dilated(f4(2, 3), f4(4, 3, s=2), (), 'VALID')",
    "lax.conv_general_dilated(c8(3, 3), c8(3, 3, s=2), (), 'SAME')",
    "jax.grad(lambda x: (lax.conv_general_dilated(x, f4(4, 3, s=2), (), ()) ** 2).sum())(f4(2, 3))",
    # Initial values that are not neutral are combined once, not for each place outside.
    "lax.reduce_window(f4(4, 5), 2., lax.mul, (2, 2), (1, 1), ((1, 0), (0, 2)))",
    "lax.reduce_window(f4(4), -1., lambda a, b: a * b + b, (3,), (1,), 'SAME', (2,))",
    "lax.reduce_window(c8(4), jnp.complex64(2), lax.mul, (2,), (1,), ((1, 2),))",
    "jax.jvp(lambda x: lax.reduce_window(x, 2., lax.mul, (2,), (1,), ((1, 2),)), (f4(4),), "
    "(f4(4, s=2),))",
    # The computation's results say the structure.
    "lax.reduce((f4(3), f4(3, s=2)), (0., 0.), lambda a, b: [a[0] + b[0], a[1] * b[1]], (0,))",
    "jax.tree.structure(lax.reduce([f4(3)], [0.], lambda a, b: (a[0] * b[0],), (0,))) "
    "== jax.tree.structure((0,))",
    # Cotangents of products of real numbers in complex ones.
    "jax.grad(lambda x: lax.dot_general(x, f4(3, 2, s=2), (((1,), (0,)), ((), ())), "
    "preferred_element_type='complex64').real.sum())(f4(2, 3))",
]


@pytest.mark.parametrize("call", VALUES)
def test_values(call: str) -> None:
    got, wanted = (sweep_cases.evaluated(call, names(r)) for r in ("pullback", "jax"))
    assert "error" not in wanted
    for _ in range(12):  # native from some call on
        compare(got, wanted, scaled=True)
        got = sweep_cases.evaluated(call, names("pullback"))


REFUSED = [
    "lax.dynamic_slice(f4(3, 4), (True, i4()), (2, 2))",
    "lax.dynamic_slice(f4(3, 4), (-1, u1()), (2, 2), allow_negative_indices=False)",
    "lax.dynamic_update_slice(f4(3, 4), f4(2, 2), (i4(), i1()))",
    "lax.reduce_window(f2(4), np.float32(0), lambda a, b: a * b, (2,))",
    "lax.reduce_window(f4(4, 5), 0., lax.mul, (2,), (2, 1), 'VALID')",
    "jax.jit(lambda x: lax.axis_index('i'))(f4(3))",
    "lax.reduce_window([f4(3)], [0.], lambda a, b: (a[0] * b[0],), (2,))",
    "jax.linear_transpose(lambda x: x * 2, b1(3))",
    "jax.linear_transpose(lambda x: x.astype(int), f4(3))",
]


def refused_gathers() -> list[str]:
    """Numbers of gather that each break one of its laws."""
    template = "jax.eval_shape(lambda x, i: lax.gather(x, i, GDN{}, {}), spec((3, 4, 5)), spec({}))"
    vectors, pairs, batched = (f"{s}, 'int32'" for s in ("(2, 1)", "(2, 2)", "(3, 2, 1)"))
    rows = [
        (((0,), (0,), (0,)), (1, 4, 5), "(), 'int32'"),
        (((1, 2), (0,), (0,)), (1, 4, 5), "(2, 1), 'float32'"),
        (((2, 1), (0,), (0,)), (1, 4, 5), vectors),
        (((1, 1), (0,), (0,)), (1, 4, 5), vectors),
        (((1, 7), (0,), (0,)), (1, 4, 5), vectors),
        (((-1, 1), (0,), (0,)), (1, 4, 5), vectors),
        (((1, 2), (0,), (0,)), (1, 4, 5), pairs),
        (((1, 2), (0,), (0, 0)), (1, 4, 5), pairs),
        (((1, 2), (0,), (9,)), (1, 4, 5), vectors),
        (((1,), (1, 0), (0,)), (1, 1, 5), vectors),
        (((1,), (0, 0), (0,)), (1, 1, 5), vectors),
        (((1,), (0, 9), (0,)), (1, 1, 5), vectors),
        (((2,), (1,), (1,), (1, 0), (0, 1)), (1, 1, 5), batched),
        (((2,), (1,), (1,), (0, 0), (0, 1)), (1, 1, 5), batched),
        (((2,), (1,), (1,), (9,), (0,)), (1, 1, 5), batched),
        (((2,), (1,), (1,), (1,), (0,)), (1, 1, 5), batched),
        (((2,), (), (1,), (1,), (0,)), (1, 1, 5), batched),
        (((2,), (1,), (1,), (0,), (0, 0)), (1, 1, 5), batched),
        (((2,), (1,), (1,), (0,), (9,)), (1, 1, 5), batched),
        (((2,), (1,), (1,), (0,), (2,)), (1, 1, 5), batched),
        (((2,), (1,), (1,), (0,), (0, 1)), (1, 1, 5), batched),
        (((2,), (1,), (1,), (0,), (1,)), (1, 1, 5), batched),
        (((2,), (1,), (1,), (0,), (0,)), (1, 1), batched),
        (((2,), (1,), (1,), (0,), (0,)), (1, 1, 6), batched),
        (((2,), (1,), (1,), (0,), (0,)), (2, 1, 5), batched),
        (((2,), (1,), (1,), (0,), (0,)), (1, 2, 5), batched),
        (((2, 3), (1,), (1,), (0,), (0,)), (1, 1, 5), batched),
    ]
    return [template.format(*row) for row in rows]


def refused_scatters() -> list[str]:
    """Numbers of scatter that each break one of its laws, and updates that do not fit."""
    template = (
        "jax.eval_shape(lambda x, i, u: lax.scatter_add(x, i, u, SDN{}), spec((3, 4, 5)), "
        "spec({}, {!r}), spec({}))"
    )
    rows: list[tuple[Any, ...]] = [
        (((0, 1), (0,), (0,)), (), "int32", (4, 5)),
        (((1, 2), (0,), (0,)), (2, 1), "float32", (2, 4, 5)),
        (((1, 2), (0,), (0,)), (2, 1), "int32", (2, 4, 5, 1)),
        (((1, 2), (0,), (0,)), (2, 1), "int32", (2, 4, 6)),
        (((1, 2), (0,), (0,)), (2, 1), "int32", (3, 4, 5)),
    ]
    plain = [
        *(((2, 1), (0,), (0,)), ((1, 1), (0,), (0,)), ((1, 9), (0,), (0,))),
        *(((1, 2), (0, 1), (0,)), ((1, 2), (0,), (0, 0)), ((1, 2), (0,), (9,))),
    ]
    rows += [(numbers, (2, 1), "int32", (2, 4, 5)) for numbers in plain]
    rows += [
        (((1,), inserted, (0,)), (2, 1), "int32", (2, 5)) for inserted in ((1, 0), (0, 0), (0, 9))
    ]
    batched = [
        *(((2,), (1,), (1,), (1,), (0,)), ((2,), (1,), (0,), (0,), (0,))),
        *(((2,), (), (1,), (1, 0), (0, 1)), ((2,), (), (1,), (0, 0), (0, 1))),
        *(((2,), (), (1,), (0, 9), (0, 1)), ((2,), (1,), (1,), (0,), (0, 0))),
        *(((2,), (1,), (1,), (0,), (9,)), ((2,), (1,), (1,), (0,), (2,))),
        *(((2,), (1,), (1,), (0,), (0, 1)), ((2,), (1,), (1,), (0,), (1,))),
    ]
    rows += [(numbers, (3, 2, 1), "int32", (3, 2, 5)) for numbers in batched]
    return [template.format(*row) for row in rows]


@pytest.mark.parametrize("call", [*REFUSED, *refused_gathers(), *refused_scatters()])
def test_refused_in_the_same_words(call: str) -> None:
    (got, words), (wanted, theirs) = (error(call, root) for root in ("pullback", "jax"))
    assert wanted[0] in got
    # JAX asks for shard_map where we name what binds an axis.
    assert theirs.split(" To fix this,")[0].rstrip(". ") in words


def test_scattered_axis_is_checked_under_vmap() -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        f = lambda x: pullback.lax.psum_scatter(x, "i", scatter_dimension=1)
        pullback.vmap(f, axis_name="i")(pullback.numpy.ones(4))


NAMED = [
    ("jax.jit(lambda x, y: y, static_argnums=0)(1, 's')", "path y."),
    ("jax.jit(lambda x: x)(1, {'q': 's'})", "path args[1]['q']."),
    ("jax.jit(lambda x: x)(1, z='s')", "path kwargs['z']."),
]


@pytest.mark.parametrize("call, path", NAMED)
def test_the_argument_that_is_no_array_is_named(call: str, path: str) -> None:
    for root in ("pullback", "jax"):
        assert path in error(call, root)[1]


@pytest.mark.parametrize("root", ["pullback", "jax"])
def test_the_operation_that_gives_nan_is_named_inside_of_jit(root: str) -> None:
    lib = pullback if root == "pullback" else jax
    inner = lib.jit(lambda x: lib.numpy.sqrt(x) * 2)
    x = lib.numpy.array([-1.0, 2.0])
    for f, operation in (
        (lambda x: lib.numpy.log(x) + 1, "log"),
        (lambda x: inner(x) + 1, "sqrt"),
        (lib.grad(lambda x: (lib.numpy.sqrt(x) * 0).sum()), "mul"),
    ):
        argument = x * 0 if operation == "mul" else x
        with lib.debug_nans(True), pytest.raises(FloatingPointError, match="in " + operation):
            lib.jit(f)(argument)
    with lib.debug_infs(True), pytest.raises(FloatingPointError, match="in div"):
        lib.jit(lambda x: (1 / x + 1, x))(x * 0)


# (a function, its arguments): its program, and those of its derivatives, are JAX's.
PROGRAMS = [
    (
        "lambda x, i: lax.gather(x, i, GDN((1,), (0,), (0,)), (1, 4), mode='clip', fill_value=7)",
        "f4(3, 4), idx([[0], [5]])",
    ),
    (
        "lambda x: lax.dynamic_index_in_dim(x, 1, keepdims=False)",
        "f4(3, 4)",
    ),
    (
        "lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), "
        "preferred_element_type='float32')",
        "bf(2, 3), bf(3, 2)",
    ),
    (
        "lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), "
        "preferred_element_type='complex64')",
        "f2(2, 3), f2(3, 2)",
    ),
    (
        "lambda x, u: lax.scatter(x, jnp.array([[0], [1]]), u, SDN((1,), (0,), (0,)))",
        "f4(3, 4), f4(2, 4)",
    ),
]
CONVOLVED = [
    (
        "lambda x, w: lax.conv_general_dilated(x, w, (2, 1), 'SAME')",
        "f4(2, 4, 5, 6), f4(3, 4, 2, 3)",
    ),
    (
        "lambda x, w: lax.conv_general_dilated(x, w, (1,), 'SAME', "
        "dimension_numbers=('NHC', 'HIO', 'NHC'), preferred_element_type='float32')",
        "bf(2, 5, 3), bf(2, 3, 4)",
    ),
]
FORWARD = [
    (
        "lambda x, u: lax.scatter_max(x, jnp.array([[0], [1]]), u, SDN((1,), (0,), (0,)))",
        "f4(3, 4), f4(2, 4)",
    ),
]


def program(function: str, arguments: str, mode: str, root: str) -> str:
    lib = pullback if root == "pullback" else jax
    f, args = eval(f"({function}, ({arguments},))", dict(names(root)))
    floats = [k for k, a in enumerate(args) if lib.numpy.issubdtype(a.dtype, lib.numpy.floating)]

    def of_floats(*xs: Any) -> Any:
        full = list(args)
        for k, x in zip(floats, xs):
            full[k] = x
        return f(*full)

    xs = [args[k] for k in floats]
    out = lib.eval_shape(of_floats, *xs)
    if mode == "jvp":
        made = lib.make_jaxpr(lambda xs, ts: lib.jvp(of_floats, tuple(xs), tuple(ts))[1])(xs, xs)
    elif mode == "vjp":
        ct = lib.numpy.zeros(out.shape, out.dtype)
        made = lib.make_jaxpr(lambda xs, ct: lib.vjp(of_floats, *xs)[1](ct))(xs, ct)
    elif mode.startswith("vmap"):
        axis = int(mode.removeprefix("vmap"))
        many = [lib.numpy.stack([a, a], axis) for a in args]
        made = lib.make_jaxpr(lib.vmap(f, axis))(*many)
    else:
        made = lib.make_jaxpr(f)(*args)
    # JAX leaves NumPy's numbers in parameters here and there.
    return re.sub(r"np\.int64\((-?\d+)\)", r"\1", str(made)).replace(", )", ",)")


@pytest.mark.parametrize(
    "function, arguments, mode",
    [
        *((*p, m) for p, m in itertools.product(PROGRAMS, ("call", "jvp", "vjp"))),
        *((*p, m) for p, m in itertools.product(FORWARD, ("call", "jvp"))),
        *((*p, m) for p, m in itertools.product(CONVOLVED, ("vjp", "vmap0", "vmap-1"))),
    ],
)
def test_programs(function: str, arguments: str, mode: str) -> None:
    got, wanted = (program(function, arguments, mode, root) for root in ("pullback", "jax"))
    assert got == wanted
