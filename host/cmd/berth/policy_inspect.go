package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
)

// inspected is what a module says of itself, and what vet saw in it.
type inspected struct {
	Digest   string        `json:"digest"`
	Manifest *abi.Manifest `json:"manifest"`
	Report   vet.Report    `json:"report"`
}

func newPolicyInspect() *cobra.Command {
	var from source
	cmd := &cobra.Command{
		Use:   "inspect [DIR|FILE.wasm|NAME]",
		Short: "Show a module's policies, imports, and share of each limit",
		Long: "Vets and compiles a module as a host would, on this machine, and shows what it says of itself\n" +
			"and how much of each limit it takes. A module that a host would refuse is refused here too.",
		Example: "  berth policy inspect                      # what this folder builds\n" +
			"  berth policy inspect PodFitsResources     # what is live under that name",
		Args: cobra.MaximumNArgs(1),
	}
	format := addOutputFlag(cmd)
	from.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what := first(args, ".")
		wasm, err := from.fetched(cmd, what)
		if err != nil {
			return err
		}
		seen, err := inspect(cmd.Context(), wasm)
		if err != nil {
			return fmt.Errorf("a host would refuse %s: %w", what, err)
		}
		if format.asTable() && format.format != "name" {
			return seen.write(cmd.OutOrStdout(), format)
		}
		return format.printAs(cmd.OutOrStdout(), seen, func() *table {
			return &table{kind: "module.policy.berth.dev", rows: [][]string{{v1alpha1.ModuleName(seen.Digest)}}}
		})
	}
	return cmd
}

// fetched is module, or the one that is live under a policy's name.
func (s *source) fetched(cmd *cobra.Command, what string) ([]byte, error) {
	if exists(what) || strings.ContainsAny(what, "/.") {
		return s.module(cmd.Context(), cmd.ErrOrStderr(), what)
	}
	c, err := clientFor(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s is neither a file nor a folder here, and policies cannot be looked up: %w", what, err)
	}
	wasm, err := c.raw(cmd.Context(), berthapi.FiguresPath+"/"+url.PathEscape(what)+"/module")
	if isNotFound(err) {
		return nil, fmt.Errorf("%s is neither a file nor a folder here, and no policy of that name is live: `berth policy list` shows those there are", what)
	}
	return wasm, err
}

// inspect loads a module as a host does, and lets go of it.
func inspect(ctx context.Context, wasm []byte) (*inspected, error) {
	e, err := engine.New(ctx, engine.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	m, err := e.Load(ctx, wasm, vet.DefaultLimits())
	if err != nil {
		return nil, err
	}
	defer m.Close()
	manifest, err := abi.ReadManifest(m.Manifest())
	if err != nil {
		return nil, err
	}
	return &inspected{Digest: m.Digest(), Manifest: manifest, Report: m.Report()}, nil
}

func (i *inspected) write(w io.Writer, o *output) error {
	m := i.Manifest
	page := explain.Page{Columns: cmp.Or(lookOf(w).columns, 80)}
	fmt.Fprintf(w, "Module:  %s %s\nDigest:  %s\nABI:     %d\nSize:    %d KB, %d KB with fuel counted\n%s\n\n",
		m.Module, m.Version, i.Digest, m.ABI, kilobytes(i.Report.BytesIn), kilobytes(i.Report.BytesOut),
		page.Wrapped("Imports: "+orNone(i.Report.Imports)))
	policies := &table{head: []string{"POLICY", "KIND", "SCOPE", "READS", "DESCRIPTION"}, wide: 2}
	about := ""
	for k := range m.Policies {
		p := &m.Policies[k]
		policies.add(p.Name, p.Kind, scopeName(p), readsName(p), p.Description)
		about += page.Wrapped(aboutPolicy(p)) + "\n"
	}
	if o.format == "wide" {
		about = ""
	}
	for _, t := range []*table{policies, limitTable(&i.Report)} {
		t.all, t.bare = o.format == "wide", o.noHeaders
		if err := t.write(w); err != nil {
			return err
		}
		if t == policies {
			fmt.Fprintln(w, "\n"+about)
		}
	}
	return nil
}

// aboutPolicy says what is too long for a column.
func aboutPolicy(p *abi.Policy) string {
	text := p.Name + ":"
	if p.Description != "" {
		text += " " + strings.TrimSuffix(p.Description, ".") + "."
	}
	return text + " Reads " + strings.ReplaceAll(readsName(p), ",", ", ") + "."
}

func scopeName(p *abi.Policy) string {
	if p.ScopeOf() == abi.ScopeSet {
		return "set"
	}
	return "row"
}

// readsName is short for those who did not say what they read.
func readsName(p *abi.Policy) string {
	if p.Groups() == abi.PodGroups|abi.NodeGroups|abi.NodeName {
		return "all of pod and node"
	}
	return strings.Join(p.Reads, ",")
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// limitTable sets what a module uses beside what a host accepts.
func limitTable(r *vet.Report) *table {
	l := vet.DefaultLimits()
	t := &table{head: []string{"LIMIT", "USED", "ACCEPTED", "SHARE"}}
	for _, row := range []struct {
		name       string
		used, most int
	}{
		{"bytes", r.BytesIn, l.Bytes},
		{"functions", r.Functions, l.Functions},
		{"types", r.Types, l.Types},
		{"globals", r.Globals, l.Globals},
		{"table entries", r.TableSize, l.TableEntries},
		{"data segments", r.Data, l.Data},
		{"element segments", r.Elements, l.Elements},
		{"bytes of the largest function", r.BodyBytes, l.BodyBytes},
		{"locals of a function", r.Locals, l.Locals},
		{"locals of all functions", r.AllLocals, l.AllLocals},
		{"nesting of blocks", r.Nesting, l.Nesting},
		{"blocks of a function", r.Blocks, l.Blocks},
		{"flow", r.Flow, l.Flow},
		{"targets of a br_table", r.BranchTable, l.BranchTable},
		{"memory at the start", int(r.MemoryMin) * vet.PageBytes, int(l.MemoryBytes)},
	} {
		t.add(row.name, strconv.Itoa(row.used), strconv.Itoa(row.most), fmt.Sprintf("%.1f%%", 100*float64(row.used)/float64(row.most)))
	}
	return t
}
