"""Reading all records again against their first load, in one process over the same lake.

    python benchmarks/reparse.py [--rows 1000000] [--files 4] [--days 200]

The first load lacks a field (``price``); then the contract has it, and every record reads otherwise. Prints one JSON object:
seconds of the first load, of each step of the reading up to silver and gold, and their ratio.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from volume_files import seconds_of
from volume_lakehouse import first_load, numbers_of

from lakehouse.contracts import load_catalog
from lakehouse.orchestration.execution.catch_up import catch_up
from lakehouse.orchestration.execution.in_process import InProcess
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.reparse import apply as reading
from lakehouse.reparse import read_again as reading_again
from lakehouse.reparse.read_again import read_again

_FORGOTTEN = '    - {name: price, type: "decimal(9,4)"}\n'


def main() -> None:
    """Load the rows, read them again, print the figures."""
    options = numbers_of(__doc__, rows=1_000_000, files=4, days=200)
    with first_load(options, without=_FORGOTTEN) as (replay, _, arrival, instance):
        contract = Path(replay._lake.root, "contracts", "readings.yaml")
        figures: dict[str, Any] = {"first load": seconds_of(lambda: list(replay.days([arrival])))}
        contract.write_text(contract.read_text() + _FORGOTTEN)
        catalog = load_catalog(contract.parent, bundled=False)
        lake, session = replay._lake, LakeSpark(long_lived=True).session
        source = catalog.sources["readings"]
        with reading_again.temporary(lake, "readings") as into:
            figures["read again"] = seconds_of(lambda: read_again(lake, source, session, None, None, into))
            apply = {"by": "anna", "reason": "a forgotten field"}
            figures["put into force"] = seconds_of(lambda: reading.apply(lake, source, session, into, **apply))
        layers = InProcess(lake, catalog, instance)
        figures["silver and gold"] = seconds_of(lambda: catch_up(lake, catalog, "readings", layers))
        again = sum(figures[name] for name in ("read again", "put into force", "silver and gold"))
        print(json.dumps(figures | {"ratio": round(again / figures["first load"], 2)}, indent=1), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
