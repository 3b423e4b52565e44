package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func setData(value string) Change {
	return func(old store.Object) (store.Object, error) {
		next := old.(*corev1.ConfigMap).DeepCopy()
		next.Data = map[string]string{"x": value}
		return next, nil
	}
}

func TestATransactionIsStoredWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	mustCreate(t, reg, "configmaps", configMap("a"))
	mustCreate(t, reg, "configmaps", configMap("b"))
	begin := func() *Transaction {
		tx := reg.Begin()
		if _, err := tx.Modify(t.Context(), On("configmaps", "ns", "a"), setData("1")); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Create(t.Context(), On("configmaps", "ns", ""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Delete(t.Context(), On("configmaps", "ns", "b"), nil); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	first, second := begin(), begin()
	if _, ok := first.Get(On("configmaps", "ns", "b").key()); ok {
		t.Error("what the transaction deletes is there for it")
	}
	if _, err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Commit(t.Context()); !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the second commit of a state that changed: %v", err)
	}
	list, err := reg.List(t.Context(), On("configmaps", "ns", ""), ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("%d objects, %v, want a and one c", len(list.Items), err)
	}
}

func TestLaterWritesOfATransactionGoOnFromEarlierOnes(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	made := mustCreate(t, reg, "configmaps", configMap("a"))
	tx := reg.Begin()
	for i, value := range []string{"1", "2"} {
		_, err := tx.Modify(t.Context(), On("configmaps", "ns", "a"), func(old store.Object) (store.Object, error) {
			next, err := setData(value)(old)
			next.SetLabels(map[string]string{"was": old.(*corev1.ConfigMap).Data["x"]})
			return next, err
		})
		if err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := reg.Get(t.Context(), On("configmaps", "ns", "a"))
	if err != nil || got.(*corev1.ConfigMap).Data["x"] != "2" || got.GetLabels()["was"] != "1" {
		t.Errorf("%v, %v", got, err)
	}
	if Revision(got) != Revision(made)+1 {
		t.Errorf("revision %d after %d, want one write", Revision(got), Revision(made))
	}
}

// counting admits what leaves no more than so many, and takes back what fails.
type counting struct{ left int }

func (*counting) Admit(context.Context, *Attributes) error { return nil }

func (c *counting) Validate(_ context.Context, a *Attributes) error {
	if c.left == 0 {
		return errors.New("exceeded quota")
	}
	c.left--
	a.OnRollback(func() { c.left++ })
	return nil
}

func TestARefusedWriteLeavesNoTraceInATransaction(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	limit := &counting{left: 2}
	reg.admission = limit
	tx := reg.Begin()
	var refused []int
	for i := range 4 {
		if _, err := tx.Create(t.Context(), On("configmaps", "ns", ""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}); err != nil {
			if !apierrors.IsForbidden(err) {
				t.Errorf("create %d: %v, want Forbidden", i, err)
			}
			refused = append(refused, i)
		}
	}
	if !slices.Equal(refused, []int{2, 3}) || tx.Len() != 2 {
		t.Errorf("refused %v of a transaction of %d writes", refused, tx.Len())
	}
	tx.Rollback()
	if limit.left != 2 {
		t.Errorf("%d left after the rollback, want 2", limit.left)
	}
}

// strange panics over each object that is named so.
type strange struct{ counting }

func (s *strange) Validate(ctx context.Context, a *Attributes) error {
	err := s.counting.Validate(ctx, a)
	if a.Object.GetName() == "strange" {
		panic("never thought of")
	}
	return err
}

func TestAPanicLeavesNothingReserved(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	limit := &strange{counting{left: 2}}
	reg.admission = limit
	tx := reg.Begin()
	func() {
		defer func() {
			if p := recover(); p != "never thought of" {
				t.Errorf("recovered %v, want the panic itself", p)
			}
		}()
		_, _ = tx.Create(t.Context(), On("configmaps", "ns", "strange"), configMap("strange"))
	}()
	tx.Rollback()
	if limit.left != 2 {
		t.Errorf("%d left after the panic, want 2", limit.left)
	}
}

func TestATransactionSaysThatAnObjectCannotTakeAnOthersPlaceInIt(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	mustCreate(t, reg, "configmaps", configMap("a"))
	tx := reg.Begin()
	if err := tx.Delete(t.Context(), On("configmaps", "ns", "a"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Create(t.Context(), On("configmaps", "ns", "a"), configMap("a")); err == nil || !strings.Contains(err.Error(), errOnce.Error()) {
		t.Errorf("creating what it deletes: %v, want %v", err, errOnce)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Errorf("the deletion alone: %v", err)
	}
}
