"""Linear models and k-means on Dask collections; ``pip install tombola[dask]``."""
