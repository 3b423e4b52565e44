package sdk

import "github.com/berth-dev/berth/abi"

// Manifest tells the host, in JSON, what the module implements.
func Manifest() []byte {
	j := &JSON{}
	j.Open('{').Key("abi").Int(abi.Version).Key("module").Text(module).Key("version").Text(version)
	counterList(j)
	j.Key("policies").Open('[')
	for _, p := range registered {
		p.manifest(j)
	}
	return j.Close(']').Close('}').Bytes()
}

func (p *Policy) manifest(j *JSON) {
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
		j.Key("conditionTypes")
		texts(j, p.ConditionTypes)
	}
	observes(j, p.Observe)
	if p.Kind == KindController {
		j.Key("parent")
		p.Parent.manifest(j)
		kinds(j, "children", p.Children)
		kinds(j, "related", p.Related)
	}
	j.Close('}')
}

func (p *Policy) skipDependsOn(j *JSON) {
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

func kinds(j *JSON, key string, list []ObjectKind) {
	if len(list) == 0 {
		return
	}
	j.Key(key).Open('[')
	for i := range list {
		list[i].manifest(j)
	}
	j.Close(']')
}

func (k *ObjectKind) manifest(j *JSON) {
	j.Open('{').Key("apiVersion").Text(k.APIVersion).Key("kind").Text(k.Kind).Key("fields")
	texts(j, k.Fields)
	uids(j, "facts", k.Facts)
	j.Member("by", k.By).Member("path", k.Path)
	uids(j, "writes", k.Writes)
	if k.Gone {
		j.Key("gone").Bool(true)
	}
	j.Close('}')
}

func texts(j *JSON, list []string) {
	j.Open('[')
	for _, t := range list {
		j.Text(t)
	}
	j.Close(']')
}

// manifestReasons is the table of reasons from a place on.
func manifestReasons(list []Verdict) []byte {
	j := &JSON{}
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

// Reasons is the table of reasons from a place on, as JSON.
func (in *Instance) Reasons(from uint32) []byte {
	table := in.reasons.table
	if from == 0 {
		from = 1
	}
	if uint64(from) > uint64(len(table)) {
		from = uint32(len(table))
	}
	return manifestReasons(table[from:])
}

// Explain names all the reasons that hold for the pod of the cycle on a row.
func (in *Instance) Explain(row uint32) ([]byte, error) {
	if in.filter == nil {
		return nil, errKind
	}
	if !in.asked {
		return nil, errNoPod
	}
	if row >= uint32(len(in.rows.Live)) || !in.rows.Live[row] {
		return nil, errRow
	}
	var found []Verdict
	add := func(v Verdict) { found = append(found, v) }
	if in.explain != nil {
		in.explain.Explain(int32(row), add)
		return manifestReasons(found), nil
	}
	if id := in.judge(int32(row)); id != 0 {
		add(in.reasons.Get(id))
	}
	return manifestReasons(found), nil
}

func (in *Instance) judge(slot int32) ReasonID {
	in.row[0] = slot
	in.verdicts = reuse(in.verdicts, 1)
	in.filter.FilterRows(in.row[:], in.verdicts)
	return in.verdicts[0]
}
