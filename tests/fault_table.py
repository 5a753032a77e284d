"""Faults of users: snippets of code, and what the message of the error must hold.

The line with `# fault` is the user's line at fault. `says` are words that the message must have:
the argument, the function or the type. `line`: the message itself names that line (where the fault
shows elsewhere than where it was made); otherwise the traceback's last user frame is on it.
`python`: the words are Python's own, who offers no fix.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One row of the table."""

    name: str
    code: str
    says: tuple[str, ...] = ()
    line: bool = False
    python: bool = False


def rows(text: str = "") -> list[Fault]:
    """Every fault of a table, by default of this one."""
    found = []
    for block in (text or TEXT).strip().split("\n=== "):
        head, code = block.removeprefix("=== ").split("\n", 1)
        name, *words = [part.strip() for part in head.split("|")]
        line = "@line" in words
        says = tuple(w for w in words if not w.startswith("@"))
        found.append(Fault(name, code + "\n", says, line, "@python" in words))
    return found


TEXT = """
=== add shapes | (3,) | (4,) | add
jnp.ones(3) + jnp.ones(4)  # fault
=== add shapes in jit | (3,) | (4,) | add
@jax.jit
def f(x, y):
    return x + y  # fault
f(jnp.ones(3), jnp.ones(4))
=== lax dtypes | float32 | int32 | add
lax.add(jnp.ones(3), jnp.arange(3))  # fault
=== lax shapes | mul | number of dimensions
lax.mul(jnp.ones(3), jnp.ones((2, 3)))  # fault
=== matmul shapes | (2, 3)
jnp.matmul(jnp.ones((2, 3)), jnp.ones((2, 3)))  # fault
=== matmul scalar | matmul
jnp.matmul(jnp.ones(()), jnp.ones(3))  # fault
=== dot shapes | dot
jnp.dot(jnp.ones(3), jnp.ones(4))  # fault
=== dot_general contraction | dot_general
lax.dot_general(jnp.ones((2, 3)), jnp.ones((2, 3)), (((1,), (0,)), ((), ())))  # fault
=== reshape size | (6,) | (4, 2)
jnp.ones(6).reshape(4, 2)  # fault
=== reshape unknown | (6,)
jnp.ones(6).reshape(4, -1)  # fault
=== broadcast_to | [3] | [4]
jnp.broadcast_to(jnp.ones(3), (4,))  # fault
=== concatenate shapes | concatenate | (2, 4)
jnp.concatenate([jnp.ones((2, 3)), jnp.ones((2, 4))])  # fault
=== concatenate nothing | concatenate
jnp.concatenate([])  # fault
=== stack shapes | (2,) | (3,)
jnp.stack([jnp.ones(2), jnp.ones(3)])  # fault
=== axis out of range | axis 2
jnp.sum(jnp.ones((2, 3)), axis=2)  # fault
=== argmax axis | axis
jnp.argmax(jnp.ones(3), axis=1)  # fault
=== transpose permutation | transpose
jnp.transpose(jnp.ones((2, 3)), (0, 0))  # fault
=== squeeze | squeeze
jnp.squeeze(jnp.ones((2, 3)), 0)  # fault
=== expand_dims axis | axis
jnp.expand_dims(jnp.ones(3), 5)  # fault
=== swapaxes | axis
jnp.swapaxes(jnp.ones(3), 0, 1)  # fault
=== split unequal | split
jnp.split(jnp.ones(5), 2)  # fault
=== list as array | sum | list
jnp.sum([1, 2, 3])  # fault
=== string as array | sin
jnp.sin("text")  # fault
=== None as array | None
jnp.add(jnp.ones(3), None)  # fault
=== object array | object
jnp.asarray(np.array([object()]))  # fault
=== ragged list | @python
jnp.array([[1, 2], [3]])  # fault
=== tuple operand | tuple | @python
jnp.ones(2) + (1, 2)  # fault
=== unknown dtype | float99 | @python
jnp.zeros(3, dtype="float99")  # fault
=== item assignment | .at[
x = jnp.zeros(3)
x[0] = 1  # fault
=== item assignment of a tracer | .at[
@jax.jit
def f(x):
    x[0] = 1.0  # fault
    return x
f(jnp.zeros(3))
=== in-place attribute | @python
x = jnp.zeros(3)
x.shape = (1, 3)  # fault
=== too many indices | indices
jnp.ones((2, 3))[0, 0, 0]  # fault
=== float index | index
jnp.ones(3)[1.5]  # fault
=== string index | index
jnp.ones(3)["a"]  # fault
=== list index
jnp.ones(3)[[0, 1]]  # fault
=== mask shape | (4,)
jnp.ones(3)[jnp.array([True, False, True, True])]  # fault
=== mask of a tracer | bool[3] | where | @line
@jax.jit
def f(x):
    return x[x > 0]  # fault
f(jnp.ones(3))
=== dynamic slice bounds of a tracer | slice
@jax.jit
def f(x, n):
    return x[:n]  # fault
f(jnp.ones(3), 2)
=== two ellipses | ellipsis
jnp.ones((2, 3))[..., ...]  # fault
=== len of a scalar | @python
len(jnp.ones(()))  # fault
=== iterate a scalar | @python
list(jnp.ones(()))  # fault
=== bool of an array | any
bool(jnp.ones(3) > 0)  # fault
=== int of an array
int(jnp.ones(3))  # fault
=== hash of an array | hash | @python
hash(jnp.ones(3))  # fault
=== if on a tracer | bool[] | lax.cond | f
@jax.jit
def f(x):
    if x > 0:  # fault
        return x
    return -x
f(1.0)
=== while on a tracer | while_loop
@jax.jit
def f(x):
    while x < 10:  # fault
        x = x * 2
    return x
f(1.0)
=== and of tracers | bool[]
@jax.jit
def f(x):
    return x > 0 and x < 1  # fault
f(1.0)
=== int of a tracer | int | f
@jax.jit
def f(x):
    return int(x)  # fault
f(1.0)
=== float of a tracer | float
@jax.jit
def f(x):
    return float(x)  # fault
f(1.0)
=== complex of a tracer | complex
@jax.jit
def f(x):
    return complex(x)  # fault
f(1.0)
=== item of a tracer | item
@jax.jit
def f(x):
    return x.item()  # fault
f(1.0)
=== range of a tracer | fori_loop
@jax.jit
def f(n):
    return sum(range(n))  # fault
f(3)
=== list indexed by a tracer | __index__
@jax.jit
def f(k):
    return [1, 2, 3][k]  # fault
f(1)
=== numpy on a tracer | pullback.numpy | f
@jax.jit
def f(x):
    return np.sin(x)  # fault
f(1.0)
=== numpy asarray of a tracer | __array__
@jax.jit
def f(x):
    return np.asarray(x)  # fault
f(jnp.ones(3))
=== zeros of a traced size | static
@jax.jit
def f(n):
    return jnp.zeros(n)  # fault
f(3)
=== arange of a traced size | static
@jax.jit
def f(n):
    return jnp.arange(n)  # fault
f(3)
=== reshape to a traced size
@jax.jit
def f(x, n):
    return x.reshape(n, 2)  # fault
f(jnp.ones(4), 2)
=== nonzero in jit | size=
@jax.jit
def f(x):
    return jnp.nonzero(x)  # fault
f(jnp.ones(3))
=== unique in jit | size
@jax.jit
def f(x):
    return jnp.unique(x)  # fault
f(jnp.ones(3))
=== negative size
jnp.zeros((2, -1))  # fault
=== leak to a list | float32[] | @line
kept = []
@jax.jit
def f(x):
    kept.append(x * 2)
    return x
f(1.0)
kept[0] + 1  # fault
=== leak to a global | float32[] | @line
@jax.jit
def f(x):
    global leaked
    leaked = x
    return x
f(1.0)
jnp.sin(leaked)  # fault
=== leak to an attribute | float32[3] | @line
class Box:
    pass
box = Box()
def f(x):
    box.value = x
    return x.sum()
jax.grad(f)(jnp.ones(3))
box.value * 2  # fault
=== leak from vmap | float32[] | @line
kept = []
jax.vmap(lambda x: (kept.append(x), x)[1])(jnp.ones(3))
jnp.cos(kept[0])  # fault
=== leak from scan | float32[] | @line
kept = []
lax.scan(lambda c, _: (kept.append(c), (c, None))[1], 1.0, None, length=3)
kept[0] + 1  # fault
=== leak into another jit | @line
kept = []
jax.jit(lambda x: (kept.append(x), x)[1])(1.0)
jax.jit(lambda y: y + kept[0])(1.0)  # fault
=== array argument of the wrong kind | static_argnums | x['name']
@jax.jit
def f(x):
    return x
f({"name": "text"})  # fault
=== function as an argument | static_argnums
@jax.jit
def f(g, x):
    return g(x)
f(jnp.sin, 1.0)  # fault
=== jit returns a string | f
@jax.jit
def f(x):
    return "text"
f(1.0)  # fault
=== jit of no function
jax.jit(3)  # fault
=== unhashable static | hash
import functools
@functools.partial(jax.jit, static_argnums=1)
def f(x, shape):
    return jnp.zeros(shape)
f(1.0, [2, 3])  # fault
=== static_argnums out of range | static_argnums
def f(x):
    return x
jax.jit(f, static_argnums=2)  # fault
=== static_argnames unknown | static_argnames
def f(x):
    return x
jax.jit(f, static_argnames="y")  # fault
=== donate and static | donate_argnames
jax.jit(lambda x: x, static_argnums=0, donate_argnums=0)  # fault
=== donate_argnums out of range | donate_argnums
jax.jit(lambda x: x, donate_argnums=3)  # fault
=== wrong number of arguments | @python
jax.jit(lambda x, y: x)(1.0)  # fault
=== deleted array | deleted | float32[3]
x = jnp.ones(3)
x.delete()
np.asarray(x)  # fault
=== deleted array in jit | deleted
x = jnp.ones(3)
x.delete()
jax.jit(lambda x: x + 1)(x)  # fault
=== donated twice | donat
x = jnp.ones(3)
jax.jit(lambda x, y: x + y, donate_argnums=(0, 1))(x, x)  # fault
=== grad of a vector | scalar | (3,)
jax.grad(lambda x: x * 2)(jnp.ones(3))  # fault
=== grad of an integer | int32
jax.grad(lambda x: x * 2.0)(3)  # fault
=== grad with an integer result | int32
jax.grad(lambda x: jnp.int32(3))(1.0)  # fault
=== grad of a complex function
jax.grad(lambda x: x * 1j)(1.0)  # fault
=== grad argnums out of range | argnums
jax.grad(lambda x: x, argnums=2)(1.0)  # fault
=== grad argnums type | argnums
jax.grad(lambda x: x, argnums="x")(1.0)  # fault
=== grad has_aux | has_aux
jax.grad(lambda x: x, has_aux=True)(1.0)  # fault
=== grad of a dict with a string
jax.grad(lambda p: p["w"])({"w": 1.0, "name": "text"})  # fault
=== value_and_grad of a tuple | scalar
jax.value_and_grad(lambda x: (x, x))(1.0)  # fault
=== grad through while with a print | while_loop | effects
def f(x):
    def body(c):
        jax.debug.print("{c}", c=c)
        return c * 2
    return lax.while_loop(lambda c: c < 10.0, body, x)
jax.grad(f)(1.0)  # fault
=== jvp tree mismatch | tangent
jax.jvp(lambda x: x, (1.0,), [1.0])  # fault
=== jvp tangent shape | (3,) | (2,)
jax.jvp(lambda x: x, (jnp.ones(3),), (jnp.ones(2),))  # fault
=== jvp tangent dtype | float32 | int32
jax.jvp(lambda x: x, (1.0,), (1,))  # fault
=== jvp primals not a tuple | tuple
jax.jvp(lambda x: x, 1.0, 1.0)  # fault
=== vjp cotangent tree
_, back = jax.vjp(lambda x: (x, x), 1.0)
back(1.0)  # fault
=== vjp cotangent shape | float32[3] | float32[2]
_, back = jax.vjp(lambda x: x, jnp.ones(3))
back(jnp.ones(2))  # fault
=== linearize tangent | float32[3]
_, push = jax.linearize(lambda x: x * 2, jnp.ones(3))
push(jnp.ones(2))  # fault
=== linear_transpose of a nonlinear function | linear
jax.linear_transpose(lambda x: x * x, 1.0)(1.0)  # fault
=== jacfwd of integers | int32
jax.jacfwd(lambda x: x)(jnp.arange(3))  # fault
=== vmap sizes | size | x | y
def f(x, y):
    return x + y
jax.vmap(f)(jnp.ones(3), jnp.ones(4))  # fault
=== vmap of a scalar | rank
jax.vmap(lambda x: x)(1.0)  # fault
=== vmap in_axes out of range | axis
jax.vmap(lambda x: x, in_axes=2)(jnp.ones((2, 3)))  # fault
=== vmap in_axes tree | in_axes
jax.vmap(lambda x, y: x, in_axes=(0,))(jnp.ones(2), jnp.ones(2))  # fault
=== vmap in_axes type | in_axes
jax.vmap(lambda x: x, in_axes="0")  # fault
=== vmap all None | in_axes
jax.vmap(lambda x: x, in_axes=None)(jnp.ones(2))  # fault
=== vmap out_axes None | out_axes
jax.vmap(lambda x: x, out_axes=None)(jnp.ones(2))  # fault
=== unbound axis name | batch
lax.psum(1.0, "batch")  # fault
=== scan carry type | float32 | int32 | carry
lax.scan(lambda c, _: (c.astype(jnp.float32), None), jnp.int32(0), None, length=2)  # fault
=== scan carry tree | carry
lax.scan(lambda c, _: ((c, c), None), 1.0, None, length=2)  # fault
=== scan returns no pair | scan
lax.scan(lambda c, x: c, 1.0, jnp.ones(3))  # fault
=== scan lengths | scan
lax.scan(lambda c, x: (c, None), 1.0, (jnp.ones(3), jnp.ones(4)))  # fault
=== scan without length | length
lax.scan(lambda c, x: (c, None), 1.0, None)  # fault
=== scan over a scalar
lax.scan(lambda c, x: (c, None), 1.0, 2.0)  # fault
=== scan length disagrees | length
lax.scan(lambda c, x: (c, None), 1.0, jnp.ones(3), length=2)  # fault
=== while carry | while_loop
lax.while_loop(lambda c: c < 3, lambda c: jnp.ones(3), 0.0)  # fault
=== while predicate type | bool
lax.while_loop(lambda c: c, lambda c: c + 1, 1.0)  # fault
=== while predicate shape | bool[3]
lax.while_loop(lambda c: c > 0, lambda c: c, jnp.ones(3))  # fault
=== cond branches differ | cond | true_fun | false_fun
lax.cond(True, lambda x: x, lambda x: jnp.ones(3), 1.0)  # fault
=== cond branch trees differ | cond
lax.cond(True, lambda x: (x, x), lambda x: x, 1.0)  # fault
=== cond predicate | scalar
lax.cond(jnp.array([True, False]), lambda x: x, lambda x: x, 1.0)  # fault
=== cond predicate type
lax.cond("yes", lambda x: x, lambda x: x, 1.0)  # fault
=== cond operands | @python
lax.cond(True, lambda x: x, lambda x: x)  # fault
=== switch index | Index
lax.switch(1.5, [lambda x: x, lambda x: x], 1.0)  # fault
=== switch without branches | branch
lax.switch(0, [], 1.0)  # fault
=== fori_loop bounds
lax.fori_loop(0.0, 3, lambda i, c: c, 1.0)  # fault
=== fori_loop carry | carry
lax.fori_loop(0, 3, lambda i, c: (c, c), 1.0)  # fault
=== custom_jvp without rule | defjvp | f
@jax.custom_jvp
def f(x):
    return x
jax.grad(f)(1.0)  # fault
=== custom_jvp rule result | f
@jax.custom_jvp
def f(x):
    return x
f.defjvp(lambda primals, tangents: primals[0])
jax.grad(f)(1.0)  # fault
=== custom_jvp tangent shape | f
@jax.custom_jvp
def f(x):
    return x
f.defjvp(lambda primals, tangents: (primals[0], jnp.ones(3)))
jax.grad(f)(1.0)  # fault
=== custom_vjp without rule | defvjp | f
@jax.custom_vjp
def f(x):
    return x
jax.grad(f)(1.0)  # fault
=== custom_vjp forward result | f
@jax.custom_vjp
def f(x):
    return x
f.defvjp(lambda x: x, lambda res, ct: (ct,))
jax.grad(f)(1.0)  # fault
=== custom_vjp backward count | f
@jax.custom_vjp
def f(x, y):
    return x + y
f.defvjp(lambda x, y: (x + y, None), lambda res, ct: (ct,))
jax.grad(f)(1.0, 2.0)  # fault
=== custom_vjp backward shape | f
@jax.custom_vjp
def f(x):
    return x
f.defvjp(lambda x: (x, None), lambda res, ct: (jnp.ones(3),))
jax.grad(f)(1.0)  # fault
=== forward mode of custom_vjp | custom_vjp
@jax.custom_vjp
def f(x):
    return x
f.defvjp(lambda x: (x, None), lambda res, ct: (ct,))
jax.jvp(f, (1.0,), (1.0,))  # fault
=== convolution channels | conv_general_dilated
lax.conv_general_dilated(jnp.ones((1, 3, 8, 8)), jnp.ones((4, 2, 3, 3)), (1, 1), "SAME")  # fault
=== convolution padding | padding
lax.conv_general_dilated(jnp.ones((1, 3, 8, 8)), jnp.ones((4, 3, 3, 3)), (1, 1), "WIDE")  # fault
=== dynamic_slice size | dynamic_slice
lax.dynamic_slice(jnp.ones(3), (0,), (4,))  # fault
=== dynamic_update_slice shape | dynamic_update_slice
lax.dynamic_update_slice(jnp.ones(3), jnp.ones(4), (0,))  # fault
=== pad config | pad
lax.pad(jnp.ones(3), 0.0, [])  # fault
=== where arguments | where
jnp.where(jnp.ones(3) > 0, 1.0)  # fault
=== clip of a string
jnp.clip("text", 0, 1)  # fault
=== einsum subscripts | einsum
jnp.einsum("ij,jk->ik", jnp.ones((2, 3)))  # fault
=== einsum sizes
jnp.einsum("ij,jk->ik", jnp.ones((2, 3)), jnp.ones((2, 3)))  # fault
=== big integer | int32
jnp.ones(3, jnp.int32) + 3000000000  # fault
=== bitwise of floats | float32
jnp.ones(3) & jnp.ones(3)  # fault
=== shift of floats | float32
jnp.ones(3) << 1  # fault
=== reduce an empty array | max
jnp.max(jnp.ones((0,)))  # fault
=== linalg of a vector
jnp.linalg.inv(jnp.ones(3))  # fault
=== key arithmetic | key<fry> | @python
jax.random.key(0) + 1  # fault
=== key as numbers | key
jnp.sin(jax.random.key(0))  # fault
=== random without a key | key
jax.random.normal(0.5, (3,))  # fault
=== seed type | key
jax.random.key(1.5)  # fault
=== random dtype | dtype
jax.random.uniform(jax.random.key(0), (3,), dtype=jnp.int32)  # fault
=== key batch | normal | (2,)
jax.random.normal(jax.random.split(jax.random.key(0), 2), (3,))  # fault
=== tree structures differ
jax.tree.map(lambda x, y: x, {"a": 1}, {"b": 1})  # fault
=== tree leaves missing
jax.tree.unflatten(jax.tree.structure((1, 2)), [1])  # fault
=== device of nothing
jax.devices("quantum")  # fault
=== unknown flag
jax.config.update("jax_no_such_flag", True)  # fault
"""
