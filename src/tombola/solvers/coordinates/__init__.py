"""Coordinate and block coordinate descent."""
