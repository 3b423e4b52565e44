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

# The quickstart's image, since a fresh machine may have no registry.
quickstart_image() {
  mkdir -p .build
  CGO_ENABLED=0 go build -o .build/web ./examples/quickstart/web &&
    go run ./examples/quickstart/image -program .build/web -name berth.local/web:1 -o .build/quickstart.tar
}
if [ "$(id -u)" = 0 ]; then
  timed "building the quickstart's image" quickstart_image
  agent+=(--import-image .build/quickstart.tar)
fi
exec bin/berth up "${agent[@]}" "$@"
