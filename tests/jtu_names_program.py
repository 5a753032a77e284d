"""Private names that tests of JAX import, of random, scipy, dtypes and small modules, in tests of
their form: run with real JAX, and by `python -m pullback run`."""

import contextlib
import io
import logging
import pickle

import jax
import jax.numpy as jnp
import numpy as np
from absl.testing import absltest
from jax import lax, monitoring
from jax._src import (
    deprecations,
    dtypes,
    monitoring as private_monitoring,
    pretty_printer as pp,
    random as private_random,
    source_info_util,
    test_util as jtu,
)
from jax._src.cudnn.fused_attention_stablehlo import AttentionLayout, MaskType, check_cudnn_version
from jax._src.lax import lax as lax_internal
from jax._src.random import philox2x32, philox4x32, prng, stateful_rng, threefry4x32
from jax._src.random.core import (
    _check_prng_key,
    _safe_int_to_float,
    default_prng_impl,
    resolve_prng_impl,
)
from jax._src.random.threefry2x32 import (
    threefry_fold_in,
    threefry_random_bits,
    threefry_seed,
    threefry_split,
)
from jax._src.scipy.optimize.line_search import line_search
from jax._src.scipy.sparse.linalg import _kth_arnoldi_iteration
from jax.experimental import sparse
from jax.experimental.key_reuse import _core as key_reuse
from jax.experimental.sparse import _lowerings, bcoo, bcsr, coo, csr, test_util as sptu, util


def pair_seed(seed):
    return jnp.stack([threefry_seed(seed), threefry_seed(seed + 1)])


def pair_split(key, shape):
    return jnp.stack([threefry_split(k, shape) for k in key], len(shape))


def pair_bits(key, width, shape):
    return threefry_random_bits(key[0], width, shape)


def pair_fold_in(key, data):
    return jnp.stack([threefry_fold_in(k, data) for k in key])


PAIRS = prng.PRNGImpl(
    key_shape=(2, 2), seed=pair_seed, split=pair_split, random_bits=pair_bits,
    fold_in=pair_fold_in, tag="pair",
)  # fmt: skip


def of(doc, **how):
    return doc.format(output_format=pp.OutputFormat.HTML, **how)


class TextTest(jtu.JaxTestCase):
    def test_html(self):
        let = pp.concat([pp.keyword(pp.text("let")), pp.type_annotation(pp.text(" x<"))])
        self.assertEqual(of(let, use_color=False), "let x&lt;")
        self.assertEqual(
            of(let, use_color=True),
            '<span class="ansi-fg-34 ansi-intensity-1">let</span>'
            '<span class="ansi-fg-35"> x&lt;</span>',
        )
        self.assertEqual(of(pp.text("x", anchor="A", href="#B")), '<a id="A" href="#B">x</a>')
        self.assertEqual(repr(pp.text("x", href="#B")), 'text("x", href="#B")')

    def test_colours_and_lines(self):
        red = pp.color(pp.text("a") + pp.brk() + pp.text("bcd"), foreground=pp.Color.RED)
        self.assertEqual(red.format(width=0, use_color=True), "\x1b[31ma\nbcd\x1b[39m")
        self.assertEqual(
            red.format(width=0, use_color=True, separable_lines=True),
            "\x1b[31ma\x1b[39m\n\x1b[31mbcd\x1b[39m",
        )
        noted = pp.text("a", annotation="n1") + pp.brk() + pp.text("bcd", annotation="n2")
        self.assertEqual(
            pp.color(noted, foreground=pp.Color.RED).format(use_color=True),
            "\x1b[31ma\x1b[39m\x1b[2m   # n1\x1b[22m\n\x1b[31mbcd\x1b[39m\x1b[2m # n2\x1b[22m",
        )
        plain = pp.color(pp.text("x"), foreground=pp.Color.RESET, intensity=pp.Intensity.NORMAL)
        self.assertEqual(plain.format(use_color=True), "x")

    def test_sources_of_coloured_text(self):
        inner = pp.source_map(pp.text("q") + pp.brk() + pp.text("r"), 1)
        doc = pp.color(pp.text("p") + inner + pp.text("s"), foreground=pp.Color.RED)
        where = []
        said = doc.format(use_color=True, source_map=where)
        self.assertEqual(where, [[(11, 22, 1)], [(0, 11, 1)]])
        self.assertEqual(said.splitlines()[0][11:22], "\x1b[31mq\x1b[39m")


