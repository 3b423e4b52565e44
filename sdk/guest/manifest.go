package guest

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Manifest tells the host, in JSON, what the module implements.
func Manifest() []byte {
	j := &json.Writer{}
	j.Open('{').Key("abi").Int(abi.Version).Key("module").Text(module).Key("version").Text(version)
	counterList(j)
	j.Key("policies").Open('[')
	for _, p := range registered {
		p.manifest(j)
	}
	return j.Close(']').Close('}').Bytes()
}

func (p *Policy) manifest(j *json.Writer) {
	j.Open('{').Key("name").Text(p.Name).Key("kind").Text(string(p.Kind)).Member("description", p.Description)
	j.Key("reads").Open('[')
	for i, name := range abi.GroupNames {
		if p.Reads&(1<<i) != 0 {
			j.Text(name)
		}
	}
	j.Close(']')
	p.skipDependsOn(j)
	if p.ReplicasEqual || p.Reads&abi.Pods == 0 {
		j.Key("replicasEqual").Bool(true)
	}
	j.Key("scope").Text([...]string{"row", "set"}[p.Scope&1])
	if p.Kind == KindPriority {
		j.Key("normalize").Text(abi.NormalizationNames[p.Normalize&3])
	}
	if p.ConfigSchema != "" {
		j.Key("configSchema").Value(p.ConfigSchema)
	}
	if len(p.ConditionTypes) > 0 {
		j.Key("conditionTypes").Texts(p.ConditionTypes)
	}
	observes(j, p.Observe)
	if p.Kind == KindController {
		j.Key("parent")
		p.Parent.AppendTo(j)
		kinds(j, "children", p.Children)
		kinds(j, "related", p.Related)
		if p.Seed {
			j.Key("seed").Bool(true)
		}
	}
	j.Close('}')
}

func (p *Policy) skipDependsOn(j *json.Writer) {
	if p.SkipDependsOn == 0 {
		return
	}
	j.Key("skipDependsOn").Open('[')
	for i, name := range abi.GroupNames {
		if p.SkipDependsOn&(1<<i) != 0 {
			j.Text(name)
		}
	}
	if p.SkipDependsOn&abi.PodTerms != 0 {
		j.Text("pods.terms")
	}
	j.Close(']')
}

func kinds(j *json.Writer, key string, list []reconcile.Kind) {
	if len(list) == 0 {
		return
	}
	j.Key(key).Open('[')
	for i := range list {
		list[i].AppendTo(j)
	}
	j.Close(']')
}

// manifestReasons is the table of reasons from a place on.
func manifestReasons(list []Verdict) []byte {
	j := &json.Writer{}
	j.Open('[')
	for _, v := range list {
		j.Open('{').Key("text").Text(v.reason)
		if v.final {
			j.Key("final").Bool(true)
		}
		j.Close('}')
	}
	return j.Close(']').Bytes()
}
