"""YAML to plain values with a mark (file:line) for every key.

YAML 1.2 core rules, without the surprises of 1.1: `on`, `off`, `yes`, `no` are text; so are 1:30,
1_000, 010 and dates. Not-a-number and infinity are not numbers here. A key that stands twice is an error.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from loadgen.scenario.base import Loc

MAX_BYTES = 1 << 20
#: aliases multiply: a small file must not become a huge value
MAX_NODES = 200_000

_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,30})|0x[0-9a-fA-F]{1,16}|0o[0-7]{1,20}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class _Loader(yaml.SafeLoader):
    """Resolves plain scalars by the rules above; everything else as PyYAML's safe loader."""


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(f"({_INT.pattern})$"), list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"({_FLOAT.pattern})$"), list("-+.0123456789"))


@dataclass
class Document:
    """`value` as written; `marks`: where each key and list item stands; `problems`: whole sentences."""

    name: str
    value: Any = None
    marks: dict[Loc, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def where(self, loc: Loc) -> str:
        """The mark of `loc`, else of the nearest key above it."""
        while loc and loc not in self.marks:
            loc = loc[:-1]
        return self.marks.get(loc, self.name)


def parse(text: str, name: str) -> Document:
    """`name` is the file in marks and problems. Never raises: what is wrong is in `problems`."""
    document = Document(name)
    try:
        node = yaml.compose(text, _Loader)
        if node is not None:
            document.marks[()] = f"{name}:{node.start_mark.line + 1}"
            document.value = _Walk(document).value(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = name if mark is None else f"{name}:{mark.line + 1}"
        what = ", ".join(t for t in (error.context, error.problem) if t)
        document.problems.append(f"{at}: is not YAML: {what}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        document.problems.append(f"{name}:{line}: is not YAML: a character that is not allowed ({error.reason})")
    except (ValueError, OverflowError):
        document.problems.append(f"{name}: is not YAML: an escape names no character")
    except RecursionError:
        document.problems.append(f"{name}: is nested too deeply")
    except _TooLarge:
        document.problems.append(f"{name}: aliases expand to more than {MAX_NODES:,} values")
    return document


class _TooLarge(Exception):
    pass


class _Walk:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.left = MAX_NODES

    def value(self, node: yaml.Node, loc: Loc) -> Any:
        self.left -= 1
        if self.left < 0:
            raise _TooLarge
        if isinstance(node, yaml.MappingNode) and node.tag.endswith(":map"):
            return self._mapping(node, loc)
        if isinstance(node, yaml.SequenceNode) and node.tag.endswith(":seq"):
            for i, item in enumerate(node.value):
                self.document.marks[(*loc, i)] = self._at(item)
            return [self.value(item, (*loc, i)) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        return self._refuse(node, f"the tag {node.tag} is not allowed")

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, "a key must be plain text")
                continue
            key = key_node.value
            if not _encodable(key):
                self._refuse(key_node, "half of a surrogate pair is not text")
                continue
            here: Loc = (*loc, key)
            if key in found:
                self._refuse(key_node, f"{dotted(here)}: stands here twice; first at {self.document.marks[here]}")
                continue
            self.document.marks[here] = self._at(key_node)
            found[key] = self.value(value_node, here)
        return found

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text: str = node.value
        kind = node.tag.rsplit(":", 1)[-1]
        if kind == "str":
            return text if _encodable(text) else self._refuse(node, "half of a surrogate pair is not text")
        if kind == "null" and text in ("", "~", "null", "Null", "NULL"):
            return None
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind == "int" and _INT.fullmatch(text):
            return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
        if kind == "float" and _FLOAT.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        return self._refuse(node, f'"{text[:40]}" is not a value that is allowed here ({node.tag})')

    def _refuse(self, node: yaml.Node, message: str) -> None:
        self.document.problems.append(f"{self._at(node)}: {message}")

    def _at(self, node: yaml.Node) -> str:
        return f"{self.document.name}:{node.start_mark.line + 1}"


def _encodable(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def dotted(loc: Loc) -> str:
    return ".".join(str(part) for part in loc)
