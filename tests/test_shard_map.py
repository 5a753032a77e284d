"""`shard_map` as an operation, on eight devices beside real JAX: its program, over what values
vary, what it refuses, and values, derivatives and batches."""

from __future__ import annotations

import eight_devices

# `sm(function, in_specs, out_specs)`; `x` is of shape (8, 4), the mesh of four times two devices.
PROGRAMS = """
sm(lambda a: n.sin(a) + 1, P('x', 'y'), P('x', 'y'))
sm(lambda a: lax.psum(a, 'x'), P('x', 'y'), P(None, 'y'))
sm(lambda a: lax.psum(a, 'x'), P('x', 'y'), P(None, 'y'), check_vma=False)
sm(lambda a: lax.psum(a, 'y'), P('x'), P('x'))
sm(lambda a: a * n.ones(()) + n.arange(2.0), P('x', 'y'), P('x', 'y'))
sm(lambda a: a + lax.axis_index('x'), P('y'), P(('y', 'x')))
sm(lambda a: lax.all_gather(a, 'x'), P('x'), P('x'))
sm(lambda a: lax.all_gather(a, 'x', tiled=True, to='invarying'), P('x'), P())
sm(lambda a: lax.ppermute(a, 'x', [(0, 1), (1, 0)]), P('x'), P('x'))
sm(lambda a: lax.all_to_all(a, 'x', 1, 0, tiled=True), P('x'), P('x'))
sm(lambda a: lax.psum_scatter(a, 'x', scatter_dimension=1, tiled=True), P('x'), P('x'))
sm(lambda a: lax.pmax(a, 'x'), P('x'), P())
sm(lambda a: lax.pmean(a, 'x'), P('x'), P())
sm(j.jit(lambda a: a * 2), P('x'), P('x'))
sm(lambda a: lax.cond(a.sum() > 0, lambda v: v, lambda v: n.zeros_like(v), a), P('x'), P('x'))
sm(lambda a: lax.scan(lambda c, y: (c + y, y), lax.pcast(n.zeros(4), 'x', to='varying'), a)[0],
 P('x'), P('x'))
sm(lambda a: a + x[0], P('x'), P('x'))
sm(lambda a: n.ones(3), P('x'), P('x'))
sm(j.nn.relu, P('x'), P('x'))
sm(lambda a: j.checkpoint(n.sin)(a), P('x'), P('x'))
lambda x: j.jvp(sm(lambda a: n.sin(a), P('x'), P('x')), (x,), (x,))
j.vmap(sm(lambda a: n.sin(a), P('x'), P('x')))
j.vmap(sm(lambda a: n.sin(a), P('x'), P('x')), spmd_axis_name='y')
j.shard_map(lambda a: lax.psum(a, 'x'), mesh=m, in_specs=P('x'), out_specs=P(), axis_names={'x'})
j.shard_map(lambda a: j.shard_map(lambda b: b * 2, in_specs=P('y'), out_specs=P('y'),
 axis_names={'y'})(a), mesh=m, in_specs=P('x'), out_specs=P('x'), axis_names={'x'})
"""

