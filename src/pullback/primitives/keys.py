"""PRNG keys as array elements: implementations, key dtypes, key arrays, and the lowering of
programs on keys to programs on uint32.

A key array of shape `s` is stored as a base array of uint32, of shape `s + (words of a key,)`. An
operation that only moves elements acts on the base array as it acts on a batch whose batch axis
comes last, so its batch rule is its rule for keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import config, dtypes
from ..core import source
from ..core.avals import ShapedArray, typeof
from ..core.build import trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxprs_in_params, subjaxprs
from ..core.primitive import Primitive
from ..core.trace import Tracer, current_trace, trace_state_clean
from ..lazy_imports import lazy_module
from .convert import convert_element_type_p
from .elementwise import eq_p, ne_p
from .layout import broadcast_in_dim, reshape, squeeze, transpose
from .reductions import reduce_and, reduce_or
from .shape import index_in_dim, slice_in_dim


class PRNGImpl:
    """A pseudo-random number generator: the shape of its keys and its functions on base arrays of
    keys.

    seed(int) -> key; split(key, shape) -> keys; random_bits(key, bit_width, shape) -> bits;
    fold_in(key, int) -> key. A function marked by `batched` accepts keys of any leading shape;
    others (a user's) take one key and are mapped over the leading axes.
    """

    __slots__ = ("batched", "fold_in", "key_shape", "name", "random_bits", "seed", "split", "tag")
    _pb_static_operand = True  # native calls know generators by identity

    def __init__(
        self,
        key_shape: tuple[int, ...],
        seed: Callable[..., Any],
        split: Callable[..., Any],
        random_bits: Callable[..., Any],
        fold_in: Callable[..., Any],
        name: str = "<unnamed>",
        tag: str = "?",
        batched: bool = False,
    ) -> None:
        self.key_shape, self.name, self.tag, self.batched = tuple(key_shape), name, tag, batched
        self.seed, self.split, self.random_bits, self.fold_in = seed, split, random_bits, fold_in

    @property
    def words(self) -> int:
        """How many words a key has."""
        return math.prod(self.key_shape)

    def __hash__(self) -> int:
        return hash(self.tag)

    def __str__(self) -> str:
        return self.tag

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A registered one is found again by its name; others are copied."""
        if prngs.get(self.name) is self:
            return find_impl, (self.name,)
        return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        functions = ", ".join(
            f"{n}={getattr(self, n)}" for n in ("seed", "split", "random_bits", "fold_in")
        )
        return (
            f"PRNGImpl(key_shape={self.key_shape}, {functions}, name={self.name!r}, "
            f"tag={self.tag!r})"
        )


prngs: dict[str, PRNGImpl] = {}
# The generators, which are registered when these modules are imported.
_rng: Any = lazy_module("pullback.primitives.rng")
_ciphers: Any = lazy_module("pullback.primitives.ciphers")


def register_prng(impl: PRNGImpl) -> None:
    """Makes an implementation known by its name. Raises ValueError if the name is taken."""
    if impl.name in prngs:
        raise ValueError(f"PRNG with name {impl.name} already registered: {prngs[impl.name]!r}")
    prngs[impl.name] = impl


def find_impl(spec: Any) -> PRNGImpl:
    """The implementation that a name, an implementation or a key dtype stands for."""
    if isinstance(spec, PRNGImpl):
        return spec
    if isinstance(spec, KeyDType):
        return spec.impl
    if isinstance(spec, str):
        if spec not in prngs:
            assert _rng.threefry_prng_impl and _ciphers.philox2x32_prng_impl  # both are loaded now
        if spec in prngs:
            return prngs[spec]
        known = ", ".join(f'"{n}"' for n in prngs)
        raise ValueError(
            f'unrecognized PRNG implementation "{spec}". Did you mean one of: {known}?'
        )
    raise TypeError(
        f"unrecognized type {type(spec)} for specifying PRNG implementation. Fix: a name, or the "
        "dtype of a key."
    )


class KeyDType(dtypes.ExtendedDType):
    """The dtype of keys of one implementation: `key<fry>`."""

    type = dtypes.prng_key

    def __init__(self, impl: PRNGImpl) -> None:
        self.impl = impl
        self._impl = impl

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"key<{self.impl.tag}>"

    @property
    def itemsize(self) -> int:
        return self.impl.words * 4

    @property
    def physical(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return (self.impl.words,), np.dtype("uint32")

    def __eq__(self, other: object) -> bool:
        return type(other) is KeyDType and self.impl is other.impl

    def __hash__(self) -> int:
        return hash((KeyDType, self.impl))

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


_dtypes: dict[PRNGImpl, KeyDType] = {}


def key_dtype(impl: PRNGImpl) -> KeyDType:
    """The key dtype of an implementation."""
    return _dtypes.setdefault(impl, KeyDType(impl))


def is_key_dtype(dtype: Any) -> bool:
    return isinstance(dtype, KeyDType)


def is_key_aval(aval: Any) -> bool:
    return isinstance(getattr(aval, "dtype", None), KeyDType)


def key_aval(impl: PRNGImpl, shape: Any) -> ShapedArray:
    return ShapedArray(tuple(shape), key_dtype(impl))


def physical_aval(aval: Any) -> Any:
    """The type of the base array of a key array; other types unchanged."""
    if not is_key_aval(aval):
        return aval
    suffix, dtype = aval.dtype.physical
    return ShapedArray((*aval.shape, *suffix), dtype)


class PRNGKeyArray:
    """An array of PRNG keys over its base array. Indexing, reshaping, joining and mapping act on
    the keys, never on their words.
    """

    __slots__ = ("__weakref__", "_base_array", "_cells", "_impl", "aval")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, impl: PRNGImpl, base: Any) -> None:
        self._impl, self._base_array, self._cells = impl, base, False
        self.aval = key_aval(impl, np.shape(base)[:-1])

    dtype = property(lambda self: self.aval.dtype)
    shape = property(lambda self: self.aval.shape)
    ndim = property(lambda self: len(self.aval.shape))
    size = property(lambda self: self.aval.size)
    itemsize = property(lambda self: self.aval.dtype.itemsize)
    nbytes = property(lambda self: self.size * self.itemsize)
    weak_type = False
    sharding = property(lambda self: self._base_array.sharding)
    device = property(lambda self: self._base_array.device)
    committed = property(lambda self: self._base_array.committed)
    _committed = committed

    @property
    def _consumed(self) -> Any:
        """Which keys jax_debug_key_reuse has seen in use, as a mask: True or False of all alike."""
        cells: Any = self._cells
        if cells is False:
            return False
        used = np.array([cell.used for cell in cells.flat], bool).reshape(self.shape)
        return bool(used.all()) if used.all() or not used.any() else used

    is_fully_addressable = property(lambda self: self._base_array.is_fully_addressable)
    is_fully_replicated = property(lambda self: self._base_array.is_fully_replicated)

    def devices(self) -> Any:
        return self._base_array.devices()

    def is_deleted(self) -> bool:
        return bool(self._base_array.is_deleted())

    def delete(self) -> None:
        self._base_array.delete()

    def block_until_ready(self) -> PRNGKeyArray:
        self._base_array.block_until_ready()
        return self

    def copy_to_host_async(self) -> None:
        self._base_array.copy_to_host_async()

    def is_ready(self) -> bool:
        return bool(self._base_array.is_ready())

    def on_device_size_in_bytes(self) -> int:
        return int(self._base_array.on_device_size_in_bytes())

    def unsafe_buffer_pointer(self) -> Any:
        return self._base_array.unsafe_buffer_pointer()

    def copy(self) -> PRNGKeyArray:
        return PRNGKeyArray(self._impl, self._base_array.copy())

    def __copy__(self) -> PRNGKeyArray:
        return self

    def __deepcopy__(self, memo: Any) -> PRNGKeyArray:
        return PRNGKeyArray(self._impl, self._base_array.copy())

    def __reduce__(self) -> Any:
        return _rebuild, (self._impl, np.asarray(self._base_array))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use "
            "jax.random.key_data(arr) if you wish to "
            "extract the underlying integer array."
        )

    def __eq__(self, other: object) -> Any:
        return self._compared("equal", eq_p, other)

    def __ne__(self, other: object) -> Any:
        return self._compared("not_equal", ne_p, other)

    def _compared(self, name: str, primitive: Any, other: object) -> Any:
        if is_key_aval(getattr(other, "aval", None)):
            return primitive.bind(self, other)
        if isinstance(other, (bool, int, float, complex)):
            raise TypeError(
                f"{name} does not accept dtypes {self.dtype}, {type(other).__name__}. Fix: compare "
                "a key with a key, or its words: random.key_data(key)."
            )
        return NotImplemented

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __bool__(self) -> bool:
        raise TypeError("key array cannot be converted to boolean. Fix: compare keys with ==.")

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        if trace_state_clean() and not isinstance(self._base_array, Tracer):
            return (PRNGKeyArray(self._impl, words) for words in list(self._base_array))
        return (index_in_dim(self, k, 0, keepdims=False) for k in range(self.shape[0]))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "JAX arrays are immutable and do not support in-place item assignment. Fix: "
            "keys = keys.at[index].set(key)"
        )

    def __getitem__(self, index: Any) -> Any:
        base = self._base_array
        if config.debug_key_reuse.get():  # in one slice, which consumes no other keys
            return advanced_getitem[0](self, index)
        if type(index) is int and trace_state_clean() and not isinstance(base, Tracer):
            if self.shape and -self.shape[0] <= index < self.shape[0]:
                return PRNGKeyArray(self._impl, base[index])
        simple = _simple_index(self, index)
        return advanced_getitem[0](self, index) if simple is None else simple

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        sizes = (
            tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        )
        return reshape(self, _fill_in(sizes, self.size))

    def ravel(self, order: str = "C") -> Any:
        return reshape(self, (self.size,))

    flatten = ravel

    def squeeze(self, axis: Any = None) -> Any:
        axes = [k for k, n in enumerate(self.shape) if n == 1] if axis is None else axis
        axes = axes if isinstance(axes, (tuple, list)) else (axes,)
        return squeeze(self, tuple(a % max(self.ndim, 1) for a in axes))

    def transpose(self, *axes: Any) -> Any:
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes or None
        return transpose(self, tuple(reversed(range(self.ndim))) if order is None else tuple(order))

    T = property(lambda self: self.transpose())

    def __repr__(self) -> str:
        return (
            f"Array({self.shape}, dtype={self.dtype.name}) "
            f"overlaying:\n{np.reshape(self._base_array, (*self.shape, *self._impl.key_shape))}"
        )

    __str__ = __repr__


