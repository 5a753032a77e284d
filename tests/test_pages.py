"""Every Python block of the README and of the documentation's pages runs, and does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENV = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT / "src")}

# What a page takes for granted before its first block, and what must hold after its last one.
GIVEN = {
    "README.md": "",
    "docs/add_a_primitive.md": """
from typing import Any
from pullback.core.primitive import Primitive
from pullback.loops.lower.elementwise import rule, zipped
from pullback.primitives.builders import unary
from pullback.primitives.common import COMPLEX, FLOAT, const
from pullback.primitives.elementwise import mul, square
""",
    "docs/life_of_a_call.md": "import pullback, pullback.numpy as np\n",
    "docs/performance.md": """
import pullback.numpy as np
train_step, params, batch = (lambda p, b: (p * b).sum()), np.ones(1000), np.ones(1000)
""",
    "docs/reverse_through_while.md": "import jax\nfrom jax import lax\n",
    "docs/xla.md": "import jax, jax.numpy as jnp\n",
}
HOLDS = {
    "README.md": """
assert force(np.ones((4, 3))).shape == (4, 3)
""",
    "docs/add_a_primitive.md": """
assert jax.jit(cube)(jnp.array([2.0, -3.0])).tolist() == [8.0, -27.0]
assert jax.jit(jax.grad(cube))(2.0) == 12.0
assert jax.jit(cube).lower(2.0).as_text("stablehlo").count("multiply") == 2
""",
    "docs/life_of_a_call.md": """
(call,) = pullback.make_jaxpr(f)(np.arange(1000.0)).eqns
squeeze = lambda text: re.sub(r"\\s+", " ", text)
assert squeeze(str(call.params["jaxpr"])) in squeeze(PAGE)
""",
    "docs/performance.md": """
import pathlib
assert "<html" in pathlib.Path("train_step.html").read_text().lower()
""",
    "docs/reverse_through_while.md": """
promised = float(re.search(r"grad\\(root\\)\\(2.0\\)  # (\\S+)", PAGE)[1])
assert abs(jax.grad(root)(2.0) - promised) < 1e-6
assert jax.config.pullback_while_tape_bytes == 64 << 20
""",
    "docs/xla.md": """
assert "stablehlo.dot_general" in lowered.as_text("stablehlo")
""",
}


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)


def test_every_page_with_a_program_is_run() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    with_programs = {p.relative_to(ROOT).as_posix() for p in pages if "```python" in p.read_text()}
    assert with_programs == set(GIVEN) == set(HOLDS)


@pytest.mark.parametrize("page", GIVEN)
def test_the_programs_of_a_page_run(page: str, tmp_path: Path) -> None:
    """In a process of their own, since pages define primitives and set flags."""
    text = f"import re\nPAGE = {(ROOT / page).read_text()!r}\n"
    program = tmp_path / "program.py"
    program.write_text("\n".join([text, GIVEN[page], *blocks(page), HOLDS[page]]))
    done = subprocess.run(
        [sys.executable, "-m", "pullback", "run", str(program)],
        capture_output=True,
        text=True,
        timeout=300,
        env=ENV,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
