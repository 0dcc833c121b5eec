"""Typed prohibitions, judged before every call: tools, paths and hosts that are out of bounds.

Pure: nothing is called and nothing changes. Words for the model are not looked at here. What a
tool of the user's does inside itself cannot be seen; its arguments and declared `writes` can.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from surefoot.graph.references import Reference, dig, resolve
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.task import HostProhibition, PathProhibition, Prohibition, ToolProhibition
from surefoot.graph.values import Json, JsonObject
from surefoot.tools.limits import host_matches

WRITING_TOOLS = frozenset({"write_text"})
"""Built-in tools that change the file named by their `path`."""

HOST_ARGUMENTS = frozenset({"host", "hostname", "server", "domain"})

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
_WILDCARD = re.compile(r"[*?\[]")


class Prohibitions:
    """The typed prohibitions of one task, their `${inputs...}` resolved.

    Raises:
        ReferenceMissing: at construction, when one names an input that does not exist.
    """

    def __init__(
        self, prohibitions: Sequence[Prohibition], *, inputs: JsonObject, workspace: Path
    ) -> None:
        def lookup(reference: Reference) -> Json:
            return dig({"inputs": inputs}, (reference.head, *reference.path))

        def text(value: str) -> str:
            return str(resolve(value, lookup))

        self._workspace = workspace
        self._tools = {text(p.tool) for p in prohibitions if isinstance(p, ToolProhibition)}
        self._hosts = [text(p.host) for p in prohibitions if isinstance(p, HostProhibition)]
        self._paths = [
            (p.deny, text(p.path), self._real(text(p.path)))
            for p in prohibitions
            if isinstance(p, PathProhibition)
        ]
        self.denied_hosts = tuple(self._hosts)
        """For the tool host: what a call may not contact, redirects included."""
        self.denied_paths = tuple((deny, real) for deny, _, real in self._paths)
        """For the tool host: (`read` or `write`, path)."""
        self._any = bool(self._tools or self._hosts or self._paths)

    async def broken_by(
        self, tool: str, args: JsonObject, *, writes: Sequence[str] | None = None
    ) -> str | None:
        """Why a call with these resolved arguments is prohibited; None if it is allowed."""
        if not self._any:
            return None
        if tool in self._tools:
            return f"the tool {tool} is prohibited"
        broken = self._broken_host(tool, args)
        if broken is None and self._paths:  # links are followed on the disk
            broken = await asyncio.to_thread(self._broken_path, tool, args, writes)
        return broken

    def _broken_host(self, tool: str, args: JsonObject) -> str | None:
        if not self._hosts:
            return None
        for url in _urls(args):
            for glob in self._hosts:
                if host_matches(glob, url):
                    return f"{tool} would contact {url}; hosts like {glob!r} are prohibited"
        return None

    def _broken_path(self, tool: str, args: JsonObject, writes: Sequence[str] | None) -> str | None:
        for deny, shown, root in self._paths:
            for path in self._touched(deny, tool, args, writes):
                if self._below(path, root):
                    return f"{tool} would {deny} {path}; {deny} below {shown!r} is prohibited"
        return None

    def _touched(
        self, deny: str, tool: str, args: JsonObject, writes: Sequence[str] | None
    ) -> Iterator[str]:
        """The paths a call would write, or read, as far as its arguments tell."""
        if deny == "read":
            for _, text in _texts(args):
                yield text
                if tool == "run_command":
                    yield from (word.strip("'\"") for word in text.split())
            return
        if tool in WRITING_TOOLS and isinstance(args.get("path"), str):
            yield args["path"]
        for glob in writes or ():
            yield _WILDCARD.split(glob, maxsplit=1)[0] or "."

    def _below(self, path: str, root: Path) -> bool:
        if not path or len(path) > 4096 or "\0" in path or "\n" in path:
            return False
        real = self._real(path)
        return real == root or root in real.parents

    def _real(self, path: str) -> Path:
        try:
            return (self._workspace / path).resolve()
        except (OSError, RuntimeError):  # a loop of links, a name too long
            return self._workspace / path


def _texts(value: Json, key: str = "") -> Iterator[tuple[str, str]]:
    """Every string of a value with the nearest mapping key above it."""
    stack: list[tuple[str, Json]] = [(key, value)]
    while stack:
        name, top = stack.pop()
        if isinstance(top, str):
            yield name, top
        elif is_object(top):
            stack.extend(top.items())
        elif is_array(top):
            stack.extend((name, inner) for inner in top)


def _urls(args: JsonObject) -> Iterator[str]:
    """The URLs that arguments hold, and hosts given as arguments in the form of one."""
    for name, text in _texts(args):
        if name in HOST_ARGUMENTS and "://" not in text:
            yield f"//{text}"
        for url in _URL.finditer(text):
            yield url[0]
