#!/usr/bin/env bash
set -euo pipefail

# Guess: A previous-token head, whose pattern is 1 on the first subdiagonal and about 0 elsewhere, shows as a bright
#   line in plt.imshow, at any length of the text.
# Truth: For 2,048 tokens in a picture of 200 by 200 pixels the brightest pixel has 8 % of full brightness: cells are
#   averaged. With interpolation="nearest" the line is gone altogether, since the subdiagonal falls between the
#   sampled cells. The same pattern at 128 tokens is bright either way.
# Where: matplotlib==3.11.2 (numpy==2.4.6).
# Why it matters: The clearest head of the model looks like one that attends to nothing. One dark thumbnail among 144
#   is not looked at again.
# seen:
#   matplotlib==3.11.2 numpy==2.4.6
#     128 tokens, auto     brightest pixel 249 of 255
#     128 tokens, nearest  brightest pixel 255 of 255
#    2048 tokens, auto     brightest pixel 20 of 255
#    2048 tokens, nearest  brightest pixel 0 of 255

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile matplotlib==3.11.2 numpy==2.4.6
cat >run.py <<'PYTHON'
from importlib.metadata import version

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

print(*(f"{name}=={version(name)}" for name in ("matplotlib", "numpy")))

brightest = {}
for tokens in (128, 2048):
    pattern = np.eye(tokens, k=-1)
    pattern[0, 0] = 1.0
    for interpolation in ("auto", "nearest"):
        figure = plt.figure(figsize=(4, 4), dpi=50)
        axes = figure.add_axes([0, 0, 1, 1])
        axes.axis("off")
        axes.imshow(pattern, cmap="gray", vmin=0, vmax=1, interpolation=interpolation)
        figure.canvas.draw()
        picture = np.asarray(figure.canvas.buffer_rgba())[20:, :, 0]  # without the first token's own corner
        brightest[tokens, interpolation] = int(picture.max())
        print(f"{tokens:5} tokens, {interpolation:8} brightest pixel {brightest[tokens, interpolation]} of 255")
        plt.close(figure)
assert min(brightest[128, "auto"], brightest[128, "nearest"]) > 240
assert brightest[2048, "auto"] < 40
assert brightest[2048, "nearest"] == 0
PYTHON
venv/bin/python run.py
