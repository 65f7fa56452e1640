"""Measures what flow.md is about on SmolLM2-135M-Instruct, and writes its tables and figures.

    python docs/results/flow_sample.py facts  --data known_1000.json --n 20
    python docs/results/flow_sample.py more   --data known_1000.json --n 8
    python docs/results/flow_sample.py norms  --data known_1000.json --n 20
    python docs/results/flow_sample.py always --data wiki.test.txt --n 60
    python docs/results/flow_sample.py ioi    --data ioi.json --n 60

Facts are prompts whose answer's first token is the model's own, wrong ones those whose answer's is not; indirect-object prompts
have two names that are one token each. "more" has what graphs do not show, on facts, on as many wrong ones (the paper's control,
D.1) and on as many random tokens. Every part writes tables to flow-smollm2/ beside
this file.
"""

import argparse
import itertools
import json
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import tl_ffblock as ffb
from tl_ffblock.attribution import flow_graph
from tl_ffblock.bridge.inputs import ordinary_ids
from tl_ffblock.bridge.labels import label
from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.readout import read_out
from tl_ffblock.bridge.runs import open_run
from tl_ffblock.graphs import Pruning, overlap, top_tokens
from tl_ffblock.layer.neurons import coefficients, neuron_values
from tl_ffblock.layer.records import LayerRecord

OUT = Path(__file__).resolve().parent / "flow-smollm2"
SEED, K, MOST_ACTIVE, ROGUE = 0, 50, 100, 3
LATER = ("attention", "layer output", "final output")
EVERY = 3
"""Attention's values are read in one layer of so many."""
SIMILAR = ("largest head", "attention", "layer output", "random vector")
"""Vectors whose overlaps are also measured with similar tokens counted."""
READ = ("active neuron", "random vector")
"""Vectors whose first tokens are compared with the token that is read."""
FUNCTION_WORDS = [
    "the",
    "a",
    "an",
    "and",
    "or",
    "but",
    "nor",
    "so",
    "yet",
    "if",
    "then",
    "than",
    "that",
    "this",
    "these",
    "those",
    "of",
    "in",
    "on",
    "at",
    "to",
    "from",
    "by",
    "for",
    "with",
    "about",
    "into",
    "over",
    "after",
    "before",
    "under",
    "between",
    "as",
    "is",
    "are",
    "was",
    "were",
    "be",
    "been",
    "being",
    "am",
    "do",
    "does",
    "did",
    "have",
    "has",
    "had",
    "will",
    "would",
    "can",
    "could",
    "may",
    "might",
    "shall",
    "should",
    "must",
    "not",
    "no",
    "it",
    "its",
    "he",
    "his",
    "him",
    "she",
    "her",
    "they",
    "them",
    "their",
    "we",
    "us",
    "our",
    "you",
    "your",
    "i",
    "me",
    "my",
    "who",
    "which",
    "what",
    "where",
    "when",
    "how",
    "there",
    "here",
    "also",
    "very",
    "just",
    "only",
    "all",
    "any",
    "some",
    "such",
]


def facts(path: Path, n: int, model: Any, *, right: bool = True) -> Iterator[str]:
    """Prompts whose answer's first token is what the model expects, or is not."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    random.Random(SEED).shuffle(rows)
    found = 0
    for row in rows:
        logits = model(torch.tensor([ids_of(model, row["prompt"])]))[0, -1]
        said = model.tokenizer.decode([int(logits.argmax())]).strip()
        if bool(said and row["attribute"].startswith(said) and len(said) > 1) == right:
            found += 1
            yield row["prompt"]
        if found == n:
            return


def ids_of(model: Any, text: str) -> list[int]:
    """The tokens that `flow_graph` reads of a text."""
    return open_run(model, text).sequences[0].tokens.tolist()


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """One table."""
    OUT.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(OUT / f"{name}.csv", index=False, float_format="%.5g", lineterminator="\n")


def measure_facts(model: Any, prompts: list[str]) -> None:
    """`I_k` of pairs of nodes by layer, and which of a head's values its output says the same as."""
    shown = Pruning(heads=None, values=3, rows=(0, 0), memories=(10, 0))
    generator = torch.Generator().manual_seed(SEED)
    pairs, aligned = [], []
    for number, prompt in enumerate(prompts):
        graph = flow_graph(model, prompt, layers=range(30), pruning=shown)
        assert graph.vectors is not None
        vectors = graph.vectors.nodes
        noise = torch.randn(64, vectors.shape[1], generator=generator)
        tops = top_tokens(model, torch.cat([vectors, noise]), K)
        for layer in graph.layers:
            pairs += [dict(prompt=number, layer=layer, **row) for row in layer_pairs(graph, tops, layer)]
            aligned += [dict(prompt=number, layer=layer, **row) for row in layer_alignment(graph, tops, layer)]
        print(f"{number + 1} of {len(prompts)}", flush=True)
    frame = pd.DataFrame(pairs)
    means = frame.groupby(["pair", "layer"], sort=False)["overlap"].mean().reset_index()
    write("overlap", means.assign(prompts=len(prompts)).to_dict("records"))
    write("alignment", pd.DataFrame(aligned).to_dict("records"))