# The class of the error counts.
REFUSED = """
sm(lambda a: a, P('x', 'y'), P())
sm(lambda a: lax.all_gather(a, 'x'), P('x'), P())
sm(lambda a: lax.psum(a, ('x', 'y')), P('x'), P())
sm(lambda a: lax.pcast(a, 'x', to='varying'), P('x'), P('x'))
sm(lambda a: lax.psum(a, 'x', axis_index_groups=[[0, 1], [2, 3]]), P('x'), P('x'))
sm(lambda a: lax.scan(lambda c, y: (c + y, y), n.zeros(4), a)[0], P('x'), P('x'))
sm(lambda a: lax.fori_loop(0, 3, lambda i, c: c + a, n.zeros((2, 4))), P('x'), P('x'))
sm(lambda a: lax.while_loop(lambda c: c.sum() < 1, lambda c: c + a, n.zeros((2, 4))), P('x'), P())
sm(lambda a: lax.cond(True, lambda v: v, lambda v: n.zeros(v.shape), a), P('x'), P('x'))
j.shard_map(lambda a: a, mesh=m, in_specs=P('x', 'y'), out_specs=P('x'), axis_names={'x'})
j.shard_map(lambda a: a, mesh=m.abstract_mesh, in_specs=P('x'), out_specs=P('x'))
sm(lambda a: j.shard_map(lambda b: b, mesh=m, in_specs=P('x'), out_specs=P('x'))(a), P('x'), P('x'))
sm(lambda a: (a, 3), P('x'), (P('x'), None))
sm(lambda a: a, P('x', 'x'), P('x'))
j.shard_map(lambda a: a, mesh=m, in_specs=P('x'), out_specs=P('x'), axis_names={'w'})
sm(lambda a: a, P(unreduced={'x'}), P())
sm(lambda a: lax.pcast(a, {'x'}, to='varying'), P(), P('x'))
sm(lambda a: lax.with_sharding_constraint(a, j.NamedSharding(m, P(None, 'x'))), P('x'), P('x'))
j.shard_map(lambda a: j.shard_map(lambda b: b * 2, mesh=m, in_specs=P('y'), out_specs=P('y'),
 axis_names={'y'})(a), mesh=m, in_specs=P('x'), out_specs=P('x'), axis_names={'x'})
lambda x: sm(lambda *_: None, (None, P('x')), None)(object(), x[:3])
lambda x: sm(lambda *_: None, (None, P('x')), None)(object(), x[0, 0])
lambda x: j.vmap(lambda a: sm(lambda a, b: a + lax.all_gather(b, 'x'), (P(), P('x')), P(),
 check_vma=False)(a, x), spmd_axis_name='x')(x)
"""

# Parts of the messages, as JAX has them.
SAID = {
    "sm(lambda a: a, ([P('x')],), P('x'))": ["shard_map in_specs[0]"],
    "sm(lambda a: {'hi': [3.0]}, P('x'), {'hi': P('x')})": [
        "function '<lambda>'", "out_specs['hi'] is P('x',)", "which has length 1",
        "<lambda>(*args)['hi'][0] has shape float32[]", "which has rank 0 (and 0 < 1)",
    ],
    "lambda x: sm(lambda a: a, P(None), P())(3.0)": [
        "in_specs is P(None,)", "the passed args[0]", "consider using an in_specs entry of `P()`",
    ],
    "lambda x: sm(lambda a, b: a, (P('x'), {'k': P(('x', 'y'))}), P('x'))(x, {'k': n.ones(9)})": [
        "args[1]['k'] of shape float32[9], where args[1] is bound to <lambda>'s parameter 'b', "
        "corresponds to in_specs[1]['k'] of value P(('x', 'y'),), which maps array axis 0 (of size "
        "9) to mesh axes ('x', 'y') (of total size 8), but 8 does not evenly divide 9",
    ],
    "lambda x: sm(lambda a, b: lax.cond(True, lambda a, b: a, lambda a, b: b, a, b), "
    "(P('x'), P('y')), P())(x[:4], x[:2])": [
        "so the manual axis types do not match", "('y',), to='varying')` to the output of ",
    ],
    "sm(lambda a: lax.scan(lambda c, _: ((c[1], c[0]), ()), (a, n.ones((2, 4))), (), length=2)[0], "
    "P('x'), P('x'))": [
        "This might be fixed by applying `jax.lax.pcast(..., ('x',), to='varying')`",
    ],
    "lambda x: j.vmap(sm(n.sin, P('x'), P('x')), spmd_axis_name='x')(x)": [
        "vmap spmd_axis_name cannot appear in shard_map in_specs",
    ],
    "lambda x: j.shard_map(lambda a: a, mesh=q.abstract_mesh, "
    "in_specs=P('q'), out_specs=P('q'))(x)": [
        "Please pass `jax.Array`s with a `NamedSharding` as input to `shard_map` when passing "
        "`AbstractMesh` to the mesh argument.",
    ],
    "lambda x: j.shard_map(lambda a: a, mesh=q.abstract_mesh, "
    "in_specs=P('q'), out_specs=P('q'))(sm(lambda a: a, P('x'), P('x'))(x))": [
        "Mesh shape of the input", "does not match the mesh shape passed to shard_map",
    ],
}  # fmt: skip

