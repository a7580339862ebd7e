"""Why the number of each window of a day changes. No Spark, no tables."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timezone

import pyarrow as pa
import pytest

from lakehouse.gold.numbers.lifecycle import PublishAction, PublishedState, RevisionReason, State
from lakehouse.gold.publication.candidates import Draft
from lakehouse.gold.restatement import lineage
from lakehouse.gold.restatement.days import _window_reasons
from lakehouse.gold.restatement.pending import PendingRestatement

DAY = date(2024, 1, 15)
HOURS = [(datetime(2024, 1, 15, hour, tzinfo=timezone.utc),) for hour in (9, 10)]
PLACES = {DAY: {HOURS[0]: Counter(inserted=2), HOURS[1]: Counter(corrected=1)}}


@pytest.mark.parametrize(
    ("action", "causes", "are_known"),
    [
        (PublishAction.REVISION, {"inserted": 2, "corrected": 1}, True),
        (PublishAction.REVISION, {"inserted": 2, "corrected": 1, lineage.AT_CLOSE: 1}, False),
        (PublishAction.STATE_CHANGE, {"inserted": 2, "corrected": 1}, False),
    ],
)
def test_each_window_has_the_reason_of_its_rows_where_the_windows_of_all_rows_are_known(
    action: PublishAction, causes: dict[str, int], are_known: bool
) -> None:
    draft = Draft(DAY, pa.table({"total": [1]}), State.PRELIMINARY, action, RevisionReason.CORRECTION)
    follows = PendingRestatement(frozenset({DAY}), 5, places=PLACES)
    published = PublishedState(1, State.PRELIMINARY, "content")
    reasons = _window_reasons(follows, [DAY], causes, draft, published, None, date(2024, 1, 17))
    shown = sorted((reason.text, reason.changed_rows) for reason in reasons.values())
    assert shown == ([("correction: 1 corrected", 1), ("late_data: 2 arrived late", 2)] if are_known else [])
