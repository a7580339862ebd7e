"""``lakehouse gold promotions``: the promotions and rollbacks of metrics' data and of models."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import deployment, errors, out
from lakehouse.gold.promotion.commands import counted_periods, first_version_of
from lakehouse.text import format_moment


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
    from lakehouse.models import promotion, promotion_export  # noqa: PLC0415

    lake, catalog = deployment()
    if name is not None and name not in {*(metric.metric for metric in catalog.metrics.values()), *catalog.models}:
        errors.print(f"No contract has 'metric: {name}' or 'model: {name}'.", style="red", highlight=False, soft_wrap=True)
        raise typer.Exit(2)
    for metric in {metric.metric: metric for metric in catalog.metrics.values()}.values():
        if name in {None, metric.metric}:
            promotion_log.complete(lake, metric)
    for model in catalog.models.values():
        if name in {None, model.name}:
            promotion.settle(lake, model)
    for record in promotion_export.records(lake, name):
        out.print(json.dumps(record, default=str, ensure_ascii=False), soft_wrap=True)


def _print_of_model(name: str) -> None:
    from lakehouse.models import promotion, promotion_log  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = deployment()
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
