"""A task as HTML, for notebooks: the bar, the tree by phase, and what went wrong.

No script and no style sheet: what it returns stays readable wherever a notebook is shown.
"""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Protocol

from surefoot.graph.values import JsonObject
from surefoot.service.words import duration, eta_text

COLOURS = {
    "completed": "#2e7d32",
    "running": "#0277bd",
    "failed": "#c62828",
    "cancelled": "#c62828",
    "skipped": "#b26a00",
    "paused": "#b26a00",
    "waiting": "#b26a00",
    "pending": "#8a8a8a",
    "queued": "#8a8a8a",
}
MARKS = {"completed": "✓", "running": "▸", "failed": "✗", "skipped": "↷", "pending": "·"}


class Shown:
    """HTML that a notebook displays as it is."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return self.html


class Client(Protocol):
    """What is asked of a `Surefoot`."""

    async def status(self, id: str | None = None) -> Mapping[str, Any]:
        """The status document."""
        ...

    async def plan(self, id: str) -> Iterable[JsonObject]:
        """The plan's subtasks."""
        ...


async def show(surefoot: Client, id: str | None = None) -> Shown:
    """The tree and progress of a task (the newest without an id), to be the last line of a cell."""
    status = await surefoot.status(id)
    return Shown(status_html(status) + tree_html(await surefoot.plan(status["id"])))


def status_html(status: Mapping[str, Any]) -> str:
    """Name, state, weighted bar and the figures of a status document."""
    counts, share = status["subtasks"], 100 * status["progress"]
    colour = COLOURS[status["status"]]
    facts = [f"{counts['completed']} of {counts['total']} subtasks"]
    facts += [f"{counts[state]} {state}" for state in ("failed", "skipped") if counts[state]]
    facts += [f"{status['attempts']} attempts", f"retry rate {status['retry_rate']}"]
    facts.append(duration(status["usage"]["seconds"]))
    if status["status"] == "running":
        facts.append(eta_text(status["eta_seconds"]))
    failure = status["failure"]
    why = f'<div style="color:{colour}">{escape(failure["message"])}</div>' if failure else ""
    return (
        f'<div style="font-family:sans-serif;margin:4px 0"><b>{escape(status["name"])}</b> '
        f"<code>{escape(status['id'])}</code> "
        f'<b style="color:{colour}">{escape(status["status"])}</b>'
        f'<div style="background:#e6e6e6;width:26em;height:0.9em;margin:4px 0;border-radius:3px">'
        f'<div style="background:{colour};width:{share:.1f}%;height:100%;border-radius:3px"></div>'
        f'</div><div style="color:#666">{share:.1f} % · {escape(" · ".join(facts))}</div>'
        f"{why}</div>"
    )


def tree_html(plan: Iterable[JsonObject]) -> str:
    """The subtasks of a plan by phase, with state, attempts and reason."""
    phases: dict[str, list[JsonObject]] = {}
    for entry in plan:
        phases.setdefault(entry["phase"] or "", []).append(entry)
    return "".join(
        f'<div style="font-family:sans-serif;margin:6px 0"><b>{escape(phase)}</b>'
        f"{''.join(_row_html(entry) for entry in entries)}</div>"
        for phase, entries in phases.items()
    )


def _row_html(entry: JsonObject) -> str:
    state = entry["state"]
    notes = [f"{entry['children']} items"] if entry["children"] is not None else []
    if entry["attempts"] > 1:
        notes.append(f"{entry['attempts']} attempts")
    if entry["degraded"]:
        notes.append("degraded")
    if entry["reason"] and state != "completed":
        notes.append(entry["reason"])
    return (
        f'<div style="margin-left:1.2em"><span style="color:{COLOURS[state]}">{MARKS[state]}</span>'
        f" {escape(entry['name'])}"
        f' <span style="color:#8a8a8a">{escape(" · ".join(notes))}</span></div>'
    )
