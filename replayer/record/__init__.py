"""The record of a run: run.json, the log's columns, and how they are written."""
