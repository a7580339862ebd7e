"""OpenLineage: an event when a table's step begins and when it ends, for catalogs and lineage tools outside of Dagster.

It is switched on by the client's own environment variables (``OPENLINEAGE_URL``, ``OPENLINEAGE_CONFIG``, ...), and needs the
package ``openlineage-python``. A step is a run of a job that has the name of its table; its parent is Dagster's run. Inputs and
outputs are Delta tables with their versions and columns; an output of gold says which periods got which revision, and why. A
receiver that does not answer stops nothing. What Dagster itself is told belongs to ``run_events``.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.orchestration.run_events import table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import dagster as dg
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent

    from lakehouse.contracts import MetricContract
    from lakehouse.gold.publication.write_audit_publish import PublishResult
    from lakehouse.lake import Lake, Table

_LOG = logging.getLogger(__name__)
_PRODUCER = "https://pypi.org/project/lakehouse"
_RUNS = uuid.UUID("5a3c1c0e-7b0f-4d39-9a55-0a6f5b7e2f11")
#: After an event that could not be sent, a process sends none for so long: the client tries for more than half a minute.
_SILENT_SECONDS = 600
_silent_until = [0.0]
#: An event names at most so many periods; their number is complete.
_PERIODS = 1000


@dataclass
class Step:
    """A step of a run: its tables, and what its last event says.

    :param inputs: the tables that it reads, and folders of files; a table that does not exist is left out.
    :param metric: the metric whose measures the output has, for the lineage of columns.
    :param done: the result of publishing, for a step of gold.
    """

    context: dg.AssetExecutionContext
    inputs: Sequence[Table | str]
    outputs: Sequence[Table]
    metric: MetricContract | None = None
    done: PublishResult | None = None

    def event(self, state: str, problem: BaseException | None) -> RunEvent:
        """An event of OpenLineage."""
        from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState  # noqa: PLC0415
        from openlineage.client.facet_v2 import error_message_run, job_type_job, parent_run  # noqa: PLC0415

        namespace, dagster_run = os.environ.get("OPENLINEAGE_NAMESPACE", "lakehouse"), self.context.run.run_id
        of_job = parent_run.Job(namespace=namespace, name=self.context.job_name)
        facets: dict[str, Any] = {"parent": parent_run.ParentRunFacet(parent_run.Run(runId=dagster_run), of_job)}
        if problem is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(f"{type(problem).__name__}: {problem}", "PYTHON")
        name = table_of(self.context.asset_key)
        kind = job_type_job.JobTypeJobFacet(processingType="BATCH", integration="DAGSTER", jobType="ASSET")
        tables = [table for table in self.inputs if not isinstance(table, str) and table.version() >= 0]
        read = [InputDataset(*_place(folder)) for folder in self.inputs if isinstance(folder, str)]
        read += [InputDataset(*_place(table.address), facets=_facets(table)) for table in tables]
        written = []
        for table in self.outputs:
            more = _columns(tables, self.metric) | _published(self.done) if state == "COMPLETE" else {}
            written.append(OutputDataset(*_place(table.address), facets=_facets(table) | more))
        return RunEvent(
            eventType=RunState[state],
            eventTime=datetime.now(timezone.utc).isoformat(),
            run=Run(f"{uuid.uuid5(_RUNS, f'{dagster_run}/{name}')}", facets),
            job=Job(namespace, name, {"jobType": kind}),
            producer=f"{_PRODUCER}/{metadata.version('lakehouse')}",
            inputs=read,
            outputs=written,
        )

    def emit(self, client: OpenLineageClient | None, state: str, problem: BaseException | None = None) -> None:
        """Send an event; a receiver that fails is a warning in the run's log."""
        if client is not None and time.monotonic() >= _silent_until[0]:
            try:
                client.emit(self.event(state, problem))
            except Exception as failed:  # noqa: BLE001 - whatever the receiver does, the numbers are published
                _silent_until[0] = time.monotonic() + _SILENT_SECONDS
                text = "OpenLineage: the event %s was not sent, and for %d minutes no other one is: %s"
                self.context.log.warning(text, state, _SILENT_SECONDS // 60, failed)


@contextmanager
def reported(
    context: dg.AssetExecutionContext,
    inputs: Iterable[Table | str],
    outputs: Iterable[Table],
    metric: MetricContract | None = None,
) -> Iterator[Step]:
    """Report a step that begins, and how it ends; see :class:`Step`."""
    step, client = Step(context, list(inputs), list(outputs), metric), _client()
    step.emit(client, "START")
    try:
        yield step
    except BaseException as problem:
        step.emit(client, "FAIL", problem)
        raise
    step.emit(client, "COMPLETE")


def tables_below(lake: Lake, series: Series) -> list[Table]:
    """The tables from which the numbers of a series are computed."""
    metric = series.metric
    if metric.is_derived:
        return [locations.gold_of(lake, one.metric, series.kind) for one in metric.inputs]
    if series.kind.suffix:
        return [locations.gold(lake, Series(metric, called=series.called))]
    return [*locations.every_silver_read(lake, metric).values(), *(locations.intervals(lake, name) for name in metric.dimensions)]


@cache
def _client() -> OpenLineageClient | None:
    """The client, if the environment names a receiver."""
    is_named = any(name in os.environ for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")) or any(
        name.startswith("OPENLINEAGE__TRANSPORT") for name in os.environ
    )
    if not is_named or os.environ.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return None
    try:
        from openlineage.client import OpenLineageClient  # noqa: PLC0415 (an extra)
    except ImportError:
        _LOG.warning("no OpenLineage events: openlineage-python is not installed; pip install 'lakehouse[openlineage]'")
        return None
    try:
        return OpenLineageClient()
    except Exception as problem:  # noqa: BLE001 - a mistake in its settings stops no step
        _LOG.warning("no OpenLineage events: its settings are not accepted: %s", problem)
        return None


def _place(address: str) -> tuple[str, str]:
    """The namespace and the name of a table or folder, as OpenLineage names files and objects."""
    scheme, found, rest = address.partition("://")
    if not found or scheme == "file":
        return "file", f"{Path(rest if found else address).absolute()}"
    bucket, _, path = rest.partition("/")
    return f"{'s3' if scheme == 's3a' else scheme}://{bucket}", path


def _facets(table: Table) -> dict[str, Any]:
    """The version and the columns of a table; empty if it does not exist."""
    from openlineage.client.facet_v2 import dataset_version_dataset, schema_dataset  # noqa: PLC0415

    opened = table.open()
    if opened is None:
        return {}
    columns = [(one.name, f"{getattr(one.type, 'type', one.type)}") for one in opened.schema().fields]
    fields = [schema_dataset.SchemaDatasetFacetFields(*column) for column in columns]
    return {
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(f"{opened.version()}"),
        "schema": schema_dataset.SchemaDatasetFacet(fields),
    }


def _columns(tables: Sequence[Table], metric: MetricContract | None) -> dict[str, Any]:
    """For a metric, the columns from which its measures are computed, as far as the contract tells.

    :param tables: the tables that exist; the first one has the facts.
    """
    from openlineage.client.facet_v2 import column_lineage_dataset as of_columns  # noqa: PLC0415

    source = next(((one.address, opened) for one in tables if (opened := one.open()) is not None), None)
    if metric is None or metric.is_derived or source is None:
        return {}
    address, columns = source[0], [one.name for one in source[1].schema().fields]
    used = {measure.name: measure.columns_read(columns) for measure in metric.measures}
    fields = {
        name: of_columns.Fields([of_columns.InputField(*_place(address), column) for column in columns if column in of_measure])
        for name, of_measure in used.items()
        if of_measure
    }
    return {"columnLineage": of_columns.ColumnLineageDatasetFacet(fields)} if fields else {}


def _published(done: PublishResult | None) -> dict[str, Any]:
    """The periods that a run published, each with its revision, state and reason, and whether readers had another number."""
    if done is None or not done.revisions:
        return {}
    from openlineage.client.generated.base import DatasetFacet  # noqa: PLC0415

    published = [
        {
            "period": f"{one.start}",
            "revision": f"{one.name}",
            "state": one.state.value,
            "reason": one.reason.value,
            "restates": one.restates,
        }
        for one in done.revisions
    ]
    facet = DatasetFacet(producer=_PRODUCER).with_additional_properties(
        published=len(published), restated=sum(one.restates for one in done.revisions), periods=published[:_PERIODS]
    )
    return {"lakehouse_restatement": facet}
