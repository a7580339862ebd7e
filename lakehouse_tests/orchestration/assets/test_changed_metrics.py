"""A run of a metric that was changed in place ends with a sentence, before anything is computed. No Spark."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.contracts.series import Series
from lakehouse.delta import provenance
from lakehouse.ledger import contract_archive
from lakehouse.orchestration.assets.metric_assets import gold_key
from lakehouse.orchestration.execution.in_process import InProcess, RunFailedError
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.notified_lake import metric

if TYPE_CHECKING:
    from lakehouse.lake import Lake


def test_a_run_publishes_nothing_and_names_the_key_and_the_ways_out(lake: Lake) -> None:
    before, day = metric(), date(2024, 1, 5)
    version, now = provenance.of_contract(before), lake.now()
    contract_archive.record(lake, "metric", before.name, version, before.model_dump_json(), now, "s")
    write_deltalake(locations.gold(lake, Series(before)).address, pa.table({"value": [1]}))
    catalog = Catalog({"events": contract()}, {"total": metric(window=7)})
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(RunFailedError) as problem:
        InProcess(lake, catalog, instance).run(gold_key("total"), [day])
    assert "window: was 1 and is 7, and gold/total was published by the former: nothing is published" in f"{problem.value}"
    assert "'dataset_version: 2'" in f"{problem.value}"
