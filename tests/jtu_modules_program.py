"""Modules that tests of JAX import, in tests of their form: run with real JAX, and by
`python -m pullback run`."""

import contextlib
import gc
import gzip
import hashlib
import importlib.util
import io
import logging
import tempfile
import traceback
import unittest

import jax
import jax.numpy as jnp
import numpy as np
from absl.testing import absltest
from jax._src import (
    ad_checkpoint,
    cache_key,
    compiler,
    config,
    core,
    custom_partitioning_sharding_rule as rules,
    debugger,
    debugging,
    earray,
    error_check,
    hashable_array,
    hijax,
    logging_config,
    lru_cache,
    pickle_util,
    pretty_printer as pp,
    sourcemap,
    test_util as jtu,
    util,
    xla_bridge,
    xla_metadata_lib,
)
from jax._src.debugger import core as debugger_core
from jax._src.internal_test_util import lazy_loader_module
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax._src.numpy import error as numpy_error
from jax._src.state import utils as state_utils
from jax._src.tpu.linalg import qdwh, svd
from jax._src.tpu.linalg.stack import Stack
from jax.experimental import (
    buffer_callback,
    control_deps,
    rnn,
    roofline,
    scheduling_groups,
    serialize_executable,
    topologies,
    xla_metadata,
)
from jax.experimental.key_reuse import _core as key_reuse
from jax.tools import jax_to_ir


class TextTest(jtu.JaxTestCase):
    def test_documents(self):
        inner = pp.nest(2, pp.concat([pp.brk(), pp.text("there"), pp.brk(""), pp.text("!")]))
        doc = pp.group(pp.concat([pp.text("hello"), inner]))
        self.assertEqual(doc.format(width=80), "hello there!")
        self.assertEqual(doc.format(width=8), "hello\n  there\n  !")
        noted = pp.concat([pp.text("ab", annotation="one"), pp.brk(), pp.text("c", annotation="2")])
        self.assertEqual(noted.format(annotation_prefix=" ; "), "ab ; one\nc  ; 2")
        red = pp.color(pp.text("a") + pp.keyword(pp.text("b")), foreground=pp.Color.RED)
        self.assertEqual(red.format(use_color=True), "\x1b[31ma\x1b[34;1mb\x1b[39;22m")
        where = []
        mapped = pp.concat([pp.text("x "), pp.source_map(pp.text("abc"), "s"), pp.brk()])
        self.assertEqual(pp.group(mapped).format(source_map=where), "x abc ")
        self.assertEqual(where, [[(2, 5, "s")]])

    def test_programs(self):
        jaxpr = jax.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0).jaxpr
        context, settings = core.JaxprPpContext(), core.JaxprPpSettings()
        said = core.pp_jaxpr(jaxpr, context, settings).format(width=20)
        self.assertTrue(said.startswith("{ lambda ; a:f32[]. let\n    b:f32[] = sin a"), said)
        self.assertEqual(str(core.pp_vars(jaxpr.invars, context, print_shapes=True)), "a:f32[]")
        hoisted = state_utils.hoist_consts_to_refs(
            jax.make_jaxpr(lambda x: x + np.ones(3))(1.0).jaxpr
        )
        self.assertIn("Ref{f32[3]}", str(hoisted))
        x = jnp.arange(16, dtype=jnp.int32).reshape(4, 4)
        self.assertEqual(state_utils.bitcast(x, jnp.int16).shape, (8, 4))
        self.assertArraysEqual(state_utils.bitcast(x, jnp.int16)[::2], x.astype(jnp.int16))
        self.assertIn("HloModule", jax_to_ir.jax_to_ir(
            lambda x, y: x + y, [("x", jax_to_ir.parse_shape_str("f32[2]"))],
            constants={"y": 2.0}, format="HLO")[1])  # fmt: skip

    def test_rules_of_division(self):
        parse = rules.str_to_sdy_sharding_rule
        for text, sizes, said in (
            ("i j, j k -> i k", {}, "SdyShardingRule((('i', 'j'), ('j', 'k')), (('i', 'k'),), {})"),
            ("(i j) -> i j", {}, "SdyShardingRule(((('i', 'j'),),), (('i', 'j'),), {})"),
            ("... i -> ... i", {}, "SdyShardingRule((('…0', 'i'),), (('…0', 'i'),), {})"),
        ):
            self.assertEqual(str(parse(text, **sizes)), said)
        for text, why in (
            ("i j", "There is no ->"), ("i ) -> i", "not balanced"), ("1 -> i", "with a letter"),
            ("(i) -> i", "at least two factors"), ("i ... -> i", "beginning of a dimension"),
        ):  # fmt: skip
            with self.assertRaisesRegex(ValueError, why):
                parse(text)
        with mlir.make_ir_context() as context, ir.Location.unknown(context):
            a, b, c = (ir.RankedTensorType.get(s, ir.F32Type.get()) for s in ((8,), (2, 4), (9,)))
            rule = rules.sdy_sharding_rule_to_mlir(parse("(i j) -> i j"), [a], [b])
            self.assertIn("([ij])->([i, j]) {i=2, j=4}", str(rule))
            with self.assertRaisesRegex(ValueError, "size 9 doesn't match"):
                rules.sdy_sharding_rule_to_mlir(parse("(i j) -> i j"), [c], [b])

    def test_debugger(self):
        out = io.StringIO()
        commands = io.StringIO("p y\npp x\nbt\nnothing\nl\nc\n")

        @jax.jit
        def f(x):
            y = x + 1
            debugger.breakpoint(stdin=commands, stdout=out, backend="cli", num_frames=1)
            return y

        f(2.0)
        jax.effects_barrier()
        said = out.getvalue()
        self.assertTrue(said.startswith("Entering jdb:\n(jdb) Array(3., dtype=float32"), said)
        self.assertIn("(jdb) Traceback:\n  File", said)
        self.assertIn("*** NameError: name 'nothing' is not defined", said)
        self.assertRegex(said, r"y = x \+ 1\n-> +debugger.breakpoint\(stdin")
        self.assertTrue(callable(debugger_core.get_debugger("cli")))

    def test_profiles(self):
        x = jnp.ones((7, 11))
        said = gzip.decompress(jax.profiler.device_memory_profile())
        self.assertIn(b"buffer", said)
        self.assertEqual(jax.profiler.ProfileOptions().python_tracer_level, 1)
        self.assertRaises(ValueError, jax.profiler.stop_server)
        del x

    def test_source_maps(self):
        for n in (0, 1, -1, 15, 16, -123456):
            self.assertEqual(sourcemap.decode_vlq(sourcemap.encode_vlq(n)), n)
        made = sourcemap.MappingsGenerator()
        made.new_group()
        made.new_segment(0, 0, 0, 0)
        made.new_segment(4, 1, 5, 2)
        made.new_group()
        made.new_segment(2, 0, 1, 1)
        found = sourcemap.SourceMap(3, ["a"], ["text"], [], made.mappings())
        self.assertIn('"mappings": "AAAA,ICKE;EDJD"', found.to_json())
        self.assertEqual(sourcemap.SourceMap.from_json(found.to_json()), found)


