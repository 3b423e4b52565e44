#!/usr/bin/env bash
# The long checks: each fuzz target for a minute (or campaign.sh TIME), then the
# tests that do more when BERTH_CAMPAIGN is set.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

.ci/tools/fuzz.sh "${1:-1m}"
export BERTH_CAMPAIGN=1
.ci/tools/kubectl.sh kube-scheduler
exec .ci/tools/test.sh -timeout 4h ./...
