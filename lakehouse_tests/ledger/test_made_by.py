"""Which numbers a version of the code or of a contract has made. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.delta import provenance
from lakehouse.ledger import publications
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark

if TYPE_CHECKING:
    from lakehouse.lake import Lake


def test_the_numbers_of_a_contract_and_of_the_code_are_found(lake: Lake) -> None:
    with without_spark():
        numbers = ScriptedNumbers(lake, metric())
        numbers.at(1)
        numbers.set(1, 5)
        numbers.publish()
        before = provenance.of_contract(numbers.metric)
        numbers.metric = metric(publication={"final_after": 3})
        numbers.set(1, 6)
        numbers.set(2, 7)
        numbers.publish()
    after = provenance.of_contract(numbers.metric)

    def made(version: str) -> list[str]:
        return [one.version_name for one in publications.numbers_made_by(lake, numbers.series, version)]

    assert made(before) == ["total_v2024-01-01.r1"]
    assert made(after[:6]) == ["total_v2024-01-01.r2", "total_v2024-01-02.r1"]
    assert made(provenance.code()) == made(provenance.code().partition("+")[2]) == [*made(before), *made(after)]
    assert made("forgotten") == []
    assert [one.is_latest for one in publications.numbers_made_by(lake, numbers.series, provenance.code())] == [False, True, True]
