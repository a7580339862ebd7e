"""What one ``lakehouse run`` delivered together: a record beside the files in the landing folder, as a manifest is.

Whoever ingests the files, the command itself, the same command after a stop, or the landing sensor, finds the same delivery.
Only local landing folders have such records. Which rows count of several deliveries belongs to ``dispositions``.
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
    from lakehouse.settings import Settings

#: Below the landing folder; no pattern takes a name with a dot in front.
_FOLDER = ".deliveries"


@dataclass(frozen=True)
class RunDelivery:
    """Files that were named together.

    :param name: as the ledger has it. It sorts behind the name of the arrival day, and behind those of earlier runs of the day.
    :param files: their names below the landing folder.
    """

    name: str
    files: tuple[str, ...]


def of_day(settings: Settings, contract: SourceContract, day: date) -> list[RunDelivery]:
    """The deliveries of an arrival day, oldest first; none where the contract decides otherwise what a delivery is."""
    folder = _folder(settings, contract, day)
    if contract.materialization.delivery is not None or folder is None or not folder.is_dir():
        return []
    records = sorted(folder.glob("*.json"))
    return [RunDelivery(_name(path, day), tuple(json.loads(path.read_text(encoding="utf-8"))["files"])) for path in records]


def record(settings: Settings, contract: SourceContract, day: date, files: Sequence[str]) -> None:
    """Record that files were named together, before they are copied to the landing folder.

    The files that the newest delivery of the day consists of are no new one: the command was repeated.
    """
    folder, known = _folder(settings, contract, day), of_day(settings, contract, day)
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


def _folder(settings: Settings, contract: SourceContract, day: date) -> Path | None:
    landing = settings.landing_of(contract.dataset)
    return None if "://" in landing else Path(landing, _FOLDER, contract.dataset, f"{day}")


def _name(path: Path, day: date) -> str:
    return f"{day} run {path.stem}"
