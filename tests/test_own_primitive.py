"""Primitives that users define with JAX's public names: the example of docs/add_a_primitive.md
under both, and the other ways to register rules.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.extend.core
import numpy as np
import pytest

import pullback
import pullback.extend.core

HERE = Path(__file__).resolve().parent
ENV = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(HERE.parent / "src")}


def run(tmp_path: Path, program: str, *how: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, *how, str(path)], capture_output=True, text=True, timeout=300, env=ENV
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"-?\d+\.\d*(?:e-?\d+)?", text)]


def both(tmp_path: Path, program: str) -> tuple[str, str]:
    return run(tmp_path, program), run(tmp_path, program, "-m", "pullback", "run")


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    text = (HERE.parent / "docs" / "add_a_primitive.md").read_text()
    program = text.split("## A primitive of your own")[1].split("```python\n")[1].split("```")[0]
    expected, got = both(tmp_path, program)
    assert expected.splitlines()[0] == got.splitlines()[0]  # the program, with blend[w=0.25]
    np.testing.assert_allclose(numbers(got), numbers(expected), rtol=1e-5, atol=1e-6)
    assert len(numbers(got)) > 20


OTHERS = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, partial_eval as pe

# Several results, a rule an operand, effects of none; lowering by a function of jnp.
pair_p = Primitive("pair")
pair_p.multiple_results = True
pair_p.def_impl(lambda x: [jnp.sin(x), x * 2])
pair_p.def_abstract_eval(lambda x: [x, x])
def pair_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return pair_p.bind(x), [jnp.cos(x) * t, t * 2]
ad.primitive_jvps[pair_p] = pair_jvp
batching.primitive_batchers[pair_p] = lambda args, dims: (pair_p.bind(*args), [dims[0]] * 2)
mlir.register_lowering(pair_p, mlir.lower_fun(lambda x: [jnp.sin(x), x * 2], multiple_results=True))
f = lambda x: sum(pair_p.bind(x))
print(f(1.0), jax.jit(f)(1.0), jax.grad(f)(1.0), jax.vmap(jax.grad(f))(jnp.arange(3.0)))
print(jax.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: f(c), x))(1.0))
print(jax.jit(lambda x: lax.cond(x > 0, f, lambda x: x, x))(1.0))
print(jax.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0])(1.0))
print(jax.grad(jax.checkpoint(f))(1.0), jax.jvp(f, (1.0,), (1.0,)))

# Bilinear, with the shorthand registrations.
mix_p = Primitive("mix")
mix_p.def_impl(lambda x, y: x * y * 3)
mix_p.def_abstract_eval(lambda x, y: x)
ad.defbilinear(mix_p, lambda ct, x, y: mix_p.bind(ct, y), lambda ct, x, y: mix_p.bind(x, ct))
batching.defbroadcasting(mix_p)
mlir.register_lowering(mix_p, mlir.lower_fun(lambda x, y: x * y * 3, multiple_results=False))
print(jax.jit(jax.grad(lambda x: mix_p.bind(x, x)))(2.0))
print(jax.vmap(mix_p.bind)(jnp.ones(2), jnp.ones(2)))

# One rule an operand, and a rule that sees the axis.
power_p = Primitive("cube_of")
power_p.def_impl(lambda x: x ** 3)
power_p.def_abstract_eval(lambda x: x)
ad.defjvp(power_p, lambda t, x: 3 * t * x ** 2)
def with_axis(axis_data, args, dims):
    return power_p.bind(*args) * axis_data.size, dims[0]
batching.fancy_primitive_batchers[power_p] = with_axis
mlir.register_lowering(power_p, mlir.lower_fun(lambda x: x ** 3, multiple_results=False))
print(jax.grad(jax.grad(power_p.bind))(2.0), jax.vmap(power_p.bind)(jnp.arange(3.0)))

# A primitive that counts what it removes.
dropped = []
keep_p = Primitive("keep")
keep_p.def_impl(lambda x: x)
keep_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(keep_p, mlir.lower_fun(lambda x: x, multiple_results=False))
jaxpr = jax.make_jaxpr(lambda x: (keep_p.bind(x), x + 1)[1])(1.0)
small, used = pe.dce_jaxpr(jaxpr.jaxpr, [True])
print(len(jaxpr.jaxpr.eqns), len(small.eqns), used)
"""


def test_other_registrations(tmp_path: Path) -> None:
    expected, got = both(tmp_path, OTHERS)
    np.testing.assert_allclose(numbers(got), numbers(expected), rtol=1e-5, atol=1e-6)
    assert expected.splitlines()[-1] == got.splitlines()[-1]


