"""Triggers and values: planted memories, and a slow search of all coefficients."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock import memories
from tl_ffblock.bridge.runs import kept_records, open_run
from tl_ffblock.memories.names import MemoryName
from tl_ffblock.memories.values import chance_agreement

LENGTHS = (3, 9, 1, 7, 9, 12, 5)


def texts(family: str) -> list[Tensor]:
    """Short texts of random tokens, one of them twice, so that coefficients are equal."""
    made = [tiny.tokens(family, length, seed=number) for number, length in enumerate(LENGTHS)]
    return [*made, made[1]]


def found(model: Any, family: str = "gpt2", **options: Any) -> Any:
    """Triggers of a family's texts."""
    return memories.find_triggers(model, texts(family), **({"memories": "0:3"} | options))


def values(model: Any) -> Any:
    """The value of the memory whose triggers those are."""
    return memories.value_tokens(model, memories="0:3")


def all_coefficients(model: Any, corpus: Sequence[Tensor], layer: int) -> list[Tensor]:
    """Of every text [pos neuron], from TransformerLens's cache."""
    with torch.no_grad():
        return [model.run_with_cache(text[None])[1][f"blocks.{layer}.mlp.hook_post"][0] for text in corpus]


@pytest.mark.parametrize("per", ["sentence", "token"])
@pytest.mark.parametrize("sign", ["positive", "negative"])
@pytest.mark.parametrize("family", ["gpt2", "gpt2_relu", "llama"])
def test_the_stream_finds_what_a_search_of_everything_finds(family: str, sign: Any, per: Any) -> None:
    """Largest first; of equal ones the earlier text, then the earlier position; what never fired is not there."""
    model, corpus = model_of(family), texts(family)
    found = memories.find_triggers(model, corpus, layers=1, k=5, per=per, sign=sign, skip_first=1)
    factor = 1 if sign == "positive" else -1
    by_text = [factor * c for c in all_coefficients(model, corpus, 1)]
    some = 0
    for neuron in range(tiny.D_MLP):
        cells = [
            (-float(c[p, neuron]), t, p) for t, c in enumerate(by_text) for p in range(1, len(c)) if c[p, neuron] > 0
        ]
        if per == "sentence":
            cells = [min(of_text) for t in range(len(corpus)) if (of_text := [cell for cell in cells if cell[1] == t])]
        expected = sorted(cells)[:5]
        triggers = found.of((1, neuron))
        assert [(t.sequence, t.position) for t in triggers] == [(t, p) for _, t, p in expected]
        assert [t.rank for t in triggers] == list(range(1, len(triggers) + 1))
        np.testing.assert_allclose([t.coefficient for t in triggers], [-factor * c for c, _, _ in expected], rtol=1e-5)
        some += len(triggers)
    assert (some == 0) == (family == "gpt2_relu" and sign == "negative")


def planted(family: str) -> tuple[Any, list[Tensor]]:
    """A model whose neuron 7 of layer 1 knows one position of a corpus, and writes the token that follows it there."""
    model, corpus = tiny.bridge(family), texts(family)[:-1]
    with torch.no_grad():
        inputs = [model.run_with_cache(text[None])[1]["blocks.1.ln2.hook_out"][0] for text in corpus]
        wanted = inputs[3][4]
        rest = torch.cat([x for number, x in enumerate(inputs) if number != 3] + [inputs[3][:4], inputs[3][5:]])
        key = torch.linalg.lstsq(torch.cat([rest, wanted[None]]), torch.eye(len(rest) + 1)[-1:].T).solution[:, 0]
        model.blocks[1].mlp.W_in[:, 7] = key + wanted / wanted.norm()
        model.blocks[1].mlp.W_out[7] = model.W_U[:, corpus[3][5]]
    return model, corpus


@pytest.mark.parametrize("family", ["gpt2_relu", "gpt2"])
def test_a_planted_memory_is_found_and_agrees(family: str) -> None:
    """A key that is one position's input has its trigger there; a value that is the next token's row promotes it."""
    model, corpus = planted(family)
    triggers = memories.find_triggers(model, corpus, memories="1:7", k=3)
    first = triggers.of("1:7")[0]
    assert (first.sequence, first.position) == (3, 4)
    assert first.next_token == str(int(corpus[3][5]))
    values = memories.value_tokens(model, memories="1:7", reading="direction", k=2, targets=[int(corpus[3][5])])
    assert values.top("1:7")[0] == first.next_token
    assert values.target_ranks.tolist() == [[1]]
    assert memories.agreement(triggers, values)["agrees"].tolist() == [1.0]


def test_negative_memories_write_their_values_opposite() -> None:
    """Where a coefficient is negative the tokens are those of -v: top and bottom change places in the direction's reading."""
    model = tiny.bridge("llama")
    positive, negative = (
        memories.value_tokens(model, layers=0, reading="direction", sign=sign) for sign in ("positive", "negative")
    )
    np.testing.assert_array_equal(positive.top_ids, negative.bottom_ids)
    np.testing.assert_array_equal(positive.bottom_ids, negative.top_ids)


def test_experts_have_memories_of_their_own() -> None:
    """An expert's triggers are positions that were routed to it, and its name has three numbers."""
    model = tiny.bridge("mixtral")
    found = memories.find_triggers(model, texts("mixtral"), memories=["1:2:3", (0, 0, 5)], k=100, per="token")
    assert [str(name) for name in found.memories] == ["1:2:3", "0:0:5"]
    assert found.of("1:2:3")
    for trigger in found.of("1:2:3"):
        (records,) = kept_records(open_run(model, texts("mixtral")[trigger.sequence], layers=1))
        routing = records[1].routing
        assert routing is not None and routing[trigger.position, 2] > 0


