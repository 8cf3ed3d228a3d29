"""When new sessions come in an open loop: Poisson or bursty (gamma) gaps, at one rate or one for each hour."""

from fractions import Fraction
from itertools import accumulate
from typing import Final

import numpy as np

from tracegen.arrays import Ints
from tracegen.errors import InputError
from tracegen.randomness.draws import Purpose, below, draw
from tracegen.randomness.gamma import QUANTILES
from tracegen.recipe.recipe import Recipe

BLOCK: Final = 1024
HOUR_NS: Final = 3600 * 10**9
_NANO: Final = 10**9


class Arrivals:
    """Arrival times of sessions 0, 1, …, in nanoseconds; block by block of 1,024, so that any can be had alone.

    Within a block the arrivals are those of a renewal process given that it has just so many: for Poisson sorted
    uniforms, for a gamma law gaps of its quantiles scaled to the block's length (Devroye, "Non-Uniform Random Variate
    Generation", 1986, V.2). A rate for each hour stretches the time of a process of one session per second.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self._blocks = recipe, dict[int, Ints]()
        rate = Fraction(1) if recipe.hourly_rates else Fraction(str(recipe.session_rate))
        self._length = round(BLOCK * _NANO / rate)
        self._hours = [round(Fraction(str(one)) * _NANO) for one in recipe.hourly_rates]

    def times(self, session: Ints) -> Ints:
        """The arrival times of these sessions."""
        block, place = np.divmod(session, BLOCK)
        wanted = np.unique(block)
        for number in wanted.tolist():
            if number not in self._blocks:
                self._blocks[number] = self._block(number)
        # Users take sessions in turn, so the lagging user's is the oldest block that is still asked for.
        if len(self._blocks) > 2 * len(wanted) + 64:
            self._blocks = {number: self._blocks[number] for number in wanted.tolist()}
        times = np.stack([self._blocks[number] for number in wanted.tolist()])
        found: Ints = times[np.searchsorted(wanted, block), place]
        return found

    def _block(self, number: int) -> Ints:
        if (number + 1) * self._length > 2**61:
            raise InputError("sessions would arrive after more than 70 years; raise session_rate or hourly_rates.")
        bits = draw(self._recipe.seed, Purpose.ARRIVAL, number, np.arange(BLOCK + 1))
        if self._recipe.burstiness == 1:
            times = np.sort(below(bits[:BLOCK], self._length))
        else:
            table = QUANTILES[self._recipe.burstiness]
            ends = list(accumulate(table[place] for place in below(bits, len(table)).tolist()))
            times = np.array([end * self._length // ends[-1] for end in ends[:-1]], np.int64)
        times = times + number * self._length
        return np.array([self._stretch(time) for time in times.tolist()], np.int64) if self._hours else times

    def _stretch(self, time: int) -> int:
        """The wall-clock time at which the hours' rates have brought as many sessions as 1 per second by `time`."""
        per_cycle = sum(self._hours) * 3600
        cycles, left = divmod(time, per_cycle)
        if cycles * len(self._hours) * HOUR_NS > 2**61:
            raise InputError("sessions would arrive after more than 70 years; raise hourly_rates.")
        hour = 0
        while left >= self._hours[hour] * 3600:
            left -= self._hours[hour] * 3600
            hour += 1
        return (cycles * len(self._hours) + hour) * HOUR_NS + left * _NANO // self._hours[hour]
