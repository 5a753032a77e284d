"""Pytrees: equal to JAX on random trees, and the parts of the contract that JAX does not show."""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import pickle
import re
import time
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pullback as pb
import pullback.numpy as jnp
from pullback import jit, tree, tree_util
from pullback.tree import engine, prefix

Point = namedtuple("Point", "x y")


class Box:
    """Registered with both libraries."""

    def __init__(self, children, aux):
        self.children, self.aux = list(children), aux

    def __eq__(self, other):
        return isinstance(other, Box) and vars(self) == vars(other)

    def __repr__(self):
        return f"Box({self.children}, {self.aux})"


@dataclasses.dataclass
class Model:
    w: object
    name: object = dataclasses.field(metadata={"static": True})
    b: object = 0


class Stamp:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return isinstance(other, Stamp) and self.n == other.n

    def __hash__(self):
        return hash(self.n)


def _register(util):
    util.register_pytree_node(Box, lambda b: (b.children, b.aux), lambda aux, c: Box(c, aux))
    util.register_dataclass(Model)
    util.register_static(Stamp)


_register(tree_util)


@pytest.fixture(scope="module")
def jax_util():
    jax = pytest.importorskip("jax")
    _register(jax.tree_util)
    return jax.tree_util


LEAVES = st.integers(0, 99) | st.sampled_from(
    [1.5, "s", deque([1]), time.gmtime(0), frozenset(), range(3)]
)
KEYS = st.text("abc", max_size=2)


def _grow(inner):
    lists = st.lists(inner, max_size=3)
    dicts = st.dictionaries(KEYS, inner, max_size=3)
    return st.one_of(
        lists,
        lists.map(tuple),
        dicts,
        st.dictionaries(st.integers(0, 9), inner, max_size=3),
        dicts.map(OrderedDict),
        dicts.map(lambda d: defaultdict(list, d)),
        st.builds(Point, inner, inner),
        st.builds(Box, lists, st.sampled_from([None, "aux", 3])),
        st.builds(Model, inner, st.sampled_from(["m", 2]), inner),
        st.builds(Stamp, st.integers(0, 2)),
    )


TREES = st.recursive(LEAVES | st.none(), _grow, max_leaves=12)


def _text(x):
    """Results of either library as comparable text."""
    return re.sub(r"<(\S+) object at 0x\w+>", r"<\1>", repr(x))


def _outcome(f):
    try:
        return _text(f())
    except Exception as err:
        return type(err).__name__


@settings(max_examples=150, deadline=None)
@given(t=TREES)
def test_flatten_equals_jax(jax_util, t):
    ours, theirs = tree_util, jax_util
    leaves, treedef = ours.tree_flatten(t)
    leaves2, treedef2 = theirs.tree_flatten(t)
    assert all(a is b for a, b in zip(leaves, leaves2, strict=True))
    assert _text(treedef) == _text(treedef2)
    assert (treedef.num_leaves, treedef.num_nodes) == (treedef2.num_leaves, treedef2.num_nodes)
    assert _text(treedef.node_data()) == _text(treedef2.node_data())
    assert _text(treedef.children()) == _text(treedef2.children())
    rebuilt = treedef.unflatten(leaves)
    assert rebuilt == t and _text(rebuilt) == _text(treedef2.unflatten(leaves2))
    assert _text(engine.compile_unflatten(treedef.node)(leaves)) == _text(rebuilt)
    paths, paths2 = (
        [(u.keystr(p), u.keystr(p, simple=True, separator="/"), x) for p, x in pairs]
        for u, pairs in (
            (ours, ours.tree_leaves_with_path(t)),
            (theirs, theirs.tree_leaves_with_path(t)),
        )
    )
    assert _text(paths) == _text(paths2)
    stop = lambda x: isinstance(x, (list, Point)) or x is None
    assert _text(ours.tree_flatten(t, is_leaf=stop)) == _text(theirs.tree_flatten(t, is_leaf=stop))
    assert ours.all_leaves(leaves) == theirs.all_leaves(leaves)
    assert ours.all_leaves([t]) == theirs.all_leaves([t])
    assert ours.treedef_is_leaf(treedef) == theirs.treedef_is_leaf(treedef2)


