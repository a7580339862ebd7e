"""Labels: their releases, and the label of each event according to a release.

A release freezes the knowledge of a label source as a named snapshot of its inputs.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from lakehouse.contracts import sql_expressions
from lakehouse.delta import provenance
from lakehouse.delta.columns import arrow_schema
from lakehouse.ledger import key_log
from lakehouse.snapshots import input_sets
from lakehouse.snapshots.input_sets import SnapshotError
from lakehouse.training_sets import releases
from lakehouse.training_sets.records import SourceInputs
from lakehouse.training_sets.releases import Release, ReleaseError, ReleaseEvent, ReleaseKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.training_set import Label
    from lakehouse.lake import Lake


def release(
    lake: Lake, contract: SourceContract, version: str, *, by: str, notes: str, known_at: datetime | None = None
) -> Release:
    """Freeze the knowledge of a label source, of now or of ``known_at``. Repeating the command changes nothing.

    :raises ReleaseError: if the version name is malformed, or the version exists with other content.
    :raises SnapshotError: if there is nothing to release.
    """
    source = contract.dataset
    if not releases.VERSION.fullmatch(version):
        msg = f"{version!r} is no version: write v and two numbers, such as v3.0"
        raise ReleaseError(msg)
    recorded = {entry.version: entry for entry in releases.all_of(lake, ReleaseKind.LABELS, source)}
    if version in recorded:
        return _same(recorded[version], known_at)
    snapshot = _snapshot(lake, contract, version, by=by, notes=notes, known_at=known_at)
    entry = Release(
        source,
        ReleaseKind.LABELS,
        version,
        ReleaseEvent.RELEASED,
        notes,
        by,
        lake.now(),
        snapshot.until or snapshot.recorded_at,
        {
            "snapshot": snapshot.name,
            "inputs": snapshot.inputs,
            "until": None if snapshot.until is None else snapshot.until.isoformat(),
            "contract_version": provenance.of_contract(contract),
        },
    )
    return releases.release(lake, entry)


def inputs_of(lake: Lake, labels: Release) -> SourceInputs:
    """The inputs of released labels."""
    until = labels.about["until"]
    ids = input_sets.ids_of(lake, labels.name, labels.about["inputs"])
    return SourceInputs(frozenset(ids), None if until is None else datetime.fromisoformat(until))


def of_events(spark: SparkSession, lake: Lake, contract: SourceContract, label: Label, inputs: SourceInputs) -> DataFrame:
    """The label of each event with a record: ``key``, ``label`` and ``label_known_at``, the arrival time of its newest record."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (a release starts no Spark)

    from lakehouse.dispositions.living_rows import Slice  # noqa: PLC0415
    from lakehouse.silver import merge as silver_merge  # noqa: PLC0415
    from lakehouse.spark import dataframes  # noqa: PLC0415

    days = key_log.days(lake, contract.dataset)
    if not days:
        kinds = {field.name: field.type for field in contract.typed_fields}
        columns = (("key", kinds[label.on]), ("label", label.type), ("label_known_at", "timestamp"))
        return dataframes.local(spark, arrow_schema(columns).empty_table())
    records = silver_merge.state(spark, lake, contract, Slice(days, inputs.ids, inputs.until))
    value = F.expr(sql_expressions.cast(label.sql, label.type)).alias("label")
    return records.groupBy(F.col(label.on).alias("key")).agg(value, F.max("arrival_ts").alias("label_known_at"))


def _snapshot(
    lake: Lake, contract: SourceContract, version: str, *, by: str, notes: str, known_at: datetime | None
) -> input_sets.NamedSnapshot:
    """The snapshot of a release; a snapshot made by an earlier, stopped release is reused."""
    source = contract.dataset
    try:
        return input_sets.find_snapshot(lake, source, version)
    except SnapshotError:
        pass
    if known_at is None:
        ids, described = input_sets.every_input(lake, source), "all inputs"
    else:
        ids, described = input_sets.known_at(lake, source, known_at), f"known at {known_at:%Y-%m-%d %H:%M}"
    chosen = input_sets.ChosenInputs(ids, described, known_at)
    return input_sets.create_snapshot(lake, contract, version, chosen, by=by, reason=notes)


def _same(recorded: Release, known_at: datetime | None) -> Release:
    if known_at is not None and recorded.known_at != known_at:
        msg = f"{recorded.full_name} is released with what was known at {recorded.known_at:%Y-%m-%d %H:%M}; take another version"
        raise ReleaseError(msg)
    return recorded
