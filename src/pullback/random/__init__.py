"""Random numbers as pure functions of keys: the same key gives the same numbers, bit for bit those
of JAX.
"""

from ..api.eager import eager as _eager
from ..api.kinds import make_public as _make_public
from .base import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    unwatched as _unwatched,
    wrap_key_data,
)
from .continuous import (
    cauchy,
    double_sided_maxwell,
    exponential,
    laplace,
    logistic,
    lognormal,
    maxwell,
    normal,
    pareto,
    rayleigh,
    triangular,
    truncated_normal,
    wald,
    weibull_min,
)  # fmt: skip
from .counts import binomial, geometric, multinomial, poisson
from .gammas import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    random_gamma_p,
    t,
)  # fmt: skip
from .matrices import multivariate_normal, orthogonal
from .uniform import (
    bernoulli,
    bits,
    categorical,
    choice,
    gumbel,
    permutation,
    rademacher,
    randint,
    uniform,
)

__all__ = [
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "clone",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "random_gamma_p",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]


# Called outside of transformations these are native programs, as the functions of arrays are.
(bernoulli, bits, categorical, exponential, gumbel, laplace, normal, rademacher, randint, split,
 truncated_normal, uniform) = (
    _make_public(_eager(_f, accepts=_unwatched), _f.__name__, __name__)
    for _f in (
        bernoulli, bits, categorical, exponential, gumbel, laplace, normal, rademacher, randint,
        split, truncated_normal, uniform,
    )
)  # fmt: skip


def _of_number(seed: object, **_options: object) -> bool:
    return type(seed) is int


key, PRNGKey = (
    _make_public(_eager(_f, accepts=_of_number), _f.__name__, __name__) for _f in (key, PRNGKey)
)