@settings(max_examples=150, deadline=None)
@given(a=TREES, b=TREES)
def test_two_trees_equal_jax(jax_util, a, b):
    def both(f):
        assert _outcome(lambda: f(tree_util)) == _outcome(lambda: f(jax_util))

    both(lambda u: u.tree_structure(a) == u.tree_structure(b))
    both(lambda u: u.tree_structure(a).flatten_up_to(b))
    both(lambda u: u.tree_map(lambda x, y: (x, y), a, b))
    both(lambda u: u.tree_broadcast(a, b))
    both(lambda u: u.tree_structure(a).compose(u.tree_structure(b)))
    both(lambda u: u.treedef_tuple([u.tree_structure(a), u.tree_structure(b)]))
    both(lambda u: u.tree_map(lambda x, y: y, a, u.tree_map(lambda x: b, a)))
    both(
        lambda u: u.tree_transpose(
            u.tree_structure(a), u.tree_structure(b), u.tree_map(lambda x: b, a)
        )
    )
    same = tree_util.tree_structure(a) == tree_util.tree_structure(b)
    assert same == (next(prefix.equality_errors(a, b), None) is None)
    is_prefix = tree_util.tree_structure(a).is_prefix(tree_util.tree_structure(b))
    assert is_prefix == (not prefix.prefix_errors(a, b))


def test_equal_structures_hash_equal_and_pickle():
    t = {"a": (1, None), "b": Point(1, [2]), "c": Model(1, "m", 2), "d": OrderedDict(z=1)}
    treedef = tree.structure(t)
    again = pickle.loads(pickle.dumps(treedef))
    for other in (again, tree.structure(copy.deepcopy(t)), copy.copy(treedef)):
        assert other == treedef and hash(other) == hash(treedef)
    assert treedef != tree.structure({"a": 1}) and treedef != 3
    assert isinstance(hash(tree.structure(Box([1], aux=[3]))), int)  # unhashable static data


