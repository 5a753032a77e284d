"""The class that tests derive from."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl.testing import absltest, parameterized

from ..... import config, dtypes as _dtypes, random
from .....api.jit import jit
from .....core.avals import typeof
from .....numpy.util import promote_dtypes, promote_dtypes_inexact
from ..public_test_util import _native, default_tolerance, tolerance
from ..test_warning_util import raise_on_warnings
from .counts import (
    count_jit_compilation_cache_miss as _count_compilations,
    count_jit_tracing_cache_miss,
    count_pjit_cpp_cache_miss,
    global_config_context,
    thread_local_config_context,
)

_ARRAYS = (np.ndarray, np.generic, bool, int, float, complex)


def _is_array(x: Any) -> bool:
    return isinstance(x, _ARRAYS) or hasattr(x, "__array__") or hasattr(x, "aval")


def _values(x: Any) -> Any:
    """As an array of NumPy's; a key's words."""
    if hasattr(x, "dtype") and _dtypes.is_extended(x.dtype):
        x = random.key_data(x)
    return np.asarray(x)


def _dtype_of(x: Any) -> Any:
    """As it is: in 64 bits where it is so."""
    if type(x) in _dtypes.python_scalar_dtypes:
        return _dtypes.python_scalar_dtypes[type(x)]
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


class JaxTestCase(parameterized.TestCase):
    """A test: strict promotion, checks of intermediate programs, a generator of its own, and
    comparisons of arrays."""

    _default_global_config: Mapping[str, Any] = {}
    _default_thread_local_config: Mapping[str, Any] = {
        "jax_enable_checks": True,
        "jax_numpy_dtype_promotion": "strict",
        "jax_numpy_rank_promotion": "raise",
        "jax_traceback_filtering": "off",
        "jax_legacy_prng_key": "error",
    }

    def setUp(self) -> None:
        super().setUp()
        self.enter_context(global_config_context(**self._default_global_config))
        self.enter_context(thread_local_config_context(**self._default_thread_local_config))
        self._rng = np.random.RandomState(zlib.adler32(self._testMethodName.encode()))

    def rng(self) -> np.random.RandomState:
        """The test's generator."""
        return self._rng

    def assertArraysEqual(
        self,
        actual: Any,
        desired: Any,
        *,
        check_dtypes: bool = True,
        err_msg: str = "",
        allow_object_dtype: bool = False,
        verbose: bool = True,
    ) -> None:
        """Of one dtype, weak type aside, shape and values."""
        if check_dtypes:
            self.assertDtypesMatch(actual, desired)
        x, y = _values(actual), _values(desired)
        if not allow_object_dtype and object in (x.dtype, y.dtype):
            raise TypeError("arrays of objects are not compared. Fix: allow_object_dtype=True")
        self.assertEqual(x.shape, y.shape)
        if x.dtype == y.dtype == _dtypes.float0:
            return
        np.testing.assert_array_equal(x, y, err_msg=err_msg, verbose=verbose)

    def assertArraysAllClose(
        self,
        actual: Any,
        desired: Any,
        *,
        check_dtypes: bool = True,
        atol: Any = None,
        rtol: Any = None,
        err_msg: str = "",
    ) -> None:
        """Of one dtype and shape, and close by the dtypes' tolerances."""
        self.assertEqual(np.shape(actual), np.shape(desired))
        if check_dtypes:
            self.assertDtypesMatch(actual, desired)
        x, y = _values(actual), _values(desired)
        if x.dtype == y.dtype == _dtypes.float0:
            return
        limits = {
            name: max(tolerance(d, given) for d in (_dtype_of(actual), _dtype_of(desired)))
            for name, given in (("atol", atol), ("rtol", rtol))
        }
        np.testing.assert_allclose(_native(x), _native(y), err_msg=err_msg, **limits)

    def assertDtypesMatch(
        self, actual: Any, desired: Any, *, canonicalize_dtypes: bool = True
    ) -> None:
        """Of one dtype: without 64-bit types, what they stand for."""
        x, y = _dtype_of(actual), _dtype_of(desired)
        if canonicalize_dtypes and not config.enable_x64.get():
            kept = [_dtypes.is_extended(d) or d == np.dtype(object) for d in (x, y)]
            x, y = (d if k else _dtypes.canonicalize_dtype(d) for d, k in zip((x, y), kept))
        self.assertEqual(x, y)

    def assertAllClose(
        self,
        actual: Any,
        desired: Any,
        *,
        check_dtypes: bool = True,
        atol: Any = None,
        rtol: Any = None,
        canonicalize_dtypes: bool = True,
        err_msg: str = "",
    ) -> None:
        """Containers and arrays: of one structure, arrays close to each other."""
        options = {
            "check_dtypes": check_dtypes, "atol": atol, "rtol": rtol,
            "canonicalize_dtypes": canonicalize_dtypes, "err_msg": err_msg,
        }  # fmt: skip
        if isinstance(actual, dict):
            self.assertIsInstance(desired, dict)
            self.assertEqual(set(actual), set(desired))
            for name in actual:
                self.assertAllClose(actual[name], desired[name], **options)
        elif isinstance(actual, (list, tuple)) and not hasattr(actual, "__array__"):
            self.assertIsInstance(desired, (list, tuple))
            self.assertEqual(len(actual), len(desired))
            for x, y in zip(actual, desired, strict=True):
                self.assertAllClose(x, y, **options)
        elif _is_array(actual):
            self.assertTrue(_is_array(desired), f"an array and {type(desired)}")
            if check_dtypes:
                self.assertDtypesMatch(actual, desired, canonicalize_dtypes=canonicalize_dtypes)
            self.assertArraysAllClose(
                actual, desired, check_dtypes=False, atol=atol, rtol=rtol, err_msg=err_msg
            )
        elif actual is None or desired is None:
            self.assertIs(actual, desired)
        else:
            raise TypeError((type(actual), type(desired)))

    def assertMultiLineStrippedEqual(self, expected: str, what: str) -> None:
        """Equal texts, blanks at the ends of lines and empty lines aside."""

        def lines(text: str) -> str:
            return "\n".join(line.strip() for line in text.splitlines() if line.strip())

        self.assertEqual(lines(expected), lines(what), f"Found\n{what}\nExpected\n{expected}")

    @contextlib.contextmanager
    def assertNoWarnings(self) -> Iterator[None]:
        """A warning in the block is an error."""
        with raise_on_warnings():
            yield

    def assertDeprecationWarnsOrRaises(
        self, deprecation_id: str, message: str, *, error_class: type[Exception] = ValueError
    ) -> Any:
        """The block warns of something deprecated."""
        return self.assertWarnsRegex(DeprecationWarning, message)

    def assertCacheMisses(
        self,
        func: Callable[[], Any],
        *,
        cpp: int | None = None,
        aot_call: int | None = None,
        tracing: int | None = None,
        lowering: int | None = None,
        compilation_after_persistent_cache_miss: int | None = None,
    ) -> None:
        """How often a call leaves the fast path, traces and compiles."""
        with (
            count_pjit_cpp_cache_miss() as left,
            count_jit_tracing_cache_miss() as traced,
            _count_compilations() as compiled,
        ):
            func()
        counts = ((cpp, left), (aot_call, left), (tracing, traced), (lowering, compiled),
                  (compilation_after_persistent_cache_miss, compiled))  # fmt: skip
        for wanted, found in counts:
            if wanted is not None:
                self.assertEqual(found(), wanted)

    def _CheckAgainstNumpy(
        self,
        numpy_reference_op: Callable[..., Any],
        lax_op: Callable[..., Any],
        args_maker: Callable[[], Sequence[Any]],
        check_dtypes: bool = True,
        tol: Any = None,
        atol: Any = None,
        rtol: Any = None,
        canonicalize_dtypes: bool = True,
    ) -> None:
        """A function and NumPy's compute the same."""
        args = args_maker()
        found, wanted = lax_op(*args), numpy_reference_op(*args)
        self.assertAllClose(
            wanted,
            found,
            check_dtypes=check_dtypes,
            atol=atol or tol,
            rtol=rtol or tol,
            canonicalize_dtypes=canonicalize_dtypes,
        )

    def _CompileAndCheck(
        self,
        fun: Callable[..., Any],
        args_maker: Callable[[], Sequence[Any]],
        *,
        check_dtypes: bool = True,
        tol: Any = None,
        rtol: Any = None,
        atol: Any = None,
        check_cache_misses: bool = True,
    ) -> None:
        """A function computes the same under jit, with the same types, and is traced once."""
        args = args_maker()
        plain = fun(*args)
        traces = [0]

        def counted(*args: Any) -> Any:
            traces[0] += 1
            return fun(*args)

        compiled = jit(counted)
        limits = {"check_dtypes": check_dtypes, "atol": atol or tol, "rtol": rtol or tol}
        self.assertAllClose(plain, compiled(*args), **limits)
        once = traces[0]
        again = args_maker()
        self.assertAllClose(fun(*again), compiled(*again), **limits)
        same = [typeof(x) for x in args if _is_array(x)] == [
            typeof(x) for x in again if _is_array(x)
        ]
        if check_cache_misses and same:
            self.assertEqual(traces[0], once, "traced again for arguments of the same types")


