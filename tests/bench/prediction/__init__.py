"""The error table of predictions: measured replays beside predicted ones and beside three simpler rules."""
