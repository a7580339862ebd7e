"""Creating, validating and dropping a stage: the steps, their order, and the conditions that forbid a promotion.

A stage has its input, its side version of silver and gold, and the report on both. It exists once its creation is recorded; files
that a stopped creation has left in the folder of the stage are removed by the next creation. How a promoted stage is undone is
also decided here. The runs of a promotion, and their order, belong to ``orchestration.execution.stage_promotion``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import locations, object_store
from lakehouse.contracts import Catalog, MetricContract, SourceContract
from lakehouse.contracts.loader import completed
from lakehouse.delta import provenance
from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement import revert as restatement_revert
from lakehouse.stages import stage_log, validation
from lakehouse.stages.stage_log import DAY_THRESHOLD, SET_THRESHOLD, Stage, StageError, StageEvent, StageEventKind, StageKind
from lakehouse.stages.validation import StagedChange
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date
    from decimal import Decimal
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.gold.publication.write_audit_publish import Run
    from lakehouse.gold.restatement.revert import UndoneSeries
    from lakehouse.lake import Lake

#: The folders of a stage with its tables; its files are in another folder of the stage.
TABLES = ("bronze", "silver", "gold", "ops")


@dataclass(frozen=True)
class StageRequest:
    """A person's request for a stage.

    :param files: the files, or folders of files, for a stage of that kind.
    :param contract: the changed contract, for a stage of that kind.
    :param first: the first arrival day, for a stage that reads Bronze again.
    :param seed: chooses the sampled rows.
    """

    name: str
    source: str
    by: str
    reason: str
    kind: StageKind = StageKind.FILES
    files: Sequence[Path] = ()
    contract: SourceContract | MetricContract | None = None
    first: date | None = None
    last: date | None = None
    day_threshold: Decimal = DAY_THRESHOLD
    set_threshold: Decimal = SET_THRESHOLD
    seed: int = 0

    @property
    def about(self) -> dict[str, str]:
        """The arguments from which the stage can be computed again."""
        given = {
            "first": None if self.first is None else f"{self.first}",
            "last": None if self.last is None else f"{self.last}",
            "contract": None if self.contract is None else self.contract.model_dump_json(),
            "contract_of": None if self.contract is None else _name_of(self.contract),
            "metric": self.contract.name if isinstance(self.contract, MetricContract) else None,
            "day_threshold": f"{self.day_threshold}",
            "set_threshold": f"{self.set_threshold}",
            "seed": f"{self.seed}",
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def described(self) -> str:
        """A description of the staged input, for people."""
        if self.kind is StageKind.FILES:
            return f"{len(self.files):,} {'file or folder' if len(self.files) == 1 else 'files or folders'}"
        if self.contract is not None:
            return f"the contract of {_name_of(self.contract)}"
        if self.first is None and self.last is None:
            return "all of Bronze, read again"
        return f"Bronze read again, arrival days {self.first or 'the first'} to {self.last or 'the last'}"


def create(lake: Lake, catalog: Catalog, session: Callable[[], SparkSession], request: StageRequest, run_id: str) -> Stage:
    """Stage a changed input: compute its side version of silver and gold, and the report of the changes.

    :raises StageError: for a name that is taken, files that cannot be staged, or a stage that changes nothing.
    """
    lake = lake.cached()
    stage_log.check_free(lake, request.name)
    staged = _staged(lake, catalog, request.source, request.name, request.kind, request.about)
    object_store.remove_folder(lake.storage_options, staged.lake.root)  # what a stopped creation has left
    try:
        if request.kind is StageKind.FILES:
            validation.copy_files(staged.lake, staged.source, request.files, lake.now().date())
        report = validation.validated(lake, staged, session, run_id)
    except Exception:
        object_store.remove_folder(lake.storage_options, staged.lake.root)
        raise
    event = StageEvent(
        name=request.name,
        number=1,
        event=StageEventKind.CREATED,
        source=request.source,
        kind=request.kind,
        described=request.described,
        by=request.by,
        reason=request.reason,
        recorded_at=lake.now(),
        about=request.about,
        contracts=provenance.of_contracts(staged.catalog, request.source),
        report=report.model_dump_json(),
    )
    stage_log.record(lake, event)
    return stage_log.find(lake, request.name)


def refresh(lake: Lake, catalog: Catalog, session: Callable[[], SparkSession], name: str, by: str, run_id: str) -> Stage:
    """Compute a stage again, against the tables and under the contracts as they are now.

    :raises StageError: if it is no longer waiting, or as :func:`create`.
    """
    lake = lake.cached()
    stage = stage_log.find(lake, name)
    if stage.state is not StageEventKind.CREATED:
        msg = f"the stage {name} is {stage.state.value}: there is nothing to compute again"
        raise StageError(msg)
    staged = _staged(lake, catalog, stage.source, name, stage.created.kind, stage.created.about)
    for layer in TABLES:
        object_store.remove_folder(lake.storage_options, f"{staged.lake.root}/{layer}")
    report = validation.validated(lake, staged, session, run_id)
    changes = {
        "report": report.model_dump_json(),
        "contracts": provenance.of_contracts(staged.catalog, stage.source),
    }
    stage_log.record(lake, next_event(lake, stage, StageEventKind.VALIDATED, by, "computed again", **changes))
    return stage_log.find(lake, name)


def drop(lake: Lake, name: str, by: str, reason: str) -> Stage:
    """Remove a stage: only its record is left. Calling it again changes nothing.

    :raises StageError: if it is being promoted, or was promoted.
    """
    stage = stage_log.find(lake, name)
    if stage.state in {StageEventKind.PROMOTING, StageEventKind.PROMOTED, StageEventKind.UNDONE}:
        ways = {
            StageEventKind.PROMOTING: f"run 'lakehouse stage promote {name}' again, it was stopped or is running",
            StageEventKind.PROMOTED: f"'lakehouse stage undo {name}' puts the numbers back",
            StageEventKind.UNDONE: "it has been promoted and undone, and nothing of it is left",
        }
        msg = f"the stage {name} is {stage.state.value}: {ways[stage.state]}"
        raise StageError(msg)
    if stage.state is not StageEventKind.DROPPED:
        stage_log.record(lake, next_event(lake, stage, StageEventKind.DROPPED, by, reason))
    object_store.remove_folder(lake.storage_options, lake.stage(name).root)
    return stage_log.find(lake, name)


def next_event(lake: Lake, stage: Stage, event: StageEventKind, by: str, reason: str, **changes: object) -> StageEvent:
    """The next event of a stage."""
    first, last = stage.created, stage.events[-1]
    values = {
        **vars(first),
        "number": last.number + 1,
        "event": event,
        "by": by,
        "reason": reason,
        "recorded_at": lake.now(),
        "about": {},
        "contracts": {},
        "report": None,
        "sign_off": None,
    }
    return StageEvent(**{**values, **changes})


def _staged(lake: Lake, catalog: Catalog, source: str, name: str, kind: StageKind, about: Mapping[str, str]) -> StagedChange:
    """The input of a stage; a staged contract takes the place of the deployed one."""
    sources, metrics = dict(catalog.sources), dict(catalog.metrics)
    text, changed = about.get("contract"), about.get("metric")
    if text and changed:
        metrics[changed] = completed(MetricContract.model_validate_json(text), sources)
    elif text:
        sources[source] = SourceContract.model_validate_json(text)
        metrics = {name: metric.with_contracts(sources) for name, metric in metrics.items()}
    return StagedChange(lake.stage(name), Catalog(sources, metrics), sources[source], kind, about)


def _name_of(contract: SourceContract | MetricContract) -> str:
    return contract.dataset if isinstance(contract, SourceContract) else contract.name


_SHOWN = 10


def is_outdated(lake: Lake, stage: Stage) -> bool:
    """Whether silver has changed since the stage was computed."""
    now = locations.silver(lake, stage.source).version()
    return now != stage.report.silver_version


def check_promotion(catalog: Catalog, stage: Stage, by: str, sign_off: str | None) -> None:
    """Check that a stage may be promoted; a stage whose promotion was stopped may be continued.

    :param sign_off: the reason why exceeded thresholds and failed checks are accepted.
    :raises StageError: if it may not be promoted; the message gives the reason.
    """
    name, state = stage.name, stage.state
    if state is StageEventKind.PROMOTING:
        return
    if state is not StageEventKind.CREATED:
        msg = f"the stage {name} is {state.value}: only a stage that waits can be promoted"
        raise StageError(msg)
    _check_contracts(catalog, stage)
    objections = stage.report.objections
    if objections and not sign_off:
        listed = "\n  ".join(
            [*objections[:_SHOWN], *([f"and {len(objections) - _SHOWN:,} more"] if len(objections) > _SHOWN else [])]
        )
        msg = f"the stage {name} exceeds its thresholds; promote it with --sign-off and why, or drop it:\n  {listed}"
        raise StageError(msg)
    _check_approvals(catalog, stage, by)


def undo_promotion(lake: Lake, catalog: Catalog, stage: Stage, run: Run, reason: str) -> list[UndoneSeries]:
    """Restore the numbers that a stage restated to their previous values, as new revisions; calling it again changes nothing.

    :param run: names the person.
    :raises StageError: if the stage was not promoted.
    :raises UndoError: if one of the numbers has changed since.
    """
    if stage.state not in {StageEventKind.PROMOTED, StageEventKind.UNDONE}:
        msg = f"the stage {stage.name} is {stage.state.value}: only a promoted stage can be undone"
        raise StageError(msg)
    dailies = [served_version.daily(lake, catalog, metric) for metric in catalog.metrics_of(stage.source)]
    done = restatement_revert.undo(lake, catalog.sources[stage.source], dailies, stage.run_name, run, reason)
    if stage.state is StageEventKind.PROMOTED:
        stage_log.record(lake, next_event(lake, stage, StageEventKind.UNDONE, run.by or "", reason))
    return done


def _check_contracts(catalog: Catalog, stage: Stage) -> None:
    """:raises StageError: if a contract differs from the one under which the stage was computed."""
    computed, now = stage.validated.contracts, provenance.of_contracts(catalog, stage.source)
    other = [name for name in sorted({*computed, *now}) if computed.get(name) != now.get(name)]
    if not other:
        return
    about = stage.created.about
    staged = provenance.metric_beside(stage.source, about["metric"]) if "metric" in about else about.get("contract_of", "")
    if other == [staged]:
        msg = (
            f"the contract of {staged} is not the staged one yet ({now.get(staged, 'absent')}, staged {computed[staged]}): put "
            f"the staged file into the contracts folder, then promote {stage.name}"
        )
        raise StageError(msg)
    changed = join_limited([f"{name} ({computed.get(name, 'absent')}, now {now.get(name, 'absent')})" for name in other], _SHOWN)
    remedy = f"'lakehouse stage refresh {stage.name}' computes it again"
    msg = f"contracts have changed since {stage.name} was computed: {changed}; {remedy}"
    raise StageError(msg)


def _check_approvals(catalog: Catalog, stage: Stage, by: str) -> None:
    """:raises StageError: if final numbers would change, and their contract requires more people than the two of the stage."""
    final = {series.series for series in stage.report.series if series.final_days}
    asking = [metric for metric in catalog.metrics_of(stage.source) if metric.name in final and metric.publication.approvals > 1]
    if asking and by == stage.created.by:
        names = join_limited([metric.name for metric in asking], _SHOWN)
        msg = f"{by} created the stage {stage.name}, and it changes final numbers of {names}: another person has to promote it"
        raise StageError(msg)
