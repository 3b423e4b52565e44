#!/usr/bin/env bash
# The long checks: each fuzz target for a minute (or campaign.sh TIME), the
# suites of others, which have modules of their own, then the tests that do more
# when BERTH_CAMPAIGN is set.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

.ci/tools/fuzz.sh "${1:-1m}"
export BERTH_CAMPAIGN=1
for module in $(git ls-files '*/go.mod' | grep -v '^\.ci/'); do
  dir=$(dirname "$module")
  case $dir in examples/*) continue ;; esac
  timed "the suite in $dir" go -C "$dir" test -timeout 1h ./...
done
.ci/tools/others.sh
.ci/tools/kubectl.sh kubectl@v1.29.15 kubectl@v1.33.5
exec .ci/tools/test.sh -timeout 4h ./...
