"""The contract's section ``source.kafka``: a topic whose messages are the records of a source.

Reading the messages belongs in ``lakehouse.streams``. Passwords and keys are settings, not part of a contract.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from lakehouse.contracts.base import Strict

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


class KafkaTopic(Strict):
    """The topic of a source, and the rules by which its messages become records."""

    topic: str = Field(min_length=1)
    servers: str = Field(min_length=1, description="Addresses of brokers, as in 'broker1:9092,broker2:9092'.")
    options: dict[str, str | int | bool] = Field(
        default_factory=dict,
        description="Options of the consumer, as librdkafka names them; those that are secret are in LAKEHOUSE_KAFKA_OPTIONS.",
    )
    values: RegisteredValues | None = Field(
        None, description="The format of values that have a registered schema; default: the value is the text of a record."
    )
    tombstones: Literal["malformed", "delete"] = Field(
        "malformed",
        description="What a message without a value is: a malformed record, or a delete of the key that the message has.",
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
    def _plain_topic(self) -> KafkaTopic:
        if set(self.topic) & set("/@,: *^"):
            msg = f"topic: {self.topic!r} is no name of a topic; name one topic, without a pattern"
            raise ValueError(msg)
        return self
