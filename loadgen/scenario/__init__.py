"""What to ask for: checked models, loading, own prompts, limits."""

from loadgen.scenario.arms import Arm, SecretSource
from loadgen.scenario.base import Environment
from loadgen.scenario.lengths import Empirical, Fixed, Length, LogNormal, Normal, PairedLengths, Uniform
from loadgen.scenario.limits import Limits, Safety, limits_of
from loadgen.scenario.load import LoadedScenario, load_scenario
from loadgen.scenario.model import DeadlineKeys, Scenario, Scrape, Slos, Warmup
from loadgen.scenario.prompts import OwnPrompt, PromptSet
from loadgen.scenario.reach import Reach, reach_of
from loadgen.scenario.schema import scenario_schema
from loadgen.scenario.secrets import read_secret
from loadgen.scenario.stages import ArrivalStage, ConcurrencyStage, Ramp, Stage
from loadgen.scenario.tls import TlsKeys
from loadgen.scenario.workload import SamplingKeys, SharedPrefix, Task, Workload

__all__ = [
    "Arm",
    "ArrivalStage",
    "ConcurrencyStage",
    "DeadlineKeys",
    "Empirical",
    "Environment",
    "Fixed",
    "Length",
    "Limits",
    "LoadedScenario",
    "LogNormal",
    "Normal",
    "OwnPrompt",
    "PairedLengths",
    "PromptSet",
    "Ramp",
    "Reach",
    "Safety",
    "SamplingKeys",
    "Scenario",
    "Scrape",
    "SecretSource",
    "SharedPrefix",
    "Slos",
    "Stage",
    "Task",
    "TlsKeys",
    "Uniform",
    "Warmup",
    "Workload",
    "limits_of",
    "load_scenario",
    "reach_of",
    "read_secret",
    "scenario_schema",
]
