"""`import jax` as Pullback: the finder, the command line, and Flax with Optax trained as under JAX
itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
ENV = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(HERE.parent / "src")}
# Programs say where their lines are, as users' do; oracle_flags spares JAX the time.
ENV.pop("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", None)


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A fresh Python, which must succeed."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, env=ENV, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return done


def script(tmp_path: Path, text: str, name: str = "program.py") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_imports_resolve_to_pullback() -> None:
    out = run(
        "-c",
        "import pullback.jax_compat as c; c.install(); c.install()\n"
        "import jax, jax.numpy as jnp, jax.random, jax.scipy.linalg, jax.nn.initializers, "
        "jax.tree_util as jtu\n"
        "from jax import lax, jit, config\n"
        "from jax.scipy.signal import convolve2d\n"
        "from jax.extend.core.primitives import sin_p\n"
        "import pullback, pullback.numpy, sys\n"
        "assert jnp is pullback.numpy and lax is pullback.lax and jit is pullback.jit\n"
        "assert jax.tree_util is pullback.tree_util and config is pullback.config\n"
        "assert jax.__version__ == jax.version.__version__ == '0.10.2'\n"
        "assert sin_p is pullback.lax.sin_p\n"
        "assert not [m for m in sys.modules.values() if 'site-packages/jax' in (getattr(m, "
        "'__file__', '') or '')]\n"
        "assert c.is_installed(); c.uninstall(); assert 'jax' not in sys.modules; print('ok')",
    ).stdout
    assert out == "ok\n"


def test_jax_is_imported_lazily() -> None:
    """As `lazy_loader` does for libraries: the module that it hands out first is the one that
    stays."""
    run(
        "-c",
        "import pullback.jax_compat as c; c.install()\n"
        "import importlib.util as u, sys\n"
        "spec = u.find_spec('jax'); spec.loader = u.LazyLoader(spec.loader)\n"
        "lazy = sys.modules['jax'] = u.module_from_spec(spec); spec.loader.exec_module(lazy)\n"
        "import jax.numpy as jnp, jax.scipy.linalg\n"
        "import jax, pullback\n"
        "assert jax is lazy and jax.grad is pullback.grad and jax.numpy is jnp\n"
        "assert 'vmap' in dir(jax) and jax.__version__ == '0.10.2'\n"
        "jax.mine = 1; assert jax.mine == 1; del jax.mine; assert not hasattr(jax, 'mine')\n",
    )


def test_modules_that_come_with_jax_are_found_without_an_import() -> None:
    """Libraries look in `sys.modules`, as for `jax.tree_util`, which JAX itself has imported."""
    run(
        "-c",
        "import pullback.jax_compat as c; c.install()\n"
        "import jax, sys, pullback\n"
        "assert sys.modules['jax.tree_util'] is pullback.tree_util\n"
        "assert jax.random is sys.modules['jax.random'] is pullback.random\n"
        "c.uninstall(); assert not [m for m in sys.modules if m.startswith('jax')]",
    )


def test_the_namespace_of_arrays_is_known_by_its_name() -> None:
    """As libraries of the array API look for it; and Pullback's own name afterwards."""
    run(
        "-c",
        "import pullback.jax_compat as c, pullback.numpy as own; c.install()\n"
        "import jax, pickle\n"
        "assert jax.numpy is own and own.__name__ == 'jax.numpy'\n"
        "x = own.ones(2); assert x.__array_namespace__().__name__ == 'jax.numpy'\n"
        "assert own.einsum('i,i', x, x) == 2 and 'histogram' in vars(own)\n"
        "assert own.sin.__module__ == 'pullback.numpy'\n"
        "assert pickle.loads(pickle.dumps(own.cos)) is own.cos\n"
        "c.uninstall(); assert own.__name__ == 'pullback.numpy'",
    )


