"""``ops/backtests``: the comparisons of two model versions on the same rows, and whether they met the acceptance rules.

Comparing versions belongs to ``backtest``; the consequences belong to ``promotion``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.ledger.log_table import LogTable
from lakehouse.training_sets import addresses

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lakehouse.lake import Lake


@dataclass(frozen=True)
class Backtest:
    """A comparison of ``version``, the challenger, with the version ``against``.

    :param first_month: the first month of the rows scored by both versions, as 2024-10; ``last_month``: the last month.
    :param known_at: the time whose knowledge the rows contain.
    :param passed: whether every acceptance rule of the contract was met.
    :param failed: the rules that were not met, each as a sentence with its numbers.
    :param results: the measures of both versions, by month and in total, and the evaluated rules.
    :param report: the address of the report.
    """

    model: str
    version: str
    against: str
    first_month: str
    last_month: str
    known_at: datetime
    passed: bool
    failed: list[str]
    results: Mapping[str, Any]
    report: str
    by: str
    recorded_at: datetime

    @property
    def title(self) -> str:
        """The compared versions and months as text."""
        months = self.first_month if self.first_month == self.last_month else f"{self.first_month} to {self.last_month}"
        return f"{self.version} against {self.against} on {months}"

    @property
    def rules(self) -> list[str]:
        """The acceptance rules of the contract at the time, as text."""
        rules: list[str] = self.results.get("rules", [])
        return rules

    @property
    def measures(self) -> Mapping[str, Any]:
        """By measure: the champion's value, the challenger's and their difference, with intervals, over the decisive rows."""
        judged = self.results.get("readings", {}).get(self.results.get("judged"), {})
        measures: Mapping[str, Any] = judged.get("total", {}).get("measures", {})
        return measures


def log(lake: Lake) -> LogTable[Backtest]:
    """The table of backtests."""
    return LogTable(Backtest, lake, addresses.backtests(lake), partition_by="model")


def of(lake: Lake, model: str) -> list[Backtest]:
    """The backtests of a model, oldest first."""
    return sorted(log(lake).read({"model": [model]}), key=lambda entry: (entry.recorded_at, entry.version, entry.against))


def newest(lake: Lake, model: str, version: str, against: str) -> Backtest | None:
    """The last recorded backtest of ``version`` against ``against``; None without one."""
    of_both = [entry for entry in of(lake, model) if (entry.version, entry.against) == (version, against)]
    return of_both[-1] if of_both else None
