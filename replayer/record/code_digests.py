"""Digests that tell versions of this tool's own code apart."""

import hashlib
from pathlib import Path
from typing import Final

PACKAGES: Final = ("tracegen", "replayer", "analysis")


def code_digests() -> dict[str, str]:
    """Compute the digests of this tool's own code for run.json and environment.json.

    code_sha256: over names and contents of all Python modules, in order of their names: the same for every installation
    of a release. core_sha256: over the compiled libraries, which each build makes anew.
    """
    top, found = Path(__file__).parents[2], {}
    for name, pattern in (("code_sha256", "*.py"), ("core_sha256", "*.so")):
        digest = hashlib.sha256()
        files = (path for package in PACKAGES for path in sorted((top / package).rglob(pattern)))
        for path in files:
            if path.parent.name != "core":  # C and how it is built, which is not installed
                digest.update(f"{path.relative_to(top).as_posix()}\0".encode() + path.read_bytes())
        found[name] = digest.hexdigest()
    return found