def measure_more(model: Any, prompts: list[str], wrong: list[str]) -> None:
    """`I_k` by sample; attention's values and their tokens; the answer along depth; tokens that norms change most; rogue dimensions."""
    ordinary, generator = ordinary_ids(identify(model)), torch.Generator().manual_seed(SEED)
    facts_ids, wrong_ids = ([torch.tensor(ids_of(model, prompt)) for prompt in each] for each in (prompts, wrong))
    random_ids = [ordinary[torch.randint(len(ordinary), ids.shape, generator=generator)] for ids in facts_ids]
    embeddings = model.W_U.T - model.W_U.T.mean(dim=0)
    rows: dict[str, list[dict[str, Any]]] = {"more": [], "values": [], "depth": []}
    changes = torch.zeros(2, 3, model.cfg.d_vocab, dtype=torch.float64)
    sizes = torch.zeros(30, model.cfg.d_model)
    for sample, prompts_ids in (("facts", facts_ids), ("wrong answers", wrong_ids), ("random tokens", random_ids)):
        for number, ids in enumerate(prompts_ids):
            with ffb.capture(model) as records:
                model(ids[None])
            layers = [records[layer].sequence(0) for layer in range(30)]
            measured = {
                "more": [vector_pairs(model, record, layers, ids, embeddings) for record in layers],
                "values": [
                    values_and_tokens(model, record, ids, ordinary, generator)
                    for record in (layers[::EVERY] if sample == "facts" else ())
                ],
                "depth": [answer_along_depth(model, layers)],
            }
            for name, each in measured.items():
                rows[name] += [dict(sample=sample, **row) for of_layer in each for row in of_layer]
            for record in layers if sample == "facts" else ():
                changes[:, record.layer // 10] += norm_changes(model, record) / 10 / len(prompts_ids)
                sizes[record.layer] += record.resid_pre[1:].abs().sum(dim=0)
            print(f"{sample}: {number + 1} of {len(prompts_ids)}", flush=True)
    for name, of_name in rows.items():
        keys = ["sample", "pair" if name == "more" else "token", "layer"]
        means = pd.DataFrame(of_name).groupby(keys, sort=False).mean().reset_index().assign(prompts=len(prompts))
        write(name, means.to_dict("records"))
    write("norm_tokens", list(changed_tokens(model, changes)))
    write("rogue", list(rogue_dimensions(layers, sizes)))


def values_and_tokens(
    model: Any, record: LayerRecord, ids: Tensor, ordinary: Tensor, generator: torch.Generator
) -> Iterator[dict[str, Any]]:
    """Of attention's values `v_j W_O` of every head: probability of the token at j, of another of the prompt, and of a random one (D.2)."""
    values = torch.einsum("khe,hed->khd", record.head_values, record.block.attention.w_o)[1:]  # without the first token
    logits = read_out(identify(model), "final_norm")(values)
    own = ids[1:]
    shifts = torch.randint(1, len(own), (len(own),), generator=generator)
    tokens = {
        "own": own,
        "another of the prompt": own[(torch.arange(len(own)) + shifts) % len(own)],
        "random": ordinary[torch.randint(len(ordinary), own.shape, generator=generator)],
    }
    chances = logits.softmax(dim=-1)
    for name, of_position in tokens.items():
        of = chances.gather(-1, of_position[:, None, None].expand(*chances.shape[:2], 1))
        first = (chances > of).sum(dim=-1) < K
        yield dict(
            token=name, layer=record.layer, probability=float(of.mean()), among_first=float(first.double().mean())
        )


def answer_along_depth(model: Any, layers: list[LayerRecord]) -> Iterator[dict[str, Any]]:
    """Probability of the token that the model answers, at the output of every layer (Fig. 14)."""
    outputs = torch.stack([record.whole["AtbLnFfRes"][-1] for record in layers])
    chances = read_out(identify(model), "final_norm")(outputs).softmax(dim=-1)
    answer = int(chances[-1].argmax())
    for record, of_layer in zip(layers, chances, strict=True):
        yield dict(token="the model's answer", layer=record.layer, probability=float(of_layer[answer]))


def vector_pairs(
    model: Any, record: LayerRecord, layers: list[LayerRecord], ids: Tensor, embeddings: Tensor
) -> Iterator[dict[str, Any]]:
    """Pairs of one layer's vectors at the last position, with their overlap, and the same with similar tokens counted."""
    z = torch.einsum("hk,khe->he", record.pattern[:, -1], record.head_values)
    written = torch.einsum("he,hed->hd", z, record.block.attention.w_o)
    m, values = coefficients(record)[-1], neuron_values(record.block)
    active = (m.abs() * values.norm(dim=-1)).topk(10).indices
    whole = {name: tensor[-1:] for name, tensor in record.whole.items()}
    vectors = {
        "head without W_O": torch.block_diag(*z[:, None]),
        "head": written,
        "largest head": written[written.norm(dim=-1).argmax()][None],
        "active neuron": m[active, None].sign() * values[active],
        "random vector": torch.randn(16, written.shape[1], generator=torch.Generator().manual_seed(record.layer)),
        "attention": whole["Attn"],
        "layer input": record.resid_pre[-1:],
        "what the feed-forward reads": whole["AtbLn"],
        "layer output": whole["AtbLnFfRes"],
        "final output": layers[-1].whole["AtbLnFfRes"][-1:],
        "attention of the layer before": layers[max(record.layer - 1, 0)].whole["Attn"][-1:],
    }
    tops = dict(
        zip(
            vectors,
            top_tokens(model, torch.cat(list(vectors.values())), K).split([len(v) for v in vectors.values()]),
            strict=True,
        )
    )
    pairs = [
        *itertools.product(("head without W_O", "head", "largest head", "random vector"), LATER),
        ("attention", "layer input"),
        ("attention", "layer output"),
        ("layer output", "final output"),
        ("active neuron", "what the feed-forward reads"),
    ]
    if record.layer:
        pairs.append(("attention", "attention of the layer before"))
    for first, second in pairs:
        others = tops[second].expand_as(tops[first])
        row = dict(pair=f"{first}, {second}", layer=record.layer, overlap=float(overlap(tops[first], others).mean()))
        if first in SIMILAR:
            row["similar"] = float(overlap(tops[first], others, embeddings=embeddings).mean())
        yield row
    bare = top_tokens(model, vectors["layer output"], K, reading="direction")
    for name, first, second in (
        ("layer output, without the final norm", bare, tops["layer output"]),
        *((f"token that is read, {name}", tops[name], ids[-1:, None].expand(len(tops[name]), K)) for name in READ),
    ):
        shared = overlap(first, second) if first is bare else (first == second).any(dim=-1).double()
        yield dict(pair=name, layer=record.layer, overlap=float(shared.mean()))


def norm_changes(model: Any, record: LayerRecord) -> Tensor:
    """By how much the probability of every token changes in what the last position says, at each norm: [norm d_vocab]."""
    pairs = ((record.resid_pre, record.block.attn_norm), (record.whole["Atb"], record.block.ff_norm))
    vectors = [vector for x, norm in pairs if norm is not None for vector in (x[-1], norm(x[-1:])[0])]
    chances = read_out(identify(model), "final_norm")(torch.stack(vectors)).double().softmax(dim=-1)
    return chances[1::2] - chances[::2]


def changed_tokens(model: Any, changes: Tensor) -> Iterator[dict[str, Any]]:
    """The tokens whose mean probability rises and falls most at a norm, by third of the layers."""
    for norm, of_norm in zip(("attention", "feed-forward"), changes, strict=True):
        for third, change in enumerate(of_norm):
            for side, sign in (("gains", 1), ("loses", -1)):
                for token in (sign * change).topk(5).indices.tolist():
                    word = label(identify(model), torch.tensor([token]))[0].strip()
                    yield dict(norm=norm, layer=10 * third, side=side, token=word, change=float(change[token]))


def rogue_dimensions(layers: list[LayerRecord], sizes: Tensor) -> Iterator[dict[str, Any]]:
    """Of always-on neurons the share of their values on the three dimensions that are largest in the stream, and of the median neuron."""
    neurons = pd.read_csv(OUT / "always_on.csv").query("above_90 > 0")
    for row in neurons.itertuples():
        squares = neuron_values(layers[int(row.layer)].block).double() ** 2
        largest = sizes[int(row.layer)].topk(ROGUE).indices
        shares = squares[:, largest].sum(dim=-1) / squares.sum(dim=-1)
        of = dict(share=float(shares[int(row.neuron)]), of_others=float(shares.median()))
        yield dict(layer=int(row.layer), neuron=int(row.neuron), dimensions=" ".join(map(str, largest.tolist())), **of)


def layer_pairs(graph: Any, tops: Tensor, layer: int) -> Iterator[dict[str, Any]]:
    """Pairs of a layer's nodes with their `I_k`."""
    at: dict[str, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        if node.layer == layer:
            at.setdefault(node.kind, []).append(number)
    first = graph.layers.index(layer) == 0
    output, attention, ff = at["sum"][1], at["attention"][0], at["mlp"][0]
    final = max(number for number, node in enumerate(graph.nodes) if node.kind == "sum")
    entry = (
        at["input"][0] if first else max(n for n, node in enumerate(graph.nodes[: at["norm"][0]]) if node.kind == "sum")
    )
    heads, memories = at["head"], at["neuron"]
    norms = {number: graph.nodes[number].norm for number in heads}
    values = {(graph.nodes[v].head, rank): v for rank, v in ranked_values(graph, at["value"])}
    keys = {graph.nodes[k].head: k for k in reversed(at["key"])}
    largest = max(heads, key=norms.__getitem__)
    noise = range(len(graph.nodes), len(tops))
    named = {
        "head, attention": [(head, attention) for head in heads],
        "largest head, attention": [(largest, attention)],
        "smallest head, attention": [(min(heads, key=norms.__getitem__), attention)],
        "most attended value, head": [(values[graph.nodes[h].head, 0], h) for h in heads],
        "memory, feed-forward": [(memory, ff) for memory in memories],
        "attention, feed-forward": [(attention, ff)],
        "attention, layer output": [(attention, output)],
        "feed-forward, layer output": [(ff, output)],
        "layer input, layer output": [(entry, output)],
        "head, layer output": [(head, output) for head in heads],
        "largest head, layer output": [(largest, output)],
        "head, final output": [(head, final) for head in heads],
        "largest head, final output": [(largest, final)],
        "layer output, final output": [(output, final)],
        "query, key attended most": [(q, keys[graph.nodes[q].head]) for q in at["query"]],
        "random vector, attention": [(vector, attention) for vector in noise],
        "random vector, layer output": [(vector, output) for vector in noise],
        "random vector, final output": [(vector, final) for vector in noise],
        "random vector, random vector": [(a, b) for a, b in zip(noise, list(noise)[1:], strict=False)],
    }
    for name, numbers in named.items():
        first_ones, second_ones = (torch.tensor(side) for side in zip(*numbers, strict=True))
        yield dict(pair=name, overlap=float(overlap(tops[first_ones], tops[second_ones]).mean()))


def ranked_values(graph: Any, values: list[int]) -> Iterator[tuple[int, int]]:
    """Values of each head, by attention: rank and node."""
    seen: dict[int, int] = {}
    for number in sorted(values, key=lambda v: -graph.nodes[v].coefficient):
        head = graph.nodes[number].head
        yield seen.get(head, 0), number
        seen[head] = seen.get(head, 0) + 1


def layer_alignment(graph: Any, tops: Tensor, layer: int) -> Iterator[dict[str, Any]]:
    """Of each head: which of its three most attended values says most of what the head says."""
    values = [n for n, node in enumerate(graph.nodes) if node.kind == "value" and node.layer == layer]
    for number, node in enumerate(graph.nodes):
        if node.kind != "head" or node.layer != layer:
            continue
        of_head = sorted(
            (v for v in values if graph.nodes[v].head == node.head), key=lambda v: -graph.nodes[v].coefficient
        )
        shared = overlap(tops[torch.tensor(of_head)], tops[torch.full((len(of_head),), number)]).numpy()
        norms = np.array([graph.nodes[v].norm for v in of_head])
        best = np.flatnonzero(shared == shared.max())
        yield dict(
            head=node.head,
            most_attended=float((best == 0).mean()),
            largest=float((best == norms.argmax()).mean()),
            best_overlap=float(shared.max()),
            attention=graph.nodes[of_head[0]].coefficient,
            to_first=bool(graph.nodes[of_head[0]].index == 0),
        )


def measure_norms(model: Any, prompts: list[str]) -> None:
    """What the gain of a norm does to the words that a vector says: function words and others, and a shuffled gain's."""
    known = identify(model)
    readout = read_out(known, "final_norm")
    words = [model.tokenizer.decode([token]).strip().lower() for token in range(model.cfg.d_vocab)]
    function = torch.tensor([word in FUNCTION_WORDS for word in words])
    rows = []
    generator = torch.Generator().manual_seed(SEED)
    for number, prompt in enumerate(prompts):
        graph = flow_graph(model, prompt, layers=range(30), pruning=Pruning(0, 0, (0, 0), (0, 0)))
        assert graph.vectors is not None
        vectors = graph.vectors.nodes
        for edge in graph.edges:
            node = graph.nodes[edge.target]
            if node.kind != "norm":
                continue
            before, after = vectors[edge.source], vectors[edge.target]
            gain = after / torch.where(before == 0, 1, before)
            shuffled = before * gain[torch.randperm(len(gain), generator=generator)]
            chances = readout(torch.stack([before, after, shuffled])).float().softmax(dim=-1)
            top = chances.argmax(dim=-1)
            rows.append(
                dict(
                    prompt=number,
                    layer=node.layer,
                    norm="attention" if "attn" in node.name else "feed-forward",
                    **dict(
                        zip(("before", "after", "shuffled"), chances[:, function].sum(dim=-1).tolist(), strict=True)
                    ),
                    kept=bool(top[0] == top[1]),
                    kept_shuffled=bool(top[0] == top[2]),
                )
            )
        print(f"{number + 1} of {len(prompts)}", flush=True)
    write("norms", rows)


def measure_always_on(model: Any, texts: list[str]) -> None:
    """Neurons that are among the hundred most active at nearly every token: how many, what they say."""
    counts: dict[int, Tensor] = {}
    positions = 0

    def receive(records: Mapping[int, LayerRecord]) -> None:
        for record in records.values():
            sizes = coefficients(record).abs() * neuron_values(record.block).norm(dim=-1)
            active = torch.zeros_like(sizes).scatter(1, sizes.topk(MOST_ACTIVE).indices, 1.0)[1:]
            counts[record.layer] = counts.get(record.layer, 0) + active.sum(dim=0)
            blocks[record.layer] = neuron_values(record.block)

    blocks: dict[int, Tensor] = {}
    for text in texts:
        open_run(model, text).deliver(receive)
        positions += len(ids_of(model, text)) - 1
    readout, generator, rows = read_out(identify(model), "final_norm"), torch.Generator().manual_seed(SEED), []
    for layer, count in sorted(counts.items()):
        share, values = count / positions, blocks[layer]
        best = int(share.argmax())
        others = torch.randperm(len(values), generator=generator)[:50]
        entropies = torch.distributions.Categorical(
            logits=readout(values[torch.cat([others, torch.tensor([best])])])
        ).entropy()
        tops = readout(values[[best]])[0].topk(5).indices
        rows.append(
            dict(
                layer=layer,
                positions=positions,
                above_90=int((share > 0.9).sum()),
                above_50=int((share > 0.5).sum()),
                neuron=best,
                share=float(share[best]),
                norm_ratio=float(values[best].norm() / values.norm(dim=-1).median()),
                entropy=float(entropies[-1]),
                entropy_of_others=float(entropies[:-1].median()),
                says=" ".join(token.strip() for token in label(identify(model), tops)),
            )
        )
    write("always_on", rows)


def measure_ioi(model: Any, rows: list[Mapping[str, Any]], n: int) -> None:
    """Heads by their share of the logit difference at the last position, and what the strongest ones say."""
    prompts = []
    for row in rows:
        names = [name for name in re.findall(r"\b[A-Z][a-z]+\b", row["prompt"]) if row["prompt"].count(name) == 2]
        tokens = [
            model.tokenizer(f" {name}", add_special_tokens=False)["input_ids"] for name in (row["answer"], *names[:1])
        ]
        if names and names[0] != row["answer"] and all(len(ids) == 1 for ids in tokens):
            prompts.append((row["prompt"], f" {row['answer']}", f" {names[0]}"))
        if len(prompts) == n:
            break
    shares, rates = [], []
    for prompt, right, wrong in prompts:
        result = ffb.attribute(model, prompt, ffb.logit(right, minus=wrong), of=("heads",))
        shares.append(result.heads[:, :, -1] / abs(result.value))
    stacked = torch.stack(shares)
    mean = stacked.mean(dim=0)
    order = mean.flatten().argsort(descending=True).tolist()
    chosen = [divmod(number, mean.shape[1]) for number in (*order[:6], *order[-4:])]
    readout = read_out(identify(model), "final_norm")
    for number, (prompt, right, wrong) in enumerate(prompts):
        labels = open_run(model, prompt).sequences[0].labels
        right_id, wrong_id = (
            model.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in (right, wrong)
        )
        at = [position for position, token in enumerate(labels) if token == right]
        patterns = ffb.attention_maps(model, prompt, layers=sorted({layer for layer, _ in chosen}))
        for layer in sorted({layer for layer, _ in chosen}):
            graph = flow_graph(
                model,
                prompt,
                layers=layer,
                target=ffb.logit(right, minus=wrong),
                pruning=Pruning(None, 0, (0, 0), (0, 0)),
            )
            assert graph.vectors is not None
            for index, node in enumerate(graph.nodes):
                if node.kind != "head" or (layer, node.head) not in chosen:
                    continue
                logits = readout(torch.stack([graph.vectors.nodes[index], -graph.vectors.nodes[index]]))
                rates.append(
                    dict(
                        prompt=number,
                        layer=layer,
                        head=node.head,
                        share=float(stacked[number, layer, node.head]),
                        attention=float(patterns[f"head {node.head}", layer][-1, at].sum()),
                        says_right=bool((logits[0] > logits[0, right_id]).sum() < 5),
                        says_wrong=bool((logits[0] > logits[0, wrong_id]).sum() < 5),
                        against_right=bool((logits[1] > logits[1, right_id]).sum() < 5),
                        against_wrong=bool((logits[1] > logits[1, wrong_id]).sum() < 5),
                    )
                )
        print(f"{number + 1} of {len(prompts)}", flush=True)
    write("ioi", rates)
    grid = mean.tolist()
    write(
        "ioi_heads", [dict(layer=i, head=j, share=s) for i, of_layer in enumerate(grid) for j, s in enumerate(of_layer)]
    )


def main() -> None:
    """Measure one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["facts", "more", "norms", "always", "ioi"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--n", type=int, default=20)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    model = ffb.load_model("smollm2")
    if options.part == "ioi":
        measure_ioi(model, json.loads(options.data.read_text(encoding="utf-8")), options.n)
    elif options.part == "always":
        lines = [
            line.strip() for line in options.data.read_text(encoding="utf-8").splitlines() if len(line.split()) > 12
        ]
        random.Random(SEED).shuffle(lines)
        measure_always_on(model, [" ".join(line.split()[:40]) for line in lines[: options.n]])
    else:
        prompts = list(facts(options.data, options.n, model))
        if options.part == "more":
            measure_more(model, prompts, list(facts(options.data, options.n, model, right=False)))
        else:
            {"facts": measure_facts, "norms": measure_norms}[options.part](model, prompts)


if __name__ == "__main__":
    main()
