// Command subverted is a compile child that a hostile module has taken over, for
// tests: it is confined as a compile child is, and then does harm.
//
//	subverted HARM [ARGUMENT]
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/berth-dev/berth/host/policy/engine/confine"
)

// harms are given the second argument. What they say goes to the host.
var harms = map[string]func(argument string) string{
	"nothing":   func(string) string { return "" },
	"memory":    func(string) string { return hoard() },
	"spin":      func(string) string { return spin() },
	"flood":     func(string) string { return flood() },
	"hang":      func(string) string { time.Sleep(time.Hour); return "" },
	"fork":      func(string) string { return fork() },
	"disk":      func(string) string { return leave(1 << 40) },
	"files":     func(string) string { return files() },
	"large":     func(string) string { return leave(200 << 20) },
	"elsewhere": elsewhere,
	"beyond":    func(string) string { return beyond() },
}

func main() {
	limits, argument := confine.Child, ""
	if len(os.Args) > 2 {
		argument = os.Args[2]
	}
	harm := harms[os.Args[1]]
	if os.Args[1] == "spin" || os.Args[1] == "flood" {
		limits.CPU = 1 // lest tests burn what a child may
	}
	// As on a kernel without seccomp: what else there is must hold too.
	limits.Calls = os.Args[1] == "fork" || os.Args[1] == "elsewhere" || os.Args[1] == "files"
	if err := limits.Self(); err != nil {
		harm = func(string) string { return err.Error() }
	}
	if said := harm(argument); said != "" {
		fmt.Fprintln(os.Stderr, said)
		os.Exit(3)
	}
}

// hoard takes memory that it does not touch: what is limited is address space.
func hoard() string {
	var all [][]byte
	for {
		all = append(all, make([]byte, 64<<20))
	}
}

func spin() string {
	for {
	}
}

func flood() string {
	b := make([]byte, 64<<10)
	for {
		if _, err := os.Stdout.Write(b); err != nil {
			return err.Error()
		}
	}
}

// fork leaves a process behind that holds the child's output open, and says its
// number.
func fork() string {
	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return "fork: " + e.Error()
	}
	if pid == 0 {
		for {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0) // until a signal
		}
	}
	return fmt.Sprint("forked ", pid)
}

// leave writes so many bytes as its code.
func leave(size int64) string {
	b := make([]byte, 1<<20)
	for ; size > 0; size -= int64(len(b)) {
		if _, err := os.Stdout.Write(b); err != nil {
			return "it may write no more: " + err.Error()
		}
	}
	return ""
}

// files tries all ways to have more than one file on the disk, and says which of
// them it may: each file has its limit, but of how many there are none.
func files() string {
	const anonymous = 0x400000 | syscall.O_DIRECTORY | syscall.O_WRONLY // O_TMPFILE
	own, err := os.Readlink("/proc/self/fd/1")
	if err != nil {
		return err.Error()
	}
	unnamed, err := syscall.Open(".", anonymous, 0o600)
	if err == nil {
		syscall.Close(unnamed)
	}
	return mayDo(map[string]error{
		"make a file":           os.WriteFile("more", []byte("harm"), 0o600),
		"make a file unnamed":   err,
		"make a folder":         os.Mkdir("folder", 0o700),
		"make a pipe":           syscall.Mkfifo("pipe", 0o600),
		"make a link":           os.Symlink("/", "way"),
		"link its own":          os.Link(own, "again"),
		"move its own":          os.Rename(own, "moved"),
		"remove its own":        os.Remove(own),
		"open its own anew":     os.WriteFile(own, []byte("harm"), 0o600),
		"make one for everyone": os.WriteFile("/tmp/berth-subverted", []byte("harm"), 0o600),
	})
}

// elsewhere tries all ways to put something in place of another module's entry,
// and says which of them it may.
func elsewhere(other string) string {
	beside := filepath.Join("..", filepath.Base(other))
	mine, err := os.Readlink("/proc/self/fd/1")
	if err != nil {
		return err.Error()
	}
	_, read := os.ReadFile(other)
	_, list := os.ReadDir("..")
	ways := map[string]error{
		"write it":                os.WriteFile(other, []byte("harm"), 0o600),
		"write it from beside":    os.WriteFile(beside, []byte("harm"), 0o600),
		"move over it":            os.Rename(mine, beside),
		"link in its place":       os.Link(mine, beside+".new"),
		"remove it":               os.Remove(other),
		"cut it":                  os.Truncate(other, 0),
		"make something beside":   os.WriteFile(beside+".new", nil, 0o600),
		"make a folder beside":    os.Mkdir(beside+".d", 0o700),
		"read it":                 read,
		"list the cache":          list,
		"write into the system":   os.WriteFile("/tmp/berth-subverted", nil, 0o600),
		"write to the host's own": os.WriteFile(fmt.Sprintf("/proc/%d/comm", os.Getppid()), []byte("x"), 0o600),
	}
	if confine.Landlock() >= 4 {
		_, err := net.Dial("tcp", "127.0.0.1:9")
		ways["connect"] = nil
		if errors.Is(err, fs.ErrPermission) {
			ways["connect"] = err
		}
	}
	if confine.Landlock() >= 7 {
		ways["signal the host"] = syscall.Kill(os.Getppid(), 0)
	}
	if confine.Landlock() < 3 {
		delete(ways, "cut it") // which ruins code, and puts none in its place
	}
	return mayDo(ways)
}

// mayDo says which of the ways did not fail.
func mayDo(ways map[string]error) string {
	var may []string
	for way, err := range ways {
		if err == nil {
			may = append(may, way)
		}
	}
	sort.Strings(may)
	if len(may) > 0 {
		return "it may " + strings.Join(may, ", ")
	}
	return "it may do nothing"
}
