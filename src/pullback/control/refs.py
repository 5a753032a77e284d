"""Mutable references: making, reading and writing them; and discharging, which turns a program
that mentions references into one that takes their values and gives the new ones.

    { r:Ref x. y <- r[0]; r[0] <- x }   becomes   { v x. y = v[0]; w = v.at[0].set(x) in (y, w) }

Programs keep their references as far as a backend or a transformation: the primitives that hold
programs have a `discharge` rule, which reads the references that the program is given, binds the
program without them, and writes back those that it changed. Only the operations here differentiate
and vectorise with references in hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .. import config, dtypes, tree
from ..core.avals import ShapedArray, typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, Jaxpr, Literal, eval_jaxpr, jaxprs_in_params
from ..core.primitive import Primitive
from ..core.refs import (
    AbstractRef,
    Ref,
    TransformedRef,
    freed_error,
    holds_refs,
    is_ref,
    is_ref_aval,
    operations,
    ref_effect,
)
from ..core.symbolic import Zero, instantiate_zeros
from ..core.trace import Trace, Tracer, current_trace, use_trace
from ..lazy_imports import lazy_module
from ..primitives.common import as_array
from ..primitives.convert import convert_element_type, convert_weak
from ..primitives.shape import broadcast
from ..transforms.batch import batch_flat, matchaxis
from . import ref_text as ref_text  # it says how they are printed
from .call import UNSPECIFIED, call_params, jit_p
from .common import discharging
from .ref_places import (
    Indexer,
    cast,
    check_known,
    ds as ds,
    entries_of,
    indexed,
    is_whole,
    place_of,
    read,
    reshaped,
    transposed,
    write,
)

_places: Any = lazy_module("pullback.numpy.scatter")  # how arrays are indexed
unflatten = tree.unflatten  # the rules below have a parameter `tree`
_EFFECTS = frozenset({ref_effect})


# --- the primitives ---
_programs: dict[Any, ClosedJaxpr] = {}


def _program(kind: str, inner: Any, avals: Sequence[Any], treedef: Any) -> ClosedJaxpr:
    """The operation as a program on the value: get: (value, *idx) -> elements; swap: (value, new,
    *idx) -> (old elements, new value); addupdate: (value, x, *idx) -> new value.
    """
    key = (kind, inner, tuple(avals), treedef, config.trace_values())
    found = _programs.get(key)
    if found is None:

        def fun(value: Any, *rest: Any) -> list[Any]:
            if kind == "get":
                return [read(value, tree.unflatten(treedef, rest))]
            entries = tree.unflatten(treedef, rest[1:])
            if kind == "swap":
                return [read(value, entries), write(value, entries, rest[0], "set")]
            return [write(value, entries, rest[0], "add")]

        found = _programs[key] = close_jaxpr(*trace_to_jaxpr(fun, [inner, *avals]))[0]
    return found


def _check_is_ref(aval: Any, name: str) -> None:
    if not is_ref_aval(aval):
        raise ValueError(
            f"{name} must be called on a mutable reference, got a value of type {aval}. Fix: make "
            "one with new_ref."
        )


def _get_aval(ref: Any, *avals: Any, tree: Any) -> Any:
    _check_is_ref(ref, "`get`")
    out = _program("get", ref.inner_aval, avals, tree).out_avals[0]
    return out.update(weak_type=ref.weak_type), _EFFECTS


def _swap_aval(ref: Any, new: Any, *avals: Any, tree: Any) -> Any:
    out = _get_aval(ref, *avals, tree=tree)[0]
    _check_value("swap", ref, new, out)
    return out, _EFFECTS


def _add_aval(ref: Any, x: Any, *avals: Any, tree: Any) -> Any:
    _check_value("addupdate", ref, x, _get_aval(ref, *avals, tree=tree)[0])
    return [], _EFFECTS


def _check_value(name: str, ref: Any, new: Any, want: Any) -> None:
    if new.shape != want.shape:
        raise ValueError(
            f"Invalid shape for `{name}`. Ref shape: {ref.shape}. Expected shape: {want.shape}. "
            f"Value shape: {new.shape}. Fix: broadcast the value, jnp.broadcast_to(value, "
            f"{want.shape})."
        )
    if new.dtype != want.dtype:
        raise ValueError(
            f"Invalid dtype for `{name}`. Ref dtype: {ref.dtype}. Value dtype: {new.dtype}. Fix: "
            f"value.astype('{ref.dtype}')."
        )


def _run(kind: str, ref: Ref, args: Sequence[Any], treedef: Any) -> list[Any]:
    """An operation on a reference that holds an array. The old value's memory goes to the new."""
    value = ref._held()
    closed = _program(kind, typeof(value), [typeof(x) for x in args], treedef)
    donated = [kind != "get", *(False for _ in args)]
    return jit_p.bind(  # type: ignore[no-any-return]
        value, *args, **call_params(closed, kind, donated_invars=donated)
    )


