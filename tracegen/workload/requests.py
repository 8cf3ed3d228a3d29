"""Requests on their way to ops: what a recipe's schedule and another lab's trace both become."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import Ints


@dataclass(frozen=True)
class Requests:
    """Some requests in order of (time, user, request); arrays have shape (requests,) unless said.

    Attributes:
        time_ns: start.
        think_ns: pause of the user before it.
        user: dense ids; requests of one time are in their order.
        session: dense ids, in order of first appearance.
        turn: place in the session, from 1.
        qos: code of the class of service, as in `ENUMS`.
        generated: tokens.
        is_decoded: whether decoding reads the request's own objects back.
        is_decode: whether the request is an I/O of decoding, from a log that knows no requests.
        touch_count: objects that prefill touches; the last `own_count` of them are the request's
            own.
        own_count: objects of the request's own.
        saved_count: objects stored after decoding; they follow the touched ones in the arrays
            below.
        object: numbers of the objects, request by request, shape (sum of touch_count and
            saved_count,).
        source: code of each object's source, as in `ENUMS`, shape as `object`.
        step: step of the request that touches the object, from 0, shape as `object`; unused for
            saved ones.
        tokens: of each object, shape as `object`.
        live: no later request touches an unshared object below this number.
    """

    time_ns: Ints
    think_ns: Ints
    user: Ints
    session: Ints
    turn: Ints
    qos: Ints
    generated: Ints
    is_decoded: NDArray[np.bool_]
    is_decode: NDArray[np.bool_]
    touch_count: Ints
    own_count: Ints
    saved_count: Ints
    object: Ints
    source: NDArray[np.uint8]
    step: Ints
    tokens: Ints
    live: int = 0

    def __len__(self) -> int:
        return len(self.time_ns)
