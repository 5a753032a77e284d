"""jaxlib's modules, loaded at their first use, with an error that says what to install."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ...errors import JaxRuntimeError

MISSING = (
    "the xla backend needs jaxlib, which is not installed: {0}. Fix: pip install 'pullback[xla]'."
)


class _Library(ModuleType):
    """Stands for a module of jaxlib until the first attribute is asked of it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what tools ask of modules
            raise AttributeError(name)
        # Else XLA tells on the standard error which devices it finds.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        try:
            module = importlib.import_module(self.__name__)
        except ImportError as e:
            raise ImportError(MISSING.format(e)) from None
        self.__dict__.update({k: v for k, v in vars(module).items() if not k.startswith("__")})
        return getattr(module, name)


ir: Any = _Library("jaxlib.mlir.ir")
hlo: Any = _Library("jaxlib.mlir.dialects.stablehlo")
chlo: Any = _Library("jaxlib.mlir.dialects.chlo")
func: Any = _Library("jaxlib.mlir.dialects.func")
mhlo: Any = _Library("jaxlib.mlir.dialects.mhlo")
sdy: Any = _Library("jaxlib.mlir.dialects.sdy")
passmanager: Any = _Library("jaxlib.mlir.passmanager")
mlir_api: Any = _Library("jaxlib._jax")
xla_transforms: Any = _Library("jaxlib._xla")
hlo_api: Any = _Library("jaxlib._hlo")
xla_client: Any = _Library("jaxlib.xla_client")
ifrt_programs: Any = _Library("jaxlib._jax.ifrt_programs")
lapack: Any = _Library("jaxlib.lapack")
lapack_kernels: Any = _Library("jaxlib.cpu._lapack")


@contextlib.contextmanager
def own_errors() -> Iterator[None]:
    """What XLA raises inside is raised as this package's error of the same name."""
    try:
        yield
    except RuntimeError as e:
        if type(e).__name__ not in ("JaxRuntimeError", "XlaRuntimeError"):
            raise
        raise JaxRuntimeError(str(e)) from None


def include_dir() -> str:
    """The folder of the headers that foreign code is compiled with.

    >>> import os
    >>> os.path.exists(os.path.join(pb.ffi.include_dir(), "xla", "ffi", "api", "ffi.h"))
    True
    """
    try:
        client = importlib.import_module("jaxlib.xla_client")  # of an installed one, surely
    except ImportError as e:
        raise ImportError(MISSING.format(e)) from None
    return os.path.join(os.path.dirname(str(client.__file__)), "include")


@functools.cache
def upstream_dialects() -> Any:
    """The registry of the dialects that come with MLIR itself: func, arith, scf and their kind."""
    registry = ir.DialectRegistry()
    importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
    return registry


@functools.cache
def context_class() -> Any:
    """The class of contexts: MLIR's, with every dialect that programs are written in."""

    class JaxIrContext(ir.Context):  # type: ignore[misc]
        """A context of MLIR that knows the dialects of programs.

        >>> from pullback.extend import lowering
        >>> with lowering.JaxIrContext():
        ...     pass
        """

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.append_dialect_registry(upstream_dialects())
            self.load_all_available_dialects()
            self.enable_multithreading(False)
            chlo.register_chlo_dialect(self)
            mhlo.register_mhlo_dialect(self)
            sdy.register_dialect(self)
            hlo.register_dialect(self)

    return JaxIrContext


def new_context() -> Any:
    return context_class()()
