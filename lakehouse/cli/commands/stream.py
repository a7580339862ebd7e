"""``lakehouse stream``: take what a source sends continuously into Bronze, and see where it stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import catalog_with, counted, errors, out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.contracts.inputs.kafka import KafkaTopic
    from lakehouse.contracts.source import SourceContract
    from lakehouse.streams.ingest import MicroBatch

app = typer.Typer(help="Take messages of Kafka, or files as they come, into Bronze.", no_args_is_help=True)
Source = Annotated[str, typer.Argument(help="The dataset of a source contract.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per micro-batch.")]


@app.command()
def ingest(
    source: Source,
    max_messages: Annotated[int | None, typer.Option(min=1, help="Stop behind about so many messages.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="Stop after so many seconds.")] = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Take what the topic of a source has now into Bronze, and stop. It can be stopped anywhere and run again."""
    settings, catalog = catalog_with(source)
    contract = catalog.sources[source]
    kafka = _topic(contract)
    from lakehouse.streams import service  # noqa: PLC0415 (Arrow loads in a second)

    rows = 0
    gaps: list[str] = []
    for batch in service.take(settings, contract, kafka, _session, "cli", max_messages, max_seconds):
        _print(batch, as_json=as_json)
        rows += batch.rows
        gaps = [entry.text for entry in batch.gaps]
    if not as_json:
        out.print(f"{counted(rows)} of {source} are new in Bronze.")
    if gaps:
        raise typer.Exit(1)


def _session() -> SparkSession:
    from lakehouse.orchestration.common.resources import LakeSpark  # noqa: PLC0415 (Spark loads in seconds)

    return LakeSpark(long_lived=True).session()


def _topic(contract: SourceContract) -> KafkaTopic:
    """:raises typer.Exit: for a source of files."""
    if contract.source.kafka is None:
        errors.print(f"{contract.dataset} is a source of files; use 'lakehouse stream run' or 'lakehouse replay'.", style="red")
        raise typer.Exit(2)
    return contract.source.kafka


def _print(batch: MicroBatch, *, as_json: bool) -> None:
    if as_json:
        fields = {"rows": batch.rows, "deliveries": [entry.source_file for entry in batch.taken]}
        fields |= {"resumed": [entry.source_file for entry in batch.resumed], "gaps": [entry.text for entry in batch.gaps]}
        out.print(json.dumps(fields), soft_wrap=True)
        return
    for remark in batch.remarks:
        errors.print(remark, style="yellow", soft_wrap=True)
    for entry in batch.resumed:
        out.print(f"  {entry.source_file}: {counted(entry.rows)} that an earlier run had left behind", soft_wrap=True)
    for entry in batch.taken:
        out.print(f"  {entry.source_file}: {counted(entry.rows)}, {entry.malformed:,} malformed", soft_wrap=True)
    for gap in batch.gaps:
        errors.print(f"{gap.text}; see 'lakehouse stream accept-gap'", style="red", soft_wrap=True)
