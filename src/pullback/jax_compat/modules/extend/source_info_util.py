"""`jax.extend.source_info_util`."""

from ....core.source import SourceInfo as SourceInfo
from ....core.source import current as current
from ....core.source import extend_name_stack as extend_name_stack
from ....core.source import register_exclusion as register_exclusion
