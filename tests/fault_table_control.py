"""Faults in loops, branches, custom rules and the axes of maps: snippets as in fault_table.py. The
message must show what was expected and what came, for each leaf with its path.
"""

from __future__ import annotations

TEXT = """
=== scan carry leaf type | c['pos'][1] | float32[3] | int32[3]
start = {"pos": (jnp.ones(2), jnp.ones(3)), "n": 0}
def step(c, _):
    return {"pos": (c["pos"][0], c["pos"][1].astype("int32")), "n": c["n"]}, None
lax.scan(step, start, None, length=2)  # fault
=== scan carry leaf shape | c['w'] | float32[3] | float32[1,3]
lax.scan(lambda c, _: ({"w": c["w"][None]}, None), {"w": jnp.ones(3)}, None, length=2)  # fault
=== scan carry two leaves | c[0] | float32[2] | float32[3] | c[1] | int32[] | bool[]
lax.scan(lambda c, _: ((jnp.ones(3), c[1] > 0), None), (jnp.ones(2), 1), None, length=2)  # fault
=== scan carry tree deep | c['a'][1] | tuple
def step(c, _):
    return {"a": [c["a"][0], (c["a"][1],)]}, None
lax.scan(step, {"a": [1.0, 2.0]}, None, length=2)  # fault
=== scan carry lost key | {'b'} | 2 children | 1 child
lax.scan(lambda c, _: ({"a": c["a"]}, None), {"a": 1.0, "b": 2.0}, None, length=2)  # fault
=== scan carry None | carry
lax.scan(lambda c, x: (None, x), 1.0, jnp.ones(3))  # fault
=== scan triple | pair
lax.scan(lambda c, x: (c, x, x), 1.0, jnp.ones(3))  # fault
=== scan lengths by leaf | 3 | 4
lax.scan(lambda c, x: (c, None), 1.0, {"a": jnp.ones(3), "b": jnp.ones(4)})  # fault
=== scan unroll | unroll
lax.scan(lambda c, x: (c, None), 1.0, jnp.ones(3), unroll=-1)  # fault
=== scan of no function | callable
lax.scan(3, 1.0, jnp.ones(3))  # fault
=== scan returns a string | str
lax.scan(lambda c, x: (c, "text"), 1.0, jnp.ones(3))  # fault
=== while carry leaf | [1]['k'] | int32[] | float32[]
def step(c):
    return c[0] + 1, {"k": c[1]["k"] * 0.5}
lax.while_loop(lambda c: c[0] < 3, step, (0, {"k": jnp.int32(1)}))  # fault
=== while carry tree | while_loop | [1]
lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, [c[1]]), (0, 1.0))  # fault
=== while predicate tree | cond_fun | pytree
lax.while_loop(lambda c: (c < 3, c), lambda c: c + 1, 0)  # fault
=== while of no function | callable
lax.while_loop(None, lambda c: c + 1, 0)  # fault
=== fori_loop carry leaf | ['y'] | float32[] | int32[]
lax.fori_loop(0, 3, lambda i, c: {"x": c["x"], "y": i}, {"x": 1.0, "y": jnp.float32(2)})  # fault
=== fori_loop bounds of two types | int32 | uint8
lax.fori_loop(jnp.int32(0), jnp.uint8(3), lambda i, c: c, 1.0)  # fault
=== fori_loop bound shape
lax.fori_loop(0, jnp.ones(2, int), lambda i, c: c, 1.0)  # fault
=== fori_loop traced unroll | unroll
jax.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c, 1.0, unroll=2))(3)  # fault
=== cond leaf type | ['b'] | float32[] | int32[]
lax.cond(True, lambda x: {"a": x, "b": x}, lambda x: {"a": x, "b": 1}, jnp.float32(1))  # fault
=== cond leaf shape | [1] | float32[3] | float32[2]
lax.cond(True, lambda x: (x, x), lambda x: (x, x[:2]), jnp.ones(3))  # fault
=== cond tree deep | ['p'][1] | tuple | list
lax.cond(True, lambda x: {"p": (x, (x,))}, lambda x: {"p": (x, [x])}, 1.0)  # fault
=== cond key | ('a', 'b') | ('a', 'c') | dict
lax.cond(True, lambda x: {"a": x, "b": x}, lambda x: {"a": x, "c": x}, 1.0)  # fault
=== cond None | None
lax.cond(True, lambda x: x, lambda x: None, 1.0)  # fault
=== cond branch no function | callable
lax.cond(True, 3, lambda x: x, 1.0)  # fault
=== switch third branch | branch2 | [0] | float32[2] | float32[]
lax.switch(1, [lambda x: (x,), lambda x: (x,), lambda x: (x.sum(),)], jnp.ones(2))  # fault
=== switch tree | branch1
lax.switch(1, [lambda x: (x,), lambda x: [x]], jnp.ones(2))  # fault
=== switch index shape | (2,)
lax.switch(jnp.arange(2), [lambda x: x, lambda x: -x], 1.0)  # fault
=== map sizes | 3 | 4
lax.map(lambda p: p[0], (jnp.ones(3), jnp.ones(4)))  # fault
=== associative_scan structure | structure
lax.associative_scan(lambda a, b: (a[0] + b[0],), (jnp.ones(3), jnp.ones(3)))  # fault
=== associative_scan sizes | (3,) | (4,)
lax.associative_scan(lambda a, b: a, (jnp.ones(3), jnp.ones(4)))  # fault
=== associative_scan of no function | callable
lax.associative_scan(3, jnp.ones(3))  # fault
=== checkpoint static out of range | static_argnums
jax.checkpoint(lambda x: x, static_argnums=3)(1.0)  # fault
=== checkpoint of a traced flag | if
@jax.checkpoint
def f(x, flag):
    if flag:  # fault
        return x
    return -x
f(1.0, True)
=== custom_jvp rule no pair | f | pair
@jax.custom_jvp
def f(x):
    return x
@f.defjvp
def f_jvp(primals, tangents):
    return tangents[0]
jax.jvp(f, (1.0,), (1.0,))  # fault
=== custom_jvp rule tangent tree | f_jvp
@jax.custom_jvp
def f(x):
    return {"a": x, "b": x}
@f.defjvp
def f_jvp(primals, tangents):
    return f(*primals), {"a": tangents[0]}
jax.jvp(f, (1.0,), (1.0,))  # fault
=== custom_jvp rule tangent leaf | f_jvp | float32[3] | float32[2]
@jax.custom_jvp
def f(x):
    return {"a": x, "b": x}
@f.defjvp
def f_jvp(primals, tangents):
    return f(*primals), {"a": tangents[0], "b": tangents[0][:2]}
jax.jvp(f, (jnp.ones(3),), (jnp.ones(3),))  # fault
=== custom_jvp rule tangent dtype | f_jvp | float32[] | int32[]
@jax.custom_jvp
def f(x):
    return x
@f.defjvp
def f_jvp(primals, tangents):
    return f(*primals), jnp.int32(1)
jax.jvp(f, (1.0,), (1.0,))  # fault
=== custom_vjp fwd single | f_fwd | pair
@jax.custom_vjp
def f(x):
    return x
def f_fwd(x):
    return x
f.defvjp(f_fwd, lambda res, ct: (ct,))
jax.grad(f)(1.0)  # fault
=== custom_vjp fwd tree | f_fwd
@jax.custom_vjp
def f(x):
    return x
def f_fwd(x):
    return (x, x), None
f.defvjp(f_fwd, lambda res, ct: (ct,))
jax.jit(jax.grad(jax.jit(f)))(1.0)  # fault
=== custom_vjp fwd type in a loop | f_fwd | output['p'] | float32[] | int32[]
@jax.custom_vjp
def f(x):
    return {"p": x, "q": x}
def f_fwd(x):
    return {"p": 2, "q": x}, None
f.defvjp(f_fwd, lambda res, ct: (ct["q"],))
loop = lambda x: lax.scan(lambda c, _: (f(c)["q"], None), x, None, length=2)[0]
jax.grad(loop)(jnp.float32(1))  # fault
=== custom_vjp fwd shape in jit | f_fwd | output | float32[] | float32[3]
@jax.custom_vjp
def f(x):
    return x * 2
def f_fwd(x):
    return jnp.ones(3), None
f.defvjp(f_fwd, lambda res, ct: (ct,))
jax.grad(lambda x: jax.jit(f)(x).sum())(1.0)  # fault
=== custom_vmap rule in a loop | float32[3] | int32[3] | custom_vmap
@jax.custom_batching.custom_vmap
def f(x):
    return x * 2
@f.def_vmap
def rule(size, batched, x):
    return (x * 2).astype(int), True
loop = lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]  # fault
jax.vmap(loop)(jnp.ones(3))
=== float in a gradient | float | stop_gradient
import math
def f(x):
    return x * math.sin(x)  # fault
jax.grad(f)(2.0)
=== devices of a traced array | devices | traced
jax.jit(lambda x: x.devices())(1.0)  # fault
=== committed of a traced array | committed | traced
jax.vmap(lambda x: x * x.committed)(jnp.ones(3))  # fault
=== tolist in a derivative | tolist | stop_gradient
def f(x):
    return x * sum(x.tolist())  # fault
jax.jvp(f, (jnp.ones(3),), (jnp.ones(3),))
=== all_to_all of what cannot be divided | divisible | 6 | 4
f = lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True)  # fault
jax.vmap(f, axis_name="i")(jnp.ones((4, 6)))
=== custom_vjp bwd arity | f_bwd
@jax.custom_vjp
def f(x, y):
    return x * y
def f_bwd(res, ct):
    return ct, ct, ct
f.defvjp(lambda x, y: (x * y, None), f_bwd)
jax.grad(f)(1.0, 2.0)  # fault
=== custom_vjp bwd not a tuple | f_bwd
@jax.custom_vjp
def f(x, y):
    return x * y
def f_bwd(res, ct):
    return ct
f.defvjp(lambda x, y: (x * y, None), f_bwd)
jax.grad(f)(1.0, 2.0)  # fault
=== custom_vjp bwd leaf | f_bwd | ['w'] | float32[3] | float32[2]
@jax.custom_vjp
def f(p):
    return p["w"].sum() + p["b"]
def f_bwd(res, ct):
    return ({"w": jnp.ones(2), "b": ct},)
f.defvjp(lambda p: (f(p), None), f_bwd)
jax.grad(f)({"w": jnp.ones(3), "b": 1.0})  # fault
=== custom_vjp bwd key | f_bwd
@jax.custom_vjp
def f(p):
    return p["w"] + p["b"]
def f_bwd(res, ct):
    return ({"w": ct, "c": ct},)
f.defvjp(lambda p: (f(p), None), f_bwd)
jax.grad(f)({"w": 1.0, "b": 1.0})  # fault
=== custom_vjp nondiff in bwd | @python
import functools
@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def f(n, x):
    return n * x
f.defvjp(lambda n, x: (n * x, None), lambda res, ct: (ct,))
jax.grad(f, 1)(2.0, 3.0)  # fault
=== custom_vjp nondiff tracer | nondiff_argnums
import functools
@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def f(n, x):
    return n * x
f.defvjp(lambda n, x: (n * x, None), lambda n, res, ct: (ct,))
jax.jit(f)(2.0, 3.0)  # fault
=== custom_vmap out_batched | rule
@jax.custom_batching.custom_vmap
def f(x):
    return x
@f.def_vmap
def rule(axis_size, in_batched, x):
    return x, (True, True)
jax.vmap(f)(jnp.ones(3))  # fault
=== custom_vmap no rule | f
@jax.custom_batching.custom_vmap
def f(x):
    return x
jax.vmap(f)(jnp.ones(3))  # fault
=== custom_vmap tree | rule
@jax.custom_batching.custom_vmap
def f(x):
    return {"a": x}
@f.def_vmap
def rule(axis_size, in_batched, x):
    return {"b": x}, {"b": True}
jax.vmap(f)(jnp.ones(3))  # fault
=== custom_linear_solve matvec | matvec
lax.custom_linear_solve(lambda x: (x, x), jnp.ones(3), lambda mv, b: b)  # fault
=== custom_linear_solve solve | solve | float32[3] | float32[2]
lax.custom_linear_solve(lambda x: 2 * x, jnp.ones(3), lambda mv, b: b[:2])  # fault
=== custom_linear_solve tree | solve
lax.custom_linear_solve(lambda x: x, {"a": jnp.ones(3)}, lambda mv, b: b["a"])  # fault
=== custom_linear_solve transpose | transpose_solve
def solve(b):
    return lax.custom_linear_solve(lambda x: 2 * x, b, lambda mv, b: b / 2).sum()
jax.grad(solve)(jnp.ones(3))  # fault
=== custom_root solve | solve
lax.custom_root(lambda x: x, 1.0, lambda f, x: (x, x), lambda g, y: y)  # fault
=== custom_root tangent_solve | tangent_solve
def root(a):
    return lax.custom_root(lambda x: x - a, 1.0, lambda f, x: x, lambda g, y: (y, y))  # fault
jax.grad(root)(1.0)
=== linear_call transpose | linear
def f(x):
    return jax.custom_derivatives.linear_call(lambda r, x: x * r, lambda r, t: (t, t), 2.0, x)
jax.grad(f)(1.0)  # fault
=== custom_gradient rule | @python
@jax.custom_gradient
def f(x):
    return x
jax.grad(f)(1.0)  # fault
=== branch with a backward rule of another dtype | float32[] | bfloat16[] | custom_vjp
@jax.custom_vjp
def f(x):
    return x
f.defvjp(lambda x: (x, None), lambda res, ct: (jnp.float32(1),))
jax.grad(lambda x: lax.cond(x > 0, f, lambda x: x, x))(jnp.bfloat16(1))  # fault
=== loop with a backward rule of another dtype | float32[] | bfloat16[] | custom_vjp
@jax.custom_vjp
def f(x):
    return x
f.defvjp(lambda x: (x, None), lambda res, ct: (jnp.float32(1),))
jax.grad(lambda x: lax.fori_loop(0, 3, lambda i, c: f(c), x))(jnp.bfloat16(1))  # fault
=== custom_root aux | has_aux
lax.custom_root(lambda x: x, 1.0, lambda f, x: x, lambda g, y: y, has_aux=True)  # fault
=== vmap in_axes prefix | in_axes[0] | child keys
jax.vmap(lambda p: p["a"], in_axes=({"a": 0, "b": 0},))({"a": jnp.ones(3)})  # fault
=== vmap in_axes list | in_axes
jax.vmap(lambda x, y: x, in_axes=[0, (0, 0)])(jnp.ones(3), jnp.ones(3))  # fault
=== vmap in_axes number | in_axes | 3
jax.vmap(lambda x, y: x, in_axes=(0, 0, 0))(jnp.ones(3), jnp.ones(3))  # fault
=== vmap in_axes leaf | in_axes
jax.vmap(lambda p: p, in_axes=({"a": 0.5},))({"a": jnp.ones(3)})  # fault
=== vmap sizes in trees | ['b'] | 3 | 4
jax.vmap(lambda p, y: y)({"w": jnp.ones(3), "b": jnp.ones(3)}, jnp.ones(4))  # fault
=== vmap axis_size | axis_size
jax.vmap(lambda x: x, axis_size=4)(jnp.ones(3))  # fault
=== vmap out_axes prefix | out_axes
jax.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(jnp.ones(3))  # fault
=== vmap out_axes range | out_axes
jax.vmap(lambda x: x, out_axes=2)(jnp.ones(3))  # fault
=== vmap out_axes dict | out_axes
jax.vmap(lambda x: {"a": x}, out_axes={"b": 0})(jnp.ones(3))  # fault
=== vmap out_axes None of a leaf | out_axes
jax.vmap(lambda x: {"a": x, "b": 1.0}, out_axes={"a": None, "b": None})(jnp.ones(3))  # fault
=== vmap rank of a leaf | ['b'] | rank
jax.vmap(lambda p: p["a"])({"a": jnp.ones(3), "b": 1.0})  # fault
=== pmap sizes | argument x | argument y | float32[1,3] | float32[2,3]
jax.pmap(lambda x, y: x)(jnp.ones((1, 3)), jnp.ones((2, 3)))  # fault
=== pmap in_axes | in_axes
jax.pmap(lambda x, y: x, in_axes=(0,))(jnp.ones((1, 3)), jnp.ones((1, 3)))  # fault
=== pmap devices | 50
jax.pmap(lambda x: x)(jnp.ones((50, 3)))  # fault
=== pmap static | static_broadcasted_argnums
jax.pmap(lambda x, n: x, static_broadcasted_argnums=1)(jnp.ones((1, 3)), [1])  # fault
=== vjp cotangent leaf | ['a'] | float32[3] | float32[2]
_, back = jax.vjp(lambda x: {"a": x, "b": x}, jnp.ones(3))
back({"a": jnp.ones(2), "b": jnp.ones(3)})  # fault
=== vjp cotangent key | ('a', 'b') | ('a', 'c') | dict
_, back = jax.vjp(lambda x: {"a": x, "b": x}, jnp.ones(3))
back({"a": jnp.ones(3), "c": jnp.ones(3)})  # fault
=== vjp cotangent dtype | float32[3] | int32[3]
_, back = jax.vjp(lambda x: x, jnp.ones(3))
back(jnp.ones(3, "int32"))  # fault
=== vjp two cotangents
_, back = jax.vjp(lambda x: x, jnp.ones(3))
back(jnp.ones(3), jnp.ones(3))  # fault
=== jvp tangent leaf | ['b'] | (3,) | (2,)
primal, tangent = ({"a": jnp.ones(3), "b": jnp.ones(n)} for n in (3, 2))
jax.jvp(lambda p: p["a"], (primal,), (tangent,))  # fault
=== jvp tangent of an integer | float0 | int32
jax.jvp(lambda x: x, (1,), (1,))  # fault
=== linearize tangent leaf | ['b'] | float32[3] | float32[2]
_, push = jax.linearize(lambda p: p["a"], {"a": jnp.ones(3), "b": jnp.ones(3)})
push({"a": jnp.ones(3), "b": jnp.ones(2)})  # fault
=== linearize tangent tree
_, push = jax.linearize(lambda p: p["a"], {"a": jnp.ones(3)})
push(jnp.ones(3))  # fault
=== linear_transpose cotangent | float32[3] | float32[2]
jax.linear_transpose(lambda x: 2 * x, jnp.ones(3))(jnp.ones(2))  # fault
=== grad of an integer leaf | ['n'] | int32
jax.grad(lambda p: p["x"] * 2.0)({"x": 1.0, "n": 3})  # fault
=== jit static default unhashable | hash
import functools
@functools.partial(jax.jit, static_argnames="shape")
def f(x, shape):
    return x
f(1.0, shape=[1, 2])  # fault
=== jit static unequal | @python
class Odd:
    def __eq__(self, other):
        raise TypeError("these are not compared")
    def __hash__(self):
        return 0
f = jax.jit(lambda x, o: x, static_argnums=1)
f(1.0, Odd())
f(1.0, Odd())  # fault
=== jit argument leaf | ['name'][1]
jax.jit(lambda p: p["x"])({"x": 1.0, "name": (1, "text")})  # fault
=== argnums below the first | Positional argument indices | -2
jax.grad(lambda x: x, argnums=-2)(1.0)  # fault
=== argnums of a Jacobian | Positional argument indices | 2
jax.jacfwd(lambda x: x, argnums=2)(1.0)  # fault
=== no reference read | Can only call `ref_get` on a `Ref`
jax.ref.get(1.0, ...)  # fault
=== no reference written | Can only call `ref_swap` on a `Ref`
jax.ref.swap(1.0, ..., 2.0)  # fault
=== no predicate | cond predicate is None
lax.cond(None, lambda: 1, lambda: 2)  # fault
=== switch at a string | Index type must be an integer, got a
lax.switch("a", [lambda x: x, lambda x: x], 1.0)  # fault
=== an operand of text | Error interpreting argument to sin as a JAX value | position 0
lax.sin("a")  # fault
=== a second operand of None | Error interpreting argument to add as a JAX value | position 1
lax.add(1.0, None)  # fault
=== a sink of text | Error interpreting argument to dce_sink as a JAX value
lax.dce_sink("a")  # fault
=== a derivative twice | argnums=(0, 0) | twice
jax.grad(lambda x, y: x * y, argnums=(0, 0))(2.0, 3.0)  # fault
=== a derivative twice, once from the end | argnums=(1, -1) | twice
jax.jacfwd(lambda x, y: x * y, argnums=(1, -1))(2.0, 3.0)  # fault
=== a sum over one axis twice | duplicate value in 'axes' of reduction
jax.vmap(lambda x: lax.psum(x, ("i", "i")), axis_name="i")(jnp.ones(3))  # fault
=== custom_jvp of a string | Error interpreting argument to custom_jvp_call | position 0
f = jax.custom_jvp(lambda x: x)
f.defjvp(lambda p, t: (p[0], t[0]))
f("a")  # fault
=== custom_jvp gives a string | is not a valid JAX type
f = jax.custom_jvp(lambda x: "a")
f.defjvp(lambda p, t: (p[0], t[0]))
f(1.0)  # fault
=== linear tangents' structure | expected PyTreeDef
jax.linearize(lambda x: x, 1.0)[1]({"a": 1.0})  # fault
"""
