"""The only package that knows TransformerLens: hooks to records, weights to blocks, text to tokens.

families.py   which architectures, their order, and every refusal
sites.py      which HookPoint carries which tensor
weights.py    a model's own parameters -> Block
capture.py    HookPoint callbacks -> LayerRecord
selfcheck.py  the identities of a block, checked on captured tensors
inputs.py     text and tensors -> batches, token labels, the forward pass
"""
