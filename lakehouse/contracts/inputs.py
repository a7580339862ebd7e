"""The contract's section ``source``: where records arrive, their format, and the names and completeness of deliveries.

Records arrive in the landing folder, or as messages of a topic (``source.kafka``). Names of files have patterns with the arrival
day; the contract states when an arrival day is complete. Formats of the sender are times by a pattern, seconds since 1970, and
numbers by an example.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from lakehouse.contracts.base import Strict
from lakehouse.contracts.record_changes import Envelope  # noqa: TC001 (pydantic reads them)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from lakehouse.contracts.source import SourceContract


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: Words for a count since the beginning of 1970 (UTC), with the unit in microseconds.
EPOCHS = {
    "epoch_seconds": Decimal(1_000_000),
    "epoch_milliseconds": Decimal(1_000),
    "epoch_microseconds": Decimal(1),
    "epoch_nanoseconds": Decimal("0.001"),
}
#: The word for a count of days since 1970, as Debezium writes a date.
EPOCH_DAYS = "epoch_days"
_DIRECTIVE = re.compile("%[A-Za-z]")
#: 1234.56 or 1234 as a sender writes it: currency or percent signs around it, and K for thousands (then also M and B).
_EXAMPLE = re.compile(r"(?P<before>[^\d(+-]*?)1(?P<group>[.,' ]?)234(?:(?P<point>[.,])56)?(?P<magnitude>K?)(?P<after>[^\d)]*)")
_MAGNITUDES = {"": 0, "K": 3, "M": 6, "B": 9}
_BLANKS = "[ \u00a0\u202f]"
_APOSTROPHES = "['\u2019]"
#: At the end of a pattern these words say that its times are in UTC, whatever the zone of the others.
_IN_UTC = re.compile(r"(?:(?<=[\sSMf])Z|\bUTC|\bGMT)$")
#: The directives of a full date, in any order.
_DAY = r"(?=.*%[YyGcx])(?=.*%[mbBhjUWVcx])(?=.*%[dejaAuwcx])"
_DIRECTIVES_OF_A_TIME = re.compile(r"%[HIMSfpXcsz]")
SHAPES = (
    "a pattern such as '%d.%m.%Y %H:%M' or '%Y-%m', one of "
    + ", ".join([*EPOCHS, EPOCH_DAYS])
    + ", or the number 1234.56 (or 1234) as the sender writes "
    "it, such as '1.234,56' or '$1,234.56', with a K behind it where there are short forms such as 250K and 1.2M"
)


class NotWrittenSoError(ValueError):
    """A value that does not follow its format. The text is the reason."""


def reader(form: str) -> Callable[[Any], Any]:
    """The function that reads values in the format ``form``.

    With a number format, the numbers of JSON and Parquet files are unchanged.

    :raises ValueError: if ``form`` is not a format.
    """
    if form in EPOCHS:
        return partial(_since_1970, form=form, unit=EPOCHS[form])
    if form == EPOCH_DAYS:
        return _days_since_1970
    if _DIRECTIVE.search(form):
        first_day = ("", "") if re.search(_DAY, form) else _first_day_of(form)
        if first_day is None:
            msg = (
                f"{form!r} names no day: a pattern needs year, month and day, or is that of a whole month, week or year; "
                "join columns with source.joined"
            )
            raise ValueError(msg)
        if "Z" in re.findall(r"%(.)", form):
            msg = (
                f"{form!r}: %Z reads no zone, because most abbreviations are ambiguous; write UTC (or GMT, or Z) in the pattern "
                "if all values end so, and %z for offsets such as +01:00"
            )
            raise ValueError(msg)
        try:
            whole = form + first_day[0]
            datetime.strptime(_EPOCH.strftime(whole), whole)  # noqa: DTZ007 (only whether it is a pattern)
        except ValueError:
            msg = f"{form!r} is no pattern of a time: use {SHAPES}"
            raise ValueError(msg) from None
        has_time = bool(_DIRECTIVES_OF_A_TIME.search(form))
        zone = timezone.utc if has_time and "%z" not in form and _IN_UTC.search(form) else None
        return partial(_by_pattern, form=form, first_day=first_day, has_time=has_time, zone=zone)
    example = _EXAMPLE.fullmatch(form)
    if example is None or (example["group"] and example["group"] == example["point"]):
        msg = f"{form!r} is no format: use {SHAPES}"
        raise ValueError(msg)
    return partial(_by_example, form=form, expression=_number(example))


def _first_day_of(form: str) -> tuple[str, str] | None:
    """The suffixes of pattern and value that complete a month, a week or a year to its first day; None for other patterns."""
    directives = set(re.findall(r"%(.)", form))
    if directives == {"G", "V"}:
        return " %u", " 1"
    months = directives - {"Y", "y"}
    is_period = directives == {"Y"} or (len(directives) > len(months) and len(months) == 1 and months <= {"m", "b", "B", "h"})
    return ("", "") if is_period else None


def is_of_numbers(form: str) -> bool:
    """Whether the format is a number format."""
    return form not in EPOCHS and form != EPOCH_DAYS and not _DIRECTIVE.search(form)


def _since_1970(value: Any, *, form: str, unit: Decimal) -> str:
    text = f"{Decimal(str(value)):f}" if _is_number(value) else f"{value}".strip()
    if not re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?", text):
        raise _refused(value, form)
    microseconds = Decimal(text) * unit
    try:
        if microseconds % 1:
            raise _refused(value, form)
        return (_EPOCH + timedelta(microseconds=int(microseconds))).isoformat()
    except (ArithmeticError, OverflowError):
        raise _refused(value, form) from None


def _days_since_1970(value: Any) -> str:
    text = f"{Decimal(str(value)):f}" if _is_number(value) else f"{value}".strip()
    if not re.fullmatch(r"-?[0-9]+(?:\.0+)?", text):
        raise _refused(value, EPOCH_DAYS)
    try:
        return (_EPOCH.date() + timedelta(days=int(text.partition(".")[0]))).isoformat()
    except OverflowError:
        raise _refused(value, EPOCH_DAYS) from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _by_pattern(value: Any, *, form: str, first_day: tuple[str, str], has_time: bool, zone: timezone | None) -> Any:
    if _is_number(value) and value == value // 1:
        value = f"{int(value)}"
    if not isinstance(value, str):
        raise _refused(value, form)
    text = value.strip()
    try:
        # A time without a zone is interpreted as the contract defines.
        moment = datetime.strptime(text + first_day[1], form + first_day[0])  # noqa: DTZ007
        # Of digits without anything between them, 2024110 would pass for 10 January.
        is_so = _comparable(moment.strftime(form), form) == _comparable(text, form)
    except ValueError:
        is_so = False
    if not is_so:
        raise _refused(value, form)
    if zone is not None:
        moment = moment.replace(tzinfo=zone)
    return moment.isoformat() if has_time else moment.date().isoformat()


def _comparable(text: str, form: str) -> str:
    """Normalize a time text: leading and trailing zeros, blanks and zone notation do not matter."""
    if "%z" in form:
        text = re.sub(r"Z|[+-][0-9]{2}:?[0-9]{2}(?::?[0-9]{2})?", "", text)
    if "%f" in form:
        text = re.sub(r"(?<=[0-9])0+(?![0-9])", "", text)
    return " ".join(re.sub(r"(?<![0-9])0+(?=[0-9])", "", text).casefold().split())


def _by_example(value: Any, *, form: str, expression: re.Pattern[str]) -> Any:
    if not isinstance(value, str):
        return value
    match = expression.fullmatch(value.strip().replace("\u2212", "-"))  # a minus as word processors write it
    signs = [] if match is None else [match[name] for name in ("opened", "plus", "inner", "behind") if match[name]]
    if match is None or len(signs) > 1:
        raise _refused(value, form)
    whole = re.sub(r"[^0-9]", "", match["whole"])
    number = Decimal(f"{whole}.{match['fraction'] or '0'}") if match["fraction"] else Decimal(whole)
    if exponent := _MAGNITUDES[(match["magnitude"] or "").upper()]:
        number = number.scaleb(exponent)
    return f"{-number if signs and signs != ['+'] else number:f}"


def _number(example: re.Match[str]) -> re.Pattern[str]:
    """The regular expression of numbers written like ``example``; a negative number has a minus sign or parentheses."""
    group = {" ": _BLANKS, "'": _APOSTROPHES}.get(example["group"], re.escape(example["group"]))
    # Nobody groups a leading zero: 0.500 among numbers like 1.234,56 has decimals after its point.
    whole = rf"[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+|[0-9]+" if group else r"[0-9]+"
    whole += r"|[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}" if group == "," else ""  # 1,25,000 as in India
    fraction = rf"(?:{re.escape(example['point'])}(?P<fraction>[0-9]+))?" if example["point"] else "(?P<fraction>(?!))?"
    magnitude = "(?P<magnitude>[KMBkmb]?)" if example["magnitude"] else "(?P<magnitude>)"
    before, after = (f"(?:{re.escape(example[side].strip())})?" for side in ("before", "after"))
    begin, end = rf"(?P<opened>\()?(?P<plus>[+-])?{_BLANKS}*", r"(?P<behind>-)?(?(opened)\))"
    number = rf"(?P<whole>{whole}){fraction}{magnitude}"
    return re.compile(rf"{begin}{before}{_BLANKS}*(?P<inner>[+-])?{number}{_BLANKS}*{after}{end}")


def _refused(value: Any, form: str) -> NotWrittenSoError:
    return NotWrittenSoError(f"{str(value)[:60]} is not written as {form}")


#: The value of ``source.landing`` for a Kafka source.
KAFKA = "kafka"
#: The columns of a message, as (name, Spark type): its position in the topic, its Kafka timestamp, its key as text, and its
#: headers as a JSON list of pairs.
OF_A_MESSAGE = (
    ("kafka_topic", "string"),
    ("kafka_partition", "int"),
    ("kafka_offset", "bigint"),
    ("kafka_timestamp", "timestamp"),
    ("kafka_key", "string"),
    ("kafka_headers", "string"),
)
#: Options on which Bronze depends to ingest each message once; a contract cannot set them.
_OWN_OPTIONS = {
    "group.id": "the offsets are kept in Bronze",
    "enable.auto.commit": "the offsets are kept in Bronze",
    "enable.auto.offset.store": "the offsets are kept in Bronze",
    "auto.offset.reset": "an offset that is gone is a gap, which is reported",
    "enable.partition.eof": "the end of a range is known",
    "bootstrap.servers": "name the servers under 'servers'",
}
_SECRET_WORDS = ("password", "secret", "key.pem", "username", "oauthbearer.config")


class RegisteredValues(Strict):
    """The values of messages that name a registered schema: a zero byte, four bytes with the schema's id, and the body."""

    format: Literal["avro"] = Field(description="What the body is.")
    registry: str = Field(
        pattern="^https?://",
        description="The address of the schema registry; its credentials are in LAKEHOUSE_SCHEMA_REGISTRY_OPTIONS.",
    )

    @field_validator("registry")
    @classmethod
    def _without_credentials(cls, value: str) -> str:
        if "@" in value:
            msg = (
                "registry: credentials are secret and have no place in a contract; set "
                'LAKEHOUSE_SCHEMA_REGISTRY_OPTIONS={"basic.auth.user.info": "user:password"}'
            )
            raise ValueError(msg)
        return value.rstrip("/")


