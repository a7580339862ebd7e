"""``lakehouse redact``: mask fields of a key in silver and everything derived from it (right to erasure)."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.console import catalog_with, out


def redact(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    key: Annotated[str, typer.Option(help="The record key, as the column record_key shows it.")],
    fields: Annotated[str, typer.Option(help="The fields to mask, separated by commas.")],
    by: Annotated[str, typer.Option(help="Who decides.")],
    reason: Annotated[str, typer.Option(help="Why.")],
    restate: Annotated[bool, typer.Option(help="Update silver and gold at once, or leave it to the daemon.")] = True,  # noqa: FBT002
) -> None:
    """Mask fields of a key from now on, also in the audit and the quarantine. The files in Bronze are unchanged."""
    from lakehouse.cli.catch_up import is_behind, say_waiting  # noqa: PLC0415
    from lakehouse.cli.catch_up import restate as restate_days  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.ledger import applied_inputs  # noqa: PLC0415
    from lakehouse.stewardship.redact import redact_fields  # noqa: PLC0415

    settings, catalog = catalog_with(source)
    names = [name.strip() for name in fields.split(",") if name.strip()]
    metrics = catalog.metrics_from(source)
    redact_fields(settings, catalog.sources[source], key, names, by=by, reason=reason, metrics=metrics)
    out.print(f"{', '.join(names)} of {key} are masked from now on.", soft_wrap=True)
    out.print(
        "Bronze keeps the file as it came, and older versions of the tables keep the value until VACUUM: see "
        "'The right to erasure' in docs/stewardship.md.",
        soft_wrap=True,
    )
    if not restate:
        say_waiting(source, sorted(applied_inputs.pending_manual_inputs(settings, source)))
    elif is_behind(settings, catalog, source):
        restate_days(settings, catalog, source)
