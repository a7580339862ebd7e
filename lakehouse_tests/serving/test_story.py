"""A day that a change of a dimension restated: its story, its report and its lineage say which one; other days do not.

A value is not told any more once it is redacted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts.series import Series
from lakehouse.gold.publication import restatement_reports
from lakehouse.ledger import redactions
from lakehouse.ledger.redactions import Redaction
from lakehouse.serving.quality_models import LineageModel
from lakehouse_tests.support.api_client import api_client, get_json
from lakehouse_tests.support.joined_lake import joined_lake
from lakehouse_tests.support.parsed_page import words

if TYPE_CHECKING:
    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

BASIC, GOLD = ("basic", "north", 1), ("gold", "north", 1)
KEY = '["ann","2024-02-03T06:00:00.000000Z"]'
BECAUSE = "the tier of customer ann from 2024-02-03 06:00 UTC to 2024-02-05 became gold"


@pytest.mark.merge
def test_a_restated_day_says_which_change_of_a_dimension_it_follows(lake: Lake, spark: Any) -> None:
    sample = joined_lake(lake, spark)
    sample.customer("ann", (1, BASIC))
    sample.customer("bob", (1, BASIC))
    facts = [(who, day, part) for who in ("ann", "bob") for day in range(1, 6) for part in (0, 2)]
    sample.deliver(9, *(f"{who}{day}.{part},1,{day + part / 4},{who}" for who, day, part in facts))
    sample.publish()
    sample.customer("ann", (1, BASIC), (3.25, GOLD), (5, BASIC))
    assert sample.publish() == [{3, 4}]
    restatement_reports.follow(lake, Series(sample.metrics[0]))

    with api_client(lake, sample.catalog) as client:
        for day in range(1, 6):
            lineage = get_json(client, f"/lineage/spend/2024-02-0{day}")
            LineageModel.model_validate(lineage)
            story = words(client.get(f"/page/metrics/spend/2024-02-0{day}").text)
            assert lineage["because"] == (BECAUSE if day in {3, 4} else None)
            assert story.count(f"Restated because {BECAUSE}.") == (day in {3, 4})
        assert "No change of a row caused it" not in words(client.get("/page/metrics/spend/2024-02-04").text)
        assert f"Restated because {BECAUSE}." in words(client.get("/page/metrics/spend/2024-02-04/r2").text)
        publication = get_json(client, "/lineage/spend/2024-02-04")["publication"]
        assert publication["dimension_changes"]["first"][0]["days"] == ["2024-02-03", "2024-02-04"]
        report = words(client.get(f"/page/restated/spend/{publication['publication_id']}").text)
        assert f"Restated because {BECAUSE}." in report
        assert "tier of customers, by customer" in words(client.get("/page/metrics/spend").text)

    redactions.record(lake, "customers", Redaction(KEY, ["tier"], "eve", "asked for", lake.now()))
    with api_client(lake, sample.catalog) as client:
        lineage = get_json(client, "/lineage/spend/2024-02-04")
        assert lineage["because"] == BECAUSE.replace("became gold", "was changed")
        assert "gold" not in str(lineage["publication"]["dimension_changes"])
    [of_ann] = restatement_reports.changes_of_key(lake, Series(sample.metrics[0]), "customers", "ann")
    assert [day.day for day in of_ann.days] == [3, 4]
    assert not list(restatement_reports.changes_of_key(lake, Series(sample.metrics[0]), "customers", "bob"))
