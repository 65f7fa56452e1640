"""Odd calls of every public function: refused by an error of ours that names argument, value and remedy, or right.

None is silent, none ends in a traceback of somebody else's code. The first tables were found by strangers who tried.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tl_ffblock import heads, memories
from tl_ffblock.bridge.chat import Chat
from tl_ffblock.errors import CallError, FFBlockError, InputError, LayerError, ScopeKeyError
from tl_ffblock.experiments.geva import annotation
from tl_ffblock.graphs import Pruning, overlap, top_tokens

NAN, INF = float("nan"), float("inf")
pytestmark = [pytest.mark.wrong_types, pytest.mark.filterwarnings("ignore")]


# fmt: off
MADE: dict[str, Callable[[Any], Any]] = {
    "m": lambda g: tiny.bridge("gpt2"),
    "wide": lambda g: tiny.bridge("gpt2", n_embd=16, n_head=2),
    "windowed": lambda g: tiny.bridge("mistral"),
    "experts": lambda g: tiny.bridge("mixtral"),
    "bert": lambda g: tiny.bridge("bert"),
    "reader": lambda g: ffb.load_model(str(tiny.save_local("gpt2", g.folder))),
    "maps": lambda g: ffb.contribution_maps(g.m, g.ids),
    "a": lambda g: ffb.attribute(g.m, g.ids, g.target, of=("heads", "edges", "neurons", "graph")),
    "bare": lambda g: ffb.attribute(g.m, g.ids, g.target, of=()),
    "pe": lambda g: ffb.attribution_patching(g.m, g.ids, g.other, g.target, edges=True),
    "c": lambda g: ffb.Contributions(g.m, g.ids),
    "d": lambda g: ffb.decompose(g.m, g.ids, layer=1),
    "tri": lambda g: memories.find_triggers(g.m, [g.ids, g.other], memories=["0:1", "1:2"], k=2),
    "val": lambda g: memories.value_tokens(g.m, memories=["0:1", "1:2"]),
    "parts": lambda g: memories.token_parts(g.m, g.ids, ["0:1", "1:2"]),
    "attention": lambda g: ffb.attention_maps(g.m, g.ids),
    "scores": lambda g: ffb.attention_scores(g.m, g.ids),
    "shares": lambda g: ffb.average_shares([g.a, g.a]),
    "average": lambda g: ffb.average([g.maps, g.maps]),
    "cell": lambda g: ffb.neurons(g.m, g.ids, layer=1, query=-1),
    "graph": lambda g: ffb.flow_graph(g.m, g.ids),
    "faith": lambda g: ffb.faithfulness(g.m, g.ids, g.target, [g.a]),
    "empty": lambda g: (g.folder / "empty").mkdir() or g.folder / "empty",
    "config": lambda g: tiny.hf_model("gpt2").config.save_pretrained(g.folder / "config") or g.folder / "config",
    "rows": lambda g: np.array([[0.0, 1.0], [1.0, 0.0]]),
}
# fmt: on
"""Tiny models and results of every kind."""


class Given:
    """Each of `MADE` as an attribute, made when it is first asked for."""

    ids, other, target = tiny.tokens("gpt2", 6), tiny.tokens("gpt2", 6).flip(0), ffb.logit(7)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = MADE[name](self)
        return value


Odd = tuple[Callable[[Given], Any], type[Exception], tuple[str, ...]]
"""A call, the error that it raises, and what its message says."""


def odd(call: Callable[[Given], Any], *said: str, error: type[Exception] = InputError) -> Odd:
    """A call that is refused."""
    return call, error, said


# fmt: off
INPUTS = {
    "an empty text": odd(lambda g: ffb.contribution_maps(g.reader, ""), "an empty text"),
    "an empty text among others": odd(lambda g: ffb.contribution_maps(g.reader, ["the cat", "\n\t  "]), "an empty text"),
    "an empty list": odd(lambda g: ffb.contribution_maps(g.m, []), "an empty list", "token ids"),
    "ids among texts": odd(lambda g: ffb.contribution_maps(g.m, [1, "cat"]), "input[0] is an int", "token ids"),
    "truth values": odd(lambda g: ffb.contribution_maps(g.m, [True, False]), "input[0] is a bool", "token ids"),
    "a list of lists of prompts": odd(lambda g: ffb.contribution_maps(g.m, [[[5, 6], [7, 8]]]), "input[0] is a list of list", "one prompt"),
    "a list of batches": odd(lambda g: ffb.contribution_maps(g.m, [torch.stack([g.ids] * 2)]), "input[0] is a tensor of shape (2, 6)", "one prompt"),
    "no input": odd(lambda g: ffb.contribution_maps(g.m, None), "input is None", "token ids"),
    "bytes": odd(lambda g: ffb.contribution_maps(g.m, b"cat"), "a bytes"),
    "a number": odd(lambda g: ffb.contribution_maps(g.m, 7), "an int"),
    "a conversation": odd(lambda g: ffb.contribution_maps(g.m, Chat(g.ids[None], {}, {})), "a conversation", "ffb.chat(model, messages).tokens"),
    "messages": odd(lambda g: ffb.contribution_maps(g.m, [{"role": "user", "content": "Hi"}]), "a conversation", "ffb.chat(model, messages).tokens"),
    "a dict": odd(lambda g: ffb.contribution_maps(g.m, {"ids": g.ids}), "a dict of 'ids'", "input_ids"),
    "ids of unlike lengths": odd(lambda g: ffb.attention_maps(g.m, {"input_ids": [[1, 2], [3]]}), "input_ids", "padding=True"),
    "a mask twice": odd(lambda g: ffb.attention_maps(g.m, {"input_ids": [5, 6], "attention_mask": [1, 1]}, attention_mask=torch.ones(2)), "attention_mask is given twice"),
    "token types of a decoder": odd(lambda g: ffb.attention_maps(g.m, {"input_ids": [5, 6], "token_type_ids": [0, 1]}), "token_type_ids", "no token types"),
    "two sentences of a decoder": odd(lambda g: ffb.attention_maps(g.reader, ("the cat", "the dog")), "a tuple of two texts", "[first, second]"),
    "two sentences attributed": odd(lambda g: ffb.attribute(g.reader, ("the cat", "the dog"), g.target), "a tuple of two texts"),
    "two sentences continued": odd(lambda g: ffb.attribute_continuation(g.reader, ("the cat", "the dog"), generate=1), "prompt is a tuple of two texts"),
    "two sentences patched": odd(lambda g: ffb.attribution_patching(g.reader, ("the cat", "a cat"), ["the dog", "a dog"], g.target), "clean is a tuple of two texts"),
    "two sentences patched by hooks": odd(lambda g: ffb.patched_maps(g.reader, ["the cat", "a cat"], ("the dog", "a dog"), fwd_hooks=[]), "corrupted is a tuple of two texts"),
    "two sentences validated": odd(lambda g: ffb.causal_validation(g.reader, ("the cat", "the dog"), g.target), "prompts is a tuple of two texts"),
    "two sentences of a head": odd(lambda g: heads.ablation_effects(g.reader, ("the cat", "the dog"), g.target), "input is a tuple of two texts"),
    "an encoding patched": odd(lambda g: ffb.attribution_patching(g.m, {"input_ids": g.ids}, {"input_ids": g.other}, g.target), "clean is a dict", "input_ids"),
    "ids of floats": odd(lambda g: ffb.contribution_maps(g.m, torch.tensor([0.5, 1.0])), "torch.float32", "integer token ids"),
    "ids of truth values": odd(lambda g: ffb.decompose(g.m, torch.tensor([True]), layer=0), "torch.bool", "integer token ids"),
    "one id without axis": odd(lambda g: ffb.contribution_maps(g.m, torch.tensor(3)), "shape ()"),
    "ids with three axes": odd(lambda g: ffb.contribution_maps(g.m, torch.ones(1, 1, 2).long()), "shape (1, 1, 2)"),
    "no ids": odd(lambda g: ffb.contribution_maps(g.m, torch.ones(0).long()), "no tokens"),
    "no rows of ids": odd(lambda g: ffb.decompose(g.m, torch.ones(0, 4).long(), layer=0), "no tokens"),
    "one id too many": odd(lambda g: ffb.contribution_maps(g.m, torch.ones(49).long()), "49 tokens", "48", "split"),
    "a negative id": odd(lambda g: ffb.contribution_maps(g.m, torch.tensor([3, -1])), "token id -1", "0 to 63"),
    "an id beyond": odd(lambda g: ffb.decompose(g.m, torch.tensor([3, 64]), layer=0), "token id 64", "0 to 63"),
    "a text without tokenizer": odd(lambda g: ffb.contribution_maps(g.m, "the cat"), "no tokenizer", "token ids"),
    "a mask of another length": odd(lambda g: ffb.contribution_maps(g.m, g.ids, attention_mask=torch.ones(4)), "attention_mask", "(4,)", "6"),
    "a mask of other axes": odd(lambda g: ffb.contribution_maps(g.m, g.ids, attention_mask=torch.ones(2, 3)), "attention_mask", "(2, 3)"),
    "a mask of twos": odd(lambda g: ffb.contribution_maps(g.m, g.ids[:3], attention_mask=torch.tensor([0, 1, 2])), "attention_mask", "[0, 1, 2]", "zeros and ones"),
    "a mask to be added": odd(lambda g: ffb.contribution_maps(g.m, g.ids[:2], attention_mask=torch.tensor([0.0, -1e9])), "attention_mask"),
    "a mask of nothing": odd(lambda g: ffb.contribution_maps(g.m, g.ids, attention_mask=torch.zeros(6)), "hides every token", "sequence 0"),
    "a mask with a hole": odd(lambda g: ffb.contribution_maps(g.m, g.ids[:3], attention_mask=torch.tensor([1, 0, 1])), "sequence 0", "[1]", "padding"),
    "a mask of a text": odd(lambda g: ffb.contribution_maps(g.reader, "the cat", attention_mask=torch.ones(3)), "attention_mask", "token tensor"),
    "padding before a text of Llama-4": odd(lambda g: ffb.contribution_maps(tiny.bridge("llama4"), g.ids, attention_mask=torch.tensor([0, 1, 1, 1, 1, 1])), "Llama-4's attention temperature", "after the sequences"),
    "a mask of GPT-1": odd(lambda g: ffb.contribution_maps(tiny.bridge("openai_gpt"), g.ids, attention_mask=torch.tensor([0, 1, 1, 1, 1, 1])), "GPT-1"),
    "segments of another length": odd(lambda g: ffb.contribution_maps(g.bert, g.ids, token_type_ids=torch.zeros(3).long()), "token_type_ids", "shape"),
    "segments beyond": odd(lambda g: ffb.contribution_maps(g.bert, g.ids, token_type_ids=torch.full((6,), 2)), "token_type_ids", "0 to 1"),
    "segments of floats": odd(lambda g: ffb.contribution_maps(g.bert, g.ids, token_type_ids=torch.zeros(6)), "token_type_ids", "integers"),
    "segments of a text": odd(lambda g: ffb.contribution_maps(g.bert, "a text", token_type_ids=torch.zeros(6).long()), "token_type_ids", "text"),
    "a layer that is not there": odd(lambda g: ffb.contribution_maps(g.m, g.ids, layers=3), "no layer 3", "layers 0-2"),
    "a layer beyond the first": odd(lambda g: ffb.contribution_maps(g.m, g.ids, layers=[0, -4]), "no layer -4", "layers 0-2"),
    "no layers": odd(lambda g: ffb.attention_maps(g.m, g.ids, layers=[]), "layers=[]"),
    "no scopes": odd(lambda g: ffb.contribution_maps(g.m, g.ids, scopes=[]), "no scope given", "Attn"),
    "a scope of Pre-LN models": odd(lambda g: ffb.contribution_maps(g.bert, g.ids, scopes="AtbLnFf"), "'AtbLnFf'", "post_ln", "AtbFfResLn"),
    "a query that is not there": odd(lambda g: ffb.contribution_maps(g.m, g.ids, queries=[0, 6]), "queries=[0, 6]", "from -6 to 5"),
    "no queries": odd(lambda g: ffb.attention_maps(g.m, g.ids, queries=[]), "queries=[]"),
    "another method": odd(lambda g: ffb.contribution_maps(g.m, g.ids, method="ig"), "method='ig'", '"exact"'),
    "another place of the values' bias": odd(lambda g: ffb.contribution_maps(g.m, g.ids, value_bias="none"), "value_bias='none'", '"bias"'),
    "no steps": odd(lambda g: ffb.contribution_maps(g.m, g.ids, n_steps=0), "n_steps=0"),
    "rtol 0": odd(lambda g: ffb.contribution_maps(g.m, g.ids, rtol=0), "rtol=0", "positive"),
    "rtol below 0": odd(lambda g: ffb.contribution_maps(g.m, g.ids, rtol=-1.0), "rtol=-1.0", "positive"),
    "heads with captum": odd(lambda g: ffb.decompose(g.m, g.ids, layer=0, heads=True, method="captum"), "heads", 'method="exact"'),
    "no heads": odd(lambda g: ffb.contribution_maps(g.m, g.ids, heads=[]), "heads=[]", "True or heads"),
    "heads as truth values": odd(lambda g: ffb.decompose(g.m, g.ids, layer=0, heads=[True, False]), "heads=[True, False]"),
    "a pair of a head that is not held": odd(lambda g: ffb.attention_scores(g.m, g.ids, heads=[2]).products(0, head=0, query=3, key=1), "head="),
    "a pair of a query that is not held": odd(lambda g: ffb.attention_scores(g.m, g.ids, queries=[3]).products(0, head=0, query=4, key=1), "query="),
    "a pair of a key beyond": odd(lambda g: g.scores.products(0, head=0, query=3, key=6), "key="),
    "a model's name": odd(lambda g: ffb.contribution_maps("gpt2", g.ids), "of type str", "TransformerLens model"),
    "a module of torch": odd(lambda g: ffb.capture(torch.nn.Linear(2, 2)).__enter__(), "of type Linear", "TransformerLens model"),
    "Hugging Face's model": odd(lambda g: ffb.contribution_maps(tiny.hf_model("gpt2"), g.ids), "GPT2LMHeadModel", "boot_transformers"),
    "a model in training": odd(lambda g: ffb.contribution_maps(tiny.bridge("gpt2").train(), g.ids), "training mode", "model.eval()"),
    "a folder that is not there": odd(lambda g: ffb.load_model("./nowhere"), "nowhere", error=OSError),
    "a model that nobody knows": odd(lambda g: ffb.load_model("no-such-model-at-all"), "no-such-model-at-all", error=OSError),
    "a folder without model": odd(lambda g: ffb.load_model(str(g.empty)), "config.json", error=OSError),
    "a folder without weights": odd(lambda g: ffb.load_model(str(g.config)), "safetensors", error=OSError),
}

MAPS = {
    "a scope that is a number": odd(lambda g: ffb.contribution_maps(g.m, g.ids, scopes=3), "scopes=3", "A pre_ln model has Attn"),
    "a scope among numbers": odd(lambda g: ffb.contribution_maps(g.m, g.ids, scopes=["Atb", 3]), "unknown scope 3"),
    "a misspelt scope": odd(lambda g: ffb.contribution_maps(g.m, g.ids, scopes="AtbLnF"), "unknown scope 'AtbLnF'", "Did you mean `AtbLnFf`?"),
    "a layer as float": odd(lambda g: ffb.contribution_maps(g.m, g.ids, layers=1.0), "1.0", "layers 0-2"),
    "a layer as bool": odd(lambda g: ffb.contribution_maps(g.m, g.ids, layers=True), "True", "layers 0-2"),
    "a layer as text": odd(lambda g: ffb.contribution_maps(g.m, g.ids, layers="1"), "'1'", "layers 0-2"),
    "layers of NaN": odd(lambda g: ffb.contribution_maps(g.m, g.ids, layers=[NAN]), "nan", "layers 0-2"),
    "queries as bools": odd(lambda g: ffb.contribution_maps(g.m, g.ids, queries=[True]), "queries=[True]"),
    "a head that is not there": odd(lambda g: ffb.contribution_maps(g.m, g.ids, heads=[9]), "heads=[9]", "from -4 to 3"),
    "heads as text": odd(lambda g: ffb.contribution_maps(g.m, g.ids, heads="12"), "heads='12'", "True or heads"),
    "heads as floats": odd(lambda g: ffb.contribution_maps(g.m, g.ids, heads=[1.5]), "heads=[1.5]"),
    "heads None": odd(lambda g: ffb.contribution_maps(g.m, g.ids, heads=None), "heads=None", "True or heads"),
    "hooks None": odd(lambda g: ffb.contribution_maps(g.m, g.ids, fwd_hooks=None), "fwd_hooks=None", "[(name, function)]"),
    "one hook, not a list": odd(lambda g: ffb.contribution_maps(g.m, g.ids, fwd_hooks=("blocks.1.attn.hook_z", print)), "fwd_hooks=", "[(name, function)]"),
    "hooks as a dict": odd(lambda g: ffb.contribution_maps(g.m, g.ids, fwd_hooks={"blocks.1.attn.hook_z": print}), "fwd_hooks=", "[(name, function)]"),
    "a hook without function": odd(lambda g: ffb.contribution_maps(g.m, g.ids, fwd_hooks=[("blocks.1.attn.hook_z", 3)]), "fwd_hooks=", "[(name, function)]"),
    "a misspelt HookPoint": odd(lambda g: ffb.contribution_maps(g.m, g.ids, fwd_hooks=[("blocks.1.attn.hook_zz", print)]), "no HookPoint blocks.1.attn.hook_zz", "Did you mean `blocks.1.attn.hook_z`?"),
    "a cache that is 0": odd(lambda g: ffb.contribution_maps(g.m, g.ids, cache=0), "cache=0", "ActivationCache"),
    "rtol as text": odd(lambda g: ffb.contribution_maps(g.m, g.ids, rtol="1e-4"), "rtol='1e-4'", "expected a finite number"),
    "bfloat16 with captum": odd(lambda g: ffb.contribution_maps(g.m, g.ids, precision="bfloat16", method="captum"), 'precision="bfloat16"', "captum"),
    "bfloat16 vectors": odd(lambda g: ffb.decompose(g.m, g.ids, layer=1, precision="bfloat16"), 'precision="bfloat16"', "float32"),
    "bfloat16 neurons": odd(lambda g: ffb.neurons(g.m, g.ids, layer=1, query=-1, precision="bfloat16"), 'precision="bfloat16"', "float32"),
    "bfloat16 parts": odd(lambda g: memories.token_parts(g.m, g.ids, "0:1", precision="bfloat16"), 'precision="bfloat16"', "float32"),
    "steps without captum": odd(lambda g: ffb.contribution_maps(g.m, g.ids, n_steps=3), "n_steps=3", 'method="captum"'),
    "another precision": odd(lambda g: ffb.contribution_maps(g.m, g.ids, precision="half"), "precision='half'", '"float32"'),
    "several layers of vectors": odd(lambda g: ffb.decompose(g.m, g.ids, layer=[0, 1]), "layer=[0, 1]", "one per call"),
    "a scope of other norms": odd(lambda g: g.maps["AtbFf", 1], "no scope 'AtbFf'", "`AtbLnFf`", error=ScopeKeyError),
    "a scope of a Post-LN model": odd(lambda g: ffb.contribution_maps(g.bert, g.ids)["AtbLnFf"], "no scope 'AtbLnFf'", "`AtbFf`", error=ScopeKeyError),
    "a layer of maps": odd(lambda g: g.maps["Atb", 9], "no layer 9", "layers 0-2", error=LayerError),
    "three keys of maps": odd(lambda g: g.maps["Atb", 1, 2], "('Atb', 1, 2)", "[scope, layer]", error=ScopeKeyError),
    "a number as scope": odd(lambda g: g.maps[3], "no scope 3", error=ScopeKeyError),
    "a list as scope": odd(lambda g: g.maps[["Atb"]], "['Atb']", error=ScopeKeyError),
    "a scope of vectors": odd(lambda g: g.d.parts("AtbFf"), "AtbFf", "`AtbLnFf`", error=ScopeKeyError),
    "one result beside itself": odd(lambda g: g.maps.to_html(beside=[3]), "beside is of type int", "TokenMaps"),
    "other maps beside": odd(lambda g: g.maps.to_html(beside=g.maps), "beside", "ContributionMaps"),
    "a page against other layers": odd(lambda g: g.maps.to_html(against=ffb.contribution_maps(g.m, g.ids, layers=1)), "layers"),
    "a page against another model": odd(lambda g: g.maps.to_html(against=ffb.contribution_maps(g.bert, g.ids)), "scopes"),
    "a page of another view": odd(lambda g: g.maps.to_html(view="map"), "view='map'", "maps"),
    "a picture of a scope": odd(lambda g: g.maps.figure(layer=1, scope="AtbFf"), "AtbFf", "`AtbLnFf`", error=ScopeKeyError),
    "a picture of layer True": odd(lambda g: g.maps.figure(layer=True, scope="AtbLnFf"), "True"),
    "CircuitsVis of layer 1.5": odd(lambda g: g.maps.to_circuitsvis("AtbLnFf", 1.5), "1.5"),
    "CircuitsVis of a channel": odd(lambda g: g.attention.to_circuitsvis(0, "head 9"), "head 9", error=ScopeKeyError),
    "a heat map of one axis": odd(lambda g: ffb.heat_map(torch.zeros(3)), "(3,)", "2 axes"),
    "a heat map without labels": odd(lambda g: ffb.heat_map(torch.zeros(2, 3), ["a"]), "1 labels of rows and 3 of columns", "2 and 3"),
    "a heat map of a text": odd(lambda g: ffb.heat_map("x"), "'x'", "numbers"),
    "a picture of another kind": odd(lambda g: g.pe.figure(of="headz"), "of='headz'", '"residual", "mlps" or "heads"', "Did you mean `heads`?"),
    "pictures of two kinds": odd(lambda g: g.pe.figure(of=["heads", "mlps"]), "one per call"),
    "a scatter of another kind": odd(lambda g: g.pe.figure(against=g.pe, of="mlpz"), "of='mlpz'", "Did you mean `mlps`?"),
    "memory of another part": odd(lambda g: ffb.memory_estimate(g.m, 8, "attribute", of="head"), "of='head'", "Did you mean `heads`?"),
    "a picture against a number": odd(lambda g: g.pe.figure(against=3), "against is of type int", "a result"),
    "a picture against other axes": odd(lambda g: g.shares.figure(against=g.pe), "by layer, head and by"),
    "sums of attention by layer": odd(lambda g: g.attention.figure(by_layer=True), "by_layer", "TokenMaps"),
    "positions of a token not there": odd(lambda g: ffb.find_positions(["a", " b"], IO="c"), "'c' is nowhere", "['a', ' b']"),
    "positions of half a token": odd(lambda g: ffb.find_positions(["a", " bc"], IO="b"), "'b' is nowhere"),
    "positions of a token that is there twice": odd(lambda g: ffb.find_positions(["a", "b", "a"], S="a"), "'a' is at 0, 2", "('a', 0) is the first"),
    "positions of a third occurrence": odd(lambda g: ffb.find_positions(["a", "b", "a"], S=("a", 2)), "'a' is at 0, 2"),
    "positions of two prompts in one": odd(lambda g: ffb.find_positions(["a", "b"], S=["a", "b"]), "2 tokens of 1 prompts"),
    "positions of nothing": odd(lambda g: ffb.find_positions(["a", "b"]), "0 names"),
    "positions in a model": odd(lambda g: ffb.find_positions(3, S="a"), "3: expected a result"),
    "token maps of a scope": odd(lambda g: g.maps.token_maps("AtbFf"), "AtbFf", error=ScopeKeyError),
    "a mean of one result": odd(lambda g: ffb.ContributionMaps.mean(g.maps), "a list of texts", "got a ContributionMaps"),
    "a mean of nothing": odd(lambda g: ffb.ContributionMaps.mean([]), "expected"),
    "a mean of numbers": odd(lambda g: ffb.ContributionMaps.mean([1, 2]), "expected"),
    "iterating maps": odd(lambda g: list(g.maps), "maps.scopes", error=CallError),
    "amplification of a scope": odd(lambda g: ffb.amplification(g.maps, "Atb", "AtbFf"), "AtbFf", "`AtbLnFf`", error=ScopeKeyError),
    "amplification otherwise": odd(lambda g: ffb.amplification(g.maps, "Atb", "AtbLnFf", normalise="rows"), "'rows'"),
    "change over other cells": odd(lambda g: ffb.contextualization_change(g.maps, "Atb", "AtbLnFf", cells="some"), "cells='some'"),
    "change of a list": odd(lambda g: ffb.contextualization_change([g.maps], "Atb", "AtbLnFf"), "maps is of type list", "TokenMaps", "one per call"),
    "difference with a number": odd(lambda g: ffb.difference(g.maps, 3), "3"),
    "difference of two kinds": odd(lambda g: ffb.difference(g.maps, g.d), "Decomposition"),
    "a file elsewhere": odd(lambda g: g.maps.save("/nowhere/at/all.safetensors"), "/nowhere/at"),
    "a file that is a number": odd(lambda g: g.maps.save(3), "path=3"),
    "attention of another kind": odd(lambda g: ffb.attention_maps(g.m, g.ids, kind="values"), "kind='values'", "pattern"),
    "attention of layer NaN": odd(lambda g: ffb.attention_maps(g.m, g.ids, layers=NAN), "nan"),
    "scores of head True, listed": odd(lambda g: ffb.attention_scores(g.m, g.ids, heads=[True]), "heads=[True]"),
    "attention of one's own": odd(lambda g: ffb.TokenMaps.from_attention(3, ["a"]), "attention"),
    "a nearly right channel": odd(lambda g: g.attention["head3"], "head3", "`head 3`", error=ScopeKeyError),
    "capture of layer 1.5": odd(lambda g: ffb.capture(g.m, 1.5).__enter__(), "1.5"),
    "capture of dtype text": odd(lambda g: ffb.capture(g.m, dtype="float32").__enter__(), "dtype='float32'"),
    "capture of something else": odd(lambda g: ffb.capture(g.m, extra=("value",)).__enter__(), "extra"),
    "neurons of query text": odd(lambda g: ffb.neurons(g.m, g.ids, layer=1, query="END"), "query='END'", "positions="),
    "a check of layer True": odd(lambda g: ffb.check.check_model(g.m, g.ids, layers=True), "True"),
    "a model's name that is a number": odd(lambda g: ffb.load_model(3), "name=3"),
    "a device that is none": odd(lambda g: ffb.load_model("minilm", device="gpu7"), "device='gpu7'", error=FFBlockError),
}

ATTRIBUTIONS = {
    "a text as target": odd(lambda g: ffb.attribute(g.m, g.ids, " cat"), "no tokenizer", "' cat'", "token ids"),
    "an id beyond as target": odd(lambda g: ffb.attribute(g.m, g.ids, 999), "999", "0 to 63"),
    "a fraction as target": odd(lambda g: ffb.attribute(g.m, g.ids, 7.5), "target=7.5", "ffb.logit"),
    "None as target": odd(lambda g: ffb.attribute(g.m, g.ids, None), "target=None", "ffb.logit"),
    "a text as target of patching": odd(lambda g: ffb.attribution_patching(g.m, g.ids, g.other, " cat"), "no tokenizer", "' cat'"),
    "a text as target of faithfulness": odd(lambda g: ffb.faithfulness(g.m, g.ids, " cat", [g.a]), "no tokenizer", "' cat'"),
    "a text as metric of a sweep": odd(lambda g: ffb.contribution_sweep(g.c, " cat", "AtbLnFf"), "metric=' cat'", "ffb.logit"),
    "rules of another name": odd(lambda g: ffb.attribute(g.m, g.ids, g.target, rules="patchin"), "rules='patchin'", "Did you mean `patching`?"),
    "parts of another name": odd(lambda g: ffb.attribute(g.m, g.ids, g.target, of="head"), "of='head'", "Did you mean `heads`?"),
    "parts as a number": odd(lambda g: ffb.attribute(g.m, g.ids, g.target, of=3), "of=3"),
    "parts as a list of lists": odd(lambda g: ffb.attribute(g.m, g.ids, g.target, of=[["heads"]]), "of="),
    "direct parts of another name": odd(lambda g: ffb.direct_logit_attribution(g.m, g.ids, g.target, of="edges"), "of='edges'", "'neurons'"),
    "a lens of a direction": odd(lambda g: ffb.logit_lens(g.m, g.ids, ffb.direction(torch.ones(32), layer=1)), "direction", "ffb.logit"),
    "a lens at 99": odd(lambda g: ffb.logit_lens(g.m, g.ids, at=99), "at=99"),
    "a lens of no tokens": odd(lambda g: ffb.logit_lens(g.m, g.ids, k=0), "k=0"),
    "checkpoint 3": odd(lambda g: ffb.attribute(g.m, g.ids, g.target, checkpoint=3), "checkpoint=3", "True, False or None"),
    "logit of True": odd(lambda g: ffb.logit(True), "True", "token id"),
    "logit of 1.5": odd(lambda g: ffb.logit(1.5), "1.5", "token id"),
    "logit of NaN in a list": odd(lambda g: ffb.logit([NAN]), "nan"),
    "logit of True in a list": odd(lambda g: ffb.logit([[7, True]]), "True"),
    "logit of an empty text": odd(lambda g: ffb.attribute(g.reader, "the cat", ffb.logit("")), "''"),
    "logit at 99": odd(lambda g: ffb.attribute(g.m, g.ids, ffb.logit(7, at=99)), "at=99"),
    "logit of a negative id": odd(lambda g: ffb.attribute(g.m, g.ids, ffb.logit(-1)), "-1", "0 to 63"),
    "a model that is a text": odd(lambda g: ffb.logit(7, model="gpt2"), "model"),
    "divergence from NaN": odd(lambda g: ffb.kl_divergence(torch.full((1, 6, 64), NAN)), "NaN"),
    "divergence from a list": odd(lambda g: ffb.kl_divergence([1.0]), "clean"),
    "loss of floats": odd(lambda g: ffb.loss(torch.tensor([[0.5, 1.0]])), "tokens"),
    "loss of a text": odd(lambda g: ffb.loss("the cat"), "tokens='the cat'"),
    "direction of zeros": odd(lambda g: ffb.direction(torch.zeros(32), layer=1), "vector is zero"),
    "direction of another width": odd(lambda g: ffb.attribute(g.m, g.ids, ffb.direction(torch.ones(5), layer=1)), "5", "32"),
    "direction at a word": odd(lambda g: ffb.direction(torch.ones(32), layer=1, at="last"), "at='last'", '"mean"'),
    "direction as a list": odd(lambda g: ffb.direction([1.0, 2.0], layer=1), "vector"),
    "heads that were not asked for": odd(lambda g: g.bare.heads, "heads", "of=", error=ScopeKeyError),
    "a table of five rows": odd(lambda g: g.a.to_dataframe(5), "of=5", "Did you mean `k=5`?"),
    "a table of five estimates": odd(lambda g: g.pe.to_dataframe(5), "PatchingEstimates.to_dataframe takes no arguments; 1 was given.", error=CallError),
    "shares of a text": odd(lambda g: ffb.average_shares("cat"), "average_shares of str"),
    "a figure without title": odd(lambda g: g.a.figure(titles=None), "Attribution.figure has no argument `titles`. Did you mean `title`?", error=CallError),
    "a figure of another option": odd(lambda g: g.pe.figure(of="heads", nothing=1), "PatchingEstimates.figure has no argument `nothing`", error=CallError),
    "a table of another name": odd(lambda g: g.a.to_dataframe("head"), "of='head'", "Did you mean `heads`?"),
    "token maps of another part": odd(lambda g: g.a.token_maps("head"), "'head'"),
    "a graph of none": odd(lambda g: g.bare.graph(), "graph", error=ScopeKeyError),
    "a mean of one attribution": odd(lambda g: ffb.Attribution.mean(g.a), "a list of texts", "got a Attribution"),
    "average of one": odd(lambda g: ffb.average(g.maps), "average", "[maps]"),
    "average of nothing": odd(lambda g: ffb.average([]), "average", "one result or more"),
    "average of numbers": odd(lambda g: ffb.average([1]), "average"),
    "average of estimates": odd(lambda g: ffb.average([g.pe, g.pe]), "PatchingEstimates", "average_shares"),
    "average at a text": odd(lambda g: ffb.average([g.maps], {"IO": "Mary"}), "positions['IO']='Mary'", "number"),
    "average at 1.5": odd(lambda g: ffb.average([g.maps], {"IO": 1.5}), "positions['IO']"),
    "average by a list": odd(lambda g: ffb.average([g.maps], [1, 2]), "positions=[1, 2]", "by name"),
    "shares of head": odd(lambda g: ffb.average_shares([g.a], of="head"), "of='head'", "Did you mean `heads`?"),
    "shares without heads": odd(lambda g: ffb.average_shares([g.bare]), "heads", "of=", error=ScopeKeyError),
    "estimates of maps 1": odd(lambda g: ffb.attribution_patching(g.m, g.ids, g.other, g.target, maps=1), "maps=1", "True or False"),
    "estimates of edges 1": odd(lambda g: ffb.attribution_patching(g.m, g.ids, g.other, g.target, edges=1), "edges=1", "True, False"),
    "estimates of edges position": odd(lambda g: ffb.attribution_patching(g.m, g.ids, g.other, g.target, edges="position"), "edges='position'", "Did you mean `positions`?"),
    "estimates of unlike lengths": odd(lambda g: ffb.attribution_patching(g.m, g.ids, g.other[:4], g.target), "clean has 6 tokens, corrupted 4: expected equally many"),
    "a continuation of nothing": odd(lambda g: ffb.attribute_continuation(g.m, g.ids), "continuation", "generate"),
    "a continuation of both": odd(lambda g: ffb.attribute_continuation(g.m, g.ids, [7], generate=1), "generate"),
    "a continuation of no tokens": odd(lambda g: ffb.attribute_continuation(g.m, g.ids, []), "continuation"),
    "a continuation of float ids": odd(lambda g: ffb.attribute_continuation(g.m, g.ids, [1.5]), "continuation"),
    "a continuation too long": odd(lambda g: ffb.attribute_continuation(g.m, g.ids, generate=500), "48"),
    "a continuation read otherwise": odd(lambda g: ffb.attribute_continuation(g.m, g.ids, [7], reading="probability"), "reading='probability'"),
    "faithfulness by another removal": odd(lambda g: ffb.faithfulness(g.m, g.ids, g.target, [g.a], removal="zero"), "removal='zero'"),
    "faithfulness of maps": odd(lambda g: ffb.faithfulness(g.m, g.ids, g.target, [g.maps]), "ContributionMaps", "Attribution"),
    "faithfulness of maps by name": odd(lambda g: ffb.faithfulness(g.m, g.ids, g.target, {"maps": g.maps}), "ContributionMaps", "Attribution"),
    "faithfulness of one array": odd(lambda g: ffb.faithfulness(g.m, g.ids, g.target, {"m": np.arange(7.0)}), "'m'", "7", "6"),
    "faithfulness of NaN": odd(lambda g: ffb.faithfulness(g.m, g.ids, g.target, {"m": torch.full((6,), NAN)}), "'m'", "NaN"),
    "faithfulness of nothing": odd(lambda g: ffb.faithfulness(g.m, g.ids, g.target, {}), "results"),
    "faithfulness of cause 99": odd(lambda g: ffb.faithfulness(g.m, g.ids, g.target, [g.a], cause=99), "99"),
    "faithfulness of keys True": odd(lambda g: ffb.faithfulness(g.m, g.ids, g.target, [g.a], keys=[True]), "keys=[True]"),
    "faithfulness by another measure": odd(lambda g: g.faith.mean("MoRf", "path"), "MoRf", "Did you mean `MoRF`?"),
    "faithfulness of another method": odd(lambda g: g.faith.mean("MoRF", "pat"), "pat", "Did you mean `path`?"),
}

FLOW = {
    "a flow graph pruned by 3": odd(lambda g: ffb.flow_graph(g.m, g.ids, pruning=3), "pruning=3", "Pruning"),
    "a flow graph of layers 0 and 2": odd(lambda g: ffb.flow_graph(g.m, g.ids, layers=[0, 2]), "layers=[0, 2]", "consecutive"),
    "a flow graph of layer True": odd(lambda g: ffb.flow_graph(g.m, g.ids, layers=True), "True"),
    "a flow graph beyond the text": odd(lambda g: ffb.flow_graph(g.m, g.ids, position=6), "position=6"),
    "a flow graph at text": odd(lambda g: ffb.flow_graph(g.m, g.ids, position="END"), "position='END'"),
    "a flow graph of target True": odd(lambda g: ffb.flow_graph(g.m, g.ids, target=True), "True"),
    "a flow graph of target 1.5": odd(lambda g: ffb.flow_graph(g.m, g.ids, target=1.5), "target=1.5"),
    "a flow graph of no target": odd(lambda g: ffb.flow_graph(g.m, g.ids, target=[]), "target=[]"),
    "a flow graph of two texts": odd(lambda g: ffb.flow_graph(g.m, torch.stack([g.ids, g.other])), "2 texts", "expected one"),
    "pruning of True": odd(lambda g: Pruning(heads=True), "heads=True"),
    "pruning of 1.5": odd(lambda g: Pruning(heads=1.5), "heads=1.5"),
    "pruning of a list": odd(lambda g: Pruning(rows=3), "rows=3", "two numbers"),
    "top tokens of another width": odd(lambda g: top_tokens(g.m, torch.zeros(2, 5)), "vectors", "5", "32"),
    "top tokens of one vector": odd(lambda g: top_tokens(g.m, torch.ones(32)), "vectors", "[None]"),
    "top tokens of NaN": odd(lambda g: top_tokens(g.m, torch.full((1, 32), NAN)), "vectors", "NaN"),
    "top tokens of a list": odd(lambda g: top_tokens(g.m, [1.0]), "vectors"),
    "tokens read otherwise": odd(lambda g: top_tokens(g.m, torch.ones(1, 32), reading="norm"), "'norm'"),
    "overlap of unlike shapes": odd(lambda g: overlap(torch.ones(1, 2).long(), torch.ones(1, 3).long()), "(1, 2)", "(1, 3)"),
    "overlap of vectors": odd(lambda g: overlap(torch.ones(3), torch.ones(3)), "(3,)"),
    "overlap of a list": odd(lambda g: overlap([[1]], [[1]]), "first"),
}

MEMORIES = {
    "a sign that is both": odd(lambda g: memories.value_tokens(g.m, memories="0:1", sign="both"), "sign='both'", "negative"),
    "a sign of triggers": odd(lambda g: memories.find_triggers(g.m, [g.ids], memories="0:1", sign="plus"), "sign='plus'"),
    "values of k 999": odd(lambda g: memories.value_tokens(g.m, memories="0:1", k=999), "k=999", "64"),
    "values read otherwise": odd(lambda g: memories.value_tokens(g.m, memories="0:1", reading="final"), "'final'"),
    "values of a target 1.5": odd(lambda g: memories.value_tokens(g.m, memories="0:1", targets=[1.5]), "1.5"),
    "values of a target True": odd(lambda g: memories.value_tokens(g.m, memories="0:1", targets=[True]), "True"),
    "values of one text as targets": odd(lambda g: memories.value_tokens(g.m, memories="0:1", targets="cat"), "targets='cat'", "['cat']"),
    "values of layer True": odd(lambda g: memories.value_tokens(g.m, layers=True), "True"),
    "a memory named 1.5": odd(lambda g: memories.value_tokens(g.m, memories=[1.5]), "1.5", "'12:305'"),
    "a memory of True": odd(lambda g: memories.value_tokens(g.m, memories=[(0, True)]), "(0, True)", "'12:305'"),
    "memories as a number": odd(lambda g: memories.value_tokens(g.m, memories=3), "memories=3", "'12:305'"),
    "a memory twice": odd(lambda g: memories.value_tokens(g.m, memories=["0:1", "0:1"]), "0:1", "twice"),
    "a memory twice, from the end": odd(lambda g: memories.find_triggers(g.m, [g.ids], memories=["2:1", "-1:1"]), "2:1", "twice"),
    "a memory twice in parts": odd(lambda g: memories.token_parts(g.m, g.ids, ["0:1", (0, 1)]), "0:1", "twice"),
    "a memory twice carried": odd(lambda g: memories.carried(g.a, ["0:1", "0:1"]), "0:1", "twice"),
    "a memory twice knocked out": odd(lambda g: memories.ablate_neurons(g.m, ["0:1", "0:1"]), "0:1", "twice"),
    "parts at several": odd(lambda g: memories.token_parts(g.m, g.ids, "0:1", query=[1, 2]), "query=[1, 2]"),
    "parts at 99": odd(lambda g: memories.token_parts(g.m, g.ids, "0:1", query=99), "query=99"),
    "parts of two texts": odd(lambda g: memories.token_parts(g.m, torch.stack([g.ids, g.other]), "0:1"), "several sequences"),
    "knock-out at nothing": odd(lambda g: memories.ablate_neurons(g.m, "0:1", positions=[]), "positions=[]"),
    "knock-out at 99": odd(lambda g: ffb.contribution_maps(g.m, g.ids, fwd_hooks=memories.ablate_neurons(g.m, "0:1", positions=99)), "positions=(99,)", "6 tokens"),
    "knock-out to a dict of names": odd(lambda g: memories.ablate_neurons(g.m, "0:1", to={"0:2": 1.0}), "to", "0:1"),
    "knock-out to NaN by name": odd(lambda g: memories.ablate_neurons(g.m, "0:1", to={memories.MemoryName(0, 1): NAN}), "nan"),
    "triggers per word": odd(lambda g: memories.find_triggers(g.m, [g.ids], memories="0:1", per="word"), "per='word'"),
    "triggers of one text": odd(lambda g: memories.find_triggers(g.reader, "the cat", memories="0:1"), "texts", "list"),
    "triggers of no text": odd(lambda g: memories.find_triggers(g.m, [], memories="0:1"), "texts is empty"),
    "triggers of numbers": odd(lambda g: memories.find_triggers(g.m, [3], memories="0:1"), "texts"),
    "triggers of a number": odd(lambda g: memories.find_triggers(g.m, 3, memories="0:1"), "texts=3"),
    "triggers of another memory": odd(lambda g: g.tri.of("2:2"), "2:2", "not among"),
    "the largest carried of maps": odd(lambda g: memories.largest_carried(g.maps), "ContributionMaps", "ffb.attribute"),
    "carried of maps": odd(lambda g: memories.carried(g.maps, "0:1"), "ContributionMaps", "ffb.attribute"),
    "ablation elsewhere": odd(lambda g: memories.remove_tokens(g.m, g.tri, where=["middle"]), "where"),
    "ablation of one text": odd(lambda g: memories.remove_tokens(g.m, g.tri, where="first"), "where='first'", "['first']"),
    "ablation of values": odd(lambda g: memories.remove_tokens(g.m, g.val), "triggers", "ValueTokens"),
    "effects of values and triggers": odd(lambda g: memories.neuron_ablation_effects(g.m, g.val, g.tri), "triggers", "ValueTokens"),
    "agreement of values and triggers": odd(lambda g: memories.agreement(g.val, g.tri), "triggers", "ValueTokens"),
    "a card of two": odd(lambda g: memories.memory_card(g.m, [g.ids], ["0:1", "0:2"]), "memory"),
    "a sheet of values": odd(lambda g: annotation.write_annotation_sheet(g.val, g.folder / "sheet.csv"), "triggers", "ValueTokens"),
}

INTERVENTIONS = {
    "a head by its label": odd(lambda g: g.c.subtract(1, "AtbLnFf", head="L3H2"), "head='L3H2'"),
    "a head that is not there": odd(lambda g: g.c.subtract(1, "AtbLnFf", head=9), "head=9", "from -4 to 3"),
    "a head with the bias": odd(lambda g: g.c.subtract(1, "AtbLnFf", head=1, bias=True), "bias=True"),
    "the bias as 1": odd(lambda g: g.c.subtract(1, "AtbLnFf", bias=1), "bias=1", "True or False"),
    "a scope and a layer exchanged": odd(lambda g: g.c.subtract("AtbLnFf", 1), "AtbLnFf"),
    "a misspelt scope": odd(lambda g: g.c.subtract(1, "AtbLnF"), "AtbLnF", "Did you mean `AtbLnFf`?"),
    "a scope of other norms": odd(lambda g: g.c.subtract(1, "AtbFf"), "AtbFf", "`AtbLnFf`"),
    "query and key exchanged": odd(lambda g: g.c.subtract(1, "Attn", query=1, key=4), "query=1", "key=4", "query=4, key=1"),
    "query and key exchanged in scale": odd(lambda g: g.c.scale(2.0, 1, "Attn", query=1, key=4), "query=4, key=1"),
    "query and key exchanged in replace": odd(lambda g: g.c.replace(g.c, 1, "Attn", query=1, key=4), "query=4, key=1"),
    "a donor that is a model": odd(lambda g: g.c.replace(g.m, 1, "Attn"), "donor", "ffb.Contributions"),
    "axes of other names": odd(lambda g: g.c.patch_setter("Attn", axes=("layer", "query")), "axes", "dest_pos"),
    "a donor of another length": odd(lambda g: g.c.replace(ffb.Contributions(g.m, g.ids[:4]), 1, "Attn"), "donor", "4"),
    "prompt 9": odd(lambda g: g.c.prompt(9), "index=9"),
    "prompt True": odd(lambda g: g.c.prompt(True), "index=True"),
    "labels of prompt 9": odd(lambda g: g.c.labels(9), "index=9"),
    "a record of prompt 9": odd(lambda g: g.c.record(1, 9), "index=9"),
    "cells as a number": odd(lambda g: g.c.cells(1, "Attn", 3), "cells=3", "(query, key)"),
    "cells of floats": odd(lambda g: g.c.cells(1, "Attn", [(1.5, 0)]), "1.5"),
    "cells that do not exist": odd(lambda g: g.c.cells(1, "Attn", [(9, 0)]), "9"),
    "contributions of hooks None": odd(lambda g: ffb.Contributions(g.m, g.ids, fwd_hooks=None), "fwd_hooks=None"),
    "contributions of nothing": odd(lambda g: ffb.Contributions(g.m, []), "input"),
    "a sweep of a model": odd(lambda g: ffb.contribution_sweep(g.m, g.ids, g.target), "contributions", "ffb.Contributions(model, prompts)"),
    "a sweep without a metric": odd(lambda g: ffb.contribution_sweep(g.c, "Attn", g.target), "scope is of type AnswerMetric", "a text"),
    "a sweep of heads 1.5": odd(lambda g: ffb.contribution_sweep(g.c, g.target, "Attn", heads=1.5), "heads=1.5"),
    "a sweep of a misspelt name": odd(lambda g: ffb.contribution_sweep(g.c, g.target, "Attn", queries="EN", positions={"END": -1, "IO": 1}), "'EN'", "Did you mean `END`?"),
    "a sweep of cells after their query": odd(lambda g: ffb.contribution_sweep(g.c, g.target, "Attn", queries=1, keys=[3, 4]), "queries=1", "keys=[3, 4]"),
    "a sweep with a donor that is a model": odd(lambda g: ffb.contribution_sweep(g.c, g.target, "Attn", donor=g.m), "donor", "ffb.Contributions"),
    "a removal of layer True": odd(lambda g: ffb.interventions.removal(g.c, True, "Attn", 1, 0), "layer=True", "a whole number"),
    "a removal of a cell that does not exist": odd(lambda g: ffb.interventions.removal(g.c, 1, "Attn", 1, 4), "query=1", "key=4"),
    "validation by plan 3": odd(lambda g: ffb.causal_validation(g.m, [g.ids], plan=3), "plan=3", "SamplePlan"),
    "validation of one prompt and a list": odd(lambda g: ffb.causal_validation(g.m, g.ids, corrupted=[g.ids, g.other]), "prompts is one prompt", "corrupted is a list of 2"),
    "validation of knock-outs 1": odd(lambda g: ffb.causal_validation(g.m, [g.ids], edge_knockout=1), "edge_knockout=1"),
    "patched maps without hooks": odd(lambda g: ffb.patched_maps(g.m, g.ids, g.other, fwd_hooks=None), "fwd_hooks=None"),
    "a layer of a sweep's point": odd(lambda g: ffb.interventions.edit_point(g.c.model, True, "Attn"), "layer=True", "a whole number"),
}

HEADS = {
    "clusters of lists": odd(lambda g: heads.clusters([[0, 1], [1, 0]], 1), "distances", "np.asarray"),
    "clusters of NaN": odd(lambda g: heads.clusters(np.full((2, 2), NAN), 1), "distances"),
    "a plane of lists": odd(lambda g: heads.plane([[0, 1], [1, 0]]), "distances", "np.asarray"),
    "entropy of contributions": odd(lambda g: heads.entropy(g.maps), "ContributionMaps", "token_maps()"),
    "divergences of contributions": odd(lambda g: heads.divergences(g.maps), "ContributionMaps", "token_maps()"),
    "a summary of a tensor": odd(lambda g: heads.summary(torch.ones(2, 2), {}), "Tensor"),
    "a summary of groups as a list": odd(lambda g: heads.summary(g.attention, [True]), "groups"),
    "a summary by threshold NaN": odd(lambda g: heads.summary(g.attention, {}, {"previous": NAN}), "previous", "nan"),
    "a summary by threshold True": odd(lambda g: heads.summary(g.attention, {}, {"previous": True}), "True"),
    "a summary by threshold text": odd(lambda g: heads.summary(g.attention, {}, {"previous": "x"}), "'x'"),
    "a summary by an unknown threshold": odd(lambda g: heads.summary(g.attention, {}, {"previos": 0.5}), "previos", "Did you mean `previous`?"),
    "special tokens at 99": odd(lambda g: heads.token_groups(["a"], [99]), "special=[99]"),
    "words otherwise": odd(lambda g: heads.word_maps(g.attention, [0, 0, 1, 1, 2, 2], special="no"), "special='no'"),
    "ablation by another value": odd(lambda g: heads.ablation_effects(g.m, g.ids, g.target, replacement="median"), "replacement='median'"),
    "ablation by a list": odd(lambda g: heads.ablation_effects(g.m, g.ids, [" cat"]), "metric=[' cat']", "ffb.logit"),
    "gradients by a list": odd(lambda g: heads.attention_gradients(g.m, g.ids, [" cat"]), "metric=[' cat']", "ffb.logit"),
    "hits of unlike lengths": odd(lambda g: heads.share_of_hits(np.array([True]), np.array([0, 1])), "1", "2"),
}
SECOND = {
    "ids as an array of floats": odd(lambda g: ffb.contribution_maps(g.m, np.array([7.0, 8.0])), "input[0] is a float", "token ids"),
    "a short mask as a list": odd(lambda g: ffb.contribution_maps(g.m, g.ids, attention_mask=[1] * 5), "attention_mask", "shape (5,)", "(6,)"),
    "segments as letters": odd(lambda g: ffb.contribution_maps(g.bert, g.ids, token_type_ids=["A"] * 6), "token_type_ids=['A', ", "tensor"),
    "segments as 0": odd(lambda g: ffb.contribution_maps(g.bert, g.ids, token_type_ids=0), "token_type_ids=0", "tensor"),
    "segments of GPT-2": odd(lambda g: ffb.contribution_maps(g.m, g.ids, token_type_ids=torch.zeros(6).long()), "token_type_ids", "Omit them"),
    "queries in a dict": odd(lambda g: ffb.contribution_maps(g.m, g.ids, queries={}), "queries={}", "expected positions"),
    "queries in a list of lists": odd(lambda g: ffb.contribution_maps(g.m, g.ids, queries=[[1, 2]]), "queries=[[1, 2]]"),
    "layers in a list of lists": odd(lambda g: ffb.contribution_maps(g.m, g.ids, layers=[[0, 1]]), "no layer [0, 1]"),
    "layers as a slice": odd(lambda g: ffb.contribution_maps(g.m, g.ids, layers=slice(0, 2)), "slice(0, 2", "layers 0-2"),
    "heads as a slice": odd(lambda g: ffb.contribution_maps(g.m, g.ids, heads=slice(0, 2)), "heads=slice(0, 2"),
    "hooks as a function": odd(lambda g: ffb.contribution_maps(g.m, g.ids, fwd_hooks=print), "fwd_hooks=", "[(name, function)]"),
    "hooks as a text": odd(lambda g: ffb.contribution_maps(g.m, g.ids, fwd_hooks="blocks.0.hook_out"), "fwd_hooks=", "[(name, function)]"),
    "hooks as a generator": odd(lambda g: ffb.contribution_maps(g.m, g.ids, fwd_hooks=(pair for pair in ())), "fwd_hooks=", "a list"),
    "a hook that returns a text": odd(lambda g: ffb.contribution_maps(g.m, g.ids, fwd_hooks=[("blocks.1.hook_out", lambda x, hook: "a")]), "a hook returned str"),
    "an empty cache": odd(lambda g: ffb.contribution_maps(g.m, g.ids, cache={}), "cache has no"),
    "maps times NaN": odd(lambda g: g.maps * NAN, "times nan"),
    "maps times True": odd(lambda g: g.maps * True, "times True"),
    "maps by infinity": odd(lambda g: g.maps / INF, "divided by inf"),
    "a page's segments as a list": odd(lambda g: g.maps.to_html(segments=[1]), "segments=[1]", "by name"),
    "a page's segments at 1.5": odd(lambda g: g.maps.to_html(segments={"a": 0, "b": 1.5}), "segments['b']=1.5"),
    "a page at scope AtbFf": odd(lambda g: g.maps.to_html(scope="AtbFf"), "AtbFf", error=FFBlockError),
    "attention of tokens 3": odd(lambda g: ffb.TokenMaps.from_attention([torch.ones(1, 2, 2, 2)], 3), "tokens=3"),
    "attention of texts": odd(lambda g: ffb.TokenMaps.from_attention(["x"], ["a", "b"]), "attention=['x']"),
    "tables of heads 1": odd(lambda g: g.maps.to_dataframe(heads=1), "heads=1", "True or False"),
    "a metric's class": odd(lambda g: ffb.attribute(g.m, g.ids, ffb.Metric), "target=", "ffb.logit"),
    "divergence of another width": odd(lambda g: ffb.attribute(g.m, g.ids, ffb.kl_divergence(torch.randn(1, 6, 5))), "5 tokens", "64"),
    "loss of ids beyond": odd(lambda g: ffb.attribute(g.m, g.ids, ffb.loss(torch.full((1, 6), 999))), "999", "0 to 63"),
    "logit of a truth tensor": odd(lambda g: ffb.logit(torch.tensor([True])), "True"),
    "logit of a float tensor": odd(lambda g: ffb.logit(torch.tensor([1.5])), "1.5"),
    "logit of nothing": odd(lambda g: ffb.logit([]), "[]", "a word, a token id"),
    "logit of a dict": odd(lambda g: ffb.logit({}), "{}", "a word, a token id"),
    "a continuation that is a number": odd(lambda g: ffb.attribute_continuation(g.m, g.ids, 7), "continuation=7", "token ids"),
    "a continuation's row 9": odd(lambda g: ffb.attribute_continuation(g.m, g.ids, [7]).sums(9), "row=9"),
    "a continuation of an encoder": odd(lambda g: ffb.attribute_continuation(g.bert, g.ids, [7]), "expected a causal model"),
    "faithfulness of a numbered method": odd(lambda g: ffb.faithfulness(g.m, g.ids, g.target, {3: [g.a]}), "key 3", "method's name"),
    "faithfulness of a text": odd(lambda g: ffb.faithfulness(g.m, g.ids, g.target, "path"), "results", "Attributions"),
    "a pruning's class": odd(lambda g: ffb.flow_graph(g.m, g.ids, pruning=Pruning), "pruning", "Pruning(heads=5)"),
    "a flow graph's target None, listed": odd(lambda g: ffb.flow_graph(g.m, g.ids, target=[None]), "target=None"),
    "overlap of floats": odd(lambda g: overlap(torch.ones(1, 2), torch.ones(1, 2)), "first", "float32", "token ids"),
    "values of a target 3": odd(lambda g: memories.value_tokens(g.m, memories="0:1", targets=3), "targets=3", "[3]"),
    "values of a target 999": odd(lambda g: memories.value_tokens(g.m, memories="0:1", targets=[999]), "999", "0 to 63"),
    "a trigger of row 9": odd(lambda g: g.tri.prefix(9, 0), "row=9", "rows 0 to 1"),
    "a trigger of rank 99": odd(lambda g: g.tri.prefix(0, 99), "rank=99"),
    "a card of texts 3": odd(lambda g: memories.memory_card(g.m, 3, "0:1"), "texts=3", "list of texts"),
    "a card with maps": odd(lambda g: memories.memory_card(g.m, [g.ids], "0:1", k=1).on_text(g.m, g.ids, g.maps), "ContributionMaps", "ffb.attribute"),
    "active of lists": odd(lambda g: memories.active([[1.0]], [1.0], "positive"), "coefficients is of type list", "torch.as_tensor"),
    "cells of nothing": odd(lambda g: g.c.cells(1, "Attn", []), "cells=[]", "(query, key)"),
    "an index too short": odd(lambda g: g.c.patch_setter("Attn")(torch.zeros(1, 6, 32), (1,), torch.zeros(1, 6, 32)), "index=[1]", "3 numbers"),
    "validation of None": odd(lambda g: ffb.causal_validation(g.m, None), "prompts is None", "a list of texts"),
    "edits that are 3": odd(lambda g: ffb.interventions.measure_edits(g.c, 3, g.target), "edits=3", "removal"),
    "edits that are numbers": odd(lambda g: ffb.interventions.measure_edits(g.c, [3], g.target), "edits=[3]", "removal"),
    "arcs that are 3": odd(lambda g: heads.Arcs.of(3), "arcs=3", "(dependent, head, name)"),
    "arcs without names": odd(lambda g: heads.Arcs.of([(1, 2)]), "arcs=[(1, 2)]", "(dependent, head, name)"),
    "sentences that are 3": odd(lambda g: heads.relation_hits(3), "sentences=3", "Arcs"),
    "mentions as a text": odd(lambda g: heads.antecedent_hits(g.attention, "x"), "mentions='x'", "pairs"),
    "mentions of floats": odd(lambda g: heads.nearest_hits([(1, 1.5)]), "mentions=[(1, 1.5)]", "pairs"),
    "words attached in no sentence": odd(lambda g: heads.attached_at([], 1), "sentences", "one sentence at least"),
    "means of 3": odd(lambda g: heads.means(3), "numbers=3", "query_statistics"),
    "behaviours of 3": odd(lambda g: heads.behaviours(3), "statistics=3"),
    "groups of tokens 3": odd(lambda g: heads.token_groups(3), "tokens=3", "maps.tokens"),
    "groups of numbers": odd(lambda g: heads.token_groups([1, 2]), "tokens=[1, 2]"),
    "a record's function that is 3": odd(lambda g: ffb.capture(g.m, on_record=3).__enter__(), "on_record=3", "a function"),
    "a study's misspelt option": odd(lambda g: ffb.experiments.study("amplification", thresold=3), "thresold", error=CallError),
}

Number = Callable[[Given, Any], Any]
WHOLE: list[tuple[str, int | None, Number]] = [
    ("layers", None, lambda g, v: ffb.contribution_maps(g.m, g.ids, layers=v)),
    ("layers", None, lambda g, v: ffb.check.check_model(g.m, g.ids, layers=v)),
    ("layers", None, lambda g, v: ffb.flow_graph(g.m, g.ids, layers=v)),
    ("layers", None, lambda g, v: memories.value_tokens(g.m, layers=v)),
    ("layers", None, lambda g, v: ffb.attention_maps(g.m, g.ids, layers=v)),
    ("layer", None, lambda g, v: ffb.decompose(g.m, g.ids, layer=v)),
    ("layer", None, lambda g, v: ffb.neurons(g.m, g.ids, layer=v, query=-1)),
    ("layer", None, lambda g, v: ffb.direction(torch.ones(32), layer=v)),
    ("layer", None, lambda g, v: g.a.neurons(v)),
    ("layer", None, lambda g, v: g.pe.neurons(v)),
    ("layer", None, lambda g, v: g.c.subtract(v, "AtbLnFf")),
    ("layer", None, lambda g, v: g.maps.to_html(layer=v)),
    ("layer", None, lambda g, v: g.maps.figure(layer=v, scope="AtbLnFf")),
    ("queries", None, lambda g, v: ffb.contribution_maps(g.m, g.ids, queries=v)),
    ("queries", None, lambda g, v: ffb.contribution_sweep(g.c, g.target, "Attn", queries=v)),
    ("query", None, lambda g, v: ffb.neurons(g.m, g.ids, layer=1, query=v)),
    ("query", None, lambda g, v: memories.token_parts(g.m, g.ids, "0:1", query=v)),
    ("query", None, lambda g, v: g.c.subtract(1, "AtbLnFf", query=v)),
    ("key", None, lambda g, v: g.c.subtract(1, "AtbLnFf", key=v)),
    ("query", None, lambda g, v: g.maps.to_html(query=v)),
    ("at", None, lambda g, v: ffb.logit(7, at=v)),
    ("at", None, lambda g, v: ffb.kl_divergence(at=v)),
    ("position", None, lambda g, v: ffb.flow_graph(g.m, g.ids, position=v)),
    ("positions", None, lambda g, v: memories.ablate_neurons(g.m, "0:1", positions=v)),
    ("cause", None, lambda g, v: ffb.faithfulness(g.m, g.ids, g.target, [g.a], cause=v)),
    ("seed", 0, lambda g, v: ffb.faithfulness(g.m, g.ids, g.target, [g.a], seed=v)),
    ("seed", 0, lambda g, v: ffb.average([g.maps, g.maps], seed=v)),
    ("seed", 0, lambda g, v: ffb.average_shares([g.a, g.a], seed=v)),
    ("seed", 0, lambda g, v: memories.remove_tokens(g.m, g.tri, seed=v)),
    ("seed", 0, lambda g, v: ffb.interventions.SamplePlan(seed=v)),
    ("seed", 0, lambda g, v: heads.plane(g.rows, seed=v)),
    ("seed", 0, lambda g, v: heads.share_of_hits(np.array([True]), np.array([0]), seed=v)),
    ("seed", 0, lambda g, v: heads.Training(seed=v)),
    ("n_draws", 1, lambda g, v: ffb.average([g.maps, g.maps], n_draws=v)),
    ("n_draws", 1, lambda g, v: ffb.average_shares([g.a, g.a], n_draws=v)),
    ("n_draws", 1, lambda g, v: heads.share_of_hits(np.array([True]), np.array([0]), n_draws=v)),
    ("k", 1, lambda g, v: ffb.neurons(g.m, g.ids, layer=1, query=-1, k=v)),
    ("k", 1, lambda g, v: g.cell.top(v)),
    ("k", 1, lambda g, v: g.cell.to_dataframe(v)),
    ("k", 1, lambda g, v: g.a.to_dataframe("heads", v)),
    ("k", 1, lambda g, v: g.shares.to_dataframe(v)),
    ("k", 1, lambda g, v: g.pe.edge_estimates.top(v)),
    ("k", 1, lambda g, v: g.pe.edge_estimates.to_networkx(v)),
    ("k", 1, lambda g, v: top_tokens(g.m, torch.ones(1, 32), v)),
    ("k", 1, lambda g, v: memories.value_tokens(g.m, memories="0:1", k=v)),
    ("k", 1, lambda g, v: memories.find_triggers(g.m, [g.ids], memories="0:1", k=v)),
    ("k", 1, lambda g, v: memories.largest_carried(g.a, k=v)),
    ("k", 1, lambda g, v: memories.memory_card(g.m, [g.ids], "0:1", k=v)),
    ("skip_first", 0, lambda g, v: memories.find_triggers(g.m, [g.ids], memories="0:1", skip_first=v)),
    ("skip_first", 0, lambda g, v: memories.mean_coefficients(g.m, [g.ids], "0:1", skip_first=v)),
    ("ranks", 1, lambda g, v: memories.remove_tokens(g.m, g.tri, ranks=v)),
    ("ranks", 1, lambda g, v: memories.neuron_ablation_effects(g.m, g.tri, g.val, ranks=v)),
    ("steps", 1, lambda g, v: ffb.attribution_patching(g.m, g.ids, g.other, g.target, steps=v)),
    ("n_steps", 1, lambda g, v: ffb.contribution_maps(g.m, g.ids, method="captum", n_steps=v)),
    ("generate", 1, lambda g, v: ffb.attribute_continuation(g.m, g.ids, generate=v)),
    ("chunk_bytes", 1, lambda g, v: ffb.contribution_maps(g.m, g.ids, chunk_bytes=v)),
    ("batch_size", 1, lambda g, v: ffb.contribution_sweep(g.c, g.target, "Attn", batch_size=v)),
    ("batch_size", 1, lambda g, v: ffb.interventions.measure_edits(g.c, [], g.target, batch_size=v)),
    ("n_cells", 1, lambda g, v: ffb.interventions.SamplePlan(n_cells=v)),
    ("count", 1, lambda g, v: heads.clusters(g.rows, v)),
    ("n_folds", 2, lambda g, v: heads.folds_of(np.array([0, 1]), v)),
    ("max_iterations", 1, lambda g, v: heads.Training(max_iterations=v)),
]
"""Options that are whole numbers, and the least that there is."""
REAL: list[tuple[str, Number]] = [
    ("rtol", lambda g, v: ffb.contribution_maps(g.m, g.ids, rtol=v)),
    ("rtol", lambda g, v: ffb.attribute(g.m, g.ids, g.target, rtol=v)),
    ("rtol", lambda g, v: ffb.check.check_model(g.m, g.ids, rtol=v)),
    ("keep", lambda g, v: g.a.graph(v)),
    ("height", lambda g, v: g.maps.show(height=v)),
    ("width", lambda g, v: g.maps.figure(layer=1, scope="AtbLnFf", width=v)),
    ("to", lambda g, v: memories.ablate_neurons(g.m, "0:1", to=v)),
    ("to", lambda g, v: memories.neuron_ablation_effects(g.m, g.tri, g.val, to=v)),
    ("factor", lambda g, v: g.c.scale(v, 1, "AtbLnFf")),
    ("read_share", lambda g, v: ffb.interventions.SamplePlan(read_share=v)),
    ("tolerance", lambda g, v: heads.Training(tolerance=v)),
]
"""Options that are numbers."""
# fmt: on

ODD = {"inputs": INPUTS, "maps": MAPS, "attributions": ATTRIBUTIONS, "flow": FLOW, "memories": MEMORIES}
ODD |= {"interventions": INTERVENTIONS, "heads": HEADS, "second pass": SECOND}
CASES = [pytest.param(*case, id=f"{area}: {name}") for area, cases in ODD.items() for name, case in cases.items()]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    """What the calls are made of."""
    return Given(tmp_path_factory.mktemp("odd"))


@pytest.mark.parametrize(("call", "error", "said"), CASES)
def test_an_odd_call_is_refused_in_words(
    given: Given, call: Callable[[Given], Any], error: type[Exception], said: tuple[str, ...]
) -> None:
    """By an error of ours of the class that a caller would guess, which names argument, value and remedy."""
    with pytest.raises(error) as raised:
        call(given)
    assert isinstance(raised.value, FFBlockError)
    assert [part for part in said if part not in str(raised.value)] == []


def refuses(call: Callable[[], Any], option: str, value: Any) -> None:
    """An error of ours names the value, and the option where it is not one of several."""
    with pytest.raises(FFBlockError) as raised:
        call()
    assert isinstance(raised.value, ValueError | TypeError | KeyError)
    assert repr(value) in str(raised.value), str(raised.value)
    assert option.rstrip("s") in str(raised.value), str(raised.value)


@pytest.mark.filterwarnings("ignore:chunk_bytes is max_memory")
@pytest.mark.parametrize(
    ("option", "least", "call"), [pytest.param(*row, id=f"{row[0]}-{n}") for n, row in enumerate(WHOLE)]
)
def test_a_whole_number_is_no_other_thing(given: Given, option: str, least: int | None, call: Number) -> None:
    """Not a truth value, a fraction, a text, NaN, nor less than there is."""
    for value in (True, 1.5, "x", NAN, *(() if least is None else (least - 1, -7))):
        refuses(lambda value=value: call(given, value), option, value)


@pytest.mark.parametrize(("option", "call"), [pytest.param(*row, id=f"{row[0]}-{n}") for n, row in enumerate(REAL)])
def test_a_number_is_finite_and_no_other_thing(given: Given, option: str, call: Number) -> None:
    """Not a truth value, a text, NaN or infinity."""
    for value in (True, "x", NAN, INF):
        refuses(lambda value=value: call(given, value), option, value)


RIGHT: dict[str, tuple[Callable[[Given], Any], Callable[[Given], Any]]] = {
    "ids as a range": (lambda g: ffb.contribution_maps(g.m, range(5, 9)), lambda g: ffb.contribution_maps(g.m, [5, 6, 7, 8])),
    "ids as a tuple": (lambda g: ffb.contribution_maps(g.m, (7, 8)), lambda g: ffb.contribution_maps(g.m, [7, 8])),
    "ids in a tokenizer's output": (lambda g: ffb.contribution_maps(g.m, {"input_ids": g.ids, "token_type_ids": [0] * 6, "special": 1}), lambda g: g.maps),
    "ids, mask and types": (lambda g: ffb.attention_maps(g.bert, {"input_ids": [[5, 6, 7], [8, 9, 0]], "attention_mask": [[1, 1, 1], [1, 1, 0]], "token_type_ids": [[0, 1, 1], [0, 0, 0]]}), lambda g: ffb.attention_maps(g.bert, torch.tensor([[5, 6, 7], [8, 9, 0]]), attention_mask=torch.tensor([[1, 1, 1], [1, 1, 0]]), token_type_ids=torch.tensor([[0, 1, 1], [0, 0, 0]]))),
    "layers as a set": (lambda g: ffb.contribution_maps(g.m, g.ids, layers={2, 0}), lambda g: ffb.contribution_maps(g.m, g.ids, layers=[0, 2])),
    "layers as an array": (lambda g: ffb.contribution_maps(g.m, g.ids, layers=np.array([0, 2])), lambda g: ffb.contribution_maps(g.m, g.ids, layers=[0, 2])),
    "a layer as a numpy number": (lambda g: g.maps["Atb", np.int64(1)].tolist(), lambda g: g.maps["Atb", 1].tolist()),
    "queries as a tensor": (lambda g: ffb.contribution_maps(g.m, g.ids, queries=torch.tensor([-1])), lambda g: ffb.contribution_maps(g.m, g.ids, queries=5)),
    "heads as a tensor": (lambda g: ffb.contribution_maps(g.m, g.ids, heads=torch.tensor([1])), lambda g: ffb.contribution_maps(g.m, g.ids, heads=1)),
    "k as a numpy number": (lambda g: memories.value_tokens(g.m, memories="0:1", k=np.int32(3)), lambda g: memories.value_tokens(g.m, memories="0:1", k=3)),
    "rtol as a numpy number": (lambda g: ffb.contribution_maps(g.m, g.ids, rtol=np.float32(1e-3)).tokens, lambda g: g.maps.tokens),
    "a truth value of numpy": (lambda g: ffb.attribute(g.m, g.ids, g.target, checkpoint=np.bool_(False)), lambda g: ffb.attribute(g.m, g.ids, g.target, checkpoint=False)),
    "hooks as a tuple": (lambda g: ffb.contribution_maps(g.m, g.ids, fwd_hooks=()), lambda g: g.maps),
    "the usual steps": (lambda g: ffb.contribution_maps(g.m, g.ids, n_steps=50), lambda g: g.maps),
    "an answer named twice": (lambda g: ffb.attribute(g.m, g.ids, ffb.logit([[7, 7, 9]])).tokens.tolist(), lambda g: ffb.attribute(g.m, g.ids, ffb.logit([[7, 9]])).tokens.tolist()),
    "a memory as numbers": (lambda g: memories.token_parts(g.m, g.ids, [(0, 1)]), lambda g: memories.token_parts(g.m, g.ids, "0:1")),
    "a flow graph's target as text": (lambda g: ffb.flow_graph(g.reader, "the cat", target=" cat".strip()).targets, lambda g: ffb.flow_graph(g.reader, "the cat", target=ffb.logit("cat")).targets),
    "estimates averaged": (lambda g: ffb.average_shares([g.pe, g.pe]).mean.tolist(), lambda g: ffb.average_shares([g.pe]).mean.tolist()),
    "maps in a generator": (lambda g: ffb.average(maps for maps in [g.maps, g.maps]).mean.nan_to_num().tolist(), lambda g: g.average.mean.nan_to_num().tolist()),
    "infinite logits' rank": (lambda g: ffb.rank(7)(torch.zeros(1, 2, 9)).tolist(), lambda g: [1]),
}  # fmt: skip
"""What looks odd and has an answer: that of the plain call."""


@pytest.mark.parametrize("name", RIGHT)
def test_an_odd_call_that_has_an_answer_has_the_right_one(given: Given, name: str) -> None:
    """Whole numbers of any type, several in any container, an answer counted once: no false alarm."""
    odd_call, plain = RIGHT[name]
    assert odd_call(given) == plain(given)
