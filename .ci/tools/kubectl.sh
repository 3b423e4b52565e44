#!/usr/bin/env bash
# Provides kubernetes' own commands (kubectl unless told otherwise), built from
# the version that kubectl/go.mod pins. What a machine has on PATH may be old,
# or a dispatcher that picks a client by what the server says it is.
#
#   kubectl.sh [kubectl|kube-scheduler]...
. "$(dirname "$0")/lib.sh"

DIR=$ROOT/.ci/tools/kubectl
VERSION=$(sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' "$DIR/go.mod")

build() {
  local v=k8s.io/component-base/version minor=${VERSION#v1.}
  GOBIN=$TOOLS/bin CGO_ENABLED=0 go -C "$DIR" install -trimpath -ldflags \
    "-s -w -X $v.gitVersion=$VERSION -X $v.gitMajor=1 -X $v.gitMinor=${minor%.*} -X k8s.io/client-go/pkg/version.gitVersion=$VERSION" \
    "k8s.io/kubernetes/cmd/$1"
}

[ $# -gt 0 ] || set -- kubectl
for name; do
  locked "$name"
  hash=$(hash_of "$0" "$DIR/go.mod" "$DIR/go.sum" "$(go env GOVERSION)")
  stamped "$name" "$hash" && continue
  timed "building $name $VERSION (once, about a minute)" build "$name"
  stamp "$name" "$hash"
done
