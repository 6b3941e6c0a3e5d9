"""Draw the first part of a run's terminal report as an SVG picture: report_picture.py RUN OUT.svg [LINES]"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console

from loadgen.experiment import judge_run
from loadgen.record import open_run
from loadgen.report import render_terminal

WIDTH = 132
#: Heights in the drawing of rich: a line, and what stands above the first one.
LINE, HEAD = 24.4, 60.0

run, picture = Path(sys.argv[1]), Path(sys.argv[2])
lines = int(sys.argv[3]) if len(sys.argv) > 3 else 60
console = Console(record=True, width=WIDTH, highlight=False, file=io.StringIO(), force_terminal=True)
render_terminal(judge_run(open_run(run)).summary, console)
svg = console.export_svg(title="specload report")
# no font is fetched from anywhere: the reader's own monospace will do
svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")
svg = re.sub(
    r'viewBox="0 0 (\S+) (\S+)"',
    lambda m: f'viewBox="0 0 {m[1]} {min(float(m[2]), HEAD + LINE * lines):g}"',
    svg,
    count=1,
)
picture.write_text(svg)
