"""Recorded sequences of stateful calls, killed at random: the world ends in the exact state.

The recordings and the simulators are no part of the repository; without them these are skipped.
"""

import ast
import csv
import json
import os
import random
import signal
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import ROOT, Sql
from crash import office_tools, simulated_tools
from psycopg import sql as compose
from scenes import Scene, subtask, task, until

from surefoot.graph.settings import Settings

MATERIAL = ROOT.parent / "shared" / "material"
WORLDS, OFFICE = MATERIAL / "tools_bfcl_stateful", MATERIAL / "tickets_workbench"
HERE = Path(__file__).parent
KILLS = 6
SEED = 4


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def recordings(folder: Path) -> list[dict[str, Any]]:
    if not folder.is_dir():
        pytest.skip(f"the recordings are not here: {folder}")
    (file,) = folder.glob("tasks.*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def parsed(call: str) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of a call that is written as code; unnamed ones under `*`."""
    tree = ast.parse(call, mode="eval").body
    assert isinstance(tree, ast.Call)
    name = ast.unparse(tree.func).removesuffix(".func").rpartition(".")[2]
    named = {str(one.arg): ast.literal_eval(one.value) for one in tree.keywords}
    unnamed = [ast.literal_eval(one) for one in tree.args]
    return name, ({"*": unnamed} if unnamed else {}) | named


async def kill_again_and_again(
    scene: Scene, file: Path, done: Callable[[], int], *, steps: int
) -> None:
    """Run a task by processes that are killed right when something has been done outside."""
    draw = random.Random(SEED)
    command: tuple[Any, ...] = ("run", file, "--id", "t")
    for _ in range(KILLS):
        goal = done() + draw.randint(1, steps // KILLS)
        with scene.started(*command) as process:
            await until(lambda: done() >= goal or process.poll() is not None)  # noqa: B023
            assert process.poll() is None, process.communicate()[1]
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
        command = ("resume", "t")
    ended = scene.process("resume", "t", "--json")
    assert ended.code == 0, ended.out
    assert ended.document["usage"]["failures"] == 0


# --- simulated worlds ------------------------------------------------------------------------


def kind_of(step: dict[str, Any]) -> str:
    """The tool that stands for a recorded call, by its labels."""
    if not step["mutating"]:
        return "look_up"
    return "do_once" if step["repeat_changes_state"] else "set_to"


def chain_of(folder: Path, recording: dict[str, Any]) -> list[Any]:
    """The recorded calls one after the other."""
    made: list[Any] = []
    for n, step in enumerate(recording["gold_steps"]):
        name, args = parsed(step["call"])
        given = {"folder": str(folder), "name": name, "arguments": args}
        needs = [made[-1]["id"]] if made else []
        made.append(subtask(f"{folder.name}-{n}", kind_of(step), given, depends_on=needs))
    return made


def state_of(world: dict[str, Any]) -> Any:
    """All that the simulators hold, as text."""
    return {
        name: json.dumps(vars(one), default=_inside) for name, one in world["simulators"].items()
    }


def _inside(value: object) -> Any:
    if isinstance(value, random.Random):
        return repr(value.getstate())
    return vars(value) if hasattr(value, "__dict__") else str(value)


async def test_simulated_worlds_end_in_the_exact_state(scene: Scene, tmp_path: Path) -> None:
    if find_spec("bfcl_eval") is None:
        pytest.skip("the simulators are not installed: pip install --no-deps bfcl-eval")
    found = [one for one in recordings(WORLDS) if one["duplicate_execution_visible"]]
    chosen = random.Random(SEED).sample(found, 8)
    plan: list[Any] = []
    expected: dict[Path, Any] = {}
    for n, recording in enumerate(chosen):
        folder = tmp_path / f"w{n}"
        folder.mkdir()
        given = (recording["initial_config"], recording["involved_classes"])
        simulated_tools.store(simulated_tools.new_world(*given), folder)
        plan += chain_of(folder, recording)
        right = simulated_tools.new_world(*given)
        for step in recording["gold_steps"]:
            simulated_tools.call_in(right, *parsed(step["call"]))
        expected[folder] = state_of(right)

    def made() -> int:
        return sum(len(simulated_tools.load(folder)["answers"]) for folder in expected)

    file = scene.file(task(plan, tools=[HERE / "simulated_tools.py"], concurrency=3))
    acting = sum(step["mutating"] for one in chosen for step in one["gold_steps"])
    await kill_again_and_again(scene, file, made, steps=acting)
    for folder, state in expected.items():
        assert state_of(simulated_tools.load(folder)) == state
    rows = scene.rows("select id, result from surefoot.subtasks")
    results = {row["id"]: row["result"]["value"] for row in rows}
    for n, recording in enumerate(chosen):
        for m, step in enumerate(recording["gold_steps"]):
            if kind_of(step) != "set_to":  # done again it may say that there was nothing to do
                assert results[f"w{n}-{m}"] == step["result"], step["call"]


# --- the office ------------------------------------------------------------------------------

TABLES = {
    "emails": "emails",
    "events": "calendar_events",
    "tasks": "project_tasks",
    "customers": "customer_relationship_manager_data",
}


def make_office(connection: "psycopg.Connection[Any]", schema: str) -> None:
    """The recorded tables, and those that calls add to."""
    connection.execute(compose.SQL("create schema {}").format(compose.Identifier(schema)))
    for table, name in TABLES.items():
        with (OFFICE / "db" / f"{name}.csv").open(newline="") as file:
            columns, *rows = [
                [cell.replace("/", "_") for cell in row] if n == 0 else row
                for n, row in enumerate(csv.reader(file))
            ]
        make_table(connection, schema, table, columns)
        place = compose.Identifier(schema, table)
        with (
            connection.cursor() as cursor,
            cursor.copy(compose.SQL("copy {} from stdin").format(place)) as copy,
        ):
            for row in rows:
                copy.write_row(row)
    make_table(connection, schema, "plots", ["plot"])
    connection.execute(
        compose.SQL(
            "create table {} (subtask text primary key, answer jsonb, times int default 1)"
        ).format(compose.Identifier(schema, "calls"))
    )


def make_table(
    connection: "psycopg.Connection[Any]", schema: str, table: str, columns: list[str]
) -> None:
    listed = compose.SQL(", ").join(
        compose.SQL("{} text").format(compose.Identifier(column)) for column in columns
    )
    query = compose.SQL("create table {} ({}, primary key ({}))").format(
        compose.Identifier(schema, table), listed, compose.Identifier(columns[0])
    )
    connection.execute(query)


def office_state(sql: Sql, schema: str) -> dict[str, Any]:
    return {
        table: sql.rows(f"select to_jsonb(t) as row from {schema}.{table} t order by 1")
        for table in office_tools.KEYS
    }


async def test_an_office_ends_in_the_exact_state(
    scene: Scene, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = random.Random(SEED).sample([r for r in recordings(OFFICE) if r["gold_calls"]], 45)
    # Each once: two subtasks with the same call are a fault in a task file.
    called = dict.fromkeys(call for recording in chosen for call in recording["gold_calls"])
    calls = [parsed(call) for call in called]
    with psycopg.connect(sql.url) as connection:
        for schema in ("office", "expected"):
            make_office(connection, schema)
        right = office_tools.Office(connection, "expected")
        for name, args in calls:
            getattr(right, name)(**args)
    plan: list[Any] = []
    for n, (name, args) in enumerate(calls):
        kind = "once" if name in office_tools.ONCE else "again"
        needs = [f"c{n - 1}"] if n else []
        plan.append(subtask(f"c{n}", kind, {"name": name, "arguments": args}, depends_on=needs))
    monkeypatch.setenv(office_tools.URL, sql.url)

    def made() -> int:
        return sql.value("select count(*)::int from office.calls")

    file = scene.file(task(plan, tools=[HERE / "office_tools.py"]))
    await kill_again_and_again(scene, file, made, steps=len(calls))
    assert office_state(sql, "office") == office_state(sql, "expected")
    once = {f"c{n}" for n, (name, _) in enumerate(calls) if name in office_tools.ONCE}
    times = sql.rows("select subtask, times from office.calls where times > 1")
    assert [row for row in times if row["subtask"] in once] == []
    assert made() == len(calls)
