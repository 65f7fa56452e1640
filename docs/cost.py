"""The blocks on cost, from the runs stored as JSON beside this file, one for each script of benchmarks/."""

import json
from pathlib import Path
from typing import Any

from docs.markdown import claim, number, table
from tl_ffblock.numerals import scientific

STORED = Path(__file__).resolve().parent / "speed.json"
MODELS = {
    "GPT-2 small": "GPT-2 small in size: 12 layers, d_model 768",
    "minilm": "MiniLM: 6 layers, d_model 384",
    "smollm2": "SmolLM2-135M-Instruct: 30 layers, d_model 576, gated",
}
"""Models of the stored run that the table of whole models shows, by the run's names."""


def _on_one_thread(results: dict[str, Any], kind: str) -> dict[tuple[str, int], dict[str, float]]:
    return {(row[kind], row["n"]): row for row in results[kind] if row["threads"] == 1}


def _seconds(milliseconds: float) -> str:
    seconds = milliseconds / 1e3
    return f"{seconds:.1f} s" if seconds < 2 else f"{seconds:.0f} s"


def cost() -> str:
    """Times of whole models, then what one layer takes beside its one product, every vector, and captum."""
    results = json.loads(STORED.read_text())
    models, layers = _on_one_thread(results, "model"), _on_one_thread(results, "layer")
    rows = [
        (title, str(n), f"{models[name, n]['forward_ms'] / 1e3:.1f} s", _seconds(models[name, n]["ours_ms"]))
        for name, title in MODELS.items()
        for model, n in models
        if model == name
    ]
    short, long = layers["GPT-2 small", 128], layers["GPT-2 small", 512]
    times = [f"{row['ours_ms'] / row['bound_ms']:.1f} times" for row in (short, long)]
    sentence = (
        f"A GPT-2-small layer takes {times[0]} as long as its one large matrix product at 128 tokens and {times[1]} at 512. "
        f"At 128 tokens, making every vector takes {short['naive_over_ours']:.0f} times as long as that layer's maps. Captum used well "
        f"with the paper's 50 nodes takes {short['captum_well_over_ours']:.0f} times as long, and with batches tuned by hand "
        f"{short['captum_tuned_over_ours']:.0f} times."
    )
    return f"{table(('model', 'tokens', 'forward pass', 'maps'), rows)}\n\n{sentence}"


PROMPTS = STORED.with_name("prompts.json")
"""The run of benchmarks/prompts.py."""
WAYS = ("all rows", "last row", "one prompt alone", "a loop over prompts", "every vector made", "captum")
"""Its figures, all in forward passes."""
PROMPT_MODELS = {"smollm2": "SmolLM2-135M-Instruct", "gpt2": "GPT-2 small in size, random weights"}


def prompts() -> str:
    """What short prompts cost, in forward passes, with the least and most of the rounds where there are any."""
    results = json.loads(PROMPTS.read_text())
    models = results["models"]

    def cell(way: str, figures: dict[str, Any]) -> str:
        if way not in figures:
            return "not run"
        if way not in figures["least_and_most"]:
            return f"{figures[way]:.0f}"
        least, most = figures["least_and_most"][way]
        return f"{figures[way]:.1f} ({least:.1f} to {most:.1f})"

    rows = [(way, *(cell(way, figures) for figures in models.values())) for way in WAYS]
    head = ("in forward passes", *(PROMPT_MODELS[name] for name in models))
    lengths = " to ".join(str(length) for length in next(iter(models.values()))["lengths"])
    where = (
        f"100 prompts of {lengths} tokens, one thread, {results['rounds']} rounds; {results['machine']} ({results['flags']}), "
        f"torch {results['torch']}, {results['date']}."
    )
    return f"{where}\n\n{table(head, rows)}"


CORPUS_MODELS = PROMPT_MODELS | {"minilm": "MiniLM"}
CORPORA = {"sst2": "SST-2 (dev)", "blimp": "BLiMP, a sentence of each paradigm in turn"}


