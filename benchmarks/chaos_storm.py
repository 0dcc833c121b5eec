"""What is killed: the product or a peer over a plan, task after task, until it was often enough."""

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from model_server import ModelServer, Said, Seen, calls, finish

from benchmarks.chaos_lives import Death, Ended, Ground, Tally
from benchmarks.chaos_worlds import AGENTS, ROUNDS, TOOLS, World, worlds

PLACES = {
    "after intent": 6,
    "before": 6,
    "during": 6,
    "after": 6,
    "after outcome": 6,
    "before checkpoint": 16,
    "after checkpoint": 16,
    "probing": 1,
}
"""Where the product dies, and at most at the how many-th time in a life."""

PEER_PLACES = {"before": 6, "after": 6}
MOST_LIVES = 300
"""Of one task: more means that it does not come to its end."""

WAITS = 3
"""Exit code of a task that waits for a person, or is paused."""


@dataclass
class Contender:
    """Something that runs tasks of one world and is killed.

    Attributes:
        world: what is run.
        start: the command of a life, by task.
        places: where it can die by itself.
        has_tools: whether tools run in processes of their own.
    """

    name: str
    world: World
    ground: Ground
    url: str
    start: Callable[[str], Sequence[str]]
    places: dict[str, int]
    has_tools: bool
    command: Callable[..., list[str]] | None = None
    """Any command of the product, None for a peer."""
    tally: Tally = field(default_factory=Tally)
    _goal: int = 0

    def storm(self, kills: int) -> Tally:
        """Run tasks until so many kills have happened; the last one comes to its end in peace."""
        self._goal = kills
        while self.tally.kills.total() < kills:
            self._run(f"t{self.tally.tasks + 1}")
        left = self.ground.left()
        self.tally.stuck += len(left)
        self.tally.notes += [f"process {pid} is left" for pid in left]
        return self.tally

    def _run(self, task: str) -> None:
        tally = self.tally
        tally.tasks += 1
        try:
            self._to_its_end(task)
        except (TimeoutError, _Stuck) as stuck:
            tally.stuck += 1
            tally.notes.append(f"{task}: {stuck}")
            print(f"{self.name}, {tally.notes[-1]}", file=sys.stderr, flush=True)
        lost, repeated = self.world.verdict(self.ground.facts.all, task)
        tally.lost += lost
        tally.repeated += repeated

    def _to_its_end(self, task: str) -> None:
        ended: Ended | None = None
        for _ in range(MOST_LIVES):
            restarts = ended is not None and bool(ended.killed)
            if restarts and self._goes_back():
                self._interlude(["rollback", task, self._draw.choice(self.world.goes_back)])
                restarts = False
            death = self._death() if self.tally.kills.total() < self._goal else Death()
            ended = self._live(self.start(task), death)
            if restarts and ended.restart_s is not None:
                self.tally.restarts_s.append(ended.restart_s)
            if ended.code == 0:
                return
            if self.command and ended.code == WAITS:
                self._answer(task)
            elif self.command and ended.code != -9 and ended.killed != "server":
                raise _Stuck(f"exit {ended.code}: {ended.said[-600:]}{self._failure(task)}")
        raise _Stuck(f"not at its end after {MOST_LIVES} lives")

    @property
    def _draw(self) -> random.Random:
        return self.ground.draw

    def _goes_back(self) -> bool:
        return bool(self.world.goes_back) and self._draw.random() < 0.15

    def _live(self, command: Sequence[str], death: Death) -> Ended:
        ended = self.ground.live(command, self.url, death)
        self.tally.lives += 1
        if ended.killed:
            place = f": {death.point}" if death.point and ended.code == -9 else ""
            self.tally.kills[f"{ended.killed}{place}"] += 1
        return ended

    def _interlude(self, words: list[str]) -> None:
        """A command of a person; every second one is killed as well."""
        if self.command:
            dies = self.tally.kills.total() < self._goal and self._draw.random() < 0.5
            death = Death(kind="random", pause_s=self._draw.uniform(0, 3))
            self._live(self.command(*words), death if dies else Death())

    def _answer(self, task: str) -> None:
        """Answer what is asked, as each question allows first."""
        if self.command is None:
            return
        listed = subprocess.run(
            self.command("questions", task, "--json"),
            env=self.ground.environment_of(self.url),
            capture_output=True,
            check=True,
        )
        for question in json.loads(listed.stdout):
            if question["kind"] not in ("approve", "check"):
                raise _Stuck(f"asks {question['kind']}: {question['text']}")
            self._interlude(["answer", task, question["id"], question["choices"][0]])

    def _failure(self, task: str) -> str:
        """What the product itself says of a task that did not come to its end."""
        said = [
            subprocess.run(
                self.command(*words, task, "--json") if self.command else (),
                env=self.ground.environment_of(self.url),
                capture_output=True,
                check=False,
            ).stdout.decode(errors="replace")
            for words in (["status"], ["history"])
        ]
        return f"\n{said[0]}\n{said[1][-6000:]}"

    def _death(self) -> Death:
        """Half of the deaths at named places, the rest at any moment or of others."""
        draw = self._draw
        lot = draw.random()
        if lot < 0.5:
            point = draw.choice(list(self.places))
            return Death(kind="place", point=point, count=draw.randint(1, self.places[point]))
        facts, pause_s = draw.randint(1, 12), draw.uniform(0, 0.05)
        if lot < 0.6:
            return Death(kind="random", pause_s=draw.uniform(0, 2))  # while it starts
        if lot < 0.62:
            return Death(kind="server", facts=facts, pause_s=pause_s)
        if lot < 0.72 and self.has_tools:
            return Death(kind="tool", facts=facts, pause_s=pause_s)
        return Death(kind="random", facts=facts, pause_s=pause_s)


