package kind

import (
	"fmt"
	"strings"

	policyv1alpha1 "github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Columns prints a kind as rows of a table.
type Columns struct {
	Definitions []metav1.TableColumnDefinition
	// Cells gives a row's cells, without the name first and the age last.
	Cells func(obj store.Object) []any
}

// columns puts the name before and the age behind.
func columns(cells func(obj store.Object) []any, defs ...metav1.TableColumnDefinition) *Columns {
	meta := metav1.ObjectMeta{}.SwaggerDoc()
	all := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: meta["name"]}}
	all = append(all, defs...)
	all = append(all, metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: meta["creationTimestamp"]})
	return &Columns{Definitions: all, Cells: cells}
}

func column(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

func wide(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description, Priority: 1}
}

var moduleColumns = columns(func(obj store.Object) []any {
	m := obj.(*policyv1alpha1.Module)
	entries := make([]string, 0, len(m.Status.Entries))
	for _, e := range m.Status.Entries {
		entries = append(entries, e.Name)
	}
	return []any{m.Status.Phase, m.Status.Version, int64(len(entries)), firstOf(entries), m.Spec.Size, strings.Join(entries, ","), m.Status.Message}
},
	column("Phase", "Accepted or Refused."),
	column("Version", "The module's own version, from its manifest."),
	metav1.TableColumnDefinition{Name: "Policies", Type: "integer", Description: "How many policies the module implements."},
	column("Entries", "The first of them, named as in spec.entry of a Policy."),
	metav1.TableColumnDefinition{Name: "Size", Type: "integer", Description: "Length in bytes."},
	wide("All", "All policies that the module implements."),
	wide("Message", "Why it was refused."),
)

var policyColumns = columns(func(obj store.Object) []any {
	p := obj.(*policyv1alpha1.Policy)
	mode := string(p.Spec.Mode)
	if mode == "" {
		mode = string(policyv1alpha1.Enforce)
	}
	entry := p.Spec.Entry
	if entry == "" {
		entry = p.Name
	}
	return []any{p.Status.Kind, mode, p.Status.Phase, shortDigest(p.Status.Live), entry, p.Status.Message}
},
	column("Kind", "Predicate, priority, gate or controller."),
	column("Mode", "What its answers are used for."),
	column("Phase", "Live, Refused, Quarantined, NotRunning or Off."),
	column("Live", "The module that decides now."),
	wide("Entry", "The policy's name in the module."),
	wide("Message", "Why it is not live, or why it is quarantined."),
)

var profileColumns = columns(func(obj store.Object) []any {
	p := obj.(*policyv1alpha1.Profile)
	names := p.Spec.SchedulerNames
	if len(names) == 0 {
		names = []string{p.Name}
	}
	live := apimeta.FindStatusCondition(p.Status.Conditions, policyv1alpha1.ConditionLive)
	if live == nil {
		live = &metav1.Condition{Status: metav1.ConditionUnknown}
	}
	return []any{strings.Join(names, ","), string(live.Status), int64(len(p.Spec.Predicates)), int64(len(p.Spec.Priorities)), live.Message}
},
	column("Schedulers", "The values of spec.schedulerName that pick the profile."),
	column("Live", "Whether what it asks for decides."),
	metav1.TableColumnDefinition{Name: "Predicates", Type: "integer", Description: "How many predicates it asks."},
	metav1.TableColumnDefinition{Name: "Priorities", Type: "integer", Description: "How many priorities it weighs."},
	wide("Message", "Why it is not live."),
)

// firstOf shows as many names as fit beside a digest.
func firstOf(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(names[:shown], ","), len(names)-shown)
}

// shortDigest is enough of a digest to tell modules apart on a screen.
func shortDigest(digest string) string {
	const shown = len("sha256:") + 12
	if len(digest) > shown {
		return digest[:shown]
	}
	return digest
}
