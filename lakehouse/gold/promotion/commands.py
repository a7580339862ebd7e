"""``lakehouse promote``, ``gold rollback`` and ``gold promotions``: the dataset version of a metric that its readers see.

The list of promotions and rollbacks covers the data of metrics and models.
"""

from __future__ import annotations

import getpass
import json
import uuid
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import deployment, errors, out
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lakehouse.contracts import Catalog, MetricContract
    from lakehouse.gold.numbers.comparison import Comparison, Threshold
    from lakehouse.gold.promotion.plan import PromotionPlan
    from lakehouse.gold.promotion.promotion import PromotionResult
    from lakehouse.gold.promotion.promotion_log import PromotionEntry
    from lakehouse.gold.publication.write_audit_publish import Run
    from lakehouse.lake import Lake


_Metric = Annotated[str, typer.Argument(help="The metric that readers know, such as revenue.")]
_By = Annotated[str, typer.Option(help="Who requests it; default: the user's name.")]
_Restate = Annotated[bool, typer.Option("--restate", help="Update numbers and roll-ups now (may start Spark).")]


@dataclass(frozen=True)
class PromotionTerms:
    """Which differences a promotion accepts, and whether it is made."""

    threshold: Annotated[list[str] | None, typer.Option(help="How far, in percent, a measure may change: revenue=5.")] = None
    accept_differences: Annotated[bool, typer.Option(help="Continue beyond a bound, or if a measure ends.")] = False
    dry_run: Annotated[bool, typer.Option(help="Only report what would change; exit code 1 if it is refused.")] = False


@dataclass(frozen=True)
class PromotionFiles:
    """The files that get the comparison and the release notes."""

    html: Annotated[Path | None, typer.Option(help="Write the comparison to this file, as HTML.")] = None
    markdown: Annotated[Path | None, typer.Option(help="Write the comparison to this file, as Markdown.")] = None
    output: Annotated[Path | None, typer.Option(help="Write the release notes to this file.")] = None


@arguments.with_groups
def promote(
    metric: _Metric,
    version: Annotated[str, typer.Argument(help="The dataset version to show, such as v2.")],
    reason: arguments.WhyForReaders,
    by: _By = "",
    *,
    terms: PromotionTerms,
    files: PromotionFiles,
    restate: _Restate = False,
) -> None:
    """Show readers another dataset version of a metric: all numbers at once, as new revisions with your reason."""
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415
    from lakehouse.gold.promotion import plan as promotion_plan  # noqa: PLC0415
    from lakehouse.gold.promotion import promotion  # noqa: PLC0415
    from lakehouse.gold.promotion.promotion_log import of as moves_of  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.reports import comparison_report  # noqa: PLC0415

    lake, catalog, contract = first_version_of(metric)
    number, limits, who = arguments.dataset_version(version), _thresholds(terms.threshold or []), by or getpass.getuser()

    def written(comparison: Comparison | None) -> None:
        if comparison is not None and files.html is not None:
            files.html.write_text(comparison_report.as_html(comparison), encoding="utf-8")
        if comparison is not None and files.markdown is not None:
            files.markdown.write_text(comparison_report.as_markdown(comparison), encoding="utf-8")

    def notes(plan: PromotionPlan) -> str:
        return _release_notes(lake, catalog, plan, who, reason)

    try:
        if terms.dry_run:
            plan = promotion_plan.plan_promotion(lake, catalog, contract, number, limits)
            written(plan.comparison)
            raise typer.Exit(_explained(plan, accepted=terms.accept_differences))
        run = _run(who, "lakehouse promote")
        options = promotion.PromotionOptions(limits, notes, terms.accept_differences)
        done = promotion.promote(lake, catalog, contract, number, run, reason, options)
    except (promotion.PromotionRefusedError, served_version.UnservedVersionError) as problem:
        _stop(f"gold/{metric} still shows v{promotion_plan.shown_version(lake, contract)}; nothing has changed:", problem)
    written(done.plan.comparison if done.plan else None)
    for move in moves_of(lake, contract.metric):
        _keep_notes(lake, move)
    if files.output is not None:
        files.output.write_text(done.move.release_notes, encoding="utf-8")
    elif done.plan is not None:
        out.print(done.move.release_notes, soft_wrap=True)
    _say(done)
    _afterwards(lake, catalog, contract, restate=restate)


