# The image contains the static binary and CA certificates, but no agent.
#
# RUNTIME is debian:bookworm-slim because a worker starts agents, and agents
# need a shell, a libc and usually git: build your image with your agent on top
# of this one. To run only the server, the normalizer or the responder,
# RUNTIME=scratch is enough: the last stage has no RUN, so it needs no shell.
ARG BUILDER=golang:1.26-bookworm
ARG RUNTIME=debian:bookworm-slim

FROM ${BUILDER} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/linesman ./cmd/linesman
RUN mkdir -p /out/data

FROM ${RUNTIME}
ARG VERSION=dev
LABEL org.opencontainers.image.title=linesman \
      org.opencontainers.image.description="Runs coding agents, and publishes their output on NATS as bounded events." \
      org.opencontainers.image.source=https://github.com/linesman/linesman \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=${VERSION}
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build /out/linesman /usr/local/bin/linesman
USER 65532:65532
# The data directory is in the home of agents, beside their projects.
# Every role serves health checks and metrics there, for the check below. The root of a container may be read-only.
ENV LINESMAN_DATA_DIR=/data/linesman HOME=/data LINESMAN_MONITOR_HTTP=127.0.0.1:8423
VOLUME /data
EXPOSE 4222
# It checks whichever role runs here, and needs no keys but those of an up.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["/usr/local/bin/linesman", "health", "--http"]
ENTRYPOINT ["/usr/local/bin/linesman"]
# The loopback of a container cannot be reached from outside, so the server
# listens on all addresses; it always requires credentials. Run with --init,
# which reaps the processes that an agent leaves behind.
CMD ["up", "--nats-listen", "0.0.0.0:4222"]
