"""A page of figures and tables as one HTML file that opens from disk and asks nothing of any host.

Its script runs only as it was written here: the content security policy names the hash of each script and allows no
connection. Names of servers and scenarios are text everywhere: escaped in HTML, in the inline data and in figures.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from loadgen.errors import StorageError
from loadgen.redact import printable
from loadgen.report.page import SPACE, Cell, Figure, Table, behind

_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page_of(template: str, shown: Sequence[Figure], context: Mapping[str, Any]) -> str:
    """The template with the style, the scripts, the figures and their tables. Raises StorageError where plotly's script
    is not installed."""
    script, plotly, plotly_hash = _template("report.js"), *_plotly()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}' '{plotly_hash}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    common = {
        "policy": policy, "style": Markup(_template("report.css")), "script": Markup(script),
        "plotly": Markup(plotly), **drawn_on_page(shown),
    }  # fmt: skip
    return _environment().get_template(template).render({**common, **context})


def drawn_on_page(shown: Sequence[Figure]) -> dict[str, Any]:
    """`figures` for the macro `figures_` of parts.html, and `data` for the script that draws them."""
    return {
        "data": _json([_figure(f) for f in shown]),
        "figures": [(f, [behind(p) for p in f.panels]) for f in shown],
    }


def templates_of(package: str, folder: str) -> Environment:
    """Templates of another room beside those here: parts.html is drawn alike everywhere; names are text there, too."""
    return _environment_of(ChoiceLoader([PackageLoader(package, folder), _loader()]))


def assets() -> dict[str, bytes]:
    """What pages of a server load instead of holding it: the style, the script that draws figures, plotly's script.
    Raises StorageError where plotly's is not installed."""
    return {
        "report.css": _template("report.css").encode(),
        "figures.js": _template("report.js").encode(),
        "plotly.js": _plotly_script(),
    }


def lines(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested facts one a line, their keys joined by points."""
    found: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += lines(value, f"{prefix}{key}.")
        elif value is not None:
            found.append((f"{prefix}{key}", f"{value:.4g}" if isinstance(value, float) else str(value)))
    return found


def _figure(figure: Figure) -> dict[str, Any]:
    """What the page's script draws: the tables' numbers, with their text for who points at one."""
    return {"id": figure.id, "panels": [asdict(panel) for panel in figure.panels]}


def _json(value: Any) -> Markup:
    """JSON that may stand inside a script element: nothing in it can end the element or a line."""
    text = orjson.dumps(_clean(value)).decode()
    return Markup("".join(_ESCAPED.get(c, c) for c in text))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {key: _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list | tuple) else value


def _text(text: str) -> str:
    """No control or direction characters; the fixed spaces of our numbers stay."""
    return SPACE.join(map(printable, text.split(SPACE)))


def _final(value: Any) -> Any:
    return _text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _notes(table: Table) -> dict[str, int]:
    """Reasons of a table's cells, each once, numbered as it stands below."""
    whys = (_cell(cell).why for row in table.rows for cell in row.cells)
    return {why: i + 1 for i, why in enumerate(dict.fromkeys(filter(None, whys)))}


def _cell(value: str | Cell) -> Cell:
    return Cell(value) if isinstance(value, str) else value


@cache
def _environment() -> Environment:
    return _environment_of(_loader())


def _loader() -> BaseLoader:
    return PackageLoader("loadgen", "report/templates")


def _environment_of(loader: BaseLoader) -> Environment:
    made = Environment(
        loader=loader, autoescape=True, finalize=_final,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"cell": _cell, "notes": _notes}
    return made


@cache
def _template(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _plotly() -> tuple[str, str]:
    """plotly.js: gzip in base64, and the hash of its text, by which alone it may run."""
    script = _plotly_script()
    return base64.b64encode(gzip.compress(script, 6, mtime=0)).decode(), _hash(script.decode())


@cache
def _plotly_script() -> bytes:
    """plotly.js of the installed package."""
    spec = find_spec("plotly")
    places = (spec.submodule_search_locations if spec else None) or ["plotly"]
    path = Path(places[0]) / "package_data" / "plotly.min.js"
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"the report's figures need plotly.js: {path}: {error.strerror}") from None