def rollback(
    metric: _Metric,
    reason: arguments.WhyForReaders,
    by: _By = "",
    to: Annotated[
        str | None,
        typer.Option(help="The version to go back to, or a time; default: the version before the newest promotion."),
    ] = None,
    restate: _Restate = False,  # noqa: FBT002
) -> None:
    """Show readers an earlier dataset version, or the numbers of an earlier time, all at once. Later numbers are kept."""
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.promotion import plan as promotion_plan  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.promotion import promotion  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog, contract = first_version_of(metric)
    run = _run(by or getpass.getuser(), "lakehouse gold rollback")
    if to is not None and (when := _time_in(to)) is not None:
        _revert_all(lake, catalog, contract, when, run, reason)
        _afterwards(lake, catalog, contract, restate=restate)
        return
    number = None if to is None else arguments.dataset_version(to)
    try:

        def notes(plan: PromotionPlan) -> str:
            back = f"lakehouse promote {contract.metric} v{plan.shown} --by YOU --reason WHY"
            return _release_notes(lake, catalog, plan, f"{run.by}", reason, back)

        done = promotion.rollback(lake, catalog, contract, number, run, reason, notes)
    except (promotion.PromotionRefusedError, served_version.UnservedVersionError) as problem:
        _stop(f"gold/{metric} still shows v{promotion_plan.shown_version(lake, contract)}; nothing has changed:", problem)
    _keep_notes(lake, done.move)
    if done.plan is not None:
        out.print(done.move.release_notes, soft_wrap=True)
    _say(done)
    _afterwards(lake, catalog, contract, restate=restate)


def _time_in(to: str) -> datetime | None:
    """The time named by a text; None for any other text."""
    from lakehouse.gold.numbers import version_selector  # noqa: PLC0415

    try:
        return version_selector.parse(to).at
    except version_selector.UnknownVersionError:
        return None


def _revert_all(lake: Lake, catalog: Catalog, metric: MetricContract, when: datetime, run: Run, reason: str) -> None:
    from lakehouse.gold.numbers import history as numbers_history  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415
    from lakehouse.gold.restatement import revert  # noqa: PLC0415
    from lakehouse.reports import comparison_report  # noqa: PLC0415

    daily = served_version.daily(lake, catalog, metric)
    before = numbers_history.newest(lake, daily)
    done = revert.revert_all(lake, catalog.sources[metric.source], daily, when, run, reason)
    out.print(
        f"gold/{daily.name} shows the numbers of {format_moment(when)}: {counted_periods(len(done.published))} put back.",
        soft_wrap=True,
    )
    if done.first:
        out.print(
            f"First published since, and left as they are: {counted_periods(len(done.first))}.", style="yellow", soft_wrap=True
        )
    if done.published:
        after = {start: version for start, version in numbers_history.newest(lake, daily).items() if start in before}
        labels = f"the numbers of {format_moment(lake.now())}", f"those of {format_moment(when)}"
        notes = comparison_report.release_notes(
            numbers_history.comparison(daily, before, after, labels, lake.now()),
            comparison_report.MovedLatest(f"{run.by}", reason, *labels, lake.now()),
            deprecated_on=None,
            description_changes=[],
            back=f"lakehouse gold release {daily.metric.name} PERIOD --by YOU --reason WHY",
        )
        _write_notes(lake, daily.metric.metric, f"as-of-{when:%Y-%m-%dT%H%M}-{lake.now():%Y-%m-%d}", notes)
        out.print(notes, soft_wrap=True)
        out.print(f"They keep these numbers until 'lakehouse gold release {daily.metric.name} PERIOD'.", soft_wrap=True)


