"""Which runs that sensors wish for were asked for before, how often, and under which key they may be asked for now.

A tag names what a run is the answer to, its *cause*. The daemon never runs a run key twice, also when its run failed: so the
number of the attempt is a part of it, and a tick that is repeated makes the same keys.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.orchestration.common.dagster_internals import MAX_RETRIES_TAG

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

RUNNING = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
#: How many runs there are for one cause.
ATTEMPTS = 3
#: Set on the runs that are asked for: Dagster itself tries none of them again, whoever asked does.
NO_RETRIES = {MAX_RETRIES_TAG: "0"}
#: So many runs of a sensor may be on their way: what a tick costs, it and the daemon, must not grow with what waits.
AT_ONCE = 100


@dataclass
class Plan:
    """What is to be asked for now: run keys by cause; and the causes of which there are runs already, or enough of them.

    ``later`` counts those that were not looked at, because enough is on its way.
    """

    run_keys: dict[str, str] = field(default_factory=dict)
    on_their_way: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    later: int = 0

    @property
    def enough(self) -> bool:
        """Whether no more runs are to be on their way."""
        return len(self.run_keys) + len(self.on_their_way) >= AT_ONCE


def plan(instance: dg.DagsterInstance, tag: str, causes: Sequence[str], known: Collection[str] = ()) -> Plan:
    """What of ``causes``, in their order, is to be asked for.

    :param known: those for which nothing is left to do when a run has succeeded.
    """
    made = Plan()
    for begin in range(0, len(causes), AT_ONCE):
        some = causes[begin : begin + AT_ONCE]
        earlier = {} if made.enough else _runs(instance, tag, some)
        for cause in some:
            statuses = earlier.get(cause, [])
            if made.enough:
                made.later += 1
            elif any(status in RUNNING for status in statuses):
                made.on_their_way.append(cause)
            elif cause in known and dg.DagsterRunStatus.SUCCESS in statuses:
                made.answered.append(cause)
            elif len(statuses) >= ATTEMPTS:
                made.given_up.append(cause)
            else:
                made.run_keys[cause] = f"{cause}:{len(statuses)}"
    return made


def _runs(instance: dg.DagsterInstance, tag: str, causes: Sequence[str]) -> dict[str, list[dg.DagsterRunStatus]]:
    """The states of the runs for each cause; one query for all of them."""
    found: dict[str, list[dg.DagsterRunStatus]] = defaultdict(list)
    for run in instance.get_runs(dg.RunsFilter(tags={tag: list(causes)})):
        found[run.tags[tag]].append(run.status)
    return found
