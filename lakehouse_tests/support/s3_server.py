"""A store that speaks the protocol of Amazon S3, with a bucket: moto's server, a process of its own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow import fs
from tenacity import retry, stop_after_delay, wait_fixed

from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUCKET = "lake"


@dataclass(frozen=True)
class Store:
    """The server; ``options`` are those of delta-rs, as the settings take them."""

    endpoint: str

    @property
    def options(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def files(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            endpoint_override=self.endpoint,
            access_key="tester",
            secret_key="secret",
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def put(self, name: str, content: bytes) -> None:
        with self.files().open_output_stream(f"{BUCKET}/{name}") as stream:
            stream.write(content)


@contextmanager
def s3_server(folder: Path) -> Iterator[Store]:
    """The server with an empty bucket, until the block ends."""
    port = free_port()
    store = Store(f"http://127.0.0.1:{port}")
    with (folder / "s3.log").open("wb") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", f"{port}"]
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _created(store)
            yield store
        finally:
            server.terminate()
            server.wait()


@retry(stop=stop_after_delay(60), wait=wait_fixed(0.5), reraise=True)
def _created(store: Store) -> None:
    store.files().create_dir(BUCKET)
