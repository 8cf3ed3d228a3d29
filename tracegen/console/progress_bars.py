"""Progress bars on the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from shutil import get_terminal_size

from tracegen.progress import Advance


@contextmanager
def show_progress(
    task: str,
    unit: str,
    total: int | None,
) -> Iterator[Advance]:
    """Show a progress bar inside the context, if standard error is a terminal and there is work.

    It appears once work has taken a second; most takes less.

    Args:
        task: the work, shown before the bar.
        unit: unit of its amount; amounts are shown as k, M, ….
        total: the whole amount; None if it is not known.
    """
    from tqdm import tqdm  # noqa: PLC0415 (`--help` needs none)

    with tqdm(
        desc=task,
        total=total,
        unit=unit,
        unit_scale=True,
        disable=True if total == 0 else None,
        leave=False,
        delay=1,
        ncols=get_terminal_size().columns,  # some terminals report 0, which hides the bar
    ) as bar:
        yield bar.update
