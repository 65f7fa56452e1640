"""Labelled results and what reads them; knows no model.

token_maps.py   maps by layer and channel, whatever their kind
maps.py         ContributionMaps: maps by scope with bias, remainder and completeness
scope_table.py  tensors by scope and layer
arithmetic.py   sums, differences and means of results
saving.py       a result as a file
measures.py     contextualization change, amplification
ranks.py        rank correlation and shares of arrays
average.py      maps of many prompts, aligned by position or by name
average_maps.py  their labelled mean, with intervals
neuron_table.py neurons of some cells, by share
intervals.py    means over prompts with their intervals
correlation.py  predictions against effects, with intervals over prompts
page_data.py    a result as the page takes it
position_page.py  numbers by position as a page
figures.py      the style of all figures
tokens.py       tokens as a reader sees them
files.py        files that are there as a whole or not at all
"""
