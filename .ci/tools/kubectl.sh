#!/usr/bin/env bash
# Provides kubernetes' own commands (kubectl unless told otherwise), built from
# the version that kubectl/go.mod pins. What a machine has on PATH may be old,
# or a dispatcher that picks a client by what the server says it is. An older
# release can be had beside it, by its version, as bin/kubectl-1.29.
#
#   kubectl.sh [kubectl|kube-scheduler|kubectl@v1.29.15]...
. "$(dirname "$0")/lib.sh"

DIR=$ROOT/.ci/tools/kubectl
PINNED=$(sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' "$DIR/go.mod")

# build VERSION COMMAND MODULE OUTPUT
build() {
  local version=$1 v=k8s.io/component-base/version minor=${1#v1.}
  CGO_ENABLED=0 go -C "$3" build -mod=mod -trimpath -o "$4" -ldflags \
    "-s -w -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=${minor%.*} -X k8s.io/client-go/pkg/version.gitVersion=$version" \
    "k8s.io/kubernetes/cmd/$2"
}

# module VERSION DIRECTORY: writes a module that can build this release, whose
# own go.mod leads into its source tree for the modules that it is split into.
module() {
  local own part
  (cd "$2" && GOFLAGS=-mod=mod go mod download "k8s.io/kubernetes@$1")
  own=$(go env GOMODCACHE)/cache/download/k8s.io/kubernetes/@v/$1.mod
  {
    printf 'module berth.tools/kubectl\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes %s\n\n' "$1"
    for part in $(sed -n 's|.*=> \./staging/src/\(k8s.io/[a-z0-9-]*\).*|\1|p' "$own" | sort -u); do
      printf 'replace %s => %s %s\n' "$part" "$part" "v0.${1#v1.}"
    done
  } >"$2/go.mod"
}

older() {
  local command=$1 version=$2 minor=${2#v} dir
  minor=${minor%.*}
  locked "$command-$minor"
  hash=$(hash_of "$0" "$version" "$(go env GOVERSION)")
  stamped "$command-$minor" "$hash" && [ -x "$TOOLS/bin/$command-$minor" ] && return
  dir=$(mktemp -d)
  module "$version" "$dir"
  timed "building $command $version (once)" build "$version" "$command" "$dir" "$TOOLS/bin/$command-$minor"
  rm -r "$dir"
  stamp "$command-$minor" "$hash"
}

[ $# -gt 0 ] || set -- kubectl
for name; do
  case $name in *@*) older "${name%@*}" "${name#*@}"; continue ;; esac
  locked "$name"
  hash=$(hash_of "$0" "$DIR/go.mod" "$DIR/go.sum" "$(go env GOVERSION)")
  stamped "$name" "$hash" && continue
  timed "building $name $PINNED (once)" build "$PINNED" "$name" "$DIR" "$TOOLS/bin/$name"
  stamp "$name" "$hash"
done
