#!/bin/sh
# Unpacks Debian packages below target/servers, each with the packages that it needs and that this system lacks. It needs no
# administrator, installs nothing and starts nothing.
#
#   scripts/apt-unpack.sh PACKAGE...
#
# The tests and the programs look there by themselves. For others, these variables may name it:
#
#   POSTGRES_BIN=target/servers/bin   initdb and postgres; each program there starts the unpacked one with its libraries
#   JAVA_HOME=target/servers          bin/java
#   ZOOKEEPER_HOME=target/servers     lib/zookeeper-N.jar
set -eu
cd "$(dirname "$0")/.."

servers=$PWD/target/servers
unpacked=$servers/unpacked
downloads=$servers/downloads

# Only root may write the lists of the system, and they may be old or missing. So these are our own.
apt() {
    printf '+ apt-get %s\n' "$*" >&2
    apt-get -o Dir::State::Lists="$downloads/lists" -o Dir::Cache="$downloads/cache" "$@"
}

rm -rf "$downloads"
mkdir -p "$downloads/lists/partial" "$downloads/cache" "$unpacked" "$servers/bin" "$servers/lib"

apt --quiet update
needed=$(apt --simulate --no-install-recommends install "$@" | sed -n 's/^Inst \([^ ]*\).*/\1/p')
if [ -z "$needed" ]; then
    echo 'apt-unpack: nothing to unpack; see the lines above' >&2
    exit 3
fi
# One word a package.
# shellcheck disable=SC2086
(cd "$downloads" && apt --quiet download $needed)
for package in "$downloads"/*.deb; do
    dpkg-deb -x "$package" "$unpacked"
done
rm -rf "$downloads"

# The links of a package lead to where it would be installed.
find "$unpacked" -type l -lname '/*' | while IFS= read -r link; do
    target=$unpacked$(readlink "$link")
    if [ -e "$target" ] || [ -L "$target" ]; then
        ln -sfn "$target" "$link"
    fi
done

# Debian's jar of the server looks for others where they would be installed, so all are named. Two backends of the log would
# contend, and without any errors would go nowhere. What the system has already was not unpacked.
if [ -e "$unpacked/usr/share/java/zookeeper.jar" ]; then
    for jar in /usr/share/java/slf4j-simple.jar /usr/share/java/netty-*.jar "$unpacked"/usr/share/java/*.jar; do
        case ${jar##*/} in
            slf4j-api.jar | slf4j-simple.jar) ;;
            *slf4j*) continue ;;
        esac
        [ ! -e "$jar" ] || ln -sfn "$jar" "$servers/lib"
    done
fi

# The script of MariaDB looks for this program beside itself. A system with the client has it elsewhere.
if [ -e "$unpacked/usr/bin/mariadb-install-db" ] && ! [ -e "$unpacked/usr/bin/my_print_defaults" ]; then
    ln -sfn /usr/bin/my_print_defaults "$unpacked/usr/bin"
fi

# The server is a link to a program of another package, which tells by its name what it is to be. A system with that package has
# it elsewhere.
if [ -L "$unpacked/usr/bin/redis-server" ] && ! [ -e "$unpacked/usr/bin/redis-server" ]; then
    ln -sfn /usr/bin/redis-check-rdb "$unpacked/usr/bin/redis-server"
fi

libraries=
for folder in "$unpacked"/lib/*-linux-gnu* "$unpacked"/usr/lib/*-linux-gnu*; do
    [ ! -d "$folder" ] || libraries="$libraries${libraries:+:}\$servers${folder#"$servers"}"
done
# They come last, because the programs are taken for there once these are.
for program in "$unpacked"/usr/lib/postgresql/*/bin/* "$unpacked"/usr/lib/jvm/*/bin/* \
    "$unpacked"/usr/bin/promtool "$unpacked"/usr/sbin/pgbouncer "$unpacked"/usr/bin/mariadb-install-db \
    "$unpacked"/usr/sbin/mariadbd "$unpacked"/usr/bin/redis-server "$unpacked"/usr/bin/redis-cli; do
    [ -x "$program" ] || continue
    start=$servers/bin/${program##*/} path=${program#"$servers"}
    cat >"$start" <<END
#!/bin/sh
servers=\$(cd "\${0%/*}/.." && pwd)
export LD_LIBRARY_PATH="$libraries\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec "\$servers$path" "\$@"
END
    chmod +x "$start"
done
