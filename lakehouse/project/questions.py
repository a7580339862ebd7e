"""The results of inference: inferred columns with their data types, and open questions, which a person or defaults answer.

Here are also the samples, and the words in the names of columns that say what they mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Endings that nothing but an identifier has, also behind a word of another language: bestellnr, rechnungsnummer.
_NUMBERED = re.compile("(.{3,})(nr|nummer|number|numero)")
#: Names made of two words without a separator.
_GLUED = re.compile(
    "(order|sale|customer|client|user|account|member|product|item|article|invoice|payment|trade|claim|transaction|ticket|booking|"
    "shipment|store|shop|station|site|sensor|device|meter|event|record|case|start|end|due)"
    "(id|no|nr|num|number|code|key|date|time)"
)


def word_set(*lines: str) -> frozenset[str]:
    """The words of column names, given in lines."""
    return frozenset(" ".join(lines).split())


#: Words for quantities that do not add up, such as temperatures.
MEANS = word_set(
    "temperature temp humidity pressure speed rate ratio percent percentage pct avg average mean median level stage discharge",
    "flow height depth score age open high low close balance incidence inzidenz index per unit",
    "dewpoint dew visibility wind gust cloud wasserstand pegel temperatur tmpf tmpc dwpf dwpc relh sknt drct mslp vsby",
)
#: Words in the names of identifiers, the most significant first.
KEY_WORDS = (
    *("id", "identifier", "uuid", "guid", "key", "number", "no", "nr", "num", "nummer", "numero"),
    *("code", "ref", "reference", "referenz", "kennung", "vbeln", "ebeln"),
)
#: Words that may also precede the thing, as in id_customer; num_cases and reference_level are not identifiers.
_KEY_WORDS_IN_FRONT = ("id", "identifier", "uuid", "guid")
#: Kinds of records: a text column with such a name has the names of records.
_RECORDS = word_set(
    "order sale payment trade claim invoice ticket booking shipment delivery visit transaction receipt event incident refund",
)
_NUMBERS = ("number", "no", "nr", "num", "nummer")
#: Words for a line within a document, and names of its number.
LINE_NUMBERS = word_set("pos position line row zeile posten ligne")
#: Words for things of which a column may also have the number.
_COUNTED = word_set("stock unit")
#: Things with many records.
ENTITIES = word_set(
    "sensor station stations meter gauge device machine site location place country region state county province city store till",
    "shop",
    "branch warehouse depot customer client user account member patient product sku stock item article asset symbol ticker isin",
    "instrument currency pair series channel campaign vehicle route airport hospital facility iso fips geo area district",
    "zone river basin plant unit team employee driver supplier vendor merchant portfolio card iban wallet department category",
    "trust mat kun lif company issuer broker counterparty fund school clinic ward doctor carrier port zip postcode",
)
#: Words for quantities.
MEASURES = word_set(
    "amount price total subtotal sum count cases deaths recovered tests value discharge flow level stage temperature temp rate",
    "percent pct cost fee tax balance quantity qty volume weight population rainfall precipitation kwh mm mwh open high low",
    "close",
    "payment refund claim deposit payout min max avg mean score revenue sale sales salary lat latitude lon lng longitude height",
    "depth speed pressure humidity duration",
    "units",
)

#: Codes that are written as numbers, and are neither added up nor averaged.
CODES = word_set(
    "ean gtin upc barcode isbn issn imei phone mobile fax tracking awb iban vin siret siren postal pin ssn mandt status flag"
)
#: Words in the names of columns that say whether an amount is a debit or a credit.
SIGNS = word_set("dc cd drcr crdr debit credit sign soll haben shkzg indicator direction")
#: A long number as a spreadsheet saves it: its last digits are lost.
SPREADSHEET_NUMBER = re.compile(r"\s*\d(?:[.,]\d+)?E\+\d{2}\s*")


class InferenceError(LakehouseError):
    """Sample files from which no contract can be inferred. The message names the file and the remedy."""


@dataclass(frozen=True)
class Sample:
    """The records of one file by column; an empty value is None.

    :param doubts: sentences about records that were left out.
    """

    file: str
    columns: Sequence[str]
    records: Sequence[Mapping[str, Any]]
    doubts: Sequence[str] = ()


@dataclass(frozen=True)
class InferredColumn:
    """A column of the files.

    :param name: the name of its field, in lower case.
    :param column: its name in the files.
    :param empty: the number of records without a value.
    :param form: the format of its values (``source.formats``), if they need one.
    """

    name: str
    column: str
    type: str
    empty: int
    form: str | None = None

    @property
    def words(self) -> list[str]:
        """The words of the name, without trailing numbers; ``orderid`` gives two words."""
        words: list[str] = []
        for word in self.name.split("_"):
            plain = re.sub(r"\d+$", "", word) or word
            glued = _GLUED.fullmatch(plain) or _NUMBERED.fullmatch(plain)
            words += glued.groups() if glued else [plain]
        return words


def is_identifier(column: InferredColumn, subject: str = "") -> bool:
    """Whether a column has the name of a key, so that its numbers must not be added up.

    :param subject: the name of the dataset. A column named after one of its records is an identifier, too.
    """
    words = column.words
    if _is_called_like_a_record(column, subject):
        return True
    if column.type == "string":
        return any(word in KEY_WORDS for word in words)
    if column.type == "bigint" and column.name in LINE_NUMBERS:
        return True
    return words[-1] in KEY_WORDS or words[0] in _KEY_WORDS_IN_FRONT


def is_code(column: InferredColumn) -> bool:
    """Whether a column's numbers are codes: those of phones, or of things such as accounts and stores."""
    *before, last = column.words
    is_thing = last in ENTITIES and last not in _COUNTED and not MEANS & set(before) and not set(before) - {"to", "from"}
    return last in CODES or (column.type == "bigint" and is_thing)


def is_line_number(column: InferredColumn) -> bool:
    """Whether a column numbers the lines of a document, so that it identifies nothing alone."""
    words = column.words
    return column.name in LINE_NUMBERS or (not LINE_NUMBERS.isdisjoint(words[:-1]) and words[-1] in _NUMBERS)


def _is_called_like_a_record(column: InferredColumn, subject: str) -> bool:
    """Whether a column is named after one record of the dataset, as ``sale`` in sales; a column of numbers may be its amount."""
    # A till in tills is a thing with possibly many readings, such as sales; a sale in sales is the record itself.
    if len(column.words) > 1 or column.words[0] in ENTITIES:
        return False
    [word] = column.words
    if column.type != "string" and word in subject.lower().split("_") and word.endswith("s"):
        return False  # the sessions of a day are a count
    is_of_subject = any(
        of in (word, f"{word}s", f"{word}es", f"{word.removesuffix('y')}ies") for of in subject.lower().split("_")
    )
    if column.type == "string":
        return is_of_subject or word in _RECORDS
    return is_of_subject and word not in MEASURES and f"{word}s" not in MEASURES


@dataclass(frozen=True)
class Question:
    """A choice that the samples leave open.

    :param about: the subject of the question, as named in ``--answer ABOUT=OPTION``.
    :param options: the possible answers with their meanings; the first is the default.
    """

    about: str
    text: str
    options: Mapping[str, str]

    @property
    def default(self) -> str:
        """The answer that ``--yes`` gives."""
        return next(iter(self.options))

    @property
    def lines(self) -> list[str]:
        """The question and its options as lines of text."""
        return [self.text, *(f"  {option}: {meaning}" for option, meaning in self.options.items())]
