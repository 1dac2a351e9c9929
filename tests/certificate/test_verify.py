"""`nodegate verify` on the paper, on a changed digit, on a changed folder; and the PDF that Chromium prints."""

import json
import operator
import random
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pypdf
import pytest
from certificate.conftest import IN
from support.schemas import read_output

from nodegate.certificate.page import FILES
from nodegate.certificate.pdf import print_pdf
from nodegate.cli import main


def with_other_digits(page, count, seed):
    """Write the page with so many of its digits changed, no two near each other."""
    before, mark, text = page.read_text("utf-8").partition("<main>")
    places = [found.start() for found in re.finditer(r"\d(?=[^<>]*<(?!col))", text)]
    draw = random.Random(seed)  # noqa: S311 - the same sample each time
    for at in draw.sample(places[:: len(places) // (3 * count)], count):
        text = f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"
    page.write_text(before + mark + text, encoding="utf-8")


def texts(pdf):
    return ["".join(page.extract_text().split()) for page in pypdf.PdfReader(pdf).pages]


ENDED = {"en": "page {n} of {m}", "zh": "第{n}页，共{m}页"}  # noqa: RUF001 - Chinese


@pytest.fixture
def run(delivery, tmp_path):
    return shutil.copytree(delivery.second, tmp_path / "run2")


@pytest.fixture(scope="session")
def pdfs(delivery, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pdf")
    for lang in ENDED:
        assert main(["report", str(delivery.second), "--pdf", str(folder / f"{lang}.pdf"), "--lang", lang]) == 0
    return {lang: folder / f"{lang}.pdf" for lang in ENDED}


def said(capsys, *arguments):
    capsys.readouterr()
    code = main(["verify", *map(str, arguments)])
    out = capsys.readouterr()
    return code, out.out + out.err


@pytest.mark.long
@pytest.mark.parametrize("name", FILES.values())
def test_a_paper_and_its_run_are_equal(run, name, capsys):
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
            f"hgx10: GPU21659990000003 on the paper, GPU2{IN} in the run",
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
def test_a_change_of_the_paper_is_told(run, old, new, told, capsys):
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


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("lang", ENDED)
def test_each_changed_digit_is_told_and_of_a_pdf_its_page(  # noqa: PLR0917 - fixtures
    pdfs: dict[str, Path], run: Path, lang: str, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, changed = run / FILES[lang], tmp_path / "changed.pdf"
    with_other_digits(page, count, 7)
    print_pdf(run, changed, lang)
    code, text = said(capsys, page, run)
    assert (code, sum(line.startswith("text: ") for line in text.splitlines())) == (1, count)
    code, text = said(capsys, changed, run)
    told = Counter(re.findall(r"^page (\d+): ", text, re.MULTILINE))
    differ = zip(texts(pdfs[lang]), texts(changed), strict=True)
    other = {str(number): sum(map(operator.ne, *each)) for number, each in enumerate(differ, 1)}
    assert (code, told) == (1, {number: count for number, count in other.items() if count})


def test_a_paper_of_another_release_is_compared_in_part(run, capsys):
    paper = run / "certificate.html"
    text = paper.read_text("utf-8").replace("(certificate of ", "(certificate of 0.")
    paper.write_text(text.replace("657 TFLOPS", "567 TFLOPS"), encoding="utf-8")
    code, out = said(capsys, paper, run)
    assert (code, "are equal, but nodegate" in out) == (2, True)
    paper.write_text(text.replace(IN, "1659990000003"), encoding="utf-8")
    assert said(capsys, paper, run)[0] == 1


def flip(file):
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
def test_a_change_of_the_folder_is_1_and_what_cannot_be_compared_is_2(run, change, told, capsys):
    change(run)
    code, out = said(capsys, run / "certificate.html", run)
    expected, _, words = told.partition(" ")
    assert code == int(expected)
    assert words in out


@pytest.mark.long
@pytest.mark.parametrize("lang", ENDED)
def test_a_printed_pdf_names_its_run_on_each_page(pdfs, delivery, lang, capsys):
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


def test_a_signature_of_ssh_keygen(run, capsys):
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


def test_only_a_delivery_has_a_certificate(run, capsys):
    (run / "certificate.zh.html").unlink()
    assert main(["report", str(run), "--pdf", str(run / "x.pdf"), "--lang", "zh"]) == 2
    assert "only a run of profile delivery has one" in capsys.readouterr().err
