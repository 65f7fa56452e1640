"""Pictures of the gallery's pages: `python -m docs.site.thumbnails`, after `python -m docs.site`; needs Chromium.

# Noun: thumbnails of a gallery.
"""

import io
import shutil
from pathlib import Path

from docs.site.repository import ROOT

PICTURES = ROOT / "docs" / "images" / "gallery"
WIDTH = 360


def main() -> None:
    """Open every live page of the built site and keep a small picture of what it opens with."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        tab = browser.new_page(viewport={"width": 1100, "height": 720})
        for page in sorted((ROOT / "build/site/gallery/live").glob("*.html")):
            tab.goto(Path(page).as_uri())
            tab.wait_for_timeout(1500)
            picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
            small = picture.resize((WIDTH, round(WIDTH * picture.height / picture.width)), Image.Resampling.LANCZOS)
            small.quantize(64).save(PICTURES / f"{page.stem}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
