package wire

import (
	"time"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
)

// generator prints Kubernetes' kinds as kubectl knows them.
var generator = printers.NewTableGenerator().With(printersinternal.AddHandlers)

// tableOf writes objects as rows. Columns are left out of all events of a watch
// but the first.
func (t *Typed) tableOf(objs []store.Object, listed metav1.ListMeta, withColumns bool) ([]byte, error) {
	table := &metav1.Table{ListMeta: listed, Rows: []metav1.TableRow{}}
	table.SetGroupVersionKind(schema.GroupVersionKind{Group: metav1.GroupName, Version: t.Format.Version, Kind: "Table"})
	if withColumns {
		definitions, err := columnsOf(t.Kind)
		if err != nil {
			return nil, err
		}
		table.ColumnDefinitions = definitions
	}
	for _, obj := range objs {
		rows, err := rowsOf(t.Kind, obj)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].Object, err = t.rowObject(obj); err != nil {
				return nil, err
			}
		}
		table.Rows = append(table.Rows, rows...)
	}
	return Any(Format{Media: t.Format.Media, Pretty: t.Format.Pretty}, table)
}

// rowObject is what a row says of its object beside the cells.
func (t *Typed) rowObject(obj store.Object) (runtime.RawExtension, error) {
	switch metav1.IncludeObjectPolicy(t.Include) {
	case metav1.IncludeNone:
		return runtime.RawExtension{}, nil
	case metav1.IncludeObject:
		whole := Typed{Kind: t.Kind, Version: t.Version}
		body, err := whole.body(obj)
		if err != nil {
			return runtime.RawExtension{}, err
		}
		return runtime.RawExtension{Raw: withType(t.gvk(), body)}, nil
	}
	return runtime.RawExtension{Object: partial(t.Format.Version, obj)}, nil
}

func rowsOf(k *kind.Kind, obj store.Object) ([]metav1.TableRow, error) {
	if k.Columns != nil {
		cells := append([]any{obj.GetName()}, k.Columns.Cells(obj)...)
		return []metav1.TableRow{{Cells: append(cells, age(obj))}}, nil
	}
	hub, err := k.Internal(obj)
	if err != nil {
		return nil, err
	}
	table, err := generator.GenerateTable(hub, printers.GenerateOptions{NoHeaders: true, Wide: true})
	if err != nil {
		// Kinds without a printer show what every object has.
		cells := []any{obj.GetName(), obj.GetCreationTimestamp().UTC().Format(time.RFC3339)}
		return []metav1.TableRow{{Cells: cells}}, nil
	}
	return table.Rows, nil
}

func columnsOf(k *kind.Kind) ([]metav1.TableColumnDefinition, error) {
	if k.Columns != nil {
		return k.Columns.Definitions, nil
	}
	hub, err := k.Internal(k.New())
	if err != nil {
		return nil, err
	}
	table, err := generator.GenerateTable(hub, printers.GenerateOptions{Wide: true})
	if err != nil {
		doc := metav1.ObjectMeta{}.SwaggerDoc()
		return []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: doc["name"]},
			{Name: "Created At", Type: "date", Description: doc["creationTimestamp"]},
		}, nil
	}
	return table.ColumnDefinitions, nil
}

func age(obj store.Object) string {
	created := obj.GetCreationTimestamp()
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(created.Time))
}
