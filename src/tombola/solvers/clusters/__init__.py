"""Mini-batch k-means, and its initial centres."""
