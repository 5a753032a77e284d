"""Decorators that make several tests of one, and that skip."""

from __future__ import annotations

import functools
import os
import random
import re
import sys
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from absl.testing import parameterized

from ..... import config
from .....runtime.devices import client, devices

_absl: Any = parameterized  # it has no types
_NAMES = ("1", "true", "yes", "y", "on", "t")


class _Setting:
    """A setting of the tests themselves, from the environment."""

    def __init__(self, value: Any) -> None:
        self.value = value


NUM_GENERATED_CASES = _Setting(int(os.environ.get("JAX_NUM_GENERATED_CASES", "10")))
SKIP_SLOW_TESTS = _Setting(os.environ.get("JAX_SKIP_SLOW_TESTS", "0").lower() in _NAMES)
TEST_NUM_THREADS = _Setting(int(os.environ.get("JAX_TEST_NUM_THREADS", "0")))
TEST_WITH_PERSISTENT_COMPILATION_CACHE = _Setting(
    os.environ.get("JAX_TEST_WITH_PERSISTENT_COMPILATION_CACHE", "0").lower() in _NAMES
)
kSanitizeNameRE = re.compile(r"[ \"'\[\](){}<>=,._]+")


def sanitize_test_name(s: str) -> str:
    """A text as part of a test's name."""
    return kSanitizeNameRE.sub("_", s)


def sample_product_testcases(*args: Any, **kw: Any) -> Iterator[dict[str, Any]]:
    """Keyword arguments for every combination of choices; a random selection of them where there
    are more than JAX_NUM_GENERATED_CASES.

    Positional arguments are sequences of dicts, keyword arguments sequences of values.
    """
    groups = [list(a) for a in args]
    groups += [[{name: value} for value in values] for name, values in kw.items()]
    sizes = [len(g) for g in groups]
    total = int(np.prod(sizes, dtype=object))
    for number in _picked(total, min(NUM_GENERATED_CASES.value, total)):
        places = np.unravel_index(number, sizes, order="F") if sizes else ()
        parts = [g[k] for g, k in zip(groups, places, strict=True)]
        yield {k: v for part in parts for k, v in part.items()}


def _picked(total: int, count: int) -> list[int]:
    """Different numbers below `total`, the same ones each time."""
    if total <= 1_000_000:
        return [int(k) for k in np.random.RandomState(42).choice(total, count, replace=False)]
    return random.Random(42).sample(range(total), count)


def sample_product(*args: Any, **kw: Any) -> Any:
    """A decorator: one test for each of `sample_product_testcases`."""
    return _absl.parameters(*sample_product_testcases(*args, **kw))


def named_cases_from_sampler(gen: Callable[..., Iterable[dict[str, Any]]]) -> Iterator[Any]:
    """Cases of a generator that is given a function which picks one of a sequence."""
    rng, seen = np.random.RandomState(42), set[str]()

    def choose(options: Any) -> Any:
        if not isinstance(options, (list, tuple)):
            options = list(options)
        return options[rng.randint(len(options))] if options else None

    for _ in range(25 * NUM_GENERATED_CASES.value):
        if len(seen) >= NUM_GENERATED_CASES.value:
            return
        for case in gen(choose):
            name = sanitize_test_name(case["testcase_name"])
            if name not in seen:
                seen.add(name)
                yield {**case, "testcase_name": name}


def parameterized_filterable(
    *,
    kwargs: Sequence[dict[str, Any]],
    testcase_name: Callable[[dict[str, Any]], str] | None = None,
    one_containing: str | None = None,
) -> Any:
    """A decorator: a test for each set of keyword arguments, named by them; only the first whose
    name contains a text where one is given."""

    def name_of(case: dict[str, Any]) -> str:
        if testcase_name is not None:
            return sanitize_test_name(str(testcase_name(case)))
        return sanitize_test_name(
            case.get("testcase_name") or "_".join(f"{k}={v}" for k, v in case.items())
        )

    cases = [{**case, "testcase_name": name_of(case)} for case in kwargs]
    if one_containing is not None:
        cases = [c for c in cases if one_containing in c["testcase_name"]][:1]
        assert cases, f"No test case name containing {one_containing}"
        for case in cases:
            case["testcase_name"] = ""
    return _absl.named_parameters(*cases)


