"""The built-in tools, called as a plan calls them: in a tool process, by name."""

import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tool_place import Place, call_of

from surefoot.graph.ports import ToolReply
from surefoot.graph.processes import process_started
from surefoot.tools.shell import command_env

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Desk(Place):
    """A host whose calls may read one input folder."""

    @property
    def workspace(self) -> Path:
        return self.folder / "ws"

    @property
    def inputs(self) -> Path:
        return self.folder / "inputs"

    async def do(
        self,
        tool: str,
        /,
        *,
        writes: tuple[str, ...] | None = None,
        denied_hosts: tuple[str, ...] = (),
        denied_paths: tuple[tuple[str, Path], ...] = (),
        **args: Any,
    ) -> ToolReply:
        call = replace(
            call_of(tool, **args),
            writes=writes,
            readable=(self.inputs,),
            denied_hosts=denied_hosts,
            denied_paths=denied_paths,
        )
        return await self.host.call(call)

    async def value(self, tool: str, /, **more: Any) -> Any:
        reply = await self.do(tool, **more)
        assert reply.status == "ok", reply
        return reply.value


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    made = Desk(tmp_path_factory.mktemp("builtin"))
    made.inputs.mkdir()
    for name in ("b.txt", "a.txt", ".hidden", "note.md"):
        (made.inputs / name).write_text(f"text of {name}")
    (made.inputs / "deep").mkdir()
    (made.inputs / "deep/c.txt").write_text("c")
    (made.inputs / "outside").symlink_to("/etc/hostname")
    await made.start()
    yield made
    await made.host.close()


# --- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "names"),
    [
        ({}, ["a.txt", "b.txt", "note.md"]),
        ({"pattern": "*.txt"}, ["a.txt", "b.txt"]),
        ({"pattern": ".*"}, [".hidden"]),
        ({"pattern": "*.txt", "recursive": True}, ["a.txt", "b.txt", "deep/c.txt"]),
        ({"pattern": "deep/*.txt"}, ["deep/c.txt"]),
        ({"pattern": "none"}, []),
    ],
)
async def test_inputs_are_listed_sorted_with_absolute_paths(
    desk: Desk, args: dict[str, Any], names: list[str]
):
    found = await desk.value("list_files", path=str(desk.inputs), **args)
    assert found == {"files": [str(desk.inputs / name) for name in names], "count": len(names)}


async def test_the_workspace_is_listed_relative_to_itself(desk: Desk):
    await desk.value("write_text", path="listed/one.txt", text="1")
    found = await desk.value("list_files", path="listed")
    assert found == {"files": ["listed/one.txt"], "count": 1}
    assert (await desk.value("read_text", path=found["files"][0]))["text"] == "1"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"plain \xc3\xa9", "plain é"),
        (b"\xef\xbb\xbfmarked", "marked"),
        ("wide é".encode("utf-16"), "wide é"),
        (b"caf\xe9 a\x00b", r"caf\udce9 a\u0000b"),
    ],
)
async def test_texts_are_read_with_odd_bytes_visible(desk: Desk, content: bytes, text: str):
    (desk.inputs / "deep/text").write_bytes(content)
    read = await desk.value("read_text", path=str(desk.inputs / "deep/text"))
    assert read == {"text": text, "bytes": len(content), "truncated": False}


async def test_reading_is_bounded_and_says_so(desk: Desk):
    read = await desk.value("read_text", path=str(desk.inputs / "a.txt"), max_bytes=4)
    assert read == {"text": "text", "bytes": 13, "truncated": True}


async def test_writing_again_replaces_the_whole_file(desk: Desk):
    for text in ("long text", "short é"):
        written = await desk.value("write_text", path="out/a.txt", text=text, writes=("out/*",))
    assert written == {"path": "out/a.txt", "bytes": 8}
    assert (desk.workspace / "out/a.txt").read_text() == "short é"
    assert [path.name for path in (desk.workspace / "out").iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ("write_text", "../x"),
        ("write_text", "/tmp/x"),
        ("write_text", "other/a.txt"),
        ("write_text", "out/keep"),
        ("read_text", "/etc/hostname"),
        ("read_text", "../../etc/hostname"),
        ("list_files", "/etc"),
        ("read_document", "/etc/hostname"),
    ],
)
async def test_paths_out_of_bounds_are_refused_before_anything_happens(
    desk: Desk, tool: str, path: str
):
    text: dict[str, Any] = {"text": "x"} if tool == "write_text" else {}
    keep = (("write", desk.workspace / "out/keep"),)
    reply = await desk.do(tool, path=path, writes=("out/*",), denied_paths=keep, **text)
    assert (reply.status, reply.kind, reply.retryable) == ("not_done", "prohibited", False)


