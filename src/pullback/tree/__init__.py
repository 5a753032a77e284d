"""Functions on pytrees: nested containers whose leaves are arrays or other values.

Nodes are None (no leaves), tuples, lists, dicts (in key order), named tuples, OrderedDicts,
defaultdicts, and registered classes (`pullback.tree_util`); everything else is a leaf.
"""

from pullback.tree.keys import keystr as keystr
from pullback.tree.operations import (
    tree_all as all,
)
from pullback.tree.operations import (
    tree_broadcast as broadcast,
)
from pullback.tree.operations import (
    tree_flatten as flatten,
)
from pullback.tree.operations import (
    tree_flatten_with_path as flatten_with_path,
)
from pullback.tree.operations import (
    tree_leaves as leaves,
)
from pullback.tree.operations import (
    tree_leaves_with_path as leaves_with_path,
)
from pullback.tree.operations import (
    tree_map as map,
)
from pullback.tree.operations import tree_map as tree_map
from pullback.tree.operations import (
    tree_map_with_path as map_with_path,
)
from pullback.tree.operations import (
    tree_reduce as reduce,
)
from pullback.tree.operations import (
    tree_reduce_associative as reduce_associative,
)
from pullback.tree.operations import (
    tree_structure as structure,
)
from pullback.tree.operations import (
    tree_transpose as transpose,
)
from pullback.tree.operations import (
    tree_unflatten as unflatten,
)
from pullback.tree.operations import treedef_children as treedef_children
from pullback.tree.operations import treedef_is_leaf as treedef_is_leaf
from pullback.tree.operations import treedef_tuple as treedef_tuple
from pullback.tree.prefix import broadcast_prefix as broadcast_prefix
from pullback.tree.prefix import equality_errors as equality_errors
from pullback.tree.prefix import flatten_axes as flatten_axes
from pullback.tree.registration import Partial as Partial
from pullback.tree.registration import register_pytree_node as register_pytree_node
from pullback.tree.registration import static as static

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
