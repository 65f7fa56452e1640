"""The picture of the architecture page: an arrow for every room that imports another, read from the code."""

import grimp

PACKAGE = "tl_ffblock"
ROOMS = {
    "cli": "cli/",
    "views": "views/",
    "experiments": "experiments/",
    "corpus": "corpus/",
    "interventions": "interventions/",
    "flow": "flow/",
    "heads": "heads/",
    "memories": "memories/",
    "attribution": "attribution/",
    "check": "check.py",
    "cell_neurons": "cell_neurons.py",
    "contributions": "contributions.py",
    "attention": "attention.py",
    "map_tables": "map_tables.py",
    "layer_tables": "layer_tables.py",
    "metrics": "metrics/",
    "result": "result.py",
    "results": "results/",
    "bridge": "bridge/",
    "page": "page/",
    "layer": "layer/",
}
"""Rooms from the top, and how the picture writes them."""
EVERYWHERE = ("files", "errors", "_version", "numerals", "progress", "signatures")
"""Modules that know no room and that every room may import: without arrows."""


def arrows() -> dict[str, list[str]]:
    """For every room, from the top, the rooms it imports (for types too)."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    children = {child.removeprefix(f"{PACKAGE}.") for child in graph.find_children(PACKAGE)}
    assert children == {*ROOMS, *EVERYWHERE, "__main__"}, children ^ {*ROOMS, *EVERYWHERE, "__main__"}
    for room in ROOMS:
        graph.squash_module(f"{PACKAGE}.{room}")
    names = {room: f"{PACKAGE}.{room}" for room in ROOMS}
    return {
        room: [
            other
            for other in ROOMS
            if other != room and graph.direct_import_exists(importer=names[room], imported=names[other])
        ]
        for room in ROOMS
    }


def picture() -> str:
    """A flowchart in Mermaid."""
    lines = [f'  {room}["{title}"]' for room, title in ROOMS.items()]
    lines += [f"  {room} --> {' & '.join(imported)}" for room, imported in arrows().items() if imported]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


BLOCKS = {"rooms": picture}
