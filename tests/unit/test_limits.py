"""Where tools may read and write, and whom they may contact."""

from pathlib import Path
from typing import Any

import pytest

from surefoot.graph.path_globs import matches_any
from surefoot.tools.effects import Refused
from surefoot.tools.limits import Access, host_of


@pytest.mark.parametrize(
    ("glob", "path", "meant"),
    [
        ("out/*.txt", "out/a.txt", True),
        ("out/*.txt", "out/b/a.txt", False),
        ("out/**/*.txt", "out/a.txt", True),
        ("out/**/*.txt", "out/b/c/a.txt", True),
        ("out", "out/b/a.txt", True),
        ("out/", "out/b/a.txt", True),
        ("./out/**", "out/b", True),
        ("out", "outer", False),
        ("a[0-9]", "a7", True),
        ("a[!0-9]", "a7", False),
        ("a.b", "axb", False),
        ("**", "any/thing", True),
    ],
)
def test_globs_mean_paths(glob: str, path: str, meant: bool):
    assert matches_any((glob,), path) is meant


def _access(folder: Path, **more: Any) -> Access:
    workspace, inputs = folder / "ws", folder / "in"
    workspace.mkdir()
    inputs.mkdir()
    (inputs / "doc.txt").write_text("x")
    return Access(workspace=workspace, readable=(inputs,), **more)


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "link", "", "a\x00b"])
def test_reading_stops_at_the_workspace_and_the_inputs(tmp_path: Path, path: str):
    access = _access(tmp_path)
    (access.workspace / "link").symlink_to("/etc/passwd")
    with pytest.raises(Refused):
        access.to_read(path)


def test_inputs_are_readable_and_never_writable(tmp_path: Path):
    access = _access(tmp_path)
    document = tmp_path / "in/doc.txt"
    assert access.to_read(str(document)) == document
    (access.workspace / "link").symlink_to(tmp_path / "in")
    for path in (str(document), "link/doc.txt"):
        with pytest.raises(Refused):
            access.to_write(path)


def test_writing_keeps_to_the_stated_writes(tmp_path: Path):
    access = _access(tmp_path, writes=("out/*",))
    assert access.to_write("out/a") == access.workspace / "out/a"
    with pytest.raises(Refused, match="writes allow out"):
        access.to_write("other")


def test_denied_paths_and_hosts_are_refused(tmp_path: Path):
    denied = (("write", tmp_path / "ws/keep"), ("read", tmp_path / "in/doc.txt"))
    access = _access(tmp_path, denied_paths=denied, denied_hosts=("*.evil.org",))
    for refuse in (
        lambda: access.to_write("keep/a"),
        lambda: access.to_read(str(tmp_path / "in/doc.txt")),
        lambda: access.check_url("https://A.Evil.ORG./x"),
        lambda: access.check_url("file:///etc/passwd"),
    ):
        with pytest.raises(Refused):
            refuse()
    access.check_url("http://evil.org/")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://User@Host.example:8080/x", "host.example"),
        ("no url", None),
        ("http://[::1]/", "::1"),
        ("http://[oops/", None),
    ],
)
def test_the_host_of_a_url(url: str, host: str | None):
    assert host_of(url) == host


def test_names_of_odd_bytes_are_found_again(tmp_path: Path):
    access = _access(tmp_path)
    odd = access.workspace / b"caf\xe9".decode(errors="surrogateescape")
    odd.write_text("x")
    assert access.to_read(r"caf\udce9") == odd
