"""Checks shops that are known to be right or wrong, again and again, and counts the false verdicts.

Called by `make verdicts` for the shops in this folder, and by `make shops` for the real ones, which it installs below target/. Exit
status: 0 if every verdict is as expected, 1 if one is not, 3 if a shop could not be installed, started or checked, 64 for an unknown shop.
"""

import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

# The programs and modules lie among the sources, which stay as they are.
sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
from parent import end_with_input  # noqa: E402
from real.install import Failure, installed, say, size_mb  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PYTHON = ROOT / "target" / "shops-python" / "bin" / "python"
# What the shop files name.
ADDRESS = "http://127.0.0.1:8000"
DATABASE = "postgres://postgres@127.0.0.1:5432/shop"
STOCK = 10
USERS = 30
# Status 4 says that the machine is too slow to time anything. It comes only if no promise was broken.
RIGHT = (0, 4)
WRONG = (2,)


@dataclass(frozen=True)
class Shop:
    """A shop of this folder."""

    name: str
    program: str
    file: str
    args: tuple
    expected: tuple
    # What the report of a wrong shop has to name, among other faults.
    fault: str = ""
    group = "own"
    # What `check` is told beside the users.
    load = ("--trials", "1", "--no-warm-up")
    # What the file names in place of the stock of this program.
    replaced = (("stock = 100", f"stock = {STOCK}"),)
    lock = None

    @property
    def is_on_postgres(self):
        return self.file == "shop_postgres.toml"

    def command(self, _):
        if self.program.endswith(".js"):
            return ["node", HERE / self.program, "--port", "0", "--stock", STOCK, *self.args]
        # A file of SQLite lies in the folder of the shop file.
        database = os.environ["DATABASE_URL"] if self.is_on_postgres else "shop.db"
        return [PYTHON, HERE / self.program, "--port", "0", "--stock", STOCK, "--database", database, *self.args]


@dataclass(frozen=True)
class RealShop:
    """A shop that people run in earnest."""

    name: str
    # The folder of the program and the shop file, below `real`.
    folder: str
    # The folder of the lock file.
    lock: str
    args: tuple
    expected: tuple
    fault = ""
    group = "real"
    load = ("--trials", "3")
    replaced = ()
    is_on_postgres = True

    @property
    def file(self):
        return f"real/{self.folder}/shop.toml"

    def command(self, folder):
        program = HERE / "real" / self.folder
        if self.folder == "vendure":
            command = ["node", program / "shop.js", "--modules", folder]
        else:
            command = [folder / "bin" / "python", program / "shop.py", "--data", "files"]
        return [*command, "--port", "0", "--stock", STOCK, "--database", os.environ["DATABASE_URL"], *self.args]


MEET = ("--wrong", "--meet")
SHOPS = [
    Shop("flask-sqlite", "shop.py", "shop.toml", (), RIGHT),
    Shop("flask-sqlite-wrong", "shop.py", "shop.toml", MEET, WRONG, "oversold by"),
    Shop("flask-postgres", "shop.py", "shop_postgres.toml", (), RIGHT),
    Shop("flask-postgres-wrong", "shop.py", "shop_postgres.toml", MEET, WRONG, "oversold by"),
    Shop("node", "shop.js", "shop_js.toml", ("--one-process",), RIGHT),
    Shop("node-wrong", "shop.js", "shop_js.toml", (), WRONG, "oversold by"),
    Shop("course", "course_shop.py", "course_shop.toml", (), RIGHT),
    Shop("course-wrong", "course_shop.py", "course_shop.toml", MEET, WRONG, "oversold by"),
    Shop("early", "early_shop.py", "early_shop.toml", (), RIGHT),
    # The books agree with the answers only after this time.
    Shop("early-slow", "early_shop.py", "early_shop.toml", ("--delay-ms", "1000"), RIGHT),
    Shop("early-wrong", "early_shop.py", "early_shop.toml", ("--loses", "0.2"), WRONG, "have no order"),
    Shop("form", "form_shop.py", "form_shop.toml", (), RIGHT),
    Shop("form-wrong", "form_shop.py", "form_shop.toml", MEET, WRONG, "oversold by"),
    RealShop("vendure-before", "vendure", "vendure/before", (), WRONG),
    RealShop("vendure-after", "vendure", "vendure/after", (), WRONG),
    RealShop("vendure-rejecting", "vendure", "vendure/after", ("--reject-shortfall",), RIGHT),
    RealShop("pretix", "pretix", "pretix", (), RIGHT),
    RealShop("pretix-unlocked", "pretix", "pretix", ("--skip-locking",), WRONG),
]


