"""A task that is killed in the middle of everything, and what its tiers are deleted with."""

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from model_server import ModelServer, Seen, call_tool, finish, say_json
from scenes import SCENE_TOOLS, Done, Scene, lines, subtask, task, until

TOOLS = """
from pathlib import Path
from langchain_core.tools import tool
from surefoot.tools import ToolContext, effect

def nothing(args, context):
    return None

@effect("irreversible", probe=nothing)
@tool
def once(name: str, folder: str, context: ToolContext) -> dict:
    \"\"\"Do something that must happen once.\"\"\"
    with Path(folder, "done").open("a") as file:
        file.write(name + "\\n")
    context.artifacts.put("note.txt", "done " + name)
    return {"name": name}

@effect("idempotent")
@tool
def keep(path: str, text: str, context: ToolContext) -> str:
    \"\"\"Write a file of the workspace.\"\"\"
    target = Path(context.workspace) / path
    target.parent.mkdir(exist_ok=True)
    target.write_text(text)
    context.artifacts.put("kept.txt", text)
    return text

TOOLS = [once, keep]
"""

NAMES = ("a", "i0", "i1", "i2", "x", "z", "by-agent", "end")
"""What must have been done once in the end."""


class Story:
    """One task on a scene: begun, killed, robbed, resumed."""

    def __init__(self, scene: Scene, models: ModelServer) -> None:
        self.scene, self.models = scene, models
        models.always("agent", self._speak)
        models.always("verdict", say_json({"pass": True, "confidence": 1.0, "reasons": []}))

    async def kill_in_the_middle(self) -> None:
        """Run until the group and the agent have each done one thing, then SIGKILL."""
        with self.scene.started("run", self.scene.file(self._task()), "--id", "t") as process:
            waits = self.scene.folder / "waits"
            await until(lambda: sorted(lines(waits)) == ["agent", "group"])
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    def resume(self) -> Done:
        """Let the gates open and go on as a process."""
        self.scene.write("open", "")
        return self.scene.process("resume", "t", "--json")

    async def resume_and_kill(self) -> None:
        """Go on until the group waits again, then SIGKILL."""
        waits = self.scene.folder / "waits"
        before = lines(waits).count("group")
        with self.scene.started("resume", "t") as process:
            await until(lambda: lines(waits).count("group") > before)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    def lose_snapshots(self, tier: str) -> None:
        """Delete the rows of a tier with what they alone name."""
        rows = self.scene.rows(
            "delete from surefoot.snapshots where tier = %s returning manifest, state", tier
        )
        assert rows, f"there are no {tier} snapshots"
        for stored in (value for row in rows for value in row.values() if value):
            if "sha256" in stored:
                self._blob(stored["sha256"]).unlink(missing_ok=True)

    def lose_blob(self, subtask: str, name: str) -> None:
        """Delete the content of an artifact."""
        (row,) = self.scene.rows(
            "select sha256 from surefoot.artifacts where subtask = %s and name = %s", subtask, name
        )
        self._blob(row["sha256"]).unlink()

    def _blob(self, sha256: str) -> Path:
        root = Path(self.scene.settings.artifacts_url.removeprefix("file://"))
        return root / "sha256" / sha256[:2] / sha256

    def done(self) -> Counter[str]:
        """How often each effect was done."""
        return Counter(lines(self.scene.folder / "done"))

    def types(self, *types: str) -> list[dict[str, Any]]:
        """The events of these types."""
        return self.scene.rows(
            "select type, subtask, facts from surefoot.events where type = any(%s) order by id",
            list(types),
        )

    def is_whole(self, done: Done) -> None:
        """Assert that everything has ended well, and nothing was done twice."""
        assert done.code == 0, done.out + done.err
        assert done.document["status"] == "completed"
        assert self.done() == Counter(NAMES)
        assert done.document["subtasks"]["completed"] == done.document["subtasks"]["total"]
        started = Counter(
            event["subtask"] for event in self.types("SubtaskCompleted") if event["subtask"]
        )
        assert max(started.values()) == 1
        end = self.scene.process("result", "t", "end", "--json")
        assert end.document == {"name": "end"}

    def _speak(self, seen: Seen) -> Any:
        said = sum(message["role"] == "assistant" for message in seen.messages)
        if said == 0:
            return call_tool("once", {"name": "by-agent", "folder": str(self.scene.folder)})
        if said == 1:
            return call_tool("gate", self._gate("agent"))
        return finish({"said": said})

    def _gate(self, word: str) -> dict[str, str]:
        folder = self.scene.folder
        return {"file": str(folder / "waits"), "open": str(folder / "open"), "word": word}

    def _once(self, name: str, *needs: str, **more: Any) -> Any:
        args = {"name": name, "folder": str(self.scene.folder)}
        return subtask(name, "once", args, depends_on=list(needs), **more)

    def _task(self) -> dict[str, Any]:
        args = {"name": "i${index}", "folder": str(self.scene.folder)}
        each = {"kind": "tool", "tool": "once", "args": args, "success": [{"type": "result"}]}
        inner = [
            self._once("x"),
            subtask("y", "gate", self._gate("group"), depends_on=["x"]),
            self._once("z", "y"),
        ]
        agent = {"id": "ag", "kind": "agent", "instructions": "Do it.", "tools": ["once", "gate"]}
        two = {"phase": "two", "depends_on": ["a", "f", "keeps"]}
        kept = {"path": "out/kept.txt", "text": "kept"}
        subtasks = [
            subtask("keeps", "keep", kept, phase="one", writes=["out/**"], outputs=["kept.txt"]),
            self._once("a", phase="one", outputs=["note.txt"]),
            subtask("list", "echo", {"value": [1, 2, 3]}, phase="one"),
            {
                **{"id": "f", "kind": "foreach", "for_each": "${list}", "each": each},
                **{"depends_on": ["list"], "phase": "one"},
            },
            {"id": "g", "kind": "group", "plan": {"subtasks": inner}, **two},
            {**agent, "success": [{"type": "result"}], **two},
            self._once("end", "g", "ag", "f", phase="three"),
        ]
        return task(
            subtasks,
            tools=[self.scene.write("tiers.py", TOOLS), SCENE_TOOLS],
            model="m",
            concurrency=4,
            plan={
                "phases": [{"id": "one"}, {"id": "two"}, {"id": "three"}],
                "subtasks": subtasks,
                "milestones": [{"id": "first", "after": "one"}],
            },
        )
