"""Idempotency keys: what makes two calls the same call (contract §2).

A key comes from the task, the tool and the *meaning* of the arguments, never from attempt numbers,
positions or tool-call ids; so a retry, a crash and a rollback all find the first call again.
"""

import hashlib
import json
from dataclasses import dataclass

from surefoot.graph.plain import canonical_json, clean_text
from surefoot.graph.values import JsonObject

MAX_OWN_KEY_CHARS = 512
"""A longer own key is cut and completed by its hash: an index row must hold it."""


@dataclass(frozen=True, slots=True)
class CallKey:
    """The identity of one effect.

    Attributes:
        key: what the ledger knows the call by, within the task.
        scope: '' for a tool's own key (one effect per task), else the subtask it answers.
        idempotency_key: what the tool is given, stable over retries and crashes.
    """

    key: str
    scope: str
    idempotency_key: str


def call_digest(tool: str, args: JsonObject) -> str:
    """sha256 (hex) over a tool's name and its canonical arguments.

    Raises:
        NotJson: the arguments are not JSON.
    """
    call = [tool, args]
    try:  # what is clean already needs no second cleaning; the text is the same
        text = json.dumps(
            call, separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=True
        ).encode()
    except (TypeError, ValueError, RecursionError):
        text = canonical_json(call).encode()
    return hashlib.sha256(text).hexdigest()


def default_key(task_id: str, subtask: str, call: str, ordinal: int = 1) -> CallKey:
    """The key of a call whose tool names none of its own.

    Args:
        task_id: the task.
        subtask: the subtask that makes the call; two subtasks with the same call make two.
        call: `call_digest` of tool and arguments.
        ordinal: this is the n-th identical call within one attempt, from 1 (`CallCounter`).
    """
    return CallKey(
        key=f"{call}#{ordinal}",
        scope=subtask,
        idempotency_key=f"{task_id}:{subtask}:{call[:16]}#{ordinal}",
    )


def own_key(task_id: str, tool: str, text: str) -> CallKey:
    """The key of a call whose tool says itself what it means: one effect per task.

    Two tools that happen to answer the same text are two effects, so the ledger's key names
    the tool as well.
    """
    clean = clean_text(text)
    if len(clean) > MAX_OWN_KEY_CHARS:
        clean = f"{clean[:400]}~{hashlib.sha256(clean.encode()).hexdigest()}"
    return CallKey(key=f"{tool}:{clean}", scope="", idempotency_key=f"{task_id}:{clean}")


UNDO = "#undo-"
"""What the keys of `undo` calls begin with; neither a digest nor a tool's name does."""


def undo_key(task_id: str, subtask: str, call: str, attempt: int) -> CallKey:
    """The key of the `undo` of one attempt: made once however often its work is taken up again.

    Args:
        task_id: the task.
        subtask: the subtask.
        call: `call_digest` of the undo's tool and arguments.
        attempt: the attempt whose work is undone.
    """
    return CallKey(
        key=f"{UNDO}{attempt}:{call}",
        scope=subtask,
        idempotency_key=f"{task_id}:{subtask}:undo-{attempt}:{call[:16]}",
    )


def is_undo(key: str) -> bool:
    """Whether a ledger row is of a subtask's `undo`."""
    return key.startswith(UNDO)


def given_key(task_id: str, tool: str, key: str, scope: str) -> str:
    """The idempotency key that a recorded call was given, from what the ledger knows it by."""
    if not scope:
        return f"{task_id}:{key.removeprefix(f'{tool}:')}"
    call, _, ordinal = key.partition("#")
    return f"{task_id}:{scope}:{call[:16]}#{ordinal}"


class CallCounter:
    """Counts identical calls within one attempt; every attempt starts with a new one."""

    def __init__(self) -> None:
        self._made: dict[str, int] = {}

    def next(self, call: str) -> int:
        """The ordinal of this call, from 1, by its `call_digest`."""
        ordinal = self._made[call] = self._made.get(call, 0) + 1
        return ordinal
