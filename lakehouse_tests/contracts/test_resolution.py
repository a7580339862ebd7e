from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakehouse.contracts import Catalog, ContractError, load_catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.delta import provenance

if TYPE_CHECKING:
    from pathlib import Path

SALES = {"name": "sales", "sql": "sum(amount)", "type": "long", "additive": True}
BIGGEST = {"name": "biggest", "sql": "max(amount)", "type": "long"}
SOURCE: dict[str, Any] = {
    "dataset": "shop",
    "primary_key": ["id"],
    "model": {
        "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "int"}, {"name": "store", "type": "string"}]
    },
    "source": {"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01"},
    "clocks": {"event": "at", "arrival": "arrived", "timezone": "Europe/Berlin"},
}
WEB = SOURCE | {"dataset": "web", "model": {"fields": [*SOURCE["model"]["fields"], {"name": "channel", "type": "string"}]}}
REVENUE: dict[str, Any] = {
    "metric": "revenue",
    "source": "shop",
    "grain": ["store"],
    "measures": [SALES, BIGGEST],
    "publication": {"rollups": ["week"]},
}
SESSIONS: dict[str, Any] = {
    "metric": "sessions",
    "source": "web",
    "grain": ["store", "channel"],
    "measures": [{"name": "n", "sql": "count(1)", "type": "long", "additive": True}, BIGGEST],
    "publication": {"rollups": ["week", "fiscal_year"]},
}
CONVERSION: dict[str, Any] = {
    "metric": "conversion",
    "from": ["revenue", "sessions"],
    "grain": ["store"],
    "measures": [{"name": "c", "sql": "revenue.sales / sessions.n", "type": "decimal(12,6)"}],
    "publication": {"rollups": ["week"]},
}


def catalog(folder: Path, *contracts: dict[str, Any]) -> Catalog:
    """Two sources, revenue and sessions, with other metrics or others in their place."""
    by_name = {one.get("metric", one.get("dataset")): one for one in (SOURCE, WEB, REVENUE, SESSIONS)}
    for one in contracts:
        by_name[f"{one['metric']}_{one.get('dataset_version', '')}".removesuffix("_")] = one
    for name, one in by_name.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(one, sort_keys=False), "utf-8")
    return load_catalog(folder, bundled=False)


def mistakes(folder: Path, *contracts: dict[str, Any]) -> list[str]:
    with pytest.raises(ContractError) as caught:
        catalog(folder, *contracts)
    return [text.removeprefix(f"{folder}/") for text in caught.value.mistakes]


def test_a_derived_metric_knows_what_it_reads_and_shows_the_source_of_its_first_input(tmp_path: Path) -> None:
    twice = {
        "metric": "a_twice",
        "from": ["conversion"],
        "measures": [{"name": "c", "sql": "2 * conversion.row_count", "type": "long"}],
    }
    known = catalog(tmp_path, CONVERSION, twice)
    conversion = known.metrics["conversion"]
    assert (conversion.source, conversion.publication.timezone) == ("shop", "Europe/Berlin")
    assert [(one.metric, one.grain, one.measures) for one in conversion.inputs] == [
        ("revenue", ["store"], ["sales", "biggest"]),
        ("sessions", ["store", "channel"], ["n"]),
    ]
    assert known.metrics["a_twice"].source == "shop"
    assert known.metrics["a_twice"].inputs[0].measures == [], "a ratio is not added up"


def test_a_catalog_tells_metrics_of_rows_from_those_that_are_made_of_metrics(tmp_path: Path) -> None:
    twice = {
        "metric": "a_twice",
        "from": ["conversion"],
        "measures": [{"name": "c", "sql": "2 * conversion.row_count", "type": "long"}],
    }
    known = catalog(tmp_path, CONVERSION, twice)
    assert [one.name for one in known.metrics_of("shop")] == ["revenue"]
    assert [one.name for one in known.derived_from("sessions")] == ["conversion"]
    assert [one.name for one in known.derived_of("web")] == ["conversion", "a_twice"], "each after its inputs"


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        (
            {"source": "shop"},
            "conversion.yaml:2: from: a metric reads one source or is made of other metrics; keep 'source' or 'from'",
        ),
        ({"inputs": [{"metric": "revenue"}]}, "conversion.yaml:14: inputs: follows from 'from'; leave the key out"),
        (
            {"from": ["revenue", "sesions"]},
            "conversion.yaml:2: from: no metric is called 'sesions'; there are conversion, revenue, sessions",
        ),
        ({"from": ["revenue", "revenue", "sessions"]}, "conversion.yaml:2: from: name each metric once: revenue"),
        (
            {"grain": ["channel"]},
            "conversion.yaml:5: grain: channel is not in the grain of revenue, which is store; add it there, or leave it out",
        ),
        (
            {"grain": [], "from": ["sessions"], "measures": [{"name": "c", "sql": "sessions.biggest", "type": "long"}]},
            (
                "conversion.yaml:5: measures: c reads sessions.biggest, which is not additive, and "
                "sessions has one row per store, channel; read additive ones"
            ),
        ),
        (
            {"measures": [{"name": "c", "sql": "revenue.sale / sessions.n", "type": "double"}]},
            "conversion.yaml:7: measures: c reads revenue.sale; revenue has the measures sales, biggest, row_count",
        ),
        (
            {"measures": [{"name": "c", "sql": "revenue.sales / visits.n", "type": "double"}]},
            "conversion.yaml:7: measures: c reads visits.n, and 'visits' is not named by 'from'",
        ),
        (
            {"measures": [{"name": "c", "sql": "sum(sales)", "type": "double"}]},
            "conversion.yaml:7: measures: c reads no input; write 'input.measure', as in revenue.sales",
        ),
        ({"window": 7}, "conversion.yaml:14: window: a derived metric has none; give one to its inputs"),
        ({"rows": "all"}, "conversion.yaml:14: rows: a derived metric reads no rows of a source; leave the key out"),
        (
            {"publication": {"after_close": "adjust"}},
            (
                "conversion.yaml:12: publication.after_close: a derived number changes with its inputs; "
                "let these 'adjust', and leave the key out here"
            ),
        ),
        (
            {"publication": {"final_needs": {"watermark": False}}},
            "conversion.yaml:12: publication.final_needs: a derived number becomes final after its inputs; leave the key out",
        ),
        (
            {"publication": {"closes_with": {"day": "x"}}},
            "conversion.yaml:12: publication.closes_with: a derived number becomes final after its inputs; leave the key out",
        ),
        (
            {"publication": {"patch_up_to": 5}},
            "conversion.yaml:12: publication.patch_up_to: a derived number is computed from published numbers; leave the key out",
        ),
        (
            {"publication": {"rollups": ["week", "fiscal_year"]}},
            "conversion.yaml:12: publication.rollups: revenue has no numbers per fiscal_year; add fiscal_year to its rollups",
        ),
        (
            {
                "from": ["sessions"],
                "measures": [{"name": "c", "sql": "sessions.n", "type": "long"}],
                "publication": {"rollups": ["fiscal_year"], "fiscal_year_starts": 4},
            },
            (
                "conversion.yaml:13: publication.fiscal_year_starts: the fiscal year of sessions begins with month 1; "
                "give the same month"
            ),
        ),
    ],
)
def test_a_mistake_in_a_derived_metric_names_file_line_and_field(tmp_path: Path, changes: dict[str, Any], mistake: str) -> None:
    assert mistake in mistakes(tmp_path, CONVERSION | changes)


