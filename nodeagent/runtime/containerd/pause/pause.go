// Package pause writes the program that holds a pod's namespaces: it does
// nothing, forever, and lets the kernel reap what it inherits where the pod
// shares its process namespace.
//
// It is a few dozen instructions, so the file is assembled here, and needs
// neither a compiler on the node nor an image from a registry.
package pause

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Name is the program's name in its root filesystem.
const Name = "pause"

// program is machine code for: rt_sigaction(SIGCHLD, {SIG_IGN}, 0, 8); for (;;) pause().
// It ends with where the sigaction struct begins.
type program struct {
	machine uint16 // ELF's e_machine
	code    []byte
}

var programs = map[string]program{
	"amd64": {62, []byte{
		0xb8, 13, 0, 0, 0, //             mov eax, SYS_rt_sigaction
		0xbf, 17, 0, 0, 0, //             mov edi, SIGCHLD
		0x48, 0x8d, 0x35, 19, 0, 0, 0, // lea rsi, [rip+19]: behind the code
		0x31, 0xd2, //                    xor edx, edx
		0x41, 0xba, 8, 0, 0, 0, //        mov r10d, 8
		0x0f, 0x05, //                    syscall
		0xb8, 34, 0, 0, 0, //             mov eax, SYS_pause
		0x0f, 0x05, //                    syscall
		0xeb, 0xf7, //                    jmp to the mov before
	}},
	"arm64": {183, words(
		0xd2800220, // mov x0, SIGCHLD
		0x10000181, // adr x1, 12 words on: behind the code
		0xd2800002, // mov x2, 0
		0xd2800103, // mov x3, 8
		0xd28010c8, // mov x8, SYS_rt_sigaction
		0xd4000001, // svc 0
		0xd2800000, // mov x0, 0
		0xd2800001, // mov x1, 0
		0xd2800002, // mov x2, 0
		0xd2800003, // mov x3, 0
		0xd2800928, // mov x8, SYS_ppoll
		0xd4000001, // svc 0
		0x17fffffa, // b 6 words back
	)},
}

func words(w ...uint32) []byte {
	var b []byte
	for _, x := range w {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

const (
	header = 64 + 56 // of the file, and of its one segment
	base   = 0x400000
)

// ELF gives the program for an architecture in Go's words.
func ELF(arch string) ([]byte, error) {
	p, ok := programs[arch]
	if !ok {
		return nil, fmt.Errorf("no pause program for %s", arch)
	}
	action := make([]byte, 32) // handler, flags, restorer, mask
	action[0] = 1              // SIG_IGN
	size := uint64(header + len(p.code) + len(action))

	var b bytes.Buffer
	b.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	for _, field := range []any{
		uint16(2), p.machine, uint32(1), // executable
		uint64(base + header), uint64(64), uint64(0), // entry, segments, sections
		uint32(0), uint16(64), uint16(56), uint16(1), uint16(64), uint16(0), uint16(0),
		uint32(1), uint32(5), // load, read and execute
		uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000),
		p.code, action,
	} {
		if err := binary.Write(&b, binary.LittleEndian, field); err != nil {
			return nil, fmt.Errorf("assemble pause: %w", err)
		}
	}
	return b.Bytes(), nil
}

// Install makes dir a root filesystem with the program of this machine in it.
func Install(dir string) error {
	elf, err := ELF(runtime.GOARCH)
	if err != nil {
		return err
	}
	for _, sub := range []string{"proc", "sys", "dev"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return fmt.Errorf("install pause: %w", err)
		}
	}
	path := filepath.Join(dir, Name)
	if had, err := os.ReadFile(path); err == nil && bytes.Equal(had, elf) {
		return nil
	}
	// Not in place: pods may be running the file.
	if err := os.WriteFile(path+".new", elf, 0o755); err != nil {
		return fmt.Errorf("install pause: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("install pause: %w", err)
	}
	return nil
}
