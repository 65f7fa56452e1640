"""The only package that uses TransformerLens: hooks to layer records, weights to blocks, text to tokens.

families.py   supported architectures, and the order of their blocks
refusals.py   known reasons why a model cannot be decomposed
hugging_face.py  comparison of a bridge with the Hugging Face model that it wraps
linears.py    effective weights of linear modules, adapters included
model.py      a recognised model, what is known of it, and its layers
layers.py     one layer: its HookPoints, norms and weights
callbacks.py  callbacks on single HookPoints, and protocols of TransformerLens's classes
inputs.py     text and tensors to batches, token labels, the forward pass
records.py    HookPoint callbacks to LayerRecord
selfcheck.py  the identities of a block, checked on cached tensors
capture.py    layer records of a user's forward passes, or of a cache
runs.py       checked model and input, and layer records of their forward passes
gradient_cache.py  gates of ones, and tensors that a backward pass needs
linearised.py linearised rules of norms, activations, attention, experts, embeddings and heads
traced.py     a forward pass under linearised rules, and vector-Jacobian products through it
readout.py    vectors read as logits
edited.py     forward passes with masked tokens, replaced heads, set neurons or patches
edge_ablation.py  forward passes with ablated edges
attention.py  attention patterns of sdpa and flash attention, and attention by rows
memory.py     memory estimates, and batches that fit
offloaded.py  weights that accelerate keeps on another device
loading.py    a name to a model
conversion.py a GGUF file to a cached folder
"""
