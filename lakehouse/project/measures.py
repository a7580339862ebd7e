"""Infers how a first metric aggregates a column's numbers: as a sum, as a mean, or not at all. Plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.project.questions import CODES, MEANS, SIGNS, is_identifier, word_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.project.questions import InferredColumn, Sample

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
#: A mean has this many more decimals than its column, as in Spark.
_DECIMALS_OF_MEANS, _MOST_DECIMALS = 4, 18


def has_fractions(column: InferredColumn) -> bool:
    """Whether a column's name suggests fractions although the sample has none."""
    return not is_identifier(column) and bool(_FRACTIONS & set(column.words))


def of_column(column: InferredColumn, form: str | None = None) -> dict[str, Any] | None:
    """The expression of a column's measure, its type, and whether it adds up over days; None without a measure.

    :param form: the format of its values; percentages do not add up.
    """
    if is_identifier(column) or _PLACES & set(column.words) or column.words[-1] in CODES or column.words[0] in _FLAGS:
        return None
    is_mean = column.type != "bigint" and (bool(MEANS & set(column.words)) or (form or "").endswith("%"))
    if column.type.startswith("decimal"):
        scale = int(column.type.rstrip(")").split(",")[1])
        scale = min(scale + _DECIMALS_OF_MEANS, _MOST_DECIMALS) if is_mean else scale
        return _measure(column.name, f"decimal(38,{scale})", is_mean=is_mean, additive=not is_mean)
    if column.type == "double":
        return _measure(column.name, "double", is_mean=is_mean, additive=False)
    return _measure(column.name, "long", is_mean=False, additive=True) if column.type == "bigint" else None


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
