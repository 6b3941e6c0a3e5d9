"""What every model of a scenario is built from: strict types, URLs, files, and how a check refuses."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

Loc = tuple[str | int, ...]

Environment = Literal["production", "staging", "disposable"]
#: Far above any use: a slip of the keyboard must not overflow nanoseconds or fill the memory.
MAX_SECONDS = 10_000_000
MAX_INT = 10**12
#: requests of one stage
MAX_REQUESTS = 10_000_000
MAX_USERS = 100_000
#: of one prompt or answer
MAX_TOKENS = 10_000_000

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveInt = Annotated[int, Field(ge=1, le=MAX_INT)]
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
NotNegativeInt = Annotated[int, Field(ge=0, le=MAX_INT)]
#: more than no time
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]
#: no time, or some
SomeSeconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]
Share = Annotated[float, Field(ge=0, le=1)]


class Model(BaseModel):
    """Strict: "10", true and 1.0 are not the whole number they look like (F4); unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def refuse(problems: Iterable[tuple[Loc, str]]) -> None:
    """Raise one ValidationError with all `problems`: (key path below the model being checked, sentence).

    The key path travels in the error's context: pydantic's own paths also name branches of unions."""
    found: list[InitErrorDetails] = []
    for loc, message in problems:
        context = {"loc": loc, "key": "".join(f"{part}: " for part in loc[-1:]), "message": message}
        found.append(InitErrorDetails(type=PydanticCustomError("scenario", "{key}{message}", context), input=None))
    if found:
        raise ValidationError.from_exception_data("scenario", found)


def _split_url(url: str) -> None:
    """ValueError where `url` is not http(s)://host[:port][/path], or carries credentials."""
    if any(c.isspace() or ord(c) < 32 for c in url):
        raise ValueError("must be a URL without spaces or control characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL like http://host:8000 or https://host")
    if port == 0:
        raise ValueError("must name a port from 1 to 65535, or none")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must hold no user or password: use api_key, headers or proxy_auth")
    if parts.fragment:
        raise ValueError("must have no fragment (#…)")


def _base_url(url: str) -> str:
    _split_url(url)
    if "?" in url:
        raise ValueError("must have no query (?…)")
    url = url.rstrip("/")
    if url.endswith("/v1"):
        raise ValueError("must end before /v1: the adapter adds it")
    return url


def _page_url(url: str) -> str:
    _split_url(url)
    return url


def _proxy_url(url: str) -> str:
    _split_url(url)
    if urlsplit(url).path not in ("", "/") or "?" in url:
        raise ValueError("must end after the port: http(s)://host:port")
    return url.rstrip("/")


def _ip_text(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError("must be an IP address like 10.0.0.7 or fd00::7") from None


def _below_scenario(path: Path, info: ValidationInfo) -> Path:
    """Files are relative to the scenario file: `load_scenario` passes its folder as context["base"]."""
    path = path.expanduser() if path.parts[:1] == ("~",) else path
    return path if info.context is None else info.context["base"] / path


#: base URL of a server, without a trailing slash
BaseUrl = Annotated[str, AfterValidator(_base_url)]
#: URL of one page; may have a query
PageUrl = Annotated[str, AfterValidator(_page_url)]
#: URL of a proxy, without credentials
ProxyUrl = Annotated[str, AfterValidator(_proxy_url)]
#: an IPv4 or IPv6 address
IpText = Annotated[str, AfterValidator(_ip_text)]
#: written as text; relative to the scenario file
FilePath = Annotated[Path, Field(strict=False), AfterValidator(_below_scenario)]
