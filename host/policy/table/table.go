package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Table is what a policy is asked, and what it is to answer.
type Table struct {
	// Policy is its name in the module; empty is the only one.
	Policy string          `json:"policy,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`
	// Limits are as spec.limits of a Policy.
	Limits v1alpha1.PolicyLimits `json:"limits,omitempty"`
	// Nodes are Kubernetes' own. One without status.allocatable is ready, and has
	// 16 CPUs, 64 GiB and room for 110 pods.
	Nodes []v1.Node `json:"nodes"`
	// Pods are those that are there: spec.nodeName says where.
	Pods  []v1.Pod `json:"pods,omitempty"`
	Cases []Case   `json:"cases"`
}

// Case is a pod and what is said about it.
type Case struct {
	Name string       `json:"name"`
	Pod  v1.Pod       `json:"pod,omitempty"`
	Now  *metav1.Time `json:"now,omitempty"`
	// Want is by node the reason for which a predicate refuses it; empty admits.
	Want map[string]string `json:"want,omitempty"`
	// Scores are by node what a priority gives it.
	Scores map[string]int64 `json:"scores,omitempty"`

	// At is where the case stands, Lines where the nodes of Want and Scores do.
	At    string            `json:"-"`
	Lines map[string]string `json:"-"`
}

// Read reads a table: a .txtar archive, or YAML.
func Read(file string) (*Table, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, data)
}

// Parse reads a table from bytes; file is what errors call it.
func Parse(file string, data []byte) (*Table, error) {
	t := new(Table)
	if filepath.Ext(file) != ".txtar" {
		return t, t.take(file, 0, data)
	}
	archive := txtar.Parse(data)
	if len(archive.Files) == 0 {
		return nil, fmt.Errorf("%s holds no files: a line -- table.yaml -- begins one", file)
	}
	rest, line := data, 0
	for _, part := range archive.Files {
		mark := []byte("-- " + part.Name + " --")
		at := bytes.Index(rest, mark)
		if at < 0 {
			return nil, fmt.Errorf("%s: %s begins in no line of its own", file, part.Name)
		}
		line += bytes.Count(rest[:at], []byte("\n")) + 1
		rest = rest[min(at+len(mark)+1, len(rest)):]
		if err := t.take(file, line, part.Data); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// take adds what a document says; above is how many lines the file has above it.
func (t *Table) take(file string, above int, data []byte) error {
	var more Table
	if err := k8syaml.UnmarshalStrict(data, &more); err != nil {
		text := strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: ")
		return fmt.Errorf("%s: %s", file, strings.TrimPrefix(text, "error converting YAML to JSON: "))
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	where := func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", file, above+n.Line) }
	if len(root.Content) > 0 {
		more.locate(child(root.Content[0], "cases"), where)
	}
	if more.Policy != "" {
		t.Policy = more.Policy
	}
	if more.Config != nil {
		t.Config = more.Config
	}
	if more.Limits != (v1alpha1.PolicyLimits{}) {
		t.Limits = more.Limits
	}
	t.Nodes, t.Pods, t.Cases = append(t.Nodes, more.Nodes...), append(t.Pods, more.Pods...), append(t.Cases, more.Cases...)
	return nil
}

// locate notes where cases and their lines stand.
func (t *Table) locate(cases *yaml.Node, where func(*yaml.Node) string) {
	if cases == nil {
		return
	}
	for i := range min(len(cases.Content), len(t.Cases)) {
		c, at := &t.Cases[i], cases.Content[i]
		c.At, c.Lines = where(at), map[string]string{}
		for _, field := range []string{"want", "scores"} {
			named := child(at, field)
			for k := 0; named != nil && k+1 < len(named.Content); k += 2 {
				c.Lines[named.Content[k].Value] = where(named.Content[k])
			}
		}
	}
}

// child is a field's value, nil where there is none.
func child(n *yaml.Node, field string) *yaml.Node {
	for k := 0; n.Kind == yaml.MappingNode && k+1 < len(n.Content); k += 2 {
		if n.Content[k].Value == field {
			return n.Content[k+1]
		}
	}
	return nil
}

// check says what a table lacks.
func (t *Table) check() error {
	known := map[string]bool{}
	for i := range t.Nodes {
		known[t.Nodes[i].Name] = true
	}
	if len(known) != len(t.Nodes) || known[""] {
		return errors.New("each node of a table needs a metadata.name of its own")
	}
	for i := range t.Cases {
		for name, at := range t.Cases[i].Lines {
			if !known[name] {
				return fmt.Errorf("%s: the table has no node %s", at, name)
			}
		}
	}
	return nil
}
