"""Typed prohibitions that the plan itself breaks, as far as it says plainly what it will do.

`prohibited` for what a subtask states, `missing_permission` for tools an agent asks for in vain and
for paths outside the workspace. What cannot be seen here is refused at the call.
"""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from surefoot.graph.checks import CommandCheck, PythonCheck
from surefoot.graph.plan import Work
from surefoot.graph.references import find_references
from surefoot.graph.task import HostProhibition, PathProhibition, ToolProhibition
from surefoot.graph.validation.arguments import literal
from surefoot.graph.validation.globs import literal_head, segments
from surefoot.graph.validation.outline import Case, Node
from surefoot.graph.validation.report import Findings

WRITING_TOOLS = frozenset(["write_text"])
READING_TOOLS = frozenset(["read_text", "read_document", "list_files"])
FETCHING_TOOLS = frozenset(["http_get"])
"""Built-in tools whose `path` or `url` says what they touch."""

RUN_COMMAND = "run_command"


def check_restrictions(case: Case, findings: Findings) -> None:
    """Note `prohibited`, and `missing_permission` for tools and workspace paths."""
    rules = _Rules.of(case)
    if case.by_model and RUN_COMMAND in rules.tools:
        _check_checks(case, findings)
    for node in case.nodes:
        for _, work in node.works():
            for code, why in rules.broken_by(node, work):
                findings.fault(code, f"subtask {node.id!r} {why}", [node.id])


def _check_checks(case: Case, findings: Findings) -> None:
    """Where commands are denied, a model's checks run none either; a person's may."""
    owned = [
        (scope.full(milestone.id), milestone.checks)
        for scope in case.scopes
        for milestone in scope.plan.milestones
    ]
    owned += [(node.id, work.success) for node in case.nodes for _, work in node.works()]
    for id, checks in owned:
        for check in checks:
            if isinstance(check, CommandCheck | PythonCheck):
                findings.fault(
                    "prohibited",
                    f"{id!r} has a `{check.type}` check, but a prohibition denies {RUN_COMMAND!r}; "
                    "check a result, an artifact or a file",
                    [id],
                )


@dataclass(frozen=True, slots=True)
class _Rules:
    """The typed prohibitions with their inputs filled in; unknown ones are left out."""

    tools: frozenset[str]
    hosts: tuple[str, ...]
    writing: tuple[str, ...]
    reading: tuple[str, ...]
    workspace: str

    @classmethod
    def of(cls, case: Case) -> "_Rules":
        """Read them from the goal."""
        tools: set[str] = set()
        hosts: list[str] = []
        paths: list[tuple[str, str]] = []
        for rule in case.task.goal.prohibitions:
            if isinstance(rule, ToolProhibition):
                tools.add(literal(case.top, rule.tool) or "")
            elif isinstance(rule, HostProhibition):
                hosts.append((literal(case.top, rule.host) or "").lower().rstrip("."))
            elif isinstance(rule, PathProhibition) and (path := literal(case.top, rule.path)):
                paths.append((rule.deny, path))
        root = case.world.workspace
        return cls(
            frozenset(tools),
            tuple(host for host in hosts if host),
            tuple(path for deny, path in paths if deny == "write"),
            tuple(path for deny, path in paths if deny == "read"),
            "/\0workspace" if root is None else root.absolute().as_posix(),
        )

    def broken_by(self, node: Node, work: Work) -> Iterator[tuple[str, str]]:
        """(code, what the subtask would do) for every rule that one work breaks."""
        calls = [work.tool] if work.kind == "tool" and work.tool else []
        calls += [work.undo.tool] if work.undo is not None else []
        for name in calls:
            if name in self.tools:
                yield "prohibited", f"calls {name!r}, which a prohibition denies; use another tool"
        for name in (work.tools or []) if work.kind == "agent" else []:
            if name in self.tools:
                why = f"asks for the tool {name!r}, which a prohibition denies; take it out"
                yield "missing_permission", why
        yield from self._writes(node, work)
        yield from self._call(node, work)

    def _writes(self, node: Node, work: Work) -> Iterator[tuple[str, str]]:
        for glob in work.writes or []:
            known = literal(node.scope, glob) if find_references(glob) else glob
            if known is None:
                continue
            denied = next((p for p in self.writing if self._below(known, p)), None)
            if denied is not None:
                yield "prohibited", f"may write {glob!r}, but writing below {denied!r} is denied"
            elif not _inside(known):
                why = f"may write {glob!r}, which is outside the workspace; give a path within it"
                yield "missing_permission", why

    def _call(self, node: Node, work: Work) -> Iterator[tuple[str, str]]:
        if work.kind != "tool" or not work.tool:
            return
        if work.tool in FETCHING_TOOLS:
            yield from self._fetch(node, work)
            return
        writes = work.tool in WRITING_TOOLS
        if not writes and work.tool not in READING_TOOLS:
            return
        path = _text_argument(node, work, "path")
        for denied in (self.writing if writes else self.reading) if path else ():
            if self._below(path or "", denied):
                verb = "write" if writes else "read"
                yield "prohibited", f"would {verb} {path!r}, but that is denied below {denied!r}"

    def _fetch(self, node: Node, work: Work) -> Iterator[tuple[str, str]]:
        url = _text_argument(node, work, "url")
        host, with_port = _host(url or "")
        for glob in self.hosts if host else ():
            if fnmatchcase(host, glob) or fnmatchcase(with_port, glob):
                yield "prohibited", f"would contact {host!r}, but hosts like {glob!r} are denied"

    def _below(self, path: str, denied: str) -> bool:
        """Whether a path, or the plain beginning of a glob, is `denied` or lies below it."""
        root = segments(self._absolute(denied))
        return literal_head(segments(self._absolute(path)))[: len(root)] == root

    def _absolute(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.workspace, path))


def _inside(glob: str) -> bool:
    """Whether a glob stays in the workspace it is relative to."""
    plain = posixpath.normpath(glob) if ".." in glob else glob
    return not plain.startswith(("/", "../")) and plain != ".."


def _text_argument(node: Node, work: Work, name: str) -> str | None:
    value = work.args.get(name)
    return literal(node.scope, value) if isinstance(value, str) else None


def _host(url: str) -> tuple[str, str]:
    """Host, and host:port, in lower case; empty where the text names none."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        return host, f"{host}:{parts.port}"
    except ValueError:
        return "", ""
