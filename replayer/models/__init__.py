"""Geometry of models: the KV cache of each layer, its bytes, and how engines lay it out."""
