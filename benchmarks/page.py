"""Write docs/benchmarks.md and its pictures, from the rows in benchmarks/results alone.

`make bench-page`. Nothing is measured here: of each row that was measured several times, the last
one counts, and the page says when that was.
"""

import csv
from pathlib import Path

from tombola.report import figures

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "results" / "benchmarks"

HEAD = """# Benchmarks

Drawn from the committed rows in `benchmarks/results` by `make bench-page`; `make bench` and the
commands below measure them again. Absolute times of a shared machine vary by half from hour to
hour: compare within a picture, where methods took turns. [Numbers](numbers.md) has the ratios, and
the goals of our own that were missed.
"""
COLOURS = {
    "tombola": "#0072B2",
    "index": "#0072B2",
    "VRB(n)": "#56B4E9",
    "VRB, as printed": "#009E73",
    "GroupVRB": "#D55E00",
    "tianshou": "#E69F00",
    "cpprb": "#CC79A7",
    "torch multinomial": "#7a5195",
    "numpy choice": "#8a8f94",
}
PEERS = ("numpy choice", "torch multinomial", "tianshou", "cpprb")
CALLED = {
    "tombola": "`tombola.WeightIndex`",
    "index": "`tombola.WeightIndex`",
    "VRB, as printed": "`VRB` as printed",
    "numpy choice": "`numpy.random.Generator.choice`",
    "torch multinomial": "`torch.multinomial`",
    "tianshou": "tianshou's `SegmentTree`",
    "cpprb": "cpprb's prioritised buffer",
}


def rows_of(name, *key):
    """The rows of a file; of those that agree in the columns of the key, the last one."""
    with (RESULTS / f"{name}.csv").open(newline="") as lines:
        return list({tuple(row[k] for k in key): row for row in csv.DictReader(lines)}.values())


def power(n):
    """10^6 for 1000000."""
    return f"10^{len(str(int(n))) - 1}"


def called(name):
    """A method as the page calls it."""
    return CALLED.get(name, f"`{name}`")


def when(rows):
    """The days and processors of rows, in words."""
    days = sorted({row["date"] for row in rows})
    processors = sorted({row["processor"] for row in rows})
    return f"{' and '.join(days)}, {' and '.join(processors)}"


def versions(rows, name="library"):
    """The peers in rows with their versions, and that of tombola, which the samplers have."""
    found = {}
    for row in rows:
        if row["version"]:
            found[called(row[name]) if row[name] in PEERS else "tombola"] = row["version"]
    return ", ".join(f"{method} {version}" for method, version in sorted(found.items()))


def table(head, lines):
    """A table in Markdown."""
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in [head, rule, *lines])


def shown(value):
    """A number with three digits, or more before the point."""
    number = float(value)
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def by_size(rows, methods, value, batches=("128", "4096")):
    """A table: methods by sizes, for each batch, and the same as curves."""
    sizes = sorted({row["n"] for row in rows}, key=int)
    found = {(row["library"], row["n"], row["batch"]): float(row[value]) for row in rows}
    head = ["ns an item", *(f"n = {power(n)}, batch {int(b):,}" for b in batches for n in sizes)]
    lines = [
        [called(m), *(shown(found[m, n, b]) if (m, n, b) in found else "-"
                      for b in batches for n in sizes)]
        for m in methods
    ]  # fmt: skip
    figure, panels = figures.new_figure(1, len(batches))
    for axes, b in zip(panels, batches, strict=True):
        for m in methods:
            there = [n for n in sizes if (m, n, b) in found]
            values = [found[m, n, b] for n in there]
            label = called(m).replace("`", "")
            axes.plot([int(n) for n in there], values, "o-", color=COLOURS[m], label=label)
        axes.set(xscale="log", yscale="log", xlabel="items", ylabel="ns an item")
        axes.set_title(f"batches of {int(b):,}")
    return table(head, lines), figure


# --- sections ---------------------------------------------------------------------------------


