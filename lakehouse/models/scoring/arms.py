"""Which entities a canary scores: by a salted hash of their keys, so that an entity stays where it is from day to day.

A share contains every entity of a smaller share with the same salt: a canary that grows takes nobody back.
"""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from decimal import Decimal

    import pyarrow as pa
    from numpy.typing import NDArray


class Arm(str, Enum):
    """The part that a version has when it scores."""

    CHAMPION = "champion"
    CHALLENGER = "challenger"


def in_canary(entities: pa.Array | pa.ChunkedArray, salt: str, share: Decimal) -> NDArray[np.bool_]:
    """Whether each entity is among the share that a canary scores.

    :param entities: keys as text, without NULL.
    :param salt: another text selects other entities.
    :param share: from 0 (none) to 1 (all).
    """
    if share >= 1:
        return np.ones(len(entities), bool)
    chosen: NDArray[np.bool_] = places(entities, salt) < np.uint64(int(share * 2**64))
    return chosen


def places(entities: pa.Array | pa.ChunkedArray, salt: str) -> NDArray[np.uint64]:
    """Where each entity stands among all: numbers from 0 to 2**64 - 1, even over the entities."""
    key = hashlib.blake2b(salt.encode(), digest_size=8).hexdigest()  # the hash takes 16 characters
    keys = np.asarray(entities.to_numpy(zero_copy_only=False), dtype=object)
    # Categories would take texts for equal that differ behind a NUL character.
    hashes: NDArray[np.uint64] = pd.util.hash_array(keys, hash_key=key, categorize=False)
    return hashes
