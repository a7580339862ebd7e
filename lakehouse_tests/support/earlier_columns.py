"""Tables as earlier releases wrote them, which had no column ``source_order``."""

from __future__ import annotations

from shutil import rmtree
from typing import TYPE_CHECKING

from deltalake import DeltaTable, write_deltalake

from lakehouse import locations
from lakehouse.delta import partition_writer, row_writer
from lakehouse.lake import table_io

if TYPE_CHECKING:
    from lakehouse.lake import Lake

NEW = "source_order"


def without_source_order(lake: Lake, source: str) -> None:
    """Take the column out of Bronze, silver and the key log of a source."""
    for path, by in ((locations.bronze(lake, source), ["arrival_date"]), (locations.key_log(lake, source), None)):
        table = DeltaTable(path.address)
        rows, properties = table_io.read_version(table).drop_columns([NEW]), dict(table.metadata().configuration)
        rmtree(path.address)
        partition_writer.create(path, rows.schema, by, properties=properties)
        row_writer.append(path, rows, partition_by=by)
    silver = DeltaTable(locations.silver(lake, source).address)
    rows = table_io.read_version(silver).drop_columns([NEW])
    write_deltalake(silver, rows, mode="overwrite", schema_mode="overwrite", partition_by=["event_date"])
    for path in (locations.bronze(lake, source), locations.key_log(lake, source), locations.silver(lake, source)):
        assert NEW not in {item.name for item in DeltaTable(path.address).schema().fields}
