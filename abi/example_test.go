package abi_test

import (
	"fmt"

	"github.com/berth-dev/berth/abi"
)

// A manifest says what a module holds, and what each policy reads.
func ExampleReadManifest() {
	m, err := abi.ReadManifest([]byte(`{"abi":1,"module":"mine","version":"1.0.0","policies":[
		{"name":"GPUOnly","kind":"predicate","reads":["pod.requests","node.labels"],"scope":"row","replicasEqual":true}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range m.Policies {
		fmt.Println(p.Name, p.Kind, p.Reads)
	}
	// Output: GPUOnly predicate [pod.requests node.labels]
}

// What a guest answers is checked before anything is done by it.
func ExampleReadReconcileResult() {
	_, err := abi.ReadReconcileResult([]byte(`{"delete":[{"uid":"u","propagationPolicy":"Sideways"}]}`))
	fmt.Println(err)
	// Output: reconcile: propagationPolicy "Sideways" is none of Background, Foreground, Orphan
}
