"""`jax._src.array`: the class that arrays are of."""

from ....runtime.array import ArrayImpl as ArrayImpl
