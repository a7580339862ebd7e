"""Detects contracts that were changed in place: compares the contract under which the lake was filled with the present one.

Belongs here: which contract is recorded for a source or a metric, and the sentences that name the file, the key, both values and
the remedy. The effect of a change of a key is defined in ``contracts.changed_keys``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from lakehouse import locations
from lakehouse.contracts import changed_keys, loader
from lakehouse.contracts.changed_keys import ChangedKey, KeyEffect
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.contracts.source import SourceContract
from lakehouse.delta import provenance
from lakehouse.errors import LakehouseError
from lakehouse.ledger import contract_archive
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from lakehouse.lake import Lake

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
    contract_archive.record(lake, "ingested", source, version, contract.model_dump_json(), lake.now())


def check_meaning(lake: Lake, metric: MetricContract) -> None:
    """Refuse to publish numbers that differ in meaning from the published ones.

    :raises ChangedMeaningError: naming the keys that were changed.
    """
    stored = contract_archive.newest(lake, "metric", metric.name)
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
    stored = contract_archive.newest(lake, "ingested", source)
    if stored is None and (in_silver := provenance.newest_in_silver(lake, source)["contract"]):
        former = contract_archive.find(lake, "source", source, in_silver)
        stored = former and contract_archive.readable(former)
    if stored is None:
        return []
    try:
        return changed_keys.compare(SourceContract.model_validate(stored), contract)
    except ValidationError:  # of a release whose contracts this one cannot read
        return []


def _named(lake: Lake, contract: SourceContract | MetricContract, changes: list[ChangedKey]) -> str:
    named = [f"{each}".replace(each.key, loader.place_of(lake.settings.contracts, contract, each.key), 1) for each in changes]
    return join_limited(named, _SHOWN, " keys")