class BufferDonationTestCase(JaxTestCase):
    """Tests of memory that is given away."""

    def assertDeleted(self, x: Any) -> None:
        """Its memory was taken."""
        self.assertTrue(x.is_deleted())

    def assertNotDeleted(self, x: Any) -> None:
        """It is still there."""
        self.assertFalse(x.is_deleted())


class JaxTestLoader(absltest.TestLoader):
    """Finds tests, for `absltest.main`."""


def with_config(**kwds: Any) -> Callable[[Any], Any]:
    """A decorator of test classes: flags, of this thread, while their tests run."""

    def decorate(cls: Any) -> Any:
        cls._default_thread_local_config = {**cls._default_thread_local_config, **kwds}
        return cls

    return decorate


def with_global_config(**kwds: Any) -> Callable[[Any], Any]:
    """A decorator of test classes: flags of the process while their tests run."""

    def decorate(cls: Any) -> Any:
        cls._default_global_config = {**cls._default_global_config, **kwds}
        return cls

    return decorate


def join_tolerance(tol1: Any, tol2: Any) -> dict[Any, Any]:
    """The larger tolerance, by dtype."""

    def table(tol: Any) -> dict[Any, Any]:
        if isinstance(tol, dict):
            return {np.dtype(d): t for d, t in tol.items()}
        return dict.fromkeys(default_tolerance(), tol or 0)

    out = table(tol1)
    for d, t in table(tol2).items():
        out[d] = max(t, out.get(d, 0))
    return out


def promote_like_jnp(fun: Callable[..., Any], inexact: bool = False) -> Callable[..., Any]:
    """A function of NumPy's, its operands promoted as ours are."""
    promote = promote_dtypes_inexact if inexact else promote_dtypes

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat = [np.asarray(x) for x in promote(*map(np.asarray, args))]
        return fun(*flat, **kwargs)

    return wrapped
