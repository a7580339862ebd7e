"""Promotion and rollback of models: the alias ``champion`` in MLflow is moved in one step, with a record before and after.

An interrupted promotion is settled by the next command: it is completed if the alias points to the new version, else undone. A
promotion ends a canary, which compares with the previous version in use. The acceptance rules of the contract and the canary may
forbid a promotion. Records belong to ``promotion_log``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from lakehouse.delta import leases
from lakehouse.errors import LakehouseError
from lakehouse.models import backtest_log, canary_log, promotion_log, tracking
from lakehouse.models.canary_log import CanaryOutcome
from lakehouse.models.promotion_log import ModelPromotion, PromotionKind, PromotionRequest, PromotionStep
from lakehouse.text import format_moment
from lakehouse.training_sets import releases

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.lake import Lake
    from lakehouse.training_sets.releases import Release


def objections(lake: Lake, contract: ModelContract, version: str, against: str | None) -> list[str]:
    """The objections to replacing ``against`` by ``version``, as sentences with remedies; none for the first version in use.

    :param against: the version in use; None without one.
    """
    if against is None:
        return []
    return [*_of_backtest(lake, contract, version, against), *_of_canary(lake, contract, version)]


def _of_canary(lake: Lake, contract: ModelContract, version: str) -> list[str]:
    """What the newest canary of a version lacks: it runs still, did not meet its rules, or has too few labels.

    It counts whichever version was in use while it ran. A version without a canary lacks nothing: a contract asks for none.
    """
    canaries = [one for one in canary_log.of(lake, contract.name) if one.started.challenger == version]
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


def _of_backtest(lake: Lake, contract: ModelContract, version: str, against: str) -> list[str]:
    """What a version lacks by the acceptance rules."""
    if not contract.acceptance:
        return []
    newest = backtest_log.newest_backtest(lake, contract.name, version, against)
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


class ModelPromotionError(LakehouseError):
    """A promotion or rollback that is refused. The message states the reason, the version in use, and the remedy."""


def promote(
    lake: Lake,
    catalog: Catalog,
    contract: ModelContract,
    version: str,
    *,
    by: str,
    notes: str,
    sign_off: str | None = None,
) -> ModelPromotion:
    """Make a version the champion. If it is already in use, nothing changes, and the record of its promotion is returned.

    :param notes: the reason, for the release notes.
    :param sign_off: the reason for which ``by`` accepts unmet acceptance rules; recorded with these rules.
    :raises ModelPromotionError: if the version is deprecated, the acceptance rules forbid it, or another promotion is in
        progress.
    :raises ReleaseError: for a version that does not exist.
    :raises TrackingError: if MLflow cannot be reached; the version in use stays, or the next command settles the promotion.
    """
    release = _usable(lake, contract, version)
    number = _next_number(lake, contract)
    alias, recorded = tracking.champion(lake, contract), promotion_log.in_use(lake, contract.name)
    if alias == version == recorded:
        return promotion_log.completed(lake, contract.name)[-1]
    before = recorded if alias == version else alias
    lacking = objections(lake, contract, version, before)
    if lacking and not sign_off:
        lines = "\n".join(f"    {objection}" for objection in lacking)
        msg = (
            f"{contract.name} {version} is not promoted, {before} stays in use:\n{lines}\n"
            "    or sign it off with a reason: --sign-off 'REASON'"
        )
        raise ModelPromotionError(msg)
    backtest = backtest_log.newest_backtest(lake, contract.name, version, before) if before else None
    request = PromotionRequest(
        *(number, PromotionKind.PROMOTE, release, by, notes, lacking),
        sign_off=sign_off if lacking else None,
        backtest=backtest.title if backtest else None,
    )
    written = promotion_log.as_markdown(lake, catalog, request, before, backtest)
    return _move(lake, contract, before, replace(request, release_notes=written))


def rollback(lake: Lake, contract: ModelContract, *, by: str, notes: str, to: str | None = None) -> ModelPromotion:
    """Make an earlier champion the champion again, without training or Spark.

    Without ``to``, it is the version before the newest promotion. A completed rollback is not repeated: its record is returned;
    to go further back, name the version.

    :raises ModelPromotionError: if the version was never in use or is deprecated, or another promotion is in progress.
    :raises TrackingError: if MLflow cannot be reached.
    """
    number = _next_number(lake, contract)
    history = promotion_log.completed(lake, contract.name)
    if not history:
        msg = f"{contract.name} has no version in use, so there is none to go back to"
        raise ModelPromotionError(msg)
    newest = history[-1]
    alias = tracking.champion(lake, contract)
    target = to or (newest.to_version if newest.kind is PromotionKind.ROLLBACK else newest.from_version)
    if target is None:
        msg = f"{contract.name} {newest.to_version} is the first version in use: there is none to go back to"
        raise ModelPromotionError(msg)
    if alias == target == newest.to_version:
        return newest
    if target not in {entry.to_version for entry in history}:
        used = ", ".join(dict.fromkeys(entry.to_version for entry in history))
        msg = f"{contract.name} {target} was never in use ({used} were); promote it instead"
        raise ModelPromotionError(msg)
    before = newest.to_version if alias == target else alias
    request = PromotionRequest(number, PromotionKind.ROLLBACK, _usable(lake, contract, target), by, notes)
    return _move(lake, contract, before, request)


def settle(lake: Lake, contract: ModelContract) -> ModelPromotion | None:
    """End an interrupted promotion: it is completed if the alias points to the new version, else undone.

    MLflow is contacted only if there is an interrupted promotion.

    :returns: a promotion on which a process may still be working; None without one.
    :raises TrackingError: if MLflow cannot be reached.
    """
    open_entry = promotion_log.unended(lake, contract.name)
    if open_entry is None or promotion_log.is_running(open_entry):
        return open_entry
    if tracking.champion(lake, contract) == open_entry.to_version:
        _took_place(lake, open_entry)
    else:
        promotion_log.end(lake, open_entry, done=False)
    return None


def _next_number(lake: Lake, contract: ModelContract) -> int:
    """Reserve the number of a new promotion; a concurrent promotion that takes the number first is detected.

    :raises ModelPromotionError: while another process is working on a promotion.
    """
    running = settle(lake, contract)
    if running is not None:
        raise ModelPromotionError(_meanwhile(running))
    return promotion_log.next_number(lake, contract.name)


def _usable(lake: Lake, contract: ModelContract, version: str) -> Release:
    release = releases.find(lake, releases.ReleaseKind.MODEL, contract.name, version)
    deprecated = releases.deprecations(lake, releases.ReleaseKind.MODEL, contract.name).get(release.full_name)
    if deprecated is not None:
        since = f"{deprecated.recorded_at:%Y-%m-%d}"
        msg = f"{contract.name} {version} is deprecated since {since}: {deprecated.notes}; name another version"
        raise ModelPromotionError(msg)
    return release


def _move(lake: Lake, contract: ModelContract, before: str | None, request: PromotionRequest) -> ModelPromotion:
    """Record the start of a promotion, move the alias, and record the end."""
    entry = ModelPromotion(
        model=contract.name,
        number=request.number,
        step=PromotionStep.BEGUN,
        kind=request.kind,
        from_version=before,
        to_version=request.release.version,
        by=request.by,
        notes=request.notes,
        recorded_at=lake.now(),
        process=leases.this_process(),
        expires_at=datetime.now(timezone.utc) + promotion_log.PATIENCE,
        accepted=list(request.accepted),
        sign_off=request.sign_off,
        backtest=request.backtest,
        release_notes=request.release_notes,
    )
    if not promotion_log.begin(lake, entry):
        others = promotion_log.unended(lake, contract.name)
        raise ModelPromotionError(_meanwhile(others or promotion_log.completed(lake, contract.name)[-1]))
    try:
        tracking.set_champion(lake, request.release)
    except Exception:
        promotion_log.stop(lake, entry)
        with suppress(LakehouseError):  # the next command settles the promotion
            settle(lake, contract)
        done = [ended for ended in promotion_log.completed(lake, contract.name) if ended.number == entry.number]
        if done:  # MLflow moved the alias and could not report it
            return done[0]
        raise
    ended = _took_place(lake, entry)
    if ended.step is PromotionStep.UNDONE:
        msg = (
            f"{entry.title} took so long that another command recorded it as undone, and the alias was moved afterwards; "
            "repeat the command"
        )
        raise ModelPromotionError(msg)
    return ended


def _took_place(lake: Lake, entry: ModelPromotion) -> ModelPromotion:
    """Record that the alias was moved, and return the valid entry.

    A canary that compares with another version is ended first: after an interruption in between, the promotion is settled as a
    whole.
    """
    canary = canary_log.running(lake, entry.model)
    if canary is not None and canary.champion != entry.to_version:
        canary_log.stop_running(lake, entry.model, by=entry.by, reason=entry.title)
    return promotion_log.end(lake, entry, done=True)


def _meanwhile(other: ModelPromotion) -> str:
    is_over = other.step is PromotionStep.DONE
    what = "took place" if is_over else "has begun"
    until = "" if is_over else f"; it has until {other.expires_at:%H:%M:%S} UTC"
    return (
        f"another promotion {what} at the same time: {other.title} by {other.by} at {format_moment(other.recorded_at)}{until}. "
        f"Nothing was changed; look at it with 'lakehouse model show {other.model}' and repeat the command if it still applies"
    )
