"""Checks real shops, each on a throwaway Postgres, and counts the false verdicts.

Called by `make shops`. It installs the shops below target/, with the versions of the lock files. Exit status: 0 if every verdict
is as expected, 1 if one is not, 3 if a shop could not be installed or started, 64 for an unknown shop.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import venv
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
TARGET = ROOT / "target" / "shops"
# What the shop files name.
ADDRESS = "http://127.0.0.1:8000"
DATABASE = "postgres://postgres@127.0.0.1:5432/shop"
STOCK = 10
USERS = 30
NODE_MIN = 20
# Status 4 says that the machine is too slow to time anything. It comes only if no promise was broken.
RIGHT = (0, 4)
WRONG = (2,)


@dataclass(frozen=True)
class Shop:
    name: str
    # The folder of the program and the shop file.
    folder: str
    # The folder of the lock file.
    lock: str
    args: tuple
    expected: tuple


SHOPS = [
    Shop("vendure-before", "vendure", "vendure/before", (), WRONG),
    Shop("vendure-after", "vendure", "vendure/after", (), WRONG),
    Shop("vendure-rejecting", "vendure", "vendure/after", ("--reject-shortfall",), RIGHT),
    Shop("pretix", "pretix", "pretix", (), RIGHT),
    Shop("pretix-unlocked", "pretix", "pretix", ("--skip-locking",), WRONG),
]


class Failure(Exception):
    """Nothing can be said of a shop. The text says why, and what to do."""


def say(text):
    print(f"shops: {text}", file=sys.stderr, flush=True)


def run(*command):
    say(" ".join(str(word) for word in command))
    if subprocess.run(command).returncode != 0:
        raise Failure(f"{command[0]} failed; see the lines above")


def ensure_node():
    try:
        version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        version = "none"
    if not version.startswith("v") or int(version[1:].split(".")[0]) < NODE_MIN:
        raise Failure(f"Vendure needs Node.js {NODE_MIN} or newer, and there is {version}; install it, or name the other shops")


def installed(shop):
    """Installs what the lock file lists, unless that was done. Returns the folder and the time it took."""
    lock = HERE / shop.lock
    folder = TARGET / shop.lock.replace("/", "-")
    files = [file for file in ("package-lock.json", "requirements.txt") if (lock / file).exists()]
    copy = folder / "installed"
    wanted = (lock / files[0]).read_bytes()
    # The copy is written last. Without it, or with another one, everything is installed anew.
    if copy.exists() and copy.read_bytes() == wanted:
        return folder, 0.0
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.monotonic()
    if files[0] == "package-lock.json":
        ensure_node()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(lock / name, folder)
        run("npm", "ci", "--prefix", folder, "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error")
    else:
        venv.create(folder, with_pip=True)
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--requirement")
        run(folder / "bin" / "python", *pip, lock / files[0])
    took = time.monotonic() - began
    copy.write_bytes(wanted)
    return folder, took


def size_mb(folder):
    """Returns the space that the folder takes on the disk, as `du` does."""
    return sum(path.lstat().st_blocks for path in folder.rglob("*")) * 512 / 1e6


class Process:
    """A shop that runs. It ends when its standard input is closed, so also with this process."""

    def __init__(self, shop, folder, database):
        data = TARGET / "data" / shop.name
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        self.log = data / "log"
        program = HERE / shop.folder
        if shop.folder == "vendure":
            command = ["node", program / "shop.js", "--modules", folder]
        else:
            command = [folder / "bin" / "python", program / "shop.py", "--data", data / "files"]
        command += ["--port", "0", "--stock", str(STOCK), "--database", database, *shop.args]
        began = time.monotonic()
        with self.log.open("w") as log:
            self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=data, text=True)
        self.url = self.child.stdout.readline().strip()
        self.start_s = time.monotonic() - began
        if not self.url:
            self.child.wait()
            raise Failure(f"{shop.name} did not start; see {self.log}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait()


def file_of(shop, url, database):
    """Writes the shop file with the address and the database of this run. Returns its path."""
    text = (HERE / shop.folder / "shop.toml").read_text()
    for old, new in ((ADDRESS, url), (DATABASE, database)):
        if old not in text:
            raise Failure(f"the file of {shop.name} does not name {old}")
        text = text.replace(old, new)
    path = TARGET / "data" / shop.name / "shop.toml"
    path.write_text(text)
    return path


def checked(shop, command, out):
    """Runs a check. Returns its status, the units that were oversold at most, and the units sold per second in each trial."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.with_suffix(".log").open("w") as log:
        words = [str(word) for word in command]
        status = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT).returncode
    if status not in shop.expected:
        say(f"{shop.name} ended with status {status}, not {shop.expected[0]}; see {log.name}")
    report = out / "report.json"
    trials = json.loads(report.read_text())["trials"] if report.exists() else []
    measured = [trial for trial in trials if not trial["warm_up"]]
    oversold = max((trial["audit"]["oversold"] for trial in measured), default=0)
    return {"status": status, "oversold": oversold, "sold_per_s": [trial["goodput_per_s"] for trial in measured]}


