"""Plans, threads, cancellation, forks, and the caches of the native back end."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from llvm_kernels import ONE, ZERO, elementwise, i64, loop, reduction, var

from pullback.backends.llvm import (
    Context,
    Plan,
    PlanError,
    compile_kernel,
    compile_kernels,
    compiler,
    encode,
    kernel_compile_count,
    link as link_module,
    loader as loader_module,
    run_kernel,
    scalar_word,
    set_function,
    set_num_threads,
    thread_limit,
)  # fmt: skip
from pullback.backends.llvm.cache import DiskCache, kernel_key
from pullback.backends.llvm.link import assemble
from pullback.backends.llvm.loader import Code, Image, LinkError, link
from pullback.backends.llvm.target import detect_level, host_target, target_for
from pullback.loops.ir import Buf, Call, Carry, Const, For, Kernel, Let, Load, Region, Store, While
from pullback.loops.plan import AllocStep, KernelStep, Program, RetStep, Slot

pytestmark = pytest.mark.skipif(detect_level() == "none", reason="no native code on this machine")


def double():
    return compile_kernel(elementwise([("f64", "add", (0, 0))], ["f64"], "f64"))


def slots_of(plan, *arrays):
    return (ctypes.c_int64 * plan.slot_words)(
        *[a.ctypes.data if a is not None else 0 for a in arrays]
    )


def test_every_step_of_a_plan():
    """y = 2x; then while the host step keeps the flag up: double through scratch, a copy and a
    swap."""
    x, y, flag = np.arange(100.0), np.zeros(100), np.array([True])
    plan, k = Plan(5), double()  # slots: x, y, scratch a, scratch b, flag
    plan.alloc(2, 800)
    plan.alloc(3, 800)
    plan.kernel(k, [0, 2], [100])
    top = plan.host_step(0)
    test = plan.jump_if_not(4, top + 5)
    assert plan.kernel(k, [2, 3], [100]) == test + 1
    plan.swap(2, 3)
    plan.jump(top)
    plan.copy(1, 2, 800)
    plan.free(2)
    plan.free(3)
    plan.ret()
    plan.finish()
    seen = []

    def host(number):
        seen.append(number)
        flag[0] = len(seen) <= 3

    ctx = Context()
    for _ in range(3):
        seen.clear()
        ctx.reset()
        plan.run(slots_of(plan, x, y, None, None, flag), ctx, host)
        assert seen == [0, 0, 0, 0]
        np.testing.assert_array_equal(y, 16 * x)


def test_program_encoding_and_sizes_from_slots():
    kernel = elementwise([("f64", "mul", (0, Const(3.0, "f64")))], ["f64"], "f64")
    slots = [Slot(0, "in", "f64", (10,), 80), Slot(1, "out", "f64", (10,), 80)]
    program = Program(
        [kernel], ["k"], [KernelStep(0, (0, 1), (10,)), RetStep()], slots, [0], [], [1]
    )
    plan = encode(program, [compile_kernel(kernel)])
    x, y = np.arange(10.0), np.zeros(10)
    plan.run(slots_of(plan, x, y), Context())
    np.testing.assert_array_equal(y, 3 * x)
    sized = Plan(3)
    sized.kernel(compile_kernel(kernel), [0, 1], [0], dim_slots=[(0, 2)])
    sized.ret()
    sized.finish()
    y[:] = 0
    sized.run(slots_of(sized, x, y, np.array([4])), Context())
    np.testing.assert_array_equal(y, np.where(np.arange(10) < 4, 3 * x, 0))


def test_failed_allocation_is_reported_and_frees():
    plan = Plan(2)
    plan.alloc(0, 4096)
    plan.alloc(1, 1 << 60)
    plan.ret()
    plan.finish()
    slots = slots_of(plan, None, None)
    with pytest.raises(PlanError, match="out of memory") as info:
        plan.run(slots, Context())
    assert info.value.code == 2
    assert list(slots[:2]) == [0, 0]


def test_host_exception_frees_what_was_allocated():
    plan = Plan(1)
    plan.alloc(0, 4096)
    plan.host_step(0)
    plan.ret()
    plan.finish()
    slots = slots_of(plan, None)

    def host(_):
        raise KeyError("from the user")

    with pytest.raises(KeyError):
        plan.run(slots, Context(), host)
    assert slots[0] == 0


def endless():
    """while True."""
    c, c2 = var("c"), var("c2")
    yes, nxt = var("yes", "bool"), var("nxt")
    o = Buf("o", "i64", (), "out")
    out = var("out")
    cond = Region((c,), (Let(yes, "ge", (c, ZERO)),), (yes,))
    body = Region((c2,), (Let(nxt, "and", (c2, ONE)),), (nxt,))
    return Kernel(
        "endless",
        (o,),
        (),
        (),
        (While((Carry(out, var("k"), ZERO),), cond, body), Store(o, (), out)),
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_cancel_stops_an_endless_kernel(threads):
    plan = Plan(1)
    plan.kernel(compile_kernel(endless()), [0])
    plan.ret()
    plan.finish()
    with thread_limit(threads):
        ctx = Context()
    out = np.zeros(1, "i8")
    threading.Timer(0.05, ctx.cancel).start()
    start = time.perf_counter()
    with pytest.raises(PlanError) as info:
        plan.run(slots_of(plan, out), ctx)
    assert info.value.code == 1 and time.perf_counter() - start < 60
    ctx.reset()
    x, y = np.arange(5.0), np.zeros(5)
    run_kernel(elementwise([("f64", "add", (0, 0))], ["f64"], "f64"), [x, y], [5])
    np.testing.assert_array_equal(y, 2 * x)


def test_error_inside_a_thread_reaches_the_caller():
    n, m, i, j, bad, x = var("n"), var("m"), var("i"), var("j"), var("bad", "bool"), var("x", "f32")
    a = Buf("a", "f32", (n, m), "in")
    fail = Call((), "raise_if", (bad,), (("code", 4), ("equation", 9)))
    inner = loop(j, m, "seq", Load(x, a, (i, j)), Let(bad, "gt", (x, Const(0.5, "f32"))), fail)
    kernel = Kernel("fails", (a,), (n, m), (), (loop(i, n, "parallel", inner),))
    data = np.zeros((500, 500), "f4")
    for threads in (1, 3):
        with thread_limit(threads):
            run_kernel(kernel, [data], data.shape)
            data[377, 12] = 1
            with pytest.raises(PlanError) as info:
                run_kernel(kernel, [data], data.shape)
            assert (info.value.code, info.value.equation) == (4, 9)
            data[377, 12] = 0


def test_concurrent_callers():
    kernel = elementwise([("f64", "exp", (0,)), ("f64", "sin", (1,))], ["f64"], "f64")
    rng = np.random.default_rng(0)
    data = [rng.normal(size=200_000) for _ in range(4)]
    outs = [np.zeros_like(d) for d in data]

    def work(k):
        for _ in range(5):
            run_kernel(kernel, [data[k], outs[k]], [200_000])

    with thread_limit(3):
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    for d, o in zip(data, outs, strict=True):
        np.testing.assert_allclose(o, np.sin(np.exp(d)), rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("pool", "loader"), [("futex", ""), ("condition", ""), ("none", ""), ("futex", "mcjit")]
)
def test_fork_and_pool_kinds(pool, loader):
    code = """
