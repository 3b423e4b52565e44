#!/usr/bin/env bash
# Provides programs of other authors that Berth must serve as they are, and the
# manifests that come with them. Those of Kubernetes' own version are built by
# kubectl's module, so that they share what is compiled.
#
#   others.sh [kube-scheduler|kube-state-metrics|kwok|kube-controller-manager|scheduler_perf|kube-proxy]...
#
# By default all but the last three, beside which controllers, the scheduler and
# services are measured.
. "$(dirname "$0")/lib.sh"

MODULES=$ROOT/.ci/tools
KUBERNETES=$(sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' "$MODULES/kubectl/go.mod")

# module NAME: the folder of the module that pins the program.
module() {
  local own=$MODULES/${1/scheduler_perf/kube-controller-manager}
  [ -d "$own" ] || own=$MODULES/kubectl
  printf '%s\n' "$own"
}

# build PACKAGE NAME
build() {
  local v=k8s.io/component-base/version minor=${KUBERNETES#v1.}
  # With kubectl's flags, that nothing is compiled twice.
  CGO_ENABLED=0 go -C "$(module "$2")" build -trimpath -o "$TOOLS/bin/$2.new" -ldflags \
    "-s -w -X $v.gitVersion=$KUBERNETES -X $v.gitMajor=1 -X $v.gitMinor=${minor%.*}" "$1" &&
    mv "$TOOLS/bin/$2.new" "$TOOLS/bin/$2"
}

# source_of NAME MODULE: where the program's source lies.
source_of() { go -C "$(module "$1")" list -m -f '{{.Dir}}' "$2"; }

# share NAME FILE FROM...: keeps manifests of a program, in one file.
share() {
  local to=$TOOLS/share/$1/$2 f
  shift 2
  mkdir -p "$(dirname "$to")"
  for f; do
    printf -- '---\n'
    cat "$f" || return 1
  done >"$to"
}

provide() {
  local from
  case $1 in
  kube-scheduler | kube-controller-manager | kube-proxy) build "k8s.io/kubernetes/cmd/$1" "$1" ;;
  kube-state-metrics)
    build k8s.io/kube-state-metrics/v2 "$1" && from=$(source_of "$1" k8s.io/kube-state-metrics/v2) &&
      share "$1" role.yaml "$from/examples/standard/cluster-role.yaml"
    ;;
  scheduler_perf)
    # Its API server looks for its own source, so paths are not trimmed.
    local v=k8s.io/component-base/version minor=${KUBERNETES#v1.}
    CGO_ENABLED=0 go -C "$(module "$1")" test -c -o "$TOOLS/bin/$1" -ldflags \
      "-s -w -X $v.gitVersion=$KUBERNETES -X $v.gitMajor=1 -X $v.gitMinor=${minor%.*}" \
      k8s.io/kubernetes/test/integration/scheduler_perf/misc &&
      from=$(source_of "$1" k8s.io/kubernetes)/test/integration/scheduler_perf &&
      rm -rf "$TOOLS/share/$1" && mkdir -p "$TOOLS/share/$1" &&
      cp -r "$from"/{misc,affinity,topology_spreading,templates} "$TOOLS/share/$1/" &&
      chmod -R u+w "$TOOLS/share/$1"
    ;;
  kwok)
    build sigs.k8s.io/kwok/cmd/kwok "$1" && from=$(source_of "$1" sigs.k8s.io/kwok)/kustomize &&
      share "$1" role.yaml "$from/rbac/role.yaml" &&
      share "$1" stages.yaml "$from"/stage/node/fast/node-*.yaml "$from"/stage/pod/fast/pod-*.yaml
    ;;
  *) fail "others.sh: no program $1" ;;
  esac
}

[ $# -gt 0 ] || set -- kube-scheduler kube-state-metrics kwok
for name; do
  locked "$name"
  hash=$(hash_of "$0" "$(module "$name")/go.mod" "$(module "$name")/go.sum" "$(go env GOVERSION)")
  stamped "$name" "$hash" && continue
  timed "building $name (once)" provide "$name"
  stamp "$name" "$hash"
done
