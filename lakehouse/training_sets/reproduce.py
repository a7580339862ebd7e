"""Reproduces a training set version from the inputs in its manifest, and compares the content (rule R10).

No older version of a table is needed: the rows follow from Bronze, published revisions and the recorded sets of inputs. The
comparison uses the content hash, which does not depend on files. Redactions always apply, including later ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakehouse.delta import provenance
from lakehouse.spark.session import sized_for
from lakehouse.training_sets import addresses, build, events, set_table
from lakehouse.training_sets import records as set_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.training_sets.releases import Release


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
    about, contract = release.about, set_table.contract_of(release)
    stored = addresses.training_set(lake, release.name, release.version)
    known, mature_by = set_records.stored(lake, about), datetime.fromisoformat(about["mature_by"])
    is_gone = stored.open() is None
    with sized_for(spark, lake, many=events.is_large(lake, contract)):
        rows = build.rows_of(spark, lake, catalog, contract, known, mature_by)
        if is_gone:
            build.write(rows, stored)
            rows = spark.read.format("delta").load(stored.address)
        made = rows.agg(build.content_hash(rows)).collect()[0][0]
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