class Circular:
    """A node whose static data is itself, and whose hash is that of its structure."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, Circular)

    def __hash__(self):
        return hash(("circular", tree.structure(self)))


class Hashless(Circular):
    def __hash__(self):
        raise ValueError("no hash")


for _cls in (Circular, Hashless):
    tree_util.register_pytree_node(_cls, lambda p: ((p.x,), p), lambda d, c: type(d)(*c))


@pytest.mark.parametrize("cls", [Circular, Hashless])
def test_structures_hash_whatever_their_static_data_does(cls):
    a, b = tree.structure({"k": cls(1)}), tree.structure({"k": cls(2)})
    assert a == b
    assert hash(a) == hash(b)
    if cls is Circular:
        hash(cls(1))  # from within the circle too
    assert jit(lambda p: cls(p.x * 2))(cls(3)).x == 6


def test_dict_key_order():
    assert list(tree.map(lambda x: x, {"b": 1, "a": 2})) == ["a", "b"]
    with pytest.raises(ValueError, match="Comparator raised"):
        tree.flatten({1: 0, "a": 1})
    assert tree.leaves(OrderedDict([(1, 0), ("a", 1)])) == [0, 1]


def test_static_data_is_not_confused_with_equal_values():
    assert tree.map(lambda x: x, Model(1, 1.0)).name.__class__ is float
    assert tree.map(lambda x: x, Model(1, True)).name is True
    assert tree.structure(Model(1, 1)) == tree.structure(Model(1, 1.0))


def test_prefix_messages_name_the_place():
    with pytest.raises(
        ValueError, match=r"different lengths of list at key path\n.*tree\['a'\]\[1\]"
    ):
        tree.map(lambda x, y: x, {"a": (1, [1, 2])}, {"a": (1, [1])})
    with pytest.raises(ValueError, match=r"is_leaf=lambda x: x is None"):
        tree.map(lambda x, y: x, [1, None], [1, 2])
    with pytest.raises(ValueError, match="metadata"):
        tree.map(lambda x, y: x, Model(1, "a"), Model(1, "b"))


def test_flatten_axes():
    treedef = tree.structure(((1, 2), {"k": 3}, None))
    assert prefix.flatten_axes("in_axes", treedef, (0, None, 1)) == [0, 0, None]
    assert prefix.flatten_axes("in_axes", treedef, ((0, 1), {"k": None}, None)) == [0, 1, None]
    assert prefix.flatten_axes("in_axes", treedef, None) == [None] * 3
    for bad, place in [
        ((0, 1), r"at key path\n    in_axes\n"),
        ((0, [1], 1), r"in_axes\[1\]"),
        (([0],) * 3, "tuple"),
    ]:
        with pytest.raises(ValueError, match=place):
            prefix.flatten_axes("in_axes", treedef, bad)


def test_leaf_counts_and_predicates_are_checked():
    treedef = tree.structure((1, 2))
    for leaves in ([1], [1, 2, 3]):
        with pytest.raises(ValueError, match="expected 2"):
            treedef.unflatten(leaves)
    with pytest.raises(TypeError, match="iterable"):
        treedef.unflatten(3)
    with pytest.raises(ValueError, match="True or False"):
        tree.flatten([1], is_leaf=lambda x: 1)
    with pytest.raises(TypeError, match="is_leaf"):
        tree.flatten([1], is_leaf=3)
    with pytest.raises(TypeError):
        tree.reduce(lambda a, b: a + b, [])


def test_registration_errors():
    with pytest.raises(ValueError, match="Duplicate custom PyTreeDef"):
        tree_util.register_static(Stamp)
    with pytest.raises(TypeError, match="class"):
        tree_util.register_pytree_node(3, None, None)

    @dataclasses.dataclass
    class Pair:
        x: int
        y: int

    with pytest.raises(ValueError, match="drop_fields"):
        tree_util.register_dataclass(Pair, ["x"], [])
    with pytest.raises(TypeError, match="both"):
        tree_util.register_dataclass(Pair, ["x"])
    with pytest.raises(ValueError, match="overlap"):
        tree_util.register_dataclass(Pair, ["x", "y"], ["y"])
    with pytest.raises(ValueError, match=r"Unexpected fields: \{'z'\}"):
        tree_util.register_dataclass(Pair, ["x", "y", "z"], [])

    class Bad:
        pass

    tree_util.register_pytree_node(Bad, lambda b: 1, lambda aux, c: Bad())
    for ask in (tree.flatten, tree.leaves, tree_util.flatten_one_level):
        with pytest.raises(
            ValueError, match=r"should return a \(children, aux_data\) tuple, got 1"
        ):
            ask(Bad())


def test_partial():
    p = tree_util.Partial(functools.partial(max, 1), 2)
    assert p(0) == 2 and tree.leaves(p) == [2]
    assert tree.map(lambda x: 10 * x, p)(0) == 20
    assert tree.structure(p) == tree.structure(tree.map(lambda x: x, p))
    shown = repr(tree_util.Partial(max, 1, key=None))  # Python 3.13 shows the module too
    shown = shown.removeprefix("pullback.tree_util.")
    assert shown == "Partial(<built-in function max>, 1, key=None)"


@pytest.mark.parametrize("t", [1, None, (), [1, (2,)], {"b": 1, "a": (2, None)}, {}])
def test_bytes_equal_jax(jax_util, t):
    treedef = tree.structure(t)
    data = treedef.serialize_using_proto()
    assert data == jax_util.tree_structure(t).serialize_using_proto()
    assert engine.PyTreeDef.deserialize_using_proto(tree_util.default_registry, data) == treedef
    for cut in range(len(data)):
        try:
            engine.PyTreeDef.deserialize_using_proto(tree_util.default_registry, data[:cut])
        except ValueError:
            pass


def test_walk_and_from_iterable_tree_equal_jax(jax_util):
    t = (1, {"b": 2, "a": None}, Point(3, 4), Box([5], 6))
    fold = [
        u.tree_structure(t).walk(lambda c, d: (c, d), lambda x: -x, [1, 2, 3, 4, 5])
        for u in (tree_util, jax_util)
    ]
    assert fold[0] == fold[1]
    treedef = tree.structure((1, {"a": 2}, [3]))
    assert treedef.from_iterable_tree([1, [2], (3,)]) == (1, {"a": 2}, [3])
    assert tree_util.tree_structure(t) == engine.make_treedef(
        tree.structure(t).node_data(), tree.structure(t).children()
    )


def test_deep_and_wide_trees():
    deep = functools.reduce(lambda t, _: [t], range(150), 1)
    wide = list(range(3000))
    for t in (deep, wide):
        leaves, node = engine.flatten_raw(t)
        assert engine.unflatten_raw(node, leaves) == t
        assert engine.compile_unflatten(node)(leaves) == t


def test_nothing_keeps_the_leaves_in_a_cycle():
    """Leaves die with their last reference, without the collector: tracers must."""

    class Leaf:
        pass

    calls = [
        tree.flatten_with_path,
        lambda t: tree.structure(t).walk(lambda c, d: c, lambda x: x, tree.leaves(t)),
        lambda t: tree.structure(t).from_iterable_tree(([t[0][0]], t[1])),
        lambda t: tree.reduce_associative(lambda a, b: a, t),
        lambda t: tree.map_with_path(lambda path, x: x, t),
    ]
    gc.disable()
    try:
        for call in calls:
            leaf = Leaf()
            seen = weakref.ref(leaf)
            call(([leaf], 1))
            del leaf
            assert seen() is None
    finally:
        gc.enable()


def test_a_dict_is_no_leaf_whatever_its_keys() -> None:
    assert not tree_util.all_leaves([{"a": 1, 2: 3}]) and tree_util.all_leaves([1, "a"])


Pair = namedtuple("Pair", "a b")
Twin = namedtuple("Twin", "a b")
NOT_PREFIXES = (
    ([1, 2], [1]), ([1, 2], (1, 2)), ((1, 2), (1,)), ((1, 2), [1, 2]), ({"a": 1}, {"b": 1}),
    ({"a": 1}, [1]), (Pair(1, 2), (1, 2)), (Pair(1, 2), Twin(1, 2)), ((1,), Pair(1, 2)), (None, 1),
    (OrderedDict(a=1), {"a": 1}), ({"a": 1}, OrderedDict(a=1)), ([1, [2]], [1, 2]),
    (defaultdict(int, a=1), defaultdict(float, a=1)),
)  # fmt: skip


@pytest.mark.parametrize("at", range(len(NOT_PREFIXES)))
def test_what_is_no_prefix_is_told_in_jaxs_words(at: int) -> None:
    """Tests of libraries look for them."""
    jax_util = pytest.importorskip("jax.tree_util")
    of, full = NOT_PREFIXES[at]
    with pytest.raises(ValueError, match=r"\w") as theirs:
        jax_util.tree_structure(of).flatten_up_to(full)
    with pytest.raises(ValueError, match=re.escape(str(theirs.value).splitlines()[0])):
        tree_util.tree_structure(of).flatten_up_to(full)


PREFIX_FAULTS = (
    ({"in_axes": ({"a": 0}, [0, 0])}, ([1], [1])),
    ({"in_axes": ({"a": 0},)}, ({"b": 1},)),
    ({"in_axes": ({"a": 0, "b": 1},)}, ({"a": 1},)),
    ({"in_axes": ((0,),)}, (np.ones(3),)),
    ({"out_axes": {"a": 0}}, (np.ones(3),)),
    ({}, ([np.ones(3), np.ones(4), np.ones(4)], np.ones(5))),
    ({"axis_size": 4}, (np.ones(3), np.ones(3))),
)  # fmt: skip


@pytest.mark.parametrize("at", range(len(PREFIX_FAULTS)))
def test_axes_that_fit_no_argument_are_told_in_jaxs_words(at: int) -> None:
    """Every line of JAX's message is in ours, but for its class of leaves."""
    jax = pytest.importorskip("jax")
    options, args = PREFIX_FAULTS[at]
    with pytest.raises(ValueError, match=r"\w") as theirs:
        jax.vmap(lambda x, y=None: x, **options)(*args)
    with pytest.raises(ValueError, match=r"\w") as ours:
        pb.vmap(lambda x, y=None: x, **options)(*args)
    for line in str(theirs.value).splitlines():
        if "jax._src" not in line:
            assert line in str(ours.value)


