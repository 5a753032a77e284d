"""The kernel cache on disk when it is damaged, foreign, read-only, or written by several processes
at once: kernels are compiled again, entries are rewritten, results stay right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pullback
from pullback import config
from pullback.backends.llvm import cache as cache_module
from pullback.backends.llvm.cache import DiskCache, _pack, _unpack
from pullback.backends.llvm.loader import Image
from pullback.experimental.compilation_cache import compilation_cache

PROGRAM = """
import sys
import numpy as np
import pullback
from pullback import lax
from pullback.backends import llvm
x = np.arange(37, dtype=np.float32)
for k in range(3):
    got = pullback.jit(lambda x: lax.mul(lax.sin(x), x) if k else lax.exp(lax.neg(x)))(x)
    np.testing.assert_allclose(got, np.sin(x) * x if k else np.exp(-x), rtol=1e-5, atol=1e-5)
print(llvm.kernel_compile_count())
"""


def start(directory: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PULLBACK_CACHE_DIR": str(directory)}
    env.pop("PULLBACK_CACHE", None)
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=env, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> int:
    """How many kernels the process compiled."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert not err, err
    return int(out)


def run(directory: Path) -> int:
    return finish(start(directory))


def entries(directory: Path) -> list[Path]:
    found = sorted(directory.glob("*.kernel"))
    assert len(found) >= 3, found
    return found


def flip(raw: bytes) -> bytes:
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]


def other_version(raw: bytes) -> bytes:
    return b"PBKIMG99" + raw[8:]


def without_its_symbol(raw: bytes) -> bytes:
    """A valid entry, of another kernel's layout."""
    image = _unpack(raw)
    assert image is not None
    renamed = {name + "_of_another": at for name, at in image.symbols.items()}
    return _pack(Image(image.data, renamed, image.absolute, image.kind))


def nothing_in_it(raw: bytes) -> bytes:
    return _pack(Image(b"", {}, (), "elf"))


DAMAGES = {
    "cut short": lambda raw: raw[: len(raw) // 2],
    "a bit flipped": flip,
    "other version": other_version,
    "empty image": nothing_in_it,
    "other symbols": without_its_symbol,
}


def test_damaged_entries_are_compiled_again_and_rewritten(tmp_path: Path) -> None:
    cold = run(tmp_path)
    assert cold >= 2
    assert run(tmp_path) == 0
    good = {path: path.read_bytes() for path in entries(tmp_path)}
    for name, damage in DAMAGES.items():
        for path, raw in good.items():
            if name != "other symbols" or "pb_kernel" in _unpack(raw).symbols:
                path.write_bytes(damage(raw))
        assert run(tmp_path) == cold, name
        assert {p: p.read_bytes() for p in entries(tmp_path)} == good, name
    assert run(tmp_path) == 0


def test_a_directory_or_a_link_in_an_entrys_place(tmp_path: Path) -> None:
    cold = run(tmp_path)
    for path in entries(tmp_path):
        path.unlink()
        path.mkdir()
    assert run(tmp_path) == cold  # cannot be replaced by a file: compiled each time
    for path in tmp_path.glob("*.kernel"):
        path.rmdir()
        path.symlink_to(tmp_path / "nowhere")
    assert run(tmp_path) == cold
    assert run(tmp_path) == 0
    assert not any(path.is_symlink() for path in entries(tmp_path))


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
def test_entries_of_others_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path / "c", 1 << 20)
    image = Image(b"code", {"f": 0})
    cache.put("k", image)
    assert cache.get("k") is not None
    mine = os.getuid()
    real = os.fstat

    def foreign(handle: int) -> os.stat_result:
        words = list(real(handle))
        words[4] = mine + 1
        return os.stat_result(words)

    monkeypatch.setattr(cache_module.os, "fstat", foreign)
    assert cache.get("k") is None
    monkeypatch.undo()
    # A directory that belongs to somebody else is neither read nor written.
    monkeypatch.setattr(cache_module.os, "getuid", lambda: mine + 1)
    other = DiskCache(tmp_path / "c", 1 << 20)
    other.put("other", image)
    assert other.get("k") is None and other.get("other") is None


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away"
)
def test_entries_given_to_another_user(tmp_path: Path) -> None:
    cold = run(tmp_path)
    for path in entries(tmp_path):
        os.chown(path, 12345, -1)
    assert run(tmp_path) == cold
    assert run(tmp_path) == 0
    assert all(path.stat().st_uid == 0 for path in entries(tmp_path))


