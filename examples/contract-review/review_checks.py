"""Checks of this example: functions of a context that say True, or what is wrong.

They look at the sources again and believe nothing that a tool reported.
"""

import csv
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from reading import list_documents, read_document

Context = dict[str, Any]


def quotes_are_verbatim(context: Context) -> bool | str:
    """Every quote stands in its source word for word, where it says it does."""
    for finding in _findings(context):
        if not finding["quotes"]:
            continue
        text = read_document(_folder(context) / finding["file"])
        for quote in finding["quotes"]:
            if text[quote["start"] : quote["end"]] != quote["text"]:
                return f"{finding['file']}: {quote['clause']} is not quoted word for word"
    return True


def reading_is_verbatim(context: Context) -> bool | str:
    """What a model quotes stands in the contract; only white space may differ."""
    said = context["result"]
    path = Path(said["file"])
    if path.parent != _folder(context):
        return f"file must be the path of a contract in {_folder(context)}, not {said['file']!r}"
    text = " ".join(read_document(path).split())
    for quote in said["quotes"]:
        if " ".join(quote.split()) not in text:
            return f"this quote does not stand in the contract, copy it exactly: {quote[:200]!r}"
    return True


def every_contract_once(context: Context) -> bool | str:
    """The register has exactly one row for every contract in the folder, and no other row."""
    (path,) = _paths(context, "register.csv")
    with path.open(encoding="utf-8", newline="") as lines:
        rows = Counter(row["file"] for row in csv.DictReader(lines))
    expected = {path.name for path in list_documents(_folder(context))}
    wrong = {
        "missing": sorted(expected - rows.keys()),
        "unknown": sorted(rows.keys() - expected),
        "more than once": sorted(name for name, n in rows.items() if n > 1),
    }
    said = [f"{what}: {', '.join(names[:5])}" for what, names in wrong.items() if names]
    return "; ".join(said) or True


def sources_unchanged(context: Context) -> bool | str:
    """The contracts are, byte for byte, what they were when they were reviewed."""
    for finding in _findings(context):
        raw = (_folder(context) / finding["file"]).read_bytes()
        if hashlib.sha256(raw).hexdigest() != finding["sha256"]:
            return f"{finding['file']} is not what it was when it was reviewed"
    return True


def _folder(context: Context) -> Path:
    return Path(context["inputs"]["folder"])


def _findings(context: Context) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in _paths(context, "finding.json")]


def _paths(context: Context, name: str) -> list[Path]:
    """The files of an artifact: one, or one for each child of a foreach."""
    paths: list[Path] = []
    for full, found in context["artifacts"].items():
        if full.rpartition("/")[2] == name:
            paths += [Path(p) for p in (found if isinstance(found, list) else [found])]
    return list(dict.fromkeys(paths))
