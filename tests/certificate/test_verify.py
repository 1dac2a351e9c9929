"""`nodegate verify` on the paper, on a changed digit, on a changed folder; and the PDF that Chromium prints."""

import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pypdf
import pytest
from certificate.conftest import IN, Delivery
from pypdf.generic import ByteStringObject, ContentStream, DictionaryObject
from support.schemas import read_output

from nodegate.cli import main

_SHOWS = b"Tj"
_CHARS = re.compile(rb"^<(\w{4})> <(\w{4})>$", re.MULTILINE)
_RANGES = re.compile(rb"^<(\w{4})> <(\w{4})> <(\w{4})>$", re.MULTILINE)


def with_other_digits(paper: Path, changed: Path, count: int, draw: random.Random) -> list[int]:
    """Write the PDF with so many digits changed, no two near each other; returns the page of each, from 1."""
    writer = pypdf.PdfWriter(clone_from=paper)
    streams = [ContentStream(page.get_contents(), writer) for page in writer.pages]
    places = [(at, *found) for at, page in enumerate(writer.pages) for found in _digits(page, streams[at])]
    chosen = sorted(draw.sample(places[:: max(1, len(places) // (4 * count))], count))
    for at, shown, glyph, others in chosen:
        operands, _ = streams[at].operations[shown]
        raw = bytearray(operands[0].original_bytes)
        raw[glyph : glyph + 2] = draw.choice(others)
        operands[0] = ByteStringObject(bytes(raw))
    for page, stream in zip(writer.pages, streams, strict=True):
        page.replace_contents(stream)
    writer.write(changed)
    return [at + 1 for at, *_ in chosen]


def _digits(page: DictionaryObject, stream: ContentStream) -> Iterator[tuple[int, int, list[bytes]]]:
    """Which operation shows a digit, at which byte of its text, and the glyphs of the other digits of its font."""
    fonts = {name: _glyphs(font.get_object()) for name, font in page["/Resources"]["/Font"].items()}
    digits: dict[bytes, str] = {}
    for number, (operands, operator) in enumerate(stream.operations):
        if operator == b"Tf":
            digits = fonts[operands[0]]
        elif operator == _SHOWS:
            raw = operands[0].original_bytes
            for at in range(0, len(raw), 2):
                if raw[at : at + 2] in digits:
                    yield number, at, [glyph for glyph in digits if glyph != raw[at : at + 2]]


def _glyphs(font: DictionaryObject) -> dict[bytes, str]:
    """The digits of a font by their glyphs."""
    table = font["/ToUnicode"].get_data()
    found = {int(glyph, 16): chr(int(sign, 16)) for glyph, sign in _CHARS.findall(table)}
    for first, last, sign in _RANGES.findall(table):
        found |= {int(first, 16) + n: chr(int(sign, 16) + n) for n in range(int(last, 16) - int(first, 16) + 1)}
    return {glyph.to_bytes(2, "big"): sign for glyph, sign in found.items() if sign.isdecimal()}


ENDED = {"en": "page {n} of {m}", "zh": "第{n}页，共{m}页"}  # noqa: RUF001 - Chinese


@pytest.fixture
def run(delivery: Delivery, tmp_path: Path) -> Path:
    return shutil.copytree(delivery.second, tmp_path / "run2")


@pytest.fixture(scope="session")
def pdfs(delivery: Delivery, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pdf")
    for lang in ENDED:
        assert main(["report", str(delivery.second), "--pdf", str(folder / f"{lang}.pdf"), "--lang", lang]) == 0
    return {lang: folder / f"{lang}.pdf" for lang in ENDED}


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["verify", *map(str, arguments)])
    out = capsys.readouterr()
    return code, out.out + out.err


@pytest.mark.parametrize("name", ["certificate.html", "certificate.zh.html"])
def test_a_paper_and_its_run_are_equal(run: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys, run / name, run)
    assert (code, text) == (0, text)
    assert re.fullmatch(
        r"equal: run run2, 16 nodes with verdicts and serial numbers, \d+ files of evidence, the whole text\n", text
    )
    assert main(["report", str(run)]) == 0  # written again, with the rounds that are kept
    assert said(capsys, run / name, run)[0] == 0


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            f"GPU 2 {IN}</span>",
            "GPU 2 1659990000003</span>",
            "hgx10: GPU21659990000003 on the paper, GPU21659990000002 in the run",
        ),
        ("657 TFLOPS", "567 TFLOPS", "bf16rateatleast567TFLOPS(plat on the paper, "),
        ("[result: refused]", "[result: accepted]", "result: accepted on the paper, refused in the run"),
        ("<span>rejected</span>", "<span>accepted</span>", "hgx02: accepted on the paper, rejected in the run"),
        ("[run: run2]", "[run: run3]", "run: run3 on the paper, run2 in the run"),
        ("[manifest: ", "[manifest: 0", "manifest: 0"),
        ("Institute", "Institut", "CustomerInstitut,lab@example on the paper, "),
        ("</body>", "<p>[run: other]</p></body>", "the paper names two of run"),
    ],
)
def test_a_change_of_the_paper_is_told(
    run: Path, old: str, new: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    paper = run.parent / "paper.html"
    text = (run / "certificate.html").read_text("utf-8")
    assert old in text
    paper.write_text(text.replace(old, new, 1), encoding="utf-8")
    code, out = said(capsys, paper, run)
    assert code == 1
    assert told in out
    answer = read_output(said(capsys, paper, run, "--json")[1])
    assert not answer["equal"]
    assert answer["differences"] == out.splitlines()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lang", ENDED)
def test_each_changed_digit_of_a_pdf_is_told_with_its_page(  # noqa: PLR0917 - fixtures
    pdfs: dict[str, Path], delivery: Delivery, lang: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed, draw = tmp_path / "changed.pdf", random.Random(seed)  # noqa: S311 - the same sample each time
    pages = with_other_digits(pdfs[lang], changed, 1 if seed == 0 else 40, draw)
    code, text = said(capsys, changed, delivery.second)
    assert code == 1
    told = [line.partition(":")[0] for line in text.splitlines() if re.match(r"page \d+: ", line)]
    assert sorted(told) == sorted(f"page {page}" for page in pages)


@pytest.mark.parametrize("name", ["certificate.html", "certificate.zh.html"])
def test_each_changed_digit_of_a_page_is_told(run: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    before, mark, text = (run / name).read_text("utf-8").partition("<main>")
    places = [found.start() for found in re.finditer(r"\d(?=[^<>]*<(?!col))", text)]
    chosen = random.Random(7).sample(  # noqa: S311 - the same sample each time
        places[:: len(places) // 120], 40
    )
    for at in chosen:
        text = f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"
    (run / name).write_text(before + mark + text, encoding="utf-8")
    code, out = said(capsys, run / name, run)
    assert (code, sum(line.startswith("text: ") for line in out.splitlines())) == (1, 40)


def test_a_paper_of_another_release_is_compared_in_part(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paper = run / "certificate.html"
    text = paper.read_text("utf-8").replace("(certificate of ", "(certificate of 0.")
    paper.write_text(text.replace("657 TFLOPS", "567 TFLOPS"), encoding="utf-8")
    code, out = said(capsys, paper, run)
    assert (code, "are equal, but nodegate" in out) == (2, True)
    paper.write_text(text.replace(IN, "1659990000003"), encoding="utf-8")
    assert said(capsys, paper, run)[0] == 1


def flip(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1] + b" ")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda run: flip(next((run / "evidence" / "hgx05").iterdir())), "1 evidence/hgx05/"),
        (lambda run: next((run / "evidence" / "hgx05").iterdir()).unlink(), "1 is missing, though the manifest lists"),
        (lambda run: (run / "manifest.sha256").write_text(""), "1 report.json was made from manifest"),
        (lambda run: (run / "rounds.json").unlink(), "1 text: "),
        (lambda run: (run / "manifest.sha256").unlink(), "2 the run has no manifest"),
        (lambda run: (run / "results.jsonl.gz").write_bytes(b""), "2 results.jsonl.gz"),
        (lambda run: (run / "certificate.html").write_text("<p>a letter"), "2 name a certificate"),
        (lambda run: (run / "certificate.html").write_bytes(b"%PDF-1.7\n" + b"\xff" * 99), "2 cannot be read as a PDF"),
        (lambda run: (run / "certificate.html").write_bytes(b"\xff\xfe"), "2 neither an HTML file nor a PDF"),
        (lambda run: (run / "certificate.html").unlink(), "2 cannot be read"),
        (lambda run: (run / "rounds.json").write_text("{"), "2 rounds.json"),
    ],
)
def test_a_change_of_the_folder_is_1_and_what_cannot_be_compared_is_2(
    run: Path, change: Callable[[Path], object], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(run)
    code, out = said(capsys, run / "certificate.html", run)
    expected, _, words = told.partition(" ")
    assert code == int(expected)
    assert words in out


@pytest.mark.parametrize("lang", ENDED)
def test_a_printed_pdf_names_its_run_on_each_page(
    pdfs: dict[str, Path], delivery: Delivery, lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = pypdf.PdfReader(pdfs[lang]).pages
    manifest = json.loads((delivery.second / "report.json").read_bytes())["run"]["manifest_sha256"]
    assert len(pages) > 5
    for number, each in enumerate(pages, 1):
        text = "".join(each.extract_text().split())
        assert re.search(rf"run220\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZSHA-256{manifest[:16]}", text), number
        assert "".join(ENDED[lang].format(n=number, m=len(pages)).split()) in text
    held = [font.get_object() for each in pages for font in each["/Resources"]["/Font"].values()]
    fonts = {str(font["/BaseFont"]) for font in held}
    assert all(re.match(r"/[A-Z]{6}\+", font) for font in fonts), fonts  # embedded, each a part of its font
    code, text = said(capsys, pdfs[lang], delivery.second)
    assert code == 0, text
    assert said(capsys, pdfs[lang], delivery.first)[0] == 1


def test_a_signature_of_ssh_keygen(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paper, key = run / "certificate.html", run.parent / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", "nodegate", str(paper)], check=True)
    signers = run.parent / "signers"
    signers.write_text(f"lab@example.org {key.with_suffix('.pub').read_text()}")
    asked = ("--signature", f"{paper}.sig", "--signers", signers, "--signer", "lab@example.org")
    code, text = said(capsys, paper, run, *asked)
    assert (code, "signed by lab@example.org" in text) == (0, True)
    code, text = said(capsys, paper, run, *asked[:-1], "other@example.org")
    assert (code, "the signature does not hold" in text) == (1, True)
    assert said(capsys, paper, run, *asked[:2])[0] == 2


def test_only_a_delivery_has_a_certificate(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "certificate.zh.html").unlink()
    assert main(["report", str(run), "--pdf", str(run / "x.pdf"), "--lang", "zh"]) == 2
    assert "only a run of profile delivery has one" in capsys.readouterr().err
