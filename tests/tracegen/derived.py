"""Derived traces, written and read."""

from pathlib import Path

from tests.support import traces
from tracegen.derive.derivation import Derivation
from tracegen.recipes.recipe import Mix, Rag, Recipe
from tracegen.schema import Columns, Trace
from tracegen.trace.writing import TraceWriter

RECIPE = Recipe(users=9, requests=300, mix=Mix(personas=2, rag=1), rag=Rag(share=0.3, documents=7))


def write_derivation(path: Path, derivation: Derivation) -> Trace:
    with TraceWriter(path, derivation.metadata, force=True) as writer:
        for batch in derivation.batches:
            writer.write(batch)
    trace = Trace(path)
    assert [str(problem) for problem in trace.violations().problems] == []
    return trace


def read_ops(trace: Trace) -> Columns:
    return traces.joined(list(trace.batches()))
