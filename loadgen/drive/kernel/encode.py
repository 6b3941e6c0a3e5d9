"""A request as HTTP/1.1 has it on the wire, and where it goes."""

from __future__ import annotations

import re
from urllib.parse import unquote

import httpcore
import httpx

from loadgen.drive.kernel.pool import Origin
from loadgen.drive.post import Destination, Post

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[^\x00\r\n]*")
_PORTS = {"http": 80, "https": 443}


def origin_of(request: httpx.Request) -> Origin:
    """Where a request goes. A Unix socket's path is the extension `uds`, or the host of an `http+unix`
    URL (percent-encoded, and lower case only: hosts have no case). The extension `sni_hostname` is httpx's own.
    """
    url = request.url
    scheme, host = url.scheme, url.raw_host.decode("ascii")
    if scheme == "http+unix":
        return Origin("localhost", 0, None, unquote(host))
    if scheme not in _PORTS or not host:
        raise httpcore.UnsupportedProtocol(f"no http or https URL: {scheme}:")
    sni = request.extensions.get("sni_hostname") or host
    path = request.extensions.get("uds")
    return Origin(host, url.port or _PORTS[scheme], sni if scheme == "https" else None, path)


def encode_head(destination: Destination) -> bytes:
    """The head of every post to a destination, up to where its own lines begin (`encode_post`)."""
    request = httpx.Request("POST", destination.url, headers=destination.headers)
    request.headers.pop("content-length", None)
    return encode(request, b"").removesuffix(b"\r\n")


def encode_post(head: bytes, post: Post) -> bytes:
    """Head and body. The request id is our own: hexadecimal digits and dashes."""
    if post.destination.named:
        head = b"%sx-request-id: %s\r\n" % (head, post.request_id.encode("ascii"))
    return b"%scontent-length: %d\r\n\r\n%s" % (head, len(post.body), post.body)


def encode(request: httpx.Request, body: bytes) -> bytes:
    """Head and body. Raises `httpcore.LocalProtocolError` for a header that would break the head."""
    url = request.url
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), url.raw_path)]
    chunked = False
    for name, value in request.headers.raw:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise httpcore.LocalProtocolError(f"illegal header {name!r}")
        lowered = name.lower()
        if lowered == b"host" and url.scheme == "http+unix":
            value = b"localhost"
        chunked = chunked or lowered == b"transfer-encoding"
        lines.append(b"%s: %s" % (name, value))
    if chunked and body:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    elif chunked:
        body = b"0\r\n\r\n"
    return b"\r\n".join([*lines, b"", body])