class HeardTest(jtu.JaxTestCase):
    def tearDown(self):
        monitoring.clear_event_listeners()
        super().tearDown()

    def test_stages_of_compilation(self):
        heard, numbers, spans = [], [], []
        monitoring.register_event_duration_secs_listener(
            lambda event, seconds, **kw: heard.append((event, seconds >= 0, kw["fun_name"]))
        )
        monitoring.register_scalar_listener(lambda event, value, **_: numbers.append(event))
        monitoring.register_event_time_span_listener(lambda event, a, b, **_: spans.append(a <= b))

        @jax.jit
        def f(x):
            return x * 3 + 1

        f(1.5), f(2.5)
        self.assertEqual(heard, [
            ("/jax/core/compile/jaxpr_trace_duration", True, "f"),
            ("/jax/core/compile/jaxpr_to_mlir_module_duration", True, "jit(f)"),
            ("/jax/core/compile/backend_compile_duration", True, "jit(f)"),
        ])  # fmt: skip
        self.assertEqual(numbers, [event for event, *_ in heard])
        self.assertEqual(spans, [True] * 3)

    def test_who_was_not_registered(self):
        def nobody(*args, **kwargs):
            pass

        for forget in (
            private_monitoring.unregister_event_duration_listener,
            private_monitoring.unregister_event_listener,
            private_monitoring.unregister_scalar_listener,
            private_monitoring.unregister_event_time_span_listener,
        ):
            with self.assertRaises(AssertionError):
                forget(nobody)

    def logged(self):
        out = io.StringIO()
        handler = logging.StreamHandler(out)
        logger = logging.getLogger("jax")
        logger.addHandler(handler)
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                jax.jit(lambda x: x + 1)(1)
        finally:
            logger.removeHandler(handler)
        return out.getvalue()

    def test_logs_of_modules(self):
        self.assertEqual(self.logged(), "")
        try:
            jax.config.update("jax_debug_log_modules", "jax")
            said = self.logged()
            self.assertIn("Finished tracing <lambda> for jit in", said)
            self.assertIn("Compiling jit(<lambda>)", said)
            self.assertIn("Finished XLA compilation of jit(<lambda>) in", said)
            jax.config.update("jax_debug_log_modules", "jax._src.dispatch,jax._src.compiler")
            said = self.logged()
            self.assertIn("Finished tracing <lambda> for jit in", said)
            self.assertNotIn("Compiling jit(<lambda>)", said)
        finally:
            jax.config.update("jax_debug_log_modules", "")
        self.assertEqual(self.logged(), "")
        with self.assertRaisesRegex(TypeError, "new string config value must be of type str"):
            jax.config.update("jax_debug_log_modules", None)

    def test_level_of_logs(self):
        try:
            jax.config.update("jax_logging_level", "DEBUG")
            self.assertIn("Finished tracing", self.logged())
        finally:
            jax.config.update("jax_logging_level", "NOTSET")
        self.assertEqual(self.logged(), "")
        with self.assertRaisesRegex(ValueError, "new enum value must be None or|in"):
            jax.config.update("jax_logging_level", "LOUD")

    def test_sources_of_equations(self):
        def g(x):
            return lax.add(lax.mul(x, 2), 4)

        for eqn in jax.make_jaxpr(g)(2).eqns:
            frame = source_info_util.user_frame(eqn.source_info.traceback)
            self.assertEqual(frame.start_line, g.__code__.co_firstlineno + 1)
            self.assertEqual(frame.file_name, __file__)


