"""Tests in the form that JAX's own have: run with real JAX, and by `python -m pullback run`."""

import jax
import jax.numpy as jnp
import numpy as np
from absl.testing import absltest, parameterized
from jax import lax
from jax._src import api, config, core, dtypes, test_util as jtu, tree_util
from jax._src.ad_checkpoint import saved_residuals
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.lax import lax as lax_internal
from jax._src.numpy.util import promote_dtypes
from jax._src.util import merge_lists, partition_list, safe_map, safe_zip, split_list, unzip2

jax.config.parse_flags_with_absl()


class ValuesTest(jtu.JaxTestCase):
    @jtu.sample_product(
        [{"op": jnp.add, "reference": np.add}, {"op": jnp.maximum, "reference": np.maximum}],
        shape=[(2, 3), (4,), (), jtu.NUMPY_SCALAR_SHAPE],
        dtype=jtu.dtypes.floating + jtu.dtypes.integer + jtu.dtypes.complex,
    )
    def test_against_numpy(self, op, reference, shape, dtype):
        make = jtu.rand_default(self.rng())
        args = lambda: [make(shape, dtype), make(shape, dtype)]
        if op is jnp.maximum and np.dtype(dtype).kind == "c":
            self.skipTest("compared by real parts first")
        self._CheckAgainstNumpy(reference, op, args)
        self._CompileAndCheck(op, args)

    @jtu.sample_product(dtype=jtu.dtypes.all_floating + jtu.dtypes.all_integer)
    def test_factories(self, dtype):
        for factory in (jtu.rand_small, jtu.rand_positive, jtu.rand_nonzero, jtu.rand_some_inf,
                        jtu.rand_some_nan, jtu.rand_fullrange, jtu.rand_some_equal):  # fmt: skip
            x = factory(self.rng())((3, 5), dtype)
            self.assertEqual((x.shape, x.dtype), ((3, 5), np.dtype(dtype)))

    def test_comparisons(self):
        x = {"a": [jnp.ones(3), 2.0], "b": None}
        self.assertAllClose(x, {"a": [np.ones(3, np.float32), 2.0], "b": None})
        self.assertArraysEqual(jnp.arange(3), np.arange(3, dtype=np.int32))
        for wrong in (np.zeros(3, np.float32), np.ones(3, np.int32), np.ones(4, np.float32)):
            with self.assertRaises(AssertionError):
                self.assertAllClose(jnp.ones(3), wrong)
        with self.assertRaises(AssertionError):
            self.assertArraysAllClose(jnp.ones(3), np.full(3, 1.1, np.float32), rtol=1e-3)
        self.assertMultiLineStrippedEqual(" a\n\n b ", "a\nb")

    def test_promotion_is_strict(self):
        with self.assertRaisesRegex(Exception, "promotion"):
            jnp.ones(2, jnp.float32) + jnp.ones(2, jnp.int32)
        with self.assertRaises(ValueError):
            jnp.ones((2, 3)) + jnp.ones(3)

    @jtu.ignore_warning(category=UserWarning)
    def test_flags(self):
        self.assertFalse(config.enable_x64.value)
        with config.enable_x64(True):
            self.assertTrue(config.enable_x64.value)
            self.assertEqual(jnp.ones(3).dtype, np.float64)
        self.assertEqual(dtypes.dtype(2.0), np.float32)


@jtu.with_config(jax_numpy_dtype_promotion="standard", jax_numpy_rank_promotion="allow")
class CountsTest(jtu.JaxTestCase):
    def test_traces_and_compilations(self):
        f, x = jax.jit(lambda x: lax.neg(x)), jnp.ones(3)
        with jtu.count_jit_tracing_cache_miss() as traces:
            f(1.0), f(2.0), f(x)
        self.assertEqual(traces(), 2)
        g = jax.jit(lambda x: lax.sin(x))
        with jtu.assert_num_jit_and_pmap_compilations(1):
            g(1.0), g(2.0)

    def test_promotion_is_not_strict(self):
        x = jtu.promote_like_jnp(np.add)(np.float32(1), np.int32(2))
        self.assertAllClose(x, jnp.float32(1) + jnp.int32(2))
        self.assertEqual(
            [a.dtype for a in promote_dtypes(jnp.float32(1), jnp.int32(1))], [np.float32] * 2
        )

    @jtu.run_on_devices("gpu")
    def test_elsewhere(self):
        raise AssertionError

    @jtu.skip_on_devices("cpu")
    def test_not_here(self):
        raise AssertionError

    @parameterized.named_parameters(("_a", 1), ("_b", 2))
    def test_named(self, k):
        self.assertIn(k, (1, 2))

    def test_what_is_written(self):
        with jtu.capture_stdout() as text:
            print("heard")
            jax.debug.print("{x}", x=1)
            jax.effects_barrier()
        self.assertEqual(text(), "heard\n1\n")

    def test_programs(self):
        closed = jax.make_jaxpr(lambda x: jax.jit(lambda y: lax.sin(y) + 1)(x))(1.0)
        names = {e.primitive.name for e in jtu.iter_eqns(closed.jaxpr)}
        self.assertLessEqual({"sin", "add"}, names)
        self.assertIs(lax_internal.sin_p, lax.sin_p)
        self.assertIn(lax.sin_p, ad.primitive_jvps)
        self.assertIsInstance(core.ShapedArray((2,), np.dtype("float32")), core.AbstractValue)
        self.assertTrue(callable(pe.dce_jaxpr))
        self.assertEqual(float(api.grad(lambda x: x * x)(3.0)), 6.0)
        self.assertEqual(tree_util.tree_leaves({"b": 1, "a": 2}), [2, 1])

    def test_lists(self):
        self.assertEqual(list(safe_map(lambda a, b: a + b, [1, 2], [3, 4])), [4, 6])
        with self.assertRaises(ValueError):
            safe_zip([1], [1, 2])
        self.assertEqual(split_list([1, 2, 3, 4], [1, 2]), [[1], [2, 3], [4]])
        self.assertEqual(partition_list([True, False, True], [1, 2, 3]), ([2], [1, 3]))
        self.assertEqual(merge_lists([True, False, True], [2], [1, 3]), [1, 2, 3])
        self.assertEqual(unzip2([(1, 2), (3, 4)]), ((1, 3), (2, 4)))

    def test_saved_residuals(self):
        found = saved_residuals(lambda x: jnp.sin(jnp.sin(x)), 1.0)
        self.assertTrue(all(isinstance(aval, core.ShapedArray) for aval, _ in found))

    def test_gradients(self):
        jtu.check_grads(jnp.sin, (1.0,), order=2)


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
