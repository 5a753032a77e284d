"""`jax._src.internal_test_util.test_harnesses`: calls of functions with drawn arguments, as tests
that go through many of them are given them. Who has such calls adds them with `define`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl.testing import parameterized as _parameterized

from .. import test_util as jtu

_absl: Any = _parameterized  # it has no types
Rng = Any


class RandArg(NamedTuple):
    """An argument that is drawn: an array of a shape and dtype."""

    shape: tuple[int, ...]
    dtype: Any


class CustomArg(NamedTuple):
    """An argument that a function of a generator makes."""

    make: Callable[[Rng], Any]


class StaticArg(NamedTuple):
    """An argument that is no array."""

    value: Any


class Limitation:
    """Where a call is known not to work."""

    def __init__(
        self,
        description: str,
        *,
        enabled: bool = True,
        devices: str | Sequence[str] = ("cpu", "gpu", "tpu"),
        dtypes: Sequence[Any] = (),
        skip_run: bool = False,
    ) -> None:
        self.description, self.enabled, self.skip_run = description, enabled, skip_run
        self.devices = (devices,) if isinstance(devices, str) else tuple(devices)
        self.dtypes = tuple(dtypes)

    def filter(self, device: str | None = None, dtype: Any = None) -> bool:
        """Does it hold on a device, for a dtype?"""
        return (
            self.enabled
            and (device is None or device in self.devices)
            and (dtype is None or not self.dtypes or dtype in self.dtypes)
        )


class Harness:
    """A function and its arguments, drawn by a generator."""

    def __init__(
        self,
        group_name: str,
        name: str,
        fun: Callable[..., Any],
        arg_descriptors: Sequence[Any],
        *,
        dtype: Any,
        rng_factory: Callable[..., Any] = jtu.rand_default,
        jax_unimplemented: Sequence[Limitation] = (),
        **params: Any,
    ) -> None:
        self.group_name = jtu.sanitize_test_name(group_name)
        self.name = jtu.sanitize_test_name(name)
        self.fullname = f"{self.group_name}_{self.name}" if self.name else self.group_name
        self.fun, self.arg_descriptors = fun, arg_descriptors
        self.rng_factory, self.jax_unimplemented = rng_factory, jax_unimplemented
        self.dtype, self.params = dtype, params

    def __str__(self) -> str:
        return self.fullname

    def _made(self, descriptor: Any, rng: Rng) -> Any:
        if isinstance(descriptor, RandArg):
            return self.rng_factory(rng)(descriptor.shape, descriptor.dtype)
        if isinstance(descriptor, CustomArg):
            return descriptor.make(rng)
        return descriptor.value if isinstance(descriptor, StaticArg) else descriptor

    def args_maker(self, rng: Rng) -> list[Any]:
        """All arguments."""
        return [self._made(d, rng) for d in self.arg_descriptors]

    def dyn_args_maker(self, rng: Rng) -> list[Any]:
        """The arguments that are not static."""
        return [self._made(d, rng) for d in self.arg_descriptors if not isinstance(d, StaticArg)]

    def dyn_fun(self, *dyn_args: Any) -> Any:
        """The function of those."""
        given = iter(dyn_args)
        full = (d.value if isinstance(d, StaticArg) else next(given) for d in self.arg_descriptors)
        return self.fun(*full)

    def filter(
        self,
        device_under_test: str,
        *,
        include_jax_unimpl: bool = False,
        one_containing: str | None = None,
    ) -> bool:
        """Is it to run on a device?"""
        if one_containing is not None and one_containing not in self.fullname:
            return False
        return include_jax_unimpl or not any(
            lim.filter(device_under_test, self.dtype) for lim in self.jax_unimplemented
        )


all_harnesses: list[Harness] = []


def define(group_name: Any, name: str, *args: Any, **kwargs: Any) -> None:
    """Adds a call to `all_harnesses`. A group is called by a name or by a primitive."""
    all_harnesses.append(Harness(str(group_name), name, *args, **kwargs))


def dtypes_to_str(dtype_list: Sequence[Any], empty_means_all: bool = False) -> str:
    """The names of dtypes."""
    if not dtype_list and empty_means_all:
        return "all"
    return ", ".join(sorted(np.dtype(d).name for d in dtype_list))


def parameterized(
    harnesses: Iterable[Harness],
    *,
    one_containing: str | None = None,
    include_jax_unimpl: bool = False,
) -> Any:
    """A decorator: a test for each call, which it is given as `harness`."""
    wanted = one_containing or os.environ.get("JAX_ONE_HARNESS_CONTAINING")
    device = jtu.device_under_test()
    cases = [
        {"testcase_name": "" if wanted else h.fullname, "harness": h}
        for h in harnesses
        if h.filter(device, include_jax_unimpl=include_jax_unimpl, one_containing=wanted)
    ]
    return _absl.named_parameters(*(cases[:1] if wanted else cases))
