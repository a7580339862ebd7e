"""``lakehouse source stream``: ingest a source continuously into Bronze, and show its progress."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import catalog_with, counted, data_table, errors, number_column, out, print_notices
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakehouse.contracts.inputs import KafkaTopic
    from lakehouse.contracts.source import SourceContract
    from lakehouse.streams.ingest import MicroBatch
    from lakehouse.streams.status import TopicStatus


app = typer.Typer(help="Take messages of Kafka, or files as they come, into Bronze.", no_args_is_help=True)
Source = Annotated[str, typer.Argument(help="The dataset of a source contract.")]
BatchMessages = Annotated[int, typer.Option(min=1, help="Messages of a micro-batch, at most; each is one commit.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per micro-batch.")]


@app.command()
def ingest(
    source: Source,
    max_messages: Annotated[int | None, typer.Option(min=1, help="Stop after about this many messages.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds.")] = None,
    batch_messages: BatchMessages = 100_000,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Ingest the present messages of a source's topic into Bronze, and stop. It can be interrupted and repeated at any time."""
    lake, catalog = catalog_with(source)
    contract = catalog.sources[source]
    kafka = _topic(contract)
    from lakehouse.ledger import contract_archive  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.streams import service  # noqa: PLC0415

    rows = 0
    gaps: list[str] = []
    notices = contract_archive.notices_of_source(lake, contract)
    pace = service.Pace(batch_messages, max_messages=max_messages, max_seconds=max_seconds)
    for batch in service.take(lake, contract, kafka, _session, "cli", pace):
        _print(source, batch, as_json=as_json)
        rows += batch.rows
        gaps = [entry.text for entry in batch.gaps]
    print_notices(notices if rows else ())
    if not as_json:
        out.print(f"New in Bronze of {source}: {counted(rows)}.")
    if gaps:
        raise typer.Exit(1)


