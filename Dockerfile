# The service and the load generator, each in an image of its own.
#   docker build --target demo-service .     docker build --target loadgen .

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p demo-service -p loadgen

FROM debian:bookworm-slim AS demo-service
RUN useradd --system --uid 10001 --no-create-home demo
COPY --from=build /src/target/release/demo-service /usr/local/bin/demo-service
USER demo
ENV LISTEN=0.0.0.0:8080
EXPOSE 8080
# The image has no HTTP client; bash speaks enough of it to ask whether the service is ready.
HEALTHCHECK --interval=2s --timeout=3s --start-period=30s --retries=15 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r status <&3 && [[ $status == *' 200 '* ]]"]
ENTRYPOINT ["demo-service"]

FROM debian:bookworm-slim AS loadgen
COPY --from=build /src/target/release/loadgen /usr/local/bin/loadgen
# It writes the report of an interrupted run on either signal; this is the one that a person would send.
STOPSIGNAL SIGINT
ENTRYPOINT ["loadgen"]
