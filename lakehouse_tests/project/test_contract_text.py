"""Inferred contracts are read back as contracts, with the doubts as comments."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakehouse.contracts import ContractError, MetricContract, SourceContract, load_catalog, load_contract
from lakehouse.contracts.base import SYSTEM_COLUMNS
from lakehouse.contracts.series import RESERVED
from lakehouse.project import inference, new_project
from lakehouse.project.questions import InferenceError, Sample

if TYPE_CHECKING:
    from pathlib import Path

SEMICOLONS = "Order ID;soldAt;amount;n\n1;2024-11-05 10:00;1,50;3\n2;2024-11-06 11:00;2,75;4\n"


def contracts(file: Path) -> tuple[SourceContract, MetricContract, str]:
    """The contracts inferred from one file, loaded, and the text of the source's."""
    read_as = inference.source_of(file)
    inferred = inference.infer([inference.read(file, read_as)])
    name = new_project.dataset_of(file.name)
    source, metric = file.with_name(f"{name}.yaml"), file.with_name(f"{name}_daily.yaml")
    source.write_text(new_project.source_text(name, [file.name], inferred, read_as))
    metric.write_text(new_project.metric_text(name, inferred))
    loaded, loaded_metric = load_contract(source), load_contract(metric)
    assert isinstance(loaded, SourceContract)
    assert isinstance(loaded_metric, MetricContract)
    return loaded, loaded_metric, source.read_text()


