"""Contracts from YAML: what loads, and that every mistake is named by file, line and field."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from lakehouse.contracts import Catalog, ContractError, MetricContract, SourceContract, check_files, load_catalog, load_contract
from lakehouse.contracts.loader import bundled_folder, load_sound_catalog, with_examples
from lakehouse.delta import provenance
from lakehouse.settings import Settings
from lakehouse_tests.support.contract_texts import LAKELOGIC, SHOP_SOURCE, TURNOVER_METRIC


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "contract.yaml"


def source(file: Path, text: str) -> SourceContract:
    file.write_text(text, encoding="utf-8")
    contract = load_contract(file)
    assert isinstance(contract, SourceContract)
    return contract


def mistakes(file: Path, content: str | bytes) -> list[str]:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ContractError) as caught:
        load_contract(file)
    assert str(caught.value) == "\n".join(caught.value.mistakes)
    return [mistake.removeprefix(f"{file}:") for mistake in caught.value.mistakes]


def catalog(folder: Path, *, bundled: bool = False, **texts: str) -> Catalog:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return load_catalog(folder, bundled=bundled)


@pytest.mark.parametrize("head", ["", "version: 1.0.0\ninfo: {title: x}\n", "\ufeff", "version: 1\n", "version: 2024-01-01\n"])
def test_the_form_of_lakelogic_loads_as_it_is(file: Path, head: str) -> None:
    contract = source(file, head + LAKELOGIC)
    assert [(field.name, field.type, field.required) for field in contract.model.fields] == [
        ("event_id", "int", True),
        ("event_date", "date", False),
        ("amount", "double", False),
        ("customer_id", "int", False),
    ]
    assert contract.event_column == "event_date"
    assert contract.quality.row_rules[0].category == "correctness"
    assert contract.materialization.reprocess_policy == "overwrite_partition_safe"
    assert contract.materialization.target_path == "output/silver_pos_sales_events"


def test_line_ends_of_windows(file: Path) -> None:
    assert source(file, LAKELOGIC.replace("\n", "\r\n")).primary_key == ["event_id"]


def test_the_bundled_contracts_load() -> None:
    loaded = load_catalog(None)
    assert set(loaded.sources) == {"earthquakes", "sales"}
    assert {metric.metric: metric.source for metric in loaded.metrics.values()} == {
        "earthquakes_daily": "earthquakes",
        "revenue": "sales",
    }


@pytest.mark.parametrize(
    ("text", "setting", "are_loaded"),
    [
        (None, None, True),
        (None, False, False),
        (SHOP_SOURCE, None, False),
        (SHOP_SOURCE, True, True),
        (f"description: the sales of a shop\n{SHOP_SOURCE}", None, False),
        (TURNOVER_METRIC.replace("source: shop", "source: sales"), False, False),
        ("metric: turnover\nsource: sales\nmeasures: [{name: rows, sql: count(*), type: long}]\n", None, True),
        ("metric: turnover\nsource: sales\nmeasures: [{name: rows, sql: sum(amuont), type: long}]\n", None, True),
        ("metric: share\nfrom: [revenue]\nmeasures: [{name: share, sql: a, type: double}]\n", None, True),
        ("metric: share\nfrom:\n  - other\n  - revenue\nmeasures: [{name: share, sql: a, type: double}]\n", None, True),
        ("metric: both\nsources: [{source: sales, columns: {a: b}}]\n", None, True),
        ("metric: by\nsource: shop\njoins: [{dimension: sales, 'on': [id]}]\n", None, True),
        (SHOP_SOURCE + "source: {landing: sales/*.csv}\n", None, False),
        (SHOP_SOURCE.replace("dataset: shop", "dataset: sales"), None, False),
        (TURNOVER_METRIC.replace("sum(id)", "sum(revenue)"), None, False),
    ],
)
def test_examples_are_loaded_only_where_they_are_wanted_or_needed(
    text: str | None, setting: bool | None, are_loaded: bool, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "contract.yaml").write_text(text)
    given = {} if setting is None else {"bundled_contracts": setting}
    assert with_examples(Settings(contracts=tmp_path, **given)) is are_loaded


@pytest.mark.parametrize("path", sorted(bundled_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_a_bundled_file_bears_the_name_of_its_contract(path: Path) -> None:
    contract = load_contract(path)
    assert path.stem == (contract.metric if isinstance(contract, MetricContract) else contract.dataset)


APPENDED = SHOP_SOURCE + "materialization: {reprocess_policy: append}\n"


@pytest.mark.parametrize(("line", "rows"), [("", "newest"), ("rows: newest\n", "newest"), ("rows: all\n", "all")])
def test_a_metric_over_an_append_source_counts_the_newest_row_of_each_key_by_default(
    tmp_path: Path, line: str, rows: str
) -> None:
    turnover = catalog(tmp_path, shop=APPENDED, turnover=TURNOVER_METRIC + line).metrics["turnover"]
    assert (turnover.rows, turnover.reads_newest) == (rows, rows == "newest")


def test_rows_count_in_the_version_of_a_contract_only_where_the_newest_rows_are_read(tmp_path: Path) -> None:
    def version(source: str, line: str = "") -> str:
        return provenance.of_contract(catalog(tmp_path, shop=source, turnover=TURNOVER_METRIC + line).metrics["turnover"])

    assert version(SHOP_SOURCE) == version(APPENDED, "rows: all\n") != version(APPENDED)


@pytest.mark.parametrize("rows", ["newest", "all"])
def test_rows_are_refused_for_a_metric_whose_source_has_one_row_per_key(tmp_path: Path, rows: str) -> None:
    with pytest.raises(ContractError) as caught:
        catalog(tmp_path, shop=SHOP_SOURCE, turnover=TURNOVER_METRIC + f"rows: {rows}\n")
    [mistake] = caught.value.mistakes
    line = (TURNOVER_METRIC + "rows").count("\n") + 1
    assert mistake == (
        f"{tmp_path}/turnover.yaml:{line}: rows: shop has one row per key; leave the key out, it is for metrics of sources under "
        "'reprocess_policy: append'"
    )


def test_metrics_of_a_source() -> None:
    assert [metric.metric for metric in load_catalog(None).metrics_of("sales")] == ["revenue"]


def test_types_and_periods_and_dates_in_the_words_of_people(file: Path) -> None:
    text = SHOP_SOURCE.replace("clocks: {event: at}", "clocks: {event: at, max_ahead: PT6H, start_date: 2024-02-29}")
    contract = source(file, text.replace("type: int", 'type: "Decimal(10, 2)"'))
    assert contract.model.fields[0].type == "decimal(10,2)"
    assert (contract.clocks.max_ahead, contract.first_event_day) == (timedelta(hours=6), date(2024, 2, 29))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("dataset: shop", "dataset: Shop", "1: dataset: use lower-case letters"),
        ("dataset: shop", "dataset: ../shop", "1: dataset: use lower-case letters"),
        ("dataset: shop", "dataset: shop\nowners: me", "2: owners: unknown key"),
        ("dataset: shop", "dataset: shop\n1: me", "2: 1: Keys should be strings"),
        ("primary_key: id", "primary_key: [id, nr]", "2: primary_key: not among model.fields: nr"),
        ("primary_key: id\n", "", "1: primary_key: name the fields that identify an event, or give"),
        ("primary_key: id", "primary_key: []", "2: primary_key: "),
        ("clocks: {event: at}", "clocks: {}", "3: clocks.event: name the column"),
        ("{event: at}", "{event: at, timezone: Mars/Base}", "3: clocks.timezone: unknown zone 'Mars/Base'"),
        ("{event: at}", "{event: at, timezone: ../etc/passwd}", "3: clocks.timezone: unknown zone"),
        ("{event: at}", "{event: at, max_ahead: -P1D}", "3: clocks.max_ahead: "),
        ("{event: at}", "{event: at, max_ahead: soon}", "3: clocks.max_ahead: "),
        ("{event: at}", "\n  event: at\n  start_date: 2024-02-30", "5: clocks.start_date: "),
        ("{event: at}", "\n  event: at\n  naive_times: guess", "5: clocks.naive_times: "),
        ("type: int", "type: varchar", "6: model.fields.0.type: unknown type 'varchar'"),
        ("type: int", "type: 'decimal(39,2)'", "6: model.fields.0.type: unknown type"),
        ("type: int", "type: 'decimal(2,3)'", "6: model.fields.0.type: unknown type"),
        ("type: int", "kind: int", "6: model.fields.0.type: is missing"),
        ("- {name: id, type: int}", "- {name: id, type: int}\n    - {name: id, type: int}", "5: model.fields: named twice: id"),
        (
            "- {name: id, type: int}",
            "- {name: id, type: int}\n    - {name: line_number, type: int}",
            "5: model.fields: these names",
        ),
        ("    - {name: id, type: int}", "    - id", "6: model.fields.0: "),
        ("    - {name: id, type: int}", "    []", "5: model.fields: "),
        ("dataset: shop", "dataset: shop\nlateness: {expected: -1}", "2: lateness.expected: "),
        ("dataset: shop", "dataset: shop\nsource:\n  landing: files/*.csv", "3: source.landing: must name the arrival day"),
        ("dataset: shop", "dataset: shop\nsource:\n  landing: ../{arrival_date}", "3: source.landing: is a pattern below"),
        ("dataset: shop", "dataset: shop\nsource:\n  delimiter: '\"'", "3: source.delimiter: must differ"),
        ("dataset: shop", 'dataset: shop\nsource:\n  quote: "\\n"', "2: source.delimiter: must differ"),
        ("dataset: shop", "dataset: shop\nsource:\n  comment: ','", "3: source.comment: ',' also begins records"),
        ("dataset: shop", "dataset: shop\nsource:\n  comment: '\"#'", "3: source.comment: '\"#' also begins records"),
        ("dataset: shop", "dataset: shop\nsource:\n  null_values: [NA, -999]", "3: source.null_values.1: "),
        (
            "dataset: shop",
            "dataset: shop\nchanges:\n  op: o\n  delete_words: [R]",
            "3: changes.op: these words have two meanings: r",
        ),
        ("dataset: shop", "dataset: shop\nmaterialization: {reprocess_policy: all}", "2: materialization.reprocess_policy: "),
        ("dataset: shop", "dataset: shop\nmaterialization: {partition_by: [at]}", "2: materialization.partition_by: silver is"),
        ("{event: at}", "\n  event: at\n  event_time: immutable", "5: clocks.event_time: unknown key"),
        ("dataset: shop", "dataset: shop\nquality: {row_rules: [{name: x}]}", "2: quality.row_rules.0.sql: is missing"),
    ],
)
def test_a_mistake_in_a_source_names_line_and_field(file: Path, old: str, new: str, expected: str) -> None:
    (mistake,) = [each for each in mistakes(file, SHOP_SOURCE.replace(old, new)) if "kind: unknown key" not in each]
    assert mistake.startswith(expected)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("{name: arrival_ts, type: timestamp}", "5: model.fields: the table fills arrival_ts from another column"),
        ("{name: event_date, type: date}", "5: model.fields: the table fills event_date from another column"),
        ("{name: source_system, type: int}", "5: model.fields: source_system is a string"),
    ],
)
def test_a_field_with_the_name_of_a_clock_must_be_that_clock(file: Path, field: str, expected: str) -> None:
    (mistake,) = mistakes(file, SHOP_SOURCE + f"    - {field}\n")
    assert mistake.startswith(expected)


def test_fields_that_are_the_clocks(file: Path) -> None:
    clocks = "clocks: {event: at, arrival: got}"
    more = "    - {name: event_ts, type: string, column: at}\n    - {name: arrival_ts, type: string, column: got}\n"
    assert source(file, SHOP_SOURCE.replace("clocks: {event: at}", clocks) + more).columns_read == ["id", "at", "got"]


def test_a_correction_of_another_key_needs_a_key_of_one_column(file: Path) -> None:
    text = (
        SHOP_SOURCE.replace("primary_key: id", "primary_key: [id, nr]\nchanges:\n  corrects_event_id: of")
        + "    - {name: nr, type: int}\n"
    )
    assert mistakes(file, text) == ["4: changes.corrects_event_id: needs a primary key of one column"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: total", "name: row_count", "3: measures: these names are used twice or reserved: row_count"),
        ("name: total", "name: failed", "3: measures: these names are used twice or reserved: failed"),
        ("source: shop", "source: shop\ngrain: [total]", "4: measures: these names are used twice or reserved: total"),
        ("source: shop", "source: shop\nwindow: 0", "3: window: "),
        ("source: shop\n", "", "1: source: is missing"),
        ("sql: sum(id), ", "", "4: measures.0.sql: is missing"),
        (
            "source: shop",
            "source: shop\nmateriality: {me: {total: {absolute: 1}}}",
            "3: materiality: 'me' is not among the consumers",
        ),
        (
            "source: shop",
            "source: shop\nconsumers: [me]\nmateriality: {me: {sum: {absolute: 1}}}",
            "4: materiality: me: no measure is called 'sum'; there are total",
        ),
        (
            "source: shop",
            "source: shop\nconsumers: [me]\nmateriality:\n  me:\n    total: {}",
            "6: materiality.me.total: has no bound; give percent, absolute or both",
        ),
        (
            "source: shop",
            "source: shop\nconsumers: [me]\nmateriality:\n  me:\n    total: {percent: -1}",
            "6: materiality.me.total.percent: ",
        ),
    ],
)
def test_a_mistake_in_a_metric_names_line_and_field(file: Path, old: str, new: str, expected: str) -> None:
    (mistake,) = mistakes(file, TURNOVER_METRIC.replace(old, new))
    assert mistake.startswith(expected)


def test_only_numbers_have_bounds_of_consumers(file: Path) -> None:
    text = TURNOVER_METRIC.replace("type: long", "type: string") + "consumers: [me]\nmateriality: {me: {total: {percent: 1}}}\n"
    assert mistakes(file, text) == ["6: materiality: me: 'total' is a string; only numbers have bounds"]


def test_all_mistakes_of_a_file_are_named(file: Path) -> None:
    found = mistakes(file, SHOP_SOURCE.replace("dataset: shop", "dataset: Shop\nowners: me").replace("type: int", "type: money"))
    assert [mistake.split(": ")[:2] for mistake in found] == [["1", "dataset"], ["7", "model.fields.0.type"], ["2", "owners"]]


def test_custom_contracts_join_the_bundled_ones(tmp_path: Path) -> None:
    loaded = catalog(tmp_path, bundled=True, shop=SHOP_SOURCE, turnover=TURNOVER_METRIC)
    assert (set(loaded.sources), set(loaded.metrics)) == (
        {"earthquakes", "sales", "shop"},
        {"earthquakes_daily", "revenue", "turnover"},
    )


def test_a_custom_contract_replaces_the_bundled_one_of_its_name(tmp_path: Path) -> None:
    loaded = catalog(tmp_path, bundled=True, anything=SHOP_SOURCE.replace("shop", "sales"))
    assert loaded.sources["sales"].primary_key == ["id"]


def test_a_custom_source_replaces_a_bundled_metric_of_its_name(tmp_path: Path) -> None:
    loaded = catalog(tmp_path, bundled=True, revenue=SHOP_SOURCE.replace("shop", "revenue"))
    assert ("revenue" in loaded.sources, "revenue" in loaded.metrics) == (True, False)


@pytest.mark.parametrize("folder", [None, Path("does/not/exist")])
def test_a_custom_folder_is_optional(folder: Path | None) -> None:
    assert load_catalog(folder, bundled=False) == Catalog()


def test_both_endings_are_read(tmp_path: Path) -> None:
    (tmp_path / "turnover.yml").write_text(TURNOVER_METRIC, encoding="utf-8")
    assert set(catalog(tmp_path, shop=SHOP_SOURCE).metrics) == {"turnover"}


def test_a_metric_without_its_source(tmp_path: Path) -> None:
    with pytest.raises(ContractError) as caught:
        catalog(tmp_path, turnover=TURNOVER_METRIC)
    assert caught.value.mistakes == [f"{tmp_path}/turnover.yaml:2: source: no contract has 'dataset: shop'"]


@pytest.mark.parametrize(("text", "key"), [(SHOP_SOURCE, "dataset"), (TURNOVER_METRIC.replace("turnover", "shop"), "metric")])
def test_two_files_with_the_same_name(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(ContractError) as caught:
        catalog(tmp_path, one=SHOP_SOURCE, two=f"# again\n{text}", three=SHOP_SOURCE.replace("shop", "other"))
    assert f"{tmp_path}/two.yaml:2: {key}: the name 'shop' is taken by {tmp_path}/one.yaml" in caught.value.mistakes


def test_the_mistakes_of_all_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ContractError) as caught:
        catalog(tmp_path, one="[", two="x: 1", shop=SHOP_SOURCE)
    assert [mistake.partition(":")[0] for mistake in caught.value.mistakes] == [f"{tmp_path}/one.yaml", f"{tmp_path}/two.yaml"]


def test_a_loaded_contract_never_changes(tmp_path: Path) -> None:
    shop = catalog(tmp_path, shop=SHOP_SOURCE).sources["shop"]
    for part, key in ((shop, "dataset"), (shop.clocks, "event"), (shop.lateness, "watermark")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, key, None)


@pytest.mark.parametrize(
    "form",
    ["format: csv, skip_lines: 1", "format: csv, comment: '#'", "format: csv, columns: [id, at]", "format: json, array: true"],
)
def test_files_in_a_form_of_their_own_are_not_read_column_wise(file: Path, form: str) -> None:
    text = "dataset: shop\nprimary_key: [id]\nclocks: {event: at}\nmodel: {fields: [{name: id, type: string}]}\n"
    assert source(file, f"{text}source: {{{form.partition(',')[0]}}}\n").source.is_plain
    assert not source(file, f"{text}source: {{{form}}}\n").source.is_plain


def test_a_broken_contract_is_left_out_unless_it_names_the_source(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(SHOP_SOURCE)
    (tmp_path / "other.yaml").write_text("metric: [\n")
    sound, left_out = load_sound_catalog(tmp_path, "shop", bundled=False)
    assert ([*sound.sources], [text.partition(":")[0] for text in left_out]) == (["shop"], [f"{tmp_path}/other.yaml"])
    (tmp_path / "turnover.yaml").write_text("metric: turnover\nsource: shop\nmeasures: [\n")
    with pytest.raises(ContractError, match=r"turnover\.yaml"):
        load_sound_catalog(tmp_path, "shop", bundled=False)


def checked(folder: Path, *names: str, **texts: str) -> tuple[list[str], list[str]]:
    """The mistakes and the notes of some files of a folder, with the folder left out."""
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    done = check_files([folder / f"{name}.yaml" for name in names])
    return [text.removeprefix(f"{folder}/") for text in done.mistakes], [text.removeprefix(f"{folder}/") for text in done.notes]


def test_a_metric_is_checked_against_the_contracts_beside_it(tmp_path: Path) -> None:
    joined = TURNOVER_METRIC + "joins: [{dimension: customers, on: customer_id, columns: [tier]}]\n"
    (mistake,), notes = checked(tmp_path, "turnover", shop=SHOP_SOURCE, turnover=joined)
    assert mistake.startswith("turnover.yaml:")
    assert "joins.0.dimension: 'customers' is no source" in mistake
    assert notes == []
    assert checked(tmp_path, "shop") == ([], []), "a mistake is told of the file that has it"
    misspelt = TURNOVER_METRIC.replace("source: shop", "source: shoop")
    (mistake,), _ = checked(tmp_path, "turnover", turnover=misspelt)
    assert "source: no contract has 'dataset: shoop' (did you mean 'shop'?); there are shop" in mistake


def test_a_metric_that_stands_alone_is_checked_by_itself(tmp_path: Path) -> None:
    mistakes, notes = checked(tmp_path, "turnover", turnover=TURNOVER_METRIC)
    assert (mistakes, notes) == ([], ["turnover.yaml: no contract in its folder has shop; what it names of this is not checked"])
    of_bundled = TURNOVER_METRIC.replace("source: shop", "source: sales")
    assert checked(tmp_path, "turnover", shop=SHOP_SOURCE, turnover=of_bundled)[0] == []


def test_a_metric_whose_source_is_broken_is_checked_by_itself(tmp_path: Path) -> None:
    broken = SHOP_SOURCE.replace("primary_key", "primry_key")
    mistakes, notes = checked(tmp_path, "turnover", "shop", shop=broken, turnover=TURNOVER_METRIC)
    assert {text.partition(":")[0] for text in mistakes} == {"shop.yaml"}
    assert len(notes) == 1


def test_two_checked_files_with_the_same_name(tmp_path: Path) -> None:
    (mistake,), _ = checked(tmp_path, "other", shop=SHOP_SOURCE, other=SHOP_SOURCE)
    assert "the name 'shop' is taken by" in mistake


def test_a_derived_metric_is_checked_with_its_inputs(tmp_path: Path) -> None:
    derived = "metric: share\nfrom: [turnovr]\nmeasures: [{name: share, sql: turnover.turnover, type: double}]\n"
    (mistake,), _ = checked(tmp_path, "share", share=derived, turnover=TURNOVER_METRIC, shop=SHOP_SOURCE)
    assert "share.yaml:2: from: no metric is called 'turnovr'; there are share, turnover" in mistake
