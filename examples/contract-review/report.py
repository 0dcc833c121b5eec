"""The readable reports: Markdown, and one HTML page that needs nothing else.

Everything that comes from a contract or a file name is escaped.
"""

import re
from html import escape
from pathlib import Path
from typing import Any

from facts import Fact, Finding, count, facts_of, parties_of

Quote = dict[str, Any]

TITLE = "Contract review"
LEVELS = ("high", "medium", "low")
_CSS = Path(__file__).with_name("report.css")
_HEADINGS = "".join(f"<th>{h}</th>" for h in "# Contract Parties Made Ends Law Risks".split())
BAR = "\\|"
_HOW = "Every value was read by rules and stands with the words it rests on."
_MARKUP = re.compile(
    r"[\\`*\[\]|]|<(?=[A-Za-z/!?])|&(?=#?\w{1,32};)|~(?=~)|(?<!\w)_|_(?!\w)|^[#>+-]|(?<=^\d)[.)](?=\s)"
    r"|(?<=^\d\d)[.)](?=\s)"
)
_REVIEWED = {
    "in full": "",
    "simple": "Only its first lines were read: the full review failed.",
    "not": "It was not reviewed.",
}


def _sentence(findings: list[Finding]) -> str:
    full = sum(f["reviewed"] == "in full" for f in findings)
    noun = "contract" if len(findings) == 1 else "contracts"
    rest = len(findings) - full
    how = f"{full} reviewed in full, {rest} not" if rest else "all reviewed in full"
    return f"{len(findings)} {noun}: {how}."


# --- Markdown --------------------------------------------------------------------------------


def markdown_report(findings: list[Finding]) -> str:
    """The report as Markdown: a table of all contracts, then a section for each."""
    totals = ", ".join(f"{_total(findings, level)} {level}" for level in LEVELS)
    lines = [f"# {TITLE}", "", _sentence(findings), f"Risks: {totals}.", ""]
    lines += ["| # | Contract | Parties | Ends | Law | Risks |", "|--:|---|---|---|---|---|"]
    lines += [_md_row(n, f) for n, f in enumerate(findings, start=1)]
    for number, finding in enumerate(findings, start=1):
        lines += ["", *_md_section(number, finding)]
    return "\n".join(lines) + "\n"


def _md_row(number: int, finding: Finding) -> str:
    risks = ", ".join(f"{n} {level}" for level in LEVELS if (n := count(finding, level))) or "none"
    cells = [
        str(number),
        f"{_md(finding['title'])} ({_md_name(finding['file'])})",
        _md(parties_of(finding)) or "–",
        finding.get("dates", {}).get("expires") or "–",
        _md(finding.get("governing_law") or "–"),
        risks,
    ]
    return f"| {' | '.join(cells)} |"


def _md_section(number: int, finding: Finding) -> list[str]:
    lines = [f"## {number}. {_md(finding['title'])}", "", f"File: {_md_name(finding['file'])}", ""]
    lines += [text, ""] if (text := _REVIEWED[finding["reviewed"]]) else []
    if said := finding.get("reading"):
        lines += [f"Read by {_reader(said)}, {said['risk']} risk: {_md(said['summary'])}", ""]
        lines += [*(f"> {_md(quote)}" for quote in said["quotes"]), ""]
    lines += [f"- **{risk['level']}**: {_md(risk['text'])}" for risk in finding["risks"]]
    lines += [""] if finding["risks"] else ["No risks were flagged.", ""]
    for fact, quotes in _with_quotes(finding):
        lines.append(f"- {fact.label}: {_md(fact.value)}")
        lines += [f"  > {_md(q['text'])} [{q['start']}–{q['end']}]" for q in quotes]
    if first := finding.get("first_lines"):
        lines += ["", *(f"> {_md(line)}" for line in first)]
    return lines