def corpus() -> str:
    """What default batches of a corpus run take, by what single texts do."""
    stored = json.loads(PROMPTS.read_text())["corpus"]
    sizes = tuple(stored["rows"][0]["of_shards"])
    rows = [
        (
            CORPUS_MODELS[row["model"]],
            CORPORA[row["data"]],
            f"{row['tokens']:.0f}",
            *("{:.2f} ({:.2f} to {:.2f})".format(*row["of_shards"][size]) for size in sizes),
        )
        for row in stored["rows"]
    ]
    where = (
        f"First {stored['texts']} texts, one thread, {stored['rounds']} rounds; {stored['machine']} ({stored['flags']}), torch "
        f"{stored['torch']}, {stored['date']}."
    )
    return f"{where}\n\n{table(('model', 'texts', 'tokens of a text, mean', *(f'shards of {size}' for size in sizes)), rows)}"


ATTRIBUTION = STORED.with_name("attribution.json")
"""The run of benchmarks/propagation.py."""


def attribution() -> str:
    """What an attribution costs, in forward passes and memory."""
    stored = json.loads(ATTRIBUTION.read_text())
    ways = tuple(stored["rows"][0]["passes"])
    cells = [
        (str(row["tokens"]), f"{row['forward_s']:.2f}", *(f"{row['passes'][way]:.1f}" for way in ways))
        for row in stored["rows"]
    ]
    peaks = ("activations", "training step", "tokens", "tokens, run again", "all", "all, run again")
    of_memory = [(str(row["tokens"]), *(f"{row[f'{name}_mb']:.0f}" for name in peaks)) for row in stored["memory"]]
    head = ("length", "a training step's activations, MB", "the whole step", *peaks[2:])
    ratios = {name: [row[f"{name}_mb"] / row["activations_mb"] for row in stored["memory"]] for name in peaks[2:]}
    told = ", ".join(f'"{name}" {min(of):.1f} to {max(of):.1f}' for name, of in ratios.items())
    (once,) = stored["run again"]
    passes = f"{once['passes']['run again']:.1f} forward passes instead of {once['passes']['kept']:.1f}"
    said = f"In times of the activations: {told}. With layers run again, tokens of {once['tokens']} took {passes} (SmolLM2-135M)."
    return f"{table(('length', 'forward pass, CPU s', *ways), cells)}\n\n{table(head, of_memory)}\n\n{said}"


PAGE = STORED.with_name("page.json")
"""The run of benchmarks/page.py."""
GOALS = {"first": 500, "megabytes": 3.0, "selection": 50}
"""Of 128 tokens by 30 layers: milliseconds to the first picture, size, milliseconds to a selection's."""


def page() -> str:
    """Sizes and times of pages of maps, and what is met of the goals."""
    results = json.loads(PAGE.read_text())
    names = ("first", "layer", "step", "token")
    rows = [
        (
            f"{row['tokens']} x {row['layers']}",
            f"{row['megabytes']:.1f} MB",
            *(f"{row[f'{name}_ms']:.0f} ms" for name in names),
            f"{row['png_ms']:.0f} ms",
        )
        for row in results["pages"]
    ]
    head = ("tokens x layers", "page", "first picture", "another layer", "another step", "another token", "PNG")
    large = next(row for row in results["pages"] if (row["tokens"], row["layers"]) == (128, 30))

    def verdict(what: str, value: float, goal: float, unit: str) -> str:
        return f"{what} {value:.{1 if unit == 'MB' else 0}f} {unit}, {'met' if value <= goal else 'missed'} (goal {goal:.0f} {unit})"

    said = "; ".join(
        (
            verdict("size", large["megabytes"], GOALS["megabytes"], "MB"),
            verdict("first picture", large["first_ms"], GOALS["first"], "ms"),
            *(verdict(f"another {name}", large[f"{name}_ms"], GOALS["selection"], "ms") for name in names[1:]),
        )
    )
    where = f"Chromium {results['chromium']}, headless, no GPU; medians of {results['repeats']}; {results['machine']}, {results['date']}."
    return f"{where}\n\n{table(head, rows)}\n\nOf 128 tokens by 30 layers: {said}."


