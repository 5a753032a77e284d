"""Every primitive, as `sin_p` and so on."""

from __future__ import annotations

from typing import Any

from ...core.primitive import ALL
from ...lax import all_primitives as _all_primitives  # noqa: F401 (they are in the table)
from ...random import gammas as _gammas  # noqa: F401 (its primitive is in the table)

_PYTHON_NAMES = {
    "while_p": "while",
    "jit_p": "jit",
    "pjit_p": "jit",
    "remat_p": "remat2",
    "add_jaxvals_p": "add_any",
    "linear_solve_p": "custom_linear_solve",
}
# Names that Python cannot spell, or spells with an underscore.
_PYTHON_NAMES |= {f"scatter_{how}_p": f"scatter-{how}" for how in "add max min mul sub".split()}


def __getattr__(name: str) -> Any:
    key = _PYTHON_NAMES.get(name, name[:-2] if name.endswith("_p") else name)
    if key in ALL:
        return ALL[key]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    plain = {f"{name.replace('-', '_')}_p" for name in ALL if name.replace("-", "_").isidentifier()}
    return sorted(plain | {name for name, key in _PYTHON_NAMES.items() if key in ALL})
