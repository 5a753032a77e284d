"""Names that JAX's private modules take from each other: types, helpers and the names of standard
modules. Libraries import them from whichever module they have at hand.
"""

from __future__ import annotations

from collections import defaultdict as defaultdict
from collections.abc import (
    Callable as Callable,
    Generator as Generator,
    Hashable as Hashable,
    Iterable as Iterable,
    Iterator as Iterator,
    Mapping as Mapping,
    Sequence as Sequence,
)
from functools import (
    cached_property as cached_property,
    lru_cache as lru_cache,
    partial as partial,
    reduce as reduce,
    wraps as wraps,
)
from typing import (
    TYPE_CHECKING as TYPE_CHECKING,
    Any as Any,
    Generic as Generic,
    Literal as Literal,
    NamedTuple as NamedTuple,
    Optional as Optional,
    Protocol as Protocol,
    TypeAlias as TypeAlias,
    TypeVar as TypeVar,
    Union as Union,
    cast as cast,
    overload as overload,
)

from .... import custom_jvp as custom_jvp, jit as jit, vmap as vmap
from ....core.avals import ShapedArray as ShapedArray
from ....numpy.util import (
    check_arraylike as check_arraylike,
    promote_args as promote_args,
    promote_args_inexact as promote_args_inexact,
    promote_args_numeric as promote_args_numeric,
    promote_dtypes as promote_dtypes,
    promote_dtypes_complex as promote_dtypes_complex,
    promote_dtypes_inexact as promote_dtypes_inexact,
    promote_dtypes_numeric as promote_dtypes_numeric,
    promote_shapes as promote_shapes,
)
from ....sharding import (
    Mesh as Mesh,
    NamedSharding as NamedSharding,
    PartitionSpec as PartitionSpec,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
)
from ....tree_util import (
    PyTreeDef as PyTreeDef,
    keystr as keystr,
    register_pytree_node as register_pytree_node,
    register_pytree_node_class as register_pytree_node_class,
    tree_all as tree_all,
    tree_flatten as tree_flatten,
    tree_leaves as tree_leaves,
    tree_map as tree_map,
    tree_reduce as tree_reduce,
    tree_structure as tree_structure,
    tree_unflatten as tree_unflatten,
    treedef_tuple as treedef_tuple,
)
from .numpy_names import (
    check_no_float0s as check_no_float0s,
    ensure_arraylike as ensure_arraylike,
    ensure_arraylike_tuple as ensure_arraylike_tuple,
    promote_args_complex as promote_args_complex,
)
from .typing import (
    AnyInt as AnyInt,
    Array as Array,
    ArrayLike as ArrayLike,
    DimSize as DimSize,
    DType as DType,
    DTypeLike as DTypeLike,
    DuckTypedArray as DuckTypedArray,
    ExtendedDType as ExtendedDType,
    Index as Index,
    Shape as Shape,
    StaticScalar as StaticScalar,
    SupportsDType as SupportsDType,
    SupportsNdim as SupportsNdim,
    SupportsShape as SupportsShape,
    SupportsSize as SupportsSize,
)
from .util import (
    cache as cache,
    canonicalize_axis as canonicalize_axis,
    canonicalize_axis_tuple as canonicalize_axis_tuple,
    ceil_of_ratio as ceil_of_ratio,
    foreach as foreach,
    merge_lists as merge_lists,
    partition_list as partition_list,
    safe_map as safe_map,
    safe_zip as safe_zip,
    set_module as set_module,
    split_list as split_list,
    subs_list as subs_list,
    tuple_delete as tuple_delete,
    tuple_insert as tuple_insert,
    tuple_update as tuple_update,
    unzip2 as unzip2,
    unzip3 as unzip3,
    weakref_lru_cache as weakref_lru_cache,
)

P = PartitionSpec
Axis = int | Sequence[int] | None
AxisName = Hashable
MeshAxisName = Any
DTypeLikeFloat = DTypeLikeInt = DTypeLikeUInt = DTypeLikeInexact = DTypeLikeComplex = DTypeLike
IntegerArray = RealArray = ArrayLike
RealNumeric = OutShardingType = Any
unsafe_map, unsafe_zip = map, zip