GPU = STORED.with_name("gpu.json")
"""The run of benchmarks/gpu.py."""


def gpu() -> str:
    """Times on a GPU, and how many times longer the CPU beside it takes."""
    results = json.loads(GPU.read_text())

    def milliseconds(row: dict[str, Any], name: str) -> str:
        return f"{row[f'{name}_ms']:.0f} ms" if f"{name}_ms" in row else "not run"

    rows = [
        (
            row["model"],
            f"{row['prompts']} x {row['n']}",
            *(milliseconds(row, name) for name in ("forward", "maps", "last_row", "attribution")),
            f"{row['cpu_over_gpu']:.0f}x" if "cpu_over_gpu" in row else "not run",
            f"{row['peak_gb']:.1f} GB",
            scientific(row["completeness"], 1),
        )
        for row in results["rows"]
    ]
    head = ("model", "prompts x tokens", "forward pass", "maps", "last row", "attribution", "maps on the CPU", "memory")
    where = (
        f"{results['gpu']}, CPU {results['machine']} ({results['cpu_threads']} threads); torch {results['torch']}, "
        f"{results['date']}."
    )
    return f"{where}\n\n{table((*head, 'completeness error'), rows)}"


BOUND = STORED.with_name("bound.json")
"""The run of benchmarks/bound.py."""


def _with_quartiles(figures: dict[str, float], digits: int) -> str:
    return "{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})".format(**figures, digits=digits)


def bound() -> str:
    """Shares of the bound on a machine of its own, and what the whole call takes beside its layers."""
    results = json.loads(BOUND.read_text())
    rows = [
        (row["layer"], str(row["n"]), f"{row['gflops']:.0f}", _with_quartiles(row["share"], 2))
        for row in results["layers"]
    ]
    call = results["call"]
    where = (
        f"{results['machine']} ({results['flags']}), one thread, {results['repeats']} repetitions, median and quartiles; "
        f"torch {results['torch']}, {results['date']}."
    )
    sentence = (
        "The whole call on twelve layers of GPT-2-small size with a vocabulary of 1000, "
        f"at {call['n']} tokens ({call['rounds']} rounds):"
    )
    of_call = [
        ("twelve products, as a share of the call", _with_quartiles(call["share"], 2)),
        ("call, in times of its twelve layers alone", _with_quartiles(call["call_over_layers"], 2)),
        ("call, in forward passes", _with_quartiles(call["call_in_forwards"], 1)),
        ("twelve products, in forward passes", _with_quartiles(call["bound_in_forwards"], 1)),
        ("forward pass, as a share of the twelve products", _with_quartiles(call["forward_over_bound"], 2)),
    ]
    tables = (
        table(("layer", "tokens", "product, GFLOP/s", "share of the bound"), rows),
        table(("ratio", "value"), of_call),
    )
    return f"{where}\n\n{tables[0]}\n\n{sentence}\n\n{tables[1]}"


LARGE = STORED.with_name("large.json")
"""The run of benchmarks/large.py."""


def large() -> str:
    """What calls of a model of more than a billion parameters take on a CPU; those that the stored run has."""
    results = json.loads(LARGE.read_text())
    rows = [
        (
            name,
            f"{of['cpu_seconds']:.0f} s",
            f"{of['peak_gb']:.1f} GB",
            f"{of['over_gb']:.1f} GB",
            f"{of['machine'].partition(',')[0]}, {of['threads']}",
        )
        for name, of in results["calls"].items()
    ]
    torch, date = (", ".join(sorted({of[entry] for of in results["calls"].values()})) for entry in ("torch", "date"))
    where = (
        f"A Llama of {results['parameters'] / 1e9:.2f} billion parameters ({results['layers']} layers) in bfloat16, "
        f"{results['weights_gb']:.1f} GB of weights, {results['tokens']} tokens. The layer with experts has the size of one of gpt-oss-20b "
        f"(bfloat16, {results['experts_gb']:.1f} GB). torch {torch}, {date}."
    )
    head = ("call", "CPU time", "peak memory", "over the memory before the call", "processor, threads")
    return f"{where}\n\n{table(head, rows)}"


