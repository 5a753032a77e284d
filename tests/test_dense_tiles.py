"""Tile functions of matrix products against their definition in NumPy: every type, width and
instruction set, well made and quickly made."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pullback.backends.llvm import dense, link, loader, tilecode
from pullback.backends.llvm.driver import table_address
from pullback.backends.llvm.target import (
    LEVELS,
    detect_level,
    matrix_units,
    multiplies_bytes,
    target_for,
)
from pullback.loops.lower.product import task_rows
from pullback.loops.tiles import TILE_NAMES, panel_width, parse_tile, tile_reference

ORDER = ["sse2", "avx2", "avx512"]
BEST = detect_level()
LEVELS_HERE = ORDER[: ORDER.index(BEST) + 1] if BEST in ORDER else [v for v in LEVELS if v == BEST]
NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
# rows, columns beyond whole panels, (n1, n2, len)
SHAPES = [
    (1, 1, (1, 1, 1)),
    (7, 5, (1, 1, 13)),
    (13, 0, (2, 3, 5)),
    (25, -3, (1, 2, 9)),
    (510, 1, (1, 1, 2)),
    (17, 2, (1, 2, 5)),
    (22, 0, (2, 1, 4)),
    (8, 9, (0, 1, 4)),
    (13, 8, (1, 2, 5)),
    (9, 4, (1, 1, 6)),
    (3, -8, (1, 1, 7)),
]


def _function(name: str, level: str, brief: bool):
    text = dense.tile_text(target_for(level), name, brief)
    code = loader.load_image(loader.link(link.assemble(text, target_for(level), 0 if brief else 2)))
    p, i = ctypes.c_void_p, ctypes.c_int64
    kinds = [p, p, *[i] * 12, p, *[i] * 6, p, *[i] * 4]
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(code.symbols["pb_tile"])
    return function, code


@pytest.mark.parametrize("level", LEVELS_HERE)
@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize(
    "name",
    [n for n in TILE_NAMES if n in ("tile_f32_2", "tile_f32_4", "tile_f64_1", "tile_i32_3")]
    + ["flat_f32_1", "flat_f32_3", "flat_f64_4", "flat_i64_2"],
)
def test_tile_computes_its_definition(name: str, level: str, brief: bool) -> None:
    function, _code = _function(name, level, brief)
    dtype, lines = parse_tile(name)
    d = NUMPY[dtype]
    panel = lines * 64 // np.dtype(d).itemsize
    rng = np.random.default_rng(7)
    flat = name.startswith("flat")
    for rows, extra, (n1, n2, length) in SHAPES:
        rows = lines if flat else rows
        cols = extra if extra > 0 and panel > extra else 2 * panel + extra
        a = (rng.standard_normal(9000) * 8).astype(d)
        b = (rng.standard_normal(9000) * 8).astype(d)
        c = (rng.standard_normal(rows * (cols + 3) + 9) * 8).astype(d)
        for more in (0, 1):
            left = [a, 3, 2, 5, 2, 7, rows, n1, n2, length, 40, 11, 1]
            right = [b, 1, 3 * panel, 5, panel + 1, 20 * panel, cols]
            want, got = c.copy(), c.copy()
            tile_reference(name, [*left, *right, want, 4, cols + 3, more])
            args = [*left, *right, got, 4, cols + 3, more, panel]
            raw = [x.ctypes.data if isinstance(x, np.ndarray) else int(x) for x in args]
            assert function(None, *raw) == 0
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-3)


def test_only_the_last_vector_of_columns_is_masked() -> None:
    """Stores under a mask take AMD's processors as long as a dozen others where masks are not
    registers of their own."""
    text = dense.tile_text(target_for("avx2"), "tile_f32_1", False)
    masked = [line for line in text.splitlines() if "call void @llvm.masked.store" in line]
    assert len(masked) == dense.NARROW


@pytest.mark.parametrize("level", LEVELS_HERE)
@pytest.mark.parametrize("name", ["dots_f32_8", "dots_f32_5", "dots_f64_3", "dots_i32_2"])
def test_dots_compute_their_definition_and_quick_code_the_same_bits(name: str, level: str) -> None:
    target = target_for(level)
    dtype, columns = parse_tile(name)
    d = NUMPY[dtype]
    p, i = ctypes.c_void_p, ctypes.c_int64
    kinds = [p, p, i, i, i, i, p, i, i, p, i, i, i, i]
    functions, codes = [], []
    for brief in (False, True):
        text = dense.tile_text(target, name, brief)
        codes.append(loader.load_image(loader.link(link.assemble(text, target, 0 if brief else 2))))
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)
        functions.append(kind(codes[-1].symbols["pb_tile"]))
    rng = np.random.default_rng(9)
    for rows, length in [(1, 1), (3, 16), (7, 37), (25, 0), (26, 130)]:
        a, b = ((rng.standard_normal(9000) * 8).astype(d) for _ in range(2))
        c = (rng.standard_normal(rows * (columns + 2) + 9) * 8).astype(d)
        for more in (0, 1):
            given = [a, 3, length + 5, rows, length, b, 7, length + 2]
            want = c.copy()
            tile_reference(name, [*given, want, 4, columns + 2, more])
            results = []
            for function in functions:
                results.append(c.copy())
                args = [*given, results[-1], 4, columns + 2, more, columns]
                raw = [x.ctypes.data if isinstance(x, np.ndarray) else int(x) for x in args]
                assert function(None, *raw) == 0
            np.testing.assert_allclose(results[0], want, rtol=2e-5, atol=2e-3)
            np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("level", LEVELS_HERE)
@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("name", ["pack_f32_2", "pack_f64_3", "pack_i32_1", "pack_i64_2"])
def test_rows_are_copied_into_panels(name: str, level: str, brief: bool) -> None:
    target, (dtype, _) = target_for(level), parse_tile(name)
    text = dense.tile_text(target, name, brief)
    code = loader.load_image(loader.link(link.assemble(text, target, 0 if brief else 2)))
    p, i = ctypes.c_void_p, ctypes.c_int64
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, p, p, i, i, i, i, p, i, i, i)
    function, d, panel = kind(code.symbols["pb_tile"]), NUMPY[dtype], panel_width(name)
    for rows, cols in [(1, 1), (3, panel), (2, 2 * panel + 3), (5, panel - 1), (0, 4), (4, 0)]:
        # What is after the last element is another's, and may not be there.
        source = np.arange(7, 7 + 3 + max(0, rows - 1) * (cols + 2) + cols).astype(d)
        want = np.full(4 + 3 * (rows * panel + 1), -1, d)
        got = want.copy()
        args = [3, cols + 2, rows, cols]
        tile_reference(name, [source, *args, want, 4, rows * panel + 1])
        ends = [4, rows * panel + 1, panel]
        assert function(None, source.ctypes.data, *args, got.ctypes.data, *ends) == 0
        np.testing.assert_array_equal(got, want)


def test_quick_code_of_all_widths_is_one() -> None:
    """It reads the panel's width from its arguments, so that LLVM sees it once."""
    target = target_for(BEST)
    texts = {dense.tile_text(target, f"tile_f32_{n}", brief=True) for n in (1, 2, 3, 4)}
    assert len(texts) == 1
    assert tilecode._code("tile_f32_1", target, True) is tilecode._code("tile_f32_4", target, True)
    assert tilecode._code("tile_f32_1", target, False) is not tilecode._code(
        "tile_f32_4", target, False
    )


