"""What a person sees: the picture moved by events, the tree that fits, the plain lines."""

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from surefoot.graph.values import JsonObject
from surefoot.service.feed import News
from surefoot.service.lines import MOST_LINES, tell
from surefoot.service.notebook import status_html, tree_html
from surefoot.service.output import dumps, table
from surefoot.service.picture import TaskPicture
from surefoot.service.tree import draw

NOW = 1_000_000.0

PLAN: JsonObject = {
    "phases": [{"id": "reading", "name": "Read"}, {"id": "reviewing", "name": "Review"}],
    "subtasks": [
        {"id": "list", "name": "List it", "kind": "tool", "phase": "reading", "weight": 1},
        {"id": "review", "kind": "foreach", "phase": "reviewing", "weight": 9, "each": {}},
    ],
    "milestones": [{"id": "read", "after": "reading"}],
}
TASK: dict[str, Any] = {
    "id": "t1",
    "name": "contracts",
    "status": "running",
    "concurrency": 4,
    "created_at": datetime.fromtimestamp(NOW - 60, UTC),
    "updated_at": datetime.fromtimestamp(NOW, UTC),
    "failure": None,
}


class Story:
    """A picture and the events that are told of it, one second apart."""

    def __init__(self, plan: JsonObject = PLAN) -> None:
        self.picture = TaskPicture(TASK, plan, [])
        self.events: list[dict[str, Any]] = []

    def tell(
        self, type: str, subtask: str | None = None, attempt: int | None = None, **facts: Any
    ) -> dict[str, Any]:
        event: dict[str, Any] = {
            "id": len(self.events) + 1,
            "task_id": "t1",
            "time": datetime.fromtimestamp(NOW - 50 + len(self.events), UTC),
            "type": type,
            "subtask": subtask,
            "attempt": attempt,
            "facts": facts,
        }
        self.events.append(event)
        self.picture.apply(event)
        return event

    def run(self, subtask: str, attempt: int = 1) -> None:
        self.tell("SubtaskStarted", subtask, attempt, tool="work")
        self.tell("SubtaskCompleted", subtask, attempt)

    def drawn(self, height: int = 40, width: int = 100) -> list[str]:
        console = Console(file=io.StringIO(), width=width, record=True)
        console.print(draw(self.picture, eta=None, now=NOW, height=height))
        return console.export_text().splitlines()


@pytest.fixture
def story() -> Story:
    return Story()


def test_events_move_progress_and_counts(story: Story) -> None:
    story.run("list")
    story.tell("SubtaskExpanded", "review", n=3)
    story.run("review/0")
    assert story.picture.progress() == pytest.approx(0.4)
    counts = story.picture.counts()
    assert (counts.total, counts.completed, counts.pending) == (4, 2, 2)
    assert story.picture.state("review") == "running"


@pytest.mark.parametrize("end", ["SubtaskImproved", "ImprovementFailed"])
def test_a_full_try_of_what_is_done_takes_no_progress_back(story: Story, end: str) -> None:
    story.run("list")
    before = story.picture.progress()
    story.tell("ImprovementStarted", "list", 2, tool="work")
    assert story.picture.progress() == before
    assert story.picture.running["list"].attempt == 2
    story.tell(end, "list", 2)
    assert story.picture.progress() == before
    assert not story.picture.running
    assert story.picture.attempts == 2


def test_applying_the_same_events_again_changes_no_state(story: Story) -> None:
    story.run("list")
    story.tell("SubtaskExpanded", "review", n=2)
    story.run("review/0")
    before = (story.picture.counts(), story.picture.progress(), story.picture.attempts)
    for event in story.events:
        story.picture.apply(event)
    assert (story.picture.counts(), story.picture.progress(), story.picture.attempts) == before


def test_a_retry_is_shown_until_it_ends_well(story: Story) -> None:
    story.tell("SubtaskStarted", "list", 1, tool="work")
    story.tell("AttemptFailed", "list", 1, reason="boom", choice="retry")
    assert story.picture.troubles["list"].kind == "retrying"
    assert story.picture.state("list") == "pending"
    assert any("retrying" in line and "boom" in line for line in story.drawn())
    story.run("list", attempt=2)
    assert "list" not in story.picture.troubles
    assert story.picture.retry_rate == 1.0


