"""Newton's method on samples of rows."""
