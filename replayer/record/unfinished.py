"""The requests that a run left unfinished, as run.json lists them."""

import msgspec

from replayer.record.number_types import Count


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """The requests that were due before the cut and are not done: a value each in every column.

    `in_prefill`: 1 if ops of its prefill are not done, else 0.
    """

    request_id: tuple[Count, ...] = ()
    qos: tuple[Count, ...] = ()
    due_ns: tuple[Count, ...] = ()
    in_prefill: tuple[Count, ...] = ()

    def __post_init__(self) -> None:
        columns = (self.request_id, self.qos, self.due_ns, self.in_prefill)
        if len({len(column) for column in columns}) > 1:
            raise ValueError("unfinished has columns of unequal lengths")
