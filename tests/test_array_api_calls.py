"""Random calls of the functions of the Python array API standard (2024.12), only such as it
defines: shapes with axes of none and one, negative axes, every dtype. NumPy answers for the
standard.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp

INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
FLOATS, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]
REAL, FLOATING = INTEGERS + FLOATS, FLOATS + COMPLEX
NUMERIC = REAL + COMPLEX
ALL = [*NUMERIC, "bool"]
CALLS = 60  # of each function

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Draw(random.Random):
    """What calls are made of."""

    def shape(self, low: int = 0, high: int = 3) -> tuple[int, ...]:
        return tuple(self.choice([0, 1, 1, 2, 3, 4]) for _ in range(self.randint(low, high)))

    def array(self, kinds: list[str], shape: tuple[int, ...], top: int = 9) -> Any:
        dtype = np.dtype(self.choice(kinds))
        low = 0 if dtype.kind in "bu" else -top
        values = [
            self.randint(low, 1 if dtype.kind == "b" else top) for _ in range(math.prod(shape))
        ]
        x = np.array(values, np.float64).reshape(shape)
        if dtype.kind in "fc":
            x = x / 2
        return (x + 1j * x[::-1] if dtype.kind == "c" and x.ndim else x).astype(dtype)

    def any(self, kinds: list[str], low: int = 0) -> Any:
        return self.array(kinds, self.shape(low))

    def axis(self, x: Any, none: bool = True, several: bool = False) -> Any:
        found: list[Any] = [None] if none else []
        if x.ndim:
            found.append(self.randint(-x.ndim, x.ndim - 1))
        if several:
            axes = self.sample(range(x.ndim), self.randint(0, x.ndim))
            found.append(tuple(k - x.ndim if self.random() < 0.5 else k for k in axes))
        return self.choice(found) if found else None

    def alike(self, kinds: list[str]) -> list[str]:
        """The dtypes that promote with one of these, drawn, in the standard."""
        group = {"c": "f"}
        first = np.dtype(self.choice(kinds)).kind
        first = group.get(first, first)
        return [t for t in kinds if group.get(k := np.dtype(t).kind, k) == first]


def reduction(kinds: list[str], some: bool = False, **options: Any) -> Callable[[Draw], Call]:
    """`some`: not of no elements."""

    def call(d: Draw) -> Call:
        x = d.any(kinds)
        while some and not x.size:
            x = d.any(kinds)
        given = {k: d.choice(v) for k, v in options.items() if d.random() < 0.5}
        return (x,), {"axis": d.axis(x, several=True), "keepdims": d.random() < 0.5, **given}

    return call


def along(kinds: list[str], some: bool = False, **options: Any) -> Callable[[Draw], Call]:
    def call(d: Draw) -> Call:
        x = d.any(kinds, low=1)
        while some and not x.size:
            x = d.any(kinds, low=1)
        given = {k: d.choice(v) for k, v in options.items() if d.random() < 0.5}
        return (x,), {"axis": d.axis(x, none=False), **given}

    return call


def stable(d: Draw) -> Call:
    args, kwargs = along(REAL)(d)
    return args, {**kwargs, "stable": True}


def taken(d: Draw) -> Call:
    x = d.any(ALL, low=1)
    axis = d.axis(x, none=False)
    n = x.shape[axis]
    at = [d.randint(-n, n - 1) for _ in range(d.randint(0, 4) if n else 0)]
    return (x, np.array(at, d.choice(["int32", "int64"]))), {"axis": axis}


def joined(d: Draw) -> Call:
    kinds, shape = d.alike(ALL), d.shape(low=1)
    axis = d.randint(-len(shape), len(shape) - 1)
    other = list(shape)
    other[axis] = d.randint(0, 3)
    return ([d.array(kinds, shape), d.array(kinds, tuple(other))],), {"axis": axis}


def stacked(d: Draw) -> Call:
    shape = d.shape()
    kinds = d.alike(ALL)
    arrays = [d.array(kinds, shape), d.array(kinds, shape)]
    return (arrays,), {"axis": d.randint(-len(shape) - 1, len(shape))}


def moved(d: Draw) -> Call:
    x = d.any(ALL, low=1)
    return (x, d.randint(-x.ndim, x.ndim - 1), d.randint(-x.ndim, x.ndim - 1)), {}


def with_axis(kinds: list[str], more: tuple[Any, ...] = ()) -> Callable[[Draw], Call]:
    def call(d: Draw) -> Call:
        x = d.any(kinds)
        return (x, *(f(d) for f in more)), {"axis": d.axis(x)}

    return call


def matrices(d: Draw) -> Call:
    kinds, (m, k, n) = d.alike(NUMERIC), (d.choice([0, 1, 2, 3]) for _ in range(3))
    lead = d.shape(high=1)
    left = d.array(kinds, d.choice([(k,), (m, k), (*lead, m, k)]), 3)
    return (left, d.array(kinds, d.choice([(k,), (k, n), (*lead, k, n)]), 3)), {}


def vectors(d: Draw) -> Call:
    kinds, shape = d.alike(NUMERIC), d.shape(low=1)
    axis = d.randint(-len(shape), -1)
    return (d.array(kinds, shape, 3), d.array(kinds, shape, 3)), {"axis": axis}


def norms(d: Draw) -> Call:
    x = d.array(FLOATING, tuple(d.randint(1, 3) for _ in range(d.randint(1, 3))))
    order = d.choice([0, 1, 2, 3, 2.5, -1, math.inf, -math.inf])
    return (x,), {"axis": d.axis(x, several=True), "keepdims": d.random() < 0.5, "ord": order}


def spectra(kinds: list[str]) -> Callable[[Draw], Call]:
    def call(d: Draw) -> Call:
        x = d.array(kinds, tuple(d.randint(2, 5) for _ in range(d.randint(1, 3))))
        n = {"n": d.randint(2, 7)} if d.random() < 0.5 else {}
        return (x,), {"axis": d.axis(x, none=False), "norm": d.choice(["ortho", "forward"]), **n}

    return call


def between(d: Draw) -> Call:
    dtype = d.choice(REAL)
    x = d.any([dtype])
    low, high = (np.asarray(v, dtype) for v in (1, 3))
    return (x,), d.choice([{"min": 1}, {"max": 3}, {"min": low, "max": high}, {"max": high}])


def reshaped(d: Draw) -> Call:
    x = d.any(ALL)
    shape = list(x.shape) + [1] * d.randint(0, 2)
    d.shuffle(shape)
    if x.size and shape and d.random() < 0.5:
        shape[d.randrange(len(shape))] = -1
    return (x, tuple(shape)), {"copy": d.choice([None, True])}


def squeezed(d: Draw) -> Call:
    x = d.any(ALL, low=1)
    ones = [k for k, n in enumerate(x.shape) if n == 1]
    axes = tuple(k - d.choice([0, x.ndim]) for k in d.sample(ones, d.randint(0, len(ones))))
    return (x, axes[0] if len(axes) == 1 and d.random() < 0.5 else axes), {}


def mutual(d: Draw, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast together."""
    shape = d.shape()
    parts = [shape[d.randint(0, len(shape)) :] for _ in range(count)]
    return [tuple(d.choice([n, n, 1]) for n in part) for part in parts]


