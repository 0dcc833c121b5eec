"""`ToolContext`: what a running tool knows about its call and may ask of Surefoot.

The same face for tools in a child process and in this one; a `Backend` does the work behind it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from langchain_core.tools.base import (
    _DirectlyInjectedToolArg,  # pyright: ignore[reportPrivateUsage] - no public name hides a whole type
)

from surefoot.graph.plain import clean_text
from surefoot.tools.limits import Access

RESULT_ARTIFACT = "_result.json"
"""The name under which a large result is kept; tools may not take it."""


class Backend(Protocol):
    """What stands behind a context: a child's pipe to the main process, or that process."""

    def put(self, name: str, content: bytes, media_type: str) -> None:
        """Store an artifact; durable on return (loop tools: before the result counts)."""
        ...

    def get(self, name: str) -> bytes:
        """The content of an artifact. Raises KeyError for a name nobody put."""
        ...

    def heartbeat(self) -> None:
        """Note that the call is alive."""
        ...

    def is_cancelled(self) -> bool:
        """Whether the call was abandoned."""
        ...

    def log(self, text: str) -> None:
        """Add lines to the subtask's log."""
        ...


class Artifacts:
    """The artifacts of a call: `put` new ones, `get` what the subtask may see."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def put(self, name: str, content: bytes | str, media_type: str | None = None) -> None:
        """Store an artifact of this subtask; others see it once the subtask is accepted.

        Args:
            name: without `/`; the same name again replaces what this attempt put before.
            content: bytes as they are, text as UTF-8.
            media_type: guessed from the name when absent.

        Raises:
            ValueError: the name cannot be one.
            TypeError: the content is neither bytes nor text.
        """
        check_artifact_name(name)
        self._backend.put(name, _bytes_of(content), media_type or media_type_of(name))

    def get(self, name: str) -> bytes:
        """The content of an artifact: one this call put, `SUBTASK/NAME`, or a unique bare name.

        Raises:
            KeyError: there is no such artifact, or the bare name is not unique.
        """
        return self._backend.get(name)


Injected = _DirectlyInjectedToolArg
"""The base of types that LangChain keeps out of a tool's schema."""


class ToolContext(Injected):
    """What a tool gets when it has a parameter of this type; never shown to a model."""

    def __init__(
        self,
        *,
        task_id: str,
        subtask_id: str,
        attempt: int,
        failed_attempts: int,
        idempotency_key: str,
        access: Access,
        task_dir: Path,
        backend: Backend,
    ) -> None:
        self.task_id = task_id
        self.subtask_id = subtask_id
        self.attempt = attempt
        self.failed_attempts = failed_attempts
        """Attempts of this subtask that ended before this one, without cut ones."""
        self.idempotency_key = idempotency_key
        """The same for every try at the same call: hand it to services that take one."""
        self.workspace = access.workspace
        self.artifacts = Artifacts(backend)
        self.access = access
        """What the built-in tools may touch on behalf of this call."""
        self.task_dir = task_dir
        """The folder of the task file."""
        self._backend = backend

    def heartbeat(self) -> None:
        """Say that the call is alive. Its timeout is a total and is not extended."""
        self._backend.heartbeat()

    @property
    def cancelled(self) -> bool:
        """True once the call is abandoned (in-process tools; child processes are killed)."""
        return self._backend.is_cancelled()

    def log(self, text: str) -> None:
        """Add lines to the subtask's log, as `print` does in a child process."""
        self._backend.log(text)


def check_artifact_name(name: object) -> None:
    """Raise ValueError unless this can be the name of an artifact."""
    if not isinstance(name, str) or not name.strip() or len(name.encode(errors="replace")) > 200:
        raise ValueError(f"{name!r} is no artifact name: give 1 to 200 bytes of text")
    if "/" in name or "\x00" in name or name in (".", "..", RESULT_ARTIFACT):
        raise ValueError(f"{name!r} cannot be an artifact name")


def media_type_of(name: str) -> str:
    """The media type that a name's ending stands for."""
    import mimetypes  # noqa: PLC0415 - start-up speed of every worker

    extra = {".md": "text/markdown", ".jsonl": "application/jsonl", ".yaml": "application/yaml"}
    ending = Path(name).suffix.lower()
    return extra.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"


def find_artifact(name: str, known: Sequence[str]) -> str:
    """The full name (`SUBTASK/NAME`) that a name means.

    Raises:
        KeyError: none, or a bare name that several subtasks have.
    """
    if name in known:
        return name
    # Inside a group a maker is known without what stands around it.
    meant = [full for full in known if full.endswith(f"/{name}")]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise KeyError(f"{name!r} means several artifacts: {', '.join(sorted(meant)[:10])}")
    seen = ", ".join(sorted(known)[:10]) or "none"
    raise KeyError(f"no artifact {name!r}; this call sees: {seen}")


def _bytes_of(content: object) -> bytes:
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(cast("bytes", content))
    if not isinstance(content, str):
        raise TypeError(f"an artifact is bytes or text, not {type(content).__name__}")
    try:
        # Text that was read from odd bytes goes back to the bytes it came from.
        return content.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return "\x00".join(clean_text(part) for part in content.split("\x00")).encode()
