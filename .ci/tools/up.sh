#!/usr/bin/env bash
# Sets up what is missing and runs a cluster on this machine. As root: real
# containers. Without: simulated nodes, since containers need root.
#
# Nothing is built here that a first pod does not need: kubectl only where none
# is on PATH, and TinyGo not at all. Without it the built-in policies are
# compiled by Go.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
start=$SECONDS

berth() { .ci/tools/build.sh; }
node() { .ci/tools/node.sh; }
kubectl() { .ci/tools/kubectl.sh; }

# The quickstart's image, since a fresh machine may have no registry.
quickstart_image() {
  mkdir -p .build
  CGO_ENABLED=0 go build "${STATIC[@]}" -ldflags "$STRIP" -o .build/web ./examples/quickstart/web &&
    CGO_ENABLED=0 go run "${STATIC[@]}" ./examples/quickstart/image -program .build/web -name berth.local/web:1 -o .build/quickstart.tar
}
image() { timed "building the quickstart's image" quickstart_image; }

steps=(berth)
type -P kubectl >/dev/null || steps+=(kubectl)
if [ "$(id -u)" = 0 ]; then
  steps+=(node image)
  agent=(--agent containerd --import-image .build/quickstart.tar)
else
  say "not root: containers are simulated (3 nodes); run as root for real ones"
  agent=(--agent none --simulate 3)
fi
[ -x bin/berth ] || say "building what is missing, side by side; the first time takes some minutes"
beside "${steps[@]}" || fail "the set-up did not work (the lines above say why)"
say "set up in $((SECONDS - start)) s"

[ "$(type -P kubectl)" != "$TOOLS/bin/kubectl" ] || say "kubectl is $TOOLS/bin/kubectl"
command -v tinygo >/dev/null || say "the built-in policies are compiled by Go; ./task tinygo provides TinyGo, by which they are smaller and faster from the next start on"
exec bin/berth up "${agent[@]}" "$@"
