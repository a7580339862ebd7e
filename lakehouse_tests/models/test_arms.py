"""A canary scores the entities whose salted hash lies below its share: the same every day, more with a larger share."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.models.canary_log import in_canary

_entities = st.lists(st.text(max_size=20))
_shares = st.decimals(0, 1, places=4)


def _chosen(entities: list[str], salt: str, share: Decimal) -> list[bool]:
    chosen: list[bool] = in_canary(pa.array(entities, pa.string()), salt, share).tolist()
    return chosen


@given(_entities, st.text(), _shares)
def test_an_entity_is_chosen_by_itself(entities, salt, share) -> None:
    together = _chosen([*entities, *entities], salt, share)
    assert together == [*(_chosen([entity], salt, share)[0] for entity in entities)] * 2


@given(_entities, st.text(), _shares, _shares)
def test_a_larger_share_contains_a_smaller_one(entities, salt, share, other) -> None:
    few, many = sorted([share, other])
    assert all(late or not early for early, late in zip(_chosen(entities, salt, few), _chosen(entities, salt, many)))


@given(_entities, st.text())
def test_a_share_of_nothing_has_none_and_of_everything_all(entities, salt) -> None:
    assert not any(_chosen(entities, salt, Decimal(0)))
    assert all(_chosen(entities, salt, Decimal(1)))


@pytest.mark.parametrize("share", ["0.01", "0.1", "0.5"])
@pytest.mark.parametrize("salt", ["fraud:", "fraud:again", "churn:" + "x" * 200])
def test_the_share_is_met_in_expectation(share, salt) -> None:
    count = 40_000
    chosen = sum(_chosen([f"card-{number}" for number in range(count)], salt, Decimal(share)))
    expected = count * float(share)
    assert abs(chosen - expected) < 5 * (expected * (1 - float(share))) ** 0.5


def test_another_salt_chooses_independently() -> None:
    entities = [f"{number}" for number in range(20_000)]
    first, second = (_chosen(entities, salt, Decimal("0.5")) for salt in ("a", "b"))
    assert sum(one and other for one, other in zip(first, second)) == pytest.approx(5_000, rel=0.1)


def test_what_is_chosen_never_changes_from_release_to_release() -> None:
    """Were it to change, a running canary would exchange its entities."""
    chosen = _chosen([f"card-{number}" for number in range(12)], "fraud:", Decimal("0.5"))
    assert [number for number, is_chosen in enumerate(chosen) if is_chosen] == PINNED


def test_chunks_and_repetitions_are_allowed() -> None:
    chunks = pa.chunked_array([["a", "b"], [], ["a"]], pa.string())
    chosen = in_canary(chunks, "s", Decimal("0.5")).tolist()
    assert chosen[0] == chosen[2]
    assert len(chosen) == 3


#: The entities of twelve whose place lies in the lower half.
PINNED = [1, 2, 5, 6, 7, 8]
