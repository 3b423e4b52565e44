#!/usr/bin/env bash
# Sets up what is missing and runs a cluster on this machine. As root: real
# containers. Without: simulated nodes, since containers need root.
#
# Nothing is built here that a first pod does not need: kubectl only where none
# is on PATH, and TinyGo not at all; without it the built-in policies are compiled
# by Go. Only downloads happen side by side: go commands that run at the same time
# compile what they share twice.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
start=$SECONDS

# download: gets the modules of the steps to come while the first ones compile.
# What fails here is told by the step that needs it.
download() {
  fetch . -e ./host/cmd/berth ./examples/quickstart/image
  [ "$(id -u)" != 0 ] || .ci/tools/node.sh fetch
}

kubectl=$(type -P kubectl || true)
[ -x bin/berth ] || say "building what is missing: some minutes the first time"
if [ ! -x bin/berth ]; then download >/dev/null 2>&1 & fi
.ci/tools/build.sh
[ -n "$kubectl" ] || .ci/tools/kubectl.sh
if [ "$(id -u)" = 0 ]; then
  .ci/tools/node.sh
  timed "building the quickstart's image" quickstart_image
  agent=(--agent containerd --import-image .build/quickstart.tar)
else
  say "not root: containers are simulated (3 nodes); run as root for real ones"
  agent=(--agent none --simulate 3)
fi

[ "${kubectl:-$TOOLS/bin/kubectl}" != "$TOOLS/bin/kubectl" ] || say "kubectl is $TOOLS/bin/kubectl"
command -v tinygo >/dev/null || say "the built-in policies are compiled by Go; ./task tinygo provides TinyGo, by which they are smaller and faster from the next start on"
say "set up in $((SECONDS - start)) s"
exec bin/berth up "${agent[@]}" "$@"
