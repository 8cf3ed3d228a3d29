"""Arbitrary bytes: read or refused."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tracegen.readers.reading import HEADERS, read
from tracegen.errors import InputError
from tracegen.formats import IMPORTS

NAMES = ["timestamp", "delay", "input_length", "output_length", "hash_ids", "session_id", "chat_id", "parent_chat_id"]
NAMES += ["block_size", "block_tokens", "play_id", "hash_id_scope", "requests", "t", "type", "in", "out", "id"]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
plausible = st.integers(0, 600) | st.lists(st.integers(0, 5), max_size=4) | st.sampled_from(["local", "subagent", "1"])
values = st.recursive(
    plausible | scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=12,
)
documents = st.dictionaries(st.sampled_from(NAMES), values, max_size=10).map(lambda row: json.dumps(row).encode())
cells = st.sampled_from(["1", "0", "2023-11-16 18:15:46", "Write", "Prefill", "", '"', "1e9"]) | st.text(max_size=6)
lines = st.lists(cells, max_size=7).map(lambda row: ",".join(row).encode(errors="surrogatepass"))
contents = st.binary(max_size=300) | st.lists(documents | lines | st.binary(max_size=40), max_size=6).map(b"\n".join)


@pytest.mark.parametrize("format_", IMPORTS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=contents, suffix=st.sampled_from(["", "", ".gz", ".zst"]), skip_bad=st.booleans())
def test_anything_is_read_or_refused(file: Path, format_: str, content: bytes, suffix: str, skip_bad: bool) -> None:
    head = HEADERS[format_].encode() + b"\n" if format_ in HEADERS and not suffix else b""
    try:
        found = read(format_, file.with_suffix(suffix), head + content, skip_bad=skip_bad)
    except InputError as caught:
        found, error = [], str(caught)
        assert error.startswith(str(file))
        assert not (skip_bad and "skip_bad" in error)
    for call in found:
        assert 0 <= call.time_ns < 2**62
        assert 0 <= (call.delay_ns or 0) < 2**62
        assert call.input_tokens >= 0
        assert call.output_tokens >= 0
        assert call.tokens is None or len(call.tokens) == len(call.blocks or [])
        hash((call.session, call.user, call.scope, *(call.blocks or [])))