def test_good_code_on_disk_is_taken_though_quick_code_of_another_width_is_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    target = target_for(BEST)

    def start() -> dict[str, tuple[str, bool]]:
        provided: dict[str, tuple[str, bool]] = {}
        monkeypatch.setattr(tilecode, "_codes", {})
        monkeypatch.setattr(tilecode, "_provided", provided)
        return provided

    start()
    tilecode.provide_tile("tile_f32_4", target, quick=False)
    provided = start()
    for name in ("tile_f32_1", "tile_f32_4"):
        tilecode.provide_tile(name, target, quick=True)
    assert provided == {"tile_f32_1": (target.key, True), "tile_f32_4": (target.key, False)}


PRODUCT = """
import numpy as np
import pullback as pb
import pullback.numpy as jnp
x = np.ones((300, 300), np.float32)
assert float((pb.jit(jnp.matmul)(x, x) == 300).all())
exact = pb.jit(lambda x: jnp.matmul(x, x, preferred_element_type=np.int32))
assert float((exact(x.astype(np.int8)) == 300).all())
print([tile.name for p in pb.explain_compile().programs for tile in p.tiles])
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="made on other processors only")
def test_the_first_import_makes_the_usual_tile_functions(tmp_path: Path) -> None:
    environment = {**os.environ, "PULLBACK_CACHE_DIR": str(tmp_path)}

    def tiles_compiled(**more: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PRODUCT], env=environment | more, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert tiles_compiled() == "[]"
    assert tiles_compiled() == "[]"
    assert "'tile_f32_" in tiles_compiled(PULLBACK_CACHE="0")


def test_the_table_has_the_code_of_the_target_that_asked_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Targets with and without fused multiplication do not compute the same bits."""
    monkeypatch.setattr(tilecode, "_provided", {})  # other tests have filled the table, too
    kinds = [target_for(BEST), target_for("sse2" if BEST != "neon" else BEST)]
    addresses = []
    for target in (*kinds, kinds[0]):
        tilecode.provide_tile("tile_f32_1", target, quick=False)
        addresses.append(table_address("tile_f32_1"))
    assert addresses[0] == addresses[2]
    assert (addresses[0] != addresses[1]) == (kinds[0].key != kinds[1].key)


