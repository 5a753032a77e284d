"""Workloads as users of PyTorch write them: the module first, then tensors.

The fastest public form of each, of what computes the same; loops are Python's. Gradients are by
`torch.func`, whose functions of parameters `torch.compile` takes whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

ERF_SCALE = 1 / math.sqrt(2)


# --- pointwise
def gelu(torch: Any, x: Any) -> Any:
    return torch.nn.functional.gelu(x, approximate="tanh")


def mixture(torch: Any, x: Any) -> Any:
    return torch.log(x + 1) * torch.exp(-x) + x**1.7


def black_scholes(torch: Any, price: Any, strike: Any, years: Any) -> Any:
    rate, vol = 0.02, 0.3
    root = vol * torch.sqrt(years)
    d1 = (torch.log(price / strike) + (rate + vol * vol / 2) * years) / root
    normal = lambda d: 0.5 * (1 + torch.erf(d * ERF_SCALE))
    return price * normal(d1) - strike * torch.exp(-rate * years) * normal(d1 - root)


def repeated(torch: Any, x: Any) -> Any:
    for _ in range(20):
        x = torch.sin(x) * 1.01 + x.mean()
    return x


def standardise(torch: Any, x: Any) -> Any:
    x = x - x.mean(0)
    return x / x.std(0, correction=0)


def polynomial(torch: Any, coefficients: Any, x: Any) -> Any:
    total = torch.zeros_like(x)
    for c in coefficients:
        total = total * x + c
    return total


# --- reductions
def layer_norm(torch: Any, x: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=1e-5)


# --- pairwise
def bodies(torch: Any, p: Any, m: Any) -> Any:
    d = p[:, None] - p[None]
    square = (d * d).sum(-1) + 1e-3
    return (d * (m[None, :] / (square * torch.sqrt(square)))[:, :, None]).sum(1)


def rbf(torch: Any, x: Any, v: Any) -> Any:
    square = ((x[:, None] - x[None]) ** 2).sum(-1)
    return (torch.exp(-0.5 * square) * v[None]).sum(1)


def nearest(torch: Any, x: Any, y: Any) -> Any:
    return ((x[:, None] - y[None]) ** 2).sum(-1).argmin(1)


def energy(torch: Any, p: Any) -> Any:
    def energy(p: Any) -> Any:
        d = p[:, None] - p[None]
        return torch.log1p((d * d).sum(-1)).sum()

    return torch.func.grad(energy)(p)


# --- indexing
def dropped(torch: Any, x: Any, i: Any, values: Any) -> Any:
    inside = i < len(x)
    return x.index_add(0, i[inside], values[inside])


def scatter_add(torch: Any, x: Any, i: Any) -> Any:
    return torch.zeros(1000, dtype=x.dtype).index_add_(0, i, x)


def segment_maximum(count: int) -> Callable[..., Any]:
    def maximum(torch: Any, x: Any, i: Any) -> Any:
        empty = torch.full((count,), -torch.inf, dtype=x.dtype)
        return empty.scatter_reduce_(0, i.long(), x, "amax")

    return maximum


def added_rows(torch: Any, x: Any, i: Any, rows: Any) -> Any:
    return x.index_add(0, i, rows)


def added_columns(torch: Any, x: Any, i: Any, columns: Any) -> Any:
    return x.index_add(1, i, columns)


def summed_rows(torch: Any, rows: Any, i: Any) -> Any:
    return torch.zeros(1000, rows.shape[1], dtype=rows.dtype).index_add_(0, i, rows)


def embedding(torch: Any, table: Any, i: Any) -> Any:
    return torch.func.grad(lambda t: (torch.nn.functional.embedding(i, t) ** 2).sum())(table)


def stencil(torch: Any, u: Any) -> Any:
    roll = torch.roll
    return roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u


def joined(torch: Any, a: Any, b: Any) -> Any:
    return torch.nn.functional.pad(torch.cat([a, 2 * b], dim=1), (1, 1, 1, 1))


def mirrored(torch: Any, x: Any) -> Any:
    return torch.nn.functional.pad(x[None], (3, 3, 3, 3), mode="reflect")[0]


# --- linalg
def power(torch: Any, a: Any, v: Any) -> Any:
    for _ in range(100):
        v = a @ v
        v = v / torch.sqrt((v * v).sum())
    return v


def conjugate_gradients(torch: Any, a: Any, b: Any) -> Any:
    x, r, p, rr = torch.zeros_like(b), b, b, b @ b
    for _ in range(30):
        ap = a @ p
        alpha = rr / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        new = r @ r
        p, rr = r + new / rr * p, new
    return x


# --- convolution: features last, as the workloads have them
def _convolve(torch: Any, x: Any, w: Any, **options: Any) -> Any:
    x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
    return torch.nn.functional.conv2d(x, w, **options).permute(0, 2, 3, 1)


def plain(torch: Any, x: Any, w: Any) -> Any:
    return _convolve(torch, x, w, padding=1)


def depthwise(torch: Any, x: Any, w: Any) -> Any:
    return _convolve(torch, x, w, padding=1, groups=64)


def transposed(torch: Any, x: Any, w: Any) -> Any:
    w = w.permute(2, 3, 0, 1).flip(2, 3)
    y = torch.nn.functional.conv_transpose2d(x.permute(0, 3, 1, 2), w, stride=2, padding=1)
    return y.permute(0, 2, 3, 1)


def weight_gradient(torch: Any, w: Any, x: Any) -> Any:
    return torch.func.grad(lambda w: (plain(torch, x, w) ** 2).sum())(w)


def picture(torch: Any, x: Any, k: Any) -> Any:
    k = k.flip(0, 1)[None, None]
    return torch.nn.functional.conv2d(x[None, None], k, padding="same")[0, 0]


def one_d(torch: Any, x: Any, k: Any) -> Any:
    k = k.flip(0)[None, None]
    return torch.nn.functional.conv1d(x[None, None], k, padding=k.shape[-1] - 1)[0, 0]


# --- loops
def heat(torch: Any, u: Any) -> Any:
    for _ in range(100):
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        u = u.clone()
        u[1:-1, 1:-1] += 0.1 * inner
    return u


def recurrent(torch: Any, w: Any, u: Any, xs: Any) -> Any:
    def loss(w: Any, u: Any) -> Any:
        h, hs = torch.zeros(32), []
        for x in xs:
            h = torch.tanh(w @ h + u @ x)
            hs.append(h)
        return (torch.stack(hs) ** 2).mean()

    return torch.func.grad(loss, argnums=(0, 1))(w, u)


def unrolled(torch: Any, x: Any, a: Any) -> Any:
    def loss(x: Any) -> Any:
        for _ in range(100):
            x = x + 0.05 * torch.sin(a * x)
        return (x * x).sum()

    return torch.func.grad(loss)(x)


# --- models
def _stepped(torch: Any, loss: Callable[[Any], Any], params: Any) -> Any:
    """A step of gradient descent, and the loss."""
    slope, value = torch.func.grad_and_value(loss)(params)

    def less(p: Any, g: Any) -> Any:
        if isinstance(p, dict):
            return {k: less(p[k], g[k]) for k in p}
        if isinstance(p, list | tuple):
            return type(p)(less(a, b) for a, b in zip(p, g, strict=True))
        return p - 0.1 * g

    return less(params, slope), value


def mlp(torch: Any, params: Any, x: Any) -> Any:
    for layer in params[:-1]:
        x = torch.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def mlp_step(torch: Any, params: Any, x: Any, y: Any) -> Any:
    entropy = torch.nn.functional.cross_entropy
    return _stepped(torch, lambda p: entropy(mlp(torch, p, x), y.long()), params)


def cnn_step(torch: Any, params: Any, x: Any, y: Any) -> Any:
    def loss(p: Any) -> Any:
        h = torch.relu(_convolve(torch, x, p["c1"], padding=1))
        # "SAME" with stride 2 pads behind only.
        h = torch.nn.functional.pad(h, (0, 0, 0, 1, 0, 1))
        h = torch.relu(_convolve(torch, h, p["c2"], stride=2))
        return torch.nn.functional.cross_entropy(h.reshape(len(h), -1) @ p["d"], y.long())

    return _stepped(torch, loss, params)


def attention(torch: Any, q: Any, k: Any, v: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def gpt_step(heads: int) -> Callable[..., Any]:
    def step(torch: Any, params: Any, tokens: Any, following: Any) -> Any:
        F = torch.nn.functional

        def block(layer: Any, x: Any) -> Any:
            b, t, width = x.shape
            x1 = F.layer_norm(x, (width,), *layer["norm1"], eps=1e-5)
            q, k, v = (x1 @ layer["qkv"]).reshape(b, t, heads, -1).chunk(3, -1)
            q, k, v = (a.transpose(1, 2) for a in (q, k, v))
            mixed = F.scaled_dot_product_attention(
                q, k, v, is_causal=True, scale=1 / math.sqrt(width / heads)
            )
            x = x + mixed.transpose(1, 2).reshape(b, t, -1) @ layer["out"]
            x2 = F.layer_norm(x, (width,), *layer["norm2"], eps=1e-5)
            return x + F.gelu(x2 @ layer["up"], approximate="tanh") @ layer["down"]

        def loss(p: Any) -> Any:
            x = F.embedding(tokens, p["embedding"]) + p["places"]
            for layer in p["layers"]:
                x = block(layer, x)
            logits = F.layer_norm(x, x.shape[-1:], *p["norm"], eps=1e-5) @ p["embedding"].T
            return F.cross_entropy(logits.flatten(0, 1), following.long().flatten())

        return _stepped(torch, loss, params)

    return step


def hessian(torch: Any, w: Any, x: Any, y: Any) -> Any:
    loss = lambda w: torch.nn.functional.softplus(-y * (x @ w)).mean()
    return torch.func.hessian(loss)(w)


def adam(torch: Any, p: Any, m: Any, v: Any, g: Any) -> Any:
    m = [0.9 * a + 0.1 * b for a, b in zip(m, g, strict=True)]
    v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g, strict=True)]
    move = lambda p, m, v: p - 1e-3 * m / (torch.sqrt(v) + 1e-8)
    return [move(*leaf) for leaf in zip(p, m, v, strict=True)], m, v


def gaussian_process(torch: Any, log_scale: Any, x: Any, y: Any) -> Any:
    def likelihood(log_scale: Any) -> Any:
        square = ((x[:, None] - x[None]) / torch.exp(log_scale)) ** 2
        lower = torch.linalg.cholesky(torch.exp(-0.5 * square) + 0.1 * torch.eye(len(x)))
        alpha = torch.linalg.solve_triangular(lower, y[:, None], upper=False)[:, 0]
        return 0.5 * alpha @ alpha + torch.log(torch.diag(lower)).sum()

    return torch.func.grad_and_value(likelihood)(log_scale)[::-1]


# --- dispatch
def eager_chain(torch: Any, x: Any) -> Any:
    y = torch.sin(x) * 2 + 1
    y = torch.exp(-y) + x
    y = torch.sqrt(torch.abs(y)) - 0.5
    return y.sum()
