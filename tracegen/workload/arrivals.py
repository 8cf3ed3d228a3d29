"""Arrivals of sessions in an open loop: Poisson or bursty (gamma), at one rate or one per hour."""

from fractions import Fraction
from itertools import accumulate
from typing import Final

import numpy as np

from tracegen.arrays import Ints
from tracegen.errors import InputError
from tracegen.randomness.draws import Purpose, below, draw
from tracegen.randomness.gamma import load_gaps
from tracegen.recipe.recipe import Recipe

BLOCK: Final = 1024
HOUR_NS: Final = 3600 * 10**9
_NANO: Final = 10**9
_LAST_NS: Final = 2**61
_SPARE_BLOCKS: Final = 64


class Arrivals:
    """Arrival times of sessions 0, 1, …; each block of 1,024 is drawn without the others.

    Within a block the arrivals are those of a renewal process, given their number: for Poisson
    sorted uniforms, for a gamma law gaps from its table, scaled to the block's length (Devroye,
    "Non-Uniform Random Variate Generation", 1986, V.2). Hourly rates stretch the time of a process
    of one session per second.
    """

    def __init__(self, recipe: Recipe) -> None:
        rate = Fraction(1) if recipe.hourly_rates else Fraction(str(recipe.session_rate))
        self._recipe = recipe
        self._blocks: dict[int, Ints] = {}
        self._block_ns = round(BLOCK * _NANO / rate)
        # Sessions per 10^9 seconds in each hour.
        self._hours = [round(Fraction(str(rate)) * _NANO) for rate in recipe.hourly_rates]

    def times(self, session: Ints) -> Ints:
        """Return the arrival times of these sessions in ns; shape (sessions,).

        Raises:
            InputError: a session arrives after more than 70 years.
        """
        block, place = np.divmod(session, BLOCK)
        wanted = np.unique(block)
        for number in wanted.tolist():
            if number not in self._blocks:
                self._blocks[number] = self._draw_block(number)
        # Users take sessions in turn: blocks before the slowest user's are never asked for again.
        if len(self._blocks) > 2 * len(wanted) + _SPARE_BLOCKS:
            self._blocks = {number: self._blocks[number] for number in wanted.tolist()}
        times = np.stack([self._blocks[number] for number in wanted.tolist()])
        arrival: Ints = times[np.searchsorted(wanted, block), place]
        return arrival

    def _draw_block(self, number: int) -> Ints:
        if (number + 1) * self._block_ns > _LAST_NS:
            raise InputError(
                "sessions would arrive after more than 70 years",
                "raise recipe key session_rate or hourly_rates",
            )
        bits = draw(self._recipe.seed, Purpose.ARRIVAL, number, np.arange(BLOCK + 1))
        if self._recipe.burstiness == 1:
            times = np.sort(below(bits[:BLOCK], self._block_ns))
        else:
            gaps = load_gaps(self._recipe.burstiness)
            ends = list(accumulate(gaps[place] for place in below(bits, len(gaps)).tolist()))
            times = np.array([end * self._block_ns // ends[-1] for end in ends[:-1]], np.int64)
        times = times + number * self._block_ns
        if not self._hours:
            return times
        return np.array([self._stretch(time) for time in times.tolist()], np.int64)

    def _stretch(self, time_ns: int) -> int:
        """Return when hourly rates have brought the sessions that 1 per second has by `time_ns`."""
        per_cycle = sum(self._hours) * 3600
        cycles, left = divmod(time_ns, per_cycle)
        if cycles * len(self._hours) * HOUR_NS > _LAST_NS:
            raise InputError(
                "sessions would arrive after more than 70 years",
                "raise recipe key hourly_rates",
            )
        hour = 0
        while left >= self._hours[hour] * 3600:
            left -= self._hours[hour] * 3600
            hour += 1
        return (cycles * len(self._hours) + hour) * HOUR_NS + left * _NANO // self._hours[hour]
