"""`jax._src.array`: the class that arrays are of."""

from .... import make_array_from_callback as make_array_from_callback
from ....runtime.array import ArrayImpl as ArrayImpl
from ....runtime.placement import Shard as Shard
