"""The files of a stage: copied to a landing folder of its own, and ingested into its own Bronze.

Belongs here: the names of the copied files, and the conditions that forbid staging them. Ingestion itself belongs to
``bronze.ingest``, which reads the same files again when the stage is promoted.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze.ingest import Ingest
from lakehouse.project import delivery
from lakehouse.stages.stage_log import StageError
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

_SHOWN = 5


def copy_files(stage: Lake, contract: SourceContract, paths: Sequence[Path], today: date) -> None:
    """Copy files to the landing folder of a stage.

    A file in a folder keeps its name below that folder, including its arrival day, where that is a name in the contract's landing
    folder; markers and manifests too. Any other file arrives today.

    :param stage: the stage's lake.
    :raises StageError: for a folder that has no file of the source, and for a source of Kafka.
    :raises UndeliveredFileError: as ``project.delivery.deliver``.
    """
    if contract.source.kafka and paths:
        msg = f"{contract.dataset} is a source of Kafka: a stage takes no files of it; send the messages, or change the contract"
        raise StageError(msg)
    target = Path(stage.landing_of(contract.dataset))
    others: list[Path] = []
    for path in paths:
        if not path.is_dir():
            others.append(path)
            continue
        named = _named(stage, contract, path)
        if not named:
            msg = f"{path} has no file that matches {contract.source.landing}: name the files one by one, they then arrive today"
            raise StageError(msg)
        for name in named:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path / name, target / name)
    if others:
        delivery.deliver(stage, contract, others, today)


def _named(stage: Lake, contract: SourceContract, folder: Path) -> list[str]:
    """The names in a folder that are valid names in the contract's landing folder."""
    listed = bronze_landing.listing(stage.with_settings(landing=str(folder.absolute())), contract)
    markers = [file for of_day in listed.completion_markers.values() for file in of_day]
    return [file.name for file in (*listed.files, *markers)] if listed.files else []


def ingest(stage: Lake, contract: SourceContract, session: Callable[[], SparkSession], run_id: str) -> None:
    """Ingest the files of a stage into its own lake.

    :raises StageError: if a file cannot be read, or waits for others; the message names it.
    """
    days = arrival_days(stage, contract)
    reports = Ingest(stage, contract, session, run_id).days(days)
    held = [entry.message or entry.source_file for report in reports.values() for entry in report.held]
    waiting = [left for report in reports.values() for left in report.waiting]
    if held or waiting:
        what = join_limited([*held, *waiting], _SHOWN, " files")
        msg = f"not all files can be staged: {what}; nothing is staged: mend or leave out these files, and stage again"
        raise StageError(msg)


def arrival_days(stage: Lake, contract: SourceContract) -> list[date]:
    """The arrival days of the files of a stage."""
    return sorted({file.arrival_date for file in bronze_landing.landing_files(stage, contract)[0]})
