"""What people read. The numbers are the summary's; nothing is computed here."""

from loadgen.report.canary import canary_figures, canary_tables
from loadgen.report.checklist import checklist_markdown, render_checklist
from loadgen.report.compared import compared_figures, compared_tables
from loadgen.report.comparison import render_runs_compared
from loadgen.report.document import assets, drawn_on_page, templates_of
from loadgen.report.environment import render_environment
from loadgen.report.experiment import render_experiment
from loadgen.report.format import count, number, percent, ratio, seconds, sparkline
from loadgen.report.history import render_runs
from loadgen.report.html import render_html
from loadgen.report.html_tables import thresholds as threshold_table
from loadgen.report.junit import render_junit
from loadgen.report.markdown import render_markdown
from loadgen.report.page import Cell, Row, Table
from loadgen.report.planned import asked_in_all, caps_of, cost_of, planned_load, render_plan
from loadgen.report.progress import RunProgress
from loadgen.report.reproduce import reproduce
from loadgen.report.sweep import render_sweep_terminal
from loadgen.report.sweep_html import render_sweep_html
from loadgen.report.sweep_planned import render_sweep_plan
from loadgen.report.terminal import render_terminal
from loadgen.report.verdict_lines import render_verdict

__all__ = [
    "Cell",
    "Row",
    "RunProgress",
    "Table",
    "asked_in_all",
    "assets",
    "canary_figures",
    "canary_tables",
    "caps_of",
    "checklist_markdown",
    "compared_figures",
    "compared_tables",
    "cost_of",
    "count",
    "drawn_on_page",
    "number",
    "percent",
    "planned_load",
    "ratio",
    "render_checklist",
    "render_environment",
    "render_experiment",
    "render_html",
    "render_junit",
    "render_markdown",
    "render_plan",
    "render_runs",
    "render_runs_compared",
    "render_sweep_html",
    "render_sweep_plan",
    "render_sweep_terminal",
    "render_terminal",
    "render_verdict",
    "reproduce",
    "seconds",
    "sparkline",
    "templates_of",
    "threshold_table",
]