def spread(d: Draw) -> Call:
    shape = d.shape()
    (part,) = [shape[d.randint(0, len(shape)) :]]
    return (d.array(ALL, tuple(d.choice([n, 1]) for n in part)), shape), {}


def chosen(d: Draw) -> Call:
    kinds, shapes = d.alike(NUMERIC), mutual(d, 3)
    x, y = (d.array(kinds, shape) for shape in shapes[1:])
    return (d.array(["bool"], shapes[0]), x, y), {}


def gathered(d: Draw) -> Call:
    x = d.any(ALL, low=1)
    axis = d.randint(-x.ndim, x.ndim - 1)
    shape = list(x.shape)
    shape[axis] = d.randint(0, 4) if shape[axis] else 0
    n = x.shape[axis]
    at = [d.randint(-n, n - 1) for _ in range(math.prod(shape))]
    return (x, np.array(at, d.choice(["int32", "int64"])).reshape(shape)), {"axis": axis}


def searched(d: Draw) -> Call:
    dtype = [d.choice(REAL)]
    x, y = d.array(dtype, (d.randint(0, 6),)), d.any(dtype)
    side = {"side": d.choice(["left", "right"])}
    if d.random() < 0.5:
        return (np.sort(x), y), side
    return (x, y), {**side, "sorter": np.argsort(x).astype(d.choice(["int32", "int64"]))}