CHECKS = STORED.with_name("checks.json")
"""The run of benchmarks/checks.py."""


def checks() -> str:
    """The part of the operations of calls that their checks take, counted in both ways, and what a first call adds."""
    results = json.loads(CHECKS.read_text())
    rows, parts = [], []
    for row in results["rows"]:
        whole, bare, first = row["whole"], row["bare"], row["first"]
        part = {kind: 1 - bare[kind] / whole[kind] for kind in ("flops", "calls")}
        parts.append(part)
        more = (first["flops"] - whole["flops"]) / 1e9
        figures = (f"{whole['flops'] / 1e9:.1f}", f"{part['flops']:.2%}", str(whole["calls"]), f"{part['calls']:.0%}")
        rows.append((MODELS[row["model"]].split(":")[0], str(row["n"]), row["made"], *figures, f"{more:.1f}"))
    headings = ("GFLOP", "of checks", "operations of torch", "of checks", "GFLOP more of a first call")
    most, (low, *_, high) = max(part["flops"] for part in parts), sorted(part["calls"] for part in parts)
    least_read, *_, most_read = sorted(row["fingerprint_over_call"] for row in results["rows"])
    sentence = (
        f"Checks take at most {most:.2%} of the floating-point operations of a call. They are {low:.0%} to {high:.0%} of the operations "
        "that torch dispatches, whatever their size: sums and comparisons of few numbers. The fingerprint of the weights is not an "
        f"operation of torch. It reads every weight once, in {least_read:.1%} to {most_read:.1%} of the CPU seconds of these calls. "
        "A model's first call also compares it with Hugging Face's and checks every layer's identities. For maps it multiplies "
        f"weights once. torch {results['torch']}, {results['date']}."
    )
    return f"{table(('model', 'tokens', 'call', *headings), rows)}\n\n{sentence}"


KERNELS = STORED.with_name("kernels.json")
"""The run of benchmarks/kernel_counts.py."""


def kernels() -> str:
    """Kernels, waits and bytes that come back, beside those of the version before they were counted."""
    results = json.loads(KERNELS.read_text())
    before = {(row["call"], row["n"]): row for row in results["before"]}

    def figures(row: dict[str, Any]) -> tuple[str, ...]:
        per_layer, forwards = row["kernels"] / results["layers"], row["kernels"] / row["forward"]
        return (
            f"{row['kernels']} ({per_layer:.0f}; {forwards:.1f})",
            str(row["waits"]),
            f"{row['bytes_to_host'] / 1e6:.1f} MB",
        )

    rows = []
    for row in sorted(results["rows"], key=lambda row: (row["call"], row["n"])):
        was = before.get((row["call"], row["n"]))
        then = ("-",) * 3 if was is None or row["call"] == "gradient x input" else figures(was)
        rows.append((row["call"], str(row["n"]), *figures(row), *then))
    headings = ("kernels (per layer; in forward passes)", "waits", "copied back")
    where = f"{results['layers']} layers of GPT-2-small size, second calls; torch {results['torch']}."
    return f"{where}\n\n{table(('call', 'tokens', *headings, *(f'{name}, before' for name in headings)), rows)}"


PATCHING = STORED.with_name("patching.json")
"""The run of benchmarks/patching.py."""


def patching() -> str:
    """What sweeps take beside TransformerLens alone, and how far the numbers differ."""
    results = json.loads(PATCHING.read_text())
    rows = [
        (
            row["sweep"],
            str(row["runs"]),
            f"{row['ours_s']:.0f} s",
            f"{row['theirs_s']:.0f} s",
            f"{row['ratios'][len(row['ratios']) // 2]:.1f} ({row['ratios'][0]:.1f} to {row['ratios'][-1]:.1f})",
            scientific(row["difference"], 1),
        )
        for row in results["rows"]
    ]
    where = (
        f"SmolLM2-135M-Instruct, {results['tokens']} tokens, one thread, CPU seconds, {results['rounds']} rounds, ratios within a "
        f"round (least and most); a forward pass takes {results['forward_s']:.2f} s; "
        f"{results['machine']}, torch {results['torch']}, {results['date']}."
    )
    head = (
        "sweep",
        "runs",
        "ours, checks included",
        "TransformerLens",
        "ratio",
        "largest difference / largest effect",
    )
    return f"{where}\n\n{table(head, rows)}"