VALUES = """
sm(j.grad(lambda a: (a**2).sum()), P('x'), P('x'))
sm(j.grad(lambda a: lax.psum((a**2).sum(), 'x')), P('x'), P('x'))
sm(lambda a: j.grad(lambda w: (a @ w).sum())(n.ones((4, 2))), P('x'), P())
sm(lambda a: j.pure_callback(lambda v: np.asarray(v) * 2, j.ShapeDtypeStruct(a.shape, a.dtype), a),
 P('x'), P('x'))
lambda x: lax.scan(lambda c, _: (sm(lambda a: a * 2, P('x'), P('x'))(c), None), x, None,
 length=3)[0]
lambda x: j.grad(lambda w: (sm(lambda a, b: n.tanh(a @ b), (P('x'), P()), P('x'))(x, w)).sum())(x.T)
lambda x: j.grad(lambda x: sm(lambda a: n.sin(lax.psum(a.sum(), 'x')), P('x'), P())(x))(x)
lambda x: j.grad(lambda x: sm(lambda a: n.sin(a.sum())[None], P('x'), P('x'))(x).sum())(x)
lambda x: j.grad(lambda b: sm(lambda a, b: lax.psum((a * b).sum(), 'x'), (P('x'), P()), P(),
 check_vma=False)(x, b))(x[0])
lambda x: j.vmap(sm(lambda a: a * 2 + lax.axis_index('x'), P('x'), P('x')), spmd_axis_name='y')(x)
lambda x: j.vmap(j.grad(sm(lambda a: n.sin(a.sum()), P('x'), P(), check_vma=False)),
 spmd_axis_name='y')(x.T)
sm(lambda a: n.searchsorted(n.sort(a[0]), a[1]), P(None, 'x'), P('x'))
sm(lambda a: j.vmap(lambda v: j.random.choice(j.random.key(3), n.arange(4), p=v))(a), P('x'),
 P('x'))
lambda x: j.vmap(j.grad(sm(lambda a: 2 * a.sum(), P(), P(), check_vma=False)),
 spmd_axis_name='y')(x)
"""

