"""Every tolerance of the tests with its reason. `rtol` is relative to the single value unless it says otherwise."""

import torch

ALGEBRA = dict(rtol=1e-10, atol=1e-12)
"""float64, sums and products only: rounding."""

FLOAT32_ROUTER = dict(rtol=1e-6, atol=1e-6)
"""Forward passes of a float64 model whose router is of float32, in batches of other sizes: its rounding."""

FLOAT32 = dict(rtol=2e-5, atol=2e-6)
"""The same in float32; norms are of the order of 1."""

CLOSED_FORM = dict(rtol=1e-11, atol=1e-12)
"""float64 coefficients of the path integral against 500 nodes: as many nodes as the largest |a| needs."""

PATH_MEAN = {torch.float32: 2e-7, torch.float64: 2e-15}
"""A(a) over max(1, |a|) against 500 nodes: rounding; too few nodes would add more."""

CLOSED_FORM_FLOAT32 = dict(rtol=2e-5, atol=2e-6)
"""float32 sums over nodes; B = (g - A) / a loses the digits that g and A share."""

UNKNOWN_ACTIVATION = dict(rtol=1e-9, atol=1e-10)
"""float64, no closed form known: divided differences and quadrature, on |a| <= 40."""

ARBITRARY_PRECISION = dict(rtol=1e-12, atol=1e-14)
"""float64 against mpmath with 30 digits."""

GOLDEN_FLOAT32 = 2e-5
"""Golden maps by a float32 model, relative, every cell."""

GOLDEN_FLOAT64 = 1e-9
"""Golden maps by a float64 model without rotary tables, relative, every cell."""

GOLDEN_ROTARY = 1e-6
"""Golden maps: Hugging Face makes rotary tables in float32 also in float64 models."""

ORACLE = 1e-9
"""float64 model and float64 oracle on the same run, relative: worst seen 4e-15 (LayerNorm families)."""

ORACLE_FLOAT32_WITHIN = 1e-5
"""As above where Hugging Face's RMSNorm, or TransformerLens' rotary attention, is float32: worst seen 3e-7."""

OPTIMISED_FLOAT32 = 1e-6
"""Norms without vectors against norms of vectors, relative to the row's maximum; Gram matrices are float64."""

OPTIMISED_FLOAT64 = 1e-12
"""The same in float64."""

COMPLETE_FLOAT64 = {"every other": 1e-10, "bloom": 1e-9, "qwen2_moe": 1e-6, "qwen3_moe": 1e-6}
"""Completeness of float64 models with every parameter perturbed; worst seen 7e-16. Hugging Face's Bloom has its
own GELU whose constants have 8 digits; its Qwen-MoE softmax of the router is float32."""

COMPLETE_FLOAT32 = 1e-4
"""Completeness of real float32 models, relative."""

HALF = {torch.bfloat16: 2e-2, torch.float16: 2e-3}
"""Completeness with 8 and 11 bits: every tensor of the run is rounded, a few are summed; worst seen 1.2e-2 and 1.3e-3."""

CAPTUM = 1e-6
"""50 Gauss-Legendre steps, relative to the map's maximum; captum's float32 weights leave 1e-9."""

BATCH_FLOAT32 = dict(rtol=1e-4, atol=1e-5)
"""The same sequence in another batch: matrix products sum in another order, the norms after them amplify it."""

BATCH_FLOAT64 = dict(rtol=1e-9, atol=1e-11)
"""The same in float64."""

REBUILT = dict(rtol=0, atol=1e-9)
"""float64, parts + bias + remainder against the model's own tensor of size 1 to 30; less than rtol of it may be missing."""

CANCELLATION = 1e-9
"""float64 norms from a Gram matrix where heads cancel to a thousandth: rounding times its square."""

GRADIENT = dict(rtol=1e-4, atol=1e-6)
"""A derivative against a central difference with step 1e-4 in float64."""

BATCHED_FLOAT32 = 2e-5
"""Maps of sequences that run together against each alone, float32, relative to the row's maximum: the model's own
forward pass of a batch differs in its last digits, and random-weight layers amplify that."""

CONSERVED_FLOAT64 = {"every other": 1e-10, "bloom": 1e-9, "qwen2_moe": 1e-6, "qwen3_moe": 1e-6}
"""Shares through all layers against the target, relative to the sum of their sizes; worst seen 3e-15. Exceptions as in
COMPLETE_FLOAT64."""

CONSERVED_FLOAT32 = 1e-5
"""The same in float32; worst seen 2e-6."""

FORWARD_IS_BACKWARD = 1e-12
"""float64 vectors pushed forward through all layers against one backward pass, relative to the largest share."""

GPU_FLOAT64 = 1e-10
"""A GPU against the CPU where the model is float64 throughout: another order of sums; of the largest value."""

GPU_FLOAT32_WITHIN = 1e-5
"""The same where Hugging Face computes rotary tables, RMSNorm, softmax or routers in float32."""

BY_ROWS = 1e-5
"""Attention by rows of GPT-BigCode in float64: its own attention multiplies in float32, and in another order."""

MEMORY = 0.15
"""Relative: the estimate of a call's memory against the bytes of its tensors; worst seen 0.13 (edges of BERT)."""