def test_types_say_that_they_are_of_jax() -> None:
    """Libraries that dispatch on types tell by the first part of the module's name whose they are;
    the names are JAX's, and Pullback's own again afterwards."""
    program = (
        "import jax, jax.numpy as jnp\n"
        "seen = [jnp.ones(2), jax.random.key(0), jax.jit(jnp.sin), jnp.sin]\n"
        "note = lambda x: (seen.append(x), x)[1]\n"
        "for way in (jax.jit, jax.grad, jax.vmap, jax.make_jaxpr):\n"
        "    way(note)(jnp.ones(3) if way is jax.vmap else 1.0)\n"
        "jax.jvp(note, (1.0,), (1.0,))\n"
        "print([type(x).__module__ for x in seen])\n"
        "print(jax.Array.__module__, jax.core.Tracer.__module__)\n"
        "try: jax.jit(lambda x: bool(x))(1.0)\n"
        "except Exception as e: print(type(e).__module__, type(e).__mro__[1].__module__)\n"
    )
    ours = "import pullback.jax_compat as c; c.install()\n"
    after = (
        "x = jnp.ones(2); import pickle; y = pickle.loads(pickle.dumps((x, seen[1])))\n"
        "c.uninstall(); import sys; sys.stderr.write(str(type(y[0]).__module__))\n"
    )
    here, there = run("-c", ours + program + after), run("-c", program)
    assert here.stdout == there.stdout
    assert here.stderr == "pullback.runtime.array"


def test_flags_are_read_from_the_command_line() -> None:
    """By absl, for programs that ask for it: known flags have effect, others are the program's."""
    program = (
        "import jax, sys; from absl import flags\n"
        "jax.config.parse_flags_with_absl()\n"
        "print(flags.FLAGS.is_parsed(), flags.FLAGS.jax_enable_x64, sys.argv[1:])\n"
        "print(jax.numpy.arange(2).dtype, jax.config.jax_numpy_rank_promotion)\n"
    )
    given = "--jax_enable_x64=true", "--mine=3", "--jax_numpy_rank_promotion=warn", "file"
    ours = "import pullback.jax_compat as c; c.install()\n"
    here, there = run("-c", ours + program, *given), run("-c", program, *given)
    assert here.stdout == there.stdout
    assert here.stdout.splitlines()[1] == "int64 warn"


def test_nothing_falls_through_to_an_installed_jax() -> None:
    run(
        "-c",
        "import pullback.jax_compat as c; c.install()\n"
        "import jax, jax.numpy, jax.core\n"
        "for owner, name in [(jax, 'tree_map'), (jax.numpy, 'trapz'), (jax.core, 'get_aval'), "
        "(jax, 'backends'), (jax, 'testing')]:\n"
        "    assert not hasattr(owner, name), name\n"
        "for name in ['jax.no_such_module', 'jax.linear_util', 'jax.numpy.nothing', "
        "'jax.experimental.nothing', 'jax.config']:\n"
        "    try: __import__(name)\n"
        "    except ModuleNotFoundError as e: assert e.name == name, e.name\n"
        "    else: raise AssertionError(name)\n",
    )


_BINDINGS = """
import jax, jax.numpy as jnp, jaxlib
from jaxlib import xla_client as xc

x = jnp.ones(2)
assert type(jax.jit(abs)) is jaxlib._jax.PjitFunction
assert type(x) is jaxlib._jax.ArrayImpl is xc.ArrayImpl and isinstance(x, xc.Array)
assert isinstance(jax.devices()[0], xc.Device) and isinstance(x.sharding, xc.Sharding)
assert xc.XlaRuntimeError is jax.errors.JaxRuntimeError
assert jaxlib.__version__ == jaxlib.version.__version__ == "0.10.2"
assert not hasattr(jaxlib, "xla_extension") and not hasattr(jaxlib._jax, "PmapFunction")
"""


@pytest.mark.parametrize("which", ["of real JAX", "installed", "imported before", "none"])
def test_xlas_bindings_have_our_classes(which: str) -> None:
    """Libraries read `jaxlib._jax.PjitFunction` and the like, with jaxlib there or not."""
    hide = """
import importlib.machinery
finder, find = importlib.machinery.PathFinder, importlib.machinery.PathFinder.find_spec
finder.find_spec = lambda name, *rest: None if name == "jaxlib" else find(name, *rest)
"""
    before = {"none": hide, "imported before": "import jaxlib._jax"}.get(which, "")
    install = "" if which == "of real JAX" else "from pullback import jax_compat as c; c.install()"
    after = """
c.uninstall()
import sys
try:
    import jaxlib._jax
    assert type(x) is not jaxlib._jax.ArrayImpl and type(jaxlib) is type(sys)
except ModuleNotFoundError as e:
    assert e.name == "jaxlib"
"""
    code = "\n".join([before, install, _BINDINGS, after if install else ""])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_install_after_jax_is_refused() -> None:
    run(
        "-c",
        "import sys, types; sys.modules['jax'] = types.ModuleType('jax')\n"
        "import pullback.jax_compat as c\n"
        "try: c.install()\n"
        "except RuntimeError as e: assert 'before the first `import jax`' in str(e)\n"
        "else: raise AssertionError\n",
    )


