"""What looks find ready, and the runs that they request for it: one for several tables, as many as there are free places.

Twenty sources that each got a file become one run, which takes them through all layers (see ``orchestration.run_events``):

- A run for a table is requested only if no run of it waits or is in progress. What comes in the meantime is for the next run.
- Work that failed before, work on a table that failed in a shared run of the last hour, and work of many bytes or days has a run
  of its own. So it neither fails nor delays that of others.
- A tick requests as many shared runs as there are free places, and divides its work among them. Chains with a common table
  share a run. What finds no place is the first at the next tick.
- A run leaves out tables that another run is at work on: it would wait for them with all its other tables. Other looks find them.

Belongs here: this division, and the tables of a chain. What is ready is decided by the looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.contracts.series import Series
from lakehouse.orchestration import plan_runs, run_events
from lakehouse.orchestration.assets.metric_assets import gold_key
from lakehouse.orchestration.assets.source_assets import keys
from lakehouse.orchestration.dagster_internals import SHARED_TAG
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import date

    from lakehouse.contracts import Catalog, MetricContract
    from lakehouse.lake import Lake

#: A run of its own is for files of more bytes than this.
LARGE = 2**25
#: Work whose bytes are not known has a run of its own from so many days on.
_MANY_DAYS = 31
#: A shared run is divided only into parts of at least so many chains, and takes at most so many.
_FEWEST, _MOST = 10, 100
#: Where Dagster's limit of concurrent runs is large or absent, a tick requests at most so many shared runs.
_RUNS = 8
#: Set on the runs that looks request: the looks, such as ``restate_revenue``.
LOOK_TAG = "lakehouse/look"
_SHOWN = 3
#: Why a look requests nothing although work waits.
IN_PROGRESS = "a run of it is in progress; the next one is requested when it has ended"
NO_PLACE = "waits for a free place among Dagster's runs"


@dataclass(frozen=True)
class Ready:
    """Work that waits for a table, and for those that follow it.

    :param tag: the tag of the work's kind; its runs have it with the subject behind it.
    :param subject: a source, or a series of a metric.
    :param cause: names the work: it is the same as long as the same work waits.
    :param attempt: the number of earlier runs for the cause.
    :param head: the first table.
    :param days: the first table's days.
    :param tables: the tables of the chain, each with the contract that is paused with it.
    :param files: for Bronze, the files that may be ingested, each with its state.
    :param size: the bytes to read, as far as they are known.
    :param is_suspect: whether one of the tables failed in a shared run not long ago.
    """

    tag: str
    subject: str
    cause: str
    attempt: int
    head: dg.AssetKey
    days: Collection[date]
    tables: Mapping[dg.AssetKey, str] = field(default_factory=dict)
    files: Mapping[str, str] | None = None
    size: int = 0
    is_suspect: bool = False

    @property
    def run_key(self) -> str:
        """The key of a run for this work alone."""
        return plan_runs.run_key(self.cause, self.attempt)

    @property
    def is_alone(self) -> bool:
        """Whether it gets a run of its own."""
        has_many_days = self.files is None and len(self.days) >= _MANY_DAYS
        return self.attempt > 0 or self.is_suspect or has_many_days or self.size > LARGE

    @property
    def tags(self) -> dict[str, str]:
        """The tag by which runs of the cause are found."""
        return {tag_of(self.tag, self.subject): self.cause}

    @property
    def config(self) -> dict[str, object]:
        """The run configuration of the first table."""
        return run_events.config_of(self.head, self.days, {} if self.files is None else {"files": dict(self.files)})

    def suspected(self, suspects: Collection[dg.AssetKey]) -> Ready:
        """The same work, marked if one of its tables is suspect."""
        return replace(self, is_suspect=any(key in suspects for key in (self.head, *self.tables)))

    def without(self, paused: Collection[str] = (), tables: Collection[dg.AssetKey] = ()) -> Ready:
        """The same work without tables that would follow: those of paused contracts, and others."""
        kept = {key: contract for key, contract in self.tables.items() if contract not in paused and key not in tables}
        return replace(self, tables=kept)


def tag_of(kind: str, subject: str) -> str:
    """The tag whose value is the cause of a run."""
    return f"{kind}/{subject}"


def tables_of_source(lake: Lake, catalog: Catalog, source: str) -> dict[dg.AssetKey, str]:
    """The tables that follow a source's files, each with its contract: Bronze, Silver, and every number computed from them."""
    bronze, _, silver = keys(source)
    chain = {bronze: f"source/{source}", silver: f"source/{source}"}
    return chain | tables_of_metrics(lake, catalog, catalog.metrics_following(source))


def tables_of_metrics(lake: Lake, catalog: Catalog, metrics: Iterable[MetricContract]) -> dict[dg.AssetKey, str]:
    """The daily numbers and the roll-ups of metrics, each with its contract.

    A planned backfill updates the metrics of its source itself, so they are left out while one runs.
    """
    tables: dict[dg.AssetKey, str] = {}
    for metric in metrics:
        sources = [contract.dataset for contract in catalog.sources_of(metric)]
        if not any(plan_runs.is_backfill_running(lake, source) for source in sources):
            daily = Series(metric)
            tables |= {gold_key(series.name): f"metric/{metric.name}" for series in (daily, *daily.rollups)}
    return tables


