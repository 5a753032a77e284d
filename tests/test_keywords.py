"""Keywords that mean nothing here, though JAX has them: `docs/keywords.md` lists all, no others."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from tools.api_reference import dotted, public_names, value_of

PAGE = Path(__file__).resolve().parent.parent / "docs/keywords.md"
ROW = re.compile(r"\| `([\w.]+)` \| (.+?) \| .+ \|")


def listed() -> dict[str, set[str]]:
    rows = (ROW.fullmatch(line) for line in PAGE.read_text().splitlines())
    return {m[1]: set(re.findall(r"`(\w+)`", m[2])) for m in rows if m}


def never_read(function: Any) -> set[str]:
    """Parameters whose names the function's body never reads."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError):  # a lambda, or written by the program itself
        return set()
    if not isinstance(tree, ast.FunctionDef):
        return set()
    args = tree.args
    names = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)} - {"self", "cls"}
    nodes = (n for part in tree.body for n in ast.walk(part))
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return set() if "locals" in read else names - read


@pytest.mark.filterwarnings("ignore")
def test_every_keyword_acts_or_is_listed() -> None:
    found: dict[Any, tuple[str, set[str]]] = {}
    for module, names in public_names().items():
        for name in names:
            value = inspect.unwrap(value_of(module, name))
            value = value.func if isinstance(value, functools.partial) else value
            ours = inspect.isfunction(value) and value.__module__.startswith("pullback")
            if ours and value not in found and (unread := never_read(value)):
                found[value] = dotted(module, name), unread
    assert dict(found.values()) == listed()


def test_what_was_ignored() -> None:
    """Keywords that act in JAX: each was accepted here, and nothing came of it."""
    x = jnp.arange(6.0).reshape(2, 3)
    both = pb.vmap(lambda v: (v * 2, v.sum()), out_axes=(0, None), sum_match=True)(x)
    np.testing.assert_array_equal(both[0], x * 2)
    assert both[1] == 15 and both[1].shape == ()
    same = pb.vmap(lambda v, c: c * 2, (0, None), None, sum_match=True)(x, 3.0)
    assert same == 6
    with pytest.raises(ValueError, match="out_axes"):
        pb.vmap(lambda v: v, out_axes=None)(x)
    for transformed in (pb.grad, pb.value_and_grad):
        with pytest.raises(NotImplementedError, match="reduce_axes"):
            transformed(jnp.sum, reduce_axes=("i",))
    for called in (pb.vjp, pb.linear_transpose):
        with pytest.raises(NotImplementedError, match="reduce_axes"):
            called(jnp.sum, x, reduce_axes=("i",))
    with pytest.raises(NotImplementedError, match="stream"):
        x.to_device(pb.devices()[0], stream=1)
    with pytest.raises(RuntimeError, match="Unknown backend"):
        pb.pmap(jnp.sin, backend="none")
    sharding = pb.sharding.SingleDeviceSharding(pb.devices()[0])
    with pytest.raises(ValueError, match="dtype"):
        pb.make_array_from_single_device_arrays((2, 3), sharding, [x], dtype=jnp.int32)
    with pytest.warns(UserWarning, match="process_index"), pytest.raises(ValueError, match="3"):
        pb.local_devices(host_id=3)
