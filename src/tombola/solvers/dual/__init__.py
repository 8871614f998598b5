"""Dual coordinate ascent: SDCA."""
