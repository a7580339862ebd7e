"""Builds a version of a training set, its rows as a Delta table and its manifest in the log of releases, and reproduces it (R10).

The table is written first, in one commit; the version exists once its manifest is recorded. A build that was stopped in between
is repeated by the same command. The manifest has a hash of the content, and the distribution of each column.

A reproduction computes the rows from the inputs in the manifest, and compares the content. No older version of a table is needed:
the rows follow from Bronze, published revisions and the recorded sets of inputs. The comparison uses the content hash, which does
not depend on files. Redactions always apply, including later ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.contracts.training_set import KEY_PREFIX
from lakehouse.delta import provenance
from lakehouse.delta.columns import is_number
from lakehouse.lake import table_io
from lakehouse.ledger import ingestions
from lakehouse.spark.session import sized_for
from lakehouse.training_sets import events, labels, releases
from lakehouse.training_sets import records as set_records
from lakehouse.training_sets.releases import Release, ReleaseError, ReleaseEvent, ReleaseKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.training_set import TrainingSetContract
    from lakehouse.lake import Lake, Table
    from lakehouse.training_sets.records import Knowledge


#: The number of parts into which quantiles divide a numeric column: 0 %, 2.5 %, ... 100 %.
_PARTS = 40
#: The number of most frequent values listed for a text column.
MOST_FREQUENT = 20
#: The sums of a 64-bit hash may be equal by chance; the sums of a second hash with another seed are then different.
_SEEDS = ("first", "second")


def content_hash(rows: DataFrame) -> Column:
    """The content hash of rows, as an aggregate: their number and the sums of two hashes of each row."""
    columns = [*rows.columns, *(F.col(name).isNull() for name in rows.columns)]  # Spark's hash skips NULL
    sums = [F.sum(F.xxhash64(F.lit(seed), *columns).cast("decimal(38,0)")) for seed in _SEEDS]
    return F.concat_ws("-", F.count(F.lit(1)), *(F.coalesce(total, F.lit(0)).cast("string") for total in sums))


def distribution(values: pa.ChunkedArray) -> dict[str, Any]:
    """The share of NULLs, and the distribution of the other values.

    :returns: for numbers ``min``, ``max``, ``mean``, ``deviation`` and 41 evenly spaced ``quantiles``, which are occurring
        values; None for each without a number. For other values the number of ``distinct`` values, and the most ``frequent`` with
        their counts.
    """
    present = values.drop_null()
    nulls = {"nulls": values.null_count / len(values) if len(values) else 0.0}
    if is_number(values.type):
        numbers = present.cast(pa.float64(), safe=False)
        return nulls | _of_numbers(numbers.filter(pc.invert(pc.is_nan(numbers))))
    return nulls | _of_others(present.cast(pa.string()))


def _of_numbers(values: pa.ChunkedArray) -> dict[str, Any]:
    measures = {"min": pc.min, "max": pc.max, "mean": pc.mean, "deviation": pc.stddev}
    described: dict[str, Any] = {name: measure(values).as_py() for name, measure in measures.items()}
    if not len(values):
        return {**described, "quantiles": None}
    # The smallest value up to which that share of the values lies. Arrow's quantiles may lie between two values, or outside them.
    places = [max(-(-len(values) * number // _PARTS) - 1, 0) for number in range(_PARTS + 1)]
    return {**described, "quantiles": np.sort(values.to_numpy())[places].tolist()}


def _of_others(values: pa.ChunkedArray) -> dict[str, Any]:
    counted = pc.value_counts(values)
    counts = pa.table({"value": counted.field("values"), "count": counted.field("counts")})
    first = counts.sort_by([("count", "descending"), ("value", "ascending")]).slice(0, MOST_FREQUENT).to_pylist()
    return {"distinct": len(counts), "frequent": {row["value"]: row["count"] for row in first}}


@dataclass(frozen=True)
class SetRequest:
    """A version of a training set to build.

    :param labels_version: default: the newest release.
    :param known_at: the time whose knowledge the rows contain; default: now.
    """

    version: str
    by: str
    notes: str
    labels_version: str | None = None
    known_at: datetime | None = None


def build(spark: SparkSession, lake: Lake, catalog: Catalog, contract: TrainingSetContract, request: SetRequest) -> Release:
    """Build a version from released labels and from the knowledge of now, or of an earlier time.

    :raises ReleaseError: if the version exists with other content, there are no released labels, the labels are deprecated, or a
        feature is.
    """
    refuse_deprecated(lake, catalog, contract)
    version, of_labels = request.version, _labels(lake, contract, request.labels_version)
    recorded = {entry.version: entry for entry in releases.all_of(lake, ReleaseKind.TRAINING_SET, contract.name)}
    if version in recorded:
        return _same(recorded[version], contract, of_labels)
    if not releases.VERSION.fullmatch(version):
        msg = f"{version!r} is no version: write v and two numbers, such as v5.0"
        raise ReleaseError(msg)
    known = set_records.now(lake, contract.sources, request.known_at).with_source(
        of_labels.name, labels.inputs_of(lake, of_labels)
    )
    mature_by = of_labels.known_at or known.published_until
    stored = locations.training_set(lake, contract.name, version)
    with sized_for(spark, lake, many=ingestions.are_many(lake, contract.entity.source)):
        write(rows_of(spark, lake, catalog, contract, known, mature_by), stored)
        written = spark.read.format("delta").load(stored.address)
        about = {
            "labels": {"source": of_labels.name, "version": of_labels.version},
            **known.recorded(lake),
            "mature_by": mature_by.isoformat(),
            "content_hash": written.agg(content_hash(written)).collect()[0][0],
            **_counted(contract, stored),
            "features": _definitions(catalog, contract),
            "code_version": provenance.code(),
            "contract_version": provenance.of_definition(contract),
            "contract": contract.model_dump(mode="json"),
        }
    entry = Release(
        contract.name,
        ReleaseKind.TRAINING_SET,
        version,
        ReleaseEvent.RELEASED,
        request.notes,
        request.by,
        lake.now(),
        known.published_until,
        about,
    )
    return releases.release(lake, entry)


def rows_of(
    spark: SparkSession,
    lake: Lake,
    catalog: Catalog,
    contract: TrainingSetContract,
    known: Knowledge,
    mature_by: datetime,
    keys: Any = None,
) -> DataFrame:
    """The rows of a set in the order of its columns; see ``releases.read_set``."""
    until = contract.until or (mature_by.date() + events.DAY)
    span = set_records.Span(contract.first_day, until, keys)
    rows_of = events.events(spark, lake, catalog, contract, known, span, contract.reading)
    rows = events.with_labels(spark, lake, catalog, contract, rows_of, known, mature_by)
    split = F.lit(None).cast("string")
    for name, first in contract.split.items():
        split = F.when(F.col("event_date") >= F.lit(first), F.lit(name)).otherwise(split)
    joined_by = [f"{KEY_PREFIX}{name}" for name in contract.key_columns]
    return rows.select(
        "record_key", "event_ts", split.alias("split"), *contract.features.names, "label", "label_known_at", *joined_by
    )


def write(rows: DataFrame, target: Table) -> None:
    """Write the rows of a version in one commit; they replace the remains of a stopped build."""
    # A Spark Connect client names the collation of texts that an Arrow function returned, and only Spark reads such a table.
    plain = rows.select(*(F.col(field.name).cast(field.dataType.simpleString()).alias(field.name) for field in rows.schema))
    plain.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(target.address)
    target.committed()


def refuse_deprecated(lake: Lake, catalog: Catalog, contract: TrainingSetContract) -> None:
    """:raises ReleaseError: if a feature, or the metric of a feature, is deprecated."""
    today = lake.now().date()
    for name, instead in contract.features.deprecated.items():
        msg = f"{contract.name}: the feature {name} is deprecated: {instead}; take it out of the contract to build a new version"
        raise ReleaseError(msg)
    for entry in contract.features.metrics:
        since = catalog.metrics[entry.metric].deprecated_on
        if since is not None and since <= today:
            msg = f"{contract.name}: {entry.metric}, which features are taken from, is deprecated since {since}; take another one"
            raise ReleaseError(msg)


def _labels(lake: Lake, contract: TrainingSetContract, version: str | None) -> Release:
    source = contract.label.source
    if version is not None:
        release = releases.find(lake, ReleaseKind.LABELS, source, version)
    else:
        newest = releases.newest(lake, ReleaseKind.LABELS, source)
        if newest is None:
            msg = f"no labels of {source} are released: 'lakehouse dataset release {source} v1.0' freezes what is known of them"
            raise ReleaseError(msg)
        release = newest
    deprecated = releases.deprecations(lake, ReleaseKind.LABELS, source).get(release.full_name)
    if deprecated is not None:
        msg = f"the labels {release.full_name} are deprecated: {deprecated.notes}; name another version with --labels"
        raise ReleaseError(msg)
    return release


def _same(recorded: Release, contract: TrainingSetContract, of_labels: Release) -> Release:
    """Return the recorded version if it has the requested contract and labels."""
    if recorded.about["contract_version"] != provenance.of_definition(contract):
        msg = f"{recorded.full_name} was built under another contract, and a version never changes; take another version"
        raise ReleaseError(msg)
    if recorded.about["labels"]["version"] != of_labels.version:
        used = recorded.about["labels"]["version"]
        msg = f"{recorded.full_name} was built from the labels {used} and not {of_labels.version}; take another version"
        raise ReleaseError(msg)
    return recorded


def _counted(contract: TrainingSetContract, written: Table) -> dict[str, Any]:
    """The statistics of the rows: their number, time ranges, and the distribution of each column, read one column at a time."""
    table = DeltaTable(written.address, storage_options=dict(written.options))
    times = table_io.read_version(table, ["split", "event_ts"])
    parts = times.group_by("split").aggregate([("event_ts", "count"), ("event_ts", "min"), ("event_ts", "max")]).to_pylist()
    spans = {
        part["split"]: {
            "rows": part["event_ts_count"],
            "from": part["event_ts_min"].isoformat(),
            "to": part["event_ts_max"].isoformat(),
        }
        for part in parts
    }
    described = [*contract.features.names, "label"]
    return {
        "rows": len(times),
        "time": {name: spans[name] for name in contract.split if name in spans},
        "columns": {name: distribution(table_io.read_version(table, [name])[name]) for name in described},
    }


def _definitions(catalog: Catalog, contract: TrainingSetContract) -> dict[str, Any]:
    """The definition of each feature, with the version of its source's contract."""
    source = catalog.sources[contract.entity.source]
    of_event = {
        column if isinstance(column, str) else column.name: {
            "source": source.dataset,
            "sql": column if isinstance(column, str) else column.sql,
            "contract_version": provenance.of_contract(source),
        }
        for column in contract.features.columns
    }
    joined = {
        name: {
            "dimension": join.dimension,
            "column": column,
            "contract_version": provenance.of_contract(catalog.sources[join.dimension]),
        }
        for join in contract.features.joins
        for column, name in join.attributes
    }
    published = {
        name: {
            "metric": entry.metric,
            "measure": measure,
            "dataset_version": catalog.metrics[entry.metric].dataset_version,
            "contract_version": provenance.of_contract(catalog.metrics[entry.metric]),
        }
        for entry in contract.features.metrics
        for measure, name in entry.measures
    }
    return {**of_event, **joined, **published}


