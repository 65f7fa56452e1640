"""Deliberate faults, each of which the tests of its area must notice: `python -m tests mutants`.

A row of `MUTANTS` replaces one text of one file of the package by another, in a copy, and runs a few tests there. A fault
that they do not notice is a promise that nothing holds: it gets a test, or a reason. The step is run by hand and before a
release; that every `old` text is still there, exactly once, is checked with the other tests (tests/structure/test_mutants.py).

    python -m tests mutants                    # all, some at a time
    python -m tests mutants --only flow walk   # those whose names hold one of these texts
"""

import argparse
import contextlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 600
"""Seconds for the tests of one fault."""
QUIET = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not site"]
QUIET += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of plugins that were imported before
LOADED_ONCE = [
    "torch",
    "transformer_lens",
    "transformers",
    "pandas",
    "scipy.stats",
    "jaxtyping",
    "pytest",
    "hypothesis",
]
"""What every run of tests imports: processes are forked after that, which is most of the time of a quick test."""
PATCHING = "tests/interventions/test_activation_patching.py"
SABOTAGE = "tests/attribution/test_sabotage.py"
COPIED = (
    "tl_ffblock",
    "tests",
    "docs",
    "notebooks",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)


@dataclass(frozen=True)
class Mutant:
    """One fault."""

    name: str
    """What is wrong, after the area."""
    file: str
    """In the package."""
    old: str
    """A text that the file has exactly once, best a part of one line."""
    new: str
    tests: tuple[str, ...]
    """Arguments of pytest: the tests of the area that must fail."""
    survives: str = ""
    """Why no test can notice it."""


def _sabotage(made: str) -> tuple[str, ...]:
    return (SABOTAGE, "-k", made)


