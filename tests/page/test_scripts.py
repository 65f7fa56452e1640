"""The page's scripts stand in one file: each may use what scripts before it define, and every name is somebody's."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.page.scripts import chunks_of, tokens_of
from tl_ffblock.page import document
from tl_ffblock.page.document import GRAPH_SCRIPTS, SHARES_SCRIPTS

ASSETS = Path(document.__file__).parent / "assets"
BROWSER = frozenset(
    [
        "Array",
        "Blob",
        "Boolean",
        "CircuitsVis",
        "DecompressionStream",
        "Float32Array",
        "Float64Array",
        "Infinity",
        "Image",
        "Intl",
        "JSON",
        "Map",
        "Math",
        "NaN",
        "Number",
        "Object",
        "Promise",
        "ResizeObserver",
        "Response",
        "Set",
        "String",
        "TextDecoder",
        "URL",
        "Uint16Array",
        "Uint32Array",
        "Uint8Array",
        "XMLSerializer",
        "atob",
        "decodeURIComponent",
        "document",
        "encodeURIComponent",
        "history",
        "location",
        "navigator",
        "parseInt",
        "performance",
        "requestAnimationFrame",
        "setTimeout",
        "window",
    ]
)
"""What the scripts take from the browser, and CircuitsVis's one global."""

PAGES = {"workbench": document.SCRIPTS, "shares": SHARES_SCRIPTS, "graph": GRAPH_SCRIPTS}
"""The scripts of each page, in their order."""
EVERY = tuple(dict.fromkeys(name for scripts in PAGES.values() for name in scripts))
SCRIPTS = {name: chunks_of((ASSETS / f"{name}.js").read_text(encoding="utf-8")) for name in EVERY}
PLACES = [(page, script) for page, scripts in PAGES.items() for script in scripts]


def defined(scripts: Iterable[str]) -> frozenset[str]:
    """The names of scripts' top levels."""
    return frozenset(name for script in scripts for chunk in SCRIPTS[script] for name in chunk.defines)


def test_every_script_is_on_a_page() -> None:
    """The folder holds the listed scripts and no other."""
    assert sorted(path.stem for path in ASSETS.glob("*.js")) == sorted(EVERY)


@pytest.mark.parametrize("page", PAGES)
def test_no_name_is_defined_twice(page: str) -> None:
    """All scripts of a page share one scope."""
    names = [name for script in PAGES[page] for name in defined([script])]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("page", "script"), PLACES)
def test_a_script_uses_nothing_of_a_later_one(page: str, script: str) -> None:
    """Each top-level name that a script uses is its own or an earlier script's: no circle, and one order to read them in."""
    order = PAGES[page]
    used = frozenset().union(*(chunk.free for chunk in SCRIPTS[script]))
    for later in order[order.index(script) + 1 :]:
        assert sorted(used & defined([later])) == [], f"{script}.js uses what {later}.js defines"


@pytest.mark.parametrize(("page", "script"), PLACES)
def test_no_parameter_hides_a_name_of_the_page(page: str, script: str) -> None:
    """A function whose parameter were forgotten would read a top-level name of the same spelling in silence."""
    shared = defined(PAGES[page]) | BROWSER
    for chunk in SCRIPTS[script]:
        assert sorted(chunk.binds & shared) == [], f"{script}.js, {', '.join(chunk.defines)}"


@pytest.mark.parametrize(("page", "script"), PLACES)
def test_every_name_is_defined_somewhere(page: str, script: str) -> None:
    """A name that is no parameter, no variable, no top-level name and not the browser's is a mistake."""
    known = defined(PAGES[page]) | BROWSER
    for chunk in SCRIPTS[script]:
        assert sorted(chunk.free - known) == [], f"{script}.js, {', '.join(chunk.defines)}"


@pytest.mark.parametrize(
    ("code", "defines", "binds", "free"),
    [
        ("const a = b.c;", "a", "", "b"),
        ("function f(x, { y: [z], w = q }, ...rest) { return x + v; }", "f", "x z w rest", "q v"),
        ("function* f(x) { yield g(x); }", "f", "x", "g"),
        ("const f = (a) => b => g(a, b, c);", "f", "a b", "g c"),
        ("const t = `one ${a + `two ${b}`} three`;", "t", "", "a b"),
        ("const s = 'not // a comment', u = \"it's\"; // d\n/* e */", "s u", "", ""),
        ("f(x.replace(/[/\"']+/g, y), { key: value, short, ...spread });", "", "", "f x y value short spread"),
        ("function f() { for (const [k, v] of all) { let i = 0, j = n; g(k ? v : i); } }", "f", "k v i j", "all n g"),
        ("let [x, y] = [p, q];", "x y", "", "p q"),
    ],
)
def test_the_reader_of_names_reads(code: str, defines: str, binds: str, free: str) -> None:
    """Names in every form that the scripts use, against what a reader sees."""
    (chunk,) = chunks_of(code)
    read = [set(names) for names in (chunk.defines, chunk.binds, chunk.free)]
    assert read == [set(text.split()) for text in (defines, binds, free)]


def test_strings_are_empty_tokens() -> None:
    """A string's words are no names; what stands behind it is read again."""
    assert tokens_of("f('a b', `c ${d}`, e);") == ["f", "(", '"', '"', ",", "(", "d", ")", ",", "e", ")", ";"]
