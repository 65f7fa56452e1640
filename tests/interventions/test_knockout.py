"""Attention knockout: what is masked has no weight, and runs are those of z recomputed by hand, of HookPoints and of nothing at all."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import Case, model_of, slow_beyond
from tl_ffblock.bridge import edited
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import InputError, LayerError, UnsupportedModelError
from tl_ffblock.interventions import AttentionKnockout, attention_knockout_hooks
from tl_ffblock.metrics import logit, probability

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so
N = 7
METRIC = logit(7, minus=9)
INSIDE = (
    "opt",
    "gptj",
    "bert",
    "roberta",
    "gpt_neo",
    "xglm",
    "nanochat",
    "phimoe",
    "afmoe",
    "laguna",
    "modernbert_decoder",
    "llama4",
    "gemma4",
)
"""Hugging Face's own attention computes before HookPoints show its scores."""
QUICK = ("gpt2", "llama", "gemma2", "gpt_oss", "bert", "gptj")
FAMILIES = slow_beyond(tiny.ALL_FAMILIES, QUICK)
FLOAT32_ALONE = ("xglm",)
"""Transformers 5 runs it in no other dtype."""


def precise(family: str) -> Any:
    """A model in which a knockout and its reference differ by rounding alone."""
    return model_of(family, torch.float32 if family in FLOAT32_ALONE else torch.float64)


