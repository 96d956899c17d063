# The command `annals`, which serves the folder /data over HTTP on port 7070 as an unprivileged user.
#
#   docker build --tag annals .
#   docker run --name annals --env ANNALS_TOKEN --publish 127.0.0.1:7070:7070 \
#     --volume annals-data:/data --stop-timeout 45 annals
#   docker exec annals annals ids --server http://127.0.0.1:7070
#
# The server is reachable from outside of the container, so it needs a token of 16 bytes or more in
# ANNALS_TOKEN, or exits with code 2. There is no TLS: publish it to 127.0.0.1 only, and put a proxy in
# front for remote clients. A shutdown takes up to 30 s (--grace), so Docker's default of 10 s is too
# short (--stop-timeout). The image has neither a shell nor an HTTP client, so it has no HEALTHCHECK:
# probe /healthz and /readyz, which need no token. More: docs/operating.md.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
COPY Cargo.toml Cargo.lock LICENSE ./
COPY crates crates
RUN cargo build --locked --profile dist --package annals-cli && mkdir /data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /build/target/dist/annals /usr/local/bin/annals
COPY --from=build /build/LICENSE /usr/share/doc/annals/LICENSE
# An empty volume takes its owner from the image.
COPY --from=build --chown=65532:65532 /data /data
ENV ANNALS_DATA=/data
VOLUME /data
EXPOSE 7070
USER 65532:65532
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/annals"]
CMD ["serve", "--listen", "0.0.0.0:7070"]
