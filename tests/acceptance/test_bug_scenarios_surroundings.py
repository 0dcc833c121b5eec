"""Bad surroundings: databases that are not there, homes that cannot be written, held tasks."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from scenes import Done, Scene, lines, subtask, task, until

from surefoot.graph.errors import LeaseHeld
from surefoot.graph.settings import Settings

GOOD = task([subtask("a", "echo", {"value": 1})])
SECRET = "s3cr3t-w0rd"


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def closed_port() -> Generator[int]:
    """A port that is taken, so that nobody else takes it, and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def web_port() -> Generator[int]:
    """A port where somebody answers who is no PostgreSQL."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    caller, _ = server.accept()
                except OSError:
                    return
                with caller:
                    caller.recv(64)
                    caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def assert_unreachable(scene: Scene, url: str, code: str = "database_unreachable") -> None:
    """Commands say it in one line without the password; nothing is made."""
    file = scene.file(GOOD)
    for words in (["run", str(file)], ["cancel", "t"]):
        done = scene.command(*words, SUREFOOT_DATABASE_URL=url)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
        assert_no_secret(done)
    done = scene.command("resume", "t", "--json", SUREFOOT_DATABASE_URL=url)
    assert done.code_and_error == (2, code) and not done.err, done
    assert_no_secret(done)
    debug = scene.command("status", "--debug", SUREFOOT_DATABASE_URL=url)
    assert debug.code == 2 and "Traceback" in debug.err
    assert_no_secret(debug)
    assert not (scene.settings.home / "pg").exists()


def assert_no_secret(done: Done) -> None:
    for secret in (SECRET, quote(SECRET + "@/", safe="")):
        assert secret not in done.out + done.err, done


def test_a_port_where_nobody_listens(scene: Scene, closed_port: int) -> None:
    url = f"postgresql://me:{SECRET}@127.0.0.1:{closed_port}/x"
    assert_unreachable(scene, url)
    looked = scene.command("doctor", "--json", SUREFOOT_DATABASE_URL=url)
    assert looked.code == 2 and looked.document is not None
    assert_no_secret(looked)


def test_a_port_where_no_postgresql_answers(scene: Scene, web_port: int) -> None:
    assert_unreachable(scene, f"postgresql://me:{SECRET}@127.0.0.1:{web_port}/x")


NO_ADDRESSES = {
    f"postgresql://me:{SECRET}@x@127.0.0.1:5432/x": "database_url",
    f"postgresql://me:{SECRET}@/@127.0.0.1:5432/x": "database_unreachable",
    f"mysql://me:{SECRET}@127.0.0.1/x": "database_url",
    f"postgresql://me:{SECRET}@127.0.0.1:many/x": "database_url",
    f"nonsense {SECRET}": "database_url",
}


@pytest.mark.parametrize(("url", "code"), NO_ADDRESSES.items())
def test_an_address_that_is_none_is_not_repeated(scene: Scene, url: str, code: str) -> None:
    assert_unreachable(scene, url, code=code)


def test_a_database_or_user_that_is_not_there(scene: Scene) -> None:
    url = scene.settings.database_url
    assert url is not None
    name = url.split("/")[3].split("?")[0]
    for changed in (
        url.replace(f"/{name}?", "/nowhere?"),
        url.replace("postgres@", f"stranger:{SECRET}@"),
    ):
        assert changed != url
        assert_unreachable(scene, changed)


# --- homes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("embedded", [True, False], ids=["embedded", "by URL"])
@pytest.mark.parametrize("place", ["/proc/surefoot", "FILE/below/it", "FILE"])
def test_a_home_that_cannot_be_written(scene: Scene, place: str, embedded: bool) -> None:
    file = scene.write("regular", "content")
    changed = {"SUREFOOT_HOME": place.replace("FILE", str(file))}
    if embedded:
        changed["SUREFOOT_DATABASE_URL"] = ""
    for words in (["run", str(scene.file(GOOD))], ["status"]):
        done = scene.command(*words, **changed)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
        assert "unexpected" not in done.err, done
        done = scene.command(*words, "--json", **changed)
        assert done.code_and_error == (2, "home_not_writable") and not done.err
    assert file.read_text() == "content" and scene.tasks() == []


@pytest.mark.parametrize(
    "changed",
    [
        {"SUREFOOT_POOL_SIZE": "1"},
        {"SUREFOOT_POOL_SIZE": "many"},
        {"SUREFOOT_ARTIFACTS_URL": "nonsense://x"},
        {"SUREFOOT_ARTIFACTS_URL": "file:///proc/x"},
    ],
    ids=str,
)
def test_bad_settings_are_refused_before_anything_is_made(
    scene: Scene, changed: dict[str, str]
) -> None:
    done = scene.command("run", scene.file(GOOD), "--id", "t", **changed)
    assert (done.code, done.err.count("\n")) == (2, 1), done
    assert "unexpected" not in done.err, done
    done = scene.command("run", scene.file(GOOD), "--id", "t", "--json", **changed)
    assert done.code == 2 and done.error["code"].islower() and not done.err
    assert scene.tasks() == []


@pytest.mark.parametrize("room", ["", "workspaces", "artifacts", "pg/data", "tasks/t", "link"])
def test_our_own_folders_are_no_workspace(scene: Scene, tmp_path: Path, room: str) -> None:
    """A rollback would put the database and the stored contents back as files."""
    home = scene.settings.home
    place = home / room
    if room == "link":
        place = tmp_path / room
        place.symlink_to(home / "artifacts")
    done = scene.command("run", scene.file(GOOD), "--id", "t", "--workspace", place, "--json")
    assert done.code_and_error == (2, "bad_workspace")
    assert scene.tasks() == []


def test_a_folder_of_ones_own_in_the_home_is_a_workspace(scene: Scene) -> None:
    place = scene.settings.home / "mine"
    done = scene.command("run", scene.file(GOOD), "--id", "t", "--workspace", place, "--json")
    assert (done.code, done.document["workspace"]) == (0, str(place))


def test_a_workspace_that_cannot_be_made(scene: Scene) -> None:
    regular = scene.write("regular", "content")
    for place in (regular, regular / "below", Path("/proc/x")):
        done = scene.command("run", scene.file(GOOD), "--id", "t", "--workspace", place)
        assert (done.code, done.err.count("\n")) == (2, 1), done
        assert "unexpected" not in done.err and scene.tasks() == [], done


# --- held tasks --------------------------------------------------------------------------------


def test_a_task_that_a_live_process_holds_is_left_alone(scene: Scene, tmp_path: Path) -> None:
    marks, opening = tmp_path / "marks", tmp_path / "open"
    waits = subtask("a", "gate", {"file": str(marks), "open": str(opening)}, timeout_seconds=200)
    file = scene.file(task([waits]))
    with scene.started("run", file, "--id", "t", "--json") as process:
        asyncio.run(until(lambda: lines(marks)))
        for words in (["run", str(file), "--id", "t"], ["resume", "t"]):
            done = scene.command(*words)
            assert (done.code, done.err.count("\n")) == (5, 1), done
            assert scene.command(*words, "--json").code_and_error == (5, "lease_held")
        # A raised limit is not slipped in either.
        assert scene.command("resume", "t", "--max-steps", "77", "--json").code == 5
        looked = scene.command("status", "t", "--json").document
        assert (looked["status"], looked["worker"]["alive"]) == ("running", True)
        opening.touch()
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert json.loads(out)["limits"]["max_steps"] == 10_000
    assert lines(marks) == ["x"]


async def test_a_task_that_this_process_holds_is_not_run_twice(
    scene: Scene, tmp_path: Path
) -> None:
    marks, opening = tmp_path / "marks", tmp_path / "open"
    waits = subtask("a", "gate", {"file": str(marks), "open": str(opening)}, timeout_seconds=200)
    async with scene.client() as surefoot, scene.client() as other:
        running = asyncio.create_task(surefoot.run(task([waits]), id="t"))
        await until(lambda: lines(marks))
        for client in (surefoot, other):
            with pytest.raises(LeaseHeld):
                await client.resume("t")
        opening.touch()
        assert (await running).completed
    assert lines(marks) == ["x"]


async def test_a_closed_home_of_artifacts_fails_nothing_that_is_done(scene: Scene) -> None:
    # The task's row is there, but another home: results by reference are named as missing.
    big = task([subtask("a", "big", {"size": 50_000})])
    async with scene.client() as surefoot:
        assert (await surefoot.run(big, id="t")).completed
    elsewhere = replace(scene.settings, artifacts_url=(scene.settings.home / "elsewhere").as_uri())
    away = Scene(elsewhere, scene.folder)
    done = await asyncio.to_thread(away.process, "result", "t", "a")
    assert (done.code, done.err.count("\n")) == (2, 1) and "missing" in done.err, done
    assert os.listdir(scene.settings.home / "artifacts")
