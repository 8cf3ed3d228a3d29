"""Workloads: sessions become timed requests, and requests become ops."""
