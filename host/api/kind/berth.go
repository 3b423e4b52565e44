package kind

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	policyv1alpha1 "github.com/berth-dev/berth/host/policy/v1alpha1"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxCallMilliseconds is the longest call that a Policy may ask for.
const MaxCallMilliseconds = 1000

// MaxPolicyConfig is the longest config, in bytes of JSON: a Policy's status
// repeats those of its previous revisions.
const MaxPolicyConfig = 256 << 10

// MaxSignatures is how many a Module may have.
const MaxSignatures = 16

// MaxPolicyMemory is the most memory that a Policy may ask for, in bytes.
const MaxPolicyMemory = 1 << 30

var inBerth = []string{"berth"}

func berthKinds() []Kind {
	v1alpha1 := served(policyv1alpha1.GroupVersion)
	return []Kind{
		{Name: "Module", Resource: "modules", Served: v1alpha1, Categories: inBerth, Strategy: modules,
			Columns: moduleColumns, Subresources: []Subresource{statusPart(moduleStatus)}},
		{Name: "Policy", Resource: "policies", Served: v1alpha1, Categories: inBerth, Strategy: policies,
			Columns: policyColumns, Subresources: []Subresource{statusPart(policyStatus)}},
		{Name: "Profile", Resource: "profiles", Served: v1alpha1, Categories: inBerth, Strategy: profiles,
			Columns: profileColumns, Subresources: []Subresource{statusPart(profileStatus)}},
	}
}

var digestText = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func validateMeta(m *metav1.ObjectMeta) field.ErrorList {
	return validation.ValidateObjectMeta(m, false, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

func validateMetaUpdate(m, old *metav1.ObjectMeta) field.ErrorList {
	return validation.ValidateObjectMetaUpdate(m, old, field.NewPath("metadata"))
}

var modules = typed(rules[*policyv1alpha1.Module]{
	clusterScoped: true,
	onCreate:      func(_ context.Context, m *policyv1alpha1.Module) { m.Generation = 1 },
	onUpdate: func(_ context.Context, m, old *policyv1alpha1.Module) {
		m.Status = old.Status
		sameBytes(m, old)
	},
	validate: validateModule,
	validateUpdate: func(_ context.Context, m, old *policyv1alpha1.Module) field.ErrorList {
		errs := validateMetaUpdate(&m.ObjectMeta, &old.ObjectMeta)
		path := field.NewPath("spec")
		errs = append(errs, validation.ValidateImmutableField(m.Spec.Digest, old.Spec.Digest, path.Child("digest"))...)
		errs = append(errs, validation.ValidateImmutableField(m.Spec.Size, old.Spec.Size, path.Child("size"))...)
		if n := len(m.Spec.Signatures); n > MaxSignatures {
			errs = append(errs, field.TooMany(path.Child("signatures"), n, MaxSignatures))
		}
		if len(m.Spec.Wasm) > 0 {
			errs = append(errs, field.Forbidden(path.Child("wasm"), "a Module is what its digest says: create another one for other bytes"))
		}
		return errs
	},
})

// sameBytes takes the bytes away that came once more, as they do when a file is
// applied again: the host has them.
func sameBytes(m, old *policyv1alpha1.Module) {
	if len(m.Spec.Wasm) == 0 {
		return
	}
	if sum := sha256.Sum256(m.Spec.Wasm); "sha256:"+hex.EncodeToString(sum[:]) != old.Spec.Digest {
		return
	}
	m.Spec.Wasm = nil
	if m.Spec.Digest == "" {
		m.Spec.Digest = old.Spec.Digest
	}
	if m.Spec.Size == 0 {
		m.Spec.Size = old.Spec.Size
	}
}

var moduleStatus = typed(rules[*policyv1alpha1.Module]{
	clusterScoped: true,
	onUpdate:      func(_ context.Context, m, old *policyv1alpha1.Module) { m.Spec = old.Spec },
	validateUpdate: func(_ context.Context, m, old *policyv1alpha1.Module) field.ErrorList {
		return validateMetaUpdate(&m.ObjectMeta, &old.ObjectMeta)
	},
})

func validateModule(_ context.Context, m *policyv1alpha1.Module) field.ErrorList {
	errs := validateMeta(&m.ObjectMeta)
	path := field.NewPath("spec")
	if !digestText.MatchString(m.Spec.Digest) {
		errs = append(errs, field.Invalid(path.Child("digest"), m.Spec.Digest, `must be "sha256:" and 64 hexadecimal digits`))
	}
	if n := len(m.Spec.Signatures); n > MaxSignatures {
		errs = append(errs, field.TooMany(path.Child("signatures"), n, MaxSignatures))
	}
	if m.Spec.Size < 0 {
		errs = append(errs, field.Invalid(path.Child("size"), m.Spec.Size, "must not be negative"))
	}
	return errs
}

var policies = typed(rules[*policyv1alpha1.Policy]{
	clusterScoped: true,
	onCreate: func(_ context.Context, p *policyv1alpha1.Policy) {
		p.Generation, p.Status = 1, policyv1alpha1.PolicyStatus{}
	},
	onUpdate: func(_ context.Context, p, old *policyv1alpha1.Policy) {
		p.Status = old.Status
		if !apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
			p.Generation = old.Generation + 1
		}
	},
	validate: func(_ context.Context, p *policyv1alpha1.Policy) field.ErrorList {
		return append(validateMeta(&p.ObjectMeta), validatePolicySpec(&p.Spec, field.NewPath("spec"))...)
	},
	validateUpdate: func(_ context.Context, p, old *policyv1alpha1.Policy) field.ErrorList {
		return append(validateMetaUpdate(&p.ObjectMeta, &old.ObjectMeta), validatePolicySpec(&p.Spec, field.NewPath("spec"))...)
	},
})

var policyStatus = typed(rules[*policyv1alpha1.Policy]{
	clusterScoped: true,
	onUpdate: func(_ context.Context, p, old *policyv1alpha1.Policy) {
		p.Spec, p.Status.Current = old.Spec, old.Status.Current // the host loads it where the spec is refused
	},
	validateUpdate: func(_ context.Context, p, old *policyv1alpha1.Policy) field.ErrorList {
		return validateMetaUpdate(&p.ObjectMeta, &old.ObjectMeta)
	},
})

func validatePolicySpec(s *policyv1alpha1.PolicySpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Module == "" {
		errs = append(errs, field.Required(path.Child("module"), "name a Module, or its digest"))
	}
	switch s.Mode {
	case "", policyv1alpha1.Enforce, policyv1alpha1.Shadow, policyv1alpha1.Off:
	default:
		errs = append(errs, field.NotSupported(path.Child("mode"), s.Mode,
			[]policyv1alpha1.Mode{policyv1alpha1.Enforce, policyv1alpha1.Shadow, policyv1alpha1.Off}))
	}
	switch s.FailureMode {
	case "", policyv1alpha1.Open, policyv1alpha1.Closed:
	default:
		errs = append(errs, field.NotSupported(path.Child("failureMode"), s.FailureMode,
			[]policyv1alpha1.FailureMode{policyv1alpha1.Closed, policyv1alpha1.Open}))
	}
	if s.Config != nil && len(s.Config.Raw) > MaxPolicyConfig {
		errs = append(errs, field.TooLong(path.Child("config"), "", MaxPolicyConfig))
	}
	if l := s.Limits; l != nil {
		if l.MemoryBytes < 0 || l.MemoryBytes > MaxPolicyMemory {
			errs = append(errs, field.Invalid(path.Child("limits", "memoryBytes"), l.MemoryBytes, inclusive(0, MaxPolicyMemory)))
		}
		if l.CallMilliseconds < 0 || l.CallMilliseconds > MaxCallMilliseconds {
			errs = append(errs, field.Invalid(path.Child("limits", "callMilliseconds"), l.CallMilliseconds, inclusive(0, MaxCallMilliseconds)))
		}
	}
	return append(errs, validateCanary(s.Canary, path.Child("canary"))...)
}

func validateCanary(c *policyv1alpha1.Canary, path *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	var errs field.ErrorList
	if c.Module == "" {
		errs = append(errs, field.Required(path.Child("module"), "name the Module on trial"))
	}
	if c.Share < 1 || c.Share > 100 {
		errs = append(errs, field.Invalid(path.Child("share"), c.Share, inclusive(1, 100)))
	}
	if c.MaxRefusals == nil {
		return errs
	}
	if n, err := intstr.GetScaledValueFromIntOrPercent(c.MaxRefusals, 100, false); err != nil || n < 0 || n > 100 {
		errs = append(errs, field.Invalid(path.Child("maxRefusals"), c.MaxRefusals.String(), `must be 0 to 100, or a percentage such as "5%"`))
	}
	return errs
}

var profiles = typed(rules[*policyv1alpha1.Profile]{
	clusterScoped: true,
	onCreate: func(_ context.Context, p *policyv1alpha1.Profile) {
		p.Generation, p.Status = 1, policyv1alpha1.ProfileStatus{}
	},
	onUpdate: func(_ context.Context, p, old *policyv1alpha1.Profile) {
		p.Status = old.Status
		if !apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
			p.Generation = old.Generation + 1
		}
	},
	validate: func(_ context.Context, p *policyv1alpha1.Profile) field.ErrorList {
		return append(validateMeta(&p.ObjectMeta), validateProfileSpec(&p.Spec, field.NewPath("spec"))...)
	},
	validateUpdate: func(_ context.Context, p, old *policyv1alpha1.Profile) field.ErrorList {
		return append(validateMetaUpdate(&p.ObjectMeta, &old.ObjectMeta), validateProfileSpec(&p.Spec, field.NewPath("spec"))...)
	},
})

