"""A sample file, the contracts that are inferred from it, and the rows that count under them. Plain Python."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

from lakehouse.bronze.reader import exact_rows
from lakehouse.contracts import MetricContract, SourceContract, load_contract
from lakehouse.ledger.ids import DeliveredFile
from lakehouse.project import inference, new_project

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.project.inference import InferredSource

_DELIVERY = DeliveredFile("a", "0123456789abcdef", date(2024, 12, 1), datetime(2024, 12, 1, 6, tzinfo=timezone.utc))


@dataclass(frozen=True)
class InferredFile:
    """What ``lakehouse infer`` makes of a file."""

    inferred: InferredSource
    text: str
    metric_text: str
    source: SourceContract
    metric: MetricContract
    rows: list[dict[str, Any]]

    @property
    def questions(self) -> dict[str, list[str]]:
        """The open questions, each with its options; the first option is the default."""
        return {question.about: list(question.options) for question in self.inferred.questions}

    @property
    def types(self) -> dict[str, str]:
        """The type of each field."""
        return {field.name: field.type for field in self.source.model.fields}

    @property
    def malformed(self) -> list[str]:
        """Why records are malformed."""
        return [row["malformed_reason"] for row in self.rows if row["malformed_reason"] is not None]

    @property
    def live(self) -> list[dict[str, Any]]:
        """The newest row of each key, unless it is deleted, or each row: what silver would have."""
        if self.source.reprocess_policy == "append":
            return [row for row in self.rows if row["malformed_reason"] is None]
        newest: dict[str, dict[str, Any]] = {}
        for row in sorted((row for row in self.rows if row["malformed_reason"] is None), key=_order):
            newest[row["record_key"]] = row
        return [row for row in newest.values() if row["change_op"] != "delete"]


def _order(row: dict[str, Any]) -> tuple[int, bytes, Any, int]:
    order = (row.get("source_order") or "").encode()
    return row.get("source_sequence") or 0, order, row["arrival_ts"], row["line_number"]


def infer_file(folder: Path, name: str, content: str | bytes, answers: dict[str, str] | None = None) -> InferredFile:
    """Infer from a file with ``content``, load what is written, and read the file by it.

    :param answers: a person's answers; all other questions get their defaults.
    """
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    read_as = inference.source_of(file)
    dataset = new_project.dataset_of(name)
    inferred = inference.infer([inference.read(file, read_as)], answers or {}, dataset)
    texts = new_project.source_text(dataset, [name], inferred, read_as), new_project.metric_text(dataset, inferred)
    contracts = folder / f"{dataset}.yaml", folder / f"{dataset}_daily.yaml"
    for written, text in zip(contracts, texts, strict=True):
        written.write_text(text, encoding="utf-8")
    source, metric = map(load_contract, contracts)
    assert isinstance(source, SourceContract)
    assert isinstance(metric, MetricContract)
    with (gzip.open if name.endswith(".gz") else open)(file, "rb") as stream:
        rows = [row for batch in exact_rows(source, _DELIVERY, stream) for row in batch.to_pylist()]
    return InferredFile(inferred, *texts, source, metric, rows)
