"""Where tools may read and write: the workspace, the declared inputs, the typed prohibitions.

Pure path rules and one size; time limits are the host's, and what a user's own code opens is out
of reach. Symlinks are resolved before anything is compared.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from surefoot.graph.path_globs import matches_any
from surefoot.graph.plain import clean_text
from surefoot.tools.effects import Refused

MAX_TEXT_BYTES = 8 * 1024 * 1024
"""What a built-in tool reads into a result at most, unless it is told less; the rest is cut."""

MAX_ERROR_CHARS = 4000
"""Longer error texts are cut in the middle: what is wrong stands at the start or the end."""

_SHOWN_BYTE = re.compile(r"\\u(dc[89a-f][0-9a-f])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the file and network tools of one call may touch."""

    workspace: Path
    readable: tuple[Path, ...] = ()
    """Declared inputs and materialised artifacts: files, or folders with all they hold."""
    writes: tuple[str, ...] | None = None
    """Workspace globs the call may change; None = anywhere in the workspace."""
    denied_paths: tuple[tuple[str, Path], ...] = ()
    """(`read` or `write`, path): nothing at or below it may be read / written."""
    denied_hosts: tuple[str, ...] = ()
    """Globs of hosts that may not be contacted."""

    def to_read(self, path: str) -> Path:
        """The real path of something that may be read.

        Raises:
            Refused: it lies outside the workspace and the declared inputs, or is denied.
        """
        real = self._real(path)
        roots = (self.workspace, *self.readable)
        if not any(_is_below(real, root.resolve()) for root in roots):
            raise Refused(
                "prohibited", f"{path}: only the workspace and the declared inputs may be read"
            )
        self._check_denied("read", path, real)
        return real

    def to_write(self, path: str) -> Path:
        """The real path of something that may be written.

        Raises:
            Refused: it lies outside the workspace or the stated `writes`, is an input, or denied.
        """
        real = self._real(path)
        root = self.workspace.resolve()
        if not _is_below(real, root) or real == root:
            raise Refused("prohibited", f"{path}: only files in the workspace may be written")
        if any(_is_below(real, one.resolve()) for one in self.readable if one.resolve() != root):
            raise Refused("prohibited", f"{path}: declared inputs are read-only")
        relative = real.relative_to(root).as_posix()
        if self.writes is not None and not matches_any(self.writes, relative):
            stated = ", ".join(self.writes) or "nothing"
            raise Refused("prohibited", f"{path}: the subtask's writes allow {stated}")
        self._check_denied("write", path, real)
        return real

    def shown(self, real: Path) -> str:
        """How a path is named in results: relative to the workspace if in it, else absolute."""
        root = self.workspace.resolve()
        return real.relative_to(root).as_posix() if _is_below(real, root) else str(real)

    def check_url(self, url: str) -> None:
        """Refuse a URL that is not http(s) or whose host is denied.

        Raises:
            Refused: with the kind `bad_arguments` or `prohibited`.
        """
        scheme, host = url.partition(":")[0].lower(), host_of(url)
        if scheme not in ("http", "https") or not host:
            raise Refused("bad_arguments", f"{url}: give a URL like https://host/path")
        for glob in self.denied_hosts:
            if host_matches(glob, url):
                raise Refused("prohibited", f"{url}: hosts like {glob!r} are prohibited")

    def _real(self, path: str) -> Path:
        if not path or "\x00" in path:
            raise Refused("bad_arguments", f"{clean_text(path)!r} is no path")
        real = self.workspace / path
        if not real.exists() and "\\udc" in path:
            # The name holds bytes that are not UTF-8 and was made visible by `clean_text`.
            odd = self.workspace / _SHOWN_BYTE.sub(lambda m: chr(int(m[1], 16)), path)
            real = odd if odd.exists() else real
        try:
            return real.resolve()
        except (OSError, RuntimeError) as exc:  # a loop of symlinks, a name too long
            raise Refused("bad_arguments", f"{path}: {exc}") from exc

    def _check_denied(self, mode: str, path: str, real: Path) -> None:
        for denied, below in self.denied_paths:
            if denied == mode and _is_below(real, below.resolve()):
                raise Refused("prohibited", f"{path}: a prohibition denies {mode} below {below}")


def host_of(url: str) -> str | None:
    """The host a URL names, in lower case, without port, user and trailing dot; None if none."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return host.rstrip(".").lower() or None if host else None


def host_matches(glob: str, url: str) -> bool:
    """Whether a glob of hosts (`*.example.com`, `127.0.0.1:8080`) means the host of this URL."""
    host, pattern = host_of(url), glob.lower().rstrip(".")
    if host is None:
        return False
    try:
        port = urlsplit(url).port
    except ValueError:
        port = None
    return fnmatchcase(host, pattern) or fnmatchcase(f"{host}:{port}", pattern)


def bounded_text(text: str, limit_chars: int = MAX_ERROR_CHARS) -> str:
    """Cleaned text of at most about `limit_chars`, cut in the middle with a visible note."""
    if len(text) <= limit_chars:
        return clean_text(text)
    half = limit_chars // 2
    note = f" ... ({len(text) - 2 * half} characters left out) ... "
    return clean_text(text[:half]) + note + clean_text(text[-half:])


def _is_below(path: Path, root: Path) -> bool:
    return path == root or root in path.parents
