"""What types inside of programs say of mesh axes of explicit type, on eight devices: for each
family of primitives the type of its result or the class of the error, as real JAX has them."""

from __future__ import annotations

import eight_devices

# `A` lies over both axes, `B` and `C` over one; `put` makes others.
CASES = """
add|A + B|
add of others|A + A.T.reshape(8, 4)|
add of two columns|put((8,), 'x')[:, None] * put((4,), 'y')[None]|
one axis twice|put((8,), 'x')[:, None] * put((8,), 'x')[None]|
an eager sum|E(A, put((8, 4), 'y', 'x'))|
product|put((8, 4), 'x') @ put((4, 8), None, 'y')|
product, unclear|A @ A.T|
product, asked|j.numpy.einsum('ij,kj->ik', A, put((4, 4), None, 'y'), out_sharding=P('x', None))|
product, dot|j.numpy.dot(A, put((4, 8), 'y'), out_sharding=P(None, 'x'))|
product, unlike|A @ put((4, 8), 'x')|
batches|j.numpy.einsum('bij,bjk->bik', put((8, 2, 3), 'x'), put((8, 3, 2), 'x'))|
batches, unlike|j.numpy.einsum('bij,bjk->bik', put((8, 2, 3), 'x'), put((8, 3, 2), 'y'))|
sum|A.sum(0)|
argmax|A.argmax(1)|
softmax|j.nn.softmax(A)|
log_softmax|j.nn.log_softmax(A, 0)|
variance|n.var(A, 0)|
transpose|A.T|
concatenate|n.concatenate([A, A], 1)|
concatenate, unlike|n.concatenate([A, B])|
stack|n.stack([A, A], 1)|
unstack|n.unstack(A, axis=0)[0]|
unstack the whole axis|n.unstack(B, axis=1)[0]|
slice|A[:4]|
slice, odd|A[:6]|
one row|A[0]|
one column|B[:, 0]|
dynamic_slice|j.lax.dynamic_slice(A, (0, 0), (8, 2))|
update|j.lax.dynamic_update_slice(A, A, (0, 0))|
update, unlike|j.lax.dynamic_update_slice(B, C, (0, 0))|
gather|C[n.array([0, 1])]|
gather, divided|A[n.array([0, 1])]|
gather, asked|A.at[n.array([0, 1])].get(out_sharding=P(None, 'y'))|
gather, indices|put((8, 4))[put((8,), 'x', dtype=int)]|
take along|n.take_along_axis(B, put((8, 4), 'x', dtype=int), axis=1)|
scatter|C.at[n.array([0, 1])].add(1.0)|
scatter, divided|A.at[n.array([0, 1])].add(1.0)|
scatter, asked|A.at[n.array([0, 1])].add(1.0, out_sharding=P(None, 'y'))|
cumsum|n.cumsum(B, 1)|
cumsum, divided|n.cumsum(A, 0)|
sort|n.sort(B, 1)|
sort, divided|n.sort(A, 0)|
argsort|n.argsort(B, 1)|
top_k|j.lax.top_k(B, 2)[0]|
top_k, divided|j.lax.top_k(A, 2)[0]|
pad|j.lax.pad(A, 0.0, ((0, 0, 0), (0, 2, 0)))|
pad, odd|j.lax.pad(A, 0.0, ((0, 1, 0), (0, 0, 0)))|
iota|n.arange(8, out_sharding=P('x'))|
zeros|n.zeros((8, 4), out_sharding=P('x'))|
broadcast, odd|j.lax.broadcast_in_dim(C, (3, 8, 4), (1, 2), out_sharding=P('x'))|
like|n.zeros_like(A)|
where|n.where(put((8,), 'x', dtype=bool)[:, None], A, 0.0)|
where, unlike|n.where(True, A, B)|
select|j.lax.select(put((8, 4), dtype=bool), A, A)|
tile|n.tile(B, (1, 2))|
tile, divided|n.tile(A, (2, 1))|
repeat|n.repeat(A, 2, 0)|
repeat, asked|n.repeat(A, 2, 0, out_sharding=P('x'))|
tril|n.tril(A)|
bits|j.lax.bitcast_convert_type(A, n.int16)|
fft|n.fft.fft(B)|
qr|n.linalg.qr(put((8, 4, 4), 'x'))[1]|
qr, divided|n.linalg.qr(put((4, 4), 'x'))[1]|
conv|j.lax.conv(put((8, 3, 5), 'x'), put((4, 3, 3)), (1,), 'SAME')|
conv, features|j.lax.conv(put((8, 4, 5), None, 'x'), put((4, 4, 3)), (1,), 'SAME')|
window|j.lax.reduce_window(B, 0.0, j.lax.add, (1, 2), (1, 1), 'SAME')|
reshard|j.sharding.reshard(A, P(None, 'x'))|
keys|j.vmap(lambda k: j.random.bits(k, (3,)))(keys)|
random|j.random.normal(j.random.key(0), (8, 4), out_sharding=P('x'))|
vmap|j.vmap(lambda a: n.zeros(3))(A)|
vmap, unlike|j.vmap(lambda a, b: a * b)(A, B.reshape(8, 4) if 0 else put((8, 4), 'y'))|
gradient|j.grad(lambda a: (a * a.sum(0)).sum())(A)|
gradient of weights|j.grad(lambda w: (B @ w).sum())(put((4, 6), None, 'y'))|
gradient of what is whole|j.grad(lambda w: n.tanh(B * w).sum())(put((4,)))|
scan|j.lax.scan(lambda c, x: (c + x, x), n.zeros(4, out_sharding=P('y')), C)[1]|
scan, other carry|j.lax.scan(lambda c, x: (c + x, x), n.zeros(4), C)[0]|
scan, divided xs|j.lax.scan(lambda c, x: (c, x), 0, A)[1]|
while|j.lax.while_loop(lambda c: c.sum() < 1, lambda c: c + A, n.zeros((8, 4)))|
cond|j.lax.cond(True, lambda a: a, lambda a: a * 2, A)|
cond, unlike|j.lax.cond(True, lambda a: a, lambda a: n.zeros((8, 4)), A)|
asserted|j.lax.with_sharding_constraint(A, P('x'))|
asserted, true|j.lax.with_sharding_constraint(A, P('x', 'y'))|
where, with a number|n.where(j.random.bernoulli(j.random.key(0), 0.5, (8, 4)), A, 0.0)|
left to the compiler|j.sharding.auto_axes(lambda a: n.sort(a, 0), out_sharding=P('x'))(A)|
one axis left to it|j.sharding.auto_axes(lambda a: n.cumsum(a, 0), axes='x',
 out_sharding=P('x', 'y'))(A)|
smap|j.smap(lambda a: a * 2, in_axes=0, out_axes=0, axis_name='x')(A)|
sums to come, added|T(A)[0] + T(A)[0]|
sums to come, of a function|n.sin(T(A)[0])|
sums to come, multiplied|T(A)[0] * T(A)[0]|
sums to come, over another axis|n.einsum('ij,kj->ik', A, put((4, 4), None, 'y'),
 out_sharding=P(None, None, unreduced={'x'}))|
sums to come, gradient|j.grad(lambda a: j.sharding.reshard(T(a)[0], P('x')).sum())(A)|
sums that were done|j.sharding.reshard(A, P(None, 'y', reduced={'x'}))|
sums to come|j.sharding.reshard(j.numpy.einsum('ij,kj->ik', A, put((4, 4), None, 'y'),
 out_sharding=P('x', None, unreduced={'y'})), P('x'))|
"""

