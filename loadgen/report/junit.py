"""The verdict as JUnit XML, for CI systems: one test case a threshold, one for the measurement."""

from __future__ import annotations

from xml.etree import ElementTree

from loadgen.redact import printable
from loadgen.verdict import Result, Verdict


def render_junit(verdict: Verdict) -> str:
    """Fail is a failure, inconclusive is skipped with its reason, so a green suite is a pass. The last case,
    "measurement", is skipped where something else keeps the run from passing."""
    measured = bool(verdict.obstacles)
    suite = ElementTree.Element("testsuite")
    for result in verdict.thresholds:
        _case(suite, verdict, result)
    case = ElementTree.SubElement(suite, "testcase", classname=_class(verdict), name="measurement")
    if measured:
        ElementTree.SubElement(case, "skipped", message=_text("; ".join(verdict.obstacles)))
    _note(case, [*verdict.obstacles, *verdict.notes])
    counted = {
        "name": "specload",
        "tests": len(verdict.thresholds) + 1,
        "failures": sum(r.ok is False for r in verdict.thresholds),
        "errors": 0,
        "skipped": sum(r.ok is None for r in verdict.thresholds) + measured,
    }
    for key, value in counted.items():
        suite.set(key, str(value))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, verdict: Verdict, result: Result) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=_class(verdict), name=_text(result.name))
    if result.ok is False:
        failure = ElementTree.SubElement(case, "failure", message=_text(result.sentence), type="threshold")
        failure.text = _text(f"{result.method}; {result.source}")
    elif result.ok is None:
        ElementTree.SubElement(case, "skipped", message=_text(result.sentence))
    _note(case, [result.sentence, f"{result.method}; source: {result.source}"])


def _note(case: ElementTree.Element, lines: list[str]) -> None:
    if lines:
        ElementTree.SubElement(case, "system-out").text = _text("\n".join(lines))


def _class(verdict: Verdict) -> str:
    return _text(f"specload.{verdict.run_id}")


def _text(text: str) -> str:
    """XML 1.0 has no control characters, and no way to write them."""
    return "".join(c for c in printable(text) if c in "\t\n" or (c >= " " and c not in "\ufffe\uffff"))
