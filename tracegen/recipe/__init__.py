"""Recipes: their keys, defaults and checks, and how TOML files and flags become one."""