RESHAPES = """
[
    ((8, 4), ("x", "y"), (8, 2, 2)), ((8, 4), ("x", "y"), (2, 4, 4)), ((8, 4), (None, "y"), (32,)),
    ((8, 4), ("x", "y"), (32,)), ((32,), (("x", "y"),), (8, 4)), ((32,), ("x",), (2, 16)),
    ((8, 4, 6), ("x", None, "y"), (8, 24)), ((8, 4, 6), ("x", "y"), (32, 6)),
    ((8, 1, 4), ("x", None, "y"), (8, 4)), ((8, 4), ("x", "y"), (1, 8, 4, 1)),
    ((16,), (("x", "y"),), (4, 4)), ((2, 8, 4), ("y", "x"), (16, 4)),
    ((8, 4, 2), ("x",), (4, 2, 8)),
    ((4, 8), ("x", "y"), (2, 2, 2, 4)), ((8, 6), (None, "y"), (8, 3, 2)),
]
"""

PROGRAM = f"""
import warnings
warnings.simplefilter("ignore")
import jax, numpy as np, pullback

def found(j):
    P, n, out = j.P, j.numpy, {{}}
    def put(shape, *spec, dtype=np.float32):
        return j.device_put(np.ones(shape, dtype), P(*spec))
    def said(f, *args):
        try:
            return str(j.eval_shape(f, *args).sharding.spec)
        except Exception as e:
            return type(e).__name__
    def T(a):  # on each device a part of the sum
        spec = P("x", None, unreduced={{"y"}})
        return [n.einsum("ij,kj->ik", a, put((4, 4), None, "y"), out_sharding=spec)]
    def E(a, b):
        return n.add(a, b)
    with j.set_mesh(j.make_mesh((4, 2), ("x", "y"))):
        A, B, C = put((8, 4), "x", "y"), put((8, 4), "x"), put((8, 4), None, "y")
        keys = j.device_put(j.random.split(j.random.key(0), 8), P("x"))
        for line in '''{CASES.strip()}'''.replace("\\n out", " out").split("|\\n"):
            name, expression = line.rstrip("|").split("|")
            scope = dict(j=j, n=n, P=P, put=put, B=B, C=C, keys=keys, E=E, T=T)
            out[name] = said(lambda A: eval(expression, {{**scope, "A": A}}), A)
        for shape, spec, new in {RESHAPES.strip()}:
            out[shape, spec, new] = said(lambda a: n.reshape(a, new), put(shape, *spec))
        y = j.jit(lambda a: n.sin(a).sum(1) + 1)(A)
        out["result"] = str(y.sharding.spec), str(j.typeof(y)), round(float(np.asarray(y)[3]), 4)
        out["program"] = str(j.make_jaxpr(lambda a, b: n.sin(a) @ b + 1)(B, put((4, 2))))
        out["nested"] = str(j.make_jaxpr(j.jit(lambda a: a * 2, inline=False))(A))
    return out

expected, got = found(jax), found(pullback)
wrong = {{k: (v, got[k]) for k, v in expected.items() if got[k] != v}}
assert not wrong, "\\n".join(f"{{k}}: {{a}} in JAX, {{b}} here" for k, (a, b) in wrong.items())
"""


def test_types_say_how_arrays_lie_as_in_jax() -> None:
    eight_devices.run("-c", PROGRAM)
