"""What a server's TLS is: versions it takes, its certificate, and whether it speaks plain HTTP beside it.

Blocking: called in a thread. A handshake sends no request.
"""

from __future__ import annotations

import socket
import ssl
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

VERSIONS = (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
_NAMES = {VERSIONS[0]: "1.0", VERSIONS[1]: "1.1", VERSIONS[2]: "1.2", VERSIONS[3]: "1.3"}
_OURS = {"1.0": ssl.HAS_TLSv1, "1.1": ssl.HAS_TLSv1_1, "1.2": ssl.HAS_TLSv1_2, "1.3": ssl.HAS_TLSv1_3}


@dataclass(frozen=True, slots=True)
class Certificate:
    """`problem`: why the chain or the name is not accepted, None if it is. `days`: left; None: not known."""

    problem: str | None
    days: float | None
    subject: str | None


def version(
    host: str, port: int, number: int, timeout_s: float, address: str | None = None
) -> tuple[str, bool | None, str]:
    """("1.2", whether the server takes it, why or how): None where this machine's own TLS cannot ask."""
    wanted = VERSIONS[number]
    name = _NAMES[wanted]
    if not _OURS[name]:
        return name, None, "this machine's OpenSSL does not know it"
    context = _unchecked()
    try:
        with warnings.catch_warnings():  # old versions are what is asked for here
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = wanted
            context.set_ciphers("ALL:@SECLEVEL=0")
    except (ssl.SSLError, ValueError) as error:
        return name, None, f"this machine's OpenSSL cannot offer it ({error})"
    try:
        with (
            _connected(address or host, port, timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=host) as tls,
        ):
            return name, True, f"handshake with {(tls.cipher() or ('?',))[0]}"
    except ssl.SSLError as error:
        if "NO_PROTOCOLS_AVAILABLE" in str(error) or "NO_CIPHERS_AVAILABLE" in str(error):
            return name, None, "this machine's OpenSSL is set up not to offer it"
        return name, False, f"handshake refused ({error.reason or type(error).__name__})"
    except (ConnectionError, EOFError) as error:
        return name, False, f"the connection was closed ({type(error).__name__})"
    except OSError as error:
        return name, None, f"no connection ({error})"


def certificate(
    host: str, port: int, context: ssl.SSLContext, timeout_s: float, address: str | None = None
) -> Certificate:
    """Chain and name by the arm's own authorities. Where they do not do, the days left are still read, of the
    certificate trusted for that alone. Raises OSError where there is no connection."""
    try:
        found = _peer(host, port, context, timeout_s, address)
        return Certificate(None, _days(found), _subject(found))
    except ssl.SSLCertVerificationError as error:
        problem = error.verify_message or str(error)
    except ssl.SSLError as error:
        return Certificate(error.reason or str(error), None, None)
    try:
        alone = _unchecked()
        with (
            _connected(address or host, port, timeout_s) as plain,
            alone.wrap_socket(plain, server_hostname=host) as tls,
        ):
            der = tls.getpeercert(binary_form=True) or b""
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname = False
        trusting.load_verify_locations(cadata=der)
        trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        found = _peer(host, port, trusting, timeout_s, address)
    except ssl.SSLCertVerificationError as error:  # its time is over, or has not begun
        return Certificate(problem, 0.0 if "expired" in str(error) else None, None)
    except (ssl.SSLError, OSError, ValueError):
        return Certificate(problem, None, None)
    return Certificate(problem, _days(found), _subject(found))


def plain_http(host: str, port: int, timeout_s: float, address: str | None = None) -> str | None:
    """The status line where something answers HTTP without TLS; None: nothing does."""
    ask = f"HEAD / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode()
    try:
        with _connected(address or host, port, timeout_s) as plain:
            plain.sendall(ask)
            answer = plain.recv(256)
    except OSError:
        return None
    line = answer.split(b"\r\n", 1)[0].decode("latin-1")
    return line if line.startswith("HTTP/") else None


def _connected(host: str, port: int, timeout_s: float) -> socket.socket:
    return socket.create_connection((host, port), timeout_s)


def _unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _peer(host: str, port: int, context: ssl.SSLContext, timeout_s: float, address: str | None) -> dict[str, Any]:
    with _connected(address or host, port, timeout_s) as plain, context.wrap_socket(plain, server_hostname=host) as tls:
        return dict(tls.getpeercert() or {})


def _days(found: dict[str, Any]) -> float | None:
    end = found.get("notAfter")
    if not isinstance(end, str):
        return None
    return (ssl.cert_time_to_seconds(end) - datetime.now(UTC).timestamp()) / 86_400


def _subject(found: dict[str, Any]) -> str | None:
    names = [value for part in found.get("subject", ()) for key, value in part if key == "commonName"]
    names += [value for kind, value in found.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    return ", ".join(dict.fromkeys(names)) or None