@pytest.mark.parametrize(
    "f",
    [
        lambda m: m.vmap(lambda x: "no array", out_axes=(0, 1))(np.ones(3)),
        lambda m: m.vmap(lambda *x, **k: x)((), a=()),
        lambda m: m.tree.reduce_associative(max, []),
        lambda m: m.tree.map(lambda *_: 0, {"c": 1}, {"a": 1, "b": 2}),
        lambda m: m.tree.transpose(m.tree.structure((0, 0)), m.tree.structure([0]), ([1], [2, 3])),
        lambda m: m.tree_util.register_dataclass(Plain, ["x"]),
        lambda m: m.tree_util.register_dataclass(Plain, ["x"], []),
        lambda m: m.tree_util.register_dataclass(Plain, ["x", "y"], ["y"]),
        lambda m: m.tree_util.register_dataclass(Plain, ["x", "y", "z"], []),
    ],
)
def test_faults_are_told_in_jaxs_words(f) -> None:
    jax = pytest.importorskip("jax")
    with pytest.raises((TypeError, ValueError)) as theirs:
        f(jax)
    with pytest.raises(type(theirs.value)) as ours:
        f(pb)
    lines = [line for line in str(theirs.value).splitlines() if "jax._src" not in line]
    # Sets of keys are printed in any order.
    assert all(sorted(line) in map(sorted, str(ours.value).splitlines()) for line in lines)


