"""``lakehouse model``: train, promote and roll back versions of models, and inspect their lineage."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import counted, data_table, deployment, errors, out
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.lake import Lake
    from lakehouse.models.lineage import ModelLineage
    from lakehouse.models.promotion_log import ModelPromotion
    from lakehouse.training_sets.releases import Release


_SHOWN_MEASURES = 3


def print_release(release: Release) -> None:
    """Print a trained version: its inputs, and its quality by part of the set."""
    about = release.about
    _line(f"{release.name} {release.version} has learned from {about['training_set']['full_name']} by {about['function']}.")
    _print_quality(about)
    _line(f"MLflow: version {about['mlflow']['version']}, run {about['mlflow']['run_id']}.")


def row_of(release: Release, in_use: Collection[tuple[str, str | None]], deprecated: Mapping[str, Release]) -> dict[str, Any]:
    """The entry of a version in a list.

    :param in_use: each model with its version in use.
    """
    about = release.about
    state = "in use" if (release.name, release.version) in in_use else "deprecated" if release.full_name in deprecated else ""
    return {
        "model": release.name,
        "version": release.version,
        "state": state,
        "training_set": about["training_set"]["full_name"],
        "metrics": about["metrics"][about["evaluated_on"]],
        "released_at": release.recorded_at.isoformat(),
        "by": release.by,
        "notes": release.notes,
    }


def print_versions(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a list of versions."""
    table = data_table()
    for heading in ("model", "version", "state", "training set"):
        table.add_column(heading, no_wrap=heading == "version", overflow="fold")
    for heading in ("quality", "released", "notes"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        measures = list(row["metrics"].items())[:_SHOWN_MEASURES]
        quality = ", ".join(f"{name} {_number(value)}" for name, value in measures)
        released = f"{row['released_at'][:10]} by {row['by']}"
        table.add_row(row["model"], row["version"], row["state"], row["training_set"], quality, released, row["notes"])
    out.print(table)


def print_lineage(lineage: ModelLineage) -> None:
    """Print the lineage of a version."""
    release, about = lineage.release, lineage.about
    of_set = about["training_set"]
    state = " (in use)" if lineage.in_use else ""
    out.print(f"{release.name} {release.version}{state}", style="bold")
    _line(f"released by {release.by} at {format_moment(release.recorded_at)}: {release.notes}")
    if lineage.deprecation is not None:
        gone = lineage.deprecation
        out.print(f"deprecated by {gone.by} at {format_moment(gone.recorded_at)}: {gone.notes}", style="yellow", soft_wrap=True)
    labels = of_set.get("labels") or {}
    of_labels = f", labels {labels['source']} {labels['version']}" if labels else ""
    _line(f"data: {of_set['full_name']} ({counted(of_set.get('rows', 0))}{of_labels}, content {of_set.get('content_hash')})")
    if lineage.set_deprecation is not None:
        gone = lineage.set_deprecation
        out.print(
            f"    deprecated by {gone.by} at {format_moment(gone.recorded_at)}: {gone.notes}", style="yellow", soft_wrap=True
        )
    for part, rows in about["part_rows"].items():
        role = " and ".join(name for name, key in (("fitted", "fit_on"), ("evaluated", "evaluated_on")) if about[key] == part)
        _line(f"    {part}: {role} on {counted(rows)}{_range(of_set.get('time') or {}, part)}")
    _line(f"code: {about['function']} {about['code']['training']}, lakehouse {about['code']['lakehouse']}")
    _line(f"contract: {about['contract_version']}")
    _line(f"parameters: {', '.join(f'{name}={value}' for name, value in about['parameters'].items()) or 'none'}")
    _line("features:")
    for name in about["feature_names"]:
        definition = about["features"].get(name) or {}
        told_of = ", ".join(f"{key} {value}" for key, value in definition.items())
        _line(f"    {name}: {told_of}" if told_of else f"    {name}")
    _print_quality(about)
    _line(f"MLflow: version {about['mlflow']['version']}, run {about['mlflow']['run_id']}")
    _print_history(lineage)


def _print_history(lineage: ModelLineage) -> None:
    for move in lineage.promotions:
        _line(f"{format_moment(move.recorded_at)}  {move.title} by {move.by}: {move.notes}")
        for rule in move.accepted or []:
            _line(f"    signed off ({move.sign_off}): {rule}")
    for backtest in lineage.backtests:
        verdict = "passed" if backtest.passed else f"not passed: {'; '.join(backtest.failed)}"
        _line(f"{format_moment(backtest.recorded_at)}  backtest of {backtest.title} by {backtest.by}: {verdict}")
    for event in lineage.canaries:
        _line(f"canary: {', '.join(f'{key} {value}' for key, value in event.items())}")


def _print_quality(about: Mapping[str, Any]) -> None:
    for part, measures in about["metrics"].items():
        numbers = ", ".join(f"{name} {_number(value)}" for name, value in measures.items())
        _line(f"quality on {about['training_set']['full_name']}/{part} ({counted(about['part_rows'][part])}): {numbers}")


def _range(time: Mapping[str, Any], part: str) -> str:
    """The first and the last event of a part, if the manifest of the set has them."""
    span = (time.get("splits") or time).get(part)
    return f" from {span['from']} to {span['to']}" if isinstance(span, dict) and {"from", "to"} <= span.keys() else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _line(text: str) -> None:
    out.print(text, soft_wrap=True)


app = typer.Typer(help="Models: train, list, show, backtest, score, promote, roll back, deprecate.", no_args_is_help=True)

Model = Annotated[str, typer.Argument(help="The name of a model contract.")]
Version = Annotated[str, typer.Argument(help="A version of the model, such as v2.4.")]
By = Annotated[str, typer.Option("--by", help="Who does it; default: the user's name.")]
_Notes = Annotated[str, typer.Option(help="Why, in words for people.")]


@app.command()
def train(
    model: Model,
    version: Annotated[str, typer.Argument(help="The version to make, such as v2.4; 'next' is the one after the greatest.")],
    notes: _Notes,
    by: By = "",
    training_set: Annotated[
        str | None, typer.Option("--set", metavar="VERSION", help="The version of its training set; default: the newest one.")
    ] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Replaces a parameter of the contract.")
    ] = None,
) -> None:
    """Train a version with the contract's function and register it. Repeating the command completes it."""
    from lakehouse.models import training  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    lake, catalog, contract = model_named(model)
    if version == "next":
        version = releases.next_version(lake, ReleaseKind.MODEL, model)
    set_version = training_set or _newest_set(lake, contract)
    given = dict(_parameter(text) for text in parameters or [])
    with errors.status(f"training {model} {version} from {contract.training_set} {set_version}"):
        made = training.train(
            lake,
            catalog,
            contract,
            training.TrainingRequest(version, set_version, by=by or getpass.getuser(), notes=notes, parameters=given),
        )
    print_release(made)
    out.print(f"It is not in use: 'lakehouse model promote {model} {version}' promotes it.", soft_wrap=True)


