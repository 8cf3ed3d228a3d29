"""Folders and files that tests read."""

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT / "tracegen" / "recipes" / "sample_sharegpt.json"
DEMO = ROOT / "tracegen" / "recipes" / "demo.toml"
