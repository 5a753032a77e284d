"""`pullback.numpy`: NumPy's functions on arrays, under JAX's names and with JAX's semantics."""

# Longer than other files: one line for each of the names of NumPy.

from __future__ import annotations

import builtins as _builtins
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import numpy as _np
from numpy import iterable as iterable

from ..api.eager import eager as _eager
from ..api.eager import install as _install
from ..api.eager import made_eager as _made_eager
from ..config import LateNames as _LateNames
from ..runtime.array import Array as ndarray  # noqa: F401 (exported)
from . import array_methods as _array_methods  # noqa: F401 (it gives arrays their methods)
from .array_api_info import (
    ArrayNamespaceInfo as __array_namespace_info__,  # noqa: F401
)
from .creation import is_settled as _is_settled
from .einsum import (
    einsum as einsum,
)
from .einsum import (
    einsum_path as einsum_path,
)
from .index_functions import (
    select as select,
)
from .vectorize import (
    apply_along_axis as apply_along_axis,
)
from .vectorize import (
    apply_over_axes as apply_over_axes,
)
from .vectorize import (
    vectorize as vectorize,
)

array_repr, array_str, save, savez = _np.array_repr, _np.array_str, _np.save, _np.savez
printoptions, get_printoptions = _np.printoptions, _np.get_printoptions


def set_printoptions(*args: _Any, **kwargs: _Any) -> None:
    """How arrays are printed: `numpy.set_printoptions`, which NumPy's arrays follow too.

    Arguments as NumPy's: `precision`, `threshold`, `linewidth`, `suppress` and so on.

    >>> with jnp.printoptions(precision=2):
    ...     print(jnp.array([1.23456]))
    [1.23]
    >>> jnp.set_printoptions(precision=8)
    """
    _np.set_printoptions(*args, **kwargs)


__array_api_version__ = "2024.12"

e, euler_gamma, inf, nan, pi, newaxis = _np.e, _np.euler_gamma, _np.inf, _np.nan, _np.pi, None