def test_a_readable_directory_is_made_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    run(tmp_path)
    assert tmp_path.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_directories_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    for directory in (blocked, blocked / "below", Path("/proc/pullback")):
        assert run(directory) == run(directory) >= 2


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path, 1 << 20)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module.os, "replace", full)
    cache.put("k", Image(b"code", {"f": 0}))
    monkeypatch.undo()
    assert cache.get("k") is None
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_processes_that_write_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "kernels"
    counts = [finish(p) for p in [start(directory) for _ in range(4)]]
    assert max(counts) >= 2
    # Quick code is written behind the caller: what a process had not written when it ended is
    # compiled once more, and then all is there.
    assert 0 in (run(directory), run(directory))
    assert not list(directory.glob(".new-*"))


def test_no_damage_gets_through() -> None:
    """Every prefix, and flips of random bits, of an entry."""
    raw = _pack(Image(bytes(range(200)), {"f": 3, "g": 17}, (8, 16)))
    whole = _unpack(raw)
    assert whole is not None and whole.symbols == {"f": 3, "g": 17}
    assert all(_unpack(raw[:k]) is None for k in range(len(raw)))
    for other in (raw + b"\0", other_version(raw), bytes(len(raw)), b"text, not a kernel" * 9):
        assert _unpack(other) is None
    rng = np.random.default_rng(0)
    for bit in rng.integers(0, 8 * len(raw), 500):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << (bit % 8)
        assert _unpack(bytes(damaged)) is None


def test_quick_code_that_is_stored_late_leaves_good_code(tmp_path: Path) -> None:
    """Quick code is stored behind its caller's back, better code as soon as there is some."""
    cache = DiskCache(tmp_path, 1 << 20)
    good, quick = Image(b"good", {"f": 0}, ()), Image(b"quick", {"f": 0}, (), quick=True)
    cache.put("k", quick)
    cache.put("k", good)
    cache.put("k", quick)
    assert cache.get("k").data == b"good"  # type: ignore[union-attr]
    (entry,) = tmp_path.glob("*.kernel")
    entry.write_bytes(flip(entry.read_bytes()))
    cache.put("k", quick)
    assert cache.get("k").data == b"quick"  # type: ignore[union-attr]


def test_flags_name_the_directory_and_switch_it_off(tmp_path: Path) -> None:
    """`jax_compilation_cache_dir` and `jax_enable_compilation_cache` had no effect."""
    usual = cache_module.disk_cache()
    compilation_cache.set_cache_dir(tmp_path)
    try:
        found = cache_module.disk_cache()
        assert found is not None and Path(found.directory) == tmp_path / "pullback"
        pullback.jit(lambda x: x * 3.25 + float(os.getpid()))(np.ones(3, np.float32))
        image = Image(b"\0" * 64, {}, {})
        found.put("a" * 64, image)
        assert found.get("a" * 64) is not None
        assert (tmp_path / "pullback").stat().st_mode & 0o077 == 0
        compilation_cache.set_cache_dir("gs://bucket/place")  # no path: as without it
        assert cache_module.disk_cache() is usual
    finally:
        compilation_cache.set_cache_dir(None)
    with config.enable_compilation_cache(False):
        assert cache_module.disk_cache() is None
    compilation_cache.reset_cache()
    again = cache_module.disk_cache()
    assert usual is not None and again is not None and again.directory == usual.directory
