// Package observe names what a gate may ask of the host, to be given to
// sdk.Observe:
//
//	sdk.Observe(observe.HTTPGet("health", 8080, "/healthz"), observe.PodsReady("database", "app=db"))
package observe

import (
	"strconv"

	"github.com/berth-dev/berth/abi"
)

// PodPort is a port's number, or the name that one of the pod's containers
// gives it.
type PodPort interface{ int | int32 | string }

func podPort[P PodPort](port P) abi.Port {
	switch p := any(port).(type) {
	case string:
		return abi.Port(p)
	case int:
		return abi.Port(strconv.Itoa(p))
	case int32:
		return abi.Port(strconv.Itoa(int(p)))
	}
	return ""
}

// HTTPGet asks the pod's address by HTTP. OK is a status of 200 to 399, which
// stands in Code.
func HTTPGet[P PodPort](name string, port P, path string, more ...Option) abi.Observe {
	return observed(abi.Observe{Name: name, Kind: abi.ObserveHTTP, Port: podPort(port), Path: path}, more)
}

// TCPConnect connects to a port of the pod's address. OK is a connection.
func TCPConnect[P PodPort](name string, port P, more ...Option) abi.Observe {
	return observed(abi.Observe{Name: name, Kind: abi.ObserveTCP, Port: podPort(port)}, more)
}

// Option says more about how the host looks.
type Option func(*abi.Observe)

// HTTPS has HTTPGet ask by TLS; the certificate is not checked, as in a probe.
func HTTPS() Option { return func(o *abi.Observe) { o.Scheme = abi.SchemeHTTPS } }

// Header has HTTPGet send a header; Host says which site of a server is meant.
func Header(name, value string) Option {
	return func(o *abi.Observe) { o.Headers = append(o.Headers, abi.HTTPHeader{Name: name, Value: value}) }
}

// TimeoutSeconds bounds an attempt: 1 if not said, 10 at most.
func TimeoutSeconds(n int32) Option { return func(o *abi.Observe) { o.TimeoutSeconds = n } }

func observed(o abi.Observe, more []Option) abi.Observe {
	for _, set := range more {
		set(&o)
	}
	return o
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
