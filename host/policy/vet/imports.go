package vet

import (
	"strings"
	"unicode"
)

// The modules that a guest may import from.
const (
	ModuleBerth = "berth"
	ModuleWASI  = "wasi_snapshot_preview1"
)

// Imports is the allow-list: module, function, type. The host gives each of
// these to guests, WASI's with a clock, randomness, files and arguments that
// never differ.
var Imports = map[string]map[string]string{
	ModuleBerth: {
		"log":   "(i32,i32,i32)", // level, pointer, length
		"count": "(i32,i32)",     // place in the manifest's counters, how many more
	},
	// What TinyGo's and Go's runtimes ask for, whether they call it or not.
	ModuleWASI: {
		"args_get":                "(i32,i32)i32",
		"args_sizes_get":          "(i32,i32)i32",
		"environ_get":             "(i32,i32)i32",
		"environ_sizes_get":       "(i32,i32)i32",
		"clock_res_get":           "(i32,i32)i32",
		"clock_time_get":          "(i32,i64,i32)i32",
		"fd_advise":               "(i32,i64,i64,i32)i32",
		"fd_allocate":             "(i32,i64,i64)i32",
		"fd_close":                "(i32)i32",
		"fd_datasync":             "(i32)i32",
		"fd_fdstat_get":           "(i32,i32)i32",
		"fd_fdstat_set_flags":     "(i32,i32)i32",
		"fd_fdstat_set_rights":    "(i32,i64,i64)i32",
		"fd_filestat_get":         "(i32,i32)i32",
		"fd_filestat_set_size":    "(i32,i64)i32",
		"fd_filestat_set_times":   "(i32,i64,i64,i32)i32",
		"fd_pread":                "(i32,i32,i32,i64,i32)i32",
		"fd_prestat_dir_name":     "(i32,i32,i32)i32",
		"fd_prestat_get":          "(i32,i32)i32",
		"fd_pwrite":               "(i32,i32,i32,i64,i32)i32",
		"fd_read":                 "(i32,i32,i32,i32)i32",
		"fd_readdir":              "(i32,i32,i32,i64,i32)i32",
		"fd_renumber":             "(i32,i32)i32",
		"fd_seek":                 "(i32,i64,i32,i32)i32",
		"fd_sync":                 "(i32)i32",
		"fd_tell":                 "(i32,i32)i32",
		"fd_write":                "(i32,i32,i32,i32)i32",
		"path_create_directory":   "(i32,i32,i32)i32",
		"path_filestat_get":       "(i32,i32,i32,i32,i32)i32",
		"path_filestat_set_times": "(i32,i32,i32,i32,i64,i64,i32)i32",
		"path_link":               "(i32,i32,i32,i32,i32,i32,i32)i32",
		"path_open":               "(i32,i32,i32,i32,i32,i64,i64,i32,i32)i32",
		"path_readlink":           "(i32,i32,i32,i32,i32,i32)i32",
		"path_remove_directory":   "(i32,i32,i32)i32",
		"path_rename":             "(i32,i32,i32,i32,i32,i32)i32",
		"path_symlink":            "(i32,i32,i32,i32,i32)i32",
		"path_unlink_file":        "(i32,i32,i32)i32",
		"poll_oneoff":             "(i32,i32,i32,i32)i32",
		"proc_exit":               "(i32)",
		"proc_raise":              "(i32)i32",
		"random_get":              "(i32,i32)i32",
		"sched_yield":             "()i32",
		"sock_accept":             "(i32,i32,i32)i32",
		"sock_recv":               "(i32,i32,i32,i32,i32,i32)i32",
		"sock_send":               "(i32,i32,i32,i32,i32)i32",
		"sock_shutdown":           "(i32,i32)i32",
	},
}

func checkImport(module, name string, t funcType) *Refusal {
	functions, ok := Imports[module]
	if !ok {
		return refuse(RuleImport, "a policy may import only the SDK's functions and WASI; remove what needs it", "it imports %q from %q", clip(name), clip(module))
	}
	want, ok := functions[name]
	if !ok {
		return refuse(RuleImport, "this host offers no such function; build against the SDK of this release", "it imports %q from %q", clip(name), module)
	}
	if have := t.String(); have != want {
		return refuse(RuleImport, "build against the SDK of this release", "it imports %s.%s as %s, which is %s", module, name, clip(have), want)
	}
	return nil
}

// The exports that the host looks up, with their types. Those of a kind of
// policy are optional here: the manifest says which the module needs.
const (
	markerPrefix = "berth_abi_v"
	marker       = "berth_abi_v1"

	// FuelExport is the counter's export. A guest may export nothing under
	// ReservedPrefix.
	FuelExport = ReservedPrefix + "fuel"
	// StackExport is what is left of the stack for recursion.
	StackExport    = ReservedPrefix + "stack"
	ReservedPrefix = "berth:"
)

var required = []string{"berth_manifest", "berth_input", "berth_open"}

var exportTypes = map[string]string{
	"_initialize":     "()",
	"berth_manifest":  "()i64",
	"berth_input":     "(i32)i32",
	"berth_open":      "(i32)i32",
	"berth_apply":     "(i32)i32",
	"berth_pod":       "(i32)i64",
	"berth_filter":    "(i32)i64",
	"berth_score":     "(i32)i64",
	"berth_whatif":    "(i32)i64",
	"berth_reasons":   "(i32)i64",
	"berth_explain":   "(i32)i64",
	"berth_gate":      "(i32)i64",
	"berth_idle":      "()i32",
	"berth_error":     "()i64",
	"berth_at":        "()i32",
	"berth_reconcile": "(i32)i64",
}

// clip makes a foreign string short and plain enough for a message.
func clip(s string) string {
	const most = 80
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
