"""The checkpoint of a metric's stream: its place, whether it fits the contract and the live numbers, and its offsets of a batch.

Spark knows the commits of Bronze by number only. A Bronze that has lost commits gives their numbers to other commits, which the
stream would take for read: the id of the newest commit that was read is therefore stored beside Spark's files.

A checkpoint belongs to one definition of the query. Spark itself refuses some changes of a query, and silently mixes up others (a
window of another size), so the definition is part of the path.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.delta import commit_log
from lakehouse.delta.columns import silver_columns
from lakehouse.errors import LakehouseError
from lakehouse.live import batches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deltalake import DeltaTable

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


#: Increased with each change of the rows that the stream counts, so that older checkpoints are not continued.
_RULE = 1


class LiveCheckpointError(LakehouseError):
    """The checkpoint of a stream cannot be continued. The message gives the reason, and how to create a new one."""


@dataclass(frozen=True)
class BronzeOffset:
    """A place in the log of Bronze, as Delta's source counts: all versions before ``version``, and the first files of
    ``version``.

    :param index: the last file of the version that is before the place; negative if none is.
    """

    version: int
    index: int = -1


@dataclass(frozen=True)
class BatchOffsets:
    """The content of a checkpoint for a batch: the watermark in force (None in the first batch), and the place up to which it
    reads.
    """

    watermark: datetime | None
    until: BronzeOffset


@dataclass(frozen=True)
class LiveQuery:
    """A checkpoint.

    :param folder: the folder of the query's definition; Spark's own files are below it.
    :param query: identifies the checkpoint: another checkpoint of the same definition has another id.
    :param starts_at: the version of Bronze with which the first batch begins.
    """

    folder: Path
    query: str
    starts_at: int

    @property
    def of_spark(self) -> Path:
        """The folder that Spark writes."""
        return self.folder / "spark"

    def offsets(self, batch: int) -> BatchOffsets:
        """The offsets of a batch, which Spark writes before the batch runs."""
        _, about, source = (self.of_spark / "offsets" / f"{batch}").read_text("utf-8").splitlines()
        until, milliseconds = json.loads(source), json.loads(about)["batchWatermarkMs"]
        watermark = datetime.fromtimestamp(milliseconds / 1000, timezone.utc) if milliseconds else None
        return BatchOffsets(watermark, BronzeOffset(until["reservoirVersion"], until["index"]))

    @property
    def _newest_read(self) -> Path:
        return self.folder / "newest_read.json"

    def newest_read(self) -> tuple[int, str]:
        """Version and id of the newest commit of Bronze that a finished batch has read; -1 if none is recorded."""
        try:
            stored = json.loads(self._newest_read.read_text("utf-8"))
        except FileNotFoundError:
            return -1, ""
        return stored["version"], stored["commit"]

    def record_read(self, until: BronzeOffset, bronze: DeltaTable) -> None:
        """Record that a batch has read Bronze up to a place."""
        version = until.version - (until.index < 0)
        if version >= 0:
            _write(self._newest_read, {"version": version, "commit": commit_log.commit_id(bronze, version)})

    def before(self, batch: int) -> BatchOffsets:
        """The offsets of the previous batch."""
        return self.offsets(batch - 1) if batch else BatchOffsets(None, BronzeOffset(self.starts_at))


def definition(metric: MetricContract, contract: SourceContract) -> dict[str, Any]:
    """The parts of the contracts on which the state of the stream depends."""
    types = dict(silver_columns(contract))
    live = metric.live
    return {
        "rule": _RULE,
        "source": contract.dataset,
        "zone": contract.clocks.timezone,
        "window": metric.event_window.model_dump(mode="json") if metric.event_window else None,
        "grain": metric.grain,
        "measures": [[measure.name, measure.sql, measure.type] for measure in metric.measures],
        "watermark": live.watermark.total_seconds() if live else None,
        "columns": {name: types[name] for name in sorted(metric.columns_read(list(types)))},
    }


def folder_of(lake: Lake, metric: MetricContract, contract: SourceContract) -> Path:
    """The folder of the checkpoint of a metric's definition.

    :raises LiveCheckpointError: if the lake is in an object store.
    """
    text = json.dumps(definition(metric, contract), sort_keys=True)
    return of_metric(lake, metric) / hashlib.sha256(text.encode()).hexdigest()[:16]


def of_metric(lake: Lake, metric: MetricContract) -> Path:
    """The folder of all checkpoints of a metric.

    :raises LiveCheckpointError: if the lake is in an object store.
    """
    address = locations.live_checkpoints(lake, metric.name)
    if "://" in address:
        msg = f"{address}: a checkpoint needs a file system with atomic renames; the speed layer runs on a lake in a folder"
        raise LiveCheckpointError(msg)
    return Path(address)


def opened(lake: Lake, metric: MetricContract, contract: SourceContract, starts_at: int) -> LiveQuery:
    """The checkpoint to continue, or a new one if the metric has never been live.

    :param starts_at: the version of Bronze with which a new checkpoint begins.
    :raises LiveCheckpointError: if the live numbers come from a checkpoint that is gone, damaged, or of another definition, or if
        Bronze has lost commits that were read.
    """
    folder, newest = folder_of(lake, metric, contract), batches.newest(lake, metric.name)
    query, again = _read(folder), _way_out(metric)
    if query is None and newest is not None:
        others = [path for path in folder.parent.iterdir() if path.is_dir()] if folder.parent.is_dir() else []
        if others:
            msg = f"live/{metric.name}: the contract has changed since the checkpoint was made ({others[0].name}); {again}"
        else:
            msg = f"live/{metric.name}: the checkpoint {folder} is gone; {again}"
        raise LiveCheckpointError(msg)
    if query is None:
        return created(folder, starts_at)
    if newest is not None and newest.query == query.query and not (query.of_spark / "offsets" / f"{newest.batch}").is_file():
        msg = f"live/{metric.name}: the checkpoint {folder} is damaged: batch {newest.batch} is missing; {again}"
        raise LiveCheckpointError(msg)
    require_commits_read(lake, metric, contract, query)
    return query


def require_commits_read(lake: Lake, metric: MetricContract, contract: SourceContract, query: LiveQuery) -> None:
    """Check that Bronze still holds the commits that were read: rows of others under their numbers would not be read.

    :raises LiveCheckpointError: if it does not.
    """
    version, commit = query.newest_read()
    bronze = locations.bronze(lake, contract.dataset).open()
    if commit_log.are_lost(bronze, version, commit):
        msg = (
            f"live/{metric.name}: bronze/{contract.dataset} does not hold commit {version} any more, which the stream has read: "
            f"it was restored from a copy, or its log was damaged; {_way_out(metric)}"
        )
        raise LiveCheckpointError(msg)


def _way_out(metric: MetricContract) -> str:
    return f"run 'lakehouse live rebuild {metric.name}', which computes the live numbers from Bronze again"


def created(folder: Path, starts_at: int) -> LiveQuery:
    """A new checkpoint in a folder that has none."""
    query = LiveQuery(folder, uuid.uuid4().hex[:16], starts_at)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "query.json", {"query": query.query, "starts_at": starts_at})
    return query


def _write(file: Path, content: Mapping[str, Any]) -> None:
    draft = file.with_name(f"{file.name}.tmp")
    draft.write_text(json.dumps(content), "utf-8")
    draft.replace(file)


def remove(lake: Lake, metric: MetricContract) -> None:
    """Remove all checkpoints of a metric; its stream must not run."""
    folder = of_metric(lake, metric)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path)


def _read(folder: Path) -> LiveQuery | None:
    try:
        stored = json.loads((folder / "query.json").read_text("utf-8"))
    except FileNotFoundError:
        return None
    return LiveQuery(folder, stored["query"], stored["starts_at"])
