"""Infers how the numbers of a column are read: which words and numbers mean 'no value', and how a first metric aggregates them.

A column is summed, averaged, or not aggregated at all. Words for 'no value' are inferred among times, too. Plain Python.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakehouse.project.questions import MEANS, SIGNS, InferenceError, Question, is_code, is_identifier, word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakehouse.project.questions import InferredColumn, Sample

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


#: Words of columns whose numbers are places or times, so that neither a sum nor a mean is meaningful.
_PLACES = word_set(
    "lat latitude lon lng longitude zip postcode plz year month week quarter hour yr jahr monat woche kw annee mois ano mes anno"
)
#: Words for quantities with fractions, even if the sample has none.
_FRACTIONS = (MEANS - {"open", "high", "low", "close", "per", "unit"}) | word_set(
    "amount price cost fee tax salary revenue mm kwh mwh rainfall precipitation weight betrag preis"
)
#: Values of records that total other records, in lower case.
_TOTALS = frozenset(
    [
        "total",
        "totals",
        "grand total",
        "all",
        "overall",
        "sum",
        "all ages",
        "gesamt",
        "insgesamt",
        "bundesweit",
        "national",
        "tous",
    ]
)
#: Words in front of the names of flags, which may be 0 and 1.
_FLAGS = ("is", "has", "was")
#: Values of records that do not count for most people, and of debits, in lower case.
_VOID = word_set("cancelled canceled void voided storno storniert rejected failed declined annule annulee")
_DEBITS = word_set("d dr debit s soll")
#: Words for columns that say what the quantities of a record are, or what they are measured in; how many of these a first metric
#: tells apart. They may stand beside words without a meaning of their own, as in ``currency_code``.
_UNITS = word_set(
    "currency curr ccy waers waehrung währung devise moneda valuta unit uom meins einheit unite",
    "parameter variable element pollutant metric kpi measure",
)
_MOST_UNITS, _BESIDE_UNITS = 200, word_set("code iso id name type of")
#: A mean has this many more decimals than its column, as in Spark.
_DECIMALS_OF_MEANS, _MOST_DECIMALS = 4, 18


def has_fractions(column: InferredColumn) -> bool:
    """Whether a column's name suggests fractions although the sample has none."""
    return not is_identifier(column) and bool(_FRACTIONS & set(column.words))


def of_column(column: InferredColumn, form: str | None = None) -> dict[str, Any] | None:
    """The expression of a column's measure, its type, and whether it adds up over days; None without a measure.

    :param form: the format of its values; percentages do not add up.
    """
    if is_identifier(column) or is_code(column) or _PLACES & set(column.words) or column.words[0] in _FLAGS:
        return None
    is_mean = column.type != "bigint" and (bool(MEANS & set(column.words)) or (form or "").endswith("%"))
    if column.type.startswith("decimal"):
        scale = int(column.type.rstrip(")").split(",")[1])
        scale = min(scale + _DECIMALS_OF_MEANS, _MOST_DECIMALS) if is_mean else scale
        return _measure(column.name, f"decimal(38,{scale})", is_mean=is_mean, additive=not is_mean)
    if column.type == "double":
        return _measure(column.name, "double", is_mean=is_mean, additive=False)
    return _measure(column.name, "long", is_mean=False, additive=True) if column.type == "bigint" else None


def units_of(samples: Sequence[Sample], columns: Sequence[InferredColumn]) -> dict[str, list[str]]:
    """The fields by which quantities cannot be added up, as with several currencies, each with its values in the samples."""
    units = {}
    for column in columns:
        words = set(column.words) - _BESIDE_UNITS
        is_unit = bool(words) and (words <= _UNITS or column.words[-1] in _UNITS)
        if column.type == "string" and is_unit and any(of_column(other) for other in columns):
            values = sorted({*_texts(samples, column.column)})
            if 1 < len(values) <= _MOST_UNITS:
                units[column.name] = values
    return units


def doubts_about_sums(samples: Sequence[Sample], columns: Sequence[InferredColumn]) -> list[str]:
    """Sentences about columns by which sums may be wrong: with totals, cancelled records, or debits and credits."""
    doubts = []
    for column in columns:
        if column.type == "string":
            values = {f"{record.get(column.column)}" for sample in samples for record in sample.records}
            total = next((value for value in sorted(values) if value.strip().lower() in _TOTALS), None)
            if total is not None and len(values) > 1:
                doubts.append(
                    f"column {column.column} has {total!r} among its values: if such records add up the others, leave them out "
                    f"of sums, as in sum(x) FILTER (WHERE {column.name} <> '{total}')"
                )
            void = next((value for value in sorted(values) if value.strip().lower() in _VOID), None)
            if void is not None and len(values) > 1:
                doubts.append(
                    f"column {column.column} has {void!r} among its values: such records count, unless the measures leave them "
                    f"out, as in sum(x) FILTER (WHERE {column.name} <> '{void}')"
                )
            debit = next((value for value in sorted(values) if value.strip().lower() in _DEBITS), None)
            if debit is not None and SIGNS & set(column.words):
                doubts.append(
                    f"column {column.column} has debits and credits: if the amounts have no sign, add them up as in "
                    f"sum(CASE WHEN {column.name} = '{debit}' THEN -x ELSE x END)"
                )
    return doubts


def _measure(name: str, kind: str, *, is_mean: bool, additive: bool) -> dict[str, Any]:
    return {"sql": f"{'avg' if is_mean else 'sum'}({name})", "type": kind, "additive": additive}