class TopicAddress(Strict):
    """A topic, and how its brokers are reached."""

    topic: str = Field(min_length=1)
    servers: str = Field(min_length=1, description="Addresses of brokers, as in 'broker1:9092,broker2:9092'.")
    options: dict[str, str | int | bool] = Field(
        default_factory=dict,
        description="Options of the client, as librdkafka names them; those that are secret are in LAKEHOUSE_KAFKA_OPTIONS.",
    )

    @field_validator("options")
    @classmethod
    def _left_to_the_contract(cls, value: dict[str, str | int | bool]) -> dict[str, str | int | bool]:
        for name in value:
            if name in _OWN_OPTIONS:
                msg = f"{name}: leave it out, because {_OWN_OPTIONS[name]}"
                raise ValueError(msg)
            if any(word in name for word in _SECRET_WORDS):
                msg = f'{name}: is secret and has no place in a contract; set LAKEHOUSE_KAFKA_OPTIONS={{"{name}": "..."}}'
                raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _plain_topic(self) -> Self:
        if set(self.topic) & set("/@,: *^"):
            msg = f"topic: {self.topic!r} is no name of a topic; name one topic, without a pattern"
            raise ValueError(msg)
        return self


class KafkaTopic(TopicAddress):
    """The topic of a source, and the rules by which its messages become records."""

    values: RegisteredValues | None = Field(
        None, description="The format of values that have a registered schema; default: the value is the text of a record."
    )
    tombstones: Literal["malformed", "delete"] = Field(
        "malformed",
        description="What a message without a value is: a malformed record, or a delete of the key that the message has.",
    )