class _Stuck(Exception):
    """A task does not come to its end."""


# --- the contenders --------------------------------------------------------------------------


def product(world: World, ground: Ground) -> Contender:
    """The real command: `run` until the task is there, then `resume`."""
    url = ground.database(world.name)
    (ground.home / TOOLS.name).write_bytes(TOOLS.read_bytes())
    file = ground.home / f"{world.name}.json"
    file.write_text(json.dumps(world.task))
    begun: set[str] = set()

    def command(*words: str) -> list[str]:
        return [sys.executable, "-m", "benchmarks.chaos_worker", *words]

    def start(task: str) -> list[str]:
        if task not in begun and not any(f["effect"].startswith(f"{task}/") for f in facts.all):
            return command("run", str(file), "--id", task, "--quiet")
        begun.add(task)
        return command("resume", task, "--quiet")

    facts = ground.facts
    return Contender(
        name=f"surefoot: {world.name}",
        world=world,
        ground=ground,
        url=url,
        start=start,
        places=PLACES | dict(world.points),
        has_tools=True,
        command=command,
    )


def peer(name: str, world: World, ground: Ground, dbos_python: str) -> Contender:
    """A program of a peer, over the same chain and on the same server."""
    python = dbos_python if name == "dbos" else sys.executable
    url = ground.database(name.replace("-", "_"))

    def start(task: str) -> list[str]:
        return [python, "-m", "benchmarks.chaos_peers", name, task, url]

    return Contender(
        name=f"{name}: chain",
        world=world,
        ground=ground,
        url=url,
        start=start,
        places=PEER_PLACES,
        has_tools=False,
    )


def missing(name: str, dbos_python: str) -> str:
    """Why a peer cannot be run here, "" where it can."""
    if name != "dbos":
        return ""
    asked = [dbos_python, "-c", "import dbos"]
    found = subprocess.run(asked, capture_output=True, check=False).returncode == 0
    return "" if found else "dbos is not installed (pip install 'surefoot[bench]')"


def agents_answers(seen: Seen) -> Said:
    """Two sends a reply, until all were answered well: a call that failed is made again."""
    agent = next(f"a{n}" for n in range(AGENTS) if seen.says(f"[a{n}]"))
    told = [str(message["content"]) for message in seen.messages if message["role"] == "tool"]
    wanted = [f"{agent}-{number}-{half}" for number in range(ROUNDS) for half in "xy"]
    open = [id for id in wanted if not any(id in text and "nonce" in text for text in told)]
    return calls([("send", {"id": id}) for id in open[:2]]) if open else finish("done")


def storm(row: str, kills: int, *, seed: int, dbos_python: str) -> Tally:
    """Kill what the row names so often, on a ground of its own.

    Args:
        row: a plan of ours, or a peer.
        kills: how many.
        seed: of everything random here.
        dbos_python: the interpreter that runs DBOS.
    """
    world = next((world for world in worlds() if world.name == row), None)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="surefoot-chaos-")))
        home.chmod(0o755)  # as root the server runs as another user
        models = stack.enter_context(ModelServer())
        models.always("agent", agents_answers)
        ground = Ground(home, random.Random(f"{seed} {row}"), models.environment())
        stack.callback(ground.close)
        if world is not None:
            return product(world, ground).storm(kills)
        return peer(row, worlds()[0], ground, dbos_python).storm(kills)