class KeptTest(jtu.JaxTestCase):
    @unittest.skipUnless(importlib.util.find_spec("filelock"), "needs filelock")
    def test_bounded_files(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = lru_cache.LRUCache(folder, max_size=10)
            self.assertIsNone(kept.get("a"))
            kept.put("a", b"12345")
            kept.put("b", b"12345")
            kept.put("c", b"1")
            self.assertEqual([kept.get(k) for k in "abc"], [None, b"12345", b"1"])
            with self.assertWarnsRegex(UserWarning, "exceeds the maximum"):
                kept.put("d", bytes(11))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = lru_cache.LRUCache(folder, max_size=-1)
            kept.put("a", b"1")
            kept.put("a", b"2")
            self.assertEqual(kept.get("a"), b"1")
            self.assertRaises(ValueError, kept.get, "")

    def test_values(self):
        x = np.arange(3)
        self.assertEqual(pickle_util.loads(pickle_util.dumps((1, "a"))), (1, "a"))
        self.assertLen({hashable_array.HashableArray(x), hashable_array.HashableArray(x.copy())}, 1)
        self.assertTrue(callable(lazy_loader_module.lazy_test_submodule.a_function))
        self.assertRaises(AttributeError, lambda: lazy_loader_module.other)
        with xla_metadata.set_xla_metadata(a=1), xla_metadata.set_xla_metadata(b=2):
            self.assertEqual(xla_metadata_lib.current_xla_metadata(), {"a": 1, "b": 2})
        self.assertIsNone(xla_metadata_lib.current_xla_metadata())

    def test_names_of_programs(self):
        options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
        devices, backend = np.array([[jax.devices()[0]]]), xla_bridge.get_backend()

        def key(f, *args):
            module = jax.jit(f).lower(*args).compiler_ir()
            return cache_key.get(module, devices, options, backend)

        f, g = lambda x: jax.lax.sin(x), lambda x: jax.lax.sin(x)
        self.assertNotEqual(key(f, 1.0), key(jnp.cos, 1.0))
        for whole in (False, True):
            with config.compilation_cache_include_metadata_in_key(whole):
                self.assertEqual(key(f, 1.0) != key(g, 1.0), whole)
        hashes = [hashlib.sha256() for _ in range(2)]
        for h in hashes:
            cache_key._hash_platform(h, backend)
        self.assertEqual(*(h.digest() for h in hashes))

    def test_compiled_functions(self):
        c = jnp.arange(3.0)
        compiled = jax.jit(lambda x, y: {"a": x["q"] + y * c}).lower({"q": c}, c).compile()
        parts = pickle_util.loads(pickle_util.dumps(serialize_executable.serialize(compiled)))
        again = serialize_executable.deserialize_and_load(*parts)
        self.assertAllClose(again({"q": c}, c), {"a": c + c * c})
        self.assertRaises(TypeError, again, {"q": c}, jnp.ones(4))

    def test_devices(self):
        found = topologies.get_attached_topology()
        self.assertEqual(found.devices, jax.devices())
        self.assertRaises(RuntimeError, topologies.get_topology_desc)


test_words = config.enum_state("jax_test_words", enum_values=["one", "two"], default="one", help="")
test_number = config.int_state("jax_test_number", default=3, help="")


class FlagsTest(jtu.JaxTestCase):
    def test_flags_of_ones_own(self):
        self.assertEqual((test_words.value, jax.config.jax_test_words), ("one", "one"))
        with test_words("two"):
            self.assertEqual((test_words.value, test_words.get_global()), ("two", "one"))
        with self.assertRaisesRegex(ValueError, "new enum value must be in"):
            config.update("jax_test_words", "three")
        with self.assertRaisesRegex(ValueError, "None or of type int"):
            config.update("jax_test_number", "x")
        with self.assertRaisesRegex(TypeError, "bool\\(\\) not supported"):
            bool(test_number)
        with self.assertRaisesRegex(Exception, "already defined"):
            config.bool_state("jax_test_number", default=False, help="")

    def test_errors_of_numpys_functions(self):
        x, at = jnp.arange(3), jnp.array([1, 5])
        found = {}
        for what, f in {
            "nan": lambda: jnp.log(jnp.array([1.0, -1.0])),
            "divide": lambda: x // x,
            "oob": lambda: x[at],
        }.items():
            for g in (f, jax.jit(f)):
                g()
                error_check.raise_if_error()  # nothing is noted without the flag
                with numpy_error.error_checking_behavior(**{what: "raise"}):
                    g()
                    g()
                with self.assertRaisesRegex(error_check.JaxValueError, " encountered") as caught:
                    error_check.raise_if_error()
            found[what] = str(caught.exception)
        self.assertEqual(found["nan"], "NaN encountered")
        self.assertEqual(found["divide"], "Division by zero encountered")
        self.assertIn("Out of bounds encountered", found["oob"])

    def test_flags_act(self):
        x, f = jnp.arange(3.0), jax.jit(lambda x: x + 1)
        f(x)
        with config.no_execution(True):
            for g in (f, jnp.sin, lambda x: x + 1):
                with self.assertRaisesRegex(RuntimeError, "no_execution"):
                    g(x)
            jax.make_jaxpr(jnp.sin)(x)
        mesh = jax.sharding.Mesh(jax.devices()[:1], ("x",))
        with config.disallow_mesh_context_manager(True):
            self.assertRaisesRegex(RuntimeError, "Mesh context manager", mesh.__enter__)
        sums = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())
        with config.log_checkpoint_residuals(True), self.assertLogs(level="WARNING") as logs:
            jax.grad(sums)(x)
        self.assertIn("saving inputs with shapes:\n  float32[3]", logs.output[0])

        class Held:
            pass

        with jax.array_garbage_collection_guard("log"), jtu.capture_stderr() as said:
            held = Held()
            held.itself, held.array = held, jnp.arange(3.0)
            del held
            gc.collect()
        self.assertIn("deleted by the Python garbage collector", said())

    def test_loggers(self):
        logger = logging.getLogger("jax._src.of_this_test")
        before = logger.level
        logging_config.update_debug_log_modules(logger.name)
        self.assertTrue(logger.isEnabledFor(logging.DEBUG))
        logging_config.update_debug_log_modules(None)
        self.assertEqual((logger.level, logger.handlers), (before, []))
        with self.assertRaisesRegex(ValueError, "one of the supported"):
            logging_config.update_logging_level_global("no level")
        aval = jax.core.ShapedArray((2,), jnp.dtype("float32"))
        held = earray.EArray(aval, jnp.ones(2))
        self.assertEqual((held.shape, held.copy().block_until_ready().ndim), ((2,), 1))

    def test_small_things(self):
        nodes = [absltest.mock.Mock(parents=[]) for _ in range(3)]
        nodes[2].parents, nodes[1].parents = [nodes[0], nodes[1]], [nodes[0]]
        order = util.toposort([nodes[2]])
        self.assertLess(order.index(nodes[1]), order.index(nodes[2]))
        self.assertEqual(util.Hashable(3), util.Hashable(3))
        self.assertRaises(TypeError, hash, util.Unhashable(3))
        remembered = util.multi_weakref_lru_cache(lambda *_: object())
        self.assertIs(remembered(nodes[0], 1), remembered(nodes[0], 1))
        with jtu.count_events("test")() as count:
            util.test_event("test")
        self.assertEqual(count(), 1)
        with jtu.collect_lowered_jaxprs() as found:
            jax.jit(lambda x: jnp.sin(x) * 3)(1.0)
        self.assertIn("sin", str(found[-1][0]))
        self.assertIn("stablehlo.sine", str(found[-1][1]))

    @unittest.skipUnless(importlib.util.find_spec("mpmath"), "needs mpmath")
    def test_precise_functions(self):
        import mpmath

        precise = jtu.numpy_with_mpmath(mpmath, extra_prec_multiplier=1)
        x = np.array([0.5, np.inf, -1e-30], np.float32)
        self.assertAllClose(precise.exp(x), np.exp(x))
        self.assertAllClose(precise.log1p(x), np.log1p(x))

    def test_keys(self):
        def f(key):
            key_reuse.assert_unconsumed(key)
            twin = key[None]
            key_reuse.consume(key)
            key_reuse.assert_consumed(twin)

        key = jax.random.key(0)
        key_reuse.check_key_reuse(f, key)
        self.assertRaises(AssertionError, key_reuse.check_key_reuse, key_reuse.assert_consumed, key)
        Sink, Source, Signature = key_reuse.Sink, key_reuse.Source, key_reuse.KeyReuseSignature
        split = key_reuse.function_type_signature(jax.random.split, key)
        self.assertEqual(split, Signature(Sink(0), Source(0)))
        with self.assertRaisesRegex(jax.errors.KeyReuseError, "In jit, argument 0"):
            key_reuse.check_key_reuse(lambda k: [jax.random.uniform(k) for _ in range(2)], key)

    def test_boxes(self):
        def doubled(box):
            box.set(box.get() * 2)

        box = hijax.Box(jnp.float32(3))
        jax.jit(doubled)(box)
        self.assertEqual(box.get(), 6)
        jax.lax.fori_loop(0, 3, lambda i, _: doubled(box), None)
        self.assertEqual(box.get(), 48)

        def made(x):
            box = hijax.new_box()
            box.set((x, x + 1))
            return box.get()

        self.assertEqual(jax.jit(made)(1.0), (1.0, 2.0))
        self.assertIn("box_set[treedef=PyTreeDef((*, *))] b a", str(jax.make_jaxpr(made)(1.0)))

    def test_polar_factors(self):
        a = np.random.RandomState(0).randn(6, 4).astype(np.float32)
        u, h, _, converged = qdwh.qdwh(jnp.array(a))
        self.assertTrue(converged)
        self.assertAllClose(u @ h, a, atol=1e-5)
        self.assertAllClose(u.T @ u, np.eye(4, dtype=np.float32), atol=1e-5)
        u, s, vh = svd.svd(jnp.array(a), full_matrices=False)
        self.assertAllClose((u * s[None]) @ vh, a, atol=1e-5)
        stack = Stack.create(3, jnp.int32(0)).push(jnp.int32(4)).push(jnp.int32(5))
        top, stack = stack.pop()
        self.assertEqual((top, stack.pop()[0]), (5, 4))