NOTEBOOKS = STORED.with_name("notebooks.json")
"""The run of benchmarks/notebooks.py."""


def notebooks() -> str:
    """What tasks take beside plain TransformerLens, and how far the numbers differ."""
    results = json.loads(NOTEBOOKS.read_text())
    rows = [
        (
            row["task"],
            f"{row['ours_s']:.2f} s",
            f"{row['theirs_s']:.2f} s",
            f"{row['ratios'][len(row['ratios']) // 2]:.2f} ({row['ratios'][0]:.2f} to {row['ratios'][-1]:.2f})",
            scientific(row["difference"], 1) if row["difference"] else "0",
        )
        for row in results["rows"]
    ]
    where = (
        f"SmolLM2-135M-Instruct, one thread, CPU seconds, {results['rounds']} rounds, ratios within a round (least and most); "
        f"{results['machine']}, torch {results['torch']}, {results['date']}."
    )
    head = ("task", "ours, checks included", "plain", "ours / plain", "largest difference / largest number")
    return f"{where}\n\n{table(head, rows)}"


ESTIMATES = STORED.with_name("estimates.json")
"""The run of benchmarks/estimates.py."""


def estimates() -> str:
    """Pearson's r of estimates with true patching, by kind of component."""
    kinds = json.loads(ESTIMATES.read_text())["kinds"]
    ways = [way for way in next(iter(kinds.values())) if way != "n"]
    rows = [[f'"{kind}"', str(row["n"]), *(f"{row[way]:.3f}" for way in ways)] for kind, row in kinds.items()]
    gain = {kind: row["patching, 5 steps"] - row["patching"] for kind, row in kinds.items()}
    said = claim(
        "With 5 steps the estimates of the residual stream and of feed-forwards improve by much, those of keys by little. Heads, queries, "
        "values and attention outputs get worse.",
        min(gain[kind] for kind in ("residual", "residual_mid", "mlp")) > 0.3,
        0 < gain["k"] < 0.01,
        max(gain[kind] for kind in ("head", "q", "v", "attention")) < 0,
    )
    return f"{table(('kind', 'patches', *ways), rows)}\n\n{said}"


ASKS = {
    "attribution_patching, gradient": 'what changes when the head is patched? An estimate with `rules="gradient"` (the plain gradient)',
    "attribution_patching, patching": 'the same question, with `rules="patching"` (the default of this call: norm scales fixed, '
    "Integrated Gradients instead of the derivative of an activation function)",
    "attribute": "how much of the logit passes through the head, directly or by way of later layers?",
    "direct_logit_attribution": "how much of the logit does the head write directly?",
    "contribution_maps": "how long are the vectors that the head adds at the last position, without those of the first token?",
}
"""The question that a call answers for a head."""


def heads() -> str:
    """Correlations of each call's number of a head with measured patching."""
    stored = json.loads(ESTIMATES.read_text())
    found = stored["heads"]["correlations"]
    rows = [
        [
            f"`ffb.{way.partition(',')[0]}`",
            ASKS[way],
            *([f"{found[way][kind]:.2f}" for kind in ("pearson", "spearman")]),
        ]
        for way in ASKS
        if way != "contribution_maps"
    ]
    said = (
        f"Each of the {stored['kinds']['head']['n']} heads of {stored['model']} was patched: its output for the prompt above was "
        f'replaced by its output for "{stored["corrupted"]}". The table gives the correlation, over heads, between the '
        "values of each call and the measured fall of the logit difference. A fall counts as positive, also in the estimates of "
        "`attribution_patching`, whose sign is reversed for this."
    )
    return f"{said}\n\n{table(('call', 'question', 'Pearson', 'Spearman'), rows)}"


