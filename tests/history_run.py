"""Calls whose answers must not depend on the calls before them: by hand, or many of them.

    make history ARGS='--families 400 --seed 3'
    python tests/history_run.py --match 'jnp.add' --rounds 4
    python tests/history_run.py --case 'jnp.add(f4(3), 2)' --after 'jnp.add(f4(3), wk(2))'

Each family of calls (tests/history_cases.py) runs in forked processes that have called nothing
before: in different orders, each call some times in a row, so that functions become native; with
functions that never do; and by the runtime in plain Python. All answers to a call (values to the
bit, types, where results lie, which are arguments, errors, warnings) must be one. What differs is
printed with a call before it that makes the difference.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
TIMES = (1, 1, 1, 2, 3, 4, 12)  # calls in a row; after the tenth all functions may be native
SECONDS = 300.0  # of one process


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--families", type=int, default=0, help="so many, drawn (0: one of each template)"
    )
    parser.add_argument("--size", type=int, default=14, help="calls of a family")
    parser.add_argument("--rounds", type=int, default=2, help="orders that a family is called in")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--match", default="", help="templates that hold this regular expression")
    parser.add_argument("--only", default="", help="families of templates, with commas between")
    parser.add_argument("--part", default="0/1", help="k/n: every n-th family from the k-th on")
    parser.add_argument("--no-python", action="store_true", help="without the runtime in Python")
    parser.add_argument("--case", default="", help="one call, alone and after --after")
    parser.add_argument("--after", action="append", default=[], help="calls before it")
    parser.add_argument("--flags", default="[]", help="of the case: [[name, value, process?], ...]")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


# --- the process that forks ---
def serve() -> None:
    """Does what the lines on stdin ask for, each in a child; prints the answers."""
    import history_cases

    out = os.dup(1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    names = history_cases.environment()
    names["jnp"].asarray(names["np"].ones(1))  # makes the native runtime
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            import faulthandler

            os.close(read)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            with os.fdopen(write, "w") as file:
                json.dump(run(json.loads(line), names), file)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as file:
            answer = file.read()
        _, status = os.waitpid(child, 0)
        text = answer or json.dumps({"died": os.waitstatus_to_exitcode(status)})
        os.write(out, text.encode() + b"\n")


def run(request: dict[str, Any], names: dict[str, Any]) -> list[str]:
    """Makes the calls of a history; the answer of each step, or those of a step that differ."""
    import history_cases

    from pullback.api.eager import EagerFunction

    if request.get("plain"):
        EagerFunction._count = lambda *_: None  # type: ignore[assignment, method-assign]
    prepared = [history_cases.Prepared(text) for _, text in request["calls"]]
    steps = []
    for which, times, keep in request["steps"]:
        chosen = request["calls"][which][0]
        kept, said = None, []
        for _ in range(times):
            told, made = history_cases.answered(prepared[which], chosen, names, kept)
            kept = made if keep and not told.endswith("1]") and not told.endswith("0]") else None
            if not said or said[-1] != told:
                said.append(told)
        steps.append(said)
    return steps  # type: ignore[return-value]


class Server:
    """A process that has called nothing yet, and forks."""

    def __init__(self, **environment: str) -> None:
        command = [sys.executable, "-W", "ignore", str(HERE / "history_run.py"), "--serve"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONHASHSEED": "0", **environment},
        )  # fmt: skip

    def ask(self, calls: Any, steps: Any, plain: bool = False) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(
            json.dumps({"calls": calls, "steps": steps, "plain": plain}) + "\n"
        )
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or '{"died": "server"}')

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)


# --- histories ---
def history(count: int, rng: random.Random, length: int) -> list[tuple[int, int, bool]]:
    """Steps (which call, how often, with the same arguments?): each call at least once."""
    order = [*range(count), *(rng.randrange(count) for _ in range(length - count))]
    rng.shuffle(order)
    return [(k, rng.choice(TIMES), rng.random() < 0.5) for k in order]


class Found:
    """The answers to the calls of a family: by call, by answer, a history that gave it."""

    def __init__(self, calls: Sequence[Any]) -> None:
        self.calls = calls
        self.answers: list[dict[str, tuple[str, Any]]] = [{} for _ in calls]

    def add(self, who: str, steps: list[tuple[int, int, bool]], said: Any) -> str:
        if isinstance(said, dict):
            return f"{who} died with {said['died']}: {[self.calls[k] for k, *_ in steps]}"
        for number, ((which, *_), answers) in enumerate(zip(steps, said)):
            for answer in answers:
                self.answers[which].setdefault(answer, (who, steps[: number + 1]))
        return ""

    def different(self) -> Iterator[int]:
        return (k for k, answers in enumerate(self.answers) if len(answers) > 1)


def blamed(server: Server, calls: Sequence[Any], which: int) -> str:
    """The call before it that changes a call's answer, if it is one."""
    alone = server.ask(calls, [(which, 1, False)])
    for before in range(len(calls)):
        for steps in ([(before, 12, False), (which, 14, False)],):
            said = server.ask(calls, steps)
            if isinstance(said, dict) or isinstance(alone, dict):
                continue
            if said[1] != alone[0]:
                return f"after 12 of {calls[before]}"
    return "after more than one"


