"""The experiments of the paper, one figure per module, and a suite that compares all samplers.

They are beside the package, in a clone: `tombola reproduce` runs them there.
"""
