"""Kernel density estimation."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ... import lax, numpy as jnp, random, tree_util
from ...api.jit import jit
from ...core.avals import typeof
from ...nn.functions import logsumexp
from ...numpy import linalg as np_linalg
from ...numpy.util import shown_as
from .. import linalg
from ..special.basic import inexact, ndtr


@tree_util.register_pytree_node_class
class gaussian_kde:
    """A density made of a normal kernel at each point of `dataset` (d, n); `bw_method`: "scott",
    "silverman", a factor, or a function.

    Raises ValueError for weights or factors that do not fit.

    As `scipy.stats.gaussian_kde`.

    >>> from pullback.scipy import stats
    >>> density = stats.gaussian_kde(jnp.array([-1., 1.]))
    >>> density(jnp.array([0.])).round(3)
    Array([0.233], dtype=float32)
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        if jnp.iscomplexobj(dataset):
            raise NotImplementedError(
                "gaussian_kde does not support complex data. Fix: "
                "jnp.stack([dataset.real, dataset.imag]) has two real coordinates a point."
            )
        if weights is None:
            (points,) = inexact("gaussian_kde", jnp.asarray(dataset))
        else:
            points, weights = inexact("gaussian_kde", jnp.asarray(dataset), jnp.atleast_1d(weights))
        self.dataset = jnp.atleast_2d(points)
        dtype = typeof(self.dataset).dtype
        if self.dataset.size <= 1:
            raise ValueError("`dataset` input should have multiple elements.")
        d, n = typeof(self.dataset).shape
        if weights is not None:
            if typeof(weights).ndim != 1:
                raise ValueError("`weights` input should be one-dimensional.")
            if typeof(weights).shape[0] != n:
                raise ValueError("`weights` input should be of length n")
            self.weights = weights / jnp.sum(weights)
        else:
            self.weights = jnp.full(n, 1.0 / n, dtype=dtype)
        self.neff = 1 / jnp.sum(self.weights**2)
        method = "scott" if bw_method is None else bw_method
        if isinstance(method, str):
            if method not in ("scott", "silverman"):
                raise ValueError(
                    "`bw_method` should be 'scott', 'silverman', a scalar, or a callable; got "
                    f"{method!r}"
                )
            base = self.neff if method == "scott" else self.neff * (d + 2) / 4.0
            factor = jnp.power(base, -1.0 / (d + 4))
        elif callable(method):
            factor = method(self)
        elif np.ndim(method) == 0:
            factor = method
        else:
            raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar, or a callable.")
        self.factor = factor
        spread = jnp.atleast_2d(
            jnp.cov(self.dataset, rowvar=True, bias=False, aweights=self.weights)
        )
        self.covariance = spread * factor**2
        self.inv_cov = np_linalg.inv(spread) / factor**2

    def tree_flatten(self) -> Any:
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> gaussian_kde:
        out = object.__new__(cls)
        out.neff, out.dataset, out.weights, out.covariance, out.inv_cov = children
        return out

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return int(self.dataset.shape[0])

    @property
    def n(self) -> int:
        """The number of points."""
        return int(self.dataset.shape[1])

    def _points(self, points: Any) -> Any:
        points = jnp.atleast_2d(jnp.asarray(points))
        if jnp.issubdtype(lax.dtype(points), jnp.complexfloating):
            raise NotImplementedError(
                "gaussian_kde does not support complex coordinates. Fix: "
                "jnp.stack([points.real, points.imag])."
            )
        d, m = typeof(points).shape
        if d != self.d:
            if d == 1 and m == self.d:
                return jnp.reshape(points, (self.d, 1))
            raise ValueError(f"points have dimension {d}, dataset has dimension {self.d}")
        return points

    def _log_kernels(self, points: Any, centres: Any, covariance: Any) -> Any:
        """The logarithm of the normal density of each difference: (centres, points)."""
        factor = linalg.cholesky(covariance, lower=True)
        a = linalg.solve_triangular(factor, centres, lower=True)
        b = linalg.solve_triangular(factor, points, lower=True)
        distance = jnp.sum((a[:, :, None] - b[:, None, :]) ** 2, axis=0)
        logdet = 2 * jnp.sum(jnp.log(jnp.diag(factor)))
        return -0.5 * (distance + logdet + self.d * math.log(2 * math.pi))

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at the points x (d, m)."""
        kernels = self._log_kernels(self._points(x), self.dataset, self.covariance)
        return logsumexp(kernels, axis=0, b=self.weights[:, None])

    def evaluate(self, points: Any) -> Any:
        """The density at the points (d, m)."""
        kernels = self._log_kernels(self._points(points), self.dataset, self.covariance)
        return jnp.sum(jnp.exp(kernels) * self.weights[:, None], axis=0)

    def __call__(self, points: Any) -> Any:
        return self.evaluate(points)

    def pdf(self, x: Any) -> Any:
        """The density at the points x."""
        return self.evaluate(x)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the density times that of a normal distribution."""
        mean, cov = jnp.atleast_1d(jnp.squeeze(jnp.asarray(mean))), jnp.atleast_2d(jnp.asarray(cov))
        if typeof(mean).shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}")
        if typeof(cov).shape != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}")
        kernels = self._log_kernels(mean[:, None], self.dataset, self.covariance + cov)[:, 0]
        return jnp.sum(jnp.exp(kernels) * self.weights)

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability between two bounds, of a density in one dimension."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        if np.ndim(low) != 0 or np.ndim(high) != 0:
            raise ValueError("the limits of integration in integrate_box_1d must be scalars")
        sigma = jnp.squeeze(jnp.sqrt(self.covariance))
        a, b = (
            (v - jnp.squeeze(self.dataset, 0)) / sigma
            for v in (jnp.asarray(low, typeof(sigma).dtype), jnp.asarray(high, typeof(sigma).dtype))
        )
        return jnp.sum(self.weights * (ndtr(b) - ndtr(a)))

    def integrate_kde(self, other: Any) -> Any:
        """The integral of the product of two densities."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        kernels = self._log_kernels(other.dataset, self.dataset, self.covariance + other.covariance)
        return jnp.sum(self.weights[:, None] * jnp.exp(kernels) * other.weights[None, :])

    def resample(self, key: Any, shape: Any = ()) -> Any:
        """Random points from the density: (d, *shape)."""
        return _resample(self, key, shape=tuple(shape))

    def _resampled(self, key: Any, shape: Any) -> Any:
        key_index, key_noise = random.split(key)
        index = random.choice(key_index, self.n, shape=shape, p=self.weights)
        noise = random.multivariate_normal(
            key_noise,
            jnp.zeros(self.d, self.covariance.dtype),
            self.covariance,
            shape=shape,
            dtype=self.dataset.dtype,
        )
        return self.dataset[:, index] + jnp.moveaxis(noise, -1, 0)

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not possible: make a new gaussian_kde."""
        raise NotImplementedError(
            "gaussian_kde.set_bandwidth: dynamically changing the bandwidth method is not "
            "supported. Fix: gaussian_kde(dataset, bw_method)."
        )

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Any:
        """Only in one dimension: integrate_box_1d."""
        raise NotImplementedError(
            "gaussian_kde.integrate_box: only 1D box integrations are supported; use "
            "`integrate_box_1d`"
        )


@functools.partial(jit, static_argnames="shape")
@shown_as("resample")
def _resample(density: gaussian_kde, key: Any, shape: Any) -> Any:
    return density._resampled(key, shape)
