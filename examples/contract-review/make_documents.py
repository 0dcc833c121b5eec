"""Write the PDF and Word contracts of this example from the texts in `originals/`.

    python make_documents.py

They are committed too; run this only after changing a text. PDF files are written by hand here
(one built-in font, pages of plain lines), so that nothing has to be installed for them.
"""

import textwrap
from pathlib import Path

from docx import Document
from docx.oxml.ns import qn

HERE = Path(__file__).parent
FORMATS = {
    "02-component-supply": "pdf",
    "04-software-licence": "docx",
    "05-workshop-lease": "pdf",
    "08-saas-subscription": "docx",
    "11-设备采购合同": "docx",
}
LINES_PER_PAGE = 50
CHARS_PER_LINE = 88


def write_docx(text: str, target: Path) -> None:
    document = Document()
    normal = document.styles["Normal"]
    normal.font.name = "Times New Roman"
    normal.element.rPr.rFonts.set(qn("w:eastAsia"), "SimSun")
    title, *paragraphs = [p for p in text.strip().split("\n") if p.strip()]
    document.add_heading(title, level=1)
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    document.core_properties.title = title
    document.save(str(target))


def write_pdf(text: str, target: Path) -> None:
    """A PDF 1.4 with the standard font Times-Roman, in WinAnsi encoding."""
    lines = [line for p in text.strip().split("\n") for line in _wrapped(p)]
    pages = [lines[n : n + LINES_PER_PAGE] for n in range(0, len(lines), LINES_PER_PAGE)]
    first = 4  # objects 1 to 3 are catalog, page tree and font
    kids = " ".join(f"{first + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /Encoding /WinAnsiEncoding >>",
    ]
    for n, page in enumerate(pages):
        stream = _page_stream(page)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            b"/Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" % (first + 2 * n + 1)
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    target.write_bytes(_file(objects))


def _wrapped(paragraph: str) -> list[str]:
    return textwrap.wrap(paragraph, CHARS_PER_LINE) or [""]


def _page_stream(lines: list[str]) -> bytes:
    shown = b"\n".join(b"(%s) Tj T*" % _escaped(line) for line in lines)
    return b"BT /F1 11 Tf 14 TL 62 780 Td\n%s\nET" % shown


def _escaped(line: str) -> bytes:
    raw = line.encode("cp1252")
    return raw.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def _file(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n" % (len(objects) + 1)
    return bytes(out) + b"%d\n%%%%EOF\n" % start


def main() -> None:
    writers = {"pdf": write_pdf, "docx": write_docx}
    for name, kind in FORMATS.items():
        text = (HERE / "originals" / f"{name}.txt").read_text("utf-8")
        writers[kind](text, HERE / "contracts" / f"{name}.{kind}")


if __name__ == "__main__":
    main()
