# The image holds the static binary and nothing that it does not need itself.
#
# RUNTIME is debian:bookworm-slim because a worker starts agents, and agents
# need a shell, a libc and usually git: put yours on top of this image. Where
# only the server, the normalizer or the responder run, RUNTIME=scratch does:
# the last stage has no RUN, so it builds on anything.
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
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build /out/linesman /usr/local/bin/linesman
USER 65532:65532
ENV LINESMAN_DATA_DIR=/data HOME=/data
VOLUME /data
EXPOSE 4222
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["/usr/local/bin/linesman", "health"]
ENTRYPOINT ["/usr/local/bin/linesman"]
# Inside a container loopback is the container's own, so the server listens on
# every address of it; it always asks for credentials. Run with --init, which
# reaps what an agent leaves behind.
CMD ["up", "--nats-listen", "0.0.0.0:4222"]