var profileStatus = typed(rules[*policyv1alpha1.Profile]{
	clusterScoped: true,
	onUpdate:      func(_ context.Context, p, old *policyv1alpha1.Profile) { p.Spec = old.Spec },
	validateUpdate: func(_ context.Context, p, old *policyv1alpha1.Profile) field.ErrorList {
		return validateMetaUpdate(&p.ObjectMeta, &old.ObjectMeta)
	},
})

func validateProfileSpec(s *policyv1alpha1.ProfileSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	unique := func(name string, at *field.Path) {
		switch {
		case name == "":
			errs = append(errs, field.Required(at, "name a Policy"))
		case seen[name]:
			errs = append(errs, field.Duplicate(at, name))
		}
		seen[name] = true
	}
	for i, p := range s.Predicates {
		unique(p.Name, path.Child("predicates").Index(i).Child("name"))
	}
	clear(seen)
	for i, p := range s.Priorities {
		at := path.Child("priorities").Index(i)
		unique(p.Name, at.Child("name"))
		if p.Weight < 0 {
			errs = append(errs, field.Invalid(at.Child("weight"), p.Weight, "must not be negative"))
		}
	}
	clear(seen)
	for i, g := range s.Groups {
		unique(g.Name, path.Child("groups").Index(i).Child("name"))
	}
	for i, g := range s.Groups {
		clear(seen)
		for j, member := range g.Members {
			unique(member, path.Child("groups").Index(i).Child("members").Index(j))
		}
	}
	return errs
}

func inclusive(lo, hi int) string { return utilvalidation.InclusiveRangeError(lo, hi) }
