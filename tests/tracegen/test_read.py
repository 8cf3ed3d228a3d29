"""The public way to open a trace: `tracegen.read`."""

import subprocess
import sys

import polars as pl

import tracegen
from tests.support import traces
from tracegen.schema import DTYPES, ENUMS, Trace


def test_the_frame_of_a_trace_holds_the_ops_of_its_batches(demo: Trace) -> None:
    trace = tracegen.read(demo.path)
    frame = trace.frame().collect()
    ops = traces.joined(list(trace.batches()))
    assert frame.columns == list(DTYPES)
    assert len(frame) == trace.ops == trace.metadata.counts["ops"]
    for name in DTYPES:
        column = frame[name]
        assert (column.to_physical().to_numpy() == ops[name]).all(), name
        assert name not in ENUMS or column.dtype == pl.Enum(ENUMS[name])


def test_importing_the_package_imports_nothing_slow() -> None:
    script = "import sys, tracegen.console.interrupts; print(*{'numpy', 'pyarrow', 'polars', 'click'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
