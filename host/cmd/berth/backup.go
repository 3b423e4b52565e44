package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/badger"
)

func newBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all objects and modules of a running host into a file",
		Long: "Writes all objects and modules as of one moment, Secrets as well: keep the file safe. The keys\n" +
			"of the host's own authority are no objects; keep the folder `pki` of its data directory too, if\n" +
			"agents and kubeconfigs are to go on after a restore.\n\n" +
			"FILE takes its place once it is whole. A pipe or a device is written straight into, as is the\n" +
			"standard output, for which - stands: there the exit code alone says whether all has come.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := clientFor(cmd)
			if err != nil {
				return err
			}
			file, straight, err := backupPlace(args[0])
			if err != nil {
				return fmt.Errorf("backup: %w", err)
			}
			words, take := cmd.OutOrStdout(), func(stream io.Reader) (int64, error) { return intoPlace(file, stream) }
			if straight { // which may be where words would go
				words, take = cmd.ErrOrStderr(), func(stream io.Reader) (int64, error) { return straightInto(file, cmd.OutOrStdout(), stream) }
			}
			n, err := c.backup(cmd.Context(), take)
			if err != nil {
				return fmt.Errorf("backup: %w", err)
			}
			fmt.Fprintf(words, "%s: %d KB, whole\n", args[0], (n+1023)/1024)
			return nil
		},
	}
}

// stdio is the name for the standard output.
const stdio = "-"

// backupPlace is the file that a name leads to by links; straight says that it is
// none that another could take the place of.
func backupPlace(name string) (file string, straight bool, err error) {
	if name == stdio {
		return name, true, nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(name); err == nil {
			return "", false, fmt.Errorf("%s is a link to what is not there: name the file itself", name)
		}
		return name, false, nil
	case err != nil:
		return "", false, err
	case info.IsDir():
		return "", false, fmt.Errorf("%s is a folder: name a file in it", name)
	case !info.Mode().IsRegular():
		return name, true, nil
	}
	file, err = filepath.EvalSymlinks(name)
	return file, false, err
}

// backup gives a host's backup to take.
func (c *client) backup(ctx context.Context, take func(io.Reader) (int64, error)) (n int64, err error) {
	stream, err := c.rest.Get().RequestURI(berthapi.BackupPath).Stream(ctx)
	if err != nil {
		return 0, explainStatus(nil, err)
	}
	defer stream.Close()
	return take(stream)
}

// straightInto writes a backup into a pipe or a device as it comes.
func straightInto(file string, stdout io.Writer, stream io.Reader) (n int64, err error) {
	if file == stdio {
		return copyWhole(stdout, stream)
	}
	to, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	n, err = copyWhole(to, stream)
	return n, errors.Join(err, to.Close())
}

// intoPlace writes beside the file and moves it there once it is known to be whole.
func intoPlace(file string, stream io.Reader) (n int64, err error) {
	part, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".part-*")
	if err != nil {
		return 0, fmt.Errorf("%w: name a file in a folder that is there and can be written", err)
	}
	defer os.Remove(part.Name())
	n, err = copyWhole(part, stream)
	if err == nil {
		err = onDisk(part.Sync())
	}
	if err = errors.Join(err, part.Close()); err != nil {
		return 0, err
	}
	if err := os.Rename(part.Name(), file); err != nil {
		return 0, err
	}
	return n, syncFolder(filepath.Dir(file))
}

// syncFolder has a file's new name outlive a loss of power.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

var errCut = errors.New("what came is not whole, since the host or the connection ended; try again, and see the host's log if that does not help")

// onDisk says what to do about a file that could not be written.
func onDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: make room there, or name a file on another disk", err)
	}
	return err
}

// copyWhole copies a backup, whose last bytes are the sum of all before.
func copyWhole(to io.Writer, from io.Reader) (int64, error) {
	sum := sha256.New()
	var held []byte // the end of what came, perhaps the sum
	buffer := make([]byte, 1<<20)
	total := int64(0)
	for {
		n, err := from.Read(buffer)
		total += int64(n)
		held = append(held, buffer[:n]...)
		if over := len(held) - sha256.Size; over > 0 {
			sum.Write(held[:over])
			held = append(held[:0], held[over:]...)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return total, onDisk(err)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return total, fmt.Errorf("%w (%w)", errCut, err)
		}
	}
	if !bytes.Equal(held, sum.Sum(nil)) {
		return total, errCut
	}
	return total, nil
}

func newRestore() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Fill a new data directory from a backup; the host must not run",
		Args:  cobra.ExactArgs(1),

		PreRunE: noClient,
		RunE: func(cmd *cobra.Command, args []string) error {
			revision, err := restore(cmd.Context(), args[0], dir)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s holds the backup, at revision %d\nstart it by `berth host --data-dir %[1]s`\n", dir, revision)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", defaultDataDir(), "the directory to fill; it must have no store yet")
	return cmd
}

func restore(ctx context.Context, file, dir string) (revision int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	into := filepath.Join(dir, "store")
	disk, err := badger.Open(into, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	if revision, err = store.Restore(ctx, disk, f); errors.Is(err, store.ErrHalfRestored) {
		return 0, fmt.Errorf("%w: remove %s, and nothing else, before you restore again", err, into)
	}
	return revision, err
}
