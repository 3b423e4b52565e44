#!/usr/bin/env bash
# Prints the tables of host/cmd/bench: pods/s end to end, on the workloads of
# Kubernetes' scheduler_perf. ARGS are its own: -run NAME, -o json, -nodes N.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

.ci/tools/tinygo.sh
.ci/tools/wasm.sh
compile() { go build -o .build/bench ./host/cmd/bench; }
timed "building the benchmark" compile
exec .build/bench "$@"