class NamesTest(jtu.JaxTestCase):
    def test_fractions(self):
        pairs = [(0, 0), (0, 1), (0, 2**24 + 1), (0, 2**32 - 1), (1, 0), (1, 1), (2**31, 0),
                 (2**32 - 1, 2**32 - 1), (2**20, 12345), (0, 3)]  # fmt: skip
        got = _safe_int_to_float(jnp.array(pairs, jnp.uint32).T, jnp.float32)
        want = []
        for high, low in pairs:
            n = high * 2**32 + low
            cut = max(n.bit_length() - 24, 0)
            want.append(np.float32(((n >> cut) << cut) * 2.0**-64 if n else 2.0**-65))
        self.assertArraysEqual(got, np.array(want))
        with self.assertRaisesRegex(RuntimeError, "only works for u32 -> f32"):
            _safe_int_to_float(jnp.ones(2, jnp.int32), jnp.float32)

    def test_generators(self):
        key, raw = _check_prng_key("here", jax.random.key(3))
        self.assertFalse(raw)
        self.assertEqual(key.shape, ())
        self.assertEqual(resolve_prng_impl(None), default_prng_impl())
        self.assertEqual(resolve_prng_impl("philox2x32"), philox2x32.philox2x32_prng_impl)
        for module, name in (
            (philox2x32, "philox2x32"), (philox4x32, "philox4x32"), (threefry4x32, "threefry4x32"),
        ):  # fmt: skip
            with jax.default_prng_impl(name):
                key = jax.random.key(7)
            words = getattr(module, f"{name}_seed")(jnp.int32(7))
            self.assertArraysEqual(words, jax.random.key_data(key))
            self.assertArraysEqual(
                getattr(module, f"{name}_random_bits")(words, 32, (5,)),
                jax.random.bits(key, (5,)),
            )
            self.assertArraysEqual(
                getattr(module, f"{name}_split")(words, (2,)),
                jax.random.key_data(jax.random.split(key)),
            )
            self.assertArraysEqual(
                getattr(module, f"{name}_fold_in")(words, jnp.uint32(9)),
                jax.random.key_data(jax.random.fold_in(key, 9)),
            )
        self.assertIsNotNone(stateful_rng.StatefulPRNG)

    def test_keys_of_several_axes(self):
        """A generator of one's own, whose keys are pairs of Threefry keys."""
        key = prng.random_seed(73, impl=PAIRS)
        self.assertEqual(key.shape, ())
        self.assertEqual(key.dtype.name, "key<pair>")
        words = np.array([[0, 73], [0, 74]], np.uint32)
        self.assertArraysEqual(jax.random.key_data(key), words)
        self.assertEqual(repr(key), f"Array((), dtype=key<pair>) overlaying:\n{words}")
        keys = jax.random.split(key, 6)
        self.assertEqual(jax.random.key_data(keys).shape, (6, 2, 2))
        bits = jax.random.bits(jax.random.key(73), (3,))
        self.assertArraysEqual(jax.random.bits(key, (3,)), bits)
        self.assertArraysEqual(jax.jit(lambda k: jax.random.bits(k, (3,)))(key), bits)
        one = jnp.stack([jax.random.bits(k) for k in keys])
        self.assertArraysEqual(jax.vmap(jax.random.bits)(keys), one)
        nested = jax.vmap(jax.vmap(jax.random.fold_in), in_axes=(0, 1))(
            keys.reshape(2, 3), jnp.arange(6).reshape(3, 2)
        )
        self.assertEqual(nested.shape, (2, 3))
        self.assertArraysEqual(
            jax.random.key_data(nested[1, 2]), jax.random.key_data(jax.random.fold_in(keys[5], 5))
        )
        for same in (
            jnp.where(True, key, key), keys.at[2].set(key)[2], jnp.stack([keys[1], key])[1],
            jax.lax.cond(True, lambda k: k, lambda k: k, key), jnp.broadcast_to(key, (3,))[2],
            jax.random.wrap_key_data(words, impl=PAIRS), pickle.loads(pickle.dumps(key)),
        ):  # fmt: skip
            self.assertArraysEqual(jax.random.key_data(same), words)
        with self.assertRaisesRegex(TypeError, r"key_data.shape to end with \(2, 2\)"):
            jax.random.wrap_key_data(words[:1], impl=PAIRS)

    def test_keys_are_no_numbers(self):
        key = jax.random.key(0)
        for way in (lambda k: k + 47, jax.jit(lambda k: k + 47)):
            with self.assertRaisesRegex(TypeError, r"add does not accept dtypes key<.*>, int.*"):
                way(key)
        with self.assertRaisesRegex(TypeError, r"power does not accept dtypes int.*, key<.*>"):
            2**key
        with self.assertRaisesRegex(TypeError, r"less does not accept dtypes key<.*>, int.*"):
            key < 3  # noqa: B015

    def test_attention_by_cudnn(self):
        self.assertEqual(
            [m.name for m in MaskType],
            ["NO_MASK", "PADDING", "CAUSAL", "PADDING_CAUSAL", "ALIBI"],
        )
        self.assertEqual(AttentionLayout["BNTH"].value, 1)
        with self.assertRaisesRegex(RuntimeError, "cuDNN is not detected"):
            check_cudnn_version()

    def test_types(self):
        self.assertTrue(all(isinstance(d, np.dtype) for d in dtypes._jax_types))
        for kind in ("bool", "uint8", "int32", "bfloat16", "float32", "complex64"):
            d = jnp.dtype(kind)
            self.assertEqual(dtypes._jax_type(*dtypes._dtype_and_weaktype(d)), d)
        for weak in dtypes._weak_types:
            self.assertIs(dtypes._jax_type(*dtypes._dtype_and_weaktype(weak)), weak)
            self.assertIs(dtypes._jax_type(*dtypes._dtype_and_weaktype(weak(0))), weak)
        self.assertIs(dtypes._jax_type(jnp.dtype("bfloat16"), True), float)
        least = dtypes._least_upper_bound
        self.assertEqual(least("standard", False, np.dtype("int8"), np.dtype("uint8")), np.int16)
        self.assertEqual(least("standard", True, int, np.dtype("uint8")), np.uint8)
        with self.assertRaisesRegex(dtypes.TypePromotionError, "dtype_promotion=strict"):
            least("strict", True, np.dtype("int8"), np.dtype("uint8"))
        check = dtypes.check_and_canonicalize_user_dtype
        self.assertEqual(check(int, "here"), dtypes.default_int_dtype())
        with self.assertRaises(ValueError):
            check(None)
        with self.assertRaisesRegex(TypeError, "only supports number, bool, and string dtypes"):
            check(object)
        self.assertTrue(issubclass(dtypes.InvalidInputException, TypeError))
        with self.assertRaisesRegex(TypeError, "got dtype S3 in here"):
            check("S3", "here")

    def test_dtypes_of_values_and_names_are_canonical(self):
        for kind, name in {int: "int64", float: "float64", complex: "complex128"}.items():
            canonical = dtypes.canonicalize_dtype(name)
            for given in (kind, kind(0), np.dtype(name), name):
                with jtu.ignore_warning(category=UserWarning):
                    self.assertEqual(dtypes.dtype(given), canonical)
            # A name of NumPy's dtype is no Python number, though the two are equal.
            self.assertTrue(dtypes.safe_to_cast(np.dtype(name), canonical))
        self.assertTrue(dtypes.safe_to_cast(np.dtype("bool"), np.dtype("bool")))
        with self.assertRaisesRegex(ValueError, "Invalid argument to dtype: None"):
            dtypes.dtype(None)
        self.assertTrue(dtypes.isdtype("bfloat16", ("bool", "real floating")))
        self.assertFalse(dtypes.isdtype(np.dtype("uint8"), "signed integer"))

    def test_weak_types_are_of_the_default_width(self):
        expected = {"int8": "i", "uint16": "u", "float16": "f", "bfloat16": "f", "complex64": "c"}
        for name, kind in expected.items():
            x = lax_internal._convert_element_type(0, jnp.dtype(name), weak_type=True)
            self.assertEqual(x.dtype, name)
            self.assertEqual(dtypes.result_type(x), dtypes.default_types[kind]())
            self.assertEqual(jnp.result_type(x), dtypes.default_types[kind]())
            both = dtypes.result_type(x, return_weak_type_flag=True)
            self.assertEqual(both, (dtypes.default_types[kind](), True))

    def test_what_is_deprecated(self):
        name = "jax-nn-one-hot-float-input"
        self.assertFalse(deprecations.is_accelerated(name))
        with self.assertDeprecationWarnsOrRaises(name, "one_hot input should be integer-typed"):
            jax.nn.one_hot(jnp.ones(2), 3)

    @jax.numpy_dtype_promotion("standard")
    def test_types_that_do_not_promote(self):
        for a, b, why in (
            ("float8_e4m3fn", "float32", "8-bit floats do not support implicit promotion"),
            ("float4_e2m1fn", "float32", "4-bit floats do not support implicit promotion"),
            ("int4", "int32", "4-bit integers do not support implicit promotion"),
            ("int2", "int4", "4-bit integers do not support implicit promotion"),
            ("int4", "float8_e5m2", "8-bit floats do not support implicit promotion"),
        ):
            with self.assertRaisesRegex(dtypes.TypePromotionError, why):
                jnp.promote_types(a, b)

    def test_diagonals(self):
        f32, i32 = np.dtype("float32"), np.dtype("int32")
        for offset in (-1, 0, 2):
            eye = lax_internal._eye(f32, (2, 3), offset)
            self.assertArraysEqual(eye, np.eye(2, 3, offset, dtype=f32))
            tri = lax_internal._tri(f32, (2, 3), offset)
            self.assertArraysEqual(tri, np.tri(2, 3, offset, dtype=f32))
        delta = lax_internal._delta(i32, (2, 3, 2), (0, 2))
        self.assertArraysEqual(delta, np.eye(2, dtype=i32)[:, None] * np.ones((2, 3, 2), i32))
        all_three = lax_internal._delta(i32, (2, 2, 2), (0, 1, 2))
        self.assertEqual(np.flatnonzero(all_three).tolist(), [0, 7])

    def test_searches_on_lines(self):
        def square(x):
            return jnp.dot(x, x)

        p = jnp.array([1.0, 0.0])
        found = line_search(square, -60 * p, p, c2=0.5)
        self.assertFalse(found.failed)
        self.assertGreaterEqual(found.a_k, 30.0)
        self.assertLess(found.f_k, 30.0**2)
        self.assertTrue(line_search(square, -60 * p, p, c2=0.5, maxiter=5).failed)
        known = line_search(square, p, -p, old_fval=square(p), gfk=jax.grad(square)(p))
        self.assertEqual(known.a_k, 1.0)
        self.assertEqual(known.f_k, 0.0)

    def test_steps_of_gmres(self):
        n = 5
        A = jnp.asarray(self.rng().randn(n, n), jnp.float32)
        V = jnp.zeros((n, n + 1)).at[:, 0].set(1 / np.sqrt(n))
        H = jnp.eye(n, n + 1)
        product = jax.tree_util.Partial(lambda x: A @ x)
        for k in range(n):
            V, H, _ = _kth_arnoldi_iteration(k, product, lambda x: x, V, H)
        self.assertAllClose(V[:, :n].T @ A @ V[:, :n], H.T[:n], atol=1e-4, rtol=1e-4)


