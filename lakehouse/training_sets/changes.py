"""The changes to a released training set: the corrections that have arrived since, and the rows that they change.

Under ``as_known``, only labels, and added or removed events, can differ: later knowledge was not known at the event. So only
events that a later input concerns are recomputed. Under ``as_corrected``, all events are.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.training_set import KEY_PREFIX
from lakehouse.ledger import decisions, ingestions, key_log
from lakehouse.training_sets import records as set_records
from lakehouse.training_sets import releases
from lakehouse.training_sets.affected import label_values

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.training_set import TrainingSetContract
    from lakehouse.lake import Lake
    from lakehouse.training_sets.records import Knowledge, SourceInputs
    from lakehouse.training_sets.releases import Release

#: The number of differing rows that are listed.
NAMED = 1_000


@dataclass(frozen=True)
class SetChanges:
    """The number of rows of a version that would differ now.

    ``changed`` counts rows with another label or other features, ``changed_labels`` those with another label; ``added`` and
    ``removed`` count events that arrived late or were withdrawn. ``inputs`` has the new inputs by source; ``rows`` lists a
    limited number of differing rows: record_key, change, and the differing columns.
    """

    release: Release
    total: int
    inputs: dict[str, list[str]]
    changed: int = 0
    changed_labels: int = 0
    added: int = 0
    removed: int = 0
    rows: list[dict[str, object]] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The differing rows as a share of the version's rows."""
        return (self.changed + self.added + self.removed) / self.total if self.total else 0.0

    @property
    def cause(self) -> str:
        """A hash of the new inputs, which identifies the cause of changes."""
        text = "\n".join(f"{source}:{name}" for source, names in sorted(self.inputs.items()) for name in names)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def since(session: Callable[[], SparkSession], lake: Lake, catalog: Catalog, release: Release) -> SetChanges:
    """Determine the rows that would differ now; starts Spark only if relevant inputs have arrived since."""
    contract = releases.contract_of(release)
    now = set_records.now(lake, contract.sources)
    unchanged = new_inputs(lake, release, now)
    if not unchanged.inputs and contract.reading == "as_known":
        return unchanged
    keys = touched_keys(lake, contract, release, unchanged.inputs) if contract.reading == "as_known" else None
    if keys is not None and not len(keys):
        return unchanged
    return _compared(session(), lake, catalog, contract, unchanged, now, keys)


def new_inputs(lake: Lake, release: Release, now: Knowledge | None = None) -> SetChanges:
    """The inputs that have arrived since a version was built, before any row is compared; without Spark."""
    contract, then = releases.contract_of(release), set_records.stored(lake, release.about)
    now = now or set_records.now(lake, contract.sources)
    new = {source: sorted(_since(lake, source, then.sources[source], now.sources[source])) for source in contract.sources}
    return SetChanges(release, release.about["rows"], {source: ids for source, ids in new.items() if ids})


def _since(lake: Lake, source: str, then: SourceInputs, now: SourceInputs) -> set[str]:
    """The new inputs, and the files with rows that may have arrived after the version's time of knowledge."""
    new = set(now.ids - then.ids)
    if then.until is not None:
        files = ingestions.inputs(ingestions.all_of(lake, source))
        new |= {name for name in then.ids & files.keys() if files[name].arrival_date >= then.until.date()}
    return new


def at_most(lake: Lake, news: SetChanges) -> int | None:
    """The greatest number of rows that new inputs may change, from their keys; None if it is unbounded. Without Spark.

    Keys that the version does not contain count only if their event may lie in its time range.

    :param news: the result of :func:`new_inputs`.
    :raises MissingSetError: if the rows of the version are gone.
    """
    release, contract = news.release, releases.contract_of(news.release)
    keys = touched_keys(lake, contract, release, news.inputs) if contract.reading == "as_known" else None
    if keys is None or not len(keys):
        return None if keys is None else 0
    contained = releases.read_set(lake, release, ["record_key"])["record_key"].combine_chunks()
    elsewhere = _keys_of_other_days(lake, contract, release, news.inputs.get(contract.entity.source, []))
    counts = pc.or_(pc.is_in(keys, value_set=contained), pc.invert(pc.is_in(keys, value_set=elsewhere)))
    return pc.sum(counts).as_py() or 0