def check_in_testbed(shop, args):
    """Starts the shop on the server of the environment, and checks it. Returns what each check found, and the start time."""
    os.environ["PRETIX_TOKEN"] = secrets.token_hex(16)
    database = os.environ["DATABASE_URL"]
    folder, _ = installed(shop)
    checks = []
    with Process(shop, folder, database) as process:
        file = file_of(shop, process.url, database)
        for number in range(1, args.runs + 1):
            out = TARGET / "reports" / shop.name / str(number)
            shutil.rmtree(out, ignore_errors=True)
            command = [args.programs / "loadgen", "check", file, "--users", USERS, "--trials", args.trials, "--quiet", "--out", out]
            checks.append(checked(shop, command, out))
            say(f"{shop.name}, run {number} of {args.runs}: status {checks[-1]['status']}")
    return {"checks": checks, "start_s": process.start_s}


def check(shop, args):
    """Checks a shop on a server of its own. Returns what `check_in_testbed` returns there."""
    result = TARGET / "data" / f"{shop.name}.json"
    result.parent.mkdir(parents=True, exist_ok=True)
    result.unlink(missing_ok=True)
    again = [sys.executable, __file__, "--in-testbed", result, "--runs", args.runs, "--trials", args.trials]
    again += ["--programs", args.programs, shop.name]
    status = subprocess.run([str(word) for word in (args.programs / "testbed", "--", *again)]).returncode
    if status != 0 or not result.exists():
        raise Failure(f"{shop.name} was not checked: status {status}; see the lines above")
    return json.loads(result.read_text())


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def check_all(shops, args):
    """Checks the shops one after the other, and prints a table. Returns whether every verdict is as expected."""
    columns = ("shop", "expected", "status", "false", "oversold", "sold/s", "installed in", "size", "starts in")
    rows = [row(*columns), row(*["---"] * len(columns))]
    are_right = True
    for shop in shops:
        folder, install_s = installed(shop)
        result = check(shop, args)
        checks = result["checks"]
        statuses = [check["status"] for check in checks]
        false = sum(status not in shop.expected for status in statuses)
        are_right = are_right and not false
        cells = [shop.name, " or ".join(map(str, shop.expected)), ", ".join(map(str, statuses)), false]
        cells += [max(check["oversold"] for check in checks)]
        speeds = [speed for check in checks for speed in check["sold_per_s"]]
        cells += [f"{median(speeds):.1f}" if speeds else "–"]
        cells += [f"{install_s:.0f} s" if install_s else "before", f"{size_mb(folder):.0f} MB", f"{result['start_s']:.0f} s"]
        rows.append(row(*cells))
    print("\n".join(rows))
    return are_right


def positive(text):
    if int(text) < 1:
        raise ValueError
    return int(text)


def arguments():
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=positive, default=1, help="how often each shop is checked")
    parser.add_argument("--trials", type=positive, default=3, help="trials of a check")
    parser.add_argument("--programs", type=Path, default=ROOT / "target" / "release", help="the folder of loadgen and testbed")
    parser.add_argument("--in-testbed", type=Path, metavar="FILE", help="check one shop on this environment's servers; write FILE")
    parser.add_argument("shops", nargs="*", help="all if none is named: " + ", ".join(shop.name for shop in SHOPS))
    args = parser.parse_args()
    unknown = set(args.shops) - {shop.name for shop in SHOPS}
    if unknown:
        say(f"no shop is named {', '.join(sorted(unknown))}; name some of {', '.join(shop.name for shop in SHOPS)}")
        sys.exit(64)
    return args


def main():
    args = arguments()
    shops = [shop for shop in SHOPS if not args.shops or shop.name in args.shops]
    try:
        if args.in_testbed:
            args.in_testbed.write_text(json.dumps(check_in_testbed(shops[0], args)))
        elif not check_all(shops, args):
            sys.exit(1)
    except (Failure, OSError) as failure:
        say(str(failure))
        sys.exit(3)


main()