def by_hand(
    model: Any, tokens: Tensor, layers: Iterable[int], keys: list[int], queries: list[int], heads: Sequence[int]
) -> Tensor:
    """Logits under a knockout, layer by layer: z of patterns without the keys, each divided by its sum, put in the place of the run's."""
    known, n, hooks = identify(model), len(tokens), []
    masked = torch.zeros(known.n_heads, n, n, dtype=torch.bool)
    for query in queries:
        masked[list(heads), query, torch.tensor(keys)[:, None]] = True
    for number in layers:
        layer = known.layers[number]
        names = {"pattern": layer.sites["pattern"], "v": layer.value_name}
        names |= {"gate": layer.gate_name} if layer.gate_name else {}
        kept: dict[str, Tensor] = {}
        keep = [
            (name, lambda x, hook, at=at, kept=kept: kept.__setitem__(at, x[0].clone())) for at, name in names.items()
        ]
        model.run_with_hooks(tokens[None], fwd_hooks=[*hooks, *keep])
        latent = hasattr(model.blocks[number].attn, "kv_b_proj")  # whose values have heads before positions
        width = kept["v"].shape[-1] if known.family.name == "Gemma-4" else int(known.hooked.cfg.d_head)
        value = kept["v"].transpose(0, 1) if latent else kept["v"].reshape(n, -1, width)
        value = value.repeat_interleave(known.n_heads // value.shape[1], dim=1)
        left = kept["pattern"] * ~masked
        sink = 1 - kept["pattern"].sum(-1, keepdim=True) if known.family.name == "gpt_oss" else 0
        z = torch.einsum("hqk,khe->qhe", left / (left.sum(-1, keepdim=True) + sink), value)
        if "gate" in kept:
            gate = torch.nn.functional.softplus if known.family.name == "Laguna" else torch.sigmoid
            z = z * gate(kept["gate"]).reshape(n, known.n_heads, -1)
        changes = masked.any(-1).T
        if known.family.name == "BitNet":  # a norm of all heads together
            z = model.blocks[number].attn.original_component.attn_sub_norm(z.flatten(1)).view(z.shape)
            changes = changes.any(-1, keepdim=True).expand(changes.shape)

        def put(given: Tensor, hook: Any, z: Tensor = z, changes: Tensor = changes) -> Tensor:
            changed = given.reshape(n, known.n_heads, -1).clone()
            changed[changes] = z[changes]
            return changed.reshape(given.shape)

        hooks.append((layer.values_name, put))
    return model.run_with_hooks(tokens[None], fwd_hooks=hooks)[0]


def assert_same(found: Tensor, expected: Tensor, clean: Tensor) -> None:
    """To 1e-5 of what the knockout changes, which is something."""
    change = float((expected - clean).abs().max())
    assert change > 1e-3
    assert float((found - expected).abs().max()) < 1e-5 * change


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("heads", [None, [1, 2]], ids=["all", "two"])
@torch.no_grad()
def test_every_family_obeys_it(family: str, heads: list[int] | None) -> None:
    """Several keys, queries, heads and layers at once: logits are those of z by hand, also where scores are shown too late."""
    model, tokens = precise(family), tiny.tokens(family, N)
    hooks = attention_knockout_hooks(model, keys=[1, 3], queries=[4, -1], layers=[0, 1], heads=heads)
    if family == "xglm" and heads is not None:
        with pytest.raises(UnsupportedModelError, match="attention knockout: .* in layer 0"):
            model.run_with_hooks(tokens[None], fwd_hooks=hooks)
        return
    found = model.run_with_hooks(tokens[None], fwd_hooks=hooks)[0]
    expected = by_hand(model, tokens, [0, 1], [1, 3], [4, N - 1], heads or range(4))
    assert_same(found, expected, model(tokens[None])[0])
    assert (identify(model).memory.attends_inside is True) == (family in INSIDE)


@pytest.mark.parametrize(
    "case", [*map(Case, ("gpt2", "llama", "gemma2", "mistral", "gpt_neox")), Case("gpt2", "hooked")], ids=str
)
@torch.no_grad()
def test_it_is_a_masked_score_where_hooks_reach_it(case: Case) -> None:
    """A plain hook on attention scores in a window, run by run, gives the sweep's numbers; the model is left as it was."""
    model, tokens = case.model(torch.float64), case.tokens(N)
    sources = {"subject": [1, 2], "last": -1}
    result = ffb.attention_knockout(model, tokens, METRIC, keys=sources, window=2)
    assert result.windows == tuple(tuple(range(max(0, layer - 1), layer + 1)) for layer in result.layers)
    clean = model(tokens[None])[0, -1]
    assert result.baseline == pytest.approx(float(clean[7] - clean[9]), rel=1e-6)
    for row, window in enumerate(result.windows):
        for column, keys in enumerate(([1, 2], [N - 1])):

            def mask(scores: Tensor, hook: Any, keys: list[int] = keys) -> Tensor:
                scores[:, :, -1, keys] = -torch.inf
                return scores

            hooks = [(f"blocks.{layer}.attn.hook_attn_scores", mask) for layer in window]
            logits = model.run_with_hooks(tokens[None], fwd_hooks=hooks)[0, -1]
            assert float(result.values[row, column]) == pytest.approx(float(logits[7] - logits[9]), abs=1e-5)
    torch.testing.assert_close(model(tokens[None])[0, -1], clean, rtol=0, atol=0)


@pytest.mark.parametrize("family", ["gpt2", "bert", "gptj"])
@torch.no_grad()
def test_laws(family: str) -> None:
    """Of later tokens alone it changes nothing in a causal model; of all but the token itself it leaves attention to itself alone."""
    model, tokens = precise(family), tiny.tokens(family, N)
    own = [
        hook
        for query in range(N)
        if family == "bert" or query
        for hook in attention_knockout_hooks(
            model,
            keys=[key for key in range(N) if key != query and (family == "bert" or key < query)],
            queries=query,
            layers=1,
        )
    ]
    alone = ffb.attention_maps(model, tokens, fwd_hooks=own, layers=1)
    torch.testing.assert_close(alone.values[0], torch.eye(N).to(alone.values).expand(4, N, N), rtol=0, atol=1e-7)
    if family != "bert":
        nothing = attention_knockout_hooks(model, keys=[4, 5, 6], queries=[0, 3])
        torch.testing.assert_close(model.run_with_hooks(tokens[None], fwd_hooks=nothing), model(tokens[None]))


def test_lists_of_ids_of_unlike_lengths_are_read() -> None:
    """Each prompt's effects are those of it alone."""
    found = ffb.attention_knockout(model_of("gpt2"), [[5, 6, 7], [8, 9]], METRIC, keys=0)
    alone = [ffb.attention_knockout(model_of("gpt2"), ids, METRIC, keys=0) for ids in ([5, 6, 7], [8, 9])]
    torch.testing.assert_close(found.by_prompt, torch.cat([one.by_prompt for one in alone]), rtol=2e-5, atol=2e-6)


@torch.no_grad()
def test_keys_are_hidden_from_all_others() -> None:
    """`queries=None` is a removal: the logits are those of a run in which no other token sees the keys, and maps can be made of it."""
    model, tokens = precise("gptj"), tiny.tokens("gptj", N)
    hooks = attention_knockout_hooks(model, keys=2)
    found = model.run_with_hooks(tokens[None], fwd_hooks=hooks)[0]
    expected = by_hand(model, tokens, range(2), [2], [0, 1, 3, 4, 5, 6], range(4))
    assert_same(found, expected, model(tokens[None])[0])
    maps = ffb.contribution_maps(model, tokens, fwd_hooks=hooks)
    assert float(maps["Attn", 1][3:, 2].abs().max()) == 0 < float(maps["Attn", 1][2, 2])


def test_prompts_have_positions_and_answers_of_their_own() -> None:
    """A list gives means with intervals over prompts alone, whatever their lengths; hooks run in a batch as in each of it."""
    model = model_of("gpt2", torch.float64)
    prompts = torch.stack([tiny.tokens("gpt2", N, seed) for seed in range(3)])
    read = probability([7, 9, 11])
    given: dict[str, Any] = {"layers": [0, 2], "heads": 1}
    together = ffb.attention_knockout(
        model, prompts, read, keys={"s": [[1], [2, 3], 4], "b": 0}, queries=[-1, [5, 6], -1], **given
    )
    assert together.windows == ((0, 2),) and together.source_tokens[0].count("|") == 2
    for number, (keys, queries) in enumerate((([1], -1), ([2, 3], [5, 6]), (4, -1))):
        alone = ffb.attention_knockout(
            model,
            prompts[number],
            probability((7, 9, 11)[number]),
            keys={"s": keys, "b": [0]},
            queries=queries,
            **given,
        )
        torch.testing.assert_close(together.by_prompt[number], alone.by_prompt[0])
        torch.testing.assert_close(alone.values - alone.baseline, alone.effect)
    frame = together.to_dataframe()
    assert list(frame.columns) == ["kind", "layer", "window", "source", "token", "value", "effect", "low", "high", "n"]
    assert (frame.low <= frame.effect).all() and (frame.effect <= frame.high).all() and (frame.n == 3).all()
    hooks = attention_knockout_hooks(model, keys=[1, 2], queries=-1)
    batch = model.run_with_hooks(prompts, fwd_hooks=hooks)
    torch.testing.assert_close(batch[2], model.run_with_hooks(prompts[2:], fwd_hooks=hooks)[0])


def sweep(**options: Any) -> AttentionKnockout:
    """Of one prompt of GPT-2."""
    return ffb.attention_knockout(model_of("gpt2"), tiny.tokens("gpt2", N), METRIC, **{"keys": [1]} | options)


# fmt: off
REFUSED = {
    "a key beyond": (lambda: sweep(keys={"s": [N]}), "keys['s']=[7]"),
    "no keys": (lambda: sweep(keys=None), "keys=None"),
    "no source": (lambda: sweep(keys={}), "keys={}"),
    "a query beyond": (lambda: sweep(queries=[-8]), "queries=[-8]"),
    "a head beyond": (lambda: sweep(heads=[4]), "heads=[4]"),
    "a layer beyond": (lambda: sweep(layers=[3]), "no layer 3"),
    "no window": (lambda: sweep(window=0), "window=0"),
    "every position a key": (lambda: sweep(keys=list(range(N)), queries=None), "there is no query"),
    "nothing left": (lambda: sweep(keys=[0, 1], queries=[1]), "position 1"),
    "a direction": (lambda: ffb.attention_knockout(model_of("gpt2"), tiny.tokens("gpt2", N), ffb.direction(torch.ones(32), layer=1), keys=1), "direction"),
    "entries of other prompts": (lambda: ffb.attention_knockout(model_of("gpt2"), torch.ones(3, N, dtype=torch.long), METRIC, keys=[1, 2]), "an entry per prompt"),
    "hooks: nothing left": (lambda: model_of("gpt2").run_with_hooks(torch.ones(1, N, dtype=torch.long), fwd_hooks=attention_knockout_hooks(model_of("gpt2"), keys=0, queries=0)), "position 0"),
}
# fmt: on


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_calls_are_refused(name: str) -> None:
    """In words that name the argument."""
    call, said = REFUSED[name]
    with pytest.raises((InputError, LayerError)) as raised:
        call()
    assert said in str(raised.value)


@pytest.mark.parametrize(("family", "broken"), [("gpt2", "_hide"), ("gptj", "_mask_inside")])
def test_a_mask_that_is_not_obeyed_is_refused(family: str, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern of the run shows the weight that a masked key still has."""
    monkeypatch.setattr(edited, broken, lambda *_, **__: None)
    with pytest.raises(UnsupportedModelError, match="attention knockout: .* in layer 0, to tokens that were hidden"):
        ffb.attention_knockout(model_of(family), tiny.tokens(family, N), METRIC, keys=[1, 2])


def test_an_interrupted_run_leaves_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error between the hook and Hugging Face's attention: the next run without hooks is the clean one."""
    model, tokens = model_of("gptj"), tiny.tokens("gptj", N)[None]
    clean = model(tokens)

    def fail(x: Tensor, hook: Any) -> None:
        raise KeyError("mine")

    hooks = attention_knockout_hooks(model, keys=[1, 2], queries=-1, layers=1)
    with pytest.raises(KeyError, match="mine"):
        model.run_with_hooks(tokens, fwd_hooks=[*hooks, ("blocks.1.attn.hook_in", fail)])
    torch.testing.assert_close(model(tokens), clean, rtol=0, atol=0)
