"""What sparse arrays of every format share: shape, dtype, operators, and being pytrees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import numpy as jnp
from ...core.avals import ShapedArray
from ...core.trace import Tracer
from ...primitives.common import is_symbolic
from ...tree_util import register_pytree_node


class SparseEfficiencyError(ValueError):
    """An operation that would store more than it should.

    A ValueError.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.eye(2))
    >>> try:
    ...     sparse.bcoo_update_layout(m, n_batch=1)
    ... except sparse.SparseEfficiencyError:
    ...     print('too large')
    too large
    """


class SparseEfficiencyWarning(UserWarning):
    """An operation that stores more than it should.

    A UserWarning.

    >>> from pullback.experimental import sparse
    >>> issubclass(sparse.SparseEfficiencyWarning, UserWarning)
    True
    """


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """Of accelerators; never given on CPUs.

    A kind of SparseEfficiencyWarning.

    >>> from pullback.experimental import sparse
    >>> issubclass(sparse.CuSparseEfficiencyWarning, sparse.SparseEfficiencyWarning)
    True
    """


# Elementwise functions that are not 0 where their argument is, and comparisons.
_NOT_ZERO_AT_ZERO = frozenset(
    "cos cosh exp exp2 log acos acosh digamma lgamma erfc logistic rsqrt eq ne lt le gt ge "
    "is_finite not".split()
)


def no_rule(name: str) -> NotImplementedError:
    """What functions say that sparse arrays have no form of, in JAX's words."""
    text = f"sparse rule for {name} is not implemented"
    if name not in _NOT_ZERO_AT_ZERO:
        return NotImplementedError(f"{text}. Fix: call todense() before it.")
    return NotImplementedError(
        f"{text} because it would result in dense output. If this is your intent, use "
        "sparse.todense() to convert your arguments to dense matrices."
    )


def no_quotient() -> NotImplementedError:
    """What divisions by sparse arrays say, which are zero almost everywhere."""
    return NotImplementedError(
        "Division by a sparse array is not implemented because it would result in dense output. If "
        "this is your intent, use sparse.todense() to convert your arguments to a dense array."
    )


class JAXSparse:
    """A sparse array: stored elements (`data`), their places, and a shape.

    Sparse arrays are pytrees whose leaves are arrays, so that they pass through jit, grad of
    functions of their data, vmap of batched formats, and control flow.

    >>> from pullback.experimental import sparse
    >>> isinstance(sparse.BCOO.fromdense(jnp.eye(2)), sparse.JAXSparse)
    True
    """

    data: Any
    shape: tuple[int, ...]
    nse: int
    __array_priority__ = 100
    __array_ufunc__ = None  # x @ m and x * m of a dense x are m's
    __hash__ = None  # type: ignore[assignment]
    # What operations on dense arrays say of it.
    has_no_value = (
        "A sparse array is not a valid operand of a function of dense arrays. Fix: "
        "sparse.sparsify(function), or x.todense()."
    )

    def __init__(self, args: tuple[Any, ...], *, shape: Sequence[int]) -> None:
        self.shape = tuple(n if is_symbolic(n) else int(n) for n in shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """How many axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements the dense array would have."""
        return math.prod(self.shape)

    @property
    def aval(self) -> ShapedArray:
        """The type of the dense array."""
        return ShapedArray(self.shape, self.dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.__getitem__. Fix: use a BCOO.")

    def __iter__(self) -> Any:
        return self[0]  # fails as indexing does

    def __repr__(self) -> str:
        name, shape = type(self).__name__, ", ".join(map(str, self.shape))
        try:
            nse, dtype = self.nse, self.dtype
        except (AttributeError, IndexError):  # of leaves that are no arrays
            return f"{name}(<invalid>)"
        extra = self._repr_extra()
        said = f"{name}({dtype}[{shape}], nse={nse}{extra})"
        traced = next((x for x in vars(self).values() if isinstance(x, Tracer)), None)
        return said if traced is None else f"{type(traced).__name__}[{said}]"

    def _repr_extra(self) -> str:
        return ""

    # --- what each format gives ---
    def todense(self) -> Any:
        """The dense array."""
        raise NotImplementedError(f"{type(self).__name__}.todense")

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The array with its axes in another order."""
        raise NotImplementedError(f"{type(self).__name__}.transpose")

    def _with_data(self, data: Any) -> Any:
        """The same places, with other elements."""
        raise NotImplementedError(f"{type(self).__name__} of other data")

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(arrays, what is static)."""
        raise NotImplementedError(f"{type(self).__name__}.tree_flatten")

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: tuple[Any, ...]) -> Any:
        """The array of its parts, which may be anything that trees hold."""
        obj = object.__new__(cls)
        obj._set_parts(children)
        obj.__dict__.update(aux_data)
        return obj

    def _set_parts(self, children: tuple[Any, ...]) -> None:
        raise NotImplementedError(f"{type(self).__name__} of parts")

    # --- operators ---
    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return self.transpose()

    def block_until_ready(self) -> Any:
        """The array, once its parts are computed."""
        for leaf in self.tree_flatten()[0]:
            leaf.block_until_ready()
        return self

    def astype(self, dtype: Any) -> Any:
        """The array in another dtype."""
        return self._with_data(self.data.astype(dtype))

    def __neg__(self) -> Any:
        return self._with_data(-self.data)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._with_data(jnp.abs(self.data))

    def __mul__(self, other: Any) -> Any:
        if jnp.ndim(other) == 0 and not isinstance(other, JAXSparse):
            return self._with_data(self.data * other)
        raise NotImplementedError(f"{type(self).__name__}.__mul__ of an array. Fix: use a BCOO.")

    def __rmul__(self, other: Any) -> Any:
        return self.__mul__(other)

    def __truediv__(self, other: Any) -> Any:
        if jnp.ndim(other) == 0 and not isinstance(other, JAXSparse):
            return self._with_data(self.data / other)
        raise NotImplementedError(f"{type(self).__name__}.__truediv__ of an array")

    def __matmul__(self, other: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.__matmul__")

    def __rmatmul__(self, other: Any) -> Any:
        return (self.T @ jnp.asarray(other).T).T

    def __add__(self, other: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.__add__. Fix: use a BCOO.")

    def __radd__(self, other: Any) -> Any:
        return self.__add__(other)

    def __sub__(self, other: Any) -> Any:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Any:
        return (-self).__add__(other)

    def sum(self, axis: Any = None) -> Any:
        """The sum of elements along axes."""
        raise NotImplementedError(f"{type(self).__name__}.sum. Fix: use a BCOO.")


# The classes by name: operations below a class make its instances.
FORMATS: dict[str, type[Any]] = {}


def register(cls: type[Any]) -> Any:
    """A class decorator: instances are pytrees, and operations find the class by its name."""
    FORMATS[cls.__name__] = cls
    register_pytree_node(
        cls,
        lambda x: (x.tree_flatten()[0], tuple(sorted(x.tree_flatten()[1].items()))),
        lambda aux, children: cls.tree_unflatten(dict(aux), tuple(children)),
    )
    return cls


def nonzero_size(mask: Any) -> int:
    """How many elements of a concrete mask are set."""
    return int(mask.sum())


def is_sparse(x: Any) -> bool:
    """Is it a sparse array, of any format?

    >>> from pullback.experimental import sparse
    >>> sparse.ad.is_sparse(sparse.eye(2)), sparse.ad.is_sparse(jnp.eye(2))
    (True, False)
    """
    return isinstance(x, JAXSparse)
