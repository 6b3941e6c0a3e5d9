"""The shapes of work: composes the rooms."""

from loadgen.experiment.canary import (
    CanaryOptions,
    CanaryResult,
    CanaryWatch,
    Checks,
    begun_lines,
    canary_keys,
    end_lines,
    list_canaries,
    new_canary_id,
    read_canary,
    read_windows,
    run_canary,
    signature,
    silent_s,
    true_now,
    window_lines,
)
from loadgen.experiment.ceiling import Ceiling, DoctorReport, save_doctor
from loadgen.experiment.check import CheckReport, check
from loadgen.experiment.checklist import checklist_from, evidence_of, read_evidence
from loadgen.experiment.comparing import Compared, compare_two, last_pass
from loadgen.experiment.demo import demo_rehearsal, demo_vllm
from loadgen.experiment.doctor import doctor
from loadgen.experiment.doctor_table import render_doctor
from loadgen.experiment.driving import DEFAULT_TRANSPORT, worker_count
from loadgen.experiment.ending import Ending, ending_of, worst_word
from loadgen.experiment.history import judged_word, list_judged, read_object
from loadgen.experiment.init import ServerReport, describe_server
from loadgen.experiment.judging import Judged, judge_run, save_found, save_judged, save_report
from loadgen.experiment.lengths import measure_lengths
from loadgen.experiment.preflight import Preflight, ReadyArm, preflight
from loadgen.experiment.progress import Progress
from loadgen.experiment.quality import run_quality
from loadgen.experiment.shapes import found_in, run_experiment
from loadgen.experiment.single import RunOptions, RunResult, run_scenario
from loadgen.experiment.sweep import SweepOptions, SweepResult, SweepWatch, run_sweep
from loadgen.experiment.sweep_planned import SweepPlanned, planned_sweep
from loadgen.experiment.sweep_results import is_sweep, list_sweeps, save_sweep, save_sweep_page, sweep_report
from loadgen.experiment.switch import Pulled, Switched, dry_run, pull
from loadgen.experiment.watch import Reading, watch
from loadgen.experiment.watch_metrics import WatchMetrics
from loadgen.experiment.watch_table import readings_line, readings_table

__all__ = [
    "DEFAULT_TRANSPORT",
    "CanaryOptions",
    "CanaryResult",
    "CanaryWatch",
    "Ceiling",
    "CheckReport",
    "Checks",
    "Compared",
    "DoctorReport",
    "Ending",
    "Judged",
    "Preflight",
    "Progress",
    "Pulled",
    "Reading",
    "ReadyArm",
    "RunOptions",
    "RunResult",
    "ServerReport",
    "SweepOptions",
    "SweepPlanned",
    "SweepResult",
    "SweepWatch",
    "Switched",
    "WatchMetrics",
    "begun_lines",
    "canary_keys",
    "check",
    "checklist_from",
    "compare_two",
    "demo_rehearsal",
    "demo_vllm",
    "describe_server",
    "doctor",
    "dry_run",
    "end_lines",
    "ending_of",
    "evidence_of",
    "found_in",
    "is_sweep",
    "judge_run",
    "judged_word",
    "last_pass",
    "list_canaries",
    "list_judged",
    "list_sweeps",
    "measure_lengths",
    "new_canary_id",
    "planned_sweep",
    "preflight",
    "pull",
    "read_canary",
    "read_evidence",
    "read_object",
    "read_windows",
    "readings_line",
    "readings_table",
    "render_doctor",
    "run_canary",
    "run_experiment",
    "run_quality",
    "run_scenario",
    "run_sweep",
    "save_doctor",
    "save_found",
    "save_judged",
    "save_report",
    "save_sweep",
    "save_sweep_page",
    "signature",
    "silent_s",
    "sweep_report",
    "true_now",
    "watch",
    "window_lines",
    "worker_count",
    "worst_word",
]
