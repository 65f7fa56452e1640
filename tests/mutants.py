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
import subprocess
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
BATCHES = "tests/integration/test_batches.py"
PATCHING = "tests/interventions/test_activation_patching.py"
SABOTAGE = "tests/attribution/test_sabotage.py"
TOWERS = "tests/families/test_towers.py"
MIXERS = "tests/families/test_mixers.py"
BY_ROWS = "tests/families/test_attention_by_rows.py"
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
    # Token mixers without a softmax.
    Mutant("mixer: no decay", "layer/mixers.py", "gap.masked_fill(_later(gap), -torch.inf).exp()", "(0 * gap).masked_fill(_later(gap), -torch.inf).exp()", (MIXERS, "-k", "source_token and mamba2-bias")),
    Mutant("mixer: a delta net erases without beta", "layer/mixers.py", "erased = (writes[..., None] * erased).tril(-1)", "erased = erased.tril(-1)", (MIXERS, "-k", "source_token and qwen3_5-bias")),
    Mutant("mixer: a write without beta", "layer/mixers.py", "return made * writes[..., None, :]", "return made", (MIXERS, "-k", "source_token and qwen3_5-bias")),
    Mutant("mixer: D of Mamba-2", "layer/mixers.py", "torch.diag_embed(repeat(self.skip,", "0 * torch.diag_embed(repeat(self.skip,", (MIXERS, "-k", "source_token and mamba2-bias")),
    Mutant("mixer: D of Mamba", "layer/mixers.py", "self.skip[:, None, None] * own", "0 * own", (MIXERS, "-k", "source_token and mamba-bias")),
    Mutant("mixer: taps from the last", "bridge/mixers.py", "[channels, 0].flip(-1)", "[channels, 0]", (MIXERS, "-k", "source_token and mamba-bias")),
    Mutant("mixer: the norm is before the gate", "layer/mixers.py", "normalised = y * factor if self.norm.after_gate else y", "normalised = y", (MIXERS, "-k", "source_token and mamba2-bias")),
    Mutant("mixer: one group of the norm", "bridge/mixers.py", 'getattr(norm, "group_size", own.intermediate_size', 'getattr(norm, "no_size", own.intermediate_size', (MIXERS, "-k", "source_token and mamba2-bias")),
    Mutant("mixer: the derivative of the silu", "layer/mixers.py", "return pre.sigmoid() if self.activates", "return pre.sigmoid() * (1 + pre * (1 - pre.sigmoid())) if self.activates", (MIXERS, "-k", "source_token and mamba-bias")),
    Mutant("mixer: the bias of the convolution", "layer/mixers.py", "return made if self.bias is None else made + self.bias", "return made", (MIXERS, "-k", "source_token and mamba-bias")),
    Mutant("mixer: a tap is of its own token", "layer/records.py", "made[..., :-tap] += channels[..., tap:]", "made[..., tap:] += channels[..., tap:]", (MIXERS, "-k", "source_token and mamba2-bias")),
    Mutant("mixer: an edge of a tap is of its own token", "layer/mixers.py", "edges[..., : n_keys - tap] += made[..., tap:]", "edges[..., tap:] += made[..., tap:]", (MIXERS, "-k", "edges and mamba2")),
    Mutant("mixer: values at padding", "layer/mixers.py", "slope = slope * real if self.masks_values else slope", "slope = slope", (MIXERS, "-k", "bias_at_padding and mamba2")),
    Mutant("mixer: B and C at padding", "layer/mixers.py", "convolution.activated(made(x)) * _real(x)[..., None]", "convolution.activated(made(x))", (MIXERS, "-k", "bias_at_padding and mamba2-right")),
    Mutant("mixer: a bias at padding has a gate of its own", "bridge/gradient_cache.py", "if at is None else self.gate(place, y).gather(1, at)", "", (MIXERS, "-k", "bias_at_padding and mamba-left")),
    Mutant("mixer: knockout reads padding", "bridge/layers.py", "receive(x if mask is None or mask.ndim != 2 else x * mask[..., None].to(x))", "receive(x)", (MIXERS, "-k", "padding_changes and qwen3_5-left")),
    Mutant("mixer: rounding of long sums", "layer/mixers.py", "(total - rounded).to(x.dtype)", "(rounded - rounded)", (MIXERS, "-k", "strong_decays")),
    Mutant("masking: a mixer's source tokens, not writes", "attribution/attribute.py", "others_of(of_prompt.cells(writes))", "others_of(own)", (MIXERS, "-k", "masking_estimate and mamba")),
    # Attention by rows and recomputed patterns; memory.
    Mutant("attention: another pattern", "bridge/attention.py", "if not error <= self.model.tolerance:", "if error < 0:", (BY_ROWS, "-k", "another")),
    Mutant("attention: a window too wide", "bridge/attention.py", "(keys > rows[..., None] - self.window)", "(keys >= rows[..., None] - self.window)", (BY_ROWS, "-k", "band")),
    Mutant("attention: the pattern is held", "bridge/attention.py", 'return by_rows_differs(model) < float("inf")', "return False", (BY_ROWS, "-k", "held and llama")),
    Mutant("attention: no soft cap", "bridge/attention.py", "torch.tanh(scores / self.softcap) * self.softcap", "scores", (BY_ROWS, "-k", "whole and gemma2")),
    Mutant("memory: what does not fit runs", "bridge/memory.py", "if estimate.total <= budget:", "if estimate.total < math.inf:", ("tests/integration/test_memory.py", "-k", "refused")),
    Mutant("memory: a budget splits nothing", "bridge/memory.py", "if chooses and not hooked and run.cache is None:", "if not most:", ("tests/integration/test_memory.py", "-k", "below")),
    Mutant("memory: edges are not counted", "bridge/memory.py", '(self.pattern if edges else 0)', "0", ("tests/integration/test_memory.py", "-k", "grows")),
    Mutant("memory: records of all layers", "layer/fast/vector_norms.py", "lambda of, rows, pairs: of.add_head_sum", "lambda _, rows, pairs: self.add_head_sum", (BY_ROWS, "-k", "one_layer")),
    # Images and sounds beside text.
    Mutant("towers: rows of an image counted by rows", "bridge/media.py", "place // columns", "place // max(rows, 1)", (TOWERS, "-k", "labels and Qwen2_5_VL")),
    Mutant("towers: grids of patches before they are merged", "bridge/media.py", "h // merged, w // merged", "w // merged, h // merged", (TOWERS, "-k", "labels and Qwen2_5_VL")),
    Mutant("towers: attention to later image tokens unseen", "bridge/media.py", "pattern.triu(1).any()", "pattern.triu(99).any()", (TOWERS, "-k", "Gemma3 and computation")),
    Mutant("towers: image tokens have the shares of placeholders", "attribution/attribute.py", "torch.where(replaced, residual[0]", "torch.where(~replaced, residual[0]", (TOWERS, "-k", "sums_to and Qwen2_5_VL")),
    Mutant("towers: features of later layers have no gate", "bridge/linearised.py", "if layer - 1 in self.model.added:", "if layer < 0:", (TOWERS, "-k", "sums_to and Qwen3VLMoe")),
    Mutant("towers: a layer ends before the image's features", "bridge/layers.py", "if scope == last and self.adds_after:", "if scope is None:", (TOWERS, "-k", "Qwen3VLMoe and computation")),
    Mutant("towers: pixels are not passed on", "bridge/inputs.py", "options |= {name: tensor.to(model.device)", "_ = {name: tensor.to(model.device)", (TOWERS, "-k", "Qwen2_5_VL and computation")),
    Mutant("towers: an image map without later features", "attribution/attribution.py", "self.token_attributions + self.bias_shares[added]", "self.token_attributions - self.bias_shares[added]", (TOWERS, "-k", "image_map_is")),
    # Certificates and identities.
    Mutant("certificate: layer sums", "attribution/certificate.py", "if self.complete and not error <= self.rtol:", "if self.complete and error < 0:", _sabotage("shares-layer.linear")),
    Mutant("certificate: edges", "attribution/certificate.py", "if not self.edges <= self.rtol:", "if self.edges < 0:", _sabotage("edges-attribution")),
    Mutant("certificate: linear forms", "attribution/certificate.py", "if not gap <= rtol:", "if gap < 0:", _sabotage("shares-bridge.linearised")),
    Mutant("certificate: edge error is 0", "attribution/attribute.py", "float(relative(*torch.stack(self.edge_errors).amax(dim=0)))", "float(0 * relative(*torch.stack(self.edge_errors).amax(dim=0)))", _sabotage("edges-attribution")),
    Mutant("masking: a token loses its own attention", "attribution/attribute.py", "others_of(lost * (pattern > 0))", "(lost * (pattern > 0)).sum(dim=(0, 1))", ("tests/attribution/test_oracle.py", "-k", "masking_estimate_is")),
    Mutant("masking: to first order", "attribution/attribute.py", "torch.where(weights > 0, kept / weights, 0.0)", "kept / (1 + 0 * weights)", ("tests/attribution/test_oracle.py", "-k", "masking_estimate_is")),
    Mutant("masking: attention sinks are forgotten", "attribution/attribute.py", "+ sink * (sink > rtol)", "+ sink * (sink > 2)", ("tests/attribution/test_oracle.py", "-k", "masking_estimate_sums and gpt_oss")),
    Mutant("certificate: logits with rules", "bridge/traced.py", "if not known[rules] == 0:", "if known[rules] < 0:", _sabotage("differ_by")),
    Mutant("certificate: continuation errors are 0", "attribution/continuation.py", "errors=relative(misses, sizes).amax(dim=1),", "errors=torch.zeros(len(shares)),", _sabotage("continuation-layer")),
    Mutant("certificate: flow walk", "attribution/flow_graph.py", "pass\", errors[\"layers\"]),", "pass\", 0.0),", _sabotage("flow-layer")),
    Mutant("certificate: flow shares", "attribution/flow_graph.py", "from its own\", errors[\"shares\"]),", "from its own\", 0.0),", _sabotage("flow-graphs")),
    Mutant("certificate: flow sums", "attribution/flow_graph.py", "from its vector\", errors[\"sums\"]),", "from its vector\", 0.0),", _sabotage("flow-graphs")),
    Mutant("certificate: named biases of a graph", "graphs/attribution_graph.py", "if not error <= flows.rtol:", "if error < 0:", _sabotage("graph")),
    Mutant("certificate: end of the adjoint", "attribution/signed_maps.py", "error = float(relative((found - expected).norm(), expected.norm()))", "error = 0.0", _sabotage("signed_maps")),
    Mutant("certificate: cells of signed maps", "attribution/signed_maps.py", "error = float(relative((cells.sum(dim=0) - of_tokens).abs().max(), cells.abs().sum()))", "error = 0.0", _sabotage("signed_maps")),
    Mutant("certificate: senders of edges", "attribution/edge_attribution.py", "if plain and not self.streams <= rtol:", "if plain and self.streams < 0:", _sabotage("estimated_edges")),
    Mutant("certificate: receivers of edges", "attribution/edge_attribution.py", "if not self.derivatives <= rtol:", "if self.derivatives < 0:", _sabotage("estimated_edges")),
    Mutant("certificate: best query in place of the worst", "contributions.py", "worst = int(errors.argmax())", "worst = int(errors.argmin())", _sabotage("vectors-layer.linear.attend")),
    Mutant("certificate: rows of the last scope", "layer/fast/vector_norms.py", "parts = replace(parts, tokens=self.rows.end[1][:, None])", "parts = replace(parts)", _sabotage("maps-layer.fast.head_sums")),
    Mutant("certificate: norms of a column", "layer/fast/vector_norms.py", "_over(values[scope][..., key] - norms[scope],", "_over(norms[scope] - norms[scope],", _sabotage("maps-layer.fast.vector_norms")),
    Mutant("certificate: norms by head", "layer/fast/vector_norms.py", "_over(table[:, key] - norms,", "_over(norms - norms,", _sabotage("by_head")),
    Mutant("certificate: neurons' shares", "contributions.py", "float(of_row.share_errors.max())", "float(of_row.share_errors.min() * 0)", _sabotage("neurons-layer")),
    Mutant("certificate: neurons' coefficients", "layer/neurons.py", "gap = tokens.sum(dim=0) + bias - own", "gap = own - own", _sabotage("neurons-layer")),
    Mutant("certificate: parts of coefficients", "memories/causes.py", "worst = int(result.error.argmax())", "worst = int(result.error.argmin())", _sabotage("coefficients-memories")),
    Mutant("identity: none is compared", "bridge/selfcheck.py", "if not error <= rtol:", "if error < 0:", _sabotage("IdentityError or routing_weights or value or post")),
    Mutant("identity: mask of later runs", "bridge/selfcheck.py", "if record.block.causal and _error_after_query(record):", "if record.block.causal and not record:", _sabotage("later_run")),
    Mutant("identity: read-out", "bridge/readout.py", "if not error < model.tolerance:", "if error < 0:", _sabotage("read-out")),
    Mutant("identity: Hugging Face", "bridge/hugging_face.py", "    if error <= tolerance:", "    if error >= 0:", _sabotage("another_model")),
    Mutant("flow: an edge has the entropy of where it leads", "graphs/flow.py", "zip(self.ends[:, 0].tolist(), self.units", "zip(self.ends[:, 1].tolist(), self.units", ("tests/graphs/test_flow.py", "-k", "entropy")),
    Mutant("scores: values of other heads", "attention.py", "value_norms(record)[list(chosen)]", "value_norms(record)[: len(chosen)]", ("tests/integration/test_attention.py", "-k", "heads_and_rows")),
    Mutant("attention maps: effective attention without its signs", "attention.py", "signed=effective,", "signed=False,", ("tests/families/test_effective_attention.py", "-k", "signed and Mamba2")),
    Mutant("heads: layers with other numbers of heads", "bridge/model.py", "        if others:\n            said", "        if False:\n            said", ("tests/families/test_effective_attention.py", "-k", "numbers_of_heads and attention_knockout")),
    Mutant("identity: softmax of scores", "attention.py", "if not scored.error <= run.settings.rtol:", "if scored.error < 0:", _sabotage("scores")),
    Mutant("identity: resumed runs", "bridge/edited.py", "TOLERANCE = 1e-4", "TOLERANCE = 1e-1", ("tests/interventions/test_edits.py", "-k", "resumed",)),
    Mutant("certificate: a flow without its cut", "aggregation.py", "if near[sink] or cut != found.flow_value:", "if near[sink]:", ("tests/integration/test_aggregation.py", "-k", "not_the_maximum")),
    Mutant("studies: mutual information without masked tokens", "experiments/kobayashi/amplification.py", 'if self.options.pmi_masked == "kept" and tokenised.masked:', 'if self.options.pmi_masked != "kept" and tokenised.masked:', ("tests/experiments/test_amplification.py", "-k", "stood_at_masks")),
    Mutant("studies: changes between layers over all cells", "experiments/kobayashi/between_layers.py", "cells = observed.maps.reachable()", "cells = observed.maps.reachable() | True", ("tests/experiments/test_between_layers.py", "-k", "llama")),
    Mutant("help: options of studies that were not named", "cli/run.py", "return frozenset(others if named else ())", "return frozenset()", ("tests/corpus/test_config.py", "-k", "its_own_options")),
    Mutant("studies: ranks from the other end", "memories/values.py", "1 + (logits > own).sum(dim=-1).cpu(), -1)", "1 + (logits < own).sum(dim=-1).cpu(), -1)", ("tests/experiments/test_memories.py", "-k", "public_functions")),
    Mutant("studies: agreement in place of kappa", "experiments/kobayashi/annotation.py", "kappa = float(cohen_kappa_score(*zip(*named, strict=True)))", "kappa = same", ("tests/experiments/test_pair_annotation.py",)),
    Mutant("replication: changes over reachable cells", "experiments/kobayashi/replication.py", 'rows = changes[(changes["cells"] == "all") & (changes', 'rows = changes[(changes["cells"] == "reachable") & (changes', ("tests/cli/test_replicate.py", "-k", "side_by_side")),
    Mutant("replication: a model that is missing is forgotten", "experiments/kobayashi/replication.py", "failed[model] = str(error)", "continue", ("tests/cli/test_replicate.py", "-k", "not_there")),
    Mutant("replication: the next layer's norm in Pre-LN models", "experiments/kobayashi/replication.py", 'rows = rows[rows["before"] == rows["before"].min()]', 'rows = rows[rows["before"] == rows["before"].max()]', ("tests/cli/test_replicate.py", "-k", "norm_of_figure_3")),
    Mutant("replication: numbers of other models as this one's", "experiments/kobayashi/replication.py", '"" if own else "; ".join(others)', '""', ("tests/cli/test_replicate.py", "-k", "or_say_of_which")),
    Mutant("studies: ties of mutual information by rounding", "experiments/kobayashi/amplification.py", "ratio = units * self.n_units / (self._frequency[first] * self._frequency[second].astype(np.float64))", "ratio = units * self.n_units / self._frequency[first] / self._frequency[second]", ("tests/experiments/test_amplification.py", "-k", "equal_pmi")),
    Mutant("probes: trained for a few steps", "heads/probes.py", "max_iter=training.max_iterations,", "max_iter=3,", ("tests/heads/test_probes.py", "-k", "another_optimiser")),
    Mutant("graphs: similar tokens from one side only", "graphs/flow.py", "return (cosines.amax(dim=2).mean(dim=1) + cosines.amax(dim=1).mean(dim=1)) / 2", "return cosines.amax(dim=2).mean(dim=1)", ("tests/graphs/test_flow.py", "-k", "by_similarity")),
    # Aggregated maps.
    Mutant("aggregation: the first layer leftmost", "aggregation.py", "products.append(matrix @ products[-1])", "products.append(products[-1] @ matrix)", ("tests/integration/test_aggregation.py", "-k", "paths")),
    Mutant("aggregation: a second residual for maps that have one", "aggregation.py", "share = RESIDUAL_OF_ATTENTION * attention if", "share = RESIDUAL_OF_ATTENTION if", ("tests/integration/test_aggregation.py", "-k", "second_residual")),
    Mutant("aggregation: ALTI by Euclidean distance", "aggregation.py", "distances = (whole[:, None] - parts).abs().sum(dim=-1)", "distances = (whole[:, None] - parts).norm(dim=-1)", ("tests/integration/test_aggregation.py", "-k", "formulas or order")),
    Mutant("aggregation: GlobEnc without the gain of the last norm", "aggregation.py", "(norm.linear(_attention_block(record, run)) / scale[:, None])", "(_attention_block(record, run) / scale[:, None])", ("tests/integration/test_aggregation.py", "-k", "formulas")),
    Mutant("aggregation: capacities are counted from the wrong side", "aggregation.py", "((layer + 1) * n + query, layer * n + key)", "((layer + 1) * n + key, layer * n + query)", ("tests/integration/test_aggregation.py", "-k", "by_hand")),
    # Refusals.
    Mutant("refusal: hidden tokens are seen", "bridge/edited.py", "if bool((pattern * _pairs_of(hidden, pattern)).any()):", "if bool((pattern * _pairs_of(hidden, pattern)).all()):", _sabotage("masking")),
    Mutant("refusal: attributions of another value", "attribution/faithfulness.py", "if not (same and abs(scores.value - self.value) <= self.rounding):", "if not same:", _sabotage("tested_shares")),
    Mutant("refusal: attributions of another target", "attribution/faithfulness.py", "or scores.target == self.words", "or True", _sabotage("tested_shares")),
    Mutant("refusal: changed files", "files.py", "if checksum != _digest(header, tensors):", "if not checksum:", ("tests/unit/test_result.py",)),
    Mutant("files: entries in random order", "files.py", "{_ENTRY: _sorted(entry)}", '{_ENTRY: _sorted(entry), "a": "", "b": "", "c": ""}', ("tests/integration/test_results.py", "-k", "equal_files")),
    Mutant("graphs: unknown numbers", "graphs/graph.py", "            if not isinstance(value, float) or math.isfinite(value)\n", "", ("tests/graphs/test_graph.py", "-k", "networkx")),
    Mutant("words: letters and digits only", "results/tokens.py", 'rf"(?V1w)(?!{_ONE_WORD})\\b"', 'rf"(?V1w)(?!{_ONE_WORD})\\b|(?=\\p{{M}})"', ("tests/unit/test_words.py", "-k", "words_of_a_text")),
    Mutant("words: characters of several tokens", "bridge/labels.py", "if _UNKNOWN not in text:", "if _UNKNOWN in text:", ("tests/unit/test_words.py", "-k", "parts_of_characters")),
    Mutant("refusal: files of another version", "result.py", "if file.version != VERSION:", "if not file.version:", ("tests/unit/test_result.py",)),
    Mutant("refusal: maps of unlike layers", "results/average.py", 'same = ("layers", "layered", "channels"', 'same = ("layered", "channels"', ("tests/integration/test_average.py",)),
    # Files.
    Mutant("files: a pipe is waited for", "files.py", "    if not stat.S_ISREG(mode):\n        kind", "    if stat.S_ISDIR(mode):\n        kind", ("tests/unit/test_files.py", "-k", "read_only or circle or no_file")),
    Mutant("files: read-only files are replaced", "files.py", "if mode and not os.access(target, os.W_OK):", "if mode and not os.access(target, os.F_OK):", ("tests/unit/test_files.py", "-k", "read_only")),
    Mutant("files: a name twice in JSON", "files.py", "if len(held) != len(pairs):", "if len(held) > len(pairs):", ("tests/unit/test_files.py", "-k", "no_json")),
    Mutant("files: shards stay open", "corpus/store.py", "        with self._open() as file:\n            metadata", "        self._file = self._open()\n        with self._open() as file:\n            metadata", ("tests/corpus/test_store.py", "-k", "more_shards")),
    Mutant("files: shards of seven digits are not found", "corpus/store.py", "{{6,}}", "{{6}}", ("tests/corpus/test_store.py", "-k", "more_shards")),
    Mutant("corpora: old Macs' lines are one text", "corpus/texts.py", "found = None if wrong else _LONE_RETURN.search(text)", "found = None", ("tests/corpus/test_faults.py", "-k", "Mac")),
    Mutant("corpora: articles without an id are lost", "corpus/texts.py", 'if key.split()[:1] == ["newdoc"]:', 'if key.strip() == "newdoc id":', ("tests/corpus/test_faults.py", "-k", "document")),
    Mutant("models: whole numbers are weights", "bridge/loading.py", 'if whole and "quantization_config" not in config:', 'if whole and "quantization_config" in config:', ("tests/integration/test_loading.py", "-k", "whole_numbers")),
    Mutant("circuits: files of another model's sizes", "graphs/circuit.py", "if cfg.get(name, own) != own:", "if not cfg.get(name, own):", ("tests/interventions/test_circuits.py", "-k", "no_circuit")),
    # Circuits.
    Mutant('circuits: laws are not held', 'bridge/edge_ablation.py', 'if not all(gap <= tolerance for gap in gaps.values()):', 'if not any(gap >= 0 for gap in gaps.values()):', ("tests/interventions/test_circuits.py", "-k", 'refuse')),
    Mutant("circuits: a feed-forward does not see its own layer's heads", 'bridge/edge_ablation.py', 'return heads.stop if name == "mlp" and', 'return heads.start if name == "mlp" and', ("tests/interventions/test_circuits.py", "-k", 'sums_that or laws_hold')),
    Mutant('circuits: outputs are not compared with ablated ones', 'bridge/edge_ablation.py', 'self.differences[:, row] = output - less', 'self.differences[:, row] = output - 0 * less', ("tests/interventions/test_circuits.py", "-k", 'sums_that')),
    Mutant("circuits: multipliers of branches are forgotten", "bridge/edge_ablation.py", "return made if self.multiplier == 1 else self.multiplier * made", "return made", ("tests/interventions/test_circuits.py", "-k", "laws and granite")),
    Mutant("edits: a multiplier after the HookPoint is forgotten", "interventions/contributions.py", "vector = vector / block.factors(self.added)[0]", "pass", ("tests/families/test_structure.py", "-k", "edit_changes_its_scope")),
    Mutant('circuits: norms of branches are forgotten', 'bridge/edge_ablation.py', 'if all(branch.adds for branch in branches):', 'if True:', ("tests/interventions/test_circuits.py", "-k", 'sums_that')),
    Mutant('circuits: CMD is signed', 'interventions/circuits.py', 'self._area((1 - self.faithfulness).abs())', 'self._area(1 - self.faithfulness)', ("tests/interventions/test_circuits.py", "-k", 'cmd')),
    Mutant('circuits: the mean of positions alone', 'interventions/circuits.py', 'number += len(tokens)', 'number += 1', ("tests/interventions/test_circuits.py", "-k", 'sums_that')),
    Mutant('circuits: edges by position in the batch', 'interventions/circuits.py', 'effects[chosen] += change.abs() / n_draws if n_draws else change', 'effects[: len(chosen)] += change.abs() / n_draws if n_draws else change', ("tests/interventions/test_circuits.py", "-k", 'edge_effect')),
    Mutant('circuits: greedy edges of any component', 'graphs/circuit.py', 'reached, waiting = {target}, [(-keys[edge], edge) for edge in into[target]]', 'reached, waiting = {target}, [(-key, edge) for edge, key in enumerate(keys)]', ("tests/interventions/test_circuits.py", "-k", 'choosing')),
    Mutant('circuits: components without kept inputs', 'graphs/circuit.py', 'return self.choose(np.array([a in reached and not useful.isdisjoint(to) for a, to in edges], dtype=bool))', 'return self.choose(np.array([a in reached for a, to in edges], dtype=bool))', ("tests/interventions/test_circuits.py", "-k", 'choosing')),
    Mutant('circuits: scores of shared inputs', 'graphs/circuit.py', 'own.get(ends, 0.0) / len(names)', 'own.get(ends, 0.0)', ("tests/interventions/test_circuits.py", "-k", 'mib')),
    Mutant("circuits: position embeddings are ablated", "interventions/circuits.py", "ablated = torch.cat([ablated[:1] + self.edges.position_embeddings(clean), ablated[1:]])", "pass", ("tests/interventions/test_circuits.py", "-k", "position_embeddings")),
    Mutant("circuits: means with position embeddings", "interventions/circuits.py", "sums[-1][0] -= self.edges.position_embeddings(tokens).sum(dim=0)", "pass", ("tests/interventions/test_circuits.py", "-k", "position_embeddings")),
    Mutant("circuits: files with some dimensions", "graphs/circuit.py", "or not all(kept)", "", ("tests/interventions/test_circuits.py", "-k", "no_circuit")),
    Mutant("Neuronpedia: one feature for all nodes", "graphs/neuronpedia.py", '"feature": number', '"feature": node.head or 0', ("tests/graphs/test_neuronpedia.py", "-k", "pages_read")),
    Mutant("Neuronpedia: a prompt is its joined tokens", "graphs/neuronpedia.py", 'graph.prompt or "".join(graph.labels)', '"".join(graph.labels)', ("tests/graphs/test_neuronpedia.py", "-k", "before_tokenisation")),
    Mutant('circuits: sets in which an edge is always ablated', 'interventions/circuits.py', 'columns[chosen]] ^= True', 'columns[chosen]] = False', ("tests/interventions/test_circuits.py", "-k", 'adds_has')),
    Mutant('receivers: a key that heads share has one reader', 'bridge/edge_ablation.py', '.reshape(receivers.stop - receivers.start, -1).sum(dim=-1)', '.reshape(receivers.stop - receivers.start, -1)[:, 0]', ("tests/attribution/test_edges.py", "-k", 'small_change')),
    Mutant('receivers: laws are not held', 'bridge/edge_ablation.py', 'if not gap <= self.model.tolerance:', 'if gap < 0:', ("tests/attribution/test_edges.py", "-k", 'do_not_obey')),
    Mutant('known circuits: stated edges are not verified', 'known_circuits/known.py', 'if (value := auroc(self.is_true, size)) < least:', 'if (value := auroc(self.is_true, size)) < 0:', ("tests/known_circuits", "-k", 'wrong_edge')),
    Mutant('known circuits: the task is not asked for', 'known_circuits/known.py', 'if accuracy < LEAST_ACCURACY:', 'if accuracy < 0:', ("tests/known_circuits", "-k", 'does_not_survive')),
    Mutant("known circuits: a node sends to one receiver", "known_circuits/known.py", "[[edge for edge in full if edge[0] == name] for name", "[[edge for edge in full if edge[0] == name][:1] for name", ("tests/known_circuits", "-k", "nodes_and_tokens and induction")),
    Mutant("known circuits: all neurons of a layer are true", "known_circuits/known.py", "if part.name in senders:", "if part.name not in senders:", ("tests/known_circuits", "-k", "nodes_and_tokens and induction")),
    Mutant('known circuits: ties are hits', 'known_circuits/scores.py', '(size[~true] >= size[true].min())', '(size[~true] > size[true].min())', ("tests/known_circuits", "-k", 'by_hand')),
    # Statistics.
    Mutant("statistics: ends of intervals", "results/intervals.py", "PERCENTILES = (2.5, 97.5)", "PERCENTILES = (5.0, 95.0)", ("tests/unit/test_intervals.py",)),
    Mutant("statistics: draws without one prompt", "results/intervals.py", ".integers(0, n_prompts, (", ".integers(0, max(1, n_prompts - 1), (", ("tests/unit/test_intervals.py",)),
    Mutant("statistics: an interval of one prompt", "results/intervals.py", "np.where(counts[cells] > 1, ends, np.nan)", "np.where(counts[cells] > 0, ends, np.nan)", ("tests/unit/test_intervals.py",)),
    Mutant("statistics: ranks not centred", "results/ranks.py", "ranks -= ranks.mean(axis=-1, keepdims=True)", "ranks -= ranks.min(axis=-1, keepdims=True)", ("tests/unit/test_measures.py",)),
    Mutant("statistics: own cells among the others", "results/ranks.py", "others[range(len(queries)), list(queries)] = False", "others[range(len(queries)), list(queries)] = True", ("tests/unit/test_measures.py",)),
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
    Mutant("layer: Gram matrix without a weight", "layer/fast/vector_norms.py", "squares.append(((alpha @ gram) * alpha).sum(dim=-1))", "squares.append((alpha @ gram).sum(dim=-1))", ("tests/unit/test_optimised_layer.py", "-k", "gram or groups or norms")),
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
    Mutant("heads: a pair's separators are of the other sentence", "heads/statistics.py", "& of_text & of_text[queries]", "& of_text[queries]", ("tests/heads/test_statistics.py", "-k", "paraphrase")),
    Mutant("heads: decay counts what a row has in common", "heads/decay.py", "return torch.where(pairs, held - mean, 0.0)", "return held", ("tests/heads/test_decay.py",)),
    Mutant("heads: decay pairs other dimensions", "heads/decay.py", "every.view(2, -1).T, every.view(-1, 2)", "every.view(-1, 2), every.view(-1, 2)", ("tests/heads/test_decay.py",)),
    Mutant("heads: a pooled target reads the last position", "attribution/targets.py", "weights += 1 / len(stream)", "weights[-1] = 1", ("tests/heads/test_effects.py", "-k", "mean")),
    Mutant("heads: possessors are read from their noun", "heads/relations.py", "rows + np.array(marked, dtype=np.int64)", "rows", ("tests/heads/test_relations.py", "-k", "marker")),
    Mutant("heads: induction scores of duplicate tokens", "heads/scores.py", '"induction": (size - 1,', '"induction": (size,', ("tests/heads/test_scores.py",)),
    Mutant("interventions: knock-out without growth of the others", "interventions/edits.py", "cut = (z - alpha * value[key]) / (1 - alpha)", "cut = z - alpha * value[key]", ("tests/interventions/test_edits.py",)),
    Mutant("patching: runs are not checked", "bridge/edited.py", "if not error <= self._model.tolerance:  # NaN is refused too\n            raise IdentityError(", "if error < 0:\n            raise IdentityError(", (PATCHING, "-k", "is_refused")),
    Mutant("patching: late runs are not checked", "bridge/edited.py", "if _gives(lambda: self._run(latest, 2, [], self._from), [self.read] * 2):", "if True:", (PATCHING, "-k", "before_the_patch")),
    Mutant("patching: a kind that is not obeyed", "bridge/edited.py", "<= 10 * self._model.eps(", "<= -10 * self._model.eps(", (PATCHING, "-k", "cannot_be_patched")),
    Mutant("patching: the stream without the skip connection", "bridge/edited.py", 'values = (values - self._kept["residual", layer]) / self._attention_factor(layer)', "pass", (PATCHING, "-k", "laws and gpt2")),
    Mutant("direct: a shared expert beside the experts is not constant", "bridge/linearised.py", '("z", "mlp_out", "beside")', '("z", "mlp_out")', ("tests/families/test_mixers.py", "-k", "gradients_of_an_architecture")),
    Mutant("direct: no derivative is refused", "bridge/linearised.py", "y.register_hook(refuse)", "y.register_hook(lambda _: None)", ("tests/attribution/test_direct.py", "-k", "inside_a_branch")),
    Mutant("patching: the wrong run is patched", "interventions/activation_patching.py", "runs[::-1] if sweep.direction", "runs if sweep.direction", (PATCHING, "-k", "plain_hook and gpt2")),
    Mutant("patching: normalised the other way round", "interventions/activation_patching.py", "return self.corrupted, unit.masked_fill(", "return self.clean, -unit.masked_fill(", (PATCHING, "-k", "laws and gpt2")),
    Mutant("metrics: answers in the order of a batch are read for each row", "metrics.py", "if not _by_row(torch.stack(rows), joint, turned):", "if False:", (BATCHES, "-k", "function_of_a_batch")),
    Mutant("inputs: a padded batch is read as text", "bridge/inputs.py", "if len({len(row) for row in rows}) != 1:", "if rows:", (BATCHES, "-k", "padded")),
    Mutant("inputs: an equal pair goes unsaid", "bridge/inputs.py", "if torch.equal(clean, corrupted):", "if False:", (BATCHES, "-k", "equal_pair")),
    Mutant("patching: estimates of all positions", "interventions/activation_patching.py", 'groupby(PLACES, as_index=False)["estimate"].sum()', 'groupby(PLACES, as_index=False)["estimate"].mean()', (PATCHING, "-k", "compared")),
    Mutant("metrics: a tie raises the rank", "metrics.py", "(rows > best).sum(dim=-1)", "(rows >= best).sum(dim=-1)", ("tests/unit/test_metrics.py",)),
    Mutant("metrics: divergence the other way round", "metrics.py", "return (clean.exp() * (clean - edited)).sum(dim=-1)", "return (edited.exp() * (edited - clean)).sum(dim=-1)", ("tests/unit/test_metrics.py",)),
    # Flow and memories.
    Mutant("flow: an end is shown twice", "graphs/flow.py", "order[max(top, len(order) - counts[1]) :]", "order[max(0, len(order) - counts[1]) :]", ("tests/graphs/test_flow.py", "-k", "pruning")),
    Mutant("flow: the text's pruning is the program's", "graphs/flow.py", "return largest(coefficients.abs(), sum(counts))", "return ends(coefficients * norms, counts)", ("tests/graphs/test_flow.py", "-k", "pruning_of_the_text")),
    Mutant("flow: smallest heads are shown", "graphs/flow.py", "return sizes.topk(min(count, len(sizes))).indices", "return (-sizes).topk(min(count, len(sizes))).indices", ("tests/graphs/test_flow.py", "-k", "pruning")),
    Mutant("memories: ties go to the later sequence", "memories/triggers.py", '(joined["position"], joined["sequence"], -joined', '(joined["position"], -joined["sequence"], -joined', ("tests/memories/test_triggers.py",)),
    Mutant("memories: special tokens in the mean", "memories/triggers.py", ".cpu().numpy()[positions]", ".cpu().numpy()", ("tests/memories/test_causes.py",)),
    # Page data.
    Mutant("page: colours of a figure", "views/figures.py", ".max(initial=0.0)) or 1.0", ".max(initial=0.0) / 2) or 1.0", ("tests/unit/test_maps.py", "-k", "figure")),
    Mutant("page: the sign of a removal in a figure", "views/figures.py", "number > 0 if removal else number < 0", "number < 0", ("tests/page/test_truth.py", "-k", "in_every_map")),
    Mutant("page: the remainder of named positions", "views/shares.py", "remaining = (targets - shares.values.sum(dim=-1))", "remaining = (0 * targets - shares.values.sum(dim=-1))", ("tests/page/test_truth.py", "-k", "others_sum")),
    Mutant("page: the part of a circuit", "graphs/circuit.py", "kept = self.kept * (float(sizes.sum()) / total) if total else self.kept", "kept = 1.0", ("tests/page/test_truth.py", "-k", "part_of_the_sizes")),
    Mutant("page: differences are not folded", "page/numbers.py", "return np.where(wrapped < 0, -2 * wrapped - 1, 2 * wrapped)", "return np.where(wrapped < 0, -2 * wrapped, 2 * wrapped)", ("tests/page/test_payload.py",)),
    Mutant("page: stated precision", "page/numbers.py", "float(np.expm1(steps.max(initial=0.0) / 2))", "float(np.expm1(steps.max(initial=0.0) / 4))", ("tests/page/test_payload.py",)),
    Mutant("page: what a step changed is not drawn", "page/assets/logit.js", "biographyOf(scene, selection.refRun, selection.ref)", "biographyOf(scene, selection.run, selection.scope)", ("tests/page/test_overview.py", "-k", "without_a_target")),
    Mutant("page: own shares of another row", "page/assets/scene.js", "return ownShares(reduced.axes, raw, scene.hidden)[reduced.row];", "return ownShares(reduced.axes, raw, scene.hidden)[0] / 2;", ("tests/page/test_overview.py", "-k", "without_a_target")),
    Mutant("page: measured by place in the table", "page/assets/tables.js", "values = values[numbers.indexOf(place[axis])];", "values = values[numbers.length ? place[axis] : 0];", ("tests/page/test_overview.py", "-k", "own_component")),
    Mutant("page: a removal has the colour of the other sign", "page/assets/colours.js", 'return value > 0 ? "loss" : "gain"', 'return value < 0 ? "loss" : "gain"', ("tests/page/test_truth.py", "-k", "on_the_page")),
    Mutant("page: cells and bands have the colour of the other sign", "page/assets/colours.js", 'scale === "signed" ? (value < 0 ? "loss" : "gain")', 'scale === "signed" ? (value > 0 ? "loss" : "gain")', ("tests/page/test_browser.py", "tests/page/test_overview.py", "tests/page/test_logit_view.py")),
    Mutant("page: arcs have the colour of the other sign", "page/assets/overview_view.js", 'const ink = palette[arc.share < 0 ? "loss" : "gain"];', 'const ink = palette[arc.share > 0 ? "loss" : "gain"];', ("tests/page/test_overview.py", "-k", "arc_runs")),
    Mutant("page: what a step added is drawn as taken", "page/assets/overview_view.js", 'band(most, palette[share > kept ? "gain" : "loss"])', 'band(most, palette[share > kept ? "loss" : "gain"])', ("tests/page/test_overview.py", "-k", "band_is")),
    Mutant("page: a tooltip's change is before less after", "page/assets/overview_view.js", "formatChange(share - before[row][column], asShare)", "formatChange(before[row][column] - share, asShare)", ("tests/page/test_overview.py", "-k", "band_is")),
    Mutant("page: the difference is before less after", "page/assets/scene.js", "minus(after.cells, before.cells)", "minus(before.cells, after.cells)", ("tests/page/test_scripts.py", "tests/page/test_selection.py", "tests/page/test_browser.py")),
    Mutant("page: whiskers have their ends swapped", "page/assets/overview_view.js", "const [low, high] = ends.map((of) => of[row][column]);", "const [high, low] = ends.map((of) => of[row][column]);", ("tests/page/test_overview.py", "-k", "whisker")),
    Mutant("page: whiskers are those of another layer", "page/assets/overview_view.js", "const [low, high] = ends.map((of) => of[row][column]);", "const [low, high] = ends.map((of) => of[0][column]);", ("tests/page/test_overview.py", "-k", "whisker")),
    Mutant("page: bands stand one column to the right", "page/assets/overview_view.js", "const middle = frame.left + (column - first + 0.5) * frame.cell.width;\n      const band", "const middle = frame.left + (column - first + 1.5) * frame.cell.width;\n      const band", ("tests/page/test_overview.py", "-k", "band_is")),
    Mutant("page: a click in a zoomed overview takes another column", "page/assets/overview_view.js", "column: scene.window[2] + Math.floor((x - frame.left) / frame.cell.width)", "column: Math.floor((x - frame.left) / frame.cell.width)", ("tests/page/test_overview.py", "-k", "band_is")),
    Mutant("page: arcs run the other way", "page/assets/overview_view.js", "const [x, end] = [middle(arc.from), middle(arc.to)];", "const [x, end] = [middle(arc.to), middle(arc.from)];", ("tests/page/test_overview.py", "-k", "arc_runs")),
    Mutant("page: arcs take heads for layers", "page/assets/logit.js", 'const [layer, head] = place.split(",").map(Number);', 'const [head, layer] = place.split(",").map(Number);', ("tests/page/test_overview.py", "-k", "arc_runs")),
    Mutant("page: changes stand beside another layer", "page/assets/overview_view.js", "flat[stream.layers.indexOf(layer) * changes.length + column]", "flat[(scene.data.layers.length - 1 - index) * changes.length + column]", ("tests/page/test_overview.py", "-k", "changes_stand")),
    Mutant("page: neurons stand at another layer", "page/assets/overview_view.js", "const y = top + (layer + 0.5) * cell.height;\n    const line", "const y = top + (layer + 1.5) * cell.height;\n    const line", ("tests/page/test_overview.py", "-k", "arc_runs")),
    Mutant("page: a link restores the first layer", "page/assets/selection.js", "if (FIELDS[field](data, value)) selection[field] = value;", 'if (FIELDS[field](data, value)) selection[field] = field === "layer" ? data.layers[0] : value;', ("tests/page/test_selection.py", "tests/page/test_state.py")),
    Mutant("page: shares of the layer before", "page/assets/logit.js", "return logitColumns(scene, block.residual[rowOf(block, layer)] || []);", "return logitColumns(scene, block.residual[Math.max(0, rowOf(block, layer) - 1)] || []);", ("tests/page/test_logit_view.py",)),
    Mutant("page: the sum of another layer", "page/assets/logit.js", "const flowing = block.residual[rowOf(block, layer)].reduce", "const flowing = block.residual[0].reduce", ("tests/page/test_logit_view.py",)),
    Mutant("page: a head that is pointed at is its neighbour", "page/assets/overview_view.js", "head: Math.floor((x - headFrame.left) / headFrame.cell.width)", "head: Math.ceil((x - headFrame.left) / headFrame.cell.width)", ("tests/page/test_overview.py", "-k", "arc_runs")),
    Mutant("page: a part of more than the whole", "page/assets/logit.js", "Math.abs(share) > Math.abs(block.value) || block.value === 0", "block.value === 0", ("tests/page/test_logit_view.py", "-k", "above_100")),
    Mutant("page: a drag chooses a node", "page/assets/graph_lens.js", "if (!now.dragged) go(nodeChange", "if (true) go(nodeChange", ("tests/page/test_graph_page.py", "-k", "whole_graph")),
    Mutant("page: a graph opens in its own size", "page/assets/graph_layout.js", "map((part) => Math.min(1, part))", "map(() => 1)", ("tests/page/test_graph_page.py", "-k", "whole_graph")),
    Mutant("page: heads of another position", "page/assets/logit.js", "numbers[members[0]]", "numbers[0]", ("tests/page/test_measured.py", "-k", "read_in_the")),
    Mutant("page: the first head as the largest", "views/shares.py", "return values.gather(1, at)[:, 0]", "return values[:, 0]", ("tests/page/test_measured.py", "-k", "heads_alone")),
    Mutant("page: a sum of direct contributions without its layer", "views/shares.py", "result.residual[:-1].sum(dim=1)", "result.residual[1:].sum(dim=1)", ("tests/page/test_measured.py", "-k", "other_measured")),
    Mutant("page: the target of a patch from the other run", "views/shares.py", 'before = "clean" if result.direction == "noising" or done == "ablated" else "corrupted"', 'before = "clean"', ("tests/page/test_measured.py", "-k", "every_kind")),
    Mutant("page: later tokens are open", "page/assets/logit.js", 'if (selection.read === "row") return !axes.reaches(scene.row, column);', 'if (selection.read === "row") return false;', ("tests/page/test_overview.py", "-k", "hatched")),
    Mutant("page: the chosen token of a continuation is open", "page/assets/logit.js", "axes.columns[column].position >= block.position", "axes.columns[column].position > block.position", ("tests/page/test_shares.py", "-k", "continuation")),
    Mutant("page: words of bands over cells", "page/assets/overview_view.js", "columnsPlace(scene, scene.width).wide >= STREAM.banded", "columnsPlace(scene, scene.width).wide > 0", ("tests/page/test_overview.py", "-k", "words_are")),
    Mutant("page: widths of words on the screen in files", "page/assets/figure.js", "width: figureWidths(bench, size)[1] - 16", "width: bench.width", ("tests/page/test_overview.py", "-k", "words_are")),
    Mutant("page: numbers have the scale of the first layer", "page/assets/numbers.js", "Math.exp(packed.low[layer] +", "Math.exp(packed.low[0] +", ("tests/page/test_payload.py", "tests/page/test_scripts.py")),
    Mutant("page: the sentence's ground is what was before", "page/assets/sentence.js", "colourChip(node, shadeAt(profiles.length - 1), profiles.length > 1 && shadeAt(0));", "colourChip(node, shadeAt(0), profiles.length > 1 && shadeAt(profiles.length - 1));", ("tests/page/test_overview.py", "-k", "band_is")),
    Mutant("page: measured of another text", "views/shares.py", "tuple(labels) == tuple(maps.tokens)", "len(labels) == len(maps.tokens)", ("tests/page/test_overview.py", "-k", "another_text")),
    Mutant("page: opens at the smallest change", "views/maps.py", "first.layers[int(sizes.argmax())]", "first.layers[int(sizes.argmin())]", ("tests/page/test_document.py", "tests/page/test_payload.py", "tests/page/test_token_maps.py")),
    # Batches, padding, caches.
    Mutant("texts: a second BOS", "bridge/inputs.py", "first = [] if inner[: len(first)] == first else first", "first = [*first]", ("tests/integration/test_texts.py", "-k", "tokenizers_own")),
    Mutant("texts: settings that lose a word are read", "bridge/inputs.py", "bool(getattr(cfg, name, truth)) is not truth", "name is None", ("tests/integration/test_texts.py", "-k", "set_late")),
    Mutant("texts: labels without their space", "bridge/inputs.py", '" " * (len(piece) - len(piece.lstrip(SPACE_MARK))) + text.lstrip(" ")', "text", ("tests/integration/test_texts.py", "-k", "labels_join")),
    Mutant("batches: lengthened tokens count", "bridge/inputs.py", "return torch.arange(self.lengths[index])", "return torch.arange(self.tokens.shape[1])", ("tests/unit/test_batching.py", "tests/integration/test_inputs.py", "-k", "texts or batch")),
    Mutant("batches: padding of an encoder is seen", "bridge/inputs.py", "return replace(padded(model, sequences), numbers", "return replace(padded(model, sequences), mask=None, numbers", ("tests/corpus/test_runs.py", "-k", "numbers_of_single and bert")),
    Mutant("batches: records of one layer are counted", "bridge/memory.py", "+ (model.n_layers - 1) * shapes.record", "", ("tests/integration/test_memory.py", "-k", "observed")),
    Mutant("batches: rows in another order", "bridge/inputs.py", "enumerate(self.ascending)}", "enumerate(self.ascending[::-1])}", ("tests/integration/test_laws.py", "-k", "selections and gpt2")),
    Mutant("batches: a table of two batches", "contributions.py", "self._held[numbers][key][:, numbers.index(number)][own][rows]", "self._held[numbers][key][:, 0][own][rows]", ("tests/unit/test_batching.py",)),
    Mutant("batches: a prompt with the padding of others", "contributions.py", "(slice(min(sizes)) for sizes", "(slice(max(sizes)) for sizes", ("tests/integration/test_laws.py", "-k", "unequal_lengths_with")),
    Mutant("device: products of another device", "layer/fast/buffers.py", "wanted = (w_o.shape[:2], w.dtype, w.device)", "wanted = (w_o.shape[:2], w.dtype, w.device if kept is None else kept[0].device)", ("tests/integration/test_kernels.py", "-k", "gpt2")),
    Mutant("device: a wait per table of every layer", "contributions.py", 'held[-1].device.type == "cpu" or', 'held[-1].device.type != "" or', ("tests/integration/test_kernels.py", "-k", "waits")),
    Mutant("device: pairs of another token get the residual", "layer/fast/head_sums.py", "queries.append(sequence * self.n_queries + row)", "queries.append(sequence * self.n_queries)", ("tests/unit/test_worked_example.py",)),
    Mutant("identity: NaN in a checked layer", "bridge/selfcheck.py", "if all(map(math.isfinite, sums)) and error == 0:", "if error == 0:", ("tests/integration/test_bad_input.py", "-k", "later_run")),
    Mutant("caches: products of changed weights", "layer/fast/buffers.py", "bool((first == second).all())", "True", ("tests/unit/test_optimised_layer.py", "-k", "product")),
    Mutant("caches: keys and values of another start", "bridge/edited.py", "self._prefix[0] != start or", "", ("tests/interventions/test_edits.py", "-k", "resumed",)),
    # Which model, tokens and hooks a result is of.
    Mutant("identity: means of two models", "results/intervals.py", "if value in UNKNOWN else known", "if value in UNKNOWN or name == 'fingerprint' else known", ("tests/integration/test_identity.py",)),
    Mutant("identity: means of two rules", "results/intervals.py", '("fingerprint", "rules", "method", "value_bias", "precision")', '("fingerprint", "method", "value_bias", "precision")', ("tests/integration/test_identity.py",)),
    Mutant("identity: buffers alone are digested", "bridge/offloaded.py", "(*module._parameters.items(), *(", "(*(), *(", ("tests/integration/test_identity.py",)),
    Mutant("identity: a bridge's copy runs the bridge", "bridge/hugging_face.py", 'copy.__dict__["forward"] = partial(runs.func, copy)', "pass", ("tests/families/test_offloaded.py", "-k", "own_modules")),
    Mutant("identity: scales are not digested", "bridge/linears.py", "for name in tensor.__tensor_flatten__()[0]:", "for name in tensor.__tensor_flatten__()[0][:1]:", ("tests/families/test_offloaded.py", "-k", "a_scale"), survives="the answer of every quantised linear layer to an input is digested, too"),
    Mutant("identity: edits of files are not seen", "bridge/model.py", "*map(tuple, norms), stamps", "*map(tuple, norms)", ("tests/families/test_offloaded.py", "-k", "edit")),
    Mutant("offloaded: weights stay loaded", "bridge/offloaded.py", "stack.callback(hook.post_forward, module, None)", "stack.callback(dict)", ("tests/families/test_offloaded.py", "-k", "whole_model and llama")),
    Mutant("quantised: rounded inputs pass", "bridge/linears.py", "if error > _INPUT_ROUNDED.get(like.dtype, _HALF):", "if error > 1:", ("tests/families/test_offloaded.py", "-k", "rounds_its_inputs")),
    Mutant("prompts: a function of one's own is known by its name", "corpus/prompts.py", "return source.encode() + _digest([*held,", "return source.encode() + _digest([", ("tests/corpus/test_prompts.py", "-k", "own")),
    Mutant("prompts: failures are left out", "corpus/prompts.py", "    if problems:\n        said", "    if len(problems) > 99:\n        said", ("tests/corpus/test_prompts.py", "-k", "fail")),
    Mutant("prompts: other prompts are taken for the same", "corpus/prompts.py", "if n > len(self.prompts) or self._digest_of_first(n) != digest:", "if n > len(self.prompts):", ("tests/corpus/test_prompts.py", "-k", "another_call")),
    Mutant("identity: adapters are not digested", "bridge/model.py", "if adapted else digest", "if () else digest", ("tests/families/test_adapters.py",)),
    Mutant("identity: caches of other tokens", "bridge/capture.py", "    if not same:", "    if False:", ("tests/integration/test_identity.py",)),
    Mutant("identity: caches of changed weights", "bridge/capture.py", "return any(error <= rtol for error in errors)", "return any(error <= 0.05 for error in errors)", ("tests/integration/test_identity.py",)),
    Mutant("identity: records of changed weights", "bridge/capture.py", "if records.model.fingerprint != model.fingerprint:", "if False:", ("tests/integration/test_identity.py",)),
    Mutant("identity: edited runs without hooks", "interventions/contributions.py", "[*self._fwd_hooks, *hooks]", "[*hooks]", ("tests/integration/test_identity.py",)),
    Mutant("identity: hooks that were added", "interventions/contributions.py", "if self.model.callbacks() != self._callbacks and", "if False and", ("tests/integration/test_identity.py",)),
    Mutant("identity: donors of another kind", "interventions/contributions.py", "        if mine != theirs:", "        if False:", ("tests/integration/test_identity.py",)),
    Mutant("identity: hooks in a batch of one", "interventions/contributions.py", "        prompt = self._prompts[0]\n", "        prompt = self._prompts[0]._replace(batch=self._prompts[0].batch[[self._prompts[0].row]], row=0)\n", ("tests/integration/test_identity.py",)),
    Mutant("memory: binary units are decimal", "numerals.py", '"Gi": 2**30', '"Gi": 10**9', ("tests/integration/test_memory.py", "-k", "units")),
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
            if mutant.file.endswith(".js"):
                _join_scripts(copy)
        start = time.monotonic()
        status = _pytest(copy, mutant.tests)
        os.chdir(ROOT)
    word = {0: "survived", 1: "killed"}.get(status, f"status {status}")
    return word, time.monotonic() - start


def _join_scripts(copy: Path) -> None:
    """Builds the page's script anew from the modules of a copy, which tests in a browser read.

    Raises:
        FileNotFoundError: if Node, or what `npm ci` installs, is not there.
    """
    (copy / "node_modules").symlink_to((ROOT / "node_modules").resolve(strict=True))
    subprocess.run(["node", "tests/page/bundle.mjs"], cwd=copy, check=True)


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
