"""The elements of an array are those that JSON has, wherever the file is cut into chunks."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.bronze import line_limits
from lakehouse.bronze.line_limits import BrokenArrayError, elements

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\[]{},\n é'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a",['), inner, max_size=3),
    max_leaves=8,
)


@given(
    array=st.lists(VALUES, max_size=5), indent=st.sampled_from([None, 0, 2]), ascii_only=st.booleans(), size=st.integers(1, 40)
)
def test_the_elements_are_those_of_the_array(array: list[Any], indent: int | None, ascii_only: bool, size: int) -> None:
    text = json.dumps(array, indent=indent, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_limits, "_CHUNK", size)
        read = list(elements(io.BytesIO(text)))
    assert [json.loads(element) for _, element in read] == array
    numbers, lines = [number for number, _ in read], text.split(b"\n")
    assert all(low < high for low, high in pairwise(numbers)), "a number identifies an element"
    if indent is None:
        assert numbers == [*range(1, len(array) + 1)]
    else:
        assert all(element.split(b"\n")[0] in lines[number - 1] for number, element in read)


@pytest.mark.parametrize("text", [b"", b"{}", b"[1", b"[1]]", b"[1] 2", b"1, [2]", b'["a]'])
def test_what_is_no_whole_array_is_refused(text: bytes) -> None:
    with pytest.raises(BrokenArrayError, match=r"^line 1: .*; have the file sent again$"):
        list(elements(io.BytesIO(text)))
