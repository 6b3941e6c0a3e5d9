"""What to ask for: checked models, loading, own prompts, limits."""

from loadgen.scenario.access import AccessKeys
from loadgen.scenario.anomalies import AnomalyKeys
from loadgen.scenario.arms import Arm, SecretSource
from loadgen.scenario.base import BaseUrl, Environment, FilePath, Model, PageUrl, Seconds, refuse
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
from loadgen.scenario.limits import DEFAULTS, Limits, Safety, combine, limits_of
from loadgen.scenario.load import LoadedScenario, document_of, load_model, load_scenario, scenario_of, set_key
from loadgen.scenario.metrics import AGGREGATES, LIVE_SELECTORS, METRICS, SELECTORS, Metric
from loadgen.scenario.model import DeadlineKeys, Scenario, Scrape, Slos, Warmup
from loadgen.scenario.pinned import PinnedTransport
from loadgen.scenario.problems import sentences
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
from loadgen.scenario.yaml_text import Document

__all__ = [
    "AGGREGATES",
    "AT_LEAST",
    "BY_COUNTERS",
    "BY_PROBES",
    "DEFAULTS",
    "DRILL_SCRAPE_S",
    "LIVE_SELECTORS",
    "METRICS",
    "ROUNDS",
    "SELECTORS",
    "WINDOW_BLOCKS",
    "AccessKeys",
    "AdapterCall",
    "AnomalyKeys",
    "Arm",
    "ArrivalStage",
    "AxisValue",
    "BaseUrl",
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
    "Document",
    "Drill",
    "DrillLimits",
    "DrillSide",
    "Empirical",
    "Environment",
    "FilePath",
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
    "Model",
    "Normal",
    "Operator",
    "OwnPrompt",
    "PageUrl",
    "PairedLengths",
    "PassKind",
    "PassTask",
    "PinnedTransport",
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
    "Seconds",
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
    "combine",
    "document_of",
    "ends_by_time",
    "launched_arm",
    "limits_of",
    "load_model",
    "load_scenario",
    "parse_threshold",
    "reach_of",
    "read_secret",
    "read_thresholds",
    "refuse",
    "refuse_segments",
    "scenario_of",
    "scenario_schema",
    "secrets_of",
    "sentences",
    "set_key",
    "switch_secrets",
]
