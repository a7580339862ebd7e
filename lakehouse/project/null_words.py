"""Infers which words and numbers mean 'no value' among a column's numbers and times. Plain Python."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakehouse.project.questions import InferenceError, Question

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakehouse.project.questions import Sample

#: Words for 'no value' as programs and people write them, in lower case.
_WORDS = frozenset({"n/a", "na", "#n/a", "nan", "null", "none", "nil", "-", "--", "---", ".", "..", "...", "?", "missing", "\\n"})
#: The day that databases write in place of none.
_NO_DAY = re.compile(r"0000-00-00(?:[ T]00:00(?::00(?:\.0+)?)?)?Z?")
#: Numbers that mean 'no value' if all other numbers are far from them.
_SENTINEL = re.compile(r"-(9{2,6}|[789]{4})(\.0+|\.9+)?")
_FAR = 5
_NUMBER_OR_TIME = re.compile(r"[(+-]?\s?[$€£¥₹]?\s?[+-]?\.?\d[\d.,' :/TZ+-]*([KMBe%]|\s?[$€£¥₹])?[\d-]*\)?")
_NONE = "none"


@dataclass(frozen=True)
class NullWords:
    """The words for 'no value', with doubts and a question about them."""

    words: Sequence[str]
    doubts: Sequence[str] = ()
    question: Question | None = None


def null_words(samples: Sequence[Sample], answers: Mapping[str, str]) -> NullWords:
    """The words for 'no value' in the samples.

    :param answers: a person's answers; ``null_values`` has the words, separated by commas, or ``none``.
    """
    columns_of: dict[str, list[str]] = {}
    texts: set[str] = set()
    sentinels: set[str] = set()
    for column in dict.fromkeys(name for sample in samples for name in sample.columns):
        values = Counter(_texts(samples, column))
        words = [value for value in values if not _NUMBER_OR_TIME.fullmatch(value) or _NO_DAY.fullmatch(value)]
        known = [word for word in words if word.lower() in _WORDS or _NO_DAY.fullmatch(word)]
        numbers = values.total() - sum(values[word] for word in words)
        if not numbers or len(known) < len(words):
            texts |= {word for word in known if len(words) > len(known)}
            continue
        of_column = [value for value in values if _is_sentinel(value, values)]
        sentinels |= {*of_column}
        for word in [*known, *of_column]:
            columns_of.setdefault(word, []).append(column)
    answer = answers.get("null_values")
    if answer is not None:
        chosen = [] if answer == _NONE else [word.strip() for word in answer.split(",")]
        unknown = next((word for word in chosen if word not in columns_of), None)
        if unknown is not None:
            msg = f"null_values={answer}: {unknown} is among no numbers; there are {', '.join(columns_of) or 'none'}"
            raise InferenceError(msg)
        return NullWords(chosen)
    doubtful = [word for word in columns_of if word in sentinels or word in texts]
    question = None
    if doubtful:
        in_texts = " (text columns have it, too)" if texts & {*doubtful} else ""
        options = {
            ",".join(columns_of): f"{', '.join(columns_of)} mean 'no value' in every column{in_texts}",
            _NONE: "they are values: the numbers count, and columns with such words are text",
        }
        question = Question("null_values", f"Do {', '.join(doubtful)} mean 'no value'?", options)
    doubts = [
        f"{word!r} means 'no value' (source.null_values), as in column {columns[0]}" for word, columns in columns_of.items()
    ]
    return NullWords(list(columns_of), doubts, question)


def without(sample: Sample, words: Sequence[str]) -> Sample:
    """The sample with the words for 'no value' replaced by None."""
    if not words:
        return sample
    known = {*words}
    records = [
        {name: None if not isinstance(value, bool) and f"{value}".strip() in known else value for name, value in record.items()}
        for record in sample.records
    ]
    return replace(sample, records=records)


def _texts(samples: Sequence[Sample], column: str) -> Iterator[str]:
    return (f"{value}".strip() for sample in samples for record in sample.records if (value := record.get(column)) is not None)


def _is_sentinel(value: str, values: Mapping[str, int]) -> bool:
    """Whether a number such as -999 is far below all other numbers of its column."""
    if not _SENTINEL.fullmatch(value):
        return False
    others = [_number(other) for other in values if not _SENTINEL.fullmatch(other)]
    return bool(others) and all(other is not None and other > float(value) / _FAR for other in others)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None if text.lower() not in _WORDS else 0.0
