"""`import jax` and everything under it, from Pullback: for programs written for JAX, unchanged.

    import pullback.jax_compat
    pullback.jax_compat.install()
    import jax, jax.numpy as jnp          # Pullback's

After `install()` a finder owns `jax` and all of `jax.*`: nothing falls through to an installed JAX.
Modules that Pullback has under the same public name are those modules; the semi-private ones that
libraries use are curated in `modules/`. A name that JAX lacks raises AttributeError, because
libraries' guards rely on it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from .. import compile_log
from ..lazy_imports import lazy_module
from ..version import JAX_VERSION as JAX_VERSION  # what libraries compare with what they need

__all__ = ["install", "is_installed", "uninstall"]

class_names: Any = lazy_module("pullback.jax_compat.class_names")
bindings: Any = lazy_module("pullback.jax_compat.bindings")

# Public modules that are Pullback's own, by the first part of their name.
_OWN = frozenset(
    {
        "ad",
        "api_util",
        "custom_batching",
        "custom_derivatives",
        "debug",
        "distributed",
        "dlpack",
        "ffi",
        "dtypes",
        "errors",
        "export",
        "extend",
        "flatten_util",
        "image",
        "interpreters",
        "lax",
        "monitoring",
        "nn",
        "numpy",
        "ops",
        "profiler",
        "random",
        "ref",
        "scipy",
        "sharding",
        "stages",
        "test_util",
        "tree",
        "tree_util",
        "typing",
        "ad_checkpoint",
        "experimental",
        "example_libraries",
    }
)
_MODULES = __name__ + ".modules"
# Private modules, and where the names in them are public, or are ours: one module stands for a
# private one, several are searched in their order.
_SOURCES = {
    "_src.buffer_callback": "experimental.buffer_callback",
    "_src.callback": "primitives.callback pullback",
    "_src.custom_batching": "custom_batching",
    "_src.custom_derivatives": "custom_derivatives jax_compat.modules._src.program_names",
    "_src.custom_partitioning_sharding_rule": "experimental.sharding_rules",
    "_src.debugger": "debug",
    "_src.debugger.cli_debugger": "debug",
    "_src.debugger.core": "debug",
    "_src.debugging": "debug primitives.callback",
    "_src.dlpack": "dlpack",
    "_src.environment_info": "environment",
    "_src.errors": "errors",
    "_src.export._export": "export api.exported",
    "_src.export.shape_poly_decision": "core.dims",
    "_src.extend": "extend",
    "_src.extend.random": "extend.random",
    "_src.ffi": "ffi",
    "_src.frozen_dict": "experimental.pallas.specs",
    "_src.image": "image",
    "_src.image.scale": "image",
    "_src.interpreters": "interpreters",
    "_src.interpreters.ad": ("interpreters.ad primitives.layout jax_compat.modules._src.ad_names"),
    "_src.interpreters.batching": "interpreters.batching",
    "_src.interpreters.mlir": "interpreters.mlir jax_compat.modules._src.mlir_names",
    "_src.interpreters.partial_eval": (
        "interpreters.partial_eval jax_compat.modules._src.program_names core.build core.public"
    ),
    "_src.interpreters.pxla": "interpreters.pxla",
    "_src.interpreters.remat": "jax_compat.modules._src.remat_names",
    "_src.interpreters.xla": "interpreters.xla",
    "_src.lax": "lax",
    "_src.lax.ann": "lax",
    "_src.lax.control_flow": "lax",
    "_src.lax.control_flow.common": "lax control.common",
    "_src.lax.control_flow.conditionals": "lax",
    "_src.lax.control_flow.loops": "lax",
    "_src.lax.control_flow.solves": "lax",
    "_src.lax.convolution": "lax",
    "_src.lax.fft": "lax primitives.fft",
    "_src.lax.lax": "lax jax_compat.modules._src.lax_names",
    "_src.lax.linalg": "lax.linalg jax_compat.modules._src.linalg_names",
    "_src.lax.other": "lax numpy primitives.convolution primitives.convolution_forms",
    "_src.lax.parallel": (
        "lax primitives.collectives primitives.collectives_exchange primitives.collectives_ragged "
        "jax_compat.modules._src.parallel_names"
    ),
    "_src.lax.scaled_dot": "lax",
    "_src.lax.slicing": "lax",
    "_src.lax.special": "lax",
    "_src.lax.utils": "jax_compat.modules._src.lax_names",
    "_src.lax.windowed_reductions": "lax jax_compat.modules._src.lax_names",
    "_src.linear_util": "extend.linear_util",
    "_src.mesh_utils": "experimental.mesh_utils",
    "_src.nn": "nn",
    "_src.nn.functions": "nn",
    "_src.nn.initializers": "nn.initializers",
    "_src.numpy": "numpy",
    "_src.numpy.array_api_metadata": "numpy.array_api_info",
    "_src.numpy.array_constructors": "numpy",
    "_src.numpy.array_creation": "numpy",
    "_src.numpy.array_methods": "runtime.array_methods numpy.scatter",
    "_src.numpy.einsum": "numpy",
    "_src.numpy.error": "jax_compat.modules._src.numpy_error",
    "_src.numpy.fft": "numpy.fft",
    "_src.numpy.hijax": "numpy",
    "_src.numpy.index_tricks": "numpy numpy.index_tricks",
    "_src.numpy.indexing": "numpy.indexing",
    "_src.numpy.lax_numpy": "numpy",
    "_src.numpy.linalg": "numpy.linalg numpy.linalg.determinants",
    "_src.numpy.polynomial": "numpy numpy.polynomial",
    "_src.numpy.reductions": "numpy jax_compat.modules._src.numpy_names",
    "_src.numpy.scalar_types": "numpy numpy.scalar_types",
    "_src.numpy.setops": "numpy numpy.sets",
    "_src.numpy.sorting": "numpy",
    "_src.numpy.tensor_contractions": "numpy",
    "_src.numpy.ufunc_api": "numpy numpy.ufunc_api",
    "_src.numpy.ufuncs": "numpy",
    "_src.numpy.util": "numpy.util jax_compat.modules._src.numpy_names",
    "_src.numpy.vectorize": "numpy jax_compat.modules._src.vectorize_names",
    "_src.numpy.window_functions": "numpy",
    "_src.ops": "ops",
    "_src.ops.scatter": "ops",
    "_src.ops.special": "nn",
    "_src.pallas": "experimental.pallas",
    "_src.pallas.core": "experimental.pallas experimental.pallas.specs experimental.pallas.mapping",
    "_src.pallas.pallas_call": "experimental.pallas experimental.pallas.call",
    "_src.pallas.primitives": "experimental.pallas",
    "_src.partition_spec": "sharding",
    "_src.pmap": "api.spmd pullback",
    "_src.profiler": "profiler",
    "_src.random.prng": "primitives.keys primitives.rng extend.random",
    "_src.random.rbg": "primitives.keys extend.random",
    "_src.random.stateful_rng": "experimental.random",
    "_src.ref": "ref",
    "_src.scipy.cluster": "scipy.cluster",
    "_src.scipy.cluster.vq": "scipy.cluster.vq",
    "_src.scipy.linalg": "scipy.linalg",
    "_src.scipy.optimize._lbfgs": "scipy.optimize",
    "_src.scipy.optimize.bfgs": "scipy.optimize",
    "_src.scipy.optimize.minimize": "scipy.optimize",
    "_src.scipy.signal": "scipy.signal",
    "_src.scipy.spatial": "scipy.spatial",
    "_src.scipy.spatial.transform": "scipy.spatial.transform",
    "_src.scipy.special": "scipy.special",
    "_src.scipy.stats": "scipy.stats",
    "_src.scipy.stats._core": "scipy.stats",
    "_src.shard_alike": "experimental.shard_alike",
    "_src.shard_map": "pullback",
    "_src.stages": "stages",
    "_src.state.indexing": "jax_compat.modules._src.indexing core.refs control.ref_places",
    "_src.third_party": "scipy",
    "_src.third_party.scipy": "scipy",
    "_src.third_party.scipy.betaln": "scipy.special",
    "_src.third_party.scipy.interpolate": "scipy.interpolate",
    "_src.third_party.scipy.linalg": "scipy.linalg",
    "_src.third_party.scipy.signal_helper": "scipy.signal",
    "_src.third_party.scipy.special": "scipy.special",
    "_src.tree": "tree",
    "_src.tpu.linalg.qdwh": "lax.polar",
    "_src.xla_metadata": "experimental.xla_metadata",
    "_src.xla_transform": "extend.xla",
    "experimental.compute_on": "jax_compat.modules._src.compute_on",
    "experimental.custom_partitioning": "jax_compat.modules._src.custom_partitioning",
    "experimental.key_reuse": "experimental.key_reuse",
    "experimental.key_reuse._core": "jax_compat.modules._src.key_reuse",
    "experimental.sparse": "experimental.sparse",
    "experimental.sparse._base": "experimental.sparse.base",
    "experimental.sparse._lowerings": "jax_compat.modules._src.sparse_lowerings",
    "experimental.sparse.test_util": "jax_compat.modules._src.sparse_test_util",
}
_COMMONS = "pullback.jax_compat.modules._src.commons"  # what private modules take from each other
_PACKAGES = {path.rpartition(".")[0] for path in _SOURCES} - {"_src"}
# Modules of Pullback that are called as JAX calls them while they stand for it: libraries of the
# array API tell by its name whose namespace they hold.
_KNOWN_BY_NAME = frozenset({"jax.numpy"})
# Who says in JAX what is traced and compiled, and which callbacks failed.
_LOGGERS = {
    "traced": "jax._src.dispatch",
    "begun": "jax._src.interpreters.pxla",
    "done": "jax._src.dispatch",
    "callback": "jax._src.callback",
}


def target_name(fullname: str) -> str | None:
    """The Pullback module that stands for a module of JAX, or None if there is none."""
    if fullname == "jax":
        return _MODULES + ".jax"
    path = fullname.split(".", 1)[1]
    curated = f"{_MODULES}.{path}"
    if path != "jax" and _exists(curated):  # that one is `jax` itself
        return curated
    if path in _SOURCES:
        several = path.startswith("_src.") or path in _PACKAGES or " " in _SOURCES[path]
        return fullname if several else _own(_SOURCES[path])
    own = f"pullback.{path}"
    if path.split(".")[0] in _OWN and _exists(own):
        return own
    if path.startswith("_src.scipy.") and _exists(own := "pullback." + path.removeprefix("_src.")):
        return own
    return None


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, AttributeError, ValueError):
        return False


def _own(name: str) -> str:
    return name if name == "pullback" else f"pullback.{name}"


def _of_private(module: str, name: str) -> Any:
    """A name of a private module: a module in it that nobody has imported yet, what one of ours
    has, or what they all know."""
    path = module.removeprefix("jax.")
    if not name.startswith("__"):
        if f"{path}.{name}" in _SOURCES:
            return importlib.import_module(f"{module}.{name}")
        for source in _sources(path):
            if hasattr(source, name):
                return getattr(source, name)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def _sources(path: str) -> list[ModuleType]:
    names = [*map(_own, _SOURCES[path].split()), _COMMONS]
    return list(map(importlib.import_module, names))


def _add_commons(module: ModuleType) -> None:
    """Has a curated module know what all private modules know, after its own names."""
    own = module.__dict__.get("__getattr__")

    def get(name: str) -> Any:
        if own is not None:
            with contextlib.suppress(AttributeError):
                return own(name)
        if not name.startswith("__") and hasattr(
            commons := importlib.import_module(_COMMONS), name
        ):
            return getattr(commons, name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__dict__.update(__getattr__=get, _knows_commons=True)


def _names_of_private(module: str) -> list[str]:
    """What `dir` says of a private module: the names of ours, not what all know."""
    return sorted({n for m in _sources(module.removeprefix("jax."))[:-1] for n in dir(m)})


class _StandIn(ModuleType):
    """A module that was handed out before it was loaded: what is read from it and written to it
    is the module's that it stands for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_stands_for"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_stands_for"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_stands_for"], name)

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_stands_for"])


