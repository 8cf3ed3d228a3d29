"""The bytes of two trials differ."""

import shutil
from pathlib import Path
from typing import Any

from tests.replayer.places.replays import UNIT, replayed
from tests.support.run_json import run_json
from tracegen.schema import Trace


def test_two_trials_share_no_block_on_the_drive(trace: Trace, tmp_path: Path) -> None:
    def blocks(run: str, **more: Any) -> tuple[str, set[bytes]]:
        info = replayed(trace, tmp_path, run=run, keep_cache=True, precondition=2 / 1024, **more)
        (folder,) = (tmp_path / "cache").iterdir()
        whole = [file.read_bytes() for file in folder.glob("*.kv")]
        shutil.rmtree(folder)
        return info["payload_nonce"], {one[at : at + 4096] for one in whole for at in range(0, len(one), 4096)}

    first, second, third = blocks("a"), blocks("b"), blocks("c", nonce=7)
    assert len(first[1]) == len(second[1]) == 36 * UNIT // 4096
    assert not first[1] & second[1]
    assert first[0] != second[0]
    assert third == blocks("d", nonce=7), "an injected nonce makes the same bytes"
    assert third[0] == f"{7:016x}" == run_json(tmp_path / "c")["payload_nonce"]