async def test_an_input_is_never_written(desk: Desk):
    (desk.workspace / "link").symlink_to(desk.inputs)
    for path in (str(desk.inputs / "a.txt"), "link/a.txt"):
        assert (await desk.do("write_text", path=path, text="x")).kind == "prohibited"
    assert (desk.inputs / "a.txt").read_text() == "text of a.txt"


async def test_a_missing_file_is_an_error(desk: Desk):
    for tool in ("read_text", "read_document", "list_files"):
        reply = await desk.do(tool, path="missing")
        assert (reply.status, "missing" in reply.message) == ("error", True)


# --- documents -------------------------------------------------------------------------------


async def test_plain_documents_are_read(desk: Desk):
    assert await desk.value("read_document", path=str(desk.inputs / "note.md")) == {
        "text": "text of note.md",
        "pages": None,
        "media_type": "text/markdown",
    }


async def test_a_word_document_is_read_with_its_tables_in_place(desk: Desk):
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.add_paragraph("Before")
    table = document.add_table(rows=1, cols=2)
    table.cell(0, 0).text, table.cell(0, 1).text = "left", "right"
    document.add_paragraph("After")
    document.save(str(desk.inputs / "deep/word.docx"))
    read = await desk.value("read_document", path=str(desk.inputs / "deep/word.docx"))
    assert read["text"].splitlines() == ["Before", "left\tright", "After"]


def _pdf(*pages: str) -> bytes:
    """A small PDF with one line of text a page."""
    font = len(pages) * 2 + 3
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
    ]
    for n, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {4 + 2 * n} 0 R"
            f" /Resources << /Font << /F1 {font} 0 R >> >> >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    body, places = b"%PDF-1.4\n", list[int]()
    for number, one in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{one}\nendobj\n".encode()
    rows = "".join(f"{place:010d} 00000 n \n" for place in places)
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}"
    tail = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return body + (table + tail).encode()


async def test_a_pdf_is_read_page_by_page(desk: Desk):
    pytest.importorskip("pypdf")
    (desk.inputs / "deep/two.pdf").write_bytes(_pdf("First page", "Second page"))
    read = await desk.value("read_document", path=str(desk.inputs / "deep/two.pdf"))
    assert read == {
        "text": "First page\n\nSecond page",
        "pages": 2,
        "media_type": "application/pdf",
    }


@pytest.mark.parametrize("name", ["bad.pdf", "bad.docx", "bad.bin"])
async def test_a_broken_document_fails_once_and_says_so(desk: Desk, name: str):
    (desk.inputs / "deep" / name).write_bytes(b"\x00 no document")
    reply = await desk.do("read_document", path=str(desk.inputs / "deep" / name))
    assert (reply.status, reply.kind, reply.retryable) == ("not_done", "bad_arguments", False)
    assert name in reply.message


# --- artifacts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "content"),
    [({"text": "é"}, "é".encode()), ({"json": {"b": [1, None], "a": "é"}}, None)],
)
async def test_artifacts_are_written_from_text_or_json(
    desk: Desk, args: dict[str, Any], content: bytes | None
):
    content = content or '{"b":[1,null],"a":"é"}'.encode()
    named: dict[str, Any] = {"name": "a.json"}
    reply = await desk.do("write_artifact", **named, **args)
    assert reply.value == {"name": "a.json", "bytes": len(content)}
    ref = reply.artifacts[0]
    assert desk.store.blobs[ref["sha256"]] == content
    assert ref["media_type"] == "application/json"
    call = replace(call_of("read_artifact", **named), artifacts={"s/a.json": ref})
    read = await desk.host.call(call)
    assert read.value["text"] == content.decode()


async def test_artifacts_that_cannot_be_are_refused(desk: Desk):
    bad: list[dict[str, Any]] = [
        {"name": "a/b", "text": "x"},
        {"name": "a"},
        {"name": "a", "text": "", "json": 1},
    ]
    for args in bad:
        reply = await desk.do("write_artifact", **args)
        assert (reply.status, reply.kind) == ("not_done", "bad_arguments")
    missing = await desk.do("read_artifact", name="missing")
    assert (missing.kind, "no artifact 'missing'" in missing.message) == ("bad_arguments", True)


# --- commands --------------------------------------------------------------------------------