PROGRAM = f"""
import warnings
warnings.simplefilter("ignore")
import jax, numpy as np, pullback

def lines(text):
    return text.strip().replace("\\n ", " ").splitlines()

told = {{}}
def found(j):
    P, n, lax = j.P, j.numpy, j.lax
    m = j.make_mesh((4, 2), ("x", "y"), axis_types=(j.sharding.AxisType.Auto,) * 2)
    def sm(f, i, o, **options):
        return j.shard_map(f, mesh=m, in_specs=i, out_specs=o, **options)
    x, scope = n.arange(32.0).reshape(8, 4) / 30, dict(j=j, P=P, n=n, np=np, lax=lax, m=m, sm=sm)
    scope["x"], scope["q"] = x, j.make_mesh((2,), ("q",), axis_types=(j.sharding.AxisType.Auto,))
    def text(line):  # the order of a set of names is a matter of chance
        program = str(j.make_jaxpr(eval(line, scope))(x))
        return program.replace("frozenset({{'y', 'x'}})", "frozenset({{'x', 'y'}})")
    out = {{line: text(line) for line in lines('''{PROGRAMS}''')}}
    for line in lines('''{REFUSED}'''):
        try:
            eval(line, scope)(x)
            out[line] = "no error"
        except Exception as e:
            out[line] = type(e).__name__
    for line in {SAID!r}:
        try:
            eval(line, scope)(x)
            out[line] = "no error"
        except Exception as e:
            told[line, j.__name__] = str(e)
    values = {{line: np.asarray(j.jit(eval(line, scope))(x)) for line in lines('''{VALUES}''')}}
    place = lambda a: lax.with_sharding_constraint(a * 2, P(None, "y"))
    mixed = j.shard_map(place, mesh=m, in_specs=P("x"), out_specs=P("x"), axis_names={{"x"}})
    out["an axis left to the compiler"] = str(j.jit(mixed)(x).sharding.spec)
    laid = sm(lambda a: a * 2, P("x"), P(None, "y"), check_vma=False)(x)
    out["results"] = str(laid.sharding.spec), laid.committed
    lowered = j.jit(sm(lambda a: lax.psum(a, "x"), P("x"), P())).lower(x)
    out["compiled"] = str(lowered.compile().output_shardings)
    seen = []
    sm(lambda a: seen.append([str(j.typeof(a)), str(j.sharding.get_abstract_mesh()),
                              str(j.typeof(a).manual_axis_type)]) or a, P("x"), P("x"))(x)
    out["inside"] = seen
    made = []
    def types(a):
        y = j.eval_shape(n.sin, a)
        made.extend([y.manual_axis_type.varying, j.typeof(lax.full_like(y, 1)).mat.varying,
                     j.eval_shape(j.jit(n.sin), a).manual_axis_type.varying])
        return a
    sm(types, P("x"), P("x"))(x)
    out["types only"] = str(made)
    def turned(a):  # what is the same on all devices may be looked at, unless it is traced
        return a if lax.psum(a, ("x", "y")).sum() < 0 else -2 * a
    for name, look in (
        ("at once", lambda: sm(turned, P("x", "y"), P("x", "y"))(x)),
        ("its derivative", lambda: j.grad(lambda v: sm(turned, P("x"), P("x"))(v).sum())(x)),
        ("traced", lambda: j.jit(sm(turned, P("x", "y"), P("x", "y")))(x)),
        ("what varies", lambda: sm(lambda a: a if a.sum() < 0 else -a, P("x"), P("x"))(x)),
        ("said wrongly", lambda: sm(turned, P("x", "y"), P("x"))(x)),
    ):
        try:
            seen = look()
            numbers = np.round(np.asarray(seen, float), 3).tolist()
            out["looked at " + name] = str(numbers), str(seen.sharding.spec)
        except Exception as e:
            out["looked at " + name] = type(e).__name__
    @j.custom_vjp
    def total(a):
        return lax.psum(a, "x")
    total.defvjp(lambda a: (total(a), None), lambda _, g: (lax.psum(g, "x"),))
    try:
        j.grad(lambda v: sm(lambda a: total(total(a)), P("x"), P())(v).sum())(x)
    except ValueError as e:
        out["a cotangent that does not vary"] = "so the manual axis types do not match" in str(e)
    kinds = (j.sharding.AxisType.Explicit,) * 3
    explicit = j.make_mesh((1, 4, 2), ("z", "x", "y"), axis_types=kinds)
    rows = j.device_put(x, j.NamedSharding(explicit, P(("z", "x"), "y")))
    each = j.shard_map(lambda a: a * 2, mesh=explicit, in_specs=P("y"), out_specs=P("y"))
    lying = []
    part = j.shard_map(lambda a: lying.append(j.typeof(a).sharding) or a, mesh=explicit,
                       in_specs=P("x"), out_specs=P("x"), axis_names={{"x"}})
    j.jit(part)(j.device_put(x, j.NamedSharding(explicit, P("x", "y"))))
    out["types inside"] = [(str(s.mesh.axis_types), str(s.spec)) for s in lying]
    out["mapped over an explicit axis"] = str(j.jit(j.vmap(each))(rows).sharding.spec)
    try:
        named = j.shard_map(lambda a: a, mesh=explicit, in_specs=P("y"), out_specs=P("y"),
                            axis_names={{"x", "y"}})
        j.jit(j.vmap(named))(rows)
    except ValueError as e:
        out["an axis taken"] = str(e).split("axis_names")[0]
    anything = object()
    taken = lambda o, pair, a: a * 2 + (o is anything and pair[1] is anything)
    given = sm(taken, (None, None, P("x")), P("x"))(anything, (3, anything), x)
    out["objects"] = str(np.round(np.asarray(given, float), 3).tolist())
    with j.set_mesh(explicit):
        twice = lambda a: j.smap(lambda a: a * a, in_axes=0, out_axes=0, axis_name="y")(a)
        once = j.smap(twice, out_axes=0, axis_name="x")
        put = j.device_put(x, P("x", "y"))
        out["maps in maps"] = str(once(put).sharding.spec), str(j.jit(once)(put).sharding.spec)
    both = j.make_mesh((4, 2), ("x", "y"), axis_types=kinds[:2])
    ones, rest = n.ones((2, 8)) + n.arange(8), n.arange(24.0).reshape(8, 3)
    with j.set_mesh(both):
        left, right = j.device_put(ones, P(None, "x")), j.device_put(rest, P("x", None))
        later = lambda a, b: n.einsum("ab,bc->ac", a, b, out_sharding=P(unreduced={{"x"}}))
        still = P(unreduced={{"x"}})
        summed = j.shard_map(lambda a: lax.psum(a, "x"), in_specs=still, out_specs=P())
        parts = j.shard_map(lambda a: lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True),
                            in_specs=P(unreduced={{"x"}}), out_specs=P(None, "x"))
        kept = j.shard_map(lambda a, b: lax.pcast(a @ b, "x", to="unreduced"),
                           in_specs=(P(None, "x"), P("x", None)), out_specs=P(unreduced={{"x"}}))
        gathered = j.shard_map(lambda a: lax.all_gather(a, "x", tiled=True, to="reduced"),
                               in_specs=P("x", None), out_specs=P(None, None, reduced={{"x"}}))
        marked = j.shard_map(lambda a: lax.pcast(a, "x", to="reduced"), in_specs=P(),
                           out_specs=P(reduced={{"x"}}))
        wide = j.device_put(n.ones((2, 4)), P())
        sums = dict(
            summed=(lambda a, b: n.sin(summed(later(a, b)) / 99).sum(), left, right),
            parts=(lambda a, b: n.sin(parts(later(a, b)) / 99).sum(), left,
                   j.device_put(n.arange(32.0).reshape(8, 4), P("x", None))),
            kept=(lambda a, b: n.sin(j.sharding.reshard(kept(a, b), P()) / 99).sum(), left, right),
            gathered=(lambda a, b: n.sin((a @ gathered(b)) / 99).sum(),
                      j.device_put(n.ones((8, 8)) + n.arange(8), P("x", None)), right),
            marked=(lambda a, b: n.sin((marked(a) @ b) / 9).sum(), wide,
                  j.device_put(n.arange(32.0).reshape(4, 8), P(None, "x"))),
        )
        for name, (f, *args) in sums.items():
            found = j.jit(j.value_and_grad(f, (0, 1)))(*args)
            values.update({{(name, k): np.asarray(v) for k, v in enumerate(j.tree.leaves(found))}})
            out["spec of " + name] = str([g.sharding.spec for g in found[1]])
    return out, values

(expected, values), (got, own) = found(jax), found(pullback)
wrong = {{k: (v, got[k]) for k, v in expected.items() if got[k] != v}}
said = (f"{{k}}:\\n{{a}}\\nin JAX, here\\n{{b}}" for k, (a, b) in wrong.items())
assert not wrong, "\\n".join(said)
for line, parts in {SAID!r}.items():
    for who in ("jax", "pullback"):
        for part in parts:
            assert part in told[line, who], (line, who, part, told[line, who])
for k, v in values.items():
    np.testing.assert_allclose(own[k], v, rtol=1e-5, atol=1e-6, err_msg=k)
"""


