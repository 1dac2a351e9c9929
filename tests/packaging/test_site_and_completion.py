"""What is made from the pages and the parsers: a site whose links lead somewhere, and completion in a real shell."""

import subprocess
import sys
from pathlib import Path

from support.completion import completion

ROOT = Path(__file__).parents[2]


def test_every_page_is_on_the_site_and_no_link_inside_it_is_broken(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    place = ["--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(tmp_path)]
    done = subprocess.run([*command, *place], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("")
        assert name.name == "README" or (tmp_path / name / "index.html").is_file()


def test_bash_completes_commands_and_options(tmp_path):
    script = tmp_path / "nodegate.bash"
    script.write_text(completion("bash"))
    typed = 'COMP_WORDS=(nodegate {}); COMP_CWORD={}; _shtab_nodegate; echo "${{COMPREPLY[@]}}"'
    for words, at, expected in (("boot", 1, "bootcheck"), ("doctor --inv", 2, "--inventory")):
        done = subprocess.run(
            ["bash", "-c", f"source {script}; {typed.format(words, at)}"], capture_output=True, text=True, check=False
        )
        assert expected in done.stdout.split(), done.stderr
