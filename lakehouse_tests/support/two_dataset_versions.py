"""A metric in two dataset versions with given numbers, for tests of promotion."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse.contracts import Catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.promotion import promotion
from lakehouse.gold.promotion.promotion import PromotionRefusedError
from lakehouse.gold.publication import write_audit_publish
from lakehouse.gold.publication.candidates import DraftTerms, NumberLineage, draft_period
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakehouse.gold.promotion.promotion import PromotionResult
    from lakehouse.gold.publication.write_audit_publish import PublishResult
    from lakehouse.lake import Lake

TOTAL = {"name": "total", "sql": "sum(amount)", "type": "long", "additive": True}
ANA = Run("run", "test", by="ana")
#: Arrow's type of each that contracts here use.
_TYPES = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string()}


def metric(number: int = 1, *measures: dict[str, Any], **changes: Any) -> MetricContract:
    """One version of the metric ``total``."""
    content = {"metric": "total", "source": "events", "measures": [*(measures or [TOTAL])], "dataset_version": number}
    return MetricContract.model_validate(content | changes)


def catalog(*metrics: MetricContract) -> Catalog:
    """The contracts: by default two versions alike."""
    return Catalog({"events": contract()}, {one.name: one for one in metrics or (metric(1), metric(2))})


V1, V2 = Series(metric(1)), Series(metric(2))


def three_days(lake: Lake) -> Lake:
    """Two versions that differ on the second of three days."""
    at(lake, 3)
    publish_totals(lake, V1, {1: 10, 2: 20, 3: 30})
    at(lake, 4)
    publish_totals(lake, V2, {1: 10, 2: 22, 3: 30})
    at(lake, 5)
    return lake


def day(number: int) -> date:
    """A day of February."""
    return date(2024, 2, number)


def at(lake: Lake, number: int, hour: int = 12) -> None:
    """Set the clock to a day of February."""
    lake.settings.now = datetime(2024, 2, number, hour, tzinfo=timezone.utc)


def publish_totals(
    lake: Lake, series: Series, numbers: Mapping[int, int | None], *, rows: int = 1, **lineage: Any
) -> PublishResult:
    """Publish a total for some days of February, through the audit."""
    starts = [day(number) for number in numbers]
    before, today = write_audit_publish.read(lake, series, starts), lake.now().date()
    drafts = []
    for start, total in zip(starts, numbers.values()):
        values = {measure.name: total for measure in series.metric.measures} | {"row_count": rows}
        types = {measure.name: _TYPES[measure.type] for measure in series.metric.measures} | {"row_count": pa.int64()}
        content = pa.table({name: pa.array([value], types[name]) for name, value in values.items()})
        draft = draft_period(before, start, content, DraftTerms(today))
        if draft is not None:
            drafts.append(replace(draft, lineage=NumberLineage(**lineage)))
    return write_audit_publish.publish(lake, before, drafts, Run("run"), {})


def promote(lake: Lake, known: Catalog, number: int = 2, **options: Any) -> PromotionResult:
    """Promote a version of the metric."""
    return promotion.promote(lake, known, metric(), number, ANA, "net of refunds", promotion.PromotionOptions(**options))


def refusal(do: Callable[[], object]) -> str:
    """The message of a refused promotion or rollback."""
    with pytest.raises(PromotionRefusedError) as caught:
        do()
    return f"{caught.value}"


def rollback(lake: Lake, known: Catalog, number: int | None = None) -> PromotionResult:
    """Go back to a version of the metric."""
    return promotion.rollback(lake, known, metric(), number, ANA, "it was wrong")


def latest_totals(lake: Lake, name: str = "total", column: str = "total") -> dict[int, Any]:
    """The latest total of each day of February, as a reader of the gold table sees it."""
    found = lake.table("gold", name).read(["event_date", column], {"is_latest": [True]})
    assert found is not None
    return {row["event_date"].day: row[column] for row in found.sort_by("event_date").to_pylist()}


def revisions(lake: Lake, number: int) -> list[tuple[Any, ...]]:
    """Every version of one day: revision, adjustment, total, reason, dataset version."""
    names = ["revision", "adjustment", "total", "reason", "dataset_version"]
    found = lake.table("gold", "total").read(names, {"event_date": [day(number)]})
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=lambda row: (row[0], row[1] or 0))
