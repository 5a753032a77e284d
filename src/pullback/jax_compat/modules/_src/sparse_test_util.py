"""`jax.experimental.sparse.test_util`: tests of sparse arrays as JAX's are, with all that its class
of tests has."""

from __future__ import annotations

import numpy as np

from ....experimental.sparse import test_util
from .searched import searched
from .test_util.case import JaxTestCase

MATMUL_TOL = {np.float32: 1e-5, np.float64: 1e-10, np.complex64: 1e-5, np.complex128: 1e-10}


class SparseTestCase(test_util.SparseTestCase, JaxTestCase):
    """A test of functions of sparse arrays, which compares as JaxTestCase does."""

    rng = JaxTestCase.rng
    assertAllClose = JaxTestCase.assertAllClose


__getattr__ = searched("jax.experimental.sparse.test_util", test_util)
