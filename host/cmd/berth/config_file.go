package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// addConfigFlag has a command take its flags from a file, too. What stands on the
// command line comes before the file.
func addConfigFlag(cmd *cobra.Command) {
	var file string
	cmd.Flags().StringVar(&file, "config", "", "YAML file of flags, such as listen: 0.0.0.0:6443; those of the command line come before it")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if file != "" {
			if err := setFlags(cmd.Flags(), file); err != nil {
				return fmt.Errorf("--config %s: %w", file, err)
			}
		}
		return noClient(cmd, nil)
	}
}

// noClient refuses flags by which commands find a host, of one that asks none.
func noClient(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"kubeconfig", "context"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s names a cluster to talk to, and `%s` talks to none by it: leave it out", name, cmd.CommandPath())
		}
	}
	return nil
}

// setFlags gives flags the values of a file, but those that are set already.
func setFlags(flags *pflag.FlagSet, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return errors.Unwrap(err) // the caller names the file
	}
	data, err = yaml.YAMLToJSONStrict(data)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // 1000000 stays that
	var values map[string]any
	if err := decoder.Decode(&values); err != nil {
		return errors.New("want flags by their names, such as listen: 0.0.0.0:6443")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		flag := flags.Lookup(name)
		if flag == nil || name == "config" || name == "help" {
			return fmt.Errorf("there is no flag %s%s", name, similar(flags, name))
		}
		if flag.Changed {
			continue
		}
		if err := setFlag(flags, flag, values[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// similar suggests the flag that a name was meant for, if there is one.
func similar(flags *pflag.FlagSet, name string) (hint string) {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	flags.VisitAll(func(f *pflag.Flag) {
		if plain(f.Name) == plain(name) {
			hint = ": " + f.Name + " is meant"
		}
	})
	return hint
}

func setFlag(flags *pflag.FlagSet, flag *pflag.Flag, value any) error {
	var texts []string
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			text, err := scalar(one)
			if err != nil {
				return err
			}
			texts = append(texts, text)
		}
		if _, many := flag.Value.(pflag.SliceValue); !many {
			return errors.New("want one value, not a list")
		}
	case map[string]any:
		if flag.Value.Type() != "stringToString" {
			return errors.New("want no keys below it")
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text, err := scalar(v[key])
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			texts = append(texts, key+"="+text)
		}
	default:
		text, err := scalar(value)
		if err != nil {
			return err
		}
		return flags.Set(flag.Name, text)
	}
	if len(texts) == 0 {
		return nil
	}
	// As on the command line: by commas, in quotes where there are some within.
	var line strings.Builder
	w := csv.NewWriter(&line)
	if err := w.Write(texts); err != nil {
		return err
	}
	w.Flush()
	return flags.Set(flag.Name, strings.TrimSuffix(line.String(), "\n"))
}

func scalar(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool, json.Number:
		return fmt.Sprint(v), nil
	}
	return "", errors.New("want a text, a number, true or false")
}
