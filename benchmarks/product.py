"""The product under measurement, driven as a Python program would drive it."""

import time
from pathlib import Path
from typing import Any

from surefoot.graph.session import Engine
from surefoot.graph.settings import Settings


async def run(task: dict[str, Any], settings: Settings, *, task_id: str | None = None) -> float:
    """Run a task to its end.

    Args:
        task: a task file as a mapping.
        settings: where its database and home are.
        task_id: its id; made up if not given.

    Returns:
        Seconds from asking for the run (the task is created, the tables are there) until it has
        ended: planning, validation, every superstep and the final acceptance are inside.
    """
    engine = await Engine.open(settings)
    try:
        spec = {"task": task, "task_dir": str(Path(__file__).parent)}
        created = await engine.create(spec, task_id=task_id, concurrency=task["concurrency"])
        begun = time.perf_counter()
        await engine.run(created.id)
        return time.perf_counter() - begun
    finally:
        await engine.close()
