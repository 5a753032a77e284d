"""Tests in the form that JAX's own have: run with real JAX, and by `python -m pullback run`."""

import gc
import zlib

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from absl.testing import absltest, parameterized
from jax import lax
from jax._src import (
    api,
    api_util,
    config,
    core,
    custom_derivatives,
    dtypes,
    jaxpr_util,
    lax_reference,
    test_util as jtu,
    tree_util,
)
from jax._src.ad_checkpoint import saved_residuals
from jax._src.cudnn.scaled_matmul_stablehlo import shape_normalization
from jax._src.internal_test_util import lax_test_util
from jax._src.internal_test_util.test_harnesses import Harness, RandArg, StaticArg
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.interpreters.remat import remat_transform
from jax._src.lax import lax as lax_internal, utils as lax_utils
from jax._src.numpy.util import promote_dtypes
from jax._src.sharding_impls import GSPMDSharding, parse_flatten_op_sharding
from jax._src.state import discharge
from jax._src.util import (
    merge_lists,
    partition_list,
    safe_map,
    safe_zip,
    split_list,
    unzip2,
    weakref_lru_cache,
)
from jax.experimental import primal_tangent_dtype

jax.config.parse_flags_with_absl()

# What factories of random arrays give, as checksums of what they gave under real JAX.
DRAWN = {
    "default": 2296765846, "small": 3914171299, "positive": 676040591, "nonzero": 2296765846,
    "not_small": 3598964063, "small_positive": 1390768520, "uniform": 3043561207,
    "fullrange": 4120024576, "some_inf": 1155486466, "some_nan": 3999828635,
    "some_inf_and_nan": 1705389578, "some_equal": 1934173787, "some_zero": 1966970691,
    "bool": 786228514,
}  # fmt: skip
KINDS = (np.int8, np.uint16, np.float16, dtypes.bfloat16, np.float32, np.complex64, np.bool_)


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

    def test_drawn_numbers(self):
        for name, wanted in DRAWN.items():
            factory, crc = getattr(jtu, "rand_" + name), 0
            for dtype in KINDS[: 6 if name == "fullrange" else 7]:
                for shape in ((), (3, 2), (0,), 4):
                    x = factory(np.random.RandomState(0))(shape, dtype)
                    crc = zlib.crc32(np.asarray(x).tobytes(), crc)
            self.assertEqual(crc, wanted, name)
        make = jtu.rand_indices_unique_along_axis(np.random.RandomState(0))
        self.assertEqual(make(5, (2, 3), 0).tolist(), [[2, 0, 1], [-5, 2, -2]])
        self.assertEqual(
            jtu.rand_int(np.random.RandomState(3), 5)((4,), np.float32).tolist(), [2, 0, 1, 3]
        )

    def test_selected_cases(self):
        found = jtu.sample_product_testcases([{"x": k} for k in range(100)])
        self.assertEqual([c["x"] for c in found], [83, 53, 70, 45, 44, 39, 22, 80, 10, 0])
        found = jtu.sample_product_testcases([{"a": 1}, {"a": 2}], b=[3, 4])
        self.assertEqual([(c["a"], c["b"]) for c in found], [(2, 3), (2, 4), (1, 3), (1, 4)])

    def test_operations_against_references(self):
        for op, nargs, kinds, rng_factory, tol in lax_test_util.lax_ops()[::4]:
            rng = rng_factory(self.rng())
            args = [rng((2, 3), kinds[-1]) for _ in range(nargs)]
            wanted, limit = getattr(lax_reference, op)(*args), tol or jtu.default_tolerance()
            self.assertAllClose(wanted, getattr(lax, op)(*args), atol=limit, rtol=limit)

    def test_references(self):
        x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
        y = np.ones((2, 3, 3, 2), np.float32)
        numbers = ((([2], [2])), (([0], [0])))
        pads = [(1, 2, 1), (-1, 1, 0), (0, -1, 2)]
        image = np.arange(2 * 3 * 7 * 6.0, dtype=np.float32).reshape(2, 3, 7, 6)
        window = ((1, 2, 2), (1, 1, 2), "SAME")
        for name, args in (
            ("dot_general", (x, x, numbers)), ("pad", (x, np.float32(1), pads)),
            ("rev", (x, (0, 2))), ("broadcast_in_dim", (x, (5, 2, 3, 4), (1, 2, 3))),
            ("reshape", (x, (4, 6))), ("slice", (x, (0, 1, 1), (2, 3, 4), (1, 1, 2))),
            ("clamp", (np.float32(3), x, np.float32(9))), ("top_k", (x, 2)),
            ("sort_key_val", (x % 3, x, 1)), ("conv", (image, y, (1, 2), "SAME")),
        ):  # fmt: skip
            wanted = getattr(lax_reference, name)(*args)
            self.assertAllClose(wanted, tuple(r) if isinstance(
                r := getattr(lax, name)(*args), list) else r)  # fmt: skip
        found = lax.reduce_window(x, np.float32(0), lax.add, *window)
        wanted = lax_reference.reduce_window(x, np.float32(0), np.add, *window, None)
        self.assertAllClose(found, wanted)
        for empty, axes in ((x[:0], (0, 2)), (x[:0], (1,)), (x, (0,))):
            found = lax_reference.reduce(empty, np.float32(0), np.add, axes)
            self.assertAllClose(found, empty.sum(axes))

    @jtu.with_explicit_mesh((1, 1), ("x", "y"))
    def test_in_a_mesh(self, mesh):
        self.assertEqual(jax.sharding.get_mesh(), mesh)
        self.assertEqual(mesh.axis_types, (jax.sharding.AxisType.Explicit,) * 2)

    def test_comparisons(self):
        x = {"a": [jnp.ones(3), 2.0], "b": None}
        self.assertAllClose(x, {"a": [np.ones(3, np.float32), 2.0], "b": None})
        self.assertArraysEqual(jnp.arange(3), np.arange(3, dtype=np.int32))
        objects = np.array([1, "a"], object)
        self.assertArraysEqual(objects, objects.copy(), allow_object_dtype=True)
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

    def test_states(self):
        run = discharge.run_state(lambda ref: ref.__setitem__(..., ref[...] + 1.0))
        self.assertArraysEqual(run(jnp.zeros(2)), np.ones(2, np.float32))
        program = jax.make_jaxpr(lambda ref: ref[...] * 2.0)(jax.new_ref(jnp.ones(2)))
        plain = discharge.discharge_state(program)
        self.assertEqual([a.str_short() for a in plain.out_avals], ["float32[2]"] * 2)

    def test_harnesses(self):
        args = [RandArg((2,), np.float32), np.ones(2, np.float32), StaticArg(3)]
        h = Harness("add [", "x", lambda a, b, c: a + b + c, args, dtype=np.float32, more=1)
        drawn = h.dyn_args_maker(np.random.RandomState(0))
        self.assertEqual((str(h), len(drawn), h.params), ("add__x", 2, {"more": 1}))
        self.assertAllClose(h.dyn_fun(*drawn), drawn[0] + np.float32(4))
        self.assertAllClose(h.args_maker(np.random.RandomState(0))[0], drawn[0])

    def test_counted_equations(self):
        def f(x):
            return jax.jit(lambda y: lax.sin(y) + lax.sin(lax.sin(y)))(x) * 2

        program = jax.make_jaxpr(f)(jnp.ones(3)).jaxpr
        counts = {"jit": 1, "mul": 1, "sin": 3, "add": 1}
        self.assertEqual(jaxpr_util.primitives(program), counts)
        wanted = {f"{name} :: float32[3]": n for name, n in counts.items()}
        self.assertEqual(jaxpr_util.primitives_by_shape(program), wanted)
        rows = shape_normalization(jnp.arange(24.0).reshape(2, 3, 4), ((1,), (0,)))
        self.assertArraysEqual(rows[0, 1], np.arange(1, 12, 4, dtype=np.float32))

    def test_weak_caches(self):
        calls = []

        class Key:
            pass

        cached = weakref_lru_cache(lambda key, b, c=1: calls.append(b) or (b, c), maxsize=3)
        key = Key()
        self.assertEqual(
            [cached(key, 1), cached(key, 1), cached(key, 2, c=3)], [(1, 1)] * 2 + [(2, 3)]
        )
        for k in range(5):
            cached(key, k)
        found = cached.cache_info()
        self.assertEqual((found.hits, found.misses, found.currsize), (2, 6, 3))
        del key
        gc.collect()
        self.assertEqual(cached.cache_info().currsize, 0)

    def test_small_functions(self):
        self.assertEqual(api_util._ensure_index_tuple(3), (3,))
        paths = tree_util.generate_key_paths({"a": [1, 2]})
        self.assertEqual([tree_util.keystr(p) for p, _ in paths], ["['a'][0]", "['a'][1]"])
        self.assertEqual(lax_internal.remaining([3, 1, 2, 1], [1]), [3, 2])
        self.assertEqual(lax_utils.int_dtype_for_shape((2**33,), signed=False), np.uint64)
        again = remat_transform(None, lambda x, y: jnp.sin(x) * y, 1.0, 2.0)[1]
        self.assertAllClose(again(3.0, 4.0), jnp.sin(3.0) * 4.0)
        self.assertEqual(core.stride_dim(10, 3, 2), 4)
        self.assertTrue(core.definitely_equal_shape((2, 3), (2, 3)))
        kind = primal_tangent_dtype(np.dtype("int8"), np.dtype("float32"))
        self.assertEqual(str(kind), "PrimalTangentDType{i8/f32}")
        self.assertEqual(core.primal_dtype_to_tangent_dtype(kind), np.dtype("float32"))

    def test_shardings_of_xla(self):
        mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
        everywhere = GSPMDSharding.get_replicated(jax.devices())
        self.assertTrue(everywhere.is_fully_replicated)
        self.assertEqual(everywhere.shard_shape((4, 2)), (4, 2))
        self.assertTrue(everywhere.is_equivalent_to(jax.NamedSharding(mesh, jax.P("x")), 2))
        self.assertEqual(
            parse_flatten_op_sharding(everywhere._to_xla_hlo_sharding(2), mesh), [jax.P()]
        )

    def test_ways_to_compile(self):
        self.assertEqual([way._name for way in jtu.JIT_IMPLEMENTATION], ["jit", "noop"])
        for way in jtu.JIT_IMPLEMENTATION:
            self.assertEqual(way(lambda x: x + 1)(2), 3)

    def test_sizes_as_numbers(self):
        self.assertEqual(core.dimension_as_value(3), 3)
        (b,) = jax.export.symbolic_shape("b")
        program = jax.make_jaxpr(lambda x: core.dimension_as_value(x.shape[0]))
        self.assertIn("dim_as_value", str(program(jax.ShapeDtypeStruct((b,), "float32"))))

    def test_forward_rules_without_residuals(self):
        def fwd(x):
            return x * x, (2 * x,)

        said = [api_util.debug_info(name, fwd, (2.0,), {}) for name in ("fun", "fwd")]
        rule = custom_derivatives.optimize_remat_of_custom_vjp_fwd(
            lambda x: 3 * x, said[0], fwd, said[1]
        )
        self.assertAllClose(jax.jit(rule)(5.0), (25.0, (10.0,)))
        self.assertAllClose(jax.jit(lambda x: rule(x)[0])(5.0), 15.0)

    def test_outputs_of_custom_vjp_dropped(self):
        @jax.custom_vjp
        def f(x, y):
            return jnp.sin(x), x + jnp.cos(y)

        f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda res, cts: (cts[0] * 2, cts[1] * 3))
        jaxpr = jax.make_jaxpr(f)(1.0, 2.0).jaxpr
        for used, names, grads in (
            ([True, False], ["sin"], (2.0, 0.0)),
            ([False, True], ["cos", "add"], (0.0, 3.0)),
        ):
            less, _ = pe.dce_jaxpr(jaxpr, used)
            inside = less.eqns[0].params["call_jaxpr"].eqns
            self.assertEqual([eqn.primitive.name for eqn in inside], names)
            fun = core.jaxpr_as_fun(pe.close_jaxpr(less))
            self.assertEqual(jax.grad(lambda *xs, fun=fun: fun(*xs)[0], (0, 1))(1.0, 2.0), grads)

    def test_gradients(self):
        jtu.check_grads(jnp.sin, (1.0,), order=2)


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