def first_version_of(metric: str) -> tuple[Lake, Catalog, MetricContract]:
    """The lake, the contracts, and the first version of a metric.

    :raises typer.Exit: if no contract describes the metric.
    """
    from lakehouse.gold.numbers import version_selector  # noqa: PLC0415

    lake, catalog = deployment()
    try:
        return lake, catalog, version_selector.find_first_version(catalog, metric)
    except version_selector.UnknownMetricError as problem:
        errors.print(f"{problem}", style="red", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None


def _thresholds(texts: Sequence[str]) -> list[Threshold]:
    from lakehouse.gold.numbers.comparison import Threshold  # noqa: PLC0415

    thresholds = []
    for text in texts:
        measure, _, percent = text.partition("=")
        try:
            limit = Decimal(percent.strip().removesuffix("%"))
        except InvalidOperation:
            limit = Decimal(-1)
        if not measure or not limit.is_finite() or limit < 0:
            msg = f"{text!r} is not a threshold; write a measure and a percentage, as in revenue=5"
            raise typer.BadParameter(msg)
        thresholds.append(Threshold(measure.strip(), limit))
    return thresholds


def _run(who: str, job: str) -> Run:
    from lakehouse.gold.publication.write_audit_publish import Run  # noqa: PLC0415

    return Run(uuid.uuid4().hex, job, by=who)


def _explained(plan: PromotionPlan, *, accepted: bool) -> int:
    """Print the effect of a promotion, and return the exit code."""
    from lakehouse.reports import comparison_report  # noqa: PLC0415

    if plan.comparison is not None:
        out.print(comparison_report.as_terminal(plan.comparison))
    for problem in plan.problems:
        errors.print(problem, style="red", highlight=False, soft_wrap=True)
    for objection in plan.objections:
        errors.print(f"{objection} ({'accepted' if accepted else '--accept-differences'})", highlight=False, soft_wrap=True)
    forbidden = bool(plan.problems or (plan.objections and not accepted))
    does = "cannot be promoted" if forbidden else f"can be promoted; it would publish {counted_periods(len(plan.drafts))}"
    out.print(f"v{plan.to.metric.dataset_version} {does}. Nothing was changed.", soft_wrap=True)
    return int(forbidden)


def _release_notes(lake: Lake, catalog: Catalog, plan: PromotionPlan, who: str, reason: str, back: str | None = None) -> str:
    """The notes of a promotion or a rollback.

    :param back: the command that undoes it, of a rollback.
    """
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415
    from lakehouse.gold.promotion import compatibility  # noqa: PLC0415
    from lakehouse.reports import comparison_report  # noqa: PLC0415

    if plan.comparison is None:
        return ""
    old: MetricContract | None = None
    new = plan.to.metric
    with suppress(served_version.UnservedVersionError):  # one may go back from a version whose contract is gone
        old = served_version.version(catalog, new, plan.shown).metric
    return comparison_report.release_notes(
        plan.comparison,
        comparison_report.MovedLatest(who, reason, f"v{plan.shown}", f"v{new.dataset_version}", lake.now()),
        deprecated_on=old.deprecated_on if old else None,
        description_changes=compatibility.changed_logic(old, new) if old else [],
        back=back,
    )


def _keep_notes(lake: Lake, move: PromotionEntry) -> None:
    """Write the release notes of a promotion or rollback next to the table."""
    if move.release_notes:
        _write_notes(lake, move.metric, f"v{move.to_version}-{move.moved_at:%Y-%m-%d}", move.release_notes)


def _write_notes(lake: Lake, metric: str, name: str, notes: str) -> None:
    """Write release notes next to the table, if the root is a local folder."""
    if "://" in lake.root:
        return
    folder = Path(lake.root, "gold", f"{metric}_release_notes")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(notes, encoding="utf-8")


def _say(done: PromotionResult) -> None:
    move = done.move
    if done.plan is None:
        out.print(f"gold/{move.metric} shows v{move.to_version} since {format_moment(move.moved_at)}.", soft_wrap=True)
        return
    out.print(f"gold/{move.metric} shows v{move.to_version}, in place of v{move.from_version}: {counted_periods(move.periods)}.")
    if done.plan.left:
        from lakehouse.gold.promotion.compatibility import join_periods  # noqa: PLC0415 (Arrow loads in a second)

        stays = f"v{move.to_version} has no number yet for {join_periods(done.plan.left)}: readers see the earlier ones there."
        out.print(stays, soft_wrap=True)


def _afterwards(lake: Lake, catalog: Catalog, metric: MetricContract, *, restate: bool) -> None:
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415
    from lakehouse.orchestration import commands  # noqa: PLC0415

    commands.print_pending(lake, served_version.daily(lake, catalog, metric), catalog, now=restate)


def counted_periods(count: int) -> str:
    """A number of periods with its noun."""
    return f"{count:,} {'period' if count == 1 else 'periods'}"


def _stop(title: str, problem: Exception) -> NoReturn:
    errors.print(title, style="red", highlight=False, soft_wrap=True)
    for line in f"{problem}".splitlines():
        errors.print(f"    {line}", style="red", highlight=False, soft_wrap=True)
    raise typer.Exit(1)


def moves(metric: Annotated[str, typer.Argument(help="The metric that readers know, such as revenue.")]) -> None:
    """Deprecated: the earlier name of ``promotions``."""
    errors.print("'lakehouse moves' is deprecated: the next release has 'lakehouse gold promotions' only.", style="yellow")
    promotions(metric)


def promotions(
    metric: Annotated[str | None, typer.Argument(help="A metric, or a model; default with --json: all.")] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List the promotions and rollbacks of a metric or a model, oldest first: time, author, and reason."""
    if as_json:
        _print_as_json(metric)
    elif metric is None:
        msg = "name a metric or a model, or list those of all with --json"
        raise typer.BadParameter(msg)
    elif metric in deployment()[1].models:
        _print_of_model(metric)
    else:
        _print_of_metric(metric)


def _print_as_json(name: str | None) -> None:
    """Print the promotions of data and models, one line of JSON each."""
    from lakehouse.gold.promotion import promotion_log  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.models import promotion  # noqa: PLC0415
    from lakehouse.models import promotion_log as of_both  # noqa: PLC0415

    lake, catalog = deployment(reading=True)
    if name is not None and name not in {*(metric.metric for metric in catalog.metrics.values()), *catalog.models}:
        errors.print(f"No contract has 'metric: {name}' or 'model: {name}'.", style="red", highlight=False, soft_wrap=True)
        raise typer.Exit(2)
    for metric in {metric.metric: metric for metric in catalog.metrics.values()}.values():
        if name in {None, metric.metric}:
            promotion_log.complete(lake, metric)
    for model in catalog.models.values():
        if name in {None, model.name}:
            promotion.settle(lake, model)
    for record in of_both.records(lake, name):
        out.print(json.dumps(record, default=str, ensure_ascii=False), soft_wrap=True)


def _print_of_model(name: str) -> None:
    from lakehouse.models import promotion, promotion_log  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = deployment(reading=True)
    running = promotion.settle(lake, catalog.models[name])
    for move in promotion_log.completed(lake, name):
        out.print(f"{format_moment(move.recorded_at)}  {move.title} by {move.by}", style="bold", soft_wrap=True)
        out.print(f"    {move.notes}", soft_wrap=True)
        for accepted in move.accepted or []:
            out.print(f"    signed off ({move.sign_off}): {accepted}", soft_wrap=True)
    if running is not None:
        out.print(f"In progress: {running.title} by {running.by}.", soft_wrap=True)
    out.print(f"{name} uses {promotion_log.in_use(lake, name) or 'no version'}.")


def _print_of_metric(metric: str) -> None:
    from lakehouse.gold.promotion import promotion_log  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.promotion.plan import shown_version  # noqa: PLC0415

    lake, _, contract = first_version_of(metric)
    promotion_log.complete(lake, contract)
    for move in promotion_log.of(lake, contract.metric):
        out.print(
            f"{format_moment(move.moved_at)}  {move.kind.value}: v{move.from_version} -> v{move.to_version} by {move.by}",
            style="bold",
            soft_wrap=True,
        )
        out.print(f"    {move.reason} ({counted_periods(move.periods)}, gold version {move.gold_version})", soft_wrap=True)
        for accepted in move.accepted:
            out.print(f"    accepted: {accepted}", soft_wrap=True)
    out.print(f"gold/{contract.metric} shows v{shown_version(lake, contract)}.")
