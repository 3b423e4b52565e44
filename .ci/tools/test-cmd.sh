#!/usr/bin/env bash
# Runs Kubernetes' own tests of kubectl, which are shell functions in test/cmd of
# its repository, against a host of this machine: without containers, and without
# root. What a case printed stands in .build/test-cmd/CASE.log.
#
#   test-cmd.sh              all cases: 20 minutes
#   test-cmd.sh pod rc wait  these
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

OUT=$ROOT/.build/test-cmd
PORT=${BERTH_TEST_CMD_PORT:-16443}

# case_of NAME: runs one case, in a process of its own since any failure ends it.
case_of() {
  # What follows is for those scripts: they find their ways by these.
  export KUBE_ROOT=$OUT/src KUBE_JUNIT_REPORT_DIR=$OUT/junit SECURE_API_PORT=$PORT ALLOW_SKEW=yes
  export THIS_PLATFORM_BIN=$TOOLS/bin WHAT=$1 CONTEXT=test
  KUBE_TEMP=$(mktemp -d)
  export KUBE_TEMP HOME=$KUBE_TEMP TMPDIR=$KUBE_TEMP
  trap 'rm -rf "$KUBE_TEMP"' EXIT
  cd "$KUBE_ROOT"
  kubectl config view --raw --kubeconfig "$OUT/data/kubeconfig" -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' |
    base64 -d >"$TMPDIR/apiserver.crt"
  # shellcheck disable=SC1091 # they are another project's
  source hack/lib/util.sh && source hack/lib/logging.sh && source hack/lib/test.sh
  source test/cmd/legacy-script.sh
  trap - ERR
  SED=sed
  kubectl config set-credentials admin --token "$(cat "$OUT/token")"
  kubectl config set-cluster local --insecure-skip-tls-verify --server "https://127.0.0.1:$PORT"
  kubectl create namespace "case-$$" --kubeconfig "$OUT/data/kubeconfig"
  kubectl config set-context "$CONTEXT" --user admin --cluster local --namespace "case-$$"
  kubectl config use-context "$CONTEXT"
  # Some are not called as WHAT has it.
  run_secrets_tests() { run_secrets_test; }
  run_kubectl_diff_same_names_tests() { run_kubectl_diff_same_names; }
  SUPPORTED_RESOURCES=(clusterroles configmaps cronjobs deployments namespaces nodes persistentvolumeclaims persistentvolumes
    pods podtemplates replicasets replicationcontrollers roles secrets selfsubjectreviews serviceaccounts services statefulsets
    storageclass subjectaccessreviews daemonsets controllerrevisions job)
  export SED SUPPORTED_RESOURCES
  runTests
}
if [ -n "${CASE:-}" ]; then
  case_of "$CASE"
  exit
fi

# left_out NAME: why a case is not run, if it is not.
left_out() {
  case $1 in
  assert_short_name | assert_singular_name | ambiguous_shortname | explain_crd_with_additional_properties | crd | crd_deletion_recreation | deprecated_api)
    echo "CustomResourceDefinitions are not served" ;;
  certificates | exec_credentials) echo "CertificateSigningRequests are not served" ;;
  save_config | recursive_resources) echo "replaces pods without the token that each has, as the tests' apiserver gives none" ;;
  authorization | exec_credentials_interactive) echo "needs an apiserver that allows everybody everything" ;;
  swagger) echo "looks for words of the apiserver's own descriptions" ;;
  convert) echo "needs kubectl-convert" ;;
  esac
}

# without FILE FROM TO: cuts the lines from each that has FROM up to the next that TO matches.
without() {
  local file=$OUT/src/test/cmd/$1
  awk -v from="$2" -v to="$3" 'cut && $0 ~ to { cut = 0 } index($0, from) { cut = 1 } !cut' "$file" >"$file.new"
  mv "$file.new" "$file"
}

# What is served by none, or is not the same everywhere, is cut out of its case.
cut_out() {
  without apply.sh '## kubectl apply dry-run on CR' '## kubectl apply --prune|set [+]o nounset'
  without apply.sh '## kubectl apply multiple resources with one failure during apply phase' 'set [+]o nounset'
  without events.sh '### Create a crd' '# Post-Condition: assertion object exists'
  without events.sh 'not returns event for fully qualified Cronjob.v1.example.com' 'fully qualified without version'
  sed -i '/cronjobs.v1.example.com\|crd cronjobs.example.com/d' "$OUT/src/test/cmd/events.sh"
  without core.sh 'replace of a cluster scoped resource can succeed' '## kubectl edit can update the image field of a POD'
  sed -i 's|https://raw.githubusercontent.com/kubernetes/kubernetes/master/||' "$OUT/src/test/cmd/generic-resources.sh"
  sed -i "s/admin-token/$(cat "$OUT/token")/" "$OUT"/src/test/cmd/*.sh
}

.ci/tools/build.sh
.ci/tools/kubectl.sh
rm -rf "$OUT"
mkdir -p "$OUT/src"
module=$(go -C .ci/tools/conformance mod download -json k8s.io/kubernetes | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
(cd "$module" && cp -r --parents test/cmd test/fixtures hack/lib hack/testdata third_party/forked/shell2junit test/e2e/testing-manifests "$OUT/src")
chmod -R u+w "$OUT/src"
find "$OUT/src/test/fixtures/pkg/kubectl/plugins" -name 'kubectl-*' -exec chmod +x {} + # modules keep no such bits

# The addresses are those that the tests ask for.
bin/berth host --data-dir "$OUT/data" --listen "127.0.0.1:$PORT" --service-cidr 10.0.0.0/24 >"$OUT/host.log" 2>&1 &
host=$!
trap 'kill $host; wait $host' EXIT
export KUBECONFIG=$OUT/data/kubeconfig
for _ in $(seq 60); do
  ! kubectl get namespace default >"$OUT/ready.log" 2>&1 || break
  kill -0 $host 2>/dev/null || fail "the host did not start: see $OUT/host.log"
  sleep 1
done
kubectl create serviceaccount admin -n kube-system
kubectl create clusterrolebinding test-cmd --clusterrole=cluster-admin --serviceaccount=kube-system:admin
kubectl create token admin -n kube-system --duration=24h >"$OUT/token"
kubectl create -f - <<'NODE'
{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "127.0.0.1", "annotations": {"save-managers": "true"}}, "status": {"capacity": {"memory": "1Gi"}}}
NODE
kubectl delete storageclass standard # some tests count them
cut_out

cases=("$@")
[ $# -gt 0 ] || mapfile -t cases < <(sed -n 's/^ *record_command run_\([A-Za-z_]*\)_tests\{0,1\}$/\1/p; s/^ *record_command run_\(kubectl_diff_same_names\)$/\1/p' "$OUT/src/test/cmd/legacy-script.sh")
failed=() passed=0
for name in "${cases[@]}"; do
  if why=$(left_out "$name") && [ -n "$why" ]; then
    printf -- '-       %s: %s\n' "$name" "$why"
    continue
  fi
  start=$SECONDS
  if CASE=$name timeout 600 "$0" >"$OUT/$name.log" 2>&1; then
    passed=$((passed + 1))
    printf 'passed  %s %d s\n' "$name" $((SECONDS - start))
  else
    failed+=("$name")
    printf 'FAILED  %s %d s: see %s\n' "$name" $((SECONDS - start)) "$OUT/$name.log"
  fi
done
say "$passed passed, ${#failed[@]} failed ${failed[*]-}"
[ ${#failed[@]} = 0 ]
