#!/usr/bin/env bash
# Sets up what is missing and runs a cluster on this machine. As root: real
# containers. Without: simulated nodes, since containers need root.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

if [ "$(id -u)" = 0 ]; then
  "$ROOT/.ci/tools/tinygo.sh"
  "$ROOT/.ci/tools/node.sh"
  agent=(--agent containerd)
else
  say "not root: containers are simulated (3 nodes); run as root for real ones"
  agent=(--agent none --simulate 3)
fi
"$ROOT/.ci/tools/kubectl.sh"
"$ROOT/.ci/tools/build.sh"
exec bin/berth up "${agent[@]}" "$@"
