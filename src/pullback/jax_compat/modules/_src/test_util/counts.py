"""What is traced, compiled and written in a block, and other things that tests look at."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

import numpy as np

from ..... import config, monitoring, sharding, tree
from .....api import jit as jit_module, programs
from .....api.derivatives import vjp
from .....api.staging import make_jaxpr
from .....core.jaxpr import ClosedJaxpr, subjaxprs
from .....runtime import dispatch, executable
from .....runtime.devices import devices


@contextlib.contextmanager
def _counted(owner: Any, name: str) -> Iterator[Callable[[], int]]:
    """How often a method is called in the block."""
    original, calls = getattr(owner, name), [0]

    def counting(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return original(*args, **kwargs)

    setattr(owner, name, counting)
    try:
        yield lambda: calls[0]
    finally:
        setattr(owner, name, original)


def count_jit_tracing_cache_miss() -> Any:
    """How many functions are traced by jit in the block."""
    return _counted(programs, "trace")


def count_device_put() -> Any:
    """How many values of the host become arrays in the block."""
    return _counted(dispatch, "host_array")


def count_pjit_cpp_cache_miss() -> Any:
    """How many calls of jitted functions the native fast path leaves to Python."""
    return _counted(jit_module.JitWrapped, "_infer")


def count_jit_compilation_cache_miss() -> Any:
    """How many programs are compiled in the block, operations outside of jit among them."""
    return _counted(executable.NativeExecutable, "__init__")


def count_primitive_compiles() -> Any:
    """How many operations outside of functions are compiled in the block."""
    return _counted(dispatch, "one_equation")


count_aot_jit_cpp_cache_miss = count_pjit_cpp_cache_miss
count_jit_and_pmap_lowerings = count_jit_compilation_cache_miss
count_compilation_after_persistent_cache_miss = count_jit_compilation_cache_miss


@contextlib.contextmanager
def assert_num_jit_and_pmap_compilations(times: int) -> Iterator[None]:
    """AssertionError unless so many programs are compiled in the block."""
    with count_jit_compilation_cache_miss() as count:
        yield
    if count() != times:
        raise AssertionError(f"Expected exactly {times} XLA compilations, but executed {count()}")


@contextlib.contextmanager
def register_event_duration_listener(callback: Callable[..., Any]) -> Iterator[None]:
    """Has a function hear of durations in the block."""
    monitoring.register_event_duration_secs_listener(callback)
    try:
        yield
    finally:
        monitoring.unregister_event_duration_listener(callback)


# ---- settings


@contextlib.contextmanager
def thread_local_config_context(**kwds: Any) -> Iterator[None]:
    """Flags of this thread for the block, by their whole names."""
    with contextlib.ExitStack() as stack:
        for name, value in kwds.items():
            stack.enter_context(config.FLAGS[name](value))
        yield


@contextlib.contextmanager
def global_config_context(**kwds: Any) -> Iterator[None]:
    """Flags of the process for the block, by their whole names."""
    before = {name: config.read(name) for name in kwds}
    try:
        for name, value in kwds.items():
            config.update(name, value)
        yield
    finally:
        for name, value in before.items():
            config.update(name, value)


@contextlib.contextmanager
def assert_global_configs_unchanged() -> Iterator[None]:
    """AssertionError if the block changes a flag of the process."""
    before = {name: config.read(name) for name in config.FLAGS}
    yield
    changed = {n: (v, config.read(n)) for n, v in before.items() if config.read(n) != v}
    assert not changed, f"Test changed global config values. Differing values are: {changed}"


@contextlib.contextmanager
def set_env(**kwargs: Any) -> Iterator[None]:
    """Variables of the environment for the block; None unsets one."""
    before = {name: os.environ.get(name) for name in kwargs}

    def put(values: dict[str, Any]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    put(kwargs)
    try:
        yield
    finally:
        put(before)


# ---- what is written


@contextlib.contextmanager
def _captured(stream: str) -> Iterator[Callable[[], str]]:
    """What Python code and native code write to a stream in the block."""
    original: TextIO = getattr(sys, stream)
    text, number = io.StringIO(), {"stdout": 1, "stderr": 2}[stream]
    saved = os.dup(number)
    with tempfile.TemporaryFile(mode="w+", encoding="utf-8") as file:
        original.flush()
        os.dup2(file.fileno(), number)
        setattr(sys, stream, os.fdopen(os.dup(number), "w", encoding="utf-8"))
        try:
            yield text.getvalue
        finally:
            getattr(sys, stream).close()
            setattr(sys, stream, original)
            os.dup2(saved, number)
            os.close(saved)
            file.seek(0)
            text.write(file.read())


def capture_stdout() -> Any:
    """Captures what is written to the standard output; the value is a function that gives it."""
    return _captured("stdout")


def capture_stderr() -> Any:
    """Captures what is written to the standard error."""
    return _captured("stderr")


# ---- programs


def iter_eqns(jaxpr: Any) -> Iterator[Any]:
    """The equations of a program and of the programs within it."""
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    yield from inner.eqns
    for sub in subjaxprs(inner):
        yield from iter_eqns(sub)


def assert_dot_precision(expected_precision: Any, fun: Callable[..., Any], *args: Any) -> None:
    """AssertionError unless all products of a function have a precision."""
    for eqn in iter_eqns(make_jaxpr(fun)(*args)):
        if eqn.primitive.name != "dot_general":
            continue
        found, wanted = eqn.params["precision"], expected_precision
        pair = wanted if isinstance(wanted, tuple) or wanted is None else (wanted, wanted)
        assert found == pair, f"Unexpected precision: {expected_precision} != {found}"


def assert_dot_preferred_element_type(
    expected: Any, fun: Callable[..., Any], *args: Any, **kwargs: Any
) -> None:
    """AssertionError unless all products of a function are of a type."""
    for eqn in iter_eqns(make_jaxpr(lambda *a: fun(*a, **kwargs))(*args)):
        if eqn.primitive.name == "dot_general":
            found = eqn.params["preferred_element_type"]
            assert found == expected, f"Unexpected preferred_element_type: {expected} != {found}"


def fwd_bwd_jaxprs(f: Callable[..., Any], *example_args: Any) -> tuple[Any, Any]:
    """The programs of a function's value with what its derivative keeps, and of the derivative."""
    forward, (out, pull) = make_jaxpr(lambda *args: vjp(f, *args), return_shape=True)(*example_args)
    return forward, make_jaxpr(lambda pull, ct: pull(ct))(pull, out)


