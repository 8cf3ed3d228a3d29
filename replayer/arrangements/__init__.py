"""Arrangements: the cache rules of serving engines as tables, and those that ship with the tool."""
