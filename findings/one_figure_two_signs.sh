#!/usr/bin/env bash
set -euo pipefail

# Guess: A Plotly figure with colorscale "RdBu" has the same colours in Python and in the browser's library: the name
#   is one, and the JSON is passed from one to the other.
# Truth: They are reversed. Python spells RdBu out as red for low and blue for high; plotly.js, given the bare name,
#   draws blue for low and red for high. Blues, Greens, Greys, YlGnBu and YlOrRd swap their dark and light ends
#   likewise. D3 and Matplotlib agree with Python, Bokeh's palette with plotly.js.
# Where: plotly==7.1.0, bokeh==3.9.2, matplotlib==3.11.2; plotly.js 3.7.0 and d3-scale-chromatic 3.1.1 from npm.
# Why it matters: In a page that a script writes by hand, a negative head turns positive against the same figure in
#   the notebook, and both have a legend that says RdBu.
# seen:
#   plotly==7.1.0 bokeh==3.9.2 matplotlib==3.11.2
#   plotly.js 3.7.0
#   d3-scale-chromatic 3.1.1
#   RdBu, Plotly in Python  low red   high blue
#   RdBu, plotly.js         low blue  high red
#   RdBu, Matplotlib        low red   high blue
#   RdBu, D3                low red   high blue
#   RdBu, Bokeh             low blue  high red
#   dark and light ends swapped between the two Plotlys: Blues, Greens, Greys, YlGnBu, YlOrRd

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile plotly==7.1.0 bokeh==3.9.2 matplotlib==3.11.2
npm install --silent --no-audit --no-fund plotly.js@3.7.0 d3-scale-chromatic@3.1.1 >/dev/null
cat >run.py <<'PYTHON'
import json
import subprocess
from importlib.metadata import version
from pathlib import Path

import bokeh.palettes
import matplotlib
import plotly.io

print(*(f"{name}=={version(name)}" for name in ("plotly", "bokeh", "matplotlib")))

for name in ("plotly.js", "d3-scale-chromatic"):
    print(name, json.loads(Path("node_modules", name, "package.json").read_text())["version"])
script = """
const scales = require("plotly.js/src/components/colorscale/scales.js").scales;
import("d3-scale-chromatic").then((d3) => console.log(JSON.stringify({
  names: Object.fromEntries(Object.entries(scales).map(([name, scale]) => [name, [scale[0][1], scale.at(-1)[1]]])),
  d3: [d3.interpolateRdBu(0), d3.interpolateRdBu(1)],
})));
"""
browser = json.loads(subprocess.run(["node", "-e", script], check=True, capture_output=True, text=True).stdout)


def numbers(colour):
    if colour.startswith("#"):
        return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]


def reddish(colour):
    return numbers(colour)[0] > numbers(colour)[2]


def python_ends(name):
    figure = json.dumps({"data": [{"type": "heatmap", "z": [[-1, 1]], "colorscale": name}]})
    scale = plotly.io.from_json(figure).data[0].colorscale
    return [scale[0][1], scale[-1][1]]


hexed = [matplotlib.colors.to_hex(matplotlib.colormaps["RdBu"](end)) for end in (0.0, 1.0)]
ends = {
    "Plotly in Python": python_ends("RdBu"),
    "plotly.js": browser["names"]["RdBu"],
    "Matplotlib": hexed,
    "D3": browser["d3"],
    "Bokeh": [bokeh.palettes.RdBu[11][0], bokeh.palettes.RdBu[11][-1]],
}
for name, (low, high) in ends.items():
    print(f"RdBu, {name:17} low {'red' if reddish(low) else 'blue':4}  high {'red' if reddish(high) else 'blue'}")
assert [reddish(low) for low, _ in ends.values()] == [True, False, True, True, False]
assert [reddish(high) for _, high in ends.values()] == [False, True, False, False, True]


def luminance(colour):
    red, green, blue = numbers(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


turned = []
for name in ("Blues", "Greens", "Greys", "Reds", "YlGnBu", "YlOrRd", "Viridis", "Cividis", "Hot"):
    rises = [luminance(high) > luminance(low) for low, high in (python_ends(name), browser["names"][name])]
    if rises[0] != rises[1]:
        turned.append(name)
print("dark and light ends swapped between the two Plotlys:", ", ".join(turned))
assert turned == ["Blues", "Greens", "Greys", "YlGnBu", "YlOrRd"]
PYTHON
venv/bin/python run.py
