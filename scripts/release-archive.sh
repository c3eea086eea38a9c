#!/bin/sh
# Packs programs of a release with their completions and manual pages, and writes the checksum of the archive beside it.
#
#   scripts/release-archive.sh NAME FOLDER PROGRAM...
#
# Makes NAME.tar.gz in the current folder. FOLDER has the programs, which must run on this machine.
set -eu

if [ $# -lt 3 ]; then
    echo 'usage: scripts/release-archive.sh NAME FOLDER PROGRAM...' >&2
    exit 64
fi
root=$(dirname "$0")/..
name=$1
folder=$2
shift 2

rm -rf "$name"
mkdir "$name" "$name/completions" "$name/man"
cp "$root"/LICENSE-* "$root/CHANGELOG.md" "$name"
# A program that is packed alone has a README of its own.
if [ $# -eq 1 ] && [ -f "$root/locks/$1/README.md" ]; then
    cp "$root/locks/$1/README.md" "$name"
else
    cp "$root/README.md" "$name"
fi
for program in "$@"; do
    # Without the names of functions a program is a fifth smaller. The option of Cargo's profile is ignored for a crate that has
    # settings of its own in the profile.
    strip -o "$name/$program" "$folder/$program"
    case $program in
        loadgen)
            "$folder/loadgen" man --out "$name/man"
            completions=completions
            ;;
        zk-lock)
            "$folder/zk-lock" --man >"$name/man/zk-lock.1"
            completions=--completions
            ;;
        # A service, which nobody types.
        *) continue ;;
    esac
    for shell in bash fish zsh; do
        "$folder/$program" "$completions" "$shell" >"$name/completions/$program.$shell"
    done
done
tar -czf "$name.tar.gz" "$name"
shasum -a 256 "$name.tar.gz" >"$name.tar.gz.sha256"
