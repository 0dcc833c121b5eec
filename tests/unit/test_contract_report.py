"""The register, the reports and the checks of examples/contract-review."""

import csv
import hashlib
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from example_code import CONTRACT_REVIEW, example_module

facts: Any = example_module(CONTRACT_REVIEW, "facts")
report: Any = example_module(CONTRACT_REVIEW, "report")
register: Any = example_module(CONTRACT_REVIEW, "register")
checks: Any = example_module(CONTRACT_REVIEW, "review_checks")
rules: Any = example_module(CONTRACT_REVIEW, "contract_rules")

NASTY = 'x"><script>alert(1)</script>&amp; |`_*[a](b).txt'
CONTRACT = """=SUM(A1) & <b>Bold</b> Supply Agreement

This Agreement is made on 4 March 2024 between <i>Ampère</i> & Söhne Ltd ("<Seller>") and
B Ltd ("B").

It is governed by the laws of France & is <script>alert(2)</script> binding."""


class Page(HTMLParser):
    """The tags, texts and attribute values of an HTML page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.values: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_page_shows_what_a_contract_says_and_obeys_none_of_it() -> None:
    finding = rules.review_text(CONTRACT, NASTY)
    page = Page(report.html_report([finding]))
    assert not {"script", "i"} & set(page.tags)
    assert page.tags.count("b") == 4, "the numbers at the top, and nothing from the contract"
    assert NASTY in page.texts
    quotes = [quote["text"].split() for quote in finding["quotes"]]
    shown = [text.split() for text in page.texts]
    assert quotes and all(quote in shown for quote in quotes)


def test_a_page_needs_nothing_from_elsewhere() -> None:
    page = report.html_report([rules.review_text(CONTRACT, "a.txt")])
    parsed = Page(page)
    assert not {"link", "img", "script", "iframe"} & set(parsed.tags)
    assert all(value.startswith("#") for value in parsed.values if "/" in value or "#" in value)
    assert "url(" not in page and "@import" not in page


def test_every_contract_is_in_the_table_and_has_a_section() -> None:
    findings = [facts.not_reviewed(f"{n}.txt") for n in range(5)]
    page = report.html_report(findings)
    markdown = report.markdown_report(findings)
    for n in range(5):
        assert page.count(f'id="c{n + 1}"') == 1
        assert page.count(f'href="#c{n + 1}"') == 1
        assert f"\n## {n + 1}. " in markdown


def test_markdown_keeps_its_table_whatever_a_file_is_called() -> None:
    markdown = report.markdown_report([rules.review_text(CONTRACT, NASTY)])
    (row,) = [line for line in markdown.splitlines() if line.startswith("| 1 ")]
    assert row.replace("\\|", "").count("|") == 7
    prose = markdown.replace("``" + NASTY.replace("|", "\\|") + "``", "")
    assert "alert(1)" in markdown and "alert(1)" not in prose
    assert not re.search(r"(?<!\\)<(?:script|b>|i>)", prose)


def test_the_register_has_one_row_for_each_contract_also_for_one_not_reviewed() -> None:
    findings = [rules.review_text(CONTRACT, "b, c.txt"), facts.not_reviewed("a.pdf")]
    rows = list(csv.DictReader(io.StringIO(register.register_csv(findings))))
    assert [row["file"] for row in rows] == ["b, c.txt", "a.pdf"]
    assert [row["reviewed"] for row in rows] == ["in full", "not"]
    assert rows[0]["agreement_date"] == "2024-03-04"
    assert rows[0]["governing_law"] == "France"
    assert rows[1]["risks"] == "not_reviewed"


def test_no_cell_of_the_register_is_a_formula() -> None:
    finding = rules.review_text(CONTRACT, "a.txt")
    assert finding["title"].startswith("=")
    (row,) = csv.DictReader(io.StringIO(register.register_csv([finding])))
    assert not any((value or "").startswith(("=", "@", "+", "-")) for value in row.values())


# --- the checks of the task file --------------------------------------------------------------


@pytest.fixture
def reviewed(tmp_path: Path) -> dict[str, Any]:
    """The context of a check over two contracts that were reviewed as they should be."""
    folder = tmp_path / "contracts"
    findings: list[Any] = []
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(CONTRACT, "utf-8")
        finding = rules.review_text(CONTRACT, name)
        finding["sha256"] = hashlib.sha256(CONTRACT.encode()).hexdigest()
        findings.append(finding)
        (tmp_path / f"{name}.json").write_text(json.dumps(finding), "utf-8")
    (tmp_path / "register.csv").write_text(register.register_csv(findings), "utf-8")
    paths = [str(tmp_path / "a.txt.json"), str(tmp_path / "b.txt.json")]
    artifacts = {"finding.json": paths, "register/register.csv": str(tmp_path / "register.csv")}
    return {"inputs": {"folder": str(folder)}, "artifacts": artifacts}


def test_a_clean_review_passes_every_check(reviewed: dict[str, Any]) -> None:
    assert checks.quotes_are_verbatim(reviewed) is True
    assert checks.every_contract_once(reviewed) is True
    assert checks.sources_unchanged(reviewed) is True


def test_a_contract_missing_or_twice_in_the_register_is_named(reviewed: dict[str, Any]) -> None:
    path = Path(reviewed["artifacts"]["register/register.csv"])
    text = path.read_text("utf-8").replace("b.txt", "a.txt")
    path.write_text(text, "utf-8")
    assert checks.every_contract_once(reviewed) == "missing: b.txt; more than once: a.txt"


def test_a_changed_source_is_named(reviewed: dict[str, Any]) -> None:
    (Path(reviewed["inputs"]["folder"]) / "b.txt").write_text(f"{CONTRACT}!", "utf-8")
    assert "b.txt" in checks.sources_unchanged(reviewed)


def test_a_quote_that_is_not_word_for_word_is_named(reviewed: dict[str, Any]) -> None:
    path = Path(reviewed["artifacts"]["finding.json"][1])
    finding = json.loads(path.read_text("utf-8"))
    finding["quotes"][0]["text"] += " and more"
    path.write_text(json.dumps(finding), "utf-8")
    assert "b.txt" in checks.quotes_are_verbatim(reviewed)
