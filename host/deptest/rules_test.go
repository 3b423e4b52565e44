package deptest

const module = "github.com/berth-dev/berth"

// A rule speaks of the packages in folder (and below), except those under one
// of the folders in but, for which stricter or wider rules stand by themselves.
type rule struct {
	folder string
	but    []string
	// may, if set, lists the folders of this module that may be imported; the
	// room's own packages may always import each other.
	may []string
	// only, if set, lists the modules and packages of others that may be
	// imported; the standard library is always allowed.
	only []string
	// never lists import paths (of this module: folders) that must not be
	// reached, not even through others.
	never   []string
	because string
}

var nothing = []string{}

var rules = []rule{
	{
		folder: "abi", may: nothing, only: []string{"github.com/google/flatbuffers"},
		because: "the contract is compiled into every guest: it needs the schema's runtime and nothing else",
	},
	{
		folder: "sdk", but: []string{"sdk/policytest"},
		may: []string{"abi"}, only: []string{"github.com/google/flatbuffers"},
		because: "policy authors compile it with TinyGo, which does not swallow much",
	},
	{
		folder: "sdk/json", may: []string{"sdk/internal/text"}, only: nothing,
		because: "it reads and writes JSON, whatever that is about",
	},
	{
		folder: "sdk/facts", may: []string{"abi", "sdk/internal/text", "sdk/json"}, only: []string{"github.com/google/flatbuffers"},
		because: "facts are what a host tells: who asks for them, and what is answered, is above them",
	},
	{
		folder: "sdk/row", may: []string{"abi", "sdk/facts", "sdk/internal/text"}, only: []string{"github.com/google/flatbuffers"},
		because: "a table of nodes holds facts and judges nothing",
	},
	{
		folder: "sdk/gate", may: []string{"abi", "sdk/facts", "sdk/json"}, only: []string{"github.com/google/flatbuffers"},
		because: "it is what a gate is asked and answers: how it is registered and called is above it",
	},
	{
		folder: "sdk/reconcile", may: []string{"abi", "sdk/facts", "sdk/json"}, only: []string{"github.com/google/flatbuffers"},
		because: "it is what a controller is asked and answers: how it is registered and called is above it",
	},
	{
		folder: "sdk/guest", may: []string{"abi", "sdk/facts", "sdk/gate", "sdk/json", "sdk/reconcile", "sdk/row"}, only: []string{"github.com/google/flatbuffers"},
		because: "the faces that beginners see are built on it, and it knows none of them",
	},
	{
		folder: "sdk/policytest", may: []string{"abi", "sdk", "host/policy/engine", "host/policy/vet", "host/policy/wire"},
		because: "it runs an author's table natively and as wasm, and needs a sandbox for it, not a host",
	},
	{
		folder: "policies-wasm", may: []string{"abi", "sdk"}, only: nothing,
		because: "the built-in policies are guests like those of strangers: what they need, the SDK must offer",
	},
	{
		folder: "host/store", may: nothing,
		never:   []string{"github.com/tetratelabs/wazero", "github.com/labstack/echo/v4"},
		because: "it keeps objects of any kind and knows nobody who uses it",
	},
	{
		folder: "host/journal", may: nothing, only: nothing,
		because: "it keeps lines of whatever its users mean by them",
	},
	{
		folder: "host/auth", never: []string{"host/policy/engine", "host/schedule", "nodeagent", "github.com/tetratelabs/wazero"},
		because: "who you are and what you may do is decided from stored objects alone",
	},
	{
		folder: "host/api", but: []string{"host/api/berthapi"},
		never:   []string{"host/schedule", "host/policy/engine", "nodeagent", "github.com/tetratelabs/wazero"},
		because: "the API serves objects; who acts on them watches, like any other client",
	},
	{
		folder: "host/api/berthapi", never: []string{"nodeagent"},
		because: "it answers from what the scheduler and the policies tell, in handlers that the API routes to",
	},
	{
		folder: "host/console", may: []string{"host/api", "host/explain", "host/schedule", "host/store", "nodeagent/reach"},
		never:   []string{"host/policy/engine", "nodeagent/nft", "nodeagent/runtime", "github.com/google/nftables", "github.com/tetratelabs/wazero"},
		because: "it shows what the scheduler tells and what is stored to who may see it: all else its pages ask of the API, as any client",
	},
	{
		folder: "host/policy/vet", may: nothing, only: nothing,
		because: "bytes in, bytes out: what judges foreign code must be small enough to read whole",
	},
	{
		folder: "host/policy/engine", may: []string{"host/policy/vet"},
		only:    []string{"github.com/tetratelabs/wazero", "golang.org/x/sys"},
		because: "it knows bytes and fuel, and no pods",
	},
	{
		folder: "host/policy/v1alpha1", may: nothing,
		because: "all that stands on the API's types would stand on what they import",
	},
	{
		folder: "host/policy/breaker", may: nothing, only: nothing,
		because: "times go in: it counts failures, of whatever",
	},
	{
		folder: "host/policy/wire", may: []string{"abi", "host/schedule"},
		because: "it puts the scheduler's objects into records, and is asked by guests' hosts and by authors' tests",
	},
	{
		folder: "host/policy/trial", may: []string{"abi", "host/policy/engine", "host/policy/module", "host/policy/sandbox", "host/policy/v1alpha1", "host/schedule"},
		because: "it compares answers: what becomes of who gave them is rollout's, and which set they are in the loader's",
	},
	{
		folder: "host/policy/rollout", may: []string{"abi", "host/policy/v1alpha1"}, only: []string{"k8s.io/apimachinery"},
		because: "what becomes of a Policy is decided from plain values: who loads, asks and waits is above it",
	},
	{
		folder: "host/policy/module", may: []string{"abi", "host/policy/engine", "host/policy/v1alpha1", "host/policy/vet", "host/store"},
		because: "a module is bytes, who signed them, and who names them: what is decided by it is not its business",
	},
	{
		folder: "host/policy/sandbox", may: []string{"abi", "host/policy/breaker", "host/policy/engine", "host/policy/v1alpha1", "host/policy/wire", "host/schedule"},
		because: "a guest is run and judged without knowing which objects, sets and profiles it serves",
	},
	{
		folder:  "host/schedule",
		never:   []string{"host/policy", "host/api", "nodeagent", "github.com/tetratelabs/wazero", "github.com/labstack/echo/v4"},
		because: "it is a pure core: a predicate is a small interface, and that guests stand behind it is not its business",
	},
	{
		folder: "host/explain", never: []string{"github.com/tetratelabs/wazero", "nodeagent"},
		because: "a past decision is derived from its trace by the code that made it",
	},
	{
		folder: "nodeagent/forward", may: nothing, only: nothing,
		because: "it is the words between who knows Services and policies, and who knows the kernel",
	},
	{
		folder: "nodeagent/service", may: []string{"nodeagent/forward"},
		never:   []string{"github.com/google/nftables", "github.com/vishvananda/netlink", "k8s.io/client-go"},
		because: "what becomes of a connection is worked out from plain objects, and is tested without a kernel",
	},
	{
		folder: "host/network/balancer", may: nothing,
		never:   []string{"host/store", "k8s.io/client-go"},
		because: "who gets which address is worked out from plain objects",
	},
	{
		folder: "nodeagent/policy", may: []string{"nodeagent/forward"},
		never:   []string{"github.com/google/nftables", "github.com/vishvananda/netlink", "k8s.io/client-go"},
		because: "what policies allow is worked out from plain objects, and is held against the API's words without a kernel",
	},
	{
		folder: "nodeagent/reach", may: []string{"nodeagent/forward", "nodeagent/policy", "nodeagent/service"},
		never:   []string{"github.com/google/nftables", "github.com/vishvananda/netlink", "k8s.io/client-go"},
		because: "it says what happens, by what makes it happen",
	},
	{
		folder: "nodeagent/nft", may: []string{"nodeagent/forward"},
		never:   []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"},
		because: "it knows elements, and no Services",
	},
	{
		folder: "nodeagent/dns", may: nothing, never: []string{"k8s.io/client-go"},
		because: "services and slices are put into it: who follows them, and whose pods ask, is the agent's business",
	},
	{
		folder: "nodeagent", but: []string{"nodeagent/forward", "nodeagent/service", "nodeagent/policy", "nodeagent/reach", "nodeagent/nft"}, may: nothing,
		never:   []string{"host", "github.com/tetratelabs/wazero", "github.com/dgraph-io/badger/v4"},
		because: "it runs on machines of its own and reaches the host by HTTP only",
	},
}

