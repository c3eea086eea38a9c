# The service and the load generator, each in an image of its own.
#   docker build --target demo-service --build-arg SECKILL_REVISION=$(git rev-parse HEAD) .
#   docker build --target loadgen .
ARG RUST_IMAGE
ARG DEBIAN_IMAGE

# Reduces the sources to what decides the dependencies: the manifests, and a stub for each target that they need.
# The dependencies below are built again only if one of these files changes. Each file of bench/benches/ is a target.
FROM ${RUST_IMAGE:-rust:1.95.0-slim-bookworm} AS manifests
WORKDIR /src
COPY . .
RUN find . -type f ! -name Cargo.toml ! -name Cargo.lock ! -path './.cargo/*' \
        ! -name lib.rs ! -name main.rs ! -name build.rs ! -path './bench/benches/*.rs' -delete \
    && find . -name '*.rs' -exec sh -c 'for stub; do echo "fn main() { }" >"$stub"; done' sh {} + \
    && find . -mindepth 1 -type d -empty -delete

FROM ${RUST_IMAGE:-rust:1.95.0-slim-bookworm} AS build
WORKDIR /src
COPY --from=manifests /src .
# Without default features, `loadgen` has no drivers for MySQL, MariaDB and SQLite: neither the demo nor a comparison needs them.
RUN cargo build --release --locked --no-default-features -p demo-service -p loadgen
COPY .sqlx .sqlx
COPY migrations migrations
COPY locks locks
COPY tools tools
COPY demo-service demo-service
COPY loadgen loadgen
# The commit, which the service tells in its metrics: the build sees no repository to ask.
ARG SECKILL_REVISION
# Cargo compares times: a source that is older than the build of its stub would pass for built.
RUN find locks tools demo-service loadgen -name '*.rs' -exec touch {} + \
    && cargo build --release --locked --no-default-features -p demo-service -p loadgen \
    && strip target/release/demo-service target/release/loadgen

FROM ${DEBIAN_IMAGE:-debian:bookworm-20260824-slim} AS demo-service
COPY --from=build /src/target/release/demo-service /usr/local/bin/demo-service
USER 10001:10001
ENV LISTEN=0.0.0.0:8080
EXPOSE 8080
# The image has no HTTP client; bash speaks enough of it to ask whether the service is ready.
HEALTHCHECK --interval=2s --timeout=3s --start-period=30s --retries=15 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r status <&3 && [[ $status == *' 200 '* ]]"]
ENTRYPOINT ["demo-service"]

FROM ${DEBIAN_IMAGE:-debian:bookworm-20260824-slim} AS loadgen
COPY --from=build /src/target/release/loadgen /usr/local/bin/loadgen
USER 10002:10002
# It writes the report of an interrupted run on either signal; this is the one that a person would send.
STOPSIGNAL SIGINT
ENTRYPOINT ["loadgen"]
