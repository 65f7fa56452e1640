"""What Python puts into a page."""

import base64
import dataclasses
import json
import zlib
from typing import Any

import numpy as np
import pytest
import torch

from tests.page.screen import Builder
from tl_ffblock.errors import InputError
from tl_ffblock.page.document import to_json
from tl_ffblock.page.numbers import Packed, pack
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.measures import contextualization_change
from tl_ffblock.results.tables import HeadTable
from tl_ffblock.results.tokens import special_positions, word_numbers
from tl_ffblock.views.maps import page_data


def sent(maps: ContributionMaps, **options: Any) -> dict[str, Any]:
    """The payload of a result's page, through JSON and back."""
    return json.loads(to_json(page_data({"run": maps}, **options).payload()))


def block(read: dict[str, Any], name: str = "contributions") -> dict[str, Any]:
    """A block of the first run."""
    return read["runs"][0]["blocks"][name]


def test_the_page_opens_where_feed_forward_changed_most(build: Builder) -> None:
    """Default: the feed-forward step, at the layer with its largest contextualization change."""
    maps = build(7, layers=(2, 3, 5))
    best = maps.layers[int(contextualization_change(maps, "AtbLn", "AtbLnFf").argmax())]
    start = sent(maps)["start"]
    assert (start["layer"], start["scope"]) == (best, "AtbLnFf")
    assert sent(build(4, order="parallel"))["start"]["scope"] == "AtbLnFfRes"


def test_the_page_opens_at_the_pair_of_words_that_changed_most(build: Builder) -> None:
    """The opening cell is the largest change of the others' shares; a query asked for by word or number is its row."""
    maps = build(5, tokens=("he", "is", ",", "the", "king"), causal=False)
    maps["AtbLnFf"][:, 3, 1] = 60.0
    maps["AtbLnFf"][:, 2, 2] = 99.0
    assert {name: sent(maps)["start"][name] for name in ("to", "from")} == {"to": 3, "from": 1}
    assert sent(maps, query="king")["start"]["to"] == sent(maps, query=-1)["start"]["to"] == 4
    for wrong in ("queen", 5, -6):
        with pytest.raises(InputError, match=f"query={wrong!r}"):
            page_data({"run": maps}, query=wrong)


def test_the_page_opens_at_no_special_token(build: Builder) -> None:
    """However much [CLS] and [SEP] give and take, the opening cell is of two words; a mask stands for one."""
    maps = build(5, tokens=("[CLS]", "he", "is", "[MASK]", "[SEP]"), causal=False)
    maps["AtbLnFf"][:, :, 0] = maps["AtbLnFf"][:, 4] = 50.0
    maps["AtbLnFf"][:, 3, 1] = 90.0
    assert {name: sent(maps)["start"][name] for name in ("to", "from")} == {"to": 3, "from": 1}
    assert sent(maps, query="[CLS]")["start"]["to"] == 0


def test_one_token_has_no_change_but_a_page(build: Builder) -> None:
    """Where the change is undefined (one cell) it is null, and the page opens at the first layer."""
    read = sent(build(1))
    assert block(read)["tracks"][0]["values"]["AtbLnFf"] == [None, None]
    start = {name: read["start"][name] for name in ("layer", "scope", "to", "from")}
    assert start == {"layer": 0, "scope": "AtbLnFf", "to": 0, "from": 0}


def test_tracks_hold_the_change_of_each_step_and_what_is_left_since_attention(build: Builder) -> None:
    """The first track is the paper's change by step, the second the change since `Atb`."""
    maps = build(6)
    steps, since = block(sent(maps))["tracks"]
    for told, before, after in ((steps, "AtbLn", "AtbLnFf"), (since, "Atb", "AtbLnFfRes")):
        expected = contextualization_change(maps, before, after).tolist()
        assert told["values"][after] == pytest.approx(expected, rel=1e-12)
    assert [column["ref"] for column in since["columns"]] == ["Atb"] * 4


