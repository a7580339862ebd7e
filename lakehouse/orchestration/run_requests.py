"""The runs that a sensor requests: new ones, and failed ones up to a number of attempts; and the cursors of sensors.

A tag on each run names its *cause*. The daemon never starts a run key twice, even if its run has failed. So the key contains the
number of the attempt, and a repeated tick requests the same keys. A cursor survives from one tick to the next.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse import locations
from lakehouse.bronze.file_completeness import Observations
from lakehouse.delta import commit_log, provenance
from lakehouse.orchestration.dagster_internals import MAX_RETRIES_TAG

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from lakehouse.contracts import MetricContract, SourceContract
    from lakehouse.lake import Lake, Table


@dataclass(frozen=True)
class Cursor:
    """The cursor of a sensor.

    :param idle_state: the fingerprint at which there was nothing to do.
    :param skip_reason: the sensor's message at that time.
    :param seen: the landing files that are still observed.
    """

    idle_state: str | None = None
    skip_reason: str = ""
    seen: Observations = field(default_factory=Observations)

    @staticmethod
    def read(text: str | None) -> Cursor:
        """Parse the cursor stored by an earlier tick; an empty one if the text is not a cursor."""
        try:
            fields = json.loads(text or "{}")
            return Cursor(fields.get("nothing_at"), fields.get("because", ""), Observations.from_json(fields.get("seen", {})))
        except (ValueError, TypeError, AttributeError):
            return Cursor()

    def __str__(self) -> str:
        # The keys are those of earlier versions, so that an update does not make every sensor read its tables.
        fields = {"nothing_at": self.idle_state, "because": self.skip_reason, "seen": self.seen.to_json()}
        return json.dumps({name: value for name, value in fields.items() if value})


def state_of(lake: Lake, tables: Iterable[Table], contracts: Iterable[SourceContract | MetricContract], *more: str) -> str:
    """The fingerprint of everything that determines a sensor's result: tables, contracts, the code, and ``more`` texts.

    A log that is gone is written again from ``ops/journal`` when it is read, so that the journal determines the result, too. On
    an object store the journal is read once per process, see ``ledger.log_table``.
    """
    tables = list(tables)
    if "://" not in lake.root and any(table.open() is None for table in tables):
        tables.append(locations.journal(lake))
    return commit_log.state_of(tables, provenance.code(), *map(provenance.of_contract, contracts), *more)


def short_hash(text: str) -> str:
    """A hash of 16 characters for a tag."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


RUNNING = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
#: The number of runs for each cause.
ATTEMPTS = 3
#: Set on requested runs: the sensor requests further attempts, and Dagster itself never retries.
NO_RETRIES = {MAX_RETRIES_TAG: "0"}
#: The greatest number of a sensor's active runs: the cost of a tick must not grow with the number of pending runs.
AT_ONCE = 100


@dataclass
class RunRequestPlan:
    """The requests of a sensor at a tick.

    :param run_keys: the key of the run to request, by cause.
    :param on_their_way: the causes with a run that has not ended.
    :param given_up: the causes whose attempts have all failed.
    :param answered: the causes that a run has settled.
    :param later: the number of causes left for later ticks, because enough runs are active.
    """

    run_keys: dict[str, str] = field(default_factory=dict)
    on_their_way: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    later: int = 0

    @property
    def enough(self) -> bool:
        """Whether the maximum number of runs is active."""
        return len(self.run_keys) + len(self.on_their_way) >= AT_ONCE


def plan_run_requests(
    instance: dg.DagsterInstance, tag: str, causes: Sequence[str], settled_by_success: Collection[str] = ()
) -> RunRequestPlan:
    """Decide for which of ``causes`` to request a run, in their order.

    :param tag: the tag that names the cause of a run.
    :param settled_by_success: the causes that a successful run settles.
    """
    plan = RunRequestPlan()
    for begin in range(0, len(causes), AT_ONCE):
        some = causes[begin : begin + AT_ONCE]
        earlier = {} if plan.enough else _runs(instance, tag, some)
        for cause in some:
            statuses = earlier.get(cause, [])
            if plan.enough:
                plan.later += 1
            elif any(status in RUNNING for status in statuses):
                plan.on_their_way.append(cause)
            elif cause in settled_by_success and dg.DagsterRunStatus.SUCCESS in statuses:
                plan.answered.append(cause)
            elif len(statuses) >= ATTEMPTS:
                plan.given_up.append(cause)
            else:
                plan.run_keys[cause] = f"{cause}:{len(statuses)}"
    return plan


def _runs(instance: dg.DagsterInstance, tag: str, causes: Sequence[str]) -> dict[str, list[dg.DagsterRunStatus]]:
    """The states of the runs for each cause, from a single query."""
    statuses: dict[str, list[dg.DagsterRunStatus]] = defaultdict(list)
    for run in instance.get_runs(dg.RunsFilter(tags={tag: list(causes)})):
        statuses[run.tags[tag]].append(run.status)
    return statuses
