"""What an import loads, what it leaves for later, and that what is late is found all the same."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pullback
from pullback.lazy_imports import LateNames
from pullback.loops.lower import program
from pullback.loops.lower.elementwise import RULES
from pullback.records import made, record, replaced

# Modules that `import pullback` and a small jitted program have no use for.
LATE = """
    scipy llvmlite jaxlib concurrent.futures asyncio logging unittest multiprocessing
    urllib email http socket subprocess tempfile pickletools decimal fractions json
    pullback.backends.reference pullback.backends.reference.table
    pullback.loops.interpret
    pullback.loops.lower.special
    pullback.lax.linalg pullback.lax.polar pullback.lax.scaled
    pullback.primitives.linalg pullback.primitives.linalg_factor
    pullback.primitives.linalg_systems
    pullback.numpy.fft pullback.numpy.linalg pullback.numpy.histograms
    pullback.numpy.nan_reductions pullback.numpy.padding pullback.numpy.polynomial
    pullback.numpy.quantiles pullback.numpy.sets pullback.numpy.signals
    pullback.scipy pullback.nn pullback.random pullback.image pullback.ops pullback.sharding
    pullback.debug pullback.profiler pullback.experimental pullback.stages pullback.dlpack
    pullback.jax_compat pullback.testing pullback.test_util pullback.flatten_util
    pullback.api.spmd
""".split()

PROGRAM = """
import gc, sys
before, frozen = set(sys.modules), gc.get_freeze_count()  # 3.12 freezes what it starts with
import pullback as pb
import pullback.numpy as jnp
x = jnp.arange(4.0) + 1
assert float(pb.jit(pb.grad(lambda x: (jnp.sin(x) * x).sum()))(x)[0]) < 2
loaded = sorted(set(sys.modules) - before)
import json
print(json.dumps([loaded, gc.isenabled(), gc.get_freeze_count() - frozen]))
"""


@pytest.fixture(scope="module")
def loaded() -> Any:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_an_import_leaves_for_later(loaded: Any) -> None:
    wrong = sorted(set(LATE) & set(loaded[0]) - _of_numpy())
    assert not wrong, f"imported at start, though few programs use them: {wrong}"


def test_scipys_modules_are_imported_one_by_one() -> None:
    """A convolution has no use for optimisers and integrals; who asks for all names has them."""
    code = """
import sys
import pullback as pb
assert callable(pb.scipy.signal.convolve2d) and "stats" in dir(pb.scipy)
late = "optimize integrate stats special sparse cluster spatial interpolate".split()
print(*[n for n in late if f"pullback.scipy.{n}" in sys.modules])
assert set(late) <= set(vars(pb.scipy)) and callable(pb.scipy.stats.norm.pdf)
from pullback.scipy import fft, integrate
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout.split()


def _of_numpy() -> set[str]:
    """What `import numpy, ml_dtypes` loads is not ours to leave."""
    code = "import sys, numpy, ml_dtypes; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_first_calls_import_no_rules() -> None:
    """The compiler and the rules that many programs need come with the package: the time of a
    first call goes into its program alone."""
    code = """
import sys
import numpy as np
import pullback as pb
import pullback.numpy as jnp
def f(x, i):
    y = pb.lax.fori_loop(0, 3, lambda k, x: x * 2, jnp.cumsum(jnp.sort(x[i])))
    return jnp.linalg.solve(jnp.diag(y), y), pb.lax.top_k(y, 2)[0]
traced = pb.jit(f).trace(np.ones(3, np.float32), np.arange(3))
before = set(sys.modules)
compiled = traced.lower().compile()
y, top = compiled(np.ones(3, np.float32), np.arange(3))
assert y.tolist() == [1, 1, 1] and top.tolist() == [24, 16], (y, top)
print([m for m in set(sys.modules) - before if m.startswith("pullback")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


def test_an_activation_comes_without_what_initialisers_need() -> None:
    code = """
