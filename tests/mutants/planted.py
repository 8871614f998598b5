"""Mutants planted by hand in the default rules: what once could be dropped without a failing test."""

INDEX, FREE = "src/tombola/index/", "src/tombola/samplers/"

PLANTED = [
    # the parameter-free rule
    ("samplers", FREE + "shrunk_averages.py", "min(squared, CLIP * n * mean)", "squared"),
    ("samplers", FREE + "shrunk_averages.py", "min(moved, 2.0 * mean) if mean > 0.0 else moved", "moved"),
    ("samplers", FREE + "shrunk_averages.py", "min(visits + 1.0, LAST)", "(visits + 1.0)"),
    ("samplers", FREE + "parameter_free.py", "    fallback.forget(state.fallback[0])\n", ""),
    ("samplers", FREE + "parameter_free.py", "        state.visits[item] = 0.0\n", ""),
    ("samplers", FREE + "parameter_free.py", "        put(state, item, 1.0)\n", ""),
    # the sweep
    ("samplers", FREE + "weighted.py", "not LOW * n <= state.index.sums[0].total <= HIGH", "state.index.sums[0].total > HIGH"),
    ("samplers", FREE + "weighted.py", "        turn.pending -= items\n", ""),
    # groups
    ("samplers", FREE + "group_rule.py", "        state.seen[c] = 0\n", ""),
    ("samplers", FREE + "group_rule.py", "max(SMALLEST, h + (squared / level - h) / (1.0 + visits))", "h + (squared / level - h) / (1.0 + visits)"),
    ("samplers", FREE + "group_rule.py", " or total < 2**40", ""),
    ("samplers", FREE + "group_rule.py", "max(1, np.int64(scaled))", "np.int64(scaled)"),
    # the unit's exponent
    ("samplers", FREE + "arithmetic.py", "min(1000, max(-950, exponent))", "max(-950, exponent)"),
    ("samplers", FREE + "arithmetic.py", "min(1000, max(-950, exponent))", "min(1000, exponent)"),
    # a batch of sets
    ("index", INDEX + "setting.py", "fits = fits and new[j] <= room", "fits = fits and True"),
]  # fmt: skip
