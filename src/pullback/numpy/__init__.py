"""`pullback.numpy`: NumPy's functions on arrays, under JAX's names and with JAX's semantics."""

# Longer than other files: one line for each of the names of NumPy.

from __future__ import annotations

import builtins as _builtins
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

import numpy as _np
from numpy import iterable as iterable

from ..api.eager import eager as _eager, install as _install, made_eager as _made_eager
from ..api.kinds import make_public as _make_public
from ..lazy_imports import LateNames as _LateNames
from ..runtime.array import Array as ndarray  # noqa: F401 (exported)
from . import array_methods as _array_methods  # noqa: F401 (it gives arrays their methods)
from .creation import is_settled as _is_settled

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
    from . import fft as fft, linalg as linalg
    from .arithmetic import (
        abs as abs,
        absolute as absolute,
        divide as divide,
        divmod as divmod,
        float_power as float_power,
        floor_divide as floor_divide,
        fmod as fmod,
        mod as mod,
        nextafter as nextafter,
        positive as positive,
        pow as pow,
        power as power,
        remainder as remainder,
        sign as sign,
        square as square,
        true_divide as true_divide,
    )
    from .array_api_info import (
        ArrayNamespaceInfo as __array_namespace_info__,  # noqa: F401
    )
    from .averages import average as average, mean as mean, std as std, var as var
    from .choosing import choose as choose, piecewise as piecewise, select as select, where as where
    from .comparison import (
        equal as equal,
        greater as greater,
        greater_equal as greater_equal,
        isfinite as isfinite,
        isinf as isinf,
        isnan as isnan,
        isneginf as isneginf,
        isposinf as isposinf,
        less as less,
        less_equal as less_equal,
        not_equal as not_equal,
    )
    from .complex_parts import (
        angle as angle,
        conj as conj,
        conjugate as conjugate,
        imag as imag,
        iscomplex as iscomplex,
        isreal as isreal,
        real as real,
    )
    from .creation import (
        array as array,
        asarray as asarray,
        astype as astype,
        copy as copy,
        empty as empty,
        empty_like as empty_like,
        from_dlpack as from_dlpack,
        frombuffer as frombuffer,
        fromfile as fromfile,
        fromiter as fromiter,
        fromstring as fromstring,
        full as full,
        full_like as full_like,
        isscalar as isscalar,
        load as load,
        ones as ones,
        ones_like as ones_like,
        zeros as zeros,
        zeros_like as zeros_like,
    )
    from .cumulative import (
        cumprod as cumprod,
        cumsum as cumsum,
        cumulative_prod as cumulative_prod,
        cumulative_sum as cumulative_sum,
        nancumprod as nancumprod,
        nancumsum as nancumsum,
    )
    from .einsums import (
        einsum as einsum,
        einsum_path as einsum_path,
    )
    from .elementary import (
        acos as acos,
        acosh as acosh,
        arccos as arccos,
        arccosh as arccosh,
        arcsin as arcsin,
        arcsinh as arcsinh,
        arctan as arctan,
        arctan2 as arctan2,
        arctanh as arctanh,
        asin as asin,
        asinh as asinh,
        atan as atan,
        atan2 as atan2,
        atanh as atanh,
        cbrt as cbrt,
        cos as cos,
        cosh as cosh,
        deg2rad as deg2rad,
        degrees as degrees,
        exp as exp,
        exp2 as exp2,
        expm1 as expm1,
        fabs as fabs,
        log as log,
        log1p as log1p,
        log2 as log2,
        log10 as log10,
        rad2deg as rad2deg,
        radians as radians,
        reciprocal as reciprocal,
        sin as sin,
        sinh as sinh,
        sqrt as sqrt,
        tan as tan,
        tanh as tanh,
    )
    from .histograms import (
        bincount as bincount,
        histogram as histogram,
        histogram2d as histogram2d,
        histogram_bin_edges as histogram_bin_edges,
        histogramdd as histogramdd,
    )
    from .index_sets import (
        diag_indices as diag_indices,
        diag_indices_from as diag_indices_from,
        ix_ as ix_,
        mask_indices as mask_indices,
        ravel_multi_index as ravel_multi_index,
        tril_indices as tril_indices,
        tril_indices_from as tril_indices_from,
        triu_indices as triu_indices,
        triu_indices_from as triu_indices_from,
        unravel_index as unravel_index,
    )
    from .index_tricks import c_ as c_, index_exp as index_exp, r_ as r_, s_ as s_
    from .joining import (
        append as append,
        array_split as array_split,
        block as block,
        column_stack as column_stack,
        concat as concat,
        concatenate as concatenate,
        delete as delete,
        dsplit as dsplit,
        dstack as dstack,
        hsplit as hsplit,
        hstack as hstack,
        insert as insert,
        split as split,
        stack as stack,
        trim_zeros as trim_zeros,
        unstack as unstack,
        vsplit as vsplit,
        vstack as vstack,
    )
    from .logic import (
        bitwise_count as bitwise_count,
        bitwise_invert as bitwise_invert,
        bitwise_left_shift as bitwise_left_shift,
        bitwise_not as bitwise_not,
        bitwise_right_shift as bitwise_right_shift,
        invert as invert,
        left_shift as left_shift,
        logical_not as logical_not,
        right_shift as right_shift,
    )
    from .manipulation import (
        atleast_1d as atleast_1d,
        atleast_2d as atleast_2d,
        atleast_3d as atleast_3d,
        broadcast_arrays as broadcast_arrays,
        broadcast_shapes as broadcast_shapes,
        broadcast_to as broadcast_to,
        expand_dims as expand_dims,
        flip as flip,
        fliplr as fliplr,
        flipud as flipud,
        iscomplexobj as iscomplexobj,
        isrealobj as isrealobj,
        matrix_transpose as matrix_transpose,
        moveaxis as moveaxis,
        ndim as ndim,
        permute_dims as permute_dims,
        ravel as ravel,
        repeat as repeat,
        reshape as reshape,
        resize as resize,
        roll as roll,
        rollaxis as rollaxis,
        rot90 as rot90,
        shape as shape,
        size as size,
        squeeze as squeeze,
        swapaxes as swapaxes,
        tile as tile,
        transpose as transpose,
    )
    from .nan_reductions import (
        nanargmax as nanargmax,
        nanargmin as nanargmin,
        nanmax as nanmax,
        nanmean as nanmean,
        nanmin as nanmin,
        nanprod as nanprod,
        nanstd as nanstd,
        nansum as nansum,
        nanvar as nanvar,
    )
    from .nonzeros import argwhere as argwhere, flatnonzero as flatnonzero, nonzero as nonzero
    from .padding import pad as pad
    from .polynomial import (
        bartlett as bartlett,
        blackman as blackman,
        hamming as hamming,
        hanning as hanning,
        kaiser as kaiser,
        poly as poly,
        polyadd as polyadd,
        polyder as polyder,
        polydiv as polydiv,
        polyfit as polyfit,
        polyint as polyint,
        polymul as polymul,
        polysub as polysub,
        polyval as polyval,
        roots as roots,
    )
    from .products import (
        cross as cross,
        diag as diag,
        diagflat as diagflat,
        diagonal as diagonal,
        dot as dot,
        inner as inner,
        kron as kron,
        matmul as matmul,
        matvec as matvec,
        outer as outer,
        tensordot as tensordot,
        trace as trace,
        vdot as vdot,
        vecdot as vecdot,
        vecmat as vecmat,
    )
    from .putting import (
        fill_diagonal as fill_diagonal,
        place as place,
        put as put,
        put_along_axis as put_along_axis,
    )
    from .quantiles import (
        median as median,
        nanmedian as nanmedian,
        nanpercentile as nanpercentile,
        nanquantile as nanquantile,
        percentile as percentile,
        quantile as quantile,
    )
    from .ranges import (
        arange as arange,
        eye as eye,
        fromfunction as fromfunction,
        geomspace as geomspace,
        identity as identity,
        indices as indices,
        linspace as linspace,
        logspace as logspace,
        meshgrid as meshgrid,
        mgrid as mgrid,
        ogrid as ogrid,
        tri as tri,
        tril as tril,
        triu as triu,
        vander as vander,
    )
    from .reductions import (
        all as all,
        amax as amax,
        amin as amin,
        any as any,
        argmax as argmax,
        argmin as argmin,
        count_nonzero as count_nonzero,
        max as max,
        min as min,
        prod as prod,
        ptp as ptp,
        sum as sum,
    )
    from .rounding import (
        around as around,
        ceil as ceil,
        floor as floor,
        rint as rint,
        round as round,
        trunc as trunc,
    )
    from .scalar_types import (
        ComplexWarning as ComplexWarning,
        bfloat16 as bfloat16,
        bool_ as bool,  # noqa: F401
        bool_ as bool_,
        can_cast as can_cast,
        cdouble as cdouble,
        character as character,
        complex64 as complex64,
        complex128 as complex128,
        complex_ as complex_,
        complexfloating as complexfloating,
        csingle as csingle,
        double as double,
        dtype as dtype,
        finfo as finfo,
        flexible as flexible,
        float4_e2m1fn as float4_e2m1fn,
        float6_e2m3fn as float6_e2m3fn,
        float6_e3m2fn as float6_e3m2fn,
        float8_e3m4 as float8_e3m4,
        float8_e4m3 as float8_e4m3,
        float8_e4m3b11fnuz as float8_e4m3b11fnuz,
        float8_e4m3fn as float8_e4m3fn,
        float8_e4m3fnuz as float8_e4m3fnuz,
        float8_e5m2 as float8_e5m2,
        float8_e5m2fnuz as float8_e5m2fnuz,
        float8_e8m0fnu as float8_e8m0fnu,
        float16 as float16,
        float32 as float32,
        float64 as float64,
        float_ as float_,
        floating as floating,
        generic as generic,
        iinfo as iinfo,
        inexact as inexact,
        int1 as int1,
        int2 as int2,
        int4 as int4,
        int8 as int8,
        int16 as int16,
        int32 as int32,
        int64 as int64,
        int_ as int_,
        integer as integer,
        isdtype as isdtype,
        issubdtype as issubdtype,
        number as number,
        object_ as object_,
        promote_types as promote_types,
        result_type as result_type,
        signedinteger as signedinteger,
        single as single,
        uint as uint,
        uint1 as uint1,
        uint2 as uint2,
        uint4 as uint4,
        uint8 as uint8,
        uint16 as uint16,
        uint32 as uint32,
        uint64 as uint64,
        unsignedinteger as unsignedinteger,
    )
    from .sets import (
        intersect1d as intersect1d,
        isin as isin,
        setdiff1d as setdiff1d,
        setxor1d as setxor1d,
        union1d as union1d,
        unique as unique,
        unique_all as unique_all,
        unique_counts as unique_counts,
        unique_inverse as unique_inverse,
        unique_values as unique_values,
    )
    from .signals import (
        convolve as convolve,
        corrcoef as corrcoef,
        correlate as correlate,
        cov as cov,
        diff as diff,
        ediff1d as ediff1d,
        gradient as gradient,
        interp as interp,
        packbits as packbits,
        trapezoid as trapezoid,
        unpackbits as unpackbits,
        unwrap_phase as unwrap,  # noqa: F401
    )
    from .sorting import (
        argpartition as argpartition,
        argsort as argsort,
        digitize as digitize,
        lexsort as lexsort,
        partition as partition,
        searchsorted as searchsorted,
        sort as sort,
        sort_complex as sort_complex,
    )
    from .taking import (
        compress as compress,
        extract as extract,
        take as take,
        take_along_axis as take_along_axis,
    )
    from .ufunc_api import frompyfunc as frompyfunc, ufunc as ufunc
    from .ufuncs import (
        add as add,
        bitwise_and as bitwise_and,
        bitwise_or as bitwise_or,
        bitwise_xor as bitwise_xor,
        logaddexp as logaddexp,
        logaddexp2 as logaddexp2,
        logical_and as logical_and,
        logical_or as logical_or,
        logical_xor as logical_xor,
        maximum as maximum,
        minimum as minimum,
        multiply as multiply,
        negative as negative,
        subtract as subtract,
    )
    from .ufuncs_more import (
        allclose as allclose,
        array_equal as array_equal,
        array_equiv as array_equiv,
        clip as clip,
        copysign as copysign,
        fmax as fmax,
        fmin as fmin,
        frexp as frexp,
        gcd as gcd,
        heaviside as heaviside,
        hypot as hypot,
        i0 as i0,
        isclose as isclose,
        lcm as lcm,
        ldexp as ldexp,
        modf as modf,
        nan_to_num as nan_to_num,
        signbit as signbit,
        sinc as sinc,
        spacing as spacing,
    )
    from .vectorizing import (
        apply_along_axis as apply_along_axis,
        apply_over_axes as apply_over_axes,
        vectorize as vectorize,
    )


