"""A "model" for `goal.md` that follows a script: to see how Surefoot works with one, without one.

    .venv/bin/python examples/scripted_model.py

serves at an address of its own until Ctrl-C and prints what to export. It drafts a criterion, makes
a plan (wrong at first, then mended), reads contracts by a regular expression and writes the report.
It is the server of our tests; a real model is any OpenAI-compatible server in its place.
"""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from model_server import ModelServer, Said, Seen, call_tool, finish, say_json

GOAL: dict[str, Any] = {
    "acceptance": [{"id": "a1", "type": "artifact", "name": "report.md", "contains": "\n- "}],
    "prohibitions": ["The contracts are not changed."],
}
CONTRACT = re.compile(r"contract at (\S+) with")
ENDING = re.compile(r"[^.。\n]*(?:terminat|解除|终止)[^.。\n]*[.。]", re.IGNORECASE)


def subtask(id: str, name: str, kind: str, **more: Any) -> dict[str, Any]:
    """A subtask with every field that a plan of a model must give."""
    given: dict[str, Any] = {"id": id, "name": name, "kind": kind, "description": "", "weight": 1}
    given |= {"phase": None, "depends_on": [], "covers": [], "importance": "normal"}
    given |= {"resumable": True, "skippable": False, "estimated_seconds": 5}
    return given | {"outputs": [], "success": [{"type": "result"}], "on_failure": []} | more


def plan(*, good: bool) -> dict[str, Any]:
    """List, read each, report; the bad one forgets what the report depends on."""
    read = {
        "kind": "agent",
        "instructions": "Read the contract at ${item} with read_document. Finish with the fields "
        "file and ending: the one sentence that says how it can be ended.",
        "tools": ["read_document"],
        "outputs": [],
        "success": [
            {"type": "result", "json_schema": {"type": "object", "required": ["file", "ending"]}}
        ],
        "on_failure": [],
    }
    subtasks = [
        subtask(
            *("list", "List the contracts", "tool"),
            tool="list_files",
            args={"path": "${inputs.folder}"},
            success=[{"type": "result", "path": "files", "min_items": 1}],
        ),
        subtask(
            *("read", "Read each contract", "foreach"),
            depends_on=["list"],
            for_each="${list.files}",
            each=read,
            weight=8,
        ),
        subtask(
            *("report", "Write the report", "agent"),
            depends_on=["read"] if good else [],
            instructions="Write report.md: a heading, then a line for each of ${read}.",
            tools=["write_artifact"],
            outputs=["report.md"],
            covers=["objective", "a1"],
            success=[
                {"type": "judge", "rubric": "Every contract has a line that says how it ends."}
            ],
        ),
    ]
    return {"phases": [], "subtasks": subtasks, "milestones": []}


def answer_agent(seen: Seen) -> Said:
    """The next step of whichever agent asks."""
    time.sleep(0.3)
    said = [str(message.get("content") or "") for message in seen.messages]
    results = [str(m["content"]) for m in seen.messages if m["role"] == "tool"]
    contract = CONTRACT.search("\n".join(said))
    if contract and not results:
        return call_tool("read_document", {"path": contract.group(1)})
    if contract:
        found = ENDING.search(results[-1].replace("\\n", "\n"))
        ending = " ".join(found.group().split()) if found else "It does not say."
        return finish({"file": Path(contract.group(1)).name, "ending": ending})
    if not results:
        findings = re.findall(r'\{"file":.*?\}', "\n".join(said))
        lines = [f"- **{f['file']}**: {f['ending']}" for f in map(json.loads, findings)]
        text = "\n".join(["# How each contract can be ended", "", *lines, ""])
        return call_tool("write_artifact", {"name": "report.md", "text": text})
    return finish("report.md is written")


def main() -> None:
    """Serve until Ctrl-C."""
    passed = {"pass": True, "confidence": 0.9, "reasons": ["every contract has its line"]}
    with ModelServer() as models:
        models.always("goal", say_json(GOAL)).on("plan", say_json(plan(good=False)))
        models.always("plan", say_json(plan(good=True))).always("agent", answer_agent)
        models.always("verdict", say_json(passed))
        sys.stdout.write(f"export OPENAI_BASE_URL={models.url} SUREFOOT_MODEL=scripted\n")
        sys.stdout.flush()
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
