"""The loader of last resort: LLVM's MCJIT, for object formats that loader.py does not link (macOS,
Windows, ARM).

One engine per object, so that the memory goes when its holder does. `PULLBACK_LOADER=mcjit` forces
it, for tests.
"""

from __future__ import annotations

import threading
from typing import Any

from pullback.forking import renewed
from pullback.lazy_imports import lazy_module

__all__ = ["JitCode"]

binding = lazy_module("llvmlite.binding")
_lock = renewed(threading.Lock())
_ready = False


class _Symbols:
    """Addresses by name, asked from the engine."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __getitem__(self, name: str) -> int:
        address = int(self.engine.get_function_address(name))
        if not address:
            raise KeyError(name)
        return address


class JitCode:
    """An object file in memory, with the interface of loader.Code."""

    __slots__ = ("__weakref__", "_forever", "length", "symbols")
    _kept: list[Any] = []
    quick = 0  # never put together from stencils

    def __init__(self, obj: bytes) -> None:
        global _ready
        with _lock:
            if not _ready:
                binding.initialize_native_target()
                binding.initialize_native_asmprinter()
                _ready = True
            machine = binding.Target.from_default_triple().create_target_machine(
                reloc="pic", codemodel="small", jit=True
            )
            engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
            engine.add_object_file(binding.ObjectFileRef.from_data(obj))
            engine.finalize_object()
        self.length = len(obj)
        self.symbols = _Symbols(engine)

    def keep_forever(self) -> None:
        """For code that threads of ours may still run while the interpreter shuts down."""
        self._kept.append(self.symbols.engine)