def _made(name: str, value: _Any) -> _Any:
    """What a public name is: the eager form of a function of arrays."""
    if name in ("array", "asarray"):
        return _make_public(_eager(value, accepts=_is_settled), name, "pullback.numpy")
    return _made_eager(name, value, "pullback.numpy")


# The same names for programs: these modules are imported when one of their names is asked for.
_late = _LateNames(
    __name__,
    {
        "arithmetic": (
            "abs absolute divide divmod float_power floor_divide fmod mod nextafter positive "
            "pow power remainder sign square true_divide"
        ),
        "array_api_info": "__array_namespace_info__=ArrayNamespaceInfo",
        "averages": "average mean std var",
        "choosing": "choose piecewise select where",
        "comparison": (
            "equal greater greater_equal isfinite isinf isnan isneginf isposinf less less_equal "
            "not_equal"
        ),
        "complex_parts": "angle conj conjugate imag iscomplex isreal real",
        "creation": (
            "array asarray astype copy empty empty_like from_dlpack frombuffer fromfile fromiter "
            "fromstring full full_like isscalar load ones ones_like zeros zeros_like"
        ),
        "cumulative": "cumprod cumsum cumulative_prod cumulative_sum nancumprod nancumsum",
        "einsums": "einsum einsum_path",
        "elementary": (
            "acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan "
            "atan2 atanh cbrt cos cosh deg2rad degrees exp exp2 expm1 fabs log log10 log1p log2 "
            "rad2deg radians reciprocal sin sinh sqrt tan tanh"
        ),
        "fft": "fft",
        "histograms": "bincount histogram histogram2d histogram_bin_edges histogramdd",
        "index_sets": (
            "diag_indices diag_indices_from ix_ mask_indices ravel_multi_index tril_indices "
            "tril_indices_from triu_indices triu_indices_from unravel_index"
        ),
        "index_tricks": "c_ index_exp r_ s_",
        "joining": (
            "append array_split block column_stack concat concatenate delete dsplit dstack hsplit "
            "hstack insert split stack trim_zeros unstack vsplit vstack"
        ),
        "linalg": "linalg",
        "logic": (
            "bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_right_shift "
            "invert left_shift logical_not right_shift"
        ),
        "manipulation": (
            "atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_shapes broadcast_to "
            "expand_dims flip fliplr flipud iscomplexobj isrealobj matrix_transpose moveaxis ndim "
            "permute_dims ravel repeat reshape resize roll rollaxis rot90 shape size squeeze "
            "swapaxes tile transpose"
        ),
        "nan_reductions": (
            "nanargmax nanargmin nanmax nanmean nanmin nanprod nanstd nansum nanvar"
        ),
        "nonzeros": "argwhere flatnonzero nonzero",
        "padding": "pad",
        "polynomial": (
            "bartlett blackman hamming hanning kaiser poly polyadd polyder polydiv polyfit "
            "polyint polymul polysub polyval roots"
        ),
        "products": (
            "cross diag diagflat diagonal dot inner kron matmul matvec outer tensordot trace vdot "
            "vecdot vecmat"
        ),
        "putting": "fill_diagonal place put put_along_axis",
        "quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
        "ranges": (
            "arange eye fromfunction geomspace identity indices linspace logspace meshgrid mgrid "
            "ogrid tri tril triu vander"
        ),
        "reductions": "all amax amin any argmax argmin count_nonzero max min prod ptp sum",
        "rounding": "around ceil floor rint round trunc",
        "scalar_types": (
            "ComplexWarning bfloat16 bool=bool_ bool_ can_cast cdouble character complex128 "
            "complex64 complex_ complexfloating csingle double dtype finfo flexible float16 "
            "float32 float4_e2m1fn float64 float6_e2m3fn float6_e3m2fn "
            "float8_e3m4 float8_e4m3 float8_e4m3b11fnuz "
            "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float_ "
            "floating generic iinfo inexact int1 int16 int2 int32 int4 int64 int8 int_ integer "
            "isdtype issubdtype number object_ promote_types result_type signedinteger single uint "
            "uint1 uint16 uint2 uint32 uint4 uint64 uint8 unsignedinteger"
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
        "taking": "compress extract take take_along_axis",
        "ufunc_api": "frompyfunc ufunc",
        "ufuncs": (
            "add bitwise_and bitwise_or bitwise_xor logaddexp logaddexp2 logical_and logical_or "
            "logical_xor maximum minimum multiply negative subtract"
        ),
        "ufuncs_more": (
            "allclose array_equal array_equiv clip copysign fmax fmin frexp gcd heaviside hypot "
            "i0 isclose lcm ldexp modf nan_to_num signbit sinc spacing"
        ),
        "vectorizing": "apply_along_axis apply_over_axes vectorize",
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


_late.complete()

__all__ = [
    _n
    for _n in _builtins.dir()
    if not _n.startswith("_")
    and _n not in ("annotations", "iterable")
    and not isinstance(globals()[_n], type(_builtins))  # a module of ours
]

_install(globals(), __all__)
__all__.extend(_n for _n in _late.where if not _n.startswith("_"))
