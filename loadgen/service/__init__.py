"""The service: runs asked for over HTTP, watched live, kept, judged (docs/service.md).

The web framework is only imported where it is served: the command line and the processes of runs do without it.
"""

from collections.abc import Callable
from pathlib import Path

from loadgen.service.config import TOKEN_NAME, ServiceConfig, load_config
from loadgen.service.roles import Role
from loadgen.service.tokens import new_token
from loadgen.verdict import AuditEvidence

__all__ = [
    "TOKEN_NAME", "Role", "ServiceConfig", "check_config", "load_config", "new_token", "serve", "write_audit_evidence",
]  # fmt: skip


def check_config(config: ServiceConfig) -> list[str]:
    """What to say of a configuration that `serve` takes; nothing is served. Raises ScenarioError as `serve` does."""
    from loadgen.service.checking import check  # names of hosts are only read here

    return check(config)


def serve(config: ServiceConfig, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. Raises ScenarioError or StorageError where it cannot begin."""
    from loadgen.service.serving import run_service  # see above

    run_service(config, say)


def write_audit_evidence(config: ServiceConfig, path: Path) -> AuditEvidence:
    """What `specload gate --checklist` reads of the audit log. Raises StorageError."""
    from loadgen.service.evidence import write_evidence  # the registry is only opened here

    return write_evidence(config.folders.database, path)
