"""What mkdocs is told beside mkdocs.yml: pages that are made at each build, and where a page's links lead."""

from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs import architecture
from docs.site import live, notebooks, reference, repository

FIRST = ("index.md", "how_to/", "attribution.md", "flow.md", "patching.md", "experiments.md")
LAST = ("results/", "architecture/", "speed.md")
"""Beginnings of places whose pages the search shows before others, and after. It shows no source files."""
TAGS = {
    "how_to/ablation.md": ("ablate",),
    "how_to/coming_from.md": ("BertViz", "Captum", "Inseq"),
    "how_to/heads.md": ("OV", "QK"),
}
"""Words for which the search shows a page first, though other pages have them in a heading."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation gets what is generated: the reference, the gallery, pages that lie outside docs/."""
    titles = {page: title for page, (title, _) in reference.PAGES.items()}
    shown: list[Any] = [{title: f"reference/{page}.md"} for page, title in titles.items()]
    ends = [{"Types": f"reference/{reference.TYPES}.md"}, {"Command line": f"reference/{reference.COMMAND_LINE}.md"}]
    shown = ["reference/index.md", *shown, *ends]
    gallery: list[Any] = ["gallery/index.md", *(f"gallery/{page.name}" for page in live.pages())]
    gallery += [{notebooks.title(path): f"gallery/{path.stem}.md"} for path in notebooks.NOTEBOOKS]
    architecture = [
        "architecture/index.md",
        {"The optimised implementation": "architecture/optimised_implementation.md"},
    ]
    architecture += [{"Contributing": "architecture/contributing.md"}, {"Changes": "architecture/changelog.md"}]
    assert config.nav is not None
    places = [next(iter(entry)) for entry in config.nav]
    config.nav.insert(places.index("Results"), {"Reference": shown})
    config.nav.insert(places.index("Glossary") + 1, {"Gallery": gallery})
    config.nav.insert(places.index("Glossary") + 2, {"Architecture": architecture})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds all generated pages, and a page for every source file that a page links to."""
    generated: dict[str, str | bytes] = dict(reference.pages())
    generated |= live.files()
    for notebook in notebooks.NOTEBOOKS:
        generated |= notebooks.files(notebook)
    paths = {file.src_uri: f"docs/{file.src_uri}" for file in files.documentation_pages()}
    paths |= {place: path for path, place in repository.TAKEN.items()}
    sources: set[str] = set()
    for place, path in paths.items():
        text = (repository.ROOT / path).read_text(encoding="utf-8")
        if place in repository.TAKEN.values():
            generated[place] = text
        sources |= repository.linked_files(text, path)
    for path in sources:
        if repository.site_page(path).startswith("source/"):
            generated[repository.site_page(path)] = repository.source_page(path)
    for place, content in generated.items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Links that are written for the repository lead to pages of the site."""
    place = page.file.src_uri
    boost = 8 if place.startswith(FIRST) else 0.2 if place.startswith(LAST) else 1
    page.meta["search"] = {"boost": boost, "exclude": place.startswith("source/")}
    page.meta |= {"tags": list(TAGS[place])} if place in TAGS else {}
    outside = {place: path for path, place in repository.TAKEN.items()}
    outside |= {f"gallery/{path.stem}.md": f"notebooks/{path.name}" for path in notebooks.NOTEBOOKS}
    path = outside.get(place, f"docs/{place}")
    if path == "tl_ffblock/README.md":
        markdown += f"\n## Modules\n\nThe first line of each module's docstring.\n\n{architecture.modules()}\n"
    return repository.without_flowcharts(repository.with_links(markdown, path, place))
