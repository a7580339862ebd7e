"""How versions are written as JSON."""

from __future__ import annotations

import json
from decimal import Decimal

from lakehouse.gold.numbers.comparison import Sides
from lakehouse.serving import responses


def test_a_percentage_beyond_a_double_is_null() -> None:
    told = responses.sides(Sides(5e-324, 1.7e308))
    assert told["percent"] is None
    assert "Infinity" not in json.dumps(told)
    assert responses.sides(Sides(Decimal(4), Decimal(5)))["percent"] == 25.0