def test_programs_and_values_are_jaxs() -> None:
    eight_devices.run("-c", PROGRAM)


CALLS = """
import pullback
import jax.experimental, pullback.experimental
seen = []
said = {}
for j in (jax, pullback):
    mesh = j.make_mesh((8,), ("x",), axis_types=(j.sharding.AxisType.Auto,))
    P = j.sharding.PartitionSpec
    io = j.experimental.io_callback
    def note(*xs):
        seen.append([int(x[0]) for x in xs])
    for name, call in {
        "ordered": lambda x: (io(note, None, x, ordered=True), io(note, None, x + 8, ordered=True)),
        "without operands": lambda x: io(note, None),
        "with a constant": lambda x: io(note, None, j.numpy.arange(3)),
        "debug": lambda x: j.debug.callback(note),
    }.items():
        def body(x):
            call(x)
            return x
        run = j.jit(j.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
        run(j.numpy.arange(8)).block_until_ready()
        j.effects_barrier()
        said.setdefault(name, []).append(sorted(seen))
        seen.clear()
for name, (theirs, ours) in said.items():
    assert theirs == ours and len(ours) in (8, 16), (name, theirs, ours)
"""


def test_each_device_calls_python() -> None:
    """Ordered callbacks, too, and those without operands that are cut."""
    eight_devices.run("-c", "import jax\n" + CALLS)