def test_chance_agreement_is_the_mean_over_all_deals() -> None:
    """Every pairing of next tokens with top tokens is equally likely."""
    following, tops = np.array([3, 3, 5, -1]), np.array([3, 5, 5, 9])
    pairs = [(n, t) for n in following if n >= 0 for t in tops]
    assert chance_agreement(following, tops) == pytest.approx(np.mean([n == t for n, t in pairs]))


# --- order ------------------------------------------------------------------------------------------------------

NAMED = ["2:7", "0:40", "1:3", "0:2", "-1:5"]
"""Neither by layer nor by number."""
EXPERTS = ["1:2:3", "0:3:1", "1:0:5", "0:0:5"]
FIELDS = ("coefficient", "position", "sequence")
# fmt: off
CALLS: dict[str, tuple[str, list[str], Callable[..., Any], tuple[str, ...]]] = {
    "values": ("gpt2", NAMED, lambda m, names: memories.value_tokens(m, memories=names, targets=[9]), ("top_ids", "bottom_ids", "target_ranks", "probability")),
    "parts": ("gpt2", NAMED, lambda m, names: memories.token_parts(m, tiny.tokens("gpt2", 6), names, query=3), ("parts", "bias", "remainder", "coefficient", "largest")),
    "triggers": ("gpt2", NAMED, lambda m, names: found(m, memories=names, k=3), FIELDS),
    "triggers of experts": ("mixtral", EXPERTS, lambda m, names: found(m, "mixtral", memories=names, k=3), FIELDS),
}
# fmt: on
"""What has a row per memory, and the fields that have."""


@pytest.mark.parametrize("call", CALLS)
def test_rows_are_in_the_order_given(call: str) -> None:
    """Row by row what each memory's own call says, experts' too."""
    family, named, make, fields = CALLS[call]
    model = model_of(family)
    found = make(model, named)
    assert [str(name) for name in found.memories] == [name.replace("-1:", "2:") for name in named]
    for row, name in enumerate(named):
        alone = make(model, name)
        for field in fields:
            np.testing.assert_allclose(getattr(found, field)[row], getattr(alone, field)[0], rtol=1e-5, atol=1e-6)


def test_what_is_named_is_found_by_name() -> None:
    """Means, knock-outs, agreement and effects: whatever the order of the means and values that they are given."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)[None]
    means, backwards = (memories.mean_coefficients(model, texts("gpt2"), names) for names in (NAMED, NAMED[::-1]))
    assert means == pytest.approx(backwards)
    knocked = [
        model.run_with_hooks(tokens, fwd_hooks=memories.ablate_neurons(model, names, to=means))
        for names in (NAMED, NAMED[::-1])
    ]
    torch.testing.assert_close(*knocked)
    assert not torch.equal(knocked[0], model(tokens))
    triggers = memories.find_triggers(model, texts("gpt2"), memories=NAMED, k=2)
    same, other = (memories.value_tokens(model, memories=names) for names in (NAMED, NAMED[::-1]))
    assert memories.agreement(triggers, same).equals(memories.agreement(triggers, other))
    effects = [memories.neuron_ablation_effects(model, triggers, values, ranks=1) for values in (same, other)]
    assert effects[0].equals(effects[1])


# --- refusals ---------------------------------------------------------------------------------------------------


# fmt: off
REFUSED: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "a name of one number": ("gpt2", lambda m: found(m, memories="305"), "'305'.*expected LAYER:NEURON"),
    "a neuron beyond": ("gpt2", lambda m: found(m, memories="0:480"), "numbered from 0"),
    "an expert of a dense layer": ("gpt2", lambda m: found(m, memories="0:1:4"), "0:1:4.*name it LAYER:NEURON"),
    "layers and names": ("gpt2", lambda m: found(m, layers=0), "memories and layers"),
    "no name": ("gpt2", lambda m: found(m, memories=[]), "no memory is named"),
    "agreement of an encoder": ("bert", lambda m: memories.agreement(found(m, "bert"), values(m)), "has read the token after"),
    "agreement of fewer values": ("gpt2", lambda m: memories.agreement(found(m, memories=["0:3", "1:3"]), values(m)), "of other memories"),
    "agreement of another sign": ("gpt2", lambda m: memories.agreement(found(m, sign="negative"), values(m)), "other memories or another sign"),
    "effects of another sign": ("gpt2", lambda m: memories.neuron_ablation_effects(m, found(m, sign="negative"), values(m)), "other memories or another sign"),
    "ablation of an encoder": ("bert", lambda m: memories.remove_tokens(m, found(m, "bert")), "also reads the text after"),
    "a memory without its mean": ("gpt2", lambda m: memories.ablate_neurons(m, ["0:3", "1:8"], to={MemoryName(0, 3): 1.0}), "no value for memory 1:8"),
    "a memory of experts": ("mixtral", lambda m: memories.ablate_neurons(m, "1:0:3"), "no HookPoint has the activations of single experts"),
    "carried of no such layer": ("gpt2", lambda m: carried(m, "7:0"), "7"),
    "carried of no such neuron": ("gpt2", lambda m: carried(m, "1:9999"), "1:9999"),
    "carried of an expert": ("gpt2", lambda m: carried(m, "1:2:3"), "1:2:3"),
}
# fmt: on


def carried(model: Any, name: str) -> Any:
    """What a memory carries to a logit."""
    return memories.carried(ffb.attribute(model, tiny.tokens("gpt2", 6), ffb.logit(7), of="neurons"), name)


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_answer_is_refused(name: str) -> None:
    """In a sentence that says what was expected."""
    family, call, said = REFUSED[name]
    with pytest.raises(ffb.FFBlockError, match=f"(?s){said}"):
        call(model_of(family))