# What operators of numbers are called as functions, which keys are no arguments of.
_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide",
    "floordiv": "floor_divide", "mod": "remainder", "divmod": "divmod", "pow": "power",
    "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _refusing(function: str, reflected: bool) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        try:
            types = [self.dtype.name, typeof(other).dtype.name]
        except (AttributeError, TypeError):
            return NotImplemented
        first, second = reversed(types) if reflected else types
        raise TypeError(
            f"{function} does not accept dtypes {first}, {second}. Fix: random.key_data(keys) are "
            "words."
        )

    return operator


for _name, _function in (_OPERATORS | _COMPARISONS).items():
    setattr(PRNGKeyArray, f"__{_name}__", _refusing(_function, False))
for _name, _function in _OPERATORS.items():
    setattr(PRNGKeyArray, f"__r{_name}__", _refusing(_function, True))


def _fill_in(sizes: Sequence[Any], total: int) -> tuple[int, ...]:
    known = int(np.prod([n for n in sizes if n != -1], dtype=np.int64))
    return tuple(total // max(known, 1) if n == -1 else int(n) for n in sizes)


def _no_advanced(keys: Any, index: Any) -> Any:
    raise TypeError(f"keys cannot be indexed by {index!r} before pullback.numpy is imported")


# Filled by the numpy layer: indexing by arrays, masks and tracers.
advanced_getitem: list[Callable[[Any, Any], Any]] = [_no_advanced]


def _simple_index(x: Any, index: Any) -> Any:
    """`x[index]` for integers and unit-step slices within bounds, or None."""
    parts = index if isinstance(index, tuple) else (index,)
    if len(parts) > x.ndim or not all(type(p) is int or isinstance(p, slice) for p in parts):
        return None
    axis = 0
    for p in parts:
        n = x.shape[axis]
        if isinstance(p, slice):
            start, stop, step = p.indices(n)
            if step != 1:
                return None
            if (start, stop) != (0, n):
                x = slice_in_dim(x, start, max(start, stop), axis=axis)
            axis += 1
        elif -n <= p < n:
            x = index_in_dim(x, p, axis, keepdims=False)
        else:
            return None
    return x


def _rebuild(name: str, base: Any) -> PRNGKeyArray:
    return PRNGKeyArray(find_impl(name), base)


def base_array(x: Any) -> Any:
    """The base array of a key array; other values unchanged."""
    return x._base_array if isinstance(x, PRNGKeyArray) else x


def _key_array(aval: Any, words: Any) -> PRNGKeyArray:
    """Keys of a type, which may say how they lie over a mesh."""
    made = PRNGKeyArray(aval.dtype.impl, words)
    if aval._sharding is not None:
        made.aval = aval
    return made


def wrap_results(outs: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Results of a lowered program: those that are keys by `avals` become key arrays."""
    return [_key_array(a, x) if is_key_aval(a) else x for x, a in zip(outs, avals, strict=True)]


# --- lowering ---
# Primitives that make or read the words of keys: rule(avals, *operands, **params) on base
# arrays, giving base arrays; `avals` are the types before lowering.
physical_rules: dict[Any, Callable[..., Any]] = {}
# Rules that are also given what an operand is made of, the operands of its equation, if that is of
# a primitive: a sum takes a product's factors, a quotient asks whether the divisor is broadcast. A
# path of several is followed by their first operands: a quotient by a power that is broadcast.
rules_of_pairs: dict[Any, tuple[int, *tuple[Primitive, ...]]] = {}


def has_keys(jaxpr: Jaxpr) -> bool:
    """Is there a key anywhere in a program?"""
    found = jaxpr.derived.get("has_keys")
    if found is None:
        # What equations read is an argument or another one's result. Few types are of many values.
        atoms = [*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars]
        avals = {id(v.aval): v.aval for v in atoms}
        avals.update({id(v.aval): v.aval for e in jaxpr.eqns for v in e.outvars})
        found = (
            any(map(is_key_aval, avals.values()))
            or any(e.primitive in physical_rules for e in jaxpr.eqns)
            or any(map(has_keys, subjaxprs(jaxpr)))
        )
        jaxpr.derived["has_keys"] = found
    return bool(found)


def _eqn_has_keys(eqn: JaxprEqn) -> bool:
    if any(is_key_aval(v.aval) for v in (*eqn.invars, *eqn.outvars)):
        return True
    return eqn.primitive in physical_rules or any(map(has_keys, jaxprs_in_params(eqn.params)))


def lower_keys(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with base arrays in place of key arrays, among arguments, results and
    constants too. Remembered.
    """
    if not has_keys(closed.jaxpr):
        return closed
    found = closed.derived.get("lower_keys")
    if found is None:
        jaxpr = lower_keys_in(closed.jaxpr)
        found = ClosedJaxpr(jaxpr, [base_array(c) for c in closed.consts])
        if any(isinstance(c, Tracer) for c in closed.consts):
            return found
        closed.derived["lower_keys"] = found
    return found


def lower_keys_in(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with base arrays in place of key arrays, among constvars too. Remembered."""
    if not has_keys(jaxpr):
        return jaxpr
    found = jaxpr.derived.get("lower_keys")
    if found is None:
        n = len(jaxpr.constvars)
        avals = [physical_aval(v.aval) for v in (*jaxpr.constvars, *jaxpr.invars)]
        lowered, consts = trace_to_jaxpr(
            lambda *args: _eval_physical(jaxpr, args), avals, jaxpr.debug_info
        )
        if consts:
            raise AssertionError("internal error in pullback: the lowering of keys made constants")
        found = lowered.replace(constvars=lowered.invars[:n], invars=lowered.invars[n:])
        jaxpr.derived["lower_keys"] = found
    return found


def _eval_physical(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), args, strict=True))

    def read(v: Any) -> Any:
        return base_array(v.val) if isinstance(v, Literal) else env[v]

    makers: dict[Any, JaxprEqn] = {}
    wanted_ones = {maker for _, *path in rules_of_pairs.values() for maker in path}
    for eqn in jaxpr.eqns:
        if eqn.primitive in wanted_ones:
            makers[eqn.outvars[0]] = eqn
        with source.using(eqn.source_info):
            args = [read(v) for v in eqn.invars]
            maker = _looked_into(eqn, makers)
            if maker is None:
                outs = _lower_eqn(eqn, args)
            else:
                avals, parts = [v.aval for v in eqn.invars], [read(v) for v in maker.invars]
                if "jaxpr" in maker.params:  # a call: what it calls comes first
                    parts.insert(0, maker.params["jaxpr"])
                rule = physical_rules[eqn.primitive]
                outs = [rule(avals, *args, **eqn.params, parts=parts)]
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _looked_into(eqn: JaxprEqn, makers: dict[Any, JaxprEqn]) -> JaxprEqn | None:
    """The equation whose operands the rule of a pair is given, if there is one."""
    place, *path = rules_of_pairs.get(eqn.primitive, (0,))
    maker: JaxprEqn | None = None
    for wanted in path:
        operand = eqn.invars[place] if maker is None else maker.invars[0]
        maker = None if isinstance(operand, Literal) else makers.get(operand)
        if maker is None or maker.primitive is not wanted:
            return None
    return maker


def _lower_param(val: Any) -> Any:
    if isinstance(val, ClosedJaxpr):
        return lower_keys(val)
    if isinstance(val, Jaxpr):
        return lower_keys_in(val)
    if type(val) is tuple:
        return tuple(_lower_param(v) for v in val)
    if hasattr(val, "_make"):  # a tuple with names
        return val._make(_lower_param(v) for v in val)
    return physical_aval(val) if is_key_aval(val) else val


def _lower_eqn(eqn: JaxprEqn, args: list[Any]) -> list[Any]:
    p, params = eqn.primitive, eqn.params
    rule = physical_rules.get(p)
    if rule is not None:
        out = rule([v.aval for v in eqn.invars], *args, **params)
    elif not _eqn_has_keys(eqn):
        out = current_trace().emit(p, args, params)  # type: ignore[attr-defined]
    elif _is_opaque(eqn):
        lowered = {k: _lower_param(v) for k, v in params.items()}
        out = current_trace().emit(p, args, lowered)  # type: ignore[attr-defined]
    elif p is eq_p or p is ne_p:
        out = _compare(p, *args)
    elif p is convert_element_type_p:
        out = args[0]
    else:
        out = _move_elements(eqn, args)
    return list(out) if p.multiple_results else [out]


def _is_opaque(eqn: JaxprEqn) -> bool:
    """Does it take the words of keys as they are: programs and callbacks?"""
    held = any(True for _ in jaxprs_in_params(eqn.params))
    return held or "result_avals" in eqn.params or not eqn.outvars


def _compare(p: Any, x: Any, y: Any) -> Any:
    """Keys are equal if all of their words are."""
    shape = max(typeof(x).shape, typeof(y).shape, key=len)
    axis = (len(shape) - 1,)
    x, y = (v if typeof(v).ndim == len(shape) else broadcast_in_dim(v, shape, axis) for v in (x, y))
    words = p.bind(x, y)
    return reduce_and(words, axis) if p is eq_p else reduce_or(words, axis)


def _move_elements(eqn: JaxprEqn, args: list[Any]) -> Any:
    """An operation that moves elements: a batch of it, over the words of the keys."""
    dims = [v.aval.ndim if is_key_aval(v.aval) else None for v in eqn.invars]
    out, out_dims = eqn.primitive.rule("batch")(args, dims, **eqn.params)
    if not eqn.primitive.multiple_results:
        return _words_last(out, out_dims)
    if not isinstance(out_dims, (list, tuple)):
        out_dims = [out_dims] * len(out)
    return [_words_last(x, d) for x, d in zip(out, out_dims, strict=True)]


def _words_last(x: Any, dim: int | None) -> Any:
    ndim = typeof(x).ndim
    if dim is None or dim == ndim - 1:
        return x
    return transpose(x, (*(k for k in range(ndim) if k != dim), dim))
