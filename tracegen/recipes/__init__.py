"""Recipes: their keys, defaults and limits, how TOML files and flags become one, and those that ship."""
