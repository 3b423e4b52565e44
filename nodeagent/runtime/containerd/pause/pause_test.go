package pause

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/host/polltest"
)

func TestELFIsWellFormed(t *testing.T) {
	t.Parallel()
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		b, err := ELF(arch)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		if f.Machine != machine || f.Type != elf.ET_EXEC || len(f.Progs) != 1 {
			t.Errorf("%s: %+v", arch, f.FileHeader)
		}
		if p := f.Progs[0]; p.Filesz != uint64(len(b)) || f.Entry != p.Vaddr+header {
			t.Errorf("%s: segment %+v, entry %#x", arch, p.ProgHeader, f.Entry)
		}
	}
	if _, err := ELF("pdp11"); err == nil {
		t.Error("there is a program for pdp11")
	}
}

func TestPauseWaitsAndIgnoresItsChildren(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "root")
	for range 2 { // the second time over the first
		if err := Install(dir); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(dir, Name))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()

	// SigIgn has bit 16 for SIGCHLD (17), once the first system call was made.
	status := fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)
	polltest.Until(t, "pause waits with SIGCHLD ignored", func() bool {
		b, err := os.ReadFile(status)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(b), "SigIgn:\t0000000000010000") && strings.Contains(string(b), "State:\tS")
	})
	if err := cmd.Process.Signal(syscall.SIGCHLD); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("pause ended: %v", err)
	}
}
