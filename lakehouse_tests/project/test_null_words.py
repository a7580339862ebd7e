"""Words for 'no value' among numbers are recognized; -999, and words that text columns have too, are asked for."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.project import inference, new_project
from lakehouse.project.inference import InferredSource, Source, infer
from lakehouse.project.questions import InferenceError
from lakehouse_tests.support.sample_files import lines

if TYPE_CHECKING:
    from pathlib import Path

T = "2024-11-04T09:00:00Z"


def readings(*values: str, column: str = "mm", answer: str | None = None) -> InferredSource:
    """A source of readings of a gauge."""
    answers = {} if answer is None else {"null_values": answer}
    return infer([lines(f"id,at,{column}", *(f"{number},{T},{value}" for number, value in enumerate(values)))], answers)


@pytest.mark.parametrize("word", ["N/A", "NA", "nan", "NULL", "-", "..", "\\N"])
def test_a_word_among_numbers_means_no_value(word: str) -> None:
    found = readings("1.50", word, "2.50", "")
    assert (list(found.null_words), found.questions) == ([word], [])
    assert (found.columns[-1].type, found.columns[-1].empty) == ("decimal(20,4)", 2)
    assert f"{word!r} means 'no value' (source.null_values), as in column mm" in found.doubts
    text = new_project.source_text("a", ["a.csv"], found, Source())
    assert "null_values: [" in text


def test_what_is_no_number_in_a_typed_format_means_no_value(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    at = [datetime(2024, 11, 4, hour, tzinfo=timezone.utc) for hour in range(4)]
    pq.write_table(pa.table({"id": [1, 2, 3, 4], "at": at, "mm": [1.5, float("nan"), 2.25, None]}), file)
    found = infer([inference.read(file, inference.source_of(file))])
    assert (list(found.null_words), found.questions) == (["nan"], [])
    assert (found.columns[-1].type, found.columns[-1].empty) == ("decimal(20,4)", 2)


def test_a_word_that_is_a_value_of_a_text_is_asked_for() -> None:
    file = lines("id,at,country,mm", f"1,{T},NA,1.50", f"2,{T},DE,NA", f"3,{T},FR,2.50")
    [question] = infer([file]).questions
    assert (question.about, list(question.options)) == ("null_values", ["NA", "none"])
    assert "text columns have it, too" in question.options["NA"]
    kept = infer([file], {"null_values": "none"})
    assert ([column.type for column in kept.columns][2:], list(kept.null_words)) == (["string", "string"], [])
    with pytest.raises(InferenceError, match=r"null_values=x: x is among no numbers; there are NA"):
        infer([file], {"null_values": "x"})


@pytest.mark.parametrize("number", ["-999", "-999.000", "-9999", "-99.9", "-7777"])
def test_a_number_far_below_all_others_is_asked_for(number: str) -> None:
    [question] = readings("1.50", number, "2.50").questions
    assert list(question.options) == [number, "none"]
    assert list(readings("1.50", number, "2.50", answer=number).null_words) == [number]
    assert list(readings("1.50", number, "2.50", answer="none").null_words) == []


@pytest.mark.parametrize("values", [("-999", "-500"), ("-999", "-998", "-1000"), ("-99", "-40"), ("-999",), ("-12", "5")])
def test_a_number_among_others_like_it_is_a_value(values: tuple[str, ...]) -> None:
    assert (list(readings(*values).null_words), readings(*values).questions) == ([], [])


def test_words_of_a_text_are_values() -> None:
    found = readings("A", "N/A", "none", column="note")
    assert (list(found.null_words), found.columns[-1].type) == ([], "string")
    assert readings("1.5", "closed", "N/A").columns[-1].type == "string", "a word that is not known is left to a person"


def test_a_column_of_nothing_but_such_words_is_text() -> None:
    assert (list(readings("N/A", "N/A").null_words), readings("N/A").columns[-1].type) == ([], "string")
