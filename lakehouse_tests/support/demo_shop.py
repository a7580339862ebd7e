"""The demo's lake behind ``lakehouse serve``, with a browser in front of it."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.ui import WebDriverWait

from lakehouse.lake import Table
from lakehouse_tests.support.cli import inherited, lakehouse_command
from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

#: The evening on which the demo's stream ends, one second before midnight.
NOW = "2024-11-16T23:59:59Z"


@dataclass
class ServedDemo:
    """The demo's lake, served, with a browser in front of it."""

    home: Path
    url: str
    browser: Chrome
    token: str

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = lakehouse_command(self.home, *arguments, **demo_environment(self.home))
        assert done.returncode == 0, done.stderr
        return done

    def go(self, path: str) -> None:
        self.browser.get(f"{self.url}{path}")

    def leave(self, element: WebElement, *keys: str) -> None:
        """Press keys that lead to another page, and wait for that."""
        here = self.element("html")
        element.send_keys(*keys)
        # While a document is replaced the driver may answer with an error of its inspector instead of "stale": ask again.
        WebDriverWait(self.browser, 60, ignored_exceptions=[WebDriverException]).until(staleness_of(here))

    def all(self, css: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def element(self, css: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def text(self, css: str = "main") -> str:
        return " ".join(self.element(css).text.split())

    def table(self, css: str = "main table") -> list[list[str]]:
        """The cells of a table's body; small print is left out."""
        read = (
            "return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map(row => [...row.children].map(cell => "
            "{const copy = cell.cloneNode(true); copy.querySelectorAll('small').forEach(one => one.remove()); "
            "return copy.textContent.replace(/\\s+/g, ' ').trim()}))"
        )
        return list(self.browser.execute_script(read, css))

    def gold(self, name: str = "revenue") -> list[dict[str, Any]]:
        """Every published row, oldest first."""
        rows = Table(str(self.home / "lake" / "gold" / name)).read().to_pylist()
        return sorted(rows, key=lambda row: (row["period"], row["revision"]))


def demo_environment(home: Path) -> dict[str, str]:
    """Environment of the deployment: its own contracts, and a clock fixed at the demo's last evening."""
    return {"LAKEHOUSE_NOW": NOW, "LAKEHOUSE_CONTRACTS": str(home / "contracts"), "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}


@contextmanager
def served(home: Path) -> Iterator[str]:
    """``lakehouse serve`` as a process of its own."""
    port = free_port()
    environment = inherited() | {"LAKEHOUSE_ROOT": str(home / "lake"), **demo_environment(home)}
    command = [sys.executable, "-m", "lakehouse", "serve", "--port", f"{port}"]
    with (home / "serve.log").open("w") as log:
        process = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 120
        while True:
            try:
                urlopen(f"http://127.0.0.1:{port}/health", timeout=10).close()
                break
            except OSError:
                assert process.poll() is None, (home / "serve.log").read_text()
                assert time.monotonic() < until
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
    assert "Traceback" not in (home / "serve.log").read_text()
