"""What is known of an arm's hardware beside its server's counters: where it is looked at, and what it costs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from loadgen.scenario.base import MAX_SECONDS, Loc, Model, PageUrl, Positive, PositiveInt, refuse

#: Index of a GPU
_Index = Annotated[int, Field(ge=0, le=1023)]
_Uuid = Annotated[str, Field(min_length=1)]


class Telemetry(Model):
    """GPUs and processes of an arm, and their price (docs/resources.md). Not named is absent, with its reason."""

    nvml: list[_Index | _Uuid] = Field(
        default_factory=list, description="GPUs of this machine that NVML is asked about: index or UUID"
    )
    gpu_metrics_urls: list[PageUrl] = Field(
        default_factory=list,
        description="pages of GPU exporters (dcgm-exporter, nvidia_gpu_exporter, AMD's); they are sent no header of "
        "the arm",
    )
    devices: list[_Index | _Uuid] = Field(
        default_factory=list,
        description="GPUs of these pages that are the arm's: index, UUID, or either with /MIG instance; default: all",
    )
    pid: PositiveInt | None = Field(
        None,
        description="process of a server on this machine, its children included; default: of a server that start keeps "
        "in the foreground",
    )
    interval_s: Annotated[float, Field(ge=0.1, le=MAX_SECONDS)] = Field(1.0, description="seconds between samples")
    gpus: Positive | None = Field(None, description="GPUs that are paid for; default: those that telemetry sees")
    price_per_gpu_hour: Positive | None = Field(
        None, description="price of one GPU for an hour, in any currency; of a CPU server: of the machine, with gpus: 1"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Telemetry:
        problems: list[tuple[Loc, str]] = []
        if self.devices and not self.gpu_metrics_urls:
            problems.append((("devices",), "needs gpu_metrics_urls: of NVML the GPUs are named by nvml"))
        for key in ("nvml", "gpu_metrics_urls", "devices"):
            items = getattr(self, key)
            problems += [((key, i), "is in the list twice") for i, item in enumerate(items) if item in items[:i]]
        refuse(problems)
        return self