import os, numpy as np, sys
sys.path[:0] = [{!r}, {!r}]
from forked import exit_code
from llvm_kernels import reduction
from pullback.backends.llvm import run_kernel, set_num_threads
set_num_threads(2)
x = np.ones(3_000_000, "f4"); out = np.zeros((), "f4"); k = reduction("add", "f32", 0.0)
for _ in range(20):
    run_kernel(k, [x, out], [len(x)])
assert out == 3e6
pid = os.fork()
out[...] = 0
for _ in range(20):
    run_kernel(k, [x, out], [len(x)])
assert out == 3e6
if pid == 0:
    os._exit(0)
assert exit_code(pid) == 0
print("fine")
""".format(os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "..", "src"))
    env = {**os.environ, "PULLBACK_POOL": pool, "PULLBACK_LOADER": loader}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=240
    )
    assert done.stdout.strip() == "fine", done.stderr


def test_thread_settings_are_checked():
    for bad in (0, -1, 1.5, True, "2"):
        with pytest.raises(ValueError, match="positive integer"):
            set_num_threads(bad)


def test_floating_point_state_is_set_and_restored():
    """Denormals survive even where the caller flushes them."""
    flush = b"\x0f\xae\x1f\xc3"  # stmxcsr [rdi]; ret
    load = b"\x0f\xae\x17\xc3"  # ldmxcsr [rdi]; ret
    if host_target().level == "neon":
        pytest.skip("x86 only")
    store_code, load_code = Code(Image(flush, {"f": 0})), Code(Image(load, {"f": 0}))
    get = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(store_code.symbols["f"])
    put = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(load_code.symbols["f"])
    word = ctypes.c_uint32()
    get(ctypes.addressof(word))
    before = word.value
    try:
        word.value = before | 0x8040
        put(ctypes.addressof(word))
        x, y = np.full(8, 1e-310), np.zeros(8)
        run_kernel(elementwise([("f64", "add", (0, 0))], ["f64"], "f64"), [x, y], [8])
        get(ctypes.addressof(word))
        assert word.value & 0x8040 == 0x8040
    finally:
        word.value = before
        put(ctypes.addressof(word))
    np.testing.assert_array_equal(y, np.full(8, 2e-310))


def test_calls_through_the_table():
    libm = ctypes.CDLL(None)
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_double,
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_double),
    )

    def body(_, x, k, out):
        out[0] = libm_ldexp(x, k)
        return 0 if x >= 0 else 4

    libm_ldexp = libm.ldexp
    libm_ldexp.restype, libm_ldexp.argtypes = ctypes.c_double, [ctypes.c_double, ctypes.c_int]
    callback = prototype(body)
    set_function("test_ldexp", ctypes.cast(callback, ctypes.c_void_p).value)
    n, i, x, y = var("n"), var("i"), var("x", "f64"), var("y", "f64")
    a, o = Buf("a", "f64", (n,), "in"), Buf("o", "f64", (n,), "out")
    call = Call((y,), "test_ldexp", (x, Const(3, "i32")))
    kernel = Kernel(
        "calls",
        (a, o),
        (n,),
        (),
        (loop(i, n, "vector", Load(x, a, (i,)), call, Store(o, (i,), y)),),
    )
    data, out = np.arange(20.0), np.zeros(20)
    run_kernel(kernel, [data, out], [20])
    np.testing.assert_array_equal(out, data * 8)
    with pytest.raises(PlanError):
        run_kernel(kernel, [data - 5, out], [20])


# ---- caches


@pytest.mark.usefixtures("at_rest")
def test_equal_kernels_compile_once(monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE", "0")
    literal = Const(float(np.random.default_rng().normal()), "f64")
    first = elementwise([("f64", "add", (0, literal))], ["f64"], "f64")
    second = elementwise([("f64", "add", (0, literal))], ["f64"], "f64")
    before = kernel_compile_count()
    assert compile_kernel(first) is compile_kernel(second)
    assert kernel_compile_count() == before + 1


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="native threads compile on others only")
@pytest.mark.usefixtures("at_rest")
def test_who_helps_to_compile_leaves_the_desk_to_others(monkeypatch):
    """LLVM prepares a target machine for its first function: whoever compiles next has that one."""
    monkeypatch.setenv("PULLBACK_CACHE", "0")
    numbers = np.random.default_rng().normal(size=(3, 4))

    def several(row):
        literals = [Const(float(x), "f64") for x in row]
        compile_kernels(
            [elementwise([("f64", "sin", (0,)), ("f64", "add", (1, c))], ["f64"], "f64")
             for c in literals]
        )  # fmt: skip

    for row in numbers:
        one = threading.Thread(target=several, args=(row,))
        one.start()
        one.join()
    shop = compiler._shops[False]
    if shop is None or not shop._threads:
        pytest.skip("no native threads here")
    assert len(shop._desks) == shop._threads
    idle = len(link_module._idle)
    assert idle
    double = elementwise([("f64", "mul", (0, Const(float(numbers[0, 0]), "f64")))], ["f64"], "f64")
    compile_kernel(double)
    assert len(link_module._idle) == idle


def test_disk_cache_survives_and_verifies(tmp_path, monkeypatch):
    code = """
