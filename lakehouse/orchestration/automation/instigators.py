"""The sensors and schedules that Dagster knows, running or stopped, with their cursors; those of an earlier release, too."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakehouse.operations import pauses
from lakehouse.orchestration.dagster_internals import InstigatorStatus, InstigatorType
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import dagster as dg

    from lakehouse.lake import Lake

_SHOWN = 5


def earlier_cursors(instance: dg.DagsterInstance, names: Collection[str]) -> dict[str, str | None]:
    """The cursors of sensors that an earlier release had, by name."""
    return _instigators(instance, names, InstigatorType.SENSOR)


def take_over_pauses(instance: dg.DagsterInstance, lake: Lake, contracts: Mapping[str, str], kind: InstigatorType) -> None:
    """Pause what the stopped sensors or schedules of an earlier release were about, once.

    :param contracts: what each of them was about.
    """
    stopped = _instigators(instance, contracts, kind, {InstigatorStatus.STOPPED})
    known = {entry.contract for entry in pauses.log(lake).read()} if stopped else set()
    for contract in sorted({contracts[name] for name in stopped} - known):
        names = [name for name in stopped if contracts[name] == contract]
        with suppress(pauses.PauseError):  # another sensor's tick was faster
            pauses.pause(lake, contract, "Dagster", f"a person had stopped {join_limited(names, _SHOWN, ' more')}")


def running_sensors(instance: dg.DagsterInstance, names: Collection[str]) -> dict[str, str | None]:
    """The cursors of sensors that nobody has stopped, by name."""
    return _instigators(instance, names, InstigatorType.SENSOR, {InstigatorStatus.RUNNING, InstigatorStatus.DECLARED_IN_CODE})


def _instigators(
    instance: dg.DagsterInstance, names: Collection[str], kind: InstigatorType, statuses: set[InstigatorStatus] | None = None
) -> dict[str, str | None]:
    """The cursors of sensors or schedules that have ticked, or that a person has started or stopped, by name."""
    if instance.schedule_storage is None:
        return {}
    states = instance.all_instigator_state(instigator_type=kind, instigator_statuses=statuses)
    known = {state.instigator_name: getattr(state.instigator_data, "cursor", None) for state in states}
    return {name: known[name] for name in sorted(known) if name in names}
