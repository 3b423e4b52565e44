package sdk

import "github.com/berth-dev/berth/abi"

// Observe says what a gate wants to know of each pod. A guest can reach
// nothing: the host looks, and passes what it saw as the pod's Observations.
// The setting "observe" of the policy, if there is one, takes its place.
func Observe(wants ...abi.Observe) Option {
	return func(p *Policy) { p.Observe = append(p.Observe, wants...) }
}

// HTTPGet asks the pod's address by HTTP. OK is a status of 200 to 399, which
// stands in Code.
func HTTPGet(name string, port int32, path string) abi.Observe {
	return abi.Observe{Name: name, Kind: abi.ObserveHTTP, Port: port, Path: path}
}

// TCPConnect connects to a port of the pod's address. OK is a connection.
func TCPConnect(name string, port int32) abi.Observe {
	return abi.Observe{Name: name, Kind: abi.ObserveTCP, Port: port}
}

// PodsReady looks at the pods of a label selector such as "app=db" in the
// pod's own namespace. OK says that there are some and all of them are ready;
// Code is how many are.
func PodsReady(name, selector string) abi.Observe {
	return abi.Observe{Name: name, Kind: abi.ObservePods, Selector: selector}
}

// Objects looks at the objects of a resource, such as "services", by a label
// selector in the pod's own namespace. OK says that there are some; Code is
// how many.
func Objects(name, resource, selector string) abi.Observe {
	return abi.Observe{Name: name, Kind: abi.ObserveObjects, Resource: resource, Selector: selector}
}

// NodeCondition looks at a condition of the pod's node, such as "Ready". OK
// says that it is True.
func NodeCondition(name, condition string) abi.Observe {
	return abi.Observe{Name: name, Kind: abi.ObserveNode, Condition: condition}
}

func observes(j *JSON, list []abi.Observe) {
	if len(list) == 0 {
		return
	}
	j.Key("observe").Open('[')
	for i := range list {
		o := &list[i]
		j.Open('{').Key("name").Text(o.Name).Key("kind").Text(o.Kind)
		j.Member("path", o.Path).Member("selector", o.Selector).Member("namespace", o.Namespace)
		j.Member("resource", o.Resource).Member("condition", o.Condition)
		number(j, "port", int64(o.Port))
		number(j, "timeoutSeconds", int64(o.TimeoutSeconds))
		j.Close('}')
	}
	j.Close(']')
}

func number(j *JSON, key string, n int64) {
	if n != 0 {
		j.Key(key).Int(n)
	}
}