@app.command("list")
def list_(
    model: Annotated[str | None, typer.Argument(help="The name of a model contract; default: all.")] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List the versions of models: the set and the quality of each, and the version in use."""
    from lakehouse.models import promotion_log  # noqa: PLC0415
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    lake = deployment()[0] if model is None else model_named(model)[0]
    versions = releases.all_of(lake, ReleaseKind.MODEL, model)
    deprecated = releases.deprecations(lake, ReleaseKind.MODEL, model)
    in_use = {(name, promotion_log.in_use(lake, name)) for name in {entry.name for entry in versions}}
    listed = [row_of(entry, in_use, deprecated) for entry in versions]
    if as_json:
        for row in listed:
            out.print(json.dumps(row, ensure_ascii=False), soft_wrap=True)
    elif listed:
        print_versions(listed)
    else:
        out.print(
            f"{model or 'No model'} has no version yet: 'lakehouse model train' makes one."
            if model
            else "No model has a version yet."
        )


@app.command()
def show(
    model: Model,
    version: Annotated[str | None, typer.Argument(help="A version; default: the one in use, or else the newest one.")] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """Show the lineage of a version: data and time ranges, features, code, parameters, quality, promotions, backtests."""
    from lakehouse.models import canary_log, lineage, promotion_log  # noqa: PLC0415
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    lake, _, contract = model_named(model)
    unsettled = _settled(lake, contract)
    if version is None:
        newest = releases.newest(lake, ReleaseKind.MODEL, model)
        version = promotion_log.in_use(lake, model) or (newest.version if newest else None)
    if version is None:
        out.print(f"{model} has no version yet: 'lakehouse model train' makes one.")
        return
    shown = lineage.of(lake, model, version, canary_log.events_of(lake, model, version))
    if as_json:
        out.print(json.dumps(shown.as_json(), ensure_ascii=False), soft_wrap=True)
    else:
        print_lineage(shown)
    if unsettled:
        errors.print(unsettled, style="yellow", highlight=False, soft_wrap=True)


@app.command()
def promote(
    model: Model,
    version: Version,
    notes: _Notes,
    by: By = "",
    sign_off: Annotated[
        str | None, typer.Option(metavar="REASON", help="Promote it although acceptance rules are not met; it is recorded.")
    ] = None,
) -> None:
    """Make a version the champion in one step, if its backtest meets the acceptance rules of the contract."""
    from lakehouse.models import promotion  # noqa: PLC0415

    lake, catalog, contract = model_named(model)
    done = promotion.promote(lake, catalog, contract, version, by=by or getpass.getuser(), notes=notes, sign_off=sign_off)
    out.print(done.release_notes, soft_wrap=True)
    _print_in_use(done)


@app.command()
def rollback(
    model: Model,
    notes: _Notes,
    by: By = "",
    to: Annotated[
        str | None, typer.Option(help="The version to go back to; default: the one before the newest promotion.")
    ] = None,
) -> None:
    """Make an earlier champion the champion again; nothing is trained, and no version is removed."""
    from lakehouse.models import promotion  # noqa: PLC0415

    lake, _, contract = model_named(model)
    _print_in_use(promotion.rollback(lake, contract, by=by or getpass.getuser(), notes=notes, to=to))


@app.command()
def deprecate(model: Model, version: Version, notes: _Notes, by: By = "") -> None:
    """Deprecate a version. It cannot be promoted from then on; nothing is removed."""
    from lakehouse.models import promotion_log  # noqa: PLC0415
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    lake, _, _ = model_named(model)
    releases.deprecate(lake, ReleaseKind.MODEL, model, version, by=by or getpass.getuser(), notes=notes)
    out.print(f"{model} {version} is deprecated.", soft_wrap=True)
    if promotion_log.in_use(lake, model) == version:
        hint = f"It is still in use: promote another version, or 'lakehouse model rollback {model}'."
        errors.print(hint, style="yellow", highlight=False, soft_wrap=True)


def model_named(name: str) -> tuple[Lake, Catalog, ModelContract]:
    """The lake, the contracts, and the model ``name``.

    :raises typer.Exit: if no contract describes the model.
    """
    lake, catalog = deployment()
    if name not in catalog.models:
        known = ", ".join(sorted(catalog.models)) or "none"
        errors.print(f"No contract has 'model: {name}'; known are {known}.", style="red", highlight=False)
        raise typer.Exit(2)
    return lake, catalog, catalog.models[name]


def _newest_set(lake: Lake, contract: ModelContract) -> str:
    """:raises typer.Exit: if no version of the training set is released."""
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    newest = releases.newest(lake, ReleaseKind.TRAINING_SET, contract.training_set)
    if newest is None:
        how = f"'lakehouse dataset build {contract.training_set} v1.0' builds one"
        errors.print(f"{contract.training_set} has no version yet; {how}.", style="red", highlight=False, soft_wrap=True)
        raise typer.Exit(1)
    return newest.version


def _parameter(text: str) -> tuple[str, Any]:
    """Parse a parameter from the command line: its value is JSON if it can be parsed as JSON, else text.

    :raises typer.BadParameter: without a name or a value.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        msg = f"{text!r} gives no parameter; write NAME=VALUE, as in max_depth=3"
        raise typer.BadParameter(msg)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _settled(lake: Lake, contract: ModelContract) -> str:
    """Settle an interrupted promotion; returns a sentence if one stays open, because it runs or MLflow does not answer."""
    from lakehouse.models import promotion  # noqa: PLC0415
    from lakehouse.models.tracking import TrackingError  # noqa: PLC0415

    try:
        running = promotion.settle(lake, contract)
    except TrackingError as problem:
        return f"A promotion was interrupted and could not be settled. {problem}"
    return f"In progress: {running.title} by {running.by}." if running else ""


def _print_in_use(done: ModelPromotion) -> None:
    from lakehouse.text import format_moment  # noqa: PLC0415

    instead = f", in place of {done.from_version}" if done.from_version else ""
    out.print(f"{done.model} {done.to_version} is in use since {format_moment(done.recorded_at)}{instead}.", soft_wrap=True)
