"""How far a metric has followed silver, also when it has changed from one table to another."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.ledger import publications
from lakehouse.ledger.publications import Restatement

if TYPE_CHECKING:
    from lakehouse.lake import Lake

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("followed", "of_main", "of_newest"),
    [
        ([], -1, -1),
        ([(7, None)], 7, -1),
        ([(7, None), (2, "events_newest")], -1, 2),
        ([(7, None), (2, "events_newest"), (9, None)], 9, -1),
        ([(2, "events_newest"), (7, None), (3, "events_newest"), (-1, "events_newest")], -1, 3),
        ([(7, None), (-1, "events_newest")], 7, -1),
    ],
    ids=["nothing", "one table", "changed", "changed back", "changed twice", "not yet followed"],
)
def test_versions_of_another_table_do_not_count(
    lake: Lake, followed: list[tuple[int, str | None]], of_main: int, of_newest: int
) -> None:
    for number, (version, table) in enumerate(followed):
        entry = Restatement("total", "run", NOON + timedelta(hours=number), version, number, days=[], followed_table=table)
        publications.record_restatement(lake, entry)
    assert publications.followed_version(lake, "total") == of_main
    assert publications.followed_version(lake, "total", "events_newest") == of_newest


def test_every_recorded_run_changes_what_is_compared_with_the_last_answer(lake: Lake) -> None:
    answers = []
    for number, (version, table) in enumerate([(7, None), (2, "events_newest"), (2, "events_newest")]):
        entry = Restatement("total", "run", NOON, version, number, days=[], followed_table=table)
        publications.record_restatement(lake, entry)
        answers.append(publications.followed_versions(lake)["total"])
    assert len(set(answers)) == len(answers)
