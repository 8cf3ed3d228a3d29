"""Progress bars on the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from tracegen.files.progress import Advance


@contextmanager
def show_progress(
    task: str,
    unit: str,
    total: int | None,
    *,
    delay_s: float = 0,
) -> Iterator[Advance]:
    """Show a progress bar inside the context, if standard error is a terminal.

    Args:
        task: the work, shown before the bar.
        unit: unit of its amount; bytes (`B`) are shown as KiB, MiB, ….
        total: the whole amount; None if it is not known.
        delay_s: seconds before the bar appears; shorter work shows none.
    """
    with tqdm(
        desc=task,
        total=total,
        unit=unit,
        unit_scale=unit == "B",
        disable=None,
        leave=False,
        delay=delay_s,
    ) as bar:

        def advance(amount: int) -> None:
            bar.update(amount)

        yield advance
