"""One program for each library: `python tests/ecosystem_programs.py NAME` prints its
results as JSON, under JAX or (`python -m pullback run`) under Pullback; `--record` writes those of
JAX to tests/data/ecosystem.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

DATA = Path(__file__).resolve().parent / "data" / "ecosystem.json"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(32, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 32)


def run_equinox():
    """A network with state trained by Adam; loops with checkpoints; errors at run time."""
    import equinox as eqx
    import optax

    class Model(eqx.Module):
        norm: eqx.nn.BatchNorm
        layers: list

        def __init__(self, key):
            k1, k2 = jax.random.split(key)
            self.norm = eqx.nn.BatchNorm(4, axis_name="batch", mode="batch")
            self.layers = [eqx.nn.Linear(4, 16, key=k1), eqx.nn.Linear(16, 3, key=k2)]

        def __call__(self, x, state):
            x, state = self.norm(x, state)
            return self.layers[1](jax.nn.gelu(self.layers[0](x))), state

    model, state = eqx.nn.make_with_state(Model)(jax.random.PRNGKey(0))
    optimizer = optax.adam(1e-2)
    opt_state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_value_and_grad(has_aux=True)
    def loss_of(model, state):
        mapped = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
        logits, state = mapped(X, state)
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, Y).mean()
        return loss, state

    @eqx.filter_jit
    def step(model, state, opt_state):
        (loss, state), grads = loss_of(model, state)
        params = eqx.filter(model, eqx.is_inexact_array)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return eqx.apply_updates(model, updates), state, opt_state, loss

    losses = []
    for _ in range(8):
        model, state, opt_state, loss = step(model, state, opt_state)
        losses.append(loss)

    def loop(n, x, kind):
        return eqx.internal.while_loop(
            lambda c: c[0] < n,
            lambda c: (c[0] + 1.0, jnp.sin(c[1]) * 1.1),
            (jnp.float32(0), x),
            kind=kind,
            max_steps=16,
        )[1]

    def error(x):
        return eqx.error_if(x, x > 0, "positive!")

    try:
        eqx.filter_jit(error)(1.0)
        caught = False
    except Exception as e:
        caught = "positive!" in str(e)
    grads = jax.vmap(jax.grad(lambda n, x: loop(n, x, "checkpointed"), argnums=1))
    attention = eqx.nn.MultiheadAttention(2, 8, key=jax.random.PRNGKey(3))
    query = jnp.cos(jnp.arange(24.0).reshape(3, 8))
    return {
        "losses": losses,
        "bias": model.layers[1].bias,
        "checkpointed": grads(jnp.array([2.0, 5.0]), jnp.ones(2)),
        "bounded": jax.jvp(lambda x: loop(5.0, x, "bounded"), (1.0,), (1.0,)),
        "caught": caught,
        "attention": attention(query, query, query),
    }


def run_nnx():
    """A network with batch norm and dropout trained in place; a scan, a remat, a recurrent net."""
    import optax
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(4, 16, use_bias=False, rngs=rngs)
            self.norm = nnx.BatchNorm(16, rngs=rngs)
            self.dropout = nnx.Dropout(0.2, rngs=rngs)
            self.last = nnx.Linear(16, 3, rngs=rngs)
            self.count = nnx.Variable(jnp.array(0))

        def __call__(self, x):
            self.count[...] = self.count[...] + 1
            return self.last(self.dropout(nnx.gelu(self.norm(self.first(x)))))

    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        def loss_of(model):
            return optax.softmax_cross_entropy_with_integer_labels(model(X), Y).mean()

        loss, grads = nnx.value_and_grad(loss_of)(model)
        optimizer.update(model, grads)
        return loss

    losses = [step(model, optimizer) for _ in range(8)]
    model.eval()
    again = nnx.merge(*nnx.split(model))
    grads = nnx.grad(nnx.remat(lambda m: m(X).sum()))(model)

    @nnx.vmap(in_axes=(0, None))
    def make(key, x):
        return nnx.Linear(4, 2, rngs=nnx.Rngs(key))(x)

    rnn = nnx.RNN(nnx.LSTMCell(3, 5, rngs=nnx.Rngs(0)))
    return {
        "losses": losses,
        "count": model.count[...],
        "mean": model.norm.mean[...],
        "logits": again(X)[0],
        "grads": grads["last"]["bias"][...],
        "mapped": make(jax.random.split(jax.random.key(0), 3), X[0]),
        "rnn": rnn(jnp.ones((2, 4, 3)))[0, -1],
    }


def run_numpyro():
    """Eight schools by NUTS: a short chain without adaptation, to compare numbers, a long one, to
    compare what it says; variational inference; densities.
    """
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO

    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def model():
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("schools", 8):
            base = numpyro.sample("base", dist.Normal(0, 1))
            theta = numpyro.deterministic("theta", mu + tau * base)
            numpyro.sample("obs", dist.Normal(theta, sigma), obs=y)

    fixed = NUTS(model, step_size=0.2, adapt_step_size=False, adapt_mass_matrix=False,
                 max_tree_depth=4)  # fmt: skip
    short = MCMC(fixed, num_warmup=0, num_samples=5, progress_bar=False)
    short.run(jax.random.PRNGKey(0))
    long = MCMC(NUTS(model), num_warmup=300, num_samples=600, progress_bar=False)
    long.run(jax.random.PRNGKey(1))
    samples = long.get_samples()

    def guide():
        a = numpyro.param("a", jnp.zeros(()))
        b = numpyro.param("b", jnp.ones(()), constraint=dist.constraints.positive)
        numpyro.sample("mu", dist.Normal(a, b))
        numpyro.sample("tau", dist.LogNormal(numpyro.param("c", 0.0), 0.5))
        with numpyro.plate("schools", 8):
            numpyro.sample("base", dist.Normal(numpyro.param("d", jnp.zeros(8)), 1.0))

    svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
    fitted = svi.run(jax.random.PRNGKey(1), 100, progress_bar=False)
    densities = [
        dist.Gamma(2.0, 3.0).log_prob(1.5),
        dist.StudentT(3.0).log_prob(0.5),
        dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])).log_prob(jnp.array([0.2, 0.3, 0.5])),
        dist.LKJCholesky(3, 1.5).log_prob(jnp.eye(3)),
        dist.VonMises(0.0, 1.0).log_prob(0.5),
        dist.NegativeBinomial2(3.0, 2.0).log_prob(4),
    ]
    return {
        "short": short.get_samples()["mu"],
        "loose": [samples["mu"].mean(), samples["theta"].mean(0), samples["mu"].std()],
        "svi": fitted.losses[-3:],
        "densities": densities,
    }


def run_diffrax():
    """An ODE solved adaptively, its gradient two ways, an implicit solver, an SDE, an event."""
    import diffrax as dfx
    import equinox as eqx

    def field(t, y, args):
        a, b, c, d = args
        return jnp.stack([a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]])

    def solve(args, solver, adjoint=None):
        return dfx.diffeqsolve(
            dfx.ODETerm(field), solver, 0.0, 5.0, 0.1, jnp.array([10.0, 10.0]), args,
            saveat=dfx.SaveAt(ts=jnp.linspace(0.0, 5.0, 6)),
            stepsize_controller=dfx.PIDController(rtol=1e-5, atol=1e-5),
            adjoint=adjoint or dfx.RecursiveCheckpointAdjoint(),
        ).ys  # fmt: skip

    args = tuple(map(jnp.float32, (0.1, 0.02, 0.4, 0.02)))
    grad = jax.jit(jax.grad(lambda a: solve(a, dfx.Tsit5())[-1].sum()))(args)
    _, tangent = jax.jvp(
        lambda a: solve((a, *args[1:]), dfx.Tsit5(), dfx.ForwardMode())[-1],
        (args[0],),
        (jnp.float32(1),),
    )
    decay = dfx.ODETerm(lambda t, y, args: -y)
    path = dfx.VirtualBrownianTree(0.0, 1.0, 1e-3, (), jax.random.PRNGKey(0))
    terms = dfx.MultiTerm(decay, dfx.ControlTerm(lambda t, y, args: 0.1 * t, path))
    sde = dfx.diffeqsolve(terms, dfx.Euler(), 0.0, 1.0, 0.05, jnp.float32(1))
    event = dfx.Event(lambda t, y, args, **kwargs: y - 0.5)
    stopped = dfx.diffeqsolve(decay, dfx.Tsit5(), 0.0, 3.0, 0.1, jnp.float32(1), event=event)
    net = eqx.nn.MLP(2, 2, 16, 2, activation=jax.nn.softplus, key=jax.random.PRNGKey(0))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss_of(net, y0):
        term = dfx.ODETerm(lambda t, y, args: net(y))
        one = lambda y: dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 1.0, 0.1, y).ys[-1]
        return (jax.vmap(one)(y0) ** 2).mean()

    loss, grads = loss_of(net, jnp.ones((4, 2)))
    return {
        "explicit": jax.jit(lambda a: solve(a, dfx.Tsit5()))(args),
        "implicit": jax.jit(lambda a: solve(a, dfx.Kvaerno3()))(args)[-1],
        "grad": grad,
        "tangent": tangent,
        "sde": sde.ys,
        "event": stopped.ts,
        "neural": [loss, grads.layers[-1].bias],
    }


def run_lineax():
    """Linear systems, by iterations and by factors; a gradient through one."""
    import lineax as lx

    matrix = jnp.array([[4.0, 1.0], [1.0, 3.0]])
    operator = lx.MatrixLinearOperator(matrix, lx.positive_semidefinite_tag)
    solved = jax.grad(lambda b: lx.linear_solve(operator, b, lx.CG(1e-5, 1e-5)).value.sum())
    return {
        "lineax": solved(jnp.array([1.0, 2.0])),
        "lu": lx.linear_solve(lx.MatrixLinearOperator(matrix), jnp.ones(2)).value,
    }


def run_others():
    """Optimistix, jaxopt, chex, einops and haiku: a call or two of each."""
    import chex
    import einops
    import haiku as hk
    import jaxopt
    import optimistix as optx

    root = optx.root_find(lambda x, a: x**2 - a, optx.Newton(1e-5, 1e-5), jnp.float32(1), 2.0)
    fitted = jaxopt.LBFGS(lambda w: ((w - 3.0) ** 2).sum(), maxiter=20).run(jnp.zeros(2))
    net = hk.transform(lambda x: hk.nets.MLP([8, 2])(x))
    params = net.init(jax.random.PRNGKey(0), X)
    chex.assert_shape(jnp.ones((2, 3)), (2, 3))
    return {
        "optimistix": root.value,
        "jaxopt": fitted.params,
        "haiku": net.apply(params, None, X)[0],
        "einops": einops.rearrange(jnp.arange(6.0), "(a b) -> b a", a=2),
    }


def run_quax():
    """An array type of one's own, numbers with units, whose operations are rules for primitives;
    and one that quax brings, a low-rank matrix."""
    import equinox as eqx
    import quax
    from quax.examples import lora

    class Unitful(quax.ArrayValue):
        array: jax.Array
        units: dict = eqx.field(static=True)

        def aval(self):
            return jax.core.ShapedArray(self.array.shape, self.array.dtype)

        def materialise(self):
            raise ValueError("numbers with units are no plain numbers")

    def joined(a, b, sign):
        both = {k: a.get(k, 0) + sign * b.get(k, 0) for k in (*a, *b)}
        return {k: n for k, n in both.items() if n}

    @quax.register(jax.lax.add_p)
    def _(x: Unitful, y: Unitful, **params):
        assert x.units == y.units
        return Unitful(x.array + y.array, x.units)

    @quax.register(jax.lax.mul_p)
    def _(x: Unitful, y: Unitful, **params):
        return Unitful(x.array * y.array, joined(x.units, y.units, 1))

    @quax.register(jax.lax.div_p)
    def _(x: Unitful, y: Unitful, **params):
        return Unitful(x.array / y.array, joined(x.units, y.units, -1))

    @jax.jit
    @quax.quaxify
    def speed(path, time):
        return (path + path) / time * (time / time)

    metres, seconds = Unitful(jnp.arange(3.0), {"m": 1}), Unitful(jnp.full(3, 4.0), {"s": 1})
    found = speed(metres, seconds)
    linear = eqx.nn.Linear(4, 3, key=jax.random.PRNGKey(0))
    adapted = lora.loraify(linear, rank=2, scale=0.5, key=jax.random.PRNGKey(1))
    loss = lambda net, x: (jax.vmap(quax.quaxify(net))(x) ** 2).sum()
    grads = eqx.filter_grad(loss)(adapted, X)
    return {
        "units": [found.array, found.units["m"], found.units["s"]],
        "lora": [loss(adapted, X), *jax.tree.leaves(eqx.filter(grads, eqx.is_inexact_array))],
    }


PROGRAMS = {
    name.removeprefix("run_"): program
    for name, program in list(globals().items())
    if name.startswith("run_")
}


def listed(value):
    """Arrays as lists, for JSON."""
    if isinstance(value, dict):
        return {k: listed(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [listed(v) for v in value]
    return value if isinstance(value, bool) else np.asarray(value).tolist()


def record():
    """Runs every program under JAX, each in a process of its own."""
    found = {}
    for name in PROGRAMS:
        done = subprocess.run(
            [sys.executable, __file__, name], capture_output=True, text=True, check=True
        )
        found[name] = json.loads(done.stdout.splitlines()[-1])
    DATA.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        os.environ["JAX_PLATFORMS"] = "cpu"
        record()
    else:
        print(json.dumps(listed(PROGRAMS[sys.argv[1]]())))
