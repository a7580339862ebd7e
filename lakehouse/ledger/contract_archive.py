"""``ops/contracts``: the contracts under which rows were read and numbers were published, and which were changed in place.

A full contract is stored for each hash that revisions and commits contain, so that their numbers can be reproduced (rule R10). A
metric's row also names the contract of its source, and is written again when the source's contract changes: the time of a
revision determines which pair was in force. ``gold.reproduction.recompute`` selects the contract of a revision.

The kind ``ingested`` has the contract of a source under which its rows were last read. A contract that was changed in place is
detected by comparing the recorded contract with the present one. Belongs here: the sentences that name the file, the key, both
values and the remedy. The effect of a change of a key is defined in ``contracts.changed_keys``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from lakehouse import locations
from lakehouse.contracts import changed_keys, loader
from lakehouse.contracts.changed_keys import ChangedKey, KeyEffect
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.contracts.source import SourceContract
from lakehouse.delta import provenance
from lakehouse.errors import LakehouseError
from lakehouse.ledger.log_table import LogTable
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.lake import Lake


Kind = Literal["source", "metric", "ingested"]


@dataclass(frozen=True)
class ArchivedContract:
    """The text of a contract (JSON) under the hash ``version``; ``number`` counts the contracts of a name, from 1.

    ``source_version`` is the hash of the source's contract that was in force with a metric's.
    """

    kind: Kind
    name: str
    version: str
    source_version: str | None
    contract: str
    number: int
    recorded_at: datetime


def log(lake: Lake) -> LogTable[ArchivedContract]:
    """The table."""
    return LogTable(ArchivedContract, lake, locations.contract_archive(lake), journaled=True)


def record(
    lake: Lake, kind: Kind, name: str, version: str, contract: str, now: datetime, source_version: str | None = None
) -> bool:
    """Store a contract (as JSON), unless it is already the newest stored contract of its name.

    :returns: whether it was written.
    """
    archived = _archived(lake, kind, name)
    newest = archived[-1] if archived else None
    if newest is not None and (newest.version, newest.source_version) == (version, source_version):
        return False
    number = len(archived) + 1
    entry = ArchivedContract(kind, name, version, source_version, contract, number, now)
    return log(lake).append([entry], app_id=f"contracts:{kind}:{name}:{number}:{version}:{source_version}")


def find(lake: Lake, kind: Kind, name: str, version: str) -> dict[str, Any] | None:
    """The contract with the hash ``version``; None if it was never stored."""
    return next((json.loads(entry.contract) for entry in _archived(lake, kind, name) if entry.version == version), None)


def newest(lake: Lake, kind: Kind, name: str) -> dict[str, Any] | None:
    """The contract of ``name`` that was stored last; None if there is none."""
    archived = _archived(lake, kind, name)
    return readable(json.loads(archived[-1].contract)) if archived else None


def readable(stored: dict[str, Any]) -> dict[str, Any]:
    """A stored contract as this release reads it: without a key that earlier releases accepted and that never had an effect, and
    with the rule for late events that held before there was a key for it.
    """
    if stored.get("late_events"):
        return {**stored, "late_events": {"at_close": "exclude", **stored["late_events"]}}
    if "clocks" not in stored:
        return stored
    return {**stored, "clocks": {key: value for key, value in stored["clocks"].items() if key != "event_time"}}


def source_version(lake: Lake, metric: str, version: str, when: datetime) -> str | None:
    """The hash of the source's contract that was in force with a metric's contract at ``when``; None if it is not recorded."""
    archived = [entry for entry in _archived(lake, "metric", metric) if entry.version == version]
    before = [entry for entry in archived if entry.recorded_at <= when]
    return next((entry.source_version for entry in reversed(before or archived[:1])), None)


def _archived(lake: Lake, kind: Kind, name: str) -> list[ArchivedContract]:
    return sorted(log(lake).read({"kind": [kind], "name": [name]}), key=lambda entry: entry.number)


_SHOWN = 5


class ChangedMeaningError(LakehouseError):
    """A metric that was changed in place so that new numbers would differ in meaning from the published ones."""


def problem_of_source(lake: Lake, contract: SourceContract) -> str | None:
    """The reason why no row may be ingested under a contract, or None if rows may be.

    New rows would identify other events than the older rows, or be ordered or counted by other rules.
    """
    changes = [each for each in _changes_of_source(lake, contract) if each.effect is KeyEffect.IDENTITY]
    if not changes:
        return None
    source = contract.dataset
    return (
        f"{_named(lake, contract, changes)}, and the rows of bronze/{source} have their keys, days and order by the former: "
        f"restore it; or read them again by the new one: 'lakehouse source reparse {source} --by NAME --reason WHY --now', then "
        "repeat this; or give the source another 'dataset'"
    )


def notices_of_source(lake: Lake, contract: SourceContract) -> list[str]:
    """The differences between rows ingested under ``contract`` and older rows, each as a sentence with a command if one resolves
    it.

    There are none once the contract is recorded by :func:`accept`.
    """
    source, notices = contract.dataset, []
    changes = _changes_of_source(lake, contract)
    today = lake.now().date()
    if reading := [each for each in changes if each.effect is KeyEffect.READING]:
        notices.append(
            f"{_named(lake, contract, reading)}: rows since {today} are read otherwise than older ones: 'lakehouse source "
            f"reparse {source} --by NAME --reason WHY' reads these again"
        )
    if choice := [each for each in changes if each.effect is KeyEffect.CHOICE]:
        notices.append(
            f"{_named(lake, contract, choice)}: days of silver/{source} without new rows hold what the former chose: "
            f"'lakehouse rebuild {source} --start-date DAY --end-date DAY --reason WHY' chooses again, and with --dry-run "
            "alone lists the days that would change"
        )
    if beginning := [each for each in changes if each.effect is KeyEffect.BEGINNING]:
        notices.append(
            f"{_named(lake, contract, beginning)}: an earlier day has no partition: its files are not ingested, and its rows "
            "are not updated"
        )
    return notices


def accept(lake: Lake, contract: SourceContract) -> None:
    """Record the contract under which rows are ingested, or were read again, unless it is already the recorded one."""
    source, version = contract.dataset, provenance.of_contract(contract)
    record(lake, "ingested", source, version, contract.model_dump_json(), lake.now())


def check_meaning(lake: Lake, metric: MetricContract) -> None:
    """Refuse to publish numbers that differ in meaning from the published ones.

    :raises ChangedMeaningError: naming the keys that were changed.
    """
    stored = newest(lake, "metric", metric.name)
    if stored is None or locations.gold(lake, Series(metric)).open() is None:
        return
    try:
        before = MetricContract.model_validate(stored)
    except ValidationError:  # of a release whose contracts this one cannot read
        return
    changes = [each for each in changed_keys.compare(before, metric) if each.effect is KeyEffect.MEANING]
    if changes:
        msg = (
            f"{_named(lake, metric, changes)}, and gold/{metric.name} was published by the former: nothing is published. "
            f"Restore it, and give the new one a file of its own with 'dataset_version: {metric.dataset_version + 1}'; or put it "
            f"into force for all days: 'lakehouse stage create NAME {metric.source} --contract FILE', then 'stage promote'"
        )
        raise ChangedMeaningError(msg)


def _changes_of_source(lake: Lake, contract: SourceContract) -> list[ChangedKey]:
    """The changed keys since rows were last ingested; for rows of a release that did not record it, since silver was last
    written.
    """
    source = contract.dataset
    stored = newest(lake, "ingested", source)
    if stored is None and (in_silver := provenance.newest_in_silver(lake, source)["contract"]):
        former = find(lake, "source", source, in_silver)
        stored = former and readable(former)
    if stored is None:
        return []
    try:
        return changed_keys.compare(SourceContract.model_validate(stored), contract)
    except ValidationError:  # of a release whose contracts this one cannot read
        return []


def _named(lake: Lake, contract: SourceContract | MetricContract, changes: list[ChangedKey]) -> str:
    named = [f"{each}".replace(each.key, loader.place_of(lake.settings.contracts, contract, each.key), 1) for each in changes]
    return join_limited(named, _SHOWN, " keys")
