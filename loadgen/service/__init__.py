"""The service: runs asked for over HTTP, watched live, kept, judged (docs/service.md).

The web framework is only imported by `serve`: the command line and the processes of runs do without it.
"""

from loadgen.service.config import ServiceConfig, load_config
from loadgen.service.tokens import new_token

__all__ = ["ServiceConfig", "load_config", "new_token"]