def _common(texts: list[str]) -> int:
    """How long texts are the same."""
    return next((k for k, c in enumerate(zip(*texts)) if len(set(c)) > 1), min(map(len, texts)))


def check(family: Any, servers: dict[str, Server], seed: int, rounds: int) -> list[str]:
    """What is wrong with a family of calls."""
    found, wrong = Found(family), []
    for who, server in servers.items():
        for number in range(rounds if who == "native" else 1):
            rng = random.Random(f"{seed} {number} {who}")
            length = len(family) * (3 if who == "native" else 1)
            steps = history(len(family), rng, length)
            if who == "plain":
                steps = [(k, 1, False) for k, *_ in steps]
            said = server.ask(family, steps, plain=who == "plain")
            if text := found.add(who, steps, said):
                wrong.append(text)
    for which in found.different():
        flags, text = family[which]
        said = found.answers[which]
        start = max(0, _common(list(said)) - 40)
        told = "\n".join(
            f"    {who:7}{len(steps):4} {answer[start : start + 160]!r}"
            for answer, (who, steps) in said.items()
        )
        cause = blamed(servers["native"], family, which)
        wrong.append(f"{text}   {flags or ''}\n{told}\n    {cause}")
    return wrong


def main() -> int:
    options = arguments()
    if options.serve:
        serve()
        return 0
    import tempfile

    import history_cases

    with tempfile.TemporaryDirectory(prefix="pullback-history-") as folder:
        os.environ.setdefault("PULLBACK_CACHE_DIR", folder)
        servers = {"native": Server()}
        servers["plain"] = servers["native"]
        if not options.no_python:
            servers["python"] = Server(PULLBACK_NATIVE="0")
        if options.case:
            return one(options, servers)
        names = history_cases.environment()
        chosen = [
            t
            for t in history_cases.templates()
            if re.search(options.match, t.text)
            and (not options.only or t.family in options.only.split(","))
        ]
        rng = random.Random(options.seed)
        if options.families:
            chosen = [rng.choice(chosen) for _ in range(options.families)]
        first, _, step = options.part.partition("/")
        wrong = count = 0
        chosen = chosen[int(first) :: int(step)]
        for number, template in enumerate(chosen):
            seed = options.seed * 100003 + number
            family = history_cases.family(template, seed, options.size, names)
            count += len(family)
            for text in check(family, servers, seed, options.rounds):
                wrong += 1
                print(text, flush=True)
        print(f"{count} calls in {len(chosen)} families: {wrong} depend on what was called before")
        for server in set(servers.values()):
            server.close()
    return 1 if wrong else 0


def one(options: argparse.Namespace, servers: dict[str, Server]) -> int:
    """Tells of one call alone, and after others."""
    flags = json.loads(options.flags)
    calls = [(flags, options.case), *(([], text) for text in options.after)]
    before = [(k, 12, False) for k in range(1, len(calls))]
    answers = []
    for who, server in servers.items():
        said = server.ask(calls, [*before, (0, 14, False)], plain=who == "plain")
        answers.append(said if isinstance(said, dict) else said[-1])
        print(who, "\n    ".join(["", *answers[-1]]))
    said = servers["native"].ask(calls, [(0, 1, False)])
    print("alone", said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
