"""What becomes of cotangents: the wishes that `VJP.with_refs` takes, and its answers."""

from .api.derivatives import DidntWant as DidntWant
from .api.derivatives import DontWant as DontWant
from .api.derivatives import GradRef as GradRef
from .api.derivatives import GradValue as GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]
