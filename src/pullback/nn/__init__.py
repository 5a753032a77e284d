"""Functions for neural networks: activations, normalisations, attention, initialisers."""

from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from ..api.eager import made_eager as _made_eager
from ..lazy_imports import LateNames as _LateNames
from ..numpy import tanh as tanh

if _TYPE_CHECKING:
    from . import initializers as initializers
    from .attention import dot_product_attention as dot_product_attention
    from .functions import (
        celu as celu,
        elu as elu,
        gelu as gelu,
        glu as glu,
        hard_sigmoid as hard_sigmoid,
        hard_silu as hard_silu,
        hard_swish as hard_swish,
        hard_tanh as hard_tanh,
        identity as identity,
        leaky_relu as leaky_relu,
        log1mexp as log1mexp,
        log_sigmoid as log_sigmoid,
        log_softmax as log_softmax,
        logmeanexp as logmeanexp,
        logsumexp as logsumexp,
        mish as mish,
        one_hot as one_hot,
        relu as relu,
        relu6 as relu6,
        selu as selu,
        sigmoid as sigmoid,
        silu as silu,
        soft_sign as soft_sign,
        softmax as softmax,
        softplus as softplus,
        sparse_plus as sparse_plus,
        sparse_sigmoid as sparse_sigmoid,
        squareplus as squareplus,
        standardize as standardize,
        swish as swish,
    )
    from .scaled import (
        get_scaled_dot_general_config as get_scaled_dot_general_config,
        scaled_dot_general as scaled_dot_general,
        scaled_matmul as scaled_matmul,
    )

# The same names for programs: who wants an activation has no use for attention, nor for what
# initialisers need of random numbers and linear algebra.
_late = _LateNames(
    __name__,
    {
        "attention": "dot_product_attention",
        "functions": (
            "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity "
            "leaky_relu log1mexp log_sigmoid log_softmax logmeanexp logsumexp mish "
            "one_hot relu relu6 selu sigmoid silu soft_sign softmax softplus sparse_plus "
            "sparse_sigmoid squareplus standardize swish"
        ),
        "initializers": "initializers",
        "scaled": "get_scaled_dot_general_config scaled_dot_general scaled_matmul",
    },
    lambda name, value: _made_eager(name, value, __name__),
)


def __getattr__(name: str) -> _Any:
    return _late(name)


_late.complete()

__all__ = ["tanh"]
__all__.extend(_late.where)
