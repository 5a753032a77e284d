"""Small questions that JAX's own tests ask of transformations and of private modules. The script
prints an answer a line; test_core_questions.py runs it on JAX and on Pullback.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

QUESTIONS: dict[str, Callable[[], Any]] = {}


def ask(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def keep(f: Callable[[], Any]) -> Callable[[], Any]:
        assert name not in QUESTIONS
        QUESTIONS[name] = f
        return f

    return keep


def fault(f: Callable[[], Any], words: str = "") -> str:
    """The class of JAX's that an error is of, and whether its message has these words."""
    try:
        found = f()
    except Exception as e:
        known = [c.__name__ for c in type(e).__mro__ if c.__module__ in ("builtins", "jax.errors")]
        return f"{known[0]} {re.search(words, str(e)) is not None}"
    return f"no fault: {found}"


# ---- references, memories, collectives


@ask("an array is frozen already")
def _() -> Any:
    x = jnp.ones(2)
    return jax.freeze(x) is x


@ask("types say their memory")
def _() -> Any:
    space = jax.memory.Space
    short = jax.core.ShapedArray((2,), np.dtype("float32"))
    long = jax.core.ShapedArray((2,), np.dtype("float32"), memory_space=space.Device)
    return short.memory_space, short == long, jax.typeof(jnp.ones(2)).memory_space


@ask("memory spaces in programs")
def _() -> Any:
    space = jax.memory.Space
    f = lambda x: jax.device_put(jnp.sin(jax.device_put(x, space.Host)), space.Device) * 2
    return jax.make_jaxpr(f)(jnp.ones(2))


@ask("a permutation of other axes")
def _() -> Any:
    f = jax.vmap(lambda x: jax.lax.ppermute(x, "i", [(0, 5)]), axis_name="i")
    return fault(lambda: f(jnp.arange(2.0)), "Permutation doesn't match the axis size!")


# ---- functions with rules of their own


@ask("structures of custom_vmap's operands")
def _() -> Any:
    def f(c: Any, x: Any) -> Any:
        @jax.custom_batching.custom_vmap
        def g(x: Any, y: Any) -> Any:
            return x * c, y

        g.def_vmap(lambda n, batched, x, y: ((x * c, y), batched))
        return g(x, {"a": x})

    def structures(*program: Any) -> Any:
        (eqn,) = (e for e in jax.make_jaxpr(*program)(2.0, 3.0).eqns if "vmap" in str(e.primitive))
        return eqn.params["in_tree"], eqn.params["out_tree"]

    return structures(f)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, question in QUESTIONS.items():
        answer = str(question()).replace("\n", "\\n").replace("pullback", "jax")
        print(f"{name}: {answer}", flush=True)
