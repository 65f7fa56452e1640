"""The only package that knows TransformerLens: hooks to records, weights to blocks, text to tokens.

families.py   which architectures, and the order of their blocks
refusals.py   every known reason not to decompose a model
hugging_face.py  is a bridge the Hugging Face model that it wraps?
linears.py    the weight that a linear module acts with, adapters included
model.py      a model recognised, with what was found out about it, and its layers
layers.py     one layer, bound once: its HookPoints, its norms, its weights
callbacks.py  callbacks on single HookPoints, and what is used of TransformerLens' classes
inputs.py     text and tensors to batches, token labels, the forward pass
records.py    HookPoint callbacks to LayerRecord
selfcheck.py  the identities of a block, checked on captured tensors
capture.py    forward passes of users: recorded as they happen, or read from a cache
runs.py       a model and what is to run through it, checked, and its records layer by layer
gradient_cache.py  gates of ones, and what a backward pass needs of a forward pass
linearised.py linearised rules of norms, activations, attention, experts, embeddings and heads
traced.py     a forward pass under linearised rules, and vector-Jacobian products through it
readout.py    vectors read as logits
edited.py     forward passes with tokens hidden, heads replaced, neurons set, or resumed
loading.py    a name to a model
conversion.py GGUF to a folder that is kept
"""
