"""What becomes of cotangents: the wishes that `VJP.with_refs` takes, and its answers."""

from .api.linear import (
    DidntWant as DidntWant,
    DontWant as DontWant,
    GradRef as GradRef,
    GradValue as GradValue,
)

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]
