"""Documents as text: txt, md, pdf and docx. The text is not changed after it was decoded."""

from pathlib import Path
from typing import Any

SUPPORTED = (".txt", ".md", ".pdf", ".docx")


def list_documents(folder: Path) -> list[Path]:
    """The supported files of a folder (not of its subfolders), by name.

    Raises:
        FileNotFoundError, NotADirectoryError: there is no such folder.
    """
    files = [p for p in folder.iterdir() if p.suffix.lower() in SUPPORTED and p.is_file()]
    return sorted(p for p in files if not p.name.startswith((".", "~$")))


def read_document(path: Path) -> str:
    """The text of a document.

    Raises:
        ValueError: it holds no text (a scan, an empty file).
        OSError: it cannot be read.
    """
    readers = {".pdf": _read_pdf, ".docx": _read_docx}
    text = readers.get(path.suffix.lower(), _read_plain)(path)
    if not text.strip():
        raise ValueError(f"{path.name} holds no text; a scan must be recognised (OCR) first")
    return text


def _read_plain(path: Path) -> str:
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")


def _read_pdf(path: Path) -> str:
    from pypdf import PdfReader  # noqa: PLC0415 - only where a PDF is read

    return "\n\n".join(page.extract_text() for page in PdfReader(path).pages)


def _read_docx(path: Path) -> str:
    from docx import Document  # noqa: PLC0415 - only where a Word file is read

    lines: list[str] = []
    for block in Document(str(path)).iter_inner_content():
        rows = getattr(block, "rows", None)
        lines += [block.text] if rows is None else [_row(row) for row in rows]
    return "\n".join(lines)


def _row(row: Any) -> str:
    """A table row as one line; a cell that spans several columns stands in it once."""
    return "\t".join(dict.fromkeys(cell.text for cell in row.cells))
