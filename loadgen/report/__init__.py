"""What people read. The numbers are the summary's; nothing is computed here."""

from loadgen.report.checklist import checklist_markdown, render_checklist
from loadgen.report.comparison import render_runs_compared
from loadgen.report.environment import render_environment
from loadgen.report.experiment import render_experiment
from loadgen.report.format import count, number, percent, ratio, seconds, sparkline
from loadgen.report.history import render_runs
from loadgen.report.html import render_html
from loadgen.report.junit import render_junit
from loadgen.report.markdown import render_markdown
from loadgen.report.planned import planned_load, render_plan
from loadgen.report.progress import RunProgress
from loadgen.report.reproduce import reproduce
from loadgen.report.sweep import render_sweep_terminal
from loadgen.report.sweep_html import render_sweep_html
from loadgen.report.sweep_planned import render_sweep_plan
from loadgen.report.terminal import render_terminal
from loadgen.report.verdict_lines import render_verdict

__all__ = [
    "RunProgress",
    "checklist_markdown",
    "count",
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
]
