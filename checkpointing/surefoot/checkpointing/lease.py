"""Who may write a task."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to write a task: whoever writes names the epoch, and a newer one ends the right."""

    task_id: str
    epoch: int
    worker_id: str
