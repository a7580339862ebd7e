"""The options of a session, as expressions of contracts meet them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from lakehouse.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("text", ["${env:HOME}", "${system:user.name}", "${spark.master}"])
def test_a_text_stays_a_text_and_is_no_value_of_this_machine(spark: SparkSession, text: str) -> None:
    [row] = spark.range(1).select(F.expr(f"'{text}'").alias("text")).collect()
    assert row["text"] == text


def test_the_options_that_decide_what_expressions_mean_are_those_of_the_settings(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in Settings.PINNED} == Settings.PINNED