@dataclass(frozen=True)
class SetReproduction:
    """The content hash of a version as released and as reproduced; ``notes`` give possible reasons for a difference."""

    release: Release
    before: str
    after: str
    restored: bool
    notes: list[str]

    @property
    def is_equal(self) -> bool:
        """Whether the content is the same."""
        return self.before == self.after


def reproduce(spark: SparkSession, lake: Lake, catalog: Catalog, release: Release) -> SetReproduction:
    """Recompute the rows of a version; if its table is gone, write them."""
    about, contract = release.about, releases.contract_of(release)
    stored = locations.training_set(lake, release.name, release.version)
    known, mature_by = set_records.stored(lake, about), datetime.fromisoformat(about["mature_by"])
    is_gone = stored.open() is None
    with sized_for(spark, lake, many=ingestions.are_many(lake, contract.entity.source)):
        rows = rows_of(spark, lake, catalog, contract, known, mature_by)
        if is_gone:
            write(rows, stored)
            rows = spark.read.format("delta").load(stored.address)
        made = rows.agg(content_hash(rows)).collect()[0][0]
    return SetReproduction(release, about["content_hash"], made, is_gone, _notes(catalog, release))


def _notes(catalog: Catalog, release: Release) -> list[str]:
    """Notes on feature contracts that have changed since the version was built."""
    notes = []
    for name, feature in release.about["features"].items():
        source = feature.get("source") or feature.get("dimension")
        contract = catalog.sources.get(source) if source else catalog.metrics.get(feature["metric"])
        if contract is None:
            notes.append(f"{name}: the contract of {source or feature['metric']} is gone")
        elif provenance.of_contract(contract) != feature["contract_version"]:
            notes.append(f"{name}: the contract of {source or feature['metric']} has changed since; today's applies")
    return notes