async def test_a_command_runs_in_the_workspace_and_its_exit_code_is_a_result(desk: Desk):
    command = 'pwd; echo "$SUREFOOT_TASK_DIR $MORE"; echo oops >&2; cat; exit 3'
    assert await desk.value("run_command", command=command, env={"MORE": "more"}) == {
        "exit_code": 3,
        "stdout": f"{desk.workspace}\n{desk.folder} more\n",
        "stderr": "oops\n",
    }


async def test_a_command_does_not_see_our_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in ("OPENAI_API_KEY", "SUREFOOT_DATABASE_URL"):
        monkeypatch.setenv(name, "secret")
    assert "secret" not in command_env(tmp_path).values()
    assert command_env(tmp_path, {"OPENAI_API_KEY": "given"})["OPENAI_API_KEY"] == "given"


@pytest.mark.parametrize(
    "command", [["python", "-c", "import surefoot"], "python -c 'import surefoot'"]
)
async def test_python_means_our_interpreter(desk: Desk, command: str | list[str]):
    assert (await desk.value("run_command", command=command))["exit_code"] == 0


async def test_output_is_bounded_at_both_ends(desk: Desk):
    command = ["python", "-c", "print('first'); print('x' * 9_000_000); print('last')"]
    out = (await desk.value("run_command", command=command))["stdout"]
    assert len(out) < 1_100_000
    assert out.startswith("first\n")
    assert out.endswith("last\n")
    assert "bytes left out" in out


async def test_a_command_over_its_time_ends_with_its_children(desk: Desk):
    script = "echo $$ > slow.pid; trap '' TERM; setsid sleep 1000 & echo $! >> slow.pid; wait"
    started = time.monotonic()
    reply = await desk.do("run_command", command=script, timeout_seconds=0.5)
    assert (reply.status, "0.5 s" in reply.message) == ("error", True)
    assert time.monotonic() - started < 3
    pids = [int(line) for line in (desk.workspace / "slow.pid").read_text().split()]
    assert len(pids) == 2
    assert all(process_started(pid) is None for pid in pids)


async def test_a_child_left_in_the_background_is_not_waited_for(desk: Desk):
    result = await desk.value("run_command", command="sleep 1000 & echo done")
    assert result["stdout"] == "done\n"


async def test_a_command_that_does_not_exist_is_refused(desk: Desk):
    for command, kind in (
        (["no-such-program"], "missing_resource"),
        ([], "bad_arguments"),
        (" ", "bad_arguments"),
    ):
        reply = await desk.do("run_command", command=command)
        assert (reply.status, reply.kind) == ("not_done", kind)
    assert (await desk.value("run_command", command="no-such-program"))["exit_code"] == 127


# --- http ------------------------------------------------------------------------------------


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        port = self.server.server_port  # pyright: ignore - of a ThreadingHTTPServer
        answers: dict[str, tuple[int, dict[str, str], bytes]] = {
            "/ok": (200, {"Content-Type": "text/plain; charset=latin-1"}, b"caf\xe9"),
            "/moved": (302, {"Location": "/ok"}, b""),
            "/away": (302, {"Location": f"http://localhost:{port}/ok"}, b""),
            "/file": (302, {"Location": "file:///etc/hostname"}, b""),
            "/busy": (503, {}, b""),
        }
        status, headers, body = answers.get(self.path, (404, {}, b"nothing"))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_page_is_got_after_redirects(desk: Desk, site: str):
    assert await desk.value("http_get", url=f"{site}/moved") == {
        "url": f"{site}/ok",
        "status": 200,
        "media_type": "text/plain",
        "text": "café",
        "truncated": False,
    }


@pytest.mark.parametrize(("path", "retryable"), [("/none", False), ("/busy", True)])
async def test_an_error_status_is_a_failure(desk: Desk, site: str, path: str, retryable: bool):
    reply = await desk.do("http_get", url=site + path)
    assert (reply.status, reply.retryable) == ("error", retryable)


async def test_prohibited_hosts_are_refused_also_after_a_redirect(desk: Desk, site: str):
    for url, hosts in (
        (f"{site}/ok", ("127.*",)),
        (f"{site}/away", ("local*",)),
        ("file:///etc/hostname", ()),
        ("ftp://x/y", ()),
    ):
        reply = await desk.do("http_get", url=url, denied_hosts=hosts)
        assert reply.status == "not_done"
        assert reply.kind in ("prohibited", "bad_arguments")
    leads_to_a_file = await desk.do("http_get", url=f"{site}/file")
    assert (leads_to_a_file.status, leads_to_a_file.retryable) == ("error", False)


async def test_a_silent_server_is_given_up(desk: Desk):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        reply = await desk.do("http_get", url=url, timeout_seconds=0.3)
    assert (reply.status, reply.retryable) == ("error", True)
