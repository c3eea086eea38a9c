#!/bin/sh
# Rustdoc with its unstable options. If Cargo saw the variable, it would build other crates again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
