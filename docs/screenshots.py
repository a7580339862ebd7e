"""Take the pictures in ``docs/images`` from a running Dagster webserver, with Debian's Chromium.

Show it something first: ``lakehouse demo``, ``dagster dev``, and with it running a backfill, such as
``lakehouse backfill plan sales --arrival-from 2024-11-05 --arrival-through 2024-11-18 --write-mode overwrite --reason docs`` and
``lakehouse backfill run newest``.

python docs/screenshots.py [http://127.0.0.1:3000]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

IMAGES = Path(__file__).parent / "images"
PAGES = {
    "asset-graph.png": ("/locations/lakehouse/asset-groups/sales/lineage", "2200,800"),
    "silver-partitions.png": ("/assets/silver/sales?view=partitions&partition=2024-11-05", "1400,900"),
    "silver-checks.png": ("/assets/silver/sales?view=checks&checkDetail=equals_bronze", "1400,900"),
    "backfill.png": ("/runs/b/{backfill}", "1400,900"),
    "automation.png": ("/automation", "1400,1100"),
    "bronze-checks.png": ("/assets/bronze/sales?view=checks&checkDetail=rule_amount_is_positive", "1400,900"),
}


def newest_backfill(server: str) -> str:
    """The id of the backfill with the most partitions among the newest."""
    query = "{partitionBackfillsOrError(limit: 20) {... on PartitionBackfills {results {id numPartitions}}}}"
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"{server}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        found = json.load(answer)["data"]["partitionBackfillsOrError"]["results"]
    return max(found, key=lambda one: one["numPartitions"] or 0)["id"] if found else ""


def main() -> None:
    """Write each page as it looks after ten seconds."""
    server = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:3000"
    IMAGES.mkdir(exist_ok=True)
    backfill = newest_backfill(server)
    for name, (page, size) in PAGES.items():
        with tempfile.TemporaryDirectory() as profile:
            command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
            command += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
            command += [f"--user-data-dir={profile}", f"--window-size={size}", "--virtual-time-budget=15000"]
            command += [f"--screenshot={IMAGES / name}", f"{server}{page.format(backfill=backfill)}"]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        print(IMAGES / name)


if __name__ == "__main__":
    main()
