"""einsum traces to the programs that JAX makes, and refuses what JAX refuses."""

import re

import jax
import jax.numpy
import numpy as np
import pytest
from oracle_compare import same

import pullback
import pullback.numpy

CASES = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,jk->ki", [(2, 3), (3, 4)]),
    ("bij,bjk->bik", [(2, 2, 3), (2, 3, 4)]),
    ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("ij->ji", [(2, 3)]),
    ("ij->j", [(2, 3)]),
    ("i,i", [(3,), (3,)]),
    ("i,j->ij", [(3,), (4,)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 6)]),
    ("ijk,jil->kl", [(2, 3, 4), (3, 2, 5)]),
    ("ij,kj->", [(2, 3), (4, 3)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("iij,jk->ik", [(2, 2, 3), (3, 4)]),
    ("bhqd,bkhd->bhqk", [(2, 3, 4, 5), (2, 6, 3, 5)]),
    ("ijj,jk->ik", [(2, 3, 3), (3, 4)]),
    ("ij,i->j", [(1, 3), (4,)]),
    ("i,i,i->i", [(3,), (3,), (3,)]),
    ("ij->", [(2, 3)]),
    (",i->i", [(), (3,)]),
    ("abc,cd,def->abef", [(2, 3, 4), (4, 5), (5, 2, 3)]),
    ("hbqd,bkhd->bhqk", [(2, 3, 4, 5), (3, 6, 2, 5)]),
    ("kji,ijk->", [(2, 3, 4), (4, 3, 2)]),
    ("hbi,bhi->ihb", [(2, 3, 4), (3, 2, 4)]),
    ("ij,k->ik", [(2, 3), (2,)]),
    ("ij...->...", [(2, 3, 4)]),
    ("...i->...", [(2, 3)]),
    ("a,ab,abc->abc", [(2,), (2, 3), (2, 3, 4)]),
    ("ea,fb,abcd,gc,hd->efgh", [(4, 4)] * 2 + [(4, 4, 4, 4)] + [(4, 4)] * 2),
    ("iij,jkk->ik", [(2, 2, 3), (3, 4, 4)]),
    ("ijij->ij", [(2, 3, 2, 3)]),
]


@pytest.mark.parametrize("subscripts,shapes", CASES, ids=str)
def test_program(subscripts, shapes):
    args = [np.ones(s, "float32") for s in shapes]
    want = str(jax.make_jaxpr(lambda *a: jax.numpy.einsum(subscripts, *a))(*args))
    want = re.sub(r"np.int64\((\d+)\)", r"\1", want)
    assert str(pullback.make_jaxpr(lambda *a: pullback.numpy.einsum(subscripts, *a))(*args)) == want


@pytest.mark.parametrize("subscripts,shapes", CASES, ids=str)
def test_value(subscripts, shapes):
    rng = np.random.default_rng(len(subscripts))
    args = [rng.normal(size=s).astype("float32") for s in shapes]
    same(lambda jnp: jnp.einsum(subscripts, *args), "numpy", 1e-4)


A = np.ones((2, 3), "float32")


@pytest.mark.parametrize(
    "f",
    [
        lambda jnp: jnp.einsum("ij,jk", A, A),
        lambda jnp: jnp.einsum("ij,jk", A),
        lambda jnp: jnp.einsum("ijk", A),
        lambda jnp: jnp.einsum("ij->k", A),
        lambda jnp: jnp.einsum("ij->ii", A),
        lambda jnp: jnp.einsum("ij", [[1.0, 2.0]]),
        lambda jnp: jnp.einsum("ii", A),
        lambda jnp: jnp.einsum(A, [0, 1], A.T, [1, 2], [0, 2]),
        lambda jnp: jnp.einsum(A, [..., 0, 1], A.T, [1, 2]),
        lambda jnp: jnp.einsum(",->", 2.0, 3),
        lambda jnp: jnp.einsum("ij,jk", A > 0, A.T > 0),
        lambda jnp: jnp.einsum("ij->i", A > 0),
        lambda jnp: jnp.einsum("ij->i", A.astype("int32"), preferred_element_type=float),
        lambda jnp: jnp.einsum("ij,jk", A, A.T, precision="highest"),
    ],
)
def test_forms_and_errors(f):
    same(f, "numpy")


@pytest.mark.parametrize(
    ("subscripts", "optimize"),
    [
        ("ij,jk,kl,lm->im", "auto"),
        ("ij,jk,kl,lm->im", False),
        ("ij,jk,kl->il", "greedy"),
        ("ij,jk,kl->il", [(0, 1, 2)]),
        ("ij->", "auto"),
        ("ii->i", "auto"),
        ("ab,cd,ef->", "auto"),
        ("ijk,jil,kl->", "auto"),
        ("jk,ikj->i", "auto"),
        (",ij->ij", "auto"),
        ("...ij,...jk->...ik", "auto"),
        ("abcdefghij,jklmnopqr->abcdefghiklmnopqr", "auto"),
        (",".join(f"{chr(97 + k)}{chr(98 + k)}" for k in range(22)), False),
    ],
)
def test_paths_and_their_tables_are_jaxs(subscripts, optimize):
    terms = subscripts.split("->")[0].split(",")
    arrays = [np.ones((2,) * len(t.replace("...", "xy")), np.float32) for t in terms]
    (got, table), (want, wanted) = (
        lib.einsum_path(subscripts, *arrays, optimize=optimize)
        for lib in (pullback.numpy, jax.numpy)
    )
    assert got == want
    assert str(table) == str(wanted)
    assert table.contraction_list == wanted.contraction_list
    assert (table.opt_cost, table.speedup, table.shapes) == (
        wanted.opt_cost, wanted.speedup, wanted.shapes,
    )  # fmt: skip


def test_without_a_search_operands_are_contracted_from_the_left():
    arrays = [np.ones(s, np.float32) for s in ((2, 3), (3, 4), (4, 5), (5, 2))]

    def text(lib):
        f = lambda *x: lib.numpy.einsum("ij,jk,kl,lm->im", *x, optimize=False)
        return str(lib.make_jaxpr(f)(*arrays))

    assert text(pullback) == text(jax)
