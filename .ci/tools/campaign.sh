#!/usr/bin/env bash
# The long checks: each fuzz target for a minute (or campaign.sh TIME), the
# suites of others, which have modules of their own, then the tests that do more
# when BERTH_CAMPAIGN is set. One that fails does not keep the others from
# running: what failed is told at the end. All are run, also those that passed on
# this machine before and have not changed since: hence -count=1.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
failed=()

# stage WHAT CMD...
stage() {
  local what=$1 start=$SECONDS
  shift
  say "$what"
  "$@" || failed+=("$what")
  say "  $what: $(((SECONDS - start) / 60)) min"
}

timed "policies" .ci/tools/wasm.sh
stage "fuzzing" .ci/tools/fuzz.sh "${1:-1m}"
export BERTH_CAMPAIGN=1
for module in $(git ls-files '*/go.mod' | grep -v '^\.ci/'); do
  dir=$(dirname "$module")
  case $dir in examples/*) continue ;; esac
  stage "the suite in $dir" go -C "$dir" test -count=1 -timeout 1h ./...
done
timed "the programs of others" .ci/tools/others.sh
timed "the controllers of others" .ci/tools/others.sh kube-controller-manager
packages "cgroup v2, whatever this machine's kernel has" user-mode-linux
timed "older kubectls" .ci/tools/kubectl.sh kubectl@v1.29.15 kubectl@v1.33.5
stage "Kubernetes' own tests of kubectl" .ci/tools/test-cmd.sh
# What is done tens of thousands of times would take hours by the race detector,
# which has seen the same done hundreds of times in ./task test.
many=$(go list ./policies-wasm/controllers/... ./host/store/badger)
# shellcheck disable=SC2086,SC2046 # one word a package
stage "the oracles of controllers, the store's damages and kills" .ci/tools/test.sh plain -count=1 -timeout 2h $many
# Packages that do no more here are left to ./task test.
# shellcheck disable=SC2046
more=$(go list $(git grep -l BERTH_CAMPAIGN -- '*_test.go' ':!*/kubescheduler/*' | sed 's|^|./|; s|/[^/]*$||' | sort -u) | grep -vxF "$many")
# shellcheck disable=SC2086
stage "the tests that do more here" .ci/tools/test.sh -count=1 -timeout 4h $more

[ ${#failed[@]} -eq 0 ] || fail "failed: $(printf '%s; ' "${failed[@]}")the lines above say why"
