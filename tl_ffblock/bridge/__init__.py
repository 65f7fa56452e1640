"""The only package that knows TransformerLens: hooks to records, weights to blocks, text to tokens.

families.py   which architectures, and the order of their blocks
refusals.py   every known reason not to decompose a model
hugging_face.py  is a bridge the Hugging Face model that it wraps?
protocols.py  what is used of TransformerLens' classes
model.py      a model recognised, with what was found out about it
sites.py      which HookPoint carries which tensor
weights.py    a model's own parameters -> Block
capture.py    HookPoint callbacks -> LayerRecord
taps.py       callbacks on single HookPoints, and silence
selfcheck.py  the identities of a block, checked on captured tensors
loading.py    a name -> a model
shipped.py    what is known of a name before anything is loaded
conversion.py GGUF -> a folder that is kept
token_spans.py  what a tokenizer makes of a text, and where in it each token stands
facts.py      sizes, the longest input, a digest of the weights
inputs.py     text and tensors -> batches, token labels, the forward pass
"""
