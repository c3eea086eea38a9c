#!/bin/sh
# Installs what building and running need beside Rust, and only what is missing. It first says what that is and by which
# commands. If its input is a terminal it asks once. It starts no service.
#
# On Debian and Ubuntu, it needs no administrator: where there is neither root nor sudo, it unpacks the servers and Java below
# target/. Only a C compiler has to be there.
#
#   scripts/deps.sh         for building and running
#   scripts/deps.sh servers for running the programs of a release: Postgres, ZooKeeper and Java, without Rust and a C compiler
#   scripts/deps.sh test    for the tests too, which contend with Apache Curator (Java) and kazoo (Python) for locks, let
#                           schemathesis (Python) ask the service and wrk and JMeter (Java) load it, have its metrics
#                           checked by promtool (Prometheus) and the scripts for k6 by the compiler of TypeScript (node),
#                           run it behind pgbouncer, step the clocks of servers by libfaketime, look at the page of a report
#                           in Chromium, follow the tutorial with curl and jq, run the scripts of reproductions with curl, jq
#                           and sqlite3, load shops of other people's style (Python with Flask, Node.js), also by k6 and Locust
#                           (Python packages, of which the first one has the program of k6), read the books of MariaDB, and
#                           start Redis
#   scripts/deps.sh check   for make check too, which checks the workflows by jactionlint and zizmor, by shellcheck these
#                           scripts (Python packages with the binaries in them), the manifests by kubernetes-validate, and
#                           makes a site of the documents with Sphinx
#   scripts/deps.sh bench   for the benches too, which load the service with wrk and pgbench and count instructions with
#                           valgrind; there is none for macOS
#
# INSTALL=no in the environment never installs, INSTALL=yes never asks, and INSTALL=unpack does not ask for sudo either.
# Postgres, ZooKeeper and Java are looked for where the crate `testbed` looks for them. Exit status: 0 when nothing is missing
# any more, 3 when something still is, 64 for a usage error and for a variable that names a folder without what it should have.
set -eu
cd "$(dirname "$0")/.."

kazoo_requirements=locks/recipes/tests/interop/requirements.txt
schemathesis_requirements=demo-service/tests/contract/requirements.txt
shops_requirements=loadgen/tests/shops/requirements.txt
engines_requirements=loadgen/tests/engines/requirements.txt
workflow_requirements=.github/requirements.txt
# The tests look for them there.
kazoo_venv=target/interop-python
schemathesis_venv=target/contract-python
shops_venv=target/shops-python
engines_venv=target/engines-python
# The Makefile looks for them there.
workflow_venv=target/workflow-python
k6_types_list=loadgen/tests/k6
k6_types=target/k6-types
curator_version=5.4.0
# What is unpacked and not installed, with programs in bin. The tests and the crate testbed look for them there.
servers=target/servers
brew_opts='/opt/homebrew/opt /usr/local/opt /home/linuxbrew/.linuxbrew/opt'

say() {
    printf '%s\n' "deps: $*" >&2
}