MUTANTS = (
    # Certificates and identities.
    Mutant("certificate: layer sums", "attribution/certificate.py", "if self.complete and not error <= self.rtol:", "if self.complete and error < 0:", _sabotage("shares-layer.linear")),
    Mutant("certificate: edges", "attribution/certificate.py", "if not self.edges <= self.rtol:", "if self.edges < 0:", _sabotage("edges-attribution")),
    Mutant("certificate: linear forms", "attribution/certificate.py", "if not gap <= rtol:", "if gap < 0:", _sabotage("shares-bridge.linearised")),
    Mutant("certificate: edge error is 0", "attribution/attribute.py", "return float(relative(misses.max(), sizes.max()))", "return float(relative(misses.min() * 0, sizes.max()))", _sabotage("edges-attribution")),
    Mutant("certificate: logits with rules", "bridge/traced.py", "if not known[rules] == 0:", "if known[rules] < 0:", _sabotage("differ_by")),
    Mutant("certificate: continuation errors are 0", "attribution/continuation.py", "errors=relative((shares.sum(dim=1) + biases + edits - first_order).abs(), sizes),", "errors=torch.zeros_like(sizes),", _sabotage("continuation-layer")),
    Mutant("certificate: flow walk", "attribution/flow_graph.py", "derivative\", errors[\"walk\"]),", "derivative\", 0.0),", _sabotage("flow-layer")),
    Mutant("certificate: flow shares", "attribution/flow_graph.py", "miss its own\", errors[\"shares\"]),", "miss its own\", 0.0),", _sabotage("flow-graphs")),
    Mutant("certificate: flow sums", "attribution/flow_graph.py", "misses it\", errors[\"sums\"]),", "misses it\", 0.0),", _sabotage("flow-graphs")),
    Mutant("certificate: named biases of a graph", "graphs/attribution_graph.py", "if not error <= flows.rtol:", "if error < 0:", _sabotage("graph")),
    Mutant("certificate: end of the adjoint", "attribution/signed_maps.py", "error = float(relative((found - expected).norm(), expected.norm()))", "error = 0.0", _sabotage("signed_maps")),
    Mutant("certificate: cells of signed maps", "attribution/signed_maps.py", "error = float(relative((cells.sum(dim=0) - of_tokens).abs().max(), cells.abs().sum()))", "error = 0.0", _sabotage("signed_maps")),
    Mutant("certificate: senders of edges", "attribution/edges.py", "if plain and not self.streams <= rtol:", "if plain and self.streams < 0:", _sabotage("estimated_edges")),
    Mutant("certificate: receivers of edges", "attribution/edges.py", "if not self.derivatives <= rtol:", "if self.derivatives < 0:", _sabotage("estimated_edges")),
    Mutant("certificate: best query in place of the worst", "contributions.py", "worst = int(errors.argmax())", "worst = int(errors.argmin())", _sabotage("vectors-layer.linear.attend")),
    Mutant("certificate: rows of the last scope", "layer/fast/norms.py", "parts = replace(parts, tokens=self.rows.end[1][:, None])", "parts = replace(parts)", _sabotage("maps-layer.fast.head_sums")),
    Mutant("certificate: norms of a column", "layer/fast/norms.py", "_over_largest(values[scope][..., key] - norms[scope],", "_over_largest(norms[scope] - norms[scope],", _sabotage("maps-layer.fast.norms")),
    Mutant("certificate: norms by head", "layer/fast/norms.py", "_over_largest(table[:, key] - norms,", "_over_largest(norms - norms,", _sabotage("by_head")),
    Mutant("certificate: neurons' shares", "cell_neurons.py", "float(of_row.share_errors.max())", "float(of_row.share_errors.min() * 0)", _sabotage("neurons-layer")),
    Mutant("certificate: neurons' coefficients", "layer/neurons.py", "gap = tokens.sum(dim=0) + bias - own", "gap = own - own", _sabotage("neurons-layer")),
    Mutant("certificate: parts of coefficients", "memories/causes.py", "worst = int(result.error.argmax())", "worst = int(result.error.argmin())", _sabotage("coefficients-memories")),
    Mutant("identity: none is compared", "bridge/selfcheck.py", "if not error <= rtol:", "if error < 0:", _sabotage("IdentityError or routing_weights or value or post")),
    Mutant("identity: mask of later runs", "bridge/selfcheck.py", "if record.block.causal and _error_after_query(record):", "if record.block.causal and not record:", _sabotage("later_run")),
    Mutant("identity: read-out", "bridge/readout.py", "if not error < model.tolerance:", "if error < 0:", _sabotage("read-out")),
    Mutant("identity: Hugging Face", "bridge/hugging_face.py", "    if error <= tolerance:", "    if error >= 0:", _sabotage("another_model")),
    Mutant("identity: softmax of scores", "attention.py", "if not scored.error <= run.settings.rtol:", "if scored.error < 0:", _sabotage("scores")),
    Mutant("identity: resumed runs", "bridge/edited.py", "TOLERANCE = 1e-4", "TOLERANCE = 1e-1", ("tests/interventions/test_edits.py", "-k", "resumed",)),
    # Refusals.
    Mutant("refusal: hidden tokens are seen", "bridge/edited.py", "if bool((pattern * _pairs_of(hidden, pattern)).any()):", "if bool((pattern * _pairs_of(hidden, pattern)).all()):", _sabotage("masking")),
    Mutant("refusal: attributions of another value", "attribution/faithfulness.py", "if not (same and abs(scores.value - self.value) <= self.rounding):", "if not same:", _sabotage("tested_shares")),
    Mutant("refusal: attributions of another target", "attribution/faithfulness.py", "or scores.target == self.words", "or True", _sabotage("tested_shares")),
    Mutant("refusal: changed files", "files.py", 'if metadata.get("sha256") != _digest(header, tensors):', 'if not metadata.get("sha256"):', ("tests/unit/test_result.py",)),
    Mutant("refusal: files of another version", "result.py", "if file.version != VERSION:", "if not file.version:", ("tests/unit/test_result.py",)),
    Mutant("refusal: maps of unlike layers", "results/average.py", 'same = ("layers", "layered", "channels"', 'same = ("layered", "channels"', ("tests/integration/test_average.py",)),
    # Circuits.
    Mutant('circuits: laws are not held', 'bridge/edge_ablation.py', 'if not all(gap <= tolerance for gap in gaps.values()):', 'if not any(gap >= 0 for gap in gaps.values()):', ("tests/interventions/test_circuits.py", "-k", 'refuse')),
    Mutant("circuits: a feed-forward does not see its own layer's heads", 'bridge/edge_ablation.py', 'return heads.stop if name == "mlp" and', 'return heads.start if name == "mlp" and', ("tests/interventions/test_circuits.py", "-k", 'sums_that or laws_hold')),
    Mutant('circuits: outputs are not compared with ablated ones', 'bridge/edge_ablation.py', 'self.differences[:, row] = output - less', 'self.differences[:, row] = output - 0 * less', ("tests/interventions/test_circuits.py", "-k", 'sums_that')),
    Mutant('circuits: norms of branches are forgotten', 'bridge/edge_ablation.py', 'if all(branch.norm is None for branch in branches):', 'if True:', ("tests/interventions/test_circuits.py", "-k", 'sums_that')),
    Mutant('circuits: CMD is signed', 'interventions/circuits.py', 'self._area((1 - self.faithfulness).abs())', 'self._area(1 - self.faithfulness)', ("tests/interventions/test_circuits.py", "-k", 'cmd')),
    Mutant('circuits: the mean of positions alone', 'interventions/circuits.py', 'number = sum(each.senders.shape[1] for each in outputs)', 'number = len(outputs)', ("tests/interventions/test_circuits.py", "-k", 'sums_that')),
    Mutant('circuits: edges by position in the batch', 'interventions/circuits.py', 'effects[chosen] = pair.values(kept) - pair.clean_value', 'effects[: len(chosen)] = pair.values(kept) - pair.clean_value', ("tests/interventions/test_circuits.py", "-k", 'edge_effect')),
    Mutant('circuits: greedy edges of any component', 'graphs/circuit.py', 'reached, waiting = {target}, [(-keys[edge], edge) for edge in into[target]]', 'reached, waiting = {target}, [(-key, edge) for edge, key in enumerate(keys)]', ("tests/interventions/test_circuits.py", "-k", 'choosing')),
    Mutant('circuits: components without kept inputs', 'graphs/circuit.py', 'return self.choose(np.array([a in reached and not useful.isdisjoint(to) for a, to in edges], dtype=bool))', 'return self.choose(np.array([a in reached for a, to in edges], dtype=bool))', ("tests/interventions/test_circuits.py", "-k", 'choosing')),
    Mutant('circuits: scores of shared inputs', 'graphs/circuit.py', 'own.get(ends, 0.0) / len(names)', 'own.get(ends, 0.0)', ("tests/interventions/test_circuits.py", "-k", 'mib')),
    # Statistics.
    Mutant("statistics: ends of intervals", "results/intervals.py", "PERCENTILES = (2.5, 97.5)", "PERCENTILES = (5.0, 95.0)", ("tests/unit/test_intervals.py",)),
    Mutant("statistics: draws without one prompt", "results/intervals.py", ".integers(0, n_prompts, (", ".integers(0, max(1, n_prompts - 1), (", ("tests/unit/test_intervals.py",)),
    Mutant("statistics: an interval of one prompt", "results/intervals.py", "np.where(counts[cells] > 1, ends, np.nan)", "np.where(counts[cells] > 0, ends, np.nan)", ("tests/unit/test_intervals.py",)),
    Mutant("statistics: ranks not centred", "results/ranks.py", "ranks -= ranks.mean(axis=-1, keepdims=True)", "ranks -= ranks.min(axis=-1, keepdims=True)", ("tests/unit/test_ranks.py", "tests/unit/test_measures.py")),
    Mutant("statistics: own cells among the others", "results/ranks.py", "others[range(len(queries)), list(queries)] = False", "others[range(len(queries)), list(queries)] = True", ("tests/unit/test_ranks.py",)),
    Mutant("statistics: change without its sign", "results/ranks.py", "return 1 - spearman(before, after, cells)", "return 1 - abs(spearman(before, after, cells))", ("tests/unit/test_measures.py",)),
    Mutant("statistics: layers ranked together", "results/intervals.py", "cells = layer == name", "cells = layer >= name", ("tests/interventions/test_validation.py", "-k", "layer or spearman or scipy or correlation or rank")),
    Mutant("statistics: cells that do not exist are averaged", "results/average.py", 'values.masked_fill(~reached, float("nan"))', "values", ("tests/integration/test_average.py",)),
    Mutant("statistics: layers of neurons", "attribution/average_shares.py", 'return {"layer": layers, "neuron"', 'return {"layer": tuple(range(len(layers))), "neuron"', ("tests/attribution/test_average_shares.py",)),
    Mutant("statistics: positions of the first prompt", "attribution/average_shares.py", "[[numbers[prompt] for numbers", "[[numbers[0] for numbers", ("tests/attribution/test_average_shares.py",)),
    # Layer algebra.
    Mutant("layer: constants of values stay with tokens", "layer/linear.py", "return record.head_values - constant, constant", "return record.head_values - 0 * constant, constant", ("tests/unit/test_parts.py", "tests/unit/test_worked_example.py")),
    Mutant("layer: residual of another token", "layer/linear.py", "tokens[torch.arange(len(x), device=x.device), queries] = x", "tokens[torch.arange(len(x), device=x.device), queries.flip(0)] = x", ("tests/unit/test_parts.py", "tests/unit/test_worked_example.py")),
    Mutant("layer: mean of a gate along the path", "layer/activations.py", "return self.gate(a) / (_POWERS[self.name] + 1)", "return self.gate(a) / _POWERS[self.name]", ("tests/unit/test_activations.py",)),
    Mutant("layer: activation at zero", "layer/activations.py", "return torch.where(small, self._mean_slope(s, 0), secant)", "return torch.where(small, self._mean_slope(s, 1), secant)", ("tests/unit/test_activations.py",)),
    Mutant("layer: derivative of a norm's scale", "layer/linear.py", "v = v - n * (n * v).mean(dim=-1, keepdim=True)", "v = v - n * (n * v).sum(dim=-1, keepdim=True)", ("tests/attribution/test_edges.py", "-k", "gpt2")),
    Mutant("layer: heads of shared values", "layer/heads.py", "value_heads = [head // shared for head in chosen]", "value_heads = [head % len(attention.w_v) for head in chosen]", ("tests/integration/test_laws.py", "-k", "llama and (parts_sum or missing)")),
    Mutant("layer: Gram matrix without a weight", "layer/fast/norms.py", "squares.append(((alpha @ gram) * alpha).sum(dim=-1))", "squares.append((alpha @ gram).sum(dim=-1))", ("tests/unit/test_roads.py", "-k", "gram or groups or norms")),
    # Propagation.
    Mutant("propagation: one backward pass too few", "attribution/continuation.py", "at, said = n_prompt - 1 + numbers,", "at, said = n_prompt + numbers - 1 - (numbers > 0).long(),", ("tests/attribution/test_continuation.py",)),
    Mutant("propagation: weights of EAP-IG", "attribution/patching.py", "zip((nodes + 1) / 2, weights / 2, strict=True)", "zip((nodes + 1) / 2, weights, strict=True)", ("tests/attribution/test_attribution_patching.py", "tests/attribution/test_edges.py", "-k", "steps or integrat or between or nodes")),
    Mutant("propagation: the stream after attention without that before", "attribution/patching.py", '+ change["residual", layer]', '+ 0 * change["residual", layer]', ("tests/attribution/test_attribution_patching.py", "-k", "every_kind")),
    Mutant("propagation: estimates of queries that cannot act", "attribution/patching.py", 'kind in ("q", "k") and rules.attention', 'kind == "k" and rules.attention', ("tests/attribution/test_attribution_patching.py", "-k", "refused")),
    Mutant("propagation: queries of signed maps", "views/shares.py", "result.maps[scope, layer][list(text.queries)]", "result.maps[scope, layer][: len(text.queries)]", ("tests/attribution/test_signed_maps.py", "-k", "beside")),
    Mutant("propagation: patterns are not frozen", "bridge/linearised.py", '"path": Rules("path", norms=True, feed_forward=True, attention=True),', '"path": Rules("path", norms=True, feed_forward=True, attention=False),', ("tests/attribution/test_frozen_autograd.py",)),
    Mutant("propagation: norm scales are not frozen", "bridge/linearised.py", "if not self.rules.norms:", "if not self.rules.norms or layer == 1:", _sabotage("right and shares-gpt2")),
    # Interventions and metrics.
    Mutant("interventions: the other row", "interventions/validation.py", "row = (row + 1) % length", "row = reads", ("tests/interventions/test_validation.py", "-k", "second_row")),
    Mutant("interventions: rows that reach no metric", "interventions/validation.py", "return row % reads if reads > 0 else None", "return row", ("tests/interventions/test_validation.py", "-k", "second_row")),
    Mutant("interventions: a removal adds", "interventions/edits.py", "point.onto(-part, contributions", "point.onto(part, contributions", ("tests/interventions/test_edits.py",)),
    Mutant("knockout: a mask left from a run that ended early", "bridge/edited.py", "if not any(given is x for given in (*args, *kwargs.values())):", "if False:", ("tests/interventions/test_knockout.py", "-k", "interrupted")),
    Mutant("knockout: windows that are too wide", "interventions/attention_knockout.py", "max(0, layer - size // 2)", "max(0, layer - size)", ("tests/interventions/test_knockout.py", "-k", "masked_score")),
    Mutant("knockout: the same heads in all rows", "interventions/attention_knockout.py", "masked[:, None] & heads[:, None, None]", "masked[:, None]", ("tests/interventions/test_knockout.py", "-k", "prompts or every_family", "-m", "not slow")),
    Mutant("heads: induction scores of duplicate tokens", "heads/scores.py", '"induction": (size - 1,', '"induction": (size,', ("tests/heads/test_scores.py",)),
    Mutant("interventions: knock-out without growth of the others", "interventions/edits.py", "cut = (z - alpha * value[key]) / (1 - alpha)", "cut = z - alpha * value[key]", ("tests/interventions/test_edits.py",)),
    Mutant("patching: runs are not checked", "bridge/edited.py", "if not error <= self._model.tolerance:  # NaN is refused too\n            raise IdentityError(", "if error < 0:\n            raise IdentityError(", (PATCHING, "-k", "is_refused")),
    Mutant("patching: late runs are not checked", "bridge/edited.py", "if self._reproduces(latest):", "if True:", (PATCHING, "-k", "before_the_patch")),
    Mutant("patching: a kind that is not obeyed", "bridge/edited.py", "<= 10 * self._model.eps(", "<= -10 * self._model.eps(", (PATCHING, "-k", "cannot_be_patched")),
    Mutant("patching: the stream without the skip connection", "bridge/edited.py", 'values = values - self._kept["residual", layer]', "pass", (PATCHING, "-k", "laws and gpt2")),
    Mutant("patching: the wrong run is patched", "interventions/activation_patching.py", "runs[::-1] if sweep.direction", "runs if sweep.direction", (PATCHING, "-k", "plain_hook and gpt2")),
    Mutant("patching: normalised the other way round", "interventions/activation_patching.py", "return self.corrupted, self.clean - self.corrupted", "return self.clean, self.corrupted - self.clean", (PATCHING, "-k", "laws and gpt2")),
    Mutant("patching: estimates of all positions", "interventions/activation_patching.py", 'groupby(PLACES, as_index=False)["estimate"].sum()', 'groupby(PLACES, as_index=False)["estimate"].mean()', (PATCHING, "-k", "compared")),
    Mutant("metrics: a tie raises the rank", "metrics.py", "(rows > best).sum(dim=-1)", "(rows >= best).sum(dim=-1)", ("tests/unit/test_metrics.py",)),
    Mutant("metrics: divergence the other way round", "metrics.py", "return (clean.exp() * (clean - edited)).sum(dim=-1)", "return (edited.exp() * (edited - clean)).sum(dim=-1)", ("tests/unit/test_metrics.py",)),
    # Flow and memories.
    Mutant("flow: an end is shown twice", "graphs/flow.py", "order[max(top, len(order) - counts[1]) :]", "order[max(0, len(order) - counts[1]) :]", ("tests/graphs/test_flow.py", "-k", "pruning")),
    Mutant("flow: smallest heads are shown", "graphs/flow.py", "return sizes.topk(min(count, len(sizes))).indices", "return (-sizes).topk(min(count, len(sizes))).indices", ("tests/graphs/test_flow.py", "-k", "pruning")),
    Mutant("memories: ties go to the later sequence", "memories/triggers.py", '(joined["position"], joined["sequence"], -joined', '(joined["position"], -joined["sequence"], -joined', ("tests/memories/test_triggers.py",)),
    Mutant("memories: special tokens in the mean", "memories/triggers.py", ".cpu().numpy()[positions]", ".cpu().numpy()", ("tests/memories/test_causes.py",)),
    # Page data.
    Mutant("page: colours of a figure", "views/figures.py", "PERCENTILE = 99", "PERCENTILE = 60", ("tests/unit/test_maps.py", "-k", "figure")),
    Mutant("page: differences are not folded", "page/numbers.py", "return np.where(wrapped < 0, -2 * wrapped - 1, 2 * wrapped)", "return np.where(wrapped < 0, -2 * wrapped, 2 * wrapped)", ("tests/page/test_payload.py",)),
    Mutant("page: stated precision", "page/numbers.py", "float(np.expm1(steps.max(initial=0.0) / 2))", "float(np.expm1(steps.max(initial=0.0) / 4))", ("tests/page/test_payload.py",)),
    Mutant("page: opens at the smallest change", "views/maps.py", "first.layers[int(sizes.argmax())]", "first.layers[int(sizes.argmin())]", ("tests/page/test_document.py", "tests/page/test_payload.py", "tests/page/test_token_maps.py")),
    # Batches, padding, caches.
    Mutant("batches: lengthened tokens count", "bridge/inputs.py", "return torch.arange(self.lengths[index])", "return torch.arange(self.tokens.shape[1])", ("tests/unit/test_batching.py", "tests/integration/test_inputs.py", "-k", "texts or batch")),
    Mutant("batches: rows in another order", "bridge/inputs.py", "enumerate(self.ascending)}", "enumerate(self.ascending[::-1])}", ("tests/integration/test_laws.py", "-k", "selections and gpt2")),
    Mutant("batches: a table of two batches", "contributions.py", "tables[key][rows] = table[rows, numbers.index(number)]", "tables[key][rows] = table[rows, 0]", ("tests/unit/test_batching.py",)),
    Mutant("caches: products of changed weights", "layer/fast/buffers.py", "bool((first == second).all())", "True", ("tests/unit/test_roads.py", "-k", "product")),
    Mutant("caches: keys and values of another start", "bridge/edited.py", "self._prefix[0] != start or", "", ("tests/interventions/test_edits.py", "-k", "resumed",)),
    # Which model, tokens and hooks a result is of.
    Mutant("identity: means of two models", "results/intervals.py", "if value in UNKNOWN else known", "if value in UNKNOWN or name == 'fingerprint' else known", ("tests/integration/test_identity.py",)),
    Mutant("identity: means of two rules", "results/intervals.py", '("fingerprint", "rules", "method", "value_bias", "precision")', '("fingerprint", "method", "value_bias", "precision")', ("tests/integration/test_identity.py",)),
    Mutant("identity: buffers alone are digested", "bridge/model.py", "(*module._parameters.values(), *buffers)", "(*buffers,)", ("tests/integration/test_identity.py",)),
    Mutant("identity: adapters are not digested", "bridge/model.py", "if adapted else digest", "if () else digest", ("tests/families/test_adapters.py",)),
    Mutant("identity: caches of other tokens", "bridge/capture.py", "    if not same:", "    if False:", ("tests/integration/test_identity.py",)),
    Mutant("identity: caches of changed weights", "bridge/capture.py", "return any(error <= rtol for error in errors)", "return any(error <= 0.05 for error in errors)", ("tests/integration/test_identity.py",)),
    Mutant("identity: records of changed weights", "bridge/capture.py", "if records.model.fingerprint != model.fingerprint:", "if False:", ("tests/integration/test_identity.py",)),
    Mutant("identity: edited runs without hooks", "interventions/contributions.py", "[*self._fwd_hooks, *hooks]", "[*hooks]", ("tests/integration/test_identity.py",)),
    Mutant("identity: hooks that were added", "interventions/contributions.py", "if self.model.callbacks() != self._callbacks and", "if False and", ("tests/integration/test_identity.py",)),
    Mutant("identity: donors of another kind", "interventions/contributions.py", "        if mine != theirs:", "        if False:", ("tests/integration/test_identity.py",)),
    Mutant("identity: hooks in a batch of one", "interventions/contributions.py", "        prompt = self._prompts[0]\n", "        prompt = self._prompts[0]._replace(batch=self._prompts[0].batch[[self._prompts[0].row]], row=0)\n", ("tests/integration/test_identity.py",)),
    Mutant("calls: unknown arguments", "signatures.py", "raise CallError(_in_words(function, signature, args, kwargs, str(error))) from None", "pass", ("tests/integration/test_calls.py",)),
    Mutant("loading: missing tensors", "bridge/loading.py", "if not missing and not reshaped:", "if not reshaped:", ("tests/integration/test_loading.py",)),
)  # fmt: skip
"""All faults, by area."""


