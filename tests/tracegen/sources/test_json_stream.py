"""Streaming JSON: entries are read whole, wherever the chunks of text end."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tracegen.sources.json_stream import read_entries


@given(st.lists(st.text(max_size=30), min_size=1, max_size=8), st.integers(1, 64), st.booleans())
def test_chunks_of_text_may_end_anywhere(values: list[str], chunk: int, ascii_only: bool) -> None:
    text = json.dumps([{"v": value} for value in values], ensure_ascii=ascii_only)
    chunks = (text[i : i + chunk] for i in range(0, len(text), chunk))
    entries = read_entries(Path("x"), chunks)
    assert [entry["v"] for entry in entries] == values
