"""One reading of texts: every call and command that takes a text runs the same token ids."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.integration.test_public_laws import public_functions, takes_a_model
from tl_ffblock import interventions, memories
from tl_ffblock.bridge import inputs, loading
from tl_ffblock.bridge.model import identify
from tl_ffblock.cli.main import main
from tl_ffblock.corpus import runs, worker
from tl_ffblock.errors import FFBlockError, InputError

Call = Callable[[Any, Any, Any], object]
"""A function of model, prompt and target."""
EDGE, CIRCUIT = [("L0H1", "target")], ["L0H1", "L1.mlp"]


def circuit(model: Any) -> Any:
    """A circuit of one head and one feed-forward."""
    return ffb.Circuit.full(model).among(CIRCUIT)


def command(*arguments: str) -> Call:
    """A command on the given model, whose target is a word; TEXT, TARGET and CORPUS stand for its arguments."""

    def run(model: Any, prompt: Any, target: Any) -> object:
        corpus = Path("corpus.txt")
        corpus.write_text(f"{prompt}\n{prompt}\n", encoding="utf-8")
        given = {"TEXT": prompt, "TARGET": " Mary", "CORPUS": str(corpus)}
        model.original_model.config.save_pretrained("here")
        Path("here/model.safetensors").touch()  # commands look whether there is a model before they load it
        with pytest.MonkeyPatch.context() as patch:
            for home in (loading, runs, worker):
                patch.setattr(home, "load_model", lambda name, *rest, **options: model)
            status = main([*(given.get(argument, argument) for argument in arguments), "--model", "./here"])
        if status:
            raise FFBlockError(f"status {status}")
        return status

    return run


def swept(model: Any, prompt: Any, target: Any) -> Any:
    """A sweep of one layer."""
    return ffb.contribution_sweep(ffb.Contributions(model, prompt), target, "Attn", layers=1, queries=-1)


def triggers(model: Any, prompt: Any) -> Any:
    """Triggers of one neuron in one text."""
    return memories.find_triggers(model, [prompt], memories="1:3", k=1)


# fmt: off
CALLS: dict[str, Call] = {
    "contribution_maps": lambda m, x, t: ffb.contribution_maps(m, x),
    "decompose": lambda m, x, t: ffb.decompose(m, x, layer=1),
    "attention_maps": lambda m, x, t: ffb.attention_maps(m, x),
    "attention_scores": lambda m, x, t: ffb.attention_scores(m, x),
    "neurons": lambda m, x, t: ffb.neurons(m, x, layer=1, query=-1, key=2),
    "attribute": lambda m, x, t: ffb.attribute(m, x, t),
    "direct_logit_attribution": lambda m, x, t: ffb.direct_logit_attribution(m, x, t),
    "logit_lens": lambda m, x, t: ffb.logit_lens(m, x, t, k=3),
    "attribute_continuation": lambda m, x, t: ffb.attribute_continuation(m, x, " Mary"),
    "attribution_patching": lambda m, x, t: ffb.attribution_patching(m, x, x, t),
    "activation_patching": lambda m, x, t: ffb.activation_patching(m, x, x, t, of="heads"),
    "faithfulness": lambda m, x, t: ffb.faithfulness(m, x, t, {"own": torch.arange(float(len(ffb.attention_maps(m, x).tokens)))}),
    "flow_graph": lambda m, x, t: ffb.flow_graph(m, x, target=" Mary"),
    "patched_maps": lambda m, x, t: ffb.patched_maps(m, x, x, fwd_hooks=()),
    "run_circuit": lambda m, x, t: ffb.run_circuit(m, x, x, circuit(m), t, ablation="zero"),
    "circuit_faithfulness": lambda m, x, t: ffb.circuit_faithfulness(m, x, x, circuit(m), t, ablation="zero"),
    "edge_patching": lambda m, x, t: ffb.edge_patching(m, x, x, t, EDGE),
    "contribution_sweep": swept,
    "attention_knockout": lambda m, x, t: ffb.attention_knockout(m, x, t, keys=1),
    "causal_validation": lambda m, x, t: ffb.causal_validation(m, [x, x], t, layers=1),
    "overview": lambda m, x, t: ffb.overview(m, x, " Mary"),
    "aggregation.alti": lambda m, x, t: ffb.aggregation.alti(m, x),
    "heads.ablation_effects": lambda m, x, t: ffb.heads.ablation_effects(m, x, t),
    "heads.attention_gradients": lambda m, x, t: ffb.heads.attention_gradients(m, x, t),
    "heads.distance_decay": lambda m, x, t: ffb.heads.distance_decay(m, x),
    "heads.copy_scores": lambda m, x, t: ffb.heads.copy_scores(m, x, 2, k=32),
    "interventions.path_patching": lambda m, x, t: interventions.path_patching(m, x, x, t, [EDGE]),
    "known_circuits.package_method": lambda m, x, t: ffb.known_circuits.package_method(m, x, x, t),
    "map_prompts": lambda m, x, t: ffb.map_prompts(ffb.attention_maps, m, [x], out="run"),
    "memories.token_parts": lambda m, x, t: memories.token_parts(m, x, "1:3"),
    "memories.find_triggers": lambda m, x, t: triggers(m, x),
    "memories.memory_card": lambda m, x, t: memories.memory_card(m, [x, x], "1:3", k=2),
    "memories.mean_coefficients": lambda m, x, t: memories.mean_coefficients(m, [x], memories=["1:3"]),
    "check.check_model": lambda m, x, t: ffb.check.check_model(m, x),
    "tl-ffblock map": command("map", "TEXT"),
    "tl-ffblock attribute": command("attribute", "TEXT", "--target", "TARGET"),
    "tl-ffblock flow": command("flow", "TEXT", "--target", "TARGET"),
    "tl-ffblock memory": command("memory", "1:3", "--corpus", "CORPUS", "--text", "TEXT", "--target", "TARGET"),
    "tl-ffblock check": command("check", "--text", "TEXT"),
    "tl-ffblock run": command("run", "bypass", "--data", "CORPUS", "--out", "studies", "--min-words", "1"),
}
# fmt: on
"""Every public call and command that reads a text."""
WITHOUT_TEXT = {
    "aggregation.globenc": "is of encoders",
    "capture": "the caller runs the model",
    "chat": "reads messages, below",
    "graphs.top_tokens": "takes vectors",
    "heads.duplicate_token_scores": "draws token ids",
    "heads.induction_scores": "draws token ids",
    "heads.previous_token_scores": "draws token ids",
    "heads.repeated_tokens": "draws token ids",
    "interventions.attention_knockout_hooks": "makes hooks",
    "interventions.edit_point": "names a hook point",
    "memories.ablate_neurons": "makes hooks",
    "memories.neuron_ablation_effects": "takes triggers",
    "memories.remove_tokens": "takes triggers",
    "memories.value_tokens": "reads weights",
    "memory_estimate": "takes a number of tokens",
}
"""Public functions of a model that read no text, each with the reason."""
TEXT = "unbelievable Mary and John gave"
WITH_BOS = "<s>unbelievable Mary and John gave"


@contextmanager
def ids_read(model: Any) -> Iterator[set[tuple[int, ...]]]:
    """Rows of token ids that enter the model in the context."""
    rows: set[tuple[int, ...]] = set()

    def look(module: object, args: tuple[Any, ...]) -> None:
        rows.update(map(tuple, args[0].tolist()))

    embed = model.original_model.get_input_embeddings()
    handle = embed.register_forward_pre_hook(look)
    try:
        yield rows
    finally:
        handle.remove()


@pytest.fixture(scope="module")
def llama() -> Any:
    """A model with a tokenizer of Llama 2's kind."""
    return tiny.reader("llama2")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder for what commands write."""
    monkeypatch.chdir(tmp_path)


def listed(module: str) -> Iterator[str]:
    """Public functions of a module that take a model."""
    home = getattr(ffb, module)
    for name in home.__all__:
        if getattr(home, name).__class__.__name__ == "function" and takes_a_model(getattr(home, name)):
            yield name if name in ffb.__all__ else f"{module}.{name}"


def test_every_public_call_that_reads_a_text_is_listed() -> None:
    """A new function of a model gets a row in `CALLS`, or a reason in `WITHOUT_TEXT`; a command gets a row."""
    found = {name for name, function in public_functions() if takes_a_model(function)}
    found |= {name for module in ("interventions", "attribution", "known_circuits") for name in listed(module)}
    assert found - set(CALLS) - set(WITHOUT_TEXT) == set(), "add a row to CALLS: (model, prompt, target) -> call"
    assert set(WITHOUT_TEXT) <= found
    commands = {path.stem.replace("_", "-") for path in Path(ffb.__file__).parent.glob("cli/*.py")}
    others = {"--init--", "arguments", "main", "known-circuits", "models", "replicate"}
    assert {f"tl-ffblock {name}" for name in commands - others} == {name for name in CALLS if name.startswith("tl-")}


@pytest.mark.filterwarnings("ignore::tl_ffblock.errors.EqualPairWarning")  # of calls that take pairs
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", CALLS)
def test_a_text_with_its_bos_gets_no_second_one(name: str, llama: Any) -> None:
    """The same ids enter the model with a BOS that the text writes, and with the one that is added."""
    target = ffb.logit(" Mary", model=llama)
    expected = llama.tokenizer(TEXT)["input_ids"]
    assert expected[0] == llama.tokenizer.bos_token_id not in expected[1:]
    seen = []
    for folder, text in enumerate((TEXT, WITH_BOS)):
        Path(str(folder)).mkdir()
        with pytest.MonkeyPatch.context() as there, ids_read(llama) as rows:
            there.chdir(str(folder))
            CALLS[name](llama, text, target)
        seen.append(rows)
    assert any(row[: len(expected)] == tuple(expected) for row in seen[0])
    assert seen[0] == seen[1]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", CALLS)
def test_settings_that_lose_the_bos_or_a_word_are_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A tokenizer that was set late: TransformerLens still believes that it adds a BOS."""
    model = tiny.reader("gpt2", late=True)
    with pytest.raises((FFBlockError, SystemExit)) as refused:
        CALLS[name](model, TEXT, ffb.logit(5))
    told = f"{refused.value} {capsys.readouterr().err}".replace("\n", " ")
    assert "tokenizer_prepends_bos" in told


