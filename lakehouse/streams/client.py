"""Reads a topic through librdkafka: the brokers' description of it, and its messages from given offsets on. Writes messages.

No other module uses Kafka's client. Offsets are kept in Bronze, never with the brokers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse.errors import LakehouseError
from lakehouse.streams.reading_plan import TopicState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka import Message
    from typing_extensions import Self

    from lakehouse.contracts.inputs import KafkaTopic, TopicAddress
    from lakehouse.lake import Lake

#: The timeout, in seconds, of requests to a broker about the topic.
_ANSWER_SECONDS = 10.0
#: The greatest number of messages per call of the client, and how long to wait for the first of them.
_AT_ONCE, _WAIT_SECONDS = 10_000, 0.25
#: How long brokers may take to accept messages.
_WRITE_SECONDS = 10.0
#: Bytes of messages that are held before they are committed.
_HELD_BYTES = 2**27
_GROUP = "lakehouse"


class StreamProblem(LakehouseError):  # noqa: N818 (shown to people)
    """A topic that cannot be read. The message says why and what to do."""

    passes_by_itself = True


class OffsetGoneError(StreamProblem):
    """The brokers no longer have the offset to be read next: it may have been deleted since the state of the topic was read."""


@dataclass
class MessageColumns:
    """Messages of a partition, by offset. ``end`` is the offset after the last one read, also where no message was.

    ``milliseconds`` are the timestamps since 1970, None for a message without one. ``problems`` are the reasons why values could
    not be decoded, by their positions; such a value is text that represents the bytes of the message.
    """

    end: int
    offsets: list[int] = field(default_factory=list)
    milliseconds: list[int | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[list[tuple[str, bytes | None]] | None] = field(default_factory=list)
    problems: dict[int, str] = field(default_factory=dict)

    def add(self, messages: list[Message]) -> None:
        """Add messages that follow."""
        self.offsets += [message.offset() for message in messages]
        self.milliseconds += [moment if kind else None for kind, moment in (message.timestamp() for message in messages)]
        self.keys += [message.key() for message in messages]
        self.values += [message.value() for message in messages]
        self.headers += [message.headers() for message in messages]
        self.end = self.offsets[-1] + 1


class TopicReader:
    """A topic and its messages; the caller must close it."""

    def __init__(self, lake: Lake, kafka: KafkaTopic, answer_seconds: float | None = None) -> None:
        """A reader of a topic.

        :param answer_seconds: how long a broker may take to answer a question about the topic; by default 10 seconds.
        :raises StreamProblem: if Kafka's client is not installed, or does not support an option.
        """
        try:
            import confluent_kafka  # noqa: PLC0415 (sources of files do without it)
            from confluent_kafka import admin  # noqa: PLC0415
        except ImportError:
            msg = "Kafka's client is not installed: pip install 'lakehouse[kafka]'"
            raise StreamProblem(msg) from None
        self._answer_seconds = _ANSWER_SECONDS if answer_seconds is None else answer_seconds
        self._kafka, self._admin_module, self._topic = confluent_kafka, admin, kafka.topic
        options: dict[str, Any] = {
            "bootstrap.servers": kafka.servers,
            "log_level": 2,
            **kafka.options,
            **lake.settings.kafka_options,
        }
        self._servers = options["bootstrap.servers"]
        reading = {
            "isolation.level": "read_committed",
            **options,
            "group.id": _GROUP,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
        self._committed = reading["isolation.level"] == "read_committed"
        try:
            self._consumer = confluent_kafka.Consumer(reading)
            self._admin = admin.AdminClient({name: value for name, value in options.items() if name != "isolation.level"})
        except confluent_kafka.KafkaException as error:
            msg = f"source.kafka.options: {_words(error)}; docs/streams.md says which options a contract may set"
            raise StreamProblem(msg) from None
        self._positions: dict[int, int] = {}

    def close(self) -> None:
        """End the connections."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def state(self) -> TopicState:
        """The present state of the topic.

        :raises StreamProblem: if the brokers do not answer, or have no such topic.
        """
        kafka, admin = self._kafka, self._admin_module
        try:
            cluster_id = self._admin.list_topics(self._topic, timeout=self._answer_seconds).cluster_id
            wanted = kafka.TopicCollection([self._topic])
            described = self._admin.describe_topics(wanted, request_timeout=self._answer_seconds)[self._topic].result()
            partitions = [kafka.TopicPartition(self._topic, partition.id) for partition in described.partitions]
            level = kafka.IsolationLevel.READ_COMMITTED if self._committed else kafka.IsolationLevel.READ_UNCOMMITTED
            first = self._offsets(dict.fromkeys(partitions, admin.OffsetSpec.earliest()), level)
            end = self._offsets(dict.fromkeys(partitions, admin.OffsetSpec.latest()), level)
        except kafka.KafkaException as error:
            raise self._problem(error) from None
        topic_id = f"{described.topic_id}".replace("/", "_").replace("+", "-")
        offsets = {partition: (first[partition], end[partition]) for partition in end}
        return TopicState(cluster_id, self._topic, topic_id, offsets)

    def is_compacted(self) -> bool:
        """Whether Kafka removes older messages of a key from the topic.

        :raises StreamProblem: as :meth:`state`.
        """
        resource = self._admin_module.ConfigResource(self._admin_module.ResourceType.TOPIC, self._topic)
        try:
            config = self._admin.describe_configs([resource], request_timeout=self._answer_seconds)[resource].result()
        except self._kafka.KafkaException as error:
            raise self._problem(error) from None
        return "compact" in config["cleanup.policy"].value

    def fetch(
        self,
        begin: Mapping[int, int],
        end: Mapping[int, int] | None,
        max_messages: int,
        seconds: float,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> dict[int, MessageColumns]:
        """Messages of each partition from an offset on.

        :param end: where reading may stop; by default it continues until ``seconds`` have passed.
        :param is_stopped: whether reading should end early.
        :raises OffsetGoneError: when an offset has been deleted since :meth:`state`.
        :raises StreamProblem: when the topic cannot be read.
        """
        if self._positions != begin:
            self._consumer.assign([self._kafka.TopicPartition(self._topic, *place) for place in begin.items()])
            self._positions = dict(begin)
        read = {partition: MessageColumns(offset) for partition, offset in begin.items()}
        count = held = 0
        until = time.monotonic() + seconds
        while count < max_messages and held < _HELD_BYTES and not is_stopped():
            if end is not None and all(self._positions[partition] >= end[partition] for partition in begin):
                break
            left = until - time.monotonic()
            if left <= 0:
                break
            messages = self._consumer.consume(min(_AT_ONCE, max_messages - count), min(left, _WAIT_SECONDS))
            by_partition: dict[int, list[Message]] = {}
            for message in messages:
                if message.error() is not None:
                    self._pass_end(message, read)
                else:
                    by_partition.setdefault(message.partition(), []).append(message)
            for partition, some in by_partition.items():
                read[partition].add(some)
                self._positions[partition] = read[partition].end
                count += len(some)
                held += sum(map(len, some))
        return read

    def _pass_end(self, message: Message, read: dict[int, MessageColumns]) -> None:
        """Handle the report that a partition has no further message: its last offsets may be markers of transactions."""
        error, partition = message.error(), message.partition()
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001 (the client names it so)
            read[partition].end = self._positions[partition] = max(read[partition].end, message.offset())
            return
        self._positions = {}
        if error.code() in {self._kafka.KafkaError._AUTO_OFFSET_RESET, self._kafka.KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
            msg = f"partition {partition} of {self._topic}: the next offset cannot be read ({error.str()}); run it again"
            raise OffsetGoneError(msg)
        raise self._problem(self._kafka.KafkaException(error))

    def _offsets(self, wanted: Mapping[Any, Any], level: Any) -> dict[int, int]:
        futures = self._admin.list_offsets(dict(wanted), isolation_level=level, request_timeout=self._answer_seconds)
        return {place.partition: future.result().offset for place, future in futures.items()}

    def _problem(self, error: Exception) -> StreamProblem:
        """:param error: a KafkaException."""
        code, reason = error.args[0].code(), _words(error)
        if code in {self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART, self._kafka.KafkaError._UNKNOWN_TOPIC}:  # noqa: SLF001
            return StreamProblem(
                f"the brokers at {self._servers} have no topic {self._topic}: create it, or correct source.kafka.topic"
            )
        if code in {self._kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, self._kafka.KafkaError.CLUSTER_AUTHORIZATION_FAILED}:
            return StreamProblem(f"the brokers at {self._servers} do not let this user read {self._topic}: {reason}")
        return StreamProblem(
            f"the brokers at {self._servers} cannot be read ({reason}): check source.kafka.servers, the network, and "
            "LAKEHOUSE_KAFKA_OPTIONS"
        )


class TopicWriter:
    """Sends messages to a topic; each is written when :meth:`write` returns."""

    def __init__(self, lake: Lake, address: TopicAddress, key: str) -> None:
        """A writer for a topic.

        :param key: the contract key of the address, for messages to people.
        :raises StreamProblem: if Kafka's client is not installed, or does not support an option.
        """
        try:
            import confluent_kafka  # noqa: PLC0415 (most deployments do without it)
        except ImportError:
            msg = "Kafka's client is not installed: pip install 'lakehouse[kafka]'"
            raise StreamProblem(msg) from None
        self._topic, self._key, self._seconds = address.topic, key, _WRITE_SECONDS
        given: dict[str, Any] = {
            "bootstrap.servers": address.servers,
            "log_level": 2,
            **address.options,
            **lake.settings.kafka_options,
        }
        self._servers = given["bootstrap.servers"]
        of_consumers = {"isolation.level"}
        options = {name: value for name, value in given.items() if name not in of_consumers}
        own = {"enable.idempotence": True, "delivery.timeout.ms": int(self._seconds * 1000)}
        try:
            self._producer = confluent_kafka.Producer({**options, **own})
        except confluent_kafka.KafkaException as error:
            msg = f"{key}.options: {_words(error)}; docs/streams.md says which options a contract may set"
            raise StreamProblem(msg) from None

    def write(self, messages: Iterable[tuple[str | None, str, bytes]]) -> None:
        """Send messages, each as key, id and value; the id is the header ``message_id``.

        :raises StreamProblem: if the brokers have not accepted all of them. Some may have been written.
        """
        failed: list[Any] = []
        until = time.monotonic() + self._seconds

        def written(error: Any, _message: Any) -> None:
            if error is not None:
                failed.append(error)

        for key, message_id, value in messages:
            headers = [("message_id", message_id.encode())]
            while not failed:
                try:
                    self._producer.produce(self._topic, value, key, headers=headers, on_delivery=written)
                    break
                except BufferError:
                    if time.monotonic() > until:
                        break
                    self._producer.poll(_WAIT_SECONDS)
            self._producer.poll(0)
        left = self._producer.flush(max(until - time.monotonic(), _WAIT_SECONDS))
        if failed or left:
            self._producer.purge()
            why = failed[0].str() if failed else "they did not answer in time"
            msg = (
                f"the brokers at {self._servers} do not take messages for {self._topic} ({why}): check {self._key}, the network, "
                "and LAKEHOUSE_KAFKA_OPTIONS; does the topic exist?"
            )
            raise StreamProblem(msg)


def _words(error: Exception) -> str:
    reason = error.args[0]
    return str(reason.str()) if hasattr(reason, "str") else str(reason)
