"""Built-in tool read_document: the text of txt, md, pdf and docx files.

The libraries for pdf and docx are an extra (`surefoot[documents]`) and imported when needed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

from langchain_core.tools import BaseTool, tool
from pydantic import Field

from surefoot.tools.context import ToolContext
from surefoot.tools.effects import Refused, effect
from surefoot.tools.files import decode
from surefoot.tools.limits import MAX_TEXT_BYTES

if TYPE_CHECKING:
    from docx.table import Table

_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_TEXT_TYPES = {".md": "text/markdown", ".markdown": "text/markdown", ".csv": "text/csv"}


class Document(TypedDict):
    """A document's text. `pages` is None where the format has none."""

    text: str
    pages: int | None
    media_type: str


@effect("read")
@tool
def read_document(
    context: ToolContext,
    path: Annotated[
        str, Field(description="A txt, md, pdf or docx file, in the workspace or an input.")
    ],
) -> Document:
    """Read the text of a document: plain text, Markdown, PDF or Word (docx)."""
    file = context.access.to_read(path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with file.open("rb") as opened:
        start = opened.read(8)
    if start.startswith(b"%PDF-") or file.suffix.lower() == ".pdf":
        return _read_pdf(file, path)
    if file.suffix.lower() == ".docx":
        return _read_docx(file, path)
    return _read_plain(file, path)


def _read_plain(file: Path, path: str) -> Document:
    if file.stat().st_size > MAX_TEXT_BYTES * 4:
        raise Refused("bad_arguments", f"{path}: too large to be read as one text; use read_text")
    content = file.read_bytes()
    if b"\x00" in content[:4096] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Refused("bad_arguments", f"{path}: not a text, and no format that is known here")
    media_type = _TEXT_TYPES.get(file.suffix.lower(), "text/plain")
    return {"text": decode(content), "pages": None, "media_type": media_type}


def _read_pdf(file: Path, path: str) -> Document:
    try:
        from pypdf import PdfReader  # noqa: PLC0415 - an extra
        from pypdf.errors import PdfReadError  # noqa: PLC0415 - an extra
    except ImportError:
        raise _missing("pdf", "pypdf") from None
    try:
        reader = PdfReader(file)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Refused("bad_arguments", f"{path}: the PDF is protected by a password")
        pages = [page.extract_text() for page in reader.pages]
    except PdfReadError as exc:
        raise Refused("bad_arguments", f"{path}: not a readable PDF: {exc}") from exc
    return {"text": "\n\n".join(pages), "pages": len(pages), "media_type": "application/pdf"}


def _read_docx(file: Path, path: str) -> Document:
    try:
        import docx  # noqa: PLC0415 - an extra
        from docx.opc.exceptions import PackageNotFoundError  # noqa: PLC0415 - an extra
        from docx.table import Table  # noqa: PLC0415 - an extra
    except ImportError:
        raise _missing("docx", "python-docx") from None
    try:
        document = docx.Document(str(file))
    except (PackageNotFoundError, KeyError, ValueError) as exc:
        raise Refused("bad_arguments", f"{path}: not a readable docx file: {exc}") from exc
    lines: list[str] = []
    for block in document.iter_inner_content():
        lines.extend(_rows(block) if isinstance(block, Table) else [block.text])
    return {"text": "\n".join(lines), "pages": None, "media_type": _DOCX}


def _rows(table: "Table") -> Iterator[str]:
    for row in table.rows:
        # Merged cells appear once for each place they span.
        cells = dict.fromkeys(cell.text for cell in row.cells)
        yield "\t".join(cells)


def _missing(kind: str, package: str) -> Refused:
    return Refused(
        "missing_resource",
        f"reading {kind} files needs {package}: pip install 'surefoot[documents]'",
    )


TOOLS: list[BaseTool] = [read_document]
