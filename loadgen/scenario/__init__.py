"""What to ask for: checked models, loading, own prompts, limits."""

from loadgen.scenario.arms import Arm, SecretSource
from loadgen.scenario.base import Environment
from loadgen.scenario.canary import AT_LEAST, BY_COUNTERS, BY_PROBES, CanaryKeys, CanaryLimits, ProbeKeys, Webhook
from loadgen.scenario.canary_checks import WINDOW_BLOCKS
from loadgen.scenario.comparison import (
    ROUNDS,
    Comparison,
    DesignName,
    chosen_baseline,
    ends_by_time,
    refuse_segments,
)
from loadgen.scenario.drill import DRILL_SCRAPE_S, Drill, DrillLimits, DrillSide
from loadgen.scenario.known_answers import KnownAnswer, Match
from loadgen.scenario.launchers import CommandLauncher, Launcher, RehearsalLauncher, VllmLauncher
from loadgen.scenario.lengths import Empirical, Fixed, Length, LogNormal, Normal, PairedLengths, Uniform
from loadgen.scenario.limits import Limits, Safety, limits_of
from loadgen.scenario.load import LoadedScenario, load_scenario
from loadgen.scenario.metrics import AGGREGATES, LIVE_SELECTORS, METRICS, SELECTORS, Metric
from loadgen.scenario.model import DeadlineKeys, Scenario, Scrape, Slos, Warmup
from loadgen.scenario.prompts import OwnPrompt, PromptSet
from loadgen.scenario.quality import PassKind, PassTask, QualityKeys, QualityPass
from loadgen.scenario.reach import Reach, reach_of
from loadgen.scenario.schema import scenario_schema
from loadgen.scenario.secrets import read_secret
from loadgen.scenario.stages import ArrivalStage, ConcurrencyStage, Ramp, Stage
from loadgen.scenario.sweep import AxisValue, MaxRate, Sweep, SweepAxes, SweepSetting
from loadgen.scenario.sweep_checks import launched_arm
from loadgen.scenario.switch import (
    AdapterCall,
    Call,
    CommandCall,
    Direction,
    HttpCall,
    Switch,
    secrets_of,
    switch_secrets,
)
from loadgen.scenario.telemetry import Telemetry
from loadgen.scenario.thresholds import (
    Condition,
    Operator,
    Relative,
    Threshold,
    ThresholdError,
    ThresholdKeys,
    parse_threshold,
    read_thresholds,
)
from loadgen.scenario.tls import TlsKeys
from loadgen.scenario.workload import SamplingKeys, SharedPrefix, Task, Workload

__all__ = [
    "AGGREGATES",
    "AT_LEAST",
    "BY_COUNTERS",
    "BY_PROBES",
    "DRILL_SCRAPE_S",
    "LIVE_SELECTORS",
    "METRICS",
    "ROUNDS",
    "SELECTORS",
    "WINDOW_BLOCKS",
    "AdapterCall",
    "Arm",
    "ArrivalStage",
    "AxisValue",
    "Call",
    "CanaryKeys",
    "CanaryLimits",
    "CommandCall",
    "CommandLauncher",
    "Comparison",
    "ConcurrencyStage",
    "Condition",
    "DeadlineKeys",
    "DesignName",
    "Direction",
    "Drill",
    "DrillLimits",
    "DrillSide",
    "Empirical",
    "Environment",
    "Fixed",
    "HttpCall",
    "KnownAnswer",
    "Launcher",
    "Length",
    "Limits",
    "LoadedScenario",
    "LogNormal",
    "Match",
    "MaxRate",
    "Metric",
    "Normal",
    "Operator",
    "OwnPrompt",
    "PairedLengths",
    "PassKind",
    "PassTask",
    "ProbeKeys",
    "PromptSet",
    "QualityKeys",
    "QualityPass",
    "Ramp",
    "Reach",
    "RehearsalLauncher",
    "Relative",
    "Safety",
    "SamplingKeys",
    "Scenario",
    "Scrape",
    "SecretSource",
    "SharedPrefix",
    "Slos",
    "Stage",
    "Sweep",
    "SweepAxes",
    "SweepSetting",
    "Switch",
    "Task",
    "Telemetry",
    "Threshold",
    "ThresholdError",
    "ThresholdKeys",
    "TlsKeys",
    "Uniform",
    "VllmLauncher",
    "Warmup",
    "Webhook",
    "Workload",
    "chosen_baseline",
    "ends_by_time",
    "launched_arm",
    "limits_of",
    "load_scenario",
    "parse_threshold",
    "reach_of",
    "read_secret",
    "read_thresholds",
    "refuse_segments",
    "scenario_schema",
    "secrets_of",
    "switch_secrets",
]
