"""The headers of CSV files whose raw records are read again: from the record of the ingestion, else from the file in landing.

Bronze keeps the records of a file without its header. Earlier releases did not record it with the ingestion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.bronze import landing
from lakehouse.errors import LakehouseError
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.settings import Settings

_SHOWN = 5


class MissingHeaderError(LakehouseError):
    """The header of a CSV file is neither recorded nor in landing. The message names the files and the remedies."""


def of_ingestions(settings: Settings, contract: SourceContract, entries: Collection[Ingestion]) -> dict[str, str | None]:
    """The header of each ingestion's file, by ingestion id; None for a format without headers.

    :raises MissingHeaderError: when the header of a file with rows is no longer known.
    """
    if contract.source.format != "csv":
        return {entry.ingestion_id: None for entry in entries}
    headers: dict[str, str | None] = {}
    missing = []
    for entry in entries:
        header = entry.header or landing.header_in_landing(settings, contract, entry.source_file, entry.content_hash)
        headers[entry.ingestion_id] = header
        if header is None and entry.rows:
            missing.append(entry)
    if missing:
        days = sorted({entry.arrival_date for entry in missing})
        files = join_limited([entry.source_file for entry in missing], _SHOWN, " files")
        msg = (
            f"{files}: the header is not known, because an earlier release ingested the file and landing of {contract.dataset} "
            f"no longer has it with this content: put it back, or leave its arrival day out with --start-date and --end-date "
            f"({days[0]} to {days[-1]})"
        )
        raise MissingHeaderError(msg)
    return headers
