"""The processes that `resume` starts and kills. What they import is a part of what is measured.

`client FILE ID`: start the task of a file (or go on with it where there is no file any more).
`stock`: the peer, a stock LangGraph process that ends its first superstep.
"""

import time

BEGUN = time.time()  # hence the late imports below


def main() -> None:
    import asyncio
    import sys

    way, *rest = sys.argv[1:]
    asyncio.run(client(*rest) if way == "client" else stock())


async def client(file: str, task_id: str) -> None:
    """Run a task to its end; print when the modules were imported and the engine open."""
    import json

    from surefoot.service.client import Surefoot

    imported = time.time()
    async with Surefoot() as surefoot:
        await surefoot.engine()
        print(json.dumps({"begun": BEGUN, "imported": imported, "opened": time.time()}), flush=True)
        if task := _taken(file):
            await surefoot.create(json.loads(task), id=task_id, concurrency=8)
        await surefoot.resume(task_id)


async def stock() -> None:
    """Print when the first superstep was over."""
    import os

    from benchmarks import floor

    print(await floor.first_superstep_at(os.environ["SUREFOOT_DATABASE_URL"]))


def _taken(file: str) -> str | None:
    """The text of a file, which is gone afterwards: whoever comes later goes on with the task."""
    from pathlib import Path

    path = Path(file)
    text = path.read_text(encoding="utf-8") if path.exists() else None
    path.unlink(missing_ok=True)
    return text


if __name__ == "__main__":
    main()