def _own(x: Any) -> Any:
    """An array that nobody else holds."""
    return as_array(x).copy()


def _read(ref: Any, x: Any) -> Any:
    """What a reference shows of its array."""
    return convert_weak(x, None, True) if ref.aval.weak_type else x


def _get_impl(ref: Any, *idx: Any, tree: Any) -> Any:
    if treedef_is_whole(tree, ref.shape):
        # the reference's own array is changed in place
        return _read(ref, _own(ref._held()))
    return _read(ref, _run("get", ref, idx, tree)[0])


def treedef_is_whole(treedef: Any, shape: Any) -> bool:
    """Does an index without operands take the whole array?"""
    return not treedef.num_leaves and is_whole(tree.unflatten(treedef, ()), shape)


def _swap_impl(ref: Any, new: Any, *idx: Any, tree: Any) -> Any:
    if treedef_is_whole(tree, ref.shape):
        old, ref._value = ref._held(), _own(new)
        return _read(ref, old)
    old, ref._value = _run("swap", ref, [new, *idx], tree)
    return _read(ref, old)


def _add_impl(ref: Any, x: Any, *idx: Any, tree: Any) -> Any:
    (ref._value,) = _run("addupdate", ref, [x, *idx], tree)
    return []


def _tangent(kind: str, ref: Any, ref_dot: Any, x_dot: Any) -> None:
    """Exception if a value that is differentiated goes into a reference that is not."""
    if type(ref_dot) is Zero and type(x_dot) is not Zero:
        raise Exception(
            f"performing {kind} operation with a differentiated value on a non-differentiated "
            f"array reference of type {typeof(ref)}. Move the array reference to be an argument of "
            "the differentiated function? Fix: make it inside with new_ref, or write "
            "lax.stop_gradient(value)."
        )


def _no_transpose(cts: Any, ref: Any, *operands: Any, **params: Any) -> Any:
    """Own references of a program are gone before it is transposed: this one is an argument."""
    raise ValueError(
        f"Expected a cotangent of type {ref.aval} but got one of type {ref.aval.inner_aval}: vjp "
        "cannot differentiate with respect to a mutable array reference. Fix: take its value as "
        "the argument, and make the reference inside with new_ref."
    )


def _get_jvp(primals: Any, tangents: Any, *, tree: Any) -> Any:
    out = get_p.bind(*primals, tree=tree)
    if type(tangents[0]) is Zero:
        return out, Zero(typeof(out).to_tangent_aval())
    _check_is_ref(typeof(tangents[0]), "`get`")
    return out, get_p.bind(tangents[0], *primals[1:], tree=tree)


def _swap_jvp(primals: Any, tangents: Any, *, tree: Any) -> Any:
    _tangent("a set/swap", primals[0], tangents[0], tangents[1])
    out = swap_p.bind(*primals, tree=tree)
    if type(tangents[0]) is Zero:
        return out, Zero(typeof(out).to_tangent_aval())
    _check_is_ref(typeof(tangents[0]), "`swap`")
    x_dot = instantiate_zeros(tangents[1])
    return out, swap_p.bind(tangents[0], x_dot, *primals[2:], tree=tree)


