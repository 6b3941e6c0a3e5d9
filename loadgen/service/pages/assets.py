"""Styles and scripts of the pages: files of this host alone, kept by browsers for as long as their text is the same."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated

from fastapi import Header, Response
from fastapi import Path as InPath

from loadgen.report import assets
from loadgen.service.api.base import router_of
from loadgen.service.problems import not_found

router = router_of("pages", prefix="")
_STATIC = Path(__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_KEPT = "public, max-age=31536000, immutable"
#: A style that plotly's script adds to every page unless an element has its id: no page here shows what it is for.
_OWN_STYLE = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')


@dataclass(frozen=True)
class Asset:
    name: str
    data: bytes

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.data, 6, mtime=0)

    @cached_property
    def url(self) -> str:
        """Another text has another URL."""
        return f"/assets/{hashlib.sha256(self.data).hexdigest()[:16]}/{self.name}"

    @property
    def type(self) -> str:
        return _TYPES[Path(self.name).suffix]


@cache
def all_assets() -> dict[str, Asset]:
    """Raises StorageError where plotly's script is not installed."""
    own = {file.name: file.read_bytes() for file in sorted(_STATIC.iterdir()) if file.suffix in _TYPES}
    return {name: Asset(name, data) for name, data in {**assets(), **own}.items()}


def url_of(name: str) -> str:
    return all_assets()[name].url


@cache
def plotly_style_ids() -> tuple[str, ...]:
    """Ids that keep plotly's script from adding styles, which the pages' policy would refuse, loudly."""
    return tuple(dict.fromkeys(found.decode() for found in _OWN_STYLE.findall(all_assets()["plotly.js"].data)))


@router.get("/assets/{version}/{name}", summary="A style or script of the pages", include_in_schema=False)
def asset(
    version: Annotated[str, InPath(max_length=64)],
    name: Annotated[str, InPath(max_length=64)],
    accept_encoding: Annotated[str, Header()] = "",
) -> Response:
    found = all_assets().get(name)
    if found is None or found.url != f"/assets/{version}/{name}":
        raise not_found("such file")
    packs = "gzip" in accept_encoding
    headers = {"Cache-Control": _KEPT, "Vary": "Accept-Encoding", **({"Content-Encoding": "gzip"} if packs else {})}
    return Response(found.packed if packs else found.data, media_type=found.type, headers=headers)
