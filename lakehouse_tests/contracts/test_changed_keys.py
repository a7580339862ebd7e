"""What a change of a key means, for every key; over pairs of contracts, as a plain function."""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from lakehouse.contracts import load_catalog
from lakehouse.contracts.changed_keys import OF_METRIC, OF_SOURCE, KeyEffect, compare, effect_of
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.source import SourceContract

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOURCE: dict[str, Any] = {
    "dataset": "orders",
    "primary_key": ["order_id"],
    "model": {
        "fields": [
            {"name": "order_id", "type": "string"},
            {"name": "line", "type": "int"},
            {"name": "amount", "type": "decimal(12,2)"},
        ]
    },
    "clocks": {"event": "at"},
}
METRIC: dict[str, Any] = {
    "metric": "revenue",
    "source": "orders",
    "measures": [
        {"name": "amount", "sql": "sum(amount)", "type": "decimal(18,2)"},
        {"name": "orders", "sql": "count(*)", "type": "bigint"},
    ],
}
#: Changes of a source's contract, each of other keys, with the keys that are named and their effect.
CHANGES: list[tuple[dict[str, Any], dict[str, KeyEffect]]] = [
    ({"primary_key": ["order_id", "line"]}, {"primary_key": KeyEffect.IDENTITY}),
    ({"order": {"sequence": "version"}}, {"order.sequence": KeyEffect.IDENTITY}),
    ({"changes": {"op": "op"}}, {"changes.op": KeyEffect.IDENTITY}),
    ({"clocks": {"event": "sold_at"}}, {"clocks.event": KeyEffect.IDENTITY}),
    ({"source": {"null_values": ["", "N/A"]}}, {"source.null_values": KeyEffect.READING}),
    ({"materialization": {"reprocess_policy": "append"}}, {"materialization.reprocess_policy": KeyEffect.CHOICE}),
    ({"description": "other words", "owner": "anna"}, {}),
    ({"lateness": {"expected": "P2D"}}, {}),
]


