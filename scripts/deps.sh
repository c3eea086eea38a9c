#!/bin/sh
# Installs what building and running need beside Rust, and only what is missing. Every command is printed before it runs.
#
# Postgres, ZooKeeper and Java are looked for where the crate `testbed` looks for them. Exit status: 0 when nothing is
# missing any more, 3 when something has to be installed by hand.
set -eu

brew_opts='/opt/homebrew/opt /usr/local/opt /home/linuxbrew/.linuxbrew/opt'

say() {
    printf '%s\n' "deps: $*" >&2
}

run() {
    printf '+ %s\n' "$*" >&2
    "$@"
}

has() {
    command -v "$1" >/dev/null 2>&1
}

has_postgres_in() {
    [ -x "$1/initdb" ] && [ -x "$1/postgres" ]
}

has_postgres() {
    if has initdb && has postgres; then
        return 0
    fi
    for bin in "${POSTGRES_BIN:-}" "$(pg_config --bindir 2>/dev/null || true)" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
        if has_postgres_in "$bin"; then
            return 0
        fi
    done
    for opt in $brew_opts; do
        for keg in "$opt"/postgresql*; do
            if has_postgres_in "$keg/bin"; then
                return 0
            fi
        done
    done
    return 1
}

has_java() {
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        return 0
    fi
    for opt in $brew_opts; do
        for keg in "$opt"/openjdk*; do
            if [ -x "$keg/bin/java" ]; then
                return 0
            fi
        done
    done
    # It is run, as macOS has a stub of that name that only says how to get the real one.
    java -version >/dev/null 2>&1
}

has_zookeeper() {
    if [ -f /usr/share/java/zookeeper.jar ]; then
        return 0
    fi
    homes="/opt/zookeeper /usr/local/zookeeper /usr/share/zookeeper"
    for opt in $brew_opts; do
        homes="$homes $opt/zookeeper/libexec"
    done
    for home in "${ZOOKEEPER_HOME:-}" $homes; do
        for jar in "$home"/lib/zookeeper-[0-9]*.jar "$home"/zookeeper-[0-9]*.jar; do
            if [ -f "$jar" ]; then
                return 0
            fi
        done
    done
    return 1
}

# The names of what is missing, one a line: postgres, zookeeper, java, cc.
missing() {
    has_postgres || echo postgres
    has_zookeeper || echo zookeeper
    has_java || echo java
    has cc || echo cc
}

apt_package() {
    case $1 in
        postgres) echo postgresql ;;
        zookeeper) echo zookeeper ;;
        java) echo default-jre-headless ;;
        cc) echo build-essential ;;
    esac
}

brew_formula() {
    case $1 in
        postgres) echo postgresql@17 ;;
        zookeeper) echo zookeeper ;;
        java) echo openjdk ;;
    esac
}

apt_get() {
    if [ "$(id -u)" -eq 0 ]; then
        run env DEBIAN_FRONTEND=noninteractive apt-get "$@"
    elif has sudo; then
        run sudo env DEBIAN_FRONTEND=noninteractive apt-get "$@"
    else
        say "neither root nor sudo: ask an administrator to run: apt-get $*"
        exit 3
    fi
}

install_with_apt() {
    packages=
    for need in "$@"; do
        packages="$packages $(apt_package "$need")"
    done
    apt_get update
    # One word a package.
    # shellcheck disable=SC2086
    apt_get install --yes --no-install-recommends $packages
}

install_with_brew() {
    for need in "$@"; do
        if [ "$need" = cc ]; then
            say "no C compiler; install it with: xcode-select --install"
            exit 3
        fi
        run brew install "$(brew_formula "$need")"
    done
}

if ! has cargo; then
    say "cargo not found; install Rust from https://rustup.rs"
    exit 3
fi

needs=$(missing)
if [ -z "$needs" ]; then
    exit 0
fi

# One word a need.
# shellcheck disable=SC2086
if has apt-get; then
    install_with_apt $needs
elif has brew; then
    install_with_brew $needs
else
    # shellcheck disable=SC2116
    say "missing: $(echo $needs); install with this system's package manager:" \
        "postgres = the PostgreSQL server, zookeeper = Apache ZooKeeper 3.5 or newer (or unpack a release and set ZOOKEEPER_HOME)," \
        "java = a Java runtime 11 or newer, cc = a C compiler"
    exit 3
fi

needs=$(missing)
if [ -n "$needs" ]; then
    # shellcheck disable=SC2086,SC2116
    say "installed, but still not found: $(echo $needs)"
    exit 3
fi