class _Loader:
    """Loads a module of JAX by putting Pullback's in its place."""

    def __init__(self, target: str) -> None:
        self.target = target

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name == self.target:
            module.__getattr__ = functools.partial(_of_private, name)  # type: ignore[method-assign]
            module.__dir__ = functools.partial(_names_of_private, name)  # type: ignore[method-assign]
            return
        target = importlib.import_module(self.target)
        if self.target.startswith(_MODULES + ".") or name in _KNOWN_BY_NAME:
            target.__name__ = name
        if self.target.startswith(_MODULES + "._src.") and "_knows_commons" not in vars(target):
            _add_commons(target)
        if module.__spec__ is not None and module.__spec__.loader_state is not None:
            # `importlib.util.LazyLoader` has handed `module` out and lets none take its place.
            module.__dict__["_stands_for"] = target
            module.__class__ = _StandIn
        else:
            sys.modules[name] = target
        if name == "jax":
            class_names.as_in_jax()
            # Libraries look in sys.modules, not importing what is there with JAX.
            for own in _OWN:
                if f"pullback.{own}" in sys.modules:
                    importlib.import_module(f"jax.{own}")


class _Finder:
    """Owns `jax` and `jax.*`, and what programs see of `jaxlib`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> Any:
        if fullname == "jaxlib":
            return bindings.spec()
        if fullname != "jax" and not fullname.startswith("jax."):
            return None
        found = target_name(fullname)
        if found is None:
            raise ModuleNotFoundError(
                f"No module named {fullname!r} (Pullback stands for JAX in this process)",
                name=fullname,
            )
        spec = importlib.machinery.ModuleSpec(
            fullname,
            _Loader(found),  # type: ignore[arg-type]
            origin=f"pullback ({found})",
        )
        spec.submodule_search_locations = []
        return spec


_finder = _Finder()


def install() -> None:
    """Makes `import jax` give Pullback, in this process.

    Raises RuntimeError if real JAX has been imported already: two JAXes in one process would mix
    their arrays.
    """
    if is_installed():
        return
    real = [name for name in sys.modules if name == "jax" or name.startswith("jax.")]
    if real:
        raise RuntimeError(
            f"pullback.jax_compat.install() was called after JAX itself was imported ({real[0]}). "
            "Fix: call it before the first `import jax`, "
            "or run the program with `python -m pullback run script.py`."
        )
    sys.meta_path.insert(0, _finder)
    if "jaxlib" in sys.modules:
        bindings.adopt()
    compile_log.LOGGERS.update(_LOGGERS)


def uninstall() -> None:
    """Undoes `install`: later imports of JAX find JAX. Modules that were imported stay with who
    imported them.
    """
    if is_installed():
        sys.meta_path.remove(_finder)
        compile_log.LOGGERS.update(compile_log.OWN_LOGGERS)
    if "jaxlib" in sys.modules:
        bindings.release()
    if "jax" in sys.modules:
        class_names.as_in_pullback()
    for name in _KNOWN_BY_NAME & sys.modules.keys():
        own = "pullback" + name.removeprefix("jax")
        if sys.modules[name] is sys.modules.get(own):
            sys.modules[own].__name__ = own
    for name in [n for n in sys.modules if n == "jax" or n.startswith("jax.")]:
        del sys.modules[name]


def is_installed() -> bool:
    """Does `import jax` give Pullback in this process?"""
    return _finder in sys.meta_path