def test_a_degraded_subtask_stays_marked_with_its_reason(story: Story) -> None:
    story.tell("AttemptFailed", "list", 1, reason="boom", choice="degrade")
    story.tell("SubtaskDegraded", "list", rung=1, reason="boom")
    story.run("list", attempt=2)
    assert story.picture.state("list") == "completed"
    assert any("degraded" in line and "boom" in line for line in story.drawn())


def test_the_tree_says_that_a_task_is_stopping_until_it_has_stopped(story: Story) -> None:
    story.tell("TaskStarted")
    story.picture.stopping = True
    assert story.drawn()[0].split()[2] == "stopping"
    story.tell("TaskPaused")
    assert story.drawn()[0].split()[2] == "paused"


def test_the_tree_shows_phases_states_milestones_and_what_runs(story: Story) -> None:
    story.run("list")
    story.tell("MilestonePassed", milestone="read")
    story.tell("SubtaskExpanded", "review", n=3)
    story.run("review/0")
    story.tell("SubtaskStarted", "review/1", 1, tool="review_contract")
    lines = story.drawn()
    assert any("✓ Read" in line and "read passed" in line for line in lines)
    assert any("1 of 3, 1 running" in line for line in lines)
    assert any("review/1" in line and "review_contract" in line for line in lines)


def test_a_plan_in_the_making_and_what_models_used_are_shown(story: Story) -> None:
    story.tell("PlanningAsked", stage="plan", round=2)
    story.picture.models.spend({"tokens": 12_345, "cost_usd": 0.125})
    story.picture.models.spend({"tokens": 32_554, "cost_usd": 0.25})
    shown = "\n".join(story.drawn())
    assert "▸ planning: plan, round 2  50 s" in shown
    assert "32,554 tokens · $0.25" in shown
    story.tell("PlanDrafted", stage="plan", round=2)
    story.tell("PlanningAsked", "review/0", stage="goal", round=1)
    shown = "\n".join(story.drawn())
    assert "round 2" not in shown and "▸ review/0  planning: goal, round 1" in shown
    story.tell("SubtaskFailed", "review/0", reason="no plan")
    assert "planning" not in "\n".join(story.drawn())


def test_what_waits_for_a_person_does_not_run(story: Story) -> None:
    story.tell("SubtaskStarted", "list", 1, tool="work")
    story.tell("QuestionAsked", "list", question="q-1", reason="May it? Answer with `yes`")
    assert story.picture.state("list") == "pending" and not story.picture.running
    story.tell("QuestionAnswered", "list", question="q-1")
    story.run("list", attempt=2)
    assert story.picture.attempts == 1, "the one that asked counts nowhere"


def test_the_oldest_questions_are_shown_with_their_commands(story: Story) -> None:
    for n in range(5):
        asks = f"May it {n}?\nAnswer with `surefoot answer t1 q-{n} yes` (or no)."
        story.tell("QuestionAsked", "list", question=f"q-{n}", reason=asks)
    shown = [line for line in story.drawn() if "surefoot" in line]
    assert shown[0].startswith("waits     surefoot answer t1 q-0 yes (or no)  May it 0?")
    assert shown[-1].strip() == "2 more: surefoot questions t1"


def test_a_way_back_lowers_progress_at_once_and_opens_milestones(story: Story) -> None:
    story.run("list")
    story.tell("MilestonePassed", milestone="read")
    story.tell("SubtaskExpanded", "review", n=3)
    for child in range(3):
        story.run(f"review/{child}")
    story.tell("SubtasksReopened", anew=["review/1"], now={"review": "running"}, passed=["read"])
    assert story.picture.progress() == pytest.approx(0.7)
    assert story.picture.milestones == {"read": "passed"}
    assert any("2 of 3" in line for line in story.drawn())
    story.tell("RolledBack", milestone="start", anew=["list", "review"], now={}, passed=[])
    assert story.picture.progress() == 0
    assert story.picture.milestones == {"read": "open"}
    assert story.picture.counts().total == 2, "a list that is made again may be another one"
    story.run("list", attempt=2)
    assert story.picture.progress() == pytest.approx(0.1)
    assert story.picture.attempts == 5


