"""The xla backend beside the native one: every primitive's rule, control flow, references, random
numbers and calls of Python, compiled by XLA.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle_flags  # noqa: F401
import pytest
from lax_samples import DTYPES, SAMPLES, WIDE

import pullback as pb
import pullback.experimental.checkify
import pullback.numpy as jnp
from pullback import lax, random
from pullback.backends.xla import lowering
from pullback.backends.xla.client import XlaExecutable
from pullback.core.primitive import ALL
from pullback.experimental import io_callback
from pullback.tree_util import tree_leaves

TOLERANCE = {
    "float16": 2e-3,
    "bfloat16": 2e-2,
    "float8_e4m3fn": 0.3,
    "float8_e5m2": 0.5,
    "float64": 1e-10,
    "complex128": 1e-10,
}
CHUNKS = 4


def close(got: Any, want: Any, scale: float = 1.0) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind in "biu" or "int" in want.dtype.name:
        np.testing.assert_array_equal(got, want)
        return
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    tol = TOLERANCE.get(want.dtype.name, 2e-5) * scale
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=tol, atol=tol)


def compared(sample: Any, dtype: str) -> str | None:
    """Both backends on one sample; what is wrong, or None. Samples that are refused for a dtype say
    nothing here."""
    args = sample.operands(7, dtype)
    with pb.enable_x64(dtype in WIDE), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = lambda *xs: sample.call(lax, *xs)
        try:
            want = [np.asarray(x) for x in tree_leaves(pb.jit(call)(*args))]
        except Exception:
            return None
        try:
            got = XlaExecutable(pb.make_jaxpr(call)(*args))(args)
            for g, w in zip(got, want, strict=True):
                if sample.only is None or dtype in sample.only:
                    close(g, w, sample.tol)
                else:
                    assert (g.shape, g.dtype) == (w.shape, w.dtype)
        except Exception as e:
            return f"{sample.name} {dtype}: {type(e).__name__}: {str(e)[:300]}"
    return None


def chunk(k: int) -> list[Any]:
    return [s for n, s in SAMPLES.items() if zlib.crc32(n.encode()) % CHUNKS == k]


@pytest.mark.parametrize("k", range(CHUNKS))
def test_samples(k: int) -> None:
    wrong = [compared(s, "float32") for s in chunk(k)]
    assert not any(wrong), "\n".join(w for w in wrong if w)


@pytest.mark.parametrize("k", range(CHUNKS))
def test_samples_of_other_dtypes(k: int) -> None:
    """Each sample with one dtype, which differ from sample to sample."""
    others = [d for d in DTYPES if d != "float32"]
    wrong = [compared(s, others[zlib.crc32(s.name[::-1].encode()) % len(others)]) for s in chunk(k)]
    assert not any(wrong), "\n".join(w for w in wrong if w)


# Primitives without a rule: what stands for them when a program is lowered.
GONE = {
    "a named axis became an axis of the arrays": (
        "all_gather all_gather_invariant all_to_all axis_index pbroadcast pmax pmin ppermute "
        "precv psend psum psum_invariant pvary ragged_all_to_all reduce_scatter"
    ),
    "references are values": "addupdate empty_ref free_ref freeze get new_ref swap",
    "keys are words": (
        "random_bits random_clone random_fold_in random_gamma random_seed random_split "
        "random_unwrap random_wrap"
    ),
    "a transformation takes it away": "check custom_lin",
    "symbolic sizes are not lowered yet": "dim_as_value",
}


def test_every_primitive_has_a_rule() -> None:
    lowering.families.load()
    without = {
        name
        for name, p in ALL.items()
        if name not in lowering.RULES
        and (name, "cpu") not in lowering.PLATFORM_RULES
        and not {"stablehlo", "inline"} & p.rules.keys()
        and not name.startswith("example_")
    }
    listed = {n for names in GONE.values() for n in names.split()}
    assert without <= listed, f"primitives without a rule: {sorted(without - listed)}"
    assert not listed & lowering.RULES.keys()


# --- programs ---
X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(fun: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[fun.__name__] = fun
    return fun


@program
def samplers(x: Any) -> Any:
    key = random.key(3)
    return (
        random.normal(key, (5,)), random.key_data(random.split(key, 4)), random.gamma(key, x + 0.1),
        random.permutation(key, 5), random.categorical(key, x), random.poisson(key, x),
        random.randint(key, (4,), 0, 9), random.uniform(random.key(1, impl="rbg"), (3,)).shape,
    )  # fmt: skip


@program
def loops_of_lanes(x: Any) -> Any:
    def count(row: Any) -> Any:
        return lax.while_loop(lambda c: c < 10.0, lambda c: c * 2 + 1, row.sum())

    return pb.vmap(count)(x)


@program
def reverse_through_while(x: Any) -> Any:
    return pb.grad(
        lambda x: lax.while_loop(lambda c: c.sum() < 100.0, lambda c: c * 2 + 1, x).sum()
    )(x)


@program
def reverse_through_scan(x: Any) -> Any:
    step = lambda c, row: (jnp.sin(c + row), c * row)
    return pb.grad(lambda x: lax.scan(step, x[0], x)[1].sum())(x)


@program
def scans(x: Any) -> Any:
    step = lambda c, row: (c + row, (c * row, c.sum()))
    reverse = lax.scan(step, x[0], x, reverse=True)
    return (
        reverse,
        lax.scan(step, x[0], x, unroll=2),
        lax.scan(lambda c, _: (c * 2, None), x, length=3),
    )


@program
def scans_of_nothing(x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        pb.debug.print("never", ordered=True)
        return c + row, (c, row.sum())

    return lax.scan(step, x[0], x[:0])


@program
def edges(x: Any) -> Any:
    """What XLA and native code must agree on without anybody rounding."""
    i = jnp.array([1, -5, 2**31 - 1, -(2**31)], jnp.int32)
    f = jnp.array([jnp.nan, jnp.inf, -jnp.inf, 3e9, -3e9, -1.5, 300.0, -0.0, 0.0])
    return (
        i << 40, i >> 33, lax.shift_right_logical(i, i * 0 + 35), i // 0, i % 0, i // -1,
        f.astype("int32"), f.astype("uint8"), f.astype("int8"), f.astype(bool), jnp.sort(f),
        f.max(), f.argmax(), jnp.sign(f), jnp.copysign(1.0, f), lax.top_k(f, 3), jnp.round(f),
        jnp.cumsum(i.astype("int8")), f.astype("float8_e5m2"), f.view("int16"),
    )  # fmt: skip


@program
def branches(x: Any) -> Any:
    picked = lax.switch(jnp.int32(7), [lambda x: x, lambda x: x + 1, lambda x: x * 5], x)
    return picked, pb.vmap(lambda r: lax.cond(r[0] > 0.5, jnp.sin, jnp.cos, r))(x)


@program
def derivatives(x: Any) -> Any:
    f = pb.checkpoint(lambda x: jnp.sin(jnp.cos(x)))
    return pb.grad(lambda x: f(x).sum())(x), pb.hessian(lambda r: jnp.tanh(r).prod())(x[0])


@program
def inner_functions(x: Any) -> Any:
    double = pb.jit(lambda x: x * 2)
    return double(x) + double(x) + pb.jit(double)(x)


@program
def references(x: Any) -> Any:
    ref = pb.new_ref(x[0])
    ref[0] = 3.0

    def body(i: Any, c: Any) -> Any:
        ref[1] = ref[1] + i
        return c

    lax.fori_loop(0, 3, body, 0)
    ref[...] += x[1]
    return ref[...]


@program
def special(x: Any) -> Any:
    s = pb.scipy.special
    return s.gammainc(x + 0.5, x + 1.0), s.betainc(x + 0.5, x + 1.0, x / 3), s.polygamma(1, x + 1)


@program
def dense(x: Any) -> Any:
    a = x[:, :3] @ x[:, :3].T + jnp.eye(3)
    return (
        jnp.linalg.solve(a, x[:, 3]), jnp.linalg.inv(a), pb.scipy.linalg.expm(a / 5),
        jnp.linalg.eigvalsh(a), jnp.einsum("ij,kj->ik", x, x),
    )  # fmt: skip


@program
def stacks_of_matrices(x: Any) -> Any:
    a = jnp.stack([x[:, :3] + jnp.eye(3) * k for k in (3, 4)])
    q, r = jnp.linalg.qr(a)
    s = a + a.swapaxes(1, 2)
    return q @ r, lax.linalg.lu(a), jnp.linalg.cholesky(s @ s + jnp.eye(3)), jnp.linalg.svd(a)[1]


@program
def what_fails_is_nan(x: Any) -> Any:
    return jnp.linalg.cholesky(-jnp.eye(3)), jnp.linalg.eigvalsh(x[:, :3] * jnp.nan)


@program
def indices_out_of_bounds(x: Any) -> Any:
    i = jnp.array([0, 5, -7, 2])
    return (
        x.at[i].get(mode="fill", fill_value=-1), x.at[i].get(mode="clip"),
        x.at[i].add(1.0, mode="drop"), x.at[i].set(9.0, mode="clip"), x[jnp.int8(1)],
    )  # fmt: skip


@program
def empty(x: Any) -> Any:
    return (
        jnp.zeros((0, 3)) @ jnp.ones((3, 2)),
        jnp.cumsum(x[:0], 0),
        jnp.linalg.inv(x[:0, :0]),
        x > 1,
    )


@program
def composites(x: Any) -> Any:
    made = lax.composite(lambda x, *, k: x * k, "my.scale")(x, k=3.0)
    return made, lax.custom_linear_solve(lambda v: 2 * v, x, lambda mv, b: b / 2)


@program
def complex_values(x: Any) -> Any:
    turned = lax.complex(jnp.zeros_like(x), x)
    real = lax.convert_element_type(turned, bool)  # the real part tells, as of any other type
    return real, lax.conv(turned[None, None], (turned + 1)[None, None], (1, 1), "SAME")


@program
def pure_calls_of_python(x: Any) -> Any:
    return pb.pure_callback(np.sin, x, x)


@program
def ordered_calls_of_python(x: Any) -> Any:
    one = lambda v: io_callback(lambda a: np.asarray(a) + 1, v, v, ordered=True)
    step = lambda _, c: one(pb.jit(one)(c))
    return lax.fori_loop(0, 2, step, lax.cond(x.sum() > 0, one, jnp.copy, x))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    f = PROGRAMS[name]
    got = XlaExecutable(pb.make_jaxpr(f)(X))([X])
    want = [np.asarray(x) for x in tree_leaves(pb.jit(f)(X))]
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        close(g, w, 3.0)


def test_prints_come_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            pb.debug.print("i={}", i, ordered=True)
            return c + i

        return lax.fori_loop(0, 3, body, x)

    XlaExecutable(pb.make_jaxpr(f)(1.0))([1.0])
    assert capfd.readouterr().out.split() == ["i=0", "i=1", "i=2"]


def test_threads_share_one_client() -> None:
    """In a process of its own, whose first programs are several threads'."""
    code = (
        "import threading\n"
        "import numpy as np\n"
        "import pullback as pb\n"
        "from pullback.backends.xla.client import XlaExecutable\n"
        "x, done = np.ones(3, np.float32), []\n"
        "gate = threading.Barrier(4)\n"
        "def work(k):\n"
        "    closed = pb.make_jaxpr(lambda x: x * k)(x)\n"
        "    gate.wait()\n"
        "    done.append(XlaExecutable(closed)([x])[0].sum() / k)\n"
        "threads = [threading.Thread(target=work, args=(k + 1.0,)) for k in range(4)]\n"
        "[t.start() for t in threads]\n"
        "[t.join() for t in threads]\n"
        "assert done == [3, 3, 3, 3], done\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def test_errors_of_callbacks_are_errors() -> None:
    def fail(a: Any) -> Any:
        raise ValueError("told so")

    program = XlaExecutable(pb.make_jaxpr(lambda x: pb.pure_callback(fail, x, x))(X))
    with pytest.raises(Exception, match="told so"):
        program([X])


def test_without_jaxlib() -> None:
    """The package works; what needs jaxlib says what to install."""
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('jax', 'jaxlib'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import pullback as pb\n"
        "from pullback.interpreters import mlir\n"
        "import pullback.extend.mlir, pullback.extend.lowering, pullback.extend.xla\n"
        "lowered = pb.jit(lambda x: x + 1).lower(1.0)\n"
        "assert pb.jit(lambda x: x + 1)(1.0) == 2\n"
        "asked = (lambda: lowered.as_text('stablehlo'), mlir.make_ir_context, lambda: mlir.Token)\n"
        "for ask in asked:\n"
        "    try:\n"
        "        ask()\n"
        "    except ImportError as e:\n"
        "        assert \"pip install 'pullback[xla]'\" in str(e), e\n"
        "    else:\n"
        "        raise AssertionError('no error')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
