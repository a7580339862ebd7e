"""A folder of the deployment that holds a reading until it is put into force or discarded."""

from __future__ import annotations

import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyarrow import fs

from lakehouse import object_store
from lakehouse.object_store import S3

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.settings import Settings


@contextmanager
def temporary(settings: Settings, source: str) -> Iterator[Settings]:
    """Settings whose root is a new folder below that of the deployment; the folder is deleted when the block ends.

    The folder of a process that was killed remains, without effect.
    """
    root = f"{settings.root}/staging/{source}-{uuid.uuid4().hex[:8]}"
    try:
        yield settings.model_copy(update={"root": root})
    finally:
        with suppress(FileNotFoundError):
            _delete(settings, root)


def _delete(settings: Settings, root: str) -> None:
    if object_store.is_s3(root):
        S3.of(settings).file_system().delete_dir(root.partition("://")[2])
    elif "://" in root:
        system, path = fs.FileSystem.from_uri(root)
        system.delete_dir(path)
    else:
        fs.LocalFileSystem().delete_dir(root)