def test_a_retry_and_an_edit_by_hand_are_seen_at_once(story: Story) -> None:
    story.tell("SubtaskFailed", "list", reason="boom")
    story.tell("SubtaskReopened", "list", reason="person: tried again")
    assert story.picture.state("list") == "pending" and not story.picture.troubles
    story.tell("SubtaskEdited", "list", reason="person: gave another result")
    assert story.picture.state("list") == "completed"
    assert story.picture.progress() == pytest.approx(0.1)


def test_an_event_of_an_unknown_subtask_or_type_is_passed_over(story: Story) -> None:
    story.run("gone/0")
    story.tell("SomethingNew", "list")
    story.tell("PlanAccepted", version=2)
    assert story.picture.counts().total == 2


@pytest.mark.parametrize("height", [8, 12, 20, 30])
def test_a_large_plan_fits_the_terminal(height: int) -> None:
    subtasks: list[JsonObject] = [
        {"id": f"s{i}", "kind": "tool", "phase": f"p{i // 500}"} for i in range(5000)
    ]
    phases: list[JsonObject] = [{"id": f"p{i}"} for i in range(10)]
    story = Story({"phases": phases, "subtasks": subtasks})
    for i in range(700):
        story.run(f"s{i}")
    for i in range(700, 708):
        story.tell("SubtaskStarted", f"s{i}", 1, tool="work")
    for i in range(40):
        story.tell("AttemptFailed", f"s{i}", 1, reason="boom")
    lines = story.drawn(height=height)
    assert len(lines) <= max(height, 17), "head, four lines of tree and the troubles always show"
    assert any("more" in line for line in lines)


def test_text_from_tools_cannot_command_the_terminal(story: Story) -> None:
    story.tell("AttemptFailed", "list", 1, reason="\x1b[2J\x00[bold]x[/bold]")
    shown = "\n".join(story.drawn())
    assert "\x1b" not in shown
    assert "[bold]x[/bold]" in shown


def test_plain_lines_tell_failures_and_turns_with_the_progress() -> None:
    story = Story()
    story.tell("TaskStarted")
    story.tell("SubtaskStarted", "list", 1, tool="work")
    failed = story.tell("AttemptFailed", "list", 1, reason="no\ngood", choice="retry")
    lines = list(tell([News(event, 0.25) for event in story.events]))
    assert len(lines) == 2, "a start is no news"
    assert lines[1].endswith("25.0 %  list attempt 1 failed, retry: no good")
    assert failed["time"].astimezone().strftime("%H:%M:%S") in lines[1]


def test_many_completions_are_counted_and_failures_told_all_the_same() -> None:
    story = Story()
    story.tell("SubtaskExpanded", "review", n=100)
    for i in range(100):
        story.tell("SubtaskCompleted", f"review/{i}", 1)
    story.tell("SubtaskSkipped", "list", reason="null")
    lines = list(tell([News(event, 0.5) for event in story.events]))
    assert len(lines) == MOST_LINES + 2
    assert any("list skipped: null" in line for line in lines)
    assert f"{100 - MOST_LINES} more completed" in lines[-1]


def test_notebook_html_escapes_and_shows_states() -> None:
    status: dict[str, Any] = {
        "id": "t1",
        "name": "<b>x</b>",
        "status": "failed",
        "progress": 0.5,
        "subtasks": {"total": 2, "completed": 1, "failed": 1, "skipped": 0},
        "attempts": 3,
        "retry_rate": 0.5,
        "usage": {"seconds": 1.0},
        "eta_seconds": None,
        "failure": {"message": "a < b"},
    }
    html = status_html(status)
    assert "&lt;b&gt;x" in html
    assert "a &lt; b" in html
    assert "width:50.0%" in html
    entry: JsonObject = {
        "phase": "Read",
        "name": "List <it>",
        "state": "pending",
        "children": 3,
        "attempts": 2,
        "degraded": False,
        "reason": "boom",
    }
    tree = tree_html([entry])
    assert "List &lt;it&gt;" in tree
    assert "3 items · 2 attempts · boom" in tree


def test_tables_are_aligned_and_cut_long_cells() -> None:
    lines = table([{"a": 1, "b": "x" * 500}, {"a": None, "b": True}], ["a", "b"])
    assert lines[0] == "A  B"
    assert lines[2] == "-  yes"
    assert len(lines[1]) < 200


def test_json_output_survives_lone_surrogates() -> None:
    assert dumps({"x": "\ud800 é"}) == '{"x": "\\ud800 é"}'