def _with_bytes_multiplied(text: str) -> str:
    """A module with a function in place of the instruction, which this processor does not have:
    products of unsigned with signed bytes, added by fours."""
    shuffles = [
        f"%{name}{k} = shufflevector <64 x i32> %{name}, <64 x i32> undef, <16 x i32> "
        f"<{', '.join(f'i32 {4 * i + k}' for i in range(16))}>"
        for name in ("x", "y")
        for k in range(4)
    ]
    products = [f"%p{k} = mul <16 x i32> %x{k}, %y{k}" for k in range(4)]
    sums = [f"%s{k + 1} = add <16 x i32> %s{k}, %p{k}" for k in range(4)]
    words = "<16 x i32>"
    lines = [
        f"define internal {words} @multiplied({words} %s0, {words} %a, {words} %b) {{",
        f"%a1 = bitcast {words} %a to <64 x i8>",
        f"%b1 = bitcast {words} %b to <64 x i8>",
        "%x = zext <64 x i8> %a1 to <64 x i32>",
        "%y = sext <64 x i8> %b1 to <64 x i32>",
        *shuffles, *products, *sums, f"ret {words} %s4", "}",
    ]  # fmt: skip
    instruction = "llvm.x86.avx512.vpdpbusd.512"
    declared = f"declare {words} @{instruction}({words}, {words}, {words})"
    assert declared in text
    text = text.replace(declared, "\n".join(lines)).replace(f"@{instruction}(", "@multiplied(")
    return text.replace(dense.BYTE_FEATURES, "")