class SparseTest(jtu.JaxTestCase):
    """Operations on the parts of sparse arrays."""

    def matrix(self, *shape):
        x = self.rng().randint(1, 9, shape).astype(np.float32)
        return x * (self.rng().rand(*shape) < 0.5)

    def test_matrices(self):
        x, v = self.matrix(4, 5), np.arange(5.0, dtype=np.float32)
        nse = int(util._count_stored_elements(x))
        self.assertEqual(nse, np.count_nonzero(x))
        data, row, col = parts = coo._coo_fromdense(x, nse=nse, index_dtype=jnp.int32)
        info = coo.COOInfo(shape=x.shape, rows_sorted=True)
        self.assertArraysEqual(coo._coo_todense(*parts, spinfo=info), x)
        self.assertAllClose(coo._coo_matvec(*parts, v, spinfo=info), x @ v)
        u = np.ones(4, np.float32)
        self.assertAllClose(coo._coo_matvec(*parts, u, spinfo=info, transpose=True), x.T @ u)
        B = np.stack([v, v * v], 1)
        self.assertAllClose(coo._coo_matmat(*parts, B, spinfo=info), x @ B)
        self.assertArraysEqual(util._coo_extract(row, col, x), data)
        data, indices, indptr = rows = csr._csr_fromdense(x, nse=nse, index_dtype=jnp.int32)
        self.assertArraysEqual(csr._csr_todense(*rows, shape=x.shape), x)
        self.assertAllClose(csr._csr_matvec(*rows, v, shape=x.shape), x @ v)
        self.assertAllClose(csr._csr_matmat(*rows, B, shape=x.shape), x @ B)
        self.assertArraysEqual(util._csr_to_coo(indices, indptr)[0], row)
        self.assertArraysEqual(util._csr_extract(indices, indptr, x), data)
        by_data = jax.jacrev(lambda d: csr._csr_matvec(d, indices, indptr, v, shape=x.shape))(data)
        self.assertEqual(by_data.shape, (4, nse))

    def test_arrays(self):
        x = self.matrix(3, 4, 5)
        for n_batch, n_dense in ((0, 0), (1, 0), (0, 1), (1, 1)):
            nse = int(util._count_stored_elements(x, n_batch=n_batch, n_dense=n_dense))
            stored = sparse.BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
            self.assertEqual(nse, stored.nse)
            data, indices = bcoo._bcoo_fromdense(x, nse=nse, n_batch=n_batch, n_dense=n_dense)
            self.assertArraysEqual(data, stored.data)
            info = util.SparseInfo(x.shape)
            self.assertArraysEqual(bcoo._bcoo_todense(data, indices, spinfo=info), x)
            self.assertArraysEqual(bcoo._bcoo_extract(indices, x), data)
            self.assertEqual(bcoo._validate_bcoo(data, indices, x.shape).n_dense, n_dense)
            if n_dense:
                continue
            dims = (((2,), (0,)), ((), ()))
            product = bcoo._bcoo_dot_general(
                data, indices, np.ones((5, 2), np.float32), dimension_numbers=dims,
                preferred_element_type=None, lhs_spinfo=info,
            )  # fmt: skip
            self.assertAllClose(product, x @ np.ones((5, 2), np.float32))
        twice = jnp.array([[0], [5], [0], [3]])
        self.assertArraysEqual(
            bcoo._bcoo_extract(twice, jnp.arange(1, 7), assume_unique=False),
            jnp.array([1, 6, 0, 4]),
        )
        rows = bcsr._bcsr_fromdense(x[0], nse=20)
        self.assertArraysEqual(bcsr._bcsr_todense(*rows, spinfo=util.SparseInfo((4, 5))), x[0])
        shape = util._dot_general_validated_shape((2, 3), (3, 4), (((1,), (0,)), ((), ())))
        self.assertEqual(shape, (2, 4))
        with self.assertRaisesRegex(TypeError, "contracting dimensions to have the same shape"):
            util._dot_general_validated_shape((2, 3), (4, 4), (((1,), (0,)), ((), ())))

    def test_texts_of_traced_arrays(self):
        x = sparse.BCOO.fromdense(jnp.arange(5, dtype="float32"))
        self.assertEqual(repr(x), "BCOO(float32[5], nse=4)")
        said = []
        jax.jit(lambda m: said.append(repr(m)))(x)
        self.assertEqual(said, ["DynamicJaxprTracer[BCOO(float32[5], nse=4)]"])


