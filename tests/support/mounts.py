"""File systems mounted for a test."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def tmpfs(place: Path, size: str) -> Iterator[Path]:
    """A disk of this size at a new folder, e.g. 64k; the test is skipped where nobody may mount."""
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], check=False).returncode:
        pytest.skip("needs the right to mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@contextmanager
def ext4(place: Path) -> Iterator[Path]:
    """An ext4 of 128 MiB in a file; the test is skipped where nobody may mount one."""
    image, disk = place / "image", place / "disk"
    disk.mkdir()
    image.touch()
    os.truncate(image, 128 << 20)
    commands: tuple[list[str | Path], ...] = (["mkfs.ext4", "-q", "-F", image], ["mount", "-o", "loop", image, disk])
    for command in commands:
        if shutil.which(str(command[0])) is None or subprocess.run(command, check=False).returncode:
            pytest.skip("needs the right to mount, and mkfs.ext4")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)
