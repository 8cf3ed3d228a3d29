"""`make truth`: plans beside vLLM's own scheduler, integer by integer.

Run as `python -m tests.truth PYTHON [CELL…]`: a Python with vLLM, and names of cells.toml, none for all, whose counts
then become docs/validity-engine.csv.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from tests.support.paths import ROOT

HERE = Path(__file__).parent
KNOWN = tomllib.loads((HERE / "cells.toml").read_text())
SHIPPED = (ROOT / "replayer/arrangements/vllm.toml").read_text().split("[scheduler]")[0]
RULES = """[scheduler]
max_num_seqs = {max_num_seqs}
max_num_batched_tokens = {max_num_batched_tokens}
step_ms = {step_ms}
tokens_per_s = {tokens_per_s}
transfer_steps = {transfer_steps}
read_steps = {read_steps}
write_steps = {write_steps}
"""
# A block of 64 tokens of this model is 1/128 GiB.
PLAN = """plan {path} --engine {rules} --json --model llama3.1-8b --order engine --set headroom=1
    --users {users} --set pace={pace} --set workers={workers}
    --gpu-mem-gb {gpu_gib} --cpu-mem-gb {cpu_gib} --storage-capacity-gb {storage}"""
# Requests as the engine gets them. One that follows another comes its think time after that one's end.
REQUESTS = """
    WITH requests AS (
        SELECT request_id, any_value(user_id) AS of_user, min(time_ns) AS time_ns,
            arg_min(think_ns, op_id) AS think_ns, min(op_id) AS first_op,
            sum(tokens) FILTER (phase = 'prefill' AND op <> 'delete')::INT AS prompt, sum(new_tokens)::INT AS answer,
            list(key ORDER BY op_id) FILTER (
                tokens = 64 AND (phase = 'prefill' AND op <> 'delete' OR phase = 'decode' AND op = 'write')
            ) AS blocks,
            row_number() OVER (ORDER BY first_op) - 1 AS number,
            CASE '{pace}' WHEN 'closed' THEN of_user ELSE request_id END AS chain
        FROM '{path}' WHERE user_id < {users} GROUP BY request_id
    )
    SELECT prompt, answer, blocks, think_ns, lead(number) OVER chains AS following,
        CASE WHEN lag(number) OVER chains IS NOT NULL THEN NULL WHEN '{pace}' = 'asap' THEN 0 ELSE time_ns END AS due
    FROM requests WINDOW chains AS (PARTITION BY chain ORDER BY number) ORDER BY number
"""

# A block that several requests wait for is a hit of nvme for the first that loads it in a plan, and for the one that asked
# for it in vLLM: their split is shown, and only the sum of both tiers is judged.
JUDGED = "hits_gpu slower_hits stored_to_cpu nvme_writes nvme_reads preemptions engine_steps gpu_held".split()
SHOWN = (*JUDGED, "hits_nvme")
Row = dict[str, Any]


def read_output(command: list[object], said: str = "") -> Row:
    """Return the JSON that a command prints."""
    ended = subprocess.run([*map(str, command)], check=False, capture_output=True, text=True, input=said)
    if ended.returncode:
        sys.exit(f"{command} failed:\n{ended.stderr[-3000:]}")
    return Counter(json.loads(ended.stdout))  # a tier that is not there has no counts


def serve(cell: Row, python: str) -> Row:
    """Counts of vLLM."""
    requests = duckdb.connect().sql(REQUESTS.format(**cell)).pl().to_dicts()
    return read_output([python, "-P", HERE / "engine.py"], json.dumps(cell | {"requests": requests}))


def plan(cell: Row) -> Row:
    """Counts of the plan under the same rules."""
    Path(cell["rules"]).write_text(SHIPPED + RULES.format(**cell))
    found = read_output([sys.executable, "-P", "-m", "replayer", *PLAN.format(**cell).split()])
    copies, nvme = Counter(found["copies"]), found["hits_nvme"]
    return found | {
        "slower_hits": found["hits_cpu"] + nvme,
        "stored_to_cpu": copies["gpu>cpu"] + found["stores_cpu"] - nvme,  # a hit of nvme is stored into cpu, too
        "nvme_writes": copies["cpu>nvme"],
        "nvme_reads": copies["nvme>cpu"] + nvme,
    }


def compare(name: str, folder: str, python: str) -> Row:
    """Make the trace of a cell, serve and plan it; return and print its row of the table."""
    cell = KNOWN["defaults"] | KNOWN["cells"][name]
    files = {
        "recipe": f"{HERE / cell['trace']}.toml",
        "path": f"{folder}/{name}.parquet",
        "rules": f"{folder}/{name}.toml",
    }
    made = cell | files | {"gpu_gib": cell["gpu"] / 128, "cpu_gib": cell["cpu"] / 128}
    words = "-P -m tracegen generate {recipe} --seed {seed} -o {path}".format(**made).split()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    counts, planned = (
        {count: round(found[count], 6) for count in SHOWN} for found in (serve(made, python), plan(made))
    )
    differs = [f"{count} {planned[count]:,}" for count in JUDGED if planned[count] != counts[count]]
    row = {"cell": name} | cell | counts | {"planned": "; ".join(differs) or "equal"}
    print(name.ljust(20), *(f"{count:>13,}" for count in counts.values()), "", row["planned"], flush=True)
    return row


def main(python: str, *names: str) -> int:
    """Compare cells, two at a time; return the exit code."""
    wanted = names or list(KNOWN["cells"])
    print(f"{len(wanted)} cells; counts of vLLM, and those planned otherwise")
    print(" " * 20, *(f"{count:>13}" for count in SHOWN), flush=True)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(partial(compare, folder=folder, python=python), wanted))
    if not names:
        pl.DataFrame(rows).write_csv(ROOT / "docs" / "validity-engine.csv")
    wrong = [row["cell"] for row in rows if row["planned"] != "equal" and row["chance"] == "none"]
    print(f"The plan is not vLLM's in {', '.join(wrong)}." if wrong else "Every plan is vLLM's, chance aside.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
