#!/usr/bin/env bash
# Provides golangci-lint, built from the version that golangci-lint/go.mod pins, by
# this machine's Go: one that is built by an older Go cannot read newer sources.
. "$(dirname "$0")/lib.sh"

DIR=$ROOT/.ci/tools/golangci-lint

build() {
  CGO_ENABLED=0 GOBIN=$TOOLS/bin go -C "$DIR" install "${STATIC[@]}" -ldflags "$STRIP" github.com/golangci/golangci-lint/v2/cmd/golangci-lint
}

locked golangci-lint
hash=$(hash_of "$0" "$DIR/go.mod" "$DIR/go.sum" "$(go env GOVERSION)")
if ! stamped golangci-lint "$hash"; then
  timed "building golangci-lint $(go -C "$DIR" list -m -f '{{.Version}}' github.com/golangci/golangci-lint/v2) (once)" build
  stamp golangci-lint "$hash"
fi
