"""Draw the terminal report of a run as an SVG picture: report_picture.py RUN OUT.svg"""

import sys
from pathlib import Path

from rich.console import Console

from loadgen.analyze import analyze
from loadgen.record import open_run
from loadgen.report import render_terminal

run, picture = Path(sys.argv[1]), Path(sys.argv[2])
console = Console(record=True, width=118, highlight=False, file=open("/dev/null", "w"))  # noqa: SIM115
render_terminal(analyze(open_run(run)), console)
picture.write_text(console.export_svg(title=f"specload report {run.name}"))