if _TYPE_CHECKING:
    from . import fft as fft
    from . import linalg as linalg
    from .creation import array as array
    from .creation import asarray as asarray
    from .creation import astype as astype
    from .creation import copy as copy
    from .creation import empty as empty
    from .creation import empty_like as empty_like
    from .creation import from_dlpack as from_dlpack
    from .creation import frombuffer as frombuffer
    from .creation import fromfile as fromfile
    from .creation import fromiter as fromiter
    from .creation import fromstring as fromstring
    from .creation import full as full
    from .creation import full_like as full_like
    from .creation import isscalar as isscalar
    from .creation import load as load
    from .creation import ones as ones
    from .creation import ones_like as ones_like
    from .creation import zeros as zeros
    from .creation import zeros_like as zeros_like
    from .cumulative import cumprod as cumprod
    from .cumulative import cumsum as cumsum
    from .cumulative import cumulative_prod as cumulative_prod
    from .cumulative import cumulative_sum as cumulative_sum
    from .cumulative import nancumprod as nancumprod
    from .cumulative import nancumsum as nancumsum
    from .histograms import bincount as bincount
    from .histograms import histogram as histogram
    from .histograms import histogram2d as histogram2d
    from .histograms import histogram_bin_edges as histogram_bin_edges
    from .histograms import histogramdd as histogramdd
    from .index_functions import argwhere as argwhere
    from .index_functions import c_ as c_
    from .index_functions import choose as choose
    from .index_functions import compress as compress
    from .index_functions import diag_indices as diag_indices
    from .index_functions import diag_indices_from as diag_indices_from
    from .index_functions import extract as extract
    from .index_functions import fill_diagonal as fill_diagonal
    from .index_functions import flatnonzero as flatnonzero
    from .index_functions import index_exp as index_exp
    from .index_functions import ix_ as ix_
    from .index_functions import mask_indices as mask_indices
    from .index_functions import nonzero as nonzero
    from .index_functions import piecewise as piecewise
    from .index_functions import place as place
    from .index_functions import put as put
    from .index_functions import put_along_axis as put_along_axis
    from .index_functions import r_ as r_
    from .index_functions import ravel_multi_index as ravel_multi_index
    from .index_functions import s_ as s_
    from .index_functions import take as take
    from .index_functions import take_along_axis as take_along_axis
    from .index_functions import tril_indices as tril_indices
    from .index_functions import tril_indices_from as tril_indices_from
    from .index_functions import triu_indices as triu_indices
    from .index_functions import triu_indices_from as triu_indices_from
    from .index_functions import where as where
    from .joining import append as append
    from .joining import array_split as array_split
    from .joining import block as block
    from .joining import column_stack as column_stack
    from .joining import concat as concat
    from .joining import concatenate as concatenate
    from .joining import delete as delete
    from .joining import dsplit as dsplit
    from .joining import dstack as dstack
    from .joining import hsplit as hsplit
    from .joining import hstack as hstack
    from .joining import insert as insert
    from .joining import split as split
    from .joining import stack as stack
    from .joining import trim_zeros as trim_zeros
    from .joining import unstack as unstack
    from .joining import vsplit as vsplit
    from .joining import vstack as vstack
    from .manipulation import atleast_1d as atleast_1d
    from .manipulation import atleast_2d as atleast_2d
    from .manipulation import atleast_3d as atleast_3d
    from .manipulation import broadcast_arrays as broadcast_arrays
    from .manipulation import broadcast_shapes as broadcast_shapes
    from .manipulation import broadcast_to as broadcast_to
    from .manipulation import expand_dims as expand_dims
    from .manipulation import flip as flip
    from .manipulation import fliplr as fliplr
    from .manipulation import flipud as flipud
    from .manipulation import iscomplexobj as iscomplexobj
    from .manipulation import isrealobj as isrealobj
    from .manipulation import matrix_transpose as matrix_transpose
    from .manipulation import moveaxis as moveaxis
    from .manipulation import ndim as ndim
    from .manipulation import permute_dims as permute_dims
    from .manipulation import ravel as ravel
    from .manipulation import repeat as repeat
    from .manipulation import reshape as reshape
    from .manipulation import resize as resize
    from .manipulation import roll as roll
    from .manipulation import rollaxis as rollaxis
    from .manipulation import rot90 as rot90
    from .manipulation import shape as shape
    from .manipulation import size as size
    from .manipulation import squeeze as squeeze
    from .manipulation import swapaxes as swapaxes
    from .manipulation import tile as tile
    from .manipulation import transpose as transpose
    from .manipulation import unravel_index as unravel_index
    from .nan_reductions import nanargmax as nanargmax
    from .nan_reductions import nanargmin as nanargmin
    from .nan_reductions import nanmax as nanmax
    from .nan_reductions import nanmean as nanmean
    from .nan_reductions import nanmin as nanmin
    from .nan_reductions import nanprod as nanprod
    from .nan_reductions import nanstd as nanstd
    from .nan_reductions import nansum as nansum
    from .nan_reductions import nanvar as nanvar
    from .padding import pad as pad
    from .polynomial import bartlett as bartlett
    from .polynomial import blackman as blackman
    from .polynomial import hamming as hamming
    from .polynomial import hanning as hanning
    from .polynomial import kaiser as kaiser
    from .polynomial import poly as poly
    from .polynomial import polyadd as polyadd
    from .polynomial import polyder as polyder
    from .polynomial import polydiv as polydiv
    from .polynomial import polyfit as polyfit
    from .polynomial import polyint as polyint
    from .polynomial import polymul as polymul
    from .polynomial import polysub as polysub
    from .polynomial import polyval as polyval
    from .polynomial import roots as roots
    from .products import cross as cross
    from .products import diag as diag
    from .products import diagflat as diagflat
    from .products import diagonal as diagonal
    from .products import dot as dot
    from .products import inner as inner
    from .products import kron as kron
    from .products import matmul as matmul
    from .products import matvec as matvec
    from .products import outer as outer
    from .products import tensordot as tensordot
    from .products import trace as trace
    from .products import vdot as vdot
    from .products import vecdot as vecdot
    from .products import vecmat as vecmat
    from .quantiles import median as median
    from .quantiles import nanmedian as nanmedian
    from .quantiles import nanpercentile as nanpercentile
    from .quantiles import nanquantile as nanquantile
    from .quantiles import percentile as percentile
    from .quantiles import quantile as quantile
    from .ranges import arange as arange
    from .ranges import eye as eye
    from .ranges import fromfunction as fromfunction
    from .ranges import geomspace as geomspace
    from .ranges import identity as identity
    from .ranges import indices as indices
    from .ranges import linspace as linspace
    from .ranges import logspace as logspace
    from .ranges import meshgrid as meshgrid
    from .ranges import mgrid as mgrid
    from .ranges import ogrid as ogrid
    from .ranges import tri as tri
    from .ranges import tril as tril
    from .ranges import triu as triu
    from .ranges import vander as vander
    from .reductions import all as all
    from .reductions import amax as amax
    from .reductions import amin as amin
    from .reductions import any as any
    from .reductions import argmax as argmax
    from .reductions import argmin as argmin
    from .reductions import average as average
    from .reductions import count_nonzero as count_nonzero
    from .reductions import max as max
    from .reductions import mean as mean
    from .reductions import min as min
    from .reductions import prod as prod
    from .reductions import ptp as ptp
    from .reductions import std as std
    from .reductions import sum as sum
    from .reductions import var as var
    from .scalar_types import ComplexWarning as ComplexWarning
    from .scalar_types import bfloat16 as bfloat16
    from .scalar_types import bool_ as bool  # noqa: F401
    from .scalar_types import bool_ as bool_
    from .scalar_types import can_cast as can_cast
    from .scalar_types import cdouble as cdouble
    from .scalar_types import character as character
    from .scalar_types import complex64 as complex64
    from .scalar_types import complex128 as complex128
    from .scalar_types import complex_ as complex_
    from .scalar_types import complexfloating as complexfloating
    from .scalar_types import csingle as csingle
    from .scalar_types import double as double
    from .scalar_types import dtype as dtype
    from .scalar_types import finfo as finfo
    from .scalar_types import flexible as flexible
    from .scalar_types import float4_e2m1fn as float4_e2m1fn
    from .scalar_types import float8_e3m4 as float8_e3m4
    from .scalar_types import float8_e4m3 as float8_e4m3
    from .scalar_types import float8_e4m3b11fnuz as float8_e4m3b11fnuz
    from .scalar_types import float8_e4m3fn as float8_e4m3fn
    from .scalar_types import float8_e4m3fnuz as float8_e4m3fnuz
    from .scalar_types import float8_e5m2 as float8_e5m2
    from .scalar_types import float8_e5m2fnuz as float8_e5m2fnuz
    from .scalar_types import float8_e8m0fnu as float8_e8m0fnu
    from .scalar_types import float16 as float16
    from .scalar_types import float32 as float32
    from .scalar_types import float64 as float64
    from .scalar_types import float_ as float_
    from .scalar_types import floating as floating
    from .scalar_types import generic as generic
    from .scalar_types import iinfo as iinfo
    from .scalar_types import inexact as inexact
    from .scalar_types import int2 as int2
    from .scalar_types import int4 as int4
    from .scalar_types import int8 as int8
    from .scalar_types import int16 as int16
    from .scalar_types import int32 as int32
    from .scalar_types import int64 as int64
    from .scalar_types import int_ as int_
    from .scalar_types import integer as integer
    from .scalar_types import isdtype as isdtype
    from .scalar_types import issubdtype as issubdtype
    from .scalar_types import number as number
    from .scalar_types import object_ as object_
    from .scalar_types import promote_types as promote_types
    from .scalar_types import result_type as result_type
    from .scalar_types import signedinteger as signedinteger
    from .scalar_types import single as single
    from .scalar_types import uint as uint
    from .scalar_types import uint2 as uint2
    from .scalar_types import uint4 as uint4
    from .scalar_types import uint8 as uint8
    from .scalar_types import uint16 as uint16
    from .scalar_types import uint32 as uint32
    from .scalar_types import uint64 as uint64
    from .scalar_types import unsignedinteger as unsignedinteger
    from .sets import intersect1d as intersect1d
    from .sets import isin as isin
    from .sets import setdiff1d as setdiff1d
    from .sets import setxor1d as setxor1d
    from .sets import union1d as union1d
    from .sets import unique as unique
    from .sets import unique_all as unique_all
    from .sets import unique_counts as unique_counts
    from .sets import unique_inverse as unique_inverse
    from .sets import unique_values as unique_values
    from .signals import convolve as convolve
    from .signals import corrcoef as corrcoef
    from .signals import correlate as correlate
    from .signals import cov as cov
    from .signals import diff as diff
    from .signals import ediff1d as ediff1d
    from .signals import gradient as gradient
    from .signals import interp as interp
    from .signals import packbits as packbits
    from .signals import trapezoid as trapezoid
    from .signals import unpackbits as unpackbits
    from .signals import unwrap_phase as unwrap  # noqa: F401
    from .sorting import argpartition as argpartition
    from .sorting import argsort as argsort
    from .sorting import digitize as digitize
    from .sorting import lexsort as lexsort
    from .sorting import partition as partition
    from .sorting import searchsorted as searchsorted
    from .sorting import sort as sort
    from .sorting import sort_complex as sort_complex
    from .ufunc_api import frompyfunc as frompyfunc
    from .ufunc_api import ufunc as ufunc
    from .ufuncs import abs as abs
    from .ufuncs import absolute as absolute
    from .ufuncs import acos as acos
    from .ufuncs import acosh as acosh
    from .ufuncs import add as add
    from .ufuncs import angle as angle
    from .ufuncs import arccos as arccos
    from .ufuncs import arccosh as arccosh
    from .ufuncs import arcsin as arcsin
    from .ufuncs import arcsinh as arcsinh
    from .ufuncs import arctan as arctan
    from .ufuncs import arctan2 as arctan2
    from .ufuncs import arctanh as arctanh
    from .ufuncs import around as around
    from .ufuncs import asin as asin
    from .ufuncs import asinh as asinh
    from .ufuncs import atan as atan
    from .ufuncs import atan2 as atan2
    from .ufuncs import atanh as atanh
    from .ufuncs import bitwise_and as bitwise_and
    from .ufuncs import bitwise_count as bitwise_count
    from .ufuncs import bitwise_invert as bitwise_invert
    from .ufuncs import bitwise_left_shift as bitwise_left_shift
    from .ufuncs import bitwise_not as bitwise_not
    from .ufuncs import bitwise_or as bitwise_or
    from .ufuncs import bitwise_right_shift as bitwise_right_shift
    from .ufuncs import bitwise_xor as bitwise_xor
    from .ufuncs import cbrt as cbrt
    from .ufuncs import ceil as ceil
    from .ufuncs import conj as conj
    from .ufuncs import conjugate as conjugate
    from .ufuncs import cos as cos
    from .ufuncs import cosh as cosh
    from .ufuncs import deg2rad as deg2rad
    from .ufuncs import degrees as degrees
    from .ufuncs import divide as divide
    from .ufuncs import divmod as divmod
    from .ufuncs import equal as equal
    from .ufuncs import exp as exp
    from .ufuncs import exp2 as exp2
    from .ufuncs import expm1 as expm1
    from .ufuncs import fabs as fabs
    from .ufuncs import float_power as float_power
    from .ufuncs import floor as floor
    from .ufuncs import floor_divide as floor_divide
    from .ufuncs import fmod as fmod
    from .ufuncs import greater as greater
    from .ufuncs import greater_equal as greater_equal
    from .ufuncs import imag as imag
    from .ufuncs import invert as invert
    from .ufuncs import iscomplex as iscomplex
    from .ufuncs import isfinite as isfinite
    from .ufuncs import isinf as isinf
    from .ufuncs import isnan as isnan
    from .ufuncs import isneginf as isneginf
    from .ufuncs import isposinf as isposinf
    from .ufuncs import isreal as isreal
    from .ufuncs import left_shift as left_shift
    from .ufuncs import less as less
    from .ufuncs import less_equal as less_equal
    from .ufuncs import log as log
    from .ufuncs import log1p as log1p
    from .ufuncs import log2 as log2
    from .ufuncs import log10 as log10
    from .ufuncs import logaddexp as logaddexp
    from .ufuncs import logaddexp2 as logaddexp2
    from .ufuncs import logical_and as logical_and
    from .ufuncs import logical_not as logical_not
    from .ufuncs import logical_or as logical_or
    from .ufuncs import logical_xor as logical_xor
    from .ufuncs import maximum as maximum
    from .ufuncs import minimum as minimum
    from .ufuncs import mod as mod
    from .ufuncs import multiply as multiply
    from .ufuncs import negative as negative
    from .ufuncs import nextafter as nextafter
    from .ufuncs import not_equal as not_equal
    from .ufuncs import positive as positive
    from .ufuncs import pow as pow
    from .ufuncs import power as power
    from .ufuncs import rad2deg as rad2deg
    from .ufuncs import radians as radians
    from .ufuncs import real as real
    from .ufuncs import reciprocal as reciprocal
    from .ufuncs import remainder as remainder
    from .ufuncs import right_shift as right_shift
    from .ufuncs import rint as rint
    from .ufuncs import round as round
    from .ufuncs import sign as sign
    from .ufuncs import sin as sin
    from .ufuncs import sinh as sinh
    from .ufuncs import sqrt as sqrt
    from .ufuncs import square as square
    from .ufuncs import subtract as subtract
    from .ufuncs import tan as tan
    from .ufuncs import tanh as tanh
    from .ufuncs import true_divide as true_divide
    from .ufuncs import trunc as trunc
    from .ufuncs_more import allclose as allclose
    from .ufuncs_more import array_equal as array_equal
    from .ufuncs_more import array_equiv as array_equiv
    from .ufuncs_more import clip as clip
    from .ufuncs_more import copysign as copysign
    from .ufuncs_more import fmax as fmax
    from .ufuncs_more import fmin as fmin
    from .ufuncs_more import frexp as frexp
    from .ufuncs_more import gcd as gcd
    from .ufuncs_more import heaviside as heaviside
    from .ufuncs_more import hypot as hypot
    from .ufuncs_more import i0 as i0
    from .ufuncs_more import isclose as isclose
    from .ufuncs_more import lcm as lcm
    from .ufuncs_more import ldexp as ldexp
    from .ufuncs_more import modf as modf
    from .ufuncs_more import nan_to_num as nan_to_num
    from .ufuncs_more import signbit as signbit
    from .ufuncs_more import sinc as sinc
    from .ufuncs_more import spacing as spacing