def touched_keys(lake: Lake, contract: TrainingSetContract, release: Release, new: dict[str, list[str]]) -> pa.Array | None:
    """The keys of the events that ``new`` inputs concern, directly or through labels; None if any event may be concerned."""
    touched = [pa.array([], pa.string())]
    for source in {contract.entity.source, contract.label.source} & new.keys():
        keys = keys_of(lake, source, new[source])
        if keys is None:
            return None
        if source == contract.entity.source:
            touched.append(keys)
        if source == contract.label.source:
            values = label_values(lake, contract, keys)
            column = f"{KEY_PREFIX}{contract.label.event_key}"
            rows = releases.read_set(lake, release, ["record_key", column])
            touched.append(rows.filter(pc.is_in(rows[column], value_set=values))["record_key"].combine_chunks())
    return pc.unique(pa.concat_arrays(touched))


def keys_of(lake: Lake, source: str, ids: Collection[str]) -> pa.Array | None:
    """The record keys of the files and decisions ``ids``; None if a rebuild is among them, which may concern any key."""
    files = ingestions.inputs(ingestions.all_of(lake, source)).keys() & set(ids)
    of_decisions = decisions.all_of(lake, source, ids)
    if set(ids) - files - {entry.decision_id for entry in of_decisions}:
        return None
    spoken = key_log.keys_of(lake, source, files) if files else pa.array([], pa.string())
    return pc.unique(pa.concat_arrays([spoken, pa.array([entry.record_key for entry in of_decisions], pa.string())]))


def _keys_of_other_days(lake: Lake, contract: TrainingSetContract, release: Release, ids: Collection[str]) -> pa.Array:
    """The keys of events that the files ``ids`` place only outside the days of a version."""
    columns = ["record_key", "event_date"]
    table = locations.key_log(lake, contract.entity.source)
    claims = table.read(columns, {"ingestion_id": sorted(ids)}) if ids else None
    if claims is None:
        return pa.array([], pa.string())
    mature = datetime.fromisoformat(release.about["mature_by"]) - contract.label.maturity
    last = mature.date() + timedelta(days=1)  # the event day in another time zone may be the next day
    within = pc.and_(pc.greater_equal(claims["event_date"], contract.first_day), pc.less_equal(claims["event_date"], last))
    of_set = claims.filter(pc.fill_null(within, fill_value=True))["record_key"]
    keys = pc.unique(claims["record_key"])
    return keys.filter(pc.invert(pc.is_in(keys, value_set=of_set.combine_chunks())))


def _compared(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    unchanged: SetChanges,
    now: Knowledge,
    keys: pa.Array | None,
) -> SetChanges:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (what has not changed starts no Spark)

    from lakehouse.spark import dataframes  # noqa: PLC0415
    from lakehouse.training_sets import build  # noqa: PLC0415

    release = unchanged.release
    mature_by = datetime.fromisoformat(release.about["mature_by"])
    columns = ["event_ts", "split", *contract.features.names, "label"]
    present = build.rows_of(spark, lake, catalog, contract, now, mature_by, keys)
    before = spark.read.format("delta").load(locations.training_set(lake, release.name, release.version).address)
    if keys is not None:
        wanted = F.broadcast(dataframes.local(spark, pa.table({"record_key": keys})))
        before = before.join(wanted, "record_key", "left_semi")
    ours = before.select("record_key", F.struct(*columns).alias("_before"))
    theirs = present.select("record_key", F.struct(*columns).alias("_after"))
    differs = F.filter(
        F.array(*(F.when(~F.col(f"_before.{name}").eqNullSafe(F.col(f"_after.{name}")), F.lit(name)) for name in columns)),
        lambda name: name.isNotNull(),
    )
    change = (
        F.when(F.col("_before").isNull(), "added")
        .when(F.col("_after").isNull(), "removed")
        .when(F.size("columns") > 0, "changed")
    )
    both = ours.join(theirs, "record_key", "full").withColumn("columns", differs).withColumn("change", change)
    different = both.where("change IS NOT NULL").select("record_key", "change", "columns").persist()
    try:
        return _counted(unchanged, different)
    finally:
        different.unpersist()


def _counted(unchanged: SetChanges, different: DataFrame) -> SetChanges:
    counts = {row["change"]: row["count"] for row in different.groupBy("change").count().collect()}
    labels = different.where("change = 'changed' AND array_contains(columns, 'label')").count()
    named = [row.asDict() for row in different.orderBy("record_key").limit(NAMED).collect()]
    return SetChanges(
        unchanged.release,
        unchanged.total,
        unchanged.inputs,
        changed=counts.get("changed", 0),
        changed_labels=labels,
        added=counts.get("added", 0),
        removed=counts.get("removed", 0),
        rows=named,
    )
