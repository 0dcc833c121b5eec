"""The real command as a process with short times (`short_times.py`), while a block lasts."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from crash.storm import PATIENCE_S
from scenes import Scene

PROGRAM = Path(__file__).parent / "short_times.py"


class Command:
    """A command that was started; what it says can be read while it runs."""

    def __init__(self, scene: Scene, words: tuple[str | Path, ...], environment: dict[str, str]):
        self._said = scene.folder / f"stderr-{len(list(scene.folder.glob('stderr-*')))}"
        with self._said.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, PROGRAM, *words],
                env=scene.environment(**environment),
                cwd=scene.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        self.pid = self.process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, None while it runs."""
        return self.process.poll()

    def said(self) -> str:
        """What stands on stderr so far."""
        return self._said.read_text(errors="replace")

    def end(self) -> str:
        """Wait for its end; returns stdout."""
        return self.process.communicate(timeout=PATIENCE_S)[0]


@contextmanager
def started(scene: Scene, *words: str | Path, **environment: str) -> Generator[Command]:
    """Start a command; it is gone afterwards whatever happens."""
    command = Command(scene, words, environment)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.communicate()