# ---- meshes


def create_mesh(
    mesh_shape: Sequence[int],
    axis_names: Sequence[str],
    iota_order: bool = False,
    axis_types: Any = None,
) -> Any:
    """A mesh of the first devices; the test is skipped where there are too few."""
    count = int(np.prod(mesh_shape))
    if len(devices()) < count:
        raise unittest.SkipTest(f"Test requires {count} global devices and found {len(devices())}.")
    grid = np.array(devices()[:count]).reshape(mesh_shape)
    return sharding.Mesh(grid, tuple(axis_names), axis_types=axis_types)


MeshSpec = list[tuple[str, int]]


@contextlib.contextmanager
def with_mesh(named_shape: Sequence[tuple[str, int]]) -> Iterator[None]:
    """Runs the block in a mesh of such axes."""
    names, sizes = zip(*named_shape, strict=True) if named_shape else ((), ())
    with create_mesh(sizes, names):
        yield


def with_mesh_from_kwargs(f: Callable[..., Any]) -> Callable[..., Any]:
    """A test that runs in the mesh of its argument `mesh`: axes' names and sizes."""

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with with_mesh(kwargs["mesh"]):
            return f(*args, **kwargs)

    return wrapped


def with_explicit_mesh(
    sizes: Sequence[int],
    names: Sequence[str],
    axis_types: Any = None,
    iota_order: bool = False,
) -> Any:
    """A decorator of tests: they run in a mesh, whose axes are explicit, and are given it as
    `mesh`."""
    types = axis_types or (sharding.AxisType.Explicit,) * len(names)

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            mesh = create_mesh(sizes, names, iota_order, axis_types=types)
            with sharding.set_mesh(mesh):
                return test(*args, **kwargs, mesh=mesh)

        # Not functools.wraps: pytest would take `mesh` for a fixture.
        wrapped.__name__, wrapped.__qualname__ = test.__name__, test.__qualname__
        wrapped.__module__, wrapped.__doc__ = test.__module__, test.__doc__
        return wrapped

    return decorate


# ---- versions


def parse_version(v: str) -> tuple[int, ...]:
    """The numbers of a version."""
    return tuple(int(part) for part in re.match(r"\d+(\.\d+)*", v).group().split("."))  # type: ignore[union-attr]


def numpy_version() -> tuple[int, ...]:
    """NumPy's version."""
    return parse_version(np.__version__)


def check_eq(xs: Any, ys: Any, err_msg: str = "") -> None:
    """AssertionError unless two pytrees of arrays are equal."""
    assert tree.structure(xs) == tree.structure(ys), err_msg
    for x, y in zip(tree.leaves(xs), tree.leaves(ys), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y), err_msg=err_msg)


def check_raises(thunk: Callable[[], Any], err_type: type[BaseException], msg: str) -> None:
    """AssertionError unless a call raises an error whose message begins so."""
    try:
        thunk()
    except err_type as error:
        assert str(error).startswith(msg), f"\n{error}\n\n{msg}\n"
        return
    raise AssertionError(f"no {err_type.__name__} was raised")


def check_raises_regexp(
    thunk: Callable[[], Any], err_type: type[BaseException], pattern: str
) -> None:
    """AssertionError unless a call raises an error whose message matches."""
    try:
        thunk()
    except err_type as error:
        assert re.match(pattern, str(error)), f"{error}\n\n{pattern}\n"
        return
    raise AssertionError(f"no {err_type.__name__} was raised")