# ---- devices


def device_under_test() -> str:
    """The platform that tests run on."""
    return str(devices()[0].platform)


def _tags() -> set[str]:
    platform = device_under_test()
    return {"gpu", platform} if platform in ("cuda", "rocm") else {platform}


def test_device_matches(device_types: Iterable[str]) -> bool:
    """Whether tests run on one of these platforms."""
    return not _tags().isdisjoint(device_types)


test_device_matches.__test__ = False  # type: ignore[attr-defined]


def _where(runs: Callable[[], bool], reason: str) -> Callable[[Any], Any]:
    """A decorator of tests and of their classes: skipped where they are not to run."""

    def decorate(test: Any) -> Any:
        if isinstance(test, type):
            if not runs():
                return unittest.skip(reason)(test)
            return test

        @functools.wraps(test)
        def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not runs():
                raise unittest.SkipTest(reason)
            return test(self, *args, **kwargs)

        return wrapped

    return decorate


def skip_on_devices(*disabled_devices: str, skip_reason: str | None = None) -> Any:
    """Skips a test on these platforms."""
    reason = skip_reason or f"Skipped on devices with tags: {', '.join(disabled_devices)}"
    return _where(lambda: not test_device_matches(disabled_devices), reason)


def run_on_devices(*enabled_devices: str, skip_reason: str | None = None) -> Any:
    """Skips a test on other platforms."""
    tags = ", ".join(enabled_devices)
    reason = skip_reason or f"Skipped unless running on devices with tags: {tags}"
    return _where(lambda: test_device_matches(enabled_devices), reason)


def skip_on_flag(flag_name: str, skip_value: Any) -> Any:
    """Skips a test while a flag has a value."""
    return _where(
        lambda: config.FLAGS[flag_name].get() != skip_value, f"{flag_name} is {skip_value}"
    )


def skip_under_pytest(reason: str) -> Any:
    """Skips a test where pytest runs it."""
    return _where(lambda: not is_running_under_pytest(), reason)


def runtime_environment() -> str | None:
    """What runs the tests."""
    return "pytest" if "pytest" in sys.modules else None


def is_running_under_pytest() -> bool:
    """Whether pytest runs the tests."""
    return "PYTEST_CURRENT_TEST" in os.environ


def pytest_mark_if_available(marker: str) -> Any:
    """A mark of pytest's; nothing without pytest."""
    pytest = sys.modules.get("pytest")
    return getattr(pytest.mark, marker) if pytest is not None else lambda test: test


def thread_unsafe_test(condition: bool = True) -> Any:
    """Marks a test that runs alone. Tests do."""
    return lambda test: test


def thread_unsafe_test_class(condition: bool = True) -> Any:
    """Marks a class whose tests run alone. Tests do."""
    return lambda cls: cls


def request_cpu_devices(nr_devices: int) -> None:
    """Wants so many virtual devices; the module's tests are skipped where it is too late."""
    if client.cache_info().currsize == 0:
        config.update("jax_num_cpu_devices", nr_devices)
    if len(devices()) < nr_devices:
        raise unittest.SkipTest(f"{nr_devices} devices cannot be had any more")


def pattern_search(patterns: str | Sequence[str], string: str) -> str | None:
    """The first pattern that a text has a match of."""
    each = (patterns,) if isinstance(patterns, str) else patterns
    return next((p for p in each if re.search(p, string)), None)


def device_kind_match(device_patterns: str | Sequence[str]) -> str | None:
    """The first pattern that the kind of the devices has a match of."""
    return pattern_search(device_patterns, devices()[0].device_kind)
