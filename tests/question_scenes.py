"""The stage of questions: tasks that ask, and the commands that list and answer."""

from pathlib import Path
from typing import Any

from scenes import Done, Scene, subtask

ONCE = {"max_attempts": 1}
FINE = {"type": "person", "question": "Is it fine?"}


def mark(log: Path, id: str, *needs: str, **more: Any) -> Any:
    return subtask(id, "mark", {"file": str(log), "word": id}, depends_on=list(needs), **more)


def asks(id: str, log: Path, opening: Path, **more: Any) -> Any:
    """A subtask that fails until a file is there, and whose plan says to ask then."""
    args = {"file": str(log), "open": str(opening)}
    return subtask(id, "works_once_open", args, retries=ONCE, on_failure=["ask"], **more)


def open_questions(scene: Scene, id: str = "t1") -> dict[str | None, Any]:
    """The open questions by subtask (or None)."""
    listed = scene.command("questions", id, "--json").document
    return {question["subtask"]: question for question in listed}


def answer(scene: Scene, question: str, value: str, *more: str) -> Done:
    return scene.command("answer", "t1", question, value, *more)


def run(scene: Scene, given: Any, code: int) -> Any:
    done = scene.command("run", scene.file(given), "--id", "t1", "--json")
    assert done.code == code, (done.out, done.err)
    return done.document


def resume(scene: Scene, code: int = 0) -> Any:
    done = scene.command("resume", "t1", "--json")
    assert done.code == code, (done.out, done.err)
    return done.document
