"""Installs the real shops below target/, with the versions of their lock files."""

import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
NODE_MIN = 20


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


def installed(lock, target):
    """Installs what a lock file below this folder lists, unless that was done. Returns the folder and the time it took."""
    folder = target / lock.replace("/", "-")
    lock = HERE / lock
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
