"""The samplers that the paper compares with, and later ones, one algorithm per file."""
