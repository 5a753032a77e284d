"""Ten training steps of two small Flax models with Optax's adam, printed as JSON: run under JAX and
under Pullback, the same.
"""

import json
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class MLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(16)(x))
        return nn.Dense(3)(x)


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(features=4, kernel_size=(3, 3))(x))
        x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(features=8, kernel_size=(3, 3))(x))
        x = nn.max_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        return nn.Dense(3)(nn.relu(nn.Dense(8)(x)))


def train(model, x, y, steps=10):
    params = model.init(jax.random.key(0), x)
    tx = optax.adam(1e-2)
    opt_state = tx.init(params)

    def loss_of(params):
        logits = model.apply(params, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @jax.jit
    def step(params, opt_state):
        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    losses = []
    for _ in range(steps):
        params, opt_state, loss = step(params, opt_state)
        losses.append(float(loss))
    named = {
        jax.tree_util.keystr(path): np.asarray(leaf).tolist()
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    }
    return losses, named


def main():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 5)).astype(np.float32), rng.integers(0, 3, 32)
    image = rng.normal(size=(8, 8, 8, 1)).astype(np.float32)
    result = {
        "mlp": train(MLP(), jnp.asarray(x), jnp.asarray(y)),
        "cnn": train(CNN(), jnp.asarray(image), jnp.asarray(y[:8])),
        "files": [
            name
            for name, module in sys.modules.items()
            if any(
                p in (getattr(module, "__file__", None) or "")
                for p in ("site-packages/jax/", "site-packages/jaxlib/")
            )
        ],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
