"""`pullback.lax`: the operations that everything else is made of, under JAX's names."""

# Longer than other files: one line for each public name of lax.

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ..api.eager import made_eager as _made_eager
from ..api.placement import device_put_p as device_put_p
from ..api.placement import platform_dependent as platform_dependent
from ..api.placement import with_sharding_constraint as with_sharding_constraint
from ..config import LateNames as _LateNames
from ..control.custom import custom_gradient as custom_gradient

# The functions of arrays are native when they are called outside of transformations: those of these
# modules.
_FAMILIES = frozenset(
    (
        "primitives.contract primitives.convert primitives.cumulative primitives.elementwise "
        "primitives.dynamic_slice primitives.index primitives.layout primitives.maths "
        "primitives.reductions primitives.shape primitives.sort lax.special"
    ).split()
)


def _made(name: str, value: _Any) -> _Any:
    """What a public name is: the eager form of a function of arrays."""
    family = str(getattr(value, "__module__", None)).removeprefix("pullback.")
    return _made_eager(name, value) if family in _FAMILIES else value


if _TYPE_CHECKING:
    from ..control.cond import cond as cond
    from ..control.cond import cond_p as cond_p
    from ..control.cond import switch as switch
    from ..control.extras import after_all as after_all
    from ..control.extras import after_all_p as after_all_p
    from ..control.extras import composite as composite
    from ..control.extras import create_token as create_token
    from ..control.extras import create_token_p as create_token_p
    from ..control.extras import dce_sink as dce_sink
    from ..control.extras import dce_sink_p as dce_sink_p
    from ..control.linear_solve import custom_linear_solve as custom_linear_solve
    from ..control.linear_solve import custom_linear_solve_p as linear_solve_p  # noqa: F401
    from ..control.linear_solve import custom_root as custom_root
    from ..control.reduction import reduce as reduce
    from ..control.reduction import reduce_p as reduce_p
    from ..control.reduction import reduce_window as reduce_window
    from ..control.reduction import reduce_window_p as reduce_window_p
    from ..control.scan import scan as scan
    from ..control.scan import scan_p as scan_p
    from ..control.select_scatter import select_and_scatter_p as select_and_scatter_p
    from ..control.special import igamma_grad_a_p as igamma_grad_a_p
    from ..control.special import igamma_p as igamma_p
    from ..control.special import igammac_p as igammac_p
    from ..control.special import regularized_incomplete_beta_p as regularized_incomplete_beta_p
    from ..control.while_loop import fori_loop as fori_loop
    from ..control.while_loop import while_loop as while_loop
    from ..control.while_loop import while_p as while_p
    from ..primitives.collectives import all_gather as all_gather
    from ..primitives.collectives import all_gather_p as all_gather_p
    from ..primitives.collectives import all_to_all as all_to_all
    from ..primitives.collectives import all_to_all_p as all_to_all_p
    from ..primitives.collectives import axis_index as axis_index
    from ..primitives.collectives import axis_index_p as axis_index_p
    from ..primitives.collectives import axis_size as axis_size
    from ..primitives.collectives import pbroadcast as pbroadcast
    from ..primitives.collectives import pcast as pcast
    from ..primitives.collectives import pmax as pmax
    from ..primitives.collectives import pmax_p as pmax_p
    from ..primitives.collectives import pmean as pmean
    from ..primitives.collectives import pmin as pmin
    from ..primitives.collectives import pmin_p as pmin_p
    from ..primitives.collectives import ppermute as ppermute
    from ..primitives.collectives import ppermute_p as ppermute_p
    from ..primitives.collectives import pshuffle as pshuffle
    from ..primitives.collectives import psum as psum
    from ..primitives.collectives import psum_p as psum_p
    from ..primitives.collectives import psum_scatter as psum_scatter
    from ..primitives.collectives import pswapaxes as pswapaxes
    from ..primitives.collectives_ragged import precv as precv
    from ..primitives.collectives_ragged import psend as psend
    from ..primitives.collectives_ragged import ragged_all_to_all as ragged_all_to_all
    from ..primitives.collectives_ragged import ragged_all_to_all_p as ragged_all_to_all_p
    from ..primitives.contract import DotAlgorithm as DotAlgorithm
    from ..primitives.contract import DotAlgorithmPreset as DotAlgorithmPreset
    from ..primitives.contract import DotDimensionNumbers as DotDimensionNumbers
    from ..primitives.contract import Precision as Precision
    from ..primitives.contract import PrecisionLike as PrecisionLike
    from ..primitives.contract import batch_matmul as batch_matmul
    from ..primitives.contract import dot as dot
    from ..primitives.contract import dot_general as dot_general
    from ..primitives.contract import dot_general_p as dot_general_p
    from ..primitives.convert import bitcast_convert_type as bitcast_convert_type
    from ..primitives.convert import bitcast_convert_type_p as bitcast_convert_type_p
    from ..primitives.convert import convert_element_type as convert_element_type
    from ..primitives.convert import convert_element_type_p as convert_element_type_p
    from ..primitives.convert import copy_p as copy_p
    from ..primitives.convert import optimization_barrier as optimization_barrier
    from ..primitives.convert import optimization_barrier_p as optimization_barrier_p
    from ..primitives.convert import reduce_precision as reduce_precision
    from ..primitives.convert import reduce_precision_p as reduce_precision_p
    from ..primitives.convert import stage as stage
    from ..primitives.convert import stage_p as stage_p
    from ..primitives.convert import stop_gradient as stop_gradient
    from ..primitives.convert import stop_gradient_p as stop_gradient_p
    from ..primitives.convolution import ConvDimensionNumbers as ConvDimensionNumbers
    from ..primitives.convolution import (
        ConvGeneralDilatedDimensionNumbers as ConvGeneralDilatedDimensionNumbers,
    )
    from ..primitives.convolution import conv as conv
    from ..primitives.convolution import conv_dimension_numbers as conv_dimension_numbers
    from ..primitives.convolution import conv_general_dilated as conv_general_dilated
    from ..primitives.convolution import conv_general_dilated_local as conv_general_dilated_local
    from ..primitives.convolution import conv_general_dilated_p as conv_general_dilated_p
    from ..primitives.convolution import (
        conv_general_dilated_patches as conv_general_dilated_patches,
    )
    from ..primitives.convolution import conv_general_permutations as conv_general_permutations
    from ..primitives.convolution import conv_general_shape_tuple as conv_general_shape_tuple
    from ..primitives.convolution import conv_shape_tuple as conv_shape_tuple
    from ..primitives.convolution import conv_transpose as conv_transpose
    from ..primitives.convolution import conv_transpose_shape_tuple as conv_transpose_shape_tuple
    from ..primitives.convolution import conv_with_general_padding as conv_with_general_padding
    from ..primitives.convolution import padtype_to_pads as padtype_to_pads
    from ..primitives.cumulative import cumlogsumexp as cumlogsumexp
    from ..primitives.cumulative import cumlogsumexp_p as cumlogsumexp_p
    from ..primitives.cumulative import cummax as cummax
    from ..primitives.cumulative import cummax_p as cummax_p
    from ..primitives.cumulative import cummin as cummin
    from ..primitives.cumulative import cummin_p as cummin_p
    from ..primitives.cumulative import cumprod as cumprod
    from ..primitives.cumulative import cumprod_p as cumprod_p
    from ..primitives.cumulative import cumsum as cumsum
    from ..primitives.cumulative import cumsum_p as cumsum_p
    from ..primitives.dynamic_slice import dynamic_slice as dynamic_slice
    from ..primitives.dynamic_slice import dynamic_slice_in_dim as dynamic_slice_in_dim
    from ..primitives.dynamic_slice import dynamic_slice_p as dynamic_slice_p
    from ..primitives.dynamic_slice import dynamic_update_slice as dynamic_update_slice
    from ..primitives.dynamic_slice import (
        dynamic_update_slice_in_dim as dynamic_update_slice_in_dim,
    )
    from ..primitives.dynamic_slice import dynamic_update_slice_p as dynamic_update_slice_p
    from ..primitives.dynamic_slice import index_take as index_take
    from ..primitives.elementwise import RoundingMethod as RoundingMethod
    from ..primitives.elementwise import abs as abs
    from ..primitives.elementwise import abs_p as abs_p
    from ..primitives.elementwise import add as add
    from ..primitives.elementwise import add_p as add_p
    from ..primitives.elementwise import and_p as and_p
    from ..primitives.elementwise import bitwise_and as bitwise_and
    from ..primitives.elementwise import bitwise_not as bitwise_not
    from ..primitives.elementwise import bitwise_or as bitwise_or
    from ..primitives.elementwise import bitwise_xor as bitwise_xor
    from ..primitives.elementwise import ceil as ceil
    from ..primitives.elementwise import ceil_p as ceil_p
    from ..primitives.elementwise import clamp as clamp
    from ..primitives.elementwise import clamp_p as clamp_p
    from ..primitives.elementwise import clz as clz
    from ..primitives.elementwise import clz_p as clz_p
    from ..primitives.elementwise import complex as complex
    from ..primitives.elementwise import complex_p as complex_p
    from ..primitives.elementwise import conj as conj
    from ..primitives.elementwise import conj_p as conj_p
    from ..primitives.elementwise import div as div
    from ..primitives.elementwise import div_p as div_p
    from ..primitives.elementwise import eq as eq
    from ..primitives.elementwise import eq_p as eq_p
    from ..primitives.elementwise import eq_to_p as eq_to_p
    from ..primitives.elementwise import floor as floor
    from ..primitives.elementwise import floor_p as floor_p
    from ..primitives.elementwise import ge as ge
    from ..primitives.elementwise import ge_p as ge_p
    from ..primitives.elementwise import gt as gt
    from ..primitives.elementwise import gt_p as gt_p
    from ..primitives.elementwise import imag as imag
    from ..primitives.elementwise import imag_p as imag_p
    from ..primitives.elementwise import integer_pow as integer_pow
    from ..primitives.elementwise import integer_pow_p as integer_pow_p
    from ..primitives.elementwise import is_finite as is_finite
    from ..primitives.elementwise import is_finite_p as is_finite_p
    from ..primitives.elementwise import le as le
    from ..primitives.elementwise import le_p as le_p
    from ..primitives.elementwise import le_to_p as le_to_p
    from ..primitives.elementwise import log as log
    from ..primitives.elementwise import log_p as log_p
    from ..primitives.elementwise import lt as lt
    from ..primitives.elementwise import lt_p as lt_p
    from ..primitives.elementwise import lt_to_p as lt_to_p
    from ..primitives.elementwise import max as max
    from ..primitives.elementwise import max_p as max_p
    from ..primitives.elementwise import min as min
    from ..primitives.elementwise import min_p as min_p
    from ..primitives.elementwise import mul as mul
    from ..primitives.elementwise import mul_p as mul_p
    from ..primitives.elementwise import mulhi as mulhi
    from ..primitives.elementwise import mulhi_p as mulhi_p
    from ..primitives.elementwise import ne as ne
    from ..primitives.elementwise import ne_p as ne_p
    from ..primitives.elementwise import neg as neg
    from ..primitives.elementwise import neg_p as neg_p
    from ..primitives.elementwise import nextafter as nextafter
    from ..primitives.elementwise import nextafter_p as nextafter_p
    from ..primitives.elementwise import not_p as not_p
    from ..primitives.elementwise import or_p as or_p
    from ..primitives.elementwise import population_count as population_count
    from ..primitives.elementwise import population_count_p as population_count_p
    from ..primitives.elementwise import pow as pow
    from ..primitives.elementwise import pow_p as pow_p
    from ..primitives.elementwise import real as real
    from ..primitives.elementwise import real_p as real_p
    from ..primitives.elementwise import reciprocal as reciprocal
    from ..primitives.elementwise import rem as rem
    from ..primitives.elementwise import rem_p as rem_p
    from ..primitives.elementwise import round as round
    from ..primitives.elementwise import round_p as round_p
    from ..primitives.elementwise import select as select
    from ..primitives.elementwise import select_n as select_n
    from ..primitives.elementwise import select_n_p as select_n_p
    from ..primitives.elementwise import shift_left as shift_left
    from ..primitives.elementwise import shift_left_p as shift_left_p
    from ..primitives.elementwise import shift_right_arithmetic as shift_right_arithmetic
    from ..primitives.elementwise import shift_right_arithmetic_p as shift_right_arithmetic_p
    from ..primitives.elementwise import shift_right_logical as shift_right_logical
    from ..primitives.elementwise import shift_right_logical_p as shift_right_logical_p
    from ..primitives.elementwise import sign as sign
    from ..primitives.elementwise import sign_p as sign_p
    from ..primitives.elementwise import square as square
    from ..primitives.elementwise import square_p as square_p
    from ..primitives.elementwise import sub as sub
    from ..primitives.elementwise import sub_p as sub_p
    from ..primitives.elementwise import xor_p as xor_p
    from ..primitives.fft import FftType as FftType
    from ..primitives.fft import fft_p as fft_p
    from ..primitives.index import GatherDimensionNumbers as GatherDimensionNumbers
    from ..primitives.index import GatherScatterMode as GatherScatterMode
    from ..primitives.index import ScatterDimensionNumbers as ScatterDimensionNumbers
    from ..primitives.index import gather as gather
    from ..primitives.index import gather_p as gather_p
    from ..primitives.index import scatter as scatter
    from ..primitives.index import scatter_add as scatter_add
    from ..primitives.index import scatter_add_p as scatter_add_p
    from ..primitives.index import scatter_apply as scatter_apply
    from ..primitives.index import scatter_max as scatter_max
    from ..primitives.index import scatter_max_p as scatter_max_p
    from ..primitives.index import scatter_min as scatter_min
    from ..primitives.index import scatter_min_p as scatter_min_p
    from ..primitives.index import scatter_mul as scatter_mul
    from ..primitives.index import scatter_mul_p as scatter_mul_p
    from ..primitives.index import scatter_p as scatter_p
    from ..primitives.index import scatter_sub as scatter_sub
    from ..primitives.index import scatter_sub_p as scatter_sub_p
    from ..primitives.layout import broadcast as broadcast
    from ..primitives.layout import broadcast_in_dim as broadcast_in_dim
    from ..primitives.layout import broadcast_in_dim_p as broadcast_in_dim_p
    from ..primitives.layout import broadcast_like as broadcast_like
    from ..primitives.layout import broadcast_shapes as broadcast_shapes
    from ..primitives.layout import broadcast_to_rank as broadcast_to_rank
    from ..primitives.layout import broadcasted_iota as broadcasted_iota
    from ..primitives.layout import expand_dims as expand_dims
    from ..primitives.layout import iota as iota
    from ..primitives.layout import iota_p as iota_p
    from ..primitives.layout import reduce_sum as reduce_sum
    from ..primitives.layout import reduce_sum_p as reduce_sum_p
    from ..primitives.layout import reshape as reshape
    from ..primitives.layout import reshape_p as reshape_p
    from ..primitives.layout import rev as rev
    from ..primitives.layout import rev_p as rev_p
    from ..primitives.layout import squeeze as squeeze
    from ..primitives.layout import squeeze_p as squeeze_p
    from ..primitives.layout import transpose as transpose
    from ..primitives.layout import transpose_p as transpose_p
    from ..primitives.maths import AccuracyMode as AccuracyMode
    from ..primitives.maths import Tolerance as Tolerance
    from ..primitives.maths import acos as acos
    from ..primitives.maths import acos_p as acos_p
    from ..primitives.maths import acosh as acosh
    from ..primitives.maths import acosh_p as acosh_p
    from ..primitives.maths import asin as asin
    from ..primitives.maths import asin_p as asin_p
    from ..primitives.maths import asinh as asinh
    from ..primitives.maths import asinh_p as asinh_p
    from ..primitives.maths import atan as atan
    from ..primitives.maths import atan2 as atan2
    from ..primitives.maths import atan2_p as atan2_p
    from ..primitives.maths import atan_p as atan_p
    from ..primitives.maths import atanh as atanh
    from ..primitives.maths import atanh_p as atanh_p
    from ..primitives.maths import bessel_i0e as bessel_i0e
    from ..primitives.maths import bessel_i0e_p as bessel_i0e_p
    from ..primitives.maths import bessel_i1e as bessel_i1e
    from ..primitives.maths import bessel_i1e_p as bessel_i1e_p
    from ..primitives.maths import cbrt as cbrt
    from ..primitives.maths import cbrt_p as cbrt_p
    from ..primitives.maths import cos as cos
    from ..primitives.maths import cos_p as cos_p
    from ..primitives.maths import cosh as cosh
    from ..primitives.maths import cosh_p as cosh_p
    from ..primitives.maths import digamma as digamma
    from ..primitives.maths import digamma_p as digamma_p
    from ..primitives.maths import erf as erf
    from ..primitives.maths import erf_inv as erf_inv
    from ..primitives.maths import erf_inv_p as erf_inv_p
    from ..primitives.maths import erf_p as erf_p
    from ..primitives.maths import erfc as erfc
    from ..primitives.maths import erfc_p as erfc_p
    from ..primitives.maths import exp as exp
    from ..primitives.maths import exp2 as exp2
    from ..primitives.maths import exp2_p as exp2_p
    from ..primitives.maths import exp_p as exp_p
    from ..primitives.maths import expm1 as expm1
    from ..primitives.maths import expm1_p as expm1_p
    from ..primitives.maths import lgamma as lgamma
    from ..primitives.maths import lgamma_p as lgamma_p
    from ..primitives.maths import log1p as log1p
    from ..primitives.maths import log1p_p as log1p_p
    from ..primitives.maths import logistic as logistic
    from ..primitives.maths import logistic_p as logistic_p
    from ..primitives.maths import polygamma as polygamma
    from ..primitives.maths import polygamma_p as polygamma_p
    from ..primitives.maths import rsqrt as rsqrt
    from ..primitives.maths import rsqrt_p as rsqrt_p
    from ..primitives.maths import sin as sin
    from ..primitives.maths import sin_p as sin_p
    from ..primitives.maths import sinh as sinh
    from ..primitives.maths import sinh_p as sinh_p
    from ..primitives.maths import sqrt as sqrt
    from ..primitives.maths import sqrt_p as sqrt_p
    from ..primitives.maths import tan as tan
    from ..primitives.maths import tan_p as tan_p
    from ..primitives.maths import tanh as tanh
    from ..primitives.maths import tanh_p as tanh_p
    from ..primitives.maths import zeta as zeta
    from ..primitives.maths import zeta_p as zeta_p
    from ..primitives.ragged import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers
    from ..primitives.ragged import ragged_dot as ragged_dot
    from ..primitives.ragged import ragged_dot_general as ragged_dot_general
    from ..primitives.reductions import argmax as argmax
    from ..primitives.reductions import argmax_p as argmax_p
    from ..primitives.reductions import argmin as argmin
    from ..primitives.reductions import argmin_p as argmin_p
    from ..primitives.reductions import reduce_and as reduce_and
    from ..primitives.reductions import reduce_and_p as reduce_and_p
    from ..primitives.reductions import reduce_max as reduce_max
    from ..primitives.reductions import reduce_max_p as reduce_max_p
    from ..primitives.reductions import reduce_min as reduce_min
    from ..primitives.reductions import reduce_min_p as reduce_min_p
    from ..primitives.reductions import reduce_or as reduce_or
    from ..primitives.reductions import reduce_or_p as reduce_or_p
    from ..primitives.reductions import reduce_prod as reduce_prod
    from ..primitives.reductions import reduce_prod_p as reduce_prod_p
    from ..primitives.reductions import reduce_xor as reduce_xor
    from ..primitives.reductions import reduce_xor_p as reduce_xor_p
    from ..primitives.rng import RandomAlgorithm as RandomAlgorithm
    from ..primitives.rng import rng_bit_generator as rng_bit_generator
    from ..primitives.rng import rng_bit_generator_p as rng_bit_generator_p
    from ..primitives.rng import rng_uniform as rng_uniform
    from ..primitives.rng import rng_uniform_p as rng_uniform_p
    from ..primitives.shape import collapse as collapse
    from ..primitives.shape import concatenate as concatenate
    from ..primitives.shape import concatenate_p as concatenate_p
    from ..primitives.shape import dtype as dtype
    from ..primitives.shape import empty as empty
    from ..primitives.shape import full as full
    from ..primitives.shape import full_like as full_like
    from ..primitives.shape import index_in_dim as index_in_dim
    from ..primitives.shape import pad as pad
    from ..primitives.shape import pad_p as pad_p
    from ..primitives.shape import shape_as_value as shape_as_value
    from ..primitives.shape import slice as slice
    from ..primitives.shape import slice_in_dim as slice_in_dim
    from ..primitives.shape import slice_p as slice_p
    from ..primitives.shape import split as split
    from ..primitives.shape import split_p as split_p
    from ..primitives.shape import stack as stack
    from ..primitives.shape import stack_p as stack_p
    from ..primitives.shape import tile as tile
    from ..primitives.shape import tile_p as tile_p
    from ..primitives.shape import unstack as unstack
    from ..primitives.shape import unstack_p as unstack_p
    from ..primitives.sharding import sharding_constraint_p as sharding_constraint_p
    from ..primitives.sort import approx_max_k as approx_max_k
    from ..primitives.sort import approx_min_k as approx_min_k
    from ..primitives.sort import approx_top_k_p as approx_top_k_p
    from ..primitives.sort import sort as sort
    from ..primitives.sort import sort_key_val as sort_key_val
    from ..primitives.sort import sort_p as sort_p
    from ..primitives.sort import top_k as top_k
    from ..primitives.sort import top_k_p as top_k_p
    from ..primitives.windows import reduce_window_max_p as reduce_window_max_p
    from ..primitives.windows import reduce_window_min_p as reduce_window_min_p
    from ..primitives.windows import reduce_window_shape_tuple as reduce_window_shape_tuple
    from ..primitives.windows import reduce_window_sum_p as reduce_window_sum_p
    from ..primitives.windows import select_and_gather_add_p as select_and_gather_add_p
    from ..primitives.windows import select_and_scatter_add_p as select_and_scatter_add_p
    from . import linalg as linalg
    from .jitted import dynamic_index_in_dim as dynamic_index_in_dim
    from .jitted import dynamic_update_index_in_dim as dynamic_update_index_in_dim
    from .jitted import fft as fft
    from .mapping import associative_scan as associative_scan
    from .mapping import map as map
    from .scaled import scaled_dot as scaled_dot
    from .special import betainc as betainc
    from .special import igamma as igamma
    from .special import igamma_grad_a as igamma_grad_a
    from .special import igammac as igammac
    from .special import random_gamma_grad as random_gamma_grad