@dataclasses.dataclass
class Plain:
    x: int
    y: int


def test_transposing_takes_leaves_in_order() -> None:
    """Containers may be others than the structures say, as in JAX."""
    outer, inner = tree.structure((0, 0)), tree.structure([0, 0])
    for leaves in ([1, 2, 3, 4], ((1, 2, 3), 4)):
        assert tree.transpose(outer, inner, leaves) == [(1, 3), (2, 4)]


def test_partial_is_of_tree_util() -> None:
    assert tree_util.Partial.__module__ == "pullback.tree_util"


class OfMatrices:
    """A container that is made of arrays and of nothing else."""

    def __init__(self, matrix):
        if matrix.shape[-2:] != (2, 2):
            raise ValueError(f"Expected a matrix, got {matrix!r}")
        self.matrix = matrix


def test_containers_of_results_are_made_of_arrays_alone():
    """What is asked of a result's structure beforehand is no more than it can tell."""
    pb.tree_util.register_pytree_node(
        OfMatrices, lambda x: ((x.matrix,), None), lambda _, children: OfMatrices(*children)
    )
    x = OfMatrices(jnp.ones((2, 2)))
    device = pb.sharding.SingleDeviceSharding(pb.devices()[0])
    for f in (
        pb.jit(lambda a: OfMatrices(a.matrix * 2)),
        pb.jit(lambda a: OfMatrices(a.matrix * 2), out_shardings=device),
        pb.jit(lambda a: {"b": [OfMatrices(a.matrix * 2)]}),
    ):
        for _ in range(3):  # in Python, and natively
            (got,) = pb.tree.leaves(f(x))
            np.testing.assert_array_equal(got, np.full((2, 2), 2.0))
