package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/api/berthapi"
)

// pastFlags say which question to a controller is meant.
type pastFlags struct{ namespace, at, policy string }

func (f *pastFlags) add(cmd *cobra.Command) {
	addNamespaceFlag(cmd, &f.namespace, "the object's namespace")
	cmd.Flags().StringVar(&f.at, "at", "", "the last question until then: a time such as 2026-03-01T12:00:00Z, or how long ago, such as 5m; without it the last of all")
	cmd.Flags().StringVar(&f.policy, "policy", "", "NAME: what this policy was asked; NAME=FILE.wasm: ask that module in its place")
}

func (f *pastFlags) given(cmd *cobra.Command) bool {
	return f.at != "" || f.policy != "" || cmd.Flags().Changed("namespace")
}

// time is when --at says.
func (f *pastFlags) time(now time.Time) (time.Time, error) {
	if f.at == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(f.at); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339Nano, f.at)
	if err != nil {
		return time.Time{}, fmt.Errorf("--at %s: want a time such as 2026-03-01T12:00:00Z, or how long ago, such as 5m", f.at)
	}
	return at, nil
}

func (f *pastFlags) run(cmd *cobra.Command, format *output, kind, name string) error {
	if kind == "" || name == "" {
		return errors.New("want KIND/NAME, such as deployment/web")
	}
	at, err := f.time(time.Now())
	if err != nil {
		return err
	}
	c, err := clientFor(cmd)
	if err != nil {
		return err
	}
	request := berthapi.ReconcileRequest{Resource: kind, Namespace: c.in(f.namespace), Name: name, Policy: f.policy, At: at}
	if variation, _, ok := strings.Cut(f.policy, "="); ok {
		all, err := c.variations(cmd.Context(), []string{f.policy})
		if err != nil {
			return err
		}
		request.Policy, request.Other = variation, &all[0]
	}
	body, err := json.Marshal(&request)
	if err != nil {
		return err
	}
	r := new(berthapi.Reconciled)
	done := during(cmd.ErrOrStderr(), "asking the controller again")
	err = c.send(cmd.Context(), "POST", berthapi.ReconcilesPath, "application/json", body, r)
	done()
	if err != nil {
		return err
	}
	if err := writeReconciled(cmd.OutOrStdout(), format, kind+"/"+name, r); err != nil {
		return err
	}
	if !r.Same {
		return exitCode(2)
	}
	return nil
}

func writeReconciled(w io.Writer, format *output, name string, r *berthapi.Reconciled) error {
	show := func() *table {
		t := &table{kind: "reconcile", head: []string{"OBJECT", "POLICY", "SAME", "AT"}}
		t.add(name, r.Policy, fmt.Sprint(r.Same), r.At.Format("2006-01-02T15:04:05.000Z07:00"))
		return t
	}
	if err := format.printAs(w, r, show); err != nil || !format.asTable() || format.format == "name" {
		return err
	}
	fmt.Fprintln(w)
	for _, part := range []struct {
		when, failure string
		lines         []string
	}{{"then", r.Failure, r.Then}, {"again", r.FailureAgain, r.Again}} {
		switch {
		case part.when == "again" && r.Same:
			continue
		case part.failure != "":
			fmt.Fprintf(w, "%s: it failed: %s\n", part.when, part.failure)
		case len(part.lines) == 0:
			fmt.Fprintf(w, "%s: it wanted nothing\n", part.when)
		}
		for _, line := range part.lines {
			fmt.Fprintf(w, "%s: %s\n", part.when, line)
		}
	}
	for _, line := range r.Differs {
		fmt.Fprintln(w, line)
	}
	return nil
}
