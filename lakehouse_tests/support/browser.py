"""Debian's Chromium without a window, for tests and for the pictures in docs/images."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome

WIDE, PHONE = (1280, 900), (390, 844)
_MINUTES = 10 * 60
_ALONE = ["background-networking", "component-update", "sync", "quic", "dev-shm-usage", "gpu", "extensions"]


def installed() -> bool:
    """Whether there is a Chromium, after trying to get Debian's."""
    if not _found() and shutil.which("apt-get"):
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium", "chromium-driver"]):
            subprocess.run(command, capture_output=True, timeout=_MINUTES, check=False)
    return _found()


def _found() -> bool:
    return all(shutil.which(name) for name in ("chromium", "chromedriver"))


@contextmanager
def chromium() -> Iterator[Chrome]:
    """A browser with an empty profile that makes no requests of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("headless=new", "no-sandbox", "no-first-run", "hide-scrollbars", *(f"disable-{name}" for name in _ALONE)):
        options.add_argument(f"--{argument}")
    # Every name but this machine's own is unknown: what a page fetches from elsewhere would be missing.
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    driver.set_page_load_timeout(120)
    try:
        yield driver
    finally:
        driver.quit()


def set_viewport(driver: Chrome, size: tuple[int, int] = WIDE, scheme: str = "light") -> None:
    """Set the size of the window and the colour scheme."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < WIDE[0]}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
