"""HTML read as strictly as the pages are to be written: what is opened is closed, in order; and what helps people who
do not look or do not point."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"})
#: Elements with an end tag that HTML lets one leave out are closed here all the same.
LABELLED = frozenset({"select", "textarea", "progress"})


@dataclass
class Element:
    name: str
    attributes: dict[str, str]
    parent: Element | None
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, name: str) -> list[Element]:
        found = [child for child in self.children if child.name == name]
        return found + [inner for child in self.children for inner in child.all(name) if inner not in found]

    @property
    def words(self) -> str:
        """All of its text, in one line."""
        return " ".join((self.text + " " + " ".join(child.words for child in self.children)).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {}, None)
        self.at = self.root
        self.problems: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = Counter(name for name, _ in attrs)
        self.problems += [f"{tag}: {name} twice" for name, n in names.items() if n > 1]
        made = Element(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.children.append(made)
        if tag not in VOID:
            self.at = made

    def handle_endtag(self, tag: str) -> None:
        if tag != self.at.name or self.at.parent is None:
            self.problems.append(f"</{tag}> within <{self.at.name}> at {self.getpos()}")
            return
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.text += data


def read(page: str) -> tuple[Element, list[str]]:
    """The document, and everything that is not as it should be."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    root, problems = reader.root, reader.problems
    if reader.at is not root:
        problems.append(f"<{reader.at.name}> is never closed")
    if not page.lstrip().lower().startswith("<!doctype html>"):
        problems.append("no doctype")
    return root, [*problems, *_of_the_page(root), *_forbidden(root), *_unnamed(root)]


def _everything(root: Element) -> list[Element]:
    return [inner for child in root.children for inner in (child, *_everything(child))]


def _of_the_page(root: Element) -> list[str]:
    html, titles = root.all("html"), [t.words for t in root.all("title")]
    found = [] if len(html) == 1 and html[0].attributes.get("lang") == "en" else ["no language"]
    found += [] if len(titles) == 1 and titles[0] else ["no title"]
    for name in ("main", "h1", "header"):
        found += [] if len(root.all(name)) == 1 else [f"not one <{name}>"]
    ids = Counter(e.attributes["id"] for e in _everything(root) if "id" in e.attributes)
    found += [f"id {name} {n} times" for name, n in ids.items() if n > 1]
    for e in _everything(root):
        for name in ("aria-labelledby", "aria-describedby", "for"):
            found += [f"{name} {one}: no such id" for one in e.attributes.get(name, "").split() if one not in ids]
        if e.name == "a" and e.attributes.get("href", "").startswith("#") and e.attributes["href"][1:] not in ids:
            found.append(f"{e.attributes['href']}: leads nowhere")
    return found + _headings(root)


def _headings(root: Element) -> list[str]:
    levels = [int(e.name[1]) for e in _everything(root) if e.name in ("h1", "h2", "h3", "h4")]
    return [f"h{a} is followed by h{b}" for a, b in pairwise(levels) if b > a + 1]


def _forbidden(root: Element) -> list[str]:
    """What the policy of the pages would refuse."""
    found = []
    for e in _everything(root):
        found += [f"{e.name} has {name}" for name in e.attributes if name.startswith("on") or name == "style"]
        if e.name == "style" or (e.name == "script" and not e.attributes.get("src") and "type" not in e.attributes):
            found.append(f"inline {e.name}")
        for name in ("src", "href", "action"):
            if "//" in e.attributes.get(name, "") or e.attributes.get(name, "").lower().startswith("javascript:"):
                found.append(f"{e.name} leads elsewhere: {e.attributes[name]}")
    return found


def _unnamed(root: Element) -> list[str]:
    labels = {e.attributes["for"] for e in _everything(root) if e.name == "label" and "for" in e.attributes}
    found = []
    for e in _everything(root):
        a = e.attributes
        field = e.name in LABELLED or (e.name == "input" and a.get("type") != "hidden")
        if field and a.get("id") not in labels and not a.get("aria-label"):
            found.append(f"<{e.name} name={a.get('name')}> has no label")
        if e.name in ("button", "a", "summary") and not (e.words or a.get("aria-label")):
            found.append(f"<{e.name}> says nothing")
        if e.name in ("nav", "iframe") and not (a.get("aria-label") or a.get("title")):
            found.append(f"<{e.name}> has no name")
        if e.name == "table" and not e.all("caption"):
            found.append("a table has no caption")
        if e.name == "th" and a.get("scope") not in ("col", "row"):
            found.append("a table's head has no scope")
        if a.get("role") in ("region", "img") and not (a.get("aria-label") or a.get("aria-labelledby")):
            found.append(f"role {a['role']} has no name")
        if e.name == "form" and a.get("method") == "post" and not any(
            i.attributes.get("name") == "csrf_token" for i in e.all("input")
        ):  # fmt: skip
            found += [] if a.get("action") == "/login" else [f"the form to {a.get('action')} has no CSRF token"]
    return found
