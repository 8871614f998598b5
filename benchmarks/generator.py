"""Cost of a random word: our Philox 4x64-10 next to other generators.

python benchmarks/generator.py
"""

import numpy as np
import timing
from numba import njit

import tombola
from tombola.random import fill_words

SIZE = 4096


@njit
def philox_4x32(key, block, out):
    """Philox 4x32-10, two 64-bit words a block, from its definition."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for j in range(0, out.size, 2):
        c0, c1 = block & mask, block >> shift
        c2, c3 = np.uint64(0), np.uint64(0)
        k0, k1 = key & mask, key >> shift
        for _ in range(10):
            left = np.uint64(0xD2511F53) * c0
            right = np.uint64(0xCD9E8D57) * c2
            c0, c1 = (right >> shift) ^ c1 ^ k0, right & mask
            c2, c3 = (left >> shift) ^ c3 ^ k1, left & mask
            k0 = (k0 + np.uint64(0x9E3779B9)) & mask
            k1 = (k1 + np.uint64(0xBB67AE85)) & mask
        out[j] = c0 | (c1 << shift)
        out[j + 1] = c2 | (c3 << shift)
        block += np.uint64(1)


@njit
def split_mix(state, out):
    for j in range(out.size):
        state += np.uint64(0x9E3779B97F4A7C15)
        z = state
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[j] = z ^ (z >> np.uint64(31))


def main():
    out = np.empty(SIZE, dtype=np.uint64)
    stream = tombola.Stream(0)
    numpy_philox, pcg = np.random.Philox(0), np.random.PCG64(0)
    zero = np.uint64(0)
    candidates = {
        "Philox 4x64-10 (ours)": lambda: fill_words(stream.state, out),
        "Philox 4x64-10 (numpy)": lambda: numpy_philox.random_raw(SIZE),
        "Philox 4x32-10 (numba)": lambda: philox_4x32(zero, zero, out),
        "SplitMix64 (numba)": lambda: split_mix(zero, out),
        "PCG64 (numpy)": lambda: pcg.random_raw(SIZE),
    }
    rows = []
    for name, call in candidates.items():
        low, middle, high = timing.nanoseconds(call, SIZE, repeats=9)
        rows.append([name, f"{middle:.2f}", f"{low:.2f} to {high:.2f}"])
    timing.table(["generator", "ns a word", "quartiles"], rows)


if __name__ == "__main__":
    main()
