#!/usr/bin/env bash
# Runs every test, each package once, with the race detector, after setting up
# what they need. With CI set, a test that is skipped fails the run.
#
#   test.sh [ARGS of go test]     default: ./...
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

.ci/tools/tinygo.sh
.ci/tools/node.sh
.ci/tools/kubectl.sh
.ci/tools/others.sh kube-scheduler kwok
packages "tests" busybox-static
command -v clang-19 >/dev/null || packages "the policy in C" clang-19 lld-19
.ci/tools/wasm.sh
.ci/tools/wasm.sh --stock

rm -rf .build/compiled # by host/policy/engine/enginetest: shared by the tests of one run

[ $# -gt 0 ] || set -- ./... ./.ci/tools/testrun
say "building testrun, which shows the tests' progress"
go build -o .build/testrun ./.ci/tools/testrun
say "testing $* (each package is shown when it is done; compiling comes first)"
exec .build/testrun -timeout 15m -race "$@"
