package badger

import (
	"errors"
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

// brief is what a client may be told of an error: the system's, if Badger's text
// has one in it, without the paths around it.
func brief(err error) error {
	for _, e := range append([]syscall.Errno{noSpace}, systemErrors...) {
		if says(err, e) {
			return e
		}
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line)
}
