"""The live tree of a task, drawn with rich: phases, subtasks, states, bar and what went wrong.

It fits the terminal: finished phases fold into one line first, then long phases show what runs,
what failed and what comes next.
"""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from surefoot.graph.values import SubtaskState
from surefoot.service.picture import TaskPicture, Trouble
from surefoot.service.stages import Member, Stage
from surefoot.service.status import Eta
from surefoot.service.thinking import Planning, used
from surefoot.service.words import duration, eta_text, number, one_line, percent

MARKS: dict[SubtaskState, tuple[str, str]] = {
    "pending": ("·", "dim"),
    "running": ("▸", "cyan"),
    "completed": ("✓", "green"),
    "failed": ("✗", "bold red"),
    "skipped": ("↷", "yellow"),
}
STATUS_STYLE = {
    "completed": "bold green",
    "failed": "bold red",
    "cancelled": "bold red",
    "paused": "bold yellow",
    "stopping": "bold yellow",
    "waiting": "bold yellow",
}
TROUBLE_STYLE = {
    "failed": "red",
    "degraded": "yellow",
    "skipped": "yellow",
    "retrying": "dark_orange",
}
_URGENCY = {"failed": 0, "retrying": 1, "degraded": 2, "skipped": 3}
BAR_STYLE = {"completed": "green", "failed": "red", "cancelled": "red"}
BAR_WIDTH = 32
MOST_TROUBLES = 6
MOST_RUNNING = 8
MOST_ASKED = 3


def draw(picture: TaskPicture, *, eta: Eta | None, now: float, height: int) -> RenderableType:
    """Draw a task.

    Args:
        picture: of the task.
        eta: the remaining time, None = not known.
        now: POSIX seconds.
        height: lines that may be used.
    """
    head = [_title(picture, now), _bar(picture, eta), _figures(picture), Text("")]
    troubles = _troubles(picture)
    room = max(4, height - len(head) - len(troubles) - 1)
    parts: list[RenderableType] = [*head, *_tree(picture, now, room)]
    if troubles:
        parts += [Text(""), *troubles]
    return Group(*parts)


def _title(picture: TaskPicture, now: float) -> Text:
    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(one_line(picture.name), "bold")
    title.append(f"  {picture.task_id}", "dim")
    stops = picture.stopping and picture.status == "running"
    status = "stopping" if stops else picture.status
    title.append(f"  {status}", STATUS_STYLE.get(status, "bold cyan"))
    title.append(f"  {duration((picture.ended or now) - picture.began)}", "dim")
    return title


def _bar(picture: TaskPicture, eta: Eta | None) -> Table:
    progress = picture.progress()
    row = Table.grid(padding=(0, 1))
    row.add_column(width=BAR_WIDTH)
    row.add_column(justify="right", width=7, no_wrap=True)
    row.add_column(no_wrap=True, overflow="ellipsis")
    style = BAR_STYLE.get(picture.status, "cyan")
    bar = ProgressBar(total=1.0, completed=progress, complete_style=style, finished_style=style)
    left = eta_text(eta) if picture.status == "running" else ""
    row.add_row(bar, Text(f"{percent(progress):.1f} %", "bold"), Text(left, "dim"))
    return row


def _figures(picture: TaskPicture) -> Text:
    counts = picture.counts()
    facts = [f"{counts.completed} of {counts.total} subtasks"]
    if counts.skipped:
        facts.append(f"{counts.skipped} skipped")
    if counts.failed:
        facts.append(f"{counts.failed} failed")
    facts.append(number(picture.attempts, "attempt"))
    if picture.retry_rate:
        facts.append(f"retry rate {picture.retry_rate:.2f}")
    facts += used(picture.models.tokens, picture.models.cost_usd)
    return Text(" · ".join(facts), "dim", no_wrap=True, overflow="ellipsis")


def _tree(picture: TaskPicture, now: float, room: int) -> list[Text]:
    """The stages, folded until they fit."""
    lines: list[Text] = []
    for fold in range(3):
        lines = list(_plans(picture.models.planning.get(""), now))
        lines += [line for stage in picture.stages for line in _stage(picture, stage, now, fold)]
        if len(lines) <= room:
            return lines
    return [*lines[: room - 1], Text(f"  … {len(lines) - room + 1} more lines", "dim")]


def _plans(planning: Planning | None, now: float, *, group: str | None = None) -> Iterator[Text]:
    """A planner that is being asked: for the task, or for a group."""
    if planning is None:
        return
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append("▸ " if group is None else "      ▸ ", "cyan")
    line.append(f"{group}  " if group and "/" in group else "")
    line.append(f"planning: {planning.stage}, round {planning.round}", "cyan")
    line.append(f"  {duration(now - planning.since)}", "dim")
    yield line


def _stage(picture: TaskPicture, stage: Stage, now: float, fold: int) -> Iterator[Text]:
    """One phase. Fold 0: every subtask; 1: open phases only; 2: only what matters now."""
    states: list[SubtaskState] = [picture.state(member.id) for member in stage.members]
    done = sum(1 for state in states if state in ("completed", "skipped"))
    if stage.id is not None:
        yield _heading(picture, stage, states, done)
    if fold and done == len(states) and stage.id is not None:
        return
    members = stage.members if fold < 2 else _important(picture, stage.members)
    for member in members:
        yield _member(picture, member)
        if member.kind == "foreach" or member.kind == "group":
            yield from _children(picture, member, now)
        elif member.id in picture.running:
            yield from _current(picture, [member.id], now)
    hidden = len(stage.members) - len(members)
    if hidden:
        yield Text(f"    … {hidden} more, {done} done", "dim")