def ranged(d: Draw) -> Call:
    number = d.choice([d.randint, lambda a, b: d.uniform(a, b)])
    args = [number(-9, 9) for _ in range(d.randint(1, 3))]
    if len(args) == 3:
        args[2] = args[2] or 1
    kinds = FLOATS if any(isinstance(x, float) for x in args) else ["int32", "int64", *FLOATS]
    return tuple(args), {"dtype": np.dtype(d.choice(kinds))} if d.random() < 0.5 else {}


def spaced(d: Draw) -> Call:
    start, stop = (d.choice([d.randint(-9, 9), d.uniform(-9, 9)]) for _ in range(2))
    given = {"dtype": np.dtype(d.choice(FLOATS))} if d.random() < 0.5 else {}
    return (start, stop, d.randint(0, 7)), {"endpoint": d.random() < 0.5, **given}


def eyes(d: Draw) -> Call:
    sizes = [d.randint(0, 4) for _ in range(d.randint(1, 2))]
    return tuple(sizes), {"k": d.randint(-5, 5), "dtype": np.dtype(d.choice(ALL))}


def filled(d: Draw) -> Call:
    x = d.any(ALL)
    value = {"b": True, "i": -3, "u": 3, "f": 1.5, "c": 1.5 - 2j}[x.dtype.kind]
    return (x, value), {"dtype": x.dtype} if d.random() < 0.5 else {}


def tensors(d: Draw) -> Call:
    kinds, shape = d.alike(NUMERIC), d.shape()
    n = d.randint(0, len(shape))
    x = d.array(kinds, (*d.shape(high=1), *shape[len(shape) - n :]), 3)
    y = d.array(kinds, (*shape[len(shape) - n :], *d.shape(high=1)), 3)
    if d.random() < 0.5:
        return (x, y), {"axes": n}
    order = d.sample(range(n), n)
    first = [k - n for k in order]
    return (x, y), {"axes": (first, order)}


def square(d: Draw, kinds: list[str], high: int = 3) -> np.ndarray:
    """Matrices of full rank, diagonally dominant."""
    n = d.randint(1, high)
    x = d.array(kinds, (*d.shape(high=1), n, n), 2)
    return (x + 9 * np.eye(n)).astype(x.dtype)


def hermitian(d: Draw) -> np.ndarray:
    x = square(d, FLOATING)
    return x + np.conj(np.swapaxes(x, -1, -2))


def systems(d: Draw) -> Call:
    x = square(d, FLOATING)
    right = (x.shape[-1],) if d.random() < 0.5 else (*x.shape[:-1], d.randint(1, 3))
    return (x, d.array([str(x.dtype)], right)), {}


def crossed(d: Draw) -> Call:
    kinds, shape = d.alike(NUMERIC), list(d.shape(low=1))
    axis = d.randint(-len(shape), -1)
    shape[axis] = 3
    return (d.array(kinds, tuple(shape)), d.array(kinds, tuple(shape))), {"axis": axis}


