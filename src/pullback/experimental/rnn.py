"""Long short-term memory: recurrent networks whose weights are one vector, in the order of cuDNN.

The gates are the input's, the forgetting, the cell's and the output's, in this order. Of a network
of two directions, layer l has the numbers 2 l (forwards) and 2 l + 1 (backwards).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

from .. import lax, random
from ..api.jit import jit
from ..numpy import (
    arange,
    concatenate,
    flip,
    roll,
    split,
    stack,
    tanh,
    where,
)

__all__ = [
    "get_num_params_in_lstm", "init_lstm_weight", "lstm", "lstm_ref",
    "swap_lstm_gates", "unpack_lstm_weights",
]  # fmt: skip

Table = dict[int, Any]


def _shapes(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """(kind, number of the layer, shape) of each weight, as they lie in the vector."""
    directions = 2 if bidirectional else 1
    gates = 4 * hidden_size
    for k in range(num_layers * directions):
        width = input_size if k < directions else hidden_size * directions
        yield "W_ih", k, (gates, width)
        yield "W_hh", k, (gates, hidden_size)
    for k in range(num_layers * directions):
        yield "b_ih", k, (gates,)
        yield "b_hh", k, (gates,)


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """How many weights a network has.

    >>> from pullback.experimental import rnn
    >>> rnn.get_num_params_in_lstm(3, 4, num_layers=1, bidirectional=False)
    144
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    return sum(math.prod(shape) for _, _, shape in shapes)


def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """Random weights of the key `rng`, f32[n]: uniform within 1 / sqrt(hidden_size) of 0.

    >>> from pullback.experimental import rnn
    >>> rnn.init_lstm_weight(random.key(0), 3, 4, 1, False).shape
    (144,)
    """
    n = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    bound = math.sqrt(1.0 / hidden_size)
    return random.uniform(rng, (n,), minval=-bound, maxval=bound)


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[Table, Table, Table, Table]:
    """The weights of inputs and of hidden states, and the two biases, of each layer: four tables
    (number of the layer -> array).

    >>> from pullback.experimental import rnn
    >>> rnn.unpack_lstm_weights(jnp.zeros(144), 3, 4, 1, False)[0][0].shape
    (16, 3)
    """
    tables: dict[str, Table] = {"W_ih": {}, "W_hh": {}, "b_ih": {}, "b_hh": {}}
    at = 0
    for kind, k, shape in _shapes(input_size, hidden_size, num_layers, bidirectional):
        size = math.prod(shape)
        tables[kind][k] = weights[at : at + size].reshape(shape)
        at += size
    return tables["W_ih"], tables["W_hh"], tables["b_ih"], tables["b_hh"]


def swap_lstm_gates(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """The same network's weights with the gates of cell and output exchanged, as other libraries
    have them.

    >>> from pullback.experimental import rnn
    >>> rnn.swap_lstm_gates(jnp.arange(144.0), 3, 4, 1, False)[24]
    Array(36., dtype=float32)
    """
    parts, at = [], 0
    for _, _, shape in _shapes(input_size, hidden_size, num_layers, bidirectional):
        size = math.prod(shape)
        i, f, g, o = split(weights[at : at + size], 4)
        parts += [i, f, o, g]
        at += size
    return concatenate(parts)


def _backwards(sequences: Any, seq_lengths: Any) -> Any:
    """Sequences, time leading, in the other direction, their padding staying behind them."""
    length = sequences.shape[0]
    rolled = [roll(flip(sequences[:, k], 0), seq_lengths[k] - length, 0) for k in range(
        sequences.shape[1])]  # fmt: skip
    return stack(rolled, 1)


def _last(carries: Any, seq_lengths: Any) -> Any:
    return carries[seq_lengths - 1, arange(carries.shape[1])]


def _layer(x: Any, h: Any, c: Any, weights: list[Any], seq_lengths: Any) -> tuple[Any, Any, Any]:
    """One direction of a layer: (its results in time, the last hidden state, the last cell)."""
    w_ih, w_hh, b_ih, b_hh = weights

    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = split(x @ w_ih.T + b_ih[None] + h @ w_hh.T + b_hh[None], 4, axis=-1)
        c = lax.logistic(f) * c + lax.logistic(i) * tanh(g)
        h = lax.logistic(o) * tanh(c)
        return (h, c), (h, c, h)

    _, (hs, cs, out) = lax.scan(step, (h, c), x)
    valid = seq_lengths[None] > arange(x.shape[0], dtype="int32")[:, None]
    return where(valid[..., None], out, 0), _last(hs, seq_lengths), _last(cs, seq_lengths)


@functools.partial(jit, static_argnums=(8, 9, 10, 11, 12))
def lstm_ref(
    x: Any,
    h_0: Any,
    c_0: Any,
    W_ih: Table,
    W_hh: Table,
    b_ih: Table,
    b_hh: Table,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Any, Any, Any]:
    """A network of unpacked weights (`unpack_lstm_weights`) on `x`, f32[batch, time, input_size],
    of which the first `seq_lengths` (i32[batch]) steps count: (its results, f32[batch, time,
    hidden_size * directions], 0 behind the sequences; the last hidden states and cells,
    f32[layers * directions, batch, hidden_size] as `h_0` and `c_0`, which it starts from).

    >>> from pullback.experimental import rnn
    >>> weights = rnn.unpack_lstm_weights(jnp.ones(144), 3, 4, 1, False)
    >>> state = jnp.zeros((1, 2, 4))
    >>> y, h, c = rnn.lstm_ref(jnp.ones((2, 5, 3)), state, state, *weights,
    ...     jnp.array([5, 3]), 3, 4, 1, 0.0, False)
    >>> y.shape
    (2, 5, 4)

    NotImplementedError if `dropout` is not 0: there is no mask of which values would be dropped.
    """
    if dropout != 0.0:
        raise NotImplementedError(
            "Dropout not supported in LSTM reference: which values are dropped is not known. Fix: "
            "dropout=0.0."
        )
    directions, out = 2 if bidirectional else 1, x.transpose((1, 0, 2))
    last_h, last_c = [], []
    for layer in range(num_layers):
        results = []
        for k in range(layer * directions, (layer + 1) * directions):
            weights = [table[k] for table in (W_ih, W_hh, b_ih, b_hh)]
            reverse = k % directions == 1
            given = _backwards(out, seq_lengths) if reverse else out
            y, h, c = _layer(given, h_0[k], c_0[k], weights, seq_lengths)
            results.append(_backwards(y, seq_lengths) if reverse else y)
            last_h.append(h)
            last_c.append(c)
        out = concatenate(results, axis=-1) if bidirectional else results[0]
    return out.transpose((1, 0, 2)), stack(last_h), stack(last_c)


def lstm(
    x: Any,
    h_0: Any,
    c_0: Any,
    weights: Any,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any = None,
) -> tuple[Any, Any, Any]:
    """`lstm_ref` of weights as one vector. `precision` is that of its products.

    >>> from pullback.experimental import rnn
    >>> state = jnp.zeros((1, 2, 4))
    >>> y, h, c = rnn.lstm(jnp.ones((2, 5, 3)), state, state, jnp.ones(144), jnp.array([5, 3]),
    ...     input_size=3, hidden_size=4, num_layers=1, dropout=0.0, bidirectional=False)
    >>> h.shape
    (1, 2, 4)
    """
    tables = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    sizes = input_size, hidden_size, num_layers, dropout, bidirectional
    return lstm_ref(x, h_0, c_0, *tables, seq_lengths, *sizes)  # type: ignore[no-any-return]
