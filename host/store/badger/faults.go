package badger

import (
	"slices"
	"strings"
	"syscall"
)

// Badger passes on the text of system errors, not the errors.
var (
	noSpace = syscall.ENOSPC
	// systemErrors say nothing about the data.
	systemErrors = []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOMEM, syscall.EDQUOT, syscall.EFBIG,
	}
)

func says(err error, any ...syscall.Errno) bool {
	text := err.Error()
	return slices.ContainsFunc(any, func(e syscall.Errno) bool { return strings.Contains(text, e.Error()) })
}
