"""l1 penalties by working sets of columns."""
