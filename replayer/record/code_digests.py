"""Digests that tell versions of this tool's own code apart."""

import hashlib
from pathlib import Path
from typing import Final

PACKAGES: Final = ("tracegen", "replayer", "analysis")


def digest_code(pattern: str) -> str:
    """Compute the digest of this tool's own files of a pattern, over names and contents in order of their names.

    That of *.py is the same for every installation of a release; that of *.so each build makes anew.
    """
    top = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in (path for package in PACKAGES for path in sorted((top / package).rglob(pattern))):
        if path.parent.name != "core":  # C and how it is built, which is not installed
            digest.update(f"{path.relative_to(top).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()
