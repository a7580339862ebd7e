"""The files that one ``lakehouse run`` delivered together: a record in the landing folder, similar to a manifest.

The command itself, the same command after a stop, and the landing sensor thus all ingest the files as the same delivery. Only
local landing folders have such records. Which rows count among several deliveries belongs to ``dispositions``.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

#: Below the landing folder; no pattern matches a name that begins with a dot.
_FOLDER = ".deliveries"


@dataclass(frozen=True)
class RunDelivery:
    """Files that were delivered together.

    :param name: its name in the ledger. It sorts after the name of the arrival day, and after those of earlier runs of the day.
    :param files: their names below the landing folder.
    """

    name: str
    files: tuple[str, ...]


def of_day(lake: Lake, contract: SourceContract, day: date) -> list[RunDelivery]:
    """The deliveries of an arrival day, oldest first; empty where the contract defines deliveries differently."""
    folder = _folder(lake, contract, day)
    if contract.materialization.delivery is not None or folder is None or not folder.is_dir():
        return []
    records = sorted(folder.glob("*.json"))
    return [RunDelivery(_name(path, day), tuple(json.loads(path.read_text(encoding="utf-8"))["files"])) for path in records]


def record(lake: Lake, contract: SourceContract, day: date, files: Sequence[str]) -> None:
    """Record that files were delivered together, before they are copied to the landing folder.

    If they are the files of the newest delivery of the day, nothing is recorded: the command was repeated.
    """
    folder, known = _folder(lake, contract, day), of_day(lake, contract, day)
    if contract.materialization.delivery is not None or folder is None or (known and set(known[-1].files) == set(files)):
        return
    folder.mkdir(parents=True, exist_ok=True)
    number = len(known) + 1
    with tempfile.TemporaryDirectory(dir=folder) as partial:
        written = Path(partial, "record")
        written.write_text(json.dumps({"files": sorted(files)}), encoding="utf-8")
        while not _linked(written, folder / f"{number:04}.json"):  # another run has taken the number
            number += 1


def _linked(file: Path, name: Path) -> bool:
    try:
        os.link(file, name)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if name.exists():
            return False
        file.replace(name)
    return True


def _folder(lake: Lake, contract: SourceContract, day: date) -> Path | None:
    landing = lake.landing_of(contract.dataset)
    return None if "://" in landing else Path(landing, _FOLDER, contract.dataset, f"{day}")


def _name(path: Path, day: date) -> str:
    return f"{day} run {path.stem}"