def heads_in_full() -> str:
    """Every call's number for the largest heads."""
    stored = json.loads(ESTIMATES.read_text())["heads"]
    ways = ("patching", *ASKS)
    head = ("head", "patching, measured", *(way.replace("attribution_patching,", "estimate,") for way in ways[1:]))
    rows = [
        [name, *(number(row[way], 1 if way == "contribution_maps" else 2, "+") for way in ways)]
        for name, row in sorted(stored["largest"].items(), key=lambda item: -abs(item[1]["patching"]))
    ]
    found = stored["correlations"]
    kinds = ("pearson", "spearman", "spearman of sizes")
    correlations = [[kind, "1", *(number(found[way][kind]) for way in ways[1:])] for kind in kinds]
    return table(head, rows + correlations)


def receivers() -> str:
    """What reads the heads of the circuit, by edge estimates."""
    stored = json.loads(ESTIMATES.read_text())["heads"]["receivers"]
    kinds = ("q", "k", "v", "mlp", "target")
    rows = [[head, *(number(row.get(kind, 0), 2, "+") for kind in kinds)] for head, row in stored.items()]
    return table(("head", "queries", "keys", "values", "feed-forwards", "the target"), rows)


def other_tools() -> str:
    """FlashTrace and `attribute` against masking, on the same prompts."""
    stored = json.loads(STORED.with_name("other_tools.json").read_text())
    names = {"path": '`ffb.attribute`, `rules="path"`', "FlashTrace": "FlashTrace"}
    rows = [
        [
            names[name],
            *(f"{number(row[m][0])} [{number(row[m][1])}, {number(row[m][2])}]" for m in ("correlation", "area")),
            number(row["forward_passes"], 1),
        ]
        for name, row in stored["rows"].items()
    ]
    sentence = (
        f"FlashTrace {stored['flashtrace']} and `attribute`, which explain the name after {stored['prompts']} prompts of indirect "
        "objects on SmolLM2-135M-Instruct, one template with other names; means with 95 % bootstrap intervals over prompts."
    )
    return f"{sentence}\n\n{table(('call', 'correlation with masking', 'area', 'forward passes'), rows)}"


HEADS_BLOCKS = {"heads": heads}
OTHER_TOOLS_BLOCKS = {"flashtrace": other_tools}
IOI_BLOCKS = {"heads-in-full": heads_in_full, "receivers": receivers}
BLOCKS = {"cost": cost}
PATCHING_BLOCKS = {"patching": patching}
NOTEBOOK_BLOCKS = {"notebooks": notebooks}


def memory() -> str:
    """What calls hold over a model, measured and estimated from shapes, by model form and call."""
    stored = json.loads(STORED.with_name("memory.json").read_text())
    found = stored["rows"]
    lengths = sorted({row["tokens"] for row in found})
    cells = {
        (row["form"], row["call"], row["tokens"]): f"{row['measured'] / 1e6:.0f} / {row['estimated'] / 1e6:.0f}"
        for row in found
    }
    named = dict.fromkeys((row["form"], row["call"]) for row in found)
    lines = [[*name, *(cells.get((*name, n), "not run") for n in lengths)] for name in named]
    near = [abs(row["estimated"] - row["measured"]) <= max(1e8, 0.15 * row["measured"]) for row in found]
    head = ("form", "call", *(f"{n} tokens" for n in lengths))
    sentence = (
        f"Measured / estimated, MB: peak resident memory of a fresh process over the model, and `ffb.memory_estimate`. "
        f"{sum(near)} of {len(near)} estimates are within 15 % or 100 MB. Models of {stored['layers']} layers with d_model "
        f"{stored['d_model']} and random weights, CPU; torch {stored['torch']}, {stored['date']}. No GPU was measured."
    )
    return f"{table(head, lines)}\n\n{sentence}"


PROMPT_BLOCKS = {
    "memory": memory,
    "prompts": prompts,
    "corpus": corpus,
    "page": page,
    "gpu": gpu,
    "bound": bound,
    "checks": checks,
    "kernels": kernels,
    "large": large,
}
ATTRIBUTION_BLOCKS = {"attribution": attribution, **HEADS_BLOCKS}
ESTIMATE_BLOCKS = {"estimates": estimates}
