"""Run a notebook without Jupyter; `python tests/notebook.py` writes the outputs of the tour."""

import base64
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from unittest.mock import patch

TOUR = Path(__file__).parents[1] / "examples" / "tour.ipynb"


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source(cell):
    return "".join(cell["source"])


def run(cells):
    """Run cells in one namespace, in the present folder; return the outputs of each."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = {"__name__": "__main__"}
    found = []
    for cell in cells:
        outputs, text = [], io.StringIO()

        def flush(outputs=outputs, text=text):
            if text.getvalue():
                lines = text.getvalue().splitlines(keepends=True)
                outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
                text.seek(0)
                text.truncate()

        def show(outputs=outputs, flush=flush):
            flush()
            for number in pyplot.get_fignums():
                outputs.append(picture(pyplot.figure(number)))
            pyplot.close("all")

        with patch.object(pyplot, "show", show), contextlib.redirect_stdout(text):
            exec(compile(source(cell), f"<cell {cell['id']}>", "exec"), names)
        flush()
        found.append(outputs)
    return found


def picture(figure):
    file = io.BytesIO()
    figure.savefig(file, dpi=80)
    data = {
        "image/png": base64.b64encode(file.getvalue()).decode(),
        "text/plain": ["<Figure>"],
    }
    return {"data": data, "metadata": {}, "output_type": "display_data"}


def printed(outputs):
    """The text of a cell's outputs."""
    return "".join("".join(each["text"]) for each in outputs if each["output_type"] == "stream")


def pictures(outputs):
    """The PNG files among a cell's outputs."""
    shown = [each["data"] for each in outputs if each["output_type"] == "display_data"]
    return [base64.b64decode(data["image/png"]) for data in shown]


def main():
    notebook = json.loads(TOUR.read_text())
    cells = code_cells(notebook)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        found = run(cells)
    for count, (cell, outputs) in enumerate(zip(cells, found, strict=True), 1):
        cell.update(execution_count=count, outputs=outputs)
    TOUR.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    os.environ["TOMBOLA_QUIET"] = "1"
    main()
