"""Makes known_circuits_trained.safetensors and known_circuits_trained.csv: models that were trained to have a known circuit.

    python -m docs.results.known_circuits_trained train    # some minutes of a core per program; from the root of the repository
    python -m docs.results.known_circuits_trained score

Interchange intervention training (Geiger et al. 2022) at edges: a compiled program says what the logits are when random sets of
edges carry what they carry in another run, and a model of as many layers and heads with random weights is trained to give them:

    loss = KL(compiled logits with some edges of the other run || trained logits with the same edges of the other run)

Edges are those of `edge_patching`: from embeddings, heads and feed-forwards to queries, keys, values, feed-forwards and the logits.
A model is kept if exact patching of every edge separates the program's edges with an AUROC of at least `LEAST`.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tl_ffblock.bridge.loading import native_model
from tl_ffblock.known_circuits import KnownCircuit, Pair, Program, Settings, build, read_program, score

HERE = Path(__file__).resolve().parent
WEIGHTS, TABLE = HERE / "known_circuits_trained.safetensors", HERE / "known_circuits_trained.csv"
PROGRAMS = {"majority": 1500, "lookup": 1500, "reverse": 1500, "exclusive or": 1500}
"""By name, with steps of training. Induction was not learnt in 1500 steps: an AUROC of .80 for pairs that differ at the key."""
LEAST = 0.99
WIDTH, D_HEAD, D_MLP, BATCH = 48, 16, 64, 64
N_PAIRS = 4
"""That are scored; training has others."""


class Edges:
    """A native model without norms as a function of its weights, in which edges can carry what they carry in another run."""

    def __init__(self, weights: Mapping[str, Tensor], n_heads: int) -> None:
        self.w, self.n_heads = weights, n_heads
        self.n_layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("layers."))

    def __call__(
        self, tokens: Tensor, others: list[Tensor] | None = None, patched: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits at the last position [batch d_vocab], and what every sender writes [batch pos d].

        Args:
            tokens: [batch pos].
            others: What senders write in the other runs.
            patched: Which edges carry that [batch sender receiver], in the order of senders and receivers of this function.
        """
        w, written = self.w, [self.w["tok_embed.weight"][tokens] + self.w["pos.weight"][: tokens.shape[1]]]
        stream, column = written[0], 0

        def read(number: int) -> Tensor:
            """What so many receivers read [batch receiver pos d]."""
            nonlocal column
            first, column = column, column + number
            if others is None or patched is None:
                return stream[:, None].expand(-1, number, -1, -1)
            changes = torch.stack([other - own for other, own in zip(others, written, strict=False)], dim=1)
            chosen = patched[:, : len(written), first:column].to(stream)
            return stream[:, None] + torch.einsum("bsr,bspd->brpd", chosen, changes)

        for layer in range(self.n_layers):
            heads = self._heads(f"layers.{layer}.attn", read)
            written += heads.unbind(dim=1)
            stream = stream + heads.sum(dim=1) + w[f"layers.{layer}.attn.o.bias"]
            x, at = read(1)[:, 0], f"layers.{layer}.mlp"
            inner = torch.nn.functional.gelu(x @ w[f"{at}.fc_in.weight"].T + w[f"{at}.fc_in.bias"])
            written.append(inner @ w[f"{at}.fc_out.weight"].T + w[f"{at}.fc_out.bias"])
            stream = stream + written[-1]
        return read(1)[:, 0, -1] @ w["head.weight"].T, written

    def _heads(self, at: str, read: Any) -> Tensor:
        """What each head writes [batch head pos d]."""
        q, k, v = (
            torch.einsum(
                "bhpd,hed->bhpe", read(self.n_heads), self.w[f"{at}.{name}.weight"].unflatten(0, (self.n_heads, -1))
            )
            + self.w[f"{at}.{name}.bias"].unflatten(0, (self.n_heads, 1, -1))
            for name in "qkv"
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        z = scores.masked_fill(later, -torch.inf).softmax(dim=-1) @ v
        return torch.einsum("bhpe,dhe->bhpd", z, self.w[f"{at}.o.weight"].unflatten(1, (self.n_heads, -1)))

    def sizes(self) -> tuple[int, int]:
        """How many senders and receivers there are."""
        return 1 + self.n_layers * (self.n_heads + 1), self.n_layers * (3 * self.n_heads + 1) + 1


def weights_of(model: Any) -> dict[str, Tensor]:
    """A native model's parameters by name."""
    named = model.original_model.named_parameters()
    return {name.replace("._original_component", ""): weight.detach() for name, weight in named}


def untrained(program: Program) -> tuple[Any, dict[str, Tensor]]:
    """A native model for a program, and its parameters, to be written to."""
    layout = program.layout
    return native_model(
        n_layers=layout.n_layers,
        d_model=WIDTH,
        n_heads=layout.n_heads,
        d_head=D_HEAD,
        d_mlp=D_MLP,
        n_ctx=layout.n_positions,
        d_vocab=layout.n_tokens,
        act_fn="gelu",
        normalization_type=None,
    )


def drawn(program: Program, draw: Random) -> Iterator[Pair]:
    """Pairs of every kind in turn; of kinds without an ablated head."""
    kinds = [kind for kind in program.kinds if not kind.without]
    while True:
        yield from (kind.draw(draw) for kind in kinds)


def batches(program: Program, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Tokens of clean and of other runs [batch pos], of one length each time."""
    by_length: dict[int, list[Pair]] = {}
    for pair in drawn(program, Random(f"{program.name} training {seed}")):
        rows = by_length.setdefault(len(pair.clean), [])
        rows.append(pair)
        if len(rows) == BATCH:
            sides = torch.tensor([[pair.clean, pair.corrupted] for pair in by_length.pop(len(pair.clean))])
            turned = torch.arange(BATCH) % 2
            yield sides[torch.arange(BATCH), turned], sides[torch.arange(BATCH), 1 - turned]


def train(name: str, seed: int = 0) -> dict[str, Tensor]:
    """The weights of a model with a program's circuit."""
    program = read_program(name)
    taught = build(name, Settings(), pairs=1)[0].model
    teacher = Edges(weights_of(taught), program.layout.n_heads)
    generator = torch.Generator().manual_seed(seed)
    _, shapes = untrained(program)
    weights = {
        key: (
            0.5 / shape.shape[-1] ** 0.5 * torch.randn(shape.shape, generator=generator)
            if shape.ndim > 1
            else 0 * shape
        )
        .detach()
        .requires_grad_()
        for key, shape in shapes.items()
    }
    student = Edges(weights, program.layout.n_heads)
    optimiser = torch.optim.Adam(weights.values(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=PROGRAMS[name])
    for step, (clean, other) in zip(range(PROGRAMS[name]), batches(program, seed), strict=False):
        parts = torch.rand(BATCH, 1, 1, generator=generator) ** 2
        patched = torch.rand(BATCH, *student.sizes(), generator=generator) < parts
        with torch.no_grad():
            expected = teacher(clean, teacher(other)[1], patched)[0].log_softmax(dim=-1)
        found = student(clean, student(other)[1], patched)[0].log_softmax(dim=-1)
        loss = torch.nn.functional.kl_div(found, expected, reduction="batchmean", log_target=True)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 250 == 249:
            print(f"{name}: step {step + 1}, loss {float(loss.detach()):.4f}", flush=True)
    return {key: weight.detach() for key, weight in weights.items()}


@cache
def trained(name: str, kind: str) -> KnownCircuit:
    """A stored model with the edges of a kind of pair, verified."""
    return known_circuit(
        name, kind, {key.split("/")[1]: w for key, w in load_file(WEIGHTS).items() if key.startswith(f"{name}/")}
    )


def known_circuit(name: str, kind: str, weights: Mapping[str, Tensor]) -> KnownCircuit:
    """A model of these weights with the edges of a kind of pair."""
    program = read_program(name)
    (compiled,) = build(program, Settings(), pairs=1, kinds=[kind])
    model, own = untrained(program)
    with torch.no_grad():
        for key, weight in own.items():
            weight.copy_(weights[key])
    (of_kind,) = (each for each in program.kinds if each.name == kind)
    draw = Random(f"{name} {kind} scored")
    pairs = tuple(of_kind.draw(draw) for _ in range(N_PAIRS))
    return KnownCircuit(name, kind, model, pairs, compiled.true_edges, "trained", 0, of_kind.truth).verify(LEAST)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "score"])
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    options = parser.parse_args()
    if options.what == "train":
        for name in options.programs:
            began = time.process_time()
            weights = train(name)
            print(f"{name}: {time.process_time() - began:.0f} s", flush=True)
            stored = load_file(WEIGHTS) if WEIGHTS.is_file() else {}
            save_file(stored | {f"{name}/{key}": weight for key, weight in weights.items()}, WEIGHTS)
    else:
        from docs.results.known_circuits_methods import METHODS

        kinds = [(name, kind.name) for name in PROGRAMS for kind in read_program(name).kinds if not kind.without]
        tables = [score(METHODS, trained(*each)) for each in kinds]
        pd.concat(tables, ignore_index=True).round(4).to_csv(TABLE, index=False)