// An owned library is imported by its owner's folders alone, so that what it
// drags in, and what it would take to replace it, stays in one room.
type ownership struct {
	library string
	by      []string
	because string
}

var owned = []ownership{
	{"github.com/tetratelabs/wazero", []string{"host/policy/engine"}, "the sandbox is opened in one place"},
	{"github.com/dgraph-io/badger/v4", []string{"host/store/badger"}, "the engine can be exchanged"},
	{"github.com/labstack/echo/v4", []string{"host/api"}, "only the API speaks HTTP to clients"},
	{"github.com/containerd/containerd/v2", []string{"nodeagent/runtime/containerd", "nodeagent/image", "host/cmd/bench"}, "the runtime is a seam with a fake beside it, and the bench measures it alone"},
	{"github.com/containernetworking/cni", []string{"nodeagent/network/cni", "host/cmd/bench"}, "the network is a seam with a fake beside it, and the bench measures it alone"},
	{"github.com/google/nftables", []string{"nodeagent/nft"}, "rules of the kernel are laid in one place"},
	{"github.com/vishvananda/netlink", []string{"nodeagent/network", "nodeagent/dns", "nodeagent/nft"}, "who changes the machine's network stands in one list"},
	{"github.com/mdlayher/arp", []string{"nodeagent/announce"}, "neighbours are told in one place"},
	{"github.com/mdlayher/ndp", []string{"nodeagent/announce"}, "neighbours are told in one place"},
	{"github.com/godbus/dbus/v5", []string{"nodeagent/logind"}, "the machine's other services are asked in one place"},
	{"github.com/miekg/dns", []string{"nodeagent/dns"}, "names are answered in one place"},
	{"github.com/spf13/cobra", []string{"host/cmd"}, "a library takes a config, not flags"},
	{"host/cmd", []string{"host/cmd"}, "a command is run, not imported"},
}

// tops are the only folders with packages in them.
var tops = []string{"abi", "sdk", "policies-wasm", "host", "nodeagent", "examples"}
