#!/usr/bin/env bash
# Fails if docs/GUARANTEES.md names a test that does not exist.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=0
# A name of a test is a sentence: at least three underscores.
for test in $(grep -oE '`[a-z0-9]+(_[a-z0-9]+){3,}`' docs/GUARANTEES.md | tr -d '`' | sort -u); do
	if ! git grep -qE "fn $test\b" -- '*.rs'; then
		echo "docs/GUARANTEES.md names the test $test, which does not exist: rename it there, or write it" >&2
		missing=1
	fi
done
exit $missing