@pytest.mark.parametrize("level", [*LEVELS_HERE, "matrix", "bytes"])
@pytest.mark.parametrize("name", ["tile_w8_4", "tile_z8_4", "tile_w8_3", "tile_w8_2", "tile_z8_1"])
def test_words_of_bytes_are_multiplied_exactly(name: str, level: str) -> None:
    matrix, bytewise = level == "matrix", level == "bytes"
    if matrix and not (BEST == "avx512" and matrix_units()):
        pytest.skip("this processor has no matrix registers")
    if bytewise and BEST != "avx512":
        pytest.skip("this processor has no vectors of 64 bytes")
    target = target_for(BEST if matrix or bytewise else level)
    text = dense.tile_text(target, name, matrix=matrix, bytewise=bytewise)
    assert ("vpdpbusd" in text) is bytewise
    if bytewise and not multiplies_bytes():
        text = _with_bytes_multiplied(text)
    code = loader.load_image(loader.link(link.assemble(text, target, 2)))
    p, i = ctypes.c_void_p, ctypes.c_int64
    kinds = [p, p, *[i] * 12, p, *[i] * 6, p, *[i] * 4]
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(code.symbols["pb_tile"])
    panel = 16 * parse_tile(name)[1]
    rng = np.random.default_rng(8)
    for rows, cols, length in [(1, 1, 1), (16, panel, 16), (37, panel + 5, 53), (5, 3 * panel, 32)]:
        size = (rows + 3) * 60
        a = np.frombuffer(rng.bytes(4 * size), np.int32)
        b = np.frombuffer(rng.bytes(4 * 60 * 4 * panel), np.int32)
        c = rng.integers(-9, 9, rows * (cols + 3) + 9).astype(np.int32)
        for more in (0, 1):
            left = [a, 3, 2, rows + 9, 60, 0, rows, 1, 1, length, 0, 0, 1]
            right = [b, 7, 0, 0, panel, 53 * panel, cols]
            want, got = c.copy(), c.copy()
            tile_reference(name, [*left, *right, want, 4, cols + 3, more])
            args = [*left, *right, got, 4, cols + 3, more, panel]
            raw = [x.ctypes.data if isinstance(x, np.ndarray) else int(x) for x in args]
            assert function(None, *raw) == 0
            np.testing.assert_array_equal(got, want)


def _pairs_function(name: str, level: str, brief: bool):
    matrix = level == "matrix"
    if matrix and not (BEST == "avx512" and matrix_units("amx_bf16")):
        pytest.skip("this processor has no matrix registers for bf16")
    target = target_for(BEST if matrix else level)
    text = dense.tile_text(target, name, brief, matrix)
    code = loader.load_image(loader.link(link.assemble(text, target, 0 if brief else 2)))
    p, i = ctypes.c_void_p, ctypes.c_int64
    kinds = [p, p, *[i] * 12, p, *[i] * 6, p, *[i] * 4]
    return ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(code.symbols["pb_tile"]), code


def _run_pairs(function, a, b, c, rows: int, cols: int, length: int, panel: int, more: int):
    """What the function and its definition make of C."""
    left = [a.view(np.int32), 3, 2, rows + 9, 60, 0, rows, 1, 1, length, 0, 0, 1]
    right = [b.view(np.int32), 7, 0, 0, panel, 53 * panel, cols]
    want, got = c.copy(), c.copy()
    tile_reference(f"tile_b16_{panel // 16}", [*left, *right, want, 4, cols + 3, more])
    args = [*left, *right, got, 4, cols + 3, more, panel]
    raw = [x.ctypes.data if isinstance(x, np.ndarray) else int(x) for x in args]
    assert function(None, *raw) == 0
    return want, got


@pytest.mark.parametrize("level", [*LEVELS_HERE, "matrix"])
@pytest.mark.parametrize("name", ["tile_b16_4", "tile_b16_1"])
def test_words_of_two_floats_are_multiplied(name: str, level: str) -> None:
    good, _code = _pairs_function(name, level, False)
    quick, _other = _pairs_function(name, level, True)
    panel = 16 * parse_tile(name)[1]
    rng = np.random.default_rng(8)
    shapes = [(1, 1, 1), (16, panel, 16), (37, panel + 5, 53), (5, 3 * panel, 32), (9, panel, 0)]
    for rows, cols, length in shapes:
        size = (rows + 3) * 60
        a = rng.standard_normal(2 * size).astype(ml_dtypes.bfloat16)
        b = rng.standard_normal(2 * 60 * 4 * panel).astype(ml_dtypes.bfloat16)
        a[rng.random(a.size) < 0.2] = 0
        c = rng.standard_normal(rows * (cols + 3) + 9).astype(np.float32)
        for more in (0, 1):
            want, got = _run_pairs(good, a, b, c, rows, cols, length, panel, more)
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-4)
            _, again = _run_pairs(quick, a, b, c, rows, cols, length, panel, more)
            np.testing.assert_array_equal(again, got)


