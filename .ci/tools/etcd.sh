#!/usr/bin/env bash
# Provides etcd, beside which ./task bench measures, and etcdload, which puts
# the same load on it. Both are built from the versions that etcd/go.mod pins.
. "$(dirname "$0")/lib.sh"

DIR=$ROOT/.ci/tools/etcd

build() {
  CGO_ENABLED=0 go -C "$DIR" build -trimpath -ldflags '-s -w' -o "$TOOLS/bin/etcd" go.etcd.io/etcd/server/v3
  CGO_ENABLED=0 go -C "$DIR" build -trimpath -ldflags '-s -w' -o "$TOOLS/bin/etcdload" .
}

locked etcd
hash=$(hash_of "$0" "$DIR/go.mod" "$DIR/go.sum" "$DIR/main.go" "$(go env GOVERSION)")
if ! stamped etcd "$hash" || [ ! -x "$TOOLS/bin/etcd" ]; then
  timed "building etcd (once)" build
  stamp etcd "$hash"
fi
