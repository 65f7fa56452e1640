#!/usr/bin/env bash
set -euo pipefail

# Guess: papermill hands a list of pairs (layer, head) to the notebook as such, or, since its files are JSON, as a
#   list of lists; the metadata of the executed notebook does say [[5, 1], [6, 9]].
# Truth: Each tuple arrives as the text "(5, 1)", within a list too, and the integer keys of a dictionary arrive as
#   text. No warning is given, and the metadata of the output shows lists of numbers, which is not what the cell got.
# Where: papermill==2.7.0 (nbformat==5.11.1, ipykernel==7.4.0).
# Why it matters: "if (layer, head) in ablate" is then false for every head: the notebook runs to its end and reports
#   that the ablation changes nothing.
# seen:
#   papermill==2.7.0 nbformat==5.11.1 ipykernel==7.4.0
#   ablate  given [(5, 1), (6, 9)]  arrived ['(5, 1)', '(6, 9)']   in the metadata [[5, 1], [6, 9]]
#   scale   given {3: 0.5}          arrived {'3': 0.5}             in the metadata {"3": 0.5}
#   pair    given (0, 4)            arrived '(0, 4)'               in the metadata [0, 4]
#   heads found in ablate: 0 as tuples, 0 as lists, of 2 given

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile papermill==2.7.0 nbformat==5.11.1 ipykernel==7.4.0
cat >run.py <<'PYTHON'
import json
from importlib.metadata import version

import nbformat
import papermill

print(*(f"{name}=={version(name)}" for name in ("papermill", "nbformat", "ipykernel")))

cell = nbformat.v4.new_code_cell("ablate = None\nscale = None\npair = None")
cell.metadata["tags"] = ["parameters"]
report = nbformat.v4.new_code_cell(
    "print(repr(ablate)); print(repr(scale)); print(repr(pair))\n"
    "heads = [(layer, head) for layer in range(12) for head in range(12)]\n"
    "print(sum(head in ablate for head in heads))\n"
    "print(sum(list(head) in ablate for head in heads))"
)
kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
nbformat.write(nbformat.v4.new_notebook(cells=[cell, report], metadata={"kernelspec": kernel}), "in.ipynb")
parameters = {"ablate": [(5, 1), (6, 9)], "scale": {3: 0.5}, "pair": (0, 4)}
papermill.execute_notebook("in.ipynb", "out.ipynb", parameters=parameters, progress_bar=False)
book = nbformat.read("out.ipynb", as_version=4)
arrived = "".join(book.cells[-1].outputs[0]["text"]).split("\n")
for (name, value), got in zip(parameters.items(), arrived, strict=False):
    stored = json.dumps(book.metadata.papermill.parameters[name])
    print(f"{name:7} given {value!r:17} arrived {got:22} in the metadata {stored}")
print(f"heads found in ablate: {arrived[3]} as tuples, {arrived[4]} as lists, of 2 given")
assert arrived[:5] == ["['(5, 1)', '(6, 9)']", "{'3': 0.5}", "'(0, 4)'", "0", "0"]
assert book.metadata.papermill.parameters["ablate"] == [[5, 1], [6, 9]]
PYTHON
venv/bin/python run.py
