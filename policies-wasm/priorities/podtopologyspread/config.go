package podtopologyspread

import (
	"errors"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
)

const schema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"defaultingType":{"enum":["System","List"],"default":"System",` +
	`"description":"whether pods without constraints get kube-scheduler's own or those of defaultConstraints"},` +
	`"defaultConstraints":{"type":"array","maxItems":16,"items":{"type":"object","additionalProperties":false,` +
	`"required":["topologyKey","maxSkew"],"properties":{` +
	`"topologyKey":{"type":"string","minLength":1},"maxSkew":{"type":"integer","minimum":1,"maximum":2147483647},` +
	`"whenUnsatisfiable":{"enum":["ScheduleAnyway"]}}}}}}`

func (p *policy) configure(c sdk.Config, syms *facts.Symbols) error {
	if err := c.OnlyKeys("defaultingType", "defaultConstraints"); err != nil {
		return err
	}
	list, err := c.List("defaultConstraints")
	if err != nil {
		return err
	}
	switch c.String("defaultingType", "System") {
	case "System":
		if len(list) > 0 {
			return errors.New("defaultConstraints need defaultingType: List")
		}
		p.system = true
		p.add(p.hostname, 3)
		p.add(syms.Intern("topology.kubernetes.io/zone"), 5)
		return nil
	case "List":
		return p.list(list, syms)
	}
	return errors.New("defaultingType must be System or List")
}

func (p *policy) list(items []sdk.Config, syms *facts.Symbols) error {
	if len(items) > 16 {
		return errors.New("at most 16 defaultConstraints")
	}
	for _, i := range items {
		if err := i.OnlyKeys("topologyKey", "maxSkew", "whenUnsatisfiable"); err != nil {
			return err
		}
		key := i.String("topologyKey", "")
		skew, err := i.Int("maxSkew", 1, 1<<31-1, 0)
		if err != nil {
			return err
		}
		if key == "" || skew == 0 || i.String("whenUnsatisfiable", "ScheduleAnyway") != "ScheduleAnyway" {
			return errors.New("a default constraint needs topologyKey and maxSkew, and is ScheduleAnyway")
		}
		p.add(syms.Intern(key), int32(skew))
	}
	return nil
}

func (p *policy) add(key facts.Symbol, skew int32) {
	p.defaults = append(p.defaults, facts.SpreadConstraint{
		MaxSkew: skew, MinDomains: 1, TopologyKey: key, Soft: true, HonorAffinity: true,
	})
}