class Process:
    """A shop that runs. It ends when its standard input is closed, so also with this process."""

    def __init__(self, shop, folder, data):
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        log = data / "log"
        command = [str(word) for word in shop.command(folder)]
        began = time.monotonic()
        with log.open("w") as stderr:
            self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=data, text=True)
        self.url = self.child.stdout.readline().strip()
        self.start_s = time.monotonic() - began
        if not self.url:
            self.child.wait()
            raise Failure(f"{shop.name} did not start; see {log}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait()


def file_of(shop, url, data):
    """Writes the shop file with the address and the database of this run into the folder. Returns its path."""
    text = (HERE / shop.file).read_text()
    database = [(DATABASE, os.environ["DATABASE_URL"])] if shop.is_on_postgres else []
    for old, new in [(ADDRESS, url), *database, *shop.replaced]:
        if old not in text:
            raise Failure(f"the file of {shop.name} does not name {old}")
        text = text.replace(old, new)
    path = data / "shop.toml"
    path.write_text(text)
    return path


@dataclass
class Check:
    """What a check found."""

    status: int
    seconds: float
    is_right: bool
    # The most units that a trial oversold.
    oversold: int = 0
    # The units sold per second in each trial.
    sold_per_s: list = field(default_factory=list)


def checked(shop, command, out):
    """Runs a check. Its log begins with its command line."""
    began = time.monotonic()
    with out.with_suffix(".log").open("w") as log:
        print("$", shlex.join(command), file=log, flush=True)
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT).returncode
    # Such a check has no verdict, right or wrong.
    if status in (3, 64):
        raise Failure(f"the check of {shop.name} ended with status {status}; see {log.name}")
    check = Check(status, time.monotonic() - began, status in shop.expected)
    if (out / "report.json").exists():
        report = json.loads((out / "report.json").read_text())
        trials = [trial for trial in report["trials"] if not trial["warm_up"]]
        check.oversold = max((trial["audit"]["oversold"] for trial in trials), default=0)
        check.sold_per_s = [trial["goodput_per_s"] for trial in trials if trial["goodput_per_s"] is not None]
        faults = [fault for result in report["results"] for fault in result["faults"]]
        check.is_right = check.is_right and (not shop.fault or any(shop.fault in fault for fault in faults))
    if not check.is_right:
        named = f' and a fault "{shop.fault}"' if shop.fault else ""
        say(f"{shop.name} ended with status {status}, and status {shop.expected[0]}{named} was expected; see {log.name}")
    elif shop.group == "own":
        # 300 reports take 200 MB.
        shutil.rmtree(out)
    return check


def check_here(shop, args):
    """Starts the shop, on the server of the environment if it needs one, and checks it. Returns the checks and the start time."""
    os.environ["PRETIX_TOKEN"] = secrets.token_hex(16)
    folder = installed(shop.lock, args.target)[0] if shop.lock else None
    data = args.target / "data" / shop.name
    reports = args.target / "reports" / shop.name
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    checks = []
    with Process(shop, folder, data) as process:
        file = file_of(shop, process.url, data)
        for number in range(1, args.runs + 1):
            out = reports / str(number)
            command = [args.programs / "loadgen", "check", file, "--users", USERS, *shop.load, "--quiet", "--out", out]
            # Most of the time of a wrong shop goes into its reproduction, and one is enough.
            command += ["--no-reproduction"] if number > 1 else []
            checks.append(checked(shop, [str(word) for word in command], out))
            say(f"{shop.name}, run {number} of {args.runs}: status {checks[-1].status}")
    return {"checks": [vars(check) for check in checks], "start_s": process.start_s}


