"""Amazon S3 and stores that speak its protocol, as the settings describe them: for Spark and for Arrow.

delta-rs uses ``storage_options`` unchanged. Spark (``spark.hadoop.fs.s3a``) and Arrow, which reads landing, have other names for
the same options; they are translated here, so that a deployment states them once. Options that are not set are taken from the
environment (``AWS_ENDPOINT_URL``, ...), as delta-rs does.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, S3Store
from pyarrow import fs

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore.store import ObjectStore, S3Config

    from lakehouse.settings import Settings

_S3A = "spark.hadoop.fs.s3a"


@dataclass(frozen=True)
class S3:
    """The connection to a store; options that are None are left to each library, which looks for a profile or the role of the
    machine.
    """

    endpoint: str | None
    region: str | None
    access_key: str | None
    secret_key: str | None
    token: str | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> S3:
        """The connection that the options of delta-rs and the environment describe."""
        given = {name.lower().removeprefix("aws_"): value for name, value in options.items()}

        def option(*names: str) -> str | None:
            stated = [given.get(name) for name in names]
            return next(filter(None, [*stated, *(os.environ.get(f"AWS_{name.upper()}") for name in names)]), None)

        return cls(
            option("endpoint_url", "endpoint"),
            option("region", "default_region"),
            option("access_key_id"),
            option("secret_access_key"),
            option("session_token", "token"),
        )

    def spark_options(self) -> dict[str, str]:
        """The options of a Spark session; addresses may begin with ``s3://`` as well as with ``s3a://``."""
        options = {
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            f"{_S3A}.endpoint": self.endpoint,
            f"{_S3A}.endpoint.region": self.region,
            f"{_S3A}.path.style.access": "true" if self.endpoint else None,
            f"{_S3A}.access.key": self.access_key,
            f"{_S3A}.secret.key": self.secret_key,
            f"{_S3A}.session.token": self.token,
        }
        return {name: value for name, value in options.items() if value is not None}

    def file_system(self) -> fs.S3FileSystem:
        """The store as Arrow reads it."""
        options = {
            "endpoint_override": self.endpoint,
            "region": self.region,
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "session_token": self.token,
        }
        return fs.S3FileSystem(**{name: value for name, value in options.items() if value is not None})

    def conditional(self, folder: str) -> S3Store:
        """A folder of the store as obstore writes it, which can make a condition; Arrow cannot."""
        bucket, _, prefix = folder.partition("://")[2].partition("/")
        config = {
            "endpoint": self.endpoint,
            "region": self.region,
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "session_token": self.token,
        }
        given = cast("S3Config", {name: value for name, value in config.items() if value is not None})
        return S3Store(
            bucket, prefix=prefix, config=given, client_options={"allow_http": f"{self.endpoint}".startswith("http://")}
        )


def remove_folder(options: Mapping[str, str], address: str) -> None:
    """Remove a folder with its content, on a local disk or in a store; without effect if it does not exist."""
    system, path = _located(options, address)
    if system.get_file_info(path).type is fs.FileType.Directory:
        system.delete_dir(path)


def write_text(options: Mapping[str, str], address: str, text: str) -> None:
    """Write a file, on a local disk including its parent folders, or in a store; an existing file is replaced."""
    system, path = _located(options, address)
    if isinstance(system, fs.LocalFileSystem):
        system.create_dir(path.rpartition("/")[0], recursive=True)
    with system.open_output_stream(path) as stream:
        stream.write(text.encode())


def write_new(options: Mapping[str, str], address: str, content: bytes) -> bool:
    """Write a file as a whole unless there is one of this name, as delta-rs writes the entries of a log: of two that do so at
    once, one succeeds.

    :returns: whether the file was written. A request that is repeated, because its answer was lost, finds its own file.
    :raises LakehouseError: for a store of another kind, see :func:`can_write_new`.
    :raises OSError: if the store does not answer, or refuses it.
    """
    folder, _, name = address.rpartition("/")
    if is_s3(address):
        store: ObjectStore = S3.of(options).conditional(folder)
    elif "://" not in address:
        store = LocalStore(folder)
    else:  # see ``can_write_new``
        msg = f"{address}: in such a store no file can be written on the condition that there is none"
        raise LakehouseError(msg)
    try:
        with suppress(AlreadyExistsError):
            obstore.put(store, name, content, mode="create")
            return True
        return bytes(obstore.get(store, name).bytes()) == content
    except BaseError as problem:
        msg = f"{address}: {problem}"
        raise OSError(msg) from None


def can_write_new(address: str) -> bool:
    """Whether :func:`write_new` knows the kind of store."""
    return is_s3(address) or "://" not in address


def _located(options: Mapping[str, str], address: str) -> tuple[fs.FileSystem, str]:
    """The file system of an address, and the path in it."""
    if is_s3(address):
        return S3.of(options).file_system(), address.partition("://")[2]
    if "://" in address:
        located: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(address)
        return located
    return fs.LocalFileSystem(), address


def is_s3(address: str) -> bool:
    """Whether an address is in such a store."""
    return address.startswith(("s3://", "s3a://"))


#: The options of delta-rs that are understood, without "aws_".
_OPTIONS = {
    *("endpoint", "endpoint_url", "region", "default_region", "access_key_id", "secret_access_key", "session_token", "token"),
    *("allow_http", "conditional_put"),
}
#: With these, given or in the environment, delta-rs writes entries of logs in another way.
_OTHER_WRITES = ("s3_locking_provider", "s3_allow_unsafe_rename", "copy_if_not_exists")


def has_conditional_writes(address: str, options: Mapping[str, str]) -> bool:
    """Whether delta-rs writes the entries of logs in a store as :func:`write_new` does, and all options are understood here."""
    given = {name.lower().removeprefix("aws_"): value for name, value in options.items()}
    environment = {name.lower().removeprefix("aws_"): value for name, value in os.environ.items() if name.startswith("AWS_")}
    both = {**environment, **given}
    is_usual = both.get("conditional_put", "etag") == "etag" and not any(both.get(name) for name in _OTHER_WRITES)
    return is_s3(address) and is_usual and given.keys() <= _OPTIONS


def is_used(settings: Settings) -> bool:
    """Whether tables or landing files are in such a store."""
    return is_s3(settings.root) or is_s3(settings.landing or "")