class NotedTest(jtu.JaxTestCase):
    def errors_of(self, f, *args):
        f(*args)
        try:
            error_check.raise_if_error()
        except ValueError as error:
            return str(error), "".join(traceback.format_tb(error.__traceback__))
        return None, ""

    def test_errors(self):
        def positive(x):
            error_check.set_error_if(x <= 0, "x must be positive")  # this line
            return x + 1

        def summed(x):
            return jax.lax.scan(lambda c, a: (c + positive(a), a), 0.0, x)

        for f in (positive, jax.jit(positive), summed, jax.jit(summed)):
            said, where = self.errors_of(f, jnp.arange(3.0))
            self.assertEqual(said, "x must be positive")
            self.assertIn("in positive", where)
            self.assertIn("this line", where)
            self.assertIsNone(self.errors_of(f, jnp.ones(3))[0])
        self.assertRaises(ValueError, jax.jit(error_check.raise_if_error))

    def test_errors_of_exported_functions(self):
        def positive(x):
            error_check.set_error_if(x <= 0, "x must be positive")
            return x + 1

        wrapped = jax.jit(error_check.wrap_for_export(jax.jit(positive)))
        call = jax.export.export(wrapped)(jnp.float32(1)).call
        with contextlib.suppress(ImportError):  # JAX's files need flatbuffers
            call = jax.export.deserialize(
                jax.export.export(wrapped)(jnp.float32(1)).serialize()
            ).call
        said, _ = self.errors_of(jax.jit(error_check.unwrap_from_import(call)), jnp.float32(-3))
        self.assertIn("x must be positive", said)

    def test_groups(self):
        f = scheduling_groups.scheduling_group(name="g")(lambda x: jnp.sin(x) * 2)
        for g, x in ((f, 1.0), (jax.grad(f), 1.0), (jax.vmap(f), jnp.ones(3)), (jax.jit(f), 1.0)):
            self.assertIn("scheduling_group=g", str(jax.make_jaxpr(g)(x)))
        self.assertAllClose(jax.jit(jax.grad(f))(1.0), 2 * jnp.cos(1.0))
        self.assertEqual(jax.jit(control_deps.control_dep)(1.0, 2.0), ())

    def test_results_in_place(self):
        def doubled(context, out, x):
            self.assertEqual(context.stage, buffer_callback.ExecutionStage.EXECUTE)
            self.assertTrue(out.writeable and not x.writeable)
            np.asarray(out)[...] = 2 * np.asarray(x)

        shape = jax.ShapeDtypeStruct((3,), jnp.float32)
        f = buffer_callback.buffer_callback(doubled, shape, vmap_method="sequential")
        for g in (f, jax.jit(f)):
            self.assertAllClose(g(jnp.ones(3)), 2 * jnp.ones(3))
        self.assertAllClose(jax.vmap(f)(jnp.ones((2, 3))), 2 * jnp.ones((2, 3)))
        with self.assertRaisesRegex(ValueError, "do not support JVP"):
            jax.jvp(f, (jnp.ones(3),), (jnp.ones(3),))

    def test_rooflines(self):
        x, a, b = jnp.zeros((3, 8)), jnp.zeros((3, 7)), jnp.zeros((7, 5))
        Result = roofline.RooflineResult
        image, kernel = jnp.zeros((2, 3, 8, 8)), jnp.zeros((6, 1, 3, 3))

        def convolved(x, k):
            return jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", feature_group_count=3)

        for f, args, wanted in (
            (jnp.sin, (x,), (0, 24, 0, 96, 192)),
            (lambda x: jnp.sin(x) + jnp.cos(x), (x,), (0, 72, 0, 192, 672)),
            (lambda a, b: jnp.sin(a) @ b, (a, b), (210, 231, 284, 224, 452)),
            (lambda x: jnp.where(x > 0, x, x).sum(0), (x,), (0, 64, 0, 216, 372)),
            (convolved, (image, kernel), (0, 11616, 0, 3072, 4824)),
            (lambda x: x.at[jnp.array([0, 1])].add(1.0), (x,), (0, 22, 0, 168, 244)),
        ):
            found = roofline.roofline(f)(*args)[1]
            names = "flops", "unfused_flops", "hbm_bytes", "peak_hbm_bytes", "unfused_hbm_bytes"
            self.assertEqual(found, Result(**dict(zip(names, wanted))))
        axes = jax.sharding.AbstractMesh((4, 2), ("x", "y"))
        spec, free = jax.P(("x", "y")), jax.P()
        shape = jax.ShapeDtypeStruct((64, 16), jnp.float32)
        for f, moved, steps in (
            (lambda x: jax.lax.psum(x, ("x", "y")), 448, 16),
            (lambda x: jax.lax.pmax(x, ("x", "y")), 14, 8),
            (lambda x: jax.lax.all_to_all(x, ("x", "y"), 0, 1, tiled=True), 1024, 3),
            (lambda x: jax.lax.ppermute(x, ("x", "y"), [(i, 7 - i) for i in range(8)]), 1024, 2),
        ):
            whole = free if "psum" in f.__code__.co_names or "pmax" in f.__code__.co_names else spec
            found = roofline.roofline(f, axes, spec, whole)(shape)[1]
            self.assertEqual(found.ici_bytes, {"x": moved, "y": moved})
            self.assertEqual(found.ici_latency, {"x": steps, "y": steps})

    def test_recurrent_networks(self):
        sizes = {"input_size": 3, "hidden_size": 4, "num_layers": 2, "bidirectional": True}
        weights = rnn.init_lstm_weight(jax.random.key(1), **sizes)
        self.assertEqual(weights.shape, (rnn.get_num_params_in_lstm(**sizes),))
        x = jax.random.normal(jax.random.key(2), (2, 5, 3))
        h, c = jax.random.normal(jax.random.key(3), (2, 4, 2, 4))
        unpacked = rnn.unpack_lstm_weights(weights, **sizes)
        y, h, c = rnn.lstm_ref(x, h, c, *unpacked, jnp.array([3, 5]), dropout=0.0, **sizes)
        found = [float(jnp.vdot(a, jnp.cos(jnp.arange(a.size)))) for a in (y, h, c)]
        self.assertAllClose(found, [0.013783, -0.542905, -1.761992], atol=1e-4, check_dtypes=False)
        swapped = rnn.swap_lstm_gates(weights, **sizes)
        self.assertAllClose(swapped[24:36], weights[36:48])  # the output's gate, of rows of 3


