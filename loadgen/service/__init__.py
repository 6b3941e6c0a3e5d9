"""The service: runs asked for over HTTP, watched live, kept, judged (docs/service.md).

The web framework is only imported where it is served: the command line and the processes of runs do without it.
"""

from collections.abc import Callable

from loadgen.service.config import TOKEN_NAME, ServiceConfig, load_config
from loadgen.service.roles import Role
from loadgen.service.tokens import new_token

__all__ = ["TOKEN_NAME", "Role", "ServiceConfig", "load_config", "new_token", "serve"]


def serve(config: ServiceConfig, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. Raises ScenarioError or StorageError where it cannot begin."""
    from loadgen.service.serving import run_service  # see above

    run_service(config, say)