@app.command()
def run(
    source: Source,
    every: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two micro-batches, if there is nothing to catch up.")
    ] = 1.0,
    batch_messages: BatchMessages = 100_000,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Ingest messages or landing files of a source continuously into Bronze, until SIGTERM or Ctrl-C."""
    import signal  # noqa: PLC0415

    lake, catalog = catalog_with(source)
    contract = catalog.sources[source]
    from lakehouse.ledger import contract_archive  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.streams import service  # noqa: PLC0415
    from lakehouse.streams.client import StreamProblem  # noqa: PLC0415

    notices = contract_archive.notices_of_source(lake, contract)
    stop, pace = service.Stop(), service.Pace(batch_messages, every)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stop.now())
    rows = 0
    kafka = contract.source.kafka
    batches: Iterator[MicroBatch | StreamProblem]
    if kafka is None:
        batches = service.follow_files(lake, contract, _session, "cli", pace, stop)
    else:
        batches = service.follow(lake, contract, kafka, _session, "cli", pace, stop)
    for batch in batches:
        if isinstance(batch, StreamProblem):
            errors.print(f"{batch}; trying again", style="yellow", soft_wrap=True)
            continue
        _print(source, batch, as_json=as_json)
        rows += batch.rows
        if rows:
            print_notices(notices)
            notices = []
    if not as_json:
        out.print(f"Stopped. New in Bronze of {source}: {counted(rows)}.")


@app.command()
def status(source: Source, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:  # noqa: FBT002
    """Show the progress of a source: per partition the next offset, the end of the topic, the lag, and the newest delivery."""
    lake, catalog = catalog_with(source)
    contract = catalog.sources[source]
    kafka = _topic(contract)
    from lakehouse.streams import status as stream_status  # noqa: PLC0415 (Arrow loads in a second)

    known = stream_status.of_topic(lake, contract, kafka)
    if as_json:
        out.print(json.dumps(_fields(known), default=str), soft_wrap=True)
        return
    table = data_table(f"{source} from {kafka.topic} at {kafka.servers}")
    partitions = known.partitions
    number_column(table, "partition", [f"{entry.partition}" for entry in partitions])
    number_column(table, "next offset", [f"{entry.next_offset:,}" for entry in partitions])
    number_column(table, "end", [f"{entry.end_offset:,}" for entry in partitions])
    number_column(table, "lag", [f"{entry.lag:,}" for entry in partitions])
    table.add_column("newest delivery", overflow="fold")
    for entry in partitions:
        newest = entry.newest
        when = "none" if newest is None else f"{counted(newest.rows)}, {format_moment(newest.recorded_at)}"
        numbers = (entry.partition, entry.next_offset, entry.end_offset, entry.lag)
        table.add_row(*(f"{number:,}" for number in numbers), when)
    out.print(table)
    for remark in known.remarks:
        errors.print(remark, style="yellow", soft_wrap=True)
    for text in sorted({entry.gap for entry in partitions if entry.gap}):
        errors.print(f"{text}; see 'lakehouse source stream accept-gap'", style="red", soft_wrap=True)


@app.command("accept-gap")
def accept_gap(
    source: Source,
    by: Annotated[str, typer.Option(help="Who accepts it.")],
    reason: Annotated[str, typer.Option(help="Why the messages are not needed, or cannot be had.")],
) -> None:
    """Accept that messages were lost before they were read: reading of their partitions continues after the gap."""
    lake, catalog = catalog_with(source)
    contract = catalog.sources[source]
    _topic(contract)
    from lakehouse.streams import status as stream_status  # noqa: PLC0415 (Arrow loads in a second)

    accepted = stream_status.accept_gaps(lake, contract, by, reason)
    for entry in accepted:
        out.print(f"{entry.text}: accepted by {by}.", soft_wrap=True)
    if not accepted:
        out.print(
            f"Nothing of {source} is known to be lost; 'lakehouse source stream ingest {source}' looks for it.", soft_wrap=True
        )


def _session() -> SparkSession:
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (Spark loads in seconds)

    return LakeSpark(long_lived=True).session()


def _topic(contract: SourceContract) -> KafkaTopic:
    """:raises typer.Exit: if the source reads files."""
    if contract.source.kafka is None:
        errors.print(
            f"{contract.dataset} is a source of files; use 'lakehouse source stream run' or 'lakehouse replay'.", style="red"
        )
        raise typer.Exit(2)
    return contract.source.kafka


def _fields(known: TopicStatus) -> dict[str, object]:
    state = known.state
    partitions = [
        {
            "partition": entry.partition,
            "next_offset": entry.next_offset,
            "end_offset": entry.end_offset,
            "lag": entry.lag,
            "newest_delivery": entry.newest.source_file if entry.newest else None,
            "delivered_at": entry.newest.recorded_at if entry.newest else None,
            "gap": entry.gap,
        }
        for entry in known.partitions
    ]
    topic = {"topic": state.topic, "topic_id": state.topic_id, "cluster_id": state.cluster_id}
    return topic | {"lag": known.lag, "partitions": partitions, "remarks": known.remarks}


def _print(source: str, batch: MicroBatch, *, as_json: bool) -> None:
    if as_json:
        fields = {"rows": batch.rows, "deliveries": [entry.source_file for entry in batch.taken]}
        fields |= {"resumed": [entry.source_file for entry in batch.resumed], "gaps": [entry.text for entry in batch.gaps]}
        out.print(json.dumps(fields | {"remarks": batch.remarks}), soft_wrap=True)
        return
    for remark in batch.remarks:
        errors.print(remark, style="yellow", soft_wrap=True)
    for entry in batch.resumed:
        out.print(f"  {entry.source_file}: {counted(entry.rows)} that an earlier run had left behind", soft_wrap=True)
    for entry in batch.taken:
        out.print(f"  {entry.source_file}: {counted(entry.rows)}, {entry.malformed:,} malformed", soft_wrap=True)
    for gap in batch.gaps:
        advice = f"lakehouse source stream accept-gap {source} --by NAME --reason WHY"
        errors.print(f"{gap.text}; to read on behind it: {advice}", style="red", soft_wrap=True)
