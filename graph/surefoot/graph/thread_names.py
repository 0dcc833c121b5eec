"""What the names of a task's threads mean: `TASK`, `TASK/GROUP:DIGEST`, `TASK/SUBTASK/GO[:N]`."""

from dataclasses import dataclass

DIGEST_CHARS = 12
"""Of what a group's thread is told apart by; the number of a sample is shorter."""


@dataclass(frozen=True, slots=True)
class AgentThread:
    """One go of an agent, or a sample of it."""

    subtask: str
    go: int


@dataclass(frozen=True, slots=True)
class GroupThread:
    """The plan of a group as it was meant once."""

    subtask: str


def thread_of_name(task_id: str, thread: str) -> AgentThread | GroupThread:
    """What a thread below a task's belongs to."""
    rest = thread.removeprefix(f"{task_id}/")
    head, _, tail = rest.rpartition(":")
    if head and len(tail) == DIGEST_CHARS:
        return GroupThread(head)
    subtask, _, go = rest.rpartition("/")
    return AgentThread(subtask, int(go.partition(":")[0]))
