"""What speaks against the promotion of a version by the acceptance rules of its contract. A person may sign it off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.models import backtest_log

if TYPE_CHECKING:
    from lakehouse.contracts import ModelContract
    from lakehouse.models.backtest_log import Backtest
    from lakehouse.settings import Settings


def accepted_by_backtest(settings: Settings, contract: ModelContract, version: str, against: str) -> Backtest | None:
    """The newest backtest of a version against another one, if it met every acceptance rule of the contract; else None."""
    newest = backtest_log.newest(settings, contract.name, version, against)
    return newest if newest is not None and newest.passed and newest.rules == contract.rules else None


def objections(settings: Settings, contract: ModelContract, version: str, against: str | None) -> list[str]:
    """What a version lacks to replace ``against``, as sentences with what to do; nothing for the first version in use.

    :param against: the version in use; None without one.
    """
    if against is None or not contract.acceptance:
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
