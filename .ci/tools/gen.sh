#!/usr/bin/env bash
# Writes the generated code again.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

command -v flatc >/dev/null || packages "the schema's compiler" flatbuffers-compiler

deepcopy() {
  go -C .ci/tools/kubectl build -o "$ROOT/.build/deepcopy-gen" k8s.io/code-generator/cmd/deepcopy-gen &&
    .build/deepcopy-gen --go-header-file /dev/null --output-file zz_deepcopy_gen.go ./host/policy/v1alpha1
}

timed "go generate ./..." go generate ./...
timed "deepcopy-gen for Berth's own kinds" deepcopy
