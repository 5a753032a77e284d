"""Recorded answers of JAX: results as plain data, kept in files, and compared.

A file of answers holds a line [key, answer] for each: {"leaves": [...]} or {"error": [its class]}.
"""

from __future__ import annotations

import base64
import json
import pathlib
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

Answer = dict[str, Any]


def _leaves(x: Any) -> list[Any]:
    return [y for part in x for y in _leaves(part)] if isinstance(x, list | tuple) else [x]


def answer(f: Callable[[], Any]) -> Answer:
    """What a function gives: the leaves of its result, or the classes of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return {"leaves": [_leaf(x) for x in _leaves(f())]}
        except Exception as error:
            return {"error": [t.__name__ for t in type(error).__mro__], "text": str(error)[:200]}


def _leaf(x: Any) -> list[Any]:
    """[is it an Array, dtype, shape, weak type, bytes]; [repr] of numbers and of arrays of what is
    no number, [None] of the rest."""
    if not (hasattr(x, "dtype") and hasattr(x, "shape")):
        return [repr(x) if isinstance(x, bool | int | float | complex | str) else None]
    values = np.asarray(x)
    if values.dtype.kind in "OSUMm":
        return [repr(values)]
    data = base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
    weak = bool(getattr(x, "weak_type", False))
    return [hasattr(x, "aval"), values.dtype.name, list(values.shape), weak, data]


def _values(leaf: list[Any]) -> Any:
    dtype = np.dtype(getattr(ml_dtypes, leaf[1], leaf[1]))
    return np.frombuffer(base64.b64decode(leaf[4]), dtype).reshape(leaf[2])


def compare(got: Answer, wanted: Answer, tolerance: float = 2e-5, scaled: bool = False) -> None:
    """AssertionError unless both are equal, or fail with the same class of error or a subclass.

    Floats may differ by `tolerance` of each other, and absolutely by a tenth of it; if `scaled`, by
    `tolerance` of the largest element.
    """
    if "error" in wanted:
        assert wanted["error"][0] in got.get("error", ()), f"{got} instead of {wanted}"
        return
    assert "leaves" in got, f"{got} instead of values"
    for a, b in zip(got["leaves"], wanted["leaves"], strict=True):
        assert a[:4] == b[:4], f"{a[:4]} instead of {b[:4]}"
        if len(b) > 1:
            _assert_close(_values(a), _values(b), tolerance, scaled)


def _assert_close(got: Any, wanted: Any, tolerance: float, scaled: bool) -> None:
    if wanted.dtype.kind not in "fcV":
        np.testing.assert_array_equal(got, wanted)
        return
    tolerance = 1e-2 if wanted.dtype.itemsize < 4 else tolerance
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    got, wanted = got.astype(wide), wanted.astype(wide)
    largest = float(np.max(np.abs(wanted), where=np.isfinite(wanted), initial=1)) if scaled else 0.1
    np.testing.assert_allclose(
        got, wanted, rtol=tolerance, atol=tolerance * largest, equal_nan=True
    )


def near_values(got: Answer, exact: Answer, tolerance: float) -> bool:
    """Whether values are near those of another answer, whose dtypes may be wider: 64-bit ones by
    `tolerance`, others by 1e-4 or 1e-2."""
    for a, b in zip(got["leaves"], exact["leaves"], strict=True):
        mine, true = _values(a), _values(b)
        kind = np.complex128 if mine.dtype.kind == "c" else np.float64
        bits = np.dtype(mine.real.dtype).itemsize * 8
        near = {16: 1e-2, 32: 1e-4}.get(bits, tolerance)
        try:
            _assert_close(mine.astype(kind), true.astype(kind), near, False)
        except AssertionError:
            return False
    return True


def failures(triples: Iterable[tuple[str, Answer, Answer]], **options: Any) -> str:
    """The keys whose answers (got, wanted) differ, with how."""
    found = []
    for key, got, wanted in triples:
        try:
            compare(got, wanted, **options)
        except (AssertionError, ValueError) as error:
            found.append(f"{key}: {str(error).strip()[:300]}")
    return "\n".join(found)


def read(path: pathlib.Path) -> dict[str, Answer]:
    """The answers in a file, by key."""
    return dict(json.loads(line) for line in path.read_text().splitlines())


def write(path: pathlib.Path, answers: dict[str, Answer]) -> None:
    """Keeps answers in a file: of errors their class only."""
    kept = {k: {"error": a["error"][:1]} if "error" in a else a for k, a in answers.items()}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in kept.items()))