# The same names for programs: these modules are imported when one of their names is asked for.
_late = _LateNames(
    __name__,
    {
        "..control.cond": "cond cond_p switch",
        "..control.extras": (
            "after_all after_all_p composite create_token create_token_p dce_sink dce_sink_p"
        ),
        "..control.linear_solve": (
            "custom_linear_solve custom_root linear_solve_p=custom_linear_solve_p"
        ),
        "..control.reduction": "reduce reduce_p reduce_window reduce_window_p",
        "..control.scan": "scan scan_p",
        "..control.select_scatter": "select_and_scatter_p",
        "..control.special": "igamma_grad_a_p igamma_p igammac_p regularized_incomplete_beta_p",
        "..control.while_loop": "fori_loop while_loop while_p",
        "..primitives.collectives": (
            "all_gather all_gather_p all_to_all all_to_all_p axis_index axis_index_p axis_size "
            "pbroadcast pcast pmax pmax_p pmean pmin pmin_p ppermute ppermute_p pshuffle psum "
            "psum_p psum_scatter pswapaxes"
        ),
        "..primitives.collectives_ragged": "precv psend ragged_all_to_all ragged_all_to_all_p",
        "..primitives.contract": (
            "DotAlgorithm DotAlgorithmPreset DotDimensionNumbers Precision PrecisionLike "
            "batch_matmul dot dot_general dot_general_p"
        ),
        "..primitives.convert": (
            "bitcast_convert_type bitcast_convert_type_p convert_element_type "
            "convert_element_type_p copy_p optimization_barrier optimization_barrier_p "
            "reduce_precision reduce_precision_p stage stage_p stop_gradient stop_gradient_p"
        ),
        "..primitives.convolution": (
            "ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers conv conv_dimension_numbers "
            "conv_general_dilated conv_general_dilated_local conv_general_dilated_p "
            "conv_general_dilated_patches conv_general_permutations conv_general_shape_tuple "
            "conv_shape_tuple conv_transpose conv_transpose_shape_tuple conv_with_general_padding "
            "padtype_to_pads"
        ),
        "..primitives.cumulative": (
            "cumlogsumexp cumlogsumexp_p cummax cummax_p cummin cummin_p cumprod cumprod_p cumsum "
            "cumsum_p"
        ),
        "..primitives.dynamic_slice": (
            "dynamic_slice dynamic_slice_in_dim dynamic_slice_p dynamic_update_slice "
            "dynamic_update_slice_in_dim dynamic_update_slice_p index_take"
        ),
        "..primitives.elementwise": (
            "RoundingMethod abs abs_p add add_p and_p bitwise_and bitwise_not bitwise_or "
            "bitwise_xor ceil ceil_p clamp clamp_p clz clz_p complex complex_p conj conj_p div "
            "div_p eq eq_p eq_to_p floor floor_p ge ge_p gt gt_p imag imag_p integer_pow "
            "integer_pow_p is_finite is_finite_p le le_p le_to_p log log_p lt lt_p lt_to_p max "
            "max_p min min_p mul mul_p mulhi mulhi_p ne ne_p neg neg_p nextafter nextafter_p "
            "not_p or_p population_count population_count_p pow pow_p real real_p reciprocal rem "
            "rem_p round round_p select select_n select_n_p shift_left shift_left_p "
            "shift_right_arithmetic shift_right_arithmetic_p shift_right_logical "
            "shift_right_logical_p sign sign_p square square_p sub sub_p xor_p"
        ),
        "..primitives.fft": "FftType fft_p",
        "..primitives.index": (
            "GatherDimensionNumbers GatherScatterMode ScatterDimensionNumbers gather gather_p "
            "scatter scatter_add scatter_add_p scatter_apply scatter_max scatter_max_p "
            "scatter_min scatter_min_p scatter_mul scatter_mul_p scatter_p scatter_sub "
            "scatter_sub_p"
        ),
        "..primitives.layout": (
            "broadcast broadcast_in_dim broadcast_in_dim_p broadcast_like broadcast_shapes "
            "broadcast_to_rank broadcasted_iota expand_dims iota iota_p reduce_sum reduce_sum_p "
            "reshape reshape_p rev rev_p squeeze squeeze_p transpose transpose_p"
        ),
        "..primitives.maths": (
            "AccuracyMode Tolerance acos acos_p acosh acosh_p asin asin_p asinh asinh_p atan "
            "atan2 atan2_p atan_p atanh atanh_p bessel_i0e bessel_i0e_p bessel_i1e bessel_i1e_p "
            "cbrt cbrt_p cos cos_p cosh cosh_p digamma digamma_p erf erf_inv erf_inv_p erf_p erfc "
            "erfc_p exp exp2 exp2_p exp_p expm1 expm1_p lgamma lgamma_p log1p log1p_p logistic "
            "logistic_p polygamma polygamma_p rsqrt rsqrt_p sin sin_p sinh sinh_p sqrt sqrt_p tan "
            "tan_p tanh tanh_p zeta zeta_p"
        ),
        "..primitives.ragged": "RaggedDotDimensionNumbers ragged_dot ragged_dot_general",
        "..primitives.reductions": (
            "argmax argmax_p argmin argmin_p reduce_and reduce_and_p reduce_max reduce_max_p "
            "reduce_min reduce_min_p reduce_or reduce_or_p reduce_prod reduce_prod_p reduce_xor "
            "reduce_xor_p"
        ),
        "..primitives.rng": (
            "RandomAlgorithm rng_bit_generator rng_bit_generator_p rng_uniform rng_uniform_p"
        ),
        "..primitives.shape": (
            "collapse concatenate concatenate_p dtype empty full full_like index_in_dim pad pad_p "
            "shape_as_value slice slice_in_dim slice_p split split_p stack stack_p tile tile_p "
            "unstack unstack_p"
        ),
        "..primitives.sharding": "sharding_constraint_p",
        "..primitives.sort": (
            "approx_max_k approx_min_k approx_top_k_p sort sort_key_val sort_p top_k top_k_p"
        ),
        "..primitives.windows": (
            "reduce_window_max_p reduce_window_min_p reduce_window_shape_tuple "
            "reduce_window_sum_p select_and_gather_add_p select_and_scatter_add_p"
        ),
        "jitted": "dynamic_index_in_dim dynamic_update_index_in_dim fft",
        "linalg": "linalg",
        "mapping": "associative_scan map",
        "scaled": "scaled_dot",
        "special": "betainc igamma igamma_grad_a igammac random_gamma_grad",
    },
    _made,
)


def __getattr__(name: str) -> _Any:
    return _late(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_late.where})


__all__ = [
    _n
    for _n in __dir__()
    if not _n.startswith("_") and _n not in ("custom_gradient", "jitted", "mapping", "special")
]
