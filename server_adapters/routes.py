"""Routes of the server families that tell or change more than a user of the API needs (docs/access.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

#: `tells`: facts of the server. `changes`: its state, so it is never asked, only looked for.
Kind = Literal["tells", "changes"]

#: Of any server.
COMMON: Mapping[str, Kind] = {"/docs": "tells", "/redoc": "tells", "/openapi.json": "tells"}

_VLLM: Mapping[str, Kind] = {
    "/server_info": "tells", "/tokenizer_info": "tells", "/sleep": "changes", "/wake_up": "changes",
    "/reset_prefix_cache": "changes", "/reset_mm_cache": "changes", "/collective_rpc": "changes",
    "/pause": "changes", "/update_weights": "changes", "/start_profile": "changes",
    "/v1/load_lora_adapter": "changes", "/scale_elastic_ep": "changes",
}  # fmt: skip

#: By adapter, besides the common ones.
ROUTES: Mapping[str, Mapping[str, Kind]] = {
    "vllm": _VLLM,
    "openai": {"/server_info": "tells", "/sleep": "changes", "/flush_cache": "changes", "/start_profile": "changes"},
    "sglang": {
        "/server_info": "tells", "/model_info": "tells", "/flush_cache": "changes", "/set_internal_state": "changes",
        "/start_profile": "changes", "/abort_request": "changes", "/pause_generation": "changes",
        "/slow_down": "changes",
    },
    "tensorrt_llm": {"/server_info": "tells", "/perf_metrics": "changes", "/start_profile": "changes"},
    "tgi": {"/info": "tells"},
    "llamacpp": {"/props": "tells", "/slots": "tells"},
    "lmdeploy": {"/sleep": "changes", "/wakeup": "changes", "/abort_request": "changes"},
    "dynamo": {},
}  # fmt: skip