def test_a_step_without_its_before_scope_has_no_track(build: Builder) -> None:
    """With a choice of scopes, only steps with both sides present have a before and a change."""
    read = block(sent(build(4, scopes=("Atb", "AtbLnFf", "AtbLnFfRes"))))
    assert [(c["name"], c.get("before")) for c in read["channels"]] == [
        ("Atb", None),
        ("AtbLnFf", None),
        ("AtbLnFfRes", "AtbLnFf"),
    ]
    assert [list(track["values"]) for track in read["tracks"]] == [["AtbLnFfRes"]]


def test_a_difference_compares_no_steps(build: Builder) -> None:
    """A difference of two results has no before-scopes; its rail says how large cells are."""
    maps = build(4)
    read = block(sent(maps - maps))
    assert read["signed"] and all("before" not in channel for channel in read["channels"])
    assert [track["title"] for track in read["tracks"]] == ["size"]


def test_heads_come_as_blocks(build: Builder) -> None:
    """Those of the scopes that the page opens with come first; of long texts with two digits."""
    maps = build(5)
    values = {scope: rows[:, None].expand(-1, 3, -1, -1) for scope, rows in maps.values.items()}
    heads = HeadTable(values, maps.layers, ("head 0", "head 1", "residual"))
    read = sent(dataclasses.replace(maps, heads=heads))
    names = list(read["runs"][0]["blocks"])
    assert names[:3] == ["contributions", "AtbLnFf by head", "AtbLn by head"]
    assert block(read, "Atb by head")["of"] == "Atb" and block(read, "Atb by head")["axis"] == "head"
    assert 0.005 < pack(torch.rand(2, 50), coarse=True).precision < 0.02


def test_words_and_special_tokens_are_told() -> None:
    """By the marks of WordPiece, and of tokenizers that mark spaces; a mask is no special token; else each is a word."""
    assert word_numbers(("[CLS]", "un", "##do", "it", "[SEP]")) == (0, 1, 1, 2, 3)
    assert word_numbers(("<s>", "The", " cur", "ator", ",", " old", "est")) == (0, 1, 2, 2, 3, 4, 4)
    assert word_numbers(("a", "b", "c")) == (0, 1, 2)
    assert special_positions(("[CLS]", "[MASK]", "<|im_start|>", "a<b", "<s>", "<mask>", "[x]")) == (0, 2, 4)


def test_maps_beside_are_of_the_same_text(build: Builder) -> None:
    """Other tokens, layers or queries are refused."""
    maps = build(4)
    with pytest.raises(InputError, match="Use the same text for both"):
        page_data({"run": maps}, beside=[build(3).token_maps()])
    attention = dataclasses.replace(maps.token_maps("Atb"), kind="attention")
    assert list(sent(maps, beside=[attention])["runs"][0]["blocks"]) == ["contributions", "attention"]


def test_no_text_can_leave_the_data_block(build: Builder) -> None:
    """Whatever tokens and names hold, the JSON has no angle bracket, ampersand or line separator."""
    hostile = ("</script><script>x=1</script>", "<!--", "&lt;", "\u2028", "\ud800", "a\u202eb")
    text = to_json(page_data({"run": build(6, tokens=hostile, model="</script>")}).payload())
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text)["runs"][0]["tokens"][0] == hostile[0]


@pytest.mark.parametrize(("argument", "value"), [("layer", 7), ("layer", -3), ("scope", "AtbFf")])
def test_unknown_places_are_refused(build: Builder, argument: str, value: object) -> None:
    """A layer or scope that the result does not hold is an InputError naming what there is."""
    with pytest.raises(InputError, match=rf"{argument}.*{value}.*these maps"):
        page_data({"run": build(3)}, **{argument: value})


def test_a_layer_to_open_at_is_counted_from_the_end(build: Builder) -> None:
    """`layer=-1` opens at the last layer held."""
    start = page_data({"run": build(3, layers=(1, 5))}, layer=-1).start
    assert (start.layer, start.scope) == (5, "AtbLnFf")


def test_a_page_that_contradicts_itself_is_refused(build: Builder) -> None:
    """Labels must fit the numbers, and runs each other."""
    data = page_data({"run": build(3)})
    longer = dataclasses.replace(data.text, layers=(0, 1, 2))
    with pytest.raises(InputError, match=r"values of Attn have shape \(2, 3, 3\), expected .* \(3, 3, 3\)"):
        dataclasses.replace(data, text=longer).payload()
    with pytest.raises(InputError, match="run run has 3 tokens and the blocks contributions: expected 2"):
        dataclasses.replace(data, text=dataclasses.replace(data.text, words=(0, 1)))