#: A table that failed in a shared run is suspect for so long, in as many of the newest failed runs.
_SUSPECT, _FAILED = timedelta(hours=1), 20


def suspects(instance: dg.DagsterInstance) -> set[dg.AssetKey]:
    """The tables whose step failed or did not end in a shared run not long ago."""
    since = datetime.now(timezone.utc) - _SUSPECT
    wanted = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.FAILURE],
        tags={SHARED_TAG: [kind[SHARED_TAG] for kind in (run_events.SHARED, run_events.ALONE)]},
        updated_after=since,
    )
    runs = instance.get_runs(wanted, limit=_FAILED)
    return {key for run in runs for key, status in plan_runs.step_statuses(instance, run).items() if status in plan_runs.UNDONE}


@dataclass(frozen=True)
class Division:
    """The runs that a tick requests, and why other work waits, by look."""

    requests: list[dg.RunRequest]
    waiting: dict[str, str]


def divide(ready: Sequence[tuple[str, Ready]], active: Sequence[dg.DagsterRun], places: int, *, share: bool) -> Division:
    """The runs for what is ready.

    :param ready: work, each with its look.
    :param active: the runs that have not ended.
    :param places: the greatest number of runs that Dagster runs at once.
    :param share: whether several tables share a run.
    """
    busy = frozenset().union(*(run.asset_selection or () for run in active))
    waiting = {look: IN_PROGRESS for look, work in ready if work.head in busy}
    free = [(look, work.without(tables=busy)) for look, work in ready if work.head not in busy]
    if not share:
        return Division([_of_one_table(look, work) for look, work in free], waiting)
    alone, others = ([each for each in free if each[1].is_alone is is_alone] for is_alone in (True, False))
    together = _together(others, _number(others, active, places))
    single = [[each] for each in alone[: _places_of(run_events.ALONE, active, places)]]
    taken = {id(work) for group in (*together, *single) for _, work in group}
    waiting |= {look: NO_PLACE for look, work in free if id(work) not in taken}
    return Division([_request(group) for group in (*together, *single)], waiting)


def _number(ready: Sequence[tuple[str, Ready]], active: Sequence[dg.DagsterRun], places: int) -> int:
    """The number of runs to request for work that is not alone."""
    needed = max(math.ceil(len(ready) / _FEWEST), math.ceil(sum(work.size for _, work in ready) / LARGE), min(len(ready), 1))
    return min(needed, _places_of(run_events.SHARED, active, places))


def _places_of(kind: Mapping[str, str], active: Sequence[dg.DagsterRun], places: int) -> int:
    """How many runs of a kind may be requested: none while one waits for a place, and otherwise one at least."""
    if any(kind.items() <= run.tags.items() and run.status in plan_runs.QUEUED for run in active):
        return 0
    return min(max(1, places - len(active)), _RUNS)


def _together(ready: Sequence[tuple[str, Ready]], number: int) -> list[list[tuple[str, Ready]]]:
    """Divide work among so many runs, in turn; work that has a table in common with that of a run joins it."""
    groups: list[list[tuple[str, Ready]]] = [[] for _ in range(number)]
    of_table: dict[dg.AssetKey, int] = {}
    sizes = [0] * number
    for look, work in ready:
        known = {of_table[key] for key in (work.head, *work.tables) if key in of_table}
        least = min(range(number), key=lambda place: (sizes[place] + work.size > LARGE, len(groups[place])), default=None)
        place = min(known, default=least)
        if place is None or len(groups[place]) >= _MOST or (groups[place] and sizes[place] + work.size > LARGE):
            continue
        groups[place].append((look, work))
        sizes[place] += work.size
        of_table |= dict.fromkeys([work.head, *work.tables], place)
    return [group for group in groups if group]


def _request(group: Sequence[tuple[str, Ready]]) -> dg.RunRequest:
    """One run for all work of a group."""
    works = [work for _, work in group]
    run_key = works[0].run_key if len(works) == 1 else plan_runs.short_hash("|".join(sorted(work.run_key for work in works)))
    tags = {name: value for work in works for name, value in work.tags.items()}
    selected = list(dict.fromkeys(key for work in works for key in (work.head, *work.tables)))
    config = {name: of_asset for work in works for name, of_asset in work.config.items()}
    looks = join_limited(list(dict.fromkeys(look for look, _ in group)), _SHOWN)
    return dg.RunRequest(
        run_key=run_key,
        asset_selection=selected,
        asset_check_keys=[],
        tags={**(run_events.ALONE if works[0].is_alone else run_events.SHARED), **tags, LOOK_TAG: looks, **plan_runs.NO_RETRIES},
        run_config={"ops": config},
    )


def _of_one_table(look: str, work: Ready) -> dg.RunRequest:
    """A run for the first table alone; other sensors start those that follow it."""
    tags = {**work.tags, LOOK_TAG: look, **plan_runs.NO_RETRIES}
    if work.files is None:
        tags |= run_events.tags_for(work.days)
        return dg.RunRequest(work.run_key, asset_selection=[work.head], asset_check_keys=[], tags=tags)
    (day,) = work.days
    config = {"ops": {work.head.to_python_identifier(): {"config": {"files": dict(work.files)}}}}
    return dg.RunRequest(work.run_key, partition_key=f"{day}", asset_selection=[work.head], tags=tags, run_config=config)
