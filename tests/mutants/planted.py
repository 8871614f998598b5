"""Mutants planted by hand in the default rules: what could once be dropped unnoticed."""

INDEX, FREE = "src/tombola/index/", "src/tombola/samplers/"
LEAST_H = "max(SMALLEST, h + (squared / level - h) / (1.0 + visits))"
SMALL_TOTAL = "out_of_range(state.index.sums[0].total, LOW * n)"
AT_LEAST_1 = "max(1, to_integer(group_value(state, c), state.rule[0].scale, HIGH))"
DOUBLED = "min(moved, 2.0 * mean) if mean > 0.0 else moved"

PLANTED = [
    # the parameter-free rule
    ("samplers", FREE + "default_rule.py", "min(squared, CLIP * n * mean)", "squared"),
    ("samplers", FREE + "default_rule.py", DOUBLED, "moved"),
    ("samplers", FREE + "default_rule.py", "min(visits + 1.0, LAST)", "(visits + 1.0)"),
    ("samplers", FREE + "default_rule.py", "    fallback.forget(state.fallback[0])\n", ""),
    ("samplers", FREE + "default_rule.py", "        state.visits[item] = 0.0\n", ""),
    ("samplers", FREE + "default_rule.py", "    rebuild(state)\n", ""),
    # the sweep
    ("samplers", FREE + "weighted.py", SMALL_TOTAL, "state.index.sums[0].total > HIGH"),
    ("samplers", FREE + "weighted.py", "            turn.pending -= items\n", ""),
    # groups
    ("samplers", FREE + "group_rule.py", "        state.seen[c] = 0\n", ""),
    ("samplers", FREE + "group_rule.py", LEAST_H, LEAST_H[14:-1]),
    ("samplers", FREE + "group_rule.py", "total, LOW_GROUPS)", "total, 0)"),
    ("samplers", FREE + "group_rule.py", AT_LEAST_1, AT_LEAST_1[7:-1]),
    # the scale's exponent, and a weight of 0
    ("index", INDEX + "real.py", "min(1000, max(-950, exponent))", "max(-950, exponent)"),
    ("index", INDEX + "real.py", "min(1000, max(-950, exponent))", "min(1000, exponent)"),
    ("index", INDEX + "real.py", "max(weight, np.int64(value > 0.0))", "weight"),
    # a batch of sets
    ("index", INDEX + "setting.py", "fits = fits and new[j] <= room", "fits = fits and True"),
    ("index", INDEX + "setting.py", "        room -= new[j] if fits else 0\n", ""),
]  # fmt: skip
