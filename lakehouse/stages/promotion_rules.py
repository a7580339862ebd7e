"""The conditions that forbid the promotion of a stage, and how a promoted stage is undone.

Belongs here: the rules. The runs of a promotion, and their order, belong to ``orchestration.execution.stage_promotion``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.delta import provenance
from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement import revert as restatement_revert
from lakehouse.stages import stage_log, staging
from lakehouse.stages.stage_log import Stage, StageError, StageEventKind
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.gold.publication.write_audit_publish import Run
    from lakehouse.gold.restatement.revert import UndoneSeries
    from lakehouse.lake import Lake

_SHOWN = 10


def is_outdated(lake: Lake, stage: Stage) -> bool:
    """Whether silver has changed since the stage was computed."""
    now = locations.silver(lake, stage.source).version()
    return now != stage.report.silver_version


def check(catalog: Catalog, stage: Stage, by: str, sign_off: str | None) -> None:
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


def undo(lake: Lake, catalog: Catalog, stage: Stage, run: Run, reason: str) -> list[UndoneSeries]:
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
        stage_log.record(lake, staging.next_event(lake, stage, StageEventKind.UNDONE, run.by or "", reason))
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
