"""`jax._src.custom_partitioning`: functions that say how they are divided over devices."""

from ....control.partitioned import custom_partitioning_p as custom_partitioning_p
from ....experimental.custom_partitioning import (
    BATCHING as BATCHING,
    ArrayMapping as ArrayMapping,
    CompoundFactor as CompoundFactor,
    SdyShardingRule as SdyShardingRule,
    custom_partitioning as custom_partitioning,
)
