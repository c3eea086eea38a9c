#!/bin/sh
# Brings the charting libraries of the page anew from the npm registry, at the versions named here, and notes their
# checksums. Raise a version, run it, look at the page, run its tests, and commit what has changed.
#
#   loadgen/src/report/html/vendor/refresh.sh            brings them
#   loadgen/src/report/html/vendor/refresh.sh --check    only compares what is here with the checksums
#
# Exit status: 0 when all is as it should be, 1 when a file differs or cannot be had, 64 for a usage error.
set -eu
cd "$(dirname "$0")"

d3_version=7.9.2
plot_version=0.6.17

check() {
    if command -v sha256sum >/dev/null 2>&1; then sha256sum -c SHA256SUMS; else shasum -a 256 -c SHA256SUMS; fi
}

case $* in
    '') ;;
    --check)
        check || exit 1
        exit 0
        ;;
    *)
        echo "refresh: usage: refresh.sh [--check]" >&2
        exit 64
        ;;
esac

unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT

# Unpacks the package $1 at the version $2 and copies its file $3 here, with its licence as $4.
bring() {
    archive=$(npm pack --silent --pack-destination "$unpacked" "$1@$2")
    tar -xzf "$unpacked/$archive" -C "$unpacked"
    cp "$unpacked/package/$3" .
    cp "$unpacked/package/LICENSE" "$4"
    rm -r "$unpacked/package"
}

bring d3 "$d3_version" dist/d3.min.js d3.LICENSE
bring @observablehq/plot "$plot_version" dist/plot.umd.min.js plot.LICENSE
if command -v sha256sum >/dev/null 2>&1; then
    sha256sum d3.min.js plot.umd.min.js >SHA256SUMS
else
    shasum -a 256 d3.min.js plot.umd.min.js >SHA256SUMS
fi
check