class SparseCaseTest(sptu.SparseTestCase):
    """JAX's class of tests of sparse arrays is one of its tests."""

    @jtu.sample_product(dtype=_lowerings.SUPPORTED_DATA_DTYPES[::2])
    def test_beside_dense_arrays(self, dtype):
        sprng, rng = sptu.rand_bcoo(self.rng()), jtu.rand_default(self.rng())
        args = lambda: [sprng((3, 4), dtype), rng((4,), dtype)]
        product = lambda m, x: m @ x
        self._CheckAgainstDense(product, product, args, tol=1e-5)
        self._CompileAndCheck(product, args)
        self.assertIn(np.complex64, sptu.MATMUL_TOL)

    def test_operations_mix_ranks_inside(self):
        """Under the flags that JAX's tests set."""
        sprng = sptu.rand_bcoo(self.rng(), n_batch=1)
        args = lambda: [sprng((3, 4, 5), np.float32, n_batch=0)]
        box = {"start_indices": (1, -7, 2), "slice_sizes": (2, 2, 3)}
        for dense, stored in (
            (lambda x: x.sum((0, 2)), lambda m: sparse.bcoo_reduce_sum(m, axes=(0, 2))),
            (lambda x: x[1:, ::2], lambda m: m[1:, ::2]),
            (lambda x: x[np.array([2, 0])], lambda m: m[np.array([2, 0])]),
            (lambda x: lax.rev(x, (1,)), lambda m: sparse.bcoo_rev(m, dimensions=(1,))),
            (lambda x: lax.dynamic_slice(x, **box), lambda m: sparse.bcoo_dynamic_slice(m, **box)),
            (lambda x: x, lambda m: m.sum_duplicates(nse=60)),
        ):
            self._CheckAgainstDense(dense, stored, args)
            self._CheckGradsSparse(dense, stored, args)
        several = lambda: [[sprng((3, 4), np.float32) for _ in range(2)]]
        join = {"dimension": 1}
        self._CheckGradsSparse(
            lambda xs: lax.concatenate(xs, **join),
            lambda ms: sparse.bcoo_concatenate(ms, **join), several,
        )  # fmt: skip

    def test_axes_of_a_batch_that_are_broadcast(self):
        rng = self.rng()
        indices = jnp.array(rng.randint(0, 9, (1, 3, 1, 10, 2)), "int32")
        data = jnp.array(rng.randint(0, 9, (1, 1, 4, 10, 3)), "int32")
        m = sparse.BCOO((data, indices), shape=(2, 3, 4, 5, 4, 3))
        for sort in (sparse.bcoo_sort_indices, jax.jit(sparse.bcoo_sort_indices)):
            found = sort(m)
            self.assertEqual(found.indices.shape, indices.shape)
            self.assertEqual(found.data.shape, (1, 3, 4, 10, 3))
            self.assertArraysEqual(m.todense(), found.todense())
        x = jnp.arange(12.0).reshape(2, 2, 3)
        i = jnp.array([[[0, 1], [1, 2]]])
        self.assertArraysEqual(bcoo._bcoo_extract(i, x), jnp.array([[1.0, 5.0], [7.0, 11.0]]))

    def test_places_of_no_axes_and_more_axes_of_a_batch_than_a_product_has(self):
        none = jnp.empty((3, 2, 0), "int32")
        x = jnp.array([1, 5, 9])
        self.assertArraysEqual(bcoo._bcoo_extract(none, x), jnp.repeat(x, 2).reshape(3, 2))
        once = bcoo._bcoo_extract(none, x, assume_unique=False)
        self.assertArraysEqual(once, jnp.array([[1, 0], [5, 0], [9, 0]]))
        a, numbers = jnp.arange(4.0).reshape(2, 2), (((1,), (0,)), ((), ()))
        i = jnp.array([[[1]], [[0]]])
        found = sparse.bcoo_dot_general_sampled(a, a, i, dimension_numbers=numbers)
        self.assertArraysEqual(found, jnp.array([[3.0], [6.0]]))

    def test_parts(self):
        for kind in ("csr", "csc", "bcoo"):
            eye = jax.jit(lambda kind=kind: sparse.eye(3, 4, 1, sparse_format=kind))()
            self.assertArraysEqual(eye.todense(), jnp.eye(3, 4, 1))
        x = jnp.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])
        _, i = bcoo._bcoo_fromdense(x, nse=3)
        found = bcsr._bcoo_to_bcsr(i, shape=x.shape, index_dtype=jnp.int32)
        self.assertArraysEqual(found[0], jnp.array([0, 2, 2]))
        self.assertArraysEqual(found[1], jnp.array([0, 2, 3]))
        counts = util._count_stored_elements_per_batch(x, n_batch=1)
        self.assertArraysEqual(counts, jnp.array([2, 1]))


