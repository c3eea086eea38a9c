#!/bin/sh
# Prints what CHANGELOG.md says about a version: the notes of its release. Without an entry it fails.
#
#   scripts/release-notes.sh VERSION
set -eu
cd "$(dirname "$0")/.."

if [ $# -ne 1 ]; then
    echo 'usage: scripts/release-notes.sh VERSION' >&2
    exit 64
fi
notes=$(awk -v "heading=## [$1]" '
    /^## / { within = index($0, heading) == 1; next }
    within && (begun = begun || NF)
' CHANGELOG.md)
if [ -z "$notes" ]; then
    echo "release-notes: CHANGELOG.md says nothing below the heading \"## [$1]\"" >&2
    exit 3
fi
printf '%s\n' "$notes"