import sys
sys.path[:0] = [{!r}, {!r}]
import numpy as np
from llvm_kernels import elementwise
from pullback.backends.llvm import run_kernel, kernel_compile_count
x, y = np.arange(5.0), np.zeros(5)
run_kernel(elementwise([("f64", "sin", (0,))], ["f64"], "f64"), [x, y], [5])
assert np.allclose(y, np.sin(x))
print(kernel_compile_count(), "llvmlite" in sys.modules, any("libllvmlite" in line for line in
open("/proc/self/maps")) if sys.platform == "linux" else False)
""".format(os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "..", "src"))
    env = {**os.environ, "PULLBACK_CACHE_DIR": str(tmp_path / "kernels")}
    env.pop("PULLBACK_CACHE", None)
    env["PULLBACK_PRELOAD"] = "0"  # LLVM comes with the import otherwise

    def run():
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert run()[0] == "1"
    assert run() == ["0", "False", "False"]  # from disk, without LLVM
    files = sorted((tmp_path / "kernels").glob("*.kernel"))
    assert len(files) >= 2  # the kernel and the runtime
    assert (tmp_path / "kernels").stat().st_mode & 0o077 == 0
    for f in files:
        raw = bytearray(f.read_bytes())
        raw[-3] ^= 0xFF
        f.write_bytes(raw)
    assert run()[0] == "1"  # damaged entries are compiled again and rewritten
    assert run()[0] == "0"
    for f in files:
        f.write_bytes(b"")
    assert run()[0] == "1"


def test_cache_is_bounded(tmp_path):
    cache = DiskCache(tmp_path / "c", 10_000)
    for k in range(20):
        cache.put(f"{k:040d}", Image(bytes(1000), {"f": 0}))
    cache.sweep()
    sizes = [f.stat().st_size for f in (tmp_path / "c").glob("*.kernel")]
    assert 0 < sum(sizes) <= 10_000


def test_unusable_cache_directory_means_no_cache(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    cache = DiskCache(blocked / "sub", 1000)
    cache.put("a", Image(b"x", {}))
    assert cache.get("a") is None


def test_cache_keys_tell_targets_apart():
    keys = {kernel_key("text", t) for t in ("a", "b")} | {kernel_key("text", "a", "o")}
    assert len(keys) == 3


# ---- linking


def test_undefined_symbols_are_refused():
    text = (
        "declare double @sin(double)\ndefine double @f(double %x) "
        "{\n %y = call double @sin(double %x)\n ret double %y\n}\n"
    )
    with pytest.raises(LinkError, match="sin"):
        link(assemble(text, host_target(), 0))


def test_writable_data_is_refused():
    text = (
        "@x = internal global i32 7\ndefine i32 @f() "
        "{\n %y = load volatile i32, ptr @x\n store volatile i32 3, ptr @x\n ret i32 %y\n}\n"
    )
    with pytest.raises(LinkError, match="writable"):
        link(assemble(text, host_target(), 0))


def test_code_memory_is_given_back():
    image = link(
        assemble("define i64 @f(i64 %x) {\n %y = mul i64 %x, 3\n ret i64 %y\n}\n", host_target(), 0)
    )
    code = Code(image)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.symbols["f"])(14) == 42
    if sys.platform == "linux":
        with open("/proc/self/maps") as f:
            ranges = [
                (*(int(v, 16) for v in line.split()[0].split("-")), line.split()[1]) for line in f
            ]
        assert next(mode for lo, hi, mode in ranges if lo <= code.address < hi) == "r-xp"
    for _ in range(3000):
        Code(image)


def test_unknown_instruction_sets_are_refused():
    with pytest.raises(ValueError, match="PULLBACK_ISA"):
        target_for("avx9")


def test_scalar_words():
    assert scalar_word(1.0, "f32") == 0x3F800000
    assert scalar_word(True, "bool") == 1
    assert scalar_word(-1, "i32") & 0xFFFFFFFF == 0xFFFFFFFF
    assert scalar_word(1.0, "bf16") == 0x3F80
    assert scalar_word(1.0, "f16") == 0x3C00
    assert AllocStep(0, 1).bytes == 1
    assert i64(3).value == 3
    assert isinstance(reduction("add", "f32", 0.0).body[0], For)


def test_code_may_outlive_the_names_of_its_module(monkeypatch):
    """At the end of the interpreter, which clears them in an order of its own."""
    gone = []
    code = Code.__new__(Code)
    code.address, code.nbytes, code._unmap = 8, 16, lambda *block: gone.append(block)
    monkeypatch.setattr(loader_module, "sys", None)
    code.__del__()
    code._unmap = None
    assert gone == [(8, 16)]


def test_what_native_threads_read_is_never_freed():
    """On a busy machine a thread may run for the first time when the interpreter has ended: it
    called whatever stood then where its functions had been."""
    program = """if True:
        import ctypes, gc
        import pullback
        from pullback.backends.llvm import compiler
        from pullback.backends.llvm.target import host_target
        from pullback.backends.llvm.workshop import Job

        shop = compiler.workshop(host_target())
        if shop is None or not shop._most:
            raise SystemExit(77)
        job = Job("define i64 @f(i64 %x) {\\n ret i64 %x\\n}\\n", 0)
        assert shop.publish(job)
        shop.finish([job])
        blocks = [shop._shop, shop._ring, *(block for _, block in shop._desks)]
        read = {ctypes.addressof(block) for block in blocks}
        sizes = {len(block) for block in blocks}
        del blocks
        shop._stop(10.0)
        shop.__dict__.clear()  # as when the interpreter ends
        gc.collect()
        new = [(ctypes.c_int64 * n)() for n in sizes for _ in range(2000)]
        assert not read & {ctypes.addressof(block) for block in new}
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode in (0, 77), (done.returncode, done.stderr)
