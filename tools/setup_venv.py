"""Makes `.venv` and installs the package with the extras that a make target needs.

    python3 tools/setup_venv.py test dev

Needs nothing but Python 3.11 and its standard library. Every extra leaves a stamp in there:
a hash of pyproject.toml, so that a second call costs a few milliseconds. Progress is one line that
changes; pip's full output goes to `.venv/setup.log`, whose end is shown if something fails.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(os.environ.get("VENV", ROOT / ".venv"))
OLDEST = (3, 11)
SEEN = re.compile(
    r"^\s*(Collecting|Downloading|Installing collected packages|Building|Preparing)\b\s*(.*)"
)


def venv_python() -> Path:
    """Where the environment keeps its interpreter."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def wanted_hash() -> str:
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()


def missing(extras: list[str]) -> list[str]:
    """The extras whose stamp is absent or older than pyproject.toml."""
    want = wanted_hash()
    stamps = {extra: VENV / f".ready-{extra}" for extra in extras}
    return [e for e, p in stamps.items() if not (p.exists() and p.read_text() == want)]


def make_venv() -> None:
    if venv_python().exists():
        return
    print(f"setup: making {VENV.name} with Python {sys.version.split()[0]}", flush=True)
    try:
        venv.create(VENV, with_pip=True)
    except subprocess.CalledProcessError:
        sys.exit(
            "setup: Python could not make a virtual environment with pip in it. On Debian or "
            "Ubuntu: `apt-get install python3-venv`, remove .venv and run make again."
        )


class Progress:
    """One line: rewritten on a terminal, a new one every few seconds elsewhere."""

    def __init__(self) -> None:
        self.start = self.last = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self.start

    def show(self, text: str) -> None:
        line = f"setup: {self.seconds():4.0f} s  {text}"[:99]
        if sys.stdout.isatty():
            print("\r" + line.ljust(99), end="", flush=True)
        elif time.monotonic() - self.last > 3:
            self.last = time.monotonic()
            print(line, flush=True)


def pip_install(extras: list[str]) -> None:
    command = [
        str(venv_python()),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--progress-bar",
        "off",
        "-e",
        f"{ROOT}[{','.join(extras)}]",
    ]
    progress, log = Progress(), VENV / "setup.log"
    with (
        log.open("w") as out,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as pip,
    ):
        assert pip.stdout is not None
        for line in pip.stdout:
            out.write(line)
            if match := SEEN.match(line):
                progress.show(f"{match[1]} {match[2]}".replace(" :", ":"))
    if sys.stdout.isatty():
        print()
    if pip.returncode:
        sys.stdout.write("".join(log.read_text().splitlines(keepends=True)[-25:]))
        sys.exit(f"setup: pip failed (all of its output: {log})")
    for extra in extras:
        (VENV / f".ready-{extra}").write_text(wanted_hash())
    print(f"setup: ready in {progress.seconds():.0f} s", flush=True)


def compile_package() -> None:
    """Bytecode of the package: where PYTHONDONTWRITEBYTECODE is set, as in many containers, every
    process would compile its hundreds of modules anew, a second or more each time."""
    command = [str(venv_python()), "-m", "compileall", "-q", str(ROOT / "src")]
    subprocess.run(command, check=False)  # who may not write there does without


def main(extras: list[str]) -> None:
    if sys.version_info < OLDEST:
        sys.exit(
            f"setup: Python {OLDEST[0]}.{OLDEST[1]} or newer is needed, this is "
            f"{sys.version.split()[0]}; name another with `make PYTHON=/path/to/python3.12 ...`"
        )
    absent = missing(extras)
    if absent:
        make_venv()
        print(f"setup: installing pullback with [{', '.join(absent)}]", flush=True)
        pip_install(absent)
    compile_package()


if __name__ == "__main__":
    main(sys.argv[1:])
