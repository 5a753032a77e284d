"""What every test shares: the oracle's settings, a private kernel cache, the fuzzer's options.

`PULLBACK_SEEDS_ORACLE=jax` runs the seeds' examples on real JAX instead of on Pullback: that is how
their expected values were checked. `PULLBACK_TESTS_BESIDE="numba torch"` has these libraries at
work in the process of the tests (beside.py).
"""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from types import ModuleType

import beside
import hypothesis
import numpy as np
import oracle_flags
import pytest

hypothesis.settings.register_profile(
    "pullback", deadline=None, print_blob=True, derandomize=True, database=None
)
hypothesis.settings.load_profile("pullback")

CACHE_VARIABLE = "PULLBACK_CACHE_DIR"
ORACLE_CACHE_VARIABLE = "PULLBACK_TESTS_ORACLE_CACHE"
ORACLE_VARIABLE = "PULLBACK_SEEDS_ORACLE"


class OracleFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers `import pullback.x` with the module `jax.x`."""

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "pullback" and not name.startswith("pullback."):
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        real = "jax" + spec.name[len("pullback") :]
        self.kept = importlib.import_module(real).__spec__
        return importlib.import_module(real)

    def exec_module(self, module: ModuleType) -> None:
        """The module has run already; only its own spec is put back."""
        module.__spec__ = self.kept


if os.environ.get(ORACLE_VARIABLE) == "jax":
    sys.meta_path.insert(0, OracleFinder())


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pullback")
    group.addoption("--fuzz-draws", type=int, default=300, help="random programs to draw")
    group.addoption("--fuzz-seed", type=int, default=0, help="seed of the random programs")
    group.addoption("--fuzz-only", type=int, default=None, help="one random program alone")
    group.addoption("--regenerate", action="store_true", help="rewrite the golden text files")


def pytest_configure(config: pytest.Config) -> None:
    """One empty cache of kernels a run, and one of the oracle's programs, shared by its workers: no
    test sees an earlier one."""
    if hasattr(config, "workerinput"):
        return
    for variable in (CACHE_VARIABLE, ORACLE_CACHE_VARIABLE):
        if variable not in os.environ:
            os.environ[variable] = tempfile.mkdtemp(prefix="pullback-tests-")
            config.add_cleanup(functools.partial(_remove_cache, variable))


def pytest_collection_finish() -> None:
    """What stays for the whole run, the tests and all imported modules, is not looked through in
    each collection of garbage, and collections are rare. Real JAX, if anybody has imported it,
    shares what it compiles."""
    if "jax" in sys.modules:
        oracle_flags.share_contexts()
        oracle_flags.keep_programs(os.environ[ORACLE_CACHE_VARIABLE])
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000, 20, 20)


@pytest.fixture(autouse=True)
def _draws_of_its_own(request: pytest.FixtureRequest) -> None:
    """A test draws the same numbers whichever tests ran before it: a module's generators begin
    anew, from the test's name."""
    for value in vars(request.module).values() if request.module else ():
        if isinstance(value, np.random.Generator):
            seed = zlib.crc32(request.node.nodeid.encode())
            value.bit_generator.state = type(value.bit_generator)(seed).state


_beside = beside.users()


@pytest.fixture(scope="module", autouse=_beside != [])
def _others_work() -> None:
    """What else is in the process has just been at work, on threads of its own."""
    for use in _beside:
        use()


@pytest.fixture
def few_objects() -> Iterator[None]:
    """For tests that walk all objects again and again: those of the tests before are left out, and
    stay so until memory is short."""
    gc.collect()
    gc.freeze()
    yield


@pytest.fixture
def at_rest(few_objects: None) -> Iterator[None]:
    """For tests that count what the whole process does: until the test ends nothing is collected,
    compiled or freed behind its back on account of the tests before it."""
    # Not imported above: under the oracle these names are not ours.
    queue = importlib.import_module("pullback.runtime.queue").queue()
    aside = importlib.import_module("pullback.backends.llvm.aside")
    tier = importlib.import_module("pullback.backends.llvm.tier")
    queue.drain()
    assert aside.settle(60), "the thread aside hangs"
    gc.disable()
    try:
        with tier.paused():
            yield
    finally:
        gc.enable()


def _remove_cache(variable: str) -> None:
    shutil.rmtree(os.environ.pop(variable), ignore_errors=True)


MUCH = 2 << 30  # bytes that a worker of the suite may hold, and a half of it more
_least = [MUCH]  # what could not be given back


def _resident() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # another system
        return 0


def pytest_runtest_teardown() -> None:
    """Machines of eight gigabytes run two workers, each with the caches of two compilers."""
    if _resident() < _least[0] + MUCH // 2:
        return
    if "jax" in sys.modules and os.environ.get(ORACLE_VARIABLE) != "jax":
        sys.modules["jax"].clear_caches()
    if "pullback.runtime.memory" in sys.modules:
        sys.modules["pullback.runtime.memory"].trim()
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    _least[0] = max(_resident(), MUCH)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under the oracle, what Pullback cannot do yet is expected to work."""
    if os.environ.get(ORACLE_VARIABLE) == "jax":
        for item in items:
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "xfail"]


@pytest.fixture(scope="session")
def fuzz_draws(request: pytest.FixtureRequest) -> int:
    """How many random programs to draw: `--fuzz-draws`, or DRAWS with `make fuzz`."""
    return int(request.config.getoption("--fuzz-draws"))


@pytest.fixture(scope="session")
def fuzz_seed(request: pytest.FixtureRequest) -> int:
    """The seed of the random programs: `--fuzz-seed`, or SEED with `make fuzz`."""
    return int(request.config.getoption("--fuzz-seed"))


@pytest.fixture(scope="session")
def fuzz_only(request: pytest.FixtureRequest) -> int | None:
    """The only random program to draw, or None for all: `--fuzz-only`."""
    return request.config.getoption("--fuzz-only")  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def regenerate(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten: `--regenerate`."""
    return bool(request.config.getoption("--regenerate"))