def test_run_a_script(tmp_path: Path) -> None:
    script(tmp_path, "VALUE = 3\n", "helper.py")
    path = script(
        tmp_path,
        "import sys, jax, helper\n"
        "assert __name__ == '__main__' and sys.argv[1:] == ['--n', '2'], sys.argv\n"
        "print(jax.jit(lambda x: x * helper.VALUE)(int(sys.argv[2])), jax.__name__)\n",
    )
    assert run("-m", "pullback", "run", path, "--n", "2").stdout.startswith("6 ")


def test_run_a_module(tmp_path: Path) -> None:
    script(tmp_path, "import sys, jax.numpy as jnp\nprint(jnp.arange(3), sys.argv[1:])\n", "mod.py")
    out = run("-m", "pullback", "run", "-m", "mod", "a", cwd=tmp_path).stdout
    assert out == "[0 1 2] ['a']\n"


def test_children_of_a_script_get_pullback_too(tmp_path: Path) -> None:
    script(tmp_path, "import sys\nsys.theirs = True\n", "sitecustomize.py")
    path = script(
        tmp_path,
        "import multiprocessing, subprocess, sys\n"
        "def name(_):\n"
        "    import jax\n"
        "    return jax.jit.__module__.split('.')[0]\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as p: print(p.map(name, [0]))\n"
        "    code = 'import sys; print(sys.theirs, \"pullback\" in sys.modules)'\n"
        "    print(subprocess.check_output([sys.executable, '-c', code], text=True))\n",
    )
    environment = {**ENV, "PYTHONPATH": os.pathsep.join([ENV["PYTHONPATH"], str(tmp_path)])}
    done = subprocess.run(
        [sys.executable, "-m", "pullback", "run", path],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout.split("\n")[:2] == ["['pullback']", "True False"], done


def test_distributed_tests_run_on_pullback(tmp_path: Path) -> None:
    code = "import jax\ndef test_it(): assert jax.jit.__module__.startswith('pullback')\n"
    script(tmp_path, code, "test_it.py")
    options = ["-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-q", "-n", "1"]
    run("-m", "pullback", "run", "-m", "pytest", *options, str(tmp_path), cwd=tmp_path)


def test_run_reports_errors_of_the_script(tmp_path: Path) -> None:
    path = script(tmp_path, "import jax\njax.nothing\n")
    done = subprocess.run(
        [sys.executable, "-m", "pullback", "run", path], capture_output=True, text=True, env=ENV
    )
    assert done.returncode == 1 and "module 'jax' has no attribute 'nothing'" in done.stderr
    missing = subprocess.run(
        [sys.executable, "-m", "pullback", "run", "absent.py"],
        capture_output=True,
        text=True,
        env=ENV,
    )
    assert missing.returncode == 2 and "no such script: absent.py" in missing.stderr


def test_linear_util() -> None:
    run(
        "-c",
        "import pullback.jax_compat as c; c.install()\n"
        "import jax, jax.numpy as jnp\n"
        "from jax.extend import linear_util as lu\n"
        "from jax import api_util\n"
        "from jax.interpreters import partial_eval as pe, ad, batching, mlir\n"
        "from jax.extend import core as jex\n"
        "f = lambda d, k: {'y': d['x'] * k}\n"
        "flat, tree = jax.tree_util.tree_flatten((({'x': 2.0}, 3.0), {}))\n"
        "g, out = api_util.flatten_fun(lu.wrap_init(f, debug_info=api_util.debug_info('t', f, (1, "
        "2), {})), tree)\n"
        "leaves = g.call_wrapped(*flat)\n"
        "assert jax.tree_util.tree_unflatten(out(), leaves) == {'y': 6.0}\n"
        "u = pe.PartialVal.unknown(jax.core.ShapedArray((), jnp.dtype('float32')))\n"
        "h, out = api_util.flatten_fun_nokwargs(lu.wrap_init(lambda x, y: (x + 1, y * 2, 5)), "
        "jax.tree_util.tree_structure((0, 0)))\n"
        "jaxpr, outs, consts = pe.trace_to_jaxpr_nounits(h, [pe.PartialVal.known(3), u])\n"
        "assert [o.is_known() for o in outs] == [True, False, True] and outs[0].get_known() == 4, "
        "outs\n"
        "p = jex.Primitive('twice')\n"
        "p.def_impl(lambda x: x * 2); p.def_abstract_eval(lambda a: a)\n"
        "ad.deflinear2(p, lambda ct, x: [p.bind(ct)]); batching.defvectorized(p)\n"
        "mlir.register_lowering(p, mlir.lower_fun(lambda x: x * 2, multiple_results=False))\n"
        "t = lambda x: p.bind(x)\n"
        "assert t(3.0) == 6 and jax.jit(t)(3.0) == 6 and jax.grad(t)(3.0) == 2\n"
        "assert jax.vmap(t)(jnp.arange(3.0)).tolist() == [0, 2, 4]\n"
        "assert jax.jit(jax.vmap(jax.grad(t)))(jnp.arange(3.0)).tolist() == [2, 2, 2]\n",
    )


@pytest.fixture(scope="module")
def trained() -> tuple[dict, dict]:
    """What the Flax program prints, under JAX and under Pullback."""
    program = str(HERE / "flax_program.py")
    under_jax = json.loads(run(program).stdout)
    under_pullback = json.loads(run("-m", "pullback", "run", program).stdout)
    return under_jax, under_pullback


def test_flax_runs_without_jax(trained: tuple[dict, dict]) -> None:
    assert trained[0]["files"] and not trained[1]["files"]


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_flax_trains_as_under_jax(trained: tuple[dict, dict], model: str) -> None:
    (losses, params), (our_losses, our_params) = (side[model] for side in trained)
    assert len(our_losses) == 10 and our_losses[-1] < our_losses[0]
    np.testing.assert_allclose(our_losses, losses, rtol=2e-6, atol=2e-6)
    assert list(our_params) == list(params)
    for name, values in params.items():
        np.testing.assert_allclose(our_params[name], values, rtol=1e-4, atol=5e-6, err_msg=name)


def test_tests_in_the_form_of_those_of_jax_pass_here_and_there() -> None:
    """`jax._src.test_util` and the private modules that such tests import."""
    _passes("jtu_program.py", "Ran 45 tests", "OK (skipped=3)")


def test_modules_that_tests_of_jax_import() -> None:
    """Rarer public and private modules, in tests that pass with real JAX (half a minute: see below)
    and here."""
    _passes("jtu_modules_program.py", "\nOK", jax_too=False)


def test_private_names_of_random_scipy_and_small_modules() -> None:
    """Here; with real JAX it takes half a minute: see below."""
    _passes("jtu_names_program.py", "\nOK", jax_too=False)


@pytest.mark.slow
def test_private_names_of_random_scipy_and_small_modules_are_as_there() -> None:
    """The same tests with real JAX."""
    _passes("jtu_names_program.py", "\nOK")


@pytest.mark.slow
def test_modules_that_tests_of_jax_import_are_as_there() -> None:
    """The same tests with real JAX."""
    _passes("jtu_modules_program.py", "\nOK")


def test_what_tests_of_jax_ask_of_arrays_and_shardings() -> None:
    """On eight devices: the same program prints the same lines in JAX and here."""
    program = str(HERE / "array_program.py")
    eight = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    env = {**os.environ, **eight, "PYTHONPATH": str(HERE.parent / "src")}
    theirs, ours = (
        subprocess.run([sys.executable, *how, program], capture_output=True, text=True, env=env)
        for how in ((), ("-m", "pullback", "run"))
    )
    assert theirs.returncode == 0, theirs.stderr[-3000:]
    assert ours.stdout.splitlines() == theirs.stdout.splitlines(), ours.stderr[-3000:]


def _passes(name: str, *wanted: str, jax_too: bool = True) -> None:
    program = str(HERE / name)
    for how in ([program], ["-m", "pullback", "run", program])[not jax_too :]:
        said = run(*how).stderr
        assert all(words in said for words in wanted), said[-2000:]
