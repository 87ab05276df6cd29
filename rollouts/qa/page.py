"""The report as one HTML file: no script, no link, nothing fetched. All text that a world or an agent wrote is escaped."""

import json
from collections.abc import Iterator
from html import escape

from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Report, Result, Verdict
from wardian.rollouts.qa.plots import plots

COLOURS = {Verdict.PASSED: "#2e7d32", Verdict.FAILED: "#b3261e", Verdict.MEASURED: "#1565c0", Verdict.NOT_JUDGED: "#8a6d00"}
STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd }
.verdict { color: white; border-radius: .3rem; padding: .05rem .5rem; white-space: nowrap }
pre { background: #f5f5f5; padding: .6rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere }
svg { max-width: 100%; height: auto } .finding { color: #b3261e }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report, lab: Lab) -> str:
    """Write the report. Needs matplotlib."""
    return "\n".join(_lines(report, lab))


def _lines(report: Report, lab: Lab) -> Iterator[str]:
    title = escape(f"QA of {report.world}")
    verdict = "All checks passed." if report.passed else f"Failed: {escape(', '.join(report.failed))}."
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield f"<title>{title}</title><style>{STYLE}</style></head><body>"
    yield f"<h1>{title}</h1><p>{verdict} {len(lab.own)} episodes, {report.wall_s:.1f} s, faults {escape(lab.faults.name)}.</p>"
    yield "<table><tr><th>check</th><th></th><th>question</th></tr>"
    for one in report.results:
        yield f'<tr><td><a href="#{one.name}">{one.name}</a></td><td>{_badge(one)}</td><td>{escape(one.question)}</td></tr>'
    yield "</table><h2>Plots</h2>"
    yield from (f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>" for caption, svg in plots(report, lab))
    for one in report.results:
        yield from _section(one)
    yield "</body></html>\n"


def _section(one: Result) -> Iterator[str]:
    yield f'<h2 id="{one.name}">{one.name} {_badge(one)}</h2><p>{escape(one.question)}</p>'
    if one.outcome.unjudged:
        yield f"<p>Not judged: {escape(one.outcome.unjudged)}.</p>"
    yield "<ul>"
    yield from (f'<li class="finding">{escape(text)}</li>' for text in one.outcome.findings)
    yield from (f"<li>{escape(text)}</li>" for text in one.outcome.evidence)
    yield f"</ul><pre>{escape(json.dumps(one.outcome.figures, indent=2))}</pre>"


def _badge(one: Result) -> str:
    verdict = one.outcome.verdict
    return f'<span class="verdict" style="background:{COLOURS[verdict]}">{escape(verdict.value)}</span>'