# --- ids --------------------------------------------------------------------------------------------------------------


def read(model: Any, text: str) -> list[int]:
    """Ids of a text as input; those of a corpus run are the same."""
    known = identify(model)
    ids = inputs.prepare(known, text, None)[0].tokens[0].tolist()
    assert inputs.token_spans(known, text)[0].tolist() == ids
    return ids


@pytest.mark.parametrize("kind", tiny.READERS)
def test_ids_are_the_tokenizers_own(kind: str) -> None:
    """Between one BOS, or an encoder's marks; also of a text that has them already, and of a rendered template."""
    model = tiny.reader(kind)
    tokenizer = model.tokenizer
    own = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    bos, end = ("[CLS]", "[SEP]") if kind == "bert" else ("<s>", "")
    first, last = tokenizer.convert_tokens_to_ids(bos), [tokenizer.convert_tokens_to_ids(end)] * (kind == "bert")
    assert read(model, TEXT) == [first, *own, *last]
    written = tokenizer(f"{bos}{TEXT}{end}", add_special_tokens=False)["input_ids"]
    assert written[0] == first and read(model, f"{bos}{TEXT}{end}") == written
    assert read(model, bos) == [first, *last]
    if kind != "bert":
        assert read(model, f"{bos}{bos}{TEXT}") == [first, *written], "what the text writes is kept"
        assert read(model, f"{TEXT}</s>") == [first, *own, tokenizer.eos_token_id], "an end that the text writes, too"
        rendered = tokenizer.apply_chat_template([{"role": "user", "content": TEXT}], tokenize=False)
        assert rendered.startswith("<s>")
        assert read(model, rendered) == tokenizer(rendered, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("kind", tiny.READERS)
def test_transformer_lenss_switch_for_texts_without_bos(kind: str) -> None:
    """`default_prepend_bos = False` drops the BOS of a causal model and nothing else; an encoder keeps [CLS]."""
    model = tiny.reader(kind)
    model.cfg.default_prepend_bos = False
    own = model.tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    assert read(model, TEXT) == (model.tokenizer(TEXT)["input_ids"] if kind == "bert" else own)
    if kind != "bert":
        assert read(model, WITH_BOS)[0] == model.tokenizer.bos_token_id, "one that the text writes is kept"


@pytest.mark.parametrize("prepend", [True, False])
@pytest.mark.parametrize("kind", ["gpt2", "olmo"])
def test_a_tokenizer_that_was_set_late_is_refused_or_read_rightly(kind: str, prepend: bool) -> None:
    """TransformerLens would add no BOS, drop the first word, or keep an appended end; after the remedy it does not."""
    model = tiny.reader(kind, late=True)
    model.cfg.default_prepend_bos = prepend
    assert model.to_tokens(TEXT)[0].tolist() != read(tiny.reader(kind), TEXT)
    with pytest.raises(
        InputError, match=r"Set model\.cfg\.tokenizer_prepends_bos = False, or make the model with tokenizer="
    ):
        read(model, TEXT)
    model.cfg.tokenizer_prepends_bos = False
    if kind == "olmo":
        with pytest.raises(
            InputError,
            match=r"appends_eos is False, but its tokenizer does: .*Set model\.cfg\.tokenizer_appends_eos = True",
        ):
            read(model, TEXT)
        model.cfg.tokenizer_appends_eos = True
    own = model.tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    assert read(model, TEXT) == [model.tokenizer.bos_token_id] * prepend + own == model.to_tokens(TEXT)[0].tolist()
    for late in ("llama2", "bert"):
        assert read(tiny.reader(late, late=True), TEXT) == read(tiny.reader(late), TEXT)


def test_an_encoders_tokenizer_without_its_marks_is_refused() -> None:
    """Such as one whose marks TransformerLens has rewritten."""
    model = tiny.reader("bert", late=True)
    model.tokenizer.backend_tokenizer.post_processor = tiny.piece_tokenizer("gpt2").backend_tokenizer.post_processor
    with pytest.raises(InputError, match=r"is an encoder, and its tokenizer adds no \[CLS\] before a text"):
        ffb.attention_maps(model, TEXT)


# --- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TEXT, "hot\ncold", "the  cold", "hot → cold / ly", "Mary gave\n\n ly"])
@pytest.mark.parametrize("kind", ["llama2", "mistral", "gemma", "gpt2"])
def test_labels_join_to_the_text(kind: str, text: str) -> None:
    """With their spaces, and bytes of ASCII; bytes of other characters are written as in SentencePiece."""
    labels = ffb.attention_maps(tiny.reader(kind), text).tokens
    joined = "".join(labels[1:])
    split = kind == "gpt2" and "→" in text
    expected = text.replace("→", "<0xE2><0x86><0x92>") if split else text
    assert joined == " " * (kind in ("llama2", "mistral")) + expected
    if text == TEXT and kind != "bert":
        words = ffb.group_tokens(ffb.attention_maps(tiny.reader(kind), text)).tokens
        assert [word.strip() for word in words] == ["<s>", *text.split()]


def test_a_byte_that_is_a_space_is_labelled_as_one(llama: Any) -> None:
    """The decoder strips it, as it strips a whole token of white space."""
    ids = torch.tensor(
        llama.tokenizer.convert_tokens_to_ids(["<0x20>", "<0x0A>", "<0xC3>", "▁", "▁Mary", "Mary", "<s>"])
    )
    labels = inputs.label(identify(llama), ids)
    assert labels[:5] == (" ", "\n", "\N{REPLACEMENT CHARACTER}", " ", " Mary") and labels[6] == "<s>"


@pytest.mark.parametrize("kind", ["llama2", "mistral", "gemma", "gpt2", "olmo"])
def test_words_and_continuations_keep_their_space(kind: str) -> None:
    """A word with its space is one token everywhere; a continuation without a space continues the word."""
    model = tiny.reader(kind)
    mary = inputs.single_token(model, " Mary")
    assert inputs.label(identify(model), torch.tensor([mary])) == (" Mary",)
    result = ffb.attribute_continuation(model, TEXT, " Mary")
    assert result.targets == (" Mary",) and result.n_prompt == len(read(model, TEXT))
    assert ffb.attribute(model, TEXT, ffb.logit(" Mary", model=model), of=()).target == "logit ' Mary'"
    assert ffb.attribute_continuation(model, TEXT, " to the").targets == (" to", " the")
    assert ffb.attribute_continuation(model, TEXT, "ly").targets == ("ly",)
    assert "".join(ffb.attribute_continuation(model, TEXT, " xy").targets) == " xy"
    with pytest.raises(InputError, match=r"' xy' is 3 tokens: ' ', 'x', 'y'\. Expected one token"):
        ffb.logit(" xy", model=model).in_ids(model)


def test_a_word_without_its_space_is_the_same_token_where_tokenizers_add_one(llama: Any) -> None:
    """As Llama 2 reads it; elsewhere it is another token, or several."""
    assert inputs.single_token(llama, "Mary") == inputs.single_token(llama, " Mary")
    with pytest.raises(InputError, match="'Mary' is 4 tokens: 'M', 'a', 'r', 'y'"):
        inputs.single_token(tiny.reader("gemma"), "Mary")


# --- pairs ------------------------------------------------------------------------------------------------------------

PAIRS: dict[str, Callable[[Any, Any, Any], object]] = {
    "activation_patching": lambda m, a, b: ffb.activation_patching(m, a, b, ffb.logit(5)),
    "attribution_patching": lambda m, a, b: ffb.attribution_patching(m, a, b, ffb.logit(5)),
    "patched_maps": lambda m, a, b: ffb.patched_maps(m, a, b, fwd_hooks=()),
    "edge_patching": lambda m, a, b: ffb.edge_patching(m, a, b, ffb.logit(5), EDGE),
    "run_circuit": lambda m, a, b: ffb.run_circuit(m, a, b, circuit(m), ffb.logit(5)),
    "circuit_faithfulness": lambda m, a, b: ffb.circuit_faithfulness(m, a, b, circuit(m), ffb.logit(5)),
    "causal_validation": lambda m, a, b: ffb.causal_validation(m, [a], ffb.logit(5), corrupted=[b], layers=1),
}
"""Calls that take a clean and a corrupted prompt."""


@pytest.mark.parametrize("call", PAIRS.values(), ids=PAIRS)
def test_a_pair_that_differs_by_its_bos_says_so(call: Callable[[Any, Any, Any], object]) -> None:
    """Whichever side lacks it, and also if one word more makes both equally long."""
    model = tiny.reader("gpt2")
    text = "Mary and John"
    for other in ("Tom and John", "Tom and John gave"):
        ids = model.tokenizer(other)["input_ids"]
        for pair, lacks in (((text, ids), "corrupted"), ((ids, text), "clean")):
            said = rf"{lacks}(\[0\])? has no BOS, and .* begins with '<s>'.*Pass texts, or ids of model\.to_tokens"
            with pytest.raises(InputError, match=said):
                call(model, *pair)
    with pytest.raises(InputError, match="expected equally many.*use words of equally many tokens"):
        call(model, text, "Mary and John gave")


# --- names of positions -----------------------------------------------------------------------------------------------


def test_an_arrow_in_a_prompt_is_a_token(llama: Any, tmp_path: Path) -> None:
    """In one prompt and in a pair, whose labels are joined by the same character; also after it was saved."""
    result = ffb.attribute(llama, "hot → cold and →", ffb.logit(7), of=())
    places = [at for at, token in enumerate(result.labels) if token == "→"]
    assert ffb.find_positions(result, A=("→", -1), B=("→", 0)) == {"A": places[1:], "B": places[:1]}
    patched = ffb.activation_patching(
        tiny.reader("gemma"), "→ Mary and John", "/ Mary and Tom", ffb.logit(7), of="heads"
    )
    estimates = ffb.attribution_patching(
        tiny.reader("gemma"), "→ Mary and John", "/ Mary and Tom", ffb.logit(7), edges=True
    )
    assert patched.labels[1] == estimates.labels[1] == "→→/" and estimates.labels[-1] == " John→ Tom"
    patched.save(tmp_path / "patched.safetensors")
    for pair in (patched, estimates, estimates.edges, ffb.load(tmp_path / "patched.safetensors")):
        assert ffb.find_positions(pair, A="→", B="John") == {"A": [1], "B": [4]}
        with pytest.raises(InputError, match="nowhere"):
            ffb.find_positions(pair, A=" Tom")


# --- chats ------------------------------------------------------------------------------------------------------------

MESSAGES = [
    {"role": "system", "content": "user"},
    {"role": "user", "content": "  Mary and John\n"},
    {"role": "assistant", "content": "hot"},
    {"role": "user", "content": "Mary and John"},
]


@pytest.mark.parametrize("kind", ["llama2", "mistral", "gemma", "gpt2", "olmo"])
def test_a_chat_is_its_template_with_the_positions_of_its_messages(kind: str) -> None:
    """Contents that are twice in the text, that are a role, and that the template trims; every position has one name."""
    model = tiny.reader(kind)
    tokens, spans, ends = ffb.chat(model, MESSAGES)
    template = model.tokenizer.apply_chat_template
    assert tokens.tolist() == [template(MESSAGES, add_generation_prompt=True, return_dict=True)["input_ids"]]
    assert tokens[0].tolist() == read(model, template(MESSAGES, add_generation_prompt=True, tokenize=False))
    labels = ffb.attention_maps(model, tokens[0]).tokens
    said = {name: "".join(labels[at] for at in places).strip() for name, places in spans.items()}
    assert said == {
        "system": "user",
        "user 1": "Mary and John",
        "assistant 1": "hot",
        "user 2": "Mary and John",
        "template": "<s><|system|></s><|user|></s><|assistant|></s><|user|></s><|assistant|>",
    }
    assert sorted(at for places in spans.values() for at in places) == [*range(len(labels))]
    assert ends == {name: places[-1] for name, places in spans.items()}
    shorter = ffb.chat(model, MESSAGES, add_generation_prompt=False).tokens
    assert shorter[0].tolist() == tokens[0].tolist()[:-1]


def test_what_takes_the_positions_of_a_chat(llama: Any) -> None:
    """Groups, sources, named positions of means and of patching."""
    tokens, spans, ends = ffb.chat(llama, MESSAGES)
    results = ffb.attribute(llama, tokens, ffb.logit(7))
    assert {*ffb.group_tokens(results[0], spans).tokens} == {*spans}
    assert ffb.attention_knockout(llama, tokens[0], ffb.logit(7), keys=spans).sources == tuple(spans)
    assert results.mean(ends)["residual"].places["position"] == tuple(ends)
    assert ffb.average(ffb.contribution_maps(llama, tokens), ends).keys == tuple(ends)
    assert ffb.activation_patching(llama, tokens, tokens.flip(1), ffb.logit(7), positions=ends).positions == tuple(ends)


def chats_refused() -> Iterator[tuple[str, str, list[Any]]]:
    """Name of a fault, words of its refusal, messages."""
    user = {"role": "user", "content": "hot"}
    yield "no message", "no message: expected at least one", []
    yield "no text", r"messages\[0\]=.*expected .*a text as content", [{"role": "user", "content": " "}]
    yield "no role", r"messages\[1\]=.*expected", [user, {"content": "hot"}]
    yield "parts", r"messages\[0\]=.*expected", [{"role": "user", "content": [{"type": "text", "text": "hot"}]}]


@pytest.mark.parametrize(("said", "messages"), [pytest.param(*case[1:], id=case[0]) for case in chats_refused()])
def test_messages_that_cannot_be_read_are_refused(said: str, messages: list[Any], llama: Any) -> None:
    """With the message's number."""
    with pytest.raises(InputError, match=said):
        ffb.chat(llama, messages)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ messages[0]['content'] | upper }}", "user 1: the chat template does not have 'hot' once and unchanged"),
        ("{{ messages[0]['content'] }} {{ messages[0]['content'] }}", "user 1: .* once"),
        ("{{ messages | length }}", "user 1: .* once"),
        ("{{ messages[0]['content'] }}{% if messages[0]['content'] == 'hot' %}x{% endif %}", "user 1: .* once"),
        ("{{ raise_exception('roles must alternate') }}", "chat template of .* refuses them: roles must alternate"),
        ("be{{ messages[0]['content'] }}", "partly of a message and partly of the chat template"),
        (None, "has no chat template"),
    ],
)
def test_templates_that_do_not_show_where_a_message_is_are_refused(template: str | None, said: str) -> None:
    """A content in other letters, twice, never, with other text by its words, or inside a token."""
    model = tiny.reader("gpt2")
    model.tokenizer.chat_template = template
    content = "lievable" if template and template.startswith("be") else "hot"
    with pytest.raises(InputError, match=said):
        ffb.chat(model, [{"role": "user", "content": content}])


@pytest.mark.slow
def test_a_rendered_chat_of_a_real_model_is_its_ids() -> None:
    """SmolLM2's template writes its BOS; the logit is that of the ids."""
    model = ffb.load_model("smollm2")
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    text = model.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    made = ffb.chat(model, messages)
    assert made.tokens.tolist() == [ids] == [read(model, text)]
    (by_chat,) = ffb.attribute(model, made.tokens, " The", of=())
    assert ffb.attribute(model, text, " The", of=()).value == by_chat.value == pytest.approx(16.44, abs=0.005)
    arrows = ffb.attribute(model, "hot → cold, big →", " small", of=())
    assert ffb.find_positions(arrows, A=("→", -1)) == {"A": [6]}


def test_without_jinja2_a_chat_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformers needs it for templates, and an older one is refused there."""
    model = tiny.reader("gpt2")

    def refuse(*_: object, **__: object) -> None:
        raise ImportError("apply_chat_template requires jinja2>=3.1.0 to be installed.")

    monkeypatch.setattr(model.tokenizer, "apply_chat_template", refuse)
    with pytest.raises(ModuleNotFoundError, match="pip install -U jinja2"):
        ffb.chat(model, MESSAGES)
