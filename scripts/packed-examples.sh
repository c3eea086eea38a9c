#!/bin/sh
# Builds the examples of the crates that are published, each with what is in its packed file and nothing else of this repository.
set -eu
cd "$(dirname "$0")/.."

for manifest in locks/*/Cargo.toml; do
    grep -q '^publish' "$manifest" ||
        set -- "$@" --package "$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1)"
done
cargo package --locked --no-verify "$@"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
folder=target/packed-examples
rm -rf "$folder"
mkdir -p "$folder/crates"
for packed in target/package/*-"$version".crate; do
    tar -xzf "$packed" -C "$folder/crates"
done

# A workspace of their own, in which they find each other: the registry may not have them yet.
{
    printf '[workspace]\nresolver = "3"\nmembers = ["crates/*"]\n\n[patch.crates-io]\n'
    for crate in "$folder"/crates/*; do
        name=$(basename "$crate" "-$version")
        printf '%s = { path = "crates/%s-%s" }\n' "$name" "$name" "$version"
    done
} >"$folder/Cargo.toml"
cp Cargo.lock "$folder"

for crate in "$folder"/crates/*; do
    [ -d "$crate/examples" ] || continue
    printf 'packed-examples: %s\n' "$(basename "$crate")" >&2
    cargo build --manifest-path "$crate/Cargo.toml" --examples --target-dir target
done