@pytest.mark.parametrize("level", [*LEVELS_HERE, "matrix"])
@pytest.mark.parametrize("scales", [(1e-39, 1.0), (1.0, 1e-39), (1e-21, 1e-20), (1e-25, 1e-9)])
def test_products_of_two_floats_keep_denormals(level: str, scales: tuple[float, float]) -> None:
    """Matrix registers take them for zeros, among operands and sums."""
    function, _code = _pairs_function("tile_b16_2", level, False)
    rng = np.random.default_rng(9)
    shapes = (2 * 20 * 60, 2 * 60 * 64)
    a, b = (
        (rng.standard_normal(n).astype(np.float32) * np.float32(scale)).astype(ml_dtypes.bfloat16)
        for n, scale in zip(shapes, scales, strict=True)
    )
    c = np.zeros(17 * 23 + 9, np.float32)
    want, got = _run_pairs(function, a, b, c, 17, 20, 31, 32, 0)
    assert np.abs(want).max() > 0
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-43)


@pytest.mark.parametrize("level", LEVELS_HERE)
@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("name", ["turn_f32", "turn_i64"])
def test_turn_transposes(name: str, level: str, brief: bool) -> None:
    target = target_for(level)
    text = dense.tile_text(target, name, brief)
    code = loader.load_image(loader.link(link.assemble(text, target, 0 if brief else 2)))
    p, i = ctypes.c_void_p, ctypes.c_int64
    kinds = [p, p, i, i, i, i, p, i, i]
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(code.symbols["pb_tile"])
    d = NUMPY[name[5:]]
    for rows, cols in [(1, 1), (16, 16), (7, 50), (33, 20), (64, 37), (0, 5), (5, 0)]:
        a = np.arange(rows * (cols + 3) + 2).astype(d)
        want, got = np.full(cols * (rows + 2) + 3, 7, d), np.full(cols * (rows + 2) + 3, 7, d)
        args = [a, 2, cols + 3, rows, cols]
        tile_reference(name, [*args, want, 3, rows + 2])
        raw = [a.ctypes.data, *args[1:], got.ctypes.data, 3, rows + 2]
        assert function(None, *raw) == 0
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("m", [512, 700, 1000, 1024, 1500, 2000])
def test_rows_are_shared_out_evenly(m: int) -> None:
    rows = task_rows(m, 2)
    tasks = [min(rows, m - first) for first in range(0, m, rows)]
    halves = sum(tasks[::2]), sum(tasks[1::2])  # as two threads take them in turn
    assert len(tasks) == 8 and max(halves) <= 1.03 * m / 2


@pytest.mark.skipif(BEST != "avx512", reason="assembled for processors with AVX-512 only")
@pytest.mark.parametrize("name", ["tile_f32_2", "tile_f64_2"])
def test_the_hottest_loop_loads_hardly_anything_but_operands(name: str) -> None:
    """Of 12 rows and two vectors a step multiplies 24 times and loads 14 operands. A pointer for
    each row is more than there are registers: every second load came from the stack, and two loads
    a cycle, and four instructions, are what processors do at most (Intel's of AVX-512)."""
    target = target_for("avx512")
    blocks = re.split(r"^\.?\w+:", link.assembly(dense.tile_text(target, name), target), flags=re.M)
    hottest = max(blocks, key=lambda text: text.count("vfmadd"))
    loop = hottest[: hottest.rindex("vfmadd")]
    assert loop.count("vfmadd") >= 47  # two steps
    assert len(re.findall(r"mov\w* -?\d*\(%rsp\)", loop)) <= 6
    assert "vpcmp" not in loop  # which lanes are inside is known before
