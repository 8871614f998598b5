"""The experiments of the paper, the demo, and a suite that compares all samplers."""