def test_a_column_of_the_grain_cannot_have_the_name_of_an_input(tmp_path: Path) -> None:
    store = REVENUE | {"metric": "store"}
    changed = CONVERSION | {"from": ["store"], "measures": [{"name": "c", "sql": "store.sales", "type": "long"}]}
    [mistake] = mistakes(tmp_path, store, changed)
    assert mistake == "conversion.yaml:2: from: store is also a column of the grain; an expression could not distinguish them"


def test_a_measure_that_is_not_additive_is_not_read_of_an_input_with_adjustments(tmp_path: Path) -> None:
    adjusting = REVENUE | {"publication": {"after_close": "adjust", "rollups": ["week"]}}
    reading = CONVERSION | {"measures": [{"name": "c", "sql": "revenue.biggest", "type": "long"}]}
    [mistake] = mistakes(tmp_path, adjusting, reading)
    assert mistake.endswith(
        "measures: c reads revenue.biggest, which is not additive, and revenue books adjustments; read additive ones"
    )
    assert catalog(tmp_path, REVENUE, reading).metrics["conversion"].inputs[0].measures == ["sales", "biggest"]


def test_a_cycle_is_refused_with_its_path(tmp_path: Path) -> None:
    def made_of(name: str, *inputs: str) -> dict[str, Any]:
        measures = [{"name": "c", "sql": f"{inputs[0]}.row_count", "type": "long"}]
        return {"metric": name, "from": [*inputs], "measures": measures}

    of_itself = made_of("a", "a")
    assert mistakes(tmp_path, of_itself) == ["a.yaml:2: from: a -> a: a metric cannot be made of itself; take one of them out"]
    cycle = [made_of("a", "revenue", "b"), made_of("b", "c"), made_of("c", "a"), made_of("d", "c")]
    assert mistakes(tmp_path, *cycle) == [
        "a.yaml:2: from: a -> b -> c -> a: a metric cannot be made of itself; take one of them out",
        "b.yaml:2: from: b -> c -> a -> b: a metric cannot be made of itself; take one of them out",
        "c.yaml:2: from: c -> a -> b -> c: a metric cannot be made of itself; take one of them out",
    ]


def test_every_dataset_version_of_an_input_has_to_fit(tmp_path: Path) -> None:
    later = REVENUE | {"dataset_version": 2, "grain": [], "publication": {}}
    found = mistakes(tmp_path, CONVERSION, later)
    assert (
        "conversion.yaml:5: grain: store is not in the grain of revenue_v2, which is none; add it there, or leave it out" in found
    )
    assert any("revenue_v2 has no numbers per week" in text for text in found)


def test_a_metric_without_source_and_inputs_is_refused(tmp_path: Path) -> None:
    [mistake] = mistakes(tmp_path, {"metric": "nothing", "measures": [SALES]})
    assert (
        mistake
        == "nothing.yaml:1: source: is missing; name the source that it reads, or with 'from:' the metrics that it is made of"
    )


def test_a_stored_derived_contract_reads_the_same_and_other_contracts_keep_their_hash(tmp_path: Path) -> None:
    known = catalog(tmp_path, CONVERSION)
    conversion = known.metrics["conversion"]
    assert MetricContract.model_validate_json(conversion.model_dump_json()).with_contracts(known.sources) == conversion
    other_input = conversion.model_copy(update={"inputs": conversion.inputs[:1]})
    assert provenance.of_contract(other_input) != provenance.of_contract(conversion)
    stored = known.metrics["revenue"].model_dump(mode="json", exclude={"derived_from", "inputs"})
    assert provenance.of_contract(MetricContract.model_validate(stored)) == provenance.of_contract(known.metrics["revenue"])