import sys
import pullback as pb
assert float(pb.nn.relu(-1.0)) == 0 and "initializers" in dir(pb.nn)
late = "nn.attention nn.initializers nn.scaled random numpy.linalg".split()
print([m for m in late if f"pullback.{m}" in sys.modules])
from pullback.nn.initializers import zeros
from pullback.nn import initializers, softmax
assert initializers is pb.nn.initializers
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_borders_come_without_what_medians_need() -> None:
    code = """
import sys
import pullback.numpy as jnp
assert jnp.pad(jnp.arange(2.0), 1, mode="reflect").tolist() == [1, 0, 1, 0]
print("pullback.numpy.quantiles" in sys.modules)
assert jnp.pad(jnp.arange(3.0), 1, mode="median").tolist() == [1, 0, 1, 2, 1]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_programs_are_not_searched_for_what_nobody_uses() -> None:
    """For primitives that are functions to the compiler, before one of them is used."""
    code = (
        "import pullback as pb\n"
        "from pullback.control import expand\n"
        "pb.jit(lambda x: x + 1)(1.0)\n"
        "assert not expand._registered, expand._registered\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


def test_the_collector_is_as_it_was(loaded: Any) -> None:
    assert loaded[1] is True
    assert loaded[2] == 0  # nothing more is exempt from collections than before


@pytest.mark.parametrize(
    "name", ["pullback.numpy", "pullback.lax", "pullback.nn", "pullback.backends.llvm"]
)
def test_late_names(name: str) -> None:
    """The table for programs and the imports for type checkers say the same, and each name is
    there."""
    module = importlib.import_module(name)
    late: LateNames = module._late
    tree = ast.parse(Path(str(module.__file__)).read_text())
    typed = {}
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.body:
                assert isinstance(statement, ast.ImportFrom)
                for alias in statement.names:
                    where = statement.module or alias.name
                    where = "." * statement.level + where if statement.level > 1 else where
                    typed[alias.asname or alias.name] = (where, alias.name)
    assert typed == late.where
    for public in late.where:
        assert public in dir(module)
        assert (public in module.__all__) is not public.startswith("_")
        assert getattr(module, public) is getattr(module, public)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name


@pytest.mark.parametrize("name", ["numpy", "lax", "nn"])
def test_the_dict_of_a_package_has_its_late_names(name: str) -> None:
    """Libraries wrap all of `jnp.__dict__`; in a process of its own, since others ask for names."""
    code = (
        f"import sys, pullback.{name} as package; count = len(sys.modules)\n"
        "names = dir(package); assert len(sys.modules) == count\n"
        "has = vars(package); assert len(sys.modules) > count\n"
        "assert {*package._late.where} <= {*has}, {*names} - {*has}\n"
        "assert has is package.__dict__ and {*has} & {'iota', 'einsum', 'relu'}\n"
        "assert all(has[n] is getattr(package, n) for n in package._late.where)\n"
    )
    source = str(Path(__file__).parent.parent / "src")
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": source},
    )


def test_late_names_of_an_unknown_family() -> None:
    late = LateNames("pullback.tree", {"engine": "flat=flatten"})
    with pytest.raises(AttributeError, match=r"module 'pullback\.tree' has no attribute 'other'"):
        late("other")


@pytest.mark.parametrize("module", sorted(program.LATE))
def test_late_lowering_rules(module: str) -> None:
    """The table of late rules names what each module enters."""
    imported = importlib.import_module(f"pullback.loops.lower.{module}")
    names = set(program.LATE[module].split())
    assert names <= set(RULES)
    assert names == {n for n, rule in RULES.items() if rule.__module__ == imported.__name__}
    assert all(program.rule_of(n) is RULES[n] for n in names)


def test_rules_are_found_when_their_module_is_late() -> None:
    assert program.rule_of("no_such_primitive") is None
    assert program.rule_of("sort") is RULES["sort"]


@record(eq=True, weak=True)
class Point:
    """Three fields of each kind."""

    x: int
    y: int = 2
    tags: list[str] = made(default_factory=list)

    def total(self) -> int:
        return self.x + self.y


def test_records() -> None:
    p = Point(1)
    assert (p.x, p.y, p.tags, p.total()) == (1, 2, [], 3)
    assert p.tags is not Point(1).tags
    assert p == Point(1, 2, [])
    assert p != Point(1, 3)
    assert p != (1, 2, [])
    assert repr(Point(x=4, tags=["a"])) == "Point(x=4, y=2, tags=['a'])"
    assert replaced(p, y=7).total() == 8
    with pytest.raises(TypeError, match=r"Point\.__init__\(\) missing 1 required positional"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="without a default"):

        @record
        class Wrong:
            x: int = 1
            y: int  # type: ignore[misc]


def test_the_top_keeps_its_names() -> None:
    assert set(pullback.__all__) <= set(dir(pullback))


def test_a_reference_rule_that_is_asked_for_alone_comes_alone() -> None:
    """A program that sorts on the host imports NumPy's rule for that, and no other family."""
    text = """
import sys
import numpy as np
import pullback as pb
import pullback.numpy as jnp
from pullback.backends import reference
for primitive, family in ((pb.lax.sort_p, "sort"), (pb.lax.top_k_p, "sort")):
    assert reference.rule_of(primitive)
name = "pullback.backends.reference."
print(sorted(m.removeprefix(name) for m in sys.modules if m.startswith(name)))
assert all(hasattr(reference.families, module) for module in reference.ALONE)
known = {p.name for p in reference.RULES}
assert all(set(names.split()) <= known for names in reference.ALONE.values()), known
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "['sort', 'table']"


@pytest.mark.parametrize("filtering", ["auto", "off"])
def test_what_ends_a_program_is_shown_without_internal_frames(
    tmp_path: Path, filtering: str
) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(
        "import pullback as pb\nimport pullback.numpy as jnp\n\n\n@pb.jit\ndef f(x):\n"
        "    return jnp.dot(x, jnp.ones(3))\n\n\npb.grad(lambda x: f(x).sum())(jnp.ones((2, 2)))\n"
    )
    env = {**os.environ, "JAX_TRACEBACK_FILTERING": filtering}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env)
    files = [line.split('"')[1] for line in done.stderr.splitlines() if '  File "' in line]
    assert done.returncode == 1 and "TypeError: dot_general requires" in done.stderr
    assert (set(files) == {str(script)}) == (filtering == "auto")
    assert ("removed its internal frames" in done.stderr) == (filtering == "auto")
