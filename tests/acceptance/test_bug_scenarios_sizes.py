"""D14: big results lie in the store, and what PostgreSQL holds grows with the steps alone."""

from pathlib import Path
from typing import Any

import pytest
from scenes import Scene, lines, subtask, task

from surefoot.graph.settings import Settings

KB, MB = 1000, 1_000_000
MIB = 1024 * 1024


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def database_bytes(scene: Scene) -> int:
    """What all tables hold, their indexes and wide columns included."""
    query = (
        "select sum(pg_total_relation_size(c.oid))::bigint as n from pg_class c"
        " join pg_namespace s on s.oid = c.relnamespace"
        " where c.relkind = 'r' and s.nspname in ('public', 'surefoot')"
    )
    return scene.rows(query)[0]["n"]


def stored_bytes(scene: Scene) -> int:
    folder = scene.settings.home / "artifacts"
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def big_ones(n: int, name: str, *, size: int = 200 * KB) -> dict[str, Any]:
    subtasks = [
        subtask(
            f"{name}{i}",
            "big",
            {"size": size, "seed": i},
            depends_on=[f"{name}{i - 1}"] if i else [],
        )
        for i in range(n)
    ]
    return task(subtasks)


async def test_two_hundred_big_results_cost_postgres_little_and_grow_with_the_steps(
    scene: Scene,
) -> None:
    at_start = database_bytes(scene)
    async with scene.client() as surefoot:
        assert (await surefoot.run(big_ones(50, "a"), id="small")).completed
        after_small = database_bytes(scene)
        assert (await surefoot.run(big_ones(200, "b"), id="large")).completed
        after_large = database_bytes(scene)
        assert len(await surefoot.result("large", "b199")) == 200 * KB
    small, large = after_small - at_start, after_large - after_small
    # 250 different results of 200 kB: 50 MB, none of it in the tables.
    assert stored_bytes(scene) >= 200 * 200 * KB
    assert large < 5 * MB, f"{large} bytes for 200 results"
    # Four times the steps: at most about four times the bytes (pages make it coarse).
    assert large <= 1.5 * 4 * small, (small, large)


async def test_a_result_of_50_mb_is_kept_passed_on_and_survives_a_resume(
    scene: Scene, tmp_path: Path
) -> None:
    tried, opening = tmp_path / "tried", tmp_path / "open"
    make = subtask("make", "big", {"size": 50 * MB})
    tell = {"file": str(tried), "open": str(opening)}
    stop = subtask("stop", "works_once_open", tell, depends_on=["make"])
    use = subtask("use", "length", {"text": "${make}"}, depends_on=["stop"])
    retries = {"max_attempts": 9, "backoff_seconds": 0}
    spec = task([make, {**stop, "retries": retries}, use], budget={"max_failures": 1})
    async with scene.client() as surefoot:
        status = await surefoot.run(spec, id="t")
        assert status["failure"]["code"] == "too_many_failures", status
    opening.touch()
    async with scene.client() as surefoot:
        status = await surefoot.resume("t", limits={"max_failures": 9})
        assert status.completed, status
        assert await surefoot.result("t", "use") == 50 * MB
    made = scene.rows("select name, size from surefoot.artifacts")
    assert made == [{"name": "_result.json", "size": 50 * MB + 2}]
    assert len(lines(tried)) == 3 and database_bytes(scene) < 10 * MB


@pytest.mark.parametrize("effect", ["big", "big_effect"])
async def test_a_result_over_64_mib_fails_its_step_once_with_a_clear_text(
    scene: Scene, effect: str
) -> None:
    too_big = subtask("huge", effect, {"size": 65 * MIB}, retries={"max_attempts": 4})
    async with scene.client() as surefoot:
        status = await surefoot.run(task([too_big]), id="t")
    assert (status["status"], status["attempts"]) == ("failed", 1), status
    failure = status["failure"]
    assert (failure["code"], failure["subtask"]) == ("result_too_large", "huge")
    assert "64 MiB" in failure["message"] or str(64 * MIB) in failure["message"]
    assert database_bytes(scene) < 10 * MB
