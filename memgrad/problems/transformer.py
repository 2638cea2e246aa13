r"""A small decoder-only transformer, and the same with a leading run axis and a gradient written by hand.

$$h_0 = E_{a} + P, \qquad h \leftarrow h + \mathrm{Att}(N(h))\, O^\top, \qquad
  h \leftarrow h + \max(0, N(h)\, U^\top)\, D^\top, \qquad z = N(h)\, W^\top$$

for each of the layers, with causal attention of several heads and the normalization $N$ of each position to mean 0 and
variance 1. Normalizations come first (pre-norm) and have no parameters, linear maps have no biases, and the embedding
$E$ and the output $W$ are not tied.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from memgrad.problems.passes import Parameters

EPS = 1e-5
"""Added to the variance where positions are normalized, as `torch.nn.LayerNorm` does."""


@final
class Transformer(nn.Module):
    """A decoder-only transformer on tokens: logits of the next token at each position.

    Linear maps start as `torch.nn.Linear` makes them, those that add to the residual stream divided by the root of
    their number, so that it does not grow with depth; embeddings start with the standard deviation 0.02.

    Args:
        vocabulary: The number of tokens.
        layers: The number of layers.
        width: The number of units per position, a multiple of `heads`.
        heads: The number of heads.
        context: The number of positions.

    Example:
        >>> model = Transformer(96, layers=2, width=64, heads=2, context=32)
        >>> model(torch.zeros(5, 32, dtype=torch.uint8)).shape
        torch.Size([5, 32, 96])
        >>> sum(p.numel() for p in model.parameters())
        112640
    """

    def __init__(self, vocabulary: int, *, layers: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads = heads
        self.token = nn.Parameter(torch.randn(vocabulary, width) * 0.02)
        self.position = nn.Parameter(torch.randn(context, width) * 0.02)
        self.layers = nn.ModuleList(_Layer(width, heads, 1 / math.sqrt(2 * layers)) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits, (batch, context, vocabulary), of tokens (batch, context)."""
        h = self.token[tokens.int()] + self.position
        for layer in self.layers:
            h = layer(h)
        logits: Tensor = self.head(normalized(h))
        return logits


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, residual: float) -> None:
        super().__init__()
        self.heads = heads
        self.attend = nn.Linear(width, 3 * width, bias=False)
        self.join = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        with torch.no_grad():
            self.join.weight.mul_(residual)
            self.down.weight.mul_(residual)

    def forward(self, h: Tensor) -> Tensor:
        batch, context, width = h.shape
        parts = self.attend(normalized(h)).view(batch, context, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.join(mixed.transpose(1, 2).reshape(batch, context, width))
        added: Tensor = self.down(torch.relu(self.up(normalized(h))))
        return h + added


def normalized(h: Tensor) -> Tensor:
    """Each position with mean 0 and variance 1."""
    return nn.functional.layer_norm(h, h.shape[-1:], eps=EPS)


def next_token_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean cross entropy of the next token over all positions of a batch, in nats.

    Example:
        >>> next_token_loss(torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.uint8)).exp()
        tensor(4.)
    """
    return nn.functional.cross_entropy(outputs.flatten(0, -2), targets.long().flatten())


# --- with a run axis -------------------------------------------------------------------------------------------------


Back = Callable[[Tensor], Tensor]
"""A backward pass: the gradient of an input, given that of the output."""


@final
@dataclass(frozen=True)
class StackedTransformer:
    """Several models of the class `Transformer` with a leading run axis, (runs, batch * context, width) inside.

    Eager torch spends half of its time on these sizes outside of matrix products: on attention kernels made for long
    contexts, and on the bookkeeping of automatic differentiation.

    Args:
        layers: The number of layers.
        heads: The number of heads.
    """

    layers: int
    heads: int

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """The logits, (runs, batch, context, vocabulary); `inputs` are (runs, batch, context) or shared by all runs."""
        runs, vocabulary = parameters["token"].shape[:2]
        inputs = inputs.expand(runs, *inputs.shape) if inputs.ndim == 2 else inputs
        h = _embedded(parameters, inputs)
        for i in range(self.layers):
            h = self._layer(parameters, f"layers.{i}", h, inputs.shape[-1])[0]
        logits = torch.bmm(_normalize(h)[0], parameters["head.weight"].mT)
        return logits.view(*inputs.shape, vocabulary)

    def gradient(self, parameters: Parameters, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The gradients of the mean losses of all runs, with the names and shapes of `parameters`."""
        runs = len(parameters["token"])
        if inputs.ndim == 2:
            inputs, targets = inputs.expand(runs, *inputs.shape), targets.expand(runs, *targets.shape)
        h, backs = _embedded(parameters, inputs), []
        for i in range(self.layers):
            h, back = self._layer(parameters, f"layers.{i}", h, inputs.shape[-1])
            backs.append(back)
        f, f_back = _normalize(h)
        slope = _slope(torch.bmm(f, parameters["head.weight"].mT), targets)
        found = {"head.weight": torch.bmm(slope.mT, f)}
        dh = f_back(torch.bmm(slope, parameters["head.weight"]))
        for back in reversed(backs):
            dh = back(dh, found)
        found["position"] = dh.view(*inputs.shape, -1).sum(1)
        places = _places(parameters["token"], inputs)
        found["token"] = torch.zeros_like(parameters["token"])
        found["token"].view(-1, dh.shape[-1]).index_add_(0, places, dh.reshape(len(places), -1))
        return {name: found[name] for name in parameters}

    def _layer(
        self, parameters: Parameters, name: str, h: Tensor, context: int
    ) -> tuple[Tensor, Callable[[Tensor, dict[str, Tensor]], Tensor]]:
        """The output of a layer, and its backward pass, which adds the gradients of the weights to a dictionary."""
        names = [f"{name}.{part}.weight" for part in ("attend", "join", "up", "down")]
        attend, join, up, down = (parameters[each] for each in names)
        a, a_back = _normalize(h)
        mixed, mixed_back = self._attention(torch.bmm(a, attend.mT), context)
        middle = torch.baddbmm(h, mixed, join.mT)
        b, b_back = _normalize(middle)
        units = torch.bmm(b, up.mT).clamp_min_(0.0)

        def back(dh: Tensor, found: dict[str, Tensor]) -> Tensor:
            dunits = torch.ops.aten.threshold_backward(torch.bmm(dh, down), units, 0.0)
            dmiddle = dh + b_back(torch.bmm(dunits, up))
            dparts = mixed_back(torch.bmm(dmiddle, join))
            slopes = ((dparts, a), (dmiddle, mixed), (dunits, b), (dh, units))
            found |= {each: torch.bmm(dy.mT, x) for each, (dy, x) in zip(names, slopes, strict=True)}
            return dmiddle + a_back(torch.bmm(dparts, attend))

        return torch.baddbmm(middle, units, down.mT), back

    def _attention(self, parts: Tensor, context: int) -> tuple[Tensor, Back]:
        """Causal attention of queries, keys and values (runs, batch * context, 3 * width), and its backward pass."""
        runs, rows, wide = parts.shape
        size = wide // 3 // self.heads
        split = parts.view(-1, context, 3, self.heads, size).permute(2, 0, 3, 1, 4).reshape(3, -1, context, size)
        q, k, v = split[0], split[1], split[2]
        later = parts.new_full((context, context), -math.inf).triu_(1)
        p = torch.softmax(torch.baddbmm(later, q, k.mT, alpha=size**-0.5), -1)
        mixed = torch.bmm(p, v).view(-1, self.heads, context, size).transpose(1, 2)

        def back(dmixed: Tensor) -> Tensor:
            do = dmixed.view(-1, context, self.heads, size).transpose(1, 2).reshape(-1, context, size)
            dsplit = torch.empty_like(split)
            ds = torch._softmax_backward_data(torch.bmm(do, v.mT), p, -1, p.dtype).mul_(size**-0.5)
            torch.bmm(ds, k, out=dsplit[0])
            torch.bmm(ds.mT, q, out=dsplit[1])
            torch.bmm(p.mT, do, out=dsplit[2])
            return dsplit.view(3, -1, self.heads, context, size).permute(1, 3, 0, 2, 4).reshape(runs, rows, wide)

        return mixed.reshape(runs, rows, wide // 3), back


def _embedded(parameters: Parameters, inputs: Tensor) -> Tensor:
    """The tokens and their positions, (runs, batch * context, width)."""
    token, position = parameters["token"], parameters["position"]
    h = token.view(-1, token.shape[-1]).index_select(0, _places(token, inputs)).view(*inputs.shape, -1)
    return (h + position[:, None]).flatten(1, 2)


def _places(token: Tensor, inputs: Tensor) -> Tensor:
    """The rows that tokens (runs, batch, context) select in the embeddings of all runs, stacked vertically."""
    runs, vocabulary = token.shape[:2]
    first = torch.arange(0, runs * vocabulary, vocabulary, device=token.device, dtype=torch.int32)
    return (inputs.int() + first[:, None, None]).flatten()


def _normalize(h: Tensor) -> tuple[Tensor, Back]:
    values, *statistics = torch.native_layer_norm(h, h.shape[-1:], None, None, EPS)

    def back(dy: Tensor) -> Tensor:
        slope = torch.ops.aten.native_layer_norm_backward
        found: Tensor = slope(dy, h, h.shape[-1:], *statistics, None, None, [True, False, False])[0]
        return found

    return values, back


def _slope(logits: Tensor, targets: Tensor) -> Tensor:
    """The derivative of the mean cross entropy in the logits: (softmax - one-hot) / positions."""
    slope, rows = torch.softmax(logits, -1), logits.shape[1]
    minus = slope.new_full((1, 1, 1), -1.0).expand(len(slope), rows, 1)
    return slope.scatter_add_(-1, targets.long().view(len(slope), rows, 1), minus).div_(rows)