def _add_jvp(primals: Any, tangents: Any, *, tree: Any) -> Any:
    _tangent("an addupdate", primals[0], tangents[0], tangents[1])
    addupdate_p.bind(*primals, tree=tree)
    if type(tangents[0]) is not Zero:
        _check_is_ref(typeof(tangents[0]), "`addupdate`")
        addupdate_p.bind(tangents[0], instantiate_zeros(tangents[1]), *primals[2:], tree=tree)
    return [], []


def _get_batch(axis: Any, args: Any, dims: Any, *, tree: Any) -> Any:
    if all(d is None for d in dims):
        return None
    value = read_ref(args[0])
    if type(args[0]) is Ref:
        value = _read(args[0], value)
    (out,), (dim,) = batch_flat(
        lambda v, *idx: [read(v, unflatten(tree, idx))], [value, *args[1:]], dims, axis
    )
    return out, dim


def _update_batch(name: str, how: str) -> Callable[..., Any]:
    def rule(axis: Any, args: Any, dims: Any, *, tree: Any) -> Any:
        if all(d is None for d in dims):
            return None
        if dims[0] is None:
            raise Exception(
                f"performing {name} operation with vmapped value on an unbatched array reference "
                f"of type {typeof(args[0])}. Move the array reference to be an argument to the "
                "vmapped function?"
            )

        def fun(value: Any, x: Any, *idx: Any) -> list[Any]:
            entries = unflatten(tree, idx)
            return [write(value, entries, x, how), read(value, entries)]

        (new, old), (dim, old_dim) = batch_flat(fun, [read_ref(args[0]), *args[1:]], dims, axis)
        write_ref(args[0], matchaxis(axis.size, dim, dims[0], new))
        return ([], []) if how == "add" else (old, old_dim)

    return rule


get_p = Primitive(
    "get",
    effectful=True,
    abstract_eval=_get_aval,
    impl=_get_impl,
    jvp=_get_jvp,
    transpose=_no_transpose,
    axis_batch=_get_batch,
)
swap_p = Primitive(
    "swap",
    effectful=True,
    abstract_eval=_swap_aval,
    impl=_swap_impl,
    jvp=_swap_jvp,
    transpose=_no_transpose,
    axis_batch=_update_batch("a set/swap", "set"),
)
addupdate_p = Primitive(
    "addupdate",
    multiple_results=True,
    effectful=True,
    abstract_eval=_add_aval,
    impl=_add_impl,
    jvp=_add_jvp,
    transpose=_no_transpose,
    axis_batch=_update_batch("an addupdate", "add"),
)


def _new_aval(aval: Any, *, kind: Any, memory_space: Any) -> Any:
    return AbstractRef(aval.strip_weak_type(), memory_space, kind, aval.weak_type), _EFFECTS


def _new_impl(x: Any, *, kind: Any, memory_space: Any) -> Any:
    value = _own(x)
    given = typeof(value)
    aval = given.strip_weak_type()
    if given.weak_type:
        value = convert_element_type(value, aval.dtype)
    return Ref(AbstractRef(aval, memory_space, kind, given.weak_type), value)


def _new_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """A reference and the reference to its tangent, which may become non-zero later."""
    # The tangent of an inner derivative is a value like others to this one.
    kind = None if params["kind"] == "tangent" else params["kind"]
    ref = new_ref_p.bind(*primals, **{**params, "kind": kind})
    aval = typeof(ref).inner_aval.to_tangent_aval()
    if aval.dtype == dtypes.float0:
        return ref, Zero(AbstractRef(aval))
    tangent = instantiate_zeros(tangents[0])
    return ref, new_ref_p.bind(tangent, **{**params, "kind": "tangent"})


