"""The rehearsal engine: real speculative sampling on small language models, in virtual or real time.

`Engine` is a pure step machine (submit, abort, step); `simulate` plays a whole plan through it in virtual time.
"""

from server_adapters.rehearsal.engine import Engine
from server_adapters.rehearsal.hardware import GPUS, MODELS, Gpu, ModelShape, Roofline
from server_adapters.rehearsal.models import Models, load_models
from server_adapters.rehearsal.simulate import (
    Case,
    Record,
    Simulation,
    SimulationPlan,
    Stage,
    StepRecord,
    corpus_cases,
    simulate,
)
from server_adapters.rehearsal.tokenizer import Tokenizer
from server_adapters.rehearsal.types import (
    TASK_TYPES,
    EngineConfig,
    EngineCounters,
    EngineGauges,
    EngineRequest,
    OutputFaults,
    QueueFullError,
    RequestError,
    RequestOutput,
    RequestTimes,
    SamplingParams,
    SpecStats,
    SpeculationConfig,
    StepResult,
    Switches,
    TaskType,
    TokenLogprobs,
)

__all__ = [
    "GPUS",
    "MODELS",
    "TASK_TYPES",
    "Case",
    "Engine",
    "EngineConfig",
    "EngineCounters",
    "EngineGauges",
    "EngineRequest",
    "Gpu",
    "ModelShape",
    "Models",
    "OutputFaults",
    "QueueFullError",
    "Record",
    "RequestError",
    "RequestOutput",
    "RequestTimes",
    "Roofline",
    "SamplingParams",
    "Simulation",
    "SimulationPlan",
    "SpecStats",
    "SpeculationConfig",
    "Stage",
    "StepRecord",
    "StepResult",
    "Switches",
    "TaskType",
    "TokenLogprobs",
    "Tokenizer",
    "corpus_cases",
    "load_models",
    "simulate",
]
