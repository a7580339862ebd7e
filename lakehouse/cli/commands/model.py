"""``lakehouse model``: train, promote and roll back versions of models, and inspect their lineage."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments, model_report
from lakehouse.cli.console import deployment, errors, out

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.models.promotion.promotion_log import ModelPromotion
    from lakehouse.settings import Settings

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

    settings, catalog, contract = model_named(model)
    if version == "next":
        version = releases.next_version(settings, ReleaseKind.MODEL, model)
    set_version = training_set or _newest_set(settings, contract)
    given = dict(_parameter(text) for text in parameters or [])
    with errors.status(f"training {model} {version} from {contract.training_set} {set_version}"):
        made = training.train(
            *(settings, catalog, contract, version, set_version), by=by or getpass.getuser(), notes=notes, parameters=given
        )
    model_report.print_release(made)
    out.print(f"It is not in use: 'lakehouse model promote {model} {version}' promotes it.", soft_wrap=True)


@app.command("list")
def list_(
    model: Annotated[str | None, typer.Argument(help="The name of a model contract; default: all.")] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List the versions of models: the set and the quality of each, and the version in use."""
    from lakehouse.models.promotion import promotion_log  # noqa: PLC0415
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    settings = deployment()[0] if model is None else model_named(model)[0]
    versions = releases.all_of(settings, ReleaseKind.MODEL, model)
    deprecated = releases.deprecations(settings, ReleaseKind.MODEL, model)
    in_use = {(name, promotion_log.in_use(settings, name)) for name in {entry.name for entry in versions}}
    listed = [model_report.row_of(entry, in_use, deprecated) for entry in versions]
    if as_json:
        for row in listed:
            out.print(json.dumps(row, ensure_ascii=False), soft_wrap=True)
    elif listed:
        model_report.print_versions(listed)
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
    from lakehouse.models import lineage  # noqa: PLC0415
    from lakehouse.models.promotion import promotion_log  # noqa: PLC0415
    from lakehouse.models.scoring import canary_log  # noqa: PLC0415
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    settings, _, contract = model_named(model)
    unsettled = _settled(settings, contract)
    if version is None:
        newest = releases.newest(settings, ReleaseKind.MODEL, model)
        version = promotion_log.in_use(settings, model) or (newest.version if newest else None)
    if version is None:
        out.print(f"{model} has no version yet: 'lakehouse model train' makes one.")
        return
    shown = lineage.of(settings, model, version, canary_log.events_of(settings, model, version))
    if as_json:
        out.print(json.dumps(shown.as_json(), ensure_ascii=False), soft_wrap=True)
    else:
        model_report.print_lineage(shown)
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
    from lakehouse.models.promotion import promotion  # noqa: PLC0415

    settings, catalog, contract = model_named(model)
    done = promotion.promote(settings, catalog, contract, version, by=by or getpass.getuser(), notes=notes, sign_off=sign_off)
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
    from lakehouse.models.promotion import promotion  # noqa: PLC0415

    settings, _, contract = model_named(model)
    _print_in_use(promotion.rollback(settings, contract, by=by or getpass.getuser(), notes=notes, to=to))


@app.command()
def deprecate(model: Model, version: Version, notes: _Notes, by: By = "") -> None:
    """Deprecate a version. It cannot be promoted from then on; nothing is removed."""
    from lakehouse.models.promotion import promotion_log  # noqa: PLC0415
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    settings, _, _ = model_named(model)
    releases.deprecate(settings, ReleaseKind.MODEL, model, version, by=by or getpass.getuser(), notes=notes)
    out.print(f"{model} {version} is deprecated.", soft_wrap=True)
    if promotion_log.in_use(settings, model) == version:
        hint = f"It is still in use: promote another version, or 'lakehouse model rollback {model}'."
        errors.print(hint, style="yellow", highlight=False, soft_wrap=True)


def model_named(name: str) -> tuple[Settings, Catalog, ModelContract]:
    """The settings, the contracts, and the model ``name``.

    :raises typer.Exit: if no contract describes the model.
    """
    settings, catalog = deployment()
    if name not in catalog.models:
        known = ", ".join(sorted(catalog.models)) or "none"
        errors.print(f"No contract has 'model: {name}'; known are {known}.", style="red", highlight=False)
        raise typer.Exit(2)
    return settings, catalog, catalog.models[name]


def _newest_set(settings: Settings, contract: ModelContract) -> str:
    """:raises typer.Exit: if no version of the training set is released."""
    from lakehouse.training_sets import releases  # noqa: PLC0415
    from lakehouse.training_sets.releases import ReleaseKind  # noqa: PLC0415

    newest = releases.newest(settings, ReleaseKind.TRAINING_SET, contract.training_set)
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


def _settled(settings: Settings, contract: ModelContract) -> str:
    """Settle an interrupted promotion; returns a sentence if one stays open, because it runs or MLflow does not answer."""
    from lakehouse.models.mlflow_connection import TrackingError  # noqa: PLC0415
    from lakehouse.models.promotion import promotion  # noqa: PLC0415

    try:
        running = promotion.settle(settings, contract)
    except TrackingError as problem:
        return f"A promotion was interrupted and could not be settled. {problem}"
    return f"In progress: {running.title} by {running.by}." if running else ""


def _print_in_use(done: ModelPromotion) -> None:
    from lakehouse.text import format_moment  # noqa: PLC0415

    instead = f", in place of {done.from_version}" if done.from_version else ""
    out.print(f"{done.model} {done.to_version} is in use since {format_moment(done.recorded_at)}{instead}.", soft_wrap=True)
