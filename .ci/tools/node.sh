#!/usr/bin/env bash
# Provides what a node runs beside the agent, from the versions that node/go.mod
# pins: containerd, its shim, runc and the CNI plugins. No node needs ctr, but
# tests do, and people who look into a node's containerd.
#
#   node.sh [ctr]
#   node.sh fetch     only downloads what the build needs
. "$(dirname "$0")/lib.sh"

DIR=$ROOT/.ci/tools/node
TO=$TOOLS/bin
CONTAINERD=github.com/containerd/containerd/v2
PLUGINS=github.com/containernetworking/plugins/plugins

# What Berth does not use stays out: containerd's own CRI server, its other
# snapshotters, tracing.
SLIM=no_cri,no_btrfs,no_zfs,no_devmapper,no_tracing,urfave_cli_no_docs

# build TAGS PACKAGE...: installs the commands into $TO.
build() {
  local tags=$1
  shift
  GOBIN=$TO go -C "$DIR" install "${STATIC[@]}" -ldflags "$LDFLAGS" -tags "$tags" "$@"
}

version_of() { go -C "$DIR" list -m -f '{{.Version}}' "$1"; }

daemons() {
  LDFLAGS="$STRIP -X $CONTAINERD/version.Version=$(version_of $CONTAINERD)"
  CGO_ENABLED=0 build "$SLIM" $CONTAINERD/cmd/containerd &&
    CGO_ENABLED=0 build no_grpc,urfave_cli_no_docs $CONTAINERD/cmd/containerd-shim-runc-v2
}

ctr() {
  LDFLAGS="$STRIP -X $CONTAINERD/version.Version=$(version_of $CONTAINERD)"
  CGO_ENABLED=0 build "$SLIM" $CONTAINERD/cmd/ctr
}

runc() {
  LDFLAGS="$STRIP -X main.version=$(version_of github.com/opencontainers/runc)"
  build seccomp,urfave_cli_no_docs github.com/opencontainers/runc
}

plugins() {
  LDFLAGS=$STRIP
  TO=$TOOLS/cni # not on PATH: iproute2 has a command called bridge, too
  CGO_ENABLED=0 build "" $PLUGINS/main/bridge $PLUGINS/main/loopback $PLUGINS/ipam/host-local
}

if [ "${1:-}" = fetch ]; then
  fetch "$DIR" -tags "$SLIM,seccomp" $CONTAINERD/cmd/containerd $CONTAINERD/cmd/containerd-shim-runc-v2 \
    github.com/opencontainers/runc $PLUGINS/main/bridge $PLUGINS/main/loopback $PLUGINS/ipam/host-local
  exit
fi

locked node
hash=$(hash_of "$0" "$DIR/go.mod" "$DIR/go.sum" "$(go env GOVERSION)")
if ! stamped node "$hash"; then
  packages "runc and containers" libseccomp-dev gcc libc6-dev pkg-config iproute2
  timed "building containerd $(version_of $CONTAINERD) and its shim" daemons
  timed "building runc $(version_of github.com/opencontainers/runc)" runc
  timed "building the CNI plugins $(version_of github.com/containernetworking/plugins)" plugins
  stamp node "$hash"
fi
if [ "${1:-}" = ctr ] && ! stamped ctr "$hash"; then
  timed "building ctr $(version_of $CONTAINERD)" ctr
  stamp ctr "$hash"
fi
