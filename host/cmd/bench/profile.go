package main

import (
	"os"
	"runtime/pprof"
)

// profiled wraps the measured part into a profile, if a file is named.
func profiled(file string) func(func() error) error {
	return func(measured func() error) error {
		if file == "" {
			return measured()
		}
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		return measured()
	}
}

// writeAllocs writes what was allocated so far, if a file is named.
func writeAllocs(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.Lookup("allocs").WriteTo(f, 0)
}
