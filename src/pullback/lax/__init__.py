"""`pullback.lax`: the operations that everything else is made of, under JAX's names."""

# Longer than other files: one line for each public name of lax.

from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from ..api.eager import made_eager as _made_eager
from ..api.placement import (
    device_put_p as device_put_p,
    platform_dependent as platform_dependent,
    with_sharding_constraint as with_sharding_constraint,
)
from ..control.custom_gradient import custom_gradient as custom_gradient
from ..lazy_imports import LateNames as _LateNames

# The functions of arrays are native when they are called outside of transformations: those of these
# modules.
_FAMILIES = frozenset(
    (
        "primitives.contract primitives.convert primitives.cumulative primitives.elementwise "
        "primitives.dynamic_slice primitives.index primitives.layout primitives.maths "
        "primitives.reductions primitives.shape primitives.sort lax.likeness lax.special"
    ).split()
)


def _made(name: str, value: _Any) -> _Any:
    """What a public name is: the eager form of a function of arrays."""
    family = str(getattr(value, "__module__", None)).removeprefix("pullback.")
    return _made_eager(name, value, __name__) if family in _FAMILIES else value


if _TYPE_CHECKING:
    from ..control.cond import cond as cond, cond_p as cond_p, switch as switch
    from ..control.extras import (
        after_all as after_all,
        after_all_p as after_all_p,
        composite as composite,
        create_token as create_token,
        create_token_p as create_token_p,
        dce_sink as dce_sink,
        dce_sink_p as dce_sink_p,
    )
    from ..control.linear_solve import (
        custom_linear_solve as custom_linear_solve,
        custom_linear_solve_p as linear_solve_p,  # noqa: F401
        custom_root as custom_root,
    )
    from ..control.reduction import (
        reduce as reduce,
        reduce_p as reduce_p,
        reduce_window as reduce_window,
        reduce_window_p as reduce_window_p,
    )
    from ..control.scan import scan as scan, scan_p as scan_p
    from ..control.select_scatter import select_and_scatter_p as select_and_scatter_p
    from ..control.special import (
        igamma_grad_a_p as igamma_grad_a_p,
        igamma_p as igamma_p,
        igammac_p as igammac_p,
        regularized_incomplete_beta_p as regularized_incomplete_beta_p,
    )
    from ..control.while_loop import (
        fori_loop as fori_loop,
        while_loop as while_loop,
        while_p as while_p,
    )
    from ..primitives.collectives import (
        all_gather as all_gather,
        all_gather_p as all_gather_p,
        axis_index as axis_index,
        axis_index_p as axis_index_p,
        axis_size as axis_size,
        pcast as pcast,
        pmax as pmax,
        pmax_p as pmax_p,
        pmean as pmean,
        pmin as pmin,
        pmin_p as pmin_p,
        psum as psum,
        psum_p as psum_p,
        psum_scatter as psum_scatter,
    )
    from ..primitives.collectives_exchange import (
        all_to_all as all_to_all,
        all_to_all_p as all_to_all_p,
        pbroadcast as pbroadcast,
        ppermute as ppermute,
        ppermute_p as ppermute_p,
        pshuffle as pshuffle,
        pswapaxes as pswapaxes,
    )
    from ..primitives.collectives_ragged import (
        precv as precv,
        psend as psend,
        ragged_all_to_all as ragged_all_to_all,
        ragged_all_to_all_p as ragged_all_to_all_p,
    )
    from ..primitives.contract import (
        DotAlgorithm as DotAlgorithm,
        DotAlgorithmPreset as DotAlgorithmPreset,
        DotDimensionNumbers as DotDimensionNumbers,
        Precision as Precision,
        PrecisionLike as PrecisionLike,
        batch_matmul as batch_matmul,
        dot as dot,
        dot_general as dot_general,
        dot_general_p as dot_general_p,
    )
    from ..primitives.convert import (
        bitcast_convert_type as bitcast_convert_type,
        bitcast_convert_type_p as bitcast_convert_type_p,
        convert_element_type as convert_element_type,
        convert_element_type_p as convert_element_type_p,
        copy_p as copy_p,
        optimization_barrier as optimization_barrier,
        optimization_barrier_p as optimization_barrier_p,
        reduce_precision as reduce_precision,
        reduce_precision_p as reduce_precision_p,
        stage as stage,
        stage_p as stage_p,
        stop_gradient as stop_gradient,
        stop_gradient_p as stop_gradient_p,
    )
    from ..primitives.convolution import (
        ConvDimensionNumbers as ConvDimensionNumbers,
        ConvGeneralDilatedDimensionNumbers as ConvGeneralDilatedDimensionNumbers,
        conv_dimension_numbers as conv_dimension_numbers,
        conv_general_dilated as conv_general_dilated,
        conv_general_dilated_p as conv_general_dilated_p,
        conv_general_permutations as conv_general_permutations,
        conv_general_shape_tuple as conv_general_shape_tuple,
        conv_shape_tuple as conv_shape_tuple,
        conv_transpose_shape_tuple as conv_transpose_shape_tuple,
        padtype_to_pads as padtype_to_pads,
    )
    from ..primitives.convolution_forms import (
        conv as conv,
        conv_general_dilated_local as conv_general_dilated_local,
        conv_general_dilated_patches as conv_general_dilated_patches,
        conv_transpose as conv_transpose,
        conv_with_general_padding as conv_with_general_padding,
    )
    from ..primitives.cumulative import (
        cumlogsumexp as cumlogsumexp,
        cumlogsumexp_p as cumlogsumexp_p,
        cummax as cummax,
        cummax_p as cummax_p,
        cummin as cummin,
        cummin_p as cummin_p,
        cumprod as cumprod,
        cumprod_p as cumprod_p,
        cumsum as cumsum,
        cumsum_p as cumsum_p,
    )
    from ..primitives.dynamic_slice import (
        dynamic_slice as dynamic_slice,
        dynamic_slice_in_dim as dynamic_slice_in_dim,
        dynamic_slice_p as dynamic_slice_p,
        dynamic_update_slice as dynamic_update_slice,
        dynamic_update_slice_in_dim as dynamic_update_slice_in_dim,
        dynamic_update_slice_p as dynamic_update_slice_p,
        index_take as index_take,
    )
    from ..primitives.elementwise import (
        RoundingMethod as RoundingMethod,
        abs as abs,
        abs_p as abs_p,
        add as add,
        add_p as add_p,
        and_p as and_p,
        bitwise_and as bitwise_and,
        bitwise_not as bitwise_not,
        bitwise_or as bitwise_or,
        bitwise_xor as bitwise_xor,
        ceil as ceil,
        ceil_p as ceil_p,
        clamp as clamp,
        clamp_p as clamp_p,
        clz as clz,
        clz_p as clz_p,
        complex as complex,
        complex_p as complex_p,
        conj as conj,
        conj_p as conj_p,
        div as div,
        div_p as div_p,
        eq as eq,
        eq_p as eq_p,
        eq_to_p as eq_to_p,
        floor as floor,
        floor_p as floor_p,
        ge as ge,
        ge_p as ge_p,
        gt as gt,
        gt_p as gt_p,
        imag as imag,
        imag_p as imag_p,
        integer_pow as integer_pow,
        integer_pow_p as integer_pow_p,
        is_finite as is_finite,
        is_finite_p as is_finite_p,
        le as le,
        le_p as le_p,
        le_to_p as le_to_p,
        log as log,
        log_p as log_p,
        lt as lt,
        lt_p as lt_p,
        lt_to_p as lt_to_p,
        max as max,
        max_p as max_p,
        min as min,
        min_p as min_p,
        mul as mul,
        mul_p as mul_p,
        mulhi as mulhi,
        mulhi_p as mulhi_p,
        ne as ne,
        ne_p as ne_p,
        neg as neg,
        neg_p as neg_p,
        nextafter as nextafter,
        nextafter_p as nextafter_p,
        not_p as not_p,
        or_p as or_p,
        population_count as population_count,
        population_count_p as population_count_p,
        pow as pow,
        pow_p as pow_p,
        real as real,
        real_p as real_p,
        reciprocal as reciprocal,
        rem as rem,
        rem_p as rem_p,
        round as round,
        round_p as round_p,
        select as select,
        select_n as select_n,
        select_n_p as select_n_p,
        shift_left as shift_left,
        shift_left_p as shift_left_p,
        shift_right_arithmetic as shift_right_arithmetic,
        shift_right_arithmetic_p as shift_right_arithmetic_p,
        shift_right_logical as shift_right_logical,
        shift_right_logical_p as shift_right_logical_p,
        sign as sign,
        sign_p as sign_p,
        square as square,
        square_p as square_p,
        sub as sub,
        sub_p as sub_p,
        xor_p as xor_p,
    )
    from ..primitives.fft import FftType as FftType, fft_p as fft_p
    from ..primitives.index import (
        gather as gather,
        gather_p as gather_p,
        scatter as scatter,
        scatter_add as scatter_add,
        scatter_add_p as scatter_add_p,
        scatter_apply as scatter_apply,
        scatter_max as scatter_max,
        scatter_max_p as scatter_max_p,
        scatter_min as scatter_min,
        scatter_min_p as scatter_min_p,
        scatter_mul as scatter_mul,
        scatter_mul_p as scatter_mul_p,
        scatter_p as scatter_p,
        scatter_sub as scatter_sub,
        scatter_sub_p as scatter_sub_p,
    )
    from ..primitives.index_checks import (
        GatherDimensionNumbers as GatherDimensionNumbers,
        GatherScatterMode as GatherScatterMode,
        ScatterDimensionNumbers as ScatterDimensionNumbers,
    )
    from ..primitives.layout import (
        broadcast as broadcast,
        broadcast_in_dim as broadcast_in_dim,
        broadcast_in_dim_p as broadcast_in_dim_p,
        broadcast_like as broadcast_like,
        broadcast_shapes as broadcast_shapes,
        broadcast_to_rank as broadcast_to_rank,
        broadcasted_iota as broadcasted_iota,
        expand_dims as expand_dims,
        iota as iota,
        iota_p as iota_p,
        reduce_sum as reduce_sum,
        reduce_sum_p as reduce_sum_p,
        reshape as reshape,
        reshape_p as reshape_p,
        rev as rev,
        rev_p as rev_p,
        squeeze as squeeze,
        squeeze_p as squeeze_p,
        transpose as transpose,
        transpose_p as transpose_p,
    )
    from ..primitives.maths import (
        AccuracyMode as AccuracyMode,
        Tolerance as Tolerance,
        acos as acos,
        acos_p as acos_p,
        acosh as acosh,
        acosh_p as acosh_p,
        asin as asin,
        asin_p as asin_p,
        asinh as asinh,
        asinh_p as asinh_p,
        atan as atan,
        atan2 as atan2,
        atan2_p as atan2_p,
        atan_p as atan_p,
        atanh as atanh,
        atanh_p as atanh_p,
        bessel_i0e as bessel_i0e,
        bessel_i0e_p as bessel_i0e_p,
        bessel_i1e as bessel_i1e,
        bessel_i1e_p as bessel_i1e_p,
        cbrt as cbrt,
        cbrt_p as cbrt_p,
        cos as cos,
        cos_p as cos_p,
        cosh as cosh,
        cosh_p as cosh_p,
        digamma as digamma,
        digamma_p as digamma_p,
        erf as erf,
        erf_inv as erf_inv,
        erf_inv_p as erf_inv_p,
        erf_p as erf_p,
        erfc as erfc,
        erfc_p as erfc_p,
        exp as exp,
        exp2 as exp2,
        exp2_p as exp2_p,
        exp_p as exp_p,
        expm1 as expm1,
        expm1_p as expm1_p,
        lgamma as lgamma,
        lgamma_p as lgamma_p,
        log1p as log1p,
        log1p_p as log1p_p,
        logistic as logistic,
        logistic_p as logistic_p,
        polygamma as polygamma,
        polygamma_p as polygamma_p,
        rsqrt as rsqrt,
        rsqrt_p as rsqrt_p,
        sin as sin,
        sin_p as sin_p,
        sinh as sinh,
        sinh_p as sinh_p,
        sqrt as sqrt,
        sqrt_p as sqrt_p,
        tan as tan,
        tan_p as tan_p,
        tanh as tanh,
        tanh_p as tanh_p,
        zeta as zeta,
        zeta_p as zeta_p,
    )
    from ..primitives.ragged import (
        RaggedDotDimensionNumbers as RaggedDotDimensionNumbers,
        ragged_dot as ragged_dot,
        ragged_dot_general as ragged_dot_general,
    )
    from ..primitives.reductions import (
        argmax as argmax,
        argmax_p as argmax_p,
        argmin as argmin,
        argmin_p as argmin_p,
        reduce_and as reduce_and,
        reduce_and_p as reduce_and_p,
        reduce_max as reduce_max,
        reduce_max_p as reduce_max_p,
        reduce_min as reduce_min,
        reduce_min_p as reduce_min_p,
        reduce_or as reduce_or,
        reduce_or_p as reduce_or_p,
        reduce_prod as reduce_prod,
        reduce_prod_p as reduce_prod_p,
        reduce_xor as reduce_xor,
        reduce_xor_p as reduce_xor_p,
    )
    from ..primitives.rng import (
        RandomAlgorithm as RandomAlgorithm,
        rng_bit_generator as rng_bit_generator,
        rng_bit_generator_p as rng_bit_generator_p,
        rng_uniform as rng_uniform,
        rng_uniform_p as rng_uniform_p,
    )
    from ..primitives.shape import (
        collapse as collapse,
        concatenate as concatenate,
        concatenate_p as concatenate_p,
        dtype as dtype,
        empty as empty,
        full as full,
        index_in_dim as index_in_dim,
        pad as pad,
        pad_p as pad_p,
        shape_as_value as shape_as_value,
        slice as slice,
        slice_in_dim as slice_in_dim,
        slice_p as slice_p,
        split as split,
        split_p as split_p,
        stack as stack,
        stack_p as stack_p,
        tile as tile,
        tile_p as tile_p,
        unstack as unstack,
        unstack_p as unstack_p,
    )
    from ..primitives.sharding import sharding_constraint_p as sharding_constraint_p
    from ..primitives.sort import (
        approx_max_k as approx_max_k,
        approx_min_k as approx_min_k,
        approx_top_k_p as approx_top_k_p,
        sort as sort,
        sort_key_val as sort_key_val,
        sort_p as sort_p,
        top_k as top_k,
        top_k_p as top_k_p,
    )
    from ..primitives.windows import (
        reduce_window_max_p as reduce_window_max_p,
        reduce_window_min_p as reduce_window_min_p,
        reduce_window_shape_tuple as reduce_window_shape_tuple,
        reduce_window_sum_p as reduce_window_sum_p,
        select_and_gather_add_p as select_and_gather_add_p,
        select_and_scatter_add_p as select_and_scatter_add_p,
    )
    from . import linalg as linalg
    from .jitted import (
        dynamic_index_in_dim as dynamic_index_in_dim,
        dynamic_update_index_in_dim as dynamic_update_index_in_dim,
        fft as fft,
    )
    from .likeness import full_like as full_like
    from .mapping import associative_scan as associative_scan, map as map
    from .scaled import scaled_dot as scaled_dot
    from .special import (
        betainc as betainc,
        igamma as igamma,
        igamma_grad_a as igamma_grad_a,
        igammac as igammac,
        random_gamma_grad as random_gamma_grad,
    )

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
            "all_gather all_gather_p axis_index axis_index_p axis_size pcast pmax pmax_p pmean "
            "pmin pmin_p psum psum_p psum_scatter"
        ),
        "..primitives.collectives_exchange": (
            "all_to_all all_to_all_p pbroadcast ppermute ppermute_p pshuffle pswapaxes"
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
            "ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers conv_dimension_numbers "
            "conv_general_dilated conv_general_dilated_p conv_general_permutations "
            "conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple padtype_to_pads"
        ),
        "..primitives.convolution_forms": (
            "conv conv_general_dilated_local conv_general_dilated_patches conv_transpose "
            "conv_with_general_padding"
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
            "gather gather_p scatter scatter_add scatter_add_p scatter_apply scatter_max "
            "scatter_max_p scatter_min scatter_min_p scatter_mul scatter_mul_p scatter_p "
            "scatter_sub scatter_sub_p"
        ),
        "..primitives.index_checks": (
            "GatherDimensionNumbers GatherScatterMode ScatterDimensionNumbers"
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
            "collapse concatenate concatenate_p dtype empty full index_in_dim pad pad_p "
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
        "likeness": "full_like",
        "mapping": "associative_scan map",
        "scaled": "scaled_dot",
        "special": "betainc igamma igamma_grad_a igammac random_gamma_grad",
    },
    _made,
)


def __getattr__(name: str) -> _Any:
    return _late(name)


_late.complete()

__all__ = [
    _n
    for _n in sorted({*globals(), *_late.where})
    if not _n.startswith("_")
    and _n not in ("custom_gradient", "jitted", "likeness", "mapping", "special")
]