def _made(name: str, value: _Any) -> _Any:
    """What a public name is: the eager form of a function of arrays."""
    if name in ("array", "asarray"):
        return _eager(value, accepts=_is_settled)
    return _made_eager(name, value)


# The same names for programs: these modules are imported when one of their names is asked for.
_late = _LateNames(
    __name__,
    {
        "creation": (
            "array asarray astype copy empty empty_like from_dlpack frombuffer fromfile fromiter "
            "fromstring full full_like isscalar load ones ones_like zeros zeros_like"
        ),
        "cumulative": "cumprod cumsum cumulative_prod cumulative_sum nancumprod nancumsum",
        "fft": "fft",
        "histograms": "bincount histogram histogram2d histogram_bin_edges histogramdd",
        "index_functions": (
            "argwhere c_ choose compress diag_indices diag_indices_from extract fill_diagonal "
            "flatnonzero index_exp ix_ mask_indices nonzero piecewise place put put_along_axis r_ "
            "ravel_multi_index s_ take take_along_axis tril_indices tril_indices_from "
            "triu_indices triu_indices_from where"
        ),
        "joining": (
            "append array_split block column_stack concat concatenate delete dsplit dstack hsplit "
            "hstack insert split stack trim_zeros unstack vsplit vstack"
        ),
        "linalg": "linalg",
        "manipulation": (
            "atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_shapes broadcast_to "
            "expand_dims flip fliplr flipud iscomplexobj isrealobj matrix_transpose moveaxis ndim "
            "permute_dims ravel repeat reshape resize roll rollaxis rot90 shape size squeeze "
            "swapaxes tile transpose unravel_index"
        ),
        "nan_reductions": (
            "nanargmax nanargmin nanmax nanmean nanmin nanprod nanstd nansum nanvar"
        ),
        "padding": "pad",
        "polynomial": (
            "bartlett blackman hamming hanning kaiser poly polyadd polyder polydiv polyfit "
            "polyint polymul polysub polyval roots"
        ),
        "products": (
            "cross diag diagflat diagonal dot inner kron matmul matvec outer tensordot trace vdot "
            "vecdot vecmat"
        ),
        "quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
        "ranges": (
            "arange eye fromfunction geomspace identity indices linspace logspace meshgrid mgrid "
            "ogrid tri tril triu vander"
        ),
        "reductions": (
            "all amax amin any argmax argmin average count_nonzero max mean min prod ptp std sum "
            "var"
        ),
        "scalar_types": (
            "ComplexWarning bfloat16 bool=bool_ bool_ can_cast cdouble character complex128 "
            "complex64 complex_ complexfloating csingle double dtype finfo flexible float16 "
            "float32 float4_e2m1fn float64 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz "
            "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float_ "
            "floating generic iinfo inexact int16 int2 int32 int4 int64 int8 int_ integer isdtype "
            "issubdtype number object_ promote_types result_type signedinteger single uint uint16 "
            "uint2 uint32 uint4 uint64 uint8 unsignedinteger"
        ),
        "sets": (
            "intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts "
            "unique_inverse unique_values"
        ),
        "signals": (
            "convolve corrcoef correlate cov diff ediff1d gradient interp packbits trapezoid "
            "unpackbits unwrap=unwrap_phase"
        ),
        "sorting": (
            "argpartition argsort digitize lexsort partition searchsorted sort sort_complex"
        ),
        "ufunc_api": "frompyfunc ufunc",
        "ufuncs": (
            "abs absolute acos acosh add angle arccos arccosh arcsin arcsinh arctan arctan2 "
            "arctanh around asin asinh atan atan2 atanh bitwise_and bitwise_count bitwise_invert "
            "bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor cbrt ceil "
            "conj conjugate cos cosh deg2rad degrees divide divmod equal exp exp2 expm1 fabs "
            "float_power floor floor_divide fmod greater greater_equal imag invert iscomplex "
            "isfinite isinf isnan isneginf isposinf isreal left_shift less less_equal log log10 "
            "log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor "
            "maximum minimum mod multiply negative nextafter not_equal positive pow power rad2deg "
            "radians real reciprocal remainder right_shift rint round sign sin sinh sqrt square "
            "subtract tan tanh true_divide trunc"
        ),
        "ufuncs_more": (
            "allclose array_equal array_equiv clip copysign fmax fmin frexp gcd heaviside hypot "
            "i0 isclose lcm ldexp modf nan_to_num signbit sinc spacing"
        ),
    },
    _made,
)


def __getattr__(name: str) -> _Any:
    if name == "fix":
        raise AttributeError(
            "jax.numpy.fix was deprecated in JAX v0.9.0, and will be removed in JAX v0.10.0. Use "
            "jax.numpy.trunc instead."
        )
    return _late(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_late.where})


__all__ = [
    _n
    for _n in _builtins.dir()
    if not _n.startswith("_")
    and _n
    not in (
        "annotations",
        "iterable",
        *(
            "array_api_info array_methods creation cumulative einsum_ histograms index_functions "
            "indexing joining manipulation nan_reductions operators "
            "padding polynomial products quantiles ranges reductions scalar_types scatter select_ "
            "sets "
            "signals sorting ufunc_api ufuncs "
            "ufuncs_more util vectorize_"
        ).split(),
    )
]

_install(globals(), __all__)
__all__.extend(_late.where)