def index():
    """Draw, then new weights: the index and its peers."""
    rows = rows_of("index", "library", "n", "batch", "operation")
    both = [row for row in rows if row["operation"] == "draw + set"]
    methods = ("tombola", "tianshou", "cpprb", "torch multinomial", "numpy choice")
    text, figure = by_size(both, methods, "ns_per_item")
    figures.legend_below(figure)
    absent = "; ".join(
        f"{called(row['library'])} at n = {power(row['n'])}: {row['note']}"
        for row in rows
        if row["operation"] == "absent"
    )
    return (
        "The index: a draw, then new weights for what was drawn",
        f"`python benchmarks/index.py`, {when(both)}, one thread. {versions(both)}. Not there: "
        f"{absent}.",
        text,
        figure,
    )


def samplers():
    """Draw and update: the samplers and peers with a tree."""
    rows = rows_of("samplers", "library", "n", "batch", "operation")
    rows = [row for row in rows if row["operation"] == "draw + update, ns an item"]
    methods = ("index", "VRB, as printed", "VRB(n)", "GroupVRB", "tianshou", "cpprb")
    rows = [row for row in rows if row["library"] in methods]
    text, figure = by_size(rows, methods, "value")
    figures.legend_below(figure)
    return (
        "Samplers: a draw, and learning from its losses",
        f"`python benchmarks/samplers.py`, {when(rows)}, one thread. {versions(rows)}. Peers draw "
        "and set weights; they learn nothing.",
        text,
        figure,
    )


