"""The entities that a canary scores: chosen by a salted hash of their keys, so that an entity's assignment is stable.

A share contains every entity of a smaller share with the same salt: a growing canary keeps all its entities.
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
    """The role of a version in scoring."""

    CHAMPION = "champion"
    CHALLENGER = "challenger"


def in_canary(entities: pa.Array | pa.ChunkedArray, salt: str, share: Decimal) -> NDArray[np.bool_]:
    """Whether each entity belongs to the share that a canary scores.

    :param entities: keys as text, without NULL.
    :param salt: another text selects other entities.
    :param share: from 0 (none) to 1 (all).
    """
    if share >= 1:
        return np.ones(len(entities), bool)
    chosen: NDArray[np.bool_] = places(entities, salt) < np.uint64(int(share * 2**64))
    return chosen


def places(entities: pa.Array | pa.ChunkedArray, salt: str) -> NDArray[np.uint64]:
    """The position of each entity: numbers from 0 to 2**64 - 1, uniform over the entities."""
    key = hashlib.blake2b(salt.encode(), digest_size=8).hexdigest()  # the hash takes 16 characters
    keys = np.asarray(entities.to_numpy(zero_copy_only=False), dtype=object)
    # Categories would treat texts as equal that differ only after a NUL character.
    hashes: NDArray[np.uint64] = pd.util.hash_array(keys, hash_key=key, categorize=False)
    return hashes