def test_a_primitive_without_a_lowering_runs_in_python(tmp_path: Path) -> None:
    """JAX refuses to compile it."""
    program = """
import jax, jax.numpy as jnp, numpy as np
from jax.extend.core import Primitive
p = Primitive("by_numpy")
p.def_impl(lambda x: jnp.asarray(np.sort(np.asarray(x))))
p.def_abstract_eval(lambda x: x)
print(jax.jit(lambda x: p.bind(x * 2) + 1)(jnp.array([3.0, 1.0, 2.0])))
"""
    assert run(tmp_path, program, "-m", "pullback", "run") == "[3. 5. 7.]\n"


def test_results_have_the_weak_type_that_the_program_says(tmp_path: Path) -> None:
    """Lineax counts steps so: the function gives a weak number, the abstract value is firm."""
    program = """
import jax
from jax.extend.core import Primitive
from jax.interpreters import mlir
for weak in (False, True):
    def counted(x):
        n = jax.lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0)
        return jax.lax.convert_element_type(n, "int32") if weak else n
    p = Primitive(f"counted_{weak}")
    p.def_abstract_eval(lambda x: jax.core.ShapedArray((), "int32", weak_type=weak))
    mlir.register_lowering(p, mlir.lower_fun(counted, multiple_results=False))
    repeated = lambda x: jax.lax.scan(lambda c, _: (p.bind(x), c), p.bind(x), None, length=2)
    for y in jax.tree.leaves([jax.jit(p.bind)(1.0), jax.jit(repeated)(1.0)]):
        print(y.weak_type, y.dtype, y)
"""
    expected, got = both(tmp_path, program)
    assert got == expected


def test_a_class_of_primitives_says_that_results_are_several() -> None:
    """As the tags of kfac_jax do."""

    class Pair(pullback.extend.core.Primitive):
        multiple_results = True

    pair_p = Pair("test_pair")
    pair_p.def_abstract_eval(lambda x: [x, x])
    pair_p.def_impl(lambda x: [x, x + 1])
    assert [float(y) for y in pair_p.bind(1.0)] == [1.0, 2.0]
    (eqn,) = pullback.make_jaxpr(pair_p.bind)(1.0).eqns
    assert [v.aval.shape for v in eqn.outvars] == [(), ()]


@pytest.mark.parametrize("define", ["def_abstract_eval", "def_effectful_abstract_eval"])
def test_parameters_of_equations_can_be_hashed(define: str) -> None:
    """A list or an array would be in no cache's key; a tracer would be used after its trace."""

    def outcome(m: Any, core: Any, given: Any) -> str:
        p = core.Primitive("scaled")
        p.def_impl(lambda x, *, by: np.asarray(x))
        effects = set() if "effectful" in define else None
        type_of = lambda x, *, by: x if effects is None else (x, effects)
        getattr(p, define)(type_of)
        try:
            m.make_jaxpr(lambda x: p.bind(x, by=x if given is None else given))(np.ones(2))
        except TypeError as e:
            return "hashable" if "hashable" in str(e) else str(e)
        return "accepted"

    found = [
        [outcome(m, core, given) for given in ([1], np.ones(2), {}, (1,), ([1],), None)]
        for m, core in ((jax, jax.extend.core), (pullback, pullback.extend.core))
    ]
    assert found[0] == found[1] and found[0].count("hashable") == 4


def test_evaluation_may_ask_for_the_lowering(tmp_path: Path) -> None:
    """`p.def_impl(partial(apply_primitive, p))`, as JAX's example of foreign functions has it, or
    an evaluation that differs: programs do what the lowering says."""
    program = """
import functools
import jax, jax.numpy as jnp
from jax.extend import core
from jax.interpreters import batching, mlir, xla
from jax._src import dispatch
from jax._src.lib.mlir.dialects import hlo

def made(rule, evaluate):
    p = core.Primitive("twice")
    p.def_abstract_eval(lambda aval: aval)
    p.def_impl(functools.partial(evaluate, p))
    mlir.register_lowering(p, rule)
    batching.defvectorized(p)
    return p

x = jnp.arange(3.0)
for rule in mlir.lower_fun(lambda x: x * 2, False), lambda ctx, x: [hlo.add(x, x)]:
    for evaluate in dispatch.apply_primitive, lambda p, x: dispatch.apply_primitive(p, x) + 1:
        p = made(rule, evaluate)
        print(p.bind(x), jax.jit(p.bind)(x), jax.vmap(p.bind)(x), jax.jit(jax.vmap(p.bind))(x))
        print(jax.lax.scan(lambda c, e: (c + p.bind(e), c), 0.0, x)[0])
"""
    theirs, ours = both(tmp_path, program)
    assert theirs == ours
