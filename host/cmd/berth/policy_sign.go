package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func newPolicySign() *cobra.Command {
	return &cobra.Command{
		Use:   "sign KEY.pem FILE.wasm",
		Short: "Sign a module by an ed25519 key, and print the signature",
		Example: "  openssl genpkey -algorithm ed25519 -out key.pem\n" +
			"  berth policy sign key.pem gpu-only.wasm > gpu-only.sig\n" +
			"  berth policy push gpu-only gpu-only.wasm --signature @gpu-only.sig",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := module.ReadPrivateKey(args[0])
			if err != nil {
				return err
			}
			wasm, err := readModule(args[1])
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), module.FormatSignature(module.Sign(key, wasm)))
			return nil
		},
	}
}

func newPolicyVerify() *cobra.Command {
	return &cobra.Command{
		Use:     "verify KEY.pub FILE.wasm SIGNATURE|@FILE",
		Short:   "Check a module's signature by a public key",
		Example: "  openssl pkey -in key.pem -pubout -out key.pub\n  berth policy verify key.pub gpu-only.wasm @gpu-only.sig",
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := module.ReadPublicKey(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return err // which names the file
			}
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			wasm, err := readModule(args[1])
			if err != nil {
				return err
			}
			signatures, err := readSignatures(args[2:])
			if err != nil {
				return err
			}
			if len(signatures) == 0 {
				return fmt.Errorf("%s holds no signature: `berth policy sign` prints one", strings.TrimPrefix(args[2], "@"))
			}
			id := module.KeyID(key)
			if (module.Keyring{id: key}).Verify(sha256.Sum256(wasm), signatures) != nil {
				return fmt.Errorf("%s is not what key %s signed", args[1], id)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is signed by %s\n", args[1], id)
			return nil
		},
	}
}

// readSignatures reads signatures as they were printed, or out of files that
// hold one a line.
func readSignatures(texts []string) ([]v1alpha1.Signature, error) {
	var all []v1alpha1.Signature
	for _, given := range texts {
		text := given
		if file, ok := strings.CutPrefix(text, "@"); ok {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		for line := range strings.Lines(strings.TrimSpace(text)) {
			s, err := module.ParseSignature(line)
			if err != nil && exists(given) {
				err = fmt.Errorf("%s is a file: write @%[1]s to have its signatures read", given)
			}
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	return all, nil
}
