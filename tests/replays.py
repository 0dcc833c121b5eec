"""Recorded conversations of a model with tools, replayed: a server that says what the model said.

The assistant's turns are served by position; a turn that spoke to the customer becomes a call of
`say_to_customer`, whose result is what the customer answered. Tools return what was recorded.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model_server import Said, Seen, call_tool, finish

from surefoot.graph.histories import call_ids

SAY = "say_to_customer"
MATERIAL = (
    Path(__file__).resolve().parents[2] / "shared/material/replay_toolcalls_tau/traj.dev.jsonl"
)

TOOLS_MODULE = '''
"""Tools that return what was recorded, in the order it was recorded for the same call."""

import json
from pathlib import Path
from typing import Any

from langchain_core.tools import StructuredTool
from pydantic import create_model

from surefoot.tools import ToolContext, effect

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "recorded.json").read_text())


def made(name: str, arguments: list[str]) -> Any:
    def run(context: ToolContext, **given: Any) -> str:
        args = {key: value for key, value in given.items() if value is not None}
        call = json.dumps([context.subtask_id, name, args], sort_keys=True)
        log = HERE / "calls.log"
        before = log.read_text().splitlines() if log.exists() else []
        with log.open("a") as file:
            file.write(call + "\\n")
        results = RECORDED["results"][call]
        return results[min(before.count(call), len(results) - 1)]

    schema = create_model(name, **{key: (Any, None) for key in arguments})
    tool = StructuredTool.from_function(run, name=name, description=name, args_schema=schema)
    return effect("read")(tool)


TOOLS = [made(name, arguments) for name, arguments in RECORDED["tools"].items()]
'''


@dataclass
class Turn:
    """One thing that the model did, and what came back."""

    name: str
    args: dict[str, Any]
    result: str


@dataclass
class Replays:
    """Conversations by name, as a task, a tools module, and the server's script."""

    turns: dict[str, list[Turn]]
    faults: list[str] = field(default_factory=list[str])
    asked: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """(conversation, position) of every request that was answered."""

    @classmethod
    def read(cls, file: Path, most: int) -> "Replays":
        rows = [json.loads(line) for line in file.read_text().splitlines()[:most]]
        return cls({f"talk{n}": _turns(row["messages"]) for n, row in enumerate(rows)})

    def write_tools(self, folder: Path) -> Path:
        """The tools module with what it needs beside it."""
        tools: dict[str, list[str]] = {}
        results: dict[str, list[str]] = {}
        for id, turns in self.turns.items():
            for turn in turns:
                known = tools.setdefault(turn.name, [])
                known += [key for key in turn.args if key not in known]
                call = json.dumps([id, turn.name, turn.args], sort_keys=True)
                results.setdefault(call, []).append(turn.result)
        recorded = {"tools": tools, "results": results}
        (folder / "recorded.json").write_text(json.dumps(recorded))
        module = folder / "recorded_tools.py"
        module.write_text(TOOLS_MODULE)
        return module

    def subtasks(self) -> list[dict[str, Any]]:
        """One agent for every conversation."""
        return [
            {
                "id": id,
                "kind": "agent",
                "instructions": f"Serve the customer of conversation [{id}].",
                "tools": sorted({turn.name for turn in turns}),
                "success": [{"type": "result", "equals": f"{id} is over"}],
                "timeout_seconds": 600,
            }
            for id, turns in self.turns.items()
        ]

    def answer(self, seen: Seen) -> Said:
        """What the model said at this point; what is wrong with the request is noted."""
        id = next(id for id in self.turns if seen.says(f"[{id}]"))
        turns = self.turns[id]
        results = [str(m["content"]) for m in seen.messages if m["role"] == "tool"]
        self.asked.append((id, len(results)))
        for n, (told, turn) in enumerate(zip(results, turns, strict=False)):
            if turn.result not in told:
                self.faults.append(f"{id}: result {n} is {told[:200]!r}, not {turn.result[:200]!r}")
        self._check_calls(id, seen.messages)
        if len(results) >= len(turns):
            return finish(f"{id} is over")
        return call_tool(turns[len(results)].name, turns[len(results)].args)

    def _check_calls(self, id: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """What a strict server checks: every call has its answer right behind it."""
        waiting: list[str] = []
        for message in messages:
            if message["role"] == "tool":
                if not waiting or waiting.pop(0) != message["tool_call_id"]:
                    self.faults.append(f"{id}: an answer without its call")
            else:
                if waiting:
                    self.faults.append(f"{id}: a call without an answer")
                waiting = call_ids(dict(message))
        if waiting:
            self.faults.append(f"{id}: the last call has no answer")


def _turns(messages: list[dict[str, Any]]) -> list[Turn]:
    turns: list[Turn] = []
    for message, after in zip(messages, [*messages[1:], None], strict=True):
        if message["role"] != "assistant":
            continue
        result = str((after or {}).get("content") or "(nothing)")
        if message.get("tool_calls"):
            function: dict[str, str] = message["tool_calls"][0]["function"]
            turns.append(Turn(function["name"], json.loads(function["arguments"]), result))
        else:
            turns.append(Turn(SAY, {"text": message["content"] or ""}, result))
    return turns