# Prints a command and runs it. A plan is only printed.
plan=no
run() {
    if [ "$plan" = yes ]; then
        printf '    %s\n' "$*"
    else
        printf '+ %s\n' "$*" >&2
        "$@"
    fi
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Whether the program is there unpacked. It is run, as its libraries may be gone.
has_unpacked() {
    "$servers/bin/$1" --version >/dev/null 2>&1
}

has_postgres_in() {
    [ -x "$1/initdb" ] && [ -x "$1/postgres" ]
}

has_postgres() {
    if [ -n "${POSTGRES_BIN:-}" ] || has_unpacked postgres; then
        return 0
    fi
    if has initdb && has postgres; then
        return 0
    fi
    for bin in "$(pg_config --bindir 2>/dev/null || true)" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
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

# Prints the Java launcher.
find_java() {
    if [ -n "${JAVA_HOME:-}" ]; then
        printf '%s\n' "$JAVA_HOME/bin/java"
        return 0
    fi
    if has_unpacked java; then
        echo "$servers/bin/java"
        return 0
    fi
    for opt in $brew_opts; do
        for keg in "$opt"/openjdk*; do
            if [ -x "$keg/bin/java" ]; then
                printf '%s\n' "$keg/bin/java"
                return 0
            fi
        done
    done
    # It is run, as macOS has a stub of that name that only says how to get the real one.
    java -version >/dev/null 2>&1 && echo java
}

has_java() {
    find_java >/dev/null
}

# Whether the launcher can run a source file. Not every JRE lacks the compiler, and a javac elsewhere would not help.
has_jdk() {
    java=$(find_java) && "$java" --list-modules 2>/dev/null | grep -q '^jdk\.compiler'
}

has_zookeeper_in() {
    for jar in "$1"/lib/zookeeper-[0-9]*.jar "$1"/zookeeper-[0-9]*.jar; do
        if [ -f "$jar" ]; then
            return 0
        fi
    done
    return 1
}

has_zookeeper() {
    if [ -n "${ZOOKEEPER_HOME:-}" ] || [ -f /usr/share/java/zookeeper.jar ]; then
        return 0
    fi
    homes="$servers /opt/zookeeper /usr/local/zookeeper /usr/share/zookeeper"
    for opt in $brew_opts; do
        homes="$homes $opt/zookeeper/libexec"
    done
    for home in $homes; do
        if has_zookeeper_in "$home"; then
            return 0
        fi
    done
    return 1
}

has_curator() {
    if [ -n "${CURATOR_CLASSPATH:-}" ]; then
        return 0
    fi
    for part in client framework recipes; do
        [ -f "/usr/share/java/curator-$part.jar" ] || return 1
    done
}

# Debian keeps what makes environments with pip in them in a package of its own.
has_python() {
    python3 -c 'import ensurepip, venv' 2>/dev/null
}

# Whether an environment ($1) has what these requirements ($2) list, and this module ($3) can be loaded in it. The copy
# of the requirements is written last: without it, or with another one, the environment is made anew.
has_environment() {
    cmp -s "$2" "$1/requirements.txt" && "$1/bin/python" -c "import $3" 2>/dev/null
}

has_kazoo() {
    has_environment "$kazoo_venv" "$kazoo_requirements" 'kazoo, redis'
}

has_schemathesis() {
    has_environment "$schemathesis_venv" "$schemathesis_requirements" schemathesis
}

has_shops() {
    has_environment "$shops_venv" "$shops_requirements" flask
}

has_engines() {
    has_environment "$engines_venv" "$engines_requirements" locust
}

has_workflow_check() {
    has_environment "$workflow_venv" "$workflow_requirements" jactionlint
}

has_node() {
    has node && has npm
}

# Whether the packages are those of the list, whose copy is written last, as that of an environment is.
has_k6_types() {
    cmp -s "$k6_types_list/package-lock.json" "$k6_types/listed.json" && node "$k6_types/node_modules/typescript/bin/tsc" --version >/dev/null 2>&1
}

# Debian has what speaks HTTP in a package of its own.
has_jmeter_in() {
    [ -f "$1/bin/ApacheJMeter.jar" ] && [ -f "$1/lib/ext/ApacheJMeter_http.jar" ]
}

# Its home is looked for where the tests look for it.
has_jmeter() {
    homes=/usr/share/jmeter
    for opt in $brew_opts; do
        homes="$homes $opt/jmeter/libexec"
    done
    for home in ${JMETER_HOME:+"$JMETER_HOME"} $homes; do
        if has_jmeter_in "$home"; then
            return 0
        fi
    done
    return 1
}

has_promtool() {
    has promtool || has_unpacked promtool
}

has_pgbouncer() {
    has pgbouncer || [ -x /usr/sbin/pgbouncer ] || has_unpacked pgbouncer
}

# It steps the clocks of servers. macOS has no such faults.
has_libfaketime() {
    [ "$(uname -s)" = Linux ] || return 0
    for usr in target/servers/unpacked/usr /usr; do
        for library in "$usr"/lib/faketime "$usr"/lib/*/faketime "$usr"/lib64/faketime; do
            if [ -e "$library/libfaketime.so.1" ]; then
                return 0
            fi
        done
    done
    return 1
}

# A script of the server asks the program of the client for the settings.
has_mariadb() {
    if has_unpacked mariadbd; then
        return 0
    fi
    if has mariadb-install-db && has my_print_defaults && { has mariadbd || [ -x /usr/sbin/mariadbd ]; }; then
        return 0
    fi
    for opt in $brew_opts; do
        if [ -x "$opt/mariadb/bin/mariadbd" ]; then
            return 0
        fi
    done
    return 1
}

has_redis() {
    if [ -n "${REDIS_BIN:-}" ] || has_unpacked redis-cli || { has redis-server && has redis-cli; }; then
        return 0
    fi
    for opt in $brew_opts; do
        if [ -x "$opt/redis/bin/redis-server" ]; then
            return 0
        fi
    done
    return 1
}

# The driver finds the browser by itself; either name of it will do.
has_chromium() {
    has chromedriver || return 1
    has chromium || has chromium-browser || has google-chrome || [ -d '/Applications/Google Chrome.app' ]
}

# Nobody has to install what a system lacks.
has_valgrind() {
    has valgrind || [ "$(uname -s)" = Darwin ]
}

# The names of what is missing, one a line: postgres, zookeeper, java, cc; for the tests jdk instead of java, and python,
# node, curator, wrk, jmeter, chromium, promtool, pgbouncer, libfaketime, mariadb and redis beside; for the benches wrk and valgrind beside.
missing_packages() {
    has_postgres || echo postgres
    has_zookeeper || echo zookeeper
    if [ "$for_tests" = yes ]; then
        has_jdk || echo jdk
        { has_kazoo && has_schemathesis && has_shops && has_engines; } || has_python || echo python
        has_node || echo node
    else
        has_java || echo java
    fi
    if [ "$for_check" = yes ]; then
        has_workflow_check || has_python || echo python
    fi
    [ "$for_building" = no ] || has cc || echo cc
    if [ "$for_tests" = yes ]; then
        has_curator || echo curator
        has_jmeter || echo jmeter
        has_chromium || echo chromium
        has curl || echo curl
        has jq || echo jq
        has sqlite3 || echo sqlite3
        has_promtool || echo promtool
        has_pgbouncer || echo pgbouncer
        has_libfaketime || echo libfaketime
        has_mariadb || echo mariadb
        has_redis || echo redis
    fi
    if [ "$for_benches" = yes ]; then
        has_valgrind || echo valgrind
    fi
    if [ "$for_tests$for_benches" != nono ]; then
        has wrk || echo wrk
    fi
}

# What the tests and make check look for in target/. It is made with the packages, so it comes after them.
missing_in_target() {
    if [ "$for_tests" = yes ]; then
        has_kazoo || echo kazoo
        has_schemathesis || echo schemathesis
        has_shops || echo shops
        has_engines || echo engines
        has_k6_types || echo k6-types
    fi
    if [ "$for_check" = yes ]; then
        has_workflow_check || echo jactionlint
    fi
}

apt_package() {
    case $1 in
        postgres) echo postgresql ;;
        # The package zookeeper is this one and a whole desktop's Java.
        zookeeper) echo libzookeeper-java ;;
        java) echo default-jre-headless ;;
        jdk) echo default-jdk-headless ;;
        python) echo python3 python3-venv ;;
        curator) echo libcurator-client-java libcurator-framework-java libcurator-recipes-java ;;
        cc) echo gcc libc6-dev ;;
        jmeter) echo jmeter jmeter-http ;;
        node) echo nodejs npm ;;
        chromium) echo chromium chromium-driver ;;
        promtool) echo prometheus ;;
        mariadb) echo mariadb-server-core mariadb-client-core ;;
        redis) echo redis-server ;;
        curl | jq | libfaketime | pgbouncer | sqlite3 | valgrind | wrk) echo "$1" ;;
    esac
}

brew_formula() {
    case $1 in
        postgres) echo postgresql@17 ;;
        zookeeper) echo zookeeper ;;
        java | jdk) echo openjdk ;;
        python) echo python3 ;;
        promtool) echo prometheus ;;
        sqlite3) echo sqlite ;;
        curl | jmeter | jq | mariadb | node | pgbouncer | redis | valgrind | wrk) echo "$1" ;;
    esac
}

curator_by_hand() {
    echo "the jars curator-client, curator-framework and curator-recipes $curator_version" \
        "(https://repo1.maven.org/maven2/org/apache/curator/), in a folder with those of ZooKeeper's lib folder;" \
        "set CURATOR_CLASSPATH='FOLDER/*'"
}

# Whether this script must do without an administrator.
without_root() {
    [ "${INSTALL:-}" = unpack ] || { [ "$(id -u)" -ne 0 ] && ! has sudo; }
}

as_root() {
    if without_root; then
        say "this cannot be unpacked; an administrator can run: $*"
        exit 3
    elif [ "$(id -u)" -eq 0 ]; then
        run "$@"
    elif ! run sudo "$@"; then
        say "not installed, see the lines above; without an administrator, INSTALL=unpack unpacks the servers and Java below target/"
        exit 3
    fi
}

# Whether this need is unpacked and not installed. Three come with a server that starts with the machine, and MariaDB would replace an
# installed MySQL.
is_unpacked() {
    case $1 in
        promtool | pgbouncer | libfaketime | mariadb | redis) return 0 ;;
        postgres | zookeeper | java | jdk) without_root ;;
        *) return 1 ;;
    esac
}

install_with_apt() {
    installed=
    unpacked=
    for need in "$@"; do
        if is_unpacked "$need"; then
            unpacked="$unpacked $(apt_package "$need")"
        else
            installed="$installed $(apt_package "$need")"
        fi
    done
    # One word a package.
    # shellcheck disable=SC2086
    [ -z "$installed" ] || as_root ./scripts/apt-install.sh $installed
    # shellcheck disable=SC2086
    if [ -n "$unpacked" ] && ! run ./scripts/apt-unpack.sh $unpacked; then
        say "these packages could not be unpacked:$unpacked; see the lines above"
        exit 3
    fi
}

install_with_brew() {
    for need in "$@"; do
        if [ "$need" = cc ]; then
            say "no C compiler; install it with: xcode-select --install"
            exit 3
        fi
        if [ "$need" = curator ]; then
            say "Homebrew has no Apache Curator; the tests need $(curator_by_hand)"
            exit 3
        fi
        if [ "$need" = chromium ]; then
            run brew install --cask google-chrome chromedriver
            continue
        fi
        run brew install "$(brew_formula "$need")"
    done
}

install_packages() {
    if has apt-get; then
        install_with_apt "$@"
    elif has brew; then
        install_with_brew "$@"
    else
        say "missing: $*; install with this system's package manager:" \
            "postgres = the PostgreSQL server, zookeeper = Apache ZooKeeper 3.8 or newer (or unpack a release and set ZOOKEEPER_HOME)," \
            "java = a Java runtime 11 or newer, cc = a C compiler, jdk = a Java development kit 11 or newer," \
             "python = Python 3.11 or newer with venv and pip, node = Node.js 18 or newer with npm, curator = $(curator_by_hand)," \
             "jmeter = Apache JMeter (or unpack a release and set JMETER_HOME), wrk = wrk, curl = curl, jq = jq, sqlite3 = sqlite3, valgrind = valgrind," \
             "promtool = Prometheus, pgbouncer = pgbouncer, libfaketime = libfaketime, mariadb = the MariaDB server 10.4 or newer, redis = the Redis server 7 or newer (or set REDIS_BIN)," \
             "chromium = Chromium or Chrome, with the chromedriver of its version"
        exit 3
    fi
}

# Makes the environment $1 of the requirements $2.
install_environment() {
    run python3 -m venv --clear "$1"
    if ! run "$1/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement "$2"; then
        say "what $2 lists could not be installed; see the lines above"
        exit 3
    fi
    run cp "$2" "$1/requirements.txt"
}

install_k6_types() {
    run rm -rf "$k6_types"
    run mkdir -p "$k6_types"
    run cp "$k6_types_list/package.json" "$k6_types_list/package-lock.json" "$k6_types"
    if ! run npm ci --prefix "$k6_types" --ignore-scripts --no-audit --no-fund --loglevel=error; then
        say "what $k6_types_list/package-lock.json lists could not be installed; see the lines above"
        exit 3
    fi
    run cp "$k6_types_list/package-lock.json" "$k6_types/listed.json"
}

install() {
    # One word a need.
    # shellcheck disable=SC2086
    [ -z "$packages_needed" ] || install_packages $packages_needed
    for need in $target_needed; do
        case $need in
            kazoo) install_environment "$kazoo_venv" "$kazoo_requirements" ;;
            schemathesis) install_environment "$schemathesis_venv" "$schemathesis_requirements" ;;
            shops) install_environment "$shops_venv" "$shops_requirements" ;;
            engines) install_environment "$engines_venv" "$engines_requirements" ;;
            jactionlint) install_environment "$workflow_venv" "$workflow_requirements" ;;
            k6-types) install_k6_types ;;
        esac
    done
}

# Sets what is missing, in one line each.
look() {
    packages_needed=$(missing_packages | paste -sd' ' -)
    target_needed=$(missing_in_target | paste -sd' ' -)
    needed="$packages_needed${packages_needed:+${target_needed:+ }}$target_needed"
}

# Ends this script unless the user wants what is printed above to be done.
confirm() {
    case ${INSTALL:-} in
        yes | unpack) return ;;
        no) answer=no ;;
        *)
            # Nobody to ask, as in a job. Whoever called this wants it.
            if ! [ -t 0 ]; then
                return
            fi
            # Standard error may lead into a file or a pipe, as in `make demo 2>&1 | tee log`.
            { [ -t 2 ] && printf 'Install? [Y/n] ' >&2; } || { printf 'Install? [Y/n] ' >/dev/tty; } 2>/dev/null ||
                printf 'Install? [Y/n] ' >&2
            read -r answer || answer=no
            ;;
    esac
    case $answer in
        '' | [Yy] | [Yy][Ee][Ss]) ;;
        *)
            say "nothing was installed; run these commands, or install $needed in another way, then start again"
            exit 3
            ;;
    esac
}

for_building=yes
for_tests=no
for_benches=no
for_check=no
case $* in
    '') ;;
    servers) for_building=no ;;
    test) for_tests=yes ;;
    bench) for_benches=yes ;;
    check) for_check=yes ;;
    *)
        say "usage: scripts/deps.sh [servers | test | check | bench]"
        exit 64
        ;;
esac

# A folder that a variable names is used or refused, never passed over. The programs do the same.
refuse_misnamed() {
    say "$1 names $2, but there is no $3; name another folder, or unset $1"
    exit 64
}
if [ -n "${POSTGRES_BIN:-}" ] && ! has_postgres_in "$POSTGRES_BIN"; then
    refuse_misnamed POSTGRES_BIN "$POSTGRES_BIN" 'initdb and postgres in it'
fi
if [ -n "${ZOOKEEPER_HOME:-}" ] && ! has_zookeeper_in "$ZOOKEEPER_HOME"; then
    refuse_misnamed ZOOKEEPER_HOME "$ZOOKEEPER_HOME" 'zookeeper-N.jar in it or in its folder lib'
fi
if [ -n "${JAVA_HOME:-}" ] && ! [ -x "$JAVA_HOME/bin/java" ]; then
    refuse_misnamed JAVA_HOME "$JAVA_HOME" 'bin/java in it'
fi
if [ "$for_tests" = yes ] && [ -n "${REDIS_BIN:-}" ] && ! [ -x "$REDIS_BIN/redis-server" ]; then
    refuse_misnamed REDIS_BIN "$REDIS_BIN" 'redis-server in it'
fi
if [ "$for_tests" = yes ] && [ -n "${JMETER_HOME:-}" ] && ! has_jmeter_in "$JMETER_HOME"; then
    refuse_misnamed JMETER_HOME "$JMETER_HOME" 'bin/ApacheJMeter.jar with lib/ext/ApacheJMeter_http.jar in it'
fi

if [ "$for_building" = yes ] && ! has cargo; then
    say "cargo not found; install Rust from https://rustup.rs"
    exit 3
fi

look
if [ -n "$needed" ]; then
    say "missing: $needed"
    commands=$(plan=yes && install)
    say "these commands install it, and start no service:"
    printf '%s\n' "$commands" >&2
    confirm
    install
    look
fi
if [ -n "$needed" ]; then
    say "installed, but still not found: $needed"
    exit 3
fi

if [ "$for_benches" = yes ] && ! has valgrind; then
    say "there is no valgrind for this system, so instructions will not be counted; wall clock will be measured"
fi
