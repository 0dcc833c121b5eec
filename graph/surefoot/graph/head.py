"""The goal head: what every request of every role begins with, verbatim and hashed."""

import json

from surefoot.graph.shapes import is_object
from surefoot.graph.values import JsonObject


def head_text(goal: JsonObject) -> str:
    """The goal as the system message of every request: the same goal, the same bytes.

    Args:
        goal: JSON-plain, as in the task file, with `amendments` where people added some.
    """
    lines = ["# Goal", ""]
    if goal.get("objective"):
        lines.append(str(goal["objective"]))
    lines += [f"- {one['id']}: {one['text']}" for one in goal.get("objectives") or ()]
    lines += ["", "# Accepted when", ""]
    lines += [f"- {_compact(check)}" for check in goal.get("acceptance") or ()]
    lines += ["", "# Never", ""]
    lines += [
        f"- {p if isinstance(p, str) else _compact(p)}" for p in goal.get("prohibitions") or ()
    ]
    amendments = goal.get("amendments") or ()
    if amendments:
        lines += ["", "# Amendments", "", *(f"- {text}" for text in amendments)]
    return "\n".join(lines) + "\n"


def _compact(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return text if is_object(value) else str(value)