def clock():
    """Linear models: the picture of clock.py, and the means over sets of its table."""
    lines = (RESULTS / "clock.md").read_text().splitlines()
    run = next(line for line in lines if line.startswith("Run of")).split(". `")[0]
    head = next(k for k, line in enumerate(lines) if line.startswith("| threads | lambda | target"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[head + 2 :]]
    wanted = [
        [comparison, mean, level]
        for threads, penalty, target, comparison, mean, _, _, level in (
            line for line in cells if len(line) == 8
        )
        if (threads, penalty, target) == ("1", "1e-4", "1e-04")
    ]
    return (
        "The clock: linear models to the same objective",
        f"`python benchmarks/clock.py --data FOLDER`. {run}. Seconds of the others over those of "
        "`LinearClassifier()` until logistic regression is within 1e-4 of the way to its minimum, "
        "lambda = 1e-4, one thread; geometric means over 13 sets, 95% intervals over seeds. "
        "Above 1, ours is faster. [All of it](../benchmarks/results/clock.md).",
        table(["", "times as fast", "at least as fast on"], wanted),
        "../benchmarks/results/clock.png",
    )


def device():
    """Draws on a GPU."""
    rows = rows_of("device", "n", "B", "what", "how")
    found = {
        (row["what"], row["how"], row["n"], row["B"]): float(row["microseconds"]) for row in rows
    }
    kinds = {
        "draw + set": ("`tombola.torch.WeightIndex`", "graph", COLOURS["index"]),
        "VRB: draw + update": ("`tombola.torch.VRB`", "graph", COLOURS["VRB(n)"]),
        "GroupVRB: draw + update": ("`tombola.torch.GroupVRB`", "graph", COLOURS["GroupVRB"]),
        "torch.multinomial": ("`torch.multinomial`, draw alone", "eager", "#7a5195"),
        "cumsum + searchsorted": ("`torch.cumsum`, `searchsorted`, draw alone", "eager", "#8a8f94"),
    }
    sizes = sorted({row["n"] for row in rows}, key=int)
    batches = sorted({row["B"] for row in rows}, key=int)
    lines = []
    figure, panels = figures.new_figure(len(batches), height=2.2)
    for what, (name, how, colour) in kinds.items():
        for axes, b in zip(panels, batches, strict=True):
            there = [n for n in sizes if (what, how, n, b) in found]
            values = [found[what, how, n, b] for n in there]
            if not there:
                continue
            label = name.replace("`", "")
            axes.plot([int(n) for n in there], values, "o-", color=colour, label=label)
            shown_values = dict(zip(there, values, strict=True))
            lines.append([name, f"{int(b):,}", *(
                shown(shown_values[n]) if n in shown_values else "-" for n in sizes
            )])  # fmt: skip
    for axes, b in zip(panels, batches, strict=True):
        axes.set(xscale="log", yscale="log", xlabel="items", ylabel="microseconds")
        axes.set_title(f"{int(b):,} items")
    figures.legend_below(figure)
    one = rows[-1]
    return (
        "On a GPU",
        f"`python benchmarks/device.py`, {one['date']}, {one['device']}, torch {one['torch']}, "
        f"triton {one['triton']}, tombola {one['version']}. Microseconds for a batch; ours in a "
        "CUDA graph, those of torch called from Python, which includes the call.",
        table(["microseconds", "batch", *(f"n = {power(n)}" for n in sizes)], lines),
        figure,
    )


def torch():
    """Training steps with the loader, and gradient norms of examples."""
    loaders = [
        row for row in rows_of("torch_loader", "what", "data", "loader") if row["what"] == "step"
    ]
    norms = [row for row in rows_of("torch_norms", "task", "what") if row["what"] != "plain"]
    figure, panels = figures.new_figure(2, height=3.2)
    lines = []
    for axes, rows, group, kind, title in (
        (panels[0], loaders, "data", "loader", "a step over one with a DataLoader"),
        (panels[1], norms, "task", "what", "a step over one without norms"),
    ):
        kept = [row for row in rows if float(row["ratio"]) < 10 and "alone" not in row[kind]]
        labels = [f"{row[group]}: {row[kind]}" for row in kept]
        ratios = [float(row["ratio"]) for row in kept]
        spread = [
            [ratio - float(row["quartile_1"]) for ratio, row in zip(ratios, kept, strict=True)],
            [float(row["quartile_3"]) - ratio for ratio, row in zip(ratios, kept, strict=True)],
        ]
        places = range(len(kept), 0, -1)
        axes.errorbar(ratios, places, xerr=spread, fmt="o", color=COLOURS["index"])
        axes.axvline(1.0, color="#333333", lw=0.8)
        axes.set_yticks(list(places), labels, fontsize=7)
        axes.set_title(title, fontsize=10)
        lines += [
            [row[group], row[kind], row["ratio"], f"{row['quartile_1']} to {row['quartile_3']}"]
            for row in rows
        ]
    return (
        "PyTorch: a training step",
        "`python benchmarks/torch_loader.py` and `python benchmarks/torch_norms.py`, "
        f"{when(loaders + norms)}, one thread, torch {loaders[0]['torch']}, tombola "
        f"{loaders[0]['version']}. The loader at batch 128 with a 784-512-512-10 network. Gradient "
        "norms by our hooks, of the last layer, and by `torch.func`'s `vmap(grad)`; ratios above "
        "10 are in the table only.",
        table(["data or network", "method", "ratio", "quartiles"], lines),
        figure,
    )


def dask():
    """Loads of the data on Dask, next to L-BFGS."""
    rows = rows_of("dask_loads", "set", "alpha", "partitions", "method", "target")
    targets = {"0.001", "0.0001"}
    found = {}
    for row in rows:
        if row["target"] in targets:
            case = (row["set"], int(row["n"]), row["alpha"])
            found[*case, row["partitions"], row["method"], row["target"]] = row["loads"]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = []
    for case in dict.fromkeys(key[:4] for key in found):
        name, n, alpha, partitions = case
        cells = []
        for method in methods:
            own = [found.get((*case, method, target)) for target in ("0.001", "0.0001")]
            whole = [found.get((*case[:3], "4", method, target)) for target in ("0.001", "0.0001")]
            both = own if own[0] else whole  # L-BFGS has the same for any number
            cells.append(", ".join(it or "-" for it in both))
        lines.append([name, f"{n:,}", alpha, partitions, *cells])
    return (
        "Dask: loads of the data",
        f"`python benchmarks/dask.py loads --data FOLDER`, {when(rows)}. How often all rows are "
        "read until logistic regression is within 1e-3 and 1e-4 of the way to its minimum. Ours "
        "is the certified distance, the overview and the last certificate included; L-BFGS is "
        "scipy's, with a gradient that is summed over the same partitions, and its true "
        "distance, which does not depend on partitions. The picture has 2 to 64 of them.",
        table(["set", "rows", "alpha", "partitions", *methods], lines),
        "../benchmarks/results/dask.png",
    )


def kinks():
    """Loads of the data for losses with kinks, next to uniform draws and L-BFGS."""
    keys = ("set", "alpha", "partitions", "method", "seed", "target")
    rows = rows_of("kinks", *keys)
    loads = {}
    for row in rows:
        case = (row["set"], int(row["n"]), int(row["d"]), row["alpha"])
        method = (row["method"], row["partitions"])
        loads.setdefault(case, {}).setdefault((*method, row["target"]), []).append(row["loads"])
    columns = {
        "4 partitions": ("near", "4"),
        "16 partitions": ("near", "16"),
        "64 partitions": ("near", "64"),
        "16, uniform draws": ("uniform", "16"),
        "L-BFGS": ("L-BFGS", ""),
    }

    def cell(found, method):
        whole = [found.get((*method, target), []) for target in ("0.001", "0.0001", "1e-06")]
        return ", ".join(str(max(map(int, own))) if all(own) else "-" for own in whole if own)

    lines = [
        [name, f"{n:,} x {d}", alpha, *(cell(found, method) for method in columns.values())]
        for (name, n, d, alpha), found in loads.items()
    ]
    shown = [case for case in loads if case[0] in ("a9a", "cover", "http", "MNIST")]
    figure, axes = figures.new_figure(len(shown) // 2, 2, height=2.3)
    styles = {
        "16 partitions": ("C0", "o"),
        "16, uniform draws": ("C1", "s"),
        "L-BFGS": ("0.4", "x"),
    }
    for ax, case in zip(axes, shown, strict=True):
        for name, (colour, mark) in styles.items():
            method, targets = columns[name], (1e-2, 1e-3, 1e-4, 1e-6)
            own = [loads[case].get((*method, f"{target:g}"), [""]) for target in targets]
            points = [
                (max(map(int, it)), at) for it, at in zip(own, targets, strict=True) if all(it)
            ]
            if points:
                ax.plot(*zip(*points, strict=True), color=colour, marker=mark, label=name)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(2, 160)
        ax.set_xticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
        ax.minorticks_off()
        ax.set_title(f"{case[0]}, alpha = {case[3]}", fontsize=9)
        ax.set_xlabel("loads of the data")
        ax.set_ylabel("gap")
    axes[0].legend(fontsize=7)
    return (
        "Dask: losses with kinks",
        f"`python benchmarks/kinks.py --data FOLDER`, {when(rows)}. How often all rows are read "
        "until the hinge loss, or for a column the epsilon-insensitive loss, is within 1e-3, 1e-4 "
        "and 1e-6 of the way to its minimum: the largest of three seeds, or - where one did not "
        "get there in 60 rounds. Ours is the certified distance; with uniform draws, the rows of "
        "models are drawn in proportion to their weights. L-BFGS is scipy's on a subgradient, 150 "
        "loads at most, and its true distance. [The method](decisions/kinks.md) was chosen on the "
        "first nine sets.",
        table(["set", "rows", "alpha", *columns], lines),
        figure,
    )


SECTIONS = {
    "index": index,
    "samplers": samplers,
    "clock": clock,
    "device": device,
    "torch": torch,
    "dask": dask,
    "kinks": kinks,
}


def written():
    """Return the text of the page, and its pictures by name."""
    parts, pictures = [HEAD], {}
    for name, section in SECTIONS.items():
        title, text, lines, figure = section()
        if isinstance(figure, str):
            link = figure
        else:
            link = f"results/benchmarks/{name}.png"
            pictures[name] = figure
        parts.append(f"## {title}\n\n{text}\n\n![{title}]({link})\n\n{lines}\n")
    return "\n".join(parts), pictures


def main():
    text, pictures = written()
    PAGE.write_text(text)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures.items():
        figure.savefig(PICTURES / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
