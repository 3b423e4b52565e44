package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/explain"
)

func newReplay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay NUMBER|KIND/NAME",
		Short: "Derive a past decision again, or what a controller answered",
		Long: "Derives the decision with that number again, by policies opened for it, from the state as it\n" +
			"was. `berth explain pod` shows a decision's number. One that lies outside the log in memory, or\n" +
			"before a restart, can be derived if the host records (--record).\n" +
			"Of a decision that preempted, where it made room and who had to go must come out again, too.\n" +
			"\nWith KIND/NAME, the controller of that object is asked once more what it was asked about it, last or\n" +
			"by --at, as the very bytes; or another module is, by --policy, to see what it would have answered.\n" +
			"\nExit code 0: the same came out. 2: something else did, and it is said what, and why if that is known.",
		Example: "  berth explain pod web        # shows the decision's number\n  berth replay 93\n" +
			"  berth replay deployment/web --at 5m\n  berth replay deployment/web --policy Deployment=deployment.wasm",
		Args: cobra.ExactArgs(1),
	}
	format := addOutputFlag(cmd)
	var past pastFlags
	past.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if kind, name, ok := strings.Cut(args[0], "/"); ok {
			return past.run(cmd, format, kind, name)
		}
		if past.given(cmd) {
			return errors.New("--at, --policy and --namespace are of KIND/NAME: a decision is named by its number")
		}
		number, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			return fmt.Errorf("%q is no decision: it is named by its number, which `berth explain pod` shows", args[0])
		}
		c, err := clientFor(cmd)
		if err != nil {
			return err
		}
		var r berthapi.Replay
		done := during(cmd.ErrOrStderr(), "deriving the decision again")
		err = c.get(cmd.Context(), fmt.Sprintf("%s/%d/again", berthapi.DecisionsPath, number), &r)
		done()
		if err != nil {
			return err
		}
		if err := writeReplay(cmd.OutOrStdout(), format, &r); err != nil {
			return err
		}
		if !r.Same {
			return exitCode(2)
		}
		return nil
	}
	return cmd
}

func writeReplay(w io.Writer, format *output, r *berthapi.Replay) error {
	if err := format.printAs(w, r, func() *table { return replayTable(r) }); err != nil || !format.asTable() || format.format == "name" {
		return err
	}
	if r.Message != "" {
		fmt.Fprintf(w, "\n%s\n", r.Message)
	}
	for _, what := range r.Differs {
		fmt.Fprintf(w, "differs: %s\n", what)
	}
	if r.Room == nil && r.RoomAgain == nil {
		return nil
	}
	fmt.Fprintln(w)
	t := &table{head: []string{"", "ROOM MADE ON", "BY PREEMPTING", "PRIORITY", "AGAINST BUDGET"}}
	t.room("then", r.Room)
	t.room("again", r.RoomAgain)
	return t.write(w)
}

// room adds a line for each pod that had to go.
func (t *table) room(when string, r *explain.Room) {
	if r == nil {
		t.add(when, "", "", "", "")
		return
	}
	if r.Unknown {
		t.add(when, r.Node, "unknown", "", "")
	}
	for _, v := range r.Victims {
		t.add(when, r.Node, v.String(), fmt.Sprint(v.Priority), strings.Join(v.Breaks, ", "))
	}
}

func replayTable(r *berthapi.Replay) *table {
	t := &table{kind: "decision", head: []string{"DECISION", "POD", "AGE", "OUTCOME", "NODE", "AGAIN", "SAME", "AT"}, wide: 1}
	t.add(fmt.Sprint(r.Number), r.Namespace+"/"+r.Pod, age(metav1.NewTime(r.At)), r.Outcome,
		r.Node, r.Again, fmt.Sprint(r.Same), r.At.Format("2006-01-02T15:04:05.000Z07:00"))
	t.note("note", r.Note)
	return t
}
