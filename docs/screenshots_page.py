"""Take the pictures of the pages in ``docs/images`` from a running ``lakehouse serve``, with Debian's Chromium.

python docs/screenshots_page.py [http://127.0.0.1:8321] [--only PICTURE] [--all FOLDER]

The demo's numbers are of November 2024: set ``LAKEHOUSE_NOW=2024-11-16T23:59:59+00:00`` for the server, and its week is this one.
The day of the late tier needs the evening of November 17, and ``LAKEHOUSE_CONTRACTS`` as the demo prints it: take its picture
with ``--only page-tier``. The lineage of a model needs a lake with models: ``--only page-model``. With a steward's token in
``LAKEHOUSE_TOKEN`` the row is shown as a steward sees it. ``--all`` writes every page wide and as on a phone, light and dark,
into a folder.
"""

from __future__ import annotations

import base64
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from selenium.webdriver.common.by import By

from lakehouse_tests.support.browser import PHONE, WIDE, chromium, installed, set_viewport

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

IMAGES = Path(__file__).parent / "images"
DAY = "/page/metrics/revenue/2024-11-07"
PAGES = {
    "overview": "/",
    "series": "/page/metrics/revenue",
    "story": DAY,
    "version": f"{DAY}/r4",
    "tier": "/page/metrics/revenue_by_tier/2024-11-05",
    "week": "/page/metrics/revenue/2024-W45",
    "source": "/page/sources/sales",
    "restated": "/page/restated",
    "lateness": "/page/lateness?source=sales",
    "quarantine": "/page/quarantine",
    "row": "",
    "model": "/page/models/fraud/v2.4",
    "sign-in": "/page/sign-in",
    "empty": "/page/quarantine?status=rejected",
    "missing": "/page/metrics/nothing",
}
#: What the documentation shows: page, size, scheme.
SHOWN = {
    "page-overview": ("overview", WIDE, "light"),
    "page-series": ("series", WIDE, "light"),
    "page-story": ("story", WIDE, "light"),
    "page-tier": ("tier", WIDE, "light"),
    "page-source": ("source", WIDE, "light"),
    "page-restated": ("restated", WIDE, "light"),
    "page-lateness": ("lateness", WIDE, "dark"),
    "page-quarantine": ("quarantine", WIDE, "light"),
    "page-row": ("row", WIDE, "light"),
    "page-model": ("model", WIDE, "light"),
    "page-phone": ("story", PHONE, "dark"),
}
HIGHEST, COLOURS = 2600, 96


def main() -> None:
    """Write the pictures."""
    arguments = [argument for argument in sys.argv[1:] if argument not in {"--all", "--only"}]
    every = "--all" in sys.argv
    server = arguments[0] if arguments and arguments[0].startswith("http") else "http://127.0.0.1:8321"
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    folder = Path(arguments[-1]) if every else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    if not installed():
        raise SystemExit("there is no Chromium, and apt-get did not bring one")
    wanted = SHOWN if only is None else {only: SHOWN[only]}
    if every:
        sizes = {"wide": WIDE, "phone": PHONE}
        wanted = {
            f"{page}-{size}-{scheme}": (page, sizes[size], scheme)
            for page in PAGES
            for size in sizes
            for scheme in ("light", "dark")
        }
    with chromium() as driver:
        sign_in(driver, server)
        driver.get(f"{server}/page/quarantine?status=any")
        rows = [link.get_attribute("href") for link in driver.find_elements(By.CSS_SELECTOR, "tbody th a")]
        for name, (page, size, scheme) in wanted.items():
            if page == "row" and not rows:
                continue
            set_viewport(driver, size, scheme)
            driver.get(str(rows[0]) if page == "row" else f"{server}{PAGES[page]}")
            if page == "story":
                driver.find_element(By.CSS_SELECTOR, ".steps summary").click()
            picture(driver, size, folder / f"{name}.png")


def sign_in(driver: Chrome, server: str) -> None:
    """As the steward whose token is in the environment, where there is one."""
    if token := os.environ.get("LAKEHOUSE_TOKEN"):
        driver.get(f"{server}/page/sign-in")
        driver.find_element(By.ID, "token").send_keys(token)
        driver.find_element(By.CSS_SELECTOR, "main button").click()


def picture(driver: Chrome, size: tuple[int, int], path: Path) -> None:
    """The whole page, cut where it gets too long, in few colours."""
    high = min(int(driver.execute_script("return document.documentElement.scrollHeight")), HIGHEST)
    clip = {"x": 0, "y": 0, "width": size[0], "height": high, "scale": 1}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    image = Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")
    image.quantize(COLOURS).save(path, optimize=True)
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
