"""Experiments: one module for each figure, run as ``python -m tombola.experiments.NAME``."""
