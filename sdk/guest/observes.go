package guest

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/json"
)

func observes(j *json.Writer, list []abi.Observe) {
	if len(list) == 0 {
		return
	}
	j.Key("observe").Open('[')
	for i := range list {
		o := &list[i]
		j.Open('{').Key("name").Text(o.Name).Key("kind").Text(o.Kind)
		j.Member("scheme", o.Scheme).Member("path", o.Path).Member("selector", o.Selector).Member("namespace", o.Namespace)
		j.Member("resource", o.Resource).Member("condition", o.Condition)
		port(j, o.Port)
		headers(j, o.Headers)
		number(j, "timeoutSeconds", int64(o.TimeoutSeconds))
		j.Close('}')
	}
	j.Close(']')
}

func port(j *json.Writer, p abi.Port) {
	if n, ok := p.Number(); ok {
		number(j, "port", int64(n))
		return
	}
	j.Member("port", string(p))
}

func headers(j *json.Writer, list []abi.HTTPHeader) {
	if len(list) == 0 {
		return
	}
	j.Key("httpHeaders").Open('[')
	for i := range list {
		j.Open('{').Key("name").Text(list[i].Name).Key("value").Text(list[i].Value).Close('}')
	}
	j.Close(']')
}

func number(j *json.Writer, key string, n int64) {
	if n != 0 {
		j.Key(key).Int(n)
	}
}