def matrix_norms(d: Draw) -> Call:
    x = d.array(FLOATING, (*d.choice([(), (2,)]), *d.choice([(1, 2), (2, 2), (3, 2)])))
    order = d.choice(["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
    return (x,), {"keepdims": d.random() < 0.5, "ord": order}


def of_matrices(kinds: list[str], **options: Any) -> Callable[[Draw], Call]:
    """Of stacks of matrices of any shape."""

    def call(d: Draw) -> Call:
        x = d.array(kinds, (*d.shape(high=1), *d.shape(2, 2)))
        return (x,), {k: d.choice(v) for k, v in options.items() if d.random() < 0.5}

    return call


def spectra_n(kinds: list[str]) -> Callable[[Draw], Call]:
    def call(d: Draw) -> Call:
        x = d.array(kinds, tuple(d.randint(2, 4) for _ in range(d.randint(1, 3))))
        axes = tuple(
            k - d.choice([0, x.ndim]) for k in d.sample(range(x.ndim), d.randint(1, x.ndim))
        )
        given = {"axes": axes, "norm": d.choice(["ortho", "forward", "backward"])}
        return (x,), {**given, "s": [d.randint(2, 5) for _ in axes]} if d.random() < 0.5 else given

    return call


FUNCTIONS: dict[str, Callable[[Draw], Call]] = {
    "sum": reduction(NUMERIC), "prod": reduction(NUMERIC), "mean": reduction(FLOATING, True),
    "std": reduction(FLOATS, True, correction=[0, 0.5]), "max": reduction(REAL, True),
    "var": reduction(FLOATS, True, correction=[0, 0.5]), "min": reduction(REAL, True),
    "any": reduction(ALL), "all": reduction(ALL), "count_nonzero": reduction(ALL),
    "argmax": along(REAL, True, keepdims=[True, False]), "sort": along(REAL),
    "argmin": along(REAL, True, keepdims=[True, False]), "unstack": along(ALL),
    "argsort": stable, "diff": along(NUMERIC, n=[0, 1, 2]),
    "cumulative_sum": along(NUMERIC, include_initial=[True, False]),
    "cumulative_prod": along(NUMERIC, include_initial=[True, False]),
    "take": taken, "concat": joined, "stack": stacked, "moveaxis": moved, "clip": between,
    "expand_dims": lambda d: ((x := d.any(ALL),), {"axis": d.randint(-x.ndim - 1, x.ndim)}),
    "flip": lambda d: ((x := d.any(ALL),), {"axis": d.axis(x, several=True)}),
    "roll": with_axis(ALL, (lambda d: d.randint(-5, 5),)),
    "repeat": with_axis(ALL, (lambda d: d.randint(0, 2),)),
    "permute_dims": lambda d: ((x := d.any(ALL), tuple(d.sample(range(x.ndim), x.ndim))), {}),
    "tile": lambda d: ((d.any(ALL), tuple(d.randint(0, 2) for _ in range(d.randint(0, 4)))), {}),
    "nonzero": lambda d: ((d.any(ALL, low=1),), {}),
    "unique_values": lambda d: ((d.any(REAL),), {}),
    "unique_all": lambda d: ((d.any(REAL),), {}), "unique_counts": lambda d: ((d.any(REAL),), {}),
    "unique_inverse": lambda d: ((d.any(ALL),), {}), "searchsorted": searched,
    "reshape": reshaped, "squeeze": squeezed, "broadcast_to": spread, "where": chosen,
    "broadcast_arrays": lambda d: (tuple(d.array(ALL, s) for s in mutual(d, 2)), {}),
    "meshgrid": lambda d: (
        tuple(d.array(INTEGERS, (d.randint(0, 3),)) for _ in range(d.randint(0, 3))),
        {"indexing": d.choice(["xy", "ij"])},
    ),
    "take_along_axis": gathered, "arange": ranged, "linspace": spaced, "eye": eyes,
    "full_like": filled, "full": lambda d: (((x := filled(d))[0][0].shape, x[0][1]), x[1]),
    "zeros_like": lambda d: ((d.any(ALL),), {}), "ones_like": lambda d: ((d.any(ALL),), {}),
    "tensordot": tensors, "matrix_transpose": of_matrices(ALL),
    "linalg.cholesky": lambda d: ((hermitian(d),), {"upper": d.random() < 0.5}),
    "linalg.cross": crossed, "linalg.det": lambda d: ((square(d, FLOATING),), {}),
    "linalg.diagonal": of_matrices(ALL, offset=[-4, -1, 0, 1, 4]),
    "linalg.trace": of_matrices(NUMERIC, offset=[-4, -1, 0, 1, 4]),
    "linalg.eigvalsh": lambda d: ((hermitian(d),), {}),
    "linalg.inv": lambda d: ((square(d, FLOATING),), {}), "linalg.matrix_norm": matrix_norms,
    "linalg.matrix_power": lambda d: ((square(d, FLOATING), d.randint(-2, 4)), {}),
    "linalg.matrix_rank": lambda d: ((square(d, FLOATING),), {}),
    "linalg.outer": lambda d: (
        tuple(d.array([k], (d.randint(0, 3),)) for k in [d.choice(NUMERIC)] * 2), {},
    ),
    "linalg.pinv": lambda d: ((square(d, FLOATING),), {}),
    "linalg.slogdet": lambda d: ((square(d, FLOATING),), {}), "linalg.solve": systems,
    "linalg.svdvals": of_matrices(FLOATING),
    "fft.fftn": spectra_n(COMPLEX), "fft.ifftn": spectra_n(COMPLEX),
    "fft.rfftn": spectra_n(FLOATS), "fft.irfftn": spectra_n(COMPLEX),
    "fft.fftfreq": lambda d: ((d.randint(1, 7),), {"d": d.uniform(0.1, 3)}),
    "fft.rfftfreq": lambda d: ((d.randint(1, 7),), {"d": d.uniform(0.1, 3)}),
    "fft.ifftshift": lambda d: ((x := d.any(FLOATING, low=1),), {"axes": d.axis(x)}),
    "tril": lambda d: ((d.any(ALL, low=2),), {"k": d.randint(-5, 5)}),
    "triu": lambda d: ((d.any(ALL, low=2),), {"k": d.randint(-5, 5)}),
    "matmul": matrices, "vecdot": vectors, "linalg.vector_norm": norms,
    "fft.fft": spectra(COMPLEX), "fft.ifft": spectra(COMPLEX), "fft.rfft": spectra(FLOATS),
    "fft.irfft": spectra(COMPLEX), "fft.hfft": spectra(COMPLEX), "fft.ihfft": spectra(FLOATS),
    "fft.fftshift": lambda d: ((d.any(FLOATING, low=1),), {}),
    "astype": lambda d: ((np.abs(d.any(REAL)), np.dtype(d.choice(ALL))), {}),
}  # fmt: skip


def named(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def leaves(x: Any) -> list[Any]:
    return [y for part in x for y in leaves(part)] if isinstance(x, tuple | list) else [x]


def wanted(name: str, args: Any, kwargs: Any) -> list[Any]:
    """NumPy's answer."""
    found = [np.asarray(x) for x in leaves(named(np, name)(*args, **kwargs))]
    return [np.sort(x) for x in found] if name == "unique_values" else found  # in any order there


@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls(name: str) -> None:
    d = Draw(name)
    with pullback.enable_x64(True), np.errstate(all="ignore"):
        for _ in range(CALLS):
            args, kwargs = FUNCTIONS[name](d)
            want = wanted(name, args, kwargs)
            arrays = pullback.tree.map(
                lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, (args, kwargs)
            )
            got = [np.asarray(x) for x in leaves(named(jnp, name)(*arrays[0], **arrays[1]))]
            if name == "searchsorted":  # 32 bits are enough, as JAX has it
                want = [x.astype(np.int32) for x in want]
            assert [(x.dtype, x.shape) for x in got] == [(x.dtype, x.shape) for x in want], args
            for x, y in zip(got, want, strict=True):
                narrow = y.dtype in (np.float32, np.complex64)
                scale = float(np.max(np.abs(y), initial=1)) if y.dtype.kind in "fc" else 0
                unit = 1e-5 if narrow else 1e-12
                np.testing.assert_allclose(x, y, rtol=unit, atol=unit * scale, err_msg=f"{args}")
