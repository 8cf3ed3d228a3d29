"""Random recipes, and columns of a batch as rows."""

from typing import Any

from hypothesis import strategies as st

from tracegen.recipes.recipe import Common, Mix, Persona, Prefix, Rag, Recipe
from tracegen.schema import ENUMS, Columns


def rows(batch: Columns, *names: str) -> list[tuple[Any, ...]]:
    columns = [[ENUMS[name][code] for code in batch[name]] if name in ENUMS else batch[name].tolist() for name in names]
    return list(zip(*columns, strict=True))


person = st.builds(
    Persona,
    context=st.sampled_from([(1, 1), (5, 90)]),
    generation=st.sampled_from([(1, 1), (0, 70)]),
    think_s=st.sampled_from([(0.5, 0.5), (0.1, 1)]),
    continues=st.sampled_from([0, 0.6]),
    max_turns=st.integers(1, 6),
    question=st.just((1, 9)),
)
recipes = st.builds(
    Recipe,
    seed=st.integers(0, 2**64 - 1),
    users=st.integers(1, 9),
    session_rate=st.sampled_from([0, 0.5, 20]),
    think_s=st.sampled_from([(0, 0), (0, 1), (0.5, 0.5)]),
    context_growth=st.booleans(),
    block_tokens=st.sampled_from([0, 1, 8, 64]),
    save_decode=st.booleans(),
    decode_reads=st.sampled_from([None, True, False]),
    decode_batch=st.integers(1, 40),
    decode_token_ms=st.sampled_from([0, 0.5, 30]),
    decode_max_context=st.sampled_from([0, 30]),
    duration_s=st.sampled_from([2, 9]),
    requests=st.sampled_from([0, 7, 60]),
    prefix=st.builds(
        Prefix,
        share=st.sampled_from([0, 0.5, 1]),
        tokens=st.just((10, 20)),
        products=st.integers(0, 2),
        product_tokens=st.just(7),
        tenants=st.integers(0, 2),
        tenant_tokens=st.just(3),
    ),
    common=st.builds(Common, share=st.sampled_from([0, 0.5]), tokens=st.just((4, 70))),
    rag=st.builds(
        Rag,
        share=st.sampled_from([0, 0.4]),
        documents=st.integers(1, 5),
        document_tokens=st.just((3, 60)),
        chunk_tokens=st.just(16),
        top_k=st.integers(1, 6),
        documents_by=st.sampled_from(["zipf", "uniform"]),
        chunks_by=st.sampled_from(["zipf", "uniform"]),
        ingest_s=st.sampled_from([0, 3]),
        users=person,
    ),
    personas=st.fixed_dictionaries({"one": person, "two": person}),
    mix=st.sampled_from([Mix(1, 0, 0), Mix(0, 1, 0), Mix(0, 0, 1), Mix(2, 2, 1)]),
)