class Place:
    """What a drawing asks of a device."""

    def __init__(self, number):
        self.platform, self.id = "CPU", number


class DrawnTest(jtu.JaxTestCase):
    """What jax.debug draws and prints."""

    def drawn(self, shape, mesh_shape, *spec):
        places = np.array([Place(k) for k in range(np.prod(mesh_shape))]).reshape(mesh_shape)
        mesh = jax.sharding.Mesh(places, ("x", "y"))
        layout = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
        with jtu.capture_stdout() as output:
            debugging.visualize_sharding(shape, layout)
        return output().splitlines()

    def test_columns_are_as_wide_as_what_is_in_them(self):
        lines = self.drawn((8, 8), (4, 2), None, "y")
        self.assertEqual(lines[0], "┌───────────┬───────────┐")
        self.assertIn("│CPU 0,2,4,6│CPU 1,3,5,7│", lines)
        self.assertEqual({len(line) for line in lines}, {25})
        lines = self.drawn((32,), (2, 8), "y")
        self.assertEqual(lines[1].split("│")[1:4], ["CPU 0,8", "CPU 1,9", "CPU 2,10"])
        self.assertEqual({len(line) for line in lines}, {71})

    def test_arguments_that_no_placeholder_takes(self):
        x = jnp.arange(2)
        with self.assertRaisesRegex(ValueError, "Unused keyword.*may be passing an f-string"):
            jax.jit(lambda x: jax.debug.print(f"x: {x}", x=x))(x)

    def test_policies_of_checkpoints_are_beside_it(self):
        def printed(policy):
            def f(x):
                y = ad_checkpoint.checkpoint_name(x + 1.0, "y")
                jax.debug.print("{}", y)
                return jnp.exp(y)

            with jtu.capture_stdout() as output:
                jax.grad(ad_checkpoint.checkpoint(f, policy=policy))(2.0)
                jax.effects_barrier()
            return output()

        self.assertEqual(printed(ad_checkpoint.nothing_saveable), "3.0\n3.0\n")
        self.assertEqual(printed(ad_checkpoint.save_any_names_but_these("y")), "3.0\n3.0\n")
        self.assertEqual(printed(ad_checkpoint.everything_saveable), "3.0\n")
        self.assertIs(ad_checkpoint.dots_saveable, jax.checkpoint_policies.dots_saveable)


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