def changed(contract: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return contract | keys


def source(**keys: Any) -> SourceContract:
    return SourceContract.model_validate(changed(SOURCE, **keys))


def metric(**keys: Any) -> MetricContract:
    return MetricContract.model_validate(changed(METRIC, **keys))


def keys_of(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Every key of a contract, those of the entries of lists without a name."""
    for name, field in model.model_fields.items():
        key = f"{path}.{name}".lstrip(".")
        inner = set(_models(field.annotation))
        if inner:
            for one in inner:
                yield from keys_of(one, key)
        else:
            yield key


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in {Union, UnionType, list} or get_origin(annotation) is not None:
        for argument in get_args(annotation):
            yield from _models(argument)


@pytest.mark.parametrize(("model", "effects"), [(SourceContract, OF_SOURCE), (MetricContract, OF_METRIC)])
def test_every_key_has_an_effect_and_every_effect_a_key(model: type[BaseModel], effects: Mapping[str, KeyEffect]) -> None:
    keys = set(keys_of(model))
    unclassified = {key for key in keys if not any(f"{key}.".startswith(f"{known}.") for known in effects)}
    assert unclassified == set(), "say in contracts/changed_keys.py what a change of it means"
    unknown = {known for known in effects if not any(f"{key}.".startswith(f"{known}.") for key in keys)}
    assert unknown == set()


def test_a_key_without_an_effect_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        effect_of("clocks.weather", OF_SOURCE)
    assert effect_of("clocks.watermark.max_lateness", OF_SOURCE) is KeyEffect.NOTHING


@given(st.sets(st.integers(0, len(CHANGES) - 1)))
def test_each_change_is_named_whatever_else_is_changed(chosen: set[int]) -> None:
    keys: dict[str, Any] = {}
    expected: dict[str, KeyEffect] = {}
    for number in sorted(chosen - ({7, 5} if {2, 5} <= chosen else set())):  # 'append' excludes operations
        keys |= CHANGES[number][0]
        expected |= CHANGES[number][1]
    found = compare(source(), source(**keys))
    assert {one.key: one.effect for one in found} == expected
    back = compare(source(**keys), source())
    assert {one.key: (one.after, one.before) for one in back} == {one.key: (one.before, one.after) for one in found}
    assert [one.effect for one in found] == sorted((one.effect for one in found), key=list(KeyEffect).index)


@pytest.mark.parametrize("contract", [*load_catalog(None).sources.values(), *load_catalog(None).metrics.values()])
def test_a_contract_equals_what_was_stored_of_it(contract: SourceContract | MetricContract) -> None:
    stored = type(contract).model_validate_json(contract.model_dump_json())
    assert compare(stored, contract) == []  # type: ignore[arg-type]


def test_a_column_of_the_key_is_more_than_what_a_record_says() -> None:
    fields = SOURCE["model"]["fields"]
    of_key = source(model={"fields": [fields[0] | {"column": "id"}, *fields[1:]]})
    assert [(one.key, one.effect) for one in compare(source(), of_key)] == [("model.fields.order_id.column", KeyEffect.IDENTITY)]
    other = source(model={"fields": [*fields[:2], fields[2] | {"column": "total"}]})
    assert [one.effect for one in compare(source(), other)] == [KeyEffect.READING]


def test_a_field_that_is_added_or_removed_is_one_change() -> None:
    more = source(model={"fields": [*SOURCE["model"]["fields"], {"name": "till", "type": "int", "required": True}]})
    assert [f"{one}" for one in compare(source(), more)] == ["model.fields.till: was not set and is int"]
    assert compare(more, source()) == []


@pytest.mark.parametrize(
    ("field", "kind", "effect"),
    [
        (1, "bigint", KeyEffect.READING),
        (2, "decimal(14,2)", KeyEffect.READING),
        (1, "string", None),
        (2, "decimal(14,4)", None),
        (2, "decimal(10,2)", None),
    ],
)
def test_a_field_with_a_wider_type_reads_values_that_were_too_large(field: int, kind: str, effect: KeyEffect | None) -> None:
    fields = [*SOURCE["model"]["fields"]]
    fields[field] = fields[field] | {"type": kind}
    effects = [one.effect for one in compare(source(), source(model={"fields": fields}))]
    assert effects == ([effect] if effect else []), "other types are compared with those of the tables"


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"measures": [METRIC["measures"][0] | {"sql": "sum(amount * 2)"}, METRIC["measures"][1]]}, "measures.amount.sql"),
        ({"measures": [METRIC["measures"][0] | {"type": "double"}, METRIC["measures"][1]]}, "measures.amount.type"),
        ({"measures": METRIC["measures"][:1]}, "measures.orders"),
        ({"grain": ["till"]}, "grain"),
        ({"window": 7}, "window"),
        ({"source": "sales"}, "source"),
        ({"publication": {"fiscal_year_starts": 4}}, "publication.fiscal_year_starts"),
    ],
)
def test_what_a_number_means_is_named(keys: dict[str, Any], key: str) -> None:
    assert [(one.key, one.effect) for one in compare(metric(), metric(**keys))] == [(key, KeyEffect.MEANING)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sum(amount) -- gross\n - sum(fee)", "sum(amount) -- gross - sum(fee)"),
        ("count_if(till = 'a  b')", "count_if(till = 'a b')"),
        ("count_if(till = 'a\n')", "count_if(till = 'a')"),
        ("sum(`a  b`)", "sum(`a b`)"),
    ],
)
def test_blanks_in_texts_and_the_end_of_a_remark_are_part_of_the_meaning(before: str, after: str) -> None:
    first, second = ([METRIC["measures"][0] | {"sql": sql}, METRIC["measures"][1]] for sql in (before, after))
    [change] = compare(metric(measures=first), metric(measures=second))
    assert (change.key, change.effect) == ("measures.amount.sql", KeyEffect.MEANING)
    assert (change.before, change.after) == (before, after)


@pytest.mark.parametrize(
    "keys",
    [
        {
            "measures": [
                METRIC["measures"][0] | {"sql": "sum( amount )  -- net of tax\n /* of all tills */"},
                METRIC["measures"][1],
            ]
        },
        {"measures": [METRIC["measures"][0] | {"sql": " sum(amount) "}, METRIC["measures"][1]]},
        {"measures": list(reversed(METRIC["measures"]))},
        {"measures": [METRIC["measures"][0] | {"type": "decimal(38,2)"}, METRIC["measures"][1]]},
        {"consumers": ["board"]},
        {"publication": {"final_after": 9, "rollups": ["week"]}},
        {"checks": {"row_count": {"min": 1}}},
    ],
)
def test_what_changes_no_meaning_is_no_change(keys: dict[str, Any]) -> None:
    assert compare(metric(), metric(**keys)) == []