class KeysTest(jtu.JaxTestCase):
    @jax.legacy_prng_key("allow")
    def test_signatures(self):
        sink, source, forward = key_reuse.Sink(1), key_reuse.Source(0), key_reuse.Forward(0, 1)
        said = key_reuse.KeyReuseSignature(forward, source, sink, key_reuse.Sink(0))
        wanted = "KeyReuseSignature(Sink(0), Sink(1), Source(0), Forward(0, 1))"
        self.assertEqual(repr(said), wanted)
        mask = np.array([True, False])
        self.assertFalse(key_reuse.Sink(0, mask).mask.flags.writeable)
        self.assertTrue(mask.flags.writeable)
        with self.assertRaises(ValueError):
            sink.idx = 2
        clone = key_reuse.function_type_signature(jax.random.clone, jax.random.key(0))
        self.assertEqual(clone, key_reuse.key_reuse_signatures[private_random.random_clone_p])

    @jax.debug_key_reuse(True)
    def test_what_was_consumed(self):
        key = jax.random.key(0)
        again = jax.random.clone(key)
        draw = jax.jit(lambda: jax.random.uniform(key))
        draw()
        self.assertTrue(key._consumed)
        self.assertFalse(again._consumed)
        with self.assertRaisesRegex(jax.errors.KeyReuseError, "jit-compiled function at index 0"):
            draw()


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
