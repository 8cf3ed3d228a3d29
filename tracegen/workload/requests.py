"""Requests on their way to ops: what a recipe's schedule and another lab's trace both become."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import Ints


@dataclass
class Requests:
    """Some requests in order of (time, user, request); arrays are of shape (requests,) unless said.

    Attributes:
        user: dense ids, in the order by which requests of one time are sorted.
        session: dense ids, in order of first appearance.
        turn: from 1.
        generated: tokens.
        decodes: whether decoding reads the request's own objects back.
        is_decode: whether what it touches, it touches in decoding: an I/O of a log that knows no requests.
        touches: number of objects that prefill touches; of them the last `own` are the request's own.
        saves: number of objects stored after decoding; they follow the touches in the arrays below.
        object, source, step, tokens: of each object, request by request, shape (sum of touches and saves,).
        live: no later request touches an unshared object below this number.
    """

    time_ns: Ints
    think_ns: Ints
    user: Ints
    session: Ints
    turn: Ints
    qos: Ints
    generated: Ints
    decodes: NDArray[np.bool_]
    is_decode: NDArray[np.bool_]
    touches: Ints
    own: Ints
    saves: Ints
    object: Ints
    source: NDArray[np.uint8]
    step: Ints
    tokens: Ints
    live: int = 0

    def __len__(self) -> int:
        return len(self.time_ns)
