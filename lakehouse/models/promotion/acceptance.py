"""What speaks against the promotion of a version: the acceptance rules of its contract, and its canary.

A person may sign it off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.models import backtest_log
from lakehouse.models.scoring import canary_log
from lakehouse.models.scoring.canary_log import CanaryOutcome

if TYPE_CHECKING:
    from lakehouse.contracts import ModelContract
    from lakehouse.models.backtest_log import Backtest
    from lakehouse.settings import Settings


def accepted_by_backtest(settings: Settings, contract: ModelContract, version: str, against: str) -> Backtest | None:
    """The newest backtest of ``version`` against ``against`` if it met every acceptance rule of the contract; else None."""
    newest = backtest_log.newest(settings, contract.name, version, against)
    return newest if newest is not None and newest.passed and newest.rules == contract.rules else None


def objections(settings: Settings, contract: ModelContract, version: str, against: str | None) -> list[str]:
    """The objections to replacing ``against`` by ``version``, as sentences with remedies; none for the first version in use.

    :param against: the version in use; None without one.
    """
    if against is None:
        return []
    return [*_of_backtest(settings, contract, version, against), *_of_canary(settings, contract, version, against)]


def _of_canary(settings: Settings, contract: ModelContract, version: str, against: str) -> list[str]:
    """What the newest canary of a version lacks: it runs still, did not meet its rules, or has too few labels.

    A version without a canary lacks nothing: a contract asks for none.
    """
    both = (version, against)
    canaries = [one for one in canary_log.of(settings, contract.name) if (one.started.challenger, one.started.champion) == both]
    if not canaries:
        return []
    newest = canaries[-1]
    title, outcome = newest.started.title, newest.judged.outcome if newest.judged else None
    lacking = []
    if newest.stopped is None:
        lacking.append(f"the {title} is running: 'lakehouse model canary stop {contract.name}' ends it")
    if outcome is CanaryOutcome.NOT_MET:
        lacking.append(f"the {title} did not meet the rules of its contract")
    elif outcome is not CanaryOutcome.MET:
        known = f"has too few labels ({newest.judged.labels or 0:,})" if newest.judged else "was not judged"
        lacking.append(f"the {title} {known}: 'lakehouse model canary compare {contract.name}' judges it while it runs")
    return lacking


def _of_backtest(settings: Settings, contract: ModelContract, version: str, against: str) -> list[str]:
    """What a version lacks by the acceptance rules."""
    if not contract.acceptance:
        return []
    newest = backtest_log.newest(settings, contract.name, version, against)
    rules = "; ".join(contract.rules)
    command = f"lakehouse model backtest {contract.name} {version} --against {against}"
    if newest is None:
        return [f"no backtest compares {version} with {against}, the version in use, by the rules ({rules}): run '{command}'"]
    if newest.rules != contract.rules:
        then = "; ".join(newest.rules) or "none"
        judged = f"the backtest of {newest.title} was judged by other rules ({then}) than the contract has now ({rules})"
        return [f"{judged}: run '{command}'"]
    if newest.passed:
        return []
    return [f"the backtest of {newest.title} did not meet: {rule}" for rule in newest.failed] or [
        f"the backtest of {newest.title} did not pass"
    ]
