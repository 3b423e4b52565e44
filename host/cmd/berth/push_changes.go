package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// changes says what a push made another of a policy that was there.
func changes(was, is *v1alpha1.PolicySpec) string {
	var all []string
	note := func(what, before, after string) {
		if before != after {
			all = append(all, fmt.Sprintf("%s %s → %s", what, inShort(before), inShort(after)))
		}
	}
	note("module", shortDigest(was.Module), shortDigest(is.Module))
	note("entry", was.Entry, is.Entry)
	note("config", asJSON(was.Config), asJSON(is.Config))
	note("mode", string(was.Mode), string(is.Mode))
	note("failureMode", string(was.FailureMode), string(is.FailureMode))
	note("limits", asJSON(was.Limits), asJSON(is.Limits))
	note("serviceAccount", asJSON(was.ServiceAccount), asJSON(is.ServiceAccount))
	note("canary", canaryOf(was), canaryOf(is))
	if len(all) == 0 {
		return "changed: nothing"
	}
	return "changed: " + strings.Join(all, ", ")
}

// asJSON is a part of a spec in one line, the same for the same values.
func asJSON(part any) string {
	var value any
	data, err := json.Marshal(part)
	if err == nil {
		err = json.Unmarshal(data, &value)
	}
	if err != nil || value == nil {
		return ""
	}
	data, _ = json.Marshal(value)
	return string(data)
}

func inShort(s string) string {
	const most = 120
	runes := []rune(s)
	switch {
	case s == "":
		return "none"
	case len(runes) > most:
		return string(runes[:most]) + "…"
	}
	return s
}

func canaryOf(s *v1alpha1.PolicySpec) string {
	if s.Canary == nil {
		return ""
	}
	return fmt.Sprintf("%s for %d %%", shortDigest(s.Canary.Module), s.Canary.Share)
}