def _md(text: str) -> str:
    """White space folded, and what Markdown or HTML would read as markup there escaped."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


def _md_name(name: str) -> str:
    """A file name as code: no character of it is changed (`|` excepted, for the table's sake)."""
    fence = "``" if "`" in name else "`"
    return f"{fence}{name.replace('|', BAR)}{fence}"


# --- HTML ------------------------------------------------------------------------------------


def html_report(findings: list[Finding]) -> str:
    """The report as one HTML page, for screens of any width and for paper."""
    rows = "\n".join(_row(n, f) for n, f in enumerate(findings, start=1))
    sections = "\n".join(_section(n, f) for n, f in enumerate(findings, start=1))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{TITLE}</title>
<style>
{_CSS.read_text("utf-8")}</style>
</head>
<body>
<header id="top">
<h1>{TITLE}</h1>
<p>{escape(_sentence(findings))} {_HOW}</p>
</header>
<main>
{_tiles(findings)}
<div class="card">
<table class="list">
<thead><tr>{_HEADINGS}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
{sections}
</main>
<footer>A rule reads words, not intentions: take a flag as a place to look, not as advice.</footer>
</body>
</html>
"""


def _tiles(findings: list[Finding]) -> str:
    tiles = [f"<li><b>{len(findings)}</b><span>contracts</span></li>"]
    for level in LEVELS:
        total = _total(findings, level)
        noun = "risk" if total == 1 else "risks"
        tiles.append(f'<li class="{level}"><b>{total}</b><span>{level} {noun}</span></li>')
    return f'<ul class="tiles">{"".join(tiles)}</ul>'


def _row(number: int, finding: Finding) -> str:
    dates, lang = finding.get("dates", {}), _lang(finding)
    names = "; ".join(party["name"] for party in finding.get("parties", []))
    return f"""<tr>
<td class="number">{number}</td>
<td{lang}><a class="title" href="#c{number}">{escape(finding["title"])}</a>{_file(finding)}</td>
<td data-label="Parties"{lang}>{_or_dash(names)}</td>
<td data-label="Made" class="day">{_or_dash(dates.get("agreement"))}</td>
<td data-label="Ends" class="day">{_or_dash(dates.get("expires"))}</td>
<td data-label="Law">{_or_dash(finding.get("governing_law"))}</td>
<td class="risks">{_badges(finding)}</td>
</tr>"""


def _badges(finding: Finding) -> str:
    badges = [
        f'<span class="badge {risk["level"]}" title="{risk["level"]}: {escape(risk["text"])}">'
        f"{escape(risk['code'].replace('_', ' '))}</span>"
        for risk in finding["risks"]
    ]
    return "".join(badges) or '<span class="badge none">none</span>'


def _section(number: int, finding: Finding) -> str:
    note = _REVIEWED[finding["reviewed"]]
    parts = [
        f'<section class="contract card" id="c{number}">',
        f'<h2{_lang(finding)}><span class="count">{number}.</span>{escape(finding["title"])}'
        f"{_file(finding)}</h2>",
        f"<p>{escape(note)}</p>" if note else "",
        _reading(finding),
        _risk_list(finding),
        _fact_list(finding),
        _first_lines(finding),
        '<a class="top" href="#top">to the top</a>',
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _reading(finding: Finding) -> str:
    said = finding.get("reading")
    if not said:
        return ""
    quotes = "".join(f"<blockquote>{escape(quote)}</blockquote>" for quote in said["quotes"])
    return (
        f'<div{_lang(finding)}><p><span class="badge {said["risk"]}">{said["risk"]}</span>'
        f"Read by {_reader(said)}: {escape(said['summary'])}</p>{quotes}</div>"
    )


def _risk_list(finding: Finding) -> str:
    if not finding["risks"]:
        return '<p><span class="badge none">no risks flagged</span></p>'
    items = (
        f'<li><span class="badge {risk["level"]}">{risk["level"]}</span>{escape(risk["text"])}</li>'
        for risk in finding["risks"]
    )
    return f'<ul class="risks">{"".join(items)}</ul>'


def _fact_list(finding: Finding) -> str:
    rows = [
        f"<dt>{escape(fact.label)}</dt><dd>{_value(fact)}{_quote_list(finding, quotes)}</dd>"
        for fact, quotes in _with_quotes(finding)
    ]
    return f"<dl>{''.join(rows)}</dl>" if rows else ""


def _value(fact: Fact) -> str:
    shown = escape(fact.value)
    return shown if fact.found else f'<span class="absent">{shown}</span>'


def _quote_list(finding: Finding, quotes: list[Quote]) -> str:
    return "".join(
        f"<blockquote{_lang(finding)}>{escape(quote['text'])} "
        f'<cite title="characters of the text">{quote["start"]}–{quote["end"]}</cite></blockquote>'
        for quote in quotes
    )


def _first_lines(finding: Finding) -> str:
    lines = "<br>".join(escape(line) for line in finding.get("first_lines", []))
    return f"<blockquote>{lines}</blockquote>" if lines else ""


def _file(finding: Finding) -> str:
    return f'<span class="file">{escape(finding["file"])}</span>'


def _or_dash(value: str | None) -> str:
    return escape(value) if value else '<span class="absent">–</span>'


def _lang(finding: Finding) -> str:
    return ' lang="zh"' if finding.get("language") == "zh" else ""


# --- both ------------------------------------------------------------------------------------


def _with_quotes(finding: Finding) -> list[tuple[Fact, list[Quote]]]:
    """The facts with their quotes; words that support several are shown with the first."""
    shown: set[int] = set()
    rows: list[tuple[Fact, list[Quote]]] = []
    for fact in facts_of(finding):
        quotes = [
            quote
            for quote in finding["quotes"]
            if quote["clause"] in fact.clauses and quote["start"] not in shown
        ]
        shown |= {quote["start"] for quote in quotes}
        rows.append((fact, quotes))
    return rows


def _reader(said: dict[str, Any]) -> str:
    return "the rules" if said.get("by") == "rules" else "a model"


def _total(findings: list[Finding], level: str) -> int:
    return sum(count(finding, level) for finding in findings)