def _new_batch(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
    """What is written into it may be mapped: a reference made under vmap always is."""
    x = broadcast(args[0], (axis.size,)) if dims[0] is None else args[0]
    return new_ref_p.bind(x, **params), 0 if dims[0] is None else dims[0]


def _stage_tangent(trace: Any, tracers: Any, params: dict[str, Any]) -> bool:
    """A tangent's reference belongs to the linear program even if it starts from zeros."""
    return bool(params["kind"] == "tangent")


new_ref_p = Primitive(
    "new_ref",
    effectful=True,
    abstract_eval=_new_aval,
    impl=_new_impl,
    jvp=_new_jvp,
    axis_batch=_new_batch,
    always_jvp=True,  # type: ignore[arg-type]
    always_staged=_stage_tangent,
)


def _empty_impl(*, ty: Any, memory_space: Any) -> Any:
    return _new_impl(np.zeros(ty.shape, ty.dtype), kind=None, memory_space=memory_space)


def _empty_batch(axis: Any, args: Any, dims: Any, *, ty: Any, memory_space: Any) -> Any:
    batched = ty.update(shape=(axis.size, *ty.shape))
    return empty_ref_p.bind(ty=batched, memory_space=memory_space), 0


def _empty_jvp(primals: Any, tangents: Any, *, ty: Any, memory_space: Any) -> Any:
    zeros = instantiate_zeros(Zero(ty))
    return _new_jvp([zeros], [Zero(ty.to_tangent_aval())], kind=None, memory_space=memory_space)


empty_ref_p = Primitive(
    "empty_ref",
    effectful=True,
    abstract_eval=lambda *, ty, memory_space: (AbstractRef(ty, memory_space), _EFFECTS),
    impl=_empty_impl,
    jvp=_empty_jvp,
    axis_batch=_empty_batch,
    always_jvp=True,  # type: ignore[arg-type]
)


def _freeze_aval(ref: Any) -> Any:
    _check_is_ref(ref, "`freeze`")
    return ref.inner_aval.update(weak_type=ref.weak_type), _EFFECTS


def _freeze_jvp(primals: Any, tangents: Any) -> Any:
    out = freeze_p.bind(*primals)
    if type(tangents[0]) is Zero:
        return out, Zero(typeof(out).to_tangent_aval())
    _check_is_ref(typeof(tangents[0]), "`freeze`")
    return out, freeze_p.bind(tangents[0])


freeze_p: Primitive = Primitive(
    "freeze",
    effectful=True,
    abstract_eval=_freeze_aval,
    impl=lambda ref: _read(ref, _own(ref._held())),
    jvp=_freeze_jvp,
    transpose=_no_transpose,
    batch=lambda args, dims: (freeze_p.bind(*args), dims[0]),
)


def _free_impl(ref: Any) -> Any:
    ref._held()
    ref._value = None
    return []


def _free_jvp(primals: Any, tangents: Any) -> Any:
    for ref in (primals[0], tangents[0]):
        if type(ref) is not Zero:
            free_ref_p.bind(ref)
    return [], []


free_ref_p: Primitive = Primitive(
    "free_ref",
    multiple_results=True,
    effectful=True,
    abstract_eval=lambda ref: ([], _EFFECTS),
    impl=_free_impl,
    jvp=_free_jvp,
    batch=lambda args, dims: (free_ref_p.bind(*args), []),
)


# --- what users call ---
def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Any:
    """A mutable reference to a copy of an array.

    `ref[idx]` reads, `ref[idx] = x` and `ref[idx] += x` write, in jit, loops, vmap and grad too.

    >>> r = pb.new_ref(jnp.zeros(2)); r[0] += 1.0; r[...]
    Array([1., 0.], dtype=float32)

    Inside jit, grad, vmap and loops references are read and written as outside; a function that is
    transformed cannot return them. Raises TypeError for anything but an array or a number.
    """
    try:
        aval = typeof(init_val)
    except TypeError:
        aval = None
    if not isinstance(aval, ShapedArray):
        raise TypeError(
            "Error interpreting argument to new_ref as a JAX value. The problematic value is of "
            f"type {type(init_val)} and was passed to new_ref at position 0. Fix: pass one array; "
            "for a pytree, jax.tree.map(new_ref, values)."
        )
    return new_ref_p.bind(init_val, kind=kind, memory_space=memory_space)


def empty_ref(ty: Any, memory_space: Any = None) -> Any:
    """A mutable reference to an array of the shape and dtype of `ty` (a ShapeDtypeStruct or aval),
    whose elements are to be written before they are read (they are zeros).

    >>> ref = pb.empty_ref(pb.ShapeDtypeStruct((2,), jnp.float32))
    >>> ref[...] = jnp.ones(2)
    >>> ref[...]
    Array([1., 1.], dtype=float32)
    """
    aval = ty if isinstance(ty, ShapedArray) else ShapedArray(ty.shape, ty.dtype)
    return empty_ref_p.bind(ty=aval, memory_space=memory_space)


def freeze(ref: Any) -> Any:
    """The array that a reference holds, when no more will be written; an array is itself.

    >>> ref = pb.new_ref(jnp.zeros(2))
    >>> ref[0] = 5.0
    >>> pb.freeze(ref)
    Array([5., 0.], dtype=float32)
    """
    aval = _aval_of(ref)
    if isinstance(aval, ShapedArray):
        return ref
    _check_is_ref(aval, "`freeze`")
    return freeze_p.bind(ref)


def free_ref(ref: Any) -> None:
    """Gives a reference's memory back; reading it afterwards is an error.

    >>> ref = pb.new_ref(jnp.zeros(2))
    >>> pb.free_ref(ref)
    """
    _check_is_ref(_aval_of(ref), "`free_ref`")
    free_ref_p.bind(ref)


def _aval_of(ref: Any) -> Any:
    try:
        return typeof(ref)
    except TypeError:
        return type(ref)


def _parts(ref: Any, idx: Any, name: str) -> tuple[Any, list[Any], Any]:
    """The reference, the operands of a place in it, and its structure (None: another kind of
    index); ValueError if `ref` is no reference."""
    if type(ref) is TransformedRef:
        base, transforms, shape = ref.ref, ref.transforms, ref.shape
    else:
        base, transforms, shape = ref, (), None
        aval = _aval_of(ref)
        if not is_ref_aval(aval):
            raise ValueError(
                f"Can only call `{name}` on a `Ref`: {ref}. Fix: make one with new_ref."
            )
        shape = aval.shape
    entries = entries_of(Ellipsis if idx is None else idx, shape)
    if entries is None:
        return base, [], None
    if transforms:
        more = () if is_whole(entries, shape) else (Indexer(entries, shape),)
        entries = place_of((*transforms, *more))
    return base, *tree.flatten(entries)


def get(ref: Any, idx: Any = None) -> Any:
    """`ref[idx]`: the elements of a reference at an index; all of them without one.

    >>> ref = pb.new_ref(jnp.arange(3))
    >>> pb.ref.get(ref, 1)
    Array(1, dtype=int32)
    """
    base, leaves, treedef = _parts(ref, idx, "ref_get")
    if treedef is None:
        return _places.ref_get(get(ref), idx)
    return get_p.bind(base, *leaves, tree=treedef)


def _cast(ref: Any, value: Any) -> Any:
    """A value for a reference: numbers without a firm type take the reference's."""
    aval, dtype = typeof(value), ref.dtype
    if aval.dtype == dtype and not aval.weak_type:
        return value
    if (
        aval.weak_type
        and dtypes.promote_types(aval.dtype, dtype) == dtype
        and _same_kind(aval.dtype, dtype)
    ):
        return convert_element_type(value, dtype)
    return value


def _same_kind(a: Any, b: Any) -> bool:
    return dtypes.is_inexact(a) == dtypes.is_inexact(b)


def swap(ref: Any, idx: Any, value: Any, _function_name: str = "ref_swap") -> Any:
    """Sets the elements of a reference at an index; returns what they were.

    `value` must have the shape of the elements and the reference's dtype; ValueError otherwise.

    >>> ref = pb.new_ref(jnp.arange(3))
    >>> pb.ref.swap(ref, 1, 10)
    Array(1, dtype=int32)
    >>> ref[...]
    Array([ 0, 10,  2], dtype=int32)
    """
    base, leaves, treedef = _parts(ref, idx, _function_name)
    value = _cast(ref, value)
    if treedef is None:
        whole = get(ref)
        swap(ref, None, _places.ref_set(whole, idx, value))
        return _places.ref_get(whole, idx)
    _swap_aval(typeof(base), typeof(value), *map(typeof, leaves), tree=treedef)
    return swap_p.bind(base, value, *leaves, tree=treedef)


def set_ref(ref: Any, idx: Any, value: Any) -> None:
    """`ref[idx] = value`. `value` must have the shape of the elements; ValueError otherwise.

    >>> ref = pb.new_ref(jnp.arange(3))
    >>> pb.ref.set(ref, 1, 10)
    >>> ref[...]
    Array([ 0, 10,  2], dtype=int32)
    """
    swap(ref, idx, value, "ref_set")


def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """`ref[idx] += x`, as one operation: positions that come twice are added to twice.

    >>> ref = pb.new_ref(jnp.arange(3))
    >>> pb.ref.addupdate(ref, 1, 10)
    >>> ref[...]
    Array([ 0, 11,  2], dtype=int32)
    """
    base, leaves, treedef = _parts(ref, idx, "ref_addupdate")
    x = _cast(ref, x)
    if treedef is None:
        swap(ref, None, _places.ref_add(get(ref), idx, x))
        return
    _add_aval(typeof(base), typeof(x), *map(typeof, leaves), tree=treedef)
    addupdate_p.bind(base, x, *leaves, tree=treedef)


def _view(ref: Any, transform: Any) -> TransformedRef:
    if type(ref) is TransformedRef:
        return TransformedRef(ref.ref, (*ref.transforms, transform))
    return TransformedRef(ref, (transform,))


operations.update(
    new=new_ref,
    get=get,
    set=set_ref,
    swap=swap,
    addupdate=addupdate,
    index=lambda ref, idx: _view(ref, indexed(ref.shape, idx)),
    reshape=lambda ref, *shape: _view(ref, reshaped(ref.shape, shape)),
    transpose=lambda ref, permutation=None: _view(ref, transposed(ref.shape, permutation)),
    bitcast=lambda ref, dtype: _view(ref, cast(ref.dtype, dtype)),
)


def _whole_tree(ref: Any) -> Any:
    return tree.flatten(entries_of(Ellipsis, typeof(ref).shape))[1]


def read_ref(ref: Any) -> Any:
    """The whole value; of a reference that is not traced, its own array."""
    if type(ref) is Ref:
        return ref._held()
    if type(ref) is RefCell:
        return ref.value
    return get_p.bind(ref, tree=_whole_tree(ref))


def write_ref(ref: Any, value: Any) -> None:
    """Sets the whole value, which nobody else may hold."""
    if type(ref) is Ref:
        ref._value = value
    else:
        swap_p.bind(ref, value, tree=_whole_tree(ref))


# --- discharging ---
class RefCell(Tracer):
    """A reference inside a program that is being discharged: a name for its current value, which
    is read as `weak` as the reference is until something else is written.
    """

    __slots__ = ("value", "weak")

    def __init__(self, trace: Trace, aval: Any, value: Any) -> None:
        self._trace = trace
        self.aval, self.value, self.weak = aval, value, aval.weak_type

    def free(self) -> list[Any]:
        self.held()
        self.value = None
        return []

    def held(self) -> Any:
        if self.value is None:
            raise freed_error(self.aval)
        return self.value

    def read(self, value: Any) -> Any:
        return convert_weak(value, None, True) if self.weak else value

    def write(self, value: Any) -> None:
        self.value, self.weak = value, False


class DischargeTrace(Trace):
    """Runs a program, its references being cells of this trace; all else is the parent's."""

    __slots__ = ()

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        rule = _CELLS.get(primitive)
        if rule is not None and (
            not tracers or not is_ref(tracers[0]) or isinstance(tracers[0], RefCell)
        ):
            with use_trace(self.parent_trace):  # type: ignore[arg-type]
                return rule(self, *tracers, **params)
        if holds_refs(primitive, params):
            with use_trace(self):
                return primitive.rules["discharge"](tracers, params)
        with use_trace(self.parent_trace):  # type: ignore[arg-type]
            return primitive.bind(*tracers, **params)

    def _without(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """A function that a custom rule's equation holds, its own references discharged."""

        def discharged(*args: Any) -> Any:
            return run_discharged(fun, args)

        return discharged

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool
    ) -> Any:
        parent: Any = self.parent_trace
        with use_trace(parent):
            return parent.process_custom_jvp_call(
                primitive, self._without(fun), jvp, tracers, symbolic_zeros=symbolic_zeros
            )

    def process_custom_vjp_call(
        self,
        primitive: Any,
        fun: Any,
        fwd: Any,
        bwd: Any,
        tracers: Any,
        *,
        out_trees: Any,
        symbolic_zeros: bool,
    ) -> Any:
        parent: Any = self.parent_trace
        with use_trace(parent):
            return parent.process_custom_vjp_call(
                primitive,
                self._without(fun),
                fwd,
                bwd,
                tracers,
                out_trees=out_trees,
                symbolic_zeros=symbolic_zeros,
            )


def _cell_get(trace: Any, ref: Any, *idx: Any, tree: Any) -> Any:
    return ref.read(read(ref.held(), unflatten(tree, idx)))


def _cell_swap(trace: Any, ref: Any, new: Any, *idx: Any, tree: Any) -> Any:
    entries = unflatten(tree, idx)
    old = ref.read(read(ref.held(), entries))
    ref.write(write(ref.held(), entries, new, "set"))
    return old


def _cell_add(trace: Any, ref: Any, x: Any, *idx: Any, tree: Any) -> Any:
    ref.write(write(ref.held(), unflatten(tree, idx), x, "add"))
    return []


def _cell_new(trace: Any, x: Any, *, kind: Any, memory_space: Any) -> Any:
    aval = _new_aval(typeof(x), kind=kind, memory_space=memory_space)[0]
    if typeof(x).weak_type:
        x = convert_element_type(x, aval.inner_aval.dtype)
    return RefCell(trace, aval, x)


_CELLS: dict[Primitive, Callable[..., Any]] = {
    get_p: _cell_get,
    swap_p: _cell_swap,
    addupdate_p: _cell_add,
    new_ref_p: _cell_new,
    empty_ref_p: lambda trace, *, ty, memory_space: RefCell(
        trace, AbstractRef(ty, memory_space), instantiate_zeros(Zero(ty))
    ),
    freeze_p: lambda trace, ref: ref.read(ref.held()),
    free_ref_p: lambda trace, ref: ref.free(),
}


def check_numbers(jaxpr: Jaxpr) -> None:
    """ValueError for a number past the end in a program's own references: what writes a program
    does not check them, its batches do."""
    own = set()
    for eqn in jaxpr.eqns:
        if eqn.primitive in (new_ref_p, empty_ref_p):
            own.update(eqn.outvars)
        elif eqn.primitive in (get_p, swap_p, addupdate_p) and eqn.invars[0] in own:
            atoms = eqn.invars[1:] if eqn.primitive is get_p else eqn.invars[2:]
            entries = [a.val if isinstance(a, Literal) else None for a in atoms]
            check_known(unflatten(eqn.params["tree"], entries), eqn.invars[0].aval.shape)
        for inner in jaxprs_in_params(eqn.params):
            check_numbers(inner)


operations["check_numbers"] = check_numbers


def run_discharged(fun: Callable[..., Sequence[Any]], args: Sequence[Any]) -> list[Any]:
    """Runs a function whose references are all its own."""
    trace = DischargeTrace(current_trace())
    with use_trace(trace):
        outs = list(fun(*args))
    trace.invalidate()
    return outs


def discharge_cells(
    fun: Callable[..., Sequence[Any]], avals: Sequence[AbstractRef], values: Iterable[Any]
) -> tuple[list[Any], list[Any]]:
    """Runs a function of new references of these types, which hold these values at first: (its
    results, the values that the references hold at the end).
    """
    trace = DischargeTrace(current_trace())
    cells = [RefCell(trace, a, v) for a, v in zip(avals, values, strict=True)]
    with use_trace(trace):
        outs = list(fun(*cells))
    trace.invalidate()
    return outs, [cell.value for cell in cells]


def discharge(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[int]]:
    """(a program without references, the arguments that are references it writes): it takes their
    values instead, and gives, after its own results, the new values of those that it writes.
    Remembered.
    """
    found = closed.derived.get("discharge")
    if found is not None:
        return found  # type: ignore[no-any-return]
    written: list[int] = []

    def fun(*args: Any) -> list[Any]:
        trace = DischargeTrace(current_trace())
        cells = {
            k: RefCell(trace, a, x)
            for k, (a, x) in enumerate(zip(closed.in_avals, args, strict=True))
            if is_ref_aval(a)
        }
        with use_trace(trace):
            outs = eval_jaxpr(
                closed.jaxpr, closed.consts, *(cells.get(k, x) for k, x in enumerate(args))
            )
        trace.invalidate()
        written[:] = [k for k, cell in cells.items() if cell.value is not args[k]]
        return [*outs, *(cells[k].value for k in written)]

    avals = [a.inner_aval if is_ref_aval(a) else a for a in closed.in_avals]
    jaxpr, consts = trace_to_jaxpr(fun, avals, closed.jaxpr.debug_info)
    result = close_jaxpr(jaxpr, consts)[0], written
    closed.derived["discharge"] = result
    return result


def discharge_linear(jaxpr: Jaxpr, consts: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """The same for a program whose references are its own and whose constants may be traced."""
    if ref_effect not in jaxpr.effects:
        return jaxpr, list(consts)
    return trace_to_jaxpr(
        lambda *args: run_discharged(lambda *xs: eval_jaxpr(jaxpr, consts, *xs), args),
        jaxpr.in_avals,
        jaxpr.debug_info,
    )


operations["discharge"] = discharge_linear
operations["taken_apart"] = lambda *args: discharging.taken_apart(*args)


def values_of(args: Sequence[Any]) -> list[Any]:
    """Operands, with the values of references in their places."""
    return [read_ref(x) if is_ref(x) else x for x in args]


def _discharge_call(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    closed: ClosedJaxpr = params["jaxpr"]
    pure, written = discharge(closed)
    donated = [
        d or (k in written and type(x) is Ref)
        for k, (d, x) in enumerate(zip(params["donated_invars"], args, strict=True))
    ]
    held = call_params(
        pure,
        params["name"],
        like=params,
        donated_invars=donated,
        in_shardings=params["in_shardings"],
        out_shardings=[*params["out_shardings"], *[UNSPECIFIED] * len(written)],
    )
    outs = jit_p.bind(*values_of(args), **held)
    n = len(closed.jaxpr.outvars)
    for k, new in zip(written, outs[n:], strict=True):
        write_ref(args[k], new)
    return outs[:n]  # type: ignore[no-any-return]


jit_p.rules["discharge"] = _discharge_call