def check(shop, args):
    """Checks a shop in a process of its own, on a server of its own if it needs one. Returns what `check_here` returns."""
    result = args.target / "data" / f"{shop.name}.json"
    result.parent.mkdir(parents=True, exist_ok=True)
    result.unlink(missing_ok=True)
    command = [args.programs / "testbed", "--"] if shop.is_on_postgres else []
    command += [sys.executable, __file__, "--result", result, "--runs", args.runs, "--programs", args.programs]
    command += ["--target", args.target, shop.name]
    # The process ends with the pipe to it, so also with this one.
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE) as child:
        status = child.wait()
    if status != 0 or not result.exists():
        raise Failure(f"{shop.name} was not checked: status {status}; see the lines above")
    return json.loads(result.read_text())


def check_each(shops, args):
    """Checks the shops, several at once if that is wanted. Returns what `check` returns, in the order of the shops."""
    with ThreadPoolExecutor(args.jobs) as pool:
        results = [pool.submit(check, shop, args) for shop in shops]
        try:
            return [result.result() for result in results]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def count_of(statuses):
    """Returns each status with its number: `0 (29 times), 4 (once)`."""
    times = {1: "once"}
    return ", ".join(f"{status} ({times.get(count, f'{count} times')})" for status, count in sorted(Counter(statuses).items()))


def check_all(shops, args):
    """Checks the shops, and prints a table. Returns whether every verdict is as expected."""
    has_real = any(shop.lock for shop in shops)
    columns = ["shop", "expected", "runs", "right verdicts", "false verdicts", "status", "oversold", "sold/s", "seconds", "starts in"]
    columns += ["installed in", "size"] if has_real else []
    rows = [row(*columns), row(*["---"] * len(columns))]
    are_right = True
    folders = [installed(shop.lock, args.target) if shop.lock else (None, 0.0) for shop in shops]
    for shop, (folder, install_s), result in zip(shops, folders, check_each(shops, args)):
        checks = [Check(**one) for one in result["checks"]]
        false = sum(not check.is_right for check in checks)
        are_right = are_right and not false
        cells = [shop.name, "right" if shop.expected == RIGHT else "wrong", len(checks), len(checks) - false, false]
        cells += [count_of(check.status for check in checks), max(check.oversold for check in checks)]
        speeds = [speed for check in checks for speed in check.sold_per_s]
        cells += [f"{median(speeds):.1f}" if speeds else "–", f"{sum(check.seconds for check in checks):.0f}"]
        cells += [f"{result['start_s']:.1f} s"]
        if has_real:
            cells += [f"{install_s:.0f} s" if install_s else "before", f"{size_mb(folder):.0f} MB" if folder else "–"]
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
    parser.add_argument("--group", choices=["own", "real"], default="own", help="the shops that are checked if none is named")
    parser.add_argument("--programs", type=Path, default=ROOT / "target" / "release", help="the folder of loadgen and testbed")
    written = ROOT / "target" / "shops"
    parser.add_argument("--target", type=lambda text: Path(text).resolve(), default=written, help="the folder of all that is written")
    parser.add_argument("--jobs", type=positive, default=1, help="how many shops are checked at once")
    parser.add_argument("--result", type=Path, metavar="FILE", help="check one shop in this process, and write FILE")
    parser.add_argument("shops", nargs="*", help=", ".join(shop.name for shop in SHOPS))
    args = parser.parse_args()
    unknown = set(args.shops) - {shop.name for shop in SHOPS}
    if unknown:
        say(f"no shop is named {', '.join(sorted(unknown))}; name some of {', '.join(shop.name for shop in SHOPS)}")
        sys.exit(64)
    return args


def main():
    args = arguments()
    shops = [shop for shop in SHOPS if (shop.name in args.shops if args.shops else shop.group == args.group)]
    try:
        if args.result:
            threading.Thread(target=end_with_input, daemon=True).start()
            args.result.write_text(json.dumps(check_here(shops[0], args)))
        elif not check_all(shops, args):
            sys.exit(1)
    except (Failure, OSError) as failure:
        say(f"{failure}; a program that is missing is installed by: make deps-test" if isinstance(failure, OSError) else str(failure))
        sys.exit(3)


main()
