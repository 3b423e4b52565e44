#!/usr/bin/env bash
# Prints the benchmarks' tables.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

.ci/tools/tinygo.sh
.ci/tools/wasm.sh
exec go test -run '^$' -bench . -benchmem -timeout 60m "$@" ./...
