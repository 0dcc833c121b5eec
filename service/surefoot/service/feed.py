"""Keeps a picture of a task fresh: reads new events only, and the estimate now and then."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from surefoot.checkpointing.database import Database
from surefoot.graph.durations import History
from surefoot.graph.eta import remaining_time
from surefoot.graph.workload import workload_of
from surefoot.service.look import Looker
from surefoot.service.picture import VERDICTS, TaskPicture
from surefoot.service.rows import Row
from surefoot.service.status import Eta, rounded

PAGE = 2000
ETA_EVERY_S = 2.0
ETA_SHARE = 0.03
"""At most this share of the time goes into estimating, so that large plans are not slowed."""


@dataclass(frozen=True, slots=True)
class News:
    """An event and the progress right after it."""

    event: Row
    progress: float


class Feed:
    """The picture of one task, and the events that changed it since the last `refresh`."""

    def __init__(self, database: Database, task_id: str) -> None:
        self._looker = Looker(database)
        self._task_id = task_id
        self._last_event = 0
        self._eta_due = 0.0
        self._history: dict[str, History] = {}
        self._picture: TaskPicture | None = None
        self.eta: Eta | None = None

    @property
    def picture(self) -> TaskPicture:
        """The picture as of the last refresh."""
        if self._picture is None:
            raise AssertionError("refresh the feed first")
        return self._picture

    async def refresh(self) -> list[News]:
        """Bring the picture up to date; returns the events that are new to it.

        Raises:
            DatabaseUnavailable: the picture stays as it was.
        """
        if self._picture is None:
            await self.begin()
        news: list[News] = []
        while True:
            page = await self._looker.readers.event_rows(
                self._task_id, after=self._last_event, limit=PAGE
            )
            for event in page:
                if event["type"] == "PlanAccepted" and not event["subtask"]:
                    await self._build(untouched=True)
                self.picture.apply(event)
                news.append(News(event, self.picture.progress()))
            if page:
                self._last_event = page[-1]["id"]
            if len(page) < PAGE:
                break
            await asyncio.sleep(0)
        types = {new.event["type"] for new in news if not new.event["subtask"]}
        if "PlanReplaced" in types:
            await self._build()
        elif any(new.event["type"] == "ModelCalled" for new in news):
            self.picture.models.spend(await self._looker.task(self._task_id))
        return news

    async def begin(self) -> None:
        """Draw the picture as it is; what was told before now is no news."""
        self._last_event = await self._looker.newest_event_id(self._task_id)
        await self._build()

    async def notice_stop(self) -> None:
        """See whether the task is stopping.

        Raises:
            DatabaseUnavailable: the picture stays as it was.
        """
        row = await self._looker.task(self._task_id)
        self.picture.stopping = bool(row["stopping"])

    async def estimate(self) -> None:
        """Bring the remaining time up to date, if it is due."""
        picture, now = self.picture, time.time()
        if now < self._eta_due:
            return
        if picture.status != "running" or not picture.plan.get("subtasks"):
            self.eta = None
            return
        self.eta = await asyncio.to_thread(_time_left, picture, self._history, now)
        spent = time.time() - now
        self._eta_due = now + max(ETA_EVERY_S, spent / ETA_SHARE)

    async def _build(self, *, untouched: bool = False) -> None:
        """`untouched`: as it was when its plan was accepted; events tell what came after that."""
        rows = await self._looker.rows(self._task_id)
        self._history = dict(rows.history)
        if untouched:
            task = {**rows.task, "status": "running", "failure": None}
            self._picture = TaskPicture(task, rows.plan, ())
            return
        self._picture = TaskPicture(rows.task, rows.plan, rows.subtasks, rows.made)
        self._picture.asked = {q["id"]: q["text"] for q in rows.questions}
        for event in await self._looker.readers.event_rows(self._task_id, types=VERDICTS):
            self._picture.judge(event)
        if rows.planning is not None:
            self._picture.apply(rows.planning)


def _time_left(picture: TaskPicture, history: Mapping[str, History], now: float) -> Eta | None:
    left = remaining_time(
        workload_of(picture.plan, picture.seen, now=now, plans=picture.made),
        concurrency=picture.concurrency,
        history=history,
        retry_rate=min(picture.retry_rate, 2.0),
    )
    return None if left is None else rounded(left)
