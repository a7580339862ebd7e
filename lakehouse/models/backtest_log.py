"""``ops/backtests``: the comparisons of two versions of a model on the same rows, and whether the acceptance rules were met.

How versions are compared belongs to ``backtest``; what a comparison allows belongs to ``promotion.acceptance``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.ledger.log_table import LogTable
from lakehouse.training_sets import addresses

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lakehouse.settings import Settings


@dataclass(frozen=True)
class Backtest:
    """A comparison of a version, the challenger, with another one, ``against``.

    :param first_month: the first month of the rows that both have scored, as 2024-10; ``last_month`` likewise the last one.
    :param known_at: the time whose knowledge the rows contain.
    :param passed: whether every acceptance rule of the contract was met.
    :param failed: the rules that were not, each as a sentence with its numbers.
    :param results: the measures of both, by month and in total, and the rules that were judged.
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
        """What was compared, as a person reads it."""
        months = self.first_month if self.first_month == self.last_month else f"{self.first_month} to {self.last_month}"
        return f"{self.version} against {self.against} on {months}"

    @property
    def rules(self) -> list[str]:
        """The acceptance rules that the contract had at the time, as a person reads them."""
        rules: list[str] = self.results.get("rules", [])
        return rules

    @property
    def measures(self) -> Mapping[str, Any]:
        """By measure the champion's, the challenger's and their difference, each with its interval; on all rows that count."""
        judged = self.results.get("readings", {}).get(self.results.get("judged"), {})
        measures: Mapping[str, Any] = judged.get("total", {}).get("measures", {})
        return measures


def log(settings: Settings) -> LogTable[Backtest]:
    """The table."""
    return LogTable(Backtest, settings, addresses.backtests(settings), partition_by="model")


def of(settings: Settings, model: str) -> list[Backtest]:
    """The backtests of a model, oldest first."""
    return sorted(log(settings).read({"model": [model]}), key=lambda entry: (entry.recorded_at, entry.version, entry.against))


def newest(settings: Settings, model: str, version: str, against: str) -> Backtest | None:
    """The backtest of a version against another one that was recorded last; None without any."""
    of_both = [entry for entry in of(settings, model) if (entry.version, entry.against) == (version, against)]
    return of_both[-1] if of_both else None
