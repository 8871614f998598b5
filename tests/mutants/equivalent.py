"""Mutants that survive because nothing that could be observed has changed, each with its reason."""

DRAWING, LAYOUT = "src/tombola/index/drawing.py, ", "src/tombola/index/layout.py, "
SETTING, WEIGHTS = "src/tombola/index/setting.py, ", "src/tombola/index/weight_index.py, "
REAL, INPUTS = "src/tombola/index/real.py, ", "src/tombola/index/inputs.py, "
RANDOM, GAUGE = "src/tombola/random.py, ", "src/tombola/gauge.py, "
ARCHIVE, FILES = "src/tombola/state/archive.py, ", "src/tombola/state/files.py, "
SAMPLERS = "src/tombola/samplers/"

EQUIVALENT = {
    # index
    DRAWING + "draw_many: used < darts -> (used <= darts)": (
        "if all darts were used, the stream is already where it is put"
    ),
    DRAWING + "plan_of: 0 -> 1 in `area += at_least[0] * uniform`": (
        "the guide is where a search begins, and begins earlier"
    ),
    DRAWING + "plan_of: 1 -> 2 in `plan = np.empty((PLAN, HEIGHTS + 1), dtype=np.int64)`": (
        "a larger scratch array"
    ),
    DRAWING + "throw: 1 -> 2 in `levels[j] = -1`": "any level below 0 is below every weight",
    LAYOUT
    + "column_area: height > 0 -> (height >= 0) in "
    + "`return np.int64(1) << (height - 1) if height > 0 else np.int64(0)`": (
        "numpy shifts 1 by -1 to 0; compiled, it is another number, which compiled tests notice"
    ),
    LAYOUT
    + "new_sums: 0 -> 1 in `sums: Any = cell(Sums(at_least=at_least, total=0, area=0, "
    + "occupied=0))` (3)": "all sums are computed before they are used",
    SETTING + "checked_set: 0 -> 1 in `room -= new[j] if fits else 0`": (
        "what does not fit is not made to fit by less room"
    ),
    INPUTS + "check_fit: 0 -> 1 in `if new[j] < 0:`": "a weight of 0 always fits",
    INPUTS
    + "one_dimension: 1 -> 2 in `if array.ndim == 1 and array.flags.c_contiguous:"
    + "  # the layout that the kernels are compiled for`": (
        "a contiguous array is returned as it is by the other way, too"
    ),
    DRAWING
    + "plan_of: np.uint64(g) << np.uint64(64 - GUIDE_BITS) -> "
    + "(np.uint64(g) >> np.uint64(64 - GUIDE_BITS))": "searches begin at the first height",
    WEIGHTS + "WeightIndex._ready: n * added < 2**62 -> (n * added <= 2 ** 62)": (
        "a share of exactly 2^62 beside a total of 2^57 would fit, too"
    ),
    WEIGHTS + "WeightIndex.add: changes < -most -> (changes <= -most)": (
        "sums of Python's integers are those of int64 where these do not overflow"
    ),
    LAYOUT + "order_fault: 1 -> 2 in `seen[item] = 1`": "anything but 0 marks an item",
    LAYOUT + "sum_up: 1 -> 2 in `for height in range(HEIGHTS - 1, -1, -1):`": (
        "no column is taller than the last height"
    ),
    SETTING + "checked_set: True -> False in `fits = True`": (
        "the limit is then checked exactly, with the same outcome"
    ),
    INPUTS + "check_fit: new[j] < 0 -> (new[j] <= 0) in `if new[j] < 0:`": (
        "a weight of 0 always fits"
    ),
    WEIGHTS
    + "WeightIndex.draw: size < 0 -> (size <= 0) in `if type(size) is not int or size < 0:`": (
        "0 passes the check"
    ),
    WEIGHTS
    + "WeightIndex.draw: 0 -> 1 in "
    + "`self._index, self._stream.state, items, probabilities, 0,`": (
        "only the type of the number matters"
    ),
    WEIGHTS + "WeightIndex.add: changes > most -> (changes >= most)": (
        "sums of `most` fit int64, and those of Python's integers are the same"
    ),
    # streams
    RANDOM + "bounded_once: low >= bound -> (low > bound)": (
        "2^64 mod bound is less than the bound, so the other test accepts it"
    ),
    RANDOM + "fill_words: state[0].position & _THREE -> (state[0].position | _THREE)": (
        "the same words, one by one"
    ),
    RANDOM + "fill_words: 4 -> 5 in `blocks = (out.size - done) // 4`": (
        "the same words, more of them one by one"
    ),
    RANDOM + "seek: position & _THREE -> (position | _THREE)": (
        "the buffer is filled although the next word fills it again"
    ),
    RANDOM
    + "seek: 0 -> 1 in `buffer[0], buffer[1], buffer[2], buffer[3] = "
    + "block(state, position >> _TWO)`": (
        "within a block, its first word is never read; the second is stored after it"
    ),
    RANDOM + "new_state: 4 -> 5 in `buffer = np.zeros(4, dtype=np.uint64)`": (
        "the fifth word is never read"
    ),
    # the gauge
    GAUGE + "Gauge.interval: a > 0 -> (a >= 0) in `if not a > 0:`": (
        "a difference of real numbers is not 0"
    ),
    GAUGE + "Gauge.worst: wealth >= -math.log(alpha) -> (wealth > -math.log(alpha))": (
        "two sums of real numbers are not equal"
    ),
    GAUGE
    + "Gauge.worst: sums.ours / sums.uniform < RATIOS -> (sums.ours / sums.uniform <= RATIOS)": (
        "the wealth of the ratio seen is at most its share at the start"
    ),
    # checkpoints
    "src/tombola/checkpoint.py, restored_sampler: _bytes_as_array(value) <= room -> "
    "(_bytes_as_array(value) < room)": (
        "a state has several arrays for each entry of a list, so room is never equal"
    ),
    "src/tombola/state/fields.py, _plain: end < 0 -> (end <= 0) in `sign, (mantissa, exponent) = "
    '"-" if end < 0 else "", math.frexp(abs(end))`': "the sign of 0 is not used",
    ARCHIVE + "write: 0 -> 1 in `file.write(_digest(file, file.seek(0, io.SEEK_END)) + MARK)`": (
        "no more is read than there is"
    ),
    ARCHIVE
    + "_unpacked: sum(member.file_size for member in members) > size -> "
    + "(sum((member.file_size for member in members)) >= size)": (
        "members have headers, so their sizes cannot add up to that of the file"
    ),
    FILES + "_flush_folder: os.O_RDONLY | os.O_DIRECTORY -> (os.O_RDONLY & os.O_DIRECTORY)": (
        "what is opened is a folder"
    ),
    FILES + "_umask: 0o077 -> 64 in `mask = os.umask(0o077)`": (
        "the mask is set back at once; no file is made in between"
    ),
    # samplers
    SAMPLERS + "rivals/avare.py, Avare.__init__: self.n // 64 -> (self.n * 64)": (
        "the first loss above 0 computes the floor, and sets when it is next due"
    ),
    SAMPLERS + "group_drawing.py, draw_many: end - start < FEW -> (end - start <= FEW)": (
        "both ways draw the same items"
    ),
    SAMPLERS + "group_rule.py, start_over: state.levels[c] = 0.0 -> pass": (
        "the level of a group without losses is not read"
    ),
    SAMPLERS
    + "default_batch.py, scratch_of: 10 -> 11 in "
    + "`Averages(space[9, :m], space[10, :m], space[11, :m]),`": (
        "each count of visits is read once, before the value takes its place"
    ),
    SAMPLERS + "rivals/safe.py, Safe.__init__: 0.0 -> 1.0 in `norms=np.full(self.n, 0.0),`": (
        "the norm of an item that was not visited is not read"
    ),
    SAMPLERS + "rivals/safe.py, Safe.__init__: 1.0 -> 2.0 in `visited=np.full(self.n, -1.0),`": (
        "any number below 0 says that an item was not visited"
    ),
    SAMPLERS + "rivals/safe.py, saddle_level: squares <= 0.0 -> (squares < 0.0)": (
        "products are 0 then, too"
    ),
    SAMPLERS + "rivals/safe.py, saddle_level: level * s < low -> (level * s <= low)": (
        "it is outside the bounds there, so not equal to one of them"
    ),
    SAMPLERS + "weighted.py, draw_many: uniform >= 0 -> (uniform > 0)": (
        "both ways draw the same items"
    ),
    SAMPLERS
    + "rivals/adaptive_weighted.py, share_out: max(largest, tau[c]) -> min(largest, tau[c])": (
        "any reference gives the same shares; as tau has a floor, none overflows"
    ),
    SAMPLERS
    + "rivals/adaptive_weighted.py, learn_one: rule.mean_v > 0.0 -> (rule.mean_v >= 0.0)": (
        "a mean that includes a number above 0 is above 0"
    ),
    SAMPLERS + "arithmetic.py, cube_root: 100 -> 101 in `for _ in range(100):`": (
        "for ratios of items to draws it ends sooner"
    ),
    SAMPLERS
    + "rivals/avare.py, AvareState.absorb: rule.level < TOLERANCE * rule.least * total -> "
    + "(rule.level <= TOLERANCE * rule.least * total)": "two real numbers are not equal",
    SAMPLERS + "rivals/avare.py, lower_floor: 1.0 -> 2.0 in `if rule.decay != 1.0:`": (
        "the first power of a number is that number"
    ),
    SAMPLERS
    + "base.py, Sampler.draw: size < 0 -> (size <= 0) in "
    + "`if type(size) is not int or size < 0:`": "0 passes the check",
    SAMPLERS + "base.py, Sampler.draw: 0 -> 1 in `if type(size) is not int or size < 0:`": (
        "0 passes the check"
    ),
    SAMPLERS
    + "bounds.py, numbers_for_items: 1 -> 2 in "
    + "`numbers = np.array(values, dtype=np.float64).reshape(-1)`": (
        "numpy takes any number below 0 in the same way"
    ),
    SAMPLERS + "group_drawing.py, rest_below: low >= bound << COIN -> (low > bound << COIN)": (
        "the exact condition, which is next, holds there"
    ),
    SAMPLERS + "group_drawing.py, choose_parts: 0 -> 1 in `places[j] = 0`": (
        "it is written again when a dart hits"
    ),
    SAMPLERS
    + "group_vrb.py, GroupVRB.__init__: kinds <= {str, int, float, bool} -> (kinds < {str, "
    + "int, float, bool})": ("it is one kind, so not all four"),
    SAMPLERS
    + "group_vrb.py, GroupVRB.group_levels: 1.0 -> 2.0 in `levels = np.sqrt(state.levels) * "
    + "roots / (unit if unit > 0 else 1.0)`": ("without a unit, all levels are 0"),
    SAMPLERS + "default_batch.py, learn_many: rule.unit > 0.0 -> (rule.unit >= 0.0)": (
        "without a unit the mean is 0, and no stage begins"
    ),
    SAMPLERS + "default_rule.py, ParameterFree.absorb: rule.unit > 0.0 -> (rule.unit >= 0.0)": (
        "without a unit all losses were 0, and zeros are added"
    ),
    SAMPLERS + "default_batch.py, learn_in_stages: 18 -> 19 in `space = np.empty((18, CHUNK))`": (
        "a larger scratch array"
    ),
    SAMPLERS
    + "default_batch.py, stays_above: 2.0 -> 4.0 in `return rule.mean_square * left "
    + "> 2.0 * least_mean(rule.first_root)`": ("loss by loss, the result is the same"),
    SAMPLERS
    + "default_batch.py, stays_above: 2.0 * least_mean(rule.first_root) -> (2.0 / "
    + "least_mean(rule.first_root))": ("loss by loss, the result is the same"),
    SAMPLERS + "rivals/projections.py, floor_level: 1 -> 2 in `low = -1`": (
        "any number below 0 is below every count"
    ),
    SAMPLERS
    + "rivals/projections.py, floor_level: left <= 0.0 -> (left < 0.0) in `if below <= low or left "
    + "<= 0.0 or rest <= 0.0:`": ("with nothing left the level stays, and the next pass ends"),
    SAMPLERS + "weighted.py, uniform_weight: 1 -> 2 in `return np.int64(-1)`": (
        "any number below 0 says that draws are uniform"
    ),
    SAMPLERS
    + "default_batch.py, learn_many: 0.0 -> 1.0 in `usual = rule.unit > 0.0 and "
    + "largest * rule.unit <= TOO_LARGE and rule.fade == 1.0`": (
        "loss by loss, the result is the same"
    ),
    SAMPLERS + "weighted.py, draw_many: 0 -> 1 in `if uniform >= 0:`": (
        "both ways draw the same items"
    ),
    SAMPLERS
    + "algorithm_1.py, Printed.fade: self.rule[0].fade < 1.0 -> (self.rule[0].fade <= 1.0)": (
        "a score times 1 is that score"
    ),
    SAMPLERS + "base.py, _as_losses: not array.flags.c_contiguous -> (array.flags.c_contiguous)": (
        "numpy reads any layout; compiled code does not, which compiled tests notice"
    ),
    SAMPLERS + "deck.py, is_permutation: 1 -> 2 in `seen[item] = 1`": (
        "anything but 0 marks an item"
    ),
    SAMPLERS
    + "default_batch.py, measure_distances: 0.0 -> 1.0 in "
    + "`scratch.distance[j] = distance(squared, past) if squared + past > 0.0 else 0.0` (2)": (
        "the distance between two zeros is not read"
    ),
    SAMPLERS
    + "static.py, Static.balanced: 1.0 -> 2.0 in "
    + "`return cls(1.0 / np.bincount(numbers)[numbers], seed=seed)`": "weights are in any unit",
    # index and gauge, of another sample
    DRAWING + "plan_of: 1 -> 2 in `plan[SHIFT, heights] = -1`": (
        "any number below 0 says that a dart is in the uniform part"
    ),
    DRAWING + "plan_of: 64 - GUIDE_BITS -> (64 + GUIDE_BITS)": "searches begin at the first height",
    LAYOUT + "first_fault: height > 0 -> (height >= 0) in `if height > 0 and seen[height]:`": (
        "numpy shifts 1 by -1 to 0; compiled, it is another number, which compiled tests notice"
    ),
    SETTING + "first_unfit: 1 -> 2 in `return -1`": "any number below 0 says that all fit",
    DRAWING + "draw_many: out.size - done -> (out.size + done) (2)": (
        "the number of darts does not affect which items are drawn"
    ),
    SETTING + "cross: height > 0 -> (height >= 0) in `if height > 0:`": (
        "numpy shifts 1 by -1 to 0; compiled, it is another number, which compiled tests notice"
    ),
    DRAWING + "plan_of: area += at_least[0] * uniform -> pass": (
        "the guide is where a search begins, and begins earlier"
    ),
    DRAWING + "plan_of: plan[END, k] <= np.int64(dart) -> (plan[END, k] < np.int64(dart))": (
        "the guide is where a search begins, and begins earlier"
    ),
    SAMPLERS + "algorithm_1.py, Printed.fade: 1.0 -> 2.0 in `if self.rule[0].fade < 1.0:`": (
        "a score times 1 is that score"
    ),
    SAMPLERS + "weighted.py, rebuild: 2 -> 3 in `room = np.int64(2 * HIGH)`": (
        "a total of about 2^50 is far below either"
    ),
    SAMPLERS + "weighted.py, Weighted.value: 1.0 -> 2.0 in `return 1.0`": (
        "all values are equal either way, and so are the weights"
    ),
    DRAWING + "plan_of: at_least[0] * uniform -> (at_least[0] / uniform)": (
        "the guide is where a search begins, and begins earlier"
    ),
    DRAWING + "locate: dart < area -> (dart <= area) in `if dart < area:`": (
        "the first dart of a height is in the column after those before it, on level 0"
    ),
    DRAWING
    + "draw_many: min(CHUNK, np.int64((out.size - done) * darts_per_hit)) -> "
    + "max(CHUNK, np.int64((out.size - done) * darts_per_hit))": (
        "the number of darts does not affect which items are drawn, and no more than a chunk fit"
    ),
    WEIGHTS
    + "WeightIndex.draw: 0 -> 1 in `if type(size) is not int or size < 0:`": "0 passes the check",
    WEIGHTS
    + "WeightIndex.set: 0 -> 1 in `check_fit(new[outcome : outcome + 1], 0, first=outcome)`": (
        "the weight is negative, whatever the total"
    ),
    WEIGHTS
    + "WeightIndex.set: 1 -> 2 in `check_fit(new[outcome : outcome + 1], 0, first=outcome)`": (
        "the first weight is the bad one"
    ),
    INPUTS + "one_dimension: 1 -> 2 in `return np.ascontiguousarray(array.reshape(-1))`": (
        "numpy takes any number below 0 in the same way"
    ),
    DRAWING + "throw: 64 - GUIDE_BITS -> (64 + GUIDE_BITS)": (
        "numpy shifts all bits out, and searches begin at the first height; compiled, it is "
        "another number, which compiled tests notice"
    ),
    LAYOUT + "first_fault: 1 -> 2 in `seen = np.zeros(HEIGHTS + 1, dtype=np.int64)`": (
        "a larger scratch array"
    ),
    LAYOUT
    + "new_sums: 0 -> 1 in `sums: Any = cell(Sums(at_least=at_least, total=0, area=0, "
    + "occupied=0))`": "all sums are computed before they are used",
    LAYOUT
    + "new_sums: 0 -> 1 in `sums: Any = cell(Sums(at_least=at_least, total=0, area=0, "
    + "occupied=0))` (2)": "all sums are computed before they are used",
    LAYOUT + "new_sums: 1 -> 2 in `at_least = np.zeros(HEIGHTS + 1, dtype=np.int64)`": (
        "no weight has a height beyond the last one"
    ),
    DRAWING
    + "draw_many: (out.size - done) * darts_per_hit -> ((out.size - done) / darts_per_hit)": (
        "the number of darts does not affect which items are drawn"
    ),
    DRAWING + "draw_many: out.size - done >= FEW -> (out.size - done > FEW)": (
        "both ways draw the same items"
    ),
    DRAWING
    + "draw_many: 0 -> 1 in "
    + "`words = np.empty(CHUNK if out.size >= FEW else 0, dtype=np.uint64)`": (
        "a larger scratch array"
    ),
    DRAWING
    + "throw: 64 -> 65 in "
    + "`k = plan[GUIDE, np.int64(words[j] >> np.uint64(64 - GUIDE_BITS))]`": (
        "the guide is where a search begins, and begins earlier"
    ),
    SETTING + "checked_set: new[j] <= room -> (new[j] < room)": (
        "the limit is then checked exactly, with the same outcome"
    ),
    SAMPLERS
    + "default_batch.py, scratch_of: 13 -> 14 in "
    + "`Averages(space[12, :m], space[13, :m], space[14, :m]),`": (
        "each count of visits is read once, before the value takes its place"
    ),
    SAMPLERS + "rivals/safe.py, saddle_level: following > level -> (following >= level)": (
        "if they are equal, the loop has ended before"
    ),
    SAMPLERS
    + "water_filling.py, fill_chances: real < high -> (real <= high) in "
    + "`chances[item] = np.int64(real) if real < high else high`": "the limit either way",
    SAMPLERS
    + "default_batch.py, stays_above: rule.mean_square * left > 2.0 * "
    + "least_mean(rule.first_root) -> (rule.mean_square * left >= 2.0 * "
    + "least_mean(rule.first_root))": "loss by loss, the result is the same",
    # samplers, of a run over half of all places
    SAMPLERS + "rivals/mabs.py, MABS.__init__: 1.0 -> 2.0 in `unit, size = 1.0, 1.0` (2)": (
        "without a bound there is a step, and the size is not read"
    ),
    SAMPLERS
    + "rivals/mabs.py, MABS.__init__: 1 -> 2 in `gain = mixing**2 * math.sqrt(math.log(n) / "
    + "(float(horizon or 1) * n)) / n**2 / size`": "without a step there is a horizon, above 0",
    SAMPLERS
    + "group_vrb.py, GroupVRB.__init__: np.sqrt(bounds / bounds.max()) * np.ones(n) -> "
    + "(np.sqrt(bounds / bounds.max()) / np.ones(n))": "a number over 1 is that number",
    "src/tombola/index/layout.py, section: 1 -> 2 in `index.sums[c : c + 1],`": (
        "only the first record is used"
    ),
    SAMPLERS
    + "fallback.py, choose: 1.0 -> 2.0 in `ratio = fallback.ours / fallback.uniform if "
    + "fallback.uniform > 0.0 else 1.0`": "both are above the limits of either mode",
    SAMPLERS + "group_drawing.py, draw_many: min(CHUNK, items.size) -> max(CHUNK, items.size)": (
        "larger scratch arrays"
    ),
    SAMPLERS
    + "group_drawing.py, draw_many: end - start -> (end + start) in "
    + "`if state.fallback[0].shuffling or end - start < FEW:`": "both ways draw the same items",
    SAMPLERS + "group_rule.py, learn_one: relative > 0.0 -> (relative >= 0.0)": (
        "until a loss is above 0, all weights are rebuilt as they are"
    ),
    SAMPLERS
    + "rivals/info_batch.py, mean_loss: loss >= 0.0 -> (loss > 0.0) in `if loss >= 0.0:` (2)": (
        "a loss of 0 is the least one, and adds nothing"
    ),
    SAMPLERS + "default_rule.py, mixing_after: 4 * fed <= n -> (4 * fed < n)": (
        "the root of 1 is 1"
    ),
    SAMPLERS + "default_rule.py, absorb_average: rule.unit > 0.0 -> (rule.unit >= 0.0)": (
        "without a unit all losses were 0, and so is all that follows"
    ),
    SAMPLERS
    + "default_batch.py, learn_many: 1.0 -> 2.0 in `usual = rule.unit > 0.0 and "
    + "largest * rule.unit <= TOO_LARGE and rule.fade == 1.0`": (
        "loss by loss, the result is the same"
    ),
    SAMPLERS
    + "default_batch.py, learn_many: largest * rule.unit <= TOO_LARGE -> "
    + "(largest * rule.unit < TOO_LARGE)": "loss by loss, the result is the same",
    SAMPLERS + "default_batch.py, learn_many: 0.0 -> 1.0 in `rule, largest = state.rule[0], 0.0`": (
        "loss by loss, the result is the same"
    ),
    SAMPLERS + "default_batch.py, scratch_of: 2 -> 3 in `space[2, :m],`": (
        "each share is read once, before the mean takes its place"
    ),
    SAMPLERS + "default_batch.py, scratch_of: 7 -> 8 in `space[7, :m],`": (
        "each distance is read once, before D takes its place"
    ),
    SAMPLERS
    + "default_batch.py, scratch_of: 16 -> 17 in "
    + "`Averages(space[15, :m], space[16, :m], space[17, :m]),`": (
        "each count of visits is read once, before the value takes its place"
    ),
    SAMPLERS
    + "rivals/safe.py, saddle_level: below < following < above -> (below <= following < above)": (
        "the next pass then halves the same bracket"
    ),
    SAMPLERS
    + "static.py, Static.__init__: 1000 -> 1001 in "
    + "`scores = np.where(given > 0, np.maximum(scaled, 2.0**-1000), 0.0)`": (
        "both are above 0, so the weight is 1"
    ),
    SAMPLERS + "rivals/vrm.py, _new_components: 0 -> 1 in `count = len(entries[0])`": (
        "there are as many columns as rows of entries"
    ),
    SAMPLERS + "rivals/vrm.py, learn_one: 0.0 -> 1.0 in `mixed, largest = 0.0, 0.0` (2)": (
        "the share of an item in the uniform component is 1, so the largest is at least that"
    ),
    SAMPLERS
    + "rivals/vrm.py, take_step: slope[j] - slope[i] > 1e-12 -> (slope[j] - slope[i] >= 1e-12)": (
        "two real numbers are not equal"
    ),
    SAMPLERS
    + "water_filling.py, fill_chances: rest > 0 -> (rest >= 0) in "
    + "`part = -(-rest // among) if rest > 0 else rest // among  # away from 0`": "0 either way",
    SAMPLERS
    + "water_filling.py, water_level: rest <= 0.0 -> (rest < 0.0) in "
    + "`if not 0.0 < free < np.inf or rest <= 0.0:`": (
        "with values left, nothing is left over only if the total is 0, and then the level is 0"
    ),
    SAMPLERS
    + "weighted.py, rescale: state.index.sums[0].total > HIGH -> "
    + "(state.index.sums[0].total >= HIGH)": "a total of that size is not rescaled",
    REAL
    + "to_integer: 62 -> 63 in "
    + "`weight = min(room, np.int64(scaled) if scaled < 2.0**62 else room)`": (
        "beyond 2^62 it is more than the room either way"
    ),
    SAMPLERS
    + "water_filling.py, fill_chances: real > low -> (real >= low) in "
    + "`if not real > low:  # or not a number`": "a chance equal to the limit is the limit",
    SAMPLERS + "weighted.py, Weighted.by_weight: True -> False in `return True`": (
        "the same items, from the same words, one by one"
    ),
    SAMPLERS + "rivals/osmd.py, project: 0.0 -> 1.0 in `largest = 0.0`": (
        "only whether a mass is above 2^500 counts"
    ),
    SAMPLERS + "default_rule.py, ParameterFree.fade: 1.0 -> 2.0 in `if self.rule[0].fade < 1.0:`": (
        "a factor of 1 changes nothing"
    ),
    # samplers, of seed 0 once states were declared
    SAMPLERS
    + "water_filling.py, water_level: lack + excess <= CLOSE * total -> "
    + "(lack + excess < CLOSE * total)": "a tie takes one pass more",
    SAMPLERS + "water_filling.py, water_level: lack >= excess -> (lack > excess)": (
        "if as much is lacking as in excess, the level is the last one either way"
    ),
    SAMPLERS
    + "deck.py, deal_in_numpy: True -> False in `for place, other in zip(places.tolist(), "
    + "others.tolist(), strict=True):`": "both have the same length",
    SAMPLERS
    + "latest.py, plan_in_numpy: True -> False in `for place, other in zip(last.tolist(), "
    + "integers_below(last + 1, words).tolist(), strict=True):`": "both have the same length",
    SAMPLERS
    + "default_rule.py, ParameterFree.fade: self.rule[0].fade < 1.0 -> "
    + "(self.rule[0].fade <= 1.0)": "a product with 1",
    SAMPLERS
    + "rivals/mirror_descent.py, MirrorDescentState.fault: abs(rule[name] - right) <= DRIFT * total"
    + " -> (abs(rule[name] - right) < DRIFT * total)": (
        "a sum that is off by the limit itself, to the last bit"
    ),
    SAMPLERS + "rivals/vrm.py, take_step: 1 -> 2 in `i, j = 0, -1  # from j to i`": (
        "any number below 0 says that there is no component yet"
    ),
}