DAY = "{arrival_date}"
MANIFEST_FORMATS = (".json", ".csv")


def _names_the_day(value: str) -> str:
    if value.count(DAY) != 1:
        msg = "must name the arrival day once, as in sales/{arrival_date}/*.csv.gz"
        raise ValueError(msg)
    if value.startswith("/") or ".." in value.split("/"):
        msg = "is a pattern below the landing folder: no leading slash, no '..'"
        raise ValueError(msg)
    return value


def _names_a_format(value: str) -> str:
    if not value.endswith(MANIFEST_FORMATS):
        msg = "must end in .json or .csv, which determines how it is read"
        raise ValueError(msg)
    return value


def _names_the_day_or_kafka(value: str) -> str:
    return value if value == KAFKA else _names_the_day(value)


DayPattern = Annotated[str, AfterValidator(_names_the_day)]
#: The values that ``source.landing`` may have.
Landing = Annotated[str, AfterValidator(_names_the_day_or_kafka)]


class CompleteWhen(Strict):
    """The file that marks an arrival day as complete; until it exists, the day's files are not ingested."""

    marker: DayPattern | None = Field(None, description="A file that exists once the day is complete: '{arrival_date}/_SUCCESS'.")
    manifest: Annotated[DayPattern, AfterValidator(_names_a_format)] | None = Field(
        None, description="JSON or CSV files that list the day's files, with their bytes, rows and sha256 where they are known."
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> CompleteWhen:
        if (self.marker is None) == (self.manifest is None):
            msg = "name a 'marker:' or a 'manifest:', one of the two"
            raise ValueError(msg)
        return self

    @property
    def pattern(self) -> str:
        """The name pattern of the marking files."""
        return self.marker or self.manifest or ""

    def takes_files_of(self, landing: str) -> bool:
        """Whether a data file of the pattern ``landing`` would be mistaken for a completion marker."""
        plain = landing.replace(DAY, "2024-01-31").replace("*", "file").replace("?", "x")
        return fnmatchcase(plain, self.pattern.replace(DAY, "2024-01-31"))


#: Spellings of "not a number" in pandas, Python, Spark, polars and DuckDB.
_NO_NUMBERS = (
    frozenset({"NaN", "nan", "NAN"}),
    frozenset({"Infinity", "infinity", "inf", "Inf", "INF"}),
    frozenset({"-Infinity", "-infinity", "-inf", "-Inf", "-INF"}),
)
_POLICIES_OF_A_STREAM = ("merge", "append")


class Source(Strict):
    """The location of arriving files or messages, and their format."""

    landing: Landing = Field(
        "arrival_date={arrival_date}*", description="The pattern of the names of files in landing; or kafka, for a topic."
    )
    kafka: KafkaTopic | None = Field(None, description="The topic, with 'landing: kafka'. See docs/streams.md.")
    complete_when: CompleteWhen | None = Field(
        None, description="What marks an arrival day as complete; default: each file is ingested once it is stable."
    )
    format: Literal["csv", "json", "parquet"] = "csv"
    envelope: Envelope | None = Field(
        None, description="The format of a change feed: it says what else 'changes' and 'order' say. See docs/change_feeds.md."
    )
    delimiter: str = Field(",", min_length=1, max_length=1)
    quote: str = Field('"', min_length=1, max_length=1)
    null_values: list[str] = Field(
        default_factory=lambda: [""],
        description="Words for 'no value', besides the blank; NaN and numbers also as numbers of JSON and Parquet.",
    )
    blank_is_null: bool = Field(True, description="Whether a blank means 'no value', too.")
    formats: dict[str, str] = Field(
        default_factory=dict,
        description="By column of the file how its values are written: a pattern of a time, a word for seconds since 1970, "
        "or the number 1234.56 as the sender writes it. See docs/contracts.md, Values.",
    )
    joined: dict[str, Annotated[list[str], Field(min_length=2)]] = Field(
        default_factory=dict, description="Columns that are made of others, joined by a blank, such as a time of date and clock."
    )
    columns: list[str] = Field(default_factory=list, description="The names of the columns of CSV files that have no header.")
    skip_lines: int = Field(0, ge=0, description="How many lines of a CSV file stand before its header, or its first record.")
    comment: str = Field("", description="What the lines of a CSV file begin with that are no records.")
    array: bool = Field(False, description="Whether a JSON file is one array of records; default: a record a line.")
    start_date: date = Field(date(2020, 1, 1), description="The first arrival day.")
    system: str | None = Field(None, description="The name of the source system; default: the dataset's name.")

    @property
    def nulls(self) -> frozenset[str]:
        """Every text that means 'no value'; all spellings of "not a number" are included if one is."""
        words = {*self.null_values, ""} if self.blank_is_null else set(self.null_values) - {""}
        for spellings in _NO_NUMBERS:
            if spellings & words:
                words |= spellings
        return frozenset(words)

    @property
    def word_for_null(self) -> str:
        """The text that means 'no value' in a file of the source."""
        return "" if self.blank_is_null else next(iter(self.null_values), "")

    @property
    def is_plain(self) -> bool:
        """Whether the columnar readers can read the files as they are."""
        return not (self.formats or self.joined or self.columns or self.skip_lines or self.comment or self.array)

    @field_validator("formats")
    @classmethod
    def _readable(cls, value: dict[str, str]) -> dict[str, str]:
        for form in value.values():
            reader(form)
        return value

    @model_validator(mode="after")
    def _separable(self) -> Source:
        if self.delimiter == self.quote or {self.delimiter, self.quote} & set("\r\n\0"):
            msg = "delimiter: must differ from the quote, and neither may be a line end"
            raise ValueError(msg)
        if self.comment[:1] in {self.delimiter, self.quote}:
            msg = f"comment: {self.comment!r} also begins records, which would be left out; use another prefix"
            raise ValueError(msg)
        if self.columns and len(set(self.columns)) < len(self.columns):
            msg = "columns: name each column once"
            raise ValueError(msg)
        if self.envelope == "debezium" and self.format != "json":
            msg = "envelope: debezium is read from JSON lines; set 'format: json'"
            raise ValueError(msg)
        if (self.landing == KAFKA) != (self.kafka is not None):
            msg = "kafka: names the topic of a source with 'landing: kafka'; give both or neither"
            raise ValueError(msg)
        if self.kafka and self.format != "json":
            msg = "format: messages are read as JSON; set 'format: json'"
            raise ValueError(msg)
        if self.kafka and self.complete_when:
            msg = "complete_when: a topic has no files that could mark a day as complete; leave the key out"
            raise ValueError(msg)
        if self.complete_when and self.complete_when.takes_files_of(self.landing):
            msg = "complete_when: its pattern matches the day's files themselves; name the file that marks the day as complete"
            raise ValueError(msg)
        return self


def mistakes(contract: SourceContract) -> Iterator[str]:
    """The conflicts between ``source`` and the rest of its contract, each as ``field: what to do``."""
    yield from _mistakes_of_formats(contract)
    if contract.source.kafka is None:
        if contract.alerts.stream_lag is not None:
            yield "alerts.stream_lag: only a source of 'landing: kafka' has such a lag; leave the key out"
        return
    policy = contract.materialization.reprocess_policy
    if policy not in _POLICIES_OF_A_STREAM:
        yield (
            f"materialization.reprocess_policy: under {policy} a delivery replaces others, and messages have no such deliveries; "
            f"use one of {', '.join(_POLICIES_OF_A_STREAM)}"
        )
    names = [field.name for field in contract.model.fields if field.name.startswith("kafka_")]
    if names:
        yield (
            f"model.fields: Bronze keeps the place of a message in columns that begin with kafka_: give {', '.join(names)} "
            "another name and set 'column:'"
        )
    if contract.source.kafka.tombstones == "delete":
        simple = contract.changes.op and len(contract.primary_key) == 1 and not contract.order.sequence
        if not simple or contract.source.envelope or contract.is_dimension:
            yield (
                "source.kafka.tombstones: such a message has its key and nothing else; 'delete' needs 'changes.op' and a primary "
                "key of one column, and neither 'order.sequence' nor an envelope nor a dimension"
            )


def _mistakes_of_formats(contract: SourceContract) -> Iterator[str]:
    """The conflicts between formats of columns and the fields that read these columns."""
    texts = {field.in_file for field in contract.model.fields if field.type == "string"}
    for name in ("formats", "joined"):
        unread = sorted(getattr(contract.source, name).keys() - contract.columns_meant)
        if unread:
            yield f"source.{name}: nothing reads a column {', '.join(unread)}; name one that a field or a clock reads"
    missing = [column for column in contract.columns_read if column not in contract.source.columns]
    if contract.source.columns and missing:
        yield f"source.columns: lacks {', '.join(missing)}, which a field or a clock reads"
    for column, form in contract.source.formats.items():
        if column in texts and is_of_numbers(form):
            yield f"source.formats.{column}: the field is text, which stays as it is written; give it a type of numbers"
