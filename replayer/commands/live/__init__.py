"""The live view: what a replay does while it runs, as a picture, as lines, or as JSON."""
