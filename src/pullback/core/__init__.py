"""Programs, not operations: abstract values, primitives, traces, and the jaxpr grammar."""

from . import show as show
