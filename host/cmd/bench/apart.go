package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"
)

// tableProcess is the first argument of a process that measures one of several.
const tableProcess = "table-process"

// measureApart makes each measurement in a process of its own, given the same flags:
// what one leaves in memory, or still runs of it, is no part of the next one's figures.
func measureApart(ctx context.Context, chosen []measurement, flags []string) (tables []table, failed error) {
	for _, m := range chosen {
		if ctx.Err() != nil {
			return tables, errors.Join(failed, ctx.Err())
		}
		made, err := tablesOf(ctx, m.name, flags)
		tables = append(tables, made...)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return tables, failed
}

// tablesOf makes the tables of a measurement in another process, which tells by itself
// how it goes. One that fails may have made some.
func tablesOf(ctx context.Context, name string, flags []string) ([]table, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, self, slices.Concat([]string{tableProcess}, flags, []string{"-o", "json", name})...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	failed := cmd.Run()
	var made struct{ Tables []table }
	if err := json.Unmarshal(out.Bytes(), &made); err != nil {
		failed = errors.Join(failed, fmt.Errorf("read its tables: %w", err))
	}
	return made.Tables, failed
}
