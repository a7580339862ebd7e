"""Contracts that earlier releases stored are read by this one. No Spark."""

from __future__ import annotations

import json

import pytest

from lakehouse.contracts.source import SourceContract
from lakehouse.delta import provenance
from lakehouse.gold.reproduction.recompute import HistoricalContracts, contract_of_then, remember_contract
from lakehouse.ledger import contract_archive
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.notified_lake import metric


@pytest.mark.parametrize("event_time", ["mutable", "immutable"])
def test_a_contract_with_a_key_that_had_no_effect_is_still_read(lake, event_time: str) -> None:
    now, numbers = contract(lateness={"expected": "P1D"}), metric()
    former = json.loads(contract().model_dump_json())
    former["clocks"]["event_time"] = event_time
    contract_archive.record(lake, "source", "events", "former", json.dumps(former), lake.now())
    version = provenance.of_contract(numbers)
    contract_archive.record(lake, "metric", "total", version, numbers.model_dump_json(), lake.now(), "former")
    revision = {"contract_version": version, "dataset_version": 1, "published_at": lake.now()}
    then = contract_of_then(lake, HistoricalContracts(numbers, now), revision, {})
    assert (then.source, then.certain) == (contract(), True)
    assert isinstance(then.source, SourceContract)


def test_what_is_stored_now_is_found_again(lake) -> None:
    now, numbers = contract(lateness={"expected": "P2D"}), metric("total", "board")
    remember_contract(lake, numbers, now)
    revision = {
        "contract_version": provenance.of_contract(numbers),
        "dataset_version": 1,
        "published_at": lake.now(),
    }
    later = HistoricalContracts(numbers.model_copy(update={"window": 2}), contract())
    then = contract_of_then(lake, later, revision, {})
    assert (then.metric, then.source) == (numbers, now)
