"""`tombola demo`: three comparisons on data that come with scikit-learn."""
