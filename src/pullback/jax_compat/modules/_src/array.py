"""`jax._src.array`: the class that arrays are of."""

from ....api.placement import (
    make_array_from_callback as make_array_from_callback,
    make_array_from_process_local_data as make_array_from_process_local_data,
    make_array_from_single_device_arrays as make_array_from_single_device_arrays,
)
from ....runtime.array import ArrayImpl as ArrayImpl
from ....runtime.placement import Shard as Shard