def test_a_file_with_semicolons_local_times_and_odd_names(tmp_path: Path) -> None:
    file = tmp_path / "Orders_2024-11-05.csv"
    file.write_text(SEMICOLONS)
    source, metric, text = contracts(file)
    assert (source.dataset, source.source.delimiter, source.primary_key) == ("orders", ";", ["order_id"])
    assert [(field.name, field.type, field.in_file) for field in source.model.fields] == [
        ("order_id", "bigint", "Order ID"),
        ("sold_at", "timestamp", "soldAt"),
        ("amount", "decimal(20,4)", "amount"),
        ("n", "bigint", "n"),
    ]
    assert source.source.formats == {"amount": "1.234,56"}
    assert (source.clocks.event, source.clocks.naive_times, f"{source.first_event_day}") == (
        "soldAt",
        "in_timezone",
        "2020-01-01",
    )
    assert [measure.name for measure in metric.measures] == ["records", "amount", "n"], "a key is not added up"
    assert "# ? event times have no zone and are read as UTC" in text


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ('[\n {"id": 7, "at": "2024-11-05T10:00:00Z"},\n {"id": 8, "at": "2024-11-05T11:00:00Z"}\n]\n', {"array": True}),
        ("# made by us\n# in November\nid,at\n7,2024-11-05T10:00:00Z\n8,2024-11-05T11:00:00Z\n", {"comment": "#"}),
        ("sep=;\nid;at\n7;2024-11-05T10:00:00Z\n8;2024-11-05T11:00:00Z\n", {"skip_lines": 1, "delimiter": ";"}),
    ],
)
def test_what_stands_around_the_records_is_in_the_contract(content: str, written: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "events.dat"
    file.write_text(content)
    source, _, _ = contracts(file)
    assert {name: getattr(source.source, name) for name in written} == written
    assert (source.primary_key, source.clocks.event) == (["id"], "at")


def test_json_lines_gzip_and_parquet_give_the_same_contract(tmp_path: Path) -> None:
    rows = [{"id": 1, "at": "2024-11-05T10:00:00Z", "amount": 1.5}, {"id": 2, "at": "2024-11-05T11:00:00Z", "amount": 2.25}]
    lines = "".join(f'{{"id": {row["id"]}, "at": "{row["at"]}", "amount": {row["amount"]}}}\n' for row in rows)
    files = {name: tmp_path / name for name in ("a.json", "b.json.gz", "c.parquet")}
    files["a.json"].write_text(lines)
    files["b.json.gz"].write_bytes(gzip.compress(lines.encode()))
    pq.write_table(pa.Table.from_pylist(rows), files["c.parquet"])
    found = [contracts(file)[0] for file in files.values()]
    assert [source.source.format for source in found] == ["json", "json", "parquet"]
    assert {str(source.model) for source in found} == {str(found[0].model)}
    assert [field.type for field in found[0].model.fields] == ["bigint", "timestamp", "decimal(20,4)"]


def test_a_source_without_a_key_or_a_time_of_event(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("at,word\n2024-11-05T10:00:00Z,a\n2024-11-05T10:00:00Z,a\n")
    source, _, _ = contracts(file)
    assert source.synthetic_key is not None
    assert source.synthetic_key.fields == ["at", "word"]
    read_as = inference.source_of(file)
    timeless = inference.infer([Sample("log.csv", ["word"], [{"word": "a"}])])
    assert "# event: the column of the event time" in new_project.source_text("log", ["log.csv"], timeless, read_as)


def test_a_column_called_like_one_of_published_tables_is_summed_under_another_name(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,at,records,revision,revision_sum\n1,2024-11-05T10:00:00Z,3,4,5\n")
    _, metric, _ = contracts(file)
    assert {measure.name: measure.sql for measure in metric.measures} == {
        "records": "count(*)",
        "records_sum": "sum(records)",
        "revision_sum": "sum(revision)",
        "revision_sum_sum": "sum(revision_sum)",
    }


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@example(names=["\r"], repeated=False)
@given(
    names=st.lists(
        st.one_of(st.sampled_from(sorted({*SYSTEM_COLUMNS, *RESERVED, "op", "Op", "null", "yes", "1st"})), st.text(min_size=1)),
        unique=True,
    ),
    repeated=st.booleans(),
)
def test_the_contract_of_any_columns_is_sound(names: list[str], repeated: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    record = {name: f"{number}" for number, name in enumerate(names)} | {"at": "2024-11-05T10:00:00Z"}
    inferred = inference.infer([Sample("a.csv", list(record), [record, record] if repeated else [record])])
    folder = tmp_path_factory.mktemp("contracts")
    (folder / "a.yaml").write_text(new_project.source_text("a", ["a.csv"], inferred, inference.Source()), encoding="utf-8")
    (folder / "a_daily.yaml").write_text(new_project.metric_text("a", inferred), encoding="utf-8")
    catalog = load_catalog(folder, bundled=False)
    named = [name for name in record if name.strip() and name != inferred.op]
    assert [field.in_file for field in catalog.sources["a"].model.fields] == named, "a column of blanks has no name"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"log.csv: is empty; give a file with a header and at least one record"),
        ("\n\n", r"log.csv: is empty"),
        ("a,b\n1\n", r"log.csv, line 2: has 1 fields where the header has 2; give sample files that can be read"),
    ],
)
def test_files_that_say_nothing_are_refused_in_a_sentence(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "log.csv"
    file.write_text(content)
    with pytest.raises(InferenceError, match=message):
        inference.read(file, inference.source_of(file))


@pytest.mark.parametrize(
    ("file", "name"),
    [("Sales_2024-11-05.csv.gz", "sales"), ("orders.csv", "orders"), ("2024-11-05.csv", "events"), ("till 4.json", "till")],
)
def test_a_dataset_is_called_like_its_file_without_the_day(file: str, name: str) -> None:
    assert new_project.dataset_of(file) == name


def test_an_order_by_a_time_is_refused_when_the_contract_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "seq.yaml"
    file.write_text(
        "dataset: seq\nprimary_key: [id]\nclocks: {event: at}\norder: {sequence: updated_at}\nmodel:\n  fields:\n"
        "    - {name: id, type: string}\n    - {name: at, type: timestamp}\n    - {name: updated_at, type: timestamp}\n"
    )
    with pytest.raises(ContractError, match=r"order.sequence: updated_at is a timestamp, .* type: time}', or name"):
        load_contract(file)
    file.write_text(file.read_text().replace("updated_at}\nmodel", "{column: updated_at, type: text}}\nmodel"))
    load_contract(file)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("order_id,ordered_at,updated_at\n1,2024-11-04T09:00:00Z,2024-11-04T09:00:05Z\n1,2024-11-04T09:00:00Z,2024-11-05T09:00:05Z\n",
         (["order_id"], [], "updated_at")),
        ("claim_id,version,service_date\nC1,1,2024-11-04\nC1,2,2024-11-04\n", (["claim_id"], ["version"], None)),
    ],
)  # fmt: skip
def test_a_change_log_has_a_key_and_an_order(
    content: str, expected: tuple[list[str], list[str], str | None], tmp_path: Path
) -> None:
    file = tmp_path / "log.csv"
    file.write_text(content)
    source, metric, _ = contracts(file)
    assert (source.primary_key, [item.column for item in source.order.sequence], source.clocks.arrival) == expected
    assert [measure.name for measure in metric.measures] == ["records"], "a version is not added up"
