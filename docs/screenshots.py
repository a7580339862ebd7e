"""Take the pictures in ``docs/images`` from a running Dagster webserver, with Debian's Chromium.

python docs/screenshots.py [http://127.0.0.1:3000]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

IMAGES = Path(__file__).parent / "images"
PAGES = {
    "asset-graph.png": ("/locations/lakehouse/asset-groups/sales/lineage", "1400,700"),
    "silver-partitions.png": ("/assets/silver/sales?view=partitions&partition=2024-11-05", "1400,900"),
    "bronze-checks.png": ("/assets/bronze/sales?view=checks&checkDetail=rule_amount_is_positive", "1400,900"),
}


def main() -> None:
    """Write each page as it looks after ten seconds."""
    server = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:3000"
    IMAGES.mkdir(exist_ok=True)
    for name, (page, size) in PAGES.items():
        with tempfile.TemporaryDirectory() as profile:
            command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
            command += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
            command += [f"--user-data-dir={profile}", f"--window-size={size}", "--virtual-time-budget=15000"]
            command += [f"--screenshot={IMAGES / name}", f"{server}{page}"]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        print(IMAGES / name)


if __name__ == "__main__":
    main()
