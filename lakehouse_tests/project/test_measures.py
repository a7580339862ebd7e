"""The first metric adds up what can be added, takes the mean of what cannot, and leaves room for fractions."""

from __future__ import annotations

import pytest

from lakehouse.project import new_project
from lakehouse.project.inference import infer
from lakehouse_tests.support.sample_files import lines

T = "2024-11-04T09:00:00Z"


@pytest.mark.parametrize(
    ("column", "values", "measure"),
    [
        ("amount", ["1.50", "2.50"], "sql: sum(amount), type: 'decimal(38,4)', additive: true"),
        ("kwh", ["0.30000000000000004", "7.1"], "sql: sum(kwh), type: double, additive: false"),
        ("cases", ["5", "6"], "sql: sum(cases), type: long, additive: true"),
        ("air_temp", ["1.5", "-2.5"], "sql: avg(air_temp), type: 'decimal(38,8)', additive: false"),
        ("humidity", ["60", "70"], "sql: avg(humidity), type: 'decimal(38,8)', additive: false"),
        ("humidity", ["0.30000000000000004", "7.1"], "sql: avg(humidity), type: double, additive: false"),
        ("price_per_ton", ["1.50", "2.50"], "sql: avg(price_per_ton), type: 'decimal(38,8)', additive: false"),
        ("close", ["1.50", "2.50"], "sql: avg(close), type: 'decimal(38,8)', additive: false"),
        ("open", ["15", "16"], "sql: sum(open), type: long, additive: true"),
        ("cases_avg", ["5", "6"], "sql: avg(cases_avg), type: 'decimal(38,8)', additive: false"),
    ],
)  # fmt: skip
def test_quantities_are_added_up_or_averaged(column: str, values: list[str], measure: str) -> None:
    found = infer([lines(f"id,at,{column}", *(f"{number},{T},{value}" for number, value in enumerate(values)))])
    assert f"{{name: {column}, {measure}}}" in new_project.metric_text("a", found)


@pytest.mark.parametrize("column", ["latitude", "zip", "year", "customer_id", "Jahr"])
def test_places_years_and_identifiers_are_no_measure(column: str) -> None:
    found = infer([lines(f"id,at,{column}", f"1,{T},2001", f"2,{T},2002")])
    assert new_project.metric_text("a", found).count("name:") == 1, "the records alone"


def test_the_parts_of_a_day_are_no_measures() -> None:
    text = new_project.metric_text("a", infer([lines("year,month,day,mm", "2024,11,4,2.5")]))
    assert [word for word in ("year", "month", "day", "mm") if f"({word})" in text] == ["mm"]


@pytest.mark.parametrize(
    ("column", "values", "kind"),
    [
        ("amount", ["5", "10"], "decimal(20,4)"),
        ("avg_cases", ["5", "10"], "decimal(20,4)"),
        ("profit", ["0.0", "5.0"], "decimal(20,4)"),
        ("customer_id", ["1001.0", "1002.0"], "bigint"),
        ("units", ["5", "10"], "bigint"),
    ],
)
def test_whole_numbers_have_room_for_fractions_where_the_next_file_may_have_some(
    column: str, values: list[str], kind: str
) -> None:
    found = infer([lines(f"id,at,{column}", *(f"{number},{T},{value}" for number, value in enumerate(values)))])
    assert found.columns[-1].type == kind


def test_a_count_that_pandas_wrote_beside_empty_values_is_whole() -> None:
    assert infer([lines("id,at,units", f"1,{T},5.0", f"2,{T},")]).columns[-1].type == "bigint"


def test_records_that_add_up_others_are_told() -> None:
    file = lines("day,region,cases", "2024-11-04,north,5", "2024-11-04,south,6", "2024-11-04,Total,11")
    [doubt] = [doubt for doubt in infer([file]).doubts if "'Total'" in doubt]
    assert doubt.endswith("leave them out of sums, as in sum(x) FILTER (WHERE region <> 'Total')")
    every = lines("day,region,cases", "2024-11-04,Total,5", "2024-11-05,Total,6")
    assert not any("'Total'" in doubt for doubt in infer([every]).doubts), "there are no others"


def test_a_broken_number_among_many_is_asked_for() -> None:
    file = lines("id,at,amount", *(f"{number},{T},{number}.50" for number in range(30)), f"31,{T},5.5.5")
    [question] = infer([file]).questions
    assert (question.about, list(question.options)) == ("column amount", ["text", "number"])
    assert "records such as that with '5.5.5' are malformed (1 in the samples)" in question.options["number"]
    kinds = {answer: infer([file], {"column amount": answer}).columns[-1].type for answer in question.options}
    assert kinds == {"text": "string", "number": "decimal(20,4)"}
    few = lines("id,at,amount", f"1,{T},1.50", f"2,{T},closed")
    assert infer([few]).questions == [], "a text"
    codes = lines("id,at", *(f"{number},{T}" for number in range(30)), f"48  43,{T}")
    assert infer([codes]).questions == [], "an identifier is a text where one is"


def test_quantities_in_several_currencies_are_numbers_of_their_own() -> None:
    def sums(*currencies: str) -> str:
        source = infer([lines("id,at,amount,currency", *(f"{number},{T},1.5,{name}" for number, name in enumerate(currencies)))])
        assert any("(EUR, USD): their quantities do not add up" in doubt for doubt in source.doubts) == (len({*currencies}) > 1)
        return new_project.metric_text("a", source)

    several = sums("EUR", "USD", "EUR")
    assert "grain: [currency]" in several
    assert "{name: amount, sql: sum(amount), type: 'decimal(38,4)', additive: false}" in several, "no total over currencies"
    assert "grain" not in sums("EUR", "EUR"), "the first metric stays simple where nothing can go wrong"
    coded = lines("id,at,amount,currency_code", f"1,{T},1.5,EUR", f"2,{T},1.5,USD")
    assert "grain: [currency_code]" in new_project.metric_text("a", infer([coded]))
    assert "after_close" not in new_project.metric_text("a", infer([coded])), "no longer period would have what is booked in it"
    readings = lines("station,date,element,value", "a,2024-11-04,PRCP,15", "a,2024-11-04,TMAX,217")
    assert "grain: [element]" in new_project.metric_text("a", infer([readings]))
    assert "grain" not in new_project.metric_text("a", infer([lines("id,at,unit", f"1,{T},kg", f"2,{T},t")])), "nothing is summed"


@pytest.mark.parametrize(
    ("column", "is_summed"),
    [
        *(("account", False), ("to_store", False), ("units_per_item", True), ("customers", True)),
        *(("stock", True), ("units_in_stock", True), ("orders_by_customer", True)),
    ],
)
def test_the_numbers_of_things_are_not_added_up(column: str, *, is_summed: bool) -> None:
    text = new_project.metric_text("a", infer([lines(f"id,at,{column}", f"1,{T},4711", f"2,{T},4711", f"3,{T},815")]))
    assert (f"sum({column})" in text) == is_summed


def test_codes_that_are_written_as_numbers_are_not_added_up() -> None:
    file = lines("id,at,barcode,phone,units", f"1,{T},4006381333931,491701234567,5")
    text = new_project.metric_text("log", infer([file]))
    assert [line.split("sql: ")[1].split(",")[0] for line in text.splitlines() if "sql: " in line] == ["count(*)", "sum(units)"]
