#!/usr/bin/env bash
# Runs every test, each package once, with the race detector, after setting up
# what they need. With CI set, a test that is skipped fails the run.
#
#   test.sh [ARGS of go test]     default: ./...
#   test.sh plain [ARGS]          without the race detector
#   test.sh quick [ARGS]          a developer's loop: packages that need neither
#                                 tools nor long, without the race detector; what
#                                 has not changed is not run again
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# The longest come first, so that none of them runs alone at the end.
LONGEST=(./host/cmd/berth/walk ./host/cmd/berth ./host/api ./policies-wasm/oracle ./host/policy/vet ./host/policy/engine ./host/policy
  ./nodeagent/runtime/containerd ./host ./host/policy/scaffold ./nodeagent/machine ./nodeagent ./host/schedule/record ./host/store/badger)

if [ "${1:-}" = quick ]; then
  shift
  .ci/tools/wasm.sh
  left=$(printf '%s\n' "${LONGEST[@]}" ./nodeagent/network/cni ./nodeagent/nft ./nodeagent/image/containerd ./policies-wasm/controllers | sed "s|^\.|$(go list -m)|")
  # shellcheck disable=SC2046 # one word a package
  exec go test "$@" $(go list ./... ./.ci/tools/testrun | grep -vxF "$left" | grep -v '/runtime/containerd/')
fi

race=-race
if [ "${1:-}" = plain ]; then
  shift
  race=-race=false
fi
.ci/tools/tinygo.sh
.ci/tools/node.sh ctr
.ci/tools/kubectl.sh
.ci/tools/others.sh kube-scheduler kwok
packages "tests" busybox-static nftables dbus-daemon
command -v clang-19 >/dev/null || packages "the policy in C" clang-19 lld-19
command -v wat2wasm >/dev/null || packages "the policy in WAT" wabt
.ci/tools/wasm.sh
.ci/tools/wasm.sh --stock

rm -rf .build/compiled # by host/policy/engine/enginetest: shared by the tests of one run

[ $# -gt 0 ] || set -- "${LONGEST[@]}" ./... ./.ci/tools/testrun
timed "downloading what the tests need" fetch . -test -race ./... ./.ci/tools/testrun
say "building testrun, which shows the tests' progress"
go build -o .build/testrun ./.ci/tools/testrun
say "testing $* (each package is shown when it is done; compiling comes first)"
# More at a time than there are processors: several of them wait for containers.
# vet is ./task lint's.
exec .build/testrun -timeout 45m -vet=off -p "$(slots 1)" "$race" "$@"
