"""The stages of ahead-of-time compilation."""

from .api.stages import ArgInfo as ArgInfo
from .api.stages import Compiled as Compiled
from .api.stages import Lowered as Lowered
from .api.stages import Traced as Traced
from .runtime.stub import JitFunction as Wrapped

CompilerOptions = dict[str, str | bool]

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