@dataclass(frozen=True)
class Outcome:
    """What the tests said of a fault."""

    mutant: Mutant
    word: str
    """ "killed", "survived", or what went wrong otherwise."""
    seconds: float


def mutated(text: str, mutant: Mutant) -> str:
    """A file's text with the fault.

    Raises:
        ValueError: if the old text is not there exactly once.
    """
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"{mutant.name}: {mutant.file} has {mutant.old!r} {text.count(mutant.old)} times, expected once; "
            "change the row of tests/mutants.py with the code."
        )
    return text.replace(mutant.old, mutant.new)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run faults and print what became of them; 1 where one survives that has no reason to."""
    asked = argparse.ArgumentParser(prog="python -m tests mutants", description="faults that tests must notice")
    asked.add_argument(
        "--only", nargs="+", default=[], metavar="TEXT", help="faults whose names hold one of these texts"
    )
    asked.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    options = asked.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if not options.only or any(text in mutant.name for text in options.only)]
    for mutant in chosen:
        mutated((ROOT / "tl_ffblock" / mutant.file).read_text(encoding="utf-8"), mutant)
    right = [Mutant("no fault", "", "", "", tests) for tests in sorted({mutant.tests for mutant in chosen})]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED_ONCE)
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        runs = {pool.submit(_run, mutant): mutant for mutant in right + chosen}
        outcomes = []
        for run in as_completed(runs):
            outcome = Outcome(runs[run], *run.result())
            if outcome.mutant.file:
                print(f"{outcome.word:9} {outcome.seconds:5.0f} s  {outcome.mutant.name}", flush=True)
                outcomes.append(outcome)
            elif outcome.word != "survived":
                print(
                    f"without any fault these do not pass: {' '.join(outcome.mutant.tests)}: {outcome.word}", flush=True
                )
                pool.shutdown(wait=False, cancel_futures=True)
                return 2
    return _summary(outcomes)


def _summary(outcomes: Sequence[Outcome]) -> int:
    killed = sum(outcome.word == "killed" for outcome in outcomes)
    print(f"{killed} of {len(outcomes)} killed")
    for outcome in outcomes:
        if outcome.word != "killed":
            print(
                f"  {outcome.word}: {outcome.mutant.name} ({outcome.mutant.file}): {outcome.mutant.survives or 'no reason'}"
            )
    return int(any(outcome.word != "killed" and not outcome.mutant.survives for outcome in outcomes))


def _run(mutant: Mutant) -> tuple[str, float]:
    """What tests say of a fault in a copy of the repository, and in how many seconds; in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="mutant") as folder:
        copy = Path(folder)
        for name in COPIED:
            # Only the package is changed; the rest is read.
            if name in ("tl_ffblock", "tests"):
                shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                (copy / name).symlink_to(ROOT / name)
        if mutant.file:
            path = copy / "tl_ffblock" / mutant.file
            path.write_text(mutated(path.read_text(encoding="utf-8"), mutant), encoding="utf-8")
        start = time.monotonic()
        status = _pytest(copy, mutant.tests)
        os.chdir(ROOT)
    word = {0: "survived", 1: "killed"}.get(status, f"status {status}")
    return word, time.monotonic() - start


def _pytest(copy: Path, tests: tuple[str, ...]) -> int:
    """Exit status of tests in a copy, in this process; bytecode is not kept, since a fault may be as long and as young as what it replaces."""
    import pytest

    os.chdir(copy)
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    sys.path[:] = [str(copy), *(path for path in sys.path if path and Path(path).resolve() != ROOT)]
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "tl_ffblock")]:
        del sys.modules[name]
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LIMIT)
    try:
        with (
            Path(os.devnull).open("w") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            return int(pytest.main([*QUIET, *tests]))
    except TimeoutError:
        return 124
    finally:
        signal.alarm(0)


def _too_long(*_: object) -> None:
    raise TimeoutError


if __name__ == "__main__":
    raise SystemExit(main())
