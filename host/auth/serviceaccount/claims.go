package serviceaccount

import (
	"encoding/json"
	"fmt"
	"time"
)

// claims are what a token says, in the names of JWT and of Kubernetes.
type claims struct {
	Issuer     string   `json:"iss"`
	Subject    string   `json:"sub"`
	Audience   audience `json:"aud"`
	Expiry     int64    `json:"exp"`
	NotBefore  int64    `json:"nbf"`
	IssuedAt   int64    `json:"iat"`
	ID         string   `json:"jti"`
	Kubernetes private  `json:"kubernetes.io"`
}

type private struct {
	Namespace string `json:"namespace"`
	Account   ref    `json:"serviceaccount"`
	Pod       *ref   `json:"pod,omitempty"`
	Secret    *ref   `json:"secret,omitempty"`
	Node      *ref   `json:"node,omitempty"`
}

type ref struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// audience is one string or several, as JWT allows both.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audience{one}
		return nil
	}
	var all []string
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("aud: %w", err)
	}
	*a = all
	return nil
}

// skew forgives clocks that were set back since the token was made.
const skew = time.Minute

func (c *claims) holdsAt(now time.Time) error {
	if c.Expiry == 0 || now.Unix() >= c.Expiry {
		return fmt.Errorf("the token expired at %s", time.Unix(c.Expiry, 0).UTC().Format(time.RFC3339))
	}
	if now.Add(skew).Unix() < c.NotBefore {
		return fmt.Errorf("the token is not valid before %s", time.Unix(c.NotBefore, 0).UTC().Format(time.RFC3339))
	}
	return nil
}