def _important(picture: TaskPicture, members: Sequence[Member]) -> list[Member]:
    """What runs or failed, and the first two that wait."""
    moving = [m for m in members if picture.state(m.id) in ("running", "failed")]
    waiting = [m for m in members if picture.state(m.id) == "pending"][:2]
    shown = {m.id for m in [*moving[:MOST_RUNNING], *waiting]}
    return [m for m in members if m.id in shown]


def _heading(picture: TaskPicture, stage: Stage, states: Sequence[SubtaskState], done: int) -> Text:
    over = done == len(states)
    state: SubtaskState = "pending"
    if over:
        state = "completed"
    elif "failed" in states:
        state = "failed"
    elif done or "running" in states:
        state = "running"
    mark, style = MARKS[state]
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{mark} ", style)
    line.append(one_line(stage.name), "bold" if not over else "")
    line.append(f"  {done}/{len(states)}", "dim")
    for id, verdict in picture.milestones.items():
        if _after(picture, id) == stage.id and verdict != "open":
            style = "green" if verdict == "passed" else "bold red"
            line.append(f"  ◆ {id} {verdict}", style)
    return line


def _after(picture: TaskPicture, milestone: str) -> str | None:
    declared: list[dict[str, str]] = picture.plan.get("milestones") or []
    return next((m["after"] for m in declared if m["id"] == milestone), None)


def _member(picture: TaskPicture, member: Member) -> Text:
    state = picture.state(member.id)
    mark, style = MARKS[state]
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"  {mark} ", style)
    line.append(one_line(member.name), style if state in ("failed", "skipped") else "")
    if member.name != member.id:
        line.append(f"  {member.id}", "dim")
    if member.children is not None:
        line.append(f"  {_tally(picture, member)}", "dim")
    attempts = picture.attempts_of(member.id)
    if attempts > 1:
        line.append(f"  {attempts} attempts", "dark_orange")
    trouble = picture.troubles.get(member.id)
    if trouble is not None and trouble.kind == "degraded":
        line.append("  degraded", "yellow")
    return line


def _tally(picture: TaskPicture, member: Member) -> str:
    tally = picture.tally(member.id)
    parts = [f"{tally.get('completed', 0)} of {member.children}"]
    parts += [f"{tally[s]} {s}" for s in ("running", "failed", "skipped") if tally.get(s)]
    return ", ".join(parts)


def _children(picture: TaskPicture, member: Member, now: float) -> Iterator[Text]:
    """The children that run now; the others are in the counts."""
    running = [id for id in picture.running if id.startswith(f"{member.id}/")]
    yield from _current(picture, running[:MOST_RUNNING], now)
    for group, planning in list(picture.models.below(member.id).items())[:MOST_RUNNING]:
        yield from _plans(planning, now, group=group)
    if len(running) > MOST_RUNNING:
        yield Text(f"      … {len(running) - MOST_RUNNING} more running", "dim")


def _current(picture: TaskPicture, ids: Sequence[str], now: float) -> Iterator[Text]:
    for id in ids:
        running = picture.running[id]
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append("      ▸ ", "cyan")
        if "/" in id:
            line.append(f"{id}  ")
        line.append(running.tool or "", "cyan")
        line.append(f"  {duration(now - running.since)}", "dim")
        if running.attempt > 1:
            line.append(f"  attempt {running.attempt}", "dark_orange")
        yield line


def _troubles(picture: TaskPicture) -> list[Text]:
    def urgency(entry: tuple[str, Trouble]) -> int:
        return _URGENCY[entry[1].kind]

    newest_first = list(picture.troubles.items())[::-1]
    found = sorted(newest_first, key=urgency)
    lines = [_trouble(id, trouble) for id, trouble in found[:MOST_TROUBLES]]
    if len(found) > MOST_TROUBLES:
        lines.append(Text(f"… {len(found) - MOST_TROUBLES} more", "dim"))
    lines += [_waits(text) for text in list(picture.asked.values())[:MOST_ASKED]]
    if len(picture.asked) > MOST_ASKED:
        more = len(picture.asked) - MOST_ASKED
        all_of_them = f"          {more} more: surefoot questions {picture.task_id}"
        lines.append(Text(all_of_them, "dim", no_wrap=True, overflow="ellipsis"))
    if picture.failure:
        lines.append(
            Text(f"✗ {one_line(picture.failure)}", "bold red", no_wrap=True, overflow="ellipsis")
        )
    return lines


def _waits(text: str) -> Text:
    """The last words of a question are the command that answers it: its beginning may be cut."""
    head, command = text.splitlines()[0] if text else "", text.rpartition("Answer with ")[2]
    command = command.replace("`", "").removesuffix(".")
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append("waits     ", "bold yellow")
    line.append(one_line(command))
    line.append(f"  {one_line(head)}", "dim")
    return line


def _trouble(id: str, trouble: Trouble) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{trouble.kind:8}  ", TROUBLE_STYLE[trouble.kind])
    line.append(id)
    if trouble.kind == "retrying":
        line.append(f"  after {trouble.attempts}", "dim")
    line.append(f"  {one_line(trouble.reason)}", "dim")
    return line
