"""Plans to be stepped into, and what came of them, through the real command."""

from pathlib import Path
from typing import Any

from scenes import Scene, subtask, task

ONCE = {"max_attempts": 1}


def mark(log: Path, id: str, *needs: str, value: Any = None, **more: Any) -> Any:
    args = {"file": str(log), "word": id, "value": value}
    return subtask(id, "mark", args, depends_on=list(needs), **more)


def opens(log: Path, gate: Path, id: str, *needs: str, **more: Any) -> Any:
    """Fails until the gate is there."""
    args = {"file": str(log), "open": str(gate)}
    needed = {"depends_on": list(needs), "retries": ONCE, **more}
    return subtask(id, "works_once_open", args, **needed)


def states(scene: Scene, id: str = "t") -> dict[str, str]:
    entries = scene.command("plan", id, "--json").document
    return {entry["subtask"]: entry["state"] for entry in entries}


def resumed(scene: Scene, id: str = "t") -> Any:
    done = scene.command("resume", id, "--json")
    assert done.code == 0, done
    return done.document


def events(scene: Scene, type: str) -> list[Any]:
    return scene.rows(
        "select subtask, facts from surefoot.events where type = %s order by id", type
    )


def failed_task(scene: Scene, log: Path, gate: Path) -> None:
    """Task `t`: a is done, b has failed, c is pending."""
    plan = [mark(log, "a"), opens(log, gate, "b", "a"), mark(log, "c", "b", value="${b}")]
    assert scene.command("run", scene.file(task(plan)), "--id", "t").code == 1


def used_values(log: Path) -> list[Any]:
    """made -> uses -> uses_more; ordered merely comes later; apart is apart."""
    return [
        subtask("made", "echo", {"value": {"x": 1}}, success=[{"type": "result", "path": "x"}]),
        mark(log, "uses", "made", value="${made.x}"),
        subtask("uses_more", "echo", {"value": "${uses}"}, depends_on=["uses"]),
        subtask("ordered", "echo", {"value": 1}, depends_on=["made"]),
        mark(log, "apart"),
    ]


def gated(log: Path, gate: Path, id: str = "gate", **more: Any) -> Any:
    args = {"file": str(log), "open": str(gate), "word": id}
    return subtask(id, "gate", args, timeout_seconds=600, **more)
