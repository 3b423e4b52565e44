#!/usr/bin/env bash
# Builds bin/berth, after the built-in policies that it carries.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

"$ROOT/.ci/tools/wasm.sh"
version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
compile() { CGO_ENABLED=0 go build "${STATIC[@]}" -ldflags "$STRIP -X main.version=$version" -o bin/berth ./host/cmd/berth; }
timed "building bin/berth" compile