@pytest.mark.parametrize(
    ("tokens", "segments"),
    [
        (["[CLS]", "a", "[SEP]", "b", "[SEP]"], (("A", 0), ("B", 3))),
        (["<s>", "a", "</s>", "</s>", "b", "</s>"], (("A", 0), ("B", 4))),
        (["</s>", "a", "b"], ()),
        (["[CLS]", "a", "[SEP]"], ()),
        (["[CLS]", "a", "[SEP]", "b", "[SEP]", "c", "[SEP]"], ()),
        (["a", "b"], ()),
    ],
)
def test_two_sentences_are_known_by_the_separator_between(
    build: Builder, tokens: list[str], segments: tuple[tuple[str, int], ...]
) -> None:
    """The second begins behind it; of one sentence, or more than two, there are no segments."""
    assert page_data({"run": build(len(tokens), tokens=tuple(tokens))}).text.segments == segments


def test_segments_are_those_named(build: Builder) -> None:
    """In the order of their beginnings; none where none are wanted; what does not cover the text is refused."""
    maps = build(5, tokens=("[CLS]", "a", "[SEP]", "b", "[SEP]"))
    data = page_data({"run": maps}, segments={"generated": 3, "prompt": 0})
    assert data.text.segments == (("prompt", 0), ("generated", 3))
    assert page_data({"run": maps}, segments={}).text.segments == ()
    for wrong in ({"a": 1}, {"a": 0, "b": 0}, {"a": 0, "b": 5}, {"a": 0, "b": -1}):
        with pytest.raises(InputError, match="the first at 0, each another, none beyond 4"):
            page_data({"run": maps}, segments=wrong)
    with pytest.raises(InputError, match="7 segments: expected at most 6"):
        page_data({"run": build(9)}, segments={f"part {i}": i for i in range(7)})


def _read_back(packed: Packed, reference: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of `pack`, as numbers.js has it: numbers [layer cell] and their codes."""
    payload = packed.payload
    raw = np.frombuffer(zlib.decompress(base64.b64decode(payload["packed"])), dtype=np.uint8).astype(np.int64)
    planes = raw.reshape(payload["bytes"], len(payload["low"]), -1)
    codes = planes[0] * 256 + planes[1] if payload["bytes"] == 2 else planes[0]
    if reference is not None:
        codes = (reference + np.where(codes % 2, -(codes + 1) // 2, codes // 2)) % 65536
    last = 256 ** payload["bytes"] - 1
    levels = (last - 1) // 2 if payload.get("signed") else last - 1
    negative = codes > levels
    low = np.array(payload["low"])[:, None]
    step = np.broadcast_to(payload["step"], len(low))[:, None]  # a number where all layers have one step
    sizes = np.exp(low + step * (codes - 1 - levels * negative))
    return np.where(codes == last, np.nan, np.where(codes == 0, 0.0, np.where(negative, -sizes, sizes))), codes


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_packed_numbers_are_those_of_the_table(signed: bool, coarse: bool) -> None:
    """To the precision told, which is near the worst error and not above it; zeros exactly, and against another table too."""
    generator = torch.Generator().manual_seed(0)
    tables = [torch.rand(3, 4000, generator=generator) ** 4 - 0.3 * signed for _ in range(2)]
    tables[0][1, :7] = 0.0
    first = pack(tables[0], coarse=coarse)
    found, codes = _read_back(first)
    several = [(first, tables[0], found)]
    if not coarse:
        second = pack(tables[1], reference=("first", first))
        several.append((second, tables[1], _read_back(second, codes)[0]))
    for packed, table, numbers in several:
        exact = table.double().numpy()
        large = np.abs(exact) > 1e-3 * np.abs(exact).max(axis=1, keepdims=True)
        error = np.abs(numbers - exact)[large] / np.abs(exact)[large]
        assert 0.7 * packed.precision < error.max() <= packed.precision * (1 + 1e-3)
        assert not numbers[exact == 0].any()
